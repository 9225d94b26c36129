/* SPDX-License-Identifier: MIT */
#include "engine/ir/private.h"

#include <string.h>

typedef struct op_row {
    const char *name;
    int8_t nsrc;
    uint8_t cls;
    uint8_t flags;
} op_row;

static const op_row rows[BL_OP_COUNT] = {
#define BL_OP(ID, id, nsrc, cls, flags, grad, doc) [BL_OP_##ID] = {#id, nsrc, BL_CLASS_##cls, flags},
#include "engine/ir/ops.def"
#undef BL_OP
};

const char *bl_op_name(bl_op op)
{
    return (unsigned)op < BL_OP_COUNT ? rows[op].name : "?";
}

bl_op_class bl_op_get_class(bl_op op)
{
    return (bl_op_class)rows[op].cls;
}

unsigned bl_op_flags(bl_op op)
{
    return rows[op].flags;
}

int bl_op_sources(bl_op op)
{
    return rows[op].nsrc;
}

bl_op bl_op_from_name(const char *name, size_t len)
{
    for (int op = 0; op < BL_OP_COUNT; op++) {
        if (strlen(rows[op].name) == len && memcmp(rows[op].name, name, len) == 0)
            return (bl_op)op;
    }
    return BL_OP_COUNT;
}
