/* SPDX-License-Identifier: MIT */
/* The parser and evaluator of formulas, the texts of BL_FORMULA rows. formula.c has statements and results, formula_value.c has
 * expressions.
 *
 *   formula    := { statement } value { "," value }        the last values are the results
 *   statement  := name { "," name } "=" value ";"
 *               | ( "for" | "loop" ) name "in" value "{" { statement } "}"
 *               | "need(" value "," 'text' [ "," value ] ");"
 *   value      := comparison { ("&" | "|") comparison }
 *   comparison := sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
 *   sum        := product { ("+" | "-") product }
 *   product    := factor { ("*" | "/" | "%" | "@") factor }
 *   factor     := ("-" | "!") factor | atom [ "**" factor ]
 *   atom       := number | 'text' | name | name "(" [ argument { "," argument } ] ")"
 *               | "(" value ")" | "[" [ value { "," value } ] "]"
 *   argument   := value | name "=" value
 *
 * A name is the last value assigned to it, an input or an attribute. A call uses another op of the table as a client would:
 * operands by position, attributes by name; an operand or attribute that is absent is absent in the call too. Numbers are
 * literals with the rules for a client's literals; arithmetic on numbers alone is done by the evaluator. 16-bit inputs of kind
 * Float are widened to float32 and the results are narrowed, so that a formula rounds once. Further functions and statements:
 *
 *   if(condition, value, value)   chooses by attributes and numbers when the graph is built; evaluates one value only
 *   given(name)                   was the optional input or attribute given?
 *   is_float(x)  is_fixed(x)  is_tall(x)  is_like(x, y)  ndim(x)  size(x, axis)  dtype(x)
 *   length(list)  item(list, n)   of an attribute
 *   for i in n { ... }            repeats the statements n times, with i = 0, 1, ...: an unrolled loop
 *   loop i in n { ... }           the same as a scan, with i a tensor: variables that the statements assign are carried
 *   need(condition, text, x)      fails with the text, and the shape, word or number x, unless the condition is true
 */
#ifndef BL_FRONT_FORMULA_PARTS_H
#define BL_FRONT_FORMULA_PARTS_H

#include "engine/front/build.h"

enum { BL_FORMULA_NAMES = 24, BL_FORMULA_RESULTS = 4 };

typedef enum bl_formula_kind { BL_FORMULA_NOTHING, BL_FORMULA_NODE, BL_FORMULA_ATTR } bl_formula_kind;

/* The value of an expression: a node, or a value that may be used as an attribute or a literal. */
typedef struct bl_formula_value {
    bl_formula_kind kind;
    const bl_node *node;
    bl_wire_attr attr;
} bl_formula_value;

typedef struct bl_formula_reader {
    bl_call *c;
    const char *at;
    int skip;   /* inside a branch that is not taken: parse without effect */
    int wanted; /* number of results expected of the next call */
    bool failed;
    const bl_node *input[BL_SIG_MAX];
    int nnames;
    bl_span name[BL_FORMULA_NAMES];
    bl_formula_value made[BL_FORMULA_NAMES];
    bool noting; /* record the names that skipped statements would set */
    int nnoted;
    bl_span noted[BL_FORMULA_NAMES];
    const bl_node *result[BL_FORMULA_RESULTS]; /* of a call with several results */
} bl_formula_reader;

/* ---- formula_value.c: what takes and reads moves r->at on */
/* Report an error in the row: sets r->failed and returns no value. */
bl_formula_value bl_formula_broken(bl_formula_reader *r, const char *what);
bl_formula_value bl_formula_node_value(const bl_node *node);
bl_formula_value bl_formula_number_value(double x, bool whole);
bool bl_formula_is_number(const bl_formula_value *v);
/* The next character that is not a blank; 0 at the end. */
char bl_formula_peek(bl_formula_reader *r);
/* If |text| comes next, consume it and return true. */
bool bl_formula_take(bl_formula_reader *r, const char *text);
/* Consume a name; empty if none comes next. */
bl_span bl_formula_take_name(bl_formula_reader *r);
/* The truth of a condition, which must be a flag or a number. False while skipping. */
bool bl_formula_truth(bl_formula_reader *r, const bl_formula_value *v);
bl_formula_value bl_formula_read_value(bl_formula_reader *r);

#endif
