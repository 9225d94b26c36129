/* SPDX-License-Identifier: MIT */
/* What the handlers that put something ask of what others share. */
#ifndef BL_SERVER_SHARES_H
#define BL_SERVER_SHARES_H

#include "server/request.h"

/* BL_ECONFLICT where |name| stands for what another key shares with |rq|'s: what is to be put there would hide it.  |kind| is
 * "tensor", in |lease| or (NULL) its owner's namespace, or "program". */
BL_NODISCARD bl_status bl_shares_check_new(bl_request *rq, const char *lease, const char *kind, const char *name);

#endif
