/* SPDX-License-Identifier: MIT */
/* BLOCK: the stages of a nest are computed for several rows at a time, so that a register tile of rows shares the operand that a
 * product reads. */
#include "engine/ir/rewrite.h"
#include "engine/ir/stage.h"
#include "engine/opt/opt_internal.h"

#include <limits.h>

enum {
    LINE = 64, /* bytes: a row is rounded up to whole cache lines, so that the lanes of all rows are aligned alike */
    SAME_SET =
        4096, /* bytes: rows at multiples of this distance share few sets of a first-level cache, so each gets a line more */
};

bool tune_holds_stage(bl_tune *tune, const bl_node *range)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_STAGE && bl_depends(tune, below.at[i], range))
            return true;
    }
    return false;
}

/* The distance between two rows of a STAGE, in elements. */
static int64_t row_elements(const bl_node *stage)
{
    int64_t n = bl_stage_elements(stage), bytes = (int64_t)bl_dtype_local_bytes((bl_dtype)stage->dtype);

    n = (n * bytes + LINE - 1) / LINE * LINE;
    return (n % SAME_SET == 0 ? n + LINE : n) / bytes;
}

/* Will every element be written once?  A stage may then replace a stage that it is computed from.  Axes that are not split yet
 * count as if they get the most lanes that exist. */
static bool block_is_exact(const bl_tune *tune)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (tune->axis[i].stage && (!bl_is_fixed(range) || bl_extent_of(range) % BL_MAX_LANES != 0))
            return false;
    }
    return true;
}

int64_t tune_block_bytes(bl_tune *tune, const bl_node *range, int64_t *each)
{
    int64_t most[BL_MAX_STAGES] = {0}, once = 0;
    bl_stage_memory plan;

    *each = 0;
    if (!bl_stage_memory_plan(tune->ir, tune->sink, &tune->free, block_is_exact(tune), &plan))
        return INT64_MAX;
    for (int i = 0; i < plan.nstages; i++) {
        const bl_node *stage = plan.stage[i];
        int64_t bytes = row_elements(stage) * (int64_t)bl_dtype_local_bytes((bl_dtype)stage->dtype),
                more = bytes - most[plan.memory[i]];
        if (more <= 0)
            continue;
        most[plan.memory[i]] = bytes;
        *(bl_depends(tune, stage, range) ? each : &once) += more;
    }
    return once;
}

bool tune_has_room(bl_tune *tune)
{
    bl_stage_memory plan;
    return bl_stage_memory_plan(tune->ir, tune->sink, &tune->free, true, &plan) &&
           bl_stage_memory_bytes(&plan) <= tune->local_bytes;
}

/* Does |stage| store sums over its own loops, as a product does? */
static bool reduces(bl_tune *tune, const bl_node *stage)
{
    bl_nodes phase = tune_reach_phase(tune->ir, (int)stage->arg, stage->src);
    uint64_t own = bl_free_bound(&tune->free, stage);

    for (size_t i = 0; i < phase.count; i++) {
        if (phase.at[i]->op == BL_OP_REDUCE && (bl_free_get(&tune->free, phase.at[i]) & own) != 0)
            return true;
    }
    return false;
}

/* The stage's own loop over the rows.  In a product, the loop is innermost, so that all rows use the operand that is read for a
 * column.  Otherwise the loop is outermost, and the contiguous axis is innermost. */
static const bl_node *row_range(bl_tune *tune, const bl_node *stage, const bl_node *row)
{
    int first = INT_MAX, last = 0; /* origins */
    bool innermost = (int64_t)stage->nsrc == stage->arg || reduces(tune, stage);

    for (uint32_t i = (uint32_t)stage->arg; i < stage->nsrc; i++) {
        first = bl_axis_origin(stage->src[i]) < first ? bl_axis_origin(stage->src[i]) : first;
        last = bl_axis_origin(stage->src[i]) > last ? bl_axis_origin(stage->src[i]) : last;
    }
    for (int i = 0; (int64_t)stage->nsrc == stage->arg && i < tune->naxes; i++) /* a loop after all others */
        last = bl_axis_origin(tune->axis[i].range) > last ? bl_axis_origin(tune->axis[i].range) : last;
    return bl_range(tune->ir, bl_axis_pack((bl_axis_number){.slot = innermost ? last + 1 : first - 1}), BL_AXIS_LOOP,
                    row->src[0]);
}

static const bl_node *at_row(bl_ir *ir, const bl_node *row, int64_t elements, const bl_node *index)
{
    return bl_add(ir, bl_mul(ir, row, bl_index(ir, elements)), index);
}

/* |made|, the rewritten |stage|, computed for all iterations of |row|. */
static const bl_node *block_widened(bl_tune *tune, const bl_node *stage, const bl_node *made, const bl_node *row)
{
    bl_ir *ir = tune->ir;
    const bl_node *own = row_range(tune, stage, row), *ranges[BL_MAX_AXES], *memory = made->src[0]->src[0];
    const bl_node **stores = bl_arena_array(bl_ir_arena(ir), (size_t)made->arg, sizeof *stores);
    int nranges = 0;

    if (stores == NULL)
        return made;
    if (memory->arg >> BL_LOCAL_ELEMENTS > 0)
        memory = bl_local(ir, (int)(memory->arg & INT32_MAX), (bl_dtype)memory->dtype, bl_extent_of(row) * row_elements(stage));
    for (int64_t i = 0; i < made->arg; i++) {
        const bl_node *store = tune_replace(ir, made->src[i], row, own, 0, NULL);
        stores[i] = bl_store(ir, memory, at_row(ir, own, row_elements(stage), store->src[1]), store->src[2],
                             store->nsrc > 3 ? store->src[3] : NULL);
    }
    for (uint32_t i = (uint32_t)made->arg; i < made->nsrc && nranges < BL_MAX_AXES - 1; i++)
        ranges[nranges++] = made->src[i];
    ranges[nranges++] = own;
    return bl_stage_over(ir, made->sub, (int)made->arg, stores, nranges, ranges);
}

typedef struct widening {
    bl_tune *tune;
    const bl_node *row;
} widening;

static const bl_node *widen_stage(void *arg, const bl_node *node, const bl_node *const *src)
{
    const widening *w = arg;
    bl_ir *ir = w->tune->ir;
    const bl_node *made = bl_node_with(ir, node, src);

    if (node->op == BL_OP_STAGE && bl_depends(w->tune, node, w->row))
        return block_widened(w->tune, node, made, w->row);
    if (node->op == BL_OP_LOAD && node->src[0]->op == BL_OP_STAGE && bl_depends(w->tune, node->src[0], w->row))
        return bl_load(ir, src[0], at_row(ir, w->row, row_elements(node->src[0]), src[1]), node->nsrc > 2 ? src[2] : NULL);
    return made;
}

void tune_widen_stages(bl_tune *tune, const bl_node *row)
{
    const bl_node *sink = bl_rewrite(tune->ir, tune->sink, widen_stage, &(widening){tune, row});

    if (sink != tune->sink)
        tune_survey(tune, sink);
}

/* ---- the start */

/* Is |reduce| computed once for each iteration of the loops around the stages? */
static bool is_of_rows(bl_tune *tune, const bl_nodes *below, const bl_node *reduce)
{
    for (size_t i = 0; reduce->op == BL_OP_REDUCE && i < below->count; i++) {
        if (below->at[i]->op == BL_OP_STAGE && bl_free_get(&tune->free, below->at[i]) == bl_free_get(&tune->free, reduce))
            return true;
    }
    return false;
}

/* A RANGE that is bound by |reduce| and by another reduction, which is computed in other loops; or NULL. */
static const bl_node *shared_range(bl_tune *tune, const bl_nodes *below, const bl_node *reduce)
{
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *other = below->at[i];
        if (other->op != BL_OP_REDUCE || is_of_rows(tune, below, other))
            continue;
        for (uint32_t k = (uint32_t)reduce->arg; k < reduce->nsrc; k++) {
            if (bl_binds(other, reduce->src[k]))
                return reduce->src[k];
        }
    }
    return NULL;
}

/* A stage of one element. */
static const bl_node *block_staged(bl_ir *ir, const bl_node *value, int number)
{
    const bl_node *zero = bl_index(ir, 0);
    const bl_node *store = bl_store(ir, bl_param(ir, number, (bl_dtype)value->dtype, true), zero, value, NULL);
    return bl_load(ir, bl_stage_over(ir, BL_STAGE_FILLS, 1, &store, 0, NULL), zero, NULL);
}

typedef struct parting {
    bl_tune *tune;
    bl_nodes below; /* the nodes of the nest before the rewrite */
    int seen;       /* number of nodes visited */
} parting;

static const bl_node *part_reduction(void *arg, const bl_node *node, const bl_node *const *src)
{
    parting *p = arg;
    bl_ir *ir = p->tune->ir;
    const bl_node *made = bl_node_with(ir, node, src), *range = NULL;
    int number = p->seen++;

    if (!is_of_rows(p->tune, &p->below, node))
        return made;
    while ((range = shared_range(p->tune, &p->below, made)) != NULL) {
        bl_axis_number apart = bl_axis_unpack(range);
        apart.level += BL_LEVELS_OF_ROWS;
        const bl_node *own = bl_range(ir, bl_axis_pack(apart), BL_AXIS_REDUCE, range->src[0]);
        made = tune_replace(ir, made, range, own, 1, &own);
    }
    return block_staged(ir, made, number);
}

void tune_part_reductions(bl_tune *tune)
{
    parting p = {.tune = tune, .below = bl_reach(tune->ir, 1, &tune->sink, false)};
    const bl_node *sink = bl_rewrite(tune->ir, tune->sink, part_reduction, &p);

    if (sink != tune->sink)
        tune_survey(tune, sink);
}
