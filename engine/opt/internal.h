/* Between the files of the optimiser. */
#ifndef BL_OPT_INTERNAL_H
#define BL_OPT_INTERNAL_H

#include "engine/base/map.h"
#include "engine/opt/move.h"

/* A RANGE's number keeps the order of loops: its base is the axis of the scheduler's nest, the rest its place among the parts. */
enum { PART_BITS = 12, FIRST_REDUCE = BL_MAX_DIMS << PART_BITS };

enum { MOST_OPERANDS = 256, PACK_HALVES = 2 };

/* tune.c: list the axes of a new sink. */
void tune_survey(bl_tune *tune, const bl_node *sink);
/* |sink| with |range| replaced by |value| where it is used, and by the |n| RANGEs |parts| where a REDUCE binds it. */
const bl_node *tune_replace(bl_ir *ir, const bl_node *sink, const bl_node *range, const bl_node *value, int n,
                            const bl_node *const *parts);
/* Axis |number| as a whole part, in its place, and an inner part of |kind| that takes |amount| of it. */
bool tune_split(bl_tune *tune, int number, int64_t amount, bl_axis_kind kind);
/* Outer output axes become the grid's where |grid|; else every RANGE gets room for its parts. */
void tune_number_axes(bl_tune *tune, bool grid);
/* How far the inner part of a split may stand behind |range|. */
int64_t tune_room_behind(const bl_tune *tune, const bl_node *range);
bool tune_has_stages(const bl_tune *tune);
int tune_count_items(const bl_tune *tune); /* axes that are work-items of a group */
/* facts.c: what |roots| reach without entering a stage: that is another phase of the nest. */
bl_nodes tune_reach_phase(bl_ir *ir, int n, const bl_node *const *roots);
/* block.c: does a STAGE stand in the loop of |range|? */
bool tune_holds_stage(bl_tune *tune, const bl_node *range);
/* Bytes that the stages will take if they are computed for |n| iterations of |range|: the result and n times |each|. */
int64_t tune_block_bytes(bl_tune *tune, const bl_node *range, int64_t *each);
/* Do the stages as they are fit in tune->local_bytes? */
bool tune_has_room(bl_tune *tune);
/* Each STAGE in the loop of |range| becomes one for all of it. */
void tune_widen_stages(bl_tune *tune, const bl_node *range);
/* What is reduced once for each row of a staged nest gets RANGEs of its own, since the moves that suit it do not suit the product
 * at the end, and is a stage itself, so that all who need it for their rows find it. */
void tune_part_reductions(bl_tune *tune);
/* pack.c */
/* |group| over 0: of the last two axes of the panel, which are of kind MATRIX, that many of the last side by side. */
bool tune_pack(bl_tune *tune, int operand, int64_t group);
/* The operand, of float32, is written as its two halves of bfloat16; |group| as before.  What reads half number |which| of it, as
 * float32, in place of its LOAD, which still stands in the nest; NULL, and nothing changed, where it cannot be packed. */
const bl_node *pack_halves(bl_tune *tune, int operand, int64_t group, const bl_node *which);
/* The helper: a plain nest that stores each value[i] at index[i], one or PACK_HALVES of them; its parameters are renumbered from
 * the panel on.  RANGEs in |to| become its loops. */
bool pack_make_helper(bl_tune *tune, int n, const bl_node *const *value, const bl_node *const *index, bl_ptrmap *to,
                      bl_packed *packed);
/* The parameters among |below| that |to| does not have become the helper's, from 1 on.  False where they are too many. */
bool pack_renumber(bl_tune *tune, const bl_nodes *below, bl_ptrmap *to, bl_packed *packed);
/* The nest reads the panel at |index| where it read |load|. */
void pack_read_panel(bl_tune *tune, const bl_node *load, const bl_node *index, const bl_packed *packed);
/* The nest with |other| where it read |load|. */
void tune_replace_load(bl_tune *tune, const bl_node *load, const bl_node *other);
/* share.c */
bool tune_share(bl_tune *tune, int operand, int64_t amount);
/* edges.c */
bool tune_edges(bl_tune *tune, int operand, int64_t keep);
/* The output axes that bound loops of sums, by gates. */
int64_t edges_gated_axes(bl_tune *tune);
/* Is all that the gate of |load| compares asked of the sum too, so that the loops over it can end there?  Else |keep| gets the
 * output axes of which that is so.  Axes that are not in |untiled| will not be loops or groups. */
bool edges_end_loops(bl_tune *tune, const bl_node *load, int64_t untiled, int64_t *keep);
/* score.c */
bool tune_score(bl_tune *tune, int axis, int64_t amount);
/* Do folds go on together over |range|; over any, where it is NULL? */
bool tune_is_running(const bl_tune *tune, const bl_node *range);
/* The loop of a reduction in which there are others that take some work, and the outputs along which these stay the same, as a
 * set of tune->free.  NULL: there is none. */
const bl_node *tune_turns(bl_tune *tune, uint64_t *columns);
/* kblock.c */
bool tune_kblock(bl_tune *tune, int axis, int64_t amount);
/* Is |range| one that a stage folds over, so that places need not differ along it? */
bool tune_folds_over(bl_tune *tune, const bl_node *range);
/* Numbers behind those of all axes, so that loops that a move makes have their own, the first the outermost. */
int tune_new_number(const bl_tune *tune, int which);
/* send.c: |place| is a loop over outputs inside the work-item.  False, and the nest half done, where it cannot be. */
bool tune_send(bl_tune *tune, const bl_node *place);
/* What the places along an axis fold. */
typedef struct tune_sent {
    int64_t turns;    /* of the longest fold */
    int64_t bytes;    /* of local memory for each place of each column */
    uint64_t columns; /* the other axes that folds differ along */
    uint64_t keyed;   /* those of them along which places are sent to others */
} tune_sent;
/* False where a fold that differs along |place| is not one over what was sent there, or there is none. */
bool tune_find_sent(bl_tune *tune, const bl_node *place, tune_sent *out);
/* split.c */
bool tune_split_sums(bl_tune *tune, int axis, int64_t parts);
/* stream.c */
bool tune_stream(bl_tune *tune, int number);
/* operands.c */
const bl_node *tune_operand_load(bl_tune *tune, int operand); /* NULL: there are not as many */
int tune_operand_number(bl_tune *tune, const bl_node *load);  /* -1: it is none */
/* Does this LOAD read what a helper wrote? */
bool tune_is_packed(const bl_tune *tune, const bl_node *load);

/* matrix.c */
bool tune_matrix(bl_tune *tune, int axis, int64_t shape);
/* May |move| follow a BL_MOVE_MATRIX?  Of the axes that it made only the turns of a work-item may be split on. */
bool tune_spares_matrix(const bl_tune *tune, bl_move move);
/* Is |range| one by which it dealt out the elements of its tiles: no tile or scope of the product? */
bool tune_deals_elements(const bl_node *range);

#endif
