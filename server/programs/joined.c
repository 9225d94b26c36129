/* SPDX-License-Identifier: MIT */
#include "server/programs/joined.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "server/access/access.h"
#include "server/batch/batcher.h"

#include <stdlib.h>

/* The batcher of one entry. */
struct bl_joined {
    bl_batcher batcher;
    bl_batch_slot slot;
};

/* The part of a program run that waits in a batcher. */
typedef struct joined_run {
    bl_batch_item item; /* first member: bl_batch_item * converts */
    bl_exec *x;
    bl_batch_slot *slot; /* of a run without a batch; else NULL */
    bool claimed;        /* |slot| is claimed for the run */
} joined_run;

/* ---- functions for the batcher */

static void retain_program(void *owner)
{
    bl_program_retain(owner);
}

static bl_status joined_prepare_joint(void *owner, bl_request *rq, bl_batch_slot *slot, int64_t *vars, bl_exec **out)
{
    BL_TRY(bl_program_check(owner, &rq->err));
    return bl_batch_exec(rq, slot->program, slot->entry, slot->graph, bl_plan_current(slot->plan), vars, out);
}

static void joined_count_joint(void *owner, int64_t rows, int64_t input_ns, int64_t compute_ns)
{
    const bl_program *program = owner;
    (void)rows;
    (void)input_ns;
    (void)compute_ns;
    bl_metrics_add(&program->server->metrics, BL_COUNT_JOINED_RUNS, 1);
}

static bl_joined *joined_of(bl_batch_slot *slot)
{
    return (bl_joined *)(void *)((char *)slot - offsetof(bl_joined, slot));
}

static void joined_learn_joint(void *owner, bl_batch_slot *slot, int64_t rows, const bl_plan *plan, int64_t ns)
{
    (void)owner;
    (void)plan;
    (void)bl_batch_learn(&joined_of(slot)->batcher, slot, rows, false, false, ns);
}

static const bl_batch_user program_user = {.what = "program",
                                           .retain = retain_program,
                                           .release = bl_program_release_any,
                                           .prepare = joined_prepare_joint,
                                           .count = joined_count_joint,
                                           .learn = joined_learn_joint};

/* ---- entries that can be batched */

const char *bl_joined_along(const bl_program *program, int entry)
{
    const bl_wire_graph *graph = &program->doc.entries[entry].graph;
    const bl_plan_info *info = bl_plan_get_info(program->entries[entry].plan);
    const bl_wire_var *rows = info->rows >= 0 ? &graph->vars[info->rows] : NULL;
    bool pure = true;
    for (int i = 0; i < info->nstates + info->nhidden; i++)
        pure = pure && !info->updated[i];
    if (rows == NULL || !pure || program->joined == NULL || program->doc.batching.off || program->doc.batching.max_rows == 1)
        return NULL;
    return rows->lo <= 1 && rows->hi > 1 ? rows->name : NULL;
}

static bl_joined *create_joined(bl_program *program, int entry)
{
    bl_joined *joined = bl_calloc(1, sizeof *joined);
    const bl_wire_graph *graph = &program->doc.entries[entry].graph;
    const bl_plan_info *info = bl_plan_get_info(program->entries[entry].plan);
    bl_batcher *b = NULL;
    if (joined == NULL)
        return NULL;
    b = &joined->batcher;
    bl_batcher_init(b, &program_user, program, program->server);
    b->name = program->name;
    b->rank = BL_RANK_RUN;
    b->purpose = (bl_purpose){"run", NULL, program->name};
    b->serial = &program->serial; /* no step runs between two steps of its state */
    b->how = program->doc.batching;
    b->ninputs = graph->ninputs;
    b->nvars = graph->nvars;
    b->var = bl_batch_find_var(graph, info);
    b->max_rows = b->var >= 0 ? bl_batch_usual_rows(&b->how, info, graph->vars[b->var].hi) : 0;
    b->apart = program->owner == 0 || b->var == info->rows;
    joined->slot.program = program;
    joined->slot.entry = &program->entries[entry];
    joined->slot.graph = graph;
    joined->slot.plan = joined->slot.entry->plan;
    b->slots[b->nslots++] = &joined->slot;
    return joined;
}

static void destroy_joined(bl_joined *joined)
{
    if (joined == NULL)
        return;
    bl_batcher_fini(&joined->batcher);
    free(joined);
}

/* The batcher of the entry, which the first call creates.  NULL: runs of the entry are not batched. */
static bl_joined *get_joined(bl_program *program, int entry)
{
    bl_joined *made = NULL, *there = atomic_load(&program->joined[entry]);
    if (there != NULL || bl_joined_along(program, entry) == NULL)
        return there;
    made = create_joined(program, entry);
    if (made != NULL && atomic_compare_exchange_strong(&program->joined[entry], &there, made))
        return made;
    destroy_joined(made);
    return there;
}

void bl_joined_fini(bl_program *program)
{
    for (int i = 0; program->joined != NULL && i < program->doc.nentries; i++)
        destroy_joined(atomic_load(&program->joined[i]));
}

/* ---- runs that can be batched */

bool bl_joined_takes(bl_exec *x, const bl_program_run *run)
{
    const bl_joined *joined = NULL;
    const bl_plan_info *info = bl_plan_get_info(x->hold.entry->plan);
    if (x->compile != NULL || x->how.debug > 0 || run->options.beam >= 0 || run->options.priority != 0 || run->steps != 1 ||
        run->every != 0 || run->kept != NULL || run->sequenced || info->rows < 0)
        return false;
    for (int i = 0; i < x->graph->ninputs; i++)
        if (run->values[i].kind == BL_VALUE_HELD)
            return false;
    joined = get_joined(x->hold.program, run->entry);
    return joined != NULL && joined->batcher.max_rows > 1 && run->vars[info->rows] > 0 &&
           run->vars[info->rows] < joined->batcher.max_rows;
}

/* ---- the answers */

static bl_status reply_joint(bl_request *rq)
{
    joined_run *run = rq->data;
    rq->data = run->x;
    run->x->out.parts = run->item.got;
    bl_metrics_add(&rq->server->metrics, BL_COUNT_JOINED, 1);
    bl_program_count(run->x->hold.program, 1);
    return bl_exec_reply(rq);
}

static bl_status reply_single(bl_request *rq)
{
    const bl_exec *x = rq->data;
    joined_run *run = x->extra;
    const int64_t *ns = rq->trace.time_ns;
    (void)bl_batch_learn(run->item.batcher, run->slot, run->item.rows, false, false, ns[BL_TIME_COMPUTE] + ns[BL_TIME_COPY]);
    return bl_exec_reply(rq);
}

/* ---- dispatch */

/* Release the slot before the answer is written, so that the next run can begin. */
static bl_step work_single(bl_request *rq)
{
    const bl_exec *x = rq->data;
    joined_run *run = x->extra;
    bl_step step = bl_exec_run(rq);
    if (step == BL_STEP_DONE) {
        run->claimed = false;
        bl_batch_unclaim(run->item.batcher, run->slot);
    }
    return step;
}

static bl_status go_single(joined_run *run)
{
    bl_exec *x = run->x;
    atomic_fetch_add(&run->slot->busy, 1);
    BL_TRY(bl_exec_load(x, x->graph->ninputs, run->item.values, false));
    x->extra = run;
    x->serial = &x->hold.program->serial;
    x->work = work_single;
    x->rq->then = reply_single;
    return bl_exec_advance(x);
}

/* Cleanup at the end of the request. */
static void joined_end_run(void *arg)
{
    joined_run *run = arg;
    if (run->slot != NULL)
        atomic_fetch_sub(&run->slot->busy, 1);
    if (run->claimed) /* the run never began */
        bl_batch_unclaim(run->item.batcher, run->slot);
    bl_batch_leave(run->item.batch);
}

bl_status bl_joined_go(bl_exec *x, const bl_program_run *from)
{
    bl_request *rq = x->rq;
    bl_batcher *b = &get_joined(x->hold.program, from->entry)->batcher;
    joined_run *run = bl_arena_alloc(rq->arena, sizeof *run);
    bl_part *got = bl_arena_array(rq->arena, (size_t)bl_wire_shown(x->graph) + 1, sizeof *got);
    if (run == NULL || got == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *run = (joined_run){.x = x};
    run->item = (bl_batch_item){.batcher = b, .rq = rq, .values = from->values, .vars = from->vars, .got = got};
    run->item.rows = from->vars[b->var];
    run->item.begin_ns = bl_clock_ns();
    BL_TRY(bl_request_defer(rq, joined_end_run, run));
    run->claimed = bl_batch_claim(b, run->item.rows, &run->slot);
    return run->claimed ? go_single(run) : bl_batch_join(&run->item, reply_joint);
}
