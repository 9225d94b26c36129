/* The documents that clients send, decoded: every name resolved, every limit and size checked, nothing yet known of what an op
 * means.
 *
 * What comes out lives in env->arena, but for values, whose text or bytes stay in the body; so the body lives until they were
 * scanned. The JSON document itself may go as soon as the call returns.  Messages say where: "inputs.x: ...".  Thread: any, one
 * arena each. */
#ifndef BL_PROTO_DECODE_H
#define BL_PROTO_DECODE_H

#include "proto/safetensors.h"
#include "proto/tensor.h"

enum {
    BL_WIRE_MAX_ATTR_ITEMS = 65536, /* in all lists of all attributes of a graph */
    BL_WIRE_MAX_REPORTS = 1000000   /* steps / collect.every */
};

typedef struct bl_decode_env {
    bl_arena *arena;
    bl_wire_limits limits;
    const bl_tensor_file *binary; /* tensors that came beside the document, or NULL */
    void *ctx;                    /* of the calls below */
    /* The type of a held tensor, looked for in |lease| (or NULL) first.  NULL: no tensor may be named. */
    bl_status (*resolve)(void *ctx, const char *lease, const char *name, bl_wire_type *type, bl_err *err);
    /* The type of the one output of an initialiser's graph.  NULL: none may be given. */
    bl_status (*infer)(void *ctx, const bl_wire_graph *graph, bl_wire_type *type, bl_err *err);
} bl_decode_env;

/* Find the document of a body: the body itself, or, in a safetensors file, the string |key| of its __metadata__.  |file| is
 * filled in the second case; then env->binary is to be set to it.  bl_json_fini(doc) also after a failure. */
BL_NODISCARD bl_status bl_decode_body(bl_arena *arena, bl_span body, bool safetensors, const char *key,
                                      const bl_json_limits *json_limits, const bl_wire_limits *limits, bl_json_doc *doc,
                                      bl_tensor_file *file, bl_err *err);

/* A range as documents say it: [least, most], [least, most, step], or one size.  |out| keeps its name. */
BL_NODISCARD bl_status bl_decode_range(const bl_json *at, bl_wire_var *out, bl_err *err);

/* Members that several documents have. */
typedef struct bl_run_options {
    const char *device; /* NULL: the best one */
    const char *lease;  /* NULL: none */
    int debug;          /* 0 to 7; -1: not given */
    int beam;           /* -1: not given */
    int precision;      /* bl_precision of float32's products; -1: not given */
    bool seeded;
    uint64_t seed;
    int64_t timeout_ms; /* 0: not given */
    int priority;       /* among the requests of the same key, the lower first */
    bool dry_run;       /* only tell what it would cost */
    bool explain;       /* tell which kernels compute it */
    bool check_indices; /* an index out of range is an error */
} bl_run_options;

/* POST /api/v1/run: inputs, nodes, outputs, keep, shapes, dims, sizes, and all of bl_run_options.
 * A dimension that "shapes" names without a range in "dims" gets 1 (0 where it is empty) to its size rounded up to a power of
 * two: the plan serves that whole range, and a client whose sizes vary compiles few of them. */
typedef struct bl_run_request {
    bl_wire_graph graph;     /* outputs: those to send, then those to keep under their names */
    bl_tensor_value *values; /* ninputs */
    int64_t *vars;           /* nvars: sizes in this request */
    int nsent;               /* outputs to send */
    bl_run_options options;
} bl_run_request;
BL_NODISCARD bl_status bl_decode_run(const bl_decode_env *env, const bl_json *doc, bl_run_request *out, bl_err *err);

typedef struct bl_program_entry {
    const char *name;
    bl_wire_graph graph;
} bl_program_entry;

/* The entry |name|; NULL: the only one, or "main".  A failure says which there are. */
BL_NODISCARD bl_status bl_decode_choose_entry(const bl_program_entry *entries, int nentries, const char *name, int *out,
                                              bl_err *err);

enum { BL_WIRE_MOST_PREFERRED = 16 };

/* How runs of a program that several clients ask for at the same time are joined; zeroed: as is usual. */
typedef struct bl_wire_batching {
    bool off;         /* not at all */
    int64_t max_rows; /* of one run; 0: as many as the dimension allows */
    int64_t delay_us; /* how long one may wait for company */
    int npreferred;
    int64_t preferred[BL_WIRE_MOST_PREFERRED]; /* rows that begin at once; more wait for the next run */
    int64_t max_waiting;                       /* requests; 0: as many as in the device's queue */
} bl_wire_batching;

/* PUT /api/v1/programs/NAME: inputs, state, nodes, updates, outputs or entries, dims, batching, and of bl_run_options device,
 * lease, beam, float32_matmul_precision, check_indices, seed and debug. A dimension that an input's shape names must have its
 * range in "dims". Each entry knows the dimensions that the shapes of its own inputs and its attributes name. */
typedef struct bl_program_doc {
    int nstates;
    bl_wire_tensor *states;
    bl_tensor_value *values; /* nstates */
    int nentries;
    bl_program_entry *entries;
    bl_wire_batching batching;
    bl_run_options options;
} bl_program_doc;
BL_NODISCARD bl_status bl_decode_program(const bl_decode_env *env, const bl_json *doc, bl_program_doc *out, bl_err *err);

/* POST /api/v1/programs/NAME/run: entry, inputs, sizes, steps, collect, keep, seq, and of bl_run_options device, lease, beam,
 * debug, timeout_ms, priority and dry_run. */
typedef struct bl_program_run {
    int entry;
    bl_tensor_value *values; /* as many as the entry's inputs, in their order */
    int64_t *vars;
    uint64_t steps;
    uint64_t every; /* 0: nothing is collected */
    int ncollect;
    int *collect;      /* which of the entry's outputs */
    const char **kept; /* for each output, the name to hold it under, or NULL to send it; NULL: all are sent */
    bool sequenced;
    uint64_t seq;
    bl_run_options options;
} bl_program_run;
BL_NODISCARD bl_status bl_decode_program_run(const bl_decode_env *env, const bl_json *doc, const bl_program_entry *entries,
                                             int nentries, bl_program_run *out, bl_err *err);

enum { BL_JOB_MAX_KEEP = 1000, BL_JOB_MAX_PASSES = 1000000 };
#define BL_JOB_MAX_SECONDS 1e9
#define BL_JOB_MAX_DELTA   1e300

/* When the state of a job is written down, and how much of that stays; 0: not given. */
typedef struct bl_job_checkpoint {
    uint64_t every;          /* steps */
    double seconds, max_age; /* max_age: of the older ones */
    int keep;
} bl_job_checkpoint;

/* A job ends before its last step where |metric| (NULL: none) has not been better than its best by more than |min_delta| in
 * |patience| reports of it. */
typedef struct bl_job_stop {
    const char *metric; /* an output that is collected, or "evaluate.OUTPUT" */
    uint64_t patience;
    bool maximise;
    double min_delta;
} bl_job_stop;

/* POST /api/v1/jobs: program, steps, entry, inputs, sizes, collect, priority, checkpoint, evaluate, early_stop,
 * accumulate, compute, loss_scale, lease. */
typedef struct bl_job_doc {
    bl_program_run run;
    bl_job_checkpoint checkpoint;
    bool evaluates;
    bl_program_run evaluation; /* entry (of the program that evaluates), values, vars, every, collect */
    bl_job_stop stop;
    int accumulate; /* passes a step; 1: the program's own */
    bool mixed;     /* products in |compute| */
    bl_dtype compute;
    bool dynamic_scale; /* of the loss */
    double loss_scale;  /* else; 0: none */
} bl_job_doc;
/* The names of the program and of the one that evaluates it (NULL: none is named), which have to be looked up before the rest can
 * be decoded. */
BL_NODISCARD bl_status bl_decode_job_programs(const bl_json *doc, const char **name, const char **evaluator, bl_err *err);
/* |evaluator| may be |program|. */
BL_NODISCARD bl_status bl_decode_job(const bl_decode_env *env, const bl_json *doc, const bl_program_doc *program,
                                     const bl_program_doc *evaluator, bl_job_doc *out, bl_err *err);

/* PUT /api/v1/programs/NAME/state: {"state": {...}} with a value for each of |states| and no other; values[i] is that of
 * states[i]. */
BL_NODISCARD bl_status bl_decode_state(const bl_decode_env *env, const bl_json *doc, const bl_wire_tensor *states, int nstates,
                                       bl_tensor_value **values, bl_err *err);
/* {"ttl": seconds}; 0 where it does not say. */
BL_NODISCARD bl_status bl_decode_lease(const bl_json *doc, double *ttl, bl_err *err);
/* {"names": [...]} and perhaps "lease" */
BL_NODISCARD bl_status bl_decode_names(const bl_decode_env *env, const bl_json *doc, const char ***names, size_t *count,
                                       const char **lease, bl_err *err);
/* A tensor value that stands alone, as PUT /api/v1/tensors/NAME takes it as JSON. */
BL_NODISCARD bl_status bl_decode_tensor(const bl_decode_env *env, const bl_json *doc, bl_tensor_value *out, bl_err *err);
/* Raw bytes with "dtype" and "shape" from a query ("784,128"; empty for a scalar).  Where bytes.data is NULL they are still to
 * come, and their number is not checked. */
BL_NODISCARD bl_status bl_decode_raw(const bl_wire_limits *limits, const char *dtype, const char *shape, bl_span bytes,
                                     bl_tensor_value *out, bl_err *err);

/* [A-Za-z_][A-Za-z0-9_.:/-]{0,127}, but neither NaN nor Infinity, which are numbers. */
bool bl_wire_name_ok(const char *name);

#endif
