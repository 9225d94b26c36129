/* SPDX-License-Identifier: MIT */
/* A counted tensor in a device's memory: an input, a result, or a tensor that a client holds on the server.  It is written once,
 * before other threads know it, and is constant afterwards, also while it is evicted to host memory.  Thread: any, unless stated
 * otherwise. */
#ifndef BL_SERVER_HELD_H
#define BL_SERVER_HELD_H

#include "engine/ir/dtype.h"
#include "server/residents.h"

enum { BL_HELD_DIMS = 16 };

typedef struct bl_held {
    bl_resident resident; /* first member: bl_resident * converts */
    atomic_int refs;
    bl_worker *worker;
    bl_buffer *buffer;      /* worker's thread after bl_held_settle: NULL while the contents are evicted to the host */
    char *mapped;           /* the buffer as the host sees it, or NULL */
    char *scratch;          /* what the host writes if it does not see the buffer; NULL after bl_held_flush */
    char *away;             /* worker's thread: the contents while they are evicted to the host; else NULL */
    atomic_bool moved;      /* the contents are evicted */
    atomic_uint generation; /* of the device when the buffer was made */
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_HELD_DIMS];
    size_t bytes;
    int64_t durable; /* its row in the storage; 0: the tensor ends with the server */
} bl_held;

/* Allocate a tensor.  BL_ELIMIT if it exceeds the server's limits. */
BL_NODISCARD bl_status bl_held_create(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_held **out,
                                      bl_err *err);
/* The same for a tensor that is kept for long: without the rounding of the pool. */
BL_NODISCARD bl_status bl_held_create_exact(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim, bl_held **out,
                                            bl_err *err);
/* Wrap a buffer of the worker's pool.  Takes the buffer, on failure too. */
BL_NODISCARD bl_status bl_held_wrap(bl_worker *worker, bl_buffer *buffer, bl_dtype dtype, int ndim, const int64_t *dim,
                                    bl_held **out, bl_err *err);
bl_held *bl_held_retain(bl_held *held);
void bl_held_release(bl_held *held);
void bl_held_release_any(void *held); /* for bl_request_defer */

/* The host memory to which the contents are written: |bytes| bytes.  NULL if out of memory. */
char *bl_held_host(bl_held *held);
/* Copy what was written to bl_held_host to the device.  Thread: the worker's. */
BL_NODISCARD bl_status bl_held_flush(bl_held *held, bl_err *err);
/* From now on the tensor may be evicted to host memory while nothing uses it, if the host does not see its buffer.  Thread: any
 * before other threads know the tensor, else the worker's. */
void bl_held_settle(bl_held *held);
/* *out, retained, is the buffer on the device; the tensor is not evicted while the buffer has this reference.  BL_ENODEVMEM if
 * there is no room.  Thread: the worker's. */
BL_NODISCARD bl_status bl_held_wake(bl_held *held, bl_buffer **out, bl_err *err);
/* Free the memory if nothing else references the tensor; dtype and shape stay readable. */
void bl_held_empty(bl_held *held);
/* The contents if the host sees them without the worker; else NULL. */
const char *bl_held_mapped(const bl_held *held);
/* Copy the contents to |to|.  Worker's thread. */
BL_NODISCARD bl_status bl_held_read(bl_held *held, void *to, bl_err *err);
/* Was its memory lost with the device? */
bool bl_held_lost(const bl_held *held);

#endif
