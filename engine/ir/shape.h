/* Shapes. Extents are INDEX nodes: constants, or expressions of named dimensions. */
#ifndef BL_IR_SHAPE_H
#define BL_IR_SHAPE_H

#include "engine/ir/node.h"

/* The number of elements, simplified; 1 for a scalar. */
const bl_node *bl_shape_count(bl_ir *ir, int ndim, const bl_node *const *dim);
/* The largest number of elements within the bounds of the named dimensions. False on overflow of int64. */
bool bl_shape_max_count(int ndim, const bl_node *const *dim, int64_t *count);
bool bl_shape_equal(const bl_node *a, const bl_node *b);
/* May the INDEX expression be negative? True unless it is proved to be at least 0 for all sizes of named dimensions. */
bool bl_may_be_negative(bl_ir *ir, const bl_node *index);
/* The value of an extent if named dimension i has the size vars[i]. |extent| is any INDEX expression of CONST and VAR. */
int64_t bl_extent_eval(const bl_node *extent, const int64_t *vars);
/* Copy what bl_extent_eval reads of |extent| into |arena|, which may outlive the ir. |copies| maps nodes to earlier copies, so
 * that equal extents stay one pointer. NULL without memory (sticky in |arena|). */
struct bl_ptrmap;
const bl_node *bl_extent_copy(bl_arena *arena, struct bl_ptrmap *copies, const bl_node *extent);
/* The extent as text, for instance "2 * n", in the arena. */
const char *bl_size_text(bl_ir *ir, const bl_node *extent);
/* The shape as text, for instance "[2, batch, 3]", in the arena. |var_names| may be NULL. */
const char *bl_shape_text(bl_ir *ir, int ndim, const bl_node *const *dim, const char *const *var_names);
/* The dtype and shape of |node| as text, for instance "float32[2, 3]". */
const char *bl_node_text(bl_ir *ir, const bl_node *node);
/* Set the names of the named dimensions, for messages, and the factor by which a dimension is larger than its VAR. Borrowed;
 * they must live as long as the ir. */
void bl_ir_name_vars(bl_ir *ir, int count, const char *const *names, const int64_t *steps);

#endif
