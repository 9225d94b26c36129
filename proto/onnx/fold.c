/* SPDX-License-Identifier: MIT */
/* Nodes computed at import, when all they need is known: the arithmetic on shapes that exporters write, with named dimensions
 * in it, and small constants.  What is not decided for every size of a dimension is not computed here. */
#include "engine/base/size.h"
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = 4096 }; /* of an operand: larger constants are weights, and the device is better at those */

typedef struct folder {
    bl_onnx_call *c;
    bl_ir *ir;
    const bl_onnx_known *in[8];
    int n;
} folder;

/* ---- numbers */

/* |item| number |i| as a double, where it is one number. */
static bool as_real(const bl_onnx_known *known, int i, double *out)
{
    if (known->real != NULL)
        *out = known->real[i];
    else if (bl_is_const(known->size[i]))
        *out = (double)bl_const_value(known->size[i]).i;
    else
        return false;
    return true;
}

static bool as_int(const bl_onnx_known *known, int i, int64_t *out)
{
    if (known->size == NULL || !bl_is_const(known->size[i]))
        return false;
    *out = bl_const_value(known->size[i]).i;
    return true;
}

static void put_real(bl_onnx_known *known, int i, double value)
{
    known->real[i] = bl_scalar_fit(known->dtype, (bl_scalar){.f = value}).f;
}

typedef enum binary_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_MIN,
    OP_MAX,
    OP_EQUAL,
    OP_LESS,
    OP_AND,
    OP_OR,
    OP_XOR
} binary_op;

static double real_binary(binary_op op, double x, double y)
{
    switch (op) {
    case OP_ADD:
        return x + y;
    case OP_SUB:
        return x - y;
    case OP_MUL:
        return x * y;
    case OP_DIV:
        return x / y;
    case OP_MIN:
        return x < y || isnan(x) ? x : y;
    case OP_MAX:
        return x > y || isnan(x) ? x : y;
    case OP_EQUAL:
        return x == y;
    case OP_LESS:
        return x < y;
    case OP_MOD:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
        break;
    }
    return NAN;
}

/* One of two sizes, or bool as a size; NULL where it is not decided. */
static const bl_node *choose(bool yes, bool no, const bl_node *if_yes, const bl_node *if_no)
{
    return yes ? if_yes : no ? if_no : NULL;
}

/* Division truncates in ONNX: without signs that is what floor division does. */
static const bl_node *divide(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    if (bl_is_const(x) && bl_is_const(y)) {
        int64_t a = bl_const_value(x).i, b = bl_const_value(y).i;
        return b == 0 ? NULL : bl_index(ir, b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b);
    }
    return x->lo >= 0 && y->lo > 0 ? bl_idiv(ir, x, y) : NULL;
}

/* Sums and products that stay far from what an int64 holds, whatever the sizes. */
static bool is_moderate(binary_op op, const bl_node *x, const bl_node *y)
{
    int64_t bound = op == OP_MUL ? INT64_C(1) << 30 : INT64_C(1) << 60, out = 0;

    if (bl_is_const(x) && bl_is_const(y))
        return op == OP_MUL ? bl_i64_mul(x->lo, y->lo, &out) : x->lo > -bound && x->lo < bound && y->lo > -bound && y->lo < bound;
    return x->lo > -bound && x->hi < bound && y->lo > -bound && y->hi < bound;
}

static const bl_node *size_binary(bl_ir *ir, binary_op op, const bl_node *x, const bl_node *y)
{
    const bl_node *yes = bl_index(ir, 1), *no = bl_index(ir, 0);
    bool truths = bl_is_const(x) && bl_is_const(y);
    bool a = truths && !bl_is_int(x, 0), b = truths && !bl_is_int(y, 0);

    if ((op == OP_ADD || op == OP_SUB || op == OP_MUL) && !is_moderate(op, x, y))
        return NULL;
    switch (op) {
    case OP_ADD:
        return bl_add(ir, x, y);
    case OP_SUB:
        return bl_sub(ir, x, y);
    case OP_MUL:
        return bl_mul(ir, x, y);
    case OP_DIV:
        return divide(ir, x, y);
    case OP_MOD:
        return y->lo > 0 || (bl_is_const(y) && !bl_is_int(y, 0) && bl_is_const(x)) ? bl_mod(ir, x, y) : NULL;
    case OP_MIN:
        return choose(x->hi <= y->lo, y->hi <= x->lo, x, y);
    case OP_MAX:
        return choose(x->lo >= y->hi, y->lo >= x->hi, x, y);
    case OP_EQUAL:
        return choose(x == y, x->hi < y->lo || y->hi < x->lo, yes, no);
    case OP_LESS:
        return choose(x->hi < y->lo, x->lo >= y->hi, yes, no);
    case OP_AND:
        return !truths ? NULL : a && b ? yes : no;
    case OP_OR:
        return !truths ? NULL : a || b ? yes : no;
    case OP_XOR:
        return !truths ? NULL : a != b ? yes : no;
    }
    return NULL;
}

/* ---- broadcasting */

static bool broadcast_shape(const bl_onnx_known *const *in, int n, int *ndim, int64_t *dim)
{
    *ndim = 0;
    for (int i = 0; i < n; i++)
        *ndim = in[i]->ndim > *ndim ? in[i]->ndim : *ndim;
    for (int d = 0; d < *ndim; d++) {
        dim[d] = 1;
        for (int i = 0; i < n; i++) {
            int own = d - *ndim + in[i]->ndim;
            int64_t extent = own < 0 ? 1 : in[i]->dim[own];
            if (extent != 1 && dim[d] != 1 && extent != dim[d])
                return false;
            dim[d] = extent != 1 ? extent : dim[d];
        }
    }
    return true;
}

/* The element of |from| that stands at element |at| of |shape|. */
static int place_of(const bl_onnx_known *shape, int at, const bl_onnx_known *from)
{
    int64_t place = 0, stride = 1;

    for (int d = shape->ndim - 1, own = from->ndim - 1; own >= 0; d--, own--) {
        int64_t i = at % shape->dim[d];
        at = (int)(at / shape->dim[d]);
        place += from->dim[own] == 1 ? 0 : i * stride;
        stride *= from->dim[own];
    }
    return (int)place;
}

static bl_onnx_known *like_broadcast(const folder *f, int first, bl_dtype dtype)
{
    int64_t dim[BL_MAX_DIMS];
    int ndim;

    return broadcast_shape(f->in + first, f->n - first, &ndim, dim) ? bl_onnx_new_known(f->c->import, dtype, ndim, dim) : NULL;
}

static bl_onnx_known *fold_binary(const folder *f, binary_op op)
{
    bool compares = op == OP_EQUAL || op == OP_LESS;
    bl_onnx_known *out = like_broadcast(f, 0, compares ? BL_BOOL : f->in[0]->dtype);

    for (int i = 0; out != NULL && i < out->count; i++) {
        int a = place_of(out, i, f->in[0]), b = place_of(out, i, f->in[1]);
        if (f->in[0]->real != NULL && f->in[1]->real != NULL) {
            double value = real_binary(op, f->in[0]->real[a], f->in[1]->real[b]);
            if (op == OP_MOD || op == OP_AND || op == OP_OR || op == OP_XOR)
                return NULL;
            if (compares)
                out->size[i] = bl_index(f->ir, value != 0);
            else
                put_real(out, i, value);
        } else if (f->in[0]->size != NULL && f->in[1]->size != NULL) {
            out->size[i] = size_binary(f->ir, op, f->in[0]->size[a], f->in[1]->size[b]);
            if (out->size[i] == NULL)
                return NULL;
        } else {
            return NULL;
        }
    }
    return out;
}

static bl_onnx_known *fold_chain(folder *f, binary_op op)
{
    bl_onnx_known *out = NULL;
    folder pair = *f;

    for (int i = 1; i < f->n; i++) {
        pair.in[1] = f->in[i];
        pair.n = 2;
        out = fold_binary(&pair, op);
        if (out == NULL)
            return NULL;
        pair.in[0] = out;
    }
    return out;
}

static bl_onnx_known *fold_where(const folder *f)
{
    bl_onnx_known *out = like_broadcast(f, 0, f->in[1]->dtype);
    int64_t is;

    for (int i = 0; out != NULL && i < out->count; i++) {
        if (!as_int(f->in[0], place_of(out, i, f->in[0]), &is))
            return NULL;
        const bl_onnx_known *from = f->in[is ? 1 : 2];
        int at = place_of(out, i, from);
        if (out->real != NULL && from->real != NULL)
            out->real[i] = from->real[at];
        else if (out->size != NULL && from->size != NULL)
            out->size[i] = from->size[at];
        else
            return NULL;
    }
    return out;
}

/* ---- of one operand */

static bl_onnx_known *fold_cast(const folder *f, bl_dtype to)
{
    const bl_onnx_known *x = f->in[0];
    bl_onnx_known *out = to != BL_DTYPE_COUNT ? bl_onnx_new_known(f->c->import, to, x->ndim, x->dim) : NULL;

    for (int i = 0; out != NULL && i < out->count; i++) {
        bl_scalar value = {.f = 0};
        if (x->size != NULL && out->size != NULL && (!bl_is_const(x->size[i]) || bl_dtype_bytes(to) == 8)) {
            if (to == BL_BOOL && x->size[i]->lo <= 0)
                return NULL;
            out->size[i] = to == BL_BOOL ? bl_index(f->ir, 1) : x->size[i]; /* an extent fits every integer */
            continue;
        }
        if (x->size != NULL && !as_int(x, i, &value.i))
            return NULL;
        if (x->real != NULL)
            value.f = x->real[i];
        value = bl_scalar_cast(to, x->dtype, value);
        if (out->real != NULL)
            out->real[i] = value.f;
        else
            out->size[i] = bl_index(f->ir, value.i);
    }
    return out;
}

static double real_unary(const char *op, double x)
{
    switch (*op) {
    case 'N':
        return -x;
    case 'A':
        return fabs(x);
    case 'F':
        return floor(x);
    case 'C':
        return ceil(x);
    case 'R':
        return strcmp(op, "Round") == 0 ? nearbyint(x) : strcmp(op, "Relu") == 0 ? (x > 0 ? x : 0) : 1 / x;
    default:
        return sqrt(x);
    }
}

static const bl_node *size_unary(bl_ir *ir, const char *op, const bl_node *x)
{
    if (strcmp(op, "Neg") == 0)
        return size_binary(ir, OP_SUB, bl_index(ir, 0), x);
    if (strcmp(op, "Relu") == 0)
        return size_binary(ir, OP_MAX, x, bl_index(ir, 0));
    if (strcmp(op, "Not") == 0)
        return bl_is_const(x) ? bl_index(ir, bl_is_int(x, 0)) : NULL;
    if (strcmp(op, "Abs") == 0)
        return x->lo >= 0 ? x : bl_is_const(x) ? bl_sub(ir, bl_index(ir, 0), x) : NULL;
    return NULL;
}

static bl_onnx_known *fold_unary(const folder *f, const char *op)
{
    const bl_onnx_known *x = f->in[0];
    bl_onnx_known *out = bl_onnx_new_known(f->c->import, x->dtype, x->ndim, x->dim);

    for (int i = 0; out != NULL && i < out->count; i++) {
        if (x->real != NULL)
            put_real(out, i, real_unary(op, x->real[i]));
        else if ((out->size[i] = size_unary(f->ir, op, x->size[i])) == NULL)
            return NULL;
    }
    return out;
}

/* ---- moving elements */

static void copy_item(bl_onnx_known *to, int i, const bl_onnx_known *from, int at)
{
    if (to->real != NULL)
        to->real[i] = from->real[at];
    else
        to->size[i] = from->size[at];
}

static bl_onnx_known *fold_concat(const folder *f)
{
    int64_t dim[BL_MAX_DIMS];
    int rank = f->in[0]->ndim;
    int64_t axis = bl_onnx_int(f->c, "axis", f->c->opset < 4 ? 1 : 0), outer = 1, inner = 1;

    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank)
        return NULL;
    for (int d = 0; d < rank; d++)
        dim[d] = f->in[0]->dim[d];
    for (int k = 1; k < f->n; k++) {
        if (f->in[k]->ndim != rank || f->in[k]->dtype != f->in[0]->dtype)
            return NULL;
        for (int d = 0; d < rank; d++) {
            if (d != axis && f->in[k]->dim[d] != dim[d])
                return NULL;
        }
        dim[axis] += f->in[k]->dim[axis];
    }
    for (int d = 0; d < rank; d++) {
        outer *= d < axis ? dim[d] : 1;
        inner *= d > axis ? dim[d] : 1;
    }
    bl_onnx_known *out = bl_onnx_new_known(f->c->import, f->in[0]->dtype, rank, dim);
    for (int at = 0, o = 0; out != NULL && o < outer; o++) {
        for (int k = 0; k < f->n; k++) {
            int run = (int)(f->in[k]->dim[axis] * inner);
            for (int i = 0; i < run; i++)
                copy_item(out, at++, f->in[k], o * run + i);
        }
    }
    return out;
}

static bl_onnx_known *fold_gather(const folder *f)
{
    const bl_onnx_known *x = f->in[0], *index = f->in[1];
    int64_t dim[2 * BL_MAX_DIMS], axis = bl_onnx_int(f->c, "axis", 0), inner = 1, place;
    int n = 0, at = 0, outer = 1;

    axis += axis < 0 ? x->ndim : 0;
    if (axis < 0 || axis >= x->ndim || x->ndim - 1 + index->ndim > BL_MAX_DIMS)
        return NULL;
    for (int d = 0; d < axis; d++) {
        dim[n++] = x->dim[d];
        outer *= (int)x->dim[d];
    }
    for (int d = 0; d < index->ndim; d++)
        dim[n++] = index->dim[d];
    for (int d = (int)axis + 1; d < x->ndim; d++) {
        dim[n++] = x->dim[d];
        inner *= x->dim[d];
    }
    bl_onnx_known *out = bl_onnx_new_known(f->c->import, x->dtype, n, dim);
    for (int o = 0; out != NULL && o < outer; o++) {
        for (int k = 0; k < index->count; k++) {
            if (!as_int(index, k, &place))
                return NULL;
            place += place < 0 ? x->dim[axis] : 0;
            if (place < 0 || place >= x->dim[axis])
                return NULL;
            for (int i = 0; i < inner; i++)
                copy_item(out, at++, x, (int)((o * x->dim[axis] + place) * inner) + i);
        }
    }
    return out;
}

/* The same elements, in the shape that some other node gives them: that of the result which is written for it. */
static bl_onnx_known *with_shape(const folder *f, int ndim, const int64_t *dim)
{
    const bl_onnx_known *x = f->in[0];
    bl_onnx_known *out = bl_onnx_new_known(f->c->import, x->dtype, ndim, dim);

    if (out == NULL || out->count != x->count)
        return NULL;
    for (int i = 0; i < out->count; i++)
        copy_item(out, i, x, i);
    return out;
}

static bl_onnx_known *fold_reshape(const folder *f)
{
    const bl_onnx_known *x = f->in[0], *shape = f->n > 1 ? f->in[1] : NULL;
    int64_t dim[BL_MAX_DIMS], known = 1;
    int free = -1;

    if (shape == NULL || shape->count > BL_MAX_DIMS)
        return NULL;
    for (int i = 0; i < shape->count; i++) {
        if (!as_int(shape, i, &dim[i]))
            return NULL;
        if (dim[i] == 0 && i < x->ndim && bl_onnx_int(f->c, "allowzero", 0) == 0)
            dim[i] = x->dim[i];
        if (dim[i] < -1 || (dim[i] == -1 && free >= 0) || dim[i] > BL_ONNX_MAX_KNOWN)
            return NULL;
        free = dim[i] == -1 ? i : free;
        known *= dim[i] == -1 ? 1 : dim[i];
        if (known > BL_ONNX_MAX_KNOWN)
            return NULL;
    }
    if (free >= 0 && known > 0)
        dim[free] = x->count / known;
    return free >= 0 && known == 0 ? NULL : with_shape(f, shape->count, dim);
}

/* Axes from the attribute or the second input, as a mask of |rank|. */
static bool take_axes(const folder *f, int rank, bool *given, uint32_t *mask)
{
    const int64_t *ints;
    int n = bl_onnx_ints(f->c, "axes", &ints);
    const bl_onnx_known *in = n < 0 && f->n > 1 ? f->in[1] : NULL;

    *mask = 0;
    *given = n >= 0 || in != NULL;
    for (int i = 0; i < (in != NULL ? in->count : n); i++) {
        int64_t axis = 0;
        if (in != NULL && !as_int(in, i, &axis))
            return false;
        axis = in != NULL ? axis : ints[i];
        axis += axis < 0 ? rank : 0;
        if (axis < 0 || axis >= rank)
            return false;
        *mask |= 1u << axis;
    }
    return true;
}

static bl_onnx_known *fold_squeeze(const folder *f)
{
    const bl_onnx_known *x = f->in[0];
    int64_t dim[BL_MAX_DIMS];
    uint32_t mask;
    bool given;
    int n = 0;

    if (!take_axes(f, x->ndim, &given, &mask))
        return NULL;
    for (int d = 0; d < x->ndim; d++) {
        bool goes = given ? (mask >> d & 1u) != 0 : x->dim[d] == 1;
        if (goes && x->dim[d] != 1)
            return NULL;
        if (!goes)
            dim[n++] = x->dim[d];
    }
    return with_shape(f, n, dim);
}

static bl_onnx_known *fold_unsqueeze(const folder *f)
{
    const bl_onnx_known *x = f->in[0];
    const int64_t *ints;
    int more = bl_onnx_ints(f->c, "axes", &ints), from = 0;
    int64_t dim[BL_MAX_DIMS];
    uint32_t mask;
    bool given;

    more = more >= 0 ? more : f->n > 1 ? f->in[1]->count : 0;
    if (more > BL_MAX_DIMS - x->ndim || !take_axes(f, x->ndim + more, &given, &mask))
        return NULL;
    for (int d = 0; d < x->ndim + more; d++) {
        bool added = (mask >> d & 1u) != 0;
        if (!added && from == x->ndim)
            return NULL;
        dim[d] = added ? 1 : x->dim[from++];
    }
    return with_shape(f, x->ndim + more, dim);
}

static bl_onnx_known *fold_range(const folder *f)
{
    double start, stop, step;

    if (f->n != 3 || !as_real(f->in[0], 0, &start) || !as_real(f->in[1], 0, &stop) || !as_real(f->in[2], 0, &step) || step == 0)
        return NULL;
    double n = ceil((stop - start) / step);
    if (!(n <= MOST_ELEMENTS))
        return NULL;
    bl_onnx_known *out = bl_onnx_new_known(f->c->import, f->in[0]->dtype, 1, &(int64_t){n > 0 ? (int64_t)n : 0});
    for (int i = 0; out != NULL && i < out->count; i++) {
        if (out->real != NULL)
            put_real(out, i, start + i * step);
        else
            out->size[i] = bl_index(f->ir, (int64_t)start + i * (int64_t)step);
    }
    return out;
}

static bl_onnx_known *fold_slice(const folder *f)
{
    int64_t start, stop, step = 1, axis = 0;
    const bl_onnx_known *x = f->in[0];

    if (f->c->opset < 10 || x->ndim != 1 || f->n < 3 || f->in[1]->count != 1 || !as_int(f->in[1], 0, &start) ||
        !as_int(f->in[2], 0, &stop) || (f->n > 3 && (f->c->in[3] == NULL || !as_int(f->in[3], 0, &axis))) ||
        (f->n > 4 && !as_int(f->in[4], 0, &step)) || step == 0)
        return NULL;
    int64_t n = x->dim[0], low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    start += start < 0 ? n : 0;
    stop += stop < 0 && stop >= -n ? n : 0;
    start = start < low ? low : start > high ? high : start;
    stop = stop < low ? low : stop > high ? high : stop;
    int64_t count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
    bl_onnx_known *out = bl_onnx_new_known(f->c->import, x->dtype, 1, &(int64_t){count < 0 ? 0 : count});
    for (int i = 0; out != NULL && i < out->count; i++)
        copy_item(out, i, x, (int)(start + i * step));
    return out;
}

/* Over all elements, of a vector or a scalar. */
static bl_onnx_known *fold_reduce(const folder *f, binary_op op)
{
    const bl_onnx_known *x = f->in[0];
    const int64_t one = 1;
    bool keeps = bl_onnx_int(f->c, "keepdims", 1) != 0;
    const bl_node *value;

    if (x->ndim != 1 || x->size == NULL || x->count == 0)
        return NULL;
    value = x->size[0];
    for (int i = 1; i < x->count && value != NULL; i++)
        value = size_binary(f->ir, op, value, x->size[i]);
    bl_onnx_known *out = value != NULL ? bl_onnx_new_known(f->c->import, x->dtype, keeps ? 1 : 0, &one) : NULL;
    if (out != NULL)
        out->size[0] = value;
    return out;
}

static bl_onnx_known *fold_fill(const folder *f)
{
    const Onnx__AttributeProto *a = bl_onnx_attr(f->c, "value");
    bl_onnx_value *filler = a != NULL && a->t != NULL ? bl_onnx_known_tensor(f->c->import, a->t) : NULL;
    const bl_onnx_known *value = bl_onnx_know(f->c->import, filler);
    int64_t dim[BL_MAX_DIMS];

    if (f->in[0]->count > BL_MAX_DIMS || (a != NULL && (value == NULL || value->count != 1)))
        return NULL;
    for (int i = 0; i < f->in[0]->count; i++) {
        if (!as_int(f->in[0], i, &dim[i]))
            return NULL;
    }
    bl_onnx_known *out = bl_onnx_new_known(f->c->import, value != NULL ? value->dtype : BL_F32, f->in[0]->count, dim);
    if (out == NULL || out->count > MOST_ELEMENTS)
        return NULL;
    for (int i = 0; i < out->count && value != NULL; i++)
        copy_item(out, i, value, 0);
    return out;
}

static bl_onnx_known *fold_expand(const folder *f)
{
    bl_onnx_known shape = {.ndim = f->in[1]->count};
    const bl_onnx_known *pair[2] = {f->in[0], &shape};
    int64_t dim[BL_MAX_DIMS];
    int ndim;

    if (shape.ndim > BL_MAX_DIMS)
        return NULL;
    for (int i = 0; i < shape.ndim; i++) {
        if (!as_int(f->in[1], i, &shape.dim[i]))
            return NULL;
    }
    bl_onnx_known *out =
        broadcast_shape(pair, 2, &ndim, dim) ? bl_onnx_new_known(f->c->import, f->in[0]->dtype, ndim, dim) : NULL;
    if (out == NULL || out->count > MOST_ELEMENTS)
        return NULL;
    for (int i = 0; i < out->count; i++)
        copy_item(out, i, f->in[0], place_of(out, i, f->in[0]));
    return out;
}

/* ---- which is which */

static bl_onnx_known *fold_named(folder *f, const char *op)
{
    static const struct {
        const char *name;
        binary_op op;
    } pairs[] = {{"Add", OP_ADD},     {"Sub", OP_SUB},   {"Mul", OP_MUL}, {"Div", OP_DIV}, {"Mod", OP_MOD},
                 {"Equal", OP_EQUAL}, {"Less", OP_LESS}, {"And", OP_AND}, {"Or", OP_OR},   {"Xor", OP_XOR}},
      chains[] = {{"Min", OP_MIN}, {"Max", OP_MAX}, {"Sum", OP_ADD}},
      folds[] = {{"ReduceProd", OP_MUL}, {"ReduceSum", OP_ADD}, {"ReduceMax", OP_MAX}, {"ReduceMin", OP_MIN}};
    static const char *const unary[] = {"Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Not", "Relu"};
    static const struct {
        const char *name;
        int least;
        bl_onnx_known *(*fold)(const folder *f);
    } others[] = {{"Concat", 1, fold_concat},        {"Gather", 2, fold_gather}, {"Reshape", 2, fold_reshape},
                  {"Squeeze", 1, fold_squeeze},      {"Range", 3, fold_range},   {"Unsqueeze", 1, fold_unsqueeze},
                  {"ConstantOfShape", 1, fold_fill}, {"Expand", 2, fold_expand}, {"Slice", 1, fold_slice},
                  {"Where", 3, fold_where}};

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strcmp(op, pairs[i].name) == 0)
            return f->n == 2 && f->c->opset >= 7 ? fold_binary(f, pairs[i].op) : NULL;
    }
    if (f->n == 2 && strcmp(op, "Greater") == 0) {
        folder turned = {.c = f->c, .ir = f->ir, .in = {f->in[1], f->in[0]}, .n = 2};
        return fold_binary(&turned, OP_LESS);
    }
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        if (strcmp(op, chains[i].name) == 0)
            return fold_chain(f, chains[i].op);
    }
    for (size_t i = 0; i < sizeof folds / sizeof folds[0]; i++) {
        if (strcmp(op, folds[i].name) == 0)
            return fold_reduce(f, folds[i].op);
    }
    for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++) {
        if (strcmp(op, unary[i]) == 0)
            return fold_unary(f, op);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(op, others[i].name) == 0)
            return f->n >= others[i].least ? others[i].fold(f) : NULL;
    }
    int to = (int)bl_onnx_int(f->c, "to", 0);
    if (strcmp(op, "Cast") == 0 && f->c->opset >= 6 && bl_onnx_four_bits(to) == 0 && !bl_dtype_is_float8(bl_onnx_dtype(to)))
        return fold_cast(f, bl_onnx_dtype(to));
    return NULL;
}

/* A shape is known, whatever it is the shape of. */
static bool fold_shape(bl_onnx_call *c)
{
    const bl_onnx_value *x = c->nin > 0 ? c->in[0] : NULL;
    const bl_node *count;
    int rank = bl_onnx_rank(x);

    if (x == NULL || x->sequence)
        return false;
    if (strcmp(c->node->op_type, "Size") == 0) {
        count = bl_shape_count(c->import->ir, rank, x->type->dim);
        c->out[0] = bl_onnx_size_value(c, count);
        return true;
    }
    int64_t start = bl_onnx_int(c, "start", 0), end = bl_onnx_int(c, "end", rank);
    start += start < 0 ? rank : 0;
    end += end < 0 ? rank : 0;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end > rank ? rank : end < start ? start : end;
    c->out[0] = bl_onnx_known_sizes(c->import, (int)(end - start), x->type->dim + start);
    return true;
}

/* A known vector in parts. */
static bool fold_split(bl_onnx_call *c)
{
    const bl_onnx_known *x = c->nin > 0 ? bl_onnx_know(c->import, c->in[0]) : NULL;
    const int64_t *given = NULL;
    int n = bl_onnx_ints(c, "split", &given);
    int64_t size = 0, at = 0;

    if (x == NULL || x->ndim != 1 || x->count > MOST_ELEMENTS || c->nout < 1)
        return false;
    if (n < 0 && c->nin > 1)
        n = bl_onnx_in_ints(c, 1, &given);
    if (n >= 0 && n != c->nout)
        return false;
    for (int i = 0; i < c->nout; i++) {
        size = given != NULL ? given[i] : (x->count + c->nout - 1) / c->nout;
        size = given == NULL && size > x->count - at ? x->count - at : size;
        bl_onnx_known *part = size >= 0 && size <= x->count - at ? bl_onnx_new_known(c->import, x->dtype, 1, &size) : NULL;
        if (part == NULL)
            return false;
        for (int k = 0; k < part->count; k++)
            copy_item(part, k, x, (int)at + k);
        c->out[i] = bl_onnx_known_value(c->import, part);
        at += size;
    }
    return at == x->count;
}

/* Of which the second operand only tells a dtype. */
static bool fold_cast_like(bl_onnx_call *c)
{
    folder f = {.c = c, .ir = c->import->ir, .n = 1};

    if (c->nin != 2 || c->in[1] == NULL || c->in[1]->four_bits != 0 || bl_dtype_is_float8(bl_onnx_type(c->in[1])))
        return false;
    f.in[0] = bl_onnx_know(c->import, c->in[0]);
    if (f.in[0] == NULL || f.in[0]->count > MOST_ELEMENTS)
        return false;
    c->out[0] = bl_onnx_known_value(c->import, fold_cast(&f, bl_onnx_type(c->in[1])));
    return c->out[0] != NULL;
}

bool bl_onnx_fold(bl_onnx_call *c)
{
    folder f = {.c = c, .ir = c->import->ir, .n = c->nin};
    const char *op = c->node->op_type;
    bl_onnx_known *known;

    if (c->node->domain != NULL && *c->node->domain != '\0' && strcmp(c->node->domain, "ai.onnx") != 0)
        return false;
    if (strcmp(op, "Shape") == 0 || strcmp(op, "Size") == 0)
        return fold_shape(c);
    if (strcmp(op, "Split") == 0)
        return fold_split(c);
    if (strcmp(op, "CastLike") == 0)
        return fold_cast_like(c);
    if (c->nin < 1 || c->nin > 8 || c->nout != 1)
        return false;
    for (int i = 0; i < c->nin; i++) {
        bl_onnx_value *x = c->in[i];
        if (x == NULL || (x->known == NULL && x->tensor == NULL))
            return false;
        int64_t count = 0;
        if (!bl_shape_max_count(x->type->ndim, x->type->dim, &count) || count > MOST_ELEMENTS)
            return false;
        f.in[i] = bl_onnx_know(c->import, x);
        if (f.in[i] == NULL)
            return false;
    }
    known = fold_named(&f, op);
    if (known == NULL || c->import->failed)
        return false;
    c->out[0] = bl_onnx_known_value(c->import, known);
    return c->out[0] != NULL;
}
