/* SPDX-License-Identifier: MIT */
/* The requests of clients for generated texts (completion.h).
 *
 * Lock order: a request's peer, a completion's lock, then the lock of a stream or a queue. */
#include "server/models/completion.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/models/generation.h"
#include "server/run/queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    OPTIONS_BYTES = 64 << 20, /* limit for prompts and options; a body of prompts as numbers takes no more */
    QUEUED = 0,
    COMPUTED = 1
};
static const int64_t PING_NS = 15000000000; /* proxies close connections that are silent for about a minute */

/* ---- lifetime */

void bl_completion_release(void *arg)
{
    bl_completion *c = arg;
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    for (int i = 0; i < c->ntexts; i++)
        bl_generation_destroy(c->texts[i]);
    bl_text_fini(&c->out);
    pthread_mutex_destroy(&c->lock);
    bl_model_version_release(c->version);
    bl_arena_destroy(c->arena);
    free(c);
}

bl_status bl_completion_create(bl_infer *in, const bl_text_form *form, bl_completion **out)
{
    bl_request *rq = in->rq;
    bl_arena *arena = bl_arena_create(OPTIONS_BYTES);
    bl_completion *c = arena != NULL ? bl_calloc(1, sizeof *c) : NULL;
    *out = NULL;
    if (c == NULL) {
        bl_arena_destroy(arena);
        return bl_fail(&rq->err, BL_ENOMEM, "out of host memory for a text");
    }
    atomic_init(&c->refs, 1);
    pthread_mutex_init(&c->lock, NULL);
    c->arena = arena;
    c->models = in->version->models;
    c->version = bl_model_version_retain(in->version);
    c->text = in->version->text;
    c->form = form;
    c->rq = rq;
    c->in = in;
    c->created = (int64_t)time(NULL);
    c->out.budget = &rq->server->memory;
    *out = c;
    return bl_request_defer(rq, bl_completion_release, c);
}

bl_status bl_completion_add(bl_completion *c, const bl_tokens *prompt, int shift)
{
    bl_err *err = &c->rq->err;
    if (c->texts == NULL)
        c->texts = bl_arena_array(c->arena, BL_MOST_TEXTS, sizeof(bl_generation *));
    if (c->texts == NULL)
        return bl_arena_status(c->arena, err);
    if (c->ntexts == BL_MOST_TEXTS)
        return bl_fail(err, BL_EINVAL, "a request may ask for at most %d texts, the number of prompts times \"n\"",
                       BL_MOST_TEXTS);
    BL_TRY(bl_generation_create(c, prompt, shift, &c->texts[c->ntexts], err));
    c->texts[c->ntexts]->index = c->ntexts;
    c->ntexts++;
    return BL_OK;
}

/* ---- the end */

static void count_answer(bl_completion *c)
{
    bl_infer *in = c->in;
    bl_model_statistics *s = &in->version->statistics;
    in->state = BL_INFER_ANSWERED;
    bl_statistics_add(s, BL_STAT_SUCCESS, bl_clock_ns() - in->rq->start_ns);
    bl_statistics_add(s, BL_STAT_QUEUE, c->time_ns[QUEUED]);
    bl_statistics_add(s, BL_STAT_INPUT, in->item.input_ns);
    bl_statistics_add(s, BL_STAT_INFER, c->time_ns[COMPUTED]);
    bl_statistics_run(s, 1, in->item.input_ns, c->time_ns[COMPUTED], 0);
}

void bl_completion_wake(bl_completion *c)
{
    c->told_ns = bl_clock_ns();
    if (c->stream != NULL)
        bl_stream_wake(c->stream);
}

static void cancel_texts(bl_completion *c, const char *why)
{
    for (int i = 0; i < c->ntexts; i++)
        bl_generation_cancel(c->texts[i], why);
}

/* Under the lock: send the last event. */
static void tell_end(bl_completion *c)
{
    size_t whole = c->out.len;
    if (c->err.status != BL_OK) {
        c->out.failed = false;
        c->form->fail(&c->err, &c->out);
    } else if (c->form->end != NULL) {
        c->form->end(c, &c->out);
    }
    if (c->out.failed)
        c->out.len = whole; /* no partial event */
    bl_completion_wake(c);
}

/* The last text is over.  Returns the parked request of the client, for the caller to finish; else NULL. */
static bl_request *finish_client(bl_completion *c)
{
    bl_request *rq = c->phase == BL_COMPLETION_PARKED ? c->rq : NULL;
    c->phase = BL_COMPLETION_OVER;
    if (c->streams)
        tell_end(c);
    if (rq != NULL) {
        rq->err = c->err;
        rq->reply.retry_after = c->retry_after;
    }
    return rq;
}

/* Worker's thread, or the thread that cancels the text. */
void bl_completion_end_text(bl_generation *g, bl_request *own)
{
    bl_completion *c = g->completion;
    bl_models *models = c->models;
    bl_request *waits = NULL;
    bool first = false;
    pthread_mutex_lock(&c->lock);
    g->own = NULL;
    g->queue_ns = own->trace.time_ns[BL_TIME_QUEUE];
    c->time_ns[QUEUED] += g->queue_ns;
    c->time_ns[COMPUTED] += g->compute_ns;
    first = own->err.status != BL_OK && c->err.status == BL_OK;
    if (first) {
        c->err = own->err;
        c->retry_after = own->reply.retry_after;
    }
    if (c->phase == BL_COMPLETION_PARKED)
        bl_request_trace_join(&c->rq->trace, &own->trace);
    if (--c->left == 0)
        waits = finish_client(c);
    pthread_mutex_unlock(&c->lock);
    bl_request_end(own);
    if (first)
        cancel_texts(c, "another text of the request failed");
    if (waits != NULL)
        bl_request_finish(waits);
    bl_completion_release(c);
    atomic_fetch_sub(&models->generations, 1);
}

/* ---- answers that are not streamed */

static bl_status completion_reply(bl_request *rq)
{
    bl_completion *c = rq->data;
    for (int i = 0; i < c->ntexts; i++)
        BL_TRY(bl_text_status(&c->texts[i]->answer.written, &rq->err));
    count_answer(c);
    c->form->document(c, &rq->reply.out);
    bl_request_reply_json(rq, 200);
    return BL_OK;
}

/* The client closed its connection.  Called under the lock of the peer; the texts are cancelled when the request ends. */
static bool leave_parked(bl_request *rq)
{
    bl_completion *c = rq->data;
    bool mine = false;
    pthread_mutex_lock(&c->lock);
    mine = c->phase == BL_COMPLETION_PARKED;
    if (mine)
        c->phase = BL_COMPLETION_RUNS;
    pthread_mutex_unlock(&c->lock);
    return mine;
}

/* The client has the whole answer, or has left: stop writing to its stream, and cancel the texts. */
static void completion_leave(void *arg)
{
    bl_completion *c = arg;
    pthread_mutex_lock(&c->lock);
    c->stream = NULL;
    pthread_mutex_unlock(&c->lock);
    cancel_texts(c, "the client went away");
}

/* ---- streams */

/* Discard the sent bytes.  Bytes are moved only if all are sent, or if more than BL_MOST_UNREAD are sent. */
static void drop_sent(bl_text *out, size_t *sent)
{
    if (*sent < out->len && *sent < BL_MOST_UNREAD)
        return;
    if (*sent < out->len)
        memmove(out->data, out->data + *sent, out->len - *sent);
    out->len -= *sent;
    *sent = 0;
    if (out->data != NULL)
        out->data[out->len] = '\0';
}

/* Queue the texts that paused because the client had much to read. */
static void wake_rested(bl_completion *c)
{
    for (int i = 0; i < c->ntexts; i++) {
        bl_generation *g = c->texts[i];
        bl_request *rested = NULL;
        pthread_mutex_lock(&c->lock);
        if (g->rests && c->out.len - c->sent < BL_MOST_UNREAD / 2) {
            g->rests = false;
            rested = g->own;
        }
        pthread_mutex_unlock(&c->lock);
        if (rested != NULL && bl_request_submit(rested, g->state.worker->queue, bl_text_work, NULL) != BL_OK)
            bl_request_finish(rested);
    }
}

static ssize_t completion_read_events(void *arg, char *to, size_t most)
{
    bl_completion *c = arg;
    ssize_t n = 0;
    pthread_mutex_lock(&c->lock);
    n = (ssize_t)(c->out.len - c->sent < most ? c->out.len - c->sent : most);
    if (n > 0)
        memcpy(to, c->out.data + c->sent, (size_t)n);
    c->sent += (size_t)n;
    drop_sent(&c->out, &c->sent);
    if (n == 0 && c->phase == BL_COMPLETION_OVER)
        n = BL_STREAM_END;
    pthread_mutex_unlock(&c->lock);
    wake_rested(c);
    return n;
}

static void list_streamed(bl_completion *c)
{
    pthread_mutex_lock(&c->models->lock);
    c->next = c->models->streamed;
    c->models->streamed = c;
    pthread_mutex_unlock(&c->models->lock);
}

static void unlist_streamed(bl_completion *c)
{
    bl_completion **at = NULL;
    pthread_mutex_lock(&c->models->lock);
    for (at = &c->models->streamed; *at != NULL && *at != c; at = &(*at)->next)
        continue;
    if (*at == c)
        *at = c->next;
    pthread_mutex_unlock(&c->models->lock);
}

void bl_completions_ping(bl_models *models)
{
    int64_t now = bl_clock_ns();
    pthread_mutex_lock(&models->lock);
    for (bl_completion *c = models->streamed; c != NULL; c = c->next) {
        pthread_mutex_lock(&c->lock);
        if (c->stream != NULL && c->phase == BL_COMPLETION_RUNS && c->out.len == 0 && now - c->told_ns >= PING_NS) {
            bl_text_puts(&c->out, ":\n\n");
            bl_completion_wake(c);
        }
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&models->lock);
}

static void completion_end_stream(void *arg)
{
    bl_completion *c = arg;
    unlist_streamed(c);
    completion_leave(c);
    bl_metrics_add(&c->rq->server->metrics, BL_COUNT_STREAMS, -1);
    pthread_mutex_lock(&c->lock);
    if (c->phase == BL_COMPLETION_OVER && c->err.status == BL_OK)
        count_answer(c);
    pthread_mutex_unlock(&c->lock);
}

static bl_status begin_stream(bl_completion *c)
{
    bl_request *rq = c->rq;
    bl_grant by = {.owner = c->version->owner, .kind = "model", .name = c->version->name};
    bool shared = by.owner != 0 && by.owner != rq->owner; /* models of the folder may be read by every key */
    BL_TRY(bl_stream_begin(rq, "text/event-stream; charset=utf-8", shared ? &by : NULL, completion_read_events, c));
    /* runs before the end of the stream, so that a text does not wake an ended stream */
    BL_TRY(bl_request_defer(rq, completion_leave, c));
    pthread_mutex_lock(&c->lock);
    c->stream = rq->reply.stream;
    bl_completion_wake(c);
    pthread_mutex_unlock(&c->lock);
    return BL_OK;
}

/* ---- the beginning */

/* Submit all texts.  If a text is refused, the texts before it go on until the end of the request cancels them. */
static bl_status submit_texts(bl_completion *c)
{
    pthread_mutex_lock(&c->lock);
    c->told_ns = bl_clock_ns();
    c->left = c->ntexts + (c->streams ? 0 : 1);
    if (c->streams && c->form->begin != NULL)
        c->form->begin(c, &c->out);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->ntexts; i++) {
        bl_status st = BL_OK;
        atomic_fetch_add(&c->refs, 1);
        atomic_fetch_add(&c->models->generations, 1);
        st = bl_generation_submit(c->texts[i], c->rq);
        if (st == BL_OK)
            continue;
        atomic_fetch_sub(&c->models->generations, 1);
        bl_completion_release(c); /* not the last reference: the client's request holds one */
        return st;
    }
    return BL_OK;
}

/* Park the client's request.  Until it is parked, the completion has one more reference and counts one more text, since the
 * client may leave and the texts may end at any moment. */
static void park(bl_completion *c)
{
    bl_request *rq = c->rq, *waits = NULL;
    rq->data = c;
    rq->then = completion_reply;
    atomic_fetch_add(&c->refs, 1);
    pthread_mutex_lock(&c->lock);
    c->phase = BL_COMPLETION_PARKED;
    pthread_mutex_unlock(&c->lock);
    bl_request_park(rq, leave_parked);
    pthread_mutex_lock(&c->lock);
    if (--c->left == 0)
        waits = finish_client(c);
    pthread_mutex_unlock(&c->lock);
    if (waits != NULL)
        bl_request_finish(waits);
    bl_completion_release(c);
}

bl_status bl_completion_begin(bl_completion *c)
{
    bl_request *rq = c->rq;
    BL_TRY(bl_infer_choose_turn(c->in));
    for (int i = 0; i < c->ntexts; i++)
        BL_TRY(bl_generation_prepare(c->texts[i], c->in));
    c->in->item.input_ns = bl_clock_ns() - c->in->item.begin_ns;
    if (c->streams) {
        bl_metrics_add(&rq->server->metrics, BL_COUNT_STREAMS, 1);
        list_streamed(c);
    }
    /* also runs if one of the next steps fails */
    BL_TRY(bl_request_defer(rq, c->streams ? completion_end_stream : completion_leave, c));
    BL_TRY(submit_texts(c));
    if (c->streams)
        return begin_stream(c);
    park(c);
    return BL_OK;
}
