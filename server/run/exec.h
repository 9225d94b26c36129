/* SPDX-License-Identifier: MIT */
/* The execution of one request by the engine: input tensors in device memory, the plan, the runs, the results.  A bl_exec lives
 * in the request's arena, and the request's defer list ends it.  The HTTP thread owns it until it is submitted.  Then one queue
 * after the other owns it: the queue of a device from which a tensor is fetched, the compile queue, the queue of the device that
 * runs the plan. */
#ifndef BL_SERVER_RUN_EXEC_H
#define BL_SERVER_RUN_EXEC_H

#include "proto/decode.h"
#include "server/programs/programs.h"
#include "server/run/explain_json.h"
#include "server/store/device_tensor.h"

/* A held tensor that the document names, retained from decoding until use. */
typedef struct bl_bound {
    struct bl_bound *next;
    const char *name;
    bl_device_tensor *held;
    bool foreign; /* shared by another owner */
} bl_bound;

/* A copy between two devices whose memory is not visible to the host. */
typedef struct bl_fetch {
    struct bl_fetch *next;
    bl_device_tensor *from, *to;
} bl_fetch;

/* A view of one result: the whole, or the rows of one request that shares the run. */
typedef struct bl_part {
    const char *data;
    int ndim;
    int64_t dim[BL_DEVICE_TENSOR_DIMS];
    size_t count;
} bl_part;

/* How plans are made from now on. */
typedef struct bl_exec_how {
    int debug, beam;
    bl_precision precision;
    bool early;            /* the plans may have interpreted kernels */
    bl_plan_brief brief;   /* for the plans */
    bl_plan_sources along; /* kernels to compile together with the kernels of the next plan */
} bl_exec_how;

/* The inputs, from decoding to the last step. */
typedef struct bl_exec_in {
    int n;
    bl_tensor_value *values;
    bl_device_tensor **tensors;
    bl_bound *bound;
    bl_fetch *fetches;
    bl_buffer **buffers; /* of the tensors, retained during the run */
} bl_exec_in;

/* The states that the run reads or changes. */
typedef struct bl_exec_hold {
    bl_program *program;                 /* NULL: a run, which has its own state */
    bl_program *lender;                  /* of a run: the program whose states it reads and does not change; or NULL */
    const bl_program_entry_state *entry; /* of |program| or |lender| */
    bl_buffer *const *lent;              /* state buffers that another object keeps, as many as the plan has; NULL: none */
    bl_buffer **states;
} bl_exec_hold;

/* The results, from the last step to the answer. */
typedef struct bl_exec_out {
    bl_buffer **buffers; /* of the current slice */
    bl_device_tensor **tensors;
    char **copies;        /* of the results that are not visible to the host */
    const bl_part *parts; /* in place of |tensors| and |copies|, for a request that shares the run of another request; or NULL */
    const char **kept; /* for each output, the name under which it is held, or NULL if it is sent; NULL: all outputs are sent */
} bl_exec_out;

/* Outputs that are collected at each |every|th step. */
typedef struct bl_exec_series {
    uint64_t every; /* 0: none */
    int n;
    int *outputs;
    char **data;
    uint64_t count; /* steps collected so far */
} bl_exec_series;

typedef struct bl_exec bl_exec;
struct bl_exec {
    bl_request *rq;
    bl_worker *worker;
    unsigned generation; /* of the device when the plan was looked up */
    bl_run_options options;
    bl_exec_how how;
    bl_exec_in in;
    bl_exec_hold hold;
    bl_exec_out out;
    bl_exec_series series;

    bl_status (*compile)(bl_exec *x, bl_err *err); /* on a compile thread; NULL: nothing is left to compile */
    bl_work work;                                  /* on the device's thread */
    bl_serial *serial;

    const bl_wire_graph *graph;
    bl_wire_key key;
    bl_plan *plan;
    bool hit;
    int64_t *vars;

    bool begun, flies;
    bl_explained *explained;    /* or NULL: the request does not ask for an explanation of its kernels */
    bool dry;                   /* nothing runs: rq->then reports the estimated cost */
    bool unlisted;              /* the code that answers checks how many elements are printed as JSON */
    uint64_t steps, done, pace; /* pace: steps per slice, chosen so that a slice takes its time limit and no more */
    uint64_t *launch_ns;
    bl_text report;
    void *extra; /* the handler's */
};

/* Create the execution; decode the request with bl_exec_env.  The environment retains the held tensors that it resolves in
 * |x|. */
BL_NODISCARD bl_status bl_exec_create(bl_request *rq, bl_exec **out);
/* The type of an initialiser: the front end builds its one node and reports the type. */
BL_NODISCARD bl_status bl_exec_infer(const bl_wire_graph *wire, size_t max_bytes, bl_wire_type *type, bl_err *err);
bl_decode_env bl_exec_env(bl_exec *x, bl_arena *arena, const bl_tensor_file *file);
/* Read the document of the request's body, JSON or safetensors.  |optional|: a file without a document stands for {}.  Call
 * bl_json_fini after a failure too. */
BL_NODISCARD bl_status bl_exec_document(bl_exec *x, bl_arena *arena, bool optional, bl_json_doc *doc, bl_tensor_file *file);
/* Call after decoding: the options choose device, debug level and deadline. */
BL_NODISCARD bl_status bl_exec_choose(bl_exec *x, const bl_run_options *options, bl_worker *worker);
/* Bring values[0..n) into memory of the device.  |copy|: held tensors are copied even if they are on the device, and all of the
 * tensors are kept for long. */
BL_NODISCARD bl_status bl_exec_load(bl_exec *x, int n, bl_tensor_value *values, bool copy);
/* bl_exec_make_plan gives a plan for |graph| on the chosen device: from the plan cache, or (compile threads only) compiled.  A
 * failure without text in |err| belongs to a client that got its answer meanwhile: touch nothing of its request but what the
 * request owns. */
BL_NODISCARD bl_status bl_exec_key(bl_exec *x, const bl_wire_graph *graph, bool program, bl_wire_key *key);
BL_NODISCARD bl_status bl_exec_make_plan(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program,
                                         bl_plan **out, bool *hit, bl_err *err);
/* Add the kernels of |graph| to x->how.along, unless the plan cache has the plan.  Thread: compile threads only. */
BL_NODISCARD bl_status bl_exec_gather(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program, bl_err *err);
/* Check the sizes and the estimated time of one run with x->vars against the limits. */
BL_NODISCARD bl_status bl_exec_admit(bl_exec *x, bl_err *err);
static inline bool bl_exec_keeps(const bl_exec *x, int i)
{
    return x->out.kept != NULL && i < bl_wire_shown(x->graph) && x->out.kept[i] != NULL;
}
/* Check that results may be held under the names in x->out.kept: none of the names may be the name of a share. */
BL_NODISCARD bl_status bl_exec_check_kept(const bl_exec *x);
/* Submit the request to its next queue.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_exec_advance(bl_exec *x);
/* The x->work of a run: all steps of x->plan, in slices.  One short run is submitted to the device first (BL_STEP_FLIES) and
 * completed by a second call. */
bl_step bl_exec_run(bl_request *rq);
/* The rq->then of a run. */
BL_NODISCARD bl_status bl_exec_reply(bl_request *rq);
/* Fill |parts| with views of the rows [from, from + rows) of the results, which have |all| rows; |all| 0: with the whole results.
 * The data stay in the buffers of |x|. */
void bl_exec_take(const bl_exec *x, int64_t all, int64_t from, int64_t rows, bl_part *parts);

/* The number of the |left| steps to run now; |done| steps are over.  The number is at most |pace|.  It is a multiple of |every|,
 * with *periods true so that bl_plan_run reports after each period, or it reaches at most the end of the current period. */
uint64_t bl_pace_choose(uint64_t done, uint64_t left, uint64_t pace, uint64_t every, bool *periods);
/* The pace with which steps fill |slice_ns|, given that |did| steps took |took_ns|.  The pace grows gradually. */
uint64_t bl_pace_learn(uint64_t did, int64_t took_ns, int64_t slice_ns);

/* Write the initial contents of a hidden state.  Thread: the worker's. */
BL_NODISCARD bl_status bl_state_begin(bl_worker *worker, const bl_plan_tensor *hidden, const int64_t *dim, uint64_t seed,
                                      bl_buffer **out, size_t *bytes, bl_err *err);

/* Write the member plan_detail of an answer, if the request asked for it. */
void bl_exec_put_explained(const bl_exec *x, bl_text *out);

/* ---- dry_run.c */
/* The rq->then of a dry run. */
BL_NODISCARD bl_status bl_exec_reply_cost(bl_request *rq);
/* Answer a dry run from the plan, or compile the plan first. */
BL_NODISCARD bl_status bl_exec_dry_run(bl_exec *x);

#endif
