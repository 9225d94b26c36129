/* SPDX-License-Identifier: MIT */
#include "proto/data.h"
#include "proto/decode_parts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_RANK = 16, MAX_COLUMNS = 4096 };

const char *const bl_data_format_names[BL_DATA_FORMATS] = {"raw", "npy", "idx", "safetensors", "csv", "images"};

/* ---- the document */

/* Members of each format besides "blob", "file" and "format". */
static const char *const members[BL_DATA_FORMATS + 1][8] = {
    [BL_DATA_RAW] = {"dtype", "shape", "offset"},
    [BL_DATA_SAFETENSORS] = {"name"},
    [BL_DATA_CSV] = {"dtype", "header", "columns", "categories"},
    [BL_DATA_IMAGES] = {"size", "part"},
};

bl_data_format bl_data_format_of(const char *path)
{
    static const struct {
        const char *suffix;
        bl_data_format format;
    } suffixes[] = {{".npy", BL_DATA_NPY},   {".safetensors", BL_DATA_SAFETENSORS},
                    {".csv", BL_DATA_CSV},   {".bin", BL_DATA_RAW},
                    {"-ubyte", BL_DATA_IDX}, {".idx", BL_DATA_IDX}};
    size_t len = strlen(path);
    if (len > 3 && strcasecmp(path + len - 3, ".gz") == 0)
        len -= 3;
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t n = strlen(suffixes[i].suffix);
        if (len >= n && strncasecmp(path + len - n, suffixes[i].suffix, n) == 0)
            return suffixes[i].format;
    }
    return BL_DATA_FORMATS;
}

static bl_status take_format(const bl_json *doc, bl_data_source *out, bl_err *err)
{
    bl_json at;
    const char *text = NULL;
    if (bl_json_find(doc, "format", &at)) {
        BL_TRY(bl_json_string(&at, &text, err));
        out->format = BL_DATA_RAW;
        while (out->format < BL_DATA_FORMATS && strcmp(text, bl_data_format_names[out->format]) != 0)
            out->format++;
        if (out->format == BL_DATA_FORMATS)
            return bl_json_fail(&at, err, BL_EGRAPH,
                                "the format must be raw, npy, idx, safetensors, csv or images, not \"%.40s\"", text);
        return BL_OK;
    }
    out->format = out->file != NULL ? bl_data_format_of(out->file) : BL_DATA_FORMATS;
    if (out->format == BL_DATA_FORMATS)
        return bl_json_fail(doc, err, BL_EGRAPH,
                            "the member \"format\" is missing; it must be raw, npy, idx, safetensors, csv or images");
    return BL_OK;
}

static bl_status data_check_members(const bl_json *doc, bl_data_format format, bl_err *err)
{
    const char *allowed[12] = {"blob", "file", "format"};
    int n = 3;
    for (int i = 0; members[format][i] != NULL; i++)
        allowed[n++] = members[format][i];
    return bl_json_allow(doc, allowed, err);
}

static bl_status data_take_text(bl_arena *arena, const bl_json *doc, const char *name, const char **out, bl_err *err)
{
    bl_json at;
    const char *text = NULL;
    if (!bl_json_find(doc, name, &at))
        return BL_OK;
    BL_TRY(bl_json_string(&at, &text, err));
    *out = bl_arena_strdup(arena, text);
    return *out != NULL ? BL_OK : bl_arena_status(arena, err);
}

/* Reads a list of names and integers; stores the integers as text. */
static bl_status take_columns(bl_arena *arena, const bl_json *doc, const char *name, int *n, const char ***out, bl_err *err)
{
    bl_json list, one;
    if (!bl_json_find(doc, name, &list))
        return BL_OK;
    if (list.kind != BL_JSON_ARRAY || bl_json_count(&list) > MAX_COLUMNS)
        return bl_json_fail(&list, err, BL_EINVAL, "expected a list of at most %d columns, by name or number", MAX_COLUMNS);
    *n = 0;
    *out = bl_arena_array(arena, bl_json_count(&list) + 1, sizeof **out);
    if (*out == NULL)
        return bl_arena_status(arena, err);
    bl_json_iter it = bl_json_each(&list);
    while (bl_json_next(&it, &one)) {
        const char *text = NULL;
        int64_t number = 0;
        if (one.kind == BL_JSON_STRING) {
            BL_TRY(bl_json_string(&one, &text, err));
            text = bl_arena_strdup(arena, text);
        } else {
            BL_TRY(bl_json_int(&one, 0, MAX_COLUMNS, &number, err));
            text = bl_arena_printf(arena, "%lld", (long long)number);
        }
        if (text == NULL)
            return bl_arena_status(arena, err);
        (*out)[(*n)++] = text;
    }
    return BL_OK;
}

static bl_status take_extents(const bl_json *doc, const char *name, int most, int *n, int64_t *dim, bl_err *err)
{
    bl_json list, one;
    if (!bl_json_find(doc, name, &list))
        return BL_OK;
    if (list.kind != BL_JSON_ARRAY || bl_json_count(&list) > (size_t)most)
        return bl_json_fail(&list, err, BL_EINVAL, "expected a list of at most %d whole numbers", most);
    *n = 0;
    bl_json_iter it = bl_json_each(&list);
    while (bl_json_next(&it, &one))
        BL_TRY(bl_json_int(&one, 0, INT64_C(1) << 40, &dim[(*n)++], err));
    return BL_OK;
}

static bl_status take_images(const bl_json *doc, bl_data_source *out, bl_err *err)
{
    int64_t size[2] = {0};
    const char *part = "pixels";
    bl_json at;
    int n = 2;
    BL_TRY(take_extents(doc, "size", 2, &n, size, err));
    if (n != 2 || (bl_json_find(doc, "size", &at) && (size[0] < 1 || size[1] < 1 || size[0] > 16384 || size[1] > 16384)))
        return bl_json_fail(doc, err, BL_EGRAPH, "\"size\" must be [height, width], each from 1 to 16384");
    out->height = size[0];
    out->width = size[1];
    if (bl_json_find(doc, "part", &at))
        BL_TRY(bl_json_string(&at, &part, err));
    out->labels = strcmp(part, "labels") == 0;
    if (!out->labels && strcmp(part, "pixels") != 0)
        return bl_json_fail(&at, err, BL_EGRAPH, "\"part\" must be pixels or labels");
    return BL_OK;
}

bl_status bl_decode_source(const bl_decode_env *env, const bl_json *doc, bl_data_source *out, bl_err *err)
{
    int64_t offset = 0;
    bl_json at;
    *out = (bl_data_source){.dtype = BL_DTYPE_COUNT, .ndim = -1, .header = true, .ncolumns = -1};
    BL_TRY(data_take_text(env->arena, doc, "blob", &out->blob, err));
    BL_TRY(data_take_text(env->arena, doc, "file", &out->file, err));
    if ((out->blob != NULL) == (out->file != NULL))
        return bl_json_fail(doc, err, BL_EINVAL, "exactly one of \"blob\" and \"file\" must name the data");
    BL_TRY(take_format(doc, out, err));
    BL_TRY(data_check_members(doc, out->format, err));
    BL_TRY(data_take_text(env->arena, doc, "name", &out->name, err));
    if (bl_json_find(doc, "dtype", &at))
        BL_TRY(bl_decode_dtype(&at, &out->dtype, err));
    BL_TRY(take_extents(doc, "shape", MAX_RANK, &out->ndim, out->dim, err));
    if (bl_json_find(doc, "offset", &at))
        BL_TRY(bl_json_int(&at, 0, INT64_MAX, &offset, err));
    out->offset = (uint64_t)offset;
    if (bl_json_find(doc, "header", &at))
        BL_TRY(bl_json_bool(&at, &out->header, err));
    BL_TRY(take_columns(env->arena, doc, "columns", &out->ncolumns, &out->columns, err));
    BL_TRY(take_columns(env->arena, doc, "categories", &out->ncategories, &out->categories, err));
    if (out->format == BL_DATA_IMAGES && out->blob != NULL)
        return bl_json_fail(doc, err, BL_EGRAPH, "format images needs \"file\", the name of a folder");
    return out->format == BL_DATA_IMAGES ? take_images(doc, out, err) : BL_OK;
}

/* ---- raw */

static bl_status find_raw(const bl_data_source *source, bl_span bytes, bl_data *out, bl_err *err)
{
    if (source->dtype == BL_DTYPE_COUNT)
        return bl_fail(err, BL_EINVAL, "format raw needs a \"dtype\"");
    if (source->offset > bytes.len)
        return bl_fail(err, BL_EGRAPH, "the offset %llu is beyond the end: there are %zu bytes",
                       (unsigned long long)source->offset, bytes.len);
    out->dtype = source->dtype;
    out->body = (bl_span){bytes.data + source->offset, bytes.len - (size_t)source->offset};
    out->ndim = source->ndim;
    memcpy(out->dim, source->dim, sizeof out->dim);
    if (source->ndim < 0) {
        out->ndim = 1;
        out->dim[0] = (int64_t)(out->body.len / bl_dtype_bytes(out->dtype));
    }
    return BL_OK;
}

/* ---- .npy */

/* Finds |key| in the header, which is the literal of a Python dict.  Returns the text of its value, or NULL. */
static const char *npy_member(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (at == NULL || at == header || (at[-1] != '\'' && at[-1] != '"'))
        return NULL;
    at += strlen(key);
    if (*at != '\'' && *at != '"')
        return NULL;
    at += 1 + strspn(at + 1, " ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

static bl_status npy_dtype(const char *descr, bl_data *out, bl_err *err)
{
    static const struct {
        char name[3];
        bl_dtype dtype;
    } types[] = {{"b1", BL_BOOL}, {"i1", BL_I8},  {"i2", BL_I16}, {"i4", BL_I32}, {"i8", BL_I64}, {"u1", BL_U8},
                 {"u2", BL_U16},  {"u4", BL_U32}, {"u8", BL_U64}, {"f2", BL_F16}, {"f4", BL_F32}, {"f8", BL_F64}};
    if (descr == NULL || (*descr != '\'' && *descr != '"') || strchr("<>|=", descr[1]) == NULL || descr[1] == '\0')
        return bl_fail(err, BL_EGRAPH, "npy: the type of the elements is not supported");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strncmp(descr + 2, types[i].name, 2) == 0 && descr[4] == *descr) {
            out->dtype = types[i].dtype;
            out->swapped = descr[1] == '>' && types[i].name[1] > '1';
            return BL_OK;
        }
    }
    return bl_fail(err, BL_EGRAPH, "npy: elements of type %.16s are not supported", descr);
}

static bl_status npy_shape(const char *at, bl_data *out, bl_err *err)
{
    if (at == NULL || *at++ != '(')
        return bl_fail(err, BL_EGRAPH, "npy: the header has no shape");
    for (at += strspn(at, " "); *at != ')'; at += strspn(at, ", ")) {
        char *end = NULL;
        unsigned long long extent = 0;
        if (*at < '0' || *at > '9' || out->ndim == MAX_RANK || (extent = strtoull(at, &end, 10)) > INT64_MAX)
            return bl_fail(err, BL_EGRAPH, "npy: the header must have a shape of at most %d dimensions", MAX_RANK);
        out->dim[out->ndim++] = (int64_t)extent;
        at = end;
    }
    return BL_OK;
}

static bl_status find_npy(bl_arena *arena, bl_span bytes, bl_data *out, bl_err *err)
{
    const unsigned char *head = (const unsigned char *)bytes.data;
    const char *header = NULL, *order = NULL;
    size_t size = 0, start = 10;
    if (bytes.len < 12 || memcmp(bytes.data, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
        return bl_fail(err, BL_EGRAPH, "npy: the data does not begin with the header of a .npy file");
    size = (size_t)head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        size |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
        start = 12;
    }
    if (size > bytes.len - start || size > 65536)
        return bl_fail(err, BL_EGRAPH, "npy: the header has %zu bytes; it must end within the file and have at most 65536", size);
    header = bl_arena_strndup(arena, bytes.data + start, size);
    if (header == NULL)
        return bl_arena_status(arena, err);
    order = npy_member(header, "fortran_order");
    out->fortran = order != NULL && strncmp(order, "True", 4) == 0;
    out->body = (bl_span){bytes.data + start + size, bytes.len - start - size};
    BL_TRY(npy_dtype(npy_member(header, "descr"), out, err));
    return npy_shape(npy_member(header, "shape"), out, err);
}

/* ---- IDX */

static bl_status find_idx(bl_span bytes, bl_data *out, bl_err *err)
{
    static const bl_dtype types[16] = {[8] = BL_U8, [9] = BL_I8, [11] = BL_I16, [12] = BL_I32, [13] = BL_F32, [14] = BL_F64};
    const unsigned char *at = (const unsigned char *)bytes.data;
    if (bytes.len < 4 || at[0] != 0 || at[1] != 0 || at[2] < 8 || at[2] > 14 || at[2] == 10 || at[3] > MAX_RANK ||
        bytes.len < 4 + 4 * (size_t)at[3])
        return bl_fail(err, BL_EGRAPH, "idx: the data does not begin with the header of an IDX file");
    out->dtype = types[at[2]];
    out->swapped = bl_dtype_bytes(out->dtype) > 1;
    out->ndim = at[3];
    for (int i = 0; i < out->ndim; i++) {
        const unsigned char *word = at + 4 + 4 * i;
        out->dim[i] = (int64_t)word[0] << 24 | (int64_t)word[1] << 16 | (int64_t)word[2] << 8 | word[3];
    }
    out->body = (bl_span){bytes.data + 4 + 4 * out->ndim, bytes.len - 4 - 4 * (size_t)out->ndim};
    return BL_OK;
}

/* ---- safetensors */

static bl_status find_safetensors(bl_arena *arena, const bl_data_source *source, bl_span bytes, const bl_wire_limits *limits,
                                  bl_data *out, bl_err *err)
{
    bl_tensor_file file;
    if (source->name == NULL)
        return bl_fail(err, BL_EINVAL, "safetensors: the member \"name\" is missing; it names the tensor");
    BL_TRY(bl_safetensors_open(arena, bytes, limits, &file, err));
    for (size_t i = 0; i < file.ntensors; i++) {
        const bl_file_tensor *tensor = &file.tensors[i];
        if (strcmp(tensor->name, source->name) != 0)
            continue;
        out->dtype = tensor->dtype;
        out->ndim = tensor->ndim;
        memcpy(out->dim, tensor->dim, sizeof out->dim);
        out->body = (bl_span){tensor->data, tensor->bytes};
        return BL_OK;
    }
    return bl_fail(err, BL_ENOTFOUND, "safetensors: the file has no tensor \"%.128s\"", source->name);
}

/* ---- dispatch by format */

static bl_status data_find(bl_arena *arena, const bl_data_source *source, bl_span bytes, const bl_wire_limits *limits,
                           bl_data *out, bl_err *err)
{
    switch (source->format) {
    case BL_DATA_RAW:
        return find_raw(source, bytes, out, err);
    case BL_DATA_NPY:
        return find_npy(arena, bytes, out, err);
    case BL_DATA_IDX:
        return find_idx(bytes, out, err);
    case BL_DATA_SAFETENSORS:
        return find_safetensors(arena, source, bytes, limits, out, err);
    case BL_DATA_CSV:
        return bl_csv_find(arena, source, bytes, out, err);
    case BL_DATA_IMAGES:
    case BL_DATA_FORMATS:
        break;
    }
    return bl_fail(err, BL_EBUG, "unknown format of data");
}

bl_status bl_data_find(bl_arena *arena, const bl_data_source *source, bl_span bytes, const bl_wire_limits *limits, bl_data *out,
                       bl_err *err)
{
    const char *name = bl_data_format_names[source->format];
    *out = (bl_data){.format = source->format};
    BL_TRY(data_find(arena, source, bytes, limits, out, err));
    BL_TRY(bl_tensor_measure(name, out->dtype, out->ndim, out->dim, limits, &out->count, &out->bytes, err));
    if (source->format == BL_DATA_CSV || out->body.len == out->bytes ||
        (source->format == BL_DATA_RAW && out->body.len > out->bytes))
        return BL_OK;
    return bl_fail(err, BL_EGRAPH, "%s: shape and dtype take %zu bytes, but the data has %zu", name, out->bytes, out->body.len);
}

static void copy_swapped(char *to, const char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[size - 1 - i];
}

/* Reorders from column-major to row-major. */
static void read_fortran(const bl_data *data, char *to)
{
    size_t size = bl_dtype_bytes(data->dtype), at = 0, stride[MAX_RANK] = {0};
    int64_t index[MAX_RANK] = {0};
    for (int i = 0; i < data->ndim; i++)
        stride[i] = i == 0 ? 1 : stride[i - 1] * (size_t)data->dim[i - 1];
    for (size_t n = 0; n < data->count; n++) {
        const char *from = data->body.data + at * size;
        if (data->swapped)
            copy_swapped(to + n * size, from, size);
        else
            memcpy(to + n * size, from, size);
        for (int i = data->ndim - 1; i >= 0; i--) {
            at += stride[i];
            if (++index[i] < data->dim[i])
                break;
            at -= stride[i] * (size_t)data->dim[i];
            index[i] = 0;
        }
    }
}

bl_status bl_data_read(const bl_data *data, void *out, bl_err *err)
{
    size_t size = bl_dtype_bytes(data->dtype);
    char *to = out;
    if (data->format == BL_DATA_CSV)
        return bl_csv_read(data, out, err);
    if (data->fortran && data->ndim > 1) {
        read_fortran(data, to);
    } else if (data->swapped) {
        for (size_t i = 0; i < data->count; i++)
            copy_swapped(to + i * size, data->body.data + i * size, size);
    } else if (data->bytes > 0) {
        memcpy(to, data->body.data, data->bytes);
    }
    if (data->dtype == BL_BOOL) /* any nonzero byte is true, but a bool tensor stores 1 */
        for (size_t i = 0; i < data->count; i++)
            to[i] = to[i] != 0;
    return BL_OK;
}
