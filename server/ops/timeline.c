/* SPDX-License-Identifier: MIT */
/* GET /api/v1/trace: the turns of devices and compilers in the last seconds, as Chrome trace events, which Perfetto opens.
 * A track is a worker thread, so its events do not overlap. Requests that wait at the same time have separate tracks.  A key
 * sees its own requests and their waits.  A key sees the turns of other keys with their duration, and with names as GET
 * /api/v1/now shows them. */
#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/access/access.h"
#include "server/access/keys.h"
#include "server/http/handlers.h"
#include "server/ops/server.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_SECONDS = 3600,
    MOST_QUEUES = BL_MAX_DEVICES + 2, /* queues of devices, of the compiler and of the search */
    MOST_LANES = 64,                  /* largest number of tracks of one queue */
    WAIT_LANES = 16,                  /* largest number of tracks of waits; further simultaneous waits are omitted */
    FIRST_WAIT = 10000,               /* number of the first wait track */
    PROCESS = 1
};

/* A turn and its queue. */
typedef struct span {
    bl_turn_record turn;
    int queue;
} span;

typedef struct timeline {
    bl_request *rq;
    int nqueues, queue; /* |queue|: the queue whose turns are being listed */
    const char *name[MOST_QUEUES];
    int64_t whole_since_ns; /* the list is complete from this time on */
    size_t n, cap;
    span *spans;
    bool used[MOST_QUEUES][MOST_LANES];
} timeline;

static void timeline_keep_turn(void *arg, const bl_turn_record *turn)
{
    timeline *t = arg;
    if (t->n == t->cap)
        return;
    t->spans[t->n].turn = *turn;
    t->spans[t->n++].queue = t->queue;
}

/* List the turns of a queue. A queue keeps a limited number of turns: if the list has this number of turns, earlier turns
 * may be missing. */
static void list_queue(timeline *t, bl_queue *queue, const char *name, int64_t since_ns)
{
    size_t before = t->n;
    t->queue = t->nqueues;
    t->name[t->nqueues++] = name;
    bl_queue_list_turns(queue, since_ns, timeline_keep_turn, t);
    if (t->n - before == BL_QUEUE_TURNS && t->spans[before].turn.end_ns > t->whole_since_ns)
        t->whole_since_ns = t->spans[before].turn.end_ns;
}

/* ---- events */

static void begin_event(bl_text *out)
{
    bl_text_puts(out, bl_text_last(out) == '[' ? "{" : ",{");
}

/* Microseconds since the start of the process. */
static void timeline_put_time(const timeline *t, const char *name, int64_t ns)
{
    bl_encode_key(&t->rq->reply.out, name);
    bl_text_printf(&t->rq->reply.out, "%.3f", (double)ns * 1e-3);
}

static void put_track(const timeline *t, const char *what, int track, const char *name)
{
    bl_text *out = &t->rq->reply.out;
    begin_event(out);
    bl_text_printf(out, "\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, PROCESS, track);
    bl_encode_string(out, name);
    bl_text_puts(out, "}}");
}

static void timeline_put_event(const timeline *t, const span *s, const char *category, int track, int64_t begin_ns,
                               int64_t end_ns)
{
    bl_text *out = &t->rq->reply.out;
    bl_server *server = t->rq->server;
    char key[BL_KEY_NAME];
    bool told = bl_access_tells_names(t->rq, s->turn.owner);
    bl_access_name(server->access, s->turn.owner, key, sizeof key);
    begin_event(out);
    bl_encode_key(out, "name");
    bl_encode_string(out, told ? s->turn.what : "busy");
    bl_encode_key(out, "cat");
    bl_encode_string(out, category);
    bl_text_puts(out, ",\"ph\":\"X\"");
    timeline_put_time(t, "ts", begin_ns - server->start.ns);
    timeline_put_time(t, "dur", end_ns > begin_ns ? end_ns - begin_ns : 0);
    bl_text_printf(out, ",\"pid\":%d,\"tid\":%d,\"args\":{\"key\":", PROCESS, track);
    bl_encode_string(out, told ? key : "others");
    bl_text_puts(out, "}}");
}

static int track_of(const span *s)
{
    return s->queue * MOST_LANES + (int)s->turn.lane + 1;
}

static void put_turns(timeline *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const span *s = &t->spans[i];
        if (s->turn.lane >= MOST_LANES)
            continue;
        t->used[s->queue][s->turn.lane] = true;
        timeline_put_event(t, s, t->name[s->queue], track_of(s), s->turn.begin_ns, s->turn.end_ns);
    }
    for (int q = 0; q < t->nqueues; q++)
        for (int lane = 0; lane < MOST_LANES; lane++)
            if (t->used[q][lane])
                put_track(t, "thread_name", q * MOST_LANES + lane + 1, t->name[q]);
}

/* ---- waits of the key's own requests */

static int by_queued(const void *a, const void *b)
{
    int64_t x = ((const span *)a)->turn.queued_ns, y = ((const span *)b)->turn.queued_ns;
    return (x > y) - (x < y);
}

/* Write the waits. Each wait is on the first free track. */
static void put_waits(timeline *t)
{
    int64_t free_ns[WAIT_LANES] = {0};
    int used = 0;
    qsort(t->spans, t->n, sizeof *t->spans, by_queued);
    for (size_t i = 0; i < t->n; i++) {
        const span *s = &t->spans[i];
        int lane = 0;
        if (s->turn.owner != t->rq->owner || s->turn.queued_ns == 0 || s->turn.queued_ns >= s->turn.begin_ns)
            continue;
        while (lane < WAIT_LANES && free_ns[lane] > s->turn.queued_ns)
            lane++;
        if (lane == WAIT_LANES)
            continue;
        free_ns[lane] = s->turn.begin_ns;
        used = lane >= used ? lane + 1 : used;
        timeline_put_event(t, s, "queue", FIRST_WAIT + lane, s->turn.queued_ns, s->turn.begin_ns);
    }
    for (int lane = 0; lane < used; lane++)
        put_track(t, "thread_name", FIRST_WAIT + lane, "queue");
}

bl_status bl_handle_timeline(bl_request *rq)
{
    bl_server *server = rq->server;
    uint64_t seconds = 10;
    int64_t since_ns = 0;
    timeline *t = bl_arena_alloc(rq->arena, sizeof *t);
    BL_TRY(bl_request_query_count(rq, "seconds", 1, MOST_SECONDS, &seconds));
    if (t == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *t = (timeline){.rq = rq, .cap = (server->nworkers + 2) * (size_t)BL_QUEUE_TURNS};
    t->spans = bl_arena_array(rq->arena, t->cap, sizeof *t->spans);
    BL_TRY(bl_arena_status(rq->arena, &rq->err));
    since_ns = bl_clock_ns() - (int64_t)seconds * 1000000000;
    t->whole_since_ns = since_ns > server->start.ns ? since_ns : server->start.ns;
    for (uint32_t i = 0; i < server->nworkers; i++)
        list_queue(t, server->workers[i].queue, server->workers[i].dev->info.id, since_ns);
    list_queue(t, server->compiler, "compiler", since_ns);
    list_queue(t, server->search.queue, "search", since_ns);
    bl_text_puts(&rq->reply.out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    put_track(t, "process_name", 0, "beamline");
    put_turns(t);
    put_waits(t);
    bl_text_puts(&rq->reply.out, "],\"otherData\":{");
    timeline_put_time(t, "from_us", t->whole_since_ns - server->start.ns);
    timeline_put_time(t, "now_us", bl_clock_ns() - server->start.ns);
    bl_text_puts(&rq->reply.out, "}}");
    bl_request_reply_json(rq, 200);
    return BL_OK;
}
