/* SPDX-License-Identifier: MIT */
/* Deletion of all objects of a key. Its jobs are cancelled. Its shares, the shares that it got, its tensors, programs,
 * leases, model versions and blobs are deleted, in memory and on disk. */
#ifndef BL_SERVER_STORE_PURGE_H
#define BL_SERVER_STORE_PURGE_H

#include "server/http/request.h"

/* Purge for an administrator's request; |then| fills the answer on the HTTP thread.  After BL_OK the caller must not touch the
 * request. */
BL_NODISCARD bl_status bl_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq));

#endif
