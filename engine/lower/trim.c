/* SPDX-License-Identifier: MIT */
/* Trim reductions to the iterations in which their gate is open. In a sum of where(gate, v, 0), a comparison that bounds a loop
 * of the sum by values known outside the loop becomes the first and the last iteration of that loop, and the gate is dropped.
 * Example: the gradient of a convolution, whose windows reach beyond the edge; it then skips these elements instead of adding
 * zeros. Needs: no TILE or VECTOR. Keeps: values. Leaves: REDUCE ranges whose extents may depend on other RANGEs. */
#include "engine/base/map.h"
#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/lower/lower.h"

/* A value of a sum may be zero in all iterations: a copy of a tile that is padding alone. */
static bool is_zero(const bl_node *value)
{
    return bl_is_const(value) && value->arg == 0;
}

/* The clauses that gate all values of |reduce| but zeros; none if some value is not of the form where(gate, v, 0). */
static bl_clauses common_clauses(const bl_node *reduce)
{
    bl_clauses all = {0}, none = {0};
    bool first = true;

    for (int64_t i = 0; i < reduce->arg; i++) {
        const bl_node *value = reduce->src[i];
        bl_clauses own = {0};
        int kept = 0;
        if (is_zero(value))
            continue;
        if (!bl_is_gated(value) || value->src[0]->lanes != 1 || !bl_clauses_add(&own, value->src[0]))
            return none;
        if (first)
            all = own;
        first = false;
        for (int k = 0; k < all.count; k++) {
            if (bl_clauses_hold(&own, all.at[k]))
                all.at[kept++] = all.at[k];
        }
        all.count = kept;
    }
    return all;
}

/* Reductions over one range share its loop (linearize.c), above all the copies of a tile. So only clauses that |reduce| has in
 * common with all other reductions of |below| over |range| may trim it. */
static bl_clauses shared_clauses(const bl_nodes *below, const bl_node *reduce, const bl_node *range)
{
    bl_clauses all = common_clauses(reduce);

    for (size_t i = 0; i < below->count && all.count > 0; i++) {
        const bl_node *other = below->at[i];
        bl_clauses own = {0};
        int kept = 0;
        if (other->op != BL_OP_REDUCE || !bl_binds(other, range) || other == reduce)
            continue;
        if (other->sub == BL_OP_ADD)
            own = common_clauses(other);
        for (int k = 0; k < all.count; k++) {
            if (bl_clauses_hold(&own, all.at[k]))
                all.at[kept++] = all.at[k];
        }
        all.count = kept;
    }
    return all;
}

/* Solve |clause| for |range|: 0 < times * range + rest, where |rest| does not depend on the loops of |reduce|. */
static bool trim_solve(bl_ir *ir, const bl_node *clause, const bl_node *reduce, const bl_node *range, int64_t *times,
                       const bl_node **rest)
{
    const bl_node *difference = NULL;
    bl_affine sum;

    if (clause->op != BL_OP_CMPLT || clause->lanes != 1 || clause->src[0]->dtype != BL_INDEX)
        return false;
    difference = bl_sub(ir, clause->src[1], clause->src[0]);
    *times = bl_affine_of(&sum, difference) ? bl_affine_along(&sum, range) : 0;
    if (*times == 0 || *times <= -INT32_MAX || *times >= INT32_MAX)
        return false;
    *rest = bl_sub(ir, difference, bl_mul(ir, range, bl_index(ir, *times)));
    return !bl_reaches(ir, 1, rest, (int)reduce->nsrc - (int)reduce->arg, reduce->src + reduce->arg);
}

/* The first iteration of a loop, and the end behind the last, from the clauses that bound it. These clauses are added to
 * |used|. */
static bool bound_loop(bl_ir *ir, const bl_node *reduce, const bl_node *range, const bl_clauses *all, bl_clauses *used,
                       const bl_node **first, const bl_node **end)
{
    int before = used->count;

    *first = bl_index(ir, 0);
    *end = range->src[0];
    for (int i = 0; i < all->count; i++) {
        const bl_node *rest = NULL;
        int64_t times = 0;
        if (bl_clauses_hold(used, all->at[i]) || !trim_solve(ir, all->at[i], reduce, range, &times, &rest))
            continue;
        if (times > 0) /* -rest < times * range: starts at floor(-rest / times) + 1 */
            *first = bl_alu2(ir, BL_OP_MAX, *first,
                             bl_add(ir, bl_idiv(ir, bl_sub(ir, bl_index(ir, 0), rest), bl_index(ir, times)), bl_index(ir, 1)));
        else /* range < rest / -times: ends at that quotient, rounded up */
            *end = bl_alu2(ir, BL_OP_MIN, *end, bl_idiv(ir, bl_add(ir, rest, bl_index(ir, -times - 1)), bl_index(ir, -times)));
        used->at[used->count++] = all->at[i];
    }
    return used->count > before;
}

/* Range numbers are canonical, so an inner reduction may bind one of the |n| ranges again. Such nodes are excluded from the
 * substitution. */
static void shield(const bl_nodes *below, int n, const bl_node *const *ranges, bl_ptrmap *map)
{
    for (size_t i = 0; i < below->count; i++) {
        for (int r = 0; r < n; r++) {
            if (bl_binds(below->at[i], ranges[r]))
                bl_ptrmap_put(map, below->at[i], below->at[i]);
        }
    }
}

const bl_node *bl_lower_move_range(bl_ir *ir, const bl_node *value, const bl_node *range, const bl_node *to)
{
    bl_nodes below = bl_reach(ir, 1, &value, false);
    bl_ptrmap map;

    bl_ptrmap_init(&map, bl_ir_arena(ir));
    bl_ptrmap_put(&map, range, to);
    shield(&below, 1, &range, &map);
    return bl_substitute(ir, value, &map);
}

/* The values of |reduce| without the clauses that the bounds of its loops over |ranges| imply. */
static void open_gates(bl_ir *ir, const bl_node *reduce, const bl_clauses *used, int n, const bl_node *const *ranges,
                       const bl_node **values)
{
    bl_nodes below = bl_reach(ir, (int)reduce->arg, reduce->src, false);
    bl_ptrmap open;

    bl_ptrmap_init(&open, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *load = below.at[i];
        if (load->op == BL_OP_LOAD && load->nsrc > 2) {
            const bl_node *gate = bl_gate_without(ir, load->src[2], used);
            bl_node loose = *load;
            const bl_node *src[3] = {load->src[0], load->src[1], gate};
            loose.src = src;
            loose.nsrc = bl_is_int(gate, 1) ? 2 : 3;
            bl_ptrmap_put(&open, load, bl_node_make(ir, &loose));
        }
    }
    shield(&below, n, ranges, &open);
    for (int64_t i = 0; i < reduce->arg; i++) {
        const bl_node *value = reduce->src[i], *gate = NULL;
        values[i] = value;
        if (is_zero(value))
            continue;
        gate = bl_gate_without(ir, value->src[0], used);
        values[i] = bl_substitute(ir, value->src[1], &open);
        if (!bl_is_int(gate, 1))
            values[i] = bl_where(ir, gate, values[i], value->src[2]);
    }
}

/* Does a group fill local memory inside the loops of |reduce|? Then the loops contain barriers and must have the same length
 * for all work-items. */
static bool has_barriers(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_STAGE && (node->sub & BL_STAGE_SHARED) != 0;
}

/* Trim |reduce|; |before| is the same node before the rewrite, one of |below|. */
static const bl_node *trim_trim(bl_ir *ir, const bl_nodes *below, const bl_node *before, const bl_node *reduce)
{
    bl_clauses used = {0};
    const bl_node *ranges[BL_MAX_DIMS * 2], *from[BL_MAX_DIMS * 2], *to[BL_MAX_DIMS * 2];
    const bl_node **values = bl_arena_array(bl_ir_arena(ir), (size_t)reduce->arg, sizeof *values);
    int n = (int)reduce->nsrc - (int)reduce->arg, nmoved = 0, nvalues = 0;

    if (common_clauses(reduce).count == 0 || n > BL_MAX_DIMS * 2 || values == NULL ||
        bl_find(ir, 1, &reduce, has_barriers, NULL) != NULL)
        return reduce;
    for (int i = 0; i < n; i++) {
        const bl_node *range = reduce->src[reduce->arg + i], *first = NULL, *end = NULL;
        bl_clauses all = shared_clauses(below, before, range);
        ranges[i] = range;
        if (range->sub != BL_AXIS_REDUCE || !bound_loop(ir, reduce, range, &all, &used, &first, &end))
            continue;
        ranges[i] = bl_range_like(ir, range, BL_AXIS_REDUCE, bl_sub(ir, end, first));
        from[nmoved] = range;
        to[nmoved++] = bl_add(ir, first, ranges[i]);
    }
    if (used.count == 0)
        return reduce;
    open_gates(ir, reduce, &used, nmoved, from, values);
    for (int64_t i = 0; i < reduce->arg; i++) {
        if (is_zero(values[i]))
            continue;
        values[nvalues] = values[i];
        for (int k = 0; k < nmoved; k++)
            values[nvalues] = bl_lower_move_range(ir, values[nvalues], from[k], to[k]);
        nvalues++;
    }
    return bl_reduce_over(ir, BL_OP_ADD, nvalues, values, n, ranges);
}

/* Drop gates of values that are zero by themselves where the gate is closed. */
static const bl_node *drop_gates(bl_ir *ir, const bl_node *reduce)
{
    const bl_node **src = bl_arena_array(bl_ir_arena(ir), reduce->nsrc, sizeof *src);

    if (reduce->op != BL_OP_REDUCE)
        return reduce;
    for (uint32_t i = 0; src != NULL && i < reduce->nsrc; i++) {
        bool gated = i < (uint32_t)reduce->arg && bl_is_gated(reduce->src[i]) && bl_is_zero_outside(reduce->src[i]);
        src[i] = gated ? reduce->src[i]->src[1] : reduce->src[i];
    }
    return src == NULL ? reduce : bl_node_with(ir, reduce, src);
}

typedef struct trimming {
    bl_ir *ir;
    bl_nodes below; /* nodes of the original nest */
} trimming;

static const bl_node *trim_sum(void *arg, const bl_node *node, const bl_node *const *src)
{
    const trimming *t = arg;
    const bl_node *made = bl_node_with(t->ir, node, src);

    return made->op == BL_OP_REDUCE && made->sub == BL_OP_ADD ? drop_gates(t->ir, trim_trim(t->ir, &t->below, node, made)) : made;
}

const bl_node *bl_lower_trim(bl_ir *ir, const bl_node *sink)
{
    trimming t = {ir, bl_reach(ir, 1, &sink, false)};

    return bl_rewrite(ir, sink, trim_sum, &t);
}
