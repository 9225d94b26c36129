/* SPDX-License-Identifier: MIT */
/* The recursive-descent parser of Jinja2 expressions. */
#include "proto/chat/jinja_parts.h"

#include <string.h>

enum {
    MOST_DEPTH = 200, /* nesting of statements and expressions */
    MOST_HEIGHT = 500 /* height of a tree; each operator of a chain adds one */
};

/* ---- failures and nodes */

bl_jinja_node *bl_jinja_refuse(bl_jinja_parser *p, int line, const char *what, bl_span name)
{
    if (!p->failed)
        (void)bl_fail(p->err, BL_EINVAL, "chat template, line %d: %s%s%.*s%s", line, what, name.data != NULL ? " '" : "",
                      name.len > 100 ? 100 : (int)name.len, name.data != NULL ? name.data : "", name.data != NULL ? "'" : "");
    p->failed = true;
    return NULL;
}

/* How an error names the current token. */
bl_span bl_jinja_says(const bl_jinja_token *t)
{
    const char *text = bl_jinja_token_says(t->kind);
    return t->kind == BL_JINJA_T_NAME ? t->text : (bl_span){text, strlen(text)};
}

void bl_jinja_advance(bl_jinja_parser *p)
{
    p->t += p->t->kind != BL_JINJA_T_EOF;
}

bool bl_jinja_is_name(const bl_jinja_token *t, const char *name)
{
    return t->kind == BL_JINJA_T_NAME && bl_span_is(t->text, name);
}

bool bl_jinja_skip(bl_jinja_parser *p, bl_jinja_kind_of_token kind)
{
    bool found = p->t->kind == kind;
    if (found)
        bl_jinja_advance(p);
    return found;
}

bool bl_jinja_skip_name(bl_jinja_parser *p, const char *name)
{
    bool found = bl_jinja_is_name(p->t, name);
    if (found)
        bl_jinja_advance(p);
    return found;
}

const bl_jinja_token *bl_jinja_expect(bl_jinja_parser *p, bl_jinja_kind_of_token kind)
{
    const bl_jinja_token *t = p->t;
    if (t->kind == kind) {
        bl_jinja_advance(p);
        return t;
    }
    if (!p->failed) {
        const char *wants = bl_jinja_token_says(kind);
        if (t->kind == BL_JINJA_T_EOF)
            (void)bl_fail(p->err, BL_EINVAL, "chat template, line %d: unexpected end of template, expected '%s'", t->line, wants);
        else
            (void)bl_fail(p->err, BL_EINVAL, "chat template, line %d: expected token '%s', got '%.*s'", t->line, wants,
                          bl_jinja_says(t).len > 60 ? 60 : (int)bl_jinja_says(t).len, bl_jinja_says(t).data);
    }
    p->failed = true;
    return NULL;
}

bool bl_jinja_expect_name(bl_jinja_parser *p, const char *name)
{
    if (bl_jinja_skip_name(p, name))
        return true;
    if (!p->failed)
        (void)bl_fail(p->err, BL_EINVAL, "chat template, line %d: expected token '%s', got '%.*s'", p->t->line, name,
                      bl_jinja_says(p->t).len > 60 ? 60 : (int)bl_jinja_says(p->t).len, bl_jinja_says(p->t).data);
    p->failed = true;
    return false;
}

/* NULL once the parser has failed. */
bl_jinja_node *bl_jinja_node_make(bl_jinja_parser *p, bl_jinja_op op, int line)
{
    bl_jinja_node *node = p->failed ? NULL : bl_arena_alloc(p->arena, sizeof *node);
    if (node == NULL) {
        p->failed = true;
        return NULL;
    }
    node->op = op;
    node->line = line;
    node->height = 1;
    return node;
}

void bl_jinja_node_grow(bl_jinja_parser *p, bl_jinja_node *node, const bl_jinja_node *child)
{
    if (node == NULL || child == NULL)
        return;
    node->height = node->height > child->height ? node->height : child->height + 1;
    if (node->height > MOST_HEIGHT) {
        if (!p->failed)
            (void)bl_fail(p->err, BL_ELIMIT, "chat template, line %d: more than %d expressions within each other", node->line,
                          MOST_HEIGHT);
        p->failed = true;
    }
}

void bl_jinja_node_add(bl_jinja_parser *p, bl_jinja_node *owner, bl_jinja_nodes *list, bl_jinja_node *node)
{
    void *at = list->at;
    if (p->failed || !bl_arena_reserve(p->arena, &at, list->count, &list->cap, sizeof(bl_jinja_node *))) {
        p->failed = true;
        return;
    }
    list->at = at;
    list->at[list->count++] = node;
    bl_jinja_node_grow(p, owner, node);
}

bl_jinja_node *bl_jinja_node_of(bl_jinja_parser *p, bl_jinja_op op, int line, bl_jinja_node *a, bl_jinja_node *b,
                                bl_jinja_node *c)
{
    bl_jinja_node *node = bl_jinja_node_make(p, op, line);
    if (node == NULL)
        return NULL;
    node->a = a;
    node->b = b;
    node->c = c;
    bl_jinja_node_grow(p, node, a);
    bl_jinja_node_grow(p, node, b);
    bl_jinja_node_grow(p, node, c);
    return node;
}

static bl_jinja_node *make_operator(bl_jinja_parser *p, bl_jinja_op op, const bl_jinja_token *t, bl_jinja_node *a,
                                    bl_jinja_node *b)
{
    bl_jinja_node *node = bl_jinja_node_of(p, op, t->line, a, b, NULL);
    if (node != NULL)
        node->token = t->kind;
    return node;
}

bl_jinja_node *bl_jinja_node_named(bl_jinja_parser *p, bl_jinja_op op, const bl_jinja_token *t, bl_jinja_node *a)
{
    bl_jinja_node *node = t != NULL ? bl_jinja_node_of(p, op, t->line, a, NULL, NULL) : NULL;
    if (node != NULL)
        node->name = t->text;
    return node;
}

bool bl_jinja_deepen(bl_jinja_parser *p)
{
    if (++p->depth > MOST_DEPTH && !p->failed) {
        (void)bl_fail(p->err, BL_ELIMIT, "chat template, line %d: more than %d statements and expressions within each other",
                      p->t->line, MOST_DEPTH);
        p->failed = true;
    }
    return !p->failed;
}

/* ---- primary expressions */

static bl_jinja_node *parse_primary(bl_jinja_parser *p, bool with_fields);

static bool ends_tuple(const bl_jinja_parser *p, const char *end)
{
    return p->failed || p->t->kind == BL_JINJA_T_VARIABLE_END || p->t->kind == BL_JINJA_T_BLOCK_END ||
           p->t->kind == BL_JINJA_T_RPAREN || (end != NULL && bl_jinja_is_name(p->t, end));
}

/* Parses one expression, or several separated by commas.  |end|: a name that ends the list. */
bl_jinja_node *bl_jinja_parse_tuple(bl_jinja_parser *p, int how, const char *end)
{
    bl_jinja_node *tuple = bl_jinja_node_make(p, BL_JINJA_MAKE_TUPLE, p->t->line);
    bool is_tuple = false;
    while (tuple != NULL && !p->failed) {
        if (tuple->items.count > 0)
            (void)bl_jinja_expect(p, BL_JINJA_T_COMMA);
        if (ends_tuple(p, end))
            break;
        bl_jinja_node_add(p, tuple, &tuple->items,
                          how & BL_JINJA_SIMPLE ? parse_primary(p, (how & BL_JINJA_WITH_FIELDS) != 0)
                                                : bl_jinja_parse_expression(p, (how & BL_JINJA_WITH_CONDITION) != 0));
        if (p->t->kind != BL_JINJA_T_COMMA)
            break;
        is_tuple = true;
    }
    if (p->failed || tuple == NULL || is_tuple)
        return tuple;
    if (tuple->items.count == 1)
        return tuple->items.at[0];
    return how & BL_JINJA_IN_PARENTHESES ? tuple
                                         : bl_jinja_refuse(p, p->t->line, "Expected an expression, got", bl_jinja_says(p->t));
}

static bl_jinja_node *parse_sequence(bl_jinja_parser *p, bl_jinja_op op, bl_jinja_kind_of_token end)
{
    bl_jinja_node *node = bl_jinja_node_make(p, op, p->t->line);
    bl_jinja_advance(p);
    while (!p->failed && p->t->kind != end) {
        if (node->items.count > 0)
            (void)bl_jinja_expect(p, BL_JINJA_T_COMMA);
        if (p->t->kind == end)
            break;
        bl_jinja_node_add(p, node, &node->items, bl_jinja_parse_expression(p, true));
        if (op == BL_JINJA_MAKE_DICT) {
            (void)bl_jinja_expect(p, BL_JINJA_T_COLON);
            bl_jinja_node_add(p, node, &node->items, bl_jinja_parse_expression(p, true));
        }
    }
    (void)bl_jinja_expect(p, end);
    return node;
}

static bl_jinja_node *make_constant(bl_jinja_parser *p, const bl_jinja_token *t, bl_jinja_value value)
{
    bl_jinja_node *node = bl_jinja_node_make(p, BL_JINJA_CONST, t->line);
    if (node != NULL)
        node->value = value;
    return node;
}

static bl_jinja_node *parse_name(bl_jinja_parser *p, bool with_fields)
{
    const bl_jinja_token *t = p->t;
    bl_jinja_advance(p);
    if (bl_jinja_is_name(t, "true") || bl_jinja_is_name(t, "True"))
        return make_constant(p, t, bl_jinja_bool(true));
    if (bl_jinja_is_name(t, "false") || bl_jinja_is_name(t, "False"))
        return make_constant(p, t, bl_jinja_bool(false));
    if (bl_jinja_is_name(t, "none") || bl_jinja_is_name(t, "None"))
        return make_constant(p, t, bl_jinja_none());
    if (with_fields && bl_jinja_skip(p, BL_JINJA_T_DOT)) {
        bl_jinja_node *field = bl_jinja_node_named(p, BL_JINJA_FIELD, t, NULL);
        const bl_jinja_token *member = bl_jinja_expect(p, BL_JINJA_T_NAME);
        if (field != NULL && member != NULL)
            field->value = bl_jinja_string(member->text);
        return field;
    }
    bl_jinja_node *node = bl_jinja_node_named(p, BL_JINJA_NAME, t, NULL);
    p->reads |= bl_jinja_is_name(t, "caller")    ? BL_JINJA_READS_CALLER
                : bl_jinja_is_name(t, "kwargs")  ? BL_JINJA_READS_KWARGS
                : bl_jinja_is_name(t, "varargs") ? BL_JINJA_READS_VARARGS
                                                 : 0;
    bl_jinja_node_add(p, NULL, p->names, node);
    return node;
}

static bl_jinja_node *parse_strings(bl_jinja_parser *p)
{
    const bl_jinja_token *first = p->t;
    size_t len = 0;
    for (; p->t->kind == BL_JINJA_T_STRING; bl_jinja_advance(p))
        len += p->t->text.len;
    char *text = bl_arena_alloc(p->arena, len + 1), *at = text;
    for (const bl_jinja_token *t = first; text != NULL && t->kind == BL_JINJA_T_STRING; t++) {
        memcpy(at, t->text.data, t->text.len);
        at += t->text.len;
    }
    return make_constant(p, first, bl_jinja_string((bl_span){text != NULL ? text : "", text != NULL ? len : 0}));
}

static bl_jinja_node *parse_primary(bl_jinja_parser *p, bool with_fields)
{
    const bl_jinja_token *t = p->t;
    bl_jinja_node *node = NULL;
    if (t->kind == BL_JINJA_T_NAME)
        return parse_name(p, with_fields);
    if (t->kind == BL_JINJA_T_STRING)
        return parse_strings(p);
    if (t->kind == BL_JINJA_T_INTEGER || t->kind == BL_JINJA_T_FLOAT) {
        bl_jinja_advance(p);
        return make_constant(p, t, t->kind == BL_JINJA_T_INTEGER ? bl_jinja_int(t->integer) : bl_jinja_float(t->number));
    }
    if (!bl_jinja_deepen(p))
        return NULL;
    if (t->kind == BL_JINJA_T_LPAREN) {
        bl_jinja_advance(p);
        node = bl_jinja_parse_tuple(p, BL_JINJA_WITH_CONDITION | BL_JINJA_IN_PARENTHESES, NULL);
        (void)bl_jinja_expect(p, BL_JINJA_T_RPAREN);
    } else if (t->kind == BL_JINJA_T_LBRACKET) {
        node = parse_sequence(p, BL_JINJA_MAKE_LIST, BL_JINJA_T_RBRACKET);
    } else if (t->kind == BL_JINJA_T_LBRACE) {
        node = parse_sequence(p, BL_JINJA_MAKE_DICT, BL_JINJA_T_RBRACE);
    } else {
        node = bl_jinja_refuse(p, t->line, "unexpected", bl_jinja_says(t));
    }
    p->depth--;
    return node;
}

/* ---- postfix expressions: arguments, subscripts, filters and tests */

static void parse_argument(bl_jinja_parser *p, bl_jinja_node *call, int line)
{
    bool fits = true;
    if (bl_jinja_skip(p, BL_JINJA_T_MUL)) {
        fits = call->b == NULL && call->c == NULL;
        call->b = bl_jinja_parse_expression(p, true);
        bl_jinja_node_grow(p, call, call->b);
    } else if (bl_jinja_skip(p, BL_JINJA_T_POW)) {
        fits = call->c == NULL;
        call->c = bl_jinja_parse_expression(p, true);
        bl_jinja_node_grow(p, call, call->c);
    } else if (p->t->kind == BL_JINJA_T_NAME && p->t[1].kind == BL_JINJA_T_ASSIGN) {
        bl_jinja_node *named = bl_jinja_node_named(p, BL_JINJA_OPERAND, p->t, NULL);
        fits = call->c == NULL;
        p->t += 2;
        bl_jinja_node *value = bl_jinja_parse_expression(p, true);
        if (named != NULL)
            named->a = value;
        bl_jinja_node_grow(p, named, value);
        bl_jinja_node_add(p, call, &call->more, named);
    } else {
        fits = call->b == NULL && call->c == NULL && call->more.count == 0;
        bl_jinja_node_add(p, call, &call->items, bl_jinja_parse_expression(p, true));
    }
    if (!fits)
        (void)bl_jinja_refuse(p, line, "invalid syntax for function call expression", (bl_span){NULL, 0});
}

static void parse_arguments(bl_jinja_parser *p, bl_jinja_node *call)
{
    const bl_jinja_token *open = bl_jinja_expect(p, BL_JINJA_T_LPAREN);
    bool first = true;
    while (!p->failed && call != NULL && p->t->kind != BL_JINJA_T_RPAREN) {
        if (!first)
            (void)bl_jinja_expect(p, BL_JINJA_T_COMMA);
        if (p->t->kind == BL_JINJA_T_RPAREN)
            break;
        parse_argument(p, call, open->line);
        first = false;
    }
    (void)bl_jinja_expect(p, BL_JINJA_T_RPAREN);
}

/* Parses the contents of brackets: an expression, or the parts of a slice of |of|. */
static bl_jinja_node *parse_subscript(bl_jinja_parser *p, bl_jinja_node *of)
{
    const bl_jinja_token *t = p->t;
    bl_jinja_node *parts[3] = {NULL, NULL, NULL}, *node = NULL;
    int n = 0;
    if (t->kind != BL_JINJA_T_COLON)
        parts[0] = bl_jinja_parse_tuple(p, BL_JINJA_WITH_CONDITION, NULL);
    while (n < 2 && bl_jinja_skip(p, BL_JINJA_T_COLON)) {
        n++;
        if (p->t->kind != BL_JINJA_T_COLON && p->t->kind != BL_JINJA_T_RBRACKET)
            parts[n] = bl_jinja_parse_expression(p, true);
    }
    if (n == 0)
        return bl_jinja_node_of(p, BL_JINJA_ITEM, t->line, of, parts[0], NULL);
    node = bl_jinja_node_of(p, BL_JINJA_SLICE, t->line, of, parts[0], parts[1]);
    if (node != NULL)
        bl_jinja_node_add(p, node, &node->more, parts[2]);
    return node;
}

static bl_jinja_node *parse_member(bl_jinja_parser *p, bl_jinja_node *of)
{
    const bl_jinja_token *t = p->t;
    if (bl_jinja_skip(p, BL_JINJA_T_LBRACKET)) {
        bl_jinja_node *node = NULL;
        if (p->t->kind == BL_JINJA_T_RBRACKET) /* an empty tuple, as in Jinja2 */
            node = bl_jinja_node_of(p, BL_JINJA_ITEM, t->line, of, bl_jinja_node_make(p, BL_JINJA_MAKE_TUPLE, t->line), NULL);
        else
            node = parse_subscript(p, of);
        (void)bl_jinja_expect(p, BL_JINJA_T_RBRACKET);
        return node;
    }
    bl_jinja_advance(p);
    const bl_jinja_token *name = p->t;
    bl_jinja_advance(p);
    if (name->kind == BL_JINJA_T_NAME)
        return bl_jinja_node_named(p, BL_JINJA_ATTRIBUTE, name, of);
    if (name->kind == BL_JINJA_T_INTEGER)
        return bl_jinja_node_of(p, BL_JINJA_ITEM, t->line, of, make_constant(p, name, bl_jinja_int(name->integer)), NULL);
    return bl_jinja_refuse(p, name->line, "expected name or number", (bl_span){NULL, 0});
}

static bl_jinja_node *parse_postfix(bl_jinja_parser *p, bl_jinja_node *node)
{
    while (!p->failed) {
        if (p->t->kind == BL_JINJA_T_DOT || p->t->kind == BL_JINJA_T_LBRACKET) {
            node = parse_member(p, node);
        } else if (p->t->kind == BL_JINJA_T_LPAREN) {
            node = bl_jinja_node_of(p, BL_JINJA_CALL, p->t->line, node, NULL, NULL);
            parse_arguments(p, node);
        } else {
            break;
        }
    }
    return node;
}

/* Parses the dotted name of a filter or test. */
static const bl_jinja_token *parse_dotted(bl_jinja_parser *p, bl_span *name)
{
    const bl_jinja_token *t = bl_jinja_expect(p, BL_JINJA_T_NAME);
    if (t == NULL)
        return NULL;
    *name = t->text;
    while (bl_jinja_skip(p, BL_JINJA_T_DOT)) {
        const bl_jinja_token *more = bl_jinja_expect(p, BL_JINJA_T_NAME);
        if (more != NULL)
            name->len = (size_t)(more->text.data + more->text.len - name->data);
    }
    return t;
}

/* Parses the filters after |node|; |starts|: the first filter has no "|" before it. */
bl_jinja_node *bl_jinja_parse_filters(bl_jinja_parser *p, bl_jinja_node *node, bool starts)
{
    while (!p->failed && (starts || bl_jinja_skip(p, BL_JINJA_T_PIPE))) {
        bl_span name = {NULL, 0};
        const bl_jinja_token *t = parse_dotted(p, &name);
        bl_jinja_node *filter = t != NULL ? bl_jinja_node_of(p, BL_JINJA_FILTER, t->line, node, NULL, NULL) : NULL;
        if (filter == NULL)
            return NULL;
        filter->name = name;
        filter->row = bl_jinja_find_filter(name);
        if (p->t->kind == BL_JINJA_T_LPAREN)
            parse_arguments(p, filter);
        node = filter;
        starts = false;
    }
    return node;
}

static bl_jinja_node *parse_test(bl_jinja_parser *p, bl_jinja_node *node)
{
    bl_span name = {NULL, 0};
    const bl_jinja_token *is = p->t;
    bl_jinja_advance(p);
    bool negated = bl_jinja_skip_name(p, "not");
    if (parse_dotted(p, &name) == NULL)
        return NULL;
    bl_jinja_node *test = bl_jinja_node_of(p, BL_JINJA_TEST, is->line, node, NULL, NULL);
    if (test == NULL)
        return NULL;
    test->name = name;
    test->row = bl_jinja_find_test(name);
    if (p->t->kind == BL_JINJA_T_LPAREN) {
        parse_arguments(p, test);
    } else if ((p->t->kind == BL_JINJA_T_NAME && !bl_jinja_is_name(p->t, "else") && !bl_jinja_is_name(p->t, "or") &&
                !bl_jinja_is_name(p->t, "and")) ||
               p->t->kind == BL_JINJA_T_STRING || p->t->kind == BL_JINJA_T_INTEGER || p->t->kind == BL_JINJA_T_FLOAT ||
               p->t->kind == BL_JINJA_T_LBRACKET || p->t->kind == BL_JINJA_T_LBRACE) {
        if (bl_jinja_is_name(p->t, "is"))
            return bl_jinja_refuse(p, p->t->line, "You cannot chain multiple tests with is", (bl_span){NULL, 0});
        bl_jinja_node *argument = parse_primary(p, false);
        bl_jinja_node_add(p, test, &test->items, parse_postfix(p, argument));
    }
    if (!negated)
        return test;
    bl_jinja_node *not = bl_jinja_node_of(p, BL_JINJA_UNARY, is->line, test, NULL, NULL);
    if (not != NULL)
        not ->token = BL_JINJA_T_NAME;
    return not ;
}

static bl_jinja_node *parse_filters_and_tests(bl_jinja_parser *p, bl_jinja_node *node)
{
    while (!p->failed) {
        if (p->t->kind == BL_JINJA_T_PIPE) {
            node = bl_jinja_parse_filters(p, node, false);
        } else if (bl_jinja_is_name(p->t, "is")) {
            node = parse_test(p, node);
        } else if (p->t->kind == BL_JINJA_T_LPAREN) {
            node = bl_jinja_node_of(p, BL_JINJA_CALL, p->t->line, node, NULL, NULL);
            parse_arguments(p, node);
        } else {
            break;
        }
    }
    return node;
}

/* ---- operators, in the order of falling precedence */

static bl_jinja_node *parse_unary(bl_jinja_parser *p, bool with_filter)
{
    const bl_jinja_token *t = p->t;
    bl_jinja_node *node = NULL;
    if (!bl_jinja_deepen(p))
        return NULL;
    if (bl_jinja_skip(p, BL_JINJA_T_SUB) || bl_jinja_skip(p, BL_JINJA_T_ADD))
        node = make_operator(p, BL_JINJA_UNARY, t, parse_unary(p, false), NULL);
    else
        node = parse_primary(p, false);
    node = parse_postfix(p, node);
    if (with_filter)
        node = parse_filters_and_tests(p, node);
    p->depth--;
    return node;
}

static bl_jinja_node *parse_product(bl_jinja_parser *p)
{
    bl_jinja_node *left = NULL;
    for (const bl_jinja_token *of = NULL;;) {
        bl_jinja_node *power = parse_unary(p, true);
        for (const bl_jinja_token *t = p->t; bl_jinja_skip(p, BL_JINJA_T_POW); t = p->t)
            power = make_operator(p, BL_JINJA_BINARY, t, power, parse_unary(p, true));
        left = of == NULL ? power : make_operator(p, BL_JINJA_BINARY, of, left, power);
        of = p->t;
        if (!bl_jinja_skip(p, BL_JINJA_T_MUL) && !bl_jinja_skip(p, BL_JINJA_T_DIV) && !bl_jinja_skip(p, BL_JINJA_T_FLOORDIV) &&
            !bl_jinja_skip(p, BL_JINJA_T_MOD))
            return left;
    }
}

static bl_jinja_node *parse_join(bl_jinja_parser *p)
{
    bl_jinja_node *first = parse_product(p), *join = NULL;
    while (!p->failed && p->t->kind == BL_JINJA_T_TILDE) {
        if (join == NULL) {
            join = bl_jinja_node_make(p, BL_JINJA_JOIN, p->t->line);
            bl_jinja_node_add(p, join, &join->items, first);
        }
        bl_jinja_advance(p);
        bl_jinja_node_add(p, join, &join->items, parse_product(p));
    }
    return join != NULL ? join : first;
}

static bl_jinja_node *parse_sum(bl_jinja_parser *p)
{
    bl_jinja_node *left = parse_join(p);
    for (const bl_jinja_token *t = p->t; bl_jinja_skip(p, BL_JINJA_T_ADD) || bl_jinja_skip(p, BL_JINJA_T_SUB); t = p->t)
        left = make_operator(p, BL_JINJA_BINARY, t, left, parse_join(p));
    return left;
}

static bool skip_comparison(bl_jinja_parser *p, bool *negated)
{
    static const bl_jinja_kind_of_token kinds[] = {BL_JINJA_T_EQ, BL_JINJA_T_NE, BL_JINJA_T_LT,
                                                   BL_JINJA_T_LE, BL_JINJA_T_GT, BL_JINJA_T_GE};
    *negated = bl_jinja_is_name(p->t, "not") && bl_jinja_is_name(&p->t[1], "in");
    if (*negated)
        p->t += 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (bl_jinja_skip(p, kinds[i]))
            return true;
    }
    return bl_jinja_skip_name(p, "in");
}

static bl_jinja_node *parse_compare(bl_jinja_parser *p)
{
    bl_jinja_node *first = parse_sum(p), *compare = NULL;
    bool negated = false;
    for (const bl_jinja_token *t = p->t; !p->failed && skip_comparison(p, &negated); t = p->t) {
        bl_jinja_node *operand = make_operator(p, BL_JINJA_OPERAND, t, parse_sum(p), NULL);
        if (compare == NULL)
            compare = bl_jinja_node_of(p, BL_JINJA_COMPARE, t->line, first, NULL, NULL);
        if (operand == NULL || compare == NULL)
            return NULL;
        operand->flag = negated;
        bl_jinja_node_add(p, compare, &compare->items, operand);
    }
    return compare != NULL ? compare : first;
}

static bl_jinja_node *parse_not(bl_jinja_parser *p)
{
    const bl_jinja_token *t = p->t;
    if (!bl_jinja_is_name(t, "not"))
        return parse_compare(p);
    bl_jinja_advance(p);
    if (!bl_jinja_deepen(p))
        return NULL;
    bl_jinja_node *node = make_operator(p, BL_JINJA_UNARY, t, parse_not(p), NULL);
    p->depth--;
    return node;
}

static bl_jinja_node *parse_and(bl_jinja_parser *p)
{
    bl_jinja_node *left = parse_not(p);
    for (const bl_jinja_token *t = p->t; bl_jinja_skip_name(p, "and"); t = p->t)
        left = make_operator(p, BL_JINJA_AND, t, left, parse_not(p));
    return left;
}

static bl_jinja_node *parse_or(bl_jinja_parser *p)
{
    bl_jinja_node *left = parse_and(p);
    for (const bl_jinja_token *t = p->t; bl_jinja_skip_name(p, "or"); t = p->t)
        left = make_operator(p, BL_JINJA_OR, t, left, parse_and(p));
    return left;
}

bl_jinja_node *bl_jinja_parse_expression(bl_jinja_parser *p, bool conditional)
{
    if (!bl_jinja_deepen(p))
        return NULL;
    bl_jinja_node *node = parse_or(p);
    while (conditional && !p->failed && bl_jinja_is_name(p->t, "if")) {
        int line = p->t->line;
        bl_jinja_advance(p);
        bl_jinja_node *test = parse_or(p), *other = bl_jinja_skip_name(p, "else") ? bl_jinja_parse_expression(p, true) : NULL;
        node = bl_jinja_node_of(p, BL_JINJA_CONDITIONAL, line, node, test, other);
    }
    p->depth--;
    return node;
}
