/* SPDX-License-Identifier: MIT */
/* The stages of a request between the last byte of its body and its answer: the handler, |then| after the work, and the content
 * coding.  A stage takes long if the body or the answer is large.  Such a stage runs on an offload thread, so that an HTTP
 * thread can serve its other connections.  The offload threads schedule fairly between owners (queue.h) and charge their time
 * to the key.  One owner never occupies all of them. */
#ifndef BL_SERVER_HTTP_OFFLOAD_H
#define BL_SERVER_HTTP_OFFLOAD_H

#include "server/http/request.h"

/* Create the queue and its threads, in server->offload. */
BL_NODISCARD bl_status bl_offload_create(bl_server *server, bl_err *err);

/* Continue |rq| after the end of its body or of its work.  The call ends when the answer is complete, when rq->err has a
 * failure, or when *moved is set because another thread owns the request.  |moved| equals rq->conn.moved. */
void bl_offload_proceed(bl_request *rq, const bool *moved);

/* For a handler that takes long: call the handler again from its beginning on an offload thread, where bl_request_is_apart is
 * true. After BL_OK the caller must not use the request. */
BL_NODISCARD bl_status bl_offload_handler(bl_request *rq);
/* Call |work| on an offload thread while the body is read.  After BL_OK the caller must not use the request. */
BL_NODISCARD bl_status bl_offload_work(bl_request *rq, bl_work work);

#endif
