/* SPDX-License-Identifier: MIT */
/* The memory plan, and the launches of a plan. */
#include "engine/base/size.h"
#include "engine/ir/shape.h"
#include "engine/plan/compile.h"

#include <string.h>

/* The number of elements of a slot at the largest sizes. */
int64_t compile_slot_elements(const compile *c, int slot)
{
    const bl_graph *graph = c->graph;
    const bl_place *place = &c->places[slot];
    int64_t count = place->count == NULL ? 0 : place->count->hi;

    if (place->kind == BL_PLACE_INPUT && slot < graph->ninputs + graph->nstates + graph->nhidden)
        (void)bl_shape_max_count(graph->inputs[slot]->ndim, graph->inputs[slot]->dim, &count);
    return count;
}

/* ---- memory */

static void live_in(bl_lifetime *life, int first, int last)
{
    life->first = first < life->first ? first : life->first;
    life->last = last > life->last ? last : life->last;
}

static void live_as_carries(const compile *c, const bl_loop *loop, bl_lifetime *lives)
{
    int first = c->first_made[loop->first], last = c->first_made[loop->end] - 1;

    for (int i = 0; i < loop->ncarries; i++) {
        live_in(&lives[loop->carries[i].init], first, last);
        live_in(&lives[loop->carries[i].place[0]], first, last);
        live_in(&lives[loop->carries[i].place[1]], first, last);
    }
}

/* Values that are used before or after a loop, and loop-carried values, are live during the whole loop. */
static void live_through_loops(const compile *c, bl_lifetime *lives)
{
    for (int k = 0; k < c->schedule->nloops; k++)
        live_as_carries(c, &c->schedule->loops[k], lives);
    for (int k = 0; k < c->schedule->nloops; k++) {
        const bl_loop *loop = &c->schedule->loops[k];
        int first = c->first_made[loop->first], last = c->first_made[loop->end] - 1;
        for (int i = 0; i < c->nslots; i++) {
            bl_lifetime *life = &lives[i];
            bool inside = life->first >= first && life->last <= last;
            if (life->first <= last && life->last >= first && !inside)
                live_in(life, first, last);
        }
    }
}

/* Compute the lifetime of each temporary, from the first write to the last read, and lay out the temporaries. */
static bl_status place_memory(compile *c, size_t *offset)
{
    bl_lifetime *lives = bl_arena_array(c->plan->arena, (size_t)c->nslots + 1, sizeof *lives);
    bool fixed = c->graph->nvars == 0;

    BL_TRY(bl_arena_status(c->plan->arena, c->err));
    for (int i = 0; i < c->nslots; i++) {
        size_t bytes = 0;
        lives[i] = (bl_lifetime){.first = c->nmade, .last = -1};
        if (c->places[i].kind == BL_PLACE_TEMP && c->places[i].count != NULL &&
            !bl_size_mul((size_t)c->places[i].count->hi, bl_dtype_bytes(c->places[i].dtype), &bytes))
            return bl_fail(c->err, BL_ENODEVMEM, "an intermediate result has more bytes than can be counted");
        lives[i].bytes = bytes == 0 ? 1 : bytes;
    }
    for (int k = 0; k < c->nmade; k++) {
        for (int i = 0; i < c->made[k].nparams; i++)
            live_in(&lives[c->made[k].slot[i]], k, k);
    }
    live_through_loops(c, lives);
    for (int i = 0; i < c->nslots; i++) {
        if (c->places[i].kind != BL_PLACE_TEMP)
            lives[i] = (bl_lifetime){.bytes = 1, .first = c->nmade, .last = -1};
    }
    c->plan->lives = lives;
    c->plan->alignment = c->dev->info.alignment < 64 ? 64 : c->dev->info.alignment;
    c->plan->scratch_bytes = bl_memory_plan(c->nslots, lives, c->plan->alignment, c->arena);
    c->plan->laid_vars = bl_arena_array(c->plan->arena, (size_t)c->graph->nvars + 1, sizeof *c->plan->laid_vars);
    for (int i = 0; i < c->nslots; i++)
        offset[i] = lives[i].first <= lives[i].last ? lives[i].offset : SIZE_MAX;
    if (fixed && c->plan->scratch_bytes > c->dev->info.max_alloc)
        return bl_fail(c->err, BL_ENODEVMEM,
                       "the graph needs %zu bytes for intermediate results at once; %s allocates at most %llu",
                       c->plan->scratch_bytes, c->dev->info.id, (unsigned long long)c->dev->info.max_alloc);
    BL_TRY(bl_arena_status(c->arena, c->err));
    return bl_arena_status(c->plan->arena, c->err);
}

/* A kernel may be able to access less of a buffer than the device can allocate (128 MiB on lavapipe). With named dimensions,
 * each run checks its own sizes. */
static bl_status check_bindings(compile *c)
{
    uint64_t most = c->graph->nvars == 0 ? c->dev->info.max_binding : 0;

    for (int i = 0; i < c->nslots; i++) {
        const bl_place *place = &c->places[i];
        int64_t count = compile_slot_elements(c, i);
        if (most > 0 && (uint64_t)count > most / bl_dtype_bytes(place->dtype))
            return bl_fail(c->err, BL_EUNSUPPORTED,
                           "a kernel on %s can address %llu bytes of one tensor; a tensor here has %lld elements of %s",
                           c->dev->info.id, (unsigned long long)most, (long long)count, bl_dtype_name(place->dtype));
    }
    return BL_OK;
}

static const plan_countdown *find_countdown(compile *c, const bl_loop *loop)
{
    const bl_plan *plan = c->plan;
    const bl_node *steps = compile_keep_extent(c, loop->steps);

    for (int i = 0; i < plan->ncountdowns; i++) {
        if (plan->countdowns[i].steps == steps)
            return &plan->countdowns[i];
    }
    return NULL;
}

/* The index in plan->vars of the slice number of loop step |now|. */
static int counter_of(compile *c, const bl_loop *loop, int64_t now)
{
    if (!loop->reverse)
        return c->graph->nvars + (int)now;
    if (bl_is_const(loop->steps))
        return c->graph->nvars + (int)(loop->steps->hi - 1 - now);
    const plan_countdown *countdown = find_countdown(c, loop);
    return countdown != NULL ? countdown->first + (int)now : 0; /* NULL only without memory; the arena records the failure */
}

/* Lay out plan->vars: the named dimensions, then the numbers of loop steps (a launch refers to the number of its own step),
 * then the first group of a slice. */
static bl_status make_vars(compile *c)
{
    bl_plan *plan = c->plan;
    int64_t steps = 0, all = 0;

    plan->countdowns = bl_arena_array(plan->arena, (size_t)c->schedule->nloops + 1, sizeof *plan->countdowns);
    BL_TRY(bl_arena_status(plan->arena, c->err));
    for (int i = 0; i < c->schedule->nloops; i++)
        steps = c->schedule->loops[i].steps->hi > steps ? c->schedule->loops[i].steps->hi : steps;
    all = steps;
    for (int i = 0; i < c->schedule->nloops && all < UINT16_MAX; i++) {
        const bl_loop *loop = &c->schedule->loops[i];
        if (!loop->reverse || bl_is_const(loop->steps) || find_countdown(c, loop) != NULL)
            continue;
        plan->countdowns[plan->ncountdowns++] =
            (plan_countdown){.steps = compile_keep_extent(c, loop->steps), .first = c->graph->nvars + (int)all};
        all += loop->steps->hi;
    }
    if (all >= UINT16_MAX - c->graph->nvars)
        return bl_fail(c->err, BL_ELIMIT, "a scan has %lld steps; the limit is %d, and lower where several scans run backwards",
                       (long long)steps, UINT16_MAX - c->graph->nvars - 1);
    plan->nvars = c->graph->nvars + (int)all + 1;
    plan->vars = bl_calloc((size_t)plan->nvars + 1, sizeof *plan->vars);
    if (plan->vars == NULL)
        return bl_fail(c->err, BL_ENOMEM, "out of host memory for a plan");
    for (int i = 0; i < (int)steps; i++)
        plan->vars[c->graph->nvars + i] = i;
    return BL_OK;
}

bl_status compile_slots(compile *c)
{
    bl_plan *plan = c->plan;
    size_t *offset = bl_arena_array(plan->arena, (size_t)c->nslots + 1, sizeof *offset);
    const bl_node **count = bl_arena_array(plan->arena, (size_t)c->nslots + 1, sizeof *count);
    bl_dtype *dtype = bl_arena_array(plan->arena, (size_t)c->nslots + 1, sizeof *dtype);
    int *roots = bl_arena_array(plan->arena, (size_t)c->nroots + 1, sizeof *roots);

    BL_TRY(bl_arena_status(plan->arena, c->err));
    if (c->nslots > UINT16_MAX) /* a launch refers to slots by 16 bits */
        return bl_fail(c->err, BL_ELIMIT, "the graph needs %d buffers; the limit is %d", c->nslots, UINT16_MAX);
    BL_TRY(check_bindings(c));
    BL_TRY(place_memory(c, offset));
    for (int i = 0; i < c->nslots; i++) {
        if (c->places[i].kind != BL_PLACE_INPUT && c->places[i].count != NULL)
            count[i] = compile_keep_extent(c, c->places[i].count);
        dtype[i] = c->places[i].dtype;
    }
    plan->nslots = c->nslots;
    plan->nroots = c->nroots;
    memcpy(roots, c->schedule->root_place, (size_t)c->nroots * sizeof *roots);
    plan->root_slot = roots;
    plan->slot_offset = offset;
    plan->slot_count = count;
    plan->slot_dtype = dtype;
    plan->slots = bl_calloc((size_t)c->nslots + 1, sizeof *plan->slots);
    if (plan->slots == NULL)
        return bl_fail(c->err, BL_ENOMEM, "out of host memory for a plan");
    return make_vars(c);
}
/* ---- launches; the worker thread records them before the first run */

enum { MOST_LAUNCHES = 1 << 16, MOST_AT_ONCE = 2048 };
#define SECONDS_AT_ONCE 0.25 /* estimated device time of a part */

/* State of a walk through the nests in execution order, with loops unrolled. */
typedef struct emission {
    compile *c;
    int next_loop;
    int *bound; /* for each CARRY place: the place that it refers to in this step */
    int *at;    /* for each VAR that counts steps, by depth of its loop: the index of the step number in plan->vars */
    int depth;  /* current loop depth */
    const plan_turn *turn;
    int64_t end;    /* number of launches so far */
    double seconds; /* estimated time of the launches so far */
    bl_launch *launches;
    step *steps;
    int64_t *counts; /* if not NULL: the number of launches of each kernel */
} emission;

static void emit_launch(emission *e, int which)
{
    compile *c = e->c;
    const made *m = &c->made[which];
    bl_launch *launch = &e->launches[e->end];
    int nvars = c->graph->nvars;

    e->steps[e->end] = (step){.name = m->name,
                              .helper = m->helper,
                              .kernels = m->kernels,
                              .helpers = m->helpers,
                              .moves = m->moves,
                              .key = m->key,
                              .kernel = which,
                              .turn = e->turn,
                              .cut = m->cut,
                              .ops = m->ops,
                              .bytes = m->bytes};
    for (int i = 0; i < BL_GRID_DIMS; i++)
        e->steps[e->end].grid[i] = compile_keep_extent(c, m->lowered->grid[i]);
    launch->kernel = c->plan->kernels[which];
    for (int k = 0; k < m->nparams; k++) {
        const bl_place *place = &c->places[m->slot[k]];
        launch->slot[k] = (uint16_t)(place->kind == BL_PLACE_CARRY ? e->bound[m->slot[k]] : m->slot[k]);
    }
    for (int k = 0; k < m->lowered->nvars && k < BL_MAX_SCALARS; k++) {
        int var = m->lowered->vars[k];
        launch->var[k] = (uint16_t)(var < nvars ? var : e->at[var - nvars]);
    }
    if (m->cut > 0)
        launch->var[m->lowered->nvars] = (uint16_t)(c->plan->nvars - 1);
}

static int bound_place(const emission *e, int place)
{
    return e->c->places[place].kind == BL_PLACE_CARRY ? e->bound[place] : place;
}

static void bind_step(emission *e, const bl_loop *loop, int64_t now)
{
    plan_turn *turn = now >= loop->steps->lo ? bl_arena_alloc(e->c->plan->arena, sizeof *turn) : NULL;

    if (turn != NULL) {
        *turn = (plan_turn){.steps = compile_keep_extent(e->c, loop->steps), .number = now, .outer = e->turn};
        e->turn = turn;
    }
    e->at[e->depth] = counter_of(e->c, loop, now);
    for (int i = 0; i < loop->ncarries; i++) {
        const bl_carry *carry = &loop->carries[i];
        e->bound[carry->out] = bound_place(e, carry->place[now % 2]);
        e->bound[carry->in] = bound_place(e, now == 0 ? carry->init : carry->place[(now - 1) % 2]);
    }
}

/* Emit the launches of the nests [first, end). Without |launches|, only count them. Stops when the number of launches
 * exceeds the limit. */
static void emit(emission *e, int first, int end)
{
    const bl_schedule *schedule = e->c->schedule;

    while (first < end && e->end <= MOST_LAUNCHES) {
        const bl_loop *loop = e->next_loop < schedule->nloops ? &schedule->loops[e->next_loop] : NULL;
        if (loop != NULL && loop->first == first && loop->end <= end) {
            const plan_turn *outer = e->turn;
            int inside = ++e->next_loop;
            for (int64_t i = 0; i < loop->steps->hi && e->end <= MOST_LAUNCHES; i++) {
                if (e->launches != NULL)
                    bind_step(e, loop, i);
                e->next_loop = inside;
                e->depth++;
                emit(e, first, loop->end);
                e->depth--;
                e->turn = outer;
            }
            first = loop->end;
            continue;
        }
        for (int i = e->c->first_made[first]; i < e->c->first_made[first + 1]; i++) {
            if (e->launches != NULL)
                emit_launch(e, i);
            e->seconds += compile_seconds(&e->c->dev->info, e->c->made[i].ops, e->c->made[i].bytes);
            e->end++;
            if (e->counts != NULL)
                e->counts[i]++;
        }
        first++;
    }
}

static bl_status check_grids(const compile *c)
{
    for (int i = 0; i < c->nmade; i++) {
        for (int k = 0; k < 3; k++) {
            int64_t most = c->made[i].lowered->grid[k]->hi;
            if (most > c->dev->info.max_groups[k])
                return bl_fail(c->err, BL_ELIMIT, "kernel %s needs %lld groups; %s launches at most %u", c->made[i].name,
                               (long long)most, c->dev->info.id, c->dev->info.max_groups[k]);
        }
    }
    return BL_OK;
}

/* A rough estimate of the device time of a launch with |ops| operations and |bytes| of traffic. */
double compile_seconds(const bl_device_info *info, int64_t ops, int64_t bytes)
{
    return (double)ops / (info->mega_ops * 1e6) + (double)bytes / (info->mega_bytes * 1e6);
}

/* The time is estimated for one core, at the largest sizes. */
bool compile_is_brief(compile *c)
{
    const bl_device_info *info = &c->dev->info;
    emission e = {.c = c};

    if (info->brief_ns == 0)
        return false;
    emit(&e, 0, c->schedule->nnests);
    return e.seconds * info->units + (double)e.end * info->launch_ns * 1e-9 <= info->brief_ns * 1e-9;
}

void compile_count_launches(compile *c, int64_t *out)
{
    emission e = {.c = c, .counts = out};

    for (int i = 0; i < c->nmade; i++)
        out[i] = 0;
    emit(&e, 0, c->schedule->nnests);
}

/* Count the cost of one launch of each kernel. */
bl_status compile_estimate(compile *c)
{
    const bl_graph *graph = c->graph;
    int64_t *most = bl_arena_array(c->arena, (size_t)graph->nvars + 1, sizeof *most);

    if (most == NULL)
        return bl_arena_status(c->arena, c->err);
    for (int i = 0; i < graph->nvars; i++)
        most[i] = graph->vars[i].hi;
    for (int i = 0; i < c->nmade; i++) {
        made *m = &c->made[i];
        bl_cost cost;
        m->work = bl_arena_array(c->arena, 1, sizeof *m->work);
        BL_TRY(bl_arena_status(c->arena, c->err));
        *m->work = (plan_work){.lowered = m->lowered, .nparams = m->nparams, .slot = m->slot};
        BL_TRY(bl_cost_count(c->arena, m->lowered, graph->nvars, most, &cost, c->err));
        m->ops = cost.ops;
        for (int k = 0; k < m->nparams; k++) {
            int64_t whole = compile_slot_elements(c, m->slot[k]) * (int64_t)bl_dtype_bytes(c->places[m->slot[k]].dtype);
            m->bytes += cost.moved[k] < whole ? cost.moved[k] : whole; /* repeated reads hit the cache */
        }
    }
    return BL_OK;
}

/* Copy the names, moves and work of the kernels to the plan's arena. */
static bl_status keep_kernels(compile *c)
{
    bl_arena *arena = c->plan->arena;
    const plan_work **work = bl_arena_array(arena, (size_t)c->nmade + 1, sizeof *work);

    for (int i = 0; work != NULL && i < c->nmade; i++) {
        made *m = &c->made[i];
        int like = compile_first_like(c, i);
        work[i] = plan_work_copy(arena, &c->extents, m->work, like < i ? work[like] : NULL);
        m->name = bl_arena_strdup(arena, m->name);
        m->moves = bl_arena_strdup(arena, m->moves);
    }
    c->plan->work = work;
    return bl_arena_status(arena, c->err);
}

static bl_status make_launches(compile *c)
{
    bl_plan *plan = c->plan;
    emission e = {.c = c};
    size_t n = 0;

    BL_TRY(check_grids(c));
    emit(&e, 0, c->schedule->nnests);
    if (e.end > MOST_LAUNCHES)
        return bl_fail(c->err, BL_ELIMIT, "the loops of this graph launch more than %d kernels", MOST_LAUNCHES);
    n = (size_t)e.end + 1;
    plan->nsteps = (int)e.end;
    plan->groups = bl_calloc(n, sizeof *plan->groups);
    plan->launches = e.launches = bl_arena_array(plan->arena, n, sizeof *e.launches);
    plan->steps = e.steps = bl_arena_array(plan->arena, n, sizeof *e.steps);
    e.bound = bl_arena_array(c->arena, (size_t)c->nslots + 1, sizeof *e.bound);
    e.at = bl_arena_array(c->arena, (size_t)c->schedule->nloops + 1, sizeof *e.at);
    BL_TRY(bl_arena_status(c->arena, c->err));
    BL_TRY(bl_arena_status(plan->arena, c->err));
    if (plan->groups == NULL)
        return bl_fail(c->err, BL_ENOMEM, "out of host memory for a plan");
    BL_TRY(keep_kernels(c));
    e.next_loop = 0;
    e.end = 0;
    emit(&e, 0, c->schedule->nnests);
    BL_TRY(bl_arena_status(plan->arena, c->err));
    for (int i = 0; i < plan->nsteps; i++) {
        const step *s = &plan->steps[i];
        plan->info.kernels += (uint32_t)s->kernels;
        plan->info.helpers += (uint32_t)s->helpers;
        if (!bl_i64_add(plan->info.ops, s->ops, &plan->info.ops)) /* each addend may already be saturated */
            plan->info.ops = INT64_MAX;
        if (!bl_i64_add(plan->info.bytes, s->bytes, &plan->info.bytes))
            plan->info.bytes = INT64_MAX;
        plan->info.estimate_s += compile_seconds(&c->dev->info, s->ops, s->bytes);
    }
    return BL_OK;
}

static bl_status make_parts(compile *c)
{
    bl_plan *plan = c->plan;
    double seconds = 0;

    BL_TRY(plan_census_init(&plan->census, c->nmade, plan->nsteps, c->graph->nvars, c->err));
    plan->parts = bl_arena_array(plan->arena, (size_t)plan->nsteps + 1, sizeof *plan->parts);
    BL_TRY(bl_arena_status(plan->arena, c->err));
    for (int i = 0; i < plan->nsteps; i++) {
        const step *s = &plan->steps[i];
        part *last = plan->nparts == 0 ? NULL : &plan->parts[plan->nparts - 1];
        bool elsewhere = i > 0 && plan->launches[i].kernel->dev != plan->launches[i - 1].kernel->dev;
        /* the slices of a launch are separate submissions, so the launch is a part of its own */
        bool alone = s->cut > 0 || (last != NULL && last->cut > 0);
        if (last == NULL || last->count == MOST_AT_ONCE || seconds >= SECONDS_AT_ONCE || elsewhere || alone) {
            last = &plan->parts[plan->nparts++];
            last->first = i;
            last->cut = s->cut;
            seconds = 0;
        }
        last->count++;
        plan->pauses = plan->pauses || plan->nparts > 1 || s->cut > 0;
        seconds += compile_seconds(&c->dev->info, s->ops, s->bytes);
        last->seconds = seconds;
    }
    return BL_OK;
}

bl_status compile_launches(compile *c)
{
    BL_TRY(make_launches(c));
    BL_TRY(compile_keeps(c));
    return make_parts(c);
}
