/* SPDX-License-Identifier: MIT */
#include "engine/base/map.h"
#include "proto/wire.h"

#include <string.h>

/* Writes bytes that differ for different structures: a count precedes its items, a length precedes each string, and a kind
 * precedes each item of an attribute tree. */
typedef struct writer {
    bl_text text;
    bool ids; /* include the ids of all nodes, in bodies too, since the plan's error messages contain them */
} writer;

static void put_u64(writer *w, uint64_t value)
{
    /* LEB128: seven bits a byte, low bits first */
    char bytes[10];
    size_t n = 0;

    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
    bl_text_append(&w->text, bytes, n);
}

static void put_i64(writer *w, int64_t value)
{
    put_u64(w, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_string(writer *w, const char *text)
{
    size_t len = strlen(text);

    put_u64(w, len);
    bl_text_append(&w->text, text, len);
}

static void key_put_number(writer *w, const bl_wire_number *number)
{
    put_u64(w, (uint64_t)number->whole << 1 | (uint64_t)number->negative);
    if (number->whole) {
        put_u64(w, number->magnitude);
    } else {
        uint64_t bits;
        memcpy(&bits, &number->value, sizeof bits);
        bl_text_append(&w->text, (const char *)&bits, sizeof bits);
    }
}

static void put_type(writer *w, const bl_wire_type *type)
{
    put_u64(w, (uint64_t)type->dtype);
    put_u64(w, (uint64_t)type->ndim);
    for (int i = 0; i < type->ndim; i++) {
        put_i64(w, type->dim[i].var >= 0 ? -1 - type->dim[i].var : type->dim[i].size);
    }
}

static void key_put_ref(writer *w, const bl_wire_ref *ref)
{
    put_u64(w, (uint64_t)ref->kind);
    if (ref->kind == BL_REF_LITERAL) {
        key_put_number(w, &ref->literal);
    } else {
        put_u64(w, (uint64_t)ref->index);
        put_u64(w, (uint64_t)ref->result);
    }
}

static void key_put_graph(writer *w, const bl_wire_graph *g);

/* The limit on JSON's depth bounds the recursion. */
static void key_put_attr(writer *w, const bl_wire_attr *attr)
{
    put_u64(w, (uint64_t)attr->kind);
    switch (attr->kind) {
    case BL_ATTR_NUMBER:
        key_put_number(w, &attr->number);
        break;
    case BL_ATTR_BOOL:
        put_u64(w, attr->boolean);
        break;
    case BL_ATTR_STRING:
        put_string(w, attr->string);
        put_u64(w, attr->ref != NULL);
        if (attr->ref != NULL)
            key_put_ref(w, attr->ref);
        break;
    case BL_ATTR_NULL:
        break;
    case BL_ATTR_LIST:
        put_u64(w, (uint64_t)attr->nitems);
        for (int i = 0; i < attr->nitems; i++)
            key_put_attr(w, &attr->item[i]);
        break;
    case BL_ATTR_GRAPH:
        key_put_graph(w, attr->graph);
        break;
    }
}

static void key_put_node(writer *w, const bl_wire_node *node, bool names)
{
    put_string(w, node->op);
    put_u64(w, (uint64_t)node->nids);
    for (int i = 0; names && i < node->nids; i++)
        put_string(w, node->ids[i]);
    put_u64(w, (uint64_t)node->nrefs);
    for (int i = 0; i < node->nrefs; i++)
        key_put_ref(w, &node->refs[i]);
    put_u64(w, (uint64_t)node->nattrs);
    for (int i = 0; i < node->nattrs; i++) {
        put_string(w, node->attrs[i].name);
        key_put_attr(w, &node->attrs[i]);
    }
}

static void key_put_graph(writer *w, const bl_wire_graph *g)
{
    put_u64(w, (uint64_t)g->nvars);
    for (int i = 0; i < g->nvars; i++) {
        /* the name counts: attributes may contain it, and a string that names no dimension has another meaning */
        put_string(w, g->vars[i].name);
        put_i64(w, g->vars[i].lo);
        put_i64(w, g->vars[i].hi);
        put_i64(w, bl_wire_var_step(&g->vars[i]));
    }
    put_u64(w, (uint64_t)g->program | (uint64_t)g->check_indices << 1);
    put_u64(w, (uint64_t)g->ninputs);
    for (int i = 0; i < g->ninputs; i++) {
        if (g->program)
            put_string(w, g->inputs[i].name);
        put_type(w, &g->inputs[i].type);
    }
    put_u64(w, (uint64_t)g->nstates);
    for (int i = 0; i < g->nstates; i++) {
        put_string(w, g->states[i].name);
        put_type(w, &g->states[i].type);
    }
    put_u64(w, (uint64_t)g->nnodes);
    for (int i = 0; i < g->nnodes; i++)
        key_put_node(w, &g->nodes[i], g->program || w->ids);
    put_u64(w, (uint64_t)g->noutputs);
    for (int i = 0; i < g->noutputs; i++)
        key_put_ref(w, &g->outputs[i].ref);
    put_u64(w, (uint64_t)g->nupdates);
    for (int i = 0; i < g->nupdates; i++) {
        put_string(w, g->updates[i].name);
        key_put_ref(w, &g->updates[i].ref);
    }
}

bl_status bl_wire_make_key(bl_arena *arena, const bl_wire_graph *graph, const char *salt, bl_wire_key *key, bl_err *err)
{
    writer w = {.ids = graph->check_indices};
    bl_status st;

    *key = (bl_wire_key){0};
    put_string(&w, salt);
    key_put_graph(&w, graph);
    st = bl_text_status(&w.text, err);
    if (st == BL_OK) {
        char *bytes = bl_arena_alloc(arena, w.text.len);
        if (bytes == NULL) {
            st = bl_arena_status(arena, err);
        } else {
            memcpy(bytes, w.text.data, w.text.len);
            *key = (bl_wire_key){bl_hash_bytes(bytes, w.text.len, 0), bytes, w.text.len};
        }
    }
    bl_text_fini(&w.text);
    return st;
}
