/* SPDX-License-Identifier: MIT */
#include "proto/onnx/import.h"

#include <string.h>

#define TYPE(name) ONNX__TENSOR_PROTO__DATA_TYPE__##name

static const struct {
    int data_type;
    bl_dtype dtype;
} types[] = {{TYPE(FLOAT), BL_F32},        {TYPE(UINT8), BL_U8},
             {TYPE(INT8), BL_I8},          {TYPE(UINT16), BL_U16},
             {TYPE(INT16), BL_I16},        {TYPE(INT32), BL_I32},
             {TYPE(INT64), BL_I64},        {TYPE(BOOL), BL_BOOL},
             {TYPE(FLOAT16), BL_F16},      {TYPE(DOUBLE), BL_F64},
             {TYPE(UINT32), BL_U32},       {TYPE(UINT64), BL_U64},
             {TYPE(BFLOAT16), BL_BF16},    {TYPE(FLOAT8E4M3FN), BL_F8E4M3},
             {TYPE(FLOAT8E5M2), BL_F8E5M2}};

bl_dtype bl_onnx_dtype(int data_type)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].data_type == data_type)
            return types[i].dtype;
    }
    const bl_onnx_narrow *narrow = bl_onnx_narrow_find(data_type);
    return narrow != NULL ? narrow->dtype : BL_DTYPE_COUNT;
}

bool bl_onnx_is_strings(int data_type)
{
    return data_type == TYPE(STRING);
}

bl_dtype bl_onnx_stored_dtype(int data_type)
{
    return bl_onnx_is_strings(data_type) ? BL_I64 : bl_onnx_dtype(data_type);
}

int bl_onnx_data_type(const bl_onnx_value *value)
{
    for (size_t i = 0; value->narrow == NULL && i < sizeof types / sizeof types[0]; i++) {
        if (types[i].dtype == bl_onnx_type(value))
            return types[i].data_type;
    }
    return value->narrow != NULL ? value->narrow->data_type : 0;
}

static const char *name_of(bl_onnx_importer *m, const Onnx__TensorProto *tensor)
{
    return tensor->name != NULL && *tensor->name != '\0' ? bl_onnx_clean(m, tensor->name) : "of an attribute";
}

bl_status bl_onnx_shape(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_tensor_value *out, bl_err *err)
{
    size_t most = m->options->limits.max_dims < BL_MAX_DIMS ? m->options->limits.max_dims : BL_MAX_DIMS;

    *out =
        (bl_tensor_value){.kind = BL_VALUE_BYTES, .label = name_of(m, tensor), .dtype = bl_onnx_stored_dtype(tensor->data_type)};
    if (out->dtype == BL_DTYPE_COUNT)
        return bl_fail(err, BL_EGRAPH, "tensor \"%s\" has element type %d, which is not supported", out->label,
                       tensor->data_type);
    if (tensor->n_dims > most)
        return bl_fail(err, BL_ELIMIT, "tensor \"%s\" has %zu dimensions; the limit is %zu", out->label, tensor->n_dims, most);
    out->ndim = (int)tensor->n_dims;
    for (int i = 0; i < out->ndim; i++) {
        out->dim[i] = tensor->dims[i];
        if (out->dim[i] < 0)
            return bl_fail(err, BL_EINVAL, "tensor \"%s\" has an extent of %lld", out->label, (long long)out->dim[i]);
    }
    return bl_tensor_measure(out->label, out->dtype, out->ndim, out->dim, &m->options->limits, &out->count, &out->bytes, err);
}

static bl_status wrong_count(const bl_tensor_value *value, size_t count, bl_err *err)
{
    return bl_fail(err, BL_EINVAL, "tensor \"%s\" has %zu elements, but its shape has %zu", value->label, count, value->count);
}

/* Converts the elements in the typed fields to bytes.  int32_data holds all types of up to 32 bits; 16-bit floats are stored as
 * their bits. */
static bl_status convert_fields(bl_onnx_importer *m, const Onnx__TensorProto *t, bl_tensor_value *out, bl_err *err)
{
    const bl_onnx_narrow *narrow = bl_onnx_narrow_find(t->data_type);
    size_t width = narrow != NULL ? 1 : bl_dtype_bytes(out->dtype), n = 0;
    const void *from = NULL;
    char *to;

    if (out->dtype == BL_F32) {
        from = t->float_data;
        n = t->n_float_data;
    } else if (out->dtype == BL_F64) {
        from = t->double_data;
        n = t->n_double_data;
    } else if (out->dtype == BL_I64) {
        from = t->int64_data;
        n = t->n_int64_data;
    } else if (out->dtype == BL_U64) {
        from = t->uint64_data;
        n = t->n_uint64_data;
    } else {
        n = out->dtype == BL_U32 ? t->n_uint64_data : t->n_int32_data;
    }
    if (n != (narrow != NULL ? bl_onnx_narrow_bytes(narrow, out->count) : out->count))
        return wrong_count(out, n, err);
    to = bl_arena_alloc(m->arena, n * width);
    if (to == NULL)
        return bl_arena_status(m->arena, err);
    if (from != NULL && n > 0)
        memcpy(to, from, n * width);
    for (size_t i = 0; from == NULL && i < n; i++) {
        uint64_t bits = out->dtype == BL_U32 ? t->uint64_data[i] : (uint64_t)(int64_t)t->int32_data[i];
        bits = out->dtype == BL_BOOL ? bits != 0 : bits;
        memcpy(to + i * width, &bits, width); /* the low bytes, since the host is little-endian */
    }
    out->span = (bl_span){to, n * width};
    return narrow != NULL ? bl_onnx_widen(m, narrow, out->span, out, err) : BL_OK;
}

/* Stores the numbers of the tensor's texts. */
static bl_status number_texts(bl_onnx_importer *m, const Onnx__TensorProto *t, bl_tensor_value *out, bl_err *err)
{
    int64_t *to = bl_arena_array(m->arena, out->count + 1, sizeof *to);

    if (t->n_string_data != out->count)
        return wrong_count(out, t->n_string_data, err);
    if (to == NULL)
        return bl_arena_status(m->arena, err);
    for (size_t i = 0; i < out->count; i++)
        to[i] = bl_onnx_text_number(m, (bl_span){(const char *)t->string_data[i].data, t->string_data[i].len});
    out->span = (bl_span){(const char *)to, out->count * sizeof *to};
    return m->failed ? m->err != NULL ? m->err->status : BL_ENOMEM : BL_OK;
}

bl_status bl_onnx_tensor(bl_onnx_importer *m, const Onnx__TensorProto *tensor, bl_tensor_value *out, bl_err *err)
{
    const bl_onnx_narrow *narrow = bl_onnx_narrow_find(tensor->data_type);
    bl_span raw = {0};

    BL_TRY(bl_onnx_shape(m, tensor, out, err));
    if (bl_onnx_is_strings(tensor->data_type))
        return number_texts(m, tensor, out, err);
    if (tensor->has_data_location && tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        BL_TRY(bl_onnx_external(m, tensor, &raw, err));
    else if (!bl_onnx_raw(m->file, tensor, &raw))
        return convert_fields(m, tensor, out, err);
    if (raw.len == 0 && out->bytes > BL_ONNX_THIN_BYTES && bl_onnx_weight_of(m, tensor) >= 0) /* not in a thin file */
        return BL_OK;
    if (narrow != NULL)
        return bl_onnx_widen(m, narrow, raw, out, err);
    if (raw.len != out->bytes)
        return bl_fail(err, BL_EINVAL, "tensor \"%s\" has %zu bytes of data, but its shape takes %zu", out->label, raw.len,
                       out->bytes);
    out->span = raw;
    return BL_OK;
}
