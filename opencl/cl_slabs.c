/* SPDX-License-Identifier: MIT */
#include "opencl/cl_slabs.h"

#include "engine/base/fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = BL_CL_BLOCK_ALIGN, PAGES = BL_CL_SLAB / PAGE, WORD = 64 };

struct bl_cl_slab {
    bl_cl_slab *next;
    char *memory;
    uint32_t used;                /* pages that belong to blocks */
    uint64_t taken[PAGES / WORD]; /* a bit for each of them */
};

static uint32_t pages_of(size_t bytes)
{
    return (uint32_t)((bytes + PAGE - 1) / PAGE);
}

static bool is_taken(const bl_cl_slab *slab, uint32_t page)
{
    return (slab->taken[page / WORD] >> page % WORD & 1) != 0;
}

static void set_taken(bl_cl_slab *slab, uint32_t first, uint32_t n, bool taken)
{
    for (uint32_t page = first; page < first + n; page++) {
        uint64_t bit = UINT64_C(1) << page % WORD;
        slab->taken[page / WORD] = taken ? slab->taken[page / WORD] | bit : slab->taken[page / WORD] & ~bit;
    }
    slab->used = taken ? slab->used + n : slab->used - n;
}

/* The first of |n| free pages; PAGES if there are not as many side by side. */
static uint32_t find_free(const bl_cl_slab *slab, uint32_t n)
{
    uint32_t free = 0;

    for (uint32_t page = 0; page < PAGES && slab->used + n <= PAGES; page++) {
        free = is_taken(slab, page) ? 0 : free + 1;
        if (free == n)
            return page + 1 - n;
    }
    return PAGES;
}

static bl_cl_slab *new_slab(bl_cl_slabs *slabs)
{
    bl_cl_slab *slab = bl_calloc(1, sizeof *slab);

    if (slab == NULL)
        return NULL;
    slab->memory = bl_cl_huge_alloc(BL_CL_SLAB, BL_CL_HUGE_PAGE);
    if (slab->memory == NULL) {
        free(slab);
        return NULL;
    }
    slab->next = slabs->first;
    slabs->first = slab;
    return slab;
}

void *bl_cl_slabs_alloc(bl_cl_slabs *slabs, size_t bytes)
{
    uint32_t n = pages_of(bytes), first = PAGES;
    bl_cl_slab *slab;
    void *block = NULL;

    pthread_mutex_lock(&slabs->lock);
    for (slab = slabs->first; slab != NULL; slab = slab->next) {
        first = find_free(slab, n);
        if (first < PAGES)
            break;
    }
    if (slab == NULL) {
        slab = new_slab(slabs);
        first = 0;
    }
    if (slab != NULL) {
        set_taken(slab, first, n, true);
        block = slab->memory + (size_t)first * PAGE;
    }
    pthread_mutex_unlock(&slabs->lock);
    return block;
}

void bl_cl_slabs_free(bl_cl_slabs *slabs, void *block, size_t bytes)
{
    bl_cl_slab **at = &slabs->first, *slab;

    pthread_mutex_lock(&slabs->lock);
    while ((char *)block < (*at)->memory || (char *)block >= (*at)->memory + BL_CL_SLAB)
        at = &(*at)->next;
    slab = *at;
    set_taken(slab, (uint32_t)(((char *)block - slab->memory) / PAGE), pages_of(bytes), false);
    if (slab->used == 0) {
        *at = slab->next;
        free(slab->memory);
        free(slab);
    }
    pthread_mutex_unlock(&slabs->lock);
}

void bl_cl_slabs_init(bl_cl_slabs *slabs)
{
    pthread_mutex_init(&slabs->lock, NULL);
    slabs->first = NULL;
}

void bl_cl_slabs_fini(bl_cl_slabs *slabs)
{
    pthread_mutex_destroy(&slabs->lock);
}

void *bl_cl_huge_alloc(size_t bytes, size_t align)
{
    void *memory = NULL;

    if (posix_memalign(&memory, bytes >= BL_CL_HUGE_PAGE ? BL_CL_HUGE_PAGE : align, bytes) != 0)
        return NULL;
    if (bytes >= BL_CL_HUGE_PAGE)
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* only a hint: the memory works without it */
    return memory;
}
