/* A plan from a program document on the interpreter, and a run of it with its tensors: for tests of plans. */
#ifndef BL_TESTS_JOBS_H
#define BL_TESTS_JOBS_H

#include "engine/plan/plan.h"

enum { MOST_TENSORS = 8 };

/* Counts in w, and says what w was before; m takes turns with n. */
extern const char job_counter[];
/* The same with a check of the indices by which it reads w. */
extern const char job_checked[];
/* A chain of products, which needs temporaries. */
extern const char job_products[];

typedef struct document {
    bl_arena *arena;
    const bl_wire_graph *graph;
    bl_wire_key key;
} document;

/* What the tests have open: the interpreter, a pool, a cache. */
typedef struct bench {
    bl_device *dev;
    bl_pool *pool;
    bl_plans *plans;
} bench;

/* A run with its tensors. */
typedef struct job {
    bench *b;
    bl_plan *plan;
    const bl_plan_info *info;
    int64_t vars[4];
    bl_buffer *inputs[MOST_TENSORS], *states[MOST_TENSORS], *outputs[MOST_TENSORS];
    bl_run run;
} job;

/* The first entry of the document in |text|, which has ' for ".  Fails the test where it is refused. */
document open_document(const char *text);
bench open_bench(size_t max_plans);
/* Fails the test where memory of the device is still used. */
void close_bench(bench *b);
bl_status get_plan(bench *b, const document *d, bl_plan **plan, bool *hit, bl_err *err);
size_t bytes_of(const bl_plan_tensor *tensor, const int64_t *vars);
/* All of its floats are |value|. */
bl_buffer *filled(bench *b, size_t bytes, float value);
/* The first float. */
float value_of(bl_buffer *buffer);
/* Inputs are ones, states zeros.  Takes the reference to the plan. */
void open_job(bench *b, bl_plan *plan, int64_t var, job *j);
void drop_outputs(job *j);
void close_job(job *j);
void open_counter(bench *b, document *d, job *j);
/* The states of job_counter after so many steps; fails the test where they are others. */
void check_counter(const job *j, uint64_t steps);
/* Of a state of 8, of which the steps write elements 3 and 4 where it is: their number; likewise. */
void check_part(bl_buffer *w, uint64_t steps);

#endif
