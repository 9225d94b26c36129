/* Bump allocation with one end of life and a byte limit.
 * An arena that is out of memory or over its limit stays so ("sticky"): every later call gives NULL,
 * and bl_arena_status says why, so that code building graphs checks once.  Thread: one at a time. */
#ifndef BL_BASE_ARENA_H
#define BL_BASE_ARENA_H

#include "engine/base/status.h"

#include <stdint.h>

typedef struct bl_arena bl_arena;

/* |limit| bytes at the most; 0 is no limit.  NULL if the host is out of memory. */
bl_arena *bl_arena_create(size_t limit);
void bl_arena_destroy(bl_arena *arena);
/* Forget everything allocated but keep the first blocks for the next use. */
void bl_arena_reset(bl_arena *arena);

/* 16-byte aligned and zeroed, or NULL.  |size| 0 gives a valid pointer. */
void *bl_arena_alloc(bl_arena *arena, size_t size) __attribute__((malloc));
/* |count| items of |size| bytes; an overflow of the product is BL_ELIMIT. */
void *bl_arena_array(bl_arena *arena, size_t count, size_t size);
/* The array |*at| of |count| items with room for one more: itself, or a larger copy.  False without memory. */
bool bl_arena_reserve(bl_arena *arena, void **at, int count, int *cap, size_t size);
char *bl_arena_strdup(bl_arena *arena, const char *text);
char *bl_arena_strndup(bl_arena *arena, const char *text, size_t len);
char *bl_arena_printf(bl_arena *arena, const char *fmt, ...) BL_PRINTF(2, 3);

size_t bl_arena_used(const bl_arena *arena);
BL_NODISCARD bl_status bl_arena_status(const bl_arena *arena, bl_err *err);

#endif
