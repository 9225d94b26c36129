/* SPDX-License-Identifier: MIT */
/* The daemon: libmicrohttpd with a pool of epoll threads, and what it calls. */
#ifndef BL_SERVER_HTTP_H
#define BL_SERVER_HTTP_H

#include "engine/base/status.h"

typedef struct bl_server bl_server;

/* Listen; fills server->listener, server->daemon and server->port. */
BL_NODISCARD bl_status bl_http_start(bl_server *server, bl_err *err);
/* Nothing may be suspended any more: libmicrohttpd would abort. */
void bl_http_stop(bl_server *server);

#endif
