/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is the body of a run and of a program; decodes both down to the typed elements. */
#include "proto/decode.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void scan_values(const bl_run_request *run, bl_err *err)
{
    for (int i = 0; i < run->graph.ninputs; i++) {
        void *out = malloc(run->values[i].bytes + 1);
        if (out != NULL && bl_tensor_scan(&run->values[i], out, err) != BL_OK)
            *err = (bl_err){0};
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bl_arena *arena = bl_arena_create(64 << 20);
    bl_decode_env env = {.arena = arena,
                         .limits = {.max_nodes = 1000, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = 1 << 20}};
    bl_json_doc doc;
    bl_err err = {0};

    if (arena == NULL)
        return 0;
    if (bl_json_parse(&doc, arena, (bl_span){(const char *)data, size}, NULL, &err) == BL_OK) {
        bl_json root = bl_json_root(&doc);
        bl_run_request run;
        bl_program_doc program;
        bl_wire_key key;
        if (bl_decode_run(&env, &root, &run, &err) == BL_OK) {
            scan_values(&run, &err);
            if (bl_wire_make_key(arena, &run.graph, "", &key, &err) != BL_OK)
                err = (bl_err){0};
        }
        err = (bl_err){0};
        if (bl_decode_program(&env, &root, &program, &err) != BL_OK)
            err = (bl_err){0};
    }
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return 0;
}
