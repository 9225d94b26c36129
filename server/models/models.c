/* SPDX-License-Identifier: MIT */
#include "server/models/models.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "server/models/completion.h"
#include "server/models/model_infer.h"
#include "server/models/sequences.h"
#include "server/store/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- names */

/* A valid name cannot lead out of the folder of models. */
bool bl_model_name_ok(const char *name)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.";
    size_t len = strlen(name);
    return len > 0 && len < BL_MODEL_NAME_SIZE && name[0] != '.' && name[0] != '-' && strspn(name, letters) == len;
}

enum { KEY_SIZE = BL_MODEL_NAME_SIZE + 16 };

static const char *models_key_of(char key[KEY_SIZE], uint32_t owner, const char *name)
{
    snprintf(key, KEY_SIZE, "%u %s", owner, name);
    return key;
}

bl_model *bl_models_find(bl_models *models, uint32_t owner, const char *name)
{
    char key[KEY_SIZE];
    return strlen(name) < BL_MODEL_NAME_SIZE ? bl_namemap_get(models->names, models_key_of(key, owner, name)) : NULL;
}

bl_model *bl_models_need(bl_models *models, uint32_t owner, const char *name)
{
    bl_model *model = bl_models_find(models, owner, name);
    char key[KEY_SIZE];
    bl_err ignored = {0};
    if (model != NULL)
        return model;
    model = bl_calloc(1, sizeof *model);
    if (model == NULL)
        return NULL;
    model->owner = owner;
    snprintf(model->name, sizeof model->name, "%s", name);
    if (bl_namemap_put(models->names, models_key_of(key, owner, name), model, &ignored) == BL_OK)
        return model;
    free(model);
    return NULL;
}

bl_model_row *bl_model_find_row(bl_model *model, uint64_t number)
{
    for (int i = 0; i < model->nrows; i++)
        if (model->rows[i].number == number)
            return &model->rows[i];
    return NULL;
}

static void free_model(bl_model *model)
{
    for (int i = 0; i < model->nrows; i++)
        bl_model_version_release(model->rows[i].version);
    bl_sent_release(model->sent);
    bl_sent_release(model->stored);
    free(model->rows);
    free(model->config);
    free(model);
}

/* ---- limits; under the lock */

static bool has_version(const bl_model *model)
{
    bool has = false;
    for (int i = 0; i < model->nrows; i++)
        has |= model->rows[i].version != NULL;
    return has;
}

/* Does the model come from the folder?  Such models do not count against the limit, since the operator fills the folder. */
static bool is_foldered(const bl_model *model)
{
    return model->owner == 0 && model->sent == NULL && (model->wanted || model->choice != BL_CHOICE_NONE);
}

/* Does the name have a version, a decision, a stored upload, or files in the folder? */
static bool models_is_used(const bl_model *model)
{
    return has_version(model) || model->choice != BL_CHOICE_NONE || model->stored != NULL || model->wanted;
}

/* Under the lock: remove a model of which nothing is known, and return it for the caller to free; else NULL. */
static bl_model *remove_unknown(bl_models *models, bl_model *model)
{
    char key[KEY_SIZE];
    if (model == NULL || model->nrows > 0 || model->loading != BL_LOADING_NONE || models_is_used(model))
        return NULL;
    (void)bl_namemap_remove(models->names, models_key_of(key, model->owner, model->name));
    return model;
}

bool bl_model_rows_next(bl_models *models, bl_model_rows *it)
{
    const char *key = NULL;
    void *model = NULL;
    if (it->model == NULL || it->next_row >= it->model->nrows) {
        if (!bl_namemap_at(models->names, it->next_model++, &key, &model))
            return false;
        it->model = model;
        it->next_row = 0;
    }
    it->row = it->next_row < it->model->nrows ? &it->model->rows[it->next_row++] : NULL;
    it->version = it->row != NULL ? it->row->version : NULL;
    return true;
}

/* Remove one unused name of |owner|.  False: there is none. */
static bool forget_one(bl_models *models, uint32_t owner)
{
    const char *key = NULL;
    void *at = NULL;
    for (size_t i = 0; bl_namemap_at(models->names, i, &key, &at); i++) {
        bl_model *model = at;
        if (model->owner != owner || model->loading != BL_LOADING_NONE || models_is_used(model))
            continue;
        (void)bl_namemap_remove(models->names, key);
        free_model(model);
        return true;
    }
    return false;
}

/* Count the models of |owner|, except |name| and models of the folder.  *names: all of them.  Returns those that count against
 * the limit. */
static size_t count_names(bl_models *models, uint32_t owner, const char *name, size_t *names)
{
    const char *key = NULL;
    void *at = NULL;
    size_t used = 0;
    *names = 0;
    for (size_t i = 0; bl_namemap_at(models->names, i, &key, &at); i++) {
        const bl_model *model = at;
        if (model->owner != owner || is_foldered(model) || strcmp(model->name, name) == 0)
            continue;
        *names += 1;
        used += models_is_used(model) || model->loading == BL_LOADING_ADMITTED;
    }
    return used;
}

bl_status bl_models_admit(bl_models *models, uint32_t owner, const char *name, bl_err *err)
{
    size_t most = (size_t)models->server->settings.max_models, names = 0, used = 0;
    bl_model *model = NULL;
    bl_status st = BL_OK;
    pthread_mutex_lock(&models->lock);
    used = count_names(models, owner, name, &names);
    while (names >= most && forget_one(models, owner))
        names--;
    model = bl_models_find(models, owner, name); /* after the removal of unused names, which may have removed |name| */
    if (used >= most && (model == NULL || !models_is_used(model)))
        st = bl_fail(err, BL_ENODEVMEM, "the server has %zu models, the limit (--max-models); unload models", used);
    else if ((model = bl_models_need(models, owner, name)) == NULL)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for the list of models");
    else if (model->loading == BL_LOADING_RUNS)
        model->loading = BL_LOADING_ADMITTED;
    pthread_mutex_unlock(&models->lock);
    return st;
}

void bl_models_forget_names(bl_models *models, uint32_t owner)
{
    pthread_mutex_lock(&models->lock);
    while (forget_one(models, owner))
        continue;
    pthread_mutex_unlock(&models->lock);
}

/* ---- lookup */

/* The version |number|, or the newest ready version if |number| is 0.  Retained, or NULL. */
static bl_model_version *models_pick(bl_model *model, uint64_t number)
{
    for (int i = model != NULL ? model->nrows : 0; i-- > 0;)
        if (model->rows[i].version != NULL && (number == 0 || model->rows[i].number == number))
            return bl_model_version_retain(model->rows[i].version);
    return NULL;
}

/* Is a version being loaded, so that a later request can succeed? */
static bool is_coming(const bl_model *model, uint64_t number)
{
    for (int i = 0; model != NULL && i < model->nrows; i++)
        if (model->rows[i].state == BL_MODEL_LOADING && (number == 0 || model->rows[i].number == number))
            return true;
    return model != NULL && model->nrows == 0 && model->loading != BL_LOADING_NONE; /* its versions are not listed yet */
}

bl_status bl_model_get(bl_request *rq, bl_model_version **out)
{
    bl_models *models = rq->server->models;
    const char *version = rq->head.param[1];
    uint64_t number = version != NULL ? strtoull(version, NULL, 10) : 0;
    const char *shared = NULL;
    uint32_t other = 0;
    bl_model *model = NULL;
    bool known = false, comes = false;
    *out = NULL;
    if (version != NULL && (number == 0 || number > INT64_MAX || strspn(version, "0123456789") != strlen(version)))
        return bl_fail(&rq->err, BL_EINVAL, "\"%.40s\" is not a version; a version is a whole number", version);
    shared = bl_registry_shared(rq->server->registry, rq->owner, "model", rq->head.param[0], &other);
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, rq->owner, rq->head.param[0]);
    *out = models_pick(model, number);
    known = model != NULL;
    if (*out == NULL && rq->owner != 0) {
        model = bl_models_find(models, shared != NULL ? other : 0, shared != NULL ? shared : rq->head.param[0]);
        *out = models_pick(model, number);
        known |= model != NULL;
    }
    if (*out != NULL)
        bl_model_trace(models, model, rq);
    comes = known ? is_coming(model, number) : models->to_start > 0;
    pthread_mutex_unlock(&models->lock);
    if (*out != NULL)
        return bl_request_defer(rq, bl_model_version_release_any, *out);
    if (comes)
        return bl_fail(&rq->err, BL_EBUSY, "%s%.160s%s being loaded; send it again", known ? "model \"" : "",
                       known ? rq->head.param[0] : "the models", known ? "\" is" : " are");
    if (version != NULL)
        return bl_fail(&rq->err, BL_ENOTFOUND, "model \"%.160s\" has no version %s that is ready", rq->head.param[0], version);
    return bl_fail(&rq->err, BL_ENOTFOUND,
                   known ? "model \"%.160s\" has no version that is ready" : "there is no model \"%.160s\"", rq->head.param[0]);
}

bool bl_models_has(bl_models *models, uint32_t owner, const char *name)
{
    bool has = false;
    pthread_mutex_lock(&models->lock);
    has = bl_models_find(models, owner, name) != NULL;
    pthread_mutex_unlock(&models->lock);
    return has;
}

/* Under the lock: record that a request unloaded the model.  After a restart a model of the folder is not loaded; any other
 * model is gone. */
static bl_sent *decide_unloaded(bl_model *model, bool foldered)
{
    bl_sent *sent = model->sent;
    model->unloads++;
    model->choice = foldered ? BL_CHOICE_UNLOADED : BL_CHOICE_NONE;
    model->sent = NULL;
    model->reason[0] = '\0';
    free(model->config);
    model->config = NULL;
    return sent;
}

/* Unload all versions.  |asked|: a request decided so, and the decision is recorded. */
static bl_status take_down(bl_models *models, uint32_t owner, const char *name, bool asked, bl_err *err)
{
    bool foldered = asked && owner == 0 && bl_source_has(models, name);
    bl_model_version *gone[BL_MOST_VERSIONS];
    bl_model *model = NULL;
    bl_sent *sent = NULL;
    int n = 0;
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, owner, name);
    for (int i = 0; model != NULL && i < model->nrows && i < BL_MOST_VERSIONS; i++) {
        bl_model_row *row = &model->rows[i];
        if (row->version != NULL)
            gone[n++] = row->version;
        row->version = NULL;
        row->state = BL_MODEL_UNAVAILABLE;
        snprintf(row->reason, sizeof row->reason, "unloaded");
    }
    if (model != NULL)
        model->wanted = false;
    if (model != NULL && asked)
        sent = decide_unloaded(model, foldered);
    pthread_mutex_unlock(&models->lock);
    bl_sent_release(sent);
    for (int i = 0; i < n; i++)
        bl_model_version_retire(gone[i]);
    return model != NULL ? BL_OK : bl_fail(err, BL_ENOTFOUND, "there is no model \"%.160s\"", name);
}

bl_status bl_models_withdraw(bl_models *models, const char *name, bl_err *err)
{
    bl_model *model = NULL;
    BL_TRY(take_down(models, 0, name, false, err));
    pthread_mutex_lock(&models->lock);
    model = remove_unknown(models, bl_models_find(models, 0, name));
    pthread_mutex_unlock(&models->lock);
    if (model != NULL)
        free_model(model);
    return BL_OK;
}

bl_status bl_models_unload(bl_models *models, uint32_t owner, const char *name, bl_err *err)
{
    BL_TRY(take_down(models, owner, name, true, err));
    BL_TRY(bl_models_forget_lost(models, owner, name, err));
    return bl_model_write_choice(models, owner, name, err);
}

/* ---- jobs of the loaders */

bl_model_op *bl_model_op_create(uint32_t owner, const char *name)
{
    bl_model_op *op = bl_calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->owner = owner;
    snprintf(op->name, sizeof op->name, "%s", name);
    return op;
}

void bl_model_op_destroy(bl_models *models, bl_model_op *op)
{
    if (op == NULL)
        return;
    bl_mapped_fini(&op->mapped);
    bl_sent_release(op->sent);
    bl_arena_destroy(op->arena);
    bl_model_version_release(op->version);
    bl_budget_give(&models->server->memory, op->charged);
    free(op->config);
    free(op);
}

bl_status bl_models_order(bl_models *models, bl_model_op *op, bl_err *err)
{
    bl_model_op **last = &models->first_op;
    bool stop = false;
    pthread_mutex_lock(&models->lock);
    stop = models->stop;
    while (*last != NULL)
        last = &(*last)->next;
    if (!stop)
        *last = op;
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
    if (!stop)
        return BL_OK;
    bl_model_op_destroy(models, op);
    return bl_fail(err, BL_EBUSY, "the server is shutting down");
}

/* Under the lock: take the first job whose model no other loader works on. */
static bl_model_op *take_op(bl_models *models)
{
    for (bl_model_op *op = models->first_op; op != NULL; op = op->next) {
        bl_model *model = bl_models_need(models, op->owner, op->name);
        if (op->taken || (model != NULL && model->loading != BL_LOADING_NONE))
            continue;
        op->taken = true;
        if (model != NULL)
            model->loading = BL_LOADING_RUNS;
        return op;
    }
    return NULL;
}

/* Under the lock: record why |op| failed.  If no version was tried, the reason goes to the newest version. */
static void note_failure(bl_model *model, const bl_model_op *op, const bl_err *err)
{
    bool loads = op->kind == BL_MODEL_OP_LOAD || op->kind == BL_MODEL_OP_MEND;
    if (model->nrows == 0)
        bl_err_describe(err, model->reason, sizeof model->reason);
    /* BL_ECONFLICT: the model was unloaded, as its rows say */
    else if (loads && !op->told && err->status != BL_OK && err->status != BL_ECONFLICT)
        bl_err_describe(err, model->rows[model->nrows - 1].reason, BL_MODEL_REASON);
}

/* End a job with the result |err|.  The name of a model in the folder is kept, with the reason of the failure and the
 * fingerprint of its files, so that the load is not repeated until the files change. */
static void end_op(bl_models *models, bl_model_op *op, const bl_err *err)
{
    bl_err ignored = {0};
    bl_model_op **at = &models->first_op;
    bl_model *model = NULL;
    bl_request *rq = NULL;
    bool foldered = op->owner == 0 && bl_source_has(models, op->name);
    char key[KEY_SIZE];
    pthread_mutex_lock(&models->lock);
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    model = bl_models_find(models, op->owner, op->name);
    if (model != NULL) {
        model->loading = BL_LOADING_NONE;
        note_failure(model, op, err);
    }
    if (model != NULL && model->choice == BL_CHOICE_NONE && model->stored == NULL &&
        ((model->nrows == 0 && !foldered) ||
         (!has_version(model) && bl_access_check_owner(models->server->access, op->owner, op->purges, &ignored) != BL_OK)))
        (void)bl_namemap_remove(models->names, models_key_of(key, op->owner, op->name));
    else
        model = NULL;
    models->to_start -= op->by == BL_BY_START;
    rq = op->rq;
    op->rq = NULL;
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
    if (err->status != BL_OK)
        bl_log(op->kind == BL_MODEL_OP_COMPILE ? BL_LOG_INFO : BL_LOG_ERROR, "model %s: %s", op->name, err->text);
    bl_model_op_destroy(models, op);
    if (model != NULL)
        free_model(model); /* nothing is known of the model */
    if (rq == NULL)
        return;
    rq->err = *err;
    bl_request_finish(rq);
}

typedef struct loader {
    bl_models *models;
    int number;
} loader;

static void *run_loader(void *arg)
{
    loader me = *(loader *)arg;
    bl_models *models = me.models;
    free(arg);
    pthread_mutex_lock(&models->lock);
    while (!models->stop || models->first_op != NULL) {
        bl_model_op *op = take_op(models);
        bl_err err = {0};
        if (op == NULL && models->stop)
            break; /* other loaders work on the remaining jobs */
        if (op == NULL) {
            pthread_cond_wait(&models->changed, &models->lock);
            continue;
        }
        if (models->stop)
            (void)bl_fail(&err, BL_EBUSY, "the server is shutting down");
        pthread_mutex_unlock(&models->lock);
        if (err.status == BL_OK)
            bl_model_load(models, me.number, op, &err);
        end_op(models, op, &err);
        pthread_mutex_lock(&models->lock);
    }
    pthread_mutex_unlock(&models->lock);
    return NULL;
}

/* ---- periodic work */

enum { FIRST_WATCHED = 64 };
static const int64_t LOOK_NS = 1000000000, NEVER_NS = INT64_MAX / 4;

/* The versions that one round of periodic work retains. */
typedef struct watched {
    bl_model_version **version;
    size_t n, most;
} watched;

/* Under the lock.  Without memory, the version is left out of this round. */
static bool watch(watched *w, bl_model_version *version)
{
    if (w->n == w->most) {
        bl_model_version **grown = bl_realloc(w->version, 2 * w->most * sizeof *grown);
        if (grown == NULL)
            return false;
        w->version = grown;
        w->most *= 2;
    }
    w->version[w->n++] = bl_model_version_retain(version);
    return true;
}

/* All versions that can serve requests. */
static void gather_versions(bl_models *models, watched *w)
{
    w->n = 0;
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);)
        if (it.version != NULL)
            (void)watch(w, it.version);
}

/* Once a second. */
static void look_at_models(void *arg)
{
    bl_models *models = arg;
    watched w = {.version = bl_calloc(FIRST_WATCHED, sizeof *w.version), .most = FIRST_WATCHED};
    int64_t now = bl_clock_ns();
    bl_workers_mend(models->server);
    bl_completions_ping(models);
    if (w.version == NULL)
        return;
    pthread_mutex_lock(&models->lock);
    gather_versions(models, &w);
    pthread_mutex_unlock(&models->lock);
    for (size_t i = 0; i < w.n; i++) {
        bl_model_version *version = w.version[i];
        if (version->sequential)
            bl_sequences_expire(version, now);
        bl_model_version_mend(version, now);
        bl_batch_kick(&version->batcher); /* start items that waited while all slots were lost */
        bl_model_version_release(version);
    }
    free(w.version);
}

/* Once every --model-poll seconds, and when a client asks. */
static void poll_models(void *arg)
{
    bl_models *models = arg;
    /* a client that asks for a reload has finished its copy, so the second poll at once sees a stable folder */
    if (atomic_exchange(&models->asked, false))
        bl_models_poll(models);
    bl_models_poll(models);
}

/* Run a periodic task now. */
static void models_wake(bl_models *models, bl_tick *const *task)
{
    pthread_mutex_lock(&models->lock);
    if (*task != NULL)
        bl_tick_wake(*task);
    pthread_mutex_unlock(&models->lock);
}

void bl_models_reload(bl_models *models)
{
    if (models == NULL)
        return;
    atomic_store(&models->asked, true);
    models_wake(models, &models->poll);
}

/* ---- start and end */

static bool models_in_list(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; *at != '\0';) {
        size_t n = strcspn(at, ",");
        if (n == len && memcmp(at, name, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

bool bl_models_is_chosen(const bl_models *models, const char *name)
{
    const char *chosen = models->server->settings.load_models;
    return strcmp(chosen, "all") == 0 || (strcmp(chosen, "none") != 0 && models_in_list(chosen, name));
}

/* A decision of a request takes precedence over the settings. */
static bool is_decided(bl_models *models, const char *name)
{
    const bl_model *model = NULL;
    bool decided = false;
    pthread_mutex_lock(&models->lock);
    model = bl_models_find(models, 0, name);
    decided = model != NULL && model->choice != BL_CHOICE_NONE;
    pthread_mutex_unlock(&models->lock);
    return decided;
}

static void order_initial(void *arg, const char *name)
{
    bl_models *models = arg;
    bool loads = bl_models_is_chosen(models, name) && !is_decided(models, name);
    bl_model_op *op = loads ? bl_model_op_create(0, name) : NULL;
    bl_err err = {0};
    if (op == NULL)
        return;
    op->by = BL_BY_START;
    pthread_mutex_lock(&models->lock);
    models->to_start++;
    models->nstart++;
    pthread_mutex_unlock(&models->lock);
    if (bl_models_order(models, op, &err) != BL_OK)
        bl_log(BL_LOG_ERROR, "model %s: %s", name, err.text);
}

static bl_status start_threads(bl_models *models, bl_err *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t every = (int64_t)(models->server->settings.model_poll * 1e9);
    int count = cores < 2 ? 2 : cores > BL_MODEL_MOST_LOADERS ? BL_MODEL_MOST_LOADERS : (int)cores;
    for (int i = 0; i < count; i++) {
        loader *one = bl_calloc(1, sizeof *one);
        if (one != NULL)
            *one = (loader){models, i};
        if (one == NULL || pthread_create(&models->thread[i], NULL, run_loader, one) != 0) {
            free(one);
            return bl_fail(err, BL_ENOMEM, "out of host memory for the threads that load models");
        }
        models->nthreads++;
    }
    BL_TRY(bl_ticker_create(&models->ticker, err));
    BL_TRY(bl_ticker_add(models->ticker, LOOK_NS, look_at_models, models, &models->look, err));
    return bl_ticker_add(models->ticker, every > 0 ? every : NEVER_NS, poll_models, models, &models->poll, err);
}

/* Does a joint run of any model wait for a device, or run? */
static bool is_running(bl_models *models)
{
    bool running = false;
    pthread_mutex_lock(&models->lock);
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);)
        if (it.version != NULL)
            running |= bl_batch_is_running(&it.version->batcher);
    pthread_mutex_unlock(&models->lock);
    return running;
}

bl_status bl_models_create(bl_server *server, bl_models **out, bl_err *err)
{
    bl_models *models = bl_calloc(1, sizeof *models);
    *out = models;
    if (models == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for models");
    models->server = server;
    pthread_mutex_init(&models->lock, NULL);
    pthread_mutex_init(&models->writing, NULL);
    pthread_cond_init(&models->changed, NULL);
    models->names = bl_namemap_create();
    if (models->names == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for models");
    BL_TRY(bl_models_load_kept(models, err)); /* first, so that the initial loads do not replace these versions */
    BL_TRY(bl_models_load_choices(models, err));
    BL_TRY(start_threads(models, err));
    bl_source_each(models, order_initial, models);
    return BL_OK;
}

void bl_models_stop(bl_models *models)
{
    if (models == NULL)
        return;
    pthread_mutex_lock(&models->lock);
    models->stop = true;
    for (int i = 0; i < models->nthreads; i++)
        if (models->own[i] != NULL)
            atomic_store(&models->own[i]->cancel, true);
    pthread_cond_broadcast(&models->changed);
    models->look = models->poll = NULL; /* the ticker frees its tasks */
    pthread_mutex_unlock(&models->lock);
    for (int i = 0; i < models->nthreads; i++)
        pthread_join(models->thread[i], NULL);
    bl_ticker_destroy(models->ticker);
    while (is_running(models) ||
           atomic_load(&models->generations) > 0) /* cancelled runs without a client end at their next launch */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void bl_models_destroy(bl_models *models)
{
    const char *name = NULL;
    void *model = NULL;
    if (models == NULL)
        return;
    for (size_t i = 0; bl_namemap_at(models->names, i, &name, &model); i++)
        free_model(model);
    bl_namemap_destroy(models->names);
    pthread_cond_destroy(&models->changed);
    pthread_mutex_destroy(&models->lock);
    pthread_mutex_destroy(&models->writing);
    free(models);
}

bool bl_models_ready(bl_models *models)
{
    bool ready = false;
    pthread_mutex_lock(&models->lock);
    ready = models->to_start == 0;
    pthread_mutex_unlock(&models->lock);
    return ready;
}

/* The number of versions on |worker|; NULL: of all versions. */
static size_t count_versions(bl_models *models, const bl_worker *worker)
{
    size_t count = 0;
    pthread_mutex_lock(&models->lock);
    for (bl_model_rows it = {0}; bl_model_rows_next(models, &it);)
        count += it.version != NULL && (worker == NULL || bl_model_version_is_on(it.version, worker));
    pthread_mutex_unlock(&models->lock);
    return count;
}

size_t bl_models_count(bl_models *models)
{
    return count_versions(models, NULL);
}

size_t bl_models_count_on(bl_models *models, const bl_worker *worker)
{
    return count_versions(models, worker);
}

void bl_models_replace(bl_models *models)
{
    models_wake(models, &models->look);
}
