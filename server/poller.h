/* SPDX-License-Identifier: MIT */
/* The threads on which connections are answered.  Each runs a daemon of libmicrohttpd, with connections of its own.
 *
 * libmicrohttpd has such threads too.  But they sleep as soon as there is nothing to do, and to be woken takes longer than to
 * answer a small request.  These look for the next one for a moment first (--spin), while requests follow one another closely and
 * the machine has nothing else to do for anybody. */
#ifndef BL_SERVER_POLLER_H
#define BL_SERVER_POLLER_H

#include "engine/base/status.h"

#include <stdint.h>
#include <sys/socket.h>

struct MHD_Connection;
typedef struct bl_server bl_server;
typedef struct bl_poller bl_poller;
typedef struct bl_pollers bl_pollers;

/* Start |n| of them.  *out is there for whoever stops, whatever comes of it. */
BL_NODISCARD bl_status bl_pollers_create(bl_server *server, unsigned n, bl_pollers **out, bl_err *err);
/* Closes what is open.  Nothing may be suspended any more: libmicrohttpd would abort.  Accepts NULL. */
void bl_pollers_destroy(bl_pollers *pollers);

/* A connection, of which no more than --connections may be open.  Thread: one. */
void bl_pollers_give(bl_pollers *pollers, int fd, const struct sockaddr_storage *address, socklen_t size);
/* Connections that are open, those included that are given and not begun.  Any thread. */
long long bl_pollers_open(const bl_pollers *pollers);

bl_server *bl_poller_server(const bl_poller *poller);
/* A random number, which tells nothing of those before and after.  Its own thread. */
uint64_t bl_poller_draw(bl_poller *poller);
/* One of its connections is over.  Its own thread, or that which stops. */
void bl_poller_ended(bl_poller *poller);
/* Have its daemon run once more.  Any thread. */
void bl_poller_call(bl_poller *poller);
/* Go on with a connection of this poller's that is suspended.  Any thread. */
void bl_poller_resume(bl_poller *poller, struct MHD_Connection *connection);

#endif
