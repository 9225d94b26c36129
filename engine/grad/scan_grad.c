/* SPDX-License-Identifier: MIT */
/* The gradient of a SCAN is a SCAN in the opposite direction. Its body recomputes the forward step from the carries at the
 * start of that step (their history) and differentiates it. Cotangents of carries are carries. Cotangents of constants are
 * summed, so they are carries too. Cotangents of slices are outputs. (Bradbury et al., JAX, lax.scan.) */
#include "engine/grad/scan_grad.h"

#include "engine/base/map.h"
#include "engine/grad/grad.h"
#include "engine/ir/scan.h"

/* The backward SCAN under construction. */
typedef struct backward {
    bl_ir *ir;
    const bl_node *node; /* the forward SCAN */
    const bl_scan *of;
    const bl_node *const *g; /* cotangents of the results */
    const bool *wanted;
    bl_scan made;
    const bl_node **src;
    /* Parameters of the new body for each source of the forward scan: |now|, the source's value; |sum|, the cotangent of a
     * carry after the step, or the running sum for a constant; |history|, the cotangent of a carry's history. NULL if there is
     * none. */
    const bl_node **now, **sum, **history;
    const bl_node **y;        /* for each root of the forward body: the cotangent of an output in this step, or NULL */
    const bl_node **gradient; /* for each source: its gradient in the step; NULL if it has none */
} backward;

/* Add a source, and return the body's parameter for it. */
static const bl_node *scan_grad_add_source(backward *b, const bl_node *src, int *count)
{
    int which = bl_scan_sources(&b->made), slice = count == &b->made.nsequences;

    b->src[which] = src;
    ++*count;
    return src->op == BL_OP_POISON ? src : bl_bound(b->ir, which, (bl_dtype)src->dtype, src->ndim - slice, src->dim + slice);
}

static bool scan_grad_alloc(backward *b)
{
    bl_arena *arena = bl_ir_arena(b->ir);
    size_t nsrc = (size_t)bl_scan_sources(b->of) + 1, nys = (size_t)b->of->nys;

    /* each source, its cotangent and its history's cotangent; and the cotangents of outputs */
    b->src = bl_arena_array(arena, 3 * nsrc + nys, sizeof *b->src);
    b->now = bl_arena_array(arena, nsrc, sizeof *b->now);
    b->sum = bl_arena_array(arena, nsrc, sizeof *b->sum);
    b->history = bl_arena_array(arena, nsrc, sizeof *b->history);
    b->gradient = bl_arena_array(arena, nsrc, sizeof *b->gradient);
    b->y = bl_arena_array(arena, nsrc + nys, sizeof *b->y);
    return bl_arena_status(arena, NULL) == BL_OK;
}

/* The cotangent of carry |i| after the last step. If the length decides which of two results is the last carry, it is the sum
 * of both cotangents. */
static const bl_node *cotangent_of_last(const backward *b, int i)
{
    int first = bl_scan_first_odd(b->of);
    const bl_node *even = b->g[i], *odd = first < bl_scan_results(b->of) ? b->g[first + i] : NULL;
    return even == NULL ? odd : odd == NULL ? even : bl_add(b->ir, even, odd);
}

/* Sums over steps are accumulated in float32 or wider. */
static const bl_node *wide_zeros(bl_ir *ir, const bl_node *like)
{
    const bl_node *zeros = bl_full_like(ir, like, 0);
    return bl_dtype_is_narrow((bl_dtype)like->dtype) ? bl_cast(ir, BL_F32, zeros) : zeros;
}

/* Mark the carries without a cotangent that root |which| of the body depends on. True if there are any. */
static bool spread_to_carries(const backward *b, int which, bool *live)
{
    bl_nodes below = bl_reach(b->ir, 1, &b->of->root[which], false);
    bool any = false;

    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op != BL_OP_BOUND || node->arg >= b->of->ncarries || !bl_dtype_is_float((bl_dtype)node->dtype) ||
            live[node->arg])
            continue;
        live[node->arg] = any = true;
    }
    return any;
}

/* Find the float carries that have a cotangent in some step: those that a result with a cotangent depends on, in that step or a
 * later one. Other carries must have no cotangent at all, rather than zeros: zero times NaN is NaN. */
static bool *live_carries(const backward *b)
{
    int ncarries = b->of->ncarries, nroots = ncarries + b->of->nys;
    bool *live = bl_arena_array(bl_ir_arena(b->ir), (size_t)ncarries + 1, sizeof *live);
    bool more = live != NULL;

    for (int i = 0; more && i < ncarries; i++)
        live[i] = cotangent_of_last(b, i) != NULL || b->g[nroots + i] != NULL;
    while (more) {
        more = false;
        for (int i = 0; i < nroots; i++) {
            if (i < ncarries ? live[i] : b->g[i] != NULL)
                more = spread_to_carries(b, i, live) || more;
        }
    }
    return live;
}

/* Make the carries: the cotangents of live float carries, and the sums for wanted constants. */
static void take_carries(backward *b)
{
    int nsrc = bl_scan_sources(b->of), constants = b->of->ncarries + b->of->nsequences;
    const bool *live = live_carries(b);

    for (int i = 0; live != NULL && i < nsrc; i++) {
        const bl_node *src = b->node->src[i], *last = i < b->of->ncarries ? cotangent_of_last(b, i) : NULL;
        if (i < b->of->ncarries && live[i] && bl_dtype_is_float((bl_dtype)src->dtype))
            b->sum[i] = scan_grad_add_source(b, last != NULL ? last : bl_full_like(b->ir, src, 0), &b->made.ncarries);
        else if (i >= constants && b->wanted[i])
            b->sum[i] = scan_grad_add_source(b, wide_zeros(b->ir, src), &b->made.ncarries);
    }
}

/* Make the sequences: the histories of the carries, the forward scan's sequences, and the cotangents of stacked outputs. */
static void take_sequences(backward *b)
{
    int ncarries = b->of->ncarries, nroots = ncarries + b->of->nys, constants = ncarries + b->of->nsequences;

    for (int i = 0; i < ncarries; i++)
        b->now[i] = scan_grad_add_source(b, bl_scan_result(b->ir, b->node, nroots + i), &b->made.nsequences);
    for (int i = ncarries; i < constants; i++)
        b->now[i] = scan_grad_add_source(b, b->node->src[i], &b->made.nsequences);
    for (int i = ncarries; i < nroots; i++)
        b->y[i] = b->g[i] == NULL ? NULL : scan_grad_add_source(b, b->g[i], &b->made.nsequences);
    for (int i = 0; i < ncarries; i++)
        b->history[i] = b->g[nroots + i] == NULL ? NULL : scan_grad_add_source(b, b->g[nroots + i], &b->made.nsequences);
    for (int i = constants; i < bl_scan_sources(b->of); i++)
        b->now[i] = scan_grad_add_source(b, b->node->src[i], &b->made.nconstants);
}

static bool takes_part(const backward *b, int source)
{
    return b->sum[source] != NULL || (bl_scan_is_sequence(b->of, source) && b->wanted[source]);
}

/* Evaluate the forward body on the new parameters, and differentiate the live carries with respect to the wanted sources. */
static bool differentiate(backward *b)
{
    bl_arena *arena = bl_ir_arena(b->ir);
    int nsrc = bl_scan_sources(b->of), nroots = b->of->ncarries + b->of->nys, ny = 0, nx = 0;
    const bl_node **y = bl_arena_array(arena, (size_t)nroots + 1, sizeof *y);
    const bl_node **cotangent = bl_arena_array(arena, (size_t)nroots + 1, sizeof *cotangent);
    const bl_node **x = bl_arena_array(arena, (size_t)nsrc + 1, sizeof *x),
                  **gx = bl_arena_array(arena, (size_t)nsrc + 1, sizeof *gx);
    bl_ptrmap now;

    if (y == NULL || cotangent == NULL || x == NULL || gx == NULL)
        return false;
    bl_ptrmap_init(&now, arena);
    for (int i = 0; i < nsrc; i++)
        bl_ptrmap_put(&now, bl_scan_bound(b->ir, b->of, b->node->src, i), b->now[i]);
    for (int i = 0; i < nroots; i++) {
        const bl_node *given = i < b->of->ncarries ? b->sum[i] : b->y[i];
        if (given == NULL)
            continue;
        y[ny] = bl_substitute(b->ir, b->of->root[i], &now);
        cotangent[ny++] = given;
    }
    for (int i = 0; i < nsrc; i++) {
        if (takes_part(b, i))
            x[nx++] = b->now[i];
    }
    bl_grad_many(b->ir, ny, y, cotangent, nx, x, gx);
    nx = 0;
    for (int i = 0; i < nsrc; i++) {
        if (takes_part(b, i))
            b->gradient[i] = gx[nx++];
    }
    return true;
}

/* The roots of the new body: the next carries in the order of take_carries, then the gradients of slices. */
static const bl_node *make_scan(backward *b)
{
    bl_ir *ir = b->ir;
    int nsrc = bl_scan_sources(b->of), n = 0;
    const bl_node **root = bl_arena_array(bl_ir_arena(ir), (size_t)nsrc + 1, sizeof *root);

    if (root == NULL)
        return bl_ir_fail(ir, BL_ENOMEM, "out of memory while differentiating");
    for (int i = 0; i < nsrc; i++) {
        if (b->sum[i] == NULL)
            continue;
        if (i >= b->of->ncarries)
            root[n++] = bl_add(ir, b->sum[i], bl_cast(ir, (bl_dtype)b->sum[i]->dtype, b->gradient[i]));
        else
            root[n++] = b->history[i] == NULL ? b->gradient[i] : bl_add(ir, b->gradient[i], b->history[i]);
    }
    for (int i = 0; i < nsrc; i++) {
        if (bl_scan_is_sequence(b->of, i) && b->wanted[i])
            root[n++] = b->gradient[i];
    }
    b->made.nys = n - b->made.ncarries;
    b->made.root = root;
    return bl_scan_make(ir, &b->made, b->src);
}

void grad_scan(bl_ir *ir, const bl_node *node, const bl_node *const *g, const bool *wanted, const bl_node **out)
{
    backward b = {.ir = ir, .node = node, .of = bl_scan_get(ir, node), .g = g, .wanted = wanted};
    const bl_node *scan = NULL;
    int nsrc = bl_scan_sources(b.of), carry = 0, slice = 0;

    b.made = (bl_scan){.length = b.of->length, .reverse = !b.of->reverse};
    if (!scan_grad_alloc(&b))
        return;
    take_carries(&b);
    take_sequences(&b);
    if (bl_ir_status(ir, NULL) != BL_OK || !differentiate(&b))
        return;
    scan = make_scan(&b);
    slice = b.made.ncarries;
    for (int i = 0; i < nsrc; i++) {
        int which = b.sum[i] != NULL ? carry++ : bl_scan_is_sequence(b.of, i) && wanted[i] ? slice++ : -1;
        if (wanted[i] && which >= 0)
            out[i] = bl_cast(ir, (bl_dtype)node->src[i]->dtype,
                             which < b.made.ncarries ? bl_scan_last(ir, scan, which) : bl_scan_result(ir, scan, which));
    }
}
