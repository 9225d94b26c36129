/* SPDX-License-Identifier: MIT */
/* Between the files of the jobs.
 *
 * Lock order: jobs->lock, then a stream's.  It is held for moments, never across a device call, the store or a file.  A job's
 * slice runs on its worker's thread, one at a time; what is written down goes through jobs->writer, one thread for all jobs. */
#ifndef BL_SERVER_JOBS_INTERNAL_H
#define BL_SERVER_JOBS_INTERNAL_H

#include "proto/safetensors.h"
#include "server/exec.h"
#include "server/jobs/jobs.h"
#include "server/names.h"
#include "server/stream.h"

#include <pthread.h>

#define JOB_PURGED    "its key was purged"
#define JOB_EVALUATE  "evaluate."              /* before the names of an evaluation's columns and inputs */
#define JOB_EVALUATOR "evaluation.safetensors" /* the file of another program that evaluates */

typedef struct bl_job bl_job;
typedef struct job_listener job_listener;

enum {
    JOB_ID = 33,     /* 128 random bits, and a NUL */
    JOB_RING = 1024, /* reports in memory, from which streams resume */
    JOB_REASON = 700 /* a bl_err's text and some words */
};

/* As DB and wire say it, in this order; those from DONE on are final. */
typedef enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELLED } job_state;
extern const char *const job_state_names[];

/* What was measured after a step: a cell for each column of the job, separated by tabs, as JSON writes them; an empty one was not
 * measured. */
typedef struct job_report {
    uint64_t step;
    double time; /* seconds since 1970 */
    char *cells;
} job_report;

/* The reports of a job in the store (history.c). */
typedef struct job_history {
    uint64_t bytes;            /* that are there */
    uint64_t every, evaluated; /* steps between kept reports: of the trained entry, and of the evaluation; 0: the job has none */
    bool known, thinned;       /* known: |every| and |evaluated| are set; thinned: one of them is more than the job asks for */
    char refused[384];         /* why the last reports were left out; "": they were kept */
} job_history;

/* An entry of a program with its inputs. */
typedef struct job_part {
    const bl_program_entry *entry;
    bl_plan *plan;
    int64_t *vars;
    int ninputs;
    bl_held **inputs;
    bl_buffer **buffers, **states, **outputs; /* worker's thread; those of the inputs while it runs */
    uint64_t every;
    int ncollect;
    int *collect;
    int nstates, *state; /* which of the program each of the plan's is; below zero: of the job's own, or the evaluator's */
    int column;          /* of the first of |collect| */
} job_part;

/* Another program that evaluates what is trained, as it was when the job was submitted. */
typedef struct job_evaluator {
    const char *name;    /* NULL: there is none, the trained one has the entry */
    bl_program_doc doc;  /* of that entry alone; arena */
    bl_program *from;    /* the program, retained by the request, until what only it has was taken; else NULL */
    int entry;           /* of |from| */
    int nown;            /* states that the trained program does not have */
    bl_wire_tensor *own; /* arena */
    bl_held **held;      /* their values; arena */
} job_evaluator;

/* State as it was after |step|, on its way to the disk. */
typedef struct job_snapshot {
    bool ready;             /* it is the writer's */
    uint64_t step, waiting; /* and what an early stop remembers */
    uint64_t program_steps; /* that the program then had */
    bool measured;
    double best;
    bl_buffer **buffers; /* retained: whoever runs the next step leaves them as they are */
    char **copies;       /* of those that the host does not see */
    size_t copied;       /* bytes, of the server's budget */
} job_snapshot;

/* A checkpoint that is there. */
typedef struct job_mark {
    uint64_t step, bytes;
    double time;
} job_mark;

struct bl_job {
    atomic_int refs;
    bl_jobs *jobs;
    bl_arena *arena; /* of what is constant */

    /* constant once others know the job */
    char id[JOB_ID];
    uint32_t owner;
    const char *program_name, *entry_name, *device;
    const char *document; /* as JSON, with the types of its inputs; NULL: it is in the file of the request */
    uint64_t steps;
    bool starved; /* of something that its key lacks; under the lock */
    int priority;
    bl_job_checkpoint rule;
    bl_job_stop stop;
    int stop_column;
    int nmetrics, ncolumns; /* those of |train|, then those of |evaluation| */
    const char **columns;
    double created;

    /* what it runs with: set before it is first scheduled, and gone when it has ended */
    bl_program *program;
    bl_worker *worker;
    bl_training training;
    bl_plan *gather; /* of passes before the last of a step; NULL: a step is one */
    int nown;
    bl_state *own; /* what only this job's plans remember: sums of gradients, the scale of the loss */
    size_t charged;
    job_part train, evaluation; /* evaluation.every 0: there is none */
    job_evaluator evaluator;
    bl_request *slice, *write; /* of the server's own */

    /* worker's thread */
    uint64_t done, pace, from; /* from: done when the slice began */
    int64_t checkpoint_ns;     /* when the last one was taken */
    char **cells;              /* of the report at hand */
    char **held_copies;        /* of those by job_held_at that the host does not see; until they are written */
    size_t copied;             /* bytes of those, of the server's budget */
    bool snapped;              /* by this slice */
    bool stops;                /* early */
    uint64_t waiting;          /* reports since the best */
    double best;
    bool measured; /* there is a best */

    atomic_bool cancel;
    atomic_bool purged; /* with its key: it is being cancelled, and leaves nothing */

    /* under jobs->lock */
    job_state state, becomes; /* becomes: final, once that is written down; else QUEUED */
    char reason[JOB_REASON], because[JOB_REASON];
    char warning[JOB_REASON];                                           /* of the last checkpoint; empty: it was written */
    bool at_work, writing, wants_checkpoint, restoring, active, claims; /* claims: program->claim is its own */
    bool sealed;                                                        /* how it ends is in the store */
    bool unsent;                                                        /* |writing|, but the writer could not be told yet */
    uint64_t step, written;                                             /* written: of the last checkpoint */
    double started, ended;
    int restarts;
    bool lost;    /* with its device, or a server: it is to be taken up, as soon as nothing is at work for it and that is open */
    bool moved;   /* since its device is drained */
    bool taken;   /* that is under way */
    size_t need;  /* host memory that it takes for that, about, as far as that is known */
    int refusals; /* for want of memory, without a step between them */
    bool doubted; /* it was submitted to this server and has not made a step: there may never be enough for one */
    int64_t again_ns; /* not before */
    int losses;       /* how often, since the server was started */
    uint64_t resumed; /* the step of the last restart */
    int64_t mark_ns;
    uint64_t mark_step;
    double rate;
    uint64_t nreports, flushed; /* ever; flushed: of those, in the store */
    job_report ring[JOB_RING];
    job_history history; /* the writer's thread; all members but |bytes| change under the lock */
    int nmarks, marks_cap;
    job_mark *marks;  /* checkpoints that are there, the oldest first */
    unsigned changes; /* of state, ever */
    job_listener *listeners;
    job_snapshot snapshot; /* the slice's, then the writer's: whoever |writing| says */
};

struct bl_jobs {
    bl_server *server;
    bl_queue *writer;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* also wakes the thread */
    bl_namemap *names;      /* by id, each retained */
    pthread_t thread;
    bool started, stop;
    atomic_bool draining;
    atomic_int nrestoring; /* jobs that are being taken up, or wait for that */
    int taken;             /* under the lock: how many of them are at it, and what they need together */
    size_t needed;
    char *folder; /* NULL: nothing is kept on disk */
};

/* ---- jobs.c */
bl_job *job_create(bl_jobs *jobs); /* NULL if out of memory */
bl_job *job_retain(bl_job *job);
void job_release(bl_job *job); /* accepts NULL */
void job_release_any(void *job);
BL_NODISCARD bl_status job_find(bl_request *rq, bl_job **out); /* of the path and the owner; retained until the request ends */
BL_NODISCARD bl_status job_find_to_read(bl_request *rq, bl_job **out); /* also one that is shared with the owner: "alice:ID" */
/* Known from now on; writer's thread.  BL_ENODEVMEM where its owner has too many that have not ended. */
BL_NODISCARD bl_status job_add(bl_job *job, bl_err *err);
void job_remove(bl_job *job); /* not any more */
/* Of those that have ended the oldest go, as many as |owner| has too many; writer's thread. */
void jobs_drop_oldest(bl_jobs *jobs, uint32_t owner);
static inline bool job_is_final(const bl_job *job)
{
    return job->state >= JOB_DONE;
}
/* Under the lock: another state, and all who listen learn of it. */
void job_change(bl_job *job, job_state state, const char *reason);
void job_become_cancelled(bl_job *job); /* under the lock: when that is written down */
void job_wake(bl_job *job);             /* under the lock */
void job_start(bl_job *job);            /* it is known, and all is there: its steps begin */
/* Under the lock: is a job up, or on its way, but |but| (NULL: any), that gives memory back when it ends? */
bool jobs_any_up(bl_jobs *jobs, const bl_job *but);
/* Give slices to those that may have one.  Without the lock. */
void jobs_schedule(bl_jobs *jobs);
double job_now(void); /* seconds since 1970 */
/* It ends without another step, for the reason in |err|, once that is written down. */
void job_fail(bl_job *job, const bl_err *err);
void job_end_taking(bl_job *job); /* under the lock: it is over, or waits */
/* Under the lock: is its program what it leaves, if it ends so? */
bool job_leaves(const bl_job *job);
/* Under the lock: it ends, and its last checkpoint is of that very step, so that only the end is left to be written. */
bool job_is_to_seal(const bl_job *job);
/* Under the lock: it becomes what it is to become; no slice is at work and nothing is being written, nor will be. */
void job_end(bl_job *job);
/* Of one whose key was purged: the program that it was taken up with goes from the shelf. */
void job_take_away(bl_job *job);
void job_let_go(bl_job *job); /* after that, without the lock: of its program, inputs and plans */
void job_free_means(
    bl_job *job); /* of those alone: it goes on with others.  Nothing is at work for it, and nothing being written */

/* ---- plans.c */
typedef struct job_loaded job_loaded;
/* Compile thread: the plans that the program does not have, with the kernels that |as| names (NULL: the best ones), for as long
 * as |halt|, which outlives the call, lets it. */
BL_NODISCARD bl_status job_make_plans(bl_job *job, const job_loaded *as, const bl_halt *halt, bl_err *err);
BL_NODISCARD bl_status job_begin_own(bl_job *job, bl_request *rq); /* worker's thread: job->own begins */
void job_end_own(bl_job *job);
bl_state *job_state_at(bl_job *job, int at);                        /* of the program, or, below zero, the job's own */
void job_put_options(const bl_plan_options *options, bl_text *out); /* those that decide what kernels compute */

/* ---- begin.c */
int job_count_held(const bl_job *job);          /* inputs of both parts, then what only the program that evaluates has */
bl_held *job_held_at(const bl_job *job, int i); /* borrowed; NULL: not there yet */
BL_NODISCARD bl_status job_flush_held(bl_job *job, bl_err *err);    /* worker's thread: they can be used from then on */
BL_NODISCARD bl_status job_make_requests(bl_job *job, bl_err *err); /* slice and write */
/* Decode rq's body as a job of |program| into |job|, its inputs on their way to the device: rq->data is the bl_exec then. */
BL_NODISCARD bl_status job_prepare(bl_request *rq, bl_job *job, bl_exec **out);
void job_take_inputs(bl_job *job, const bl_exec *x); /* when they are there */
void job_unclaim(bl_job *job);                       /* its program is everybody's again */
void job_drop_copies(bl_job *job);                   /* of those by job_held_at */

/* ---- evaluator.c */
/* The document that |name| (NULL: the trained program) stands for; job->program is there. */
BL_NODISCARD bl_status job_find_evaluator(bl_exec *x, bl_job *job, const char *name, const bl_program_doc **out);
/* From now on job->evaluator has entry |entry| of it, whatever becomes of the program. */
BL_NODISCARD bl_status job_keep_evaluator(bl_job *job, const bl_program_doc *doc, int entry, bl_err *err);
/* Compile thread: the plan of a job that is taken up, where another program evaluates. */
BL_NODISCARD bl_status job_plan_evaluator(bl_exec *x, bl_job *job, bl_err *err);
/* Compile thread, with the plan: which states of the evaluation are the trained ones. */
BL_NODISCARD bl_status job_link_evaluation(bl_job *job, bl_err *err);
/* Worker's thread, between two runs of job->evaluator.from: what only that has. */
BL_NODISCARD bl_status job_take_evaluator(bl_job *job, bl_err *err);
void job_end_evaluator(bl_job *job);
/* Worker's thread: the buffers of the evaluation's states, of the trained program and of the one that evaluates, which stay on
 * the device until they are dropped, also after a failure. */
BL_NODISCARD bl_status job_hold_evaluated(bl_job *job, bl_err *err);
void job_drop_evaluated(bl_job *job);

/* ---- slice.c */
bl_step job_slice(bl_request *rq); /* the work of job->slice, whose |own| the job is */
void job_sliced(bl_request *rq);   /* and what follows it */
/* Take a snapshot of the program's state; worker's thread, no slice at work. */
BL_NODISCARD bl_status job_snap(bl_job *job, bl_err *err);
void job_drop_snapshot(bl_job *job);

/* ---- report.c */
/* The outputs of |part| after |step|, into the cells of the report at hand; with |last|, the report is whole. */
BL_NODISCARD bl_status job_measure(bl_job *job, const job_part *part, bl_buffer *const *outputs, bl_err *err);
BL_NODISCARD bl_status job_report_end(bl_job *job, uint64_t step, bl_err *err);
/* BL_ELIMIT where a report would be too large. */
BL_NODISCARD bl_status job_check_reports(const bl_job *job, bl_err *err);
const job_report *job_report_after(const bl_job *job, uint64_t step); /* under the lock; NULL: none yet */
void job_report_put(bl_job *job, job_report report);                  /* takes it; under the lock */
void job_forget_reports(bl_job *job);                                 /* those in memory; under the lock */
/* "metrics":{...} and "evaluation":{...} */
void job_report_write(const bl_job *job, const job_report *report, bl_text *out);

/* ---- describe.c */
void job_describe(bl_job *job, bl_text *out); /* under the lock */

/* ---- events.c */
void job_ping(bl_job *job); /* under the lock: a sign of life to who has heard nothing for a while */

/* ---- write.c: the writer's thread */
bl_step job_write(bl_request *rq);
void job_written(bl_request *rq);
bool job_add_mark(bl_job *job, job_mark mark); /* under the lock; false if out of memory */
/* job->writing is set; any thread.  False: there is no memory, and the next tick tries again. */
bool job_submit_write(bl_job *job);
/* What was asked for, with the types of the inputs in place of their values. */
void job_put_document(const char *request, const bl_file_tensor *inputs, size_t ninputs, bl_text *out);
/* Reports that are not in the store yet. */
BL_NODISCARD bl_status job_flush(bl_job *job, bl_err *err);

/* ---- keep.c: files; the writer's thread */
BL_NODISCARD bl_status job_keep_first(bl_job *job, bl_err *err); /* all of it, or nothing */
BL_NODISCARD bl_status job_forget(bl_job *job, bl_err *err);     /* its rows and files, and it is not known any more */
BL_NODISCARD bl_status job_write_checkpoint(bl_job *job, uint64_t *bytes, bl_err *err);
void jobs_sweep(bl_jobs *jobs); /* files that a sudden end left behind */
void job_remove_checkpoint(const bl_job *job, uint64_t step);
size_t job_need(const bl_job *job); /* host memory to take it up: about, and at most on devices whose memory that is */
/* In its folder; freed by the caller; NULL: nothing is kept. */
char *job_path(const bl_job *job, const char *name);
char *job_checkpoint_path(const bl_job *job, uint64_t step, bool own); /* own: of the job's own states */

/* ---- rows.c; any thread but a device's */
BL_NODISCARD bl_status job_insert(bl_job *job, uint64_t bytes, bl_err *err); /* with its first checkpoint, of |bytes| */
BL_NODISCARD bl_status job_delete_rows(bl_job *job, bl_err *err);
/* How it stands, reports from |first| to |last|, and a checkpoint (NULL: none), all at once. */
typedef struct job_row {
    job_state state;
    const char *reason;
    uint64_t step;
    double started, ended;
    int restarts;
    const job_mark *mark;
    int ndropped; /* checkpoints that go */
    const uint64_t *dropped;
    uint64_t first, last;
    bool leaves; /* its program is what it left, until somebody replaces it */
} job_row;
BL_NODISCARD bl_status job_update(bl_job *job, const job_row *row, bl_err *err);
/* Reports from step |from| on, at most |most|, until |each| returns false. */
BL_NODISCARD bl_status job_each_report(bl_job *job, uint64_t from, uint64_t most,
                                       bool (*each)(void *arg, const job_report *report), void *arg, bl_err *err);
BL_NODISCARD bl_status job_load_reports(bl_job *job, bl_err *err); /* the last ones, into the ring */
/* What was measured after |step| will be again, and later checkpoints, which cannot be read, are none. */
BL_NODISCARD bl_status job_rewind(bl_job *job, uint64_t step, bl_err *err);
/* All jobs of the store. */
BL_NODISCARD bl_status jobs_load(bl_jobs *jobs, bl_err *err);

/* ---- load.c */
/* The document of a job whose request is in a file, as job_put_document writes it; writer's thread. */
BL_NODISCARD bl_status job_load_document(bl_request *rq, const bl_job *job, bl_text *out);

/* ---- curve.c */
typedef struct job_curve job_curve;
/* Give |each| those of the reports from step |from| to |last| that make a curve of |stretches| stretches; NULL: out of memory.
 * Reports come in order by job_curve_add, whose |arg| is the curve; it and job_curve_end return false where |each| did, or memory
 * is out. */
job_curve *job_curve_create(int ncolumns, uint64_t from, uint64_t last, uint64_t stretches,
                            bool (*each)(void *arg, const job_report *report), void *arg);
bool job_curve_add(void *arg, const job_report *report);
BL_NODISCARD bool job_curve_end(job_curve *c);
void job_curve_destroy(job_curve *c); /* accepts NULL */

/* ---- history.c: the writer's thread */
/* Make room for the reports of |row|, of which *bytes are to be written. */
BL_NODISCARD bl_status job_history_fit(bl_job *job, const job_row *row, uint64_t *bytes, bl_err *err);
bool job_history_keeps(const bl_job *job, const job_row *row, uint64_t at); /* report number |at| */
BL_NODISCARD bl_status job_history_count(bl_job *job, bl_err *err); /* count the bytes in the store again, and charge the key */
/* Note why the reports of |row| were left out, or that they were kept; for the job's warning. */
void job_history_tell(bl_job *job, const job_row *row, const bl_err *refused);

/* ---- load.c */
/* A checkpoint that was read: a value for each state of the program, and what else it says. */
struct job_loaded {
    uint64_t step, waiting, program_steps;
    bool measured;
    double best;
    bl_held **states;                     /* arena of the request, released when that ends */
    bl_held **own;                        /* likewise, for the job's own states; NULL where they are to begin anew */
    const char *moves, *gather, *options; /* likewise */
    const char *others, *others_options;  /* of the evaluation; likewise */
};
BL_NODISCARD bl_status job_load_own(bl_request *rq, bl_job *job,
                                    job_loaded *out);                   /* compile thread: when the plans say what it has */
BL_NODISCARD bl_status job_load_evaluator(bl_exec *x, bl_job *job);     /* its document */
BL_NODISCARD bl_status job_load_evaluated(bl_request *rq, bl_job *job); /* and, when that is linked, what only it has */
BL_NODISCARD bl_status job_load_checkpoint(bl_request *rq, bl_job *job, uint64_t step, job_loaded *out);
BL_NODISCARD bl_status job_open_file(char *path, int *fd, size_t *bytes, bl_err *err); /* frees |path|; NULL: BL_ENOMEM */
/* The file at |path| (which is freed) as the body of |rq|. */
BL_NODISCARD bl_status job_load_file(bl_request *rq, char *path);

/* ---- restore.c */
bl_status jobs_recall(bl_jobs *jobs, bl_err *err); /* programs that jobs left come back, before anybody asks for them */
void job_restore(bl_job *job);                     /* begin to take it up from its last checkpoint; job->restoring is set */
/* Under the lock: its device is drained, and it can go on elsewhere, from a checkpoint. */
bool job_leaves_device(const bl_job *job);
/* Under the lock: its device was lost, and it is to be taken up again, as after a restart of the server.  False: no more. */
bool job_lose(bl_job *job, const bl_err *err);
/* Likewise, where it was refused memory: others may give back what it needs.  False also where that is in doubt. */
bool job_wait_for_memory(bl_job *job, const bl_err *err);

#endif
