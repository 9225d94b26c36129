/* Questions about shapes.  Extents are INDEX nodes: constants, or expressions of named dimensions. */
#ifndef BL_IR_SHAPE_H
#define BL_IR_SHAPE_H

#include "engine/ir/node.h"

/* The number of elements, 1 for a scalar, simplified. */
const bl_node *bl_shape_count(bl_ir *ir, int ndim, const bl_node *const *dim);
/* The largest it can be over the bounds of the named dimensions.  False if that overflows an int64. */
bool bl_shape_max_count(int ndim, const bl_node *const *dim, int64_t *count);
bool bl_shape_equal(const bl_node *a, const bl_node *b);
/* Is it not proved that the INDEX expression is at least 0, whatever the sizes of named dimensions are? */
bool bl_may_be_negative(bl_ir *ir, const bl_node *index);
/* Value of an extent when named dimension i is vars[i].  |extent| is any INDEX expression of CONST and VAR. */
int64_t bl_extent_eval(const bl_node *extent, const int64_t *vars);
/* |extent| in |arena|, which may outlive the ir, as far as bl_extent_eval reads it.  |copies| has the nodes that were copied
 * before, so that equal extents stay one pointer.  NULL without memory, which |arena| remembers. */
struct bl_ptrmap;
const bl_node *bl_extent_copy(bl_arena *arena, struct bl_ptrmap *copies, const bl_node *extent);
/* "2 * n", in the arena. */
const char *bl_size_text(bl_ir *ir, const bl_node *extent);
/* "[2, batch, 3]", in the arena.  |var_names| may be NULL. */
const char *bl_shape_text(bl_ir *ir, int ndim, const bl_node *const *dim, const char *const *var_names);
/* "float32[2, 3]". */
const char *bl_node_text(bl_ir *ir, const bl_node *node);
/* Names of the named dimensions for messages, and how much one of a VAR is of its dimension: borrowed, as long as the ir. */
void bl_ir_name_vars(bl_ir *ir, int count, const char *const *names, const int64_t *steps);

#endif
