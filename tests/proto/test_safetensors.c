/* SPDX-License-Identifier: MIT */
#include "proto/decode.h"
#include "proto/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

static const bl_wire_limits limits = {.max_nodes = 100, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = 1 << 20};

/* Makes a file with this header and |data| bytes of data, in memory of the exact size. */
static char *make_file(const char *header, size_t header_len, size_t data, size_t *len)
{
    uint64_t length = header_len;
    char *file = calloc(1, 8 + header_len + data);

    assert_non_null(file);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, header_len);
    *len = 8 + header_len + data;
    return file;
}

static void refused(void **state)
{
#define T(dtype, shape, range) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" range "}"
    static const struct {
        const char *header;
        size_t data;
        bl_status status;
        const char *says;
    } rows[] = {
        {"{}", 0, BL_OK, ""},
        {"{}     ", 0, BL_OK, ""},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 8, BL_OK, ""},
        {"{\"a\":" T("F32", "[0]", "[0,0]") ",\"b\":" T("I8", "[]", "[0,1]") "}", 1, BL_OK, ""},
        {"{\"b\":" T("I8", "[4]", "[4,8]") ",\"a\":" T("BF16", "[2]", "[0,4]") "}", 8, BL_OK, ""},
        {"{\"__metadata__\":{\"a\":\"b\"},\"a\":" T("BOOL", "[1]", "[0,1]") "}", 1, BL_OK, ""},
        {" {}", 0, BL_EINVAL, "does not start with {"},
        {"[]", 0, BL_EINVAL, "does not start with {"},
        {"{]", 0, BL_EINVAL, "JSON"},
        {"{}x", 0, BL_EINVAL, "after the document"},
        {"{\"\xff\":1}", 0, BL_EINVAL, "UTF-8"},
        {"{}", 1, BL_EINVAL, "take 0 bytes, but 1 follow"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 7, BL_EINVAL, "not within the 7 bytes"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 9, BL_EINVAL, "take 8 bytes, but 9 follow"},
        {"{\"a\":" T("F32", "[2]", "[0,4]") "}", 4, BL_EINVAL,
         "a.data_offsets: the range has 4 bytes, but shape and dtype take 8"},
        {"{\"a\":" T("F32", "[2]", "[8,0]") "}", 8, BL_EINVAL, "not within"},
        {"{\"a\":" T("F32", "[2]", "[-8,0]") "}", 8, BL_EGRAPH, "-8"},
        {"{\"a\":" T("F32", "[2]", "[0,18446744073709551615]") "}", 8, BL_EGRAPH, "not between"},
        {"{\"a\":" T("F32", "[2]", "[0]") "}", 8, BL_EINVAL, "expected two numbers"},
        {"{\"a\":" T("F32", "[2]", "[0,8,8]") "}", 8, BL_EINVAL, "expected two numbers"},
        {"{\"a\":" T("F32", "[2]", "[0,8.0]") "}", 8, BL_EINVAL, "expected an integer"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[4,12]") "}", 12, BL_EINVAL,
         "two tensors overlap before the tensor \"b\""},
        {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[0,8]") "}", 8, BL_EINVAL, "overlap"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[8,12]") "}", 12, BL_EINVAL,
         "bytes that belong to no tensor before the tensor \"b\""},
        {"{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, BL_EINVAL, "bytes that belong to no tensor"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[4,8]") "}", 8, BL_EINVAL, "\"a\" is given twice"},
        {"{\"a\":" T("F31", "[1]", "[0,4]") "}", 4, BL_EUNSUPPORTED, "\"F31\""},
        {"{\"a\":" T("F8_E8M0", "[1]", "[0,1]") "}", 1, BL_EUNSUPPORTED, "\"F8_E8M0\""},
        {"{\"a\":" T("", "[1]", "[0,1]") "}", 1, BL_EUNSUPPORTED, "\"\""},
        {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, BL_EGRAPH, "-1"},
        {"{\"a\":" T("F32", "[4611686018427387904,4]", "[0,0]") "}", 0, BL_ELIMIT, "63 bits"},
        {"{\"a\":" T("F32", "[0,4611686018427387904,4]", "[0,0]") "}", 0, BL_ELIMIT, "63 bits"},
        {"{\"a\":" T("F32", "[262145]", "[0,4]") "}", 4, BL_ELIMIT, "1048580 bytes"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, BL_ELIMIT, "more than 16"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, BL_EINVAL, "\"data_offsets\" is missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, BL_EINVAL, "unknown member \"x\""},
        {"{\"a\":[1]}", 4, BL_EINVAL, "a: expected an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, BL_EINVAL, "__metadata__.a: expected a string"},
        {"{\"__metadata__\":[]}", 0, BL_EINVAL, "__metadata__: expected an object"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_tensor_file out;
        bl_err err = {0};
        size_t len;
        char *file = make_file(rows[i].header, strlen(rows[i].header), rows[i].data, &len);
        bl_status st = bl_safetensors_open(arena, (bl_span){file, len}, &limits, &out, &err);
        if (st != rows[i].status || strstr(err.text, rows[i].says) == NULL)
            fail_msg("%s + %zu: status %d, \"%s\"; wanted %d, \"%s\"", rows[i].header, rows[i].data, (int)st, err.text,
                     (int)rows[i].status, rows[i].says);
        free(file);
        bl_arena_destroy(arena);
    }
}

static void bad_lengths(void **state)
{
    static const uint64_t lengths[] = {0, 1, 3, 100000001, (uint64_t)1 << 32, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    char file[16] = "12345678{}";

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_tensor_file out;
        bl_err err = {0};
        memcpy(file, &lengths[i], 8);
        if (bl_safetensors_open(arena, (bl_span){file, 10}, &limits, &out, &err) != BL_EINVAL)
            fail_msg("a header of %llu bytes was taken", (unsigned long long)lengths[i]);
        bl_arena_destroy(arena);
    }
    for (size_t len = 0; len < 8; len++) {
        bl_tensor_file out;
        bl_err err = {0};
        assert_int_equal(bl_safetensors_open(NULL, (bl_span){file, len}, &limits, &out, &err), BL_EINVAL);
    }
}

static void many_tensors(void **state)
{
    bl_arena *arena = bl_arena_create(0);
    bl_tensor_file out;
    bl_text header = {0};
    bl_err err = {0};
    size_t len;

    (void)state;
    for (int i = 0; i < 102; i++)
        bl_text_printf(&header, "%s\"t%d\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i > 0 ? "," : "{", i, i,
                       i + 1);
    bl_text_putc(&header, '}');
    char *file = make_file(header.data, header.len, 102, &len);
    assert_int_equal(bl_safetensors_open(arena, (bl_span){file, len}, &limits, &out, &err), BL_ELIMIT);
    assert_non_null(strstr(err.text, "102 tensors; the limit is 100"));
    free(file);
    bl_text_fini(&header);
    bl_arena_destroy(arena);
}

static void written_and_read(void **state)
{
    static const bl_file_tensor tensors[] = {{.name = "w", .dtype = BL_F32, .ndim = 2, .dim = {2, 3}},
                                             {.name = "e\"\n", .dtype = BL_I64, .ndim = 1, .dim = {0}},
                                             {.name = "flag", .dtype = BL_BOOL, .ndim = 0}};
    static const bl_file_text texts[] = {{"response", "{\"a\":\"\\u0001 \xc3\xa9\"}"}, {"k", ""}};

    (void)state;
    for (size_t ntexts = 0; ntexts <= 2; ntexts++) {
        for (size_t n = 0; n <= 3; n++) {
            bl_arena *arena = bl_arena_create(0);
            bl_text out = {0};
            bl_tensor_file file;
            bl_err err = {0};
            size_t data = n == 0 ? 0 : n == 3 ? 25 : 24;
            bl_text_puts(&out, "junk");
            bl_safetensors_write(&out, tensors, n, texts, ntexts);
            assert_int_equal((out.len - 4) % 8, 0);
            for (size_t i = 0; i < data; i++)
                bl_text_putc(&out, (char)i);
            if (bl_safetensors_open(arena, (bl_span){out.data + 4, out.len - 4}, &limits, &file, &err) != BL_OK)
                fail_msg("%s", err.text);
            assert_int_equal(file.ntensors, n);
            assert_int_equal(file.ntexts, ntexts);
            for (size_t i = 0; i < n; i++) {
                assert_string_equal(file.tensors[i].name, tensors[i].name);
                assert_int_equal(file.tensors[i].dtype, tensors[i].dtype);
                assert_int_equal(file.tensors[i].ndim, tensors[i].ndim);
                assert_memory_equal(file.tensors[i].dim, tensors[i].dim, sizeof tensors[i].dim);
            }
            if (n == 3)
                assert_int_equal(*file.tensors[2].data, 24);
            if (ntexts > 0)
                assert_string_equal(bl_safetensors_text(&file, "response"), texts[0].value);
            assert_null(bl_safetensors_text(&file, "request"));
            bl_text_fini(&out);
            bl_arena_destroy(arena);
        }
    }
}

/* A request as one file: its tensors fill "inputs"; a name in both places is refused. */
static void request_in_a_file(void **state)
{
    static const struct {
        const char *request;
        bl_status status;
        const char *says;
    } rows[] = {
        {"{\"inputs\":{\"x\":[1,2]},\"nodes\":[{\"id\":\"y\",\"op\":\"add\",\"in\":[\"x\",\"w\"]}],\"outputs\":[\"y\"]}", BL_OK,
         ""},
        {"{\"inputs\":{\"w\":[1,2]},\"nodes\":[{\"id\":\"y\",\"op\":\"neg\",\"in\":[\"w\"]}],\"outputs\":[\"y\"]}", BL_EGRAPH,
         "inputs: \"w\" is given twice, in the document and beside it"},
        {"{\"nodes\":[{\"id\":\"w\",\"op\":\"neg\"}],\"outputs\":[\"w\"]}", BL_EGRAPH, "\"w\" is used twice"},
        {"{\"nodes\":", BL_EINVAL, "JSON"},
    };
    static const bl_file_tensor w = {.name = "w", .dtype = BL_I32, .ndim = 1, .dim = {2}},
                                bad = {.name = "a b", .dtype = BL_I8, .ndim = 1, .dim = {8}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows + 2; i++) {
        bool odd_name = i == sizeof rows / sizeof *rows, no_document = i > sizeof rows / sizeof *rows;
        bl_file_text text = {no_document ? "response" : "request", rows[i % 4].request};
        bl_arena *arena = bl_arena_create(0);
        bl_text out = {0};
        bl_tensor_file file;
        bl_json_doc doc;
        bl_err err = {0};
        bl_run_request run;
        bl_safetensors_write(&out, odd_name ? &bad : &w, 1, &text, 1);
        bl_text_append(&out, "\1\0\0\0\2\0\0\0", 8);
        bl_status st = bl_decode_body(arena, (bl_span){out.data, out.len}, true, "request", NULL, &limits, &doc, &file, &err);
        if (st == BL_OK) {
            bl_decode_env env = {.arena = arena, .limits = limits, .binary = &file};
            bl_json root = bl_json_root(&doc);
            st = bl_decode_run(&env, &root, &run, &err);
        }
        bl_json_fini(&doc);
        if (odd_name || no_document) {
            assert_int_equal(st, odd_name ? BL_EGRAPH : BL_EINVAL);
            assert_non_null(strstr(err.text, odd_name ? "inputs.a b is not a valid name" : "__metadata__ must have"));
        } else if (st != rows[i].status || strstr(err.text, rows[i].says) == NULL) {
            fail_msg("%s: status %d, \"%s\"; wanted %d, \"%s\"", rows[i].request, (int)st, err.text, (int)rows[i].status,
                     rows[i].says);
        }
        if (st == BL_OK) {
            int32_t values[2];
            assert_int_equal(run.graph.ninputs, 2);
            assert_int_equal(bl_tensor_scan(&run.values[1], values, &err), BL_OK);
            assert_true(run.values[1].dtype == BL_I32 && values[0] == 1 && values[1] == 2);
        }
        bl_text_fini(&out);
        bl_arena_destroy(arena);
    }
}

/* Random changes of bytes: no crash and no leak. */
static void mutations(void **state)
{
    static const char header[] = "{\"__metadata__\":{\"request\":\"{\\\"nodes\\\":[]}\"},\"b\":" T(
        "I8", "[4]", "[4,8]") ",\"a\":" T("BF16", "[2]", "[0,4]") "}";
    uint64_t seed = 1181783497276652981ULL;
    int fine = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        bl_arena *arena = bl_arena_create(1 << 20);
        bl_tensor_file out;
        bl_err err = {0};
        size_t len;
        char *file = make_file(header, sizeof header - 1, 8, &len);
        for (int k = 0; k <= round % 3; k++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            size_t at = (size_t)(seed >> 33) % (len + 8);
            file[at < 8 ? at : (at - 8) % len] =
                (char)(seed >> 62 == 0 ? "[]{}\",0918"[(seed >> 50) % 10] : (int)(seed >> 24 & 0xff));
        }
        bl_status st = bl_safetensors_open(arena, (bl_span){file, len}, &limits, &out, &err);
        assert_true(st == BL_OK || err.text[0] != '\0');
        fine += st == BL_OK;
        free(file);
        bl_arena_destroy(arena);
    }
    assert_true(fine > 50 && fine < 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused),           cmocka_unit_test(bad_lengths),
                                       cmocka_unit_test(many_tensors),      cmocka_unit_test(written_and_read),
                                       cmocka_unit_test(request_in_a_file), cmocka_unit_test(mutations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
