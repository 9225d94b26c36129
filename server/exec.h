/* SPDX-License-Identifier: MIT */
/* One request's way through the engine: its inputs into device memory, its plan, its runs, its results.
 * It lives in the request's arena and is ended by the request's defer list.  Until it is submitted it belongs to the HTTP thread,
 * then to one queue after the other: that of a device whose tensor must be fetched, the compiler, the device that runs it. */
#ifndef BL_SERVER_EXEC_H
#define BL_SERVER_EXEC_H

#include "proto/decode.h"
#include "server/explain.h"
#include "server/held.h"
#include "server/programs.h"

/* A held tensor that the document named, kept from its decoding to its use. */
typedef struct bl_bound {
    struct bl_bound *next;
    const char *name;
    bl_held *held;
    bool foreign; /* somebody else shares it */
} bl_bound;

/* A copy between devices whose memory the host does not see. */
typedef struct bl_fetch {
    struct bl_fetch *next;
    bl_held *from, *to;
} bl_fetch;

/* Of a result: the whole, or the rows of one of those that share a run. */
typedef struct bl_part {
    const char *data;
    int ndim;
    int64_t dim[BL_HELD_DIMS];
    size_t count;
} bl_part;

typedef struct bl_exec bl_exec;
struct bl_exec {
    bl_request *rq;
    bl_worker *worker;
    unsigned generation; /* of the device when the plan was looked for */
    bl_run_options options;
    int debug, beam;
    bl_precision precision;

    int ninputs;
    bl_tensor_value *values;
    bl_held **inputs;
    bl_bound *bound;
    bl_fetch *fetches;

    bl_status (*compile)(bl_exec *x, bl_err *err); /* on a compile thread; NULL: nothing to compile (any more) */
    bl_work work;                                  /* on the device's thread */
    bl_serial *serial;

    const bl_wire_graph *graph;
    bl_wire_key key;
    bl_plan *plan;
    bool hit;
    int64_t *vars;
    const char **kept; /* for each output, the name to hold it under, or NULL to send it; NULL: all are sent */

    bl_program *program;                 /* NULL: a run, whose state is its own */
    bl_program *lender;                  /* of a run: the program whose states it reads, which stay as they are; or NULL */
    const bl_program_entry_state *entry; /* of either */
    bl_buffer **buffers;                 /* of the inputs, retained while it runs */
    bl_buffer *const *lent;              /* the same of states that somebody keeps, as many as the plan has; NULL: none */
    bl_buffer **states;
    bl_buffer **outputs;
    bl_held **results;
    char **copies;        /* of results that the host does not see */
    const bl_part *parts; /* in place of both: of a run that somebody else has, and shares; or NULL */
    bool begun, flies;
    bl_explained *explained;    /* or NULL: nobody asks which kernels compute it */
    bool dry;                   /* nothing runs: rq->then tells what it would cost */
    bool unlisted;              /* who answers checks how much of it is JSON */
    uint64_t steps, done, pace; /* pace: steps at a time, so that a slice takes its time and no more */
    uint64_t every;
    int ncollect;
    int *collect;
    char **series;
    uint64_t collected;
    uint64_t *launch_ns;
    bl_text report;
    bool early;            /* plans that are made from now on may have interpreted kernels */
    bl_plan_brief brief;   /* of plans that are made from now on */
    bl_plan_sources along; /* kernels to be compiled with those of the next plan that is made */
    void *extra;           /* of the handler */
};

/* Decode with these; resolve keeps what it finds in |x|. */
BL_NODISCARD bl_status bl_exec_create(bl_request *rq, bl_exec **out);
/* An initialiser's type: what the front end makes of its one node. */
BL_NODISCARD bl_status bl_exec_infer(const bl_wire_graph *wire, size_t max_bytes, bl_wire_type *type, bl_err *err);
bl_decode_env bl_exec_env(bl_exec *x, bl_arena *arena, const bl_tensor_file *file);
/* The document of the request's body, JSON or safetensors.  |optional|: a file without one stands for {}.  bl_json_fini also
 * after a failure. */
BL_NODISCARD bl_status bl_exec_document(bl_exec *x, bl_arena *arena, bool optional, bl_json_doc *doc, bl_tensor_file *file);
/* After decoding: options decide device, debug level and deadline. */
BL_NODISCARD bl_status bl_exec_choose(bl_exec *x, const bl_run_options *options, bl_worker *worker);
/* Bring values[0..n) into memory of the device.  |copy|: held tensors are copied even where they are on the device, and all of
 * them stay for long. */
BL_NODISCARD bl_status bl_exec_load(bl_exec *x, int n, bl_tensor_value *values, bool copy);
/* A plan for |graph| on the chosen device: looked up, or (compile threads only) made.  A failure without a word in |err| is one
 * of a client that was answered meanwhile: its request is to be left alone, but for what it owns. */
BL_NODISCARD bl_status bl_exec_key(bl_exec *x, const bl_wire_graph *graph, bool program, bl_wire_key *key);
BL_NODISCARD bl_status bl_exec_make_plan(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program,
                                         bl_plan **out, bool *hit, bl_err *err);
/* Add the kernels of |graph| to x->along, unless its plan is there (compile threads only). */
BL_NODISCARD bl_status bl_exec_gather(bl_exec *x, const bl_wire_key *key, const bl_wire_graph *graph, bool program, bl_err *err);
/* Sizes and estimated time of one run with x->vars are within the limits. */
BL_NODISCARD bl_status bl_exec_admit(bl_exec *x, bl_err *err);
static inline bool bl_exec_keeps(const bl_exec *x, int i)
{
    return x->kept != NULL && i < bl_wire_shown(x->graph) && x->kept[i] != NULL;
}
/* Results may be held under the names in x->kept, which no share has. */
BL_NODISCARD bl_status bl_exec_check_kept(const bl_exec *x);
/* Into the next queue.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_exec_advance(bl_exec *x);
/* x->work: all steps of x->plan, in slices; or, for one short run, its submission first and then the rest. */
bl_step bl_exec_run(bl_request *rq);
/* rq->then of the same. */
BL_NODISCARD bl_status bl_exec_reply(bl_request *rq);
/* The first |rows| from row |from| of the results, which have |all| of them; |all| 0: the whole.  They stay where they are. */
void bl_exec_take(const bl_exec *x, int64_t all, int64_t from, int64_t rows, bl_part *parts);

/* How many of |left| steps to run now, |done| being over: no more than |pace|, and either whole periods of |every|, which
 * bl_plan_run then reports, or up to the end of one. */
uint64_t bl_pace_choose(uint64_t done, uint64_t left, uint64_t pace, uint64_t every, bool *periods);
/* The pace with which steps fill |slice_ns|, now that |did| of them took |took_ns|; it grows by and by. */
uint64_t bl_pace_learn(uint64_t did, int64_t took_ns, int64_t slice_ns);

/* Write what hidden state starts with.  Worker's thread. */
BL_NODISCARD bl_status bl_state_begin(bl_worker *worker, const bl_plan_tensor *hidden, const int64_t *dim, uint64_t seed,
                                      bl_buffer **out, size_t *bytes, bl_err *err);

/* The member plan_detail of an answer, where it was asked for. */
void bl_exec_put_explained(const bl_exec *x, bl_text *out);

/* ---- cost.c */
/* rq->then of a dry run. */
BL_NODISCARD bl_status bl_exec_reply_cost(bl_request *rq);
/* With the plan there, or its compilation to come: the answer of a dry run. */
BL_NODISCARD bl_status bl_exec_dry_run(bl_exec *x);

#endif
