/* SPDX-License-Identifier: MIT */
/* The decisions of requests about models survive a restart: which models of the folder are loaded or unloaded, their
 * configuration, and models whose files came in a request.  A change goes to the registry first, then to the store.  Each
 * writer copies the current state of the registry to the store under bl_models.writing, so after the last writer both agree. */
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "server/models/models_internal.h"
#include "server/store/stored_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The row of a model, as it should be in the store. */
typedef struct decided {
    bl_storage *storage;
    uint32_t owner;
    const char *name;
    bl_model_choice choice;
    char *config;  /* heap */
    bl_sent *sent; /* retained; NULL: the files are in the folder */
} decided;

static bl_status write_sent(const decided *d, bl_err *err)
{
    if (d->sent == NULL)
        return bl_storage_run(d->storage, "DELETE FROM sent_models WHERE owner = ?1 AND model = ?2",
                              BL_CELLS(bl_cell_int(d->owner), bl_cell_text(d->name)), NULL, NULL, err);
    return bl_storage_run(
        d->storage, "INSERT OR REPLACE INTO sent_models (owner, model, config, file) VALUES (?1, ?2, ?3, ?4)",
        BL_CELLS(bl_cell_int(d->owner), bl_cell_text(d->name), bl_cell_text(d->config), bl_cell_text(bl_sent_file(d->sent))),
        NULL, NULL, err);
}

/* Only models of the folder, which belong to owner 0. */
static bl_status write_choice(const decided *d, bl_err *err)
{
    if (d->owner != 0)
        return BL_OK;
    if (d->choice == BL_CHOICE_NONE || d->sent != NULL)
        return bl_storage_run(d->storage, "DELETE FROM model_choices WHERE model = ?1", BL_CELLS(bl_cell_text(d->name)), NULL,
                              NULL, err);
    return bl_storage_run(d->storage, "INSERT OR REPLACE INTO model_choices (model, loaded, config) VALUES (?1, ?2, ?3)",
                          BL_CELLS(bl_cell_text(d->name), bl_cell_int(d->choice == BL_CHOICE_LOADED), bl_cell_text(d->config)),
                          NULL, NULL, err);
}

static bl_status choices_write_rows(void *arg, bl_err *err)
{
    BL_TRY(write_sent(arg, err));
    return write_choice(arg, err);
}

/* Under the lock. */
static bl_status choices_look(bl_models *models, decided *d, bl_err *err)
{
    const bl_model *model = bl_models_find(models, d->owner, d->name);
    if (model == NULL)
        return BL_OK;
    d->choice = model->choice;
    d->sent = bl_sent_retain(model->sent);
    if (d->choice != BL_CHOICE_LOADED || model->config == NULL)
        return BL_OK;
    d->config = strdup(model->config);
    return d->config != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for a configuration");
}

/* Under the lock, after the rows are written: the store names |d->sent| now.  Returns the upload that it named before, for the
 * caller to remove. */
static bl_sent *choices_exchange(bl_models *models, const decided *d)
{
    bl_model *model = bl_models_find(models, d->owner, d->name);
    bl_sent *old = model != NULL ? model->stored : NULL;
    if (model == NULL || old == d->sent)
        return NULL;
    bl_sent_name(d->sent);
    model->stored = bl_sent_retain(d->sent);
    return old;
}

bl_status bl_model_write_choice(bl_models *models, uint32_t owner, const char *name, bl_err *err)
{
    decided d = {.storage = models->server->storage, .owner = owner, .name = name};
    bl_sent *old = NULL;
    bl_status st = BL_OK;
    if (bl_storage_folder(d.storage) == NULL)
        return BL_OK;
    pthread_mutex_lock(&models->writing);
    pthread_mutex_lock(&models->lock);
    st = choices_look(models, &d, err);
    pthread_mutex_unlock(&models->lock);
    if (st == BL_OK)
        st = bl_storage_together(d.storage, choices_write_rows, &d, err);
    pthread_mutex_lock(&models->lock);
    if (st == BL_OK)
        old = choices_exchange(models, &d);
    pthread_mutex_unlock(&models->lock);
    bl_sent_forget(old);
    pthread_mutex_unlock(&models->writing);
    bl_sent_release(old);
    bl_sent_release(d.sent);
    free(d.config);
    return st;
}

/* ---- at the start */

typedef struct loading {
    bl_models *models;
    bl_err *err;
} loading;

/* Create the model from its row, before any load.  NULL: out of memory. */
static bl_model *choices_begin(loading *l, uint32_t owner, const char *name, const char *config, bl_model_choice choice)
{
    bl_model *model = bl_models_need(l->models, owner, name);
    if (model == NULL || (config != NULL && (model->config = strdup(config)) == NULL)) {
        (void)bl_fail(l->err, BL_ENOMEM, "out of host memory for a model");
        return NULL;
    }
    model->choice = choice;
    return model;
}

/* Order the load of the model.  A failed load does not change the decision, since the files may exist at the next start. */
static bool choices_order(loading *l, const bl_model *model)
{
    bl_model_op *op = bl_model_op_create(model->owner, model->name);
    if (op == NULL || (model->config != NULL && (op->config = strdup(model->config)) == NULL)) {
        bl_model_op_destroy(l->models, op);
        (void)bl_fail(l->err, BL_ENOMEM, "out of host memory for a model");
        return false;
    }
    op->by = BL_BY_START;
    op->purges = bl_access_purges(l->models->server->access, model->owner);
    op->sent = bl_sent_retain(model->sent);
    l->models->to_start++;
    return bl_models_order(l->models, op, l->err) == BL_OK;
}

static bool load_sent(void *arg, const bl_cell *cells, int n)
{
    loading *l = arg;
    bl_model *model = choices_begin(l, (uint32_t)cells[0].integer, cells[1].bytes.data, cells[2].bytes.data, BL_CHOICE_LOADED);
    (void)n;
    if (model == NULL ||
        bl_sent_recall(l->models->server, (uint32_t)cells[0].integer, cells[3].bytes.data, &model->sent, l->err) != BL_OK)
        return false;
    model->stored = bl_sent_retain(model->sent);
    return choices_order(l, model);
}

static bool load_choice(void *arg, const bl_cell *cells, int n)
{
    loading *l = arg;
    bool loaded = cells[1].integer != 0;
    bl_model *model = NULL;
    (void)n;
    model = choices_begin(l, 0, cells[0].bytes.data, cells[2].bytes.data, loaded ? BL_CHOICE_LOADED : BL_CHOICE_UNLOADED);
    if (model == NULL)
        return false;
    model->wanted = loaded;
    return !loaded || choices_order(l, model);
}

/* Call before the loaders run. */
bl_status bl_models_load_choices(bl_models *models, bl_err *err)
{
    bl_storage *storage = models->server->storage;
    loading l = {models, err};
    BL_TRY(bl_stored_load(models->server, BL_STORED_MODEL,
                          "SELECT owner, model, config, file FROM sent_models ORDER BY owner, model", load_sent, &l, err));
    BL_TRY(err->status);
    BL_TRY(bl_storage_each(storage, "SELECT model, loaded, config FROM model_choices ORDER BY model", load_choice, &l, err));
    return err->status;
}
