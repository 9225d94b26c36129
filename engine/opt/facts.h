/* What the heuristics ask of a nest. */
#ifndef BL_OPT_FACTS_H
#define BL_OPT_FACTS_H

#include "engine/opt/heuristic.h"
#include "engine/opt/opt_internal.h"

enum { MOST_ACCESSES = 256 };

/* A LOAD or STORE, and how often it runs if nothing is kept in registers: the product of all loops around it. */
typedef struct access {
    const bl_node *node;
    const bl_node *reduce; /* the innermost reduction around a LOAD, or NULL */
    uint64_t loops;        /* all axes of the nest that it runs in */
} access;

typedef struct facts {
    bl_tune *tune;
    bl_nodes below;
    int naccesses;
    access access[MOST_ACCESSES];
    int64_t focus; /* in a nest with stages: of which reductions the facts are, by the number of a RANGE they fold over; else 0 */
    const bl_node *main; /* the reduction that reads its operands over and over, or NULL */
    uint64_t outputs;    /* the set of output axes; with a focus, of those that a tile may take */
    int64_t total;       /* iterations of the whole nest */
} facts;

void facts_init(facts *f, bl_tune *tune);
/* Of one of the products of a nest with stages: the reductions over the axis that is numbered |focus|, and its parts. */
void facts_focus(facts *f, bl_tune *tune, int64_t focus);
/* The same once more, after a move. */
void facts_again(facts *f, const facts *before);
/* May the main reduction's tile go along this axis? */
bool facts_may_tile(const facts *f, const bl_axis *axis);
/* Does the access's index grow by one with the axis (1), not at all (0), or otherwise (-1)? */
int facts_contiguity(facts *f, const bl_node *node, const bl_node *range);
/* Is all that depends on |range| contiguous along it? */
bool facts_all_contiguous(facts *f, const bl_node *range);
int facts_axis_of(const bl_tune *tune, const bl_node *range); /* its place, or -1 */
/* That of the axis whose RANGE has this number, as the outer part has that a split left in an axis' stead; or -1. */
int facts_axis_numbered(const bl_tune *tune, int64_t number);
/* Bytes of the widest element among the values that differ along an axis, which are those that lanes would hold. */
size_t facts_widest(const facts *f, const bl_node *range);

/* tile.c: how a tile is shared out.  Work-items of a group along the lanes' axis and along the rows' axis; 1 on a device whose
 * group is one work-item. */
typedef struct bl_form {
    int local, row_local;
} bl_form;

/* VECTOR; and where a reduction's extent is no multiple of the lanes, its rest gets lanes too, fewer, until less than two are
 * left. False where the axis itself takes none. */
bool tile_vectorise(bl_tune *tune, int axis, int64_t lanes);
/* How many lanes an axis would get in a vector: the device's width, or the largest power of two that the axis has. */
int tile_lanes(const facts *f, const bl_target *target, const bl_node *range);
/* What the nest costs, in vector instructions, if |range| has |lanes| lanes. */
double tile_cost(facts *f, const bl_target *target, const bl_node *range, int lanes);
/* Lanes, tiles, panels and unrolling for a nest with a main reduction.  False where no axis suits. */
bool tile_nest(facts *f, const bl_target *target, const bl_form *form);

/* What writing the panels of |tune| costs, in vector instructions. */
double tile_panels_cost(const bl_tune *tune);

/* across.c: lanes along the channels of such a sum.  False, and nothing changed, where no axis suits, or this costs more than
 * |most|. */
bool across_nest(facts *f, const bl_target *target, double most);

/* edges.c. Are the operands of the main reduction read over and over by windows alone, as in a depthwise convolution? */
bool edges_of_windows(facts *f, const bl_target *target);
/* Padded operands of the main reduction are written out with their edges, so that its inner loop reads them without a gate.
 * Where the sum has the same gate, as that of a convolution's gradient has, only the loops over the axes in |untiled| need one.
 */
void edges_write(facts *f, const bl_target *target, int64_t untiled);

/* group_tile.c: a product's tiles for groups that share its operands.  False, and nothing changed, where that is not for the
 * device or the nest. */
bool group_nest(facts *f, const bl_target *target);
/* gpu.c: what adding up partial sums takes, in the time that one multiprocessor takes for a multiply-add. */
double gpu_sum_cost(const bl_target *target, int64_t results, int64_t parts);
/* The next number of parts that an axis of |extent| may be split into, from 1 on; 0: no more. */
int64_t gpu_next_parts(int64_t extent, int64_t parts);
/* group_tile.c: the loop of the main reduction that is split where tiles are fewer than multiprocessors; -1: there is none. */
int gpu_axis_to_split(const facts *f);
/* matrix_form.c: a product's tiles on matrix units.  False where the target has none that the nest can use. */
bool unit_nest(facts *f, const bl_target *target);
/* select.c: axes that only choose among values are unrolled, so that nothing is asked when the kernel runs. */
void unroll_choices(facts *f);
/* stream_stores.c: results that are larger than the last cache are stored past it. */
void stream_results(bl_tune *tune, const bl_target *target);
/* stage_form.c: the form of a nest with stages.  False, and nothing changed, if it has none. */
bool stage_nest(facts *f, const bl_target *target);
/* Lanes for the loops inside a work-item that are no products'. */
void stage_vectorise(bl_tune *tune, const bl_target *target);
/* scatter_form.c: the form of a nest whose places fold what was sent to them, where that is for more places than each fold has
 * time to look at.  False, and nothing changed, if it has none. */
bool sent_nest(facts *f, const bl_target *target);

/* attend.c: the form of a nest with scores, which groups share.  False, and nothing changed, if it has none. */
bool attend_nest(facts *f, const bl_target *target);

void heuristic_cpu(facts *f, const bl_target *target);
void heuristic_gpu(facts *f, const bl_target *target);

#endif
