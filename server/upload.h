/* SPDX-License-Identifier: MIT */
/* A body that goes straight into a tensor: into the buffer itself where the host sees it, else through one small chunk at a time,
 * which the device's worker writes while the connection waits. */
#ifndef BL_SERVER_UPLOAD_H
#define BL_SERVER_UPLOAD_H

#include "server/held.h"

/* For PUT of a tensor as octets: reads dtype, shape and device from the query.  |coded|: Content-Length is not the tensor's. */
BL_NODISCARD bl_status bl_upload_begin(bl_request *rq, bool coded);
/* Where the next bytes go.  *room 0: call bl_upload_flush and stop for now.  Fails where the tensor is whole already. */
BL_NODISCARD bl_status bl_upload_room(bl_upload *upload, char **at, size_t *room, bl_err *err);
void bl_upload_commit(bl_upload *upload, size_t bytes);
/* Submits the request; after BL_OK leave it alone. */
BL_NODISCARD bl_status bl_upload_flush(bl_request *rq);
/* The body ended: hold the tensor and answer. */
BL_NODISCARD bl_status bl_upload_finish(bl_request *rq);
bool bl_upload_is_whole(const bl_upload *upload);

#endif
