/* SPDX-License-Identifier: MIT */
/* The destination of the bytes of a request's body.  The server inflates a compressed body, checks the limit, and stores the
 * bytes in memory or straight in a tensor. */
#ifndef BL_SERVER_HTTP_BODY_H
#define BL_SERVER_HTTP_BODY_H

#include "server/http/request.h"

typedef enum bl_coding { BL_CODING_NONE, BL_CODING_GZIP, BL_CODING_DEFLATE } bl_coding;

/* Prepare for a body with this content coding.  Call after the head is read. */
BL_NODISCARD bl_status bl_body_begin(bl_request *rq, bl_coding coding);
/* Consume bytes of |data|; *size becomes the number of bytes left over.  If *size is not 0 then, *moved is true and the request
 * is suspended: the caller feeds the rest when the request resumes.  |moved| equals rq->conn.moved. */
BL_NODISCARD bl_status bl_body_feed(bl_request *rq, const char *data, size_t *size, const bool *moved);
/* Inflate the rest of the body after the last bl_body_feed.  If *moved is true, the request is suspended: call again when the
 * request resumes. */
BL_NODISCARD bl_status bl_body_end(bl_request *rq, const bool *moved);
void bl_body_fini(bl_request *rq);

#endif
