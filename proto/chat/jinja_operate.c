/* SPDX-License-Identifier: MIT */
/* Members, slices and arithmetic of values with Python's semantics. */
#include "proto/chat/jinja.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- members */

static bool item_at(bl_jinja_run *run, bl_jinja_value of, int64_t index, bl_jinja_value *out)
{
    size_t count = 0, bytes = 0;
    if (of.kind != BL_JINJA_STRING && of.kind != BL_JINJA_LIST && of.kind != BL_JINJA_TUPLE && of.kind != BL_JINJA_RANGE)
        return false;
    (void)bl_jinja_length(of, &count);
    if (index < 0)
        index += (int64_t)count;
    if (index < 0 || index >= (int64_t)count)
        return false;
    if (of.kind == BL_JINJA_STRING) {
        bl_span text = bl_jinja_text(of);
        size_t at = bl_jinja_work(run, text.len) ? bl_jinja_offset(text, (size_t)index) : 0;
        (void)bl_jinja_point(text.data + at, text.data + text.len, &bytes);
        *out = bl_jinja_string((bl_span){text.data + at, bytes});
    } else if (of.kind == BL_JINJA_RANGE) {
        *out = bl_jinja_int(of.as.range->start + index * of.as.range->step);
    } else {
        *out = of.as.list->at[index];
    }
    return true;
}

static bl_jinja_value fail_undefined(bl_jinja_run *run, bl_jinja_value value)
{
    bl_span text = {value.as.data, value.len > 200 ? 200 : value.len};
    if (value.flag == BL_JINJA_NO_NAME)
        return bl_jinja_fail(run, BL_EINVAL, "'%.*s' is undefined", (int)text.len, text.data);
    if (value.flag == BL_JINJA_NO_MEMBER)
        return bl_jinja_fail(run, BL_EINVAL, "'%s' has no attribute '%.*s'", bl_jinja_type((bl_jinja_value){.kind = value.of}),
                             (int)text.len, text.data);
    return bl_jinja_fail(run, BL_EINVAL, "%.*s", (int)text.len, text.data);
}

/* getattr() of the value; false: no such attribute. */
static bool jinja_operate_find_attribute(bl_jinja_run *run, bl_jinja_value of, bl_span name, bl_jinja_value *out)
{
    const bl_jinja_function *row = bl_jinja_find_method(of.kind, name);
    if (row != NULL && row->call == NULL) {
        *out = bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("a chat template cannot change its values: the method is unsafe"));
        return true;
    }
    if (row != NULL) {
        bl_jinja_method *method = bl_jinja_alloc(run, 1, sizeof *method);
        if (method != NULL) {
            *method = (bl_jinja_method){row, of};
            *out = (bl_jinja_value){.kind = BL_JINJA_METHOD, .as.method = method};
        }
        return true;
    }
    if (of.kind == BL_JINJA_NAMESPACE) {
        const bl_jinja_value *found = bl_jinja_dict_get(run, of.as.dict, bl_jinja_string(name));
        *out = found != NULL ? *found : *out;
        return found != NULL;
    }
    if (of.kind == BL_JINJA_LOOP) {
        *out = bl_jinja_loop_attribute(run, of.as.loop, name);
        return out->kind != BL_JINJA_ABSENT;
    }
    bool is_grouper = bl_span_is(name, "grouper");
    if (of.kind == BL_JINJA_TUPLE && of.as.list->grouped && (is_grouper || bl_span_is(name, "list"))) {
        *out = of.as.list->at[is_grouper ? 0 : 1];
        return true;
    }
    return false;
}

bl_jinja_value bl_jinja_get_attribute(bl_jinja_run *run, bl_jinja_value of, bl_span name)
{
    bl_jinja_value found = bl_jinja_none();
    if (of.kind == BL_JINJA_UNDEFINED)
        return fail_undefined(run, of);
    if (jinja_operate_find_attribute(run, of, name, &found))
        return found;
    const bl_jinja_value *value = of.kind == BL_JINJA_DICT ? bl_jinja_dict_get(run, of.as.dict, bl_jinja_string(name)) : NULL;
    return value != NULL ? *value : bl_jinja_no_member(of, name);
}

bl_jinja_value bl_jinja_get_item(bl_jinja_run *run, bl_jinja_value of, bl_jinja_value key)
{
    bl_jinja_value found = bl_jinja_none();
    int64_t index = 0;
    if (of.kind == BL_JINJA_UNDEFINED)
        return fail_undefined(run, of);
    if (of.kind == BL_JINJA_DICT && bl_jinja_is_hashable(key)) {
        const bl_jinja_value *value = bl_jinja_dict_get(run, of.as.dict, key);
        if (value != NULL)
            return *value;
    }
    if (bl_jinja_as_int(key, &index) && item_at(run, of, index, &found))
        return found;
    if (key.kind == BL_JINJA_STRING && jinja_operate_find_attribute(run, of, bl_jinja_text(key), &found))
        return found;
    return bl_jinja_no_member(of, bl_jinja_text(bl_jinja_str(run, key)));
}

/* ---- slices */

/* The bound of a slice over |count| items, as slice.indices() computes it. */
static bool slice_bound(bl_jinja_run *run, bl_jinja_value bound, int64_t count, int64_t step, int64_t absent, int64_t *out)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    *out = absent;
    if (bound.kind == BL_JINJA_NONE)
        return true;
    if (bound.kind == BL_JINJA_UNDEFINED || !bl_jinja_as_int(bound, out)) {
        (void)bl_jinja_fail(run, BL_EINVAL, "slice indices must be integers or None, not %s", bl_jinja_type(bound));
        return false;
    }
    if (*out < 0)
        *out = *out < -count ? low : *out + count;
    *out = *out < low ? low : *out > high ? high : *out;
    return true;
}

static bl_jinja_value slice_string(bl_jinja_run *run, bl_jinja_value of, int64_t start, int64_t step, size_t n)
{
    bl_span text = bl_jinja_text(of);
    bl_jinja_value out = bl_jinja_string((bl_span){"", 0});
    if (n > 0 && step == 1) {
        size_t from = bl_jinja_offset(text, (size_t)start);
        bl_span rest = {text.data + from, text.len - from};
        out = bl_jinja_string((bl_span){rest.data, bl_jinja_offset(rest, n)});
    } else if (n > 0) {
        bl_jinja_list items = bl_jinja_items(run, of);
        bl_jinja_buffer buffer = {0};
        for (size_t i = 0; i < n && !run->failed; i++)
            bl_jinja_put_span(run, &buffer, bl_jinja_text(items.at[start + (int64_t)i * step]));
        out = bl_jinja_take(&buffer);
    }
    out.flag = of.flag;
    return out;
}

bl_jinja_value bl_jinja_slice(bl_jinja_run *run, bl_jinja_value of, bl_jinja_value start, bl_jinja_value stop,
                              bl_jinja_value step)
{
    size_t length = 0, n = 0;
    int64_t by = 1, from = 0, to = 0;
    if (of.kind == BL_JINJA_UNDEFINED)
        return fail_undefined(run, of);
    if (of.kind != BL_JINJA_STRING && of.kind != BL_JINJA_LIST && of.kind != BL_JINJA_TUPLE && of.kind != BL_JINJA_RANGE)
        return bl_jinja_fail(run, BL_EINVAL, "'%s' object cannot be sliced", bl_jinja_type(of));
    if (step.kind != BL_JINJA_NONE && (!bl_jinja_as_int(step, &by) || by == 0 || by == INT64_MIN))
        return bl_jinja_fail(run, BL_EINVAL, "the step of a slice must be an integer other than 0");
    (void)bl_jinja_length(of, &length);
    int64_t count = (int64_t)length;
    if (!bl_jinja_work(run, of.kind == BL_JINJA_STRING ? of.len : 0) ||
        !slice_bound(run, start, count, by, by < 0 ? count - 1 : 0, &from) ||
        !slice_bound(run, stop, count, by, by < 0 ? -1 : count, &to))
        return bl_jinja_none();
    if (by > 0 && to > from)
        n = (size_t)((to - from - 1) / by + 1);
    else if (by < 0 && to < from)
        n = (size_t)((from - to - 1) / -by + 1);
    if (of.kind == BL_JINJA_STRING)
        return slice_string(run, of, from, by, n);
    bl_jinja_value *at = bl_jinja_alloc(run, n, sizeof *at);
    bl_jinja_list items = bl_jinja_items(run, of);
    for (size_t i = 0; at != NULL && i < n && !run->failed; i++)
        at[i] = items.at[from + (int64_t)i * by];
    return bl_jinja_list_of(run, of.kind == BL_JINJA_TUPLE ? BL_JINJA_TUPLE : BL_JINJA_LIST, at, n);
}

/* ---- arithmetic */

static bl_jinja_value fail_operands(bl_jinja_run *run, bl_jinja_kind_of_token op, bl_jinja_value a, bl_jinja_value b)
{
    return bl_jinja_fail(run, BL_EINVAL, "unsupported operand type(s) for %s: '%s' and '%s'", bl_jinja_token_says(op),
                         bl_jinja_type(a), bl_jinja_type(b));
}

static bl_jinja_value fail_range(bl_jinja_run *run)
{
    return bl_jinja_fail(run, BL_ELIMIT, "an integer does not fit 64 bits");
}

static bl_jinja_value integer_power(bl_jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0)
        return base == 0 ? bl_jinja_fail(run, BL_EINVAL, "0.0 cannot be raised to a negative power")
                         : bl_jinja_float(pow((double)base, (double)exponent));
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return fail_range(run);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return fail_range(run);
    }
    return bl_jinja_int(result);
}

static bl_jinja_value integer_arithmetic(bl_jinja_run *run, bl_jinja_kind_of_token op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool over = false;
    if (op == BL_JINJA_T_POW)
        return integer_power(run, a, b);
    if (op == BL_JINJA_T_ADD) {
        over = __builtin_add_overflow(a, b, &result);
    } else if (op == BL_JINJA_T_SUB) {
        over = __builtin_sub_overflow(a, b, &result);
    } else if (op == BL_JINJA_T_MUL) {
        over = __builtin_mul_overflow(a, b, &result);
    } else if (b == 0) {
        return bl_jinja_fail(run, BL_EINVAL, "division by zero");
    } else if (op == BL_JINJA_T_DIV) {
        return bl_jinja_float((double)a / (double)b);
    } else if (b == -1) {
        over = op == BL_JINJA_T_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &result);
    } else {
        int64_t rest = a % b;
        bool below = rest != 0 && (rest < 0) != (b < 0);
        result = op == BL_JINJA_T_MOD ? rest + (below ? b : 0) : a / b - below;
    }
    return over ? fail_range(run) : bl_jinja_int(result);
}

static bl_jinja_value float_arithmetic(bl_jinja_run *run, bl_jinja_kind_of_token op, double a, double b)
{
    if (op == BL_JINJA_T_ADD)
        return bl_jinja_float(a + b);
    if (op == BL_JINJA_T_SUB)
        return bl_jinja_float(a - b);
    if (op == BL_JINJA_T_MUL)
        return bl_jinja_float(a * b);
    if (op == BL_JINJA_T_POW) {
        double power = pow(a, b);
        return (a == 0 && b < 0) || (isnan(power) && !isnan(a) && !isnan(b)) || (isinf(power) && isfinite(a) && isfinite(b))
                   ? bl_jinja_fail(run, BL_EINVAL, "the power is not a real number that a float can hold")
                   : bl_jinja_float(power);
    }
    if (b == 0)
        return bl_jinja_fail(run, BL_EINVAL, "float division by zero");
    if (op == BL_JINJA_T_DIV)
        return bl_jinja_float(a / b);
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        quotient -= 1;
    } else if (rest == 0) {
        rest = copysign(0, b);
    }
    if (op == BL_JINJA_T_MOD)
        return bl_jinja_float(rest);
    double whole = floor(quotient);
    return bl_jinja_float(quotient == 0 ? copysign(0, a / b) : quotient - whole > 0.5 ? whole + 1 : whole);
}

static bl_jinja_value add_strings(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b)
{
    bl_jinja_buffer out = {0};
    bool safe = a.flag || b.flag;
    if (!safe && (a.len == 0 || b.len == 0))
        return a.len == 0 ? b : a;
    if (safe) { /* Markup escapes the other operand */
        bl_jinja_put_escaped(run, &out, a);
        bl_jinja_put_escaped(run, &out, b);
    } else {
        out = bl_jinja_continue(run, bl_jinja_text(a));
        bl_jinja_put_span(run, &out, bl_jinja_text(b));
    }
    bl_jinja_value value = bl_jinja_take_joined(run, &out);
    value.flag = safe;
    return value;
}

static bl_jinja_value add_lists(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b)
{
    size_t n = a.as.list->count, m = b.as.list->count;
    bl_jinja_value *at = bl_jinja_alloc(run, n + m, sizeof *at);
    if (at == NULL)
        return bl_jinja_none();
    if (n > 0)
        memcpy(at, a.as.list->at, n * sizeof *at);
    if (m > 0)
        memcpy(at + n, b.as.list->at, m * sizeof *at);
    return bl_jinja_list_of(run, a.kind, at, n + m);
}

/* Repeats a string, list or tuple. */
static bl_jinja_value jinja_operate_repeat(bl_jinja_run *run, bl_jinja_value a, int64_t times)
{
    size_t one = a.kind == BL_JINJA_STRING ? a.len : a.as.list->count, n = times > 0 ? (size_t)times : 0;
    if (one == 0)
        n = 0;
    if (a.kind == BL_JINJA_STRING) {
        char *data = bl_jinja_alloc(run, n, one > 0 ? one : 1);
        for (size_t i = 0; data != NULL && i < n; i++)
            memcpy(data + i * one, a.as.data, one);
        bl_jinja_value value = bl_jinja_string((bl_span){data, data != NULL ? n * one : 0});
        value.flag = a.flag;
        return value;
    }
    bl_jinja_value *at = bl_jinja_alloc(run, n, one * sizeof *at);
    for (size_t i = 0; at != NULL && i < n; i++)
        memcpy(at + i * one, a.as.list->at, one * sizeof *at);
    return bl_jinja_list_of(run, a.kind, at, at != NULL ? n * one : 0);
}

static bool is_sequence(bl_jinja_value value)
{
    return value.kind == BL_JINJA_STRING || value.kind == BL_JINJA_LIST || value.kind == BL_JINJA_TUPLE;
}

bl_jinja_value bl_jinja_binary(bl_jinja_run *run, bl_jinja_kind_of_token op, bl_jinja_value a, bl_jinja_value b)
{
    int64_t x = 0, y = 0;
    bool whole_a = bl_jinja_as_int(a, &x), whole_b = bl_jinja_as_int(b, &y);
    if (a.kind == BL_JINJA_STRING && op == BL_JINJA_T_MOD)
        return bl_jinja_percent(run, bl_jinja_text(a), b);
    if (a.kind == BL_JINJA_UNDEFINED || b.kind == BL_JINJA_UNDEFINED)
        return fail_undefined(run, a.kind == BL_JINJA_UNDEFINED ? a : b);
    if (whole_a && whole_b)
        return integer_arithmetic(run, op, x, y);
    if ((whole_a || a.kind == BL_JINJA_FLOAT) && (whole_b || b.kind == BL_JINJA_FLOAT))
        return float_arithmetic(run, op, whole_a ? (double)x : a.as.number, whole_b ? (double)y : b.as.number);
    if (op == BL_JINJA_T_ADD && a.kind == b.kind && a.kind == BL_JINJA_STRING)
        return add_strings(run, a, b);
    if (op == BL_JINJA_T_ADD && a.kind == b.kind && is_sequence(a))
        return add_lists(run, a, b);
    if (op == BL_JINJA_T_MUL && ((is_sequence(a) && whole_b) || (whole_a && is_sequence(b))))
        return is_sequence(a) ? jinja_operate_repeat(run, a, y) : jinja_operate_repeat(run, b, x);
    return fail_operands(run, op, a, b);
}
