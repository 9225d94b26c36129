/* SPDX-License-Identifier: MIT */
/* The handlers of routes.def.  The server calls a handler on an HTTP thread after the whole body has been read.  A handler
 * fills the reply, submits the request to a queue, or fails. */
#ifndef BL_SERVER_HTTP_HANDLERS_H
#define BL_SERVER_HTTP_HANDLERS_H

#include "server/http/request.h"

#define BL_ROUTE(method, pattern, handler, takes, queries, scope, flags, doc) BL_NODISCARD bl_status handler(bl_request *rq);
#include "server/http/routes.def"
#undef BL_ROUTE

#endif
