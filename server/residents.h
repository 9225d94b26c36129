/* SPDX-License-Identifier: MIT */
/* Eviction of device memory to host memory.  The list has what lies in device memory that the host does not see and may be
 * evicted while unused: states of programs and of sequences, caches of texts, and held tensors, in one least-recently-used order.
 * When the device memory is full, first what plans keep and can make again is freed.  Then the least recently used members move
 * to host memory; they return when they are used.  So an allocation fails only if it exceeds the whole memory. */
#ifndef BL_SERVER_RESIDENTS_H
#define BL_SERVER_RESIDENTS_H

#include "server/server.h"

typedef struct bl_residents bl_residents;
typedef struct bl_resident bl_resident;

typedef struct bl_resident_kind {
    const char *name;
    int left, back; /* metrics: number of evictions and of returns */
    bool stays;     /* the member that was used last is not evicted during the current piece of work */
    /* Under the lock of the list: take a reference, or false if the object is being destroyed. */
    bool (*retain)(bl_resident *resident);
    void (*release)(bl_resident *resident);
    bool (*may_leave)(bl_resident *resident); /* worker's thread, under the lock: nothing uses the object */
    /* Worker's thread: copy the object to the host and free its device memory, wholly or not at all; *bytes is its size. */
    bl_status (*leave)(bl_resident *resident, size_t *bytes, bl_err *err);
} bl_resident_kind;

/* First member of an object that can be evicted.  A zeroed object is not in a list. */
struct bl_resident {
    const bl_resident_kind *kind; /* NULL: not added to a list */
    bl_worker *worker;
    bl_resident *before, *next; /* under the lock of the list */
    bool listed;                /* likewise: the object is on the device */
    size_t away;                /* bytes of it on the host; accessed by the worker's thread, or by the thread that destroys it */
};

/* Create the list of |worker|, whose pool must exist: from now on the pool evicts members when it is full. */
BL_NODISCARD bl_status bl_residents_create(bl_worker *worker, bl_residents **out, bl_err *err);
void bl_residents_destroy(bl_residents *residents); /* accepts NULL */
/* The calling thread is the worker's and begins another piece of work: nothing is in use. */
void bl_residents_begin(bl_residents *residents);
size_t bl_residents_away(const bl_residents *residents); /* bytes evicted to the host; thread: any */
/* The calling thread takes the worker's place, or gives it back. */
void bl_residents_visit(bl_residents *residents, bool begins);

/* Add an object that is on the device, in memory that the host does not see.  From now on it may be evicted.  Thread: any. */
void bl_resident_add(bl_resident *resident, const bl_resident_kind *kind, bl_worker *worker);
/* Remove the object before its memory is freed.  Accepts an object that was not added.  Thread: any. */
void bl_resident_remove(bl_resident *resident);
/* The object is used on the device (use), or has returned to the device (back).  The object must have been added.  Thread: the
 * worker's. */
void bl_resident_use(bl_resident *resident);
void bl_resident_back(bl_resident *resident);

/* Take a reference unless the count is zero: then the object is being destroyed.  Thread: any, under the lock of the list. */
bool bl_resident_retain_living(atomic_int *refs);

/* bl_resident_copy copies a buffer to host memory, which is counted.  bl_resident_bring makes a buffer from the copy, and keeps
 * the copy.  Thread: the worker's. */
BL_NODISCARD bl_status bl_resident_copy(bl_worker *worker, bl_buffer *buffer, size_t bytes, char **out, bl_err *err);
BL_NODISCARD bl_status bl_resident_bring(bl_worker *worker, const char *copy, size_t bytes, bl_buffer **out, bl_err *err);
void bl_resident_free_copy(bl_worker *worker, char *copy, size_t bytes); /* accepts NULL */

#endif
