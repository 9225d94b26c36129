/* SPDX-License-Identifier: MIT */
/* The outline of a model: the inputs, outputs and weights that the programs for all values of its inputs have in common.
 *
 * Weights are numbered in the order of one walk over the file, so that each import of the same file gives a tensor the same
 * number. */
#include "proto/onnx/import.h"

#include <string.h>

static bool is_weight(const Onnx__TensorProto *tensor)
{
    int64_t count = 1;

    for (size_t i = 0; i < tensor->n_dims; i++) {
        int64_t size = tensor->dims[i];
        if (size <= 0)
            return false;
        count = count > BL_ONNX_SMALL || size > BL_ONNX_SMALL ? BL_ONNX_SMALL + 1 : count * size;
    }
    return count > BL_ONNX_SMALL && bl_onnx_dtype(tensor->data_type) != BL_DTYPE_COUNT;
}

static void visit_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor, const char *name)
{
    bl_tensor_value content;

    if (tensor == NULL || m->failed || !is_weight(tensor) || bl_ptrmap_has(m->weights, tensor))
        return;
    m->nweights++;
    bl_ptrmap_put(m->weights, tensor, (void *)(intptr_t)m->nweights);
    if (!m->outline)
        return;
    if (bl_onnx_tensor(m, tensor, &content, m->err) != BL_OK)
        m->failed = true;
    else
        (void)bl_onnx_add_state(m, tensor->name != NULL && *tensor->name != '\0' ? tensor->name : name, &content);
}

static void visit_graph(bl_onnx_importer *m, const Onnx__GraphProto *graph, int depth);

static void visit_nodes(bl_onnx_importer *m, size_t n, Onnx__NodeProto *const *node, int depth)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = node[i]->n_output > 0 ? node[i]->output[0] : "constant";
        for (size_t k = 0; k < node[i]->n_attribute; k++) {
            const Onnx__AttributeProto *attr = node[i]->attribute[k];
            visit_tensor(m, attr->t, name);
            for (size_t t = 0; t < attr->n_tensors; t++)
                visit_tensor(m, attr->tensors[t], name);
            if (attr->g != NULL)
                visit_graph(m, attr->g, depth + 1);
        }
    }
}

static void visit_graph(bl_onnx_importer *m, const Onnx__GraphProto *graph, int depth)
{
    if (depth > BL_ONNX_MAX_NESTING)
        return;
    for (size_t i = 0; i < graph->n_initializer; i++)
        visit_tensor(m, graph->initializer[i], "constant");
    visit_nodes(m, graph->n_node, graph->node, depth);
}

void bl_onnx_find_weights(bl_onnx_importer *m)
{
    m->weights = bl_arena_alloc(m->scratch, sizeof *m->weights);
    if (m->weights == NULL)
        return;
    bl_ptrmap_init(m->weights, m->scratch);
    visit_graph(m, m->proto->graph, 0);
    for (size_t i = 0; i < m->proto->n_functions; i++)
        visit_nodes(m, m->proto->functions[i]->n_node, m->proto->functions[i]->node, 0);
    (void)bl_onnx_ok(m);
}

int bl_onnx_weight_of(const bl_onnx_importer *m, const Onnx__TensorProto *tensor)
{
    return m->weights != NULL ? (int)(intptr_t)bl_ptrmap_get(m->weights, tensor) - 1 : -1;
}

/* Reports missing operators now, before values are given. */
static void check_operators(bl_onnx_importer *m, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_node && !m->failed; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        const char *domain = node->domain == NULL || strcmp(node->domain, "ai.onnx") == 0 ? "" : node->domain;
        bl_onnx_call c = {.import = m, .node = node, .opset = bl_onnx_opset(m, NULL, domain)};
        c.label = bl_onnx_node_label(m, node);
        if (node->op_type == NULL)
            bl_onnx_fail(&c, "has no operator");
        else if (bl_onnx_find_function(m, domain, node) == NULL && bl_onnx_op_find(domain, node->op_type, c.opset) == NULL)
            bl_onnx_fail_operator(&c, domain);
    }
}

static bool is_declared(const Onnx__ValueInfoProto *info)
{
    const Onnx__TypeProto *type = info->type;
    bool tensor = type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;

    return type != NULL && type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET && !(tensor && type->tensor_type->elem_type == 0);
}

void bl_onnx_write_outline(bl_onnx_importer *m, const Onnx__GraphProto *graph)
{
    m->model->output_types = bl_arena_array(m->arena, graph->n_output + 1, sizeof *m->model->output_types);
    check_operators(m, graph);
    for (size_t i = 0; i < graph->n_output && bl_onnx_ok(m); i++) {
        m->model->output_types[i] = (bl_wire_type){.dtype = BL_DTYPE_COUNT, .ndim = -1};
        if (is_declared(graph->output[i]) && !bl_onnx_declared_type(graph->output[i], &m->model->output_types[i]))
            bl_onnx_stop(m, BL_EGRAPH, "output \"%s\" is not a tensor of a supported dtype",
                         bl_onnx_clean(m, graph->output[i]->name != NULL ? graph->output[i]->name : ""));
    }
}

/* ---- outputs of a program */

/* Checks that the output's smallest size is within the limits: otherwise every run of the program would fail after a long
 * compilation. */
static bool measure_output(bl_onnx_importer *m, const char *name, const bl_node *type)
{
    int64_t least[BL_MAX_DIMS];
    size_t count, bytes;

    for (int i = 0; i < type->ndim; i++)
        least[i] = type->dim[i]->lo > 0 ? type->dim[i]->lo : 0;
    if (bl_tensor_measure(name, (bl_dtype)type->dtype, type->ndim, least, &m->options->limits, &count, &bytes, m->err) != BL_OK)
        m->failed = true;
    return !m->failed;
}

/* With given values, the outline has already published the declared types. */
static bool has_declared_type(bl_onnx_importer *m, const Onnx__ValueInfoProto *info, const bl_onnx_value *value)
{
    bl_wire_type declared;

    if (!bl_onnx_declared_type(info, &declared) || declared.dtype == bl_onnx_type(value))
        return true;
    return bl_onnx_stop(m, BL_EGRAPH, "output \"%s\": the model declares %s, but its nodes give %s", bl_onnx_clean(m, info->name),
                        bl_dtype_name(declared.dtype), bl_dtype_name(bl_onnx_type(value))) != NULL;
}

bool bl_onnx_check_output(bl_onnx_importer *m, const Onnx__ValueInfoProto *info, const bl_onnx_value *value)
{
    const char *name = bl_onnx_clean(m, info->name != NULL ? info->name : "");

    return (m->options->given == NULL || has_declared_type(m, info, value)) && measure_output(m, name, value->type);
}
