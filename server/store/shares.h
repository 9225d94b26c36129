/* SPDX-License-Identifier: MIT */
/* Checks of names against shares, for handlers that create tensors and programs. */
#ifndef BL_SERVER_STORE_SHARES_H
#define BL_SERVER_STORE_SHARES_H

#include "server/http/request.h"

/* BL_ECONFLICT if |name| is the name under which another key shares an object with |rq|'s key: the new object would hide the
 * shared object.  |kind| is "tensor", in |lease| or (NULL) its owner's namespace, or "program". */
BL_NODISCARD bl_status bl_shares_check_new(bl_request *rq, const char *lease, const char *kind, const char *name);

#endif
