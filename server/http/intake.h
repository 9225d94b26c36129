/* SPDX-License-Identifier: MIT */
/* The destination of a body that the server does not keep whole in memory: the buffer of a tensor, or the file of a blob.
 * Thread: the connection's. */
#ifndef BL_SERVER_HTTP_INTAKE_H
#define BL_SERVER_HTTP_INTAKE_H

#include "server/http/request.h"

struct bl_intake {
    /* Sets *at to the place of the next bytes and *room to their maximum number.  *room 0: the caller must call |flush| and
     * stop for now.  Fails if no more bytes fit. */
    bl_status (*room)(bl_intake *intake, char **at, size_t *room, bl_err *err);
    void (*commit)(bl_intake *intake, size_t bytes); /* |bytes| bytes were written to *at */
    bool (*is_whole)(const bl_intake *intake);       /* the destination is full: no byte may follow */
    bl_status (*flush)(bl_request *rq);              /* submits the request; NULL if |room| never gives 0 */
};

#endif
