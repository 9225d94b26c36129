/* Gates: bool expressions that say where an access is in bounds or a value is not padding. A gate is a conjunction, a tree of
 * AND nodes; the operands of the tree are its clauses. */
#ifndef BL_IR_GATE_H
#define BL_IR_GATE_H

#include "engine/ir/node.h"

enum { BL_MAX_CLAUSES = 32 };

typedef struct bl_clauses {
    int count;
    const bl_node *at[BL_MAX_CLAUSES];
} bl_clauses;

/* Add all clauses of |gate| to |all|; NULL has none. False if they are too many; |all| then has some of them. */
bool bl_clauses_add(bl_clauses *all, const bl_node *gate);
bool bl_clauses_hold(const bl_clauses *all, const bl_node *clause);
/* |gate| without the clauses in |gone|; the constant true if no clause is left. */
const bl_node *bl_gate_without(bl_ir *ir, const bl_node *gate, const bl_clauses *gone);
/* Do the clauses of |gate| alone prove |condition|? Each clause of |condition| must be a clause of |gate| or weaker than one: x
 * < 7 implies x < 8. */
bool bl_gate_implies(bl_ir *ir, const bl_node *gate, const bl_node *condition);
/* Is |value| of the form where(gate, v, 0)? */
bool bl_is_gated(const bl_node *value);
/* Is v, in |value| = where(gate, v, 0), zero by itself where the gate is closed, because v is a product with a load that is
 * closed there? (A NaN in the other factor does not count: padding with zeros multiplies to zero.) */
bool bl_is_zero_outside(const bl_node *value);

#endif
