/* SPDX-License-Identifier: MIT */
/* The tables of filters, tests, methods and globals, and the global functions. */
#include "proto/chat/jinja_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RANGE = 100000, MOST_TIME = 256 };

static const bl_jinja_function filters[] = {
#define BL_FILTER(name, function, params) {name, params, bl_jinja_filter_##function},
#include "proto/chat/rows.def"
};
static const bl_jinja_function tests[] = {
#define BL_TEST(name, function, params) {name, params, bl_jinja_test_##function},
#include "proto/chat/rows.def"
};
static const bl_jinja_function globals[] = {
#define BL_GLOBAL(name, function, params) {name, params, bl_jinja_global_##function},
#include "proto/chat/rows.def"
};
static const struct {
    bl_jinja_kind kind;
    bl_jinja_function row;
} methods[] = {
#define BL_METHOD(kind, name, function, params) {BL_JINJA_##kind, {name, params, bl_jinja_method_##function}},
#define BL_UNSAFE(kind, name)                   {BL_JINJA_##kind, {name, "*", NULL}},
#include "proto/chat/rows.def"
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const bl_jinja_function *jinja_rows_find_row(const bl_jinja_function *rows, size_t count, bl_span name)
{
    for (size_t i = 0; i < count; i++) {
        if (bl_span_is(name, rows[i].name))
            return &rows[i];
    }
    return NULL;
}

const bl_jinja_function *bl_jinja_find_filter(bl_span name)
{
    return jinja_rows_find_row(filters, COUNT(filters), name);
}

const bl_jinja_function *bl_jinja_find_test(bl_span name)
{
    return jinja_rows_find_row(tests, COUNT(tests), name);
}

const bl_jinja_function *bl_jinja_find_global(bl_span name)
{
    return jinja_rows_find_row(globals, COUNT(globals), name);
}

const bl_jinja_function *bl_jinja_find_method(bl_jinja_kind kind, bl_span name)
{
    for (size_t i = 0; i < COUNT(methods); i++) {
        if (methods[i].kind == kind && bl_span_is(name, methods[i].row.name))
            return &methods[i].row;
    }
    return NULL;
}

/* ---- global functions */

static void add_entries(bl_jinja_run *run, bl_jinja_dict *dict, bl_jinja_value from)
{
    if (from.kind == BL_JINJA_DICT) {
        for (size_t i = 0; i < from.as.dict->count && !run->failed; i++)
            bl_jinja_dict_set(run, dict, from.as.dict->at[i].key, from.as.dict->at[i].value);
        return;
    }
    bl_jinja_list pairs = bl_jinja_items(run, from);
    for (size_t i = 0; i < pairs.count && !run->failed; i++) {
        bl_jinja_list pair = bl_jinja_items(run, pairs.at[i]);
        if (pair.count != 2)
            (void)bl_jinja_fail(run, BL_EINVAL, "dictionary update sequence element #%zu has length %zu; 2 is required", i,
                                pair.count);
        else
            bl_jinja_dict_set(run, dict, pair.at[0], pair.at[1]);
    }
}

bl_jinja_value bl_jinja_global_dict(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    bl_jinja_value dict = bl_jinja_dict_make(run);
    (void)self;
    (void)at;
    if (args->count > 1)
        return bl_jinja_fail(run, BL_EINVAL, "dict expected at most 1 argument, got %zu", args->count);
    if (!run->failed && args->count == 1)
        add_entries(run, dict.as.dict, args->at[0]);
    for (size_t i = 0; i < args->named.count && !run->failed; i++)
        bl_jinja_dict_set(run, dict.as.dict, args->named.at[i].key, args->named.at[i].value);
    return dict;
}

bl_jinja_value bl_jinja_global_namespace(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                         const bl_jinja_args *args)
{
    bl_jinja_value space = bl_jinja_global_dict(run, self, at, args);
    for (size_t i = 0; !run->failed && i < space.as.dict->count; i++) {
        bl_span name = bl_jinja_text(space.as.dict->at[i].key);
        if (name.len > 0 && name.data[0] == '_')
            (void)bl_jinja_fail(run, BL_EINVAL, "a chat template cannot store a name that begins with an underscore: '%.*s'",
                                name.len > 100 ? 100 : (int)name.len, name.data);
    }
    space.kind = run->failed ? BL_JINJA_NONE : BL_JINJA_NAMESPACE;
    return space;
}

bl_jinja_value bl_jinja_global_raise_exception(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                               const bl_jinja_args *args)
{
    bl_span text = bl_jinja_text(bl_jinja_str(run, at[0]));
    (void)self;
    (void)args;
    return bl_jinja_fail(run, BL_EINVAL, "%.*s", text.len > 450 ? 450 : (int)text.len, text.data);
}

bl_jinja_value bl_jinja_global_range(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, const bl_jinja_args *args)
{
    int64_t bounds[3] = {0, 0, 1};
    bl_jinja_range *range = bl_jinja_alloc(run, 1, sizeof *range);
    (void)self;
    (void)at;
    if (args->named.count > 0 || args->count < 1 || args->count > 3)
        return bl_jinja_fail(run, BL_EINVAL, "range takes 1 to 3 positional arguments");
    for (size_t i = 0; i < args->count; i++) {
        if (!bl_jinja_as_int(args->at[i], &bounds[args->count == 1 ? 1 : i]))
            return bl_jinja_fail(run, BL_EINVAL, "'%s' object cannot be interpreted as an integer", bl_jinja_type(args->at[i]));
    }
    if (bounds[2] == 0)
        return bl_jinja_fail(run, BL_EINVAL, "range() arg 3 must not be zero");
    bool up = bounds[2] > 0;
    uint64_t by = up ? (uint64_t)bounds[2] : -(uint64_t)bounds[2];
    uint64_t span = up ? (uint64_t)bounds[1] - (uint64_t)bounds[0] : (uint64_t)bounds[0] - (uint64_t)bounds[1];
    uint64_t count = (up ? bounds[1] > bounds[0] : bounds[1] < bounds[0]) ? (span - 1) / by + 1 : 0;
    if (count > MOST_RANGE)
        return bl_jinja_fail(run, BL_ELIMIT, "a range has %llu items; the most are %d", (unsigned long long)count, MOST_RANGE);
    if (range == NULL)
        return bl_jinja_none();
    *range = (bl_jinja_range){bounds[0], bounds[1], bounds[2], (size_t)count};
    return (bl_jinja_value){.kind = BL_JINJA_RANGE, .as.range = range};
}

bl_jinja_value bl_jinja_global_strftime_now(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,
                                            const bl_jinja_args *args)
{
    bl_span format = bl_jinja_text(at[0]);
    time_t now = run->now != 0 ? (time_t)run->now : time(NULL);
    struct tm parts;
    char text[MOST_TIME], form[MOST_TIME];
    bl_jinja_buffer out = {0};
    (void)self;
    (void)args;
    if (at[0].kind != BL_JINJA_STRING || format.len + 2 > sizeof form || memchr(format.data, '\0', format.len) != NULL)
        return bl_jinja_fail(run, BL_EINVAL, "strftime_now takes a format of at most %d bytes", MOST_TIME - 2);
    (void)snprintf(form, sizeof form, "%.*s.", (int)format.len, format.data); /* the dot distinguishes an empty result from a
                                                                               * failure */
    bool known = localtime_r(&now, &parts) != NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = known ? strftime(text, sizeof text, form, &parts) : 0; /* the format comes from the template; strftime cannot write
                                                                       * past |text| */
#pragma GCC diagnostic pop
    if (n == 0)
        return bl_jinja_fail(run, BL_EINVAL, "the time of strftime_now is longer than %d bytes", MOST_TIME - 2);
    bl_jinja_put(run, &out, text, n - 1);
    return bl_jinja_take(&out);
}
