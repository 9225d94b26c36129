/* SPDX-License-Identifier: MIT */
/* Phase and rate of a connection, by which the watcher (watch.h) closes slow connections.
 * Thread: the HTTP thread of the connection writes; the watcher and the listener read under the lock of the peer. */
#ifndef BL_SERVER_HTTP_PROGRESS_H
#define BL_SERVER_HTTP_PROGRESS_H

#include "server/ops/settings.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a connection waits for. */
typedef enum bl_phase {
    BL_PHASE_HEAD, /* a head */
    BL_PHASE_IDLE, /* the first byte of the next head */
    BL_PHASE_BODY, /* more of a body */
    BL_PHASE_WORK, /* the server */
    BL_PHASE_SEND  /* the client, which reads the answer */
} bl_phase;

typedef struct bl_progress {
    atomic_int phase;
    atomic_bool known;     /* the client has a key */
    atomic_llong since_ns; /* when the phase began */
    atomic_llong moved_ns; /* when bytes last moved in it */
    atomic_ullong bytes;   /* of the body that came in it */
    int64_t window_ns;     /* watcher: the start of the window in which the rate is measured, */
    uint64_t window_bytes; /* and the bytes that had moved before the window */
} bl_progress;

void bl_progress_begin(bl_progress *p); /* a connection opens */
void bl_progress_enter(bl_progress *p, bl_phase phase);
void bl_progress_count(bl_progress *p, size_t bytes);

/* For the watcher: has the client of the connection |fd| taken longer than the settings allow?  |held|: the server
 * has suspended the connection. */
bool bl_progress_is_late(bl_progress *p, int fd, bool held, const bl_settings *set, int64_t now);

/* The rank of an open connection when new connections need a place: connections of the lowest rank are closed first, the oldest
 * phase first.  |keyed|: the server has keys. */
typedef enum bl_tenure { BL_TENURE_NONE, BL_TENURE_STRANGER, BL_TENURE_FRESH, BL_TENURE_IDLE, BL_TENURE_FULL } bl_tenure;
bl_tenure bl_progress_get_tenure(const bl_progress *p, bool keyed, int64_t now);

#endif
