/* SPDX-License-Identifier: MIT */
/* Tensors made of blobs and of files below --data-folder.  What a path names is looked for below that folder alone: no link is
 * followed, no "..", and only regular files are read.  Files that gzip packed are inflated. */
#ifndef BL_SERVER_DATA_SOURCES_H
#define BL_SERVER_DATA_SOURCES_H

#include "proto/data.h"
#include "server/held.h"

/* Read |source| on a compile thread into a tensor for |worker|, which is rq->data when |then| is called on the HTTP thread, and
 * the request's; it may need bl_held_flush.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_source_load(bl_request *rq, const bl_data_source *source, bl_worker *worker,
                                      bl_status (*then)(bl_request *rq));

#endif
