/* SPDX-License-Identifier: MIT */
#include "proto/onnx/trees.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct builder {
    bl_onnx_call *c;
    const bl_trees *trees;
    bool wide;
    bl_tree_walk *walk;
    int32_t *place;   /* entry of each node, or -1 */
    int32_t *waiting; /* queue of nodes whose children have no entry yet: from |head| to |tail| */
    int64_t head, tail;
} builder;

/* ---- sets */

static int trees_compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Replaces node |at| by a binary search among the sorted members, with the children of |set|. */
static void write_search(bl_trees *trees, int32_t at, const bl_tree_node *set, const double *member, int32_t n)
{
    bl_tree_node *node = &trees->node[at];

    *node = *set;
    node->mode = n < 2 ? BL_TREE_EQ : BL_TREE_LEQ;
    node->value = n == 0 ? (double)NAN : n == 1 ? member[0] : member[n / 2 - 1];
    if (n < 2)
        return;
    node->yes = (int32_t)trees->nnodes++;
    node->no = (int32_t)trees->nnodes++;
    write_search(trees, node->yes, set, member, n / 2);
    write_search(trees, node->no, set, member + n / 2, n - n / 2);
}

static bool write_sets(bl_onnx_call *c, bl_trees *trees)
{
    int64_t count = trees->nnodes;

    for (int64_t i = 0; i < count; i++) {
        bl_tree_node set = trees->node[i];
        int32_t n = 0;
        if (set.leaf >= 0 || set.mode != BL_TREE_MEMBER)
            continue;
        double *sorted = bl_arena_array(c->import->scratch, (size_t)set.nmember + 1, sizeof *sorted);
        if (sorted == NULL)
            return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for the members of node %lld", (long long)i) != NULL;
        memcpy(sorted, trees->member + set.member, (size_t)set.nmember * sizeof *sorted);
        qsort(sorted, (size_t)set.nmember, sizeof *sorted, trees_compare_numbers);
        for (int32_t k = 0; k < set.nmember; k++) {
            if (n == 0 || sorted[k] != sorted[n - 1])
                sorted[n++] = sorted[k];
        }
        write_search(trees, (int32_t)i, &set, sorted, n);
    }
    return true;
}

/* ---- tests of nodes as intervals */

typedef struct test {
    int32_t yes, no;
    double least, most;
    bool missing_is_yes;
} test;

/* The largest number below |x|. */
static double number_below(const builder *b, double x)
{
    return b->wide ? nextafter(x, -INFINITY) : (double)nextafterf((float)x, -INFINITY);
}

/* x > v is the opposite of x <= v, and x >= v is the opposite of x < v, so the successors are exchanged.  NaN fails each
 * comparison but x != v. */
static test make_test(const builder *b, const bl_tree_node *node)
{
    bool strict = node->mode == BL_TREE_LT || node->mode == BL_TREE_GTE;
    bool opposite = node->mode == BL_TREE_GT || node->mode == BL_TREE_GTE || node->mode == BL_TREE_NEQ;
    test t = {node->yes, node->no, -INFINITY, node->value, node->missing_is_yes};

    if (isnan(node->value) && node->mode != BL_TREE_NEQ)
        return t; /* never true */
    if (strict && node->value == -INFINITY)
        t.least = INFINITY; /* no number is below v */
    else if (strict)
        t.most = number_below(b, node->value);
    if (node->mode == BL_TREE_EQ || node->mode == BL_TREE_NEQ)
        t.least = node->value;
    if (opposite)
        t = (test){t.no, t.yes, t.least, t.most, node->mode != BL_TREE_NEQ && !t.missing_is_yes};
    return t;
}

/* ---- entries: the children of a node are adjacent */

/* Fills entry |at| with node |which|: a leaf, a test, or, if the test already has an entry, a jump to it. */
static void trees_write_place(builder *b, int32_t at, int32_t which)
{
    bl_tree_walk *w = b->walk;
    const bl_tree_node *node = &b->trees->node[which];

    w->code[at] = 1;
    w->most[at] = INFINITY;
    w->least[at] = -INFINITY;
    w->child[at] = at;
    if (node->leaf >= 0) {
        w->leaf[at] = node->leaf;
    } else if (b->place[which] >= 0) {
        w->child[at] = b->place[which];
    } else {
        test t = make_test(b, node);
        b->place[which] = at;
        w->code[at] = 2 * node->feature + t.missing_is_yes;
        w->most[at] = t.most;
        w->least[at] = t.least;
        w->bounded |= t.least != -INFINITY;
        b->waiting[b->tail++] = which;
    }
}

/* Writes the trees one after the other, each level by level from its root. */
static void write_places(builder *b)
{
    bl_tree_walk *w = b->walk;

    for (int64_t i = 0; i < w->ntrees; i++) {
        w->root[i] = (int32_t)w->nplaces;
        trees_write_place(b, (int32_t)w->nplaces++, b->trees->root[i]);
        while (b->head < b->tail) {
            const bl_tree_node *node = &b->trees->node[b->waiting[b->head]];
            int32_t at = b->place[b->waiting[b->head++]];
            test t = make_test(b, node);
            w->child[at] = (int32_t)w->nplaces;
            w->nplaces += 2;
            trees_write_place(b, w->child[at], t.yes);
            trees_write_place(b, w->child[at] + 1, t.no);
        }
    }
}

/* ---- depth */

/* The number of successors of entry |at|: 0 for a leaf, 1 for a jump. */
static int trees_count_steps(const bl_tree_walk *w, int32_t at)
{
    bool always = w->code[at] == 1 && w->most[at] == INFINITY && w->least[at] == -INFINITY;

    return w->child[at] == at ? 0 : always ? 1 : 2;
}

/* Computes the steps from each entry to its farthest leaf, + 1, depth first; -1 marks entries on the current path. */
static bool measure_tree(const builder *b, int32_t root, int32_t *depth, int32_t *stack)
{
    const bl_tree_walk *w = b->walk;
    int64_t n = 0;

    if (depth[root] == 0)
        stack[n++] = root;
    while (n > 0) {
        int32_t at = stack[n - 1], next = -1, below = 0;
        for (int i = 0; i < trees_count_steps(w, at); i++) {
            int32_t child = w->child[at] + i;
            if (depth[child] < 0)
                return bl_onnx_fail(b->c, "its nodes are not trees: they have a cycle") != NULL;
            next = depth[child] == 0 ? child : next;
            below = depth[child] > below ? depth[child] : below;
        }
        depth[at] = next >= 0 ? -1 : below + 1;
        if (next >= 0)
            stack[n++] = next;
        else
            n--;
    }
    return true;
}

static bool measure_depth(const builder *b)
{
    bl_tree_walk *w = b->walk;
    int32_t *depth = bl_arena_array(b->c->import->scratch, (size_t)w->nplaces, sizeof *depth);
    int32_t *stack = bl_arena_array(b->c->import->scratch, (size_t)w->nplaces, sizeof *stack);

    if (depth == NULL || stack == NULL)
        return bl_onnx_fail_as(b->c, BL_ENOMEM, "out of host memory for %lld nodes of trees", (long long)w->nplaces) != NULL;
    for (int64_t i = 0; i < w->ntrees; i++) {
        if (!measure_tree(b, w->root[i], depth, stack))
            return false;
        if (depth[w->root[i]] - 1 > w->depth)
            w->depth = depth[w->root[i]] - 1;
    }
    if (w->depth > BL_TREE_MAX_DEPTH)
        return bl_onnx_fail_as(b->c, BL_ELIMIT, "a tree is %d nodes deep; the limit is %d", w->depth, BL_TREE_MAX_DEPTH) != NULL;
    return true;
}

/* ---- the walk of an ensemble */

static bool check_trees(bl_onnx_call *c, const bl_trees *trees)
{
    int64_t most = trees->nnodes;

    if (trees->nroots < 1)
        return bl_onnx_fail(c, "it has no trees") != NULL;
    for (int64_t i = 0; i < trees->nnodes; i++) {
        const bl_tree_node *node = &trees->node[i];
        if (node->leaf >= 0)
            continue;
        if (node->yes < 0 || node->yes >= most || node->no < 0 || node->no >= most)
            return bl_onnx_fail(c, "node %lld of the trees has a child that does not exist", (long long)i) != NULL;
        if (node->feature < 0 || node->feature >= BL_TREE_MAX_FEATURE)
            return bl_onnx_fail(c, "node %lld of the trees tests feature %d", (long long)i, node->feature) != NULL;
    }
    for (int64_t i = 0; i < trees->nroots; i++) {
        if (trees->root[i] < 0 || trees->root[i] >= most)
            return bl_onnx_fail(c, "tree %lld begins at node %d, but there are %lld", (long long)i, trees->root[i],
                                (long long)most) != NULL;
    }
    return true;
}

bool bl_tree_walk_make(bl_onnx_call *c, bl_trees *trees, bool wide, bl_tree_walk *out)
{
    bl_arena *arena = c->import->scratch;
    builder b = {.c = c, .trees = trees, .wide = wide, .walk = out};

    *out = (bl_tree_walk){.ntrees = trees->nroots};
    if (!check_trees(c, trees) || !write_sets(c, trees))
        return false;
    size_t nodes = (size_t)trees->nnodes, most = (size_t)trees->nroots + 2 * nodes;
    out->root = bl_arena_array(arena, (size_t)trees->nroots, sizeof *out->root);
    out->code = bl_arena_array(arena, most, sizeof *out->code);
    out->child = bl_arena_array(arena, most, sizeof *out->child);
    out->leaf = bl_arena_array(arena, most, sizeof *out->leaf);
    out->most = bl_arena_array(arena, most, sizeof *out->most);
    out->least = bl_arena_array(arena, most, sizeof *out->least);
    b.place = bl_arena_array(arena, nodes, sizeof *b.place);
    b.waiting = bl_arena_array(arena, nodes, sizeof *b.waiting);
    if (out->root == NULL || out->code == NULL || out->child == NULL || out->leaf == NULL || out->most == NULL ||
        out->least == NULL || b.place == NULL || b.waiting == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %zu nodes of trees", nodes) != NULL;
    memset(b.place, -1, nodes * sizeof *b.place);
    write_places(&b);
    return measure_depth(&b);
}
