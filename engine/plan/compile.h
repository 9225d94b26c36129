/* Between the stages of a compilation: compile.c is the road, kernels.c goes from nests to compiled kernels, launches.c from
 * there to memory and launches. */
#ifndef BL_PLAN_COMPILE_H
#define BL_PLAN_COMPILE_H

#include "engine/ir/verify.h"
#include "engine/plan/internal.h"

/* A kernel to be: what one nest, or one helper of it, becomes. */
typedef struct made {
    const bl_nest *nest;
    const char *name;
    bool helper;
    bool panel; /* it writes the operand of another, parameter 0 */
    const bl_node *sink;
    int nparams;
    const int *slot; /* of each parameter */
    bl_lowered *lowered;
    bl_text source;
    const char *moves;
    uint64_t key;         /* of the nest */
    int64_t ops, bytes;   /* of a launch */
    plan_work *work;      /* what these are counted of */
    int kernels, helpers; /* that it does */
    int cut;              /* 1 + the dimension of the grid along which its launches are cut; 0: they are not */
} made;

typedef struct compile {
    bool explains; /* |tracked| is wanted */
    int ntracked;
    const bl_node **tracked; /* of the graph's values, what the schedule has of them */
    const bl_wire_graph *wire;
    const bl_plan_options *options;
    bl_device *dev;
    bl_plan *plan;
    bl_graph *graph; /* owned, with the ir and the arena of all that only the compilation needs */
    bl_ir *ir;
    bl_arena *arena;
    bl_ptrmap extents; /* that the plan has, by those of the ir */
    bl_ptrmap tuned;   /* nests with their moves, by their sinks: layers of a model are nests of the same sinks */
    bl_target target;
    int nroots;
    const bl_node **roots;
    bl_schedule *schedule;
    int *first_made; /* of each nest, and where the last one's end */
    int nmade, cap_made;
    made *made;
    int nslots;
    bl_place *places; /* the schedule's, then panels */
    bl_err *err;
} compile;

/* compile.c */
/* In this order; compile_end gives up the plan unless |keep|. */
BL_NODISCARD bl_status compile_begin(compile *c);
BL_NODISCARD bl_status compile_to_source(compile *c); /* everything that needs no driver */
void compile_end(compile *c, bool keep);
int compile_spec(const compile *c);                                    /* the level that bl_ir_verify is asked for */
const bl_node *compile_keep_extent(compile *c, const bl_node *extent); /* in the plan's arena */
BL_NODISCARD bl_status compile_is_wanted(compile *c);                  /* asked between kernels; the IR asks meanwhile */
BL_NODISCARD bl_status compile_verify(compile *c, int n, const bl_node *const *roots, bl_stage stage, const char *pass);
void compile_dump(compile *c, int level, const char *title, int n, const bl_node *const *roots); /* for DEBUG=level */
/* kernels.c: the schedule's nests with their moves, lowered, joined and as text; then what the driver makes of that. */
BL_NODISCARD bl_status compile_nests(compile *c);
bl_kernel_source compile_source(const compile *c, const made *m);
int compile_first_like(const compile *c, int which); /* the first kernel of the same source: itself, or one that is as good */
BL_NODISCARD bl_status compile_kernels(compile *c);
/* early.c: kernels that take the interpreter little time are made such that they give the same bits there. */
BL_NODISCARD bl_status compile_exact(compile *c);
/* The kernels that are interpreted until they are compiled; plan->kernels of all others stay NULL. */
BL_NODISCARD bl_status compile_early(compile *c);
/* launches.c */
BL_NODISCARD bl_status compile_estimate(compile *c);                            /* what one launch of each kernel costs */
double compile_seconds(const bl_device_info *info, int64_t ops, int64_t bytes); /* rough device time of that */
bool compile_is_brief(compile *c);                         /* is a run over before others were woken for it? */
void compile_count_launches(compile *c, int64_t *out);     /* of each kernel, in a run */
int64_t compile_slot_elements(const compile *c, int slot); /* at the largest sizes */
BL_NODISCARD bl_status compile_slots(compile *c);          /* where every value lies */
BL_NODISCARD bl_status compile_launches(compile *c);       /* and the launches, in parts */
/* keep.c: which values need not be made by each run. */
BL_NODISCARD bl_status compile_keeps(compile *c);

#endif
