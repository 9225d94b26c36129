/* SPDX-License-Identifier: MIT */
/* What lies in a device's memory where the host does not see it, and need not while nobody uses it: states of programs and of
 * sequences, what texts remember, and held tensors, in one order.  When that memory is full, first what plans keep and can make
 * again goes; then what was used longest ago moves to host memory, from where it comes back when it is used.  So only who asks
 * for more than there is at all is told so. */
#ifndef BL_SERVER_RESIDENTS_H
#define BL_SERVER_RESIDENTS_H

#include "server/server.h"

typedef struct bl_residents bl_residents;
typedef struct bl_resident bl_resident;

typedef struct bl_resident_kind {
    const char *name;
    int left, back; /* metrics: how often one did */
    bool stays;     /* the one that was used last stays for as long as that piece of work lasts */
    /* Under the lock of the list: a reference, or false where its end has begun. */
    bool (*retain)(bl_resident *resident);
    void (*release)(bl_resident *resident);
    bool (*may_leave)(bl_resident *resident); /* worker's thread, under the lock: nothing uses it */
    /* Worker's thread: copied to the host and off the device, all of it or nothing; *bytes is how much. */
    bl_status (*leave)(bl_resident *resident, size_t *bytes, bl_err *err);
} bl_resident_kind;

/* Its first member, in what is one.  Zeroed is none. */
struct bl_resident {
    const bl_resident_kind *kind; /* NULL: it was not added */
    bl_worker *worker;
    bl_resident *before, *next; /* under the lock of the list */
    bool listed;                /* likewise: it is on the device */
    size_t away;                /* bytes of it on the host; worker's thread, or whoever ends it */
};

/* Of |worker|, whose pool is there: from now on it makes room where it has none. */
BL_NODISCARD bl_status bl_residents_create(bl_worker *worker, bl_residents **out, bl_err *err);
void bl_residents_destroy(bl_residents *residents); /* accepts NULL */
/* The thread that calls is the worker's, and begins another piece of work: nothing is in use. */
void bl_residents_begin(bl_residents *residents);
size_t bl_residents_away(const bl_residents *residents); /* bytes that wait on the host; any thread */
/* The thread that calls takes the worker's place, or gives it back. */
void bl_residents_visit(bl_residents *residents, bool begins);

/* It is on the device, in memory that the host does not see, and may leave from now on.  Any thread. */
void bl_resident_add(bl_resident *resident, const bl_resident_kind *kind, bl_worker *worker);
/* It ends; before its memory does.  Accepts one that was not added.  Any thread. */
void bl_resident_remove(bl_resident *resident);
/* It is used, being on the device, or it came back to it.  Worker's thread; not one that was not added. */
void bl_resident_use(bl_resident *resident);
void bl_resident_back(bl_resident *resident);

/* One reference more, unless the last has gone: then its end has begun.  Any thread, under the lock of the list. */
bool bl_resident_retain_living(atomic_int *refs);

/* A buffer's contents on the host, counted there; and on the device again, while the copy stays.  Worker's thread. */
BL_NODISCARD bl_status bl_resident_copy(bl_worker *worker, bl_buffer *buffer, size_t bytes, char **out, bl_err *err);
BL_NODISCARD bl_status bl_resident_bring(bl_worker *worker, const char *copy, size_t bytes, bl_buffer **out, bl_err *err);
void bl_resident_free_copy(bl_worker *worker, char *copy, size_t bytes); /* accepts NULL */

#endif
