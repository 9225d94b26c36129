/* SPDX-License-Identifier: MIT */
#include "proto/onnx/import.h"

#include <string.h>

enum { DEFAULT_BYTES = 1 << 30 };

bool bl_onnx_ok(bl_onnx_importer *m)
{
    if (!m->failed && (bl_arena_status(m->arena, m->err) != BL_OK || bl_arena_status(m->scratch, m->err) != BL_OK ||
                       (m->ir != NULL && bl_ir_status(m->ir, m->err) != BL_OK)))
        m->failed = true;
    return !m->failed;
}

/* ---- values */

bl_onnx_value *bl_onnx_new_value(bl_onnx_importer *m, const char *name, const bl_node *type)
{
    bl_onnx_value *value = bl_arena_alloc(m->scratch, sizeof *value);

    if (value == NULL)
        return bl_onnx_stop(m, BL_ENOMEM, "a value of an ONNX graph");
    *value = (bl_onnx_value){.name = name, .type = type};
    return value;
}

bl_wire_ref bl_onnx_add_state(bl_onnx_importer *m, const char *name, const bl_tensor_value *content)
{
    bl_program_doc *doc = &m->model->program;
    void *states = doc->states, *values = doc->values, *weight = m->model->weight;
    const bl_node *dim[BL_MAX_DIMS] = {0};
    bl_wire_ref ref = {.kind = BL_REF_STATE, .index = doc->nstates};

    if (!bl_onnx_ok(m))
        return ref;
    if ((size_t)doc->nstates + (size_t)m->main->wire.ninputs >= m->options->limits.max_inputs) {
        bl_onnx_stop(m, BL_ELIMIT, "more than %zu inputs and initialisers", m->options->limits.max_inputs);
        return ref;
    }
    bl_arena_reserve(m->arena, &states, doc->nstates, &m->state_cap, sizeof *doc->states);
    bl_arena_reserve(m->arena, &values, doc->nstates, &m->value_cap, sizeof *doc->values);
    bl_arena_reserve(m->arena, &weight, doc->nstates, &m->weight_cap, sizeof *m->model->weight);
    doc->states = states;
    doc->values = values;
    m->model->weight = weight;
    const char *unique = bl_onnx_wire_name(m, name);
    if (!bl_onnx_ok(m))
        return ref;
    bl_wire_tensor *state = &doc->states[doc->nstates];
    *state = (bl_wire_tensor){unique, bl_wire_type_make(content->dtype, content->ndim, content->dim)};
    for (int i = 0; i < content->ndim; i++)
        dim[i] = bl_index(m->ir, content->dim[i]);
    doc->values[doc->nstates] = *content;
    doc->values[doc->nstates].label = bl_arena_printf(m->arena, "state.%s", unique);
    m->model->weight[doc->nstates] = -1;
    doc->nstates++;
    bl_typer_input(m->main->typer, content->dtype, content->ndim, dim); /* for the typer, a state is an input after the others */
    (void)bl_onnx_ok(m);
    return ref;
}

static const bl_node *typer_type(bl_onnx_importer *m, const bl_tensor_value *tensor)
{
    const bl_node *dim[BL_MAX_DIMS] = {0};

    for (int i = 0; i < tensor->ndim; i++)
        dim[i] = bl_index(m->ir, tensor->dim[i]);
    return bl_input(m->ir, 0, tensor->dtype, tensor->ndim, dim);
}

bl_onnx_value *bl_onnx_state_value(bl_onnx_importer *m, const char *name, const bl_tensor_value *content)
{
    bl_onnx_value *value = bl_onnx_ok(m) ? bl_onnx_new_value(m, name, typer_type(m, content)) : NULL;

    if (value != NULL) {
        value->ref = bl_onnx_add_state(m, name, content);
        value->graph = m->main;
    }
    return value;
}

/* Adds an input to a body for |value| of an outer graph. */
static bl_wire_ref import_capture(bl_onnx_importer *m, bl_onnx_graph *graph, bl_onnx_value *value)
{
    bl_onnx_value *inside;
    void *at = graph->captured, *in = graph->inside;

    for (int i = 0; i < graph->ncaptured; i++) {
        const bl_wire_ref *ref = &graph->captured[i]->ref;
        bool same = value->graph != NULL && graph->captured[i]->graph == value->graph && ref->kind == value->ref.kind &&
                    ref->index == value->ref.index && ref->result == value->ref.result;
        if (same || graph->captured[i] == value)
            return graph->inside[i]->ref;
    }
    if (graph->outer == NULL) {
        bl_onnx_stop(m, BL_EBUG, "a value of no graph around");
        return (bl_wire_ref){0};
    }
    if (graph->ncaptured == 0)
        graph->first_captured = graph->wire.ninputs;
    inside = bl_onnx_body_input(m, graph, "captured", bl_onnx_type(value), bl_onnx_rank(value), value->type->dim);
    if (inside == NULL || !bl_arena_reserve(m->scratch, &at, graph->ncaptured, &graph->captured_cap, sizeof value) ||
        !bl_arena_reserve(m->scratch, &in, graph->ncaptured, &graph->inside_cap, sizeof value))
        return (bl_wire_ref){0};
    graph->captured = at;
    graph->inside = in;
    graph->captured[graph->ncaptured] = value;
    graph->inside[graph->ncaptured++] = inside;
    return inside->ref;
}

bl_wire_ref bl_onnx_use(bl_onnx_importer *m, bl_onnx_graph *graph, bl_onnx_value *value)
{
    bl_tensor_value content;
    const bl_onnx_known *known = NULL;

    if (value == NULL || !bl_onnx_ok(m))
        return (bl_wire_ref){0};
    if (value->graph == graph)
        return value->ref;
    if (graph->folds)
        return import_capture(m, graph, value);
    if (value->known == NULL && value->tensor != NULL && value->graph == NULL &&
        bl_is_int(bl_shape_count(m->ir, value->type->ndim, value->type->dim), 1))
        value->known = bl_onnx_know(m, value); /* a single number becomes a constant instead of a state */
    known = value->tensor == NULL || value->known == NULL || value->known->count == 1 ? value->known : NULL;
    bool stored = value->graph == m->main && value->ref.kind == BL_REF_STATE;
    if (known != NULL && !stored) {
        bl_wire_ref ref = bl_onnx_write_known(m, graph, value->name, known);
        value->graph = ref.kind == BL_REF_STATE ? m->main : graph;
        value->ref = ref;
    } else if (value->tensor != NULL && value->graph == NULL) {
        if (bl_onnx_tensor(m, value->tensor, &content, m->err) != BL_OK) {
            m->failed = true;
            return (bl_wire_ref){0};
        }
        value->ref = bl_onnx_add_state(m, value->name != NULL ? value->name : "constant", &content);
        value->graph = m->main;
        if (bl_onnx_ok(m))
            m->model->weight[value->ref.index] = bl_onnx_weight_of(m, value->tensor);
    }
    if (!bl_onnx_ok(m) || value->graph == graph)
        return value->ref;
    return import_capture(m, graph, value);
}

/* ---- graphs */

bl_onnx_graph *bl_onnx_open_graph(bl_onnx_importer *m, bl_onnx_graph *outer)
{
    bl_onnx_graph *graph = bl_arena_alloc(m->arena, sizeof *graph); /* nodes refer to the wire graph of a body */

    if (graph == NULL)
        return bl_onnx_stop(m, BL_ENOMEM, "an ONNX graph");
    graph->outer = outer;
    graph->typer = bl_typer_open(m->typer, outer != NULL ? outer->typer : NULL);
    if (graph->typer == NULL)
        return bl_onnx_stop(m, BL_ENOMEM, "an ONNX graph");
    return graph;
}

bl_onnx_value *bl_onnx_body_input(bl_onnx_importer *m, bl_onnx_graph *body, const char *name, bl_dtype dtype, int ndim,
                                  const bl_node *const *dim)
{
    void *inputs = body->wire.inputs;
    const bl_node *type = bl_typer_input(body->typer, dtype, ndim, dim);
    bl_onnx_value *value = bl_onnx_new_value(m, name, type);

    if (!bl_onnx_ok(m) || value == NULL ||
        !bl_arena_reserve(m->arena, &inputs, body->wire.ninputs, &body->input_cap, sizeof *body->wire.inputs))
        return NULL;
    if ((size_t)body->wire.ninputs >= m->options->limits.max_inputs)
        return bl_onnx_stop(m, BL_ELIMIT, "a body that takes more than %zu values", m->options->limits.max_inputs);
    body->wire.inputs = inputs;
    value->graph = body;
    value->ref = (bl_wire_ref){.kind = BL_REF_INPUT, .index = body->wire.ninputs};
    body->wire.inputs[body->wire.ninputs].name = bl_arena_printf(m->arena, "in%d", body->wire.ninputs);
    body->wire.ninputs++;
    return value;
}

void bl_onnx_body_outputs(bl_onnx_importer *m, bl_onnx_graph *body, int n, bl_onnx_value **value)
{
    body->wire.outputs = bl_arena_array(m->arena, (size_t)n, sizeof *body->wire.outputs);
    for (int i = 0; i < n && body->wire.outputs != NULL && !m->failed; i++) {
        if (value[i] != NULL && value[i]->count != NULL)
            bl_onnx_stop(m, BL_EGRAPH, "output %d of the body of an If, a Loop or a Scan has a shape that the data decide", i);
        body->wire.outputs[body->wire.noutputs++] = (bl_wire_output){.name = "", .ref = bl_onnx_use(m, body, value[i])};
    }
}

/* ---- nodes */

int64_t bl_onnx_opset(const bl_onnx_importer *m, const bl_onnx_names *names, const char *domain)
{
    size_t n = m->proto->n_opset_import;
    Onnx__OperatorSetIdProto **import = m->proto->opset_import;

    while (names != NULL && names->function == NULL)
        names = names->outer;
    if (names != NULL && names->function->n_opset_import > 0) {
        n = names->function->n_opset_import;
        import = names->function->opset_import;
    }
    for (size_t i = 0; i < n; i++) {
        const char *of = import[i]->domain == NULL || strcmp(import[i]->domain, "ai.onnx") == 0 ? "" : import[i]->domain;
        if (strcmp(of, domain) == 0)
            return import[i]->has_version ? import[i]->version : 1;
    }
    return 1;
}

const Onnx__FunctionProto *bl_onnx_find_function(const bl_onnx_importer *m, const char *domain, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < m->proto->n_functions; i++) {
        const Onnx__FunctionProto *f = m->proto->functions[i];
        const char *of = f->domain == NULL || strcmp(f->domain, "ai.onnx") == 0 ? "" : f->domain;
        if (f->name != NULL && strcmp(f->name, node->op_type) == 0 && strcmp(of, domain) == 0 &&
            strcmp(f->overload != NULL ? f->overload : "", node->overload != NULL ? node->overload : "") == 0)
            return f;
    }
    return NULL;
}

static void write_nodes(bl_onnx_importer *m, bl_onnx_names *names, size_t n, Onnx__NodeProto **node);

/* Writes the nodes of a function in place of the call. */
static void import_write_function(bl_onnx_call *c, const Onnx__FunctionProto *function)
{
    bl_onnx_importer *m = c->import;
    bl_onnx_names *names = bl_onnx_open_names(m, NULL, c->graph);

    if (names == NULL)
        return;
    names->function = function;
    names->caller = c->node;
    names->caller_names = c->names;
    for (size_t i = 0; i < function->n_input && (int)i < c->nin; i++) {
        if (c->in[i] != NULL)
            bl_onnx_put(m, names, function->input[i], c->in[i]);
    }
    write_nodes(m, names, function->n_node, function->node);
    for (size_t i = 0; i < function->n_output && (int)i < c->nout && !m->failed; i++) {
        c->out[i] = bl_onnx_find(names, function->output[i]);
        if (c->out[i] == NULL)
            bl_onnx_fail(c, "its function does not return \"%.100s\"", bl_onnx_clean(m, function->output[i]));
    }
}

static bool take_operands(bl_onnx_call *c)
{
    const Onnx__NodeProto *node = c->node;
    bl_onnx_importer *m = c->import;

    if (node->n_input > m->options->limits.max_inputs || node->n_output > m->options->limits.max_inputs)
        return bl_onnx_fail_as(c, BL_ELIMIT, "more than %zu inputs or outputs", m->options->limits.max_inputs) != NULL;
    c->nin = (int)node->n_input;
    c->nout = (int)node->n_output;
    c->in = bl_arena_array(m->scratch, node->n_input, sizeof *c->in);
    c->out = bl_arena_array(m->scratch, node->n_output + 1, sizeof *c->out);
    if (c->in == NULL || c->out == NULL)
        return bl_onnx_ok(m);
    for (int i = 0; i < c->nin; i++) {
        const char *name = node->input[i];
        if (*name == '\0')
            continue;
        c->in[i] = bl_onnx_find(c->names, name);
        if (c->in[i] == NULL)
            return bl_onnx_fail(c, "no input, initialiser or earlier node gives \"%.100s\"", bl_onnx_clean(m, name)) != NULL;
        if (c->in[i]->pixels != NULL && !bl_onnx_decodes(node))
            return bl_onnx_fail(c, "\"%.100s\" is an encoded picture, which only ImageDecoder takes", bl_onnx_clean(m, name)) !=
                   NULL;
        if (c->in[i]->type == NULL && !c->in[i]->sequence && c->in[i]->pixels == NULL)
            return bl_onnx_fail(c, "\"%.100s\" has a type that is not supported", bl_onnx_clean(m, name)) != NULL;
    }
    while (c->nin > 0 && c->in[c->nin - 1] == NULL) /* drops omitted inputs at the end */
        c->nin--;
    return true;
}

void bl_onnx_write_op(bl_onnx_call *c, const bl_onnx_op *op)
{
    bl_onnx_value *first = op->recipe != NULL ? bl_onnx_make(c, op->recipe, NULL) : op->write(c);

    if (c->out[0] == NULL)
        c->out[0] = first;
}

static void write_call(bl_onnx_call *c, const char *domain)
{
    const Onnx__FunctionProto *function = bl_onnx_find_function(c->import, domain, c->node);
    const bl_onnx_op *op = bl_onnx_op_find(domain, c->node->op_type, c->opset);

    if (function != NULL) {
        if (++c->import->depth > BL_ONNX_MAX_NESTING)
            bl_onnx_fail_as(c, BL_ELIMIT, "functions are nested more than %d deep", BL_ONNX_MAX_NESTING);
        else
            import_write_function(c, function);
        c->import->depth--;
    } else if (op == NULL) {
        bl_onnx_fail_operator(c, domain);
    } else if (bl_onnx_check_texts(c) && bl_onnx_may_take_counted(c)) {
        if (!bl_onnx_fold(c, op) && !c->import->failed) {
            bl_onnx_write_op(c, op);
            bl_onnx_keep_counted(c);
        }
        bl_onnx_mark_texts(c);
    }
}

const char *bl_onnx_node_label(bl_onnx_importer *m, const Onnx__NodeProto *node)
{
    if (node->name != NULL && *node->name != '\0')
        return bl_onnx_clean(m, node->name);
    for (size_t i = 0; i < node->n_output; i++) {
        if (*node->output[i] != '\0')
            return bl_onnx_clean(m, node->output[i]);
    }
    return "";
}

static void import_write_node(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__NodeProto *node)
{
    bl_onnx_call c = {.import = m, .names = names, .graph = names->graph, .node = node, .label = bl_onnx_node_label(m, node)};
    const char *domain = node->domain == NULL || strcmp(node->domain, "ai.onnx") == 0 ? "" : node->domain;

    if (++m->nnodes > BL_ONNX_MAX_NODES || m->nnodes > 16 * m->options->limits.max_nodes) {
        bl_onnx_fail_as(&c, BL_ELIMIT, "too many nodes");
        return;
    }
    c.opset = bl_onnx_opset(m, names, domain);
    if (node->op_type == NULL) {
        bl_onnx_fail(&c, "has no operator");
        return;
    }
    if (!take_operands(&c))
        return;
    write_call(&c, domain);
    for (int i = 0; i < c.nout && bl_onnx_ok(m); i++) {
        if (*node->output[i] == '\0')
            continue;
        if (c.out[i] == NULL) {
            bl_onnx_fail(&c, "output %d, \"%.100s\", is not supported", i, bl_onnx_clean(m, node->output[i]));
            return;
        }
        if (c.out[i]->name == NULL)
            c.out[i]->name = node->output[i];
        bl_onnx_put(m, names, node->output[i], c.out[i]);
    }
}

static void write_nodes(bl_onnx_importer *m, bl_onnx_names *names, size_t n, Onnx__NodeProto **node)
{
    node = bl_onnx_order(m, n, node);
    for (size_t i = 0; i < n && bl_onnx_ok(m); i++)
        import_write_node(m, names, node[i]);
}

static void put_initialisers(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph)
{
    bl_tensor_value content;

    for (size_t i = 0; i < graph->n_initializer && bl_onnx_ok(m); i++) {
        const Onnx__TensorProto *tensor = graph->initializer[i];
        bl_onnx_value *value = bl_onnx_new_value(m, tensor->name != NULL ? tensor->name : "", NULL);
        if (value == NULL)
            return;
        value->tensor = tensor;
        value->narrow = bl_onnx_narrow_find(tensor->data_type);
        value->texts = bl_onnx_is_strings(tensor->data_type);
        if (bl_onnx_stored_dtype(tensor->data_type) != BL_DTYPE_COUNT) { /* otherwise the first use of the tensor fails */
            if (bl_onnx_shape(m, tensor, &content, m->err) != BL_OK)
                m->failed = true;
            else
                value->type = typer_type(m, &content);
        }
        bl_onnx_put(m, names, value->name, value);
    }
    for (size_t i = 0; i < graph->n_sparse_initializer && bl_onnx_ok(m); i++) {
        const Onnx__TensorProto *values = graph->sparse_initializer[i]->values;
        bl_onnx_value *value = bl_onnx_new_value(m, values != NULL && values->name != NULL ? values->name : "", NULL);
        bl_onnx_put(m, names, value != NULL ? value->name : "", value); /* a value without a type: the first use of the value
                                                                         * fails */
    }
}

void bl_onnx_write_graph(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph)
{
    if (++m->depth > BL_ONNX_MAX_NESTING)
        bl_onnx_stop(m, BL_ELIMIT, "graphs and functions are nested more than %d deep", BL_ONNX_MAX_NESTING);
    if (!m->failed)
        put_initialisers(m, names, graph);
    if (!m->failed)
        write_nodes(m, names, graph->n_node, graph->node);
    m->depth--;
}

/* ---- the program */

void bl_onnx_take_keys(bl_onnx_importer *m, const bl_onnx_value *keys, bl_onnx_port *port)
{
    const bl_onnx_known *known = keys->known;

    port->keys = bl_arena_array(m->arena, (size_t)known->count, sizeof *port->keys);
    for (int i = 0; port->keys != NULL && i < known->count; i++) {
        long long key = (long long)bl_const_value(known->size[i]).i;
        port->keys[i] = keys->texts ? m->model->texts.text[key].data : bl_arena_printf(m->arena, "%lld", key);
        port->nkeys += port->keys[i] != NULL;
    }
}

static void import_describe_output(bl_onnx_importer *m, const char *name, const bl_onnx_value *value, bl_onnx_port *out)
{
    *out = (bl_onnx_port){.name = bl_onnx_clean(m, name)};
    if (value != NULL && value->texts)
        out->coding = BL_ONNX_STRINGS;
    if (value != NULL && value->keys != NULL)
        bl_onnx_take_keys(m, value->keys, out);
}

/* Adds the counts after the other outputs, each once. */
static void take_counts(bl_onnx_importer *m, bl_onnx_value **value)
{
    bl_wire_graph *wire = &m->main->wire;
    int shown = wire->noutputs;

    for (int i = 0; i < shown && bl_onnx_ok(m); i++) {
        int same = 0;
        if (value[i]->count == NULL)
            continue;
        while (same < i && value[same]->count != value[i]->count)
            same++;
        wire->outputs[i].axis = value[i]->counted;
        wire->outputs[i].count = same < i ? wire->outputs[same].count : wire->noutputs;
        if (same < i)
            continue;
        wire->outputs[wire->noutputs++] = (bl_wire_output){.name = "count", .ref = bl_onnx_use(m, m->main, value[i]->count)};
        wire->ncounts++;
    }
}

static void import_take_outputs(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph)
{
    bl_wire_graph *wire = &m->main->wire;
    bl_onnx_names *inputs_and_states = m->taken;
    bl_onnx_value **taken = bl_arena_array(m->scratch, graph->n_output + 1, sizeof(bl_onnx_value *));

    wire->outputs = bl_arena_array(m->arena, 2 * graph->n_output, sizeof *wire->outputs); /* each output may have a count */
    m->model->outputs = bl_arena_array(m->arena, graph->n_output, sizeof *m->model->outputs);
    m->taken = bl_onnx_open_names(m, NULL, NULL); /* an output may also be an input, and then has the input's name */
    if (graph->n_output > m->options->limits.max_inputs)
        bl_onnx_stop(m, BL_ELIMIT, "more than %zu outputs", m->options->limits.max_inputs);
    for (size_t i = 0; i < graph->n_output && bl_onnx_ok(m); i++) {
        const char *name = graph->output[i]->name != NULL ? graph->output[i]->name : "";
        bl_onnx_value *value = m->outline ? NULL : bl_onnx_find(names, name);
        if (!m->outline && (value == NULL || value->sequence || value->type == NULL)) {
            bl_onnx_stop(m, BL_EGRAPH, "output \"%s\": %s", bl_onnx_clean(m, name),
                         value == NULL ? "nothing gives it" : "it is not a tensor");
            return;
        }
        if (!m->outline && !bl_onnx_check_output(m, graph->output[i], value))
            return;
        import_describe_output(m, name, value, &m->model->outputs[i]);
        const char *unique = bl_onnx_wire_name(m, name);
        bl_onnx_names *own = m->taken;
        m->taken = inputs_and_states; /* a known value may become a state now */
        taken[wire->noutputs] = value;
        wire->outputs[wire->noutputs++] =
            (bl_wire_output){.name = unique, .ref = m->outline ? (bl_wire_ref){0} : bl_onnx_use(m, m->main, value)};
        m->taken = own;
    }
    if (bl_onnx_ok(m) && wire->noutputs == 0)
        bl_onnx_stop(m, BL_EGRAPH, "the graph has no outputs");
    if (bl_onnx_ok(m) && !m->outline)
        take_counts(m, taken);
}

static void write_program(bl_onnx_importer *m)
{
    const Onnx__GraphProto *graph = m->proto->graph;
    bl_wire_tensor *inputs = bl_arena_array(m->arena, graph->n_input, sizeof *inputs);
    bl_onnx_names *names;
    int ninputs = 0;

    m->model->inputs = bl_arena_array(m->arena, graph->n_input, sizeof *m->model->inputs);
    m->model->number = bl_arena_array(m->arena, graph->n_input, sizeof *m->model->number);
    m->taken = bl_onnx_open_names(m, NULL, NULL);
    (void)bl_onnx_wire_name(m, "rng"); /* every program has a state of that name */
    if (bl_onnx_ok(m))
        bl_onnx_take_inputs(m, graph, inputs, &ninputs);
    if (!bl_onnx_ok(m))
        return;
    if (bl_typer_create(m->nvars, m->vars, m->options->max_bytes > 0 ? m->options->max_bytes : DEFAULT_BYTES,
                        m->options->max_seconds, &m->typer, m->err) != BL_OK) {
        m->failed = true;
        return;
    }
    m->ir = bl_typer_ir(m->typer);
    m->main = bl_onnx_open_graph(m, NULL);
    names = bl_onnx_open_names(m, NULL, m->main);
    m->wanted = bl_arena_array(m->arena, (size_t)m->model->ninputs + 1, sizeof *m->wanted);
    if (!bl_onnx_ok(m))
        return;
    m->main->wire.inputs = inputs;
    m->main->wire.ninputs = ninputs;
    if (m->outline || m->options->given != NULL)
        bl_onnx_find_weights(m);
    bl_onnx_put_inputs(m, names, graph);
    if (m->outline)
        bl_onnx_write_outline(m, graph);
    else
        bl_onnx_write_graph(m, names, graph);
    if (m->options->given != NULL && m->model->texts.count > 0) /* each variant would number the strings differently */
        bl_onnx_stop(m, BL_EGRAPH, "a model whose inputs decide shapes cannot have strings");
    if (bl_onnx_ok(m))
        import_take_outputs(m, names, graph);
    if (bl_onnx_ok(m))
        bl_onnx_name_outputs(m);
}

/* Stores the result of the import in the form of a decoded document. */
static void import_finish(bl_onnx_importer *m)
{
    bl_program_doc *doc = &m->model->program;
    bl_wire_graph *wire = &m->main->wire;

    doc->entries = bl_arena_alloc(m->arena, sizeof *doc->entries);
    wire->vars = bl_arena_array(m->arena, (size_t)m->nvars, sizeof *wire->vars);
    if (!bl_onnx_ok(m))
        return;
    for (int i = 0; i < m->nvars; i++)
        wire->vars[i] = m->vars[i];
    wire->nvars = m->nvars;
    wire->states = doc->states;
    wire->nstates = doc->nstates;
    wire->program = true;
    doc->nentries = 1;
    doc->entries[0] = (bl_program_entry){.name = "main", .graph = *wire};
    doc->options = (bl_run_options){.debug = -1, .beam = -1, .precision = -1};
}

/* Data of all attempts.  |importer| has the list of dimensions, in the arena of the result. */
typedef struct import_job {
    bl_onnx_importer importer;
    size_t max_bytes;
} import_job;

static bl_status attempt_import(void *arg, bl_arena *arena, bl_onnx_model *out, bl_err *err)
{
    const import_job *job = arg;
    bl_onnx_importer m = job->importer;
    bl_err problem = {0};

    *out = (bl_onnx_model){0};
    m.model = out;
    m.arena = arena;
    m.err = &problem;
    m.scratch = bl_arena_create(job->max_bytes);
    if (m.scratch == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for an ONNX model");
    write_program(&m);
    if (bl_onnx_ok(&m))
        import_finish(&m);
    bl_status st = bl_onnx_ok(&m) ? BL_OK : problem.status != BL_OK ? problem.status : BL_EGRAPH;
    if (st != BL_OK && err != NULL && err->status == BL_OK)
        *err = problem;
    bl_typer_destroy(m.typer);
    bl_arena_destroy(m.scratch);
    return st;
}

/* Lists the dimensions and the encoded pictures of the inputs, which are equal in all attempts. */
static bl_status list_inputs(bl_onnx_importer *m)
{
    m->encoded = bl_onnx_open_names(m, NULL, NULL);
    m->tabular = bl_onnx_is_tabular(m->proto->graph);
    if (bl_onnx_ok(m))
        bl_onnx_find_pictures(m, m->proto->graph, 0);
    if (bl_onnx_ok(m))
        bl_onnx_list_dims(m, m->proto->graph);
    return bl_onnx_ok(m) ? BL_OK : m->err->status;
}

/* Stores the ranges of the successful attempt. */
static bl_status tell_ranges(const bl_onnx_importer *m, bl_onnx_model *out)
{
    out->ranges = bl_arena_array(m->arena, (size_t)m->ndims + 1, sizeof *out->ranges);
    for (int i = 0; i < m->ndims && out->ranges != NULL; i++) {
        int same = m->dims[i].same;
        out->ranges[out->nranges++] = (bl_onnx_range){.var = m->dims[i].var, .same = same != i ? m->dims[same].var.name : NULL};
    }
    return bl_arena_status(m->arena, m->err);
}

/* Succeeds if the import succeeds, or would succeed with given values of inputs. */
static bl_status attempt_ranges(void *arg, bl_arena *arena, bl_onnx_model *out, bl_err *err)
{
    bl_status st = attempt_import(arg, arena, out, err);

    return out->wanted != NULL ? BL_OK : st;
}

/* Imports with the listed ranges or, if this attempt fails, with other ranges.  With given values, the ranges are those of the
 * earlier import. */
static bl_status import_somehow(import_job *job, bl_onnx_model *out, bl_err *err)
{
    bl_onnx_importer *m = &job->importer;
    bl_err first = {0};
    int attempts = 1;
    bl_status st = attempt_import(job, m->arena, out, &first);

    if ((st == BL_EGRAPH || st == BL_ELIMIT) && out->wanted == NULL && !m->outline && m->options->given == NULL) {
        st = bl_onnx_search(m->ndims, m->dims, job->max_bytes, m->options->max_seconds, attempt_ranges, job, &attempts, &first);
        first = st == BL_OK ? (bl_err){0} : first;
        if (st == BL_OK)
            st = attempt_import(job, m->arena, out, &first);
    }
    if (st != BL_OK)
        *err = first;
    if (st == BL_EGRAPH && out->wanted == NULL)
        bl_onnx_blame_dims(m, err);
    out->attempts = attempts;
    bl_status told = st == BL_OK || out->wanted != NULL ? tell_ranges(m, out) : BL_OK;
    return st == BL_OK ? told : st;
}

static bl_status import(bl_span file, const bl_onnx_options *options, bool outline, bl_arena *arena, bl_onnx_model *out,
                        bl_err *err)
{
    bl_err problem = {0};
    import_job job = {
        .importer =
            {.file = file, .options = options, .model = out, .arena = arena, .outline = outline, .round = 1, .err = &problem},
        .max_bytes = options->max_bytes > 0 ? options->max_bytes : DEFAULT_BYTES};
    Onnx__ModelProto *proto = NULL;
    bl_status st;

    *out = (bl_onnx_model){0};
    job.importer.scratch = bl_arena_create(job.max_bytes);
    if (job.importer.scratch == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for an ONNX model");
    st = bl_onnx_open(file, job.importer.scratch, &proto, &problem);
    job.importer.proto = proto;
    if (st == BL_OK && proto->graph == NULL)
        st = bl_fail(&problem, BL_EINVAL, "not an ONNX model: the graph is missing");
    if (st == BL_OK)
        st = list_inputs(&job.importer);
    if (st == BL_OK)
        st = import_somehow(&job, out, &problem);
    bl_arena_destroy(job.importer.scratch);
    if (st != BL_OK && err != NULL && err->status == BL_OK)
        *err = problem;
    return st;
}

bl_status bl_onnx_import(bl_span file, const bl_onnx_options *options, bl_arena *arena, bl_onnx_model *out, bl_err *err)
{
    return import(file, options, false, arena, out, err);
}

bl_status bl_onnx_outline(bl_span file, const bl_onnx_options *options, bl_arena *arena, bl_onnx_model *out, bl_err *err)
{
    return import(file, options, true, arena, out, err);
}
