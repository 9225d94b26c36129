/* SPDX-License-Identifier: MIT */
/* The space: which moves there are to try next.  Legality is the moves' own affair (engine/opt/tune.c); here is what is sensible,
 * one row for each kind of move. */
#include "engine/search/internal.h"

#include <string.h>

enum {
    MOST_TILE = 16,      /* copies that one move makes */
    EVERY_TILE = 8,      /* up to which every size is tried; from there on divisors and powers of two */
    NAMED_TILE = 4,      /* of an axis that is short in other runs than the one that is timed */
    NAMED_LOCAL = 64,    /* work-items along such an axis */
    REUSE_TO_PACK = 4,   /* reads of each element from which a panel may pay */
    SCALAR_LANES = 4,    /* of short vectors on a device without vector registers: loads of 16 bytes */
    MOST_TURNS = 32,     /* of a reduction that a group copies the operands of at once */
    PAD = 4,             /* elements behind the rows of a copy: a vector */
    MOST_PARTS = 64,     /* of a sum that groups share */
    SHORTEST_PART = 16,  /* elements of it that are worth a group */
    FEWEST_PLACES = 16,  /* whose sums a work-item has in local memory */
    FULL_UNIT = 1 << 14, /* results that one multiprocessor has work for: a tile of 128 x 128, or a few sums for each work-item */
    UNIT_PAD = 8,        /* ... of one for a matrix unit, whose rows begin at multiples of 16 bytes */
    COARSE = 3,          /* amounts of a move that is new; its neighbours come when it was good */
    SPACE_BYTES = 1 << 27 /* of host memory, for looking at one list of moves */
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

/* Do operands go to local memory?  A CPU has caches, and one that plays a GPU pays for each barrier. */
static bool shares(const bl_target *target)
{
    return target->groups && !target->cpu;
}

/* Powers of two, or the divisors next to them; of a reduction what a group copies at once. */
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

/* Rows that stages are computed for at once: whole tiles of common heights. */
static void block_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    static const int64_t rows[] = {2, 4, 6, 8, 12, 16, 18, 24, 32, 48};
    (void)target;
    for (size_t i = 0; axis->range->sub == BL_AXIS_GLOBAL && i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i] <= bl_extent_of(axis->range))
            add(out, rows[i]);
    }
}

/* Blocks of a reduction: what divides it, around powers of two. */
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

/* Turns whose scores a work-item computes at once. */
static void score_amounts(const bl_target *target, const bl_axis *axis, amounts *out)
{
    for (int64_t a = 1; target->groups && !axis->output && a <= EVERY_TILE; a *= 2)
        add(out, a);
}

/* Places that a work-item has the sums of. */
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
    return bl_tune_has_sent((bl_tune *)(uintptr_t)tune); /* the free sets are a cache */
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

/* The shapes of the device's matrix units, in order of their numbers. */
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

/* Parts of a reduction that may be long enough: what divides it, around powers of two. */
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

/* Would the nest leave a device of groups with work-items idle, did each of its results have only one? */
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

/* Is each of its elements read several times, by loops it is not itself different in? */
static bool is_reused(bl_tune *tune, const bl_node *load)
{
    uint64_t all = bl_free_get(&tune->free, tune->sink), own = bl_free_get(&tune->free, load);
    for (int i = 0; i < tune->naxes; i++)
        all |= bl_free_bit(&tune->free, tune->axis[i].range);
    return load->src[0]->arg < tune->nparams - tune->npacked && own != 0 &&
           bl_free_size(&tune->free, all) / REUSE_TO_PACK >= bl_free_size(&tune->free, own);
}

/* Is it read in a loop, and the same for several work-items of a group? */
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

/* The ways to copy it: with as many loops within as it differs in, and each means against bank conflicts; and where 16 bits can
 * stay 16 bits, both ways. */
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

/* A kind of move has amounts for an axis, or operands that it is for. */
static const struct row {
    void (*amounts)(const bl_target *target, const bl_axis *axis, amounts *out);
    bool (*suits)(const bl_target *target, const bl_tune *tune); /* any other is for no axis; NULL: all */
    bool (*operand)(bl_tune *tune, const bl_node *load);
    void (*ways)(const bl_target *target, bl_tune *tune, const bl_node *load, amounts *out); /* for an operand; NULL: one */
    bool named;     /* also for an axis of a named extent */
    bool elsewhere; /* the same on another axis is a neighbour */
    bool begins;    /* it stands before all others */
    bool each;      /* amounts are no measure: none stands for those next to it */
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

/* |from| with |drop| steps at |at| replaced by |put|, or by nothing. */
static void vary(variants *v, int at, int drop, const step *put)
{
    int added = put != NULL, behind = v->from->n - at - drop;
    steps *to = &v->out[v->n];

    if (v->n == v->most || v->from->n - drop + added > BL_MAX_MOVES - 8) /* the device's bounds may ask for some more */
        return;
    to->n = v->from->n - drop + added;
    memcpy(to->at, v->from->at, (size_t)at * sizeof *to->at);
    if (put != NULL)
        to->at[at] = *put;
    memcpy(to->at + at + added, v->from->at + at + drop, (size_t)behind * sizeof *to->at);
    v->n++;
}

/* The axis as a search names it; false where the step is not for such an axis. */
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

/* Where a split goes that is new: panels, and what is in local memory, are laid out by the splits before them. */
static int before_panels(const steps *from)
{
    int at = 0;
    while (at < from->n && from->at[at].kind != BL_MOVE_PACK && from->at[at].kind != BL_MOVE_SHARE &&
           from->at[at].kind != BL_MOVE_SCORE)
        at++;
    return at;
}

/* A move more. |tune| is the nest with all of |from| done. */
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

/* Another amount for step |which|, or another axis. |tune| is the nest with the steps before it done. */
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
