/* SPDX-License-Identifier: MIT */
#include "engine/ir/free.h"

#include "engine/base/size.h"
#include "engine/ir/affine.h"

void bl_free_init(bl_free *free, bl_ir *ir)
{
    *free = (bl_free){.ir = ir};
    bl_ptrmap_init(&free->sets, bl_ir_arena(ir));
}

uint64_t bl_free_bit(bl_free *free, const bl_node *range)
{
    for (int i = 0; i < free->nranges; i++) {
        if (free->range[i] == range)
            return UINT64_C(1) << i;
    }
    if (free->nranges == BL_MAX_RANGES) {
        free->failed = true;
        return 0;
    }
    free->range[free->nranges] = range;
    return UINT64_C(1) << free->nranges++;
}

static uint64_t own_set(bl_free *free, const bl_node *node)
{
    uint64_t set = 0;
    uint32_t first_bound = node->nsrc;
    if (node->op == BL_OP_RANGE)
        return bl_free_bit(free, node);
    if (bl_binds_ranges(node))
        first_bound = (uint32_t)node->arg; /* |arg| values or stores, then the bound ranges */
    if (node->op == BL_OP_MATRIX)
        first_bound = 1; /* the sum, then the bound ranges of rows and columns */
    for (uint32_t i = 0; i < first_bound; i++)
        set |= bl_ptrmap_number(&free->sets, node->src[i]);
    for (uint32_t i = first_bound; i < node->nsrc; i++) /* the extent of a bound range may depend on another loop */
        set |= bl_ptrmap_number(&free->sets, node->src[i]->src[0]);
    for (uint32_t i = first_bound; i < node->nsrc; i++)
        set &= ~bl_free_bit(free, node->src[i]);
    return set;
}

uint64_t bl_free_get(bl_free *free, const bl_node *node)
{
    bl_nodes below;

    if (bl_ptrmap_has(&free->sets, node))
        return bl_ptrmap_number(&free->sets, node);
    below = bl_reach(free->ir, 1, &node, false);
    for (size_t i = 0; i < below.count; i++) {
        if (!bl_ptrmap_has(&free->sets, below.at[i]))
            bl_ptrmap_put_number(&free->sets, below.at[i], own_set(free, below.at[i]));
    }
    free->failed = free->failed || !bl_ptrmap_has(&free->sets, node); /* no memory */
    return bl_ptrmap_number(&free->sets, node);
}

uint64_t bl_free_bound(bl_free *free, const bl_node *reduce)
{
    uint64_t set = 0;
    for (uint32_t i = (uint32_t)reduce->arg; i < reduce->nsrc; i++)
        set |= bl_free_bit(free, reduce->src[i]);
    return set;
}

int64_t bl_free_size(const bl_free *free, uint64_t set)
{
    int64_t size = 1;
    for (int i = 0; i < free->nranges; i++) {
        if ((set >> i & 1) != 0 && !bl_i64_mul(size, free->range[i]->hi + 1, &size))
            return INT64_MAX;
    }
    return size;
}

int64_t bl_free_work(bl_free *free, const bl_node *reduce)
{
    return bl_free_size(free, bl_free_get(free, reduce) | bl_free_bound(free, reduce));
}

bool bl_free_stride(bl_free *free, const bl_node *index, const bl_node *range, int64_t *stride)
{
    bl_affine sum;

    if (!bl_affine_of(&sum, index))
        return false;
    *stride = bl_affine_along(&sum, range);
    for (int i = 0; i < sum.count; i++) {
        if (sum.at[i].node != range && (bl_free_get(free, sum.at[i].node) & bl_free_bit(free, range)) != 0)
            return false;
    }
    return true;
}

/* A loop whose iterations advance an index by |by| elements. Sorted by |by|. */
typedef struct step {
    int64_t by, extent;
} step;

/* The loops of an affine index; -1 if the index is not affine in RANGEs. */
static int sorted_steps(bl_free *free, const bl_node *index, step *steps)
{
    bl_affine sum;
    int count = 0;

    if (!bl_affine_of(&sum, index))
        return -1;
    for (int i = 0; i < sum.count; i++) {
        const bl_node *term = sum.at[i].node;
        int64_t by = sum.at[i].coefficient;
        step own = {by < 0 ? -by : by, term->hi + 1};
        int at = count;
        if (bl_free_get(free, term) == 0)
            continue;
        if (term->op != BL_OP_RANGE)
            return -1;
        for (; at > 0 && steps[at - 1].by > own.by; at--)
            steps[at] = steps[at - 1];
        steps[at] = own;
        count++;
    }
    return count;
}

/* Two loops whose accesses leave no gap are merged into one contiguous span. */
int64_t bl_free_places(bl_free *free, const bl_node *load)
{
    step steps[BL_MAX_TERMS];
    int n = sorted_steps(free, load->src[1], steps);
    int64_t all = 1, by = 0, length = 1, most = bl_free_size(free, bl_free_get(free, load->src[1]));

    for (int i = 0; i < n; i++) {
        int64_t more = 0;
        if (by > 0 && steps[i].by % by == 0 && steps[i].by / by <= length) {
            if (!bl_i64_mul(steps[i].by / by, steps[i].extent - 1, &more) || !bl_i64_add(length, more, &length))
                return most;
            continue;
        }
        if (!bl_i64_mul(all, length, &all))
            return most;
        by = steps[i].by;
        length = steps[i].extent;
    }
    return n < 0 || !bl_i64_mul(all, length, &all) || all > most ? most : all;
}

static bool free_is_operand(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_LOAD || node->op == BL_OP_REDUCE;
}

bool bl_reads_over_and_over(bl_free *free, const bl_node *reduce, int64_t times, bool windows)
{
    bl_nodes inside = bl_reach_until(free->ir, (int)reduce->arg, reduce->src, free_is_operand, NULL);
    int64_t work = bl_free_work(free, reduce);
    uint64_t bound = bl_free_bound(free, reduce);
    int reused = 0;

    for (size_t i = 0; i < inside.count; i++) {
        const bl_node *node = inside.at[i];
        uint64_t set = free_is_operand(node, NULL) ? bl_free_get(free, node) : 0;
        int64_t size = bl_free_size(free, set);
        if (windows && node->op == BL_OP_LOAD) /* as few as three quarters of the elements may lie inside the padding */
            size = bl_free_places(free, node) / 4 * 3;
        reused += (set & bound) != 0 && size <= work / times;
    }
    return reused >= 2;
}
