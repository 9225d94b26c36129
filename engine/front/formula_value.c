/* SPDX-License-Identifier: MIT */
/* Expressions of a formula: words, calls of ops, queries and operators. formula_parts.h describes the language. */
#include "engine/front/formula_parts.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bl_formula_value bl_formula_broken(bl_formula_reader *r, const char *what)
{
    if (!r->failed && bl_ir_status(r->c->ir, NULL) == BL_OK)
        bl_call_fail_as(r->c, BL_EBUG, "its formula %s at \"%.24s\"", what, r->at);
    r->failed = true;
    return (bl_formula_value){0};
}

bl_formula_value bl_formula_node_value(const bl_node *node)
{
    return (bl_formula_value){.kind = BL_FORMULA_NODE, .node = node};
}

bl_formula_value bl_formula_number_value(double x, bool whole)
{
    bl_formula_value v = {.kind = BL_FORMULA_ATTR, .attr = {.kind = BL_ATTR_NUMBER, .number = {.value = x}}};
    v.attr.number.whole = whole && fabs(x) < 9007199254740992.0; /* 2^53 */
    v.attr.number.negative = x < 0;
    v.attr.number.magnitude = v.attr.number.whole ? (uint64_t)fabs(x) : 0;
    return v;
}

static bl_formula_value flag_value(bool flag)
{
    return (bl_formula_value){.kind = BL_FORMULA_ATTR, .attr = {.kind = BL_ATTR_BOOL, .boolean = flag}};
}

static bl_formula_value text_value(const char *text)
{
    return (bl_formula_value){.kind = BL_FORMULA_ATTR, .attr = {.kind = BL_ATTR_STRING, .string = text}};
}

bool bl_formula_is_number(const bl_formula_value *v)
{
    return v->kind == BL_FORMULA_ATTR && v->attr.kind == BL_ATTR_NUMBER;
}

/* ---- words */

char bl_formula_peek(bl_formula_reader *r)
{
    while (*r->at == ' ' || *r->at == '\n')
        r->at++;
    return *r->at;
}

bool bl_formula_take(bl_formula_reader *r, const char *text)
{
    size_t len = strlen(text);
    bl_formula_peek(r);
    if (strncmp(r->at, text, len) != 0)
        return false;
    r->at += len;
    return true;
}

bl_span bl_formula_take_name(bl_formula_reader *r)
{
    bl_formula_peek(r);
    const char *start = r->at;
    if (isalpha((unsigned char)*start) || *start == '_')
        while (isalnum((unsigned char)*r->at) || *r->at == '_')
            r->at++;
    return (bl_span){start, (size_t)(r->at - start)};
}

/* ---- uses of ops */

/* The operands and attributes of a call while they are read. */
typedef struct arguments {
    int noperands, nattrs;
    bl_wire_ref ref[BL_SIG_MAX];
    const bl_node *operand[BL_SIG_MAX];
    bl_wire_attr attr[BL_SIG_MAX];
} arguments;

/* Add an operand. False if there are too many, or if |v| cannot be one. */
static bool add_operand(arguments *a, const bl_formula_value *v)
{
    int at = a->noperands;
    if (at == BL_SIG_MAX || !(v->kind == BL_FORMULA_NODE || bl_formula_is_number(v)))
        return false;
    a->ref[at] = (bl_wire_ref){.kind = v->kind == BL_FORMULA_NODE ? BL_REF_NODE : BL_REF_LITERAL};
    if (v->kind == BL_FORMULA_ATTR)
        a->ref[at].literal = v->attr.number;
    a->operand[at] = v->node;
    a->noperands++;
    return true;
}

static bl_formula_value use_op(bl_formula_reader *r, const char *op, arguments *a)
{
    int wanted = r->wanted;
    bl_wire_node node = {.nids = wanted,
                         .ids = r->c->node->ids,
                         .op = op,
                         .nrefs = a->noperands,
                         .refs = a->ref,
                         .nattrs = a->nattrs,
                         .attrs = a->attr};

    if (r->skip > 0 || r->failed)
        return (bl_formula_value){0};
    if (!bl_build_call(r->c->build, r->c, &node, a->operand, r->result))
        return bl_formula_broken(r, "cannot be evaluated");
    return bl_formula_node_value(r->result[0]);
}

static bl_formula_value use_two(bl_formula_reader *r, const char *op, bl_formula_value x, bl_formula_value y)
{
    arguments a = {.noperands = 0};
    if (r->skip > 0)
        return (bl_formula_value){0};
    if (!add_operand(&a, &x) || !add_operand(&a, &y))
        return bl_formula_broken(r, "has no operand");
    return use_op(r, op, &a);
}

bool bl_formula_truth(bl_formula_reader *r, const bl_formula_value *v)
{
    if (r->skip > 0)
        return false;
    if (v->kind != BL_FORMULA_ATTR || (v->attr.kind != BL_ATTR_BOOL && v->attr.kind != BL_ATTR_NUMBER))
        bl_formula_broken(r, "has a malformed condition");
    return v->attr.kind == BL_ATTR_BOOL ? v->attr.boolean : v->attr.number.value != 0;
}

/* if(condition, value, value), after its parenthesis. */
static bl_formula_value read_if(bl_formula_reader *r, int wanted)
{
    bl_formula_value condition = bl_formula_read_value(r), result[2];
    bool yes = bl_formula_truth(r, &condition);

    for (int i = 0; i < 2; i++) {
        bool taken = (i == 0) == yes;
        if (!bl_formula_take(r, ","))
            return bl_formula_broken(r, "lacks a comma");
        r->skip += !taken;
        r->wanted = wanted;
        result[i] = bl_formula_read_value(r);
        r->skip -= !taken;
    }
    return bl_formula_take(r, ")") ? result[yes ? 0 : 1] : bl_formula_broken(r, "lacks a parenthesis");
}

static bl_formula_value formula_value_read_size(bl_formula_reader *r, const bl_formula_value *x)
{
    if (!bl_formula_take(r, ","))
        return bl_formula_broken(r, "lacks a comma");
    bl_formula_value axis = bl_formula_read_value(r);
    if (r->skip > 0 || x->kind != BL_FORMULA_NODE || !bl_formula_is_number(&axis))
        return (bl_formula_value){0};
    int at = bl_call_axis(r->c, (int64_t)axis.attr.number.value, x->node->ndim);
    if (at < 0)
        return bl_formula_broken(r, "has no such axis");
    if (bl_is_const(x->node->dim[at]))
        return bl_formula_number_value((double)x->node->dim[at]->lo, true);
    return bl_formula_node_value(bl_cast(r->c->ir, BL_I64, x->node->dim[at]));
}

/* The number at a position of a list. */
static bl_formula_value read_item(bl_formula_reader *r, const bl_formula_value *list)
{
    bl_formula_value at = bl_formula_take(r, ",") ? bl_formula_read_value(r) : (bl_formula_value){0};
    if (r->skip > 0)
        return (bl_formula_value){0};
    if (list->kind != BL_FORMULA_ATTR || list->attr.kind != BL_ATTR_LIST || !bl_formula_is_number(&at) ||
        at.attr.number.value >= list->attr.nitems)
        return bl_formula_broken(r, "has no such item");
    return (bl_formula_value){.kind = BL_FORMULA_ATTR, .attr = list->attr.item[(int)at.attr.number.value]};
}

static bl_formula_value read_likeness(bl_formula_reader *r, const bl_formula_value *x)
{
    bl_formula_value y = bl_formula_take(r, ",") ? bl_formula_read_value(r) : (bl_formula_value){0};
    if (r->skip > 0)
        return (bl_formula_value){0};
    return y.kind == BL_FORMULA_NODE ? flag_value(bl_shape_equal(x->node, y.node))
                                     : bl_formula_broken(r, "asks for a property of a value that is not a tensor");
}

static bool formula_value_is_fixed(const bl_node *x)
{
    int at = 0;
    while (at < x->ndim && bl_is_const(x->dim[at]))
        at++;
    return at == x->ndim;
}

/* The query number |which| of is_float, is_fixed, is_tall, ndim, dtype. */
static bl_formula_value answer_of(bl_formula_reader *r, const bl_node *x, int which)
{
    if (which == 2)
        return flag_value(x->ndim > 1 && bl_sub(r->c->ir, x->dim[x->ndim - 2], x->dim[x->ndim - 1])->lo > 0);
    return which == 0   ? flag_value(bl_dtype_is_float((bl_dtype)x->dtype))
           : which == 1 ? flag_value(formula_value_is_fixed(x))
           : which == 3 ? bl_formula_number_value(x->ndim, true)
                        : text_value(bl_dtype_name((bl_dtype)x->dtype));
}

/* A query about a value; *known is false if |name| is no query. */
static bl_formula_value read_question(bl_formula_reader *r, bl_span name, bool *known)
{
    enum { GIVEN, LENGTH, ITEM, IS_LIKE, SIZE, IS_FLOAT, IS_FIXED, IS_TALL, NDIM, DTYPE, QUESTIONS };
    static const char *const questions[QUESTIONS] = {"given",    "length",   "item",    "is_like", "size",
                                                     "is_float", "is_fixed", "is_tall", "ndim",    "dtype"};
    int which = 0;
    bl_formula_value x, answer = {0};

    while (which < QUESTIONS && !bl_span_is(name, questions[which]))
        which++;
    *known = which < QUESTIONS;
    if (!*known)
        return answer;
    x = bl_formula_read_value(r);
    if (which == GIVEN)
        answer = flag_value(x.kind != BL_FORMULA_NOTHING);
    else if (which == LENGTH)
        answer = bl_formula_number_value(x.kind == BL_FORMULA_ATTR ? x.attr.nitems : 0, true);
    else if (which == ITEM)
        answer = read_item(r, &x);
    else if (r->skip == 0 && x.kind != BL_FORMULA_NODE)
        answer = bl_formula_broken(r, "asks for a property of a value that is not a tensor");
    else if (which == IS_LIKE)
        answer = read_likeness(r, &x);
    else if (which == SIZE)
        answer = formula_value_read_size(r, &x);
    else if (r->skip == 0)
        answer = answer_of(r, x.node, which - IS_FLOAT);
    return bl_formula_take(r, ")") ? answer : bl_formula_broken(r, "lacks a parenthesis");
}

/* Read "name =" of an attribute, but not "name ==". */
static bool formula_value_take_key(bl_formula_reader *r, bl_span *key)
{
    const char *before = r->at;
    *key = bl_formula_take_name(r);
    if (key->len > 0 && bl_formula_peek(r) == '=' && r->at[1] != '=') {
        r->at++;
        return true;
    }
    r->at = before;
    return false;
}

/* Read one argument into |a|. False after a failure. */
static bool read_argument(bl_formula_reader *r, arguments *a, bool *left_out)
{
    bl_span key;
    bool named = formula_value_take_key(r, &key);
    bl_formula_value v = bl_formula_read_value(r);

    if (r->failed || r->skip > 0)
        return !r->failed;
    if (v.kind == BL_FORMULA_NOTHING) { /* an absent value makes the argument absent */
        *left_out = *left_out || !named;
        return true;
    }
    if (!named) {
        if (!*left_out && add_operand(a, &v))
            return true;
        bl_formula_broken(r, "has a malformed operand");
        return false;
    }
    if (a->nattrs == BL_SIG_MAX || v.kind != BL_FORMULA_ATTR) {
        bl_formula_broken(r, "has a malformed attribute");
        return false;
    }
    v.attr.name = bl_arena_strndup(bl_ir_arena(r->c->ir), key.data, key.len);
    a->attr[a->nattrs++] = v.attr;
    return v.attr.name != NULL;
}

/* A call of an op, after its parenthesis. */
static bl_formula_value read_call(bl_formula_reader *r, bl_span name)
{
    arguments a = {.noperands = 0};
    int wanted = r->wanted;
    bool known = false, left_out = false;
    const char *op = NULL;

    r->wanted = 1;
    if (bl_span_is(name, "if"))
        return read_if(r, wanted);
    bl_formula_value answer = read_question(r, name, &known);
    if (known)
        return answer;
    while (!bl_formula_take(r, ")")) {
        if (!read_argument(r, &a, &left_out))
            return (bl_formula_value){0};
        if (!bl_formula_take(r, ",") && bl_formula_peek(r) != ')')
            return bl_formula_broken(r, "lacks a parenthesis");
    }
    op = bl_arena_strndup(bl_ir_arena(r->c->ir), name.data, name.len);
    r->wanted = wanted;
    if (bl_span_is(name, "log") && a.noperands == 1 && a.operand[0] == NULL) /* the logarithm of a number is a number */
        return bl_formula_number_value(log(a.ref[0].literal.value), false);
    bl_formula_value result = op != NULL ? use_op(r, op, &a) : bl_formula_broken(r, "has no room");
    r->wanted = 1;
    return result;
}

/* ---- expressions */

static bl_formula_value formula_value_find_name(bl_formula_reader *r, bl_span name)
{
    const bl_sig *sig = &r->c->sig;
    for (int i = r->nnames - 1; i >= 0; i--)
        if (bl_span_eq(r->name[i], name))
            return r->made[i];
    for (int i = 0; i < sig->ninputs; i++)
        if (bl_span_eq(sig->input[i].name, name))
            return r->input[i] != NULL ? bl_formula_node_value(r->input[i]) : (bl_formula_value){0};
    for (int i = 0; i < sig->nattrs; i++)
        if (bl_span_eq(sig->attr[i].name, name))
            return r->c->attr[i].given ? (bl_formula_value){.kind = BL_FORMULA_ATTR, .attr = *r->c->attr[i].from}
                                       : (bl_formula_value){0};
    if (bl_span_is(name, "true") || bl_span_is(name, "false"))
        return flag_value(name.len == 4);
    if (bl_span_is(name, "inf"))
        return bl_formula_number_value(HUGE_VAL, false);
    if (bl_span_is(name, "pi"))
        return bl_formula_number_value(3.141592653589793, false);
    return r->skip > 0 ? (bl_formula_value){0} : bl_formula_broken(r, "has an unknown name");
}

static bl_formula_value formula_value_read_list(bl_formula_reader *r)
{
    bl_wire_attr *item = bl_arena_array(bl_ir_arena(r->c->ir), BL_SIG_MAX, sizeof *item);
    bl_formula_value list = {.kind = BL_FORMULA_ATTR, .attr = {.kind = BL_ATTR_LIST, .item = item}};

    while (item != NULL && !bl_formula_take(r, "]")) {
        bl_formula_value v = bl_formula_read_value(r);
        if (r->failed || list.attr.nitems == BL_SIG_MAX)
            return bl_formula_broken(r, "has a malformed list");
        item[list.attr.nitems++] = v.attr;
        if (!bl_formula_take(r, ",") && bl_formula_peek(r) != ']')
            return bl_formula_broken(r, "lacks a bracket");
    }
    return list;
}

static bl_formula_value formula_value_read_text(bl_formula_reader *r)
{
    size_t len = strcspn(r->at, "'");
    const char *text = bl_arena_strndup(bl_ir_arena(r->c->ir), r->at, len);
    r->at += len;
    return bl_formula_take(r, "'") && text != NULL ? text_value(text) : bl_formula_broken(r, "has an open text");
}

static bl_formula_value read_atom(bl_formula_reader *r)
{
    char first = bl_formula_peek(r);

    if (isdigit((unsigned char)first)) {
        char *end = NULL;
        double x = strtod(r->at, &end);
        bool whole = memchr(r->at, '.', (size_t)(end - r->at)) == NULL && memchr(r->at, 'e', (size_t)(end - r->at)) == NULL;
        r->at = end;
        return bl_formula_number_value(x, whole);
    }
    if (bl_formula_take(r, "'"))
        return formula_value_read_text(r);
    if (bl_formula_take(r, "["))
        return formula_value_read_list(r);
    if (bl_formula_take(r, "(")) {
        bl_formula_value inner = bl_formula_read_value(r);
        return bl_formula_take(r, ")") ? inner : bl_formula_broken(r, "lacks a parenthesis");
    }
    bl_span name = bl_formula_take_name(r);
    if (name.len == 0)
        return bl_formula_broken(r, "lacks a value");
    return bl_formula_take(r, "(") ? read_call(r, name) : formula_value_find_name(r, name);
}

/* Arithmetic on numbers; |equal| if "=" follows the operator. */
static bl_formula_value reckon(char op, bool equal, double x, double y, bool whole)
{
    switch (op) {
    case '+':
        return bl_formula_number_value(x + y, whole);
    case '-':
        return bl_formula_number_value(x - y, whole);
    case '*':
        return bl_formula_number_value(x * y, whole);
    case '/':
        return bl_formula_number_value(x / y, whole && floor(x / y) * y == x);
    case '%':
        return bl_formula_number_value(x - floor(x / y) * y, whole);
    case '<':
        return flag_value(equal ? x <= y : x < y);
    case '>':
        return flag_value(equal ? x >= y : x > y);
    default:
        return bl_formula_number_value(pow(x, y), whole && y >= 0);
    }
}

static bool same_attr(const bl_wire_attr *x, const bl_wire_attr *y)
{
    if (x->kind != y->kind)
        return false;
    return x->kind == BL_ATTR_STRING   ? strcmp(x->string, y->string) == 0
           : x->kind == BL_ATTR_BOOL   ? x->boolean == y->boolean
           : x->kind == BL_ATTR_NUMBER ? x->number.value == y->number.value
                                       : false;
}

/* Apply the operator |text|; "^" stands for powers. */
static bl_formula_value formula_value_combine(bl_formula_reader *r, const char *text, const char *wire, bl_formula_value x,
                                              bl_formula_value y)
{
    char op = text[0];

    if (r->skip > 0 || r->failed)
        return (bl_formula_value){0};
    if (x.kind == BL_FORMULA_ATTR && y.kind == BL_FORMULA_ATTR && (op == '=' || op == '!'))
        return flag_value(same_attr(&x.attr, &y.attr) == (op == '='));
    if (x.kind == BL_FORMULA_ATTR && y.kind == BL_FORMULA_ATTR && (op == '&' || op == '|')) {
        bool a = bl_formula_truth(r, &x), b = bl_formula_truth(r, &y);
        return flag_value(op == '&' ? a && b : a || b);
    }
    if (bl_formula_is_number(&x) && bl_formula_is_number(&y))
        return reckon(op, text[1] == '=', x.attr.number.value, y.attr.number.value, x.attr.number.whole && y.attr.number.whole);
    return use_two(r, wire, x, y);
}

static bl_formula_value read_factor(bl_formula_reader *r)
{
    bool minus = bl_formula_take(r, "-"), not = !minus && bl_formula_take(r, "!");
    bl_formula_value zero = bl_formula_number_value(0, true);

    if (minus || not ) {
        bl_formula_value x = read_factor(r);
        arguments a = {.noperands = 0};
        if (r->skip > 0 || r->failed)
            return (bl_formula_value){0};
        if (x.kind == BL_FORMULA_ATTR)
            return minus ? formula_value_combine(r, "-", "_sub", zero, x) : flag_value(!bl_formula_truth(r, &x));
        return add_operand(&a, &x) ? use_op(r, minus ? "_neg" : "logical_not", &a) : bl_formula_broken(r, "has no operand");
    }
    bl_formula_value x = read_atom(r);
    if (!bl_formula_take(r, "**"))
        return x;
    bl_formula_value power = read_factor(r);
    return formula_value_combine(r, "^", "pow", x, power);
}

/* Operators by precedence, lowest first. */
typedef struct operator
{
    const char *text, *wire;
    int level;
}
operator;

static const operator operators[] = {
    {"&", "logical_and", 0}, {"|", "logical_or", 0}, {"<=", "less_equal", 1}, {">=", "greater_equal", 1},
    {"==", "equal", 1},      {"!=", "not_equal", 1}, {"<", "less", 1},        {">", "greater", 1},
    {"+", "add", 2},         {"-", "_sub", 2},       {"*", "mul", 3},         {"/", "div", 3},
    {"%", "mod", 3},         {"@", "matmul", 3},
};
enum { OPERATOR_COUNT = sizeof operators / sizeof operators[0], TIGHTEST = 3 };

static const operator* take_operator(bl_formula_reader *r, int level)
{
    for (int i = 0; i < OPERATOR_COUNT; i++)
        if (operators[i].level == level && bl_formula_take(r, operators[i].text))
            return &operators[i];
    return NULL;
}

static bl_formula_value formula_value_read_level(bl_formula_reader *r, int level)
{
    bl_formula_value x = level == TIGHTEST ? read_factor(r) : formula_value_read_level(r, level + 1);
    const operator* op = NULL;

    while (!r->failed && (op = take_operator(r, level)) != NULL) {
        bl_formula_value y = level == TIGHTEST ? read_factor(r) : formula_value_read_level(r, level + 1);
        x = formula_value_combine(r, op->text, op->wire, x, y);
    }
    return x;
}

bl_formula_value bl_formula_read_value(bl_formula_reader *r)
{
    return formula_value_read_level(r, 0);
}
