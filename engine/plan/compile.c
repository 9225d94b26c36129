/* SPDX-License-Identifier: MIT */
/* A miss: wire graph -> IR -> schedule -> moves -> linear kernels -> source -> compiled kernels -> memory plan -> recording.
 * This is the road of DESIGN's picture, one call a stage. */
#include "engine/base/clock.h"
#include "engine/base/map.h"
#include "engine/base/size.h"
#include "engine/ir/float8.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/scan.h"
#include "engine/ir/shape.h"
#include "engine/ir/text.h"
#include "engine/ir/verify.h"
#include "engine/plan/internal.h"
#include "engine/render/render.h"
#include "engine/sched/memory.h"

#include <stdlib.h>
#include <string.h>

/* A kernel to be: what one nest, or one helper of it, becomes. */
typedef struct made {
    const bl_nest *nest;
    const char *name;
    bool helper;
    const bl_node *sink;
    int nparams;
    const int *slot; /* of each parameter */
    bl_lowered *lowered;
    bl_text source;
    const char *moves;
    int64_t ops, bytes; /* of a launch */
} made;

typedef struct compile {
    const bl_wire_graph *wire;
    const bl_plan_options *options;
    bl_device *dev;
    bl_plan *plan;
    bl_ir *ir;
    bl_arena *arena;
    bl_target target;
    int nroots;
    const bl_node **roots;
    bl_schedule *schedule;
    int *first_made; /* of each nest, and where the last one's end */
    int nmade, cap_made;
    made *made;
    int nslots;
    bl_place *places; /* the schedule's, then panels */
    bl_err *err;
} compile;

/* As the setting says; builds with assertions always check. */
static int spec_level(const compile *c)
{
#ifndef NDEBUG
    return c->options->spec > 1 ? c->options->spec : 2;
#else
    return c->options->spec;
#endif
}

static bl_status verify(compile *c, int n, const bl_node *const *roots, bl_stage stage, const char *pass)
{
    int level = spec_level(c);
    return level == 0 ? BL_OK : bl_ir_verify(c->ir, n, roots, stage, pass, level, c->err);
}

/* The bodies of the scans that |roots| reach, each once. */
static void dump_bodies(compile *c, int n, const bl_node *const *roots, bl_ptrmap *seen)
{
    bl_nodes nodes = bl_reach(c->ir, n, roots, false);
    for (size_t i = 0; i < nodes.count; i++) {
        const bl_node *node = nodes.at[i];
        const bl_scan *scan = node->op == BL_OP_SCAN ? bl_scan_get(c->ir, node) : NULL;
        if (scan == NULL || bl_ptrmap_has(seen, scan))
            continue;
        bl_ptrmap_put(seen, scan, c);
        bl_text_printf(&c->plan->debug, "; body of scan %lld, %lld steps%s\n", (long long)node->arg, (long long)scan->length,
                       scan->reverse ? ", backwards" : "");
        bl_ir_print(c->ir, scan->ncarries + scan->nys, scan->root, &c->plan->debug);
        dump_bodies(c, scan->ncarries + scan->nys, scan->root, seen);
    }
}

static void dump(compile *c, int level, const char *title, int n, const bl_node *const *roots)
{
    bl_ptrmap seen;

    if (c->options->debug < level)
        return;
    bl_text_printf(&c->plan->debug, "; %s\n", title);
    bl_ir_print(c->ir, n, roots, &c->plan->debug);
    bl_ptrmap_init(&seen, c->arena);
    dump_bodies(c, n, roots, &seen);
}

/* ---- roots: outputs, then the new values of states */

static bl_status gather_roots(compile *c)
{
    const bl_graph *graph = c->plan->graph;
    int nstates = graph->nstates + graph->nhidden;

    for (int i = 0; !c->options->program && i < nstates; i++)
        graph->updates[i] = NULL; /* a run keeps nothing: the random numbers' state need not move on */

    c->roots = bl_arena_array(c->arena, (size_t)(graph->noutputs + nstates), sizeof *c->roots);
    if (c->roots == NULL)
        return bl_arena_status(c->arena, c->err);
    for (int i = 0; i < graph->noutputs + nstates; i++) {
        const bl_node *root = i < graph->noutputs ? graph->outputs[i] : graph->updates[i - graph->noutputs];
        if (root != NULL)
            c->roots[c->nroots++] = root;
    }
    dump(c, 5, "tensor graph", c->nroots, c->roots);
    bl_simplify(c->ir, c->nroots, c->roots);
    bl_lower_float8(c->ir, c->nroots, c->roots);
    BL_TRY(bl_ir_status(c->ir, c->err));
    dump(c, 5, "simplified", c->nroots, c->roots);
    return verify(c, c->nroots, c->roots, BL_STAGE_TENSOR, "simplify");
}

/* ---- kernels */

static made *add_made(compile *c)
{
    return bl_arena_reserve(c->arena, (void **)&c->made, c->nmade, &c->cap_made, sizeof *c->made) ? &c->made[c->nmade++] : NULL;
}

static const char *moves_text(compile *c, const bl_tune *tune)
{
    bl_text text = {0};
    const char *kept = NULL;
    bl_tune_print(tune, &text);
    kept = bl_arena_strdup(c->arena, text.data == NULL ? "" : text.data);
    bl_text_fini(&text);
    return kept;
}

static bl_status tune_nest(compile *c, bl_tune *tune, const bl_node *sink, int nparams, const char *name)
{
    uint32_t most = c->dev->info.max_turns;

    bl_tune_init(tune, c->ir, sink, nparams);
    if (!c->options->noopt)
        bl_heuristic(tune, &c->target);
    (void)bl_tune_limit_groups(tune, c->dev->info.max_groups); /* where it cannot be done, check_grids says so */
    if (most > 0 && !bl_tune_limit_turns(tune, most))
        return bl_fail(c->err, BL_EUNSUPPORTED, "kernel %s: %s ends loops after %u turns, and these take more", name,
                       c->dev->info.id, most);
    return BL_OK;
}

/* A panel's own kernel: it stands before the nest that reads it. */
static bl_status add_helper(compile *c, const made *of, const bl_packed *packed, int panel)
{
    bl_tune tune;
    made *m = NULL;
    int *slot = bl_arena_array(c->arena, (size_t)packed->nfrom + 1, sizeof *slot);

    BL_TRY(tune_nest(c, &tune, packed->sink, packed->nfrom + 1, of->name));
    m = add_made(c);
    if (m == NULL || slot == NULL)
        return bl_arena_status(c->arena, c->err);
    slot[0] = panel;
    for (int i = 0; i < packed->nfrom; i++)
        slot[1 + i] = of->slot[packed->from[i]];
    *m = (made){.nest = of->nest,
                .name = bl_arena_printf(c->arena, "pack_%s", of->nest->name),
                .helper = true,
                .sink = tune.sink,
                .nparams = packed->nfrom + 1,
                .slot = slot,
                .moves = moves_text(c, &tune)};
    return bl_ir_status(c->ir, c->err);
}

static bl_status add_nest(compile *c, const bl_nest *nest)
{
    bl_tune tune;
    made of = {.nest = nest, .name = nest->name, .helper = nest->helper}, *m = NULL;
    int *slot = bl_arena_array(c->arena, (size_t)nest->nparams + BL_MAX_HELPERS, sizeof *slot);

    if (slot == NULL)
        return bl_arena_status(c->arena, c->err);
    for (int i = 0; i < nest->nparams; i++)
        slot[i] = nest->param[i];
    of.slot = slot;
    dump(c, 5, nest->name, 1, &nest->sink);
    BL_TRY(verify(c, 1, &nest->sink, BL_STAGE_KERNEL, "schedule"));
    BL_TRY(tune_nest(c, &tune, nest->sink, nest->nparams, nest->name));
    for (int i = 0; i < tune.npacked; i++) {
        slot[tune.packed[i].param] = c->nslots;
        c->places[c->nslots] = (bl_place){.kind = BL_PLACE_TEMP, .dtype = tune.packed[i].dtype, .count = tune.packed[i].count};
        BL_TRY(add_helper(c, &of, &tune.packed[i], c->nslots++));
    }
    of.sink = tune.sink;
    of.nparams = tune.nparams;
    of.moves = moves_text(c, &tune);
    m = add_made(c);
    if (m == NULL)
        return bl_arena_status(c->arena, c->err);
    *m = of;
    return bl_ir_status(c->ir, c->err);
}

static bl_status make_source(compile *c, made *m)
{
    BL_TRY(verify(c, 1, &m->sink, BL_STAGE_KERNEL, "moves"));
    BL_TRY(bl_lower(c->ir, m->sink, m->name, (uint32_t)m->nparams, spec_level(c), &m->lowered, c->err));
    dump(c, 5, "expanded", 1, &m->lowered->sink);
    if (c->options->debug >= 5)
        bl_linear_print(m->lowered->linear, &c->plan->debug);
    BL_TRY(bl_render(m->lowered->linear, &c->dev->info, &m->source, c->err));
    if (c->options->debug >= 3)
        bl_text_printf(&c->plan->debug, "kernel %s: %s\n", m->name, m->moves);
    if (c->options->debug >= 4)
        bl_text_append(&c->plan->debug, m->source.data, m->source.len);
    return BL_OK;
}

static bl_kernel *same_kernel(compile *c, const made *m)
{
    for (const made *other = c->made; other < m; other++) {
        if (other->source.len == m->source.len && memcmp(other->source.data, m->source.data, m->source.len) == 0)
            return c->plan->kernels[other - c->made];
    }
    return NULL;
}

static bl_status make_kernel(compile *c, const made *m)
{
    const bl_linear *linear = m->lowered->linear;
    bl_kernel **out = &c->plan->kernels[m - c->made];
    bl_kernel_source source = {.entry = m->name,
                               .text = m->source.data,
                               .len = m->source.len,
                               .linear = linear,
                               .nbuffers = linear->nbuffers,
                               .nscalars = linear->nscalars,
                               .writes = linear->writes,
                               .local_bytes = linear->local_bytes};

    memcpy(source.local, linear->local, sizeof source.local);
    *out = same_kernel(c, m);
    if (*out != NULL)
        return BL_OK;
    return bl_kernel_create(c->dev, &source, out, c->err);
}

static void disassemble(compile *c)
{
    for (int i = 0; i < c->nmade && c->options->debug >= 7 && c->dev->ops->disassemble != NULL; i++) {
        char *text = c->dev->ops->disassemble(c->plan->kernels[i]);
        if (text != NULL)
            bl_text_printf(&c->plan->debug, "; %s\n%s\n", c->made[i].name, text);
        free(text);
    }
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
        live_in(&lives[loop->carries[i].last], first, last);
        live_in(&lives[loop->carries[i].other], first, last);
    }
}

/* What is there before a loop, or after it, or goes from step to step, is there all the while. */
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

/* When each place that is neither input nor root is first written and last read. */
static bl_status place_memory(compile *c, size_t *offset)
{
    bl_lifetime *lives = bl_arena_array(c->arena, (size_t)c->nslots, sizeof *lives);

    BL_TRY(bl_arena_status(c->arena, c->err));
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
    c->plan->scratch_bytes =
        bl_memory_plan(c->nslots, lives, c->dev->info.alignment < 64 ? 64 : c->dev->info.alignment, c->arena);
    for (int i = 0; i < c->nslots; i++)
        offset[i] = lives[i].first <= lives[i].last ? lives[i].offset : SIZE_MAX;
    if (c->plan->scratch_bytes > c->dev->info.max_alloc)
        return bl_fail(c->err, BL_ENODEVMEM, "the graph needs %zu bytes for intermediate results at once, %s gives out %llu",
                       c->plan->scratch_bytes, c->dev->info.id, (unsigned long long)c->dev->info.max_alloc);
    return bl_arena_status(c->arena, c->err);
}

/* How many elements a slot has at the largest sizes. */
static int64_t slot_elements(const compile *c, int slot)
{
    const bl_graph *graph = c->plan->graph;
    const bl_place *place = &c->places[slot];
    int64_t count = place->count == NULL ? 0 : place->count->hi;

    if (place->kind == BL_PLACE_INPUT && slot < graph->ninputs + graph->nstates + graph->nhidden)
        (void)bl_shape_max_count(graph->inputs[slot]->ndim, graph->inputs[slot]->dim, &count);
    return count;
}

/* A kernel may see less of a buffer than the device can allocate (128 MiB on lavapipe). */
static bl_status check_bindings(compile *c)
{
    uint64_t most = c->dev->info.max_binding;

    for (int i = 0; i < c->nslots; i++) {
        const bl_place *place = &c->places[i];
        int64_t count = slot_elements(c, i);
        if (most > 0 && (uint64_t)count > most / bl_dtype_bytes(place->dtype))
            return bl_fail(c->err, BL_EUNSUPPORTED,
                           "%s lets a kernel see %llu bytes of a tensor; one here has %lld elements of %s", c->dev->info.id,
                           (unsigned long long)most, (long long)count, bl_dtype_name(place->dtype));
    }
    return BL_OK;
}

/* Named dimensions, then the numbers that a loop's steps have: a launch names the one that it is at. */
static bl_status make_vars(compile *c)
{
    bl_plan *plan = c->plan;
    int64_t steps = 0;

    for (int i = 0; i < c->schedule->nloops; i++)
        steps = c->schedule->loops[i].steps > steps ? c->schedule->loops[i].steps : steps;
    if (steps > UINT16_MAX - plan->graph->nvars)
        return bl_fail(c->err, BL_ELIMIT, "a scan of %lld steps; at most %d", (long long)steps, UINT16_MAX - plan->graph->nvars);
    plan->nvars = plan->graph->nvars + (int)steps;
    plan->vars = bl_calloc((size_t)plan->nvars + 1, sizeof *plan->vars);
    if (plan->vars == NULL)
        return bl_fail(c->err, BL_ENOMEM, "plan");
    for (int i = 0; i < (int)steps; i++)
        plan->vars[plan->graph->nvars + i] = i;
    return BL_OK;
}

static bl_status make_slots(compile *c)
{
    bl_plan *plan = c->plan;
    size_t *offset = bl_arena_array(c->arena, (size_t)c->nslots + 1, sizeof *offset);
    const bl_node **count = bl_arena_array(c->arena, (size_t)c->nslots + 1, sizeof *count);
    bl_dtype *dtype = bl_arena_array(c->arena, (size_t)c->nslots + 1, sizeof *dtype);

    BL_TRY(bl_arena_status(c->arena, c->err));
    if (c->nslots > UINT16_MAX) /* what a launch names them by */
        return bl_fail(c->err, BL_ELIMIT, "the graph needs %d buffers, at most %d", c->nslots, UINT16_MAX);
    BL_TRY(check_bindings(c));
    BL_TRY(place_memory(c, offset));
    for (int i = 0; i < c->nslots; i++) {
        count[i] = c->places[i].kind == BL_PLACE_INPUT ? NULL : c->places[i].count;
        dtype[i] = c->places[i].dtype;
    }
    plan->nslots = c->nslots;
    plan->nroots = c->nroots;
    plan->root_slot = c->schedule->root_place;
    plan->slot_offset = offset;
    plan->slot_count = count;
    plan->slot_dtype = dtype;
    plan->slots = bl_calloc((size_t)c->nslots + 1, sizeof *plan->slots);
    if (plan->slots == NULL)
        return bl_fail(c->err, BL_ENOMEM, "plan");
    return make_vars(c);
}

/* ---- launches, which the worker thread records before the first run */

enum { MOST_LAUNCHES = 1 << 16, MOST_AT_ONCE = 2048, BYTES_A_LAUNCH = 1500 /* measured on PoCL and lavapipe */ };
#define SECONDS_AT_ONCE 0.25 /* by the estimate */

/* Going through the nests in the order they run, loops as often as they have steps. */
typedef struct emission {
    compile *c;
    int next_loop;
    int *bound;  /* of each CARRY place: the place that it is at this step */
    int *at;     /* of each VAR that counts steps, by depth: where plan->vars has its value */
    int depth;   /* loops around */
    int64_t end; /* launches so far */
    bl_launch *launches;
    step *steps;
} emission;

static void emit_launch(emission *e, int which)
{
    const compile *c = e->c;
    const made *m = &c->made[which];
    bl_launch *launch = &e->launches[e->end];
    int nvars = c->plan->graph->nvars;

    e->steps[e->end] =
        (step){.name = m->name, .helper = m->helper, .moves = m->moves, .kernel = which, .ops = m->ops, .bytes = m->bytes};
    memcpy(e->steps[e->end].grid, m->lowered->grid, sizeof m->lowered->grid);
    launch->kernel = c->plan->kernels[which];
    for (int k = 0; k < m->nparams; k++) {
        const bl_place *place = &c->places[m->slot[k]];
        launch->slot[k] = (uint16_t)(place->kind == BL_PLACE_CARRY ? e->bound[m->slot[k]] : m->slot[k]);
    }
    for (int k = 0; k < m->lowered->nvars && k < BL_MAX_SCALARS; k++) {
        int var = m->lowered->vars[k];
        launch->var[k] = (uint16_t)(var < nvars ? var : e->at[var - nvars]);
    }
}

static int bound_place(const emission *e, int place)
{
    return e->c->places[place].kind == BL_PLACE_CARRY ? e->bound[place] : place;
}

static void bind_step(emission *e, const bl_loop *loop, int64_t now)
{
    e->at[e->depth] = e->c->plan->graph->nvars + (int)(loop->reverse ? loop->steps - 1 - now : now);
    for (int i = 0; i < loop->ncarries; i++) {
        const bl_carry *carry = &loop->carries[i];
        bool even = (loop->steps - 1 - now) % 2 == 0; /* as the last step is */
        e->bound[carry->out] = bound_place(e, even ? carry->last : carry->other);
        e->bound[carry->in] = bound_place(e, now == 0 ? carry->init : even ? carry->other : carry->last);
    }
}

/* Nests [first, end); without |launches| they are only counted, and too many end the count. */
static void emit(emission *e, int first, int end)
{
    const bl_schedule *schedule = e->c->schedule;

    while (first < end && e->end <= MOST_LAUNCHES) {
        const bl_loop *loop = e->next_loop < schedule->nloops ? &schedule->loops[e->next_loop] : NULL;
        if (loop != NULL && loop->first == first && loop->end <= end) {
            int inside = ++e->next_loop;
            for (int64_t i = 0; i < loop->steps && e->end <= MOST_LAUNCHES; i++) {
                if (e->launches != NULL)
                    bind_step(e, loop, i);
                e->next_loop = inside;
                e->depth++;
                emit(e, first, loop->end);
                e->depth--;
            }
            first = loop->end;
            continue;
        }
        for (int i = e->c->first_made[first]; i < e->c->first_made[first + 1]; i++) {
            if (e->launches != NULL)
                emit_launch(e, i);
            e->end++;
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
                return bl_fail(c->err, BL_ELIMIT, "kernel %s needs %lld groups, %s launches at most %u", c->made[i].name,
                               (long long)most, c->dev->info.id, c->dev->info.max_groups[k]);
        }
    }
    return BL_OK;
}

/* What one launch of each kernel costs. */
static bl_status estimate(compile *c)
{
    const bl_graph *graph = c->plan->graph;

    for (int i = 0; i < c->nmade; i++) {
        made *m = &c->made[i];
        plan_cost cost;
        BL_TRY(plan_estimate(c->arena, m->lowered, graph->nvars, graph->vars, &cost, c->err));
        m->ops = cost.ops;
        for (int k = 0; k < m->nparams; k++) {
            int64_t whole = slot_elements(c, m->slot[k]) * (int64_t)bl_dtype_bytes(c->places[m->slot[k]].dtype);
            m->bytes += cost.moved[k] < whole ? cost.moved[k] : whole; /* what is read again comes from a cache */
        }
    }
    return BL_OK;
}

static bl_status make_launches(compile *c)
{
    bl_plan *plan = c->plan;
    emission e = {.c = c};
    size_t n = 0;

    BL_TRY(check_grids(c));
    BL_TRY(estimate(c));
    emit(&e, 0, c->schedule->nnests);
    if (e.end > MOST_LAUNCHES)
        return bl_fail(c->err, BL_ELIMIT, "the loops of this graph launch more than %d kernels", MOST_LAUNCHES);
    n = (size_t)e.end + 1;
    plan->nsteps = (int)e.end;
    plan->groups = bl_calloc(n, sizeof *plan->groups);
    plan->launches = e.launches = bl_arena_array(c->arena, n, sizeof *e.launches);
    plan->steps = e.steps = bl_arena_array(c->arena, n, sizeof *e.steps);
    e.bound = bl_arena_array(c->arena, (size_t)c->nslots + 1, sizeof *e.bound);
    e.at = bl_arena_array(c->arena, (size_t)c->schedule->nloops + 1, sizeof *e.at);
    BL_TRY(bl_arena_status(c->arena, c->err));
    if (plan->groups == NULL)
        return bl_fail(c->err, BL_ENOMEM, "plan");
    e.next_loop = 0;
    e.end = 0;
    emit(&e, 0, c->schedule->nnests);
    for (int i = 0; i < plan->nsteps; i++) {
        const step *s = &plan->steps[i];
        plan->info.kernels += !s->helper;
        plan->info.helpers += s->helper;
        if (!bl_i64_add(plan->info.ops, s->ops, &plan->info.ops)) /* each may be all that can be counted already */
            plan->info.ops = INT64_MAX;
        if (!bl_i64_add(plan->info.bytes, s->bytes, &plan->info.bytes))
            plan->info.bytes = INT64_MAX;
        plan->info.estimate_s += plan_seconds(&c->dev->info, s->ops, s->bytes);
    }
    return BL_OK;
}

static bl_status make_parts(compile *c)
{
    bl_plan *plan = c->plan;
    double seconds = 0;

    plan->parts = bl_arena_array(c->arena, (size_t)plan->nsteps + 1, sizeof *plan->parts);
    BL_TRY(bl_arena_status(c->arena, c->err));
    for (int i = 0; i < plan->nsteps; i++) {
        const step *s = &plan->steps[i];
        part *last = plan->nparts == 0 ? NULL : &plan->parts[plan->nparts - 1];
        if (last == NULL || last->count == MOST_AT_ONCE || seconds >= SECONDS_AT_ONCE) {
            last = &plan->parts[plan->nparts++];
            last->first = i;
            seconds = 0;
        }
        last->count++;
        seconds += plan_seconds(&c->dev->info, s->ops, s->bytes);
    }
    return BL_OK;
}

/* ---- what the caller learns */

static bl_plan_tensor *describe(compile *c, int n, const bl_node *const *nodes)
{
    bl_plan_tensor *all = bl_arena_array(c->arena, (size_t)n + 1, sizeof *all);
    for (int i = 0; all != NULL && i < n; i++)
        all[i] = (bl_plan_tensor){.dtype = (bl_dtype)nodes[i]->dtype, .ndim = nodes[i]->ndim, .dim = nodes[i]->dim};
    return all;
}

static bl_status fill_info(compile *c)
{
    const bl_graph *graph = c->plan->graph;
    bl_plan_info *info = &c->plan->info;
    int nstates = graph->nstates + graph->nhidden;
    bool *updated = bl_arena_array(c->arena, (size_t)nstates + 1, sizeof *updated);
    int64_t *lo = bl_arena_array(c->arena, (size_t)graph->nvars + 1, sizeof *lo);
    int64_t *hi = bl_arena_array(c->arena, (size_t)graph->nvars + 1, sizeof *hi);
    bl_plan_tensor *hidden = describe(c, graph->nhidden, graph->inputs + graph->ninputs + graph->nstates);

    info->inputs = describe(c, graph->ninputs, graph->inputs);
    info->states = describe(c, graph->nstates, graph->inputs + graph->ninputs);
    info->outputs = describe(c, graph->noutputs, graph->outputs);
    BL_TRY(bl_arena_status(c->arena, c->err));
    for (int i = 0; i < graph->nhidden; i++) {
        hidden[i].name = graph->hidden[i].name;
        hidden[i].init = graph->hidden[i].init;
    }
    for (int i = 0; i < nstates; i++)
        updated[i] = graph->updates[i] != NULL;
    for (int i = 0; i < graph->nvars; i++) {
        lo[i] = graph->vars[i].lo;
        hi[i] = graph->vars[i].hi;
    }
    info->hidden = hidden;
    info->device = c->dev->info.id;
    info->ninputs = graph->ninputs;
    info->nstates = graph->nstates;
    info->nhidden = graph->nhidden;
    info->noutputs = graph->noutputs;
    info->nvars = graph->nvars;
    info->updated = updated;
    info->var_lo = lo;
    info->var_hi = hi;
    info->peak_bytes = c->plan->scratch_bytes;
    info->uses_rng = graph->uses_rng;
    info->debug = c->plan->debug.data == NULL ? "" : c->plan->debug.data;
    return BL_OK;
}

static bl_target target_of(const bl_device_info *info)
{
    return (bl_target){.groups = info->subgroup > 1,
                       .cpu = info->type == BL_DEVICE_CPU,
                       .units = info->units == 0 ? 1 : info->units,
                       .vector_bits = info->vector_bits,
                       .max_lanes = info->max_lanes,
                       .registers = info->registers,
                       .cache_bytes = info->cache_bytes == 0 ? 512 * 1024 : info->cache_bytes,
                       .last_cache_bytes = info->last_cache_bytes,
                       .subgroup = info->subgroup,
                       .max_local = info->max_local,
                       .local_bytes = info->local_bytes,
                       .max_params = BL_MAX_BINDINGS};
}

/* Everything that needs no driver: its time is info.engine_ms. */
static bl_status compile_to_source(compile *c)
{
    bl_sched_options options = {
        .units = c->target.units, .max_params = BL_MAX_BINDINGS - BL_MAX_HELPERS, .first_var = c->wire->nvars};
    bl_front_options front = {.program = c->options->program,
                              .max_bytes = c->options->max_compile_bytes,
                              .max_seconds = c->options->max_compile_seconds};

    BL_TRY(bl_front_build(c->wire, &front, &c->plan->graph, c->err));
    c->ir = c->plan->graph->ir;
    c->arena = bl_ir_arena(c->ir);
    BL_TRY(gather_roots(c));
    BL_TRY(bl_schedule_make(c->ir, c->nroots, c->roots, &options, &c->schedule, c->err));
    c->nslots = c->schedule->nplaces;
    c->places = bl_arena_array(c->arena, (size_t)(c->nslots + c->schedule->nnests * BL_MAX_HELPERS), sizeof *c->places);
    c->first_made = bl_arena_array(c->arena, (size_t)c->schedule->nnests + 1, sizeof *c->first_made);
    BL_TRY(bl_arena_status(c->arena, c->err));
    memcpy(c->places, c->schedule->places, (size_t)c->nslots * sizeof *c->places);
    for (int i = 0; i < c->schedule->nnests; i++) {
        c->first_made[i] = c->nmade;
        BL_TRY(add_nest(c, &c->schedule->nests[i]));
    }
    c->first_made[c->schedule->nnests] = c->nmade;
    for (int i = 0; i < c->nmade; i++)
        BL_TRY(make_source(c, &c->made[i]));
    return BL_OK;
}

static bl_status compile_all(compile *c)
{
    int64_t start = bl_clock_ns(), source_done = 0;

    BL_TRY(compile_to_source(c));
    source_done = bl_clock_ns();
    c->plan->kernels = bl_calloc((size_t)c->nmade + 1, sizeof *c->plan->kernels);
    if (c->plan->kernels == NULL)
        return bl_fail(c->err, BL_ENOMEM, "plan");
    c->plan->nkernels = c->nmade;
    for (int i = 0; i < c->nmade; i++)
        BL_TRY(make_kernel(c, &c->made[i]));
    disassemble(c);
    BL_TRY(make_slots(c));
    BL_TRY(make_launches(c));
    BL_TRY(make_parts(c));
    if (c->options->debug >= 1)
        bl_text_printf(&c->plan->debug,
                       "scheduled %u kernels and %u helpers in %.2f ms, compiled in %.2f ms, %zu bytes of scratch\n",
                       c->plan->info.kernels, c->plan->info.helpers, bl_clock_ms(start, source_done),
                       bl_clock_ms(source_done, bl_clock_ns()), c->plan->scratch_bytes);
    BL_TRY(fill_info(c));
    c->plan->info.engine_ms = bl_clock_ms(start, source_done);
    c->plan->info.compile_ms = bl_clock_ms(start, bl_clock_ns());
    return bl_ir_status(c->ir, c->err);
}

bl_status plan_compile(const bl_wire_graph *wire, bl_device *dev, const bl_plan_options *options, bl_plan **out, bl_err *err)
{
    compile c = {.wire = wire, .options = options, .dev = dev, .target = target_of(&dev->info), .err = err};
    bl_status st = BL_OK;

    *out = NULL;
    c.plan = bl_calloc(1, sizeof *c.plan);
    if (c.plan == NULL)
        return bl_fail(err, BL_ENOMEM, "plan");
    atomic_init(&c.plan->refs, 1);
    c.plan->dev = dev;
    st = compile_all(&c);
    for (int i = 0; i < c.nmade; i++)
        bl_text_fini(&c.made[i].source);
    if (st == BL_OK)
        *out = c.plan;
    else
        plan_destroy(c.plan);
    return st;
}

size_t plan_host_bytes(const bl_plan *plan)
{
    return bl_arena_used(bl_ir_arena(plan->graph->ir)) + (size_t)plan->nsteps * BYTES_A_LAUNCH;
}

void plan_unbind_scratch(bl_plan *plan)
{
    for (int i = 0; plan->slots != NULL && i < plan->nslots; i++) {
        if (plan->slot_offset[i] == SIZE_MAX)
            continue;
        bl_buffer_release(plan->slots[i]);
        plan->slots[i] = NULL;
    }
    bl_buffer_release(plan->scratch);
    plan->scratch = NULL;
}

void plan_destroy(bl_plan *plan)
{
    if (plan == NULL)
        return;
    for (int i = 0; i < plan->nparts; i++)
        bl_recording_destroy(plan->parts[i].recording);
    for (int i = 0; i < plan->nkernels; i++) {
        bool shared = false;
        for (int k = 0; k < i; k++)
            shared = shared || plan->kernels[k] == plan->kernels[i];
        if (!shared && plan->kernels[i] != NULL)
            bl_kernel_destroy(plan->kernels[i]);
    }
    plan_unbind_scratch(plan);
    free(plan->kernels);
    free(plan->slots);
    free(plan->vars);
    free(plan->groups);
    bl_text_fini(&plan->debug);
    bl_graph_destroy(plan->graph);
    free(plan);
}
