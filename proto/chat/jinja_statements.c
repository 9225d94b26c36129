/* SPDX-License-Identifier: MIT */
/* The recursive-descent parser of Jinja2 statements. */
#include "proto/chat/jinja_parts.h"

#include <string.h>

static bool check_target(bl_jinja_parser *p, const bl_jinja_node *target)
{
    if (target == NULL || target->op == BL_JINJA_NAME || target->op == BL_JINJA_FIELD)
        return true;
    for (int i = 0; target->op == BL_JINJA_MAKE_TUPLE && i < target->items.count; i++) {
        if (!check_target(p, target->items.at[i]))
            return false;
    }
    if (target->op != BL_JINJA_MAKE_TUPLE)
        (void)bl_jinja_refuse(p, target->line, "can't assign to an expression", (bl_span){NULL, 0});
    return !p->failed;
}

static bl_jinja_node *parse_target(bl_jinja_parser *p, int how, const char *end)
{
    bl_jinja_node *target = bl_jinja_parse_tuple(p, how | BL_JINJA_SIMPLE, end);
    (void)check_target(p, target);
    return target;
}

/* Parses statements up to one of |ends|, which is then the current token. */
static void parse_statements(bl_jinja_parser *p, const char *const *ends, bl_jinja_node *owner, bl_jinja_nodes *out)
{
    (void)bl_jinja_skip(p, BL_JINJA_T_COLON);
    (void)bl_jinja_expect(p, BL_JINJA_T_BLOCK_END);
    bl_jinja_parse_body(p, ends, out);
    if (!p->failed && p->t->kind == BL_JINJA_T_EOF)
        (void)bl_jinja_refuse(p, owner->line, "the end of the template comes before the end of a statement; expected",
                              (bl_span){ends[0], strlen(ends[0])});
    for (int i = 0; i < out->count; i++)
        bl_jinja_node_grow(p, owner, out->at[i]);
}

#define ENDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static bl_jinja_node *parse_for(bl_jinja_parser *p)
{
    bl_jinja_node *node = bl_jinja_node_make(p, BL_JINJA_FOR, p->t->line);
    if (node == NULL)
        return NULL;
    bl_jinja_advance(p);
    node->b = parse_target(p, 0, "in");
    (void)bl_jinja_expect_name(p, "in");
    node->a = bl_jinja_parse_tuple(p, 0, "recursive");
    if (bl_jinja_skip_name(p, "if"))
        node->c = bl_jinja_parse_expression(p, true);
    node->flag = bl_jinja_skip_name(p, "recursive");
    bl_jinja_node_grow(p, node, node->a);
    bl_jinja_node_grow(p, node, node->c);
    p->loops++;
    parse_statements(p, ENDS("endfor", "else"), node, &node->items);
    p->loops--;
    if (bl_jinja_skip_name(p, "else"))
        parse_statements(p, ENDS("endfor"), node, &node->more);
    bl_jinja_advance(p);
    return node;
}

static bl_jinja_node *parse_if(bl_jinja_parser *p)
{
    bl_jinja_node *node = bl_jinja_node_make(p, BL_JINJA_IF, p->t->line);
    if (node == NULL || !bl_jinja_deepen(p))
        return NULL;
    bl_jinja_advance(p);
    node->a = bl_jinja_parse_tuple(p, 0, NULL);
    bl_jinja_node_grow(p, node, node->a);
    parse_statements(p, ENDS("endif", "elif", "else"), node, &node->items);
    if (bl_jinja_is_name(p->t, "elif")) {
        bl_jinja_node_add(p, node, &node->more, parse_if(p));
    } else {
        if (bl_jinja_skip_name(p, "else"))
            parse_statements(p, ENDS("endif"), node, &node->more);
        bl_jinja_advance(p);
    }
    p->depth--;
    return node;
}

static bl_jinja_node *parse_set(bl_jinja_parser *p)
{
    int line = p->t->line;
    bl_jinja_advance(p);
    bl_jinja_node *target = parse_target(p, BL_JINJA_WITH_FIELDS, NULL);
    if (bl_jinja_skip(p, BL_JINJA_T_ASSIGN))
        return bl_jinja_node_of(p, BL_JINJA_SET, line, bl_jinja_parse_tuple(p, BL_JINJA_WITH_CONDITION, NULL), target, NULL);
    bl_jinja_node *filters = bl_jinja_parse_filters(p, NULL, false),
                  *node = bl_jinja_node_of(p, BL_JINJA_SET_BLOCK, line, filters, target, NULL);
    if (node != NULL)
        parse_statements(p, ENDS("endset"), node, &node->items);
    bl_jinja_advance(p);
    return node;
}

static void parse_parameters(bl_jinja_parser *p, bl_jinja_node *node)
{
    (void)bl_jinja_expect(p, BL_JINJA_T_LPAREN);
    while (!p->failed && p->t->kind != BL_JINJA_T_RPAREN) {
        if (node->more.count > 0)
            (void)bl_jinja_expect(p, BL_JINJA_T_COMMA);
        bl_jinja_node *parameter = bl_jinja_node_named(p, BL_JINJA_OPERAND, bl_jinja_expect(p, BL_JINJA_T_NAME), NULL);
        if (parameter == NULL)
            return;
        if (bl_jinja_skip(p, BL_JINJA_T_ASSIGN))
            parameter->a = bl_jinja_parse_expression(p, true);
        else if (node->more.count > 0 && node->more.at[node->more.count - 1]->a != NULL)
            (void)bl_jinja_refuse(p, parameter->line, "non-default argument follows default argument", (bl_span){NULL, 0});
        bl_jinja_node_grow(p, parameter, parameter->a);
        bl_jinja_node_add(p, node, &node->more, parameter);
    }
    (void)bl_jinja_expect(p, BL_JINJA_T_RPAREN);
}

/* Parses the body of a macro or of a call block, and records which call arguments it reads. */
static void parse_macro_body(bl_jinja_parser *p, const char *end, bl_jinja_node *node, int64_t outer)
{
    int loops = p->loops;
    p->loops = 0;
    parse_statements(p, ENDS(end), node, &node->items);
    bl_jinja_advance(p);
    p->loops = loops;
    node->value = bl_jinja_int(p->reads);
    p->reads |= outer;
}

static bl_jinja_node *parse_macro(bl_jinja_parser *p)
{
    int64_t outer = p->reads;
    bl_jinja_advance(p);
    bl_jinja_node *node = bl_jinja_node_named(p, BL_JINJA_DEFINE_MACRO, bl_jinja_expect(p, BL_JINJA_T_NAME), NULL);
    if (node == NULL)
        return NULL;
    parse_parameters(p, node);
    p->reads = 0;
    parse_macro_body(p, "endmacro", node, outer);
    return node;
}

static bl_jinja_node *parse_call_block(bl_jinja_parser *p)
{
    int64_t outer = p->reads;
    bl_jinja_node *node = bl_jinja_node_make(p, BL_JINJA_CALL_BLOCK, p->t->line);
    if (node == NULL)
        return NULL;
    bl_jinja_advance(p);
    if (p->t->kind == BL_JINJA_T_LPAREN)
        parse_parameters(p, node);
    node->a = bl_jinja_parse_expression(p, true);
    bl_jinja_node_grow(p, node, node->a);
    if (node->a != NULL && node->a->op != BL_JINJA_CALL)
        return bl_jinja_refuse(p, node->line, "expected call", (bl_span){NULL, 0});
    outer |= p->reads;
    p->reads = 0;
    parse_macro_body(p, "endcall", node, outer);
    return node;
}

static bl_jinja_node *parse_filter_block(bl_jinja_parser *p)
{
    int line = p->t->line;
    bl_jinja_advance(p);
    bl_jinja_node *node = bl_jinja_node_of(p, BL_JINJA_FILTER_BLOCK, line, bl_jinja_parse_filters(p, NULL, true), NULL, NULL);
    if (node != NULL)
        parse_statements(p, ENDS("endfilter"), node, &node->items);
    bl_jinja_advance(p);
    return node;
}

static bl_jinja_node *parse_with(bl_jinja_parser *p)
{
    bl_jinja_node *node = bl_jinja_node_make(p, BL_JINJA_WITH, p->t->line);
    bl_jinja_advance(p);
    while (!p->failed && p->t->kind != BL_JINJA_T_BLOCK_END) {
        if (node->more.count > 0)
            (void)bl_jinja_expect(p, BL_JINJA_T_COMMA);
        int line = p->t->line;
        bl_jinja_node *target = parse_target(p, 0, NULL);
        (void)bl_jinja_expect(p, BL_JINJA_T_ASSIGN);
        bl_jinja_node_add(p, node, &node->more,
                          bl_jinja_node_of(p, BL_JINJA_SET, line, bl_jinja_parse_expression(p, true), target, NULL));
    }
    if (node != NULL)
        parse_statements(p, ENDS("endwith"), node, &node->items);
    bl_jinja_advance(p);
    return node;
}

/* {% generation %} marks the model's output; {% block NAME %} is a part that a child template could replace. */
static bl_jinja_node *parse_scope(bl_jinja_parser *p)
{
    bl_jinja_node *node = bl_jinja_node_make(p, BL_JINJA_SCOPE, p->t->line);
    bool is_block = bl_jinja_is_name(p->t, "block");
    bl_span name = {NULL, 0};
    bl_jinja_advance(p);
    if (is_block) {
        const bl_jinja_token *t = bl_jinja_expect(p, BL_JINJA_T_NAME);
        name = t != NULL ? t->text : name;
        (void)bl_jinja_skip_name(p, "scoped");
    }
    if (node != NULL)
        parse_statements(p, ENDS(is_block ? "endblock" : "endgeneration"), node, &node->items);
    bl_jinja_advance(p);
    if (is_block && p->t->kind == BL_JINJA_T_NAME && bl_span_eq(p->t->text, name))
        bl_jinja_advance(p);
    return node;
}

static bl_jinja_node *parse_jump(bl_jinja_parser *p)
{
    const bl_jinja_token *t = p->t;
    if (p->loops == 0)
        return bl_jinja_refuse(p, t->line, "outside of a loop:", t->text);
    bl_jinja_advance(p);
    return bl_jinja_node_make(p, bl_jinja_is_name(t, "break") ? BL_JINJA_BREAK : BL_JINJA_CONTINUE, t->line);
}

static bl_jinja_node *parse_print(bl_jinja_parser *p)
{
    int line = p->t->line;
    bl_jinja_advance(p);
    bl_jinja_node *node = bl_jinja_node_make(p, BL_JINJA_SCOPE, line);
    while (!p->failed && p->t->kind != BL_JINJA_T_BLOCK_END) {
        if (node->items.count > 0)
            (void)bl_jinja_expect(p, BL_JINJA_T_COMMA);
        bl_jinja_node_add(p, node, &node->items,
                          bl_jinja_node_of(p, BL_JINJA_PRINT, line, bl_jinja_parse_expression(p, true), NULL, NULL));
    }
    return node;
}

static bl_jinja_node *parse_foreign(bl_jinja_parser *p)
{
    if (!p->failed)
        (void)bl_fail(p->err, BL_EUNSUPPORTED, "chat template, line %d: '%.*s' is not supported: a chat template is one text",
                      p->t->line, (int)p->t->text.len, p->t->text.data);
    p->failed = true;
    return NULL;
}

static const struct {
    const char *tag;
    bl_jinja_node *(*parse)(bl_jinja_parser *p);
} statements[] = {
    {"for", parse_for},
    {"if", parse_if},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"generation", parse_scope},
    {"block", parse_scope},
    {"break", parse_jump},
    {"continue", parse_jump},
    {"print", parse_print},
    {"include", parse_foreign},
    {"import", parse_foreign},
    {"from", parse_foreign},
    {"extends", parse_foreign},
    {"autoescape", parse_foreign},
};

static bl_jinja_node *parse_statement(bl_jinja_parser *p)
{
    const bl_jinja_token *t = p->t;
    bl_jinja_node *node = NULL;
    if (t->kind != BL_JINJA_T_NAME)
        return bl_jinja_refuse(p, t->line, "tag name expected, got", bl_jinja_says(t));
    if (!bl_jinja_deepen(p))
        return NULL;
    size_t i = 0, count = sizeof statements / sizeof *statements;
    while (i < count && !bl_jinja_is_name(t, statements[i].tag))
        i++;
    node = i < count ? statements[i].parse(p) : bl_jinja_refuse(p, t->line, "Encountered unknown tag", t->text);
    p->depth--;
    return node;
}

static bool jinja_statements_is_end(const bl_jinja_parser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++) {
        if (bl_jinja_is_name(p->t, *ends))
            return true;
    }
    return false;
}

void bl_jinja_parse_body(bl_jinja_parser *p, const char *const *ends, bl_jinja_nodes *out)
{
    while (!p->failed && p->t->kind != BL_JINJA_T_EOF) {
        const bl_jinja_token *t = p->t;
        bl_jinja_advance(p);
        if (t->kind == BL_JINJA_T_DATA) {
            bl_jinja_node_add(p, NULL, out, bl_jinja_node_named(p, BL_JINJA_DATA, t, NULL));
        } else if (t->kind == BL_JINJA_T_VARIABLE_BEGIN) {
            bl_jinja_node_add(p, NULL, out,
                              bl_jinja_node_of(p, BL_JINJA_PRINT, p->t->line,
                                               bl_jinja_parse_tuple(p, BL_JINJA_WITH_CONDITION, NULL), NULL, NULL));
            (void)bl_jinja_expect(p, BL_JINJA_T_VARIABLE_END);
        } else {
            if (jinja_statements_is_end(p, ends))
                return;
            bl_jinja_node_add(p, NULL, out, parse_statement(p));
            (void)bl_jinja_expect(p, BL_JINJA_T_BLOCK_END);
        }
    }
}

/* Fails at an unknown filter or test unless |soft|: within `if`, where a template may first test whether the filter exists. */
static bl_status check_node(const bl_jinja_node *node, bool soft, bl_err *err);

static bl_status check_rows(const bl_jinja_nodes *nodes, bool soft, bl_err *err)
{
    for (int i = 0; i < nodes->count; i++)
        BL_TRY(check_node(nodes->at[i], soft, err));
    return BL_OK;
}

static bl_status check_node(const bl_jinja_node *node, bool soft, bl_err *err)
{
    if (node == NULL)
        return BL_OK;
    if ((node->op == BL_JINJA_FILTER || node->op == BL_JINJA_TEST) && node->row == NULL && !soft)
        return bl_fail(err, BL_EINVAL, "chat template, line %d: No %s named '%.*s'", node->line,
                       node->op == BL_JINJA_FILTER ? "filter" : "test", node->name.len > 100 ? 100 : (int)node->name.len,
                       node->name.data);
    bool within = soft || node->op == BL_JINJA_IF || node->op == BL_JINJA_CONDITIONAL;
    BL_TRY(check_node(node->a, within && node->op != BL_JINJA_DEFINE_MACRO, err));
    BL_TRY(check_node(node->b, within, err));
    BL_TRY(check_node(node->c, within && node->op != BL_JINJA_FOR, err));
    if (node->op >= BL_JINJA_FOR && node->op != BL_JINJA_IF)
        within = false; /* the body has its own frame in Jinja2 */
    BL_TRY(check_rows(&node->items, within, err));
    return check_rows(&node->more, within, err);
}

bl_status bl_jinja_parse(bl_arena *arena, const bl_jinja_token *tokens, bl_jinja_nodes *out, bl_jinja_nodes *names, bl_err *err)
{
    bl_jinja_parser p = {.arena = arena, .err = err, .t = tokens, .names = names};
    bl_jinja_parse_body(&p, NULL, out);
    BL_TRY(bl_arena_status(arena, err));
    if (p.failed)
        return err != NULL && err->status != BL_OK ? err->status : BL_EINVAL;
    return check_rows(out, false, err);
}
