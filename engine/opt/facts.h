/* What the heuristics ask of a nest. */
#ifndef BL_OPT_FACTS_H
#define BL_OPT_FACTS_H

#include "engine/opt/heuristic.h"
#include "engine/opt/opt_internal.h"
#include "engine/sched/parts.h"

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
/* The nest as it was at |start|, and its facts. */
void facts_undo(facts *f, const facts *before, const tune_mark *start);
/* Apply a move. False if it is illegal, or if |at| is negative. */
bool facts_apply(bl_tune *tune, bl_move_kind kind, int at, int64_t amount);
/* SPLIT a reduction's axis in as many parts as |how| makes cheapest. False if it stays whole. */
bool facts_split(bl_tune *tune, const bl_target *target, int axis, const bl_parting *how);
/* Do several work-items of a group read the same elements by |load|? Work-items along |except| do not count. */
bool facts_read_by_several(bl_tune *tune, const bl_node *load, const bl_node *except);
/* A divisor of the extent above half of |most|, else |most|: the last part may overlap the part before it. */
int64_t facts_part_of(const bl_node *range, int64_t most);
/* Number of groups that the grid has, without those along |a| and |b|, which may be NULL. */
int64_t facts_groups(const bl_tune *tune, const bl_node *a, const bl_node *b);
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

static inline int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* tile_sizes.c: one search over the sizes of tiles. Each size goes from |least| to |most| in steps of one, or doubles; the last one
 * changes fastest. |cost| is INFINITY for sizes that are impossible. */
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
