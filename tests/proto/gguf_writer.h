/* Writes GGUF files for tests. */
#ifndef BL_TESTS_PROTO_GGUF_WRITER_H
#define BL_TESTS_PROTO_GGUF_WRITER_H

#include "proto/gguf/gguf.h"

#include <string.h>

static inline void put(bl_text *file, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        bl_text_putc(file, (char)(i < sizeof value ? value >> 8 * i & 0xff : 0));
}

static inline void put_text(bl_text *file, const char *text)
{
    put(file, strlen(text), 8);
    bl_text_puts(file, text);
}

static inline void put_header(bl_text *file, unsigned version, uint64_t tensors, uint64_t keys)
{
    bl_text_puts(file, "GGUF");
    put(file, version, 4);
    put(file, tensors, 8);
    put(file, keys, 8);
}

static inline void put_key(bl_text *file, const char *name, bl_gguf_kind kind, uint64_t value, size_t bytes)
{
    put_text(file, name);
    put(file, kind, 4);
    put(file, value, bytes);
}

static inline void put_text_key(bl_text *file, const char *name, const char *text)
{
    put_text(file, name);
    put(file, BL_GGUF_TEXT, 4);
    put_text(file, text);
}

/* Begins an array; the caller writes its elements next. */
static inline void put_array(bl_text *file, const char *name, unsigned kind, uint64_t count)
{
    put_text(file, name);
    put(file, BL_GGUF_ARRAY, 4);
    put(file, kind, 4);
    put(file, count, 8);
}

#endif
