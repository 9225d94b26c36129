/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is a language model: a GGUF file; or, if the first four bytes are a length, a config.json of this length
 * and a model.safetensors.  Runs the complete import and fills the values of the states. */
#include "proto/llm/llm.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fill_states(const bl_program_doc *doc)
{
    for (int i = 0; i < doc->nstates; i++) {
        bl_err err = {0};
        void *out = doc->values[i].bytes <= 1 << 20 ? malloc(doc->values[i].bytes + 1) : NULL;
        if (out != NULL && bl_tensor_scan(&doc->values[i], out, &err) != BL_OK)
            abort();
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char tokenizer[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    bl_llm_file files[3] = {{"model.gguf", {(const char *)data, size}}};
    bl_llm_options options = {.limits = {.max_nodes = 4000, .max_inputs = 100, .max_dims = 8, .max_tensor_bytes = 1 << 24},
                              .max_bytes = 64 << 20,
                              .max_seconds = 5};
    bl_arena *arena = bl_arena_create(64 << 20);
    bl_llm_model model;
    bl_err err = {0};
    uint32_t first = 0;
    int nfiles = 1;
    if (arena == NULL)
        return 0;
    if (size >= sizeof first)
        memcpy(&first, data, sizeof first);
    if (size >= sizeof first && first <= size - sizeof first) {
        nfiles = 3;
        files[0] = (bl_llm_file){"config.json", {(const char *)data + sizeof first, first}};
        files[1] = (bl_llm_file){"model.safetensors", {files[0].data.data + first, size - sizeof first - first}};
        files[2] = (bl_llm_file){"tokenizer.json", BL_S(tokenizer)};
    }
    if (bl_llm_import(arena, files, nfiles, &options, &model, &err) == BL_OK)
        fill_states(&model.program);
    bl_tokenizer_destroy(model.tokenizer);
    bl_arena_destroy(arena);
    return 0;
}
