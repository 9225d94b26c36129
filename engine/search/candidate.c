/* SPDX-License-Identifier: MIT */
/* Candidates: a nest with a list of moves, rendered as kernels that can be timed. */
#include "engine/base/fault.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/shape.h"
#include "engine/ir/verify.h"
#include "engine/render/render.h"
#include "engine/search/search_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CANDIDATE_BYTES = 1 << 28 }; /* limit of host memory per candidate; excessive unrolling exceeds the limit */

/* ---- the nest that is searched */

static bl_trial_fill fill_of(bl_dtype dtype)
{
    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        return dtype == BL_F16 ? BL_TRIAL_F16 : dtype == BL_BF16 ? BL_TRIAL_BF16 : dtype == BL_F64 ? BL_TRIAL_F64 : BL_TRIAL_F32;
    case BL_KIND_INT:
    case BL_KIND_UINT:
    case BL_KIND_BOOL:
        break;
    }
    return BL_TRIAL_INTEGERS;
}

bool subject_init(subject *s, const bl_search_nest *nest, int spec)
{
    uint64_t bytes = 0, room = nest->dev->info.memory / 2;

    *s = (subject){.nest = nest, .spec = spec};
    s->nodes = bl_reach(nest->ir, 1, &nest->sink, false);
    if (s->nodes.count == 0 || nest->nparams > BL_MAX_BINDINGS)
        return false;
    for (size_t i = 0; i < s->nodes.count; i++) {
        const bl_node *node = s->nodes.at[i];
        if (node->op == BL_OP_VAR && node->arg >= MOST_VARS)
            return false;
        if (node->op == BL_OP_VAR)
            s->vars[node->arg] = node->hi;
        if (node->op != BL_OP_BUFFER || node->arg >= nest->nparams)
            continue;
        bl_trial_buffer *buffer = &s->buffer[node->arg];
        int64_t count = nest->elements[node->arg];
        buffer->fill = fill_of((bl_dtype)node->dtype);
        buffer->result = (nest->writes >> node->arg & 1) != 0;
        if (count <= 0 || (uint64_t)count > room / bl_dtype_bytes((bl_dtype)node->dtype))
            return false;
        buffer->bytes = (size_t)count * bl_dtype_bytes((bl_dtype)node->dtype);
        bytes += buffer->bytes;
        if (bytes > room || buffer->bytes > nest->dev->info.max_alloc)
            return false;
    }
    return true;
}

bool subject_tune(const subject *s, bl_ir *ir, bl_tune *tune)
{
    bl_ptrmap made;
    const bl_node *sink = NULL;

    bl_ptrmap_init(&made, bl_ir_arena(ir));
    for (size_t i = 0; i < s->nodes.count; i++) {
        bl_node proto = *s->nodes.at[i];
        const bl_node **src = bl_arena_array(bl_ir_arena(ir), proto.nsrc, sizeof *src);
        if (src == NULL)
            return false;
        for (uint32_t k = 0; k < proto.nsrc; k++)
            src[k] = bl_ptrmap_get(&made, proto.src[k]);
        proto.src = src;
        sink = bl_node_make(ir, &proto);
        bl_ptrmap_put(&made, s->nodes.at[i], sink);
    }
    if (bl_ir_status(ir, NULL) != BL_OK || bl_arena_status(bl_ir_arena(ir), NULL) != BL_OK)
        return false;
    bl_tune_init(tune, ir, sink, s->nest->nparams);
    return true;
}

/* ---- steps */

/* Is the axis still a loop? Lanes and unrolled copies are not split again. */
static bool candidate_is_loop(const bl_node *range)
{
    return range->sub == BL_AXIS_GLOBAL || range->sub == BL_AXIS_LOOP || range->sub == BL_AXIS_REDUCE;
}

bool steps_apply(bl_tune *tune, const steps *what)
{
    for (int i = 0; i < what->n; i++) {
        const bl_move *s = &what->at[i];
        bl_move_what kind = bl_move_rows[s->kind].what;
        int at = bl_tune_find(tune, kind, s->what);
        if (at < 0 || (kind == BL_WHAT_AXIS && !candidate_is_loop(tune->axis[at].range)) ||
            !bl_tune_apply_at(tune, s->kind, at, s->size))
            return false;
    }
    return true;
}

/* ---- kernels */

/* The verification level: the level of the options, but at least 2 in builds with assertions. */
static int spec_level(const subject *s)
{
#ifndef NDEBUG
    return s->spec > 1 ? s->spec : 2;
#else
    return s->spec;
#endif
}

/* Add one launch to the candidate; |slot| has the buffer of each parameter. */
static bool candidate_add_launch(candidate *c, const subject *s, const char *entry, const bl_node *sink, int nparams,
                                 const int *slot, bl_tune *tune, bl_err *err)
{
    const bl_device_info *info = &s->nest->dev->info;
    bl_trial_launch *launch = &c->trial.launch[c->trial.nlaunches];
    bl_lowered *lowered = NULL;
    bl_text text = {0};
    uint64_t items = 1;
    int level = spec_level(s);

    if (level > 0 && bl_ir_verify(c->ir, 1, &sink, BL_STAGE_KERNEL, "moves", level, err) != BL_OK)
        return false;
    if (bl_lower(c->ir, sink, entry, (uint32_t)nparams, level, &lowered, err) != BL_OK ||
        bl_render(lowered->linear, info, &text, err) != BL_OK || !measure_add(&c->measure, s, tune, lowered)) {
        bl_text_fini(&text);
        return false;
    }
    const bl_linear *linear = lowered->linear;
    c->trial.nlaunches++;
    launch->source = bl_render_source(linear, info, NULL, text.len);
    launch->source.text = bl_text_take(&text);
    for (int i = 0; i < nparams; i++)
        launch->slot[i] = (uint16_t)slot[i];
    for (int i = 0; i < lowered->nvars && i < BL_MAX_SCALARS; i++)
        launch->scalar[i] = (int32_t)s->vars[lowered->vars[i]];
    for (int i = 0; i < 3; i++) {
        int64_t groups = bl_extent_eval(lowered->grid[i], s->vars);
        launch->groups[i] = (uint32_t)groups;
        items *= linear->local[i];
        if (groups < 1 || groups > info->max_groups[i])
            return false;
    }
    c->hash = bl_hash_bytes(launch->source.text, launch->source.len, c->hash);
    c->hash = bl_hash_bytes(launch->groups, sizeof launch->groups, c->hash);
    return items <= info->max_local && linear->local_bytes <= info->local_bytes;
}

static bool add_panel(candidate *c, const subject *s, const bl_packed *packed)
{
    int64_t count = bl_extent_eval(packed->count, s->vars);

    if (count < 1 || (uint64_t)count > s->nest->dev->info.max_alloc / bl_dtype_bytes(packed->dtype))
        return false;
    c->panel[c->npanels++] =
        (bl_trial_buffer){.bytes = (size_t)count * bl_dtype_bytes(packed->dtype), .fill = fill_of(packed->dtype)};
    return true;
}

/* Add a kernel of the tuned nest. The heuristic chooses the moves of a helper, as in the compiler. */
static bool candidate_add_kernel(candidate *c, const subject *s, bl_tune *tune, const bl_tuned_kernel *kernel, const int *slot,
                                 bl_err *err)
{
    const char *entry = bl_arena_printf(bl_ir_arena(c->ir), "%s%s", kernel->prefix, s->nest->name);
    bl_tune helper;

    if (entry == NULL || kernel->nparams > BL_MAX_BINDINGS)
        return false;
    if (kernel->helper == NULL)
        return candidate_add_launch(c, s, entry, kernel->sink, kernel->nparams, slot, tune, err);
    bl_tune_init(&helper, c->ir, kernel->sink, kernel->nparams);
    bl_heuristic(&helper, s->nest->target);
    return bl_search_fit(&helper, &s->nest->dev->info) &&
           candidate_add_launch(c, s, entry, helper.sink, kernel->nparams, kernel->slot, NULL, err);
}

static bool candidate_render(candidate *c, const subject *s, bl_tune *tune, bl_err *err)
{
    bl_tuned_kernel kernel[BL_MAX_HELPERS + 1];
    int slot[BL_MAX_BINDINGS], n = 0;

    if (tune->nparams > BL_MAX_BINDINGS || tune->npacked + 1 > BL_TRIAL_LAUNCHES)
        return false;
    for (int i = 0; i < tune->nparams; i++)
        slot[i] = i; /* panels are the last parameters, in order */
    for (int i = 0; i < tune->npacked; i++)
        if (!add_panel(c, s, &tune->packed[i]))
            return false;
    n = bl_tune_list_kernels(tune, slot, kernel);
    for (int i = 0; i < n; i++)
        if (!candidate_add_kernel(c, s, tune, &kernel[i], slot, err))
            return false;
    return bl_ir_status(c->ir, err) == BL_OK;
}

candidate *candidate_make(const subject *s, const steps *what, const bl_target *target, bl_err *err)
{
    candidate *c = bl_calloc(1, sizeof *c);
    bl_tune tune;
    bool good = false;

    if (c == NULL || (c->ir = bl_ir_create(MOST_CANDIDATE_BYTES)) == NULL || !subject_tune(s, c->ir, &tune)) {
        candidate_destroy(c);
        return NULL;
    }
    if (what == NULL) {
        bl_heuristic(&tune, target);
        good = true;
    } else {
        good = steps_apply(&tune, what);
    }
    c->steps.n = tune.nmoves;
    memcpy(c->steps.at, tune.moves, sizeof c->steps.at);
    good = good && bl_search_fit(&tune, &s->nest->dev->info) && candidate_render(c, s, &tune, err);
    c->nmoves = tune.nmoves;
    memcpy(c->moves, tune.moves, sizeof c->moves);
    if (good)
        return c;
    candidate_destroy(c);
    return NULL;
}

void candidate_strip(candidate *c)
{
    for (int i = 0; i < BL_TRIAL_LAUNCHES; i++) {
        free((void *)(uintptr_t)c->trial.launch[i].source.text);
        c->trial.launch[i].source = (bl_kernel_source){0};
    }
    c->trial.nlaunches = 0;
    bl_ir_destroy(c->ir);
    c->ir = NULL;
}

void candidate_destroy(candidate *c)
{
    if (c == NULL)
        return;
    candidate_strip(c);
    free(c);
}

/* ---- functions that the compiler uses too */

bool bl_search_fit(bl_tune *tune, const bl_device_info *info)
{
    (void)bl_tune_limit_groups(tune, info->max_groups); /* if the limit cannot be met, the launch reports the error */
    return info->max_turns == 0 || bl_tune_limit_turns(tune, info->max_turns);
}

static bl_matrix matrix_of(const bl_matrix_unit *unit)
{
    static const uint8_t dtype[] = {[BL_UNIT_F16] = BL_F16, [BL_UNIT_BF16] = BL_BF16, [BL_UNIT_I8] = BL_I8, [BL_UNIT_U8] = BL_U8};
    bool whole = unit->dtype == BL_UNIT_I8 || unit->dtype == BL_UNIT_U8;
    uint8_t all = 1 << BL_MATRIX_A_ROWS | 1 << BL_MATRIX_A_COLUMNS | 1 << BL_MATRIX_B_ROWS | 1 << BL_MATRIX_B_COLUMNS;

    return (bl_matrix){.m = unit->m,
                       .n = unit->n,
                       .k = unit->k,
                       .scope = unit->scope,
                       .group = unit->group,
                       .layouts = unit->group > 1 ? 1 << BL_MATRIX_A_ROWS | 1 << BL_MATRIX_B_GROUPS : all,
                       .from = dtype[unit->dtype],
                       .to = whole ? BL_I32 : BL_F32};
}

bl_target bl_search_target(const bl_device_info *info)
{
    bl_target target = {.groups = info->subgroup <= 1   ? BL_GROUP_OF_ONE
                                  : info->serial_groups ? BL_GROUP_SERIAL
                                                        : BL_GROUP_PARALLEL,
                        .units = info->units == 0 ? 1 : info->units,
                        .vector_bits = info->vector_bits,
                        .max_lanes = info->max_lanes,
                        .registers = info->registers,
                        .cache_bytes = info->cache_bytes == 0 ? 512 * 1024 : info->cache_bytes,
                        .last_cache_bytes = info->last_cache_bytes,
                        .subgroup = info->subgroup,
                        .max_local = info->max_local,
                        .local_bytes = info->local_bytes,
                        .max_params = info->max_bindings > 0 ? info->max_bindings : BL_MAX_BINDINGS,
                        .max_turns = info->max_turns,
                        .converts_half = info->converts_half,
                        .masks = info->masks,
                        .fragments = info->fragments,
                        .use = BL_MATRIX_SURE};

    for (uint32_t i = 0; i < info->nmatrix && i < sizeof target.matrix / sizeof target.matrix[0]; i++) {
        target.matrix[target.nmatrix++] = (bl_target_unit){matrix_of(&info->matrix[i]), info->matrix[i].rate};
    }
    return target;
}
