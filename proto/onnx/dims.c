/* SPDX-License-Identifier: MIT */
/* Dimensions that the model leaves open: their names, their likely roles, and their ranges, from the role or from the options. */
#include "proto/onnx/import.h"
#include "proto/picture.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool bl_onnx_is_initialiser(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (graph->initializer[i]->name != NULL && strcmp(graph->initializer[i]->name, name) == 0)
            return true;
    }
    return false;
}

const Onnx__TypeProto__Tensor *bl_onnx_tensor_type(const Onnx__ValueInfoProto *info)
{
    const Onnx__TypeProto *type = info->type;

    if (type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) /* an optional input counts as present */
        type = type->optional_type->elem_type;
    return type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? type->tensor_type : NULL;
}

/* ---- names */

bool bl_onnx_is_open(const Onnx__TensorShapeProto__Dimension *from)
{
    return from->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE || from->dim_value < 0;
}

/* "?", "-1" and "None" are no names: two such dimensions need not be equal. */
static bool dims_is_name(const char *text)
{
    if (strcmp(text, "None") == 0)
        return false;
    for (; *text != '\0'; text++) {
        if (isalpha((unsigned char)*text))
            return true;
    }
    return false;
}

const char *bl_onnx_dim_name(bl_onnx_importer *m, const char *input, int axis, const Onnx__TensorShapeProto__Dimension *from)
{
    char place[160];
    bool named = from->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dims_is_name(from->dim_param);

    snprintf(place, sizeof place, "%.*s.%d", BL_ONNX_KEPT_NAME - 4, input, axis);
    if (!named && axis == 0 && m->tabular) /* all first dimensions are the rows of one table */
        return "rows";
    return bl_onnx_legal_name(m, named ? from->dim_param : place);
}

const char *bl_onnx_side_name(bl_onnx_importer *m, const char *input, bool width)
{
    char side[160];

    snprintf(side, sizeof side, "%.*s.%s", BL_ONNX_KEPT_NAME - 8, input, width ? "width" : "height");
    return bl_onnx_legal_name(m, side);
}

/* ---- roles of dimensions */

static bool is_colours(const Onnx__TensorShapeProto__Dimension *dim)
{
    return !bl_onnx_is_open(dim) && (dim->dim_value == 1 || dim->dim_value == 3 || dim->dim_value == 4);
}

static bool dims_is_float(const Onnx__TypeProto__Tensor *tensor)
{
    bl_dtype dtype = bl_onnx_dtype(tensor->elem_type);
    return dtype != BL_DTYPE_COUNT && bl_dtype_is_float(dtype);
}

static int count_open(const Onnx__TensorShapeProto *shape, size_t from)
{
    int n = 0;
    for (size_t i = from; i < shape->n_dim; i++)
        n += bl_onnx_is_open(shape->dim[i]);
    return n;
}

/* For a picture [N, C, H, W], [N, H, W, C], [C, H, W] or [H, W, C] of floats or bytes: the axis of its channels; 0 if it is no
 * picture.  If everything but the batch is open, [N, C, H, W] is assumed. */
static size_t find_channels(const Onnx__TypeProto__Tensor *tensor)
{
    const Onnx__TensorShapeProto *shape = tensor->shape;
    bool pixels = dims_is_float(tensor) || bl_onnx_dtype(tensor->elem_type) == BL_U8;

    if (!pixels || shape->n_dim != 4 || count_open(shape, 1) == 0)
        return 0;
    if (is_colours(shape->dim[1]))
        return 1;
    if (is_colours(shape->dim[3]))
        return 3;
    return count_open(shape, 1) == 3 ? 1 : 0;
}

static bl_onnx_role role_of(const Onnx__TypeProto__Tensor *tensor, size_t axis, bool only)
{
    const Onnx__TensorShapeProto *shape = tensor->shape;
    size_t channels = find_channels(tensor), rank = shape->n_dim;
    bool sides = rank == 3 && axis > 0 && is_colours(shape->dim[0]) && count_open(shape, 1) == 2; /* [C, H, W] */

    sides |= rank == 3 && axis < 2 && is_colours(shape->dim[2]) && count_open(shape, 0) == 2; /* [H, W, C] */
    if (sides && (dims_is_float(tensor) || bl_onnx_dtype(tensor->elem_type) == BL_U8))
        return BL_ONNX_SIDE;
    if (axis == 0)
        return rank == 1 && only && dims_is_float(tensor) ? BL_ONNX_SIGNAL : BL_ONNX_BATCH;
    if (channels > 0)
        return axis == channels ? BL_ONNX_CHANNELS : BL_ONNX_SIDE;
    if (!dims_is_float(tensor) || count_open(shape, 1) > 1 || rank > 3)
        return BL_ONNX_SEQUENCE;
    if (rank == 2 || shape->dim[axis == 1 ? 2 : 1]->dim_value == 1)
        return BL_ONNX_SIGNAL;
    return BL_ONNX_FRAMES;
}

/* Whether the name of a first axis shows that it is no batch: many recurrent networks have time first, and graphs have nodes and
 * edges. */
static bool names_steps(const Onnx__TensorShapeProto__Dimension *dim)
{
    static const char *const words[] = {"seq", "time", "frame", "len", "step", "token", "node", "edge", "atom"};
    bool any = false;

    if (dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM || dim->dim_param == NULL)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        any = any || strcasestr(dim->dim_param, words[i]) != NULL;
    return any;
}

static int64_t dims_largest(bl_onnx_role role)
{
    static const int64_t most[] = {[BL_ONNX_BATCH] = BL_ONNX_LARGEST_BATCH,    [BL_ONNX_SEQUENCE] = BL_ONNX_LARGEST_SEQUENCE,
                                   [BL_ONNX_SIDE] = BL_ONNX_LARGEST_SIDE,      [BL_ONNX_CHANNELS] = BL_ONNX_LARGEST_BATCH,
                                   [BL_ONNX_FRAMES] = BL_ONNX_LARGEST_FRAMES,  [BL_ONNX_SIGNAL] = BL_ONNX_LARGEST_SIGNAL,
                                   [BL_ONNX_DECODED] = BL_ONNX_LARGEST_PICTURE};
    return most[role];
}

/* ---- the list of open dimensions */

static int find_dim(const bl_onnx_importer *m, const char *name)
{
    for (int i = 0; i < m->ndims; i++) {
        if (strcmp(m->dims[i].var.name, name) == 0)
            return i;
    }
    return -1;
}

static void add_dim(bl_onnx_importer *m, const char *name, bl_onnx_role role, int64_t most, int input)
{
    if (!bl_onnx_ok(m) || name == NULL || find_dim(m, name) >= 0)
        return;
    if (m->ndims == BL_WIRE_MAX_DIMS) {
        bl_onnx_stop(m, BL_ELIMIT, "more than %d named dimensions", BL_WIRE_MAX_DIMS);
        return;
    }
    m->dims[m->ndims] = (bl_onnx_dim){
        .var = {.name = name, .lo = 1, .hi = most, .step = 1}, .role = role, .most = most, .same = m->ndims, .input = input};
    m->ndims++;
}

static void list_sides(bl_onnx_importer *m, const char *name, int input)
{
    int64_t most = BL_ONNX_LARGEST_PICTURE;

    while (most > 1 && (uint64_t)(BL_PICTURE_CHANNELS * most * most) > m->options->limits.max_tensor_bytes)
        most /= 2;
    add_dim(m, bl_onnx_side_name(m, name, false), BL_ONNX_DECODED, most, input);
    add_dim(m, bl_onnx_side_name(m, name, true), BL_ONNX_DECODED, most, input);
}

/* Lists the rows of a map, and its keys if the model does not give their number. */
static void list_map(bl_onnx_importer *m, const Onnx__ValueInfoProto *info, const char *name, int input)
{
    const Onnx__TensorShapeProto__Dimension open = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;

    add_dim(m, bl_onnx_dim_name(m, name, 0, &open), BL_ONNX_BATCH, BL_ONNX_LARGEST_TABLE, input);
    if (bl_onnx_count_keys(m->proto->graph, info->name) == 0)
        add_dim(m, bl_onnx_dim_name(m, name, 1, &open), BL_ONNX_SEQUENCE, BL_ONNX_LARGEST_SEQUENCE, input);
}

static void list_input(bl_onnx_importer *m, const Onnx__ValueInfoProto *info, bool only, int input)
{
    const char *name = bl_onnx_clean(m, info->name != NULL ? info->name : "");
    const Onnx__TypeProto__Tensor *tensor = bl_onnx_tensor_type(info);

    if (info->type != NULL && info->type->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE) {
        list_map(m, info, name, input);
        return;
    }
    if (info->name != NULL && bl_onnx_find(m->encoded, info->name) != NULL) {
        list_sides(m, name, input);
        return;
    }
    if (tensor == NULL || tensor->shape == NULL || tensor->shape->n_dim > BL_MAX_DIMS) /* the import of the input reports the
                                                                                        * error */
        return;
    for (size_t i = 0; i < tensor->shape->n_dim; i++) {
        bool row = i == 0 && m->tabular;
        bl_onnx_role role = row ? BL_ONNX_BATCH : role_of(tensor, i, only);
        if (i == 0 && role == BL_ONNX_BATCH && !row && names_steps(tensor->shape->dim[0]))
            role = dims_is_float(tensor) ? BL_ONNX_FRAMES : BL_ONNX_SEQUENCE;
        int64_t most = row ? BL_ONNX_LARGEST_TABLE : dims_largest(role);
        if (bl_onnx_is_open(tensor->shape->dim[i]))
            add_dim(m, bl_onnx_dim_name(m, name, (int)i, tensor->shape->dim[i]), role, most, input);
    }
}

/* ---- settings of the options */

/* Fails since |text| is no dimension; the message lists the dimensions and their places. */
static void fail_name(bl_onnx_importer *m, const char *text)
{
    bl_text list = {0};

    for (int i = 0; i < m->ndims; i++)
        bl_text_printf(&list, "%s\"%s\"", i > 0 ? ", " : "", m->dims[i].var.name);
    if (m->ndims == 0)
        bl_onnx_stop(m, BL_EINVAL, "dims: \"%.100s\" is not a dimension of this model; all inputs have fixed sizes", text);
    else
        bl_onnx_stop(m, BL_EINVAL, "dims: \"%.100s\" is not a dimension of this model; its named dimensions are %.600s", text,
                     bl_text_get(&list));
    bl_text_fini(&list);
}

static void dims_say(bl_onnx_importer *m, const bl_onnx_range *range)
{
    const char *name = bl_onnx_legal_name(m, range->var.name);
    int at = name != NULL ? find_dim(m, name) : -1, same = at;

    if (at < 0) {
        fail_name(m, range->var.name);
        return;
    }
    if (range->same != NULL) {
        name = bl_onnx_legal_name(m, range->same);
        same = name != NULL ? find_dim(m, name) : -1;
        if (same < 0) {
            fail_name(m, range->same);
            return;
        }
        while (m->dims[same].same != same)
            same = m->dims[same].same;
    } else {
        m->dims[at].var.lo = range->var.lo;
        m->dims[at].var.hi = range->var.hi;
        m->dims[at].var.step = bl_wire_var_step(&range->var);
    }
    m->dims[at].same = same;
    m->dims[at].said = true;
}

void bl_onnx_list_dims(bl_onnx_importer *m, const Onnx__GraphProto *graph)
{
    int inputs = 0, first = 0;

    for (size_t i = 0; i < graph->n_input; i++)
        inputs += !bl_onnx_is_initialiser(graph, graph->input[i]->name != NULL ? graph->input[i]->name : "");
    m->dims = bl_arena_array(m->arena, BL_WIRE_MAX_DIMS, sizeof *m->dims);
    for (size_t i = 0; i < graph->n_input && bl_onnx_ok(m); i++) {
        if (bl_onnx_is_initialiser(graph, graph->input[i]->name != NULL ? graph->input[i]->name : ""))
            continue;
        list_input(m, graph->input[i], inputs == 1, first);
        if (first++ == 0 && m->ndims > 0 && m->dims[0].role == BL_ONNX_BATCH && m->options->batch > 0)
            m->dims[0].var.hi = m->dims[0].most = m->options->batch;
    }
    for (int i = 0; i < m->options->nranges && bl_onnx_ok(m); i++)
        dims_say(m, &m->options->ranges[i]);
}

void bl_onnx_blame_dims(const bl_onnx_importer *m, bl_err *err)
{
    bl_text list = {0};
    size_t len = strlen(err->text);

    for (int i = 0; i < m->ndims; i++) {
        if (!m->dims[i].said || m->dims[i].same != i)
            continue;
        bl_text_printf(&list, "%s\"%s\" ", list.len > 0 ? ", " : "", m->dims[i].var.name);
        bl_wire_var_print(&list, &m->dims[i].var);
    }
    if (list.len > 0)
        snprintf(err->text + len, sizeof err->text - len, "; \"dims\" says %s, which may be too wide a range",
                 bl_text_get(&list));
    bl_text_fini(&list);
}
