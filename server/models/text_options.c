/* SPDX-License-Identifier: MIT */
/* What a client asks of a text model: the members and parameters that Triton's back end for vLLM takes. */
#include "server/models/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { USUAL_TOKENS = 16 /* as vLLM */, MOST_STOP_BYTES = 256 };

void bl_text_options_fini(bl_text_options *options)
{
    for (int i = 0; i < options->nstops; i++)
        free((char *)(uintptr_t)options->stops[i].data);
    options->nstops = 0;
}

typedef struct parser {
    bl_infer *in;
    bool stream;
    bl_text_options *out;
    unsigned seen; /* which of the members */
    bl_err *err;
} parser;

static bl_status float_between(const parser *p, const bl_json *at, double lo, double hi, float *out)
{
    bl_wire_number number;
    BL_TRY(bl_json_number(at, &number, p->err));
    *out = (float)number.value;
    if (number.value >= lo && number.value <= hi)
        return BL_OK;
    return bl_json_fail(at, p->err, BL_EINVAL, "it is a number from %g to %g", lo, hi);
}

static bl_status add_stop(parser *p, const bl_json *at)
{
    bl_text_options *o = p->out;
    const char *text = NULL;
    size_t len = 0;
    BL_TRY(bl_json_string(at, &text, p->err));
    len = strlen(text);
    if (o->nstops == BL_TEXT_STOPS || len > MOST_STOP_BYTES || len == 0)
        return bl_json_fail(at, p->err, BL_EINVAL, "up to %d texts of 1 to %d bytes end one", BL_TEXT_STOPS, MOST_STOP_BYTES);
    o->stops[o->nstops] = (bl_span){strdup(text), len};
    if (o->stops[o->nstops].data == NULL)
        return bl_fail(p->err, BL_ENOMEM, "a text");
    o->nstops++;
    return BL_OK;
}

static bl_status take_stop(parser *p, const bl_json *at)
{
    bl_json_iter it = bl_json_each(at);
    bl_json one;
    if (at->kind != BL_JSON_ARRAY)
        return add_stop(p, at);
    while (bl_json_next(&it, &one))
        BL_TRY(add_stop(p, &one));
    return BL_OK;
}

static bl_status take_prompt(parser *p, const bl_json *at)
{
    return bl_json_string(at, &p->out->prompt, p->err);
}

static bl_status take_max_tokens(parser *p, const bl_json *at)
{
    return bl_json_int(at, 1, INT32_MAX, &p->out->max_tokens, p->err);
}

static bl_status take_temperature(parser *p, const bl_json *at)
{
    return float_between(p, at, 0, 1e6, &p->out->sampling.temperature);
}

static bl_status take_top_p(parser *p, const bl_json *at)
{
    return float_between(p, at, 0, 1, &p->out->sampling.top_p);
}

static bl_status take_top_k(parser *p, const bl_json *at)
{
    int64_t k = 0;
    BL_TRY(bl_json_int(at, -1, INT32_MAX, &k, p->err));
    p->out->sampling.top_k = k < 0 ? 0 : (int)k; /* as others say: among all */
    return BL_OK;
}

static bl_status take_seed(parser *p, const bl_json *at)
{
    uint64_t seed = 0;
    BL_TRY(bl_json_u64(at, &seed, p->err));
    p->out->sampling.seed = (int64_t)(uint32_t)seed;
    return BL_OK;
}

static bl_status take_goes_on(parser *p, const bl_json *at)
{
    return bl_json_bool(at, &p->out->goes_on, p->err);
}

static bl_status take_without_prompt(parser *p, const bl_json *at)
{
    return bl_json_bool(at, &p->out->without_prompt, p->err);
}

static bl_status take_priority(parser *p, const bl_json *at)
{
    return bl_json_u64(at, &p->in->wire.priority, p->err);
}

static bl_status take_timeout(parser *p, const bl_json *at)
{
    int64_t us = 0;
    BL_TRY(bl_json_int(at, 0, INT64_MAX / 2000, &us, p->err));
    p->in->wire.timeout_us = (uint64_t)us;
    return BL_OK;
}

/* Clients of vLLM say it, and the address does. */
static bl_status take_stream(parser *p, const bl_json *at)
{
    bool stream = false;
    BL_TRY(bl_json_bool(at, &stream, p->err));
    return stream == p->stream
               ? BL_OK
               : bl_json_fail(at, p->err, BL_EINVAL, "generate_stream answers with events, and generate does not");
}

static const struct {
    const char *name;
    bl_status (*take)(parser *p, const bl_json *at);
} members[] = {{"text_input", take_prompt},
               {"max_tokens", take_max_tokens},
               {"temperature", take_temperature},
               {"top_k", take_top_k},
               {"top_p", take_top_p},
               {"seed", take_seed},
               {"stop", take_stop},
               {"ignore_eos", take_goes_on},
               {"stream", take_stream},
               {"exclude_input_in_output", take_without_prompt},
               {"priority", take_priority},
               {"timeout", take_timeout}};

/* Beside the prompt or among its "parameters", as clients differ. */
static bl_status take_members(parser *p, const bl_json *object, bool top)
{
    bl_json_iter it = bl_json_each(object);
    bl_json one;
    BL_TRY(bl_json_expect(object, BL_JSON_OBJECT, p->err));
    while (bl_json_next(&it, &one)) {
        size_t i = 0, count = sizeof members / sizeof members[0];
        if (top && strcmp(one.key, "id") == 0) {
            BL_TRY(bl_json_string(&one, &p->in->wire.id, p->err));
            continue;
        }
        if (top && strcmp(one.key, "parameters") == 0) {
            BL_TRY(take_members(p, &one, false));
            continue;
        }
        while (i < count && strcmp(members[i].name, one.key) != 0)
            i++;
        if (i == count)
            return bl_json_fail(object, p->err, BL_EINVAL, "a text model has no parameter \"%.100s\"", one.key);
        if ((p->seen & 1U << i) != 0)
            return bl_json_fail(object, p->err, BL_EINVAL, "\"%s\" stands there twice", one.key);
        p->seen |= 1U << i;
        BL_TRY(members[i].take(p, &one));
    }
    return BL_OK;
}

bl_status bl_text_options_read(bl_infer *in, bool stream, bl_text_options *out)
{
    bl_request *rq = in->rq;
    bl_json_limits limits = {.depth = (int)rq->server->settings.max_depth};
    bl_json_doc doc = {0};
    parser p = {.in = in, .stream = stream, .out = out, .err = &rq->err};
    uint32_t seed = 0;
    bl_status st = bl_json_parse(&doc, rq->arena, bl_request_body(rq), &limits, &rq->err);
    bl_sampling_init_greedy(&out->sampling);
    out->max_tokens = USUAL_TOKENS;
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = take_members(&p, &root, true);
    }
    if (st == BL_OK && out->prompt == NULL)
        st = bl_fail(&rq->err, BL_EINVAL, "the member \"text_input\" is missing");
    if (st == BL_OK)
        out->prompt = bl_arena_strdup(rq->arena, out->prompt); /* it may be the document's */
    bl_json_fini(&doc);
    if (st == BL_OK && out->sampling.seed == BL_SEED_RANDOM) {
        if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
            return bl_fail(&rq->err, BL_ENOMEM, "random numbers: %s", strerror(errno));
        out->sampling.seed = seed;
    }
    return st == BL_OK ? bl_arena_status(rq->arena, &rq->err) : st;
}
