/* Decodes the JSON documents of clients: resolves every name and checks every limit and size.  It does not know the semantics of
 * the ops.
 *
 * The results live in env->arena.  Tensor values refer to text or bytes of the body, so the body must live until the values are
 * scanned; the JSON document may be freed when the call returns.  Error messages start with the place: "inputs.x: ...".  Thread:
 * any, one arena each. */
#ifndef BL_PROTO_DECODE_H
#define BL_PROTO_DECODE_H

#include "proto/safetensors.h"
#include "proto/tensor.h"

enum {
    BL_WIRE_MAX_ATTR_ITEMS = 65536, /* items of all attribute lists of a graph */
    BL_WIRE_MAX_REPORTS = 1000000   /* limit of steps / collect.every */
};

typedef struct bl_decode_env {
    bl_arena *arena;
    bl_wire_limits limits;
    const bl_tensor_file *binary; /* tensors of the safetensors file that holds the document, or NULL */
    void *ctx;                    /* argument of the callbacks below */
    /* Gives the type of a retained tensor; looks in |lease| first unless |lease| is NULL.  NULL: the document may not name
     * retained tensors. */
    bl_status (*resolve)(void *ctx, const char *lease, const char *name, bl_wire_type *type, bl_err *err);
    /* Gives the type of the single output of an initialiser's graph.  NULL: initialisers are not allowed. */
    bl_status (*infer)(void *ctx, const bl_wire_graph *graph, bl_wire_type *type, bl_err *err);
} bl_decode_env;

/* Finds the document in a body: the body itself, or, in a safetensors file, the string |key| of its __metadata__.  With
 * |safetensors| it fills |file|; the caller then sets env->binary to |file|.  Call bl_json_fini(doc) after a failure too. */
BL_NODISCARD bl_status bl_decode_body(bl_arena *arena, bl_span body, bool safetensors, const char *key,
                                      const bl_json_limits *json_limits, const bl_wire_limits *limits, bl_json_doc *doc,
                                      bl_tensor_file *file, bl_err *err);

/* Decodes a range: [least, most], [least, most, step], or one size.  Does not change out->name. */
BL_NODISCARD bl_status bl_decode_range(const bl_json *at, bl_wire_var *out, bl_err *err);

/* Members that several documents share. */
typedef struct bl_run_options {
    const char *device; /* NULL: the server chooses the best device */
    const char *lease;  /* NULL: no lease */
    int debug;          /* 0 to 7; -1: not given */
    int beam;           /* -1: not given */
    int precision;      /* bl_precision of float32 matrix products; -1: not given */
    bool seeded;
    uint64_t seed;
    int64_t timeout_ms; /* 0: not given */
    int priority;       /* among requests with the same key; lower values run first */
    bool dry_run;       /* report only the estimated cost */
    bool explain;       /* report the kernels of the plan */
    bool check_indices; /* report an index out of range as an error */
} bl_run_options;

/* POST /api/v1/run: inputs, nodes, outputs, keep, shapes, dims, sizes, and all of bl_run_options.
 *
 * A dimension that "shapes" names and "dims" does not list gets a default range: from 1 (from 0 if the size is 0) to its size
 * rounded up to a power of two. One plan serves the whole range, so a client with varying sizes causes few compilations. */
typedef struct bl_run_request {
    bl_wire_graph graph;     /* outputs: first the outputs that the server sends, then the outputs that the server retains under
                              * their names */
    bl_tensor_value *values; /* ninputs items */
    int64_t *vars;           /* nvars items: size of each dimension in this request */
    int nsent;               /* number of outputs to send */
    bl_run_options options;
} bl_run_request;
BL_NODISCARD bl_status bl_decode_run(const bl_decode_env *env, const bl_json *doc, bl_run_request *out, bl_err *err);

typedef struct bl_program_entry {
    const char *name;
    bl_wire_graph graph;
} bl_program_entry;

/* Finds the entry |name|; NULL: the only entry, or "main".  The error message lists the entries. */
BL_NODISCARD bl_status bl_decode_choose_entry(const bl_program_entry *entries, int nentries, const char *name, int *out,
                                              bl_err *err);

enum { BL_WIRE_MOST_PREFERRED = 16 };

/* How the server batches concurrent runs of one program; all zero: the defaults. */
typedef struct bl_wire_batching {
    bool off;         /* no batching */
    int64_t max_rows; /* rows of one batch at most; 0: the maximum of the dimension */
    int64_t delay_us; /* longest wait of a request for others to join its batch */
    int npreferred;
    int64_t preferred[BL_WIRE_MOST_PREFERRED]; /* row counts at which a batch starts at once; further requests wait for the next
                                                * batch */
    int64_t max_waiting;                       /* requests; 0: the length of the device's queue */
} bl_wire_batching;

/* PUT /api/v1/programs/NAME: inputs, state, nodes, updates, outputs or entries, dims, batching, and of bl_run_options device,
 * lease, beam, float32_matmul_precision, check_indices, seed and debug. A dimension that an input's shape names must have its
 * range in "dims".  Each entry has only the dimensions that its own inputs and attributes name. */
typedef struct bl_program_doc {
    int nstates;
    bl_wire_tensor *states;
    bl_tensor_value *values; /* nstates items */
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
    bl_tensor_value *values; /* one for each input of the entry, in order */
    int64_t *vars;
    uint64_t steps;
    uint64_t every; /* collect the outputs after every |every| steps; 0: collect nothing */
    int ncollect;
    int *collect;      /* indices of the entry's outputs */
    const char **kept; /* kept[i]: the name under which the server retains output i; NULL: the server sends output i.  kept
                        * NULL: all outputs are sent */
    bool sequenced;
    uint64_t seq;
    bl_run_options options;
} bl_program_run;
BL_NODISCARD bl_status bl_decode_program_run(const bl_decode_env *env, const bl_json *doc, const bl_program_entry *entries,
                                             int nentries, bl_program_run *out, bl_err *err);

enum { BL_JOB_MAX_KEEP = 1000, BL_JOB_MAX_PASSES = 1000000 };
#define BL_JOB_MAX_SECONDS 1e9
#define BL_JOB_MAX_DELTA   1e300

/* When a job writes checkpoints, and how many it keeps; 0: not given. */
typedef struct bl_job_checkpoint {
    uint64_t every;          /* steps */
    double seconds, max_age; /* max_age: of the older checkpoints */
    int keep;
} bl_job_checkpoint;

/* Early stopping: the job ends if |metric| (NULL: no early stopping) has not improved on its best value by more than |min_delta|
 * in |patience| consecutive reports. */
typedef struct bl_job_stop {
    const char *metric; /* a collected output, or "evaluate.OUTPUT" */
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
    bl_program_run evaluation; /* entry (of the evaluating program), values, vars, every, collect */
    bl_job_stop stop;
    int accumulate; /* gradient passes per step; 1: no accumulation */
    bool mixed;     /* mixed precision: products in |compute| */
    bl_dtype compute;
    bool dynamic_scale; /* dynamic loss scaling */
    double loss_scale;  /* static loss scale; 0: none */
} bl_job_doc;
/* Reads the names of the program and of the evaluating program (NULL: not given).  The caller must look both up before
 * bl_decode_job. */
BL_NODISCARD bl_status bl_decode_job_programs(const bl_json *doc, const char **name, const char **evaluator, bl_err *err);
/* |evaluator| may equal |program|. */
BL_NODISCARD bl_status bl_decode_job(const bl_decode_env *env, const bl_json *doc, const bl_program_doc *program,
                                     const bl_program_doc *evaluator, bl_job_doc *out, bl_err *err);

/* PUT /api/v1/programs/NAME/state: {"state": {...}} with a value for each of |states| and no other member.  values[i] belongs to
 * states[i]. */
BL_NODISCARD bl_status bl_decode_state(const bl_decode_env *env, const bl_json *doc, const bl_wire_tensor *states, int nstates,
                                       bl_tensor_value **values, bl_err *err);
/* {"ttl": seconds}; |*ttl| is 0 if the document has none. */
BL_NODISCARD bl_status bl_decode_lease(const bl_json *doc, double *ttl, bl_err *err);
/* {"names": [...]} and an optional "lease". */
BL_NODISCARD bl_status bl_decode_names(const bl_decode_env *env, const bl_json *doc, const char ***names, size_t *count,
                                       const char **lease, bl_err *err);
/* A single tensor value, the JSON body of PUT /api/v1/tensors/NAME. */
BL_NODISCARD bl_status bl_decode_tensor(const bl_decode_env *env, const bl_json *doc, bl_tensor_value *out, bl_err *err);
/* Raw bytes with "dtype" and "shape" from a query ("784,128"; empty for a scalar).  If bytes.data is NULL, the body has not
 * arrived yet and its length is not checked. */
BL_NODISCARD bl_status bl_decode_raw(const bl_wire_limits *limits, const char *dtype, const char *shape, bl_span bytes,
                                     bl_tensor_value *out, bl_err *err);

/* A valid name: [A-Za-z_][A-Za-z0-9_.:/-]{0,127} except NaN and Infinity, which are numbers. */
bool bl_wire_name_ok(const char *name);

#endif
