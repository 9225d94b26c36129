/* SPDX-License-Identifier: MIT */
/* The port: one thread that accepts connections, no more than the settings allow, and gives them to a thread that
 * answers (poller.h).
 * libmicrohttpd could listen itself.  But its MHD_quiesce_daemon (0.9.75) and its threads both take the listening socket out of
 * their epoll sets, and whoever comes second aborts the process; and what the kernel has accepted by then would be reset. */
#ifndef BL_SERVER_LISTENER_H
#define BL_SERVER_LISTENER_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct addrinfo;
typedef struct bl_server bl_server;
typedef struct bl_listener bl_listener;

/* Bind and listen at |address|; |port|: the port that it became.  Clients may connect from now on. */
BL_NODISCARD bl_status bl_listener_create(bl_server *server, const struct addrinfo *address, bl_listener **out, uint16_t *port,
                                          bl_err *err);
/* Begin to accept, when server->pollers are there. */
BL_NODISCARD bl_status bl_listener_start(bl_listener *listener, bl_err *err);
/* Give the pollers whatever has connected by now and close the port: clients that come later are refused.  Once. */
void bl_listener_stop(bl_listener *listener);
/* After the pollers, which tell of connections until their end.  Accepts NULL. */
void bl_listener_destroy(bl_listener *listener);

/* Are only reserved places left, for clients with a key and health probes?  Any thread. */
bool bl_listener_is_crowded(const bl_listener *listener);

/* A connection is over, and not counted as open any more.  Any thread. */
void bl_listener_ended(bl_listener *listener);

#endif
