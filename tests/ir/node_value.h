/* Evaluates a scalar expression for given values of its leaves: the reference of all rule tests. */
#ifndef BL_TESTS_NODE_VALUE_H
#define BL_TESTS_NODE_VALUE_H

#include "engine/ir/node.h"

enum { MAX_LEAVES = 16 };

typedef struct leaf_values {
    int count;
    const bl_node *leaf[MAX_LEAVES]; /* RANGE, VAR, LOAD, or any other node */
    bl_scalar value[MAX_LEAVES];
} leaf_values;

bl_scalar node_value(const bl_node *node, const leaf_values *leaves);
int64_t index_value(const bl_node *node, const leaf_values *leaves);
/* Returns a formula for messages, such as "(r0*6 + r1) / 6", in one of several static texts. */
const char *node_formula(const bl_node *node);
/* Whether the bits are equal; all NaNs are equal. */
bool same_value(bl_dtype dtype, bl_scalar a, bl_scalar b);

#endif
