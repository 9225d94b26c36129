/* From a tuned loop nest to a linear kernel, by a list of passes that each leave one thing less for the next:
 *   expand     TILE and VECTOR ranges become copies and lanes
 *   trim       sums end where their gates close
 *   turn       lanes that lie apart, side by side in the copies of a tile, are loaded and stored as vectors
 *   widen      neighbouring loads of local memory become one
 *   group      GROUP ranges become partial results in local memory
 *   linearize  loops, accumulators and the order of everything */
#ifndef BL_LOWER_LOWER_H
#define BL_LOWER_LOWER_H

#include "engine/lower/linear.h"

enum { BL_GRID_DIMS = 3 };

/* A kernel and how many groups it is launched with. */
typedef struct bl_lowered {
    bl_linear *linear;
    const bl_node *grid[BL_GRID_DIMS]; /* groups in each dimension: INDEX expressions of VAR */
    int nvars;                         /* named dimensions that it takes, in the order of its scalar parameters */
    const int *vars;
    const bl_node *sink; /* after expand, for DEBUG=5 */
} bl_lowered;

/* |sink| is a SINK of STOREs whose RANGEs have their final kinds; everything lives in the ir's arena. */
BL_NODISCARD bl_status bl_lower(bl_ir *ir, const bl_node *sink, const char *name, uint32_t nbuffers, int spec, bl_lowered **out,
                                bl_err *err);

/* join.c.  One of several kernels that become one. */
typedef struct bl_join_part {
    const bl_linear *linear;
    int64_t groups[BL_GRID_DIMS];
    const int *param; /* of the joined kernel, for each of its own */
} bl_join_part;

/* Has it groups of one work-item, as many whatever is launched, and no scalar parameters? */
bool bl_lower_can_join(const bl_lowered *lowered);
/* A kernel of one group that does what |parts| do, in their order; each sees what those before it wrote. */
BL_NODISCARD bl_status bl_lower_join(bl_ir *ir, const char *name, uint32_t nbuffers, const bl_dtype *dtypes, int n,
                                     const bl_join_part *parts, bl_lowered **out, bl_err *err);

/* offset.c.  The same kernel with one more scalar parameter, the last one: the number of its first group along dimension |dim|.
 */
BL_NODISCARD bl_status bl_lower_offset(bl_ir *ir, const bl_lowered *lowered, int dim, bl_lowered **out, bl_err *err);

/* elementary.c.  The same kernel with arithmetic in place of EXP, LOG and SIN of float32 and narrower dtypes. */
BL_NODISCARD bl_status bl_lower_exact(bl_ir *ir, const bl_lowered *lowered, bl_lowered **out, bl_err *err);
/* Does the kernel give the same bits on a device and on the interpreter?  |rounds|: the device has BL_FEATURE_EXACT. */
bool bl_lower_is_exact(const bl_linear *linear, bool rounds);

/* expand.c.  needs: RANGEs of any kind.  leaves no TILE or VECTOR. */
const bl_node *bl_lower_expand(bl_ir *ir, const bl_node *sink);
/* trim.c.  needs: no TILE or VECTOR. */
const bl_node *bl_lower_trim(bl_ir *ir, const bl_node *sink);
/* turn.c.  needs: no TILE or VECTOR. */
const bl_node *bl_lower_turn(bl_ir *ir, const bl_node *sink);
/* widen.c.  needs: no TILE or VECTOR. */
const bl_node *bl_lower_widen(bl_ir *ir, const bl_node *sink);

#endif
