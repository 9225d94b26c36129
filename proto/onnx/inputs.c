/* SPDX-License-Identifier: MIT */
/* Inputs of the model: their types, named dimensions and names. */
#include "proto/onnx/import.h"
#include "proto/picture.h"

#include <string.h>

/* The number of the named dimension; -1 after a failure. */
static int use_dimension(bl_onnx_importer *m, const char *name)
{
    const bl_onnx_dim *dim = NULL;

    if (name == NULL)
        return -1;
    for (int i = 0; i < m->ndims && dim == NULL; i++) {
        if (strcmp(m->dims[i].var.name, name) == 0)
            dim = &m->dims[m->dims[i].same];
    }
    if (dim == NULL) {
        bl_onnx_stop(m, BL_EBUG, "the dimension \"%s\" is not listed", name);
        return -1;
    }
    for (int i = 0; i < m->nvars; i++) {
        if (strcmp(m->vars[i].name, dim->var.name) == 0)
            return i;
    }
    m->vars[m->nvars] = dim->var;
    return m->nvars++;
}

static bool input_dimension(bl_onnx_importer *m, const char *input, int axis, const Onnx__TensorShapeProto__Dimension *from,
                            bl_wire_dim *out)
{
    *out = (bl_wire_dim){.var = -1};
    if (!bl_onnx_is_open(from)) {
        out->size = from->dim_value;
        return true;
    }
    out->var = use_dimension(m, bl_onnx_dim_name(m, input, axis, from));
    return out->var >= 0;
}

/* Binds the named dimensions of |type| to the sizes of the given value. */
static bool bind_given(bl_onnx_importer *m, const char *name, const bl_tensor_value *given, const bl_wire_type *type)
{
    bool same = given->kind == BL_VALUE_BYTES && given->dtype == type->dtype && given->ndim == type->ndim;

    for (int d = 0; same && d < type->ndim; d++) {
        bl_wire_var *var = type->dim[d].var >= 0 ? &m->vars[type->dim[d].var] : NULL;
        same = var != NULL ? bl_wire_var_has(var, given->dim[d]) : given->dim[d] == type->dim[d].size;
        if (same && var != NULL)
            var->lo = var->hi = given->dim[d];
    }
    return same ||
           bl_onnx_stop(m, BL_EINVAL, "the value of input \"%s\" does not have the dtype and shape of the input", name) != NULL;
}

/* Checks that the input's largest size is within the limits. */
static bool measure_input(bl_onnx_importer *m, const char *name, const bl_wire_type *type)
{
    int64_t largest[BL_MAX_DIMS];
    size_t count, bytes;

    for (int i = 0; i < type->ndim; i++)
        largest[i] = type->dim[i].var < 0 ? type->dim[i].size : m->vars[type->dim[i].var].hi;
    if (bl_tensor_measure(name, type->dtype, type->ndim, largest, &m->options->limits, &count, &bytes, m->err) != BL_OK)
        m->failed = true;
    return !m->failed;
}

/* The type of an encoded picture's pixels, with open sides. */
static bool picture_type(bl_onnx_importer *m, const Onnx__ValueInfoProto *info, bl_wire_type *out)
{
    const char *name = bl_onnx_clean(m, info->name != NULL ? info->name : "");
    const Onnx__TypeProto *type = info->type;
    bool tensor = type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;

    if (!tensor || type->tensor_type->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__UINT8 ||
        (type->tensor_type->shape != NULL && type->tensor_type->shape->n_dim != 1))
        return bl_onnx_stop(m, BL_EGRAPH, "input \"%s\" is an operand of ImageDecoder; it must be uint8 [n]", name) != NULL;
    *out = (bl_wire_type){.dtype = BL_U8, .ndim = 3, .dim[2] = {.size = BL_PICTURE_CHANNELS, .var = -1}};
    for (int i = 0; i < 2; i++) {
        out->dim[i].var = use_dimension(m, bl_onnx_side_name(m, name, i == 1));
        if (out->dim[i].var < 0)
            return false;
    }
    return measure_input(m, name, out);
}

bool bl_onnx_declared_type(const Onnx__ValueInfoProto *info, bl_wire_type *out)
{
    const Onnx__TypeProto__Tensor *tensor = bl_onnx_tensor_type(info);

    if (tensor == NULL || bl_onnx_dtype(tensor->elem_type) == BL_DTYPE_COUNT)
        return false;
    *out = (bl_wire_type){.dtype = bl_onnx_dtype(tensor->elem_type), .ndim = -1};
    if (tensor->shape == NULL || tensor->shape->n_dim > BL_MAX_DIMS)
        return true;
    for (out->ndim = 0; (size_t)out->ndim < tensor->shape->n_dim; out->ndim++) {
        const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[out->ndim];
        out->dim[out->ndim] = (bl_wire_dim){bl_onnx_is_open(dim) ? -1 : dim->dim_value, -1};
    }
    return true;
}

/* The type of a map: a row of a float tensor, with a column for each key. */
static bool map_type(bl_onnx_importer *m, const Onnx__GraphProto *graph, const Onnx__ValueInfoProto *info, bl_wire_type *out)
{
    const Onnx__TensorShapeProto__Dimension varies = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;
    const Onnx__TypeProto *type = info->type->map_type->value_type;
    const char *name = bl_onnx_clean(m, info->name != NULL ? info->name : "");
    bool tensor = type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    int64_t keys = bl_onnx_count_keys(graph, info->name);

    *out = (bl_wire_type){.ndim = 2, .dtype = tensor ? bl_onnx_dtype(type->tensor_type->elem_type) : BL_DTYPE_COUNT};
    if (out->dtype == BL_DTYPE_COUNT || keys < 0)
        return bl_onnx_stop(m, BL_EGRAPH,
                            "input \"%s\" is a map; only a map to numbers for DictVectorizer or CastMap is supported",
                            name) != NULL;
    out->dim[1] = (bl_wire_dim){.size = keys, .var = -1};
    return input_dimension(m, name, 0, &varies, &out->dim[0]) &&
           (keys > 0 || input_dimension(m, name, 1, &varies, &out->dim[1])) && measure_input(m, name, out);
}

static bool input_type(bl_onnx_importer *m, const Onnx__GraphProto *graph, const Onnx__ValueInfoProto *info, bl_wire_type *out)
{
    const char *name = bl_onnx_clean(m, info->name != NULL ? info->name : "");
    const Onnx__TypeProto__Tensor *tensor = bl_onnx_tensor_type(info);

    if (info->type != NULL && info->type->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE)
        return map_type(m, graph, info, out);
    if (tensor == NULL)
        return bl_onnx_stop(m, BL_EGRAPH, "input \"%s\" is not a tensor", name) != NULL;
    if (tensor->shape == NULL)
        return bl_onnx_stop(m, BL_EGRAPH, "input \"%s\" has no shape: its rank must be known", name) != NULL;
    if (tensor->shape->n_dim > m->options->limits.max_dims || tensor->shape->n_dim > BL_MAX_DIMS)
        return bl_onnx_stop(m, BL_ELIMIT, "input \"%s\" has %zu dimensions; the limit is %zu", name, tensor->shape->n_dim,
                            m->options->limits.max_dims) != NULL;
    *out = (bl_wire_type){.dtype = bl_onnx_stored_dtype(tensor->elem_type), .ndim = (int)tensor->shape->n_dim};
    if (out->dtype == BL_DTYPE_COUNT)
        return bl_onnx_stop(m, BL_EGRAPH, "input \"%s\" has element type %d, which is not supported", name, tensor->elem_type) !=
               NULL;
    for (int i = 0; i < out->ndim; i++) {
        if (!input_dimension(m, name, i, tensor->shape->dim[i], &out->dim[i]))
            return false;
    }
    return measure_input(m, name, out);
}

/* The given value of model input |number|, or NULL. */
static const bl_tensor_value *given_value(const bl_onnx_importer *m, int number)
{
    return m->options->given != NULL ? m->options->given[number] : NULL;
}

static bool takes_strings(const Onnx__ValueInfoProto *info)
{
    const Onnx__TypeProto__Tensor *tensor = bl_onnx_tensor_type(info);

    return tensor != NULL && bl_onnx_is_strings(tensor->elem_type);
}

void bl_onnx_take_inputs(bl_onnx_importer *m, const Onnx__GraphProto *graph, bl_wire_tensor *inputs, int *ninputs)
{
    for (size_t i = 0; i < graph->n_input && bl_onnx_ok(m); i++) {
        const char *name = graph->input[i]->name != NULL ? graph->input[i]->name : "";
        if (bl_onnx_is_initialiser(graph, name)) /* a caller of ONNX may override this default; the import treats the default as
                                                  * a weight */
            continue;
        if ((size_t)*ninputs >= m->options->limits.max_inputs) {
            bl_onnx_stop(m, BL_ELIMIT, "more than %zu inputs", m->options->limits.max_inputs);
            return;
        }
        bool picture = bl_onnx_find(m->encoded, name) != NULL;
        bl_wire_tensor *input = &inputs[*ninputs];
        if (!(picture ? picture_type(m, graph->input[i], &input->type) : input_type(m, graph, graph->input[i], &input->type)))
            return;
        const char *unique = bl_onnx_wire_name(m, name);
        const bl_tensor_value *given = given_value(m, m->model->ninputs++);
        if (given != NULL && !bind_given(m, bl_onnx_clean(m, name), given, &input->type))
            return;
        if (given != NULL)
            continue;
        m->model->inputs[*ninputs] = (bl_onnx_port){.name = bl_onnx_clean(m, name),
                                                    .coding = picture                          ? BL_ONNX_PICTURE
                                                              : takes_strings(graph->input[i]) ? BL_ONNX_STRINGS
                                                                                               : BL_ONNX_PLAIN};
        m->model->number[*ninputs] = m->model->ninputs - 1;
        input->name = unique;
        ++*ninputs;
    }
}

static const bl_onnx_narrow *narrow_of(const Onnx__ValueInfoProto *info)
{
    bool tensor = info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;

    return tensor ? bl_onnx_narrow_find(info->type->tensor_type->elem_type) : NULL;
}

static void put_given(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__ValueInfoProto *info, const bl_tensor_value *given)
{
    bl_onnx_value *value = bl_onnx_known_value(m, bl_onnx_read_content(m, given));

    if (value == NULL && bl_onnx_ok(m))
        bl_onnx_stop(m, BL_EGRAPH, "input \"%s\": an element of its value is over the largest int64",
                     bl_onnx_clean(m, info->name));
    if (value == NULL)
        return;
    value->name = info->name;
    value->narrow = narrow_of(info);
    bl_onnx_put(m, names, info->name, value);
}

void bl_onnx_put_inputs(bl_onnx_importer *m, bl_onnx_names *names, const Onnx__GraphProto *graph)
{
    int at = 0, number = 0;

    for (size_t i = 0; i < graph->n_input && bl_onnx_ok(m); i++) {
        const char *name = graph->input[i]->name != NULL ? graph->input[i]->name : "";
        const bl_node *dim[BL_MAX_DIMS] = {0};
        if (bl_onnx_is_initialiser(graph, name))
            continue;
        const bl_tensor_value *given = given_value(m, number++);
        if (given != NULL) {
            put_given(m, names, graph->input[i], given);
            continue;
        }
        const bl_wire_type *type = &m->main->wire.inputs[at].type;
        for (int d = 0; d < type->ndim; d++)
            dim[d] = type->dim[d].var < 0 ? bl_index(m->ir, type->dim[d].size)
                                          : bl_front_extent(m->ir, type->dim[d].var, &m->vars[type->dim[d].var]);
        bl_onnx_value *value = bl_onnx_new_value(m, name, bl_typer_input(m->main->typer, type->dtype, type->ndim, dim));
        if (value == NULL)
            return;
        value->graph = m->main;
        value->ref = (bl_wire_ref){.kind = BL_REF_INPUT, .index = at};
        value->texts = m->model->inputs[at].coding == BL_ONNX_STRINGS;
        if (m->model->inputs[at++].coding == BL_ONNX_PICTURE) {
            bl_onnx_value *encoded = bl_onnx_new_value(m, name, NULL);
            if (encoded != NULL)
                encoded->pixels = value;
            bl_onnx_put(m, names, name, encoded);
            continue;
        }
        value->narrow = narrow_of(graph->input[i]);
        bl_onnx_put(m, names, name, value);
    }
}
