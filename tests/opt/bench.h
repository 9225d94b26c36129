/* A nest of a graph with memory behind its parameters: it is run on a device as moves have made it, and what it leaves compared
 * with what it left the first time. */
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
    bool split; /* its nest allows halves of bfloat16, and its numbers need them */
    int64_t vars[BENCH_VARS];
    int64_t count[BENCH_PARAMS];
    bl_dtype dtype[BENCH_PARAMS];
    bl_buffer *buffers[BENCH_PARAMS];
    void *given[BENCH_PARAMS];  /* what the parameters hold before a run */
    void *wanted[BENCH_PARAMS]; /* what the nest without moves leaves in those it writes */
} bench;

uint64_t bench_random(uint64_t *state); /* 31 bits */
bl_device *bench_interp(void);          /* the interpreter; fails the test where there is none */
/* Memory for the parameters of |b->nest|, with numbers in it. */
void bench_open(bench *b);
void bench_close(bench *b);
/* The nest as |tune| has it, and the helpers before it, over fresh parameters. */
bl_status bench_run(bench *b, const bl_tune *tune, bl_err *err);
/* What the nest left, beside what it left without moves (or, the first time, kept as that).  Fails the test where they differ. */
void bench_compare(bench *b, const char *moves);

/* The last nest of |b|'s schedule, as |moves| have it, beside itself without them.  |refused| says why the last move is, which
 * then changes nothing; NULL: none is. */
void bench_row(bench *b, const char *moves, const char *refused);

#endif
