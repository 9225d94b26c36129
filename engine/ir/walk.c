/* SPDX-License-Identifier: MIT */
#include "engine/base/map.h"
#include "engine/ir/private.h"

#include <stdlib.h>
#include <string.h>

/* The walks of an ir share its scratch arrays (queue, mark, value) and therefore do not nest. Builders do not use these
 * arrays. */
static void begin_walk(bl_ir *ir)
{
    if (++ir->epoch == 0) {
        memset(ir->mark, 0, ir->cap * sizeof *ir->mark);
        ir->epoch = 1;
    }
}

static size_t walk_visit(bl_ir *ir, const bl_node *node, size_t count)
{
    if (ir->mark[node->id] == ir->epoch)
        return count;
    ir->mark[node->id] = ir->epoch;
    ir->queue[count] = node;
    return count + 1;
}

static int by_id(const void *a, const void *b)
{
    const bl_node *const *x = a;
    const bl_node *const *y = b;

    return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

/* Sort the queue by id. If it holds a large part of all nodes, scan the marks instead. */
static void sort_queue(bl_ir *ir, size_t count)
{
    size_t at = 0;

    if (count < ir->count / 16) {
        qsort(ir->queue, count, sizeof *ir->queue, by_id);
        return;
    }
    for (size_t id = 0; id < ir->count; id++) {
        if (ir->mark[id] == ir->epoch)
            ir->queue[at++] = ir->by_id[id];
    }
}

/* Fill the queue with all nodes reachable from |roots| without passing through a node of |stop| (NULL: none). */
static size_t walk_collect(bl_ir *ir, int nroots, const bl_node *const *roots, bool dims, const bl_ptrmap *stop)
{
    size_t count = 0;

    begin_walk(ir);
    for (int i = 0; i < nroots; i++)
        count = walk_visit(ir, roots[i], count);
    for (size_t at = 0; at < count; at++) {
        const bl_node *node = ir->queue[at];
        if (stop != NULL && bl_ptrmap_has(stop, node))
            continue;
        for (uint32_t i = 0; i < node->nsrc; i++)
            count = walk_visit(ir, node->src[i], count);
        for (int i = 0; dims && i < node->ndim; i++)
            count = walk_visit(ir, node->dim[i], count);
    }
    return count;
}

/* The same, in order of id. */
static size_t reach(bl_ir *ir, int nroots, const bl_node *const *roots, bool dims, const bl_ptrmap *stop)
{
    size_t count = walk_collect(ir, nroots, roots, dims, stop);

    sort_queue(ir, count);
    return count;
}

bl_nodes bl_reach(bl_ir *ir, int nroots, const bl_node *const *roots, bool dims)
{
    size_t count = reach(ir, nroots, roots, dims, NULL);
    bl_nodes nodes = {bl_arena_array(ir->arena, count, sizeof *nodes.at), count};

    if (nodes.at == NULL)
        return (bl_nodes){NULL, 0};
    memcpy(nodes.at, ir->queue, count * sizeof *nodes.at);
    return nodes;
}

bl_nodes bl_reach_until(bl_ir *ir, int nroots, const bl_node *const *roots, bool (*stops)(const bl_node *node, const void *arg),
                        const void *arg)
{
    bl_nodes all = bl_reach(ir, nroots, roots, false);
    size_t count = 0;
    bl_ptrmap inside;

    bl_ptrmap_init(&inside, ir->arena);
    for (int i = 0; i < nroots; i++)
        bl_ptrmap_add(&inside, roots[i]);
    for (size_t i = all.count; i-- > 0;) { /* users first */
        const bl_node *node = all.at[i];
        if (!bl_ptrmap_has(&inside, node) || stops(node, arg))
            continue;
        for (uint32_t k = 0; k < node->nsrc; k++)
            bl_ptrmap_add(&inside, node->src[k]);
    }
    for (size_t i = 0; i < all.count; i++) {
        if (bl_ptrmap_has(&inside, all.at[i]))
            all.at[count++] = all.at[i];
    }
    return (bl_nodes){all.at, count};
}

const bl_node *bl_find(bl_ir *ir, int nroots, const bl_node *const *roots, bool (*is)(const bl_node *node, const void *arg),
                       const void *arg)
{
    size_t count = walk_collect(ir, nroots, roots, false, NULL);
    const bl_node *first = NULL;

    for (size_t i = 0; i < count; i++) {
        const bl_node *node = ir->queue[i];
        if ((first == NULL || node->id < first->id) && is(node, arg))
            first = node;
    }
    return first;
}

static bool has_op(const bl_node *node, const void *op)
{
    return node->op == *(const bl_op *)op;
}

const bl_node *bl_find_op(bl_ir *ir, const bl_node *root, bl_op op)
{
    return bl_find(ir, 1, &root, has_op, &op);
}

const bl_node *bl_find_only(bl_ir *ir, const bl_node *root, bl_op op)
{
    size_t count = walk_collect(ir, 1, &root, false, NULL);
    const bl_node *only = NULL;

    for (size_t i = 0; i < count; i++) {
        if (ir->queue[i]->op != op)
            continue;
        if (only != NULL)
            return NULL;
        only = ir->queue[i];
    }
    return only;
}

static bool binds_range(const bl_node *node, const void *range)
{
    return bl_binds(node, range);
}

bool bl_is_bound(bl_ir *ir, const bl_node *root, const bl_node *range)
{
    return bl_find(ir, 1, &root, binds_range, range) != NULL;
}

bool bl_reaches(bl_ir *ir, int nroots, const bl_node *const *roots, int n, const bl_node *const *nodes)
{
    walk_collect(ir, nroots, roots, false, NULL);
    for (int i = 0; i < n; i++) {
        if (ir->mark[nodes[i]->id] == ir->epoch)
            return true;
    }
    return false;
}

static const bl_node *rebuild_load(bl_ir *ir, const bl_node *node, const bl_node *const *src)
{
    bl_node proto = *node;

    if (bl_is_int(src[2], 0))
        return bl_const_int(ir, (bl_dtype)node->dtype, 0);
    if (!bl_is_int(src[2], 1))
        return bl_node_with(ir, node, src);
    proto.nsrc = 2;
    proto.src = src;
    proto.lanes = bl_node_lanes(node, src);
    return bl_node_make(ir, &proto);
}

/* Rebuild a store; a gate that is always open is dropped. */
static const bl_node *rebuild_store(bl_ir *ir, const bl_node *node, const bl_node *const *src)
{
    bl_node proto = *node;

    for (uint32_t i = 0; i < 3; i++) {
        if (bl_is_poison(src[i]))
            return src[i];
    }
    proto.nsrc = 3;
    proto.src = src;
    proto.lanes = bl_node_lanes(node, src);
    return bl_node_make(ir, &proto);
}

const bl_node *bl_node_rebuild(bl_ir *ir, const bl_node *node, const bl_node *const *src, const bl_node *const *dim)
{
    const bl_node *copies[BL_MAX_LANES];
    bl_node proto = *node;

    if (bl_op_get_class((bl_op)node->op) == BL_CLASS_ALU) {
        if (node->op == BL_OP_CAST)
            return bl_cast(ir, (bl_dtype)node->dtype, src[0]);
        if (node->op == BL_OP_BITCAST)
            return bl_bitcast(ir, (bl_dtype)node->dtype, src[0]);
        return bl_alu(ir, (bl_op)node->op, src);
    }
    if (node->op == BL_OP_LOAD && node->nsrc == 3)
        return rebuild_load(ir, node, src);
    if (node->op == BL_OP_STORE && node->nsrc == 4 && bl_is_int(src[3], 1))
        return rebuild_store(ir, node, src);
    if (node->op == BL_OP_FOLD && src[0]->lanes == 1 && !bl_is_poison(src[0])) {
        /* All lanes became one value, but the fold must still count it once per lane. */
        for (int i = 0; i < node->src[0]->lanes; i++)
            copies[i] = src[0];
        return bl_fold(ir, (bl_op)node->sub, bl_stack(ir, node->src[0]->lanes, copies));
    }
    if (node->op == BL_OP_EXTRACT &&
        src[0]->lanes == 1) /* the lanes of a vector became one scalar, for instance a load behind a closed gate */
        return src[0];
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (bl_is_poison(src[i]))
            return src[i];
    }
    proto.src = src;
    proto.dim = dim;
    proto.lanes = bl_node_lanes(node, src);
    return bl_node_make(ir, &proto);
}

bool bl_has_sources(const bl_node *node, const bl_node *const *src)
{
    bool same = true;
    for (uint32_t i = 0; i < node->nsrc; i++)
        same = same && src[i] == node->src[i];
    return same;
}

const bl_node *bl_node_over(bl_ir *ir, const bl_node *node, const bl_node *const *src)
{
    return bl_has_sources(node, src) ? node : bl_node_rebuild(ir, node, src, node->dim);
}

/* Rebuild |node| over the results of the walk for its sources and extents; |node| itself if nothing changed and |always| is not
 * set. */
static const bl_node *remake(bl_ir *ir, const bl_node *node, bool always)
{
    const bl_node *small[32];
    const bl_node *dim[BL_MAX_DIMS];
    const bl_node **src = small;
    bool same = true;

    if (bl_is_poison(node)) /* POISON is not in the tables that hold the results for extents */
        return node;
    if (node->nsrc > sizeof small / sizeof small[0]) {
        src = bl_arena_array(ir->arena, node->nsrc, sizeof *src);
        if (src == NULL)
            return bl_ir_fail(ir, BL_ENOMEM, "out of host memory while compiling");
    }
    for (uint32_t i = 0; i < node->nsrc; i++) {
        src[i] = ir->value[node->src[i]->id];
        same = same && src[i] == node->src[i];
    }
    for (int i = 0; i < node->ndim; i++) {
        dim[i] = ir->value[node->dim[i]->id];
        same = same && dim[i] == node->dim[i];
    }
    return same && !always ? node : bl_node_rebuild(ir, node, src, dim);
}

const bl_node *bl_substitute(bl_ir *ir, const bl_node *root, const struct bl_ptrmap *map)
{
    size_t count = reach(ir, 1, &root, true, map);

    for (size_t i = 0; i < count; i++) {
        const bl_node *node = ir->queue[i];
        const bl_node *made = bl_ptrmap_get(map, node);

        if (made == NULL)
            made = remake(ir, node, false);
        ir->value[node->id] = made;
    }
    return ir->value[root->id];
}

const bl_node *bl_replace(bl_ir *ir, const bl_node *root, const bl_node *from, const bl_node *to)
{
    bl_ptrmap map;

    bl_ptrmap_init(&map, bl_ir_arena(ir));
    bl_ptrmap_put(&map, from, to);
    return bl_substitute(ir, root, &map);
}

static const bl_node *successor(const bl_ptrmap *made, const bl_node *node)
{
    const bl_node *to = bl_ptrmap_get(made, node);
    return to == NULL ? node : to;
}

void bl_rewrite_tracked(bl_ir *ir, int nroots, const bl_node **roots, int ntracked, const bl_node **tracked, bl_rewriter *become,
                        void *arg)
{
    bl_nodes below = bl_reach(ir, nroots, roots, false);
    const bl_node **src = NULL;
    uint32_t most = 0;
    bl_ptrmap made;

    for (size_t i = 0; i < below.count; i++)
        most = below.at[i]->nsrc > most ? below.at[i]->nsrc : most;
    src = bl_arena_array(ir->arena, (size_t)most + 1, sizeof *src);
    if (src == NULL)
        return;
    bl_ptrmap_init(&made, ir->arena);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i], *to = NULL;
        for (uint32_t k = 0; k < node->nsrc; k++)
            src[k] =
                node->src[k]->op == BL_OP_RANGE && bl_binds(node, node->src[k]) ? node->src[k] : successor(&made, node->src[k]);
        to = become(arg, node, src);
        if (to != node)
            bl_ptrmap_put(&made, node, to);
    }
    for (int i = 0; i < nroots; i++)
        roots[i] = successor(&made, roots[i]);
    for (int i = 0; i < ntracked; i++)
        tracked[i] = successor(&made, tracked[i]);
}

const bl_node *bl_rewrite(bl_ir *ir, const bl_node *root, bl_rewriter *become, void *arg)
{
    bl_rewrite_tracked(ir, 1, &root, 0, NULL, become, arg);
    return root;
}

enum {
    MAX_STEPS = 64, /* rules applied in succession to one node */
    MAX_PASSES = 16
};

static const bl_node *simplify_node(bl_ir *ir, const bl_node *node)
{
    if (bl_op_get_class((bl_op)node->op) != BL_CLASS_ALU)
        return remake(ir, node, false);
    node = remake(ir, node, true);
    for (int step = 0; step < MAX_STEPS && bl_op_get_class((bl_op)node->op) == BL_CLASS_ALU; step++) {
        const bl_node *next = node->ndim == 0 ? bl_scalar_simplify(ir, node) : bl_rules_apply(ir, &ir->algebra, node);
        if (next == NULL || next == node)
            break;
        node = next;
    }
    return node;
}

void bl_simplify(bl_ir *ir, int nroots, const bl_node **roots)
{
    bl_simplify_tracked(ir, nroots, roots, 0, NULL);
}

void bl_simplify_tracked(bl_ir *ir, int nroots, const bl_node **roots, int ntracked, const bl_node **tracked)
{
    bool changed = true;

    for (int pass = 0; changed && pass < MAX_PASSES; pass++) {
        size_t count = reach(ir, nroots, roots, true, NULL);

        for (size_t i = 0; i < count; i++) {
            const bl_node *node = ir->queue[i];
            const bl_node *made = simplify_node(ir, node);
            if (bl_is_poison(made))
                return; /* out of memory: the roots stay unchanged, and the ir has the error */
            ir->value[node->id] = made;
        }
        for (int i = 0; i < ntracked; i++)
            if (ir->mark[tracked[i]->id] == ir->epoch)
                tracked[i] = ir->value[tracked[i]->id];
        changed = false;
        for (int i = 0; i < nroots; i++) {
            const bl_node *made = ir->value[roots[i]->id];
            changed = changed || made != roots[i];
            roots[i] = made;
        }
    }
}
