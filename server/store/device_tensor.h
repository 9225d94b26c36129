/* SPDX-License-Identifier: MIT */
/* A counted tensor in the memory of a device: an input, a result, or a tensor that a client holds on the server.  The tensor
 * is written once, before other threads know it, and is constant afterwards, also while it is evicted to host memory.
 * Thread: any, unless stated otherwise. */
#ifndef BL_SERVER_STORE_DEVICE_TENSOR_H
#define BL_SERVER_STORE_DEVICE_TENSOR_H

#include "engine/ir/dtype.h"
#include "server/store/eviction.h"

enum { BL_DEVICE_TENSOR_DIMS = 16 };

typedef struct bl_device_tensor {
    bl_evictable evictable; /* first member: bl_evictable * converts */
    atomic_int refs;
    bl_worker *worker;
    bl_buffer *buffer; /* worker's thread after bl_device_tensor_settle: NULL while the contents are evicted to the host */
    char *mapped;      /* the buffer as the host sees it, or NULL */
    /* the memory that the host writes if it does not see the buffer; NULL after bl_device_tensor_flush */
    char *scratch;
    char *away;             /* worker's thread: the contents while they are evicted to the host; else NULL */
    atomic_bool moved;      /* the contents are evicted */
    atomic_uint generation; /* generation of the device when the buffer was made */
    bl_dtype dtype;
    int ndim;
    int64_t dim[BL_DEVICE_TENSOR_DIMS];
    size_t bytes;
    int64_t durable; /* row of the tensor in the storage; 0: the tensor ends with the server */
} bl_device_tensor;

/* Allocate a tensor.  BL_ELIMIT if it exceeds the server's limits. */
BL_NODISCARD bl_status bl_device_tensor_create(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim,
                                               bl_device_tensor **out, bl_err *err);
/* bl_device_tensor_create without the rounding of the pool, for a tensor that is kept for long. */
BL_NODISCARD bl_status bl_device_tensor_create_exact(bl_worker *worker, bl_dtype dtype, int ndim, const int64_t *dim,
                                                     bl_device_tensor **out, bl_err *err);
/* Wrap a buffer of the worker's pool.  Takes the buffer, on failure too. */
BL_NODISCARD bl_status bl_device_tensor_wrap(bl_worker *worker, bl_buffer *buffer, bl_dtype dtype, int ndim, const int64_t *dim,
                                             bl_device_tensor **out, bl_err *err);
bl_device_tensor *bl_device_tensor_retain(bl_device_tensor *held);
void bl_device_tensor_release(bl_device_tensor *held);
void bl_device_tensor_release_any(void *held); /* release in the form of a bl_request_defer function */

/* The host memory to which the contents are written: |bytes| bytes.  NULL if out of memory. */
char *bl_device_tensor_host(bl_device_tensor *held);
/* Copy the data that the host wrote to bl_device_tensor_host to the device.  Thread: the worker's. */
BL_NODISCARD bl_status bl_device_tensor_flush(bl_device_tensor *held, bl_err *err);
/* From now on the tensor may be evicted to host memory while no user holds its buffer, if the host does not see the buffer.
 * Thread: any before other threads know the tensor, else the worker's. */
void bl_device_tensor_settle(bl_device_tensor *held);
/* *out, retained, is the buffer on the device; the tensor is not evicted while the buffer has this reference.  BL_ENODEVMEM if
 * there is no room.  Thread: the worker's. */
BL_NODISCARD bl_status bl_device_tensor_wake(bl_device_tensor *held, bl_buffer **out, bl_err *err);
/* Free the memory if no other object references the tensor; dtype and shape stay readable. */
void bl_device_tensor_empty(bl_device_tensor *held);
/* The contents if the host sees them without the worker; else NULL. */
const char *bl_device_tensor_mapped(const bl_device_tensor *held);
/* Copy the contents to |to|.  Worker's thread. */
BL_NODISCARD bl_status bl_device_tensor_read(bl_device_tensor *held, void *to, bl_err *err);
/* Was the memory of the tensor lost with the device? */
bool bl_device_tensor_lost(const bl_device_tensor *held);

#endif
