/* SPDX-License-Identifier: MIT */
#include "engine/opt/facts.h"

enum { OVER_AND_OVER = 8 };

int facts_contiguity(facts *f, const bl_node *node, const bl_node *range)
{
    int64_t stride = 0;
    bool gate = node->op == BL_OP_LOAD && node->nsrc > 2 && bl_depends(f->tune, node->src[2], range);
    if (!bl_access_stride(f->tune, node, range, &stride) || (gate && stride == 0))
        return -1; /* with stride 1 and a gate along the axis, most vectors are wholly inside */
    return stride == 0 || stride == 1 ? (int)stride : -1;
}

int facts_axis_of(const bl_tune *tune, const bl_node *range)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range == range)
            return i;
    }
    return -1;
}

size_t facts_widest(const facts *f, const bl_node *range)
{
    size_t bytes = 1;
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        size_t own = bl_dtype_bytes((bl_dtype)node->dtype);
        if (node->dtype == BL_INDEX || node->op == BL_OP_SINK || !bl_depends(f->tune, node, range))
            continue;
        if (node->dtype == BL_F16 || node->dtype == BL_BF16 || node->dtype == BL_BOOL)
            own = 4; /* computed so */
        bytes = own > bytes ? own : bytes;
    }
    return bytes;
}

static void add_access(facts *f, const bl_node *node, const bl_node *reduce, uint64_t loops)
{
    if (f->naccesses < MOST_ACCESSES)
        f->access[f->naccesses++] = (access){node, reduce, loops};
}

/* The loads of a reduction's values that stand in no reduction further in. */
static void accesses_below(facts *f, const bl_node *reduce)
{
    uint64_t loops = bl_free_get(&f->tune->free, reduce) | bl_free_bound(&f->tune->free, reduce);
    bl_nodes inside = bl_reach(f->tune->ir, (int)reduce->arg, reduce->src, false);
    for (size_t i = 0; i < inside.count; i++) {
        if (inside.at[i]->op == BL_OP_LOAD)
            add_access(f, inside.at[i], reduce, loops);
    }
}

void facts_init(facts *f, bl_tune *tune)
{
    uint64_t all = 0, most = 0;

    *f = (facts){.tune = tune};
    f->below = bl_reach(tune->ir, 1, &tune->sink, false);
    (void)bl_free_get(&tune->free, tune->sink);
    for (int i = 0; i < tune->naxes; i++) {
        uint64_t bit = bl_free_bit(&tune->free, tune->axis[i].range);
        all |= bit;
        if (tune->axis[i].output)
            f->outputs |= bit;
    }
    f->total = bl_free_size(&tune->free, all);
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        if (node->op == BL_OP_REDUCE)
            accesses_below(f, node);
        else if (node->op == BL_OP_STORE || node->op == BL_OP_LOAD)
            add_access(f, node, NULL, bl_free_get(&tune->free, node));
    }
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        uint64_t work = 0;
        if (node->op != BL_OP_REDUCE || bl_free_get(&tune->free, node) != f->outputs ||
            !bl_reads_over_and_over(&tune->free, node, OVER_AND_OVER))
            continue;
        work = (uint64_t)bl_free_work(&tune->free, node);
        if (work > most) {
            most = work;
            f->main = node;
        }
    }
}
