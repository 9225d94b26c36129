/* SPDX-License-Identifier: MIT */
/* An answer that is sent as it comes, such as server-sent events: while there is nothing to send its connection is suspended, so
 * that it costs no thread, and a client that reads slowly holds up nobody. */
#ifndef BL_SERVER_STREAM_H
#define BL_SERVER_STREAM_H

#include "server/request.h"

#include <sys/types.h>

typedef struct bl_stream bl_stream;

enum { BL_STREAM_END = -1 };

/* Puts at most |most| bytes to |to| and says how many: 0 where there is nothing yet, which bl_stream_wake is to be called after,
 * or BL_STREAM_END.  Called on the HTTP thread, without a lock. */
typedef ssize_t (*bl_stream_read)(void *arg, char *to, size_t most);

/* The handler's: answer |rq| with what |read| gives, until it ends or the client goes away. */
BL_NODISCARD bl_status bl_stream_begin(bl_request *rq, const char *content_type, bl_stream_read read, void *arg);
/* There is something new.  Thread: any, until the request ends; a lock of the caller's may be held that |read| takes. */
void bl_stream_wake(bl_stream *stream);

/* ---- http.c */
/* A content reader of libmicrohttpd, whose |arg| is the stream. */
ssize_t bl_stream_content(void *arg, uint64_t at, char *to, size_t most);

#endif
