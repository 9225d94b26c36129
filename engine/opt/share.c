/* SPDX-License-Identifier: MIT */
/* Shared-memory tiling (stage, local): the work-items of a group together copy the elements of an operand that they read in some
 * iterations of the innermost loops of a reduction into local memory, and read the elements from there.
 *
 * The copy has an element for each iteration of the axes inside a group that the operand depends on (staging.h).  The
 * layout of the copy is therefore independent of the layout of the operand.  Gates, windows, transposed operands and overlapping
 * parts need no special treatment: they are part of the value that is copied.  The layout of the copy, outermost first:
 *
 *     iterations of the loops    rest of tiles    work-items    lanes, or as many elements of a tile
 *     (rows)                     (columns, and the padding after them)
 *
 * Adjacent work-items thus read adjacent vectors.  If the operand does not depend on the fastest dimension of the group, adjacent
 * work-items read the same element, and the tile of each work-item is contiguous instead.  The copy of an operand of a matrix
 * unit consists of fragments, one after the other, in the layout that the unit loads.
 *
 * The work-items fill the copy in the order of the operand in memory: adjacent work-items load adjacent elements, so that loads
 * coalesce, and load vectors where the operand is contiguous. */
#include "engine/ir/affine.h"
#include "engine/ir/matrix_unit.h"
#include "engine/opt/staging.h"

#include <string.h>

enum {
    VECTOR_BYTES = 16, /* the widest load of a work-item of a GPU */
    MOST_COPIES = 32,  /* vectors per work-item */
    ROWS = 0,          /* layers of the layout, outermost first (share_layer) */
    ROWS_INNER,
    COLUMNS,
    COLUMNS_INNER,
    LAYERS,
    LAYOUT_UNIT = 4 /* elements: the size of a copy is a multiple, so that both buffers of a double buffer start at a vector */
};

typedef struct copy {
    staging s; /* of the axes inside a group on which the operand depends; strides are rough_stride */
    const bl_node *load;
    bl_share how;
    int64_t lanes;          /* lanes of the innermost vector of the layout */
    int vector;             /* the dimension that has the lanes; -1: none */
    const bl_node *matrix;  /* the MATRIX whose operand is copied, or NULL. The dimensions of its fragment are ... */
    int across, along;      /* ... these two: a row of the fragment is contiguous along the second */
    int64_t rows, columns;  /* |columns| without the padding */
    bool neighbours_differ; /* the operand depends on the fastest dimension of the group */
    const bl_node *turn;    /* the innermost loop around the copy; NULL: none */
} copy;

int64_t bl_share_pack(bl_share how)
{
    return (how.twice ? 1 : 0) | (how.swizzle ? 2 : 0) | (int64_t)how.loops << 2 | (int64_t)how.pad << 8 |
           (int64_t)how.narrow << 16;
}

bool bl_share_unpack(int64_t amount, bl_share *how)
{
    uint64_t bits = (uint64_t)amount;

    *how = (bl_share){.twice = (bits & 1) != 0,
                      .swizzle = (bits & 2) != 0,
                      .loops = (int)(bits >> 2 & 63),
                      .pad = (int)(bits >> 8 & 255),
                      .narrow = (bits & 1 << 16) != 0};
    return bl_share_pack(*how) == amount;
}

/* ---- what is copied */

/* Is |load| read outside of all stages?  A load inside a stage is already part of a copy. */
static bool is_read_by_nest(bl_tune *tune, const bl_node *load)
{
    bl_nodes phase = tune_reach_phase(tune->ir, 1, &tune->sink);
    for (size_t i = 0; i < phase.count; i++) {
        if (phase.at[i] == load)
            return true;
    }
    return false;
}

/* Does the index of |load| need other loads or reductions?  A copy would compute them again, or wait for them. */
static bool computes_place(const bl_node *node, const void *load)
{
    return bl_binds_ranges(node) || (node->op == BL_OP_LOAD && node != load) || node->op == BL_OP_MATRIX;
}

/* The index of |load| without the bound (MIN) that makes the last part of an axis overlap the part before it. */
static const bl_node *rough_place(bl_ir *ir, const bl_node *load)
{
    bl_nodes below = bl_reach(ir, 1, &load->src[1], false);
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_MIN && bl_is_const(below.at[i]->src[1]))
            bl_ptrmap_put(&to, below.at[i], below.at[i]->src[0]);
    }
    return bl_substitute(ir, load->src[1], &to);
}

/* The absolute stride of rough_place along |range|; INT64_MAX if it is not constant. */
static int64_t rough_stride(bl_tune *tune, const bl_node *load, const bl_node *range)
{
    int64_t stride = 0;
    if (!bl_free_stride(&tune->free, rough_place(tune->ir, load), range, &stride))
        return INT64_MAX;
    return stride < 0 ? -stride : stride;
}

/* Find the footprint, and the loop around the copy.  False if a dimension has no constant extent. */
static bool share_footprint(copy *c)
{
    bl_tune *tune = c->s.tune;
    uint64_t axes = bl_free_get(&tune->free, c->load), inside = 0;
    int left = -c->how.loops;

    for (int i = 0; i < tune->naxes; i++)
        left += tune->axis[i].range->sub == BL_AXIS_REDUCE && bl_depends(tune, c->load, tune->axis[i].range);
    for (int i = 0; i < tune->naxes && left >= 0; i++) {
        const bl_node *range = tune->axis[i].range;
        uint64_t bit = bl_free_bit(&tune->free, range);
        if (range->sub == BL_AXIS_GROUP)
            return false;
        if (range->sub == BL_AXIS_LOCAL)
            c->neighbours_differ = (axes & bit) != 0; /* the largest number is the fastest dimension (linearize.c) */
        if ((axes & bit) == 0 || range->sub == BL_AXIS_GLOBAL)
            continue;
        if (!bl_is_fixed(range))
            return false;
        if (range->sub == BL_AXIS_LOOP || (range->sub == BL_AXIS_REDUCE && left > 0)) {
            left -= range->sub == BL_AXIS_REDUCE;
            c->turn = range; /* axes are in the order of their loops */
        } else {
            inside |= bit;
        }
    }
    staging_footprint(&c->s, inside, NULL);
    for (int i = 0; i < c->s.n; i++)
        c->s.dim[i].stride = rough_stride(tune, c->load, c->s.dim[i].range);
    return left == 0 && c->s.n > 0;
}

/* Is |node| a MATRIX that has |load| as an operand? */
static bool multiplies(const bl_node *node, const void *load)
{
    const bl_node *loads[2];

    for (int64_t k = 0; node->op == BL_OP_MATRIX && k < node->src[0]->arg; k++) {
        if (bl_matrix_product(node->src[0]->src[k], bl_matrix_unpack(node->arg), loads) && (loads[0] == load || loads[1] == load))
            return true;
    }
    return false;
}

/* Can the unit load a fragment whose rows are along the depth (|along_depth|), or else across it? */
static bool has_layout(const copy *c, bool is_a, bool along_depth)
{
    bl_matrix_layout way =
        is_a ? (along_depth ? BL_MATRIX_A_ROWS : BL_MATRIX_A_COLUMNS) : (along_depth ? BL_MATRIX_B_COLUMNS : BL_MATRIX_B_ROWS);
    return (bl_matrix_unpack(c->matrix->arg).layouts >> way & 1) != 0;
}

/* Find the dimensions of a fragment.  If the unit can load that layout, the rows of the fragment follow the contiguous axis of
 * the operand, so that vectors are copied as vectors.  False if the unit can load neither layout. */
static bool find_fragment(copy *c)
{
    int side = -1, depth = -1;
    bool is_a = bl_depends(c->s.tune, c->load, c->matrix->src[1]), along_depth = false;

    for (int i = 0; i < c->s.n; i++) {
        if (c->s.dim[i].range->sub != BL_AXIS_MATRIX)
            continue;
        if (c->s.dim[i].reduced)
            depth = i;
        else
            side = i;
    }
    if (side < 0 || depth < 0)
        return false;
    along_depth = c->s.dim[depth].stride <= c->s.dim[side].stride;
    along_depth = has_layout(c, is_a, along_depth) ? along_depth : !along_depth;
    c->across = along_depth ? side : depth;
    c->along = along_depth ? depth : side;
    return has_layout(c, is_a, along_depth);
}

/* ---- the layout of the copy */

/* Choose the dimension of the innermost vector: the axis of lanes, or else an unrolled axis. */
static void choose_vector(copy *c)
{
    for (int i = 0; i < c->s.n; i++) {
        if (c->s.dim[i].range->sub == BL_AXIS_VECTOR) {
            c->vector = i;
            c->lanes = bl_extent_of(c->s.dim[i].range);
            return;
        }
    }
    for (int i = 0; i < c->s.n; i++) {
        int64_t lanes = VECTOR_BYTES / (int64_t)bl_dtype_local_bytes((bl_dtype)c->load->dtype);
        if (c->s.dim[i].reduced || c->s.dim[i].range->sub != BL_AXIS_TILE)
            continue;
        while (lanes > 1 && bl_extent_of(c->s.dim[i].range) % lanes != 0)
            lanes /= 2;
        if (lanes > 1) {
            c->vector = i;
            c->lanes = lanes;
        }
    }
}

/* The index of the first element of the buffer that iteration |turn| reads. */
static const bl_node *which_copy(const copy *c)
{
    bl_ir *ir = c->s.tune->ir;
    int64_t size = c->rows * (c->columns + c->how.pad);

    if (!c->how.twice)
        return bl_index(ir, 0);
    size = (size + LAYOUT_UNIT - 1) / LAYOUT_UNIT * LAYOUT_UNIT; /* a fragment is a multiple already */
    return bl_mul(ir, bl_mod(ir, c->turn, bl_index(ir, 2)), bl_index(ir, size));
}

/* The position of a dimension in the layout: dimensions of rows before those of columns. */
static int share_layer(const copy *c, int dim)
{
    if (c->matrix != NULL)
        return dim == c->along ? COLUMNS : dim == c->across ? ROWS_INNER : ROWS;
    if (c->s.dim[dim].reduced && dim != c->vector)
        return ROWS;
    return (c->s.dim[dim].range->sub == BL_AXIS_LOCAL) == c->neighbours_differ ? COLUMNS_INNER : COLUMNS;
}

/* The index of an element in the copy, as the nest reads it, or as the work-items fill it (|fills|).  The second is no
 * substitution in the first: that would simplify windows in another way. */
static const bl_node *share_layout(const copy *c, bool fills)
{
    bl_ir *ir = c->s.tune->ir;
    const bl_node *row = bl_index(ir, 0), *column = bl_index(ir, 0), *lane = bl_index(ir, 0);

    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < c->s.n; i++) {
            const bl_node *part = bl_index(ir, i == c->vector ? c->lanes : 1), **side = layer < COLUMNS ? &row : &column;
            if (share_layer(c, i) == layer)
                *side = staging_inner(ir, *side, bl_idiv(ir, c->s.dim[i].extent, part),
                                      bl_idiv(ir, staging_at(&c->s, i, fills), part));
        }
    }
    if (c->vector >= 0)
        lane = bl_mod(ir, staging_at(&c->s, c->vector, fills), bl_index(ir, c->lanes));
    if (c->how.swizzle) /* each row is rotated by one vector more than the row before it */
        column = bl_mod(ir, bl_add(ir, column, row), bl_index(ir, c->columns / c->lanes));
    column = staging_inner(ir, column, bl_index(ir, c->lanes), lane);
    return bl_add(ir, which_copy(c), staging_inner(ir, row, bl_index(ir, c->columns + c->how.pad), column));
}

/* ---- the distribution of the copying over work-items */

/* The number of elements that are loaded as a vector, along the dimension in which the operand is contiguous, if all vectors are
 * aligned; else 1. */
static int64_t share_vector_of(const copy *c, const stage_dim *d)
{
    bl_affine sum;
    int64_t lanes = VECTOR_BYTES / (int64_t)bl_dtype_local_bytes((bl_dtype)c->load->dtype);

    if (!bl_affine_of(&sum, c->load->src[1]) || d->stride != 1 ||
        (c->load->nsrc > 2 && bl_depends(c->s.tune, c->load->src[2], d->range)))
        return 1;
    if (bl_affine_along(&sum, d->range) != 1)
        return 1;
    while (lanes > 1 && (bl_extent_of(d->range) % lanes != 0 || !bl_affine_is_multiple(&sum, d->range, lanes)))
        lanes /= 2;
    return lanes;
}

/* The STAGE that the work-items fill; NULL if a work-item would copy too many vectors. */
static const bl_node *share_fill(copy *c)
{
    staging *s = &c->s;
    bl_ir *ir = s->tune->ir;
    bl_axis_number number = {.level = BL_LEVEL_COPIES, .slot = 2 * s->tune->nmoves};
    int order[BL_MAX_AXES] = {0};
    const bl_node *unit = NULL, *gate = NULL, *value = NULL;
    int64_t items = 1, lanes = 1, units = 0, steps = 0;

    for (int i = 0; i < s->n; i++) { /* smallest stride first */
        int at = i;
        for (; at > 0 && s->dim[order[at - 1]].stride > s->dim[i].stride; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    lanes = share_vector_of(c, &s->dim[order[0]]);
    units = c->rows * c->columns / lanes;
    unit = staging_work_item(s->tune, UINT64_MAX, &items);
    steps = (units + items - 1) / items;
    if (items < 2 || steps > MOST_COPIES)
        return NULL;
    if (steps > 1) {
        s->loop[s->nloops] = bl_range(ir, bl_axis_pack(number), BL_AXIS_TILE, bl_index(ir, steps));
        unit = bl_add(ir, unit, bl_mul(ir, s->loop[s->nloops++], bl_index(ir, items)));
    }
    if (steps * items > units)
        gate = bl_less(ir, unit, bl_index(ir, units));
    for (int i = 0; i < s->n; i++) {
        const stage_dim *d = &s->dim[order[i]];
        const bl_node *extent = bl_index(ir, bl_extent_of(d->range) / (i == 0 ? lanes : 1)), *own = bl_mod(ir, unit, extent);
        unit = bl_idiv(ir, unit, extent);
        if (i == 0 && lanes > 1) {
            number.slot++;
            s->loop[s->nloops] = bl_range(ir, bl_axis_pack(number), BL_AXIS_VECTOR, bl_index(ir, lanes));
            own = staging_inner(ir, own, bl_index(ir, lanes), s->loop[s->nloops++]);
        }
        bl_ptrmap_put(&s->fill, d->range, own);
    }
    value = bl_substitute(ir, c->load, &s->fill);
    return staging_fill(s, BL_STAGE_SHARED | (c->how.twice ? BL_STAGE_DOUBLE : 0u) | (c->how.narrow ? BL_STAGE_NARROW : 0u),
                        bl_param(ir, s->tune->nmoves, (bl_dtype)c->load->dtype, true), share_layout(c, true), value, gate);
}

/* Count the rows and columns of the copy. */
static bool share_measure(copy *c)
{
    for (int i = 0; i < c->s.n; i++) {
        *(share_layer(c, i) < COLUMNS ? &c->rows : &c->columns) *= bl_extent_of(c->s.dim[i].range);
        if (c->rows > INT32_MAX / c->columns)
            return false;
    }
    return true;
}

/* Can the unit load its fragments from |made|?  Their rows must be aligned as it requires. */
static bool is_loadable(const copy *c, const bl_node *made)
{
    bool is_a = bl_depends(c->s.tune, c->load, c->matrix->src[1]);
    const stage_dim *depth = c->s.dim[c->along].reduced ? &c->s.dim[c->along] : &c->s.dim[c->across];

    return bl_matrix_operand(c->s.tune->ir, bl_matrix_unpack(c->matrix->arg), made, is_a, c->matrix->src[is_a ? 1 : 2],
                             depth->range) != NULL;
}

/* Can the nest read such a copy?  Matrix units with a scope of several work-items load 16-bit floats, unconverted. */
static bool suits_readers(copy *c)
{
    bool half = c->load->dtype == BL_F16 || c->load->dtype == BL_BF16;

    if (c->how.narrow && !half)
        return false;
    if (!c->s.tune->matrix)
        return true;
    c->matrix = bl_find(c->s.tune->ir, 1, &c->s.tune->sink, multiplies, c->load);
    return c->matrix != NULL && bl_matrix_unpack(c->matrix->arg).scope > 1 && c->how.narrow && !c->how.swizzle &&
           find_fragment(c);
}

bool stage_local(bl_tune *tune, int operand, int64_t amount)
{
    const bl_node *stage = NULL, *made = NULL;
    copy c = {.load = tune_operand_load(tune, operand), .rows = 1, .columns = 1, .lanes = 1, .vector = -1};

    staging_init(&c.s, tune);
    if (c.load == NULL || !bl_share_unpack(amount, &c.how) || bl_find(tune->ir, 1, &c.load, computes_place, c.load) != NULL ||
        !is_read_by_nest(tune, c.load) || !share_footprint(&c) || (c.how.twice && (c.turn == NULL || bl_extent_of(c.turn) < 2)) ||
        !suits_readers(&c))
        return false;
    if (c.matrix == NULL)
        choose_vector(&c);
    stage = share_measure(&c) ? share_fill(&c) : NULL;
    if (stage == NULL)
        return false;
    made = bl_load(tune->ir, stage, share_layout(&c, false), NULL);
    if (c.matrix != NULL && !is_loadable(&c, made))
        return false;
    tune->shared = true;
    tune_replace_load(tune, c.load, made);
    return true;
}
