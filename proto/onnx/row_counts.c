/* SPDX-License-Identifier: MIT */
/* Axes with a data-dependent length.  A tensor has one length in a program, so such an axis has the largest possible length,
 * and a count has the number of valid elements.  The count follows the value through operators that treat each row
 * independently, up to an output; the server cuts off the output there.  Every other operator is refused, since it would read
 * the invalid part. */
#include "proto/onnx/import.h"

#include <stdio.h>
#include <string.h>

bl_onnx_value *bl_onnx_count(bl_onnx_value *value, bl_onnx_value *count, int axis)
{
    if (value != NULL) {
        value->count = count;
        value->counted = axis;
    }
    return value;
}

/* Follows the counted axis of an input through an operator: returns the axis of the results, or -1 if the operator does not
 * support a count on this axis. */
typedef int follow(bl_onnx_call *c, int input, int axis);

/* Operands are aligned at their last axes. */
static int follow_broadcast(bl_onnx_call *c, int input, int axis)
{
    int rank = 0;

    for (int i = 0; i < c->nin; i++)
        rank = bl_onnx_rank(c->in[i]) > rank ? bl_onnx_rank(c->in[i]) : rank;
    return axis + rank - bl_onnx_rank(c->in[input]);
}

/* Operators that treat each image, or row of a batch, independently. */
static int follow_batch(bl_onnx_call *c, int input, int axis)
{
    (void)c;
    return input == 0 && axis == 0 ? 0 : -1;
}

/* The inputs are the boxes and their image numbers. */
static int follow_boxes(bl_onnx_call *c, int input, int axis)
{
    (void)c;
    return input > 0 && axis == 0 ? 0 : -1;
}

/* Any axis but the attribute "axis", by default the last axis. */
static int follow_other_axes(bl_onnx_call *c, int input, int axis)
{
    int rank = bl_onnx_rank(c->in[input]);

    return bl_onnx_axis(c, bl_onnx_int(c, "axis", -1), rank) != axis ? axis : -1;
}

static int follow_gather(bl_onnx_call *c, int input, int axis)
{
    int at = bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(c->in[0]));

    if (input == 1)
        return at + axis;
    return at == axis ? -1 : axis < at ? axis : axis + bl_onnx_rank(bl_onnx_in(c, 1)) - 1;
}

/* Index tuples fill the last axis. */
static int follow_gather_nd(bl_onnx_call *c, int input, int axis)
{
    return input == 1 && axis < bl_onnx_rank(c->in[1]) - 1 ? axis : -1;
}

static int follow_matmul(bl_onnx_call *c, int input, int axis)
{
    return input == 0 && axis < bl_onnx_rank(c->in[0]) - 1 && bl_onnx_rank(c->in[0]) >= bl_onnx_rank(bl_onnx_in(c, 1)) ? axis
                                                                                                                       : -1;
}

static int follow_gemm(bl_onnx_call *c, int input, int axis)
{
    return input == 0 && axis == 0 && bl_onnx_int(c, "transA", 0) == 0 ? 0 : -1;
}

static int follow_transpose(bl_onnx_call *c, int input, int axis)
{
    const int64_t *perm;
    int rank = bl_onnx_rank(c->in[input]), n = bl_onnx_ints(c, "perm", &perm);

    for (int i = 0; i < n; i++) {
        if (perm[i] == axis)
            return i;
    }
    return n < 0 ? rank - 1 - axis : -1;
}

/* The axes of an attribute or of input |from|, as a bit mask; |*known|: they are known. */
static uint32_t mask_axes(bl_onnx_call *c, int from, int rank, bool *known)
{
    const int64_t *axes;
    int n = bl_onnx_ints(c, "axes", &axes);
    uint32_t mask = 0;

    if (n < 0 && bl_onnx_in(c, from) != NULL)
        n = bl_onnx_know(c->import, c->in[from]) != NULL ? bl_onnx_in_ints(c, from, &axes) : -1;
    *known = n >= 0;
    for (int i = 0; i < n; i++)
        mask |= 1u << bl_onnx_axis(c, axes[i], rank);
    return mask;
}

static int follow_unsqueeze(bl_onnx_call *c, int input, int axis)
{
    int rank = bl_onnx_rank(c->in[0]);
    const int64_t *axes = NULL;
    int n = bl_onnx_ints_or_in(c, "axes", 1, &axes);
    bool known;
    uint32_t added = n >= 0 && rank + n <= BL_MAX_DIMS ? mask_axes(c, 1, rank + n, &known) : 0;

    for (int i = 0, at = 0; input == 0 && i < rank + n; i++) {
        if ((added >> i & 1) == 0 && at++ == axis)
            return i;
    }
    return -1;
}

static int follow_squeeze(bl_onnx_call *c, int input, int axis)
{
    const bl_node *type = c->in[0]->type;
    bool known;
    uint32_t dropped = mask_axes(c, 1, type->ndim, &known);
    int at = 0;

    for (int i = 0; i < axis; i++)
        at += !(known ? dropped >> i & 1 : bl_is_int(type->dim[i], 1));
    return input == 0 && (dropped >> axis & 1) == 0 ? at : -1;
}

/* Reductions over other axes. */
static int follow_reduce(bl_onnx_call *c, int input, int axis)
{
    bool known, keeps = bl_onnx_int(c, "keepdims", 1) != 0;
    uint32_t folded = mask_axes(c, 1, bl_onnx_rank(c->in[0]), &known);
    int at = axis;

    for (int i = 0; i < axis && !keeps; i++)
        at -= (int)(folded >> i & 1);
    return input == 0 && known && (folded >> axis & 1) == 0 ? at : -1;
}

static int follow_arg(bl_onnx_call *c, int input, int axis)
{
    int at = bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(c->in[input]));

    return at == axis ? -1 : axis > at && bl_onnx_int(c, "keepdims", 1) == 0 ? axis - 1 : axis;
}

/* Slices of other axes. */
static int follow_slice(bl_onnx_call *c, int input, int axis)
{
    bool known;
    uint32_t sliced;

    if (c->opset < 10)
        sliced = mask_axes(c, 8, bl_onnx_rank(c->in[0]), &known);
    else
        sliced = mask_axes(c, 3, bl_onnx_rank(c->in[0]), &known);
    return input == 0 && known && (sliced >> axis & 1) == 0 ? axis : -1;
}

static int follow_split(bl_onnx_call *c, int input, int axis)
{
    return input == 0 && bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(c->in[0])) != axis ? axis : -1;
}

/* Only axes of extent 1 may precede the axis, in the input and in the result; bl_onnx_keep_counted checks the result. */
static int follow_reshape(bl_onnx_call *c, int input, int axis)
{
    const bl_node *type = c->in[0]->type;

    for (int i = 0; i < axis; i++) {
        if (!bl_is_int(type->dim[i], 1))
            return -1;
    }
    return input == 0 ? BL_MAX_DIMS : -1;
}

static const struct {
    const char *operators; /* separated by spaces */
    follow *follow;
} followers[] = {
    {" Abs Add And Cast Ceil Clip Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity "
     "IsInf "
     "IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin "
     "Softplus Softsign Sqrt Sub Sum Tanh Where Xor ",
     follow_broadcast},
    {" AveragePool BatchNormalization Conv ConvTranspose Dropout Flatten GlobalAveragePool GlobalMaxPool MaxPool ", follow_batch},
    {" ArgMax ArgMin ", follow_arg},
    {" Concat LayerNormalization LogSoftmax Softmax ", follow_other_axes},
    {" Gather ", follow_gather},
    {" GatherND ", follow_gather_nd},
    {" Gemm ", follow_gemm},
    {" MatMul ", follow_matmul},
    {" ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceL2 ", follow_reduce},
    {" Reshape ", follow_reshape},
    {" RoiAlign ", follow_boxes},
    {" Slice ", follow_slice},
    {" Split ", follow_split},
    {" Squeeze ", follow_squeeze},
    {" Transpose ", follow_transpose},
    {" Unsqueeze ", follow_unsqueeze},
};

static follow *find_follower(const bl_onnx_call *c)
{
    char word[64];
    int len = snprintf(word, sizeof word, " %s ", c->node->op_type);
    bool own = c->node->domain == NULL || *c->node->domain == '\0' || strcmp(c->node->domain, "ai.onnx") == 0;

    for (size_t i = 0; own && len < (int)sizeof word && i < sizeof followers / sizeof followers[0]; i++) {
        if (strstr(followers[i].operators, word) != NULL)
            return followers[i].follow;
    }
    return NULL;
}

bool bl_onnx_may_take_counted(bl_onnx_call *c)
{
    follow *f = find_follower(c);
    const bl_onnx_value *count = NULL;
    int to = -1;

    for (int i = 0; i < c->nin && !c->import->failed; i++) {
        const bl_onnx_value *value = c->in[i];
        if (value == NULL || value->count == NULL)
            continue;
        int axis = f != NULL ? f(c, i, value->counted) : -1;
        if (axis < 0 || (count != NULL && (count != value->count || axis != to)))
            return bl_onnx_fail(c,
                                "the length of axis %d of input %d depends on the data (at most %s), and this operator needs the "
                                "length; make the input an output of the model and compute the rest outside",
                                value->counted, i,
                                bl_shape_text(c->import->ir, 1, &value->type->dim[value->counted], NULL)) != NULL;
        count = value->count;
        to = axis;
    }
    return !c->import->failed;
}

/* The axis of |type| with |extent| after axes of extent 1 only. */
static int first_axis(const bl_node *type, const bl_node *extent)
{
    for (int i = 0; i < type->ndim; i++) {
        if (type->dim[i] == extent)
            return i;
        if (!bl_is_int(type->dim[i], 1))
            break;
    }
    return -1;
}

void bl_onnx_keep_counted(bl_onnx_call *c)
{
    for (int i = 0; i < c->nin && !c->import->failed; i++) {
        bl_onnx_value *value = c->in[i];
        if (value == NULL || value->count == NULL)
            continue;
        int to = find_follower(c)(c, i, value->counted);
        const bl_node *extent = value->type->dim[value->counted];
        for (int k = 0; k < c->nout && !c->import->failed; k++) {
            if (c->out[k] == NULL || c->out[k]->type == NULL || c->out[k]->count != NULL)
                continue;
            int axis = to == BL_MAX_DIMS ? first_axis(c->out[k]->type, extent) : to;
            if (axis < 0 || axis >= bl_onnx_rank(c->out[k]) || c->out[k]->type->dim[axis] != extent) {
                bl_onnx_fail(c, "the length of axis %d of input %d depends on the data, and this operator splits the axis",
                             value->counted, i);
                return;
            }
            bl_onnx_count(c->out[k], value->count, axis);
        }
        return;
    }
}
