/* SPDX-License-Identifier: MIT */
/* The conformance suite: every entry of the documents in tests/cases on every device, with the heuristic's moves (including
 * matrix units) and without moves, against the interpreter's results for the unscheduled graph.  Drivers compile slowly, so for
 * some files they run only every n-th entry; BEAMLINE_TEST_ALL=1 runs all entries.  BEAMLINE_TEST_DEVICE=interp:0 tests one
 * device only. */
#include "tests/plan/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16, MOST_ENTRIES = 256, MOST_SEEDS = 3 };

/* |every|: a driver runs every n-th entry.  |seeds| also select the sizes of named dimensions. */
static const struct {
    const char *file;
    int every;
    int nseeds;
    uint64_t seeds[MOST_SEEDS];
} files[] = {
    {"elementwise", 1, 1, {7}},
    {"dtypes", 4, 1, {7}},
    {"movement", 3, 1, {7}},
    {"reductions", 4, 1, {7}},
    {"products", 4, 1, {7}},
    {"attention", 3, 1, {7}},
    {"gradients", 5, 1, {7}},
    {"windows", 4, 1, {7}},
    {"training", 3, 1, {7}},
    {"winograd", 3, 1, {7}},
    {"randomness", 3, 1, {7}},
    {"named", 2, MOST_SEEDS, {0, 16, 1000003}},
    {"stepped", 1, MOST_SEEDS, {0, 2, 1000003}},
    {"softmax", 1, 1, {7}},
    {"layer_norm", 1, 1, {7}},
    {"matmul", 1, 1, {7}},
    {"mlp_sgd", 1, 1, {7}},
    {"loops", 2, 1, {7}},
    {"matrix_units", 1, 1, {7}},
    {"regions", 1, MOST_SEEDS, {7, 8, 16}},
};
enum { NFILES = sizeof files / sizeof files[0] };

typedef struct pass {
    bl_device *dev;
    int file;
    int checked, failed;
} pass;

static bl_device *devices[MOST_DEVICES];
static harness_result results[MOST_ENTRIES];

static void check(pass *p, const harness_result *r, const harness_options *options)
{
    const char *file = files[p->file].file, *how = options->noopt ? "without moves" : "with moves";

    if (r->skipped)
        return;
    p->checked++;
    if (r->err.status != BL_OK)
        print_error("%s %s/%s %s, seed %llu: %s: %s\n", p->dev->info.id, file, r->name, how, (unsigned long long)options->seed,
                    bl_status_name(r->err.status), r->err.text);
    else if (r->worst > 1)
        print_error("%s %s/%s %s, seed %llu: %s (%.3g times what is allowed)\n", p->dev->info.id, file, r->name, how,
                    (unsigned long long)options->seed, r->where, r->worst);
    else
        return;
    p->failed++;
}

static void test_file(void **state)
{
    pass *p = *state;
    char path[128];
    char *text = NULL;
    bool driver = p->dev->info.dialect != BL_DIALECT_LINEAR && getenv("BEAMLINE_TEST_ALL") == NULL;

    snprintf(path, sizeof path, "tests/cases/%s.json", files[p->file].file);
    text = harness_read(path);
    if (text == NULL)
        fail_msg("cannot read %s; the suite runs in the root of the sources", path);
    for (int k = 0; k < files[p->file].nseeds * 2; k++) {
        harness_options options = {.noopt = k % 2 == 1,
                                   .matrix = BL_MATRIX_ALWAYS,
                                   .winograd =
                                       strcmp(files[p->file].file, "winograd") == 0 ? BL_WINOGRAD_ALWAYS : BL_WINOGRAD_NEVER,
                                   .spec = 2,
                                   .seed = files[p->file].seeds[k / 2],
                                   .every = driver ? files[p->file].every : 1};
        int n = harness_run(p->dev, text, &options, MOST_ENTRIES, results);
        if (n < 0)
            fail_msg("%s: %s", path, results[0].err.text);
        for (int i = 0; i < n; i++)
            check(p, &results[i], &options);
    }
    free(text);
    if (p->failed != 0 || p->checked == 0)
        fail_msg("%s %s: %d of %d runs failed", p->dev->info.id, path, p->failed, p->checked);
}

int main(void)
{
    static struct CMUnitTest tests[MOST_DEVICES * NFILES];
    static pass passes[MOST_DEVICES * NFILES];
    static char names[MOST_DEVICES * NFILES][64];
    uint32_t ndevices = harness_open(MOST_DEVICES, devices);
    const char *only = getenv("BEAMLINE_TEST_DEVICE");
    size_t n = 0;
    int failed = 0;

    for (uint32_t d = 0; d < ndevices; d++) {
        for (int f = 0; f < NFILES; f++) {
            if (only != NULL && strcmp(only, devices[d]->info.id) != 0)
                continue;
            passes[n] = (pass){.dev = devices[d], .file = f};
            snprintf(names[n], sizeof names[n], "%s %s", devices[d]->info.id, files[f].file);
            tests[n] = (struct CMUnitTest){.name = names[n], .test_func = test_file, .initial_state = &passes[n]};
            n++;
        }
    }
    if (n == 0)
        print_error("no device to test\n");
    /* cmocka's macro needs an array of known size; this is its expansion */
    failed = _cmocka_run_group_tests("conformance", tests, n, NULL, NULL);
    for (uint32_t d = 0; d < ndevices; d++)
        bl_device_destroy(devices[d]);
    return failed != 0 || n == 0;
}
