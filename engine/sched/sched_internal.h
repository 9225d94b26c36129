/* Shared by the files of engine/sched. */
#ifndef BL_SCHED_INTERNAL_H
#define BL_SCHED_INTERNAL_H

#include "engine/base/map.h"
#include "engine/ir/axis_number.h"
#include "engine/ir/free.h"
#include "engine/sched/schedule.h"

/* Whether and why a tensor node has a buffer. */
typedef enum realised {
    INLINE,
    BUFFERED,
    COPIED, /* has a buffer as a root, but its users recompute it, since that is as cheap as a load */
    STAGED  /* no buffer: the nests that read it compute parts of it in local memory (stage_values.c) */
} realised;

enum { COSTLY_TWICE = 64 }; /* ops per element from which a value that two nests use is worth a buffer */

/* A value that gets a buffer, and the store that fills the buffer. */
typedef struct stored {
    const bl_node *node; /* the tensor node */
    /* operands of the STORE, over the canonical RANGEs; value NULL: a loop fills the buffer (scan_schedule.c) */
    const bl_node *buffer, *index, *value;
    const bl_node *offset; /* added to every index; NULL: 0. A root of a scan's body is one slice of its place */
    int nranges;           /* number of extents that are not 1 */
    const bl_node *range[BL_MAX_DIMS];
    bl_nodes below; /* all nodes of value and index */
    bool is_root;
    uint64_t prefix; /* bit i: its stages are computed once per iteration of RANGE i; 0: it has no stages */
    bool tiled;      /* some reduction reuses its operands, as a matmul or a depthwise convolution does */
    bool product;    /* some reduction reuses its operands, and not only where windows overlap */
    /* some other reduction over all of its loops is not small: beside a tile it would take the registers of the tile */
    bool sums;
    int group;
    bool read_elsewhere; /* a nest other than its own reads the value, or the value is a root */
    const struct stored
        *within;              /* the store in whose buffer this value is stored (a part of a concatenation, concat.c), or NULL */
    bool joined;              /* a concatenation whose parts are stored in place: nothing to compute */
    int built;                /* number of the build that made its expression; 0: not built */
    bool cut_sums, cut_costs; /* this build was searched: no reduction, or no costly value, in it needs a buffer */
    bool noted;               /* the costly values that its phases compute again are known (stage_values.c) */
} stored;

/* The builds of expressions, numbered from 1. A store is rebuilt only after |realised| changed for a value that it computes or
 * reads. */
typedef struct builds {
    int count;          /* number of the current build, or of the last one */
    uint8_t *built_as;  /* by position: |realised| of the value at the last comparison ... */
    int *changed;       /* ... and the number of the first build after its last change */
    int *often, noften; /* positions of values that the current build met at too many indices */
    bool *reached;      /* by position, scratch: the store reads or computes the value */
} builds;

/* A stage whose value is being built: its tensor node and its own loops. */
typedef struct staging {
    const bl_node *node;
    const struct staging *outer;
    uint64_t prefix; /* bit i: the stage is inside RANGE i of the store */
    int nranges;
    const bl_node *range[BL_MAX_DIMS];
} staging;

typedef struct sched {
    bl_ir *ir;
    const bl_sched_options *options;
    bl_nodes order;     /* all tensor nodes reachable from the roots, by id */
    bl_ptrmap position; /* node -> its position in order, plus 1 */
    /* indexed by position: */
    int *nusers;          /* number of distinct users; being a root counts as a user */
    const bl_node **user; /* its last user */
    uint8_t *realised;    /* an enum realised */
    int *round_marked;    /* the round of sched_mark_more in which it got its buffer */
    int *weight;          /* rough number of scalar ops that compute one element of a value without a buffer */
    bool *is_root;
    bool *unstageable;      /* a stage of the value would not serve all its readers */
    bool *costly_again;     /* two phases of a nest compute the value ... */
    uint64_t *phases_share; /* ... all of them in these loops, a bit for each slot, if the nest had no stages; else 0 */
    int *stage_number;      /* number of the value's stage, if it has one */
    int nstaged;
    int64_t *input_count;   /* number of elements, by slot of the graph */
    const staging *staging; /* the innermost stage that is being built, or NULL */
    uint64_t prefix;        /* prefix of the stages of the store that is being built; 0 before there is a stage */
    bool rebuild;           /* a stage cannot serve some value that was built: do another round of builds */
    int round;
    int nstored;
    stored *stored;    /* in topological order, sources first */
    stored **store_at; /* by position: the store of the value, or NULL */
    builds builds;
    bl_ptrmap origin;  /* node of a kernel -> 1 + the position of the ALU or REDUCE tensor node it was made from */
    bl_ptrmap bounded; /* LOAD -> the part of its index that stays in range by the bounds of loops rather than by the gate */
    bl_ptrmap memo;    /* tensor node -> its elements in the store that is being built */
    bl_ptrmap halves;  /* the first halves of split reductions */
    int depth;         /* number of scans around this body */
    int ninputs, nroots;
    const bl_node **roots;
    const bl_node *const *offset; /* the offset of each root, or NULL */
    bl_schedule *out;
    int cap_places, cap_nests, cap_loops;
} sched;

/* schedule.c. |offset| has for each root the start of its slice of the place (INDEX), or NULL; |offset| NULL: no offsets. */
BL_NODISCARD bl_status sched_make(bl_ir *ir, int nroots, const bl_node *const *roots, const bl_node *const *offset, int depth,
                                  const bl_sched_options *options, bl_schedule **out, bl_err *err);
int sched_place(const sched *s, const bl_node *node); /* the place of an INPUT, or of a node that is stored */
/* The buffer of an INPUT, or of a node that is or will be stored. Its number does not depend on other stores. The parameters of
 * nests are mapped to places when all stores are known. */
const bl_node *sched_buffer(const sched *s, const bl_node *node);
stored *sched_stored(const sched *s,
                     const bl_node *buffer); /* the store that fills |buffer|; NULL for an input and for local memory */
/* Append an entry. False without memory. */
bool sched_add_place(sched *s, bl_place place);
bool sched_add_nest(sched *s, const bl_nest *nest);
bool sched_add_loop(sched *s, bl_loop loop);
const char *sched_nest_name(bl_ir *ir, const bl_node *sink);
/* Number the BUFFERs of the nest's sink, which have the numbers of places, as its parameters. */
void sched_bind_params(bl_ir *ir, bl_nest *nest);

/* scatter_store.c: positions named by an index tensor. |latest| is the greatest j for which the integer key(j) equals the
 * number that |range| count in mixed radix; |latest| is NULL if there is one key. */
typedef struct sched_scatter {
    const bl_node *clause; /* the clause of the condition under which an element changes: such a j exists */
    const bl_node *latest, *key;
    int nranges;
    const bl_node *range[BL_MAX_DIMS];
    int64_t step[BL_MAX_DIMS], count;
} sched_scatter;
struct bl_clauses;
bool sched_find_scatter(bl_ir *ir, const struct bl_clauses *all, sched_scatter *out);
/* The values that several scatters' own nests store: for each key, the last equal one. */
enum { SCHED_MOST_LASTS = 8 };
typedef struct sched_lasts {
    int count;
    const bl_node *value[SCHED_MOST_LASTS];
    int place[SCHED_MOST_LASTS];
} sched_lasts;
/* A bool that is true if iteration |turn| is the last with its key, as an expression of |nest| (sched_copy_nest). |nest| is
 * nest number |*at|, which changes if a nest is inserted before it. NULL if there is no room. */
const bl_node *sched_scatter_is_last(bl_ir *ir, bl_schedule *schedule, const sched_scatter *s, sched_lasts *lasts, bl_nest *nest,
                                     int *at, const bl_node *turn);
/* A copy of |nest| with room for more parameters. False if there is no room. */
bool sched_copy_nest(bl_ir *ir, const bl_nest *nest, bl_nest *out);
/* Nest |at| with its LOADs of integers and bools replaced by the expressions that other nests store, and with the parameters of
 * these nests appended. False if there are none. */
bool sched_read_through(bl_ir *ir, const bl_schedule *schedule, int at, bl_nest *out);
/* Split nest |at| into one nest per store. False if it has a single store, or without memory. */
bool sched_split_stores(bl_ir *ir, bl_schedule *schedule, int at);
/* Drop the nests whose stores no nest reads. */
void sched_drop_unread(bl_schedule *schedule);

/* scan_schedule.c: the dependences of a loop and of its results, as LOADs below |st|; and the nests and the loop of a SCAN. */
static inline bool sched_is_loop(const bl_node *node)
{
    return node->op == BL_OP_SCAN || node->op == BL_OP_RESULT;
}
void sched_build_loop_store(sched *s, stored *st);
BL_NODISCARD bl_status sched_add_scan(sched *s, const bl_node *node, bl_err *err);

/* index.c: the element of tensor |node| at |index| (one INDEX expression per axis) as a scalar expression. Loads are made only
 * where |gate| is true (NULL: always). sched_fresh computes the element even if the node has a buffer. */
const bl_node *sched_element(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate);
const bl_node *sched_offset(const sched *s, const bl_node *node); /* offset of a root's slice, or NULL */
const bl_node *sched_fresh(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate);
const bl_node *sched_flat_index(bl_ir *ir, int ndim, const bl_node *const *dim, const bl_node *const *index);
/* Simplify |index| under the condition |gate| (NULL: always true): a quotient or remainder of a value that the gate keeps below
 * the divisor needs no division. */
const bl_node *sched_given(bl_ir *ir, const bl_node *index, const bl_node *gate);
int sched_position(const sched *s, const bl_node *node); /* position of |node|; -1 if it is not in the graph */
int sched_origin(const sched *s,
                 const bl_node *node); /* position of the tensor node that |node|, of a kernel, was made from; or -1 */

/* stride.c: restrict a sum over |ranges| to the iterations that contribute, if these are every n-th iteration only. |ranges|
 * become shorter or fewer. */
const bl_node *sched_close_holes(sched *s, const bl_node *value, int *n, const bl_node **ranges);
/* Does the store of |reduce|, a sum of products, need fewer sums of a strided gradient than |tensor| has, so that the last sums
 * of some phases of the stride are missing? */
bool sched_has_spare_sums(bl_ir *ir, const bl_node *reduce, const bl_node *tensor);

/* stage_values.c: the element of a STAGED node at |index|, read from local memory that a STAGE fills. */
const bl_node *sched_staged_element(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate);
/* Would a reduction with at most half as many elements as the current stage be computed inside the loops of the stage? */
bool sched_breaks_stage(sched *s, const bl_node *reduce, const bl_node *const *index);
/* Renumber the stages of a nest, with their RANGEs and local buffers, from 0; until then they have numbers of the graph. */
const bl_node *sched_number_stages(bl_ir *ir, const bl_node *sink);
/* Give buffers to the values whose stages are in |sink|. Returns their number. */
int sched_unstage(sched *s, const bl_node *sink);
/* running.c: |sink| with its stages replaced by running reductions (online softmax), for groups of work-items; NULL if that is
 * not possible. */
const bl_node *sched_run(sched *s, const bl_node *sink);
/* When all other buffers are chosen: which buffered values become stages. Returns their number. */
int sched_stage(sched *s);

/* split_reduction.c: split reductions that would leave most of the device idle into two; rewrites the roots. */
void sched_split(sched *s, int nroots, const bl_node **roots);

/* realise.c. Decides first from the graph alone which values get buffers; then, from the expressions built that way, which
 * further values need one (and returns their number). */
int64_t sched_elements(const bl_node *node); /* number of elements of a tensor at its largest size */
/* Give a reduction's result a buffer, as late as its size stays the same: after the elementwise ops that only it feeds (bias,
 * relu). False if it has one already. */
bool sched_cut_after(sched *s, const bl_node *reduce);
/* Does the value only unpack codes that an input packs into bytes or words, as a quantised weight does? Writing and reading it
 * moves no fewer bytes than reading the codes at each use. */
bool sched_is_unpacked(const bl_node *tensor);
int sched_own_weight(const bl_node *node); /* rough number of scalar ops per element, without those of its sources */
void sched_mark_first(sched *s, int nroots, const bl_node *const *roots);
/* Compute the weight of each value from position |first| to |last|. A value with a buffer has weight 0. */
void sched_weigh(sched *s, int first, int last);
int sched_mark_more(sched *s);
/* After grouping: give buffers to reductions that two nests compute. */
int sched_mark_shared(sched *s, int ngroups);

/* concat.c. sched_is_join: is the node a concatenation? sched_mark_joins: give buffers to concatenations whose parts have
 * buffers, or can get them; returns the number of values marked. sched_place_joins: once all stores are built and grouped,
 * store the parts in place. */
bool sched_is_join(const sched *s, const bl_node *node);
int sched_mark_joins(sched *s);
void sched_place_joins(sched *s);

/* group.c: decide which stores share a nest. Gives each store its group; groups are numbered in a possible execution order.
 * Returns their number. */
int sched_group(sched *s);

#endif
