/* SPDX-License-Identifier: MIT */
/* Inputs and outputs of strings: the program takes and gives the indices of strings in the model's table.  A string that is
 * not in the table gets an index of the request, so that equal strings have equal indices and come back unchanged. */
#include "server/models/model_infer.h"

#include <string.h>

bl_status bl_infer_take_strings(bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input, bl_tensor_value *value)
{
    const bl_texts *known = &in->version->onnx.texts;
    int64_t *number = NULL;
    value->kind = BL_VALUE_BYTES;
    value->dtype = BL_I64;
    BL_TRY(bl_tensor_measure(tensor->name, BL_I64, value->ndim, value->dim, &in->rq->server->limits, &value->count, &value->bytes,
                             &in->rq->err));
    number = bl_request_alloc(in->rq, value->bytes, "strings");
    if (number == NULL)
        return in->rq->err.status;
    for (size_t i = 0; i < value->count; i++) {
        int at = bl_texts_find(known, input->items[i]), strange = 0;
        if (at < 0)
            strange = bl_texts_add(&in->strange, in->rq->arena, input->items[i]);
        if (strange < 0)
            return bl_fail(&in->rq->err, BL_ELIMIT, "input \"%s\" has too many strings that model \"%s\" does not know",
                           tensor->name, in->version->name);
        number[i] = at >= 0 ? at : (int64_t)known->count + strange;
    }
    value->span = (bl_span){(const char *)number, value->bytes};
    return BL_OK;
}

bl_status bl_infer_give_strings(const bl_infer *in, bl_infer_result *out)
{
    const bl_texts *known = &in->version->onnx.texts, *strange = &in->strange;
    bl_span *items = bl_request_alloc(in->rq, (out->count + 1) * sizeof *items, "strings");
    if (items == NULL)
        return in->rq->err.status;
    for (size_t i = 0; i < out->count; i++) {
        int64_t number = 0;
        memcpy(&number, (const char *)out->data + i * sizeof number, sizeof number);
        items[i] = (bl_span){"", 0};
        if (number >= 0 && number < known->count)
            items[i] = known->text[number];
        else if (number >= known->count && number < (int64_t)known->count + strange->count)
            items[i] = strange->text[number - known->count];
    }
    out->items = items;
    return BL_OK;
}
