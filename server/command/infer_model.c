/* SPDX-License-Identifier: MIT */
/* `beamline infer`: one inference of a hosted model, with tensors, a picture or a text. */
#include "server/command/question.h"

#include "proto/encode.h"
#include "proto/infer.h"
#include "server/command/document.h"
#include "server/command/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHOWN = 1000 };

/* ---- printing the answer */

/* Append "    0.998  espresso". */
static bl_status put_class(const bl_json *one, bl_text *out, bl_err *err)
{
    bl_json score, label, index;
    bl_wire_number number = {0};
    const char *text = "";
    BL_TRY(bl_json_need(one, "score", &score, err));
    BL_TRY(bl_json_number(&score, &number, err));
    bl_text_printf(out, "%9.4g  ", number.value);
    if (bl_json_find(one, "label", &label)) {
        BL_TRY(bl_json_string(&label, &text, err));
        bl_text_put_safe(out, text);
    } else {
        BL_TRY(bl_json_need(one, "index", &index, err));
        bl_text_puts(out, "class ");
        bl_text_append(out, index.text.data, index.text.len);
    }
    bl_text_puts(out, "\n");
    return BL_OK;
}

/* Append texts, or the first numbers as the server wrote them. */
static void infer_model_put_data(const bl_json *data, bl_text *out)
{
    size_t commas = 0, len = 0;
    bl_json one;
    if (data->list == NULL || (data->list->holds & BL_LIST_STRINGS) != 0) {
        bl_text_puts(out, "\n");
        for (bl_json_iter each = bl_json_each(data); bl_json_next(&each, &one);) {
            const char *text = "";
            bl_err none = {0};
            if (one.kind == BL_JSON_STRING && bl_json_string(&one, &text, &none) == BL_OK)
                bl_text_put_safe(out, text);
            else
                bl_text_append(out, one.text.data, one.text.len);
            bl_text_puts(out, "\n");
        }
        return;
    }
    for (; len < data->text.len && commas < MOST_SHOWN; len++)
        commas += data->text.data[len] == ',';
    bl_text_append(out, data->text.data, len);
    bl_text_puts(out, len < data->text.len ? " ...; --out FILE writes all\n" : "\n");
}

static bl_status put_output(const bl_json *output, bl_text *out, bl_err *err)
{
    bl_json name, datatype, shape, data, one;
    const char *text = "";
    BL_TRY(bl_json_need(output, "name", &name, err));
    BL_TRY(bl_json_string(&name, &text, err));
    bl_text_put_safe(out, text);
    if (bl_json_find(output, "classes", &data)) {
        bl_text_puts(out, "\n");
        for (bl_json_iter each = bl_json_each(&data); bl_json_next(&each, &one);)
            BL_TRY(put_class(&one, out, err));
        return BL_OK;
    }
    BL_TRY(bl_json_need(output, "datatype", &datatype, err));
    BL_TRY(bl_json_string(&datatype, &text, err));
    BL_TRY(bl_json_need(output, "shape", &shape, err));
    BL_TRY(bl_json_need(output, "data", &data, err));
    bl_text_puts(out, "  ");
    bl_text_put_safe(out, text);
    bl_text_puts(out, " ");
    bl_text_append(out, shape.text.data, shape.text.len);
    bl_text_puts(out, "  ");
    infer_model_put_data(&data, out);
    return BL_OK;
}

static bl_status print_outputs(const bl_ask *ask, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits limits = {.values = SIZE_MAX};
    bl_json_doc doc = {0};
    bl_json outputs, one;
    bl_text out = {0};
    bl_status st = arena != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the answer");
    if (st == BL_OK)
        st = bl_json_parse(&doc, arena, (bl_span){bl_text_get(&ask->body), ask->body.len}, &limits, err);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_json_need(&root, "outputs", &outputs, err);
        if (st == BL_OK)
            for (bl_json_iter each = bl_json_each(&outputs); st == BL_OK && bl_json_next(&each, &one);)
                st = put_output(&one, &out, err);
    }
    if (st == BL_OK && !bl_terminal_print(&out))
        st = bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
    bl_text_fini(&out);
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return st;
}

/* ---- saving outputs; the bytes of the outputs follow the envelope */

static bl_status infer_model_read_shape(const cJSON *shape, bl_file_tensor *tensor, bl_err *err)
{
    for (const cJSON *extent = bl_answer_first(shape); extent != NULL; extent = extent->next) {
        if (tensor->ndim == BL_LIST_DIMS || !cJSON_IsNumber(extent) || !(extent->valuedouble >= 0 && extent->valuedouble < 1e15))
            return bl_fail(err, BL_EINVAL, "the server's answer has no shape of output \"%.128s\"", tensor->name);
        tensor->dim[tensor->ndim++] = (int64_t)extent->valuedouble;
    }
    return bl_tensor_measure(tensor->name, tensor->dtype, tensor->ndim, tensor->dim, &bl_arrays_limits, &tensor->count,
                             &tensor->bytes, err);
}

static bl_status infer_model_find_outputs(const bl_ask *ask, cJSON *envelope, size_t from, bl_file_tensor *tensors, size_t *count,
                                          bl_err *err)
{
    for (const cJSON *output = bl_answer_first(bl_answer_at(envelope, "outputs")); output != NULL; output = output->next) {
        bl_file_tensor *tensor = &tensors[*count];
        int datatype = bl_infer_datatype_find(bl_answer_text(output, "datatype"));
        double bytes = bl_answer_number(bl_answer_at(output, "parameters"), "binary_data_size", -1);
        if (*count == BL_ARRAYS_MOST || datatype < 0 || datatype >= BL_INFER_BYTES)
            return bl_fail(err, BL_EUNSUPPORTED, "output \"%.128s\" cannot be written to a file", bl_answer_text(output, "name"));
        *tensor = (bl_file_tensor){.name = bl_answer_text(output, "name"), .dtype = (bl_dtype)datatype};
        BL_TRY(infer_model_read_shape(bl_answer_at(output, "shape"), tensor, err));
        if (bytes != (double)tensor->bytes || tensor->bytes > ask->body.len - from)
            return bl_fail(err, BL_EINVAL, "the server's answer does not have all bytes of output \"%.128s\"", tensor->name);
        tensor->data = ask->body.data + from;
        from += tensor->bytes;
        ++*count;
    }
    return BL_OK;
}

static bl_status save_outputs(const bl_call *call, bl_err *err)
{
    static bl_file_tensor tensors[BL_ARRAYS_MOST + 1];
    const char *header = bl_ask_header(&call->ask, "Inference-Header-Content-Length"), *to = NULL;
    size_t length = header != NULL ? strtoul(header, NULL, 10) : call->ask.body.len, count = 0;
    cJSON *envelope = length <= call->ask.body.len ? cJSON_ParseWithLength(bl_text_get(&call->ask.body), length) : NULL;
    int at = 0;
    bl_status st = envelope != NULL ? infer_model_find_outputs(&call->ask, envelope, length, tensors, &count, err)
                                    : bl_fail(err, BL_EINVAL, "the server's answer has no JSON header");
    while (st == BL_OK && (to = bl_call_next(call, "out", &at)) != NULL)
        st = bl_arrays_save(tensors, count, to, err);
    cJSON_Delete(envelope);
    return st;
}

/* ---- sending the request */

static bl_status ask_picture(bl_question *question, bl_err *err)
{
    bl_text picture = {0}, path = {0};
    char end[40] = "/infer";
    double classes = bl_call_number(question->call, "classes", 0);
    bool told = false;
    bl_status st = bl_document_read_file(bl_call_text(question->call, "image"), &picture, err);
    if (classes > 0)
        (void)snprintf(end, sizeof end, "/infer?classes=%.0f", classes);
    if (st == BL_OK &&
        (picture.len < 8 || (memcmp(picture.data, "\xff\xd8\xff", 3) != 0 && memcmp(picture.data, "\x89PNG", 4) != 0)))
        st = bl_fail(err, BL_EINVAL, "%.200s is neither a JPEG nor a PNG", bl_call_text(question->call, "image"));
    if (st == BL_OK) {
        bl_ask_request request = {.body = {picture.data, picture.len},
                                  .media = picture.data[0] == '\x89' ? "image/png" : "image/jpeg"};
        bl_ask_path(&path, "/v2/models/", question->call->operands[0], end);
        request.path = bl_text_get(&path);
        st = bl_call_ask(question->call, &request, &told, err);
    }
    if (st == BL_OK && !told)
        st = print_outputs(&question->call->ask, err);
    bl_text_fini(&picture);
    bl_text_fini(&path);
    return st;
}

/* Ask a text model to continue the text. */
static bl_status ask_writer(bl_question *question, bl_err *err)
{
    bl_text path = {0}, body = {0}, out = {0};
    bl_ask_request request = {0};
    cJSON *answer = NULL;
    bool told = false;
    bl_ask_path(&path, "/v2/models/", question->call->operands[0], "/generate");
    bl_text_puts(&body, "{\"text_input\": ");
    bl_encode_string(&body, bl_call_text(question->call, "text"));
    if (bl_call_has(question->call, "max-tokens"))
        bl_text_printf(&body, ", \"max_tokens\": %.0f", bl_call_number(question->call, "max-tokens", 0));
    bl_text_puts(&body, "}");
    request.path = bl_text_get(&path);
    request.body = (bl_span){bl_text_get(&body), body.len};
    bl_status st = bl_call_ask(question->call, &request, &told, err);
    if (st == BL_OK && !told)
        st = bl_ask_document(&question->call->ask, &answer, err);
    if (st == BL_OK && !told) {
        bl_text_put_words(&out, bl_answer_text(answer, "text_output"));
        bl_text_puts(&out, "\n");
        (void)bl_terminal_print(&out);
    }
    cJSON_Delete(answer);
    bl_text_fini(&path);
    bl_text_fini(&body);
    bl_text_fini(&out);
    return st;
}

static bl_status ask_tensors(bl_question *question, bl_err *err)
{
    bool saves = bl_call_has(question->call, "out"), told = false;
    BL_TRY(bl_question_fill(question, false, saves, err));
    bl_ask_request request = {.path = bl_text_get(&question->path),
                              .body = {question->body.data, question->body.len},
                              .media = question->media,
                              .header = question->length.len > 0 ? question->length.data : NULL,
                              .accept = saves ? NULL : "application/json"};
    BL_TRY(bl_call_ask(question->call, &request, &told, err));
    if (told)
        return BL_OK;
    return saves ? save_outputs(question->call, err) : print_outputs(&question->call->ask, err);
}

bl_status bl_command_infer(bl_call *call, bl_err *err)
{
    static bl_question question;
    bool picture = bl_call_has(call, "image"), text = bl_call_has(call, "text"), tensors = bl_call_has(call, "in");
    if (!picture && !text && !tensors)
        return bl_call_misuse(call, err, "the question is missing: --in NAME=VALUE, --image FILE or --text TEXT");
    if (picture && (text || tensors || bl_call_has(call, "out")))
        return bl_call_misuse(call, err, "--image excludes --in, --text and --out");
    if (bl_call_has(call, "out") && bl_call_has(call, "json"))
        return bl_call_misuse(call, err, "--out and --json exclude each other");
    bl_status st = bl_question_open(&question, call, err);
    if (st == BL_OK && picture)
        st = ask_picture(&question, err);
    else if (st == BL_OK && question.writes && text)
        st = ask_writer(&question, err);
    else if (st == BL_OK)
        st = ask_tensors(&question, err);
    bl_question_fini(&question);
    return st;
}
