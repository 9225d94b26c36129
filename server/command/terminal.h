/* SPDX-License-Identifier: MIT */
/* The terminal: its size, Ctrl-C, and text that it may show.  Thread: one. */
#ifndef BL_SERVER_COMMAND_TERMINAL_H
#define BL_SERVER_COMMAND_TERMINAL_H

#include "engine/base/text.h"

/* Ctrl-C becomes a descriptor that is readable, until it is closed; -1 where that cannot be.  With |blocks| false nothing is
 * blocked, and the descriptor never becomes readable. */
int bl_terminal_catch_interrupts(bool blocks);
bool bl_terminal_is_interrupted(int fd); /* since it was asked last */
/* Wait; false: Ctrl-C came before. */
bool bl_terminal_sleep(int fd, double seconds);

/* Of standard output; 80 x 24 where it is no terminal. */
void bl_terminal_size(int *columns, int *rows);
bool bl_terminal_has_unicode(void); /* its locale has UTF-8 */

/* Text of others: control characters, newlines too, and marks of direction are escaped as \u001b, bytes that are no UTF-8 as
 * \xff, so that the terminal obeys none. */
void bl_text_put_safe(bl_text *out, const char *text);
void bl_text_put_words(bl_text *out, const char *text); /* the same of a text of several lines, or of JSON */
int bl_terminal_width(const char *text);                /* columns that it takes, if it was put so */

/* So much of a line, put so, as fits |columns|, and a newline. */
void bl_text_put_line(bl_text *out, const char *text, size_t len, int columns);

/* Print and flush; false where standard output takes it not. */
bool bl_terminal_print(const bl_text *text);
bool bl_terminal_print_line(const char *text); /* text of others, and a newline */

/* ---- tables */

enum { BL_TABLE_COLUMNS = 12 };

/* Rows of cells, printed with columns as wide as their widest cell; on a terminal the widest column gives way. */
typedef struct bl_table {
    const char *heads[BL_TABLE_COLUMNS]; /* NULL ends them; one that begins with > is right-aligned */
    char **cells;                        /* owned */
    size_t count, cap;
    bool failed;
} bl_table;

void bl_table_add(bl_table *table, const char *text); /* the next cell */
void bl_table_addf(bl_table *table, const char *fmt, ...) BL_PRINTF(2, 3);
/* Print, and free. */
BL_NODISCARD bl_status bl_table_end(bl_table *table, bl_err *err);

/* "12.5 MB"; "1 h 05 min"; "12,000" */
void bl_text_put_bytes(bl_text *out, double bytes);
void bl_text_put_seconds(bl_text *out, double seconds);
void bl_text_put_time(bl_text *out, double seconds); /* "84.1 us" */
void bl_text_put_count(bl_text *out, double count);

#endif
