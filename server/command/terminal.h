/* SPDX-License-Identifier: MIT */
/* The terminal: its size, Ctrl-C, and safe printing of text.  Thread: one. */
#ifndef BL_SERVER_COMMAND_TERMINAL_H
#define BL_SERVER_COMMAND_TERMINAL_H

#include "engine/base/text.h"

/* Returns a descriptor that becomes readable after Ctrl-C; -1 on failure.  The caller closes it.  With |blocks| false SIGINT is
 * not blocked, and the descriptor never becomes readable. */
int bl_terminal_catch_interrupts(bool blocks);
bool bl_terminal_is_interrupted(int fd); /* was Ctrl-C pressed since the last call? */
/* Sleep; false if Ctrl-C ended the sleep. */
bool bl_terminal_sleep(int fd, double seconds);

/* Size of standard output; 80 x 24 if it is not a terminal. */
void bl_terminal_size(int *columns, int *rows);
bool bl_terminal_has_unicode(void); /* does the locale use UTF-8? */

/* Append untrusted text.  Control characters, including newlines, and direction marks are escaped as \u001b, bytes that are not
 * UTF-8 as \xff, so that the terminal interprets none of them. */
void bl_text_put_safe(bl_text *out, const char *text);
/* bl_text_put_safe for a text of several lines, or for JSON: keeps newlines and tabs */
void bl_text_put_words(bl_text *out, const char *text);
int bl_terminal_width(const char *text); /* number of columns of escaped text */

/* Append as much of an escaped line as fits into |columns|, and a newline. */
void bl_text_put_line(bl_text *out, const char *text, size_t len, int columns);

/* Print and flush; false if standard output cannot be written. */
bool bl_terminal_print(const bl_text *text);
bool bl_terminal_print_line(const char *text); /* print untrusted text, and a newline */

/* ---- tables */

enum { BL_TABLE_COLUMNS = 12 };

/* A table whose columns are as wide as their widest cell; on a terminal the widest column is shortened. */
typedef struct bl_table {
    const char *heads[BL_TABLE_COLUMNS]; /* heads of the columns, ended by NULL; > at the beginning means right-aligned */
    char **cells;                        /* cells of the rows; owned */
    size_t count, cap;
    bool failed;
} bl_table;

void bl_table_add(bl_table *table, const char *text); /* add the next cell */
void bl_table_addf(bl_table *table, const char *fmt, ...) BL_PRINTF(2, 3);
/* Print and free the table. */
BL_NODISCARD bl_status bl_table_end(bl_table *table, bl_err *err);

/* Append a number of bytes as "12.5 MB", a duration as "1 h 05 min", a number as "12,000". */
void bl_text_put_bytes(bl_text *out, double bytes);
void bl_text_put_seconds(bl_text *out, double seconds);
void bl_text_put_time(bl_text *out, double seconds); /* append for instance "84.1 us" */
void bl_text_put_count(bl_text *out, double count);

#endif
