/* Rewrite rules as data, and the engine that applies them.
 * A rule is a row: a name, a pattern to find, what to put in its place (a pattern over the same captures, or a function
 * where only code can say it), and a guard.  tests/rules evaluates both sides of every row on odd values. */
#ifndef BL_IR_REWRITE_H
#define BL_IR_REWRITE_H

#include "engine/ir/node.h"

enum { BL_MAX_CAPTURES = 8 };

typedef enum bl_pat_kind {
    BL_PAT_OP,    /* a node of |op| whose sources match in order (either order where op commutes) */
    BL_PAT_ANY,   /* capture |slot|: any node; a second time, the same node */
    BL_PAT_CONST, /* capture |slot|: a constant */
    BL_PAT_VALUE  /* a constant equal to |value| in its own dtype */
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

/* A row is exact, for NaN, infinities, signed zeros and wrapping integers too. */
typedef struct bl_rule {
    const char *name;
    const bl_pat *find;
    const bl_pat *put;                                  /* or NULL and */
    const bl_node *(*fn)(bl_ir *ir, const bl_match *m); /* NULL result: no change */
    bool (*guard)(const bl_match *m);
} bl_rule;

typedef struct bl_ruleset {
    const char *name;
    const bl_rule *rows;
    size_t count;
} bl_ruleset;

extern const bl_ruleset bl_rules_algebra; /* scalar ops of every dtype: rules_algebra.c */
extern const bl_ruleset bl_rules_index;   /* INDEX and bool-of-INDEX expressions, by their bounds: rules_index.c */

/* Replace each root by what both sets make of it and of all below it, tensors too, when nothing fits any more. */
void bl_simplify(bl_ir *ir, int nroots, const bl_node **roots);
/* The same, where each of |tracked| that stands below the roots becomes what it has become there. */
void bl_simplify_tracked(bl_ir *ir, int nroots, const bl_node **roots, int ntracked, const bl_node **tracked);

/* |index| as a sum: its value is the sum of coefficient[i] * term[i], plus *constant.  Returns the number of terms, or -1 if they
 * are more than |max|.  Terms are distinct and not sums. */
int bl_index_terms(const bl_node *index, int max, const bl_node **term, int64_t *coefficient, int64_t *constant);

#endif
