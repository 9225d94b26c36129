/* SPDX-License-Identifier: MIT */
/* Wire nodes from text: see import.h.  The texts are ours, from ops.def and the functions beside it. */
#include "proto/onnx/import.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTRS = 12, MAX_WORD = 64 };

typedef struct reader {
    bl_onnx_call *c;
    const char *text, *at;
    const bl_onnx_arg *args;
    bool failed; /* the text is wrong: our bug */
} reader;

/* A node while its operands are read. */
typedef struct draft {
    char op[MAX_WORD];
    int nrefs, ref_cap, nattrs;
    bl_wire_ref *refs;
    bool ended; /* an operand was left out: no other may follow */
    bl_wire_attr attrs[MAX_ATTRS];
} draft;

static bool broken(reader *r, const char *why)
{
    if (!r->failed && !r->c->import->failed)
        bl_onnx_fail_as(r->c, BL_EBUG, "recipe \"%.200s\": %s before \"%.40s\"", r->text, why, r->at);
    r->failed = true;
    return false;
}

static bool fine(const reader *r)
{
    return !r->failed && !r->c->import->failed;
}

static void skip(reader *r)
{
    r->at += strspn(r->at, " ");
}

static bool take(reader *r, char c)
{
    skip(r);
    bool is = *r->at == c;
    r->at += is;
    return is;
}

static void take_word(reader *r, char *word)
{
    size_t len = 0;

    skip(r);
    while (isalnum((unsigned char)r->at[len]) || r->at[len] == '_')
        len++;
    if (len == 0 || len >= MAX_WORD) {
        broken(r, "expected a word");
        len = 0;
    }
    memcpy(word, r->at, len);
    word[len] = '\0';
    r->at += len;
}

/* ---- writing */

static int compare_attrs(const void *a, const void *b)
{
    return strcmp(((const bl_wire_attr *)a)->name, ((const bl_wire_attr *)b)->name);
}

/* The references as the typer wants them: it has states behind the inputs. */
static bl_wire_ref *typer_refs(bl_onnx_importer *m, const draft *d)
{
    bl_wire_ref *refs = bl_arena_array(m->scratch, (size_t)d->nrefs, sizeof *refs);

    for (int i = 0; refs != NULL && i < d->nrefs; i++) {
        refs[i] = d->refs[i];
        if (refs[i].kind == BL_REF_STATE) {
            refs[i].kind = BL_REF_INPUT;
            refs[i].index += m->main->wire.ninputs;
        }
    }
    return refs;
}

static const char **make_ids(bl_onnx_call *c, int n)
{
    const char **ids = bl_arena_array(c->import->arena, (size_t)n, sizeof *ids);

    for (int i = 0; ids != NULL && i < n; i++)
        ids[i] =
            c->nwritten == 0 && i == 0 ? c->label : bl_arena_printf(c->import->arena, "%.100s:%d", c->label, c->nwritten + i);
    c->nwritten += n;
    return ids;
}

static bool write(reader *r, const draft *d, int n, bl_onnx_value **out)
{
    bl_onnx_call *c = r->c;
    bl_onnx_importer *m = c->import;
    bl_onnx_graph *graph = c->graph;
    void *nodes = graph->wire.nodes;
    bl_err err = {0};

    if (!fine(r))
        return false;
    if ((size_t)graph->wire.nnodes >= m->options->limits.max_nodes)
        return bl_onnx_fail_as(c, BL_ELIMIT, "the graph becomes more than %zu nodes", m->options->limits.max_nodes) != NULL;
    if (!bl_arena_reserve(m->arena, &nodes, graph->wire.nnodes, &graph->node_cap, sizeof *graph->wire.nodes))
        return bl_onnx_fail_as(c, BL_ENOMEM, "no memory for a node") != NULL;
    graph->wire.nodes = nodes;
    bl_wire_node *node = &graph->wire.nodes[graph->wire.nnodes];
    *node = (bl_wire_node){.nids = n, .op = bl_arena_strdup(m->arena, d->op), .nrefs = d->nrefs, .nattrs = d->nattrs};
    node->ids = make_ids(c, n);
    node->refs = typer_refs(m, d);
    node->attrs = bl_arena_array(m->arena, (size_t)d->nattrs, sizeof *node->attrs);
    if (node->op == NULL || node->ids == NULL || node->refs == NULL || node->attrs == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "no memory for a node") != NULL;
    memcpy(node->attrs, d->attrs, (size_t)d->nattrs * sizeof *node->attrs);
    if (d->nattrs > 1)
        qsort(node->attrs, (size_t)d->nattrs, sizeof *node->attrs, compare_attrs);
    const bl_node *const *type = bl_typer_node(graph->typer, node);
    bl_status st = bl_ir_status(m->ir, &err);
    if (type == NULL || st != BL_OK)
        return bl_onnx_fail_as(c, err.status != BL_OK ? err.status : BL_ENOMEM, "%s", err.text) != NULL;
    node->refs = d->refs;
    for (int i = 0; i < n; i++) {
        out[i] = bl_onnx_new_value(m, NULL, type[i]);
        if (out[i] == NULL)
            return false;
        out[i]->graph = graph;
        out[i]->ref = (bl_wire_ref){.kind = BL_REF_NODE, .index = graph->wire.nnodes, .result = i};
    }
    graph->wire.nnodes++;
    return true;
}

/* ---- attributes */

static bl_wire_number whole_number(int64_t value)
{
    return (bl_wire_number){.whole = true,
                            .negative = value < 0,
                            .magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value,
                            .value = (double)value};
}

static bl_wire_number real_number(double value)
{
    if (fabs(value) <= 9007199254740992.0 && trunc(value) == value && !signbit(value)) /* 2^53: whole, and exact */
        return whole_number((int64_t)value);
    return (bl_wire_number){.value = value, .negative = signbit(value)};
}

static bl_wire_attr int_attr(int64_t value)
{
    return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = whole_number(value)};
}

static bl_wire_attr text_attr(bl_onnx_importer *m, const char *text)
{
    return (bl_wire_attr){.kind = BL_ATTR_STRING, .string = text != NULL ? bl_arena_strdup(m->arena, text) : ""};
}

static bl_wire_attr size_attr(reader *r, const bl_node *size)
{
    const char *text;

    if (bl_is_const(size))
        return int_attr(bl_const_value(size).i);
    text = bl_onnx_size_text(r->c->import, size);
    if (text == NULL)
        bl_onnx_fail(r->c, "the size %s cannot be written with + - * // and %%", bl_shape_text(r->c->import->ir, 1, &size, NULL));
    return text_attr(r->c->import, text);
}

static bl_wire_attr list_attr(reader *r, const bl_onnx_arg *arg)
{
    bl_wire_attr list = {.kind = BL_ATTR_LIST, .nitems = arg->count};
    bl_wire_attr *item = bl_arena_array(r->c->import->arena, (size_t)arg->count, sizeof *item);

    for (int i = 0; item != NULL && i < arg->count; i++)
        item[i] = arg->kind == BL_ONNX_ARG_INTS ? int_attr(arg->ints[i]) : size_attr(r, arg->sizes[i]);
    list.item = item;
    return list;
}

static bl_wire_attr arg_attr(reader *r, const bl_onnx_arg *arg)
{
    switch (arg->kind) {
    case BL_ONNX_ARG_INT:
        return int_attr(arg->whole);
    case BL_ONNX_ARG_REAL:
        return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = real_number(arg->real)};
    case BL_ONNX_ARG_FLAG:
        return (bl_wire_attr){.kind = BL_ATTR_BOOL, .boolean = arg->whole != 0};
    case BL_ONNX_ARG_TEXT:
        return text_attr(r->c->import, arg->text);
    case BL_ONNX_ARG_INTS:
        return list_attr(r, arg);
    case BL_ONNX_ARG_SIZES:
        return arg->count < 0 ? size_attr(r, arg->sizes[0]) : list_attr(r, arg);
    case BL_ONNX_ARG_BODY:
        return (bl_wire_attr){.kind = BL_ATTR_GRAPH, .graph = arg->body};
    case BL_ONNX_ARG_VALUE:
        break;
    }
    broken(r, "a value is no attribute");
    return (bl_wire_attr){0};
}

static bl_wire_number take_number(reader *r)
{
    char *end;
    double value = strtod(r->at, &end);

    if (end == r->at)
        broken(r, "expected a number");
    r->at = end;
    return real_number(value);
}

/* "@name:preset": the number that the ONNX node has, or the preset. */
static bl_wire_number take_onnx_attr(reader *r)
{
    const Onnx__AttributeProto *a;
    bl_wire_number preset = {0};
    char name[MAX_WORD];
    bool optional;

    take_word(r, name);
    optional = take(r, ':');
    if (optional)
        preset = take_number(r);
    a = bl_onnx_attr(r->c, name);
    if (a == NULL && !optional)
        bl_onnx_fail(r->c, "attribute \"%s\" is missing", name);
    if (a == NULL)
        return preset;
    if (a->has_i)
        return whole_number(bl_onnx_int(r->c, name, 0));
    return real_number(bl_onnx_float(r->c, name, 0));
}

static bl_wire_attr take_list(reader *r)
{
    bl_wire_attr list = {.kind = BL_ATTR_LIST};
    bl_wire_attr *item = bl_arena_array(r->c->import->arena, MAX_ATTRS, sizeof *item);

    while (fine(r) && item != NULL && !take(r, ']') && list.nitems < MAX_ATTRS) {
        item[list.nitems++] = (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = take_number(r)};
        (void)take(r, ',');
    }
    list.item = item;
    return list;
}

static bl_wire_attr take_attr(reader *r)
{
    char word[MAX_WORD];

    skip(r);
    if (take(r, '$'))
        return arg_attr(r, &r->args[*r->at++ - '0']);
    if (take(r, '@'))
        return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = take_onnx_attr(r)};
    if (take(r, '['))
        return take_list(r);
    if (isdigit((unsigned char)*r->at) || *r->at == '-' || *r->at == '.')
        return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = take_number(r)};
    take_word(r, word);
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        return (bl_wire_attr){.kind = BL_ATTR_BOOL, .boolean = word[0] == 't'};
    return text_attr(r->c->import, word);
}

/* ---- operands */

static void add_ref(reader *r, draft *d, bl_wire_ref ref)
{
    void *refs = d->refs;

    if (d->ended)
        bl_onnx_fail(r->c, "an input before the last one is left out");
    if (!fine(r) || !bl_arena_reserve(r->c->import->arena, &refs, d->nrefs, &d->ref_cap, sizeof ref))
        return;
    d->refs = refs;
    d->refs[d->nrefs++] = ref;
}

static void add_value(reader *r, draft *d, bl_onnx_value *value)
{
    if (value == NULL)
        d->ended = true;
    else if (value->sequence)
        bl_onnx_fail(r->c, "a sequence is no tensor");
    else
        add_ref(r, d, bl_onnx_use(r->c->import, r->c->graph, value));
}

static void add_arg(reader *r, draft *d, const bl_onnx_arg *arg)
{
    bool many = strncmp(r->at, "...", 3) == 0;

    r->at += many ? 3 : 0;
    if (arg->kind == BL_ONNX_ARG_INT)
        add_ref(r, d, (bl_wire_ref){.literal = whole_number(arg->whole)});
    else if (arg->kind == BL_ONNX_ARG_REAL)
        add_ref(r, d, (bl_wire_ref){.literal = real_number(arg->real)});
    else if (arg->kind != BL_ONNX_ARG_VALUE)
        broken(r, "no operand");
    else if (!many)
        add_value(r, d, arg->value);
    for (int i = 0; many && i < arg->count; i++)
        add_value(r, d, arg->values[i]);
}

static bool take_call(reader *r, const char *op, int n, bl_onnx_value **out);

static void take_operand(reader *r, draft *d, const char *word)
{
    bl_onnx_value *inner = NULL;

    if (take(r, '(')) {
        if (take_call(r, word, 1, &inner))
            add_value(r, d, inner);
    } else if (word[1] == '\0' && word[0] >= 'a' && word[0] <= 'h') {
        add_value(r, d, word[0] - 'a' < r->c->nin ? r->c->in[word[0] - 'a'] : NULL);
    } else {
        broken(r, "expected an operand");
    }
}

/* As deep as our texts are.  Behind the opening parenthesis. */
static bool take_call(reader *r, const char *op, int n, bl_onnx_value **out)
{
    draft d = {.op = ""};
    char word[MAX_WORD];

    memcpy(d.op, op, strlen(op) + 1);
    while (fine(r) && !take(r, ')')) {
        skip(r);
        if (take(r, '$')) {
            const bl_onnx_arg *arg = &r->args[*r->at++ - '0'];
            add_arg(r, &d, arg);
        } else if (take(r, '@')) {
            add_ref(r, &d, (bl_wire_ref){.literal = take_onnx_attr(r)});
        } else if (isdigit((unsigned char)*r->at) || *r->at == '-') {
            add_ref(r, &d, (bl_wire_ref){.literal = take_number(r)});
        } else {
            take_word(r, word);
            if (fine(r) && take(r, '=')) {
                bl_wire_attr attr = take_attr(r);
                if (d.nattrs == MAX_ATTRS)
                    return broken(r, "too many attributes");
                attr.name = bl_arena_strdup(r->c->import->arena, word);
                d.attrs[d.nattrs++] = attr;
            } else if (fine(r)) {
                take_operand(r, &d, word);
            }
        }
        skip(r);
        if (fine(r) && *r->at != ')' && !take(r, ','))
            return broken(r, "expected , or )");
    }
    return write(r, &d, n, out);
}

bool bl_onnx_make_many(bl_onnx_call *c, const char *text, const bl_onnx_arg *args, int n, bl_onnx_value **out)
{
    reader r = {.c = c, .text = text, .at = text, .args = args};
    char op[MAX_WORD];

    for (int i = 0; i < n; i++)
        out[i] = NULL;
    if (c->import->failed)
        return false;
    take_word(&r, op);
    if (!fine(&r) || !take(&r, '('))
        return broken(&r, "expected (");
    bool made = take_call(&r, op, n, out);
    return made && (*r.at == '\0' || broken(&r, "expected the end"));
}

bl_onnx_value *bl_onnx_make(bl_onnx_call *c, const char *text, const bl_onnx_arg *args)
{
    bl_onnx_value *out = NULL;

    return bl_onnx_make_many(c, text, args, 1, &out) ? out : NULL;
}
