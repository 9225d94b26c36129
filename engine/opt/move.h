/* Moves: schedule transformations of a loop nest that do not change what it computes. A schedule is a list of moves; the
 * heuristic makes one (heuristic.c), and a search tries others (engine/search/).
 * An axis is a RANGE of the nest. Axes are listed outputs first, in the order of their loops; a move names an axis by its
 * current position in the list. Splitting axis r of extent n by a replaces r by a * r' + i: r' takes r's position, and i
 * follows it. If a does not divide n, the last part of an output axis overlaps the part before it (r = min(a * r', n - a) + i:
 * some values are stored twice), and a reduction folds the rest in a loop of its own. */
#ifndef BL_OPT_MOVE_H
#define BL_OPT_MOVE_H

#include "engine/base/text.h"
#include "engine/ir/axis_number.h"
#include "engine/ir/free.h"
#include "engine/sched/schedule.h"

enum { BL_MAX_AXES = 48, BL_MAX_MOVES = 32, BL_MAX_HELPERS = 4 };

/* The version of stored lists of moves. Raise it when the meaning of a move changes, or when the scheduler numbers its loops
 * differently. A new kind of move changes no stored list. */
enum { BL_MOVES_VERSION = 4 };

/* Strided loads with at least BL_LANES_PICKED lanes and a stride from 2 to BL_MOST_APART are picked out of contiguous vectors;
 * other strided loads are made lane by lane. */
enum { BL_LANES_PICKED = 8, BL_MOST_APART = 3 };

#define MOVE(id, name, on, amount, barred, traits) BL_MOVE_##id,
typedef enum bl_move_kind {
#include "engine/opt/moves.def"
    BL_MOVE_KINDS
} bl_move_kind;
#undef MOVE

/* |axis| is the number of an axis, of an operand or of a store, as bl_move_rows says, and |amount| has that row's type. */
typedef struct bl_move {
    bl_move_kind kind;
    int axis;
    int64_t amount;
} bl_move;

/* The amount of a BL_MOVE_SHARE. */
typedef struct bl_share {
    /* double buffering: the next tile is loaded while the current one is read, with one barrier per iteration. Bit 0 */
    bool twice;
    /* each row of the tile is rotated by one vector more than the row before it, so that a column does not lie in one bank. Bit
     * 1 */
    bool swizzle;
    /* number of innermost loops of the reduction inside one copy, below 64: bits 2 to 7. Unrolled loops do not count, and are
     * always inside */
    int loops;
    int pad; /* padding elements after each row, below 256: bits 8 to 15. Also against bank conflicts */
    /* a 16-bit float takes 16 bits in the tile and is converted at each read; else it is converted when it is copied. Bit 16 */
    bool narrow;
} bl_share;
int64_t bl_share_pack(bl_share how);
bool bl_share_unpack(int64_t amount, bl_share *how); /* false if |amount| is no such value */

typedef struct bl_axis {
    const bl_node *range;
    bool output; /* else an axis of a reduction */
    bool outer;  /* every store and every hoisted reduction or stage depends on it: it may be a grid axis */
    bool stage;  /* an axis of a stage: as for an output, the last part of a split may overlap the part before it ... */
    bool folds;  /* ... but not here, since the stage folds the values stored to an element */
} bl_axis;

/* A helper kernel, and the buffer that it shares with the nest: a packed operand, which the helper writes before the nest reads
 * it, or partial sums, which the helper reads after the nest has written them. */
typedef struct bl_packed {
    const bl_node *sink; /* parameter 0 is the buffer; the following parameters are those in from[] of the nest */
    bool behind;         /* it runs after the nest, and makes the nest's stores */
    int param;           /* the nest's parameter for the buffer */
    int nfrom;
    int from[BL_MAX_DIMS * 2];
    bl_dtype dtype;
    const bl_node *count; /* number of elements */
} bl_packed;

/* A nest to which moves are applied. */
typedef struct bl_tune {
    bl_ir *ir;
    const bl_node *sink;
    int nparams;
    int64_t local_bytes; /* limit of the local memory of all stages; initially none */
    int naxes;
    bl_axis axis[BL_MAX_AXES];
    bl_free free; /* free RANGEs of the current sink */
    bool shared;  /* BL_MOVE_SHARE was applied */
    bool scored;  /* BL_MOVE_SCORE was applied: few moves may follow, besides those that unroll loops */
    bool matrix;  /* BL_MOVE_MATRIX was applied: it has chosen lanes, shared reductions and panels */
    int npacked;
    bl_packed packed[BL_MAX_HELPERS];
    int nmoves;
    bl_move moves[BL_MAX_MOVES];
} bl_tune;

/* The types of a move's arguments. */
typedef enum bl_move_on { BL_MOVES_AXIS, BL_MOVES_OPERAND, BL_MOVES_STORE } bl_move_on;
typedef enum bl_move_amount {
    BL_AMOUNT_NONE,
    BL_AMOUNT_SIZE,
    BL_AMOUNT_OUTPUTS, /* a mask of output axes */
    BL_AMOUNT_COPY,    /* bl_share_pack */
    BL_AMOUNT_UNIT     /* bl_matrix_pack */
} bl_move_amount;

/* What a search must know of a move. */
enum {
    BL_MOVE_ANY_EXTENT = 1, /* also for an axis of named extent */
    BL_MOVE_ELSEWHERE = 2,  /* the same move on another axis is a neighbour */
    BL_MOVE_BEGINS = 4,     /* must precede the other moves */
    BL_MOVE_LAYS_OUT = 8    /* lays out panels or local memory by the loops as they are: splits must precede it */
};

typedef struct bl_move_row {
    const char *name;
    bl_move_on on;
    bl_move_amount amount;
    unsigned barred, traits;
    bool (*apply)(bl_tune *tune, int at, int64_t amount); /* for bl_tune_apply alone */
} bl_move_row;
extern const bl_move_row bl_move_rows[BL_MOVE_KINDS];

/* Start from a nest of the scheduler. Neighbouring loops that every access uses as one loop are merged, and outer output axes
 * become grid axes. */
void bl_tune_init(bl_tune *tune, bl_ir *ir, const bl_node *sink, int nparams);
/* Apply a move. If it is not legal, returns false and changes nothing. */
bool bl_tune_apply(bl_tune *tune, bl_move move);
/* Unroll loops until no work-item executes more than |most| iterations in all. False if that is not possible. */
bool bl_tune_limit_turns(bl_tune *tune, int64_t most);
/* Apply moves until no dimension of the grid has more than most[d] groups. False if that is not possible. */
bool bl_tune_limit_groups(bl_tune *tune, const uint32_t most[3]);
/* Print the moves, for instance "vector 1 16, tile 0 6". */
void bl_tune_print(const bl_tune *tune, bl_text *out);
void bl_moves_print(int n, const bl_move *moves, bl_text *out);
/* Parse the printed form. False if it is malformed or has more than BL_MAX_MOVES moves. */
bool bl_moves_parse(const char *text, bl_move moves[BL_MAX_MOVES], int *n);

/* ---- facts that choices are made of */
/* The stride of a LOAD or STORE along an axis, in elements. False if it is not constant (a gather, a division). */
bool bl_access_stride(const bl_tune *tune, const bl_node *access, const bl_node *range, int64_t *stride);
/* A name that moves on other axes, operands and stores do not change, for what a move names by a number: the origin is the axis
 * of the scheduler's nest that an axis is part of (bl_axis_origin), or the parameter that an operand or a store accesses; the
 * part is the number among those of one origin, outermost first. */
typedef struct bl_name {
    int origin, part;
} bl_name;
bl_name bl_tune_name(bl_tune *tune, bl_move_on on, int at);   /* origin -1: there is no such number */
int bl_tune_find(bl_tune *tune, bl_move_on on, bl_name name); /* the number; -1: there is no such name */
/* Is there an axis to which BL_MOVE_SEND applies? */
bool bl_tune_has_sent(bl_tune *tune);
/* Does the value of |node| depend on the axis? */
bool bl_depends(bl_tune *tune, const bl_node *node, const bl_node *range);
int64_t bl_extent_of(const bl_node *range); /* the largest extent */
/* The LOADs of the nest in the order of their operand numbers, at most |most|. Returns their number. */
int bl_tune_operands(bl_tune *tune, int most, const bl_node **load);
bool bl_is_fixed(const bl_node *range); /* is the extent constant? */

#endif
