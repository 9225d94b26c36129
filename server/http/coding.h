/* SPDX-License-Identifier: MIT */
/* Content coding of answers with gzip or deflate. */
#ifndef BL_SERVER_HTTP_CODING_H
#define BL_SERVER_HTTP_CODING_H

#include "server/http/request.h"

/* Compress the reply if the Accept-Encoding of the request asks for a coding.  rq->reply.coding becomes the coding, and PLAIN
 * if the request asks for no coding, if the reply is short, or if memory is short. */
void bl_reply_code(bl_request *rq);

/* The weight (q-value) of |coding| in |list|, an Accept-Encoding header or NULL: 1 if the list states no weight, 0 if the
 * client does not accept the coding. */
double bl_coding_weigh(const char *list, const char *coding);

#endif
