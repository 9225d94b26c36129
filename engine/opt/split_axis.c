/* SPDX-License-Identifier: MIT */
/* The moves split and order. split: all kinds are one transformation with inner parts of different kinds, and each kind has its
 * own conditions. order: the axes of the grid are in the order of their numbers. */
#include "engine/ir/rewrite.h"
#include "engine/ir/shape.h"
#include "engine/opt/opt_internal.h"

enum {
    MOST_ITEM_AXES = 3 /* dimensions of a group */
};

/* Halfway to the next part of the axis.  Two parts must never have one number: two loops of one length would be one loop. */
int tune_inner_number(const bl_tune *tune, const bl_node *range)
{
    bl_axis_number number = bl_axis_unpack(range);
    int end = BL_AXIS_PARTS / 2, step = 0;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *other = tune->axis[i].range;
        int part = bl_axis_unpack(other).part;
        if (bl_axis_origin(other) == bl_axis_origin(range) && part > number.part + 1 && part < end) /* + 1 is bl_axis_rest */
            end = part;
    }
    step = (end - number.part) / 2;
    number.part += step;
    return step < 2 ? -1 : bl_axis_pack(number);
}

/* The state of peel. */
typedef struct peeling {
    bl_ir *ir;
    const bl_node *range, *inside, *const *parts; /* |inside| is the value of |range| in the loops |parts| */
    const bl_node *tail, *whole;                  /* the loop over the remainder, and the index at which the remainder begins */
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

/* Each REDUCE over |range| becomes two: one over the whole parts, then one over the remainder.  A named extent may have no whole
 * parts, or no remainder. */
static const bl_node *peel(bl_tune *tune, const bl_node *range, int64_t amount, const bl_node *const *parts,
                           const bl_node *inside)
{
    bl_ir *ir = tune->ir;
    const bl_node *size = bl_index(ir, amount), *extent = range->src[0];
    const bl_node *whole = bl_mul(ir, bl_idiv(ir, extent, size), size);
    const bl_node *tail = bl_range(ir, bl_axis_rest(range), BL_AXIS_REDUCE, bl_mod(ir, extent, size));

    tune_name_part(tune, tail, range, 2);
    return bl_rewrite(ir, tune->sink, peel_reduction, &(peeling){ir, range, inside, parts, tail, whole});
}

/* May an axis of this named extent be shorter than |amount|? */
static bool may_be_less(const bl_node *extent, int64_t amount)
{
    return extent->lo < amount;
}

/* The first index of part |outer| of an output axis.  If the extent is no multiple of the amount, the last part overlaps the part
 * before it: values that are computed twice are the same both times. */
static const bl_node *overlapping(bl_ir *ir, const bl_node *outer, int64_t amount, const bl_node *extent)
{
    const bl_node *last = bl_add(ir, extent, bl_index(ir, -amount));
    if (may_be_less(extent, amount))
        last = bl_alu2(ir, BL_OP_MAX, last, bl_index(ir, 0));
    return bl_alu2(ir, BL_OP_MIN, bl_mul(ir, outer, bl_index(ir, amount)), last);
}

/* Returns the inner part; NULL: the axis cannot be split. */
static const bl_node *split_axis_split(bl_tune *tune, int number, int64_t amount, bl_axis_kind kind)
{
    bl_ir *ir = tune->ir;
    bl_axis axis = tune->axis[number];
    const bl_node *extent = axis.range->src[0], *size = bl_index(ir, amount), *count = size, *parts = NULL;
    const bl_node *outer = NULL, *inner = NULL, *at = NULL, *part[2];
    int inside = tune_inner_number(tune, axis.range);
    bool output = axis.output || axis.stage, whole = false, one = false, shorter = output && may_be_less(extent, amount);

    if (amount < 2 || bl_extent_of(axis.range) < amount || inside < 0)
        return NULL;
    whole = bl_is_int(bl_mod(ir, extent, size), 0);
    if ((axis.folds && !whole) || (axis.stage && shorter) || (shorter && kind == BL_AXIS_VECTOR))
        return NULL;
    if (shorter && kind == BL_AXIS_LOOP)
        count = bl_alu2(ir, BL_OP_MIN, extent, size);
    inner = bl_range(ir, inside, kind, count);
    parts = bl_idiv(ir, output && !whole ? bl_add(ir, extent, bl_index(ir, amount - 1)) : extent, size);
    one = bl_is_int(parts, 1);
    outer = bl_range_like(ir, axis.range, (bl_axis_kind)axis.range->sub, parts);
    at = one ? bl_index(ir, 0) : output && !whole ? overlapping(ir, outer, amount, extent) : bl_mul(ir, outer, size);
    at = bl_add(ir, at, inner);
    if (shorter && kind != BL_AXIS_LOOP) /* parts that are longer than the axis end at its last index */
        at = bl_alu2(ir, BL_OP_MIN, at, bl_add(ir, extent, bl_index(ir, -1)));
    part[0] = inner;
    part[1] = outer;
    tune_name_part(tune, inner, axis.range, 1);
    tune_name_part(tune, outer, axis.range, 0);
    if (!output && !whole)
        tune_survey(tune, peel(tune, axis.range, amount, part, at));
    else
        tune_survey(tune, tune_replace(ir, tune->sink, axis.range, at, one ? 1 : 2, part));
    return inner;
}

bool tune_split(bl_tune *tune, int number, int64_t amount, bl_axis_kind kind)
{
    return split_axis_split(tune, number, amount, kind) != NULL;
}

/* The fastest grid axis is the one with the largest number. */
bool move_order(bl_tune *tune, bl_move_kind kind, int at, int64_t size)
{
    const bl_node *range = tune->axis[at].range, *moved = NULL;
    const bl_axis_number number = {.slot = BL_AXIS_SLOTS - 1, .part = BL_AXIS_PARTS - 1 - bl_axis_origin(range)};
    bool faster = false;

    (void)kind;
    (void)size;
    for (int i = 0; i < tune->naxes; i++)
        faster = faster || (tune->axis[i].range->sub == BL_AXIS_GLOBAL && bl_axis_precedes(range, tune->axis[i].range));
    if (range->sub != BL_AXIS_GLOBAL || !faster)
        return false;
    moved = bl_range(tune->ir, bl_axis_pack(number), BL_AXIS_GLOBAL, range->src[0]);
    tune_name_axis(tune, moved, tune->axis[at].name);
    tune_survey(tune, tune_replace(tune->ir, tune->sink, range, moved, 1, &moved));
    return true;
}

/* Does any value depend on |range| and on an axis of lanes?  A value has the lanes of one axis only. */
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

/* Is the axis a loop over outputs that is distributed over the work-items that share a reduction? */
static bool is_dealt(const bl_axis *axis)
{
    return axis->output && axis->range->sub == BL_AXIS_GROUP;
}

bool tune_deals_outputs(const bl_tune *tune)
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

/* May a loop over outputs inside the work-item, such as the last loop of a softmax, be distributed over the |amount| work-items
 * that share the nest's reductions?  Not if a shared reduction stands in the loop, since all work-items compute it together, and
 * not if the loop meets another distributed loop. */
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

/* Do work-items already share a reduction over |range|? */
static bool split_axis_is_shared(bl_tune *tune, const bl_node *range)
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

/* Is the axis a split reduction of a nest with stages?  Two reductions, one inside the other, may fold over its parts, and expand
 * cannot substitute indices into both. */
static bool is_parted(const bl_tune *tune, const bl_axis *axis)
{
    int parts = 0;
    for (int i = 0; i < tune->naxes; i++)
        parts += bl_axis_origin(tune->axis[i].range) == bl_axis_origin(axis->range);
    return parts > 1 && !axis->output && !axis->stage && tune_has_stages(tune) && !tune->shared;
}

/* Do only some iterations of |range| make a store (store_once)?  Lanes make a store together. */
static bool is_done_by_one(bl_tune *tune, const bl_node *range)
{
    for (uint32_t i = 0; i < tune->sink->nsrc; i++) {
        const bl_node *store = tune->sink->src[i];
        if (store->nsrc > 3 && bl_depends(tune, store->src[3], range) && !bl_depends(tune, store->src[1], range))
            return true;
    }
    return false;
}
/* |range| is the work-items of a group: only the first work-item makes the stores that do not depend on |range|. */
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

/* Is a split of the axis legal for inner parts of every kind? */
static bool split_axis_may_split(bl_tune *tune, const bl_axis *axis, int64_t amount)
{
    if (amount < 2 || axis->range->sub == BL_AXIS_VECTOR || is_parted(tune, axis))
        return false;
    if (!axis->output && tune_is_running(tune, axis->range))
        return false; /* running reductions advance together, one iteration at a time */
    if (axis->range->sub == BL_AXIS_GROUP && tune_deals_outputs(tune))
        return false; /* the outputs are distributed by the numbers of these work-items */
    return !tune->matrix || tune_spares_matrix(tune, axis, amount);
}

const bl_node *tune_split_off(bl_tune *tune, int at, int64_t amount, bl_axis_kind kind)
{
    return split_axis_may_split(tune, &tune->axis[at], amount) ? split_axis_split(tune, at, amount, kind) : NULL;
}

static bool split_may_unroll(bl_tune *tune, const bl_axis *axis)
{
    return !tune_holds_stage(tune, axis->range);
}

static bool split_may_be_lanes(bl_tune *tune, const bl_axis *axis, int64_t lanes)
{
    return lanes <= BL_MAX_LANES && (lanes & (lanes - 1)) == 0 && !tune_holds_stage(tune, axis->range) &&
           !lanes_meet(tune, axis->range) && !tune_folds_over(tune, axis->range) && !is_done_by_one(tune, axis->range);
}

static bool split_may_loop(bl_tune *tune, const bl_axis *axis)
{
    /* work-items fill local memory according to their numbers before the split */
    return !axis->stage && (axis->range->sub != BL_AXIS_LOCAL || !tune_holds_stage(tune, axis->range));
}

static bool split_may_block(bl_tune *tune, const bl_axis *axis)
{
    return bl_is_fixed(axis->range) && axis->range->sub == BL_AXIS_GLOBAL && tune_holds_stage(tune, axis->range);
}

/* May work-items of a group share the reduction? */
static bool split_may_share(bl_tune *tune, const bl_axis *axis, int64_t items)
{
    return !tune->matrix && !tune_deals_outputs(tune) && bl_is_fixed(axis->range) && items > 1 &&
           bl_extent_of(axis->range) % items == 0 && tune_count_items(tune) < MOST_ITEM_AXES &&
           !split_axis_is_shared(tune, axis->range);
}

/* May an output axis be distributed over work-items? |own|: each work-item computes outputs of its own. */
static bool split_may_deal(bl_tune *tune, const bl_axis *axis, int64_t items, bool own)
{
    return (own ? tune_count_items(tune) < MOST_ITEM_AXES : may_deal(tune, axis, items)) &&
           (!tune->matrix || !tune_deals_elements(axis->range)); /* it would precede the work-items of the unit's scope */
}

bool move_split(bl_tune *tune, bl_move_kind kind, int at, int64_t size)
{
    const bl_axis *axis = &tune->axis[at];
    bool own = axis->output && (axis->outer || tune_is_running(tune, NULL)), legal = false;
    bl_axis_kind part = BL_AXIS_LOOP;
    const bl_node *inner = NULL;

    if (kind == BL_SPLIT_UNROLL) {
        part = BL_AXIS_TILE;
        legal = split_may_unroll(tune, axis);
    } else if (kind == BL_SPLIT_VECTOR) {
        part = BL_AXIS_VECTOR;
        legal = split_may_be_lanes(tune, axis, size);
    } else if (kind == BL_SPLIT_LOOP) {
        part = axis->output ? BL_AXIS_LOOP : BL_AXIS_REDUCE;
        legal = split_may_loop(tune, axis);
    } else if (kind == BL_SPLIT_BLOCK) {
        legal = split_may_block(tune, axis);
    } else {
        part = own ? BL_AXIS_LOCAL : BL_AXIS_GROUP;
        legal = axis->output ? split_may_deal(tune, axis, size, own) : split_may_share(tune, axis, size);
    }
    inner = legal ? tune_split_off(tune, at, size, part) : NULL;
    if (inner != NULL && kind == BL_SPLIT_BLOCK)
        tune_widen_stages(tune, inner);
    if (inner != NULL && part == BL_AXIS_LOCAL)
        store_once(tune, inner);
    return inner != NULL;
}
