/* SPDX-License-Identifier: MIT */
/* Constant folding: a node whose inputs are all known is written into a separate graph.  The graph is evaluated element by
 * element (engine/ir/elements.h), with named dimensions as symbols, so every operator folds by its normal definition.  A node
 * with an element that is not decided for all sizes of a dimension stays in the program. */
#include "proto/onnx/import.h"

#include <string.h>

enum { MOST_ELEMENTS = 4096, MOST_EAGER = 1024 }; /* larger constants are weights, which are computed only on request */

/* ---- elements of values */

static const bl_node *const *elements_of(bl_onnx_importer *m, const bl_onnx_known *known)
{
    const bl_node **at = bl_arena_array(m->scratch, (size_t)known->count, sizeof(const bl_node *));

    for (int i = 0; at != NULL && i < known->count; i++) {
        if (known->real != NULL)
            at[i] = bl_const(m->ir, BL_F64, (bl_scalar){.f = known->real[i]});
        else if (known->dtype == BL_BOOL && bl_is_const(known->size[i]))
            at[i] = bl_const(m->ir, BL_BOOL, (bl_scalar){.u = !bl_is_int(known->size[i], 0)});
        else
            at[i] = known->size[i];
    }
    return at;
}

/* Reads the elements |at|.  False if there are too many elements or they need too much memory. */
static bool read_elements(bl_onnx_importer *m, const bl_node *type, const bl_node *const *at, bl_onnx_known **out)
{
    bl_dtype dtype = (bl_dtype)type->dtype;
    int64_t dim[BL_MAX_DIMS];
    bool constant = true;

    for (int i = 0; i < type->ndim; i++)
        dim[i] = type->dim[i]->lo;
    bl_onnx_known *known = bl_onnx_new_known(m, dtype, type->ndim, dim);
    *out = known;
    if (known == NULL)
        return false;
    for (int i = 0; i < known->count; i++)
        constant = constant && bl_is_const(at[i]);
    if (bl_dtype_is_float(dtype) && !constant) {
        known->real = NULL;
        known->size = bl_arena_array(m->scratch, (size_t)known->count, sizeof *known->size);
        if (known->size == NULL)
            return false;
    }
    for (int i = 0; i < known->count; i++) {
        if (known->real != NULL)
            known->real[i] = bl_scalar_fit(dtype, bl_const_value(at[i])).f;
        else if (dtype == BL_BOOL && bl_is_const(at[i]))
            known->size[i] = bl_index(m->ir, bl_const_value(at[i]).u != 0);
        else
            known->size[i] = at[i];
    }
    return true;
}

typedef struct context {
    bl_onnx_importer *m;
    bl_onnx_graph *graph;
} context;

typedef struct want {
    bl_onnx_graph *graph;
    const bl_node *node; /* a node of that graph */
} want;

/* The value that a body's input stands for; NULL for an input that changes with each step. */
static bl_onnx_value *captured_value(const bl_onnx_graph *graph, const bl_node *input)
{
    int inside = (int)input->arg - graph->first_captured;

    return inside >= 0 && inside < graph->ncaptured ? graph->captured[inside] : NULL;
}

/* The elements of a graph's input: of a known value, or of a state of the program. */
static const bl_node *const *input_elements(void *arg, const bl_node *input)
{
    const context *x = arg;
    bl_onnx_importer *m = x->m;
    int slot = (int)input->arg, state = slot - m->main->wire.ninputs;
    const bl_onnx_known *known = NULL;
    bl_onnx_value *value = NULL;

    if (slot == BL_TYPER_RNG)
        return NULL;
    if (x->graph != m->main && x->graph->given != NULL && (x->graph->ncaptured == 0 || slot < x->graph->first_captured)) {
        return x->graph->given[slot] != NULL ? &x->graph->given[slot] : NULL;
    } else if (x->graph != m->main) {
        value = captured_value(x->graph, input);
    } else if (slot < m->main->wire.ninputs) {
        m->wanted[m->model->number[slot]] = true;
    } else if (state < m->model->program.nstates) {
        value = bl_onnx_content_value(m, &m->model->program.values[state]);
    }
    known = bl_onnx_know(m, value);
    return known != NULL ? elements_of(m, known) : NULL;
}

const bl_onnx_known *bl_onnx_compute(bl_onnx_importer *m, bl_onnx_graph *graph, const bl_node *node)
{
    context x = {m, graph};
    const bl_node *const *at;
    bl_onnx_known *known = NULL;

    at = m->failed ? NULL : bl_elements(m->ir, node, BL_ONNX_MAX_KNOWN, input_elements, &x, m->scratch);
    return at != NULL && read_elements(m, node, at, &known) ? known : NULL;
}

/* Marks in m->wanted every model input that |value| is computed from, whether its elements matter or not. */
static void want_sources(bl_onnx_importer *m, const bl_onnx_value *value)
{
    void *pending = NULL;
    int n = 0, cap = 0;
    bl_ptrmap seen; /* maps a node to the graph of the last visit; captures only lead to outer graphs */

    bl_ptrmap_init(&seen, m->scratch);
    if (value != NULL && value->graph != NULL && bl_arena_reserve(m->scratch, &pending, n, &cap, sizeof(want)))
        ((want *)pending)[n++] = (want){value->graph, value->type};
    while (n > 0) {
        want at = ((want *)pending)[--n];
        const bl_onnx_value *outside =
            at.graph != m->main && at.node->op == BL_OP_INPUT ? captured_value(at.graph, at.node) : NULL;
        if (bl_ptrmap_get(&seen, at.node) == at.graph)
            continue;
        bl_ptrmap_put(&seen, at.node, at.graph);
        if (at.node->op == BL_OP_INPUT && at.graph == m->main && at.node->arg < m->main->wire.ninputs)
            m->wanted[m->model->number[at.node->arg]] = true;
        int nsrc = (int)at.node->nsrc;
        for (int i = 0; i < nsrc + (outside != NULL && outside->graph != NULL); i++) {
            if (!bl_arena_reserve(m->scratch, &pending, n, &cap, sizeof(want)))
                return;
            ((want *)pending)[n++] = i < nsrc ? (want){at.graph, at.node->src[i]} : (want){outside->graph, outside->type};
        }
    }
}

bool bl_onnx_find_wanted(bl_onnx_importer *m, bl_onnx_value *value)
{
    bool any = false;

    memset(m->wanted, 0, (size_t)m->model->ninputs * sizeof *m->wanted);
    m->round++;
    if (bl_onnx_know(m, value) != NULL)
        return false;
    for (int i = 0; i < m->model->ninputs; i++)
        any = any || m->wanted[i];
    if (!any)
        want_sources(m, value);
    return true;
}

/* ---- folding a node */

static bool opens_bodies(const bl_onnx_call *c)
{
    for (size_t i = 0; i < c->node->n_attribute; i++) {
        if (c->node->attribute[i]->g != NULL || c->node->attribute[i]->n_graphs > 0)
            return true;
    }
    return false;
}

/* Whether |value| is known and small; reads an initialiser if necessary. */
static bool is_small_known(bl_onnx_importer *m, bl_onnx_value *value)
{
    int64_t count = 0;

    if (value->sequence || value->narrow != NULL || value->type == NULL || (value->known == NULL && value->tensor == NULL))
        return false;
    return bl_shape_max_count(value->type->ndim, value->type->dim, &count) && count <= MOST_EAGER &&
           bl_onnx_know(m, value) != NULL;
}

static bool can_fold(bl_onnx_call *c)
{
    bool only_type = strcmp(c->node->op_type, "CastLike") == 0; /* only the type of the second operand matters */

    if (c->nin < 1 || c->nout < 1 || opens_bodies(c))
        return false;
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i] != NULL && !(only_type && i == 1) && !is_small_known(c->import, c->in[i]))
            return false;
    }
    return true;
}

bool bl_onnx_fold(bl_onnx_call *c, const bl_onnx_op *op)
{
    bl_onnx_importer *m = c->import;
    bl_onnx_call trial = *c;
    int64_t count = 0;

    if (!can_fold(c) || !bl_onnx_ok(m))
        return false;
    trial.graph = bl_onnx_open_graph(m, NULL); /* not opened as a body, since a body may not draw random numbers: a random node
                                                * must not fail here, and is written instead */
    trial.in = bl_arena_array(m->scratch, (size_t)c->nin, sizeof *trial.in);
    trial.out = bl_arena_array(m->scratch, (size_t)c->nout + 1, sizeof *trial.out);
    if (!bl_onnx_ok(m))
        return false;
    trial.graph->outer = m->main;
    trial.graph->folds = true;
    memcpy(trial.in, c->in, (size_t)c->nin * sizeof *trial.in);
    bl_onnx_write_op(&trial, op);
    for (int i = 0; i < c->nout && bl_onnx_ok(m); i++) {
        bl_onnx_value *value = trial.out[i];
        if (!bl_onnx_wants(c, i))
            continue;
        if (value == NULL || value->sequence || value->narrow != NULL || value->type == NULL || value->count != NULL)
            return false;
        if (value->known == NULL && value->tensor == NULL) {
            if (value->graph != trial.graph || !bl_shape_max_count(value->type->ndim, value->type->dim, &count) ||
                count > MOST_ELEMENTS)
                return false;
            const bl_onnx_known *known = bl_onnx_compute(m, trial.graph, value->type);
            value = known != NULL ? bl_onnx_known_value(m, known) : NULL;
        }
        if (value == NULL)
            return false;
        trial.out[i] = value;
    }
    for (int i = 0; i < c->nout && bl_onnx_ok(m); i++)
        c->out[i] = bl_onnx_wants(c, i) ? trial.out[i] : NULL;
    return true;
}
