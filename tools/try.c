/* SPDX-License-Identifier: MIT */
/* Compiles a program document for a device, compares one run with the interpreter, and prints the plan; for developers of the
 * compiler.
 *
 *   try DEVICE FILE [debug] [noopt] [matrix] [winograd] [high] [fast] [only ENTRY] [compile] [repeat N] [beam N] [seconds S]
 *
 * |compile| only compiles.  |repeat| runs the plan N more times and prints the least time of each kernel.  |beam| searches
 * kernels in this process.  The devices of tests/render/described.c, such as as:h100, need no hardware: |compile| prints the
 * kernels for them. */
#include "tests/plan/harness.h"
#include "tests/render/described.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bl_status time_here(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    (void)arg;
    return bl_trials_run(dev, trials, err);
}

static void show(void *arg, const bl_search_report *report)
{
    bl_text moves = {0};
    (void)arg;
    bl_moves_print(report->nmoves, report->moves, &moves);
    printf("search %s: %d tried, %d refused, %.1f s, %.3f us, best %.3f us: %s\n", report->name, report->tried, report->refused,
           report->seconds, (double)report->heuristic_ns / 1e3, (double)report->best_ns / 1e3, bl_text_get(&moves));
    bl_text_fini(&moves);
}

static void print_usage(void)
{
    fprintf(stderr,
            "try DEVICE FILE [debug] [noopt] [matrix] [winograd] [high] [fast] [only ENTRY] [compile] [repeat N] [beam N] "
            "[seconds S]\nwith compile, DEVICE may be one that is described:");
    for (int i = 0; described_id(i) != NULL; i++)
        fprintf(stderr, " %s", described_id(i));
    fprintf(stderr, "\ncompiled by " __VERSION__ "\n");
}

int main(int argc, char **argv)
{
    bl_device *devices[16];
    static harness_result results[256];
    bl_tuner tuner = {.time = time_here, .seconds = 8};
    harness_options options = {.seed = 7, .spec = 2, .show = true, .tuner = &tuner, .progress = show};
    uint32_t ndevices = 0;
    char *text = argc > 2 ? harness_read(argv[2]) : NULL;
    int failed = 0;

    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "noopt") == 0)
            options.noopt = true;
        else if (strcmp(argv[i], "matrix") == 0)
            options.matrix = BL_MATRIX_ALWAYS;
        else if (strcmp(argv[i], "winograd") == 0)
            options.winograd = BL_WINOGRAD_ALWAYS;
        else if (strcmp(argv[i], "high") == 0)
            options.precision = BL_PRECISION_HIGH;
        else if (strcmp(argv[i], "fast") == 0)
            options.no_compare = true;
        else if (strcmp(argv[i], "only") == 0 && i + 1 < argc)
            options.only = argv[++i];
        else if (strcmp(argv[i], "compile") == 0)
            options.compile_only = true;
        else if (strcmp(argv[i], "repeat") == 0 && i + 1 < argc)
            options.repeat = atoi(argv[++i]);
        else if (strcmp(argv[i], "beam") == 0 && i + 1 < argc)
            options.beam = atoi(argv[++i]);
        else if (strcmp(argv[i], "seconds") == 0 && i + 1 < argc)
            tuner.seconds = atof(argv[++i]);
        else
            options.debug = atoi(argv[i]);
    }
    if (text == NULL) {
        print_usage();
        return 2;
    }
    devices[0] = described_open(argv[1]);
    ndevices = devices[0] != NULL ? 1 : harness_open(16, devices);
    if (devices[0] != NULL && ndevices == 1 && options.matrix == BL_MATRIX_NEVER)
        options.matrix = BL_MATRIX_SURE; /* the server has the same setting */
    for (uint32_t d = 0; d < ndevices; d++) {
        if (strcmp(devices[d]->info.id, argv[1]) == 0) {
            int n = harness_run(devices[d], text, &options, 256, results);
            for (int i = 0; i < (n < 0 ? 1 : n); i++) {
                const harness_result *r = &results[i];
                if (r->skipped)
                    continue;
                printf("entry %s: status %s %s (%s) kernels %u helpers %u engine %.2f ms compile %.2f ms peak %zu run %.1f us "
                       "worst %.3g %s\n",
                       r->name, bl_status_name(r->err.status), r->err.text, r->err.node, r->kernels, r->helpers, r->engine_ms,
                       r->compile_ms, r->peak_bytes, r->run_us, r->worst, r->where);
                failed += r->err.status != BL_OK || r->worst > 1;
            }
        }
        bl_device_destroy(devices[d]);
    }
    free(text);
    return failed != 0;
}
