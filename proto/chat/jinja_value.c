/* SPDX-License-Identifier: MIT */
/* Constructors of values, and Python's operators on containers. */
#include "proto/chat/jinja.h"

#include "proto/number.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* ---- constructors */

bl_jinja_value bl_jinja_none(void)
{
    return (bl_jinja_value){.kind = BL_JINJA_NONE};
}

bl_jinja_value bl_jinja_absent(void)
{
    return (bl_jinja_value){.kind = BL_JINJA_ABSENT};
}

bl_jinja_value bl_jinja_bool(bool value)
{
    return (bl_jinja_value){.kind = BL_JINJA_BOOL, .as.boolean = value};
}

bl_jinja_value bl_jinja_int(int64_t value)
{
    return (bl_jinja_value){.kind = BL_JINJA_INT, .as.integer = value};
}

bl_jinja_value bl_jinja_float(double value)
{
    return (bl_jinja_value){.kind = BL_JINJA_FLOAT, .as.number = value};
}

bl_jinja_value bl_jinja_string(bl_span text)
{
    return (bl_jinja_value){.kind = BL_JINJA_STRING, .len = text.len, .as.data = text.len > 0 ? text.data : ""};
}

bl_jinja_value bl_jinja_undefined(bl_jinja_reason reason, bl_span text)
{
    return (bl_jinja_value){.kind = BL_JINJA_UNDEFINED, .flag = (uint8_t)reason, .len = text.len, .as.data = text.data};
}

bl_jinja_value bl_jinja_no_member(bl_jinja_value of, bl_span name)
{
    bl_jinja_value value = bl_jinja_undefined(BL_JINJA_NO_MEMBER, name);
    value.of = (uint8_t)of.kind;
    return value;
}

bl_jinja_value bl_jinja_list_of(bl_jinja_run *run, bl_jinja_kind kind, bl_jinja_value *at, size_t count)
{
    bl_jinja_list *list = bl_jinja_alloc(run, 1, sizeof *list);
    if (list == NULL)
        return bl_jinja_none();
    *list = (bl_jinja_list){.at = at, .count = count};
    return (bl_jinja_value){.kind = kind, .as.list = list};
}

bl_jinja_value bl_jinja_stream_of(bl_jinja_run *run, bl_jinja_value *at, size_t count, const bl_err *failure)
{
    bl_jinja_stream *stream = bl_jinja_alloc(run, 1, sizeof *stream);
    if (stream == NULL)
        return bl_jinja_none();
    *stream = (bl_jinja_stream){.items = {.at = at, .count = count}, .failure = failure};
    return (bl_jinja_value){.kind = BL_JINJA_STREAM, .as.stream = stream};
}

bl_jinja_value bl_jinja_dict_make(bl_jinja_run *run)
{
    bl_jinja_dict *dict = bl_jinja_alloc(run, 1, sizeof *dict);
    return dict != NULL ? (bl_jinja_value){.kind = BL_JINJA_DICT, .as.dict = dict} : bl_jinja_none();
}

bl_jinja_value bl_jinja_pair(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b)
{
    bl_jinja_value *at = bl_jinja_alloc(run, 2, sizeof *at);
    if (at == NULL)
        return bl_jinja_none();
    at[0] = a;
    at[1] = b;
    return bl_jinja_list_of(run, BL_JINJA_TUPLE, at, 2);
}

void bl_jinja_push(bl_jinja_run *run, bl_jinja_list *list, size_t *cap, bl_jinja_value value)
{
    if (list->count == *cap) {
        size_t more = *cap < 8 ? 8 : 2 * *cap;
        bl_jinja_value *at = bl_jinja_alloc(run, more, sizeof *at);
        if (at == NULL)
            return;
        if (list->count > 0)
            memcpy(at, list->at, list->count * sizeof *at);
        list->at = at;
        *cap = more;
    }
    list->at[list->count++] = value;
}

/* ---- dicts */

const bl_jinja_value *bl_jinja_dict_get(bl_jinja_run *run, const bl_jinja_dict *dict, bl_jinja_value key)
{
    if (!bl_jinja_work(run, dict->count * 16))
        return NULL;
    for (size_t i = 0; i < dict->count; i++) {
        const bl_jinja_entry *entry = &dict->at[i];
        if (key.kind == BL_JINJA_STRING && entry->key.kind == BL_JINJA_STRING
                ? bl_span_eq(bl_jinja_text(key), bl_jinja_text(entry->key))
                : bl_jinja_equal(run, entry->key, key))
            return &entry->value;
    }
    return NULL;
}

void bl_jinja_dict_set(bl_jinja_run *run, bl_jinja_dict *dict, bl_jinja_value key, bl_jinja_value value)
{
    bl_jinja_value *found = NULL;
    if (!bl_jinja_is_hashable(key)) {
        (void)bl_jinja_fail(run, BL_EINVAL, "unhashable type: '%s'", bl_jinja_type(key));
        return;
    }
    for (size_t i = 0; i < dict->count && found == NULL; i++)
        found = bl_jinja_equal(run, dict->at[i].key, key) ? &dict->at[i].value : NULL;
    if (!bl_jinja_work(run, dict->count * 16))
        return;
    if (found != NULL) {
        *found = value;
        return;
    }
    if (dict->count == dict->cap) {
        size_t cap = dict->cap < 8 ? 8 : 2 * dict->cap;
        bl_jinja_entry *at = bl_jinja_alloc(run, cap, sizeof *at);
        if (at == NULL)
            return;
        if (dict->count > 0)
            memcpy(at, dict->at, dict->count * sizeof *at);
        dict->at = at;
        dict->cap = cap;
    }
    dict->at[dict->count++] = (bl_jinja_entry){key, value};
}

/* ---- the input */

static bl_jinja_value from_number(bl_jinja_run *run, bl_span text)
{
    bl_decimal number;
    uint64_t magnitude = 0;
    if (bl_decimal_scan(text.data, text.data + text.len, &number) == NULL)
        return bl_jinja_fail(run, BL_EINVAL, "the input has a malformed number");
    if (number.whole && bl_decimal_to_whole(&number, &magnitude) == BL_WHOLE_OK && magnitude <= INT64_MAX)
        return bl_jinja_int(number.negative ? -(int64_t)magnitude : (int64_t)magnitude);
    return bl_jinja_float(bl_decimal_to_f64(&number));
}

static bl_jinja_value from_array(bl_jinja_run *run, const bl_json *json)
{
    bl_json_iter each = bl_json_each(json);
    bl_jinja_list list = {0};
    size_t cap = 0;
    bl_json item;
    while (!run->failed && bl_json_next(&each, &item))
        bl_jinja_push(run, &list, &cap, bl_jinja_from_json(run, &item));
    return bl_jinja_list_of(run, BL_JINJA_LIST, list.at, list.count);
}

static bl_jinja_value from_object(bl_jinja_run *run, const bl_json *json)
{
    bl_json_iter each = bl_json_each(json);
    bl_jinja_value dict = bl_jinja_dict_make(run);
    bl_json item;
    while (!run->failed && bl_json_next(&each, &item))
        bl_jinja_dict_set(run, dict.as.dict, bl_jinja_string((bl_span){item.key, strlen(item.key)}),
                          bl_jinja_from_json(run, &item));
    return dict;
}

bl_jinja_value bl_jinja_from_json(bl_jinja_run *run, const bl_json *json)
{
    bl_jinja_value value = bl_jinja_none();
    if (!bl_jinja_enter(run)) {
        bl_jinja_leave(run);
        return value;
    }
    switch (json->kind) {
    case BL_JSON_NULL: /* a cJSON tree of the caller has its numbers as doubles */
        if (json->item != NULL && cJSON_IsNumber(json->item)) {
            double number = json->item->valuedouble;
            value = number == floor(number) && fabs(number) <= 0x1p53 ? bl_jinja_int((int64_t)number) : bl_jinja_float(number);
        }
        break;
    case BL_JSON_BOOL:
        value = bl_jinja_bool(json->boolean);
        break;
    case BL_JSON_NUMBER:
        value = from_number(run, json->text);
        break;
    case BL_JSON_STRING:
        value = bl_jinja_string(json->text);
        break;
    case BL_JSON_ARRAY:
        value = from_array(run, json);
        break;
    case BL_JSON_OBJECT:
        value = from_object(run, json);
        break;
    }
    bl_jinja_leave(run);
    return value;
}

static bl_jinja_value copy_list(bl_jinja_run *run, bl_jinja_value value)
{
    bl_jinja_value *at = bl_jinja_alloc(run, value.as.list->count, sizeof *at);
    for (size_t i = 0; at != NULL && i < value.as.list->count; i++)
        at[i] = bl_jinja_copy(run, value.as.list->at[i]);
    return bl_jinja_list_of(run, value.kind, at, value.as.list->count);
}

bl_jinja_value bl_jinja_copy(bl_jinja_run *run, bl_jinja_value value)
{
    if (!bl_jinja_enter(run)) {
        bl_jinja_leave(run);
        return bl_jinja_none();
    }
    if (value.kind == BL_JINJA_STRING) {
        bl_jinja_buffer buffer = {0};
        bl_jinja_put_span(run, &buffer, bl_jinja_text(value));
        value = bl_jinja_take(&buffer);
    } else if (value.kind == BL_JINJA_LIST || value.kind == BL_JINJA_TUPLE) {
        value = copy_list(run, value);
    } else if (value.kind == BL_JINJA_DICT) {
        for (size_t i = 0; i < value.as.dict->count && !run->failed; i++) {
            value.as.dict->at[i].key = bl_jinja_copy(run, value.as.dict->at[i].key);
            value.as.dict->at[i].value = bl_jinja_copy(run, value.as.dict->at[i].value);
        }
    }
    bl_jinja_leave(run);
    return value;
}

/* ---- properties of a value */

const char *bl_jinja_type(bl_jinja_value value)
{
    static const char *const types[] = {
#define BL_JINJA_KIND(id, type) type,
#include "proto/chat/kinds.def"
    };
    return types[value.kind];
}

bl_span bl_jinja_text(bl_jinja_value string)
{
    return string.kind == BL_JINJA_STRING ? (bl_span){string.as.data, string.len} : (bl_span){"", 0};
}

bool bl_jinja_as_int(bl_jinja_value value, int64_t *out)
{
    if (value.kind == BL_JINJA_INT)
        *out = value.as.integer;
    else if (value.kind == BL_JINJA_BOOL)
        *out = value.as.boolean;
    else
        return false;
    return true;
}

bool bl_jinja_length(bl_jinja_value value, size_t *out)
{
    *out = 0;
    if (value.kind == BL_JINJA_STRING)
        *out = bl_jinja_points(bl_jinja_text(value));
    else if (value.kind == BL_JINJA_LIST || value.kind == BL_JINJA_TUPLE)
        *out = value.as.list->count;
    else if (value.kind == BL_JINJA_DICT || value.kind == BL_JINJA_VIEW)
        *out = value.as.dict->count;
    else if (value.kind == BL_JINJA_RANGE)
        *out = value.as.range->count;
    else
        return value.kind == BL_JINJA_UNDEFINED;
    return true;
}

bool bl_jinja_is_true(bl_jinja_value value)
{
    size_t length = 0;
    if (value.kind == BL_JINJA_BOOL)
        return value.as.boolean;
    if (value.kind == BL_JINJA_INT)
        return value.as.integer != 0;
    if (value.kind == BL_JINJA_FLOAT)
        return value.as.number != 0;
    if (value.kind == BL_JINJA_STRING)
        return value.len > 0;
    if (bl_jinja_length(value, &length))
        return length > 0;
    return value.kind != BL_JINJA_NONE && value.kind != BL_JINJA_ABSENT;
}

bool bl_jinja_is_hashable(bl_jinja_value value)
{
    for (size_t i = 0; value.kind == BL_JINJA_TUPLE && i < value.as.list->count; i++) {
        bl_jinja_value item = value.as.list->at[i];
        if (item.kind == BL_JINJA_TUPLE || !bl_jinja_is_hashable(item)) /* rejects a nested tuple to avoid recursion */
            return false;
    }
    return value.kind != BL_JINJA_LIST && value.kind != BL_JINJA_DICT && value.kind != BL_JINJA_VIEW;
}

bool bl_jinja_is_iterable(bl_jinja_value value)
{
    return value.kind == BL_JINJA_UNDEFINED || (value.kind >= BL_JINJA_STRING && value.kind <= BL_JINJA_STREAM) ||
           value.kind == BL_JINJA_LOOP;
}

/* ---- comparing */

static bool jinja_value_is_number(bl_jinja_value value)
{
    return value.kind == BL_JINJA_BOOL || value.kind == BL_JINJA_INT || value.kind == BL_JINJA_FLOAT;
}

/* Compares two numbers: -1, 0 or 1; 2 if the order is undefined or a value is no number. */
static int jinja_value_compare_numbers(bl_jinja_value a, bl_jinja_value b)
{
    int64_t x = 0, y = 0;
    if (bl_jinja_as_int(a, &x) && bl_jinja_as_int(b, &y))
        return (x > y) - (x < y);
    long double p = a.kind == BL_JINJA_FLOAT ? (long double)a.as.number : (bl_jinja_as_int(a, &x), (long double)x);
    long double q = b.kind == BL_JINJA_FLOAT ? (long double)b.as.number : (bl_jinja_as_int(b, &y), (long double)y);
    return isnan(p) || isnan(q) ? 2 : (p > q) - (p < q);
}

static bool equal_lists(bl_jinja_run *run, const bl_jinja_list *a, const bl_jinja_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count && !run->failed; i++) {
        if (!bl_jinja_equal(run, a->at[i], b->at[i]))
            return false;
    }
    return true;
}

static bool equal_dicts(bl_jinja_run *run, const bl_jinja_dict *a, const bl_jinja_dict *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count && !run->failed; i++) {
        const bl_jinja_value *other = bl_jinja_dict_get(run, b, a->at[i].key);
        if (other == NULL || !bl_jinja_equal(run, a->at[i].value, *other))
            return false;
    }
    return true;
}

static bool equal_ranges(const bl_jinja_range *a, const bl_jinja_range *b)
{
    return a->count == b->count && (a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step)));
}

static bool equal_same_kind(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b)
{
    switch (a.kind) {
    case BL_JINJA_STRING:
        return bl_jinja_work(run, a.len) && bl_span_eq(bl_jinja_text(a), bl_jinja_text(b));
    case BL_JINJA_LIST:
    case BL_JINJA_TUPLE:
        return equal_lists(run, a.as.list, b.as.list);
    case BL_JINJA_DICT:
        return equal_dicts(run, a.as.dict, b.as.dict);
    case BL_JINJA_RANGE:
        return equal_ranges(a.as.range, b.as.range);
    case BL_JINJA_UNDEFINED:
    case BL_JINJA_NONE:
    case BL_JINJA_ABSENT:
        return true;
    case BL_JINJA_METHOD:
        return a.as.method->row == b.as.method->row;
    case BL_JINJA_BOOL:
    case BL_JINJA_INT:
    case BL_JINJA_FLOAT:
    case BL_JINJA_VIEW:
    case BL_JINJA_STREAM:
    case BL_JINJA_NAMESPACE:
    case BL_JINJA_MACRO:
    case BL_JINJA_FUNCTION:
    case BL_JINJA_LOOP:
    case BL_JINJA_KINDS:
        break;
    }
    return a.as.data == b.as.data; /* the same object */
}

bool bl_jinja_equal(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b)
{
    bool equal = false;
    if (jinja_value_is_number(a) && jinja_value_is_number(b))
        return jinja_value_compare_numbers(a, b) == 0;
    if (a.kind == b.kind && bl_jinja_enter(run))
        equal = equal_same_kind(run, a, b);
    if (a.kind == b.kind)
        bl_jinja_leave(run);
    return equal;
}

static bool less_lists(bl_jinja_run *run, const bl_jinja_list *a, const bl_jinja_list *b)
{
    for (size_t i = 0; i < a->count && i < b->count && !run->failed; i++) {
        if (!bl_jinja_equal(run, a->at[i], b->at[i]))
            return bl_jinja_less(run, a->at[i], b->at[i]);
    }
    return a->count < b->count;
}

bool bl_jinja_less(bl_jinja_run *run, bl_jinja_value a, bl_jinja_value b)
{
    bool less = false;
    if (jinja_value_is_number(a) && jinja_value_is_number(b))
        return bl_jinja_work(run, 0) && jinja_value_compare_numbers(a, b) == -1;
    if (a.kind == BL_JINJA_STRING && b.kind == BL_JINJA_STRING) {
        size_t n = a.len < b.len ? a.len : b.len;
        int order = bl_jinja_work(run, n) ? memcmp(a.as.data, b.as.data, n) : 0; /* UTF-8 keeps the order of code points */
        return order < 0 || (order == 0 && a.len < b.len);
    }
    if ((a.kind != BL_JINJA_LIST && a.kind != BL_JINJA_TUPLE) || a.kind != b.kind) {
        (void)bl_jinja_fail(run, BL_EINVAL, "'<' not supported between instances of '%s' and '%s'", bl_jinja_type(a),
                            bl_jinja_type(b));
        return false;
    }
    if (bl_jinja_enter(run))
        less = less_lists(run, a.as.list, b.as.list);
    bl_jinja_leave(run);
    return less;
}

bool bl_jinja_contains(bl_jinja_run *run, bl_jinja_value in, bl_jinja_value what)
{
    if (in.kind == BL_JINJA_STRING) {
        if (what.kind != BL_JINJA_STRING)
            return bl_jinja_fail(run, BL_EINVAL, "'in <string>' requires string as left operand, not %s", bl_jinja_type(what))
                       .len > 0;
        return bl_jinja_work(run, in.len) && bl_jinja_find(bl_jinja_text(in), bl_jinja_text(what), 0) >= 0;
    }
    if (in.kind == BL_JINJA_DICT && !bl_jinja_is_hashable(what))
        return bl_jinja_fail(run, BL_EINVAL, "unhashable type: '%s'", bl_jinja_type(what)).len > 0;
    if (in.kind == BL_JINJA_DICT)
        return bl_jinja_dict_get(run, in.as.dict, what) != NULL;
    if (!bl_jinja_is_iterable(in))
        return bl_jinja_fail(run, BL_EINVAL, "argument of type '%s' is not iterable", bl_jinja_type(in)).len > 0;
    bl_jinja_list items = bl_jinja_items(run, in);
    for (size_t i = 0; i < items.count && bl_jinja_work(run, 0); i++) {
        if (bl_jinja_equal(run, items.at[i], what))
            return true;
    }
    return false;
}

/* ---- iterating */

static bl_jinja_list items_of_string(bl_jinja_run *run, bl_span text)
{
    bl_jinja_list list = {.at = bl_jinja_alloc(run, bl_jinja_points(text), sizeof *list.at)};
    size_t bytes = 0;
    for (size_t i = 0; list.at != NULL && i < text.len; i += bytes) {
        (void)bl_jinja_point(text.data + i, text.data + text.len, &bytes);
        list.at[list.count++] = bl_jinja_string((bl_span){text.data + i, bytes});
    }
    return list;
}

static bl_jinja_list items_of_dict(bl_jinja_run *run, const bl_jinja_dict *dict, char which)
{
    bl_jinja_list list = {.at = bl_jinja_alloc(run, dict->count, sizeof *list.at)};
    for (size_t i = 0; list.at != NULL && i < dict->count; i++) {
        const bl_jinja_entry *entry = &dict->at[i];
        list.at[list.count++] = which == 'k'   ? entry->key
                                : which == 'v' ? entry->value
                                               : bl_jinja_pair(run, entry->key, entry->value);
    }
    return list;
}

static bl_jinja_list items_of_stream(bl_jinja_run *run, bl_jinja_stream *stream)
{
    bl_jinja_list rest = {.count = stream->items.count - stream->next};
    if (rest.count > 0)
        rest.at = stream->items.at + stream->next;
    stream->next = stream->items.count;
    if (stream->failure != NULL && !run->failed) {
        run->failed = true;
        (void)bl_fail(run->err, stream->failure->status, "%s", stream->failure->text);
    }
    return rest;
}

bl_jinja_list bl_jinja_items(bl_jinja_run *run, bl_jinja_value value)
{
    bl_jinja_list list = {0};
    if (value.kind == BL_JINJA_LIST || value.kind == BL_JINJA_TUPLE)
        return *value.as.list;
    if (value.kind == BL_JINJA_STRING)
        return items_of_string(run, bl_jinja_text(value));
    if (value.kind == BL_JINJA_DICT || value.kind == BL_JINJA_VIEW)
        return items_of_dict(run, value.as.dict, value.kind == BL_JINJA_DICT ? 'k' : (char)value.flag);
    if (value.kind == BL_JINJA_STREAM)
        return items_of_stream(run, value.as.stream);
    if (value.kind == BL_JINJA_RANGE) {
        list.at = bl_jinja_alloc(run, value.as.range->count, sizeof *list.at);
        for (; list.at != NULL && list.count < value.as.range->count; list.count++)
            list.at[list.count] = bl_jinja_int(value.as.range->start + (int64_t)list.count * value.as.range->step);
    } else if (value.kind != BL_JINJA_UNDEFINED) {
        (void)bl_jinja_fail(run, BL_EINVAL, "'%s' object is not iterable", bl_jinja_type(value));
    }
    return list;
}
