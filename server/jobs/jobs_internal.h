/* SPDX-License-Identifier: MIT */
/* Declarations shared by the files of the jobs.
 *
 * Lock order: jobs->lock, then the lock of a stream.  Threads hold jobs->lock only briefly, and never across a device call, a
 * store access or a file access.  The slices of a job run on its worker's thread, one at a time.  All writes to the disk go
 * through jobs->writer, one thread for all jobs. */
#ifndef BL_SERVER_JOBS_INTERNAL_H
#define BL_SERVER_JOBS_INTERNAL_H

#include "proto/safetensors.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"
#include "server/run/exec.h"
#include "server/store/names.h"
#include "server/store/stored_files.h"

#include <pthread.h>

#define JOB_PURGED    "its key was purged"
#define JOB_EVALUATE  "evaluate."              /* prefix of the names of the columns and inputs of an evaluation */
#define JOB_REQUEST   "request.safetensors"    /* file of the document with all inputs */
#define JOB_EVALUATOR "evaluation.safetensors" /* file of a second program that evaluates */

typedef struct bl_job bl_job;
typedef struct job_listener job_listener;

enum {
    JOB_ID = 33,     /* 128 random bits in hexadecimal, and a NUL */
    JOB_RING = 1024, /* number of reports in memory; streams resume from them */
    JOB_REASON = 700 /* room for the text of a bl_err and some words */
};

/* The order equals that of the names in the database and in the protocol.  States from DONE on are final. */
typedef enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELLED } job_state;
extern const char *const job_state_names[];

/* The phases of a job, followed by the phases of its writes, which run beside its slices.  job_phase.c has the table of
 * transitions.  The functions below rely on the order. */
typedef enum job_phase {
    JOB_NEW,       /* not started: its files may not exist yet */
    JOB_LOST,      /* the job lost its device, the server or its memory, and waits to be restored */
    JOB_RESTORING, /* another thread restores the job from its last checkpoint, and fills in |means| */
    JOB_IDLE,      /* no slice is submitted */
    JOB_AT_WORK,   /* a slice is submitted or runs */
    JOB_ENDING,    /* |becomes| is set, and not stored yet */
    JOB_LAST,      /* |becomes| is set, and a slice takes the last snapshot */
    JOB_STORED,    /* |becomes| is in the store */
    JOB_ENDED,     /* |state| is final and |means| are freed */
    WRITE_NONE,
    WRITE_SNAP,  /* the slice takes a snapshot for the write */
    WRITE_SENT,  /* the write is submitted or runs */
    WRITE_UNSENT /* the write could not be submitted; the next tick submits it again */
} job_phase;

/* The events of a job.  The events from EVENT_SNAP on concern its writes. */
typedef enum job_event {
    EVENT_START,   /* the job may run its steps */
    EVENT_LOSE,    /* the job must continue from its last checkpoint */
    EVENT_RESTORE, /* the restoration begins */
    EVENT_SLICE,   /* a slice is submitted */
    EVENT_SLICED,  /* the slice has ended or could not be submitted */
    EVENT_DECIDE,  /* the final state is decided */
    EVENT_STORE,   /* the final state is in the store */
    EVENT_END,
    EVENT_SNAP,
    EVENT_SNAP_FAIL,
    EVENT_WRITE,
    EVENT_WRITE_REFUSE, /* the write could not be submitted */
    EVENT_WRITTEN
} job_event;

/* The requests that a job must follow at the next opportunity.  A set of bits.  Thread: any. */
enum {
    WANT_CHECKPOINT = 1, /* take a snapshot before another step; changes under the lock */
    WANT_CANCEL = 2,     /* end after the current step */
    WANT_PURGE = 4       /* the key was purged: end as with WANT_CANCEL, and leave no program */
};

/* The best value of the early-stopping metric. */
typedef struct job_best {
    bool measured; /* |value| is valid */
    double value;
    uint64_t waiting; /* number of reports since the best value */
} job_best;

/* The measurements after a step: one JSON cell for each column of the job, separated by tabs.  The cell of a column that was
 * not measured is empty. */
typedef struct job_report {
    uint64_t step;
    double time; /* seconds since 1970 */
    char *cells;
} job_report;

/* The reports of a job in the store (history.c). */
typedef struct job_history {
    uint64_t bytes;            /* bytes of the reports in the store */
    uint64_t every, evaluated; /* steps between stored reports, of the trained entry and of the evaluation; 0: the job has no
                                * such reports */
    bool known, thinned;       /* known: |every| and |evaluated| are set; thinned: one of them is larger than the job asks
                                * for */
    char refused[384];         /* the reason why the last reports were not stored; "": they were stored */
} job_history;

/* An entry of a program with its inputs. */
typedef struct job_part {
    const bl_program_entry *entry;
    bl_plan *plan;
    int64_t *vars;
    int ninputs;
    bl_device_tensor **inputs;
    bl_buffer **buffers, **states, **outputs; /* worker's thread; |buffers| are set only while the part runs */
    uint64_t every;
    int ncollect;
    int *collect;
    int nstates, *state; /* for each state of the plan: the index of the program's state; below zero: a state of the job
                          * itself or of the evaluator */
    int column;          /* report column of the first output of |collect| */
} job_part;

/* A second program that evaluates the trained state.  The job uses the second program as it was when the job was submitted. */
typedef struct job_evaluator {
    const char *name;        /* NULL: there is no second program; the trained program has the evaluation entry */
    bl_program_doc doc;      /* the document, with the evaluation entry only; arena */
    bl_program *from;        /* the program, retained by the request until the states of the evaluator are taken; else NULL */
    int entry;               /* index of the entry in |from| */
    int nown;                /* number of states that the trained program lacks */
    bl_wire_tensor *own;     /* types of these states; arena */
    bl_device_tensor **held; /* values of these states; arena */
} job_evaluator;

/* The state after |step|, while it is written to the disk. */
typedef struct job_snapshot {
    bool taken; /* the snapshot is complete, and the write stores it.  In WRITE_SNAP the slice owns this member, else the
                 * writer's thread */
    uint64_t step;
    uint64_t program_steps; /* step count of the program at the snapshot */
    job_best best;
    bl_buffer **buffers; /* retained, so that later steps write to other buffers (copy on write) */
    char **copies;       /* host copies of the buffers that the host does not see */
    size_t copied;       /* bytes charged to the server's memory budget */
} job_snapshot;

/* A checkpoint on disk. */
typedef struct job_mark {
    uint64_t step, bytes;
    double time;
} job_mark;

/* The settings that the client asked for.  They are constant once other threads know the job; a restoration sets the same
 * values again. */
typedef struct job_ask {
    const char *program_name, *entry_name, *device;
    const char *document; /* JSON, with the types of the inputs in place of the values; NULL: the document is in the request
                           * file */
    uint64_t steps;
    int priority;
    bl_training training;
    bl_job_checkpoint rule;
    bl_job_stop stop;
    int stop_column;
    int nmetrics, ncolumns; /* the metrics are the columns of |train|; the columns of |evaluation| follow */
    const char **columns;
    double created;
} job_ask;

/* The resources of a job: set before its first slice, freed when the job ends. */
typedef struct job_means {
    bl_program *program;
    bl_program *claimed; /* the program that the job has claimed: |program| or NULL */
    bl_worker *worker;
    bl_plan *gather; /* plan of the gradient accumulation passes before the last pass of a step; NULL: a step is one pass */
    int nown;
    bl_state *own;              /* states that only the plans of this job have: gradient sums and the loss scale */
    size_t charged;             /* bytes of |own| and of the states of the evaluator, charged to the key */
    job_part train, evaluation; /* evaluation.every 0: the job has no evaluation */
    job_evaluator evaluator;
    bl_request *slice, *write; /* internal requests */
    char **held_copies;        /* until they are written: host copies of the tensors of job_held_at that the host does not
                                * see */
    size_t copied;             /* bytes of |held_copies|, charged to the memory budget */
} job_means;

/* The position of the job in its steps.  Thread: the worker's; during a restoration the compile thread's. */
typedef struct job_position {
    uint64_t done, pace, from; /* from: |done| at the beginning of the slice */
    int64_t checkpoint_ns;     /* time of the last snapshot */
    char **cells;              /* cells of the current report */
    job_best best;
} job_position;

/* The progress that clients see.  Guarded by jobs->lock. */
typedef struct job_progress {
    uint64_t step; /* the last step that is reported or whose slice has ended */
    double started, ended;
    int restarts;
    double rate; /* steps per second since step |mark_step| at time |mark_ns| */
    int64_t mark_ns;
    uint64_t mark_step;
    uint64_t nreports, flushed; /* nreports: total number; flushed: number of reports in the store */
    job_report ring[JOB_RING];
    unsigned changes; /* number of state changes */
    job_listener *listeners;
} job_progress;

/* The files and rows of a job.  Guarded by jobs->lock, except as noted. */
typedef struct job_files {
    uint64_t written;         /* step of the last checkpoint */
    char warning[JOB_REASON]; /* warning about the last checkpoint; empty: the checkpoint was written */
    size_t need;              /* estimated host memory of a restoration, as far as known */
    job_history history;      /* writer's thread; the members other than |bytes| change under the lock */
    int nmarks, marks_cap;
    job_mark *marks; /* checkpoints on disk, oldest first */
    job_snapshot snapshot;
} job_files;

/* Losses of the device and refusals of memory.  Guarded by jobs->lock. */
typedef struct job_setbacks {
    int refusals;     /* number of refused allocations since the last step */
    bool fits;        /* a step has run in this server or before a restart, so the server has the memory that the job needs */
    int moves;        /* number of times that the job left a drained device */
    int losses;       /* number of losses of the job's device since the start of the server */
    int64_t again_ns; /* earliest time of the next restoration */
} job_setbacks;

struct bl_job {
    atomic_int refs;
    bl_jobs *jobs;
    bl_arena *arena; /* holds the members of |ask| and the arrays of |means| */
    char id[JOB_ID];
    uint32_t owner;
    job_ask ask;
    job_means means;
    job_position pos;
    job_progress progress;
    job_files files;
    job_setbacks setbacks;

    atomic_uint wants; /* a set of WANT_ bits */

    /* guarded by jobs->lock; only job_step changes |phase| and |writes| */
    job_phase phase, writes;
    job_state state, becomes; /* becomes: the final state, set before it is stored; else JOB_QUEUED */
    char reason[JOB_REASON], because[JOB_REASON];
    const char *withheld; /* reason why the key may not use a device now; NULL: the key may use a device */
};

struct bl_jobs {
    bl_server *server;
    bl_queue *writer;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for bl_jobs_drain; see jobs_wake */
    bl_ticker *ticker;      /* not a shared ticker: a restoration reads files */
    bl_tick *tick;          /* restores lost jobs, submits writes and slices; NULL: not started, or ended */
    bl_namemap *names;      /* jobs by id, each retained */
    atomic_bool draining;
    atomic_int nrestoring; /* number of jobs in JOB_LOST and JOB_RESTORING; job_step counts them */
    int taken;             /* under the lock: number of jobs in JOB_RESTORING */
    size_t needed;
    char *folder; /* NULL: the server stores nothing on the disk */
};

/* ---- jobs.c */
bl_job *job_create(bl_jobs *jobs); /* NULL if out of memory */
bl_job *job_retain(bl_job *job);
void job_release(bl_job *job); /* accepts NULL */
void job_release_any(void *job);
BL_NODISCARD bl_status job_find(bl_request *rq, bl_job **out); /* find the job of the path and the owner; retained until the
                                                                * request ends */
BL_NODISCARD bl_status job_find_to_read(bl_request *rq, bl_job **out); /* find also a job that another owner shares:
                                                                        * "alice:ID" */
/* Register the job.  BL_ENODEVMEM if its owner has too many active jobs.  Thread: the writer's. */
BL_NODISCARD bl_status job_add(bl_job *job, bl_err *err);
void job_remove(bl_job *job); /* unregister the job */
/* Delete the oldest ended jobs beyond the limit of |owner|.  Thread: the writer's. */
void jobs_drop_oldest(bl_jobs *jobs, uint32_t owner);
static inline bool job_is_final(const bl_job *job)
{
    return job->state >= JOB_DONE;
}
/* Is the job registered and not ended? */
static inline bool job_is_active(const bl_job *job)
{
    return job->phase > JOB_NEW && job->phase < JOB_ENDED;
}
/* Is the job active with its program on a device? */
static inline bool job_is_up(const bl_job *job)
{
    return job->phase >= JOB_IDLE && job->phase < JOB_ENDED;
}
/* Does the job want any of |wants|? */
static inline bool job_wants(const bl_job *job, unsigned wants)
{
    return (atomic_load(&job->wants) & wants) != 0;
}
static inline void job_want(bl_job *job, unsigned wants)
{
    atomic_fetch_or(&job->wants, wants);
}
static inline void job_want_no_checkpoint(bl_job *job)
{
    atomic_fetch_and(&job->wants, ~(unsigned)WANT_CHECKPOINT);
}
/* Has the early-stopping metric failed to improve for the number of reports that the client asked for? */
static inline bool job_stops_early(const bl_job *job)
{
    return job->ask.stop.metric != NULL && job->pos.best.waiting >= job->ask.stop.patience;
}
/* Under the lock: change the state and notify all listeners. */
void job_change(bl_job *job, job_state state, const char *reason);
/* Under the lock: set |becomes|, for the reason |because|.  The new state takes effect when it is stored. */
void job_become(bl_job *job, job_state becomes, const char *because);
void job_become_cancelled(bl_job *job); /* under the lock: likewise, for a cancelled job */
void job_wake(bl_job *job);             /* under the lock: wake the listeners */
void job_start(bl_job *job);            /* the job is registered and complete: its steps may begin */
/* Under the lock: is a job other than |but| (NULL: any job) active or being restored?  The end of such a job will free
 * memory. */
bool jobs_any_up(bl_jobs *jobs, const bl_job *but);
/* Under the lock: a job changed, so the periodic work of the jobs runs at once. */
void jobs_wake(bl_jobs *jobs);
/* Submit slices of all jobs that may run.  The caller must not hold the lock. */
void jobs_schedule(bl_jobs *jobs);
double job_now(void); /* seconds since 1970 */
/* Fail the job without another step, for the reason in |err|.  The failure takes effect when it is stored. */
void job_fail(bl_job *job, const bl_err *err);
/* Under the lock: does the program of the job remain as a restorable program if the job ends now? */
bool job_leaves(const bl_job *job);
/* Under the lock: does the job end with its last checkpoint at the current step?  Then only the final state is left to
 * store. */
bool job_is_to_seal(const bl_job *job);
/* Under the lock: change to the state |becomes|.  No slice and no write of the job may be active or follow. */
void job_end(bl_job *job);
/* Delete the program of a job whose key was purged. */
void job_take_away(bl_job *job);
void job_let_go(bl_job *job);     /* releases program, inputs and plans; call after job_end, without the lock */
void job_free_means(bl_job *job); /* releases |means| before a restoration refills them; no slice and no write may be active */

/* ---- job_phase.c */
/* Set *to to the phase that follows |from| after |event|; false if the table does not have the transition. */
bool job_phase_next(job_phase from, job_event event, job_phase *to);
/* Under the lock: change the phase of the job or of its writes by the table.  A transition that is not in the table is a bug:
 * the function logs it and leaves the phase unchanged. */
void job_step(bl_job *job, job_event event);

/* ---- plans.c */
typedef struct job_loaded job_loaded;
/* Make the plans that the program lacks.  |as| names the kernels of the plans; NULL: the best kernels.  |halt| can stop the
 * call and must outlive it.  Thread: compile. */
BL_NODISCARD bl_status job_make_plans(bl_job *job, const job_loaded *as, const bl_halt *halt, bl_err *err);
BL_NODISCARD bl_status job_begin_own(bl_job *job, bl_request *rq); /* worker's thread: initialise job->own */
void job_end_own(bl_job *job);
bl_state *job_state_at(bl_job *job, int at);                        /* a state of the program; below zero: a state of the job */
void job_put_options(const bl_plan_options *options, bl_text *out); /* writes the options that determine what kernels compute */

/* ---- begin.c */
int job_count_held(const bl_job *job);                              /* number of inputs of both parts plus the states of the
                                                                     * evaluator */
bl_device_tensor *job_held_at(const bl_job *job, int i);            /* borrowed; NULL: the tensor is not loaded yet */
BL_NODISCARD bl_status job_flush_held(bl_job *job, bl_err *err);    /* worker's thread: copy the tensors to the device */
BL_NODISCARD bl_status job_make_requests(bl_job *job, bl_err *err); /* creates |slice| and |write| */
/* Decode the body of |rq| as a job of |program| into |job|, and load the inputs to the device.  rq->data becomes the
 * bl_exec. */
BL_NODISCARD bl_status job_prepare(bl_request *rq, bl_job *job, bl_exec **out);
void job_take_inputs(bl_job *job, const bl_exec *x); /* call when the inputs are loaded */
void job_unclaim(bl_job *job);                       /* releases the claim on the program */
void job_drop_copies(bl_job *job);                   /* frees |held_copies| */

/* ---- evaluator.c */
/* Find the document of the program |name|; NULL: the trained program.  job->program must be set. */
BL_NODISCARD bl_status job_find_evaluator(bl_exec *x, bl_job *job, const char *name, const bl_program_doc **out);
/* Copy entry |entry| into job->evaluator.  From then on the job does not depend on the evaluating program. */
BL_NODISCARD bl_status job_keep_evaluator(bl_job *job, const bl_program_doc *doc, int entry, bl_err *err);
/* Make the plan of the evaluator for a job that is being restored.  Thread: compile. */
BL_NODISCARD bl_status job_plan_evaluator(bl_exec *x, bl_job *job, bl_err *err);
/* Map the states of the evaluation to the states of the trained program.  The plan must exist.  Thread: compile. */
BL_NODISCARD bl_status job_link_evaluation(bl_job *job, bl_err *err);
/* Take the states of the evaluator.  Thread: the worker's, between two runs of job->evaluator.from. */
BL_NODISCARD bl_status job_take_evaluator(bl_job *job, bl_err *err);
void job_end_evaluator(bl_job *job);
/* Retain on the device the buffers of the evaluation's states, of the trained program and of the evaluator.  Call
 * job_drop_evaluated afterwards, even after a failure.  Thread: the worker's. */
BL_NODISCARD bl_status job_hold_evaluated(bl_job *job, bl_err *err);
void job_drop_evaluated(bl_job *job);

/* ---- slice.c */
bl_step job_slice(bl_request *rq); /* the work of job->slice, whose own.arg is the job */
void job_sliced(bl_request *rq);   /* own.done of job->slice */
/* Take a snapshot of the program's state.  Thread: the worker's, while no slice runs. */
BL_NODISCARD bl_status job_snap(bl_job *job, bl_err *err);
void job_drop_snapshot(bl_job *job);

/* ---- report.c */
/* Put the outputs of |part| after a step into the cells of the current report.  job_report_end completes the report. */
BL_NODISCARD bl_status job_measure(bl_job *job, const job_part *part, bl_buffer *const *outputs, bl_err *err);
BL_NODISCARD bl_status job_report_end(bl_job *job, uint64_t step, bl_err *err);
/* BL_ELIMIT if a report of the job would be too large. */
BL_NODISCARD bl_status job_check_reports(const bl_job *job, bl_err *err);
const job_report *job_report_after(const bl_job *job, uint64_t step); /* under the lock; NULL: there is no such report yet */
void job_report_put(bl_job *job, job_report report);                  /* takes |report|; under the lock */
void job_forget_reports(bl_job *job);                                 /* under the lock: drops the reports in memory */
/* Write the members "metrics":{...} and "evaluation":{...}. */
void job_report_write(const bl_job *job, const job_report *report, bl_text *out);

/* ---- job_json.c */
void job_describe(bl_job *job, bl_text *out); /* under the lock */

/* ---- events.c */
void job_ping(bl_job *job); /* under the lock: send a keep-alive to listeners without a recent event */

/* ---- write.c: the writer's thread */
bl_step job_write(bl_request *rq);
void job_written(bl_request *rq);
bool job_add_mark(bl_job *job, job_mark mark); /* under the lock; false if out of memory */
/* Submit the write.  Call after EVENT_WRITE.  False: out of memory; the next tick tries again.  Thread: any. */
bool job_submit_write(bl_job *job);
/* Write the document of the job, with the types of the inputs in place of the values. */
void job_put_document(const char *request, const bl_file_tensor *inputs, size_t ninputs, bl_text *out);
/* Store the reports that are not in the store yet. */
BL_NODISCARD bl_status job_flush(bl_job *job, bl_err *err);

/* ---- job_files.c: files; writer's thread */
BL_NODISCARD bl_status job_keep_first(bl_job *job, bl_err *err); /* writes all files and rows, or none */
BL_NODISCARD bl_status job_forget(bl_job *job, bl_err *err);     /* deletes its rows and files, and unregisters the job */
BL_NODISCARD bl_status job_write_checkpoint(bl_job *job, uint64_t *bytes, bl_err *err);
void jobs_sweep(bl_jobs *jobs); /* deletes files that a crash left behind */
void job_remove_checkpoint(const bl_job *job, uint64_t step);
size_t job_need(const bl_job *job); /* estimated host memory to restore the job; an upper bound for devices that use host
                                     * memory */
/* The name of a file of this job in the folder of job files. */
typedef struct job_file {
    char name[BL_STORED_NAME];
} job_file;
job_file job_file_named(const bl_job *job, const char *name);
job_file job_checkpoint_file(const bl_job *job, uint64_t step, bool own); /* own: the file of the job's own states */

/* ---- job_rows.c; any thread but a device's worker */
BL_NODISCARD bl_status job_insert(bl_job *job, uint64_t bytes, bl_err *err); /* stores the job with its first checkpoint, of
                                                                              * |bytes| bytes */
BL_NODISCARD bl_status job_delete_rows(bl_job *job, bl_err *err);
/* An update of the store in one transaction: the state of the job, the reports from |first| to |last|, and a checkpoint (NULL:
 * none). */
typedef struct job_row {
    job_state state;
    const char *reason;
    uint64_t step;
    double started, ended;
    int restarts;
    const job_mark *mark;
    int ndropped; /* number of checkpoints that are deleted */
    const uint64_t *dropped;
    uint64_t first, last;
    bool leaves; /* the program remains as the job left it, until a client replaces the program */
} job_row;
BL_NODISCARD bl_status job_update(bl_job *job, const job_row *row, bl_err *err);
/* Call |each| for at most |most| reports from step |from| on, until |each| returns false. */
BL_NODISCARD bl_status job_each_report(bl_job *job, uint64_t from, uint64_t most,
                                       bool (*each)(void *arg, const job_report *report), void *arg, bl_err *err);
BL_NODISCARD bl_status job_load_reports(bl_job *job, bl_err *err); /* loads the last reports into the ring */
/* Delete the reports and checkpoints after |step|, because the steps will run again. */
BL_NODISCARD bl_status job_rewind(bl_job *job, uint64_t step, bl_err *err);
/* Load all jobs of the store. */
BL_NODISCARD bl_status jobs_load(bl_jobs *jobs, bl_err *err);

/* ---- job_read.c */
/* Write the document of a job whose request is in a file, in the form of job_put_document.  Thread: the writer's. */
BL_NODISCARD bl_status job_load_document(bl_request *rq, const bl_job *job, bl_text *out);

/* ---- curve.c */
typedef struct job_curve job_curve;
/* A curve reduces the reports from step |from| to |last| to |stretches| intervals, and passes the remaining reports to |each|.
 * NULL: out of memory.  job_curve_add takes all reports in order; its |arg| is the curve.  job_curve_add and job_curve_end
 * return false if |each| returned false or if memory is out. */
job_curve *job_curve_create(int ncolumns, uint64_t from, uint64_t last, uint64_t stretches,
                            bool (*each)(void *arg, const job_report *report), void *arg);
bool job_curve_add(void *arg, const job_report *report);
BL_NODISCARD bool job_curve_end(job_curve *c);
void job_curve_destroy(job_curve *c); /* accepts NULL */

/* ---- history.c; writer's thread */
/* Make room in the store for the reports of |row|.  *bytes becomes the size of the reports to store. */
BL_NODISCARD bl_status job_history_fit(bl_job *job, const job_row *row, uint64_t *bytes, bl_err *err);
bool job_history_keeps(const bl_job *job, const job_row *row, uint64_t at); /* does the store keep report number |at|? */
BL_NODISCARD bl_status job_history_count(bl_job *job, bl_err *err); /* counts the bytes in the store again, and charges the
                                                                     * key */
/* Record in |refused| of the history why the reports of |row| were not stored, or that they were stored. */
void job_history_tell(bl_job *job, const job_row *row, const bl_err *refused);

/* ---- job_read.c */
/* The contents of a checkpoint file: a value for each state of the program, and the position of the job. */
struct job_loaded {
    uint64_t step, program_steps;
    job_best best;
    bl_device_tensor **states;            /* arena of the request; released when the request ends */
    bl_device_tensor **own;               /* likewise, for the job's own states; NULL if the job initialises them again */
    const char *moves, *gather, *options; /* likewise */
    const char *others, *others_options;  /* likewise, of the evaluation */
};
BL_NODISCARD bl_status job_load_own(bl_request *rq, bl_job *job, job_loaded *out); /* compile thread, after the plans */
BL_NODISCARD bl_status job_load_evaluator(bl_exec *x, bl_job *job);                /* loads the evaluator's document */
BL_NODISCARD bl_status job_load_evaluated(bl_request *rq, bl_job *job);            /* after job_link_evaluation */
BL_NODISCARD bl_status job_load_checkpoint(bl_request *rq, bl_job *job, uint64_t step, job_loaded *out);
BL_NODISCARD bl_status job_open_file(const bl_job *job, job_file file, int *fd, uint64_t *bytes, bl_err *err);
/* Read a file of the job as the body of |rq|. */
BL_NODISCARD bl_status job_load_file(bl_request *rq, const bl_job *job, job_file file);

/* ---- restore.c */
bl_status jobs_recall(bl_jobs *jobs, bl_err *err); /* restores the programs that ended jobs left; call before a request can
                                                    * ask for them */
void job_restore(bl_job *job);                     /* restore the job, in phase JOB_RESTORING, from its last checkpoint */
/* Under the lock: is the device of the job drained, and can the job continue on another device from a checkpoint? */
bool job_leaves_device(const bl_job *job);
/* Under the lock: schedule a restoration after a loss of the device, as after a restart of the server.  False after too many
 * losses. */
bool job_lose(bl_job *job, const bl_err *err);
/* Under the lock: schedule a restoration after a refusal of memory, because other jobs may free memory.  False for other
 * failures, and after too many refusals of a job that may never fit. */
bool job_wait_for_memory(bl_job *job, const bl_err *err);

#endif
