/* SPDX-License-Identifier: MIT */
#include "tests/interp/graph.h"

#include "engine/base/fault.h"
#include "engine/base/size.h"
#include "engine/ir/eval.h"
#include "engine/ir/scan.h"
#include "engine/ir/shape.h"
#include "engine/ir/winograd_transforms.h"

#include <stdlib.h>
#include <string.h>

/* Elements in memory; all views of one value share a storage. */
typedef struct storage {
    const unsigned char *data;
    unsigned char *owned; /* the same memory; NULL if the memory is the caller's input */
    size_t refs;
} storage;

/* The value of a node: element (i, j, ..) is at start + i * stride[0] + j * stride[1] + ..  Movement ops return another view of
 * the same storage if strides can express it. */
typedef struct value {
    storage *store;
    int64_t start;
    int64_t dim[BL_MAX_DIMS];
    int64_t stride[BL_MAX_DIMS];
    int64_t count;
    uint32_t users; /* users that have not run yet, plus one for a root */
    int nresults;   /* of a SCAN: row-major elements of each result, owned */
    void **result;
} value;

typedef struct evaluator {
    bl_ir *ir;
    bl_nodes nodes;
    uint32_t *place; /* index in |nodes| by node id */
    value *values;   /* values of |nodes| */
    const void *const *inputs;
    const void *const *bound; /* parameters of the scan whose body is evaluated, or NULL */
    const int64_t *vars;
    bl_err *err;
} evaluator;

/* ---- iteration over the elements of a shape in row-major order, with the offset of each element in up to four values */

enum { MAX_WALKED = 4 };

typedef struct walk {
    int ndim;
    const int64_t *dim;
    int64_t index[BL_MAX_DIMS];
    int n;
    const int64_t *stride[MAX_WALKED];
    int64_t at[MAX_WALKED];
} walk;

static void walk_add(walk *w, const value *v, const int64_t *stride)
{
    w->stride[w->n] = stride;
    w->at[w->n++] = v->start;
}

static void walk_next(walk *w)
{
    for (int d = w->ndim - 1; d >= 0; d--) {
        w->index[d]++;
        for (int k = 0; k < w->n; k++)
            w->at[k] += w->stride[k][d];
        if (w->index[d] < w->dim[d])
            return;
        for (int k = 0; k < w->n; k++)
            w->at[k] -= w->stride[k][d] * w->dim[d];
        w->index[d] = 0;
    }
}

/* ---- values */

static const unsigned char *element(const value *v, bl_dtype dtype, int64_t at)
{
    return v->store->data + (size_t)at * bl_dtype_bytes(dtype);
}

/* Returns an element of a value that new_storage has just made. */
static unsigned char *own_element(const value *v, bl_dtype dtype, int64_t at)
{
    return v->store->owned + (size_t)at * bl_dtype_bytes(dtype);
}

static void drop(value *v)
{
    if (v->store != NULL && --v->store->refs == 0) {
        free(v->store->owned);
        free(v->store);
    }
    v->store = NULL;
    for (int i = 0; i < v->nresults; i++)
        free(v->result[i]);
    free(v->result);
    v->result = NULL;
    v->nresults = 0;
}

static value *value_of(const evaluator *e, const bl_node *node)
{
    return &e->values[e->place[node->id]];
}

/* Sets the extents of |node| and the number of its elements. */
static bl_status set_shape(const evaluator *e, const bl_node *node, value *v)
{
    v->count = 1;
    for (int d = 0; d < node->ndim; d++) {
        v->dim[d] = bl_extent_eval(node->dim[d], e->vars);
        if (v->dim[d] < 0 || !bl_i64_mul(v->count, v->dim[d], &v->count))
            return bl_fail(e->err, BL_EGRAPH, "%s (%%%u): axis %d has extent %lld", bl_op_name((bl_op)node->op), node->id, d,
                           (long long)v->dim[d]);
    }
    return BL_OK;
}

/* Sets row-major strides.  A product of some extents can exceed the product of all only if an extent is 0; then there is no
 * element. */
static void set_strides(int ndim, value *v)
{
    int64_t step = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        v->stride[d] = v->count ? step : 0;
        step = v->count ? step * v->dim[d] : 0;
    }
}

static bl_status new_storage(const evaluator *e, const bl_node *node, value *v, const void *borrowed)
{
    size_t bytes;

    if (!bl_size_mul((size_t)v->count, bl_dtype_bytes((bl_dtype)node->dtype), &bytes) || bytes > SIZE_MAX / 2)
        return bl_fail(e->err, BL_ELIMIT, "%s (%%%u): %lld elements", bl_op_name((bl_op)node->op), node->id, (long long)v->count);
    v->store = bl_calloc(1, sizeof *v->store);
    if (v->store == NULL)
        return bl_fail(e->err, BL_ENOMEM, "a value of the interpreter");
    v->store->refs = 1;
    if (borrowed == NULL)
        borrowed = v->store->owned = bl_calloc(1, bytes ? bytes : 1);
    v->store->data = borrowed;
    if (borrowed == NULL)
        return bl_fail(e->err, BL_ENOMEM, "%zu bytes for %s (%%%u)", bytes, bl_op_name((bl_op)node->op), node->id);
    set_strides(node->ndim, v);
    return BL_OK;
}

static void share(value *v, const value *of)
{
    v->store = of->store;
    v->store->refs++;
    v->start = of->start;
}

static bl_status require(const evaluator *e, const bl_node *node, bool holds, const char *what)
{
    return holds ? BL_OK
                 : bl_fail(e->err, BL_EGRAPH, "%s (%%%u): %s at these sizes", bl_op_name((bl_op)node->op), node->id, what);
}

/* ---- leaves */

static bl_status eval_leaf(const evaluator *e, const bl_node *node, value *v)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    bl_scalar constant = {.i = node->arg};

    switch ((int)node->op) {
    case BL_OP_INPUT:
        BL_TRY(require(e, node, e->inputs != NULL && e->inputs[node->arg] != NULL, "no input"));
        return new_storage(e, node, v, e->inputs[node->arg]);
    case BL_OP_BOUND:
        BL_TRY(require(e, node, e->bound != NULL, "no scan around it"));
        return new_storage(e, node, v, e->bound[node->arg]);
    case BL_OP_VAR:
        BL_TRY(require(e, node, e->vars != NULL, "no named dimensions"));
        constant.i = e->vars[node->arg];
        break;
    case BL_OP_CONST:
    case BL_OP_IOTA:
        break;
    default:
        return bl_fail(e->err, BL_EBUG, "%s in a tensor graph", bl_op_name((bl_op)node->op));
    }
    BL_TRY(new_storage(e, node, v, NULL));
    for (int64_t i = 0; i < v->count; i++)
        bl_scalar_write(dtype, node->op == BL_OP_IOTA ? bl_scalar_cast(dtype, BL_I64, (bl_scalar){.i = i}) : constant,
                        own_element(v, dtype, i));
    return BL_OK;
}

/* ---- scalar ops */

static bl_scalar apply(const bl_node *node, const bl_scalar *operand)
{
    bl_dtype from = (bl_dtype)node->src[node->op == BL_OP_WHERE]->dtype;

    if (node->op == BL_OP_CAST)
        return bl_scalar_cast((bl_dtype)node->dtype, from, operand[0]);
    if (node->op == BL_OP_BITCAST)
        return bl_eval_bitcast((bl_dtype)node->dtype, from, operand[0]);
    return bl_eval((bl_op)node->op, from, operand);
}

static bl_status eval_alu(const evaluator *e, const bl_node *node, value *v)
{
    walk w = {.ndim = node->ndim, .dim = v->dim};
    const value *src[3];

    for (uint32_t k = 0; k < node->nsrc; k++) {
        src[k] = value_of(e, node->src[k]);
        BL_TRY(require(e, node, node->src[k]->ndim == node->ndim, "the shapes differ"));
        for (int d = 0; d < node->ndim; d++)
            BL_TRY(require(e, node, src[k]->dim[d] == v->dim[d], "the shapes differ"));
        walk_add(&w, src[k], src[k]->stride);
    }
    BL_TRY(new_storage(e, node, v, NULL));
    for (int64_t i = 0; i < v->count; i++) {
        bl_scalar operand[3];

        for (uint32_t k = 0; k < node->nsrc; k++) {
            bl_dtype dtype = (bl_dtype)node->src[k]->dtype;

            operand[k] = bl_scalar_read(dtype, element(src[k], dtype, w.at[k]));
        }
        bl_scalar_write((bl_dtype)node->dtype, apply(node, operand), own_element(v, (bl_dtype)node->dtype, i));
        walk_next(&w);
    }
    return BL_OK;
}

/* ---- movement */

/* Copies the elements of |x| in row-major order. */
static bl_status eval_reshape(const evaluator *e, const bl_node *node, const value *x, value *v)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    walk w = {.ndim = node->src[0]->ndim, .dim = x->dim};

    BL_TRY(require(e, node, x->count == v->count, "the number of elements changes"));
    BL_TRY(new_storage(e, node, v, NULL));
    walk_add(&w, x, x->stride);
    for (int64_t i = 0; i < v->count; i++) {
        memcpy(own_element(v, dtype, i), element(x, dtype, w.at[0]), bl_dtype_bytes(dtype));
        walk_next(&w);
    }
    return BL_OK;
}

static bl_status eval_permute(const evaluator *e, const bl_node *node, const value *x, value *v)
{
    share(v, x);
    for (int d = 0; d < node->ndim; d++) {
        int from = bl_perm_get(node->arg, d);

        BL_TRY(require(e, node, v->dim[d] == x->dim[from], "an extent changes"));
        v->stride[d] = x->stride[from];
    }
    return BL_OK;
}

static bl_status eval_expand(const evaluator *e, const bl_node *node, const value *x, value *v)
{
    int added = node->ndim - node->src[0]->ndim;

    share(v, x);
    for (int d = 0; d < node->ndim; d++) {
        int64_t extent = d < added ? 1 : x->dim[d - added];

        BL_TRY(require(e, node, extent == 1 || extent == v->dim[d], "an extent that is not 1 changes"));
        v->stride[d] = extent == 1 ? 0 : x->stride[d - added];
    }
    return BL_OK;
}

static bl_status eval_pad(const evaluator *e, const bl_node *node, const value *x, value *v)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    walk w = {.ndim = node->ndim, .dim = x->dim};
    value inner;

    BL_TRY(new_storage(e, node, v, NULL)); /* zeros */
    inner = *v;
    for (int d = 0; d < node->ndim; d++) {
        int64_t before = bl_extent_eval(node->src[1 + d], e->vars);

        BL_TRY(require(e, node, before >= 0 && x->dim[d] <= v->dim[d] && before <= v->dim[d] - x->dim[d], "it does not fit"));
        inner.start += before * v->stride[d];
    }
    walk_add(&w, x, x->stride);
    walk_add(&w, &inner, inner.stride);
    for (int64_t i = 0; i < x->count; i++) {
        memcpy(own_element(v, dtype, w.at[1]), element(x, dtype, w.at[0]), bl_dtype_bytes(dtype));
        walk_next(&w);
    }
    return BL_OK;
}

static bl_status eval_shrink(const evaluator *e, const bl_node *node, const value *x, value *v)
{
    share(v, x);
    for (int d = 0; d < node->ndim; d++) {
        int64_t start = bl_extent_eval(node->src[1 + d], e->vars);

        BL_TRY(require(e, node, start >= 0 && v->dim[d] <= x->dim[d] && start <= x->dim[d] - v->dim[d], "the box is outside"));
        v->stride[d] = x->stride[d];
        v->start += start * x->stride[d];
    }
    return BL_OK;
}

static bl_status eval_flip(const evaluator *e, const bl_node *node, const value *x, value *v)
{
    share(v, x);
    for (int d = 0; d < node->ndim; d++) {
        bool flipped = node->arg >> d & 1;

        BL_TRY(require(e, node, v->dim[d] == x->dim[d], "an extent changes"));
        v->stride[d] = flipped ? -x->stride[d] : x->stride[d];
        if (flipped && v->count)
            v->start += (x->dim[d] - 1) * x->stride[d];
    }
    return BL_OK;
}

static bl_status eval_window(const evaluator *e, const bl_node *node, const value *x, value *v)
{
    int axis, last = node->ndim - 1;
    int64_t stride, dilation, reach, step;

    bl_window_get(node->arg, &axis, &stride, &dilation);
    share(v, x);
    memcpy(v->stride, x->stride, sizeof v->stride);
    /* the last element of a window: (windows - 1) * stride + (size - 1) * dilation */
    BL_TRY(require(e, node,
                   bl_i64_mul(v->dim[axis] - 1, stride, &reach) && bl_i64_mul(v->dim[last] - 1, dilation, &step) &&
                       bl_i64_add(reach, step, &reach) && (v->count == 0 || reach < x->dim[axis]),
                   "a window is outside"));
    for (int d = 0; d < last; d++)
        BL_TRY(require(e, node, d == axis || v->dim[d] == x->dim[d], "an extent changes"));
    v->stride[axis] = v->count && v->dim[axis] > 1 ? x->stride[axis] * stride : 0;
    v->stride[last] = v->count && v->dim[last] > 1 ? x->stride[axis] * dilation : 0;
    return BL_OK;
}

static bl_status eval_move(const evaluator *e, const bl_node *node, value *v)
{
    const value *x = value_of(e, node->src[0]);

    switch ((int)node->op) {
    case BL_OP_RESHAPE:
        return eval_reshape(e, node, x, v);
    case BL_OP_PERMUTE:
        return eval_permute(e, node, x, v);
    case BL_OP_EXPAND:
        return eval_expand(e, node, x, v);
    case BL_OP_PAD:
        return eval_pad(e, node, x, v);
    case BL_OP_SHRINK:
        return eval_shrink(e, node, x, v);
    case BL_OP_FLIP:
        return eval_flip(e, node, x, v);
    default:
        return eval_window(e, node, x, v);
    }
}

/* ---- reductions and indexing */

/* Sums and products of floats are computed in double and rounded once at the end, which is the most exact result. */
static bl_status eval_reduce(const evaluator *e, const bl_node *node, value *v)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    bl_op fold = (bl_op)node->sub;
    bl_dtype carried = bl_dtype_is_float(dtype) && (fold == BL_OP_ADD || fold == BL_OP_MUL) ? BL_F64 : dtype;
    const value *x = value_of(e, node->src[0]);
    walk w = {.ndim = node->ndim, .dim = x->dim};
    int64_t into[BL_MAX_DIMS]; /* strides of the result along the axes of x: 0 for reduced axes */
    bl_scalar *sums;

    BL_TRY(new_storage(e, node, v, NULL));
    for (int d = 0; d < node->ndim; d++) {
        bool folded = node->arg >> d & 1;

        BL_TRY(require(e, node, v->dim[d] == (folded ? 1 : x->dim[d]), "an extent changes"));
        into[d] = folded ? 0 : v->stride[d];
    }
    sums = bl_calloc((size_t)v->count + 1, sizeof *sums);
    if (sums == NULL)
        return bl_fail(e->err, BL_ENOMEM, "the sums of a reduction");
    for (int64_t i = 0; i < v->count; i++)
        sums[i] = bl_fold_identity(fold, carried);
    walk_add(&w, x, x->stride);
    walk_add(&w, v, into);
    for (int64_t i = 0; i < x->count; i++) {
        bl_scalar pair[2] = {sums[w.at[1]], bl_scalar_read(dtype, element(x, dtype, w.at[0]))};

        sums[w.at[1]] = bl_eval(fold, carried, pair);
        walk_next(&w);
    }
    for (int64_t i = 0; i < v->count; i++)
        bl_scalar_write(dtype, bl_scalar_fit(dtype, sums[i]), own_element(v, dtype, i));
    free(sums);
    return BL_OK;
}

/* Returns the index as an integer, or -1 if it does not fit. */
static int64_t read_index(bl_dtype dtype, const void *bytes)
{
    bl_scalar i = bl_scalar_read(dtype, bytes);

    return bl_dtype_get_kind(dtype) == BL_KIND_UINT && i.u > INT64_MAX ? -1 : i.i;
}

static bl_status eval_gather(const evaluator *e, const bl_node *node, value *v)
{
    bl_dtype dtype = (bl_dtype)node->dtype, index_dtype = (bl_dtype)node->src[1]->dtype;
    const value *x = value_of(e, node->src[0]), *index = value_of(e, node->src[1]);
    int axis = (int)node->arg;
    walk w = {.ndim = node->ndim, .dim = v->dim};
    int64_t along[BL_MAX_DIMS]; /* strides of x without the gathered axis */

    memcpy(along, x->stride, sizeof along);
    along[axis] = 0;
    for (int d = 0; d < node->ndim; d++)
        BL_TRY(require(e, node, v->dim[d] == index->dim[d] && (d == axis || v->dim[d] == x->dim[d]), "the shapes differ"));
    BL_TRY(new_storage(e, node, v, NULL)); /* zeros */
    walk_add(&w, x, along);
    walk_add(&w, index, index->stride);
    for (int64_t i = 0; i < v->count; i++) {
        int64_t k = read_index(index_dtype, element(index, index_dtype, w.at[1]));

        if (k >= 0 && k < x->dim[axis])
            memcpy(own_element(v, dtype, i), element(x, dtype, w.at[0] + k * x->stride[axis]), bl_dtype_bytes(dtype));
        walk_next(&w);
    }
    return BL_OK;
}

/* Computes the correlation by its definition. */
static bl_status eval_correlate(const evaluator *e, const bl_node *node, value *v)
{
    const bl_correlation c = bl_correlation_unpack(node->arg);
    const value *x = value_of(e, node->src[0]), *w = value_of(e, node->src[1]);
    bl_dtype dtype = (bl_dtype)node->dtype;

    BL_TRY(new_storage(e, node, v, NULL));
    for (int64_t i = 0; i < v->count; i++) {
        int64_t column = i % v->dim[3], row = i / v->dim[3] % v->dim[2];
        int64_t out = i / v->dim[3] / v->dim[2] % v->dim[1], picture = i / v->dim[3] / v->dim[2] / v->dim[1];
        bl_scalar sum = {.f = 0};
        for (int64_t k = 0; k < x->dim[1] * 9; k++) {
            int64_t in = k / 9, down = k / 3 % 3, across = k % 3;
            int64_t h = row + down - c.before[0], l = column + across - c.before[1];
            if (h < 0 || h >= x->dim[2] || l < 0 || l >= x->dim[3])
                continue;
            int64_t from = x->start + picture * x->stride[0] + in * x->stride[1] + h * x->stride[2] + l * x->stride[3];
            int64_t by = w->start + out * w->stride[0] + in * w->stride[1] + down * w->stride[2] + across * w->stride[3];
            sum.f += bl_scalar_read(dtype, element(x, dtype, from)).f * bl_scalar_read(dtype, element(w, dtype, by)).f;
        }
        bl_scalar_write(dtype, bl_scalar_fit(dtype, sum), own_element(v, dtype, i));
    }
    return BL_OK;
}

/* Adds each element of x to the element from which its window took it. */
static bl_status eval_unwindow(const evaluator *e, const bl_node *node, value *v)
{
    const value *x = value_of(e, node->src[0]);
    bl_dtype dtype = (bl_dtype)node->dtype;
    int axis = 0, last = node->ndim;
    int64_t stride = 0, dilation = 0;

    bl_window_get(node->arg, &axis, &stride, &dilation);
    BL_TRY(new_storage(e, node, v, NULL));
    for (int64_t i = 0; i < v->count; i++)
        bl_scalar_write(dtype, (bl_scalar){.f = 0}, own_element(v, dtype, i));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t rest = i / x->dim[last], k = i % x->dim[last], from = x->start + k * x->stride[last], to = 0, whole = 1;
        for (int d = last - 1; d >= 0; d--) {
            int64_t at = rest % x->dim[d];
            from += at * x->stride[d];
            to += (d == axis ? at * stride + k * dilation : at) * whole;
            rest /= x->dim[d];
            whole *= v->dim[d];
        }
        bl_scalar sum = bl_scalar_read(dtype, own_element(v, dtype, to));
        sum.f += bl_scalar_read(dtype, element(x, dtype, from)).f;
        bl_scalar_write(dtype, bl_scalar_fit(dtype, sum), own_element(v, dtype, to));
    }
    return BL_OK;
}

static bl_status eval_same(const evaluator *e, const bl_node *node, value *v)
{
    const value *x = value_of(e, node->src[0]);

    share(v, x);
    memcpy(v->stride, x->stride, sizeof v->stride);
    return BL_OK;
}

/* ---- loops */

/* Copies the elements of a root in row-major order to new memory. */
static bl_status copy_out(const evaluator *e, const bl_node *node, void **out)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    const value *v = value_of(e, node);
    size_t size = bl_dtype_bytes(dtype), bytes = 0;
    walk w = {.ndim = node->ndim, .dim = v->dim};
    unsigned char *to;

    if (!bl_size_mul((size_t)v->count, size, &bytes)) /* an expanded view may have more elements than memory */
        return bl_fail(e->err, BL_ELIMIT, "a result of %lld elements", (long long)v->count);
    to = bl_calloc(1, bytes ? bytes : 1);
    if (to == NULL)
        return bl_fail(e->err, BL_ENOMEM, "a result of %zu bytes", bytes);
    walk_add(&w, v, v->stride);
    for (int64_t i = 0; i < v->count; i++) {
        memcpy(to + (size_t)i * size, element(v, dtype, w.at[0]), size);
        walk_next(&w);
    }
    *out = to;
    return BL_OK;
}

static bl_status evaluate(bl_ir *ir, int nroots, const bl_node *const *roots, const void *const *inputs, const void *const *bound,
                          const int64_t *vars, void **out, bl_err *err);

/* Computes the bytes of |node|'s value without its first |lead| axes. */
static bl_status bytes_of(const evaluator *e, const bl_node *node, int lead, size_t *bytes)
{
    *bytes = bl_dtype_bytes((bl_dtype)node->dtype);
    for (int i = lead; i < node->ndim; i++) {
        if (!bl_size_mul((size_t)bl_extent_eval(node->dim[i], e->vars), *bytes, bytes))
            return bl_fail(e->err, BL_ELIMIT, "a value of a scan is too large");
    }
    return BL_OK;
}

/* The working data of a scan.  All elements are row-major. */
typedef struct stepping {
    const bl_scan *scan;
    int64_t length;
    int nsrc, nroots;
    void **source;    /* owned; for a carry, its value at the start of the step */
    void **next;      /* results of the body, owned */
    size_t *bytes;    /* bytes of each source; for a sequence, of one slice */
    size_t *y_bytes;  /* bytes of each root */
    const void **now; /* parameters of the step */
} stepping;

static bl_status init_scan(const evaluator *e, const bl_node *node, stepping *s, value *v)
{
    s->scan = bl_scan_get(e->ir, node);
    s->length = bl_extent_eval(s->scan->length, e->vars);
    s->nsrc = bl_scan_sources(s->scan);
    s->nroots = s->scan->ncarries + s->scan->nys;
    s->source = bl_calloc((size_t)s->nsrc + 1, sizeof *s->source);
    s->next = bl_calloc((size_t)s->nroots + 1, sizeof *s->next);
    s->bytes = bl_calloc((size_t)s->nsrc + 1, sizeof *s->bytes);
    s->y_bytes = bl_calloc((size_t)s->nroots + 1, sizeof *s->y_bytes);
    s->now = bl_calloc((size_t)s->nsrc + 1, sizeof *s->now);
    v->result = bl_calloc((size_t)bl_scan_results(s->scan) + 1, sizeof *v->result);
    if (s->source == NULL || s->next == NULL || s->bytes == NULL || s->y_bytes == NULL || s->now == NULL || v->result == NULL)
        return bl_fail(e->err, BL_ENOMEM, "a scan of the interpreter");
    v->nresults = bl_scan_results(s->scan);
    for (int i = 0; i < s->nsrc; i++) {
        bool sequence = i >= s->scan->ncarries && i < s->scan->ncarries + s->scan->nsequences;
        BL_TRY(bytes_of(e, node->src[i], sequence, &s->bytes[i]));
        BL_TRY(copy_out(e, node->src[i], &s->source[i]));
    }
    for (int i = 0; i < s->nroots; i++)
        BL_TRY(bytes_of(e, s->scan->root[i], 0, &s->y_bytes[i]));
    for (int i = s->scan->ncarries; i < bl_scan_first_odd(s->scan); i++) {
        size_t one = i < s->nroots ? s->y_bytes[i] : s->bytes[i - s->nroots], all = 0;
        if (!bl_size_mul(one, (size_t)s->length, &all))
            return bl_fail(e->err, BL_ELIMIT, "the stacked results of a scan are too large");
        v->result[i] = bl_calloc(1, all + 1);
        if (v->result[i] == NULL)
            return bl_fail(e->err, BL_ENOMEM, "%zu bytes of a scan", all);
    }
    return BL_OK;
}

static bl_status step_scan(const evaluator *e, stepping *s, size_t at, value *v)
{
    int ncarries = s->scan->ncarries;

    for (int i = 0; i < s->nsrc; i++) {
        bool sequence = i >= ncarries && i < ncarries + s->scan->nsequences;
        s->now[i] = (const char *)s->source[i] + (sequence ? at * s->bytes[i] : 0);
    }
    BL_TRY(evaluate(e->ir, s->nroots, s->scan->root, NULL, s->now, e->vars, s->next, e->err));
    for (int i = 0; i < s->nroots; i++) {
        if (i >= ncarries) {
            memcpy((char *)v->result[i] + at * s->y_bytes[i], s->next[i], s->y_bytes[i]);
            free(s->next[i]);
        } else {
            memcpy((char *)v->result[s->nroots + i] + at * s->bytes[i], s->source[i], s->bytes[i]);
            free(s->source[i]);
            s->source[i] = s->next[i];
        }
        s->next[i] = NULL;
    }
    return BL_OK;
}

static bl_status copy_last(const stepping *s, int carry, void **out, bl_err *err)
{
    *out = bl_calloc(1, s->bytes[carry] + 1);
    if (*out == NULL)
        return bl_fail(err, BL_ENOMEM, "a carry of a scan");
    memcpy(*out, s->source[carry], s->bytes[carry]);
    return BL_OK;
}

static bl_status eval_scan(const evaluator *e, const bl_node *node, value *v)
{
    stepping s = {0};
    bl_status st = init_scan(e, node, &s, v);

    for (int64_t i = 0; st == BL_OK && i < s.length; i++)
        st = step_scan(e, &s, (size_t)(s.scan->reverse ? s.length - 1 - i : i), v);
    for (int i = 0; st == BL_OK && !bl_is_const(s.scan->length) && i < s.scan->ncarries; i++)
        st = copy_last(&s, i, &v->result[bl_scan_first_odd(s.scan) + i], e->err); /* like the other results: a graph may use any
                                                                                   * of them */
    for (int i = 0; s.source != NULL && i < s.nsrc; i++) {
        if (st == BL_OK && i < s.scan->ncarries)
            v->result[i] = s.source[i];
        else
            free(s.source[i]);
    }
    free(s.source);
    free(s.next);
    free(s.bytes);
    free(s.y_bytes);
    free(s.now);
    return st;
}

static bl_status eval_result(const evaluator *e, const bl_node *node, value *v)
{
    BL_TRY(new_storage(e, node, v, NULL));
    memcpy(v->store->owned, value_of(e, node->src[0])->result[node->arg],
           (size_t)v->count * bl_dtype_bytes((bl_dtype)node->dtype));
    return BL_OK;
}

static bl_status eval_node(const evaluator *e, const bl_node *node, value *v)
{
    BL_TRY(set_shape(e, node, v));
    switch (bl_op_get_class((bl_op)node->op)) {
    case BL_CLASS_LEAF:
        return eval_leaf(e, node, v);
    case BL_CLASS_ALU:
        return eval_alu(e, node, v);
    case BL_CLASS_MOVE:
        return eval_move(e, node, v);
    case BL_CLASS_REDUCE:
        return eval_reduce(e, node, v);
    case BL_CLASS_TENSOR:
        return node->op == BL_OP_GATHER      ? eval_gather(e, node, v)
               : node->op == BL_OP_SCAN      ? eval_scan(e, node, v)
               : node->op == BL_OP_RESULT    ? eval_result(e, node, v)
               : node->op == BL_OP_CORRELATE ? eval_correlate(e, node, v)
               : node->op == BL_OP_UNWINDOW  ? eval_unwindow(e, node, v)
                                             : eval_same(e, node, v);
    case BL_CLASS_LOOP:
    case BL_CLASS_INST:
        break;
    }
    return bl_fail(e->err, BL_EBUG, "%s in a tensor graph", bl_op_name((bl_op)node->op));
}

/* ---- evaluation of the graph */

static bl_status init(evaluator *e, bl_ir *ir, int nroots, const bl_node *const *roots)
{
    uint32_t ids;

    e->nodes = bl_reach(ir, nroots, roots, false);
    BL_TRY(bl_ir_status(ir, e->err));
    if (e->nodes.count == 0)
        return BL_OK;
    ids = e->nodes.at[e->nodes.count - 1]->id;
    e->place = bl_calloc((size_t)ids + 1, sizeof *e->place);
    e->values = bl_calloc(e->nodes.count, sizeof *e->values);
    if (e->place == NULL || e->values == NULL)
        return bl_fail(e->err, BL_ENOMEM, "values of %zu nodes", e->nodes.count);
    for (size_t i = 0; i < e->nodes.count; i++)
        e->place[e->nodes.at[i]->id] = (uint32_t)i;
    for (size_t i = 0; i < e->nodes.count; i++)
        for (uint32_t k = 0; k < e->nodes.at[i]->nsrc; k++)
            value_of(e, e->nodes.at[i]->src[k])->users++;
    for (int i = 0; i < nroots; i++)
        value_of(e, roots[i])->users++;
    return BL_OK;
}

static bl_status run(const evaluator *e)
{
    for (size_t i = 0; i < e->nodes.count; i++) {
        const bl_node *node = e->nodes.at[i];

        BL_TRY(eval_node(e, node, &e->values[i]));
        for (uint32_t k = 0; k < node->nsrc; k++) {
            value *src = value_of(e, node->src[k]);

            if (--src->users == 0)
                drop(src);
        }
    }
    return BL_OK;
}

static bl_status evaluate(bl_ir *ir, int nroots, const bl_node *const *roots, const void *const *inputs, const void *const *bound,
                          const int64_t *vars, void **out, bl_err *err)
{
    evaluator e = {.ir = ir, .inputs = inputs, .bound = bound, .vars = vars, .err = err};
    bl_status st = init(&e, ir, nroots, roots);

    for (int i = 0; i < nroots; i++)
        out[i] = NULL;
    if (st == BL_OK)
        st = run(&e);
    for (int i = 0; i < nroots && st == BL_OK; i++)
        st = copy_out(&e, roots[i], &out[i]);
    for (size_t i = 0; e.values != NULL && i < e.nodes.count; i++)
        drop(&e.values[i]);
    for (int i = 0; i < nroots && st != BL_OK; i++) {
        free(out[i]);
        out[i] = NULL;
    }
    free(e.values);
    free(e.place);
    return st;
}

bl_status bl_interp_graph(bl_ir *ir, int nroots, const bl_node *const *roots, const void *const *inputs, const int64_t *vars,
                          void **out, bl_err *err)
{
    return evaluate(ir, nroots, roots, inputs, NULL, vars, out, err);
}
