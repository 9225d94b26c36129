/* SPDX-License-Identifier: MIT */
/* The feed-forward network of a block: dense, or a mixture of experts with top-k routing. */
#include "proto/llm/importer.h"

bl_llm_value *bl_llm_activate(bl_llm_graph *g, bl_llm_value *x)
{
    switch (g->spec.act) {
    case BL_ACT_GELU:
        return bl_llm_make(g, "gelu($0)", ARGS(V(x)));
    case BL_ACT_GELU_TANH:
        return bl_llm_make(g, "gelu($0, approximate=tanh)", ARGS(V(x)));
    case BL_ACT_RELU2:
        return bl_llm_make(g, "square(relu($0))", ARGS(V(x)));
    case BL_ACT_SILU:
    case BL_ACT_SWIGLU_CLAMPED:
        break;
    }
    return bl_llm_make(g, "silu($0)", ARGS(V(x)));
}

/* A gated linear unit: activation(gate) * up. */
static bl_llm_value *join_gate(bl_llm_graph *g, bl_llm_value *gate, bl_llm_value *up)
{
    if (g->spec.act == BL_ACT_SWIGLU_CLAMPED)
        return bl_llm_make(g,
                           "mul(mul(clamp($0, max=7), sigmoid(mul(clamp($0, max=7), 1.702))), add(clamp($1, min=-7, max=7), 1))",
                           ARGS(V(gate), V(up)));
    return bl_llm_make(g, "mul($0, $1)", ARGS(V(bl_llm_activate(g, gate)), V(up)));
}

/* A gated linear unit on the fused projection |both|: its first half is the gate, its second half is |up|. */
static bl_llm_value *join_halves(bl_llm_graph *g, bl_llm_value *both)
{
    bl_llm_value *half[2] = {NULL};
    return both != NULL && bl_write_many(&g->w, "chunk($0, chunks=2, axis=-1)", ARGS(V(both)), 2, half)
               ? join_gate(g, half[0], half[1])
               : NULL;
}

static bl_llm_value *feed_dense(bl_llm_graph *g, bl_llm_value *x, const char *gate_name, const char *up_name,
                                const char *down_name)
{
    bl_llm_value *up = bl_llm_linear(g, x, up_name);
    if (bl_llm_has(g, gate_name))
        up = join_gate(g, bl_llm_linear(g, x, gate_name), up);
    else if (bl_llm_size(up, -1) == 2 * bl_llm_columns(g, down_name))
        up = join_halves(g, up);
    else
        up = bl_llm_activate(g, up);
    return bl_llm_linear(g, up, down_name);
}

/* ---- experts */

/* Routes each token: the top-k experts |*chosen| and their weights |*weights|, both [rows, n, used]. */
static bool choose_experts(bl_llm_graph *g, bl_llm_value *x, int64_t layer, bl_llm_value **chosen, bl_llm_value **weights)
{
    const bl_llm_spec *s = &g->spec;
    bl_llm_value *most[2] = {NULL}, *bias = bl_llm_state(g, bl_llm_block(g, layer, "exp_probs_b"), "bias");
    bl_llm_value *scores = bl_llm_linear(g, x, bl_llm_block(g, layer, "ffn_gate_inp"));
    scores = bl_llm_make(g, s->experts_sigmoid ? "sigmoid($0)" : "softmax($0)", ARGS(V(scores)));
    bl_llm_value *ranked = bias != NULL ? bl_llm_make(g, "add($0, $1)", ARGS(V(scores), V(bias))) : scores;
    if (ranked == NULL || !bl_write_many(&g->w, "topk($0, k=$1)", ARGS(V(ranked), I(s->experts_used)), 2, most))
        return false;
    *chosen = most[1];
    *weights = bias != NULL ? bl_llm_make(g, "gather($0, $1, axis=-1)", ARGS(V(scores), V(most[1]))) : most[0];
    if (s->experts_norm)
        *weights = bl_llm_make(g, "div($0, maximum(sum($0, axis=-1, keepdim=true), 6.103515625e-5))", ARGS(V(*weights)));
    *weights = bl_llm_scale(g, *weights, s->experts_scale);
    return *weights != NULL;
}

/* Like join_halves for a Hugging Face folder of gpt-oss, where the elements of gate and up alternate. */
static bl_llm_value *join_pairs(bl_llm_graph *g, bl_llm_value *both)
{
    bl_llm_value *pairs = bl_llm_make(g, "unflatten($0, axis=-1, sizes=[-1, 2])", ARGS(V(both)));
    return join_gate(g, bl_llm_make(g, "squeeze(slice($0, stop=[1], axis=[-1]), axis=-1)", ARGS(V(pairs))),
                     bl_llm_make(g, "squeeze(slice($0, start=[1], axis=[-1]), axis=-1)", ARGS(V(pairs))));
}

static bl_llm_value *feed_experts(bl_llm_graph *g, bl_llm_value *x, int64_t layer)
{
    const char *gate = bl_llm_block(g, layer, "ffn_gate_exps"), *up = bl_llm_block(g, layer, "ffn_up_exps"),
               *both = bl_llm_block(g, layer, "ffn_gate_up_exps");
    bool pairs = g->source->gguf == NULL && g->spec.act == BL_ACT_SWIGLU_CLAMPED;
    bl_llm_value *chosen = NULL, *weights = NULL, *y;
    if (!choose_experts(g, x, layer, &chosen, &weights))
        return NULL;
    x = bl_llm_make(g, "unsqueeze($0, axis=-2)", ARGS(V(x)));
    if (bl_llm_has(g, both)) {
        y = bl_llm_linear_chosen(g, x, both, chosen);
        y = pairs ? join_pairs(g, y) : join_halves(g, y);
    } else if (bl_llm_has(g, gate)) {
        y = join_gate(g, bl_llm_linear_chosen(g, x, gate, chosen), bl_llm_linear_chosen(g, x, up, chosen));
    } else {
        y = bl_llm_activate(g, bl_llm_linear_chosen(g, x, up, chosen));
    }
    y = bl_llm_linear_chosen(g, y, bl_llm_block(g, layer, "ffn_down_exps"), chosen);
    return bl_llm_make(g, "sum(mul($0, unsqueeze($1, axis=-1)), axis=-2)", ARGS(V(y), V(weights)));
}

/* The shared expert: every token uses it, scaled by the sigmoid of its gate where the model has one. */
static bl_llm_value *feed_shared(bl_llm_graph *g, bl_llm_value *x, int64_t layer)
{
    const char *gate = bl_llm_block(g, layer, "ffn_gate_inp_shexp");
    bl_llm_value *y = feed_dense(g, x, bl_llm_block(g, layer, "ffn_gate_shexp"), bl_llm_block(g, layer, "ffn_up_shexp"),
                                 bl_llm_block(g, layer, "ffn_down_shexp"));
    bl_llm_value *weight = bl_llm_state(g, gate, "weight");
    if (weight == NULL)
        return y;
    return bl_llm_make(g, "mul($0, sigmoid(sum(mul($1, reshape($2, shape=[-1])), axis=-1, keepdim=true)))",
                       ARGS(V(y), V(x), V(weight)));
}

bl_llm_value *bl_llm_feed(bl_llm_graph *g, bl_llm_value *x, int64_t layer)
{
    bl_llm_value *y;
    if (!bl_llm_has(g, bl_llm_block(g, layer, "ffn_gate_inp")))
        return feed_dense(g, x, bl_llm_block(g, layer, "ffn_gate"), bl_llm_block(g, layer, "ffn_up"),
                          bl_llm_block(g, layer, "ffn_down"));
    if (g->spec.experts == 0)
        return bl_llm_stop(g, BL_EINVAL, "block %lld has experts, but expert_count is missing", (long long)layer);
    y = feed_experts(g, x, layer);
    if (bl_llm_has(g, bl_llm_block(g, layer, "ffn_up_shexp")))
        y = bl_llm_make(g, "add($0, $1)", ARGS(V(y), V(feed_shared(g, x, layer))));
    return y;
}
