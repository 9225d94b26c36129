/* SPDX-License-Identifier: MIT */
#include "server/ops/promote.h"

#include "engine/base/log.h"
#include "server/ops/server.h"

#include <stdlib.h>

enum {
    LOOK_EVERY_MS = 50,
    MOST_PLANS = 1024, /* largest number of plans examined in one round */
    MOST_AT_ONCE = 16, /* largest number of plans whose kernels are compiled together */
    ARENA_BYTES = 1 << 28
};

struct bl_promoter {
    bl_server *server;
    bl_ticker *ticker; /* its own ticker, since a compilation takes seconds */
    bl_tick *look;
    atomic_bool stop;
    bl_plan *plans[MOST_PLANS];
};

static bl_plan_options promote_options_for(const bl_promoter *p, const bl_plan *plan)
{
    bl_plan_options options = *bl_plan_get_options(plan);

    options.early = false;
    options.halt.cancel = &p->stop;
    options.children = p->server->search.children;
    return options;
}

/* Gather the kernels of all plans except the first plan.  Kernels that cannot be gathered are compiled with their own plan. */
static void promote_gather(const bl_promoter *p, bl_plan *const *plans, size_t n, bl_arena *arena, bl_plan_sources *sources)
{
    for (size_t i = 1; i < n; i++) {
        bl_plan_options options = promote_options_for(p, plans[i]);
        bl_err ignored = {0};

        if (bl_plan_get_info(plans[i])->device == bl_plan_get_info(plans[0])->device &&
            bl_plan_gather_again(plans[i], &options, arena, sources, &ignored) != BL_OK)
            return;
    }
}

static void promote(bl_promoter *p, bl_plan *plan, const bl_plan_sources *along)
{
    bl_plan_options options = promote_options_for(p, plan);
    bl_plan *made = NULL;
    bl_err err = {0};

    options.along = along;
    if (bl_plan_remake(plan, &options, &made, &err) == BL_OK) {
        bl_plan_supersede(plan, made);
        bl_metrics_add(&p->server->metrics, BL_COUNT_PROMOTED, 1);
    } else if (err.status != BL_ECANCELLED && err.status != BL_ENOMEM) {
        bl_log(BL_LOG_WARN, "%s: a graph is not compiled and keeps running in the interpreter: %s",
               bl_plan_get_info(plan)->device, err.text);
        bl_plan_stay(plan);
    }
    bl_plan_release(made);
}

/* Choose the first plans of |all| that want compiled kernels; each plan is in its current form, retained. */
static size_t promote_choose(bl_plan *const *all, size_t n, bl_plan **chosen)
{
    size_t count = 0;

    for (size_t i = 0; i < n && count < MOST_AT_ONCE; i++) {
        bl_plan *current = bl_plan_current(all[i]);
        if (bl_plan_wants_compiling(current))
            chosen[count++] = current;
        else
            bl_plan_release(current);
    }
    return count;
}

static void promote_look_at_plans(void *arg)
{
    bl_promoter *p = arg;
    bl_plan *chosen[MOST_AT_ONCE];
    size_t n = bl_plans_list(p->server->plans, MOST_PLANS, p->plans), count = promote_choose(p->plans, n, chosen);
    bl_arena *arena = count > 1 ? bl_arena_create(ARENA_BYTES) : NULL;
    bl_plan_sources sources = {0};

    for (size_t i = 0; i < n; i++)
        bl_plan_release(p->plans[i]);
    if (arena != NULL)
        promote_gather(p, chosen, count, arena, &sources);
    for (size_t i = 0; i < count; i++) {
        if (!atomic_load(&p->stop))
            promote(p, chosen[i], i == 0 ? &sources : NULL);
        bl_plan_release(chosen[i]);
    }
    bl_arena_destroy(arena);
    if (count > 0) /* more plans than fit into one round may want compiled kernels, so examine the plans again */
        bl_tick_wake(p->look);
}

bl_status bl_promoter_create(bl_server *server, bl_promoter **out, bl_err *err)
{
    bl_promoter *p;

    *out = NULL;
    if (!server->settings.interpret_first)
        return BL_OK;
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for promotion of plans");
    p->server = server;
    *out = p;
    BL_TRY(bl_ticker_create(&p->ticker, err));
    return bl_ticker_add(p->ticker, INT64_C(1000000) * LOOK_EVERY_MS, promote_look_at_plans, p, &p->look, err);
}

void bl_promoter_destroy(bl_promoter *p)
{
    if (p == NULL)
        return;
    atomic_store(&p->stop, true);
    bl_ticker_destroy(p->ticker);
    free(p);
}
