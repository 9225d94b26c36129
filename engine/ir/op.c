/* SPDX-License-Identifier: MIT */
#include "engine/ir/private.h"

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

bool bl_op_takes(bl_op op, bl_dtype dtype)
{
    if (rows[op].flags & BL_OPF_FLOAT)
        return bl_dtype_is_float(dtype);
    if (rows[op].flags & BL_OPF_WORDS)
        return dtype == BL_I32;
    if (rows[op].flags & BL_OPF_INT)
        return bl_dtype_is_int(dtype) || (dtype == BL_BOOL && (rows[op].flags & BL_OPF_BOOL) != 0);
    return true;
}

bool bl_op_folds(bl_op op)
{
    return (unsigned)op < BL_OP_COUNT && (rows[op].flags & BL_OPF_FOLDS) != 0;
}

const char *bl_alu_wrong(bl_op op, bl_dtype result, const bl_dtype *from)
{
    int first = op == BL_OP_WHERE ? 1 : 0; /* the first operand of those that share a dtype */
    bl_dtype dtype = from[first];

    if (op == BL_OP_CAST)
        return NULL;
    if (op == BL_OP_BITCAST)
        return bl_dtype_bytes(result) != bl_dtype_bytes(dtype) || dtype == BL_BOOL || result == BL_BOOL || dtype == BL_INDEX ||
                       result == BL_INDEX
                   ? "sizes differ"
                   : NULL;
    if (op == BL_OP_WHERE && from[0] != BL_BOOL)
        return "the condition is not a bool";
    if (!bl_op_takes(op, dtype))
        return rows[op].flags & BL_OPF_FLOAT ? "takes floats" : rows[op].flags & BL_OPF_WORDS ? "takes int32" : "takes integers";
    for (int i = first + 1; i < rows[op].nsrc; i++) {
        if (from[i] != dtype)
            return "dtypes differ";
    }
    return result == (rows[op].flags & BL_OPF_COMPARE ? BL_BOOL : dtype) ? NULL : "dtype of the result";
}
