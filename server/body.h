/* SPDX-License-Identifier: MIT */
/* Where the bytes of a request's body go: inflated if need be, under the limit, into memory or straight into a tensor. */
#ifndef BL_SERVER_BODY_H
#define BL_SERVER_BODY_H

#include "server/request.h"

typedef enum bl_coding { BL_CODING_NONE, BL_CODING_GZIP, BL_CODING_DEFLATE } bl_coding;

/* After the head: prepare for a body coded like this. */
BL_NODISCARD bl_status bl_body_begin(bl_request *rq, bl_coding coding);
/* Take some of |data|; *size becomes the number of bytes left over.  If *size is not 0, *moved is true, and the request was
 * suspended: feed the rest later.  |moved| equals rq->moved. */
BL_NODISCARD bl_status bl_body_feed(bl_request *rq, const char *data, size_t *size, const bool *moved);
/* Call after the last bl_body_feed.  *moved: the request was suspended; call again. */
BL_NODISCARD bl_status bl_body_end(bl_request *rq, const bool *moved);
void bl_body_fini(bl_request *rq);

#endif
