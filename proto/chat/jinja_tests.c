/* SPDX-License-Identifier: MIT */
/* Jinja2 3.1's tests: the operands of `is`. */
#include "proto/chat/jinja_rows.h"

#define TEST(id)                                                                                                                 \
    bl_jinja_value bl_jinja_test_##id(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)

/* A test of a property of the value. */
#define PROPERTY(id, expression)                                                                                                 \
    TEST(id)                                                                                                                     \
    {                                                                                                                            \
        (void)run;                                                                                                               \
        (void)at;                                                                                                                \
        (void)args;                                                                                                              \
        return bl_jinja_bool(expression);                                                                                        \
    }

PROPERTY(defined, self.kind != BL_JINJA_UNDEFINED)
PROPERTY(undefined, self.kind == BL_JINJA_UNDEFINED)
PROPERTY(none, self.kind == BL_JINJA_NONE)
PROPERTY(boolean, self.kind == BL_JINJA_BOOL)
PROPERTY(is_false, self.kind == BL_JINJA_BOOL && !self.as.boolean)
PROPERTY(is_true, self.kind == BL_JINJA_BOOL && self.as.boolean)
PROPERTY(integer, self.kind == BL_JINJA_INT)
PROPERTY(float, self.kind == BL_JINJA_FLOAT)
PROPERTY(string, self.kind == BL_JINJA_STRING)
PROPERTY(mapping, self.kind == BL_JINJA_DICT)
PROPERTY(number, self.kind == BL_JINJA_BOOL || self.kind == BL_JINJA_INT || self.kind == BL_JINJA_FLOAT)
PROPERTY(sequence, self.kind == BL_JINJA_UNDEFINED || (self.kind >= BL_JINJA_STRING && self.kind <= BL_JINJA_DICT) ||
                       self.kind == BL_JINJA_RANGE)
PROPERTY(iterable, bl_jinja_is_iterable(self))
PROPERTY(callable, self.kind == BL_JINJA_UNDEFINED || self.kind >= BL_JINJA_MACRO)
PROPERTY(escaped, self.kind == BL_JINJA_STRING && self.flag)

/* Whether a row has the name |self|. */
static bl_jinja_value names_row(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_function *(*find)(bl_span name))
{
    if (!bl_jinja_is_hashable(self))
        return bl_jinja_fail(run, BL_EINVAL, "unhashable type: '%s'", bl_jinja_type(self));
    return bl_jinja_bool(self.kind == BL_JINJA_STRING && find(bl_jinja_text(self)) != NULL);
}

TEST(filter)
{
    (void)at;
    (void)args;
    return names_row(run, self, bl_jinja_find_filter);
}

TEST(test)
{
    (void)at;
    (void)args;
    return names_row(run, self, bl_jinja_find_test);
}

/* Whether self % by == rest. */
static bl_jinja_value leaves(bl_jinja_run *run, bl_jinja_value self, bl_jinja_value by, int64_t rest)
{
    bl_jinja_value remainder = bl_jinja_binary(run, BL_JINJA_T_MOD, self, by);
    return run->failed ? remainder : bl_jinja_bool(bl_jinja_equal(run, remainder, bl_jinja_int(rest)));
}

TEST(odd)
{
    (void)at;
    (void)args;
    return leaves(run, self, bl_jinja_int(2), 1);
}

TEST(even)
{
    (void)at;
    (void)args;
    return leaves(run, self, bl_jinja_int(2), 0);
}

TEST(divisibleby)
{
    (void)args;
    return leaves(run, self, at[0], 0);
}

/* Whether the text has a cased character and none of another case than |to|. */
static bl_jinja_value has_case(bl_jinja_run *run, bl_jinja_value self, bl_jinja_case to)
{
    bl_span text = bl_jinja_text(bl_jinja_str(run, self)), other;
    bool is = bl_span_eq(text, bl_jinja_text(bl_jinja_recase(run, text, to)));
    other = bl_jinja_text(bl_jinja_recase(run, text, to == BL_JINJA_UPPER ? BL_JINJA_LOWER : BL_JINJA_UPPER));
    return bl_jinja_bool(is && !bl_span_eq(text, other));
}

TEST(lower)
{
    (void)at;
    (void)args;
    return has_case(run, self, BL_JINJA_LOWER);
}

TEST(upper)
{
    (void)at;
    (void)args;
    return has_case(run, self, BL_JINJA_UPPER);
}

TEST(sameas)
{
    bl_jinja_value other = at[0];
    (void)args;
    if (self.kind != other.kind)
        return bl_jinja_bool(false);
    if (self.kind <= BL_JINJA_STRING)
        return bl_jinja_bool(bl_jinja_equal(run, self, other));
    return bl_jinja_bool(self.as.data == other.as.data);
}

TEST(in)
{
    (void)args;
    return bl_jinja_bool(bl_jinja_contains(run, at[0], self));
}

TEST(eq)
{
    (void)args;
    return bl_jinja_bool(bl_jinja_equal(run, self, at[0]));
}

TEST(ne)
{
    (void)args;
    return bl_jinja_bool(!bl_jinja_equal(run, self, at[0]));
}

static bl_jinja_value jinja_tests_order(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b, bool or_equal)
{
    bool less = bl_jinja_less(run, a, b);
    return bl_jinja_bool(less || (or_equal && !run->failed && bl_jinja_equal(run, a, b)));
}

TEST(lt)
{
    (void)args;
    return jinja_tests_order(run, self, at[0], false);
}

TEST(le)
{
    (void)args;
    return jinja_tests_order(run, self, at[0], true);
}

TEST(gt)
{
    (void)args;
    return jinja_tests_order(run, at[0], self, false);
}

TEST(ge)
{
    (void)args;
    return jinja_tests_order(run, at[0], self, true);
}
