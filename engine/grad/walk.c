/* SPDX-License-Identifier: MIT */
#include "engine/grad/grad.h"

#include "engine/grad/vjp.h"

/* By id, up to that of y. */
typedef struct walk {
    bl_ir *ir;
    bool *depends;       /* on some x, by a way that a gradient can take */
    const bl_node **sum; /* of the cotangents that have arrived, or NULL */
} walk;

static void mark(walk *w, const bl_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const bl_node *node = nodes->at[i];
        if (bl_vjp_table[node->op] == NULL)
            continue;
        for (uint32_t k = 0; k < node->nsrc; k++)
            w->depends[node->id] = w->depends[node->id] || w->depends[node->src[k]->id];
    }
}

static void pass_back(walk *w, const bl_node *node)
{
    const bl_node *few[BL_MAX_DIMS + 1] = {NULL};

    BL_ASSERT(node->nsrc <= BL_MAX_DIMS + 1); /* PAD and SHRINK have the most */
    bl_vjp_table[node->op](w->ir, node, w->sum[node->id], few);
    for (uint32_t k = 0; k < node->nsrc; k++) {
        const bl_node *g = few[k];
        const bl_node **sum = &w->sum[node->src[k]->id];
        if (g != NULL && w->depends[node->src[k]->id])
            *sum = *sum == NULL ? g : bl_add(w->ir, *sum, g);
    }
}

void bl_grad(bl_ir *ir, const bl_node *y, const bl_node *cotangent, int n, const bl_node *const *x, const bl_node **out)
{
    bl_nodes nodes = bl_reach(ir, 1, &y, false);
    size_t count = (size_t)y->id + 1;
    walk w = {ir, bl_arena_array(bl_ir_arena(ir), count, sizeof *w.depends),
              bl_arena_array(bl_ir_arena(ir), count, sizeof *w.sum)};

    if (nodes.count == 0 || w.depends == NULL || w.sum == NULL) {
        for (int i = 0; i < n; i++)
            out[i] = bl_ir_fail(ir, BL_ENOMEM, "out of memory while differentiating");
        return;
    }
    for (int i = 0; i < n; i++) {
        if (x[i]->id <= y->id)
            w.depends[x[i]->id] = true;
    }
    mark(&w, &nodes);
    w.sum[y->id] = cotangent != NULL ? cotangent : bl_full_like(ir, y, 1);
    for (size_t i = nodes.count; i-- > 0;) {
        const bl_node *node = nodes.at[i];
        if (w.sum[node->id] != NULL && w.depends[node->id] && bl_vjp_table[node->op] != NULL)
            pass_back(&w, node);
    }
    for (int i = 0; i < n; i++) {
        const bl_node *g = x[i]->id <= y->id ? w.sum[x[i]->id] : NULL;
        out[i] = g != NULL ? g : bl_full_like(ir, x[i], 0);
    }
}
