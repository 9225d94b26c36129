/* SPDX-License-Identifier: MIT */
#include "server/sequence.h"

#include <stdlib.h>
#include <string.h>

/* The last numbered run of one key.  Worker's thread, between two runs of the program. */
struct bl_sequence {
    bl_sequence *next;
    uint32_t owner;
    uint64_t last;
    int status;
    const char *content_type; /* constant */
    char *answer;             /* heap, of the server's budget; NULL: there was no memory for it */
    size_t bytes;
};

/* What belongs to one request. */
typedef struct numbered {
    uint64_t seq;
    int64_t deadline_ns;
    bl_sequence *of;
} numbered;

void bl_sequences_free(bl_server *server, bl_sequence *first)
{
    while (first != NULL) {
        bl_sequence *next = first->next;
        bl_budget_give(&server->memory, first->bytes);
        free(first->answer);
        free(first);
        first = next;
    }
}

static bl_status find(bl_exec *x, bl_sequence **out)
{
    bl_request *rq = x->rq;
    for (*out = x->program->sequences; *out != NULL; *out = (*out)->next)
        if ((*out)->owner == rq->owner)
            return BL_OK;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return bl_fail(&rq->err, BL_ENOMEM, "a numbered run");
    (*out)->owner = rq->owner;
    (*out)->next = x->program->sequences;
    x->program->sequences = *out;
    return BL_OK;
}

static void drop_answer(bl_server *server, bl_sequence *s)
{
    bl_budget_give(&server->memory, s->bytes);
    free(s->answer);
    s->answer = NULL;
    s->bytes = 0;
}

/* What the request is about to be answered with, for whoever asks again.  The steps were applied, so the number is used up also
 * where there is no memory for the answer. */
static void keep_answer(bl_request *rq, bl_sequence *s)
{
    bl_err ignored = {0};
    size_t bytes = rq->out.len, at = 0;
    for (unsigned i = 0; i < rq->npieces; i++)
        bytes += rq->pieces[i].bytes;
    s->status = rq->status;
    s->content_type = rq->content_type;
    if (rq->out.failed || bl_budget_take(&rq->server->memory, bytes, BL_ENOMEM, "an answer", &ignored) != BL_OK)
        return;
    s->bytes = bytes;
    s->answer = malloc(bytes > 0 ? bytes : 1);
    if (s->answer == NULL) {
        drop_answer(rq->server, s);
        return;
    }
    memcpy(s->answer, bl_text_get(&rq->out), rq->out.len);
    at = rq->out.len;
    for (unsigned i = 0; i < rq->npieces; i++) {
        memcpy(s->answer + at, rq->pieces[i].data, rq->pieces[i].bytes);
        at += rq->pieces[i].bytes;
    }
}

/* The run is over; a failure that changed the state is an answer too, and not tried again. */
static void end_run(bl_exec *x, numbered *n)
{
    bl_request *rq = x->rq;
    if (rq->err.status != BL_OK && x->done == 0)
        return;
    n->of->last = n->seq;
    drop_answer(rq->server, n->of);
    if (rq->err.status == BL_OK)
        rq->err.status = bl_exec_reply(rq);
    if (rq->err.status != BL_OK)
        bl_request_reply_problem(rq);
    rq->err = (bl_err){0};
    rq->then = NULL; /* it is answered */
    keep_answer(rq, n->of);
}

static void answer_again(bl_request *rq, const bl_sequence *s)
{
    rq->then = NULL;
    if (s->answer == NULL) {
        (void)bl_fail(&rq->err, BL_ENOMEM, "run %llu was applied, but there was no memory to keep its answer",
                      (unsigned long long)s->last);
        return;
    }
    bl_text_append(&rq->out, s->answer, s->bytes);
    bl_request_reply(rq, s->status, s->content_type);
}

/* Before the first step: is it to be run?  If not the request is answered. */
static bool is_next(bl_exec *x, numbered *n)
{
    bl_request *rq = x->rq;
    if (find(x, &n->of) != BL_OK)
        return false;
    if (n->seq == n->of->last && n->seq != 0) {
        answer_again(rq, n->of);
        return false;
    }
    if (n->seq != n->of->last + 1) {
        (void)bl_fail(&rq->err, BL_ECONFLICT, "seq is %llu, the last was %llu: that one is answered again, and the next is %llu",
                      (unsigned long long)n->seq, (unsigned long long)n->of->last, (unsigned long long)n->of->last + 1);
        return false;
    }
    atomic_store(&rq->stays, true); /* who lost the connection will ask again */
    return true;
}

static bl_step run(bl_request *rq)
{
    bl_exec *x = rq->data;
    numbered *n = x->extra;
    bl_step step = BL_STEP_DONE;
    if (!x->begun && !is_next(x, n))
        return BL_STEP_DONE;
    if (x->begun)
        rq->deadline_ns = n->deadline_ns;
    step = bl_exec_run(rq);
    if (step == BL_STEP_DONE) {
        end_run(x, n);
        return step;
    }
    n->deadline_ns = rq->deadline_ns; /* not the queue ends what has begun */
    rq->deadline_ns = 0;
    return step;
}

bl_status bl_sequence_begin(bl_exec *x, uint64_t seq)
{
    numbered *n = bl_arena_alloc(x->rq->arena, sizeof *n);
    if (n == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    *n = (numbered){.seq = seq};
    x->extra = n;
    x->work = run;
    return BL_OK;
}
