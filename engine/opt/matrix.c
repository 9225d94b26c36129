/* SPDX-License-Identifier: MIT */
/* The move unit: matrix units compute a product.  Rows, columns and the reduction are split by the unit's m, n and k into inner
 * parts of kind MATRIX.  The sum over these parts becomes a MATRIX node: a tile of the product in memory that the work-items of
 * the unit's scope share.  The rest of the nest runs on the elements of the tile, which are distributed over the work-items.  An
 * operand in a layout that the unit cannot load is packed.  Further moves on the outer parts compute several tiles at once
 * (unroll: the tiles share fragments) and use several scopes per group (group).
 *
 * A split unit (bl_matrix.split) multiplies float32 if the nest allows it (BL_PRECISION_HIGH): both operands are packed as two
 * bfloat16 halves, and the sum also goes over three products of halves, which are unrolled and share fragments. */
#include "engine/ir/matrix_unit.h"

#include "engine/ir/rewrite.h"
#include "engine/opt/opt_internal.h"

enum {
    MOST_ITEM_AXES = 3,
    OWN_SLOT = BL_AXIS_SLOTS - 1, /* new axes are parts of this axis, which the nest must not have: */
    TURN = 0,
    LANE = 4000,
    EMPTY_ROWS = 4001,
    ITEM = 4032,       /* the largest number of an axis of work-items: the fastest dimension of the group */
    LANES_OF_ITEM = 4, /* elements per access of a work-item, if the scope has several: 16 bytes */
    MOST_UNROLLED = 8, /* iterations that are unrolled */
    PRODUCTS = 3       /* of halves: high * high, high * low, low * high.  Low * low is smaller than the rounding error. */
};

/* The product that the move rewrites. */
typedef struct product {
    bl_matrix shape;
    const bl_node *sum;
    const bl_node *load[2];   /* a, b */
    int rows, columns, depth; /* axes */
} product;

bool tune_deals_elements(const bl_node *range)
{
    return bl_axis_origin(range) == OWN_SLOT;
}

bool tune_spares_matrix(const bl_tune *tune, const bl_axis *axis, int64_t amount)
{
    bl_axis_kind kind = (bl_axis_kind)axis->range->sub;

    if (tune->shared || kind == BL_AXIS_MATRIX || kind == BL_AXIS_LOCAL || kind == BL_AXIS_VECTOR)
        return false; /* copies in local memory are laid out for the tiles as they are */
    return axis->output || bl_extent_of(axis->range) % amount == 0; /* a remainder would be a second sum */
}

/* ---- what the nest is */

/* The only reduction of the nest, if it sums products. */
static const bl_node *only_sum(bl_tune *tune, bl_matrix shape)
{
    const bl_node *sum = bl_find_only(tune->ir, tune->sink, BL_OP_REDUCE), *loads[2];

    if (sum == NULL || sum->sub != BL_OP_ADD || sum->arg != 1 || !bl_matrix_product(sum->src[0], shape, loads))
        return NULL;
    return sum;
}

static bool matrix_may_split(const bl_axis *axis, int64_t amount)
{
    bl_axis_kind kind = (bl_axis_kind)axis->range->sub;
    return bl_is_fixed(axis->range) && bl_extent_of(axis->range) >= amount &&
           (kind == BL_AXIS_GLOBAL || kind == BL_AXIS_LOOP || kind == BL_AXIS_REDUCE);
}

/* An axis on which |of| depends and |other| does not: the innermost that |amount| divides, or else the innermost. */
static int matrix_choose_columns(bl_tune *tune, const bl_node *of, const bl_node *other, int64_t amount)
{
    int best = -1;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        if (!axis->output || !axis->outer || !matrix_may_split(axis, amount) || !bl_depends(tune, of, axis->range) ||
            bl_depends(tune, other, axis->range))
            continue;
        if (best < 0 || bl_extent_of(axis->range) % amount == 0 || bl_extent_of(tune->axis[best].range) % amount != 0)
            best = i;
    }
    return best;
}

/* The innermost axis of the sum on which both operands depend and that the unit's k divides. */
static int choose_depth(bl_tune *tune, const product *p)
{
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_axis *axis = &tune->axis[i];
        if (!axis->output && bl_binds(p->sum, axis->range) && matrix_may_split(axis, p->shape.k) &&
            bl_extent_of(axis->range) % p->shape.k == 0 && bl_depends(tune, p->load[0], axis->range) &&
            bl_depends(tune, p->load[1], axis->range))
            return i;
    }
    return -1;
}

static bool find_product(bl_tune *tune, int rows, int64_t shape, product *p)
{
    const bl_node *range = tune->axis[rows].range, *loads[2];
    int own = 0;

    *p = (product){.shape = bl_matrix_unpack(shape), .rows = rows};
    if (p->shape.split && tune->sink->sub != BL_PRECISION_HIGH)
        return false;
    if (!bl_matrix_is_valid(p->shape) || tune_count_items(tune) + (p->shape.scope > 1) > MOST_ITEM_AXES)
        return false;
    for (int i = 0; i < tune->naxes; i++) {
        if (tune_deals_elements(tune->axis[i].range) || tune->axis[i].range->sub == BL_AXIS_VECTOR ||
            tune->axis[i].range->sub == BL_AXIS_GROUP)
            return false;
    }
    p->sum = only_sum(tune, p->shape);
    if (p->sum == NULL || !tune->axis[rows].output || !tune->axis[rows].outer || !matrix_may_split(&tune->axis[rows], p->shape.m))
        return false;
    (void)bl_matrix_product(p->sum->src[0], p->shape, loads);
    own = bl_depends(tune, loads[0], range) ? 0 : 1;
    p->load[0] = loads[own];
    p->load[1] = loads[1 - own];
    if (!bl_depends(tune, p->load[0], range) || bl_depends(tune, p->load[1], range))
        return false;
    p->columns = matrix_choose_columns(tune, p->load[1], p->load[0], p->shape.n);
    p->depth = choose_depth(tune, p);
    return p->columns >= 0 && p->depth >= 0;
}

/* ---- the rewrite */

static const bl_node *matrix_own_range(bl_ir *ir, int part, bl_axis_kind kind, const bl_node *extent)
{
    return bl_range(ir, bl_axis_pack((bl_axis_number){.slot = OWN_SLOT, .part = part}), kind, extent);
}

/* Split |axis| by |amount|. Returns the inner part, of kind MATRIX; NULL if the axis cannot be split. */
static const bl_node *split_off(bl_tune *tune, const bl_node *axis, int64_t amount, int own_part)
{
    if (amount == 1)
        return matrix_own_range(tune->ir, own_part, BL_AXIS_MATRIX, bl_index(tune->ir, 1));
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range != axis)
            continue;
        if (!tune_split(tune, i, amount, BL_AXIS_MATRIX))
            return NULL;
        for (int k = 0; k < tune->naxes; k++) {
            const bl_node *part = tune->axis[k].range;
            if (part->sub == BL_AXIS_MATRIX && bl_axis_origin(part) == bl_axis_origin(axis))
                return part;
        }
    }
    return NULL;
}

/* The layout of a panel of operand a (0) or b (1), as the |group| of tune_pack. */
static int64_t interleaving(bl_matrix shape, int which)
{
    return which == 1 && (shape.layouts >> BL_MATRIX_B_COLUMNS & 1) == 0 ? shape.group : 0;
}

/* Make operand a (0) or b (1), which alone depends on the columns, loadable as fragments; pack it if necessary. */
static bool make_loadable(bl_tune *tune, bl_matrix shape, int which, const bl_node *rows, const bl_node *columns,
                          const bl_node *depth)
{

    for (int tries = 0; tries < 2; tries++) {
        const bl_node *sum = only_sum(tune, shape), *loads[2], *load = NULL;
        if (sum == NULL || !bl_matrix_product(sum->src[0], shape, loads))
            return false;
        load = loads[bl_depends(tune, loads[0], columns) == (which == 1) ? 0 : 1];
        if (bl_matrix_operand(tune->ir, shape, load, which == 0, which == 0 ? rows : columns, depth) != NULL)
            return true;
        if (tries == 0 && !tune_pack(tune, tune_operand_number(tune, load), interleaving(shape, which)))
            return false;
    }
    return false;
}

/* Pack both operands as panels of halves, and sum three products of halves instead of one product. */
static bool split_operands(bl_tune *tune, bl_matrix shape, const bl_node *columns, const bl_node *depth)
{
    bl_ir *ir = tune->ir;
    const bl_node *sum = only_sum(tune, shape), *ranges[BL_MAX_AXES], *loads[2], *halves[2];
    const bl_node *number = bl_range(ir, bl_axis_rest(depth), BL_AXIS_TILE, bl_index(ir, PRODUCTS)), *two = bl_index(ir, 2);
    int n = 0;

    if (sum == NULL || !bl_matrix_product(sum->src[0], shape, loads) || sum->nsrc > BL_MAX_AXES)
        return false;
    /* products 0, 1 and 2 use the high, high and low half of a, and the low, high and high half of b */
    for (int i = 0; i < 2; i++) {
        int which = bl_depends(tune, loads[i], columns) ? 1 : 0;
        halves[i] = pack_halves(tune, tune_operand_number(tune, loads[i]), interleaving(shape, which),
                                which == 0 ? bl_idiv(ir, number, two) : bl_idiv(ir, bl_sub(ir, two, number), two));
        if (halves[i] == NULL)
            return false;
    }
    for (uint32_t i = 1; i < sum->nsrc; i++)
        ranges[n++] = sum->src[i];
    ranges[n++] = number;
    halves[0] = bl_alu2(ir, BL_OP_MUL, halves[0], halves[1]);
    tune_survey(tune, bl_replace(ir, tune->sink, sum, bl_reduce_over(ir, BL_OP_ADD, 1, halves, n, ranges)));
    return true;
}

/* The lanes of a work-item: the largest power of two that divides the columns and the share of a work-item. */
static int64_t matrix_lanes_of(bl_matrix shape)
{
    int64_t most = shape.scope > 1 ? LANES_OF_ITEM : BL_MAX_LANES, lanes = 1;
    while (lanes * 2 <= most && shape.n % (lanes * 2) == 0 && shape.m * shape.n % (shape.scope * lanes * 2) == 0)
        lanes *= 2;
    return lanes;
}

/* Distribute the elements of the tile cyclically over the work-items of the scope, |lanes| adjacent elements at a time. */
static void deal_elements(bl_tune *tune, bl_matrix shape, const bl_node *rows, const bl_node *columns)
{
    bl_ir *ir = tune->ir;
    int64_t lanes = matrix_lanes_of(shape), turns = shape.m * shape.n / (shape.scope * lanes);
    const bl_node *place = bl_index(ir, 0), *lane = place, *row = NULL, *column = NULL, *sum = only_sum(tune, shape);
    const bl_node *wide = bl_index(ir, shape.n / lanes), *step = bl_index(ir, lanes);
    bl_ptrmap to;

    if (turns > 1)
        place = matrix_own_range(ir, TURN, turns > MOST_UNROLLED ? BL_AXIS_LOOP : BL_AXIS_TILE, bl_index(ir, turns));
    if (shape.scope > 1)
        place = bl_add(ir, bl_mul(ir, place, bl_index(ir, shape.scope)),
                       matrix_own_range(ir, ITEM, BL_AXIS_LOCAL, bl_index(ir, shape.scope)));
    if (lanes > 1)
        lane = matrix_own_range(ir, LANE, BL_AXIS_VECTOR, step);
    row = bl_idiv(ir, place, wide);
    column = bl_add(ir, bl_mul(ir, bl_mod(ir, place, wide), step), lane);
    bl_ptrmap_init(&to, bl_ir_arena(ir));
    bl_ptrmap_put(&to, rows, row);
    bl_ptrmap_put(&to, columns, column);
    bl_ptrmap_put(
        &to, sum,
        bl_matrix_element(ir, bl_matrix_node(ir, shape, sum, rows, columns), bl_add(ir, bl_mul(ir, place, step), lane)));
    tune_survey(tune, bl_substitute(ir, tune->sink, &to));
}

static bool matrix_rewrite(bl_tune *tune, const product *p)
{
    const bl_node *row_axis = tune->axis[p->rows].range, *column_axis = tune->axis[p->columns].range,
                  *depth_axis = tune->axis[p->depth].range;
    const bl_node *rows = split_off(tune, row_axis, p->shape.m, EMPTY_ROWS);
    const bl_node *columns = rows == NULL ? NULL : split_off(tune, column_axis, p->shape.n, 0);
    const bl_node *depth = columns == NULL ? NULL : split_off(tune, depth_axis, p->shape.k, 0);
    bl_matrix shape = bl_matrix_unsplit(p->shape);

    if (depth == NULL || (p->shape.split && !split_operands(tune, p->shape, columns, depth)))
        return false;
    if (!make_loadable(tune, shape, 0, rows, columns, depth) || !make_loadable(tune, shape, 1, rows, columns, depth))
        return false;
    deal_elements(tune, shape, rows, columns);
    return true;
}

bool move_unit(bl_tune *tune, bl_move_kind kind, int axis, int64_t shape)
{
    product p;

    (void)kind;
    if (!find_product(tune, axis, shape, &p) || !matrix_rewrite(tune, &p))
        return false;
    tune->matrix = true;
    return true;
}
