/* Compiles a program document for a device, runs it once, and compares with the interpreter's results for the same graph.
 * Inputs and states have numbers that depend only on a seed. */
#ifndef BL_TESTS_HARNESS_H
#define BL_TESTS_HARNESS_H

#include "engine/plan/plan.h"

typedef struct harness_result {
    char name[64];   /* name of the entry */
    bool skipped;    /* skipped due to |every| or |only| */
    bl_err err;      /* status BL_OK: the entry ran */
    double worst;    /* largest difference relative to the allowed difference; correct up to 1 */
    char where[160]; /* output, element and both values of the largest difference */
    uint32_t kernels, helpers;
    double engine_ms, compile_ms, run_us;
    size_t peak_bytes, keep_bytes;
} harness_result;

typedef struct harness_options {
    bool noopt;
    bl_matrix_use matrix;
    bl_winograd_use winograd; /* the reference never uses the transforms */
    bl_precision precision;
    int debug, spec;
    uint64_t seed;
    int repeat;      /* number of timed runs, of which the fastest counts; 0: one */
    bool no_compare; /* run without comparison */
    bool compile_only;
    bool show;             /* print the plan's debug text */
    int every;             /* only entries 0, every, 2 * every ...; 0: all */
    const char *only;      /* only the entry of this name; NULL: all */
    const bl_tuner *tuner; /* see bl_plan_options */
    int beam;
    void (*progress)(void *arg, const bl_search_report *report);
} harness_options;

/* Opens all devices of all back ends, at most |max|. */
uint32_t harness_open(uint32_t max, bl_device **out);
/* Runs each entry of the document |text|; out[i] is the result of entry |i|.  Returns the number of entries, or -1 if the
 * document is refused (out[0].err has the reason). */
int harness_run(bl_device *dev, const char *text, const harness_options *options, int max, harness_result *out);
/* Reads a whole file, which the caller frees.  NULL if the file cannot be read. */
char *harness_read(const char *path);

#endif
