/* SPDX-License-Identifier: MIT */
/* The table of routes, and the look-up. */
#ifndef BL_SERVER_HTTP_ROUTES_H
#define BL_SERVER_HTTP_ROUTES_H

#include "server/http/request.h"
#include "server/telemetry/metrics.h"

/* The permissions of a key.  INFER: use hosted models.  RUN: run graphs, use tensors and programs.  TRAIN: run jobs, use
 * tensors and programs.  ADMIN: manage keys and everything that concerns all keys.  METRICS: read /metrics. */
enum {
    BL_SCOPE_NONE = 0,
    BL_SCOPE_INFER = 1,
    BL_SCOPE_RUN = 2,
    BL_SCOPE_TRAIN = 4,
    BL_SCOPE_ADMIN = 8,
    BL_SCOPE_METRICS = 16,
    BL_SCOPE_WORK = BL_SCOPE_RUN | BL_SCOPE_TRAIN,
    BL_SCOPE_ANY = 31
};

enum {
    BL_ROUTE_OPEN = 1,
    BL_ROUTE_ERRORV2 = 2,
    BL_ROUTE_UPLOAD = 4,
    BL_ROUTE_BLOB = 8,
    BL_ROUTE_SECRET = 16,
    BL_ROUTE_ANYTYPE = 32,
    BL_ROUTE_CODES = 64,
    BL_ROUTE_PROBE = 128,
    BL_ROUTE_ERROROPENAI = 256
};

struct bl_route {
    const char *method, *pattern;
    bl_status (*handler)(bl_request *rq);
    unsigned takes; /* bl_media bits */
    const char *queries;
    unsigned scope; /* BL_SCOPE_ bits: the key needs at least one of them; 0: the route requires no key */
    unsigned flags;
    const char *doc;
};

/* Decode rq->head.uri, find the route, and fill route, param and query.  An unknown path gives 404.  A known path with another
 * method gives 405 and fills rq->reply.allow. */
BL_NODISCARD bl_status bl_route_find(bl_request *rq);

/* For metrics: the index of the labels of |route|, and the table of all labels.  |route| NULL: the labels of requests without a
 * route. */
int bl_route_index(const bl_route *route);
const bl_metric_route *bl_route_labels(int *count);

#endif
