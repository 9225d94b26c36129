/* SPDX-License-Identifier: MIT */
/* The execution of one request by the engine: input tensors in device memory, the plan, the runs, the results.  A bl_exec lives
 * in the arena of the request, and the defer list of the request ends it.  The HTTP thread owns the bl_exec until it is
 * submitted.  Then these queues own it in turn: the queue of each device from which a tensor is copied, the compile queue, and
 * the queue of the device that runs the plan. */
#ifndef BL_SERVER_RUN_EXEC_H
#define BL_SERVER_RUN_EXEC_H

#include "proto/decode.h"
#include "server/programs/programs.h"
#include "server/run/explain_json.h"
#include "server/store/device_tensor.h"

/* A tensor of the registry that the document names, retained from decoding until use. */
typedef struct bl_bound {
    struct bl_bound *next;
    const char *name;
    bl_device_tensor *held;
    bool foreign; /* the tensor belongs to another owner and is shared with the key */
} bl_bound;

/* A copy between two devices whose memory is not visible to the host. */
typedef struct bl_fetch {
    struct bl_fetch *next;
    bl_device_tensor *from, *to;
} bl_fetch;

/* A view of one result: the whole result, or the rows of one request of a batch. */
typedef struct bl_part {
    const char *data;
    int ndim;
    int64_t dim[BL_DEVICE_TENSOR_DIMS];
    size_t count;
} bl_part;

/* The options for the next plans. */
typedef struct bl_exec_how {
    int debug, beam;
    bl_precision precision;
    bool early;            /* the plans may contain interpreted kernels, so that the first run need not wait for the compiler */
    bl_plan_sources along; /* kernels to compile in one pass with the kernels of the next plan */
} bl_exec_how;

/* The inputs, from decoding to the last step. */
typedef struct bl_exec_in {
    int n;
    bl_tensor_value *values;
    bl_device_tensor **tensors;
    bl_bound *bound;
    bl_fetch *fetches;
    bl_buffer **buffers; /* buffers of |tensors|, retained during the run */
} bl_exec_in;

/* The states that the run reads or changes. */
typedef struct bl_exec_hold {
    bl_program *program;                 /* NULL: a run without a program, which has its own states */
    bl_program *lender;                  /* for a run: the program whose states the run reads and does not change; or NULL */
    const bl_program_entry_state *entry; /* entry of |program| or |lender| */
    bl_buffer *const *lent;              /* state buffers that another object owns, one for each state of the plan; NULL:
                                          * there are none */
    bl_buffer **states;
} bl_exec_hold;

/* The results, from the last step to the answer. */
typedef struct bl_exec_out {
    bl_buffer **buffers; /* results of the current slice */
    bl_device_tensor **tensors;
    char **copies;        /* host copies of the results that are not visible to the host */
    const bl_part *parts; /* replaces |tensors| and |copies| for a request that takes part in the batch of another request;
                           * or NULL */
    const char **kept;    /* for each output: the name under which the registry retains it, or NULL if it is sent.  NULL: all
                           * outputs are sent */
} bl_exec_out;

/* Outputs that the run collects at every |every|th step. */
typedef struct bl_exec_series {
    uint64_t every; /* 0: none */
    int n;
    int *outputs;
    char **data;
    uint64_t count; /* steps collected so far */
} bl_exec_series;

/* The progress of an execution.  exec_state.c has the table of transitions. */
typedef enum bl_exec_state {
    BL_EXEC_NEW,       /* the request is decoded and its values are loaded */
    BL_EXEC_FETCH,     /* a tensor is copied from another device */
    BL_EXEC_COMPILE,   /* on the compile queue */
    BL_EXEC_READY,     /* on the queue of its device, before the first step */
    BL_EXEC_BEGUN,     /* the states are prepared, and steps run */
    BL_EXEC_IN_FLIGHT, /* submitted to the device and not complete */
    BL_EXEC_OVER,      /* the run has ended; rq->err has its result */
    BL_EXEC_LEFT,      /* the request was answered during the compilation (bl_queue_lend) */
    BL_EXEC_STATES
} bl_exec_state;

typedef enum bl_exec_event {
    BL_EXEC_ON_FETCH,
    BL_EXEC_ON_COMPILE,
    BL_EXEC_ON_QUEUE,  /* submitted to the queue of its device */
    BL_EXEC_ON_BEGIN,  /* the first turn begins */
    BL_EXEC_ON_SUBMIT, /* the one step was submitted to the device */
    BL_EXEC_ON_RETRY,  /* device memory was short: the run begins again when the runs in flight have completed */
    BL_EXEC_ON_END,
    BL_EXEC_ON_LEAVE, /* the request was answered before the compilation ended */
    BL_EXEC_EVENTS
} bl_exec_event;

typedef struct bl_exec bl_exec;
struct bl_exec {
    bl_request *rq;
    bl_exec_state state; /* changed by bl_exec_step */
    bl_worker *worker;
    unsigned generation; /* generation of the device when the plan was looked up */
    bl_run_options options;
    bl_exec_how how;
    bl_exec_in in;
    bl_exec_hold hold;
    bl_exec_out out;
    bl_exec_series series;

    bl_status (*compile)(bl_exec *x, bl_err *err); /* called on a compile thread; NULL: nothing is left to compile */
    bl_work work;                                  /* called on the device's thread */
    bl_serial *serial;

    const bl_wire_graph *graph;
    bl_wire_key key;
    bl_plan *plan;
    bool hit;
    int64_t *vars;

    bl_explained *explained;    /* explanation of the kernels; NULL: the request asks for none */
    bool unlisted;              /* the code that fills the answer checks the number of elements printed as JSON */
    uint64_t steps, done, pace; /* pace: steps per slice, chosen so that a slice takes at most its time limit */
    uint64_t *launch_ns;
    bl_text report;
    void *extra; /* data of the handler */
};

/* The state after |event|.  False if the table has no such transition. */
bool bl_exec_state_next(bl_exec_state from, bl_exec_event event, bl_exec_state *to);
/* Make a transition.  A transition that the table does not have is a bug, which is logged. */
void bl_exec_step(bl_exec *x, bl_exec_event event);
static inline bool bl_exec_has_begun(const bl_exec *x)
{
    return x->state == BL_EXEC_BEGUN || x->state == BL_EXEC_IN_FLIGHT;
}
/* Choose the mode of |rq|, which runs |plan| once: IN_FLIGHT or INLINE if the plan allows the mode and |most| is at least the
 * mode. */
void bl_exec_choose_mode(bl_request *rq, bl_plan *plan, bl_work_mode most);

/* Create the execution.  Decode the request with bl_exec_env: that environment retains in |x| the tensors that it resolves. */
BL_NODISCARD bl_status bl_exec_create(bl_request *rq, bl_exec **out);
/* Infer the type of an initialiser: the front end builds its one node and reports the type of the node. */
BL_NODISCARD bl_status bl_exec_infer(const bl_wire_graph *wire, size_t max_bytes, bl_wire_type *type, bl_err *err);
bl_decode_env bl_exec_env(bl_exec *x, bl_arena *arena, const bl_tensor_file *file);
/* Read the document in the body of the request, JSON or safetensors.  |optional|: a file without a document stands for {}.
 * Call bl_json_fini even after a failure. */
BL_NODISCARD bl_status bl_exec_document(bl_exec *x, bl_arena *arena, bool optional, bl_json_doc *doc, bl_tensor_file *file);
/* Choose device, debug level and deadline from the options.  Call after decoding. */
BL_NODISCARD bl_status bl_exec_choose(bl_exec *x, const bl_run_options *options, bl_worker *worker);
/* Copy values[0..n) to memory of the device.  |copy|: copy a tensor of the registry even if it is on the device, and retain all
 * of the tensors for long. */
BL_NODISCARD bl_status bl_exec_load(bl_exec *x, int n, bl_tensor_value *values, bool copy);
/* bl_exec_key computes the key of |graph| in the plan cache.  bl_exec_make_plan gets a plan for |graph| on the chosen device
 * from the plan cache, or compiles it (on compile threads only).  A failure without text in |err| belongs to a client that
 * already has its answer: the caller may then touch only what the request owns. */
BL_NODISCARD bl_status bl_exec_key(bl_exec *x, const bl_wire_graph *graph, bool program, bl_wire_key *key);
BL_NODISCARD bl_status bl_exec_make_plan(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program,
                                         bl_plan **out, bool *hit, bl_err *err);
/* Add the kernels of |graph| to x->how.along, unless the plan cache has the plan.  Thread: compile threads. */
BL_NODISCARD bl_status bl_exec_gather(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program, bl_err *err);
/* Check the sizes and the estimated time of one run with x->vars against the limits. */
BL_NODISCARD bl_status bl_exec_admit(bl_exec *x, bl_err *err);
static inline bool bl_exec_keeps(const bl_exec *x, int i)
{
    return x->out.kept != NULL && i < bl_wire_shown(x->graph) && x->out.kept[i] != NULL;
}
/* Check that results may be retained under the names in x->out.kept.  A name must not be the name of a share. */
BL_NODISCARD bl_status bl_exec_check_kept(const bl_exec *x);
/* Submit the request to its next queue.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_exec_advance(bl_exec *x);
/* The x->work of a run: run all steps of x->plan in slices.  A single short run is first submitted to the device
 * (BL_STEP_IN_FLIGHT); a second call completes it. */
bl_step bl_exec_run(bl_request *rq);
/* The rq->then of a run: fill the answer. */
BL_NODISCARD bl_status bl_exec_reply(bl_request *rq);
/* Fill |parts| with views of the rows [from, from + rows) of the results, which have |all| rows.  |all| 0: the views are the
 * whole results.  The data stay in the buffers of |x|. */
void bl_exec_take(const bl_exec *x, int64_t all, int64_t from, int64_t rows, bl_part *parts);

/* Choose how many of the |left| steps to run now, after |done| steps.  The number is at most |pace|.  The number is a multiple
 * of |every|, with *periods true so that bl_plan_run reports after each period; or it reaches at most to the end of the current
 * period. */
uint64_t bl_pace_choose(uint64_t done, uint64_t left, uint64_t pace, uint64_t every, bool *periods);
/* The pace at which steps fill |slice_ns|, given that |did| steps took |took_ns|.  The pace grows gradually. */
uint64_t bl_pace_learn(uint64_t did, int64_t took_ns, int64_t slice_ns);

/* Write the initial contents of a hidden state.  Thread: the worker's. */
BL_NODISCARD bl_status bl_state_begin(bl_worker *worker, const bl_plan_tensor *hidden, const int64_t *dim, uint64_t seed,
                                      bl_buffer **out, size_t *bytes, bl_err *err);

/* Write the member plan_detail of the answer, if the request asked for an explanation. */
void bl_exec_put_explained(const bl_exec *x, bl_text *out);

/* ---- dry_run.c */
/* The rq->then of a dry run: fill the answer. */
BL_NODISCARD bl_status bl_exec_reply_cost(bl_request *rq);
/* Answer a dry run from the plan, or compile the plan first. */
BL_NODISCARD bl_status bl_exec_dry_run(bl_exec *x);

#endif
