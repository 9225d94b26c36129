/* SPDX-License-Identifier: MIT */
/* EDGES: an operand that is read through a padding is written out with its edges by a helper nest, so that the nest reads it
 * without a gate.  And what need not be: a gate of the sum itself, where the loops can end. */
#include "engine/ir/gate.h"
#include "engine/ir/rewrite.h"
#include "engine/opt/internal.h"

enum { MOST_CLAUSES = 16, MOST_TERMS = BL_MAX_DIMS * 2 };

/* How a LOAD depends on one RANGE: by how much its index grows with it, and each side of each comparison in its gate. */
typedef struct signature {
    const bl_node *range;
    int64_t index;
    int64_t clause[MOST_CLAUSES];
} signature;

static bool add_terms(bl_tune *tune, signature *all, int n, const bl_node *sum, int clause, int64_t sign)
{
    const bl_node *term[MOST_TERMS];
    int64_t coefficient[MOST_TERMS], constant = 0;
    int terms = bl_index_terms(sum, MOST_TERMS, term, coefficient, &constant);

    for (int i = 0; i < terms; i++) {
        bool found = false;
        for (int k = 0; k < n; k++) {
            if (all[k].range != term[i])
                continue;
            *(clause < 0 ? &all[k].index : &all[k].clause[clause]) += sign * coefficient[i];
            found = true;
        }
        if (!found && bl_free_get(&tune->free, term[i]) != 0)
            return false; /* not a plain sum of ranges */
    }
    return terms >= 0;
}

/* The gate's comparisons; false where it holds anything else that depends on a loop. */
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

/* 1 where everything grows alike with both, -1 where it grows with one as it falls with the other, else 0. */
static int same_signature(const signature *a, const signature *b)
{
    bool same = a->index == b->index, opposite = a->index == -b->index;
    for (int i = 0; i < MOST_CLAUSES; i++) {
        same = same && a->clause[i] == b->clause[i];
        opposite = opposite && a->clause[i] == -b->clause[i];
    }
    return same ? 1 : opposite ? -1 : 0;
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

/* Products with |load|, which is zero where its gate is closed, need not be asked for the same: but for what compares with an
 * axis whose bit is in |keep|. */
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
        bl_ptrmap_put(&to, value, (void *)(uintptr_t)bl_where(tune->ir, gate, value->src[1], value->src[2]));
    }
    tune_survey(tune, bl_substitute(tune->ir, tune->sink, &to));
}

/* Ranges of fixed extents that only ever occur as their sum or difference (y + ky) are one axis of the panel, as long as that can
 * get. */
bool tune_edges(bl_tune *tune, int operand, int64_t keep)
{
    bl_ir *ir = tune->ir;
    const bl_node *load = tune_operand_load(tune, operand), *axis[BL_MAX_DIMS], *sum[BL_MAX_DIMS], *inner = bl_index(ir, 0),
                  *outer = inner;
    signature *all = bl_arena_array(bl_ir_arena(ir), BL_MAX_DIMS, sizeof *all);
    bl_packed packed = {.param = tune->nparams, .count = bl_index(ir, 1)};
    int64_t stride[BL_MAX_DIMS];
    bl_ptrmap to;
    int n = 0, naxes = 0;

    if (load == NULL || load->nsrc < 3 || all == NULL || tune->npacked == BL_MAX_HELPERS ||
        (n = sign_ranges(tune, load, all)) == 0)
        return false;
    packed.dtype = (bl_dtype)load->dtype;
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < n; i++) {
        const bl_node *whole = all[i].range, *extent = whole->src[0];
        bool taken = bl_ptrmap_has(&to, all[i].range);
        int at = naxes;
        for (int k = i + 1; k < n && !taken; k++) {
            int way = same_signature(&all[i], &all[k]);
            int64_t last = bl_extent_of(all[k].range) - 1;
            const bl_node *other = all[k].range;
            if (way == 0 || !bl_is_fixed(all[i].range) || !bl_is_fixed(all[k].range))
                continue;
            if (way < 0) /* y - ky is (y + last - ky) - last */
                other = bl_sub(ir, bl_index(ir, last), other);
            extent = bl_add(ir, extent, bl_index(ir, last));
            whole = bl_add(ir, whole, other);
            bl_ptrmap_put(&to, all[k].range, (void *)(uintptr_t)bl_index(ir, way > 0 ? 0 : last));
        }
        if (taken)
            continue;
        for (; at > 0 && stride[at - 1] < all[i].index; at--) { /* in the order of the tensor itself */
            axis[at] = axis[at - 1];
            sum[at] = sum[at - 1];
            stride[at] = stride[at - 1];
        }
        axis[at] = bl_range(ir, 1000 + i, BL_AXIS_LOOP, extent);
        sum[at] = whole;
        stride[at] = all[i].index;
        bl_ptrmap_put(&to, all[i].range, (void *)(uintptr_t)axis[at]);
        naxes++;
    }
    for (int i = 0; i < naxes; i++) { /* number the loops now that their order is known */
        const bl_node *loop = bl_range(ir, i, BL_AXIS_LOOP, axis[i]->src[0]);
        for (int k = 0; k < n; k++) {
            if (bl_ptrmap_get(&to, all[k].range) == axis[i])
                bl_ptrmap_put(&to, all[k].range, (void *)(uintptr_t)loop);
        }
        inner = bl_add(ir, bl_mul(ir, inner, axis[i]->src[0]), loop);
        outer = bl_add(ir, bl_mul(ir, outer, axis[i]->src[0]), sum[i]);
        packed.count = bl_mul(ir, packed.count, axis[i]->src[0]);
    }
    if (!pack_make_helper(tune, 1, &load, &inner, &to, &packed))
        return false;
    open_products(tune, load, keep);
    pack_read_panel(tune, load, outer, &packed);
    return true;
}

/* Does |clause| bound one loop of a reduction, by output axes in |untiled| alone?  |axes|: those it depends on. */
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

/* The gate above a product with |load|, or NULL. */
static const bl_node *gate_of_product(bl_tune *tune, const bl_node *load)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *value = below.at[i];
        if (bl_is_gated(value) && value->src[1]->op == BL_OP_MUL &&
            (value->src[1]->src[0] == load || value->src[1]->src[1] == load))
            return value->src[0];
    }
    return NULL;
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
    const bl_node *gate = gate_of_product(tune, load);
    bl_clauses above = {0}, own = {0};
    int64_t all = 0;

    *keep = 0;
    if (gate == NULL || !bl_clauses_add(&above, gate) || !bl_clauses_add(&own, load->src[2]))
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
