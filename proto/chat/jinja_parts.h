/* The recursive-descent parser of Jinja2: jinja_parse.c parses expressions and has the helpers, jinja_statements.c parses
 * statements.  A failure is sticky: functions then return NULL or do nothing.  Thread: one at a time per parser.
 *
 * Members of each node:
 * - CONST: value.  NAME: name.  UNARY, BINARY: token, a, b.  AND, OR: a, b.  JOIN: items.
 * - COMPARE: a, and items of OPERAND (token, a; flag: not in).
 * - CONDITIONAL: a if b else c.  ATTRIBUTE: a.name.  ITEM: a[b].  SLICE: a[b:c:more[0]].
 * - CALL, FILTER, TEST: a(items, *b, **c), and more has OPERAND (name=a) for each named argument.
 * - MAKE_LIST, MAKE_TUPLE: items.  MAKE_DICT: items, each key before its value.
 * - DATA: name.  PRINT: a.  SET: b = a.  SET_BLOCK: b = items through the filters a.
 * - FOR: b in a if c; items is the body, more the else part; flag: recursive.  IF: a; items, else more.
 * - DEFINE_MACRO: name; more has OPERAND (name, a: default) for each parameter; items; value has BL_JINJA_READS_ bits.
 * - CALL_BLOCK: a(more); items.  FILTER_BLOCK: items through the filters a.  WITH: more has SET; items.  SCOPE: items.
 * - FIELD: name.value. */
#ifndef BL_PROTO_CHAT_JINJA_PARTS_H
#define BL_PROTO_CHAT_JINJA_PARTS_H

#include "proto/chat/jinja.h"

typedef struct bl_jinja_parser {
    bl_arena *arena;
    bl_err *err;
    const bl_jinja_token *t;
    bl_jinja_nodes *names;
    int64_t reads; /* BL_JINJA_READS_ bits of the innermost macro */
    int depth, loops;
    bool failed;
} bl_jinja_parser;

bl_jinja_node *bl_jinja_refuse(bl_jinja_parser *p, int line, const char *what, bl_span name); /* fails and returns NULL */
bl_span bl_jinja_says(const bl_jinja_token *t);                                               /* how an error names the token */
bool bl_jinja_deepen(bl_jinja_parser *p); /* false: too deep.  The caller decrements |depth| when it returns */

void bl_jinja_advance(bl_jinja_parser *p);
bool bl_jinja_is_name(const bl_jinja_token *t, const char *name);
bool bl_jinja_skip(bl_jinja_parser *p, bl_jinja_kind_of_token kind);
bool bl_jinja_skip_name(bl_jinja_parser *p, const char *name);
const bl_jinja_token *bl_jinja_expect(bl_jinja_parser *p, bl_jinja_kind_of_token kind); /* NULL after a failure if the token is
                                                                                         * another one */
bool bl_jinja_expect_name(bl_jinja_parser *p, const char *name);

bl_jinja_node *bl_jinja_node_make(bl_jinja_parser *p, bl_jinja_op op, int line);
bl_jinja_node *bl_jinja_node_of(bl_jinja_parser *p, bl_jinja_op op, int line, bl_jinja_node *a, bl_jinja_node *b,
                                bl_jinja_node *c);
bl_jinja_node *bl_jinja_node_named(bl_jinja_parser *p, bl_jinja_op op, const bl_jinja_token *t, bl_jinja_node *a);
void bl_jinja_node_add(bl_jinja_parser *p, bl_jinja_node *owner, bl_jinja_nodes *list, bl_jinja_node *node);
void bl_jinja_node_grow(bl_jinja_parser *p, bl_jinja_node *node, const bl_jinja_node *child); /* makes |node| higher than
                                                                                               * |child| */

enum { BL_JINJA_WITH_CONDITION = 1, BL_JINJA_SIMPLE = 2, BL_JINJA_IN_PARENTHESES = 4, BL_JINJA_WITH_FIELDS = 8 };
/* Parses one expression, or several separated by commas.  |end|: a name that ends the list. */
bl_jinja_node *bl_jinja_parse_tuple(bl_jinja_parser *p, int how, const char *end);
bl_jinja_node *bl_jinja_parse_expression(bl_jinja_parser *p, bool conditional);
/* Parses the filters after |node|; |starts|: the first filter has no "|" before it. */
bl_jinja_node *bl_jinja_parse_filters(bl_jinja_parser *p, bl_jinja_node *node, bool starts);
/* Parses statements up to a tag of |ends|, whose name is then the current token.  NULL: up to the end of the template. */
void bl_jinja_parse_body(bl_jinja_parser *p, const char *const *ends, bl_jinja_nodes *out);

#endif
