/* SPDX-License-Identifier: MIT */
#include "proto/chat/template.h"

#include "proto/chat/jinja.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_SOURCE = 1 << 20,    /* bytes of a template; the largest known one has 20 KB */
    SOURCE_MEMORY = 64 << 20, /* memory of its nodes */
    MEMORY = 16 << 20,
    MEMORY_MESSAGE = 64 << 10,
    MEMORY_FACTOR = 16, /* per byte of the input: a template may copy a message several times */
    MOST_MEMORY = 256 << 20,
    OUTPUT = 16 << 20,
    STEPS = 1000000,
    STEPS_MESSAGE = 10000, /* a template may scan all messages for each message */
    MOST_STEPS = 20000000, /* about two seconds */
    CALLS = 64,
};

struct bl_chat_template {
    bl_arena *arena;
    char *source;
    bl_jinja_nodes body, names;
};

const char bl_chat_template_chatml[] =
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\\n' -}}\n"
    "  {%- if message.content is string -%}\n"
    "    {{- message.content -}}\n"
    "  {%- elif message.content -%}\n"
    "    {%- for part in message.content if part.type == 'text' -%}{{- part.text -}}{%- endfor -%}\n"
    "  {%- endif -%}\n"
    "  {{- '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\\n' -}}\n"
    "{%- endif -%}\n";

static bl_status check_utf8(bl_span source, bl_err *err)
{
    int line = 1;
    for (size_t i = 0, n = 0; i < source.len; i += n) {
        n = bl_utf8_length(source.data + i, source.len - i);
        if (n == 0)
            return bl_fail(err, BL_EINVAL, "chat template, line %d: the text is not UTF-8", line);
        line += source.data[i] == '\n';
    }
    return BL_OK;
}

static bl_status template_parse(bl_chat_template *chat, bl_span source, bl_err *err)
{
    bl_jinja_token *tokens = NULL;
    chat->source = bl_arena_strndup(chat->arena, source.data, source.len);
    if (chat->source == NULL)
        return bl_arena_status(chat->arena, err);
    BL_TRY(bl_jinja_lex(chat->arena, (bl_span){chat->source, source.len}, &tokens, err));
    return bl_jinja_parse(chat->arena, tokens, &chat->body, &chat->names, err);
}

bl_status bl_chat_template_parse(bl_span source, bl_chat_template **out, bl_err *err)
{
    *out = NULL;
    if (source.len > MOST_SOURCE)
        return bl_fail(err, BL_ELIMIT, "a chat template has %zu bytes; the most are %d", source.len, MOST_SOURCE);
    BL_TRY(check_utf8(source, err));
    bl_arena *arena = bl_arena_create(SOURCE_MEMORY);
    bl_chat_template *chat = arena != NULL ? bl_arena_alloc(arena, sizeof *chat) : NULL;
    if (chat == NULL) {
        bl_arena_destroy(arena);
        return bl_fail(err, BL_ENOMEM, "out of host memory for a chat template");
    }
    chat->arena = arena;
    bl_status st = template_parse(chat, source, err);
    if (st != BL_OK)
        bl_arena_destroy(arena);
    else
        *out = chat;
    return st;
}

void bl_chat_template_destroy(bl_chat_template *chat)
{
    if (chat != NULL)
        bl_arena_destroy(chat->arena); /* |chat| is in this arena */
}

const char *bl_chat_template_source(const bl_chat_template *chat)
{
    return chat->source;
}

bool bl_chat_template_reads(const bl_chat_template *chat, const char *name)
{
    for (int i = 0; i < chat->names.count; i++) {
        if (bl_span_is(chat->names.at[i]->name, name))
            return true;
    }
    return false;
}

/* ---- a rendering */

static void bind_text(bl_jinja_run *run, const char *name, bl_jinja_value value)
{
    if (!run->failed)
        bl_jinja_bind(run, run->top, (bl_span){name, strlen(name)}, value);
}

static bl_jinja_value from_message(bl_jinja_run *run, const bl_json *json)
{
    bl_json_iter each = bl_json_each(json);
    bl_jinja_value message = bl_jinja_dict_make(run);
    bl_json member;
    if (json->kind != BL_JSON_OBJECT)
        return bl_jinja_from_json(run, json);
    while (!run->failed && bl_json_next(&each, &member)) {
        bl_jinja_value value = bl_jinja_from_json(run, &member);
        if (value.kind != BL_JINJA_NONE && !run->failed)
            bl_jinja_dict_set(run, message.as.dict, bl_jinja_string((bl_span){member.key, strlen(member.key)}), value);
    }
    return message;
}

static bl_jinja_value from_messages(bl_jinja_run *run, const bl_json *json)
{
    bl_json_iter each = bl_json_each(json);
    bl_jinja_list messages = {0};
    size_t cap = 0;
    bl_json message;
    if (json->kind != BL_JSON_ARRAY)
        return bl_jinja_fail(run, BL_EINVAL, "\"messages\" must be a list");
    while (!run->failed && bl_json_next(&each, &message))
        bl_jinja_push(run, &messages, &cap, from_message(run, &message));
    return bl_jinja_list_of(run, BL_JINJA_LIST, messages.at, messages.count);
}

static void template_bind_input(bl_jinja_run *run, const bl_chat_input *input)
{
    bind_text(run, "messages", from_messages(run, &input->messages));
    bind_text(run, "tools", bl_jinja_from_json(run, &input->tools));
    bind_text(run, "documents", bl_jinja_none());
    bind_text(run, "add_generation_prompt", bl_jinja_bool(input->add_generation_prompt));
    if (input->bos_token != NULL)
        bind_text(run, "bos_token", bl_jinja_string((bl_span){input->bos_token, strlen(input->bos_token)}));
    if (input->eos_token != NULL)
        bind_text(run, "eos_token", bl_jinja_string((bl_span){input->eos_token, strlen(input->eos_token)}));
    for (size_t i = 0; i < input->nvariables; i++)
        bind_text(run, input->variables[i].name, bl_jinja_from_json(run, &input->variables[i].value));
}

/* Total bytes of the strings. */
static size_t template_measure(const bl_json *json)
{
    bl_json_iter each = bl_json_each(json);
    size_t bytes = json->text.len;
    bl_json item;
    while ((json->kind == BL_JSON_ARRAY || json->kind == BL_JSON_OBJECT) && json->item != NULL && bl_json_next(&each, &item))
        bytes += template_measure(&item);
    return bytes;
}

/* Computes the limits; they grow with the conversation. */
static bl_chat_limits limits_for(const bl_chat_input *input, const bl_chat_limits *given)
{
    bl_chat_limits most = given != NULL ? *given : (bl_chat_limits){0};
    size_t messages = input->messages.kind == BL_JSON_ARRAY ? bl_json_count(&input->messages) : 0;
    size_t bytes = template_measure(&input->messages);
    size_t memory = messages < MOST_MEMORY / MEMORY_MESSAGE && bytes < MOST_MEMORY / MEMORY_FACTOR
                        ? MEMORY + messages * MEMORY_MESSAGE + bytes * MEMORY_FACTOR
                        : MOST_MEMORY;
    uint64_t steps = messages < MOST_STEPS / STEPS_MESSAGE ? STEPS + messages * STEPS_MESSAGE : MOST_STEPS;
    if (most.memory == 0)
        most.memory = memory < MOST_MEMORY ? memory : MOST_MEMORY;
    if (most.steps == 0)
        most.steps = steps < MOST_STEPS ? steps : MOST_STEPS;
    most.output = most.output > 0 ? most.output : OUTPUT;
    most.depth = most.depth > 0 ? most.depth : CALLS;
    return most;
}

bl_status bl_chat_template_render(const bl_chat_template *chat, const bl_chat_input *input, const bl_chat_limits *limits,
                                  bl_text *out, bl_err *err)
{
    bl_chat_limits most = limits_for(input, limits);
    bl_arena *arena = bl_arena_create(most.memory);
    bl_jinja_scope top = {.kept = true};
    bl_jinja_buffer buffer = {.text = out};
    bl_err first = {0};
    size_t before = out->len;
    if (arena == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a chat template");
    bl_jinja_run run = {.arena = arena,
                        .err = &first,
                        .most_steps = most.steps,
                        .most_calls = most.depth,
                        .most_output = before + most.output,
                        .out = &buffer,
                        .top = &top,
                        .now = input->now};
    template_bind_input(&run, input);
    if (!run.failed)
        bl_jinja_execute(&run, &chat->body, &top);
    bl_arena_destroy(arena);
    bl_status st = run.failed ? bl_fail(err, first.status, "%s", first.text) : bl_text_status(out, err);
    if (st != BL_OK && out->data != NULL) {
        out->len = before;
        out->data[before] = '\0';
    }
    return st;
}
