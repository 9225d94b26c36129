/* SPDX-License-Identifier: MIT */
/* Hosted models: programs with versions, served as the Open Inference Protocol has it.  They come from a folder, NAME/VERSION/,
 * that is watched for changes, or from the request that loads them.  Thread: any, but for the start and the end. */
#ifndef BL_SERVER_MODELS_H
#define BL_SERVER_MODELS_H

#include "server/ops/server.h"

/* After the queues are there; begins to load what the settings say. */
BL_NODISCARD bl_status bl_models_create(bl_server *server, bl_models **out, bl_err *err);
/* Cancel what is being loaded, and wait until nothing of models is in a queue.  No client waits any more. */
void bl_models_stop(bl_models *models);
/* After the queues are gone. */
void bl_models_destroy(bl_models *models);
/* Was everything tried that is to be loaded at the start? */
bool bl_models_ready(bl_models *models);
/* Look at the folder now, whether or not it is time, and load what changed, without waiting for it.  Accepts NULL. */
void bl_models_reload(bl_models *models);
/* How many versions can be asked. */
size_t bl_models_count(bl_models *models);
/* A line for each model or version that could not be loaded, with the reason; how many there are. */
size_t bl_models_print_failures(bl_models *models, bl_text *out);
/* How many of them have an instance on |worker|. */
size_t bl_models_count_on(bl_models *models, const bl_worker *worker);
/* A device was drained or resumed: look who is to move. */
void bl_models_replace(bl_models *models);
/* Is there, or was there, a version of it? */
bool bl_models_has(bl_models *models, uint32_t owner, const char *name);

/* What Prometheus is told of each, for as long as it can be asked. */
BL_NODISCARD bl_status bl_models_print_metrics(bl_models *models, bl_arena *arena, bl_text *out, bl_err *err);

/* All versions of |owner| go, what is on the disk included. */
BL_NODISCARD bl_status bl_models_purge(bl_models *models, uint32_t owner, bl_err *err);

#endif
