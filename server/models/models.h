/* SPDX-License-Identifier: MIT */
/* Hosted models: programs with versions, served by the Open Inference Protocol.  A model comes from a watched folder,
 * NAME/VERSION/, or from a load request.
 *
 * Thread: any, except for creation and destruction. */
#ifndef BL_SERVER_MODELS_H
#define BL_SERVER_MODELS_H

#include "server/ops/server.h"

/* Call after the queues exist.  Begins to load the models of the settings. */
BL_NODISCARD bl_status bl_models_create(bl_server *server, bl_models **out, bl_err *err);
/* Cancel all loads, and wait until no run of a model is queued.  No client may wait any more. */
void bl_models_stop(bl_models *models);
/* Call after the queues are destroyed. */
void bl_models_destroy(bl_models *models);
/* Has every load of the start ended, with or without success? */
bool bl_models_ready(bl_models *models);
/* Poll the folder now, and load what changed.  Does not wait for the loads.  Accepts NULL. */
void bl_models_reload(bl_models *models);
/* The number of versions that can serve requests. */
size_t bl_models_count(bl_models *models);
/* Print a line for each model or version that could not be loaded, with the reason.  Returns the number of lines. */
size_t bl_models_print_failures(bl_models *models, bl_text *out);
/* The number of ready versions that have an instance on |worker|. */
size_t bl_models_count_on(bl_models *models, const bl_worker *worker);
/* A device was drained or resumed: check the placement of all models. */
void bl_models_replace(bl_models *models);
/* Does the registry know the model, with or without a ready version? */
bool bl_models_has(bl_models *models, uint32_t owner, const char *name);

/* Print the Prometheus metrics of each ready version. */
BL_NODISCARD bl_status bl_models_print_metrics(bl_models *models, bl_arena *arena, bl_text *out, bl_err *err);

/* Unload all versions of |owner|, and delete their files and rows on disk. */
BL_NODISCARD bl_status bl_models_purge(bl_models *models, uint32_t owner, bl_err *err);

#endif
