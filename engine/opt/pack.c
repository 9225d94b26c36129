/* SPDX-License-Identifier: MIT */
/* Packed panels (stage, panels): a helper nest writes an operand of a reduction into a buffer of its own, in the order in which
 * the nest reads the operand (packed panels: grid axes outermost, then the loops of the reduction, then tiles, then lanes).  An
 * operand that bfloat16 matrix units multiply in three products is written as its high and its low halves. */
#include "engine/ir/matrix_unit.h"
#include "engine/opt/facts.h"
#include "engine/opt/staging.h"

#include <math.h>

enum {
    REUSE_TO_COPY =
        80,    /* reads per element of a contiguous operand: 8 x 56 x 56 places, 96 to 24 channels, 0.8 ms instead of 1.5 */
    DEEP = 512 /* rows of such an operand, each in a page of its own, which address caches do not keep */
};

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

static bool is_outside_panel(const stage_dim *dim, const stage_dim *other)
{
    return layer(dim->range) < layer(other->range);
}

bool tune_is_packed(const bl_tune *tune, const bl_node *load)
{
    return load->src[0]->op == BL_OP_BUFFER && load->src[0]->arg >= tune->nparams - tune->npacked;
}

void tune_replace_load(bl_tune *tune, const bl_node *load, const bl_node *other)
{
    tune_survey(tune, bl_replace(tune->ir, tune->sink, load, other));
}

/* Begin the panel of |load|, with elements of |dtype|. False if there can be no panel. */
static bool pack_begin(staging *s, bl_tune *tune, const bl_node *load, bl_dtype dtype)
{
    staging_init(s, tune);
    staging_footprint(s, bl_free_get(&tune->free, load), is_outside_panel);
    return helper_begin(s, dtype);
}

/* The layout of the panel; |group| as in tune_pack.  |half| (or NULL) is the number of the half.  The dimension of the halves is
 * outside the axes of the reduction, so that the helper writes long rows. */
static const bl_node *panel_index(const staging *s, int64_t group, const bl_node *half)
{
    bl_ir *ir = s->tune->ir;
    const stage_dim *column = NULL, *depth = NULL;
    const bl_node *index = bl_index(ir, 0), *by = bl_index(ir, group);

    for (int i = 0; i < s->n; i++) {
        const bl_node *range = s->dim[i].range;
        if (half != NULL && layer(range) >= REDUCTION && (i == 0 || layer(s->dim[i - 1].range) < REDUCTION))
            index = staging_inner(ir, index, bl_index(ir, PACK_HALVES), half);
        if (group == 0 || i < s->n - 2)
            index = staging_inner(ir, index, s->dim[i].extent, range);
    }
    if (group == 0 || s->n < 2)
        return index;
    column = &s->dim[s->n - 2];
    depth = &s->dim[s->n - 1];
    index = staging_inner(ir, index, bl_idiv(ir, depth->extent, by), bl_idiv(ir, depth->range, by));
    index = staging_inner(ir, index, column->extent, column->range);
    return staging_inner(ir, index, by, bl_mod(ir, depth->range, by));
}

/* As helper_fill, for a panel in which |group| elements along the last axis are contiguous and make a word of 32 bits.  The
 * helper stores whole words: stores of single elements would be strided, and could not be vectors. */
static bool pack_fill_words(staging *s, int n, const bl_node *const *value, const bl_node *const *index, int64_t group)
{
    bl_ir *ir = s->tune->ir;
    const bl_node *depth = s->dim[s->n - 1].range, *stores[PACK_HALVES], *by = bl_index(ir, group);
    const bl_node *number =
        bl_range_like(ir, staging_at(s, s->n - 1, true), BL_AXIS_LOOP, bl_index(ir, bl_extent_of(depth) / group));
    const int64_t bits = WORD_BITS / group;

    if (!helper_take_params(s, n, value))
        return false;
    for (int i = 0; i < n; i++) {
        const bl_node *word = NULL;
        for (int64_t k = group - 1; k >= 0; k--) {
            const bl_node *part = NULL;
            bl_ptrmap_put(&s->fill, depth, staging_inner(ir, number, by, bl_index(ir, k)));
            part = bl_bitcast(ir, bits == 16 ? BL_U16 : BL_U8, bl_substitute(ir, value[i], &s->fill));
            part = bl_alu2(ir, BL_OP_SHL, bl_cast(ir, BL_U32, part), bl_const_int(ir, BL_U32, k * bits));
            word = word == NULL ? part : bl_alu2(ir, BL_OP_OR, word, part);
        }
        stores[i] = helper_store(s, bl_idiv(ir, bl_substitute(ir, index[i], &s->fill), by), word);
    }
    return helper_end(s, n, stores);
}

static bool pack_fill(staging *s, int n, const bl_node *const *value, const bl_node *const *index, int64_t group)
{
    if (group > 1 && group * (int64_t)bl_dtype_bytes(s->helper.dtype) * 8 == WORD_BITS)
        return pack_fill_words(s, n, value, index, group);
    return helper_fill(s, n, value, index);
}

bool tune_pack(bl_tune *tune, int operand, int64_t group)
{
    const bl_node *load = tune_operand_load(tune, operand), *index = NULL;
    staging s;

    if (load == NULL || !pack_begin(&s, tune, load, (bl_dtype)load->dtype))
        return false;
    index = panel_index(&s, group, NULL);
    if (!pack_fill(&s, 1, &load, &index, group))
        return false;
    tune_replace_load(tune, load, helper_read(&s, index));
    return true;
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
    const bl_node *load = tune_operand_load(tune, operand), *half[PACK_HALVES], *index[PACK_HALVES];
    staging s;

    if (load == NULL || !pack_begin(&s, tune, load, BL_BF16))
        return NULL;
    s.helper.count = bl_mul(ir, s.helper.count, bl_index(ir, PACK_HALVES));
    make_halves(ir, load, half);
    for (int i = 0; i < PACK_HALVES; i++)
        index[i] = panel_index(&s, group, bl_index(ir, i));
    return pack_fill(&s, PACK_HALVES, half, index, group) ? bl_cast(ir, BL_F32, helper_read(&s, panel_index(&s, group, which)))
                                                          : NULL;
}

/* ---- which operands */

/* Are the vectors that the main reduction reads one after the other neighbours in memory? A panel would have the same order. */
static bool is_stream(facts *f, const access *a, int64_t lanes)
{
    const bl_node *innermost = NULL;
    int64_t step = 0;

    for (uint32_t i = (uint32_t)f->main->arg; i < f->main->nsrc; i++) {
        const bl_node *range = f->main->src[i];
        if (bl_depends(f->tune, a->node, range) && (innermost == NULL || bl_axis_precedes(innermost, range)))
            innermost = range;
    }
    return innermost != NULL && bl_access_stride(f->tune, a->node, innermost, &step) && step == lanes;
}

/* Is a contiguous operand copied into a panel? It is if it does not fit in the cache of a core, and its rows are either read by
 * many rows of tiles, or so many that each vector is in a page of its own that the address caches have lost. */
static bool is_copied(facts *f, const access *a, const bl_target *target, int64_t lanes)
{
    bl_free *free = &f->tune->free;
    int64_t elements = bl_free_size(free, bl_free_get(free, a->node));
    int64_t bytes = elements * (int64_t)bl_dtype_bytes((bl_dtype)a->node->dtype);
    int64_t depth = bl_free_size(free, bl_free_bound(free, f->main));

    return !tune_is_packed(f->tune, a->node) && !target->groups && bytes > (int64_t)target->cache_bytes / 2 &&
           (bl_free_size(free, a->loops) / REUSE_TO_COPY >= elements || depth > DEEP) && !is_stream(f, a, lanes);
}

void panels_write(const facts *before, const bl_target *target, bool large)
{
    bl_tune *tune = before->tune;

    for (int again = 1; again != 0;) {
        facts f;
        again = 0;
        facts_again(&f, before);
        for (int i = 0; i < f.naccesses && again == 0 && f.main != NULL; i++) {
            const access *a = &f.access[i];
            const bl_node *lanes_axis = NULL;
            int64_t lanes = 0;
            bool gathered = false;
            for (int k = 0; k < tune->naxes; k++) {
                const bl_node *range = tune->axis[k].range;
                if ((range->sub != BL_AXIS_VECTOR && range->sub != BL_AXIS_LOCAL) || !bl_depends(tune, a->node, range))
                    continue;
                lanes_axis = range->sub == BL_AXIS_VECTOR ? range : lanes_axis;
                lanes = range->sub == BL_AXIS_VECTOR ? bl_extent_of(range) : lanes;
                gathered = gathered || (range->sub == BL_AXIS_VECTOR && facts_contiguity(&f, a->node, range) < 0);
            }
            if (lanes == 0 || !facts_can_pack(&f, a, f.main, lanes_axis, target))
                continue;
            if (gathered || (large && is_copied(&f, a, target, lanes)))
                again = bl_tune_apply_at(tune, BL_STAGE_PANELS, tune_operand_number(tune, a->node), 0);
        }
    }
}
