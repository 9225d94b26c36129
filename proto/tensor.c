/* SPDX-License-Identifier: MIT */
#include "proto/tensor.h"
#include "engine/base/size.h"
#include "proto/base64.h"
#include "proto/number.h"

#include <math.h>
#include <string.h>

enum { PRINT_BLOCK = 512 }; /* elements for which the printer reserves room at once */

bl_status bl_tensor_measure(const char *label, bl_dtype dtype, int ndim, const int64_t *dim, const bl_wire_limits *limits,
                            size_t *count, size_t *bytes, bl_err *err)
{
    size_t product = bl_dtype_bytes(dtype);
    bool empty = false;

    if ((size_t)ndim > limits->max_dims)
        return bl_fail(err, BL_ELIMIT, "%s: %d dimensions; the limit is %zu", label, ndim, limits->max_dims);
    for (int i = 0; i < ndim; i++) {
        empty |= dim[i] == 0;
        if (dim[i] != 0 && (!bl_size_mul(product, (size_t)dim[i], &product) || product > (size_t)INT64_MAX))
            return bl_fail(err, BL_ELIMIT, "%s: the size of the tensor does not fit in 63 bits", label);
    }
    if (empty)
        product = 0;
    if (product > limits->max_tensor_bytes)
        return bl_fail(err, BL_ELIMIT, "%s: %zu bytes; the limit of one tensor is %llu", label, product,
                       (unsigned long long)limits->max_tensor_bytes);
    *bytes = product;
    *count = product / bl_dtype_bytes(dtype);
    return BL_OK;
}

/* ---- reading */

typedef enum problem { FINE, NOT_A_NUMBER, NOT_A_BOOL, TOO_LARGE, HAS_FRACTION, NOT_FINITE } problem;

static const char *const problem_text[] = {[NOT_A_NUMBER] = "is not a number",
                                           [NOT_A_BOOL] = "is neither true, false, 0 nor 1",
                                           [TOO_LARGE] = "does not fit",
                                           [HAS_FRACTION] = "has a fraction",
                                           [NOT_FINITE] = "is not finite"};

/* Reads one scalar of a list at |*p| into |out| and advances |*p|.  The list's syntax was checked when it was measured. */
typedef problem (*read_scalar)(const char **p, const char *end, void *out);

static inline bool at_number(char c)
{
    return c == '-' || (c >= '0' && c <= '9');
}

/* Reads "NaN", "Infinity" or "-Infinity" with its quotes. */
static inline bool read_nonfinite(const char **p, const char *end, double *out)
{
    if (**p != '"')
        return false;
    const char *close = memchr(*p + 1, '"', (size_t)(end - *p - 1));
    if (close == NULL || !bl_json_nonfinite((bl_span){*p + 1, (size_t)(close - *p - 1)}, out))
        return false;
    *p = close + 1;
    return true;
}

static inline problem read_f32(const char **p, const char *end, void *out)
{
    bl_decimal d;
    double special;
    float value;

    if (at_number(**p)) {
        *p = bl_decimal_scan(*p, end, &d);
        value = bl_decimal_to_f32(&d);
        if (isinf(value))
            return TOO_LARGE;
    } else if (read_nonfinite(p, end, &special)) {
        value = (float)special;
    } else {
        return NOT_A_NUMBER;
    }
    memcpy(out, &value, sizeof value);
    return FINE;
}

static inline problem read_f64(const char **p, const char *end, void *out)
{
    bl_decimal d;
    double value;

    if (at_number(**p)) {
        *p = bl_decimal_scan(*p, end, &d);
        value = bl_decimal_to_f64(&d);
        if (isinf(value))
            return TOO_LARGE;
    } else if (!read_nonfinite(p, end, &value)) {
        return NOT_A_NUMBER;
    }
    memcpy(out, &value, sizeof value);
    return FINE;
}

static inline problem tensor_read_half(const char **p, const char *end, void *out, uint16_t (*round)(double), uint16_t infinity)
{
    bl_decimal d;
    double value;
    uint16_t bits;

    if (at_number(**p)) {
        *p = bl_decimal_scan(*p, end, &d);
        bits = round(bl_decimal_to_half(&d, round));
        if ((bits & 0x7fff) == infinity)
            return TOO_LARGE;
    } else if (read_nonfinite(p, end, &value)) {
        bits = round(value);
    } else {
        return NOT_A_NUMBER;
    }
    memcpy(out, &bits, sizeof bits);
    return FINE;
}

static problem read_f16(const char **p, const char *end, void *out)
{
    return tensor_read_half(p, end, out, bl_f16_from_f64, 0x7c00);
}

static problem read_bf16(const char **p, const char *end, void *out)
{
    return tensor_read_half(p, end, out, bl_bf16_from_f64, 0x7f80);
}

static problem read_float8(const char **p, const char *end, void *out, bl_dtype dtype)
{
    bl_decimal d;
    bl_scalar value;

    if (at_number(**p)) {
        *p = bl_decimal_scan(*p, end, &d);
        value = bl_scalar_fit(dtype, (bl_scalar){.f = bl_decimal_to_f64(&d)}); /* rounds twice only beyond 53 bits */
        if (!isfinite(value.f))
            return TOO_LARGE;
    } else if (!read_nonfinite(p, end, &value.f)) {
        return NOT_A_NUMBER;
    }
    bl_scalar_write(dtype, value, out);
    return FINE;
}

static problem read_e4m3(const char **p, const char *end, void *out)
{
    return read_float8(p, end, out, BL_F8E4M3);
}

static problem read_e5m2(const char **p, const char *end, void *out)
{
    return read_float8(p, end, out, BL_F8E5M2);
}

static inline problem tensor_read_whole(const char **p, const char *end, bool *negative, uint64_t *magnitude)
{
    bl_decimal d;
    double special;

    if (read_nonfinite(p, end, &special))
        return NOT_FINITE;
    if (!at_number(**p))
        return NOT_A_NUMBER;
    *p = bl_decimal_scan(*p, end, &d);
    bl_whole whole = bl_decimal_to_whole(&d, magnitude);
    *negative = d.negative;
    return whole == BL_WHOLE_OK ? FINE : whole == BL_WHOLE_RANGE ? TOO_LARGE : HAS_FRACTION;
}

#define READ_SIGNED(name, type, max)                                                                                             \
    static inline problem name(const char **p, const char *end, void *out)                                                       \
    {                                                                                                                            \
        bool negative = false;                                                                                                   \
        uint64_t magnitude = 0;                                                                                                  \
        problem wrong = tensor_read_whole(p, end, &negative, &magnitude);                                                        \
        if (wrong != FINE)                                                                                                       \
            return wrong;                                                                                                        \
        if (magnitude > (uint64_t)(max) + negative)                                                                              \
            return TOO_LARGE;                                                                                                    \
        type value = (type)(negative ? 0 - magnitude : magnitude);                                                               \
        memcpy(out, &value, sizeof value);                                                                                       \
        return FINE;                                                                                                             \
    }

#define READ_UNSIGNED(name, type, max)                                                                                           \
    static inline problem name(const char **p, const char *end, void *out)                                                       \
    {                                                                                                                            \
        bool negative = false;                                                                                                   \
        uint64_t magnitude = 0;                                                                                                  \
        problem wrong = tensor_read_whole(p, end, &negative, &magnitude);                                                        \
        if (wrong != FINE)                                                                                                       \
            return wrong;                                                                                                        \
        if (magnitude > (max) || (negative && magnitude != 0))                                                                   \
            return TOO_LARGE;                                                                                                    \
        type value = (type)magnitude;                                                                                            \
        memcpy(out, &value, sizeof value);                                                                                       \
        return FINE;                                                                                                             \
    }

READ_SIGNED(read_i8, int8_t, INT8_MAX)
READ_SIGNED(read_i16, int16_t, INT16_MAX)
READ_SIGNED(read_i32, int32_t, INT32_MAX)
READ_SIGNED(read_i64, int64_t, INT64_MAX)
READ_UNSIGNED(read_u8, uint8_t, UINT8_MAX)
READ_UNSIGNED(read_u16, uint16_t, UINT16_MAX)
READ_UNSIGNED(read_u32, uint32_t, UINT32_MAX)
READ_UNSIGNED(read_u64, uint64_t, UINT64_MAX)

static problem read_bool(const char **p, const char *end, void *out)
{
    uint8_t value;
    bool negative = false;
    uint64_t magnitude = 2;

    if (**p == 't' || **p == 'f') {
        value = **p == 't';
        *p += value ? 4 : 5;
    } else {
        if (tensor_read_whole(p, end, &negative, &magnitude) != FINE || magnitude > 1 || (negative && magnitude != 0))
            return NOT_A_BOOL;
        value = (uint8_t)magnitude;
    }
    memcpy(out, &value, sizeof value);
    return FINE;
}

static bl_status tensor_fail_element(const bl_tensor_value *v, size_t index, const char *at, problem wrong, bl_err *err)
{
    const char *end = v->list.text.data + v->list.text.len, *stop = at;

    while (stop != end && stop - at < 40 && *stop != ',' && *stop != ']' && (unsigned char)*stop > ' ')
        stop++;
    return bl_fail(err, BL_EGRAPH, "%s: element %zu, %.*s, %s: the dtype is %s", v->label, index, (int)(stop - at), at,
                   problem_text[wrong], bl_dtype_name(v->dtype));
}

/* Inlined into each case below, so that |read| becomes no call. */
static inline __attribute__((always_inline)) bl_status scan_list(const bl_tensor_value *v, unsigned char *out, size_t size,
                                                                 read_scalar read, bl_err *err)
{
    const char *p = v->list.text.data, *end = p + v->list.text.len;

    for (size_t i = 0; i < v->count; i++, out += size) {
        while (p != end && (*p == ',' || *p == '[' || *p == ']' || (unsigned char)*p <= ' '))
            p++;
        if (p == end)
            return bl_fail(err, BL_EBUG, "%s: a list ends before its %zu elements", v->label, v->count);
        const char *at = p;
        problem wrong = read(&p, end, out);
        if (wrong != FINE)
            return tensor_fail_element(v, i, at, wrong, err);
    }
    return BL_OK;
}

static bl_status scan_text(const bl_tensor_value *v, void *out, bl_err *err)
{
    switch (v->dtype) {
    case BL_BOOL:
        return scan_list(v, out, 1, read_bool, err);
    case BL_I8:
        return scan_list(v, out, 1, read_i8, err);
    case BL_I16:
        return scan_list(v, out, 2, read_i16, err);
    case BL_I32:
        return scan_list(v, out, 4, read_i32, err);
    case BL_I64:
        return scan_list(v, out, 8, read_i64, err);
    case BL_U8:
        return scan_list(v, out, 1, read_u8, err);
    case BL_U16:
        return scan_list(v, out, 2, read_u16, err);
    case BL_U32:
        return scan_list(v, out, 4, read_u32, err);
    case BL_U64:
        return scan_list(v, out, 8, read_u64, err);
    case BL_F8E4M3:
        return scan_list(v, out, 1, read_e4m3, err);
    case BL_F8E5M2:
        return scan_list(v, out, 1, read_e5m2, err);
    case BL_F16:
        return scan_list(v, out, 2, read_f16, err);
    case BL_BF16:
        return scan_list(v, out, 2, read_bf16, err);
    case BL_F32:
        return scan_list(v, out, 4, read_f32, err);
    case BL_F64:
        return scan_list(v, out, 8, read_f64, err);
    case BL_INDEX:
    case BL_DTYPE_COUNT:
        break;
    }
    return bl_fail(err, BL_EBUG, "%s: not a dtype of the wire", v->label);
}

/* Checks that bools of a client are 0 or 1, since kernels rely on it. */
static bl_status check_bools(const bl_tensor_value *v, const unsigned char *data, bl_err *err)
{
    unsigned all = 0;

    for (size_t i = 0; i < v->count; i++)
        all |= data[i];
    if (v->dtype == BL_BOOL && all > 1)
        return bl_fail(err, BL_EGRAPH, "%s: a bool is neither 0 nor 1", v->label);
    return BL_OK;
}

bl_status bl_tensor_scan(const bl_tensor_value *value, void *out, bl_err *err)
{
    if (value->bytes == 0)
        return BL_OK;
    switch (value->kind) {
    case BL_VALUE_LIST:
        return scan_text(value, out, err);
    case BL_VALUE_BASE64:
        if (!bl_base64_decode(value->span, out))
            return bl_fail(err, BL_EINVAL, "%s: the base64 text is malformed", value->label);
        break;
    case BL_VALUE_BYTES:
        memcpy(out, value->span.data, value->bytes);
        break;
    case BL_VALUE_ZEROS:
        memset(out, 0, value->bytes);
        return BL_OK;
    case BL_VALUE_FILLED:
        value->fill(value->source, out);
        return BL_OK;
    case BL_VALUE_HELD:
    case BL_VALUE_MADE:
        return bl_fail(err, BL_EBUG, "%s: the value is not in the request", value->label);
    }
    return value->dtype == BL_BOOL ? check_bools(value, out, err) : BL_OK;
}

/* ---- printing */

static inline size_t print_element(char *out, bl_dtype dtype, const unsigned char *data)
{
    if (dtype == BL_F32) {
        float value;
        memcpy(&value, data, sizeof value);
        return bl_print_f32(out, value);
    }
    if (dtype == BL_F16 || dtype == BL_BF16) {
        uint16_t bits;
        memcpy(&bits, data, sizeof bits);
        return dtype == BL_F16 ? bl_print_f16(out, bits) : bl_print_bf16(out, bits);
    }
    bl_scalar value = bl_scalar_read(dtype, data);
    if (bl_dtype_is_float(dtype))
        return bl_print_f64(out, value.f); /* float8 values have few digits */
    if (dtype == BL_BOOL) {
        memcpy(out, value.u ? "true" : "false", value.u ? 4 : 5);
        return value.u ? 4 : 5;
    }
    return bl_dtype_get_kind(dtype) == BL_KIND_INT ? bl_print_i64(out, value.i) : bl_print_u64(out, value.u);
}

void bl_tensor_print(bl_text *out, bl_dtype dtype, const void *data, size_t count)
{
    const unsigned char *from = data;
    size_t size = bl_dtype_bytes(dtype);

    bl_text_putc(out, '[');
    for (size_t i = 0; i < count && !out->failed;) {
        size_t stop = count - i < PRINT_BLOCK ? count : i + PRINT_BLOCK;
        char *to = bl_text_reserve(out, (stop - i) * (BL_NUMBER_CHARS + 1)), *start = to;
        if (to == NULL)
            return;
        for (; i < stop; i++, from += size) {
            to += print_element(to, dtype, from);
            *to++ = ',';
        }
        if (i == count)
            to--;
        out->len += (size_t)(to - start);
    }
    bl_text_putc(out, ']');
}

void bl_shape_print(bl_text *out, int ndim, const int64_t *dim)
{
    char text[BL_NUMBER_CHARS];

    bl_text_putc(out, '[');
    for (int i = 0; i < ndim; i++) {
        if (i > 0)
            bl_text_putc(out, ',');
        bl_text_append(out, text, bl_print_i64(text, dim[i]));
    }
    bl_text_putc(out, ']');
}
