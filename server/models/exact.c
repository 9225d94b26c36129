/* SPDX-License-Identifier: MIT */
/* Exact plans: plans for runs of one size.  The number of rows of a batch, and the number of tokens of a decoding text, are
 * constants, so the compiler knows the extent of each loop.  An exact plan replaces the general plan in runs of exactly this
 * size.  All plans of an instance read the same weights.  Each plan may keep packed panels of the weights
 * (engine/plan/kept_values.c).  A plan that would raise the kept bytes of the instance above MOST_BYTES is released. */
#include "server/models/models_internal.h"

#include "engine/base/log.h"
#include "server/models/text_model.h"

#include <string.h>

enum { MOST_EXACT = 5, MOST_BYTES = 256 << 20 /* limit of the kept bytes of all exact plans of an instance */ };

typedef struct making {
    bl_model_version *version; /* retained by the loader's job */
    bl_model_instance *instance;
    int64_t rows;
    bl_wire_graph graph;
} making;

/* The dimensions that are constants in an exact plan: the rows of a batch, and the tokens of a text, which is decoded one
 * token at a time. */
static bool exact_is_fixed(const bl_model_version *version, int var)
{
    return var == version->batcher.var || (version->text != NULL && version->text->remembers && version->text->var == var);
}

static bool varies(const bl_wire_graph *graph, int var)
{
    return graph->vars[var].lo < graph->vars[var].hi;
}

bool bl_exact_is(const bl_model_version *version, const bl_model_instance *instance, const bl_plan *plan)
{
    const bl_plan_info *info = bl_plan_get_info(plan);
    for (int i = 0; i < version->batcher.nvars; i++)
        if (varies(instance->slot.graph, i) && info->var_lo[i] == info->var_hi[i])
            return true;
    return false;
}

bool bl_exact_is_possible(const bl_model_version *version, const bl_model_instance *instance)
{
    for (int i = 0; i < version->batcher.nvars; i++)
        if (exact_is_fixed(version, i) && varies(instance->slot.graph, i))
            return !version->sequential;
    return false;
}

bl_plan *bl_exact_get(const bl_model_version *version, bl_model_instance *instance, const int64_t *vars)
{
    int64_t rows = version->batcher.var >= 0 ? vars[version->batcher.var] : 1;
    bl_plan *plan = bl_size_is_exact(rows) ? atomic_load(&instance->exact[bl_size_of(rows)]) : NULL;
    for (int i = 0; plan != NULL && i < version->batcher.nvars; i++) {
        const bl_plan_info *info = bl_plan_get_info(plan);
        if (vars[i] < info->var_lo[i] || vars[i] > info->var_hi[i])
            return NULL;
    }
    return plan != NULL ? bl_plan_current(plan) : NULL;
}

/* ---- eligibility */

/* Programs with sequences, or with random numbers, have state whose layout belongs to the plan. */
static bool may_have(bl_model_version *version, const bl_model_instance *instance)
{
    size_t n = 0;
    if (version->sequential || bl_plan_get_info(instance->slot.plan)->nhidden > 0)
        return false;
    pthread_mutex_lock(&version->batcher.lock);
    for (int i = 0; i < BL_SIZES; i++)
        n += instance->slot.sizes.at[i].ordered;
    pthread_mutex_unlock(&version->batcher.lock);
    return n <= MOST_EXACT;
}

bool bl_exact_claim(bl_model_version *version, bl_model_instance *instance, int64_t rows)
{
    const bl_wire_var *range = version->batcher.var >= 0 ? &instance->slot.graph->vars[version->batcher.var] : NULL;
    bool fresh = false;
    if (range != NULL ? rows < range->lo || rows > range->hi : rows != 1)
        return false;
    if (!bl_size_is_exact(rows) || !bl_exact_is_possible(version, instance))
        return false;
    pthread_mutex_lock(&version->batcher.lock);
    fresh = !instance->slot.sizes.at[bl_size_of(rows)].ordered;
    instance->slot.sizes.at[bl_size_of(rows)].ordered = true;
    pthread_mutex_unlock(&version->batcher.lock);
    return fresh && may_have(version, instance);
}

void bl_exact_order(bl_model_version *version, bl_model_instance *instance, int64_t rows)
{
    bl_err err = {0};
    bl_model_op *op = NULL;
    if (!may_have(version, instance))
        return; /* |ordered| stays set, so the plan is not ordered again */
    op = bl_model_op_create(version->owner, version->name);
    if (op != NULL)
        op->purges = version->origin.purges;
    if (op == NULL) {
        bl_exact_answer(version, instance, rows);
        return;
    }
    op->kind = BL_MODEL_OP_COMPILE;
    op->version = bl_model_version_retain(version);
    op->instance = instance;
    op->rows = rows;
    if (bl_models_order(version->models, op, &err) != BL_OK)
        bl_log(BL_LOG_DEBUG, "model %s: %s", version->name, err.text);
}

void bl_exact_answer(bl_model_version *version, bl_model_instance *instance, int64_t rows)
{
    pthread_mutex_lock(&version->batcher.lock);
    bl_sizes_answer(&instance->slot.sizes, rows, atomic_load(&instance->exact[bl_size_of(rows)]) != NULL);
    pthread_mutex_unlock(&version->batcher.lock);
}

/* ---- compilation */

/* Do both plans have equal numbers of inputs, outputs, states and hidden states? */
static bool is_like(const bl_plan *plan, const bl_plan *other)
{
    const bl_plan_info *a = bl_plan_get_info(plan), *b = bl_plan_get_info(other);
    return a->ninputs == b->ninputs && a->noutputs == b->noutputs && a->nstates == b->nstates && a->nhidden == b->nhidden;
}

/* Does the plan fit into the limit of kept bytes beside the other exact plans? */
static bool exact_fits(const bl_model_instance *instance, const bl_plan *plan)
{
    size_t bytes = bl_plan_get_info(plan)->keep_bytes;
    for (int i = 0; i < BL_SIZES; i++) {
        const bl_plan *other = atomic_load(&instance->exact[i]);
        bytes += other == NULL ? 0 : bl_plan_get_info(other)->keep_bytes;
    }
    return bytes <= MOST_BYTES;
}

/* On a compile thread. */
static bl_status exact_compile(bl_exec *x, bl_err *err)
{
    const making *make = x->extra;
    bl_plan *plan = NULL, *none = NULL;
    bl_wire_key key;
    bool hit = false;
    BL_TRY(bl_exec_key(x, &make->graph, true, &key));
    BL_TRY(bl_exec_make_plan(x, &key, &make->graph, true, &plan, &hit, err));
    if (is_like(plan, make->instance->slot.plan) && exact_fits(make->instance, plan) &&
        atomic_compare_exchange_strong(&make->instance->exact[bl_size_of(make->rows)], &none, plan)) {
        bl_log(BL_LOG_INFO, "model %s has a plan for runs of %lld rows", make->version->name, (long long)make->rows);
        return BL_OK;
    }
    bl_plan_release(plan);
    return BL_OK;
}

bl_status bl_exact_begin(bl_request *rq, bl_model_version *version, bl_model_instance *instance, int64_t rows)
{
    bl_run_options options = instance->slot.program->doc.options;
    making *make = bl_arena_alloc(rq->arena, sizeof *make);
    bl_exec *x = NULL;
    if (make == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    *make = (making){.version = version, .instance = instance, .rows = rows, .graph = *instance->slot.graph};
    make->graph.vars = bl_arena_array(rq->arena, (size_t)version->batcher.nvars + 1, sizeof *make->graph.vars);
    if (make->graph.vars == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    memcpy(make->graph.vars, instance->slot.graph->vars, (size_t)version->batcher.nvars * sizeof *make->graph.vars);
    for (int i = 0; i < version->batcher.nvars; i++)
        if (exact_is_fixed(version, i))
            make->graph.vars[i].lo = make->graph.vars[i].hi = i == version->batcher.var ? rows : 1;
    BL_TRY(bl_exec_create(rq, &x));
    options.lease = NULL;
    options.timeout_ms = 0;
    BL_TRY(bl_exec_choose(x, &options, instance->slot.program->worker));
    BL_TRY(bl_program_check(instance->slot.program, &rq->err));
    x->extra = make;
    x->compile = exact_compile;
    x->options.dry_run = true;
    rq->item.rank = BL_RANK_TRAIN; /* lowest rank, since no client waits for the plan */
    return bl_exec_advance(x);
}
