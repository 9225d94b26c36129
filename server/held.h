/* SPDX-License-Identifier: MIT */
/* A counted tensor in a device's memory: an input on its way in, a result, or what a client keeps here.
 * Written once, before anyone else knows it, and constant afterwards.  Thread: any, but for what says otherwise. */
#ifndef BL_SERVER_HELD_H
#define BL_SERVER_HELD_H

#include "engine/ir/dtype.h"
#include "server/server.h"

enum { BL_HELD_DIMS = 16 };

typedef struct bl_held {
    atomic_int refs;
    bl_worker *worker;
    bl_buffer *buffer;
    char *scratch; /* what the host writes where it does not see the buffer; NULL after bl_held_flush */
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_HELD_DIMS];
    size_t bytes;
    int64_t durable; /* its row in the storage; 0: it goes with the server */
} bl_held;

/* BL_ELIMIT over the server's limits. */
BL_NODISCARD bl_status bl_held_create(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_held **out,
                                      bl_err *err);
/* Around a buffer of the worker's pool, which moves in, on failure too. */
BL_NODISCARD bl_status bl_held_wrap(bl_worker *worker, bl_buffer *buffer, bl_dtype dtype, int ndim, const int64_t *dim,
                                    bl_held **out, bl_err *err);
bl_held *bl_held_retain(bl_held *held);
void bl_held_release(bl_held *held);
void bl_held_release_any(void *held); /* for bl_request_defer */

/* Where the host writes the contents: |bytes| of them.  NULL if out of memory. */
char *bl_held_host(bl_held *held);
/* Move what was written there to the device.  Worker's thread. */
BL_NODISCARD bl_status bl_held_flush(bl_held *held, bl_err *err);
/* The contents, where the host sees them without the worker; else NULL. */
const char *bl_held_mapped(const bl_held *held);
/* Copy the contents to |to|.  Worker's thread. */
BL_NODISCARD bl_status bl_held_read(bl_held *held, void *to, bl_err *err);
/* Was its memory lost with the device? */
bool bl_held_lost(const bl_held *held);

#endif
