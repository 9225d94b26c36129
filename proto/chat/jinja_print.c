/* SPDX-License-Identifier: MIT */
/* Converts values to text: Python's str() and repr(), and JSON as json.dumps() writes it. */
#include "proto/chat/jinja.h"

#include "proto/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Formats the shortest digits, from bl_print_f64, as Python does: always with a fraction, and with an exponent outside 1e-4 ..
 * 1e16. */
size_t bl_jinja_print_float(char *out, double value)
{
    char text[BL_NUMBER_CHARS], digits[BL_NUMBER_CHARS];
    size_t n = 0, at = 0;
    int point = 0, exponent = 0;
    bool fraction = false;
    if (!isfinite(value)) {
        const char *name = isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
        memcpy(out, name, strlen(name));
        return strlen(name);
    }
    size_t len = bl_print_f64(text, fabs(value));
    for (size_t i = 0; i < len; i++) {
        if (text[i] == 'e' || text[i] == 'E') {
            char tail[BL_NUMBER_CHARS];
            memcpy(tail, text + i + 1, len - i - 1);
            tail[len - i - 1] = '\0';
            exponent = (int)strtol(tail, NULL, 10);
            break;
        }
        if (text[i] == '.') {
            fraction = true;
        } else {
            if (n > 0 || text[i] != '0')
                digits[n++] = text[i];
            point += fraction ? 0 : n > 0;
            point -= fraction && n == 0;
        }
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (n == 0) {
        digits[n++] = '0';
        point = 1;
    }
    exponent += point - 1; /* of the first digit */
    if (signbit(value))
        out[at++] = '-';
    if (exponent < -4 || exponent >= 16) {
        out[at++] = digits[0];
        if (n > 1) {
            out[at++] = '.';
            memcpy(out + at, digits + 1, n - 1);
            at += n - 1;
        }
        return at + (size_t)snprintf(out + at, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    for (int i = exponent < 0 ? exponent : 0; i <= exponent || i < (int)n; i++) {
        if (i == (exponent < 0 ? exponent : 0) + 1 && exponent < 0)
            out[at++] = '.';
        else if (i == exponent + 1 && exponent >= 0)
            out[at++] = '.';
        out[at++] = i < 0 || i >= (int)n ? '0' : digits[i];
    }
    if (exponent >= 0 && (int)n <= exponent + 1) {
        out[at++] = '.';
        out[at++] = '0';
    }
    return at;
}

static void jinja_print_put_integer(bl_jinja_run *run, bl_jinja_buffer *buffer, int64_t value)
{
    char text[BL_NUMBER_CHARS];
    bl_jinja_put(run, buffer, text, bl_print_i64(text, value));
}

static void jinja_print_put_float(bl_jinja_run *run, bl_jinja_buffer *buffer, double value)
{
    char text[2 * BL_NUMBER_CHARS];
    bl_jinja_put(run, buffer, text, bl_jinja_print_float(text, value));
}

/* ---- repr */

static void put_point_escaped(bl_jinja_run *run, bl_jinja_buffer *buffer, uint32_t c)
{
    char text[16];
    int n = c == '\n'     ? snprintf(text, sizeof text, "\\n")
            : c == '\r'   ? snprintf(text, sizeof text, "\\r")
            : c == '\t'   ? snprintf(text, sizeof text, "\\t")
            : c < 0x100   ? snprintf(text, sizeof text, "\\x%02x", c)
            : c < 0x10000 ? snprintf(text, sizeof text, "\\u%04x", c)
                          : snprintf(text, sizeof text, "\\U%08x", c);
    bl_jinja_put(run, buffer, text, (size_t)n);
}

static void jinja_print_put_quoted(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_span text)
{
    char quote = memchr(text.data, '\'', text.len) != NULL && memchr(text.data, '"', text.len) == NULL ? '"' : '\'';
    const char *end = text.data + text.len;
    size_t bytes = 0;
    bl_jinja_put(run, buffer, &quote, 1);
    for (const char *p = text.data; p < end && !run->failed; p += bytes) {
        uint32_t c = bl_jinja_point(p, end, &bytes);
        if (c == '\\' || c == (uint32_t)quote) {
            bl_jinja_puts(run, buffer, "\\");
            bl_jinja_put(run, buffer, p, 1);
        } else if (bl_jinja_is_printable(c)) {
            bl_jinja_put(run, buffer, p, bytes);
        } else {
            put_point_escaped(run, buffer, c);
        }
    }
    bl_jinja_put(run, buffer, &quote, 1);
}

static void put_items(bl_jinja_run *run, bl_jinja_buffer *buffer, const bl_jinja_list *list, const char *open, const char *close)
{
    bl_jinja_puts(run, buffer, open);
    for (size_t i = 0; i < list->count && !run->failed; i++) {
        bl_jinja_puts(run, buffer, i > 0 ? ", " : "");
        bl_jinja_put_repr(run, buffer, list->at[i]);
    }
    bl_jinja_puts(run, buffer, close);
}

static void put_dict(bl_jinja_run *run, bl_jinja_buffer *buffer, const bl_jinja_dict *dict)
{
    bl_jinja_puts(run, buffer, "{");
    for (size_t i = 0; i < dict->count && !run->failed; i++) {
        bl_jinja_puts(run, buffer, i > 0 ? ", " : "");
        bl_jinja_put_repr(run, buffer, dict->at[i].key);
        bl_jinja_puts(run, buffer, ": ");
        bl_jinja_put_repr(run, buffer, dict->at[i].value);
    }
    bl_jinja_puts(run, buffer, "}");
}

static void put_range(bl_jinja_run *run, bl_jinja_buffer *buffer, const bl_jinja_range *range)
{
    bl_jinja_puts(run, buffer, "range(");
    jinja_print_put_integer(run, buffer, range->start);
    bl_jinja_puts(run, buffer, ", ");
    jinja_print_put_integer(run, buffer, range->stop);
    if (range->step != 1) {
        bl_jinja_puts(run, buffer, ", ");
        jinja_print_put_integer(run, buffer, range->step);
    }
    bl_jinja_puts(run, buffer, ")");
}

static void put_view(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value view)
{
    bl_jinja_list items = bl_jinja_items(run, view);
    bl_jinja_puts(run, buffer, view.flag == 'k' ? "dict_keys(" : view.flag == 'v' ? "dict_values(" : "dict_items(");
    put_items(run, buffer, &items, "[", "])");
}

static void put_repr(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value)
{
    switch (value.kind) {
    case BL_JINJA_NONE:
        bl_jinja_puts(run, buffer, "None");
        break;
    case BL_JINJA_BOOL:
        bl_jinja_puts(run, buffer, value.as.boolean ? "True" : "False");
        break;
    case BL_JINJA_INT:
        jinja_print_put_integer(run, buffer, value.as.integer);
        break;
    case BL_JINJA_FLOAT:
        jinja_print_put_float(run, buffer, value.as.number);
        break;
    case BL_JINJA_STRING:
        bl_jinja_puts(run, buffer, value.flag ? "Markup(" : "");
        jinja_print_put_quoted(run, buffer, bl_jinja_text(value));
        bl_jinja_puts(run, buffer, value.flag ? ")" : "");
        break;
    case BL_JINJA_LIST:
        put_items(run, buffer, value.as.list, "[", "]");
        break;
    case BL_JINJA_TUPLE:
        put_items(run, buffer, value.as.list, "(", value.as.list->count == 1 ? ",)" : ")");
        break;
    case BL_JINJA_DICT:
        put_dict(run, buffer, value.as.dict);
        break;
    case BL_JINJA_VIEW:
        put_view(run, buffer, value);
        break;
    case BL_JINJA_RANGE:
        put_range(run, buffer, value.as.range);
        break;
    case BL_JINJA_NAMESPACE:
        bl_jinja_puts(run, buffer, "<Namespace ");
        put_dict(run, buffer, value.as.dict);
        bl_jinja_puts(run, buffer, ">");
        break;
    case BL_JINJA_UNDEFINED:
    case BL_JINJA_ABSENT:
        bl_jinja_puts(run, buffer, "Undefined");
        break;
    case BL_JINJA_STREAM:
    case BL_JINJA_MACRO:
    case BL_JINJA_FUNCTION:
    case BL_JINJA_METHOD:
    case BL_JINJA_LOOP:
    case BL_JINJA_KINDS:
        bl_jinja_puts(run, buffer, "<");
        bl_jinja_puts(run, buffer, bl_jinja_type(value));
        bl_jinja_puts(run, buffer, ">");
        break;
    }
}

void bl_jinja_put_repr(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value)
{
    if (bl_jinja_enter(run))
        put_repr(run, buffer, value);
    bl_jinja_leave(run);
}

void bl_jinja_put_str(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value)
{
    if (value.kind == BL_JINJA_STRING)
        bl_jinja_put_span(run, buffer, bl_jinja_text(value));
    else if (value.kind != BL_JINJA_UNDEFINED)
        bl_jinja_put_repr(run, buffer, value);
}

bl_jinja_value bl_jinja_str(bl_jinja_run *run, bl_jinja_value value)
{
    bl_jinja_buffer buffer = {0};
    if (value.kind == BL_JINJA_STRING)
        return bl_jinja_string(bl_jinja_text(value));
    bl_jinja_put_str(run, &buffer, value);
    return bl_jinja_take(&buffer);
}

/* ---- JSON */

static void put_unicode(bl_jinja_run *run, bl_jinja_buffer *buffer, uint32_t c)
{
    char text[16];
    int n = c < 0x10000
                ? snprintf(text, sizeof text, "\\u%04x", c)
                : snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    bl_jinja_put(run, buffer, text, (size_t)n);
}

static void put_json_string(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_span text, bool ascii)
{
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *end = text.data + text.len;
    size_t bytes = 0;
    bl_jinja_puts(run, buffer, "\"");
    for (const char *p = text.data; p < end && !run->failed; p += bytes) {
        uint32_t c = bl_jinja_point(p, end, &bytes);
        const char *at = c != 0 && c < 0x80 ? strchr(plain, (int)c) : NULL;
        if (at != NULL) {
            bl_jinja_puts(run, buffer, "\\");
            bl_jinja_put(run, buffer, &letters[at - plain], 1);
        } else if (c < 0x20 || (ascii && c > 0x7e)) {
            put_unicode(run, buffer, c);
        } else {
            bl_jinja_put(run, buffer, p, bytes);
        }
    }
    bl_jinja_puts(run, buffer, "\"");
}

typedef struct json_writer {
    bl_jinja_run *run;
    bl_jinja_buffer *buffer;
    const bl_jinja_json_style *style;
    int level;
} json_writer;

static void jinja_print_put_json(json_writer *json, bl_jinja_value value);

/* Writes the separator before an item or, with |closes|, before the closing bracket. */
static void put_break(json_writer *json, bool first, bool closes)
{
    if (!first && !closes)
        bl_jinja_put_span(json->run, json->buffer, json->style->item);
    if (json->style->indent.data == NULL)
        return;
    bl_jinja_puts(json->run, json->buffer, "\n");
    for (int i = 0; i < json->level; i++)
        bl_jinja_put_span(json->run, json->buffer, json->style->indent);
}

static void put_json_list(json_writer *json, const bl_jinja_list *list)
{
    bl_jinja_puts(json->run, json->buffer, "[");
    json->level++;
    for (size_t i = 0; i < list->count && !json->run->failed; i++) {
        put_break(json, i == 0, false);
        jinja_print_put_json(json, list->at[i]);
    }
    json->level--;
    if (list->count > 0)
        put_break(json, false, true);
    bl_jinja_puts(json->run, json->buffer, "]");
}

static void put_json_key(json_writer *json, bl_jinja_value key)
{
    bl_jinja_value text = key;
    if (key.kind == BL_JINJA_NONE || key.kind == BL_JINJA_BOOL || key.kind == BL_JINJA_INT || key.kind == BL_JINJA_FLOAT) {
        bl_jinja_buffer buffer = {0};
        json_writer inner = {.run = json->run, .buffer = &buffer, .style = json->style};
        jinja_print_put_json(&inner, key);
        text = bl_jinja_take(&buffer);
    } else if (key.kind != BL_JINJA_STRING) {
        (void)bl_jinja_fail(json->run, BL_EINVAL, "keys must be str, int, float, bool or None, not %s", bl_jinja_type(key));
    }
    put_json_string(json->run, json->buffer, bl_jinja_text(text), json->style->ascii);
    bl_jinja_put_span(json->run, json->buffer, json->style->key);
}

static void sort_entries(bl_jinja_run *run, bl_jinja_entry *at, size_t count)
{
    for (size_t i = 1; i < count && bl_jinja_work(run, 16 * i); i++) {
        bl_jinja_entry entry = at[i];
        size_t k = i;
        for (; k > 0 && bl_jinja_less(run, entry.key, at[k - 1].key); k--)
            at[k] = at[k - 1];
        at[k] = entry;
    }
}

static void put_json_dict(json_writer *json, const bl_jinja_dict *dict)
{
    bl_jinja_entry *at = dict->at;
    if (json->style->sorted && dict->count > 0) {
        at = bl_jinja_alloc(json->run, dict->count, sizeof *at);
        if (at == NULL)
            return;
        memcpy(at, dict->at, dict->count * sizeof *at);
        sort_entries(json->run, at, dict->count);
    }
    bl_jinja_puts(json->run, json->buffer, "{");
    json->level++;
    for (size_t i = 0; i < dict->count && !json->run->failed; i++) {
        put_break(json, i == 0, false);
        put_json_key(json, at[i].key);
        jinja_print_put_json(json, at[i].value);
    }
    json->level--;
    if (dict->count > 0)
        put_break(json, false, true);
    bl_jinja_puts(json->run, json->buffer, "}");
}

static void jinja_print_put_json(json_writer *json, bl_jinja_value value)
{
    bl_jinja_run *run = json->run;
    bl_jinja_buffer *buffer = json->buffer;
    if (!bl_jinja_enter(run)) {
        bl_jinja_leave(run);
        return;
    }
    if (value.kind == BL_JINJA_NONE)
        bl_jinja_puts(run, buffer, "null");
    else if (value.kind == BL_JINJA_BOOL)
        bl_jinja_puts(run, buffer, value.as.boolean ? "true" : "false");
    else if (value.kind == BL_JINJA_INT)
        jinja_print_put_integer(run, buffer, value.as.integer);
    else if (value.kind == BL_JINJA_FLOAT && !isfinite(value.as.number))
        bl_jinja_puts(run, buffer, isnan(value.as.number) ? "NaN" : value.as.number < 0 ? "-Infinity" : "Infinity");
    else if (value.kind == BL_JINJA_FLOAT)
        jinja_print_put_float(run, buffer, value.as.number);
    else if (value.kind == BL_JINJA_STRING)
        put_json_string(run, buffer, bl_jinja_text(value), json->style->ascii);
    else if (value.kind == BL_JINJA_LIST || value.kind == BL_JINJA_TUPLE)
        put_json_list(json, value.as.list);
    else if (value.kind == BL_JINJA_DICT)
        put_json_dict(json, value.as.dict);
    else
        (void)bl_jinja_fail(run, BL_EINVAL, "Object of type %s is not JSON serializable", bl_jinja_type(value));
    bl_jinja_leave(run);
}

void bl_jinja_put_json(bl_jinja_run *run, bl_jinja_buffer *buffer, bl_jinja_value value, const bl_jinja_json_style *style)
{
    json_writer json = {.run = run, .buffer = buffer, .style = style};
    jinja_print_put_json(&json, value);
}
