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
    SPLIT_GROUPS = 4,      /* partial or whole results per core that are enough */
    MOST_PRODUCTS = 8      /* products of one sum, with two buffers or more each: a device may bind 31 */
};

/* The folded axis to split, and its parts: the outermost axis with |enough| parts, so that a part reads long runs of memory; else
 * the axis with the most parts. 64 parts of the rows of 4 x 1024 x 4096 elements took 2.7 ms, 16 parts of the 1024 1.4 ms. -1 if
 * there is none. */
static int axis_to_split(const bl_node *node, int64_t enough, int64_t *parts)
{
    int best = -1;

    *parts = 1;
    for (int i = 0; i < node->ndim && *parts < enough; i++) {
        const bl_node *dim = node->src[0]->dim[i];
        int64_t own = (node->arg >> i & 1) != 0 && bl_is_const(dim)
                          ? bl_parts_choose(&(bl_parting){dim->hi, SPLIT_MOST, SPLIT_MIN_LENGTH, .enough = 0})
                          : 1;
        if (own <= *parts)
            continue;
        *parts = own;
        best = i;
    }
    return best;
}

static const bl_node *split_one(sched *s, const bl_node *node)
{
    bl_ir *ir = s->ir;
    const bl_node *src = node->src[0], *dim[BL_MAX_DIMS + 1], *partial = NULL;
    int64_t in = 0, out = 0, parts = 0, enough = SPLIT_GROUPS * (int64_t)s->options->units;
    uint32_t axes = 0;
    int axis = axis_to_split(node, enough < SPLIT_MOST ? enough : SPLIT_MOST, &parts), n = 0;

    if (!bl_shape_max_count(src->ndim, src->dim, &in) || !bl_shape_max_count(node->ndim, node->dim, &out) || out == 0)
        return node;
    if (axis < 0 || src->ndim == BL_MAX_DIMS || in / out < SPLIT_FROM || out >= enough)
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

typedef struct splitting {
    sched *s;
    bl_ptrmap users; /* how many nodes read an ADD of the graph before the rewrite */
} splitting;

/* The terms of the sum |made|, if all of them are products, and no other node reads a sum of some of them; else 0. |node| is the
 * sum before the rewrite. |term| has room for |most|; NULL: only count them. */
static size_t list_products(const splitting *p, const bl_node *node, const bl_node *made, size_t most, const bl_node **term)
{
    size_t n = 0;

    while (node->op == BL_OP_ADD && made->op == BL_OP_ADD) {
        int last = node->src[1]->op == BL_OP_MUL;
        if (made->src[last]->op != BL_OP_MUL || bl_ptrmap_number(&p->users, node) != 1)
            return 0;
        if (term != NULL && n < most)
            term[n] = made->src[last];
        n++;
        node = node->src[1 - last];
        made = made->src[1 - last];
    }
    if (made->op != BL_OP_MUL)
        return 0;
    if (term != NULL && n < most)
        term[n] = made;
    return n + 1;
}

/* The sum of many products over the axes of |made|, which was |node|. Each group of products is a reduction that adds the sum of
 * the groups before, so no value has the size of a product. */
static const bl_node *group_products(const splitting *p, const bl_node *node, const bl_node *made)
{
    bl_ir *ir = p->s->ir;
    size_t n = made->sub == BL_OP_ADD ? list_products(p, node->src[0], made->src[0], 0, NULL) : 0;
    const bl_node **term = n > MOST_PRODUCTS ? bl_arena_array(bl_ir_arena(ir), n, sizeof *term) : NULL;
    const bl_node *total = NULL;

    if (term == NULL)
        return made;
    (void)list_products(p, node->src[0], made->src[0], n, term);
    for (size_t i = 0; i < n;) {
        const bl_node *group = term[i++];
        for (; i < n && i % MOST_PRODUCTS != 0; i++)
            group = bl_add(ir, group, term[i]);
        group = bl_reduce(ir, BL_OP_ADD, group, (uint32_t)made->arg);
        total = bl_contiguous(ir, total == NULL ? group : bl_add(ir, total, group));
    }
    return total;
}

static const bl_node *split_reduction_split_reduction(void *arg, const bl_node *node, const bl_node *const *src)
{
    const splitting *p = arg;
    const bl_node *made = bl_node_with(p->s->ir, node, src);

    if (made->op != BL_OP_REDUCE)
        return made;
    const bl_node *grouped = group_products(p, node, made);
    return grouped != made ? grouped : split_one(p->s, made);
}

static void count_readers(splitting *p, const bl_node *node)
{
    if (node->op == BL_OP_ADD)
        bl_ptrmap_put_number(&p->users, node, bl_ptrmap_number(&p->users, node) + 1);
}

void sched_split(sched *s, int nroots, const bl_node **roots)
{
    splitting p = {.s = s};
    bl_nodes all = bl_reach(s->ir, nroots, roots, false);

    bl_ptrmap_init(&p.users, bl_ir_arena(s->ir));
    for (size_t i = 0; i < all.count; i++) {
        for (uint32_t k = 0; k < all.at[i]->nsrc; k++)
            count_readers(&p, all.at[i]->src[k]);
    }
    for (int i = 0; i < nroots; i++)
        count_readers(&p, roots[i]);
    bl_rewrite_tracked(s->ir, nroots, roots, s->depth == 0 ? s->options->ntracked : 0, s->options->tracked,
                       split_reduction_split_reduction, &p);
}
