/* SPDX-License-Identifier: MIT */
/* Convolutions, pooling and matrix products. */
#include "proto/onnx/import.h"
#include "proto/onnx/window.h"

#include <string.h>

/* ---- windows */

/* The |n| numbers of an attribute; all |preset| if it is omitted. */
static bool take_each(bl_onnx_call *c, const char *name, int n, int64_t preset, int64_t *out)
{
    const int64_t *given;
    int count = bl_onnx_ints(c, name, &given);

    for (int i = 0; i < n; i++)
        out[i] = count == n ? given[i] : preset;
    if (count >= 0 && count != n)
        bl_onnx_fail(c, "attribute \"%s\" has %d numbers; it must have %d", name, count, n);
    for (int i = 0; i < n && count == n; i++) {
        if (given[i] < 0 || given[i] > INT32_MAX)
            bl_onnx_fail(c, "attribute \"%s\" has %lld", name, (long long)given[i]);
    }
    return !c->import->failed;
}

static int64_t ops_window_reach_of(const bl_onnx_window *w, int i)
{
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}

/* SAME padding of a named |extent|: reach - stride, plus the distance of the extent to the next multiple of the stride. */
static bool pad_named(bl_onnx_call *c, const bl_node *extent, bool upper, int i, bl_onnx_window *w)
{
    bl_ir *ir = c->import->ir;
    const bl_node *stride = bl_index(ir, w->stride[i]), *one = bl_index(ir, 1), *two = bl_index(ir, 2);
    const bl_node *steps = bl_idiv(ir, bl_add(ir, extent, bl_sub(ir, stride, one)), stride);
    const bl_node *lacks = bl_sub(ir, bl_mul(ir, steps, stride), extent);
    const bl_node *total = bl_add(ir, lacks, bl_index(ir, ops_window_reach_of(w, i) - w->stride[i]));

    if (w->stride[i] > ops_window_reach_of(w, i))
        return bl_onnx_fail(c, "auto_pad of a dimension without a fixed size, with a stride larger than the window") != NULL;
    const bl_node *less = bl_idiv(ir, total, two), *more = bl_sub(ir, total, less);
    w->named[2 * i] = upper ? less : more;
    w->named[2 * i + 1] = upper ? more : less;
    return true;
}

/* Pads so that the output has ceil(input / stride) elements; an odd element is added after the axis for SAME_UPPER, before the
 * axis for SAME_LOWER. */
static bool pad_same(bl_onnx_call *c, const bl_onnx_value *x, bool upper, bl_onnx_window *w)
{
    for (int i = 0; i < w->n; i++) {
        const bl_node *extent = x->type->dim[bl_onnx_rank(x) - w->n + i];
        if (!bl_is_const(extent) && w->stride[i] != 1) {
            if (!pad_named(c, extent, upper, i, w))
                return false;
            continue;
        }
        int64_t size = bl_is_const(extent) ? bl_const_value(extent).i : w->kernel[i];
        int64_t steps = (size + w->stride[i] - 1) / w->stride[i];
        int64_t total = (steps - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - size;
        total = total < 0 ? 0 : total;
        w->pads[2 * i] = upper ? total / 2 : total - total / 2;
        w->pads[2 * i + 1] = total - w->pads[2 * i];
    }
    return true;
}

bool bl_onnx_take_window(bl_onnx_call *c, const bl_onnx_value *x, int n, const int64_t *kernel, bl_onnx_window *w)
{
    const char *pad = bl_onnx_text(c, "auto_pad", "NOTSET");
    int64_t pads[2 * BL_MAX_DIMS];

    *w = (bl_onnx_window){.n = n};
    if (x == NULL || n < 1 || n > BL_MAX_DIMS - 2 || bl_onnx_rank(x) < n)
        return bl_onnx_fail(c, "%d axes to slide along, of a tensor of %d dimensions", n, bl_onnx_rank(x)) != NULL;
    for (int i = 0; i < n; i++) {
        w->kernel[i] = kernel[i];
        if (kernel[i] < 1 || kernel[i] > INT32_MAX)
            return bl_onnx_fail(c, "a window of %lld", (long long)kernel[i]) != NULL;
    }
    if (!take_each(c, "strides", n, 1, w->stride) || !take_each(c, "dilations", n, 1, w->dilation) ||
        !take_each(c, "pads", 2 * n, 0, pads))
        return false;
    for (int i = 0; i < n; i++) {
        w->pads[2 * i] = pads[i];
        w->pads[2 * i + 1] = pads[n + i];
        if (w->stride[i] < 1 || w->dilation[i] < 1)
            return bl_onnx_fail(c, "strides and dilations must be 1 or more") != NULL;
    }
    w->ceil = bl_onnx_int(c, "ceil_mode", 0) != 0;
    if (strcmp(pad, "VALID") == 0)
        memset(w->pads, 0, sizeof w->pads);
    else if (strcmp(pad, "SAME_UPPER") == 0 || strcmp(pad, "SAME_LOWER") == 0)
        return pad_same(c, x, pad[5] == 'U', w);
    else if (strcmp(pad, "NOTSET") != 0 && *pad != '\0')
        return bl_onnx_fail(c, "auto_pad \"%.40s\" is not supported", bl_onnx_clean(c->import, pad)) != NULL;
    return !c->import->failed;
}

/* kernel_shape, or the weight's extents after the first two. */
static bool take_kernel(bl_onnx_call *c, const bl_onnx_value *weight, int *n, int64_t *kernel)
{
    const int64_t *given;

    *n = bl_onnx_ints(c, "kernel_shape", &given);
    if (*n > BL_MAX_DIMS)
        return bl_onnx_fail(c, "kernel_shape has %d numbers", *n) != NULL;
    for (int i = 0; i < *n; i++)
        kernel[i] = given[i];
    if (*n >= 0 || weight == NULL)
        return *n >= 0 || bl_onnx_fail(c, "needs kernel_shape") != NULL;
    *n = bl_onnx_rank(weight) - 2;
    for (int i = 0; i < *n; i++) {
        kernel[i] = weight->type->dim[i + 2]->hi;
        if (!bl_is_const(weight->type->dim[i + 2]))
            return bl_onnx_fail(c, "its weight has no fixed shape") != NULL;
    }
    return true;
}

/* The pads of a window for all axes of x; |hang| includes the padding of ceil_mode. */
static int all_pads(bl_onnx_call *c, const bl_onnx_value *x, const bl_onnx_window *w, bool pads, bool hang, const bl_node **out)
{
    int rank = bl_onnx_rank(x), first = rank - w->n;
    bl_ir *ir = c->import->ir;

    for (int i = 0; i < 2 * rank; i++)
        out[i] = bl_index(ir, 0);
    for (int i = 0; i < 2 * w->n; i++) {
        const bl_node **at = &out[2 * first + i];
        if (pads)
            *at = w->named[i] != NULL ? w->named[i] : bl_index(ir, w->pads[i]);
        if (hang && i % 2 == 1 && w->hang[i / 2] != NULL)
            *at = bl_add(ir, *at, w->hang[i / 2]);
    }
    return 2 * rank;
}

static bool has_named(const bl_onnx_window *w)
{
    bool any = false;

    for (int i = 0; i < 2 * w->n; i++)
        any = any || w->named[i] != NULL;
    return any;
}

/* Pads x explicitly, so that the window needs no padding. */
static bl_onnx_value *pad_around(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_window *w, double value)
{
    const bl_node *pads[2 * BL_MAX_DIMS];
    int n = all_pads(c, x, w, true, true, pads);

    memset(w->pads, 0, sizeof w->pads);
    return bl_onnx_make(c, "pad($0, padding=$1, value=$2)", ARGS(V(x), ZS(n, pads), R(value)));
}

bl_onnx_value *bl_onnx_convolve(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *weight, bl_onnx_value *bias)
{
    int64_t kernel[BL_MAX_DIMS];
    bl_onnx_window w;
    int n;

    if (weight == NULL || !take_kernel(c, weight, &n, kernel) || !bl_onnx_take_window(c, x, n, kernel, &w))
        return bl_onnx_fail(c, "needs data and a weight");
    if (has_named(&w))
        x = pad_around(c, x, &w, 0);
    return bl_onnx_make(
        c, "conv($0, $1, $2, stride=$3, padding=$4, dilation=$5, groups=$6)",
        ARGS(V(x), V(weight), V(bias), IS(n, w.stride), IS(2 * n, w.pads), IS(n, w.dilation), I(bl_onnx_int(c, "group", 1))));
}

bl_onnx_value *bl_onnx_write_conv(bl_onnx_call *c)
{
    return bl_onnx_convolve(c, bl_onnx_in(c, 0), bl_onnx_in(c, 1), bl_onnx_in(c, 2));
}

/* ---- pools */

/* Implements ceil_mode by padding after the end, so that windows past the end fit.  A window that would begin in the padding is
 * omitted.  The pools then ignore ceil_mode. */
static bool pad_ceil(bl_onnx_call *c, const bl_onnx_value *x, bl_onnx_window *w)
{
    bl_ir *ir = c->import->ir;

    for (int i = 0; w->ceil && i < w->n; i++) {
        const bl_node *size = x->type->dim[bl_onnx_rank(x) - w->n + i], *stride = bl_index(ir, w->stride[i]);
        int64_t before = w->pads[2 * i], after = w->pads[2 * i + 1], reach = ops_window_reach_of(w, i);
        const bl_node *room = bl_add(ir, size, bl_index(ir, before + after - reach)), *steps;
        bool begins_inside = after + w->stride[i] <= reach; /* true for every size */
        if (w->named[2 * i] != NULL || (!bl_is_const(size) && !begins_inside))
            return bl_onnx_fail(c, "ceil_mode with these pads needs a dimension of a fixed size") != NULL;
        steps = room->lo < 0 ? bl_index(ir, 0) : bl_idiv(ir, bl_add(ir, room, bl_index(ir, w->stride[i] - 1)), stride);
        if (!begins_inside && steps->lo > 0 && steps->lo * w->stride[i] >= size->lo + before)
            steps = bl_index(ir, steps->lo - 1);
        const bl_node *more = bl_sub(ir, bl_mul(ir, steps, stride), room);
        w->hang[i] = more->hi > 0 ? more : NULL;
    }
    return true;
}

static bool has_hang(const bl_onnx_window *w)
{
    bool any = false;

    for (int i = 0; i < w->n; i++)
        any = any || w->hang[i] != NULL;
    return any;
}

/* The wire's pools support pads up to half of the window. */
static bool has_wide_pads(const bl_onnx_window *w)
{
    bool any = has_named(w);

    for (int i = 0; i < 2 * w->n; i++)
        any = any || w->pads[i] > w->kernel[i / 2] / 2;
    return any;
}

static bool take_pool(bl_onnx_call *c, bl_onnx_window *w)
{
    int64_t kernel[BL_MAX_DIMS];
    int n;

    return take_kernel(c, NULL, &n, kernel) && bl_onnx_take_window(c, bl_onnx_in(c, 0), n, kernel, w) &&
           pad_ceil(c, bl_onnx_in(c, 0), w);
}

static double lowest(bl_dtype dtype)
{
    bl_scalar low = bl_scalar_lowest(dtype);

    return bl_dtype_is_float(dtype) ? low.f : bl_dtype_get_kind(dtype) == BL_KIND_INT ? (double)low.i : 0;
}

/* Computes indices into all of x without padding; storage_order selects column-major planes. */
static bl_onnx_value *pool_indices(bl_onnx_call *c, const bl_onnx_window *w, bl_onnx_value *plane)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);
    bl_ir *ir = c->import->ir;
    int rank = bl_onnx_rank(x), first = rank - w->n;
    const bl_node *size = bl_shape_count(ir, w->n, x->type->dim + first), *images = bl_shape_count(ir, first, x->type->dim);
    const bl_node *dim[BL_MAX_DIMS];

    if (bl_onnx_int(c, "storage_order", 0) != 0) {
        if (w->n != 2)
            return bl_onnx_fail(c, "storage_order needs two axes");
        plane = bl_onnx_make(
            c, "add(mul(mod($0, $1), $2), floor_div($0, $1))",
            ARGS(V(plane), V(bl_onnx_size_value(c, x->type->dim[rank - 1])), V(bl_onnx_size_value(c, x->type->dim[rank - 2]))));
    }
    for (int i = 0; i < rank; i++)
        dim[i] = i < first ? x->type->dim[i] : bl_index(ir, 1);
    return bl_onnx_make(c, "add($0, reshape(mul(arange(stop=$1), $2), shape=$3))",
                        ARGS(V(plane), ZS(-1, &images), V(bl_onnx_size_value(c, size)), ZS(rank, dim)));
}

bl_onnx_value *bl_onnx_write_max_pool(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *out[2];
    bl_onnx_window w;

    if (x == NULL || !take_pool(c, &w))
        return bl_onnx_fail(c, "needs an input");
    if (bl_onnx_wants(c, 1)) {
        if (has_hang(&w) || has_wide_pads(&w))
            return bl_onnx_fail(c, "indices with windows that hang over the end, or with pads of more than half a window");
        if (!bl_onnx_make_many(c, "max_pool_indices(a, kernel_size=$0, stride=$1, padding=$2, dilation=$3, dims=$4)",
                               ARGS(IS(w.n, w.kernel), IS(w.n, w.stride), IS(2 * w.n, w.pads), IS(w.n, w.dilation), I(w.n)), 2,
                               out))
            return NULL;
        c->out[1] = pool_indices(c, &w, out[1]);
        return out[0];
    }
    if (has_hang(&w) || has_wide_pads(&w))
        x = pad_around(c, x, &w, lowest(bl_onnx_type(x)));
    return bl_onnx_make(c, "max_pool($0, kernel_size=$1, stride=$2, padding=$3, dilation=$4, dims=$5)",
                        ARGS(V(x), IS(w.n, w.kernel), IS(w.n, w.stride), IS(2 * w.n, w.pads), IS(w.n, w.dilation), I(w.n)));
}

/* The sum of |x| over dilated windows without padding: for each axis, unfolds the windows and sums their slices. */
static bl_onnx_value *window_sum(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_window *w)
{
    int first = bl_onnx_rank(x) - w->n;

    for (int i = 0; i < w->n; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        x = bl_onnx_make(c, "sum(slice(unfold($0, axis=$1, size=$2, step=$3), axis=[-1], step=$4), axis=-1, dtype=$5)",
                         ARGS(V(x), I(first + i), I(reach), I(w->stride[i]), IS(1, &w->dilation[i]), D(bl_onnx_type(x))));
    }
    return x;
}

bl_onnx_value *bl_onnx_write_average_pool(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *sum, *cells;
    bool counts_pads = bl_onnx_int(c, "count_include_pad", 0) != 0, dilated = false;
    const bl_node *pads[2 * BL_MAX_DIMS], *hang[2 * BL_MAX_DIMS];
    bl_onnx_window w;

    if (x == NULL || !take_pool(c, &w))
        return bl_onnx_fail(c, "needs an input");
    for (int i = 0; i < w.n; i++)
        dilated = dilated || w.dilation[i] != 1;
    if (!has_hang(&w) && !has_wide_pads(&w) && !dilated)
        return bl_onnx_make(c, "avg_pool(a, kernel_size=$0, stride=$1, padding=$2, count_include_pad=$3, dims=$4)",
                            ARGS(IS(w.n, w.kernel), IS(w.n, w.stride), IS(2 * w.n, w.pads), B(counts_pads), I(w.n)));
    int n = all_pads(c, x, &w, true, false, pads);
    all_pads(c, x, &w, false, true, hang);
    sum = window_sum(c, bl_onnx_make(c, "pad(pad(a, padding=$0), padding=$1)", ARGS(ZS(n, pads), ZS(n, hang))), &w);
    if (counts_pads) /* the padding of ceil_mode never counts */
        cells = bl_onnx_make(c, "pad(pad(ones_like(a), padding=$0, value=1), padding=$1)", ARGS(ZS(n, pads), ZS(n, hang)));
    else
        cells = bl_onnx_make(c, "pad(pad(ones_like(a), padding=$0), padding=$1)", ARGS(ZS(n, pads), ZS(n, hang)));
    return bl_onnx_make(c, "div($0, $1)", ARGS(V(sum), V(window_sum(c, cells, &w))));
}

static bl_onnx_value *global_pool(bl_onnx_call *c, const char *recipe)
{
    int64_t axes[BL_MAX_DIMS];
    int n = bl_onnx_rank(bl_onnx_in(c, 0)) - 2;

    for (int i = 0; i < n; i++)
        axes[i] = i + 2;
    return n < 1 ? bl_onnx_fail(c, "needs axes behind the first two") : bl_onnx_make(c, recipe, ARGS(IS(n, axes)));
}

bl_onnx_value *bl_onnx_write_global_average_pool(bl_onnx_call *c)
{
    return global_pool(c, "mean(a, axis=$0, keepdim=true)");
}

bl_onnx_value *bl_onnx_write_global_max_pool(bl_onnx_call *c)
{
    return global_pool(c, "max(a, axis=$0, keepdim=true)");
}

/* ---- products */

bl_onnx_value *bl_onnx_write_gemm(bl_onnx_call *c)
{
    double alpha = bl_onnx_float(c, "alpha", 1), beta = bl_onnx_float(c, "beta", 1);
    bl_onnx_value *a = bl_onnx_in(c, 0), *b = bl_onnx_in(c, 1), *add = bl_onnx_in(c, 2), *y;

    if (bl_onnx_int(c, "transA", 0) != 0)
        a = bl_onnx_make(c, "transpose($0)", ARGS(V(a)));
    if (bl_onnx_int(c, "transB", 0) != 0)
        b = bl_onnx_make(c, "transpose($0)", ARGS(V(b)));
    if (bl_onnx_rank(a) != 2 || bl_onnx_rank(b) != 2)
        return bl_onnx_fail(c, "needs two matrices");
    y = bl_onnx_make(c, "matmul($0, $1)", ARGS(V(a), V(b)));
    if (alpha != 1)
        y = bl_onnx_make(c, "mul($0, $1)", ARGS(V(y), R(alpha)));
    if (add != NULL && beta != 1)
        add = bl_onnx_make(c, "mul($0, $1)", ARGS(V(add), R(beta)));
    return add != NULL ? bl_onnx_make(c, "add($0, $1)", ARGS(V(y), V(add))) : y;
}

/* ---- transposed convolution, unpooling and Lp pools */

/* Chooses pads that give the requested output shape. */
static void pads_for(bl_onnx_call *c, const bl_onnx_value *x, const int64_t *shape, bool same, bool upper, int64_t *more,
                     bl_onnx_window *w)
{
    for (int i = 0; i < w->n; i++) {
        const bl_node *extent = x->type->dim[bl_onnx_rank(x) - w->n + i];
        if (!bl_is_const(extent)) {
            bl_onnx_fail(c, "output_shape or auto_pad of a dimension without a fixed size");
            return;
        }
        int64_t wanted = same ? extent->hi * w->stride[i] : shape[i];
        int64_t total = w->stride[i] * (extent->hi - 1) + more[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - wanted;
        if (total < 0) {
            more[i] -= total;
            total = 0;
        }
        w->pads[2 * i] = upper ? total / 2 : total - total / 2;
        w->pads[2 * i + 1] = total - w->pads[2 * i];
    }
}

bl_onnx_value *bl_onnx_write_conv_transpose(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *weight = bl_onnx_in(c, 1);
    int64_t kernel[BL_MAX_DIMS], more[BL_MAX_DIMS];
    const char *pad = bl_onnx_text(c, "auto_pad", "NOTSET");
    const int64_t *shape;
    int n, given = bl_onnx_ints(c, "output_shape", &shape);
    bl_onnx_window w;

    if (weight == NULL || !take_kernel(c, weight, &n, kernel) || n < 1 || n > BL_MAX_DIMS - 2 || bl_onnx_rank(x) != n + 2)
        return bl_onnx_fail(c, "needs data and a weight of as many dimensions");
    w = (bl_onnx_window){.n = n};
    memcpy(w.kernel, kernel, sizeof kernel);
    int64_t pads[2 * BL_MAX_DIMS];
    if (!take_each(c, "strides", n, 1, w.stride) || !take_each(c, "dilations", n, 1, w.dilation) ||
        !take_each(c, "output_padding", n, 0, more) || !take_each(c, "pads", 2 * n, 0, pads))
        return NULL;
    for (int i = 0; i < n; i++) {
        w.pads[2 * i] = pads[i];
        w.pads[2 * i + 1] = pads[n + i];
    }
    if (given > n) { /* some models include batch and channels */
        shape += given - n;
        given = n;
    }
    if (given >= 0 && given != n)
        return bl_onnx_fail(c, "output_shape has %d numbers; it must have %d", given, n);
    if (given == n || strncmp(pad, "SAME", 4) == 0)
        pads_for(c, x, shape, given != n, strcmp(pad, "SAME_UPPER") == 0, more, &w);
    return bl_onnx_make(c, "conv_transpose(a, b, c, stride=$0, padding=$1, output_padding=$2, dilation=$3, groups=$4)",
                        ARGS(IS(n, w.stride), IS(2 * n, w.pads), IS(n, more), IS(n, w.dilation), I(bl_onnx_int(c, "group", 1))));
}

/* Indices refer to the output before it is enlarged to output_shape, over all images. */
bl_onnx_value *bl_onnx_write_max_unpool(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *y;
    const int64_t *wanted = NULL;
    int64_t pads[2 * BL_MAX_DIMS] = {0}, size = 1, plane[BL_MAX_DIMS];
    int given = bl_onnx_in_ints(c, 2, &wanted), rank = bl_onnx_rank(x);
    bl_onnx_window w;

    if (x == NULL || !take_pool(c, &w))
        return bl_onnx_fail(c, "needs data and indices");
    for (int i = 0; i < w.n; i++) {
        const bl_node *extent = x->type->dim[rank - w.n + i];
        if (!bl_is_const(extent))
            return bl_onnx_fail(c, "needs fixed sizes");
        plane[i] = (extent->hi - 1) * w.stride[i] - w.pads[2 * i] - w.pads[2 * i + 1] + w.kernel[i];
        size *= plane[i];
    }
    y = bl_onnx_make(c, "max_unpool(a, mod(b, $0), kernel_size=$1, stride=$2, padding=$3, output_size=$4, dims=$5)",
                     ARGS(I(size), IS(w.n, w.kernel), IS(w.n, w.stride), IS(2 * w.n, w.pads), IS(w.n, plane), I(w.n)));
    if (given != rank)
        return y;
    for (int i = 0; i < w.n; i++)
        pads[2 * (rank - w.n + i) + 1] = wanted[rank - w.n + i] - plane[i];
    return bl_onnx_make(c, "pad($0, padding=$1)", ARGS(V(y), IS(2 * rank, pads)));
}

/* (sum of |x|^p)^(1 / p) over windows. */
bl_onnx_value *bl_onnx_write_lp_pool(bl_onnx_call *c)
{
    double p = (double)bl_onnx_int(c, "p", 2);
    bl_onnx_window w;

    if (bl_onnx_in(c, 0) == NULL || !take_pool(c, &w))
        return bl_onnx_fail(c, "needs an input");
    bl_onnx_value *x = pad_around(c, bl_onnx_make(c, "pow(abs(a), $0)", ARGS(R(p))), &w, 0);
    return bl_onnx_make(c, "pow($0, $1)", ARGS(V(window_sum(c, x, &w)), R(1 / p)));
}

bl_onnx_value *bl_onnx_write_global_lp_pool(bl_onnx_call *c)
{
    double p = (double)bl_onnx_int(c, "p", 2);
    bl_onnx_value *sum = bl_onnx_make(c, "pow(abs(a), $0)", ARGS(R(p)));
    int64_t axes[BL_MAX_DIMS];
    int n = bl_onnx_rank(bl_onnx_in(c, 0)) - 2;

    for (int i = 0; i < n; i++)
        axes[i] = i + 2;
    return bl_onnx_make(c, "pow(sum($0, axis=$1, keepdim=true), $2)", ARGS(V(sum), IS(n < 0 ? 0 : n, axes), R(1 / p)));
}
