/* SPDX-License-Identifier: MIT */
/* Held tensors that outlive the server: each a file in the folder of --state, with a row that says whose it is and what it is
 * called. The row comes after its file, and goes before it.  Thread: any, but for what says otherwise. */
#ifndef BL_SERVER_DATA_DURABLE_H
#define BL_SERVER_DATA_DURABLE_H

#include "server/held.h"

/* Write |held|, which is the request's and nobody else's yet, down as rq->owner's |name|; then |then| is called on the HTTP
 * thread, and held->durable says which row it is.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_durable_keep(bl_request *rq, bl_held *held, const char *name, bl_status (*then)(bl_request *rq));
/* Row and file go: the tensor has left its name. */
BL_NODISCARD bl_status bl_durable_forget(bl_server *server, uint32_t owner, int64_t row, bl_err *err);
/* Bring all back, at the start, when workers run and before anyone asks.  What cannot be read is left where it is, and told. */
BL_NODISCARD bl_status bl_durable_load(bl_server *server, bl_err *err);

#endif
