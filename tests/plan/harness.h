/* A program document, compiled for a device and run once, compared with the interpreter's answer to the same graph.
 * Inputs and state are filled with numbers that depend only on a seed. */
#ifndef BL_TESTS_HARNESS_H
#define BL_TESTS_HARNESS_H

#include "engine/plan/plan.h"

typedef struct harness_result {
    char name[64];   /* of the entry */
    bool skipped;    /* by |every| or |only| */
    bl_err err;      /* status BL_OK: it ran */
    double worst;    /* largest difference over what is allowed; 1 or less is right */
    char where[160]; /* of that: output, element, both values */
    uint32_t kernels, helpers;
    double engine_ms, compile_ms, run_us;
    size_t peak_bytes, keep_bytes;
} harness_result;

typedef struct harness_options {
    bool noopt;
    bl_matrix_use matrix;
    bl_winograd_use winograd; /* the reference never takes the transforms */
    bl_precision precision;
    int debug, spec;
    uint64_t seed;
    int repeat;      /* timed runs, the best counts; 0: one */
    bool no_compare; /* only run */
    bool compile_only;
    bool show;             /* print the plan's debug text */
    int every;             /* only entries 0, every, 2 * every ...; 0: all */
    const char *only;      /* only the entry of this name; NULL: all */
    const bl_tuner *tuner; /* as bl_plan_options */
    int beam;
    void (*progress)(void *arg, const bl_search_report *report);
} harness_options;

/* Every device of every back end, at most |max|. */
uint32_t harness_open(uint32_t max, bl_device **out);
/* Each entry of the document in |text|; the results of entry |i| go to out[i].  Returns how many entries there are, or -1 where
 * the document itself is refused (out[0].err says why). */
int harness_run(bl_device *dev, const char *text, const harness_options *options, int max, harness_result *out);
/* Read a whole file; freed by the caller.  NULL if it cannot be read. */
char *harness_read(const char *path);

#endif
