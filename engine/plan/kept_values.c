/* SPDX-License-Identifier: MIT */
/* Values that are kept between runs: a packed panel (opt/pack.c), or a transform (front/winograd.c). A value that depends
 * only on buffers that do not change from run to run, such as the weights of a model, does not change either. From the
 * second run with unchanged sources on, such a value gets its own buffer, and launches that compute only kept values are
 * skipped. The plan cannot know in advance which sources stay unchanged: a retained tensor looks like a tensor of a request.
 * The plan therefore records the sources on which each launch depends. Each step looks for values that did not change and
 * that are read by a launch whose sources changed. */
#include "engine/base/size.h"
#include "engine/plan/compile.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_KEPT_BYTES = 256 << 20, /* limit of kept bytes per plan */
    DENIED_STEPS = 64,           /* steps after which refused memory is requested again; a request is cheap */
    WORD = 64
};

static void kept_values_set_bit(uint64_t *set, int bit, bool value)
{
    uint64_t mask = UINT64_C(1) << (bit % WORD);
    set[bit / WORD] = value ? set[bit / WORD] | mask : set[bit / WORD] & ~mask;
}

static size_t kept_values_words(int bits)
{
    return ((size_t)bits + WORD - 1) / WORD;
}

static bool is_within(const uint64_t *some, const uint64_t *all, int bits)
{
    for (size_t i = 0; i < kept_values_words(bits); i++) {
        if ((some[i] & ~all[i]) != 0)
            return false;
    }
    return true;
}

/* ---- dependences of launches on sources, found when the plan is made */

typedef struct analysis {
    compile *c;
    int *writers, *writer; /* per slot: the number of launches that write the slot, and the last such launch */
    /* per launch: the set of sources on which the launch depends; NULL if the launch depends on anything else */
    uint64_t **from;
    int *number; /* per slot: 1 + the number of the slot's kept value; 0: none */
} analysis;

static const made *kernel_of(const analysis *a, int launch)
{
    return &a->c->made[a->c->plan->steps[launch].kernel];
}

static int slot_of(const analysis *a, int launch, int param)
{
    return a->c->plan->launches[launch].slot[param];
}

static bool is_source(const analysis *a, int slot)
{
    return a->c->places[slot].kind == BL_PLACE_INPUT;
}

static bool writes(const made *m, int param)
{
    return (m->lowered->linear->writes >> param & 1) != 0;
}

/* Is the kernel launched in the same way in each run: without named dimensions and step numbers? */
static bool kept_values_is_fixed(const made *m)
{
    bool fixed = m->lowered->nvars == 0;
    for (int i = 0; i < BL_GRID_DIMS; i++)
        fixed = fixed && bl_is_const(m->lowered->grid[i]);
    return fixed;
}

/* May a launch that depends on sources alone read this slot, or write it if |written|? All earlier launches have been
 * analysed. */
static bool kept_values_may_use(const analysis *a, int launch, int slot, bool written)
{
    const bl_graph *graph = a->c->graph;
    const bl_place *place = &a->c->places[slot];
    int state = slot - graph->ninputs;

    if (is_source(a, slot))
        return !written && (state < 0 || graph->updates[state] == NULL);
    if (place->kind != BL_PLACE_TEMP || a->writers[slot] != 1 || !bl_is_const(place->count))
        return false;
    return written || (a->writer[slot] < launch && a->from[a->writer[slot]] != NULL);
}

static void find_writers(analysis *a)
{
    for (int i = 0; i < a->c->plan->nsteps; i++) {
        const made *m = kernel_of(a, i);
        for (int k = 0; k < m->nparams; k++) {
            a->writers[slot_of(a, i, k)] += writes(m, k);
            if (writes(m, k))
                a->writer[slot_of(a, i, k)] = i;
        }
    }
}

static void find_sources(analysis *a)
{
    const bl_plan *plan = a->c->plan;

    for (int i = 0; i < plan->nsteps; i++) {
        const made *m = kernel_of(a, i);
        bool all = kept_values_is_fixed(m);
        for (int k = 0; all && k < m->nparams; k++)
            all = kept_values_may_use(a, i, slot_of(a, i, k), writes(m, k));
        if (!all ||
            (a->from[i] = bl_arena_array(plan->arena, kept_values_words(plan->keeps.nsources) + 1, sizeof(uint64_t))) == NULL)
            continue;
        for (int k = 0; k < m->nparams; k++) {
            int slot = slot_of(a, i, k);
            if (is_source(a, slot))
                kept_values_set_bit(a->from[i], slot, true);
            for (size_t w = 0; !is_source(a, slot) && !writes(m, k) && w < kept_values_words(plan->keeps.nsources); w++)
                a->from[i][w] |= a->from[a->writer[slot]][w];
        }
    }
}

static bl_status kept_values_add_value(analysis *a, int launch, int slot)
{
    plan_keeps *keeps = &a->c->plan->keeps;
    const made *m = kernel_of(a, launch);
    plan_kept *kept = &keeps->kept[keeps->n];

    *kept = (plan_kept){.slot = slot, .panel = m->panel, .from = a->from[launch]};
    for (int k = 0; k < m->nparams; k++)
        kept->panel = kept->panel && (writes(m, k) || is_source(a, slot_of(a, launch, k)));
    if (!bl_size_mul((size_t)a->c->places[slot].count->arg, bl_dtype_bytes(a->c->places[slot].dtype), &kept->bytes))
        return bl_fail(a->c->err, BL_EBUG, "a kept value has more bytes than can be counted");
    a->number[slot] = ++keeps->n;
    return BL_OK;
}

/* Number the values that |launch| writes, and list the values that it reads and writes. The launch depends on sources alone. */
static bl_status kept_values_add_launch(analysis *a, int launch)
{
    plan_keeps *keeps = &a->c->plan->keeps;
    const made *m = kernel_of(a, launch);
    int *value = bl_arena_array(a->c->plan->arena, (size_t)m->nparams + 1, sizeof *value);
    plan_spared *spared = &keeps->spared[keeps->nspared];

    if (value == NULL)
        return bl_arena_status(a->c->plan->arena, a->c->err);
    *spared = (plan_spared){.step = launch, .from = a->from[launch], .value = value};
    for (int k = 0; k < m->nparams; k++) {
        int number = a->number[slot_of(a, launch, k)];
        if (number > 0 && !writes(m, k))
            value[spared->nreads++] = number - 1;
    }
    for (int k = 0; k < m->nparams; k++) {
        if (!writes(m, k))
            continue;
        value[spared->nreads + spared->nwrites++] = keeps->n;
        BL_TRY(kept_values_add_value(a, launch, slot_of(a, launch, k)));
    }
    keeps->nspared++;
    return BL_OK;
}

static bl_status list_launches(analysis *a)
{
    for (int i = 0; i < a->c->plan->nsteps; i++) {
        const made *m = kernel_of(a, i);
        if (a->from[i] != NULL)
            BL_TRY(kept_values_add_launch(a, i));
        for (int k = 0; a->from[i] == NULL && k < m->nparams; k++) {
            int number = a->number[slot_of(a, i, k)];
            if (number > 0)
                a->c->plan->keeps.kept[number - 1].outside = true;
        }
    }
    return BL_OK;
}

bl_status compile_keeps(compile *c)
{
    plan_keeps *keeps = &c->plan->keeps;
    bl_arena *arena = c->plan->arena;
    size_t nslots = (size_t)c->nslots + 1, nsteps = (size_t)c->plan->nsteps + 1;
    analysis a = {.c = c,
                  .writers = bl_arena_array(c->arena, nslots, sizeof(int)),
                  .writer = bl_arena_array(c->arena, nslots, sizeof(int)),
                  .number = bl_arena_array(c->arena, nslots, sizeof(int)),
                  .from = bl_arena_array(c->arena, nsteps, sizeof(uint64_t *))};

    /* the sources end with the last input or state slot */
    while (keeps->nsources < c->nslots && c->places[keeps->nsources].kind == BL_PLACE_INPUT)
        keeps->nsources++;
    keeps->kept = bl_arena_array(arena, nslots, sizeof *keeps->kept);
    keeps->spared = bl_arena_array(arena, nsteps, sizeof *keeps->spared);
    keeps->sources = bl_arena_array(arena, (size_t)keeps->nsources + 1, sizeof *keeps->sources);
    keeps->same = bl_arena_array(arena, kept_values_words(keeps->nsources) + 1, sizeof(uint64_t));
    keeps->before = bl_arena_array(arena, kept_values_words(keeps->nsources) + 1, sizeof(uint64_t));
    BL_TRY(bl_arena_status(c->arena, c->err));
    BL_TRY(bl_arena_status(arena, c->err));
    find_writers(&a);
    find_sources(&a);
    BL_TRY(list_launches(&a));
    for (int i = 0; i < keeps->n; i++) {
        size_t room = MOST_KEPT_BYTES - c->plan->info.keep_bytes;
        c->plan->info.keep_bytes += !keeps->kept[i].outside ? 0 : keeps->kept[i].bytes < room ? keeps->kept[i].bytes : room;
    }
    return bl_arena_status(arena, c->err);
}

/* ---- before and after each step */

/* Compare the sources with the sources of the last step, and record them. True if any source changed. */
static bool compare_sources(bl_plan *plan)
{
    plan_keeps *keeps = &plan->keeps;
    bool changed = false;

    for (int i = 0; i < keeps->nsources; i++) {
        plan_source *source = &keeps->sources[i];
        const bl_buffer *now = plan->slots[i];
        bool same = keeps->seen && source->last == now && source->version == now->version;
        *source = (plan_source){now, now->version};
        kept_values_set_bit(keeps->same, i, same);
        changed = changed || !same;
    }
    return changed;
}

/* Release a kept buffer. The next owner of the buffer may write it at once, so wait for runs in flight that read the buffer. */
static void kept_values_drop(bl_plan *plan, plan_kept *kept)
{
    bl_err ignored = {0};
    bl_status waited = bl_device_wait(plan->dev, &ignored);

    (void)waited; /* a lost device fails the work in flight and reads no buffer any more */
    bl_pool_spare_release(&kept->own);
    kept->given = kept->full = false;
}

/* Give a value its own buffer. Without a buffer the value stays in scratch memory. The buffer comes from free memory only,
 * and the pool may drop the buffer. */
static void give_buffer(bl_plan *plan, plan_kept *kept, bl_pool *pool)
{
    if (kept->bytes > MOST_KEPT_BYTES - atomic_load_explicit(&plan->keeps.bytes, memory_order_relaxed))
        return;
    kept->given = bl_pool_spare_alloc(pool, kept->bytes, &plan->keeps.bytes, &kept->own);
    if (!kept->given)
        plan->keeps.denied = DENIED_STEPS;
}

/* Give buffers to values that do not change and that are read by launches whose sources change. Take the buffers from values
 * that change. If a step has exactly the sources of the last step, as in a benchmark, the step does not show which sources
 * stay when others change: then only panels are kept. */
static void choose_kept(bl_plan *plan, bool changed, bl_pool *pool)
{
    plan_keeps *keeps = &plan->keeps;

    for (int i = 0; i < keeps->n; i++) {
        plan_kept *kept = &keeps->kept[i];
        kept->stable = keeps->seen && is_within(kept->from, keeps->same, keeps->nsources);
        kept->wanted = kept->outside;
        if (!kept->stable && kept->given)
            kept_values_drop(plan, kept);
    }
    for (int i = 0; i < keeps->nspared; i++) {
        const plan_spared *spared = &keeps->spared[i];
        bool stable = keeps->seen && is_within(spared->from, keeps->same, keeps->nsources);
        for (int k = 0; !stable && k < spared->nreads; k++)
            keeps->kept[spared->value[k]].wanted = true;
    }
    for (int i = 0; i < keeps->n; i++) {
        plan_kept *kept = &keeps->kept[i];
        if (kept->stable && kept->wanted && !kept->given && (changed || kept->panel))
            give_buffer(plan, kept, pool);
    }
}

/* Skip the launches that compute only values that are kept or not wanted. Readers are processed before writers. */
static void choose_launches(plan_keeps *keeps)
{
    for (int i = 0; i < keeps->n; i++)
        keeps->kept[i].wanted = keeps->kept[i].outside;
    for (int i = keeps->nspared; i-- > 0;) {
        plan_spared *spared = &keeps->spared[i];
        spared->out = true;
        for (int k = 0; k < spared->nwrites; k++) {
            const plan_kept *kept = &keeps->kept[spared->value[spared->nreads + k]];
            spared->out = spared->out && (kept->full || !kept->wanted);
        }
        for (int k = 0; !spared->out && k < spared->nreads; k++)
            keeps->kept[spared->value[k]].wanted = true;
    }
}

/* If the pool dropped a kept buffer since the last step, forget all kept values. */
static void look_for_dropped(bl_plan *plan)
{
    const plan_keeps *keeps = &plan->keeps;
    bool dropped = false;

    for (int i = 0; i < keeps->n; i++)
        dropped = dropped || (keeps->kept[i].given && keeps->kept[i].own.buffer == NULL);
    if (dropped)
        plan_keep_forget(plan);
}

void plan_keep_begin(bl_plan *plan, bl_pool *pool)
{
    plan_keeps *keeps = &plan->keeps;
    size_t set = kept_values_words(keeps->nsources) * sizeof *keeps->same;
    bool changed = false, again = false;

    if (keeps->n == 0)
        return;
    look_for_dropped(plan);
    memcpy(keeps->before, keeps->same, set);
    changed = compare_sources(plan);
    again = keeps->seen && memcmp(keeps->before, keeps->same, set) == 0;
    if (keeps->denied > 0 && --keeps->denied == 0)
        again = false;
    if (!again)
        choose_kept(plan, changed, pool);
    if (!again || !keeps->settled)
        choose_launches(keeps);
    keeps->settled = again;
    keeps->seen = true;
    for (int i = 0; i < keeps->n; i++) {
        plan_kept *kept = &keeps->kept[i];
        kept->scratch = plan->slots[kept->slot];
        if (!kept->given)
            continue;
        plan->slots[kept->slot] = kept->own.buffer;
        bl_pool_spare_use(&kept->own);
    }
    for (int i = 0; i < keeps->nspared; i++) {
        plan_spared *spared = &keeps->spared[i];
        for (int d = 0; spared->out && d < 3; d++) {
            spared->groups[d] = plan->groups[spared->step][d];
            plan->groups[spared->step][d] = 0;
        }
    }
}

void plan_keep_end(bl_plan *plan, bool good)
{
    plan_keeps *keeps = &plan->keeps;

    for (int i = 0; i < keeps->n; i++)
        plan->slots[keeps->kept[i].slot] = keeps->kept[i].scratch;
    for (int i = 0; i < keeps->nspared; i++) {
        const plan_spared *spared = &keeps->spared[i];
        for (int d = 0; spared->out && d < 3; d++)
            plan->groups[spared->step][d] = spared->groups[d];
        for (int k = 0; good && !spared->out && k < spared->nwrites; k++) {
            plan_kept *kept = &keeps->kept[spared->value[spared->nreads + k]];
            kept->full = kept->given;
        }
    }
}

void plan_keep_forget(bl_plan *plan)
{
    plan_keeps *keeps = &plan->keeps;

    keeps->seen = keeps->settled = false;
    for (int i = 0; i < keeps->n; i++)
        keeps->kept[i].full = false;
}

void plan_keep_fini(bl_plan *plan)
{
    for (int i = 0; i < plan->keeps.n; i++)
        bl_pool_spare_release(&plan->keeps.kept[i].own);
}
