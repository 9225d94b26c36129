/* Lowering: from a scheduled loop nest to a linear kernel, by a list of passes:
 *   trim       loops over stages end where their elements stop to count; later, reductions end where their gates close
 *   expand     TILE ranges are unrolled into copies, VECTOR ranges become lanes
 *   turn       strided lanes that are contiguous across the copies of a tile are loaded and stored as vectors (transposition)
 *   widen      contiguous loads of local memory are merged
 *   group      GROUP ranges become partial results in local memory
 *   linearize  loops, accumulators and instruction order */
#ifndef BL_LOWER_H
#define BL_LOWER_H

#include "engine/lower/linear.h"

enum { BL_GRID_DIMS = 3 };

/* A lowered kernel and its grid. */
typedef struct bl_lowered {
    bl_linear *linear;
    const bl_node *grid[BL_GRID_DIMS]; /* number of groups in each dimension: INDEX expressions of VAR */
    int nvars;                         /* number of named dimensions it takes, in the order of its scalar parameters */
    const int *vars;
    const bl_node *sink; /* the loop nest after expand, for DEBUG=5 */
} bl_lowered;

/* Lower |sink|, a SINK of STOREs whose RANGEs have their final kinds. Everything lives in the ir's arena. */
BL_NODISCARD bl_status bl_lower(bl_ir *ir, const bl_node *sink, const char *name, uint32_t nbuffers, int spec, bl_lowered **out,
                                bl_err *err);

/* join_kernels.c. One of several kernels that are joined into one. */
typedef struct bl_join_part {
    const bl_linear *linear;
    int64_t groups[BL_GRID_DIMS];
    const int *param; /* for each parameter of the part, the parameter of the joined kernel */
} bl_join_part;

/* Can the kernel be joined: one work-item per group, a constant number of groups, no scalar parameters? */
bool bl_lower_can_join(const bl_lowered *lowered);
/* A kernel of one group that runs |parts| in order. Each part sees what earlier parts wrote. */
BL_NODISCARD bl_status bl_lower_join(bl_ir *ir, const char *name, uint32_t nbuffers, const bl_dtype *dtypes, int n,
                                     const bl_join_part *parts, bl_lowered **out, bl_err *err);

/* offset.c. The same kernel with one more scalar parameter, the last: the number of its first group along dimension |dim|. */
BL_NODISCARD bl_status bl_lower_offset(bl_ir *ir, const bl_lowered *lowered, int dim, bl_lowered **out, bl_err *err);

/* elementary.c. The same kernel with EXP, LOG and SIN of float32 and narrower dtypes replaced by arithmetic. |exp|: except EXP of
 * vectors of float32, which the device computes with the same bits (BL_FEATURE_EXACT_EXP). */
BL_NODISCARD bl_status bl_lower_exact(bl_ir *ir, const bl_lowered *lowered, bool exp, bl_lowered **out, bl_err *err);
/* Does the kernel give the same bits on a device and, with that arithmetic, on the interpreter? |rounds|: the device has
 * BL_FEATURE_EXACT; |exp|: and BL_FEATURE_EXACT_EXP. */
bool bl_lower_is_exact(const bl_linear *linear, bool rounds, bool exp);

/* expand.c. Needs: RANGEs of any kind. Leaves no TILE or VECTOR. */
const bl_node *bl_lower_expand(bl_ir *ir, const bl_node *sink);
/* trim_stages.c. Needs: RANGEs of any kind. */
const bl_node *bl_lower_trim_stages(bl_ir *ir, const bl_node *sink);
/* trim.c. |value| with |range| replaced by |to|, except where a node below binds |range|. */
const bl_node *bl_lower_move_range(bl_ir *ir, const bl_node *value, const bl_node *range, const bl_node *to);
/* trim.c. Needs: no TILE or VECTOR. */
const bl_node *bl_lower_trim(bl_ir *ir, const bl_node *sink);
/* turn.c. Needs: no TILE or VECTOR. */
const bl_node *bl_lower_turn(bl_ir *ir, const bl_node *sink);
/* widen.c. Needs: no TILE or VECTOR. */
const bl_node *bl_lower_widen(bl_ir *ir, const bl_node *sink);

#endif
