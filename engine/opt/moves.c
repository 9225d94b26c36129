/* SPDX-License-Identifier: MIT */
#include "engine/ir/affine.h"
#include "engine/ir/matrix_unit.h"
#include "engine/ir/shape.h"
#include "engine/opt/opt_internal.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_ITEM_AXES = 3 /* dimensions of a group */
};

int64_t bl_extent_of(const bl_node *range)
{
    return range->src[0]->hi > 0 ? range->src[0]->hi : 1;
}

bool bl_is_fixed(const bl_node *range)
{
    return bl_is_const(range->src[0]);
}

int bl_axis_origin(const bl_node *range)
{
    return (int)(range->arg >> PART_BITS);
}

bool bl_depends(bl_tune *tune, const bl_node *node, const bl_node *range)
{
    return (bl_free_get(&tune->free, node) & bl_free_bit(&tune->free, range)) != 0;
}

bool bl_access_stride(const bl_tune *tune, const bl_node *access, const bl_node *range, int64_t *stride)
{
    bl_tune *facts = (bl_tune *)(uintptr_t)tune; /* the free sets are a cache */
    return bl_free_stride(&facts->free, access->src[1], range, stride);
}

static const bl_node *bind_parts(bl_ir *ir, const bl_node *reduce, const bl_node *const *src, const bl_node *range, int n,
                                 const bl_node *const *parts)
{
    const bl_node *ranges[BL_MAX_AXES];
    int count = 0;
    for (uint32_t i = (uint32_t)reduce->arg; i < reduce->nsrc && count < BL_MAX_AXES; i++) {
        if (reduce->src[i] != range)
            ranges[count++] = reduce->src[i];
    }
    for (int i = 0; i < n && count < BL_MAX_AXES; i++)
        ranges[count++] = parts[i];
    if (reduce->op == BL_OP_STAGE)
        return bl_stage_over(ir, reduce->sub, (int)reduce->arg, src, count, ranges);
    if (count == 0)
        return src[0];
    return bl_reduce_over(ir, (bl_op)reduce->sub, (int)reduce->arg, src, count, ranges);
}

typedef struct replacement {
    bl_ir *ir;
    const bl_node *range, *value;
    int n;
    const bl_node *const *parts;
} replacement;

static const bl_node *replace_range(void *arg, const bl_node *node, const bl_node *const *src)
{
    const replacement *r = arg;

    if (node == r->range)
        return r->value;
    if (bl_binds(node, r->range))
        return bind_parts(r->ir, node, src, r->range, r->n, r->parts);
    for (uint32_t k = 0; k < node->nsrc; k++) {
        if (src[k] != node->src[k]) /* simplified: indices of merged loops lose their divisions here */
            return bl_node_rebuild(r->ir, node, src, node->dim);
    }
    return node;
}

const bl_node *tune_replace(bl_ir *ir, const bl_node *sink, const bl_node *range, const bl_node *value, int n,
                            const bl_node *const *parts)
{
    return bl_rewrite(ir, sink, replace_range, &(replacement){ir, range, value, n, parts});
}

/* Outer output axes: in every store, and free in every reduction and stage that stands in no other's loop. */
static uint64_t outer_set(bl_tune *tune, const bl_nodes *below)
{
    uint64_t outputs = 0, outer = 0;

    for (int i = 0; i < tune->free.nranges; i++) {
        if (tune->free.range[i]->arg < FIRST_REDUCE)
            outputs |= UINT64_C(1) << i;
    }
    outer = outputs;
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *node = below->at[i];
        uint64_t set = 0;
        if (node->op != BL_OP_STORE && !bl_binds_ranges(node))
            continue;
        set = bl_free_get(&tune->free, node);
        if ((set & ~outputs) == 0)
            outer &= set;
    }
    return outer;
}

void tune_survey(bl_tune *tune, const bl_node *sink)
{
    bl_nodes below = bl_reach(tune->ir, 1, &sink, false);
    uint64_t outer = 0;

    tune->sink = sink;
    bl_free_init(&tune->free, tune->ir);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_RANGE)
            bl_free_bit(&tune->free, below.at[i]);
    }
    outer = outer_set(tune, &below);
    tune->naxes = 0;
    for (int i = 0; i < tune->free.nranges && tune->naxes < BL_MAX_AXES; i++) {
        const bl_node *range = tune->free.range[i];
        bl_axis axis = {.range = range, .output = range->arg < FIRST_REDUCE, .outer = (outer >> i & 1) != 0};
        int at = tune->naxes++;
        for (; at > 0 && tune->axis[at - 1].range->arg > range->arg; at--)
            tune->axis[at] = tune->axis[at - 1];
        tune->axis[at] = axis;
    }
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        for (int k = 0; node->op == BL_OP_STAGE && k < tune->naxes; k++) {
            bool binds = bl_binds(node, tune->axis[k].range);
            tune->axis[k].stage = tune->axis[k].stage || binds;
            tune->axis[k].folds = tune->axis[k].folds || (binds && BL_STAGE_FOLDS(node));
        }
    }
}

/* ---- the start */

/* Local memory is filled by one work-item for itself. */
bool tune_has_stages(const bl_tune *tune)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].stage)
            return true;
    }
    return false;
}

static int count_divisions(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    int n = 0;
    for (size_t i = 0; i < below.count; i++)
        n += below.at[i]->dtype == BL_INDEX && (below.at[i]->op == BL_OP_IDIV || below.at[i]->op == BL_OP_MOD);
    return n;
}

/* Does everything that depends on, or binds, one of two axes also do so with the other? */
static bool always_together(bl_tune *tune, const bl_node *a, const bl_node *b)
{
    uint64_t columns = 0; /* of scores, as of stages, the rows of a block share what does not depend on them, and are no part of
                             another axis */
    bool staged = tune_has_stages(tune) || tune_turns(tune, &columns) != NULL;
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op != BL_OP_STORE && !bl_binds_ranges(node) && !(staged && node->op == BL_OP_LOAD))
            continue;
        if (bl_depends(tune, node, a) != bl_depends(tune, node, b) || bl_binds(node, a) != bl_binds(node, b))
            return false;
    }
    return true;
}

/* Loops a and b, b inside a, as one loop over their product, if no access then needs a division.  Not a loop of a named extent
 * with one of a constant extent: the product could have no lanes, where a loop of a constant extent can. */
static bool merge(bl_tune *tune, const bl_node *a, const bl_node *b)
{
    bl_ir *ir = tune->ir;
    const bl_node *both = NULL, *sink = NULL;
    bl_ptrmap none;

    if (bl_is_fixed(a) != bl_is_fixed(b) || !always_together(tune, a, b) || bl_extent_of(a) > INT32_MAX / bl_extent_of(b))
        return false;
    bl_ptrmap_init(&none, bl_ir_arena(ir));
    both = bl_range(ir, (int)a->arg, (bl_axis_kind)a->sub, bl_mul(ir, a->src[0], b->src[0]));
    if (both == a)
        return false;
    sink = tune_replace(ir, tune->sink, b, bl_mod(ir, both, b->src[0]), 0, NULL);
    sink = tune_replace(ir, sink, a, bl_idiv(ir, both, b->src[0]), 1, &both);
    if (bl_ir_status(ir, NULL) != BL_OK || count_divisions(ir, sink) > count_divisions(ir, tune->sink))
        return false;
    tune_survey(tune, sink);
    return true;
}

static void merge_axes(bl_tune *tune)
{
    for (int i = tune->naxes - 2; i >= 0; i--) {
        for (int k = i + 1; k < tune->naxes; k++) { /* between may be those of another reduction, over other extents */
            const bl_axis *outer = &tune->axis[i], *inner = &tune->axis[k];
            if (outer->output == inner->output && outer->stage == inner->stage && merge(tune, outer->range, inner->range))
                k = i; /* the next of the shorter list may be one with both */
        }
    }
}

/* By what number |node| divides |range|, or it and a constant, or a constant less it; 0: it does not. */
static int64_t divides(const bl_node *node, const bl_node *range)
{
    bl_affine sum;

    if ((node->op != BL_OP_IDIV && node->op != BL_OP_MOD) || node->dtype != BL_INDEX || !bl_is_const(node->src[1]) ||
        !bl_affine_of(&sum, node->src[0]) || sum.count != 1 || sum.at[0].node != range)
        return 0;
    return sum.at[0].coefficient == 1 || sum.at[0].coefficient == -1 ? node->src[1]->arg : 0;
}

/* By what the values of sums divide |range|, as where the channels of a convolution are in groups; 0: by nothing, or not by one
 * number alone.  |below|: the nest. */
static int64_t divisor_in_sums(bl_tune *tune, const bl_nodes *below, const bl_node *range)
{
    bl_ptrmap inside; /* of sums; a user stands behind what it uses */
    int64_t by = 0;
    bool any = false;

    for (size_t i = 0; i < below->count && !any; i++)
        any = divides(below->at[i], range) > 0;
    if (!any)
        return 0;
    bl_ptrmap_init(&inside, bl_ir_arena(tune->ir));
    for (size_t i = below->count; i-- > 0;) {
        const bl_node *node = below->at[i];
        int64_t own = divides(node, range);
        bool in = bl_ptrmap_has(&inside, node), sum = node->op == BL_OP_REDUCE;
        for (uint32_t k = 0; (in || sum) && k < (in ? node->nsrc : (uint32_t)node->arg); k++)
            bl_ptrmap_put(&inside, node->src[k], tune);
        if (in && own > 0 && by > 0 && own != by)
            return 0;
        by = in && own > 0 ? own : by;
    }
    return by;
}

/* An output's loop of which a sum's operand needs the quotient becomes two: along the inner one that stays the same, which a tile
 * can go along. */
static void part_quotients(bl_tune *tune)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);

    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        int64_t by = axis->output && bl_is_fixed(axis->range) ? divisor_in_sums(tune, &below, axis->range) : 0;
        if (by < 2 || by >= bl_extent_of(axis->range) || bl_extent_of(axis->range) % by != 0)
            continue;
        if (tune_split(tune, i, by, (bl_axis_kind)axis->range->sub))
            below = bl_reach(tune->ir, 1, &tune->sink, false);
    }
}

/* Give every RANGE room for its parts, and outer output axes their kind. */
void tune_number_axes(bl_tune *tune, bool grid)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis axis = tune->axis[i];
        bl_axis_kind kind = !axis.output && !axis.stage ? BL_AXIS_REDUCE : grid && axis.outer ? BL_AXIS_GLOBAL : BL_AXIS_LOOP;
        int64_t number = grid ? axis.range->arg : axis.range->arg << PART_BITS;
        const bl_node *range = bl_range(tune->ir, (int)number, kind, axis.range->src[0]);
        if (range != axis.range)
            tune_survey(tune, tune_replace(tune->ir, tune->sink, axis.range, range, 1, &range));
    }
}

void bl_tune_init(bl_tune *tune, bl_ir *ir, const bl_node *sink, int nparams)
{
    *tune = (bl_tune){.ir = ir, .nparams = nparams, .local_bytes = INT64_MAX};
    bl_free_init(&tune->free, ir);
    tune->sink = sink;
    tune_survey(tune, sink);
    /* from the last, as a renumbered range sorts behind all that are not */
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *old = tune->axis[i].range;
        const bl_node *range = bl_range(ir, (int)(old->arg << PART_BITS), (bl_axis_kind)old->sub, old->src[0]);
        sink = tune_replace(ir, sink, old, range, 1, &range);
    }
    tune_survey(tune, sink);
    if (tune_has_stages(tune))
        tune_part_reductions(tune);
    else
        part_quotients(tune);
    merge_axes(tune);
    tune_number_axes(tune, true);
}

/* ---- moves */

/* How far the inner part of a split may stand behind |range|, whose number it keeps: halfway to the next part.  No two parts may
 * ever have one number, or two loops of one length would be one. */
int64_t tune_room_behind(const bl_tune *tune, const bl_node *range)
{
    int64_t end = (range->arg >> PART_BITS << PART_BITS) + (1 << (PART_BITS - 1));
    for (int i = 0; i < tune->naxes; i++) {
        int64_t other = tune->axis[i].range->arg;
        if (other > range->arg + 1 && other < end) /* + 1 is the rest of an earlier split */
            end = other;
    }
    return (end - range->arg) / 2;
}

/* A reduction in a loop over whole parts, and one over the rest. */
typedef struct peeling {
    bl_ir *ir;
    const bl_node *range, *inside, *const *parts; /* |range| as |inside| of the loops |parts| */
    const bl_node *tail, *whole;                  /* the loop over the rest, and where it begins */
} peeling;

static const bl_node *peel_reduction(void *arg, const bl_node *node, const bl_node *const *src)
{
    const peeling *p = arg;
    const bl_node *made = bl_node_with(p->ir, node, src), *main = NULL, *last = NULL;

    if (!bl_binds(made, p->range))
        return made;
    main = tune_replace(p->ir, made, p->range, p->inside, 2, p->parts);
    last = tune_replace(p->ir, made, p->range, bl_add(p->ir, p->tail, p->whole), 1, &p->tail);
    return bl_alu2(p->ir, (bl_op)node->sub, main, last);
}

/* The whole parts of a reduction's axis folded, then the rest: each REDUCE over |range| becomes two.  A named extent may have no
 * whole parts, or no rest. */
static const bl_node *peel(bl_ir *ir, const bl_node *sink, const bl_node *range, int64_t amount, const bl_node *const *parts,
                           const bl_node *inside)
{
    const bl_node *size = bl_index(ir, amount), *extent = range->src[0];
    const bl_node *whole = bl_mul(ir, bl_idiv(ir, extent, size), size);
    const bl_node *tail = bl_range(ir, (int)range->arg + 1, BL_AXIS_REDUCE, bl_mod(ir, extent, size));

    return bl_rewrite(ir, sink, peel_reduction, &(peeling){ir, range, inside, parts, tail, whole});
}

/* May an axis of this extent, which is named, be shorter than |amount|? */
static bool may_be_less(const bl_node *extent, int64_t amount)
{
    return extent->lo < amount;
}

/* Where the part number |outer| of an output's axis begins.  Where the extent is no multiple of the amount, the last part
 * overlaps the one before it: what is computed twice is the same both times. */
static const bl_node *overlapping(bl_ir *ir, const bl_node *outer, int64_t amount, const bl_node *extent)
{
    const bl_node *last = bl_add(ir, extent, bl_index(ir, -amount));
    if (may_be_less(extent, amount))
        last = bl_alu2(ir, BL_OP_MAX, last, bl_index(ir, 0));
    return bl_alu2(ir, BL_OP_MIN, bl_mul(ir, outer, bl_index(ir, amount)), last);
}

/* |within|: where to put the inner part, or NULL. */
static bool split(bl_tune *tune, int number, int64_t amount, bl_axis_kind kind, const bl_node **within)
{
    bl_ir *ir = tune->ir;
    bl_axis axis = tune->axis[number];
    const bl_node *extent = axis.range->src[0], *size = bl_index(ir, amount), *count = size, *parts = NULL;
    const bl_node *outer = NULL, *inner = NULL, *at = NULL, *part[2];
    int64_t step = tune_room_behind(tune, axis.range);
    bool output = axis.output || axis.stage, whole = false, one = false, shorter = output && may_be_less(extent, amount);

    if (amount < 2 || bl_extent_of(axis.range) < amount || step < 2)
        return false;
    whole = bl_is_int(bl_mod(ir, extent, size), 0);
    if ((axis.folds && !whole) || (axis.stage && shorter) || (shorter && kind == BL_AXIS_VECTOR))
        return false;
    if (shorter && kind == BL_AXIS_LOOP)
        count = bl_alu2(ir, BL_OP_MIN, extent, size);
    inner = bl_range(ir, (int)(axis.range->arg + step), kind, count);
    parts = bl_idiv(ir, output && !whole ? bl_add(ir, extent, bl_index(ir, amount - 1)) : extent, size);
    one = bl_is_int(parts, 1);
    outer = bl_range(ir, (int)axis.range->arg, (bl_axis_kind)axis.range->sub, parts);
    at = one ? bl_index(ir, 0) : output && !whole ? overlapping(ir, outer, amount, extent) : bl_mul(ir, outer, size);
    at = bl_add(ir, at, inner);
    if (shorter && kind != BL_AXIS_LOOP) /* the parts of one that is too short meet at its end */
        at = bl_alu2(ir, BL_OP_MIN, at, bl_add(ir, extent, bl_index(ir, -1)));
    part[0] = inner;
    part[1] = outer;
    if (!output && !whole)
        tune_survey(tune, peel(ir, tune->sink, axis.range, amount, part, at));
    else
        tune_survey(tune, tune_replace(ir, tune->sink, axis.range, at, one ? 1 : 2, part));
    if (within != NULL)
        *within = inner;
    return true;
}

bool tune_split(bl_tune *tune, int number, int64_t amount, bl_axis_kind kind)
{
    const bl_node *within = NULL;
    return split(tune, number, amount, kind, &within);
}

/* The fastest grid axis is the one with the largest number. */
static bool make_first(bl_tune *tune, int number)
{
    const bl_node *range = tune->axis[number].range, *moved = NULL;
    bool faster = false;
    for (int i = 0; i < tune->naxes; i++)
        faster = faster || (tune->axis[i].range->sub == BL_AXIS_GLOBAL && tune->axis[i].range->arg > range->arg);
    if (range->sub != BL_AXIS_GLOBAL || !faster)
        return false;
    moved = bl_range(tune->ir, FIRST_REDUCE - 1 - (int)(range->arg >> PART_BITS), BL_AXIS_GLOBAL, range->src[0]);
    tune_survey(tune, tune_replace(tune->ir, tune->sink, range, moved, 1, &moved));
    return true;
}

/* A value has the lanes of one axis: would some depend on |range| and on one that is lanes already? */
static bool lanes_meet(bl_tune *tune, const bl_node *range)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    uint64_t own = bl_free_bit(&tune->free, range), lanes = 0;

    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub == BL_AXIS_VECTOR)
            lanes |= bl_free_bit(&tune->free, tune->axis[i].range);
    }
    for (size_t i = 0; lanes != 0 && i < below.count; i++) {
        const bl_node *node = below.at[i];
        uint64_t set = bl_free_get(&tune->free, node);
        for (uint32_t k = (uint32_t)node->arg; node->op == BL_OP_REDUCE && k < node->nsrc; k++)
            set |= bl_free_bit(&tune->free, node->src[k]);
        if (node->op != BL_OP_SINK && (set & own) != 0 && (set & lanes) != 0)
            return true;
    }
    return false;
}

/* Are they an output's, which those who share a reduction have between them as well? */
static bool is_dealt(const bl_axis *axis)
{
    return axis->output && axis->range->sub == BL_AXIS_GROUP;
}

static bool deals_outputs(const bl_tune *tune)
{
    bool any = false;
    for (int i = 0; i < tune->naxes; i++)
        any = any || is_dealt(&tune->axis[i]);
    return any;
}

int tune_count_items(const bl_tune *tune)
{
    int n = 0;
    for (int i = 0; i < tune->naxes; i++)
        n +=
            tune->axis[i].range->sub == BL_AXIS_LOCAL || (tune->axis[i].range->sub == BL_AXIS_GROUP && !is_dealt(&tune->axis[i]));
    return n;
}

/* A loop over outputs inside, such as the last one of a softmax: may the |amount| work-items that share the nest's reductions
 * have its iterations between them?  Not where a reduction that they share stands in the loop, since all of them do that
 * together, nor where it meets another loop that they have between them. */
static bool may_deal(bl_tune *tune, const bl_axis *axis, int64_t amount)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    const bl_node *group = NULL;
    int groups = 0;

    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub != BL_AXIS_GROUP || is_dealt(&tune->axis[i]))
            continue;
        group = tune->axis[i].range;
        groups++;
    }
    if (groups != 1 || axis->outer || axis->range->sub != BL_AXIS_LOOP || bl_extent_of(group) != amount ||
        !bl_is_fixed(axis->range))
        return false;
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (!bl_depends(tune, node, axis->range))
            continue;
        if (node->op == BL_OP_REDUCE && bl_binds(node, group))
            return false;
        for (int k = 0; node->op == BL_OP_STORE && k < tune->naxes; k++) {
            if (is_dealt(&tune->axis[k]) && bl_depends(tune, node, tune->axis[k].range))
                return false;
        }
    }
    return true;
}

/* Does a reduction over |range| have work-items that share it already? */
static bool is_shared(bl_tune *tune, const bl_node *range)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        for (int k = 0; bl_binds(below.at[i], range) && k < tune->naxes; k++) {
            if (tune->axis[k].range->sub == BL_AXIS_GROUP && bl_binds(below.at[i], tune->axis[k].range))
                return true;
        }
    }
    return false;
}

/* A reduction in a nest with stages, split already: two reductions may fold over its parts, one inside the other, and expand
 * cannot put numbers into both. */
static bool is_parted(const bl_tune *tune, const bl_axis *axis)
{
    int parts = 0;
    for (int i = 0; i < tune->naxes; i++)
        parts += bl_axis_origin(tune->axis[i].range) == bl_axis_origin(axis->range);
    return parts > 1 && !axis->output && !axis->stage && tune_has_stages(tune) && !tune->shared;
}

/* Are there stores that only one of the iterations of |range| does (store_once)?  Lanes do a store together. */
static bool is_done_by_one(bl_tune *tune, const bl_node *range)
{
    for (uint32_t i = 0; i < tune->sink->nsrc; i++) {
        const bl_node *store = tune->sink->src[i];
        if (store->nsrc > 3 && bl_depends(tune, store->src[3], range) && !bl_depends(tune, store->src[1], range))
            return true;
    }
    return false;
}

static bool can_split(bl_tune *tune, bl_move move)
{
    const bl_axis *axis = &tune->axis[move.axis];
    bool fixed = bl_is_fixed(axis->range);
    bool staged =
        tune_holds_stage(tune, axis->range); /* a copy of a stage for each of its iterations: BLOCK makes it one of all */

    if (move.amount < 2 || axis->range->sub == BL_AXIS_VECTOR || is_parted(tune, axis)) /* lanes are not split */
        return false;
    if (!axis->output && tune_is_running(tune, axis->range))
        return false; /* folds that go on together do so turn by turn */
    if (axis->range->sub == BL_AXIS_GROUP && deals_outputs(tune))
        return false; /* outputs go by the same numbers */
    switch (move.kind) {
    case BL_MOVE_TILE:
        return !staged;
    case BL_MOVE_BLOCK:
        return fixed && staged && axis->range->sub == BL_AXIS_GLOBAL && !tune->shared;
    case BL_MOVE_VECTOR:
        return !staged && move.amount <= BL_MAX_LANES && (move.amount & (move.amount - 1)) == 0 &&
               !lanes_meet(tune, axis->range) && !tune_folds_over(tune, axis->range) && !is_done_by_one(tune, axis->range);
    case BL_MOVE_CHUNK: /* work-items fill what they share by their numbers as they are */
        return !axis->stage && !(staged && axis->range->sub == BL_AXIS_LOCAL);
    case BL_MOVE_LOCAL:
        return axis->output && !tune_has_stages(tune) && !tune->shared &&
               (axis->outer || tune_is_running(tune, NULL) ? tune_count_items(tune) < MOST_ITEM_AXES
                                                           : may_deal(tune, axis, move.amount));
    case BL_MOVE_GROUP:
        return !axis->output && fixed && bl_extent_of(axis->range) % move.amount == 0 &&
               tune_count_items(tune) < MOST_ITEM_AXES && !is_shared(tune, axis->range) && !tune_has_stages(tune) &&
               !tune->shared && !deals_outputs(tune);
    case BL_MOVE_SEND: /* a work-item has its sums for one part of the places at a time */
        return axis->output && !tune_has_stages(tune) && !tune->shared &&
               (axis->range->sub == BL_AXIS_GLOBAL || (fixed && move.amount == bl_extent_of(axis->range)));
    case BL_MOVE_FIRST:
    case BL_MOVE_EDGES:
    case BL_MOVE_STREAM:
    case BL_MOVE_PACK:
    case BL_MOVE_SHARE:
    case BL_MOVE_MATRIX:
    case BL_MOVE_KBLOCK:
    case BL_MOVE_SPLIT:
    case BL_MOVE_SCORE:
    case BL_MOVE_KINDS:
        break;
    }
    return false;
}

/* Stores that do not differ along |range|, work-items of a group: the first of them does them. */
static void store_once(bl_tune *tune, const bl_node *range)
{
    bl_ir *ir = tune->ir;
    const bl_node **stores = bl_arena_array(bl_ir_arena(ir), tune->sink->nsrc, sizeof *stores), *sink = NULL;
    const bl_node *first = bl_less(ir, range, bl_index(ir, 1));

    for (uint32_t i = 0; stores != NULL && i < tune->sink->nsrc; i++) {
        const bl_node *store = tune->sink->src[i];
        stores[i] = store;
        if (!bl_depends(tune, store, range))
            stores[i] = bl_store(ir, store->src[0], store->src[1], store->src[2],
                                 store->nsrc > 3 ? bl_and(ir, store->src[3], first) : first);
    }
    sink = stores == NULL ? tune->sink : bl_node_with(ir, tune->sink, stores);
    if (sink != tune->sink)
        tune_survey(tune, sink);
}

/* Moves that a nest of folds that go on together does not have, or not once their values are shared out. */
static bool is_barred(const bl_tune *tune, bl_move_kind kind)
{
    bool other = kind == BL_MOVE_SHARE || kind == BL_MOVE_EDGES || kind == BL_MOVE_MATRIX || kind == BL_MOVE_KBLOCK ||
                 kind == BL_MOVE_PACK || kind == BL_MOVE_SEND;
    return other && (tune->scored || tune_is_running(tune, NULL));
}

static bool dispatch(bl_tune *tune, bl_move move)
{
    static const bl_axis_kind inner[BL_MOVE_KINDS] = {
        [BL_MOVE_TILE] = BL_AXIS_TILE,  [BL_MOVE_VECTOR] = BL_AXIS_VECTOR, [BL_MOVE_CHUNK] = BL_AXIS_LOOP,
        [BL_MOVE_BLOCK] = BL_AXIS_LOOP, [BL_MOVE_LOCAL] = BL_AXIS_LOCAL,   [BL_MOVE_GROUP] = BL_AXIS_GROUP,
        [BL_MOVE_SEND] = BL_AXIS_LOOP};

    const bl_node *within = NULL;
    bl_axis_kind kind = move.kind < BL_MOVE_KINDS ? inner[move.kind] : BL_AXIS_LOOP;

    if (tune->shared && (move.kind == BL_MOVE_EDGES || move.kind == BL_MOVE_MATRIX))
        return false;
    if ((tune->matrix && !tune_spares_matrix(tune, move)) || is_barred(tune, move.kind))
        return false;
    if (deals_outputs(tune) && (move.kind == BL_MOVE_KBLOCK || move.kind == BL_MOVE_SEND || move.kind == BL_MOVE_SCORE))
        return false;
    if (move.kind == BL_MOVE_PACK)
        return tune_pack(tune, move.axis, 0);
    if (move.kind == BL_MOVE_SHARE)
        return (tune->shared || !tune_has_stages(tune)) && tune_share(tune, move.axis, move.amount);
    if (move.kind == BL_MOVE_STREAM)
        return tune_stream(tune, move.axis);
    if (move.kind == BL_MOVE_EDGES)
        return tune_edges(tune, move.axis, move.amount);
    if (move.axis < 0 || move.axis >= tune->naxes)
        return false;
    if (move.kind == BL_MOVE_MATRIX)
        return !tune_has_stages(tune) && tune_matrix(tune, move.axis, move.amount);
    if (move.kind == BL_MOVE_KBLOCK)
        return tune_kblock(tune, move.axis, move.amount);
    if (move.kind == BL_MOVE_SPLIT)
        return tune_split_sums(tune, move.axis, move.amount);
    if (move.kind == BL_MOVE_SCORE)
        return tune_score(tune, move.axis, move.amount);
    if (move.kind == BL_MOVE_FIRST)
        return make_first(tune, move.axis);
    if (move.kind == BL_MOVE_CHUNK && !tune->axis[move.axis].output)
        kind = BL_AXIS_REDUCE;
    if (!can_split(tune, move))
        return false;
    if (move.kind == BL_MOVE_LOCAL && !tune->axis[move.axis].outer && !tune_is_running(tune, NULL))
        kind = BL_AXIS_GROUP;
    if (!split(tune, move.axis, move.amount, kind, &within))
        return false;
    if (move.kind == BL_MOVE_BLOCK)
        tune_widen_stages(tune, within);
    if (kind == BL_AXIS_LOCAL)
        store_once(tune, within);
    return move.kind != BL_MOVE_SEND || tune_send(tune, within);
}

bool bl_tune_apply(bl_tune *tune, bl_move move)
{
    bl_tune before = {0};

    bool staged = tune_has_stages(tune) || tune->shared || move.kind == BL_MOVE_SHARE || move.kind == BL_MOVE_SCORE ||
                  move.kind == BL_MOVE_SEND;
    bool done = false;

    if (staged)
        before = *tune;
    if (tune->nmoves == BL_MAX_MOVES)
        return false;
    done = dispatch(tune, move);
    if (!done && move.kind != BL_MOVE_SEND) /* which splits the axis before it knows */
        return false;
    if (!done || (staged && !tune_has_room(tune))) { /* more rows, or one computed twice, so that it needs memory of its own */
        *tune = before;
        tune_survey(tune, before.sink);
        return false;
    }
    tune->moves[tune->nmoves++] = move;
    return true;
}

static const char *const move_names[BL_MOVE_KINDS] = {"tile",   "vector", "chunk", "block",  "local",  "group", "first", "edges",
                                                      "stream", "pack",   "share", "matrix", "kblock", "split", "score", "send"};

void bl_moves_print(int n, const bl_move *moves, bl_text *out)
{
    for (int i = 0; i < n; i++) {
        bl_text_printf(out, "%s%s %d ", i == 0 ? "" : ", ", move_names[moves[i].kind], moves[i].axis);
        if (moves[i].kind == BL_MOVE_MATRIX)
            bl_matrix_print(bl_matrix_unpack(moves[i].amount), out);
        else
            bl_text_printf(out, "%lld", (long long)moves[i].amount);
    }
}

void bl_tune_print(const bl_tune *tune, bl_text *out)
{
    bl_moves_print(tune->nmoves, tune->moves, out);
}

static bool parse_kind(const char *word, bl_move_kind *kind)
{
    for (int i = 0; i < BL_MOVE_KINDS; i++) {
        if (strcmp(move_names[i], word) == 0) {
            *kind = (bl_move_kind)i;
            return true;
        }
    }
    return false;
}

/* How long the text of |move|'s amount is; 0 where it is none. */
static int parse_amount(const char *text, bl_move *move)
{
    long long amount = 0;
    bl_matrix shape;
    int used = 0;

    if (move->kind == BL_MOVE_MATRIX) {
        used = bl_matrix_parse(text, &shape);
        move->amount = bl_matrix_pack(shape);
        return used;
    }
    used = sscanf(text, "%lld%n", &amount, &used) == 1 ? used : 0;
    move->amount = amount;
    return used;
}

bool bl_moves_parse(const char *text, bl_move moves[BL_MAX_MOVES], int *n)
{
    for (*n = 0; *text != '\0'; ++*n) {
        char word[16];
        int used = 0;
        if (*n == BL_MAX_MOVES || sscanf(text, "%15[a-z] %d %n", word, &moves[*n].axis, &used) != 2 ||
            !parse_kind(word, &moves[*n].kind))
            return false;
        text += used;
        used = parse_amount(text, &moves[*n]);
        if (used == 0)
            return false;
        text += used;
        if (*text != '\0' && strncmp(text, ", ", 2) != 0)
            return false;
        text += *text == '\0' ? 0 : 2;
    }
    return true;
}
