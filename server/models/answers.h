/* SPDX-License-Identifier: MIT */
/* The response cache of a version: outputs by the exact inputs.  Off unless the configuration enables it.  Thread: any. */
#ifndef BL_SERVER_MODELS_ANSWERS_H
#define BL_SERVER_MODELS_ANSWERS_H

#include "server/models/models_internal.h"

/* NULL: out of memory.  The size limit is --response-cache. */
bl_answers *bl_answers_create(bl_server *server);
void bl_answers_destroy(bl_answers *answers); /* accepts NULL */
/* Look up the outputs for exactly these inputs and store them in in->item.got, where they stay until the request ends.  False:
 * not cached.  in->item.source must be filled. */
bool bl_answers_find(bl_answers *answers, bl_infer *in);
/* Cache the outputs in in->item.got.  Does nothing if out of memory. */
void bl_answers_keep(bl_answers *answers, const bl_infer *in);

#endif
