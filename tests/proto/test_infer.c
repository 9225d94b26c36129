/* SPDX-License-Identifier: MIT */
/* Envelopes of the Open Inference Protocol with binary tensors, in memory of the exact size, so that a read past the end is
 * detected. */
#include "proto/infer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

static const bl_wire_limits limits = {.max_nodes = 100, .max_inputs = 100, .max_dims = 16, .max_tensor_bytes = 1 << 20};

#define X(shape, datatype, rest) "{\"inputs\":[{\"name\":\"x\",\"shape\":" shape ",\"datatype\":\"" datatype "\"," rest "}]}"
#define SIZE(size)               "\"parameters\":{\"binary_data_size\":" size "}"

static void decode_rows(void **state)
{
    static const struct {
        const char *text, *tail;
        size_t bytes; /* of the tail */
        bl_status status;
        const char *says;
    } rows[] = {
        {X("[2]", "FP32", "\"data\":[1,2]"), "", 0, BL_OK, ""},
        {X("[2,1]", "FP32", "\"data\":[[1],[2]]"), "", 0, BL_OK, ""},
        {X("[2]", "FP32", "\"data\":[1]"), "", 0, BL_EINVAL, "1 elements, but the shape has 2"},
        {X("[2]", "FP32", "\"data\":1"), "", 0, BL_EINVAL, "expected an array"},
        {X("[2]", "FP32", SIZE("8")), "12345678", 8, BL_OK, ""},
        {X("[2]", "FP32", SIZE("8")), "1234567", 7, BL_EINVAL, "7 bytes of the body are left"},
        {X("[2]", "FP32", SIZE("8")), "123456789", 9, BL_EINVAL, "1 bytes of the body belong to no input"},
        {X("[2]", "FP32", SIZE("4")), "1234", 4, BL_EINVAL, "the tensor has 8 bytes"},
        {X("[2]", "FP32", SIZE("-8")), "12345678", 8, BL_EGRAPH, "-8"},
        {X("[2]", "FP32", SIZE("18446744073709551615")), "12345678", 8, BL_EINVAL, "are left"},
        {X("[0]", "FP32", SIZE("0")), "", 0, BL_OK, ""},
        {X("[1152921504606846978]", "INT64", SIZE("8")), "12345678", 8, BL_ELIMIT, "63 bits"},
        {X("[8,1048576]", "INT8", SIZE("8")), "12345678", 8, BL_ELIMIT, "the limit of one tensor"},
        {X("[2]", "BYTES", SIZE("10")), "\1\0\0\0a\1\0\0\0b", 10, BL_OK, ""},
        {X("[2]", "BYTES", SIZE("8")), "\0\0\0\0\0\0\0\0", 8, BL_OK, ""},
        {X("[2]", "BYTES", SIZE("9")), "\1\0\0\0a\1\0\0\0", 9, BL_EINVAL, "has 1 bytes, but 0 are left"},
        {X("[2]", "BYTES", SIZE("8")), "\0\0\0\0\0\0\0", 7, BL_EINVAL, "are left"},
        {X("[1]", "BYTES", SIZE("4")), "\377\377\377\377", 4, BL_EINVAL, "has 4294967295 bytes"},
        {X("[1]", "BYTES", SIZE("6")), "\1\0\0\0a!", 6, BL_EINVAL, "are not 1 elements"},
        {X("[3]", "BYTES", SIZE("4")), "\0\0\0\0", 4, BL_EINVAL, "do not fit"},
        {X("[2]", "BYTES", "\"data\":[\"a\",[\"b\"]]"), "", 0, BL_OK, ""},
        {X("[2]", "BYTES", "\"data\":[\"a\",1]"), "", 0, BL_EINVAL, "expected a string"},
        {X("[2]", "BYTES", "\"data\":[\"a\"]"), "", 0, BL_EINVAL, "1 elements, but the shape has 2"},
        {X("[2]", "FP8", "\"data\":[1,2]"), "", 0, BL_EINVAL, "FP8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t text = strlen(rows[i].text), len = text + rows[i].bytes;
        bl_arena *arena = bl_arena_create(0);
        char *body = malloc(len), header[24];
        bl_infer_request out;
        bl_err err = {0};
        assert_non_null(body);
        memcpy(body, rows[i].text, text);
        memcpy(body + text, rows[i].tail, rows[i].bytes);
        snprintf(header, sizeof header, "%zu", text);
        bl_status st = bl_infer_decode(arena, (bl_span){body, len}, header, 0, &limits, &out, &err);
        if (st != rows[i].status || strstr(err.text, rows[i].says) == NULL)
            fail_msg("row %zu, %s: status %d, \"%s\"; it should be %d, \"%s\"", i, rows[i].text, st, err.text, rows[i].status,
                     rows[i].says);
        free(body);
        bl_arena_destroy(arena);
    }
}

static void header_rows(void **state)
{
    static const struct {
        const char *header;
        bl_status status;
    } rows[] = {{NULL, BL_OK},     {"68", BL_EINVAL}, {"", BL_EINVAL},   {"-1", BL_EINVAL},
                {"x", BL_EINVAL},  {"+5", BL_EINVAL}, {" 5", BL_EINVAL}, {"99999999999999999999999999", BL_EINVAL},
                {"5 ", BL_EINVAL}, {"0", BL_OK}};
    static const char text[] = X("[1]", "FP32", "\"data\":[1]");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_arena *arena = bl_arena_create(0);
        bl_infer_request out;
        bl_err err = {0};
        bl_status st = bl_infer_decode(arena, (bl_span){text, sizeof text - 1}, rows[i].header, 0, &limits, &out, &err);
        if (st != rows[i].status)
            fail_msg("header \"%s\": status %d (%s), it should be %d", rows[i].header, st, err.text, rows[i].status);
        if (st == BL_OK)
            assert_int_equal(out.raw, rows[i].header != NULL);
        bl_arena_destroy(arena);
    }
}

static void results(void **state)
{
    static const float numbers[] = {1, 2.5F};
    static const bl_span words[] = {{"a\"b", 3}, {"", 0}};
    const bl_infer_result rows[] = {
        {.name = "y", .datatype = BL_F32, .ndim = 1, .dim = {2}, .count = 2, .data = numbers},
        {.name = "y", .datatype = BL_F32, .ndim = 1, .dim = {2}, .count = 2, .data = numbers, .binary = true},
        {.name = "w", .datatype = BL_INFER_BYTES, .ndim = 1, .dim = {2}, .count = 2, .items = words},
        {.name = "w", .datatype = BL_INFER_BYTES, .ndim = 1, .dim = {2}, .count = 2, .items = words, .binary = true}};
    static const char *const want[] = {
        "{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[1,2.5]}",
        "{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2],\"parameters\":{\"binary_data_size\":8}}",
        "{\"name\":\"w\",\"datatype\":\"BYTES\",\"shape\":[2],\"data\":[\"a\\\"b\",\"\"]}",
        "{\"name\":\"w\",\"datatype\":\"BYTES\",\"shape\":[2],\"parameters\":{\"binary_data_size\":11}}"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_text out = {0};
        bl_infer_put_result(&out, &rows[i]);
        assert_string_equal(bl_text_get(&out), want[i]);
        bl_text_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decode_rows), cmocka_unit_test(header_rows), cmocka_unit_test(results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
