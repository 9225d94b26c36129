/* SPDX-License-Identifier: MIT */
/* The options of a request to a text model.  One table has the members of all APIs. */
#include "server/models/text_model.h"

#include "engine/base/near.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    V2_TOKENS = 16, /* the default of vLLM */
    MOST_STOP_BYTES = 256,
    MOST_BIASES = 4096,
    MOST_FIELDS = 64,
    MOST_BREAKERS = 16,
    MOST_BREAKER_BYTES = 40, /* limits of llama.cpp, like MOST_TAIL and MOST_CHANCES */
    MOST_TAIL = 20,
    MOST_CHANCES = 100
};

typedef bl_text_reading reading;

void bl_text_options_init(bl_text_options *o, bl_text_api api)
{
    *o = (bl_text_options){.max_tokens = api == BL_TEXT_API_V2 ? V2_TOKENS : -1,
                           .n = 1,
                           .logprobs = -1,
                           .draft_max = -1,
                           .draft_min = -1,
                           .cache_prompt = true};
    if (api == BL_TEXT_API_V2)
        bl_sampling_init_greedy(&o->sampling);
    else
        bl_sampling_init_usual(&o->sampling);
}

/* ---- kinds of members; |to| is the destination */

/* A number outside its range is an error in /v2.  In /v1 it is clamped to the range, as in llama.cpp. */
static bl_status take_float(reading *r, const bl_json *at, double lo, double hi, float *to)
{
    bl_wire_number number;
    BL_TRY(bl_json_number(at, &number, r->err));
    if (r->api == BL_TEXT_API_V1 && number.value < lo)
        number.value = lo;
    if (r->api == BL_TEXT_API_V1 && number.value > hi)
        number.value = hi;
    *to = (float)number.value;
    if (number.value >= lo && number.value <= hi)
        return BL_OK;
    return bl_json_fail(at, r->err, BL_EINVAL, "must be a number from %g to %g", lo, hi);
}

static bl_status take_int(reading *r, const bl_json *at, int64_t lo, int64_t hi, int *to)
{
    int64_t value = 0;
    BL_TRY(bl_json_int(at, lo, hi, &value, r->err));
    *to = (int)value;
    return BL_OK;
}

#define TAKES_FLOAT(name, lo, hi, to)                                                                                            \
    static bl_status take_##name(reading *r, const bl_json *at)                                                                  \
    {                                                                                                                            \
        return take_float(r, at, lo, hi, &r->out->to);                                                                           \
    }
#define TAKES_INT(name, lo, hi, to)                                                                                              \
    static bl_status take_##name(reading *r, const bl_json *at)                                                                  \
    {                                                                                                                            \
        return take_int(r, at, lo, hi, &r->out->to);                                                                             \
    }
#define TAKES_BOOL(name, to)                                                                                                     \
    static bl_status take_##name(reading *r, const bl_json *at)                                                                  \
    {                                                                                                                            \
        return bl_json_bool(at, &r->out->to, r->err);                                                                            \
    }
TAKES_FLOAT(temperature, 0, 1e6, sampling.temperature)
TAKES_FLOAT(top_p, 0, 1, sampling.top_p)
TAKES_FLOAT(min_p, 0, 1, sampling.min_p)
TAKES_FLOAT(typical_p, 0, 1, sampling.typical_p)
TAKES_FLOAT(top_n_sigma, -1e6, 1e6, sampling.top_n_sigma)
TAKES_FLOAT(xtc_probability, 0, 1, sampling.xtc_probability)
TAKES_FLOAT(xtc_threshold, 0, 1, sampling.xtc_threshold)
TAKES_FLOAT(dynatemp_range, 0, 1e6, sampling.dynatemp_range)
TAKES_FLOAT(dynatemp_exponent, -1e6, 1e6, sampling.dynatemp_exponent)
TAKES_FLOAT(repeat_penalty, 1e-6, 1e6, sampling.repeat_penalty)
TAKES_FLOAT(frequency_penalty, -1e6, 1e6, sampling.frequency_penalty)
TAKES_FLOAT(presence_penalty, -1e6, 1e6, sampling.presence_penalty)
TAKES_FLOAT(dry_multiplier, 0, 1e6, sampling.dry_multiplier)
TAKES_FLOAT(draft_p_min, 0, 1, draft_p_min)
TAKES_FLOAT(mirostat_tau, 0, 1e6, sampling.mirostat_tau)
TAKES_FLOAT(mirostat_eta, 0, 1e6, sampling.mirostat_eta)
TAKES_INT(repeat_last_n, 0, INT32_MAX, sampling.repeat_last_n)
TAKES_INT(dry_allowed_length, 0, INT32_MAX, sampling.dry_allowed_length)
TAKES_INT(dry_last_n, 0, INT32_MAX, sampling.dry_last_n)
TAKES_INT(mirostat, 0, 2, sampling.mirostat)
TAKES_INT(min_keep, 0, INT32_MAX, sampling.min_keep)
TAKES_INT(n, 1, 128, n)
TAKES_BOOL(ignore_eos, goes_on)
TAKES_BOOL(stream, stream)
TAKES_BOOL(echo, echo)
TAKES_BOOL(cache_prompt, cache_prompt)
TAKES_BOOL(timings, timings)
TAKES_BOOL(progress, progress)
TAKES_BOOL(verbose, verbose)
TAKES_BOOL(return_tokens, return_tokens)
TAKES_BOOL(post_sampling, post_sampling)

static bl_status take_dry_base(reading *r, const bl_json *at)
{
    float value = 0;
    BL_TRY(take_float(r, at, -1e6, 1e6, &value));
    if (value >= 1) /* a smaller value keeps the default, as in llama.cpp */
        r->out->sampling.dry_base = value;
    return BL_OK;
}

static bl_status take_top_k(reading *r, const bl_json *at)
{
    int64_t k = 0;
    BL_TRY(bl_json_int(at, -1, INT32_MAX, &k, r->err));
    r->out->sampling.top_k = k < 0 ? 0 : (int)k; /* -1 in other servers: all tokens */
    return BL_OK;
}

static bl_status take_max_tokens(reading *r, const bl_json *at)
{
    return bl_json_int(at, r->api == BL_TEXT_API_V2 ? 1 : -1, INT32_MAX, &r->out->max_tokens, r->err);
}

static bl_status take_draft_max(reading *r, const bl_json *at)
{
    return bl_json_int(at, 0, INT32_MAX, &r->out->draft_max, r->err);
}

static bl_status take_draft_min(reading *r, const bl_json *at)
{
    return bl_json_int(at, 0, INT32_MAX, &r->out->draft_min, r->err);
}

static bl_status take_min_tokens(reading *r, const bl_json *at)
{
    return bl_json_int(at, 0, INT32_MAX, &r->out->min_tokens, r->err);
}

static bl_status take_seed(reading *r, const bl_json *at)
{
    int64_t low = r->api == BL_TEXT_API_V2 ? 0 : INT64_MIN, value = 0;
    bl_wire_number number;
    BL_TRY(bl_json_number(at, &number, r->err));
    if (number.whole && !number.negative) /* 64 bits, of which the lower 32 are used */
        value = (int64_t)number.magnitude;
    else
        BL_TRY(bl_json_int(at, low, INT64_MAX, &value, r->err));
    r->out->sampling.seed = value == -1 || (uint64_t)value == UINT32_MAX ? BL_SEED_RANDOM : (int64_t)(uint32_t)value;
    return BL_OK;
}

/* ---- lists */

static bl_status add_stop(reading *r, const bl_json *at)
{
    bl_text_options *o = r->out;
    const char *text = NULL;
    size_t len = 0;
    BL_TRY(bl_json_string(at, &text, r->err));
    len = strlen(text);
    if (len == 0 && r->api == BL_TEXT_API_V1)
        return BL_OK;
    if (o->nstops == BL_TEXT_STOPS || len > MOST_STOP_BYTES || len == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "must be at most %d texts of 1 to %d bytes", BL_TEXT_STOPS, MOST_STOP_BYTES);
    o->stops[o->nstops++] = (bl_span){bl_arena_strdup(r->arena, text), len};
    return bl_arena_status(r->arena, r->err);
}

static bl_status take_stop(reading *r, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    r->out->nstops = 0;
    if (at->kind != BL_JSON_ARRAY)
        return add_stop(r, at);
    while (bl_json_next(&it, &one))
        BL_TRY(add_stop(r, &one));
    return BL_OK;
}

/* Read sampler names, or one string of the letters that llama.cpp assigns to samplers. */
static bl_status take_samplers(reading *r, const bl_json *at)
{
    static const char letters[] = "edskypmxt"; /* in the order of bl_sampler_step */
    bl_sampling *sampling = &r->out->sampling;
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    sampling->nsteps = 0;
    if (at->kind == BL_JSON_STRING) {
        for (size_t i = 0; i < at->text.len && sampling->nsteps < BL_SAMPLER_STEPS; i++) {
            const char *found = strchr(letters, at->text.data[i]);
            if (found == NULL || *found == '\0')
                return bl_json_fail(at, r->err, BL_EINVAL, "\"%c\" is not the letter of a sampler; the letters are edskypmxt",
                                    at->text.data[i]);
            sampling->steps[sampling->nsteps++] = (unsigned char)(found - letters);
        }
        return BL_OK;
    }
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, r->err));
    while (bl_json_next(&it, &one)) {
        const char *name = NULL;
        int step = 0;
        BL_TRY(bl_json_string(&one, &name, r->err));
        step = bl_sampler_step_find((bl_span){name, strlen(name)});
        if (step < 0)
            return bl_json_fail(&one, r->err, BL_EINVAL, "\"%.40s\" is not the name of a sampler", name);
        if (sampling->nsteps == BL_SAMPLER_STEPS)
            return bl_json_fail(at, r->err, BL_EINVAL, "a chain has at most %d samplers", BL_SAMPLER_STEPS);
        sampling->steps[sampling->nsteps++] = (unsigned char)step;
    }
    return BL_OK;
}

static bl_status reserve_biases(reading *r, size_t more)
{
    bl_sampling *s = &r->out->sampling;
    bl_logit_bias *grown = NULL;
    if (s->nbias + more > MOST_BIASES)
        return bl_fail(r->err, BL_EINVAL, "logit_bias: over %d tokens", MOST_BIASES);
    grown = bl_arena_array(r->arena, s->nbias + more, sizeof *grown);
    if (grown == NULL)
        return bl_arena_status(r->arena, r->err);
    if (s->nbias > 0)
        memcpy(grown, s->bias, s->nbias * sizeof *grown);
    s->bias = grown;
    return BL_OK;
}

static bl_status text_options_add_bias(reading *r, int32_t id, float bias)
{
    bl_sampling *s = &r->out->sampling;
    if (id < 0 || (size_t)id >= bl_tokenizer_size(r->text->tokenizer))
        return BL_OK; /* llama.cpp also ignores unknown tokens */
    BL_TRY(reserve_biases(r, 1));
    ((bl_logit_bias *)(uintptr_t)s->bias)[s->nbias++] = (bl_logit_bias){id, bias};
    return BL_OK;
}

/* Add a bias for a token id, or for each token of a string. */
static bl_status add_named_bias(reading *r, bl_span name, bool numbers, float bias)
{
    bl_tokens tokens = {0};
    bl_status st = BL_OK;
    char *end = NULL;
    long id = numbers && name.len > 0 ? strtol(name.data, &end, 10) : 0;
    if (end != NULL && end == name.data + name.len)
        return id <= INT32_MAX ? text_options_add_bias(r, (int32_t)id, bias) : BL_OK;
    st = bl_tokenizer_encode_as(r->text->tokenizer, name, (bl_encode_options){0}, MOST_BIASES, &tokens, r->err);
    for (size_t i = 0; st == BL_OK && i < tokens.count; i++)
        st = text_options_add_bias(r, tokens.id[i], bias);
    free(tokens.id);
    return st;
}

/* A number is added to the logit; false bans the token. */
static bl_status read_bias(reading *r, const bl_json *at, float *bias)
{
    if (at->kind == BL_JSON_BOOL && !at->boolean) {
        *bias = -INFINITY;
        return BL_OK;
    }
    return take_float(r, at, -1e9, 1e9, bias);
}

static bl_status take_logit_bias(reading *r, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one, part;
    float bias = 0;
    r->out->sampling.nbias = 0;
    if (at->kind != BL_JSON_OBJECT)
        BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, r->err));
    while (bl_json_next(&it, &one)) {
        bl_json_iter pair = bl_json_each(&one);
        if (at->kind == BL_JSON_OBJECT) {
            BL_TRY(read_bias(r, &one, &bias));
            BL_TRY(add_named_bias(r, (bl_span){one.key, strlen(one.key)}, true, bias));
            continue;
        }
        if (one.kind != BL_JSON_ARRAY || bl_json_count(&one) != 2 || !bl_json_next(&pair, &part))
            return bl_json_fail(&one, r->err, BL_EINVAL, "expected a pair of a token and a number");
        if (part.kind == BL_JSON_STRING) {
            const char *text = NULL;
            bl_json value;
            BL_TRY(bl_json_string(&part, &text, r->err));
            if (bl_json_next(&pair, &value))
                BL_TRY(read_bias(r, &value, &bias));
            BL_TRY(add_named_bias(r, (bl_span){text, strlen(text)}, false, bias));
        } else {
            int64_t id = 0;
            bl_json value;
            BL_TRY(bl_json_int(&part, INT32_MIN, INT32_MAX, &id, r->err));
            if (bl_json_next(&pair, &value))
                BL_TRY(read_bias(r, &value, &bias));
            BL_TRY(text_options_add_bias(r, (int32_t)id, bias));
        }
    }
    return BL_OK;
}

static bl_status take_fields(reading *r, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    r->out->nfields = 0;
    r->out->fields = bl_arena_array(r->arena, MOST_FIELDS, sizeof(char *));
    if (r->out->fields == NULL)
        return bl_arena_status(r->arena, r->err);
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, r->err));
    while (bl_json_next(&it, &one)) {
        const char *text = NULL;
        BL_TRY(bl_json_string(&one, &text, r->err));
        if (r->out->nfields == MOST_FIELDS)
            return bl_json_fail(at, r->err, BL_EINVAL, "over %d fields", MOST_FIELDS);
        r->out->fields[r->out->nfields++] = bl_arena_strdup(r->arena, text);
    }
    return bl_arena_status(r->arena, r->err);
}

/* ---- probabilities of tokens: chat has a flag and a number, other APIs a number */

static bl_status take_logprobs(reading *r, const bl_json *at)
{
    bool wanted = false;
    if (at->kind != BL_JSON_BOOL)
        return take_int(r, at, 0, MOST_CHANCES, &r->out->logprobs);
    BL_TRY(bl_json_bool(at, &wanted, r->err));
    if (!wanted)
        r->out->logprobs = -1;
    else if (r->out->logprobs < 0)
        r->out->logprobs = 0;
    return BL_OK;
}

static bl_status take_n_probs(reading *r, const bl_json *at)
{
    BL_TRY(take_int(r, at, 0, MOST_CHANCES, &r->out->logprobs));
    r->out->logprobs = r->out->logprobs > 0 ? r->out->logprobs : -1;
    return BL_OK;
}

static bl_status take_top_logprobs(reading *r, const bl_json *at)
{
    return take_int(r, at, 0, MOST_CHANCES, &r->out->logprobs);
}

/* ---- other members */

static bl_status take_stream_options(reading *r, const bl_json *at)
{
    bl_json one;
    BL_TRY(bl_json_expect(at, BL_JSON_OBJECT, r->err));
    return bl_json_find(at, "include_usage", &one) && one.kind != BL_JSON_NULL
               ? bl_json_bool(&one, &r->out->include_usage, r->err)
               : BL_OK;
}

static bl_status take_prompt(reading *r, const bl_json *at)
{
    return bl_json_string(at, &r->prompt, r->err);
}

static bl_status take_without_prompt(reading *r, const bl_json *at)
{
    bool without = false;
    BL_TRY(bl_json_bool(at, &without, r->err));
    r->out->echo = !without;
    return BL_OK;
}

static bl_status text_options_take_id(reading *r, const bl_json *at)
{
    return bl_json_string(at, &r->wire->id, r->err);
}

static bl_status take_priority(reading *r, const bl_json *at)
{
    return bl_json_u64(at, &r->wire->priority, r->err);
}

static bl_status take_timeout(reading *r, const bl_json *at)
{
    int64_t us = 0;
    BL_TRY(bl_json_int(at, 0, INT64_MAX / 2000, &us, r->err));
    r->wire->timeout_us = (uint64_t)us;
    return BL_OK;
}

static bl_status take_breakers(reading *r, const bl_json *at);

/* ---- the table */

enum { V2 = BL_TEXT_API_V2, V1 = BL_TEXT_API_V1, BOTH = V2 | V1 };

/* |take| NULL: the member is known, and is ignored here. */
static const struct member {
    const char *name;
    unsigned apis;
    bl_status (*take)(reading *r, const bl_json *at);
} members[] = {{"text_input", V2, take_prompt},
               {"exclude_input_in_output", V2, take_without_prompt},
               {"id", V2, text_options_take_id},
               {"priority", V2, take_priority},
               {"timeout", V2, take_timeout},
               {"stream", BOTH, take_stream},
               {"max_tokens", BOTH, take_max_tokens},
               {"temperature", BOTH, take_temperature},
               {"top_k", BOTH, take_top_k},
               {"top_p", BOTH, take_top_p},
               {"seed", BOTH, take_seed},
               {"stop", BOTH, take_stop},
               {"ignore_eos", BOTH, take_ignore_eos},
               {"max_completion_tokens", V1, take_max_tokens},
               {"n_predict", V1, take_max_tokens},
               {"min_tokens", V1, take_min_tokens},
               {"n", V1, take_n},
               {"n_cmpl", V1, take_n},
               {"echo", V1, take_echo},
               {"cache_prompt", V1, take_cache_prompt},
               {"logprobs", V1, take_logprobs},
               {"top_logprobs", V1, take_top_logprobs},
               {"n_probs", V1, take_n_probs},
               {"post_sampling_probs", V1, take_post_sampling},
               {"stream_options", V1, take_stream_options},
               {"timings_per_token", V1, take_timings},
               {"return_progress", V1, take_progress},
               {"return_tokens", V1, take_return_tokens},
               {"verbose", V1, take_verbose},
               {"response_fields", V1, take_fields},
               {"logit_bias", V1, take_logit_bias},
               {"samplers", V1, take_samplers},
               {"min_p", V1, take_min_p},
               {"min_keep", V1, take_min_keep},
               {"typical_p", V1, take_typical_p},
               {"top_n_sigma", V1, take_top_n_sigma},
               {"xtc_probability", V1, take_xtc_probability},
               {"xtc_threshold", V1, take_xtc_threshold},
               {"dynatemp_range", V1, take_dynatemp_range},
               {"dynatemp_exponent", V1, take_dynatemp_exponent},
               {"repeat_last_n", V1, take_repeat_last_n},
               {"repeat_penalty", V1, take_repeat_penalty},
               {"repetition_penalty", V1, take_repeat_penalty},
               {"frequency_penalty", V1, take_frequency_penalty},
               {"presence_penalty", V1, take_presence_penalty},
               {"dry_multiplier", V1, take_dry_multiplier},
               {"dry_base", V1, take_dry_base},
               {"dry_allowed_length", V1, take_dry_allowed_length},
               {"dry_penalty_last_n", V1, take_dry_last_n},
               {"dry_sequence_breakers", V1, take_breakers},
               {"speculative.n_max", V1, take_draft_max},
               {"speculative.n_min", V1, take_draft_min},
               {"speculative.p_min", V1, take_draft_p_min},
               {"mirostat", V1, take_mirostat},
               {"mirostat_tau", V1, take_mirostat_tau},
               {"mirostat_eta", V1, take_mirostat_eta},
               /* read by the handlers (server/openai) */
               {"model", V1, NULL},
               {"messages", V1, NULL},
               {"prompt", V1, NULL},
               {"input", V1, NULL},
               {"tools", V1, NULL},
               {"chat_template_kwargs", V1, NULL},
               {"add_generation_prompt", V1, NULL},
               {"continue_final_message", V1, NULL},
               /* have no effect in this server */
               {"user", V1, NULL},
               {"store", V1, NULL},
               {"metadata", V1, NULL},
               {"service_tier", V1, NULL},
               {"parallel_tool_calls", V1, NULL},
               {"id_slot", V1, NULL},
               {"n_keep", V1, NULL},
               {"n_discard", V1, NULL},
               {"n_cache_reuse", V1, NULL},
               {"sse_ping_interval", V1, NULL},
               {"backend_sampling", V1, NULL},
               {"reasoning_format", V1, NULL},
               {"reasoning_effort", V1, NULL}};
enum { MEMBERS = sizeof members / sizeof members[0] };

/* Members that change the meaning of an answer, and that this server does not support. */
static const char *const refused[] = {"response_format",
                                      "json_schema",
                                      "grammar",
                                      "tool_choice",
                                      "functions",
                                      "function_call",
                                      "guided_json",
                                      "guided_regex",
                                      "guided_choice",
                                      "guided_grammar",
                                      "guided_decoding_backend",
                                      "structured_outputs",
                                      "suffix",
                                      "lora",
                                      "modalities",
                                      "audio",
                                      "web_search_options",
                                      "best_of",
                                      "input_prefix",
                                      "input_suffix",
                                      "adaptive_target",
                                      "t_max_predict_ms",
                                      "n_indent"};

/* Does the value ask for the behaviour without the member? */
static bool is_neutral(const char *name, const bl_json *at)
{
    bl_json type;
    double number = 0;
    bl_wire_number value;
    bl_err ignored = {0};
    if (at->kind == BL_JSON_NULL || (at->kind == BL_JSON_BOOL && !at->boolean))
        return true;
    if (at->kind == BL_JSON_STRING)
        return at->text.len == 0 || bl_span_is(at->text, "none") || bl_span_is(at->text, "auto");
    if (at->kind == BL_JSON_NUMBER && bl_json_number(at, &value, &ignored) == BL_OK)
        number = value.value;
    if (at->kind == BL_JSON_NUMBER)
        return strcmp(name, "best_of") == 0 ? number <= 1 : number <= 0;
    if (at->kind == BL_JSON_ARRAY && strcmp(name, "modalities") == 0) {
        bl_json_iter it = bl_json_each(at);
        return bl_json_count(at) == 1 && bl_json_next(&it, &type) && bl_span_is(type.text, "text");
    }
    if (at->kind == BL_JSON_ARRAY)
        return bl_json_count(at) == 0;
    return strcmp(name, "response_format") == 0 && bl_json_find(at, "type", &type) && bl_span_is(type.text, "text");
}

static bl_status refuse_unsupported(reading *r, const bl_json *one, bool *found)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (strcmp(refused[i], one->key) != 0)
            continue;
        *found = true;
        return is_neutral(one->key, one)
                   ? BL_OK
                   : bl_fail(r->err, BL_EINVAL, "\"%s\" is not supported by this server; leave it out", one->key);
    }
    return BL_OK;
}

/* Clients send many members that have no effect here.  A name that is similar to a known one is reported as a mistake. */
static bl_status check_unknown(reading *r, const bl_json *object, const char *key)
{
    bl_near near;
    if (r->api == BL_TEXT_API_V2)
        return bl_json_fail(object, r->err, BL_EINVAL, "unknown parameter \"%.100s\" of a text model", key);
    bl_near_init(&near, (bl_span){key, strlen(key)});
    for (size_t i = 0; i < MEMBERS; i++)
        if ((members[i].apis & V1) != 0)
            bl_near_offer(&near, (bl_span){members[i].name, strlen(members[i].name)});
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        bl_near_offer(&near, (bl_span){refused[i], strlen(refused[i])});
    if (near.best.data == NULL || near.distance > 2 || *bl_near_hint(&near) == '\0')
        return BL_OK;
    return bl_json_fail(object, r->err, BL_EINVAL, "unknown member \"%.100s\"%s", key, bl_near_hint(&near));
}

/* Read members beside the prompt, or in "parameters"; clients of /v2 use both. */
static bl_status read_members(reading *r, const bl_json *object, bool top, unsigned char *seen)
{
    bl_json_iter it = bl_json_each(object);
    bl_json one;
    BL_TRY(bl_json_expect(object, BL_JSON_OBJECT, r->err));
    while (bl_json_next(&it, &one)) {
        size_t i = 0;
        bool found = false;
        if (r->api == BL_TEXT_API_V2 && top && strcmp(one.key, "parameters") == 0) {
            BL_TRY(read_members(r, &one, false, seen));
            continue;
        }
        if (r->api == BL_TEXT_API_V1)
            BL_TRY(refuse_unsupported(r, &one, &found));
        while (i < MEMBERS && ((members[i].apis & (unsigned)r->api) == 0 || strcmp(members[i].name, one.key) != 0))
            i++;
        if (i == MEMBERS && !found)
            BL_TRY(check_unknown(r, object, one.key));
        if (i == MEMBERS || members[i].take == NULL || (r->api == BL_TEXT_API_V1 && one.kind == BL_JSON_NULL))
            continue;
        if (seen[i]++ > 0)
            return bl_json_fail(object, r->err, BL_EINVAL, "\"%s\" is given twice", one.key);
        BL_TRY(members[i].take(r, &one));
    }
    return BL_OK;
}

bl_status bl_text_options_read(reading *r, const bl_json *object)
{
    unsigned char seen[MEMBERS] = {0};
    return read_members(r, object, true, seen);
}

/* ---- DRY: sequence breakers as tokens */

typedef struct breaker_list {
    bl_dry_breaker *item;
    size_t count, cap;
} breaker_list;

static bl_status add_breaker(reading *r, breaker_list *list, int32_t token, bl_span rest)
{
    bl_tokens tail = {0};
    bl_dry_breaker *b = NULL;
    bl_status st = BL_OK;
    if (list->count == list->cap) {
        size_t cap = list->cap > 0 ? 2 * list->cap : 256;
        bl_dry_breaker *grown = bl_arena_array(r->arena, cap, sizeof *grown);
        if (grown == NULL)
            return bl_arena_status(r->arena, r->err);
        if (list->count > 0)
            memcpy(grown, list->item, list->count * sizeof *grown);
        list->item = grown;
        list->cap = cap;
    }
    b = &list->item[list->count];
    *b = (bl_dry_breaker){.token = token};
    if (rest.len > 0)
        st = bl_tokenizer_encode_as(r->text->tokenizer, rest, (bl_encode_options){0}, MOST_BREAKER_BYTES * 4, &tail, r->err);
    b->ntail = tail.count < MOST_TAIL ? (int)tail.count : MOST_TAIL;
    b->tail = bl_arena_array(r->arena, (size_t)b->ntail + 1, sizeof *b->tail);
    if (b->tail != NULL && b->ntail > 0)
        memcpy((int32_t *)(uintptr_t)b->tail, tail.id, (size_t)b->ntail * sizeof *b->tail);
    list->count += st == BL_OK;
    free(tail.id);
    return st == BL_OK ? bl_arena_status(r->arena, r->err) : st;
}

/* Add each token that contains the breaker, and each token that ends with a prefix of it. */
static bl_status add_breakers_of(reading *r, breaker_list *list, int32_t id, bl_span text)
{
    bl_span word = bl_tokenizer_piece(r->text->tokenizer, id);
    if (word.len > 0 && memmem(word.data, word.len, text.data, text.len) != NULL)
        return add_breaker(r, list, id, (bl_span){0});
    for (size_t at = 0; at < word.len; at++) {
        size_t n = word.len - at;
        if (n < text.len && memcmp(word.data + at, text.data, n) == 0)
            BL_TRY(add_breaker(r, list, id, (bl_span){text.data + n, text.len - n}));
    }
    return BL_OK;
}

static int compare_breakers(const void *a, const void *b)
{
    const bl_dry_breaker *x = a, *y = b;
    return x->token < y->token ? -1 : x->token > y->token;
}

static bl_status make_breakers(reading *r, const bl_span *texts, size_t count)
{
    breaker_list list = {0};
    size_t size = bl_tokenizer_size(r->text->tokenizer);
    for (size_t k = 0; k < count; k++)
        for (size_t id = 0; id < size; id++)
            BL_TRY(add_breakers_of(r, &list, (int32_t)id, texts[k]));
    if (list.count > 0)
        qsort(list.item, list.count, sizeof *list.item, compare_breakers);
    r->out->sampling.breakers = list.item;
    r->out->sampling.nbreakers = list.count;
    return BL_OK;
}

static bl_status take_breakers(reading *r, const bl_json *at)
{
    bl_span texts[MOST_BREAKERS];
    size_t count = 0;
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    BL_TRY(bl_json_expect(at, BL_JSON_ARRAY, r->err));
    while (bl_json_next(&it, &one)) {
        const char *text = NULL;
        size_t len = 0;
        BL_TRY(bl_json_string(&one, &text, r->err));
        len = strlen(text);
        if (count == MOST_BREAKERS)
            return bl_json_fail(at, r->err, BL_EINVAL, "over %d texts", MOST_BREAKERS);
        if (len > 0)
            texts[count++] = (bl_span){text, len < MOST_BREAKER_BYTES ? len : MOST_BREAKER_BYTES};
    }
    if (count == 0)
        return bl_json_fail(at, r->err, BL_EINVAL, "expected a list of texts");
    return make_breakers(r, texts, count);
}

bl_status bl_text_options_finish(reading *r)
{
    static const bl_span usual[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};
    bl_text_options *o = r->out;
    uint32_t seed = 0;
    if (o->sampling.seed == BL_SEED_RANDOM) {
        if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
            return bl_fail(r->err, BL_ENOMEM, "random numbers: %s", strerror(errno));
        o->sampling.seed = seed;
    }
    if (o->sampling.dry_multiplier > 0 && o->sampling.nbreakers == 0)
        BL_TRY(make_breakers(r, usual, sizeof usual / sizeof usual[0]));
    for (int i = 0; i < r->text->nends && o->goes_on && r->api == BL_TEXT_API_V1; i++)
        BL_TRY(text_options_add_bias(r, r->text->ends[i], -INFINITY));
    return bl_arena_status(r->arena, r->err);
}
