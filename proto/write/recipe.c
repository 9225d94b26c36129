/* SPDX-License-Identifier: MIT */
/* Parses recipes and writes their nodes.  Recipes are constants of the importers, never a client's text, so a syntax error is
 * BL_EBUG. */
#include "proto/write/write.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTRS = 12, MAX_WORD = 64, MAX_TEXT = 400 };

typedef struct reader {
    bl_write *w;
    const char *text, *at;
    const bl_write_arg *args;
    bool failed; /* the recipe has a syntax error (BL_EBUG) */
} reader;

/* A node whose operands are being read. */
typedef struct draft {
    char op[MAX_WORD];
    int nrefs, ref_cap, nattrs;
    bl_wire_ref *refs;
    bool ended; /* an operand was omitted, so no other may follow */
    bl_wire_attr attrs[MAX_ATTRS];
} draft;

static bool recipe_fail_recipe(reader *r, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
static bool recipe_fail_recipe(reader *r, bl_status status, const char *fmt, ...)
{
    char text[MAX_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->w->calls->fail(r->w->owner, status, text);
    return false;
}

static bool fine(const reader *r)
{
    return !r->failed && r->w->calls->ok(r->w->owner);
}

static bool broken(reader *r, const char *why)
{
    if (fine(r))
        (void)recipe_fail_recipe(r, BL_EBUG, "recipe \"%.200s\": %s before \"%.40s\"", r->text, why, r->at);
    r->failed = true;
    return false;
}

static void skip(reader *r)
{
    r->at += strspn(r->at, " ");
}

static bool recipe_take(reader *r, char c)
{
    skip(r);
    bool is = *r->at == c;
    r->at += is;
    return is;
}

static void recipe_take_word(reader *r, char *word)
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

/* ---- arrays of pointers to values, whose type is the importer's */

static void *value_at(const void *values, int i)
{
    void *value;

    memcpy(&value, (const char *)values + (size_t)i * sizeof value, sizeof value);
    return value;
}

static void recipe_put_value(void *values, int i, void *value)
{
    memcpy((char *)values + (size_t)i * sizeof value, &value, sizeof value);
}

/* ---- writing */

static int recipe_compare_attrs(const void *a, const void *b)
{
    return strcmp(((const bl_wire_attr *)a)->name, ((const bl_wire_attr *)b)->name);
}

/* Converts the references for the typer, whose inputs are followed by the states. */
static bl_wire_ref *typer_refs(const bl_write *w, const draft *d)
{
    bl_wire_ref *refs = bl_arena_array(w->scratch, (size_t)d->nrefs, sizeof *refs);

    for (int i = 0; refs != NULL && i < d->nrefs; i++) {
        refs[i] = d->refs[i];
        if (refs[i].kind == BL_REF_STATE) {
            refs[i].kind = BL_REF_INPUT;
            refs[i].index += w->first_state;
        }
    }
    return refs;
}

static const char **make_ids(bl_write *w, int n)
{
    const char **ids = bl_arena_array(w->arena, (size_t)n, sizeof *ids);

    for (int i = 0; ids != NULL && i < n; i++)
        ids[i] = w->nwritten == 0 && i == 0 ? w->label : bl_arena_printf(w->arena, "%.100s:%d", w->label, w->nwritten + i);
    w->nwritten += n;
    return ids;
}

/* Adds the node and gives its types; NULL after a failure. */
static const bl_node *const *add_node(reader *r, const draft *d, int n)
{
    bl_write *w = r->w;
    bl_wire_graph *wire = w->wire;
    void *nodes = wire->nodes;
    bl_err err = {0};

    if (!bl_arena_reserve(w->arena, &nodes, wire->nnodes, w->node_cap, sizeof *wire->nodes))
        return NULL;
    wire->nodes = nodes;
    bl_wire_node *node = &wire->nodes[wire->nnodes];
    *node = (bl_wire_node){.nids = n, .op = bl_arena_strdup(w->arena, d->op), .nrefs = d->nrefs, .nattrs = d->nattrs};
    node->ids = make_ids(w, n);
    node->refs = typer_refs(w, d);
    node->attrs = bl_arena_array(w->arena, (size_t)d->nattrs, sizeof *node->attrs);
    if (node->op == NULL || node->ids == NULL || node->refs == NULL || node->attrs == NULL)
        return NULL;
    memcpy(node->attrs, d->attrs, (size_t)d->nattrs * sizeof *node->attrs);
    if (d->nattrs > 1)
        qsort(node->attrs, (size_t)d->nattrs, sizeof *node->attrs, recipe_compare_attrs);
    const bl_node *const *type = bl_typer_node(w->typer, node);
    bl_status st = bl_ir_status(w->ir, &err);
    node->refs = d->refs;
    if (st != BL_OK)
        (void)recipe_fail_recipe(r, st, "%s", err.text);
    return st == BL_OK ? type : NULL;
}

static bool recipe_write_node(reader *r, const draft *d, int n, void *out)
{
    bl_write *w = r->w;

    if (!fine(r))
        return false;
    if ((size_t)w->wire->nnodes >= w->max_nodes)
        return recipe_fail_recipe(r, BL_ELIMIT, "the graph becomes more than %zu nodes", w->max_nodes);
    const bl_node *const *type = add_node(r, d, n);
    if (type == NULL)
        return fine(r) ? recipe_fail_recipe(r, BL_ENOMEM, "no memory for a node") : false;
    for (int i = 0; i < n; i++) {
        void *value =
            w->calls->make(w->owner, type[i], (bl_wire_ref){.kind = BL_REF_NODE, .index = w->wire->nnodes, .result = i});
        recipe_put_value(out, i, value);
        if (value == NULL)
            return false;
    }
    w->wire->nnodes++;
    return true;
}

/* ---- attributes */

bl_wire_number bl_write_int(int64_t value)
{
    return (bl_wire_number){.whole = true,
                            .negative = value < 0,
                            .magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value,
                            .value = (double)value};
}

bl_wire_number bl_write_real(double value)
{
    if (fabs(value) <= 9007199254740992.0 && trunc(value) == value && !signbit(value)) /* 2^53: larger doubles may be inexact */
        return bl_write_int((int64_t)value);
    return (bl_wire_number){.value = value, .negative = signbit(value)};
}

static bl_wire_attr int_attr(int64_t value)
{
    return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = bl_write_int(value)};
}

static bl_wire_attr text_attr(const bl_write *w, const char *text)
{
    return (bl_wire_attr){.kind = BL_ATTR_STRING, .string = text != NULL ? bl_arena_strdup(w->arena, text) : ""};
}

static bl_wire_attr size_attr(reader *r, const bl_node *size)
{
    const char *text;

    if (bl_is_const(size))
        return int_attr(bl_const_value(size).i);
    text = r->w->calls->size_text(r->w->owner, size);
    return text_attr(r->w, text);
}

static bl_wire_attr recipe_list_attr(reader *r, const bl_write_arg *arg)
{
    bl_wire_attr list = {.kind = BL_ATTR_LIST, .nitems = arg->count};
    bl_wire_attr *item = bl_arena_array(r->w->arena, (size_t)arg->count, sizeof *item);

    for (int i = 0; item != NULL && i < arg->count; i++)
        item[i] = arg->kind == BL_WRITE_INTS ? int_attr(arg->ints[i]) : size_attr(r, arg->sizes[i]);
    list.item = item;
    return list;
}

static bl_wire_attr arg_attr(reader *r, const bl_write_arg *arg)
{
    switch (arg->kind) {
    case BL_WRITE_INT:
        return int_attr(arg->whole);
    case BL_WRITE_REAL:
        return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = bl_write_real(arg->real)};
    case BL_WRITE_FLAG:
        return (bl_wire_attr){.kind = BL_ATTR_BOOL, .boolean = arg->whole != 0};
    case BL_WRITE_TEXT:
        return text_attr(r->w, arg->text);
    case BL_WRITE_INTS:
        return recipe_list_attr(r, arg);
    case BL_WRITE_SIZES:
        return arg->count < 0 ? size_attr(r, arg->sizes[0]) : recipe_list_attr(r, arg);
    case BL_WRITE_BODY:
        return (bl_wire_attr){.kind = BL_ATTR_GRAPH, .graph = arg->body};
    case BL_WRITE_VALUE:
        break;
    }
    broken(r, "a value is not an attribute");
    return (bl_wire_attr){0};
}

static bl_wire_number recipe_take_number(reader *r)
{
    char *end;
    double value = strtod(r->at, &end);

    if (end == r->at)
        broken(r, "expected a number");
    r->at = end;
    return bl_write_real(value);
}

/* Reads "name:preset" after the @. */
static bl_wire_number take_named(reader *r)
{
    bl_wire_number preset = {0}, number = {0};
    char name[MAX_WORD];
    bool optional;

    recipe_take_word(r, name);
    optional = recipe_take(r, ':');
    if (optional)
        preset = recipe_take_number(r);
    if (fine(r))
        (void)r->w->calls->number(r->w->owner, name, optional ? &preset : NULL, &number);
    return number;
}

static bl_wire_attr take_attr(reader *r);

static bl_wire_attr recipe_take_list(reader *r)
{
    bl_wire_attr list = {.kind = BL_ATTR_LIST};
    bl_wire_attr *item = bl_arena_array(r->w->arena, MAX_ATTRS, sizeof *item);

    while (fine(r) && item != NULL && !recipe_take(r, ']') && list.nitems < MAX_ATTRS) {
        item[list.nitems++] = take_attr(r);
        (void)recipe_take(r, ',');
    }
    list.item = item;
    return list;
}

static bl_wire_attr take_attr(reader *r)
{
    char word[MAX_WORD];

    skip(r);
    if (recipe_take(r, '$'))
        return arg_attr(r, &r->args[*r->at++ - '0']);
    if (recipe_take(r, '@'))
        return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = take_named(r)};
    if (recipe_take(r, '['))
        return recipe_take_list(r);
    if (isdigit((unsigned char)*r->at) || *r->at == '-' || *r->at == '.')
        return (bl_wire_attr){.kind = BL_ATTR_NUMBER, .number = recipe_take_number(r)};
    recipe_take_word(r, word);
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        return (bl_wire_attr){.kind = BL_ATTR_BOOL, .boolean = word[0] == 't'};
    return text_attr(r->w, word);
}

/* ---- operands */

static void add_ref(reader *r, draft *d, bl_wire_ref ref)
{
    void *refs = d->refs;

    if (d->ended)
        (void)recipe_fail_recipe(r, BL_EGRAPH, "an input before the last one is left out");
    if (!fine(r) || !bl_arena_reserve(r->w->arena, &refs, d->nrefs, &d->ref_cap, sizeof ref))
        return;
    d->refs = refs;
    d->refs[d->nrefs++] = ref;
}

static void recipe_add_value(reader *r, draft *d, void *value)
{
    if (value == NULL)
        d->ended = true;
    else
        add_ref(r, d, r->w->calls->use(r->w->owner, value));
}

static void add_arg(reader *r, draft *d, const bl_write_arg *arg)
{
    bool many = strncmp(r->at, "...", 3) == 0;

    r->at += many ? 3 : 0;
    if (arg->kind == BL_WRITE_INT)
        add_ref(r, d, (bl_wire_ref){.literal = bl_write_int(arg->whole)});
    else if (arg->kind == BL_WRITE_REAL)
        add_ref(r, d, (bl_wire_ref){.literal = bl_write_real(arg->real)});
    else if (arg->kind != BL_WRITE_VALUE)
        broken(r, "no operand");
    else if (!many)
        recipe_add_value(r, d, arg->value);
    for (int i = 0; many && i < arg->count; i++)
        recipe_add_value(r, d, value_at(arg->values, i));
}

static bool take_call(reader *r, const char *op, int n, void *out);

static void take_operand(reader *r, draft *d, const char *word)
{
    void *inner = NULL;

    if (recipe_take(r, '(')) {
        if (take_call(r, word, 1, &inner))
            recipe_add_value(r, d, inner);
    } else if (word[1] == '\0' && word[0] >= 'a' && word[0] <= 'h') {
        recipe_add_value(r, d, word[0] - 'a' < r->w->nin ? r->w->in[word[0] - 'a'] : NULL);
    } else {
        broken(r, "expected an operand");
    }
}

/* Reads a call after its opening parenthesis.  The nesting of the recipe bounds the recursion. */
static bool take_call(reader *r, const char *op, int n, void *out)
{
    draft d = {.op = ""};
    char word[MAX_WORD];

    memcpy(d.op, op, strlen(op) + 1);
    while (fine(r) && !recipe_take(r, ')')) {
        skip(r);
        if (recipe_take(r, '$')) {
            const bl_write_arg *arg = &r->args[*r->at++ - '0'];
            add_arg(r, &d, arg);
        } else if (recipe_take(r, '@')) {
            add_ref(r, &d, (bl_wire_ref){.literal = take_named(r)});
        } else if (isdigit((unsigned char)*r->at) || *r->at == '-') {
            add_ref(r, &d, (bl_wire_ref){.literal = recipe_take_number(r)});
        } else {
            recipe_take_word(r, word);
            if (fine(r) && recipe_take(r, '=')) {
                bl_wire_attr attr = take_attr(r);
                if (d.nattrs == MAX_ATTRS)
                    return broken(r, "too many attributes");
                attr.name = bl_arena_strdup(r->w->arena, word);
                d.attrs[d.nattrs++] = attr;
            } else if (fine(r)) {
                take_operand(r, &d, word);
            }
        }
        skip(r);
        if (fine(r) && *r->at != ')' && !recipe_take(r, ','))
            return broken(r, "expected , or )");
    }
    return recipe_write_node(r, &d, n, out);
}

bool bl_write_many(bl_write *w, const char *text, const bl_write_arg *args, int n, void *out)
{
    reader r = {.w = w, .text = text, .at = text, .args = args};
    char op[MAX_WORD];

    for (int i = 0; i < n; i++)
        recipe_put_value(out, i, NULL);
    if (!fine(&r))
        return false;
    recipe_take_word(&r, op);
    if (!fine(&r) || !recipe_take(&r, '('))
        return broken(&r, "expected (");
    bool made = take_call(&r, op, n, out);
    return made && (*r.at == '\0' || broken(&r, "expected the end"));
}

void *bl_write_one(bl_write *w, const char *text, const bl_write_arg *args)
{
    void *out = NULL;

    return bl_write_many(w, text, args, 1, &out) ? out : NULL;
}
