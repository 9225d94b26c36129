/* Growing text, and borrowed spans of text. A failure is sticky: a bl_text that cannot grow keeps its text, ignores later text
 * and reports the failure in bl_text_status. */
#ifndef BL_BASE_TEXT_H
#define BL_BASE_TEXT_H

#include "engine/base/budget.h"

#include <stdint.h>

typedef struct bl_text {
    char *data; /* owned; NUL-terminated unless NULL */
    size_t len;
    size_t cap;
    bool failed;       /* out of memory: the text is incomplete */
    bl_budget *budget; /* borrowed, or NULL; the memory of the text counts against it; every function but bl_text_take keeps it */
} bl_text;

/* A zero-initialised bl_text is an empty text. */
void bl_text_fini(bl_text *text);
void bl_text_clear(bl_text *text); /* empty the text but keep its memory */
void bl_text_append(bl_text *text, const char *data, size_t len);
void bl_text_puts(bl_text *text, const char *data);
void bl_text_putc(bl_text *text, char c);
char bl_text_last(const bl_text *text); /* the last character; NUL if the text is empty */
void bl_text_printf(bl_text *text, const char *fmt, ...) BL_PRINTF(2, 3);
/* Make room for |extra| more bytes. The caller writes them at the returned address and adds to |len|. NULL without memory. */
char *bl_text_reserve(bl_text *text, size_t extra);
/* Move the text to the caller, who frees it with free(). NULL only if the text is incomplete. */
char *bl_text_take(bl_text *text);
BL_NODISCARD bl_status bl_text_status(const bl_text *text, bl_err *err);
/* The text; "" if nothing was written. */
const char *bl_text_get(const bl_text *text);

/* Bytes that the span does not own. */
typedef struct bl_span {
    const char *data;
    size_t len;
} bl_span;
#define BL_S(literal) ((bl_span){(literal), sizeof(literal) - 1})
bool bl_span_eq(bl_span a, bl_span b);
bool bl_span_is(bl_span a, const char *text);

#endif
