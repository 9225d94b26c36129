/* SPDX-License-Identifier: MIT */
/* The table of routes, and finding one. */
#ifndef BL_SERVER_ROUTES_H
#define BL_SERVER_ROUTES_H

#include "server/request.h"

enum { BL_ROUTE_OPEN = 1, BL_ROUTE_ERRORV2 = 2, BL_ROUTE_UPLOAD = 4 };

struct bl_route {
    const char *method, *pattern;
    bl_status (*handler)(bl_request *rq);
    unsigned takes; /* of bl_media */
    const char *queries;
    unsigned flags;
    const char *doc;
};

/* Decode rq->uri, find its route and fill route, param and query.  Unknown: 404, or 405 with rq->allow. */
BL_NODISCARD bl_status bl_route_find(bl_request *rq);
/* All rows; NULL past the end. */

#endif
