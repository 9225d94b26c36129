/* SPDX-License-Identifier: MIT */
/* RNN, GRU and LSTM: a scan over time for each direction.  The products of the inputs with the weights do not depend on the
 * previous step, so they are computed for all steps at once. */
#include "proto/onnx/onnx_quant.h"

#include <string.h>
#include <strings.h>

enum { MOST_ACTIVATIONS = 6, GATES = 4 };

typedef struct recurrence {
    bl_onnx_call *c;
    char kind;    /* R, G, L */
    int gates;    /* 1, 3, 4 */
    int64_t size; /* size of the hidden state */
    bool batch_first;
    bool rounds;                              /* quantise and dequantise data and states by their own range before each
                                               * product */
    const char *activation[MOST_ACTIVATIONS]; /* a direction uses its activations from |first| on */
    double alpha[MOST_ACTIVATIONS], beta[MOST_ACTIVATIONS];
    int first;
} recurrence;

/* ---- activations */

static const struct {
    const char *name, *recipe;
    double alpha, beta;
} activations[] = {{"Sigmoid", "sigmoid($0)", 0, 0},
                   {"Tanh", "tanh($0)", 0, 0},
                   {"Relu", "relu($0)", 0, 0},
                   {"Affine", "add(mul($0, $1), $2)", 1, 0},
                   {"LeakyRelu", "leaky_relu($0, negative_slope=$1)", 0.01, 0},
                   {"ThresholdedRelu", "where(greater($0, $1), $0, 0)", 1, 0},
                   {"ScaledTanh", "mul(tanh(mul($0, $2)), $1)", 1, 1},
                   {"HardSigmoid", "hardsigmoid($0, alpha=$1, beta=$2)", 0.2, 0.5},
                   {"Elu", "elu($0, alpha=$1)", 1, 0},
                   {"Softsign", "softsign($0)", 0, 0},
                   {"Softplus", "softplus($0)", 0, 0},
                   {"HardSwish", "hardswish($0)", 0, 0},
                   {"Clip", "clamp($0, min=$1, max=$2)", -3.4028234663852886e38, 3.4028234663852886e38}};

static int find_activation(const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (strcasecmp(name, activations[i].name) == 0)
            return (int)i;
    }
    return -1;
}

bl_onnx_value *bl_onnx_activate(bl_onnx_call *c, const char *name, bl_onnx_value *x, const double *alpha, const double *beta)
{
    int at = find_activation(name);

    if (at < 0)
        return bl_onnx_fail(c, "unknown activation \"%.40s\"", bl_onnx_clean(c->import, name));
    return bl_onnx_make(
        c, activations[at].recipe,
        ARGS(V(x), R(alpha != NULL ? *alpha : activations[at].alpha), R(beta != NULL ? *beta : activations[at].beta)));
}

static bl_onnx_value *ops_recurrent_activate(const recurrence *r, bl_onnx_call *c, int which, bl_onnx_value *x)
{
    int i = r->first + which;

    return bl_onnx_activate(c, r->activation[i], x, &r->alpha[i], &r->beta[i]);
}

/* Reads the names of the attribute, or uses the presets of each direction; each activation with parameters takes the next
 * parameters. */
static bool take_activations(recurrence *r, int directions)
{
    static const char *const presets[] = {"Tanh", NULL, NULL, "Sigmoid", "Tanh", NULL, "Sigmoid", "Tanh", "Tanh"};
    const Onnx__AttributeProto *names = bl_onnx_attr(r->c, "activations");
    int each = r->kind == 'R' ? 1 : r->kind == 'G' ? 2 : 3, row = r->kind == 'R' ? 0 : r->kind == 'G' ? 3 : 6;
    const float *alpha, *beta;
    int nalpha = bl_onnx_floats(r->c, "activation_alpha", &alpha), nbeta = bl_onnx_floats(r->c, "activation_beta", &beta);
    int a = 0, b = 0;

    for (int i = 0; i < each * directions; i++) {
        r->activation[i] = presets[row + i % each];
        if (names != NULL && i < (int)names->n_strings && names->strings[i].len > 0)
            r->activation[i] =
                bl_arena_strndup(r->c->import->scratch, (const char *)names->strings[i].data, names->strings[i].len);
        if (r->activation[i] == NULL)
            return false;
        int at = find_activation(r->activation[i]);
        r->alpha[i] = at < 0 ? 0 : activations[at].alpha;
        r->beta[i] = at < 0 ? 0 : activations[at].beta;
        if (r->alpha[i] != 0 && a < nalpha)
            r->alpha[i] = (double)alpha[a++];
        if (at >= 0 && strstr(activations[at].recipe, "$2") != NULL && b < nbeta)
            r->beta[i] = (double)beta[b++];
    }
    return true;
}

/* ---- one step: c->graph is the body */

static bl_onnx_value *ops_recurrent_clip(bl_onnx_call *c, bl_onnx_value *x)
{
    double bound = bl_onnx_float(c, "clip", 0);

    return bound > 0 ? bl_onnx_make(c, "clamp($0, min=$1, max=$2)", ARGS(V(x), R(-bound), R(bound))) : x;
}

static bool split_gates(bl_onnx_call *c, const recurrence *r, bl_onnx_value *all, bl_onnx_value **gate)
{
    int64_t sizes[GATES] = {r->size, r->size, r->size, r->size};

    if (r->gates == 1) {
        gate[0] = all;
        return all != NULL;
    }
    return bl_onnx_make_many(c, "split($0, sizes=$1, axis=-1)", ARGS(V(all), IS(r->gates, sizes)), r->gates, gate);
}

/* Constants of a direction: weights [gates * size, size] of the previous state, their bias, and peepholes [3 * size] or NULL. */
typedef struct weights {
    bl_onnx_value *hidden, *bias, *peep;
} weights;

static bl_onnx_value *step_gru(const recurrence *r, bl_onnx_call *c, const weights *w, bl_onnx_value *x, bl_onnx_value *h)
{
    bl_onnx_value *a[GATES], *b[GATES], *z, *reset, *n;
    bool after = bl_onnx_int(c, "linear_before_reset", 0) != 0;
    int64_t rows[2] = {2 * r->size, r->size};
    bl_onnx_value *part[2], *bias[2];

    if (!split_gates(c, r, x, a) ||
        !bl_onnx_make_many(c, "split($0, sizes=$1, axis=0)", ARGS(V(w->hidden), IS(2, rows)), 2, part) ||
        !bl_onnx_make_many(c, "split($0, sizes=$1, axis=0)", ARGS(V(w->bias), IS(2, rows)), 2, bias))
        return NULL;
    bl_onnx_value *first = bl_onnx_make(c, "linear($0, $1, $2)", ARGS(V(h), V(part[0]), V(bias[0])));
    int64_t halves[2] = {r->size, r->size};
    if (!bl_onnx_make_many(c, "split($0, sizes=$1, axis=-1)", ARGS(V(first), IS(2, halves)), 2, b))
        return NULL;
    z = ops_recurrent_activate(r, c, 0, ops_recurrent_clip(c, bl_onnx_make(c, "add($0, $1)", ARGS(V(a[0]), V(b[0])))));
    reset = ops_recurrent_activate(r, c, 0, ops_recurrent_clip(c, bl_onnx_make(c, "add($0, $1)", ARGS(V(a[1]), V(b[1])))));
    if (after)
        n = bl_onnx_make(c, "mul($0, linear($1, $2, $3))", ARGS(V(reset), V(h), V(part[1]), V(bias[1])));
    else
        n = bl_onnx_make(c, "linear(mul($0, $1), $2, $3)", ARGS(V(reset), V(h), V(part[1]), V(bias[1])));
    n = ops_recurrent_activate(r, c, 1, ops_recurrent_clip(c, bl_onnx_make(c, "add($0, $1)", ARGS(V(a[2]), V(n)))));
    return bl_onnx_make(c, "add($0, mul($1, sub($2, $0)))", ARGS(V(n), V(z), V(h)));
}

/* The gates' order is input, output, forget, cell. */
static bl_onnx_value *step_lstm(const recurrence *r, bl_onnx_call *c, const weights *w, bl_onnx_value *x, bl_onnx_value *h,
                                bl_onnx_value **cell)
{
    bl_onnx_value *sum = bl_onnx_make(c, "add($0, linear($1, $2, $3))",
                                      ARGS(V(x), V(r->rounds ? bl_onnx_round_to_range(c, h) : h), V(w->hidden), V(w->bias)));
    bl_onnx_value *gate[GATES], *peep[3] = {NULL, NULL, NULL}, *in, *out, *forget, *fresh;
    int64_t sizes[3] = {r->size, r->size, r->size};

    if (!split_gates(c, r, sum, gate) ||
        (w->peep != NULL && !bl_onnx_make_many(c, "split($0, sizes=$1, axis=0)", ARGS(V(w->peep), IS(3, sizes)), 3, peep)))
        return NULL;
    if (w->peep != NULL) {
        gate[0] = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(gate[0]), V(peep[0]), V(*cell)));
        gate[2] = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(gate[2]), V(peep[2]), V(*cell)));
    }
    in = ops_recurrent_activate(r, c, 0, ops_recurrent_clip(c, gate[0]));
    forget = bl_onnx_int(c, "input_forget", 0) != 0 ? bl_onnx_make(c, "sub(1, $0)", ARGS(V(in)))
                                                    : ops_recurrent_activate(r, c, 0, ops_recurrent_clip(c, gate[2]));
    fresh = ops_recurrent_activate(r, c, 1, ops_recurrent_clip(c, gate[3]));
    *cell = bl_onnx_make(c, "add(mul($0, $1), mul($2, $3))", ARGS(V(forget), V(*cell), V(in), V(fresh)));
    if (w->peep != NULL)
        gate[1] = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(gate[1]), V(peep[1]), V(*cell)));
    out = ops_recurrent_activate(r, c, 0, ops_recurrent_clip(c, gate[1]));
    return bl_onnx_make(c, "mul($0, $1)", ARGS(V(out), V(ops_recurrent_activate(r, c, 2, *cell))));
}

static bl_onnx_value *step(const recurrence *r, bl_onnx_call *c, const weights *w, bl_onnx_value *x, bl_onnx_value *h,
                           bl_onnx_value **cell)
{
    if (r->kind == 'G')
        return step_gru(r, c, w, x, h);
    if (r->kind == 'L')
        return step_lstm(r, c, w, x, h, cell);
    return ops_recurrent_activate(
        r, c, 0,
        ops_recurrent_clip(c, bl_onnx_make(c, "add($0, linear($1, $2, $3))", ARGS(V(x), V(h), V(w->hidden), V(w->bias)))));
}

/* ---- one direction */

/* A step past the end of its row keeps the state and gives 0. */
static bl_onnx_value *ops_recurrent_hold(bl_onnx_call *c, bl_onnx_value *runs, bl_onnx_value *fresh, bl_onnx_value *old)
{
    return runs == NULL ? fresh : bl_onnx_make(c, "where($0, $1, $2)", ARGS(V(runs), V(fresh), V(old)));
}

static bl_onnx_value *body_like(bl_onnx_call *c, bl_onnx_graph *body, const bl_onnx_value *x, int less)
{
    return x == NULL ? NULL
                     : bl_onnx_body_input(c->import, body, NULL, bl_onnx_type(x), bl_onnx_rank(x) - less, x->type->dim + less);
}

/* Row |d| of an input whose first axis is the direction; NULL if the input is omitted. */
static bl_onnx_value *row(bl_onnx_call *c, bl_onnx_value *x, int d, int axis)
{
    int64_t at = axis;

    return x == NULL ? NULL
                     : bl_onnx_make(c, "squeeze(slice($0, start=$1, stop=$2, axis=$3), axis=$3)",
                                    ARGS(V(x), I(d), I(d + 1), IS(1, &at)));
}

static bl_onnx_value *zeros(bl_onnx_call *c, bl_dtype dtype, int n, const bl_node *const *dim)
{
    return bl_onnx_make(c, "full(shape=$0, value=0, dtype=$1)", ARGS(ZS(n, dim), D(dtype)));
}

/* Inputs: x [time, batch, in].  |result|: the last h, the last c (LSTM only), all h [time, batch, size]. */
static bool run_direction(const recurrence *r, bl_onnx_value *x, int d, bool backwards, bl_onnx_value **result)
{
    bl_onnx_call *c = r->c, inner = *c;
    bl_ir *ir = c->import->ir;
    bool lstm = r->kind == 'L';
    int start = r->batch_first ? 1 : 0, states = lstm ? 2 : 1;
    const bl_node *size = bl_index(ir, r->size), *all = bl_index(ir, r->gates * r->size);
    const bl_node *shape[2] = {x->type->dim[1], size};
    bl_dtype dtype = bl_onnx_type(x);
    bl_onnx_value *w = row(c, c->in[1], d, 0), *bias = row(c, bl_onnx_in(c, 3), d, 0), *both[2], *operand[4], *in[4] = {NULL},
                  *out[3];
    weights own = {.hidden = row(c, c->in[2], d, 0), .peep = lstm ? row(c, bl_onnx_in(c, 7), d, 0) : NULL}, handed;
    int64_t halves[2] = {r->gates * r->size, r->gates * r->size};

    if (bias == NULL)
        both[0] = both[1] = zeros(c, dtype, 1, &all);
    else if (!bl_onnx_make_many(c, "split($0, sizes=$1)", ARGS(V(bias), IS(2, halves)), 2, both))
        return false;
    own.bias = both[1];
    operand[0] = row(c, bl_onnx_in(c, 5), d, start);
    operand[1] = lstm ? row(c, bl_onnx_in(c, 6), d, start) : NULL;
    for (int i = 0; i < states; i++)
        operand[i] = operand[i] != NULL ? operand[i] : zeros(c, dtype, 2, shape);
    operand[states] =
        bl_onnx_make(c, "linear($0, $1, $2)", ARGS(V(r->rounds ? bl_onnx_round_to_range(c, x) : x), V(w), V(both[0])));
    int sequences = 1;
    if (bl_onnx_in(c, 4) != NULL) { /* [time, batch, 1]: whether the step is within its row */
        operand[states + sequences++] =
            bl_onnx_make(c, "unsqueeze(less(unsqueeze(arange(stop=$0), axis=1), e), axis=-1)", ARGS(ZS(-1, &x->type->dim[0])));
    }
    inner.graph = bl_onnx_open_graph(c->import, c->graph);
    if (inner.graph == NULL || c->import->failed)
        return false;
    for (int i = 0; i < states + sequences; i++)
        in[i] = body_like(c, inner.graph, operand[i], i >= states);
    handed = own;
    bl_onnx_value *cell = lstm ? in[1] : NULL, *runs = sequences > 1 ? in[states + 1] : NULL;
    bl_onnx_value *h = step(r, &inner, &handed, in[states], in[0], &cell);
    out[0] = ops_recurrent_hold(&inner, runs, h, in[0]);
    if (lstm)
        out[1] = ops_recurrent_hold(&inner, runs, cell, in[1]);
    out[states] = runs == NULL ? h : bl_onnx_make(&inner, "where($0, $1, 0)", ARGS(V(runs), V(h)));
    bl_onnx_body_outputs(c->import, inner.graph, states + 1, out);
    if (c->import->failed || !bl_onnx_add_steps(c, x->type->dim[0], inner.graph))
        return false;
    return bl_onnx_make_many(c, "scan($0..., $1..., body=$2, carries=$3, sequences=$4, reverse=$5)",
                             ARGS(VS(states + sequences, operand), VS(inner.graph->ncaptured, inner.graph->captured),
                                  G(&inner.graph->wire), I(states), I(sequences), B(backwards)),
                             states + 1, result);
}

/* Stacks both directions along |axis|. */
static bl_onnx_value *ops_recurrent_side_by_side(bl_onnx_call *c, int n, bl_onnx_value **part, int axis)
{
    return bl_onnx_make(c, "stack($0..., axis=$1)", ARGS(VS(n, part), I(axis)));
}

static bl_onnx_value *recurrent(bl_onnx_call *c, char kind, int gates, bool rounds)
{
    const char *direction = bl_onnx_text(c, "direction", "forward");
    bool both = strcmp(direction, "bidirectional") == 0, backwards = strcmp(direction, "reverse") == 0;
    recurrence r = {.c = c, .kind = kind, .gates = gates, .batch_first = bl_onnx_int(c, "layout", 0) != 0, .rounds = rounds};
    bl_onnx_value *x = bl_onnx_in(c, 0), *h[2], *cell[2], *all[2], *result[3];
    int n = both ? 2 : 1;

    if (bl_onnx_rank(x) != 3 || bl_onnx_rank(bl_onnx_in(c, 1)) != 3 || bl_onnx_rank(bl_onnx_in(c, 2)) != 3 ||
        !bl_is_const(c->in[2]->type->dim[2]))
        return bl_onnx_fail(c, "needs data, weights and recurrent weights of 3 dimensions");
    r.size = c->in[2]->type->dim[2]->hi;
    if (!take_activations(&r, n))
        return NULL;
    if (r.batch_first)
        x = bl_onnx_make(c, "transpose(a, axis0=0, axis1=1)", NULL);
    for (int d = 0; d < n && x != NULL; d++) {
        r.first = d * (kind == 'R' ? 1 : kind == 'G' ? 2 : 3);
        if (!run_direction(&r, x, d, backwards || d == 1, result))
            return NULL;
        h[d] = result[0];
        cell[d] = result[1];
        all[d] = result[kind == 'L' ? 2 : 1];
        if (r.batch_first)
            all[d] = bl_onnx_make(c, "transpose($0, axis0=0, axis1=1)", ARGS(V(all[d])));
    }
    if (x == NULL)
        return NULL;
    if (bl_onnx_wants(c, 1))
        c->out[1] = ops_recurrent_side_by_side(c, n, h, r.batch_first ? 1 : 0);
    if (bl_onnx_wants(c, 2) && kind == 'L')
        c->out[2] = ops_recurrent_side_by_side(c, n, cell, r.batch_first ? 1 : 0);
    return ops_recurrent_side_by_side(c, n, all, r.batch_first ? 2 : 1);
}

bl_onnx_value *bl_onnx_write_rnn(bl_onnx_call *c)
{
    return recurrent(c, 'R', 1, false);
}

bl_onnx_value *bl_onnx_write_gru(bl_onnx_call *c)
{
    return recurrent(c, 'G', 3, false);
}

bl_onnx_value *bl_onnx_write_lstm(bl_onnx_call *c)
{
    return recurrent(c, 'L', 4, false);
}

/* Dequantises a weight [directions, in, gates * size], with a scale and a zero point for each direction or each of its columns,
 * into LSTM's layout. */
static bl_onnx_value *dequantize_weight(bl_onnx_call *c, bl_onnx_value *w, bl_onnx_value *scale, bl_onnx_value *zero)
{
    if (bl_onnx_rank(w) != 3 || scale == NULL || zero == NULL)
        return bl_onnx_fail(c, "needs weights of 3 dimensions, their scales and zero points");
    const bl_node *one = bl_index(c->import->ir, 1), *each[3] = {w->type->dim[0], one, one};
    if (bl_onnx_rank(scale) == 2)
        each[2] = scale->type->dim[1];
    scale = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(scale), ZS(3, each)));
    zero = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(zero), ZS(3, each)));
    return bl_onnx_make(c, "contiguous(transpose($0))", ARGS(V(bl_onnx_dequantize(c, w, scale, zero))));
}

/* Inputs: the inputs of LSTM, then scale and zero point of the weights, and of the recurrent weights. */
bl_onnx_value *bl_onnx_write_dynamic_quantize_lstm(bl_onnx_call *c)
{
    bl_onnx_call inner = *c;
    bl_onnx_value *in[8];

    if (c->nin != 12)
        return bl_onnx_fail(c, "has %d inputs; it needs 12, of which some may be left out", c->nin);
    memcpy(in, c->in, sizeof in);
    in[1] = dequantize_weight(c, in[1], c->in[8], c->in[9]);
    in[2] = dequantize_weight(c, in[2], c->in[10], c->in[11]);
    inner.in = in;
    inner.nin = 8;
    inner.nwritten = c->nwritten;
    return recurrent(&inner, 'L', 4, true);
}
