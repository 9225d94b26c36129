/* Gates: bools that say where an access, or a value, is.  A conjunction is a tree of AND; its clauses are what stands between. */
#ifndef BL_IR_GATE_H
#define BL_IR_GATE_H

#include "engine/ir/node.h"

enum { BL_MAX_CLAUSES = 32 };

typedef struct bl_clauses {
    int count;
    const bl_node *at[BL_MAX_CLAUSES];
} bl_clauses;

/* All clauses of |gate|, NULL having none.  False, and some of them, where they are too many. */
bool bl_clauses_add(bl_clauses *all, const bl_node *gate);
bool bl_clauses_hold(const bl_clauses *all, const bl_node *clause);
/* |gate| less the clauses in |gone|; the constant true where none is left. */
const bl_node *bl_gate_without(bl_ir *ir, const bl_node *gate, const bl_clauses *gone);
/* Does |condition| hold wherever |gate| is open, as its clauses alone tell: each is one of the gate's, or less than one of them
 * asks for (x < 8 holds where x < 7 does)? */
bool bl_gate_implies(bl_ir *ir, const bl_node *gate, const bl_node *condition);
/* Is |value| a where(gate, v, 0)? */
bool bl_is_gated(const bl_node *value);
/* Is the value under a bl_is_gated one zero by itself outside: a product with a load that is closed there?  (As an edge of zeros
 * multiplies: a factor that is no number is one all the same.) */
bool bl_is_zero_outside(const bl_node *value);

#endif
