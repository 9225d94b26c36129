/* SPDX-License-Identifier: MIT */
/* PACK: an operand of a reduction is written into a buffer of its own, in the order in which the nest reads it (panels: grid axes
 * outermost, then the reduction's loops, then tiles, then lanes), by a helper nest. */
#include "engine/ir/rewrite.h"
#include "engine/opt/internal.h"

static int layer(const bl_node *range)
{
    switch ((bl_axis_kind)range->sub) {
    case BL_AXIS_GLOBAL:
        return 0;
    case BL_AXIS_LOOP:
        return 1;
    case BL_AXIS_GROUP:
    case BL_AXIS_REDUCE:
        return 2;
    case BL_AXIS_TILE:
        return 3;
    case BL_AXIS_LOCAL:
        return 4;
    case BL_AXIS_VECTOR:
        return 5;
    }
    return 0;
}

/* The axes that |node| depends on, in panel order. */
static int panel_axes(bl_tune *tune, const bl_node *node, const bl_node **range)
{
    int n = 0;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *candidate = tune->axis[i].range;
        int at = n;
        if (!bl_depends(tune, node, candidate))
            continue;
        for (; at > 0 && layer(range[at - 1]) > layer(candidate); at--)
            range[at] = range[at - 1];
        range[at] = candidate;
        n++;
    }
    return n;
}

bool tune_is_packed(const bl_tune *tune, const bl_node *load)
{
    return load->src[0]->arg >= tune->nparams - tune->npacked;
}

/* The helper: a plain nest of one store; its parameters are renumbered from the panel on.  RANGEs in |to| become its loops. */
static bool make_helper(bl_tune *tune, const bl_node *load, const bl_node *index, bl_ptrmap *to, bl_packed *packed)
{
    bl_ir *ir = tune->ir;
    const bl_node *store = NULL;
    bl_nodes below = bl_reach(ir, 1, &load, false);

    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op != BL_OP_BUFFER)
            continue;
        if (packed->nfrom == BL_MAX_DIMS * 2)
            return false;
        bl_ptrmap_put(to, below.at[i], (void *)(uintptr_t)bl_param(ir, packed->nfrom + 1, (bl_dtype)below.at[i]->dtype, false));
        packed->from[packed->nfrom++] = (int)below.at[i]->arg;
    }
    store = bl_store(ir, bl_param(ir, 0, packed->dtype, false), bl_substitute(ir, index, to), bl_substitute(ir, load, to), NULL);
    packed->sink = bl_sink(ir, 1, &store);
    return bl_ir_status(ir, NULL) == BL_OK;
}

/* The nest reads the panel at |index| where it read |load|. */
static void read_panel(bl_tune *tune, const bl_node *load, const bl_node *index, const bl_packed *packed)
{
    bl_ir *ir = tune->ir;
    const bl_node *panel = bl_load(ir, bl_param(ir, tune->nparams, packed->dtype, false), index, NULL);
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    bl_ptrmap_put(&to, load, (void *)(uintptr_t)panel);
    tune->packed[tune->npacked++] = *packed;
    tune->nparams++;
    tune_survey(tune, bl_substitute(ir, tune->sink, &to));
}

bool tune_pack(bl_tune *tune, int operand)
{
    bl_ir *ir = tune->ir;
    const bl_node *load = tune_operand_load(tune, operand), *range[BL_MAX_AXES], *index = bl_index(ir, 0);
    bl_packed packed = {.param = tune->nparams};
    bl_ptrmap to;
    int n = 0;

    if (load == NULL || tune->npacked == BL_MAX_HELPERS)
        return false;
    n = panel_axes(tune, load, range);
    if (n == 0 || n > BL_MAX_DIMS)
        return false;
    packed.dtype = (bl_dtype)load->dtype;
    packed.count = bl_index(ir, 1);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < n; i++) {
        index = bl_add(ir, bl_mul(ir, index, range[i]->src[0]), range[i]);
        packed.count = bl_mul(ir, packed.count, range[i]->src[0]);
        bl_ptrmap_put(&to, range[i], (void *)(uintptr_t)bl_range(ir, i, BL_AXIS_LOOP, range[i]->src[0]));
    }
    if (!make_helper(tune, load, index, &to, &packed))
        return false;
    read_panel(tune, load, index, &packed);
    return true;
}

/* ---- edges */

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
        if (n == BL_MAX_DIMS || !bl_is_fixed(tune->axis[i].range))
            return 0;
        all[n++] = (signature){.range = tune->axis[i].range};
    }
    if (!add_terms(tune, all, n, load->src[1], -1, 1) || !add_gate(tune, all, n, load->src[2], &nclauses))
        return 0;
    return n;
}

/* Ranges that only ever occur as their sum or difference (y + ky) are one axis of the panel, as long as that can get. */
bool tune_edges(bl_tune *tune, int operand)
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
        int64_t extent = bl_extent_of(all[i].range);
        const bl_node *whole = all[i].range;
        bool taken = bl_ptrmap_has(&to, all[i].range);
        int at = naxes;
        for (int k = i + 1; k < n && !taken; k++) {
            int way = same_signature(&all[i], &all[k]);
            int64_t last = bl_extent_of(all[k].range) - 1;
            const bl_node *other = all[k].range;
            if (way == 0)
                continue;
            if (way < 0) /* y - ky is (y + last - ky) - last */
                other = bl_sub(ir, bl_index(ir, last), other);
            extent += last;
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
        axis[at] = bl_range(ir, 1000 + i, BL_AXIS_LOOP, bl_index(ir, extent));
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
    if (!make_helper(tune, load, inner, &to, &packed))
        return false;
    read_panel(tune, load, outer, &packed);
    return true;
}
