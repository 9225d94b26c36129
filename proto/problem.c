/* SPDX-License-Identifier: MIT */
#include "proto/problem.h"
#include "proto/encode.h"

#include <ctype.h>
#include <stdio.h>

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
