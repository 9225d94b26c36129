/* SPDX-License-Identifier: MIT */
/* HTTP: what libmicrohttpd calls, with the head of a request, its body, and when it is over. */
#ifndef BL_SERVER_HTTP_H
#define BL_SERVER_HTTP_H

#include "engine/base/status.h"

struct MHD_Daemon;
typedef struct bl_poller bl_poller;
typedef struct bl_server bl_server;

/* Listen; fills server->listener, server->pollers and server->port. */
BL_NODISCARD bl_status bl_http_start(bl_server *server, bl_err *err);
/* Nothing may be suspended any more: libmicrohttpd would abort. */
void bl_http_stop(bl_server *server);

/* ---- poller.c */
/* A daemon whose thread |poller| is; NULL where there is no memory for one. */
struct MHD_Daemon *bl_http_create_daemon(bl_poller *poller);

#endif
