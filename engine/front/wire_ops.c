/* SPDX-License-Identifier: MIT */
#include "engine/front/build.h"

#include <string.h>

const bl_wire_op bl_wire_ops[] = {
#define BL_WIRE(id, name, signature, doc)         {name, signature, doc, expand_##id, NULL, BL_OP_CONST},
#define BL_FORMULA(name, signature, formula, doc) {name, signature, doc, NULL, formula, BL_OP_CONST},
#define BL_ALU(name, op, signature, doc)          {name, signature, doc, NULL, NULL, BL_OP_##op},
#define BL_KIND(title)
#include "engine/front/wire_ops.def"
#undef BL_KIND
#undef BL_WIRE
#undef BL_FORMULA
#undef BL_ALU
};
const size_t bl_wire_ops_count = sizeof bl_wire_ops / sizeof bl_wire_ops[0];

const bl_wire_op *bl_wire_op_find(const char *name)
{
    for (size_t i = 0; i < bl_wire_ops_count; i++) {
        if (bl_wire_ops[i].name[0] == name[0] && strcmp(bl_wire_ops[i].name, name) == 0)
            return &bl_wire_ops[i];
    }
    return NULL;
}
