/* SPDX-License-Identifier: MIT */
/* Tensors read from blobs and from files below --data-folder.  Paths are resolved below that folder only: links and ".." are
 * refused, and only regular files are read.  Files compressed by gzip are inflated. */
#ifndef BL_SERVER_DATA_SOURCES_H
#define BL_SERVER_DATA_SOURCES_H

#include "proto/data.h"
#include "server/store/device_tensor.h"

/* Read |source| on a compile thread into a tensor for |worker|.  When |then| is called on the HTTP thread, the tensor is
 * rq->data; the request owns the tensor, which may need bl_device_tensor_flush.  After BL_OK the caller must not touch the
 * request. */
BL_NODISCARD bl_status bl_source_load(bl_request *rq, const bl_data_source *source, bl_worker *worker,
                                      bl_status (*then)(bl_request *rq));

#endif
