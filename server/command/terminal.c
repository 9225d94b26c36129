/* SPDX-License-Identifier: MIT */
#include "server/command/terminal.h"

#include "proto/utf8.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utf8proc.h>

enum { USUAL_COLUMNS = 80, USUAL_ROWS = 24 };

/* ---- Ctrl-C */

int bl_terminal_catch_interrupts(bool blocks)
{
    sigset_t interrupt;
    sigemptyset(&interrupt);
    if (blocks) {
        sigaddset(&interrupt, SIGINT);
        sigprocmask(SIG_BLOCK, &interrupt, NULL);
    }
    return signalfd(-1, &interrupt, SFD_NONBLOCK | SFD_CLOEXEC);
}

bool bl_terminal_is_interrupted(int fd)
{
    struct signalfd_siginfo info;
    bool any = false;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        any = true;
    return any;
}

bool bl_terminal_sleep(int fd, double seconds)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    (void)poll(&one, 1, (int)(seconds * 1e3));
    return !bl_terminal_is_interrupted(fd);
}

/* ---- size and character set */

void bl_terminal_size(int *columns, int *rows)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *columns = known ? size.ws_col : USUAL_COLUMNS;
    *rows = known ? size.ws_row : USUAL_ROWS;
}

bool bl_terminal_has_unicode(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *locale = getenv(names[i]);
        if (locale != NULL && *locale != '\0')
            return strcasestr(locale, "UTF-8") != NULL || strcasestr(locale, "utf8") != NULL;
    }
    return false;
}

/* ---- untrusted text */

/* Is |c| a control character, or a character that changes the writing direction? */
static bool is_obeyed(utf8proc_int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static void put_escaped(bl_text *out, const char *text, const char *let)
{
    for (size_t left = strlen(text); left > 0;) {
        utf8proc_int32_t c = 0;
        size_t len = bl_utf8_length(text, left);
        if (len > 0)
            (void)utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &c);
        if (len == 0)
            bl_text_printf(out, "\\x%02x", (unsigned char)*text);
        else if (is_obeyed(c) && (c == 0 || c >= 0x80 || strchr(let, (int)c) == NULL))
            bl_text_printf(out, "\\u%04x", (unsigned)c);
        else
            bl_text_append(out, text, len);
        len += len == 0;
        text += len;
        left -= len;
    }
}

void bl_text_put_safe(bl_text *out, const char *text)
{
    put_escaped(out, text, "");
}

void bl_text_put_words(bl_text *out, const char *text)
{
    put_escaped(out, text, "\n\t");
}

int bl_terminal_width(const char *text)
{
    int width = 0;
    for (size_t left = strlen(text); left > 0;) {
        utf8proc_int32_t c = 0;
        size_t len = bl_utf8_length(text, left);
        if (len == 0)
            return width;
        (void)utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len, &c);
        width += utf8proc_charwidth(c);
        text += len;
        left -= len;
    }
    return width;
}

void bl_text_put_line(bl_text *out, const char *text, size_t len, int columns)
{
    int width = 0;
    for (size_t at = 0, step = 0; at < len; at += step) {
        char one[8] = "";
        step = bl_utf8_length(text + at, len - at);
        step += step == 0;
        memcpy(one, text + at, step);
        width += bl_terminal_width(one);
        if (width > columns)
            break;
        bl_text_append(out, text + at, step);
    }
    bl_text_puts(out, "\n");
}

bool bl_terminal_print(const bl_text *text)
{
    return !text->failed && (text->len == 0 || fwrite(text->data, 1, text->len, stdout) == text->len) && fflush(stdout) == 0;
}

bool bl_terminal_print_line(const char *text)
{
    bl_text line = {0};
    bl_text_put_safe(&line, text);
    bl_text_puts(&line, "\n");
    bool whole = bl_terminal_print(&line);
    bl_text_fini(&line);
    return whole;
}

/* ---- tables */

void bl_table_add(bl_table *table, const char *text)
{
    bl_text cell = {0};
    if (table->count == table->cap) {
        size_t cap = 2 * table->cap + 64;
        char **longer = realloc(table->cells, cap * sizeof *longer);
        table->failed = table->failed || longer == NULL;
        if (longer == NULL)
            return;
        table->cells = longer;
        table->cap = cap;
    }
    bl_text_put_safe(&cell, text);
    table->cells[table->count] = bl_text_take(&cell);
    table->failed = table->failed || table->cells[table->count] == NULL;
    table->count++;
}

void bl_table_addf(bl_table *table, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bl_table_add(table, text);
}

/* Append |text|, cut or padded to |width| columns. */
static void put_cell(bl_text *out, const char *text, int width, bool right, bool last)
{
    int has = bl_terminal_width(text);
    const char *mark = bl_terminal_has_unicode() ? "…" : "~";
    if (has > width) {
        int room = width - 1;
        for (size_t left = strlen(text); left > 0 && room > 0;) {
            size_t len = bl_utf8_length(text, left);
            char one[8] = "";
            memcpy(one, text, len);
            room -= bl_terminal_width(one);
            if (room >= 0)
                bl_text_append(out, text, len);
            text += len;
            left -= len;
        }
        bl_text_puts(out, mark);
    } else {
        for (int i = has; right && i < width; i++)
            bl_text_putc(out, ' ');
        bl_text_puts(out, text);
        for (int i = has; !right && !last && i < width; i++)
            bl_text_putc(out, ' ');
    }
    bl_text_puts(out, last ? "\n" : "  ");
}

static void fit_columns(int *widths, const char *const *heads, int n)
{
    int columns = 0, rows = 0, total = 2 * (n - 1);
    if (!isatty(STDOUT_FILENO))
        return;
    bl_terminal_size(&columns, &rows);
    for (int i = 0; i < n; i++)
        total += widths[i];
    while (total > columns) {
        int widest = -1;
        for (int i = 0; i < n; i++)
            if (heads[i][0] != '>' && widths[i] > 8 && (widest < 0 || widths[i] > widths[widest]))
                widest = i;
        if (widest < 0)
            return;
        widths[widest]--;
        total--;
    }
}

bl_status bl_table_end(bl_table *table, bl_err *err)
{
    int widths[BL_TABLE_COLUMNS], n = 0;
    bl_text out = {0};
    for (; n < BL_TABLE_COLUMNS && table->heads[n] != NULL; n++)
        widths[n] = bl_terminal_width(table->heads[n] + (table->heads[n][0] == '>'));
    for (size_t i = 0; i < table->count && !table->failed; i++) {
        int width = bl_terminal_width(table->cells[i]);
        if (width > widths[i % (size_t)n])
            widths[i % (size_t)n] = width;
    }
    fit_columns(widths, table->heads, n);
    for (int i = 0; i < n; i++)
        put_cell(&out, table->heads[i] + (table->heads[i][0] == '>'), widths[i], table->heads[i][0] == '>', i == n - 1);
    for (size_t i = 0; i < table->count && !table->failed; i++) {
        int at = (int)(i % (size_t)n);
        put_cell(&out, table->cells[i], widths[at], table->heads[at][0] == '>', at == n - 1);
    }
    bool whole = !table->failed && bl_terminal_print(&out);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    bl_text_fini(&out);
    return whole ? BL_OK : bl_fail(err, BL_ENOMEM, "the table cannot be printed");
}

/* ---- numbers */

void bl_text_put_bytes(bl_text *out, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        unit++;
    }
    bl_text_printf(out, unit > 0 && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void bl_text_put_seconds(bl_text *out, double seconds)
{
    long whole = isfinite(seconds) && seconds < 1e15 ? (long)(seconds + 0.5) : 0;
    if (seconds < 9.95)
        bl_text_printf(out, "%.1f s", seconds);
    else if (whole < 100)
        bl_text_printf(out, "%ld s", whole);
    else if (whole < 6000)
        bl_text_printf(out, "%ld min %02ld s", whole / 60, whole % 60);
    else if (whole < 48L * 3600)
        bl_text_printf(out, "%ld h %02ld min", whole / 3600, whole / 60 % 60);
    else
        bl_text_printf(out, "%ld d %ld h", whole / 86400, whole / 3600 % 24);
}

void bl_text_put_time(bl_text *out, double seconds)
{
    static const struct {
        double least, factor;
        const char *unit;
    } units[] = {{1, 1, "s"}, {1e-3, 1e3, "ms"}, {0, 1e6, "us"}};
    size_t i = 0;
    while (seconds < units[i].least)
        i++;
    bl_text_printf(out, "%.3g %s", seconds * units[i].factor, units[i].unit);
}

void bl_text_put_count(bl_text *out, double count)
{
    char digits[400];
    int len = snprintf(digits, sizeof digits, "%.0f", count);
    for (int i = 0; i < len && i < (int)sizeof digits; i++) {
        bl_text_putc(out, digits[i]);
        if (digits[i] != '-' && i + 1 < len && (len - i - 1) % 3 == 0)
            bl_text_putc(out, ',');
    }
}
