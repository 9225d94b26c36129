/* SPDX-License-Identifier: MIT */
/* "..." % values, and "...".format(values): both parse the same format specification and print a value with it. */
#include "proto/chat/jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 100000 /* largest field width; MOST_DIGITS limits the digits of a float */, MOST_DIGITS = 400 };

typedef struct spec {
    uint32_t fill;
    char align; /* '<', '>', '^', '=', or 0 */
    char sign;  /* '+', ' ', or 0 */
    bool alternate, grouped;
    int64_t width, precision; /* -1: not given */
    char type;                /* 0: not given */
} spec;

static bl_jinja_value fail_format(bl_jinja_run *run, const char *what)
{
    return bl_jinja_fail(run, BL_EINVAL, "%s", what);
}

/* Pads |text| to the width of the field; the last |digits| bytes are its digits, after a sign and a prefix. */
static void jinja_format_put_field(bl_jinja_run *run, bl_jinja_buffer *out, const spec *s, bl_span text, size_t digits)
{
    int64_t pad = s->width - (int64_t)bl_jinja_points(text);
    size_t head = s->align == '=' ? text.len - digits : 0;
    int64_t left = pad <= 0 ? 0 : s->align == '<' ? 0 : s->align == '^' ? pad / 2 : pad;
    bl_jinja_put(run, out, text.data, head);
    for (int64_t i = 0; i < left && !run->failed; i++)
        bl_jinja_put_point(run, out, s->fill);
    bl_jinja_put(run, out, text.data + head, text.len - head);
    for (int64_t i = left; i < pad && !run->failed; i++)
        bl_jinja_put_point(run, out, s->fill);
}

static void jinja_format_put_text(bl_jinja_run *run, bl_jinja_buffer *out, const spec *s, bl_span text)
{
    if (s->precision >= 0)
        text.len = bl_jinja_offset(text, (size_t)s->precision);
    jinja_format_put_field(run, out, s, text, text.len);
}

/* Puts a comma between groups of three of the |n| digits at |text|. */
static size_t group_digits(char *text, size_t n)
{
    char copy[MOST_DIGITS + 64];
    size_t at = 0;
    memcpy(copy, text, n);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = copy[i];
    }
    return at;
}

static size_t put_sign(char *text, const spec *s, bool negative)
{
    if (negative || s->sign != 0)
        text[0] = negative ? '-' : s->sign;
    return negative || s->sign != 0;
}

static void jinja_format_put_integer(bl_jinja_run *run, bl_jinja_buffer *out, const spec *s, int64_t value)
{
    char text[256], digits[80];
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    unsigned base = s->type == 'x' || s->type == 'X' ? 16 : s->type == 'o' ? 8 : s->type == 'b' ? 2 : 10;
    size_t at = put_sign(text, s, value < 0), n = 0;
    if (s->alternate && base != 10) {
        text[at++] = '0';
        text[at++] = s->type;
    }
    do
        digits[n++] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[magnitude % base];
    while ((magnitude /= base) > 0);
    size_t zeros = s->precision > (int64_t)n && s->precision < 100 ? (size_t)s->precision - n : 0;
    memset(text + at, '0', zeros);
    for (size_t i = 0; i < n; i++)
        text[at + zeros + i] = digits[n - 1 - i];
    n += zeros;
    if (s->grouped)
        n = group_digits(text + at, n);
    jinja_format_put_field(run, out, s, (bl_span){text, at + n}, n);
}

static size_t print_double(char *out, size_t size, char type, bool alternate, int precision, double value)
{
    int n = 0;
    if (type == 'e')
        n = alternate ? snprintf(out, size, "%#.*e", precision, value) : snprintf(out, size, "%.*e", precision, value);
    else if (type == 'E')
        n = alternate ? snprintf(out, size, "%#.*E", precision, value) : snprintf(out, size, "%.*E", precision, value);
    else if (type == 'f' || type == 'F')
        n = alternate ? snprintf(out, size, "%#.*f", precision, value) : snprintf(out, size, "%.*f", precision, value);
    else if (type == 'g')
        n = alternate ? snprintf(out, size, "%#.*g", precision, value) : snprintf(out, size, "%.*g", precision, value);
    else
        n = alternate ? snprintf(out, size, "%#.*G", precision, value) : snprintf(out, size, "%.*G", precision, value);
    return (size_t)n;
}

static void jinja_format_put_number(bl_jinja_run *run, bl_jinja_buffer *out, const spec *s, double value)
{
    char text[2 * MOST_DIGITS + 512];
    char type = s->type == 0 ? 'g' : s->type == '%' ? 'f' : s->type;
    int precision = (int)(s->precision < 0 ? 6 : s->precision);
    size_t at = put_sign(text, s, signbit(value) && !isnan(value)), n = 0;
    if (s->precision > MOST_DIGITS) {
        (void)fail_format(run, "precision too big");
        return;
    }
    if (s->type == '%')
        value *= 100;
    if (s->type == 0 && s->precision < 0) {
        n = bl_jinja_print_float(text + at, fabs(value));
    } else {
        n = print_double(text + at, sizeof text - at - 8, type, s->alternate, precision, fabs(value));
    }
    if (s->grouped) {
        size_t whole = strspn(text + at, "0123456789"), rest = n - whole;
        char tail[MOST_DIGITS + 64];
        memcpy(tail, text + at + whole, rest);
        whole = group_digits(text + at, whole);
        memcpy(text + at + whole, tail, rest);
        n = whole + rest;
    }
    if (s->type == '%')
        text[at + n++] = '%';
    jinja_format_put_field(run, out, s, (bl_span){text, at + n}, n);
}

static bool jinja_format_is_in(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static bool jinja_format_as_float(bl_jinja_value value, double *out)
{
    int64_t whole = 0;
    bool is_whole = bl_jinja_as_int(value, &whole);
    *out = is_whole ? (double)whole : value.as.number;
    return is_whole || value.kind == BL_JINJA_FLOAT;
}

/* ---- % */

typedef struct percent {
    bl_jinja_run *run;
    bl_jinja_buffer out;
    const char *p, *end;
    bl_jinja_value value; /* the right operand */
    size_t next;          /* next item, if the operand is a tuple */
    bool named;
} percent;

static bl_jinja_value take_argument(percent *f)
{
    if (f->value.kind == BL_JINJA_TUPLE && f->next < f->value.as.list->count)
        return f->value.as.list->at[f->next++];
    if (f->value.kind != BL_JINJA_TUPLE && f->next++ == 0)
        return f->value;
    return fail_format(f->run, "not enough arguments for format string");
}

static int64_t jinja_format_read_count(percent *f)
{
    int64_t n = 0;
    if (f->p < f->end && *f->p == '*') {
        f->p++;
        if (!bl_jinja_as_int(take_argument(f), &n))
            (void)fail_format(f->run, "* wants int");
    } else {
        for (; f->p < f->end && *f->p >= '0' && *f->p <= '9'; f->p++)
            n = n > WIDEST ? n : 10 * n + (*f->p - '0');
    }
    if (n > WIDEST || n < -WIDEST)
        (void)bl_jinja_fail(f->run, BL_ELIMIT, "a field is wider than 100000");
    return n;
}

static void put_percent(percent *f, const spec *given, bl_jinja_value value)
{
    spec s = *given;
    int64_t whole = 0;
    double number = 0;
    if (jinja_format_is_in(s.type, "srac")) {
        bl_jinja_buffer text = {0};
        if (s.type == 'c' && bl_jinja_as_int(value, &whole))
            bl_jinja_put_point(f->run, &text, (uint32_t)(whole > 0 && whole < 0x110000 ? whole : 0xfffd));
        else if (s.type == 's' || (s.type == 'c' && value.kind == BL_JINJA_STRING && bl_jinja_points(bl_jinja_text(value)) == 1))
            bl_jinja_put_str(f->run, &text, value);
        else if (s.type == 'c')
            (void)fail_format(f->run, "%c requires int or char");
        else
            bl_jinja_put_repr(f->run, &text, value);
        s.fill = ' ';
        jinja_format_put_text(f->run, &f->out, &s, bl_jinja_text(bl_jinja_take(&text)));
    } else if (jinja_format_is_in(s.type, "diuxXo")) {
        if (value.kind == BL_JINJA_FLOAT && jinja_format_is_in(s.type, "diu") && fabs(value.as.number) < 0x1p62)
            whole = (int64_t)value.as.number;
        else if (!bl_jinja_as_int(value, &whole))
            (void)bl_jinja_fail(f->run, BL_EINVAL, "%%%c format: a real number is required, not %s", s.type,
                                bl_jinja_type(value));
        jinja_format_put_integer(f->run, &f->out, &s, whole);
    } else if (jinja_format_is_in(s.type, "eEfFgG")) {
        if (!jinja_format_as_float(value, &number))
            (void)bl_jinja_fail(f->run, BL_EINVAL, "must be real number, not %s", bl_jinja_type(value));
        jinja_format_put_number(f->run, &f->out, &s, number);
    } else {
        (void)bl_jinja_fail(f->run, BL_EINVAL, "unsupported format character '%c'", s.type);
    }
}

static void percent_field(percent *f)
{
    spec s = {.fill = ' ', .align = '>', .precision = -1};
    bl_jinja_value named = bl_jinja_absent();
    if (f->p < f->end && *f->p == '(') {
        const char *close = memchr(f->p, ')', (size_t)(f->end - f->p));
        if (close == NULL || f->value.kind != BL_JINJA_DICT) {
            (void)fail_format(f->run, "format requires a mapping");
            return;
        }
        bl_span key = {f->p + 1, (size_t)(close - f->p - 1)};
        const bl_jinja_value *found = bl_jinja_dict_get(f->run, f->value.as.dict, bl_jinja_string(key));
        named = found != NULL
                    ? *found
                    : bl_jinja_fail(f->run, BL_EINVAL, "KeyError: '%.*s'", (int)(key.len > 99 ? 99 : key.len), key.data);
        f->named = true;
        f->p = close + 1;
    }
    for (; f->p < f->end && jinja_format_is_in(*f->p, "-+ #0"); f->p++) {
        s.align = *f->p == '-' ? '<' : *f->p == '0' && s.align != '<' ? '=' : s.align;
        s.sign = *f->p == '+' || (*f->p == ' ' && s.sign == 0) ? *f->p : s.sign;
        s.alternate = s.alternate || *f->p == '#';
    }
    s.width = jinja_format_read_count(f);
    if (s.width < 0) {
        s.align = '<';
        s.width = -s.width;
    }
    if (f->p < f->end && *f->p == '.') {
        f->p++;
        s.precision = jinja_format_read_count(f);
        s.precision = s.precision < 0 ? 0 : s.precision;
    }
    f->p += f->p < f->end && jinja_format_is_in(*f->p, "hlL");
    if (f->p >= f->end) {
        (void)fail_format(f->run, "incomplete format");
        return;
    }
    s.type = *f->p++;
    s.fill = s.align == '=' ? '0' : ' ';
    if (s.type == '%')
        bl_jinja_puts(f->run, &f->out, "%");
    else
        put_percent(f, &s, named.kind != BL_JINJA_ABSENT ? named : take_argument(f));
}

bl_jinja_value bl_jinja_percent(bl_jinja_run *run, bl_span format, bl_jinja_value value)
{
    percent f = {.run = run, .p = format.data, .end = format.data + format.len, .value = value};
    while (f.p < f.end && !run->failed) {
        const char *mark = memchr(f.p, '%', (size_t)(f.end - f.p)), *stop = mark != NULL ? mark : f.end;
        bl_jinja_put(run, &f.out, f.p, (size_t)(stop - f.p));
        f.p = mark != NULL ? mark + 1 : f.end;
        if (mark != NULL)
            percent_field(&f);
    }
    bool all = f.next > 0 || f.named;
    if (value.kind == BL_JINJA_TUPLE)
        all = f.next == value.as.list->count;
    else if (value.kind == BL_JINJA_DICT || value.kind == BL_JINJA_LIST || value.kind == BL_JINJA_RANGE ||
             value.kind == BL_JINJA_UNDEFINED)
        all = true; /* a value that has items may remain unused */
    if (!all && !run->failed)
        return fail_format(run, "not all arguments converted during string formatting");
    return bl_jinja_take(&f.out);
}

/* ---- str.format */

typedef struct formatter {
    bl_jinja_run *run;
    const bl_jinja_args *args;
    bl_jinja_buffer out;
    size_t next; /* argument of the next {} */
} formatter;

static const char *read_digits(const char *p, const char *end, int64_t *out)
{
    for (*out = 0; p < end && *p >= '0' && *p <= '9'; p++)
        *out = *out > WIDEST ? *out : 10 * *out + (*p - '0');
    return p;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool read_spec(formatter *f, bl_span text, spec *s)
{
    const char *p = text.data, *end = text.data + text.len;
    size_t bytes = 0;
    uint32_t fill = bl_jinja_point(p, end, &bytes);
    *s = (spec){.fill = ' ', .precision = -1};
    if (text.len > bytes && jinja_format_is_in(p[bytes], "<>^=")) {
        s->fill = fill;
        s->align = p[bytes];
        p += bytes + 1;
    } else if (p < end && jinja_format_is_in(*p, "<>^=")) {
        s->align = *p++;
    }
    if (p < end && jinja_format_is_in(*p, "+- ")) {
        s->sign = *p == '-' ? 0 : *p;
        p++;
    }
    if (p < end && *p == '#') {
        s->alternate = true;
        p++;
    }
    if (p < end && *p == '0') {
        s->fill = s->align == 0 ? '0' : s->fill;
        s->align = s->align == 0 ? '=' : s->align;
        p++;
    }
    p = read_digits(p, end, &s->width);
    if (p < end && *p == ',') {
        s->grouped = true;
        p++;
    }
    if (p < end && *p == '.') {
        const char *digits = p + 1;
        p = read_digits(digits, end, &s->precision);
        if (p == digits)
            return fail_format(f->run, "Format specifier missing precision").len > 0;
    }
    if (p < end)
        s->type = *p++;
    if (p != end)
        return fail_format(f->run, "Invalid format specifier").len > 0;
    if (s->width > WIDEST || s->precision > WIDEST)
        (void)bl_jinja_fail(f->run, BL_ELIMIT, "a field is wider than 100000");
    return !f->run->failed;
}

static void put_formatted(formatter *f, bl_jinja_value value, bl_span text)
{
    spec s;
    int64_t whole = 0;
    double number = 0;
    bool is_bool = value.kind == BL_JINJA_BOOL;
    if (!read_spec(f, text, &s))
        return;
    if (value.kind == BL_JINJA_STRING || (is_bool && text.len == 0)) {
        if ((s.type != 0 && s.type != 's') || s.align == '=' || s.sign != 0 || s.grouped) {
            (void)bl_jinja_fail(f->run, BL_EINVAL, "Invalid format specifier for a string");
            return;
        }
        s.align = s.align == 0 ? '<' : s.align;
        jinja_format_put_text(f->run, &f->out, &s, bl_jinja_text(bl_jinja_str(f->run, value)));
        return;
    }
    s.align = s.align == 0 ? '>' : s.align;
    if (bl_jinja_as_int(value, &whole) && (s.type == 0 || jinja_format_is_in(s.type, "bdoxXn")) && s.precision < 0) {
        jinja_format_put_integer(f->run, &f->out, &s, whole);
    } else if (jinja_format_as_float(value, &number) &&
               jinja_format_is_in(s.type, "eEfFgG%") != (s.type == 0 && value.kind == BL_JINJA_FLOAT)) {
        jinja_format_put_number(f->run, &f->out, &s, number);
    } else if (text.len > 0) {
        (void)bl_jinja_fail(f->run, BL_EINVAL, "unsupported format specifier for '%s'", bl_jinja_type(value));
    } else {
        bl_jinja_put_str(f->run, &f->out, value);
    }
}

static bl_jinja_value format_argument(formatter *f, bl_span name)
{
    int64_t index = 0;
    const char *stop = read_digits(name.data, name.data + name.len, &index);
    if (name.len == 0)
        index = (int64_t)f->next++;
    else if (stop != name.data + name.len)
        index = -1;
    if (index >= 0)
        return (size_t)index < f->args->count ? f->args->at[index]
                                              : fail_format(f->run, "Replacement index out of range for positional args tuple");
    const bl_jinja_value *found = bl_jinja_dict_get(f->run, &f->args->named, bl_jinja_string(name));
    return found != NULL ? *found
                         : bl_jinja_fail(f->run, BL_EINVAL, "KeyError: '%.*s'", (int)(name.len > 99 ? 99 : name.len), name.data);
}

/* name(.attribute | [item])* */
static bl_jinja_value format_value(formatter *f, bl_span field)
{
    size_t at = 0;
    while (at < field.len && field.data[at] != '.' && field.data[at] != '[')
        at++;
    bl_jinja_value value = format_argument(f, (bl_span){field.data, at});
    while (at < field.len && !f->run->failed) {
        bool is_item = field.data[at++] == '[';
        size_t from = at;
        while (at < field.len && (is_item ? field.data[at] != ']' : field.data[at] != '.' && field.data[at] != '['))
            at++;
        bl_span name = {field.data + from, at - from};
        int64_t index = 0;
        if (!is_item)
            value = bl_jinja_get_attribute(f->run, value, name);
        else if (name.len > 0 && read_digits(name.data, name.data + name.len, &index) == name.data + name.len)
            value = bl_jinja_get_item(f->run, value, bl_jinja_int(index));
        else
            value = bl_jinja_get_item(f->run, value, bl_jinja_string(name));
        at += is_item && at < field.len;
    }
    return value;
}

/* A replacement field without its braces. */
static void format_field(formatter *f, bl_span field)
{
    const char *colon = memchr(field.data, ':', field.len);
    bl_span name = {field.data, colon != NULL ? (size_t)(colon - field.data) : field.len};
    bl_span text = {colon != NULL ? colon + 1 : "", colon != NULL ? field.len - name.len - 1 : 0};
    char conversion = 0;
    if (name.len >= 2 && name.data[name.len - 2] == '!') {
        conversion = name.data[name.len - 1];
        name.len -= 2;
    }
    if (memchr(text.data, '{', text.len) != NULL) {
        (void)fail_format(f->run, "a field within a format specifier is not supported");
        return;
    }
    bl_jinja_value value = format_value(f, name);
    if (conversion == 'r' || conversion == 'a') {
        bl_jinja_buffer repr = {0};
        bl_jinja_put_repr(f->run, &repr, value);
        value = bl_jinja_take(&repr);
    } else if (conversion == 's') {
        value = bl_jinja_str(f->run, value);
    } else if (conversion != 0) {
        (void)fail_format(f->run, "Unknown conversion specifier");
    }
    if (!f->run->failed)
        put_formatted(f, value, text);
}

bl_jinja_value bl_jinja_format(bl_jinja_run *run, bl_span format, const bl_jinja_args *args)
{
    formatter f = {.run = run, .args = args};
    const char *p = format.data, *end = format.data + format.len;
    while (p < end && !run->failed) {
        const char *mark = p;
        while (mark < end && *mark != '{' && *mark != '}')
            mark++;
        bl_jinja_put(run, &f.out, p, (size_t)(mark - p));
        if (mark == end)
            break;
        if (mark + 1 < end && mark[1] == *mark) {
            bl_jinja_put(run, &f.out, mark, 1);
            p = mark + 2;
            continue;
        }
        const char *close = *mark == '{' ? memchr(mark, '}', (size_t)(end - mark)) : NULL;
        if (close == NULL)
            return fail_format(run,
                               *mark == '{' ? "expected '}' before end of string" : "Single '}' encountered in format string");
        format_field(&f, (bl_span){mark + 1, (size_t)(close - mark - 1)});
        p = close + 1;
    }
    return bl_jinja_take(&f.out);
}
