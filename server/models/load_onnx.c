/* SPDX-License-Identifier: MIT */
/* ONNX models from their files: the program, and the descriptions of inputs and outputs that a program does not have. */
#include "server/models/models_internal.h"

#include "server/programs/program_onnx.h"

static const bl_onnx_port *copy_ports(bl_arena *arena, const bl_onnx_port *from, int count)
{
    bl_onnx_port *copy = bl_arena_array(arena, (size_t)count + 1, sizeof *copy);
    for (int i = 0; copy != NULL && i < count; i++) {
        copy[i] = (bl_onnx_port){.name = bl_arena_strdup(arena, from[i].name), .coding = from[i].coding};
        copy[i].keys = bl_arena_array(arena, (size_t)from[i].nkeys + 1, sizeof *copy[i].keys);
        for (int k = 0; copy[i].keys != NULL && k < from[i].nkeys; k++)
            copy[i].keys[copy[i].nkeys++] = bl_arena_strdup(arena, from[i].keys[k]);
    }
    return copy;
}

/* Copy the strings in the order of their indices. */
static bl_status copy_texts(bl_arena *arena, const bl_texts *from, bl_texts *to, bl_err *err)
{
    for (int i = to->count; i < from->count; i++) {
        const bl_span *text = &from->text[i];
        char *kept = bl_arena_strndup(arena, text->data, text->len);
        if (kept == NULL || bl_texts_add(to, arena, (bl_span){kept, text->len}) < 0)
            return bl_fail(err, BL_ENOMEM, "out of host memory for the strings of a model");
    }
    return BL_OK;
}

bl_status bl_model_import_onnx(bl_request *rq, bl_program *program, bl_model_version *version, bl_span file, bl_mapped *mapped)
{
    const bl_settings *set = &rq->server->settings;
    bl_onnx_model *model = bl_arena_alloc(rq->arena, sizeof *model);
    bl_onnx_options options = {.limits = rq->server->limits,
                               .files = mapped,
                               .ranges = version->onnx.ranges != NULL ? version->onnx.ranges : version->config.dims,
                               .nranges = version->onnx.ranges != NULL ? version->onnx.nranges : version->config.ndims,
                               .batch = version->config.max_batch_size,
                               .max_bytes = set->max_compile,
                               .max_seconds = set->max_compile_seconds};
    const bl_wire_graph *graph = NULL;
    if (mapped != NULL)
        options.folder =
            bl_arena_printf(rq->arena, "%s/%s/%llu", set->models, version->name, (unsigned long long)version->number);
    BL_TRY(bl_arena_status(rq->arena, &rq->err));
    BL_TRY(bl_program_import_file(rq, program, file, &options, model));
    BL_TRY(bl_model_keep_ranges(version, model, &rq->err));
    graph = &model->program.entries[0].graph;
    version->onnx.inputs = copy_ports(version->arena, model->inputs, graph->ninputs);
    version->onnx.outputs = copy_ports(version->arena, model->outputs, bl_wire_shown(graph));
    BL_TRY(copy_texts(version->arena, &model->texts, &version->onnx.texts, &rq->err));
    return bl_arena_status(version->arena, &rq->err);
}
