/* Structural hashes of kernel expressions, used as keys across graphs. The hash of a bl_node is the same in every process but
 * not in every graph: the operands of a commutative op stand in the order of their creation. The structural hash does not
 * depend on that order, nor on how a sum of indices is nested. */
#ifndef BL_IR_STRUCTURE_H
#define BL_IR_STRUCTURE_H

#include "engine/base/map.h"
#include "engine/ir/node.h"

typedef struct bl_structure {
    bl_ptrmap own, terms; /* node -> its hash; for a sum of indices, the sum of the hashes of its terms */
} bl_structure;

/* Hash all nodes reachable from |root|. With |named|, the numbers of BUFFERs count; otherwise only their dtypes do. False
 * without memory. */
bool bl_structure_init(bl_structure *s, bl_ir *ir, const bl_node *root, bool named);
uint64_t bl_structure_get(const bl_structure *s, const bl_node *node);

#endif
