/* SPDX-License-Identifier: MIT */
#include "tests/ir/node_value.h"

#include "engine/ir/eval.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bl_scalar node_value(const bl_node *node, const leaf_values *leaves)
{
    bl_scalar operand[3] = {{.u = 0}};

    for (int i = 0; i < leaves->count; i++) {
        if (leaves->leaf[i] == node)
            return leaves->value[i];
    }
    if (node->op == BL_OP_CONST)
        return bl_const_value(node);
    if (bl_op_get_class((bl_op)node->op) != BL_CLASS_ALU) {
        fprintf(stderr, "node_value: %s has no value\n", bl_op_name((bl_op)node->op));
        abort();
    }
    for (uint32_t i = 0; i < node->nsrc; i++)
        operand[i] = node_value(node->src[i], leaves);
    if (node->op == BL_OP_CAST)
        return bl_scalar_cast((bl_dtype)node->dtype, (bl_dtype)node->src[0]->dtype, operand[0]);
    if (node->op == BL_OP_BITCAST)
        return bl_eval_bitcast((bl_dtype)node->dtype, (bl_dtype)node->src[0]->dtype, operand[0]);
    return bl_eval((bl_op)node->op, (bl_dtype)node->src[node->nsrc == 1 ? 0 : 1]->dtype, operand);
}

int64_t index_value(const bl_node *node, const leaf_values *leaves)
{
    return node_value(node, leaves).i;
}

bool same_value(bl_dtype dtype, bl_scalar a, bl_scalar b)
{
    if (bl_dtype_is_float(dtype) && isnan(a.f) && isnan(b.f))
        return true;
    return a.u == b.u;
}

typedef struct formula {
    char text[2000];
    size_t len;
} formula;

static void put(formula *f, const char *fmt, ...) BL_PRINTF(2, 3);

static void put(formula *f, const char *fmt, ...)
{
    va_list args;
    int n = 0;

    va_start(args, fmt);
    n = vsnprintf(f->text + f->len, sizeof f->text - f->len, fmt, args);
    va_end(args);
    f->len += n > 0 ? (size_t)n : 0;
    if (f->len >= sizeof f->text)
        f->len = sizeof f->text - 1;
}

static const char *sign_of(int op)
{
    static const struct {
        int op;
        const char *sign;
    } signs[] = {{BL_OP_ADD, " + "}, {BL_OP_SUB, " - "},   {BL_OP_MUL, "*"},      {BL_OP_IDIV, "/"}, {BL_OP_MOD, "%"},
                 {BL_OP_AND, " & "}, {BL_OP_CMPLT, " < "}, {BL_OP_CMPEQ, " == "}, {BL_OP_OR, " | "}};

    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (signs[i].op == op)
            return signs[i].sign;
    }
    return NULL;
}

static void put_node(formula *f, const bl_node *node, bool inner)
{
    const char *sign = sign_of(node->op);

    if (f->len > sizeof f->text - 100) {
        put(f, "...");
    } else if (node->op == BL_OP_CONST) {
        if (bl_dtype_is_float((bl_dtype)node->dtype))
            put(f, "%g", bl_const_value(node).f);
        else
            put(f, "%lld", (long long)node->arg);
    } else if (node->op == BL_OP_RANGE) {
        put(f, "r%lld", (long long)node->arg);
    } else if (node->op == BL_OP_VAR) {
        put(f, "v%lld", (long long)node->arg);
    } else if (sign != NULL) {
        put(f, "%s", inner ? "(" : "");
        put_node(f, node->src[0], true);
        put(f, "%s", sign);
        put_node(f, node->src[1], true);
        put(f, "%s", inner ? ")" : "");
    } else {
        put(f, "%s(", bl_op_name((bl_op)node->op));
        for (uint32_t i = 0; i < node->nsrc; i++) {
            put(f, "%s", i == 0 ? "" : ", ");
            put_node(f, node->src[i], false);
        }
        put(f, ")");
    }
}

const char *node_formula(const bl_node *node)
{
    static formula texts[4];
    static int turn;
    formula *f = &texts[turn++ % 4];

    f->len = 0;
    f->text[0] = '\0';
    put_node(f, node, false);
    return f->text;
}
