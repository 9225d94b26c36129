/* SPDX-License-Identifier: MIT */
/* The methods of Python's strings, lists and dicts that a sandboxed template may call: those that do not modify their
 * object. */
#include "proto/chat/jinja_rows.h"

#include <string.h>

#define METHOD(id)                                                                                                               \
    bl_jinja_value bl_jinja_method_##id(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at,                        \
                                        const bl_jinja_args *args)

static bl_jinja_value jinja_methods_marked_as(bl_jinja_value value, bl_jinja_value self)
{
    value.flag = self.flag;
    return value;
}

static bool jinja_methods_is_given(bl_jinja_value value)
{
    return value.kind != BL_JINJA_ABSENT && value.kind != BL_JINJA_NONE;
}

/* The argument as a string or an integer; fails for another kind. */
static bl_span need_string(bl_jinja_run *run, bl_jinja_value value)
{
    if (value.kind != BL_JINJA_STRING)
        (void)bl_jinja_fail(run, BL_EINVAL, "must be str, not %s", bl_jinja_type(value));
    return bl_jinja_text(value);
}

static int64_t need_int(bl_jinja_run *run, bl_jinja_value value, int64_t absent)
{
    int64_t out = absent;
    if (value.kind != BL_JINJA_ABSENT && !bl_jinja_as_int(value, &out))
        (void)bl_jinja_fail(run, BL_EINVAL, "'%s' object cannot be interpreted as an integer", bl_jinja_type(value));
    return out;
}

/* ---- cases */

#define RECASE(id, to)                                                                                                           \
    METHOD(id)                                                                                                                   \
    {                                                                                                                            \
        (void)at;                                                                                                                \
        (void)args;                                                                                                              \
        return jinja_methods_marked_as(bl_jinja_recase(run, bl_jinja_text(self), to), self);                                     \
    }
RECASE(upper, BL_JINJA_UPPER)
RECASE(lower, BL_JINJA_LOWER)
RECASE(title, BL_JINJA_TITLE)
RECASE(capitalize, BL_JINJA_CAPITAL)
RECASE(swapcase, BL_JINJA_SWAP)

METHOD(casefold)
{
    (void)at;
    (void)args;
    return bl_jinja_casefold(run, bl_jinja_text(self));
}

/* ---- prefixes and suffixes */

static bl_jinja_value strip(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, bool left, bool right)
{
    bl_span chars = jinja_methods_is_given(at[0]) ? need_string(run, at[0]) : BL_S("");
    if (run->failed || !bl_jinja_work(run, self.len * (chars.len / 16 + 1))) /* compares each character with each of |chars| */
        return bl_jinja_none();
    return jinja_methods_marked_as(
        bl_jinja_string(bl_jinja_strip(bl_jinja_text(self), jinja_methods_is_given(at[0]) ? &chars : NULL, left, right)), self);
}

METHOD(strip)
{
    (void)args;
    return strip(run, self, at, true, true);
}

METHOD(lstrip)
{
    (void)args;
    return strip(run, self, at, true, false);
}

METHOD(rstrip)
{
    (void)args;
    return strip(run, self, at, false, true);
}

/* The part of a string between two indices, with the rules of a slice. */
static bl_span between(bl_jinja_run *run, bl_jinja_value self, bl_jinja_value start, bl_jinja_value end, bool *empty)
{
    size_t count = bl_jinja_work(run, self.len) ? bl_jinja_points(bl_jinja_text(self)) : 0;
    int64_t from = jinja_methods_is_given(start) ? need_int(run, start, 0) : 0;
    bl_jinja_value part = bl_jinja_slice(run, self, jinja_methods_is_given(start) ? start : bl_jinja_none(),
                                         jinja_methods_is_given(end) ? end : bl_jinja_none(), bl_jinja_none());
    *empty = from > (int64_t)count; /* a start beyond the end has no match, not even an empty one */
    return bl_jinja_text(part);
}

/* Whether the part starts, or ends, with |text|. */
static bl_jinja_value jinja_methods_has_end(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, bool start)
{
    bool empty = false, found = false;
    bl_span part = between(run, self, at[1], at[2], &empty);
    bl_jinja_value one = at[0];
    bl_jinja_list ends = {.at = &one, .count = 1};
    if (at[0].kind == BL_JINJA_TUPLE)
        ends = *at[0].as.list;
    for (size_t i = 0; i < ends.count && !found && !run->failed; i++) {
        bl_span end = need_string(run, ends.at[i]);
        found = !empty && end.len <= part.len &&
                (end.len == 0 || memcmp(start ? part.data : part.data + part.len - end.len, end.data, end.len) == 0);
    }
    return bl_jinja_bool(found);
}

METHOD(startswith)
{
    (void)args;
    return jinja_methods_has_end(run, self, at, true);
}

METHOD(endswith)
{
    (void)args;
    return jinja_methods_has_end(run, self, at, false);
}

METHOD(removeprefix)
{
    bl_span text = bl_jinja_text(self), end = need_string(run, at[0]);
    (void)args;
    bool has = end.len > 0 && end.len <= text.len && memcmp(text.data, end.data, end.len) == 0;
    return has ? bl_jinja_string((bl_span){text.data + end.len, text.len - end.len}) : self;
}

METHOD(removesuffix)
{
    bl_span text = bl_jinja_text(self), end = need_string(run, at[0]);
    (void)args;
    bool has = end.len > 0 && end.len <= text.len && memcmp(text.data + text.len - end.len, end.data, end.len) == 0;
    return has ? bl_jinja_string((bl_span){text.data, text.len - end.len}) : self;
}

/* ---- searching */

static int64_t find_last(bl_span text, bl_span what)
{
    for (size_t i = text.len + 1; i-- > 0;) {
        if (what.len <= text.len - i && memcmp(text.data + i, what.data, what.len) == 0)
            return (int64_t)i;
    }
    return -1;
}

/* The index in code points, or -1. */
static int64_t find_index(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, bool last)
{
    bool empty = false;
    bl_span part = between(run, self, at[1], at[2], &empty), what = need_string(run, at[0]);
    if (run->failed || empty)
        return -1;
    if (last && !bl_jinja_work(run, part.len > SIZE_MAX / (what.len + 1) ? SIZE_MAX : part.len * (what.len + 1) / 8))
        return -1;
    int64_t found = last ? find_last(part, what) : bl_jinja_find(part, what, 0);
    return found < 0 ? -1 : (int64_t)bl_jinja_points((bl_span){self.as.data, (size_t)(part.data - self.as.data) + (size_t)found});
}

METHOD(find)
{
    (void)args;
    return bl_jinja_int(find_index(run, self, at, false));
}

METHOD(rfind)
{
    (void)args;
    return bl_jinja_int(find_index(run, self, at, true));
}

static bl_jinja_value need_found(bl_jinja_run *run, int64_t index)
{
    return index >= 0 ? bl_jinja_int(index) : bl_jinja_fail(run, BL_EINVAL, "substring not found");
}

METHOD(index)
{
    (void)args;
    return need_found(run, find_index(run, self, at, false));
}

METHOD(rindex)
{
    (void)args;
    return need_found(run, find_index(run, self, at, true));
}

METHOD(count)
{
    bool empty = false;
    bl_span part = between(run, self, at[1], at[2], &empty), what = need_string(run, at[0]);
    int64_t count = 0;
    (void)args;
    if (run->failed || empty)
        return bl_jinja_int(0);
    if (what.len == 0)
        return bl_jinja_int((int64_t)bl_jinja_points(part) + 1);
    for (int64_t i = bl_jinja_find(part, what, 0); i >= 0 && bl_jinja_work(run, 0);
         i = bl_jinja_find(part, what, (size_t)i + what.len))
        count++;
    return bl_jinja_int(count);
}

METHOD(replace)
{
    int64_t count = need_int(run, at[2], -1);
    bl_span old = need_string(run, at[0]), new = need_string(run, at[1]);
    (void)args;
    return run->failed ? bl_jinja_none() : bl_jinja_replace(run, bl_jinja_text(self), old, new, count);
}

/* ---- splitting and joining */

static void push_text(bl_jinja_run *run, bl_jinja_list *list, size_t *cap, const char *from, const char *to)
{
    bl_jinja_push(run, list, cap, bl_jinja_string((bl_span){from, (size_t)(to - from)}));
}

bl_jinja_value bl_jinja_split_spaces(bl_jinja_run *run, bl_span text, int64_t most)
{
    bl_jinja_list list = {0};
    size_t cap = 0, bytes = 0;
    const char *p = text.data, *end = text.data + text.len;
    while (bl_jinja_work(run, 0)) {
        while (p < end && bl_jinja_is_space(bl_jinja_point(p, end, &bytes)))
            p += bytes;
        if (p == end)
            break;
        const char *from = p;
        if (most >= 0 && (int64_t)list.count == most) {
            push_text(run, &list, &cap, from, end); /* the rest, including trailing spaces */
            break;
        }
        while (p < end && !bl_jinja_is_space(bl_jinja_point(p, end, &bytes)))
            p += bytes;
        push_text(run, &list, &cap, from, p);
    }
    return bl_jinja_list_of(run, BL_JINJA_LIST, list.at, list.count);
}

static void reverse(bl_jinja_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        bl_jinja_value other = list->at[i];
        list->at[i] = list->at[list->count - 1 - i];
        list->at[list->count - 1 - i] = other;
    }
}

static bl_jinja_value rsplit_spaces(bl_jinja_run *run, bl_span text, int64_t most)
{
    bl_jinja_list list = {0};
    size_t cap = 0;
    while (bl_jinja_work(run, 0)) {
        text = bl_jinja_strip(text, NULL, false, true);
        if (text.len == 0)
            break;
        const char *from = text.data + text.len;
        size_t bytes = 0;
        if (most >= 0 && (int64_t)list.count == most) {
            push_text(run, &list, &cap, text.data, from);
            break;
        }
        const char *p = from;
        while (p > text.data) {
            const char *last = p - 1;
            while (last > text.data && ((unsigned char)*last & 0xc0) == 0x80)
                last--;
            if (bl_jinja_is_space(bl_jinja_point(last, from, &bytes)))
                break;
            p = last;
        }
        push_text(run, &list, &cap, p, from);
        text.len = (size_t)(p - text.data);
    }
    reverse(&list);
    return bl_jinja_list_of(run, BL_JINJA_LIST, list.at, list.count);
}

static bl_jinja_value split_at(bl_jinja_run *run, bl_span text, bl_span sep, int64_t most, bool from_end)
{
    bl_jinja_list list = {0};
    size_t cap = 0;
    while ((most < 0 || (int64_t)list.count < most) && bl_jinja_work(run, from_end ? text.len : 0)) {
        int64_t found = from_end ? find_last(text, sep) : bl_jinja_find(text, sep, 0);
        if (found < 0)
            break;
        if (from_end) {
            push_text(run, &list, &cap, text.data + (size_t)found + sep.len, text.data + text.len);
            text.len = (size_t)found;
        } else {
            push_text(run, &list, &cap, text.data, text.data + found);
            text = (bl_span){text.data + (size_t)found + sep.len, text.len - (size_t)found - sep.len};
        }
    }
    push_text(run, &list, &cap, text.data, text.data + text.len);
    if (from_end)
        reverse(&list);
    return bl_jinja_list_of(run, BL_JINJA_LIST, list.at, list.count);
}

static bl_jinja_value split(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, bool from_end)
{
    int64_t most = need_int(run, at[1], -1);
    bl_span text = bl_jinja_text(self);
    if (run->failed || !bl_jinja_work(run, text.len))
        return bl_jinja_none();
    if (!jinja_methods_is_given(at[0]))
        return from_end ? rsplit_spaces(run, text, most) : bl_jinja_split_spaces(run, text, most);
    bl_span sep = need_string(run, at[0]);
    if (sep.len == 0)
        return bl_jinja_fail(run, BL_EINVAL, "empty separator");
    return split_at(run, text, sep, most, from_end);
}

METHOD(split)
{
    (void)args;
    return split(run, self, at, false);
}

METHOD(rsplit)
{
    (void)args;
    return split(run, self, at, true);
}

METHOD(splitlines)
{
    bl_span text = bl_jinja_text(self);
    bl_jinja_list list = {0};
    size_t cap = 0, whole = 0;
    bool keep = need_int(run, at[0], 0) != 0;
    (void)args;
    for (size_t i = 0; i < text.len && bl_jinja_work(run, whole);) {
        bl_span line = bl_jinja_next_line(text, &i, &whole);
        push_text(run, &list, &cap, line.data, line.data + (keep ? whole : line.len));
    }
    return bl_jinja_list_of(run, BL_JINJA_LIST, list.at, list.count);
}

static bl_jinja_value partition(bl_jinja_run *run, bl_jinja_value self, bl_jinja_value sep, bool last)
{
    bl_span text = bl_jinja_text(self), what = need_string(run, sep);
    bl_jinja_value *at = bl_jinja_alloc(run, 3, sizeof *at);
    if (run->failed || !bl_jinja_work(run, text.len) || what.len == 0 || at == NULL)
        return run->failed ? bl_jinja_none() : bl_jinja_fail(run, BL_EINVAL, "empty separator");
    int64_t found = last ? find_last(text, what) : bl_jinja_find(text, what, 0);
    at[0] = at[1] = at[2] = bl_jinja_string(BL_S(""));
    if (found < 0) {
        at[last ? 2 : 0] = self;
    } else {
        size_t from = (size_t)found + what.len;
        at[0] = bl_jinja_string((bl_span){text.data, (size_t)found});
        at[1] = bl_jinja_string(what);
        at[2] = bl_jinja_string((bl_span){text.data + from, text.len - from});
    }
    return bl_jinja_list_of(run, BL_JINJA_TUPLE, at, 3);
}

METHOD(partition)
{
    (void)args;
    return partition(run, self, at[0], false);
}

METHOD(rpartition)
{
    (void)args;
    return partition(run, self, at[0], true);
}

METHOD(join)
{
    bl_jinja_list items = bl_jinja_items(run, at[0]);
    bl_jinja_buffer out = {0};
    (void)args;
    for (size_t i = 0; i < items.count && !run->failed; i++) {
        if (items.at[i].kind != BL_JINJA_STRING)
            return bl_jinja_fail(run, BL_EINVAL, "sequence item %zu: expected str instance, %s found", i,
                                 bl_jinja_type(items.at[i]));
        bl_jinja_put_span(run, &out, i > 0 ? bl_jinja_text(self) : BL_S(""));
        bl_jinja_put_span(run, &out, bl_jinja_text(items.at[i]));
    }
    return bl_jinja_take(&out);
}

METHOD(format)
{
    (void)at;
    return bl_jinja_format(run, bl_jinja_text(self), args);
}

METHOD(format_map)
{
    bl_jinja_args named = {0};
    (void)args;
    if (at[0].kind != BL_JINJA_DICT)
        return bl_jinja_fail(run, BL_EINVAL, "format_map takes a mapping, not %s", bl_jinja_type(at[0]));
    named.named = *at[0].as.dict;
    return bl_jinja_format(run, bl_jinja_text(self), &named);
}

/* ---- fields */

bl_jinja_value bl_jinja_pad(bl_jinja_run *run, bl_span text, int64_t width, uint32_t fill, char where)
{
    bl_jinja_buffer out = {0};
    int64_t count = bl_jinja_work(run, text.len) ? (int64_t)bl_jinja_points(text) : 0, pad = width > count ? width - count : 0;
    int64_t left = where == 'l' ? 0 : where == 'r' ? pad : pad / 2 + (pad & width & 1);
    for (int64_t i = 0; i < left && bl_jinja_work(run, 0); i++)
        bl_jinja_put_point(run, &out, fill);
    bl_jinja_put_span(run, &out, text);
    for (int64_t i = left; i < pad && bl_jinja_work(run, 0); i++)
        bl_jinja_put_point(run, &out, fill);
    return bl_jinja_take(&out);
}

static bl_jinja_value pad(bl_jinja_run *run, bl_jinja_value self, const bl_jinja_value *at, char where)
{
    int64_t width = need_int(run, at[0], 0);
    bl_span fill = at[1].kind == BL_JINJA_ABSENT ? BL_S(" ") : need_string(run, at[1]);
    size_t bytes = 0;
    if (!run->failed && bl_jinja_points(fill) != 1)
        return bl_jinja_fail(run, BL_EINVAL, "The fill character must be exactly one character long");
    return run->failed
               ? bl_jinja_none()
               : bl_jinja_pad(run, bl_jinja_text(self), width, bl_jinja_point(fill.data, fill.data + fill.len, &bytes), where);
}

METHOD(center)
{
    (void)args;
    return pad(run, self, at, 'c');
}

METHOD(ljust)
{
    (void)args;
    return pad(run, self, at, 'l');
}

METHOD(rjust)
{
    (void)args;
    return pad(run, self, at, 'r');
}

METHOD(zfill)
{
    bl_span text = bl_jinja_text(self);
    bool sign = text.len > 0 && (text.data[0] == '+' || text.data[0] == '-');
    int64_t width = need_int(run, at[0], 0);
    (void)args;
    if (run->failed)
        return bl_jinja_none();
    bl_jinja_value digits = bl_jinja_pad(run, (bl_span){text.data + sign, text.len - sign}, width - sign, '0', 'r');
    return sign ? bl_jinja_binary(run, BL_JINJA_T_ADD, bl_jinja_string((bl_span){text.data, 1}), digits) : digits;
}

METHOD(expandtabs)
{
    bl_span text = bl_jinja_text(self);
    int64_t size = need_int(run, at[0], 8), column = 0;
    bl_jinja_buffer out = {0};
    size_t bytes = 0;
    (void)args;
    for (size_t i = 0; i < text.len && !run->failed; i += bytes) {
        uint32_t c = bl_jinja_point(text.data + i, text.data + text.len, &bytes);
        if (c != '\t') {
            bl_jinja_put(run, &out, text.data + i, bytes);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        } else {
            for (int64_t n = size > 0 ? size - column % size : 0; n > 0 && bl_jinja_work(run, 0); n--, column++)
                bl_jinja_puts(run, &out, " ");
        }
    }
    return bl_jinja_take(&out);
}

/* ---- tests of the characters of a string */

typedef bool is_class(uint32_t point);

static bl_jinja_value is_all(bl_jinja_run *run, bl_jinja_value self, is_class *is, bool empty)
{
    bl_span text = bl_jinja_text(self);
    size_t bytes = 0;
    if (!bl_jinja_work(run, text.len))
        return bl_jinja_none();
    for (size_t i = 0; i < text.len; i += bytes) {
        if (!is(bl_jinja_point(text.data + i, text.data + text.len, &bytes)))
            return bl_jinja_bool(false);
    }
    return bl_jinja_bool(text.len > 0 || empty);
}

static bool is_alnum(uint32_t c)
{
    return c != '_' && bl_jinja_is_word(c);
}

static bool is_alpha(uint32_t c)
{
    return is_alnum(c) && !bl_jinja_is_numeric(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

#define CLASS(id, is, empty)                                                                                                     \
    METHOD(id)                                                                                                                   \
    {                                                                                                                            \
        (void)at;                                                                                                                \
        (void)args;                                                                                                              \
        return is_all(run, self, is, empty);                                                                                     \
    }
CLASS(isalnum, is_alnum, false)
CLASS(isalpha, is_alpha, false)
CLASS(isascii, is_ascii, true)
CLASS(isdigit, bl_jinja_is_digit, false)
CLASS(isnumeric, bl_jinja_is_numeric, false)
CLASS(isprintable, bl_jinja_is_printable, true)
CLASS(isspace, bl_jinja_is_space, false)

METHOD(isidentifier)
{
    bl_span text = bl_jinja_text(self);
    size_t bytes = 0;
    bool digit = text.len > 0 && bl_jinja_is_numeric(bl_jinja_point(text.data, text.data + text.len, &bytes));
    (void)at;
    (void)args;
    return digit ? bl_jinja_bool(false) : is_all(run, self, bl_jinja_is_word, false);
}

METHOD(islower)
{
    return bl_jinja_test_lower(run, self, at, args);
}

METHOD(isupper)
{
    return bl_jinja_test_upper(run, self, at, args);
}

METHOD(istitle)
{
    bl_jinja_value title = bl_jinja_recase(run, bl_jinja_text(self), BL_JINJA_TITLE);
    bl_jinja_value lower = bl_jinja_recase(run, bl_jinja_text(self), BL_JINJA_LOWER);
    (void)at;
    (void)args;
    return bl_jinja_bool(bl_jinja_equal(run, title, self) && !bl_jinja_equal(run, lower, self));
}

/* ---- lists and dicts.  Values are immutable, so copy() returns the value itself. */

METHOD(same)
{
    (void)run;
    (void)at;
    (void)args;
    return self;
}

METHOD(list_count)
{
    bl_jinja_list items = bl_jinja_items(run, self);
    int64_t count = 0;
    (void)args;
    for (size_t i = 0; i < items.count && bl_jinja_work(run, 0); i++)
        count += bl_jinja_equal(run, items.at[i], at[0]);
    return bl_jinja_int(count);
}

METHOD(list_index)
{
    bl_jinja_list items = bl_jinja_items(run, self);
    bool bounded = self.kind != BL_JINJA_RANGE;
    int64_t count = (int64_t)items.count, from = bounded ? need_int(run, at[1], 0) : 0,
            to = bounded ? need_int(run, at[2], count) : count;
    (void)args;
    from = from < 0 ? (from < -count ? 0 : from + count) : from;
    to = to < 0 ? to + count : to;
    for (int64_t i = from; i < to && i < count && bl_jinja_work(run, 0); i++) {
        if (bl_jinja_equal(run, items.at[i], at[0]))
            return bl_jinja_int(i);
    }
    return bl_jinja_fail(run, BL_EINVAL, "the value is not in the %s", bl_jinja_type(self));
}

METHOD(get)
{
    (void)args;
    if (!bl_jinja_is_hashable(at[0]))
        return bl_jinja_fail(run, BL_EINVAL, "unhashable type: '%s'", bl_jinja_type(at[0]));
    const bl_jinja_value *found = bl_jinja_dict_get(run, self.as.dict, at[0]);
    return found != NULL ? *found : at[1].kind == BL_JINJA_ABSENT ? bl_jinja_none() : at[1];
}

static bl_jinja_value view(bl_jinja_value self, char which)
{
    return (bl_jinja_value){.kind = BL_JINJA_VIEW, .flag = (uint8_t)which, .as.dict = self.as.dict};
}

METHOD(items)
{
    (void)run;
    (void)at;
    (void)args;
    return view(self, 'i');
}

METHOD(keys)
{
    (void)run;
    (void)at;
    (void)args;
    return view(self, 'k');
}

METHOD(values)
{
    (void)run;
    (void)at;
    (void)args;
    return view(self, 'v');
}

METHOD(fromkeys)
{
    bl_jinja_list items = bl_jinja_items(run, at[0]);
    bl_jinja_value dict = bl_jinja_dict_make(run);
    (void)self;
    (void)args;
    for (size_t i = 0; i < items.count && !run->failed; i++)
        bl_jinja_dict_set(run, dict.as.dict, items.at[i], at[1].kind == BL_JINJA_ABSENT ? bl_jinja_none() : at[1]);
    return dict;
}

/* ---- loops */

METHOD(cycle)
{
    return bl_jinja_loop_cycle(run, self, at, args);
}

METHOD(changed)
{
    return bl_jinja_loop_changed(run, self, at, args);
}
