/* SPDX-License-Identifier: MIT */
#include "opencl/opencl.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { MAX_LINES = 3, MAX_LINE = 160 };

static bool ends_token(char c)
{
    return c == ':' || c == ',' || c == ';' || c == '\'' || c == '"' || c == ')' || isspace((unsigned char)c);
}

static bool names_something(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Copies a line without absolute paths, since a client must not see the names of the driver's temporary files. */
static void copy_line(const char *line, size_t len, bl_text *out)
{
    char last = ' ';

    for (size_t i = 0; i < len && i < MAX_LINE; i++) {
        if (line[i] == '/' && !names_something(last) && i + 1 < len && names_something(line[i + 1])) {
            bl_text_puts(out, "kernel");
            while (i + 1 < len && !ends_token(line[i + 1]))
                i++;
        } else if (isprint((unsigned char)line[i])) {
            bl_text_putc(out, line[i]);
        } else {
            bl_text_putc(out, ' ');
        }
        last = line[i];
    }
}

static bool says_error(const char *line, size_t len)
{
    for (size_t i = 0; i + 5 <= len; i++) {
        if (strncasecmp(line + i, "error", 5) == 0)
            return true;
    }
    return false;
}

/* Appends up to MAX_LINES lines of the log; returns the number of lines. */
static int add_lines(const char *log, size_t len, bool errors_only, bl_text *out)
{
    int added = 0;

    for (size_t at = 0; at < len && added < MAX_LINES;) {
        const char *line = log + at, *end = memchr(line, '\n', len - at);
        size_t n = end != NULL ? (size_t)(end - line) : len - at;

        at += n + 1;
        if (n == 0 || (errors_only && !says_error(line, n)))
            continue;
        if (added++ > 0)
            bl_text_puts(out, "; ");
        copy_line(line, n, out);
    }
    return added;
}

void bl_cl_log_summary(const char *log, size_t len, bl_text *out)
{
    len = strnlen(log, len);
    if (add_lines(log, len, true, out) == 0 && add_lines(log, len, false, out) == 0)
        bl_text_puts(out, "the driver does not say why");
}
