/* Runs a nest of a graph on a device with given moves, and compares its results with those of the first run. */
#ifndef BL_TESTS_OPT_BENCH_H
#define BL_TESTS_OPT_BENCH_H

#include "engine/device/device.h"
#include "engine/opt/move.h"
#include "tests/plan/graphs.h"

enum { BENCH_PARAMS = BL_MAX_BINDINGS, BENCH_VARS = 4 };

typedef struct bench {
    const char *name;
    bl_device *dev;
    const test_graph *graph;
    const bl_schedule *schedule;
    const bl_nest *nest;
    bool split; /* the nest allows split float32 products, and its numbers need them */
    int64_t vars[BENCH_VARS];
    int64_t count[BENCH_PARAMS];
    bl_dtype dtype[BENCH_PARAMS];
    bl_buffer *buffers[BENCH_PARAMS];
    void *given[BENCH_PARAMS];  /* contents of the parameters before a run */
    void *wanted[BENCH_PARAMS]; /* results of the nest without moves, for the parameters that it writes */
} bench;

uint64_t bench_random(uint64_t *state); /* 31 bits */
bl_device *bench_interp(void);          /* the interpreter; fails the test if missing */
/* Allocates and fills memory for the parameters of |b->nest|. */
void bench_open(bench *b);
void bench_close(bench *b);
/* Runs the nest with |tune|, and its helpers, over refilled parameters. */
bl_status bench_run(bench *b, const bl_tune *tune, bl_err *err);
/* Compares the results with those without moves; the first call stores the results.  Fails the test if they differ. */
void bench_compare(bench *b, const char *moves);

/* Runs the last nest of |b|'s schedule with |moves| and without, and compares.  |refused|: the last move must be refused
 * without effect, for this reason; NULL: no move is refused. */
void bench_row(bench *b, const char *moves, const char *refused);

#endif
