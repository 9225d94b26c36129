/* SPDX-License-Identifier: MIT */
/* The handlers of routes.def.  Each is called on an HTTP thread with the whole body read; it fills the reply, submits the request
 * to a queue, or fails. */
#ifndef BL_SERVER_HANDLERS_H
#define BL_SERVER_HANDLERS_H

#include "server/request.h"

#define BL_ROUTE(method, pattern, handler, takes, queries, scope, flags, doc) BL_NODISCARD bl_status handler(bl_request *rq);
#include "server/routes.def"
#undef BL_ROUTE

#endif
