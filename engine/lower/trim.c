/* SPDX-License-Identifier: MIT */
/* Sums end where their gate closes: in a sum of where(gate, v, 0), a comparison that bounds a loop of the sum, with what is known
 * outside, becomes the first and the last turn of that loop, and no gate asks again inside.  A convolution's gradient adds
 * windows that reach over the edge; so it adds nothing there, rather than zeros. needs: no TILE or VECTOR.  keeps: values.
 * leaves: REDUCE ranges whose extents may depend on other RANGEs. */
#include "engine/base/map.h"
#include "engine/ir/gate.h"
#include "engine/ir/rewrite.h"
#include "engine/lower/lower.h"

/* The comparisons that all values of |reduce| are gated by; none where some value is no where(gate, v, 0). */
static bl_clauses common_clauses(const bl_node *reduce)
{
    bl_clauses all = {0}, none = {0};

    for (int64_t i = 0; i < reduce->arg; i++) {
        const bl_node *value = reduce->src[i];
        bl_clauses own = {0};
        int kept = 0;
        if (!bl_is_gated(value) || value->src[0]->lanes != 1 || !bl_clauses_add(&own, value->src[0]))
            return none;
        if (i == 0)
            all = own;
        for (int k = 0; k < all.count; k++) {
            if (bl_clauses_hold(&own, all.at[k]))
                all.at[kept++] = all.at[k];
        }
        all.count = kept;
    }
    return all;
}

/* Sums over one range share its loop (linearize.c), the copies of a tile above all: what |reduce| has in common with all others
 * of |below| that are over |range|. */
static bl_clauses shared_clauses(const bl_nodes *below, const bl_node *reduce, const bl_node *range)
{
    bl_clauses all = common_clauses(reduce);

    for (size_t i = 0; i < below->count && all.count > 0; i++) {
        const bl_node *other = below->at[i];
        bool over = false;
        bl_clauses own = {0};
        int kept = 0;
        for (uint32_t k = (uint32_t)other->arg; other->op == BL_OP_REDUCE && k < other->nsrc; k++)
            over = over || other->src[k] == range;
        if (!over || other == reduce)
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

/* |clause| as 0 < times * range + rest, where |rest| is the same in all loops of |reduce|. */
static bool solve(bl_ir *ir, const bl_node *clause, const bl_node *reduce, const bl_node *range, int64_t *times,
                  const bl_node **rest)
{
    const bl_node *difference = NULL, *term[BL_MAX_DIMS * 2];
    int64_t coefficient[BL_MAX_DIMS * 2], constant = 0;
    int n = 0;

    if (clause->op != BL_OP_CMPLT || clause->lanes != 1 || clause->src[0]->dtype != BL_INDEX)
        return false;
    difference = bl_sub(ir, clause->src[1], clause->src[0]);
    n = bl_index_terms(difference, BL_MAX_DIMS * 2, term, coefficient, &constant);
    *times = 0;
    for (int i = 0; i < n; i++) {
        if (term[i] == range && coefficient[i] > -INT32_MAX && coefficient[i] < INT32_MAX)
            *times = coefficient[i];
    }
    if (*times == 0)
        return false;
    *rest = bl_sub(ir, difference, bl_mul(ir, range, bl_index(ir, *times)));
    return !bl_reaches(ir, 1, rest, (int)reduce->nsrc - (int)reduce->arg, reduce->src + reduce->arg);
}

/* The first turn of a loop and the one behind the last, by what bounds it; |used| gets the comparisons. */
static bool bound_loop(bl_ir *ir, const bl_node *reduce, const bl_node *range, const bl_clauses *all, bl_clauses *used,
                       const bl_node **first, const bl_node **end)
{
    int before = used->count;

    *first = bl_index(ir, 0);
    *end = range->src[0];
    for (int i = 0; i < all->count; i++) {
        const bl_node *rest = NULL;
        int64_t times = 0;
        if (bl_clauses_hold(used, all->at[i]) || !solve(ir, all->at[i], reduce, range, &times, &rest))
            continue;
        if (times > 0) /* -rest < times * range: from floor(-rest / times) + 1 on */
            *first = bl_alu2(ir, BL_OP_MAX, *first,
                             bl_add(ir, bl_idiv(ir, bl_sub(ir, bl_index(ir, 0), rest), bl_index(ir, times)), bl_index(ir, 1)));
        else /* below rest / -times, rounded up */
            *end = bl_alu2(ir, BL_OP_MIN, *end, bl_idiv(ir, bl_add(ir, rest, bl_index(ir, -times - 1)), bl_index(ir, -times)));
        used->at[used->count++] = all->at[i];
    }
    return used->count > before;
}

/* Loops have canonical numbers, so further inside there may be others over one of the |n| ranges: what binds it again stays as it
 * is. */
static void shield(const bl_nodes *below, int n, const bl_node *const *ranges, bl_ptrmap *map)
{
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *node = below->at[i];
        for (uint32_t k = (uint32_t)node->arg; bl_binds_ranges(node) && k < node->nsrc; k++) {
            for (int r = 0; r < n; r++) {
                if (node->src[k] == ranges[r])
                    bl_ptrmap_put(map, node, node);
            }
        }
    }
}

/* |value| where |range|, as far as it is that of the sum around it, is |to|. */
static const bl_node *move_range(bl_ir *ir, const bl_node *value, const bl_node *range, const bl_node *to)
{
    bl_nodes below = bl_reach(ir, 1, &value, false);
    bl_ptrmap map;

    bl_ptrmap_init(&map, bl_ir_arena(ir));
    bl_ptrmap_put(&map, range, to);
    shield(&below, 1, &range, &map);
    return bl_substitute(ir, value, &map);
}

/* The values of |reduce| without the gates that its loops over |ranges| keep now. */
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
        const bl_node *value = reduce->src[i], *gate = bl_gate_without(ir, value->src[0], used);
        values[i] = bl_substitute(ir, value->src[1], &open);
        if (!bl_is_int(gate, 1))
            values[i] = bl_where(ir, gate, values[i], value->src[2]);
    }
}

/* Does a group fill local memory together in loops of |reduce|?  Its barriers stand there: the loops must end for all work-items
 * at once. */
static bool has_barriers(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_STAGE && (node->sub & BL_STAGE_SHARED) != 0;
}

/* |reduce|, which was |before| among the nodes |below|. */
static const bl_node *trim(bl_ir *ir, const bl_nodes *below, const bl_node *before, const bl_node *reduce)
{
    bl_clauses used = {0};
    const bl_node *ranges[BL_MAX_DIMS * 2], *from[BL_MAX_DIMS * 2], *to[BL_MAX_DIMS * 2];
    const bl_node **values = bl_arena_array(bl_ir_arena(ir), (size_t)reduce->arg, sizeof *values);
    int n = (int)reduce->nsrc - (int)reduce->arg, nmoved = 0;

    if (common_clauses(reduce).count == 0 || n > BL_MAX_DIMS * 2 || values == NULL ||
        bl_find(ir, 1, &reduce, has_barriers, NULL) != NULL)
        return reduce;
    for (int i = 0; i < n; i++) {
        const bl_node *range = reduce->src[reduce->arg + i], *first = NULL, *end = NULL;
        bl_clauses all = shared_clauses(below, before, range);
        ranges[i] = range;
        if (range->sub != BL_AXIS_REDUCE || !bound_loop(ir, reduce, range, &all, &used, &first, &end))
            continue;
        ranges[i] = bl_range(ir, (int)range->arg, BL_AXIS_REDUCE, bl_sub(ir, end, first));
        from[nmoved] = range;
        to[nmoved++] = bl_add(ir, first, ranges[i]);
    }
    if (used.count == 0)
        return reduce;
    open_gates(ir, reduce, &used, nmoved, from, values);
    for (int64_t i = 0; i < reduce->arg; i++) {
        for (int k = 0; k < nmoved; k++)
            values[i] = move_range(ir, values[i], from[k], to[k]);
    }
    return bl_reduce_over(ir, BL_OP_ADD, (int)reduce->arg, values, n, ranges);
}

/* Gates that are left where the value is zero by itself. */
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
    bl_nodes below; /* of the nest as it was */
} trimming;

static const bl_node *trim_sum(void *arg, const bl_node *node, const bl_node *const *src)
{
    const trimming *t = arg;
    const bl_node *made = bl_node_with(t->ir, node, src);

    return made->op == BL_OP_REDUCE && made->sub == BL_OP_ADD ? drop_gates(t->ir, trim(t->ir, &t->below, node, made)) : made;
}

const bl_node *bl_lower_trim(bl_ir *ir, const bl_node *sink)
{
    trimming t = {ir, bl_reach(ir, 1, &sink, false)};

    return bl_rewrite(ir, sink, trim_sum, &t);
}
