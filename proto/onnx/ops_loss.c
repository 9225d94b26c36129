/* SPDX-License-Identifier: MIT */
/* Losses, optimisers and gradients. */
#include "proto/onnx/import.h"

#include <string.h>

static bl_onnx_value *likelihood_loss(bl_onnx_call *c, bl_onnx_value *logs)
{
    const char *reduction = bl_onnx_text(c, "reduction", "mean");
    bl_onnx_value *weight = bl_onnx_in(c, 2);

    if (strcmp(reduction, "mean") != 0 && strcmp(reduction, "sum") != 0 && strcmp(reduction, "none") != 0)
        return bl_onnx_fail(c, "reduction must be mean, sum or none");
    if (bl_onnx_attr(c, "ignore_index") != NULL)
        return bl_onnx_make(c, "nll_loss($0, b, $1, reduction=$2, ignore_index=$3)",
                            ARGS(V(logs), V(weight), T(reduction), I(bl_onnx_int(c, "ignore_index", 0))));
    return bl_onnx_make(c, "nll_loss($0, b, $1, reduction=$2)", ARGS(V(logs), V(weight), T(reduction)));
}

bl_onnx_value *bl_onnx_write_negative_log_likelihood_loss(bl_onnx_call *c)
{
    return likelihood_loss(c, bl_onnx_in(c, 0));
}

bl_onnx_value *bl_onnx_write_softmax_cross_entropy_loss(bl_onnx_call *c)
{
    bl_onnx_value *logs = bl_onnx_make(c, "log_softmax(a, axis=1)", NULL);

    if (bl_onnx_wants(c, 1))
        c->out[1] = logs;
    return likelihood_loss(c, logs);
}

/* ---- optimisers: inputs R, T, then the parameters, the gradients and the moments; each group has one tensor per parameter */

static bool take_groups(bl_onnx_call *c, int groups, int *count)
{
    *count = (c->nin - 2) / groups;
    if (c->nin < 2 + groups || (c->nin - 2) % groups != 0 || c->nout != *count * (groups - 1))
        return bl_onnx_fail(c, "needs a rate, a step, and as many parameters, gradients and moments as each other") != NULL;
    return true;
}

bl_onnx_value *bl_onnx_write_adagrad(bl_onnx_call *c)
{
    double decay = bl_onnx_float(c, "decay_factor", 0), norm = bl_onnx_float(c, "norm_coefficient", 0),
           eps = bl_onnx_float(c, "epsilon", 0);
    int n;

    if (!take_groups(c, 3, &n))
        return NULL;
    bl_onnx_value *rate = bl_onnx_make(c, "div(a, add(mul(cast(b, dtype=float32), $0), 1))", ARGS(R(decay)));
    for (int i = 0; i < n; i++) {
        bl_onnx_value *x = c->in[2 + i], *h = c->in[2 + 2 * n + i];
        bl_onnx_value *g = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(c->in[2 + n + i]), V(x), R(norm)));
        c->out[n + i] = bl_onnx_make(c, "add($0, square($1))", ARGS(V(h), V(g)));
        c->out[i] =
            bl_onnx_make(c, "sub($0, div(mul($1, $2), add(sqrt($3), $4)))", ARGS(V(x), V(rate), V(g), V(c->out[n + i]), R(eps)));
    }
    return c->out[0];
}

bl_onnx_value *bl_onnx_write_momentum(bl_onnx_call *c)
{
    double alpha = bl_onnx_float(c, "alpha", 0), beta = bl_onnx_float(c, "beta", 0),
           norm = bl_onnx_float(c, "norm_coefficient", 0);
    bool nesterov = strcmp(bl_onnx_text(c, "mode", "standard"), "nesterov") == 0;
    int n;

    if (!take_groups(c, 3, &n))
        return NULL;
    /* beta applies from the second step on */
    bl_onnx_value *share =
        bl_onnx_make(c, "where(greater(b, 0), full(shape=[], value=$0), full(shape=[], value=1))", ARGS(R(beta)));
    for (int i = 0; i < n; i++) {
        bl_onnx_value *x = c->in[2 + i], *v = c->in[2 + 2 * n + i];
        bl_onnx_value *g = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(c->in[2 + n + i]), V(x), R(norm)));
        bl_onnx_value *next = bl_onnx_make(c, "add(mul($0, $1), mul($2, $3))", ARGS(V(v), R(alpha), V(g), V(share)));
        c->out[n + i] = next;
        if (nesterov)
            next = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(g), V(next), R(alpha)));
        c->out[i] = bl_onnx_make(c, "sub($0, mul(a, $1))", ARGS(V(x), V(next)));
    }
    return c->out[0];
}

bl_onnx_value *bl_onnx_write_adam(bl_onnx_call *c)
{
    double alpha = bl_onnx_float(c, "alpha", (double)0.9f), beta = bl_onnx_float(c, "beta", (double)0.999f),
           eps = bl_onnx_float(c, "epsilon", 0), norm = bl_onnx_float(c, "norm_coefficient", 0),
           after = bl_onnx_float(c, "norm_coefficient_post", 0);
    int n;

    if (!take_groups(c, 4, &n))
        return NULL;
    bl_onnx_value *step = bl_onnx_make(c, "cast(b, dtype=float32)", NULL);
    bl_onnx_value *rate = bl_onnx_make(
        c, "where(greater(b, 0), div(mul(a, sqrt(sub(1, pow($0, $1)))), sub(1, pow($2, $1))), a)",
        ARGS(V(bl_onnx_known_real(c->import, BL_F32, beta)), V(step), V(bl_onnx_known_real(c->import, BL_F32, alpha))));
    for (int i = 0; i < n; i++) {
        bl_onnx_value *x = c->in[2 + i], *v = c->in[2 + 2 * n + i], *h = c->in[2 + 3 * n + i];
        bl_onnx_value *g = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(c->in[2 + n + i]), V(x), R(norm)));
        c->out[n + i] = bl_onnx_make(c, "add(mul($0, $1), mul($2, $3))", ARGS(V(v), R(alpha), V(g), R(1 - alpha)));
        c->out[2 * n + i] = bl_onnx_make(c, "add(mul($0, $1), mul(square($2), $3))", ARGS(V(h), R(beta), V(g), R(1 - beta)));
        x = bl_onnx_make(c, "sub($0, div(mul($1, $2), add(sqrt($3), $4)))",
                         ARGS(V(x), V(rate), V(c->out[n + i]), V(c->out[2 * n + i]), R(eps)));
        c->out[i] = after != 0 ? bl_onnx_make(c, "mul($0, $1)", ARGS(V(x), R(1 - after))) : x;
    }
    return c->out[0];
}

/* dy/dx for each x of xs; y and xs are names of values. */
bl_onnx_value *bl_onnx_write_gradient(bl_onnx_call *c)
{
    const Onnx__AttributeProto *xs = bl_onnx_attr(c, "xs");
    const char *name = bl_onnx_text(c, "y", "");
    bl_onnx_value *y = bl_onnx_find(c->names, name), **all;

    if (xs == NULL || y == NULL || xs->n_strings == 0 || (int)xs->n_strings != c->nout || (int)xs->n_strings > c->nin)
        return bl_onnx_fail(c, "needs y, xs, and an output for each of these");
    all = bl_arena_array(c->import->scratch, xs->n_strings + 1, sizeof *all);
    for (size_t i = 0; i < xs->n_strings && all != NULL; i++) {
        const char *x = bl_arena_strndup(c->import->scratch, xs->strings[i].len > 0 ? (const char *)xs->strings[i].data : "",
                                         xs->strings[i].len);
        if (x == NULL || bl_onnx_find(c->names, x) != c->in[i])
            return bl_onnx_fail(c, "takes gradients only at the values that y was computed from");
        all[i + 1] = c->in[i];
    }
    if (all == NULL)
        return NULL;
    all[0] = y;
    return bl_onnx_make_many(c, "grad($0...)", ARGS(VS((int)xs->n_strings + 1, all)), c->nout, c->out) ? c->out[0] : NULL;
}
