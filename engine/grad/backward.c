/* SPDX-License-Identifier: MIT */
#include "engine/grad/grad.h"

#include "engine/grad/scan_grad.h"
#include "engine/grad/vjp.h"
#include "engine/ir/scan.h"

/* State of the backward walk. Arrays are indexed by node id. */
typedef struct walk {
    bl_ir *ir;
    uint32_t last; /* the largest id of any y */
    bool *depends; /* does the node depend on some x, through ops that have a gradient? */
    /* the sum of the cotangents that have arrived, or NULL; for a SCAN: not NULL if one of its RESULTs has one */
    const bl_node **sum;
} walk;

static bool lets_through(const bl_node *node)
{
    return bl_vjp_table[node->op] != NULL || node->op == BL_OP_SCAN ||
           (node->op == BL_OP_RESULT && bl_dtype_is_float((bl_dtype)node->dtype));
}

static void backward_mark(walk *w, const bl_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const bl_node *node = nodes->at[i];
        for (uint32_t k = 0; lets_through(node) && k < node->nsrc; k++)
            w->depends[node->id] = w->depends[node->id] || w->depends[node->src[k]->id];
    }
}

/* Add the cotangents |given|, one for each source or NULL, to the sums of the sources. */
static void hand_on(walk *w, const bl_node *node, const bl_node *const *given)
{
    for (uint32_t k = 0; k < node->nsrc; k++) {
        const bl_node **sum = &w->sum[node->src[k]->id];
        if (given[k] != NULL && w->depends[node->src[k]->id])
            *sum = *sum == NULL ? given[k] : bl_add(w->ir, *sum, given[k]);
    }
}

/* The walk visits a SCAN after all its RESULTs. */
static void pass_back_scan(walk *w, const bl_node *node)
{
    bl_arena *arena = bl_ir_arena(w->ir);
    int nresults = bl_scan_results(bl_scan_get(w->ir, node));
    const bl_node **g = bl_arena_array(arena, (size_t)nresults + 1, sizeof *g);
    const bl_node **given = bl_arena_array(arena, (size_t)node->nsrc + 1, sizeof *given);
    bool *wanted = bl_arena_array(arena, (size_t)node->nsrc + 1, sizeof *wanted);

    if (g == NULL || given == NULL || wanted == NULL)
        return;
    for (int i = 0; i < nresults; i++) {
        const bl_node *result = bl_scan_result(w->ir, node, i);
        g[i] = result->id <= w->last ? w->sum[result->id] : NULL;
    }
    for (uint32_t k = 0; k < node->nsrc; k++)
        wanted[k] = w->depends[node->src[k]->id] && bl_dtype_is_float((bl_dtype)node->src[k]->dtype);
    grad_scan(w->ir, node, g, wanted, given);
    hand_on(w, node, given);
}

static void pass_back(walk *w, const bl_node *node)
{
    const bl_node *few[BL_MAX_DIMS + 1] = {NULL};

    if (node->op == BL_OP_SCAN) {
        pass_back_scan(w, node);
    } else if (node->op == BL_OP_RESULT) {
        w->sum[node->src[0]->id] = w->sum[node->id];
    } else {
        BL_ASSERT(node->nsrc <= BL_MAX_DIMS + 1); /* PAD and SHRINK have the most sources */
        bl_vjp_table[node->op](w->ir, node, w->sum[node->id], few);
        hand_on(w, node, few);
    }
}

void bl_grad_many(bl_ir *ir, int ny, const bl_node *const *y, const bl_node *const *cotangent, int n, const bl_node *const *x,
                  const bl_node **out)
{
    bl_nodes nodes = bl_reach(ir, ny, y, false);
    uint32_t last = nodes.count == 0 ? 0 : nodes.at[nodes.count - 1]->id;
    walk w = {ir, last, bl_arena_array(bl_ir_arena(ir), (size_t)last + 1, sizeof *w.depends),
              bl_arena_array(bl_ir_arena(ir), (size_t)last + 1, sizeof *w.sum)};

    if (w.depends == NULL || w.sum == NULL || (nodes.count == 0 && ny > 0)) {
        for (int i = 0; i < n; i++)
            out[i] = bl_ir_fail(ir, BL_ENOMEM, "out of memory while differentiating");
        return;
    }
    for (int i = 0; i < n; i++) {
        if (x[i]->id <= last)
            w.depends[x[i]->id] = true;
    }
    backward_mark(&w, &nodes);
    for (int i = 0; i < ny; i++) {
        const bl_node **sum = &w.sum[y[i]->id], *g = cotangent[i] != NULL ? cotangent[i] : bl_full_like(ir, y[i], 1);
        *sum = *sum == NULL ? g : bl_add(ir, *sum, g);
    }
    for (size_t i = nodes.count; i-- > 0;) {
        const bl_node *node = nodes.at[i];
        if (w.sum[node->id] != NULL && w.depends[node->id] && lets_through(node))
            pass_back(&w, node);
    }
    for (int i = 0; i < n; i++) {
        const bl_node *g = x[i]->id <= last ? w.sum[x[i]->id] : NULL;
        out[i] = g != NULL ? g : bl_full_like(ir, x[i], 0);
    }
}

void bl_grad(bl_ir *ir, const bl_node *y, const bl_node *cotangent, int n, const bl_node *const *x, const bl_node **out)
{
    bl_grad_many(ir, 1, &y, &cotangent, n, x, out);
}
