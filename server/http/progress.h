/* SPDX-License-Identifier: MIT */
/* The phase and the transfer rate of a connection.  The watcher (watch.h) closes slow connections by them.  Thread: the HTTP
 * thread of the connection writes.  The watcher and the listener read under the lock of the peer. */
#ifndef BL_SERVER_HTTP_PROGRESS_H
#define BL_SERVER_HTTP_PROGRESS_H

#include "server/ops/settings.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The event for which a connection waits. */
typedef enum bl_phase {
    BL_PHASE_HEAD, /* the head of a request */
    BL_PHASE_IDLE, /* the first byte of the next head */
    BL_PHASE_BODY, /* more of a body */
    BL_PHASE_WORK, /* the server */
    BL_PHASE_SEND  /* the client to read the answer */
} bl_phase;

typedef struct bl_progress {
    atomic_int phase;
    atomic_bool known;     /* the client has a key */
    atomic_llong since_ns; /* when the phase began */
    atomic_llong moved_ns; /* when bytes last moved in the phase */
    atomic_ullong bytes;   /* bytes of the body that arrived in the phase */
    int64_t window_ns;     /* watcher: start of the window in which the rate is measured */
    uint64_t window_bytes; /* watcher: bytes that had moved before the window */
} bl_progress;

void bl_progress_begin(bl_progress *p); /* a connection opens */
void bl_progress_enter(bl_progress *p, bl_phase phase);
void bl_progress_count(bl_progress *p, size_t bytes);

/* Has the client of the connection |fd| taken longer than the settings allow?  |held|: the server has suspended the connection.
 * Thread: the ticker's, under the lock of the peer. */
bool bl_progress_is_late(bl_progress *p, int fd, bool held, const bl_settings *set, int64_t now);

/* The eviction order of open connections when a new connection needs a place: the lowest tenure first, and within a tenure the
 * oldest phase first.  |keyed|: the server has keys. */
typedef enum bl_tenure { BL_TENURE_NONE, BL_TENURE_STRANGER, BL_TENURE_FRESH, BL_TENURE_IDLE, BL_TENURE_FULL } bl_tenure;
bl_tenure bl_progress_get_tenure(const bl_progress *p, bool keyed, int64_t now);

#endif
