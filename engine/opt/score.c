/* SPDX-License-Identifier: MIT */
/* Flash attention (stage, values): the values that a sum needs in each iteration and that are the same for all columns of the
 * result, such as the scores of attention, are computed once, by the work-items that share the columns of a row, one block of
 * iterations (a score tile) at a time:
 *
 *   loop                                    over blocks of |width| iterations of the sum
 *     scores of the block                   |amount| per row of a work-item, in registers
 *     store the maximum; barrier            if there is a running maximum (online softmax, sched/running.c)
 *     store exp(score - maximum so far); barrier
 *     sum over the |width| iterations       of the stored values times the operand of the columns
 *     barrier
 *   end
 *
 * |many| work-items share a row.  Work-item p of them computes iterations p * amount, p * amount + 1, ... of a block.  Both kinds
 * of values are STAGEs that the group fills together.  If |width| does not divide the number of iterations, the excess iterations
 * of the last block repeat the last iteration, and are left out of the folds. */
#include "engine/ir/eval.h"
#include "engine/opt/staging.h"

enum {
    OWN_TURN = BL_MAX_DIMS - 2,
    OWN_PLACE = BL_MAX_DIMS - 1,
    FIRST_LOCAL = 1 << 10, /* numbers of its local buffers, apart from the numbers of copies */
    MOST_AMOUNT = 16,
    LEAST_WORK = 4096, /* of the nested reduction: a smaller one is computed again, on all devices (sched/realise.c) */
    MOST_STAGES = 16,
    ROW_UNIT = 4 /* elements: the length of a row is a multiple, so that each row starts at a vector */
};

typedef struct scores {
    bl_tune *tune;
    bl_ir *ir;
    const bl_node *turn;   /* the loop of the sum before the move */
    const bl_node *block;  /* the loop over blocks after the move; NULL: there is one block */
    const bl_node *within; /* the iterations of a block, for readers */
    int64_t amount, many, width;
    uint64_t columns;     /* the output RANGEs that scores do not depend on */
    const bl_node *place; /* the number of a work-item among those that share its rows */
    staging rows;         /* of the output RANGEs inside a group that scores depend on; the filler has loops of its own in place
                           * of unrolled rows */
    int nstages;
    const bl_node *staged[MOST_STAGES], *stage[MOST_STAGES];
} scores;

static bool score_folds_over(const bl_node *node, const bl_node *range)
{
    return node->op == BL_OP_REDUCE && bl_binds(node, range);
}

/* Does |node| contain a reduction that depends on |range|? */
static bool score_has_nested(bl_free *free, bl_ir *ir, const bl_node *node, const bl_node *range)
{
    bl_nodes below = bl_reach(ir, 1, &node, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_REDUCE && (bl_free_get(free, below.at[i]) & bl_free_bit(free, range)) != 0)
            return true;
    }
    return false;
}

static bool runs_over(const bl_node *node, const void *range)
{
    return node->op == BL_OP_RUNNING && (range == NULL || node->src[1] == range);
}

bool tune_is_running(const bl_tune *tune, const bl_node *range)
{
    return bl_find(tune->ir, 1, &tune->sink, runs_over, range) != NULL;
}

/* The output RANGEs on which some reduction in the loop of |range| does not depend.  |*work| gets the number of elements that the
 * largest of these reductions adds up; 0: there is none. */
static uint64_t columns_of(bl_tune *tune, const bl_node *range, int64_t *work)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    uint64_t outputs = 0, columns = 0;

    *work = 0;
    for (int i = 0; i < tune->naxes; i++)
        outputs |= tune->axis[i].output ? bl_free_bit(&tune->free, tune->axis[i].range) : 0;
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op != BL_OP_REDUCE || !bl_depends(tune, node, range))
            continue;
        columns |= outputs & ~bl_free_get(&tune->free, node);
        if (bl_free_work(&tune->free, node) > *work)
            *work = bl_free_work(&tune->free, node);
    }
    return columns;
}

const bl_node *tune_turns(bl_tune *tune, uint64_t *columns)
{
    const bl_node *longest = NULL;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        int64_t work = 0;
        uint64_t set = tune->axis[i].output || range->sub != BL_AXIS_REDUCE ? 0 : columns_of(tune, range, &work);
        if (work <= LEAST_WORK || (longest != NULL && range->hi <= longest->hi))
            continue;
        longest = range;
        *columns = set;
    }
    return longest;
}

/* ---- indices */

static const bl_node *score_number(scores *c, int64_t n)
{
    return bl_index(c->ir, n);
}

/* Iteration |at| of the current block, as if all blocks were whole. */
static const bl_node *raw_turn(scores *c, const bl_node *at)
{
    return c->block == NULL ? at : bl_add(c->ir, bl_mul(c->ir, c->block, score_number(c, c->width)), at);
}

/* |node| in iteration |at| of the block. */
static const bl_node *score_at_turn(scores *c, const bl_node *node, const bl_node *at)
{
    const bl_node *turn = raw_turn(c, at);

    if (turn->hi > c->turn->hi)
        turn = bl_alu2(c->ir, BL_OP_MIN, turn, score_number(c, c->turn->hi));
    return bl_replace(c->ir, node, c->turn, turn);
}

/* |value|, or the identity of |fold| if the last block has no iteration |at|. */
static const bl_node *if_counts(scores *c, bl_op fold, const bl_node *value, const bl_node *at)
{
    const bl_node *none = bl_const(c->ir, (bl_dtype)value->dtype, bl_fold_identity(fold, (bl_dtype)value->dtype));
    return bl_where(c->ir, bl_less(c->ir, raw_turn(c, at), score_number(c, c->turn->hi + 1)), value, none);
}

/* The index of element |column| of |columns| in the work-item's row of a stage, for a store (|fills|) or for a load. */
static const bl_node *score_element(scores *c, bool fills, int64_t columns, const bl_node *column)
{
    int64_t pitch = (columns + ROW_UNIT - 1) / ROW_UNIT * ROW_UNIT;
    return staging_inner(c->ir, staging_row_major(&c->rows, fills), score_number(c, pitch), column);
}

static const bl_node *own_range(scores *c, int which, bl_axis_kind kind, int64_t extent)
{
    return bl_range(c->ir, bl_axis_pack((bl_axis_number){BL_LEVEL_SCORES, which, 0}), kind, score_number(c, extent));
}

/* ---- stages */

/* A STAGE in which the group stores |value| at |column| of |columns|, in the loop |turn| (or NULL). */
static const bl_node *filled(scores *c, const bl_node *value, int64_t columns, const bl_node *column, const bl_node *turn)
{
    const bl_node *memory = bl_param(c->ir, FIRST_LOCAL + c->nstages, (bl_dtype)value->dtype, true);
    staging s = c->rows;

    if (turn != NULL && turn->op == BL_OP_RANGE)
        s.loop[s.nloops++] = turn;
    value = bl_substitute(c->ir, value, &s.fill);
    return staging_fill(&s, BL_STAGE_SHARED, memory, score_element(c, true, columns, column), value, NULL);
}

/* The iteration of the block that is number |own| of the iterations of the work-item. */
static const bl_node *own_turn(scores *c, const bl_node *own)
{
    return bl_add(c->ir, bl_mul(c->ir, c->place, score_number(c, c->amount)), own);
}

static const bl_node *own_number(scores *c)
{
    return c->amount == 1 ? score_number(c, 0) : own_range(c, OWN_TURN, BL_AXIS_TILE, c->amount);
}

/* The index of element |at| of a row whose elements consist of the lanes of |value|, which it includes.  |*lanes| gets their
 * number.  A score has lanes if its sum was split into lanes; moves refuse a second RANGE of lanes in one value. */
static const bl_node *with_lanes(scores *c, const bl_node *value, const bl_node *at, int64_t *lanes)
{
    *lanes = 1;
    for (int i = 0; i < c->tune->naxes; i++) {
        const bl_node *range = c->tune->axis[i].range;
        if (range->sub != BL_AXIS_VECTOR || (bl_free_get(&c->tune->free, value) & bl_free_bit(&c->tune->free, range)) == 0)
            continue;
        *lanes = bl_extent_of(range);
        at = bl_add(c->ir, bl_mul(c->ir, at, score_number(c, *lanes)), range);
    }
    return at;
}

/* |value|, a score, read from its stage in iteration |within| of the block. */
static const bl_node *score_staged(scores *c, const bl_node *value)
{
    const bl_node *own = own_number(c), *at = own_turn(c, own), *place = NULL;
    int64_t lanes = 1;
    int i = 0;

    while (i < c->nstages && c->staged[i] != value)
        i++;
    if (i == c->nstages) {
        if (i == MOST_STAGES)
            return value;
        place = with_lanes(c, value, at, &lanes);
        c->stage[i] = filled(c, score_at_turn(c, value, at), lanes * c->width, place, own);
        c->staged[c->nstages++] = value;
    }
    place = with_lanes(c, value, c->within, &lanes);
    return bl_load(c->ir, c->stage[i], score_element(c, false, lanes * c->width, place), NULL);
}

/* The maximum of all iterations of the block: each work-item reduces its own iterations first. */
static const bl_node *score_largest(scores *c, const bl_node *value, bl_op fold)
{
    const bl_node *own = own_number(c), *at = own_turn(c, own), *each = if_counts(c, fold, score_at_turn(c, value, at), at);
    const bl_node *place = c->many == 1 ? score_number(c, 0) : own_range(c, OWN_PLACE, BL_AXIS_REDUCE, c->many), *stage = NULL;

    if (c->amount > 1)
        each = bl_reduce_over(c->ir, fold, 1, &each, 1, &own);
    if (c->many == 1)
        return each;
    stage = filled(c, each, c->many, c->place, NULL);
    c->staged[c->nstages] = NULL;
    c->stage[c->nstages++] = stage;
    each = bl_load(c->ir, stage, score_element(c, false, c->many, place), NULL);
    return bl_reduce_over(c->ir, fold, 1, &each, 1, &place);
}

/* Does |value| depend on a column?  A stage does not, although the columns of the work-items determine which of them fills it. */
static bool differs_by_column(scores *c, const bl_node *value)
{
    bl_nodes phase = tune_reach_phase(c->ir, 1, &value);
    for (size_t i = 0; i < phase.count; i++) {
        if (phase.at[i]->op == BL_OP_RANGE && (c->columns & bl_free_bit(&c->tune->free, phase.at[i])) != 0)
            return true;
    }
    return false;
}

/* Is |value| a score: different in each iteration, the same for all columns, and with a reduction inside? */
static bool is_score(scores *c, const bl_node *value)
{
    return (bl_free_get(&c->tune->free, value) & bl_free_bit(&c->tune->free, c->turn)) != 0 && !differs_by_column(c, value) &&
           score_has_nested(&c->tune->free, c->ir, value, c->turn);
}

/* Map the topmost scores in |value| to loads from their stages. */
static void stage_scores(scores *c, const bl_node *value, bl_ptrmap *to)
{
    bl_nodes below = bl_reach(c->ir, 1, &value, false);
    bl_ptrmap open;

    bl_ptrmap_init(&open, bl_ir_arena(c->ir));
    bl_ptrmap_put(&open, value, c);
    for (size_t i = below.count; i-- > 0;) { /* users first */
        const bl_node *node = below.at[i];
        if (!bl_ptrmap_has(&open, node))
            continue;
        if (is_score(c, node)) {
            bl_ptrmap_put(to, node, score_staged(c, node));
            continue;
        }
        for (uint32_t k = 0; !bl_binds_ranges(node) && node->op != BL_OP_RUNNING && k < node->nsrc; k++)
            bl_ptrmap_put(&open, node->src[k], c);
    }
}

/* ---- the nest */

static bool is_followed(const bl_nodes *below, const bl_node *reduce)
{
    for (size_t i = 0; i < below->count; i++) {
        if (below->at[i]->op == BL_OP_RUNNING && below->at[i]->src[0] == reduce)
            return true;
    }
    return false;
}

/* |each|, the value of a block, folded as by |reduce| over the blocks and the other RANGEs of |reduce|. */
static const bl_node *over_blocks(scores *c, const bl_node *reduce, const bl_node *each)
{
    const bl_node *ranges[BL_MAX_AXES];
    int n = 0;

    for (uint32_t i = (uint32_t)reduce->arg; i < reduce->nsrc && n < BL_MAX_AXES; i++) {
        const bl_node *range = reduce->src[i] == c->turn ? c->block : reduce->src[i];
        if (range != NULL)
            ranges[n++] = range;
    }
    return n == 0 ? each : bl_reduce_over(c->ir, (bl_op)reduce->sub, 1, &each, n, ranges);
}

/* |reduce|, whose rewritten value is |value|, block by block. */
static const bl_node *blocked(scores *c, const bl_node *reduce, const bl_node *value, bool followed)
{
    bl_ir *ir = c->ir;
    bl_op fold = (bl_op)reduce->sub;
    const bl_node *factor = value->op == BL_OP_RESCALED ? value->src[1] : NULL, *each = factor == NULL ? value : value->src[0];

    if (followed && is_score(c, each) && c->nstages < MOST_STAGES) {
        each = score_largest(c, each, fold);
    } else {
        bl_ptrmap to;
        bl_ptrmap_init(&to, bl_ir_arena(ir));
        stage_scores(c, each, &to);
        each = if_counts(c, fold, score_at_turn(c, bl_substitute(ir, each, &to), c->within), c->within);
        each = bl_reduce_over(ir, fold, 1, &each, 1, &c->within);
    }
    if (factor != NULL && c->block != NULL)
        each = bl_rescaled(ir, each, factor);
    return over_blocks(c, reduce, each);
}

static const bl_node *followed_at(scores *c, const bl_node *running, const bl_node *reduce)
{
    bl_dtype dtype = (bl_dtype)running->dtype;

    if (c->block != NULL)
        return bl_running(c->ir, reduce, c->block, running->arg != 0);
    return running->arg != 0 ? reduce : bl_const(c->ir, dtype, bl_fold_identity((bl_op)running->src[0]->sub, dtype));
}

/* The nest, rewritten to go by blocks. */
static const bl_node *rewritten(scores *c)
{
    bl_ir *ir = c->ir;
    bl_nodes below = bl_reach(ir, 1, &c->tune->sink, false);
    bl_ptrmap done;

    bl_ptrmap_init(&done, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i], *made = NULL;
        if (node->op == BL_OP_RUNNING && node->src[1] == c->turn)
            made = followed_at(c, node, bl_substitute(ir, node->src[0], &done));
        else if (score_folds_over(node, c->turn))
            made = blocked(c, node, bl_substitute(ir, node->src[0], &done), is_followed(&below, node));
        if (made != NULL)
            bl_ptrmap_put(&done, node, made);
    }
    return bl_substitute(ir, c->tune->sink, &done);
}

/* Find the rows and columns of a group, and their work-items.  False if the loops do not suit. */
static bool score_find_rows(scores *c)
{
    bl_tune *tune = c->tune;
    uint64_t rows = 0;

    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        uint64_t bit = bl_free_bit(&tune->free, range);
        if (range->sub == BL_AXIS_GROUP || range->sub == BL_AXIS_MATRIX)
            return false;
        if (!tune->axis[i].output || range->sub == BL_AXIS_GLOBAL || range->sub == BL_AXIS_LOOP || (c->columns & bit) != 0)
            continue;
        if (range->sub == BL_AXIS_VECTOR)
            return false;
        rows |= bit;
    }
    c->place = staging_work_item(tune, c->columns, &c->many);
    staging_init(&c->rows, tune);
    staging_footprint(&c->rows, rows, NULL);
    for (int i = 0; i < c->rows.n && i < OWN_TURN; i++) {
        const bl_node *row = c->rows.dim[i].range, *own = NULL;
        if (row->sub != BL_AXIS_TILE)
            continue;
        own = own_range(c, i, BL_AXIS_TILE, bl_extent_of(row));
        bl_ptrmap_put(&c->rows.fill, row, own);
        c->rows.loop[c->rows.nloops++] = own;
    }
    return c->rows.n <= OWN_TURN;
}

/* Does |node| bind |range| other than as a fold of one value? */
static bool binds_otherwise(const bl_node *node, const void *range)
{
    return bl_binds(node, range) && (node->op != BL_OP_REDUCE || node->arg != 1);
}

bool stage_values(bl_tune *tune, int axis, int64_t amount)
{
    const bl_node *range = tune->axis[axis].range, *sink = NULL;
    scores c = {.tune = tune, .ir = tune->ir, .turn = range, .amount = amount};
    int within = tune_inner_number(tune, range);
    int64_t blocks = 0, work = 0;

    if (tune->axis[axis].output || range->sub != BL_AXIS_REDUCE || !bl_is_fixed(range) || amount < 1 || amount > MOST_AMOUNT ||
        within < 0 || bl_find(tune->ir, 1, &tune->sink, binds_otherwise, range) != NULL)
        return false;
    c.columns = columns_of(tune, range, &work);
    if (work == 0 || !score_find_rows(&c) || tune_count_items(tune) == 0)
        return false;
    c.width = amount * c.many;
    if (c.width - c.many >= bl_extent_of(range))
        return false; /* a smaller amount has the same number of blocks */
    blocks = (bl_extent_of(range) + c.width - 1) / c.width;
    c.block = blocks == 1 ? NULL : bl_range_like(tune->ir, range, BL_AXIS_REDUCE, score_number(&c, blocks));
    c.within = bl_range(tune->ir, within, BL_AXIS_REDUCE, score_number(&c, c.width));
    tune_name_part(tune, c.within, range, 1);
    if (c.block != NULL)
        tune_name_part(tune, c.block, range, 0);
    sink = rewritten(&c);
    if (c.nstages == 0)
        return false;
    tune->shared = tune->scored = true;
    tune_survey(tune, sink);
    return true;
}
