/* SPDX-License-Identifier: MIT */
/* PACK: a helper nest writes an operand of a reduction into a buffer of its own, in the order in which the nest reads the operand
 * (packed panels: grid axes outermost, then the loops of the reduction, then tiles, then lanes).  An operand that bfloat16 matrix
 * units multiply in three products is written as its high and its low halves. */
#include "engine/ir/matrix_unit.h"
#include "engine/ir/rewrite.h"
#include "engine/opt/opt_internal.h"

#include <math.h>

enum { REDUCTION = 2, WORD_BITS = 32 };

/* The position of an axis among the axes of a panel. */
static int layer(const bl_node *range)
{
    switch ((bl_axis_kind)range->sub) {
    case BL_AXIS_GLOBAL:
        return 0;
    case BL_AXIS_LOOP:
        return 1;
    case BL_AXIS_GROUP:
    case BL_AXIS_REDUCE:
        return REDUCTION;
    case BL_AXIS_TILE:
        return 3;
    case BL_AXIS_LOCAL:
        return 4;
    case BL_AXIS_VECTOR:
        return 5;
    case BL_AXIS_MATRIX:
        return 6;
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
    return load->src[0]->op == BL_OP_BUFFER && load->src[0]->arg >= tune->nparams - tune->npacked;
}

bool pack_renumber(bl_tune *tune, const bl_nodes *below, bl_ptrmap *to, bl_packed *packed)
{
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *node = below->at[i];
        if (node->op != BL_OP_BUFFER || bl_ptrmap_has(to, node))
            continue;
        if (packed->nfrom == (int)(sizeof packed->from / sizeof packed->from[0]))
            return false;
        bl_ptrmap_put(to, node, bl_param(tune->ir, packed->nfrom + 1, (bl_dtype)node->dtype, false));
        packed->from[packed->nfrom++] = (int)node->arg;
    }
    return true;
}

bool pack_make_helper(bl_tune *tune, int n, const bl_node *const *value, const bl_node *const *index, bl_ptrmap *to,
                      bl_packed *packed)
{
    bl_ir *ir = tune->ir;
    const bl_node *stores[PACK_HALVES];
    bl_nodes below = bl_reach(ir, n, value, false);

    if (!pack_renumber(tune, &below, to, packed))
        return false;
    for (int i = 0; i < n; i++)
        stores[i] = bl_store(ir, bl_param(ir, 0, packed->dtype, false), bl_substitute(ir, index[i], to),
                             bl_substitute(ir, value[i], to), NULL);
    packed->sink = bl_sink(ir, n, stores);
    return bl_ir_status(ir, NULL) == BL_OK;
}

/* As pack_make_helper, for a panel in which |group| elements along |depth| are contiguous and make a word of 32 bits.  The helper
 * stores whole words: stores of single elements would be strided, and could not be vectors. */
static bool pack_make_words(bl_tune *tune, int n, const bl_node *const *value, const bl_node *const *index, const bl_node *depth,
                            int64_t group, bl_ptrmap *to, bl_packed *packed)
{
    bl_ir *ir = tune->ir;
    const bl_node *stores[PACK_HALVES], *own = bl_ptrmap_get(to, depth), *by = bl_index(ir, group);
    const bl_node *number = own == NULL ? NULL : bl_range_like(ir, own, BL_AXIS_LOOP, bl_index(ir, bl_extent_of(depth) / group));
    const int64_t bits = WORD_BITS / group;
    bl_nodes below = bl_reach(ir, n, value, false);

    if (number == NULL || !pack_renumber(tune, &below, to, packed))
        return false;
    for (int i = 0; i < n; i++) {
        const bl_node *word = NULL;
        for (int64_t k = group - 1; k >= 0; k--) {
            const bl_node *part = NULL;
            bl_ptrmap_put(to, depth, bl_add(ir, bl_mul(ir, number, by), bl_index(ir, k)));
            part = bl_bitcast(ir, bits == 16 ? BL_U16 : BL_U8, bl_substitute(ir, value[i], to));
            part = bl_alu2(ir, BL_OP_SHL, bl_cast(ir, BL_U32, part), bl_const_int(ir, BL_U32, k * bits));
            word = word == NULL ? part : bl_alu2(ir, BL_OP_OR, word, part);
        }
        stores[i] = bl_store(ir, bl_param(ir, 0, BL_U32, false), bl_idiv(ir, bl_substitute(ir, index[i], to), by), word, NULL);
    }
    packed->sink = bl_sink(ir, n, stores);
    return bl_ir_status(ir, NULL) == BL_OK;
}

/* Make the helper for a panel with |group| as in tune_pack. */
static bool make_panel(bl_tune *tune, int n, const bl_node *const *value, const bl_node *const *index, const bl_node *depth,
                       int64_t group, bl_ptrmap *to, bl_packed *packed)
{
    if (group > 1 && group * (int64_t)bl_dtype_bytes(packed->dtype) * 8 == WORD_BITS)
        return pack_make_words(tune, n, value, index, depth, group, to, packed);
    return pack_make_helper(tune, n, value, index, to, packed);
}

void tune_replace_load(bl_tune *tune, const bl_node *load, const bl_node *other)
{
    tune_survey(tune, bl_replace(tune->ir, tune->sink, load, other));
}

/* Make the panel a parameter of the nest. Returns the LOAD of its element |index|. */
static const bl_node *load_panel(bl_tune *tune, const bl_node *index, const bl_packed *packed)
{
    const bl_node *panel = bl_load(tune->ir, bl_param(tune->ir, tune->nparams, packed->dtype, false), index, NULL);

    tune->packed[tune->npacked++] = *packed;
    tune->nparams++;
    return panel;
}

void pack_read_panel(bl_tune *tune, const bl_node *load, const bl_node *index, const bl_packed *packed)
{
    tune_replace_load(tune, load, load_panel(tune, index, packed));
}

/* The index of element (column, depth) in a tile of |n| columns, if |group| elements along the depth are contiguous. */
static const bl_node *interleaved(bl_ir *ir, const bl_node *column, const bl_node *depth, int64_t n, int64_t group)
{
    const bl_node *by = bl_index(ir, group), *row = bl_mul(ir, bl_idiv(ir, depth, by), bl_index(ir, n * group));
    return bl_add(ir, bl_add(ir, row, bl_mul(ir, column, by)), bl_mod(ir, depth, by));
}

/* The index of an element in a panel of |n| axes; |group| as in tune_pack.  |half| (or NULL) is the number of the half.  The axis
 * of the halves is outside the axes of the reduction, so that the helper writes long rows. */
static const bl_node *panel_index(bl_ir *ir, int n, const bl_node *const *range, int64_t group, const bl_node *half)
{
    const bl_node *index = bl_index(ir, 0);

    for (int i = 0; i < n; i++) {
        if (half != NULL && layer(range[i]) >= REDUCTION && (i == 0 || layer(range[i - 1]) < REDUCTION))
            index = bl_add(ir, bl_mul(ir, index, bl_index(ir, PACK_HALVES)), half);
        if (group == 0 || i < n - 2)
            index = bl_add(ir, bl_mul(ir, index, range[i]->src[0]), range[i]);
    }
    if (group > 0 && n >= 2) {
        const bl_node *column = range[n - 2], *depth = range[n - 1];
        int64_t cells = bl_extent_of(column) * bl_extent_of(depth);
        index = bl_add(ir, bl_mul(ir, index, bl_index(ir, cells)), interleaved(ir, column, depth, bl_extent_of(column), group));
    }
    return index;
}

/* Find the axes of the panel of |load|, map them to the loops of the helper, and count the elements.  0 if there can be no panel.
 */
static int begin_panel(bl_tune *tune, const bl_node *load, const bl_node **range, bl_ptrmap *to, bl_packed *packed)
{
    int n = load == NULL || tune->npacked == BL_MAX_HELPERS ? 0 : panel_axes(tune, load, range);

    if (n == 0 || n > BL_MAX_DIMS)
        return 0;
    *packed = (bl_packed){.param = tune->nparams, .dtype = (bl_dtype)load->dtype, .count = bl_index(tune->ir, 1)};
    bl_ptrmap_init(to, bl_ir_arena(tune->ir));
    for (int i = 0; i < n; i++) {
        packed->count = bl_mul(tune->ir, packed->count, range[i]->src[0]);
        bl_ptrmap_put(to, range[i], bl_range(tune->ir, bl_loop_pack(BL_LEVEL_OUTPUTS, i), BL_AXIS_LOOP, range[i]->src[0]));
    }
    return n;
}

bool tune_pack(bl_tune *tune, int operand, int64_t group)
{
    const bl_node *load = tune_operand_load(tune, operand), *range[BL_MAX_AXES], *index = NULL;
    bl_packed packed;
    bl_ptrmap to;
    int n = begin_panel(tune, load, range, &to, &packed);

    if (n == 0)
        return false;
    index = panel_index(tune->ir, n, range, group, NULL);
    if (!make_panel(tune, 1, &load, &index, range[n - 1], group, &to, &packed))
        return false;
    pack_read_panel(tune, load, index, &packed);
    return true;
}

bool move_pack(bl_tune *tune, int operand, int64_t amount)
{
    (void)amount;
    return tune_pack(tune, operand, 0);
}

/* ---- halves */

/* Split a float32 |x| into two bfloat16 halves whose sum is |x| with a relative error of 2^-18: the nearest bfloat16, and the
 * bfloat16 nearest to the remainder.  An infinity has the halves 1 (with the sign of the infinity) and the infinity itself: as a
 * high half, it would be multiplied by low halves that are zero or have the opposite sign, and make NaN.  The sum of three
 * products then equals the product.  A finite value that would round to an infinity becomes the largest bfloat16. */
static void make_halves(bl_ir *ir, const bl_node *x, const bl_node *half[PACK_HALVES])
{
    const double largest = 0x1.fep127, infinity = (double)INFINITY;
    const bl_node *is_high = bl_alu2(ir, BL_OP_CMPEQ, x, bl_const_float(ir, BL_F32, infinity));
    const bl_node *is_low = bl_alu2(ir, BL_OP_CMPEQ, x, bl_const_float(ir, BL_F32, -infinity));
    const bl_node *bounded = bl_alu2(ir, BL_OP_MIN, bl_alu2(ir, BL_OP_MAX, x, bl_const_float(ir, BL_F32, -largest)),
                                     bl_const_float(ir, BL_F32, largest));

    bounded = bl_where(ir, is_low, bl_const_float(ir, BL_F32, -1), bounded);
    bounded = bl_where(ir, is_high, bl_const_float(ir, BL_F32, 1), bounded);
    half[0] = bl_cast(ir, BL_BF16, bounded);
    half[1] = bl_cast(ir, BL_BF16, bl_alu2(ir, BL_OP_SUB, x, bl_cast(ir, BL_F32, half[0])));
}

const bl_node *pack_halves(bl_tune *tune, int operand, int64_t group, const bl_node *which)
{
    bl_ir *ir = tune->ir;
    const bl_node *load = tune_operand_load(tune, operand), *range[BL_MAX_AXES], *half[PACK_HALVES], *index[PACK_HALVES];
    bl_packed packed;
    bl_ptrmap to;
    int n = begin_panel(tune, load, range, &to, &packed);

    if (n == 0)
        return NULL;
    packed.dtype = BL_BF16;
    packed.count = bl_mul(ir, packed.count, bl_index(ir, PACK_HALVES));
    make_halves(ir, load, half);
    for (int i = 0; i < PACK_HALVES; i++)
        index[i] = panel_index(ir, n, range, group, bl_index(ir, i));
    if (!make_panel(tune, PACK_HALVES, half, index, range[n - 1], group, &to, &packed))
        return NULL;
    return bl_cast(ir, BL_F32, load_panel(tune, panel_index(ir, n, range, group, which), &packed));
}
