/* Arena: bump allocation with a byte limit, freed as a whole. A failure is sticky: once the arena is out of memory or over its
 * limit, every later allocation returns NULL and bl_arena_status returns the reason. Code that builds graphs therefore checks
 * once, at the end. Thread: an arena belongs to one thread at a time. */
#ifndef BL_BASE_ARENA_H
#define BL_BASE_ARENA_H

#include "engine/base/status.h"

#include <stdint.h>

typedef struct bl_arena bl_arena;

/* Create an arena of at most |limit| bytes; 0 means no limit. NULL if the host is out of memory. */
bl_arena *bl_arena_create(size_t limit);
void bl_arena_destroy(bl_arena *arena);
/* Free all allocations. The arena keeps its first blocks for the next use. */
void bl_arena_reset(bl_arena *arena);

/* Allocate |size| zeroed bytes, aligned to 16 bytes; NULL on failure. |size| 0 gives a valid pointer. */
void *bl_arena_alloc(bl_arena *arena, size_t size) __attribute__((malloc));
/* Allocate |count| items of |size| bytes. BL_ELIMIT if the product overflows. */
void *bl_arena_array(bl_arena *arena, size_t count, size_t size);
/* Make room for one more item in the array |*at|, which has |count| items of |size| bytes and room for |*cap|. May move the
 * array. False if the arena has no memory. */
bool bl_arena_reserve(bl_arena *arena, void **at, int count, int *cap, size_t size);
char *bl_arena_strdup(bl_arena *arena, const char *text);
char *bl_arena_strndup(bl_arena *arena, const char *text, size_t len);
char *bl_arena_printf(bl_arena *arena, const char *fmt, ...) BL_PRINTF(2, 3);

size_t bl_arena_used(const bl_arena *arena);
BL_NODISCARD bl_status bl_arena_status(const bl_arena *arena, bl_err *err);

#endif
