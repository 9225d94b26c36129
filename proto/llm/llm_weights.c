/* SPDX-License-Identifier: MIT */
/* Makes tensors of the files states of the program.  A plain tensor becomes one state with the same dtype, a quantised tensor
 * becomes planes (engine/front/quant.h). */
#include "proto/llm/importer.h"
#include "proto/llm/repack.h"

#include <string.h>

static bl_dtype plain_dtype(const bl_ggml_type *type)
{
    switch ((int)type->id) {
    case BL_GGML_F32:
        return BL_F32;
    case BL_GGML_F16:
        return BL_F16;
    case BL_GGML_BF16:
        return BL_BF16;
    default:
        return BL_DTYPE_COUNT;
    }
}

static bl_llm_tensor *llm_weights_find_part(bl_llm_graph *g, const char *name, const char *part)
{
    const char *full = bl_arena_printf(g->scratch, "%s.%s", name, part);
    return full != NULL ? bl_llm_find_tensor(g->source, full) : NULL;
}

bool bl_llm_has(bl_llm_graph *g, const char *name)
{
    return llm_weights_find_part(g, name, "weight") != NULL;
}

int64_t bl_llm_columns(bl_llm_graph *g, const char *name)
{
    const bl_llm_tensor *tensor = llm_weights_find_part(g, name, "weight");
    return tensor != NULL ? tensor->dim[tensor->transposed] : 0;
}

/* ---- filling states from the files */

typedef struct plane_source {
    const bl_llm_tensor *tensor;
    const bl_quant_type *type; /* NULL: a plain tensor */
    int plane;
    int64_t rows, matrices; /* rows of a matrix, and matrices of a part */
    size_t bytes;           /* bytes of the plane in a part */
} plane_source;

/* Builds blocks of ggml's MXFP4 from separate codes and scales: ggml's byte i has elements i and i + 16, the folder's byte i has
 * elements 2i and 2i + 1. */
static void join_blocks(const char *codes, const char *scales, int64_t count, uint8_t *block)
{
    for (int64_t b = 0; b < count; b++, block += 17) {
        block[0] = (uint8_t)scales[b];
        for (int i = 0; i < 16; i++) {
            uint8_t low = (uint8_t)codes[b * 16 + i / 2], high = (uint8_t)codes[b * 16 + 8 + i / 2];
            block[1 + i] = (uint8_t)((low >> (i % 2 * 4) & 15) | (high >> (i % 2 * 4) & 15) << 4);
        }
    }
}

/* Fills a plane from MXFP4 with separate codes and scales, a block of each row of a group at a time. */
static void fill_packed(const plane_source *from, char *to)
{
    const int64_t per_row = from->tensor->dim[0] / from->type->block, groups = bl_quant_groups(from->rows);
    const size_t step = from->bytes / (size_t)(groups * from->matrices * per_row);
    for (int64_t at = 0; at < groups * from->matrices * per_row; at++) {
        uint8_t blocks[BL_QUANT_ROWS * 17];
        void *planes[BL_QUANT_PLANES] = {NULL};
        int64_t group = at / per_row, rows = from->rows - group % groups * BL_QUANT_ROWS;
        int64_t row = group / groups * from->rows + group % groups * BL_QUANT_ROWS;
        rows = rows < BL_QUANT_ROWS ? rows : BL_QUANT_ROWS;
        for (int64_t r = 0; r < rows; r++) {
            int64_t b = (row + r) * per_row + at % per_row;
            join_blocks(from->tensor->parts[0].data + b * 16, from->tensor->scales.data + b, 1, blocks + r * 17);
        }
        planes[from->plane] = to + (size_t)at * step;
        bl_quant_fill(from->type, rows, from->type->block, blocks, planes);
    }
}

static void fill_plane(const void *source, void *out)
{
    const plane_source *from = source;
    if (from->tensor->scales.data != NULL) {
        fill_packed(from, out);
        return;
    }
    for (int i = 0; i < from->tensor->nparts; i++) {
        const char *data = from->tensor->parts[i].data;
        char *to = (char *)out + (size_t)i * from->bytes;
        if (from->type == NULL) {
            memcpy(to, data, from->bytes);
            continue;
        }
        size_t matrix = (size_t)(from->rows * (from->tensor->dim[0] / from->type->block)) * (size_t)from->type->bytes;
        for (int64_t k = 0; k < from->matrices; k++) {
            void *planes[BL_QUANT_PLANES] = {NULL};
            planes[from->plane] = to + (size_t)k * (from->bytes / (size_t)from->matrices);
            bl_quant_fill(from->type, from->rows, from->tensor->dim[0], data + (size_t)k * matrix, planes);
        }
    }
}

static bool llm_weights_add_part(bl_llm_graph *g, bl_llm_tensor *tensor, const char *name, const plane_source *source,
                                 bl_tensor_value *content)
{
    plane_source *kept = bl_arena_alloc(g->arena, sizeof *kept);
    if (kept == NULL || bl_tensor_measure(name, content->dtype, content->ndim, content->dim, &g->options->limits, &content->count,
                                          &content->bytes, g->err) != BL_OK)
        return bl_llm_stop(g, BL_ELIMIT, "the tensor \"%.100s\"", tensor->name) != NULL;
    *kept = *source;
    kept->bytes = content->bytes / (size_t)tensor->nparts;
    content->kind = BL_VALUE_FILLED;
    content->fill = fill_plane;
    content->source = kept;
    tensor->value[tensor->nvalues] = bl_llm_add_state(g, name, content);
    return tensor->value[tensor->nvalues++] != NULL;
}

static bool add_plain(bl_llm_graph *g, bl_llm_tensor *tensor, bl_dtype dtype)
{
    bl_tensor_value content = {.dtype = dtype, .ndim = tensor->ndim};
    for (int i = 0; i < tensor->ndim; i++)
        content.dim[i] = tensor->dim[tensor->ndim - 1 - i];
    return llm_weights_add_part(g, tensor, tensor->name, &(plane_source){.tensor = tensor}, &content);
}

/* Adds a quantised tensor [.., rows, columns] as planes; the leading axes of a plane are those of the tensor. */
static bool add_planes(bl_llm_graph *g, bl_llm_tensor *tensor, const bl_quant_type *type)
{
    bl_quant_plane plane[BL_QUANT_PLANES];
    int64_t matrices = 1;
    for (int i = 2; i < tensor->ndim; i++)
        matrices *= tensor->dim[i];
    int n = tensor->ndim < 2 ? 0 : bl_quant_planes(type, tensor->dim[1], tensor->dim[0], plane);
    if (n == 0)
        return bl_llm_stop(g, BL_EINVAL, "the tensor \"%.100s\" of %s has rows of %lld; rows must be whole blocks of %d",
                           tensor->name, type->name, (long long)tensor->dim[0], type->block) != NULL;
    for (int i = 0; i < n; i++) {
        bl_tensor_value content = {.dtype = plane[i].dtype};
        const char *name = bl_arena_printf(g->scratch, "%s.%s", tensor->name, plane[i].suffix);
        for (int d = tensor->ndim - 1; d > 1; d--)
            content.dim[content.ndim++] = tensor->dim[d];
        for (int d = 0; d < plane[i].ndim; d++)
            content.dim[content.ndim++] = plane[i].dim[d];
        if (name == NULL ||
            !llm_weights_add_part(g, tensor, name, &(plane_source){tensor, type, i, tensor->dim[1], matrices / tensor->nparts, 0},
                                  &content))
            return false;
    }
    return true;
}

/* Makes the tensor states of the program, once.  False after a failure. */
static bool make_states(bl_llm_graph *g, bl_llm_tensor *tensor)
{
    bl_dtype dtype = plain_dtype(tensor->type);
    const bl_quant_type *type = bl_quant_find((int)tensor->type->id);
    if (tensor->nvalues > 0)
        return tensor->value[0] != NULL;
    if (dtype != BL_DTYPE_COUNT)
        return add_plain(g, tensor, dtype);
    if (type != NULL)
        return add_planes(g, tensor, type);
    return bl_llm_stop(g, BL_EUNSUPPORTED,
                       "the tensor \"%.100s\" is of type %s, which is not supported; convert it with llama-quantize",
                       tensor->name, tensor->type->name) != NULL;
}

/* ---- uses */

static const char *activations_of(const bl_llm_graph *g)
{
    return g->options->exact ? "float32" : "int8";
}

bl_llm_value *bl_llm_state(bl_llm_graph *g, const char *name, const char *part)
{
    bl_llm_tensor *tensor = g->failed ? NULL : llm_weights_find_part(g, name, part);
    if (tensor == NULL)
        return NULL;
    if (plain_dtype(tensor->type) == BL_DTYPE_COUNT)
        return bl_llm_stop(g, BL_EUNSUPPORTED, "the tensor \"%.100s\" is of type %s; it must be F32, F16 or BF16", tensor->name,
                           tensor->type->name);
    return make_states(g, tensor) ? tensor->value[0] : NULL;
}

bl_llm_value *bl_llm_linear(bl_llm_graph *g, bl_llm_value *x, const char *name)
{
    bl_llm_tensor *tensor = g->failed ? NULL : llm_weights_find_part(g, name, "weight");
    bl_llm_value *bias = bl_llm_state(g, name, "bias");
    const char *recipe = "linear($0, $1)";
    if (x == NULL || g->failed)
        return NULL;
    if (tensor == NULL)
        return bl_llm_stop(g, BL_EINVAL, "the tensor \"%.100s.weight\" is missing", name);
    if (tensor->ndim != 2 || tensor->dim[tensor->transposed] != bl_llm_size(x, -1))
        return bl_llm_stop(g, BL_EINVAL, "the tensor \"%.100s\" is not a matrix for vectors of %lld", tensor->name,
                           (long long)bl_llm_size(x, -1));
    if (!make_states(g, tensor))
        return NULL;
    if (tensor->transposed)
        recipe = "matmul($0, $1)";
    else if (plain_dtype(tensor->type) == BL_DTYPE_COUNT)
        recipe = "block_linear($0, $2..., format=$3, rows=$4, activations=$5)";
    const bl_quant_type *type = bl_quant_find((int)tensor->type->id);
    x = bl_llm_make(g, recipe,
                    ARGS(V(x), V(tensor->value[0]), VS(tensor->nvalues, tensor->value), T(type != NULL ? type->name : ""),
                         I(tensor->dim[1]), T(activations_of(g))));
    return bias != NULL ? bl_llm_make(g, "add($0, $1)", ARGS(V(x), V(bias))) : x;
}

/* Takes the matrices of the experts |chosen| from each state of the tensor. */
static bool take_chosen(bl_llm_graph *g, const bl_llm_tensor *tensor, bl_llm_value *chosen, bl_llm_value **out)
{
    for (int i = 0; i < tensor->nvalues; i++) {
        out[i] = bl_llm_make(g, "take($0, $1)", ARGS(V(tensor->value[i]), V(chosen)));
        if (out[i] == NULL)
            return false;
    }
    return true;
}

bl_llm_value *bl_llm_linear_chosen(bl_llm_graph *g, bl_llm_value *x, const char *name, bl_llm_value *chosen)
{
    bl_llm_tensor *tensor = g->failed ? NULL : llm_weights_find_part(g, name, "weight");
    bl_llm_value *bias = bl_llm_state(g, name, "bias"), *part[BL_LLM_PLANES];
    const char *recipe = "matmul(unsqueeze($0, axis=-2), transpose($1))";
    if (x == NULL || chosen == NULL || g->failed)
        return NULL;
    if (tensor == NULL)
        return bl_llm_stop(g, BL_EINVAL, "the tensor \"%.100s.weight\" is missing", name);
    if (tensor->ndim != 3 || tensor->dim[tensor->transposed] != bl_llm_size(x, -1) || tensor->dim[2] != g->spec.experts)
        return bl_llm_stop(g, BL_EINVAL, "the tensor \"%.100s\" must be %lld matrices for vectors of %lld", tensor->name,
                           (long long)g->spec.experts, (long long)bl_llm_size(x, -1));
    if (!make_states(g, tensor) || !take_chosen(g, tensor, chosen, part))
        return NULL;
    const bl_quant_type *type = bl_quant_find((int)tensor->type->id);
    if (tensor->transposed)
        recipe = "matmul(unsqueeze($0, axis=-2), $1)";
    else if (type != NULL)
        recipe = "block_linear(unsqueeze($0, axis=-2), $2..., format=$3, rows=$4, activations=$5)";
    x = bl_llm_make(g, recipe,
                    ARGS(V(x), V(part[0]), VS(tensor->nvalues, part), T(type != NULL ? type->name : ""), I(tensor->dim[1]),
                         T(activations_of(g))));
    x = bl_llm_make(g, "squeeze($0, axis=-2)", ARGS(V(x)));
    return bias != NULL ? bl_llm_make(g, "add($0, take($1, $2))", ARGS(V(x), V(bias), V(chosen))) : x;
}

bl_llm_value *bl_llm_embed(bl_llm_graph *g, const char *name, bl_llm_value *ids)
{
    bl_llm_tensor *tensor = g->failed ? NULL : llm_weights_find_part(g, name, "weight");
    if (tensor == NULL || ids == NULL || !make_states(g, tensor))
        return NULL;
    if (tensor->ndim != 2)
        return bl_llm_stop(g, BL_EINVAL, "the tensor \"%.100s\" is not a matrix", tensor->name);
    const bl_quant_type *type = bl_quant_find((int)tensor->type->id);
    if (type != NULL)
        return bl_llm_make(g, "block_take($0, $1..., format=$2, rows=$3)",
                           ARGS(V(ids), VS(tensor->nvalues, tensor->value), T(type->name), I(tensor->dim[1])));
    return bl_llm_make(g, "cast(take($0, $1), dtype=float32)", ARGS(V(tensor->value[0]), V(ids)));
}
