/* SPDX-License-Identifier: MIT */
/* Server-sent events (WHATWG HTML, 9.2).  A report is an event whose id is its step.  The event "state" carries all other
 * changes. */
#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/http/handlers.h"
#include "server/jobs/jobs_internal.h"
#include "server/ops/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

enum { PING_MS = 15000 }; /* proxies close connections that are silent for a minute or less, so pings come more often */

struct job_listener {
    job_listener *next; /* guarded by the lock of the jobs, like the position in the list */
    bl_job *job;        /* retained */
    bl_request *rq;
    uint64_t last;    /* step of the last report that was sent */
    unsigned changes; /* the last value of job->progress.changes that was sent */
    bool begun, ended;
    bl_text text; /* the current event; |at| of its bytes were sent */
    size_t at;
    int64_t sent_ns; /* under the lock */
    bool ping;       /* under the lock */
};

static void end_listener(void *arg)
{
    job_listener *listener = arg;
    bl_job *job = listener->job;
    job_listener **at = &job->progress.listeners;
    pthread_mutex_lock(&job->jobs->lock);
    while (*at != NULL && *at != listener)
        at = &(*at)->next;
    if (*at != NULL)
        *at = listener->next;
    pthread_mutex_unlock(&job->jobs->lock);
    bl_metrics_add(&listener->rq->server->metrics, BL_COUNT_STREAMS, -1);
    bl_text_fini(&listener->text);
    job_release(job);
}

void job_wake(bl_job *job)
{
    for (job_listener *l = job->progress.listeners; l != NULL; l = l->next)
        bl_stream_wake(l->rq->reply.stream);
}

void job_ping(bl_job *job)
{
    int64_t now = bl_clock_ns();
    for (job_listener *l = job->progress.listeners; l != NULL; l = l->next) {
        bool due = bl_clock_ms(l->sent_ns, now) >= PING_MS;
        l->ping = l->ping || due;
        if (due || !bl_stream_is_granted(l->rq->reply.stream)) /* the stream then sends the refusal */
            bl_stream_wake(l->rq->reply.stream);
    }
}

static void put_report(job_listener *listener, const job_report *report)
{
    bl_text *out = &listener->text;
    bl_text_printf(out, "id: %llu\ndata: {\"step\":%llu", (unsigned long long)report->step, (unsigned long long)report->step);
    bl_encode_measured(out, "time", report->time);
    if (listener->job->progress.rate > 0) {
        bl_encode_measured(out, "rate", listener->job->progress.rate);
    }
    job_report_write(listener->job, report, out);
    bl_text_puts(out, "}\n\n");
    listener->last = report->step;
}

static void events_put_state(job_listener *listener)
{
    bl_text_puts(&listener->text, "event: state\ndata: ");
    job_describe(listener->job, &listener->text);
    bl_text_puts(&listener->text, "\n\n");
    listener->changes = listener->job->progress.changes;
}

/* Under the lock: write the next event: first the state, then the reports, and the final state last. */
static void put_next(job_listener *listener)
{
    const bl_job *job = listener->job;
    const job_report *report = job_report_after(job, listener->last);
    if (!listener->begun) {
        events_put_state(listener);
        listener->changes -= report != NULL; /* a decrement makes the state go out again after the reports */
    } else if (report != NULL) {
        put_report(listener, report);
    } else if (listener->changes != job->progress.changes) {
        events_put_state(listener);
    } else if (listener->ping) {
        bl_text_puts(&listener->text, ":\n\n");
    }
    listener->begun = true;
    listener->ping = false;
    listener->sent_ns = bl_clock_ns();
    listener->ended =
        job_is_final(job) && listener->changes == job->progress.changes && job_report_after(job, listener->last) == NULL;
}

static ssize_t events_read_events(void *arg, char *to, size_t most)
{
    job_listener *listener = arg;
    bl_jobs *jobs = listener->job->jobs;
    size_t n = 0;
    bool draining = false;
    if (listener->at == listener->text.len) {
        listener->at = 0;
        bl_text_fini(&listener->text); /* the next event may come much later, so the memory is freed */
        if (listener->ended)
            return BL_STREAM_END;
        pthread_mutex_lock(&jobs->lock);
        draining = jobs->draining;
        if (!draining)
            put_next(listener);
        pthread_mutex_unlock(&jobs->lock);
        if (listener->text.failed || draining) /* a client that reconnects continues after the last id that it received */
            return BL_STREAM_END;
    }
    n = listener->text.len - listener->at < most ? listener->text.len - listener->at : most;
    if (n > 0)
        memcpy(to, listener->text.data + listener->at, n);
    listener->at += n;
    return (ssize_t)n;
}

static bl_status last_event(bl_request *rq, uint64_t *out)
{
    const char *text = MHD_lookup_connection_value(rq->conn.mhd, MHD_HEADER_KIND, "last-event-id");
    char *end = NULL;
    *out = 0;
    if (text == NULL || *text == '\0')
        return BL_OK;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*end != '\0' || errno != 0 || text[0] < '0' || text[0] > '9')
        return bl_fail(&rq->err, BL_EINVAL, "Last-Event-ID must be the number of a step, not \"%.60s\"", text);
    return BL_OK;
}

bl_status bl_handle_job_events(bl_request *rq)
{
    bl_job *job = NULL;
    uint64_t last = 0;
    bool over = false;
    BL_TRY(job_find_to_read(rq, &job));
    bl_grant by = {.owner = job->owner, .kind = "job", .name = job->id};
    BL_TRY(last_event(rq, &last));
    pthread_mutex_lock(&job->jobs->lock);
    over = last > 0 && job_is_final(job) && job_report_after(job, last) == NULL;
    pthread_mutex_unlock(&job->jobs->lock);
    if (over) { /* status 204 tells a browser not to reconnect */
        bl_request_reply(rq, 204, NULL);
        return BL_OK;
    }
    job_listener *listener = bl_arena_alloc(rq->arena, sizeof *listener);
    if (listener == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    BL_TRY(bl_stream_begin(rq, "text/event-stream", job->owner != rq->owner ? &by : NULL, events_read_events, listener));
    *listener = (job_listener){.job = job_retain(job), .rq = rq, .last = last, .sent_ns = bl_clock_ns()};
    listener->text.budget = &rq->server->memory;
    bl_metrics_add(&rq->server->metrics, BL_COUNT_STREAMS, 1);
    BL_TRY(bl_request_defer(rq, end_listener, listener)); /* runs before the stream is freed */
    pthread_mutex_lock(&job->jobs->lock);
    listener->next = job->progress.listeners;
    job->progress.listeners = listener;
    pthread_mutex_unlock(&job->jobs->lock);
    return BL_OK;
}
