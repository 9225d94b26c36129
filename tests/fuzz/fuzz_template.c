/* SPDX-License-Identifier: MIT */
/* libFuzzer: the input is a chat template, rendered with a conversation under small limits. */
#include "proto/chat/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Brief.\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", "
    "\"text\": "
    "\"h\\u00e9\"}]}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", "
    "\"arguments\": "
    "{\"a\": [1, 2.5, true]}}}]}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bl_chat_limits limits = {.memory = 1 << 20, .output = 1 << 16, .steps = 20000, .depth = 16};
    bl_chat_input input = {.add_generation_prompt = true, .bos_token = "<s>", .eos_token = "</s>", .now = 1};
    bl_chat_template *chat = NULL;
    bl_arena *arena = bl_arena_create(0);
    bl_json_doc doc = {0};
    bl_text out = {0};
    bl_err err = {0};
    if (arena == NULL || bl_json_parse(&doc, arena, (bl_span){conversation, sizeof conversation - 1}, NULL, &err) != BL_OK)
        abort();
    bl_json root = bl_json_root(&doc);
    if (!bl_json_find(&root, "messages", &input.messages) || !bl_json_find(&root, "tools", &input.tools))
        abort();
    if (bl_chat_template_parse((bl_span){(const char *)data, size}, &chat, &err) == BL_OK &&
        bl_chat_template_render(chat, &input, &limits, &out, &err) == BL_OK && out.len > limits.output)
        abort();
    bl_chat_template_destroy(chat);
    bl_text_fini(&out);
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return 0;
}
