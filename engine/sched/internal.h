/* Between the files of the scheduler. */
#ifndef BL_SCHED_INTERNAL_H
#define BL_SCHED_INTERNAL_H

#include "engine/base/map.h"
#include "engine/ir/free.h"
#include "engine/sched/schedule.h"

enum {
    RANGES_PER_LEVEL = BL_MAX_DIMS,
    FIRST_STAGE_LEVEL = 8 /* of the RANGEs of stages; the lower levels are those of reductions in reductions */
};

/* Why a tensor node has a buffer. */
typedef enum realised {
    INLINE,
    BUFFERED,
    COPIED, /* stored for a root, but as cheap to compute again as to load */
    STAGED  /* none: the nests that read it compute parts of it in local memory (stage.c) */
} realised;

/* A value that gets a buffer, and the store that fills it. */
typedef struct stored {
    const bl_node *node;                   /* tensor */
    const bl_node *buffer, *index, *value; /* of the STORE, over the canonical RANGEs; value NULL: filled by a loop (scan.c) */
    const bl_node *offset;                 /* added to every index, or NULL: a root is one slice of its place */
    int nranges;                           /* extents that are not 1 */
    const bl_node *range[BL_MAX_DIMS];
    bl_nodes below; /* all nodes of value and index */
    bool is_root;
    uint64_t prefix; /* bit i: its stages are computed for each iteration of RANGE i; 0: it has none */
    bool tiled;      /* some reduction reads its operands over and over, as a matmul does */
    bool sums;       /* some reduction over all of its loops does not, and is not small */
    int group;
    bool read_elsewhere;         /* a nest other than its own reads the value, or the value is a root */
    const struct stored *within; /* stored in its place in that one's buffer (join.c), or NULL */
    bool joined;                 /* of parts that are stored so: there is nothing to do */
    int built;                   /* the number of its build, 0: none yet */
    bool cut_sums, cut_costs;    /* this build was searched: no reduction, no costly value in it needs a buffer */
} stored;

/* The builds of stores, numbered from 1.  A store is built again only after a change of |realised| of a value that it computes or
 * reads. */
typedef struct builds {
    int count;          /* the number of the build in progress, or of the last one */
    uint8_t *built_as;  /* by position: |realised| of the value at the last comparison ... */
    int *changed;       /* ... and the number of the first build after its last change */
    int *often, noften; /* positions of values that the build in progress met at too many indices */
    bool *reached;      /* by position, scratch: the store reads or computes the value */
} builds;

/* A stage whose value is being built: of which node, and its own loops. */
typedef struct staging {
    const bl_node *node;
    const struct staging *outer;
    uint64_t prefix; /* bit i: RANGE i of the store stands around it */
    int nranges;
    const bl_node *range[BL_MAX_DIMS];
} staging;

typedef struct sched {
    bl_ir *ir;
    const bl_sched_options *options;
    bl_nodes order;     /* all tensor nodes that the roots reach, by id */
    bl_ptrmap position; /* node -> its position in order, plus 1 */
    /* by position: */
    int *nusers;          /* how many distinct nodes use it (being a root counts as one) */
    const bl_node **user; /* its last user */
    uint8_t *realised;    /* enum realised */
    int *round_marked;    /* the round of sched_mark_more in which it got its buffer */
    int *weight;          /* rough number of scalar ops to compute an element of what has no buffer */
    bool *is_root;
    bool *unstageable;  /* a stage of it would not serve all who read it */
    bool *costly_again; /* two phases of a nest with stages compute it */
    int *stage_number;  /* which of the stages it is, if it is one */
    int nstaged;
    int64_t *input_count;   /* by slot of the graph: elements */
    const staging *staging; /* the innermost stage being built, or NULL */
    uint64_t prefix;        /* of the stages of the store being built, 0 before there is one */
    bool rebuild;           /* a stage cannot serve some value that was built: another round of builds follows */
    int round;
    int nstored;
    stored *stored;    /* sources before users */
    stored **store_at; /* by position: the store of the value, or NULL */
    builds builds;
    bl_ptrmap origin;  /* node of a kernel -> position of the ALU or REDUCE tensor node that it came from, plus 1 */
    bl_ptrmap bounded; /* LOAD -> the part of its index that the bounds of loops, and not its gate, keep inside its buffer */
    bl_ptrmap memo;    /* tensor node -> its elements in the store being built */
    bl_ptrmap halves;  /* first halves of split reductions */
    int depth;         /* how many scans this is the body of */
    int ninputs, nroots;
    const bl_node **roots;
    const bl_node *const *offset; /* of each root, or NULL */
    bl_schedule *out;
    int cap_places, cap_nests, cap_loops;
} sched;

/* schedule.c.  |offset|: for each root, where its slice of the place begins (INDEX), or NULL; NULL for none at all. */
BL_NODISCARD bl_status sched_make(bl_ir *ir, int nroots, const bl_node *const *roots, const bl_node *const *offset, int depth,
                                  const bl_sched_options *options, bl_schedule **out, bl_err *err);
int sched_place(const sched *s, const bl_node *node); /* of an INPUT, or of a node that is stored */
/* The buffer of an INPUT, or of a node that is or will be stored.  The number of the buffer does not depend on other stores; the
 * parameters of nests are mapped to places once all stores are known. */
const bl_node *sched_buffer(const sched *s, const bl_node *node);
stored *sched_stored(const sched *s,
                     const bl_node *buffer); /* the store that fills |buffer|; NULL for an input and for local memory */
/* One more, zeroed but for what is given; false without memory. */
bool sched_add_place(sched *s, bl_place place);
bool sched_add_nest(sched *s, const bl_nest *nest);
bool sched_add_loop(sched *s, bl_loop loop);
const char *sched_nest_name(bl_ir *ir, const bl_node *sink);
/* The BUFFERs of its sink, numbered as places are, become its parameters. */
void sched_bind_params(bl_ir *ir, bl_nest *nest);

/* scatter_store.c: places that an index tensor names.  In |latest|, the greatest j for which key(j), an integer, is the number
 * that |range| count in a mixed radix; or |latest| is NULL and there is one key. */
typedef struct sched_scatter {
    const bl_node *clause; /* of the condition under which an element changes: there is such a j */
    const bl_node *latest, *key;
    int nranges;
    const bl_node *range[BL_MAX_DIMS];
    int64_t step[BL_MAX_DIMS], count;
} sched_scatter;
struct bl_clauses;
bool sched_find_scatter(bl_ir *ir, const struct bl_clauses *all, sched_scatter *out);
/* What was stored of several scatters by nests of their own: for each key the last that is equal. */
enum { SCHED_MOST_LASTS = 8 };
typedef struct sched_lasts {
    int count;
    const bl_node *value[SCHED_MOST_LASTS];
    int place[SCHED_MOST_LASTS];
} sched_lasts;
/* Iteration |turn| has the last of all keys that are equal to its own, as an expression of |nest| (sched_copy_nest), which is
 * number |*at| and may become another where a nest is added before it.  NULL: there is no room. */
const bl_node *sched_scatter_is_last(bl_ir *ir, bl_schedule *schedule, const sched_scatter *s, sched_lasts *lasts, bl_nest *nest,
                                     int *at, const bl_node *turn);
/* A copy with room for more parameters; false where there is none. */
bool sched_copy_nest(bl_ir *ir, const bl_nest *nest, bl_nest *out);
/* Nest |at| with the expressions of integers and bools that other nests have stored in place of their LOADs, and with the
 * parameters of these nests behind its own.  False where there are none. */
bool sched_read_through(bl_ir *ir, const bl_schedule *schedule, int at, bl_nest *out);
/* Each store of nest |at| becomes a nest of its own.  False where there is one, or no memory. */
bool sched_split_stores(bl_ir *ir, bl_schedule *schedule, int at);
/* Nests that store what no nest reads are dropped. */
void sched_drop_unread(bl_schedule *schedule);

/* scan.c: what a loop, and each of its results, waits for, as LOADs below |st|; and the nests and the loop of a SCAN. */
static inline bool sched_is_loop(const bl_node *node)
{
    return node->op == BL_OP_SCAN || node->op == BL_OP_RESULT;
}
void sched_build_loop_store(sched *s, stored *st);
BL_NODISCARD bl_status sched_add_scan(sched *s, const bl_node *node, bl_err *err);

/* index.c: the element of tensor |node| at |index| (one INDEX expression an axis) as a scalar expression; loads are made only
 * where |gate| holds (NULL: always).  sched_fresh computes it even if it has a buffer. */
const bl_node *sched_element(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate);
const bl_node *sched_offset(const sched *s, const bl_node *node); /* of a root's slice, or NULL */
const bl_node *sched_fresh(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate);
const bl_node *sched_flat_index(bl_ir *ir, int ndim, const bl_node *const *dim, const bl_node *const *index);
/* |index| where |gate| (NULL: always) holds: a remainder or quotient of what the gate keeps below the divisor needs no
 * division. */
const bl_node *sched_given(bl_ir *ir, const bl_node *index, const bl_node *gate);
int sched_position(const sched *s, const bl_node *node); /* -1 if it is none of the graph's */

/* stride.c: what a sum over |ranges| adds up, as it is in those turns that count where that is every so many only: |ranges| then
 * are shorter, or fewer. */
const bl_node *sched_close_holes(sched *s, const bl_node *value, int *n, const bl_node **ranges);

/* stage.c: the element of a STAGED node at |index|, read from local memory that a STAGE fills. */
const bl_node *sched_staged_element(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate);
/* Would a reduction with an element for each row of the stage being built, or few of them, be computed in the stage's loops? */
bool sched_breaks_stage(sched *s, const bl_node *reduce, const bl_node *const *index);
/* The nest with its stages, their RANGEs and local buffers, numbered from 0: until then they have the graph's numbers. */
const bl_node *sched_number_stages(bl_ir *ir, const bl_node *sink);
/* The values whose stages are in |sink| get buffers after all.  Returns how many. */
int sched_unstage(sched *s, const bl_node *sink);
/* running.c: |sink|, which has stages, without them, for groups of work-items; NULL where it has no such form. */
const bl_node *sched_run(sched *s, const bl_node *sink);
/* Once all else has its buffers: which of the buffered values do without.  Returns how many. */
int sched_stage(sched *s);

/* split.c: reductions that would leave most of the device idle become two; the roots are rewritten. */
void sched_split(sched *s, int nroots, const bl_node **roots);

/* realise.c: what gets a buffer by the graph alone; then, from the expressions built with that, what else must (how many were
 * marked). */
int64_t sched_elements(const bl_node *node); /* of a tensor at its largest */
/* Give a reduction a buffer as late as it stays as small: after the elementwise ops that only it feeds (bias, relu).  False if
 * there is one already. */
bool sched_cut_after(sched *s, const bl_node *reduce);
int sched_own_weight(const bl_node *node); /* scalar ops that an element costs, roughly, but for its sources */
void sched_mark_first(sched *s, int nroots, const bl_node *const *roots);
/* Set the cost of an element of each value from position |first| to |last|.  A value with a buffer costs nothing. */
void sched_weigh(sched *s, int first, int last);
int sched_mark_more(sched *s);
/* After grouping: reductions computed in two nests. */
int sched_mark_shared(sched *s, int ngroups);

/* join.c: is it a concatenation?  Concatenations whose parts have buffers, or get them for it, get one themselves; returns how
 * many values were marked.  Once all stores are built and grouped, parts are stored in place. */
bool sched_is_join(const sched *s, const bl_node *node);
int sched_mark_joins(sched *s);
void sched_place_joins(sched *s);

/* group.c: which stores share a nest.  Gives each its group, in an order in which they may run; returns how many. */
int sched_group(sched *s);

#endif
