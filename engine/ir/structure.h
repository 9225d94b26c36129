/* Hashes of a kernel's expressions by structure alone.  A bl_node's own hash is the same in every process, but not in every
 * graph: operands that commute stand in the order in which their graph happened to make them.  Here that order does not count,
 * nor how a sum of indices is put together. */
#ifndef BL_IR_STRUCTURE_H
#define BL_IR_STRUCTURE_H

#include "engine/base/map.h"
#include "engine/ir/node.h"

typedef struct bl_structure {
    bl_ptrmap own, terms; /* node -> uint64_t: its hash; of a sum of indices, the sum of its terms' hashes */
} bl_structure;

/* All that |root| reaches.  |named|: the numbers of BUFFERs count; else only their dtypes do.  False without memory. */
bool bl_structure_init(bl_structure *s, bl_ir *ir, const bl_node *root, bool named);
uint64_t bl_structure_get(const bl_structure *s, const bl_node *node);

#endif
