/* SPDX-License-Identifier: MIT */
/* Random ops: known answers of the generator, the inputs of a draw, and the distributions. */
#include "engine/front/call.h"
#include "tests/front/bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Random123 1.09, tests/kat_vectors: threefry2x32 20. */
static void test_known_answers(void **state)
{
    static const struct {
        uint32_t counter[2], key[2], want[2];
    } rows[] = {
        {{0, 0}, {0, 0}, {0x6b200159, 0x99ba4efe}},
        {{0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}, {0x1cb996fc, 0xbb002be7}},
        {{0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}, {0xc4923a9c, 0x483df7a0}},
    };
    bl_ir *ir = bl_ir_create(0);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_words key, counter;
        for (int k = 0; k < 2; k++) {
            key.at[k] = bl_const_int(ir, BL_U32, rows[i].key[k]);
            counter.at[k] = bl_const_int(ir, BL_U32, rows[i].counter[k]);
        }
        bl_words got = bl_threefry(ir, key, counter); /* folded, since the operands are constants */
        for (int k = 0; k < 2; k++)
            assert_int_equal(rows[i].want[k], bl_const_value(got.at[k]).u);
    }
    bl_ir_destroy(ir);
}

/* Runs one random node, given as text without ids; the result is in b->text. */
static void draw(bench *b, const char *node)
{
    char document[512];
    snprintf(
        document, sizeof document,
        "{'inputs': {'epoch': {'dtype': 'int64', 'shape': [], 'data': [7]}}, 'nodes': [{'id': 'out', %s}], 'outputs': ['out']}",
        node);
    if (bench_run(b, document) != BL_OK)
        fail_msg("%s: %s", node, b->err.text);
}

static const char *draw_once(const char *node, uint32_t seed, char *text, size_t size)
{
    bench b = {.seed = seed};
    draw(&b, node);
    snprintf(text, size, "%s", b.text.data);
    bench_fini(&b);
    return text;
}

#define UNIFORM "'op': 'uniform', 'attrs': {'shape': [3]"

/* A draw depends on (seed, step, place), or on (seed, key, place). */
static void test_what_decides(void **state)
{
    char a[200], c[200];
    bench b = {.program = true, .seed = 1};

    (void)state;
    assert_string_equal(draw_once(UNIFORM "}", 1, a, sizeof a), draw_once(UNIFORM "}", 1, c, sizeof c));
    assert_string_not_equal(a, draw_once(UNIFORM "}", 2, c, sizeof c));
    assert_string_equal(a, draw_once(UNIFORM ", 'seed': 1}", 9, c, sizeof c));

    draw(&b, UNIFORM "}");
    assert_string_equal(a, b.text.data);
    draw(&b, UNIFORM "}"); /* the next step */
    assert_string_not_equal(a, b.text.data);
    assert_int_equal(2, ((uint32_t *)b.kept[0].data)[1]); /* the step was advanced */
    bench_fini(&b);

    b = (bench){.program = true, .seed = 1};
    draw(&b, UNIFORM "}, 'in': ['epoch']");
    snprintf(a, sizeof a, "%s", b.text.data);
    draw(&b, UNIFORM "}, 'in': ['epoch']"); /* with a key, the step has no effect */
    assert_string_equal(a, b.text.data);
    draw(&b, UNIFORM "}, 'in': [8]");
    assert_string_not_equal(a, b.text.data);
    assert_int_equal(1, b.nkept);
    assert_string_equal("rng", b.kept[0].name);
    assert_int_equal(1, ((uint32_t *)b.kept[0].data)[0]); /* the seed is unchanged */
    assert_int_equal(0, ((uint32_t *)b.kept[0].data)[1]); /* the step is unchanged too, since no node used it */
    bench_fini(&b);
}

/* Two random nodes of one graph draw different numbers. */
static void test_place_counts(void **state)
{
    bench b = {0};

    (void)state;
    assert_int_equal(BL_OK, bench_run(&b, "{'inputs': {}, 'nodes': [{'id': 'p', " UNIFORM "}}, {'id': 'q', " UNIFORM "}},"
                                          "{'id': 'out', 'op': 'equal', 'in': ['p', 'q']}], 'outputs': ['out']}"));
    assert_string_equal("bool[3] 0 0 0", b.text.data);
    bench_fini(&b);
}

/* Mean, deviation and bounds of 20,000 draws; the tolerances exceed 4 standard errors. */
static void test_distributions(void **state)
{
    static const struct {
        const char *node;
        double mean, deviation, low, high;
    } rows[] = {
        {"'op': 'uniform', 'attrs': {'shape': [20000], 'low': -1, 'high': 3}", 1, 1.1547, -1, 3},
        {"'op': 'uniform', 'attrs': {'shape': [20000], 'dtype': 'float64'}", 0.5, 0.28868, 0, 1},
        {"'op': 'uniform', 'attrs': {'shape': [20000], 'dtype': 'float16'}", 0.5, 0.28868, 0, 0.9996},
        {"'op': 'uniform', 'attrs': {'shape': [20000], 'dtype': 'bfloat16'}", 0.5, 0.28868, 0, 0.997},
        {"'op': 'normal', 'attrs': {'shape': [20000], 'mean': 5, 'std': 2}", 5, 2, -6, 16},
        {"'op': 'randint', 'attrs': {'shape': [20000], 'low': -3, 'high': 5}", 0.5, 2.2913, -3, 4},
        {"'op': 'randint', 'attrs': {'shape': [20000], 'high': 1099511627776}", 549755813888.0, 317401664737.0, 0,
         1099511627775.0},
        {"'op': 'kaiming_uniform', 'attrs': {'shape': [100, 200]}", 0, 0.1, -0.17321, 0.17321},
        {"'op': 'kaiming_normal', 'attrs': {'shape': [20, 250, 2, 2]}", 0, 0.044721, -0.3, 0.3},
        {"'op': 'glorot_uniform', 'attrs': {'shape': [100, 200]}", 0, 0.081650, -0.14143, 0.14143},
        {"'op': 'scaled_uniform', 'attrs': {'shape': [80, 250]}", 0, 0.036515, -0.063246, 0.063246},
        {"'op': 'scaled_uniform', 'attrs': {'shape': [20000], 'fan_in': 25}", 0, 0.11547, -0.2, 0.2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = {.seed = 3};
        double sum = 0, squares = 0, n = 20000;
        draw(&b, rows[i].node);
        char *at = strchr(b.text.data, ']');
        for (int k = 0; k < 20000; k++) {
            double x = strtod(at + 1, &at);
            at--;
            sum += x;
            squares += x * x;
            if (!(x >= rows[i].low && x <= rows[i].high))
                fail_msg("%s: %g is not between %g and %g", rows[i].node, x, rows[i].low, rows[i].high);
        }
        double mean = sum / n;
        double deviation = sqrt(squares / n - mean * mean);
        if (fabs(mean - rows[i].mean) > 0.03 * rows[i].deviation || fabs(deviation / rows[i].deviation - 1) > 0.03)
            fail_msg("%s: mean %g, deviation %g; want %g, %g", rows[i].node, mean, deviation, rows[i].mean, rows[i].deviation);
        bench_fini(&b);
    }
}

static void test_dropout(void **state)
{
    bench b = {.seed = 4};
    int dropped = 0;

    (void)state;
    assert_int_equal(BL_OK, bench_run(&b, "{'inputs': {}, 'nodes': [{'id': 'x', 'op': 'ones', 'attrs': {'shape': [4000]}},"
                                          "{'id': 'y', 'op': 'dropout', 'in': ['x'], 'attrs': {'p': 0.25}}], 'outputs': ['y']}"));
    for (int k = 0; k < 4000; k++) {
        double y = bench_number(b.text.data, k);
        dropped += y == 0;
        assert_true(y == 0 || fabs(y - 4.0 / 3) < 1e-6);
    }
    assert_in_range(dropped, 890, 1110); /* 4 standard errors */
    bench_fini(&b);
}

static void read_permutation(const bench *b, int n, int *p)
{
    for (int i = 0; i < n; i++)
        p[i] = (int)bench_number(b->text.data, i);
}

static void test_permutation(void **state)
{
    static const int sizes[] = {0, 1, 2, 3, 7, 64, 257};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bench b = {.seed = 5};
        char node[80];
        int p[257], seen[257] = {0};
        snprintf(node, sizeof node, "'op': 'randperm', 'attrs': {'n': %d}", sizes[i]);
        draw(&b, node);
        read_permutation(&b, sizes[i], p);
        for (int k = 0; k < sizes[i]; k++) {
            assert_in_range(p[k], 0, sizes[i] - 1);
            assert_int_equal(0, seen[p[k]]++);
        }
        bench_fini(&b);
    }
}

/* All 24 permutations of 4 elements are equally frequent: chi-square with 23 degrees of freedom exceeds 49.7 with a probability
 * of 0.001; the seeds are fixed. */
static void test_permutation_is_uniform(void **state)
{
    enum { DRAWS = 480 };
    int count[256] = {0};
    double chi = 0;

    (void)state;
    for (uint32_t seed = 0; seed < DRAWS; seed++) {
        bench b = {.seed = seed};
        int p[4];
        draw(&b, "'op': 'randperm', 'attrs': {'n': 4}");
        read_permutation(&b, 4, p);
        count[p[0] << 6 | p[1] << 4 | p[2] << 2 | p[3]]++;
        bench_fini(&b);
    }
    for (int code = 0; code < 256; code++) {
        int a = code >> 6, c = code >> 4 & 3, d = code >> 2 & 3, e = code & 3;
        if ((1 << a | 1 << c | 1 << d | 1 << e) == 15)
            chi += (count[code] - DRAWS / 24.0) * (count[code] - DRAWS / 24.0) / (DRAWS / 24.0);
        else
            assert_int_equal(0, count[code]);
    }
    if (chi > 49.7)
        fail_msg("chi-square %g", chi);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),          cmocka_unit_test(test_what_decides), cmocka_unit_test(test_place_counts),
        cmocka_unit_test(test_distributions),          cmocka_unit_test(test_dropout),      cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_permutation_is_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
