/* A growing text, and spans of text owned by others.
 * A bl_text that could not grow is sticky: it keeps what it has, ignores the rest, and says so. */
#ifndef BL_BASE_TEXT_H
#define BL_BASE_TEXT_H

#include "engine/base/budget.h"

#include <stdint.h>

typedef struct bl_text {
    char *data; /* NUL-terminated unless NULL; owned */
    size_t len;
    size_t cap;
    bool failed;       /* out of memory: the text is not whole */
    bl_budget *budget; /* that its memory counts against, or NULL; the owner's, and kept by everything but bl_text_take */
} bl_text;

/* A zeroed bl_text is an empty one. */
void bl_text_fini(bl_text *text);
void bl_text_clear(bl_text *text); /* empty, memory kept */
void bl_text_append(bl_text *text, const char *data, size_t len);
void bl_text_puts(bl_text *text, const char *data);
void bl_text_putc(bl_text *text, char c);
char bl_text_last(const bl_text *text); /* NUL of an empty one */
void bl_text_printf(bl_text *text, const char *fmt, ...) BL_PRINTF(2, 3);
/* Room for |extra| more bytes; NULL if there is none.  The caller writes there and adds to len. */
char *bl_text_reserve(bl_text *text, size_t extra);
/* The memory moves to the caller, who frees it with free(); never NULL but where the text is not whole. */
char *bl_text_take(bl_text *text);
BL_NODISCARD bl_status bl_text_status(const bl_text *text, bl_err *err);
/* What is there, "" where nothing is. */
const char *bl_text_get(const bl_text *text);

/* Borrowed bytes. */
typedef struct bl_span {
    const char *data;
    size_t len;
} bl_span;
#define BL_S(literal) ((bl_span){(literal), sizeof(literal) - 1})
bool bl_span_eq(bl_span a, bl_span b);
bool bl_span_is(bl_span a, const char *text);

#endif
