/* SPDX-License-Identifier: MIT */
/* The HTTP layer: the callbacks of libmicrohttpd for the head of a request, its body, and its end. */
#ifndef BL_SERVER_HTTP_H
#define BL_SERVER_HTTP_H

#include "engine/base/status.h"

struct MHD_Daemon;
typedef struct bl_poller bl_poller;
typedef struct bl_server bl_server;

/* Listen; fills server->http.listener, server->http.pollers and server->http.port. */
BL_NODISCARD bl_status bl_http_start(bl_server *server, bl_err *err);
/* No connection may be suspended when this is called: libmicrohttpd would abort. */
void bl_http_stop(bl_server *server);

/* ---- poller.c */
/* A daemon that |poller|'s thread runs; NULL if out of memory. */
struct MHD_Daemon *bl_http_create_daemon(bl_poller *poller);

#endif
