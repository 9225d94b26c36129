/* SPDX-License-Identifier: MIT */
/* Decoding of attributes: from the wire to bl_value, by the parameter kinds of the signature. */
#include "engine/front/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ITEMS = 2 * BL_MAX_DIMS,
    MAX_NESTING = 16, /* nested parentheses in a size */
    MAX_DIGITS = 19,  /* digits of a number in a size, with its sign: fits int64 */
};

static bool wrong_type(bl_call *c, const bl_sig_param *p, const char *wanted)
{
    bl_call_fail_as(c, BL_EINVAL, "attribute \"%.*s\" must be %s", (int)p->name.len, p->name.data, wanted);
    return false;
}

static bool wrong_value(bl_call *c, const bl_sig_param *p, const char *problem)
{
    bl_call_fail(c, "attribute \"%.*s\" %s", (int)p->name.len, p->name.data, problem);
    return false;
}

/* The number as an int64; 3.0 counts as 3. */
static bool take_whole(const bl_wire_number *number, int64_t *out)
{
    if (number->whole) {
        uint64_t limit = (uint64_t)INT64_MAX + (number->negative ? 1u : 0u);
        if (number->magnitude > limit)
            return false;
        *out = number->negative ? (int64_t)(0 - number->magnitude) : (int64_t)number->magnitude;
        return true;
    }
    if (!(fabs(number->value) <= 9007199254740992.0) || trunc(number->value) != number->value) /* 2^53: exact in a double */
        return false;
    *out = (int64_t)number->value;
    return true;
}

static bool decode_whole(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, int64_t *out)
{
    if (a->kind != BL_ATTR_NUMBER)
        return wrong_type(c, p, "a whole number");
    if (take_whole(&a->number, out))
        return true;
    bl_call_fail(c, "attribute \"%.*s\" must be a whole number of 64 bits, not %.17g", (int)p->name.len, p->name.data,
                 a->number.value);
    return false;
}

static bool decode_real(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, double *out)
{
    if (a->kind != BL_ATTR_NUMBER)
        return wrong_type(c, p, "a number");
    *out = a->number.value;
    return true;
}

/* ---- sizes as text: "n", "n + 1", "2 * (n - 1) // m"; spaces separate operators and names (names may have - and /) */

typedef struct size_reader {
    bl_call *c;
    const bl_sig_param *param;
    const char *at;
    int depth;
    bool failed;
} size_reader;

static const bl_node *size_fail(size_reader *r, const char *problem, bl_span word)
{
    if (!r->failed)
        bl_call_fail(r->c, "attribute \"%.*s\": %s \"%.*s\"", (int)r->param->name.len, r->param->name.data, problem,
                     (int)(word.len < 140 ? word.len : 140), word.data);
    r->failed = true;
    return bl_index(r->c->ir, 0);
}

/* The next word of a size, empty at the end. A parenthesis is a word of its own. */
static bl_span size_word(size_reader *r)
{
    r->at += strspn(r->at, " ");
    return (bl_span){r->at, strchr(BL_SIZE_BREAKS, *r->at) != NULL ? *r->at != '\0' : strcspn(r->at, BL_SIZE_BREAKS)};
}

static bool size_take(size_reader *r, const char *word)
{
    bool is = bl_span_is(size_word(r), word);
    r->at += is ? strlen(word) : 0;
    return is;
}

static const bl_node *size_sum(size_reader *r);

static const bl_node *size_factor(size_reader *r)
{
    const bl_wire_graph *wire = r->c->build->wire;
    bl_span word = size_word(r);
    const bl_node *inner;
    char *end;

    if (size_take(r, "(")) {
        if (++r->depth > MAX_NESTING)
            return size_fail(r, "too many parentheses in", (bl_span){r->at, strlen(r->at)});
        inner = size_sum(r);
        r->depth--;
        return size_take(r, ")") ? inner : size_fail(r, "expected \")\" before", (bl_span){r->at, strlen(r->at)});
    }
    r->at += word.len;
    for (int i = 0; i < wire->nvars; i++) {
        if (bl_span_is(word, wire->vars[i].name))
            return bl_front_extent(r->c->ir, i, &wire->vars[i]);
    }
    if (word.len > 0 && word.len < MAX_DIGITS &&
        strspn(word.data + (*word.data == '-'), "0123456789") == word.len - (*word.data == '-')) {
        long long number = strtoll(word.data, &end, 10);
        if (end == word.data + word.len)
            return bl_index(r->c->ir, number);
    }
    return size_fail(r, "no dimension is named", word);
}

static const bl_node *size_product(size_reader *r)
{
    const bl_node *value = size_factor(r);

    while (!r->failed) {
        if (size_take(r, "*")) {
            value = bl_mul(r->c->ir, value, size_factor(r));
        } else if (size_take(r, "//") || size_take(r, "%")) {
            bool quotient = r->at[-1] == '/';
            const bl_node *by = size_factor(r);
            if (by->lo < 1)
                return size_fail(r, "a divisor must be 1 or more for every size, before", (bl_span){r->at, strlen(r->at)});
            value = quotient ? bl_idiv(r->c->ir, value, by) : bl_mod(r->c->ir, value, by);
        } else {
            break;
        }
    }
    return value;
}

static const bl_node *size_sum(size_reader *r)
{
    const bl_node *value = size_product(r);

    while (!r->failed) {
        if (size_take(r, "+"))
            value = bl_add(r->c->ir, value, size_product(r));
        else if (size_take(r, "-"))
            value = bl_sub(r->c->ir, value, size_product(r));
        else
            break;
    }
    return value;
}

static bool attr_read_size(bl_call *c, const bl_sig_param *p, const char *text, const bl_node **out)
{
    size_reader r = {.c = c, .param = p, .at = text};

    *out = size_sum(&r);
    if (!r.failed && size_word(&r).len > 0)
        size_fail(&r, "expected + - * // or % before", (bl_span){r.at, strlen(r.at)});
    return !r.failed && (*out)->op != BL_OP_POISON;
}

static bool decode_size(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, const bl_node **out)
{
    int64_t whole;

    if (a->kind == BL_ATTR_STRING)
        return attr_read_size(c, p, a->string, out);
    if (a->kind != BL_ATTR_NUMBER)
        return wrong_type(c, p, "whole numbers or names of dimensions");
    if (!decode_whole(c, p, a, &whole))
        return false;
    *out = bl_index(c->ir, whole);
    return true;
}

/* A boolean is allowed as a number, for tensors of bool. */
static bl_wire_number attr_take_number(const bl_wire_attr *a)
{
    if (a->kind == BL_ATTR_BOOL)
        return (bl_wire_number){.whole = true, .magnitude = a->boolean, .value = a->boolean};
    return a->number;
}

static bool decode_bound(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, bl_value *v)
{
    int64_t whole;
    if (a->kind == BL_ATTR_STRING)
        return decode_size(c, p, a, &v->size);
    if (a->kind != BL_ATTR_NUMBER && a->kind != BL_ATTR_BOOL)
        return wrong_type(c, p, "a number or a size by names of dimensions");
    v->number = attr_take_number(a);
    v->real = v->number.value;
    if (v->number.whole && take_whole(&v->number, &whole))
        v->size = bl_index(c->ir, whole);
    return true;
}

static bool decode_dtype(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, bl_dtype *out)
{
    bl_near near;

    if (a->kind != BL_ATTR_STRING)
        return wrong_type(c, p, "the name of a dtype");
    *out = bl_dtype_from_name(a->string, strlen(a->string));
    if (*out != BL_DTYPE_COUNT)
        return true;
    bl_dtype_near(&near, (bl_span){a->string, strlen(a->string)});
    bl_call_fail(c, "attribute \"%.*s\": no dtype is named \"%.60s\"%s", (int)p->name.len, p->name.data, a->string,
                 bl_near_hint(&near));
    return false;
}

static bool decode_choice(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, const char **out)
{
    if (a->kind != BL_ATTR_STRING)
        return wrong_type(c, p, "a word");
    const char *at = p->type.data;
    const char *end = at + p->type.len;
    while (at < end) {
        const char *bar = memchr(at, '|', (size_t)(end - at));
        const char *stop = bar == NULL ? end : bar;
        if (bl_span_is((bl_span){at, (size_t)(stop - at)}, a->string)) {
            *out = a->string;
            return true;
        }
        at = stop + 1;
    }
    bl_call_fail(c, "attribute \"%.*s\" must be one of %.*s, not \"%.60s\"", (int)p->name.len, p->name.data, (int)p->type.len,
                 p->type.data, a->string);
    return false;
}

/* Flatten a list of pairs into the arena; a flat list is accepted as it is. */
static bool flatten_pairs(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, const bl_wire_attr **items, int *count)
{
    if (a->kind != BL_ATTR_LIST)
        return wrong_type(c, p, "a list of pairs");
    *items = a->item;
    *count = a->nitems;
    if (a->nitems == 0 || a->item[0].kind != BL_ATTR_LIST)
        return a->nitems % 2 == 0 || wrong_value(c, p, "must have two numbers for each axis");
    if (a->nitems > BL_MAX_DIMS)
        return wrong_value(c, p, "has more pairs than a tensor has axes");
    bl_wire_attr *flat = bl_arena_array(bl_ir_arena(c->ir), 2 * (size_t)a->nitems, sizeof *flat);
    if (flat == NULL)
        return false;
    for (int i = 0; i < a->nitems; i++) {
        if (a->item[i].kind != BL_ATTR_LIST)
            return wrong_type(c, p, "a list of pairs");
        if (a->item[i].nitems != 2)
            return wrong_value(c, p, "must have two numbers for each axis");
        flat[2 * i] = a->item[i].item[0];
        flat[2 * i + 1] = a->item[i].item[1];
    }
    *items = flat;
    *count = 2 * a->nitems;
    return true;
}

static bool decode_list(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, bl_value *v)
{
    const bl_wire_attr *items = a->kind == BL_ATTR_LIST ? a->item : a;
    int count = a->kind == BL_ATTR_LIST ? a->nitems : 1;
    if (p->kind == BL_SIG_PAIRS && !flatten_pairs(c, p, a, &items, &count))
        return false;
    if (count > MAX_ITEMS)
        return wrong_value(c, p, "has too many items");
    bl_arena *arena = bl_ir_arena(c->ir);
    int64_t *wholes = bl_arena_array(arena, (size_t)count, sizeof *wholes);
    double *reals = bl_arena_array(arena, (size_t)count, sizeof *reals);
    const bl_node **sizes = bl_arena_array(arena, (size_t)count, sizeof *sizes);
    if (wholes == NULL || reals == NULL || sizes == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        bool ok = p->kind == BL_SIG_WHOLES  ? decode_whole(c, p, &items[i], &wholes[i])
                  : p->kind == BL_SIG_REALS ? decode_real(c, p, &items[i], &reals[i])
                                            : decode_size(c, p, &items[i], &sizes[i]);
        if (!ok)
            return false;
    }
    v->count = count;
    v->wholes = wholes;
    v->reals = reals;
    v->sizes = sizes;
    return true;
}

static bool attr_decode(bl_call *c, const bl_sig_param *p, const bl_wire_attr *a, bl_value *v)
{
    v->given = true;
    v->from = a;
    switch (p->kind) {
    case BL_SIG_WHOLE:
        return decode_whole(c, p, a, &v->whole);
    case BL_SIG_REAL:
        return decode_real(c, p, a, &v->real);
    case BL_SIG_FLAG:
        v->flag = a->boolean;
        return a->kind == BL_ATTR_BOOL || wrong_type(c, p, "true or false");
    case BL_SIG_NUMBER:
        v->number = attr_take_number(a);
        return a->kind == BL_ATTR_NUMBER || a->kind == BL_ATTR_BOOL || wrong_type(c, p, "a number");
    case BL_SIG_RATE:
        v->number = a->number;
        v->text = a->kind == BL_ATTR_STRING ? a->string : NULL;
        v->ref = a->ref;
        return a->kind == BL_ATTR_NUMBER || a->kind == BL_ATTR_STRING || wrong_type(c, p, "a number or a name");
    case BL_SIG_SIZE:
        return decode_size(c, p, a, &v->size);
    case BL_SIG_BOUND:
        return decode_bound(c, p, a, v);
    case BL_SIG_DTYPE:
        return decode_dtype(c, p, a, &v->dtype);
    case BL_SIG_CHOICE:
        return decode_choice(c, p, a, &v->text);
    case BL_SIG_TEXT:
        v->text = a->string;
        return a->kind == BL_ATTR_STRING || wrong_type(c, p, "a string");
    case BL_SIG_GRAPH:
        v->graph = a->graph;
        return a->kind == BL_ATTR_GRAPH ||
               wrong_type(c, p, "a graph: {\"inputs\": [names], \"nodes\": [...], \"outputs\": [...]}");
    case BL_SIG_WHOLES:
    case BL_SIG_REALS:
    case BL_SIG_SIZES:
    case BL_SIG_PAIRS:
        return decode_list(c, p, a, v);
    case BL_SIG_T:
    case BL_SIG_FLOAT:
    case BL_SIG_INT:
    case BL_SIG_BITS:
    case BL_SIG_BOOL:
    case BL_SIG_ANY:
    case BL_SIG_WRT:
    case BL_SIG_KINDS:
        break;
    }
    bl_call_fail_as(c, BL_EBUG, "no decoder for attribute \"%.*s\"", (int)p->name.len, p->name.data);
    return false;
}

static bool attr_is_number(const char *text)
{
    return (*text >= '0' && *text <= '9') || *text == '-';
}

static bl_wire_attr preset_number(const char *text)
{
    bl_wire_attr a = {.kind = BL_ATTR_NUMBER};
    a.number.value = strtod(text, NULL);
    a.number.whole = trunc(a.number.value) == a.number.value;
    a.number.negative = a.number.value < 0;
    a.number.magnitude = a.number.whole ? (uint64_t)fabs(a.number.value) : 0;
    return a;
}

/* Decode a default as if the client had written it. */
static bool decode_preset(bl_call *c, const bl_sig_param *p, bl_value *v)
{
    bl_arena *arena = bl_ir_arena(c->ir);
    const char *text = bl_arena_strndup(arena, p->preset.data, p->preset.len);
    bl_wire_attr *item = bl_arena_array(arena, BL_SIG_MAX, sizeof *item), *a = bl_arena_alloc(arena, sizeof *a);
    if (text == NULL || item == NULL || a == NULL)
        return false;
    if (p->kind != BL_SIG_CHOICE && (bl_span_is(p->preset, "none") || bl_span_is(p->preset, "all")))
        return true; /* no value */
    if (*text == '[') {
        *a = (bl_wire_attr){.kind = BL_ATTR_LIST, .item = item};
        for (const char *at = text; *at != '\0' && *at != ']' && a->nitems < BL_SIG_MAX; at += strcspn(at, ",]"))
            item[a->nitems++] = preset_number(++at);
    } else if (attr_is_number(text)) {
        *a = preset_number(text);
    } else if (p->kind == BL_SIG_FLAG) {
        *a = (bl_wire_attr){.kind = BL_ATTR_BOOL, .boolean = bl_span_is(p->preset, "true")};
    } else {
        *a = (bl_wire_attr){.kind = BL_ATTR_STRING, .string = text};
    }
    return attr_decode(c, p, a, v);
}

static const bl_sig_param *find_param(const bl_sig *sig, const char *name, int *index)
{
    for (int i = 0; i < sig->nattrs; i++) {
        if (bl_span_is(sig->attr[i].name, name)) {
            *index = i;
            return &sig->attr[i];
        }
    }
    return NULL;
}

static void fail_unknown(bl_call *c, const char *name)
{
    char known[300] = "none";
    size_t used = 0;
    bl_near near;

    bl_near_init(&near, (bl_span){name, strlen(name)});
    for (int i = 0; i < c->sig.nattrs; i++)
        bl_near_offer(&near, c->sig.attr[i].name);
    for (int i = 0; i < c->sig.nattrs && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%.*s", i > 0 ? ", " : "", (int)c->sig.attr[i].name.len,
                                 c->sig.attr[i].name.data);
    bl_call_fail(c, "unknown attribute \"%.100s\"; the op takes %s%s", name, known, bl_near_hint(&near));
}

bool bl_call_decode_attrs(bl_call *c)
{
    bool seen[BL_SIG_MAX] = {false};
    for (int i = 0; i < c->node->nattrs; i++) {
        const bl_wire_attr *a = &c->node->attrs[i];
        int at = 0;
        const bl_sig_param *p = find_param(&c->sig, a->name, &at);
        if (p == NULL) {
            fail_unknown(c, a->name);
            return false;
        }
        if (a->kind == BL_ATTR_NULL && p->optional)
            continue; /* like an absent attribute */
        seen[at] = true;
        if (!attr_decode(c, p, a, &c->attr[at]))
            return false;
    }
    for (int i = 0; i < c->sig.nattrs; i++) {
        const bl_sig_param *p = &c->sig.attr[i];
        if (seen[i])
            continue;
        if (!p->optional) {
            bl_call_fail(c, "attribute \"%.*s\" is missing", (int)p->name.len, p->name.data);
            return false;
        }
        if (!decode_preset(c, p, &c->attr[i]))
            return false;
    }
    return true;
}

const bl_value *bl_attr(bl_call *c, const char *name)
{
    static const bl_value nothing;
    int at = 0;
    if (find_param(&c->sig, name, &at) != NULL)
        return &c->attr[at];
    bl_call_fail_as(c, BL_EBUG, "the signature has no attribute \"%s\"", name);
    return &nothing;
}

int bl_call_axis(bl_call *c, int64_t axis, int ndim)
{
    if (axis >= -ndim && axis < ndim)
        return (int)(axis < 0 ? axis + ndim : axis);
    bl_call_fail(c, "axis %lld is out of range for a tensor of %d dimension%s", (long long)axis, ndim, ndim == 1 ? "" : "s");
    return -1;
}

bool bl_call_axes(bl_call *c, const bl_value *value, int ndim, uint32_t *mask)
{
    *mask = 0;
    if (!value->given) {
        *mask = (1u << ndim) - 1;
        return true;
    }
    for (int i = 0; i < value->count; i++) {
        int axis = bl_call_axis(c, value->wholes[i], ndim);
        if (axis < 0)
            return false;
        if (*mask >> axis & 1u) {
            bl_call_fail(c, "axis %d is given twice", axis);
            return false;
        }
        *mask |= 1u << axis;
    }
    return true;
}

bool bl_call_each(bl_call *c, const char *name, int64_t low, int n, int64_t *each)
{
    const bl_value *v = bl_attr(c, name);
    if (v->count != 1 && v->count != n) {
        bl_call_fail(c, "attribute \"%s\" must be one number or %d", name, n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        each[i] = v->wholes[v->count == n ? i : 0];
        if (each[i] < low || each[i] > INT32_MAX) {
            bl_call_fail(c, "attribute \"%s\" must be between %lld and %d, not %lld", name, (long long)low, INT32_MAX,
                         (long long)each[i]);
            return false;
        }
    }
    return true;
}
