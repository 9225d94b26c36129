/* SPDX-License-Identifier: MIT */
/* The attention operators of com.microsoft. */
#include "proto/onnx/attention.h"
#include "proto/onnx/onnx_quant.h"

#include <math.h>
#include <string.h>

/* ---- masks */

/* Converts a key mask to a bias that is added to the scores.  |mask|: lengths [batch], ends followed by starts [2 * batch], or
 * ones and zeros [batch, keys] or [batch, rows, keys].  NULL if |mask| is NULL. */
static bl_onnx_value *mask_keys(bl_onnx_call *c, bl_onnx_value *mask, const bl_node *batch, const bl_node *keys, bl_dtype dtype)
{
    bl_ir *ir = c->import->ir;
    const bl_node *one = bl_index(ir, 1), *each[4] = {batch, one, one, one};
    double low = bl_onnx_float(c, "mask_filter_value", -10000);

    if (mask == NULL)
        return NULL;
    if (bl_onnx_rank(mask) == 1 && mask->type->dim[0] == batch) {
        mask = bl_onnx_make(c, "less(arange(stop=$0), reshape($1, shape=$2))", ARGS(ZS(-1, &keys), V(mask), ZS(4, each)));
    } else if (bl_onnx_rank(mask) == 1 && mask->type->dim[0] == bl_mul(ir, batch, bl_index(ir, 2))) {
        bl_onnx_value *ends = bl_onnx_make(c, "reshape(slice($0, stop=$1), shape=$2)", ARGS(V(mask), ZS(1, &batch), ZS(4, each)));
        bl_onnx_value *starts =
            bl_onnx_make(c, "reshape(slice($0, start=$1), shape=$2)", ARGS(V(mask), ZS(1, &batch), ZS(4, each)));
        mask = bl_onnx_make(c, "logical_and(less(arange(stop=$0), $1), greater_equal(arange(stop=$0), $2))",
                            ARGS(ZS(-1, &keys), V(ends), V(starts)));
    } else if (bl_onnx_rank(mask) == 2) {
        each[3] = keys;
        mask = bl_onnx_make(c, "cast(reshape($0, shape=$1), dtype=bool)", ARGS(V(mask), ZS(4, each)));
    } else if (bl_onnx_rank(mask) == 3) {
        mask = bl_onnx_make(c, "cast(unsqueeze($0, axis=1), dtype=bool)", ARGS(V(mask)));
    } else {
        return bl_onnx_fail(c, "a mask of the shape %s is not supported",
                            bl_shape_text(ir, bl_onnx_rank(mask), mask->type->dim, NULL));
    }
    return bl_onnx_make(c, "where($0, $1, $2)",
                        ARGS(V(mask), V(bl_onnx_known_real(c->import, dtype, 0)), V(bl_onnx_known_real(c->import, dtype, low))));
}

/* If the node is unidirectional, query i attends to the past keys and to the new keys up to key i.  |past| (NULL: none) has the
 * number of past keys as its axis |axis|. */
static bl_onnx_value *only_before(bl_onnx_call *c, bl_onnx_value *bias, const bl_onnx_heads *h, const bl_onnx_value *past,
                                  int axis)
{
    if (c->import->failed || bl_onnx_int(c, "unidirectional", 0) == 0)
        return bias;
    const bl_node *keys = h->k->type->dim[2], *rows = h->q->type->dim[2];
    bl_onnx_value *offset = past != NULL ? bl_onnx_size_value(c, past->type->dim[axis]) : NULL;
    bl_onnx_value *is = bl_onnx_make(c, "greater_equal($0, 0)", ARGS(V(bl_onnx_places_apart(c, rows, keys, offset))));
    return bl_onnx_add_bias(c, bias, bl_onnx_as_bias(c, is, bl_onnx_type(h->q)));
}

static bool refuse_attributes(bl_onnx_call *c)
{
    static const char *const names[] = {"do_rotary", "past_present_share_buffer"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (bl_onnx_int(c, names[i], 0) != 0)
            return bl_onnx_fail(c, "attribute \"%s\" must be 0", names[i]) != NULL;
    }
    return true;
}

/* ---- Attention and QAttention */

/* Attention of queries, keys and values that lie side by side in |y| [batch, length, all]; past [2, batch, heads, length, size].
 */
static bl_onnx_value *attend_projected(bl_onnx_call *c, bl_onnx_value *y, bl_onnx_value *mask, bl_onnx_value *past,
                                       bl_onnx_value *more)
{
    bl_onnx_value *part[3];
    int64_t heads = bl_onnx_int(c, "num_heads", 0), sizes[3];
    const int64_t *own;
    int n = bl_onnx_ints(c, "qkv_hidden_sizes", &own);

    if (bl_onnx_rank(y) != 3 || (n >= 0 && n != 3) || !bl_is_const(y->type->dim[2]) || !refuse_attributes(c))
        return bl_onnx_fail(c, "needs data [batch, length, size] and a matrix of weights");
    for (int i = 0; i < 3; i++)
        sizes[i] = n == 3 ? own[i] : y->type->dim[2]->hi / 3;
    if (!bl_onnx_make_many(c, "split($0, sizes=$1, axis=-1)", ARGS(V(y), IS(3, sizes)), 3, part))
        return NULL;
    for (int i = 0; i < 3; i++)
        part[i] = bl_onnx_split_heads(c, part[i], heads);
    for (int i = 1; i < 3 && past != NULL; i++)
        part[i] = bl_onnx_make(c, "cat(squeeze(slice($0, start=$1, stop=$2, axis=[0]), axis=0), $3, axis=2)",
                               ARGS(V(past), I(i - 1), I(i), V(part[i])));
    if (c->import->failed)
        return NULL;
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "stack($0, $1)", ARGS(V(part[1]), V(part[2])));
    bl_onnx_heads h = {.q = part[0], .k = part[1], .v = part[2]};
    h.bias = mask_keys(c, mask, y->type->dim[0], h.k->type->dim[2], bl_onnx_type(y));
    h.bias = only_before(c, h.bias, &h, past, 3);
    if (more != NULL)
        h.bias = bl_onnx_add_bias(c, h.bias, more);
    return bl_onnx_merge_heads(c, bl_onnx_attend(c, &h));
}

/* Inputs: data, weights of queries, keys and values side by side, bias, mask, past, summand of the scores. */
bl_onnx_value *bl_onnx_write_microsoft_attention(bl_onnx_call *c)
{
    bl_onnx_value *y = bl_onnx_make(c, "matmul(a, b)", NULL);

    if (bl_onnx_in(c, 2) != NULL)
        y = bl_onnx_make(c, "add($0, c)", ARGS(V(y)));
    return attend_projected(c, y, bl_onnx_in(c, 3), bl_onnx_in(c, 4), bl_onnx_in(c, 5));
}

/* Inputs: data, weights, bias, both scales, mask, both zero points, past. */
bl_onnx_value *bl_onnx_write_qattention(bl_onnx_call *c)
{
    bl_onnx_value *zero[2] = {bl_onnx_in(c, 6), bl_onnx_in(c, 7)}, *whole[2], *y;

    if (c->nin < 5)
        return bl_onnx_fail(c, "needs data, weights, a bias and two scales");
    for (int i = 0; i < 2; i++)
        whole[i] = bl_onnx_without_zero(c, c->in[i], zero[i]);
    y = bl_onnx_make(c, "mul(cast(matmul($0, $1), dtype=$2), mul(d, e))",
                     ARGS(V(whole[0]), V(whole[1]), D(bl_onnx_type(c->in[3]))));
    if (bl_onnx_in(c, 2) != NULL)
        y = bl_onnx_make(c, "add($0, c)", ARGS(V(y)));
    return attend_projected(c, y, bl_onnx_in(c, 5), bl_onnx_in(c, 8), NULL);
}

/* ---- MultiHeadAttention */

/* Part |i| of |x|, which has its parts packed as [batch, length, heads, parts, size]. */
static bl_onnx_value *unpack_heads(bl_onnx_call *c, bl_onnx_value *x, int i)
{
    return bl_onnx_make(c, "transpose(squeeze(slice($0, start=$1, stop=$2, axis=[3]), axis=3), axis0=1, axis1=2)",
                        ARGS(V(x), I(i), I(i + 1)));
}

/* [batch, length, heads * size] plus the matching part of the bias. */
static bl_onnx_value *biased_heads(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *bias, int64_t *from, int64_t heads)
{
    if (bl_onnx_rank(x) != 3 || !bl_is_const(x->type->dim[2]))
        return bl_onnx_fail(c, "needs [batch, length, heads * size]");
    int64_t size = x->type->dim[2]->hi;
    if (bias != NULL)
        x = bl_onnx_make(c, "add($0, slice($1, start=$2, stop=$3))", ARGS(V(x), V(bias), I(*from), I(*from + size)));
    *from += size;
    return bl_onnx_split_heads(c, x, heads);
}

bl_onnx_value *bl_onnx_write_multi_head_attention(bl_onnx_call *c)
{
    bl_onnx_value *q = bl_onnx_in(c, 0), *k = bl_onnx_in(c, 1), *v = bl_onnx_in(c, 2), *bias = bl_onnx_in(c, 3), *y;
    int64_t heads = bl_onnx_int(c, "num_heads", 0), from = 0;
    bl_onnx_heads h = {.shows = bl_onnx_wants(c, 3) ? 3 : 0};

    if (q == NULL || heads < 1 || bl_onnx_in(c, 8) != NULL || bl_onnx_in(c, 9) != NULL)
        return bl_onnx_fail(c, "needs queries and num_heads; a past in a larger buffer is not supported");
    if (bl_onnx_rank(q) == 5) {
        h = (bl_onnx_heads){.q = unpack_heads(c, q, 0), .k = unpack_heads(c, q, 1), .v = unpack_heads(c, q, 2), .shows = h.shows};
    } else {
        h.q = biased_heads(c, q, bias, &from, heads);
        if (bl_onnx_rank(k) == 5) {
            h.k = unpack_heads(c, k, 0);
            h.v = unpack_heads(c, k, 1);
        } else if (bl_onnx_rank(k) == 4) {
            h.k = k;
            h.v = v;
        } else {
            h.k = biased_heads(c, k, bias, &from, heads);
            h.v = biased_heads(c, v, bias, &from, heads);
        }
    }
    if (bl_onnx_in(c, 6) != NULL && bl_onnx_in(c, 7) != NULL) {
        h.k = bl_onnx_make(c, "cat(g, $0, axis=2)", ARGS(V(h.k)));
        h.v = bl_onnx_make(c, "cat(h, $0, axis=2)", ARGS(V(h.v)));
    }
    if (c->import->failed || h.k == NULL || h.v == NULL)
        return bl_onnx_fail(c, "needs queries, keys and values");
    if (bl_onnx_wants(c, 1))
        c->out[1] = h.k;
    if (bl_onnx_wants(c, 2))
        c->out[2] = h.v;
    h.bias = mask_keys(c, bl_onnx_in(c, 4), h.q->type->dim[0], h.k->type->dim[2], bl_onnx_type(h.q));
    h.bias = only_before(c, h.bias, &h, bl_onnx_in(c, 6), 2);
    if (bl_onnx_in(c, 5) != NULL)
        h.bias = bl_onnx_add_bias(c, h.bias, c->in[5]);
    y = bl_onnx_merge_heads(c, bl_onnx_attend(c, &h));
    if (h.shown != NULL)
        c->out[3] = h.shown;
    return y;
}

/* ---- GroupQueryAttention */

typedef struct grouped {
    bl_onnx_call *c;
    int64_t heads, own;            /* number of query heads, and of key heads */
    bl_onnx_value *q, *k, *v;      /* [batch, length, heads, size] */
    bl_onnx_value *before, *total; /* number of keys before the new keys, and in total: [batch, 1, 1, 1], int64 */
    const bl_node *keys;           /* number of keys in the present */
} grouped;

/* Takes three parts of one tensor, or three tensors. */
static bool take_grouped(grouped *g)
{
    bl_onnx_call *c = g->c;
    bl_onnx_value *part[3] = {bl_onnx_in(c, 0), bl_onnx_in(c, 1), bl_onnx_in(c, 2)};
    bl_ir *ir = c->import->ir;

    if (bl_onnx_rank(part[0]) != 3 || !bl_is_const(part[0]->type->dim[2]))
        return bl_onnx_fail(c, "needs queries [batch, length, heads * size] of a fixed size") != NULL;
    int64_t size = part[0]->type->dim[2]->hi / (part[1] != NULL ? g->heads : g->heads + 2 * g->own);
    int64_t sizes[3] = {g->heads * size, g->own * size, g->own * size};
    if (part[1] == NULL && !bl_onnx_make_many(c, "split(a, sizes=$0, axis=-1)", ARGS(IS(3, sizes)), 3, part))
        return false;
    for (int i = 0; i < 3; i++) {
        if (bl_onnx_rank(part[i]) != 3)
            return bl_onnx_fail(c, "needs queries, keys and values") != NULL;
        const bl_node *dim[4] = {part[i]->type->dim[0], part[i]->type->dim[1], bl_index(ir, i == 0 ? g->heads : g->own),
                                 bl_index(ir, size)};
        part[i] = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(part[i]), ZS(4, dim)));
        if (i < 2 && bl_onnx_in(c, 14 + i) != NULL)
            part[i] = bl_onnx_make(c, "rms_norm($0, $1, eps=$2)",
                                   ARGS(V(part[i]), V(c->in[14 + i]),
                                        R(bl_onnx_float(c, i == 0 ? "q_norm_epsilon" : "k_norm_epsilon",
                                                        bl_onnx_float(c, "qk_norm_epsilon", 1e-6)))));
    }
    g->q = part[0];
    g->k = part[1];
    g->v = part[2];
    return !c->import->failed;
}

/* The length of the present: total_sequence_length, but at least the length of a past with fixed length.  If
 * total_sequence_length is not known: the length of the past plus the number of new keys. */
static const bl_node *present_length(const grouped *g, const bl_node *had)
{
    const bl_onnx_known *said = bl_onnx_know(g->c->import, bl_onnx_in(g->c, 6));

    if (said == NULL || said->count != 1 || said->size == NULL)
        return bl_add(g->c->import->ir, had, g->k->type->dim[1]);
    return bl_is_const(said->size[0]) && bl_is_const(had) && said->size[0]->hi < had->hi ? had : said->size[0];
}

/* Computes for each batch the number of keys before the new keys, and the total number. */
static void count_keys(grouped *g)
{
    bl_onnx_call *c = g->c;
    bl_ir *ir = c->import->ir;
    bl_onnx_value *past = bl_onnx_in(c, 3);
    const bl_node *one = bl_index(ir, 1), *rows = g->k->type->dim[1], *each[4] = {g->q->type->dim[0], one, one, one};

    g->total = bl_onnx_make(c, "add(cast(reshape(f, shape=$0), dtype=int64), 1)", ARGS(ZS(4, each)));
    g->keys = past != NULL && bl_onnx_rank(past) == 4 ? present_length(g, past->type->dim[2]) : rows;
    /* the first prompt may be padded at its end */
    bl_onnx_value *length = bl_onnx_size_value(c, rows);
    bl_onnx_value *first = bl_onnx_make(c, "equal(cast(reshape(g, shape=[]), dtype=int64), $0)", ARGS(V(length)));
    g->before = bl_onnx_make(c, "where($0, 0, sub($1, $2))", ARGS(V(first), V(g->total), V(length)));
}

/* The past up to the start of the new keys, then the new keys, then zeros. */
static bl_onnx_value *join_past(const grouped *g, bl_onnx_value *past, bl_onnx_value *fresh)
{
    bl_onnx_call *c = g->c;
    bl_ir *ir = c->import->ir;
    bl_onnx_value *at;

    fresh = bl_onnx_make(c, "transpose($0, axis0=1, axis1=2)", ARGS(V(fresh)));
    if (past == NULL || fresh == NULL)
        return fresh;
    const bl_node *had = past->type->dim[2], *keys = g->keys;
    const bl_node *dim[4] = {fresh->type->dim[0], fresh->type->dim[1], keys, fresh->type->dim[3]};
    const bl_node *all = bl_add(ir, had, fresh->type->dim[2]),
                  *along[4] = {bl_index(ir, 1), bl_index(ir, 1), keys, bl_index(ir, 1)};
    at = bl_onnx_make(c, "reshape(arange(stop=$0), shape=$1)", ARGS(ZS(-1, &keys), ZS(4, along)));
    bl_onnx_value *moved = bl_onnx_make(c, "add(sub($0, $1), $2)", ARGS(V(at), V(g->before), V(bl_onnx_size_value(c, had))));
    at = bl_onnx_make(c, "where(less($0, $1), $0, $2)", ARGS(V(at), V(g->before), V(moved)));
    at = bl_onnx_make(c, "where(less($0, $1), $0, $1)", ARGS(V(at), V(bl_onnx_size_value(c, all)))); /* an index out of range
                                                                                                      * reads 0 */
    return bl_onnx_make(c, "gather(cat($0, $1, axis=2), expand($2, shape=$3), axis=2)",
                        ARGS(V(past), V(fresh), V(at), ZS(4, dim)));
}

static void rotate_grouped(grouped *g)
{
    bl_onnx_call *c = g->c;
    bl_onnx_value *at = bl_onnx_in(c, 9);
    bool interleaved = bl_onnx_int(c, "rotary_interleaved", 0) != 0;

    if (bl_onnx_int(c, "do_rotary", 0) == 0)
        return;
    if (at == NULL)
        at = bl_onnx_make(c, "add(flatten($0, start_axis=1), arange(stop=$1))", ARGS(V(g->before), ZS(-1, &g->q->type->dim[1])));
    bl_onnx_value *cos = bl_onnx_make(c, "take(h, $0)", ARGS(V(at))), *sin = NULL;
    if (bl_onnx_in(c, 8) != NULL)
        sin = bl_onnx_make(c, "take($0, $1)", ARGS(V(c->in[8]), V(at)));
    g->q = bl_onnx_rotate(c, g->q, cos, sin, interleaved);
    g->k = bl_onnx_rotate(c, g->k, cos, sin, interleaved);
}

static bl_onnx_value *bias_grouped(const grouped *g, bl_dtype dtype)
{
    bl_onnx_call *c = g->c;
    int64_t window = bl_onnx_int(c, "local_window_size", -1);
    bl_onnx_value *apart = bl_onnx_places_apart(c, g->q->type->dim[1], g->keys, g->before), *is;

    if (bl_onnx_int(c, "causal", 1) == 0)
        is = bl_onnx_make(c, "less(arange(stop=$0), $1)", ARGS(ZS(-1, &g->keys), V(g->total)));
    else
        is = bl_onnx_make(c, "greater_equal($0, 0)", ARGS(V(apart)));
    if (window >= 0)
        is = bl_onnx_make(c, "logical_and($0, less($1, $2))", ARGS(V(is), V(apart), I(window)));
    bl_onnx_value *bias = bl_onnx_as_bias(c, is, dtype);
    return bl_onnx_in(c, 10) != NULL ? bl_onnx_add_bias(c, bias, c->in[10]) : bias;
}

bl_onnx_value *bl_onnx_write_group_query_attention(bl_onnx_call *c)
{
    grouped g = {.c = c, .heads = bl_onnx_int(c, "num_heads", 0), .own = bl_onnx_int(c, "kv_num_heads", 0)};
    bl_onnx_value *sink = bl_onnx_in(c, 11), *y;
    int shows = (int)bl_onnx_int(c, "qk_output", 0);

    if (g.heads < 1 || g.own < 1 || g.heads % g.own != 0 || bl_onnx_rank(bl_onnx_in(c, 5)) != 1 || bl_onnx_in(c, 6) == NULL)
        return bl_onnx_fail(c, "needs num_heads that are a multiple of kv_num_heads, and the numbers of keys");
    if (bl_onnx_int(c, "sliding_window_cache", 0) != 0 || bl_onnx_int(c, "kv_cache_bit_width", 0) != 0 ||
        bl_onnx_in(c, 16) != NULL)
        return bl_onnx_fail(c, "a cache that is a window or is quantised, and query_seqlens, are not supported");
    if (!take_grouped(&g))
        return NULL;
    count_keys(&g);
    rotate_grouped(&g);
    bl_onnx_heads h = {.q = bl_onnx_make(c, "transpose($0, axis0=1, axis1=2)", ARGS(V(g.q))),
                       .k = join_past(&g, bl_onnx_in(c, 3), g.k),
                       .v = join_past(&g, bl_onnx_in(c, 4), g.v),
                       .shows = !bl_onnx_wants(c, 3) || shows == 0 ? 0 : shows + 2};
    if (c->import->failed)
        return NULL;
    h.bias = bias_grouped(&g, bl_onnx_type(h.q));
    if (sink != NULL)
        h.sink = bl_onnx_make(c, "unsqueeze(unsqueeze($0, axis=-1), axis=-1)", ARGS(V(sink)));
    else if (bl_onnx_int(c, "smooth_softmax", 0) > 0)
        h.sink = bl_onnx_known_real(c->import, bl_onnx_type(h.q), 0);
    if (bl_onnx_wants(c, 1))
        c->out[1] = h.k;
    if (bl_onnx_wants(c, 2))
        c->out[2] = h.v;
    y = bl_onnx_merge_heads(c, bl_onnx_attend(c, &h));
    if (h.shown != NULL)
        c->out[3] = h.shown;
    return y;
}
