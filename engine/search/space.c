/* SPDX-License-Identifier: MIT */
/* The search space: the moves to try from a given list. engine/opt decides whether a move is legal; this file lists the moves
 * that make sense, one row per kind. */
#include "engine/search/search_internal.h"

#include <string.h>

enum {
    MOST_TILE = 16,       /* most copies that one move makes */
    EVERY_TILE = 8,       /* every size is tried up to this one; above it divisors and powers of two */
    NAMED_TILE = 4,       /* largest tile of a named dimension, which is shorter in other runs than the timed one */
    NAMED_LOCAL = 64,     /* most work-items along such a dimension */
    REUSE_TO_PACK = 4,    /* reads per element from which packing may pay */
    SCALAR_LANES = 4,     /* lanes of short vectors on a device without vector registers: loads of 16 bytes */
    MOST_TURNS = 32,      /* most iterations of a reduction whose operands a group copies at once */
    PAD = 4,              /* padding in elements after each row of a copy: a vector */
    MOST_PARTS = 64,      /* most parts of a reduction that several groups share (split-K) */
    SHORTEST_PART = 16,   /* fewest elements of such a part */
    FEWEST_PLACES = 16,   /* fewest output positions whose sums a work-item keeps in local memory */
    FULL_UNIT = 1 << 14,  /* results that occupy one multiprocessor: a tile of 128 x 128, or a few sums per work-item */
    UNIT_PAD = 8,         /* padding for a matrix unit, whose rows start at multiples of 16 bytes */
    COARSE = 3,           /* amounts to try of a new move; its neighbours follow if it was good */
    SPACE_BYTES = 1 << 27 /* host memory for the inspection of one list of moves */
};

typedef struct amounts {
    int n;
    int64_t at[MOST_AMOUNTS];
} amounts;

static void add(amounts *a, int64_t amount)
{
    if (a->n < MOST_AMOUNTS && (a->n == 0 || a->at[a->n - 1] < amount))
        a->at[a->n++] = amount;
}

static bool is_power(int64_t n)
{
    return (n & (n - 1)) == 0;
}

/* ---- amounts by which an axis may be split, smallest first; none where the move is not for it */

static void tile_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t extent = bl_extent_of(axis->range), most = axis->output ? MOST_TILE : EVERY_TILE;
    (void)target;
    if (!bl_is_fixed(axis->range))
        most = NAMED_TILE;
    for (int64_t a = 2; a <= most && a <= extent; a++) {
        if (axis->output && (a <= EVERY_TILE || is_power(a) || extent % a == 0))
            add(out, a);
        else if (!axis->output && (is_power(a) || extent % a == 0))
            add(out, a);
    }
}

static void vector_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t most = target->vector_bits > 0 ? target->vector_bits / 32 * 2 : SCALAR_LANES;
    most = target->max_lanes > 0 && most > target->max_lanes ? target->max_lanes : most;
    for (int64_t a = 2; a <= most && a <= BL_MAX_LANES && a <= bl_extent_of(axis->range); a *= 2)
        add(out, a);
}

/* Are operands staged in local memory? Not on a CPU: it has caches, and it pays for each barrier if it runs groups. */
static bool shares(const bl_target *target)
{
    return target->groups && !target->cpu;
}

/* Powers of two, or the nearest larger divisors. For a reduction: the iterations whose operands a group copies at once. */
static void chunk_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t extent = bl_extent_of(axis->range), most = axis->output ? INT32_MAX - 1 : MOST_TURNS;
    if (!axis->output && !shares(target))
        return;
    for (int64_t power = 2; power <= extent && power <= most; power *= 2) {
        int64_t amount = power;
        while (amount < 2 * power && amount < extent && extent % amount != 0)
            amount++;
        add(out, amount <= extent && extent % amount == 0 ? amount : power);
    }
}

/* Rows for which stages are computed at once: multiples of common tile heights. */
static void block_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    static const int64_t rows[] = {2, 4, 6, 8, 12, 16, 18, 24, 32, 48};
    (void)target;
    for (size_t i = 0; axis->range->sub == BL_AXIS_GLOBAL && i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i] <= bl_extent_of(axis->range))
            add(out, rows[i]);
    }
}

/* Lengths of K blocks: divisors near powers of two. */
static void kblock_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t extent = bl_extent_of(axis->range);
    (void)target;
    for (int64_t power = 64; power < extent && power <= 2048 && !axis->output && !axis->stage; power *= 2) {
        int64_t amount = power;
        while (amount < 2 * power && extent % amount != 0)
            amount++;
        if (amount < 2 * power && amount < extent)
            add(out, amount);
    }
}

static void local_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t extent = bl_extent_of(axis->range), most = bl_is_fixed(axis->range) ? extent : NAMED_LOCAL;
    if (!target->groups || !axis->output)
        return;
    for (int64_t a = 2; a <= (int64_t)target->max_local && a <= extent && a <= most; a *= 2)
        add(out, a);
}

/* Iterations whose scores a work-item computes at once. */
static void score_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    for (int64_t a = 1; target->groups && !axis->output && a <= EVERY_TILE; a *= 2)
        add(out, a);
}

/* Number of output positions whose sums a work-item keeps. */
static void send_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t extent = bl_extent_of(axis->range);
    (void)target;
    for (int64_t a = FEWEST_PLACES; a < extent && axis->range->sub == BL_AXIS_GLOBAL; a *= 2)
        add(out, a);
    if (axis->output)
        add(out, extent);
}

static bool has_sent(const bl_target *target, const bl_tune *tune)
{
    (void)target;
    return bl_tune_has_sent((bl_tune *)(uintptr_t)tune); /* the sets of bl_free are a cache */
}

static void group_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t extent = bl_extent_of(axis->range);
    if (!target->groups || axis->output)
        return;
    for (int64_t a = 4; a <= (int64_t)target->max_local && a <= extent; a *= 2) {
        if (extent % a == 0)
            add(out, a);
    }
}

static void first_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    (void)target;
    if (axis->range->sub == BL_AXIS_GLOBAL)
        add(out, 0);
}

/* The shapes of the device's matrix units, in the order of their numbers. */
static void matrix_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t last = 0;
    for (int i = 0; i < target->nmatrix && axis->output && axis->outer && target->use != BL_MATRIX_NEVER; i++) {
        int64_t next = INT64_MAX;
        for (int k = 0; k < target->nmatrix; k++) {
            int64_t shape = bl_matrix_pack(target->matrix[k].shape);
            next = shape > last && shape < next ? shape : next;
        }
        add(out, next);
        last = next;
    }
}

/* Numbers of parts of a reduction: divisors near powers of two with parts that are long enough. */
static void split_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    int64_t extent = bl_extent_of(axis->range);
    (void)target;
    for (int64_t power = 2; power <= MOST_PARTS && power * SHORTEST_PART <= extent && !axis->output && !axis->stage; power *= 2) {
        int64_t amount = power;
        while (amount < 2 * power && extent % amount != 0)
            amount++;
        if (amount < 2 * power && amount * SHORTEST_PART <= extent)
            add(out, amount);
    }
}

/* Would a device with groups be underused if each result had one work-item? */
static bool has_few_results(const bl_target *target, const bl_tune *tune)
{
    int64_t results = 1, full = (int64_t)target->units * FULL_UNIT;

    for (int i = 0; i < tune->naxes && results < full; i++)
        results *= tune->axis[i].output ? bl_extent_of(tune->axis[i].range) : 1;
    return target->groups && results < full;
}

/* ---- operands that may be written out first */

static bool has_gate(bl_tune *tune, const bl_node *load)
{
    (void)tune;
    return load->nsrc > 2;
}

/* Is each element read several times, by loops that the load does not depend on? */
static bool is_reused(bl_tune *tune, const bl_node *load)
{
    uint64_t all = bl_free_get(&tune->free, tune->sink), own = bl_free_get(&tune->free, load);
    for (int i = 0; i < tune->naxes; i++)
        all |= bl_free_bit(&tune->free, tune->axis[i].range);
    return load->src[0]->arg < tune->nparams - tune->npacked && own != 0 &&
           bl_free_size(&tune->free, all) / REUSE_TO_PACK >= bl_free_size(&tune->free, own);
}

/* Is the load inside a reduction loop, and the same for several work-items of a group? */
static bool is_read_by_several(bl_tune *tune, const bl_node *load)
{
    bool several = false, looped = false;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_axis *axis = &tune->axis[i];
        several = several || (axis->range->sub == BL_AXIS_LOCAL && !bl_depends(tune, load, axis->range));
        looped = looped || (!axis->output && bl_depends(tune, load, axis->range));
    }
    return several && looped;
}

/* The ways to stage an operand: with as many loops inside as it depends on, each remedy against bank conflicts, and for 16-bit
 * floats with and without conversion. */
static void share_ways(const bl_target *target, bl_tune *tune, const bl_node *load, amounts *out)
{
    bool is_half = load->dtype == BL_F16 || load->dtype == BL_BF16;
    int loops = 0, pad = tune->matrix ? UNIT_PAD : PAD;

    for (int i = 0; i < tune->naxes; i++)
        loops += tune->axis[i].range->sub == BL_AXIS_REDUCE && bl_depends(tune, load, tune->axis[i].range);
    for (int way = 0; shares(target) && way < (is_half ? 4 : 2); way++) {
        for (int within = 0; within <= loops && within <= 2; within++) {
            for (int bits = 0; bits < (way % 2 == 0 ? 4 : 2); bits++)
                add(out, bl_share_pack((bl_share){.twice = (bits & 1) != 0,
                                                  .swizzle = (bits & 2) != 0,
                                                  .loops = within,
                                                  .pad = way % 2 * pad,
                                                  .narrow = way >= 2}));
        }
    }
}

/* A kind of move applies to axes, with amounts, or to operands. */
static const struct row {
    void (*amounts)(const bl_target *target, const bl_axis *axis, amounts *out);
    bool (*suits)(const bl_target *target, const bl_tune *tune); /* does the kind make sense for the nest? NULL: always */
    bool (*operand)(bl_tune *tune, const bl_node *load);
    /* variants for an operand; NULL: one */
    void (*ways)(const bl_target *target, bl_tune *tune, const bl_node *load, amounts *out);
    bool named;     /* also for an axis of named extent */
    bool elsewhere; /* the same move on another axis is a neighbour */
    bool begins;    /* must precede all other moves */
    bool each;      /* amounts are not ordered: try each one */
} rows[BL_MOVE_KINDS] = {[BL_MOVE_TILE] = {.amounts = tile_amounts, .named = true, .elsewhere = true},
                         [BL_MOVE_VECTOR] = {.amounts = vector_amounts, .named = true, .elsewhere = true},
                         [BL_MOVE_CHUNK] = {.amounts = chunk_amounts},
                         [BL_MOVE_BLOCK] = {.amounts = block_amounts},
                         [BL_MOVE_LOCAL] = {.amounts = local_amounts, .named = true, .elsewhere = true},
                         [BL_MOVE_GROUP] = {.amounts = group_amounts},
                         [BL_MOVE_FIRST] = {.amounts = first_amounts},
                         [BL_MOVE_EDGES] = {.operand = has_gate, .begins = true},
                         [BL_MOVE_PACK] = {.operand = is_reused},
                         [BL_MOVE_SHARE] = {.operand = is_read_by_several, .ways = share_ways},
                         [BL_MOVE_SPLIT] = {.amounts = split_amounts, .suits = has_few_results, .begins = true},
                         [BL_MOVE_KBLOCK] = {.amounts = kblock_amounts},
                         [BL_MOVE_SCORE] = {.amounts = score_amounts},
                         [BL_MOVE_SEND] = {.amounts = send_amounts, .suits = has_sent},
                         [BL_MOVE_MATRIX] = {.amounts = matrix_amounts, .elsewhere = true, .each = true}};

/* ---- variants */

typedef struct variants {
    const subject *s;
    const steps *from;
    int n, most;
    steps *out;
} variants;

/* Add |from| with |drop| steps at |at| replaced by |put|, or removed. */
static void vary(variants *v, int at, int drop, const step *put)
{
    int added = put != NULL, behind = v->from->n - at - drop;
    steps *to = &v->out[v->n];

    /* leaves room for the moves that the device's limits require */
    if (v->n == v->most || v->from->n - drop + added > BL_MAX_MOVES - 8)
        return;
    to->n = v->from->n - drop + added;
    memcpy(to->at, v->from->at, (size_t)at * sizeof *to->at);
    if (put != NULL)
        to->at[at] = *put;
    memcpy(to->at + at + added, v->from->at + at + drop, (size_t)behind * sizeof *to->at);
    v->n++;
}

/* Name an axis by origin and part. False if the step is not for such an axis. */
static bool name_axis(const bl_tune *tune, int number, step *s)
{
    const bl_node *range = tune->axis[number].range;
    s->origin = bl_axis_origin(range);
    s->part = 0;
    for (int i = 0; i < number; i++)
        s->part += bl_axis_origin(tune->axis[i].range) == s->origin;
    return (bl_is_fixed(range) || rows[s->kind].named) && bl_extent_of(range) > 1 &&
           (range->sub == BL_AXIS_GLOBAL || range->sub == BL_AXIS_LOOP || range->sub == BL_AXIS_REDUCE);
}

static bool is_same_axis(const step *a, const step *b)
{
    return a->origin == b->origin && a->part == b->part;
}

/* The position of a new split: before moves that lay out panels or local memory, since their layout follows the splits. */
static int before_panels(const steps *from)
{
    int at = 0;
    while (at < from->n && from->at[at].kind != BL_MOVE_PACK && from->at[at].kind != BL_MOVE_SHARE &&
           from->at[at].kind != BL_MOVE_SCORE)
        at++;
    return at;
}

/* Add one move. |tune| is the nest with all moves of |from| applied. */
static void add_moves(variants *v, bl_tune *tune)
{
    const bl_node *load[MOST_LOADS];
    int n = bl_tune_operands(tune, MOST_LOADS, load);

    for (int kind = 0; kind < BL_MOVE_KINDS; kind++) {
        const struct row *row = &rows[kind];
        bool suits = row->suits == NULL || row->suits(v->s->nest->target, tune);
        for (int i = 0; row->amounts != NULL && suits && i < tune->naxes; i++) {
            step s = {.kind = (bl_move_kind)kind};
            amounts a = {0};
            if (!name_axis(tune, i, &s) || (row->begins && s.part > 0))
                continue;
            row->amounts(v->s->nest->target, &tune->axis[i], &a);
            for (int k = 0, few = row->each || a.n < COARSE ? a.n : COARSE; k < few; k++) {
                s.amount = a.at[few == a.n ? k : k * (a.n - 1) / (COARSE - 1)];
                vary(v, row->begins ? 0 : before_panels(v->from), 0, &s);
            }
        }
        for (int i = 0; row->operand != NULL && i < n; i++) {
            step s = step_of_operand(tune, (bl_move_kind)kind, i);
            amounts a = {0};
            if (!row->operand(tune, load[i]))
                continue;
            if (row->ways == NULL)
                vary(v, row->begins ? 0 : v->from->n, 0, &s);
            else
                row->ways(v->s->nest->target, tune, load[i], &a);
            for (int k = 0; k < a.n; k++) {
                s.amount = a.at[k];
                vary(v, v->from->n, 0, &s);
            }
        }
    }
    for (uint32_t i = 0; v->s->nest->target->last_cache_bytes > 0 && i < tune->sink->nsrc; i++) {
        step s = step_of_store(tune, (int)i);
        if (tune->sink->src[i]->arg != BL_STORE_STREAMS)
            vary(v, v->from->n, 0, &s);
    }
}

/* Change the amount of step |which|, or its axis. |tune| is the nest with the earlier steps applied. */
static void change_step(variants *v, bl_tune *tune, int which)
{
    const step *old = &v->from->at[which];
    const struct row *row = &rows[old->kind];
    int axis = step_axis(tune, old), at = 0;
    amounts a = {0};

    if (row->ways != NULL && axis >= 0) {
        const bl_node *load[MOST_LOADS];
        if (axis < bl_tune_operands(tune, MOST_LOADS, load))
            row->ways(v->s->nest->target, tune, load[axis], &a);
    } else if (row->amounts != NULL && axis >= 0 && axis < tune->naxes) {
        row->amounts(v->s->nest->target, &tune->axis[axis], &a);
    }
    while (at < a.n && a.at[at] < old->amount)
        at++;
    for (int k = at - 2; k <= at + 2; k++) {
        step s = *old;
        if (k < 0 || k >= a.n || a.at[k] == old->amount)
            continue;
        s.amount = a.at[k];
        vary(v, which, 1, &s);
    }
    for (int i = 0; row->elsewhere && i < tune->naxes; i++) {
        step s = *old;
        if (name_axis(tune, i, &s) && !is_same_axis(&s, old))
            vary(v, which, 1, &s);
    }
}

int space_variants(const subject *s, const steps *from, int most, steps *out)
{
    variants v = {.s = s, .from = from, .most = most, .out = out};

    for (int i = 0; i <= from->n; i++) {
        bl_ir *ir = bl_ir_create(SPACE_BYTES);
        steps before = *from;
        bl_tune tune;
        before.n = i;
        if (ir != NULL && subject_tune(s, ir, &tune) && steps_apply(&tune, &before)) {
            if (i < from->n) {
                change_step(&v, &tune, i);
                vary(&v, i, 1, NULL);
            } else {
                add_moves(&v, &tune);
            }
        }
        bl_ir_destroy(ir);
    }
    return v.n;
}
