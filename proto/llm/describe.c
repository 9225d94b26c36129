/* SPDX-License-Identifier: MIT */
/* What the files say besides weights: the tokenizer, the chat template, tokens that end a text, how to sample. */
#include "proto/llm/importer.h"

#include "proto/gguf/vocab.h"

#include <math.h>
#include <string.h>

void bl_llm_add_end(bl_llm_model *out, int64_t id)
{
    if (id < 0 || id > INT32_MAX || out->nends == BL_LLM_ENDS)
        return;
    for (int i = 0; i < out->nends; i++)
        if (out->ends[i] == id)
            return;
    out->ends[out->nends++] = (int32_t)id;
}

static const char *copy_text(bl_llm_source *source, const char *key)
{
    bl_span text;
    return bl_llm_text(source, key, &text) && text.len > 0 ? bl_arena_strndup(source->arena, text.data, text.len) : NULL;
}

static double read_sampling(bl_llm_source *source, const char *key, double preset)
{
    double value = preset;
    return bl_llm_number(source, key, 0, &value) ? value : preset;
}

static void describe_gguf(bl_llm_source *source, bl_llm_model *out)
{
    static const char *const end_keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};
    double id;
    out->name = copy_text(source, "general.name");
    out->chat_template = copy_text(source, "tokenizer.chat_template");
    if (bl_llm_number(source, "tokenizer.ggml.bos_token_id", 0, &id) && id >= 0 && id < INT32_MAX)
        out->bos = (int32_t)id;
    for (size_t i = 0; i < sizeof end_keys / sizeof end_keys[0]; i++)
        if (bl_llm_number(source, end_keys[i], 0, &id))
            bl_llm_add_end(out, (int64_t)id);
    out->sampling = (bl_llm_sampling){.temperature = read_sampling(source, "general.sampling.temp", NAN),
                                      .top_p = read_sampling(source, "general.sampling.top_p", NAN),
                                      .min_p = read_sampling(source, "general.sampling.min_p", NAN),
                                      .repeat_penalty = read_sampling(source, "general.sampling.penalty_repeat", NAN),
                                      .top_k = (int64_t)read_sampling(source, "general.sampling.top_k", -1)};
}

bl_status bl_llm_describe(bl_llm_source *source, const bl_llm_file *files, int nfiles, bl_llm_model *out, bl_err *err)
{
    if (source->gguf != NULL) {
        describe_gguf(source, out);
        BL_TRY(bl_gguf_tokenizer(source->gguf, &out->tokenizer, err));
    } else {
        BL_TRY(bl_hub_describe(source->arena, files, nfiles, out, err));
    }
    if (out->bos < 0)
        out->bos = bl_tokenizer_marks(out->tokenizer)->bos;
    for (size_t id = 0; id < bl_tokenizer_size(out->tokenizer); id++)
        if (bl_tokenizer_is_end(out->tokenizer, (int32_t)id))
            bl_llm_add_end(out, (int64_t)id);
    return bl_arena_status(source->arena, err);
}
