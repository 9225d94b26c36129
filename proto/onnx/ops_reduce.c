/* SPDX-License-Identifier: MIT */
/* Reductions, cumulative sums and sorting. */
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

/* ---- reductions */

/* The axes of a reduction; |*n| is -1 for all axes.  A node without axes to reduce returns its input. */
static bool ops_reduce_take_axes(bl_onnx_call *c, int64_t *axes, int *n)
{
    const int64_t *given;
    int rank = bl_onnx_rank(bl_onnx_in(c, 0));

    *n = bl_onnx_ints_or_in(c, "axes", 1, &given);
    if (*n > rank)
        return bl_onnx_fail(c, "%d axes of a tensor of %d dimensions", *n, rank) != NULL;
    for (int i = 0; i < *n; i++)
        axes[i] = bl_onnx_axis(c, given[i], rank);
    bool nothing = *n == 0 || (*n < 0 && bl_onnx_in(c, 1) == NULL && bl_onnx_attr(c, "axes") == NULL);
    if (nothing && bl_onnx_int(c, "noop_with_empty_axes", 0) == 0)
        *n = -1;
    else if (nothing)
        *n = 0;
    for (int i = 0; *n < 0 && i < rank; i++)
        axes[i] = i;
    *n = *n < 0 ? rank : *n;
    return !c->import->failed;
}

static bl_onnx_value *reduce_nothing(bl_onnx_call *c, int n, const int64_t *axes, double value)
{
    const bl_node *dim[BL_MAX_DIMS];
    bl_onnx_value *x = c->in[0];
    bl_dtype dtype = bl_onnx_type(x);
    bool keeps = bl_onnx_int(c, "keepdims", 1) != 0;
    int rank = 0;
    uint32_t mask = 0;

    for (int i = 0; i < n; i++)
        mask |= 1u << axes[i];
    for (int i = 0; i < bl_onnx_rank(x); i++) {
        if (!(mask >> i & 1u) || keeps)
            dim[rank++] = mask >> i & 1u ? bl_index(c->import->ir, 1) : x->type->dim[i];
    }
    bl_scalar end = value > 0 ? bl_scalar_highest(dtype) : bl_scalar_lowest(dtype);
    if (!bl_dtype_is_float(dtype))
        return bl_onnx_make(c, "full(shape=$0, value=$1, dtype=$2)", ARGS(ZS(rank, dim), I(end.i), D(dtype)));
    return bl_onnx_make(c, "full(shape=$0, value=$1, dtype=$2)", ARGS(ZS(rank, dim), R(value), D(dtype)));
}

/* |recipe| reduces $0 over $1, keepdim $2, in dtype $3. */
static bl_onnx_value *ops_reduce_reduce(bl_onnx_call *c, const char *before, const char *recipe, const char *after)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int64_t axes[BL_MAX_DIMS] = {0};
    int n;

    if (x == NULL || !ops_reduce_take_axes(c, axes, &n))
        return bl_onnx_fail(c, "needs an input");
    for (int i = 0; i < n && (recipe[0] == 'm' || recipe[0] == 'l') && recipe[1] != 'e'; i++) {
        if (bl_is_int(x->type->dim[axes[i]], 0)) /* a maximum, a minimum or a logarithm of a sum has no value without
                                                  * elements */
            return reduce_nothing(c, n, axes, recipe[1] == 'i' ? INFINITY : -INFINITY);
    }
    if (before != NULL)
        x = bl_onnx_make(c, before, ARGS(V(x)));
    if (n > 0 || bl_onnx_rank(x) == 0)
        x = bl_onnx_make(c, recipe, ARGS(V(x), IS(n, axes), B(bl_onnx_int(c, "keepdims", 1) != 0), D(bl_onnx_type(x))));
    return after != NULL ? bl_onnx_make(c, after, ARGS(V(x), D(bl_onnx_type(bl_onnx_in(c, 0))))) : x;
}

#define SUM "sum($0, axis=$1, keepdim=$2, dtype=$3)"

bl_onnx_value *bl_onnx_write_reduce_sum(bl_onnx_call *c)
{
    return ops_reduce_reduce(c, NULL, SUM, NULL);
}

bl_onnx_value *bl_onnx_write_reduce_mean(bl_onnx_call *c)
{
    bool real = bl_dtype_is_float(bl_onnx_type(bl_onnx_in(c, 0)));

    return ops_reduce_reduce(c, NULL, "mean($0, axis=$1, keepdim=$2)", real ? NULL : "cast($0, dtype=$1)");
}

bl_onnx_value *bl_onnx_write_reduce_max(bl_onnx_call *c)
{
    bool truth = bl_onnx_type(bl_onnx_in(c, 0)) == BL_BOOL;

    return ops_reduce_reduce(c, NULL, truth ? "any($0, axis=$1, keepdim=$2)" : "max($0, axis=$1, keepdim=$2)", NULL);
}

bl_onnx_value *bl_onnx_write_reduce_min(bl_onnx_call *c)
{
    bool truth = bl_onnx_type(bl_onnx_in(c, 0)) == BL_BOOL;

    return ops_reduce_reduce(c, NULL, truth ? "all($0, axis=$1, keepdim=$2)" : "min($0, axis=$1, keepdim=$2)", NULL);
}

bl_onnx_value *bl_onnx_write_reduce_prod(bl_onnx_call *c)
{
    return ops_reduce_reduce(c, NULL, "prod($0, axis=$1, keepdim=$2, dtype=$3)", NULL);
}

bl_onnx_value *bl_onnx_write_reduce_l1(bl_onnx_call *c)
{
    return ops_reduce_reduce(c, "abs($0)", SUM, NULL);
}

bl_onnx_value *bl_onnx_write_reduce_l2(bl_onnx_call *c)
{
    return ops_reduce_reduce(c, "square($0)", SUM, "cast(sqrt($0), dtype=$1)");
}

bl_onnx_value *bl_onnx_write_reduce_sum_square(bl_onnx_call *c)
{
    return ops_reduce_reduce(c, "square($0)", SUM, NULL);
}

bl_onnx_value *bl_onnx_write_reduce_log_sum(bl_onnx_call *c)
{
    return ops_reduce_reduce(c, NULL, SUM, "cast(log($0), dtype=$1)");
}

bl_onnx_value *bl_onnx_write_reduce_log_sum_exp(bl_onnx_call *c)
{
    return ops_reduce_reduce(c, NULL, "logsumexp($0, axis=$1, keepdim=$2)", "cast($0, dtype=$1)");
}

/* ---- sorting and cumulative sums */

static bl_onnx_value *arg_extreme(bl_onnx_call *c, const char *recipe)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *found;
    int64_t axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(x));
    bool keeps = bl_onnx_int(c, "keepdims", 1) != 0, last = bl_onnx_int(c, "select_last_index", 0) != 0;

    if (x == NULL || c->import->failed)
        return NULL;
    if (last)
        x = bl_onnx_make(c, "flip(a, axis=$0)", ARGS(IS(1, &axis)));
    found = bl_onnx_make(c, recipe, ARGS(V(x), I(axis), B(keeps)));
    if (!last || found == NULL)
        return found;
    return bl_onnx_make(
        c, "sub($0, $1)",
        ARGS(V(bl_onnx_size_value(c, bl_sub(c->import->ir, x->type->dim[axis], bl_index(c->import->ir, 1)))), V(found)));
}

bl_onnx_value *bl_onnx_write_arg_max(bl_onnx_call *c)
{
    return arg_extreme(c, "argmax($0, axis=$1, keepdim=$2)");
}

bl_onnx_value *bl_onnx_write_arg_min(bl_onnx_call *c)
{
    return arg_extreme(c, "argmin($0, axis=$1, keepdim=$2)");
}

bl_onnx_value *bl_onnx_write_topk(bl_onnx_call *c)
{
    const bl_node *const *k;
    const bl_node *own = bl_index(c->import->ir, c->opset < 10 ? bl_onnx_int(c, "k", 0) : 0);
    bl_onnx_value *x = bl_onnx_in(c, 0), *out[2];
    int64_t axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", -1), bl_onnx_rank(x));

    if (c->opset < 10)
        k = &own;
    else if (bl_onnx_in_sizes(c, 1, &k) != 1)
        return bl_onnx_fail(c, "needs one number k");
    if (!bl_onnx_make_many(c, "topk(a, k=$0, axis=$1, largest=$2)",
                           ARGS(ZS(-1, k), I(axis), B(bl_onnx_int(c, "largest", 1) != 0)), 2, out))
        return NULL;
    if (c->nout > 1)
        c->out[1] = out[1];
    return out[0];
}

static bl_onnx_value *running(bl_onnx_call *c, const char *recipe, double neutral)
{
    const int64_t *given;
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int rank = bl_onnx_rank(x), n = bl_onnx_in_ints(c, 1, &given);
    int64_t axis = n == 1 ? bl_onnx_axis(c, *given, rank) : 0, pads[2 * BL_MAX_DIMS] = {0};
    bool backwards = bl_onnx_int(c, "reverse", 0) != 0, exclusive = bl_onnx_int(c, "exclusive", 0) != 0;

    if (n != 1 || rank == 0)
        return bl_onnx_fail(c, "needs one axis");
    if (backwards)
        x = bl_onnx_make(c, "flip($0, axis=$1)", ARGS(V(x), IS(1, &axis)));
    if (exclusive) {
        pads[2 * axis] = 1;
        pads[2 * axis + 1] = -1;
        x = bl_onnx_make(c, "pad($0, padding=$1, value=$2)", ARGS(V(x), IS(2 * rank, pads), R(neutral)));
    }
    x = bl_onnx_make(c, recipe, ARGS(V(x), I(axis), D(bl_onnx_type(x))));
    return backwards ? bl_onnx_make(c, "flip($0, axis=$1)", ARGS(V(x), IS(1, &axis))) : x;
}

bl_onnx_value *bl_onnx_write_cumsum(bl_onnx_call *c)
{
    return running(c, "cumsum($0, axis=$1, dtype=$2)", 0);
}

bl_onnx_value *bl_onnx_write_cumprod(bl_onnx_call *c)
{
    return running(c, "cumprod($0, axis=$1, dtype=$2)", 1);
}

bl_onnx_value *bl_onnx_write_einsum(bl_onnx_call *c)
{
    char *equation = bl_arena_strdup(c->import->scratch, bl_onnx_text(c, "equation", "")), *to = equation;

    for (const char *at = equation; at != NULL && *at != '\0'; at++) {
        if (*at != ' ')
            *to++ = *at;
    }
    if (to != NULL)
        *to = '\0';
    return bl_onnx_make(c, "einsum($0..., equation=$1)", ARGS(VS(c->nin, c->in), T(equation)));
}
