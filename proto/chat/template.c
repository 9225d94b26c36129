/* SPDX-License-Identifier: MIT */
#include "proto/chat/template.h"

#include <stdlib.h>
#include <string.h>

/* Until the interpreter is there, every template renders as ChatML. */
struct bl_chat_template {
    char *source;
};

const char bl_chat_template_chatml[] = "{%- for message in messages -%}\n"
                                       "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
                                       "{%- endfor -%}\n"
                                       "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}\n";

bl_status bl_chat_template_parse(bl_span source, bl_chat_template **out, bl_err *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL || ((*out)->source = strndup(source.data, source.len)) == NULL) {
        free(*out);
        *out = NULL;
        return bl_fail(err, BL_ENOMEM, "the chat template");
    }
    return BL_OK;
}

void bl_chat_template_destroy(bl_chat_template *chat)
{
    if (chat != NULL)
        free(chat->source);
    free(chat);
}

const char *bl_chat_template_source(const bl_chat_template *chat)
{
    return chat->source;
}

bool bl_chat_template_reads(const bl_chat_template *chat, const char *name)
{
    return strstr(chat->source, name) != NULL;
}

static void put_member(const bl_json *message, const char *name, bl_text *out)
{
    bl_json value;
    if (bl_json_find(message, name, &value) && value.kind == BL_JSON_STRING)
        bl_text_append(out, value.text.data, value.text.len);
}

bl_status bl_chat_template_render(const bl_chat_template *chat, const bl_chat_input *input, const bl_chat_limits *limits,
                                  bl_text *out, bl_err *err)
{
    bl_json_iter each = bl_json_each(&input->messages);
    bl_json message;
    (void)chat;
    (void)limits;
    while (bl_json_next(&each, &message)) {
        bl_text_puts(out, "<|im_start|>");
        put_member(&message, "role", out);
        bl_text_puts(out, "\n");
        put_member(&message, "content", out);
        bl_text_puts(out, "<|im_end|>\n");
    }
    if (input->add_generation_prompt)
        bl_text_puts(out, "<|im_start|>assistant\n");
    return bl_text_status(out, err);
}
