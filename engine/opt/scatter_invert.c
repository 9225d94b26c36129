/* SPDX-License-Identifier: MIT */
/* Scatter inversion (the kind scatter of the move partial): the sum of where(key(s) == position, value(s), 0) over s visits every
 * source s for each output position. The inverted form visits every source once and scatters its value to its position:
 *
 *   for all positions of a work-item: sum[position] = 0          a STAGE that folds
 *   for s
 *     if key(s) is one of these positions: sum[key(s)] += value(s)
 *   ... readers of the sum of a position
 *
 * The values of one position are added in the same order as before, so the sums are equal bit for bit.  Any fold can be inverted.
 * All folds of a nest over one axis of positions are inverted together, each in local memory of its own. */
#include "engine/base/size.h"
#include "engine/ir/eval.h"
#include "engine/ir/gate.h"
#include "engine/ir/rewrite.h"
#include "engine/opt/opt_internal.h"

enum { MOST_COLUMNS = 4, MOST_FOLDS = 4, MOST_TURNS = 4 }; /* loops over outputs inside a work-item, folds, loops over s */

/* A fold over the values that sources send to each position. */
typedef struct sent {
    const bl_node *fold;
    const bl_node *key;   /* of a source: an integer */
    const bl_node *first; /* the first position of the work-item, INDEX */
    const bl_node *value; /* of a source */
    const bl_node *none;  /* the value where the key differs; NULL: it is the identity of the fold */
    bl_clauses besides;   /* further conditions */
} sent;

typedef struct turning {
    bl_tune *tune;
    bl_ir *ir;
    const bl_node *place; /* the RANGE of positions */
    int ncolumns;
    const bl_node *column[MOST_COLUMNS];
    int64_t elements; /* positions times columns of a fold */
} turning;

/* ---- finding such folds */

/* Is |node| a position of the work-item: |*first|, which it gets, plus the RANGE of positions? */
static bool is_place(bl_tune *tune, const bl_node *place, const bl_node *node, const bl_node **first)
{
    const bl_node *index = bl_as_index(tune->ir, node);
    int64_t stride = 0;

    if (index == NULL || !bl_free_stride(&tune->free, index, place, &stride) || stride != 1)
        return false;
    *first = bl_replace(tune->ir, index, place, bl_index(tune->ir, 0));
    return true;
}

/* Find the clause of |condition| that compares a key with the position, and collect the other clauses. */
static bool scatter_invert_find_key(bl_tune *tune, const bl_node *place, const bl_node *condition, sent *out)
{
    bl_clauses all = {0};

    if (condition->lanes > 1 || !bl_clauses_add(&all, condition))
        return false;
    for (int i = 0; i < all.count; i++) {
        const bl_node *equal = all.at[i];
        bool compares = false;
        for (int k = 0; out->key == NULL && equal->op == BL_OP_CMPEQ && k < 2 && !compares; k++) {
            compares = is_place(tune, place, equal->src[k], &out->first) && !bl_depends(tune, equal->src[1 - k], place);
            out->key = compares ? equal->src[1 - k] : NULL;
        }
        if (!compares)
            out->besides.at[out->besides.count++] = equal;
    }
    return out->key != NULL;
}

/* Does the number of times that |none| is folded make no difference?  |*wanted|: |none| must be folded at least once. */
static bool changes_nothing(const bl_node *fold, const bl_node *value, const bl_node *none, bool *wanted)
{
    bl_dtype dtype = (bl_dtype)fold->dtype;

    *wanted = false;
    if (!bl_is_const(none))
        return false;
    if (bl_const_value(none).u == bl_fold_identity((bl_op)fold->sub, dtype).u)
        return true;
    *wanted = bl_dtype_is_int(dtype) &&
              ((fold->sub == BL_OP_MAX && none->hi <= value->lo) || (fold->sub == BL_OP_MIN && none->lo >= value->hi));
    return *wanted;
}

/* Does |fold| contain a fold that depends on the position, or that goes over a RANGE of |fold|? */
static bool folds_again(bl_tune *tune, const bl_node *place, const bl_node *fold)
{
    bl_nodes below = bl_reach(tune->ir, 1, &fold->src[0], false);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op == BL_OP_REDUCE && bl_depends(tune, node, place))
            return true;
        for (uint32_t k = 1; k < fold->nsrc; k++) {
            if (bl_binds(node, fold->src[k]))
                return true;
        }
    }
    return false;
}

/* Write |value| as where(*condition, out->value, *none); a cast of a WHERE is a WHERE of casts. */
static bool scatter_invert_take_apart(bl_ir *ir, const bl_node *value, sent *out, const bl_node **condition, const bl_node **none)
{
    bl_dtype dtype = (bl_dtype)value->dtype;
    const bl_node *where = value->op == BL_OP_CAST ? value->src[0] : value;

    if (where->op == BL_OP_WHERE) {
        *condition = where->src[0];
        out->value = bl_cast(ir, dtype, where->src[1]);
        *none = bl_cast(ir, dtype, where->src[2]);
    } else {
        *condition = where;
        out->value = bl_const_int(ir, dtype, 1);
        *none = bl_const_int(ir, dtype, 0);
    }
    return where->op == BL_OP_WHERE || (where != value && where->dtype == BL_BOOL);
}

static bool find_sent(bl_tune *tune, const bl_node *place, const bl_node *fold, sent *out)
{
    const bl_node *condition = NULL, *none = NULL;
    bool wanted = false;

    *out = (sent){.fold = fold};
    if (fold->arg != 1 || fold->lanes > 1 || fold->nsrc - 1 > MOST_TURNS || folds_again(tune, place, fold))
        return false;
    for (uint32_t i = 1; i < fold->nsrc; i++) {
        if (fold->src[i]->sub != BL_AXIS_REDUCE)
            return false;
    }
    if (!scatter_invert_take_apart(tune->ir, fold->src[0], out, &condition, &none) ||
        !scatter_invert_find_key(tune, place, condition, out) || !changes_nothing(fold, out->value, none, &wanted))
        return false;
    out->none = wanted ? none : NULL;
    return true;
}

/* Find all folds that depend on the position. 0 if any of them is not a fold of sent values. */
static int scatter_invert_find_all(bl_tune *tune, const bl_node *place, sent out[MOST_FOLDS])
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    int n = 0;

    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op != BL_OP_REDUCE || !bl_depends(tune, below.at[i], place))
            continue;
        if (n == MOST_FOLDS || !find_sent(tune, place, below.at[i], &out[n]))
            return 0;
        n++;
    }
    return n;
}

bool tune_find_sent(bl_tune *tune, const bl_node *place, tune_sent *out)
{
    sent folds[MOST_FOLDS];
    int n = scatter_invert_find_all(tune, place, folds);

    *out = (tune_sent){0};
    for (int i = 0; i < n; i++) {
        const bl_node *fold = folds[i].fold;
        uint64_t free = bl_free_get(&tune->free, fold) & ~bl_free_bit(&tune->free, place);
        int64_t turns = bl_free_size(&tune->free, bl_free_bound(&tune->free, fold));
        out->turns = turns > out->turns ? turns : out->turns;
        out->bytes += (int64_t)bl_dtype_local_bytes((bl_dtype)fold->dtype);
        out->columns |= free;
        out->keyed |= free & bl_free_get(&tune->free, folds[i].key);
        for (int k = 0; k < folds[i].besides.count; k++)
            out->keyed |= free & bl_free_get(&tune->free, folds[i].besides.at[k]);
    }
    return n > 0;
}

/* ---- the inverted form */

/* Is the key of |s| a position of the work-item?  Compared in the type of the key, since a device may hold an INDEX in 32 bits.
 */
static const bl_node *is_here(const turning *t, const sent *s)
{
    bl_ir *ir = t->ir;
    bl_dtype dtype = (bl_dtype)s->key->dtype;
    const bl_node *end = bl_add(ir, s->first, t->place->src[0]), *last = bl_sub(ir, end, bl_index(ir, 1));
    const bl_node *low = bl_not(ir, bl_less(ir, s->key, bl_cast(ir, dtype, s->first)));
    return bl_and(ir, low, bl_not(ir, bl_less(ir, bl_cast(ir, dtype, last), s->key)));
}

static const bl_node *clamped(bl_ir *ir, const bl_node *node, const bl_node *last)
{
    const bl_node *zero = node->dtype == BL_INDEX ? bl_index(ir, 0) : bl_const_int(ir, (bl_dtype)node->dtype, 0);
    return bl_alu2(ir, BL_OP_MAX, bl_alu2(ir, BL_OP_MIN, node, last), zero);
}

/* The position of the key, counted from the first, and clamped to the positions of the work-item: the bounds of the index must be
 * provable for a key elsewhere too.  The second clamp is for an uint64, whose bounds are unknown. */
static const bl_node *which_place(const turning *t, const sent *s)
{
    bl_ir *ir = t->ir;
    bl_dtype dtype = (bl_dtype)s->key->dtype;
    const bl_node *at = bl_sub(ir, s->key, bl_cast(ir, dtype, s->first));
    at = bl_cast(ir, BL_INDEX, clamped(ir, at, bl_const_int(ir, dtype, t->place->hi)));
    return clamped(ir, at, bl_index(ir, t->place->hi));
}

/* The value that replaces fold number |which|. */
static const bl_node *turned(const turning *t, const sent *s, int which)
{
    bl_ir *ir = t->ir;
    const bl_node *own[MOST_TURNS + MOST_COLUMNS], *gate = NULL, *at = NULL, *store = NULL, *sum = NULL;
    int nturns = (int)(s->fold->nsrc - 1), n = nturns + t->ncolumns;
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < n; i++) { /* the columns are innermost: they are contiguous, and share a key */
        const bl_node *range = i < nturns ? s->fold->src[1 + i] : t->column[i - nturns];
        own[i] = bl_range(ir, tune_new_number(t->tune, i), BL_AXIS_LOOP, range->src[0]);
        bl_ptrmap_put(&to, range, own[i]);
    }
    gate = bl_substitute(ir, is_here(t, s), &to);
    at = bl_substitute(ir, which_place(t, s), &to);
    bl_ptrmap_put(&to, t->place, at);
    for (int i = 0; i < s->besides.count; i++)
        gate = bl_and(ir, gate, bl_substitute(ir, s->besides.at[i], &to));
    store = bl_store(ir, bl_local(ir, which, (bl_dtype)s->fold->dtype, t->elements),
                     tune_element_of(ir, at, t->ncolumns, t->column, own + nturns), bl_substitute(ir, s->value, &to), gate);
    sum = bl_load(ir, bl_stage_over(ir, s->fold->sub, 1, &store, n, own),
                  tune_element_of(ir, t->place, t->ncolumns, t->column, t->column), NULL);
    return s->none == NULL ? sum : bl_alu2(ir, (bl_op)s->fold->sub, sum, s->none);
}

/* Find the loops over outputs around |folds|, except the loop over positions.  False if the nest has lanes, unrolled loops or
 * work-items, if a loop has a named extent, whose columns would have no constant stride, or if there are too many sums. */
static bool scatter_invert_find_columns(turning *t, int n, const sent *folds)
{
    for (int i = 0; i < t->tune->naxes; i++) {
        const bl_node *range = t->tune->axis[i].range;
        bool column = false;
        if (range->sub != BL_AXIS_GLOBAL && range->sub != BL_AXIS_LOOP && range->sub != BL_AXIS_REDUCE)
            return false;
        for (int k = 0; k < n; k++)
            column = column || (range->sub == BL_AXIS_LOOP && range != t->place && bl_depends(t->tune, folds[k].fold, range));
        if (!column)
            continue;
        if (t->ncolumns == MOST_COLUMNS || !bl_is_fixed(range))
            return false;
        t->column[t->ncolumns++] = range;
        if (!bl_i64_mul(t->elements, bl_extent_of(range), &t->elements))
            return false;
    }
    return t->elements <= INT32_MAX;
}

bool tune_scatter(bl_tune *tune, const bl_node *place)
{
    turning t = {.tune = tune, .ir = tune->ir, .place = place, .elements = place->hi + 1};
    sent folds[MOST_FOLDS];
    int n = scatter_invert_find_all(tune, place, folds);
    bl_ptrmap to;

    if (n == 0 || !scatter_invert_find_columns(&t, n, folds))
        return false;
    bl_ptrmap_init(&to, bl_ir_arena(t.ir));
    for (int i = 0; i < n; i++)
        bl_ptrmap_put(&to, folds[i].fold, turned(&t, &folds[i], i));
    tune_survey(tune, bl_substitute(t.ir, tune->sink, &to));
    return true;
}

bool bl_tune_has_sent(bl_tune *tune)
{
    tune_sent found;
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].output && tune_find_sent(tune, tune->axis[i].range, &found))
            return true;
    }
    return false;
}
