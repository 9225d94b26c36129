/* SPDX-License-Identifier: MIT */
/* Attention and rotary embeddings. */
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

/* [batch, length, heads * size] as [batch, heads, length, size]. */
static bl_onnx_value *split_heads(bl_onnx_call *c, bl_onnx_value *x, int64_t heads)
{
    bl_ir *ir = c->import->ir;
    static const int64_t perm[4] = {0, 2, 1, 3};

    if (bl_onnx_rank(x) != 3 || heads < 1)
        return bl_onnx_fail(c, "needs [batch, length, heads * size] and the number of heads");
    const bl_node *dim[4] = {x->type->dim[0], x->type->dim[1], bl_index(ir, heads),
                             bl_idiv(ir, x->type->dim[2], bl_index(ir, heads))};
    return bl_onnx_make(c, "permute(reshape($0, shape=$1), axes=$2)", ARGS(V(x), ZS(4, dim), IS(4, perm)));
}

static bl_onnx_value *merge_heads(bl_onnx_call *c, bl_onnx_value *x)
{
    static const int64_t perm[4] = {0, 2, 1, 3};

    return bl_onnx_make(c, "flatten(permute($0, axes=$1), start_axis=2)", ARGS(V(x), IS(4, perm)));
}

/* 0 where the bool holds, else -infinity. */
static bl_onnx_value *as_bias(bl_onnx_call *c, bl_onnx_value *allowed, bl_dtype dtype)
{
    return bl_onnx_make(
        c, "where($0, $1, $2)",
        ARGS(V(allowed), V(bl_onnx_known_real(c->import, dtype, 0)), V(bl_onnx_known_real(c->import, dtype, -INFINITY))));
}

static bl_onnx_value *add_bias(bl_onnx_call *c, bl_onnx_value *bias, bl_onnx_value *more)
{
    return bias == NULL ? more : bl_onnx_make(c, "add($0, $1)", ARGS(V(bias), V(more)));
}

/* Query i of |rows| looks at keys up to i + offset: [rows, keys], with axes for each batch where the offset is of each. */
static bl_onnx_value *places_apart(bl_onnx_call *c, const bl_node *rows, const bl_node *keys, bl_onnx_value *offset)
{
    bl_onnx_value *row = bl_onnx_make(c, "unsqueeze(arange(stop=$0), axis=-1)", ARGS(ZS(-1, &rows)));

    if (offset != NULL)
        row = bl_onnx_make(c, "add($0, $1)", ARGS(V(row), V(offset)));
    return bl_onnx_make(c, "sub($0, arange(stop=$1))", ARGS(V(row), ZS(-1, &keys)));
}

/* A mask that ends before the keys do forbids the rest. */
static bl_onnx_value *lengthen_mask(bl_onnx_call *c, bl_onnx_value *mask, const bl_node *keys)
{
    const bl_node *zero = bl_index(c->import->ir, 0), *pads[2 * BL_MAX_DIMS];
    int rank = bl_onnx_rank(mask);

    if (mask == NULL || rank == 0 || mask->type->dim[rank - 1] == keys || bl_is_int(mask->type->dim[rank - 1], 1))
        return mask;
    for (int i = 0; i < 2 * rank; i++)
        pads[i] = zero;
    pads[2 * rank - 1] = bl_sub(c->import->ir, keys, mask->type->dim[rank - 1]);
    return bl_onnx_make(c, bl_onnx_type(mask) == BL_BOOL ? "pad($0, padding=$1)" : "pad($0, padding=$1, value=$2)",
                        ARGS(V(mask), ZS(2 * rank, pads), R(-INFINITY)));
}

/* Everything that says which key a query may look at, as what is added to the scores; NULL: nothing does. */
static bl_onnx_value *make_bias(bl_onnx_call *c, bl_onnx_value *q, const bl_node *keys, const bl_node *past)
{
    bl_onnx_value *mask = lengthen_mask(c, bl_onnx_in(c, 3), keys), *filled = bl_onnx_in(c, 6), *bias = NULL, *offset = NULL,
                  *apart;
    int64_t left = bl_onnx_int(c, "left_window_size", -1), right = bl_onnx_int(c, "right_window_size", -1);
    bool causal = bl_onnx_int(c, "is_causal", 0) != 0;
    bl_dtype dtype = bl_onnx_type(q);
    const bl_node *rows = q->type->dim[2];
    bl_ir *ir = c->import->ir;

    if (mask != NULL)
        bias = bl_onnx_type(mask) == BL_BOOL ? as_bias(c, mask, dtype) : mask;
    if (causal || left >= 0 || right >= 0) {
        const bl_node *each[4] = {q->type->dim[0], bl_index(ir, 1), bl_index(ir, 1), bl_index(ir, 1)};
        if (filled != NULL)
            offset = bl_onnx_make(c, "reshape(sub(g, $0), shape=$1)", ARGS(V(bl_onnx_size_value(c, rows)), ZS(4, each)));
        else if (past != NULL)
            offset = bl_onnx_size_value(c, past);
        apart = places_apart(c, rows, keys, offset);
        if (causal)
            bias = add_bias(c, bias, as_bias(c, bl_onnx_make(c, "greater_equal($0, 0)", ARGS(V(apart))), dtype));
        if (left >= 0)
            bias = add_bias(c, bias, as_bias(c, bl_onnx_make(c, "less_equal($0, $1)", ARGS(V(apart), I(left))), dtype));
        if (right >= 0)
            bias = add_bias(c, bias, as_bias(c, bl_onnx_make(c, "greater_equal($0, $1)", ARGS(V(apart), I(-right))), dtype));
    }
    if (filled != NULL) {
        const bl_node *each[4] = {q->type->dim[0], bl_index(ir, 1), bl_index(ir, 1), bl_index(ir, 1)};
        bl_onnx_value *is = bl_onnx_make(c, "less(arange(stop=$0), reshape(g, shape=$1))", ARGS(ZS(-1, &keys), ZS(4, each)));
        bias = add_bias(c, bias, as_bias(c, is, dtype));
    }
    return bias;
}

/* Each head of keys and values as often as there are queries for it. */
static bl_onnx_value *repeat_heads(bl_onnx_call *c, bl_onnx_value *x, const bl_onnx_value *q)
{
    if (x == NULL || q == NULL || x->type->dim[1] == q->type->dim[1] || !bl_is_const(x->type->dim[1]) ||
        !bl_is_const(q->type->dim[1]))
        return x;
    int64_t own = x->type->dim[1]->hi, wanted = q->type->dim[1]->hi;
    if (own < 1 || wanted % own != 0)
        return bl_onnx_fail(c, "%lld heads of queries for %lld of keys", (long long)wanted, (long long)own);
    return bl_onnx_make(c, "repeat_interleave($0, repeats=$1, axis=1)", ARGS(V(x), I(wanted / own)));
}

/* softmax(scores + bias), and zeros in rows that may look at no key. */
static bl_onnx_value *guarded_softmax(bl_onnx_call *c, bl_onnx_value *scores, bl_onnx_value *bias)
{
    bl_onnx_value *all;

    scores = bl_onnx_make(c, "softmax($0)", ARGS(V(scores)));
    if (bias == NULL || bl_onnx_rank(bias) == 0)
        return scores;
    all = bl_onnx_make(c, "equal(max($0, axis=-1, keepdim=true), $1)",
                       ARGS(V(bias), V(bl_onnx_known_real(c->import, bl_onnx_type(bias), -INFINITY))));
    return bl_onnx_make(c, "where($0, 0, $1)", ARGS(V(all), V(scores)));
}

/* Scores at the stage that qk_matmul_output_mode names. */
static void keep_scores(bl_onnx_call *c, int64_t stage, bl_onnx_value *scores, bl_dtype dtype)
{
    if (bl_onnx_wants(c, 3) && bl_onnx_int(c, "qk_matmul_output_mode", 0) == stage)
        c->out[3] = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(scores), D(dtype)));
}

/* Which stages there are changed its order with opset 24's errata: 0 scores, 1 with the cap, 2 with the bias, 3 probabilities. */
static bl_onnx_value *attend(bl_onnx_call *c, bl_onnx_value *q, bl_onnx_value *k, bl_onnx_value *v, bl_onnx_value *bias)
{
    bl_dtype dtype = bl_onnx_type(q);
    double scale = bl_onnx_float(c, "scale", 0), cap = bl_onnx_float(c, "softcap", 0);
    int precision = (int)bl_onnx_int(c, "softmax_precision", 0);
    bl_onnx_value *scores, *shares;

    if (scale == 0 && (!bl_is_const(q->type->dim[3]) || q->type->dim[3]->hi < 1))
        return bl_onnx_fail(c, "the size of a head must be fixed");
    scale = scale != 0 ? scale : 1 / sqrt((double)q->type->dim[3]->hi);
    scores = bl_onnx_make(c, "mul(matmul($0, transpose($1)), $2)", ARGS(V(q), V(repeat_heads(c, k, q)), R(scale)));
    keep_scores(c, 0, scores, dtype);
    if (cap > 0)
        scores = bl_onnx_make(c, "mul(tanh(div($0, $1)), $1)", ARGS(V(scores), R(cap)));
    keep_scores(c, 1, scores, dtype);
    if (bias != NULL)
        scores = bl_onnx_make(c, "add($0, $1)", ARGS(V(scores), V(bias)));
    keep_scores(c, 2, scores, dtype);
    if (precision != 0 && bl_onnx_dtype(precision) != BL_DTYPE_COUNT)
        scores = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(scores), D(bl_onnx_dtype(precision))));
    shares = guarded_softmax(c, scores, bias);
    keep_scores(c, 3, shares, dtype);
    return bl_onnx_make(c, "matmul(cast($0, dtype=$1), $2)", ARGS(V(shares), D(dtype), V(repeat_heads(c, v, q))));
}

bl_onnx_value *bl_onnx_write_attention(bl_onnx_call *c)
{
    bl_onnx_value *q = bl_onnx_in(c, 0), *k = bl_onnx_in(c, 1), *v = bl_onnx_in(c, 2), *y;
    bool flat = bl_onnx_rank(q) == 3;
    const bl_node *past = NULL;

    if (q == NULL || k == NULL || v == NULL)
        return bl_onnx_fail(c, "needs queries, keys and values");
    if (flat) {
        q = split_heads(c, q, bl_onnx_int(c, "q_num_heads", 0));
        k = split_heads(c, k, bl_onnx_int(c, "kv_num_heads", 0));
        v = split_heads(c, v, bl_onnx_int(c, "kv_num_heads", 0));
    }
    if (bl_onnx_rank(q) != 4 || bl_onnx_rank(k) != 4 || bl_onnx_rank(v) != 4)
        return bl_onnx_fail(c, "queries, keys and values must have 3 dimensions or 4");
    if (bl_onnx_in(c, 4) != NULL && bl_onnx_in(c, 5) != NULL) {
        past = bl_onnx_rank(c->in[4]) == 4 ? c->in[4]->type->dim[2] : NULL;
        k = bl_onnx_make(c, "cat(e, $0, axis=2)", ARGS(V(k)));
        v = bl_onnx_make(c, "cat(f, $0, axis=2)", ARGS(V(v)));
    }
    if (k == NULL || v == NULL)
        return NULL;
    if (bl_onnx_wants(c, 1))
        c->out[1] = k;
    if (bl_onnx_wants(c, 2))
        c->out[2] = v;
    y = attend(c, q, k, v, make_bias(c, q, k->type->dim[2], past));
    return flat ? merge_heads(c, y) : y;
}

/* ---- that of com.microsoft: data, weights of all three, bias, mask, past */

/* Which keys count: [batch] lengths, or [batch, keys] ones and zeros. */
static bl_onnx_value *mask_keys(bl_onnx_call *c, const bl_node *batch, const bl_node *keys)
{
    bl_onnx_value *mask = bl_onnx_in(c, 3);
    bl_ir *ir = c->import->ir;
    const bl_node *each[4] = {batch, bl_index(ir, 1), bl_index(ir, 1), bl_index(ir, 1)};
    double low = bl_onnx_float(c, "mask_filter_value", -10000);

    if (mask == NULL)
        return NULL;
    if (bl_onnx_rank(mask) == 1) {
        mask = bl_onnx_make(c, "less(arange(stop=$0), reshape(d, shape=$1))", ARGS(ZS(-1, &keys), ZS(4, each)));
    } else if (bl_onnx_rank(mask) == 2) {
        each[3] = keys;
        mask = bl_onnx_make(c, "cast(reshape(d, shape=$0), dtype=bool)", ARGS(ZS(4, each)));
    } else if (bl_onnx_rank(mask) == 3) {
        mask = bl_onnx_make(c, "cast(unsqueeze(d, axis=1), dtype=bool)", NULL);
    } else {
        return bl_onnx_fail(c, "a mask of %d dimensions", bl_onnx_rank(mask));
    }
    return bl_onnx_make(
        c, "where($0, $1, $2)",
        ARGS(V(mask), V(bl_onnx_known_real(c->import, BL_F32, 0)), V(bl_onnx_known_real(c->import, BL_F32, low))));
}

bl_onnx_value *bl_onnx_write_microsoft_attention(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *part[3], *y, *bias, *past = bl_onnx_in(c, 4);
    int64_t heads = bl_onnx_int(c, "num_heads", 0), sizes[3];
    const int64_t *own;
    int n = bl_onnx_ints(c, "qkv_hidden_sizes", &own);

    if (bl_onnx_rank(x) != 3 || bl_onnx_rank(bl_onnx_in(c, 1)) != 2 || (n >= 0 && n != 3))
        return bl_onnx_fail(c, "needs data [batch, length, size] and a matrix of weights");
    for (int i = 0; i < 3; i++)
        sizes[i] = n == 3 ? own[i] : c->in[1]->type->dim[1]->hi / 3;
    y = bl_onnx_make(c, "matmul(a, b)", NULL);
    if (bl_onnx_in(c, 2) != NULL)
        y = bl_onnx_make(c, "add($0, c)", ARGS(V(y)));
    if (!bl_onnx_make_many(c, "split($0, sizes=$1, axis=-1)", ARGS(V(y), IS(3, sizes)), 3, part))
        return NULL;
    for (int i = 0; i < 3; i++)
        part[i] = split_heads(c, part[i], heads);
    if (past != NULL) {
        part[1] = bl_onnx_make(c, "cat(squeeze(slice(e, start=0, stop=1, axis=0), axis=0), $0, axis=2)", ARGS(V(part[1])));
        part[2] = bl_onnx_make(c, "cat(squeeze(slice(e, start=1, stop=2, axis=0), axis=0), $0, axis=2)", ARGS(V(part[2])));
    }
    if (c->import->failed)
        return NULL;
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "stack($0, $1)", ARGS(V(part[1]), V(part[2])));
    const bl_node *keys = part[1]->type->dim[2], *rows = part[0]->type->dim[2];
    bias = mask_keys(c, x->type->dim[0], keys);
    if (bl_onnx_int(c, "unidirectional", 0) != 0) {
        bl_onnx_value *offset = past != NULL ? bl_onnx_size_value(c, bl_sub(c->import->ir, keys, rows)) : NULL;
        bl_onnx_value *is = bl_onnx_make(c, "greater_equal($0, 0)", ARGS(V(places_apart(c, rows, keys, offset))));
        bias = add_bias(c, bias, as_bias(c, is, bl_onnx_type(x)));
    }
    if (bl_onnx_in(c, 5) != NULL)
        bias = add_bias(c, bias, c->in[5]);
    return merge_heads(c, attend(c, part[0], part[1], part[2], bias));
}

/* ---- rotary embeddings */

/* x [batch, length, heads, size]; caches [batch or none, length, half] */
static bl_onnx_value *rotate(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *cos, bl_onnx_value *sin)
{
    int64_t size = bl_onnx_rank(x) == 4 ? x->type->dim[3]->hi : 0, dim = bl_onnx_int(c, "rotary_embedding_dim", 0), half;
    bool pairs = bl_onnx_int(c, "interleaved", 0) != 0;
    bl_onnx_value *first, *second, *real, *other, *y;

    dim = dim == 0 ? size : dim;
    half = dim / 2;
    if (bl_onnx_rank(x) != 4 || !bl_is_const(x->type->dim[3]) || dim < 2 || dim > size)
        return bl_onnx_fail(c, "needs heads of a fixed size");
    cos = bl_onnx_make(c, "unsqueeze($0, axis=-2)", ARGS(V(cos)));
    sin = bl_onnx_make(c, "unsqueeze($0, axis=-2)", ARGS(V(sin)));
    if (pairs) {
        first = bl_onnx_make(c, "slice($0, start=0, stop=$1, step=2, axis=-1)", ARGS(V(x), I(dim)));
        second = bl_onnx_make(c, "slice($0, start=1, stop=$1, step=2, axis=-1)", ARGS(V(x), I(dim)));
    } else {
        first = bl_onnx_make(c, "slice($0, start=0, stop=$1, axis=-1)", ARGS(V(x), I(half)));
        second = bl_onnx_make(c, "slice($0, start=$1, stop=$2, axis=-1)", ARGS(V(x), I(half), I(dim)));
    }
    real = bl_onnx_make(c, "sub(mul($0, $1), mul($2, $3))", ARGS(V(cos), V(first), V(sin), V(second)));
    other = bl_onnx_make(c, "add(mul($0, $1), mul($2, $3))", ARGS(V(sin), V(first), V(cos), V(second)));
    if (pairs)
        y = bl_onnx_make(c, "flatten(stack($0, $1, axis=-1), start_axis=-2)", ARGS(V(real), V(other)));
    else
        y = bl_onnx_make(c, "cat($0, $1, axis=-1)", ARGS(V(real), V(other)));
    return dim == size ? y : bl_onnx_make(c, "cat($0, slice($1, start=$2, axis=-1), axis=-1)", ARGS(V(y), V(x), I(dim)));
}

/* Heads last but one while it turns, and back. */
static bl_onnx_value *rotary(bl_onnx_call *c, bl_onnx_value *cos, bl_onnx_value *sin, bl_onnx_value *positions)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    bl_onnx_value *x = bl_onnx_in(c, 0), *y;
    int64_t heads = bl_onnx_int(c, "num_heads", 0);
    bl_ir *ir = c->import->ir;

    if (positions != NULL) {
        cos = bl_onnx_make(c, "take($0, $1)", ARGS(V(cos), V(positions)));
        sin = bl_onnx_make(c, "take($0, $1)", ARGS(V(sin), V(positions)));
    }
    if (bl_onnx_rank(x) == 4) {
        y = rotate(c, bl_onnx_make(c, "permute(a, axes=$0)", ARGS(IS(4, perm))), cos, sin);
        return bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(y), IS(4, perm)));
    }
    if (bl_onnx_rank(x) != 3 || cos == NULL)
        return bl_onnx_fail(c, "needs a tensor of 3 dimensions or 4");
    if (heads < 1) /* the caches tell how large a head is */
        heads = x->type->dim[2]->hi / (2 * cos->type->dim[bl_onnx_rank(cos) - 1]->hi);
    if (heads < 1)
        return bl_onnx_fail(c, "needs num_heads");
    const bl_node *dim[4] = {x->type->dim[0], x->type->dim[1], bl_index(ir, heads),
                             bl_idiv(ir, x->type->dim[2], bl_index(ir, heads))};
    y = rotate(c, bl_onnx_make(c, "reshape(a, shape=$0)", ARGS(ZS(4, dim))), cos, sin);
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(3, x->type->dim)));
}

bl_onnx_value *bl_onnx_write_rotary_embedding(bl_onnx_call *c)
{
    return rotary(c, bl_onnx_in(c, 1), bl_onnx_in(c, 2), bl_onnx_in(c, 3));
}

/* The positions come first, and one number of them counts from there on. */
bl_onnx_value *bl_onnx_write_microsoft_rotary_embedding(bl_onnx_call *c)
{
    bl_onnx_value *at = bl_onnx_in(c, 1), *x = bl_onnx_in(c, 0);
    int rank = bl_onnx_rank(x);

    if (at == NULL || rank < 3)
        return bl_onnx_fail(c, "needs data and positions");
    if (bl_onnx_rank(at) == 1)
        at = bl_onnx_make(c, "unsqueeze(add(b, arange(stop=$0)), axis=0)", ARGS(ZS(-1, &x->type->dim[rank == 4 ? 2 : 1])));
    return rotary(c, bl_onnx_in(c, 2), bl_onnx_in(c, 3), at);
}
