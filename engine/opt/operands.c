/* SPDX-License-Identifier: MIT */
/* Operands of a nest: its LOADs, in the order in which a walk from the stores meets them.  Ids would do within one graph, but
 * they depend on what else it has, and lists of moves are kept for any graph that has the same nest. */
#include "engine/opt/internal.h"

/* A node that is walked, and which of its sources comes next. */
typedef struct visit {
    const bl_node *node;
    uint32_t next;
} visit;

int bl_tune_operands(bl_tune *tune, int most, const bl_node **load)
{
    bl_arena *arena = bl_ir_arena(tune->ir);
    size_t reachable = bl_reach(tune->ir, 1, &tune->sink, false).count, depth = 0;
    visit *stack = bl_arena_array(arena, reachable + 1, sizeof *stack);
    bl_ptrmap seen;
    int n = 0;

    if (stack == NULL)
        return 0;
    bl_ptrmap_init(&seen, arena);
    stack[depth++] = (visit){tune->sink, 0};
    while (depth > 0 && n < most) {
        visit *top = &stack[depth - 1];
        if (top->next < top->node->nsrc) {
            const bl_node *source = top->node->src[top->next++];
            if (!bl_ptrmap_has(&seen, source) && depth <= reachable) {
                bl_ptrmap_put(&seen, source, tune);
                stack[depth++] = (visit){source, 0};
            }
            continue;
        }
        if (top->node->op == BL_OP_LOAD)
            load[n++] = top->node;
        depth--;
    }
    return n;
}

const bl_node *tune_operand_load(bl_tune *tune, int operand)
{
    const bl_node *load[MOST_OPERANDS];
    int n = bl_tune_operands(tune, MOST_OPERANDS, load);
    return operand >= 0 && operand < n ? load[operand] : NULL;
}

int tune_operand_number(bl_tune *tune, const bl_node *load)
{
    const bl_node *all[MOST_OPERANDS];
    int n = bl_tune_operands(tune, MOST_OPERANDS, all);
    for (int i = 0; i < n; i++) {
        if (all[i] == load)
            return i;
    }
    return -1;
}
