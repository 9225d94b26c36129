/* Where the temporaries of a schedule live: two share memory when no nest needs both. */
#ifndef BL_SCHED_MEMORY_H
#define BL_SCHED_MEMORY_H

#include "engine/sched/schedule.h"

/* An interval of nests, and how many bytes are needed in it. */
typedef struct bl_lifetime {
    size_t bytes;
    int first, last; /* nests that write it first and use it last; first > last: never used */
    size_t offset;   /* out */
} bl_lifetime;

/* Give each an offset (a multiple of |align|) so that none overlaps another that lives at the same time.  Returns the bytes that
 * all of them take.  Largest first, each at the lowest offset that is free through its life (Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020: greedy by size). */
size_t bl_memory_plan(int n, bl_lifetime *lives, size_t align, bl_arena *arena);

#endif
