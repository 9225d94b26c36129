/* SPDX-License-Identifier: MIT */
/* Names: the scopes of value names, and the names that the wire allows. */
#include "proto/onnx/import.h"

#include "engine/base/map.h"

#include <string.h>

enum { MAX_NAME = 128 };

const char *bl_onnx_clean(bl_onnx_importer *m, const char *text)
{
    char *clean = bl_arena_strndup(m->arena, text, strnlen(text, MAX_NAME));

    for (char *at = clean; at != NULL && *at != '\0'; at++)
        *at = *at > ' ' && *at < 0x7f ? *at : '_';
    return clean != NULL ? clean : "";
}

bl_onnx_names *bl_onnx_open_names(bl_onnx_importer *m, bl_onnx_names *outer, bl_onnx_graph *graph)
{
    bl_onnx_names *names = bl_arena_alloc(m->scratch, sizeof *names);

    if (names == NULL)
        return bl_onnx_stop(m, BL_ENOMEM, "names of an ONNX graph");
    *names = (bl_onnx_names){.outer = outer, .graph = graph};
    return names;
}

/* The slot of |name|, or the free slot to put it. */
static bl_onnx_slot *onnx_names_find_slot(bl_onnx_slot *slot, size_t cap, const char *name)
{
    size_t at = (size_t)bl_hash_bytes(name, strlen(name), 0) & (cap - 1);

    while (slot[at].name != NULL && strcmp(slot[at].name, name) != 0)
        at = (at + 1) & (cap - 1);
    return &slot[at];
}

static bool onnx_names_grow_names(bl_onnx_importer *m, bl_onnx_names *names)
{
    size_t cap = names->cap == 0 ? 16 : 2 * names->cap;
    bl_onnx_slot *slot;

    if (2 * (names->count + 1) <= names->cap)
        return true;
    slot = bl_arena_array(m->scratch, cap, sizeof *slot);
    if (slot == NULL)
        return bl_onnx_stop(m, BL_ENOMEM, "names of an ONNX graph") != NULL;
    for (size_t i = 0; i < names->cap; i++) {
        if (names->slot[i].name != NULL)
            *onnx_names_find_slot(slot, cap, names->slot[i].name) = names->slot[i];
    }
    names->slot = slot;
    names->cap = cap;
    return true;
}

void bl_onnx_put(bl_onnx_importer *m, bl_onnx_names *names, const char *name, bl_onnx_value *value)
{
    bl_onnx_slot *slot;

    if (value == NULL || m->failed || !onnx_names_grow_names(m, names))
        return;
    slot = onnx_names_find_slot(names->slot, names->cap, name);
    if (slot->name != NULL) {
        bl_onnx_stop(m, BL_EGRAPH, "the name \"%s\" is given twice", bl_onnx_clean(m, name));
        return;
    }
    *slot = (bl_onnx_slot){name, value};
    names->count++;
}

bl_onnx_value *bl_onnx_find(const bl_onnx_names *names, const char *name)
{
    for (; names != NULL; names = names->outer) {
        const bl_onnx_slot *found = names->cap > 0 ? onnx_names_find_slot(names->slot, names->cap, name) : NULL;
        if (found != NULL && found->name != NULL)
            return found->value;
    }
    return NULL;
}

char *bl_onnx_legal_name(bl_onnx_importer *m, const char *text)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.:/-";
    bool begins = *text != '\0' && strchr(first, *text) != NULL && strcmp(text, "NaN") != 0 && strcmp(text, "Infinity") != 0;
    char *name = bl_arena_printf(m->arena, "%s%.*s", begins ? "" : "_", BL_ONNX_KEPT_NAME, text);

    for (char *at = name; at != NULL && *at != '\0'; at++) {
        if (strchr(rest, *at) == NULL)
            *at = '_';
    }
    return name;
}

const char *bl_onnx_wire_name(bl_onnx_importer *m, const char *text)
{
    static bl_onnx_value nothing;
    const char *first = bl_onnx_legal_name(m, text), *name = first;

    for (int number = 2; bl_onnx_ok(m) && bl_onnx_find(m->taken, name) != NULL; number++)
        name = bl_arena_printf(m->arena, "%s.%d", first, number);
    if (!bl_onnx_ok(m))
        return "";
    bl_onnx_put(m, m->taken, name, &nothing);
    return name;
}

void bl_onnx_name_outputs(bl_onnx_importer *m)
{
    static bl_onnx_value nothing;
    bl_wire_graph *wire = &m->main->wire;
    bl_onnx_names *all = bl_onnx_open_names(m, NULL, NULL), *own = bl_onnx_open_names(m, NULL, NULL);

    for (int i = 0; i < wire->ninputs && bl_onnx_ok(m); i++)
        bl_onnx_put(m, all, wire->inputs[i].name, &nothing);
    for (int i = 0; i < m->model->program.nstates && bl_onnx_ok(m); i++)
        bl_onnx_put(m, all, m->model->program.states[i].name, &nothing);
    for (int i = 0; i < wire->nnodes; i++) {
        for (int k = 0; k < wire->nodes[i].nids && bl_onnx_ok(m); k++)
            if (bl_onnx_find(all, wire->nodes[i].ids[k]) == NULL)
                bl_onnx_put(m, all, wire->nodes[i].ids[k], &nothing);
    }
    for (int i = 0; i < bl_wire_shown(wire) && bl_onnx_ok(m); i++)
        bl_onnx_put(m, own, wire->outputs[i].name, &nothing);
    for (int i = 0; i < bl_wire_shown(wire) && bl_onnx_ok(m); i++) {
        const bl_wire_output *output = &wire->outputs[i];
        bl_wire_node *node = output->ref.kind == BL_REF_NODE ? &wire->nodes[output->ref.index] : NULL;
        if (node == NULL || bl_onnx_find(all, output->name) != NULL || bl_onnx_find(own, node->ids[output->ref.result]) != NULL)
            continue;
        const char **ids = bl_arena_array(m->arena, (size_t)node->nids, sizeof *ids);
        for (int k = 0; ids != NULL && k < node->nids; k++)
            ids[k] = k == output->ref.result ? output->name : node->ids[k];
        node->ids = ids != NULL ? ids : node->ids;
    }
}
