/* SPDX-License-Identifier: MIT */
/* Operators that replace attention by a state carried from step to step: LinearAttention and CausalConvWithState. */
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

/* Inputs: x [batch, channels, length], weight [channels, 1, size], bias, the elements before x. */
bl_onnx_value *bl_onnx_write_causal_conv(bl_onnx_call *c)
{
    static const char *const only_presets[] = {"channels_last", "state_window", "state_update_capacity", "state_length",
                                               "input_channels"};
    const char *activation = bl_onnx_text(c, "activation", "none");
    bl_onnx_value *x = bl_onnx_in(c, 0), *weight = bl_onnx_in(c, 1), *past = bl_onnx_in(c, 3), *y;
    int64_t dilation = bl_onnx_int(c, "dilation", 1), axis = 2;
    bl_ir *ir = c->import->ir;

    for (size_t i = 0; i < sizeof only_presets / sizeof only_presets[0]; i++) {
        if (bl_onnx_int(c, only_presets[i], 0) != 0)
            return bl_onnx_fail(c, "attribute \"%s\" must be 0", only_presets[i]);
    }
    if (bl_onnx_rank(x) != 3 || bl_onnx_rank(weight) != 3 || !bl_is_const(weight->type->dim[2]) ||
        !bl_is_const(weight->type->dim[0]) || dilation < 1 || bl_onnx_int(c, "ndim", 1) != 1)
        return bl_onnx_fail(c, "needs data [batch, channels, length] and a weight [channels, 1, size] of fixed sizes");
    int64_t before = (weight->type->dim[2]->hi - 1) * dilation, pads[6] = {0, 0, 0, 0, before, 0};
    if (before == 0)
        y = x;
    else if (past != NULL)
        y = bl_onnx_make(c, "cat(d, a, axis=2)", NULL);
    else
        y = bl_onnx_make(c, "pad(a, padding=$0)", ARGS(IS(6, pads)));
    if (bl_onnx_wants(c, 1) && y != NULL) {
        const bl_node *first[1] = {bl_sub(ir, y->type->dim[2], bl_index(ir, before))};
        c->out[1] = bl_onnx_make(c, "slice($0, start=$1, axis=$2)", ARGS(V(y), ZS(1, first), IS(1, &axis)));
    }
    y = bl_onnx_make(c, "conv($0, b, c, dilation=$1, groups=$2)", ARGS(V(y), IS(1, &dilation), I(weight->type->dim[0]->hi)));
    if (strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0)
        return bl_onnx_make(c, "silu($0)", ARGS(V(y)));
    return strcmp(activation, "none") == 0
               ? y
               : bl_onnx_fail(c, "activation \"%.40s\" is not supported", bl_onnx_clean(c->import, activation));
}

/* ---- LinearAttention */

/* [batch, length, heads * size] to [length, batch, heads, size]. */
static bl_onnx_value *heads_by_step(bl_onnx_call *c, bl_onnx_value *x, int64_t heads)
{
    bl_ir *ir = c->import->ir;

    if (bl_onnx_rank(x) != 3 || heads < 1)
        return bl_onnx_fail(c, "needs [batch, length, heads * size]");
    const bl_node *dim[4] = {x->type->dim[0], x->type->dim[1], bl_index(ir, heads),
                             bl_idiv(ir, x->type->dim[2], bl_index(ir, heads))};
    return bl_onnx_make(c, "cast(transpose(reshape($0, shape=$1), axis0=0, axis1=1), dtype=float32)", ARGS(V(x), ZS(4, dim)));
}

/* The operands of one step: state [batch, heads, keys, values]; query [batch, heads * group, keys]; key, value; decay, beta or
 * NULL. */
typedef struct linear_step {
    bl_onnx_value *state, *query, *key, *value, *decay, *beta;
} linear_step;

static bl_onnx_value *write_step(bl_onnx_call *c, const linear_step *in, double scale, bl_onnx_value **state)
{
    bl_onnx_value *s = in->state, *v = in->value;
    bl_ir *ir = c->import->ir;

    if (in->decay != NULL)
        s = bl_onnx_make(c, "mul($0, unsqueeze(exp($1), axis=-1))", ARGS(V(s), V(in->decay)));
    if (in->beta != NULL)
        v = bl_onnx_make(c, "mul($0, sub($1, sum(mul($2, unsqueeze($3, axis=-1)), axis=[-2])))",
                         ARGS(V(in->beta), V(v), V(s), V(in->key)));
    s = bl_onnx_make(c, "add($0, mul(unsqueeze($1, axis=-1), unsqueeze($2, axis=-2)))", ARGS(V(s), V(in->key), V(v)));
    *state = s;
    if (s == NULL)
        return NULL;
    const bl_node *grouped[4] = {s->type->dim[0], s->type->dim[1], bl_idiv(ir, in->query->type->dim[1], s->type->dim[1]),
                                 in->query->type->dim[2]};
    const bl_node *flat[3] = {s->type->dim[0], in->query->type->dim[1], s->type->dim[3]};
    return bl_onnx_make(c, "reshape(mul(matmul(reshape($0, shape=$1), $2), $3), shape=$4)",
                        ARGS(V(in->query), ZS(4, grouped), V(s), R(scale), ZS(3, flat)));
}

bl_onnx_value *bl_onnx_write_linear_attention(bl_onnx_call *c)
{
    const char *rule = bl_onnx_text(c, "update_rule", "gated_delta");
    int64_t heads = bl_onnx_int(c, "q_num_heads", 0), own = bl_onnx_int(c, "kv_num_heads", 0);
    bool decays = strstr(rule, "gated") != NULL, corrects = strstr(rule, "delta") != NULL;
    bl_onnx_value *operand[6], *in[6] = {NULL}, *out[2], *result[2], *past = bl_onnx_in(c, 3);
    double scale = bl_onnx_float(c, "scale", 0);
    int n = 4;
    bl_onnx_call inner = *c;

    if (heads < 1 || own < 1 || heads % own != 0 || bl_onnx_rank(bl_onnx_in(c, 0)) != 3 || bl_onnx_int(c, "state_window", 0) != 0)
        return bl_onnx_fail(c, "needs q_num_heads that are a multiple of kv_num_heads, and no state_window");
    operand[1] = heads_by_step(c, c->in[0], heads);
    operand[2] = heads_by_step(c, bl_onnx_in(c, 1), own);
    operand[3] = heads_by_step(c, bl_onnx_in(c, 2), own);
    if (decays)
        operand[n++] = heads_by_step(c, bl_onnx_in(c, 4), own);
    if (corrects)
        operand[n++] = heads_by_step(c, bl_onnx_in(c, 5), bl_is_int(c->in[5]->type->dim[2], 1) ? 1 : own);
    if (c->import->failed)
        return NULL;
    const bl_node *shape[4] = {operand[2]->type->dim[1], operand[2]->type->dim[2], operand[2]->type->dim[3],
                               operand[3]->type->dim[3]};
    operand[0] = past != NULL ? bl_onnx_make(c, "cast(d, dtype=float32)", NULL)
                              : bl_onnx_make(c, "zeros(shape=$0, dtype=float32)", ARGS(ZS(4, shape)));
    if (scale == 0 && !bl_is_const(shape[2]))
        return bl_onnx_fail(c, "the size of a head must be fixed");
    scale = scale != 0 ? scale : 1 / sqrt((double)shape[2]->hi);
    inner.graph = bl_onnx_open_graph(c->import, c->graph);
    if (inner.graph == NULL || c->import->failed)
        return NULL;
    for (int i = 0; i < n; i++)
        in[i] = bl_onnx_body_input(c->import, inner.graph, NULL, BL_F32, bl_onnx_rank(operand[i]) - (i > 0),
                                   operand[i]->type->dim + (i > 0));
    linear_step step = {in[0], in[1], in[2], in[3], decays ? in[4] : NULL, corrects ? in[n - 1] : NULL};
    out[1] = write_step(&inner, &step, scale, &out[0]);
    bl_onnx_body_outputs(c->import, inner.graph, 2, out);
    if (c->import->failed ||
        !bl_onnx_make_many(
            c, "scan($0..., $1..., body=$2, carries=1, sequences=$3)",
            ARGS(VS(n, operand), VS(inner.graph->ncaptured, inner.graph->captured), G(&inner.graph->wire), I(n - 1)), 2, result))
        return NULL;
    bl_dtype kept = past != NULL ? bl_onnx_type(past) : bl_onnx_type(c->in[0]);
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(result[0]), D(kept)));
    return bl_onnx_make(c, "cast(flatten(transpose($0, axis0=0, axis1=1), start_axis=2), dtype=$1)",
                        ARGS(V(result[1]), D(bl_onnx_type(c->in[0]))));
}
