/* SPDX-License-Identifier: MIT */
#include "engine/base/text.h"

#include "engine/base/fault.h"
#include "engine/base/size.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 64 };

void bl_text_fini(bl_text *text)
{
    free(text->data);
    bl_budget_give(text->budget, text->cap);
    *text = (bl_text){.budget = text->budget};
}

void bl_text_clear(bl_text *text)
{
    text->len = 0;
    text->failed = false;
    if (text->data != NULL)
        text->data[0] = '\0';
}

char *bl_text_reserve(bl_text *text, size_t extra)
{
    size_t need;

    if (text->failed)
        return NULL;
    if (!bl_size_add(text->len, extra, &need) || !bl_size_add(need, 1, &need)) {
        text->failed = true;
        return NULL;
    }
    if (need > text->cap) {
        size_t cap = text->cap == 0 ? FIRST_CAP : text->cap + text->cap / 2;
        char *grown;

        if (cap < need)
            cap = need;
        if (bl_budget_borrow(text->budget, cap - text->cap, BL_ENOMEM, "a text", NULL) != BL_OK) {
            text->failed = true;
            return NULL;
        }
        grown = bl_realloc(text->data, cap);
        if (grown == NULL) {
            bl_budget_give(text->budget, cap - text->cap);
            text->failed = true;
            return NULL;
        }
        text->data = grown;
        text->cap = cap;
    }
    text->data[need - 1] = '\0'; /* text of |extra| bytes that the caller writes is NUL-terminated */
    return text->data + text->len;
}

void bl_text_append(bl_text *text, const char *data, size_t len)
{
    char *at = bl_text_reserve(text, len);

    if (at == NULL)
        return;
    if (len > 0)
        memcpy(at, data, len);
    text->len += len;
}

void bl_text_puts(bl_text *text, const char *data)
{
    bl_text_append(text, data, strlen(data));
}

void bl_text_putc(bl_text *text, char c)
{
    bl_text_append(text, &c, 1);
}

char bl_text_last(const bl_text *text)
{
    return text->len > 0 ? text->data[text->len - 1] : '\0';
}

void bl_text_printf(bl_text *text, const char *fmt, ...)
{
    size_t room = text->cap > text->len ? text->cap - text->len : 0;
    va_list args;
    int len;

    if (text->failed)
        return;
    va_start(args, fmt);
    len = vsnprintf(room > 0 ? text->data + text->len : NULL, room, fmt, args);
    va_end(args);
    if (len < 0) { /* the text is over 2 GiB */
        text->failed = true;
        if (room > 0)
            text->data[text->len] = '\0';
    } else if ((size_t)len >= room) { /* the first call only measured the text */
        char *at = bl_text_reserve(text, (size_t)len);

        if (at == NULL) {
            if (room > 0)
                text->data[text->len] = '\0';
            return;
        }
        va_start(args, fmt);
        vsnprintf(at, (size_t)len + 1, fmt, args);
        va_end(args);
    }
    if (len > 0)
        text->len += (size_t)len;
}

char *bl_text_take(bl_text *text)
{
    char *data = bl_text_reserve(text, 0) != NULL ? text->data : NULL;

    if (data == NULL)
        free(text->data);
    bl_budget_give(text->budget, text->cap); /* the caller owns the memory, which no longer counts against the budget */
    *text = (bl_text){0};
    return data;
}

bl_status bl_text_status(const bl_text *text, bl_err *err)
{
    if (text->failed)
        return bl_fail(err, BL_ENOMEM, "out of host memory after %zu bytes of text", text->len);
    return BL_OK;
}

const char *bl_text_get(const bl_text *text)
{
    return text->data == NULL ? "" : text->data;
}

bool bl_span_eq(bl_span a, bl_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool bl_span_is(bl_span a, const char *text)
{
    return bl_span_eq(a, (bl_span){text, strlen(text)});
}
