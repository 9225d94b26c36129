/* Declarations shared by the stages of a compilation. compile.c calls the stages in order. make_kernels.c makes compiled
 * kernels from loop nests. launches.c makes the memory plan and the launches from kernels. */
#ifndef BL_PLAN_COMPILE_H
#define BL_PLAN_COMPILE_H

#include "engine/ir/verify.h"
#include "engine/plan/plan_internal.h"

/* A kernel under construction, made from one nest or from one helper of a nest. */
typedef struct made {
    const bl_nest *nest;
    const char *name;
    bool helper;
    bool panel;  /* the kernel writes a packed panel: operand, parameter 0, of other kernels */
    int section; /* of a panel: compile.section */
    int like;    /* of a panel: 1 + the index of the panel before that has the same helper nest; 0: none */
    const bl_node *sink;
    int nparams;
    const int *slot; /* slot of each parameter */
    bl_lowered *lowered;
    bl_text source;
    const char *moves;
    uint64_t key;         /* hash of the nest (bl_kernels_key) */
    int64_t ops, bytes;   /* cost of one launch: arithmetic operations, and bytes of memory traffic */
    plan_work *work;      /* how to count |ops| and |bytes| at other sizes */
    int kernels, helpers; /* number of the scheduler's kernels and of helpers that are joined in this kernel */
    int cut;              /* 1 + the grid dimension along which launches of the kernel are split into slices; 0: not split */
} made;

typedef struct compile {
    bool explains; /* the caller wants |tracked| */
    int ntracked;
    const bl_node **tracked; /* the values of the graph's nodes after scheduling */
    const bl_wire_graph *wire;
    const bl_plan_options *options;
    bl_device *dev;
    bl_plan *plan;
    bl_graph *graph; /* owned, with its ir and the arena of all memory that only the compilation needs */
    bl_ir *ir;
    bl_arena *arena;
    bl_ptrmap extents; /* maps an extent in the ir to its copy in the plan */
    bl_ptrmap tuned;   /* maps a sink to its nest with moves; equal layers of a model have nests with one sink */
    bl_ptrmap panels;  /* maps the sink of a helper nest, before its moves, to 1 + the index of its last panel */
    int section;       /* number of the places up to the current nest where a loop begins or ends */
    int *last_write;   /* 1 + the number of the last nest up to the current one that writes the slot; 0: none */
    bl_target target;
    int nroots;
    const bl_node **roots;
    bl_schedule *schedule;
    int *first_made; /* index of the first kernel of each nest, and one more entry: the end of the kernels of the last nest */
    int nmade, cap_made;
    made *made;
    int nslots;
    bl_place *places; /* slots of the schedule, then slots of packed panels */
    bl_err *err;
} compile;

/* compile.c */
/* Called in this order. compile_end releases the plan unless |keep|. */
BL_NODISCARD bl_status compile_begin(compile *c);
BL_NODISCARD bl_status compile_to_source(compile *c); /* all stages up to the source of the kernels, without the driver */
void compile_end(compile *c, bool keep);
int compile_spec(const compile *c);                                    /* the verification level for bl_ir_verify */
const bl_node *compile_keep_extent(compile *c, const bl_node *extent); /* copy an extent into the plan's arena */
BL_NODISCARD bl_status compile_is_wanted(compile *c);                  /* fails if the compilation was cancelled */
BL_NODISCARD bl_status compile_verify(compile *c, int n, const bl_node *const *roots, bl_stage stage, const char *pass);
void compile_dump(compile *c, int level, const char *title, int n,
                  const bl_node *const *roots); /* print the graph if DEBUG is at least |level| */
/* make_kernels.c. compile_nests: choose the moves of each nest, lower, join and render the kernels. compile_kernels: have the
 * driver compile them. */
BL_NODISCARD bl_status compile_nests(compile *c);
bl_kernel_source compile_source(const compile *c, const made *m);
/* the first kernel with the same source as kernel |which|; may be |which| itself */
int compile_first_like(const compile *c, int which);
BL_NODISCARD bl_status compile_kernels(compile *c);
/* early.c. Remove library functions from kernels that the interpreter may run, so that the interpreter and the device give the
 * same bits. */
BL_NODISCARD bl_status compile_exact(compile *c);
/* Create the kernels that run on the interpreter until the driver has compiled them. plan->kernels of the other kernels stay
 * NULL. */
BL_NODISCARD bl_status compile_early(compile *c);
/* launches.c */
/* count the cost of one launch of each kernel */
BL_NODISCARD bl_status compile_estimate(compile *c);
double compile_seconds(const bl_device_info *info, int64_t ops, int64_t bytes); /* rough device time of |ops| and |bytes| */
/* does a run end before another thread could be woken to run the plan? */
bool compile_is_brief(compile *c);
void compile_count_launches(compile *c, int64_t *out);     /* count the launches of each kernel in one run */
int64_t compile_slot_elements(const compile *c, int slot); /* number of elements of the slot at the largest sizes */
BL_NODISCARD bl_status compile_slots(compile *c);          /* the memory plan: the offset of each value */
BL_NODISCARD bl_status compile_launches(compile *c);       /* the launches, grouped into parts */
/* kept_values.c. Find the values that may be kept between runs. */
BL_NODISCARD bl_status compile_keeps(compile *c);

#endif
