/* SPDX-License-Identifier: MIT */
/* Periodic checks of the folder and of the devices.
 *
 * Hot reload: models whose files changed are loaded again, new models are loaded, and models whose folder is gone are
 * unloaded.  A change counts when two polls see the same files, since files are copied one after the other. */
#include "server/models/model_infer.h"

#include "engine/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_BYTES = 16 * 1024 * 1024 };
static const int64_t MEND_EVERY_NS = INT64_C(10000000000); /* the interval of repeated attempts */

/* Is the model unknown, with no version and no decision of a request? */
static bool poll_is_new(const bl_model *model)
{
    return model == NULL || (model->nrows == 0 && model->loading == BL_LOADING_NONE && model->choice == BL_CHOICE_NONE);
}

/* Does the model need a load, now that its files are |source|?  *fresh: the files were never tried before. */
static bool is_changed(bl_models *models, const char *name, const bl_source *source, bool *fresh)
{
    bl_model *model = NULL;
    bool changed = false;
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, 0, name);
    if (poll_is_new(model) && source->nversions > 0 && bl_models_is_chosen(models, name)) {
        model = bl_models_need(models, 0, name);
        if (model != NULL)
            model->wanted = true;
    }
    if (model != NULL && model->wanted && model->loading == BL_LOADING_NONE && source->fingerprint != model->fingerprint) {
        changed = source->fingerprint == model->seen;
        *fresh = model->fingerprint == 0;
        model->seen = source->fingerprint;
        if (changed)
            model->fingerprint = source->fingerprint; /* with or without success, these files are tried once */
    }
    pthread_mutex_unlock(&models->lock);
    return changed;
}

static void poll_look_at(void *arg, const char *name)
{
    bl_models *models = arg;
    bl_arena *arena = bl_arena_create(LOOK_BYTES);
    bl_model_op *op = NULL;
    bl_source source;
    bl_err err = {0};
    bool fresh = false;
    if (arena != NULL && bl_source_look(models, arena, name, &source, &err) == BL_OK && source.found &&
        is_changed(models, name, &source, &fresh))
        op = bl_model_op_create(0, name);
    bl_arena_destroy(arena);
    if (op == NULL)
        return;
    bl_log(BL_LOG_INFO, "model %s: %s", name, fresh ? "found in the folder of models" : "its files changed; loading it again");
    if (bl_models_order(models, op, &err) != BL_OK)
        bl_log(BL_LOG_ERROR, "model %s: %s", name, err.text);
}

/* The names of the watched models of the folder.  Heap. */
static char (*list_names(bl_models *models, size_t *count))[BL_MODEL_NAME_SIZE]
{
    char(*names)[BL_MODEL_NAME_SIZE] = NULL;
    const char *key = NULL;
    void *at = NULL;
    *count = 0;
    pthread_mutex_lock(&models->lock);
    names = malloc((bl_namemap_count(models->names) + 1) * sizeof *names);
    for (size_t i = 0; names != NULL && bl_namemap_at(models->names, i, &key, &at); i++) {
        const bl_model *model = at;
        if (model->owner == 0 && model->wanted && model->loading == BL_LOADING_NONE)
            memcpy(names[(*count)++], model->name, sizeof *names);
    }
    pthread_mutex_unlock(&models->lock);
    return names;
}

static void unload_missing(bl_models *models)
{
    size_t count = 0;
    char(*names)[BL_MODEL_NAME_SIZE] = list_names(models, &count);
    for (size_t i = 0; i < count; i++) {
        bl_arena *arena = bl_arena_create(LOOK_BYTES);
        bl_source source;
        bl_err err = {0};
        bool gone = arena != NULL && bl_source_look(models, arena, names[i], &source, &err) == BL_OK && !source.found;
        bl_arena_destroy(arena);
        if (gone && bl_models_withdraw(models, names[i], &err) == BL_OK)
            bl_log(BL_LOG_INFO, "model %s: its folder was removed; unloading it", names[i]);
    }
    free(names);
}

/* ---- devices that were lost or drained */

/* Reload the version from its source: the store, the upload, or the folder. */
static void load_again(bl_model_version *version, const char *why)
{
    bl_models *models = version->models;
    const bl_model *model = NULL;
    bl_model_op *op = NULL;
    bl_err err = {0};
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, version->owner, version->name);
    if (model != NULL && model->loading == BL_LOADING_NONE &&
        (model->wanted || version->origin.kept != 0 || version->origin.sent != NULL))
        op = bl_model_op_create(version->owner, version->name);
    if (op != NULL) {
        op->kind = version->origin.kept != 0 ? BL_MODEL_OP_MEND_KEPT : BL_MODEL_OP_MEND;
        op->purges = version->origin.purges;
        op->kept = version->origin.kept;
        op->sent = bl_sent_retain(version->origin.sent);
    }
    pthread_mutex_unlock(&models->lock);
    if (op == NULL)
        return;
    bl_log(BL_LOG_INFO, "model %s is loaded again: a device was %s", version->name, why);
    if (bl_models_order(models, op, &err) != BL_OK)
        bl_log(BL_LOG_ERROR, "model %s: %s", version->name, err.text);
}

/* Should the version move because its device was drained or resumed?  A version with sequences stays until they have ended,
 * since their state is on the device. */
static bool poll_moves(bl_model_version *version)
{
    unsigned drains = atomic_load(&version->models->server->drain.count);
    bool busy = false;
    if (version->placement.drains == drains)
        return false;
    if (!bl_model_version_is_misplaced(version)) {
        version->placement.drains = drains;
        return false;
    }
    pthread_mutex_lock(&version->sequences.lock);
    busy = version->sequences.by_key != NULL && bl_namemap_count(version->sequences.by_key) > 0;
    pthread_mutex_unlock(&version->sequences.lock);
    return !busy;
}

void bl_model_version_mend(bl_model_version *version, int64_t now_ns)
{
    bool again = false, goes = poll_moves(version);
    for (int i = 0; i < version->ninstances; i++) {
        const bl_worker *worker = version->instances[i].slot.program->worker;
        again |= !atomic_load(&worker->dev->lost) && bl_batch_slot_is_lost(&version->instances[i].slot);
    }
    if ((!again && !goes) || (version->placement.mended_ns != 0 && now_ns - version->placement.mended_ns < MEND_EVERY_NS))
        return;
    version->placement.mended_ns = now_ns;
    load_again(version, again ? "lost" : "drained or resumed");
}

void bl_models_poll(bl_models *models)
{
    if (!bl_source_is_there(models)) /* an unreadable folder does not unload all models */
        return;
    bl_source_each(models, poll_look_at, models);
    unload_missing(models);
}
