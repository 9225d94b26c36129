/* SPDX-License-Identifier: MIT */
/* The feed-forward part of a block: one, or experts of which each token has a few. */
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

/* The gate's activation times |up|. */
static bl_llm_value *join_gate(bl_llm_graph *g, bl_llm_value *gate, bl_llm_value *up)
{
    if (g->spec.act == BL_ACT_SWIGLU_CLAMPED)
        return bl_llm_make(g,
                           "mul(mul(clamp($0, max=7), sigmoid(mul(clamp($0, max=7), 1.702))), add(clamp($1, min=-7, max=7), 1))",
                           ARGS(V(gate), V(up)));
    return bl_llm_make(g, "mul($0, $1)", ARGS(V(bl_llm_activate(g, gate)), V(up)));
}

/* The two halves of a product that has gate and up side by side. */
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

bl_llm_value *bl_llm_feed(bl_llm_graph *g, bl_llm_value *x, int64_t layer)
{
    return feed_dense(g, x, bl_llm_block(g, layer, "ffn_gate"), bl_llm_block(g, layer, "ffn_up"),
                      bl_llm_block(g, layer, "ffn_down"));
}
