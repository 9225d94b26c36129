/* SPDX-License-Identifier: MIT */
/* The classification extension: the largest elements of a tensor in place of the tensor, as "VALUE:INDEX" or
 * "VALUE:INDEX:LABEL".  The answer to a binary body has them as JSON objects. */
#include "proto/encode.h"
#include "proto/number.h"
#include "server/models/model_infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scored {
    double value;
    size_t index;
} scored;

/* Descending order, NaN last, equal elements by index. */
static int classify_compare(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->value != y->value && !(isnan(x->value) && isnan(y->value)))
        return x->value > y->value || isnan(y->value) ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static double classify_read_value(bl_dtype dtype, const char *at)
{
    return bl_scalar_cast(BL_F64, dtype, bl_scalar_read(dtype, at)).f;
}

/* Print with the precision of the dtype. */
static void put_score(bl_text *out, bl_dtype dtype, double value)
{
    char digits[BL_NUMBER_CHARS];
    bool wide = dtype == BL_F64 || !bl_dtype_is_float(dtype);
    bl_text_append(out, digits, wide ? bl_print_f64(digits, value) : bl_print_f32(digits, (float)value));
}

static const char *write_object(bl_arena *arena, const char *label, bl_dtype dtype, const scored *one)
{
    bl_text text = {0};
    const char *copy = NULL;
    bl_text_putc(&text, '{');
    if (label != NULL) {
        bl_text_puts(&text, "\"label\":");
        bl_encode_string(&text, label);
        bl_text_putc(&text, ',');
    }
    bl_text_printf(&text, "\"index\":%zu,\"score\":", one->index);
    put_score(&text, dtype, one->value);
    bl_text_putc(&text, '}');
    copy = text.failed ? NULL : bl_arena_strdup(arena, bl_text_get(&text));
    bl_text_fini(&text);
    return copy;
}

static const char *write_class(const bl_infer *in, const bl_model_tensor *tensor, const scored *one)
{
    bl_arena *arena = in->rq->arena;
    const char *label = one->index < tensor->nlabels ? tensor->labels[one->index] : NULL;
    if (in->readable)
        return write_object(arena, label, tensor->dtype, one);
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
    size_t rows = in->version->batcher.max_rows > 0 ? (size_t)part->dim[0] : 1, n = rows > 0 ? part->count / rows : 0;
    size_t k = classes < n ? (size_t)classes : n, each = bl_dtype_bytes(tensor->dtype);
    scored *all = NULL;
    bl_span *items = NULL;
    if (tensor->datatype == BL_INFER_BYTES)
        return bl_fail(&in->rq->err, BL_EINVAL, "output \"%s\" has the datatype BYTES and therefore no classes", tensor->name);
    /* the buffers below take at most about two dozen times the size of the tensor */
    all = bl_request_alloc(in->rq, n * sizeof *all, "classes");
    items = bl_request_alloc(in->rq, rows * k * sizeof *items, "classes");
    if (all == NULL || items == NULL)
        return in->rq->err.status;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < n; i++)
            all[i] = (scored){classify_read_value(tensor->dtype, part->data + (row * n + i) * each), i};
        qsort(all, n, sizeof *all, classify_compare);
        for (size_t i = 0; i < k; i++) {
            const char *text = write_class(in, tensor, &all[i]);
            if (text == NULL)
                return bl_arena_status(in->rq->arena, &in->rq->err);
            items[row * k + i] = (bl_span){text, strlen(text)};
        }
    }
    out->datatype = BL_INFER_BYTES;
    out->ndim = 0;
    if (in->version->batcher.max_rows > 0)
        out->dim[out->ndim++] = (int64_t)rows;
    out->dim[out->ndim++] = (int64_t)k;
    out->count = rows * k;
    out->items = items;
    return BL_OK;
}

/* ---- the answer to a body that is not a JSON document */

enum { USUAL_CLASSES = 5, MOST_CLASSES = 1000000 };

static bool has_labels(const bl_model_version *version)
{
    for (int i = 0; i < version->noutputs; i++)
        if (version->outputs[i].labels != NULL)
            return true;
    return false;
}

/* Request |classes| of each output with labels.  If no output has labels, request them of each numeric output. */
static bl_status ask_classes(bl_infer *in, uint64_t classes)
{
    const bl_model_version *version = in->version;
    bool labels = has_labels(version);
    in->readable = true;
    in->wire.all = false;
    in->wire.outputs = bl_arena_array(in->rq->arena, (size_t)version->noutputs + 1, sizeof *in->wire.outputs);
    if (in->wire.outputs == NULL)
        return bl_arena_status(in->rq->arena, &in->rq->err);
    for (int i = 0; i < version->noutputs; i++) {
        const bl_model_tensor *tensor = &version->outputs[i];
        if (labels ? tensor->labels != NULL : tensor->datatype != BL_INFER_BYTES)
            in->wire.outputs[in->wire.noutputs++] = (bl_infer_output){.name = tensor->name, .classes = classes};
    }
    return in->wire.noutputs > 0
               ? BL_OK
               : bl_fail(&in->rq->err, BL_EINVAL, "classes: model \"%s\" has no output of numbers", version->name);
}

static bl_status classify_write_classes(bl_infer *in, const bl_infer_result *results)
{
    bl_text *out = &in->rq->reply.out;
    bl_text_puts(out, "{\"model_name\":");
    bl_encode_string(out, in->version->name);
    bl_text_printf(out, ",\"model_version\":\"%llu\",\"outputs\":[", (unsigned long long)in->version->number);
    for (int i = 0; i < in->nasked; i++) {
        bl_text_puts(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        bl_encode_string(out, results[i].name);
        bl_text_puts(out, ",\"classes\":[");
        for (size_t k = 0; k < results[i].count; k++)
            bl_text_printf(out, "%s%s", k > 0 ? "," : "", results[i].items[k].data);
        bl_text_puts(out, "]}");
    }
    bl_text_puts(out, "]}");
    bl_request_reply_json(in->rq, 200);
    return BL_OK;
}

/* If Accept does not decide, the answer to a picture is JSON, and the answer to a tensor is binary. */
static bool wants_json(const bl_request *rq)
{
    if (bl_request_accepts(rq, "application/octet-stream"))
        return false;
    return rq->head.media == BL_MEDIA_PICTURE ||
           (rq->head.accept != NULL && strcasestr(rq->head.accept, "application/json") != NULL);
}

bl_status bl_infer_choose_answer(bl_infer *in)
{
    bl_request *rq = in->rq;
    uint64_t classes = 0;
    BL_TRY(bl_request_query_count(rq, "classes", 1, MOST_CLASSES, &classes));
    if (classes > 0 && !in->wire.raw)
        return bl_fail(&rq->err, BL_EINVAL,
                       "the query parameter classes needs a body of one picture or tensor; in a JSON request, give the output "
                       "the parameter classification");
    if (!in->wire.raw)
        return BL_OK;
    in->wire.binary = classes == 0 && !wants_json(rq);
    if (in->wire.binary)
        return BL_OK;
    if (classes == 0 && has_labels(in->version))
        classes = USUAL_CLASSES;
    if (classes == 0)
        return BL_OK;
    in->write = classify_write_classes;
    return ask_classes(in, classes);
}
