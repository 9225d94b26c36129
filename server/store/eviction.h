/* SPDX-License-Identifier: MIT */
/* Eviction of device memory to host memory.  The list holds all objects in device memory that the host does not see and that
 * may be evicted while unused: states of programs and of sequences, text caches, and held tensors, in one
 * least-recently-used order.
 *
 * When the device memory is full, the pool first frees memory that plans keep and can recompute.  Then the least recently
 * used members move to host memory; they return when they are used.  An allocation still fails if the rest is in use, or if the
 * host has no memory for copies. */
#ifndef BL_SERVER_STORE_EVICTION_H
#define BL_SERVER_STORE_EVICTION_H

#include "server/ops/server.h"

typedef struct bl_evictables bl_evictables;
typedef struct bl_evictable bl_evictable;

typedef struct bl_evictable_kind {
    const char *name;
    int left, back; /* metrics: number of evictions and of returns */
    bool stays;     /* the member that was used last is not evicted during the current piece of work */
    /* Under the lock of the list: take a reference, or false if the object is being destroyed. */
    bool (*retain)(bl_evictable *evictable);
    void (*release)(bl_evictable *evictable);
    bool (*may_leave)(bl_evictable *evictable); /* worker's thread, under the lock: false while the object is in use */
    /* Worker's thread: copy the object to the host and free its device memory, wholly or not at all; *bytes is the size of
     * the object. */
    bl_status (*leave)(bl_evictable *evictable, size_t *bytes, bl_err *err);
} bl_evictable_kind;

/* First member of an object that can be evicted.  A zeroed object is not in a list. */
struct bl_evictable {
    const bl_evictable_kind *kind; /* NULL: not added to a list */
    bl_worker *worker;
    bl_evictable *before, *next; /* under the lock of the list */
    bool listed;                 /* under the lock of the list: the object is on the device */
    /* number of its bytes on the host; accessed by the worker's thread, or by the thread that destroys the object */
    size_t away;
};

/* Create the list of |worker|, whose pool must exist. From now on the pool evicts members when it is full. */
BL_NODISCARD bl_status bl_evictables_create(bl_worker *worker, bl_evictables **out, bl_err *err);
void bl_evictables_destroy(bl_evictables *evictables); /* accepts NULL */
/* The calling thread is the worker's and begins another piece of work: no member is in use. */
void bl_evictables_begin(bl_evictables *evictables);
size_t bl_evictables_away(const bl_evictables *evictables); /* bytes evicted to the host; thread: any */
/* The calling thread takes the worker's place, or gives it back. */
void bl_evictables_run_inline(bl_evictables *evictables, bool begins);

/* Add an object that is on the device, in memory that the host does not see.  From now on it may be evicted.  Thread: any. */
void bl_evictable_add(bl_evictable *evictable, const bl_evictable_kind *kind, bl_worker *worker);
/* Remove the object before its memory is freed.  Accepts an object that was not added.  Thread: any. */
void bl_evictable_remove(bl_evictable *evictable);
/* The object is used on the device (use), or has returned to the device (back).  The object must have been added.  Thread: the
 * worker's. */
void bl_evictable_use(bl_evictable *evictable);
void bl_evictable_back(bl_evictable *evictable);

/* Take a reference unless the count is zero. At zero the object is being destroyed.  Thread: any, under the lock of the
 * list. */
bool bl_evictable_retain_living(atomic_int *refs);

/* bl_evictable_copy copies a buffer to host memory and counts the host memory.  bl_evictable_bring makes a buffer from the
 * copy, and keeps the copy.  Thread: the worker's. */
BL_NODISCARD bl_status bl_evictable_copy(bl_worker *worker, bl_buffer *buffer, size_t bytes, char **out, bl_err *err);
BL_NODISCARD bl_status bl_evictable_bring(bl_worker *worker, const char *copy, size_t bytes, bl_buffer **out, bl_err *err);
void bl_evictable_free_copy(bl_worker *worker, char *copy, size_t bytes); /* accepts NULL */

#endif
