/* SPDX-License-Identifier: MIT */
/* The classification extension: in place of a tensor its largest elements, as "VALUE:INDEX" or "VALUE:INDEX:LABEL". */
#include "server/models/infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scored {
    double value;
    size_t index;
} scored;

/* The larger first, what is no number last; of equal ones the first. */
static int compare(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->value != y->value && !(isnan(x->value) && isnan(y->value)))
        return x->value > y->value || isnan(y->value) ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static double read_value(bl_dtype dtype, const char *at)
{
    return bl_scalar_cast(BL_F64, dtype, bl_scalar_read(dtype, at)).f;
}

static const char *write_class(const bl_infer *in, const bl_model_tensor *tensor, const scored *one)
{
    bl_arena *arena = in->rq->arena;
    const char *label = one->index < tensor->nlabels ? tensor->labels[one->index] : NULL;
    const char *tail = label != NULL ? bl_arena_printf(arena, ":%s", label) : "";
    if (tail == NULL)
        return NULL;
    if (bl_dtype_is_float(tensor->dtype))
        return bl_arena_printf(arena, "%f:%zu%s", one->value, one->index, tail);
    return bl_arena_printf(arena, "%.0f:%zu%s", one->value, one->index, tail);
}

bl_status bl_infer_classify(const bl_infer *in, const bl_model_tensor *tensor, const bl_part *part, uint64_t classes,
                            bl_infer_result *out)
{
    size_t rows = in->version->max_batch > 0 ? (size_t)part->dim[0] : 1, n = rows > 0 ? part->count / rows : 0;
    size_t k = classes < n ? (size_t)classes : n, each = bl_dtype_bytes(tensor->dtype);
    scored *all = NULL;
    bl_span *items = NULL;
    if (tensor->datatype == BL_INFER_BYTES)
        return bl_fail(&in->rq->err, BL_EINVAL, "output \"%s\" is of BYTES and has no classes", tensor->name);
    all = bl_request_alloc(in->rq, n * sizeof *all, "classes"); /* below: at most two dozen times the tensor */
    items = bl_request_alloc(in->rq, rows * k * sizeof *items, "classes");
    if (all == NULL || items == NULL)
        return in->rq->err.status;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < n; i++)
            all[i] = (scored){read_value(tensor->dtype, part->data + (row * n + i) * each), i};
        qsort(all, n, sizeof *all, compare);
        for (size_t i = 0; i < k; i++) {
            const char *text = write_class(in, tensor, &all[i]);
            if (text == NULL)
                return bl_arena_status(in->rq->arena, &in->rq->err);
            items[row * k + i] = (bl_span){text, strlen(text)};
        }
    }
    out->datatype = BL_INFER_BYTES;
    out->ndim = 0;
    if (in->version->max_batch > 0)
        out->dim[out->ndim++] = (int64_t)rows;
    out->dim[out->ndim++] = (int64_t)k;
    out->count = rows * k;
    out->items = items;
    return BL_OK;
}
