/* SPDX-License-Identifier: MIT */
/* The threads that answer connections.  Each thread runs its own daemon of libmicrohttpd with its own connections.
 *
 * libmicrohttpd can start such threads itself.  But those threads sleep as soon as there is no work, and waking a thread takes
 * longer than answering a small request.  The threads here spin for a moment before they sleep (--spin), while requests follow
 * one another closely and the machine has no other work. */
#ifndef BL_SERVER_HTTP_POLLER_H
#define BL_SERVER_HTTP_POLLER_H

#include "engine/base/status.h"

#include <stdint.h>
#include <sys/socket.h>

struct MHD_Connection;
typedef struct bl_server bl_server;
typedef struct bl_poller bl_poller;
typedef struct bl_pollers bl_pollers;

/* Start |n| threads.  *out is set even if the call fails, so that the shutdown path can use it. */
BL_NODISCARD bl_status bl_pollers_create(bl_server *server, unsigned n, bl_pollers **out, bl_err *err);
/* Closes open connections.  No connection may be suspended: libmicrohttpd would abort.  Accepts NULL. */
void bl_pollers_destroy(bl_pollers *pollers);

/* Give a connection to a poller.  The caller keeps the number of open connections within --connections.  Thread: one. */
void bl_pollers_give(bl_pollers *pollers, int fd, const struct sockaddr_storage *address, socklen_t size);
/* The number of open connections, including connections that are given but not begun.  Thread: any. */
long long bl_pollers_open(const bl_pollers *pollers);

bl_server *bl_poller_server(const bl_poller *poller);
/* A random number that reveals nothing about earlier and later numbers.  Thread: the poller's. */
uint64_t bl_poller_draw(bl_poller *poller);
/* One of the poller's connections has ended.  Thread: the poller's, or the thread that destroys the pollers. */
void bl_poller_ended(bl_poller *poller);
/* Make the poller's daemon run once more.  Thread: any. */
void bl_poller_call(bl_poller *poller);
/* Resume a suspended connection of this poller.  Thread: any. */
void bl_poller_resume(bl_poller *poller, struct MHD_Connection *connection);

#endif
