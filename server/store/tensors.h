/* SPDX-License-Identifier: MIT */
/* Functions of the tensor handlers that uploads use too. */
#ifndef BL_SERVER_STORE_TENSORS_H
#define BL_SERVER_STORE_TENSORS_H

#include "server/store/device_tensor.h"

/* Check that the name in the path is valid. */
BL_NODISCARD bl_status bl_tensors_check_name(bl_request *rq);
/* bl_tensors_check_name for a PUT: the name must also not be the name of a share. */
BL_NODISCARD bl_status bl_tensors_check_put(bl_request *rq);
/* Register |held| under the name in the path, and answer. */
BL_NODISCARD bl_status bl_tensors_keep(bl_request *rq, bl_device_tensor *held);

#endif
