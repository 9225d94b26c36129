/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "proto/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#define S(literal) literal, sizeof(literal) - 1

/* Parses a copy without a terminator, so that a sanitizer detects a read past the end. */
static bl_status parse(bl_arena *arena, const char *text, size_t len, char **copy, bl_json_doc *doc, bl_err *err)
{
    *copy = malloc(len == 0 ? 1 : len);
    assert_non_null(*copy);
    memcpy(*copy, text, len);
    *err = (bl_err){0};
    return bl_json_parse(doc, arena, (bl_span){*copy, len}, NULL, err);
}

static void refused(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        const char *says;
    } rows[] = {
        {S(""), "ends where a value"},
        {S("   "), "ends where a value"},
        {S("\xef\xbb\xbf{}"), "byte order mark"},
        {S("{} x"), "text after the document"},
        {S("[1,2]garbage"), "text after the document"},
        {S("{}{}"), "text after the document"},
        {S("[1,2"), "not closed"},
        {S("{\"a\":1"), "not closed"},
        {S("[1,]"), "expected a value"},
        {S("[,1]"), "expected a value"},
        {S("{\"a\":1,}"), "name of a member"},
        {S("{a:1}"), "name of a member"},
        {S("{'a':1}"), "name of a member"},
        {S("{\"a\" 1}"), "colon"},
        {S("{\"a\":}"), "expected a value"},
        {S("[1 2]"), "comma or ]"},
        {S("[1}"), "comma or ]"},
        {S("{\"a\":1]"), "comma or }"},
        {S("[01]"), "not a number"},
        {S("[1.]"), "not a number"},
        {S("[.5]"), "expected a value"},
        {S("[+1]"), "expected a value"},
        {S("[-]"), "not a number"},
        {S("[1e]"), "not a number"},
        {S("[NaN]"), "\"NaN\", \"Infinity\" or \"-Infinity\" in quotes"},
        {S("[Infinity]"), "in quotes"},
        {S("[-Infinity]"), "in quotes"},
        {S("[nul]"), "expected a value"},
        {S("[True]"), "expected a value"},
        {S("\"abc"), "not closed"},
        {S("\"a\nb\""), "control"},
        {S("\"\0\""), "control"},
        {S("\"\\x\""), "escape"},
        {S("\"\\"), "not closed"},
        {S("\"\\u12\""), "hexadecimal"},
        {S("\"\\u0000abc\""), "\\u0000"},
        {S("\"\\ud800\""), "surrogate"},
        {S("\"\\ud800x\""), "surrogate"},
        {S("\"\\udc00\""), "surrogate"},
        {S("\"\\ud800\\ud800\""), "surrogate"},
        {S("\"\xff\""), "UTF-8"},
        {S("\"\xffn0:1\""), "UTF-8"},
        {S("\"\xc0\x80\""), "UTF-8"},
        {S("\"\xed\xa0\x80\""), "UTF-8"},
        {S("\"\xf4\x90\x80\x80\""), "UTF-8"},
        {S("\"\xe2\x82\""), "UTF-8"},
        {S("\"\xe2\x82"), "UTF-8"},
        {S("[\xc3\xa9]"), "expected a value"},
        {S("{\"a\":1,\"a\":2}"), "twice"},
        {S("{\"a\":1,\"\\u0061\":2}"), "twice"},
        {S("{\"x\":[{\"b\":{\"c\":1,\"d\":2,\"c\":3}}]}"), "x[0].b: the member \"c\""},
        {S("[1,2,3"), "line 1, column 7 (byte 6)"},
        {S("{\n  \"a\": [1, 2],\n  \"b\": tru\n}"), "line 3, column 8 (byte 24)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_json_doc doc;
        char *copy;
        bl_err err;
        bl_status st = parse(arena, rows[i].text, rows[i].len, &copy, &doc, &err);
        if (st != BL_EINVAL || strstr(err.text, rows[i].says) == NULL)
            fail_msg("%s: status %d, \"%s\", wanted \"%s\"", rows[i].text, (int)st, err.text, rows[i].says);
        bl_json_fini(&doc);
        free(copy);
        bl_arena_destroy(arena);
    }
}

static void taken(void **state)
{
    static const struct {
        const char *text;
        bl_json_kind kind;
    } rows[] = {{"null", BL_JSON_NULL},          {"true", BL_JSON_BOOL},
                {" \t\r\n1 ", BL_JSON_NUMBER},   {"-0.5e-3", BL_JSON_NUMBER},
                {"\"\"", BL_JSON_STRING},        {"\"\\ud83d\\ude00\\n\\\\ \xf0\x9f\x98\x80\"", BL_JSON_STRING},
                {"[]", BL_JSON_ARRAY},           {"[[],[[]]]", BL_JSON_ARRAY},
                {"[1,[2,3],[]]", BL_JSON_ARRAY}, {"[null]", BL_JSON_ARRAY},
                {"{}", BL_JSON_OBJECT},          {"{\"\":{}}", BL_JSON_OBJECT},
                {"[\"NaN\", 1]", BL_JSON_ARRAY}, {"[ [ ] , { } ]", BL_JSON_ARRAY}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_json_doc doc;
        char *copy;
        bl_err err;
        if (parse(arena, rows[i].text, strlen(rows[i].text), &copy, &doc, &err) != BL_OK)
            fail_msg("%s: %s", rows[i].text, err.text);
        assert_int_equal(bl_json_root(&doc).kind, rows[i].kind);
        bl_json_fini(&doc);
        free(copy);
        bl_arena_destroy(arena);
    }
}

/* Every kind of nesting, at the depth limit and above. */
static void depth(void **state)
{
    static const char *const opens[] = {"[", "{\"a\":", "[null,", "[[],"}, *const closes[] = {"]", "}", "]", "]"};
    static const int depths[] = {64, 65, 101, 250000};
    bl_text text = {0};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 4; k++) {
            bl_arena *arena = bl_arena_create(0);
            bl_json_doc doc;
            bl_err err;
            char *copy;
            int levels = depths[k] - (i == 3 && depths[k] == 64);
            bl_text_clear(&text);
            for (int n = 0; n < levels; n++)
                bl_text_puts(&text, opens[i]);
            bl_text_puts(&text, "1");
            for (int n = 0; n < levels; n++)
                bl_text_puts(&text, closes[i]);
            bl_status st = parse(arena, text.data, text.len, &copy, &doc, &err), want = depths[k] == 64 ? BL_OK : BL_EINVAL;
            if (st != want || (want != BL_OK && strstr(err.text, "deeper than 64") == NULL))
                fail_msg("%d times %s: status %d, \"%s\"", levels, opens[i], (int)st, err.text);
            bl_json_fini(&doc);
            free(copy);
            bl_arena_destroy(arena);
        }
    }
    bl_text_fini(&text);
}

static bl_json find(const bl_json *object, const char *name)
{
    bl_json out;

    if (!bl_json_find(object, name, &out))
        fail_msg("no member %s", name);
    return out;
}

static void values(void **state)
{
    static const char text[] =
        "{\"big\": 9007199254740993, \"u64\": 18446744073709551615, \"i64\": -9223372036854775808,"
        " \"zero\": -0, \"half\": 0.5, \"one\": 1.0, \"nan\": \"NaN\", \"huge\": 1e400,"
        " \"s\": \"a\\u00e9\\n\", \"mixed\": [\"batch\", 784], \"list\": [[1, -2.5], [true, \"NaN\"]], \"t\": true}";
    bl_arena *arena = bl_arena_create(0);
    bl_json_doc doc;
    bl_wire_number n;
    bl_err err = {0};
    uint64_t u;
    int64_t i;
    const char *s;
    bool b;

    (void)state;
    assert_int_equal(bl_json_parse(&doc, arena, (bl_span){text, sizeof text - 1}, NULL, &err), BL_OK);
    bl_json root = bl_json_root(&doc), v = find(&root, "big"), e;
    assert_int_equal(bl_json_u64(&v, &u, &err), BL_OK);
    assert_true(u == 9007199254740993);
    v = find(&root, "u64");
    assert_int_equal(bl_json_u64(&v, &u, &err), BL_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(bl_json_number(&v, &n, &err), BL_OK);
    assert_true(n.whole && n.magnitude == UINT64_MAX && n.value == 18446744073709551616.0);
    assert_int_equal(bl_json_int(&v, INT64_MIN, INT64_MAX, &i, &err), BL_EGRAPH);
    err = (bl_err){0};
    v = find(&root, "i64");
    assert_int_equal(bl_json_number(&v, &n, &err), BL_OK);
    assert_true(n.whole && n.negative && n.magnitude == (uint64_t)1 << 63);
    v = find(&root, "zero");
    assert_int_equal(bl_json_number(&v, &n, &err), BL_OK);
    assert_true(n.whole && n.negative && n.magnitude == 0 && n.value == 0 && 1 / n.value < 0);
    v = find(&root, "one");
    assert_int_equal(bl_json_number(&v, &n, &err), BL_OK);
    assert_true(!n.whole && n.value == 1);
    assert_int_equal(bl_json_int(&v, 0, 9, &i, &err), BL_EINVAL);
    assert_string_equal(err.text, "one: expected an integer, got 1.0");
    err = (bl_err){0};
    v = find(&root, "nan");
    assert_int_equal(bl_json_number(&v, &n, &err), BL_OK);
    assert_true(!n.whole && n.value != n.value);
    v = find(&root, "huge");
    assert_int_equal(bl_json_number(&v, &n, &err), BL_EGRAPH);
    assert_non_null(strstr(err.text, "huge: 1e400"));
    err = (bl_err){0};
    v = find(&root, "s");
    assert_int_equal(bl_json_string(&v, &s, &err), BL_OK);
    assert_string_equal(s, "a\xc3\xa9\n");
    v = find(&root, "t");
    assert_int_equal(bl_json_bool(&v, &b, &err), BL_OK);
    assert_true(b);
    v = find(&root, "mixed");
    assert_null(v.list);
    bl_json_iter it = bl_json_each(&v);
    assert_true(bl_json_next(&it, &e) && e.kind == BL_JSON_STRING);
    assert_int_equal(bl_json_int(&e, 0, 9, &i, &err), BL_EINVAL);
    assert_string_equal(err.text, "mixed[0]: expected an integer, got a string");
    err = (bl_err){0};
    assert_true(bl_json_next(&it, &e) && e.kind == BL_JSON_NUMBER);
    assert_int_equal(bl_json_int(&e, 0, 784, &i, &err), BL_OK);
    assert_int_equal(i, 784);
    assert_false(bl_json_next(&it, &e));
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
}

/* Prints an iteration over a list and its parts. */
static void show(const bl_json *v, bl_text *out)
{
    bl_json_iter it = bl_json_each(v);
    bl_json e;

    bl_text_printf(out, "%zu(", bl_json_count(v));
    while (bl_json_next(&it, &e)) {
        if (e.kind == BL_JSON_ARRAY)
            show(&e, out);
        else
            bl_text_printf(out, "%d:%.*s;", (int)e.kind, (int)e.text.len, e.text.data);
    }
    bl_text_puts(out, ")");
}

static void lists(void **state)
{
    static const struct {
        const char *text;
        int depth, holds;
        int64_t count, dim[3];
        bool ragged;
        const char *shown;
    } rows[] = {
        {"[]", 1, 0, 0, {0}, false, "0()"},
        {"[1, 2 ,3]", 1, 1, 3, {3}, false, "3(2:1;2:2;2:3;)"},
        {"[[1,2],[3,4],[5,6]]", 2, 1, 6, {3, 2}, false, "3(2(2:1;2:2;)2(2:3;2:4;)2(2:5;2:6;))"},
        {"[[],[]]", 2, 0, 0, {2, 0}, false, "2(0()0())"},
        {"[[[ ]]]", 3, 0, 0, {1, 1, 0}, false, "1(1(0()))"},
        {"[true,\"NaN\",-1e5]", 1, 7, 3, {3}, false, "3(1:true;3:NaN;2:-1e5;)"},
        {"[\"-Infinity\",\"Infinity\"]", 1, 4, 2, {2}, false, "2(3:-Infinity;3:Infinity;)"},
        {"[[1,2],[3]]", 2, 1, 3, {2, 2}, true, "2(2(2:1;2:2;)1(2:3;))"},
        {"[1,[2]]", 2, 1, 2, {2, 1}, true, "2(2:1;1(2:2;))"},
        {"[[1],2]", 2, 1, 2, {2, 1}, true, "2(1(2:1;)2:2;)"},
        {"[[],1]", 2, 1, 1, {2, 0}, true, "2(0()2:1;)"},
        {"[[],[[]]]", 3, 0, 0, {2, 0, 0}, true, "2(0()1(0()))"},
        {"[[[]],[]]", 3, 0, 0, {2, 1, 0}, true, "2(1(0())0())"},
        {"[[[1]],[2]]", 3, 1, 2, {2, 1, 1}, true, "2(1(1(2:1;))1(2:2;))"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_text shown = {0};
        bl_json_doc doc;
        char *copy;
        bl_err err;
        if (parse(arena, rows[i].text, strlen(rows[i].text), &copy, &doc, &err) != BL_OK)
            fail_msg("%s: %s", rows[i].text, err.text);
        bl_json root = bl_json_root(&doc);
        const bl_list *l = root.list;
        assert_non_null(l);
        if (l->depth != rows[i].depth || (int)l->holds != rows[i].holds || (int64_t)l->count != rows[i].count ||
            memcmp(l->dim, rows[i].dim, sizeof rows[i].dim) != 0 || (l->ragged != NULL) != rows[i].ragged)
            fail_msg("%s: depth %d, holds %u, count %d, shape %d %d %d, ragged %d", rows[i].text, l->depth, l->holds,
                     (int)l->count, (int)l->dim[0], (int)l->dim[1], (int)l->dim[2], l->ragged != NULL);
        show(&root, &shown);
        assert_string_equal(shown.data, rows[i].shown);
        bl_text_fini(&shown);
        bl_json_fini(&doc);
        free(copy);
        bl_arena_destroy(arena);
    }
}

/* A long string stays in the body, a string with an escape goes through the tree; both give the same value. */
static void long_strings(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    char text[2000], want[600];
    bl_json_doc doc;
    bl_err err = {0};
    const char *s;

    (void)state;
    memset(want, 'x', sizeof want);
    want[sizeof want - 1] = '\0';
    int n = snprintf(text, sizeof text, "{\"plain\":\"%s\",\"escaped\":\"\\u0078%s\"}", want, want + 1);
    assert_int_equal(bl_json_parse(&doc, arena, (bl_span){text, (size_t)n}, NULL, &err), BL_OK);
    bl_json root = bl_json_root(&doc), plain = find(&root, "plain"), escaped = find(&root, "escaped");
    assert_true(plain.text.data > text && plain.text.data < text + n);
    assert_int_equal(bl_json_string(&plain, &s, &err), BL_OK);
    assert_string_equal(s, want);
    assert_int_equal(bl_json_string(&escaped, &s, &err), BL_OK);
    assert_string_equal(s, want);
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
}

/* 100,000 members and a list of two million numbers are accepted; too many values are refused. */
static void bulk(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits few = {.values = 1000};
    bl_text text = {0};
    bl_json_doc doc;
    bl_err err = {0};

    (void)state;
    bl_text_putc(&text, '{');
    for (int i = 0; i < 100000; i++)
        bl_text_printf(&text, "%s\"member%d\":%d", i > 0 ? "," : "", i, i);
    bl_text_putc(&text, '}');
    assert_int_equal(bl_json_parse(&doc, arena, (bl_span){text.data, text.len}, NULL, &err), BL_OK);
    bl_json root = bl_json_root(&doc);
    assert_int_equal(bl_json_count(&root), 100000);
    bl_json_fini(&doc);
    assert_int_equal(bl_json_parse(&doc, arena, (bl_span){text.data, text.len}, &few, &err), BL_ELIMIT);
    bl_json_fini(&doc);
    text.len--;
    bl_text_puts(&text, ",\"member77\":0}");
    err = (bl_err){0};
    assert_int_equal(bl_json_parse(&doc, arena, (bl_span){text.data, text.len}, NULL, &err), BL_EINVAL);
    assert_non_null(strstr(err.text, "\"member77\" is given twice"));
    bl_json_fini(&doc);

    bl_text_clear(&text);
    bl_text_puts(&text, "{\"x\":[[");
    for (int i = 0; i < 2000000; i++)
        bl_text_puts(&text, "1.5,");
    bl_text_puts(&text, "2]]}");
    err = (bl_err){0};
    assert_int_equal(bl_json_parse(&doc, arena, (bl_span){text.data, text.len}, NULL, &err), BL_OK);
    root = bl_json_root(&doc);
    bl_json x = find(&root, "x");
    assert_true(x.list != NULL && x.list->count == 2000001);
    bl_json_fini(&doc);
    bl_text_fini(&text);
    bl_arena_destroy(arena);
}

/* Returns the milliseconds until the limit on values for |brackets| nested arrays that contain many numbers and an element that
 * prevents lists. */
static double time_in_vain(int brackets)
{
    bl_arena *arena = bl_arena_create(0);
    bl_json_limits few = {.values = 1000};
    bl_text text = {0};
    bl_json_doc doc;
    bl_err err = {0};

    for (int i = 0; i < brackets; i++)
        bl_text_putc(&text, '[');
    for (int i = 0; i < 1000000; i++)
        bl_text_puts(&text, "1,");
    bl_text_puts(&text, "null");
    for (int i = 0; i < brackets; i++)
        bl_text_putc(&text, ']');
    int64_t from = bl_clock_ns();
    assert_int_equal(bl_json_parse(&doc, arena, (bl_span){text.data, text.len}, &few, &err), BL_ELIMIT);
    double ms = bl_clock_ms(from, bl_clock_ns());
    bl_json_fini(&doc);
    bl_text_fini(&text);
    bl_arena_destroy(arena);
    return ms;
}

static void measured_once(void **state)
{
    double one = time_in_vain(1), sixty = time_in_vain(60);

    (void)state;
    if (sixty > 10 * one + 5)
        fail_msg("one bracket takes %.1f ms, sixty take %.1f ms", one, sixty);
}

static void members(void **state)
{
    static const char *const allowed[] = {"a", "b", NULL};
    bl_arena *arena = bl_arena_create(0);
    bl_json_doc doc;
    bl_err err = {0};

    (void)state;
    assert_int_equal(bl_json_parse(&doc, arena, BL_S("{\"a\":1,\"nodes\":[{},{\"attrs\":{\"c\":[]}}]}"), NULL, &err), BL_OK);
    bl_json root = bl_json_root(&doc), nodes = find(&root, "nodes"), node, missing;
    assert_int_equal(bl_json_allow(&root, allowed, &err), BL_EINVAL);
    assert_string_equal(err.text, "unknown member \"nodes\"");
    bl_json_iter it = bl_json_each(&nodes);
    assert_true(bl_json_next(&it, &node) && bl_json_next(&it, &node));
    bl_json attrs = find(&node, "attrs");
    err = (bl_err){0};
    assert_int_equal(bl_json_allow(&attrs, allowed, &err), BL_EINVAL);
    assert_string_equal(err.text, "nodes[1].attrs: unknown member \"c\"");
    err = (bl_err){0};
    assert_int_equal(bl_json_need(&attrs, "a", &missing, &err), BL_EINVAL);
    assert_string_equal(err.text, "nodes[1].attrs: the member \"a\" is missing");
    bl_json_fini(&doc);
    bl_arena_destroy(arena);
}

/* Every allocation fails once: the status is BL_ENOMEM, without a leak. */
static void out_of_memory(void **state)
{
    static const char text[] = "{\"a\":[[1],[2],\"x\"],\"b\":[1,2,3],\"c\":{\"d\":null,\"e\":[true]}}";
    bl_status st = BL_ENOMEM;

    (void)state;
    for (long n = 1; st != BL_OK; n++) {
        bl_arena *arena = bl_arena_create(0);
        bl_json_doc doc;
        bl_err err = {0};
        bl_fault_arm(BL_FAULT_ALLOC, n);
        st = bl_json_parse(&doc, arena, (bl_span){text, sizeof text - 1}, NULL, &err);
        bl_fault_arm(BL_FAULT_ALLOC, 0);
        if (st != BL_OK)
            assert_int_equal(st, BL_ENOMEM);
        assert_true(n < 100);
        bl_json_fini(&doc);
        bl_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused), cmocka_unit_test(taken),        cmocka_unit_test(depth), cmocka_unit_test(values),
        cmocka_unit_test(lists),   cmocka_unit_test(long_strings), cmocka_unit_test(bulk),  cmocka_unit_test(measured_once),
        cmocka_unit_test(members), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
