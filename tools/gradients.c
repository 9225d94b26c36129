/* SPDX-License-Identifier: MIT */
#include "tools/gradients.h"

#include "engine/base/text.h"
#include "engine/front/front.h"
#include "proto/decode.h"

#include <stdio.h>
#include <string.h>

/* A graph built from its document; close_graph frees it. */
typedef struct built {
    bl_arena *arena;
    bl_json_doc doc;
    bl_run_request request;
    bl_graph *graph;
} built;

static void close_graph(built *b)
{
    bl_graph_destroy(b->graph);
    bl_json_fini(&b->doc);
    bl_arena_destroy(b->arena);
}

static bl_status try_open(built *b, const char *document, bl_err *err)
{
    bl_decode_env env = {.limits = {1000, 1000, BL_MAX_DIMS, 1u << 26}};
    bl_json_limits limits = {0};
    bl_front_options options = {.program = true, .max_bytes = 1u << 30};

    b->arena = env.arena = bl_arena_create(0);
    char *text = bl_arena_strdup(b->arena, document);
    if (text == NULL)
        return bl_fail(err, BL_ENOMEM, "no memory");
    for (char *p = text; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    BL_TRY(bl_json_parse(&b->doc, b->arena, (bl_span){text, strlen(text)}, &limits, err));
    bl_json root = bl_json_root(&b->doc);
    BL_TRY(bl_decode_run(&env, &root, &b->request, err));
    return bl_front_build(&b->request.graph, &options, &b->graph, err);
}

static bool open_graph(built *b, const char *document)
{
    bl_err err = {0};

    *b = (built){.graph = NULL};
    if (try_open(b, document, &err) == BL_OK)
        return true;
    fprintf(stderr, "%s\n%s\n", document, err.text);
    close_graph(b);
    return false;
}

static bool is_float(const bl_node *x)
{
    return bl_dtype_is_float((bl_dtype)x->dtype);
}

/* Whether every element is 0 for all inputs. */
static bool is_nothing(const bl_node *x)
{
    const bl_node *uniform = bl_uniform_const(x);
    return uniform != NULL && bl_const_value(uniform).f == 0;
}

/* The index of the signature's parameter that has operand |at| of the node. */
static int param_of(const bl_sig *sig, int at)
{
    return at < sig->ninputs ? at : sig->ninputs - 1;
}

/* Whether the op itself takes gradients. */
static bool takes_gradients(const bl_sig *sig)
{
    return sig->ninputs > 1 && sig->input[1].kind == BL_SIG_WRT;
}

/* Writes the document of an example, followed by the nodes |tail|; result k is "out<k>".  For an op that takes gradients,
 * exp(x) replaces its first input x, since the gradients of a linear function would be constant. */
static void put_document(bl_text *out, const bl_sig *sig, const bl_example *e, const char *tail, const char *outputs)
{
    const char *first = takes_gradients(sig) ? strstr(e->node, "['x'") : NULL;

    bl_text_clear(out);
    bl_text_printf(out, "{'inputs': %s, 'nodes': [{'id': [", e->inputs);
    for (int i = 0; i < sig->nresults; i++)
        bl_text_printf(out, "%s'out%d'", i == 0 ? "" : ", ", i);
    bl_text_puts(out, "], ");
    if (first == NULL)
        bl_text_puts(out, e->node);
    else
        bl_text_printf(out, "%.*s['exp'%s}, {'id': 'exp', 'op': 'exp', 'in': ['x']", (int)(first - e->node), e->node, first + 4);
    bl_text_printf(out, "}%s], 'outputs': [%s]}", tail, outputs);
}

/* A float input of the graph, and the parameters of the op that have it, one bit each. */
typedef struct float_input {
    const char *name;
    uint32_t params;
} float_input;

/* Writes nodes for the gradients of the sum of all float results to each of |in|, and for the gradients of these gradients. */
static void put_gradients(bl_text *tail, bl_text *outputs, int nresults, const bool *result, int n, const float_input *in)
{
    const char *total = NULL;

    for (int i = 0; i < nresults; i++) {
        if (!result[i])
            continue;
        bl_text_printf(tail, ", {'id': 'sum%d', 'op': 'sum', 'in': ['out%d'], 'attrs': {'dtype': 'float32'}}", i, i);
        bl_text_printf(tail, ", {'id': 'total%d', 'op': 'add', 'in': ['sum%d', %s]}", i, i, total == NULL ? "0" : total);
        total = i == 0 ? "'total0'" : i == 1 ? "'total1'" : i == 2 ? "'total2'" : "'total3'";
    }
    for (int order = 1; order <= 2; order++) {
        for (int i = 0; i < n; i++) { /* order 2: the gradients of the gradient to input i, to each input */
            bl_text_printf(tail, ", {'id': [");
            for (int k = 0; k < (order == 1 ? 1 : n); k++)
                bl_text_printf(tail, "%s'g%d_%d_%d'", k == 0 ? "" : ", ", order, i, k);
            bl_text_printf(tail, "], 'op': 'grad', 'in': [%s", order == 1 ? total : "");
            if (order == 2)
                bl_text_printf(tail, "'flat%d'", i);
            for (int k = 0; k < (order == 1 ? 1 : n); k++)
                bl_text_printf(tail, ", '%s'", in[order == 1 ? i : k].name);
            bl_text_printf(tail, "]}");
            for (int k = 0; k < (order == 1 ? 1 : n); k++)
                bl_text_printf(outputs, "%s'g%d_%d_%d'", outputs->len == 0 ? "" : ", ", order, i, k);
            if (order == 1)
                bl_text_printf(tail, ", {'id': 'flat%d', 'op': 'sum', 'in': ['g1_%d_0'], 'attrs': {'dtype': 'float32'}}", i, i);
        }
    }
}

static int float_inputs(const built *b, const bl_sig *sig, float_input *in)
{
    const bl_wire_node *node = b->request.graph.nodes;
    int n = 0;

    while (strcmp(node->ids[0], "out0") != 0)
        node++; /* the document has this node */
    for (int i = 0; i < node->nrefs && n < BL_SIG_MAX; i++) {
        const bl_wire_ref *ref = &node->refs[i];
        int at = 0;
        if (ref->kind != BL_REF_INPUT || !is_float(b->graph->inputs[ref->index]))
            continue;
        const char *name = b->request.graph.inputs[ref->index].name;
        while (at < n && strcmp(in[at].name, name) != 0)
            at++;
        if (at == n)
            in[n++] = (float_input){.name = name};
        in[at].params |= 1u << param_of(sig, i);
    }
    return n;
}

static void take_gradients(bl_gradients *g, const float_input *in, bool first, bool second)
{
    for (int i = 0; i < BL_SIG_MAX; i++) {
        if (!(in->params >> i & 1u))
            continue;
        g->checked[i] = true;
        g->first[i] = g->first[i] || first;
        g->second[i] = g->second[i] || second;
    }
}

bool bl_gradients_add(bl_gradients *g, const bl_sig *sig, const bl_example *e)
{
    bl_text document = {0}, tail = {0}, outputs = {0};
    float_input in[BL_SIG_MAX];
    int n = 0;
    bool result[BL_SIG_RESULTS] = {false}, some = false, ok;
    built b;

    g->nexamples++;
    for (int i = 0; i < sig->nresults; i++)
        bl_text_printf(&outputs, "%s'out%d'", i == 0 ? "" : ", ", i);
    put_document(&document, sig, e, "", outputs.data);
    ok = open_graph(&b, document.data);
    if (ok) {
        for (int i = 0; i < sig->nresults; i++)
            some |= result[i] = is_float(b.graph->outputs[i]);
        g->floats = g->floats || some;
        n = float_inputs(&b, sig, in);
    }
    if (ok && some && n > 0) {
        bl_text_clear(&outputs);
        put_gradients(&tail, &outputs, sig->nresults, result, n, in);
        put_document(&document, sig, e, tail.data, outputs.data);
        close_graph(&b);
        ok = open_graph(&b, document.data) && float_inputs(&b, sig, in) == n;
    }
    for (int i = 0; ok && i < n; i++) {
        bool second = false;
        for (int k = 0; some && k < n; k++)
            second = second || !is_nothing(b.graph->outputs[n + i * n + k]);
        take_gradients(g, &in[i], some && !is_nothing(b.graph->outputs[i]), second);
    }
    if (ok)
        close_graph(&b);
    bl_text_fini(&document);
    bl_text_fini(&tail);
    bl_text_fini(&outputs);
    return ok;
}
