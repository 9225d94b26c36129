/* SPDX-License-Identifier: MIT */
/* Operators that gather or scatter by indices. */
#include "proto/onnx/import.h"

#include <string.h>

bl_onnx_value *bl_onnx_write_gather(bl_onnx_call *c)
{
    return bl_onnx_make(c, "take(a, b, axis=$0)",
                        ARGS(I(bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(bl_onnx_in(c, 0))))));
}

bl_onnx_value *bl_onnx_write_gather_elements(bl_onnx_call *c)
{
    return bl_onnx_make(c, "gather(a, b, axis=$0)", ARGS(I(bl_onnx_int(c, "axis", 0))));
}

/* Splits the tuples of the last axis of |indices| into one index tensor for each position.  For each of the |batch| leading
 * axes that both tensors share, first adds an index tensor that counts along the axis. */
static int split_tuples(bl_onnx_call *c, bl_onnx_value *indices, int batch, bl_onnx_value **out)
{
    bl_ir *ir = c->import->ir;
    int rank = bl_onnx_rank(indices), n;

    if (rank < 1 || !bl_is_const(indices->type->dim[rank - 1]) || indices->type->dim[rank - 1]->hi + batch > BL_MAX_DIMS ||
        batch >= rank) {
        bl_onnx_fail(c, "needs indices whose last axis has a fixed size");
        return 0;
    }
    n = (int)indices->type->dim[rank - 1]->hi;
    for (int i = 0; i < batch; i++) {
        const bl_node *dim[BL_MAX_DIMS];
        for (int d = 0; d < rank - 1; d++)
            dim[d] = d == i ? indices->type->dim[i] : bl_index(ir, 1);
        out[i] = bl_onnx_make(c, "reshape(arange(stop=$0), shape=$1)", ARGS(ZS(-1, &indices->type->dim[i]), ZS(rank - 1, dim)));
    }
    for (int i = 0; i < n; i++)
        out[batch + i] =
            bl_onnx_make(c, "squeeze(slice($0, start=$1, stop=$2, axis=[-1]), axis=-1)", ARGS(V(indices), I(i), I(i + 1)));
    return batch + n;
}

bl_onnx_value *bl_onnx_write_gather_nd(bl_onnx_call *c)
{
    bl_onnx_value *index[BL_MAX_DIMS];
    int64_t batch = bl_onnx_int(c, "batch_dims", 0);
    int n = batch < 0 || batch > BL_MAX_DIMS || bl_onnx_in(c, 1) == NULL ? 0 : split_tuples(c, c->in[1], (int)batch, index);

    return n == 0 ? bl_onnx_fail(c, "needs indices") : bl_onnx_make(c, "index(a, $0...)", ARGS(VS(n, index)));
}

/* ---- scatter */

static const char *how(bl_onnx_call *c)
{
    static const char *const names[][2] = {{"none", ""}, {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
    const char *reduction = bl_onnx_text(c, "reduction", "none");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(reduction, names[i][0]) == 0)
            return names[i][1];
    }
    return bl_onnx_fail(c, "reduction \"%.40s\" is not supported", bl_onnx_clean(c->import, reduction));
}

static bl_onnx_value *ops_index_scatter(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *index, bl_onnx_value *src, int64_t axis)
{
    const char *reduce = how(c);

    if (reduce == NULL)
        return NULL;
    if (*reduce == '\0')
        return bl_onnx_make(c, "scatter($0, $1, $2, axis=$3)", ARGS(V(x), V(index), V(src), I(axis)));
    return bl_onnx_make(c, "scatter_reduce($0, $1, $2, axis=$3, reduce=$4)", ARGS(V(x), V(index), V(src), I(axis), T(reduce)));
}

bl_onnx_value *bl_onnx_write_scatter_elements(bl_onnx_call *c)
{
    bl_onnx_value *index = bl_onnx_in(c, 1), *x = bl_onnx_in(c, 0);
    int axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(x));

    if (index == NULL || x == NULL || c->import->failed)
        return bl_onnx_fail(c, "needs indices");
    /* a negative index counts from the end, which the wire's scatter does not support */
    index = bl_onnx_make(c, "where(less(b, 0), add(b, $0), b)",
                         ARGS(V(bl_onnx_make(c, "cast($0, dtype=$1)",
                                             ARGS(V(bl_onnx_size_value(c, x->type->dim[axis])), D(bl_onnx_type(index)))))));
    return ops_index_scatter(c, x, index, bl_onnx_in(c, 2), axis);
}

/* Converts the tuples to row numbers of a flattened x, and scatters whole rows. */
bl_onnx_value *bl_onnx_write_scatter_nd(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *updates = bl_onnx_in(c, 2), *index[BL_MAX_DIMS], *at = NULL;
    bl_ir *ir = c->import->ir;
    int n = bl_onnx_in(c, 1) != NULL ? split_tuples(c, c->in[1], 0, index) : 0, rank = bl_onnx_rank(x);

    if (n == 0 || n > rank || updates == NULL)
        return bl_onnx_fail(c, "needs data, indices and updates");
    if (how(c) != NULL && *how(c) == '\0')
        return bl_onnx_make(c, "index_put(a, c, $0...)", ARGS(VS(n, index)));
    for (int i = 0; i < n; i++) {
        bl_onnx_value *extent = bl_onnx_size_value(c, x->type->dim[i]);
        bl_onnx_value *own = bl_onnx_make(c, "where(less($0, 0), add($0, $1), $0)", ARGS(V(index[i]), V(extent)));
        at = at == NULL ? own : bl_onnx_make(c, "add(mul($0, $1), $2)", ARGS(V(at), V(extent), V(own)));
    }
    const bl_node *row = bl_shape_count(ir, rank - n, x->type->dim + n), *rows = bl_shape_count(ir, n, x->type->dim);
    const bl_node *count = bl_shape_count(ir, bl_onnx_rank(at), at != NULL ? at->type->dim : NULL);
    const bl_node *flat[2] = {rows, row}, *sent[2] = {count, row}, *column[2] = {count, bl_index(ir, 1)};
    at = bl_onnx_make(c, "expand(reshape($0, shape=$1), shape=$2)", ARGS(V(at), ZS(2, column), ZS(2, sent)));
    updates = bl_onnx_make(c, "reshape(c, shape=$0)", ARGS(ZS(2, sent)));
    at = ops_index_scatter(c, bl_onnx_make(c, "reshape(a, shape=$0)", ARGS(ZS(2, flat))), at, updates, 0);
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(at), ZS(rank, x->type->dim)));
}

/* Writes a window of a cache at a position per batch, or cyclically. */
bl_onnx_value *bl_onnx_write_tensor_scatter(bl_onnx_call *c)
{
    bl_onnx_value *cache = bl_onnx_in(c, 0), *update = bl_onnx_in(c, 1), *from = bl_onnx_in(c, 2), *at;
    int rank = bl_onnx_rank(cache), axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", -2), rank);
    bool circular = strcmp(bl_onnx_text(c, "mode", "linear"), "circular") == 0;
    bl_ir *ir = c->import->ir;
    const bl_node *dim[BL_MAX_DIMS], *first[BL_MAX_DIMS];

    if (cache == NULL || update == NULL || bl_onnx_rank(update) != rank || c->import->failed)
        return bl_onnx_fail(c, "needs a cache and an update of as many dimensions");
    for (int i = 0; i < rank; i++) {
        dim[i] = i == axis ? update->type->dim[i] : bl_index(ir, 1);
        first[i] = i == 0 ? update->type->dim[0] : bl_index(ir, 1);
    }
    at = bl_onnx_make(c, "reshape(arange(stop=$0), shape=$1)", ARGS(ZS(-1, &update->type->dim[axis]), ZS(rank, dim)));
    if (from != NULL)
        at = bl_onnx_make(c, "add($0, reshape(c, shape=$1))", ARGS(V(at), ZS(rank, first)));
    if (circular)
        at = bl_onnx_make(c, "mod($0, $1)", ARGS(V(at), V(bl_onnx_size_value(c, cache->type->dim[axis]))));
    at = bl_onnx_make(c, "expand($0, shape=$1)", ARGS(V(at), ZS(rank, update->type->dim)));
    return bl_onnx_make(c, "scatter(a, $0, b, axis=$1)", ARGS(V(at), I(axis)));
}

/* ---- one-hot and reversal */

bl_onnx_value *bl_onnx_write_one_hot(bl_onnx_call *c)
{
    const bl_node *const *depth;
    bl_onnx_value *index = bl_onnx_in(c, 0), *values = bl_onnx_in(c, 2), *is;
    int rank = bl_onnx_rank(index) + 1, axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", -1), rank);
    int64_t perm[BL_MAX_DIMS];
    bl_onnx_value *number;

    number = bl_onnx_in(c, 1);
    const bl_onnx_known *known = bl_onnx_know(c->import, number);
    if (known != NULL && known->real != NULL && known->count == 1)
        c->in[1] = bl_onnx_known_ints(
            c->import, 1, &(int64_t){bl_scalar_cast(BL_I64, BL_F64, (bl_scalar){.f = known->real[0]}).i}); /* saturates */
    if (bl_onnx_in_sizes(c, 1, &depth) != 1 || index == NULL || values == NULL || rank > BL_MAX_DIMS)
        return bl_onnx_fail(c, "needs indices, one depth and two values");
    index = bl_onnx_make(c, "cast(a, dtype=int64)", NULL);
    index = bl_onnx_make(c, "where(less($0, 0), add($0, $1), $0)", ARGS(V(index), V(bl_onnx_size_value(c, depth[0]))));
    is = bl_onnx_make(c, "equal(unsqueeze($0, axis=-1), arange(stop=$1))", ARGS(V(index), ZS(-1, depth)));
    for (int i = 0; i < rank; i++)
        perm[i] = i == axis ? rank - 1 : i < axis ? i : i - 1;
    is = bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(is), IS(rank, perm)));
    return bl_onnx_make(c, "where($0, slice(c, start=1, stop=2), slice(c, start=0, stop=1))", ARGS(V(is)));
}

/* One-hot of the first maximum. */
bl_onnx_value *bl_onnx_write_hardmax(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *y = x;
    int rank = bl_onnx_rank(x), axis = bl_onnx_axis(c, bl_onnx_int(c, "axis", c->opset < 13 ? 1 : -1), rank);
    const bl_node *dim[BL_MAX_DIMS];

    if (x == NULL || c->import->failed)
        return NULL;
    if (c->opset < 13 && axis < rank - 1)
        y = bl_onnx_make(c, "flatten(a, start_axis=$0)", ARGS(I(axis)));
    for (int i = 0; i < bl_onnx_rank(y); i++)
        dim[i] = i == axis ? y->type->dim[i] : bl_index(c->import->ir, 1);
    y = bl_onnx_make(c, "cast(equal(argmax($0, axis=$1, keepdim=true), reshape(arange(stop=$2), shape=$3)), dtype=$4)",
                     ARGS(V(y), I(axis), ZS(-1, &dim[axis]), ZS(bl_onnx_rank(y), dim), D(bl_onnx_type(x))));
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(rank, x->type->dim)));
}

/* Reverses the first elements of each batch, up to its length. */
bl_onnx_value *bl_onnx_write_reverse_sequence(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *at, *lengths;
    int rank = bl_onnx_rank(x);
    int64_t batch = bl_onnx_int(c, "batch_axis", 1), time = bl_onnx_int(c, "time_axis", 0);
    const bl_node *one = bl_index(c->import->ir, 1), *each[BL_MAX_DIMS], *along[BL_MAX_DIMS];

    if (rank < 2 || batch + time != 1 || batch * time != 0)
        return bl_onnx_fail(c, "needs batch and time as its first two axes");
    for (int i = 0; i < rank; i++) {
        each[i] = i == batch ? x->type->dim[i] : one;
        along[i] = i == time ? x->type->dim[i] : one;
    }
    at = bl_onnx_make(c, "reshape(arange(stop=$0), shape=$1)", ARGS(ZS(-1, &x->type->dim[time]), ZS(rank, along)));
    lengths = bl_onnx_make(c, "reshape(b, shape=$0)", ARGS(ZS(rank, each)));
    at = bl_onnx_make(c, "where(less($0, $1), sub(sub($1, 1), $0), $0)", ARGS(V(at), V(lengths)));
    at = bl_onnx_make(c, "expand($0, shape=$1)", ARGS(V(at), ZS(rank, x->type->dim)));
    return bl_onnx_make(c, "gather(a, $0, axis=$1)", ARGS(V(at), I(time)));
}

/* ---- optional values */

bl_onnx_value *bl_onnx_write_optional_has_element(bl_onnx_call *c)
{
    return bl_onnx_known_real(c->import, BL_BOOL, bl_onnx_in(c, 0) != NULL);
}
