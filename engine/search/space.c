/* SPDX-License-Identifier: MIT */
/* The search space: the moves to try from a given list of moves. engine/opt decides whether a move is legal. This file lists
 * the sizes worth trying, in one function per kind of move: <move>_<kind>_sizes for each row of moves.def. */
#include "engine/search/search_internal.h"

#include <string.h>

enum {
    MOST_TILE = 16,      /* most copies that one move makes */
    EVERY_TILE = 8,      /* every tile size up to this size is tried; above it divisors and powers of two */
    NAMED_TILE = 4,      /* largest tile of a named dimension: in other runs the dimension is shorter than in the timed run */
    NAMED_LOCAL = 64,    /* most work-items along a named dimension */
    FEWEST_SHARERS = 4,  /* fewest work-items that share a reduction */
    REUSE_TO_PACK = 4,   /* least number of reads per element for which packing may pay */
    SCALAR_LANES = 4,    /* lanes of short vectors on a device without vector registers: loads of 16 bytes */
    MOST_TURNS = 32,     /* most iterations of a reduction whose operands a group copies at once */
    PAD = 4,             /* padding in elements after each row of a copy: a vector */
    MOST_PARTS = 64,     /* most parts of a reduction that several groups share (split-K) */
    SHORTEST_BLOCK = 64, /* iterations of a K block */
    LONGEST_BLOCK = 2048,
    SHORTEST_PART = 16, /* fewest elements of a part of a split reduction */
    FEWEST_PLACES = 16, /* fewest output positions whose sums a work-item keeps in local memory */
    /* number of results that occupies one multiprocessor: a tile of 128 x 128, or a few sums per work-item */
    FULL_UNIT = 1 << 14,
    UNIT_PAD = 8,         /* padding in elements for a matrix unit: rows start at multiples of 16 bytes */
    COARSE = 3,           /* number of sizes to try of a new move; if one of them was good, the search tries its neighbours */
    SPACE_BYTES = 1 << 27 /* limit of host memory for the inspection of one list of moves */
};

typedef struct size_list {
    int n;
    int64_t at[MOST_MOVE_SIZES];
} size_list;

/* A place of a nest where a move might be tried: an axis, an operand (a LOAD) or a STORE. */
typedef struct place {
    const bl_target *target;
    bl_tune *tune;
    const bl_axis *axis; /* set for moves on axes */
    const bl_node *node; /* set for moves on operands and stores */
} place;

static void space_add(size_list *a, int64_t size)
{
    if (a->n < MOST_MOVE_SIZES && (a->n == 0 || a->at[a->n - 1] < size))
        a->at[a->n++] = size;
}

static bool is_power(int64_t n)
{
    return (n & (n - 1)) == 0;
}

/* ---- sizes of moves on axes, smallest first; no sizes where the move is useless */

static void split_unroll_sizes(const place *p, size_list *out)
{
    int64_t extent = bl_extent_of(p->axis->range), most = p->axis->output ? MOST_TILE : EVERY_TILE;
    if (!bl_is_fixed(p->axis->range))
        most = NAMED_TILE;
    for (int64_t a = 2; a <= most && a <= extent; a++) {
        if (p->axis->output && (a <= EVERY_TILE || is_power(a) || extent % a == 0))
            space_add(out, a);
        else if (!p->axis->output && (is_power(a) || extent % a == 0))
            space_add(out, a);
    }
}

static void split_vector_sizes(const place *p, size_list *out)
{
    int64_t most = p->target->vector_bits > 0 ? p->target->vector_bits / 32 * 2 : SCALAR_LANES;
    most = p->target->max_lanes > 0 && most > p->target->max_lanes ? p->target->max_lanes : most;
    for (int64_t a = 2; a <= most && a <= BL_MAX_LANES && a <= bl_extent_of(p->axis->range); a *= 2)
        space_add(out, a);
}

/* Are operands staged in local memory? Not on a CPU: a CPU has caches, and each barrier costs time if it runs groups. */
static bool space_shares(const bl_target *target)
{
    return target->groups == BL_GROUP_PARALLEL;
}

/* Chunk sizes: powers of two, or the nearest larger divisors. For a reduction: the number of iterations whose operands a
 * group copies at once. */
static void split_loop_sizes(const place *p, size_list *out)
{
    int64_t extent = bl_extent_of(p->axis->range), most = p->axis->output ? INT32_MAX - 1 : MOST_TURNS;
    if (!p->axis->output && !space_shares(p->target))
        return;
    for (int64_t power = 2; power <= extent && power <= most; power *= 2) {
        int64_t size = power;
        while (size < 2 * power && size < extent && extent % size != 0)
            size++;
        space_add(out, size <= extent && extent % size == 0 ? size : power);
    }
}

/* Numbers of rows for which stages are computed at once: multiples of common tile heights. */
static void split_block_sizes(const place *p, size_list *out)
{
    static const int64_t rows[] = {2, 4, 6, 8, 12, 16, 18, 24, 32, 48};
    for (size_t i = 0; p->axis->range->sub == BL_AXIS_GLOBAL && i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i] <= bl_extent_of(p->axis->range))
            space_add(out, rows[i]);
    }
}

/* Numbers of K blocks: the lengths of blocks are divisors near powers of two. */
static void partial_local_sizes(const place *p, size_list *out)
{
    int64_t extent = bl_extent_of(p->axis->range);
    for (int64_t power = LONGEST_BLOCK; power >= SHORTEST_BLOCK && !p->axis->output && !p->axis->stage; power /= 2) {
        int64_t length = power;
        while (length < 2 * power && extent % length != 0)
            length++;
        if (length < 2 * power && length < extent)
            space_add(out, extent / length);
    }
}

/* Numbers of work-items along an axis: powers of two. The number of work-items that share a reduction must divide the
 * reduction. */
static void split_group_sizes(const place *p, size_list *out)
{
    bool fixed = bl_is_fixed(p->axis->range);
    int64_t extent = bl_extent_of(p->axis->range), most = fixed ? extent : NAMED_LOCAL;

    if (!p->target->groups || (!p->axis->output && !fixed))
        return;
    for (int64_t a = p->axis->output ? 2 : FEWEST_SHARERS; a <= (int64_t)p->target->max_local && a <= extent && a <= most;
         a *= 2) {
        if (p->axis->output || extent % a == 0)
            space_add(out, a);
    }
}

/* Numbers of iterations whose scores a work-item computes at once (flash attention). */
static void stage_values_sizes(const place *p, size_list *out)
{
    for (int64_t a = 1; p->target->groups && !p->axis->output && a <= EVERY_TILE; a *= 2)
        space_add(out, a);
}

/* Numbers of output positions whose sums a work-item keeps (scatter inversion). */
static void partial_scatter_sizes(const place *p, size_list *out)
{
    int64_t extent = bl_extent_of(p->axis->range);
    if (!p->axis->output || !bl_tune_has_sent(p->tune))
        return;
    for (int64_t a = FEWEST_PLACES; a < extent && p->axis->range->sub == BL_AXIS_GLOBAL; a *= 2)
        space_add(out, a);
    space_add(out, extent);
}

static void order_fastest_sizes(const place *p, size_list *out)
{
    if (p->axis->range->sub == BL_AXIS_GLOBAL)
        space_add(out, 0);
}

/* The shapes of the device's matrix units, in the order of their numbers. */
static void unit_matrix_sizes(const place *p, size_list *out)
{
    int64_t last = 0;
    for (int i = 0; i < p->target->nmatrix && p->axis->output && p->axis->outer && p->target->use != BL_MATRIX_NEVER; i++) {
        int64_t next = INT64_MAX;
        for (int k = 0; k < p->target->nmatrix; k++) {
            int64_t shape = bl_matrix_pack(p->target->matrix[k].shape);
            next = shape > last && shape < next ? shape : next;
        }
        space_add(out, next);
        last = next;
    }
}

/* Would a device with groups be underused if each result were computed by one work-item? */
static bool has_few_results(const bl_target *target, const bl_tune *tune)
{
    int64_t results = 1, full = (int64_t)target->units * FULL_UNIT;

    for (int i = 0; i < tune->naxes && results < full; i++)
        results *= tune->axis[i].output ? bl_extent_of(tune->axis[i].range) : 1;
    return target->groups && results < full;
}

/* Numbers of parts of a reduction: divisors near powers of two with parts that are long enough. */
static void partial_global_sizes(const place *p, size_list *out)
{
    int64_t extent = bl_extent_of(p->axis->range);

    if (p->axis->output || p->axis->stage || !has_few_results(p->target, p->tune))
        return;
    for (int64_t power = 2; power <= MOST_PARTS && power * SHORTEST_PART <= extent; power *= 2) {
        int64_t size = power;
        while (size < 2 * power && extent % size != 0)
            size++;
        if (size < 2 * power && size * SHORTEST_PART <= extent)
            space_add(out, size);
    }
}

/* ---- sizes of moves on operands and stores */

static void stage_halo_sizes(const place *p, size_list *out)
{
    if (p->node->nsrc > 2) /* the operand is read under a gate */
        space_add(out, 0);
}

/* Packing pays only if loops that the load does not depend on read each element several times. */
static void stage_panels_sizes(const place *p, size_list *out)
{
    bl_tune *tune = p->tune;
    uint64_t all = bl_free_get(&tune->free, tune->sink), own = bl_free_get(&tune->free, p->node);

    for (int i = 0; i < tune->naxes; i++)
        all |= bl_free_bit(&tune->free, tune->axis[i].range);
    if (p->node->src[0]->arg < tune->nparams - tune->npacked && own != 0 &&
        bl_free_size(&tune->free, all) / REUSE_TO_PACK >= bl_free_size(&tune->free, own))
        space_add(out, 0);
}

/* Is the load inside a reduction loop, and do several work-items of a group load the same element? */
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

/* Ways to stage an operand in local memory: each number of loops inside that the operand depends on, each remedy against
 * bank conflicts, and for 16-bit floats with and without conversion. */
static void stage_local_sizes(const place *p, size_list *out)
{
    bl_tune *tune = p->tune;
    bool is_half = p->node->dtype == BL_F16 || p->node->dtype == BL_BF16;
    int loops = 0, pad = tune->matrix ? UNIT_PAD : PAD;

    if (!space_shares(p->target) || !is_read_by_several(tune, p->node))
        return;
    for (int i = 0; i < tune->naxes; i++)
        loops += tune->axis[i].range->sub == BL_AXIS_REDUCE && bl_depends(tune, p->node, tune->axis[i].range);
    for (int way = 0; way < (is_half ? 4 : 2); way++) {
        for (int within = 0; within <= loops && within <= 2; within++) {
            for (int bits = 0; bits < (way % 2 == 0 ? 4 : 2); bits++)
                space_add(out, bl_share_pack((bl_share){.twice = (bits & 1) != 0,
                                                        .swizzle = (bits & 2) != 0,
                                                        .loops = within,
                                                        .pad = way % 2 * pad,
                                                        .narrow = way >= 2}));
        }
    }
}

static void hint_trim_sizes(const place *p, size_list *out)
{
    if (p->node->nsrc > 2)
        space_add(out, 0);
}

static void hint_stream_sizes(const place *p, size_list *out)
{
    if (p->target->last_cache_bytes > 0 && p->node->arg != BL_STORE_STREAMS)
        space_add(out, 0);
}

#define MOVE(move)
#define KIND(id, move, kind, what, size, barred, traits) [BL_##id] = move##_##kind##_sizes,
static void (*const sizes_of[BL_MOVE_KINDS])(const place *p, size_list *out) = {
#include "engine/opt/moves.def"
};
#undef MOVE
#undef KIND

/* ---- variants of a list of moves */

typedef struct variants {
    const subject *s;
    const steps *from;
    int n, most;
    steps *out;
} variants;

/* Add |from| with |drop| steps at |at| replaced by |put|, or removed. */
static void vary(variants *v, int at, int drop, const bl_move *put)
{
    int added = put != NULL, behind = v->from->n - at - drop;
    steps *to = &v->out[v->n];

    /* keep room for the moves that the device's limits require */
    if (v->n == v->most || v->from->n - drop + added > BL_MAX_MOVES - 8)
        return;
    to->n = v->from->n - drop + added;
    memcpy(to->at, v->from->at, (size_t)at * sizeof *to->at);
    if (put != NULL)
        to->at[at] = *put;
    memcpy(to->at + at + added, v->from->at + at + drop, (size_t)behind * sizeof *to->at);
    v->n++;
}

/* Is the axis a loop on which moves of this kind may be tried? */
static bool is_candidate(const bl_axis *axis, bl_move_kind kind)
{
    const bl_node *range = axis->range;
    return (bl_is_fixed(range) || (bl_move_rows[kind].traits & BL_MOVE_ANY_EXTENT) != 0) && bl_extent_of(range) > 1 &&
           (range->sub == BL_AXIS_GLOBAL || range->sub == BL_AXIS_LOOP || range->sub == BL_AXIS_REDUCE);
}

/* The position of a new move: before the moves that lay out panels or local memory, since the layouts follow the splits. */
static int space_position_of(const steps *from, const bl_move_row *row)
{
    int at = 0;

    if ((row->traits & BL_MOVE_BEGINS) != 0)
        return 0;
    if (row->what != BL_WHAT_AXIS)
        return from->n;
    while (at < from->n && (bl_move_rows[from->at[at].kind].traits & BL_MOVE_LAYS_OUT) == 0)
        at++;
    return at;
}

/* Find object number |at| among those that a move on |what| may name; false if there is no such object. */
static bool place_at(place *p, bl_move_what what, int at)
{
    const bl_node *load[MOST_LOADS];

    switch (what) {
    case BL_WHAT_AXIS:
        p->axis = at < p->tune->naxes ? &p->tune->axis[at] : NULL;
        return p->axis != NULL;
    case BL_WHAT_OPERAND:
        p->node = at < bl_tune_operands(p->tune, MOST_LOADS, load) ? load[at] : NULL;
        return p->node != NULL;
    case BL_WHAT_STORE:
        p->node = (uint32_t)at < p->tune->sink->nsrc ? p->tune->sink->src[at] : NULL;
        return p->node != NULL;
    }
    return false;
}

/* Is an axis the outermost part of all splits of its loop? */
static bool is_outermost(bl_name axis)
{
    return (axis.path & (axis.path - 1)) == 0 && axis.twin == 0;
}

/* Add one move. |tune| is the nest with all moves of |from| applied. */
static void add_moves(variants *v, bl_tune *tune)
{
    for (int kind = 0; kind < BL_MOVE_KINDS; kind++) {
        const bl_move_row *row = &bl_move_rows[kind];
        /* ordered sizes: try few, since the search tries the neighbours of a good size */
        bool coarse = row->what == BL_WHAT_AXIS && row->size != BL_SIZE_SHAPE;
        place p = {.target = v->s->nest->target, .tune = tune};
        for (int i = 0; place_at(&p, row->what, i); i++) {
            bl_move s = {.kind = (bl_move_kind)kind, .what = bl_tune_name(tune, row->what, i)};
            size_list a = {0};
            if (row->what == BL_WHAT_AXIS && !is_candidate(p.axis, s.kind))
                continue;
            if (row->what == BL_WHAT_AXIS && (row->traits & BL_MOVE_BEGINS) != 0) {
                if (!is_outermost(s.what))
                    continue;
                s.what.path = 1; /* the axis before all splits */
            }
            sizes_of[kind](&p, &a);
            for (int k = 0, few = !coarse || a.n < COARSE ? a.n : COARSE; k < few; k++) {
                s.size = a.at[few == a.n ? k : k * (a.n - 1) / (COARSE - 1)];
                vary(v, space_position_of(v->from, row), 0, &s);
            }
        }
    }
}

/* Change the size of step |which|, or its axis. |tune| is the nest with the earlier steps applied. */
static void change_step(variants *v, bl_tune *tune, int which)
{
    const bl_move *old = &v->from->at[which];
    const bl_move_row *row = &bl_move_rows[old->kind];
    place p = {.target = v->s->nest->target, .tune = tune};
    int number = bl_tune_find(tune, row->what, old->what), at = 0;
    size_list a = {0};

    if (number >= 0 && row->size != BL_SIZE_NONE && row->size != BL_SIZE_OUTPUTS && place_at(&p, row->what, number))
        sizes_of[old->kind](&p, &a);
    while (at < a.n && a.at[at] < old->size)
        at++;
    for (int k = at - 2; k <= at + 2; k++) {
        bl_move s = *old;
        if (k < 0 || k >= a.n || a.at[k] == old->size)
            continue;
        s.size = a.at[k];
        vary(v, which, 1, &s);
    }
    for (int i = 0; (row->traits & BL_MOVE_ELSEWHERE) != 0 && i < tune->naxes; i++) {
        bl_move s = *old;
        s.what = bl_tune_name(tune, row->what, i);
        if (i != number && is_candidate(&tune->axis[i], s.kind))
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
