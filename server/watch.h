/* SPDX-License-Identifier: MIT */
/* One thread that notices what libmicrohttpd does not look at: that the client of a suspended connection went away, that a
 * timeout passed, and that a client takes too long to send a head or a body, or to read an answer (progress.h).  It cancels what
 * waits or runs for them, closes slow connections, and ends leases that expired. */
#ifndef BL_SERVER_WATCH_H
#define BL_SERVER_WATCH_H

#include "server/progress.h"
#include "server/request.h"

typedef struct bl_watch bl_watch;

BL_NODISCARD bl_status bl_watch_create(bl_server *server, bl_watch **out, bl_err *err);
void bl_watch_destroy(bl_watch *watch);

/* A connection begins and ends; NULL where it cannot be watched. */
bl_peer *bl_watch_open(bl_watch *watch, int fd);
void bl_watch_close(bl_peer *peer); /* accepts NULL */

/* The address of the request that comes next, as it was sent.  libmicrohttpd shows it before there is a request, and does not say
 * when none follows, so it is the connection's.  HTTP thread of that connection only; NULL where there was no memory for it. */
void bl_peer_keep_uri(bl_peer *peer, const char *uri);
const char *bl_peer_get_uri(const bl_peer *peer);

/* What the connection waits for, from now on.  HTTP thread of that connection; accept NULL. */
void bl_peer_enter(bl_peer *peer, bl_phase phase);
void bl_peer_count(bl_peer *peer, size_t bytes); /* of the body have come */
void bl_peer_know(bl_peer *peer);                /* the client has a key */

/* Close the connection that has the weakest tenure to its place, for another that wants one; false where there is none.  Any
 * thread. */
bool bl_watch_evict(bl_watch *watch);
/* Connections that were shut and are not over yet. */
uint32_t bl_watch_closing(const bl_watch *watch);

/* |rq| waits on behalf of this peer, or does so no longer.  After detach the watcher does not know |rq|.  Accept NULL. */
void bl_watch_attach(bl_peer *peer, bl_request *rq);
void bl_watch_detach(bl_peer *peer);
/* Cancel all requests that wait or run. */
void bl_watch_cancel_all(bl_watch *watch);
/* How many those are. */
size_t bl_watch_waiting(bl_watch *watch);
/* When the watcher last began its round, by bl_clock_ns: it takes every peer's, queue's and lease's lock in one. */
int64_t bl_watch_ticked(const bl_watch *watch);

#endif
