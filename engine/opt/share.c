/* SPDX-License-Identifier: MIT */
/* SHARE (shared-memory tiling): the work-items of a group together copy the elements of an operand that they read in some
 * iterations of the innermost loops of a reduction into local memory, and read the elements from there.
 *
 * The copy has an element for each iteration of the axes inside a group that the operand depends on, here called digits.  The
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
#include "engine/opt/opt_internal.h"

#include <string.h>

enum {
    VECTOR_BYTES = 16, /* the widest load of a work-item of a GPU */
    MOST_COPIES = 32,  /* vectors per work-item */
    LAYOUT_UNIT = 4    /* elements: the size of a copy is a multiple, so that both buffers of a double buffer start at a vector */
};

/* An axis inside a group on which the operand depends. */
typedef struct digit {
    const bl_node *range;
    int64_t extent, stride; /* |stride|: rough_stride */
    bool row;               /* a loop of the reduction, or an unrolled part of one */
} digit;

typedef struct copy {
    bl_tune *tune;
    const bl_node *load;
    bl_share how;
    int n;
    digit at[BL_MAX_AXES];
    int64_t lanes;          /* lanes of the innermost vector of the layout */
    int vector;             /* the digit that has the lanes; -1: none */
    const bl_node *matrix;  /* the MATRIX whose operand is copied, or NULL. The digits of its fragment are ... */
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

static void add_digit(copy *c, const bl_axis *axis)
{
    c->at[c->n++] = (digit){.range = axis->range,
                            .extent = bl_extent_of(axis->range),
                            .stride = rough_stride(c->tune, c->load, axis->range),
                            .row = !axis->output};
}

/* Find the digits, and the loop around the copy.  False if a digit has no constant extent. */
static bool find_digits(copy *c)
{
    bl_tune *tune = c->tune;
    const bl_node *fastest = NULL;
    int loops = 0, left = 0;

    for (int i = 0; i < tune->naxes; i++)
        fastest = tune->axis[i].range->sub == BL_AXIS_LOCAL ? tune->axis[i].range : fastest; /* the largest number: linearize.c */
    for (int i = 0; i < tune->naxes; i++)
        loops += tune->axis[i].range->sub == BL_AXIS_REDUCE && bl_depends(tune, c->load, tune->axis[i].range);
    left = loops - c->how.loops;
    for (int i = 0; i < tune->naxes && left >= 0; i++) {
        const bl_axis *axis = &tune->axis[i];
        bl_axis_kind kind = (bl_axis_kind)axis->range->sub;
        bool around = kind == BL_AXIS_LOOP || (kind == BL_AXIS_REDUCE && left > 0);
        if (kind == BL_AXIS_GROUP)
            return false;
        if (!bl_depends(tune, c->load, axis->range) || kind == BL_AXIS_GLOBAL)
            continue;
        if (!bl_is_fixed(axis->range))
            return false;
        left -= kind == BL_AXIS_REDUCE && left > 0;
        c->neighbours_differ = c->neighbours_differ || axis->range == fastest;
        if (around)
            c->turn = axis->range; /* axes are in the order of their loops */
        else
            add_digit(c, axis);
    }
    return left == 0 && c->n > 0;
}

/* The MATRIX that has |load| as an operand, or NULL. */
static const bl_node *taken_by(bl_tune *tune, const bl_node *load)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);

    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i], *loads[2];
        for (int64_t k = 0; node->op == BL_OP_MATRIX && k < node->src[0]->arg; k++) {
            if (bl_matrix_product(node->src[0]->src[k], bl_matrix_unpack(node->arg), loads) &&
                (loads[0] == load || loads[1] == load))
                return node;
        }
    }
    return NULL;
}

/* Can the unit load a fragment whose rows are along the depth (|along_depth|), or else across it? */
static bool has_layout(const copy *c, bool is_a, bool along_depth)
{
    bl_matrix_layout way =
        is_a ? (along_depth ? BL_MATRIX_A_ROWS : BL_MATRIX_A_COLUMNS) : (along_depth ? BL_MATRIX_B_COLUMNS : BL_MATRIX_B_ROWS);
    return (bl_matrix_unpack(c->matrix->arg).layouts >> way & 1) != 0;
}

/* Find the digits of a fragment.  If the unit can load that layout, the rows of the fragment follow the contiguous axis of the
 * operand, so that vectors are copied as vectors.  False if the unit can load neither layout. */
static bool find_fragment(copy *c)
{
    int side = -1, depth = -1;
    bool is_a = bl_depends(c->tune, c->load, c->matrix->src[1]), along_depth = false;

    for (int i = 0; i < c->n; i++) {
        if (c->at[i].range->sub != BL_AXIS_MATRIX)
            continue;
        if (c->at[i].row)
            depth = i;
        else
            side = i;
    }
    if (side < 0 || depth < 0)
        return false;
    along_depth = c->at[depth].stride <= c->at[side].stride;
    along_depth = has_layout(c, is_a, along_depth) ? along_depth : !along_depth;
    c->across = along_depth ? side : depth;
    c->along = along_depth ? depth : side;
    return has_layout(c, is_a, along_depth);
}

/* ---- the layout of the copy */

/* Choose the digit of the innermost vector: the axis of lanes, or else an unrolled axis. */
static void choose_vector(copy *c)
{
    c->vector = -1;
    for (int i = 0; i < c->n; i++) {
        if (c->at[i].range->sub == BL_AXIS_VECTOR) {
            c->vector = i;
            c->lanes = c->at[i].extent;
            return;
        }
    }
    for (int i = 0; i < c->n; i++) {
        int64_t lanes = VECTOR_BYTES / (int64_t)bl_dtype_local_bytes((bl_dtype)c->load->dtype);
        if (c->at[i].row || c->at[i].range->sub != BL_AXIS_TILE)
            continue;
        while (lanes > 1 && c->at[i].extent % lanes != 0)
            lanes /= 2;
        if (lanes > 1) {
            c->vector = i;
            c->lanes = lanes;
        }
    }
}

/* As layout, for an operand of a matrix unit. */
static const bl_node *fragment_layout(const copy *c, const bl_node *const *at)
{
    bl_ir *ir = c->tune->ir;
    const bl_node *row = bl_index(ir, 0);

    for (int i = 0; i < c->n; i++) {
        if (i != c->across && i != c->along)
            row = bl_add(ir, bl_mul(ir, row, bl_index(ir, c->at[i].extent)), at[i]);
    }
    row = bl_add(ir, bl_mul(ir, row, bl_index(ir, c->at[c->across].extent)), at[c->across]);
    return bl_add(ir, bl_mul(ir, row, bl_index(ir, c->at[c->along].extent + c->how.pad)), at[c->along]);
}

/* The index in the copy of the element with the digits |at|. */
static const bl_node *share_layout(const copy *c, const bl_node *const *at)
{
    bl_ir *ir = c->tune->ir;
    const bl_node *row = bl_index(ir, 0), *column = bl_index(ir, 0), *lane = bl_index(ir, 0);

    if (c->matrix != NULL)
        return fragment_layout(c, at);
    for (int i = 0; i < c->n; i++) {
        if (c->at[i].row && i != c->vector)
            row = bl_add(ir, bl_mul(ir, row, bl_index(ir, c->at[i].extent)), at[i]);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c->n; i++) {
            int64_t part = i == c->vector ? c->lanes : 1;
            bool inner = (c->at[i].range->sub == BL_AXIS_LOCAL) == c->neighbours_differ;
            if ((c->at[i].row && i != c->vector) || inner != (pass == 1))
                continue;
            column = bl_add(ir, bl_mul(ir, column, bl_index(ir, c->at[i].extent / part)), bl_idiv(ir, at[i], bl_index(ir, part)));
        }
    }
    if (c->vector >= 0)
        lane = bl_mod(ir, at[c->vector], bl_index(ir, c->lanes));
    if (c->how.swizzle) /* each row is rotated by one vector more than the row before it */
        column = bl_mod(ir, bl_add(ir, column, row), bl_index(ir, c->columns / c->lanes));
    column = bl_add(ir, bl_mul(ir, column, bl_index(ir, c->lanes)), lane);
    return bl_add(ir, bl_mul(ir, row, bl_index(ir, c->columns + c->how.pad)), column);
}

/* The index of the first element of the buffer that iteration |turn| reads. */
static const bl_node *which_copy(const copy *c)
{
    bl_ir *ir = c->tune->ir;
    int64_t size = c->rows * (c->columns + c->how.pad);

    if (!c->how.twice)
        return bl_index(ir, 0);
    size = (size + LAYOUT_UNIT - 1) / LAYOUT_UNIT * LAYOUT_UNIT; /* a fragment is a multiple already */
    return bl_mul(ir, bl_mod(ir, c->turn, bl_index(ir, 2)), bl_index(ir, size));
}

/* ---- the distribution of the copying over work-items */

/* The number of a work-item in its group, and the number of work-items. */
static const bl_node *work_item(bl_tune *tune, int64_t *count)
{
    const bl_node *number = bl_index(tune->ir, 0);

    *count = 1;
    for (int i = 0; i < tune->naxes; i++) { /* the largest number is the fastest dimension (linearize.c) */
        const bl_node *range = tune->axis[i].range;
        if (range->sub != BL_AXIS_LOCAL)
            continue;
        number = bl_add(tune->ir, bl_mul(tune->ir, number, range->src[0]), range);
        *count *= bl_extent_of(range);
    }
    return number;
}

/* The number of elements that are loaded as a vector, along the digit on which the operand is contiguous, if all vectors are
 * aligned; else 1. */
static int64_t share_vector_of(const copy *c, const digit *d)
{
    bl_affine sum;
    int64_t lanes = VECTOR_BYTES / (int64_t)bl_dtype_local_bytes((bl_dtype)c->load->dtype);

    if (!bl_affine_of(&sum, c->load->src[1]) || d->stride != 1 ||
        (c->load->nsrc > 2 && bl_depends(c->tune, c->load->src[2], d->range)))
        return 1;
    if (bl_affine_along(&sum, d->range) != 1)
        return 1;
    while (lanes > 1 && (d->extent % lanes != 0 || !bl_affine_is_multiple(&sum, d->range, lanes)))
        lanes /= 2;
    return lanes;
}

/* The STAGE that the work-items fill; NULL if a work-item would copy too many vectors. */
static const bl_node *share_fill(const copy *c)
{
    bl_tune *tune = c->tune;
    bl_ir *ir = tune->ir;
    int order[BL_MAX_AXES] = {0}, nranges = 0;
    bl_axis_number number = {.level = BL_LEVEL_COPIES, .slot = 2 * tune->nmoves};
    const bl_node *own[BL_MAX_AXES], *unit = NULL, *rest = NULL, *gate = NULL, *ranges[2], *store = NULL;
    int64_t items = 1, units = c->rows * c->columns, lanes = 1, steps = 0;
    bl_ptrmap to;

    for (int i = 0; i < c->n; i++) { /* smallest stride first */
        int at = i;
        for (; at > 0 && c->at[order[at - 1]].stride > c->at[i].stride; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    lanes = share_vector_of(c, &c->at[order[0]]);
    units /= lanes;
    unit = work_item(tune, &items);
    steps = (units + items - 1) / items;
    if (items < 2 || steps > MOST_COPIES)
        return NULL;
    if (steps > 1) {
        ranges[nranges] = bl_range(ir, bl_axis_pack(number), BL_AXIS_TILE, bl_index(ir, steps));
        unit = bl_add(ir, unit, bl_mul(ir, ranges[nranges++], bl_index(ir, items)));
    }
    if (steps * items > units)
        gate = bl_less(ir, unit, bl_index(ir, units));
    rest = unit;
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (int i = 0; i < c->n; i++) {
        const bl_node *extent = bl_index(ir, c->at[order[i]].extent / (i == 0 ? lanes : 1));
        own[order[i]] = bl_mod(ir, rest, extent);
        rest = bl_idiv(ir, rest, extent);
        if (i == 0 && lanes > 1) {
            number.slot++;
            ranges[nranges] = bl_range(ir, bl_axis_pack(number), BL_AXIS_VECTOR, bl_index(ir, lanes));
            own[order[i]] = bl_add(ir, bl_mul(ir, own[order[i]], bl_index(ir, lanes)), ranges[nranges++]);
        }
        bl_ptrmap_put(&to, c->at[order[i]].range, own[order[i]]);
    }
    const bl_node *value = bl_substitute(ir, c->load, &to);
    if (gate != NULL && value->op == BL_OP_LOAD)
        value = bl_load(ir, value->src[0], value->src[1], value->nsrc > 2 ? bl_and(ir, value->src[2], gate) : gate);
    store = bl_store(ir, bl_param(ir, tune->nmoves, (bl_dtype)c->load->dtype, true),
                     bl_add(ir, which_copy(c), share_layout(c, own)), value, gate);
    return bl_stage_over(ir, BL_STAGE_SHARED | (c->how.twice ? BL_STAGE_DOUBLE : 0u) | (c->how.narrow ? BL_STAGE_NARROW : 0u), 1,
                         &store, nranges, ranges);
}

/* Count the rows and columns of the copy. */
static bool share_measure(copy *c)
{
    for (int i = 0; i < c->n; i++) {
        bool row = c->matrix != NULL ? i != c->along : c->at[i].row && i != c->vector;
        int64_t *side = row ? &c->rows : &c->columns;
        *side *= c->at[i].extent;
        if (c->rows > INT32_MAX / c->columns)
            return false;
    }
    return true;
}

/* Can the unit load its fragments from |made|?  Their rows must be aligned as it requires. */
static bool is_loadable(const copy *c, const bl_node *made)
{
    bool is_a = bl_depends(c->tune, c->load, c->matrix->src[1]);
    const digit *depth = c->at[c->along].row ? &c->at[c->along] : &c->at[c->across];

    return bl_matrix_operand(c->tune->ir, bl_matrix_unpack(c->matrix->arg), made, is_a, c->matrix->src[is_a ? 1 : 2],
                             depth->range) != NULL;
}

/* Can the nest read such a copy?  Matrix units with a scope of several work-items load 16-bit floats, unconverted. */
static bool suits_readers(copy *c)
{
    bool half = c->load->dtype == BL_F16 || c->load->dtype == BL_BF16;

    if (c->how.narrow && !half)
        return false;
    if (!c->tune->matrix)
        return true;
    c->matrix = taken_by(c->tune, c->load);
    return c->matrix != NULL && bl_matrix_unpack(c->matrix->arg).scope > 1 && c->how.narrow && !c->how.swizzle &&
           find_fragment(c);
}

bool move_share(bl_tune *tune, int operand, int64_t amount)
{
    const bl_node *at[BL_MAX_AXES], *stage = NULL, *made = NULL;
    copy c = {.tune = tune, .load = tune_operand_load(tune, operand), .rows = 1, .columns = 1, .lanes = 1};

    if (c.load == NULL || !bl_share_unpack(amount, &c.how) || bl_find(tune->ir, 1, &c.load, computes_place, c.load) != NULL ||
        !is_read_by_nest(tune, c.load) || !find_digits(&c) || (c.how.twice && (c.turn == NULL || bl_extent_of(c.turn) < 2)) ||
        !suits_readers(&c))
        return false;
    choose_vector(&c);
    if (!share_measure(&c))
        return false;
    for (int i = 0; i < c.n; i++)
        at[i] = c.at[i].range;
    stage = share_fill(&c);
    if (stage == NULL)
        return false;
    made = bl_load(tune->ir, stage, bl_add(tune->ir, which_copy(&c), share_layout(&c, at)), NULL);
    if (c.matrix != NULL && !is_loadable(&c, made))
        return false;
    tune->shared = true;
    tune_replace_load(tune, c.load, made);
    return true;
}
