/* SPDX-License-Identifier: MIT */
/* Who uses which device for what, now: GET /api/v1/top, and `beamline top`, which asks for it again and again. */
#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/access/internal.h"
#include "server/ask.h"
#include "server/handlers.h"
#include "server/residents.h"
#include "server/shelf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the route */

enum { MOST_WORKS = 16 }; /* that are told of a key */

/* What requests of an owner are for. */
typedef struct work {
    struct work *next;
    uint32_t owner;
    size_t requests;
    char what[];
} work;

typedef struct works {
    bl_arena *arena;
    work *first, **last;
    bool failed; /* for want of memory */
} works;

static void keep_work(void *arg, uint32_t who, const char *what)
{
    works *all = arg;
    size_t size = strlen(what) + 1;
    work *w = all->first;
    int others = 0;
    while (w != NULL && (w->owner != who || strcmp(w->what, what) != 0)) {
        others += w->owner == who;
        w = w->next;
    }
    if (w == NULL && others == MOST_WORKS)
        return;
    if (w == NULL) {
        w = *all->last = bl_arena_alloc(all->arena, sizeof *w + size);
        all->failed = all->failed || w == NULL;
        if (w == NULL)
            return;
        w->owner = who;
        memcpy(w->what, what, size);
        all->last = &w->next;
    }
    w->requests++;
}

typedef struct standing {
    uint32_t owner;
    size_t requests; /* that wait for the device or run there */
} standing;

typedef struct standings {
    standing *rows;
    size_t count, cap;
} standings;

static void keep_standing(void *arg, uint32_t who, size_t requests)
{
    standings *all = arg;
    if (all->count < all->cap)
        all->rows[all->count++] = (standing){who, requests};
}

static size_t requests_of(const standings *all, uint32_t who)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].owner == who)
            return all->rows[i].requests;
    return 0;
}

/* An owner's figures of one device. */
typedef struct part {
    uint32_t id;
    char name[BL_KEY_NAME];
    int64_t device_ns;
} part;

/* Everybody's, copied: no other lock is taken under that of |access|. */
static bl_status copy_parts(bl_request *rq, int device, part **out, size_t *count)
{
    bl_access *access = rq->server->access;
    size_t most = 0;
    *count = 0;
    pthread_mutex_lock(&access->lock);
    most = access->count + 1;
    pthread_mutex_unlock(&access->lock);
    *out = bl_arena_array(rq->arena, most, sizeof **out);
    if (*out == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    pthread_mutex_lock(&access->lock);
    for (const owner *o = &access->nobody; o != NULL && *count < most; o = o == &access->nobody ? access->owners : o->next) {
        part *p = &(*out)[(*count)++];
        *p = (part){.id = o->row.id, .device_ns = o->device_ns[device]};
        snprintf(p->name, sizeof p->name, "%s", o->row.name);
    }
    pthread_mutex_unlock(&access->lock);
    return BL_OK;
}

static void put_works(const works *all, uint32_t who, bl_text *out)
{
    bool first = true;
    bl_text_puts(out, "[");
    for (const work *w = all->first; w != NULL; w = w->next) {
        if (w->owner != who)
            continue;
        bl_text_puts(out, first ? "{" : ",{");
        first = false;
        bl_encode_key(out, "for");
        bl_encode_string(out, w->what);
        bl_encode_key(out, "requests");
        bl_encode_u64(out, w->requests);
        bl_text_puts(out, "}");
    }
    bl_text_puts(out, "]");
}

static void put_part(const part *p, const works *all, size_t requests, size_t held, bool first, bl_text *out)
{
    bl_text_puts(out, first ? "{" : ",{");
    bl_encode_key(out, "key");
    bl_encode_string(out, p->name);
    bl_encode_key(out, "requests");
    bl_encode_u64(out, requests);
    bl_encode_key(out, "device_seconds");
    bl_encode_number(out, (double)p->device_ns * 1e-9);
    bl_encode_key(out, "held_bytes");
    bl_encode_u64(out, held);
    bl_encode_key(out, "work");
    put_works(all, p->id, out);
    bl_text_puts(out, "}");
}

static bl_status put_device(bl_request *rq, int device)
{
    const bl_worker *worker = &rq->server->workers[device];
    bl_text *out = &rq->out;
    standings all = {.cap = bl_queue_length(worker->queue) + 16};
    works now = {.arena = rq->arena};
    part *parts = NULL;
    size_t count = 0, shown = 0;
    now.last = &now.first;
    all.rows = bl_arena_array(rq->arena, all.cap, sizeof *all.rows);
    if (all.rows == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    bl_queue_list(worker->queue, keep_standing, &all);
    bl_queue_list_purposes(worker->queue, keep_work, &now);
    if (now.failed)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(copy_parts(rq, device, &parts, &count));
    bl_text_puts(out, device > 0 ? ",{" : "{");
    bl_encode_key(out, "id");
    bl_encode_string(out, worker->dev->info.id);
    bl_encode_key(out, "queue");
    bl_encode_u64(out, bl_queue_length(worker->queue));
    bl_encode_key(out, "memory_used");
    bl_encode_u64(out, atomic_load(&worker->dev->bytes_used));
    bl_encode_key(out, "memory_moved");
    bl_encode_u64(out, bl_residents_away(worker->residents));
    bl_encode_key(out, "keys");
    bl_text_puts(out, "[");
    for (size_t i = 0; i < count; i++) {
        size_t requests = requests_of(&all, parts[i].id), held = bl_shelf_held_on(rq->server->shelf, parts[i].id, worker);
        if (parts[i].device_ns > 0 || requests > 0 || held > 0)
            put_part(&parts[i], &now, requests, held, shown++ == 0, out);
    }
    bl_text_puts(out, "]}");
    return BL_OK;
}

bl_status bl_handle_top(bl_request *rq)
{
    bl_text_puts(&rq->out, "{");
    bl_encode_key(&rq->out, "seconds"); /* of a clock that both figures of two answers share */
    bl_encode_number(&rq->out, (double)bl_clock_ns() * 1e-9);
    bl_encode_key(&rq->out, "devices");
    bl_text_puts(&rq->out, "[");
    for (uint32_t i = 0; i < rq->server->nworkers; i++)
        BL_TRY(put_device(rq, (int)i));
    bl_text_puts(&rq->out, "]}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* ---- the command */

enum { MOST_ROWS = 1024 };

typedef struct figure {
    char device[32], key[BL_KEY_NAME];
    double seconds;
} figure;

typedef struct screen {
    double clock; /* of the answer before; 0: there was none */
    int count;
    figure before[MOST_ROWS];
    bl_text out;
} screen;

static bl_status need_number(const bl_json *object, const char *name, double *out, bl_err *err)
{
    bl_json at;
    bl_wire_number number = {0};
    BL_TRY(bl_json_need(object, name, &at, err));
    BL_TRY(bl_json_number(&at, &number, err));
    *out = number.value;
    return BL_OK;
}

static bl_status need_text(const bl_json *object, const char *name, const char **out, bl_err *err)
{
    bl_json at;
    BL_TRY(bl_json_need(object, name, &at, err));
    return bl_json_string(&at, out, err);
}

/* What the row had at the answer before, and from now on has. */
static double exchange(screen *s, const char *device, const char *key, double seconds)
{
    double before = 0;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->before[i].device, device) == 0 && strcmp(s->before[i].key, key) == 0) {
            before = s->before[i].seconds;
            s->before[i].seconds = seconds;
            return before;
        }
    if (s->count < MOST_ROWS) {
        figure *f = &s->before[s->count++];
        snprintf(f->device, sizeof f->device, "%s", device);
        snprintf(f->key, sizeof f->key, "%s", key);
        f->seconds = seconds;
    }
    return 0;
}

/* "    job 4f2a of line, model m (3)" */
static bl_status show_work(screen *s, const bl_json *row, bl_err *err)
{
    bl_json list, one;
    int shown = 0;
    if (!bl_json_find(row, "work", &list)) /* of an older server */
        return BL_OK;
    for (bl_json_iter each = bl_json_each(&list); bl_json_next(&each, &one);) {
        const char *what = "";
        double requests = 0;
        BL_TRY(need_text(&one, "for", &what, err));
        BL_TRY(need_number(&one, "requests", &requests, err));
        bl_text_puts(&s->out, shown++ > 0 ? ", " : "    ");
        bl_text_puts(&s->out, what);
        if (requests > 1)
            bl_text_printf(&s->out, " (%.0f)", requests);
    }
    bl_text_puts(&s->out, shown > 0 ? "\n" : "");
    return BL_OK;
}

static bl_status show_key(screen *s, const char *device, const bl_json *row, double passed, bl_err *err)
{
    const char *key = "";
    double requests = 0, seconds = 0, held = 0, before = 0;
    BL_TRY(need_text(row, "key", &key, err));
    BL_TRY(need_number(row, "requests", &requests, err));
    BL_TRY(need_number(row, "device_seconds", &seconds, err));
    BL_TRY(need_number(row, "held_bytes", &held, err));
    before = exchange(s, device, key, seconds);
    bl_text_printf(&s->out, "  %-20s ", *key != '\0' ? key : "(no key)");
    if (passed > 0)
        bl_text_printf(&s->out, "%6.1f%%", 100 * (seconds - before) / passed);
    else
        bl_text_puts(&s->out, "      -");
    bl_text_printf(&s->out, " %12.3f s %8.0f %10.1f MB\n", seconds, requests, held / 1e6);
    return show_work(s, row, err);
}

static bl_status show(screen *s, const bl_json *root, bl_err *err)
{
    bl_json devices, device, keys, row;
    double clock = 0, passed = 0;
    BL_TRY(need_number(root, "seconds", &clock, err));
    passed = s->clock > 0 ? clock - s->clock : 0;
    s->clock = clock;
    BL_TRY(bl_json_need(root, "devices", &devices, err));
    bl_text_puts(&s->out, "  key                     busy       since start requests         held\n");
    for (bl_json_iter each = bl_json_each(&devices); bl_json_next(&each, &device);) {
        const char *id = "";
        double queue = 0, used = 0, moved = 0;
        BL_TRY(need_text(&device, "id", &id, err));
        BL_TRY(need_number(&device, "queue", &queue, err));
        BL_TRY(need_number(&device, "memory_used", &used, err));
        BL_TRY(need_number(&device, "memory_moved", &moved, err));
        BL_TRY(bl_json_need(&device, "keys", &keys, err));
        bl_text_printf(&s->out, "%s: %.0f in the queue, %.1f MB", id, queue, used / 1e6);
        if (moved > 0)
            bl_text_printf(&s->out, ", %.1f MB more wait on the host", moved / 1e6);
        bl_text_puts(&s->out, "\n");
        for (bl_json_iter rows = bl_json_each(&keys); bl_json_next(&rows, &row);)
            BL_TRY(show_key(s, id, &row, passed, err));
    }
    return bl_text_status(&s->out, err);
}

static bl_status look_once(screen *s, bl_ask *ask, bool clear, bl_err *err)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits limits = {0};
    bl_json_doc doc = {0};
    bl_status st = bl_ask_send(ask, err);
    if (st == BL_OK)
        st = bl_json_parse(&doc, arena, (bl_span){bl_text_get(&ask->body), ask->body.len}, &limits, err);
    bl_text_clear(&s->out);
    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = show(s, &root, err);
    }
    if (st == BL_OK) {
        printf("%s%s", clear ? "\033[H\033[2J" : "", bl_text_get(&s->out));
        fflush(stdout);
    }
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
    return st;
}

static bl_status watch(const char *url, double interval, long times, bl_err *err)
{
    screen *s = calloc(1, sizeof *s);
    bl_ask ask = {0};
    bl_status st = s != NULL ? bl_ask_open(&ask, url, "/api/v1/top", false, err) : bl_fail(err, BL_ENOMEM, "top");
    for (long i = 0; st == BL_OK && (times == 0 || i < times); i++) {
        if (i > 0)
            usleep((useconds_t)(interval * 1e6));
        st = look_once(s, &ask, times == 0 && isatty(STDOUT_FILENO), err);
    }
    bl_ask_close(&ask);
    if (s != NULL)
        bl_text_fini(&s->out);
    free(s);
    return st;
}

/* "--interval 0.5", or its default. */
static bool take_number(int argc, char *const *argv, int *at, const char *flag, double most, double *out)
{
    char *end = NULL;
    if (strcmp(argv[*at], flag) != 0 || *at + 1 >= argc)
        return false;
    *out = strtod(argv[++*at], &end);
    return end != argv[*at] && *end == '\0' && *out > 0 && *out <= most;
}

int bl_top_main(int argc, char *const *argv)
{
    const char *url = bl_ask_url(NULL);
    double interval = 2, times = 0;
    bl_err err = {0};
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] != '-')
            url = argv[i];
        else if (!take_number(argc, argv, &i, "--interval", 3600, &interval) &&
                 !take_number(argc, argv, &i, "--times", 1e6, &times)) {
            fprintf(stderr, "beamline: top [URL] [--interval SECONDS] [--times N]; the key is in $BEAMLINE_KEY\n");
            return EXIT_FAILURE;
        }
    }
    if (watch(url, interval, (long)times, &err) != BL_OK)
        fprintf(stderr, "beamline: %s\n", err.text);
    return err.status == BL_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
