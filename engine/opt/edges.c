/* SPDX-License-Identifier: MIT */
/* Halo (stage, halo): a helper nest writes an operand that is read under the gate of a padding into a buffer that contains the
 * padding, zeros or another constant, so that the nest reads the operand without a gate.  If a gate of the sum can bound its
 * loops instead, the loops are trimmed, and the operand is not written. */
#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/opt/facts.h"
#include "engine/opt/staging.h"

enum {
    MOST_CLAUSES = 16,
    MOST_EDGE = 8,
    REUSE_TO_WRITE = 8,  /* reads per element from which a buffer with padding pays */
    LEAST_TRIMMED = 3,   /* iterations of a loop that is trimmed: 8 maps of 2 x 2, a weight's gradient, took 58 us
                            with a halo, 84 trimmed */
    WINDOWS_TO_WRITE = 2 /* the same on a CPU: 8 x 240 maps of 7 x 7, 5 x 5 two apart, 0.8 ms and 0.23 */
};

/* How a LOAD depends on its axes: the sum of the index, and x - y for each comparison x < y of the gate. */
typedef struct edge_sums {
    int n, nsums;
    const bl_node *range[BL_MAX_DIMS]; /* the axes */
    bl_affine sum[1 + MOST_CLAUSES];
} edge_sums;

/* Add x - y.  False if it is not a plain sum of axes. */
static bool edges_add_sum(bl_tune *tune, edge_sums *e, const bl_node *x, const bl_node *y)
{
    bl_affine *sum = &e->sum[e->nsums];

    if (e->nsums++ > MOST_CLAUSES)
        return false;
    bl_affine_difference(sum, x, y);
    for (int i = 0; i < sum->count; i++) {
        if (sum->at[i].node->op != BL_OP_RANGE && bl_free_get(&tune->free, sum->at[i].node) != 0)
            return false;
    }
    return !sum->failed;
}

/* False if |load| does not depend on its axes by plain sums alone. */
static bool edges_find_sums(bl_tune *tune, const bl_node *load, edge_sums *e)
{
    bl_clauses all = {0};
    bool good = bl_clauses_add(&all, load->src[2]) && edges_add_sum(tune, e, load->src[1], bl_index(tune->ir, 0));

    for (int i = 0; i < all.count && good; i++) {
        const bl_node *clause = all.at[i];
        if (bl_free_get(&tune->free, clause) != 0)
            good = clause->op == BL_OP_CMPLT && clause->src[0]->dtype == BL_INDEX &&
                   edges_add_sum(tune, e, clause->src[0], clause->src[1]);
    }
    for (int i = 0; i < tune->naxes && good; i++) {
        if (!bl_depends(tune, load, tune->axis[i].range))
            continue;
        good = e->n < BL_MAX_DIMS;
        if (good)
            e->range[e->n++] = tune->axis[i].range;
    }
    return good;
}

/* The factor by which all coefficients of axis |a| exceed those of axis |unit|; 0 if there is no such factor, or if the gate has
 * no comparison with |unit|. */
static int64_t edges_factor(const edge_sums *e, int a, int unit)
{
    int64_t times = 0;

    for (int i = 1; i < e->nsums && times == 0; i++) {
        int64_t by = bl_affine_along(&e->sum[i], e->range[unit]);
        times = by == 0 ? 0 : bl_affine_along(&e->sum[i], e->range[a]) / by;
    }
    for (int i = 0; i < e->nsums && times != 0; i++) {
        if (bl_affine_along(&e->sum[i], e->range[a]) != times * bl_affine_along(&e->sum[i], e->range[unit]))
            return 0;
    }
    return times;
}

/* Is |node| a gated product with |load|? */
static bool is_gated_product(const bl_node *node, const void *load)
{
    return bl_is_gated(node) && node->src[1]->op == BL_OP_MUL && (node->src[1]->src[0] == load || node->src[1]->src[1] == load);
}

/* Those comparisons of the gate of |load| that depend on no output axis in the bit mask |keep|. */
static bl_clauses not_kept(bl_tune *tune, const bl_node *load, int64_t keep)
{
    bl_clauses all = {0}, out = {0};

    if (!bl_clauses_add(&all, load->src[2]))
        return out;
    for (int i = 0; i < all.count; i++) {
        bool kept = false;
        for (int k = 0; k < tune->naxes; k++)
            kept = kept || ((keep >> k & 1) != 0 && bl_depends(tune, all.at[i], tune->axis[k].range));
        if (!kept)
            out.at[out.count++] = all.at[i];
    }
    return out;
}

/* |load| is zero if its gate is false, and so are products with it: their own gates lose the comparisons in |known|, some of
 * those of the gate of |load|. */
static void open_products(bl_tune *tune, const bl_node *load, const bl_clauses *known)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(tune->ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *value = below.at[i], *gate = NULL;
        if (!is_gated_product(value, load))
            continue;
        gate = bl_gate_without(tune->ir, value->src[0], known);
        bl_ptrmap_put(&to, value, bl_where(tune->ir, gate, value->src[1], value->src[2]));
    }
    tune_survey(tune, bl_substitute(tune->ir, tune->sink, &to));
}

bool hint_trim(bl_tune *tune, int operand)
{
    const bl_node *load = tune_operand_load(tune, operand);
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    const bl_node *before = tune->sink;
    bl_ptrmap to;

    if (load == NULL || load->nsrc < 3)
        return false;
    bl_ptrmap_init(&to, bl_ir_arena(tune->ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *sum = below.at[i];
        for (int64_t k = 0; sum->op == BL_OP_REDUCE && sum->sub == BL_OP_ADD && k < sum->arg; k++) {
            const bl_node *product = sum->src[k];
            if (product->op == BL_OP_MUL && (product->src[0] == load || product->src[1] == load))
                bl_ptrmap_put(&to, product,
                              bl_where(tune->ir, load->src[2], product, bl_const_int(tune->ir, (bl_dtype)product->dtype, 0)));
        }
    }
    tune_survey(tune, bl_substitute(tune->ir, tune->sink, &to));
    return tune->sink != before;
}

/* The factor of axis |a|, a multiple of axis |unit|, if both can be joined into one dimension; 0 if the dimension would have
 * gaps.
 */
static int64_t edges_joins(const edge_sums *e, int a, int unit)
{
    bool fixed = a != unit && bl_is_fixed(e->range[a]) && bl_is_fixed(e->range[unit]);
    int64_t times = fixed ? edges_factor(e, a, unit) : 0, size = times < 0 ? -times : times;

    return (size == 1 ? a > unit : size <= bl_extent_of(e->range[unit])) ? times : 0;
}

/* The first axis that axis |a| can be joined with, by the factor |*times|, and that joins no other; |a| itself if there is none.
 */
static int edges_lead(const edge_sums *e, int a, int64_t *times)
{
    for (int i = 0; i < e->n; i++) {
        bool free = (*times = edges_joins(e, a, i)) != 0;
        for (int k = 0; k < e->n && free; k++)
            free = edges_joins(e, i, k) == 0;
        if (free)
            return i;
    }
    return a;
}

static bool is_lane(const stage_dim *dim)
{
    return dim->range->sub == BL_AXIS_VECTOR;
}

/* Dimensions are in the order of the tensor; lanes are innermost. */
static bool is_outside_copy(const stage_dim *dim, const stage_dim *other)
{
    return is_lane(dim) == is_lane(other) ? dim->stride > other->stride : is_lane(other);
}

/* The footprint.  Axes of constant extents that occur only in one sum (y + ky, or 2 y + ky) become one dimension with the extent
 * of the sum: the halo. */
static void edges_footprint(staging *s, const edge_sums *e)
{
    bl_ir *ir = s->tune->ir;

    for (int i = 0; i < e->n; i++) {
        stage_dim own = {.range = e->range[i], .index = e->range[i], .extent = e->range[i]->src[0]};
        int64_t times = 0;
        own.stride = bl_affine_along(&e->sum[0], own.range);
        if (edges_lead(e, i, &times) != i)
            continue;
        for (int k = 0; k < e->n; k++) {
            const bl_node *other = e->range[k], *last = bl_index(ir, bl_extent_of(other) - 1);
            if (k == i || edges_lead(e, k, &times) != i)
                continue;
            bl_ptrmap_put(&s->fill, other, times > 0 ? bl_index(ir, 0) : last);
            if (times < 0) /* y - ky is (y + last - ky) - last */
                other = bl_sub(ir, last, other);
            times = times < 0 ? -times : times;
            own.extent = bl_add(ir, own.extent, bl_mul(ir, last, bl_index(ir, times)));
            own.index = bl_add(ir, own.index, bl_mul(ir, other, bl_index(ir, times)));
        }
        staging_add(s, own, is_outside_copy);
    }
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

/* Shrink the dimensions of the copy to the elements of the tensor, without a border, where the nest keeps all comparisons with
 * the edges and so reads no padding. It keeps those that are not in |known|. False if every dimension has a border. */
static bool edges_drop_borders(staging *s, const bl_node *load, const bl_clauses *known)
{
    bl_ir *ir = s->tune->ir;
    bl_clauses all = {0};
    bool dropped = false;

    if (!bl_clauses_add(&all, load->src[2]))
        return false;
    for (int i = 0; i < s->n; i++) {
        stage_dim *dim = &s->dim[i];
        const bl_node *loop = bl_ptrmap_get(&s->fill, dim->range);
        int64_t lo = 0, hi = loop != NULL && bl_is_fixed(loop) ? bl_extent_of(loop) : 0;
        for (int k = 0; k < all.count && hi > 0; k++) {
            const bl_node *clause = bl_substitute(ir, all.at[k], &s->fill);
            if (bl_reaches(ir, 1, &clause, 1, &loop) &&
                (bl_clauses_hold(known, all.at[k]) || !edges_narrow(ir, clause, loop, &lo, &hi)))
                hi = 0;
        }
        if (lo >= hi || hi - lo == bl_extent_of(loop))
            continue;
        dim->index = bl_sub(ir, dim->index, bl_index(ir, lo));
        dim->extent = bl_index(ir, hi - lo);
        bl_ptrmap_put(&s->fill, dim->range, bl_add(ir, bl_range_like(ir, loop, BL_AXIS_LOOP, dim->extent), bl_index(ir, lo)));
        dropped = true;
    }
    s->helper.count = bl_index(ir, 1);
    for (int i = 0; i < s->n; i++)
        s->helper.count = bl_mul(ir, s->helper.count, s->dim[i].extent);
    return dropped;
}

static bool is_padded_load(const bl_node *node, const void *load)
{
    return node->op == BL_OP_WHERE && node->src[1] == load && node->src[0] == node->src[1]->src[2] && bl_is_const(node->src[2]);
}

/* Make a helper that goes by rows of |loop|, the innermost axis besides lanes: it stores padding, the elements of the tensor,
 * which need no gate along the row, and padding.  False, and nothing changed, if the gate is no interval of the row or the
 * padding is long.  |padding| is NULL for zeros. */
static bool edges_fill_rows(staging *s, const bl_node *load, const bl_node *padding, const bl_node *index, const bl_node *loop)
{
    bl_tune *tune = s->tune;
    bl_ir *ir = tune->ir;
    bl_clauses all = {0}, row = {0};
    const bl_node *stores[MOST_EDGE + 1], *at = NULL, *value = NULL, *gate = bl_substitute(ir, load->src[2], &s->fill);
    int64_t lo = 0, extent = bl_extent_of(loop), hi = extent;
    int n = 0;

    for (int i = bl_clauses_add(&all, gate) && bl_is_fixed(loop) ? 0 : BL_MAX_CLAUSES; i < all.count; i++) {
        if (!edges_narrow(ir, all.at[i], loop, &lo, &hi) && bl_depends(tune, all.at[i], loop))
            return false;
        if (bl_depends(tune, all.at[i], loop))
            row.at[row.count++] = all.at[i];
    }
    if (row.count == 0 || lo >= hi || extent - (hi - lo) > MOST_EDGE || !helper_take_params(s, 1, &load))
        return false;
    gate = bl_gate_without(ir, bl_substitute(ir, load->src[2], &s->fill), &row); /* once more: |fill| has the buffers now */
    value = bl_substitute(ir, load, &s->fill);
    value = bl_load(ir, value->src[0], value->src[1], bl_is_const(gate) ? NULL : gate);
    value = padding == NULL ? value : bl_where(ir, gate, value, padding);
    padding = padding == NULL ? bl_const_int(ir, s->helper.dtype, 0) : padding;
    index = bl_substitute(ir, index, &s->fill);
    at = bl_add(ir, bl_range_like(ir, loop, BL_AXIS_LOOP, bl_index(ir, hi - lo)), bl_index(ir, lo));
    stores[n++] = helper_store(s, bl_replace(ir, index, loop, at), bl_replace(ir, value, loop, at));
    for (int64_t edge = 0; edge < extent; edge++) {
        if (edge < lo || edge >= hi)
            stores[n++] = helper_store(s, bl_replace(ir, index, loop, bl_index(ir, edge)), padding);
    }
    return helper_end(s, n, stores);
}

bool stage_halo(bl_tune *tune, int operand, int64_t amount)
{
    const bl_node *load = tune_operand_load(tune, operand), *index = NULL, *value = NULL, *made = NULL, *loop = NULL;
    bool dropped = false;
    bl_clauses known;
    edge_sums *e = bl_arena_alloc(bl_ir_arena(tune->ir), sizeof *e);
    int last = 0;
    staging s;

    if (load == NULL || load->nsrc < 3 || e == NULL || !edges_find_sums(tune, load, e))
        return false;
    staging_init(&s, tune);
    edges_footprint(&s, e);
    if (!helper_begin(&s, (bl_dtype)load->dtype))
        return false;
    value = bl_find(tune->ir, 1, &tune->sink, is_padded_load, load);
    value = value != NULL ? value : load; /* a WHERE adds padding other than zeros, as of a maximum */
    known = not_kept(tune, load, amount < 0 ? ~amount : amount);
    dropped = amount < 0 && value == load && edges_drop_borders(&s, load, &known);
    index = staging_row_major(&s, false);
    for (int i = 0; i < s.n; i++)
        last = is_lane(&s.dim[i]) ? last : i;
    loop = bl_ptrmap_get(&s.fill, s.dim[last].range);
    if (loop == NULL) /* out of memory */
        return false;
    if ((amount >= 0 || loop->op != BL_OP_RANGE ||
         !edges_fill_rows(&s, load, value == load ? NULL : value->src[2], index, loop)) &&
        !helper_fill(&s, 1, &value, &index))
        return false;
    open_products(tune, load, &known);
    made = helper_read(&s, index);
    if (dropped)
        made = bl_load(tune->ir, made->src[0], made->src[1], bl_gate_without(tune->ir, load->src[2], &known));
    tune_replace_load(tune, value, made);
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

/* Stage the operand with its halo if each element that the helper writes is read often enough.  The sum keeps the comparisons
 * with the axes in |keep|. */
static bool write_operand(bl_tune *tune, const bl_target *target, const access *a, int64_t keep)
{
    const tune_mark before = tune_keep(tune);
    int64_t uses = bl_free_size(&tune->free, a->loops) / (target->groups ? REUSE_TO_WRITE : WINDOWS_TO_WRITE);
    const bl_node *count = NULL;

    if (uses < bl_free_places(&tune->free, a->node) || (uint32_t)tune->nparams >= target->max_params ||
        !bl_tune_apply_at(tune, BL_STAGE_HALO, tune_operand_number(tune, a->node), target->groups ? keep : ~keep))
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

bool edges_under_masks(facts *f, const bl_target *target, const bl_node *range)
{
    bool masks = target->masks && edges_of_windows(f, target);

    for (int i = 0; i < f->naccesses && masks; i++) {
        const bl_node *load = f->access[i].node;
        int64_t apart = 0;
        if (f->access[i].reduce == f->main && load->op == BL_OP_LOAD && load->nsrc > 2)
            masks = bl_access_stride(f->tune, load, range, &apart) && apart >= 1 && apart <= BL_MOST_APART &&
                    bl_dtype_bytes((bl_dtype)load->dtype) == 4;
    }
    return masks;
}

int64_t edges_untiled(const bl_tune *tune, const bl_node *lanes, const bl_node *rows, const bl_node *column)
{
    int64_t axes = 0;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub == BL_AXIS_GLOBAL && range != lanes && range != rows && range != column)
            axes |= INT64_C(1) << i;
    }
    return axes;
}

bool edges_bound(const facts *f, const bl_node *range)
{
    bl_tune *tune = f->tune;
    bl_clauses all = {0};
    int64_t grid = 0, axes = 0;

    if (f->main == NULL || !bl_is_gated(f->main->src[0]) || !bl_clauses_add(&all, f->main->src[0]->src[0]))
        return false;
    for (int i = 0; i < tune->naxes; i++)
        grid |= tune->axis[i].range->sub == BL_AXIS_GLOBAL ? INT64_C(1) << i : 0;
    for (int i = 0; i < all.count; i++) {
        if (bl_depends(tune, all.at[i], range) && ends_loop(tune, all.at[i], grid, &axes))
            return true;
    }
    return false;
}

/* Does |clause| bound a loop of the main reduction that has few iterations? */
static bool bounds_short(facts *f, const bl_node *clause)
{
    for (uint32_t i = (uint32_t)f->main->arg; i < f->main->nsrc; i++) {
        if (bl_depends(f->tune, clause, f->main->src[i]) && bl_extent_of(f->main->src[i]) < LEAST_TRIMMED)
            return true;
    }
    return false;
}

/* How a nest would evaluate the gate of a padded operand if it left out the products with padding. */
typedef struct edge_tests {
    bool trims; /* some of its comparisons bound loops outside the innermost one, which are trimmed */
    bool few;   /* the others are along the rows of a tile, of which few elements are at an edge, and lanes share each test */
} edge_tests;

static edge_tests find_tests(facts *f, const bl_node *load, const edges_tile *tile)
{
    bl_tune *tune = f->tune;
    const bl_node *innermost = NULL;
    bl_clauses all = {0};
    int bounds = 0, rows = 0;

    if (tile->lanes == NULL || !bl_clauses_add(&all, load->src[2]))
        return (edge_tests){.trims = false};
    for (int i = 0; i < tune->naxes; i++)
        innermost = bl_binds(f->main, tune->axis[i].range) ? tune->axis[i].range : innermost;
    for (int i = 0; i < all.count; i++) {
        int64_t axes = 0;
        if (!ends_loop(tune, all.at[i], -1, &axes))
            continue;
        bounds += (axes & ~tile->untiled) == 0 && !bl_depends(tune, all.at[i], innermost) && !bounds_short(f, all.at[i]);
        rows += tile->rows != NULL && axes == INT64_C(1) << facts_axis_of(tune, tile->rows);
    }
    return (edge_tests){.trims = bounds > 0, .few = bounds + rows == all.count && !bl_depends(tune, load, tile->lanes)};
}

bool edges_tested_by(facts *f, const bl_node *load, int64_t axes)
{
    bl_clauses all = {0};
    bool tested = bl_clauses_add(&all, load->src[2]);

    for (int i = 0; i < all.count && tested; i++) {
        int64_t own = 0;
        tested = ends_loop(f->tune, all.at[i], axes, &own) && !bounds_short(f, all.at[i]);
    }
    return tested;
}

bool edges_leave_out(bl_tune *tune, const bl_node *load)
{
    return bl_find(tune->ir, 1, &tune->sink, is_gated_product, load) != NULL ||
           bl_tune_apply_at(tune, BL_HINT_TRIM, tune_operand_number(tune, load), 0);
}

void edges_write(facts *f, const bl_target *target, const edges_tile *tile)
{
    const facts before = *f;
    const bl_node *trimmed = NULL;

    for (bool again = true; again;) {
        again = false;
        facts_again(f, &before);
        for (int i = 0; i < f->naccesses && !again && f->main != NULL; i++) {
            const access *a = &f->access[i];
            bool windows = edges_of_windows(f, target);
            int64_t keep = 0;
            if (a->reduce != f->main || a->node->op != BL_OP_LOAD || a->node->nsrc < 3 ||
                (!windows && edges_end_loops(before.tune, a->node, tile->untiled, &keep)))
                continue;
            if (a->node == trimmed) {
                again = !find_tests(f, a->node, tile).few && write_operand(before.tune, target, a, keep);
                continue;
            }
            if (!windows && !target->groups && find_tests(f, a->node, tile).trims &&
                bl_tune_apply_at(before.tune, BL_HINT_TRIM, tune_operand_number(before.tune, a->node), 0))
                trimmed = a->node;
            again = trimmed == a->node || write_operand(before.tune, target, a, keep);
        }
    }
}

void edges_write_pools(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;

    for (int i = 0; i < f->naccesses; i++) {
        const access *a = &f->access[i];
        if (a->reduce == NULL || a->node->op != BL_OP_LOAD || a->node->nsrc < 3 || !write_operand(tune, target, a, 0))
            continue;
        facts_init(f, tune);
        f->main = NULL;
        i = -1;
    }
}
