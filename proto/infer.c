/* SPDX-License-Identifier: MIT */
#include "proto/infer.h"

#include "engine/base/size.h"
#include "proto/encode.h"

#include <string.h>

enum { LENGTH_BYTES = 4 };

static const char *const datatypes[BL_INFER_BYTES + 1] = {
    [BL_BOOL] = "BOOL", [BL_I8] = "INT8",    [BL_I16] = "INT16",  [BL_I32] = "INT32",         [BL_I64] = "INT64",
    [BL_U8] = "UINT8",  [BL_U16] = "UINT16", [BL_U32] = "UINT32", [BL_U64] = "UINT64",        [BL_F16] = "FP16",
    [BL_BF16] = "BF16", [BL_F32] = "FP32",   [BL_F64] = "FP64",   [BL_INFER_BYTES] = "BYTES",
};

const char *bl_infer_datatype(int datatype)
{
    return datatypes[datatype] != NULL ? datatypes[datatype] : "";
}

int bl_infer_datatype_find(const char *name)
{
    for (int i = 0; i <= BL_INFER_BYTES; i++)
        if (datatypes[i] != NULL && strcmp(datatypes[i], name) == 0)
            return i;
    return -1;
}

/* ---- decoding a request */

typedef struct decoder {
    bl_arena *arena;
    const bl_wire_limits *limits;
    bl_infer_request *out;
    bl_span tail; /* not consumed yet */
    bl_err *err;
} decoder;

/* The size of the envelope in |body|, from the header's value. */
static bl_status infer_read_header(bl_span body, const char *header, size_t *bytes, bl_err *err)
{
    size_t value = 0;

    for (const char *p = header; *p != '\0'; p++) {
        if (*p < '0' || *p > '9')
            return bl_fail(err, BL_EINVAL, "Inference-Header-Content-Length must be a number of bytes, not %.40s", header);
        if (!bl_size_mul(value, 10, &value) || !bl_size_add(value, (size_t)(*p - '0'), &value))
            value = SIZE_MAX;
    }
    if (*header == '\0' || value > body.len)
        return bl_fail(err, BL_EINVAL, "Inference-Header-Content-Length is %.40s, but the body has %zu bytes",
                       *header == '\0' ? "empty" : header, body.len);
    *bytes = value;
    return BL_OK;
}

static bl_status infer_read_shape(decoder *d, const bl_json *at, bl_tensor_value *value)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;

    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, d->err));
    while (bl_json_next(&it, &one)) {
        if ((size_t)value->ndim == d->limits->max_dims)
            return bl_json_fail(at, d->err, BL_ELIMIT, "over %zu dimensions", d->limits->max_dims);
        BL_TRY(bl_json_int(&one, 0, INT64_MAX, &value->dim[value->ndim++], d->err));
    }
    return BL_OK;
}

/* Computes the memory size: of the numbers, or, for BYTES, of the references to the strings. */
static bl_status infer_measure(decoder *d, bl_infer_input *input)
{
    bl_tensor_value *v = &input->value;
    bl_dtype dtype = input->datatype == BL_INFER_BYTES ? BL_U32 : (bl_dtype)input->datatype;

    v->dtype = dtype;
    return bl_tensor_measure(v->label, dtype, v->ndim, v->dim, d->limits, &v->count, &v->bytes, d->err);
}

bl_status bl_infer_split(bl_arena *arena, const char *name, bl_span text, size_t count, const bl_span **out, bl_err *err)
{
    bl_span *items = NULL;
    const unsigned char *p = (const unsigned char *)text.data, *end = p + text.len;
    size_t i = 0;

    if (count > text.len / LENGTH_BYTES)
        return bl_fail(err, BL_EINVAL, "%s: %zu elements of BYTES do not fit into %zu bytes", name, count, text.len);
    items = bl_arena_array(arena, count + 1, sizeof *items);
    if (items == NULL)
        return bl_arena_status(arena, err);
    for (; i < count && end - p >= LENGTH_BYTES; i++) {
        size_t len = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        p += LENGTH_BYTES;
        if (len > (size_t)(end - p))
            return bl_fail(err, BL_EINVAL, "%s: element %zu of BYTES has %zu bytes, but %zu are left", name, i, len,
                           (size_t)(end - p));
        items[i] = (bl_span){(const char *)p, len};
        p += len;
    }
    if (i < count || p != end)
        return bl_fail(err, BL_EINVAL, "%s: the bytes are not %zu elements, each after its length", name, count);
    *out = items;
    return BL_OK;
}

/* Assigns the next |size| bytes of the tail to this input. */
static bl_status take_tail(decoder *d, bl_infer_input *input, const bl_json *at, uint64_t size)
{
    bl_tensor_value *v = &input->value;

    if (size > d->tail.len)
        return bl_json_fail(at, d->err, BL_EINVAL, "binary_data_size is %llu, but %zu bytes of the body are left",
                            (unsigned long long)size, d->tail.len);
    v->kind = BL_VALUE_BYTES;
    v->span = (bl_span){d->tail.data, (size_t)size};
    d->tail.data += size;
    d->tail.len -= (size_t)size;
    if (input->datatype == BL_INFER_BYTES)
        return bl_infer_split(d->arena, v->label, v->span, v->count, &input->items, d->err);
    if (v->span.len != v->bytes)
        return bl_json_fail(at, d->err, BL_EINVAL, "binary_data_size is %llu, but the tensor has %zu bytes",
                            (unsigned long long)size, v->bytes);
    return BL_OK;
}

/* Collects the strings of arrays, nested or not, up to |count| items. */
static bl_status gather_strings(decoder *d, const bl_json *at, size_t count, bl_span *items, size_t *n)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;

    while (bl_json_next(&it, &one)) {
        const char *text = NULL;
        if (one.kind == BL_JSON_ARRAY) {
            BL_TRY(gather_strings(d, &one, count, items, n));
            continue;
        }
        BL_TRY(bl_json_string(&one, &text, d->err));
        if (*n < count)
            items[*n] = (bl_span){text, one.text.len};
        ++*n;
    }
    return BL_OK;
}

static bl_status count_fails(decoder *d, const bl_json *at, const bl_infer_input *input, unsigned long long found)
{
    return bl_json_fail(at, d->err, BL_EINVAL, "%llu elements, but the shape has %zu", found, input->value.count);
}

static bl_status infer_take_data(decoder *d, bl_infer_input *input, const bl_json *at)
{
    bl_tensor_value *v = &input->value;
    size_t n = 0;

    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, d->err));
    if (input->datatype == BL_INFER_BYTES) {
        bl_span *items = NULL;
        if (v->count > BL_JSON_VALUES) /* a document has at most that many values */
            return count_fails(d, at, input, bl_json_count(at));
        items = bl_arena_array(d->arena, v->count + 1, sizeof *items);
        if (items == NULL)
            return bl_arena_status(d->arena, d->err);
        BL_TRY(gather_strings(d, at, v->count, items, &n));
        input->items = items;
        return n == v->count ? BL_OK : count_fails(d, at, input, n);
    }
    v->kind = BL_VALUE_LIST;
    if (at->list == NULL)
        return bl_json_fail(at, d->err, BL_EINVAL, "expected an array of numbers, nested or not");
    v->list = *at->list;
    if (v->list.ragged != NULL)
        return bl_json_fail(at, d->err, BL_EINVAL, "the nested arrays differ in length");
    return v->list.count == v->count ? BL_OK : count_fails(d, at, input, v->list.count);
}

static bool infer_begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Checks an unknown parameter.  A client may send a parameter of another back end; Triton accepts such parameters.  So this
 * function accepts an unknown parameter if the value is a scalar and the protocol does not reserve the name. */
static bl_status check_custom(const bl_json *one, bl_err *err)
{
    if (infer_begins_with(one->key, "shared_memory_"))
        return bl_json_fail(one, err, BL_EUNSUPPORTED, "shared memory is not supported");
    if (infer_begins_with(one->key, "triton_"))
        return bl_json_fail(one, err, BL_EINVAL, "names of parameters that start with \"triton_\" are reserved");
    if (one->kind != BL_JSON_STRING && one->kind != BL_JSON_NUMBER && one->kind != BL_JSON_BOOL)
        return bl_json_fail(one, err, BL_EINVAL, "the value of a parameter must be a string, a number, true or false");
    return BL_OK;
}

/* Checks the names.  The caller reads the parameters in |known|; NULL ends |known|. */
static bl_status check_parameters(const bl_json *parameters, const char *const *known, bl_err *err)
{
    bl_json_iter it = bl_json_each(parameters);
    bl_json one;

    BL_TRY(bl_json_expect(parameters, BL_JSON_OBJECT, err));
    while (bl_json_next(&it, &one)) {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], one.key) != 0)
            i++;
        if (known[i] == NULL)
            BL_TRY(check_custom(&one, err));
    }
    return BL_OK;
}

static bl_status decode_input(decoder *d, const bl_json *at, bl_infer_input *input)
{
    static const char *const names[] = {"name", "shape", "datatype", "parameters", "data", NULL};
    static const char *const known[] = {"binary_data_size", NULL};
    bl_json member, parameters, data, size_at;
    const char *datatype = NULL;
    uint64_t size = 0;
    bool binary = false, listed = false;

    BL_TRY(bl_json_allow(at, names, d->err));
    BL_TRY(bl_json_need(at, "name", &member, d->err));
    BL_TRY(bl_json_string(&member, &input->name, d->err));
    if (input->name[0] == '\0')
        return bl_json_fail(&member, d->err, BL_EINVAL, "the name of an input is empty");
    BL_TRY(bl_json_need(at, "datatype", &member, d->err));
    BL_TRY(bl_json_string(&member, &datatype, d->err));
    input->datatype = bl_infer_datatype_find(datatype);
    if (input->datatype < 0)
        return bl_json_fail(&member, d->err, BL_EINVAL, "unknown datatype \"%.40s\"", datatype);
    BL_TRY(bl_json_need(at, "shape", &member, d->err));
    input->value.label = input->name;
    BL_TRY(infer_read_shape(d, &member, &input->value));
    BL_TRY(infer_measure(d, input));
    if (bl_json_find(at, "parameters", &parameters)) {
        BL_TRY(check_parameters(&parameters, known, d->err));
        binary = bl_json_find(&parameters, "binary_data_size", &size_at);
    }
    listed = bl_json_find(at, "data", &data);
    if (binary == listed)
        return bl_json_fail(at, d->err, BL_EINVAL,
                            binary ? "\"data\" and binary_data_size exclude each other"
                                   : "\"data\" or the parameter binary_data_size is missing");
    if (listed)
        return infer_take_data(d, input, &data);
    BL_TRY(bl_json_u64(&size_at, &size, d->err));
    return take_tail(d, input, &size_at, size);
}

static bl_status decode_output(decoder *d, const bl_json *at, bl_infer_output *output)
{
    static const char *const names[] = {"name", "parameters", NULL};
    static const char *const known[] = {"binary_data", "classification", NULL};
    bl_json member, parameters;

    output->binary = d->out->binary;
    BL_TRY(bl_json_allow(at, names, d->err));
    BL_TRY(bl_json_need(at, "name", &member, d->err));
    BL_TRY(bl_json_string(&member, &output->name, d->err));
    if (output->name[0] == '\0')
        return bl_json_fail(&member, d->err, BL_EINVAL, "the name of an output is empty");
    if (!bl_json_find(at, "parameters", &parameters))
        return BL_OK;
    BL_TRY(check_parameters(&parameters, known, d->err));
    if (bl_json_find(&parameters, "binary_data", &member))
        BL_TRY(bl_json_bool(&member, &output->binary, d->err));
    if (bl_json_find(&parameters, "classification", &member))
        BL_TRY(bl_json_u64(&member, &output->classes, d->err));
    return BL_OK;
}

static bl_status decode_sequence_id(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    uint64_t number = 0;

    if (at->kind == BL_JSON_STRING) {
        BL_TRY(bl_json_string(at, &out->sequence, err));
        if (strlen(out->sequence) > 128)
            return bl_json_fail(at, err, BL_EINVAL, "a sequence id must have at most 128 bytes");
    } else {
        BL_TRY(bl_json_u64(at, &number, err));
        out->sequence = number == 0 ? "" : bl_arena_printf(arena, "%llu", (unsigned long long)number);
        if (out->sequence == NULL)
            return bl_arena_status(arena, err);
    }
    out->sequenced = out->sequence[0] != '\0'; /* 0 and "" mean that there is no sequence */
    return BL_OK;
}

static bl_status decode_sequence_start(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    (void)arena;
    return bl_json_bool(at, &out->sequence_start, err);
}

static bl_status decode_sequence_end(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    (void)arena;
    return bl_json_bool(at, &out->sequence_end, err);
}

static bl_status decode_priority(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    (void)arena;
    return bl_json_u64(at, &out->priority, err);
}

static bl_status decode_timeout(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    (void)arena;
    BL_TRY(bl_json_u64(at, &out->timeout_us, err));
    if (out->timeout_us > (uint64_t)INT64_MAX / 2000)
        return bl_json_fail(at, err, BL_EINVAL, "a timeout must be at most %llu microseconds",
                            (unsigned long long)INT64_MAX / 2000);
    return BL_OK;
}

static bl_status decode_binary(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    (void)arena;
    return bl_json_bool(at, &out->binary, err);
}

static bl_status decode_nonfinite(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    const char *word = NULL;

    (void)arena;
    BL_TRY(bl_json_string(at, &word, err));
    if (strcmp(word, "string") == 0)
        out->nonfinite = BL_NONFINITE_STRING;
    else if (strcmp(word, "null") == 0)
        out->nonfinite = BL_NONFINITE_NULL;
    else if (strcmp(word, "bare") == 0)
        out->nonfinite = BL_NONFINITE_BARE;
    else
        return bl_json_fail(at, err, BL_EINVAL, "NaN and infinities must be \"string\", \"null\" or \"bare\", not \"%.40s\"",
                            word);
    return BL_OK;
}

static const struct parameter {
    const char *name;
    bl_status (*decode)(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err);
} parameters_known[] = {
    {"sequence_id", decode_sequence_id},   {"sequence_start", decode_sequence_start},
    {"sequence_end", decode_sequence_end}, {"priority", decode_priority},
    {"timeout", decode_timeout},           {"nonfinite", decode_nonfinite},
    {"binary_data_output", decode_binary},
};

static const struct parameter *find_parameter(const char *name)
{
    for (size_t i = 0; i < sizeof parameters_known / sizeof parameters_known[0]; i++)
        if (strcmp(parameters_known[i].name, name) == 0)
            return &parameters_known[i];
    return NULL;
}

bool bl_infer_is_parameter(const char *name)
{
    return find_parameter(name) != NULL;
}

bl_status bl_infer_decode_parameter(bl_arena *arena, const bl_json *at, bl_infer_request *out, bl_err *err)
{
    const struct parameter *known = find_parameter(at->key);
    return known != NULL ? known->decode(arena, at, out, err) : check_custom(at, err);
}

static bl_status decode_parameters(decoder *d, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;

    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, d->err));
    while (bl_json_next(&it, &one))
        BL_TRY(bl_infer_decode_parameter(d->arena, &one, d->out, d->err));
    return BL_OK;
}

static bl_status decode_inputs(decoder *d, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    size_t n = bl_json_count(at);

    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, d->err));
    if (n > d->limits->max_inputs)
        return bl_json_fail(at, d->err, BL_ELIMIT, "%zu inputs; the limit is %zu", n, d->limits->max_inputs);
    d->out->inputs = bl_arena_array(d->arena, n + 1, sizeof *d->out->inputs);
    if (d->out->inputs == NULL)
        return bl_arena_status(d->arena, d->err);
    while (bl_json_next(&it, &one))
        BL_TRY(decode_input(d, &one, &d->out->inputs[d->out->ninputs++]));
    return BL_OK;
}

static bl_status infer_decode_outputs(decoder *d, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    size_t n = bl_json_count(at);

    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, d->err));
    if (n > d->limits->max_inputs) /* a model has fewer outputs, and a request may name each output once */
        return bl_json_fail(at, d->err, BL_ELIMIT, "%zu outputs; the limit is %zu", n, d->limits->max_inputs);
    d->out->all = n == 0;
    d->out->outputs = bl_arena_array(d->arena, n + 1, sizeof *d->out->outputs);
    if (d->out->outputs == NULL)
        return bl_arena_status(d->arena, d->err);
    while (bl_json_next(&it, &one))
        BL_TRY(decode_output(d, &one, &d->out->outputs[d->out->noutputs++]));
    return BL_OK;
}

static bl_status decode_document(decoder *d, const bl_json *root)
{
    static const char *const names[] = {"id", "parameters", "inputs", "outputs", NULL};
    bl_json at;

    d->out->all = true;
    BL_TRY(bl_json_allow(root, names, d->err));
    if (bl_json_find(root, "id", &at))
        BL_TRY(bl_json_string(&at, &d->out->id, d->err));
    if (bl_json_find(root, "parameters", &at))
        BL_TRY(decode_parameters(d, &at));
    BL_TRY(bl_json_need(root, "inputs", &at, d->err));
    BL_TRY(decode_inputs(d, &at));
    if (bl_json_find(root, "outputs", &at))
        BL_TRY(infer_decode_outputs(d, &at));
    if (d->tail.len > 0)
        return bl_fail(d->err, BL_EINVAL, "%zu bytes of the body belong to no input", d->tail.len);
    return BL_OK;
}

bl_status bl_infer_decode(bl_arena *arena, bl_span body, const char *header, int depth, const bl_wire_limits *limits,
                          bl_infer_request *out, bl_err *err)
{
    decoder d = {.arena = arena, .limits = limits, .out = out, .err = err};
    bl_json_limits json = {.depth = depth};
    bl_json_doc doc = {0};
    size_t bytes = body.len;
    bl_status st = BL_OK;

    *out = (bl_infer_request){0};
    if (header != NULL)
        BL_TRY(infer_read_header(body, header, &bytes, err));
    out->tail = d.tail = (bl_span){body.data + bytes, body.len - bytes};
    if (header != NULL && bytes == 0) {
        out->raw = out->all = out->binary = true;
        return BL_OK;
    }
    st = bl_json_parse(&doc, arena, (bl_span){body.data, bytes}, &json, err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = decode_document(&d, &root);
    }
    bl_json_fini(&doc);
    return st;
}

/* ---- encoding a response */

size_t bl_infer_result_bytes(const bl_infer_result *result)
{
    size_t bytes = result->count * LENGTH_BYTES;

    if (result->datatype != BL_INFER_BYTES)
        return result->count * bl_dtype_bytes((bl_dtype)result->datatype);
    for (size_t i = 0; i < result->count; i++)
        bytes += result->items[i].len;
    return bytes;
}

void bl_infer_join(bl_text *out, const bl_infer_result *result)
{
    for (size_t i = 0; i < result->count; i++) {
        size_t len = result->items[i].len;
        char text[LENGTH_BYTES] = {(char)len, (char)(len >> 8), (char)(len >> 16), (char)(len >> 24)};
        bl_text_append(out, text, sizeof text);
        bl_text_append(out, result->items[i].data, len);
    }
}

/* Rewrites the strings of non-finite numbers in the text that bl_tensor_print wrote from |start| on. */
static void rewrite_nonfinite(bl_text *out, size_t start, bl_infer_nonfinite how)
{
    size_t to = start;

    for (size_t at = start; at < out->len; at++) {
        const char *close = out->data[at] == '"' ? memchr(out->data + at + 1, '"', out->len - at - 1) : NULL;
        if (close == NULL) {
            out->data[to++] = out->data[at];
            continue;
        }
        const char *word = how == BL_NONFINITE_NULL ? "null" : out->data + at + 1;
        size_t len = how == BL_NONFINITE_NULL ? 4 : (size_t)(close - word); /* never longer than the string it replaces */
        at = (size_t)(close - out->data);
        memmove(out->data + to, word, len);
        to += len;
    }
    out->len = to;
    out->data[to] = '\0';
}

static void infer_put_data(bl_text *out, const bl_infer_result *result)
{
    size_t start = out->len;

    if (result->datatype != BL_INFER_BYTES) {
        bl_tensor_print(out, (bl_dtype)result->datatype, result->data, result->count);
        if (result->nonfinite != BL_NONFINITE_STRING && !out->failed && out->len > start)
            rewrite_nonfinite(out, start, result->nonfinite);
        return;
    }
    bl_text_putc(out, '[');
    for (size_t i = 0; i < result->count; i++) {
        if (i > 0)
            bl_text_putc(out, ',');
        bl_encode_span(out, result->items[i]);
    }
    bl_text_putc(out, ']');
}

void bl_infer_put_result(bl_text *out, const bl_infer_result *result)
{
    bl_text_puts(out, "{\"name\":");
    bl_encode_string(out, result->name);
    bl_text_puts(out, ",\"datatype\":\"");
    bl_text_puts(out, bl_infer_datatype(result->datatype));
    bl_text_puts(out, "\",\"shape\":");
    bl_shape_print(out, result->ndim, result->dim);
    if (result->binary) {
        bl_text_puts(out, ",\"parameters\":{\"binary_data_size\":");
        bl_encode_u64(out, bl_infer_result_bytes(result));
        bl_text_putc(out, '}');
    } else {
        bl_text_puts(out, ",\"data\":");
        infer_put_data(out, result);
    }
    bl_text_putc(out, '}');
}
