/* Moves: schedule transformations of a loop nest that do not change what it computes. A schedule is a list of moves; the
 * heuristic makes one (heuristic.c), and a search tries others (engine/search/).
 * An axis is a RANGE of the nest. Axes are listed outputs first, in the order of their loops. Splitting axis r of extent n by a
 * replaces r by a * r' + i: r' takes r's position, and i follows it. If a does not divide n, the last part of an output axis
 * overlaps the part before it (r = min(a * r', n - a) + i: some values are stored twice), and a reduction folds the rest in a
 * loop of its own. */
#ifndef BL_OPT_MOVE_H
#define BL_OPT_MOVE_H

#include "engine/base/map.h"
#include "engine/base/text.h"
#include "engine/ir/axis_number.h"
#include "engine/ir/free.h"
#include "engine/sched/schedule.h"

enum { BL_MAX_AXES = 48, BL_MAX_MOVES = 32, BL_MAX_HELPERS = 4 };

/* The version of stored lists of moves. Raise it when the meaning of a move changes, or when the scheduler numbers its loops
 * differently. A new kind of move changes no stored list. */
enum { BL_MOVES_VERSION = 6 };

/* Strided loads with at least BL_LANES_PICKED lanes and a stride from 2 to BL_MOST_APART are picked out of contiguous vectors;
 * other strided loads are made lane by lane. */
enum { BL_LANES_PICKED = 8, BL_MOST_APART = 3 };

#define MOVE(move)
#define KIND(id, move, kind, what, size, barred, traits) BL_##id,
typedef enum bl_move_kind {
#include "engine/opt/moves.def"
    BL_MOVE_KINDS
} bl_move_kind;
#undef MOVE
#undef KIND

/* What a move transforms, by a name that moves on other axes, operands and stores do not change.
 * An axis is named by the loop of the scheduler's nest that it is part of, and by the splits that made it: 2 is an axis over
 * outputs, r0 an axis of a reduction; split, 2 becomes 2.0, the outer part, and 2.1, the inner part, and the rest of a reduction
 * is r0.2. An operand or a store is named by the parameter that it accesses: b1. The second axis, operand or store of a name is
 * 2:1 or b1:1. */
typedef struct bl_name {
    int origin;    /* the loop or the parameter; -1: there is no such axis, operand or store */
    uint32_t path; /* 1, and two bits for each split, the last split in the low bits; 1 for an operand or a store */
    int twin;      /* number of those before it with the same origin and path */
} bl_name;

/* The type of |size| depends on the kind (bl_move_rows). */
typedef struct bl_move {
    bl_move_kind kind;
    bl_name what;
    int64_t size;
} bl_move;

/* The size of a BL_STAGE_LOCAL. */
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
    bl_name name;
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
    bl_ptrmap named; /* origin and path of each RANGE that a split made */
    bl_free free;    /* free RANGEs of the current sink */
    bool shared;     /* BL_STAGE_LOCAL was applied */
    bool scored;     /* BL_STAGE_VALUES was applied: few moves may follow, besides those that unroll loops */
    bool matrix;     /* BL_UNIT_MATRIX was applied: it has chosen lanes, shared reductions and panels */
    int npacked;
    bl_packed packed[BL_MAX_HELPERS];
    int nmoves;
    bl_move moves[BL_MAX_MOVES];
} bl_tune;

/* A kernel of a tuned nest. */
typedef struct bl_tuned_kernel {
    const bl_packed *helper; /* NULL: the nest itself */
    const char *prefix;      /* of its name, before the name of the nest: "pack_", "sum_" or "" */
    const bl_node *sink;     /* a helper's moves are yet to be chosen */
    int nparams;
    int slot[BL_MAX_DIMS * 2 + 1]; /* of a helper: the buffers of its parameters */
} bl_tuned_kernel;

/* The types of a move's arguments. */
typedef enum bl_move_what { BL_WHAT_AXIS, BL_WHAT_OPERAND, BL_WHAT_STORE } bl_move_what;
typedef enum bl_move_size {
    BL_SIZE_NONE,
    BL_SIZE_COUNT,
    BL_SIZE_OUTPUTS, /* a mask of output axes */
    BL_SIZE_COPY,    /* bl_share_pack */
    BL_SIZE_SHAPE    /* bl_matrix_pack */
} bl_move_size;

/* What a search must know of a move. */
enum {
    BL_MOVE_ANY_EXTENT = 1, /* also for an axis of named extent */
    BL_MOVE_ELSEWHERE = 2,  /* the same move on another axis is a neighbour */
    BL_MOVE_BEGINS = 4,     /* must precede the other moves */
    BL_MOVE_LAYS_OUT = 8    /* lays out panels or local memory by the loops as they are: splits must precede it */
};

/* A kind of a move (moves.def). */
typedef struct bl_move_row {
    const char *move, *kind;
    bl_move_what what;
    bl_move_size size;
    unsigned barred, traits;
    bool (*apply)(bl_tune *tune, bl_move_kind kind, int at, int64_t size); /* for bl_tune_apply alone */
} bl_move_row;
extern const bl_move_row bl_move_rows[BL_MOVE_KINDS];

/* Start from a nest of the scheduler. Neighbouring loops that every access uses as one loop are merged, and outer output axes
 * become grid axes. */
void bl_tune_init(bl_tune *tune, bl_ir *ir, const bl_node *sink, int nparams);
/* Apply a move. If it is not legal, returns false and changes nothing. */
bool bl_tune_apply(bl_tune *tune, bl_move move);
/* The same for the axis, operand or store at a position of the list (bl_tune_name), which later moves may change. */
bool bl_tune_apply_at(bl_tune *tune, bl_move_kind kind, int at, int64_t size);
/* Unroll loops until no work-item executes more than |most| iterations in all. False if that is not possible. */
bool bl_tune_limit_turns(bl_tune *tune, int64_t most);
/* Apply moves until no dimension of the grid has more than most[d] groups. False if that is not possible. */
bool bl_tune_limit_groups(bl_tune *tune, const uint32_t most[3]);
/* Print the moves, for instance "split(1, vector, 16), split(0, unroll, 6)". */
void bl_tune_print(const bl_tune *tune, bl_text *out);
void bl_moves_print(int n, const bl_move *moves, bl_text *out);
/* Parse the printed form. False if it is malformed or has more than BL_MAX_MOVES moves. */
bool bl_moves_parse(const char *text, bl_move moves[BL_MAX_MOVES], int *n);

/* ---- facts that choices are made of */
/* The stride of a LOAD or STORE along an axis, in elements. False if it is not constant (a gather, a division). */
bool bl_access_stride(const bl_tune *tune, const bl_node *access, const bl_node *range, int64_t *stride);
/* The name of the axis, operand or store at a position of the list: axes in their order (bl_tune.axis), operands in that of
 * bl_tune_operands, stores in that of the sink. */
bl_name bl_tune_name(bl_tune *tune, bl_move_what what, int at);
/* The position; -1: there is none of this name. If the axis is not split as the name says, the axis itself; if it is split
 * further, its outermost part. A list of moves thus stays a list of moves when a split is added or removed. */
int bl_tune_find(bl_tune *tune, bl_move_what what, bl_name name);
/* Is there an axis to which BL_PARTIAL_SCATTER applies? */
bool bl_tune_has_sent(bl_tune *tune);
/* Does the value of |node| depend on the axis? */
bool bl_depends(bl_tune *tune, const bl_node *node, const bl_node *range);
int64_t bl_extent_of(const bl_node *range); /* the largest extent */
/* The LOADs of the nest in the order of their operand numbers, at most |most|. Returns their number. */
int bl_tune_operands(bl_tune *tune, int most, const bl_node **load);
bool bl_is_fixed(const bl_node *range); /* is the extent constant? */
/* The kernels of the nest in the order of their launches: the helpers that pack operands, the nest, and the helpers that sum
 * partial results. |slot| has the buffer of each parameter of the nest. Returns their number, at most BL_MAX_HELPERS + 1. */
int bl_tune_list_kernels(const bl_tune *tune, const int *slot, bl_tuned_kernel *out);

#endif
