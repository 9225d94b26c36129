/* SPDX-License-Identifier: MIT */
#include "engine/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *title;
    int http;
} rows[BL_STATUS_COUNT] = {
#define BL_STATUS(id, http, title) [BL_##id] = {#id, title, http},
#include "engine/base/status.def"
#undef BL_STATUS
};

const char *bl_status_name(bl_status status)
{
    return (unsigned)status < BL_STATUS_COUNT ? rows[status].name : "?";
}

const char *bl_status_title(bl_status status)
{
    return (unsigned)status < BL_STATUS_COUNT ? rows[status].title : "?";
}

int bl_status_http(bl_status status)
{
    return (unsigned)status < BL_STATUS_COUNT ? rows[status].http : 500;
}

/* |text| was cut at |len| bytes. Drop the UTF-8 character that the cut may have split: the text goes into JSON. */
static void drop_split_character(char *text, size_t len)
{
    size_t start = len;

    while (start > 0 && len - start < 4 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start > 0 && (unsigned char)text[start - 1] >= 0xc0) {
        unsigned char lead = (unsigned char)text[start - 1];
        size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

        if (len - (start - 1) < want)
            text[start - 1] = '\0';
    }
}

bl_status bl_err_set(bl_err *err, bl_status status, const char *file, int line, const char *fmt, ...)
{
    va_list args;
    int len;

    BL_ASSERT(status != BL_OK);
    if (err == NULL)
        return status;
    if (err->status != BL_OK)
        return err->status;
    err->status = status;
    err->file = file;
    err->line = line;
    va_start(args, fmt);
    len = vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    if (len < 0)
        err->text[0] = '\0';
    else if ((size_t)len >= sizeof err->text)
        drop_split_character(err->text, sizeof err->text - 1);
    return status;
}

void bl_err_blame(bl_err *err, const char *node)
{
    if (err == NULL || node == NULL || err->node[0] != '\0')
        return;
    if ((size_t)snprintf(err->node, sizeof err->node, "%s", node) >= sizeof err->node)
        drop_split_character(err->node, sizeof err->node - 1);
}

void bl_err_describe(const bl_err *err, char *out, size_t size)
{
    char named[sizeof err->node + 8];
    bool says = false;
    int len = 0;

    (void)snprintf(named, sizeof named, "node \"%s\"", err->node);
    says = err->node[0] == '\0' || strstr(err->text, named) != NULL;
    len = says ? snprintf(out, size, "%s", err->text) : snprintf(out, size, "%s (%s)", err->text, named);
    if (len >= 0 && (size_t)len >= size)
        drop_split_character(out, size - 1);
}

#ifndef NDEBUG
_Noreturn void bl_assert_fail(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
#endif
