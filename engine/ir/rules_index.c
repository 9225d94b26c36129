/* SPDX-License-Identifier: MIT */
/* INDEX expressions and comparisons of them. INDEX is the mathematical integers, which do not wrap, so all laws of floor
 * division hold. Each function brings its node into normal form in one step, or returns NULL. */
#include "engine/ir/pattern.h"
#include "engine/ir/private.h"

GUARD(is_index, DTYPE == BL_INDEX && m->root->ndim == 0)
GUARD(of_index, FROM == BL_INDEX && m->root->ndim == 0)
GUARD(of_numbers, bl_dtype_is_int((bl_dtype)FROM) && FROM != BL_INDEX && m->root->ndim == 0)
GUARD(is_bool, DTYPE == BL_BOOL && m->root->ndim == 0)

static const bl_rule rows[] = {
    RULE_FN("add_collect", P2(ADD, X, Y), bl_fn_sum, is_index),
    RULE_FN("sub_collect", P2(SUB, X, Y), bl_fn_sum, is_index),
    RULE_FN("neg_collect", P1(NEG, X), bl_fn_sum, is_index),
    RULE_FN("mul_collect", P2(MUL, X, Y), bl_fn_sum, is_index),
    RULE_FN("idiv", P2(IDIV, X, Y), bl_fn_idiv, is_index),
    RULE_FN("mod", P2(MOD, X, Y), bl_fn_mod, is_index),
    RULE_FN("max_decided", P2(MAX, X, Y), bl_fn_extremum, is_index),
    RULE_FN("min_decided", P2(MIN, X, Y), bl_fn_extremum, is_index),
    RULE_FN("less", P2(CMPLT, X, Y), bl_fn_less, of_index),
    RULE_FN("equal", P2(CMPEQ, X, Y), bl_fn_equal, of_index),
    RULE_FN("less_numbers", P2(CMPLT, X, Y), bl_fn_compare_numbers, of_numbers),
    RULE_FN("equal_numbers", P2(CMPEQ, X, Y), bl_fn_compare_numbers, of_numbers),
    RULE_FN("not_less", P1(NOT, P2(CMPLT, X, Y)), bl_fn_not_less, is_bool),
    RULE_FN("and_clauses", P2(AND, X, Y), bl_fn_conjunction, is_bool),
};

const bl_ruleset bl_rules_index = {"index", rows, sizeof rows / sizeof rows[0]};
