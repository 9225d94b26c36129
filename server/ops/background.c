/* SPDX-License-Identifier: MIT */
#include "server/ops/background.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "proto/encode.h"
#include "server/access/access.h"
#include "server/ops/server.h"
#include "server/programs/programs.h"
#include "server/store/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LOOK_EVERY_MS = 250,
    IDLE_NS = 300000000, /* a device that has had no work for this time is idle */
    MOST_PLANS = 1024,   /* largest number of plans examined in one round */
    MOST_KERNELS = 512,  /* largest number of kernels of one plan that are examined */
    MOST_TENDED = 256,   /* largest number of plans with a record */
    MOST_SEARCHED = 64,  /* largest number of kernels of one plan that are searched */
    HISTORY = 256,       /* number of events kept in the history */
    /* number of timed steps that the comparison of two plans needs: the shortest of them is undisturbed by other load */
    VERDICT_SAMPLES = 7,
    NAME_BYTES = 128,
    MANY_LAUNCHES = 6,
    JOINING = 1 /* used in place of a kernel's key: a search that joins launches */
};
/* A plan of many launches whose kernels take at most this time spends its time on launches, so its small kernels may share
 * launches (engine/plan/join_launches.c). */
#define SMALL_SECONDS 6e-6
#define SLOWER        1.05 /* factor over the earlier time: a slower new plan is rolled back */
#define MOST_SAVED    2.0  /* seconds of a device's tuning share that may accumulate */

/* The record of a cached plan that was searched, or whose replacement is on trial. */
typedef struct tended {
    bl_plan *root;         /* the plan as first compiled; retained */
    bl_plan *trial;        /* the replacement that is not judged yet, retained; or NULL */
    bl_plan *before;       /* the plan that |trial| replaces, retained */
    char name[NAME_BYTES]; /* name of the kernel that was searched */
    uint64_t key;
    double seconds; /* time of a step before the replacement */
    bool wall;      /* the plans are compared by wall time, with launches and waits */
    bool judged;    /* the plans are compared by time, since all sizes of the plan are fixed */
    bool swapped;   /* |trial| is in service */
    bool seen;      /* the plan was in the cache at the last round */
    int nsearched;
    uint64_t searched[MOST_SEARCHED];
} tended;

typedef struct event {
    time_t when;
    char device[32], kernel[NAME_BYTES];
    uint64_t key;
    const char *what;     /* the event: "no better", "swapped", "kept", "rolled back" */
    double before, after; /* time of a step in seconds, before and after the event; 0: unknown */
} event;

struct bl_background {
    bl_server *server;
    bl_tuner tuner;     /* a copy of the server's tuner whose timer waits until the device may be used */
    bl_ticker *ticker;  /* its own ticker, since a search takes minutes */
    bl_plan **plans;    /* room for MOST_PLANS */
    bl_kernel_use *use; /* room for MOST_KERNELS */
    atomic_bool stop;
    double saved[BL_MAX_DEVICES]; /* seconds that each device's tuning share allows now */
    int64_t looked_ns;
    int ntended;
    tended tended[MOST_TENDED];
    bl_worker *worker;    /* the device of the kernel that is searched */
    pthread_mutex_t lock; /* guards the history of events */
    int nevents;          /* number of all events so far */
    event history[HISTORY];
};

static void pause_ms(int ms)
{
    struct timespec moment = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&moment, NULL);
}

/* ---- when a device may be used */

/* Is the device idle? An idle device has had no work for IDLE_NS, and no compilation is queued: a queued compilation means
 * that a client waits and needs the device next. */
static bool is_idle(const bl_worker *worker)
{
    return bl_queue_length(worker->queue) == 0 && bl_queue_length(worker->server->compiler) == 0 &&
           bl_clock_ns() - atomic_load(&worker->busy_ns) > IDLE_NS;
}

static void earn(bl_background *b)
{
    int64_t now = bl_clock_ns();
    double seconds = (double)(now - b->looked_ns) * 1e-9 * b->server->settings.tune_share;

    b->looked_ns = now;
    for (uint32_t i = 0; i < b->server->nworkers; i++)
        b->saved[i] = b->saved[i] + seconds < MOST_SAVED ? b->saved[i] + seconds : MOST_SAVED;
}

static bool background_may_use(bl_background *b, const bl_worker *worker)
{
    earn(b);
    return is_idle(worker) || b->saved[worker - b->server->workers] > 0;
}

/* Time a batch of candidates as soon as the device is idle or its tuning share allows it. */
static bl_status time_in_turn(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    bl_background *b = arg;
    const bl_tuner *tuner = &b->server->search.tuner;
    bool idle = false;
    int64_t start = 0;
    bl_status st = BL_OK;

    while (!background_may_use(b, b->worker)) {
        if (atomic_load(&b->stop))
            return bl_fail(err, BL_ECANCELLED, "the server is shutting down");
        pause_ms(LOOK_EVERY_MS / 5);
    }
    idle = is_idle(b->worker);
    start = bl_clock_ns();
    st = tuner->time(tuner->time_arg, dev, trials, err);
    if (!idle)
        b->saved[b->worker - b->server->workers] -= (double)(bl_clock_ns() - start) * 1e-9;
    return st;
}

/* ---- history */

static void background_tell(bl_background *b, const tended *t, const char *what, double before, double after)
{
    const char *device = bl_plan_get_info(t->root)->device;
    event *e = NULL;

    pthread_mutex_lock(&b->lock);
    e = &b->history[b->nevents++ % HISTORY];
    *e = (event){.when = time(NULL), .key = t->key, .what = what, .before = before, .after = after};
    (void)snprintf(e->device, sizeof e->device, "%s", device);
    (void)snprintf(e->kernel, sizeof e->kernel, "%s", t->name);
    pthread_mutex_unlock(&b->lock);
    bl_log(BL_LOG_INFO, "%s: kernel %s: %s; a step takes %.1f us, before %.1f us", device, t->name, what, after * 1e6,
           before * 1e6);
}

/* ---- records of plans */

static tended *find_tended(bl_background *b, bl_plan *root, bool make)
{
    for (int i = 0; i < b->ntended; i++) {
        if (b->tended[i].root == root)
            return &b->tended[i];
    }
    if (!make || b->ntended == MOST_TENDED)
        return NULL;
    b->tended[b->ntended] = (tended){.root = bl_plan_retain(root), .seen = true};
    return &b->tended[b->ntended++];
}

static void drop_trial(tended *t)
{
    bl_plan_release(t->trial);
    bl_plan_release(t->before);
    t->trial = t->before = NULL;
}

/* Forget the records of plans that have left the cache. */
static void forget_gone(bl_background *b)
{
    for (int i = 0; i < b->ntended;) {
        tended *t = &b->tended[i];
        if (t->seen) {
            i++;
            continue;
        }
        drop_trial(t);
        bl_plan_release(t->root);
        *t = b->tended[--b->ntended];
    }
}

/* The time of a step; false if too few steps were timed. */
static bool background_measure(const tended *t, const bl_plan *plan, double *seconds)
{
    bl_plan_service service = bl_plan_get_service(plan);

    *seconds = t->wall ? service.wall_seconds : bl_plan_least_seconds(plan, VERDICT_SAMPLES);
    return service.samples >= VERDICT_SAMPLES;
}

/* Put the trial in service, once the time of the plan that the trial replaces is known. */
static void swap(bl_background *b, tended *t)
{
    bl_plan *current = bl_plan_current(t->root);

    if (current != t->before) { /* a request had the plan searched meanwhile, so the trial is obsolete */
        drop_trial(t);
    } else if (background_measure(t, t->before, &t->seconds) || !t->judged) {
        bl_plan_supersede(t->root, t->trial);
        t->swapped = true;
        background_tell(b, t, "swapped", t->seconds, 0);
    }
    bl_plan_release(current);
}

/* Keep or roll back a trial in service.  The trial was faster in the child process, but the time in service decides. */
static void background_judge(bl_background *b, tended *t)
{
    bl_kernel_use *use = NULL;
    double now = 0;
    int n = 0;

    if (!background_measure(t, t->trial, &now))
        return;
    if (!t->judged || t->seconds <= 0 || now <= t->seconds * SLOWER) {
        background_tell(b, t, "kept", t->seconds, now);
        drop_trial(t);
        return;
    }
    bl_plan_supersede(t->root, t->before == t->root ? NULL : t->before);
    use = calloc(MOST_KERNELS, sizeof *use);
    n = use == NULL ? 0 : bl_plan_list_kernels(t->before, MOST_KERNELS, use);
    for (int i = 0; i < n; i++) {
        if (use[i].key == t->key && t->key != 0 && !use[i].helper)
            bl_kernels_withdraw(b->server->search.tuner.kernels, &b->worker->dev->info, t->key, use[i].moves);
    }
    free(use);
    /* the event is recorded last, so that a reader of the history finds the old kernel in the database */
    background_tell(b, t, "rolled back", t->seconds, now);
    drop_trial(t);
}

/* ---- choice of the next kernel */

typedef struct choice {
    bl_plan *root; /* borrowed plan */
    char name[NAME_BYTES];
    uint64_t key;
    double seconds; /* device time of the kernel so far */
} choice;

static bool was_searched(const tended *t, uint64_t key)
{
    for (int i = 0; t != NULL && i < t->nsearched; i++) {
        if (t->searched[i] == key)
            return true;
    }
    return false;
}

/* The time that a plan has lost between kernels, if its kernels take less time than their launches. */
static double lost_between(const bl_plan *plan, const bl_plan_service *service, int launches)
{
    double between = service->wall_seconds - service->step_seconds;

    if (bl_plan_get_options(plan)->hot || launches < MANY_LAUNCHES || service->step_seconds > launches * SMALL_SECONDS)
        return 0;
    return between > 0 ? between * (double)service->steps : 0;
}

/* Choose the kernel that took most device time and was not searched for this plan yet. If launches of small kernels lose
 * more time, choose all small kernels together. */
static void background_consider(bl_background *b, bl_plan *root, bl_kernel_use *use, choice *best)
{
    tended *t = find_tended(b, root, false);
    bl_plan *plan = bl_plan_current(root);
    bl_plan_service service = bl_plan_get_service(plan);
    int n = 0, launches = 0;
    double lost = 0;

    if (t != NULL)
        t->seen = true;
    if (bl_plan_get_info(plan)->interpreted > 0) { /* the promoter compiles the plan first (promote.h) */
        bl_plan_release(plan);
        return;
    }
    if (t == NULL || (t->trial == NULL && t->nsearched < MOST_SEARCHED))
        n = bl_plan_list_kernels(plan, MOST_KERNELS, use);
    for (int i = 0; i < n; i++) {
        double seconds = use[i].seconds * (double)service.steps;
        launches += use[i].launches;
        if (use[i].helper || use[i].key == 0 || was_searched(t, use[i].key) || seconds <= best->seconds)
            continue;
        *best = (choice){.root = root, .key = use[i].key, .seconds = seconds};
        (void)snprintf(best->name, sizeof best->name, "%s", use[i].name);
    }
    lost = lost_between(plan, &service, launches);
    if (lost > best->seconds && !was_searched(t, JOINING))
        *best = (choice){.root = root, .name = "small kernels", .key = JOINING, .seconds = lost};
    bl_plan_release(plan);
}

static bl_worker *worker_of(bl_server *server, const bl_plan *plan)
{
    bl_worker *worker = NULL;
    bl_err err = {0};
    bool found = bl_worker_find(server, bl_plan_get_info(plan)->device, &worker, &err) == BL_OK;
    return found && !atomic_load(&worker->drained) ? worker : NULL;
}

/* Search one kernel of a plan, and put the plan with the found kernel on trial. */
static void improve(bl_background *b, const choice *chosen)
{
    tended *t = find_tended(b, chosen->root, true);
    bl_plan *current = NULL, *made = NULL;
    bl_plan_options options;
    bl_err err = {0};

    if (t == NULL)
        return;
    current = bl_plan_current(t->root);
    options = *bl_plan_get_options(current);
    options.tuner = &b->tuner;
    options.beam = (int)b->server->settings.tune_beam;
    options.only = t->name;
    options.hot = options.hot || chosen->key == JOINING;
    options.halt.cancel = &b->stop;
    options.children = b->server->search.children;
    t->searched[t->nsearched++] = chosen->key;
    t->key = chosen->key;
    (void)snprintf(t->name, sizeof t->name, "%s", chosen->name);
    if (bl_plan_remake(current, &options, &made, &err) != BL_OK) {
        bl_log(atomic_load(&b->stop) ? BL_LOG_INFO : BL_LOG_WARN, "%s: kernel %s: %s", bl_plan_get_info(current)->device, t->name,
               err.text);
        bl_plan_release(current);
        return;
    }
    t->wall = t->key == JOINING;
    (void)background_measure(t, current, &t->seconds);
    if (bl_plan_same_moves(current, made)) {
        background_tell(b, t, "no better", t->seconds, t->seconds);
    } else {
        t->trial = bl_plan_retain(made);
        t->before = bl_plan_retain(current);
        t->judged = bl_plan_get_info(current)->nvars == 0;
        t->swapped = false;
        swap(b, t);
    }
    bl_plan_release(made);
    bl_plan_release(current);
}

static void background_look_at_plans(bl_background *b)
{
    size_t n = bl_plans_list(b->server->plans, MOST_PLANS, b->plans);
    choice best = {.seconds = b->server->settings.tune_after};

    for (int i = 0; i < b->ntended; i++) {
        b->tended[i].seen = false;
        if (b->tended[i].trial != NULL) {
            b->worker = worker_of(b->server, b->tended[i].root);
            if (b->worker != NULL && b->tended[i].swapped)
                background_judge(b, &b->tended[i]);
            else if (b->worker != NULL)
                swap(b, &b->tended[i]);
        }
    }
    for (size_t i = 0; i < n; i++)
        background_consider(b, b->plans[i], b->use, &best);
    forget_gone(b);
    b->worker = best.root == NULL ? NULL : worker_of(b->server, best.root);
    if (b->worker != NULL && background_may_use(b, b->worker) && !atomic_load(&b->stop))
        improve(b, &best);
    for (size_t i = 0; i < n; i++)
        bl_plan_release(b->plans[i]);
}

/* Read each device's peak rates from the database, or measure them once the device is idle. */
static void measure_peaks(bl_background *b)
{
    for (uint32_t i = 0; i < b->server->nworkers; i++) {
        bl_worker *worker = &b->server->workers[i];
        bl_err err = {0};
        bool known = false;

        if (atomic_load(&worker->peaks_measured) || atomic_load(&worker->drained) ||
            worker->dev->info.dialect == BL_DIALECT_LINEAR)
            continue;
        known = bl_kernels_find_peaks(b->server->search.tuner.kernels, &worker->dev->info, &worker->measured);
        if (!known && !is_idle(worker))
            continue;
        b->worker = worker;
        if (!known && bl_peaks_measure(worker->dev, time_in_turn, b, &worker->measured, &err) != BL_OK)
            bl_log(BL_LOG_WARN, "%s: its peaks could not be measured: %s", worker->dev->info.id, err.text);
        else if (!known)
            bl_kernels_store_peaks(b->server->search.tuner.kernels, &worker->dev->info, &worker->measured);
        atomic_store(&worker->peaks_measured, true);
    }
}

static void run_background(void *arg)
{
    bl_background *b = arg;
    measure_peaks(b);
    background_look_at_plans(b);
}

static bl_status start_background(bl_background *b, bl_err *err)
{
    if (b->plans == NULL || b->use == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for background search");
    BL_TRY(bl_ticker_create(&b->ticker, err));
    return bl_ticker_add(b->ticker, INT64_C(1000000) * LOOK_EVERY_MS, run_background, b, NULL, err);
}

bl_status bl_background_create(bl_server *server, bl_background **out, bl_err *err)
{
    bl_background *b = NULL;

    *out = NULL;
    if (!server->settings.tune)
        return BL_OK;
    b = calloc(1, sizeof *b);
    if (b == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for background search");
    b->server = server;
    b->tuner = server->search.tuner;
    b->tuner.time = time_in_turn;
    b->tuner.time_arg = b;
    b->looked_ns = bl_clock_ns();
    pthread_mutex_init(&b->lock, NULL);
    b->plans = calloc(MOST_PLANS, sizeof *b->plans);
    b->use = calloc(MOST_KERNELS, sizeof *b->use);
    *out = b;
    return start_background(b, err);
}

void bl_background_destroy(bl_background *b)
{
    if (b == NULL)
        return;
    atomic_store(&b->stop, true);
    bl_ticker_destroy(b->ticker);
    for (int i = 0; i < b->ntended; i++)
        b->tended[i].seen = false;
    forget_gone(b);
    free(b->plans);
    free(b->use);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- description */

typedef struct users {
    const bl_plan *plan;
    bl_text *out;
    int n;
} users;

static void put_user(void *arg, const char *name, bl_program *program)
{
    users *u = arg;
    for (int i = 0; i < program->doc.nentries; i++) {
        bl_plan *plan = bl_plan_current(program->entries[i].plan);
        if (plan == u->plan) {
            bl_text_puts(u->out, u->n++ > 0 ? "," : "");
            bl_text_puts(u->out, "\"");
            if (program->owner != 0) {
                char owner[BL_NAME_SIZE];
                bl_access_name(program->server->access, program->owner, owner, sizeof owner);
                bl_text_printf(u->out, "%s:", owner);
            }
            /* the names contain no character that needs an escape */
            bl_text_printf(u->out, "%s/%s\"", name, program->doc.entries[i].name);
        }
        bl_plan_release(plan);
    }
}

static void background_put_use(bl_text *out, const bl_plan *plan, const bl_kernel_use *use)
{
    bl_text_puts(out, "{");
    bl_encode_key(out, "key");
    bl_text_printf(out, "\"%016llx\"", (unsigned long long)use->key);
    bl_encode_key(out, "name");
    bl_encode_string(out, use->name);
    bl_encode_key(out, "device");
    bl_encode_string(out, bl_plan_get_info(plan)->device);
    bl_encode_key(out, "moves");
    bl_encode_string(out, use->moves);
    bl_encode_measured(out, "us", use->seconds * 1e6);
    bl_encode_measured(out, "device_seconds", use->seconds * (double)bl_plan_get_service(plan).steps);
    bl_text_puts(out, "}");
}

static void background_put_plan(bl_server *server, const bl_plan *plan, bl_kernel_use *use, bl_text *out)
{
    users u = {.plan = plan, .out = out};
    int n = bl_plan_list_kernels(plan, MOST_KERNELS, use);

    bl_text_puts(out, "{");
    bl_encode_key(out, "steps");
    bl_encode_u64(out, bl_plan_get_service(plan).steps);
    bl_encode_key(out, "programs");
    bl_text_puts(out, "[");
    bl_registry_all_programs(server->registry, put_user, &u);
    bl_text_puts(out, "]");
    bl_encode_key(out, "kernels");
    bl_text_puts(out, "[");
    for (int i = 0; i < n; i++) {
        bl_text_puts(out, i > 0 ? "," : "");
        background_put_use(out, plan, &use[i]);
    }
    bl_text_puts(out, "]}");
}

static void background_put_event(bl_text *out, const event *e)
{
    bl_text_puts(out, "{");
    bl_encode_key(out, "when");
    bl_encode_u64(out, (uint64_t)e->when);
    bl_encode_key(out, "key");
    bl_text_printf(out, "\"%016llx\"", (unsigned long long)e->key);
    bl_encode_key(out, "name");
    bl_encode_string(out, e->kernel);
    bl_encode_key(out, "device");
    bl_encode_string(out, e->device);
    bl_encode_key(out, "what");
    bl_encode_string(out, e->what);
    bl_encode_measured(out, "before_us", e->before * 1e6);
    bl_encode_measured(out, "after_us", e->after * 1e6);
    bl_text_puts(out, "}");
}

void bl_background_describe(bl_server *server, bl_background *b, bl_text *out)
{
    bl_plan **plans = calloc(MOST_PLANS, sizeof *plans);
    bl_kernel_use *use = calloc(MOST_KERNELS, sizeof *use);
    size_t n = plans == NULL || use == NULL ? 0 : bl_plans_list(server->plans, MOST_PLANS, plans), shown = 0;

    bl_encode_key(out, "service");
    bl_text_puts(out, "[");
    for (size_t i = 0; i < n; i++) {
        bl_plan *plan = bl_plan_current(plans[i]);
        if (bl_plan_get_service(plan).samples > 0) {
            bl_text_puts(out, shown++ > 0 ? "," : "");
            background_put_plan(server, plan, use, out);
        }
        bl_plan_release(plan);
        bl_plan_release(plans[i]);
    }
    bl_text_puts(out, "]");
    bl_encode_key(out, "history");
    bl_text_puts(out, "[");
    if (b != NULL) {
        pthread_mutex_lock(&b->lock);
        for (int i = b->nevents > HISTORY ? b->nevents - HISTORY : 0, first = i; i < b->nevents; i++) {
            bl_text_puts(out, i > first ? "," : "");
            background_put_event(out, &b->history[i % HISTORY]);
        }
        pthread_mutex_unlock(&b->lock);
    }
    bl_text_puts(out, "]");
    free(plans);
    free(use);
}
