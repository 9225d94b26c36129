/* SPDX-License-Identifier: MIT */
#include "proto/tokenizer_build.h"

#include <stddef.h>
#include <string.h>

typedef struct mark_text {
    size_t member; /* offset in bl_token_marks */
    bl_span text;
} mark_text;

static int32_t *tokenizer_marks_find_member(bl_tokenizer *t, size_t member)
{
    return (int32_t *)(void *)((char *)&t->marks + member);
}

/* The id of |text|; -1 if the vocabulary has no such token, or if the file calls it ordinary and is trusted. */
static int32_t tokenizer_marks_find_mark(const bl_tokenizer *t, bl_span text, bool doubts)
{
    int32_t id = bl_tokenizer_find(t, text);
    return id >= 0 && (doubts || t->tokens[id].special) ? id : -1;
}

static void find_by_text(bl_tokenizer *t, bool doubts)
{
    static const mark_text texts[] = {
#define BL_MARK_TEXT(member, text) {offsetof(bl_token_marks, member), {text, sizeof(text) - 1}},
#include "proto/token_marks.def"
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int32_t *id = tokenizer_marks_find_member(t, texts[i].member);
        if (*id < 0 && (*id = tokenizer_marks_find_mark(t, texts[i].text, doubts)) >= 0)
            t->tokens[*id].special = true;
    }
}

static void add_end(bl_tokenizer *t, int32_t id)
{
    if (id >= 0)
        t->tokens[id].end = true;
}

static void find_ends(bl_tokenizer *t, bool doubts)
{
    static const bl_span texts[] = {
#define BL_MARK_END(text) {text, sizeof(text) - 1},
#include "proto/token_marks.def"
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int32_t id = tokenizer_marks_find_mark(t, texts[i], doubts);
        add_end(t, id);
        if (id >= 0)
            t->tokens[id].special = true;
    }
    add_end(t, t->marks.fill_pad);
    add_end(t, t->marks.repository);
    add_end(t, t->marks.file);
    add_end(t, t->marks.eos);
    add_end(t, t->marks.eot);
    add_end(t, t->marks.eom);
}

static bool is_end_text(const bl_tokenizer *t, bl_span text)
{
    return bl_tokenizer_is_end(t, bl_tokenizer_find(t, text));
}

static void find_exceptions(bl_tokenizer *t)
{
    static const bl_span no_ends[][3] = {
#define BL_MARK_NO_END(text, a, b) {{text, sizeof(text) - 1}, {a, sizeof(a) - 1}, {b, sizeof(b) - 1}},
#include "proto/token_marks.def"
    };
    static const bl_span shown[] = {
#define BL_MARK_SHOWN(text) {text, sizeof(text) - 1},
#include "proto/token_marks.def"
    };
    for (size_t i = 0; i < sizeof no_ends / sizeof no_ends[0]; i++)
        if (is_end_text(t, no_ends[i][0]) && is_end_text(t, no_ends[i][1]) && is_end_text(t, no_ends[i][2])) {
            bl_token *token = &t->tokens[bl_tokenizer_find(t, no_ends[i][0])];
            token->special = token->end = false;
        }
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        int32_t id = bl_tokenizer_find(t, shown[i]);
        if (id >= 0)
            t->tokens[id].special = false;
    }
}

void bl_token_clear_marks(bl_tokenizer *t)
{
    t->marks = (bl_token_marks){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, false, false};
}

void bl_token_find_marks(bl_tokenizer *t, bool doubts)
{
    find_by_text(t, doubts);
    find_ends(t, doubts);
    if (doubts)
        find_exceptions(t);
    if (t->marks.unknown < 0)
        t->marks.unknown = t->unknown;
}
