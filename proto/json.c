/* SPDX-License-Identifier: MIT */
#include "proto/json.h"

#include "engine/base/near.h"
#include "proto/number.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 260 };

/* ---- the path of a value */

/* Writes the path of |value| into |out| from the end of the path; |out| keeps the last steps that fit. */
static const char *write_path(const bl_json *value, char *out, size_t size)
{
    size_t at = size - 1;
    char step[160];

    out[at] = '\0';
    for (; value->parent != NULL; value = value->parent) {
        int n;
        if (value->key == NULL)
            n = snprintf(step, sizeof step, "[%zu]", value->index);
        else
            n = snprintf(step, sizeof step, "%s%.140s", value->parent->parent == NULL ? "" : ".", value->key);
        size_t len = (size_t)n;
        if (len > at)
            break;
        at -= len;
        memcpy(out + at, step, len);
    }
    return out + at;
}

bl_status bl_json_fail(const bl_json *at, bl_err *err, bl_status status, const char *fmt, ...)
{
    char path[MAX_PATH], text[400];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *start = write_path(at, path, sizeof path);
    return bl_fail(err, status, "%s%s%s", start, *start == '\0' ? "" : ": ", text);
}

/* ---- the tree */

/* Sets kind and text of a value within a list. */
static void take_list_text(bl_json *v, const char *p, const char *end)
{
    const char *stop = p;

    v->item = NULL;
    v->list = NULL;
    if (*p == '[') {
        size_t depth = 0;
        do {
            depth += *stop == '[';
            depth -= *stop == ']';
            stop++;
        } while (depth > 0 && stop != end);
        v->kind = BL_JSON_ARRAY;
    } else {
        while (stop != end && *stop != ',' && *stop != ']' && (unsigned char)*stop > ' ')
            stop++;
        v->kind = *p == '"' ? BL_JSON_STRING : *p == 't' || *p == 'f' ? BL_JSON_BOOL : BL_JSON_NUMBER;
        v->boolean = *p == 't';
    }
    v->text = (bl_span){p, (size_t)(stop - p)};
    if (v->kind == BL_JSON_STRING)
        v->text = (bl_span){p + 1, v->text.len - 2};
}

/* Sets kind and text from an item of the tree; json.h describes the 0xFF placeholders. */
static void take_item(bl_json *v, const cJSON *item)
{
    v->item = item;
    v->list = NULL;
    v->text = (bl_span){NULL, 0};
    v->boolean = cJSON_IsTrue(item);
    if (cJSON_IsObject(item)) {
        v->kind = BL_JSON_OBJECT;
    } else if (cJSON_IsArray(item)) {
        v->kind = BL_JSON_ARRAY;
    } else if (cJSON_IsBool(item)) {
        v->kind = BL_JSON_BOOL;
    } else if (!cJSON_IsString(item)) {
        v->kind = BL_JSON_NULL;
    } else if ((unsigned char)item->valuestring[0] != 0xff) {
        v->kind = BL_JSON_STRING;
        v->text = (bl_span){item->valuestring, strlen(item->valuestring)};
    } else {
        char *end;
        size_t number = strtoull(item->valuestring + 2, &end, 10);
        v->item = NULL;
        if (item->valuestring[1] == 'l') {
            v->kind = BL_JSON_ARRAY;
            v->list = &v->doc->lists[number];
            v->text = v->list->text;
        } else {
            v->kind = item->valuestring[1] == 'n' ? BL_JSON_NUMBER : BL_JSON_STRING;
            v->text = (bl_span){v->doc->body.data + number, strtoull(end + 1, NULL, 10)};
        }
    }
}

bl_json bl_json_root(const bl_json_doc *doc)
{
    bl_json root = {.doc = doc};

    take_item(&root, doc->root);
    return root;
}

bl_json_iter bl_json_each(const bl_json *container)
{
    bl_json_iter it = {.of = container};

    if (container->item != NULL)
        it.next = container->item->child;
    else if (container->kind == BL_JSON_ARRAY)
        it.p = container->text.data + 1;
    return it;
}

bool bl_json_next(bl_json_iter *iter, bl_json *out)
{
    const bl_json *of = iter->of;

    *out = (bl_json){.doc = of->doc, .parent = of, .index = iter->index};
    if (iter->next != NULL) {
        out->key = of->kind == BL_JSON_OBJECT ? iter->next->string : NULL;
        take_item(out, iter->next);
        iter->next = iter->next->next;
    } else if (iter->p != NULL) {
        const char *end = of->text.data + of->text.len - 1; /* position of the closing bracket */
        while (iter->p != end && (*iter->p == ',' || (unsigned char)*iter->p <= ' '))
            iter->p++;
        if (iter->p == end)
            return false;
        take_list_text(out, iter->p, end);
        iter->p = out->text.data + out->text.len + (out->kind == BL_JSON_STRING);
    } else {
        return false;
    }
    iter->index++;
    return true;
}

size_t bl_json_count(const bl_json *container)
{
    bl_json_iter it = bl_json_each(container);
    bl_json element;
    size_t n = 0;

    if (container->list != NULL)
        return (size_t)container->list->dim[0];
    while (bl_json_next(&it, &element))
        n++;
    return n;
}

bool bl_json_find(const bl_json *object, const char *name, bl_json *out)
{
    bl_json_iter it = bl_json_each(object);

    while (object->kind == BL_JSON_OBJECT && bl_json_next(&it, out)) {
        if (strcmp(out->key, name) == 0)
            return true;
    }
    return false;
}

/* ---- access with a type check */

static const char *json_describe(const bl_json *value)
{
    static const char *const names[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};

    return names[value->kind];
}

bl_status bl_json_expect(const bl_json *value, bl_json_kind kind, bl_err *err)
{
    bl_json wanted = {.kind = kind};

    if (value->kind == kind)
        return BL_OK;
    return bl_json_fail(value, err, BL_EINVAL, "expected %s, got %s", json_describe(&wanted), json_describe(value));
}

bl_status bl_json_need(const bl_json *object, const char *name, bl_json *out, bl_err *err)
{
    BL_TRY(bl_json_expect(object, BL_JSON_OBJECT, err));
    if (bl_json_find(object, name, out))
        return BL_OK;
    return bl_json_fail(object, err, BL_EINVAL, "the member \"%s\" is missing", name);
}

static bl_status fail_unknown_member(const bl_json *object, const char *key, const char *const *names, bl_err *err)
{
    bl_near near;

    bl_near_init(&near, (bl_span){key, strlen(key)});
    for (size_t i = 0; names[i] != NULL; i++)
        bl_near_offer(&near, (bl_span){names[i], strlen(names[i])});
    return bl_json_fail(object, err, BL_EINVAL, "unknown member \"%.100s\"%s", key, bl_near_hint(&near));
}

bl_status bl_json_allow(const bl_json *object, const char *const *names, bl_err *err)
{
    bl_json_iter it = bl_json_each(object);
    bl_json member;

    BL_TRY(bl_json_expect(object, BL_JSON_OBJECT, err));
    while (bl_json_next(&it, &member)) {
        size_t i = 0;
        while (names[i] != NULL && strcmp(names[i], member.key) != 0)
            i++;
        if (names[i] == NULL)
            return fail_unknown_member(object, member.key, names, err);
    }
    return BL_OK;
}

bl_status bl_json_string(const bl_json *value, const char **out, bl_err *err)
{
    BL_TRY(bl_json_expect(value, BL_JSON_STRING, err));
    *out = bl_arena_strndup(value->doc->arena, value->text.data, value->text.len);
    return *out != NULL ? BL_OK : bl_arena_status(value->doc->arena, err);
}

bl_status bl_json_bool(const bl_json *value, bool *out, bl_err *err)
{
    BL_TRY(bl_json_expect(value, BL_JSON_BOOL, err));
    *out = value->boolean;
    return BL_OK;
}

bool bl_json_nonfinite(bl_span text, double *out)
{
    if (bl_span_is(text, "NaN"))
        *out = NAN;
    else if (bl_span_is(text, "Infinity"))
        *out = INFINITY;
    else if (bl_span_is(text, "-Infinity"))
        *out = -INFINITY;
    else
        return false;
    return true;
}

bl_status bl_json_number(const bl_json *value, bl_wire_number *out, bl_err *err)
{
    bl_decimal d;

    *out = (bl_wire_number){0};
    if (value->kind == BL_JSON_STRING && bl_json_nonfinite(value->text, &out->value)) {
        out->negative = signbit(out->value) && !isnan(out->value);
        return BL_OK;
    }
    BL_TRY(bl_json_expect(value, BL_JSON_NUMBER, err));
    (void)bl_decimal_scan(value->text.data, value->text.data + value->text.len, &d);
    out->negative = d.negative;
    out->value = bl_decimal_to_f64(&d);
    out->whole = d.whole && bl_decimal_to_whole(&d, &out->magnitude) == BL_WHOLE_OK;
    if (isinf(out->value))
        return bl_json_fail(value, err, BL_EGRAPH, "%.60s is beyond the range of a float64",
                            bl_arena_strndup(value->doc->arena, value->text.data, value->text.len < 60 ? value->text.len : 60));
    return BL_OK;
}

/* Length of the number's text, truncated for a message. */
static int shown(const bl_json *value)
{
    return value->text.len < 40 ? (int)value->text.len : 40;
}

static bl_status whole_number(const bl_json *value, bl_decimal *d, uint64_t *magnitude, bool *fits, bl_err *err)
{
    if (value->kind != BL_JSON_NUMBER)
        return bl_json_fail(value, err, BL_EINVAL, "expected an integer, got %s", json_describe(value));
    (void)bl_decimal_scan(value->text.data, value->text.data + value->text.len, d);
    if (!d->whole)
        return bl_json_fail(value, err, BL_EINVAL, "expected an integer, got %.*s", shown(value), value->text.data);
    *fits = bl_decimal_to_whole(d, magnitude) == BL_WHOLE_OK;
    return BL_OK;
}

bl_status bl_json_int(const bl_json *value, int64_t lo, int64_t hi, int64_t *out, bl_err *err)
{
    bl_decimal d;
    uint64_t magnitude = 0;
    bool fits = false;

    BL_TRY(whole_number(value, &d, &magnitude, &fits, err));
    if (fits && magnitude <= (uint64_t)INT64_MAX) {
        *out = d.negative ? -(int64_t)magnitude : (int64_t)magnitude;
        if (*out >= lo && *out <= hi)
            return BL_OK;
    }
    return bl_json_fail(value, err, BL_EGRAPH, "%.*s is not between %lld and %lld", shown(value), value->text.data, (long long)lo,
                        (long long)hi);
}

bl_status bl_json_u64(const bl_json *value, uint64_t *out, bl_err *err)
{
    bl_decimal d;
    bool fits = false;

    BL_TRY(whole_number(value, &d, out, &fits, err));
    if (fits && (!d.negative || *out == 0))
        return BL_OK;
    return bl_json_fail(value, err, BL_EGRAPH, "%.*s is not between 0 and 18446744073709551615", shown(value), value->text.data);
}
