/* Facts about a nest, for the heuristics. */
#ifndef BL_OPT_FACTS_H
#define BL_OPT_FACTS_H

#include "engine/opt/heuristic.h"
#include "engine/opt/nest_cost.h"
#include "engine/opt/opt_internal.h"
#include "engine/sched/parts.h"

enum { MOST_ACCESSES = 256 };

/* A LOAD or STORE, and its number of executions if no value is kept in registers: the product of all loops around it. */
typedef struct access {
    const bl_node *node;
    const bl_node *reduce; /* the innermost reduction around a LOAD, or NULL */
    uint64_t loops;        /* all axes of the nest around it */
} access;

typedef struct facts {
    bl_tune *tune;
    bl_nodes below;
    int naccesses;
    access access[MOST_ACCESSES];
    const bl_node *focus; /* in a nest with stages: the facts are about the reductions over parts of this axis; else NULL */
    const bl_node *main;  /* the reduction with the most operand reuse, or NULL */
    uint64_t outputs;     /* the set of output axes; with a focus, of those that a tile may have */
    int64_t total;        /* iterations of the whole nest */
} facts;

void facts_init(facts *f, bl_tune *tune);
/* The facts about one product of a nest with stages: the reductions over the axis |focus|, and its parts. */
void facts_focus(facts *f, bl_tune *tune, const bl_node *focus);
/* The same facts again, after a move. */
void facts_again(facts *f, const facts *before);
/* The nest as it was at |start|, and its facts. */
void facts_undo(facts *f, const facts *before, const tune_mark *start);
/* Split-K: split a reduction's axis in as many parts as |how| makes cheapest. False if it stays whole. */
bool facts_split(bl_tune *tune, const bl_target *target, int axis, const bl_parting *how);
/* Do several work-items of a group read the same elements by |load|? Work-items along |except| do not count. */
bool facts_read_by_several(bl_tune *tune, const bl_node *load, const bl_node *except);
/* A divisor of the extent above half of |most|, else |most|: the last part may overlap the part before it. */
int64_t facts_part_of(const bl_node *range, int64_t most);
/* Number of groups that the grid has, without those along |a| and |b|, which may be NULL. */
int64_t facts_groups(const bl_tune *tune, const bl_node *a, const bl_node *b);
/* Do at most two iterations of |range| read from or store to one cache line? */
bool facts_is_strewn(const facts *f, const bl_node *node, const bl_node *range);
/* May |a|, which |reduce| reads, be packed into a panel, and is each element of the panel read often enough? |lanes| is the axis
 * of the lanes, or NULL. */
bool facts_can_pack(facts *f, const access *a, const bl_node *reduce, const bl_node *lanes, const bl_target *target);
/* May the main reduction's tile go along this axis? */
bool facts_may_tile(const facts *f, const bl_axis *axis);
/* Does the access's index grow by one with the axis (1), not at all (0), or otherwise (-1)? */
int facts_contiguity(facts *f, const bl_node *node, const bl_node *range);
/* Are all accesses that depend on |range| contiguous along it? */
bool facts_all_contiguous(facts *f, const bl_node *range);
int facts_axis_of(const bl_tune *tune, const bl_node *range); /* its position, or -1 */
/* The position of |range|, or of its outer part after splits; -1 if no part has iterations left. */
int facts_outer_part(const bl_tune *tune, const bl_node *range);
/* The position of the inner part after a split of |range|: the next part that is no remainder. -1 if there is none. */
int facts_inner_part(const bl_tune *tune, const bl_node *range);
/* Bytes of the widest element among the values that depend on an axis: the elements of its lanes. */
size_t facts_widest(const facts *f, const bl_node *range);
/* The operations of a nest without sums if the axis |range| is split into |lanes| lanes (NULL: no axis is). An operation that
 * does not depend on the axis runs once for all lanes. Returns 0 for a nest with sums: its cost is that of its loads. */
double facts_arithmetic(facts *f, const bl_node *range, int lanes);

static inline int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* tile_sizes.c: one search over the sizes of tiles. Each size goes from |least| to |most| in steps of one, or doubles; the last
 * one changes fastest. |cost| is INFINITY for sizes that are impossible. */
enum { MOST_SIZES = 4 };
typedef struct sizes {
    int n;
    struct {
        int64_t least, most;
        bool doubles;
    } range[MOST_SIZES];
    double (*cost)(const void *arg, const int64_t *size);
    const void *arg;
} sizes;
/* The cheapest sizes, among equals the first, and their cost. INFINITY, and |best| unchanged, if none are possible. */
double sizes_choose(const sizes *s, int64_t *best);

/* tile.c: work-items of a group along the axis of the lanes and along the axis of the rows; 1 if a group is one work-item. */
typedef struct bl_form {
    int local, row_local;
} bl_form;

/* Vectorise an axis. If the lanes do not divide the extent of a reduction, its remainder gets fewer lanes, until less than two
 * are left. False if the axis itself gets none. */
bool tile_vectorise(bl_tune *tune, int axis, int64_t lanes);
/* The number of lanes for an axis: the width of the device, or the largest power of two below the extent. */
int tile_lanes(const facts *f, const bl_target *target, const bl_node *range);
/* The cost of the nest, with |panels| elements of panels, if |range| has |lanes| lanes. */
double tile_cost(facts *f, const bl_target *target, const bl_node *range, int lanes, double panels);
/* cpu.c: how many of |vectors| vectors of results, without a tile of rows, a work-item computes side by side, so that each sum
 * need not wait for its last addition, and so that each row of a matrix is read by runs of cache lines: as many as waste little
 * and leave enough groups, where the other axes make |others| groups. Sums of 2,048 columns took 1.4 ms, with one vector 3.2; a
 * vector by a 768 x 768 matrix 0.015 ms instead of 0.025. 1 if an operand is unpacked. */
int64_t tile_columns_alone(const facts *f, const bl_target *target, int64_t vectors, int64_t others);
/* Lanes, tiles, panels and unrolling for a nest with a main reduction. False if no axis suits. */
bool tile_nest(facts *f, const bl_target *target, const bl_form *form);

/* grid_order.c: the axis of a product's grid that should be the fastest, or NULL if the order is good. A tile is |high| elements
 * of |rows| by |wide| elements of |columns|. */
const bl_node *grid_fastest(facts *f, const bl_target *target, const bl_node *rows, int64_t high, const bl_node *columns,
                            int64_t wide);
/* Make the outer part of an axis the fastest axis of the grid; or an axis the slowest. NULL: nothing changes. */
void grid_make_fastest(bl_tune *tune, const bl_node *axis);
void grid_make_slowest(bl_tune *tune, const bl_node *part);
/* An operand of up to so many bytes stays in the last-level cache between the tiles that read it. */
int64_t grid_kept_bytes(const bl_target *target);

/* pack.c. Pack operands of the main reduction into panels: those that lanes would gather, and, if |large|, contiguous operands
 * that do not fit in the cache of a core. (A column of a matrix touches one page per element.) */
void panels_write(const facts *before, const bl_target *target, bool large);

/* Elements of the panels of |tune|. */
double facts_panel_elements(const bl_tune *tune);

/* across.c: lanes along the channels of a sum of windows. False, and the nest unchanged, if no axis suits or the cost is above
 * |most|. */
bool across_nest(facts *f, const bl_target *target, double most);

/* line_up.c: pack those operands of a sum that keep its loops from being one, if no lanes cost as little as lanes along that
 * loop. Otherwise the nest is unchanged. */
void line_up(facts *f, const bl_target *target);

/* edges.c. Do the operands of the main reduction have reuse by windows only, as in a depthwise convolution? */
bool edges_of_windows(facts *f, const bl_target *target);
/* Can the vectors of padded operands of windows be loaded under masks if |range| has the lanes? */
bool edges_under_masks(facts *f, const bl_target *target, const bl_node *range);
/* The tile that a nest gets once its edges are written out. */
typedef struct edges_tile {
    const bl_node *lanes, *rows; /* its axes, or NULL */
    int64_t untiled;             /* the grid axes that get neither lanes nor rows, as a bit mask */
} edges_tile;
/* The grid axes other than |lanes|, |rows| and |column|, each of which may be NULL, as a bit mask. */
int64_t edges_untiled(const bl_tune *tune, const bl_node *lanes, const bl_node *rows, const bl_node *column);
/* Write padded operands of the main reduction out with their edges, so that the inner loop reads them without a gate. If the sum
 * has the same gate, as in a convolution's gradient, only the loops over the axes in |tile->untiled| need a gate. An operand of
 * which the tile reads few elements at an edge is not written. */
void edges_write(facts *f, const bl_target *target, const edges_tile *tile);
/* Does each comparison of the gate of |load| bound a loop of the main reduction, no short one, by the output axes in |axes|? */
bool edges_tested_by(facts *f, const bl_node *load, int64_t axes);
/* Leave out the products with the padding of |load|. False if they are no terms of a sum. */
bool edges_leave_out(bl_tune *tune, const bl_node *load);
/* Do gates of the main reduction bound its loop over |range| by grid axes alone? If it is not unrolled, it is trimmed. */
bool edges_bound(const facts *f, const bl_node *range);
/* The same for windows without a product, such as the maxima of a pooling. Otherwise each load of a vector would test its lanes.
 */
void edges_write_pools(facts *f, const bl_target *target);

/* group_tile.c: shared-memory tiling of a product (share.c makes the copies). False, and the nest unchanged, if the device or
 * the nest does not suit. */
bool group_nest(facts *f, const bl_target *target);
/* group_tile.c: the loop of the main reduction for split-K; -1 if there is none. */
int gpu_axis_to_split(const facts *f);
/* matrix_form.c: a product on matrix units. False if the target has no unit that the nest can use. */
bool unit_nest(facts *f, const bl_target *target);
/* select.c: unroll axes that only select among values. */
void unroll_choices(facts *f);
/* stream_stores.c: non-temporal stores for results that are larger than the last-level cache. */
void stream_results(bl_tune *tune, const bl_target *target);
/* stage_form.c: schedule a nest with stages. False, and the nest unchanged, if it has none. */
bool stage_nest(facts *f, const bl_target *target);
/* Lanes for the loops of a work-item outside products. */
void stage_vectorise(bl_tune *tune, const bl_target *target);
/* scatter_form.c: scatter inversion, if the nest has a scatter with enough positions. False, and the nest unchanged, if it has
 * none. */
bool sent_nest(facts *f, const bl_target *target);

/* attend.c: flash attention, shared by the work-items of a group. False, and the nest unchanged, if it has no attention. */
bool attend_nest(facts *f, const bl_target *target);

void heuristic_cpu(facts *f, const bl_target *target);
void heuristic_gpu(facts *f, const bl_target *target);

#endif
