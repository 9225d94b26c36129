/* SPDX-License-Identifier: MIT */
/* Answers coded with gzip or deflate. */
#ifndef BL_SERVER_CODING_H
#define BL_SERVER_CODING_H

#include "server/request.h"

/* Code the reply as Accept-Encoding of the request asks.  rq->coding becomes the name of the coding, or stays NULL if the request
 * asks for no coding, if the reply is short, or without memory. */
void bl_reply_code(bl_request *rq);

/* The weight that |list|, an Accept-Encoding or NULL, gives |coding|, 1 where the list names none; 0: the client does not take
 * it. */
double bl_coding_weigh(const char *list, const char *coding);

#endif
