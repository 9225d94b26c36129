/* SPDX-License-Identifier: MIT */
#include "engine/ir/eval.h"
#include "engine/ir/private.h"
#include "engine/ir/shape.h"

#define FAIL(ir, ...) bl_ir_fail((ir), BL_EGRAPH, __VA_ARGS__)

static const char *build_tensor_text_of(bl_ir *ir, const bl_node *x)
{
    return bl_shape_text(ir, x->ndim, x->dim, NULL);
}

/* POISON if the extents are not a valid shape, else NULL. */
static const bl_node *build_tensor_check_shape(bl_ir *ir, const char *what, int ndim, const bl_node *const *dim)
{
    if (ndim < 0 || ndim > BL_MAX_DIMS)
        return FAIL(ir, "%s: %d dimensions, the limit is %d", what, ndim, BL_MAX_DIMS);
    for (int i = 0; i < ndim; i++) {
        if (bl_is_poison(dim[i]))
            return dim[i];
        if (dim[i]->dtype != BL_INDEX || dim[i]->ndim != 0)
            return bl_ir_fail(ir, BL_EBUG, "%s: an extent is not an index", what);
        if (bl_may_be_negative(ir, dim[i]))
            return FAIL(ir, "%s: an extent of %s can be negative", what, bl_shape_text(ir, ndim, dim, NULL));
        if (!bl_extent_is_simple(dim[i]))
            return FAIL(ir, "%s: the extent of axis %d is too long an expression", what, i);
    }
    return NULL;
}

static const bl_node *build_tensor_make_typed(bl_ir *ir, bl_op op, bl_dtype dtype, uint32_t nsrc, const bl_node *const *src,
                                              int ndim, const bl_node *const *dim, int64_t arg, unsigned sub)
{
    bl_node proto = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .lanes = 1, .sub = (uint8_t)sub, .arg = arg};

    proto.nsrc = nsrc;
    proto.src = src;
    proto.ndim = (uint8_t)ndim;
    proto.dim = dim;
    return bl_node_make(ir, &proto);
}

/* A node of |op| over |src| with shape |dim| and the dtype of the first source. */
static const bl_node *build_tensor_make(bl_ir *ir, bl_op op, uint32_t nsrc, const bl_node *const *src, int ndim,
                                        const bl_node *const *dim, int64_t arg)
{
    return build_tensor_make_typed(ir, op, (bl_dtype)src[0]->dtype, nsrc, src, ndim, dim, arg, 0);
}

static bool same_dims(const bl_node *x, int ndim, const bl_node *const *dim)
{
    return bl_shape_equal(x, &(bl_node){.ndim = (uint8_t)ndim, .dim = dim});
}

const bl_node *bl_input(bl_ir *ir, int slot, bl_dtype dtype, int ndim, const bl_node *const *dim)
{
    const bl_node *bad = build_tensor_check_shape(ir, "input", ndim, dim);

    return bad != NULL ? bad : build_tensor_make_typed(ir, BL_OP_INPUT, dtype, 0, NULL, ndim, dim, slot, 0);
}

const bl_node *bl_iota(bl_ir *ir, bl_dtype dtype, const bl_node *extent)
{
    const bl_node *bad = build_tensor_check_shape(ir, "iota", 1, &extent);

    if (bad != NULL)
        return bad;
    if (dtype == BL_BOOL)
        return FAIL(ir, "iota: takes numbers, not bool");
    return build_tensor_make_typed(ir, BL_OP_IOTA, dtype, 0, NULL, 1, &extent, 0, 0);
}

const bl_node *bl_reshape(bl_ir *ir, const bl_node *x, int ndim, const bl_node *const *dim)
{
    const bl_node *bad = bl_is_poison(x) ? x : build_tensor_check_shape(ir, "reshape", ndim, dim);
    const bl_node *from = NULL;
    const bl_node *to = NULL;

    if (bad != NULL)
        return bad;
    if (same_dims(x, ndim, dim))
        return x;
    from = bl_shape_count(ir, x->ndim, x->dim);
    to = bl_shape_count(ir, ndim, dim);
    if (from != to)
        return FAIL(ir, "reshape: %s and %s have different numbers of elements", build_tensor_text_of(ir, x),
                    bl_shape_text(ir, ndim, dim, NULL));
    if (x->op == BL_OP_RESHAPE)
        return bl_reshape(ir, x->src[0], ndim, dim); /* the source of a RESHAPE is never a RESHAPE */
    return build_tensor_make(ir, BL_OP_RESHAPE, 1, &x, ndim, dim, 0);
}

int bl_perm_get(int64_t arg, int axis)
{
    return (int)((uint64_t)arg >> (4 * axis) & 15);
}

const bl_node *bl_permute(bl_ir *ir, const bl_node *x, const int *perm)
{
    uint64_t arg = 0;
    uint32_t seen = 0;
    bool identity = true;
    const bl_node *dim[BL_MAX_DIMS];
    const bl_node *base = x->op == BL_OP_PERMUTE ? x->src[0] : x;

    if (bl_is_poison(x))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        if (perm[i] < 0 || perm[i] >= x->ndim || (seen >> perm[i] & 1) != 0)
            return FAIL(ir, "permute: the given axes are not a permutation of the %d axes of %s", x->ndim,
                        build_tensor_text_of(ir, x));
        seen |= 1U << perm[i];
        dim[i] = x->dim[perm[i]];
        uint64_t axis = (uint64_t)(base == x ? perm[i] : bl_perm_get(x->arg, perm[i]));
        arg |= axis << (4 * i);
        identity = identity && axis == (uint64_t)i;
    }
    return identity ? base : build_tensor_make(ir, BL_OP_PERMUTE, 1, &base, x->ndim, dim, (int64_t)arg);
}

const bl_node *bl_expand(bl_ir *ir, const bl_node *x, int ndim, const bl_node *const *dim)
{
    const bl_node *bad = bl_is_poison(x) ? x : build_tensor_check_shape(ir, "expand", ndim, dim);

    if (bad != NULL)
        return bad;
    if (same_dims(x, ndim, dim))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        int to = ndim - x->ndim + i;
        if (to < 0 || (x->dim[i] != dim[to] && !bl_is_int(x->dim[i], 1)))
            return FAIL(ir, "expand: %s cannot become %s", build_tensor_text_of(ir, x), bl_shape_text(ir, ndim, dim, NULL));
    }
    if (x->op == BL_OP_EXPAND)
        x = x->src[0];
    return build_tensor_make(ir, BL_OP_EXPAND, 1, &x, ndim, dim, 0);
}

const bl_node *bl_pad(bl_ir *ir, const bl_node *x, const bl_node *const *before, const bl_node *const *after)
{
    const bl_node *dim[BL_MAX_DIMS];
    const bl_node *src[BL_MAX_DIMS + 1] = {x};
    const bl_node *bad = NULL;
    bool any = false;

    if (bl_is_poison(x))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        if (bl_is_poison(before[i]) || bl_is_poison(after[i]))
            return bl_poison(ir);
        if (before[i]->dtype != BL_INDEX || after[i]->dtype != BL_INDEX)
            return bl_ir_fail(ir, BL_EBUG, "pad: an amount is not an index");
        if (bl_may_be_negative(ir, before[i]) || bl_may_be_negative(ir, after[i]))
            return FAIL(ir, "pad: the amount at axis %d of %s is negative", i, build_tensor_text_of(ir, x));
        any = any || !bl_is_int(before[i], 0) || !bl_is_int(after[i], 0);
        src[i + 1] = before[i];
        dim[i] = bl_add(ir, bl_add(ir, before[i], x->dim[i]), after[i]);
    }
    if (!any)
        return x;
    bad = build_tensor_check_shape(ir, "pad", x->ndim, dim);
    return bad != NULL ? bad : build_tensor_make(ir, BL_OP_PAD, (uint32_t)x->ndim + 1, src, x->ndim, dim, 0);
}

const bl_node *bl_shrink(bl_ir *ir, const bl_node *x, const bl_node *const *start, const bl_node *const *size)
{
    const bl_node *src[BL_MAX_DIMS + 1] = {x};
    const bl_node *bad = bl_is_poison(x) ? x : build_tensor_check_shape(ir, "shrink", x->ndim, size);
    bool any = false;

    if (bad != NULL)
        return bad;
    for (int i = 0; i < x->ndim; i++) {
        const bl_node *room = NULL;
        if (bl_is_poison(start[i]))
            return start[i];
        if (start[i]->dtype != BL_INDEX)
            return bl_ir_fail(ir, BL_EBUG, "shrink: an amount is not an index");
        room = bl_sub(ir, x->dim[i], bl_add(ir, start[i], size[i]));
        if (bl_may_be_negative(ir, start[i]) || bl_is_poison(room) || bl_may_be_negative(ir, room))
            return FAIL(ir, "shrink: the box at axis %d of %s reaches outside", i, build_tensor_text_of(ir, x));
        any = any || size[i] != x->dim[i];
        src[i + 1] = start[i];
    }
    return any ? build_tensor_make(ir, BL_OP_SHRINK, (uint32_t)x->ndim + 1, src, x->ndim, size, 0) : x;
}

const bl_node *bl_flip(bl_ir *ir, const bl_node *x, uint32_t axes)
{
    if (bl_is_poison(x))
        return x;
    if (axes >> x->ndim != 0)
        return FAIL(ir, "flip: an axis does not exist in %s", build_tensor_text_of(ir, x));
    for (int i = 0; i < x->ndim; i++) {
        if (bl_is_int(x->dim[i], 1))
            axes &= ~(1U << i);
    }
    if (x->op == BL_OP_FLIP) {
        axes ^= (uint32_t)x->arg;
        x = x->src[0];
    }
    return axes == 0 ? x : build_tensor_make(ir, BL_OP_FLIP, 1, &x, x->ndim, x->dim, axes);
}

int64_t bl_window_pack(int axis, int64_t stride, int64_t dilation)
{
    return (int64_t)axis << (2 * BL_WINDOW_BITS) | stride << BL_WINDOW_BITS | dilation;
}

void bl_window_get(int64_t arg, int *axis, int64_t *stride, int64_t *dilation)
{
    int64_t mask = ((int64_t)1 << BL_WINDOW_BITS) - 1;

    *dilation = arg & mask;
    *stride = arg >> BL_WINDOW_BITS & mask;
    *axis = (int)(arg >> (2 * BL_WINDOW_BITS));
}

const bl_node *bl_window(bl_ir *ir, const bl_node *x, int axis, int64_t size, int64_t stride, int64_t dilation)
{
    int64_t most = ((int64_t)1 << BL_WINDOW_BITS) - 1;
    const bl_node *dim[BL_MAX_DIMS];
    const bl_node *last = NULL; /* where the last window starts */

    if (bl_is_poison(x))
        return x;
    if (axis < 0 || axis >= x->ndim || x->ndim == BL_MAX_DIMS)
        return FAIL(ir, "window: axis %d of %s", axis, build_tensor_text_of(ir, x));
    if (size < 1 || stride < 1 || dilation < 1 || size > most || stride > most || dilation > most)
        return FAIL(ir, "window: size %lld, stride %lld and dilation %lld must be from 1 to %lld", (long long)size,
                    (long long)stride, (long long)dilation, (long long)most);
    last = bl_sub(ir, x->dim[axis], bl_index(ir, dilation * (size - 1) + 1));
    if (bl_is_poison(last))
        return last;
    if (last->lo < 0)
        return FAIL(ir, "window: %lld elements, %lld apart, do not fit in axis %d of %s", (long long)size, (long long)dilation,
                    axis, build_tensor_text_of(ir, x));
    for (int i = 0; i < x->ndim; i++)
        dim[i] = x->dim[i];
    dim[axis] = bl_add(ir, bl_idiv(ir, last, bl_index(ir, stride)), bl_index(ir, 1));
    dim[x->ndim] = bl_index(ir, size);
    last = build_tensor_check_shape(ir, "window", x->ndim + 1, dim);
    if (last != NULL)
        return last;
    return build_tensor_make(ir, BL_OP_WINDOW, 1, &x, x->ndim + 1, dim, bl_window_pack(axis, stride, dilation));
}

const bl_node *bl_reduce(bl_ir *ir, bl_op fold, const bl_node *x, uint32_t axes)
{
    const bl_node *dim[BL_MAX_DIMS];
    uint32_t kept = 0;

    if (bl_is_poison(x))
        return x;
    if (!bl_op_folds(fold))
        return bl_ir_fail(ir, BL_EBUG, "reduce: cannot fold by %s", bl_op_name(fold));
    if (axes >> x->ndim != 0)
        return FAIL(ir, "reduce: an axis does not exist in %s", build_tensor_text_of(ir, x));
    for (int i = 0; i < x->ndim; i++) {
        dim[i] = x->dim[i];
        if ((axes >> i & 1) == 0 || bl_is_int(x->dim[i], 1))
            continue;
        kept |= 1U << i;
        dim[i] = bl_index(ir, 1);
    }
    return kept == 0 ? x : build_tensor_make_typed(ir, BL_OP_REDUCE, (bl_dtype)x->dtype, 1, &x, x->ndim, dim, kept, fold);
}

const bl_node *bl_gather(bl_ir *ir, const bl_node *x, const bl_node *index, int axis)
{
    const bl_node *src[2] = {x, index};

    if (bl_is_poison(x) || bl_is_poison(index))
        return bl_poison(ir);
    if (!bl_dtype_is_int((bl_dtype)index->dtype))
        return FAIL(ir, "gather: the index is %s, not an integer", bl_dtype_name((bl_dtype)index->dtype));
    if (axis < 0 || axis >= x->ndim || index->ndim != x->ndim)
        return FAIL(ir, "gather: axis %d of %s with an index of %s", axis, build_tensor_text_of(ir, x),
                    build_tensor_text_of(ir, index));
    for (int i = 0; i < x->ndim; i++) {
        if (i != axis && x->dim[i] != index->dim[i])
            return FAIL(ir, "gather: shapes differ outside axis %d: %s and %s", axis, build_tensor_text_of(ir, x),
                        build_tensor_text_of(ir, index));
    }
    return build_tensor_make(ir, BL_OP_GATHER, 2, src, index->ndim, index->dim, axis);
}

const bl_node *bl_detach(bl_ir *ir, const bl_node *x)
{
    return bl_is_poison(x) || x->op == BL_OP_DETACH ? x : build_tensor_make(ir, BL_OP_DETACH, 1, &x, x->ndim, x->dim, 0);
}

const bl_node *bl_contiguous(bl_ir *ir, const bl_node *x)
{
    return bl_is_poison(x) || x->op == BL_OP_CONTIGUOUS ? x : build_tensor_make(ir, BL_OP_CONTIGUOUS, 1, &x, x->ndim, x->dim, 0);
}

const bl_node *bl_alias(bl_ir *ir, const bl_node *value, const bl_node *source, int64_t number)
{
    const bl_node *src[2] = {value, source};

    if (bl_is_poison(value) || bl_is_poison(source))
        return bl_poison(ir);
    return build_tensor_make(ir, BL_OP_ALIAS, 2, src, value->ndim, value->dim, number);
}

const bl_node *bl_with_partials(bl_ir *ir, const bl_node *value, int n, const bl_node *const *x, const bl_node *const *partial)
{
    const bl_node *src[2 * BL_MAX_PARTIALS] = {x[0], partial[0]};

    BL_ASSERT(n > 0 && n <= BL_MAX_PARTIALS);
    for (int i = 0; i < n; i++) {
        src[2 * i] = x[i];
        src[2 * i + 1] = partial[i];
        if (bl_is_poison(x[i]) || bl_is_poison(partial[i]))
            return bl_poison(ir);
    }
    return bl_alias(ir, value, build_tensor_make(ir, BL_OP_PARTIALS, (uint32_t)(2 * n), src, x[0]->ndim, x[0]->dim, 0), 0);
}

const bl_node *bl_const_like(bl_ir *ir, const bl_node *like, bl_scalar value)
{
    return bl_expand(ir, bl_const(ir, (bl_dtype)like->dtype, value), like->ndim, like->dim);
}

const bl_node *bl_full_like(bl_ir *ir, const bl_node *like, double value)
{
    if (bl_is_poison(like))
        return like;
    return bl_const_like(ir, like, bl_scalar_cast((bl_dtype)like->dtype, BL_F64, (bl_scalar){.f = value}));
}
