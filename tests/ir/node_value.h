/* What a scalar expression is worth when its leaves have given values: the other side of every test of rules. */
#ifndef BL_TESTS_NODE_VALUE_H
#define BL_TESTS_NODE_VALUE_H

#include "engine/ir/node.h"

enum { MAX_LEAVES = 16 };

typedef struct leaf_values {
    int count;
    const bl_node *leaf[MAX_LEAVES]; /* RANGE, VAR, LOAD: any node */
    bl_scalar value[MAX_LEAVES];
} leaf_values;

bl_scalar node_value(const bl_node *node, const leaf_values *leaves);
int64_t index_value(const bl_node *node, const leaf_values *leaves);
/* "(r0*6 + r1) / 6": for messages; one of a few static texts. */
const char *node_formula(const bl_node *node);
/* Same bits, all NaN being one. */
bool same_value(bl_dtype dtype, bl_scalar a, bl_scalar b);

#endif
