/* SPDX-License-Identifier: MIT */
/* Explains a plan: the nodes of the wire graph that each kernel computes, its loop nest and its source. Plans keep no such
 * information, so the graph is compiled again up to the source of the kernels, with the plan's moves. */
#include "engine/base/map.h"
#include "engine/ir/ir_text.h"
#include "engine/ir/shape.h"
#include "engine/plan/compile.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_VISITS = 4000000,      /* limit of visits of tensor nodes, summed over all kernels */
    MOST_TEXT = 8 * 1024 * 1024 /* limit of bytes of nests and sources */
};

/* A nest that computes some element of a tensor node. */
typedef struct user {
    const struct user *next;
    int nest;
} user;

typedef struct explain {
    compile c;
    bl_arena *arena; /* borrowed: the caller's arena */
    bl_plan_detail *out;
    bl_ptrmap users;  /* maps a tensor node to the list of nests that compute it */
    bl_ptrmap values; /* the set of tracked nodes */
    bool *computes;   /* indexed by kernel and node of the wire graph */
    size_t visits, text;
} explain;

/* ---- the kernels that compute each node */

static bl_status find_users(explain *e)
{
    compile *c = &e->c;

    bl_ptrmap_init(&e->users, c->arena);
    bl_ptrmap_init(&e->values, c->arena);
    for (int i = 0; i < c->schedule->nnests; i++) {
        const bl_nest *nest = &c->schedule->nests[i];
        for (int k = 0; k < nest->nfrom; k++) {
            user *u = bl_arena_alloc(c->arena, sizeof *u);
            if (u == NULL)
                return bl_arena_status(c->arena, c->err);
            *u = (user){.next = bl_ptrmap_get(&e->users, nest->from[k]), .nest = i};
            bl_ptrmap_put(&e->users, nest->from[k], u);
        }
    }
    for (int i = 0; i < c->ntracked; i++)
        bl_ptrmap_add(&e->values, c->tracked[i]);
    return bl_arena_status(c->arena, c->err);
}

/* Mark the kernels of |nest|, helpers included. A nest that was joined into an earlier nest's kernel has no kernel of its
 * own. */
static void explain_mark(explain *e, int nest, int node)
{
    const int *first = e->c.first_made;
    int from = first[nest], end = first[nest + 1];

    if (from == end && from > 0)
        from--;
    for (int k = from; k < end || k == from; k++)
        if (k < e->c.nmade)
            e->computes[(size_t)k * (size_t)e->c.wire->nnodes + (size_t)node] = true;
}

/* Mark the kernels of |node|: the kernels that compute |value| or a node below |value|, up to the values of other nodes of
 * the wire graph. */
static bl_status mark_value(explain *e, const bl_node *value, int node)
{
    compile *c = &e->c;
    bl_ptrmap seen;
    const bl_node **stack = NULL;
    size_t n = 0;
    int cap = 0;

    bl_ptrmap_init(&seen, c->arena);
    if (!bl_arena_reserve(c->arena, (void **)&stack, 0, &cap, sizeof *stack))
        return bl_arena_status(c->arena, c->err);
    stack[n++] = value;
    while (n > 0) {
        const bl_node *at = stack[--n];
        if (++e->visits > MOST_VISITS) {
            e->out->truncated = true;
            return BL_OK;
        }
        for (const user *u = bl_ptrmap_get(&e->users, at); u != NULL; u = u->next)
            explain_mark(e, u->nest, node);
        for (uint32_t i = 0; i < at->nsrc; i++) {
            const bl_node *from = at->src[i];
            if (from->op == BL_OP_INPUT || bl_ptrmap_has(&e->values, from) || bl_ptrmap_has(&seen, from))
                continue;
            bl_ptrmap_add(&seen, from);
            if (!bl_arena_reserve(c->arena, (void **)&stack, (int)n, &cap, sizeof *stack))
                return bl_arena_status(c->arena, c->err);
            stack[n++] = from;
        }
    }
    return bl_arena_status(c->arena, c->err);
}

static bl_status mark_all(explain *e)
{
    const bl_wire_graph *wire = e->c.wire;
    int at = 0;

    e->computes = bl_arena_array(e->c.arena, ((size_t)e->c.nmade + 1) * ((size_t)wire->nnodes + 1), sizeof *e->computes);
    BL_TRY(bl_arena_status(e->c.arena, e->c.err));
    for (int i = 0; i < wire->nnodes; i++)
        for (int k = 0; k < wire->nodes[i].nids; k++)
            BL_TRY(mark_value(e, e->c.tracked[at++], i));
    return BL_OK;
}

/* ---- the texts of the explanation */

/* A copy of the text; "" if all texts together exceed MOST_TEXT. */
static const char *explain_keep_text(explain *e, const char *text, size_t len)
{
    e->text += len;
    if (e->text <= MOST_TEXT)
        return bl_arena_strndup(e->arena, text, len);
    e->out->truncated = true;
    return "";
}

static bl_status tell_kernel(explain *e, int number, bl_plan_detail_kernel *to)
{
    const made *m = &e->c.made[number];
    const bool *computes = e->computes + (size_t)number * (size_t)e->c.wire->nnodes;
    bl_text nest = {0};

    *to = (bl_plan_detail_kernel){.key = m->key, .helper = m->helper};
    bl_ir_print(e->c.ir, 1, &m->nest->sink, &nest);
    to->name = bl_arena_strdup(e->arena, m->name);
    to->moves = bl_arena_strdup(e->arena, m->moves);
    to->nest = explain_keep_text(e, bl_text_get(&nest), nest.len);
    to->source = explain_keep_text(e, m->source.data != NULL ? m->source.data : "", m->source.len);
    to->nodes = bl_arena_array(e->arena, (size_t)e->c.wire->nnodes + 1, sizeof *to->nodes);
    for (int i = 0; to->nodes != NULL && i < e->c.wire->nnodes; i++)
        if (computes[i])
            to->nodes[to->nnodes++] = i;
    bl_text_fini(&nest);
    return bl_arena_status(e->arena, e->c.err);
}

static bl_status tell_nodes(explain *e)
{
    const bl_graph *graph = e->c.graph;
    const bl_wire_graph *wire = e->c.wire;
    int at = 0;

    e->out->values = bl_arena_array(e->arena, (size_t)wire->nnodes + 1, sizeof *e->out->values);
    BL_TRY(bl_arena_status(e->arena, e->c.err));
    for (int i = 0; i < wire->nnodes; at += wire->nodes[i++].nids) {
        const bl_node *value = graph->values[at];
        bl_plan_detail_value *to = &e->out->values[i];
        *to = (bl_plan_detail_value){.dtype = (bl_dtype)value->dtype, .ndim = value->ndim};
        to->dim = bl_arena_array(e->arena, (size_t)value->ndim + 1, sizeof *to->dim);
        for (int d = 0; to->dim != NULL && d < value->ndim; d++)
            to->dim[d] = bl_arena_strdup(e->arena, bl_size_text(e->c.ir, value->dim[d]));
    }
    return bl_arena_status(e->arena, e->c.err);
}

static bl_status tell_all(explain *e)
{
    bl_plan_detail *out = e->out;

    out->nkernels = e->c.nmade;
    out->kernels = bl_arena_array(e->arena, (size_t)e->c.nmade + 1, sizeof *out->kernels);
    BL_TRY(bl_arena_status(e->arena, e->c.err));
    for (int i = 0; i < e->c.nmade; i++)
        BL_TRY(tell_kernel(e, i, &out->kernels[i]));
    return tell_nodes(e);
}

static bl_status list_buffers(const bl_plan *plan, bl_arena *arena, bl_plan_detail *out, bl_err *err)
{
    out->buffers = bl_arena_array(arena, (size_t)plan->nslots + 1, sizeof *out->buffers);
    for (int i = 0; out->buffers != NULL && i < plan->nslots; i++) {
        const bl_lifetime *life = &plan->lives[i];
        if (plan->slot_offset[i] != SIZE_MAX && life->first <= life->last)
            out->buffers[out->nbuffers++] = (bl_plan_detail_buffer){life->bytes, life->first, life->last};
    }
    return bl_arena_status(arena, err);
}

bl_status bl_plan_explain(const bl_plan *plan, const bl_wire_graph *wire, const bl_halt *halt, bl_arena *arena,
                          bl_plan_detail *out, bl_err *err)
{
    bl_plan_options options = plan->options;
    explain e = {.arena = arena, .out = out};
    bl_status st = BL_OK;

    options.debug = 0;
    options.tuner = NULL;
    options.children = NULL;
    options.beam = 0;
    options.fixed = bl_plan_get_moves(plan);
    options.halt = *halt;
    *out = (bl_plan_detail){0};
    e.c = (compile){.wire = wire, .options = &options, .dev = plan->dev, .err = err, .explains = true};
    BL_TRY(compile_begin(&e.c));
    st = compile_to_source(&e.c);
    if (st == BL_OK)
        st = find_users(&e);
    if (st == BL_OK)
        st = mark_all(&e);
    if (st == BL_OK)
        st = tell_all(&e);
    if (st == BL_OK)
        st = list_buffers(plan, arena, out, err);
    compile_end(&e.c, false);
    return st;
}
