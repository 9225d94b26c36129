/* The single node type of the compiler, used from tensor graph to loop nest. Nodes are immutable and interned (hash-consed):
 * equal nodes are one pointer, which is common subexpression elimination. Nodes live in the arena of their bl_ir and die with
 * it. The id of a source is always smaller than the id of its user, so sorting reachable nodes by id gives a topological order.
 * Thread: a bl_ir belongs to one thread at a time. Builders never return NULL. A bad call records the first error in the bl_ir
 * and returns the POISON node; a builder that gets POISON returns POISON. Each stage checks bl_ir_status once, at its end. */
#ifndef BL_IR_NODE_H
#define BL_IR_NODE_H

#include "engine/base/arena.h"
#include "engine/base/halt.h"
#include "engine/ir/dtype.h"

enum { BL_MAX_DIMS = 16, BL_MAX_LANES = 16 };

typedef enum bl_op {
#define BL_OP(ID, id, nsrc, cls, flags, grad, doc) BL_OP_##ID,
#include "engine/ir/ops.def"
#undef BL_OP
    BL_OP_COUNT
} bl_op;

typedef enum bl_op_class {
    BL_CLASS_LEAF,
    BL_CLASS_ALU,
    BL_CLASS_MOVE,
    BL_CLASS_REDUCE,
    BL_CLASS_TENSOR,
    BL_CLASS_LOOP,
    BL_CLASS_INST
} bl_op_class;

enum {
    BL_OPF_COMMUTES = 1, /* f(x, y) = f(y, x) */
    BL_OPF_FLOAT = 2,    /* operands must be floats */
    BL_OPF_INT = 4,      /* operands must be integers */
    BL_OPF_BOOL = 8,     /* with BL_OPF_INT: or bools */
    BL_OPF_COMPARE = 16, /* the result is a bool */
    BL_OPF_FOLDS = 32,   /* allowed as the op of a REDUCE or a FOLD */
    BL_OPF_WORDS = 64    /* operands must be int32 */
};

const char *bl_op_name(bl_op op); /* "add" */
bl_op_class bl_op_get_class(bl_op op);
unsigned bl_op_flags(bl_op op);
int bl_op_sources(bl_op op);                /* -1: the number varies */
bool bl_op_takes(bl_op op, bl_dtype dtype); /* is the ALU op defined on operands of |dtype|? */
bool bl_op_folds(bl_op op);
/* The reason why an ALU op cannot make |result| from operands of the dtypes |from|; NULL if it can. */
const char *bl_alu_wrong(bl_op op, bl_dtype result, const bl_dtype *from);

/* The kind of a RANGE; see engine/opt/move.h. */
typedef enum bl_axis_kind {
    BL_AXIS_GLOBAL, /* a dimension of the grid of work-groups */
    BL_AXIS_LOCAL,  /* a dimension of the work-group: its work-items */
    BL_AXIS_LOOP,   /* a sequential loop over outputs inside a work-item */
    BL_AXIS_REDUCE, /* a sequential loop of a reduction */
    BL_AXIS_TILE,   /* an unrolled loop, over outputs or of a reduction: one register per iteration */
    BL_AXIS_VECTOR, /* the lanes of a vector */
    /* a reduction whose iterations the work-items of a group share out, or outputs that they share out afterwards */
    BL_AXIS_GROUP,
    BL_AXIS_MATRIX /* rows, columns or depth of a matrix unit's tile (matrix_unit.h) */
} bl_axis_kind;

/* Flags in |sub| of a STAGE. If |sub| is one of the ops ADD, MUL, MAX and MIN instead, the stage folds by that op; the numbers
 * of these ops are smaller than BL_STAGE_NARROW. */
typedef enum bl_stage_kind {
    BL_STAGE_FILLS = 0,    /* one work-item, the only one of its group, fills the stage */
    BL_STAGE_SHARED = 128, /* the work-items of the group fill the stage together and all read it (shared memory) */
    BL_STAGE_DOUBLE = 64,  /* with SHARED: double buffering; one buffer is filled while the other is read */
    BL_STAGE_NARROW = 32 /* with SHARED: 16-bit floats take 16 bits as in a parameter, not the width in which they are computed */
} bl_stage_kind;

/* Does a store to an element of the STAGE fold into the element, instead of overwriting it? */
#define BL_STAGE_FOLDS(stage)   ((stage)->sub != BL_STAGE_FILLS && (stage)->sub < BL_STAGE_NARROW)
#define BL_STAGE_NARROWS(stage) (((stage)->sub & (BL_STAGE_SHARED | BL_STAGE_NARROW)) == (BL_STAGE_SHARED | BL_STAGE_NARROW))

enum {
    BL_STORE_STREAMS = 1
}; /* arg of a STORE: non-temporal; no kernel reads the value soon, so it bypasses the caches where the device can do that */

typedef struct bl_node bl_node;
struct bl_node {
    uint8_t op;    /* bl_op */
    uint8_t dtype; /* bl_dtype of the value */
    uint8_t lanes; /* number of lanes of a vector, or 1 */
    uint8_t sub;   /* see ops.def */
    uint8_t ndim;  /* 0 for every node of a kernel */
    uint32_t nsrc;
    uint32_t id;
    uint64_t hash;
    int64_t arg;    /* see ops.def */
    int64_t lo, hi; /* of an integer or a bool: bounds of the value (the whole range of the dtype if unknown) */
    const bl_node *const *src;
    const bl_node *const *dim; /* extents: INDEX nodes, either CONST or expressions of VAR */
};

typedef struct bl_ir bl_ir;

/* |max_bytes| limits the arena; 0 means no limit. NULL if the host is out of memory. */
bl_ir *bl_ir_create(size_t max_bytes);
void bl_ir_destroy(bl_ir *ir);
bl_arena *bl_ir_arena(bl_ir *ir); /* for data that must live as long as the nodes */
BL_NODISCARD bl_status bl_ir_status(const bl_ir *ir, bl_err *err);
/* After |seconds| of processor time of the threads that build nodes, every builder returns POISON and the status is BL_ELIMIT.
 * 0 means no limit. Time in which these threads do not run does not count. */
void bl_ir_limit_time(bl_ir *ir, double seconds);
void bl_ir_add_time(bl_ir *ir, double seconds); /* extend the time limit, by time that was not spent in the compiler */
/* Set the compiler stage or the kernel that an error of the time limit names. Borrowed; NULL for none. */
void bl_ir_tell(bl_ir *ir, const char *doing);
/* Stop likewise, with the status of bl_halt_check, when |halt| (copied) says so. A zero-initialised |halt| never does. */
void bl_ir_obey(bl_ir *ir, const bl_halt *halt);
/* Set the wire node that later errors of builders name. Borrowed; NULL for none. */
void bl_ir_blame(bl_ir *ir, const char *wire_id);
/* Record an error and return POISON. */
const bl_node *bl_ir_fail(bl_ir *ir, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
size_t bl_ir_count(const bl_ir *ir); /* number of nodes made so far */

/* Intern a node. All builders end here. Infers nothing and checks only for poison. |proto| gives op, dtype, lanes, sub, arg,
 * ndim, dim, nsrc and src; the arrays are copied. The bounds are computed here; only a VAR takes them from |proto|. */
const bl_node *bl_node_make(bl_ir *ir, const bl_node *proto);
/* The same node with other sources, as many as before, and with the lanes that these sources imply. Returns |node| if the
 * sources are unchanged. */
const bl_node *bl_node_with(bl_ir *ir, const bl_node *node, const bl_node *const *src);

/* ---- leaves */
const bl_node *bl_const(bl_ir *ir, bl_dtype dtype, bl_scalar value);
const bl_node *bl_const_int(bl_ir *ir, bl_dtype dtype, int64_t value);  /* |dtype| may be any; |value| is converted */
const bl_node *bl_const_float(bl_ir *ir, bl_dtype dtype, double value); /* |dtype| may be any; |value| is converted */
const bl_node *bl_index(bl_ir *ir, int64_t value);                      /* INDEX constant */
const bl_node *bl_input(bl_ir *ir, int slot, bl_dtype dtype, int ndim, const bl_node *const *dim);
const bl_node *bl_var(bl_ir *ir, int number, int64_t lo, int64_t hi);
const bl_node *bl_iota(bl_ir *ir, bl_dtype dtype, const bl_node *extent);

bool bl_is_const(const bl_node *node);
bool bl_is_int(const bl_node *node, int64_t value); /* is it an integer, INDEX or bool constant of that value? */
bl_scalar bl_const_value(const bl_node *node);

/* ---- scalar ops: operands of one shape and dtype (WHERE: bool first; shifts: one dtype).  On scalars (ndim 0) constants are
 * folded at once, and INDEX results are simplified by the rows of rules_index.c */
const bl_node *bl_alu(bl_ir *ir, bl_op op, const bl_node *const *src); /* any ALU op except the casts */
const bl_node *bl_alu1(bl_ir *ir, bl_op op, const bl_node *x);
const bl_node *bl_alu2(bl_ir *ir, bl_op op, const bl_node *x, const bl_node *y);
const bl_node *bl_where(bl_ir *ir, const bl_node *cond, const bl_node *yes, const bl_node *no);
const bl_node *bl_cast(bl_ir *ir, bl_dtype to, const bl_node *x); /* returns x if x has that dtype */
const bl_node *bl_bitcast(bl_ir *ir, bl_dtype to, const bl_node *x);
#define BINARY(name, op)                                                                                                         \
    static inline const bl_node *name(bl_ir *ir, const bl_node *x, const bl_node *y)                                             \
    {                                                                                                                            \
        return bl_alu2(ir, BL_OP_##op, x, y);                                                                                    \
    }
BINARY(bl_add, ADD)
BINARY(bl_sub, SUB)
BINARY(bl_mul, MUL)
BINARY(bl_div, DIV)
BINARY(bl_idiv, IDIV)
BINARY(bl_mod, MOD)
BINARY(bl_less, CMPLT)
BINARY(bl_and, AND)
#undef BINARY
static inline const bl_node *bl_not(bl_ir *ir, const bl_node *x)
{
    return bl_alu1(ir, BL_OP_NOT, x);
}

/* ---- movement.  Extents and amounts are INDEX nodes. A call that changes nothing returns x. */
const bl_node *bl_reshape(bl_ir *ir, const bl_node *x, int ndim, const bl_node *const *dim);
const bl_node *bl_permute(bl_ir *ir, const bl_node *x, const int *perm); /* result axis i is x's axis perm[i] */
const bl_node *bl_expand(bl_ir *ir, const bl_node *x, int ndim, const bl_node *const *dim);
const bl_node *bl_pad(bl_ir *ir, const bl_node *x, const bl_node *const *before, const bl_node *const *after);
const bl_node *bl_shrink(bl_ir *ir, const bl_node *x, const bl_node *const *start, const bl_node *const *size);
const bl_node *bl_flip(bl_ir *ir, const bl_node *x, uint32_t axes);
/* Sliding windows of |size| elements, |dilation| apart within a window; a window starts every |stride| elements. Axis |axis| of
 * extent n becomes floor((n - dilation * (size - 1) - 1) / stride) + 1, and a new last axis has extent |size|. */
const bl_node *bl_window(bl_ir *ir, const bl_node *x, int axis, int64_t size, int64_t stride, int64_t dilation);
int bl_perm_get(int64_t arg, int axis);
enum { BL_WINDOW_BITS = 28 }; /* bits of the stride and of the dilation in |arg|; the axis is in the bits above them */
int64_t bl_window_pack(int axis, int64_t stride, int64_t dilation);
void bl_window_get(int64_t arg, int *axis, int64_t *stride, int64_t *dilation);

/* ---- the rest of the tensor graph */
/* |fold| is ADD, MUL, MAX or MIN. Reduced axes stay, with extent 1. */
const bl_node *bl_reduce(bl_ir *ir, bl_op fold, const bl_node *x, uint32_t axes);
const bl_node *bl_gather(bl_ir *ir, const bl_node *x, const bl_node *index, int axis);
const bl_node *bl_detach(bl_ir *ir, const bl_node *x);
/* The constant if every element of a tensor is that constant, else NULL. */
const bl_node *bl_uniform_const(const bl_node *node);
const bl_node *bl_contiguous(bl_ir *ir, const bl_node *x);
/* A node with the value of |value|, whose gradient goes to |source| of the same dtype and shape. |number| keeps equal ALIAS
 * nodes distinct. */
const bl_node *bl_alias(bl_ir *ir, const bl_node *value, const bl_node *source, int64_t number);
/* A node with the value of |value|, whose partial derivative with respect to x[i] is partial[i]: an ALIAS whose gradients go to
 * a PARTIALS node. All have one dtype and shape; n is at most BL_MAX_PARTIALS. */
enum { BL_MAX_PARTIALS = 3 };
const bl_node *bl_with_partials(bl_ir *ir, const bl_node *value, int n, const bl_node *const *x, const bl_node *const *partial);
/* The constant |value|, of |like|'s dtype, expanded to |like|'s shape. */
const bl_node *bl_full_like(bl_ir *ir, const bl_node *like, double value);

/* ---- loop nests */
const bl_node *bl_param(bl_ir *ir, int number, bl_dtype dtype, bool local);
/* Local memory |number| of at least |elements| elements. Needed if the store indices have no useful bounds because they are
 * looked up in memory. */
const bl_node *bl_local(bl_ir *ir, int number, bl_dtype dtype, int64_t elements);
enum {
    BL_LOCAL_ELEMENTS = 32
}; /* bits of the number in |arg|; the bits above hold the number of elements, which is 0 for a bl_param */
/* |number| comes from bl_axis_pack (axis_number.h). */
const bl_node *bl_range(bl_ir *ir, int number, bl_axis_kind kind, const bl_node *extent);
const bl_node *bl_range_like(bl_ir *ir, const bl_node *range, bl_axis_kind kind, const bl_node *extent); /* the same number */
const bl_node *bl_load(bl_ir *ir, const bl_node *buffer, const bl_node *index, const bl_node *gate);
const bl_node *bl_store(bl_ir *ir, const bl_node *buffer, const bl_node *index, const bl_node *value, const bl_node *gate);
/* Fold |values|, all of one dtype, one after the other, over all |ranges|. */
const bl_node *bl_reduce_over(bl_ir *ir, bl_op fold, int nvalues, const bl_node *const *values, int nranges,
                              const bl_node *const *ranges);
/* The local buffer that |stores| write, each over all |ranges| (none: once). The STAGE binds |ranges|, as a REDUCE binds its
 * own, and replaces the buffer in a LOAD. |kind| is a bl_stage_kind, or an op such as ADD: then all values stored to one
 * element are folded by the op, in the order of the loops that the index does not depend on. */
const bl_node *bl_stage_over(bl_ir *ir, unsigned kind, int nstores, const bl_node *const *stores, int nranges,
                             const bl_node *const *ranges);
/* A prefix fold: what |reduce|, a REDUCE of one value over |range| alone, has folded up to the current iteration of |range|,
 * including that iteration if |inclusive|. The node stands in a loop over |range| and does not bind it; the reduction runs in
 * that same loop. */
const bl_node *bl_running(bl_ir *ir, const bl_node *reduce, const bl_node *range, bool inclusive);
/* The value of a REDUCE by ADD with rescaling (online softmax): each iteration multiplies the sum so far by |factor|, then adds
 * |value|. */
const bl_node *bl_rescaled(bl_ir *ir, const bl_node *value, const bl_node *factor);
/* Does |node| bind RANGEs: is it a REDUCE of a loop nest or a STAGE? The bound RANGEs are its sources from number |arg| on. */
bool bl_binds_ranges(const bl_node *node);
bool bl_binds(const bl_node *node, const bl_node *range);     /* does |node| bind |range|? */
const bl_node *bl_lane(bl_ir *ir, int64_t number, int lanes); /* |number| distinguishes the lanes of several ranges */
const bl_node *bl_extract(bl_ir *ir, const bl_node *vector, int lane);
const bl_node *bl_stack(bl_ir *ir, int lanes, const bl_node *const *scalars);
const bl_node *bl_fold(bl_ir *ir, bl_op fold, const bl_node *vector);
const bl_node *bl_sink(bl_ir *ir, int n, const bl_node *const *stores);
/* The same sink with BL_PRECISION_HIGH in |sub| if it sums products of float32, else |sink|. The precision is thus a part of
 * the nest and of its key in the kernel database: moves found under one precision are not used under the other. */
const bl_node *bl_sink_relax(bl_ir *ir, const bl_node *sink);

/* ---- walks */
typedef struct bl_nodes {
    const bl_node **at;
    size_t count;
} bl_nodes;

/* All nodes reachable from |roots|, and their extents if |dims| is set, in ascending order of id (sources first). The array
 * lives in the arena. The count is 0 if the array could not be allocated (bl_ir_status tells). */
bl_nodes bl_reach(bl_ir *ir, int nroots, const bl_node *const *roots, bool dims);
/* The nodes that are reachable without a path through a node for which |stops| holds: the search takes such a node and does not
 * go below it. |stops| may walk the graph. */
bl_nodes bl_reach_until(bl_ir *ir, int nroots, const bl_node *const *roots, bool (*stops)(const bl_node *node, const void *arg),
                        const void *arg);
/* The first node reachable from |roots|, in topological order, for which |is| holds; NULL if there is none. |is| must not walk
 * the graph. */
const bl_node *bl_find(bl_ir *ir, int nroots, const bl_node *const *roots, bool (*is)(const bl_node *node, const void *arg),
                       const void *arg);
const bl_node *bl_find_op(bl_ir *ir, const bl_node *root, bl_op op);    /* the same for nodes of |op| */
const bl_node *bl_find_only(bl_ir *ir, const bl_node *root, bl_op op);  /* NULL where there are several, too */
bool bl_is_bound(bl_ir *ir, const bl_node *root, const bl_node *range); /* does |root| reach a node that binds |range|? */
/* The INDEX that |node| is, or the one whose value it has as another integer for certain; NULL where there is none. */
const bl_node *bl_as_index(bl_ir *ir, const bl_node *node);
/* Do |roots| reach one of |nodes|? */
bool bl_reaches(bl_ir *ir, int nroots, const bl_node *const *roots, int n, const bl_node *const *nodes);
/* |node|, whose sources are simplified, rebuilt over other sources and extents. A scalar op is simplified. */
const bl_node *bl_node_rebuild(bl_ir *ir, const bl_node *node, const bl_node *const *src, const bl_node *const *dim);
bool bl_has_sources(const bl_node *node, const bl_node *const *src); /* are the sources of |node| those in |src|? */
/* |node| rebuilt over |src| with its own extents; |node| itself if it has these sources. */
const bl_node *bl_node_over(bl_ir *ir, const bl_node *node, const bl_node *const *src);
/* Rebuild |root| with every node that is a key of |map| (bl_node to bl_node) replaced. Simplifies scalar ops on the way. */
struct bl_ptrmap;
const bl_node *bl_substitute(bl_ir *ir, const bl_node *root, const struct bl_ptrmap *map);
/* Rebuild |root| with the node |from| replaced by |to|. */
const bl_node *bl_replace(bl_ir *ir, const bl_node *root, const bl_node *from, const bl_node *to);
/* The replacement of |node| over |src|, the replacements of its sources; a RANGE that it binds stays as it is. */
typedef const bl_node *bl_rewriter(void *arg, const bl_node *node, const bl_node *const *src);
/* Rewrite all nodes reachable from |root|, sources first, each once. |become| may walk and make nodes; to keep a node it
 * returns bl_node_with(ir, node, src). Without memory the result is |root|, and the ir has the error. */
const bl_node *bl_rewrite(bl_ir *ir, const bl_node *root, bl_rewriter *become, void *arg);
/* The same for several roots. Each of |tracked| that is below the roots is replaced by its replacement. */
void bl_rewrite_tracked(bl_ir *ir, int nroots, const bl_node **roots, int ntracked, const bl_node **tracked, bl_rewriter *become,
                        void *arg);

#endif
