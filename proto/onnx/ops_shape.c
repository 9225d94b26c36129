/* SPDX-License-Identifier: MIT */
/* Operators that move elements without computing on them, and constants. */
#include "proto/onnx/import.h"

#include <string.h>

enum { FAR = 1 << 30 }; /* larger than every extent: an open end of a slice is clamped to the extent */

/* ---- constants */

bl_onnx_value *bl_onnx_write_constant(bl_onnx_call *c)
{
    const Onnx__AttributeProto *value = bl_onnx_attr(c, "value");
    const int64_t *ints;
    const float *floats;
    int n = bl_onnx_ints(c, "value_ints", &ints);

    if (value != NULL && value->t != NULL)
        return bl_onnx_known_tensor(c->import, value->t);
    if (n >= 0)
        return bl_onnx_known_ints(c->import, n, ints);
    if (bl_onnx_attr(c, "value_int") != NULL)
        return bl_onnx_known_real(c->import, BL_I64, (double)bl_onnx_int(c, "value_int", 0));
    if (bl_onnx_attr(c, "value_float") != NULL)
        return bl_onnx_known_real(c->import, BL_F32, bl_onnx_float(c, "value_float", 0));
    n = bl_onnx_floats(c, "value_floats", &floats);
    bl_onnx_known *known = n >= 0 ? bl_onnx_new_known(c->import, BL_F32, 1, &(int64_t){n}) : NULL;
    for (int i = 0; known != NULL && i < n; i++)
        known->real[i] = (double)floats[i];
    return known != NULL ? bl_onnx_known_value(c->import, known) : bl_onnx_fail(c, "has no tensor or number for its value");
}

/* ---- shapes: known at import, even for values that are not */

bl_onnx_value *bl_onnx_write_shape(bl_onnx_call *c)
{
    const bl_onnx_value *x = bl_onnx_in(c, 0);
    int rank = bl_onnx_rank(x);

    if (x == NULL || x->sequence)
        return bl_onnx_fail(c, "needs a tensor");
    int64_t start = bl_onnx_int(c, "start", 0), end = bl_onnx_int(c, "end", rank);
    start += start < 0 ? rank : 0;
    end += end < 0 ? rank : 0;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end > rank ? rank : end < start ? start : end;
    return bl_onnx_known_sizes(c->import, (int)(end - start), x->type->dim + start);
}

bl_onnx_value *bl_onnx_write_size(bl_onnx_call *c)
{
    const bl_onnx_value *x = bl_onnx_in(c, 0);

    if (x == NULL || x->sequence)
        return bl_onnx_fail(c, "needs a tensor");
    return bl_onnx_size_value(c, bl_shape_count(c->import->ir, bl_onnx_rank(x), x->type->dim));
}

/* ---- views */

/* An extent of 0 keeps the extent of the input at the same position, unless allowzero is set. */
static bl_onnx_value *reshape_to(bl_onnx_call *c, int n, const bl_node *const *want)
{
    const bl_node *dim[BL_MAX_DIMS];
    bl_onnx_value *x = bl_onnx_in(c, 0);
    bool keeps = bl_onnx_int(c, "allowzero", 0) == 0;

    if (x == NULL || n < 0 || c->import->failed)
        return x == NULL ? bl_onnx_fail(c, "needs an input") : bl_onnx_fail(c, "needs a shape");
    if (n > BL_MAX_DIMS)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%d dimensions; the limit is %d", n, BL_MAX_DIMS);
    for (int i = 0; i < n; i++) {
        dim[i] = want[i];
        if (!keeps || !bl_is_int(want[i], 0))
            continue;
        if (i >= bl_onnx_rank(x))
            return bl_onnx_fail(c, "the shape keeps axis %d, but the tensor has %d dimensions", i, bl_onnx_rank(x));
        dim[i] = x->type->dim[i];
    }
    return bl_onnx_make(c, "reshape(a, shape=$0)", ARGS(ZS(n, dim)));
}

bl_onnx_value *bl_onnx_write_reshape(bl_onnx_call *c)
{
    const bl_node *dim[BL_MAX_DIMS] = {0}, *const *size = dim;
    const int64_t *ints;
    int n = c->opset < 5 ? bl_onnx_ints(c, "shape", &ints) : bl_onnx_in_sizes(c, 1, &size);

    for (int i = 0; c->opset < 5 && i < n && i < BL_MAX_DIMS; i++)
        dim[i] = bl_index(c->import->ir, ints[i]);
    return reshape_to(c, n, size);
}

bl_onnx_value *bl_onnx_write_flatten(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int rank = bl_onnx_rank(x);
    int64_t axis = bl_onnx_int(c, "axis", 1);

    if (x == NULL || axis < -rank || axis > rank)
        return bl_onnx_fail(c, "axis %lld is out of range for a tensor of %d dimensions", (long long)axis, rank);
    axis += axis < 0 ? rank : 0;
    const bl_node *dim[2] = {bl_shape_count(c->import->ir, (int)axis, x->type->dim),
                             bl_shape_count(c->import->ir, rank - (int)axis, x->type->dim + axis)};
    return bl_onnx_make(c, "reshape(a, shape=$0)", ARGS(ZS(2, dim)));
}

bl_onnx_value *bl_onnx_write_concat(bl_onnx_call *c)
{
    int axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", c->opset < 4 ? 1 : 0), bl_onnx_rank(bl_onnx_in(c, 0)));

    return c->nin == 1 ? c->in[0] : bl_onnx_make(c, "cat($0..., axis=$1)", ARGS(VS(c->nin, c->in), I(axis)));
}

/* The axes from the second input or an attribute, in ascending order; -1 if there are none. */
static int ops_shape_take_axes(bl_onnx_call *c, int rank, int64_t *out)
{
    const int64_t *given;
    int n = bl_onnx_ints_or_in(c, "axes", 1, &given), count = 0;
    uint32_t mask = 0;

    for (int i = 0; i < n; i++) {
        uint32_t bit = 1u << bl_onnx_axis(c, given[i], rank);
        if (mask & bit)
            bl_onnx_fail(c, "axis %lld is given twice", (long long)given[i]);
        mask |= bit;
    }
    for (int d = 0; d < rank; d++) {
        if (mask >> d & 1u)
            out[count++] = d;
    }
    return n < 0 ? -1 : count;
}

bl_onnx_value *bl_onnx_write_squeeze(bl_onnx_call *c)
{
    int64_t axes[BL_MAX_DIMS];
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int n = ops_shape_take_axes(c, bl_onnx_rank(x), axes);

    for (int i = 0; i < n && !c->import->failed; i++) {
        if (!bl_is_int(x->type->dim[axes[i]], 1))
            return bl_onnx_fail(c, "axis %lld is not of extent 1", (long long)axes[i]);
    }
    return n < 0 ? bl_onnx_make(c, "squeeze(a)", NULL) : bl_onnx_make(c, "squeeze(a, axis=$0)", ARGS(IS(n, axes)));
}

bl_onnx_value *bl_onnx_write_unsqueeze(bl_onnx_call *c)
{
    const int64_t *given;
    int64_t axes[BL_MAX_DIMS];
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int n = bl_onnx_ints_or_in(c, "axes", 1, &given);

    if (n < 0 || n > BL_MAX_DIMS - bl_onnx_rank(x))
        return bl_onnx_fail(c, "needs axes, and at most %d dimensions in the end", BL_MAX_DIMS);
    n = ops_shape_take_axes(c, bl_onnx_rank(x) + n, axes);
    for (int i = 0; i < n; i++)
        x = bl_onnx_make(c, "unsqueeze($0, axis=$1)", ARGS(V(x), I(axes[i])));
    return x;
}

bl_onnx_value *bl_onnx_write_transpose(bl_onnx_call *c)
{
    const int64_t *perm;
    int64_t turned[BL_MAX_DIMS];
    int rank = bl_onnx_rank(bl_onnx_in(c, 0)), n = bl_onnx_ints(c, "perm", &perm);

    for (int i = 0; i < rank; i++)
        turned[i] = rank - 1 - i;
    return bl_onnx_make(c, "permute(a, axes=$0)", ARGS(IS(n < 0 ? rank : n, n < 0 ? turned : perm)));
}

/* Broadcasts |x| and the wanted shape to their common shape. */
static bl_onnx_value *expand_to(bl_onnx_call *c, bl_onnx_value *x, int n, const bl_node *const *want)
{
    const bl_node *dim[BL_MAX_DIMS];
    int rank = bl_onnx_rank(x), most = n > rank ? n : rank;

    if (x == NULL || n < 0 || most > BL_MAX_DIMS)
        return n > BL_MAX_DIMS ? bl_onnx_fail_as(c, BL_ELIMIT, "%d dimensions", n) : bl_onnx_fail(c, "needs a shape");
    for (int i = 0; i < most; i++) {
        const bl_node *own = i < most - rank ? NULL : x->type->dim[i - (most - rank)];
        const bl_node *other = i < most - n ? NULL : want[i - (most - n)];
        dim[i] = own == NULL || (bl_is_int(own, 1) && other != NULL) ? other : own;
        if (own != NULL && other != NULL && other->hi != 1 && !bl_is_int(own, 1) && own != other)
            return bl_onnx_fail(c, "%s cannot become %s", bl_shape_text(c->import->ir, rank, x->type->dim, NULL),
                                bl_shape_text(c->import->ir, n, want, NULL));
    }
    return bl_onnx_make(c, "expand($0, shape=$1)", ARGS(V(x), ZS(most, dim)));
}

bl_onnx_value *bl_onnx_write_expand(bl_onnx_call *c)
{
    const bl_node *const *size;
    int n = bl_onnx_in_sizes(c, 1, &size);

    return expand_to(c, bl_onnx_in(c, 0), n, size);
}

bl_onnx_value *bl_onnx_write_tile(bl_onnx_call *c)
{
    const bl_node *const *size;
    int n = bl_onnx_in_sizes(c, 1, &size), rank = bl_onnx_rank(bl_onnx_in(c, 0));

    if (n != rank)
        return bl_onnx_fail(c, "has %d repeats; it must have one for each of %d dimensions", n, rank);
    return bl_onnx_make(c, "repeat(a, repeats=$0)", ARGS(ZS(n, size)));
}

bl_onnx_value *bl_onnx_write_constant_of_shape(bl_onnx_call *c)
{
    const Onnx__AttributeProto *a = bl_onnx_attr(c, "value");
    const bl_node *const *size;
    bl_onnx_value *value =
        a != NULL && a->t != NULL ? bl_onnx_known_tensor(c->import, a->t) : bl_onnx_known_real(c->import, BL_F32, 0);
    int n = bl_onnx_in_sizes(c, 0, &size);

    if (n < 0 || n > BL_MAX_DIMS)
        return bl_onnx_fail(c, "needs a shape of at most %d dimensions", BL_MAX_DIMS);
    value = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(value), IS(0, NULL)));
    return bl_onnx_make(c, "expand($0, shape=$1)", ARGS(V(value), ZS(n, size)));
}

bl_onnx_value *bl_onnx_write_split(bl_onnx_call *c)
{
    const int64_t *given;
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(x)), n = bl_onnx_ints_or_in(c, "split", 1, &given);
    int64_t *sizes = bl_arena_array(c->import->scratch, (size_t)c->nout, sizeof *sizes);

    if (sizes == NULL || x == NULL || c->import->failed || c->nout < 1)
        return bl_onnx_fail(c, "needs an input and outputs");
    if (n >= 0 && n != c->nout)
        return bl_onnx_fail(c, "%d sizes for %d outputs", n, c->nout);
    if (n < 0 && !bl_is_const(x->type->dim[axis]))
        return bl_onnx_fail(c, "equal parts of a dimension without a fixed size");
    int64_t extent = x->type->dim[axis]->hi, part = (extent + c->nout - 1) / c->nout;
    for (int i = 0; i < c->nout; i++) {
        sizes[i] = n >= 0 ? given[i] : part < extent ? part : extent;
        if (sizes[i] < 0 || sizes[i] > extent)
            return bl_onnx_fail(c, "part %d has the size %lld of the %lld that are left", i, (long long)sizes[i],
                                (long long)extent);
        extent -= sizes[i];
    }
    if (c->nout == 1 && bl_is_int(x->type->dim[axis], sizes[0]))
        return x;
    return bl_onnx_make_many(c, "split(a, sizes=$0, axis=$1)", ARGS(IS(c->nout, sizes), I(axis)), c->nout, c->out) ? c->out[0]
                                                                                                                   : NULL;
}

/* ---- slices */

/* A bound of a slice over a dimension without a fixed size; the wire clips only known sizes. */
static const bl_node *ops_shape_clip(bl_ir *ir, const bl_node *at, const bl_node *extent, bool backwards)
{
    if (bl_is_const(at) && bl_const_value(at).i > FAR)
        at = backwards ? bl_sub(ir, extent, bl_index(ir, 1)) : extent;
    if (bl_is_const(at) && bl_const_value(at).i < -FAR)
        at = backwards ? bl_index(ir, -1) : bl_index(ir, 0);
    else if (at->hi < 0)
        at = bl_add(ir, extent, at);
    return at->lo >= extent->hi && !backwards ? extent : at;
}

bl_onnx_value *bl_onnx_write_slice(bl_onnx_call *c)
{
    const bl_node *const *start = NULL, *const *stop = NULL;
    const bl_node *from[BL_MAX_DIMS], *to[BL_MAX_DIMS], *own[2][BL_MAX_DIMS];
    const int64_t *axes = NULL, *steps = NULL, *ints[2];
    int64_t axis[BL_MAX_DIMS], step[BL_MAX_DIMS];
    bl_onnx_value *x = bl_onnx_in(c, 0);
    bl_ir *ir = c->import->ir;
    bool attrs = c->opset < 10;
    int n = attrs ? bl_onnx_ints(c, "starts", &ints[0]) : bl_onnx_in_sizes(c, 1, &start);
    int m = attrs ? bl_onnx_ints(c, "ends", &ints[1]) : bl_onnx_in_sizes(c, 2, &stop);
    int naxes = attrs ? bl_onnx_ints(c, "axes", &axes) : bl_onnx_in_ints(c, 3, &axes);
    int nsteps = attrs ? -1 : bl_onnx_in_ints(c, 4, &steps);

    if (n < 0 || n != m || n > BL_MAX_DIMS || (naxes >= 0 && naxes != n) || (nsteps >= 0 && nsteps != n) || x == NULL)
        return bl_onnx_fail(c, "starts, ends, axes and steps must have the same number of items");
    for (int i = 0; i < n; i++) {
        axis[i] = bl_onnx_axis(c, axes != NULL ? axes[i] : i, bl_onnx_rank(x));
        if (c->import->failed)
            return NULL;
        step[i] = steps != NULL ? steps[i] : 1;
        if (attrs) {
            own[0][i] = bl_index(ir, ints[0][i]);
            own[1][i] = bl_index(ir, ints[1][i]);
        }
        const bl_node *extent = x->type->dim[axis[i]];
        from[i] = attrs ? own[0][i] : start[i];
        to[i] = attrs ? own[1][i] : stop[i];
        if (!bl_is_const(extent) || !bl_is_const(from[i]) || !bl_is_const(to[i])) {
            from[i] = ops_shape_clip(ir, from[i], extent, step[i] < 0);
            to[i] = ops_shape_clip(ir, to[i], extent, step[i] < 0);
        }
    }
    return c->import->failed ? NULL
                             : bl_onnx_make(c, "slice(a, start=$0, stop=$1, step=$2, axis=$3)",
                                            ARGS(ZS(n, from), ZS(n, to), IS(n, step), IS(n, axis)));
}

/* ---- padding */

/* For a pad value that is not known at import: padding a tensor of ones shows which elements were padded. */
static bl_onnx_value *pad_with_value(bl_onnx_call *c, int n, const bl_node *const *pads, bl_onnx_value *value)
{
    return bl_onnx_make(c, "where(pad(ones_like(a, dtype=bool), padding=$0), pad(a, padding=$0), $1)",
                        ARGS(ZS(n, pads), V(value)));
}

/* The pads: before each axis, then after each; -1 after a failure. */
static int take_pads(bl_onnx_call *c, const bl_node *const **out)
{
    const int64_t *given;
    const bl_node **size;
    int n;

    if (c->opset >= 11)
        return bl_onnx_in_sizes(c, 1, out);
    n = bl_onnx_ints(c, c->opset < 2 ? "paddings" : "pads", &given);
    *out = size = bl_arena_array(c->import->scratch, n < 0 ? 1 : (size_t)n, sizeof *size);
    for (int i = 0; i < n && size != NULL; i++)
        size[i] = bl_index(c->import->ir, given[i]);
    return size != NULL ? n : -1;
}

bl_onnx_value *bl_onnx_write_pad(bl_onnx_call *c)
{
    static const char *const modes[][2] = {
        {"constant", "constant"}, {"edge", "replicate"}, {"reflect", "reflect"}, {"wrap", "circular"}};
    const bl_node *const *given;
    const bl_node *pads[2 * BL_MAX_DIMS];
    const int64_t *axes = NULL;
    const char *mode = bl_onnx_text(c, "mode", "constant"), *wire = NULL;
    bl_onnx_value *x = bl_onnx_in(c, 0), *value = c->opset < 11 ? NULL : bl_onnx_in(c, 2);
    int rank = bl_onnx_rank(x), n = take_pads(c, &given);
    int naxes = bl_onnx_in_ints(c, 3, &axes), each = axes != NULL ? naxes : rank;
    double number = c->opset < 11 ? bl_onnx_float(c, "value", 0) : 0;

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        wire = strcmp(mode, modes[i][0]) == 0 ? modes[i][1] : wire;
    if (wire == NULL || n != 2 * each)
        return bl_onnx_fail(c, "needs two numbers for each axis, and mode constant, edge, reflect or wrap");
    for (int i = 0; i < 2 * rank; i++)
        pads[i] = bl_index(c->import->ir, 0);
    for (int i = 0; i < each && !c->import->failed; i++) {
        int axis = axes != NULL ? bl_onnx_axis(c, axes[i], rank) : i;
        pads[2 * axis] = given[i];
        pads[2 * axis + 1] = given[each + i];
    }
    if (*wire == 'c' && wire[1] == 'o' && value != NULL) {
        const bl_onnx_known *known = bl_onnx_know(c->import, value);
        if (known == NULL || known->count != 1)
            return pad_with_value(c, 2 * rank, pads, value);
        number = known->real != NULL ? known->real[0] : (double)known->size[0]->lo;
    }
    return bl_onnx_make(c, "pad(a, padding=$0, value=$1, mode=$2)", ARGS(ZS(2 * rank, pads), R(number), T(wire)));
}

bl_onnx_value *bl_onnx_write_center_crop_pad(bl_onnx_call *c)
{
    const int64_t *want, *axes;
    int64_t pads[2 * BL_MAX_DIMS] = {0};
    bl_onnx_value *x = bl_onnx_in(c, 0);
    int rank = bl_onnx_rank(x), naxes = bl_onnx_ints(c, "axes", &axes), n = bl_onnx_in_ints(c, 1, &want);

    if (x == NULL || n != (naxes >= 0 ? naxes : rank))
        return bl_onnx_fail(c, "needs data, and a size for each axis");
    for (int i = 0; i < n; i++) {
        int axis = naxes >= 0 ? bl_onnx_axis(c, axes[i], rank) : i;
        if (c->import->failed)
            return NULL;
        if (!bl_is_const(x->type->dim[axis]))
            return bl_onnx_fail(c, "axis %d has no fixed size", axis);
        int64_t more = want[i] - x->type->dim[axis]->hi, less = -more;
        pads[2 * axis] = more >= 0 ? more / 2 : -(less / 2);
        pads[2 * axis + 1] = more - pads[2 * axis];
    }
    return bl_onnx_make(c, "pad(a, padding=$0)", ARGS(IS(2 * rank, pads)));
}

/* ---- rearrangement of blocks of pixels */

/* Reshapes the tensor, permutes its axes, and reshapes it again. */
static bl_onnx_value *rearrange(bl_onnx_call *c, int n, const bl_node *const *dim, const int64_t *perm, const bl_node *const *out)
{
    return bl_onnx_make(c, "reshape(permute(reshape(a, shape=$0), axes=$1), shape=$2)",
                        ARGS(ZS(n, dim), IS(n, perm), ZS(4, out)));
}

static bool take_block(bl_onnx_call *c, const bl_node **block)
{
    int64_t size = bl_onnx_int(c, "blocksize", 0);

    if (bl_onnx_rank(bl_onnx_in(c, 0)) != 4 || size < 1 || size > 1 << 20)
        return bl_onnx_fail(c, "needs a tensor of 4 dimensions and a blocksize") != NULL;
    *block = bl_index(c->import->ir, size);
    return true;
}

bl_onnx_value *bl_onnx_write_depth_to_space(bl_onnx_call *c)
{
    static const int64_t depth_first[6] = {0, 3, 4, 1, 5, 2}, column_first[6] = {0, 1, 4, 2, 5, 3};
    bl_ir *ir = c->import->ir;
    const bl_node *b = NULL;
    bool crd = strcmp(bl_onnx_text(c, "mode", "DCR"), "CRD") == 0;

    if (!take_block(c, &b))
        return NULL;
    const bl_node *const *x = c->in[0]->type->dim;
    const bl_node *depth = bl_idiv(ir, x[1], bl_mul(ir, b, b));
    const bl_node *dcr[6] = {x[0], b, b, depth, x[2], x[3]}, *by_column[6] = {x[0], depth, b, b, x[2], x[3]};
    const bl_node *out[4] = {x[0], depth, bl_mul(ir, x[2], b), bl_mul(ir, x[3], b)};
    return rearrange(c, 6, crd ? by_column : dcr, crd ? column_first : depth_first, out);
}

bl_onnx_value *bl_onnx_write_space_to_depth(bl_onnx_call *c)
{
    static const int64_t perm[6] = {0, 3, 5, 1, 2, 4}, crd[6] = {0, 1, 3, 5, 2, 4};
    bool column = strcmp(bl_onnx_text(c, "mode", "DCR"), "CRD") == 0;
    bl_ir *ir = c->import->ir;
    const bl_node *b = NULL;

    if (!take_block(c, &b))
        return NULL;
    const bl_node *const *x = c->in[0]->type->dim;
    const bl_node *high = bl_idiv(ir, x[2], b), *wide = bl_idiv(ir, x[3], b);
    const bl_node *dim[6] = {x[0], x[1], high, b, wide, b}, *out[4] = {x[0], bl_mul(ir, x[1], bl_mul(ir, b, b)), high, wide};
    return rearrange(c, 6, dim, column ? crd : perm, out);
}

/* ---- ranges and diagonals */

/* A range of floats that contain named dimensions. */
static bl_onnx_value *range_of_fractions(bl_onnx_call *c)
{
    bl_ir *ir = c->import->ir;
    const bl_node *num[3] = {NULL};
    int64_t den[3] = {1, 1, 1};

    for (int i = 0; i < 3; i++) {
        if (bl_onnx_in(c, i) != NULL && bl_onnx_know(c->import, c->in[i]) == NULL)
            return bl_onnx_fail_unknown(c, i, "");
        if (!bl_onnx_in_fraction(c, i, &num[i], &den[i]))
            return bl_onnx_fail(c, "input %d must be one number, known when the model is imported", i);
    }
    if (!bl_is_const(num[2]) || num[2]->lo <= 0)
        return bl_onnx_fail(c, "a range between named dimensions needs a step that is a number above 0");
    /* (stop - start) / step, rounded up */
    const bl_node *difference = bl_sub(ir, bl_mul(ir, num[1], bl_index(ir, den[0])), bl_mul(ir, num[0], bl_index(ir, den[1])));
    const bl_node *over = bl_mul(ir, difference, bl_index(ir, den[2])), *by = bl_index(ir, den[0] * den[1] * num[2]->lo);
    const bl_node *count = bl_idiv(ir, bl_add(ir, over, bl_sub(ir, by, bl_index(ir, 1))), by);
    return bl_onnx_make(c, "add(mul(cast(arange(stop=$0), dtype=$1), reshape(c, shape=$2)), reshape(a, shape=$2))",
                        ARGS(ZS(-1, &count), D(bl_onnx_type(c->in[0])), IS(0, NULL)));
}

bl_onnx_value *bl_onnx_write_range(bl_onnx_call *c)
{
    const bl_onnx_known *known[3];
    const bl_node *const *stop, *const *start;
    const int64_t *whole;
    bl_dtype dtype = bl_onnx_type(bl_onnx_in(c, 0));

    if (!bl_dtype_is_float(dtype)) {
        if (bl_onnx_in_sizes(c, 0, &start) != 1 || bl_onnx_in_sizes(c, 1, &stop) != 1 || bl_onnx_in_ints(c, 2, &whole) != 1)
            return bl_onnx_fail(c, "needs three numbers");
        return bl_onnx_make(c, "arange(start=$0, stop=$1, step=$2, dtype=$3)",
                            ARGS(ZS(-1, start), ZS(-1, stop), I(*whole), D(dtype)));
    }
    for (int i = 0; i < 3; i++) {
        known[i] = bl_onnx_know(c->import, bl_onnx_in(c, i));
        if (known[i] == NULL || known[i]->count != 1 || known[i]->real == NULL)
            return range_of_fractions(c);
    }
    return bl_onnx_make(c, "arange(start=$0, stop=$1, step=$2, dtype=$3)",
                        ARGS(R(known[0]->real[0]), R(known[1]->real[0]), R(known[2]->real[0]), D(dtype)));
}

bl_onnx_value *bl_onnx_write_eye_like(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);
    bl_dtype dtype = bl_onnx_attr(c, "dtype") != NULL ? bl_onnx_dtype((int)bl_onnx_int(c, "dtype", 0)) : bl_onnx_type(x);

    if (bl_onnx_rank(x) != 2 || dtype == BL_DTYPE_COUNT)
        return bl_onnx_fail(c, "needs a matrix");
    return bl_onnx_make(c, "cast(equal(unsqueeze(add(arange(stop=$0), $1), axis=1), arange(stop=$2)), dtype=$3)",
                        ARGS(ZS(-1, &x->type->dim[0]), I(bl_onnx_int(c, "k", 0)), ZS(-1, &x->type->dim[1]), D(dtype)));
}

bl_onnx_value *bl_onnx_write_trilu(bl_onnx_call *c)
{
    const int64_t *k;
    int n = bl_onnx_in_ints(c, 1, &k);

    return bl_onnx_make(c, bl_onnx_int(c, "upper", 1) != 0 ? "triu(a, diagonal=$0)" : "tril(a, diagonal=$0)",
                        ARGS(I(n == 1 ? *k : 0)));
}
