/* SPDX-License-Identifier: MIT */
/* Checks of connections that libmicrohttpd does not make.  One thread detects that the client of a suspended connection has
 * closed the connection, and cancels its request.  The ticker closes the connections of clients that take too long to send a
 * head or a body, or to read an answer (progress.h). */
#ifndef BL_SERVER_HTTP_WATCH_H
#define BL_SERVER_HTTP_WATCH_H

#include "server/http/progress.h"
#include "server/http/request.h"

typedef struct bl_watch bl_watch;

BL_NODISCARD bl_status bl_watch_create(bl_server *server, bl_watch **out, bl_err *err);
void bl_watch_destroy(bl_watch *watch);

/* A connection opens or closes.  NULL if the watcher cannot watch the connection. */
bl_peer *bl_watch_open(bl_watch *watch, int fd);
void bl_watch_close(bl_peer *peer); /* accepts NULL */

/* Store the URI of the next request, as sent.  libmicrohttpd reports the URI before the request exists, even if no request
 * follows, so the connection owns the copy.  Thread: the connection's HTTP thread.  bl_peer_get_uri returns NULL if memory was
 * short. */
void bl_peer_keep_uri(bl_peer *peer, const char *uri);
const char *bl_peer_get_uri(const bl_peer *peer);

/* Set the phase of the connection.  Thread: the connection's HTTP thread.  Accepts NULL. */
void bl_peer_enter(bl_peer *peer, bl_phase phase);
void bl_peer_count(bl_peer *peer, size_t bytes); /* |bytes| of the body have arrived */
void bl_peer_know(bl_peer *peer);                /* the client has a key */

/* Evict the connection with the lowest tenure (bl_tenure) to make room for a new connection.  False if no connection can be
 * evicted.  Thread: any. */
bool bl_watch_evict(bl_watch *watch);
/* The number of connections that were shut down and have not ended yet. */
uint32_t bl_watch_closing(const bl_watch *watch);

/* Attach |rq|, which waits on behalf of this peer, or detach it.  After the detach the watcher does not access |rq|.  Both
 * functions accept NULL. */
void bl_watch_attach(bl_peer *peer, bl_request *rq);
void bl_watch_detach(bl_peer *peer);
/* Cancel all waiting and running requests. */
void bl_watch_cancel_all(bl_watch *watch);
/* The number of attached requests. */
size_t bl_watch_waiting(bl_watch *watch);
/* Close the connections of clients that take too long.  Thread: the ticker's. */
void bl_watch_close_late(bl_watch *watch);

#endif
