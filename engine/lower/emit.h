/* Between the files that make a linear kernel of a nest (linearize.c): instructions in the making, and the loops that they stand
 * in. */
#ifndef BL_LOWER_EMIT_H
#define BL_LOWER_EMIT_H

#include "engine/base/map.h"
#include "engine/ir/stage.h"
#include "engine/lower/lower.h"

/* An instruction in the making: operands are pointers until all are numbered. */
typedef struct value {
    bl_inst inst;
    uint32_t number;
    struct value *args[BL_MAX_LANES];
    struct scope *loop; /* for LOOP: what it repeats */
    struct value *next;
} value;

/* A loop, or the whole kernel. */
typedef struct scope {
    struct scope *parent;
    uint64_t bit; /* of its RANGE among the free ones; 0 for the whole kernel */
    const bl_node *range;
    intptr_t level; /* of the reductions whose loop it is (build.level); 0: of none */
    value *loop;    /* its LOOP, which goes into the parent only when it is closed, after all that is hoisted out of it */
    value *first, *last;
    bl_ptrmap values;             /* node -> value computed here */
    const bl_node *const *shared; /* STAGEs that the group fills in each turn; NULL: none */
    int nshared;
} scope;

enum { TOGETHER = 1 << 20 }; /* the level of reductions that go on together: above what any of their values waits for */

typedef struct build {
    bl_ir *ir;
    bl_arena *arena;
    bl_free free;
    bl_ptrmap level;   /* node -> how many reductions it must wait for; of a REDUCE, plus 1 */
    bl_ptrmap goes_on; /* a REDUCE that others follow -> its accumulator, in the loop at hand */
    bl_nodes wanted;   /* all nodes of the stores in hand */
    uint64_t loops;    /* RANGEs that are loops, not ids */
    bl_dtype index;    /* what INDEX becomes */
    uint32_t ninst;
    uint32_t local[3];
    uint32_t local_bytes;
    value *fold_buffer[BL_DTYPE_COUNT]; /* through which a group folds */
    bl_stage_memory stages;
    value *memory[BL_MAX_STAGES]; /* local buffers, by the numbers that |stages| gives */
    int nlocal;
    const bl_node *local_range[3];
    const bl_node *grid[BL_GRID_DIMS];
    int nglobal;
    const bl_node *global[BL_MAX_RANGES];
    int nvars;
    int *vars;
    scope *root;
} build;

/* One more instruction at the end of |at|.  Never NULL: where memory ran out it is one that nobody sees. */
value *emit_inst(build *b, scope *at, bl_op op, bl_dtype dtype, int lanes, uint32_t nargs, value *const *args);
#define ARGS(...) ((value *const[]){__VA_ARGS__})
/* |node|'s value, in |at| or in a loop around it: the innermost that it depends on.  Computed there once. */
value *emit_node(build *b, scope *at, const bl_node *node);
/* The same for an op whose operands are values, in |at|.  |memory|: what a STORE writes to, if not to its BUFFER; else NULL. */
value *emit_plain(build *b, scope *at, const bl_node *node, value *memory);
value *emit_const(build *b, scope *at, bl_dtype dtype, int64_t bits); /* of a bl_scalar */
/* |x| op |y|; |y| is NULL for an op of one. */
value *emit_alu(build *b, scope *at, bl_op op, bl_dtype dtype, value *x, value *y);
uint8_t emit_known_facts(const bl_node *node); /* sub of its instruction */
/* Open loops over |ranges| in |at|, the first outermost, and give the innermost. */
scope *emit_open_loops(build *b, scope *at, int n, const bl_node *const *ranges);
/* One loop of |turns|, of no RANGE; |bit| as in scope.  |at| itself where memory ran out. */
scope *emit_open_turns(build *b, scope *at, value *turns, uint64_t bit);
void emit_close_loops(build *b, scope *inner, const scope *outer);
/* Keep |list| of |n| RANGEs in order of number. */
void emit_insert_range(const bl_node **list, int n, const bl_node *range, bool largest_first);
/* The loops that |node| depends on. */
uint64_t emit_loops_of(build *b, const bl_node *node);

/* What dtype a node's value has in a kernel: INDEX becomes that of the build. */
bl_dtype emit_dtype(const build *b, const bl_node *node);

/* ---- fuse.c */
/* |sum| and one more term of a REDUCE. */
value *emit_sum(build *b, scope *at, const bl_node *reduce, const bl_node *term, value *sum);
/* Is |node| an addition x * y + z whose product is exact?  Then a fused multiply-add, which rounds once, gives the same value. */
bool emit_is_fused(const bl_node *node);
value *emit_fused(build *b, scope *at, const bl_node *node);

/* ---- stages.c */
/* The local buffer of |stage|, filled for the turn that the loops around are at. */
value *emit_stage(build *b, scope *at, const bl_node *stage);
/* Behind all that a turn of the loop of |at| computes, where the group fills stages in it (scope.nshared), and before the loop
 * itself goes into its parent. */
void emit_end_turn(build *b, scope *at);

#endif
