/* SPDX-License-Identifier: MIT */
/* An answer that is sent in pieces as they become available, such as server-sent events.  While there is nothing to send the
 * connection is suspended: it uses no thread, and a client that reads slowly blocks no other connection. */
#ifndef BL_SERVER_HTTP_STREAM_H
#define BL_SERVER_HTTP_STREAM_H

#include "server/http/request.h"
#include "server/store/grants.h"

#include <sys/types.h>

typedef struct bl_stream bl_stream;

enum { BL_STREAM_END = -1 };

/* Write at most |most| bytes to |to| and return their number: 0 if nothing is available yet (bl_stream_wake follows later), or
 * BL_STREAM_END.  Called on the HTTP thread, without a lock. */
typedef ssize_t (*bl_stream_read)(void *arg, char *to, size_t most);

/* For handlers: answer |rq| with the server-sent events that |read| gives, until it ends or the client goes away.  Each event
 * ends with an empty line.  |by| is the share by which the request reads data of another key, and its name outlives the stream;
 * NULL: the data is the key's own.  Once the key or the share is no longer valid, the event "error" replaces the next event, and
 * the stream ends. */
BL_NODISCARD bl_status bl_stream_begin(bl_request *rq, const char *content_type, const bl_grant *by, bl_stream_read read,
                                       void *arg);
/* May the client of the stream still get the next event?  Thread: any. */
bool bl_stream_is_granted(const bl_stream *stream);
/* New data is available.  Thread: any, until the request ends; the caller may hold a lock that |read| takes. */
void bl_stream_wake(bl_stream *stream);

/* ---- http.c */
/* The content reader for libmicrohttpd; |arg| is the stream. */
ssize_t bl_stream_content(void *arg, uint64_t at, char *to, size_t most);

#endif
