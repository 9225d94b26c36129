/* SPDX-License-Identifier: MIT */
/* A body that is written straight into a tensor: into the buffer itself if the host sees it, else through one small chunk at a
 * time, which the device's worker writes while the connection is suspended. */
#ifndef BL_SERVER_RUN_UPLOAD_H
#define BL_SERVER_RUN_UPLOAD_H

#include "server/http/intake.h"
#include "server/store/device_tensor.h"

typedef struct bl_upload bl_upload;

/* For PUT of a tensor as octets: reads dtype, shape and device from the query.  |coded|: the body has a content coding, so
 * Content-Length is not the tensor's size. */
BL_NODISCARD bl_status bl_upload_begin(bl_request *rq, bool coded);
/* The body has ended: register the tensor and answer. */
BL_NODISCARD bl_status bl_upload_finish(bl_request *rq);

#endif
