/* Makes a plan from a program document on the interpreter, and a run with its tensors, for tests of plans. */
#ifndef BL_TESTS_JOBS_H
#define BL_TESTS_JOBS_H

#include "engine/plan/plan.h"

enum { MOST_TENSORS = 8 };

/* Counts in w and outputs the previous w; m and n alternate. */
extern const char job_counter[];
/* The same with index checks on reads of w. */
extern const char job_checked[];
/* A chain of products, which needs temporary buffers. */
extern const char job_products[];

typedef struct document {
    bl_arena *arena;
    const bl_wire_graph *graph;
    bl_wire_key key;
} document;

/* The objects of a test: the interpreter, a pool, a cache. */
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

/* Opens the first entry of the document |text|, which has ' in place of ".  Fails the test if the document is refused. */
document open_document(const char *text);
bench open_bench(size_t max_plans);
/* Fails the test if device memory is still in use. */
void close_bench(bench *b);
bl_status get_plan(bench *b, const document *d, bl_plan **plan, bool *hit, bl_err *err);
size_t bytes_of(const bl_plan_tensor *tensor, const int64_t *vars);
/* Returns a buffer in which all floats are |value|. */
bl_buffer *filled(bench *b, size_t bytes, float value);
/* Returns the first float. */
float value_of(bl_buffer *buffer);
/* Makes a job with ones as inputs and zeros as states.  Takes the reference to the plan. */
void open_job(bench *b, bl_plan *plan, int64_t var, job *j);
void drop_outputs(job *j);
void close_job(job *j);
void open_counter(bench *b, document *d, job *j);
/* Checks the states of job_counter after |steps| steps. */
void check_counter(const job *j, uint64_t steps);
/* Checks a state of 8 elements after |steps| steps, which update elements 3 and 4 in place by the number of the step. */
void check_part(bl_buffer *w, uint64_t steps);

#endif
