/* The number of a RANGE (its |arg|) tells loops apart and orders them; equal numbers, kinds and extents make one node. Only this
 * file knows how a number is packed. In a nest of the scheduler, a number is a level and a slot (bl_loop_...). In a nest to which
 * moves are applied, each loop has room for its parts, so a number is a level, a slot and a part (bl_axis_...). */
#ifndef BL_IR_AXIS_NUMBER_H
#define BL_IR_AXIS_NUMBER_H

#include "engine/ir/node.h"

/* Levels: what a loop is for. */
enum {
    BL_LEVEL_OUTPUTS = 0,   /* loops over the results of the nest */
    BL_LEVEL_SUMS = 1,      /* loops of reductions; a reduction inside another one has the next level */
    BL_LEVEL_STAGES = 8,    /* loops of stage number k (level + 2 k), and of the reductions inside it (level + 2 k + 1) */
    BL_LEVELS_OF_STAGE = 2, /* of these levels */
    BL_LEVELS_OF_ROWS = 64, /* added for reductions that get loops of their own, apart from those of a product (block.c) */
    BL_LEVEL_COPIES = 192,  /* loops that fill a copy in local memory (share.c): two slots for each move */
    BL_LEVEL_SCORES = 200,  /* loops that fill the stages of BL_STAGE_VALUES */
    BL_LEVEL_HELD = 4096    /* placeholders, which no nest keeps (stride.c) */
};

enum { BL_AXIS_SLOTS = BL_MAX_DIMS, BL_AXIS_PARTS = 1 << 12 };

typedef struct bl_axis_number {
    int level;
    int slot; /* which loop of the level, outermost first. Slots from BL_AXIS_SLOTS on are those of the following levels */
    int part; /* which part of a loop that moves split, outermost first; 0: the loop, or its outermost part */
} bl_axis_number;

/* Does |a| come before |b|? If both are around one value, |a| is then the outer loop. */
static inline bool bl_axis_precedes(const bl_node *a, const bl_node *b)
{
    return a->arg < b->arg;
}

static inline bool bl_axis_same(const bl_node *a, const bl_node *b)
{
    return a->arg == b->arg;
}

/* ---- nests of the scheduler */

static inline int bl_loop_pack(int level, int slot)
{
    return level * BL_AXIS_SLOTS + slot;
}

static inline int bl_loop_level(const bl_node *range)
{
    return (int)(range->arg / BL_AXIS_SLOTS);
}

static inline int bl_loop_slot(const bl_node *range)
{
    return (int)(range->arg % BL_AXIS_SLOTS);
}

/* ---- nests to which moves are applied */

static inline int bl_axis_pack(bl_axis_number n)
{
    return bl_loop_pack(n.level, n.slot) * BL_AXIS_PARTS + n.part;
}

static inline bl_axis_number bl_axis_unpack(const bl_node *range)
{
    int origin = (int)(range->arg / BL_AXIS_PARTS);
    return (bl_axis_number){origin / BL_AXIS_SLOTS, origin % BL_AXIS_SLOTS, (int)(range->arg % BL_AXIS_PARTS)};
}

/* The loop of which |range| is a part, as a number of the scheduler's nest. */
static inline int bl_axis_origin(const bl_node *range)
{
    return (int)(range->arg / BL_AXIS_PARTS);
}

/* The number that a loop of the scheduler's nest gets when moves begin. */
static inline int bl_axis_of_loop(const bl_node *range)
{
    return (int)range->arg * BL_AXIS_PARTS;
}

static inline bool bl_axis_is_output(const bl_node *range)
{
    return bl_axis_unpack(range).level == BL_LEVEL_OUTPUTS;
}

/* The number of the remainder that a split of |range| leaves behind whole parts. */
static inline int bl_axis_rest(const bl_node *range)
{
    return (int)range->arg + 1;
}

#endif
