/* SPDX-License-Identifier: MIT */
/* Jinja2 3.1's filters of a single value, transformers' tojson, and from_json, which templates of other engines use.
 * jinja_sequences.c has the filters of sequences. */
#include "proto/chat/jinja_rows.h"

#include "proto/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text */

static bl_span jinja_filters_text_of(bl_jinja_run *run, bl_jinja_value value)
{
    return bl_jinja_text(bl_jinja_str(run, value));
}

/* The result is marked as safe if the input is. */
static bl_jinja_value jinja_filters_marked_as(bl_jinja_value value, bl_jinja_value self)
{
    value.flag = self.kind == BL_JINJA_STRING && self.flag;
    return value;
}

bl_jinja_value bl_jinja_filter_upper(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    (void)at;
    (void)args;
    return jinja_filters_marked_as(bl_jinja_recase(run, jinja_filters_text_of(run, self), BL_JINJA_UPPER), self);
}

bl_jinja_value bl_jinja_filter_lower(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    (void)at;
    (void)args;
    return jinja_filters_marked_as(bl_jinja_recase(run, jinja_filters_text_of(run, self), BL_JINJA_LOWER), self);
}

bl_jinja_value bl_jinja_filter_capitalize(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                          const bl_jinja_args *args)
{
    (void)at;
    (void)args;
    return jinja_filters_marked_as(bl_jinja_recase(run, jinja_filters_text_of(run, self), BL_JINJA_CAPITAL), self);
}

/* Unlike str.title(), words begin only after -, (, {, [, < and spaces. */
bl_jinja_value bl_jinja_filter_title(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bl_span text = jinja_filters_text_of(run, self);
    bl_jinja_buffer out = {0};
    size_t i = 0, bytes = 0;
    (void)at;
    (void)args;
    while (i < text.len && !run->failed) {
        size_t from = i;
        uint32_t c = 0;
        while (i < text.len && (c = bl_jinja_point(text.data + i, text.data + text.len, &bytes), !bl_jinja_is_space(c)) &&
               (c >= 0x80 || strchr("-({[<", (int)c) == NULL || c == 0))
            i += bytes;
        if (i > from) {
            bl_span word = {text.data + from, i - from};
            (void)bl_jinja_point(word.data, word.data + word.len, &bytes);
            bl_jinja_put_span(run, &out, bl_jinja_text(bl_jinja_recase(run, (bl_span){word.data, bytes}, BL_JINJA_UPPER)));
            bl_jinja_put_span(
                run, &out, bl_jinja_text(bl_jinja_recase(run, (bl_span){word.data + bytes, word.len - bytes}, BL_JINJA_LOWER)));
        } else {
            bl_jinja_put(run, &out, text.data + i, bytes);
            i += bytes;
        }
    }
    return bl_jinja_take(&out);
}

bl_jinja_value bl_jinja_filter_trim(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bl_span text = jinja_filters_text_of(run, self), chars = bl_jinja_text(at[0]);
    bool all = at[0].kind == BL_JINJA_ABSENT || at[0].kind == BL_JINJA_NONE;
    (void)args;
    if (!all && at[0].kind != BL_JINJA_STRING)
        return bl_jinja_fail(run, BL_EINVAL, "strip arg must be None or str, not %s", bl_jinja_type(at[0]));
    return bl_jinja_work(run, text.len * (chars.len / 16 + 1))
               ? jinja_filters_marked_as(bl_jinja_string(bl_jinja_strip(text, all ? NULL : &chars, true, true)), self)
               : bl_jinja_none();
}

bl_jinja_value bl_jinja_filter_replace(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                       const bl_jinja_args *args)
{
    int64_t count = -1;
    (void)args;
    if (at[2].kind != BL_JINJA_ABSENT && at[2].kind != BL_JINJA_NONE && !bl_jinja_as_int(at[2], &count))
        return bl_jinja_fail(run, BL_EINVAL, "'%s' object cannot be interpreted as an integer", bl_jinja_type(at[2]));
    return bl_jinja_replace(run, jinja_filters_text_of(run, self), jinja_filters_text_of(run, at[0]),
                            jinja_filters_text_of(run, at[1]), count);
}

bl_jinja_value bl_jinja_filter_string(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    (void)at;
    (void)args;
    return jinja_filters_marked_as(bl_jinja_str(run, self), self);
}

bl_jinja_value bl_jinja_filter_safe(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bl_jinja_value text = bl_jinja_str(run, self);
    (void)at;
    (void)args;
    text.flag = true;
    return text;
}

static bl_jinja_value jinja_filters_escape(bl_jinja_run *run, bl_jinja_value value)
{
    bl_jinja_buffer out = {0};
    bl_jinja_put_escaped(run, &out, value);
    value = bl_jinja_take(&out);
    value.flag = true;
    return value;
}

bl_jinja_value bl_jinja_filter_escape(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    (void)at;
    (void)args;
    return jinja_filters_escape(run, self);
}

bl_jinja_value bl_jinja_filter_forceescape(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                           const bl_jinja_args *args)
{
    (void)at;
    (void)args;
    return jinja_filters_escape(run, bl_jinja_str(run, self));
}

bl_jinja_value bl_jinja_filter_format(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    (void)at;
    if (args->count > 0 && args->named.count > 0)
        return bl_jinja_fail(run, BL_EINVAL, "can't handle positional and keyword arguments at the same time");
    bl_jinja_dict *named = bl_jinja_alloc(run, 1, sizeof *named);
    if (named == NULL)
        return bl_jinja_none();
    *named = args->named;
    return bl_jinja_percent(run, jinja_filters_text_of(run, self),
                            named->count > 0 ? (bl_jinja_value){.kind = BL_JINJA_DICT, .as.dict = named}
                                             : bl_jinja_list_of(run, BL_JINJA_TUPLE, args->at, args->count));
}

bl_jinja_value bl_jinja_filter_indent(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bool first = bl_jinja_is_true(at[1]), blank = bl_jinja_is_true(at[2]), starts = true;
    bl_span text = bl_jinja_text(self), indention = bl_jinja_text(at[0]);
    int64_t width = 4;
    bl_jinja_buffer out = {0};
    (void)args;
    if (self.kind != BL_JINJA_STRING)
        return bl_jinja_binary(run, BL_JINJA_T_ADD, self, bl_jinja_string(BL_S("\n"))); /* raises the error */
    if (at[0].kind != BL_JINJA_STRING && at[0].kind != BL_JINJA_ABSENT && !bl_jinja_as_int(at[0], &width))
        return bl_jinja_fail(run, BL_EINVAL, "can't multiply sequence by non-int of type '%s'", bl_jinja_type(at[0]));
    if (at[0].kind != BL_JINJA_STRING)
        indention = bl_jinja_text(bl_jinja_binary(run, BL_JINJA_T_MUL, bl_jinja_string(BL_S(" ")), bl_jinja_int(width)));
    for (size_t i = 0, whole = 0; (starts || i < text.len) && !run->failed; starts = false) {
        bl_span line = bl_jinja_next_line(text, &i, &whole);
        if (!starts)
            bl_jinja_puts(run, &out, "\n");
        if (starts ? first : blank || line.len > 0)
            bl_jinja_put_span(run, &out, indention);
        bl_jinja_put_span(run, &out, line);
        if (i == text.len && whole > line.len) { /* the text ends with a newline, so an empty line follows */
            bl_jinja_puts(run, &out, "\n");
            if (blank)
                bl_jinja_put_span(run, &out, indention);
        }
    }
    return jinja_filters_marked_as(bl_jinja_take(&out), self);
}

bl_jinja_value bl_jinja_filter_truncate(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                        const bl_jinja_args *args)
{
    int64_t length = 255, leeway = 5;
    size_t count = 0;
    bl_span text = bl_jinja_text(self), end = at[2].kind == BL_JINJA_ABSENT ? BL_S("...") : bl_jinja_text(at[2]);
    bl_jinja_buffer out = {0};
    (void)args;
    if ((at[0].kind != BL_JINJA_ABSENT && !bl_jinja_as_int(at[0], &length)) ||
        (at[3].kind != BL_JINJA_ABSENT && at[3].kind != BL_JINJA_NONE && !bl_jinja_as_int(at[3], &leeway)))
        return bl_jinja_fail(run, BL_EINVAL, "the length and leeway of truncate are integers");
    int64_t least = (int64_t)bl_jinja_points(end);
    if (length < least || leeway < 0)
        return bl_jinja_fail(run, BL_EINVAL, "expected length >= %lld and leeway >= 0", (long long)least);
    if (!bl_jinja_length(self, &count))
        return bl_jinja_fail(run, BL_EINVAL, "object of type '%s' has no len()", bl_jinja_type(self));
    if (!bl_jinja_work(run, text.len) || length > INT32_MAX || leeway > INT32_MAX || (int64_t)count <= length + leeway)
        return self;
    if (self.kind != BL_JINJA_STRING)
        return bl_jinja_fail(run, BL_EINVAL, "truncate takes a string, not %s", bl_jinja_type(self));
    text.len = bl_jinja_offset(text, (size_t)(length - least));
    const char *blank = bl_jinja_is_true(at[1]) ? NULL : memrchr(text.data, ' ', text.len);
    text.len = blank != NULL ? (size_t)(blank - text.data) : text.len;
    bl_jinja_put_span(run, &out, text);
    bl_jinja_put_span(run, &out, end);
    return bl_jinja_take(&out);
}

bl_jinja_value bl_jinja_filter_center(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    int64_t width = 80;
    bl_span text = jinja_filters_text_of(run, self);
    (void)args;
    if (at[0].kind != BL_JINJA_ABSENT && !bl_jinja_as_int(at[0], &width))
        return bl_jinja_fail(run, BL_EINVAL, "'%s' object cannot be interpreted as an integer", bl_jinja_type(at[0]));
    return jinja_filters_marked_as(bl_jinja_pad(run, text, width, ' ', 'c'), self);
}

bl_jinja_value bl_jinja_filter_wordcount(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                         const bl_jinja_args *args)
{
    bl_span text = jinja_filters_text_of(run, self);
    int64_t words = 0;
    bool within = false;
    size_t bytes = 0;
    (void)at;
    (void)args;
    if (!bl_jinja_work(run, text.len))
        return bl_jinja_none();
    for (size_t i = 0; i < text.len; i += bytes) {
        bool is_word = bl_jinja_is_word(bl_jinja_point(text.data + i, text.data + text.len, &bytes));
        words += is_word && !within;
        within = is_word;
    }
    return bl_jinja_int(words);
}

/* Removes tags and comments and collapses whitespace to single spaces. */
bl_jinja_value bl_jinja_filter_striptags(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                         const bl_jinja_args *args)
{
    bl_span text = jinja_filters_text_of(run, self);
    bl_jinja_buffer out = {0}, words = {0};
    (void)at;
    (void)args;
    for (size_t i = 0; i < text.len && !run->failed;) {
        bool comment = text.len - i >= 4 && memcmp(text.data + i, "<!--", 4) == 0;
        int64_t end = text.data[i] != '<' ? -1 : bl_jinja_find(text, comment ? BL_S("-->") : BL_S(">"), i);
        if (end < 0) {
            if (comment) {
                bl_jinja_put(run, &out, text.data + i, text.len - i);
                break;
            }
            bl_jinja_put(run, &out, text.data + i++, 1);
        } else {
            i = (size_t)end + (comment ? 3 : 1);
        }
    }
    bl_jinja_value list = bl_jinja_split_spaces(run, bl_jinja_text(bl_jinja_take(&out)), -1);
    for (size_t i = 0; !run->failed && i < list.as.list->count; i++) {
        bl_jinja_puts(run, &words, i > 0 ? " " : "");
        bl_jinja_put_span(run, &words, bl_jinja_text(list.as.list->at[i]));
    }
    return bl_jinja_take(&words);
}

static void jinja_filters_put_quoted(bl_jinja_run *run, bl_jinja_buffer *out, bl_span text, bool is_query)
{
    for (size_t i = 0; i < text.len && !run->failed; i++) {
        unsigned char c = (unsigned char)text.data[i];
        char code[4];
        if (c < 0x80 && (isalnum(c) || strchr("_.-~", c) != NULL) && c != 0) {
            bl_jinja_put(run, out, text.data + i, 1);
        } else if ((c == '/' && !is_query) || (c == ' ' && is_query)) {
            bl_jinja_puts(run, out, c == '/' ? "/" : "+");
        } else {
            (void)snprintf(code, sizeof code, "%%%02X", c);
            bl_jinja_puts(run, out, code);
        }
    }
}

bl_jinja_value bl_jinja_filter_urlencode(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                         const bl_jinja_args *args)
{
    bl_jinja_buffer out = {0};
    (void)at;
    (void)args;
    if (self.kind == BL_JINJA_STRING || !bl_jinja_is_iterable(self)) {
        jinja_filters_put_quoted(run, &out, jinja_filters_text_of(run, self), false);
        return bl_jinja_take(&out);
    }
    if (self.kind == BL_JINJA_DICT)
        self = (bl_jinja_value){.kind = BL_JINJA_VIEW, .flag = 'i', .as.dict = self.as.dict};
    bl_jinja_list items = bl_jinja_items(run, self);
    for (size_t i = 0; i < items.count && !run->failed; i++) {
        bl_jinja_list pair = bl_jinja_items(run, items.at[i]);
        if (pair.count != 2)
            return bl_jinja_fail(run, BL_EINVAL, "urlencode takes pairs");
        bl_jinja_puts(run, &out, i > 0 ? "&" : "");
        jinja_filters_put_quoted(run, &out, jinja_filters_text_of(run, pair.at[0]), true);
        bl_jinja_puts(run, &out, "=");
        jinja_filters_put_quoted(run, &out, jinja_filters_text_of(run, pair.at[1]), true);
    }
    return bl_jinja_take(&out);
}

bl_jinja_value bl_jinja_filter_xmlattr(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                       const bl_jinja_args *args)
{
    bl_jinja_buffer out = {0};
    bool space = at[0].kind == BL_JINJA_ABSENT || bl_jinja_is_true(at[0]);
    (void)args;
    if (self.kind != BL_JINJA_DICT)
        return bl_jinja_fail(run, BL_EINVAL, "'%s' object has no attribute 'items'", bl_jinja_type(self));
    for (size_t i = 0; i < self.as.dict->count && !run->failed; i++) {
        bl_span key = bl_jinja_text(self.as.dict->at[i].key);
        bl_jinja_value value = self.as.dict->at[i].value;
        if (value.kind == BL_JINJA_NONE || value.kind == BL_JINJA_UNDEFINED)
            continue;
        for (size_t k = 0; k < key.len; k++) {
            if (key.data[k] == '\0' || strchr(" \t\n\r\f\v/>=", key.data[k]) != NULL)
                return bl_jinja_fail(run, BL_EINVAL, "Invalid character in attribute name");
        }
        bl_jinja_puts(run, &out, out.len > 0 || space ? " " : "");
        bl_jinja_put_escaped(run, &out, self.as.dict->at[i].key);
        bl_jinja_puts(run, &out, "=\"");
        bl_jinja_put_escaped(run, &out, value);
        bl_jinja_puts(run, &out, "\"");
    }
    return bl_jinja_take(&out);
}

/* ---- numbers */

/* Parses the text as Python's int(): digits of |base| with a sign, underscores and surrounding spaces.  False if it is no
 * integer. */
static bool read_int(bl_span text, int64_t base, int64_t *out)
{
    char digits[80];
    size_t n = 0, i = 0;
    text = bl_jinja_strip(text, NULL, true, true);
    if (i < text.len && (text.data[i] == '+' || text.data[i] == '-'))
        digits[n++] = text.data[i++];
    if (text.len - i > 2 && text.data[i] == '0' &&
        ((base == 16 && (text.data[i + 1] | 32) == 'x') || (base == 8 && (text.data[i + 1] | 32) == 'o') ||
         (base == 2 && (text.data[i + 1] | 32) == 'b')))
        i += text.data[i + 2] == '_' ? 3 : 2;
    size_t first = n;
    for (; i < text.len && n + 1 < sizeof digits; i++) {
        bool under = text.data[i] == '_' && n > first && i + 1 < text.len && text.data[i - 1] != '_';
        if (!under && !isalnum((unsigned char)text.data[i]))
            return false;
        if (!under)
            digits[n++] = text.data[i];
    }
    digits[n] = '\0';
    char *stop = digits;
    errno = 0;
    *out = base >= 2 && base <= 36 && n > first ? strtoll(digits, &stop, (int)base) : 0;
    return n > first && stop == digits + n && errno == 0 && i == text.len;
}

/* Parses the text as Python's float(). */
static bool read_float(bl_span text, double *out)
{
    char copy[400];
    size_t n = 0;
    text = bl_jinja_strip(text, NULL, true, true);
    for (size_t i = 0; i < text.len; i++) {
        bool under = text.data[i] == '_' && i > 0 && i + 1 < text.len && isdigit((unsigned char)text.data[i - 1]) &&
                     isdigit((unsigned char)text.data[i + 1]);
        if (n + 1 == sizeof copy || (!under && strchr("0123456789.eE+-infatyINFATY", text.data[i]) == NULL) ||
            text.data[i] == '\0')
            return false;
        if (!under)
            copy[n++] = text.data[i];
    }
    copy[n] = '\0';
    char *stop = copy;
    *out = n > 0 ? strtod(copy, &stop) : 0;
    return n > 0 && stop == copy + n;
}

static bool jinja_filters_as_float(bl_jinja_value value, double *out)
{
    int64_t whole = 0;
    bool is_whole = bl_jinja_as_int(value, &whole);
    if (value.kind == BL_JINJA_STRING)
        return read_float(bl_jinja_text(value), out);
    *out = is_whole ? (double)whole : value.as.number;
    return is_whole || value.kind == BL_JINJA_FLOAT;
}

bl_jinja_value bl_jinja_filter_int(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    int64_t base = 10, whole = 0;
    double number = 0;
    (void)args;
    if (self.kind == BL_JINJA_UNDEFINED)
        return bl_jinja_get_attribute(run, self, BL_S("__int__"));
    if (at[1].kind != BL_JINJA_ABSENT && !bl_jinja_as_int(at[1], &base))
        base = -1; /* no text is a number of an invalid base */
    if (bl_jinja_as_int(self, &whole) || (self.kind == BL_JINJA_STRING && read_int(bl_jinja_text(self), base, &whole)))
        return bl_jinja_int(whole);
    if (jinja_filters_as_float(self, &number) && isfinite(number))
        return fabs(number) < 0x1p63 ? bl_jinja_int((int64_t)number)
                                     : bl_jinja_fail(run, BL_ELIMIT, "an integer does not fit 64 bits");
    return at[0].kind == BL_JINJA_ABSENT ? bl_jinja_int(0) : at[0];
}

bl_jinja_value bl_jinja_filter_float(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    double number = 0;
    (void)args;
    if (self.kind == BL_JINJA_UNDEFINED)
        return bl_jinja_get_attribute(run, self, BL_S("__float__"));
    if (jinja_filters_as_float(self, &number))
        return bl_jinja_float(number);
    return at[0].kind == BL_JINJA_ABSENT ? bl_jinja_float(0) : at[0];
}

bl_jinja_value bl_jinja_filter_abs(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    int64_t whole = 0;
    (void)at;
    (void)args;
    if (self.kind == BL_JINJA_FLOAT)
        return bl_jinja_float(fabs(self.as.number));
    if (!bl_jinja_as_int(self, &whole))
        return bl_jinja_fail(run, BL_EINVAL, "bad operand type for abs(): '%s'", bl_jinja_type(self));
    return whole < 0 ? bl_jinja_binary(run, BL_JINJA_T_SUB, bl_jinja_int(0), bl_jinja_int(whole)) : bl_jinja_int(whole);
}

static double round_to(double value, int64_t digits)
{
    char text[700];
    if (!isfinite(value) || digits > 300)
        return value;
    if (digits >= 0) { /* rounds the exact decimal value, ties to even */
        (void)snprintf(text, sizeof text, "%.*f", (int)digits, value);
        return strtod(text, NULL);
    }
    double unit = pow(10, (double)-digits);
    return isfinite(unit) ? nearbyint(value / unit) * unit : copysign(0, value);
}

static bl_jinja_value round_integer(bl_jinja_run *run, int64_t value, int64_t digits)
{
    int64_t unit = 1;
    for (; digits < 0; digits++) {
        if (__builtin_mul_overflow(unit, 10, &unit))
            return bl_jinja_int(0);
    }
    int64_t rest = value % unit, base = value - rest, twice = 2 * (rest < 0 ? -rest : rest);
    if (unit > INT64_MAX / 2)
        return bl_jinja_fail(run, BL_ELIMIT, "an integer does not fit 64 bits");
    if (twice > unit || (twice == unit && (base / unit) % 2 != 0))
        base += rest < 0 ? -unit : unit;
    return bl_jinja_int(base);
}

bl_jinja_value bl_jinja_filter_round(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bl_span method = at[1].kind == BL_JINJA_ABSENT ? BL_S("common") : bl_jinja_text(at[1]);
    int64_t digits = 0, whole = 0;
    double number = 0;
    (void)args;
    if (!bl_span_is(method, "common") && !bl_span_is(method, "ceil") && !bl_span_is(method, "floor"))
        return bl_jinja_fail(run, BL_EINVAL, "method must be common, ceil or floor");
    if ((at[0].kind != BL_JINJA_ABSENT && !bl_jinja_as_int(at[0], &digits)) || self.kind == BL_JINJA_STRING ||
        !jinja_filters_as_float(self, &number))
        return bl_jinja_fail(run, BL_EINVAL, "type %s doesn't define __round__ method", bl_jinja_type(self));
    if (bl_span_is(method, "common"))
        return bl_jinja_as_int(self, &whole) ? round_integer(run, whole, digits) : bl_jinja_float(round_to(number, digits));
    if (digits > 300 || digits < -300)
        return bl_jinja_fail(run, BL_ELIMIT, "round takes at most 300 digits");
    bl_jinja_value unit = bl_jinja_binary(run, BL_JINJA_T_POW, bl_jinja_int(10), bl_jinja_int(digits));
    bl_jinja_value scaled = run->failed ? unit : bl_jinja_binary(run, BL_JINJA_T_MUL, self, unit);
    if (run->failed || !jinja_filters_as_float(scaled, &number))
        return bl_jinja_none();
    number = bl_span_is(method, "ceil") ? ceil(number) : floor(number);
    if (!(fabs(number) < 0x1p63))
        return bl_jinja_fail(run, BL_ELIMIT, "an integer does not fit 64 bits");
    return bl_jinja_binary(run, BL_JINJA_T_DIV, bl_jinja_int((int64_t)number), unit);
}

bl_jinja_value bl_jinja_filter_filesizeformat(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                              const bl_jinja_args *args)
{
    static const char letters[] = "kMGTPEZY";
    bool binary = bl_jinja_is_true(at[0]);
    double bytes = 0, base = binary ? 1024 : 1000, unit = base * base;
    char text[400];
    int i = 0, n = 0;
    (void)args;
    if (!jinja_filters_as_float(self, &bytes))
        return bl_jinja_fail(run, BL_EINVAL, "could not convert %s to float", bl_jinja_type(self));
    for (; i < 7 && bytes >= unit; i++)
        unit *= base;
    if (bytes < base)
        n = bytes == 1 ? snprintf(text, sizeof text, "1 Byte") : snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    else
        n = snprintf(text, sizeof text, "%.1f %c%sB", base * bytes / unit, binary && i == 0 ? 'K' : letters[i],
                     binary ? "i" : "");
    bl_jinja_buffer out = {0};
    bl_jinja_put(run, &out, text, (size_t)n);
    return bl_jinja_take(&out);
}

/* ---- JSON */

bl_jinja_value bl_jinja_filter_tojson(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bl_jinja_json_style style = {.ascii = bl_jinja_is_true(at[0]), .sorted = bl_jinja_is_true(at[3])};
    bl_jinja_buffer out = {0};
    int64_t width = 0;
    (void)args;
    if (at[1].kind == BL_JINJA_STRING)
        style.indent = bl_jinja_text(at[1]);
    else if (bl_jinja_as_int(at[1], &width))
        style.indent = bl_jinja_text(bl_jinja_binary(run, BL_JINJA_T_MUL, bl_jinja_string(BL_S(" ")), bl_jinja_int(width)));
    else if (at[1].kind != BL_JINJA_ABSENT && at[1].kind != BL_JINJA_NONE && self.kind != BL_JINJA_STRING)
        return bl_jinja_fail(run, BL_EINVAL, "the indent of tojson is a number or a string, not %s", bl_jinja_type(at[1]));
    style.item = style.indent.data != NULL ? BL_S(",") : BL_S(", ");
    style.key = BL_S(": ");
    if (at[2].kind != BL_JINJA_ABSENT && at[2].kind != BL_JINJA_NONE) {
        bl_jinja_list pair = bl_jinja_items(run, at[2]);
        if (pair.count != 2 || pair.at[0].kind != BL_JINJA_STRING || pair.at[1].kind != BL_JINJA_STRING)
            return bl_jinja_fail(run, BL_EINVAL, "the separators of tojson are two strings");
        style.item = bl_jinja_text(pair.at[0]);
        style.key = bl_jinja_text(pair.at[1]);
    }
    bl_jinja_put_json(run, &out, self, &style);
    return bl_jinja_take(&out);
}

bl_jinja_value bl_jinja_filter_from_json(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                         const bl_jinja_args *args)
{
    bl_span text = bl_jinja_text(self);
    bl_json_doc doc = {0};
    bl_err err = {0};
    bl_jinja_value value;
    char *copy = bl_jinja_alloc(run, text.len + 1, 1);
    (void)at;
    (void)args;
    if (self.kind != BL_JINJA_STRING || copy == NULL)
        return bl_jinja_fail(run, BL_EINVAL, "from_json takes a string, not %s", bl_jinja_type(self));
    memcpy(copy, text.data, text.len);
    if (bl_json_parse(&doc, run->arena, (bl_span){copy, text.len}, NULL, &err) == BL_OK) {
        bl_json root = bl_json_root(&doc);
        value = bl_jinja_copy(run, bl_jinja_from_json(run, &root));
    } else {
        value = bl_jinja_fail(run, BL_EINVAL, "from_json: %.300s", err.text);
    }
    bl_json_fini(&doc);
    return value;
}

bl_jinja_value bl_jinja_filter_default(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                       const bl_jinja_args *args)
{
    (void)run;
    (void)args;
    if (self.kind != BL_JINJA_UNDEFINED && (!bl_jinja_is_true(at[1]) || bl_jinja_is_true(self)))
        return self;
    return at[0].kind == BL_JINJA_ABSENT ? bl_jinja_string(BL_S("")) : at[0];
}

bl_jinja_value bl_jinja_filter_attr(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    (void)args;
    if (at[0].kind != BL_JINJA_STRING)
        return bl_jinja_fail(run, BL_EINVAL, "attribute name must be string, not '%s'", bl_jinja_type(at[0]));
    if (self.kind == BL_JINJA_DICT && bl_jinja_find_method(self.kind, bl_jinja_text(at[0])) == NULL)
        return bl_jinja_no_member(self, bl_jinja_text(at[0])); /* reads the attribute, not the dict's key */
    return bl_jinja_get_attribute(run, self, bl_jinja_text(at[0]));
}
