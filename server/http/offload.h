/* SPDX-License-Identifier: MIT */
/* The stages of a request between the last byte of its body and its answer: the handler, then what follows its work, then the
 * content coding.  A stage that takes long, because the body or the answer is large, runs on an offload thread, so that an HTTP
 * thread goes on with the other connections.  The offload threads take turns by owner (queue.h) and charge the time to the key;
 * one owner never has all of them. */
#ifndef BL_SERVER_HTTP_OFFLOAD_H
#define BL_SERVER_HTTP_OFFLOAD_H

#include "server/http/request.h"

/* Create the queue and its threads, in server->offload. */
BL_NODISCARD bl_status bl_offload_create(bl_server *server, bl_err *err);

/* Continue |rq|, whose body has ended or whose work is over, until its answer is complete, until rq->err has a failure, or until
 * *moved is set: then another thread owns the request.  |moved| equals rq->conn.moved. */
void bl_offload_proceed(bl_request *rq, const bool *moved);

/* For a handler that will take long: call the handler again, from its beginning, on an offload thread, where rq->apart is true.
 * After BL_OK the caller must not use the request. */
BL_NODISCARD bl_status bl_offload_handler(bl_request *rq);
/* Call |work| on an offload thread while the body is read.  After BL_OK the caller must not use the request. */
BL_NODISCARD bl_status bl_offload_work(bl_request *rq, bl_work work);

#endif
