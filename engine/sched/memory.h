/* The memory plan of temporaries: two temporaries share memory if no nest needs both (liveness). */
#ifndef BL_SCHED_MEMORY_H
#define BL_SCHED_MEMORY_H

#include "engine/sched/schedule.h"

/* The lifetime of a temporary in nests, and its size. */
typedef struct bl_lifetime {
    size_t bytes;
    int first, last; /* the nest that writes it first, and the nest that uses it last; first > last: never used */
    size_t offset;   /* result */
} bl_lifetime;

/* Give each temporary an offset, a multiple of |align|, so that temporaries with overlapping lifetimes do not overlap in
 * memory. Returns the bytes needed in all. Greedy by size: largest first, each at the lowest offset that is free during its
 * lifetime (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). */
size_t bl_memory_plan(int n, bl_lifetime *lives, size_t align, bl_arena *arena);

#endif
