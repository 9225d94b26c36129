/* SPDX-License-Identifier: MIT */
/* An answer that is sent in pieces as they become available, such as server-sent events.  The connection is suspended while
 * there is nothing to send.  A suspended connection uses no thread, and a client that reads slowly blocks no other
 * connection. */
#ifndef BL_SERVER_HTTP_STREAM_H
#define BL_SERVER_HTTP_STREAM_H

#include "server/http/request.h"
#include "server/store/grants.h"

#include <sys/types.h>

typedef struct bl_stream bl_stream;

enum { BL_STREAM_END = -1 };

/* Write at most |most| bytes to |to| and return their number.  Return 0 if nothing is available yet; bl_stream_wake follows
 * later.  Return BL_STREAM_END at the end.  Called on the HTTP thread, without a lock. */
typedef ssize_t (*bl_stream_read)(void *arg, char *to, size_t most);

/* For handlers: answer |rq| with the server-sent events that |read| gives, until |read| ends or the client closes the
 * connection.  Each event ends with an empty line.  |by| is the share by which the request reads data of another key; the name
 * in |by| outlives the stream.  |by| NULL: the data is of the request's own key.  When the key or the share becomes invalid,
 * the event "error" replaces the next event, and the stream ends. */
BL_NODISCARD bl_status bl_stream_begin(bl_request *rq, const char *content_type, const bl_grant *by, bl_stream_read read,
                                       void *arg);
/* May the client of the stream still receive the next event?  Thread: any. */
bool bl_stream_is_granted(const bl_stream *stream);
/* Report that new data is available.  Thread: any, until the request ends.  The caller may hold a lock that |read| takes. */
void bl_stream_wake(bl_stream *stream);

/* ---- http.c */
/* The content reader for libmicrohttpd; |arg| is the stream. */
ssize_t bl_stream_content(void *arg, uint64_t at, char *to, size_t most);

#endif
