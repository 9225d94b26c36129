/* Rewrite rules as data, and the engine that applies them. A rule is a row: a name, a pattern to find, a replacement and a
 * guard. The replacement is a pattern over the same captures, or a function where a pattern cannot express it. tests/rules
 * evaluates both sides of every row on edge-case values. */
#ifndef BL_IR_REWRITE_H
#define BL_IR_REWRITE_H

#include "engine/ir/node.h"

enum { BL_MAX_CAPTURES = 8 };

typedef enum bl_pat_kind {
    BL_PAT_OP,    /* a node of |op| whose sources match in order, or in either order if |op| commutes */
    BL_PAT_ANY,   /* captures any node in |slot|; where a slot occurs twice, both must be the same node */
    BL_PAT_CONST, /* captures a constant in |slot| */
    BL_PAT_VALUE  /* a constant that equals |value| converted to its dtype */
} bl_pat_kind;

typedef struct bl_pat {
    bl_pat_kind kind;
    bl_op op;
    int slot;
    double value;
    int nsrc;
    const struct bl_pat *src[3];
} bl_pat;

typedef struct bl_match {
    const bl_node *at[BL_MAX_CAPTURES];
    const bl_node *root;
} bl_match;

/* A rule must be exact, also for NaN, infinities, signed zeros and wrapping integers. */
typedef struct bl_rule {
    const char *name;
    const bl_pat *find;
    const bl_pat *put;                                  /* NULL: |fn| makes the replacement */
    const bl_node *(*fn)(bl_ir *ir, const bl_match *m); /* returns NULL to decline */
    bool (*guard)(const bl_match *m);
} bl_rule;

typedef struct bl_ruleset {
    const char *name;
    const bl_rule *rows;
    size_t count;
} bl_ruleset;

extern const bl_ruleset bl_rules_algebra; /* scalar ops of every dtype (rules_algebra.c) */
extern const bl_ruleset bl_rules_index;   /* INDEX expressions and comparisons of them, by their bounds (rules_index.c) */

/* Apply both rule sets to each root and to all nodes below it, tensors included, until no rule matches. Replaces the roots. */
void bl_simplify(bl_ir *ir, int nroots, const bl_node **roots);
/* The same, and each node in |tracked| that is below the roots is replaced by its simplified form. */
void bl_simplify_tracked(bl_ir *ir, int nroots, const bl_node **roots, int ntracked, const bl_node **tracked);

#endif
