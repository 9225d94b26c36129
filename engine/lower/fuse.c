/* SPDX-License-Identifier: MIT */
/* Fused multiply-add. In a reduction each product is fused with its addition: the order of such a sum is free, and so is its
 * rounding. Elsewhere x * y + z rounds twice, as in PyTorch, unless the product is exact: then one rounding gives the same
 * bits. Products of a quantised weight's code and its scales are exact. */
#include "engine/lower/emit.h"

enum { F32_BITS = 24, MOST_DEPTH = 8 };

static int bits_of(uint64_t x)
{
    int n = 0;
    for (; x != 0; x >>= 1)
        n++;
    return n;
}

/* An upper bound of the number of significant bits of a float32 value. */
static int significant_bits(const bl_node *node, int depth)
{
    const bl_node *x = node->nsrc > 0 ? node->src[0] : NULL;
    int bits = 0;

    if (depth == 0)
        return F32_BITS;
    switch ((int)node->op) {
    case BL_OP_NEG:
        return significant_bits(x, depth - 1);
    case BL_OP_MUL:
        return significant_bits(x, depth - 1) + significant_bits(node->src[1], depth - 1);
    case BL_OP_STACK:
        for (uint32_t i = 0; i < node->nsrc; i++) {
            int of = significant_bits(node->src[i], depth - 1);
            bits = of > bits ? of : bits;
        }
        return bits;
    case BL_OP_CAST:
        if (x->dtype == BL_F16)
            return 11; /* significand of a float16, with its hidden bit */
        if (bl_dtype_is_int((bl_dtype)x->dtype) && x->lo > -INT32_MAX && x->hi < INT32_MAX)
            return bits_of((uint64_t)(x->hi > -x->lo ? x->hi : -x->lo));
        return F32_BITS;
    default:
        return F32_BITS;
    }
}

/* The operand of an addition that is an exact product; -1 if there is none. */
static int exact_product(const bl_node *node)
{
    if (node->op != BL_OP_ADD || node->dtype != BL_F32)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (node->src[i]->op == BL_OP_MUL && significant_bits(node->src[i], MOST_DEPTH) <= F32_BITS)
            return i;
    }
    return -1;
}

bool emit_is_fused(const bl_node *node)
{
    return exact_product(node) >= 0;
}

value *emit_fused(build *b, scope *at, const bl_node *node)
{
    int which = exact_product(node);
    const bl_node *product = node->src[which];
    value *x = emit_node(b, at, product->src[0]), *y = emit_node(b, at, product->src[1]);

    return emit_inst(b, at, BL_OP_FMA, BL_F32, node->lanes, 3, ARGS(x, y, emit_node(b, at, node->src[1 - which])));
}

/* Fuses a product with the sum, a rescaling factor with the sum, and each of several products that are added first. */
value *emit_sum(build *b, scope *at, const bl_node *reduce, const bl_node *term, value *sum)
{
    bl_dtype dtype = emit_dtype(b, reduce);
    bool floats = dtype == BL_F32 || dtype == BL_F64;
    value *x = NULL, *y = NULL;

    if (term->op == BL_OP_RESCALED) {
        x = emit_node(b, at, term->src[0]);
        y = emit_node(b, at, term->src[1]);
        if (floats)
            return emit_inst(b, at, BL_OP_FMA, dtype, reduce->lanes, 3, ARGS(sum, y, x));
        return emit_alu(b, at, BL_OP_ADD, dtype, emit_alu(b, at, BL_OP_MUL, dtype, sum, y), x);
    }
    if (reduce->sub == BL_OP_ADD && floats && term->op == BL_OP_ADD && term->src[1]->op == BL_OP_MUL)
        return emit_sum(b, at, reduce, term->src[1], emit_sum(b, at, reduce, term->src[0], sum));
    if (reduce->sub != BL_OP_ADD || term->op != BL_OP_MUL || !floats)
        return emit_alu(b, at, (bl_op)reduce->sub, dtype, sum, emit_node(b, at, term));
    x = emit_node(b, at, term->src[0]);
    y = emit_node(b, at, term->src[1]);
    return emit_inst(b, at, BL_OP_FMA, dtype, reduce->lanes, 3, ARGS(x, y, sum));
}
