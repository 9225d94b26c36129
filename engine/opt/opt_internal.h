/* Shared by the files of engine/opt. */
#ifndef BL_OPT_INTERNAL_H
#define BL_OPT_INTERNAL_H

#include "engine/base/map.h"
#include "engine/opt/move.h"

enum { MOST_OPERANDS = 256, PACK_HALVES = 2 };

/* States of a nest, in which some moves are illegal (moves.def). */
enum {
    IN_STAGED = 1,  /* each work-item fills stages by itself */
    IN_SHARED = 2,  /* the work-items of a group fill local memory together: STAGE_LOCAL, STAGE_VALUES */
    IN_DEALT = 4,   /* loops over outputs are distributed over the work-items that share a reduction: SPLIT_GROUP */
    IN_UNIT = 8,    /* matrix units compute the product: UNIT_MATRIX chose lanes, shared reductions and panels */
    IN_RUNNING = 16 /* running reductions, or values of STAGE_VALUES, which must stay as they are */
};

/* What each move does (moves.def). False: illegal; the nest may be changed then. */
#define MOVE(move) bool move_##move(bl_tune *tune, bl_move_kind kind, int at, int64_t size);
#define KIND(id, move, kind, what, size, barred, traits)
#include "engine/opt/moves.def"
#undef MOVE
#undef KIND

/* A nest before some moves, and the one way back. Nodes are immutable, so the sink is enough to have the nest again. */
typedef struct tune_mark {
    const bl_node *sink;
    int64_t local_bytes;
    int nparams, npacked, nmoves;
    bool shared, scored, matrix;
} tune_mark;
tune_mark tune_keep(const bl_tune *tune);
void tune_undo(bl_tune *tune, const tune_mark *to);

/* moves.c: list the axes of a new sink. */
void tune_survey(bl_tune *tune, const bl_node *sink);
/* |sink| with |range| replaced by |value| where it is used, and by the |n| RANGEs |parts| where a REDUCE binds it. */
const bl_node *tune_replace(bl_ir *ir, const bl_node *sink, const bl_node *range, const bl_node *value, int n,
                            const bl_node *const *parts);
/* Name a RANGE that replaces an axis: the name of the axis, or of part |which| of |whole|: 0 the outer part, 1 the inner part, 2
 * the rest of a reduction. */
void tune_name_axis(bl_tune *tune, const bl_node *range, bl_name name);
void tune_name_part(bl_tune *tune, const bl_node *part, const bl_node *whole, int which);
/* Split axis |number|: an outer part takes its position, and an inner part of |kind| has |amount| iterations. */
bool tune_split(bl_tune *tune, int number, int64_t amount, bl_axis_kind kind);
/* The same, if a move may split the axis. Returns the inner part; NULL: illegal. */
const bl_node *tune_split_off(bl_tune *tune, int number, int64_t amount, bl_axis_kind kind);
/* Make outer output axes grid axes. */
void tune_make_grid(bl_tune *tune);
/* The number of the inner part of a split of |range|, whose outer part keeps the number of |range|. -1: there is no room. */
int tune_inner_number(const bl_tune *tune, const bl_node *range);
bool tune_has_stages(const bl_tune *tune);
int tune_count_items(const bl_tune *tune);    /* number of axes that are work-items of a group */
bool tune_deals_outputs(const bl_tune *tune); /* IN_DEALT */
/* facts.c: all nodes reachable from |roots| without entering a stage, which is another phase of the nest. */
bl_nodes tune_reach_phase(bl_ir *ir, int n, const bl_node *const *roots);
/* block.c: is there a STAGE in the loop of |range|? */
bool tune_holds_stage(bl_tune *tune, const bl_node *range);
/* Local memory of the stages if they are computed for |n| iterations of |range|: the result plus n times |each|, in bytes. */
int64_t tune_block_bytes(bl_tune *tune, const bl_node *range, int64_t *each);
/* Do the current stages fit in tune->local_bytes? */
bool tune_has_room(bl_tune *tune);
/* Compute each STAGE in the loop of |range| once for all iterations of the loop. */
void tune_widen_stages(bl_tune *tune, const bl_node *range);
/* Give reductions that are computed once per row of a staged nest RANGEs of their own, since the moves that suit them do not
 * suit the product at the end. The reductions become stages, so that all their readers find the values. */
void tune_part_reductions(bl_tune *tune);
/* The kinds of move_stage: edges.c, share.c, score.c. */
bool stage_halo(bl_tune *tune, int operand, int64_t size);
bool stage_local(bl_tune *tune, int operand, int64_t size);
bool stage_values(bl_tune *tune, int axis, int64_t size);
/* The kinds of move_hint: edges.c, stream_stores.c. */
bool hint_trim(bl_tune *tune, int operand);
bool hint_stream(bl_tune *tune, int store);
/* pack.c */
/* |group| over 0: the last two axes of the panel have kind MATRIX, and |group| elements of the last one are contiguous. */
bool tune_pack(bl_tune *tune, int operand, int64_t group);
/* Pack the float32 operand as its two bfloat16 halves; |group| as in tune_pack. Returns the expression that reads half number
 * |which| as float32 in place of the LOAD, which the nest still has. If the operand cannot be packed, returns NULL and changes
 * nothing. */
const bl_node *pack_halves(bl_tune *tune, int operand, int64_t group, const bl_node *which);
/* Let the nest use |other| instead of |load|. */
void tune_replace_load(bl_tune *tune, const bl_node *load, const bl_node *other);
/* edges.c */
/* The output axes that bound loops of sums, by gates, as a bit mask. */
int64_t edges_gated_axes(bl_tune *tune);
/* Do gates of the sum contain all comparisons of the gate of |load|, so that the loops of the sum can be trimmed? Otherwise
 * |keep| gets the output axes for which they do. Axes outside |untiled| become neither loops nor groups. */
bool edges_end_loops(bl_tune *tune, const bl_node *load, int64_t untiled, int64_t *keep);
/* score.c */
/* Are there running reductions over |range|, or over any range if it is NULL? */
bool tune_is_running(const bl_tune *tune, const bl_node *range);
/* The loop of a reduction that contains costly inner reductions, and in *columns the outputs on which these do not depend, as a
 * set of tune->free. NULL if there is none. */
const bl_node *tune_turns(bl_tune *tune, uint64_t *columns);
/* partial.c */
/* Does a stage fold over |range|, so that store positions need not differ along it? */
bool tune_folds_over(bl_tune *tune, const bl_node *range);
/* The index of the element |at| of |n| axes with the extents of |range|, in the array with number |array|. */
const bl_node *tune_element_of(bl_ir *ir, const bl_node *array, int n, const bl_node *const *range, const bl_node *const *at);
/* A new RANGE number after those of all axes, for loops that a move makes; |which| 0 is the outermost. */
int tune_new_number(const bl_tune *tune, int which);
/* scatter_invert.c: scatter into local memory; |place| is a loop over outputs inside the work-item. False if that is impossible.
 */
bool tune_scatter(bl_tune *tune, const bl_node *place);
/* The folds of values that are sent to positions along an axis. */
typedef struct tune_sent {
    int64_t turns;    /* iterations of the longest fold */
    int64_t bytes;    /* local memory in bytes per position and column */
    uint64_t columns; /* the other axes on which the folds depend */
    uint64_t keyed;   /* those of these axes along which values are sent to other positions */
} tune_sent;
/* False if there is no fold that depends on |place|, or if some fold that depends on it does not fold sent values. */
bool tune_find_sent(bl_tune *tune, const bl_node *place, tune_sent *out);
/* operands.c */
const bl_node *tune_operand_load(bl_tune *tune, int operand); /* NULL: there are not as many */
int tune_operand_number(bl_tune *tune, const bl_node *load);  /* the operand number of |load|; -1 if it is not an operand */
/* Does this LOAD read a buffer that a helper wrote? */
bool tune_is_packed(const bl_tune *tune, const bl_node *load);

/* matrix.c */
/* May the axis be split by |amount| after MATRIX? Of the axes that MATRIX made, only the loops of a work-item may be. */
bool tune_spares_matrix(const bl_tune *tune, const bl_axis *axis, int64_t amount);
/* Is |range| an axis along which MATRIX distributed the elements of its tiles, rather than a tile or a scope of the
 * product? */
bool tune_deals_elements(const bl_node *range);

#endif
