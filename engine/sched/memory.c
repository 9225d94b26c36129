/* SPDX-License-Identifier: MIT */
#include "engine/sched/memory.h"

#include "engine/base/size.h"

static bool overlap_in_time(const bl_lifetime *a, const bl_lifetime *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which |life| overlaps none of the buffers |placed| (sorted by offset) that live at the same time. */
static size_t lowest_free(const bl_lifetime *life, int nplaced, bl_lifetime *const *placed, size_t align)
{
    size_t offset = 0;
    for (int i = 0; i < nplaced; i++) {
        size_t end = 0;
        if (!overlap_in_time(life, placed[i]))
            continue;
        if (placed[i]->offset >= offset + life->bytes)
            continue; /* it fits before this one; a buffer that starts even earlier was seen already */
        end = placed[i]->offset + placed[i]->bytes;
        if (end > offset)
            (void)bl_size_align(end, align, &offset);
    }
    return offset;
}

static void insert_by_offset(bl_lifetime **placed, int *nplaced, bl_lifetime *life)
{
    int at = (*nplaced)++;
    for (; at > 0 && placed[at - 1]->offset > life->offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = life;
}

size_t bl_memory_plan(int n, bl_lifetime *lives, size_t align, bl_arena *arena)
{
    bl_lifetime **by_size = bl_arena_array(arena, (size_t)n, sizeof *by_size);
    bl_lifetime **placed = bl_arena_array(arena, (size_t)n, sizeof *placed);
    size_t total = 0;
    int count = 0, nplaced = 0;

    if (by_size == NULL || placed == NULL)
        return 0;
    for (int i = 0; i < n; i++) {
        int at = count;
        if (lives[i].first > lives[i].last)
            continue;
        count++;
        for (; at > 0 && by_size[at - 1]->bytes < lives[i].bytes; at--)
            by_size[at] = by_size[at - 1];
        by_size[at] = &lives[i];
    }
    for (int i = 0; i < count; i++) {
        bl_lifetime *life = by_size[i];
        life->offset = lowest_free(life, nplaced, placed, align);
        insert_by_offset(placed, &nplaced, life);
        if (life->offset + life->bytes > total)
            total = life->offset + life->bytes;
    }
    return total;
}
