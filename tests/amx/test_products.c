/* SPDX-License-Identifier: MIT */
/* Products of the OpenCL back end with AMX instructions: the probe, the results, and the number of instructions of each
 * product.  A build with ASan also checks that tile loads stay within the buffers. */
#include "tests/amx/emulate.h"
#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16, MOST_ENTRIES = 64 };

static bl_device *devices[MOST_DEVICES], *opencl;
static amx_counts probing;
static harness_result results[MOST_ENTRIES];

static const bl_matrix_unit *find_unit(bl_unit_dtype dtype)
{
    for (uint32_t i = 0; i < opencl->info.nmatrix; i++) {
        if (opencl->info.matrix[i].kind == BL_UNIT_AMX && opencl->info.matrix[i].dtype == dtype)
            return &opencl->info.matrix[i];
    }
    return NULL;
}

/* Checks that each of |groups| work-groups configures and releases the tiles once. */
static void check_tiles(const char *name, const amx_counts *n, uint64_t groups)
{
    if (n->configured != groups || n->released != groups || n->configured_again != 0 || n->live != 0)
        fail_msg("%s: configured %llu times, %llu of them while tiles were in use, and released %llu times, by %llu groups; %llu "
                 "threads have tiles left",
                 name, (unsigned long long)n->configured, (unsigned long long)n->configured_again,
                 (unsigned long long)n->released, (unsigned long long)groups, (unsigned long long)n->live);
}

static void test_probe(void **state)
{
    (void)state;
    if (opencl == NULL)
        skip();
    assert_non_null(find_unit(BL_UNIT_BF16));
    assert_non_null(find_unit(BL_UNIT_I8));
    assert_non_null(find_unit(BL_UNIT_U8));
    if (!amx_is_emulated())
        return;
    check_tiles("the probe", &probing, 1);
    assert_int_equal(probing.multiplied_bf16, 1);
}

/* ---- results */

static void run(const char *text, const harness_options *options, int most)
{
    int n = harness_run(opencl, text, options, MOST_ENTRIES, results);

    if (n < 1 || n > most)
        fail_msg("%d entries: %s", n, n < 0 ? results[0].err.text : "");
    for (int i = 0; i < n; i++) {
        if (results[i].skipped)
            continue;
        if (results[i].err.status != BL_OK || results[i].worst > 1)
            fail_msg("%s: %s %s, %.3g times what is allowed: %s", results[i].name, bl_status_name(results[i].err.status),
                     results[i].err.text, results[i].worst, results[i].where);
    }
}

/* Cases of tests/cases: epilogues, batches, all transpositions of the operands. */
enum { NNAMES = 7, NCASES = NNAMES + 2 };
static void test_cases(void **state)
{
    static const char *const names[NNAMES] = {"product", "epilogue", "linear",     "transposed",
                                              "batched", "sum_kept", "two_outputs"};
    static const char *const dtypes[] = {"bfloat16", "int8", "uint8"};
    char *text = opencl == NULL ? NULL : harness_read("tests/cases/matrix_units.json");
    int multiplied = 0;

    (void)state;
    if (opencl == NULL)
        skip();
    assert_non_null(text);
    for (size_t i = 0; i < NCASES; i++) {
        char name[64];
        harness_options options = {.matrix = BL_MATRIX_SURE, .spec = 2, .seed = 11, .only = name};
        amx_counts n;

        snprintf(name, sizeof name, "%s_%s", names[i < NNAMES ? i : 0], dtypes[i < NNAMES ? 0 : i - NNAMES + 1]);
        amx_clear_counts();
        run(text, &options, MOST_ENTRIES);
        n = amx_get_counts();
        check_tiles(name, &n, n.configured);
        multiplied += n.multiplied_bf16 + n.multiplied_bytes > 0;
        print_message("%s: %llu products of tiles\n", name, (unsigned long long)(n.multiplied_bf16 + n.multiplied_bytes));
    }
    free(text);
    if (amx_is_emulated() && multiplied != NCASES)
        fail_msg("of %d entries %d were on tiles", NCASES, multiplied);
}

/* ---- numbers of instructions */

#define MATMUL(type, m, n, k, out)                                                                                               \
    "{\"inputs\": {\"x\": {\"dtype\": \"" type "\", \"shape\": [" #m ", " #k "]}, \"w\": {\"dtype\": \"" type                    \
    "\", \"shape\": [" #k ", " #n "]}}, \"nodes\": [{\"id\": \"a\", \"op\": \"cast\", \"in\": [\"x\"], \"attrs\": {\"dtype\": "  \
    "\"" out "\"}}, {\"id\": \"b\", \"op\": \"cast\", \"in\": [\"w\"], \"attrs\": {\"dtype\": \"" out "\"}}, {\"id\": \"y\", "   \
    "\"op\": \"matmul\", \"in\": [\"a\", \"b\"]}], \"outputs\": [\"y\"]}"

/* Products of 16 by 16 tiles; a work-group computes 2 by 2 tiles.  Each iteration loads four tiles for four products; each row
 * is a whole cache line. */
static const struct {
    const char *name, *document;
    bl_precision precision;
    uint64_t groups, loaded, multiplied;
} forms[] = {
    {"bfloat16", MATMUL("bfloat16", 256, 256, 128, "float32"), BL_PRECISION_HIGHEST, 64, 64 * 4 * 4, 64 * 4 * 4},
    {"int8", MATMUL("int8", 256, 256, 128, "int32"), BL_PRECISION_HIGHEST, 64, 64 * 2 * 4, 64 * 2 * 4},
    {"uint8", MATMUL("uint8", 256, 256, 128, "int32"), BL_PRECISION_HIGHEST, 64, 64 * 2 * 4, 64 * 2 * 4},
    {"a rest", MATMUL("bfloat16", 250, 240, 128, "float32"), BL_PRECISION_HIGHEST, 64, 64 * 4 * 4, 64 * 4 * 4},
    {"float32 in three parts", MATMUL("float32", 256, 256, 128, "float32"), BL_PRECISION_HIGH, 64, 64 * 4 * 8, 64 * 4 * 12},
};

static void test_forms(void **state)
{
    (void)state;
    if (opencl == NULL || !amx_is_emulated())
        skip();
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        harness_options options = {.matrix = BL_MATRIX_SURE,
                                   .precision = forms[i].precision,
                                   .spec = 2,
                                   .seed = 5,
                                   .no_compare = forms[i].precision != 0};
        amx_counts n;

        amx_clear_counts();
        run(forms[i].document, &options, 1);
        n = amx_get_counts();
        check_tiles(forms[i].name, &n, forms[i].groups);
        if (n.loaded != forms[i].loaded || n.multiplied_bf16 + n.multiplied_bytes != forms[i].multiplied || n.lines != n.rows)
            fail_msg("%s: %llu loads of %llu lines for %llu rows and %llu products, not %llu loads and %llu products",
                     forms[i].name, (unsigned long long)n.loaded, (unsigned long long)n.lines, (unsigned long long)n.rows,
                     (unsigned long long)(n.multiplied_bf16 + n.multiplied_bytes), (unsigned long long)forms[i].loaded,
                     (unsigned long long)forms[i].multiplied);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_probe), cmocka_unit_test(test_cases), cmocka_unit_test(test_forms)};
    uint32_t n = harness_open(MOST_DEVICES, devices);
    int failed = 0;

    for (uint32_t i = 0; i < n && opencl == NULL; i++)
        opencl = devices[i]->info.dialect == BL_DIALECT_OPENCL && devices[i]->info.type == BL_DEVICE_CPU ? devices[i] : NULL;
    probing = amx_get_counts();
    failed = cmocka_run_group_tests_name("products on AMX", tests, NULL, NULL);
    for (uint32_t i = 0; i < n; i++)
        bl_device_destroy(devices[i]);
    return failed;
}
