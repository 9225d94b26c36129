/* SPDX-License-Identifier: MIT */
#include "server/programs/program_onnx.h"

#include "server/ops/server.h"
#include "server/programs/variants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Read a whole number that is followed by |stop|. */
static bool read_bound(const char *text, char stop, int64_t *out, const char **end)
{
    char *after;

    errno = 0;
    *out = strtoll(text, &after, 10);
    *end = after;
    return errno == 0 && *text >= '0' && *text <= '9' && *after == stop;
}

/* Read "1-64", "32-1280:32" or "8". */
static bool program_onnx_read_sizes(const char *text, bl_wire_var *out)
{
    const char *at = text;

    out->step = 1;
    if (read_bound(text, '\0', &out->lo, &at)) {
        out->hi = out->lo;
        return true;
    }
    if (!read_bound(text, '-', &out->lo, &at))
        return false;
    text = at + 1;
    if (read_bound(text, ':', &out->hi, &at))
        return read_bound(at + 1, '\0', &out->step, &at);
    return read_bound(text, '\0', &out->hi, &at);
}

/* Split |text|, NAME:SIZES.  A name may contain colons: the sizes follow the first colon behind which sizes can be read. */
static bool program_onnx_read_range(char *text, bl_wire_var *out)
{
    for (char *colon = strchr(text, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
        if (program_onnx_read_sizes(colon + 1, out)) {
            *colon = '\0';
            out->name = text;
            return out->step > 0;
        }
    }
    return false;
}

/* Read "batch:1-64,height:32-1280:32,n:8". */
static bl_status program_onnx_read_ranges(bl_request *rq, const char *text, bl_onnx_range **ranges, int *count)
{
    *ranges = bl_arena_array(rq->arena, BL_WIRE_MAX_DIMS, sizeof **ranges);
    if (*ranges == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (*count = 0; text != NULL && *text != '\0'; ++*count) {
        size_t len = strcspn(text, ",");
        char *one = bl_arena_strndup(rq->arena, text, len);
        if (one == NULL || *count == BL_WIRE_MAX_DIMS)
            return bl_fail(&rq->err, BL_ELIMIT, "dims: more than %d named dimensions", BL_WIRE_MAX_DIMS);
        bl_wire_var *var = &(*ranges)[*count].var;
        if (!program_onnx_read_range(one, var))
            return bl_fail(&rq->err, BL_EINVAL, "dims: \"%.*s\" is not NAME:LEAST-MOST, NAME:LEAST-MOST:STEP or NAME:SIZE",
                           (int)(len < 80 ? len : 80), text);
        if (!bl_wire_var_round(var))
            return bl_fail(&rq->err, BL_EINVAL, "dims: \"%.*s\" has no size in its range", (int)(len < 80 ? len : 80), text);
        text += len + (text[len] == ',');
    }
    return BL_OK;
}

bl_status bl_program_import_file(bl_request *rq, bl_program *program, bl_span file, const bl_onnx_options *options,
                                 bl_onnx_model *out)
{
    bl_status st = bl_onnx_import(file, options, program->arena, out, &rq->err);
    bl_onnx_model *outline = NULL;

    if (st != BL_OK && out->wanted != NULL) {
        rq->err = (bl_err){0};
        outline = bl_arena_alloc(rq->arena, sizeof *outline);
        if (outline == NULL)
            return bl_arena_status(rq->arena, &rq->err);
        bl_onnx_options found = *options;
        found.ranges = out->ranges;
        found.nranges = out->nranges;
        BL_TRY(bl_variants_create(rq, program, file, &found, out->wanted, outline));
        *out = *outline;
        return BL_OK;
    }
    program->doc = out->program;
    return st;
}

/* Only hosted models read and write strings; programs have tensors only. */
static bl_status refuse_strings(bl_request *rq, const bl_onnx_port *ports, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        if (ports[i].coding == BL_ONNX_STRINGS)
            return bl_fail(
                &rq->err, BL_EGRAPH,
                "%s \"%s\" is of strings, which a program cannot have; host the model instead, in the folder of --models "
                "or with POST /v2/repository/models/NAME/load",
                what, ports[i].name);
    return BL_OK;
}

bl_status bl_program_import(bl_request *rq, bl_program *program)
{
    const bl_settings *settings = &rq->server->settings;
    bl_onnx_options options = {
        .limits = rq->server->limits, .max_bytes = settings->max_compile, .max_seconds = settings->max_compile_seconds};
    bl_onnx_model *model = bl_arena_alloc(rq->arena, sizeof *model);
    bl_onnx_range *ranges = NULL;

    if (model == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(program_onnx_read_ranges(rq, bl_request_query(rq, "dims"), &ranges, &options.nranges));
    options.ranges = ranges;
    BL_TRY(bl_program_import_file(rq, program, bl_request_body(rq), &options, model));
    const bl_wire_graph *graph = &model->program.entries[0].graph;
    BL_TRY(refuse_strings(rq, model->inputs, graph->ninputs, "input"));
    BL_TRY(refuse_strings(rq, model->outputs, bl_wire_shown(graph), "output"));
    program->doc.options.device = bl_request_query(rq, "device");
    return BL_OK;
}
