/* SPDX-License-Identifier: MIT */
#include "proto/wire.h"

#include <string.h>

/* Copies |n| items of |size| bytes.  Returns NULL if |n| is 0 or memory runs out; the arena records the failure. */
static void *copy_copy(bl_arena *arena, const void *from, int n, size_t size)
{
    void *to = n > 0 ? bl_arena_array(arena, (size_t)n, size) : NULL;

    if (to != NULL)
        memcpy(to, from, (size_t)n * size);
    return to;
}

static const char *copy_text(bl_arena *arena, const char *text)
{
    return text == NULL ? NULL : bl_arena_strdup(arena, text);
}

/* The limit on JSON's depth bounds the recursion. */
static bl_wire_attr *copy_attrs(bl_arena *arena, const bl_wire_attr *from, int n)
{
    bl_wire_attr *to = copy_copy(arena, from, n, sizeof *to);

    for (int i = 0; to != NULL && i < n; i++) {
        to[i].name = copy_text(arena, from[i].name);
        to[i].string = copy_text(arena, from[i].string);
        to[i].ref = copy_copy(arena, from[i].ref, from[i].ref != NULL, sizeof *from[i].ref);
        to[i].item = copy_attrs(arena, from[i].item, from[i].nitems);
        to[i].graph = from[i].graph == NULL ? NULL : bl_wire_copy(arena, from[i].graph);
    }
    return to;
}

static bl_wire_node *copy_nodes(bl_arena *arena, const bl_wire_node *from, int n)
{
    bl_wire_node *to = copy_copy(arena, from, n, sizeof *to);

    for (int i = 0; to != NULL && i < n; i++) {
        const char **ids = copy_copy(arena, from[i].ids, from[i].nids, sizeof *ids);
        for (int k = 0; ids != NULL && k < from[i].nids; k++)
            ids[k] = copy_text(arena, ids[k]);
        to[i].ids = ids;
        to[i].op = copy_text(arena, from[i].op);
        to[i].refs = copy_copy(arena, from[i].refs, from[i].nrefs, sizeof *from[i].refs);
        to[i].attrs = copy_attrs(arena, from[i].attrs, from[i].nattrs);
    }
    return to;
}

static bl_wire_tensor *copy_tensors(bl_arena *arena, const bl_wire_tensor *from, int n)
{
    bl_wire_tensor *to = copy_copy(arena, from, n, sizeof *to);

    for (int i = 0; to != NULL && i < n; i++)
        to[i].name = copy_text(arena, from[i].name);
    return to;
}

static bl_wire_output *copy_outputs(bl_arena *arena, const bl_wire_output *from, int n)
{
    bl_wire_output *to = copy_copy(arena, from, n, sizeof *to);

    for (int i = 0; to != NULL && i < n; i++)
        to[i].name = copy_text(arena, from[i].name);
    return to;
}

const bl_wire_graph *bl_wire_copy(bl_arena *arena, const bl_wire_graph *from)
{
    bl_wire_graph *to = copy_copy(arena, from, 1, sizeof *to);

    if (to == NULL)
        return NULL;
    to->vars = copy_copy(arena, from->vars, from->nvars, sizeof *from->vars);
    for (int i = 0; to->vars != NULL && i < from->nvars; i++)
        to->vars[i].name = copy_text(arena, from->vars[i].name);
    to->inputs = copy_tensors(arena, from->inputs, from->ninputs);
    to->states = copy_tensors(arena, from->states, from->nstates);
    to->nodes = copy_nodes(arena, from->nodes, from->nnodes);
    to->outputs = copy_outputs(arena, from->outputs, from->noutputs);
    to->updates = copy_outputs(arena, from->updates, from->nupdates);
    return to;
}
