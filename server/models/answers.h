/* SPDX-License-Identifier: MIT */
/* Answers that a model gave, kept for who asks the same again: its version's, off unless the configuration has it on.
 * Thread: any. */
#ifndef BL_SERVER_MODELS_ANSWERS_H
#define BL_SERVER_MODELS_ANSWERS_H

#include "server/models/models_internal.h"

/* NULL if out of memory.  Bounded by --response-cache. */
bl_answers *bl_answers_create(bl_server *server);
void bl_answers_destroy(bl_answers *answers); /* accepts NULL */
/* The outputs that were given to these very inputs, into in->item.got, where they stay until the request ends; false where nobody
 * asked so.  in->item.source is read. */
bool bl_answers_find(bl_answers *answers, bl_infer *in);
/* Keep what is in in->item.got; without memory it is not. */
void bl_answers_keep(bl_answers *answers, const bl_infer *in);

#endif
