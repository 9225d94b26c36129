/* SPDX-License-Identifier: MIT */
/* Durable tensors: each tensor is a file in the folder of --state, and a row with its owner and name.  The row is inserted
 * after the file is written, and deleted before the file is removed.  Thread: any, unless stated otherwise. */
#ifndef BL_SERVER_DATA_DURABLE_H
#define BL_SERVER_DATA_DURABLE_H

#include "server/store/device_tensor.h"

/* Write |held|, which no other request uses yet, to disk as |name| of rq->owner.  Then |then| is called on the HTTP thread,
 * and held->durable is the row of the tensor.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_durable_keep(bl_request *rq, bl_device_tensor *held, const char *name,
                                       bl_status (*then)(bl_request *rq));
/* Delete row and file, because no name refers to the tensor any more. */
BL_NODISCARD bl_status bl_durable_forget(bl_server *server, uint32_t owner, int64_t row, bl_err *err);
/* Restore all durable tensors.  Call at the start, when the workers run and before requests are accepted.  A tensor that cannot
 * be read stays on disk and is logged. */
BL_NODISCARD bl_status bl_durable_load(bl_server *server, bl_err *err);

#endif
