/* SPDX-License-Identifier: MIT */
#include "engine/ir/eval.h"
#include "engine/ir/private.h"
#include "engine/ir/shape.h"

static const char *build_scalar_kind_text(unsigned flags)
{
    if (flags & BL_OPF_FLOAT)
        return "floats";
    if (flags & BL_OPF_WORDS)
        return "int32";
    return flags & BL_OPF_BOOL ? "integers or bools" : "integers";
}

/* POISON if the dtypes, shapes or lanes of the operands do not match, else NULL. */
static const bl_node *build_scalar_check_operands(bl_ir *ir, bl_op op, int nsrc, const bl_node *const *src)
{
    int first = op == BL_OP_WHERE ? 1 : 0; /* the first of the operands that share a dtype */
    bl_dtype dtype = (bl_dtype)src[first]->dtype;

    if (op == BL_OP_WHERE && src[0]->dtype != BL_BOOL)
        return bl_ir_fail(ir, BL_EGRAPH, "where: the condition is %s, not bool", bl_dtype_name((bl_dtype)src[0]->dtype));
    if (!bl_op_takes(op, dtype))
        return bl_ir_fail(ir, BL_EGRAPH, "%s: takes %s, not %s", bl_op_name(op), build_scalar_kind_text(bl_op_flags(op)),
                          bl_dtype_name(dtype));
    for (int i = first + 1; i < nsrc; i++) {
        if (src[i]->dtype != dtype)
            return bl_ir_fail(ir, BL_EGRAPH, "%s: dtypes differ: %s and %s", bl_op_name(op), bl_dtype_name(dtype),
                              bl_dtype_name((bl_dtype)src[i]->dtype));
    }
    for (int i = 1; i < nsrc; i++) {
        if (!bl_shape_equal(src[0], src[i]))
            return bl_ir_fail(ir, BL_EGRAPH, "%s: shapes differ: %s and %s", bl_op_name(op),
                              bl_shape_text(ir, src[0]->ndim, src[0]->dim, NULL),
                              bl_shape_text(ir, src[i]->ndim, src[i]->dim, NULL));
        if (src[i]->lanes != src[0]->lanes && src[i]->lanes != 1 && src[0]->lanes != 1)
            return bl_ir_fail(ir, BL_EBUG, "%s: lanes differ: %d and %d", bl_op_name(op), src[0]->lanes, src[i]->lanes);
    }
    return NULL;
}

static const bl_node *build_scalar_fold(bl_ir *ir, const bl_node *node)
{
    bl_scalar operand[3];

    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (!bl_is_const(node->src[i]))
            return NULL;
        operand[i] = bl_const_value(node->src[i]);
    }
    /* the bounds of such an op on constants are exact unless it overflows */
    if (node->dtype == BL_INDEX && node->lo != node->hi &&
        (node->op == BL_OP_ADD || node->op == BL_OP_SUB || node->op == BL_OP_MUL || node->op == BL_OP_NEG))
        return bl_ir_fail(ir, BL_ELIMIT, "a size does not fit in 64 bits");
    return bl_const(ir, (bl_dtype)node->dtype,
                    bl_eval((bl_op)node->op, (bl_dtype)node->src[node->nsrc == 1 ? 0 : 1]->dtype, operand));
}

/* The order of commutative operands: constants last, otherwise the older node first. f(x, y) and f(y, x) then are one node. */
static bool out_of_order(const bl_node *x, const bl_node *y)
{
    if (bl_is_const(x) != bl_is_const(y))
        return bl_is_const(x);
    return x->id > y->id;
}

const bl_node *bl_alu(bl_ir *ir, bl_op op, const bl_node *const *src)
{
    int nsrc = bl_op_sources(op);
    const bl_node *operand[3] = {NULL, NULL, NULL};
    const bl_node *made = NULL;
    bl_node proto = {.op = (uint8_t)op, .lanes = 1, .nsrc = (uint32_t)nsrc};

    BL_ASSERT(bl_op_get_class(op) == BL_CLASS_ALU && op != BL_OP_CAST && op != BL_OP_BITCAST);
    for (int i = 0; i < nsrc; i++) {
        if (bl_is_poison(src[i]))
            return src[i];
        operand[i] = src[i];
        proto.lanes = src[i]->lanes > proto.lanes ? src[i]->lanes : proto.lanes;
    }
    made = build_scalar_check_operands(ir, op, nsrc, src);
    if (made != NULL)
        return made;
    if ((bl_op_flags(op) & BL_OPF_COMMUTES) && out_of_order(operand[0], operand[1])) {
        operand[0] = src[1];
        operand[1] = src[0];
    }
    proto.dtype = bl_op_flags(op) & BL_OPF_COMPARE ? BL_BOOL : src[op == BL_OP_WHERE ? 1 : 0]->dtype;
    proto.src = operand;
    proto.ndim = src[0]->ndim;
    proto.dim = src[0]->dim;
    if (proto.ndim == 0) {
        bl_node_set_bounds(&proto);
        made = build_scalar_fold(ir, &proto);
        if (made == NULL)
            made = bl_scalar_simplify(ir, &proto);
        if (made != NULL)
            return made;
    }
    return bl_node_make(ir, &proto);
}

const bl_node *bl_alu1(bl_ir *ir, bl_op op, const bl_node *x)
{
    return bl_alu(ir, op, &x);
}

const bl_node *bl_alu2(bl_ir *ir, bl_op op, const bl_node *x, const bl_node *y)
{
    return bl_alu(ir, op, (const bl_node *const[]){x, y});
}

const bl_node *bl_where(bl_ir *ir, const bl_node *cond, const bl_node *yes, const bl_node *no)
{
    return bl_alu(ir, BL_OP_WHERE, (const bl_node *const[]){cond, yes, no});
}

static const bl_node *build_scalar_convert(bl_ir *ir, bl_op op, bl_dtype to, const bl_node *x)
{
    bl_node proto = {.op = (uint8_t)op, .dtype = (uint8_t)to, .lanes = x->lanes, .nsrc = 1, .src = &x};
    const bl_node *made = NULL;

    proto.ndim = x->ndim;
    proto.dim = x->dim;
    if (x->ndim == 0) {
        bl_node_set_bounds(&proto);
        made = bl_scalar_simplify(ir, &proto);
    }
    return made != NULL ? made : bl_node_make(ir, &proto);
}

const bl_node *bl_cast(bl_ir *ir, bl_dtype to, const bl_node *x)
{
    if (bl_is_poison(x) || x->dtype == to)
        return x;
    if (bl_is_const(x))
        return bl_const(ir, to, bl_scalar_cast(to, (bl_dtype)x->dtype, bl_const_value(x)));
    return build_scalar_convert(ir, BL_OP_CAST, to, x);
}

const bl_node *bl_bitcast(bl_ir *ir, bl_dtype to, const bl_node *x)
{
    bl_dtype from = (bl_dtype)x->dtype;

    if (bl_is_poison(x) || from == to)
        return x;
    if (bl_dtype_bytes(from) != bl_dtype_bytes(to) || from == BL_BOOL || to == BL_BOOL || from == BL_INDEX || to == BL_INDEX)
        return bl_ir_fail(ir, BL_EGRAPH, "bitcast: %s and %s have different sizes", bl_dtype_name(from), bl_dtype_name(to));
    if (bl_is_const(x))
        return bl_const(ir, to, bl_eval_bitcast(to, from, bl_const_value(x)));
    return build_scalar_convert(ir, BL_OP_BITCAST, to, x);
}

const bl_node *bl_var(bl_ir *ir, int number, int64_t lo, int64_t hi)
{
    if (lo < 0 || hi < lo || number < 0)
        return bl_ir_fail(ir, BL_EGRAPH, "a named dimension cannot be between %lld and %lld", (long long)lo, (long long)hi);
    if (lo == hi)
        return bl_index(ir, lo);
    return bl_node_make(ir, &(bl_node){.op = BL_OP_VAR, .dtype = BL_INDEX, .lanes = 1, .arg = number, .lo = lo, .hi = hi});
}

/* Sums of sums share operands, and each level may double the nodes to visit: positions have a few levels only. */
enum { MOST_SUMS = 8 };

static const bl_node *build_scalar_as_index(bl_ir *ir, const bl_node *node, int depth)
{
    const bl_node *x = NULL, *y = NULL, *made = NULL;

    if (node->lanes > 1 || node->dtype == BL_INDEX)
        return node->lanes > 1 ? NULL : node;
    if (!bl_dtype_is_int((bl_dtype)node->dtype))
        return NULL;
    if (bl_is_const(node)) /* of an uint64, bounds may not say all */
        return node->lo == node->hi && node->dtype != BL_U64 ? bl_index(ir, node->lo) : NULL;
    if (depth == 0)
        return NULL;
    if (node->op == BL_OP_CAST) {
        made = build_scalar_as_index(ir, node->src[0], depth - 1);
    } else if (node->op == BL_OP_ADD || node->op == BL_OP_SUB) {
        x = build_scalar_as_index(ir, node->src[0], depth - 1);
        y = build_scalar_as_index(ir, node->src[1], depth - 1);
        made = x == NULL || y == NULL ? NULL : bl_alu2(ir, (bl_op)node->op, x, y);
    }
    /* The bounds of an integer that may wrap are those of its dtype, or unknown. */
    return made != NULL && (node->dtype != BL_U64 || node->lo >= 0) && made->lo >= node->lo && made->hi <= node->hi ? made : NULL;
}

const bl_node *bl_as_index(bl_ir *ir, const bl_node *node)
{
    return build_scalar_as_index(ir, node, MOST_SUMS);
}
