/* SPDX-License-Identifier: MIT */
/* Internal interfaces of the files of hosted models.
 *
 * Lock order: a request's peer, bl_models.writing, bl_models.lock, then the locks of batchers.  No thread waits under one of
 * these locks. */
#ifndef BL_SERVER_MODELS_INTERNAL_H
#define BL_SERVER_MODELS_INTERNAL_H

#include "engine/base/mapped.h"
#include "proto/infer.h"
#include "proto/onnx/onnx.h"
#include "server/access/access.h"
#include "server/batch/batcher.h"
#include "server/models/config.h"
#include "server/models/models.h"
#include "server/models/statistics.h"
#include "server/ops/ticker.h"
#include "server/programs/program_make.h"
#include "server/store/names.h"

#include <pthread.h>

enum {
    BL_MODEL_NAME_SIZE = 129,
    BL_MODEL_MOST_LOADERS = 16,
    BL_MODEL_REASON = 400,
    BL_MOST_VERSIONS = 1000,
    BL_MOST_CONFIG = 4 << 20
};

/* The representation in the program of a tensor with datatype BYTES. */
typedef enum bl_model_coding {
    BL_MODEL_PLAIN,
    BL_MODEL_PICTURE, /* of an input: an encoded picture, decoded into pixels [height, width, 3] */
    BL_MODEL_STRINGS  /* int64: the index of each string (strings.c) */
} bl_model_coding;

/* An input or output of the model in the form that clients see, with the batch dimension. */
typedef struct bl_model_tensor {
    const char *name;
    int datatype; /* datatype of the protocol; BYTES: the model takes or gives the bytes of strings, padded with zeros */
    bl_dtype dtype;
    bl_model_coding coding;    /* of a tensor with datatype BYTES */
    int ndim;                  /* rank in the program; see bl_model_tensor_rank */
    int64_t dim[16];           /* -1: the size varies */
    int var[16];               /* of an input: the index of the named dimension, or -1 */
    const char *const *labels; /* of an output: the names of its classes, or NULL */
    size_t nlabels;
    bool keyed; /* |labels| are the keys of maps; clients cannot interpret the output without the labels */
} bl_model_tensor;

/* The rank that clients see: the bytes of a string are not a dimension, and a picture is one element. */
static inline int bl_model_tensor_rank(const bl_model_tensor *tensor)
{
    bool bytes = tensor->datatype == BL_INFER_BYTES && tensor->coding == BL_MODEL_PLAIN;
    return tensor->coding == BL_MODEL_PICTURE ? tensor->ndim - 3 : tensor->ndim - bytes;
}

/* The kind of the files of a version: model.json, model.onnx, or a language model (proto/llm). */
typedef enum bl_model_form { BL_MODEL_PROGRAM, BL_MODEL_ONNX, BL_MODEL_LLM } bl_model_form;

/* The program of a version on one device. */
typedef struct bl_model_instance {
    bl_batch_slot slot;                 /* first member: bl_batch_slot * converts */
    _Atomic(bl_plan *) exact[BL_SIZES]; /* the plan for runs of exactly 2^i rows; NULL until it exists, then constant */
    struct bl_pages *pages;             /* the pool of KV pages of a text model with a paged KV cache (pages.h); else NULL */

    /* worker's thread */
    double token_ns; /* the time per token of a prompt; 0: not measured */
    double write_ns; /* the time of a run in which each text generates one token; 0: not measured */
} bl_model_instance;

typedef struct bl_infer bl_infer;
typedef struct bl_answers bl_answers;
typedef struct bl_text_model bl_text_model;
typedef struct bl_text_input bl_text_input;
typedef struct bl_sent bl_sent;

/* Where a version came from, and what a reload needs. */
typedef struct bl_model_origin {
    bl_model_form form;
    uint64_t fingerprint; /* hash of the files and of the configuration */
    const char *path;     /* of a language model: see bl_source_version; else NULL */
    bl_sent *sent;        /* the files that came in a request; NULL: the files are in the folder, or do not exist any more */
    /* of a version that was made of a program: the id of its row in the store; 0: no row, so the version ends with the
     * server */
    int64_t kept;
    uint64_t purges; /* bl_access_purges of the owner when loading began */
} bl_model_origin;

/* What the import of an ONNX model found, besides the program. */
typedef struct bl_model_onnx {
    const bl_onnx_port *inputs, *outputs; /* ports whose form differs between model and program, or NULL */
    bl_texts texts;                       /* the strings of the model, by index */
    int nranges;                          /* the ranges of its named dimensions */
    bl_onnx_range *ranges;
    int narrowed; /* how often the ranges were narrowed because the device could not run the largest sizes */
} bl_model_onnx;

/* Ticker's thread: whether the version is on the right devices. */
typedef struct bl_model_placement {
    int64_t mended_ns; /* the last time at which the version was reloaded because a device was lost or drained */
    unsigned drains;   /* server->drain.count when the placement was last checked and correct */
} bl_model_placement;

/* The sequences of a version whose program updates state. */
typedef struct bl_model_sequences {
    pthread_mutex_t lock;
    bl_namemap *by_key; /* key "OWNER ID"; under |lock|; NULL: requests do not belong to sequences */
} bl_model_sequences;

/* Reference-counted.  A published version is constant, except for its counters, caches and queues. */
typedef struct bl_model_version bl_model_version;
struct bl_model_version {
    atomic_int refs;
    bl_models *models;
    uint32_t owner;
    char name[BL_MODEL_NAME_SIZE];
    uint64_t number;
    int64_t created; /* seconds since 1970 */
    bl_model_origin origin;
    bl_arena *arena;
    bl_model_config config;
    bl_model_onnx onnx;
    int noutputs;
    bl_model_tensor *inputs, *outputs; /* batcher.ninputs inputs */
    int nshown;
    /* the inputs that clients see: |inputs|, or strings in place of tokens where the server tokenizes */
    const bl_model_tensor *shown;
    int ninstances;
    bl_model_instance *instances;
    bl_model_statistics statistics;
    bl_batcher batcher;
    bl_answers *answers; /* response cache; NULL: off */
    bl_model_placement placement;
    bl_model_sequences sequences;
    bool sequential;     /* the entry updates state, so requests belong to sequences */
    bl_text_model *text; /* in |arena|; NULL: the model does not generate text */
    bl_model_version
        *draft;           /* the draft model (draft.h), which is not published; NULL: none.  Instances are on the same devices */
    bl_text_input *words; /* in |arena|; NULL: the server does not tokenize for the model */
};

typedef enum bl_model_state { BL_MODEL_UNAVAILABLE, BL_MODEL_LOADING, BL_MODEL_READY, BL_MODEL_UNLOADING } bl_model_state;

/* A version in the index; the version may be unavailable. */
typedef struct bl_model_row {
    uint64_t number;
    bl_model_state state;
    char reason[BL_MODEL_REASON];
    bl_model_version *version; /* retained; NULL: the version cannot serve requests */
} bl_model_row;

/* The trace settings that clients have set.  Zeroed: the settings of the server apply. */
typedef struct bl_model_tracing {
    enum { BL_TRACING_UNSET, BL_TRACING_OFF, BL_TRACING_ON } level;
    uint64_t rate; /* one of |rate| inferences is traced; 0: not set */
    bool counted;  /* |count| is set */
    int64_t count; /* the number of inferences that are still to be traced; below 0: unlimited */
} bl_model_tracing;

/* The last decision of a request about a model name. */
typedef enum bl_model_choice { BL_CHOICE_NONE, BL_CHOICE_LOADED, BL_CHOICE_UNLOADED } bl_model_choice;

/* The work of a loader on a model. */
typedef enum bl_model_loading {
    BL_LOADING_NONE,
    BL_LOADING_RUNS,
    BL_LOADING_ADMITTED /* runs, and the model counts against --max-models */
} bl_model_loading;

/* A model name.  Under bl_models.lock. */
typedef struct bl_model {
    char name[BL_MODEL_NAME_SIZE];
    uint32_t owner;
    bool wanted; /* the folder is watched, and changed files are loaded again */
    bl_model_loading loading;
    uint64_t fingerprint; /* hash of the files at the last attempt to load them */
    uint64_t seen;        /* hash of the files at the last poll */
    char *config;         /* the configuration of a load request, which replaces the file's; or NULL */
    bl_model_choice choice;
    /* |sent|: the files of the choice, NULL: they are in the folder; |stored|: the files that the store names; both
     * retained */
    bl_sent *sent, *stored;
    uint64_t unloads;             /* how often requests unloaded the model */
    char reason[BL_MODEL_REASON]; /* why the model has no rows */
    bl_model_tracing tracing;
    uint64_t asked; /* inferences that the trace settings applied to */
    int nrows;
    bl_model_row *rows; /* in ascending order of |number| */
} bl_model;

/* A file that came with a request. */
typedef struct bl_model_file {
    uint64_t version;
    const char *name;
    bl_span data;
} bl_model_file;

typedef enum bl_model_op_kind {
    BL_MODEL_OP_LOAD,
    BL_MODEL_OP_MEND,      /* reload only versions that were lost with a device; other versions of the model stay as they are */
    BL_MODEL_OP_MEND_KEPT, /* reload only the version of row |kept| of the store, which was made of a program */
    BL_MODEL_OP_COMPILE    /* load nothing, but compile a plan for runs of |rows| on |instance| of |version| */
} bl_model_op_kind;

typedef enum bl_model_op_by {
    BL_BY_SERVER, /* files or devices changed */
    BL_BY_START,  /* the start of the server */
    BL_BY_REQUEST /* the result also holds after a restart; the request may have ended */
} bl_model_op_by;

/* A job of the loader threads. */
typedef struct bl_model_op bl_model_op;
struct bl_model_op {
    bl_model_op *next;
    uint32_t owner;
    char name[BL_MODEL_NAME_SIZE];
    char *config; /* heap; NULL: the configuration of the file */
    int nfiles;   /* 0: the files are in the folder */
    bl_model_file *files;
    bl_arena *arena; /* the arena of |files|, or NULL */
    size_t charged;  /* bytes of the server's memory budget that |files| take */
    bl_sent *sent;   /* retained: |files| are views of this upload, which |mapped| maps; else NULL */
    bl_mapped mapped;
    bl_request *rq; /* the request that waits for the job, or NULL; under the lock */
    bl_model_op_kind kind;
    bl_model_op_by by;
    bool taken;                /* a loader has the job */
    bool told;                 /* the reason of the failure is in the row of a version already */
    uint64_t purges;           /* bl_access_purges of the owner when the job was ordered */
    int64_t kept;              /* of BL_MODEL_OP_MEND_KEPT */
    bl_model_version *version; /* of BL_MODEL_OP_COMPILE, like |instance| and |rows|; retained */
    bl_model_instance *instance;
    int64_t rows;
};

/* A version that can be loaded. */
typedef struct bl_source_version {
    uint64_t number, fingerprint;
    bl_model_form form;
    const char *path; /* of a language model: its file or folder in the folder of models; else NULL */
} bl_source_version;

typedef struct bl_source {
    bool found;
    bl_span config; /* config.json; data NULL: there is none */
    uint64_t fingerprint;
    int nversions; /* the versions are in ascending order */
    bl_source_version *versions;
} bl_source;

struct bl_models {
    bl_server *server;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a job arrives or ends, or when a request of a loader has ended */
    bl_namemap *names;      /* from "OWNER NAME" to bl_model */
    bl_model_op *first_op;
    bl_request *own[BL_MODEL_MOST_LOADERS]; /* the request that each loader waits for */
    bool back[BL_MODEL_MOST_LOADERS];
    bl_model_tracing tracing; /* the settings for all models */
    int nstart, to_start;     /* jobs of the start; those of them that have not ended */
    int64_t last_kept;        /* the largest id of a stored version at the start */
    pthread_mutex_t writing;  /* taken before |lock|; held while the store is updated to the state of the registry */
    bool stop;
    int nthreads;
    pthread_t thread[BL_MODEL_MOST_LOADERS];
    bl_ticker *ticker;              /* reopening a device takes seconds, so models have a ticker of their own */
    bl_tick *look, *poll;           /* under |lock|; NULL: the server stops */
    atomic_bool asked;              /* a client asked for a poll of the folder */
    atomic_int generations;         /* texts that are being generated */
    struct bl_completion *streamed; /* requests that stream text, for keep-alive pings; under |lock| */
};

/* ---- models.c */
bool bl_model_name_ok(const char *name);
/* Find the model of exactly this owner.  NULL: there is none.  Under the lock. */
bl_model *bl_models_find(bl_models *models, uint32_t owner, const char *name);

/* Iterator over all rows of all models.  A model without rows occurs once, with |row| NULL.  A zeroed iterator stands before
 * the first row. */
typedef struct bl_model_rows {
    const bl_model *model;
    const bl_model_row *row;
    bl_model_version *version; /* the version of |row|; NULL: the version cannot serve requests */
    size_t next_model;
    int next_row;
} bl_model_rows;
/* False after the last row.  The caller holds models->lock from the first call to the last. */
bool bl_model_rows_next(bl_models *models, bl_model_rows *it);
/* Find the model, or create it.  NULL: out of memory.  Under the lock. */
bl_model *bl_models_need(bl_models *models, uint32_t owner, const char *name);
/* Under the lock: the row of a version, or NULL. */
bl_model_row *bl_model_find_row(bl_model *model, uint64_t number);
/* The model and version in the request's path, retained until the request ends.  The owner's own models come before shared
 * models. */
BL_NODISCARD bl_status bl_model_get(bl_request *rq, bl_model_version **out);
/* Queue a job for the loaders.  The job moves in, on failure too.  A loader finishes its request. */
BL_NODISCARD bl_status bl_models_order(bl_models *models, bl_model_op *op, bl_err *err);
bl_model_op *bl_model_op_create(uint32_t owner, const char *name); /* NULL if out of memory */
void bl_model_op_destroy(bl_models *models, bl_model_op *op);
/* Do the settings load this model of the folder without a request? */
bool bl_models_is_chosen(const bl_models *models, const char *name);
/* Unload all versions permanently, and refuse versions that are being loaded now.  BL_ENOTFOUND: there is no such model. */
BL_NODISCARD bl_status bl_models_unload(bl_models *models, uint32_t owner, const char *name, bl_err *err);
/* Unload a model whose folder is gone.  The registry does not record this as a decision of a request. */
BL_NODISCARD bl_status bl_models_withdraw(bl_models *models, const char *name, bl_err *err);
/* Remove the names of |owner| that have no version, no stored choice and no job. */
void bl_models_forget_names(bl_models *models, uint32_t owner);
/* Is there room for |name| among the models of |owner|?  Unused names are removed to make room.  BL_ENODEVMEM: there is no
 * room. */
BL_NODISCARD bl_status bl_models_admit(bl_models *models, uint32_t owner, const char *name, bl_err *err);

/* ---- model_handlers.c */
/* May |owner| see the model?  An owner sees its own models, and shared models whose name it does not use itself.  Under the
 * lock. */
bool bl_model_is_seen(bl_models *models, uint32_t owner, const bl_model *model);

/* ---- source.c */
const char *bl_models_folder(const bl_models *models); /* NULL: there is none */
/* List what the folder has of |name|.  A missing folder is not an error; out->found is then false. */
BL_NODISCARD bl_status bl_source_look(bl_models *models, bl_arena *arena, const char *name, bl_source *out, bl_err *err);
/* Is there a folder of that name? */
bool bl_source_has(bl_models *models, const char *name);
/* Parse "1/model.json" into version and file name.  False: this is not a file of a model. */
bool bl_model_file_parse(const char *text, bl_model_file *out);
/* Like bl_source_look, for the files of a request. */
BL_NODISCARD bl_status bl_source_of_files(bl_arena *arena, const bl_model_op *op, bl_source *out, bl_err *err);
/* Read the whole open file |fd| into memory of the request.  |file| names it in errors. */
BL_NODISCARD bl_status bl_source_read_open(bl_request *rq, int fd, const char *file, bl_span *out);
/* Read a whole file into memory of the request; data is NULL if the file does not exist. */
BL_NODISCARD bl_status bl_source_read(bl_request *rq, const char *model, uint64_t version, const char *file, bl_span *out);
/* Call |each| for every name in the folder that can be the name of a model. */
void bl_source_each(bl_models *models, void (*each)(void *arg, const char *name), void *arg);

/* Read the lines of a file beside config.json into the arena. */
BL_NODISCARD bl_status bl_source_read_lines(bl_models *models, const char *model, const char *file, bl_arena *arena,
                                            const char *const **lines, size_t *count, bl_err *err);
bool bl_source_is_there(bl_models *models);

/* ---- tracing.c */
/* Decide whether the inference is traced, unless its client decided.  Under the lock. */
void bl_model_trace(bl_models *models, bl_model *model, bl_request *rq);

/* ---- poll.c: on the thread of models->ticker */
void bl_models_poll(bl_models *models);
/* Order a reload of the version if a lost device was reopened, or if a drained or resumed device changes its placement. */
void bl_model_version_mend(bl_model_version *version, int64_t now_ns);

/* ---- warm.c */
/* Run |warmup| on the instance.  |rq| is queued on its device. */
BL_NODISCARD bl_status bl_model_warm(bl_request *rq, bl_model_version *version, bl_model_instance *instance,
                                     const bl_config_warmup *warmup);

/* ---- place.c */
/* The devices of the instances: at most BL_MOST_INSTANCES, all different.  NULL: the device of the program's options, or the
 * best. */
BL_NODISCARD bl_status bl_model_place(bl_server *server, const bl_model_config *config, bl_worker **out, int *count, bl_err *err);

/* ---- ranges.c */
/* Store the ranges that the import of an ONNX model chose, for further instances and for clients. */
BL_NODISCARD bl_status bl_model_keep_ranges(bl_model_version *version, const bl_onnx_model *model, bl_err *err);
/* The first instance could not be made because of |why|.  If |why| is a limit of the device, narrow a dimension whose range
 * the configuration does not set.  False: |why| is another error, or no dimension can be narrowed. */
bool bl_model_narrow_ranges(bl_model_version *version, const bl_err *why);

/* ---- load.c */
/* Fill the instance from the entry of instance->program that the configuration chooses. */
BL_NODISCARD bl_status bl_model_fill_instance(bl_model_version *version, bl_model_instance *instance, bl_err *err);
void bl_model_load(bl_models *models, int loader, bl_model_op *op, bl_err *err);

/* ---- publish.c */
/* Under the lock: find or create the row of |number|.  NULL: out of memory, or BL_MOST_VERSIONS rows are in use. */
bl_model_row *bl_model_need_row(bl_model *model, uint64_t number);
/* Under the lock: fail if |model| was unloaded since its count of unloads was |unloads|. */
BL_NODISCARD bl_status bl_model_check_unloads(const bl_model *model, uint64_t unloads, bl_err *err);
/* Publish |version| under its number; |version| moves in.  Fails if the owner was purged since loading began, or if the model
 * was unloaded since its count of unloads was |unloads| (NULL: not checked). */
BL_NODISCARD bl_status bl_models_publish(bl_models *models, bl_model_version *version, const uint64_t *unloads, bl_err *err);
/* Record that the version could not be loaded because of |why|.  A published version stays. */
void bl_models_publish_failure(bl_models *models, uint32_t owner, const char *name, uint64_t number, const bl_err *why);
/* Replace a version that was lost with a device by |version|, which moves in.  If the lost version was replaced or unloaded
 * meanwhile, |version| is released. */
void bl_models_mend(bl_models *models, bl_model_version *version);

/* ---- load_llm.c */
/* Import the language model at |path| in the folder of models into |program|; the version becomes a text model.  The values of
 * states are views into |mapped|. */
BL_NODISCARD bl_status bl_model_import_llm(bl_request *rq, bl_program *program, bl_model_version *version, const char *path,
                                           bl_mapped *mapped);

/* ---- load_onnx.c */
/* Import the ONNX model in |file| into |program|.  |mapped| NULL: the model came in a request, so there are no files beside
 * it. */
BL_NODISCARD bl_status bl_model_import_onnx(bl_request *rq, bl_program *program, bl_model_version *version, bl_span file,
                                            bl_mapped *mapped);

/* ---- uploaded.c */
/* Write the files that came with |op| to disk. */
BL_NODISCARD bl_status bl_sent_create(bl_server *server, const bl_model_op *op, bl_sent **out, bl_err *err);
/* The upload |file| that a row of the store names.  Succeeds even if the file cannot be read. */
BL_NODISCARD bl_status bl_sent_recall(bl_server *server, uint32_t owner, const char *file, bl_sent **out, bl_err *err);
const char *bl_sent_file(const bl_sent *sent); /* the name for a row of the store; NULL: the upload ends with the server */
void bl_sent_name(bl_sent *sent);              /* a row of the store names the upload; accepts NULL */
void bl_sent_forget(bl_sent *sent);            /* no row names the upload any more, so remove its file; accepts NULL */
bl_sent *bl_sent_retain(bl_sent *sent);        /* accepts NULL, like bl_sent_release */
void bl_sent_release(bl_sent *sent);
/* The files of the upload become the files of |op|, until |op| ends. */
BL_NODISCARD bl_status bl_sent_read(bl_sent *sent, bl_model_op *op, bl_err *err);

/* ---- choices.c */
/* Write the current choice for a model to the store.  May block. */
BL_NODISCARD bl_status bl_model_write_choice(bl_models *models, uint32_t owner, const char *name, bl_err *err);
/* Read the choices of the store: create the names, and order the jobs that load them. */
BL_NODISCARD bl_status bl_models_load_choices(bl_models *models, bl_err *err);

/* ---- promote_versions.c */
/* Make the version of |entry| (NULL: the only one, or "main") of *program, which moves in. */
BL_NODISCARD bl_status bl_model_fill_promoted(bl_model_version *version, bl_program **program, const char *entry, bl_err *err);

/* ---- kept_versions.c */
/* Write a version that was made of a program to the store, before it is published.  May block. */
BL_NODISCARD bl_status bl_model_keep(bl_model_version *version, bl_err *err);
/* Delete the rows of a model whose versions could not be loaded at the start. */
BL_NODISCARD bl_status bl_models_forget_lost(bl_models *models, uint32_t owner, const char *name, bl_err *err);
/* Release a version that was replaced or unloaded permanently, and delete its row of the store. */
void bl_model_version_retire(bl_model_version *version); /* accepts NULL */
BL_NODISCARD bl_status bl_models_load_kept(bl_models *models, bl_err *err);
/* Reload row |kept| in place of its published version; do nothing if the version is not published any more.  May block. */
BL_NODISCARD bl_status bl_models_mend_kept(bl_models *models, int64_t kept, bl_err *err);

/* ---- exact.c */
/* The exact plan for these sizes, retained.  NULL: only the general plan exists. */
bl_plan *bl_exact_get(const bl_model_version *version, bl_model_instance *instance, const int64_t *vars);
/* Is |plan| an exact plan?  Can the instance have exact plans? */
bool bl_exact_is(const bl_model_version *version, const bl_model_instance *instance, const bl_plan *plan);
bool bl_exact_is_possible(const bl_model_version *version, const bl_model_instance *instance);
/* Let a loader compile an exact plan, unless the instance has as many as it may have. */
void bl_exact_order(bl_model_version *version, bl_model_instance *instance, int64_t rows);
/* Claim the compilation of an exact plan for a caller that compiles at once.  False: do not compile. */
bool bl_exact_claim(bl_model_version *version, bl_model_instance *instance, int64_t rows);
/* Begin the compilation on a compile thread.  rq->own.done is called at its end; then call bl_exact_answer. */
BL_NODISCARD bl_status bl_exact_begin(bl_request *rq, bl_model_version *version, bl_model_instance *instance, int64_t rows);
/* The compilation has ended: the plan exists, or could not be made. */
void bl_exact_answer(bl_model_version *version, bl_model_instance *instance, int64_t rows);

/* ---- version.c */
bl_model_version *bl_model_version_create(bl_models *models, uint32_t owner, const char *name, uint64_t number);
bl_model_version *bl_model_version_retain(bl_model_version *version);
void bl_model_version_release(bl_model_version *version); /* accepts NULL */
void bl_model_version_release_any(void *version);
/* All instances exist: fill the description of the inputs and outputs. */
BL_NODISCARD bl_status bl_model_version_describe(bl_model_version *version, bl_err *err);
void bl_model_version_put_config(const bl_model_version *version, bl_text *out);
void bl_model_version_put_metadata(const bl_model_version *version, const bl_model *model, bl_text *out);
size_t bl_model_version_bytes(const bl_model_version *version); /* bytes of device memory of its states, on all devices */

#endif
