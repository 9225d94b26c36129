/* SPDX-License-Identifier: MIT */
/* Renders chat templates.  Each input line is JSON: {"template": TEXT, "messages": [...], "tools": [...], "variables": {...},
 * "add_generation_prompt": bool, "limits": {"memory": N, "steps": N, "depth": N, "output": N}}.  The answer is a line "ok HEX"
 * or "STATUS: TEXT".  For test_chat_templates.py. */
#include "proto/chat/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VARIABLES = 64, NOW = 1732500000 };

static int64_t limit_of(const bl_json *limits, const char *name)
{
    bl_json value;
    int64_t out = 0;
    bl_err err = {0};
    if (bl_json_find(limits, name, &value) && bl_json_int(&value, 0, INT64_MAX, &out, &err) != BL_OK)
        exit(2);
    return out;
}

static bl_status render(const bl_json *line, bl_text *out, bl_err *err)
{
    bl_json source, variables, value = {0}, limits;
    bl_chat_variable list[MOST_VARIABLES];
    bl_chat_input input = {.variables = list, .now = NOW};
    bl_chat_limits most = {0};
    bl_chat_template *chat = NULL;
    BL_TRY(bl_json_need(line, "template", &source, err));
    BL_TRY(bl_json_need(line, "messages", &input.messages, err));
    if (bl_json_find(line, "tools", &value))
        input.tools = value;
    input.add_generation_prompt = bl_json_find(line, "add_generation_prompt", &value) && value.boolean;
    if (bl_json_find(line, "limits", &limits))
        most = (bl_chat_limits){.memory = (size_t)limit_of(&limits, "memory"),
                                .output = (size_t)limit_of(&limits, "output"),
                                .steps = (uint64_t)limit_of(&limits, "steps"),
                                .depth = (int)limit_of(&limits, "depth")};
    if (bl_json_find(line, "variables", &variables)) {
        bl_json_iter each = bl_json_each(&variables);
        while (input.nvariables < MOST_VARIABLES && bl_json_next(&each, &value)) {
            list[input.nvariables] = (bl_chat_variable){value.key, value};
            input.nvariables++;
        }
    }
    BL_TRY(bl_chat_template_parse(source.text, &chat, err));
    bl_status st = bl_chat_template_render(chat, &input, &most, out, err);
    bl_chat_template_destroy(chat);
    return st;
}

static void answer(char *line, size_t len)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_doc doc = {0};
    bl_text out = {0};
    bl_err err = {0};
    bl_status st = arena != NULL ? bl_json_parse(&doc, arena, (bl_span){line, len}, NULL, &err) : BL_ENOMEM;
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = render(&root, &out, &err);
    }
    if (st == BL_OK) {
        printf("ok ");
        for (size_t i = 0; i < out.len; i++)
            printf("%02x", (unsigned char)out.data[i]);
    } else {
        for (char *c = err.text; *c != '\0'; c++)
            *c = *c == '\n' ? ' ' : *c;
        printf("%s: %s", bl_status_name(st), err.text);
    }
    printf("\n");
    bl_text_fini(&out);
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    for (ssize_t len = getline(&line, &room, stdin); len > 0; len = getline(&line, &room, stdin))
        answer(line, (size_t)len);
    free(line);
    return 0;
}
