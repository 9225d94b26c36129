/* SPDX-License-Identifier: MIT */
/* Embedding models: encoders, and decoders whose hidden states are pooled.  A row of a run is one whole text, padded at its
 * end.  The program has no KV cache. */
#include "proto/llm/importer.h"

/* The mask [rows, 1, n or 1, n]: a token attends to the tokens of its text, and only to earlier ones if the model is causal. */
static bl_llm_value *make_mask(bl_llm_graph *g, int64_t window)
{
    bl_llm_value *seen = bl_llm_make(g, "not_equal(reshape($0, shape=[rows, 1, 1, n]), 0)", ARGS(V(g->there)));
    bl_llm_value *ahead =
        bl_llm_make(g, "sub(reshape($0, shape=[1, 1, 1, n]), reshape($0, shape=[1, 1, n, 1]))", ARGS(V(g->each)));
    if (g->spec.causal)
        seen = bl_llm_make(g, "logical_and($0, less_equal($1, 0))", ARGS(V(seen), V(ahead)));
    if (window > 0)
        seen = bl_llm_make(g, "logical_and($0, less(abs($1), $2))", ARGS(V(seen), V(ahead), I(window)));
    return seen;
}

void bl_llm_prepare_texts(bl_llm_graph *g, bool windows)
{
    bl_wire_type type = {.dtype = BL_I32, .ndim = 2, .dim = {{0, BL_LLM_ROWS}, {0, BL_LLM_N}}};
    g->tokens = bl_llm_input(g, "input_ids", &type);
    g->there = bl_llm_input(g, "attention_mask", &type);
    g->each = bl_llm_make(g, "arange(stop=n, dtype=int32)", NULL);
    g->place = bl_llm_make(g, "expand(reshape($0, shape=[1, n]), shape=[rows, n])", ARGS(V(g->each)));
    g->seen[0] = make_mask(g, 0);
    if (windows)
        g->seen[1] = make_mask(g, g->spec.window);
}

/* Permutes [rows, n, heads, size] to [rows, groups, heads / groups, n, size], or to [rows, heads, n, size] without groups. */
static bl_llm_value *encoder_lay_out(bl_llm_graph *g, bl_llm_value *x, int64_t heads, int64_t size)
{
    int64_t groups = g->spec.groups;
    bool grouped = g->spec.heads > groups;
    x = bl_llm_make(g, "permute($0, axes=[0, 2, 1, 3])", ARGS(V(x)));
    return !grouped
               ? x
               : bl_llm_make(g, "reshape($0, shape=[rows, $1, $2, n, $3])", ARGS(V(x), I(groups), I(heads / groups), I(size)));
}

bl_llm_value *bl_llm_attend_texts(bl_llm_graph *g, bl_llm_value *q, bl_llm_value *k, bl_llm_value *v, int64_t layer)
{
    const bl_llm_spec *s = &g->spec;
    bl_llm_value *mask = g->seen[bl_llm_has_window(s, layer)], *scores, *y;
    if (bl_llm_has(g, bl_llm_block(g, layer, "attn_sinks")))
        return bl_llm_stop(g, BL_EUNSUPPORTED, "a model with attention sinks cannot make vectors of texts");
    if (s->heads > s->groups)
        mask = bl_llm_make(g, "unsqueeze($0, axis=1)", ARGS(V(mask)));
    scores = bl_llm_make(g, "matmul($0, transpose($1))",
                         ARGS(V(encoder_lay_out(g, q, s->heads, s->key_size)), V(encoder_lay_out(g, k, s->groups, s->key_size))));
    scores = bl_llm_make(g, "where($0, $1, -inf)", ARGS(V(mask), V(bl_llm_cap(g, scores, s->score_cap))));
    y = bl_llm_make(g, "matmul(softmax($0), $1)", ARGS(V(scores), V(encoder_lay_out(g, v, s->groups, s->value_size))));
    y = bl_llm_make(g, "permute(reshape($0, shape=[rows, $1, n, $2]), axes=[0, 2, 1, 3])",
                    ARGS(V(y), I(s->heads), I(s->value_size)));
    return bl_llm_make(g, "reshape($0, shape=[rows, n, $1])", ARGS(V(y), I(s->heads * s->value_size)));
}

/* The pooling weights [rows, n] of the tokens of each text. */
static bl_llm_value *weigh_tokens(bl_llm_graph *g)
{
    bl_llm_value *there = bl_llm_make(g, "cast(not_equal($0, 0), dtype=float32)", ARGS(V(g->there)));
    bl_llm_value *place = bl_llm_make(g, "cast($0, dtype=float32)", ARGS(V(g->place)));
    bl_llm_value *count = bl_llm_make(g, "sum($0, axis=-1, keepdim=true)", ARGS(V(there)));
    switch (g->spec.pooling) {
    case BL_POOLING_CLS:
        return bl_llm_make(g, "cast(equal($0, 0), dtype=float32)", ARGS(V(place)));
    case BL_POOLING_LAST:
        return bl_llm_make(g, "cast(equal($0, sub($1, 1)), dtype=float32)", ARGS(V(place), V(count)));
    case BL_POOLING_MEAN:
    case BL_POOLING_NONE:
    case BL_POOLINGS:
        break;
    }
    return bl_llm_make(g, "div($0, maximum($1, 1))", ARGS(V(there), V(count)));
}

bl_llm_value *bl_llm_pool(bl_llm_graph *g, bl_llm_value *x)
{
    if (g->spec.pooling == BL_POOLING_NONE)
        return x;
    x = bl_llm_make(g, "sum(mul($0, unsqueeze($1, axis=-1)), axis=1)", ARGS(V(x), V(weigh_tokens(g))));
    return bl_llm_make(g, "div($0, maximum(sqrt(sum(square($0), axis=-1, keepdim=true)), 1e-12))", ARGS(V(x)));
}
