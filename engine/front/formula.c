/* SPDX-License-Identifier: MIT */
/* Composite ops as formulas: the text of a BL_FORMULA row, evaluated on the operands of one use.
 *
 *   formula    := { statement } value { "," value }                            the last values are the results
 *   statement  := name { "," name } "=" value ";" | "for" name "in" value "{" { statement } "}" | "need(" value, 'text' [, value]
 * ");" value      := comparison { ("&" | "|") comparison } comparison := sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ] sum
 * := product { ("+" | "-") product } product    := factor { ("*" | "/" | "%" | "@") factor } factor     := ("-" | "!") factor |
 * atom [ "**" factor ] atom       := number | 'text' | name | name "(" [ argument { "," argument } ] ")" | "(" value ")" | "[" [
 * value { "," value } ] "]" argument   := value | name "=" value
 *
 * A name is what a statement made last, an input or an attribute.  A call uses another op of the table as a client would:
 * operands by position, attributes by name; one that was left out is left out there too.  Numbers are literals with a client's
 * rules, and those among themselves are reckoned here.  Inputs of kind Float are widened to float32 where they have 16 bits, and
 * the results narrowed again, so that a formula rounds once.  Besides ops there are
 *
 *   if(condition, value, value)   by attributes and numbers, when the graph is built; only one value is evaluated
 *   given(name)                   was the optional input or attribute given?
 *   is_float(x)  is_fixed(x)  is_tall(x)  is_like(x, y)  ndim(x)  size(x, axis)  dtype(x)
 *   length(list)  item(list, n)   of an attribute
 *   for i in n { ... }            the statements n times, with i = 0, 1, ...: each turn makes nodes of its own
 *   loop i in n { ... }           the same as one scan, with i a tensor: what the statements change goes from turn to turn
 *   need(condition, text, x)      or the op fails with the text (and what x is: a shape, a word or a number)
 */
#include "engine/front/build.h"
#include "engine/ir/scan.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 24, MAX_RESULTS = 4 };

typedef enum value_kind { NOTHING, NODE, ATTR } value_kind;

/* What an expression comes to: a node, or what could be an attribute or a literal. */
typedef struct value {
    value_kind kind;
    const bl_node *node;
    bl_wire_attr attr;
} value;

typedef struct reader {
    bl_call *c;
    const char *at;
    int skip;   /* within a branch that is not taken: read, do nothing */
    int wanted; /* results of the call that is read next */
    bool failed;
    const bl_node *input[BL_SIG_MAX];
    int nnames;
    bl_span name[MAX_NAMES];
    value made[MAX_NAMES];
    bool noting; /* which names the statements that are skipped would set */
    int nnoted;
    bl_span noted[MAX_NAMES];
    const bl_node *result[MAX_RESULTS]; /* of a call of several */
} reader;

static value read_value(reader *r);

static value broken(reader *r, const char *what)
{
    if (!r->failed && bl_ir_status(r->c->ir, NULL) == BL_OK)
        bl_call_fail_as(r->c, BL_EBUG, "its formula %s at \"%.24s\"", what, r->at);
    r->failed = true;
    return (value){0};
}

static value node_value(const bl_node *node)
{
    return (value){.kind = NODE, .node = node};
}

static value number_value(double x, bool whole)
{
    value v = {.kind = ATTR, .attr = {.kind = BL_ATTR_NUMBER, .number = {.value = x}}};
    v.attr.number.whole = whole && fabs(x) < 9007199254740992.0; /* 2^53 */
    v.attr.number.negative = x < 0;
    v.attr.number.magnitude = v.attr.number.whole ? (uint64_t)fabs(x) : 0;
    return v;
}

static value flag_value(bool flag)
{
    return (value){.kind = ATTR, .attr = {.kind = BL_ATTR_BOOL, .boolean = flag}};
}

static value text_value(const char *text)
{
    return (value){.kind = ATTR, .attr = {.kind = BL_ATTR_STRING, .string = text}};
}

static bool is_number(const value *v)
{
    return v->kind == ATTR && v->attr.kind == BL_ATTR_NUMBER;
}

/* ---- words */

static char peek(reader *r)
{
    while (*r->at == ' ' || *r->at == '\n')
        r->at++;
    return *r->at;
}

static bool take(reader *r, const char *text)
{
    size_t len = strlen(text);
    peek(r);
    if (strncmp(r->at, text, len) != 0)
        return false;
    r->at += len;
    return true;
}

static bl_span take_name(reader *r)
{
    peek(r);
    const char *start = r->at;
    if (isalpha((unsigned char)*start) || *start == '_')
        while (isalnum((unsigned char)*r->at) || *r->at == '_')
            r->at++;
    return (bl_span){start, (size_t)(r->at - start)};
}

/* ---- uses of ops */

/* Operands and attributes of one call, while they are read. */
typedef struct arguments {
    int noperands, nattrs;
    bl_wire_ref ref[BL_SIG_MAX];
    const bl_node *operand[BL_SIG_MAX];
    bl_wire_attr attr[BL_SIG_MAX];
} arguments;

/* False where there are too many or what cannot be one. */
static bool add_operand(arguments *a, const value *v)
{
    int at = a->noperands;
    if (at == BL_SIG_MAX || !(v->kind == NODE || is_number(v)))
        return false;
    a->ref[at] = (bl_wire_ref){.kind = v->kind == NODE ? BL_REF_NODE : BL_REF_LITERAL};
    if (v->kind == ATTR)
        a->ref[at].literal = v->attr.number;
    a->operand[at] = v->node;
    a->noperands++;
    return true;
}

static value use_op(reader *r, const char *op, arguments *a)
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
        return (value){0};
    if (!bl_build_call(r->c->build, r->c, &node, a->operand, r->result))
        return broken(r, "cannot be evaluated");
    return node_value(r->result[0]);
}

static value use_two(reader *r, const char *op, value x, value y)
{
    arguments a = {.noperands = 0};
    if (r->skip > 0)
        return (value){0};
    if (!add_operand(&a, &x) || !add_operand(&a, &y))
        return broken(r, "has no operand");
    return use_op(r, op, &a);
}

static bool truth(reader *r, const value *v)
{
    if (r->skip > 0)
        return false;
    if (v->kind != ATTR || (v->attr.kind != BL_ATTR_BOOL && v->attr.kind != BL_ATTR_NUMBER))
        broken(r, "has a condition that is none");
    return v->attr.kind == BL_ATTR_BOOL ? v->attr.boolean : v->attr.number.value != 0;
}

/* if(condition, value, value), after its parenthesis. */
static value read_if(reader *r, int wanted)
{
    value condition = read_value(r), result[2];
    bool yes = truth(r, &condition);

    for (int i = 0; i < 2; i++) {
        bool taken = (i == 0) == yes;
        if (!take(r, ","))
            return broken(r, "lacks a comma");
        r->skip += !taken;
        r->wanted = wanted;
        result[i] = read_value(r);
        r->skip -= !taken;
    }
    return take(r, ")") ? result[yes ? 0 : 1] : broken(r, "lacks a parenthesis");
}

static value read_size(reader *r, const value *x)
{
    if (!take(r, ","))
        return broken(r, "lacks a comma");
    value axis = read_value(r);
    if (r->skip > 0 || x->kind != NODE || !is_number(&axis))
        return (value){0};
    int at = bl_call_axis(r->c, (int64_t)axis.attr.number.value, x->node->ndim);
    if (at < 0)
        return broken(r, "has no such axis");
    if (bl_is_const(x->node->dim[at]))
        return number_value((double)x->node->dim[at]->lo, true);
    return node_value(bl_cast(r->c->ir, BL_I64, x->node->dim[at]));
}

/* The number at a place of a list. */
static value read_item(reader *r, const value *list)
{
    value at = take(r, ",") ? read_value(r) : (value){0};
    if (r->skip > 0)
        return (value){0};
    if (list->kind != ATTR || list->attr.kind != BL_ATTR_LIST || !is_number(&at) || at.attr.number.value >= list->attr.nitems)
        return broken(r, "has no such item");
    return (value){.kind = ATTR, .attr = list->attr.item[(int)at.attr.number.value]};
}

static value read_likeness(reader *r, const value *x)
{
    value y = take(r, ",") ? read_value(r) : (value){0};
    if (r->skip > 0)
        return (value){0};
    return y.kind == NODE ? flag_value(bl_shape_equal(x->node, y.node)) : broken(r, "asks about what is no tensor");
}

static bool is_fixed(const bl_node *x)
{
    int at = 0;
    while (at < x->ndim && bl_is_const(x->dim[at]))
        at++;
    return at == x->ndim;
}

/* is_float, is_fixed, is_tall, ndim, dtype by their number. */
static value answer_of(reader *r, const bl_node *x, int which)
{
    if (which == 2)
        return flag_value(x->ndim > 1 && bl_sub(r->c->ir, x->dim[x->ndim - 2], x->dim[x->ndim - 1])->lo > 0);
    return which == 0   ? flag_value(bl_dtype_is_float((bl_dtype)x->dtype))
           : which == 1 ? flag_value(is_fixed(x))
           : which == 3 ? number_value(x->ndim, true)
                        : text_value(bl_dtype_name((bl_dtype)x->dtype));
}

/* A function that asks about a value; *known false where |name| is none. */
static value read_question(reader *r, bl_span name, bool *known)
{
    enum { GIVEN, LENGTH, ITEM, IS_LIKE, SIZE, IS_FLOAT, IS_FIXED, IS_TALL, NDIM, DTYPE, QUESTIONS };
    static const char *const questions[QUESTIONS] = {"given",    "length",   "item",    "is_like", "size",
                                                     "is_float", "is_fixed", "is_tall", "ndim",    "dtype"};
    int which = 0;
    value x, answer = {0};

    while (which < QUESTIONS && !bl_span_is(name, questions[which]))
        which++;
    *known = which < QUESTIONS;
    if (!*known)
        return answer;
    x = read_value(r);
    if (which == GIVEN)
        answer = flag_value(x.kind != NOTHING);
    else if (which == LENGTH)
        answer = number_value(x.kind == ATTR ? x.attr.nitems : 0, true);
    else if (which == ITEM)
        answer = read_item(r, &x);
    else if (r->skip == 0 && x.kind != NODE)
        answer = broken(r, "asks about what is no tensor");
    else if (which == IS_LIKE)
        answer = read_likeness(r, &x);
    else if (which == SIZE)
        answer = read_size(r, &x);
    else if (r->skip == 0)
        answer = answer_of(r, x.node, which - IS_FLOAT);
    return take(r, ")") ? answer : broken(r, "lacks a parenthesis");
}

/* "name =" of an attribute, but not "name ==". */
static bool take_key(reader *r, bl_span *key)
{
    const char *before = r->at;
    *key = take_name(r);
    if (key->len > 0 && peek(r) == '=' && r->at[1] != '=') {
        r->at++;
        return true;
    }
    r->at = before;
    return false;
}

/* One argument into |a|; false after a failure. */
static bool read_argument(reader *r, arguments *a, bool *left_out)
{
    bl_span key;
    bool named = take_key(r, &key);
    value v = read_value(r);

    if (r->failed || r->skip > 0)
        return !r->failed;
    if (v.kind == NOTHING) { /* not given here, hence not there either */
        *left_out = *left_out || !named;
        return true;
    }
    if (!named) {
        if (!*left_out && add_operand(a, &v))
            return true;
        broken(r, "has an operand that is none");
        return false;
    }
    if (a->nattrs == BL_SIG_MAX || v.kind != ATTR) {
        broken(r, "has an attribute that is none");
        return false;
    }
    v.attr.name = bl_arena_strndup(bl_ir_arena(r->c->ir), key.data, key.len);
    a->attr[a->nattrs++] = v.attr;
    return v.attr.name != NULL;
}

/* The use of an op, after its parenthesis. */
static value read_call(reader *r, bl_span name)
{
    arguments a = {.noperands = 0};
    int wanted = r->wanted;
    bool known = false, left_out = false;
    const char *op = NULL;

    r->wanted = 1;
    if (bl_span_is(name, "if"))
        return read_if(r, wanted);
    value answer = read_question(r, name, &known);
    if (known)
        return answer;
    while (!take(r, ")")) {
        if (!read_argument(r, &a, &left_out))
            return (value){0};
        if (!take(r, ",") && peek(r) != ')')
            return broken(r, "lacks a parenthesis");
    }
    op = bl_arena_strndup(bl_ir_arena(r->c->ir), name.data, name.len);
    r->wanted = wanted;
    if (bl_span_is(name, "log") && a.noperands == 1 && a.operand[0] == NULL) /* of a number */
        return number_value(log(a.ref[0].literal.value), false);
    value result = op != NULL ? use_op(r, op, &a) : broken(r, "has no room");
    r->wanted = 1;
    return result;
}

/* ---- expressions */

static value find_name(reader *r, bl_span name)
{
    const bl_sig *sig = &r->c->sig;
    for (int i = r->nnames - 1; i >= 0; i--)
        if (bl_span_eq(r->name[i], name))
            return r->made[i];
    for (int i = 0; i < sig->ninputs; i++)
        if (bl_span_eq(sig->input[i].name, name))
            return r->input[i] != NULL ? node_value(r->input[i]) : (value){0};
    for (int i = 0; i < sig->nattrs; i++)
        if (bl_span_eq(sig->attr[i].name, name))
            return r->c->attr[i].given ? (value){.kind = ATTR, .attr = *r->c->attr[i].from} : (value){0};
    if (bl_span_is(name, "true") || bl_span_is(name, "false"))
        return flag_value(name.len == 4);
    if (bl_span_is(name, "inf"))
        return number_value(HUGE_VAL, false);
    if (bl_span_is(name, "pi"))
        return number_value(3.141592653589793, false);
    return r->skip > 0 ? (value){0} : broken(r, "knows no such name");
}

static value read_list(reader *r)
{
    bl_wire_attr *item = bl_arena_array(bl_ir_arena(r->c->ir), BL_SIG_MAX, sizeof *item);
    value list = {.kind = ATTR, .attr = {.kind = BL_ATTR_LIST, .item = item}};

    while (item != NULL && !take(r, "]")) {
        value v = read_value(r);
        if (r->failed || list.attr.nitems == BL_SIG_MAX)
            return broken(r, "has a list that is none");
        item[list.attr.nitems++] = v.attr;
        if (!take(r, ",") && peek(r) != ']')
            return broken(r, "lacks a bracket");
    }
    return list;
}

static value read_text(reader *r)
{
    size_t len = strcspn(r->at, "'");
    const char *text = bl_arena_strndup(bl_ir_arena(r->c->ir), r->at, len);
    r->at += len;
    return take(r, "'") && text != NULL ? text_value(text) : broken(r, "has an open text");
}

static value read_atom(reader *r)
{
    char first = peek(r);

    if (isdigit((unsigned char)first)) {
        char *end = NULL;
        double x = strtod(r->at, &end);
        bool whole = memchr(r->at, '.', (size_t)(end - r->at)) == NULL && memchr(r->at, 'e', (size_t)(end - r->at)) == NULL;
        r->at = end;
        return number_value(x, whole);
    }
    if (take(r, "'"))
        return read_text(r);
    if (take(r, "["))
        return read_list(r);
    if (take(r, "(")) {
        value inner = read_value(r);
        return take(r, ")") ? inner : broken(r, "lacks a parenthesis");
    }
    bl_span name = take_name(r);
    if (name.len == 0)
        return broken(r, "lacks a value");
    return take(r, "(") ? read_call(r, name) : find_name(r, name);
}

/* Numbers among themselves; |equal| where "=" follows the sign. */
static value reckon(char op, bool equal, double x, double y, bool whole)
{
    switch (op) {
    case '+':
        return number_value(x + y, whole);
    case '-':
        return number_value(x - y, whole);
    case '*':
        return number_value(x * y, whole);
    case '/':
        return number_value(x / y, whole && floor(x / y) * y == x);
    case '%':
        return number_value(x - floor(x / y) * y, whole);
    case '<':
        return flag_value(equal ? x <= y : x < y);
    case '>':
        return flag_value(equal ? x >= y : x > y);
    default:
        return number_value(pow(x, y), whole && y >= 0);
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

/* |text| is the operator, "^" that of powers. */
static value combine(reader *r, const char *text, const char *wire, value x, value y)
{
    char op = text[0];

    if (r->skip > 0 || r->failed)
        return (value){0};
    if (x.kind == ATTR && y.kind == ATTR && (op == '=' || op == '!'))
        return flag_value(same_attr(&x.attr, &y.attr) == (op == '='));
    if (x.kind == ATTR && y.kind == ATTR && (op == '&' || op == '|')) {
        bool a = truth(r, &x), b = truth(r, &y);
        return flag_value(op == '&' ? a && b : a || b);
    }
    if (is_number(&x) && is_number(&y))
        return reckon(op, text[1] == '=', x.attr.number.value, y.attr.number.value, x.attr.number.whole && y.attr.number.whole);
    return use_two(r, wire, x, y);
}

static value read_factor(reader *r)
{
    bool minus = take(r, "-"), not = !minus && take(r, "!");
    value zero = number_value(0, true);

    if (minus || not ) {
        value x = read_factor(r);
        arguments a = {.noperands = 0};
        if (r->skip > 0 || r->failed)
            return (value){0};
        if (x.kind == ATTR)
            return minus ? combine(r, "-", "_sub", zero, x) : flag_value(!truth(r, &x));
        return add_operand(&a, &x) ? use_op(r, minus ? "_neg" : "logical_not", &a) : broken(r, "has no operand");
    }
    value x = read_atom(r);
    if (!take(r, "**"))
        return x;
    value power = read_factor(r);
    return combine(r, "^", "pow", x, power);
}

/* Operators by how tightly they bind, the loosest first. */
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

static const operator* take_operator(reader *r, int level)
{
    for (int i = 0; i < OPERATOR_COUNT; i++)
        if (operators[i].level == level && take(r, operators[i].text))
            return &operators[i];
    return NULL;
}

static value read_level(reader *r, int level)
{
    value x = level == TIGHTEST ? read_factor(r) : read_level(r, level + 1);
    const operator* op = NULL;

    while (!r->failed && (op = take_operator(r, level)) != NULL) {
        value y = level == TIGHTEST ? read_factor(r) : read_level(r, level + 1);
        x = combine(r, op->text, op->wire, x, y);
    }
    return x;
}

static value read_value(reader *r)
{
    return read_level(r, 0);
}

/* ---- statements and results */

static void set_name(reader *r, bl_span name, value v)
{
    int at = 0;

    while (at < r->nnames && !bl_span_eq(r->name[at], name))
        at++;
    if (at == MAX_NAMES) {
        broken(r, "has too many names");
        return;
    }
    r->nnames += at == r->nnames;
    r->name[at] = name;
    r->made[at] = v;
}

static bool read_statement(reader *r);

/* A loop, after its "for": the body is read again for each turn, and once without effect where there is none. */
static void read_loop(reader *r)
{
    bl_span name = take_name(r);
    value count = take(r, "in ") ? read_value(r) : (value){0};
    bool idle = r->skip > 0 || !is_number(&count) || count.attr.number.value < 1;

    if (!take(r, "{") || (r->skip == 0 && !is_number(&count)))
        broken(r, "has a loop that is none");
    const char *body = r->at;
    r->skip += idle;
    for (int i = 0; !r->failed && i < (idle ? 1 : (int)count.attr.number.value); i++) {
        r->at = body;
        if (!idle)
            set_name(r, name, number_value(i, true));
        while (!r->failed && !take(r, "}")) {
            if (!read_statement(r))
                broken(r, "has what is no statement");
        }
    }
    r->skip -= idle;
}

/* Read what stands in braces, to its end, without effect; the names that it sets are noted. */
static void note_body(reader *r)
{
    r->noting = true;
    r->nnoted = 0;
    r->skip++;
    while (!r->failed && !take(r, "}")) {
        if (!read_statement(r))
            broken(r, "has what is no statement");
    }
    r->skip--;
    r->noting = false;
}

static bool is_noted(const reader *r, bl_span name)
{
    for (int i = 0; i < r->nnoted; i++) {
        if (bl_span_eq(r->noted[i], name))
            return true;
    }
    return false;
}

static const bl_node *bound_like(reader *r, int which, const bl_node *src)
{
    return bl_bound(r->c->ir, which, (bl_dtype)src->dtype, src->ndim, src->dim);
}

/* The sources of a loop's scan: what it changes, its counter, and all else that it may read; each name becomes its parameter. */
static void bind_names(reader *r, bl_scan *scan, bl_span counter, const bl_node **src, int *carry)
{
    bl_ir *ir = r->c->ir;
    const bl_sig *sig = &r->c->sig;
    int n = 0;

    for (int i = 0; i < sig->ninputs; i++) { /* an input that is changed is a name from then on */
        if (r->input[i] != NULL && is_noted(r, sig->input[i].name))
            set_name(r, sig->input[i].name, node_value(r->input[i]));
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < r->nnames; i++) {
            if (r->made[i].kind == ATTR && is_noted(r, r->name[i]))
                broken(r, "changes a number in a loop");
            if (r->made[i].kind != NODE || is_noted(r, r->name[i]) != (pass == 0))
                continue;
            if (pass == 0)
                carry[scan->ncarries++] = i;
            else
                scan->nconstants++;
            src[n] = r->made[i].node;
            r->made[i] = node_value(bound_like(r, n, src[n]));
            n++;
        }
        if (pass == 0) {
            src[n] = bl_iota(ir, BL_I32, bl_index(ir, scan->length));
            set_name(r, counter, node_value(bl_bound(ir, n++, BL_I32, 0, NULL)));
            scan->nsequences = 1;
            r->noted[r->nnoted++] = counter; /* no constant, though a name */
        }
    }
    for (int i = 0; i < sig->ninputs; i++) {
        if (r->input[i] == NULL)
            continue;
        src[n] = r->input[i];
        r->input[i] = bound_like(r, n, src[n]);
        n++;
        scan->nconstants++;
    }
}

/* A loop that is a scan, after its "loop": the body is read once. */
static void read_scan(reader *r)
{
    enum { MOST = MAX_NAMES + BL_SIG_MAX + 1 };
    bl_span counter = take_name(r);
    value count = take(r, "in ") ? read_value(r) : (value){0};
    const bl_node *src[MOST], *root[MAX_NAMES], *made = NULL;
    bl_scan scan = {.root = root};
    int carry[MAX_NAMES];
    reader before;

    if (!take(r, "{") || r->noting || (r->skip == 0 && !is_number(&count)))
        broken(r, "has a loop that is none");
    const char *body = r->at;
    note_body(r);
    if (r->skip > 0 || r->failed || count.attr.number.value < 1 || r->nnoted == MAX_NAMES)
        return;
    scan.length = (int64_t)count.attr.number.value;
    before = *r;
    bind_names(r, &scan, counter, src, carry);
    r->at = body;
    while (!r->failed && !take(r, "}")) {
        if (!read_statement(r))
            broken(r, "has what is no statement");
    }
    for (int i = 0; !r->failed && i < scan.ncarries; i++) {
        root[i] = r->made[carry[i]].node;
        if (r->made[carry[i]].kind != NODE || root[i]->dtype != src[i]->dtype || !bl_shape_equal(root[i], src[i]))
            broken(r, "has a loop that changes a dtype or shape");
    }
    if (r->failed)
        return;
    made = bl_scan_make(r->c->ir, &scan, src);
    memcpy(r->input, before.input, sizeof r->input);
    for (int i = 0; i < before.nnames; i++)
        r->made[i] = before.made[i];
    for (int i = 0; i < scan.ncarries; i++)
        r->made[carry[i]] = node_value(bl_scan_result(r->c->ir, made, i));
    r->nnames = before.nnames;
    for (int i = 0; i < scan.ncarries; i++)
        r->nnames = carry[i] >= r->nnames ? carry[i] + 1 : r->nnames;
}

/* The op fails with |text|, and what |x| is instead: a shape, a word or a number. */
static void refuse(reader *r, const char *text, const value *x)
{
    if (x->kind == NOTHING)
        bl_call_fail(r->c, "%s", text);
    else if (is_number(x))
        bl_call_fail(r->c, "%s, not %g", text, x->attr.number.value);
    else
        bl_call_fail(r->c, "%s, not %s", text, x->kind == NODE ? bl_call_shape(r->c, x->node) : x->attr.string);
    r->failed = true;
}

/* A condition, after its "need(". */
static void read_need(reader *r)
{
    value condition = read_value(r), x = {0};
    bool holds = truth(r, &condition) || r->skip > 0, comma = take(r, ",");
    value text = read_value(r);

    if (take(r, ","))
        x = read_value(r);
    if (!comma || !take(r, ")") || !take(r, ";") || text.kind != ATTR || text.attr.kind != BL_ATTR_STRING)
        broken(r, "has a condition that is none");
    else if (!holds && !r->failed)
        refuse(r, text.attr.string, &x);
}

/* False where none stands there, or after a failure. */
static bool read_statement(reader *r)
{
    const char *before = r->at;
    bl_span name[MAX_RESULTS];
    int count = 0;

    do {
        bl_span next = take_name(r);
        if (next.len == 0 || count == MAX_RESULTS)
            break;
        name[count++] = next;
    } while (take(r, ","));
    if (count == 1 && bl_span_is(name[0], "for") && peek(r) != '=') {
        read_loop(r);
        return !r->failed;
    }
    if (count == 1 && bl_span_is(name[0], "loop") && peek(r) != '=') {
        read_scan(r);
        return !r->failed;
    }
    if (count == 1 && bl_span_is(name[0], "need") && take(r, "(")) {
        read_need(r);
        return !r->failed;
    }
    if (count == 0 || peek(r) != '=' || r->at[1] == '=') {
        r->at = before;
        return false;
    }
    for (int i = 0; i < count && r->noting && r->nnoted < MAX_NAMES; i++)
        r->noted[r->nnoted++] = name[i];
    r->at++;
    r->wanted = count;
    value v = read_value(r);
    r->wanted = 1;
    for (int i = 0; i < count && r->skip == 0 && !r->failed; i++)
        set_name(r, name[i], count == 1 ? v : node_value(r->result[i]));
    return take(r, ";") || (broken(r, "lacks a semicolon"), false);
}

/* |x| in the dtype that result |i| has by the signature. */
static const bl_node *narrow(const bl_call *c, int i, const bl_node *x)
{
    bl_span type = c->sig.result[i];
    for (int k = 0; k < c->sig.ninputs && bl_span_is(type, "Float") && x->dtype == BL_F32; k++)
        if (c->sig.input[k].kind == BL_SIG_FLOAT && c->in[k] != NULL)
            return bl_cast(c->ir, (bl_dtype)c->in[k]->dtype, x);
    return x;
}

const bl_node *bl_formula_eval(bl_call *c, const char *text)
{
    reader r = {.c = c, .at = text, .wanted = 1};
    int count = 0;

    for (int i = 0; i < c->sig.ninputs; i++)
        r.input[i] = c->in[i] != NULL && c->sig.input[i].kind == BL_SIG_FLOAT ? bl_widen(c->ir, c->in[i]) : c->in[i];
    while (!r.failed && read_statement(&r))
        ;
    do {
        value v = read_value(&r);
        if (is_number(&v))
            v = node_value(bl_call_literal(c, BL_F32, &v.attr.number));
        if (r.failed || v.kind != NODE || count == c->sig.nresults)
            return broken(&r, "gives no result").node;
        c->result[count] = narrow(c, count, v.node);
        count++;
    } while (take(&r, ","));
    if (peek(&r) != '\0' || count != c->sig.nresults)
        return broken(&r, "does not end").node;
    return c->result[0];
}
