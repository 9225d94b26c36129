/* Macros for rows of rewrite rules: patterns as nested compound literals in static storage. Only files of rules include this
 * header, since its macro names are short. */
#ifndef BL_IR_PATTERN_H
#define BL_IR_PATTERN_H

#include "engine/ir/rewrite.h"

#define PAT_ANY(number) (&(const bl_pat){.kind = BL_PAT_ANY, .slot = (number)})
#define X               PAT_ANY(0)
#define Y               PAT_ANY(1)
#define Z               PAT_ANY(2)
#define W               PAT_ANY(3)
/* Captured constants, and constants of a given value. Integers match by value, floats by value and sign of zero. */
#define K                 (&(const bl_pat){.kind = BL_PAT_CONST, .slot = 4})
#define K2                (&(const bl_pat){.kind = BL_PAT_CONST, .slot = 5})
#define K3                (&(const bl_pat){.kind = BL_PAT_CONST, .slot = 6})
#define C(number)         (&(const bl_pat){.kind = BL_PAT_VALUE, .value = (number)})
#define P1(name, x)       (&(const bl_pat){.kind = BL_PAT_OP, .op = BL_OP_##name, .nsrc = 1, .src = {(x)}})
#define P2(name, x, y)    (&(const bl_pat){.kind = BL_PAT_OP, .op = BL_OP_##name, .nsrc = 2, .src = {(x), (y)}})
#define P3(name, x, y, z) (&(const bl_pat){.kind = BL_PAT_OP, .op = BL_OP_##name, .nsrc = 3, .src = {(x), (y), (z)}})

/* A guard is a condition on the matched node (DTYPE) or on its first operand (FROM). */
#define GUARD(name, holds)                                                                                                       \
    static bool name(const bl_match *m)                                                                                          \
    {                                                                                                                            \
        return (holds);                                                                                                          \
    }
#define DTYPE ((bl_dtype)m->root->dtype)
#define FROM  ((bl_dtype)m->root->src[0]->dtype)

#define RULE(text, from, to) RULE_IF(text, from, to, NULL)
#define RULE_IF(text, from, to, when)                                                                                            \
    {                                                                                                                            \
        .name = (text), .find = (from), .put = (to), .guard = (when)                                                             \
    }
#define RULE_FN(text, from, function, when)                                                                                      \
    {                                                                                                                            \
        .name = (text), .find = (from), .fn = (function), .guard = (when)                                                        \
    }

#endif
