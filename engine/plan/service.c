/* SPDX-License-Identifier: MIT */
/* A plan in service: timing statistics of its kernels, sampled from production runs, and the plan that supersedes it. */
#include "engine/base/clock.h"
#include "engine/plan/compile.h"
#include "engine/plan/plan_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE_EVERY_NS = 1000000000 }; /* the run must wait for a timed step; one wait per second is not noticeable */

bl_status plan_census_init(plan_census *census, int nkernels, int nsteps, int nvars, bl_err *err)
{
    size_t n = (size_t)nkernels + 1;

    census->kernel_ns = bl_calloc(n, sizeof *census->kernel_ns);
    census->launch_ns = bl_calloc((size_t)nsteps + 1, sizeof *census->launch_ns);
    if (census->kernel_ns == NULL || census->launch_ns == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a plan");
    if (nvars == 0)
        return BL_OK;
    census->kernel_ops = bl_calloc(n, sizeof *census->kernel_ops);
    census->kernel_bytes = bl_calloc(n, sizeof *census->kernel_bytes);
    census->counted = bl_calloc(n, sizeof *census->counted);
    census->vars = bl_calloc((size_t)nvars, sizeof *census->vars);
    if (census->kernel_ops == NULL || census->kernel_bytes == NULL || census->counted == NULL || census->vars == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for a plan");
    return BL_OK;
}

void plan_census_fini(plan_census *census)
{
    free(census->kernel_ns);
    free(census->kernel_ops);
    free(census->kernel_bytes);
    free(census->counted);
    free(census->vars);
    free(census->launch_ns);
}

uint64_t *plan_census_begin(bl_plan *plan)
{
    plan_census *census = &plan->census;
    int64_t now = bl_clock_ns();

    /* never time the first step: a driver may compile kernels at their first launch */
    if (now < census->next_ns || atomic_load_explicit(&census->steps, memory_order_relaxed) == 0)
        return NULL;
    census->next_ns = now + SAMPLE_EVERY_NS;
    return census->launch_ns;
}

bool plan_census_is_short(const bl_plan *plan, uint64_t ns)
{
    unsigned n = atomic_load_explicit(&plan->census.samples, memory_order_acquire);
    bool is_short = false;

    /* other load only lengthens a step, so one short step is proof */
    for (unsigned i = 0; i < n && i < BL_PLAN_RECENT && !is_short; i++)
        is_short = atomic_load_explicit(&plan->census.recent_ns[i], memory_order_relaxed) <= ns;
    return is_short;
}

bool bl_plan_is_due(const bl_plan *plan)
{
    return bl_clock_ns() >= plan->census.next_ns;
}

/* Add the work of a step of the sizes |vars|. The work is counted again only if the sizes changed. */
static void add_counts(bl_plan *plan, unsigned samples, const int64_t *vars)
{
    plan_census *census = &plan->census;
    size_t bytes = (size_t)plan->info.nvars * sizeof *vars;

    if (census->counted == NULL)
        return;
    if (samples == 0 || memcmp(census->vars, vars, bytes) != 0) {
        memcpy(census->vars, vars, bytes);
        plan_count_all(plan, vars, census->counted);
    }
    for (int i = 0; i < plan->nkernels; i++) {
        atomic_fetch_add_explicit(&census->kernel_ops[i], (uint64_t)census->counted[i].ops, memory_order_relaxed);
        atomic_fetch_add_explicit(&census->kernel_bytes[i], (uint64_t)census->counted[i].bytes, memory_order_relaxed);
    }
}

void plan_census_end(bl_plan *plan, const int64_t *vars, const uint64_t *launch_ns)
{
    plan_census *census = &plan->census;
    unsigned n = atomic_load_explicit(&census->samples, memory_order_relaxed);
    uint64_t all = 0;

    add_counts(plan, n, vars);
    for (int i = 0; i < plan->nsteps; i++) {
        atomic_fetch_add_explicit(&census->kernel_ns[plan->steps[i].kernel], launch_ns[i], memory_order_relaxed);
        all += launch_ns[i];
    }
    atomic_store_explicit(&census->recent_ns[n % BL_PLAN_RECENT], all, memory_order_relaxed);
    atomic_store_explicit(&census->samples, n + 1, memory_order_release);
}

void plan_census_wall(bl_plan *plan, uint64_t steps, int64_t ns)
{
    plan_census *census = &plan->census;

    if (atomic_load_explicit(&census->steps, memory_order_relaxed) == steps)
        return; /* the steps are those of the first run */
    atomic_fetch_add_explicit(&census->wall_ns, (uint64_t)ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&census->wall_steps, steps, memory_order_relaxed);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bl_plan_service bl_plan_get_service(const bl_plan *plan)
{
    const plan_census *census = &plan->census;
    bl_plan_service service = {.steps = atomic_load_explicit(&census->steps, memory_order_relaxed),
                               .samples = atomic_load_explicit(&census->samples, memory_order_acquire)};
    uint64_t recent[BL_PLAN_RECENT] = {0}, walls = atomic_load_explicit(&census->wall_steps, memory_order_relaxed);
    unsigned n = service.samples < BL_PLAN_RECENT ? service.samples : BL_PLAN_RECENT;

    for (unsigned i = 0; i < n; i++)
        recent[i] = atomic_load_explicit(&census->recent_ns[i], memory_order_relaxed);
    qsort(recent, n, sizeof *recent, by_size);
    if (walls > 0)
        service.wall_seconds = 1e-9 * (double)atomic_load_explicit(&census->wall_ns, memory_order_relaxed) / (double)walls;
    service.step_seconds = n > 0 ? 1e-9 * (double)recent[n / 2] : 0;
    return service;
}

double bl_plan_least_seconds(const bl_plan *plan, unsigned last)
{
    unsigned n = atomic_load_explicit(&plan->census.samples, memory_order_acquire);
    uint64_t least = UINT64_MAX;

    last = last < n ? last : n;
    for (unsigned i = n - last; i < n; i++) {
        uint64_t ns = atomic_load_explicit(&plan->census.recent_ns[i % BL_PLAN_RECENT], memory_order_relaxed);
        least = ns < least ? ns : least;
    }
    return last > 0 ? 1e-9 * (double)least : 0;
}

static double service_mean_of(const atomic_ullong *sum, int kernel, unsigned samples)
{
    return (double)atomic_load_explicit(&sum[kernel], memory_order_relaxed) / samples;
}

int bl_plan_list_kernels(const bl_plan *plan, int most, bl_kernel_use *out)
{
    unsigned samples = atomic_load_explicit(&plan->census.samples, memory_order_acquire);
    int n = 0;

    for (int k = 0; k < plan->nkernels && n < most; k++) {
        bl_kernel_use *use = &out[n];
        *use = (bl_kernel_use){.number = k};
        for (int i = 0; i < plan->nsteps; i++) {
            const step *s = &plan->steps[i];
            if (s->kernel != k)
                continue;
            use->launches++;
            use->name = s->name;
            use->moves = s->moves;
            use->key = s->key;
            use->helper = s->helper;
            use->kernels = s->kernels + s->helpers;
            use->ops = s->ops;
            use->bytes = s->bytes;
        }
        if (use->launches == 0)
            continue;
        if (samples > 0) {
            use->seconds = 1e-9 * service_mean_of(plan->census.kernel_ns, k, samples);
            use->timed_ops =
                plan->census.counted == NULL ? (double)use->ops : service_mean_of(plan->census.kernel_ops, k, samples);
            use->timed_bytes =
                plan->census.counted == NULL ? (double)use->bytes : service_mean_of(plan->census.kernel_bytes, k, samples);
        }
        n++;
    }
    return n;
}

double bl_plan_estimate(const bl_plan *plan, const int64_t *vars)
{
    int64_t counted[BL_WIRE_MAX_DIMS];
    plan_counts *all = plan->info.nvars > 0 ? bl_calloc((size_t)plan->nkernels + 1, sizeof *all) : NULL;
    double seconds = 0;

    if (all == NULL)
        return plan->info.estimate_s;
    plan_count_all(plan, plan_count_steps(plan->info.nvars, plan->dims, vars, counted), all);
    for (int i = 0; i < plan->nsteps; i++)
        seconds += compile_seconds(&plan->dev->info, all[plan->steps[i].kernel].ops, all[plan->steps[i].kernel].bytes);
    free(all);
    return seconds;
}

/* ---- the report as text */

/* Prints one line per kernel, at the position of its first launch. */
void bl_plan_report(const bl_plan *plan, const int64_t *vars, const uint64_t *launch_ns, uint64_t steps, const bl_peaks *peaks,
                    bl_text *out)
{
    plan_counts *all = bl_calloc((size_t)plan->nkernels + 1, sizeof *all);
    int64_t counted[BL_WIRE_MAX_DIMS];

    if (all == NULL) { /* a report without memory must not fail the run */
        bl_text_puts(out, "out of host memory for the statistics of the kernels\n");
        return;
    }
    plan_count_all(plan, plan_count_steps(plan->info.nvars, plan->dims, vars, counted), all);
    for (int i = 0, seen = -1; i < plan->nsteps; i++) {
        const step *s = &plan->steps[i];
        const plan_counts *did = &all[s->kernel];
        bl_standing standing;
        uint64_t ns = 0;
        int64_t launches = 0;
        double seconds = 0, rate = 0;

        if (s->kernel <= seen)
            continue;
        seen = s->kernel;
        for (int k = i; k < plan->nsteps; k++) {
            ns += plan->steps[k].kernel == s->kernel ? launch_ns[k] : 0;
            launches += plan->steps[k].kernel == s->kernel;
        }
        seconds = 1e-9 * (double)ns / (double)(steps == 0 ? 1 : steps);
        rate = seconds <= 0 ? 0 : 1e-9 * (double)launches / seconds;
        bl_text_printf(out, "%-12s %3d %c %-40s %10.1f us %8.1f GFLOP/s %8.1f GB/s", plan->info.device, s->kernel,
                       s->helper ? 'h' : ' ', s->name, seconds * 1e6, (double)did->ops * rate, (double)did->bytes * rate);
        standing = bl_peaks_judge(peaks, seconds / (double)launches, did->ops, did->bytes);
        if (standing.ceiling != BL_CEILING_UNKNOWN)
            bl_text_printf(out, " %3.0f%% %-7s", standing.share * 100, bl_ceiling_name(standing.ceiling));
        if (launches > 1)
            bl_text_printf(out, " in %lld launches", (long long)launches);
        bl_text_putc(out, '\n');
    }
    free(all);
}

/* ---- supersession */

bool bl_plan_wants_compiling(const bl_plan *plan)
{
    return plan->info.interpreted > 0 && !atomic_load(&plan->stays) &&
           atomic_load_explicit(&plan->census.steps, memory_order_relaxed) > 1;
}

void bl_plan_stay(bl_plan *plan)
{
    atomic_store(&plan->stays, true);
}

/* Set the plan that supersedes |plan|.  Returns the old value. */
static bl_plan *set_better(bl_plan *plan, bl_plan *better)
{
    bl_plan *before = NULL;

    if (better != NULL)
        bl_plan_retain(better);
    pthread_mutex_lock(&plan->lock);
    before = plan->better;
    plan->better = better;
    pthread_mutex_unlock(&plan->lock);
    return before;
}

void bl_plan_supersede(bl_plan *plan, bl_plan *better)
{
    bl_plan *before = NULL;

    if (better != NULL) /* undo an earlier supersession of |better| */
        bl_plan_release(set_better(better, NULL));
    before = set_better(plan, better);
    if (before == NULL)
        return;
    /* a program may hold the plan |before|: redirect it too */
    bl_plan_release(set_better(before, better != NULL ? better : plan));
    bl_plan_release(before);
}

bl_plan *bl_plan_current(bl_plan *plan)
{
    bl_plan *at = bl_plan_retain(plan), *next = NULL;

    do {
        pthread_mutex_lock(&at->lock);
        next = at->better == NULL ? NULL : bl_plan_retain(at->better);
        pthread_mutex_unlock(&at->lock);
        if (next != NULL) {
            bl_plan_release(at);
            at = next;
        }
    } while (next != NULL);
    return at;
}
