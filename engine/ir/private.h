/* What the files of engine/ir share and nobody else includes: the inside of a bl_ir. */
#ifndef BL_IR_PRIVATE_H
#define BL_IR_PRIVATE_H

#include "engine/base/arena.h"
#include "engine/ir/rewrite.h"

#include <pthread.h>

enum { BL_MAX_RULES = 256 }; /* rows of one built-in set */

/* Rows of a set by the op at the root of their pattern: entry[begin[op]] to entry[begin[op + 1] - 1], in the set's order.
 * A node whose operands lack what |needs| says cannot match the row: most rows go by without a look at the pattern. */
typedef struct bl_rule_entry {
    const bl_rule *rule;
    uint64_t needs; /* bits by op of operands, and BL_NEEDS_EQUAL */
} bl_rule_entry;

typedef struct bl_rule_table {
    uint16_t begin[BL_OP_COUNT + 1];
    bl_rule_entry entry[BL_MAX_RULES];
} bl_rule_table;

#define BL_NEEDS_EQUAL (UINT64_C(1) << 63) /* the first two operands are one node */
_Static_assert(BL_OP_GROUP_ID < 63, "a bit for every op but those of linear kernels, which are no operands here");

struct bl_ir {
    bl_arena *arena;
    bl_err err;
    const char *blame;
    bl_node poison; /* of rank 1 with its own extents all around, so that who looks at those of a bad call meets it again */
    const bl_node *poison_dim[BL_MAX_DIMS + 2];
    /* The intern table, open addressing over a power of two.  On the heap, as what follows: it grows. */
    const bl_node **table;
    size_t table_cap;
    /* By id, all of one capacity: the node, and what a walk notes down. */
    const bl_node **by_id;
    uint32_t *mark;        /* equal to |epoch|: this walk has seen the node */
    const bl_node **value; /* what this walk made of a marked node */
    const bl_node **queue;
    size_t cap, count;
    uint32_t epoch;
    int recombining;            /* how deep in bl_sum_recombine */
    int64_t limit_ns, spent_ns; /* of processor time; limit 0: none */
    int64_t read_ns;            /* the clock of |thread| when it was last read */
    pthread_t thread;
    const char *doing; /* for an error: what takes the time, or NULL */
    bl_halt halt;
    uint32_t asked; /* for nodes, so far: the clock is read now and then */
    bool late;
    const char *const *var_names;
    const int64_t *var_steps;
    int nvar_names;
    const struct bl_scan **scans; /* by number */
    int nscans, cap_scans;
    bl_rule_table algebra, index;
};

static inline bool bl_is_poison(const bl_node *node)
{
    return node->op == BL_OP_POISON;
}

static inline const bl_node *bl_poison(bl_ir *ir)
{
    return &ir->poison;
}

/* Fill in the bounds from op, dtype, arg and sources; those of a VAR stay as given. */
void bl_node_set_bounds(bl_node *node);
/* Does every value between x's bounds survive a conversion to |to| unchanged? */
bool bl_cast_keeps(bl_dtype to, const bl_node *x);
/* Lanes of a node of this op over these sources; |lanes| is what it had, or 1. */
uint8_t bl_node_lanes(const bl_node *node, const bl_node *const *src);
/* The first simplification that fits a scalar ALU node, which need not be interned; NULL if it is simple. */
const bl_node *bl_scalar_simplify(bl_ir *ir, const bl_node *node);
/* The node that the first fitting row makes of |node| (whose sources are already simplified), or NULL. */
const bl_node *bl_rules_apply(bl_ir *ir, const bl_rule_table *table, const bl_node *node);
void bl_rule_table_init(bl_rule_table *table, const bl_ruleset *set);

/* A constant in the shape and dtype of |like|. */
const bl_node *bl_const_like(bl_ir *ir, const bl_node *like, bl_scalar value);

/* Sums: the normal form of INDEX expressions (index_sum.c). */
const bl_node *bl_fn_sum(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_idiv(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_mod(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_less(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_equal(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_extremum(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_conjunction(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_not_less(bl_ir *ir, const bl_match *m);

/* True if an extent is small enough to be evaluated anywhere (bl_extent_eval). */
bool bl_extent_is_simple(const bl_node *extent);

#endif
