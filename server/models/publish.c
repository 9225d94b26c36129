/* SPDX-License-Identifier: MIT */
/* The rows of the index of models: publishing a version, or the reason why it could not be loaded. */
#include "server/models/models_internal.h"

#include "engine/base/fault.h"

#include <string.h>

/* Under the lock: make room for one more row.  If necessary, remove the row of the oldest version that is unloaded. */
static bool make_row(bl_model *model)
{
    int at = 0;
    if (model->nrows < BL_MOST_VERSIONS)
        return true;
    while (at < model->nrows && (model->rows[at].version != NULL || model->rows[at].state == BL_MODEL_LOADING))
        at++;
    if (at == model->nrows)
        return false;
    memmove(model->rows + at, model->rows + at + 1, (size_t)(model->nrows - at - 1) * sizeof *model->rows);
    model->nrows--;
    return true;
}

bl_model_row *bl_model_need_row(bl_model *model, uint64_t number)
{
    bl_model_row *row = bl_model_find_row(model, number), *grown = NULL;
    int at = 0;
    if (row != NULL)
        return row;
    if (!make_row(model))
        return NULL;
    grown = bl_realloc(model->rows, ((size_t)model->nrows + 1) * sizeof *grown);
    if (grown == NULL)
        return NULL;
    model->rows = grown;
    while (at < model->nrows && grown[at].number < number)
        at++;
    memmove(grown + at + 1, grown + at, (size_t)(model->nrows - at) * sizeof *grown);
    model->nrows++;
    grown[at] = (bl_model_row){.number = number};
    return &grown[at];
}

bl_status bl_model_check_unloads(const bl_model *model, uint64_t unloads, bl_err *err)
{
    return model != NULL && model->unloads == unloads
               ? BL_OK
               : bl_fail(err, BL_ECONFLICT, "the model was unloaded while it was being loaded");
}

/* Under the lock: publish the version; *old is the version that it replaces. */
static bl_status publish_row(bl_models *models, bl_model_version *version, const uint64_t *unloads, bl_model_version **old,
                             bl_err *err)
{
    bl_model *model = NULL;
    bl_model_row *row = NULL;
    BL_TRY(bl_access_check_owner(models->server->access, version->owner, version->origin.purges, err));
    if (unloads != NULL)
        BL_TRY(bl_model_check_unloads(bl_models_find(models, version->owner, version->name), *unloads, err));
    model = bl_models_need(models, version->owner, version->name);
    row = model != NULL ? bl_model_need_row(model, version->number) : NULL;
    if (row == NULL && model != NULL && model->nrows >= BL_MOST_VERSIONS)
        return bl_fail(err, BL_ELIMIT, "a model has at most %d versions", BL_MOST_VERSIONS);
    if (row == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the list of models");
    *old = row->version;
    row->version = version;
    row->state = BL_MODEL_READY;
    row->reason[0] = '\0';
    return BL_OK;
}

bl_status bl_models_publish(bl_models *models, bl_model_version *version, const uint64_t *unloads, bl_err *err)
{
    bl_model_version *old = version;
    bl_status st = BL_OK;
    pthread_mutex_lock(&models->lock);
    st = publish_row(models, version, unloads, &old, err);
    pthread_mutex_unlock(&models->lock);
    bl_model_version_retire(old);
    return st;
}

void bl_models_publish_failure(bl_models *models, uint32_t owner, const char *name, uint64_t number, const bl_err *why)
{
    bl_model *model = NULL;
    bl_model_row *row = NULL;
    pthread_mutex_lock(&models->lock);
    model = bl_models_need(models, owner, name);
    row = model != NULL ? bl_model_need_row(model, number) : NULL;
    if (row != NULL) {
        row->state = row->version != NULL ? BL_MODEL_READY : BL_MODEL_UNAVAILABLE;
        bl_err_describe(why, row->reason, sizeof row->reason);
    }
    pthread_mutex_unlock(&models->lock);
}

void bl_models_mend(bl_models *models, bl_model_version *version)
{
    bl_model_version *old = version;
    bl_model *model = NULL;
    bl_model_row *row = NULL;
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, version->owner, version->name);
    row = model != NULL ? bl_model_find_row(model, version->number) : NULL;
    if (row != NULL && row->version != NULL && row->version->origin.kept == version->origin.kept &&
        row->version->origin.sent == version->origin.sent) {
        old = row->version;
        row->version = version;
        row->reason[0] = '\0';
    }
    old->origin.kept = 0; /* the row of the store belongs to the new version, or is deleted */
    pthread_mutex_unlock(&models->lock);
    bl_model_version_release(old);
}
