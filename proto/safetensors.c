/* SPDX-License-Identifier: MIT */
#include "proto/safetensors.h"
#include "engine/base/fault.h"
#include "engine/base/size.h"
#include "proto/encode.h"
#include "proto/number.h"
#include "proto/tensor.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

bl_status bl_safetensors_header_size(const void *first8, size_t *bytes, bl_err *err)
{
    uint64_t length;

    memcpy(&length, first8, sizeof length);
    length = le64toh(length);
    if (length < 2 || length > BL_SAFETENSORS_MAX_HEADER)
        return bl_fail(err, BL_EINVAL, "safetensors: the header has %llu bytes; it must have 2 to %d", (unsigned long long)length,
                       BL_SAFETENSORS_MAX_HEADER);
    *bytes = (size_t)length;
    return BL_OK;
}

static bl_status safetensors_read_texts(const bl_json *metadata, bl_tensor_file *out, bl_err *err)
{
    bl_json_iter it = bl_json_each(metadata);
    bl_json member;

    BL_TRY(bl_json_expect(metadata, BL_JSON_OBJECT, err));
    out->texts = bl_arena_array(metadata->doc->arena, bl_json_count(metadata), sizeof *out->texts);
    if (out->texts == NULL)
        return bl_arena_status(metadata->doc->arena, err);
    while (bl_json_next(&it, &member)) {
        bl_file_text *text = &out->texts[out->ntexts++];
        text->key = bl_arena_strdup(metadata->doc->arena, member.key);
        BL_TRY(bl_json_string(&member, &text->value, err));
    }
    return bl_arena_status(metadata->doc->arena, err);
}

static bl_status safetensors_read_shape(const bl_json *shape, bl_file_tensor *t, bl_err *err)
{
    bl_json_iter it = bl_json_each(shape);
    bl_json extent;

    BL_TRY(bl_json_expect(shape, BL_JSON_ARRAY, err));
    while (bl_json_next(&it, &extent)) {
        if (t->ndim == BL_LIST_DIMS)
            return bl_json_fail(shape, err, BL_ELIMIT, "more than %d dimensions", BL_LIST_DIMS);
        BL_TRY(bl_json_int(&extent, 0, INT64_MAX, &t->dim[t->ndim++], err));
    }
    return BL_OK;
}

static bl_status safetensors_read_tensor(const bl_json *entry, const bl_wire_limits *limits, size_t data_bytes, bl_file_tensor *t,
                                         bl_err *err)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets", NULL};
    bl_json dtype, shape, range, bound;
    int64_t ends[2];

    BL_TRY(bl_json_allow(entry, names, err));
    BL_TRY(bl_json_need(entry, "dtype", &dtype, err));
    BL_TRY(bl_json_need(entry, "shape", &shape, err));
    BL_TRY(bl_json_need(entry, "data_offsets", &range, err));
    BL_TRY(bl_json_expect(&dtype, BL_JSON_STRING, err));
    t->dtype = bl_dtype_from_code(dtype.text.data, dtype.text.len);
    if (t->dtype == BL_DTYPE_COUNT)
        return bl_json_fail(&dtype, err, BL_EUNSUPPORTED, "unknown dtype \"%.*s\"", (int)(dtype.text.len & 31), dtype.text.data);
    BL_TRY(safetensors_read_shape(&shape, t, err));
    BL_TRY(bl_tensor_measure(entry->key, t->dtype, t->ndim, t->dim, limits, &t->count, &t->bytes, err));
    bl_json_iter it = bl_json_each(&range);
    if (range.kind != BL_JSON_ARRAY || bl_json_count(&range) != 2)
        return bl_json_fail(&range, err, BL_EINVAL, "expected two numbers");
    for (int i = 0; bl_json_next(&it, &bound); i++)
        BL_TRY(bl_json_int(&bound, 0, INT64_MAX, &ends[i], err));
    if (ends[0] > ends[1] || (uint64_t)ends[1] > data_bytes)
        return bl_json_fail(&range, err, BL_EINVAL, "the range %lld to %lld is not within the %zu bytes of data",
                            (long long)ends[0], (long long)ends[1], data_bytes);
    t->offset = (size_t)ends[0];
    if ((size_t)(ends[1] - ends[0]) != t->bytes)
        return bl_json_fail(&range, err, BL_EINVAL, "the range has %lld bytes, but shape and dtype take %zu",
                            (long long)(ends[1] - ends[0]), t->bytes);
    return BL_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const bl_file_tensor *const *x = a, *const *y = b;

    if ((*x)->offset != (*y)->offset)
        return (*x)->offset < (*y)->offset ? -1 : 1;
    return (*x)->bytes < (*y)->bytes ? -1 : (*x)->bytes > (*y)->bytes;
}

/* Checks that the ranges cover the data without gap or overlap. */
static bl_status check_ranges(const bl_tensor_file *file, size_t data_bytes, bl_err *err)
{
    const bl_file_tensor **order = bl_calloc(file->ntensors + 1, sizeof *order);
    size_t at = 0;
    bl_status st = BL_OK;

    if (order == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the tensors of a safetensors file");
    for (size_t i = 0; i < file->ntensors; i++)
        order[i] = &file->tensors[i];
    qsort(order, file->ntensors, sizeof *order, compare_ranges);
    for (size_t i = 0; i < file->ntensors && st == BL_OK; i++) {
        if (order[i]->offset != at)
            st = bl_fail(err, BL_EINVAL, "safetensors: %s before the tensor \"%.100s\"",
                         order[i]->offset > at ? "bytes that belong to no tensor" : "two tensors overlap", order[i]->name);
        at = order[i]->offset + order[i]->bytes;
    }
    if (st == BL_OK && at != data_bytes)
        st = bl_fail(err, BL_EINVAL, "safetensors: the tensors take %zu bytes, but %zu follow the header", at, data_bytes);
    free(order);
    return st;
}

static bl_status safetensors_read_header(const bl_json *root, size_t data_bytes, const bl_wire_limits *limits,
                                         bl_tensor_file *out, bl_err *err)
{
    bl_json_iter it = bl_json_each(root);
    bl_arena *arena = root->doc->arena;
    bl_json entry;

    BL_TRY(bl_json_expect(root, BL_JSON_OBJECT, err));
    size_t n = bl_json_count(root);
    if (n > limits->max_inputs + 1)
        return bl_fail(err, BL_ELIMIT, "safetensors: %zu tensors; the limit is %zu", n, limits->max_inputs);
    out->tensors = bl_arena_array(arena, n, sizeof *out->tensors);
    if (out->tensors == NULL)
        return bl_arena_status(arena, err);
    while (bl_json_next(&it, &entry)) {
        if (strcmp(entry.key, "__metadata__") == 0) {
            BL_TRY(safetensors_read_texts(&entry, out, err));
            continue;
        }
        bl_file_tensor *t = &out->tensors[out->ntensors++];
        t->name = bl_arena_strdup(arena, entry.key);
        BL_TRY(safetensors_read_tensor(&entry, limits, data_bytes, t, err));
    }
    BL_TRY(bl_arena_status(arena, err));
    return check_ranges(out, data_bytes, err);
}

bl_status bl_safetensors_parse(bl_arena *arena, bl_span header, size_t data_bytes, const bl_wire_limits *limits,
                               bl_tensor_file *out, bl_err *err)
{
    /* each tensor is an object of three members */
    bl_json_limits json_limits = {.values = 4 * limits->max_inputs + 4096};
    bl_json_doc doc = {0};
    bl_status st;

    *out = (bl_tensor_file){.data_offset = LENGTH_BYTES + header.len};
    if (header.len == 0 || header.data[0] != '{')
        return bl_fail(err, BL_EINVAL, "safetensors: the header does not start with {");
    st = bl_json_parse(&doc, arena, header, &json_limits, err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = safetensors_read_header(&root, data_bytes, limits, out, err);
    }
    bl_json_fini(&doc);
    return st;
}

bl_status bl_safetensors_open(bl_arena *arena, bl_span body, const bl_wire_limits *limits, bl_tensor_file *out, bl_err *err)
{
    size_t bytes = 0;
    char *header = NULL;
    bl_status st = BL_OK;

    *out = (bl_tensor_file){0};
    if (body.len < LENGTH_BYTES)
        return bl_fail(err, BL_EINVAL, "safetensors: the file has %zu bytes, the length of its header takes 8", body.len);
    BL_TRY(bl_safetensors_header_size(body.data, &bytes, err));
    if (bytes > body.len - LENGTH_BYTES)
        return bl_fail(err, BL_EINVAL, "safetensors: the header has %zu bytes, but the file has %zu", bytes, body.len);
    header = bl_calloc(1, bytes); /* a mapped file may change, and the parser reads lists more than once */
    if (header == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the header of a safetensors file");
    memcpy(header, body.data + LENGTH_BYTES, bytes);
    st = bl_safetensors_parse(arena, (bl_span){header, bytes}, body.len - LENGTH_BYTES - bytes, limits, out, err);
    free(header);
    BL_TRY(st);
    for (size_t i = 0; i < out->ntensors; i++)
        out->tensors[i].data = body.data + out->data_offset + out->tensors[i].offset;
    return BL_OK;
}

const char *bl_safetensors_text(const bl_tensor_file *file, const char *key)
{
    for (size_t i = 0; i < file->ntexts; i++) {
        if (strcmp(file->texts[i].key, key) == 0)
            return file->texts[i].value;
    }
    return NULL;
}

/* ---- writing */

static size_t safetensors_element_bytes(const bl_file_tensor *t)
{
    size_t bytes = bl_dtype_bytes(t->dtype);

    for (int i = 0; i < t->ndim; i++)
        bytes *= (size_t)t->dim[i];
    return bytes;
}

static void safetensors_write_tensor(bl_text *out, const bl_file_tensor *t, size_t *offset)
{
    int64_t range[2] = {(int64_t)*offset, 0};

    *offset += safetensors_element_bytes(t);
    range[1] = (int64_t)*offset;
    bl_encode_string(out, t->name);
    bl_text_puts(out, ":{\"dtype\":");
    bl_encode_string(out, bl_dtype_code(t->dtype));
    bl_text_puts(out, ",\"shape\":");
    bl_shape_print(out, t->ndim, t->dim);
    bl_text_puts(out, ",\"data_offsets\":");
    bl_shape_print(out, 2, range);
    bl_text_putc(out, '}');
}

void bl_safetensors_write(bl_text *out, const bl_file_tensor *tensors, size_t ntensors, const bl_file_text *texts, size_t ntexts)
{
    size_t start = out->len, offset = 0;

    bl_text_append(out, "\0\0\0\0\0\0\0", LENGTH_BYTES);
    bl_text_putc(out, '{');
    for (size_t i = 0; i < ntexts; i++) {
        bl_text_puts(out, i == 0 ? "\"__metadata__\":{" : ",");
        bl_encode_string(out, texts[i].key);
        bl_text_putc(out, ':');
        bl_encode_string(out, texts[i].value);
    }
    if (ntexts > 0)
        bl_text_putc(out, '}');
    for (size_t i = 0; i < ntensors; i++) {
        if (i > 0 || ntexts > 0)
            bl_text_putc(out, ',');
        safetensors_write_tensor(out, &tensors[i], &offset);
    }
    bl_text_putc(out, '}');
    while ((out->len - start) % 8 != 0 && !out->failed)
        bl_text_putc(out, ' ');
    if (!out->failed) {
        uint64_t length = htole64(out->len - start - LENGTH_BYTES);
        memcpy(out->data + start, &length, sizeof length);
    }
}
