/* SPDX-License-Identifier: MIT */
/* Split-K in the graph: a reduction of very many elements to very few has too little parallelism. It becomes two reductions; the
 * first one computes partial results, which get a buffer. And the sum of many products, such as the gradient of a weight that
 * each step of a recurrent network uses, reads more buffers than a kernel may bind: it becomes sums of a few products each. */
#include "engine/ir/shape.h"
#include "engine/sched/parts.h"
#include "engine/sched/sched_internal.h"

enum {
    SPLIT_FROM = 32768,    /* elements folded into one; tinygrad's REDUCEOP_SPLIT_THRESHOLD */
    SPLIT_MOST = 256,      /* partial results */
    SPLIT_MIN_LENGTH = 64, /* elements left to each */
    MOST_PRODUCTS = 8      /* products of one sum, with two buffers or more each: a device may bind 31 */
};

/* The folded axis to split: the one with the most constant elements. */
static int axis_to_split(const bl_node *node)
{
    int best = -1;
    for (int i = 0; i < node->ndim; i++) {
        const bl_node *dim = node->src[0]->dim[i];
        if ((node->arg >> i & 1) == 0 || !bl_is_const(dim))
            continue;
        if (best < 0 || dim->hi > node->src[0]->dim[best]->hi)
            best = i;
    }
    return best;
}

static const bl_node *split_one(sched *s, const bl_node *node)
{
    bl_ir *ir = s->ir;
    const bl_node *src = node->src[0], *dim[BL_MAX_DIMS + 1], *partial = NULL;
    int64_t in = 0, out = 0, parts = 0;
    uint32_t axes = 0;
    int axis = axis_to_split(node), n = 0;

    if (!bl_shape_max_count(src->ndim, src->dim, &in) || !bl_shape_max_count(node->ndim, node->dim, &out) || out == 0)
        return node;
    if (axis < 0 || src->ndim == BL_MAX_DIMS || in / out < SPLIT_FROM || out >= 4 * (int64_t)s->options->units)
        return node;
    parts = bl_parts_choose(&(bl_parting){src->dim[axis]->hi, SPLIT_MOST, SPLIT_MIN_LENGTH, .enough = 0});
    if (parts == 1)
        return node;
    for (int i = 0; i < src->ndim; i++) {
        if (i == axis) {
            dim[n] = bl_index(ir, parts);
            n++;
            dim[n] = bl_index(ir, src->dim[i]->hi / parts);
        } else {
            dim[n] = src->dim[i];
        }
        if ((node->arg >> i & 1) != 0)
            axes |= UINT32_C(1) << n;
        n++;
    }
    partial = bl_contiguous(ir, bl_reduce(ir, (bl_op)node->sub, bl_reshape(ir, src, n, dim), axes));
    bl_ptrmap_add(&s->halves, partial);
    return bl_reshape(ir, bl_reduce(ir, (bl_op)node->sub, partial, UINT32_C(1) << axis), node->ndim, node->dim);
}

/* The terms of the sum |node|, if all of them are products; else 0. |term| has room for |most|; NULL: only count them. */
static size_t list_products(const bl_node *node, size_t most, const bl_node **term)
{
    size_t n = 0;

    for (int last; node->op == BL_OP_ADD; node = node->src[1 - last]) {
        last = node->src[1]->op == BL_OP_MUL;
        if (node->src[last]->op != BL_OP_MUL)
            return 0;
        if (term != NULL && n < most)
            term[n] = node->src[last];
        n++;
    }
    if (node->op != BL_OP_MUL)
        return 0;
    if (term != NULL && n < most)
        term[n] = node;
    return n + 1;
}

/* The sum of many products over |node|'s axes. Each group of products is a reduction that adds the sum of the groups before, so
 * no value has the size of a product. */
static const bl_node *group_products(sched *s, const bl_node *node)
{
    bl_ir *ir = s->ir;
    size_t n = node->sub == BL_OP_ADD ? list_products(node->src[0], 0, NULL) : 0;
    const bl_node **term = n > MOST_PRODUCTS ? bl_arena_array(bl_ir_arena(ir), n, sizeof *term) : NULL;
    const bl_node *total = NULL;

    if (term == NULL)
        return node;
    (void)list_products(node->src[0], n, term);
    for (size_t i = 0; i < n;) {
        const bl_node *group = term[i++];
        for (; i < n && i % MOST_PRODUCTS != 0; i++)
            group = bl_add(ir, group, term[i]);
        group = bl_reduce(ir, BL_OP_ADD, group, (uint32_t)node->arg);
        total = bl_contiguous(ir, total == NULL ? group : bl_add(ir, total, group));
    }
    return total;
}

static const bl_node *split_reduction_split_reduction(void *arg, const bl_node *node, const bl_node *const *src)
{
    sched *s = arg;
    const bl_node *made = bl_node_with(s->ir, node, src);

    if (made->op != BL_OP_REDUCE)
        return made;
    const bl_node *grouped = group_products(s, made);
    return grouped != made ? grouped : split_one(s, made);
}

void sched_split(sched *s, int nroots, const bl_node **roots)
{
    bl_rewrite_tracked(s->ir, nroots, roots, s->depth == 0 ? s->options->ntracked : 0, s->options->tracked,
                       split_reduction_split_reduction, s);
}
