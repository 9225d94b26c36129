/* SPDX-License-Identifier: MIT */
/* Bounds of integers by interval arithmetic. Intervals are computed in 128 bits, in which no sum or product of two int64
 * overflows. An interval that exceeds its dtype may have wrapped; the bounds are then unknown. int64 bounds cannot hold uint64
 * values from 2^63 on: an unknown uint64 has the whole range of int64. */
#include "engine/ir/private.h"

__extension__ typedef __int128 wide;

typedef struct interval {
    wide lo, hi;
} interval;

static interval dtype_range(bl_dtype dtype)
{
    int bits = (int)bl_dtype_bytes(dtype) * 8;

    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_BOOL:
        return (interval){0, 1};
    case BL_KIND_UINT:
        if (bits < 64)
            return (interval){0, ((wide)1 << bits) - 1};
        return (interval){0, INT64_MAX};
    case BL_KIND_INT:
        return (interval){-((wide)1 << (bits - 1)), ((wide)1 << (bits - 1)) - 1};
    case BL_KIND_FLOAT:
        break;
    }
    return (interval){INT64_MIN, INT64_MAX};
}

static interval bounds_whole(bl_dtype dtype)
{
    if (dtype == BL_U64)
        return (interval){INT64_MIN, INT64_MAX};
    return dtype_range(dtype);
}

static interval bounds_of(const bl_node *node)
{
    return (interval){node->lo, node->hi};
}

static bool bounds_is_known(const bl_node *node)
{
    return node->dtype != BL_U64 || node->lo >= 0;
}

static wide bounds_least(wide a, wide b)
{
    return a < b ? a : b;
}

static wide most(wide a, wide b)
{
    return a > b ? a : b;
}

static interval bounds_join(interval a, interval b)
{
    return (interval){bounds_least(a.lo, b.lo), most(a.hi, b.hi)};
}

static wide floor_div(wide x, wide y)
{
    wide q = x / y;

    return (x % y != 0 && ((x < 0) != (y < 0))) ? q - 1 : q;
}

/* The interval between the least and the greatest of four corners. */
static interval hull(wide a, wide b, wide c, wide d)
{
    return (interval){bounds_least(bounds_least(a, b), bounds_least(c, d)), most(most(a, b), most(c, d))};
}

static interval bounds_times(interval a, interval b)
{
    return hull(a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi);
}

static interval bounds_quotient(interval a, interval b, interval unknown)
{
    if (b.lo <= 0 && b.hi >= 0)
        return a.lo >= 0 && b.lo >= 0 ? (interval){0, a.hi} : unknown;
    return hull(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi), floor_div(a.hi, b.lo), floor_div(a.hi, b.hi));
}

static interval modulo(interval a, interval b, interval unknown)
{
    if (b.lo < 0)
        return b.hi < 0 ? (interval){b.lo + 1, 0} : unknown;
    if (b.lo == b.hi && b.lo > 0 && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo)) {
        wide base = floor_div(a.lo, b.lo) * b.lo;
        return (interval){a.lo - base, a.hi - base};
    }
    if (a.lo >= 0 && b.lo > 0 && a.hi < b.lo)
        return a;
    return (interval){0, a.lo >= 0 ? bounds_least(a.hi, most(b.hi - 1, 0)) : most(b.hi - 1, 0)};
}

static wide all_ones(wide x)
{
    wide ones = 0;

    while (ones < x)
        ones = ones * 2 + 1;
    return ones;
}

static interval bitwise(bl_op op, interval a, interval b, interval unknown)
{
    if (op == BL_OP_AND && (a.lo >= 0 || b.lo >= 0))
        return (interval){0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : bounds_least(a.hi, b.hi)};
    if (a.lo < 0 || b.lo < 0)
        return unknown;
    return (interval){op == BL_OP_OR ? most(a.lo, b.lo) : 0, all_ones(most(a.hi, b.hi))};
}

static interval bounds_compare(bl_op op, interval a, interval b)
{
    if (op == BL_OP_CMPLT)
        return (interval){a.hi < b.lo, a.lo < b.hi};
    return (interval){a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.lo <= b.hi && b.lo <= a.hi};
}

static interval boolean(bl_op op, interval a, interval b)
{
    if (op == BL_OP_AND || op == BL_OP_MUL || op == BL_OP_MIN)
        return (interval){bounds_least(a.lo, b.lo), bounds_least(a.hi, b.hi)};
    if (op == BL_OP_OR || op == BL_OP_ADD || op == BL_OP_MAX)
        return (interval){most(a.lo, b.lo), most(a.hi, b.hi)};
    return (interval){0, 1};
}

static interval shift(bl_op op, interval a, interval b, interval unknown)
{
    if (b.lo < 0 || b.hi > 62)
        return unknown;
    if (op == BL_OP_SHL)
        return bounds_times(a, (interval){(wide)1 << b.lo, (wide)1 << b.hi});
    return hull(a.lo >> b.lo, a.lo >> b.hi, a.hi >> b.lo, a.hi >> b.hi);
}

static interval bounds_binary(bl_op op, bl_dtype dtype, interval a, interval b)
{
    interval unknown = bounds_whole(dtype);

    if (dtype == BL_BOOL)
        return boolean(op, a, b);
    /* An op that is not listed has unknown bounds. */
    if (op == BL_OP_ADD)
        return (interval){a.lo + b.lo, a.hi + b.hi};
    if (op == BL_OP_SUB)
        return (interval){a.lo - b.hi, a.hi - b.lo};
    if (op == BL_OP_MUL)
        return bounds_times(a, b);
    if (op == BL_OP_IDIV)
        return bounds_quotient(a, b, unknown);
    if (op == BL_OP_MOD)
        return modulo(a, b, unknown);
    if (op == BL_OP_MAX)
        return (interval){most(a.lo, b.lo), most(a.hi, b.hi)};
    if (op == BL_OP_MIN)
        return (interval){bounds_least(a.lo, b.lo), bounds_least(a.hi, b.hi)};
    if (op == BL_OP_AND || op == BL_OP_OR || op == BL_OP_XOR)
        return bitwise(op, a, b, unknown);
    if (op == BL_OP_SHL || op == BL_OP_SHR)
        return shift(op, a, b, unknown);
    return unknown;
}

static interval bounds_unary(const bl_node *node)
{
    interval x = bounds_of(node->src[0]);
    bl_dtype dtype = (bl_dtype)node->dtype;
    bl_dtype from = (bl_dtype)node->src[0]->dtype;

    if (node->op == BL_OP_NEG)
        return dtype == BL_BOOL ? bounds_whole(dtype) : (interval){-x.hi, -x.lo};
    if (node->op == BL_OP_NOT) {
        if (bl_dtype_get_kind(dtype) == BL_KIND_INT)
            return (interval){-1 - x.hi, -1 - x.lo};
        return dtype == BL_U64 ? bounds_whole(dtype) : (interval){dtype_range(dtype).hi - x.hi, dtype_range(dtype).hi - x.lo};
    }
    if (node->op == BL_OP_CAST && !bl_dtype_is_float(from)) {
        if (dtype == BL_BOOL)
            return (interval){x.lo > 0 || x.hi < 0, x.lo != 0 || x.hi != 0};
        return x;
    }
    return bounds_whole(dtype);
}

static interval bounds_alu(const bl_node *node)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    const bl_node *const *src = node->src;

    if (node->op == BL_OP_WHERE) {
        if (src[0]->lo == src[0]->hi)
            return bounds_of(src[src[0]->lo != 0 ? 1 : 2]);
        return bounds_join(bounds_of(src[1]), bounds_of(src[2]));
    }
    if (bl_dtype_is_float((bl_dtype)src[0]->dtype) || node->op == BL_OP_FMA || node->op == BL_OP_DOT4)
        return bounds_whole(dtype);
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (!bounds_is_known(src[i]))
            return bounds_whole(dtype);
    }
    if (node->nsrc == 1)
        return bounds_unary(node);
    if (bl_op_flags((bl_op)node->op) & BL_OPF_COMPARE)
        return bounds_compare((bl_op)node->op, bounds_of(src[0]), bounds_of(src[1]));
    return bounds_binary((bl_op)node->op, dtype, bounds_of(src[0]), bounds_of(src[1]));
}

static interval folded(const bl_node *node)
{
    interval x = bounds_of(node->src[0]);
    interval count = {1, 1};
    bl_dtype dtype = (bl_dtype)node->dtype;

    if (node->op == BL_OP_FOLD) {
        count = (interval){node->src[0]->lanes, node->src[0]->lanes};
    } else if (node->ndim > 0 || node->nsrc == 1) {
        for (int i = 0; i < node->ndim; i++) {
            if ((node->arg >> i & 1) != 0)
                count = bounds_times(count, bounds_of(node->src[0]->dim[i]));
            if (count.hi > INT64_MAX)
                return bounds_whole(dtype);
        }
    } else {
        if (node->arg != 1)
            return bounds_whole(dtype); /* several values */
        for (uint32_t i = 1; i < node->nsrc; i++) {
            const bl_node *range = node->src[i];
            if (range->op != BL_OP_RANGE)
                return bounds_whole(dtype);
            count = bounds_times(count, bounds_of(range->src[0]));
            if (count.hi > INT64_MAX || count.lo < 0)
                return bounds_whole(dtype);
        }
    }
    if (count.lo < 1 || !bounds_is_known(node->src[0]) || bl_dtype_is_float(dtype))
        return bounds_whole(dtype);
    if (node->sub == BL_OP_MAX || node->sub == BL_OP_MIN || dtype == BL_BOOL)
        return x;
    return node->sub == BL_OP_ADD ? bounds_times(x, count) : bounds_whole(dtype);
}

static interval below(const bl_node *extent)
{
    return (interval){0, most((wide)extent->hi - 1, 0)};
}

static interval leaf_or_loop(const bl_node *node)
{
    interval b = bounds_of(node);

    switch (node->op) {
    case BL_OP_CONST:
        return bl_dtype_is_float((bl_dtype)node->dtype) ? bounds_whole((bl_dtype)node->dtype) : (interval){node->arg, node->arg};
    case BL_OP_VAR:
        return b; /* given by the builder */
    case BL_OP_IOTA:
        return bl_dtype_is_float((bl_dtype)node->dtype) ? bounds_whole((bl_dtype)node->dtype) : below(node->dim[0]);
    /* a RANGE of 0 or 1 iterations keeps the bounds 0 to 1: if it were simplified to 0, its loads could be hoisted out of a
     * loop that does not run */
    case BL_OP_RANGE:
        b = below(node->src[0]);
        return node->src[0]->lo < 1 && node->src[0]->hi == 1 ? (interval){0, 1} : b;
    case BL_OP_LOOP:
        return below(node->src[0]);
    case BL_OP_LANE:
        return (interval){0, node->lanes - 1};
    case BL_OP_STACK:
        b = bounds_of(node->src[0]);
        for (uint32_t i = 1; i < node->nsrc; i++)
            b = bounds_join(b, bounds_of(node->src[i]));
        return b;
    case BL_OP_FOLD:
        return folded(node);
    case BL_OP_EXTRACT:
        return bounds_of(node->src[0]);
    default:
        return bounds_whole((bl_dtype)node->dtype);
    }
}

static interval bounds(const bl_node *node)
{
    switch (bl_op_get_class((bl_op)node->op)) {
    case BL_CLASS_ALU:
        return bounds_alu(node);
    case BL_CLASS_REDUCE:
        return folded(node);
    case BL_CLASS_MOVE:
        return node->op == BL_OP_PAD ? bounds_join(bounds_of(node->src[0]), (interval){0, 0}) : bounds_of(node->src[0]);
    case BL_CLASS_TENSOR:
        if (node->op == BL_OP_SCAN || node->op == BL_OP_RESULT)
            return bounds_whole((bl_dtype)node->dtype);
        return node->op == BL_OP_GATHER ? bounds_join(bounds_of(node->src[0]), (interval){0, 0}) : bounds_of(node->src[0]);
    case BL_CLASS_LEAF:
    case BL_CLASS_LOOP:
    case BL_CLASS_INST:
        break;
    }
    return leaf_or_loop(node);
}

void bl_node_set_bounds(bl_node *node)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    interval b = bl_dtype_is_float(dtype) ? bounds_whole(dtype) : bounds(node);
    interval range = dtype_range(dtype);

    if (b.lo < range.lo || b.hi > range.hi || b.lo > b.hi)
        b = bounds_whole(dtype);
    node->lo = (int64_t)b.lo;
    node->hi = (int64_t)b.hi;
}

bool bl_cast_keeps(bl_dtype to, const bl_node *x)
{
    bl_dtype from = (bl_dtype)x->dtype;
    interval range = dtype_range(to);

    if (to == from)
        return true;
    if (bl_dtype_is_float(from))
        return to == BL_F64 || (to == BL_F32 && from != BL_F64);
    if (bl_dtype_is_float(to)) {
        /* Integers up to 2^(bits of the significand) are exact. */
        int digits = to == BL_F64 ? 53 : to == BL_F32 ? 24 : to == BL_F16 ? 11 : to == BL_BF16 ? 8 : to == BL_F8E4M3 ? 4 : 3;
        range = (interval){-((wide)1 << digits), (wide)1 << digits};
    }
    return bounds_is_known(x) && x->lo >= range.lo && x->hi <= range.hi;
}
