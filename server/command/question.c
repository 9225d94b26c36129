/* SPDX-License-Identifier: MIT */
#include "server/command/question.h"

#include "proto/encode.h"
#include "proto/infer.h"
#include "server/command/document.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ZEROS = 1 << 26 };

/* ---- the model */

/* Append "/v2/models/NAME" or "/v2/models/NAME/versions/N", and |end|. */
static void question_put_path(bl_text *out, bl_call *call, const char *end)
{
    bl_ask_path(out, "/v2/models/", call->operands[0], "");
    if (call->command->run == bl_command_infer && bl_call_has(call, "version"))
        bl_text_printf(out, "/versions/%.0f", bl_call_number(call, "version", 0));
    bl_text_puts(out, end);
}

const cJSON *bl_question_text_input(const bl_question *question)
{
    const cJSON *found = NULL;
    int texts = 0;
    for (const cJSON *input = bl_answer_first(bl_answer_at(question->model, "inputs")); input != NULL; input = input->next) {
        bool is_text = strcmp(bl_answer_text(input, "datatype"), "BYTES") == 0;
        found = is_text ? input : found;
        texts += is_text;
    }
    return texts == 1 ? found : NULL;
}

bl_status bl_question_open(bl_question *question, bl_call *call, bl_err *err)
{
    bl_text path = {0};
    bl_ask_request request = {.seconds = BL_ASK_SECONDS};
    bl_err none = {0};
    *question = (bl_question){.call = call};
    question_put_path(&path, call, "");
    request.path = bl_text_get(&path);
    bl_status st = bl_call_connect(call, err);
    if (st == BL_OK)
        st = bl_ask_send(&call->ask, &request, err);
    if (st == BL_OK)
        st = bl_ask_document(&call->ask, &question->model, err);
    if (st == BL_OK && bl_question_text_input(question) == NULL) { /* the routes of /v1 serve text models too */
        bl_text_clear(&path);
        bl_ask_path(&path, "/v1/models/", call->operands[0], "");
        request.path = bl_text_get(&path);
        question->writes = bl_ask_send(&call->ask, &request, &none) == BL_OK;
    }
    bl_text_fini(&path);
    return st;
}

void bl_question_fini(bl_question *question)
{
    cJSON_Delete(question->model);
    bl_arrays_fini(&question->arrays);
    bl_text_fini(&question->path);
    bl_text_fini(&question->body);
    bl_text_fini(&question->length);
}

/* ---- inputs */

static const cJSON *question_find_input(const bl_question *question, const char *name)
{
    for (const cJSON *input = bl_answer_first(bl_answer_at(question->model, "inputs")); input != NULL; input = input->next)
        if (strcmp(bl_answer_text(input, "name"), name) == 0)
            return input;
    return NULL;
}

static void put_input(bl_text *out, const char *name, const char *datatype, int ndim, const int64_t *dim)
{
    bl_text_puts(out, bl_text_last(out) == '[' ? "{" : ",{");
    bl_encode_key(out, "name");
    bl_encode_string(out, name);
    bl_encode_key(out, "datatype");
    bl_encode_string(out, datatype);
    bl_encode_key(out, "shape");
    bl_shape_print(out, ndim, dim);
}

/* Append a JSON value of --in; its lists determine the shape. */
static bl_status put_json_input(const bl_question *question, const bl_json *value, bl_text *out, bl_err *err)
{
    const cJSON *input = question_find_input(question, value->key);
    static const int64_t one[1] = {1};
    bool list = value->kind == BL_JSON_ARRAY;
    if (input == NULL)
        return bl_fail(err, BL_EINVAL, "the model has no input \"%.128s\"", value->key);
    if (value->kind == BL_JSON_OBJECT || value->kind == BL_JSON_NULL ||
        (list && (value->list == NULL || value->list->ragged != NULL)))
        return bl_fail(err, BL_EINVAL, "input \"%.128s\" must be a number, or lists of numbers of equal lengths", value->key);
    put_input(out, value->key, bl_answer_text(input, "datatype"), list ? value->list->depth : 1, list ? value->list->dim : one);
    bl_encode_key(out, "data");
    bl_text_puts(out, list ? "" : "[");
    if (value->kind == BL_JSON_BOOL)
        bl_text_puts(out, value->boolean ? "true" : "false");
    else
        bl_text_append(out, value->text.data, value->text.len);
    bl_text_puts(out, list ? "}" : "]}");
    return BL_OK;
}

static bl_status put_json_inputs(const bl_question *question, const bl_text *document, bl_text *out, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits limits = {0};
    bl_json_doc doc = {0};
    bl_json inputs, one;
    bl_status st = arena != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the inputs");
    if (st == BL_OK)
        st = bl_json_parse(&doc, arena, (bl_span){bl_text_get(document), document->len}, &limits, err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        if (bl_json_find(&root, "inputs", &inputs))
            for (bl_json_iter each = bl_json_each(&inputs); st == BL_OK && bl_json_next(&each, &one);)
                st = put_json_input(question, &one, out, err);
    }
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return st;
}

/* Append the inputs read from files; their bytes follow the envelope. */
static void put_file_inputs(const bl_question *question, bl_text *out, bl_text *bytes)
{
    for (size_t i = 0; i < question->arrays.count; i++) {
        const bl_file_tensor *tensor = &question->arrays.tensors[i];
        put_input(out, tensor->name, bl_infer_datatype((int)tensor->dtype), tensor->ndim, tensor->dim);
        bl_text_printf(out, ",\"parameters\":{\"binary_data_size\":%zu}}", tensor->bytes);
        bl_text_append(bytes, tensor->data, tensor->bytes);
    }
}

/* Append the texts of --text, one row each. */
static bl_status put_text_input(const bl_question *question, bl_text *out, bl_err *err)
{
    const cJSON *input = bl_question_text_input(question);
    int64_t shape[2] = {0, 1};
    const char *text = NULL;
    int at = 0;
    if (!bl_call_has(question->call, "text"))
        return BL_OK;
    if (input == NULL)
        return bl_fail(err, BL_EINVAL, "--text: the model takes no text; give its tensors with --in");
    while (bl_call_next(question->call, "text", &at) != NULL)
        shape[0]++;
    put_input(out, bl_answer_text(input, "name"), "BYTES", cJSON_GetArraySize(bl_answer_at(input, "shape")) > 1 ? 2 : 1, shape);
    bl_encode_key(out, "data");
    bl_text_puts(out, "[");
    at = 0;
    for (bool first = true; (text = bl_call_next(question->call, "text", &at)) != NULL; first = false) {
        bl_text_puts(out, first ? "" : ",");
        bl_encode_string(out, text);
    }
    bl_text_puts(out, "]}");
    return BL_OK;
}

/* Append a missing input: zeros, or empty texts. */
static bl_status put_zeros(const cJSON *input, bl_text *out, bl_err *err)
{
    int64_t dim[16] = {0}, count = 1;
    int ndim = 0;
    const char *datatype = bl_answer_text(input, "datatype");
    const char *zero = strcmp(datatype, "BYTES") == 0 ? "\"\"" : strcmp(datatype, "BOOL") == 0 ? "false" : "0";
    for (const cJSON *extent = bl_answer_first(bl_answer_at(input, "shape")); extent != NULL; extent = extent->next)
        if (ndim < 16) {
            dim[ndim] = cJSON_IsNumber(extent) && extent->valuedouble >= 0 ? (int64_t)extent->valuedouble : 1;
            if (__builtin_mul_overflow(count, dim[ndim], &count) || count > MOST_ZEROS)
                return bl_fail(err, BL_ELIMIT, "input \"%.128s\" is too large to fill with zeros; give it with --in",
                               bl_answer_text(input, "name"));
            ndim++;
        }
    put_input(out, bl_answer_text(input, "name"), datatype, ndim, dim);
    bl_encode_key(out, "data");
    bl_text_puts(out, "[");
    for (int64_t i = 0; i < count; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_text_puts(out, zero);
    }
    bl_text_puts(out, "]}");
    return BL_OK;
}

static bool question_is_given(const bl_question *question, const char *name)
{
    const char *given = NULL;
    size_t len = strlen(name);
    int at = 0;
    while ((given = bl_call_next(question->call, "in", &at)) != NULL)
        if (strncmp(given, name, len) == 0 && given[len] == '=')
            return true;
    for (size_t i = 0; i < question->arrays.count; i++)
        if (strcmp(question->arrays.tensors[i].name, name) == 0)
            return true;
    return false;
}

static bl_status put_inputs(bl_question *question, bool zeros, bl_text *bytes, bl_err *err)
{
    bl_text document = {0};
    const char *given = NULL;
    int at = 0;
    bl_status st = BL_OK;
    bl_text_puts(&document, "{}");
    while (st == BL_OK && (given = bl_call_next(question->call, "in", &at)) != NULL)
        st = bl_arrays_take(&question->arrays, given, &document, "inputs", err);
    if (st == BL_OK)
        st = put_json_inputs(question, &document, &question->body, err);
    if (st == BL_OK)
        put_file_inputs(question, &question->body, bytes);
    if (st == BL_OK && !zeros)
        st = put_text_input(question, &question->body, err);
    if (zeros)
        for (const cJSON *input = bl_answer_first(bl_answer_at(question->model, "inputs")); input != NULL; input = input->next)
            if (st == BL_OK && !question_is_given(question, bl_answer_text(input, "name")))
                st = put_zeros(input, &question->body, err);
    bl_text_fini(&document);
    return st;
}

bl_status bl_question_fill(bl_question *question, bool zeros, bool binary, bl_err *err)
{
    bl_text bytes = {0};
    question_put_path(&question->path, question->call, "/infer");
    bl_text_puts(&question->body, "{\"inputs\":[");
    bl_status st = put_inputs(question, zeros, &bytes, err);
    bl_text_puts(&question->body, binary ? "],\"parameters\":{\"binary_data_output\":true}}" : "]}");
    question->media = "application/json";
    if (bytes.len > 0) {
        question->media = "application/octet-stream";
        bl_text_printf(&question->length, "Inference-Header-Content-Length: %zu", question->body.len);
        bl_text_append(&question->body, bytes.data, bytes.len);
    }
    bl_text_fini(&bytes);
    return st != BL_OK ? st : bl_text_status(&question->body, err);
}
