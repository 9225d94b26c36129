/* SPDX-License-Identifier: MIT */
#include "engine/ir/ir_text.h"

#include "engine/ir/matrix_unit.h"
#include "engine/ir/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const axis_kinds[] = {"global", "local", "loop", "reduce", "tile", "vector", "group", "matrix"};
_Static_assert(sizeof axis_kinds / sizeof axis_kinds[0] == BL_AXIS_MATRIX + 1, "a word for every kind");

void bl_scalar_print(bl_dtype dtype, bl_scalar value, bl_text *out)
{
    char text[40];
    bl_scalar back;

    switch (bl_dtype_get_kind(dtype)) {
    case BL_KIND_FLOAT:
        snprintf(text, sizeof text, "%.17g", value.f); /* 17 digits identify every double */
        back.f = strtod(text, NULL);
        if (back.u == value.u)
            bl_text_puts(out, text);
        else
            bl_text_printf(out, "0x%016" PRIx64, value.u); /* the payload of a NaN */
        return;
    case BL_KIND_UINT:
    case BL_KIND_BOOL:
        bl_text_printf(out, "%" PRIu64, value.u);
        return;
    case BL_KIND_INT:
        bl_text_printf(out, "%" PRId64, value.i);
    }
}

static bool always_has_arg(unsigned op)
{
    return op == BL_OP_INPUT || op == BL_OP_BOUND || op == BL_OP_SCAN || op == BL_OP_RESULT || op == BL_OP_VAR ||
           op == BL_OP_RANGE || op == BL_OP_BUFFER;
}

static void print_node(const bl_node *node, const uint32_t *number, bl_text *out)
{
    bl_text_printf(out, "%%%u = %s %s", (unsigned)number[node->id], bl_op_name((bl_op)node->op),
                   bl_dtype_name((bl_dtype)node->dtype));
    if (node->lanes > 1)
        bl_text_printf(out, "x%d", node->lanes);
    for (int i = 0; i < node->ndim; i++) {
        bl_text_puts(out, i == 0 ? "[" : ", ");
        if (bl_is_const(node->dim[i]))
            bl_text_printf(out, "%" PRId64, node->dim[i]->arg);
        else
            bl_text_printf(out, "%%%u", (unsigned)number[node->dim[i]->id]);
    }
    bl_text_puts(out, node->ndim > 0 ? "]" : "");
    for (uint32_t i = 0; i < node->nsrc; i++)
        bl_text_printf(out, " %%%u", (unsigned)number[node->src[i]->id]);
    if (node->op == BL_OP_CONST) {
        bl_text_putc(out, ' ');
        bl_scalar_print((bl_dtype)node->dtype, bl_const_value(node), out);
    } else {
        if (node->op == BL_OP_REDUCE || node->op == BL_OP_FOLD)
            bl_text_printf(out, " sub=%s", bl_op_name((bl_op)node->sub));
        else if (node->op == BL_OP_RANGE)
            bl_text_printf(out, " sub=%s", axis_kinds[node->sub]);
        else if (node->sub != 0)
            bl_text_printf(out, " sub=%d", node->sub);
        if (node->op == BL_OP_MATRIX) {
            bl_text_puts(out, " shape=");
            bl_matrix_print(bl_matrix_unpack(node->arg), out);
        } else if (always_has_arg(node->op) || node->arg != 0)
            bl_text_printf(out, " arg=%" PRId64, node->arg);
        if (node->op == BL_OP_VAR)
            bl_text_printf(out, " lo=%" PRId64 " hi=%" PRId64, node->lo, node->hi);
    }
    bl_text_putc(out, '\n');
}

/* A node that is printed after its operands from number |next| on. */
typedef struct pending {
    const bl_node *node;
    uint32_t next;
} pending;

/* The i-th operand to print before |node|: sources, then extents; *skip is set for constant extents. NULL after the last. */
static const bl_node *operand_at(const bl_node *node, uint32_t i, bool *skip)
{
    *skip = false;
    if (i < node->nsrc)
        return node->src[i];
    if (i - node->nsrc >= node->ndim)
        return NULL;
    *skip = bl_is_const(node->dim[i - node->nsrc]);
    return node->dim[i - node->nsrc];
}

/* Depth-first from each root, so that the order depends on the structure only, not on ids. */
void bl_ir_print(bl_ir *ir, int nroots, const bl_node *const *roots, bl_text *out)
{
    size_t reachable = bl_reach(ir, nroots, roots, true).count;
    uint32_t *number = bl_arena_array(ir->arena, ir->count, sizeof *number);
    bool *seen = bl_arena_array(ir->arena, ir->count, sizeof *seen);
    pending *stack = bl_arena_array(ir->arena, reachable + 1, sizeof *stack);
    uint32_t lines = 0;

    if (number == NULL || seen == NULL || stack == NULL) {
        out->failed = true;
        return;
    }
    for (int r = 0; r < nroots; r++) {
        size_t depth = 0;
        if (seen[roots[r]->id])
            continue;
        seen[roots[r]->id] = true;
        stack[depth++] = (pending){roots[r], 0};
        while (depth > 0) {
            pending *top = &stack[depth - 1];
            bool skip = false;
            const bl_node *operand = operand_at(top->node, top->next++, &skip);
            if (operand == NULL) {
                number[top->node->id] = lines++;
                print_node(top->node, number, out);
                depth--;
            } else if (!skip && !seen[operand->id]) {
                seen[operand->id] = true;
                stack[depth++] = (pending){operand, 0};
            }
        }
    }
}
