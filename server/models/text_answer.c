/* SPDX-License-Identifier: MIT */
#include "server/models/text_answer.h"

#include "engine/base/fault.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>

bl_status bl_text_answer_reserve(bl_text_answer *answer, size_t count, bl_err *err)
{
    size_t each = (size_t)(answer->options->logprobs > 0 ? answer->options->logprobs : 0), cap = answer->cap, bytes = 0;
    void *tokens = NULL, *top = NULL;
    if (answer->ntokens + count <= cap)
        return BL_OK;
    while (cap < answer->ntokens + count)
        cap = cap > 0 ? 2 * cap : 64;
    bytes = (cap - answer->cap) * (sizeof *answer->tokens + each * sizeof *answer->top);
    BL_TRY(bl_budget_borrow(answer->budget, bytes, BL_ENOMEM, "a text", err));
    answer->charged += bytes;
    tokens = bl_realloc(answer->tokens, cap * sizeof *answer->tokens);
    answer->tokens = tokens != NULL ? tokens : answer->tokens;
    top = bl_realloc(answer->top, (cap * each + 1) * sizeof *answer->top);
    answer->top = top != NULL ? top : answer->top;
    if (tokens == NULL || top == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a text");
    answer->cap = cap;
    return BL_OK;
}

/* Decode |id| into the pending bytes. */
static void decode_token(bl_text_answer *answer, int32_t id)
{
    bl_span bytes = bl_tokenizer_bytes(answer->text->tokenizer, id, answer->silent);
    answer->silent = answer->silent && bl_tokenizer_bytes(answer->text->tokenizer, id, false).len == 0;
    bl_text_append(&answer->pending, bytes.data, bytes.len);
}

static bl_status echo_prompt(bl_text_answer *answer, const bl_tokens *prompt, bl_err *err)
{
    bool chances = answer->options->logprobs >= 0;
    BL_TRY(bl_text_answer_reserve(answer, prompt->count, err));
    for (size_t i = 0; i < prompt->count; i++) {
        if (chances)
            answer->tokens[answer->ntokens++] =
                (bl_text_token){.id = prompt->id[i], .first = answer->silent, .at = answer->pending.len};
        decode_token(answer, prompt->id[i]);
    }
    answer->echoed = answer->pending.len;
    return bl_text_status(&answer->pending, err);
}

bl_status bl_text_answer_init(bl_text_answer *answer, const bl_text_model *text, const bl_text_options *options,
                              bl_budget *budget, const bl_tokens *prompt, bl_err *err)
{
    *answer = (bl_text_answer){
        .text = text, .options = options, .budget = budget, .pending.budget = budget, .written.budget = budget, .silent = true};
    if (options->echo)
        return echo_prompt(answer, prompt, err);
    for (size_t i = 0; i < prompt->count && answer->silent; i++)
        answer->silent = bl_tokenizer_bytes(text->tokenizer, prompt->id[i], false).len == 0;
    return BL_OK;
}

void bl_text_answer_fini(bl_text_answer *answer)
{
    bl_budget_give(answer->budget, answer->charged);
    free(answer->tokens);
    free(answer->top);
    bl_text_fini(&answer->pending);
    bl_text_fini(&answer->written);
}

void bl_text_answer_put_chances(bl_text_answer *answer, const float *logits, size_t count, int32_t id, double log_sum,
                                bl_text_token *token)
{
    token->known = id >= 0 && (size_t)id < count;
    token->chance = token->known ? (float)((double)logits[id] - log_sum) : 0;
    token->top = answer->ntop;
    token->ntop = bl_logits_likeliest(logits, count, log_sum, &answer->top[answer->ntop], (size_t)answer->options->logprobs);
    answer->ntop += token->ntop;
}

/* ---- what can be reported */

static bool may_be_utf8(const char *at, size_t room)
{
    static const char *const rest[] = {"\x80\x80\x80", "\x90\x80\x80", "\x9f\xbf\xbf", "\xbf\xbf\xbf", "\x8f\xbf\xbf"};
    char whole[4];
    for (size_t i = 0; room < 4 && i < sizeof rest / sizeof rest[0]; i++) {
        memcpy(whole, at, room);
        memcpy(whole + room, rest[i], 4 - room);
        if (bl_utf8_length(whole, 4) > room)
            return true;
    }
    return false;
}

/* Where the first stop string begins in the pending bytes; their length if there is none. */
static size_t find_stop(bl_text_answer *answer)
{
    size_t from = answer->echoed > answer->taken ? answer->echoed - answer->taken : 0, first = answer->pending.len;
    const char *data = answer->pending.data;
    for (int i = 0; i < answer->options->nstops; i++) {
        const bl_span *stop = &answer->options->stops[i];
        const char *at = from < first ? memmem(data + from, answer->pending.len - from, stop->data, stop->len) : NULL;
        if (at == NULL || (size_t)(at - data) >= first)
            continue;
        first = (size_t)(at - data);
        answer->stopped_by = stop->data;
    }
    return first;
}

/* How many pending bytes can be reported: without an incomplete character, and without a possible beginning of a stop
 * string. */
static size_t find_certain(const bl_text_answer *answer)
{
    const char *data = answer->pending.data;
    size_t len = answer->pending.len, certain = len;
    for (size_t back = 1; back < 4 && back <= len; back++)
        if (may_be_utf8(data + len - back, back))
            certain = len - back;
    for (int i = 0; i < answer->options->nstops; i++) {
        const bl_span *stop = &answer->options->stops[i];
        size_t at = len >= stop->len ? len - stop->len + 1 : 0;
        while (at < certain && memcmp(data + at, stop->data, len - at) != 0)
            at++;
        certain = at < certain ? at : certain;
    }
    return certain;
}

static bool text_answer_is_end(const bl_text_model *text, int32_t id)
{
    for (int i = 0; i < text->nends; i++)
        if (text->ends[i] == id)
            return true;
    return false;
}

bl_status bl_text_answer_add(bl_text_answer *answer, int32_t id, size_t *certain, bl_err *err)
{
    if (text_answer_is_end(answer->text, id) && !answer->options->goes_on) {
        answer->finish = "stop";
    } else {
        bl_text_token *token = NULL;
        BL_TRY(bl_text_answer_reserve(answer, 1, err));
        token = &answer->tokens[answer->ntokens++];
        token->id = id;
        token->first = answer->silent;
        token->at = answer->taken + answer->pending.len;
        decode_token(answer, id);
        BL_TRY(bl_text_status(&answer->pending, err));
    }
    *certain = find_stop(answer);
    if (*certain < answer->pending.len)
        answer->finish = "stop";
    if (answer->finish == NULL)
        *certain = find_certain(answer);
    return BL_OK;
}

void bl_text_answer_take(bl_text_answer *answer, size_t len, bl_text *out)
{
    bl_text *pending = &answer->pending;
    for (size_t at = 0, n = 0; at < len; at += n) {
        n = bl_utf8_length(pending->data + at, len - at);
        if (n > 0)
            bl_text_append(out, pending->data + at, n);
        else
            bl_text_puts(out, "\xef\xbf\xbd");
        n = n > 0 ? n : 1;
    }
    answer->new_line = answer->new_line || (len > 0 && memchr(pending->data, '\n', len) != NULL);
    if (len > 0)
        memmove(pending->data, pending->data + len, pending->len - len);
    pending->len -= len;
    answer->taken += len;
}
