/* SPDX-License-Identifier: MIT */
/* Split float32 products on bfloat16 units (float32_matmul_precision "high"): on the interpreter with units that this machine
 * need not have, and on devices with such units.  The results are compared with the same graph in float32. */
#include "tests/plan/harness.h"
#include "tests/plan/jobs.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16, MOST_ELEMENTS = 1 << 16 };

/* A factor is x = high + low + rest with rest at most 2^-18 of x, and low at most 2^-9.  A product lacks both rests and low *
 * low, 3 * 2^-18 of it; a float32 sum of up to 300 products adds about 2^-20 of the sum of their magnitudes. */
static const double most_error = 1.25e-5;

#define F32(...) "{'dtype': 'float32', 'shape': [" #__VA_ARGS__ "]}"
/* clang-format off */
static const struct {
    const char *name, *document;
} graphs[] = {
    {"product",
     "{'inputs': {'x': " F32(70, 64) ", 'w': " F32(64, 48) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], "
                                                           "'outputs': ['y']}"},
    {"epilogue", "{'inputs': {'x': " F32(48, 96) ", 'w': " F32(40, 96) ", 'b': " F32(
                     40) "}, 'nodes': [{'id': 'm', 'op': 'linear', "
                         "'in': ['x', 'w', 'b']}, {'id': 'y', 'op': 'relu', 'in': ['m']}], 'outputs': ['y']}"},
    {"batched", "{'inputs': {'x': " F32(3, 64, 32) ", 'w': " F32(
                    3, 64, 48) "}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': "
                               "['x']}, {'id': 'y', 'op': 'matmul', 'in': ['t', 'w']}], 'outputs': ['y']}"},
    {"convolution", "{'inputs': {'x': " F32(1, 32, 16, 17) ", 'w': " F32(32, 32, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', "
                    "'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}"},
};
/* clang-format on */
enum { NGRAPHS = sizeof graphs / sizeof graphs[0] };

/* The units of the interpreter. */
static const struct {
    const char *name;
    bl_matrix_unit unit;
} units[] = {
    {"tiles", {BL_UNIT_AMX, BL_UNIT_BF16, 16, 16, 32, 1, 2, 16}},
    {"dots", {BL_UNIT_DOT, BL_UNIT_BF16, 1, 16, 2, 1, 2, 2}},
    {"cooperative", {BL_UNIT_COOPERATIVE, BL_UNIT_BF16, 8, 8, 8, 8, 1, 0}},
};

static bl_device *devices[MOST_DEVICES];
static uint32_t ndevices;

/* ---- one run */

typedef struct result {
    size_t count;
    float at[MOST_ELEMENTS];
    bool split;      /* some kernel's moves have the split */
    uint64_t key;    /* key of the last kernel, the product */
    char moves[256]; /* moves of the last kernel */
} result;

static float uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (float)((double)(*state >> 33) / (double)(1U << 31) * 2 - 1);
}

static void fill_uniform(int input, size_t n, float *out)
{
    uint64_t seed = 11 + (uint64_t)input;
    for (size_t i = 0; i < n; i++)
        out[i] = uniform(&seed);
}

static void fill_sizes(int input, size_t n, float *out)
{
    fill_uniform(input, n, out);
    for (size_t i = 0; i < n; i++)
        out[i] = fabsf(out[i]);
}

static void compute(bl_device *dev, const char *text, const bl_plan_options *how, void (*fill)(int, size_t, float *), result *out)
{
    bench b = {.dev = dev, .pool = bl_pool_create(dev, 1 << 20), .plans = bl_plans_create(4, SIZE_MAX)};
    document d = open_document(text);
    bl_plan_options options = *how;
    bl_plan *plan = NULL;
    bl_kernel_use use[8];
    bl_err err = {0};
    bool hit = false;
    int n = 0;
    job j;

    options.spec = 2;
    options.max_compile_bytes = 1 << 26;
    if (bl_plans_get(b.plans, &d.key, d.graph, dev, &options, &plan, &hit, &err) != BL_OK)
        fail_msg("%s", err.text);
    n = bl_plan_list_kernels(plan, 8, use);
    assert_in_range(n, 1, 8);
    out->split = strstr(use[n - 1].moves, "bfloat16x3") != NULL;
    out->key = use[n - 1].key;
    snprintf(out->moves, sizeof out->moves, "%s", use[n - 1].moves);
    j = (job){.b = &b, .plan = plan, .info = bl_plan_get_info(plan)};
    for (int i = 0; i < j.info->ninputs; i++) {
        size_t bytes = bytes_of(&j.info->inputs[i], j.vars);
        float *data = malloc(bytes);
        fill(i, bytes / sizeof *data, data);
        if (bl_pool_alloc(b.pool, bytes, &j.inputs[i], NULL) != BL_OK ||
            bl_buffer_write(j.inputs[i], 0, data, bytes, NULL) != BL_OK)
            fail_msg("no buffer");
        free(data);
    }
    j.run = (bl_run){
        .plan = plan, .pool = b.pool, .vars = j.vars, .inputs = j.inputs, .states = j.states, .outputs = j.outputs, .steps = 1};
    if (bl_plan_run(&j.run, &err) != BL_OK)
        fail_msg("%s", err.text);
    out->count = bytes_of(&j.info->outputs[0], j.vars) / sizeof out->at[0];
    assert_true(out->count <= MOST_ELEMENTS);
    assert_int_equal(bl_buffer_read(j.outputs[0], 0, out->at, out->count * sizeof out->at[0], NULL), BL_OK);
    close_job(&j);
    bl_plans_destroy(b.plans);
    bl_pool_destroy(b.pool);
    bl_arena_destroy(d.arena);
}

/* ---- all units */

/* Gives the interpreter a matrix unit; NULL removes all. */
static void describe(bl_device *interp, const bl_matrix_unit *unit)
{
    interp->info.nmatrix = unit != NULL;
    interp->info.subgroup = unit != NULL ? unit->scope : 1;
    interp->info.max_local = unit != NULL && unit->scope > 1 ? 64 : 1;
    if (unit != NULL)
        interp->info.matrix[0] = *unit;
    interp->info.fragments = unit != NULL && unit->kind == BL_UNIT_AMX ? 8 : 0;
}

static bl_device *interpreter(void)
{
    for (uint32_t i = 0; i < ndevices; i++) {
        if (devices[i]->info.dialect == BL_DIALECT_LINEAR)
            return devices[i];
    }
    fail_msg("no interpreter");
    return NULL;
}

static const bl_plan_options exact = {.noopt = true}, split = {.matrix = BL_MATRIX_ALWAYS, .precision = BL_PRECISION_HIGH};

static bool has_unit(const bl_device *dev)
{
    for (uint32_t i = 0; i < dev->info.nmatrix; i++) {
        if (dev->info.matrix[i].dtype == BL_UNIT_BF16)
            return true;
    }
    return false;
}

/* Runs |check| on the interpreter with each unit, and on each device with a bfloat16 unit. */
static void on_each_unit(void (*check)(bl_device *dev, const char *unit))
{
    bl_device *interp = interpreter();
    bl_device_info own = interp->info;

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        describe(interp, &units[i].unit);
        check(interp, units[i].name);
        interp->info = own;
    }
    for (uint32_t i = 0; i < ndevices; i++) {
        if (devices[i] != interp && has_unit(devices[i]))
            check(devices[i], "its own unit");
    }
}

static void check_errors(bl_device *dev, const char *unit)
{
    static result got, want, sizes;

    for (int g = 0; g < NGRAPHS; g++) {
        double worst = 0, squares = 0, all = 0;
        compute(dev, graphs[g].document, &split, fill_uniform, &got);
        compute(interpreter(), graphs[g].document, &exact, fill_uniform, &want);
        compute(interpreter(), graphs[g].document, &exact, fill_sizes, &sizes);
        if (!got.split)
            fail_msg("%s on %s: \"%s\"", graphs[g].name, unit, got.moves);
        assert_int_equal(got.count, want.count);
        for (size_t i = 0; i < got.count; i++) {
            double off = fabs((double)got.at[i] - (double)want.at[i]);
            worst = fmax(worst, off / (double)sizes.at[i]);
            squares += off * off;
            all += (double)want.at[i] * (double)want.at[i];
            if (!(off <= most_error * (double)sizes.at[i]))
                fail_msg("%s on %s, %s: element %zu is %.9g, not %.9g, where the sizes sum to %.9g", graphs[g].name, dev->info.id,
                         unit, i, (double)got.at[i], (double)want.at[i], (double)sizes.at[i]);
        }
        print_message("%s on %s, %s: %.2g of the result, at most %.2g of the sizes\n", graphs[g].name, dev->info.id, unit,
                      sqrt(squares / all), worst);
    }
}

static void test_errors(void **state)
{
    (void)state;
    on_each_unit(check_errors);
}

/* ---- special values */

enum { SIDE = 32, DEPTH = 64 };
static const char specials[] =
    "{'inputs': {'x': {'dtype': 'float32', 'shape': [32, 64]}, 'w': {'dtype': 'float32', 'shape': [64, "
    "32]}}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}";

/* Row i of x and column j of w each have one special number, at the same position if i and j are equal modulo 2.  The other
 * numbers have zero low halves, or low halves of either sign. */
static void fill_special(int input, size_t n, float *out)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0.0F, -0.0F, 3.4e38F, 1e-30F, 1.0F + 0x1p-12F};
    static const float plain[] = {0.25F, -0.125F, 0.1F, -0.2F, 0.0F, 0.0301F, -0.25F};

    for (size_t i = 0; i < n; i++)
        out[i] = plain[(i * 5 + i / 11) % 7];
    for (size_t i = 0; i < SIDE; i++) {
        size_t at = i % 2 == 0 ? 3 : 40;
        float value = odd[(i / 2) % (sizeof odd / sizeof odd[0])];
        if (input == 1 && fabsf(value) > 1e38F && !isinf(value))
            value = 0.3F; /* the next test covers the square of the largest number */
        out[input == 0 ? i * DEPTH + at : at * SIDE + i] = value;
    }
    for (size_t i = 0; i < SIDE; i++) /* an infinity meets numbers whose low halves exceed 1, with either sign */
        out[input == 0 ? i * DEPTH + 10 : 10 * SIDE + i] = input == 1 ? 1000.3F + (float)i * 3 : i % 8 == 7 ? INFINITY : 0.1F;
}

/* Sums that are not finite in float32 are equal; other sums are within the usual bound. */
static void check_specials(bl_device *dev, const char *unit)
{
    static result got, want;
    int infinite = 0, nan = 0;

    compute(dev, specials, &split, fill_special, &got);
    compute(interpreter(), specials, &exact, fill_special, &want);
    assert_true(got.split);
    for (size_t i = 0; i < got.count; i++) {
        float x = got.at[i], y = want.at[i];
        bool same = isnan(y) ? isnan(x) : isinf(y) ? x == y : fabsf(x - y) <= 2e-5F * fmaxf(fabsf(y), 1);
        if (!same)
            fail_msg("%s, %s: element %zu, %zu is %g, not %g", dev->info.id, unit, i / SIDE, i % SIDE, (double)x, (double)y);
        infinite += isinf(y) != 0;
        nan += isnan(y) != 0;
    }
    assert_true(infinite > 100 && nan > 50 && infinite + nan < 900);
}

static void test_specials(void **state)
{
    (void)state;
    on_each_unit(check_specials);
}

/* ---- use of the setting */

/* "highest" equals no setting on any device; so does "high" if nothing is split, including the kernels' keys. */
static void test_who(void **state)
{
    static const struct {
        const char *why;
        int unit; /* -1: none */
        bl_matrix_use use;
        bl_precision precision;
        bool split, own_key;
    } rows[] = {
        {"nobody asked", 0, BL_MATRIX_ALWAYS, BL_PRECISION_HIGHEST, false, false},
        {"no unit", -1, BL_MATRIX_ALWAYS, BL_PRECISION_HIGH, false, false},
        {"units are not to be used", 0, BL_MATRIX_NEVER, BL_PRECISION_HIGH, false, true},
        {"three products of twice the rate do not win", 1, BL_MATRIX_SURE, BL_PRECISION_HIGH, false, true},
        {"those of sixteen times the rate do", 0, BL_MATRIX_SURE, BL_PRECISION_HIGH, true, true},
        {"forced", 1, BL_MATRIX_ALWAYS, BL_PRECISION_HIGH, true, true},
    };
    static result plain, got;
    bl_device *interp = interpreter();
    bl_device_info own = interp->info;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_plan_options options = {.matrix = rows[i].use, .precision = rows[i].precision};
        describe(interp, rows[i].unit < 0 ? NULL : &units[rows[i].unit].unit);
        compute(interp, graphs[0].document, &options, fill_uniform, &got);
        options.precision = BL_PRECISION_HIGHEST;
        compute(interp, graphs[0].document, &options, fill_uniform, &plain);
        interp->info = own;
        if (got.split != rows[i].split || (got.key != plain.key) != rows[i].own_key)
            fail_msg("%s: \"%s\", key %llx beside %llx", rows[i].why, got.moves, (unsigned long long)got.key,
                     (unsigned long long)plain.key);
        if (!rows[i].split)
            assert_memory_equal(got.at, plain.at, got.count * sizeof got.at[0]);
        else
            assert_memory_not_equal(got.at, plain.at, got.count * sizeof got.at[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors), cmocka_unit_test(test_specials),
                                       cmocka_unit_test(test_who)};
    int failed = 0;

    ndevices = harness_open(MOST_DEVICES, devices);
    failed = cmocka_run_group_tests_name("float32 in three parts", tests, NULL, NULL);
    for (uint32_t i = 0; i < ndevices; i++)
        bl_device_destroy(devices[i]);
    return failed;
}
