/* SPDX-License-Identifier: MIT */
/* Attention and rotary embeddings. */
#include "proto/onnx/attention.h"

#include <math.h>
#include <string.h>

bl_onnx_value *bl_onnx_split_heads(bl_onnx_call *c, bl_onnx_value *x, int64_t heads)
{
    bl_ir *ir = c->import->ir;
    static const int64_t perm[4] = {0, 2, 1, 3};

    if (bl_onnx_rank(x) != 3 || heads < 1)
        return bl_onnx_fail(c, "needs [batch, length, heads * size] and the number of heads");
    const bl_node *dim[4] = {x->type->dim[0], x->type->dim[1], bl_index(ir, heads),
                             bl_idiv(ir, x->type->dim[2], bl_index(ir, heads))};
    return bl_onnx_make(c, "permute(reshape($0, shape=$1), axes=$2)", ARGS(V(x), ZS(4, dim), IS(4, perm)));
}

bl_onnx_value *bl_onnx_merge_heads(bl_onnx_call *c, bl_onnx_value *x)
{
    static const int64_t perm[4] = {0, 2, 1, 3};

    return bl_onnx_make(c, "flatten(permute($0, axes=$1), start_axis=2)", ARGS(V(x), IS(4, perm)));
}

bl_onnx_value *bl_onnx_as_bias(bl_onnx_call *c, bl_onnx_value *allowed, bl_dtype dtype)
{
    return bl_onnx_make(
        c, "where($0, $1, $2)",
        ARGS(V(allowed), V(bl_onnx_known_real(c->import, dtype, 0)), V(bl_onnx_known_real(c->import, dtype, -INFINITY))));
}

bl_onnx_value *bl_onnx_add_bias(bl_onnx_call *c, bl_onnx_value *bias, bl_onnx_value *more)
{
    return bias == NULL ? more : bl_onnx_make(c, "add($0, $1)", ARGS(V(bias), V(more)));
}

bl_onnx_value *bl_onnx_places_apart(bl_onnx_call *c, const bl_node *rows, const bl_node *keys, bl_onnx_value *offset)
{
    bl_onnx_value *row = bl_onnx_make(c, "unsqueeze(arange(stop=$0), axis=-1)", ARGS(ZS(-1, &rows)));

    if (offset != NULL)
        row = bl_onnx_make(c, "add($0, $1)", ARGS(V(row), V(offset)));
    return bl_onnx_make(c, "sub($0, arange(stop=$1))", ARGS(V(row), ZS(-1, &keys)));
}

/* Pads a mask that is shorter than the keys; the missing keys are masked out. */
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

/* Combines every mask into a bias that is added to the scores; NULL if no mask applies. */
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
        bias = bl_onnx_type(mask) == BL_BOOL ? bl_onnx_as_bias(c, mask, dtype) : mask;
    if (causal || left >= 0 || right >= 0) {
        const bl_node *each[4] = {q->type->dim[0], bl_index(ir, 1), bl_index(ir, 1), bl_index(ir, 1)};
        if (filled != NULL)
            offset = bl_onnx_make(c, "reshape(sub(g, $0), shape=$1)", ARGS(V(bl_onnx_size_value(c, rows)), ZS(4, each)));
        else if (past != NULL)
            offset = bl_onnx_size_value(c, past);
        apart = bl_onnx_places_apart(c, rows, keys, offset);
        if (causal)
            bias = bl_onnx_add_bias(c, bias, bl_onnx_as_bias(c, bl_onnx_make(c, "greater_equal($0, 0)", ARGS(V(apart))), dtype));
        if (left >= 0)
            bias = bl_onnx_add_bias(c, bias,
                                    bl_onnx_as_bias(c, bl_onnx_make(c, "less_equal($0, $1)", ARGS(V(apart), I(left))), dtype));
        if (right >= 0)
            bias = bl_onnx_add_bias(
                c, bias, bl_onnx_as_bias(c, bl_onnx_make(c, "greater_equal($0, $1)", ARGS(V(apart), I(-right))), dtype));
    }
    if (filled != NULL) {
        const bl_node *each[4] = {q->type->dim[0], bl_index(ir, 1), bl_index(ir, 1), bl_index(ir, 1)};
        bl_onnx_value *is = bl_onnx_make(c, "less(arange(stop=$0), reshape(g, shape=$1))", ARGS(ZS(-1, &keys), ZS(4, each)));
        bias = bl_onnx_add_bias(c, bias, bl_onnx_as_bias(c, is, dtype));
    }
    return bias;
}

/* Repeats each head of keys and values for each of its query heads. */
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

/* softmax(scores + bias), with zeros in rows that may attend to no key. */
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

/* A softmax with sink logits: |sink| is one additional score in each row, which belongs to no key. */
static bl_onnx_value *sink_softmax(bl_onnx_call *c, bl_onnx_value *scores, bl_onnx_value *sink)
{
    if (scores == NULL)
        return NULL;
    const bl_node *dim[4] = {scores->type->dim[0], scores->type->dim[1], scores->type->dim[2], bl_index(c->import->ir, 1)};
    return bl_onnx_make(c, "slice(softmax(cat($0, expand($1, shape=$2), axis=-1)), stop=$3, axis=[-1])",
                        ARGS(V(scores), V(sink), ZS(4, dim), ZS(1, &scores->type->dim[3])));
}

static void show_scores(bl_onnx_heads *h, int stage, bl_onnx_value *scores)
{
    if (h->shows == stage)
        h->shown = scores;
}

bl_onnx_value *bl_onnx_attend(bl_onnx_call *c, bl_onnx_heads *h)
{
    double scale = bl_onnx_float(c, "scale", 0), cap = bl_onnx_float(c, "softcap", 0);
    int precision = (int)bl_onnx_int(c, "softmax_precision", 0);
    bl_onnx_value *scores, *shares, *q = h->q;

    if (c->import->failed || q == NULL || h->k == NULL || h->v == NULL)
        return NULL;
    bl_dtype dtype = bl_onnx_type(q);
    if (scale == 0 && (!bl_is_const(q->type->dim[3]) || q->type->dim[3]->hi < 1))
        return bl_onnx_fail(c, "the size of a head must be fixed");
    scale = scale != 0 ? scale : 1 / sqrt((double)q->type->dim[3]->hi);
    scores = bl_onnx_make(c, "mul(matmul($0, transpose($1)), $2)", ARGS(V(q), V(repeat_heads(c, h->k, q)), R(scale)));
    show_scores(h, 1, scores);
    if (cap > 0)
        scores = bl_onnx_make(c, "mul(tanh(div($0, $1)), $1)", ARGS(V(scores), R(cap)));
    show_scores(h, 2, scores);
    if (h->bias != NULL)
        scores = bl_onnx_make(c, "add($0, $1)", ARGS(V(scores), V(h->bias)));
    show_scores(h, 3, scores);
    if (precision != 0 && bl_onnx_dtype(precision) != BL_DTYPE_COUNT)
        scores = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(scores), D(bl_onnx_dtype(precision))));
    shares = h->sink != NULL ? sink_softmax(c, scores, h->sink) : guarded_softmax(c, scores, h->forbids ? h->bias : NULL);
    show_scores(h, 4, shares);
    return bl_onnx_make(c, "matmul(cast($0, dtype=$1), $2)", ARGS(V(shares), D(dtype), V(repeat_heads(c, h->v, q))));
}

bl_onnx_value *bl_onnx_write_attention(bl_onnx_call *c)
{
    bl_onnx_value *q = bl_onnx_in(c, 0), *k = bl_onnx_in(c, 1), *v = bl_onnx_in(c, 2), *y;
    bool flat = bl_onnx_rank(q) == 3;
    const bl_node *past = NULL;

    if (q == NULL || k == NULL || v == NULL)
        return bl_onnx_fail(c, "needs queries, keys and values");
    if (flat) {
        q = bl_onnx_split_heads(c, q, bl_onnx_int(c, "q_num_heads", 0));
        k = bl_onnx_split_heads(c, k, bl_onnx_int(c, "kv_num_heads", 0));
        v = bl_onnx_split_heads(c, v, bl_onnx_int(c, "kv_num_heads", 0));
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
    /* the errata of opset 24 changed the order of the stages */
    bl_onnx_heads heads = {.q = q,
                           .k = k,
                           .v = v,
                           .bias = make_bias(c, q, k->type->dim[2], past),
                           .forbids = true,
                           .shows = bl_onnx_wants(c, 3) ? 1 + (int)bl_onnx_int(c, "qk_matmul_output_mode", 0) : 0};
    y = bl_onnx_attend(c, &heads);
    if (heads.shown != NULL)
        c->out[3] = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(heads.shown), D(bl_onnx_type(q))));
    return flat ? bl_onnx_merge_heads(c, y) : y;
}

/* ---- FlexAttention */

/* Writes the graph of an attribute in place, applied to |x|; returns |x| if there is no graph. */
static bl_onnx_value *apply_graph(bl_onnx_call *c, const char *attribute, bl_onnx_value *x)
{
    const Onnx__GraphProto *graph = bl_onnx_attr(c, attribute) != NULL ? bl_onnx_body(c, attribute) : NULL;
    bl_onnx_names *names = bl_onnx_open_names(c->import, c->names, c->graph);
    bl_onnx_value *y;

    if (graph == NULL || names == NULL || x == NULL)
        return x;
    if (graph->n_input != 1 || graph->n_output != 1 || graph->input[0]->name == NULL || graph->output[0]->name == NULL)
        return bl_onnx_fail(c, "%s must have one input and one output", attribute);
    bl_onnx_put(c->import, names, graph->input[0]->name, x);
    bl_onnx_write_graph(c->import, names, graph);
    y = c->import->failed ? NULL : bl_onnx_find(names, graph->output[0]->name);
    return y != NULL
               ? y
               : bl_onnx_fail(c, "%s does not return \"%.100s\"", attribute, bl_onnx_clean(c->import, graph->output[0]->name));
}

bl_onnx_value *bl_onnx_write_flex_attention(bl_onnx_call *c)
{
    bl_onnx_value *q = bl_onnx_in(c, 0), *k = bl_onnx_in(c, 1), *v = bl_onnx_in(c, 2), *scores;
    int precision = (int)bl_onnx_int(c, "softmax_precision", 0);
    double scale = bl_onnx_float(c, "scale", 0);

    if (bl_onnx_rank(q) != 4 || bl_onnx_rank(k) != 4 || bl_onnx_rank(v) != 4 || !bl_is_const(q->type->dim[3]) ||
        q->type->dim[3]->hi < 1)
        return bl_onnx_fail(c, "needs queries, keys and values [batch, heads, length, size] with a fixed size");
    scale = bl_onnx_attr(c, "scale") != NULL ? scale : 1 / sqrt((double)q->type->dim[3]->hi);
    bl_dtype dtype = precision != 0 ? bl_onnx_dtype(precision) : bl_onnx_type(q) == BL_F64 ? BL_F64 : BL_F32;
    if (dtype == BL_DTYPE_COUNT || !bl_dtype_is_float(dtype))
        return bl_onnx_fail(c, "softmax_precision is %d; it must be a type of floats", precision);
    scores = bl_onnx_make(c, "mul(cast(matmul($0, transpose($1)), dtype=$2), $3)",
                          ARGS(V(q), V(repeat_heads(c, k, q)), D(dtype), R(scale)));
    scores = bl_onnx_make(c, "softmax($0)", ARGS(V(apply_graph(c, "score_mod", scores))));
    scores = apply_graph(c, "prob_mod", scores);
    return bl_onnx_make(c, "cast(matmul($0, cast($1, dtype=$2)), dtype=$3)",
                        ARGS(V(scores), V(repeat_heads(c, v, q)), D(dtype), D(bl_onnx_type(v))));
}

/* ---- rotary embeddings */

bl_onnx_value *bl_onnx_rotate(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *cos, bl_onnx_value *sin, bool interleaved)
{
    int64_t size = bl_onnx_rank(x) == 4 ? x->type->dim[3]->hi : 0, dim = bl_onnx_int(c, "rotary_embedding_dim", 0), half;
    bl_onnx_value *first, *second, *real, *other, *y;

    dim = dim == 0 ? size : dim;
    half = dim / 2;
    if (bl_onnx_rank(x) != 4 || !bl_is_const(x->type->dim[3]) || dim < 2 || dim > size)
        return bl_onnx_fail(c, "needs heads of a fixed size");
    cos = bl_onnx_make(c, "unsqueeze($0, axis=-2)", ARGS(V(cos)));
    sin = bl_onnx_make(c, "unsqueeze($0, axis=-2)", ARGS(V(sin)));
    if (interleaved) {
        first = bl_onnx_make(c, "slice($0, start=0, stop=$1, step=2, axis=-1)", ARGS(V(x), I(dim)));
        second = bl_onnx_make(c, "slice($0, start=1, stop=$1, step=2, axis=-1)", ARGS(V(x), I(dim)));
    } else {
        first = bl_onnx_make(c, "slice($0, start=0, stop=$1, axis=-1)", ARGS(V(x), I(half)));
        second = bl_onnx_make(c, "slice($0, start=$1, stop=$2, axis=-1)", ARGS(V(x), I(half), I(dim)));
    }
    real = bl_onnx_make(c, "sub(mul($0, $1), mul($2, $3))", ARGS(V(cos), V(first), V(sin), V(second)));
    other = bl_onnx_make(c, "add(mul($0, $1), mul($2, $3))", ARGS(V(sin), V(first), V(cos), V(second)));
    if (interleaved)
        y = bl_onnx_make(c, "flatten(stack($0, $1, axis=-1), start_axis=-2)", ARGS(V(real), V(other)));
    else
        y = bl_onnx_make(c, "cat($0, $1, axis=-1)", ARGS(V(real), V(other)));
    return dim == size ? y : bl_onnx_make(c, "cat($0, slice($1, start=$2, axis=-1), axis=-1)", ARGS(V(y), V(x), I(dim)));
}

/* Moves the heads to the last axis but one, rotates, and moves them back. */
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
        y = bl_onnx_rotate(c, bl_onnx_make(c, "permute(a, axes=$0)", ARGS(IS(4, perm))), cos, sin,
                           bl_onnx_int(c, "interleaved", 0) != 0);
        return bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(y), IS(4, perm)));
    }
    if (bl_onnx_rank(x) != 3 || cos == NULL)
        return bl_onnx_fail(c, "needs a tensor of 3 dimensions or 4");
    if (heads < 1) /* the caches determine the head size */
        heads = x->type->dim[2]->hi / (2 * cos->type->dim[bl_onnx_rank(cos) - 1]->hi);
    if (heads < 1)
        return bl_onnx_fail(c, "needs num_heads");
    const bl_node *dim[4] = {x->type->dim[0], x->type->dim[1], bl_index(ir, heads),
                             bl_idiv(ir, x->type->dim[2], bl_index(ir, heads))};
    y = bl_onnx_rotate(c, bl_onnx_make(c, "reshape(a, shape=$0)", ARGS(ZS(4, dim))), cos, sin,
                       bl_onnx_int(c, "interleaved", 0) != 0);
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(3, x->type->dim)));
}

bl_onnx_value *bl_onnx_write_rotary_embedding(bl_onnx_call *c)
{
    return rotary(c, bl_onnx_in(c, 1), bl_onnx_in(c, 2), bl_onnx_in(c, 3));
}

/* The positions are the second input; a single position is the first of consecutive ones. */
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
