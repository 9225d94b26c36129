/* Training steps with changes that their program does not state: mixed precision, loss scaling, gradient accumulation
 * (bl_front_options.training). */
#ifndef BL_FRONT_TRAINING_H
#define BL_FRONT_TRAINING_H

#include "engine/front/build.h"

/* Cast the operands of |node| to the dtype in which the op computes under mixed precision. */
void bl_training_cast(const bl_build *b, const bl_wire_node *node, const bl_node **operand);
/* The gradients of an optimiser's loss with respect to its parameters. *applies is a bool node: is the step applied? NULL:
 * always. False after a failure. */
bool bl_training_gradients(bl_call *c, const bl_node **g, const bl_node **applies);
/* The new value of a parameter, or of an optimiser's state: |fresh| if the step applies, else |old|. */
const bl_node *bl_training_choose(bl_call *c, const bl_node *applies, const bl_node *fresh, const bl_node *old);
/* Does a state with this update keep its value, because this pass changes no parameter? */
bool bl_training_keeps(const bl_build *b, const bl_wire_ref *ref);

#endif
