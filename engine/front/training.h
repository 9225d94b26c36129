/* Training steps that differ from what their program says, as bl_front_options.training has it. */
#ifndef BL_FRONT_TRAINING_H
#define BL_FRONT_TRAINING_H

#include "engine/front/build.h"

/* Operands of |node| in the dtype that it is to compute in. */
void bl_training_cast(const bl_build *b, const bl_wire_node *node, const bl_node **operand);
/* Gradients of an optimiser's loss with respect to its parameters.  *applies: a bool, whether the step is made; NULL: it is.
 * False after a failure. */
bool bl_training_gradients(bl_call *c, const bl_node **g, const bl_node **applies);
/* What a parameter, or what is remembered of it, is after the step. */
const bl_node *bl_training_choose(bl_call *c, const bl_node *applies, const bl_node *fresh, const bl_node *old);
/* Does a state with this update stay as it is, since the parameters do? */
bool bl_training_keeps(const bl_build *b, const bl_wire_ref *ref);

#endif
