/* SPDX-License-Identifier: MIT */
/* Stored versions: versions that were made of a program survive a restart.  Each version is a file in the folder of --state,
 * and a row that names its model and number.  The row is written after its file, and deleted before it.  Of two rows of one
 * version the later one is valid. */
#include "engine/base/log.h"
#include "server/data/snapshot.h"
#include "server/models/model_infer.h"

#include <stdio.h>
#include <unistd.h>

static bool kept_versions_take_id(void *arg, const bl_cell *cells, int n)
{
    (void)n;
    *(int64_t *)arg = cells[0].integer;
    return false;
}

static bl_status insert_version(void *arg, const char *file, bl_err *err)
{
    bl_model_version *version = arg;
    return bl_storage_run(
        version->models->server->storage,
        "INSERT INTO versions (owner, model, version, entry, program, file) VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING id",
        BL_CELLS(bl_cell_int(version->owner), bl_cell_text(version->name), bl_cell_int((int64_t)version->number),
                 bl_cell_text(version->config.entry), bl_cell_text(version->instances[0].slot.program->name), bl_cell_text(file)),
        kept_versions_take_id, &version->origin.kept, err);
}

bl_status bl_model_keep(bl_model_version *version, bl_err *err)
{
    bl_snapshot snap = {.program = version->instances[0].slot.program};
    bl_status st = bl_snapshot_take(&snap, err);
    if (st == BL_OK)
        st = bl_snapshot_put(&snap, BL_STORED_VERSION, 0, insert_version, version, err);
    bl_snapshot_drop(&snap);
    return st;
}

/* Only rows that existed at the start; the versions of later rows are published, or will be. */
bl_status bl_models_forget_lost(bl_models *models, uint32_t owner, const char *name, bl_err *err)
{
    return bl_stored_delete(models->server, BL_STORED_VERSION, owner, "owner = ?1 AND model = ?2 AND id <= ?3",
                            BL_CELLS(bl_cell_int(owner), bl_cell_text(name), bl_cell_int(models->last_kept)), err);
}

void bl_model_version_retire(bl_model_version *version)
{
    bl_err err = {0};
    if (version == NULL)
        return;
    if (version->origin.kept != 0 && bl_stored_delete(version->models->server, BL_STORED_VERSION, version->owner, "id = ?1",
                                                      BL_CELLS(bl_cell_int(version->origin.kept)), &err) != BL_OK)
        bl_log(BL_LOG_WARN, "the record of version %llu of model %s cannot be deleted: %s", (unsigned long long)version->number,
               version->name, err.text);
    bl_model_version_release(version);
}

/* ---- all models of an owner */

/* Copy the name of a model of |owner| that has a version, a decision or an upload.  False: there is none. */
static bool kept_versions_find_one(bl_models *models, uint32_t owner, char name[BL_MODEL_NAME_SIZE])
{
    const char *key = NULL;
    void *at = NULL;
    bool found = false;
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; !found && bl_namemap_at(models->names, i, &key, &at); i++) {
        const bl_model *model = at;
        if (model->owner != owner)
            continue;
        found = model->choice != BL_CHOICE_NONE || model->stored != NULL;
        for (int k = 0; k < model->nrows; k++)
            found = found || model->rows[k].version != NULL;
        if (found)
            snprintf(name, BL_MODEL_NAME_SIZE, "%s", model->name);
    }
    pthread_mutex_unlock(&models->lock);
    return found;
}

bl_status bl_models_purge(bl_models *models, uint32_t owner, bl_err *err)
{
    char name[BL_MODEL_NAME_SIZE];
    while (kept_versions_find_one(models, owner, name))
        BL_TRY(bl_models_unload(models, owner, name, err));
    bl_models_forget_names(models, owner);
    /* versions that could not be loaded at the start */
    return bl_stored_delete(models->server, BL_STORED_VERSION, owner, "owner = ?1", BL_CELLS(bl_cell_int(owner)), err);
}

/* ---- at the start */

typedef struct row {
    int64_t id;
    uint32_t owner;
    uint64_t number;
    const char *model, *entry, *program, *file; /* |entry| may be NULL */
} row;

static bl_status read_program(bl_models *models, const row *r, bl_program **out, bl_err *err)
{
    uint64_t bytes = 0;
    int fd = -1;
    bl_status st = BL_OK;
    BL_TRY(bl_stored_open(models->server, BL_STORED_VERSION, r->file, &fd, &bytes, err));
    st = bl_recall_program(models->server, r->owner, r->program, fd, out, err);
    if (st == BL_OK)
        st = bl_recall_state(*out, fd, err);
    (void)close(fd);
    return st;
}

static bl_status kept_versions_load_version(bl_models *models, const row *r, bool again, bl_err *err)
{
    bl_model_version *version = bl_model_version_create(models, r->owner, r->model, r->number);
    bl_program *program = NULL;
    bl_status st = version != NULL ? read_program(models, r, &program, err)
                                   : bl_fail(err, BL_ENOMEM, "out of host memory for a version of a model");
    if (st == BL_OK)
        st = bl_model_fill_promoted(version, &program, r->entry, err);
    bl_program_release(program);
    if (st != BL_OK) {
        bl_model_version_release(version);
        return st;
    }
    if (again) {
        version->origin.kept = r->id;
        bl_models_mend(models, version);
        return BL_OK;
    }
    /* before |kept| is set, so that a failure does not delete the row, and the next start can try again */
    BL_TRY(bl_models_publish(models, version, NULL, err));
    version->origin.kept = r->id; /* no other thread runs yet */
    return BL_OK;
}

static row kept_versions_row_of(const bl_cell *cells)
{
    return (row){.id = cells[0].integer,
                 .owner = (uint32_t)cells[1].integer,
                 .model = cells[2].bytes.data,
                 .number = (uint64_t)cells[3].integer,
                 .entry = cells[4].bytes.data,
                 .program = cells[5].bytes.data,
                 .file = cells[6].bytes.data};
}

static bool kept_versions_load_row(void *arg, const bl_cell *cells, int n)
{
    bl_models *models = arg;
    row r = kept_versions_row_of(cells);
    bl_err why = {0};
    (void)n;
    models->last_kept = r.id;
    if (kept_versions_load_version(models, &r, false, &why) == BL_OK)
        return true;
    bl_log(BL_LOG_WARN, "version %llu of model %s cannot be restored: %s", (unsigned long long)r.number, r.model, why.text);
    bl_models_publish_failure(models, r.owner, r.model, r.number, &why);
    return true;
}

#define COLUMNS "SELECT id, owner, model, version, entry, program, file FROM versions "

typedef struct mending {
    bl_models *models;
    bl_err *err;
} mending;

/* Is the version reloaded already?  Several jobs can be ordered before a loader takes the first. */
static bool is_mended(bl_models *models, const row *r)
{
    const bl_model *model = NULL;
    bool mended = false;
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, r->owner, r->model);
    for (int k = 0; model != NULL && k < model->nrows; k++) {
        const bl_model_version *version = model->rows[k].version;
        if (version != NULL && version->origin.kept == r->id)
            mended = !bl_model_version_lacks_any(version);
    }
    pthread_mutex_unlock(&models->lock);
    return mended;
}

static bool mend_row(void *arg, const bl_cell *cells, int n)
{
    const mending *m = arg;
    row r = kept_versions_row_of(cells);
    (void)n;
    if (is_mended(m->models, &r))
        return false;
    if (kept_versions_load_version(m->models, &r, true, m->err) == BL_OK)
        bl_log(BL_LOG_INFO, "model %s, version %llu is ready", r.model, (unsigned long long)r.number);
    return false;
}

bl_status bl_models_mend_kept(bl_models *models, int64_t kept, bl_err *err)
{
    mending m = {models, err};
    char sql[sizeof COLUMNS + 40];
    snprintf(sql, sizeof sql, COLUMNS "WHERE id = %lld", (long long)kept);
    BL_TRY(bl_storage_each(models->server->storage, sql, mend_row, &m, err));
    return err->status;
}

bl_status bl_models_load_kept(bl_models *models, bl_err *err)
{
    return bl_stored_load(models->server, BL_STORED_VERSION, COLUMNS "ORDER BY id", kept_versions_load_row, models, err);
}
