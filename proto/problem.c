/* SPDX-License-Identifier: MIT */
#include "proto/problem.h"
#include "proto/encode.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void bl_problem_write(bl_text *out, const bl_err *err, const uint64_t *step)
{
    char type[64], detail[sizeof err->text + sizeof err->node + 16];
    int n = snprintf(type, sizeof type, "urn:beamline:error:%s", bl_status_name(err->status));

    for (int i = 0; i < n && i < (int)sizeof type; i++)
        type[i] = (char)tolower((unsigned char)type[i]);
    bl_err_describe(err, detail, sizeof detail);
    bl_text_putc(out, '{');
    bl_encode_key(out, "type");
    bl_encode_string(out, type);
    bl_encode_key(out, "title");
    bl_encode_string(out, bl_status_title(err->status));
    bl_encode_key(out, "status");
    bl_encode_u64(out, (uint64_t)bl_status_http(err->status));
    bl_encode_key(out, "detail");
    bl_encode_string(out, detail);
    if (err->node[0] != '\0') {
        bl_encode_key(out, "node");
        bl_encode_string(out, err->node);
    }
    if (step != NULL) {
        bl_encode_key(out, "step");
        bl_encode_u64(out, *step);
    }
    bl_text_putc(out, '}');
}

int bl_problem_status_openai(bl_status status)
{
    int code = bl_status_http(status);
    return code == 422 || code == 409 || code == 412 ? 400 : code;
}

/* OpenAI's error type, and its code if it has one. */
static const char *problem_type_of(int http, const char **code)
{
    static const struct {
        int http;
        const char *type, *code;
    } types[] = {{401, "authentication_error", "invalid_api_key"},
                 {403, "permission_error", NULL},
                 {404, "not_found_error", "model_not_found"},
                 {405, "invalid_request_error", NULL},
                 {429, "rate_limit_error", "rate_limit_exceeded"},
                 {501, "not_supported_error", NULL},
                 {503, "unavailable_error", NULL}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].http == http) {
            *code = types[i].code;
            return types[i].type;
        }
    *code = NULL;
    return http < 500 ? "invalid_request_error" : "server_error";
}

void bl_problem_write_openai(bl_text *out, const bl_err *err, const char *type, const char *members)
{
    const char *code = NULL, *usual = problem_type_of(bl_problem_status_openai(err->status), &code);
    char detail[sizeof err->text + sizeof err->node + 16];
    bl_err_describe(err, detail, sizeof detail);
    bl_text_puts(out, "{\"error\":{\"message\":");
    bl_encode_string(out, detail);
    bl_encode_key(out, "type");
    bl_encode_string(out, type != NULL ? type : usual);
    bl_text_puts(out, ",\"param\":null,\"code\":");
    if (code != NULL && (type == NULL || strcmp(type, usual) == 0))
        bl_encode_string(out, code);
    else
        bl_text_puts(out, "null");
    bl_text_puts(out, members != NULL ? members : "");
    bl_text_puts(out, "}}");
}
