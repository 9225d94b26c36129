/* SPDX-License-Identifier: MIT */
/* Upload of a body straight into a tensor.  If the host sees the buffer, the body is written into the buffer.  Else the body
 * passes through one small chunk at a time: the worker of the device writes the chunk while the connection is suspended. */
#ifndef BL_SERVER_RUN_UPLOAD_H
#define BL_SERVER_RUN_UPLOAD_H

#include "server/http/intake.h"
#include "server/store/device_tensor.h"

typedef struct bl_upload bl_upload;

/* Begin the PUT of a tensor as octets: read dtype, shape and device from the query.  |coded|: the body has a content coding, so
 * Content-Length is not the size of the tensor. */
BL_NODISCARD bl_status bl_upload_begin(bl_request *rq, bool coded);
/* End the upload after the end of the body: register the tensor and answer. */
BL_NODISCARD bl_status bl_upload_finish(bl_request *rq);

#endif
