/* SPDX-License-Identifier: MIT */
/* Shared-memory tiling of products on a GPU: the work-items of a group compute a tile of the result, each a part of the tile in
 * registers, from operands that they copy into local memory (share.c) for some iterations of the reduction at a time. */
#include "engine/ir/gate.h"
#include "engine/opt/facts.h"

#include <math.h>

enum {
    SHORT_ROW = 8,        /* shortest axis of columns, if another axis of columns is added */
    SHORTEST = 16,        /* shortest axis of the result, and shortest reduction, for which sharing pays */
    LEAST_WORK = 1 << 18, /* multiply-adds below which a launch costs more than the product */
    VECTOR_BYTES = 16,    /* bytes that a work-item loads at once */
    MOST_ITEMS = 256,     /* work-items of a group: with more, each has too few registers */
    BUSY_ITEMS = 256,  /* work-items of a multiprocessor that hide the latency of instructions: eight in each of its four parts */
    LONGEST_COPY = 16, /* iterations of the reduction in a copy: the values of the next copy wait in registers */
    SHORT_COPY = 8,    /* iterations per copy with which a barrier costs little */
    FEWEST_TURNS = 4,  /* fewest iterations per copy */
    UNROLL = 8,
    PAD = 4 /* elements after each row, so that the elements of a column lie in different banks */
};
/* The part of local memory for one group; the rest is for a second group beside it. AMD lets one group have all 64 KB of a
 * compute unit (gfx9, CDNA: "LDS" in the manuals of the instruction sets), and then no other group runs there. */
#define LOCAL_PART (2.0 / 3.0)
#define LOCAL_MOST 32768.0

typedef struct form {
    const bl_node *column, *row;  /* axes of the result */
    const bl_node *more;          /* another axis of columns, along which the rows' operand stays the same; or NULL */
    int64_t lanes, columns, rows; /* per work-item: vectors of a row, and rows */
    int64_t wide, high, many;     /* work-items of a group along column, row and more */
    int64_t element;              /* bytes of an element in a copy, for the wider operand */
    int64_t parts;                /* parts of the reduction (split-K) */
    double cost;
} form;

static bool group_tile_is_operand(const facts *f, const access *a)
{
    return a->reduce == f->main && a->node->op == BL_OP_LOAD && a->node->src[0]->op == BL_OP_BUFFER;
}

/* ---- the tile */

/* Does some operand depend on |a| and not on |b|? */
static bool differs_along_one(const facts *f, const bl_node *a, const bl_node *b)
{
    for (int i = 0; i < f->naccesses; i++) {
        if (group_tile_is_operand(f, &f->access[i]) && bl_depends(f->tune, f->access[i].node, a) &&
            !bl_depends(f->tune, f->access[i].node, b))
            return true;
    }
    return false;
}

static bool may_share(const facts *f, const bl_axis *axis, int64_t shortest)
{
    return facts_may_tile(f, axis) && axis->range->sub == BL_AXIS_GLOBAL && bl_is_fixed(axis->range) &&
           bl_extent_of(axis->range) >= shortest;
}

/* Does some operand depend on both axes? */
static bool meet(const facts *f, const bl_node *a, const bl_node *b)
{
    for (int i = 0; i < f->naccesses; i++) {
        if (group_tile_is_operand(f, &f->access[i]) && bl_depends(f->tune, f->access[i].node, a) &&
            bl_depends(f->tune, f->access[i].node, b))
            return true;
    }
    return false;
}

/* Another axis of columns: the rows of an image, beside its columns. */
static const bl_node *more_columns(const facts *f, const bl_node *column, const bl_node *row)
{
    const bl_node *best = NULL;
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_axis *axis = &f->tune->axis[i];
        if (axis->range != column && axis->range != row && may_share(f, axis, 2) && meet(f, axis->range, column) &&
            !meet(f, axis->range, row))
            best = axis->range;
    }
    return best;
}

static bool is_stored_along(facts *f, const bl_node *range)
{
    for (int i = 0; i < f->naccesses; i++) {
        const bl_node *node = f->access[i].node;
        if (node->op == BL_OP_STORE && facts_contiguity(f, node, range) == 1)
            return true;
    }
    return false;
}

/* The axes of the tile. Columns lie along the axis on which stores are contiguous, if possible. */
static bool choose_axes(facts *f, form *out)
{
    double most = 0;

    for (int c = 0; c < f->tune->naxes; c++) {
        for (int r = 0; r < f->tune->naxes; r++) {
            const bl_axis *column = &f->tune->axis[c], *row = &f->tune->axis[r];
            double score = 0;
            if (r == c || !may_share(f, column, SHORT_ROW) || !may_share(f, row, SHORTEST) ||
                !differs_along_one(f, column->range, row->range) || !differs_along_one(f, row->range, column->range))
                continue;
            score = (double)bl_extent_of(column->range) * (double)bl_extent_of(row->range);
            if (!is_stored_along(f, column->range))
                score /= 4;
            if (score > most) {
                most = score;
                out->column = column->range;
                out->row = row->range;
            }
        }
    }
    if (most > 0)
        out->more = more_columns(f, out->column, out->row);
    return most > 0 && bl_extent_of(out->column) * (out->more == NULL ? 1 : bl_extent_of(out->more)) >= SHORTEST;
}

/* Iterations of the reduction for which two copies of both operands fit. */
static int64_t most_turns(const form *t, const bl_target *target)
{
    int64_t elements = t->lanes * t->columns * t->wide * t->many + t->rows * t->high + 2 * PAD;
    double room = LOCAL_PART * (double)target->local_bytes;
    int64_t turns = (int64_t)(room < LOCAL_MOST ? room : LOCAL_MOST) / (2 * elements * t->element);
    return turns < LONGEST_COPY ? turns : LONGEST_COPY;
}

/* The time of one iteration of all tiles, which each multiprocessor computes one after the other. INFINITY if the device cannot
 * have such tiles. */
static double group_tile_cost_of(facts *f, const bl_target *target, const form *t, int64_t bytes)
{
    int64_t line = t->lanes * t->columns * t->wide, width = line * t->many, height = t->rows * t->high;
    int64_t items = t->wide * t->high * t->many, lines = t->more == NULL ? 1 : bl_extent_of(t->more);
    int64_t groups = ceil_div(bl_extent_of(t->column), line) * ceil_div(lines, t->many) * ceil_div(bl_extent_of(t->row), height);
    int64_t own = t->lanes * t->columns * t->rows + t->lanes * t->columns + t->rows;
    int64_t copied = most_turns(t, target) * (width + height) / items;
    double busy = 0, waves = 0;

    if (t->many > lines || height > bl_extent_of(t->row) || items > MOST_ITEMS || items > (int64_t)target->max_local ||
        items < (int64_t)target->subgroup || most_turns(t, target) < SHORT_COPY)
        return INFINITY;
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_node *range = f->tune->axis[i].range;
        bool tiled = range == t->column || range == t->row || range == t->more;
        groups *= range->sub == BL_AXIS_GLOBAL && !tiled ? bl_extent_of(range) : 1;
    }
    waves = nest_waves((double)(groups * t->parts), target->units);
    busy = waves * (double)items / BUSY_ITEMS;
    return nest_tile_cost(&(nest_tile){.work = waves * (double)(width * height),
                                       .far = 1.0 / (double)width + 1.0 / (double)height,
                                       .near = {1.0 / (double)(t->lanes * t->columns), 1.0 / (double)t->rows},
                                       .idle = nest_waste(items, target->subgroup, 1, 1),
                                       .busy = busy > 1 ? 1 : 0.5 + 0.5 * busy,
                                       .registers = (own + copied) * (bytes / 4),
                                       .of_registers = target->registers});
}

/* Does the copy of |load| stay in 16 bits? The copy then takes half the memory, and each reader converts. */
static bool stays_narrow(const bl_target *target, const bl_node *load)
{
    return load->dtype == BL_BF16 || (load->dtype == BL_F16 && target->converts_half);
}

static int64_t widest_copy(const facts *f, const bl_target *target)
{
    size_t widest = 2;

    for (int i = 0; i < f->naccesses; i++) {
        bl_dtype dtype = (bl_dtype)f->access[i].node->dtype;
        if (group_tile_is_operand(f, &f->access[i]) && !stays_narrow(target, f->access[i].node) &&
            bl_dtype_local_bytes(dtype) > widest)
            widest = bl_dtype_local_bytes(dtype);
    }
    return (int64_t)widest;
}

typedef struct group_tiles {
    facts *f;
    const bl_target *target;
    form t; /* without sizes */
    int64_t bytes;
} group_tiles;

/* Sizes of a tile: width and height of a group's, columns and rows of a work-item's. */
static form sized(const form *base, const int64_t *size)
{
    form t = *base;
    int64_t vectors = ceil_div(bl_extent_of(t.column), t.lanes * size[2]), wide = size[0] / (t.lanes * size[2]);

    t.columns = size[2];
    t.rows = size[3];
    t.wide = wide < vectors ? wide : vectors;
    t.many = t.more == NULL ? 1 : wide / t.wide;
    t.high = size[1] / t.rows;
    return t;
}

static double group_tile_cost(const void *arg, const int64_t *size)
{
    const group_tiles *g = arg;
    form t = sized(&g->t, size);
    return group_tile_cost_of(g->f, g->target, &t, g->bytes);
}

static bool group_tile_choose_tile(facts *f, const bl_target *target, form *out)
{
    int64_t bytes = (int64_t)facts_widest(f, out->column), best[MOST_SIZES];
    group_tiles g = {f, target, *out, bytes < 4 ? 4 : bytes}; /* narrow elements are computed as 4 bytes */
    const sizes s = {
        .n = 4, .range = {{32, 128, true}, {16, 128, true}, {1, 2, false}, {4, 8, true}}, .cost = group_tile_cost, .arg = &g};
    double cost = 0;

    g.t.lanes = VECTOR_BYTES / g.bytes;
    g.t.element = widest_copy(f, target);
    cost = sizes_choose(&s, best);
    if (cost == (double)INFINITY)
        return false;
    *out = sized(&g.t, best);
    out->cost = cost;
    return true;
}

/* The longest loop of the main reduction. -1 if there is none. */
int gpu_axis_to_split(const facts *f)
{
    int best = -1;
    for (int i = 0; i < f->tune->naxes; i++) {
        const bl_node *range = f->tune->axis[i].range;
        if (range->sub == BL_AXIS_REDUCE && bl_is_fixed(range) && bl_binds(f->main, range) &&
            (best < 0 || bl_extent_of(range) > bl_extent_of(f->tune->axis[best].range)))
            best = i;
    }
    return best;
}

typedef struct parted_tiles {
    facts *f;
    const bl_target *target;
    form t;
    int64_t results, turns; /* elements of the result; iterations of the reduction */
} parted_tiles;

static double parted_tiles_cost(void *arg, int64_t parts)
{
    const parted_tiles *p = arg;
    form t = p->t;

    t.parts = parts;
    if (!group_tile_choose_tile(p->f, p->target, &t))
        return INFINITY;
    return t.cost * (double)p->turns / (double)parts + nest_parts_cost(p->target->units, p->results, parts);
}

/* Choose the tiles, and split-K for as many parts as are cheapest in all. */
static bool choose_parts(facts *f, const bl_target *target, form *out)
{
    bl_tune *tune = f->tune;
    bl_free *free = &tune->free;
    int axis = (uint32_t)tune->nparams < target->max_params ? gpu_axis_to_split(f) : -1;
    facts before = *f;
    parted_tiles p = {f, target, *out, bl_free_size(free, bl_free_get(free, f->main)),
                      bl_free_size(free, bl_free_bound(free, f->main))};
    const bl_parting how = {axis < 0 ? 0 : bl_extent_of(tune->axis[axis].range), BL_PARTS_MOST, BL_PARTS_SHORTEST,
                            .cost = parted_tiles_cost, .arg = &p};

    out->parts = 1;
    if (!group_tile_choose_tile(f, target, out))
        return false;
    out->parts = bl_parts_choose(&how);
    if (out->parts > 1 && group_tile_choose_tile(f, target, out) && bl_tune_apply_at(tune, BL_PARTIAL_GLOBAL, axis, out->parts)) {
        facts_again(f, &before);
        return f->main != NULL;
    }
    if (out->parts == 1)
        return true;
    out->parts = 1;
    return group_tile_choose_tile(f, target, out);
}

/* ---- the reduction */

/* The number of iterations of a loop of |extent| per copy, if each contains |turns| inner iterations and a copy has at most
 * |most|: a divisor of the extent, a multiple of the vector width if possible. 0 if there is none. */
static int64_t copied_turns(int64_t extent, int64_t turns, int64_t most)
{
    int64_t best = 0;

    for (int64_t n = 2; n * turns <= most && n <= extent; n++) {
        if (extent % n == 0 && (n % 4 == 0 || best % 4 != 0 || best == 0))
            best = n;
    }
    if (best * turns >= FEWEST_TURNS || turns >= FEWEST_TURNS)
        return best;
    return most / turns < SHORT_COPY / turns ? most / turns : SHORT_COPY / turns; /* the remainder is read from global memory */
}

/* Split the loops of the main reduction into those around a copy and those inside, and unroll the innermost. |turn|
 * is the innermost loop around the copy, or NULL. */
static void group_tile_split_reduction(facts *f, int64_t most, const bl_node **turn)
{
    bl_tune *tune = f->tune;
    const bl_node *loops[BL_MAX_AXES], *innermost = NULL;
    int64_t turns = 1, extent = 0;
    int n = 0;

    *turn = NULL;
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range->sub == BL_AXIS_REDUCE && bl_binds(f->main, tune->axis[i].range))
            loops[n++] = tune->axis[i].range;
    }
    for (; n > 0 && turns < SHORT_COPY && bl_is_fixed(loops[n - 1]) && turns * bl_extent_of(loops[n - 1]) <= most; n--) {
        turns *= bl_extent_of(loops[n - 1]);
        innermost = innermost == NULL ? loops[n - 1] : innermost;
    }
    if (n > 0)
        *turn = loops[n - 1];
    if (n > 0 && turns < SHORT_COPY && bl_is_fixed(*turn) &&
        bl_tune_apply_at(tune, BL_SPLIT_LOOP, facts_axis_of(tune, *turn), copied_turns(bl_extent_of(*turn), turns, most))) {
        innermost = innermost == NULL ? tune->axis[facts_inner_part(tune, *turn)].range : innermost;
        *turn = tune->axis[facts_outer_part(tune, *turn)].range;
    }
    extent = innermost == NULL ? 0 : bl_extent_of(innermost);
    if (extent > 1)
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_axis_of(tune, innermost),
                               extent <= UNROLL       ? extent
                               : extent % UNROLL == 0 ? UNROLL
                                                      : 4);
}

/* ---- the copies */

/* How to copy |load|: the number of loops inside the copy, and padding. */
static int64_t copy_of(facts *f, const bl_target *target, const bl_node *load, const bl_node *turn)
{
    bl_tune *tune = f->tune;
    bl_share how = {.twice = turn != NULL, .narrow = stays_narrow(target, load)};
    bool down = false, across = false; /* contiguous elements lie in a column of the copy, or in a row */

    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        bool within =
            !axis->output && (turn == NULL || bl_axis_precedes(turn, axis->range)) && bl_depends(tune, load, axis->range);
        bool contiguous = facts_contiguity(f, load, axis->range) == 1;
        how.loops += within && axis->range->sub == BL_AXIS_REDUCE;
        down = down || (within && contiguous);
        across = across || (axis->output && contiguous);
    }
    how.pad = down && !across ? PAD : 0;
    return bl_share_pack(how);
}

static bool group_tile_share_operands(const facts *before, const bl_target *target, const bl_node *turn)
{
    bl_tune *tune = before->tune;
    const bl_node *load[MOST_ACCESSES];
    int n = 0;
    facts f;

    facts_again(&f, before);
    for (int i = 0; i < f.naccesses && f.main != NULL; i++) {
        if (group_tile_is_operand(&f, &f.access[i]) && facts_read_by_several(tune, f.access[i].node, NULL))
            load[n++] = f.access[i].node; /* sharing one operand leaves the other loads as they are */
    }
    for (int i = 0; i < n; i++) {
        if (!bl_tune_apply_at(tune, BL_STAGE_LOCAL, tune_operand_number(tune, load[i]), copy_of(&f, target, load[i], turn)))
            return false;
    }
    return n >= 2;
}

bool group_nest(facts *f, const bl_target *target)
{
    bl_tune *tune = f->tune;
    const tune_mark start = tune_keep(tune);
    facts before = *f;
    const bl_node *turn = NULL;
    form t = {.cost = 0};
    bool good = f->main != NULL && target->groups == BL_GROUP_PARALLEL && bl_free_work(&tune->free, f->main) >= LEAST_WORK;

    good = good && bl_free_size(&tune->free, bl_free_bound(&tune->free, f->main)) >= SHORTEST;
    if (good && bl_is_gated(f->main->src[0])) /* the gate is tested when the operand is written out, not in the innermost loop */
        edges_write(f, target, &(edges_tile){.untiled = 0});
    good = good && f->main != NULL && choose_axes(f, &t) && choose_parts(f, target, &t);
    if (good) {
        int64_t most = most_turns(&t, target);
        (void)bl_tune_apply_at(tune, BL_SPLIT_VECTOR, facts_axis_of(tune, t.column), t.lanes);
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_outer_part(tune, t.column), t.wide);
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_outer_part(tune, t.column), t.columns);
        if (t.many > 1)
            (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_axis_of(tune, t.more), t.many);
        (void)bl_tune_apply_at(tune, BL_SPLIT_UNROLL, facts_axis_of(tune, t.row), t.rows);
        (void)bl_tune_apply_at(tune, BL_SPLIT_GROUP, facts_outer_part(tune, t.row), t.high);
        facts_again(f, &before);
        good = f->main != NULL;
        if (good)
            group_tile_split_reduction(f, most, &turn);
        good = good && group_tile_share_operands(&before, target, turn);
    }
    if (!good)
        facts_undo(f, &before, &start);
    return good;
}
