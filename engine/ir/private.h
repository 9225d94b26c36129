/* The inside of a bl_ir, for the files of engine/ir only. */
#ifndef BL_IR_PRIVATE_H
#define BL_IR_PRIVATE_H

#include "engine/base/arena.h"
#include "engine/ir/rewrite.h"

#include <pthread.h>

enum { BL_MAX_RULES = 256 }; /* most rows of one built-in rule set */

/* The rules of a set, grouped by the root op of their pattern: entry[begin[op]] to entry[begin[op + 1] - 1], in the order of
 * the set. |needs| is a mask that rejects most rules without matching the pattern: a node whose operands lack a needed op
 * cannot match. */
typedef struct bl_rule_entry {
    const bl_rule *rule;
    uint64_t needs; /* a bit for each op that must occur among the operands, and BL_NEEDS_EQUAL */
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
    /* its rank is 1 and its extents are POISON, so that code that reads the extents of a failed call gets POISON again */
    bl_node poison;
    const bl_node *poison_dim[BL_MAX_DIMS + 2];
    /* The intern table: open addressing, a power of two of entries. This table and the arrays below grow, so they are on the
     * heap and not in the arena. */
    const bl_node **table;
    size_t table_cap;
    /* Indexed by id, all of one capacity: the nodes, and scratch data of graph walks. */
    const bl_node **by_id;
    uint32_t *mark;        /* equal to |epoch|: the current walk has visited the node */
    const bl_node **value; /* the current walk's result for a marked node */
    const bl_node **queue;
    size_t cap, count;
    uint32_t epoch;
    int recombining;            /* depth of recursion of bl_affine_recombine */
    int64_t limit_ns, spent_ns; /* processor time in nanoseconds; limit 0 means none */
    int64_t read_ns;            /* the last reading of the clock of |thread| */
    pthread_t thread;
    const char *doing; /* for an error text: the stage that takes the time, or NULL */
    bl_halt halt;
    uint32_t asked; /* number of nodes requested so far: the clock is read once in many requests */
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

/* Compute the bounds from op, dtype, arg and sources. A VAR keeps the bounds it has. */
void bl_node_set_bounds(bl_node *node);
/* Does a conversion to |to| preserve every value within the bounds of x? */
bool bl_cast_keeps(bl_dtype to, const bl_node *x);
/* The number of lanes of |node| with the sources |src|; |node->lanes| is its old number, or 1. */
uint8_t bl_node_lanes(const bl_node *node, const bl_node *const *src);
/* The first simplification that matches a scalar ALU node, which need not be interned. NULL if none matches. */
const bl_node *bl_scalar_simplify(bl_ir *ir, const bl_node *node);
/* The result of the first rule that matches |node|, whose sources are simplified already; NULL if none matches. */
const bl_node *bl_rules_apply(bl_ir *ir, const bl_rule_table *table, const bl_node *node);
void bl_rule_table_init(bl_rule_table *table, const bl_ruleset *set);

/* A constant in the shape and dtype of |like|. */
const bl_node *bl_const_like(bl_ir *ir, const bl_node *like, bl_scalar value);

/* Rules on the affine normal form of INDEX expressions (affine.c). */
const bl_node *bl_fn_sum(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_idiv(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_mod(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_less(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_compare_numbers(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_equal(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_extremum(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_conjunction(bl_ir *ir, const bl_match *m);
const bl_node *bl_fn_not_less(bl_ir *ir, const bl_match *m);

int64_t bl_common_divisor(int64_t a, int64_t b); /* the greatest; b >= 0 */
/* Can bl_extent_eval evaluate |extent|? */
bool bl_extent_is_simple(const bl_node *extent);

#endif
