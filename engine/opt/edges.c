/* SPDX-License-Identifier: MIT */
/* EDGES (halo): a helper nest writes an operand that is read under the gate of a padding into a buffer that contains the padding,
 * so that the nest reads the operand without a gate.  If a gate of the sum can bound its loops instead, the loops are trimmed,
 * and the operand is not written. */
#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/opt/facts.h"

enum {
    MOST_CLAUSES = 16,
    MOST_EDGE = 8,
    REUSE_TO_WRITE = 8,  /* reads per element from which a buffer with padding pays */
    WINDOWS_TO_WRITE = 2 /* the same on a CPU: 8 x 240 maps of 7 x 7, 5 x 5 two apart, 0.8 ms and 0.23 */
};

/* How a LOAD depends on one RANGE: the coefficients of the RANGE in the index and in each comparison of the gate. */
typedef struct signature {
    const bl_node *range;
    int64_t index;
    int64_t clause[MOST_CLAUSES];
} signature;

static bool add_terms(bl_tune *tune, signature *all, int n, const bl_node *sum, int clause, int64_t sign)
{
    bl_affine terms;

    if (!bl_affine_of(&terms, sum))
        return false;
    for (int i = 0; i < terms.count; i++) {
        bool found = false;
        for (int k = 0; k < n; k++) {
            if (all[k].range != terms.at[i].node)
                continue;
            *(clause < 0 ? &all[k].index : &all[k].clause[clause]) += sign * terms.at[i].coefficient;
            found = true;
        }
        if (!found && bl_free_get(&tune->free, terms.at[i].node) != 0)
            return false; /* not a plain sum of ranges */
    }
    return true;
}

/* Add the comparisons of the gate; false if any other part of the gate depends on a loop. */
static bool add_gate(bl_tune *tune, signature *all, int n, const bl_node *gate, int *nclauses)
{
    if (gate->op == BL_OP_AND)
        return add_gate(tune, all, n, gate->src[0], nclauses) && add_gate(tune, all, n, gate->src[1], nclauses);
    if (bl_free_get(&tune->free, gate) == 0)
        return true;
    if (gate->op != BL_OP_CMPLT || gate->src[0]->dtype != BL_INDEX || *nclauses == MOST_CLAUSES)
        return false;
    ++*nclauses;
    return add_terms(tune, all, n, gate->src[0], *nclauses - 1, 1) && add_terms(tune, all, n, gate->src[1], *nclauses - 1, -1);
}

/* The factor by which all coefficients of |a| exceed those of |unit|; 0 if there is no such factor, or if the gate has no
 * comparison with |unit|. */
static int64_t times_of(const signature *a, const signature *unit)
{
    int64_t times = 0;

    for (int i = 0; i < MOST_CLAUSES && times == 0; i++)
        times = unit->clause[i] == 0 ? 0 : a->clause[i] / unit->clause[i];
    for (int i = 0; i < MOST_CLAUSES && times != 0; i++)
        times = a->clause[i] == times * unit->clause[i] ? times : 0;
    return a->index == times * unit->index ? times : 0;
}

static int sign_ranges(bl_tune *tune, const bl_node *load, signature *all)
{
    int n = 0, nclauses = 0;
    for (int i = 0; i < tune->naxes; i++) {
        if (!bl_depends(tune, load, tune->axis[i].range))
            continue;
        if (n == BL_MAX_DIMS)
            return 0;
        all[n++] = (signature){.range = tune->axis[i].range};
    }
    if (!add_terms(tune, all, n, load->src[1], -1, 1) || !add_gate(tune, all, n, load->src[2], &nclauses))
        return 0;
    return n;
}

/* |load| is zero if its gate is false, and so are products with it: their own gates lose the comparisons of the gate of |load|,
 * except comparisons with an axis whose bit is in |keep|. */
static void open_products(bl_tune *tune, const bl_node *load, int64_t keep)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    bl_clauses all = {0}, known = {0};
    bl_ptrmap to;

    if (!bl_clauses_add(&all, load->src[2]))
        return;
    for (int i = 0; i < all.count; i++) {
        bool kept = false;
        for (int k = 0; k < tune->naxes; k++)
            kept = kept || ((keep >> k & 1) != 0 && bl_depends(tune, all.at[i], tune->axis[k].range));
        if (!kept)
            known.at[known.count++] = all.at[i];
    }
    bl_ptrmap_init(&to, bl_ir_arena(tune->ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *value = below.at[i], *gate = NULL;
        if (!bl_is_gated(value) || value->src[1]->op != BL_OP_MUL ||
            (value->src[1]->src[0] != load && value->src[1]->src[1] != load))
            continue;
        gate = bl_gate_without(tune->ir, value->src[0], &known);
        bl_ptrmap_put(&to, value, bl_where(tune->ir, gate, value->src[1], value->src[2]));
    }
    tune_survey(tune, bl_substitute(tune->ir, tune->sink, &to));
}

/* Can |a|, a multiple of |unit|, be joined with |unit| into one axis?  Not if the axis would have gaps. */
static bool joins(const signature *a, const signature *unit, int64_t *times)
{
    *times = a == unit || !bl_is_fixed(a->range) || !bl_is_fixed(unit->range) ? 0 : times_of(a, unit);
    if (*times == 1 || *times == -1)
        return a > unit;
    return *times != 0 && (*times < 0 ? -*times : *times) <= bl_extent_of(unit->range);
}

/* The first signature that |a| can be joined with and that joins no other; |a| itself if there is none. */
static const signature *lead_of(const signature *all, int n, const signature *a, int64_t *times)
{
    for (int i = 0; i < n; i++) {
        int64_t own = 0;
        bool free = joins(a, &all[i], times);
        for (int k = 0; k < n && free; k++)
            free = !joins(&all[i], &all[k], &own);
        if (free)
            return &all[i];
    }
    return a;
}

/* An axis of the buffer; |whole| is the index along the axis at which the nest reads. */
typedef struct edge_axis {
    const bl_node *whole, *extent;
    int64_t stride; /* in the tensor */
    int lead;       /* the signature whose range it is */
    bool lanes;
} edge_axis;

/* Is |a| outside |b| in the buffer?  Axes are in the order of the tensor; lanes are innermost. */
static bool is_further_out(const edge_axis *a, const edge_axis *b)
{
    return a->lanes == b->lanes ? a->stride > b->stride : b->lanes;
}

/* Ranges of constant extents that occur only in one sum (y + ky, or 2 y + ky) become one axis with the extent of the sum. */
static int find_axes(bl_ir *ir, const signature *all, int n, edge_axis *axis, bl_ptrmap *to)
{
    int naxes = 0;

    for (int i = 0; i < n; i++) {
        edge_axis own = {.whole = all[i].range,
                         .extent = all[i].range->src[0],
                         .stride = all[i].index,
                         .lead = i,
                         .lanes = all[i].range->sub == BL_AXIS_VECTOR};
        int64_t times = 0;
        int at = naxes;
        if (lead_of(all, n, &all[i], &times) != &all[i])
            continue;
        for (int k = 0; k < n; k++) {
            const bl_node *other = all[k].range, *last = bl_index(ir, bl_extent_of(other) - 1);
            if (k == i || lead_of(all, n, &all[k], &times) != &all[i])
                continue;
            bl_ptrmap_put(to, other, times > 0 ? bl_index(ir, 0) : last);
            if (times < 0) /* y - ky is (y + last - ky) - last */
                other = bl_sub(ir, last, other);
            times = times < 0 ? -times : times;
            own.extent = bl_add(ir, own.extent, bl_mul(ir, last, bl_index(ir, times)));
            own.whole = bl_add(ir, own.whole, bl_mul(ir, other, bl_index(ir, times)));
        }
        for (; at > 0 && is_further_out(&own, &axis[at - 1]); at--)
            axis[at] = axis[at - 1];
        axis[at] = own;
        naxes++;
    }
    return naxes;
}

/* Narrow the interval [lo, hi) of |loop| to the indices for which |clause| holds.  False if |clause| is no comparison of |loop|
 * with a constant. */
static bool edges_narrow(bl_ir *ir, const bl_node *clause, const bl_node *loop, int64_t *lo, int64_t *hi)
{
    bl_affine sum;
    int64_t by = 0;

    if (clause->op != BL_OP_CMPLT || clause->src[0]->dtype != BL_INDEX ||
        !bl_affine_of(&sum, bl_sub(ir, clause->src[1], clause->src[0])))
        return false;
    by = bl_affine_along(&sum, loop);
    if (sum.count != 1 || (by != 1 && by != -1)) /* by * loop + constant > 0 */
        return false;
    if (by > 0 && 1 - sum.constant > *lo)
        *lo = 1 - sum.constant;
    if (by < 0 && sum.constant < *hi)
        *hi = sum.constant;
    return true;
}

/* Make a helper that goes by rows of |loop|, the innermost axis besides lanes: it stores padding, the elements of the tensor,
 * which need no gate along the row, and padding.  False, and nothing changed, if the gate is no interval of the row or the
 * padding is long. */
static bool make_rows(bl_tune *tune, const bl_node *load, const bl_node *index, const bl_node *loop, bl_ptrmap *to,
                      bl_packed *packed)
{
    bl_ir *ir = tune->ir;
    bl_nodes below = bl_reach(ir, 1, &load, false);
    bl_clauses all = {0}, row = {0};
    const bl_node *stores[MOST_EDGE + 1], *at = NULL, *value = NULL, *gate = bl_substitute(ir, load->src[2], to);
    int64_t lo = 0, extent = bl_extent_of(loop), hi = extent;
    int n = 0;

    for (int i = bl_clauses_add(&all, gate) && bl_is_fixed(loop) ? 0 : BL_MAX_CLAUSES; i < all.count; i++) {
        if (!edges_narrow(ir, all.at[i], loop, &lo, &hi) && bl_depends(tune, all.at[i], loop))
            return false;
        if (bl_depends(tune, all.at[i], loop))
            row.at[row.count++] = all.at[i];
    }
    if (row.count == 0 || lo >= hi || extent - (hi - lo) > MOST_EDGE || !pack_renumber(tune, &below, to, packed))
        return false;
    gate = bl_gate_without(ir, bl_substitute(ir, load->src[2], to), &row); /* once more: |to| has the numbers of buffers now */
    value = bl_substitute(ir, load, to);
    value = bl_load(ir, value->src[0], value->src[1], bl_is_const(gate) ? NULL : gate);
    at = bl_add(ir, bl_range_like(ir, loop, BL_AXIS_LOOP, bl_index(ir, hi - lo)), bl_index(ir, lo));
    stores[n++] = bl_store(ir, bl_param(ir, 0, packed->dtype, false), bl_replace(ir, index, loop, at),
                           bl_replace(ir, value, loop, at), NULL);
    for (int64_t edge = 0; edge < extent; edge++) {
        if (edge < lo || edge >= hi)
            stores[n++] = bl_store(ir, bl_param(ir, 0, packed->dtype, false), bl_replace(ir, index, loop, bl_index(ir, edge)),
                                   bl_const_int(ir, packed->dtype, 0), NULL);
    }
    packed->sink = bl_sink(ir, n, stores);
    return bl_ir_status(ir, NULL) == BL_OK;
}

bool move_edges(bl_tune *tune, int operand, int64_t amount)
{
    bl_ir *ir = tune->ir;
    int64_t keep = amount < 0 ? ~amount : amount;
    const bl_node *load = tune_operand_load(tune, operand), *inner = bl_index(ir, 0), *outer = inner;
    signature *all = bl_arena_array(bl_ir_arena(ir), BL_MAX_DIMS, sizeof *all);
    bl_packed packed = {.param = tune->nparams, .count = bl_index(ir, 1)};
    edge_axis axis[BL_MAX_DIMS];
    bl_ptrmap to;
    int n = 0, naxes = 0, last = 0;

    if (load == NULL || load->nsrc < 3 || all == NULL || tune->npacked == BL_MAX_HELPERS ||
        (n = sign_ranges(tune, load, all)) == 0)
        return false;
    packed.dtype = (bl_dtype)load->dtype;
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    naxes = find_axes(ir, all, n, axis, &to);
    for (int i = 0; i < naxes; i++) {
        const bl_node *loop = bl_range(ir, bl_loop_pack(BL_LEVEL_OUTPUTS, i), BL_AXIS_LOOP, axis[i].extent);
        bl_ptrmap_put(&to, all[axis[i].lead].range, loop);
        inner = bl_add(ir, bl_mul(ir, inner, axis[i].extent), loop);
        outer = bl_add(ir, bl_mul(ir, outer, axis[i].extent), axis[i].whole);
        packed.count = bl_mul(ir, packed.count, axis[i].extent);
        last = axis[i].lanes ? last : i;
    }
    if ((amount >= 0 || naxes == 0 ||
         !make_rows(tune, load, inner, bl_ptrmap_get(&to, all[axis[last].lead].range), &to, &packed)) &&
        !pack_make_helper(tune, 1, &load, &inner, &to, &packed))
        return false;
    open_products(tune, load, keep);
    pack_read_panel(tune, load, outer, &packed);
    return true;
}

/* Does |clause| bound one loop of a reduction by output axes in |untiled| only?  |axes| gets the output axes in it. */
static bool ends_loop(bl_tune *tune, const bl_node *clause, int64_t untiled, int64_t *axes)
{
    int bounded = 0, others = 0;

    *axes = 0;
    for (int i = 0; i < tune->naxes; i++) {
        int64_t bit = INT64_C(1) << i;
        if (!bl_depends(tune, clause, tune->axis[i].range))
            continue;
        *axes |= tune->axis[i].output ? bit : 0;
        bounded += !tune->axis[i].output;
        others += tune->axis[i].output && (untiled & bit) == 0;
    }
    return clause->op == BL_OP_CMPLT && clause->src[0]->dtype == BL_INDEX && bounded == 1 && others == 0;
}

/* Is |node| a gated product with |load|? */
static bool is_gated_product(const bl_node *node, const void *load)
{
    return bl_is_gated(node) && node->src[1]->op == BL_OP_MUL && (node->src[1]->src[0] == load || node->src[1]->src[1] == load);
}

int64_t edges_gated_axes(bl_tune *tune)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    int64_t gated = 0;

    for (size_t i = 0; i < below.count; i++) {
        bl_clauses all = {0};
        int64_t axes = 0;
        if (!bl_is_gated(below.at[i]) || below.at[i]->src[1]->op != BL_OP_MUL || !bl_clauses_add(&all, below.at[i]->src[0]))
            continue;
        for (int k = 0; k < all.count; k++)
            gated |= ends_loop(tune, all.at[k], -1, &axes) ? axes : 0;
    }
    return gated;
}

bool edges_end_loops(bl_tune *tune, const bl_node *load, int64_t untiled, int64_t *keep)
{
    const bl_node *product = bl_find(tune->ir, 1, &tune->sink, is_gated_product, load);
    bl_clauses above = {0}, own = {0};
    int64_t all = 0;

    *keep = 0;
    if (product == NULL || !bl_clauses_add(&above, product->src[0]) || !bl_clauses_add(&own, load->src[2]))
        return false;
    *keep = untiled;
    for (int i = 0; i < own.count; i++) {
        int64_t axes = 0;
        if (!ends_loop(tune, own.at[i], untiled, &axes) || !bl_clauses_hold(&above, own.at[i]))
            *keep &= ~axes;
        all |= axes;
    }
    *keep &= all;
    return all == *keep && all != 0;
}

/* Apply EDGES to the operand if each element that the helper writes is read often enough.  The sum keeps the comparisons with the
 * axes in |keep|. */
static bool write_operand(bl_tune *tune, const bl_target *target, const access *a, int64_t keep)
{
    const tune_mark before = tune_keep(tune);
    int64_t uses = bl_free_size(&tune->free, a->loops) / (target->groups ? REUSE_TO_WRITE : WINDOWS_TO_WRITE);
    const bl_node *count = NULL;

    if (uses < bl_free_places(&tune->free, a->node) || (uint32_t)tune->nparams >= target->max_params ||
        !bl_tune_apply(tune, (bl_move){BL_MOVE_EDGES, tune_operand_number(tune, a->node), target->groups ? keep : ~keep}))
        return false;
    count = tune->packed[tune->npacked - 1].count;
    if (bl_is_const(count) && count->arg <= uses)
        return true;
    tune_undo(tune, &before);
    return false;
}

bool edges_of_windows(facts *f, const bl_target *target)
{
    return f->main != NULL && !target->groups && f->focus == NULL &&
           !bl_reads_over_and_over(&f->tune->free, f->main, WINDOWS_TO_WRITE, false);
}

void edges_write(facts *f, const bl_target *target, int64_t untiled)
{
    const facts before = *f;

    for (bool again = true; again;) {
        again = false;
        facts_again(f, &before);
        for (int i = 0; i < f->naccesses && !again && f->main != NULL; i++) {
            const access *a = &f->access[i];
            int64_t keep = 0;
            if (a->reduce != f->main || a->node->op != BL_OP_LOAD || a->node->nsrc < 3 ||
                (!edges_of_windows(f, target) && edges_end_loops(before.tune, a->node, untiled, &keep)))
                continue;
            again = write_operand(before.tune, target, a, keep);
        }
    }
}
