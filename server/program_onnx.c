/* SPDX-License-Identifier: MIT */
#include "server/program_onnx.h"

#include "proto/onnx/onnx.h"
#include "server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A whole number up to |stop|. */
static bool read_bound(const char *text, char stop, int64_t *out, const char **end)
{
    char *after;

    errno = 0;
    *out = strtoll(text, &after, 10);
    *end = after;
    return errno == 0 && *text >= '0' && *text <= '9' && *after == stop;
}

/* "batch:1-64,length:1-512" */
static bl_status read_ranges(bl_request *rq, const char *text, bl_wire_var **ranges, int *count)
{
    *ranges = bl_arena_array(rq->arena, BL_WIRE_MAX_DIMS, sizeof **ranges);
    if (*ranges == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (*count = 0; text != NULL && *text != '\0'; ++*count) {
        bl_wire_var range = {0};
        size_t len = strcspn(text, ",");
        const char *one = bl_arena_strndup(rq->arena, text, len), *at = NULL;
        char *colon = one != NULL ? strrchr(one, ':') : NULL; /* names may have them too */
        if (one == NULL || *count == BL_WIRE_MAX_DIMS)
            return bl_fail(&rq->err, BL_ELIMIT, "dims: more than %d named dimensions", BL_WIRE_MAX_DIMS);
        if (colon == NULL || !read_bound(colon + 1, '-', &range.lo, &at) || !read_bound(at + 1, '\0', &range.hi, &at) ||
            range.lo > range.hi)
            return bl_fail(&rq->err, BL_EINVAL, "dims: \"%.80s\" is not NAME:SMALLEST-LARGEST", one);
        *colon = '\0';
        range.name = one;
        (*ranges)[*count] = range;
        text += len + (text[len] == ',');
    }
    return BL_OK;
}

static void end_model(void *model)
{
    bl_onnx_fini(model);
}

bl_status bl_program_import(bl_request *rq, bl_program *program)
{
    const bl_settings *settings = &rq->server->settings;
    bl_onnx_options options = {
        .limits = rq->server->limits, .max_bytes = settings->max_compile, .max_seconds = settings->max_compile_seconds};
    bl_onnx_model *model = bl_arena_alloc(rq->arena, sizeof *model);
    bl_wire_var *ranges = NULL;

    if (model == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(read_ranges(rq, bl_request_query(rq, "dims"), &ranges, &options.nranges));
    options.ranges = ranges;
    bl_status st = bl_onnx_import(bl_request_body(rq), &options, program->arena, model, &rq->err);
    BL_TRY(bl_request_defer(rq, end_model, model));
    BL_TRY(st);
    program->doc = model->program;
    program->doc.options.device = bl_request_query(rq, "device");
    return BL_OK;
}
