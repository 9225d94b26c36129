/* SPDX-License-Identifier: MIT */
/* Where the bytes of a request's body go: the server inflates them if they are compressed, checks the limit, and stores them in
 * memory or straight in a tensor. */
#ifndef BL_SERVER_HTTP_BODY_H
#define BL_SERVER_HTTP_BODY_H

#include "server/http/request.h"

typedef enum bl_coding { BL_CODING_NONE, BL_CODING_GZIP, BL_CODING_DEFLATE } bl_coding;

/* Call after the head is read: prepare for a body with this content coding. */
BL_NODISCARD bl_status bl_body_begin(bl_request *rq, bl_coding coding);
/* Consume some of |data|; *size becomes the number of bytes left over.  If *size is not 0, *moved is true and the request is
 * suspended: feed the rest when it resumes.  |moved| equals rq->conn.moved. */
BL_NODISCARD bl_status bl_body_feed(bl_request *rq, const char *data, size_t *size, const bool *moved);
/* Call after the last bl_body_feed.  If *moved is true, the request is suspended: call again when it resumes. */
BL_NODISCARD bl_status bl_body_end(bl_request *rq, const bool *moved);
void bl_body_fini(bl_request *rq);

#endif
