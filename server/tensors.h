/* SPDX-License-Identifier: MIT */
/* What the upload needs of the handlers of tensors. */
#ifndef BL_SERVER_TENSORS_H
#define BL_SERVER_TENSORS_H

#include "server/held.h"

/* The name in the path must be one. */
BL_NODISCARD bl_status bl_tensors_check_name(bl_request *rq);
/* The same, of a PUT: and none by which another key shares something. */
BL_NODISCARD bl_status bl_tensors_check_put(bl_request *rq);
/* Hold |held| under the name in the path, and answer. */
BL_NODISCARD bl_status bl_tensors_keep(bl_request *rq, bl_held *held);

#endif
