/* SPDX-License-Identifier: MIT */
#include "server/command/arrays.h"

#include "engine/base/file.h"
#include "proto/data.h"
#include "server/command/document.h"
#include "server/command/terminal.h"

#include <errno.h>
#include <string.h>

enum { MOST_SHOWN = 1000 /* largest number of elements of a tensor that are printed */ };

/* Files of a command have no limits here: the server has its own limits. */
const bl_wire_limits bl_arrays_limits = {
    .max_nodes = INT32_MAX, .max_inputs = INT32_MAX, .max_dims = BL_LIST_DIMS, .max_tensor_bytes = INT64_MAX};

/* ---- from the command line */

static bl_status arrays_add_tensor(bl_arrays *arrays, const bl_file_tensor *tensor, bl_err *err)
{
    for (size_t i = 0; i < arrays->count; i++)
        if (strcmp(arrays->tensors[i].name, tensor->name) == 0)
            return bl_fail(err, BL_EINVAL, "\"%.128s\" is given twice", tensor->name);
    if (arrays->count == BL_ARRAYS_MOST)
        return bl_fail(err, BL_ELIMIT, "more than %d tensors are given", BL_ARRAYS_MOST);
    arrays->tensors[arrays->count++] = *tensor;
    return BL_OK;
}

/* Read a file; its bytes live as long as |arrays|. */
static bl_status read_bytes(bl_arrays *arrays, const char *path, bl_span *out, bl_err *err)
{
    bl_text text = {0};
    bl_status st = bl_document_read_file(path, &text, err);
    if (st == BL_OK) {
        *out = (bl_span){bl_arena_strndup(arrays->arena, bl_text_get(&text), text.len), text.len};
        st = bl_arena_status(arrays->arena, err);
    }
    bl_text_fini(&text);
    return st;
}

/* Take all tensors of a safetensors file, or the tensor called |name|. */
static bl_status take_safetensors(bl_arrays *arrays, const char *path, const char *name, bl_span bytes, bl_err *err)
{
    bl_tensor_file file = {0};
    size_t before = arrays->count;
    BL_TRY(bl_safetensors_open(arrays->arena, bytes, &bl_arrays_limits, &file, err));
    for (size_t i = 0; i < file.ntensors; i++)
        if (name == NULL || strcmp(file.tensors[i].name, name) == 0)
            BL_TRY(arrays_add_tensor(arrays, &file.tensors[i], err));
    return arrays->count > before ? BL_OK
                                  : bl_fail(err, BL_ENOTFOUND, "%.200s has no tensor \"%.128s\"", path, name != NULL ? name : "");
}

static bl_status arrays_take_file(bl_arrays *arrays, const char *path, const char *name, bl_err *err)
{
    bl_data_source source = {.format = bl_data_format_of(path), .dtype = BL_F32, .ndim = -1, .header = true, .ncolumns = -1};
    bl_file_tensor tensor = {.name = name};
    bl_data data;
    bl_span bytes;
    bl_err wrong = {0};
    if (source.format == BL_DATA_FORMATS || source.format == BL_DATA_RAW)
        return bl_fail(
            err, BL_EINVAL,
            "\"%.200s\" is neither JSON nor the name of a file that ends with .npy, .safetensors, .csv, .idx or -ubyte", path);
    BL_TRY(read_bytes(arrays, path, &bytes, err));
    if (source.format == BL_DATA_SAFETENSORS)
        return take_safetensors(arrays, path, name, bytes, err);
    if (bl_data_find(arrays->arena, &source, bytes, &bl_arrays_limits, &data, &wrong) != BL_OK)
        return bl_fail(err, wrong.status, "%.200s: %s", path, wrong.text);
    void *elements = bl_arena_alloc(arrays->arena, data.bytes);
    BL_TRY(bl_arena_status(arrays->arena, err));
    if (bl_data_read(&data, elements, &wrong) != BL_OK)
        return bl_fail(err, wrong.status, "%.200s: %s", path, wrong.text);
    tensor.dtype = data.dtype;
    tensor.ndim = data.ndim;
    memcpy(tensor.dim, data.dim, sizeof tensor.dim);
    tensor.count = data.count;
    tensor.bytes = data.bytes;
    tensor.data = elements;
    return arrays_add_tensor(arrays, &tensor, err);
}

bl_status bl_arrays_take(bl_arrays *arrays, const char *given, bl_text *document, const char *member, bl_err *err)
{
    const char *equals = strchr(given, '=');
    if (arrays->arena == NULL)
        arrays->arena = bl_arena_create(0);
    if (arrays->arena == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the tensors");
    if (equals == NULL && bl_data_format_of(given) == BL_DATA_SAFETENSORS)
        return arrays_take_file(arrays, given, NULL, err);
    if (equals == NULL || equals == given || equals[1] == '\0')
        return bl_fail(err, BL_EINVAL, "\"%.200s\" must be NAME=FILE or NAME=JSON", given);
    const char *name = bl_arena_strndup(arrays->arena, given, (size_t)(equals - given));
    BL_TRY(bl_arena_status(arrays->arena, err));
    if (bl_document_is_json(equals + 1)) {
        bl_document_set(document, member, name, equals + 1);
        return bl_text_status(document, err);
    }
    bl_document_set(document, member, name, NULL);
    return arrays_take_file(arrays, equals + 1, name, err);
}

void bl_arrays_fini(bl_arrays *arrays)
{
    bl_arena_destroy(arrays->arena);
    *arrays = (bl_arrays){0};
}

static void put_safetensors(bl_text *out, const bl_file_tensor *tensors, size_t count, const bl_file_text *texts, size_t ntexts)
{
    bl_safetensors_write(out, tensors, count, texts, ntexts);
    for (size_t i = 0; i < count; i++)
        bl_text_append(out, tensors[i].data, tensors[i].bytes);
}

bl_status bl_arrays_body(const bl_arrays *arrays, const bl_text *document, bl_text *out, const char **media, bl_err *err)
{
    bl_file_text request = {"request", bl_text_get(document)};
    *media = arrays->count > 0 ? "application/x-safetensors" : "application/json";
    if (arrays->count > 0)
        put_safetensors(out, arrays->tensors, arrays->count, &request, 1);
    else
        bl_text_append(out, document->data, document->len);
    return bl_text_status(out, err);
}

/* ---- to files */

static bl_status arrays_write_text(void *arg, int fd, bl_err *err)
{
    const bl_text *text = arg;
    return bl_write_all(fd, text->data, text->len) ? BL_OK : bl_fail(err, BL_ESTORAGE, "%s", strerror(errno));
}

/* Write a .npy file, version 1.0 of the format (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html):
 * magic, version, length of the header, and the header. The header ends with a newline at a multiple of 64 bytes. */
static bl_status put_npy(const bl_file_tensor *tensor, bl_text *out, bl_err *err)
{
    static const char *const descr[BL_DTYPE_COUNT] = {
        [BL_BOOL] = "|b1", [BL_I8] = "|i1",  [BL_I16] = "<i2", [BL_I32] = "<i4", [BL_I64] = "<i8", [BL_U8] = "|u1",
        [BL_U16] = "<u2",  [BL_U32] = "<u4", [BL_U64] = "<u8", [BL_F16] = "<f2", [BL_F32] = "<f4", [BL_F64] = "<f8"};
    enum { BEFORE = 10, ALIGN = 64 };
    bl_text header = {0};
    if (descr[tensor->dtype] == NULL)
        return bl_fail(err, BL_EUNSUPPORTED, "a .npy file has no %s; a .safetensors file has", bl_dtype_name(tensor->dtype));
    bl_text_printf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[tensor->dtype]);
    for (int i = 0; i < tensor->ndim; i++)
        bl_text_printf(&header, "%lld,%s", (long long)tensor->dim[i], i + 1 < tensor->ndim ? " " : "");
    bl_text_puts(&header, "), }");
    while ((BEFORE + header.len + 1) % ALIGN != 0)
        bl_text_putc(&header, ' ');
    bl_text_putc(&header, '\n');
    bl_text_append(out, "\x93NUMPY\x01\x00", 8);
    bl_text_putc(out, (char)(header.len & 0xff));
    bl_text_putc(out, (char)(header.len >> 8));
    bl_text_append(out, header.data, header.len);
    bl_text_append(out, tensor->data, tensor->bytes);
    out->failed = out->failed || header.failed;
    bl_text_fini(&header);
    return bl_text_status(out, err);
}

static bl_status choose_tensor(const bl_file_tensor *tensors, size_t count, const char *to, const char **path,
                               const bl_file_tensor **out, bl_err *err)
{
    const char *equals = strchr(to, '=');
    bl_text names = {0};
    *path = equals != NULL ? equals + 1 : to;
    *out = equals == NULL && count == 1 ? tensors : NULL;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(tensors[i].name);
        if (equals != NULL && (size_t)(equals - to) == len && memcmp(to, tensors[i].name, len) == 0)
            *out = &tensors[i];
        bl_text_printf(&names, "%s%.60s", i > 0 ? ", " : "", tensors[i].name);
    }
    bl_status st = *out != NULL ? BL_OK
                                : bl_fail(err, BL_EINVAL, "--out %.200s must be NAME=FILE.npy, with one of these names: %.200s",
                                          to, bl_text_get(&names));
    bl_text_fini(&names);
    return st;
}

bl_status bl_arrays_save(const bl_file_tensor *tensors, size_t count, const char *to, bl_err *err)
{
    const bl_file_tensor *one = NULL;
    const char *path = to;
    bl_text bytes = {0};
    bl_err wrong = {0};
    bl_status st = BL_OK;
    if (bl_data_format_of(to) == BL_DATA_SAFETENSORS) {
        put_safetensors(&bytes, tensors, count, NULL, 0);
        st = bl_text_status(&bytes, err);
    } else if (bl_data_format_of(to) == BL_DATA_NPY) {
        st = choose_tensor(tensors, count, to, &path, &one, err);
        if (st == BL_OK)
            st = put_npy(one, &bytes, err);
    } else {
        st = bl_fail(err, BL_EINVAL, "--out %.200s must end with .npy or .safetensors", to);
    }
    if (st == BL_OK && bl_file_replace(path, arrays_write_text, &bytes, &wrong) != BL_OK)
        st = bl_fail(err, BL_ESTORAGE, "%.200s cannot be written: %.200s", path, wrong.text);
    bl_text_fini(&bytes);
    return st;
}

/* ---- on the terminal */

static void put_axis(const bl_file_tensor *tensor, int axis, const char **data, size_t *left, bl_text *out)
{
    size_t size = bl_dtype_bytes(tensor->dtype), extent = (size_t)tensor->dim[axis];
    if (axis + 1 == tensor->ndim) {
        size_t n = extent < *left ? extent : *left;
        bl_tensor_print(out, tensor->dtype, *data, n);
        *data += n * size;
        *left -= n;
        return;
    }
    bl_text_putc(out, '[');
    for (size_t i = 0; i<extent && * left> 0; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        put_axis(tensor, axis + 1, data, left, out);
    }
    bl_text_putc(out, ']');
}

void bl_array_print(const bl_file_tensor *tensor, bl_text *out)
{
    const char *data = tensor->data;
    size_t left = MOST_SHOWN;
    bl_text_put_safe(out, tensor->name);
    bl_text_printf(out, "  %s ", bl_dtype_name(tensor->dtype));
    bl_shape_print(out, tensor->ndim, tensor->dim);
    bl_text_puts(out, "  ");
    if (tensor->ndim > 0) {
        put_axis(tensor, 0, &data, &left, out);
    } else { /* print a scalar "3" without the brackets of "[3]" */
        bl_text number = {0};
        bl_tensor_print(&number, tensor->dtype, data, 1);
        if (number.len > 2)
            bl_text_append(out, number.data + 1, number.len - 2);
        bl_text_fini(&number);
    }
    if (tensor->count > MOST_SHOWN) {
        bl_text_printf(out, "  the first %d of ", MOST_SHOWN);
        bl_text_put_count(out, (double)tensor->count);
        bl_text_puts(out, " numbers; --out FILE writes all");
    }
    bl_text_puts(out, "\n");
}
