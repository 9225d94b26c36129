/* SPDX-License-Identifier: MIT */
/* Inputs that are encoded pictures.  The bytes are decoded here, since the size of the pixels must be known before a plan
 * runs.  If the program's input has a constant size, the pixels are scaled to this size; such a model may have a batch. */
#include "proto/picture.h"
#include "server/models/model_infer.h"

static bl_status picture_input_refuse(const bl_infer *in, const bl_model_tensor *tensor, bl_status status, const char *why)
{
    return bl_fail(&in->rq->err, status == BL_ENOMEM ? BL_ENOMEM : BL_EINVAL, "input \"%s\" of model \"%s\": %s", tensor->name,
                   in->version->name, why);
}

/* Find the encoded files: BYTES with one element for each row, or UINT8 [n], which is one picture. */
static bl_status find_files(const bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input, const bl_span **out,
                            size_t *count)
{
    const bl_tensor_value *value = &input->value;
    bool batch = bl_model_tensor_rank(tensor) > 0;
    bl_span *file = NULL;
    void *bytes = NULL;
    *count = 1;
    if (input->datatype == BL_INFER_BYTES && (value->count == 1 || (batch && value->count > 0))) {
        *out = input->items;
        *count = value->count;
        return BL_OK;
    }
    if (input->datatype != BL_U8 || value->ndim != 1)
        return picture_input_refuse(in, tensor, BL_EINVAL,
                                    batch ? "must be encoded pictures, as BYTES [n], or one encoded picture as UINT8 [bytes]"
                                          : "must be one encoded picture, as BYTES [1] or as UINT8 [bytes]");
    file = bl_arena_alloc(in->rq->arena, sizeof *file);
    if (file == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    *out = file;
    *file = value->span;
    if (value->kind == BL_VALUE_BYTES)
        return BL_OK;
    bytes = bl_request_alloc(in->rq, value->bytes, "a picture");
    if (bytes == NULL)
        return in->rq->err.status;
    *file = (bl_span){bytes, value->bytes};
    return bl_tensor_scan(value, bytes, &in->rq->err);
}

/* Decode one picture into |out|, [height, width, 3]. */
static bl_status read_scaled(const bl_infer *in, const bl_picture *picture, int height, int width, void *out, bl_err *why)
{
    size_t bytes = bl_picture_bytes(picture), floats = 0;
    void *pixels = NULL;
    float *scratch = NULL;
    if (picture->height == height && picture->width == width)
        return bl_picture_read(picture, out, why);
    floats = bl_picture_scratch(picture->height, picture->width, height, width);
    pixels = bl_request_alloc(in->rq, bytes, "the pixels of a picture");
    scratch = pixels != NULL ? bl_request_alloc(in->rq, floats * sizeof *scratch, "scaling a picture") : NULL;
    if (scratch == NULL)
        return bl_fail(why, BL_ENOMEM, "out of host memory for its pixels");
    BL_TRY(bl_picture_read(picture, pixels, why));
    bl_picture_scale(pixels, picture->height, picture->width, out, height, width, scratch);
    return BL_OK;
}

/* The shape of the pixels: the constant size of the program, or the size of the picture. */
static bl_status choose_size(const bl_infer *in, const bl_model_tensor *tensor, size_t count, const bl_picture *first,
                             bl_tensor_value *value)
{
    const int64_t own[2] = {first->height, first->width};
    int rank = bl_model_tensor_rank(tensor);
    value->ndim = tensor->ndim;
    for (int d = 0; d < tensor->ndim; d++) {
        value->dim[d] = tensor->var[d] < 0 ? tensor->dim[d] : d < rank ? (int64_t)count : own[d - rank];
        if (tensor->var[d] >= 0)
            BL_TRY(bl_infer_bind_var(in, tensor, tensor->var[d], value->dim[d]));
    }
    if (rank > 0 && value->dim[0] != (int64_t)count)
        return bl_fail(&in->rq->err, BL_EINVAL, "input \"%s\" has %zu pictures; model \"%s\" takes %lld", tensor->name, count,
                       in->version->name, (long long)value->dim[0]);
    return bl_tensor_measure(tensor->name, BL_U8, value->ndim, value->dim, &in->rq->server->limits, &value->count, &value->bytes,
                             &in->rq->err);
}

bl_status bl_infer_take_picture(const bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input,
                                bl_tensor_value *value)
{
    bl_request *rq = in->rq;
    const bl_span *files = NULL;
    size_t count = 0, each = 0;
    unsigned char *pixels = NULL;
    *value = (bl_tensor_value){.kind = BL_VALUE_BYTES, .label = input->value.label, .dtype = BL_U8};
    BL_TRY(find_files(in, tensor, input, &files, &count));
    for (size_t i = 0; i < count; i++) {
        bl_picture picture = {0};
        bl_err why = {0};
        if (bl_picture_open(files[i], &picture, &why) != BL_OK)
            return picture_input_refuse(in, tensor, why.status, why.text);
        if (i == 0) {
            BL_TRY(choose_size(in, tensor, count, &picture, value));
            pixels = bl_request_alloc(rq, value->bytes, "the pixels of a picture");
            if (pixels == NULL)
                return rq->err.status;
            value->span = (bl_span){(const char *)pixels, value->bytes};
            each = value->bytes / count;
        }
        if (read_scaled(in, &picture, (int)value->dim[value->ndim - 3], (int)value->dim[value->ndim - 2], pixels + i * each,
                        &why) != BL_OK)
            return rq->err.status != BL_OK ? rq->err.status : picture_input_refuse(in, tensor, why.status, why.text);
    }
    return BL_OK;
}
