/* SPDX-License-Identifier: MIT */
/* Which instance of a model is done first, by what its runs and its device's queue were measured to take.  An instance whose
 * device was lost is left out as long as there is another, and one whose device is drained likewise. */
#include "server/models/model_infer.h"

#include "engine/base/clock.h"

#include <math.h>

enum {
    MOST_AHEAD = 64, /* runs of others that are counted before one begins out of turn */
    HALF_LIFE = 100  /* of a measurement that others came after, as a multiple of it: trying again costs a part of the time */
};

bool bl_instance_is_lost(const bl_model_instance *instance)
{
    bl_err ignored = {0};
    return bl_program_check(instance->program, &ignored) != BL_OK;
}

bool bl_model_version_is_lost(const bl_model_version *version)
{
    for (int i = 0; i < version->ninstances; i++)
        if (!bl_instance_is_lost(&version->instances[i]))
            return false;
    return true;
}

bool bl_model_version_lacks_any(const bl_model_version *version)
{
    for (int i = 0; i < version->ninstances; i++)
        if (bl_instance_is_lost(&version->instances[i]))
            return true;
    return atomic_load(&version->models->server->drain.count) > 0 && bl_model_version_is_misplaced(version);
}

bool bl_model_version_is_on(const bl_model_version *version, const bl_worker *worker)
{
    for (int i = 0; i < version->ninstances; i++)
        if (version->instances[i].program->worker == worker)
            return true;
    return false;
}

typedef enum standing { GOOD, DRAINED, LOST } standing;

static standing standing_of(const bl_model_instance *instance)
{
    if (bl_instance_is_lost(instance))
        return LOST;
    return atomic_load(&instance->program->worker->drained) ? DRAINED : GOOD;
}

/* Those that stand worse than another are left out. */
static standing best_standing(const bl_model_version *version)
{
    standing best = LOST;
    for (int i = 0; i < version->ninstances; i++) {
        standing one = standing_of(&version->instances[i]);
        best = one < best ? one : best;
    }
    return best;
}

/* ---- what was measured */

void bl_instance_learn(bl_model_version *version, bl_model_instance *instance, int64_t rows, const bl_plan *plan, int64_t ns)
{
    bl_batcher *b = &version->batcher;
    bool wanted = false;
    pthread_mutex_lock(&b->lock);
    bl_sizes_learn(&instance->sizes, rows, bl_exact_is(version, instance, plan), ns);
    wanted = bl_exact_is_possible(version, instance) && bl_sizes_order(&instance->sizes, rows);
    instance->learned_ns = b->learned_ns = bl_clock_ns();
    instance->executions++;
    instance->inferences += (uint64_t)rows;
    instance->infer_ns += (uint64_t)(ns > 0 ? ns : 0);
    pthread_mutex_unlock(&b->lock);
    if (wanted)
        bl_exact_order(version, instance, rows);
}

/* Under the lock: the most of |rows| that are worth a run, if it began now.  On a device that one row fills, or whose caches it
 * does, more may take longer together than one after the other. */
static int64_t worth_rows(const bl_model_version *version, bl_model_instance *instance, int64_t rows)
{
    if (version->config.npreferred > 0)
        return version->max_batch;
    return bl_sizes_best(&instance->sizes, rows < version->max_batch ? rows : version->max_batch);
}

/* Under the lock: what a run of |rows| takes, of the size that is nearest where nobody knows; 0 where nothing is known, so that
 * it is tried.  What was measured long before the others counts less. */
static double cost_ns(const bl_model_version *version, const bl_model_instance *instance, int64_t rows)
{
    double ns = bl_sizes_expect(&instance->sizes, rows), age = (double)(version->batcher.learned_ns - instance->learned_ns);
    return ns > 0 ? ns * exp2(-age / (HALF_LIFE * ns)) : 0;
}

/* What |work| others in the device's queue take, as turns there took lately. */
static double queue_ns(const bl_worker *worker, size_t work)
{
    return (double)work * (double)atomic_load(&worker->turn_ns);
}

/* ---- choosing; under the lock */

typedef struct choice {
    bl_model_version *version;
    int64_t now;
    standing best;
    double free_ns[BL_MOST_INSTANCES]; /* from now, until it can begin another run */
} choice;

static void begin(choice *c, bl_model_version *version)
{
    *c = (choice){.version = version, .now = bl_clock_ns(), .best = best_standing(version)};
    for (int i = 0; i < version->ninstances; i++) {
        const bl_model_instance *one = &version->instances[i];
        const bl_worker *worker = one->program->worker;
        if (one->running)
            c->free_ns[i] = one->free_ns > c->now ? (double)(one->free_ns - c->now) : 0;
        else
            c->free_ns[i] = queue_ns(worker, bl_queue_length(worker->queue));
    }
}

/* The one that is done first with as many of |rows| as are worth a run there; -1 where all are busy and none will be free. */
static int find_first(const choice *c, int64_t rows, int64_t *most, double *done)
{
    int best = -1;
    for (int i = 0; i < c->version->ninstances; i++) {
        bl_model_instance *one = &c->version->instances[i];
        int64_t worth = worth_rows(c->version, one, rows);
        double end = c->free_ns[i] + cost_ns(c->version, one, worth < rows ? worth : rows);
        if (standing_of(one) > c->best || (best >= 0 && end >= *done))
            continue;
        best = i;
        *most = worth;
        *done = end;
    }
    return best;
}

static bl_model_instance *take(choice *c, int at, double done)
{
    bl_model_instance *instance = &c->version->instances[at];
    instance->running = true;
    instance->free_ns = c->now + (int64_t)done;
    return instance;
}

/* How many are worth it is seen when the run begins, with all that came till then. */
static bl_model_instance *take_only(bl_model_version *version, int64_t *most)
{
    bl_model_instance *one = &version->instances[0];
    if (one->running)
        return NULL;
    *most = version->max_batch;
    one->running = true;
    return one;
}

/* Each part of what waits is given to whoever is done with it first.  That may well be one that is busy now: then a slower one
 * begins with what stands behind. */
bl_model_instance *bl_instance_take(bl_model_version *version, int64_t rows, bool behind, int64_t *most, int64_t *skip)
{
    choice c;
    *skip = 0;
    if (version->ninstances == 1)
        return take_only(version, most);
    begin(&c, version);
    for (int ahead = 0; ahead < MOST_AHEAD && rows > 0; ahead++) {
        double done = 0;
        int at = find_first(&c, rows, most, &done);
        if (at < 0) /* the last device was lost meanwhile: who mends them asks again */
            return NULL;
        if (!version->instances[at].running)
            return take(&c, at, done);
        if (!behind)
            return NULL;
        c.free_ns[at] = done;
        *skip += *most;
        rows -= *most;
    }
    return NULL;
}

bl_model_instance *bl_instance_choose(bl_model_version *version)
{
    bl_model_instance *best = &version->instances[0];
    double least = 0;
    standing worst = LOST;
    if (version->ninstances == 1)
        return best;
    worst = best_standing(version);
    best = NULL;
    pthread_mutex_lock(&version->batcher.lock);
    for (int i = 0; i < version->ninstances; i++) {
        bl_model_instance *one = &version->instances[i];
        size_t own = (size_t)atomic_load(&one->busy), length = bl_queue_length(one->program->worker->queue);
        double end =
            (double)(own + 1) * cost_ns(version, one, 1) + queue_ns(one->program->worker, length > own ? length - own : 0);
        if (standing_of(one) > worst || (best != NULL && end >= least))
            continue;
        best = one;
        least = end;
    }
    pthread_mutex_unlock(&version->batcher.lock);
    return best != NULL ? best : &version->instances[0]; /* the last one was lost just now */
}
