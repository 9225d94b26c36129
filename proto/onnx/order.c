/* SPDX-License-Identifier: MIT */
/* Topological sort of a graph's nodes.  The standard requires sorted nodes, but some converters append nodes at the end of the
 * list, and onnxruntime sorts them. */
#include "proto/onnx/import.h"

#include <stdlib.h>
#include <string.h>

typedef struct producer {
    const char *name;
    size_t node;
} producer;

typedef struct order {
    bl_onnx_importer *m;
    size_t n, nproducers;
    producer *producers; /* sorted by name */
    int nedges, cap_edges;
    size_t *edges; /* for each node: the nodes that it needs */
    size_t *first; /* start of each node's edges; one more item for the end */
    bool ordered;
} order;

static int compare_producers(const void *a, const void *b)
{
    return strcmp(((const producer *)a)->name, ((const producer *)b)->name);
}

static void add_need(order *o, size_t user, const char *name)
{
    const producer key = {.name = name}, *from;
    void *edges = o->edges;

    from = bsearch(&key, o->producers, o->nproducers, sizeof *o->producers, compare_producers);
    if (from == NULL || from->node == user ||
        !bl_arena_reserve(o->m->scratch, &edges, o->nedges, &o->cap_edges, sizeof *o->edges))
        return;
    o->edges = edges;
    o->edges[o->nedges++] = from->node;
    o->ordered = o->ordered && from->node < user;
}

/* Adds an edge for each input of a node, and for each outer value that the node's bodies use. */
static void add_needs(order *o, size_t user, const Onnx__NodeProto *node, int depth)
{
    for (size_t i = 0; i < node->n_input; i++)
        add_need(o, user, node->input[i]);
    for (size_t i = 0; i < node->n_attribute && depth < BL_ONNX_MAX_NESTING; i++) {
        const Onnx__GraphProto *body = node->attribute[i]->g;
        for (size_t k = 0; body != NULL && k < body->n_node; k++)
            add_needs(o, user, body->node[k], depth + 1);
        for (size_t k = 0; body != NULL && k < body->n_output; k++)
            add_need(o, user, body->output[k]->name != NULL ? body->output[k]->name : "");
    }
}

static bool take_producers(order *o, Onnx__NodeProto **node)
{
    size_t n = 0;

    for (size_t i = 0; i < o->n; i++)
        n += node[i]->n_output;
    o->producers = bl_arena_array(o->m->scratch, n + 1, sizeof *o->producers);
    o->first = bl_arena_array(o->m->scratch, o->n + 1, sizeof *o->first);
    if (o->producers == NULL || o->first == NULL)
        return false;
    for (size_t i = 0; i < o->n; i++) {
        for (size_t k = 0; k < node[i]->n_output; k++) {
            if (*node[i]->output[k] != '\0')
                o->producers[o->nproducers++] = (producer){node[i]->output[k], i};
        }
    }
    qsort(o->producers, o->nproducers, sizeof *o->producers, compare_producers);
    for (size_t i = 0; i < o->n; i++) {
        o->first[i] = (size_t)o->nedges;
        add_needs(o, i, node[i], 0);
    }
    o->first[o->n] = (size_t)o->nedges;
    return bl_onnx_ok(o->m);
}

/* Depth-first search.  A cycle is not an error here: the node that closes it fails later at the missing name. */
static void order_sort_nodes(const order *o, Onnx__NodeProto **node, Onnx__NodeProto **out)
{
    size_t *stack = bl_arena_array(o->m->scratch, o->n + 1, sizeof *stack), n = 0;
    size_t *next = bl_arena_array(o->m->scratch, o->n + 1, sizeof *next); /* next edge to follow for each node */
    bool *seen = bl_arena_array(o->m->scratch, o->n + 1, sizeof *seen);

    for (size_t i = 0; i < o->n && stack != NULL && next != NULL && seen != NULL; i++) {
        size_t depth = 0;
        if (seen[i])
            continue;
        seen[i] = true;
        stack[depth++] = i;
        while (depth > 0) {
            size_t at = stack[depth - 1], edge = o->first[at] + next[at]++;
            if (edge == o->first[at + 1]) {
                out[n++] = node[at];
                depth--;
            } else if (!seen[o->edges[edge]]) {
                seen[o->edges[edge]] = true;
                stack[depth++] = o->edges[edge];
            }
        }
    }
}

Onnx__NodeProto **bl_onnx_order(bl_onnx_importer *m, size_t n, Onnx__NodeProto **node)
{
    order o = {.m = m, .n = n, .ordered = true};
    Onnx__NodeProto **out;

    if (!take_producers(&o, node) || o.ordered)
        return node;
    out = bl_arena_array(m->scratch, n, sizeof *out);
    if (out != NULL)
        order_sort_nodes(&o, node, out);
    return bl_onnx_ok(m) ? out : node;
}
