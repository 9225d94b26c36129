/* SPDX-License-Identifier: MIT */
#include "engine/ir/affine.h"
#include "engine/ir/rewrite.h"
#include "engine/opt/opt_internal.h"

int64_t bl_extent_of(const bl_node *range)
{
    return range->src[0]->hi > 0 ? range->src[0]->hi : 1;
}

bool bl_is_fixed(const bl_node *range)
{
    return bl_is_const(range->src[0]);
}

enum { NAME_PATH_BITS = 32 };

static bl_name axis_name(const bl_tune *tune, const bl_node *range)
{
    uint64_t named = bl_ptrmap_number(&tune->named, range);
    if (named == 0)
        return (bl_name){.origin = bl_axis_origin(range), .path = 1};
    return (bl_name){.origin = (int)(named >> NAME_PATH_BITS), .path = (uint32_t)named};
}

void tune_name_axis(bl_tune *tune, const bl_node *range, bl_name name)
{
    bl_ptrmap_put_number(&tune->named, range, (uint64_t)name.origin << NAME_PATH_BITS | name.path);
}

void tune_name_part(bl_tune *tune, const bl_node *part, const bl_node *whole, int which)
{
    bl_name name = axis_name(tune, whole);
    name.path = name.path << 2 | (uint32_t)which;
    tune_name_axis(tune, part, name);
}

bool bl_depends(bl_tune *tune, const bl_node *node, const bl_node *range)
{
    return (bl_free_get(&tune->free, node) & bl_free_bit(&tune->free, range)) != 0;
}

bool bl_access_stride(const bl_tune *tune, const bl_node *access, const bl_node *range, int64_t *stride)
{
    bl_tune *facts = (bl_tune *)(uintptr_t)tune; /* the free sets are a cache */
    return bl_free_stride(&facts->free, access->src[1], range, stride);
}

static const bl_node *bind_parts(bl_ir *ir, const bl_node *reduce, const bl_node *const *src, const bl_node *range, int n,
                                 const bl_node *const *parts)
{
    const bl_node *ranges[BL_MAX_AXES];
    int count = 0;
    for (uint32_t i = (uint32_t)reduce->arg; i < reduce->nsrc && count < BL_MAX_AXES; i++) {
        if (reduce->src[i] != range)
            ranges[count++] = reduce->src[i];
    }
    for (int i = 0; i < n && count < BL_MAX_AXES; i++)
        ranges[count++] = parts[i];
    if (reduce->op == BL_OP_STAGE)
        return bl_stage_over(ir, reduce->sub, (int)reduce->arg, src, count, ranges);
    if (count == 0)
        return src[0];
    return bl_reduce_over(ir, (bl_op)reduce->sub, (int)reduce->arg, src, count, ranges);
}

typedef struct replacement {
    bl_ir *ir;
    const bl_node *range, *value;
    int n;
    const bl_node *const *parts;
} replacement;

static const bl_node *replace_range(void *arg, const bl_node *node, const bl_node *const *src)
{
    const replacement *r = arg;

    if (node == r->range)
        return r->value;
    if (bl_binds(node, r->range))
        return bind_parts(r->ir, node, src, r->range, r->n, r->parts);
    for (uint32_t k = 0; k < node->nsrc; k++) {
        if (src[k] != node->src[k]) /* rebuilding simplifies: indices of merged loops lose their divisions */
            return bl_node_rebuild(r->ir, node, src, node->dim);
    }
    return node;
}

const bl_node *tune_replace(bl_ir *ir, const bl_node *sink, const bl_node *range, const bl_node *value, int n,
                            const bl_node *const *parts)
{
    return bl_rewrite(ir, sink, replace_range, &(replacement){ir, range, value, n, parts});
}

/* The outer output axes: every store depends on them, and so does every reduction and stage outside of other reductions. */
static uint64_t outer_set(bl_tune *tune, const bl_nodes *below)
{
    uint64_t outputs = 0, outer = 0;

    for (int i = 0; i < tune->free.nranges; i++) {
        if (bl_axis_is_output(tune->free.range[i]))
            outputs |= UINT64_C(1) << i;
    }
    outer = outputs;
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *node = below->at[i];
        uint64_t set = 0;
        if (node->op != BL_OP_STORE && !bl_binds_ranges(node))
            continue;
        set = bl_free_get(&tune->free, node);
        if ((set & ~outputs) == 0)
            outer &= set;
    }
    return outer;
}

void tune_survey(bl_tune *tune, const bl_node *sink)
{
    bl_nodes below = bl_reach(tune->ir, 1, &sink, false);
    uint64_t outer = 0;

    tune->sink = sink;
    bl_free_init(&tune->free, tune->ir);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_RANGE)
            bl_free_bit(&tune->free, below.at[i]);
    }
    outer = outer_set(tune, &below);
    tune->naxes = 0;
    for (int i = 0; i < tune->free.nranges && tune->naxes < BL_MAX_AXES; i++) {
        const bl_node *range = tune->free.range[i];
        bl_axis axis = {
            .range = range, .name = axis_name(tune, range), .output = bl_axis_is_output(range), .outer = (outer >> i & 1) != 0};
        int at = tune->naxes++;
        for (; at > 0 && bl_axis_precedes(range, tune->axis[at - 1].range); at--)
            tune->axis[at] = tune->axis[at - 1];
        tune->axis[at] = axis;
    }
    for (int i = 0; i < tune->naxes; i++) {
        for (int k = 0; k < i; k++)
            tune->axis[i].name.twin +=
                tune->axis[k].name.origin == tune->axis[i].name.origin && tune->axis[k].name.path == tune->axis[i].name.path;
    }
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        for (int k = 0; node->op == BL_OP_STAGE && k < tune->naxes; k++) {
            bool binds = bl_binds(node, tune->axis[k].range);
            tune->axis[k].stage = tune->axis[k].stage || binds;
            tune->axis[k].folds = tune->axis[k].folds || (binds && BL_STAGE_FOLDS(node));
        }
    }
}

/* ---- the start */

/* Does any axis belong to a stage, that is, to local memory? */
bool tune_has_stages(const bl_tune *tune)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].stage)
            return true;
    }
    return false;
}

static int count_divisions(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    int n = 0;
    for (size_t i = 0; i < below.count; i++)
        n += below.at[i]->dtype == BL_INDEX && (below.at[i]->op == BL_OP_IDIV || below.at[i]->op == BL_OP_MOD);
    return n;
}

/* Does every node that depends on, or binds, one of two axes do so with the other axis too? */
static bool always_together(bl_tune *tune, const bl_node *a, const bl_node *b)
{
    uint64_t columns = 0; /* the rows of a block share the loads that do not depend on them: the rows must stay an axis */
    bool staged = tune_has_stages(tune) || tune_turns(tune, &columns) != NULL;
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op != BL_OP_STORE && !bl_binds_ranges(node) && !(staged && node->op == BL_OP_LOAD))
            continue;
        if (bl_depends(tune, node, a) != bl_depends(tune, node, b) || bl_binds(node, a) != bl_binds(node, b))
            return false;
    }
    return true;
}

/* Merge loops |a| and |b|, which is inside |a|, into one loop, if no access then needs a division.  A loop of a named extent is
 * not merged with a loop of a constant extent: the merged loop could have no lanes. */
static bool moves_merge(bl_tune *tune, const bl_node *a, const bl_node *b)
{
    bl_ir *ir = tune->ir;
    const bl_node *both = NULL, *sink = NULL;
    bl_ptrmap none;

    if (bl_is_fixed(a) != bl_is_fixed(b) || !always_together(tune, a, b) || bl_extent_of(a) > INT32_MAX / bl_extent_of(b))
        return false;
    bl_ptrmap_init(&none, bl_ir_arena(ir));
    both = bl_range_like(ir, a, (bl_axis_kind)a->sub, bl_mul(ir, a->src[0], b->src[0]));
    if (both == a)
        return false;
    tune_name_axis(tune, both, axis_name(tune, a));
    sink = tune_replace(ir, tune->sink, b, bl_mod(ir, both, b->src[0]), 0, NULL);
    sink = tune_replace(ir, sink, a, bl_idiv(ir, both, b->src[0]), 1, &both);
    if (bl_ir_status(ir, NULL) != BL_OK || count_divisions(ir, sink) > count_divisions(ir, tune->sink))
        return false;
    tune_survey(tune, sink);
    return true;
}

/* Merge neighbouring loops; with |sums|, only loops of reductions. */
static void moves_merge_axes(bl_tune *tune, bool sums)
{
    for (int i = tune->naxes - 2; i >= 0; i--) {
        for (int k = i + 1; k < tune->naxes; k++) { /* loops of another reduction may be between the two */
            const bl_axis *outer = &tune->axis[i], *inner = &tune->axis[k];
            if (!(sums && outer->output) && outer->output == inner->output && outer->stage == inner->stage &&
                moves_merge(tune, outer->range, inner->range))
                k = i; /* the list is shorter now: try the next loop */
        }
    }
}

/* The divisor if |node| divides |range| + constant or constant - |range|; else 0. */
static int64_t divides(const bl_node *node, const bl_node *range)
{
    bl_affine sum;

    if ((node->op != BL_OP_IDIV && node->op != BL_OP_MOD) || node->dtype != BL_INDEX || !bl_is_const(node->src[1]) ||
        !bl_affine_of(&sum, node->src[0]) || sum.count != 1 || sum.at[0].node != range)
        return 0;
    return sum.at[0].coefficient == 1 || sum.at[0].coefficient == -1 ? node->src[1]->arg : 0;
}

/* The divisor by which the operands of sums divide |range|, as for the channels of a grouped convolution; 0 if there is none, or
 * more than one.  |below|: the nest. */
static int64_t divisor_in_sums(bl_tune *tune, const bl_nodes *below, const bl_node *range)
{
    bl_ptrmap inside; /* the operands of sums; users come after their sources */
    int64_t by = 0;
    bool any = false;

    for (size_t i = 0; i < below->count && !any; i++)
        any = divides(below->at[i], range) > 0;
    if (!any)
        return 0;
    bl_ptrmap_init(&inside, bl_ir_arena(tune->ir));
    for (size_t i = below->count; i-- > 0;) {
        const bl_node *node = below->at[i];
        int64_t own = divides(node, range);
        bool in = bl_ptrmap_has(&inside, node), sum = node->op == BL_OP_REDUCE;
        for (uint32_t k = 0; (in || sum) && k < (in ? node->nsrc : (uint32_t)node->arg); k++)
            bl_ptrmap_put(&inside, node->src[k], tune);
        if (in && own > 0 && by > 0 && own != by)
            return 0;
        by = in && own > 0 ? own : by;
    }
    return by;
}

/* Split each output axis whose quotient an operand of a sum needs: along the inner loop, the quotient is constant, so that a tile
 * can go along that loop. */
static void part_quotients(bl_tune *tune)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);

    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        int64_t by = axis->output && bl_is_fixed(axis->range) ? divisor_in_sums(tune, &below, axis->range) : 0;
        if (by < 2 || by >= bl_extent_of(axis->range) || bl_extent_of(axis->range) % by != 0)
            continue;
        if (tune_split(tune, i, by, (bl_axis_kind)axis->range->sub))
            below = bl_reach(tune->ir, 1, &tune->sink, false);
    }
}

void tune_make_grid(bl_tune *tune)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis axis = tune->axis[i];
        bl_axis_kind kind = !axis.output && !axis.stage ? BL_AXIS_REDUCE : axis.outer ? BL_AXIS_GLOBAL : BL_AXIS_LOOP;
        const bl_node *range = bl_range_like(tune->ir, axis.range, kind, axis.range->src[0]);
        if (range == axis.range)
            continue;
        tune_name_axis(tune, range, axis.name);
        tune_survey(tune, tune_replace(tune->ir, tune->sink, axis.range, range, 1, &range));
    }
}

void bl_tune_init(bl_tune *tune, bl_ir *ir, const bl_node *sink, int nparams)
{
    *tune = (bl_tune){.ir = ir, .nparams = nparams, .local_bytes = INT64_MAX};
    bl_ptrmap_init(&tune->named, bl_ir_arena(ir));
    tune_survey(tune, sink);
    /* from the last axis, since renumbered ranges sort after the others */
    for (int i = tune->naxes - 1; i >= 0; i--) {
        const bl_node *old = tune->axis[i].range;
        const bl_node *range = bl_range(ir, bl_axis_of_loop(old), (bl_axis_kind)old->sub, old->src[0]);
        sink = tune_replace(ir, sink, old, range, 1, &range);
    }
    tune_survey(tune, sink);
    if (tune_has_stages(tune))
        tune_part_reductions(tune);
    else
        part_quotients(tune);
    moves_merge_axes(tune, false);
    tune_make_grid(tune);
}

/* ---- undo */

tune_mark tune_keep(const bl_tune *tune)
{
    return (tune_mark){.sink = tune->sink,
                       .local_bytes = tune->local_bytes,
                       .nparams = tune->nparams,
                       .npacked = tune->npacked,
                       .nmoves = tune->nmoves,
                       .shared = tune->shared,
                       .scored = tune->scored,
                       .matrix = tune->matrix};
}

void tune_undo(bl_tune *tune, const tune_mark *to)
{
    tune->local_bytes = to->local_bytes;
    tune->nparams = to->nparams;
    tune->npacked = to->npacked;
    tune->nmoves = to->nmoves;
    tune->shared = to->shared;
    tune->scored = to->scored;
    tune->matrix = to->matrix;
    if (tune->sink != to->sink)
        tune_survey(tune, to->sink);
}

/* ---- moves */

/* A panel has the order of a reduction's loops: loops that only the unpacked operand kept apart become one. Not after moves other
 * than copies, since these have chosen forms for the single loops. */
static void merge_after_panel(bl_tune *tune)
{
    for (int i = 0; i < tune->nmoves; i++) {
        if (tune->moves[i].kind != BL_STAGE_PANELS && tune->moves[i].kind != BL_STAGE_HALO)
            return;
    }
    moves_merge_axes(tune, true);
}

bool move_stage(bl_tune *tune, bl_move_kind kind, int at, int64_t size)
{
    if (kind == BL_STAGE_HALO)
        return stage_halo(tune, at, size);
    if (kind == BL_STAGE_PANELS) {
        if (!tune_pack(tune, at, 0))
            return false;
        merge_after_panel(tune);
        return true;
    }
    return kind == BL_STAGE_LOCAL ? stage_local(tune, at, size) : stage_values(tune, at, size);
}

bool move_hint(bl_tune *tune, bl_move_kind kind, int at, int64_t size)
{
    (void)size;
    return kind == BL_HINT_TRIM ? hint_trim(tune, at) : hint_stream(tune, at);
}

#define MOVE(move)
#define KIND(id, move, kind, what, size, barred, traits)                                                                         \
    [BL_##id] = {#move, #kind, BL_WHAT_##what, BL_SIZE_##size, barred, traits, move_##move},
const bl_move_row bl_move_rows[BL_MOVE_KINDS] = {
#include "engine/opt/moves.def"
};
#undef MOVE
#undef KIND

/* Is the nest in one of these states? */
static bool is_in_state(const bl_tune *tune, unsigned states)
{
    return ((states & IN_STAGED) != 0 && !tune->shared && tune_has_stages(tune)) || ((states & IN_SHARED) != 0 && tune->shared) ||
           ((states & IN_DEALT) != 0 && tune_deals_outputs(tune)) || ((states & IN_UNIT) != 0 && tune->matrix) ||
           ((states & IN_RUNNING) != 0 && (tune->scored || tune_is_running(tune, NULL)));
}

static bool has_local_memory(const bl_tune *tune)
{
    return tune->shared || tune_has_stages(tune);
}

bool bl_tune_apply_at(bl_tune *tune, bl_move_kind kind, int at, int64_t size)
{
    const bl_move_row *row = &bl_move_rows[kind < BL_MOVE_KINDS ? kind : 0];
    const bl_move move = {.kind = kind, .what = bl_tune_name(tune, row->what, at), .size = row->size == BL_SIZE_NONE ? 0 : size};
    const tune_mark before = tune_keep(tune);
    bool has_local = has_local_memory(tune);

    if (kind >= BL_MOVE_KINDS || tune->nmoves == BL_MAX_MOVES || move.what.origin < 0 || is_in_state(tune, row->barred))
        return false;
    /* a stage may need more memory than before, for more rows, or since it can no longer replace another stage */
    if (!row->apply(tune, kind, at, size) || bl_ir_status(tune->ir, NULL) != BL_OK ||
        ((has_local || has_local_memory(tune)) && !tune_has_room(tune))) {
        tune_undo(tune, &before);
        return false;
    }
    tune->moves[tune->nmoves++] = move;
    return true;
}

bool bl_tune_apply(bl_tune *tune, bl_move move)
{
    return move.kind < BL_MOVE_KINDS &&
           bl_tune_apply_at(tune, move.kind, bl_tune_find(tune, bl_move_rows[move.kind].what, move.what), move.size);
}
