/* SPDX-License-Identifier: MIT */
/* The gradient of a scan is a scan the other way round.  Its body evaluates the step again, from the carries that the forward
 * scan had at its start (its history), and differentiates it: the carries' cotangents are carries, those of constants are sums
 * and so carries too, those of slices are outputs.  (Bradbury et al., JAX, lax.scan.) */
#include "engine/grad/scan.h"

#include "engine/base/map.h"
#include "engine/grad/grad.h"
#include "engine/ir/scan.h"

/* The scan that is being made, and the body of the old one in it. */
typedef struct backward {
    bl_ir *ir;
    const bl_node *node; /* the forward SCAN */
    const bl_scan *of;
    int nsrc; /* so far */
    const bl_node **src;
    bl_ptrmap bound; /* BOUND of the forward body -> BOUND here */
    /* Differentiated: roots of the step with their cotangents, by what. */
    int ny, nx;
    const bl_node **y, **cotangent, **x, **gx;
} backward;

static bool is_float(const bl_node *node)
{
    return bl_dtype_is_float((bl_dtype)node->dtype);
}

static bool is_sequence(const bl_scan *scan, int source)
{
    return source >= scan->ncarries && source < scan->ncarries + scan->nsequences;
}

/* One more source, and the parameter that the body gets for it. */
static const bl_node *add_source(backward *b, const bl_node *src, bool sequence)
{
    const bl_node *bad = src->op == BL_OP_POISON ? src : NULL;
    b->src[b->nsrc++] = src;
    return bad != NULL ? bad : bl_bound(b->ir, b->nsrc - 1, (bl_dtype)src->dtype, src->ndim - sequence, src->dim + sequence);
}

/* Sums over the steps are kept in float32 at least. */
static const bl_node *wide_zeros(bl_ir *ir, const bl_node *like)
{
    const bl_node *zeros = bl_full_like(ir, like, 0);
    return bl_dtype_is_narrow((bl_dtype)like->dtype) ? bl_cast(ir, BL_F32, zeros) : zeros;
}

static bool alloc(backward *b, const bl_node ***root)
{
    bl_arena *arena = bl_ir_arena(b->ir);
    /* carries, their histories and their cotangents, sequences, constants and their sums, outputs: each at most once */
    size_t most = (size_t)(3 * (bl_scan_sources(b->of) + b->of->nys)) + 3;

    bl_ptrmap_init(&b->bound, arena);
    b->src = bl_arena_array(arena, most, sizeof *b->src);
    b->y = bl_arena_array(arena, most, sizeof *b->y);
    b->cotangent = bl_arena_array(arena, most, sizeof *b->cotangent);
    b->x = bl_arena_array(arena, most, sizeof *b->x);
    b->gx = bl_arena_array(arena, most, sizeof *b->gx);
    *root = bl_arena_array(arena, most, sizeof **root);
    return bl_arena_status(arena, NULL) == BL_OK;
}

static void map_bound(backward *b, int source, const bl_node *to)
{
    const bl_node *from = b->node->src[source];
    bool slice = is_sequence(b->of, source);
    const bl_node *old = bl_bound(b->ir, source, (bl_dtype)from->dtype, from->ndim - slice, from->dim + slice);
    bl_ptrmap_put(&b->bound, old, (void *)(uintptr_t)to);
}

static void differentiate(backward *b, const bl_node *root, const bl_node *cotangent)
{
    b->y[b->ny] = bl_substitute(b->ir, root, &b->bound);
    b->cotangent[b->ny++] = cotangent;
}

void grad_scan(bl_ir *ir, const bl_node *node, const bl_node *const *g, const bool *wanted, const bl_node **out)
{
    backward b = {.ir = ir, .node = node, .of = bl_scan_get(ir, node)};
    const bl_scan *of = b.of;
    int ncarries = of->ncarries, nroots = ncarries + of->nys, nsources = bl_scan_sources(of), nroot = 0, ncarry = 0;
    bl_scan made = {.length = of->length, .reverse = !of->reverse};
    const bl_node **root = NULL, *scan = NULL;

    if (!alloc(&b, &root))
        return;
    const bl_node **after = bl_arena_array(bl_ir_arena(ir), (size_t)nsources + 1, sizeof *after); /* cotangents of next carries */
    const bl_node **sum = bl_arena_array(bl_ir_arena(ir), (size_t)nsources + 1, sizeof *sum);     /* of a constant's cotangents */
    const bl_node **history =
        bl_arena_array(bl_ir_arena(ir), (size_t)ncarries + 1, sizeof *history);         /* cotangents of histories */
    const bl_node **y = bl_arena_array(bl_ir_arena(ir), (size_t)nroots + 1, sizeof *y); /* cotangents of outputs */
    if (after == NULL || sum == NULL || history == NULL || y == NULL)
        return;

    /* sources: carries, sequences, constants */
    for (int i = 0; i < ncarries; i++) {
        if (is_float(node->src[i]))
            after[i] = add_source(&b, g[i] != NULL ? g[i] : bl_full_like(ir, node->src[i], 0), false);
    }
    for (int i = ncarries + of->nsequences; i < nsources; i++) {
        if (wanted[i])
            sum[i] = add_source(&b, wide_zeros(ir, node->src[i]), false);
    }
    made.ncarries = b.nsrc;
    for (int i = 0; i < ncarries; i++)
        map_bound(&b, i, add_source(&b, bl_scan_result(ir, node, nroots + i), true));
    for (int i = ncarries; i < ncarries + of->nsequences; i++)
        map_bound(&b, i, add_source(&b, node->src[i], true));
    for (int i = ncarries; i < nroots; i++) {
        if (g[i] != NULL)
            y[i] = add_source(&b, g[i], true);
    }
    for (int i = 0; i < ncarries; i++) {
        if (g[nroots + i] != NULL)
            history[i] = add_source(&b, g[nroots + i], true);
    }
    made.nsequences = b.nsrc - made.ncarries;
    for (int i = ncarries + of->nsequences; i < nsources; i++)
        map_bound(&b, i, add_source(&b, node->src[i], false));
    made.nconstants = b.nsrc - made.ncarries - made.nsequences;
    if (bl_ir_status(ir, NULL) != BL_OK)
        return;

    /* the step, differentiated by its float carries and by what is wanted */
    for (int i = 0; i < nroots; i++) {
        const bl_node *cotangent = i < ncarries ? after[i] : y[i];
        if (cotangent != NULL)
            differentiate(&b, of->root[i], cotangent);
    }
    for (int i = 0; i < nsources; i++) {
        const bl_node *from = node->src[i];
        bool slice = is_sequence(of, i);
        if (i < ncarries ? after[i] != NULL : wanted[i])
            b.x[b.nx++] = bl_ptrmap_get(&b.bound, bl_bound(ir, i, (bl_dtype)from->dtype, from->ndim - slice, from->dim + slice));
    }
    bl_grad_many(ir, b.ny, b.y, b.cotangent, b.nx, b.x, b.gx);

    /* the body's roots: next carries, then outputs */
    b.nx = 0;
    for (int i = 0; i < ncarries; i++) {
        if (after[i] != NULL) {
            const bl_node *gx = b.gx[b.nx++];
            root[nroot++] = history[i] == NULL ? gx : bl_add(ir, gx, history[i]);
        }
    }
    const bl_node *const *slices = b.gx + b.nx;
    for (int i = ncarries; i < ncarries + of->nsequences; i++)
        made.nys += wanted[i];
    b.nx += made.nys;
    for (int i = ncarries + of->nsequences; i < nsources; i++) {
        if (sum[i] != NULL)
            root[nroot++] = bl_add(ir, sum[i], bl_cast(ir, (bl_dtype)sum[i]->dtype, b.gx[b.nx++]));
    }
    for (int i = 0; i < made.nys; i++)
        root[nroot++] = slices[i];
    made.root = root;
    scan = bl_scan_make(ir, &made, b.src);

    for (int i = 0; i < ncarries; i++) {
        if (after[i] != NULL) {
            if (wanted[i])
                out[i] = bl_scan_result(ir, scan, ncarry);
            ncarry++;
        }
    }
    for (int i = ncarries + of->nsequences; i < nsources; i++) {
        if (sum[i] != NULL)
            out[i] = bl_cast(ir, (bl_dtype)node->src[i]->dtype, bl_scan_result(ir, scan, ncarry++));
    }
    for (int i = ncarries; i < ncarries + of->nsequences; i++) {
        if (wanted[i])
            out[i] = bl_scan_result(ir, scan, ncarry++);
    }
}
