/* SPDX-License-Identifier: MIT */
/* All that a key holds goes: its jobs are cancelled; what it shares and what is shared with it, tensors, programs, leases,
 * versions of models, blobs, and what is on the disk of these. */
#ifndef BL_SERVER_PURGE_H
#define BL_SERVER_PURGE_H

#include "server/request.h"

/* For an administrator's request, which |then| answers on the HTTP thread.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq));

#endif
