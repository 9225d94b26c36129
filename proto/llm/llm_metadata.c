/* SPDX-License-Identifier: MIT */
/* Reads what the files have besides weights: the tokenizer, the chat template, the end tokens and the sampling parameters. */
#include "proto/llm/importer.h"

#include "proto/gguf/vocab.h"

#include <math.h>
#include <string.h>

/* Converts a number of the files to a token id; -1: out of range. */
static int64_t token_of(double number)
{
    return number >= 0 && number <= INT32_MAX ? (int64_t)number : -1;
}

void bl_llm_add_end(bl_llm_model *out, int64_t id)
{
    if (id < 0 || id > INT32_MAX || out->nends == BL_LLM_ENDS)
        return;
    for (int i = 0; i < out->nends; i++)
        if (out->ends[i] == id)
            return;
    out->ends[out->nends++] = (int32_t)id;
}

static const char *llm_metadata_copy_text(bl_llm_source *source, const char *key)
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
    out->name = llm_metadata_copy_text(source, "general.name");
    out->chat_template = llm_metadata_copy_text(source, "tokenizer.chat_template");
    if (bl_llm_number(source, "tokenizer.ggml.bos_token_id", 0, &id) && id >= 0 && id < INT32_MAX)
        out->bos = (int32_t)id;
    for (size_t i = 0; i < sizeof end_keys / sizeof end_keys[0]; i++)
        if (bl_llm_number(source, end_keys[i], 0, &id))
            bl_llm_add_end(out, token_of(id));
    out->sampling = (bl_llm_sampling){.temperature = read_sampling(source, "general.sampling.temp", NAN),
                                      .top_p = read_sampling(source, "general.sampling.top_p", NAN),
                                      .min_p = read_sampling(source, "general.sampling.min_p", NAN),
                                      .repeat_penalty = read_sampling(source, "general.sampling.penalty_repeat", NAN),
                                      .top_k = token_of(read_sampling(source, "general.sampling.top_k", -1))};
}

/* ---- a Hugging Face folder */

static bl_span find_data(const bl_llm_file *files, int nfiles, const char *name)
{
    const bl_llm_file *file = bl_llm_find_file(files, nfiles, name);
    return file != NULL ? file->data : (bl_span){0};
}

/* Reads a string, or the string member |name| of an object. */
static bool json_text(const bl_json *at, const char *name, bl_span *out)
{
    bl_json inner = *at;
    if (at->kind == BL_JSON_OBJECT && !bl_json_find(at, name, &inner))
        return false;
    *out = inner.text;
    return inner.kind == BL_JSON_STRING;
}

/* Reads the chat template; if the file has several, the one with the name "default". */
static void take_template(bl_arena *arena, const bl_json *config, bl_llm_model *out)
{
    bl_json templates, at;
    bl_span text, name;
    if (!bl_json_find(config, "chat_template", &templates))
        return;
    if (json_text(&templates, "template", &text)) {
        out->chat_template = bl_arena_strndup(arena, text.data, text.len);
        return;
    }
    bl_json_iter it = bl_json_each(&templates);
    while (templates.kind == BL_JSON_ARRAY && bl_json_next(&it, &at))
        if (json_text(&at, "name", &name) && bl_span_is(name, "default") && json_text(&at, "template", &text))
            out->chat_template = bl_arena_strndup(arena, text.data, text.len);
}

static int32_t find_token(const bl_llm_model *out, const bl_json *config, const char *name)
{
    bl_json at;
    bl_span text;
    return bl_json_find(config, name, &at) && json_text(&at, "content", &text) ? bl_tokenizer_find(out->tokenizer, text) : -1;
}

static void take_tokenizer_config(bl_arena *arena, const bl_json *config, bl_llm_model *out)
{
    int32_t bos = find_token(out, config, "bos_token");
    take_template(arena, config, out);
    bl_llm_add_end(out, find_token(out, config, "eos_token"));
    if (bos >= 0)
        out->bos = bos;
}

static double llm_metadata_take_number(const bl_json *config, const char *name, double preset)
{
    bl_json at;
    bl_wire_number number;
    bl_err ignored = {0};
    return bl_json_find(config, name, &at) && at.kind == BL_JSON_NUMBER && bl_json_number(&at, &number, &ignored) == BL_OK
               ? number.value
               : preset;
}

static void take_generation_config(bl_arena *arena, const bl_json *config, bl_llm_model *out)
{
    bl_json ends, at, samples;
    (void)arena;
    bl_llm_add_end(out, token_of(llm_metadata_take_number(config, "eos_token_id", -1)));
    if (bl_json_find(config, "eos_token_id", &ends) && ends.kind == BL_JSON_ARRAY) {
        bl_json_iter it = bl_json_each(&ends);
        int64_t id;
        bl_err ignored = {0};
        while (bl_json_next(&it, &at))
            if (bl_json_int(&at, 0, INT32_MAX, &id, &ignored) == BL_OK)
                bl_llm_add_end(out, id);
    }
    if (bl_json_find(config, "do_sample", &samples) && samples.kind == BL_JSON_BOOL && !samples.boolean)
        return;
    out->sampling = (bl_llm_sampling){.temperature = llm_metadata_take_number(config, "temperature", NAN),
                                      .top_p = llm_metadata_take_number(config, "top_p", NAN),
                                      .min_p = llm_metadata_take_number(config, "min_p", NAN),
                                      .repeat_penalty = llm_metadata_take_number(config, "repetition_penalty", NAN),
                                      .top_k = token_of(llm_metadata_take_number(config, "top_k", -1))};
}

static bl_status read_json(bl_arena *arena, const bl_llm_file *files, int nfiles, const char *name,
                           void (*take)(bl_arena *arena, const bl_json *config, bl_llm_model *out), bl_llm_model *out,
                           bl_err *err)
{
    bl_span data = find_data(files, nfiles, name);
    bl_json_limits limits = {0};
    bl_json_doc doc = {0};
    bl_err problem = {0};
    bl_status st = BL_OK;
    if (data.len == 0)
        return BL_OK;
    st = bl_json_parse(&doc, arena, data, &limits, &problem);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        take(arena, &root, out);
    }
    bl_json_fini(&doc);
    return st == BL_OK ? BL_OK : bl_fail(err, st, "%s: %s", name, problem.text);
}

static bl_status describe_hub(bl_arena *arena, const bl_llm_file *files, int nfiles, bl_llm_model *out, bl_err *err)
{
    bl_span tokenizer = find_data(files, nfiles, "tokenizer.json"), jinja = find_data(files, nfiles, "chat_template.jinja");
    bl_err problem = {0};
    out->sampling = (bl_llm_sampling){NAN, NAN, NAN, NAN, -1};
    if (tokenizer.len == 0)
        return bl_fail(err, BL_EINVAL,
                       "tokenizer.json is missing; transformers writes one with "
                       "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
    if (bl_tokenizer_read(tokenizer, &out->tokenizer, &problem) != BL_OK)
        return bl_fail(err, problem.status, "tokenizer.json: %s", problem.text);
    BL_TRY(read_json(arena, files, nfiles, "generation_config.json", take_generation_config, out, err));
    BL_TRY(read_json(arena, files, nfiles, "tokenizer_config.json", take_tokenizer_config, out, err));
    if (jinja.len > 0)
        out->chat_template = bl_arena_strndup(arena, jinja.data, jinja.len);
    return bl_arena_status(arena, err);
}

bl_status bl_llm_describe(bl_llm_source *source, const bl_llm_file *files, int nfiles, bl_llm_model *out, bl_err *err)
{
    if (source->gguf != NULL) {
        describe_gguf(source, out);
        BL_TRY(bl_gguf_tokenizer(source->gguf, &out->tokenizer, err));
    } else {
        BL_TRY(describe_hub(source->arena, files, nfiles, out, err));
    }
    if (out->bos < 0)
        out->bos = bl_tokenizer_marks(out->tokenizer)->bos;
    for (size_t id = 0; id < bl_tokenizer_size(out->tokenizer); id++)
        if (bl_tokenizer_is_end(out->tokenizer, (int32_t)id))
            bl_llm_add_end(out, (int64_t)id);
    return bl_arena_status(source->arena, err);
}
