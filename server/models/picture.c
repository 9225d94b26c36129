/* SPDX-License-Identifier: MIT */
/* An input that is an encoded picture: what the model's ImageDecoder would do with its bytes is done here, since how large the
 * result is must be known before a plan runs. */
#include "proto/picture.h"
#include "server/models/infer.h"

static bl_status refuse(const bl_infer *in, const bl_model_tensor *tensor, bl_status status, const char *why)
{
    return bl_fail(&in->rq->err, status, "input \"%s\" of model \"%s\": %s", tensor->name, in->version->name, why);
}

/* BYTES of one element, or UINT8 [n]. */
static bl_status find_file(const bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input, bl_span *out)
{
    const bl_tensor_value *value = &input->value;
    void *bytes = NULL;
    if (input->datatype == BL_INFER_BYTES && value->count == 1) {
        *out = input->items[0];
        return BL_OK;
    }
    if (input->datatype != BL_U8 || value->ndim != 1)
        return refuse(in, tensor, BL_EINVAL, "it takes one encoded picture, as BYTES [1] or as UINT8 [bytes]");
    *out = value->span;
    if (value->kind == BL_VALUE_BYTES)
        return BL_OK;
    bytes = bl_request_alloc(in->rq, value->bytes, "a picture");
    if (bytes == NULL)
        return in->rq->err.status;
    *out = (bl_span){bytes, value->bytes};
    return bl_tensor_scan(value, bytes, &in->rq->err);
}

bl_status bl_infer_take_picture(const bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input,
                                bl_tensor_value *value)
{
    bl_request *rq = in->rq;
    bl_picture picture = {0};
    bl_err why = {0};
    bl_span file = {0};
    void *pixels = NULL;
    BL_TRY(find_file(in, tensor, input, &file));
    if (bl_picture_open(file, &picture, &why) != BL_OK)
        return refuse(in, tensor, why.status == BL_ENOMEM ? BL_ENOMEM : BL_EINVAL, why.text);
    *value = (bl_tensor_value){.kind = BL_VALUE_BYTES, .label = input->value.label, .dtype = BL_U8, .ndim = 3};
    value->dim[0] = picture.height;
    value->dim[1] = picture.width;
    value->dim[2] = BL_PICTURE_CHANNELS;
    for (int d = 0; d < 2; d++)
        BL_TRY(bl_infer_bind_var(in, tensor, tensor->var[d], value->dim[d]));
    BL_TRY(bl_tensor_measure(tensor->name, BL_U8, 3, value->dim, &rq->server->limits, &value->count, &value->bytes, &rq->err));
    pixels = bl_request_alloc(rq, value->bytes, "the pixels of a picture");
    if (pixels == NULL)
        return rq->err.status;
    value->span = (bl_span){pixels, value->bytes};
    if (bl_picture_read(&picture, pixels, &why) != BL_OK)
        return refuse(in, tensor, why.status == BL_ENOMEM ? BL_ENOMEM : BL_EINVAL, why.text);
    return BL_OK;
}
