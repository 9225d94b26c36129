/* SPDX-License-Identifier: MIT */
#include "proto/encode.h"
#include "proto/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void strings(void **state)
{
    static const struct {
        const char *text, *encoded;
    } rows[] = {{"", "\"\""},
                {"a\"b\\c", "\"a\\\"b\\\\c\""},
                {"line\nnext\ttab\x01", "\"line\\nnext\\u0009tab\\u0001\""},
                {"\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
                {"cut \xe2\x82", "\"cut \xef\xbf\xbd\xef\xbf\xbd\""},
                {"\xff.\xc0\x80", "\"\xef\xbf\xbd.\xef\xbf\xbd\xef\xbf\xbd\""}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bl_text out = {0};
        bl_encode_string(&out, rows[i].text);
        assert_string_equal(out.data, rows[i].encoded);
        bl_text_fini(&out);
    }
}

/* The first answer of docs/api.md, byte for byte. */
static void results(void **state)
{
    static const float s[] = {12, 30};
    static const bool flags[] = {true, false};
    const bl_result rows[] = {{.name = "s", .dtype = BL_F32, .ndim = 1, .dim = {2}, .count = 2, .data = s},
                              {.name = "f", .dtype = BL_BOOL, .ndim = 2, .dim = {1, 2}, .count = 2, .data = flags},
                              {.name = "e", .dtype = BL_I64, .ndim = 1, .dim = {0}, .count = 0, .data = s},
                              {.name = "t", .dtype = BL_U8, .ndim = 0}};
    bl_text out = {0};

    (void)state;
    bl_encode_results(&out, rows, 1, true);
    assert_string_equal(out.data, "{\"s\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[12,30]}}");
    bl_text_clear(&out);
    bl_encode_results(&out, rows, 1, false);
    assert_string_equal(out.data, "{\"s\":{\"dtype\":\"float32\",\"shape\":[2]}}");
    bl_text_clear(&out);
    bl_encode_results(&out, rows + 1, 3, true);
    assert_string_equal(out.data,
                        "{\"f\":{\"dtype\":\"bool\",\"shape\":[1,2],\"data\":[true,false]},"
                        "\"e\":{\"dtype\":\"int64\",\"shape\":[0],\"data\":[]},\"t\":{\"dtype\":\"uint8\",\"shape\":[]}}");
    bl_text_fini(&out);
}

static void stats(void **state)
{
    const bl_run_stats row = {.device = "opencl:0",
                              .cached = true,
                              .kernels = 1,
                              .peak_bytes = 1 << 20,
                              .ops = 12,
                              .bytes = 34,
                              .time_ms = 1.23456,
                              .queue_ms = 0.0004,
                              .debug = "a\nb"};
    bl_text out = {0};

    (void)state;
    bl_encode_stats(&out, &row);
    assert_string_equal(
        out.data,
        "{\"device\":\"opencl:0\",\"kernels\":1,\"helpers\":0,\"plan\":\"cached\",\"time_ms\":1.235,\"queue_ms\":0.0004,"
        "\"compile_ms\":0,\"compute_ms\":0,\"copy_ms\":0,\"peak_bytes\":1048576,\"ops\":12,\"bytes\":34,"
        "\"interpreted\":0,\"debug\":\"a\\nb\"}");
    bl_text_fini(&out);
}

static void problems(void **state)
{
    bl_err err = {0};
    bl_text out = {0};
    uint64_t step = 41;

    (void)state;
    (void)bl_fail(&err, BL_EGRAPH, "matmul: inner dimensions differ: [2, 3] @ [4, 5]");
    bl_problem_write(&out, &err, NULL);
    assert_string_equal(out.data, "{\"type\":\"urn:beamline:error:egraph\",\"title\":\"invalid graph\",\"status\":422,"
                                  "\"detail\":\"matmul: inner dimensions differ: [2, 3] @ [4, 5]\"}");
    bl_text_clear(&out);
    bl_err_blame(&err, "y");
    bl_problem_write(&out, &err, &step);
    assert_string_equal(
        out.data, "{\"type\":\"urn:beamline:error:egraph\",\"title\":\"invalid graph\",\"status\":422,"
                  "\"detail\":\"matmul: inner dimensions differ: [2, 3] @ [4, 5] (node \\\"y\\\")\",\"node\":\"y\",\"step\":41}");
    err = (bl_err){0};
    bl_text_clear(&out);
    (void)bl_fail(&err, BL_EGRAPH, "node \"y\" (Foo): there is no operator");
    bl_err_blame(&err, "y");
    bl_problem_write(&out, &err, NULL);
    assert_string_equal(out.data, "{\"type\":\"urn:beamline:error:egraph\",\"title\":\"invalid graph\",\"status\":422,"
                                  "\"detail\":\"node \\\"y\\\" (Foo): there is no operator\",\"node\":\"y\"}");
    bl_text_fini(&out);
}

/* The digits of measured values. */
static void measured(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.6207079999999999, "0.6207"},
                {5.3999999999999994e-8, "5.4e-8"},
                {1.0133333, "1.013"},
                {12345.678912, "12345.679"},
                {1795551360.8494284, "1795551360.849"},
                {0, "0"},
                {-0.00123456, "-0.001235"},
                {1e20, "1e20"},
                {0.99999, "1"},
                {250, "250"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_text out = {0};
        char expected[60];

        bl_encode_measured(&out, "ms", rows[i].value);
        snprintf(expected, sizeof expected, "\"ms\":%s", rows[i].text);
        assert_string_equal(bl_text_get(&out) + (bl_text_get(&out)[0] == ','), expected);
        bl_text_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strings), cmocka_unit_test(results), cmocka_unit_test(stats),
                                       cmocka_unit_test(problems), cmocka_unit_test(measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
