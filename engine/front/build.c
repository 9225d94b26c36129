/* SPDX-License-Identifier: MIT */
#include "engine/front/build.h"

#include "engine/base/map.h"
#include "engine/base/near.h"
#include "engine/front/training.h"
#include "engine/ir/scan.h"

#include <string.h>

const bl_node *bl_build_get(const bl_build *b, const bl_wire_ref *ref)
{
    switch (ref->kind) {
    case BL_REF_INPUT:
        return b->graph->inputs[ref->index];
    case BL_REF_STATE:
        return b->graph->inputs[b->wire->ninputs + ref->index];
    case BL_REF_NODE:
        return b->value[ref->index][ref->result];
    case BL_REF_LITERAL:
        break;
    }
    return bl_ir_fail(b->ir, BL_EBUG, "a literal is not a node");
}

const char *bl_build_ref_name(const bl_build *b, const bl_wire_ref *ref)
{
    switch (ref->kind) {
    case BL_REF_INPUT:
        return b->wire->inputs[ref->index].name;
    case BL_REF_STATE:
        return b->wire->states[ref->index].name;
    case BL_REF_NODE:
        return b->wire->nodes[ref->index].ids[ref->result];
    case BL_REF_LITERAL:
        break;
    }
    return "";
}

/* ---- hidden state */

static bool name_is_taken(const bl_build *b, const char *name)
{
    for (int i = 0; i < b->wire->ninputs; i++) {
        if (strcmp(b->wire->inputs[i].name, name) == 0)
            return true;
    }
    for (int i = 0; i < b->wire->nstates; i++) {
        if (strcmp(b->wire->states[i].name, name) == 0)
            return true;
    }
    for (int i = 0; i < b->graph->nhidden; i++) {
        if (strcmp(b->graph->hidden[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Make a hidden state, filled with 0. NULL after a failure. */
static const bl_node *add_hidden(bl_call *c, const char *name, bl_dtype dtype, int ndim, const bl_node *const *dim,
                                 const bl_node ***update)
{
    bl_build *b = c->build;
    bl_graph *g = b->graph;
    int slot = g->ninputs + g->nstates + g->nhidden;

    if (name == NULL || g->nhidden == b->max_hidden)
        return bl_call_fail_as(c, BL_ENOMEM, "out of room for the state that it keeps");
    if (strlen(name) > 128) /* the limit of the API */
        return bl_call_fail_as(c, BL_ELIMIT, "the name \"%s\" of the state that it keeps is too long; the limit is 128 bytes",
                               name);
    if (name_is_taken(b, name))
        return bl_call_fail(c, "keeps the state \"%s\", but the graph uses that name already", name);
    bl_hidden_state *hidden = &g->hidden[g->nhidden];
    *hidden = (bl_hidden_state){.name = name, .dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        if (!bl_is_const(dim[i]))
            return bl_call_fail(c, "cannot keep a state of shape %s; the shape of a state must be fixed",
                                bl_shape_text(c->ir, ndim, dim, NULL));
        hidden->dim[i] = bl_const_value(dim[i]).i;
    }
    g->inputs[slot] = bl_input(c->ir, slot, dtype, ndim, dim);
    *update = &g->updates[g->nstates + g->nhidden];
    g->nhidden++;
    return g->inputs[slot];
}

const bl_node *bl_build_hide(bl_call *c, const char *name, bl_dtype dtype, const bl_node *like, const bl_node ***update)
{
    *update = &c->build->unread;
    if (c->build->outer != NULL)
        return bl_call_fail(c, "keeps state; a body cannot keep state");
    if (!c->build->options->program)
        return bl_call_fail(c, "keeps state; only a program has state");
    return add_hidden(c, name, dtype, like == NULL ? 0 : like->ndim, like == NULL ? NULL : like->dim, update);
}

const bl_node *bl_build_rng(bl_call *c, bool step)
{
    bl_build *b = c->build;
    const bl_node *two = bl_index(c->ir, 2);

    if (b->outer != NULL)
        return bl_call_fail(c, "draws random numbers; a body cannot draw them: draw them outside and pass them in");
    if (b->rng == NULL) {
        b->rng_update = &b->unread;
        b->rng = add_hidden(c, "rng", BL_U32, 1, &two, &b->rng_update);
        b->graph->uses_rng = true;
    }
    if (step)
        *b->rng_update = bl_add(c->ir, b->rng, bl_iota(c->ir, BL_U32, two)); /* {seed + 0, step + 1} */
    return b->rng;
}

/* ---- the parts of the wire graph */

const bl_node *bl_front_extent(bl_ir *ir, int number, const bl_wire_var *var)
{
    int64_t step = bl_wire_var_step(var);
    const bl_node *steps = bl_var(ir, number, var->lo / step, var->hi / step);
    return step > 1 ? bl_mul(ir, steps, bl_index(ir, step)) : steps;
}

static const bl_node *make_input(bl_build *b, int slot, const bl_wire_type *type)
{
    const bl_node *dim[BL_MAX_DIMS];

    if (type->ndim > BL_MAX_DIMS)
        return bl_ir_fail(b->ir, BL_ELIMIT, "a tensor has at most %d dimensions", BL_MAX_DIMS);
    for (int i = 0; i < type->ndim; i++) {
        const bl_wire_dim *d = &type->dim[i];
        dim[i] = d->var < 0 ? bl_index(b->ir, d->size) : bl_front_extent(b->ir, d->var, &b->wire->vars[d->var]);
    }
    return bl_input(b->ir, slot, type->dtype, type->ndim, dim);
}

static void make_inputs(bl_build *b)
{
    for (int i = 0; i < b->wire->ninputs; i++)
        b->graph->inputs[i] = make_input(b, i, &b->wire->inputs[i].type);
    for (int i = 0; i < b->wire->nstates; i++)
        b->graph->inputs[b->wire->ninputs + i] = make_input(b, b->wire->ninputs + i, &b->wire->states[i].type);
}

/* |value| with gradients that flow to |source|. Each result with respect to which a gradient is taken becomes an ALIAS until
 * the graph is complete: values are interned, so two equal results, or a result and a view of it, would otherwise be one
 * node. */
static const bl_node *alias(bl_build *b, const bl_node *value, const bl_node *source)
{
    return bl_alias(b->ir, value, source, ++bl_build_outermost(b)->naliases);
}

const bl_node *expand__with_gradient(bl_call *c)
{
    if (!bl_shape_equal(c->in[0], c->in[1]))
        return bl_call_fail(c, "the gradient must have the shape of its value: %s and %s", bl_call_shape(c, c->in[0]),
                            bl_call_shape(c, c->in[1]));
    return alias(c->build, c->in[0], c->in[1]);
}

/* Operands: y, then for each x a pair: x and the partial derivative of y with respect to x. */
const bl_node *expand__with_partials(bl_call *c)
{
    const bl_node *all[1 + 2 * BL_MAX_PARTIALS] = {c->in[0]}, *x[BL_MAX_PARTIALS], *partial[BL_MAX_PARTIALS];
    int n = c->nrest / 2;

    if (c->nrest % 2 != 0 || n == 0 || n > BL_MAX_PARTIALS)
        return bl_call_fail(c, "has %d operands after y; it needs 1 to %d pairs", c->nrest, BL_MAX_PARTIALS);
    for (int i = 0; i < c->nrest; i++)
        all[1 + i] = c->rest[i];
    if (!bl_call_broadcast(c, 1 + 2 * n, all))
        return bl_call_failed(c);
    for (int i = 0; i < n; i++) {
        x[i] = all[1 + 2 * i];
        partial[i] = all[2 + 2 * i];
    }
    return bl_with_partials(c->ir, all[0], n, x, partial);
}

static bool build_check_result(bl_call *c, const bl_node *value)
{
    int64_t count;

    if (value == NULL || value->op == BL_OP_POISON)
        return false;
    if (bl_shape_max_count(value->ndim, value->dim, &count))
        return true;
    bl_call_fail_as(c, BL_ELIMIT, "a tensor of shape %s is too large", bl_call_shape(c, value));
    return false;
}

static const bl_node *use_alu(bl_call *c, bl_op op)
{
    const bl_node *in[3] = {c->in[0], c->in[1], c->in[2]};
    return c->sig.ninputs > 1 && !bl_call_broadcast(c, c->sig.ninputs, in) ? in[0] : bl_alu(c->ir, op, in);
}

static void fail_unknown_op(bl_ir *ir, const char *name)
{
    bl_near near;

    bl_near_init(&near, (bl_span){name, strlen(name)});
    for (size_t i = 0; i < bl_wire_ops_count; i++)
        if (bl_wire_ops[i].name[0] != '_')
            bl_near_offer(&near, (bl_span){bl_wire_ops[i].name, strlen(bl_wire_ops[i].name)});
    bl_ir_fail(ir, BL_EGRAPH, "there is no op \"%s\"%s", name, bl_near_hint(&near));
}

bool bl_build_call(bl_build *b, const bl_call *caller, const bl_wire_node *node, const bl_node *const *operand,
                   const bl_node **result)
{
    const bl_wire_op *op = bl_wire_op_find(node->op);
    bl_call c = {.ir = b->ir,
                 .build = b,
                 .op = node->op,
                 .caller = caller,
                 .node = node,
                 .operand = operand,
                 .nresults = node->nids,
                 .result = result};

    if (op == NULL || (caller == NULL && op->name[0] == '_')) {
        fail_unknown_op(b->ir, node->op);
        return false;
    }
    if (!bl_sig_parse(op->signature, &c.sig)) {
        bl_call_fail_as(&c, BL_EBUG, "the signature of the op cannot be parsed");
        return false;
    }
    if (!c.sig.many_results && node->nids != c.sig.nresults) {
        bl_call_fail(&c, "gives %d result%s, but has %d id%s", c.sig.nresults, c.sig.nresults == 1 ? "" : "s", node->nids,
                     node->nids == 1 ? "" : "s");
        return false;
    }
    if (!bl_call_take_inputs(&c) || !bl_call_decode_attrs(&c))
        return false;
    const bl_node *value = op->formula != NULL  ? bl_formula_eval(&c, op->formula)
                           : op->expand != NULL ? op->expand(&c)
                                                : use_alu(&c, op->alu);
    if (!c.sig.many_results && c.sig.nresults == 1)
        result[0] = value;
    for (int i = 0; i < node->nids; i++) {
        if (bl_ir_status(b->ir, NULL) != BL_OK || !build_check_result(&c, result[i]))
            return false;
    }
    return true;
}

/* Build a node of the wire graph. False after a failure. */
static bool build_node(bl_build *b, int at)
{
    const bl_wire_node *node = &b->wire->nodes[at];
    const bl_node **operand = bl_arena_array(bl_ir_arena(b->ir), (size_t)node->nrefs, sizeof *operand);

    for (int i = 0; operand != NULL && i < node->nrefs; i++)
        operand[i] = node->refs[i].kind == BL_REF_LITERAL ? NULL : bl_build_get(b, &node->refs[i]);
    if (operand != NULL)
        bl_training_cast(b, node, operand);
    if (operand == NULL || !bl_build_call(b, NULL, node, operand, b->value[at]))
        return false;
    for (int i = 0; i < node->nids; i++) {
        if (b->wrt[at][i])
            b->value[at][i] = alias(b, b->value[at][i], b->value[at][i]);
    }
    return true;
}

static void build_nodes(bl_build *b)
{
    for (int i = 0; i < b->wire->nnodes; i++) {
        bl_ir_blame(b->ir, b->wire->nodes[i].ids[0]);
        if (build_node(b, i))
            continue;
        if (bl_ir_status(b->ir, NULL) == BL_OK)
            bl_ir_fail(b->ir, BL_EBUG, "%s: failed without a reason", b->wire->nodes[i].op);
        break;
    }
    bl_ir_blame(b->ir, NULL);
}

static void build_take_outputs(bl_build *b)
{
    for (int i = 0; i < b->wire->noutputs; i++) {
        const bl_wire_ref *ref = &b->wire->outputs[i].ref;
        b->graph->outputs[i] =
            ref->kind == BL_REF_LITERAL ? bl_const_float(b->ir, BL_F32, ref->literal.value) : bl_build_get(b, ref);
    }
}

/* Check the counts of outputs: a count must be one integer, for an existing axis. */
static void check_counts(bl_build *b)
{
    for (int i = 0; i < bl_wire_shown(b->wire); i++) {
        const bl_wire_output *output = &b->wire->outputs[i];
        if (output->count == 0)
            continue;
        const bl_node *count = b->graph->outputs[output->count], *value = b->graph->outputs[i];
        if (count->dtype != BL_I64 || count->ndim > 0)
            bl_ir_fail(b->ir, BL_EGRAPH, "rows of \"%s\": its count is %s; it must be an int64 without dimensions", output->name,
                       bl_node_text(b->ir, count));
        if (output->axis >= value->ndim)
            bl_ir_fail(b->ir, BL_EGRAPH, "rows of \"%s\": axis is %d, but the tensor has %d dimensions", output->name,
                       output->axis, value->ndim);
    }
}

static void take_update(bl_build *b, const bl_wire_output *update)
{
    int at = 0;

    while (at < b->wire->nstates && strcmp(b->wire->states[at].name, update->name) != 0)
        at++;
    if (at == b->wire->nstates) {
        bl_ir_fail(b->ir, BL_EGRAPH, "update of \"%s\": there is no such state", update->name);
        return;
    }
    const bl_node *state = b->graph->inputs[b->wire->ninputs + at];
    const bl_node *value = update->ref.kind == BL_REF_LITERAL
                               ? bl_const_float(b->ir, (bl_dtype)state->dtype, update->ref.literal.value)
                               : bl_build_get(b, &update->ref);
    if (b->options->training.mixed && bl_dtype_is_float((bl_dtype)value->dtype) && bl_dtype_is_float((bl_dtype)state->dtype))
        value = bl_cast(b->ir, (bl_dtype)state->dtype, value);
    if (value->dtype != state->dtype || !bl_shape_equal(value, state))
        bl_ir_fail(b->ir, BL_EGRAPH, "update of \"%s\": the state is %s, its new value %s", update->name,
                   bl_node_text(b->ir, state), bl_node_text(b->ir, value));
    if (!bl_training_keeps(b, &update->ref))
        b->graph->updates[at] = value;
}

/* Fill graph->checks: the checks of the graph and of its bodies, each once. */
static void take_checks(bl_build *b)
{
    bl_graph *g = b->graph;
    bl_ptrmap seen;

    g->checks = bl_arena_array(bl_ir_arena(b->ir), (size_t)bl_checks_count(b->checks), sizeof *g->checks);
    bl_ptrmap_init(&seen, bl_ir_arena(b->ir));
    for (const bl_index_check *check = b->checks; check != NULL && g->checks != NULL; check = check->next) {
        if (bl_ptrmap_has(&seen, check->first))
            continue;
        bl_ptrmap_add(&seen, check->first);
        g->checks[g->nchecks++] = *check;
    }
}

/* Keep the values of all nodes. Called at the end, when no more gradients are taken. */
static void keep_values(bl_build *b)
{
    bl_graph *g = b->graph;
    size_t n = 0;

    for (int i = 0; i < b->wire->nnodes; i++)
        n += (size_t)b->wire->nodes[i].nids;
    g->values = bl_arena_array(bl_ir_arena(b->ir), n + 1, sizeof *g->values);
    for (int i = 0; g->values != NULL && i < b->wire->nnodes; i++)
        for (int k = 0; k < b->wire->nodes[i].nids; k++)
            g->values[g->nvalues++] = b->value[i][k];
}

static void drop_aliases(bl_build *b)
{
    bl_graph *g = b->graph;
    int nupdates = g->nstates + g->nhidden, n = 0;
    bl_arena *arena = bl_ir_arena(b->ir);
    size_t most = (size_t)(g->noutputs + nupdates + g->nchecks + g->nvalues) + 1;
    const bl_node ***at = bl_arena_array(arena, most, sizeof *at); /* for each root, the member of the graph that holds it */
    const bl_node **root = bl_arena_array(arena, most, sizeof *root);

    if (at == NULL || root == NULL || bl_ir_status(b->ir, NULL) != BL_OK)
        return;
    for (int i = 0; i < g->noutputs; i++)
        at[n++] = &g->outputs[i];
    for (int i = 0; i < nupdates; i++) {
        if (g->updates[i] != NULL)
            at[n++] = &g->updates[i];
    }
    for (int i = 0; i < g->nchecks; i++)
        at[n++] = &g->checks[i].first;
    for (int i = 0; i < g->nvalues; i++)
        at[n++] = &g->values[i];
    for (int i = 0; i < n; i++)
        root[i] = *at[i];
    bl_drop_aliases(b->ir, n, root);
    for (int i = 0; i < n; i++)
        *at[i] = root[i];
}

/* A state whose new value is the old value is not updated. */
static void drop_unchanged(bl_build *b)
{
    bl_graph *g = b->graph;

    for (int i = 0; i < g->nstates + g->nhidden; i++)
        if (g->updates[i] == g->inputs[g->ninputs + i])
            g->updates[i] = NULL;
}

/* ---- memory */

static bool takes_gradients(const bl_wire_node *node)
{
    const bl_wire_op *op = bl_wire_op_find(node->op);
    return op != NULL && strstr(op->signature, ": Wrt") != NULL;
}

/* Mark the results with respect to which gradients are taken, and count the hidden states that optimisers may create. */
static void mark_wrt(bl_build *b)
{
    for (int i = 0; i < b->wire->nnodes; i++) {
        const bl_wire_node *node = &b->wire->nodes[i];
        if (!takes_gradients(node))
            continue;
        b->max_hidden +=
            3 * node->nrefs + 3; /* per parameter two tensors and a sum; the step number; for loss scaling two numbers */
        for (int k = 1; k < node->nrefs; k++) {
            const bl_wire_ref *ref = &node->refs[k];
            if (ref->kind == BL_REF_NODE)
                b->wrt[ref->index][ref->result] = true;
        }
    }
}

static bool alloc_nodes(bl_build *b, bl_arena *arena)
{
    size_t nnodes = (size_t)b->wire->nnodes;

    b->value = bl_arena_array(arena, nnodes, sizeof *b->value);
    b->wrt = bl_arena_array(arena, nnodes, sizeof *b->wrt);
    for (size_t i = 0; i < nnodes && b->value != NULL && b->wrt != NULL; i++) {
        size_t nids = (size_t)b->wire->nodes[i].nids;
        b->value[i] = bl_arena_array(arena, nids, sizeof *b->value[i]);
        b->wrt[i] = bl_arena_array(arena, nids, sizeof *b->wrt[i]);
    }
    return bl_arena_status(arena, NULL) == BL_OK;
}

static bool alloc_graph(bl_build *b, bl_arena *arena)
{
    const bl_wire_graph *wire = b->wire;
    bl_graph *g = bl_arena_alloc(arena, sizeof *g);

    b->graph = g;
    b->max_hidden = 1; /* one for rng */
    if (g == NULL || !alloc_nodes(b, arena))
        return false;
    mark_wrt(b);
    size_t nkept = (size_t)wire->nstates + (size_t)b->max_hidden;
    *g = (bl_graph){
        .ir = b->ir, .nvars = wire->nvars, .ninputs = wire->ninputs, .nstates = wire->nstates, .noutputs = wire->noutputs};
    g->vars = bl_arena_array(arena, (size_t)wire->nvars, sizeof *g->vars);
    g->inputs = bl_arena_array(arena, (size_t)wire->ninputs + nkept, sizeof *g->inputs);
    g->hidden = bl_arena_array(arena, (size_t)b->max_hidden, sizeof *g->hidden);
    g->outputs = bl_arena_array(arena, (size_t)wire->noutputs, sizeof *g->outputs);
    g->updates = bl_arena_array(arena, nkept, sizeof *g->updates);
    const char **names = bl_arena_array(arena, (size_t)wire->nvars, sizeof *names);
    int64_t *steps = bl_arena_array(arena, (size_t)wire->nvars, sizeof *steps);
    if (bl_arena_status(arena, NULL) != BL_OK)
        return false;
    for (int i = 0; i < wire->nvars; i++) {
        g->vars[i] = wire->vars[i];
        g->vars[i].lo /= bl_wire_var_step(&wire->vars[i]);
        g->vars[i].hi /= bl_wire_var_step(&wire->vars[i]);
        g->vars[i].name = names[i] = bl_arena_strdup(arena, wire->vars[i].name);
        steps[i] = bl_wire_var_step(&wire->vars[i]);
    }
    bl_ir_name_vars(b->ir, wire->nvars, names, steps);
    return bl_arena_status(arena, NULL) == BL_OK;
}

bool bl_build_body(bl_call *c, const bl_wire_graph *body, const bl_node *const *input, const bl_node **output,
                   const bl_index_check **checks)
{
    bl_wire_graph wire = *body;
    bl_build b = {.ir = c->ir, .outer = c->build, .wire = &wire, .options = c->build->options};

    wire.nvars = c->build->wire->nvars;
    wire.vars = c->build->wire->vars;
    b.last_check = &b.checks;
    if (!alloc_graph(&b, bl_ir_arena(c->ir)))
        return false;
    for (int i = 0; i < wire.ninputs; i++)
        b.graph->inputs[i] = alias(&b, input[i], input[i]);
    build_nodes(&b);
    if (bl_ir_status(c->ir, NULL) == BL_OK)
        build_take_outputs(&b);
    for (int i = 0; i < wire.noutputs; i++)
        output[i] = b.graph->outputs[i];
    *checks = b.checks;
    bl_ir_blame(c->ir, c->node->ids[0]);
    return bl_ir_status(c->ir, NULL) == BL_OK;
}

bl_status bl_front_build(const bl_wire_graph *wire, const bl_front_options *options, bl_graph **out, bl_err *err)
{
    bl_build b = {.ir = bl_ir_create(options->max_bytes), .wire = wire, .options = options};
    bl_status st;

    *out = NULL;
    if (b.ir == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory while compiling");
    bl_ir_limit_time(b.ir, options->max_seconds);
    bl_ir_obey(b.ir, &options->halt);
    b.last_check = &b.checks;
    if (alloc_graph(&b, bl_ir_arena(b.ir))) {
        make_inputs(&b);
        if (bl_ir_status(b.ir, NULL) == BL_OK)
            build_nodes(&b);
        if (bl_ir_status(b.ir, NULL) == BL_OK) {
            build_take_outputs(&b);
            check_counts(&b);
            for (int i = 0; i < wire->nupdates; i++)
                take_update(&b, &wire->updates[i]);
            take_checks(&b);
            if (options->keeps_values)
                keep_values(&b);
            drop_aliases(&b);
            drop_unchanged(&b);
        }
    }
    st = bl_ir_status(b.ir, err);
    if (st == BL_OK)
        *out = b.graph;
    else
        bl_ir_destroy(b.ir);
    return st;
}

void bl_graph_destroy(bl_graph *graph)
{
    if (graph != NULL)
        bl_ir_destroy(graph->ir);
}
