/* SPDX-License-Identifier: MIT */
/* Answers coded with gzip or deflate. */
#ifndef BL_SERVER_CODING_H
#define BL_SERVER_CODING_H

#include "server/request.h"

/* Code the reply as the client's Accept-Encoding asks.  rq->coding becomes the name of the coding, or stays NULL where the client
 * asks for none, the reply is short, or there is no memory. */
void bl_reply_code(bl_request *rq);

#endif
