/* SPDX-License-Identifier: MIT */
/* The table of routes, and the look-up. */
#ifndef BL_SERVER_HTTP_ROUTES_H
#define BL_SERVER_HTTP_ROUTES_H

#include "server/http/request.h"
#include "server/telemetry/metrics.h"

/* What a key may do.  INFER: hosted models.  RUN: graphs, tensors, programs.  TRAIN: jobs, tensors, programs.  ADMIN: keys, and
 * what concerns all keys.  METRICS: /metrics. */
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
    unsigned scope; /* BL_SCOPE_ bits, of which one suffices; 0: no key is required */
    unsigned flags;
    const char *doc;
};

/* Decode rq->head.uri, find its route and fill route, param and query.  Unknown: 404, or 405 with rq->reply.allow. */
BL_NODISCARD bl_status bl_route_find(bl_request *rq);

/* For metrics: the index of the labels of |route| (NULL: of requests without a route), and the table of all labels. */
int bl_route_index(const bl_route *route);
const bl_metric_route *bl_route_labels(int *count);

#endif
