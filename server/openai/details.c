/* SPDX-License-Identifier: MIT */
#include "server/openai/openai.h"

#include "proto/encode.h"
#include "proto/number.h"
#include "proto/utf8.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- tokens and their probabilities */

static bl_span cut_to_characters(bl_span text)
{
    size_t at = 0, n = 0;
    while (at < text.len && (n = bl_utf8_length(text.data + at, text.len - at)) > 0)
        at += n;
    return (bl_span){text.data, at};
}

bl_span bl_openai_token_text(const bl_generation *g, const bl_text_token *token)
{
    return cut_to_characters(bl_tokenizer_bytes(g->text->tokenizer, token->id, token->first));
}

size_t bl_openai_count_told(const bl_generation *g)
{
    size_t n = g->answer.ntold;
    while (n < g->answer.ntokens && (g->answer.tokens[n].at < g->answer.taken || g->answer.pending.len == 0))
        n++;
    return n;
}

void bl_openai_put_float(bl_text *out, float value)
{
    char *to = bl_text_reserve(out, BL_NUMBER_CHARS);
    if (to == NULL)
        return;
    value = isnan(value) ? 0 : value;
    value = isinf(value) ? copysignf(FLT_MAX, value) : value;
    out->len += bl_print_f32(to, value);
    out->data[out->len] = '\0';
}

static void details_put_number(const bl_generation *g, float value, bl_text *out)
{
    bl_encode_key(out, g->options->post_sampling ? "prob" : "logprob");
    bl_openai_put_float(out, value);
}

static void put_token(const bl_generation *g, int32_t id, bl_span text, float value, bl_text *out)
{
    bl_text_printf(out, "{\"id\":%d,\"token\":", (int)id);
    bl_encode_span(out, cut_to_characters(text));
    bl_encode_key(out, "bytes");
    bl_text_putc(out, '[');
    for (size_t i = 0; i < text.len; i++)
        bl_text_printf(out, "%s%d", i > 0 ? "," : "", (unsigned char)text.data[i]);
    bl_text_putc(out, ']');
    details_put_number(g, value, out);
}

void bl_openai_put_chances(const bl_generation *g, size_t from, size_t to, bl_text *out)
{
    bl_text_putc(out, '[');
    for (size_t k = from; k < to; k++) {
        const bl_text_token *token = &g->answer.tokens[k];
        bl_text_puts(out, k > from ? "," : "");
        put_token(g, token->id, bl_tokenizer_bytes(g->text->tokenizer, token->id, token->first), token->known ? token->chance : 0,
                  out);
        bl_encode_key(out, g->options->post_sampling ? "top_probs" : "top_logprobs");
        bl_text_putc(out, '[');
        for (size_t i = 0; i < token->ntop; i++) {
            const bl_token_chance *top = &g->answer.top[token->top + i];
            bl_text_puts(out, i > 0 ? "," : "");
            put_token(g, top->id, bl_tokenizer_piece(g->text->tokenizer, top->id), top->value, out);
            bl_text_putc(out, '}');
        }
        bl_text_puts(out, "]}");
    }
    bl_text_putc(out, ']');
}

/* ---- settings */

static void details_put_float(bl_text *out, const char *name, float value)
{
    bl_encode_key(out, name);
    bl_openai_put_float(out, value);
}

static void put_int(bl_text *out, const char *name, int64_t value)
{
    bl_encode_key(out, name);
    bl_text_printf(out, "%lld", (long long)value);
}

static void put_bool(bl_text *out, const char *name, bool value)
{
    bl_encode_key(out, name);
    bl_text_puts(out, value ? "true" : "false");
}

static void put_sampling(const bl_sampling *s, bl_text *out)
{
    put_int(out, "seed", s->seed == BL_SEED_RANDOM ? (int64_t)UINT32_MAX : s->seed);
    details_put_float(out, "temperature", s->temperature);
    details_put_float(out, "dynatemp_range", s->dynatemp_range);
    details_put_float(out, "dynatemp_exponent", s->dynatemp_exponent);
    put_int(out, "top_k", s->top_k);
    details_put_float(out, "top_p", s->top_p);
    details_put_float(out, "min_p", s->min_p);
    details_put_float(out, "top_n_sigma", s->top_n_sigma);
    details_put_float(out, "xtc_probability", s->xtc_probability);
    details_put_float(out, "xtc_threshold", s->xtc_threshold);
    details_put_float(out, "typical_p", s->typical_p);
    put_int(out, "repeat_last_n", s->repeat_last_n);
    details_put_float(out, "repeat_penalty", s->repeat_penalty);
    details_put_float(out, "presence_penalty", s->presence_penalty);
    details_put_float(out, "frequency_penalty", s->frequency_penalty);
    details_put_float(out, "dry_multiplier", s->dry_multiplier);
    details_put_float(out, "dry_base", s->dry_base);
    put_int(out, "dry_allowed_length", s->dry_allowed_length);
    put_int(out, "dry_penalty_last_n", s->dry_last_n);
    put_int(out, "mirostat", s->mirostat);
    details_put_float(out, "mirostat_tau", s->mirostat_tau);
    details_put_float(out, "mirostat_eta", s->mirostat_eta);
    details_put_float(out, "adaptive_target", -1);
    details_put_float(out, "adaptive_decay", 0.9F);
    put_int(out, "min_keep", s->min_keep);
}

/* JSON has no infinity, so a bias of -infinity is null. */
static void put_biases(const bl_sampling *s, bl_text *out)
{
    bl_encode_key(out, "logit_bias");
    bl_text_putc(out, '[');
    for (size_t i = 0; i < s->nbias; i++) {
        bl_text_printf(out, "%s{\"bias\":", i > 0 ? "," : "");
        if (isinf(s->bias[i].bias))
            bl_text_puts(out, "null");
        else
            bl_openai_put_float(out, s->bias[i].bias);
        put_int(out, "token", s->bias[i].id);
        bl_text_putc(out, '}');
    }
    bl_text_putc(out, ']');
}

void bl_llama_put_settings(const bl_text_model *text, const bl_text_options *o, bl_text *out)
{
    (void)text;
    bl_text_putc(out, '{');
    put_sampling(&o->sampling, out);
    put_biases(&o->sampling, out);
    put_int(out, "max_tokens", o->max_tokens);
    put_int(out, "n_predict", o->max_tokens);
    put_bool(out, "ignore_eos", o->goes_on);
    put_bool(out, "cache_prompt", o->cache_prompt);
    put_bool(out, "stream", o->stream);
    put_int(out, "n_probs", o->logprobs > 0 ? o->logprobs : 0);
    put_bool(out, "timings_per_token", o->timings);
    put_bool(out, "post_sampling_probs", o->post_sampling);
    bl_encode_key(out, "stop");
    bl_text_putc(out, '[');
    for (int i = 0; i < o->nstops; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_span(out, o->stops[i]);
    }
    bl_text_putc(out, ']');
    bl_encode_key(out, "samplers");
    bl_text_putc(out, '[');
    for (int i = 0; i < o->sampling.nsteps; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_string(out, bl_sampler_step_name((bl_sampler_step)o->sampling.steps[i]));
    }
    bl_text_puts(out, "]}");
}

/* ---- times */

static void put_rate(bl_text *out, const char *what, size_t count, int64_t ns)
{
    double ms = (double)ns * 1e-6, n = (double)count;
    bl_text_printf(out, ",\"%s_n\":%zu,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.4f,\"%s_per_second\":%.3f", what, count, what, ms,
                   what, count > 0 ? ms / n : 0, what, ms > 0 ? n * 1e3 / ms : 0);
}

/* The timings of the text |g|; NULL: of all texts. */
void bl_llama_put_timings(const bl_completion *c, const bl_generation *g, bl_text *out)
{
    size_t cached = 0, prompt = 0, written = 0;
    int64_t prompt_ns = 0, written_ns = 0, proposed = 0, accepted = 0;
    for (int i = 0; i < c->ntexts; i++) {
        const bl_generation *one = c->texts[i];
        if (g != NULL && g != one)
            continue;
        cached += one->reused;
        prompt += one->prompt - one->reused;
        written += one->tokens.count - one->prompt;
        prompt_ns += one->prompt_ns;
        written_ns += one->compute_ns - one->prompt_ns;
        proposed += one->draft.proposed;
        accepted += one->draft.accepted;
    }
    bl_encode_key(out, "timings");
    bl_text_printf(out, "{\"cache_n\":%zu", cached);
    put_rate(out, "prompt", prompt, prompt_ns);
    put_rate(out, "predicted", written, written_ns);
    if (proposed > 0)
        bl_text_printf(out, ",\"draft_n\":%lld,\"draft_n_accepted\":%lld", (long long)proposed, (long long)accepted);
    bl_text_putc(out, '}');
}

/* ---- a finished text in llama.cpp's form */

static void put_prompt(const bl_generation *g, bl_text *out)
{
    bl_text text = {.budget = g->answer.pending.budget};
    for (size_t i = 0; i < g->prompt; i++) {
        bl_span piece = bl_tokenizer_piece(g->text->tokenizer, g->tokens.id[i]);
        bl_text_append(&text, piece.data, piece.len);
    }
    bl_encode_span(out, (bl_span){bl_text_get(&text), text.len});
    bl_text_fini(&text);
}

static void details_put_ids(const bl_generation *g, bl_text *out)
{
    bl_text_putc(out, '[');
    for (size_t i = g->prompt; i < g->tokens.count && g->options->return_tokens && !g->completion->streams; i++)
        bl_text_printf(out, "%s%d", i > g->prompt ? "," : "", (int)g->tokens.id[i]);
    bl_text_putc(out, ']');
}

static const char *describe_stop(const bl_generation *g)
{
    if (g->answer.finish == NULL)
        return "none";
    if (strcmp(g->answer.finish, "length") == 0)
        return "limit";
    return g->answer.stopped_by != NULL ? "word" : "eos";
}

/* Did the context length end the text, and not a limit of the request? */
static bool is_truncated(const bl_generation *g)
{
    bool asked = g->options->max_tokens >= 0 && (int64_t)g->prompt + g->options->max_tokens <= g->text->context;
    return !asked && g->answer.finish != NULL && strcmp(g->answer.finish, "length") == 0;
}

typedef enum llama_field {
    FIELD_INDEX,
    FIELD_CONTENT,
    FIELD_TOKENS,
    FIELD_ID_SLOT,
    FIELD_STOP,
    FIELD_MODEL,
    FIELD_TOKENS_PREDICTED,
    FIELD_TOKENS_EVALUATED,
    FIELD_SETTINGS,
    FIELD_PROMPT,
    FIELD_NEW_LINE,
    FIELD_TRUNCATED,
    FIELD_STOP_TYPE,
    FIELD_STOPPING_WORD,
    FIELD_TOKENS_CACHED,
    FIELD_TIMINGS,
    FIELD_CHANCES,
    FIELDS
} llama_field;

static const char *const field_names[FIELDS] = {"index",
                                                "content",
                                                "tokens",
                                                "id_slot",
                                                "stop",
                                                "model",
                                                "tokens_predicted",
                                                "tokens_evaluated",
                                                "generation_settings",
                                                "prompt",
                                                "has_new_line",
                                                "truncated",
                                                "stop_type",
                                                "stopping_word",
                                                "tokens_cached",
                                                "timings",
                                                "completion_probabilities"};

static void details_put_field(const bl_generation *g, llama_field field, bl_text *out)
{
    const bl_completion *c = g->completion;
    bool streams = c->streams;
    if (field == FIELD_TIMINGS) {
        bl_llama_put_timings(c, g, out);
        return;
    }
    if (field == FIELD_CHANCES && (streams || g->options->logprobs < 0))
        return;
    bl_encode_key(out, field_names[field]);
    switch (field) {
    case FIELD_INDEX:
        bl_text_printf(out, "%d", g->index);
        break;
    case FIELD_CONTENT:
        bl_encode_span(out, streams ? BL_S("") : (bl_span){bl_text_get(&g->answer.written), g->answer.written.len});
        break;
    case FIELD_TOKENS:
        details_put_ids(g, out);
        break;
    case FIELD_ID_SLOT:
        bl_text_puts(out, "0");
        break;
    case FIELD_STOP:
        bl_text_puts(out, "true");
        break;
    case FIELD_MODEL:
        bl_encode_string(out, c->version->name);
        break;
    case FIELD_TOKENS_PREDICTED:
        bl_text_printf(out, "%zu", g->tokens.count - g->prompt);
        break;
    case FIELD_TOKENS_EVALUATED:
        bl_text_printf(out, "%zu", g->prompt);
        break;
    case FIELD_SETTINGS:
        bl_llama_put_settings(g->text, g->options, out);
        break;
    case FIELD_PROMPT:
        put_prompt(g, out);
        break;
    case FIELD_NEW_LINE:
        bl_text_puts(out, g->answer.new_line ? "true" : "false");
        break;
    case FIELD_TRUNCATED:
        bl_text_puts(out, is_truncated(g) ? "true" : "false");
        break;
    case FIELD_STOP_TYPE:
        bl_encode_string(out, describe_stop(g));
        break;
    case FIELD_STOPPING_WORD:
        bl_encode_string(out, g->answer.stopped_by != NULL ? g->answer.stopped_by : "");
        break;
    case FIELD_TOKENS_CACHED:
        bl_text_printf(out, "%zu", g->fed);
        break;
    case FIELD_CHANCES:
        bl_openai_put_chances(g, 0, bl_openai_count_told(g), out);
        break;
    case FIELD_TIMINGS:
    case FIELDS:
        break;
    }
}

/* Print the value at a path of llama.cpp's response_fields, such as "generation_settings/n_predict", with the whole path as
 * its key. */
static void details_put_path(const bl_generation *g, const char *path, bl_text *out)
{
    size_t len = strcspn(path, "/");
    for (int i = 0; i < FIELDS; i++) {
        bl_text text = {.budget = out->budget};
        bl_json_doc doc = {0};
        bl_arena *arena = NULL;
        bl_json at;
        bl_err ignored = {0};
        if (strlen(field_names[i]) != len || memcmp(field_names[i], path, len) != 0)
            continue;
        if (path[len] == '\0') {
            details_put_field(g, (llama_field)i, out);
            return;
        }
        arena = bl_arena_create(0);
        bl_text_putc(&text, '{');
        details_put_field(g, (llama_field)i, &text);
        bl_text_putc(&text, '}');
        if (arena != NULL && !text.failed &&
            bl_json_parse(&doc, arena, (bl_span){bl_text_get(&text), text.len}, &(bl_json_limits){0}, &ignored) == BL_OK) {
            bl_json root = bl_json_root(&doc), within;
            if (bl_json_find(&root, field_names[i], &within) && bl_json_find(&within, path + len + 1, &at) &&
                (at.kind == BL_JSON_NUMBER || at.kind == BL_JSON_STRING || at.kind == BL_JSON_BOOL)) {
                bl_encode_key(out, path);
                if (at.kind == BL_JSON_BOOL)
                    bl_text_puts(out, at.boolean ? "true" : "false");
                else if (at.kind == BL_JSON_NUMBER)
                    bl_text_append(out, at.text.data, at.text.len);
                else
                    bl_encode_span(out, at.text);
            }
        }
        bl_json_fini(&doc);
        bl_arena_destroy(arena);
        bl_text_fini(&text);
        return;
    }
}

void bl_llama_put_text(const bl_generation *g, bl_text *out)
{
    bl_text_putc(out, '{');
    for (int i = 0; i < g->options->nfields; i++)
        details_put_path(g, g->options->fields[i], out);
    for (int i = 0; i < FIELDS && g->options->nfields == 0; i++)
        details_put_field(g, (llama_field)i, out);
    bl_text_putc(out, '}');
}
