/* SPDX-License-Identifier: MIT */
/* The listening socket: one thread accepts connections, at most as many as the settings allow, and gives them to the threads
 * that answer (poller.h).  libmicrohttpd could listen itself, with two defects.  MHD_quiesce_daemon (0.9.75) and the threads of
 * libmicrohttpd both remove the listening socket from their epoll sets, and the second removal aborts the process.  Connections
 * that the kernel has accepted by then would be reset. */
#ifndef BL_SERVER_HTTP_LISTENER_H
#define BL_SERVER_HTTP_LISTENER_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct addrinfo;
typedef struct bl_server bl_server;
typedef struct bl_listener bl_listener;

/* Bind and listen at |address|.  *port becomes the port that the socket has.  Clients can connect from now on. */
BL_NODISCARD bl_status bl_listener_create(bl_server *server, const struct addrinfo *address, bl_listener **out, uint16_t *port,
                                          bl_err *err);
/* Begin to accept.  server->http.pollers must exist. */
BL_NODISCARD bl_status bl_listener_start(bl_listener *listener, bl_err *err);
/* Give the pollers all connections that clients have opened by now, and close the port: the kernel refuses later clients.  Call
 * once. */
void bl_listener_stop(bl_listener *listener);
/* Call after the pollers are destroyed, because the pollers report the end of connections until then.  Accepts NULL. */
void bl_listener_destroy(bl_listener *listener);

/* Are only the reserved places free?  Reserved places are for clients with a key and for health probes.  Thread: any. */
bool bl_listener_is_crowded(const bl_listener *listener);

/* A connection has ended and no longer counts as open.  Thread: any. */
void bl_listener_ended(bl_listener *listener);

#endif
