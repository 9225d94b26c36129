/* SPDX-License-Identifier: MIT */
/* ImageDecoder.  The bytes of a picture determine its size, so a graph cannot decode a picture.  If the encoded picture is a
 * model input, the program takes the pixels instead, and the caller decodes; a constant picture is decoded at import. */
#include "proto/onnx/import.h"
#include "proto/picture.h"

#include <string.h>

bool bl_onnx_decodes(const Onnx__NodeProto *node)
{
    return node->op_type != NULL && strcmp(node->op_type, "ImageDecoder") == 0 &&
           (node->domain == NULL || *node->domain == '\0' || strcmp(node->domain, "ai.onnx") == 0);
}

void bl_onnx_find_pictures(bl_onnx_importer *m, const Onnx__GraphProto *graph, int depth)
{
    static bl_onnx_value nothing;

    for (size_t i = 0; i < graph->n_node && depth < BL_ONNX_MAX_NESTING && !m->failed; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        if (bl_onnx_decodes(node) && node->n_input > 0 && *node->input[0] != '\0' &&
            bl_onnx_find(m->encoded, node->input[0]) == NULL)
            bl_onnx_put(m, m->encoded, node->input[0], &nothing);
        for (size_t k = 0; k < node->n_attribute; k++) {
            if (node->attribute[k]->g != NULL)
                bl_onnx_find_pictures(m, node->attribute[k]->g, depth + 1);
        }
    }
}

/* Makes a state with the pixels of an initialiser or constant. */
static bl_onnx_value *decode_constant(bl_onnx_call *c, const Onnx__TensorProto *encoded)
{
    bl_onnx_importer *m = c->import;
    bl_tensor_value file, pixels = {.kind = BL_VALUE_BYTES, .dtype = BL_U8, .ndim = 3};
    bl_picture picture = {0};
    bl_err why = {0};
    char *data;

    if (bl_onnx_tensor(m, encoded, &file, m->err) != BL_OK) {
        m->failed = true;
        return NULL;
    }
    if (file.dtype != BL_U8 || file.ndim != 1)
        return bl_onnx_fail(c, "an encoded picture must be uint8 [n]");
    if (bl_picture_open(file.span, &picture, &why) != BL_OK)
        return bl_onnx_fail(c, "its constant is not a picture: %s", why.text);
    pixels.dim[0] = picture.height;
    pixels.dim[1] = picture.width;
    pixels.dim[2] = BL_PICTURE_CHANNELS;
    if (bl_tensor_measure(c->label, BL_U8, 3, pixels.dim, &m->options->limits, &pixels.count, &pixels.bytes, m->err) != BL_OK) {
        m->failed = true;
        return NULL;
    }
    data = bl_arena_array(m->arena, pixels.bytes, 1);
    if (data == NULL)
        return bl_onnx_fail_as(c, BL_ELIMIT, "no memory for a picture of %zu bytes", pixels.bytes);
    if (bl_picture_read(&picture, data, &why) != BL_OK)
        return bl_onnx_fail(c, "its constant is not a picture: %s", why.text);
    pixels.span = (bl_span){data, pixels.bytes};
    return bl_onnx_state_value(m, c->label, &pixels);
}

bl_onnx_value *bl_onnx_write_image_decoder(bl_onnx_call *c)
{
    static const int64_t weights[] = {19595, 38470, 7471}; /* ITU-R 601-2, as pillow's "L" mode uses it, in parts of 65536 */
    const bl_onnx_value *encoded = bl_onnx_in(c, 0);
    const char *format = bl_onnx_text(c, "pixel_format", "RGB");
    bl_onnx_value *pixels;

    if (encoded == NULL || c->import->failed)
        return bl_onnx_fail(c, "needs an encoded picture");
    if (encoded->pixels == NULL && encoded->tensor == NULL)
        return bl_onnx_fail(c, "the encoded picture is computed; it must be an input of the model or a constant, because its "
                               "size must be known before the graph runs");
    pixels = encoded->pixels != NULL ? encoded->pixels : decode_constant(c, encoded->tensor);
    if (strcmp(format, "RGB") == 0)
        return pixels;
    if (strcmp(format, "BGR") == 0)
        return bl_onnx_make(c, "flip($0, axis=[2])", ARGS(V(pixels)));
    if (strcmp(format, "Grayscale") == 0)
        return bl_onnx_make(c,
                            "cast(floor_div(add(sum(mul(cast($0, dtype=int32), cast($1, dtype=int32)), axis=[2], keepdim=true, "
                            "dtype=int32), 32768), 65536), dtype=uint8)",
                            ARGS(V(pixels), V(bl_onnx_known_ints(c->import, BL_PICTURE_CHANNELS, weights))));
    return bl_onnx_fail(c, "pixel_format is \"%.40s\"; it must be RGB, BGR or Grayscale", bl_onnx_clean(c->import, format));
}
