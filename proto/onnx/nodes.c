/* SPDX-License-Identifier: MIT */
/* Recipes for a node of the model: the callbacks that proto/write needs from an importer. */
#include "proto/onnx/import.h"

enum { MAX_LETTERS = 8 };

static bool nodes_is_ok(void *owner)
{
    return !((bl_onnx_call *)owner)->import->failed;
}

static void fail_text(void *owner, bl_status status, const char *text)
{
    bl_onnx_fail_as(owner, status, "%s", text);
}

static bl_wire_ref nodes_use_value(void *owner, void *value)
{
    bl_onnx_call *c = owner;
    bl_onnx_value *used = value;

    if (used->sequence)
        bl_onnx_fail(c, "a sequence is not a tensor");
    return used->sequence ? (bl_wire_ref){0} : bl_onnx_use(c->import, c->graph, used);
}

static void *nodes_make_value(void *owner, const bl_node *type, bl_wire_ref ref)
{
    bl_onnx_call *c = owner;
    bl_onnx_value *value = bl_onnx_new_value(c->import, NULL, type);

    if (value != NULL) {
        value->graph = c->graph;
        value->ref = ref;
    }
    return value;
}

static bool nodes_find_number(void *owner, const char *name, const bl_wire_number *preset, bl_wire_number *out)
{
    bl_onnx_call *c = owner;
    const Onnx__AttributeProto *a = bl_onnx_attr(c, name);

    if (a == NULL && preset == NULL)
        return bl_onnx_fail(c, "attribute \"%s\" is missing", name) != NULL;
    if (a == NULL)
        *out = *preset;
    else
        *out = a->has_i ? bl_write_int(bl_onnx_int(c, name, 0)) : bl_write_real(bl_onnx_float(c, name, 0));
    return true;
}

static const char *nodes_size_text(void *owner, const bl_node *size)
{
    bl_onnx_call *c = owner;
    const char *text = bl_onnx_size_text(c->import, size);

    if (text == NULL)
        bl_onnx_fail(c, "the size %s cannot be written with + - * // and %%", bl_shape_text(c->import->ir, 1, &size, NULL));
    return text;
}

bool bl_onnx_make_many(bl_onnx_call *c, const char *text, const bl_write_arg *args, int n, bl_onnx_value **out)
{
    static const bl_write_calls calls = {nodes_is_ok,      fail_text,         nodes_use_value,
                                         nodes_make_value, nodes_find_number, nodes_size_text};
    bl_onnx_importer *m = c->import;
    void *in[MAX_LETTERS] = {0};
    bl_write w = {.calls = &calls,
                  .owner = c,
                  .arena = m->arena,
                  .scratch = m->scratch,
                  .ir = m->ir,
                  .typer = c->graph->typer,
                  .wire = &c->graph->wire,
                  .node_cap = &c->graph->node_cap,
                  .first_state = m->main->wire.ninputs,
                  .max_nodes = m->options->limits.max_nodes,
                  .label = c->label,
                  .nwritten = c->nwritten,
                  .nin = c->nin < MAX_LETTERS ? c->nin : MAX_LETTERS,
                  .in = in};

    for (int i = 0; i < w.nin; i++)
        in[i] = c->in[i];
    bool made = bl_write_many(&w, text, args, n, out);
    c->nwritten = w.nwritten;
    return made;
}

bl_onnx_value *bl_onnx_make(bl_onnx_call *c, const char *text, const bl_write_arg *args)
{
    bl_onnx_value *out = NULL;

    return bl_onnx_make_many(c, text, args, 1, &out) ? out : NULL;
}
