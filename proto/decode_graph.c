/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "proto/decode_parts.h"

#include <stdlib.h>
#include <string.h>

/* A name of the graph; inputs, states and ids share one namespace. */
typedef struct symbol {
    const char *name;
    bl_wire_ref ref;
} symbol;

typedef struct graph_decoder {
    bl_decoder *d;
    bl_wire_graph *graph;
    bool body; /* the graph is an attribute of a node */
    size_t nsymbols;
    symbol *symbols; /* sorted by name once complete */
    bl_err *err;
} graph_decoder;

static int compare_symbols(const void *a, const void *b)
{
    return strcmp(((const symbol *)a)->name, ((const symbol *)b)->name);
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

static const bl_wire_ref *find_symbol(const graph_decoder *g, const char *name)
{
    symbol key = {.name = name};
    const symbol *found = g->nsymbols == 0 ? NULL : bsearch(&key, g->symbols, g->nsymbols, sizeof *g->symbols, compare_symbols);

    return found != NULL ? &found->ref : NULL;
}

bl_status bl_decode_distinct(const char **names, size_t count, const bl_json *at, bl_err *err)
{
    if (count > 1)
        qsort(names, count, sizeof *names, compare_texts);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            return bl_json_fail(at, err, BL_EGRAPH, "\"%s\" is given twice", names[i]);
    }
    return BL_OK;
}

/* ---- attributes */

static bl_status decode_attr(bl_decoder *d, const bl_json *at, bl_wire_attr *out, bl_err *err);
static bl_status decode_body(bl_decoder *d, const bl_json *at, const bl_wire_graph **out, bl_err *err);

static bl_status decode_attr_list(bl_decoder *d, const bl_json *at, bl_wire_attr *out, bl_err *err)
{
    size_t n = bl_json_count(at), i = 0;
    bl_json_iter it = bl_json_each(at);
    bl_json element;

    if (n > (size_t)(BL_WIRE_MAX_ATTR_ITEMS - d->attr_items))
        return bl_json_fail(at, err, BL_ELIMIT, "more than %d items in the attributes of a graph", BL_WIRE_MAX_ATTR_ITEMS);
    bl_wire_attr *items = bl_arena_array(d->arena, n, sizeof *items);
    if (items == NULL)
        return bl_arena_status(d->arena, err);
    d->attr_items += (int)n;
    while (bl_json_next(&it, &element))
        BL_TRY(decode_attr(d, &element, &items[i++], err));
    out->kind = BL_ATTR_LIST;
    out->nitems = (int)n;
    out->item = items;
    return BL_OK;
}

/* The limit on JSON's depth bounds the recursion. */
static bl_status decode_attr(bl_decoder *d, const bl_json *at, bl_wire_attr *out, bl_err *err)
{
    double special;

    switch (at->kind) {
    case BL_JSON_NULL:
        out->kind = BL_ATTR_NULL;
        return BL_OK;
    case BL_JSON_BOOL:
        out->kind = BL_ATTR_BOOL;
        return bl_json_bool(at, &out->boolean, err);
    case BL_JSON_NUMBER:
        out->kind = BL_ATTR_NUMBER;
        return bl_json_number(at, &out->number, err);
    case BL_JSON_STRING:
        out->kind = BL_ATTR_STRING;
        if (bl_json_nonfinite(at->text, &special)) {
            out->kind = BL_ATTR_NUMBER;
            BL_TRY(bl_json_number(at, &out->number, err));
        }
        BL_TRY(bl_json_string(at, &out->string, err));
        return bl_decode_use_names(d, at, out->string, err);
    case BL_JSON_ARRAY:
        return decode_attr_list(d, at, out, err);
    case BL_JSON_OBJECT:
        out->kind = BL_ATTR_GRAPH;
        return decode_body(d, at, &out->graph, err);
    }
    return bl_json_fail(at, err, BL_EBUG, "not a value of JSON");
}

static int decode_graph_compare_attrs(const void *a, const void *b)
{
    return strcmp(((const bl_wire_attr *)a)->name, ((const bl_wire_attr *)b)->name);
}

static bl_status decode_attrs(bl_decoder *d, const bl_json *node, bl_wire_node *out, bl_err *err)
{
    bl_json attrs, member;

    if (!bl_json_find(node, "attrs", &attrs))
        return BL_OK;
    BL_TRY(bl_json_expect(&attrs, BL_JSON_OBJECT, err));
    size_t n = bl_json_count(&attrs);
    if (n > (size_t)(BL_WIRE_MAX_ATTR_ITEMS - d->attr_items))
        return bl_json_fail(&attrs, err, BL_ELIMIT, "more than %d items in the attributes of a graph", BL_WIRE_MAX_ATTR_ITEMS);
    d->attr_items += (int)n;
    out->attrs = bl_arena_array(d->arena, n, sizeof *out->attrs);
    if (out->attrs == NULL)
        return bl_arena_status(d->arena, err);
    bl_json_iter it = bl_json_each(&attrs);
    while (bl_json_next(&it, &member)) {
        bl_wire_attr *attr = &out->attrs[out->nattrs++];
        attr->name = bl_arena_strdup(d->arena, member.key);
        if (attr->name == NULL)
            return bl_arena_status(d->arena, err);
        BL_TRY(decode_attr(d, &member, attr, err));
    }
    if (out->nattrs > 1)
        qsort(out->attrs, (size_t)out->nattrs, sizeof *out->attrs, decode_graph_compare_attrs);
    return BL_OK;
}

static bl_status decode_op(const bl_json *node, bl_wire_node *out, bl_err *err)
{
    bl_json op;

    BL_TRY(bl_json_need(node, "op", &op, err));
    return bl_json_string(&op, &out->op, err);
}

bl_status bl_decode_initialiser(bl_decoder *d, const bl_json *at, const bl_wire_graph **out, bl_err *err)
{
    static const char *const names[] = {"op", "attrs", NULL};
    bl_wire_graph *graph = bl_arena_alloc(d->arena, sizeof *graph);
    bl_wire_node *node = bl_arena_alloc(d->arena, sizeof *node);
    bl_wire_output *output = bl_arena_alloc(d->arena, sizeof *output);
    const char **id = bl_arena_alloc(d->arena, sizeof *id);
    int before = d->attr_items;

    if (graph == NULL || node == NULL || output == NULL || id == NULL)
        return bl_arena_status(d->arena, err);
    BL_TRY(bl_json_allow(at, names, err));
    BL_TRY(decode_op(at, node, err));
    d->attr_items = 0;
    bl_status st = decode_attrs(d, at, node, err);
    d->attr_items = before;
    if (st != BL_OK)
        return st;
    *id = bl_arena_strdup(d->arena, at->key);
    node->nids = 1;
    node->ids = id;
    output->name = *id;
    output->ref = (bl_wire_ref){.kind = BL_REF_NODE};
    *graph = (bl_wire_graph){.nnodes = 1, .nodes = node, .noutputs = 1, .outputs = output};
    *out = graph;
    return bl_arena_status(d->arena, err);
}

/* ---- nodes */

static bl_status decode_ids(graph_decoder *g, const bl_json *node, bl_wire_node *out)
{
    bl_json id, one;
    const char *text;

    BL_TRY(bl_json_need(node, "id", &id, g->err));
    if (id.kind != BL_JSON_ARRAY && id.kind != BL_JSON_STRING)
        return bl_json_fail(&id, g->err, BL_EINVAL, "expected a string or a list of strings");
    size_t n = id.kind == BL_JSON_ARRAY ? bl_json_count(&id) : 1, i = 0;
    if (n == 0)
        return bl_json_fail(&id, g->err, BL_EGRAPH, "the node has no id");
    if (n > g->d->env->limits.max_inputs)
        return bl_json_fail(&id, g->err, BL_ELIMIT, "%zu ids; the limit is %zu", n, g->d->env->limits.max_inputs);
    const char **ids = bl_arena_array(g->d->arena, n, sizeof *ids);
    if (ids == NULL)
        return bl_arena_status(g->d->arena, g->err);
    bl_json_iter it = bl_json_each(&id);
    do {
        if (id.kind == BL_JSON_ARRAY && !bl_json_next(&it, &one))
            break;
        const bl_json *at = id.kind == BL_JSON_ARRAY ? &one : &id;
        BL_TRY(bl_json_string(at, &text, g->err));
        BL_TRY(bl_decode_name(g->d, at, text, &ids[i++], g->err));
    } while (i < n);
    out->nids = (int)n;
    out->ids = ids;
    return BL_OK;
}

/* Decodes all members but "in", which needs the names of all nodes. */
static bl_status decode_node(graph_decoder *g, const bl_json *node, bl_wire_node *out)
{
    static const char *const names[] = {"id", "op", "in", "attrs", NULL};

    BL_TRY(bl_json_allow(node, names, g->err));
    BL_TRY(decode_ids(g, node, out));
    bl_status st = decode_op(node, out, g->err);
    if (st == BL_OK)
        st = decode_attrs(g->d, node, out, g->err);
    if (st != BL_OK && g->err != NULL)
        bl_err_blame(g->err, out->ids[0]);
    return st;
}

static bl_status decode_ref(const graph_decoder *g, const bl_json *at, bl_wire_ref *out)
{
    double special;
    const char *name;

    if (at->kind == BL_JSON_NUMBER || (at->kind == BL_JSON_STRING && bl_json_nonfinite(at->text, &special))) {
        out->kind = BL_REF_LITERAL;
        return bl_json_number(at, &out->literal, g->err);
    }
    if (at->kind != BL_JSON_STRING)
        return bl_json_fail(at, g->err, BL_EINVAL, "expected a name or a number");
    BL_TRY(bl_json_string(at, &name, g->err));
    const bl_wire_ref *found = find_symbol(g, name);
    if (found == NULL)
        return bl_json_fail(at, g->err, BL_EGRAPH, "nothing is named \"%.140s\"", name);
    *out = *found;
    return BL_OK;
}

static bl_status decode_refs(graph_decoder *g, const bl_json *node, bl_wire_node *out)
{
    bl_json in, one;

    /* an attribute string may also be a name, as an optimiser's "lr"; the op decides what it means */
    for (int i = 0; i < out->nattrs; i++) {
        bl_wire_attr *attr = &out->attrs[i];
        const bl_wire_ref *found = attr->kind == BL_ATTR_STRING ? find_symbol(g, attr->string) : NULL;
        if (found != NULL) {
            attr->ref = bl_arena_alloc(g->d->arena, sizeof *attr->ref);
            if (attr->ref == NULL)
                return bl_arena_status(g->d->arena, g->err);
            *attr->ref = *found;
        }
    }
    if (!bl_json_find(node, "in", &in))
        return BL_OK;
    BL_TRY(bl_json_expect(&in, BL_JSON_ARRAY, g->err));
    size_t n = bl_json_count(&in);
    if (n > g->d->env->limits.max_inputs)
        return bl_json_fail(&in, g->err, BL_ELIMIT, "%zu operands; the limit is %zu", n, g->d->env->limits.max_inputs);
    out->refs = bl_arena_array(g->d->arena, n, sizeof *out->refs);
    if (out->refs == NULL)
        return bl_arena_status(g->d->arena, g->err);
    bl_json_iter it = bl_json_each(&in);
    while (bl_json_next(&it, &one))
        BL_TRY(decode_ref(g, &one, &out->refs[out->nrefs++]));
    return BL_OK;
}

static const char *decode_graph_kind_text(bl_wire_ref_kind kind)
{
    return kind == BL_REF_INPUT ? "an input" : kind == BL_REF_STATE ? "a state" : "a node";
}

/* Collects and sorts every name of the graph; fails at a duplicate. */
static bl_status make_symbols(graph_decoder *g, const bl_json *doc)
{
    const bl_wire_graph *w = g->graph;
    size_t n = (size_t)w->ninputs + (size_t)w->nstates;

    for (int i = 0; i < w->nnodes; i++)
        n += (size_t)w->nodes[i].nids;
    g->symbols = bl_arena_array(g->d->arena, n, sizeof *g->symbols);
    if (g->symbols == NULL)
        return bl_arena_status(g->d->arena, g->err);
    for (int i = 0; i < w->ninputs; i++)
        g->symbols[g->nsymbols++] = (symbol){w->inputs[i].name, {.kind = BL_REF_INPUT, .index = i}};
    for (int i = 0; i < w->nstates; i++)
        g->symbols[g->nsymbols++] = (symbol){w->states[i].name, {.kind = BL_REF_STATE, .index = i}};
    for (int i = 0; i < w->nnodes; i++) {
        for (int r = 0; r < w->nodes[i].nids; r++)
            g->symbols[g->nsymbols++] = (symbol){w->nodes[i].ids[r], {.kind = BL_REF_NODE, .index = i, .result = r}};
    }
    if (n > 1)
        qsort(g->symbols, n, sizeof *g->symbols, compare_symbols);
    for (size_t i = 1; i < n; i++) {
        const symbol *a = &g->symbols[i - 1], *b = &g->symbols[i];
        if (strcmp(a->name, b->name) == 0) {
            if (a->ref.kind == BL_REF_NODE || b->ref.kind == BL_REF_NODE)
                bl_err_blame(g->err, a->name);
            return bl_json_fail(doc, g->err, BL_EGRAPH, "the name \"%s\" is used twice, by %s and by %s", a->name,
                                decode_graph_kind_text(a->ref.kind),
                                a->ref.kind == b->ref.kind ? "another one" : decode_graph_kind_text(b->ref.kind));
        }
    }
    return BL_OK;
}

static bl_status decode_nodes(graph_decoder *g, const bl_json *doc)
{
    bl_json nodes, node;
    bl_wire_graph *w = g->graph;

    BL_TRY(bl_json_need(doc, "nodes", &nodes, g->err));
    BL_TRY(bl_json_expect(&nodes, BL_JSON_ARRAY, g->err));
    size_t n = bl_json_count(&nodes);
    if (n > g->d->env->limits.max_nodes)
        return bl_json_fail(&nodes, g->err, BL_ELIMIT, "%zu nodes; the limit is %zu", n, g->d->env->limits.max_nodes);
    w->nodes = bl_arena_array(g->d->arena, n, sizeof *w->nodes);
    if (w->nodes == NULL)
        return bl_arena_status(g->d->arena, g->err);
    bl_json_iter it = bl_json_each(&nodes);
    while (bl_json_next(&it, &node))
        BL_TRY(decode_node(g, &node, &w->nodes[w->nnodes++]));
    BL_TRY(make_symbols(g, doc));
    it = bl_json_each(&nodes);
    for (int i = 0; bl_json_next(&it, &node); i++) {
        bl_status st = decode_refs(g, &node, &w->nodes[i]);
        if (st != BL_OK) {
            if (g->err != NULL)
                bl_err_blame(g->err, w->nodes[i].ids[0]);
            return st;
        }
    }
    return BL_OK;
}

/* ---- topological sort */

typedef struct sorter {
    const bl_wire_graph *graph;
    bool by_attrs;       /* names in attributes count as operands */
    int *order;          /* sorted nodes so far, sources first */
    int *stack, *pos;    /* nodes on the path of the visit, and the next operand of each */
    unsigned char *seen; /* 1: on the stack, 2: in |order| */
    int done, culprit;
} sorter;

/* The node of operand |k| of |node|, -1 if that operand is no node; false past the last operand. */
static bool decode_graph_operand(const sorter *s, const bl_wire_node *node, int k, int *out)
{
    const bl_wire_ref *ref = NULL;

    if (k < node->nrefs)
        ref = &node->refs[k];
    else if (s->by_attrs && k < node->nrefs + node->nattrs)
        ref = node->attrs[k - node->nrefs].ref;
    else
        return false;
    *out = ref != NULL && ref->kind == BL_REF_NODE ? ref->index : -1;
    return true;
}

/* Depth-first search with an explicit stack.  Nodes that are already in topological order keep it.  False at a cycle. */
static bool decode_graph_visit(sorter *s, int first)
{
    int depth = 0, next;

    s->stack[depth] = first;
    s->pos[depth++] = 0;
    s->seen[first] = 1;
    while (depth > 0) {
        int node = s->stack[depth - 1];
        if (!decode_graph_operand(s, &s->graph->nodes[node], s->pos[depth - 1]++, &next)) {
            s->seen[node] = 2;
            s->order[s->done++] = node;
            depth--;
        } else if (next >= 0 && s->seen[next] == 1) {
            s->culprit = next;
            return false;
        } else if (next >= 0 && s->seen[next] == 0) {
            s->seen[next] = 1;
            s->stack[depth] = next;
            s->pos[depth++] = 0;
        }
    }
    return true;
}

static bool visit_all(sorter *s)
{
    size_t n = (size_t)s->graph->nnodes;

    memset(s->seen, 0, n);
    s->done = 0;
    for (int i = 0; i < s->graph->nnodes; i++) {
        if (s->seen[i] == 0 && !decode_graph_visit(s, i))
            return false;
    }
    return true;
}

/* Moves the nodes into the new order and updates the references to them. */
static bl_status reorder(graph_decoder *g, const int *order, int *place)
{
    bl_wire_graph *w = g->graph;
    bl_wire_node *nodes = bl_arena_array(g->d->arena, (size_t)w->nnodes, sizeof *nodes);

    if (nodes == NULL)
        return bl_arena_status(g->d->arena, g->err);
    for (int i = 0; i < w->nnodes; i++) {
        nodes[i] = w->nodes[order[i]];
        place[order[i]] = i;
    }
    w->nodes = nodes;
    for (int i = 0; i < w->nnodes; i++) {
        for (int k = 0; k < nodes[i].nrefs; k++) {
            if (nodes[i].refs[k].kind == BL_REF_NODE)
                nodes[i].refs[k].index = place[nodes[i].refs[k].index];
        }
        for (int k = 0; k < nodes[i].nattrs; k++) {
            bl_wire_ref *ref = nodes[i].attrs[k].ref;
            if (ref != NULL && ref->kind == BL_REF_NODE)
                ref->index = place[ref->index];
        }
    }
    for (size_t i = 0; i < g->nsymbols; i++) {
        if (g->symbols[i].ref.kind == BL_REF_NODE)
            g->symbols[i].ref.index = place[g->symbols[i].ref.index];
    }
    return BL_OK;
}

static bl_status decode_graph_sort_nodes(graph_decoder *g)
{
    size_t n = (size_t)g->graph->nnodes;
    int *room = bl_calloc(3 * n + 1, sizeof *room);
    unsigned char *seen = bl_calloc(n + 1, 1);
    bl_status st = BL_OK;
    sorter s = {.graph = g->graph, .by_attrs = true, .order = room, .seen = seen, .culprit = -1};

    if (room == NULL || seen == NULL) {
        st = bl_fail(g->err, BL_ENOMEM, "out of host memory for sorting %zu nodes", n);
        goto out;
    }
    s.stack = room + n;
    s.pos = room + 2 * n;
    if (!visit_all(&s)) {
        /* an attribute may equal a node's name by chance ("mean"): if that causes a cycle, count real operands only */
        s.by_attrs = false;
        if (!visit_all(&s)) {
            const char *id = g->graph->nodes[s.culprit].ids[0];
            st = bl_fail(g->err, BL_EGRAPH, "the node \"%s\" needs its own result: the graph has a cycle", id);
            if (g->err != NULL)
                bl_err_blame(g->err, id);
            goto out;
        }
    }
    st = reorder(g, s.order, s.stack);
out:
    free(room);
    free(seen);
    return st;
}

/* ---- outputs */

static bl_status decode_target(const graph_decoder *g, const bl_json *at, const char **name, bl_wire_ref *out)
{
    BL_TRY(bl_json_string(at, name, g->err));
    const bl_wire_ref *found = find_symbol(g, *name);
    if (found == NULL)
        return bl_json_fail(at, g->err, BL_EGRAPH, "nothing is named \"%.140s\"", *name);
    *out = *found;
    return BL_OK;
}

/* Decodes {"OUTPUT": {"count": name, "axis": number}}: the output's axis is cut off at the value of |count|. */
static bl_status decode_rows(graph_decoder *g, const bl_json *rows, int nsent)
{
    static const char *const names[] = {"count", "axis", NULL};
    bl_wire_graph *w = g->graph;
    bl_json one, count, axis;
    int64_t at = 0;
    bl_json_iter it = bl_json_each(rows);

    while (bl_json_next(&it, &one)) {
        bl_wire_output *out = w->outputs, *end = w->outputs + nsent;
        BL_TRY(bl_json_allow(&one, names, g->err));
        while (out < end && strcmp(out->name, one.key) != 0)
            out++;
        if (out == end)
            return bl_json_fail(rows, g->err, BL_EGRAPH, "no output is named \"%.140s\"", one.key);
        BL_TRY(bl_json_need(&one, "count", &count, g->err));
        if (bl_json_find(&one, "axis", &axis))
            BL_TRY(bl_json_int(&axis, 0, (int64_t)g->d->env->limits.max_dims - 1, &at, g->err));
        else
            at = 0;
        out->count = w->noutputs;
        out->axis = (int)at;
        BL_TRY(decode_target(g, &count, &w->outputs[w->noutputs].name, &w->outputs[w->noutputs].ref));
        w->noutputs++;
        w->ncounts++;
    }
    return BL_OK;
}

static bl_status decode_graph_decode_outputs(graph_decoder *g, const bl_json *doc)
{
    bl_json outputs = {.kind = BL_JSON_ARRAY}, keep = {.kind = BL_JSON_OBJECT}, rows = {.kind = BL_JSON_OBJECT}, one;
    bool sent = bl_json_find(doc, "outputs", &outputs), kept = bl_json_find(doc, "keep", &keep),
         cut = bl_json_find(doc, "rows", &rows);
    bl_wire_graph *w = g->graph;
    const char *name;

    if (sent)
        BL_TRY(bl_json_expect(&outputs, BL_JSON_ARRAY, g->err));
    if (kept)
        BL_TRY(bl_json_expect(&keep, BL_JSON_OBJECT, g->err));
    if (cut)
        BL_TRY(bl_json_expect(&rows, BL_JSON_OBJECT, g->err));
    size_t nsent = sent ? bl_json_count(&outputs) : 0;
    size_t n = nsent + (kept ? bl_json_count(&keep) : 0) + (cut ? bl_json_count(&rows) : 0);
    if (n > g->d->env->limits.max_inputs)
        return bl_json_fail(doc, g->err, BL_ELIMIT, "%zu outputs; the limit is %zu", n, g->d->env->limits.max_inputs);
    w->outputs = bl_arena_array(g->d->arena, n, sizeof *w->outputs);
    const char **names = bl_arena_array(g->d->arena, nsent, sizeof *names);
    if (w->outputs == NULL || names == NULL)
        return bl_arena_status(g->d->arena, g->err);
    bl_json_iter it = bl_json_each(&outputs);
    while (sent && bl_json_next(&it, &one)) {
        bl_wire_output *out = &w->outputs[w->noutputs];
        BL_TRY(decode_target(g, &one, &out->name, &out->ref));
        names[w->noutputs++] = out->name;
    }
    if (!g->body) /* a body's outputs have positions instead of names: a carry may also be stacked */
        BL_TRY(bl_decode_distinct(names, nsent, &outputs, g->err));
    it = bl_json_each(&keep);
    while (kept && bl_json_next(&it, &one)) {
        bl_wire_output *out = &w->outputs[w->noutputs++];
        BL_TRY(bl_decode_name(g->d, &keep, one.key, &out->name, g->err));
        BL_TRY(decode_target(g, &one, &name, &out->ref));
    }
    return cut ? decode_rows(g, &rows, (int)nsent) : BL_OK;
}

static bl_status decode_updates(graph_decoder *g, const bl_json *doc)
{
    bl_json updates, one;
    bl_wire_graph *w = g->graph;
    const char *name;

    if (!bl_json_find(doc, "updates", &updates))
        return BL_OK;
    BL_TRY(bl_json_expect(&updates, BL_JSON_OBJECT, g->err));
    w->updates = bl_arena_array(g->d->arena, bl_json_count(&updates), sizeof *w->updates);
    if (w->updates == NULL)
        return bl_arena_status(g->d->arena, g->err);
    bl_json_iter it = bl_json_each(&updates);
    while (bl_json_next(&it, &one)) {
        const bl_wire_ref *state = find_symbol(g, one.key);
        if (state == NULL || state->kind != BL_REF_STATE)
            return bl_json_fail(&updates, g->err, BL_EGRAPH, "no state is named \"%.140s\"", one.key);
        bl_wire_output *out = &w->updates[w->nupdates++];
        out->name = w->states[state->index].name;
        BL_TRY(decode_target(g, &one, &name, &out->ref));
    }
    return BL_OK;
}

static bl_status decode_graph(graph_decoder *g, const bl_json *doc)
{
    BL_TRY(decode_nodes(g, doc));
    BL_TRY(decode_graph_sort_nodes(g));
    return decode_graph_decode_outputs(g, doc);
}

/* Decodes {"inputs": [names], "nodes", "outputs"}, which is a namespace of its own. */
static bl_status decode_body(bl_decoder *d, const bl_json *at, const bl_wire_graph **out, bl_err *err)
{
    static const char *const names[] = {"inputs", "nodes", "outputs", NULL};
    bl_wire_graph *graph = bl_arena_alloc(d->arena, sizeof *graph);
    graph_decoder g = {.d = d, .graph = graph, .body = true, .err = err};
    bl_json inputs, nodes, one;
    const char *name;

    if (graph == NULL)
        return bl_arena_status(d->arena, err);
    BL_TRY(bl_json_allow(at, names, err));
    BL_TRY(bl_json_need(at, "inputs", &inputs, err));
    BL_TRY(bl_json_expect(&inputs, BL_JSON_ARRAY, err));
    BL_TRY(bl_json_need(at, "nodes", &nodes, err));
    size_t n = bl_json_count(&inputs), items = n + bl_json_count(&nodes);
    if (items > (size_t)(BL_WIRE_MAX_ATTR_ITEMS - d->attr_items))
        return bl_json_fail(at, err, BL_ELIMIT, "more than %d items in the attributes of a graph", BL_WIRE_MAX_ATTR_ITEMS);
    d->attr_items += (int)items;
    graph->inputs = bl_arena_array(d->arena, n, sizeof *graph->inputs);
    if (graph->inputs == NULL)
        return bl_arena_status(d->arena, err);
    bl_json_iter it = bl_json_each(&inputs);
    while (bl_json_next(&it, &one)) {
        BL_TRY(bl_json_string(&one, &name, err));
        BL_TRY(bl_decode_name(d, &one, name, &graph->inputs[graph->ninputs++].name, err));
    }
    BL_TRY(decode_graph(&g, at));
    *out = graph;
    return BL_OK;
}

bl_status bl_decode_graph(bl_decoder *d, const bl_json *doc, bl_wire_graph *graph, bl_err *err)
{
    graph_decoder g = {.d = d, .graph = graph, .err = err};

    d->attr_items = 0;
    BL_TRY(decode_graph(&g, doc));
    BL_TRY(decode_updates(&g, doc));
    if (graph->noutputs == 0 && graph->nupdates == 0)
        return bl_json_fail(doc, err, BL_EGRAPH, "the graph asks for nothing: no outputs%s",
                            graph->program ? " and no updates" : "");
    return BL_OK;
}
