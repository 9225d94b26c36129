/* SPDX-License-Identifier: MIT */
/* If, Loop and Scan.  A branch whose condition is known at import is written in place.  Everything else becomes cond and scan,
 * whose bodies are separate graphs; outer values that a body uses become inputs of the body. */
#include "proto/onnx/import.h"

#include <string.h>

enum { MOST_BATCH = 64 }; /* largest batch of Scan of opset 8, which is unrolled over the batch */

/* A body under construction: its graph and its scope of names. */
typedef struct body {
    bl_onnx_graph *graph;
    bl_onnx_names *names;
    const Onnx__GraphProto *proto;
} body;

static bool open_body(bl_onnx_call *c, const Onnx__GraphProto *proto, body *b)
{
    *b = (body){.graph = bl_onnx_open_graph(c->import, c->graph), .proto = proto};
    b->names = b->graph != NULL ? bl_onnx_open_names(c->import, c->names, b->graph) : NULL;
    return b->names != NULL;
}

/* The value of the body's output |i|; NULL after a failure. */
static bl_onnx_value *ops_control_output_of(bl_onnx_call *c, const bl_onnx_names *names, const Onnx__GraphProto *proto, size_t i)
{
    const char *name = i < proto->n_output && proto->output[i]->name != NULL ? proto->output[i]->name : "";
    bl_onnx_value *value = c->import->failed ? NULL : bl_onnx_find(names, name);

    if (value == NULL && !c->import->failed)
        bl_onnx_fail(c, "its body does not return \"%.100s\"", bl_onnx_clean(c->import, name));
    if (value != NULL && (value->sequence || value->type == NULL))
        return bl_onnx_fail(c, "output \"%.100s\" of its body is not a tensor", bl_onnx_clean(c->import, name));
    return value;
}

/* ---- If */

static bl_onnx_value *take_branch(bl_onnx_call *c, const Onnx__GraphProto *branch)
{
    bl_onnx_names *names = bl_onnx_open_names(c->import, c->names, c->graph);

    if (names == NULL || branch == NULL)
        return NULL;
    bl_onnx_write_graph(c->import, names, branch);
    if ((int)branch->n_output < c->nout)
        return bl_onnx_fail(c, "its branch has %zu outputs, but the node has %d", branch->n_output, c->nout);
    for (int i = 0; i < c->nout && !c->import->failed; i++) {
        const char *name = branch->output[i]->name != NULL ? branch->output[i]->name : "";
        c->out[i] = bl_onnx_find(names, name);
        if (c->out[i] == NULL)
            bl_onnx_fail(c, "its branch does not return \"%.100s\"", bl_onnx_clean(c->import, name));
    }
    return c->out[0];
}

/* Writes one branch as a body; captures the outer values of |other| in the same order. */
static bool write_branch(bl_onnx_call *c, const Onnx__GraphProto *branch, const bl_onnx_graph *other, body *b)
{
    bl_onnx_value **value;

    if (branch == NULL || !open_body(c, branch, b))
        return false;
    for (int i = 0; other != NULL && i < other->ncaptured; i++)
        (void)bl_onnx_use(c->import, b->graph, other->captured[i]);
    bl_onnx_write_graph(c->import, b->names, branch);
    if ((int)branch->n_output != c->nout)
        return bl_onnx_fail(c, "its branch has %zu outputs, but the node has %d", branch->n_output, c->nout) != NULL;
    value = bl_arena_array(c->import->scratch, (size_t)c->nout, sizeof *value);
    for (int i = 0; value != NULL && i < c->nout; i++)
        value[i] = ops_control_output_of(c, b->names, branch, (size_t)i);
    if (value != NULL && !c->import->failed)
        bl_onnx_body_outputs(c->import, b->graph, c->nout, value);
    return value != NULL && !c->import->failed;
}

/* Writes both branches, and a choice between their results. */
static bl_onnx_value *write_both(bl_onnx_call *c, const Onnx__GraphProto *yes, const Onnx__GraphProto *no)
{
    bl_onnx_value *condition = bl_onnx_in(c, 0);
    body then, otherwise;

    if (!write_branch(c, yes, NULL, &then) || !write_branch(c, no, then.graph, &otherwise))
        return NULL;
    for (int i = then.graph->ncaptured; i < otherwise.graph->ncaptured; i++)
        (void)bl_onnx_use(c->import, then.graph, otherwise.graph->captured[i]);
    return bl_onnx_make_many(c, "cond($0, $1..., then=$2, otherwise=$3)",
                             ARGS(V(condition), VS(otherwise.graph->ncaptured, otherwise.graph->captured), G(&then.graph->wire),
                                  G(&otherwise.graph->wire)),
                             c->nout, c->out)
               ? c->out[0]
               : NULL;
}

bl_onnx_value *bl_onnx_write_if(bl_onnx_call *c)
{
    bl_onnx_value *condition = bl_onnx_in(c, 0), *value;
    const bl_onnx_known *known = bl_onnx_know(c->import, condition);
    const Onnx__GraphProto *yes = bl_onnx_body(c, "then_branch"), *no = bl_onnx_body(c, "else_branch");

    if (condition == NULL || c->import->failed)
        return bl_onnx_fail(c, "needs a condition");
    if (known != NULL && known->count == 1 && known->size != NULL && bl_is_const(known->size[0]))
        return take_branch(c, bl_is_int(known->size[0], 0) ? no : yes);
    value = write_both(c, yes, no);
    if (value == NULL) /* a branch that fails, or differs in type: with a known condition the import can still take the other
                        * branch */
        bl_onnx_want(c, 0);
    return value;
}

/* ---- Loop */

typedef struct loop {
    const Onnx__GraphProto *proto;
    const bl_node *most, *steps; /* number of steps: |most| by the trip count, NULL if omitted; |steps| finally */
    int ncarries, nscans;        /* of the model's loop, without the counter and the condition */
    bool *stays;                 /* for each carry: every step returns it unchanged */
    bool asks;                   /* the loop has a condition that may become false */
    bool stops;                  /* the condition is computed in the body: a step after the condition became false changes
                                  * nothing */
    body body;
} loop;

/* Opens the body with its inputs: counter, the flag "goes on" if the loop stops, carries.  An unchanged carry is the outer
 * value.  |trial|: the body is only analysed. */
static bool open_loop_body(bl_onnx_call *c, loop *l, bool trial, bl_onnx_value **counter, bl_onnx_value **active)
{
    bl_onnx_importer *m = c->import;

    if (!open_body(c, l->proto, &l->body))
        return false;
    l->body.graph->folds = trial;
    *counter = bl_onnx_body_input(m, l->body.graph, NULL, BL_I64, 0, NULL);
    *active = l->stops ? bl_onnx_body_input(m, l->body.graph, NULL, BL_BOOL, 0, NULL) : NULL;
    bl_onnx_put(m, l->body.names, l->proto->input[0]->name, *counter);
    bl_onnx_put(m, l->body.names, l->proto->input[1]->name, bl_onnx_known_real(m, BL_BOOL, 1)); /* a step runs only while the
                                                                                                 * condition holds */
    for (int i = 0; i < l->ncarries && !m->failed; i++) {
        bl_onnx_value *start = c->in[2 + i];
        if (!l->stays[i])
            start = bl_onnx_body_input(m, l->body.graph, NULL, bl_onnx_type(start), bl_onnx_rank(start), start->type->dim);
        bl_onnx_put(m, l->body.names, l->proto->input[2 + i]->name, start);
    }
    bl_onnx_write_graph(m, l->body.names, l->proto);
    return !m->failed;
}

/* Writes the body once to find which carries are unchanged and the number of steps. */
static bool look_at_loop(bl_onnx_call *c, loop *l)
{
    bl_onnx_importer *m = c->import;
    bl_onnx_value *counter, *active, **next = bl_arena_array(m->scratch, (size_t)l->ncarries + 1, sizeof *next), *goes_on;
    const bl_node *trips = NULL;

    if (next == NULL || !open_loop_body(c, l, true, &counter, &active))
        return false;
    for (int i = 0; i < l->ncarries && !m->failed; i++) {
        next[i] = ops_control_output_of(c, l->body.names, l->proto, (size_t)i + 1);
        l->stays[i] = next[i] == bl_onnx_find(l->body.names, l->proto->input[2 + i]->name);
    }
    goes_on = ops_control_output_of(c, l->body.names, l->proto, 0);
    if (m->failed)
        return false;
    if (l->asks)
        trips = bl_onnx_count_trips(c, l->body.graph, l->ncarries, next, goes_on);
    if (trips != NULL && (l->most == NULL || !bl_may_be_negative(m->ir, bl_sub(m->ir, l->most, trips)))) {
        l->steps = trips;
        l->asks = false;
    } else if (trips != NULL && !bl_may_be_negative(m->ir, bl_sub(m->ir, trips, l->most))) {
        l->asks = false;
    }
    return true;
}

/* Writes the body with its results: next counter, optional "goes on", carries, then the stacked outputs. */
static bool write_loop_body(bl_onnx_call *c, loop *l)
{
    bl_onnx_importer *m = c->import;
    bl_onnx_value *counter, *active, **result = bl_arena_array(m->scratch, (size_t)(2 + l->ncarries + l->nscans), sizeof *result);
    bl_onnx_call inner = *c;
    int n = 0;

    if (result == NULL || !open_loop_body(c, l, false, &counter, &active))
        return false;
    inner.graph = l->body.graph;
    result[n++] = bl_onnx_make(&inner, "add($0, 1)", ARGS(V(counter)));
    if (l->stops)
        result[n++] = bl_onnx_make(&inner, "logical_and($0, reshape($1, shape=[]))",
                                   ARGS(V(active), V(ops_control_output_of(c, l->body.names, l->proto, 0))));
    for (int i = 0; i < l->ncarries + l->nscans; i++) {
        bl_onnx_value *value = ops_control_output_of(c, l->body.names, l->proto, (size_t)i + 1);
        if (i < l->ncarries && l->stays[i])
            continue;
        if (l->stops && i < l->ncarries)
            value = bl_onnx_make(&inner, "where($0, $1, $2)",
                                 ARGS(V(active), V(value), V(bl_onnx_find(l->body.names, l->proto->input[2 + i]->name))));
        result[n++] = value;
    }
    if (!m->failed)
        bl_onnx_body_outputs(m, inner.graph, n, result);
    return !m->failed;
}

static bool take_loop(bl_onnx_call *c, const Onnx__GraphProto *proto, loop *l)
{
    const bl_onnx_known *trips = bl_onnx_know(c->import, bl_onnx_in(c, 0)), *goes = bl_onnx_know(c->import, bl_onnx_in(c, 1));
    const bl_node *first = goes != NULL && goes->count == 1 ? goes->size[0] : NULL;

    *l = (loop){.proto = proto, .ncarries = c->nin > 2 ? c->nin - 2 : 0};
    if (trips != NULL && trips->size != NULL && trips->count == 1)
        l->most = trips->size[0]->hi < 0 ? bl_index(c->import->ir, 0) : trips->size[0];
    else if (trips == NULL && bl_onnx_in(c, 0) != NULL)
        return bl_onnx_fail_unknown(c, 0, "its trip count,") != NULL;
    else if (bl_onnx_in(c, 0) != NULL)
        return bl_onnx_fail(c, "input 0, its trip count, must be known when the model is imported") != NULL;
    if (proto == NULL || (int)proto->n_input != 2 + l->ncarries || (int)proto->n_output < 1 + l->ncarries ||
        c->nout > (int)proto->n_output - 1)
        return bl_onnx_fail(c, "its body does not have the inputs and outputs of a loop with %d carries", l->ncarries) != NULL;
    for (int i = 2; i < c->nin; i++) {
        if (c->in[i] == NULL || c->in[i]->sequence)
            return bl_onnx_fail(c, "carry %d is not a tensor", i - 2) != NULL;
    }
    for (size_t i = 0; i < proto->n_input; i++) {
        if (proto->input[i]->name == NULL)
            return bl_onnx_fail(c, "an input of its body has no name") != NULL;
    }
    l->nscans = (int)proto->n_output - 1 - l->ncarries;
    l->stays = bl_arena_array(c->import->scratch, (size_t)l->ncarries + 1, sizeof *l->stays);
    l->steps = l->most;
    if (first != NULL && bl_is_int(first, 0))
        l->steps = bl_index(c->import->ir, 0);
    else
        l->asks = bl_onnx_in(c, 1) != NULL;
    if (l->stays == NULL || !look_at_loop(c, l))
        return false;
    l->stops = l->asks;
    if (first == NULL || !bl_is_const(first)) /* the condition may be false before the first step */
        l->stops = bl_onnx_in(c, 1) != NULL;
    l->steps = l->stops ? l->most : l->steps;
    if (l->steps == NULL)
        return bl_onnx_fail(c, "input 0, its trip count, is left out, and the number of steps that its condition allows is not "
                               "known when the model is imported") != NULL;
    return !c->import->failed;
}

bl_onnx_value *bl_onnx_write_loop(bl_onnx_call *c)
{
    bl_onnx_importer *m = c->import;
    bl_onnx_value **operand, **result;
    int n = 0, carries, at;
    loop l;

    if (!take_loop(c, bl_onnx_body(c, "body"), &l) || !write_loop_body(c, &l))
        return NULL;
    if (l.stops && l.nscans > 0)
        return bl_onnx_fail(c, "the number of its steps is computed, so the length of its stacked outputs is not known");
    operand = bl_arena_array(m->scratch, (size_t)(2 + l.ncarries + l.body.graph->ncaptured), sizeof *operand);
    result = bl_arena_array(m->scratch, (size_t)(2 + l.ncarries + l.nscans), sizeof *result);
    if (operand == NULL || result == NULL || !bl_onnx_add_steps(c, l.steps, l.body.graph))
        return NULL;
    operand[n++] = bl_onnx_known_real(m, BL_I64, 0);
    if (l.stops)
        operand[n++] = bl_onnx_make(c, "reshape(b, shape=[])", NULL);
    at = n;
    for (int i = 0; i < l.ncarries; i++) {
        if (!l.stays[i])
            operand[n++] = c->in[2 + i];
    }
    carries = n;
    for (int i = 0; i < l.body.graph->ncaptured; i++)
        operand[n++] = l.body.graph->captured[i];
    if (!bl_onnx_make_many(c, "scan($0..., body=$1, carries=$2, length=$3)",
                           ARGS(VS(n, operand), G(&l.body.graph->wire), I(carries), ZS(-1, &l.steps)), carries + l.nscans,
                           result))
        return NULL;
    for (int i = 0; i < l.ncarries + l.nscans; i++) {
        bl_onnx_value *value = i < l.ncarries && l.stays[i] ? c->in[2 + i] : result[at++];
        if (i < c->nout)
            c->out[i] = value;
    }
    return c->nout > 0 ? c->out[0] : NULL;
}

/* ---- Scan */

static int64_t each_of(const int64_t *list, int n, int i)
{
    return list != NULL && i < n ? list[i] : 0;
}

/* Moves the scanned axis to the front, and reverses it if the scan runs backwards. */
static bl_onnx_value *front(bl_onnx_call *c, bl_onnx_value *x, int64_t axis, bool backwards)
{
    int64_t perm[BL_MAX_DIMS], zero = 0;
    int rank = bl_onnx_rank(x), at = bl_onnx_axis(c, axis, rank);

    for (int i = 0; i < rank; i++)
        perm[i] = i == 0 ? at : i <= at ? i - 1 : i;
    if (at != 0)
        x = bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(x), IS(rank, perm)));
    return backwards ? bl_onnx_make(c, "flip($0, axis=$1)", ARGS(V(x), IS(1, &zero))) : x;
}

/* Moves axis 0, along which results were stacked, to |axis|. */
static bl_onnx_value *back(bl_onnx_call *c, bl_onnx_value *x, int64_t axis, bool backwards)
{
    int64_t perm[BL_MAX_DIMS], zero = 0;
    int rank = bl_onnx_rank(x), at = bl_onnx_axis(c, axis, rank);

    for (int i = 0; i < rank; i++)
        perm[i] = i == at ? 0 : i < at ? i + 1 : i;
    if (backwards)
        x = bl_onnx_make(c, "flip($0, axis=$1)", ARGS(V(x), IS(1, &zero)));
    return at != 0 ? bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(x), IS(rank, perm))) : x;
}

static bool write_scan_body(bl_onnx_call *c, const Onnx__GraphProto *proto, int ncarries, bl_onnx_value *const *operand, body *b)
{
    bl_onnx_importer *m = c->import;
    bl_onnx_value **result = bl_arena_array(m->scratch, proto->n_output, sizeof *result);

    if (result == NULL || !open_body(c, proto, b))
        return false;
    for (int i = 0; i < c->nin && !m->failed; i++) {
        int less = i >= ncarries;
        if (operand[i] == NULL || bl_onnx_rank(operand[i]) < less || proto->input[i]->name == NULL)
            return bl_onnx_fail(c, "input %d is not a sequence", i) != NULL;
        bl_onnx_put(m, b->names, proto->input[i]->name,
                    bl_onnx_body_input(m, b->graph, NULL, bl_onnx_type(operand[i]), bl_onnx_rank(operand[i]) - less,
                                       operand[i]->type->dim + less));
    }
    bl_onnx_write_graph(m, b->names, proto);
    for (size_t i = 0; i < proto->n_output; i++)
        result[i] = ops_control_output_of(c, b->names, proto, i);
    if (!m->failed)
        bl_onnx_body_outputs(m, b->graph, (int)proto->n_output, result);
    return !m->failed;
}

bl_onnx_value *bl_onnx_write_scan(bl_onnx_call *c)
{
    const Onnx__GraphProto *proto = bl_onnx_body(c, "body");
    const int64_t *axes, *turned, *out_axes, *out_turned;
    int nsequences = (int)bl_onnx_int(c, "num_scan_inputs", 0), ncarries = c->nin - nsequences, n = c->nin;
    int naxes = bl_onnx_ints(c, "scan_input_axes", &axes), nturned = bl_onnx_ints(c, "scan_input_directions", &turned);
    int nout = bl_onnx_ints(c, "scan_output_axes", &out_axes), nouts = bl_onnx_ints(c, "scan_output_directions", &out_turned);
    bl_onnx_value **operand;
    body b;

    if (proto == NULL || nsequences < 1 || ncarries < 0 || (int)proto->n_input != c->nin || (int)proto->n_output != c->nout ||
        c->nout < ncarries)
        return bl_onnx_fail(c, "its body does not have the inputs and outputs that its operands need");
    operand = bl_arena_array(c->import->scratch, (size_t)c->nin, sizeof *operand);
    for (int i = 0; operand != NULL && i < c->nin; i++) {
        int s = i - ncarries;
        operand[i] = s < 0 ? c->in[i] : front(c, c->in[i], each_of(axes, naxes, s), each_of(turned, nturned, s) != 0);
    }
    if (operand == NULL || c->import->failed || !write_scan_body(c, proto, ncarries, operand, &b))
        return NULL;
    bl_onnx_value **all = bl_arena_array(c->import->scratch, (size_t)(n + b.graph->ncaptured), sizeof *all);
    for (int i = 0; all != NULL && i < n + b.graph->ncaptured; i++)
        all[i] = i < n ? operand[i] : b.graph->captured[i - n];
    if (all == NULL || !bl_onnx_add_steps(c, operand[ncarries]->type->dim[0], b.graph) ||
        !bl_onnx_make_many(c, "scan($0..., body=$1, carries=$2, sequences=$3)",
                           ARGS(VS(n + b.graph->ncaptured, all), G(&b.graph->wire), I(ncarries), I(nsequences)), c->nout, c->out))
        return NULL;
    for (int i = ncarries; i < c->nout; i++)
        c->out[i] = back(c, c->out[i], each_of(out_axes, nout, i - ncarries), each_of(out_turned, nouts, i - ncarries) != 0);
    return c->out[0];
}

/* Scan of opset 8: runs each item of the batch, the first axis of all inputs, separately.  The first input has the length of each
 * sequence. */
bl_onnx_value *bl_onnx_write_batch_scan(bl_onnx_call *c)
{
    bl_onnx_call inner = *c;
    const bl_node *batch = bl_onnx_rank(bl_onnx_in(c, 1)) > 0 ? c->in[1]->type->dim[0] : NULL;
    bl_arena *arena = c->import->scratch;

    if (batch == NULL || !bl_is_const(batch) || batch->hi < 1 || batch->hi > MOST_BATCH || c->in[0] != NULL ||
        bl_onnx_attr(c, "directions") != NULL)
        return bl_onnx_fail(c, "of opset 8 needs a batch of 1 to %d, without sequence_lens and directions", MOST_BATCH);
    bl_onnx_value **part = bl_arena_array(arena, (size_t)(c->nout * batch->hi), sizeof(bl_onnx_value *));
    inner.opset = 9;
    inner.nin = c->nin - 1;
    inner.in = bl_arena_array(arena, (size_t)inner.nin, sizeof *inner.in);
    inner.out = bl_arena_array(arena, (size_t)c->nout + 1, sizeof *inner.out);
    for (int64_t b = 0; part != NULL && inner.in != NULL && inner.out != NULL && b < batch->hi && !c->import->failed; b++) {
        for (int i = 0; i < inner.nin; i++)
            inner.in[i] =
                bl_onnx_make(&inner, "squeeze(slice($0, start=$1, stop=$2), axis=0)", ARGS(V(c->in[1 + i]), I(b), I(b + 1)));
        memset(inner.out, 0, ((size_t)c->nout + 1) * sizeof *inner.out);
        if (bl_onnx_write_scan(&inner) == NULL)
            return NULL;
        for (int i = 0; i < c->nout; i++)
            part[i * batch->hi + b] = inner.out[i];
    }
    c->nwritten = inner.nwritten;
    for (int i = 0; part != NULL && i < c->nout && !c->import->failed; i++)
        c->out[i] = bl_onnx_make(c, "stack($0...)", ARGS(VS((int)batch->hi, part + i * batch->hi)));
    return c->import->failed ? NULL : c->out[0];
}
