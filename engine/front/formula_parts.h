/* SPDX-License-Identifier: MIT */
/* Between the files of formulas, the texts of BL_FORMULA rows: formula.c has statements and results, formula_value.c what is in
 * them.
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
#ifndef BL_FRONT_FORMULA_PARTS_H
#define BL_FRONT_FORMULA_PARTS_H

#include "engine/front/build.h"

enum { BL_FORMULA_NAMES = 24, BL_FORMULA_RESULTS = 4 };

typedef enum bl_formula_kind { BL_FORMULA_NOTHING, BL_FORMULA_NODE, BL_FORMULA_ATTR } bl_formula_kind;

/* What an expression comes to: a node, or what could be an attribute or a literal. */
typedef struct bl_formula_value {
    bl_formula_kind kind;
    const bl_node *node;
    bl_wire_attr attr;
} bl_formula_value;

typedef struct bl_formula_reader {
    bl_call *c;
    const char *at;
    int skip;   /* within a branch that is not taken: read, do nothing */
    int wanted; /* results of the call that is read next */
    bool failed;
    const bl_node *input[BL_SIG_MAX];
    int nnames;
    bl_span name[BL_FORMULA_NAMES];
    bl_formula_value made[BL_FORMULA_NAMES];
    bool noting; /* which names the statements that are skipped would set */
    int nnoted;
    bl_span noted[BL_FORMULA_NAMES];
    const bl_node *result[BL_FORMULA_RESULTS]; /* of a call of several */
} bl_formula_reader;

/* ---- formula_value.c: what takes and reads moves r->at on */
/* The row is wrong, as |what| says: r->failed, and no value. */
bl_formula_value bl_formula_broken(bl_formula_reader *r, const char *what);
bl_formula_value bl_formula_node_value(const bl_node *node);
bl_formula_value bl_formula_number_value(double x, bool whole);
bool bl_formula_is_number(const bl_formula_value *v);
/* The next character that is no blank; 0 at the end. */
char bl_formula_peek(bl_formula_reader *r);
/* Is |text| next?  Then it is read. */
bool bl_formula_take(bl_formula_reader *r, const char *text);
/* A name, which is empty where none is next. */
bl_span bl_formula_take_name(bl_formula_reader *r);
/* What a condition comes to, which must be a flag or a number; false where nothing is done. */
bool bl_formula_truth(bl_formula_reader *r, const bl_formula_value *v);
bl_formula_value bl_formula_read_value(bl_formula_reader *r);

#endif
