/* SPDX-License-Identifier: MIT */
/* Checks of the head of a request before any byte of its body is read: Host, Origin, content type, length, and the framing
 * errors that libmicrohttpd 0.9.75 accepts. */
#ifndef BL_SERVER_HTTP_HEAD_H
#define BL_SERVER_HTTP_HEAD_H

#include "server/http/body.h"

typedef struct bl_head {
    int hosts, lengths, transfers, types, codings, origins, traces, states, authorizations, keys;
    const char *host, *length, *transfer, *type, *coding, *origin, *expect, *id, *trace, *state, *authorization, *key;
    bool dirty; /* the name of a header contains a space, a tab or a NUL, or a value contains a NUL */
} bl_head;

/* Read the headers.  The strings belong to the connection. */
void bl_head_read(bl_request *rq, bl_head *head);
/* Check the framing.  *fatal true: the end of the body is unknown, so the connection must close after the answer. */
BL_NODISCARD bl_status bl_head_check_framing(bl_request *rq, const bl_head *head, bool *fatal);
BL_NODISCARD bl_status bl_head_check_site(bl_request *rq, const bl_head *head);
/* Call after the route is known. */
BL_NODISCARD bl_status bl_head_check_body(bl_request *rq, const bl_head *head, bl_coding *coding);

/* Is |host|, without a port, a loopback name or loopback address of this machine? */
bool bl_host_is_loopback(const char *host, size_t len);

#endif
