/* SPDX-License-Identifier: MIT */
/* Between the files of hosted models.
 * Lock order: a request's peer, bl_models.writing, bl_models.lock, then the locks of batchers.  No thread waits under one of
 * them. */
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

/* What a tensor of BYTES is in the program, where that is not bytes. */
typedef enum bl_model_coding {
    BL_MODEL_PLAIN,
    BL_MODEL_PICTURE, /* of an input: the pixels [height, width, 3] of an encoded picture */
    BL_MODEL_STRINGS  /* int64, numbers of texts: see strings.c */
} bl_model_coding;

/* An input or output as a client sees it, the dimension of batches included. */
typedef struct bl_model_tensor {
    const char *name;
    int datatype; /* of the protocol: BYTES where the model takes or gives the bytes of texts, padded with zeros */
    bl_dtype dtype;
    bl_model_coding coding;    /* BYTES that the program has in another form */
    int ndim;                  /* of the program; see bl_model_tensor_rank */
    int64_t dim[16];           /* -1: varies */
    int var[16];               /* of an input: the named dimension, or -1 */
    const char *const *labels; /* of an output: names of its classes, or NULL */
    size_t nlabels;
    bool keyed; /* |labels| are the keys of maps: what the model gives is not to be understood without them */
} bl_model_tensor;

/* As a client sees it: the bytes of a text are no dimension, and a picture is one value. */
static inline int bl_model_tensor_rank(const bl_model_tensor *tensor)
{
    bool bytes = tensor->datatype == BL_INFER_BYTES && tensor->coding == BL_MODEL_PLAIN;
    return tensor->coding == BL_MODEL_PICTURE ? tensor->ndim - 3 : tensor->ndim - bytes;
}

/* What the files of a version are: model.json, model.onnx, or a language model (proto/llm). */
typedef enum bl_model_form { BL_MODEL_PROGRAM, BL_MODEL_ONNX, BL_MODEL_LLM } bl_model_form;

/* The program on one device. */
typedef struct bl_model_instance {
    bl_batch_slot slot;                 /* first member: bl_batch_slot * converts */
    _Atomic(bl_plan *) exact[BL_SIZES]; /* for 2^i rows and no others; NULL, or there for good */
    struct bl_pages *pages;             /* of a text model with keys and values in pages (pages.h); else NULL */

    /* worker's thread */
    double token_ns; /* the time for a token of a prompt; 0: not known */
    double write_ns; /* the time of a run in which texts write one token each; likewise */
} bl_model_instance;

typedef struct bl_infer bl_infer;
typedef struct bl_answers bl_answers;
typedef struct bl_text_model bl_text_model;
typedef struct bl_text_input bl_text_input;
typedef struct bl_sent bl_sent;

/* Counted.  Constant once it serves, but for what counts and gathers. */
typedef struct bl_model_version bl_model_version;
struct bl_model_version {
    atomic_int refs;
    bl_models *models;
    uint32_t owner;
    char name[BL_MODEL_NAME_SIZE];
    uint64_t number, fingerprint;
    int64_t created; /* seconds since 1970 */
    uint64_t purges; /* of its owner, when it was begun */
    int64_t kept;    /* made of a program: its row in the store; 0: it is none, or goes with the server */
    bl_sent *sent;   /* its files, which came in a request; NULL: they are in the folder, or not to be had again */
    bl_model_form form;
    const char *path; /* of a language model, as in bl_source_version; else NULL */
    const char *platform;
    bl_arena *arena;
    bl_model_config config;
    const bl_onnx_port *input_ports, *output_ports; /* where the model has them in another form than the program, or NULL */
    bl_texts texts;                                 /* that an ONNX model knows by their numbers */
    int nranges;                                    /* of an ONNX model: its named dimensions, as the import chose their ranges */
    bl_onnx_range *ranges;
    int narrowed; /* how often a device could not have the largest sizes */
    int noutputs;
    bl_model_tensor *inputs, *outputs; /* of inputs as many as the batcher says */
    int nshown;
    const bl_model_tensor *shown; /* inputs as clients know them: the same, but where texts are made tokens of */
    int ninstances;
    bl_model_instance *instances;
    bl_model_statistics statistics;
    bl_batcher batcher;
    bl_answers *answers; /* NULL: none are kept */
    int64_t mended_ns;   /* looker's thread: when it was last loaded again for a device that was lost or drained */
    unsigned placed;     /* looker's thread: server->drain.count, when its devices were last the right ones */
    bool sequential;     /* its entry updates state: requests belong to sequences */
    pthread_mutex_t sequence_lock;
    bl_namemap *sequences; /* "OWNER ID"; under that lock */
    bl_text_model *text;   /* arena; NULL: it writes no texts */
    bl_text_input *words;  /* arena; NULL: it takes none */
};

typedef enum bl_model_state { BL_MODEL_UNAVAILABLE, BL_MODEL_LOADING, BL_MODEL_READY, BL_MODEL_UNLOADING } bl_model_state;

/* A version, there or not. */
typedef struct bl_model_row {
    uint64_t number;
    bl_model_state state;
    char reason[BL_MODEL_REASON];
    bl_model_version *version; /* retained; NULL unless it can be asked */
} bl_model_row;

/* Which inferences are traced, as clients set it.  Zeroed: as the server's settings say. */
typedef struct bl_model_tracing {
    enum { BL_TRACING_UNSET, BL_TRACING_OFF, BL_TRACING_ON } level;
    uint64_t rate; /* one of so many; 0: not set */
    bool counted;  /* |count| is set */
    int64_t count; /* so many more; below 0: without end */
} bl_model_tracing;

/* What a request decided last about a name. */
typedef enum bl_model_choice { BL_CHOICE_NONE, BL_CHOICE_LOADED, BL_CHOICE_UNLOADED } bl_model_choice;

/* A name; under bl_models.lock. */
typedef struct bl_model {
    char name[BL_MODEL_NAME_SIZE];
    uint32_t owner;
    bool wanted;          /* to be loaded again where its files change */
    bool loading;         /* a loader is at it */
    bool admitted;        /* and it counts among those of its owner */
    uint64_t fingerprint; /* of its files when they were last tried */
    uint64_t seen;        /* at the last look */
    char *config;         /* that a load gave in place of the file's, or NULL */
    bl_model_choice choice;
    bl_sent *sent, *stored; /* of a choice: its files (NULL: they are in the folder), and those that the store names; retained */
    uint64_t unloads;       /* by requests */
    char reason[BL_MODEL_REASON]; /* why it has no rows */
    bl_model_tracing tracing;
    uint64_t asked; /* inferences, of those that a setting decides about */
    int nrows;
    bl_model_row *rows; /* oldest first */
} bl_model;

/* A file that came with a request. */
typedef struct bl_model_file {
    uint64_t version;
    const char *name;
    bl_span data;
} bl_model_file;

/* Something for the loaders to do. */
typedef struct bl_model_op bl_model_op;
struct bl_model_op {
    bl_model_op *next;
    uint32_t owner;
    char name[BL_MODEL_NAME_SIZE];
    char *config; /* heap; NULL: the file's */
    int nfiles;   /* 0: from the folder */
    bl_model_file *files;
    bl_arena *arena; /* of the files; NULL without */
    size_t charged;  /* of the server's memory, for them */
    bl_sent *sent;   /* retained: they are those, |mapped|; else NULL */
    bl_mapped mapped;
    bl_request *rq; /* that waits, or NULL; under the lock */
    bool taken, initial;
    bool told;       /* the row of a version has the reason of its failure */
    bool asked;      /* by a request, which may have gone: it decides what is there after a restart */
    uint64_t purges; /* of its owner, when it was asked for */
    bool mends;      /* what was lost with a device; what else has the name stays as it is */
    int64_t kept;    /* so is that, and nothing else: a version that was made of a program, by its row in the store; else 0 */
    bl_model_version *version; /* retained: nothing is to be loaded, but a plan made for runs of |rows| on this instance of it */
    bl_model_instance *instance;
    int64_t rows;
};

/* What can be loaded under a name. */
typedef struct bl_source_version {
    uint64_t number, fingerprint;
    int64_t kept; /* made of a program: its row in the store; 0: it goes with the server */
    bl_model_form form;
    const char *path; /* of a language model in the folder of models: a file or a folder there; else NULL */
} bl_source_version;

typedef struct bl_source {
    bool found;
    bl_span config; /* data NULL: there is none */
    uint64_t fingerprint;
    int nversions; /* ascending */
    bl_source_version *versions;
} bl_source;

struct bl_models {
    bl_server *server;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an op is there, one is through, or a loader's own request came back */
    bl_namemap *names;      /* "OWNER NAME" to bl_model */
    bl_model_op *first_op;
    bl_request *own[BL_MODEL_MOST_LOADERS]; /* that a loader waits for */
    bool back[BL_MODEL_MOST_LOADERS];
    bl_model_tracing tracing; /* of all models */
    int nstart, to_start;     /* ops of the start, and those of them that are not through */
    int64_t last_kept;        /* the last row of versions at the start: those after it are all known here */
    pthread_mutex_t writing;  /* before the other lock: held while the store is brought to what the registry says */
    bool stop;
    int nthreads;
    pthread_t thread[BL_MODEL_MOST_LOADERS], looker;
    bool looks;           /* that thread is there */
    pthread_cond_t clock; /* it waits */
    bool woken;
    bool asked;                     /* to look at the folder now */
    atomic_int generations;         /* texts that are not over */
    struct bl_completion *streamed; /* requests that stream texts, for pings; under the lock */
};

/* ---- models.c */
bool bl_model_name_ok(const char *name);
/* Under the lock; NULL where there is none.  Exactly that owner's. */
bl_model *bl_models_find(bl_models *models, uint32_t owner, const char *name);

/* All rows of all models, and each model without rows once, with |row| NULL.  Zeroed, it stands before the first one. */
typedef struct bl_model_rows {
    const bl_model *model;
    const bl_model_row *row;
    bl_model_version *version; /* of |row|; NULL unless it can be asked */
    size_t next_model;
    int next_row;
} bl_model_rows;
/* False after the last one.  Under models->lock, which is held from the first call to the last. */
bool bl_model_rows_next(bl_models *models, bl_model_rows *it);
/* The same, made where it is missing; NULL without memory. */
bl_model *bl_models_need(bl_models *models, uint32_t owner, const char *name);
/* Under the lock: the row of a version, or NULL. */
bl_model_row *bl_model_find_row(bl_model *model, uint64_t number);
/* The model and version in the request's path, retained until the request ends.  Its own names first, then everybody's. */
BL_NODISCARD bl_status bl_model_get(bl_request *rq, bl_model_version **out);
/* Take an op over, on failure too.  The loaders finish its request. */
BL_NODISCARD bl_status bl_models_order(bl_models *models, bl_model_op *op, bl_err *err);
bl_model_op *bl_model_op_create(uint32_t owner, const char *name); /* NULL if out of memory */
void bl_model_op_destroy(bl_models *models, bl_model_op *op);
/* Is a model of the folder loaded without being asked for? */
bool bl_models_is_chosen(const bl_models *models, const char *name);
/* Have the looker see what waits for the clock. */
void bl_models_wake(bl_models *models);
/* Forget all versions, for good, and what is being loaded now is refused; BL_ENOTFOUND where there is nothing to forget. */
BL_NODISCARD bl_status bl_models_unload(bl_models *models, uint32_t owner, const char *name, bl_err *err);
/* The same because its folder is gone, which nobody decided. */
BL_NODISCARD bl_status bl_models_withdraw(bl_models *models, const char *name, bl_err *err);
/* Names of |owner| that stand for nothing go. */
void bl_models_forget_names(bl_models *models, uint32_t owner);
/* Is there room for |name| among the names of |owner|?  Names that stand for nothing make some.  BL_ENODEVMEM: no. */
BL_NODISCARD bl_status bl_models_admit(bl_models *models, uint32_t owner, const char *name, bl_err *err);

/* ---- model_handlers.c */
/* May |owner| see it: its own, and what is everybody's unless its own has that name.  Under the lock. */
bool bl_model_is_seen(bl_models *models, uint32_t owner, const bl_model *model);

/* ---- source.c */
const char *bl_models_folder(const bl_models *models); /* NULL: there is none */
/* What the folder has of |name|.  A folder that is not there is no failure, but not found. */
BL_NODISCARD bl_status bl_source_look(bl_models *models, bl_arena *arena, const char *name, bl_source *out, bl_err *err);
/* Is there a folder of that name? */
bool bl_source_has(bl_models *models, const char *name);
/* "1/model.json": the version, and which of the files that there may be; false: it is none. */
bool bl_model_file_parse(const char *text, bl_model_file *out);
/* The same of the files of a request. */
BL_NODISCARD bl_status bl_source_of_files(bl_arena *arena, const bl_model_op *op, bl_source *out, bl_err *err);
/* The whole of the open file |fd|, |file| in errors, in the request's memory. */
BL_NODISCARD bl_status bl_source_read_open(bl_request *rq, int fd, const char *file, bl_span *out);
/* A whole file, in the request's memory; data NULL where it is missing. */
BL_NODISCARD bl_status bl_source_read(bl_request *rq, const char *model, uint64_t version, const char *file, bl_span *out);
/* Call |each| for every name in the folder that could be a model's. */
void bl_source_each(bl_models *models, void (*each)(void *arg, const char *name), void *arg);

/* The lines of a file beside config.json, in the arena. */
BL_NODISCARD bl_status bl_source_read_lines(bl_models *models, const char *model, const char *file, bl_arena *arena,
                                            const char *const **lines, size_t *count, bl_err *err);
bool bl_source_is_there(bl_models *models);

/* ---- tracing.c */
/* Under the lock: is this inference traced, where its client did not decide? */
void bl_model_trace(bl_models *models, bl_model *model, bl_request *rq);

/* ---- poll.c: the looker's thread */
void bl_models_poll(bl_models *models);
/* Have what was lost with a device loaded again, when that is open, and elsewhere what is on one that is drained. */
void bl_model_version_mend(bl_model_version *version, int64_t now_ns);

/* ---- warm.c */
/* Run |warmup| on the instance: |rq| goes into its device's queue. */
BL_NODISCARD bl_status bl_model_warm(bl_request *rq, bl_model_version *version, bl_model_instance *instance,
                                     const bl_config_warmup *warmup);

/* ---- place.c */
/* At most BL_MOST_INSTANCES, each another; NULL: where the program wants it, or the best one. */
BL_NODISCARD bl_status bl_model_place(bl_server *server, const bl_model_config *config, bl_worker **out, int *count, bl_err *err);

/* ---- ranges.c */
/* Keep the ranges that the import of an ONNX model chose, for the instances that follow and for who is asked about them. */
BL_NODISCARD bl_status bl_model_keep_ranges(bl_model_version *version, const bl_onnx_model *model, bl_err *err);
/* The first instance could not be made, as |why| says: where that is a limit of the device, take less of a dimension whose range
 * the configuration does not say.  False: that is not the reason, or there is nothing to take. */
bool bl_model_narrow_ranges(bl_model_version *version, const bl_err *why);

/* ---- load.c */
/* The entry that the configuration chooses, of instance->program. */
BL_NODISCARD bl_status bl_model_fill_instance(bl_model_version *version, bl_model_instance *instance, bl_err *err);
/* From now on its number is |version|, which moves in.  Not where its owner was purged since it was begun, or, |unloads| (or
 * NULL) says how often its model had been unloaded then, where it was so again. */
BL_NODISCARD bl_status bl_models_publish(bl_models *models, bl_model_version *version, const uint64_t *unloads, bl_err *err);
/* It could not be had, as |why| says; what is there stays. */
void bl_models_publish_failure(bl_models *models, uint32_t owner, const char *name, uint64_t number, const bl_err *why);
/* Of what was lost with a device: |version|, which moves in, takes the place of the one that came from where it did.  Where that
 * was replaced or unloaded meanwhile nobody wants it. */
void bl_models_mend(bl_models *models, bl_model_version *version);
void bl_model_load(bl_models *models, int loader, bl_model_op *op, bl_err *err);

/* ---- load_llm.c */
/* The language model at |path| in the folder of models as |program|, and the version becomes a text model.  Values of states are
 * views into |mapped|. */
BL_NODISCARD bl_status bl_model_import_llm(bl_request *rq, bl_program *program, bl_model_version *version, const char *path,
                                           bl_mapped *mapped);

/* ---- load_onnx.c */
/* The ONNX model in |file| likewise.  |mapped| NULL: the model came in a request, and no files lie beside it. */
BL_NODISCARD bl_status bl_model_import_onnx(bl_request *rq, bl_program *program, bl_model_version *version, bl_span file,
                                            bl_mapped *mapped);

/* ---- uploaded.c */
/* The files that came with |op|, written down. */
BL_NODISCARD bl_status bl_sent_create(bl_server *server, const bl_model_op *op, bl_sent **out, bl_err *err);
/* Those that a row of the store names |file|, whether they can be read or not. */
BL_NODISCARD bl_status bl_sent_recall(bl_server *server, uint32_t owner, const char *file, bl_sent **out, bl_err *err);
const char *bl_sent_file(const bl_sent *sent); /* for a row; NULL: it ends with the server */
void bl_sent_name(bl_sent *sent);              /* there is one; both accept NULL */
void bl_sent_forget(bl_sent *sent);            /* there is none any more: the file goes */
bl_sent *bl_sent_retain(bl_sent *sent);        /* both accept NULL */
void bl_sent_release(bl_sent *sent);
/* They are those of |op|, until that ends. */
BL_NODISCARD bl_status bl_sent_read(bl_sent *sent, bl_model_op *op, bl_err *err);

/* ---- choices.c */
/* Have the store say what the registry does of a model.  A thread that may wait. */
BL_NODISCARD bl_status bl_model_write_choice(bl_models *models, uint32_t owner, const char *name, bl_err *err);
/* And back: names, and ops for those that are to be loaded. */
BL_NODISCARD bl_status bl_models_load_choices(bl_models *models, bl_err *err);

/* ---- promote_versions.c */
/* The version is |entry| (NULL: the only one, or "main") of *program, which moves in. */
BL_NODISCARD bl_status bl_model_fill_promoted(bl_model_version *version, bl_program **program, const char *entry, bl_err *err);

/* ---- kept_versions.c */
/* Write down a version that is made of a program, before it is published.  A thread that may wait. */
BL_NODISCARD bl_status bl_model_keep(bl_model_version *version, bl_err *err);
/* What was written of a model and did not come back at the start goes too. */
BL_NODISCARD bl_status bl_models_forget_lost(bl_models *models, uint32_t owner, const char *name, bl_err *err);
/* It was replaced or unloaded, and does not come back: what bl_model_version_release does, and what was written goes. */
void bl_model_version_retire(bl_model_version *version); /* accepts NULL */
BL_NODISCARD bl_status bl_models_load_kept(bl_models *models, bl_err *err);
/* Row |kept| once more, in place of the version that is its; none, where that is not there any more.  A thread that may wait. */
BL_NODISCARD bl_status bl_models_mend_kept(bl_models *models, int64_t kept, bl_err *err);

/* ---- exact.c */
/* The plan for runs of just these sizes, retained; NULL: there is none but that for any. */
bl_plan *bl_exact_get(const bl_model_version *version, bl_model_instance *instance, const int64_t *vars);
/* Is |plan| such a one?  Can there be any? */
bool bl_exact_is(const bl_model_version *version, const bl_model_instance *instance, const bl_plan *plan);
bool bl_exact_is_possible(const bl_model_version *version, const bl_model_instance *instance);
/* Have a loader make it, unless it would take more memory than it is worth. */
void bl_exact_order(bl_model_version *version, bl_model_instance *instance, int64_t rows);
/* For who makes it at once: is it to be made? */
bool bl_exact_claim(bl_model_version *version, bl_model_instance *instance, int64_t rows);
/* Begin to make it, on a compile thread; rq->own.done follows, and then bl_exact_answer. */
BL_NODISCARD bl_status bl_exact_begin(bl_request *rq, bl_model_version *version, bl_model_instance *instance, int64_t rows);
/* It is there, or could not be made. */
void bl_exact_answer(bl_model_version *version, bl_model_instance *instance, int64_t rows);

/* ---- version.c */
bl_model_version *bl_model_version_create(bl_models *models, uint32_t owner, const char *name, uint64_t number);
bl_model_version *bl_model_version_retain(bl_model_version *version);
void bl_model_version_release(bl_model_version *version); /* accepts NULL */
void bl_model_version_release_any(void *version);
/* All instances are there: what do they take and give? */
BL_NODISCARD bl_status bl_model_version_describe(bl_model_version *version, bl_err *err);
void bl_model_version_put_config(const bl_model_version *version, bl_text *out);
void bl_model_version_put_metadata(const bl_model_version *version, const bl_model *model, bl_text *out);
size_t bl_model_version_bytes(const bl_model_version *version); /* device memory of its state, on all devices */

#endif
