/* SPDX-License-Identifier: MIT */
/* Where the bytes of a body go that is not kept whole in memory: a tensor's buffer, a blob's file.  Thread: the connection's. */
#ifndef BL_SERVER_INTAKE_H
#define BL_SERVER_INTAKE_H

#include "server/request.h"

struct bl_intake {
    /* Where the next bytes go, and how many may.  *room 0: call |flush| and stop for now.  Fails where nothing more fits. */
    bl_status (*room)(bl_intake *intake, char **at, size_t *room, bl_err *err);
    void (*commit)(bl_intake *intake, size_t bytes); /* so many were put there */
    bool (*is_whole)(const bl_intake *intake);       /* no byte may follow */
    bl_status (*flush)(bl_request *rq);              /* submits the request; NULL where |room| never gives 0 */
};

#endif
