/* The moves: what can be done to a loop nest without changing what it computes.  A choice is a list of moves; the heuristic makes
 * one (heuristic.c), a search tries others (engine/search/).
 *
 * An axis is a RANGE of the nest.  Axes are listed outputs first, in the order of their loops; a move names one by its place in
 * the list at the time.  Splitting axis r of extent n by a writes r as a * r' + i: r' keeps r's place, i comes right behind it.
 * Where a does not divide n, an output axis lets its last part overlap the one before (r = min(a * r', n - a) + i: the same
 * values are stored twice), and a reduction folds the rest in a loop of its own. */
#ifndef BL_OPT_MOVE_H
#define BL_OPT_MOVE_H

#include "engine/base/text.h"
#include "engine/ir/free.h"
#include "engine/sched/schedule.h"

enum { BL_MAX_AXES = 48, BL_MAX_MOVES = 32, BL_MAX_HELPERS = 4 };

/* Lists of moves are kept from one start to the next: to be raised when one comes to mean something else, or what the scheduler
 * makes of a graph is numbered otherwise.  A move that is added changes no list. */
enum { BL_MOVES_VERSION = 3 };

/* Vectors of so many lanes or more, from places 2 to so many apart, are picked out of whole vectors; others are loaded one by
 * one. */
enum { BL_LANES_PICKED = 8, BL_MOST_APART = 3 };

typedef enum bl_move_kind {
    BL_MOVE_TILE,   /* split by amount; the inner part is unrolled, one register each */
    BL_MOVE_VECTOR, /* split by amount; the inner part is the lanes of vectors */
    BL_MOVE_CHUNK,  /* split an output axis, or a reduction, by amount; the inner part is a loop inside the work-item */
    BL_MOVE_BLOCK,  /* split a grid axis that stages depend on; the inner part is a loop inside the work-item, and each stage is
                       computed for all of it at once, in loops of its own */
    BL_MOVE_LOCAL, /* split an output axis by amount; the inner part is the work-items of a group; of a loop over outputs inside a
                      work-item, those that share the reductions before it (GROUP), of which there are as many */
    BL_MOVE_GROUP, /* split a reduction by amount; the work-items of a group share it */
    BL_MOVE_FIRST, /* make a grid axis the fastest, that is not yet */
    BL_MOVE_EDGES, /* operand number axis, read under a gate at sums of axes (a padded window), is written out with its edges by a
                      helper kernel; the nest then reads it without a gate, and asks no more whether a product with it counts, but
                      for comparisons with output axis i where bit i of amount is set: their loops will end there (lower/trim.c).
                      An amount below 0 is ~amount, and the helper goes by rows of its last axis: edges, a copy, edges */
    BL_MOVE_STREAM, /* store number axis, which the nest does not read back, goes past the caches where it is whole vectors and
                       the device can */
    BL_MOVE_PACK,   /* operand number axis is written into panels by a helper kernel, in the order in which the nest reads it */
    BL_MOVE_SHARE,  /* what a group reads of operand number axis in some turns of a reduction's innermost loops is copied into
                       local  memory by its work-items together, and read from there; the amount is a bl_share.  No LOCAL, GROUP,
                       MATRIX or EDGES after it */
    BL_MOVE_MATRIX, /* a product whose rows are the axis goes to matrix units of the shape that is the amount (bl_matrix_pack) */
    BL_MOVE_KBLOCK, /* split a reduction by amount, which divides it; the outer part becomes a loop around those over the outputs
                       inside the work-item (of CHUNK), whose sums lie in local memory from one of its turns to the next */
    BL_MOVE_SPLIT,  /* the nest's sums over an axis become as many partial ones as the amount, which divides it: the parts are an
                       axis of the grid, and a helper behind the nest adds them up in their order and does what followed the
                       sums. Before every other move but PACK and EDGES */
    BL_MOVE_SCORE, /* what a reduction over the axis takes of each turn, and is the same for all columns of the output, such as an
                      attention's scores, is computed by the group together, amount turns for each work-item, into local memory */
    BL_MOVE_SEND,  /* split an output axis, along which each place folds what was sent to it, by amount; the inner part is a loop
                      inside the work-item, and what is folded finds its place, among sums that lie in local memory (send.c) */
    BL_MOVE_KINDS
} bl_move_kind;

typedef struct bl_move {
    bl_move_kind kind;
    int axis;
    int64_t amount;
} bl_move;

/* The amount of a BL_MOVE_SHARE. */
typedef struct bl_share {
    bool
        twice; /* two copies: the next is loaded while this one is read, and work-items wait for each other once a turn.  Bit 0 */
    bool swizzle; /* each row of the copy begins one vector further on than the one before, and goes round, so that a column of it
                     does not lie in one bank.  Bit 1 */
    int loops;   /* how many of the innermost loops of its reduction are within one copy, below 64: bits 2 to 7.  What is unrolled
                    counts as no loop, and is within it always */
    int pad;     /* elements behind each row, below 256: bits 8 to 15.  To the same end */
    bool narrow; /* a float of 16 bits takes 16, and is converted whenever it is read; else when it is copied.  Bit 16 */
} bl_share;
int64_t bl_share_pack(bl_share how);
bool bl_share_unpack(int64_t amount, bl_share *how); /* false where it is none */

typedef struct bl_axis {
    const bl_node *range;
    bool output; /* else a reduction's */
    bool outer;  /* every store and every hoisted reduction or stage depends on it: it may be a grid axis */
    bool stage;  /* a stage's: as with an output, a last part may overlap the one before ... */
    bool folds;  /* ... but not here: the stage folds what is stored to an element */
} bl_axis;

/* A helper, and the buffer that it shares with the nest: a packed operand, which the helper writes before the nest reads it, or
 * partial sums, which the nest writes and the helper behind it reads. */
typedef struct bl_packed {
    const bl_node *sink; /* parameter 0 is the buffer, those after it are from[] of the main nest */
    bool behind;         /* it runs after the nest, and stores what the nest had to */
    int param;           /* of the main nest: the buffer */
    int nfrom;
    int from[BL_MAX_DIMS * 2];
    bl_dtype dtype;
    const bl_node *count; /* elements */
} bl_packed;

/* A nest that moves are applied to. */
typedef struct bl_tune {
    bl_ir *ir;
    const bl_node *sink;
    int nparams;
    int64_t local_bytes; /* how much stages may take together; no limit at first */
    int naxes;
    bl_axis axis[BL_MAX_AXES];
    bl_free free; /* of the sink as it is */
    bool shared;  /* BL_MOVE_SHARE was applied */
    bool scored;  /* BL_MOVE_SCORE was applied: but for what unrolls loops, few moves can follow */
    bool matrix;  /* BL_MOVE_MATRIX was applied: lanes, shared reductions and panels are its own from then on */
    int npacked;
    bl_packed packed[BL_MAX_HELPERS];
    int nmoves;
    bl_move moves[BL_MAX_MOVES];
} bl_tune;

/* Start from a nest of the scheduler: neighbouring loops that are one loop to every access are merged, and outer output axes
 * are grid axes. */
void bl_tune_init(bl_tune *tune, bl_ir *ir, const bl_node *sink, int nparams);
/* Apply a move.  False, and nothing changed, where it is not legal. */
bool bl_tune_apply(bl_tune *tune, bl_move move);
/* Unroll loops until no work-item takes more than |most| turns of all its loops together.  False where that cannot be had. */
bool bl_tune_limit_turns(bl_tune *tune, int64_t most);
/* Move until no dimension of the grid has more than most[d] groups.  False where that cannot be done. */
bool bl_tune_limit_groups(bl_tune *tune, const uint32_t most[3]);
/* "vector 1 16, tile 0 6" */
void bl_tune_print(const bl_tune *tune, bl_text *out);
void bl_moves_print(int n, const bl_move *moves, bl_text *out);
/* Read that back.  False where it is no list of at most BL_MAX_MOVES moves. */
bool bl_moves_parse(const char *text, bl_move moves[BL_MAX_MOVES], int *n);

/* ---- facts that choices are made of */
/* By how many elements the index of a LOAD or STORE grows with an axis; false if not by a fixed number (a gather, a division). */
bool bl_access_stride(const bl_tune *tune, const bl_node *access, const bl_node *range, int64_t *stride);
/* Is there an axis for BL_MOVE_SEND? */
bool bl_tune_has_sent(bl_tune *tune);
/* Is |node|'s value different along the axis? */
bool bl_depends(bl_tune *tune, const bl_node *node, const bl_node *range);
int64_t bl_extent_of(const bl_node *range); /* the largest */
int bl_axis_origin(const bl_node *range);   /* which axis of the nest, before any move, it is part of */
/* The LOADs of the nest in the order of their operand numbers, at most |most|. */
int bl_tune_operands(bl_tune *tune, int most, const bl_node **load);
bool bl_is_fixed(const bl_node *range); /* a constant extent */

#endif
