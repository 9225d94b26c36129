/* SPDX-License-Identifier: MIT */
/* Plans of products with block-quantised weights, for each type: no launch writes an unpacked weight, and no buffer keeps
 * one. */
#include "engine/front/quant.h"
#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 512, ROWS = 64, LAYERS = 2, MOST_DEVICES = 16, WEIGHT_BYTES = WIDTH * WIDTH * (int)sizeof(float) };

static char text[1 << 16];
static size_t len;

BL_PRINTF(1, 2) static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    len += (size_t)vsnprintf(text + len, sizeof text - len, format, args);
    va_end(args);
    assert_true(len < sizeof text);
}

/* Writes the weights gate, up and down of each layer to the document. */
static void say_weights(const bl_quant_type *type, int weights)
{
    bl_quant_plane plane[BL_QUANT_PLANES];
    int n = bl_quant_planes(type, WIDTH, WIDTH, plane);

    for (int w = 0; w < weights; w++) {
        for (int i = 0; i < n; i++) {
            say(", \"w%d_%d\": {\"dtype\": \"%s\", \"shape\": [", w, i, bl_dtype_name(plane[i].dtype));
            for (int d = 0; d < plane[i].ndim; d++)
                say("%s%d", d == 0 ? "" : ", ", (int)plane[i].dim[d]);
            say("]}");
        }
    }
}

static bool rounds; /* activations are int8 */

static void say_product(const bl_quant_type *type, const char *name, int number, const char *x, int weight)
{
    bl_quant_plane plane[BL_QUANT_PLANES];
    int n = bl_quant_planes(type, WIDTH, WIDTH, plane);

    say("{\"id\": \"%s%d\", \"op\": \"block_linear\", \"in\": [\"%s\"", name, number, x);
    for (int i = 0; i < n; i++)
        say(", \"w%d_%d\"", weight, i);
    say("], \"attrs\": {\"format\": \"%s\", \"activations\": \"%s\"}}, ", type->name, rounds ? "int8" : "float32");
}

/* Gated layers: y = down(silu(gate(x)) * up(x)) + x, repeated with the same weights. */
static void make_document(const bl_quant_type *type, bool named)
{
    char x[16] = "x";

    len = 0;
    say("{\"inputs\": {\"x\": {\"dtype\": \"float32\", \"shape\": [%s, %d]}", named ? "\"n\"" : "64", WIDTH);
    say_weights(type, 3 * LAYERS);
    say("}, %s\"nodes\": [", named ? "\"dims\": {\"n\": [1, 64]}, " : "");
    for (int i = 0; i < 2 * LAYERS; i++) {
        int first = i % LAYERS * 3;
        char product[16];
        say_product(type, "g", i, x, first);
        say_product(type, "u", i, x, first + 1);
        say("{\"id\": \"s%d\", \"op\": \"silu\", \"in\": [\"g%d\"]}, {\"id\": \"p%d\", \"op\": \"mul\", \"in\": [\"s%d\", "
            "\"u%d\"]}, ",
            i, i, i, i, i);
        snprintf(product, sizeof product, "p%d", i);
        say_product(type, "d", i, product, first + 2);
        say("{\"id\": \"y%d\", \"op\": \"add\", \"in\": [\"%s\", \"d%d\"]}%s", i, x, i, i + 1 < 2 * LAYERS ? ", " : "");
        snprintf(x, sizeof x, "y%d", i);
    }
    say("], \"outputs\": [\"%s\"]}", x);
}

static void test_scratch(void **state)
{
    bl_device *devices[MOST_DEVICES];
    uint32_t n = harness_open(MOST_DEVICES, devices);
    harness_options options = {.compile_only = true};

    (void)state;
    for (uint32_t d = 0; d < n; d++) {
        if (strncmp(devices[d]->info.id, "interp", 6) != 0)
            continue; /* a driver's compiler would take minutes; the schedule is that of a CPU */
        for (int id = 0; id < 4 * BL_QUANT_TYPES; id++) {
            harness_result result = {0};
            const bl_quant_type *type = NULL;
            for (int ggml = 0; ggml < 64 && (type == NULL || (int)type->id != id / 4); ggml++)
                type = bl_quant_find(ggml);
            assert_non_null(type);
            rounds = id / 2 % 2 == 1;
            make_document(type, id % 2 == 1);
            if (harness_run(devices[d], text, &options, 1, &result) != 1 || result.err.status != BL_OK)
                fail_msg("%s: %s", type->name, result.err.text);
            if (result.peak_bytes + result.keep_bytes >= WEIGHT_BYTES)
                fail_msg("%s%s%s: %zu bytes of scratch and %zu to be kept, where a weight in float32 has %d", type->name,
                         rounds ? ", int8" : "", id % 2 == 1 ? ", a named number of rows" : "", result.peak_bytes,
                         result.keep_bytes, WEIGHT_BYTES);
        }
    }
    for (uint32_t d = 0; d < n; d++)
        bl_device_destroy(devices[d]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scratch)};
    return cmocka_run_group_tests_name("plan/quantised", tests, NULL, NULL);
}
