/* SPDX-License-Identifier: MIT */
/* Jinja2 3.1's filters of sequences.  Where Jinja2 returns a generator, these filters return a stream with the computed
 * items and an error.  A read past the items raises the error, so a stream without reads never fails. */
#include "proto/chat/jinja_rows.h"

#include <string.h>

#define FILTER(id)                                                                                                               \
    bl_jinja_value bl_jinja_filter_##id(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,                        \
                                        const bl_jinja_args *args)

/* ---- attributes */

static bool jinja_sequences_is_given(bl_jinja_value value)
{
    return value.kind != BL_JINJA_ABSENT && value.kind != BL_JINJA_NONE;
}

static bl_jinja_value get_part(bl_jinja_run *run, bl_jinja_value item, bl_span part)
{
    int64_t index = 0;
    size_t i = 0;
    for (; i < part.len && part.data[i] >= '0' && part.data[i] <= '9' && index < INT32_MAX; i++)
        index = 10 * index + (part.data[i] - '0');
    return bl_jinja_get_item(run, item, part.len > 0 && i == part.len ? bl_jinja_int(index) : bl_jinja_string(part));
}

/* The dotted attribute of |item|; |other| replaces an undefined part unless it is absent. */
static bl_jinja_value get_path(bl_jinja_run *run, bl_jinja_value item, bl_jinja_value path, bl_jinja_value other)
{
    bl_span text = bl_jinja_text(path);
    if (!jinja_sequences_is_given(path))
        return item;
    if (path.kind != BL_JINJA_STRING)
        return bl_jinja_get_item(run, item, path);
    for (size_t from = 0; from <= text.len && !run->failed;) {
        const char *dot = memchr(text.data + from, '.', text.len - from);
        size_t to = dot != NULL ? (size_t)(dot - text.data) : text.len;
        item = get_part(run, item, (bl_span){text.data + from, to - from});
        if (item.kind == BL_JINJA_UNDEFINED && jinja_sequences_is_given(other))
            item = other;
        from = to + 1;
    }
    return item;
}

static bl_jinja_value ignore_case(bl_jinja_run *run, bl_jinja_value value, bool case_sensitive)
{
    return value.kind == BL_JINJA_STRING && !case_sensitive ? bl_jinja_recase(run, bl_jinja_text(value), BL_JINJA_LOWER) : value;
}

/* The values at comma-separated paths, as a list. */
static bl_jinja_value get_paths(bl_jinja_run *run, bl_jinja_value item, bl_jinja_value paths, bool case_sensitive)
{
    bl_span text = bl_jinja_text(paths);
    bl_jinja_list keys = {0};
    size_t cap = 0;
    if (paths.kind != BL_JINJA_STRING)
        bl_jinja_push(run, &keys, &cap, ignore_case(run, get_path(run, item, paths, bl_jinja_absent()), case_sensitive));
    for (size_t from = 0; paths.kind == BL_JINJA_STRING && from <= text.len && !run->failed;) {
        const char *comma = memchr(text.data + from, ',', text.len - from);
        size_t to = comma != NULL ? (size_t)(comma - text.data) : text.len;
        bl_jinja_value key = get_path(run, item, bl_jinja_string((bl_span){text.data + from, to - from}), bl_jinja_absent());
        bl_jinja_push(run, &keys, &cap, ignore_case(run, key, case_sensitive));
        from = to + 1;
    }
    return bl_jinja_list_of(run, BL_JINJA_LIST, keys.at, keys.count);
}

/* ---- sorting */

typedef struct keyed {
    bl_jinja_value key, value;
} keyed;

/* Merge sort, stable with |reverse| too. */
static void sort_keyed(bl_jinja_run *run, keyed *at, keyed *spare, size_t count, bool reverse)
{
    size_t half = count / 2, i = 0, j = half, n = 0;
    if (count < 2 || !bl_jinja_enter(run)) {
        if (count >= 2)
            bl_jinja_leave(run);
        return;
    }
    sort_keyed(run, at, spare, half, reverse);
    sort_keyed(run, at + half, spare, count - half, reverse);
    while (i < half && j < count && !run->failed) {
        bool second = reverse ? bl_jinja_less(run, at[i].key, at[j].key) : bl_jinja_less(run, at[j].key, at[i].key);
        spare[n++] = second ? at[j++] : at[i++];
    }
    while (i < half)
        spare[n++] = at[i++];
    memcpy(at, spare, n * sizeof *at);
    bl_jinja_leave(run);
}

static keyed *make_keyed(bl_jinja_run *run, bl_jinja_list items, keyed **spare)
{
    keyed *at = bl_jinja_alloc(run, items.count, sizeof *at);
    *spare = bl_jinja_alloc(run, items.count, sizeof *at);
    for (size_t i = 0; at != NULL && *spare != NULL && i < items.count; i++)
        at[i].value = items.at[i];
    return *spare != NULL ? at : NULL;
}

static bl_jinja_value jinja_sequences_values_of(bl_jinja_run *run, const keyed *at, size_t count)
{
    bl_jinja_value *values = bl_jinja_alloc(run, count, sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] = at[i].value;
    return bl_jinja_list_of(run, BL_JINJA_LIST, values, count);
}

/* sorted() requires an integer |reverse|. */
static bool need_order(bl_jinja_run *run, bl_jinja_value reverse)
{
    int64_t whole = 0;
    if (reverse.kind != BL_JINJA_ABSENT && !bl_jinja_as_int(reverse, &whole))
        (void)bl_jinja_fail(run, BL_EINVAL, "'%s' object cannot be interpreted as an integer", bl_jinja_type(reverse));
    return whole != 0;
}

FILTER(sort)
{
    bool reverse = need_order(run, at[0]);
    bl_jinja_list items = bl_jinja_items(run, self);
    keyed *spare = NULL, *sorted = make_keyed(run, items, &spare);
    (void)args;
    for (size_t i = 0; sorted != NULL && i < items.count && !run->failed; i++)
        sorted[i].key = get_paths(run, items.at[i], at[2], bl_jinja_is_true(at[1]));
    if (run->failed || sorted == NULL)
        return bl_jinja_none();
    sort_keyed(run, sorted, spare, items.count, reverse);
    return jinja_sequences_values_of(run, sorted, items.count);
}

FILTER(dictsort)
{
    bl_span by = at[1].kind == BL_JINJA_ABSENT ? BL_S("key") : bl_jinja_text(at[1]);
    bool reverse = need_order(run, at[2]);
    (void)args;
    if (!bl_span_is(by, "key") && !bl_span_is(by, "value"))
        return bl_jinja_fail(run, BL_EINVAL, "You can only sort by either \"key\" or \"value\"");
    if (self.kind != BL_JINJA_DICT)
        return bl_jinja_fail(run, BL_EINVAL, "'%s' object has no attribute 'items'", bl_jinja_type(self));
    bl_jinja_list items = bl_jinja_items(run, (bl_jinja_value){.kind = BL_JINJA_VIEW, .flag = 'i', .as.dict = self.as.dict});
    keyed *spare = NULL, *sorted = make_keyed(run, items, &spare);
    for (size_t i = 0; sorted != NULL && i < items.count && !run->failed; i++)
        sorted[i].key = ignore_case(run, items.at[i].as.list->at[bl_span_is(by, "value")], bl_jinja_is_true(at[0]));
    if (run->failed || sorted == NULL)
        return bl_jinja_none();
    sort_keyed(run, sorted, spare, items.count, reverse);
    return jinja_sequences_values_of(run, sorted, items.count);
}

static bl_jinja_value make_group(bl_jinja_run *run, const keyed *first, size_t count, bl_jinja_value grouper)
{
    bl_jinja_value group = bl_jinja_pair(run, grouper, jinja_sequences_values_of(run, first, count));
    bl_jinja_list *list = bl_jinja_alloc(run, 1, sizeof *list);
    if (run->failed || list == NULL)
        return bl_jinja_none();
    *list = *group.as.list;
    list->grouped = true;
    group.as.list = list;
    return group;
}

FILTER(groupby)
{
    bool case_sensitive = bl_jinja_is_true(at[2]);
    bl_jinja_list items = bl_jinja_items(run, self), groups = {0};
    keyed *spare = NULL, *sorted = make_keyed(run, items, &spare);
    size_t cap = 0;
    (void)args;
    for (size_t i = 0; sorted != NULL && i < items.count && !run->failed; i++)
        sorted[i].key = ignore_case(run, get_path(run, items.at[i], at[0], at[1]), case_sensitive);
    if (run->failed || sorted == NULL)
        return bl_jinja_none();
    sort_keyed(run, sorted, spare, items.count, false);
    for (size_t from = 0, to = 0; from < items.count && !run->failed; from = to) {
        while (to < items.count && bl_jinja_equal(run, sorted[from].key, sorted[to].key))
            to++;
        to += to == from; /* progress even for a key that is unequal to itself (NaN) */
        bl_jinja_push(run, &groups, &cap,
                      make_group(run, sorted + from, to - from, get_path(run, sorted[from].value, at[0], at[1])));
    }
    return bl_jinja_list_of(run, BL_JINJA_LIST, groups.at, groups.count);
}

static bl_jinja_value jinja_sequences_extreme(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, bool largest)
{
    bl_jinja_list items = bl_jinja_items(run, self);
    bl_jinja_value best = bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("No aggregated item, sequence was empty.")), best_key = best;
    for (size_t i = 0; i < items.count && !run->failed; i++) {
        bl_jinja_value key = ignore_case(run, get_path(run, items.at[i], at[1], bl_jinja_absent()), bl_jinja_is_true(at[0]));
        if (i == 0 || (largest ? bl_jinja_less(run, best_key, key) : bl_jinja_less(run, key, best_key))) {
            best = items.at[i];
            best_key = key;
        }
    }
    return best;
}

FILTER(min)
{
    (void)args;
    return jinja_sequences_extreme(run, self, at, false);
}

FILTER(max)
{
    (void)args;
    return jinja_sequences_extreme(run, self, at, true);
}

/* ---- generators */

typedef struct generator {
    bl_jinja_run *run;
    bl_jinja_list out;
    size_t cap;
} generator;

static void start_generator(generator *g, bl_jinja_run *run)
{
    *g = (generator){.run = run};
}

/* Moves a failure since the start of the generator into the stream.  A read of the stream raises the failure; the run
 * continues.  A failure of a limit stays with the run. */
static bl_jinja_value end_generator(generator *g)
{
    bl_jinja_run *run = g->run;
    bl_err *failure = NULL;
    if (run->failed && run->err->status == BL_EINVAL) {
        bl_err why = *run->err;
        *run->err = (bl_err){0};
        run->failed = false;
        failure = bl_jinja_alloc(run, 1, sizeof *failure);
        if (failure != NULL)
            *failure = why;
    }
    return bl_jinja_stream_of(run, g->out.at, g->out.count, failure);
}

static void yield(generator *g, bl_jinja_value value)
{
    if (!g->run->failed)
        bl_jinja_push(g->run, &g->out, &g->cap, value);
}

/* The arguments from |skip| on. */
static bl_jinja_args rest_of(const bl_jinja_args *args, size_t skip)
{
    bl_jinja_args rest = *args;
    rest.at += skip;
    rest.count -= skip;
    return rest;
}

static const bl_jinja_value *named(bl_jinja_run *run, const bl_jinja_args *args, const char *name)
{
    return bl_jinja_dict_get(run, &args->named, bl_jinja_string((bl_span){name, strlen(name)}));
}

static bl_jinja_value map_attribute(bl_jinja_run *run, bl_jinja_value item, const bl_jinja_args *args)
{
    const bl_jinja_value *path = named(run, args, "attribute"), *other = named(run, args, "default");
    if (args->named.count > 1 + (size_t)(other != NULL))
        return bl_jinja_fail(run, BL_EINVAL, "Unexpected keyword argument of map");
    return get_path(run, item, *path, other != NULL ? *other : bl_jinja_absent());
}

static bl_jinja_value map_filter(bl_jinja_run *run, bl_jinja_value item, const bl_jinja_args *args)
{
    if (args->count == 0)
        return bl_jinja_fail(run, BL_EINVAL, "map requires a filter argument");
    bl_span name = bl_jinja_text(args->at[0]);
    const bl_jinja_function *row = bl_jinja_find_filter(name);
    bl_jinja_args rest = rest_of(args, 1);
    if (row == NULL)
        return bl_jinja_fail(run, BL_EINVAL, "No filter named '%.*s'.", name.len > 100 ? 100 : (int)name.len, name.data);
    return bl_jinja_call_row(run, row, item, &rest);
}

FILTER(map)
{
    generator g;
    (void)at;
    start_generator(&g, run);
    if (bl_jinja_is_true(self)) {
        bool attribute = args->count == 0 && named(run, args, "attribute") != NULL;
        bl_jinja_list items = bl_jinja_items(run, self);
        for (size_t i = 0; i < items.count && bl_jinja_enter(run); i++) {
            yield(&g, attribute ? map_attribute(run, items.at[i], args) : map_filter(run, items.at[i], args));
            bl_jinja_leave(run);
        }
    }
    return end_generator(&g);
}

static bool passes(bl_jinja_run *run, bl_jinja_value item, const bl_jinja_args *args, bool of_attribute)
{
    size_t skip = of_attribute;
    if (of_attribute && args->count == 0)
        return bl_jinja_fail(run, BL_EINVAL, "Missing parameter for attribute name").len > 0;
    if (of_attribute)
        item = get_path(run, item, args->at[0], bl_jinja_absent());
    if (args->count == skip || run->failed)
        return bl_jinja_is_true(item);
    bl_span name = bl_jinja_text(args->at[skip]);
    const bl_jinja_function *row = bl_jinja_find_test(name);
    bl_jinja_args rest = rest_of(args, skip + 1);
    if (row == NULL)
        return bl_jinja_fail(run, BL_EINVAL, "No test named '%.*s'.", name.len > 100 ? 100 : (int)name.len, name.data).len > 0;
    return bl_jinja_is_true(bl_jinja_call_row(run, row, item, &rest));
}

static bl_jinja_value jinja_sequences_choose(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_args *args, bool of_attribute,
                                             bool wanted)
{
    generator g;
    start_generator(&g, run);
    if (bl_jinja_is_true(self)) {
        bl_jinja_list items = bl_jinja_items(run, self);
        for (size_t i = 0; i < items.count && bl_jinja_work(run, 0); i++) {
            if (passes(run, items.at[i], args, of_attribute) == wanted)
                yield(&g, items.at[i]);
        }
    }
    return end_generator(&g);
}

FILTER(select)
{
    (void)at;
    return jinja_sequences_choose(run, self, args, false, true);
}

FILTER(reject)
{
    (void)at;
    return jinja_sequences_choose(run, self, args, false, false);
}

FILTER(selectattr)
{
    (void)at;
    return jinja_sequences_choose(run, self, args, true, true);
}

FILTER(rejectattr)
{
    (void)at;
    return jinja_sequences_choose(run, self, args, true, false);
}

FILTER(unique)
{
    generator g;
    bl_jinja_value seen = bl_jinja_dict_make(run);
    (void)args;
    start_generator(&g, run);
    bl_jinja_list items = bl_jinja_items(run, self);
    for (size_t i = 0; i < items.count && bl_jinja_work(run, 0); i++) {
        bl_jinja_value key = ignore_case(run, get_path(run, items.at[i], at[1], bl_jinja_absent()), bl_jinja_is_true(at[0]));
        size_t before = run->failed ? 0 : seen.as.dict->count;
        if (!run->failed)
            bl_jinja_dict_set(run, seen.as.dict, key, bl_jinja_none());
        if (!run->failed && seen.as.dict->count > before)
            yield(&g, items.at[i]);
    }
    return end_generator(&g);
}

FILTER(items)
{
    generator g;
    (void)at;
    (void)args;
    start_generator(&g, run);
    if (self.kind == BL_JINJA_DICT) {
        g.out = bl_jinja_items(run, (bl_jinja_value){.kind = BL_JINJA_VIEW, .flag = 'i', .as.dict = self.as.dict});
    } else if (self.kind != BL_JINJA_UNDEFINED) {
        (void)bl_jinja_fail(run, BL_EINVAL, "Can only get item pairs from a mapping.");
    }
    return end_generator(&g);
}

/* |count| items from |from| on as a list, padded with |fill| up to |size|. */
static bl_jinja_value jinja_sequences_part_of(bl_jinja_run *run, bl_jinja_list items, size_t from, size_t count, size_t size,
                                              bl_jinja_value fill)
{
    size_t n = jinja_sequences_is_given(fill) && size > count ? size : count;
    bl_jinja_value *at = bl_jinja_alloc(run, n, sizeof *at);
    for (size_t i = 0; at != NULL && i < n; i++)
        at[i] = i < count ? items.at[from + i] : fill;
    return bl_jinja_list_of(run, BL_JINJA_LIST, at, n);
}

FILTER(batch)
{
    generator g;
    int64_t size = 0;
    (void)args;
    start_generator(&g, run);
    bl_jinja_list items = bl_jinja_items(run, self);
    if (!bl_jinja_as_int(at[0], &size) && at[0].kind == BL_JINJA_FLOAT && at[0].as.number == (double)(int32_t)at[0].as.number)
        size = (int32_t)at[0].as.number;
    if (size == 0 && bl_jinja_equal(run, at[0], bl_jinja_int(0))) /* as Jinja2's loop does */
        yield(&g, jinja_sequences_part_of(run, items, 0, 0, 0, at[1]));
    if (items.count > 0 && jinja_sequences_is_given(at[1]) && at[0].kind != BL_JINJA_INT && at[0].kind != BL_JINJA_BOOL)
        (void)bl_jinja_fail(run, BL_EINVAL, "batch takes a number of items, not %s", bl_jinja_type(at[0]));
    if (size < 1)
        size = (int64_t)items.count + !items.count;
    for (size_t i = 0; i < items.count && !run->failed; i += (size_t)size) {
        size_t left = items.count - i;
        yield(&g, jinja_sequences_part_of(run, items, i, left < (size_t)size ? left : (size_t)size, (size_t)size, at[1]));
    }
    return end_generator(&g);
}

FILTER(slice)
{
    generator g;
    int64_t slices = 0;
    (void)args;
    start_generator(&g, run);
    bl_jinja_list items = bl_jinja_items(run, self);
    if (!bl_jinja_as_int(at[0], &slices) || slices == 0)
        (void)bl_jinja_fail(run, BL_EINVAL, "slice takes a number of slices other than 0, not %s", bl_jinja_type(at[0]));
    for (size_t i = 0, from = 0; (int64_t)i < slices && bl_jinja_work(run, 0); i++) {
        size_t each = items.count / (size_t)slices, more = i < items.count % (size_t)slices;
        yield(&g, jinja_sequences_part_of(run, items, from, each + more, more ? 0 : each + 1, at[1]));
        from += each + more;
    }
    return end_generator(&g);
}

/* ---- the whole sequence */

FILTER(length)
{
    size_t length = 0;
    (void)at;
    (void)args;
    return bl_jinja_length(self, &length)
               ? bl_jinja_int((int64_t)length)
               : bl_jinja_fail(run, BL_EINVAL, "object of type '%s' has no len()", bl_jinja_type(self));
}

FILTER(list)
{
    bl_jinja_list items = bl_jinja_items(run, self);
    (void)at;
    (void)args;
    return bl_jinja_list_of(run, BL_JINJA_LIST, items.at, items.count);
}

FILTER(first)
{
    (void)at;
    (void)args;
    if (self.kind == BL_JINJA_STREAM && self.as.stream->next < self.as.stream->items.count)
        return self.as.stream->items.at[self.as.stream->next++];
    bl_jinja_list items = bl_jinja_items(run, self);
    return items.count > 0 ? items.at[0] : bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("No first item, sequence was empty."));
}

FILTER(last)
{
    (void)at;
    (void)args;
    if (self.kind == BL_JINJA_STREAM)
        return bl_jinja_fail(run, BL_EINVAL, "'generator' object is not reversible");
    bl_jinja_list items = bl_jinja_items(run, self);
    return items.count > 0 ? items.at[items.count - 1]
                           : bl_jinja_undefined(BL_JINJA_MESSAGE, BL_S("No last item, sequence was empty."));
}

FILTER(reverse)
{
    bl_jinja_list items = bl_jinja_items(run, self);
    bl_jinja_value *reversed = bl_jinja_alloc(run, items.count, sizeof *reversed);
    bl_jinja_buffer out = {0};
    (void)at;
    (void)args;
    for (size_t i = 0; reversed != NULL && i < items.count; i++)
        reversed[i] = items.at[items.count - 1 - i];
    if (self.kind != BL_JINJA_STRING)
        return self.kind == BL_JINJA_STREAM ? bl_jinja_list_of(run, BL_JINJA_LIST, reversed, items.count)
                                            : bl_jinja_stream_of(run, reversed, items.count, NULL);
    for (size_t i = 0; reversed != NULL && i < items.count && !run->failed; i++)
        bl_jinja_put_span(run, &out, bl_jinja_text(reversed[i]));
    return bl_jinja_take(&out);
}

FILTER(join)
{
    bl_jinja_list items = bl_jinja_items(run, self);
    bl_span between = at[0].kind == BL_JINJA_ABSENT ? BL_S("") : bl_jinja_text(bl_jinja_str(run, at[0]));
    bl_jinja_buffer out = {0};
    (void)args;
    for (size_t i = 0; i < items.count && !run->failed; i++) {
        bl_jinja_put_span(run, &out, i > 0 ? between : BL_S(""));
        bl_jinja_put_str(run, &out, get_path(run, items.at[i], at[1], bl_jinja_absent()));
    }
    return bl_jinja_take(&out);
}

FILTER(sum)
{
    bl_jinja_list items = bl_jinja_items(run, self);
    bl_jinja_value sum = at[1].kind == BL_JINJA_ABSENT ? bl_jinja_int(0) : at[1];
    (void)args;
    if (sum.kind == BL_JINJA_STRING)
        return bl_jinja_fail(run, BL_EINVAL, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items.count && !run->failed; i++)
        sum = bl_jinja_binary(run, BL_JINJA_T_ADD, sum, get_path(run, items.at[i], at[0], bl_jinja_absent()));
    return sum;
}
