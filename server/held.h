/* SPDX-License-Identifier: MIT */
/* A counted tensor in a device's memory: an input on its way in, a result, or what a client keeps here.
 * Written once, before anyone else knows it, and constant afterwards, wherever it waits.  Thread: any, but for what says
 * otherwise. */
#ifndef BL_SERVER_HELD_H
#define BL_SERVER_HELD_H

#include "engine/ir/dtype.h"
#include "server/residents.h"

enum { BL_HELD_DIMS = 16 };

typedef struct bl_held {
    bl_resident resident; /* first */
    atomic_int refs;
    bl_worker *worker;
    bl_buffer *buffer;      /* worker's thread, once it has settled: NULL while it waits on the host */
    char *mapped;           /* where the host sees the buffer, or NULL */
    char *scratch;          /* what the host writes where it does not see the buffer; NULL after bl_held_flush */
    char *away;             /* worker's thread: the contents, while they wait on the host; else NULL */
    atomic_bool moved;      /* they do */
    atomic_uint generation; /* of the device when the buffer was made */
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_HELD_DIMS];
    size_t bytes;
    int64_t durable; /* its row in the storage; 0: it goes with the server */
} bl_held;

/* BL_ELIMIT over the server's limits. */
BL_NODISCARD bl_status bl_held_create(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_held **out,
                                      bl_err *err);
/* The same for what stays for long: without the rounding of the pool. */
BL_NODISCARD bl_status bl_held_create_exact(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_held **out,
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
/* It is kept: where the host does not see it, it may wait on the host while nobody uses it.  Any thread, before others know it,
 * or the worker's. */
void bl_held_settle(bl_held *held);
/* *out, retained, is its buffer, on the device; it stays there for as long as somebody has that.  BL_ENODEVMEM where there is no
 * room.  Worker's thread. */
BL_NODISCARD bl_status bl_held_wake(bl_held *held, bl_buffer **out, bl_err *err);
/* Its memory goes back, where nobody else has the tensor: what it was can still be told. */
void bl_held_empty(bl_held *held);
/* The contents, where the host sees them without the worker; else NULL. */
const char *bl_held_mapped(const bl_held *held);
/* Copy the contents to |to|.  Worker's thread. */
BL_NODISCARD bl_status bl_held_read(bl_held *held, void *to, bl_err *err);
/* Was its memory lost with the device? */
bool bl_held_lost(const bl_held *held);

#endif
