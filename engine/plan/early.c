/* SPDX-License-Identifier: MIT */
/* The first tier: kernels that the driver has not compiled yet, and that take little time, run on the device's stand-in, the
 * interpreter.  The plan is then ready at once.  A plan with only compiled kernels supersedes the first plan between two
 * runs (server/ops/promote.c). */
#include "engine/plan/compile.h"
#include "engine/render/render.h"

#include <stdlib.h>

/* Upper bounds for the time of the interpreter per instruction and per lane. Measured with the kernels of a training step
 * whose groups run in parallel. */
#define NS_AN_INSTRUCTION 8.0
#define NS_A_LANE         4.0
/* Longest run time of an interpreted kernel. The time must be less than the compile time: PoCL compiles a kernel of a
 * training step in 140 ms, and two kernels at a time. With 40 ms, 91 of the 122 kernels of a small ResNet's step are
 * interpreted. With 100 ms, 99 kernels are interpreted, and the interpreter takes longer than the compiler would. */
#define SECONDS_OF_A_KERNEL 0.04
/* Longest estimated time of all interpreted kernels of a run. The bounds above are about three times the measured time of a
 * run, so a run waits at most a third of a second. */
#define SECONDS_OF_A_RUN 1.0

typedef struct candidate {
    int made;
    double seconds; /* time of all launches of the kernel in a run */
} candidate;

static int shorter_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->seconds != y->seconds ? (x->seconds < y->seconds ? -1 : 1) : x->made - y->made;
}

/* The time of a launch on the interpreter, at the largest sizes. */
static double interpreted_seconds(const compile *c, const bl_lowered *lowered, const int64_t *most)
{
    const bl_linear *linear = lowered->linear;
    const int64_t *runs = bl_cost_runs(c->arena, lowered, c->graph->nvars, most);
    double ns = 0;

    for (uint32_t i = 0; runs != NULL && i < linear->ninst; i++)
        ns += (double)runs[i] * (NS_AN_INSTRUCTION + NS_A_LANE * linear->inst[i].lanes);
    return ns * 1e-9;
}

static int64_t *largest_sizes(const compile *c)
{
    const bl_graph *graph = c->graph;
    int64_t *most = bl_arena_array(c->arena, (size_t)graph->nvars + 1, sizeof *most);

    for (int i = 0; most != NULL && i < graph->nvars; i++)
        most[i] = graph->vars[i].hi;
    return most;
}

static bool rounds(const compile *c)
{
    return (c->dev->info.features & BL_FEATURE_EXACT) != 0;
}

static bool has_exact_exp(const compile *c)
{
    return (c->dev->info.features & BL_FEATURE_EXACT_EXP) != 0;
}

/* The kernel that the interpreter runs in place of |lowered|: where the device computes exp with the bits of its expansion, the
 * interpreter runs the expansion. */
static bl_status interpreted_form(const compile *c, bl_lowered *lowered, bl_lowered **out)
{
    *out = lowered;
    return rounds(c) && has_exact_exp(c) ? bl_lower_exact(c->ir, lowered, false, out, c->err) : BL_OK;
}

static bl_status early_make_exact(const compile *c, made *m, const int64_t *most)
{
    bl_lowered *interpreted = NULL;

    if (bl_lower_is_exact(m->lowered->linear, true, has_exact_exp(c)) ||
        interpreted_seconds(c, m->lowered, most) > SECONDS_OF_A_KERNEL)
        return BL_OK;
    BL_TRY(bl_lower_exact(c->ir, m->lowered, false, &interpreted, c->err));
    if (interpreted_seconds(c, interpreted, most) > SECONDS_OF_A_KERNEL)
        return BL_OK;
    return bl_lower_exact(c->ir, m->lowered, has_exact_exp(c), &m->lowered, c->err);
}

/* Remove the library functions of a kernel once for all nests that share the kernel; |exact| maps kernels to their exact
 * forms. */
static bl_status make_exact_once(const compile *c, bl_ptrmap *exact, made *m, const int64_t *most)
{
    bl_lowered *before = m->lowered, *known = bl_ptrmap_get(exact, before);

    if (known != NULL) {
        m->lowered = known;
        return BL_OK;
    }
    BL_TRY(early_make_exact(c, m, most));
    bl_ptrmap_put(exact, before, m->lowered);
    return BL_OK;
}

/* Kernels that may be interpreted must not use the math functions of the driver. The rule does not depend on whether the
 * device has a stand-in, so that the results do not depend on the stand-in either. */
bl_status compile_exact(compile *c)
{
    const int64_t *most = largest_sizes(c);
    bl_ptrmap exact;

    BL_TRY(bl_arena_status(c->arena, c->err));
    bl_ptrmap_init(&exact, c->arena);
    for (int i = 0; rounds(c) && i < c->nmade; i++) {
        BL_TRY(compile_is_wanted(c));
        BL_TRY(make_exact_once(c, &exact, &c->made[i], most));
    }
    return bl_arena_status(c->arena, c->err);
}

/* Does the graph draw random numbers? A seed must give the same bits whether kernels are compiled or interpreted. */
static bool draws(const compile *c)
{
    bool mixes = false;

    for (int i = 0; i < c->nmade; i++) {
        const bl_linear *linear = c->made[i].lowered->linear;
        for (uint32_t k = 0; k < linear->ninst; k++)
            mixes = mixes || linear->inst[k].op == BL_OP_XOR;
    }
    return mixes;
}

/* Find the kernels that are not compiled, shortest first. Kernels of one source are one candidate. */
static bl_status find_candidates(compile *c, candidate *all, int *n)
{
    const int64_t *most = largest_sizes(c);
    int64_t *launches = bl_arena_array(c->arena, (size_t)c->nmade + 1, sizeof *launches);
    int *number = bl_arena_array(c->arena, (size_t)c->nmade + 1, sizeof *number);
    bool random = draws(c);

    BL_TRY(bl_arena_status(c->arena, c->err));
    compile_count_launches(c, launches);
    *n = 0;
    for (int i = 0; i < c->nmade; i++) {
        int like = compile_first_like(c, i);
        bl_kernel_source source = compile_source(c, &c->made[i]);
        bool fits = !random || bl_lower_is_exact(c->made[i].lowered->linear, rounds(c), has_exact_exp(c));
        bl_lowered *interpreted = NULL;
        double seconds;

        BL_TRY(interpreted_form(c, c->made[i].lowered, &interpreted));
        seconds = (double)launches[i] * interpreted_seconds(c, interpreted, most);
        number[i] = like < i ? number[like] : -1;
        if (like == i && fits && bl_kernel_wants_compiling(c->dev, &source)) {
            number[i] = *n;
            all[(*n)++] = (candidate){.made = i};
        }
        if (number[i] >= 0)
            all[number[i]].seconds += seconds;
    }
    qsort(all, (size_t)*n, sizeof *all, shorter_first);
    return bl_arena_status(c->arena, c->err);
}

/* The number of candidates, from the first on, that are interpreted. All or none if the graph has loops: the launches of a
 * loop are one recording. */
static int early_choose(const compile *c, const candidate *all, int n)
{
    double seconds = 0;
    int chosen = 0;

    while (chosen < n && all[chosen].seconds <= SECONDS_OF_A_KERNEL && seconds + all[chosen].seconds <= SECONDS_OF_A_RUN)
        seconds += all[chosen++].seconds;
    return c->schedule->nloops > 0 && chosen < n ? 0 : chosen;
}

bl_status compile_early(compile *c)
{
    candidate *all;
    int n = 0;

    if (!c->options->early || c->options->debug > 0 || c->dev->stand_in == NULL)
        return BL_OK;
    all = bl_arena_array(c->arena, (size_t)c->nmade + 1, sizeof *all);
    if (all == NULL)
        return bl_arena_status(c->arena, c->err);
    BL_TRY(find_candidates(c, all, &n));
    n = early_choose(c, all, n);
    for (int i = 0; i < n; i++) {
        const made *m = &c->made[all[i].made];
        bl_lowered *interpreted = NULL;
        bl_kernel_source source;
        bl_err ignored = {0}; /* on failure the kernel is compiled: the interpreter lacks memory for it */

        BL_TRY(interpreted_form(c, m->lowered, &interpreted));
        source = bl_render_source(interpreted->linear, &c->dev->info, m->source.data, m->source.len);
        if (bl_kernel_create(c->dev->stand_in, &source, &c->plan->kernels[all[i].made], &ignored) != BL_OK)
            c->plan->kernels[all[i].made] = NULL;
    }
    return BL_OK;
}
