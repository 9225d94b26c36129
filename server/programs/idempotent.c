/* SPDX-License-Identifier: MIT */
#include "server/programs/idempotent.h"

#include "engine/base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The stored answer of a run.  Reference-counted, constant. */
typedef struct answer {
    atomic_int refs;
    bl_server *server; /* its memory budget is charged */
    size_t bytes;
    char data[];
} answer;

/* The last numbered run of one key.  Worker's thread, between two runs of the program. */
struct bl_sequence {
    bl_sequence *next;
    uint32_t owner;
    uint64_t last;
    int status;
    char content_type[64];
    answer *answer; /* NULL: there was no memory to store it */
};

/* The state of one numbered request. */
typedef struct numbered {
    uint64_t seq;
    int64_t deadline_ns;
    bl_sequence *of;
} numbered;

static void idempotent_release(answer *a)
{
    if (a == NULL || atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    bl_budget_give(&a->server->memory, a->bytes);
    free(a);
}

/* NULL if out of memory. */
static answer *idempotent_make_answer(bl_server *server, size_t bytes)
{
    bl_err ignored = {0};
    answer *a = NULL;
    if (bl_budget_take(&server->memory, bytes, BL_ENOMEM, "an answer", &ignored) != BL_OK)
        return NULL;
    a = bl_calloc(1, sizeof *a + bytes);
    if (a == NULL) {
        bl_budget_give(&server->memory, bytes);
        return NULL;
    }
    atomic_init(&a->refs, 1);
    a->server = server;
    a->bytes = bytes;
    return a;
}

void bl_sequences_free(bl_sequence *first)
{
    while (first != NULL) {
        bl_sequence *next = first->next;
        idempotent_release(first->answer);
        free(first);
        first = next;
    }
}

/* ---- saving and loading */

bl_status bl_sequences_copy(const bl_sequence *first, bl_sequence **out, bl_err *err)
{
    for (*out = NULL; first != NULL; first = first->next) {
        bl_sequence *copy = bl_calloc(1, sizeof *copy);
        if (copy == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for numbered runs");
        *copy = *first;
        copy->next = *out;
        *out = copy;
        if (copy->answer != NULL)
            atomic_fetch_add(&copy->answer->refs, 1);
    }
    return BL_OK;
}

const bl_sequence *bl_sequence_read(const bl_sequence *at, bl_sequence_row *out)
{
    *out = (bl_sequence_row){.owner = at->owner, .last = at->last, .status = at->status, .content_type = at->content_type};
    if (at->answer != NULL)
        out->answer = (bl_span){at->answer->data, at->answer->bytes};
    return at->next;
}

bl_status bl_sequence_add(bl_program *program, const bl_sequence_row *row, bl_err *err)
{
    bl_sequence *s = bl_calloc(1, sizeof *s);
    if (s == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a numbered run");
    *s = (bl_sequence){.next = program->sequences, .owner = row->owner, .last = row->last, .status = row->status};
    snprintf(s->content_type, sizeof s->content_type, "%s", row->content_type);
    if (row->answer.data != NULL)
        s->answer = idempotent_make_answer(program->server, row->answer.len);
    if (s->answer != NULL)
        memcpy(s->answer->data, row->answer.data, row->answer.len);
    program->sequences = s;
    return BL_OK;
}

/* ---- running */

static bl_status idempotent_find(bl_exec *x, bl_sequence **out)
{
    bl_request *rq = x->rq;
    for (*out = x->hold.program->sequences; *out != NULL; *out = (*out)->next)
        if ((*out)->owner == rq->owner)
            return BL_OK;
    BL_TRY(bl_sequence_add(x->hold.program, &(bl_sequence_row){.owner = rq->owner, .content_type = ""}, &rq->err));
    *out = x->hold.program->sequences;
    return BL_OK;
}

static void drop_answer(bl_sequence *s)
{
    idempotent_release(s->answer);
    s->answer = NULL;
}

/* Store the answer of the request for repetitions of the number.  The steps were applied, so the number counts as used even if
 * there is no memory for the answer. */
static void keep_answer(bl_request *rq, bl_sequence *s)
{
    size_t bytes = rq->reply.out.len, at = 0;
    for (unsigned i = 0; i < rq->reply.npieces; i++)
        bytes += rq->reply.pieces[i].bytes;
    s->status = rq->reply.status;
    snprintf(s->content_type, sizeof s->content_type, "%s", rq->reply.content_type);
    s->answer = rq->reply.out.failed ? NULL : idempotent_make_answer(rq->server, bytes);
    if (s->answer == NULL)
        return;
    memcpy(s->answer->data, bl_text_get(&rq->reply.out), rq->reply.out.len);
    at = rq->reply.out.len;
    for (unsigned i = 0; i < rq->reply.npieces; i++) {
        memcpy(s->answer->data + at, rq->reply.pieces[i].data, rq->reply.pieces[i].bytes);
        at += rq->reply.pieces[i].bytes;
    }
}

/* The run is over.  A failure after the state has changed is stored as an answer too, so that the run is not repeated. */
static void idempotent_end_run(bl_exec *x, numbered *n)
{
    bl_request *rq = x->rq;
    if (rq->err.status != BL_OK && x->done == 0)
        return;
    n->of->last = n->seq;
    drop_answer(n->of);
    if (rq->err.status == BL_ECANCELLED) { /* only the end of the server cancels it, since the request stays */
        rq->err = (bl_err){0};
        (void)bl_fail(&rq->err, BL_ECANCELLED, "the server shut down after %llu steps of the run", (unsigned long long)x->done);
    }
    if (rq->err.status == BL_OK)
        rq->err.status = bl_exec_reply(rq);
    if (rq->err.status != BL_OK)
        bl_request_reply_problem(rq);
    rq->err = (bl_err){0};
    rq->then = NULL; /* the answer is complete */
    keep_answer(rq, n->of);
}

static void idempotent_answer_again(bl_request *rq, const bl_sequence *s)
{
    /* a copy, since the record may get another answer before this one is sent */
    const char *type = bl_arena_strdup(rq->arena, s->content_type);
    rq->then = NULL;
    if (type == NULL) {
        rq->err.status = bl_arena_status(rq->arena, &rq->err);
        return;
    }
    if (s->answer == NULL) {
        (void)bl_fail(&rq->err, BL_ENOMEM, "run %llu was applied, but there was no memory to keep its answer",
                      (unsigned long long)s->last);
        return;
    }
    bl_text_append(&rq->reply.out, s->answer->data, s->answer->bytes);
    bl_request_reply(rq, s->status, type);
}

/* Before the first step: must the run be executed?  Otherwise the request is answered here. */
static bool is_next(bl_exec *x, numbered *n)
{
    bl_request *rq = x->rq;
    if (idempotent_find(x, &n->of) != BL_OK)
        return false;
    if (n->seq == n->of->last && n->seq != 0) {
        idempotent_answer_again(rq, n->of);
        return false;
    }
    if (n->seq != n->of->last + 1) {
        (void)(n->of->last == 0
                   ? bl_fail(&rq->err, BL_ECONFLICT, "seq is %llu; it must be 1, as the program has no numbered run yet",
                             (unsigned long long)n->seq)
                   : bl_fail(&rq->err, BL_ECONFLICT,
                             "seq is %llu; it must be %llu, which repeats the last answer, or %llu, the next run",
                             (unsigned long long)n->seq, (unsigned long long)n->of->last, (unsigned long long)n->of->last + 1));
        return false;
    }
    atomic_store(&rq->stays, true); /* a client that loses its connection asks again */
    return true;
}

static bl_step idempotent_run(bl_request *rq)
{
    bl_exec *x = rq->data;
    numbered *n = x->extra;
    bl_step step = BL_STEP_DONE;
    if (!bl_exec_has_begun(x) && !is_next(x, n))
        return BL_STEP_DONE;
    if (bl_exec_has_begun(x))
        rq->item.deadline_ns = n->deadline_ns;
    step = bl_exec_run(rq);
    if (step == BL_STEP_DONE) {
        idempotent_end_run(x, n);
        return step;
    }
    n->deadline_ns = rq->item.deadline_ns; /* the queue must not end a run that has begun */
    rq->item.deadline_ns = 0;
    return step;
}

bl_status bl_sequence_begin(bl_exec *x, uint64_t seq)
{
    numbered *n = bl_arena_alloc(x->rq->arena, sizeof *n);
    if (n == NULL)
        return bl_arena_status(x->rq->arena, &x->rq->err);
    *n = (numbered){.seq = seq};
    x->extra = n;
    x->work = idempotent_run;
    return BL_OK;
}
