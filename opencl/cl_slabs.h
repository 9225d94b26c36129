/* SPDX-License-Identifier: MIT */
/* Host memory in huge pages for the buffers of a CPU device that are smaller than a huge page, such as the weights of a layer.
 * Slabs of several huge pages are divided into blocks, first fit. A token of a language model reads all weights once from memory,
 * where a page of 4 KiB takes a walk of the page table: decoding in Q4_0 and Q8_0 was 7 % slower. Thread: any. */
#ifndef BL_OPENCL_CL_SLABS_H
#define BL_OPENCL_CL_SLABS_H

#include <pthread.h>
#include <stddef.h>

enum {
    BL_CL_HUGE_PAGE = 2 << 20,
    BL_CL_SLAB = 8 * BL_CL_HUGE_PAGE, /* bytes of a slab */
    BL_CL_LEAST_BLOCK = 64 << 10,     /* smaller blocks would keep huge pages for few bytes */
    BL_CL_BLOCK_ALIGN = 4096
};

typedef struct bl_cl_slab bl_cl_slab;

typedef struct bl_cl_slabs {
    pthread_mutex_t lock;
    bl_cl_slab *first;
} bl_cl_slabs;

void bl_cl_slabs_init(bl_cl_slabs *slabs);
void bl_cl_slabs_fini(bl_cl_slabs *slabs); /* no block is in use, so there is no slab */
/* A block of |bytes|, of BL_CL_LEAST_BLOCK to BL_CL_HUGE_PAGE, at a multiple of BL_CL_BLOCK_ALIGN. NULL: out of host memory. */
void *bl_cl_slabs_alloc(bl_cl_slabs *slabs, size_t bytes);
/* Free a block of |bytes|. A slab without blocks goes back to the system. */
void bl_cl_slabs_free(bl_cl_slabs *slabs, void *block, size_t bytes);

/* Memory of |bytes| at a multiple of |align|, from huge pages if it is large and the system has free ones, for free(). NULL: out
 * of host memory. */
void *bl_cl_huge_alloc(size_t bytes, size_t align);

#endif
