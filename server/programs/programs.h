/* SPDX-License-Identifier: MIT */
/* A program: a graph with a name, and with state that lives on a device.  Reference-counted, so that running work keeps a
 * replaced or deleted program alive.  Members that the document defines are constant.  Only the worker's thread touches the
 * buffers of the state, one request after the other (serial). */
#ifndef BL_SERVER_PROGRAMS_H
#define BL_SERVER_PROGRAMS_H

#include "proto/decode.h"
#include "server/store/device_tensor.h"

typedef struct bl_variants bl_variants;

typedef struct bl_state {
    bl_wire_tensor type; /* name, dtype, shape without named dimensions */
    size_t bytes;
    bl_buffer *buffer;        /* touched only by the worker's thread */
    bl_device_tensor *shared; /* a tensor by reference, which is read-only; else NULL */
} bl_state;

bl_file_tensor bl_state_tensor(const bl_state *state, const char *data); /* the state with |data| as a tensor of a file */

/* The run-time part of an entry of the document: its plan, and for each state of the entry the index of the program's state. */
typedef struct bl_program_entry_state {
    bl_plan *plan;
    int nstates; /* the states of the document, then the hidden states */
    int *state;
} bl_program_entry_state;

typedef enum bl_claim {
    BL_CLAIM_NONE,
    BL_CLAIM_JOB,
    BL_CLAIM_DELETED
} bl_claim; /* free; claimed by a job; claimed by a
             * deletion */

typedef struct bl_program {
    bl_evictable evictable; /* first member: bl_evictable * converts */
    atomic_int refs;
    uint32_t owner;
    uint64_t purges; /* bl_access_purges of the owner when the program was requested */
    bl_server *server;
    bl_arena *arena; /* holds all members below */
    char name[BL_NAME_SIZE];
    bl_worker *worker;
    /* generation of the device when the state was made; the state is lost if the device has another one now */
    unsigned generation;
    atomic_bool lost; /* a step failed after it had begun to write the state in place */
    bl_serial serial;
    bl_program_doc doc;
    bl_program_entry_state *entries; /* parallel to doc.entries */
    int nstates;                     /* the states of the document, then all hidden states */
    bl_state *states;
    size_t charged; /* bytes charged to the owner by the registry */
    bool unpooled;  /* its memory returns to the device, and not to the pool */
    /* for each state: its copy in host memory while the state is evicted; else NULL.  Worker's thread */
    char **away;
    atomic_ullong steps;     /* steps run since the PUT of the program */
    atomic_ullong replaced;  /* how often the state was replaced since then */
    atomic_bool durable;     /* the program survives a restart */
    uint64_t saved;          /* saver's thread: steps + replaced when it was last saved; UINT64_MAX: never */
    struct bl_program *from; /* the program that this one was made from, and whose document it uses; or NULL */
    /* set if the program is compiled for input values (variants.h) and has no entry of its own; else NULL */
    bl_variants *variants;
    struct bl_program *family;     /* of a variant: the program that owns it; a request holds both.  Else NULL */
    struct bl_sequence *sequences; /* the records of numbered runs (idempotent.h); worker's thread */
    /* for each entry: the batcher of its runs (joined.h), created at first use; or NULL */
    _Atomic(struct bl_joined *) *joined;
    atomic_int claim; /* a bl_claim: only the claimant may change or remove the program */
    /* a job that has ended left the program: a restart restores it from the job's last checkpoint */
    atomic_bool left;
} bl_program;

bl_program *bl_program_create(bl_server *server, uint32_t owner); /* NULL if out of memory */
void bl_program_retain(bl_program *program);
void bl_program_release(bl_program *program);               /* accepts NULL */
void bl_program_release_any(void *program);                 /* for bl_request_defer */
void bl_program_count(bl_program *program, uint64_t steps); /* |steps| steps of the program are complete */
/* The type of a hidden state, which a plan remembers besides the document's states.  The state outlives every run, so its type
 * has no named dimension. */
bl_wire_type bl_hidden_type(const bl_plan_tensor *hidden);
/* BL_ECONFLICT if its state is lost: the device was reopened since, or a step failed half-way. */
BL_NODISCARD bl_status bl_program_check(const bl_program *program, bl_err *err);
bool bl_program_is_lost(const bl_program *program);
/* Call after a run of the program: |buffer| replaces the buffer of |state|, a state of the program or of the job that trains
 * it.  Thread: the worker's. */
void bl_program_take_back(bl_program *program, bl_state *state, bl_buffer *buffer);
/* May the program |name|, which has this claim, be replaced or removed?  BL_ECONFLICT if a job trains it, BL_EBUSY if it is
 * being deleted. */
BL_NODISCARD bl_status bl_program_check_claim(int claim, const char *name, bl_err *err);
/* May a run of |entry| begin?  If the run changes state: BL_ECONFLICT if a job trains the program or is about to, BL_ENOTFOUND
 * if the program is being deleted. */
BL_NODISCARD bl_status bl_program_check_free(const bl_program *program, const bl_plan_info *entry, bl_err *err);

/* ---- weights.c */
/* The program's state is complete; from now on it may be evicted to host memory until it is used, if the host does not see its
 * buffers.  Thread: any. */
void bl_program_settle(bl_program *program);
void bl_program_unsettle(bl_program *program); /* call before the state is freed; frees the evicted copies */
/* Call before any use of program->states: they stay on the device until the next call for another program.  BL_ENODEVMEM if
 * there is no room even after all others are evicted.  Thread: the worker's. */
BL_NODISCARD bl_status bl_program_wake(bl_program *program, bl_err *err);

/* ---- */
/* Find the program in the request's path, retained until the request ends.  |read|: also a program that another owner
 * shares. */
BL_NODISCARD bl_status bl_program_find(bl_request *rq, bool read, bl_program **out);
/* Replace all of the program's state by that of |rq|'s body, between two runs.  After BL_OK the caller must not touch the
 * request. */
BL_NODISCARD bl_status bl_program_put_state(bl_request *rq, bl_program *program);
/* Write the program's inputs, outputs and states. */
void bl_program_describe(bl_program *program, bl_text *out);

#endif
