/* SPDX-License-Identifier: MIT */
/* TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble. */
#include "engine/base/map.h"
#include "proto/onnx/ml.h"
#include "proto/onnx/trees.h"

#include <math.h>
#include <string.h>

typedef enum aggregate { AVERAGE, SUM, MIN, MAX, AGGREGATES } aggregate;

/* The weights of the leaves: leaf i has the weights first[i] to first[i + 1] - 1. */
typedef struct weights {
    int64_t nleaves, count, ntargets;
    int64_t *first;
    int32_t *target;
    double *weight;
} weights;

typedef struct ensemble {
    bl_onnx_call *c;
    bl_trees trees;
    weights weights;
    bl_tree_walk walk;
    bl_onnx_value *x; /* [rows, features] */
    bl_dtype dtype;   /* of x and of the sums */
    aggregate how;
} ensemble;

static const char *const modes[BL_TREE_MODES] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",   "BRANCH_GT",
                                                 "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER"};

static bool lacks(bl_onnx_call *c, const char *name, int64_t has, int64_t wants)
{
    return bl_onnx_fail(c, "attribute \"%s\" has %lld items; it must have %lld", name, (long long)has, (long long)wants) != NULL;
}

/* The integers of a list of |count|; NULL after a failure, or if it is omitted and |optional|. */
static const int64_t *ops_ml_trees_list_of(bl_onnx_call *c, const char *name, int64_t count, bool optional)
{
    const Onnx__AttributeProto *a = bl_ml_ints(c, name);

    if (a == NULL && optional)
        return NULL;
    if (a == NULL || (int64_t)a->n_ints != count) {
        lacks(c, name, a != NULL ? (int64_t)a->n_ints : 0, count);
        return NULL;
    }
    return a->ints;
}

static const double *numbers_of(bl_onnx_call *c, const char *name, int64_t count)
{
    const double *out = NULL;
    int64_t n = bl_ml_numbers(c, name, &out);

    if (n >= 0 && n != count)
        lacks(c, name, n, count);
    return n == count ? out : NULL;
}

static int32_t ops_ml_trees_narrow(int64_t value)
{
    return value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

/* ---- nodes by tree and number */

typedef struct finder {
    const int64_t *tree, *node;
    size_t cap;    /* a power of two */
    int32_t *slot; /* number + 1; 0: free */
} finder;

static int32_t *ops_ml_trees_find_slot(const finder *f, int64_t tree, int64_t node)
{
    size_t at = (size_t)bl_hash_add(bl_hash_mix((uint64_t)tree), (uint64_t)node) & (f->cap - 1);

    while (f->slot[at] != 0 && (f->tree[f->slot[at] - 1] != tree || f->node[f->slot[at] - 1] != node))
        at = (at + 1) & (f->cap - 1);
    return &f->slot[at];
}

static bool make_finder(ensemble *e, int64_t count, finder *f)
{
    bl_onnx_call *c = e->c;

    f->tree = ops_ml_trees_list_of(c, "nodes_treeids", count, false);
    f->node = ops_ml_trees_list_of(c, "nodes_nodeids", count, false);
    if (f->tree == NULL || f->node == NULL)
        return false;
    for (f->cap = 16; f->cap < 2 * (size_t)count; f->cap *= 2) {
    }
    f->slot = bl_arena_array(c->import->scratch, f->cap, sizeof *f->slot);
    if (f->slot == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld nodes of trees", (long long)count) != NULL;
    for (int64_t i = 0; i < count; i++) {
        int32_t *slot = ops_ml_trees_find_slot(f, f->tree[i], f->node[i]);
        if (*slot != 0)
            return bl_onnx_fail(c, "tree %lld has node %lld twice", (long long)f->tree[i], (long long)f->node[i]) != NULL;
        *slot = (int32_t)i + 1;
    }
    return true;
}

static bool read_mode(ensemble *e, const ProtobufCBinaryData *text, bl_tree_node *node)
{
    static const char leaf[] = "LEAF";

    node->leaf = -1;
    if (text->len == sizeof leaf - 1 && memcmp(text->data, leaf, text->len) == 0) {
        node->leaf = (int32_t)e->weights.nleaves++;
        return true;
    }
    for (int i = 0; i < BL_TREE_MEMBER; i++) {
        if (text->len == strlen(modes[i]) && memcmp(text->data, modes[i], text->len) == 0) {
            node->mode = (uint8_t)i;
            return true;
        }
    }
    const char *shown = bl_arena_strndup(e->c->import->scratch, text->len > 0 ? (const char *)text->data : "", text->len);
    return bl_onnx_fail(e->c, "nodes_modes has \"%.40s\"", shown != NULL ? bl_onnx_clean(e->c->import, shown) : "") != NULL;
}

/* The first node of each tree is its root. */
static bool find_roots(ensemble *e, const finder *f)
{
    bl_arena *arena = e->c->import->scratch;
    bl_trees *t = &e->trees;
    int32_t *root = bl_arena_array(arena, (size_t)t->nnodes + 1, sizeof *root);
    int32_t *slot = bl_arena_array(arena, f->cap, sizeof *slot); /* hash table of trees: root + 1 */

    if (slot == NULL || root == NULL)
        return bl_onnx_fail_as(e->c, BL_ENOMEM, "out of host memory for %lld nodes of trees", (long long)t->nnodes) != NULL;
    for (int64_t i = 0; i < t->nnodes; i++) {
        size_t at = (size_t)bl_hash_mix((uint64_t)f->tree[i]) & (f->cap - 1);
        if (i > 0 && f->tree[i] == f->tree[i - 1])
            continue;
        while (slot[at] != 0 && f->tree[slot[at] - 1] != f->tree[i])
            at = (at + 1) & (f->cap - 1);
        if (slot[at] == 0)
            root[t->nroots++] = (int32_t)i;
        slot[at] = slot[at] == 0 ? (int32_t)i + 1 : slot[at];
    }
    t->root = root;
    return true;
}

/* Reads the nodes of opsets 1 and 3. */
static bool read_nodes(ensemble *e, finder *f)
{
    bl_onnx_call *c = e->c;
    const Onnx__AttributeProto *mode = bl_ml_strings(c, "nodes_modes");
    int64_t n = mode != NULL ? (int64_t)mode->n_strings : 0;
    const int64_t *feature = ops_ml_trees_list_of(c, "nodes_featureids", n, false),
                  *yes = ops_ml_trees_list_of(c, "nodes_truenodeids", n, false);
    const int64_t *no = ops_ml_trees_list_of(c, "nodes_falsenodeids", n, false);
    const int64_t *missing = ops_ml_trees_list_of(c, "nodes_missing_value_tracks_true", n, true);
    const double *value = numbers_of(c, "nodes_values", n);

    if (n > BL_TREE_MAX_NODES)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%lld nodes of trees; the limit is %d", (long long)n, BL_TREE_MAX_NODES) != NULL;
    if (c->import->failed || feature == NULL || yes == NULL || no == NULL || value == NULL || !make_finder(e, n, f))
        return false;
    e->trees.node = bl_arena_array(c->import->scratch, (size_t)n + 1, sizeof *e->trees.node);
    if (e->trees.node == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld nodes of trees", (long long)n) != NULL;
    for (int64_t i = 0; i < n; i++) {
        bl_tree_node *node = &e->trees.node[i];
        *node = (bl_tree_node){
            .value = value[i], .feature = ops_ml_trees_narrow(feature[i]), .missing_is_yes = missing != NULL && missing[i] != 0};
        if (!read_mode(e, &mode->strings[i], node))
            return false;
        if (node->leaf < 0) {
            node->yes = *ops_ml_trees_find_slot(f, f->tree[i], yes[i]) - 1;
            node->no = *ops_ml_trees_find_slot(f, f->tree[i], no[i]) - 1;
        }
    }
    e->trees.nnodes = n;
    return find_roots(e, f);
}

/* ---- weights of the leaves */

/* Sorts the weights by leaf.  |leaf| is the leaf of each weight; a weight with leaf -1 belongs to no leaf and is ignored. */
static bool sort_weights(ensemble *e, int64_t count, const int32_t *leaf, const int64_t *target, const double *weight)
{
    bl_arena *arena = e->c->import->scratch;
    weights *w = &e->weights;
    int64_t *next = bl_arena_array(arena, (size_t)w->nleaves + 1, sizeof *next);

    w->first = bl_arena_array(arena, (size_t)w->nleaves + 2, sizeof *w->first);
    w->target = bl_arena_array(arena, (size_t)count + 1, sizeof *w->target);
    w->weight = bl_arena_array(arena, (size_t)count + 1, sizeof *w->weight);
    if (next == NULL || w->first == NULL || w->target == NULL || w->weight == NULL)
        return bl_onnx_fail_as(e->c, BL_ENOMEM, "out of host memory for %lld weights", (long long)count) != NULL;
    for (int64_t i = 0; i < count; i++) {
        if (target[i] < 0 || target[i] >= w->ntargets)
            return bl_onnx_fail(e->c, "a leaf has a weight for %lld, but there are %lld classes or targets", (long long)target[i],
                                (long long)w->ntargets) != NULL;
        w->first[leaf[i] >= 0 ? leaf[i] + 1 : 0]++;
    }
    w->first[0] = 0;
    for (int64_t i = 0; i < w->nleaves; i++) {
        w->first[i + 1] += w->first[i];
        next[i] = w->first[i];
    }
    for (int64_t i = 0; i < count; i++) {
        if (leaf[i] < 0)
            continue;
        w->target[next[leaf[i]]] = (int32_t)target[i];
        w->weight[next[leaf[i]]++] = weight[i];
        w->count++;
    }
    return true;
}

/* Reads the weights of opsets 1 and 3: |what| is "class" or "target". */
static bool read_weights(ensemble *e, const finder *f, const char *what)
{
    bl_onnx_call *c = e->c;
    bl_arena *arena = c->import->scratch;
    const char *trees = bl_arena_printf(arena, "%s_treeids", what), *nodes = bl_arena_printf(arena, "%s_nodeids", what);
    const char *ids = bl_arena_printf(arena, "%s_ids", what), *weight_name = bl_arena_printf(arena, "%s_weights", what);
    const Onnx__AttributeProto *id = ids != NULL ? bl_ml_ints(c, ids) : NULL;
    int64_t n = id != NULL ? (int64_t)id->n_ints : 0;
    int32_t *leaf = bl_arena_array(arena, (size_t)n + 1, sizeof *leaf);

    if (trees == NULL || nodes == NULL || weight_name == NULL || leaf == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld weights", (long long)n) != NULL;
    const int64_t *tree = ops_ml_trees_list_of(c, trees, n, false), *node = ops_ml_trees_list_of(c, nodes, n, false);
    const double *weight = numbers_of(c, weight_name, n);
    if (id == NULL || tree == NULL || node == NULL || weight == NULL)
        return !c->import->failed && bl_onnx_fail(c, "attribute \"%s\" is missing", ids);
    for (int64_t i = 0; i < n; i++) {
        int32_t at = *ops_ml_trees_find_slot(f, tree[i], node[i]) - 1;
        if (at < 0)
            return bl_onnx_fail(c, "a weight is for node %lld of tree %lld, which does not exist", (long long)node[i],
                                (long long)tree[i]) != NULL;
        leaf[i] = e->trees.node[at].leaf;
    }
    return sort_weights(e, n, leaf, id->ints, weight);
}

/* ---- TreeEnsemble: nodes and leaves by their numbers */

/* The members of all sets are concatenated, with NaN between the sets. */
static bool read_sets(ensemble *e, int64_t n, const double *mode)
{
    bl_trees *t = &e->trees;
    const double *member = NULL;
    int64_t count = bl_ml_numbers(e->c, "membership_values", &member), at = 0;

    if (count < 0 || count > BL_TREE_MAX_NODES)
        return bl_onnx_fail_as(e->c, BL_ELIMIT, "membership_values has more than %d items", BL_TREE_MAX_NODES) != NULL;
    t->member = member;
    for (int64_t i = 0; i < n; i++) {
        if (mode[i] != BL_TREE_MEMBER)
            continue;
        if (at >= count)
            return bl_onnx_fail(e->c, "membership_values has no set for node %lld", (long long)i) != NULL;
        t->node[i].member = (int32_t)at;
        while (at < count && !isnan(member[at]))
            at++;
        t->node[i].nmember = (int32_t)(at - t->node[i].member);
        at++;
        t->cap += 2 * (int64_t)t->node[i].nmember;
    }
    return true;
}

/* The number of a child: a node, or a leaf after the nodes. */
static int32_t child_of(int64_t n, int64_t nleaves, int64_t child, int64_t is_leaf)
{
    int64_t most = is_leaf != 0 ? nleaves : n;

    return child < 0 || child >= most ? -1 : (int32_t)(is_leaf != 0 ? n + child : child);
}

static bool read_tree_ensemble(ensemble *e)
{
    bl_onnx_call *c = e->c;
    bl_trees *t = &e->trees;
    const Onnx__AttributeProto *roots = bl_ml_ints(c, "tree_roots"), *target = bl_ml_ints(c, "leaf_targetids");
    const double *mode = NULL, *weight;
    int64_t n = bl_ml_numbers(c, "nodes_modes", &mode), nleaves = target != NULL ? (int64_t)target->n_ints : 0;
    const int64_t *feature = ops_ml_trees_list_of(c, "nodes_featureids", n, false),
                  *yes = ops_ml_trees_list_of(c, "nodes_truenodeids", n, false);
    const int64_t *no = ops_ml_trees_list_of(c, "nodes_falsenodeids", n, false),
                  *yes_leaf = ops_ml_trees_list_of(c, "nodes_trueleafs", n, false);
    const int64_t *no_leaf = ops_ml_trees_list_of(c, "nodes_falseleafs", n, false);
    const int64_t *missing = ops_ml_trees_list_of(c, "nodes_missing_value_tracks_true", n, true);
    const double *value = numbers_of(c, "nodes_splits", n);

    weight = numbers_of(c, "leaf_weights", nleaves);
    if (c->import->failed || roots == NULL || target == NULL || n + nleaves > BL_TREE_MAX_NODES)
        return bl_onnx_fail(c, "needs tree_roots and leaf_targetids, and at most %d nodes", BL_TREE_MAX_NODES) != NULL;
    t->cap = t->nnodes = n + nleaves;
    e->weights.nleaves = nleaves;
    int32_t *root = bl_arena_array(c->import->scratch, roots->n_ints + 1, sizeof *root);
    int32_t *leaf = bl_arena_array(c->import->scratch, (size_t)nleaves + 1, sizeof *leaf);
    bl_tree_node *first = bl_arena_array(c->import->scratch, (size_t)n + 1, sizeof *first);
    t->node = first;
    if (root == NULL || leaf == NULL || first == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld nodes of trees", (long long)n) != NULL;
    if (!read_sets(e, n, mode))
        return false;
    t->node = bl_arena_array(c->import->scratch, (size_t)t->cap + 1, sizeof *t->node);
    if (t->node == NULL || t->cap > BL_TREE_MAX_NODES)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%lld nodes of trees; the limit is %d", (long long)t->cap, BL_TREE_MAX_NODES) !=
               NULL;
    for (int64_t i = 0; i < n; i++) {
        if (!(mode[i] >= 0 && mode[i] < BL_TREE_MODES))
            return bl_onnx_fail(c, "nodes_modes has %g; it must be below %d", mode[i], BL_TREE_MODES) != NULL;
        t->node[i] = first[i];
        t->node[i].value = value[i];
        t->node[i].leaf = -1;
        t->node[i].feature = ops_ml_trees_narrow(feature[i]);
        t->node[i].yes = child_of(n, nleaves, yes[i], yes_leaf[i]);
        t->node[i].no = child_of(n, nleaves, no[i], no_leaf[i]);
        t->node[i].mode = (uint8_t)mode[i];
        t->node[i].missing_is_yes = missing != NULL && missing[i] != 0;
    }
    for (int64_t i = 0; i < nleaves; i++)
        t->node[n + i] = (bl_tree_node){.leaf = leaf[i] = (int32_t)i};
    for (size_t i = 0; i < roots->n_ints; i++)
        root[i] = ops_ml_trees_narrow(roots->ints[i]);
    t->root = root;
    t->nroots = (int64_t)roots->n_ints;
    return sort_weights(e, nleaves, leaf, target->ints, weight);
}

/* ---- the walk from the roots to the leaves */

/* The entry of each tree and row, [trees, rows], after |depth| steps. */
static bl_onnx_value *walk_down(ensemble *e)
{
    bl_onnx_call *c = e->c, inner = *c;
    const bl_tree_walk *w = &e->walk;
    bl_ir *ir = c->import->ir;
    const bl_node *shape[2] = {bl_index(ir, w->ntrees), e->x->type->dim[0]};
    bl_onnx_value *code = bl_ml_store_ints(c, "features", w->nplaces, w->code), *most, *least, *test, *nan;
    bl_onnx_value *child = bl_ml_store_ints(c, "children", w->nplaces, w->child), *row, *at, *to;

    most = bl_ml_store_numbers(c, "most", e->dtype, 1, &w->nplaces, w->most);
    least = w->bounded ? bl_ml_store_numbers(c, "least", e->dtype, 1, &w->nplaces, w->least) : NULL;
    row = bl_onnx_make(c, "arange(stop=$0)", ARGS(ZS(-1, &shape[1])));
    at = bl_onnx_make(c, "expand(unsqueeze($0, axis=1), shape=$1)",
                      ARGS(V(bl_ml_store_ints(c, "roots", w->ntrees, w->root)), ZS(2, shape)));
    if (w->depth == 0)
        return at;
    inner.graph = bl_onnx_open_graph(c->import, c->graph);
    if (inner.graph == NULL || c->import->failed)
        return NULL;
    to = bl_onnx_body_input(c->import, inner.graph, NULL, BL_I32, 2, shape);
    bl_onnx_value *own = bl_onnx_make(&inner, "take($0, $1, axis=0)", ARGS(V(code), V(to)));
    bl_onnx_value *x = bl_onnx_make(&inner, "index($0, $1, right_shift($2, 1))", ARGS(V(e->x), V(row), V(own)));
    test = bl_onnx_make(&inner, "less_equal($0, take($1, $2, axis=0))", ARGS(V(x), V(most), V(to)));
    if (least != NULL)
        test = bl_onnx_make(&inner, "logical_and($0, greater_equal($1, take($2, $3, axis=0)))",
                            ARGS(V(test), V(x), V(least), V(to)));
    nan = bl_onnx_make(&inner, "logical_and(isnan($0), bitwise_and($1, 1))", ARGS(V(x), V(own)));
    to = bl_onnx_make(&inner, "add(take($0, $1, axis=0), cast(logical_not(logical_or($2, $3)), dtype=int32))",
                      ARGS(V(child), V(to), V(test), V(nan)));
    bl_onnx_body_outputs(c->import, inner.graph, 1, &to);
    if (c->import->failed)
        return NULL;
    return bl_onnx_make(c, "scan($0, $1..., body=$2, carries=1, length=$3)",
                        ARGS(V(at), VS(inner.graph->ncaptured, inner.graph->captured), G(&inner.graph->wire), I(w->depth)));
}

/* The single target of each tree, if every tree has weights for one target only and one weight at each leaf; else NULL. */
static int32_t *target_of_trees(const ensemble *e)
{
    const bl_tree_walk *w = &e->walk;
    const weights *own = &e->weights;
    int32_t *target = bl_arena_array(e->c->import->scratch, (size_t)w->ntrees, sizeof *target);

    for (int64_t t = 0; target != NULL && t < w->ntrees; t++) {
        int64_t end = t + 1 < w->ntrees ? w->root[t + 1] : w->nplaces;
        target[t] = -1;
        for (int64_t at = w->root[t]; at < end; at++) {
            int64_t first = own->first[w->leaf[at]];
            if (w->child[at] < w->root[t])
                return NULL; /* the walk jumps to an entry of another tree */
            if (w->child[at] != at)
                continue;
            if (own->first[w->leaf[at] + 1] != first + 1 || (target[t] >= 0 && target[t] != own->target[first]) ||
                !isfinite(own->weight[first]))
                return NULL;
            target[t] = own->target[first];
        }
    }
    return target;
}

/* For trees with one target each: gathers a number for each entry and sums over the trees of a target. */
static bl_onnx_value *sum_of_trees(ensemble *e, bl_onnx_value *at, const int32_t *target)
{
    bl_onnx_call *c = e->c;
    const bl_tree_walk *w = &e->walk;
    int64_t shape[2] = {e->weights.ntargets, w->ntrees};
    double *number = bl_arena_array(c->import->scratch, (size_t)w->nplaces, sizeof *number);
    double *is = bl_arena_array(c->import->scratch, (size_t)(shape[0] * shape[1]), sizeof *is);

    if (number == NULL || is == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for weights");
    for (int64_t i = 0; i < w->nplaces; i++)
        number[i] = w->child[i] == i ? e->weights.weight[e->weights.first[w->leaf[i]]] : 0;
    for (int64_t t = 0; t < w->ntrees; t++)
        is[target[t] * w->ntrees + t] = 1;
    at = bl_onnx_make(c, "take($0, $1, axis=0)",
                      ARGS(V(bl_ml_store_numbers(c, "weights", e->dtype, 1, &w->nplaces, number)), V(at)));
    if (shape[0] == 1)
        return bl_onnx_make(c, "unsqueeze(sum($0, axis=0), axis=1)", ARGS(V(at)));
    return bl_onnx_make(c, "transpose(matmul($0, $1))",
                        ARGS(V(bl_ml_store_numbers(c, "targets", e->dtype, 2, shape, is)), V(at)));
}

/* For leaves with several weights: gathers rows of a table, with |none| for targets without a weight. */
static bl_onnx_value *fold_rows(ensemble *e, bl_onnx_value *at)
{
    bl_onnx_call *c = e->c;
    const weights *w = &e->weights;
    int64_t shape[2] = {w->nleaves, w->ntargets};
    double none = e->how == MIN ? INFINITY : e->how == MAX ? -INFINITY : 0;
    double *table = bl_arena_array(c->import->scratch, (size_t)(shape[0] * shape[1]), sizeof *table);
    const char *fold = e->how == MIN   ? "min(take($0, take($1, $2, axis=0), axis=0), axis=0)"
                       : e->how == MAX ? "max(take($0, take($1, $2, axis=0), axis=0), axis=0)"
                                       : "sum(take($0, take($1, $2, axis=0), axis=0), axis=0)";

    if (table == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld rows of %lld weights", (long long)shape[0],
                               (long long)shape[1]);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        table[i] = none;
    for (int64_t i = 0; i < w->nleaves; i++) {
        for (int64_t k = w->first[i]; k < w->first[i + 1]; k++) {
            double *to = &table[i * w->ntargets + w->target[k]];
            *to = e->how == MIN ? fmin(*to, w->weight[k]) : e->how == MAX ? fmax(*to, w->weight[k]) : *to + w->weight[k];
        }
    }
    at = bl_onnx_make(c, fold,
                      ARGS(V(bl_ml_store_numbers(c, "weights", e->dtype, 2, shape, table)),
                           V(bl_ml_store_ints(c, "leaves", e->walk.nplaces, e->walk.leaf)), V(at)));
    return none == 0 ? at : bl_onnx_make(c, "where(equal($0, $1), 0, $0)", ARGS(V(at), R(none)));
}

/* [rows, targets]: the sums, or the aggregate |how|, without base values. */
static bl_onnx_value *ops_ml_trees_evaluate(ensemble *e)
{
    bl_onnx_call *c = e->c;
    bl_onnx_value *at, *y;
    const bl_node *features;

    if (e->weights.ntargets < 1 || e->weights.ntargets > BL_ONNX_MAX_KNOWN)
        return bl_onnx_fail(c, "it has %lld classes or targets; it must have 1 to %d", (long long)e->weights.ntargets,
                            BL_ONNX_MAX_KNOWN);
    if (e->x == NULL || c->import->failed || !bl_tree_walk_make(c, &e->trees, e->dtype == BL_F64, &e->walk))
        return NULL;
    features = e->x->type->dim[1];
    for (int64_t i = 0; i < e->walk.nplaces && bl_is_const(features); i++) {
        if (e->walk.code[i] / 2 >= features->hi)
            return bl_onnx_fail(c, "a node tests feature %d, but rows have %lld", e->walk.code[i] / 2, (long long)features->hi);
    }
    at = walk_down(e);
    const int32_t *target = e->how == AVERAGE || e->how == SUM ? target_of_trees(e) : NULL;
    y = target != NULL ? sum_of_trees(e, at, target) : fold_rows(e, at);
    return e->how == AVERAGE ? bl_onnx_make(c, "div($0, $1)", ARGS(V(y), I(e->walk.ntrees))) : y;
}

static bl_onnx_value *add_base(ensemble *e, bl_onnx_value *y, int64_t count, const double *base)
{
    return count == 0
               ? y
               : bl_onnx_make(e->c, "add($0, $1)", ARGS(V(y), V(bl_ml_store_numbers(e->c, "base", e->dtype, 1, &count, base))));
}

/* ---- the operators */

static bool ops_ml_trees_begin(ensemble *e, bl_onnx_call *c)
{
    *e = (ensemble){.c = c, .x = bl_ml_rows(c), .how = SUM};
    e->dtype = bl_onnx_type(e->x);
    return !c->import->failed;
}

static bool read_ensemble(ensemble *e, const char *what)
{
    finder f = {0};

    return read_nodes(e, &f) && read_weights(e, &f, what);
}

bl_onnx_value *bl_onnx_write_tree_ensemble_regressor(bl_onnx_call *c)
{
    static const char *const names[AGGREGATES] = {"AVERAGE", "SUM", "MIN", "MAX"};
    const char *how = bl_onnx_text(c, "aggregate_function", "SUM");
    const double *base = NULL;
    bl_onnx_value *y;
    ensemble e;

    if (!ops_ml_trees_begin(&e, c))
        return NULL;
    for (e.how = 0; e.how < AGGREGATES && strcmp(how, names[e.how]) != 0;)
        e.how++;
    if (e.how == AGGREGATES)
        return bl_onnx_fail(c, "aggregate_function is \"%.40s\"; it must be SUM, AVERAGE, MIN or MAX",
                            bl_onnx_clean(c->import, how));
    int64_t nbase = bl_ml_numbers(c, "base_values", &base);
    e.weights.ntargets = bl_onnx_int(c, "n_targets", 1);
    if (nbase > 1 && nbase != e.weights.ntargets)
        return bl_onnx_fail(c, "base_values has %lld items; it must have one or %lld", (long long)nbase,
                            (long long)e.weights.ntargets);
    if (!read_ensemble(&e, "target"))
        return NULL;
    y = add_base(&e, ops_ml_trees_evaluate(&e), nbase, base);
    return bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(bl_ml_transform(c, y, bl_onnx_text(c, "post_transform", "NONE")))));
}

bl_onnx_value *bl_onnx_write_tree_ensemble(bl_onnx_call *c)
{
    static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    int64_t how = bl_onnx_int(c, "aggregate_function", SUM), transform = bl_onnx_int(c, "post_transform", 0);
    bl_dtype dtype = bl_onnx_type(bl_onnx_in(c, 0));
    ensemble e;

    if (!ops_ml_trees_begin(&e, c))
        return NULL;
    if (how < 0 || how >= AGGREGATES || transform < 0 || transform > 4)
        return bl_onnx_fail(c, "aggregate_function is %lld, post_transform %lld; they must be 0 to 3, and 0 to 4", (long long)how,
                            (long long)transform);
    e.how = (aggregate)how;
    e.weights.ntargets = bl_onnx_int(c, "n_targets", 1);
    if (!read_tree_ensemble(&e))
        return NULL;
    return bl_onnx_make(c, "cast($0, dtype=$1)",
                        ARGS(V(bl_ml_transform(c, ops_ml_trees_evaluate(&e), transforms[transform])), D(dtype)));
}

/* Two classes, and all weights belong to one class: the sum of this class decides, above 0.5 if no weight is negative, else
 * above 0. */
static bl_onnx_value *write_binary(ensemble *e, const bl_ml_labels *labels, int32_t only, bl_onnx_value *score, bool positive)
{
    bl_onnx_call *c = e->c;
    const char *transform = bl_onnx_text(c, "post_transform", "NONE");
    bl_onnx_value *label =
        bl_onnx_make(c, "cast(greater(squeeze($0, axis=1), $1), dtype=int64)", ARGS(V(score), R(positive ? 0.5 : 0)));

    c->out[0] = labels->count == 1 ? label : bl_ml_label(c, labels, label);
    if (labels->count == 1)
        c->out[1] = bl_ml_transform(c, score, transform);
    else if (only == 0)
        c->out[1] = bl_ml_two_columns(c, score, !positive, transform);
    else
        c->out[1] = bl_ml_transform(c, bl_onnx_make(c, "cat(mul($0, 0), $0, axis=1)", ARGS(V(score))), transform);
    return c->out[0];
}

/* Among the classes with a weight, the class with the largest score. */
static bl_onnx_value *ops_ml_trees_write_classes(ensemble *e, const bl_ml_labels *labels, const bool *has, bl_onnx_value *scores)
{
    bl_onnx_call *c = e->c;
    int64_t n = e->weights.ntargets;
    double *out = bl_arena_array(c->import->scratch, (size_t)n, sizeof *out);
    bool all = true;

    for (int64_t i = 0; out != NULL && i < n; i++) {
        all = all && has[i];
        out[i] = has[i] ? 0 : -INFINITY;
    }
    bl_onnx_value *ranked =
        all ? scores : bl_onnx_make(c, "add($0, $1)", ARGS(V(scores), V(bl_ml_store_numbers(c, "unused", e->dtype, 1, &n, out))));
    c->out[0] = bl_ml_label(c, labels, bl_onnx_make(c, "argmax($0, axis=1)", ARGS(V(ranked))));
    c->out[1] = bl_ml_transform(c, scores, bl_onnx_text(c, "post_transform", "NONE"));
    return c->out[0];
}

bl_onnx_value *bl_onnx_write_tree_ensemble_classifier(bl_onnx_call *c)
{
    bl_ml_labels labels = bl_ml_read_labels(c);
    const double *base = NULL;
    int64_t nbase = bl_ml_numbers(c, "base_values", &base), used = 0;
    int32_t only = 0;
    bool positive = true;
    bl_onnx_value *scores;
    ensemble e;

    if (!ops_ml_trees_begin(&e, c))
        return NULL;
    e.weights.ntargets = labels.count;
    if (nbase > 1 && nbase != labels.count)
        return bl_onnx_fail(c, "base_values has %lld items; it must have one or %lld", (long long)nbase, (long long)labels.count);
    if (labels.count < 1)
        return bl_onnx_fail(c, "it has no class labels");
    if (!read_ensemble(&e, "class"))
        return NULL;
    bool *has = bl_arena_array(c->import->scratch, (size_t)labels.count, sizeof *has);
    for (int64_t i = 0; has != NULL && i < e.weights.count; i++) {
        positive = positive && e.weights.weight[i] >= 0;
        used += !has[e.weights.target[i]];
        has[e.weights.target[i]] = true;
        only = e.weights.target[i];
    }
    bool binary = labels.count <= 2 && used == 1;
    for (int64_t i = 0; has != NULL && i < e.weights.count && binary; i++)
        e.weights.target[i] = 0;
    if (binary)
        e.weights.ntargets = 1;
    for (int64_t i = 0; has != NULL && i < labels.count && nbase == labels.count; i++)
        has[i] = true;
    scores = add_base(&e, ops_ml_trees_evaluate(&e), binary && nbase > 1 ? 1 : nbase,
                      base != NULL && binary && nbase > 1 ? base + only : base);
    if (scores == NULL || has == NULL)
        return NULL;
    scores = binary ? write_binary(&e, &labels, only, scores, positive && labels.count == 2)
                    : ops_ml_trees_write_classes(&e, &labels, has, scores);
    c->out[1] = bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(c->out[1])));
    return scores;
}
