/* SPDX-License-Identifier: MIT */
#include "engine/ir/scan.h"

#include "engine/base/map.h"
#include "engine/ir/private.h"

#include <string.h>

static int count_roots(const bl_scan *scan)
{
    return scan->ncarries + scan->nys;
}

static bool same_scan(const bl_scan *a, const bl_scan *b)
{
    return a->ncarries == b->ncarries && a->nsequences == b->nsequences && a->nconstants == b->nconstants && a->nys == b->nys &&
           a->length == b->length && a->reverse == b->reverse &&
           memcmp(a->root, b->root, (size_t)count_roots(a) * sizeof *a->root) == 0;
}

const bl_node *bl_scan_bound(bl_ir *ir, const bl_scan *scan, const bl_node *const *src, int which)
{
    const bl_node *from = src[which];
    int slice = bl_scan_is_sequence(scan, which);
    return bl_is_poison(from) ? from : bl_bound(ir, which, (bl_dtype)from->dtype, from->ndim - slice, from->dim + slice);
}

/* Mark the numbers of the BOUND nodes that the body reads. */
static void mark_bound(bl_ir *ir, const bl_scan *scan, bool *used)
{
    bl_nodes below = bl_reach(ir, count_roots(scan), scan->root, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_BOUND)
            used[below.at[i]->arg] = true;
    }
}

/* Drop the sequences and constants that the body does not read, and renumber the remaining BOUND nodes. */
static void drop_unread(bl_ir *ir, bl_scan *scan, const bl_node **root, const bl_node **src)
{
    int n = bl_scan_sources(scan), sequences = scan->ncarries + scan->nsequences, kept = 0;
    bool *used = bl_arena_array(ir->arena, (size_t)n + 1, sizeof *used);
    bl_ptrmap to;

    if (used == NULL)
        return;
    bl_ptrmap_init(&to, ir->arena);
    mark_bound(ir, scan, used);
    for (int i = 0; i < n; i++) {
        bool sequence = i >= scan->ncarries && i < sequences;
        if (i >= scan->ncarries && !used[i])
            continue;
        if (kept != i) {
            const bl_node *const *dim = src[i]->dim + sequence;
            int ndim = src[i]->ndim - sequence;
            bl_dtype dtype = (bl_dtype)src[i]->dtype;
            bl_ptrmap_put(&to, bl_bound(ir, i, dtype, ndim, dim), bl_bound(ir, kept, dtype, ndim, dim));
        }
        src[kept++] = src[i];
    }
    for (int i = n - 1; i >= scan->ncarries; i--) {
        if (!used[i] && i < sequences)
            scan->nsequences--;
        else if (!used[i])
            scan->nconstants--;
    }
    for (int i = 0; kept < n && i < count_roots(scan); i++)
        root[i] = bl_substitute(ir, root[i], &to);
}

/* A copy of the scan with simplified roots, and its sources. NULL without memory. */
static bl_scan *scan_prepare(bl_ir *ir, const bl_scan *given, const bl_node *const *from, const bl_node ***src)
{
    size_t nroots = (size_t)count_roots(given), nsrc = (size_t)bl_scan_sources(given);
    const bl_node **root = bl_arena_array(ir->arena, nroots + 1, sizeof *root);
    bl_scan *scan = bl_arena_alloc(ir->arena, sizeof *scan);

    *src = bl_arena_array(ir->arena, nsrc + 1, sizeof **src);
    if (root == NULL || scan == NULL || *src == NULL)
        return NULL;
    for (size_t i = 0; i < nroots; i++)
        root[i] = given->root[i];
    for (size_t i = 0; i < nsrc; i++)
        (*src)[i] = from[i];
    bl_simplify(ir, (int)nroots, root);
    *scan = *given;
    scan->root = root;
    drop_unread(ir, scan, root, *src);
    return scan;
}

/* The number of |scan|, shared by equal scans. -1 without memory. */
static int scan_number_of(bl_ir *ir, const bl_scan *scan)
{
    if (!bl_arena_reserve(ir->arena, (void **)&ir->scans, ir->nscans, &ir->cap_scans, sizeof(const bl_scan *)))
        return -1;
    for (int i = 0; i < ir->nscans; i++) {
        if (same_scan(ir->scans[i], scan))
            return i;
    }
    ir->scans[ir->nscans] = scan;
    return ir->nscans++;
}

const bl_node *bl_scan_make(bl_ir *ir, const bl_scan *given, const bl_node *const *from)
{
    const bl_node **src = NULL;
    const bl_scan *scan = NULL;
    int number = -1;

    for (int i = 0; i < bl_scan_sources(given); i++) {
        if (bl_is_poison(from[i]))
            return from[i];
    }
    for (int i = 0; i < count_roots(given); i++) {
        if (bl_is_poison(given->root[i]))
            return given->root[i];
    }
    scan = scan_prepare(ir, given, from, &src);
    number = scan == NULL ? -1 : scan_number_of(ir, scan);
    if (number < 0)
        return bl_ir_fail(ir, BL_ENOMEM, "out of host memory while compiling");
    return bl_node_make(
        ir,
        &(bl_node){
            .op = BL_OP_SCAN, .dtype = BL_BOOL, .lanes = 1, .nsrc = (uint32_t)bl_scan_sources(scan), .src = src, .arg = number});
}

const bl_scan *bl_scan_get(const bl_ir *ir, const bl_node *scan)
{
    return ir->scans[scan->arg];
}

const bl_node *bl_scan_result(bl_ir *ir, const bl_node *node, int which)
{
    const bl_node *dim[BL_MAX_DIMS + 1], *like = NULL;
    const bl_scan *scan = NULL;
    int lead = 0;

    if (bl_is_poison(node))
        return node;
    scan = bl_scan_get(ir, node);
    if (which >= bl_scan_first_odd(scan))
        like = node->src[which - bl_scan_first_odd(scan)];
    else
        like = which < count_roots(scan) ? scan->root[which] : node->src[which - count_roots(scan)];
    lead = which >= scan->ncarries && which < bl_scan_first_odd(scan);
    if (like->ndim + lead > BL_MAX_DIMS)
        return bl_ir_fail(ir, BL_EGRAPH, "scan: the stacked steps have %d dimensions, the limit is %d", like->ndim + lead,
                          BL_MAX_DIMS);
    dim[0] = scan->length;
    for (int i = 0; i < like->ndim; i++)
        dim[i + lead] = like->dim[i];
    return bl_node_make(ir, &(bl_node){.op = BL_OP_RESULT,
                                       .dtype = like->dtype,
                                       .lanes = 1,
                                       .nsrc = 1,
                                       .src = &node,
                                       .ndim = (uint8_t)(like->ndim + lead),
                                       .dim = dim,
                                       .arg = which});
}

/* Is |size| not 0? A bool in the shape of |like|. */
static const bl_node *is_nonzero(bl_ir *ir, const bl_node *size, const bl_node *like)
{
    return bl_expand(ir, bl_cast(ir, BL_BOOL, bl_cast(ir, BL_I32, size)), like->ndim, like->dim);
}

const bl_node *bl_scan_last(bl_ir *ir, const bl_node *node, int which)
{
    const bl_node *even = bl_scan_result(ir, node, which), *odd = NULL, *last = NULL;
    const bl_scan *scan = NULL;

    if (bl_is_poison(even))
        return even;
    scan = bl_scan_get(ir, node);
    if (bl_is_const(scan->length))
        return even;
    odd = bl_scan_result(ir, node, bl_scan_first_odd(scan) + which);
    last = bl_where(ir, is_nonzero(ir, bl_mod(ir, scan->length, bl_index(ir, 2)), even), even, odd);
    return scan->length->lo > 0 ? last : bl_where(ir, is_nonzero(ir, scan->length, even), last, node->src[which]);
}

const bl_node *bl_bound(bl_ir *ir, int which, bl_dtype dtype, int ndim, const bl_node *const *dim)
{
    return bl_node_make(
        ir, &(bl_node){.op = BL_OP_BOUND, .dtype = (uint8_t)dtype, .lanes = 1, .arg = which, .ndim = (uint8_t)ndim, .dim = dim});
}

static const bl_node *scan_without_aliases(bl_ir *ir, const bl_node *node, const bl_node *const *src)
{
    bl_scan scan = *bl_scan_get(ir, node);
    size_t nroots = (size_t)count_roots(&scan);
    const bl_node **root = bl_arena_array(ir->arena, nroots + 1, sizeof *root);

    if (root == NULL)
        return bl_ir_fail(ir, BL_ENOMEM, "out of host memory while compiling");
    memcpy(root, scan.root, nroots * sizeof *root);
    bl_drop_aliases(ir, (int)nroots, root);
    scan.root = root;
    return bl_scan_make(ir, &scan, src);
}

static const bl_node *drop_alias(void *arg, const bl_node *node, const bl_node *const *src)
{
    bl_ir *ir = arg;
    if (node->op == BL_OP_ALIAS)
        return src[0];
    return node->op == BL_OP_SCAN ? scan_without_aliases(ir, node, src) : bl_node_over(ir, node, src);
}

void bl_drop_aliases(bl_ir *ir, int nroots, const bl_node **roots)
{
    bl_rewrite_tracked(ir, nroots, roots, 0, NULL, drop_alias, ir);
}
