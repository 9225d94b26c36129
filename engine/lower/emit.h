/* Shared by the files that turn a loop nest into a linear kernel (linearize.c and its neighbours): instructions under
 * construction, and the loops that contain them. */
#ifndef BL_LOWER_EMIT_H
#define BL_LOWER_EMIT_H

#include "engine/base/map.h"
#include "engine/ir/stage.h"
#include "engine/lower/lower.h"

/* An instruction under construction. Its operands are pointers until all instructions are numbered. */
typedef struct value {
    bl_inst inst;
    uint32_t number;
    struct value *args[BL_MAX_LANES];
    struct scope *loop; /* of a LOOP: its body */
    struct value *next;
} value;

/* A loop, or the whole kernel. */
typedef struct scope {
    struct scope *parent;
    uint64_t bit; /* bit of its RANGE in the sets of bl_free; 0 for the whole kernel */
    const bl_node *range;
    uint64_t level; /* of a reduction loop: the level of its reductions (build.level); 0 for other loops */
    /* its LOOP instruction; appended to the parent when the loop is closed, after all instructions that are hoisted out of it */
    value *loop;
    value *first, *last;
    bl_ptrmap values;             /* node -> value computed in this scope */
    const bl_node *const *shared; /* STAGEs that the group fills in each iteration; NULL: none */
    int nshared;
} scope;

enum { TOGETHER = 1 << 20 }; /* level of reductions that share one loop; larger than the level of any value they depend on */

typedef struct build {
    bl_ir *ir;
    bl_arena *arena;
    bl_free free;
    bl_ptrmap level;   /* node -> the number of reductions it depends on; for a REDUCE, plus 1 */
    bl_ptrmap goes_on; /* REDUCE that later reductions read while it runs (RUNNING) -> its accumulator in the current loop */
    bl_nodes wanted;   /* all nodes of the stores that are being emitted */
    uint64_t loops;    /* bits of the RANGEs that become loops rather than ids */
    bl_dtype index;    /* the dtype that INDEX becomes */
    uint32_t ninst;
    uint32_t local[3];
    uint32_t local_bytes;
    value *fold_buffer[BL_DTYPE_COUNT]; /* local memory through which a group folds, per dtype */
    bl_stage_memory stages;
    value *memory[BL_MAX_STAGES]; /* local buffers, indexed by the memory numbers of |stages| */
    int nlocal;
    const bl_node *local_range[3];
    const bl_node *grid[BL_GRID_DIMS];
    int nglobal;
    const bl_node *global[BL_MAX_RANGES];
    int nvars;
    int *vars;
    scope *root;
    bool failed; /* out of memory: emit_inst returns |none| */
    value none;
} build;

/* Append an instruction to |at|. Never NULL: without memory it returns a dummy that is in no list. */
value *emit_inst(build *b, scope *at, bl_op op, bl_dtype dtype, int lanes, uint32_t nargs, value *const *args);
#define ARGS(...) ((value *const[]){__VA_ARGS__})
/* The value of |node|, computed once, in the innermost scope among |at| and its parents that |node| depends on. This hoists
 * loop-invariant code. */
value *emit_node(build *b, scope *at, const bl_node *node);
/* Emit an op whose operands are values, in |at|. |memory| is the destination of a STORE if that is not its BUFFER, else
 * NULL. */
value *emit_plain(build *b, scope *at, const bl_node *node, value *memory);
value *emit_const(build *b, scope *at, bl_dtype dtype, int64_t bits); /* |bits| of a bl_scalar */
/* Emit the binary op |x| op |y|. */
value *emit_alu(build *b, scope *at, bl_op op, bl_dtype dtype, value *x, value *y);
uint8_t emit_known_facts(const bl_node *node); /* |sub| of the node's instruction: facts from bounds and alignment */
/* Open loops over |ranges| in |at|, outermost first. Returns the innermost loop. */
scope *emit_open_loops(build *b, scope *at, int n, const bl_node *const *ranges);
/* Open one loop of |turns| iterations that has no RANGE; |bit| as in scope. Returns |at| without memory. */
scope *emit_open_turns(build *b, scope *at, value *turns, uint64_t bit);
void emit_close_loops(build *b, scope *inner, const scope *outer);
/* Insert |range| into |list| of |n| RANGEs, which is sorted by number. */
void emit_insert_range(const bl_node **list, int n, const bl_node *range, bool largest_first);
/* The loops that |node| depends on, as a set. */
uint64_t emit_loops_of(build *b, const bl_node *node);

/* The dtype of |node|'s value in the kernel: INDEX becomes build.index. */
bl_dtype emit_dtype(const build *b, const bl_node *node);

/* ---- fuse.c */
/* Add |term| to |sum|, the accumulator of |reduce|. */
value *emit_sum(build *b, scope *at, const bl_node *reduce, const bl_node *term, value *sum);
/* Is |node| an addition x * y + z whose product is exact? Then a fused multiply-add, which rounds once, gives the same
 * value. */
bool emit_is_fused(const bl_node *node);
value *emit_fused(build *b, scope *at, const bl_node *node);

/* ---- accumulate.c */
/* Add one iteration's values of the |n| reductions |members| to their accumulators |accs|, in |inner|. All take their first value
 * before any takes its second: a value that an unrolled iteration loads is then used at once. |sums|: room for |n| values. */
void emit_accumulate(build *b, scope *inner, int n, const bl_node *const *members, value *const *accs, value **sums);

/* ---- stages.c */
/* The local buffer of |stage|, filled for the current iteration of the loops around it. */
value *emit_stage(build *b, scope *at, const bl_node *stage);
/* End an iteration of the loop |at| in which the group fills stages (scope.nshared): called after all instructions of the
 * iteration, before the loop is appended to its parent. */
void emit_end_turn(build *b, scope *at);

#endif
