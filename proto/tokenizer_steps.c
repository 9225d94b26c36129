/* SPDX-License-Identifier: MIT */
#include "proto/tokenizer_parts.h"

#include "proto/utf8.h"

#include <string.h>

/* ---- maps: steps that change a text */

bl_status bl_token_map_prepend(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    (void)e;
    bl_text_append(out, step->to.data, step->to.len);
    bl_text_append(out, text.data, text.len);
    return BL_OK;
}

static bl_status replace_literal(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    size_t i = 0;
    while (i < text.len) {
        bl_span rest = {text.data + i, text.len - i};
        if (bl_token_begins(rest, step->from)) {
            bl_text_append(out, step->to.data, step->to.len);
            BL_TRY(bl_token_fits(e, out->len));
            i += step->from.len;
        } else {
            bl_text_putc(out, text.data[i++]);
        }
    }
    return BL_OK;
}

bl_status bl_token_map_replace(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    size_t at = 0;
    if (step->code == NULL)
        return replace_literal(e, step, text, out);
    while (at < text.len) {
        size_t from = 0, to = 0;
        BL_TRY(bl_token_match(e, step, text, at, &from, &to));
        bl_text_append(out, text.data + at, (to > 0 ? from : text.len) - at);
        if (to > 0)
            bl_text_append(out, step->to.data, step->to.len);
        BL_TRY(bl_token_fits(e, out->len));
        at = to > 0 ? to : text.len;
    }
    return BL_OK;
}

bl_status bl_token_map_bytes(bl_token_encoder *e, const bl_token_step *step, bl_span text, bl_text *out)
{
    (void)e;
    (void)step;
    for (size_t i = 0; i < text.len; i++) {
        char put_as[2];
        bl_text_append(out, put_as, bl_token_byte_put((unsigned char)text.data[i], put_as));
    }
    return BL_OK;
}

bl_status bl_token_normalise(bl_token_encoder *e, bl_text room[2], bl_span *text)
{
    const bl_tokenizer *t = e->tokenizer;
    for (int i = 0; i < t->nnormal && text->len > 0; i++) {
        bl_text *to = &room[i % 2];
        bl_text_clear(to);
        BL_TRY(t->steps[i].map(e, &t->steps[i], *text, to));
        BL_TRY(bl_text_status(to, e->err));
        *text = (bl_span){bl_text_get(to), to->len};
    }
    return BL_OK;
}

/* ---- regular expressions */

enum { STEPS_BYTE = 4 }; /* match steps per byte: \s*[\r\n]+ backtracks once over a run of blanks, with one step per blank */

/* Raises the match limit for a long text, since a match at one position may take steps in proportion to the text. */
static bl_status raise_limit(bl_token_encoder *e, size_t len)
{
    if (e->limits == NULL)
        e->limits = pcre2_match_context_copy(e->tokenizer->limits);
    if (e->limits == NULL)
        return bl_fail(e->err, BL_ENOMEM, "out of host memory for splitting a text");
    pcre2_set_match_limit(e->limits, (uint32_t)(BL_TOKEN_MATCHES + STEPS_BYTE * len));
    return BL_OK;
}

bl_status bl_token_match(bl_token_encoder *e, const bl_token_step *step, bl_span text, size_t at, size_t *from, size_t *to)
{
    const bl_tokenizer *t = e->tokenizer;
    pcre2_match_context *limits = t->limits;
    size_t begin = at;
    *from = *to = 0;
    if (text.len > BL_TOKEN_MATCHES / STEPS_BYTE) {
        BL_TRY(raise_limit(e, text.len));
        limits = e->limits;
    }
    if (e->found == NULL && (e->found = pcre2_match_data_create(1, t->memory)) == NULL)
        return bl_fail(e->err, BL_ENOMEM, "out of host memory for splitting a text");
    while (at < text.len) {
        const PCRE2_SIZE *range = NULL;
        int got = pcre2_match(step->code, (PCRE2_SPTR)text.data, text.len, at, PCRE2_NO_UTF_CHECK, e->found, limits);
        BL_TRY(bl_token_look_at_clock(e));
        if (got == PCRE2_ERROR_NOMATCH)
            return BL_OK;
        if (got == PCRE2_ERROR_NOMEMORY)
            return bl_fail(e->err, BL_ENOMEM, "out of host memory for splitting a text");
        if (got < 0)
            return bl_fail(e->err, BL_ELIMIT, "splitting the text into words: the tokenizer's expression takes too much");
        range = pcre2_get_ovector_pointer(e->found);
        if (range[1] > range[0] && range[0] >= begin) {
            *from = range[0];
            *to = range[1];
            return BL_OK;
        }
        at += bl_utf8_length(text.data + at, text.len - at); /* skips an empty match, or one that \K shortened */
    }
    return BL_OK;
}

/* ---- splits: steps that cut a text into parts */

static bl_status take_steps(bl_token_encoder *e, int from, bl_span text, bool first);

static bl_status take_new(bl_token_encoder *e, int from, bl_text *text, bool first)
{
    bl_status st = bl_text_status(text, e->err);
    if (st == BL_OK)
        st = take_steps(e, from, (bl_span){bl_text_get(text), text->len}, first);
    bl_text_fini(text);
    return st;
}

static bl_status take_map(bl_token_encoder *e, int at, bl_span text, bool first)
{
    const bl_token_step *step = &e->tokenizer->steps[at];
    bl_text changed = {0};
    bl_status st = step->map(e, step, text, &changed);
    if (st == BL_OK)
        return take_new(e, at + 1, &changed, first);
    bl_text_fini(&changed);
    return st;
}

static bl_status take_prefix(bl_token_encoder *e, int at, bl_span text, bool first)
{
    const bl_token_step *step = &e->tokenizer->steps[at];
    bl_text changed = {0};
    if ((step->at_start && !first) || bl_token_begins(text, step->to))
        return take_steps(e, at + 1, text, first);
    bl_text_append(&changed, step->to.data, step->to.len);
    bl_text_append(&changed, text.data, text.len);
    return take_new(e, at + 1, &changed, first);
}

/* The output of a split.  The splitter holds back one part, since the next match may extend this part. */
typedef struct splitter {
    bl_token_encoder *e;
    int step;
    bl_span text;
    size_t from, to; /* of the part that is held back */
    bool matched, first;
} splitter;

static bl_status tokenizer_steps_flush_part(splitter *s)
{
    const bl_token_step *step = &s->e->tokenizer->steps[s->step];
    bl_span part = {s->text.data + s->from, s->to - s->from};
    if (part.len == 0 || (step->behavior == BL_SPLIT_REMOVED && s->matched))
        return BL_OK;
    return take_steps(s->e, s->step + 1, part, s->first && s->from == 0);
}

static bl_status tokenizer_steps_add_part(splitter *s, size_t to, bool matched)
{
    const bl_token_step *step = &s->e->tokenizer->steps[s->step];
    bool joins = false;
    if (to == s->to)
        return BL_OK;
    matched ^= step->invert;
    joins = (step->behavior == BL_SPLIT_CONTIGUOUS && s->matched == matched) ||
            (step->behavior == BL_SPLIT_WITH_PREVIOUS && !s->matched && matched) ||
            (step->behavior == BL_SPLIT_WITH_NEXT && s->matched && !matched);
    if (!joins) {
        BL_TRY(tokenizer_steps_flush_part(s));
        s->from = s->to;
    }
    s->to = to;
    s->matched = matched;
    return BL_OK;
}

static bl_status take_split(bl_token_encoder *e, int at, bl_span text, bool first)
{
    splitter s = {.e = e, .step = at, .text = text, .first = first};
    for (size_t from = 0, to = 1, here = 0; to > 0 && here < text.len; here = to) {
        BL_TRY(bl_token_match(e, &e->tokenizer->steps[at], text, here, &from, &to));
        if (to > 0) {
            BL_TRY(tokenizer_steps_add_part(&s, from, false));
            BL_TRY(tokenizer_steps_add_part(&s, to, true));
        }
    }
    BL_TRY(tokenizer_steps_add_part(&s, text.len, false));
    return tokenizer_steps_flush_part(&s);
}

/* The number of steps, at most BL_TOKEN_STEPS, bounds the recursion. */
static bl_status take_steps(bl_token_encoder *e, int from, bl_span text, bool first)
{
    if (text.len == 0)
        return BL_OK;
    if (from == e->tokenizer->nsteps)
        return bl_token_encode_word(e, text);
    switch (e->tokenizer->steps[from].kind) {
    case BL_STEP_MAP:
        return take_map(e, from, text, first);
    case BL_STEP_PREFIX:
        return take_prefix(e, from, text, first);
    case BL_STEP_SPLIT:
        return take_split(e, from, text, first);
    }
    return BL_OK;
}

bl_status bl_token_encode_part(bl_token_encoder *e, bl_span text, bool first)
{
    return take_steps(e, e->tokenizer->nnormal, text, first);
}
