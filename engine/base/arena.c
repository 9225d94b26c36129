/* SPDX-License-Identifier: MIT */
#include "engine/base/arena.h"

#include "engine/base/fault.h"
#include "engine/base/size.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(x) 0 /* gcc defines __SANITIZE_ADDRESS__ instead */
#endif
#if (defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)) && __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#define POISON(at, size)   ASAN_POISON_MEMORY_REGION((at), (size))
#define UNPOISON(at, size) ASAN_UNPOISON_MEMORY_REGION((at), (size))
enum { RED_ZONE = 16 }; /* an overrun of one allocation hits poisoned bytes, not the next allocation */
#else
#define POISON(at, size)   ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
enum { RED_ZONE = 0 };
#endif

enum {
    ALIGN = 16,
    FIRST_BLOCK = 4096,       /* most requests fit in a few of these */
    LARGEST_STEP = 1 << 20,   /* each block is twice as large as the last, up to this size */
    KEEP_AT_RESET = 256 << 10 /* bl_arena_reset keeps this many bytes for the next use */
};

typedef struct block {
    struct block *next;
    size_t size; /* bytes of |data| */
    _Alignas(ALIGN) unsigned char data[];
} block;

struct bl_arena {
    block *first, *last; /* in order of use */
    block *current;      /* the blocks after |current| are empty: bl_arena_reset kept them */
    size_t filled;       /* bytes used in |current| */
    size_t used, limit;
    bl_status status; /* sticky */
};

bl_arena *bl_arena_create(size_t limit)
{
    bl_arena *arena = bl_calloc(1, sizeof *arena);

    if (arena != NULL)
        arena->limit = limit;
    return arena;
}

static void free_blocks(block *at)
{
    while (at != NULL) {
        block *next = at->next;

        UNPOISON(at->data, at->size);
        free(at);
        at = next;
    }
}

void bl_arena_destroy(bl_arena *arena)
{
    if (arena == NULL)
        return;
    free_blocks(arena->first);
    free(arena);
}

void bl_arena_reset(bl_arena *arena)
{
    block *keep = NULL;
    size_t kept = 0;

    for (block *at = arena->first; at != NULL && kept + at->size <= KEEP_AT_RESET; at = at->next) {
        POISON(at->data, at->size);
        kept += at->size;
        keep = at;
    }
    if (keep == NULL) {
        free_blocks(arena->first);
        arena->first = NULL;
    } else {
        free_blocks(keep->next);
        keep->next = NULL;
    }
    arena->last = keep;
    arena->current = arena->first;
    arena->filled = 0;
    arena->used = 0;
    arena->status = BL_OK;
}

/* Make |current| a block with |size| free bytes. */
static bool next_block(bl_arena *arena, size_t size)
{
    size_t step = arena->last == NULL ? FIRST_BLOCK : arena->last->size * 2;
    size_t total;
    block *fresh;

    while (arena->current != arena->last) { /* both are NULL in an empty arena */
        arena->current = arena->current->next;
        arena->filled = 0;
        if (arena->current->size >= size)
            return true;
    }
    if (step > LARGEST_STEP)
        step = LARGEST_STEP;
    if (step < size)
        step = size;
    if (!bl_size_add(sizeof *fresh, step, &total))
        return false;
    fresh = bl_realloc(NULL, total); /* bl_arena_alloc zeroes each allocation */
    if (fresh == NULL)
        return false;
    fresh->next = NULL;
    fresh->size = step;
    POISON(fresh->data, fresh->size);
    if (arena->last == NULL)
        arena->first = fresh;
    else
        arena->last->next = fresh;
    arena->last = arena->current = fresh;
    arena->filled = 0;
    return true;
}

void *bl_arena_alloc(bl_arena *arena, size_t size)
{
    size_t rounded, room;
    void *at;

    if (arena->status != BL_OK)
        return NULL;
    if (!bl_size_align(size, ALIGN, &rounded) || !bl_size_add(rounded, RED_ZONE, &room) ||
        (arena->limit != 0 && rounded > arena->limit - arena->used)) {
        arena->status = BL_ELIMIT;
        return NULL;
    }
    if (arena->current == NULL || arena->current->size - arena->filled < room) {
        if (!next_block(arena, room)) {
            arena->status = BL_ENOMEM;
            return NULL;
        }
    }
    at = arena->current->data + arena->filled;
    arena->filled += room;
    arena->used += rounded;
    UNPOISON(at, size);
    return memset(at, 0, size);
}

void *bl_arena_array(bl_arena *arena, size_t count, size_t size)
{
    size_t bytes;

    if (!bl_size_mul(count, size, &bytes)) {
        if (arena->status == BL_OK)
            arena->status = BL_ELIMIT;
        return NULL;
    }
    return bl_arena_alloc(arena, bytes);
}

bool bl_arena_reserve(bl_arena *arena, void **at, int count, int *cap, size_t size)
{
    int more = *cap > INT_MAX / 2 ? INT_MAX : *cap * 2 + 8;
    void *grown = NULL;

    if (count < *cap)
        return true;
    grown = bl_arena_array(arena, (size_t)more, size);
    if (grown == NULL)
        return false;
    if (count > 0)
        memcpy(grown, *at, (size_t)count * size);
    *at = grown;
    *cap = more;
    return true;
}

char *bl_arena_strdup(bl_arena *arena, const char *text)
{
    return bl_arena_strndup(arena, text, strlen(text));
}

char *bl_arena_strndup(bl_arena *arena, const char *text, size_t len)
{
    char *copy = bl_arena_alloc(arena, len + 1);

    if (copy != NULL)
        memcpy(copy, text, len);
    return copy;
}

char *bl_arena_printf(bl_arena *arena, const char *fmt, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0)
        return bl_arena_array(arena, SIZE_MAX, 2); /* over 2 GiB of text: fail with BL_ELIMIT */
    text = bl_arena_alloc(arena, (size_t)len + 1);
    if (text == NULL)
        return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}

size_t bl_arena_used(const bl_arena *arena)
{
    return arena->used;
}

bl_status bl_arena_status(const bl_arena *arena, bl_err *err)
{
    if (arena->status == BL_ELIMIT)
        return bl_fail(err, BL_ELIMIT, "the working memory exceeds its limit of %zu bytes", arena->limit);
    if (arena->status != BL_OK)
        return bl_fail(err, arena->status, "out of host memory after %zu bytes", arena->used);
    return BL_OK;
}
