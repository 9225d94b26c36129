/* SPDX-License-Identifier: MIT */
/* The forms of answers: OpenAI's chat and completions, and llama.cpp's completion. */
#include "server/openai/openai.h"

#include "proto/encode.h"
#include "proto/problem.h"

#include <stdlib.h>

void bl_openai_put_usage(const bl_completion *c, bl_text *out)
{
    size_t prompt = 0, written = 0, reused = 0;
    for (int i = 0; i < c->ntexts; i++) {
        const bl_generation *g = c->texts[i];
        written += g->tokens.count - g->prompt;
        if (i % c->options.n != 0) /* the prompt of |n| texts counts once */
            continue;
        prompt += g->prompt;
        reused += g->reused;
    }
    bl_encode_key(out, "usage");
    bl_text_printf(out,
                   "{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,\"prompt_tokens_details\":{\"cached_"
                   "tokens\":%zu}}",
                   prompt, written, prompt + written, reused);
}

void bl_openai_put_model(const bl_completion *c, bl_text *out)
{
    bl_encode_key(out, "model");
    bl_encode_string(out, c->version->name);
}

/* Print the first members of a document or event; the object stays open. */
static void put_openai_head(const bl_completion *c, const char *object, bl_text *out)
{
    bl_text_puts(out, "{\"id\":");
    bl_encode_string(out, c->id);
    bl_text_printf(out, ",\"object\":\"%s\",\"created\":%lld", object, (long long)c->created);
    bl_openai_put_model(c, out);
    bl_text_puts(out, ",\"system_fingerprint\":\"beamline-" BL_VERSION "\"");
}

static void put_finish(const bl_generation *g, bool told, bl_text *out)
{
    bl_text_puts(out, ",\"finish_reason\":");
    if (told && g->answer.finish != NULL)
        bl_encode_string(out, g->answer.finish);
    else
        bl_text_puts(out, "null");
}

static void end_event(bl_text *out)
{
    bl_text_puts(out, "}\n\n");
}

static void put_done(bl_text *out)
{
    bl_text_puts(out, "data: [DONE]\n\n");
}

static void put_openai_failure(const bl_err *err, bl_text *out)
{
    bl_text_puts(out, "data: ");
    bl_problem_write_openai(out, err, NULL, NULL);
    bl_text_puts(out, "\n\n");
}

/* End a stream of events of |object|.  If usage is requested, send it in an event without choices. */
static void put_openai_end(bl_completion *c, const char *object, bl_text *out)
{
    if (c->options.include_usage) {
        bl_text_puts(out, "data: ");
        put_openai_head(c, object, out);
        bl_text_puts(out, ",\"choices\":[]");
        bl_openai_put_usage(c, out);
        bl_llama_put_timings(c, NULL, out);
        end_event(out);
    }
    put_done(out);
}

static void put_verbose(const bl_generation *g, bl_text *out)
{
    if (!g->options->verbose)
        return;
    bl_encode_key(out, "__verbose");
    bl_llama_put_text(g, out);
}

static void openai_reply_put_progress(const bl_generation *g, size_t processed, bl_text *out)
{
    bl_encode_key(out, "prompt_progress");
    bl_text_printf(out, "{\"total\":%zu,\"cache\":%zu,\"processed\":%zu,\"time_ms\":%.3f}", g->prompt, g->reused, processed,
                   (double)g->compute_ns * 1e-6);
}

/* ---- chat */

static void put_chat_chances(const bl_generation *g, size_t from, size_t to, bl_text *out)
{
    if (g->options->logprobs < 0 || from == to)
        return;
    bl_text_puts(out, ",\"logprobs\":{\"content\":");
    bl_openai_put_chances(g, from, to, out);
    bl_text_puts(out, "}");
}

static void put_chat_document(bl_completion *c, bl_text *out)
{
    put_openai_head(c, "chat.completion", out);
    bl_text_puts(out, ",\"choices\":[");
    for (int i = 0; i < c->ntexts; i++) {
        const bl_generation *g = c->texts[i];
        bl_text_printf(out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", i > 0 ? "," : "", g->index);
        bl_encode_span(out, (bl_span){bl_text_get(&g->answer.written), g->answer.written.len});
        bl_text_putc(out, '}');
        put_chat_chances(g, 0, bl_openai_count_told(g), out);
        put_finish(g, true, out);
        bl_text_putc(out, '}');
    }
    bl_text_putc(out, ']');
    bl_openai_put_usage(c, out);
    bl_llama_put_timings(c, NULL, out);
    put_verbose(c->texts[0], out);
    bl_text_putc(out, '}');
}

static void begin_chat_event(const bl_completion *c, int index, bl_text *out)
{
    bl_text_puts(out, "data: ");
    put_openai_head(c, "chat.completion.chunk", out);
    bl_text_printf(out, ",\"choices\":[{\"index\":%d,\"delta\":{", index);
}

/* Send the role of each text, in the first event of the text. */
static void begin_chat(bl_completion *c, bl_text *out)
{
    for (int i = 0; i < c->ntexts; i++) {
        begin_chat_event(c, i, out);
        bl_text_puts(out, "\"role\":\"assistant\",\"content\":null},\"finish_reason\":null}]");
        end_event(out);
    }
}

static void put_chat_event(bl_generation *g, bl_span text, bl_text *out)
{
    const bl_completion *c = g->completion;
    size_t to = bl_openai_count_told(g);
    if (text.len > 0 || to > g->answer.ntold) {
        begin_chat_event(c, g->index, out);
        bl_text_puts(out, "\"content\":");
        bl_encode_span(out, text);
        bl_text_putc(out, '}');
        put_chat_chances(g, g->answer.ntold, to, out);
        put_finish(g, false, out);
        bl_text_puts(out, "}]");
        if (g->options->timings)
            bl_llama_put_timings(c, g, out);
        end_event(out);
    }
    g->answer.ntold = to;
    if (g->answer.finish == NULL)
        return;
    begin_chat_event(c, g->index, out);
    bl_text_putc(out, '}');
    put_finish(g, true, out);
    bl_text_puts(out, "}]");
    if (!c->options.include_usage)
        bl_llama_put_timings(c, g, out);
    put_verbose(g, out);
    end_event(out);
}

static void put_chat_progress(bl_generation *g, size_t processed, bl_text *out)
{
    begin_chat_event(g->completion, g->index, out);
    bl_text_puts(out, "},\"finish_reason\":null}]");
    openai_reply_put_progress(g, processed, out);
    end_event(out);
}

static void end_chat(bl_completion *c, bl_text *out)
{
    put_openai_end(c, "chat.completion.chunk", out);
}

const bl_text_form bl_openai_chat_form = {.document = put_chat_document,
                                          .begin = begin_chat,
                                          .event = put_chat_event,
                                          .progress = put_chat_progress,
                                          .end = end_chat,
                                          .fail = put_openai_failure};

/* ---- completions */

static void put_token_name(const bl_generation *g, const bl_text_token *token, bl_text *out)
{
    bl_encode_span(out, bl_openai_token_text(g, token));
}

static void put_chance_or_null(const bl_text_token *token, bl_text *out)
{
    if (token->known)
        bl_openai_put_float(out, token->chance);
    else
        bl_text_puts(out, "null");
}

static void put_likeliest(const bl_generation *g, const bl_text_token *token, bl_text *out)
{
    if (!token->known) {
        bl_text_puts(out, "null");
        return;
    }
    bl_text_putc(out, '{');
    for (size_t i = 0; i < token->ntop; i++) {
        const bl_token_chance *top = &g->answer.top[token->top + i];
        bl_text_puts(out, i > 0 ? "," : "");
        bl_encode_span(out, bl_tokenizer_piece(g->text->tokenizer, top->id));
        bl_text_putc(out, ':');
        bl_openai_put_float(out, top->value);
    }
    bl_text_putc(out, '}');
}

/* Print the parallel lists of OpenAI's completions, and the list of objects of chat and llama.cpp. */
static void put_text_chances(const bl_generation *g, size_t from, size_t to, bl_text *out)
{
    bl_text_puts(out, ",\"logprobs\":");
    if (g->options->logprobs < 0) {
        bl_text_puts(out, "null");
        return;
    }
    bl_text_puts(out, "{\"tokens\":[");
    for (size_t k = from; k < to; k++) {
        bl_text_puts(out, k > from ? "," : "");
        put_token_name(g, &g->answer.tokens[k], out);
    }
    bl_text_puts(out, "],\"token_logprobs\":[");
    for (size_t k = from; k < to; k++) {
        bl_text_puts(out, k > from ? "," : "");
        put_chance_or_null(&g->answer.tokens[k], out);
    }
    bl_text_puts(out, "],\"top_logprobs\":[");
    for (size_t k = from; k < to; k++) {
        bl_text_puts(out, k > from ? "," : "");
        put_likeliest(g, &g->answer.tokens[k], out);
    }
    bl_text_puts(out, "],\"text_offset\":[");
    for (size_t k = from; k < to; k++)
        bl_text_printf(out, "%s%zu", k > from ? "," : "", g->answer.tokens[k].at);
    bl_text_puts(out, "],\"content\":");
    bl_openai_put_chances(g, from, to, out);
    bl_text_putc(out, '}');
}

static void put_text_choice(const bl_generation *g, bl_span text, size_t from, size_t to, bool last, bl_text *out)
{
    bl_text_printf(out, "{\"index\":%d,\"text\":", g->index);
    bl_encode_span(out, text);
    put_text_chances(g, from, to, out);
    put_finish(g, last, out);
    bl_text_putc(out, '}');
}

static void openai_reply_put_text_document(bl_completion *c, bl_text *out)
{
    put_openai_head(c, "text_completion", out);
    bl_text_puts(out, ",\"choices\":[");
    for (int i = 0; i < c->ntexts; i++) {
        const bl_generation *g = c->texts[i];
        bl_text_puts(out, i > 0 ? "," : "");
        put_text_choice(g, (bl_span){bl_text_get(&g->answer.written), g->answer.written.len}, 0, bl_openai_count_told(g), true,
                        out);
    }
    bl_text_putc(out, ']');
    bl_openai_put_usage(c, out);
    bl_llama_put_timings(c, NULL, out);
    put_verbose(c->texts[0], out);
    bl_text_putc(out, '}');
}

static void put_text_chunk(const bl_generation *g, bl_span text, size_t to, bool last, bl_text *out)
{
    const bl_completion *c = g->completion;
    bl_text_puts(out, "data: ");
    put_openai_head(c, "text_completion", out);
    bl_text_puts(out, ",\"choices\":[");
    put_text_choice(g, text, g->answer.ntold, to, last, out);
    bl_text_putc(out, ']');
    if (last ? !c->options.include_usage : c->options.timings)
        bl_llama_put_timings(c, g, out);
    if (last)
        put_verbose(g, out);
    end_event(out);
}

static void openai_reply_put_text_event(bl_generation *g, bl_span text, bl_text *out)
{
    size_t to = bl_openai_count_told(g);
    if (text.len > 0 || to > g->answer.ntold)
        put_text_chunk(g, text, to, false, out);
    g->answer.ntold = to;
    if (g->answer.finish != NULL)
        put_text_chunk(g, BL_S(""), to, true, out);
}

static void put_text_progress(bl_generation *g, size_t processed, bl_text *out)
{
    bl_text_puts(out, "data: ");
    put_openai_head(g->completion, "text_completion", out);
    bl_text_puts(out, ",\"choices\":[]");
    openai_reply_put_progress(g, processed, out);
    end_event(out);
}

static void end_text(bl_completion *c, bl_text *out)
{
    put_openai_end(c, "text_completion", out);
}

const bl_text_form bl_openai_text_form = {.document = openai_reply_put_text_document,
                                          .event = openai_reply_put_text_event,
                                          .progress = put_text_progress,
                                          .end = end_text,
                                          .fail = put_openai_failure,
                                          .begin = NULL};

/* ---- llama.cpp's completion */

/* A single text is an object; several texts are a list. */
static void put_llama_document(bl_completion *c, bl_text *out)
{
    if (c->ntexts == 1 && !c->listed) {
        bl_llama_put_text(c->texts[0], out);
        return;
    }
    bl_text_putc(out, '[');
    for (int i = 0; i < c->ntexts; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        bl_llama_put_text(c->texts[i], out);
    }
    bl_text_putc(out, ']');
}

static void put_llama_piece(const bl_generation *g, bl_span text, size_t to, bl_text *out)
{
    bl_text_printf(out, "data: {\"index\":%d,\"content\":", g->index);
    bl_encode_span(out, text);
    bl_text_puts(out, ",\"tokens\":[");
    for (size_t k = g->answer.ntold; k < to; k++)
        bl_text_printf(out, "%s%d", k > g->answer.ntold ? "," : "", (int)g->answer.tokens[k].id);
    bl_text_printf(out, "],\"stop\":false,\"id_slot\":0,\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu",
                   g->tokens.count - g->prompt, g->prompt);
    if (g->options->timings)
        bl_llama_put_timings(g->completion, g, out);
}

static void put_llama_event(bl_generation *g, bl_span text, bl_text *out)
{
    size_t to = bl_openai_count_told(g);
    if (text.len > 0 || to > g->answer.ntold) {
        put_llama_piece(g, text, to, out);
        if (g->options->logprobs >= 0) {
            bl_encode_key(out, "completion_probabilities");
            bl_openai_put_chances(g, g->answer.ntold, to, out);
        }
        end_event(out);
    }
    g->answer.ntold = to;
    if (g->answer.finish == NULL)
        return;
    bl_text_puts(out, "data: ");
    bl_llama_put_text(g, out);
    bl_text_puts(out, "\n\n");
}

static void put_llama_progress(bl_generation *g, size_t processed, bl_text *out)
{
    put_llama_piece(g, BL_S(""), g->answer.ntold, out);
    openai_reply_put_progress(g, processed, out);
    end_event(out);
}

const bl_text_form bl_llama_form = {
    .document = put_llama_document, .event = put_llama_event, .progress = put_llama_progress, .fail = put_openai_failure};
