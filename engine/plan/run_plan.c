/* SPDX-License-Identifier: MIT */
/* Runs a plan: binds buffers, submits the recordings, and swaps the two buffers of each state between steps. */
#include "engine/base/clock.h"
#include "engine/base/size.h"
#include "engine/ir/shape.h"
#include "engine/plan/plan_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_IN_FLIGHT = 32, /* largest number of steps in flight: a run checks for cancellation and its deadline between waits */
    LAUNCHES_IN_FLIGHT = 2048,
    YIELD_NS = 2000000, /* longest time of the steps in flight of a run that yields, unless a single step is longer */
    /* longest step that may be run asynchronously: a longer step saves little, and delays the runs around it */
    FLIGHT_NS = 300000,
    /* number of reports with their own outputs, so that the run need not wait for the device at each report */
    REPORTS_IN_FLIGHT = 8,
    MOST_REPORT_BYTES = 1 << 20 /* most bytes of outputs for which each report gets its own outputs */
};

/* Estimated time of the first slice. The estimate may be fifty times too short, so later slices are sized by the measured
 * time of the first slice. */
#define FIRST_SLICE_SECONDS 0.01
#define SLICE_SECONDS       0.25
#define SLICE_GROWTH        8.0

typedef struct running {
    bl_run *run;
    bl_plan *plan;
    bl_err *err;
    /* the sizes of the run in steps of each dimension: |counted|, or the run's own sizes if all steps are 1 */
    const int64_t *vars;
    int64_t counted[BL_WIRE_MAX_DIMS];
    bl_buffer **next;    /* nstates entries: the buffer for the next value of an updated state; NULL: updated in place */
    bl_buffer **lent;    /* nstates entries: buffers that were meant for the next values but have other users; mostly NULL */
    int nsets, set;      /* the number of sets of outputs, and the set of the current step */
    bl_buffer **outputs; /* nsets * noutputs buffers */
    bl_buffer **words;   /* nchecks buffers: results of the index checks */
    int nreports;        /* number of reports of submitted steps that are not delivered yet */
    uint64_t report[REPORTS_IN_FLIGHT];
} running;

const int64_t *plan_count_steps(int nvars, const bl_wire_var *vars, const int64_t *size, int64_t *counted)
{
    bool any = false;

    for (int i = 0; i < nvars; i++)
        any |= bl_wire_var_step(&vars[i]) > 1;
    for (int i = 0; any && i < nvars; i++)
        counted[i] = size[i] / bl_wire_var_step(&vars[i]);
    return any ? counted : size;
}

void bl_plan_sizes(const bl_plan_tensor *tensor, const int64_t *vars, int64_t *dim)
{
    int64_t counted[BL_WIRE_MAX_DIMS];

    vars = plan_count_steps(tensor->nvars, tensor->vars, vars, counted);
    for (int i = 0; i < tensor->ndim; i++)
        dim[i] = bl_extent_eval(tensor->dim[i], vars);
}

static bl_status slot_bytes(const bl_plan *plan, int slot, const int64_t *vars, size_t *bytes, bl_err *err)
{
    int64_t count = bl_extent_eval(plan->slot_count[slot], vars);
    if (count < 0 || !bl_size_mul((size_t)count, bl_dtype_bytes(plan->slot_dtype[slot]), bytes))
        return bl_fail(err, BL_ENODEVMEM, "a result has more bytes than can be counted");
    return BL_OK;
}

static bl_status run_plan_record(bl_plan *plan, bl_err *err)
{
    for (int i = 0; i < plan->nparts; i++) {
        part *p = &plan->parts[i];
        if (p->recording == NULL)
            BL_TRY(bl_recording_create(plan->launches[p->first].kernel->dev, (uint32_t)p->count, plan->launches + p->first,
                                       (uint32_t)plan->nslots, (uint32_t)plan->nvars, &p->recording, err));
    }
    return BL_OK;
}

/* Do the loops around a launch have enough steps at these sizes for the launch to run? */
static bool has_turn(const step *s, const int64_t *vars)
{
    const plan_turn *turn = s->turn;

    while (turn != NULL && bl_extent_eval(turn->steps, vars) > turn->number)
        turn = turn->outer;
    return turn == NULL;
}

static bl_status bind_sizes(running *r)
{
    bl_plan *plan = r->plan;
    for (int i = 0; i < plan->info.nvars; i++) {
        int64_t value = r->run->vars[i], every = bl_wire_var_step(&plan->dims[i]);
        if (value < plan->info.var_lo[i] || value > plan->info.var_hi[i] || value % every != 0)
            return bl_fail(r->err, BL_EGRAPH, "dimension %d is %lld; it must be in [%lld, %lld] in steps of %lld", i,
                           (long long)value, (long long)plan->info.var_lo[i], (long long)plan->info.var_hi[i], (long long)every);
        if (value > INT32_MAX) /* kernels take sizes as int32 */
            return bl_fail(r->err, BL_ELIMIT, "dimension %d is %lld; the limit is %d", i, (long long)value, INT32_MAX);
        plan->vars[i] = (int32_t)(value / every);
    }
    for (int i = 0; i < plan->ncountdowns; i++) {
        const plan_countdown *down = &plan->countdowns[i];
        int64_t last = bl_extent_eval(down->steps, r->vars) - 1;
        for (int64_t k = 0; k < down->steps->hi; k++)
            plan->vars[down->first + k] = (int32_t)(k < last ? last - k : 0);
    }
    for (int i = 0; i < plan->nsteps; i++) {
        bool runs = has_turn(&plan->steps[i], r->vars);
        for (int k = 0; k < 3; k++)
            plan->groups[i][k] = runs ? (uint32_t)bl_extent_eval(plan->steps[i].grid[k], r->vars) : 0;
    }
    return BL_OK;
}

static bool reports(const bl_run *run)
{
    return run->collect != NULL && run->every != 0;
}

static bl_status alloc_outputs(running *r)
{
    const bl_plan *plan = r->plan;
    int n = plan->info.noutputs;
    size_t bytes = 0, all = 0;

    for (int i = 0; i < n; i++) {
        BL_TRY(slot_bytes(plan, plan->root_slot[i], r->vars, &bytes, r->err));
        if (!bl_size_add(all, bytes, &all))
            all = SIZE_MAX;
    }
    /* the run waits after each step, so that all reports before a failed step are delivered */
    bool waits = plan->info.checks_indices;
    r->nsets = reports(r->run) && !waits && r->run->steps > r->run->every && all <= MOST_REPORT_BYTES ? REPORTS_IN_FLIGHT : 1;
    r->outputs = bl_calloc((size_t)r->nsets * (size_t)n + 1, sizeof(bl_buffer *));
    if (r->outputs == NULL)
        return bl_fail(r->err, BL_ENOMEM, "out of host memory for a run");
    for (int i = 0; i < r->nsets * n; i++) {
        BL_TRY(slot_bytes(plan, plan->root_slot[i % n], r->vars, &bytes, r->err));
        BL_TRY(bl_pool_alloc(r->run->pool, bytes, &r->outputs[i], r->err));
    }
    return BL_OK;
}

/* Hand over the outputs of the last step if |st| is BL_OK. Release all other outputs. */
static void run_plan_free_outputs(running *r, bl_status st)
{
    int n = r->plan->info.noutputs;
    for (int i = 0; r->outputs != NULL && i < r->nsets * n; i++) {
        if (st == BL_OK && i / n == r->set)
            r->run->outputs[i % n] = r->outputs[i];
        else
            bl_pool_release(r->run->pool, r->outputs[i]);
    }
    free(r->outputs);
}

static bl_status alloc_words(running *r)
{
    const bl_plan *plan = r->plan;
    int n = plan->nchecks;
    size_t bytes = 0;

    r->words = bl_calloc((size_t)n + 1, sizeof *r->words);
    if (r->words == NULL)
        return bl_fail(r->err, BL_ENOMEM, "out of host memory for a run");
    for (int i = 0; i < n; i++) {
        BL_TRY(slot_bytes(plan, plan->root_slot[plan->nroots - n + i], r->vars, &bytes, r->err));
        BL_TRY(bl_pool_alloc(r->run->pool, bytes, &r->words[i], r->err));
    }
    return BL_OK;
}

static void free_words(running *r)
{
    for (int i = 0; r->words != NULL && i < r->plan->nchecks; i++)
        bl_pool_release(r->run->pool, r->words[i]);
    free(r->words);
}

/* Does a state need a second buffer? An update in place would show a half-written state if a step ends between two of its
 * parts, and would change the buffer for its other users. */
static bool needs_next(const running *r, int state)
{
    const bl_plan_info *info = &r->plan->info;
    if (!info->updated[state])
        return false;
    return !info->in_place[state] || (r->plan->pauses && !r->run->torn) ||
           atomic_load_explicit(&r->run->states[state]->refs, memory_order_acquire) > (r->run->holders > 1 ? r->run->holders : 1);
}

static bl_status alloc_results(running *r)
{
    bl_plan *plan = r->plan;
    int nstates = plan->info.nstates + plan->info.nhidden, root = plan->info.noutputs;
    size_t bytes = 0;

    BL_TRY(alloc_outputs(r));
    BL_TRY(alloc_words(r));
    for (int i = 0; i < nstates; i++) {
        int slot = plan->info.updated[i] ? plan->root_slot[root++] : -1;
        if (!needs_next(r, i))
            continue;
        BL_TRY(slot_bytes(plan, slot, r->vars, &bytes, r->err));
        BL_TRY(bl_pool_alloc(r->run->pool, bytes, &r->next[i], r->err));
    }
    return BL_OK;
}

/* A value that only its own nest reads has a slot but no memory. No launch uses the slot, so any buffer of the run can fill
 * the slot. */
static void fill_unused(bl_plan *plan)
{
    bl_buffer *any = NULL;
    for (int i = 0; i < plan->nslots && any == NULL; i++)
        any = plan->slots[i];
    for (int i = 0; i < plan->nslots; i++) {
        if (plan->slots[i] == NULL)
            plan->slots[i] = any;
    }
}

static void run_plan_bind_slots(running *r)
{
    bl_plan *plan = r->plan;
    int ninputs = plan->info.ninputs, nstates = plan->info.nstates + plan->info.nhidden, root = plan->info.noutputs;

    for (int i = 0; i < plan->nslots; i++) {
        if (plan->slot_offset[i] == SIZE_MAX)
            plan->slots[i] = NULL; /* the slot has a buffer of the last run, which may have been freed */
    }
    for (int i = 0; i < ninputs + nstates && i < plan->nslots; i++) {
        if (plan->slot_count[i] == NULL)
            plan->slots[i] = i < ninputs ? r->run->inputs[i] : r->run->states[i - ninputs];
    }
    for (int i = 0; i < plan->info.noutputs; i++)
        plan->slots[plan->root_slot[i]] = r->outputs[r->set * plan->info.noutputs + i];
    for (int i = 0; i < nstates; i++) {
        if (!plan->info.updated[i])
            continue;
        if (plan->info.in_place[i] && r->next[i] != NULL)
            plan->slots[ninputs + i] = r->next[i];
        plan->slots[plan->root_slot[root++]] = r->next[i];
    }
    for (int i = 0; i < plan->nchecks; i++)
        plan->slots[plan->root_slot[root++]] = r->words[i];
    fill_unused(plan);
}

static bl_status look_around(const bl_run *run, bl_err *err)
{
    if (run->cancel != NULL && atomic_load_explicit(run->cancel, memory_order_relaxed))
        return bl_fail(err, BL_ECANCELLED, "the client went away");
    if (run->deadline_ns != 0 && bl_clock_ns() > run->deadline_ns)
        return bl_fail(err, BL_ETIMEOUT, "the time limit passed after %llu steps", (unsigned long long)run->steps_done);
    return BL_OK;
}

/* A step began and failed: the contents of the states that the step updates in place are unknown. Mark these states as lost. */
static void lose_states(const running *r)
{
    const bl_plan_info *info = &r->plan->info;
    for (int i = 0; i < info->nstates + info->nhidden && !r->run->torn; i++) {
        if (info->in_place[i] && r->next[i] == NULL)
            bl_buffer_lose(r->run->states[i]);
    }
}

static bl_status submit_part(running *r, const part *p, uint64_t *ns)
{
    const bl_plan *plan = r->plan;
    bl_submission submission = {.slots = plan->slots,
                                .vars = plan->vars,
                                .groups = (const uint32_t(*)[3])plan->groups + p->first,
                                .nanoseconds = ns == NULL ? NULL : ns + p->first,
                                .brief = plan->info.brief};
    bl_status st = bl_recording_submit(p->recording, &submission, r->err);
    if (st != BL_OK && p->recording->begun)
        lose_states(r);
    return st;
}

/* Run one launch in slices, so that the run can be cancelled between two slices. A slice is a range of groups along one
 * dimension. The estimate may be far off: the first slice is small, and the time of a slice gives the size of the next
 * slice. */
static bl_status submit_slices(running *r, const part *p, uint64_t *ns)
{
    bl_plan *plan = r->plan;
    uint32_t *groups = &plan->groups[p->first][p->cut - 1], all = *groups, done = 0;
    int32_t *first = &plan->vars[plan->nvars - 1];
    double size = all * fmin(1, FIRST_SLICE_SECONDS / p->seconds);
    uint64_t sum = 0;
    bl_status st = BL_OK;

    while (st == BL_OK && done < all) {
        int64_t begin = bl_clock_ns();
        uint32_t n = size < 1 ? 1 : size < all - done ? (uint32_t)size : all - done;
        *first = (int32_t)done;
        *groups = n;
        st = submit_part(r, p, ns);
        if (st == BL_OK)
            st = bl_device_wait(plan->dev, r->err);
        done += n;
        size = n * fmin(SLICE_GROWTH, SLICE_SECONDS * 1e9 / (double)(bl_clock_ns() - begin + 1));
        sum += ns != NULL && st == BL_OK ? ns[p->first] : 0;
        if (st == BL_OK && done < all)
            st = look_around(r->run, r->err);
    }
    *first = 0;
    *groups = all;
    if (ns != NULL)
        ns[p->first] = sum;
    return st;
}

static bl_status submit_parts(running *r, uint64_t *ns)
{
    const bl_plan *plan = r->plan;

    for (int i = 0; i < plan->nparts; i++) {
        const part *p = &plan->parts[i];
        if (i > 0 || p->recording->dev != plan->dev) /* wait before the stand-in uses the buffers */
            BL_TRY(bl_device_wait(plan->dev, r->err));
        if (i > 0)
            BL_TRY(look_around(r->run, r->err));
        BL_TRY(p->cut > 0 ? submit_slices(r, p, ns) : submit_part(r, p, ns));
    }
    return BL_OK;
}

/* Reuse the old buffer of each state for the next value, unless the buffer has other users: code that retained the state
 * between two steps. A buffer with other users is replaced. A step in flight may still read that buffer, so it is released
 * when the run ends. */
static bl_status run_plan_take_back(running *r)
{
    for (int i = 0; i < r->plan->info.nstates + r->plan->info.nhidden; i++) {
        bl_buffer *next = r->next[i], *fresh = NULL;
        if (next == NULL || atomic_load_explicit(&next->refs, memory_order_acquire) == 1 || r->lent[i] != NULL)
            continue;
        BL_TRY(bl_pool_alloc(r->run->pool, next->bytes, &fresh, r->err));
        r->next[i] = fresh;
        r->lent[i] = next;
    }
    return BL_OK;
}

/* Copy the old value of a state that a step updates in part, if the state has a new buffer. */
static bl_status copy_states(running *r)
{
    const bl_plan *plan = r->plan;
    int root = plan->info.noutputs;
    size_t bytes = 0;

    for (int i = 0; i < plan->info.nstates + plan->info.nhidden; i++) {
        int slot = plan->info.updated[i] ? plan->root_slot[root++] : -1;
        if (slot < 0 || !plan->info.in_place[i] || r->next[i] == NULL)
            continue;
        BL_TRY(slot_bytes(plan, slot, r->vars, &bytes, r->err));
        BL_TRY(bl_buffer_copy(r->next[i], 0, r->run->states[i], 0, bytes, r->err));
    }
    return BL_OK;
}

static bl_status submit_step(running *r, uint64_t *ns)
{
    bl_status st = BL_OK;

    BL_TRY(run_plan_take_back(r));
    BL_TRY(copy_states(r));
    run_plan_bind_slots(r);
    plan_keep_begin(r->plan, r->run->pool);
    st = submit_parts(r, ns);
    plan_keep_end(r->plan, st == BL_OK);
    return st;
}

static void exchange_states(running *r)
{
    for (int i = 0; i < r->plan->info.nstates + r->plan->info.nhidden; i++) {
        if (!r->plan->info.updated[i])
            continue;
        if (r->next[i] != NULL) {
            bl_buffer *old = r->run->states[i];
            r->run->states[i] = r->next[i];
            r->next[i] = old;
        }
        if (r->next[i] != NULL && r->plan->info.in_place[i] &&
            (!r->plan->pauses ||
             r->run->torn)) { /* the new buffer belongs to this run alone, so later steps update it in place */
            r->lent[i] = r->next[i];
            r->next[i] = NULL;
        }
        bl_buffer_change(r->run->states[i]);
    }
}

/* Deliver the reports of the submitted steps. All these steps are complete. */
static bl_status run_plan_tell(running *r)
{
    const bl_run *run = r->run;

    for (int i = 0; i < r->nreports; i++)
        BL_TRY(run->collect(run->collect_arg, r->report[i], &r->outputs[i * r->plan->info.noutputs], r->err));
    r->nreports = 0;
    return BL_OK;
}

static uint64_t steps_in_flight(const running *r)
{
    uint64_t most = STEPS_IN_FLIGHT;
    if (r->plan->nsteps > 0 && LAUNCHES_IN_FLIGHT / r->plan->nsteps < STEPS_IN_FLIGHT)
        most = (uint64_t)(LAUNCHES_IN_FLIGHT / r->plan->nsteps) + 1;
    if (r->run->yield != NULL) {
        double ns = bl_plan_get_service(r->plan).wall_seconds * 1e9;
        if (ns <= 0 || ns * (double)most > YIELD_NS)
            most = ns > 0 && ns < YIELD_NS ? (uint64_t)(YIELD_NS / ns) : 1;
    }
    return most;
}

static bool run_plan_yields(const bl_run *run)
{
    return run->yield != NULL && run->yield(run->yield_arg);
}

/* Run all steps. |asked| is where the launches of each step write their times, or NULL; even without |asked| a step is timed
 * once in a while. The run may yield after each wait, so that another run need not wait for a further step. */
static bl_status run_plan_run_steps(running *r, uint64_t *asked)
{
    bl_run *run = r->run;
    uint64_t in_flight = 0, most = steps_in_flight(r);
    uint64_t *sample = asked != NULL ? NULL : plan_census_begin(r->plan);
    bool last = false;

    for (uint64_t i = 1; i <= run->steps && !last; i++) {
        BL_TRY(look_around(run, r->err));
        uint64_t *ns = asked != NULL ? asked : i == 1 ? sample : NULL;
        r->set = r->nreports; /* the earlier sets belong to reports that are not delivered yet */
        BL_TRY(submit_step(r, ns));
        if (r->plan->info.checks_indices) {
            BL_TRY(bl_device_wait(r->plan->dev, r->err));
            BL_TRY(plan_check_indices(r->plan, r->words, r->vars, r->err));
        }
        exchange_states(r);
        run->steps_done = i;
        if (reports(run) && i % run->every == 0)
            r->report[r->nreports++] = i;
        last = i == run->steps || run_plan_yields(run);
        if (++in_flight >= most || ns != NULL || last || r->nreports == r->nsets) {
            BL_TRY(bl_device_wait(r->plan->dev, r->err));
            in_flight = 0;
        }
        atomic_fetch_add_explicit(&r->plan->census.steps, 1, memory_order_relaxed);
        if (ns != NULL)
            plan_census_end(r->plan, r->vars, ns);
        for (int k = 0; ns != NULL && run->launch_ns != NULL && k < r->plan->nsteps; k++)
            run->launch_ns[k] += ns[k];
        if (in_flight == 0) {
            BL_TRY(run_plan_tell(r));
            last = last || run_plan_yields(run);
        }
    }
    return BL_OK;
}

/* Prepare a run up to the first submission. |end| frees the allocations of this function. */
static bl_status run_plan_begin(running *r)
{
    bl_plan *plan = r->plan;
    int nstates = plan->info.nstates + plan->info.nhidden;

    r->vars = plan_count_steps(plan->info.nvars, plan->dims, r->run->vars, r->counted);
    r->run->steps_done = 0;
    for (int i = 0; i < plan->info.noutputs; i++)
        r->run->outputs[i] = NULL;
    r->next = bl_calloc((size_t)nstates * 2 + 1, sizeof *r->next);
    if (r->next == NULL)
        return bl_fail(r->err, BL_ENOMEM, "out of host memory for a run");
    r->lent = r->next + nstates;
    BL_TRY(run_plan_record(plan, r->err));
    BL_TRY(bind_sizes(r));
    BL_TRY(plan_check_bindings(plan, r->vars, r->err));
    BL_TRY(plan_bind_scratch(plan, r->vars, r->run->pool, r->err));
    return alloc_results(r);
}

/* Wait for the device: it may still use the buffers that a failed run releases. */
static void run_plan_give_up(bl_plan *plan)
{
    bl_err ignored = {0};
    bl_status waited = bl_device_wait(plan->dev, &ignored);
    (void)waited;
    plan_keep_forget(plan);
}

static void run_plan_end(running *r, bl_status st)
{
    if (st != BL_OK)
        run_plan_give_up(r->plan);
    run_plan_free_outputs(r, st);
    free_words(r);
    for (int i = 0; r->next != NULL && i < 2 * (r->plan->info.nstates + r->plan->info.nhidden); i++)
        bl_pool_release(r->run->pool, r->next[i]); /* releases |lent| too */
    free(r->next);
}

bl_status bl_plan_run(bl_run *run, bl_err *err)
{
    bl_plan *plan = run->plan;
    running r = {.run = run, .plan = plan, .err = err};
    uint64_t *ns = NULL;
    int64_t start = bl_clock_ns();
    bl_status st = run_plan_begin(&r);

    if (st == BL_OK && run->timed && (ns = bl_calloc((size_t)plan->nsteps + 1, sizeof *ns)) == NULL)
        st = bl_fail(err, BL_ENOMEM, "out of host memory for a run");
    if (st == BL_OK)
        st = run_plan_run_steps(&r, ns);
    if (st == BL_OK)
        plan_census_wall(plan, run->steps_done, bl_clock_ns() - start);
    run_plan_end(&r, st);
    free(ns);
    return st;
}

/* ---- asynchronous execution: submit and finish */

/* A plan that updates states may not run asynchronously: in flight, the plan would need second buffers, and the next reader
 * of the states would have to wait. */
bool bl_plan_may_overlap(const bl_plan *plan)
{
    if (plan->info.checks_indices) /* the host must read the index checks before the outputs are used */
        return false;
    for (int i = 0; i < plan->info.nstates + plan->info.nhidden; i++)
        if (plan->info.updated[i])
            return false;
    return !plan->pauses && plan->info.interpreted == 0 && plan_census_is_short(plan, FLIGHT_NS);
}

bl_status bl_plan_submit(bl_run *run, bl_err *err)
{
    running r = {.run = run, .plan = run->plan, .err = err};
    bl_status st = run_plan_begin(&r);

    if (st == BL_OK)
        st = look_around(run, err);
    if (st == BL_OK)
        st = submit_step(&r, NULL);
    run_plan_end(&r, st);
    return st;
}

bl_status bl_plan_finish(bl_run *run, int64_t submit_ns, bl_err *err)
{
    bl_plan *plan = run->plan;
    int64_t start = bl_clock_ns();
    bl_status st = bl_device_wait(plan->dev, err);

    run->steps_done = 0;
    if (st == BL_OK) {
        run->steps_done = 1;
        atomic_fetch_add_explicit(&plan->census.steps, 1, memory_order_relaxed);
        plan_census_wall(plan, 1, submit_ns + bl_clock_ns() - start);
        return BL_OK;
    }
    run_plan_give_up(plan);
    for (int i = 0; i < plan->info.noutputs; i++) {
        bl_pool_release(run->pool, run->outputs[i]);
        run->outputs[i] = NULL;
    }
    return st;
}
