/* SPDX-License-Identifier: MIT */
/* A program: a graph with a name and state that lives on a device.
 * Counted.  What is defined by its document is constant; the buffers of its state are touched only by the worker's thread, one
 * request after the other (serial), so that running work keeps a program alive that was replaced or deleted meanwhile. */
#ifndef BL_SERVER_PROGRAMS_H
#define BL_SERVER_PROGRAMS_H

#include "proto/decode.h"
#include "server/held.h"

typedef struct bl_variants bl_variants;

typedef struct bl_state {
    bl_wire_tensor type; /* name, dtype, shape without named dimensions */
    size_t bytes;
    bl_buffer *buffer; /* worker's thread */
    bl_held *shared;   /* a tensor by reference, which is read-only; else NULL */
} bl_state;

bl_file_tensor bl_state_tensor(const bl_state *state, const char *data); /* of a file that has it */

/* What goes with an entry of the document: its plan, and which state of the program each of its states is. */
typedef struct bl_program_entry_state {
    bl_plan *plan;
    int nstates; /* those of the document, then the hidden ones */
    int *state;
} bl_program_entry_state;

typedef enum bl_claim { BL_CLAIM_NONE, BL_CLAIM_JOB, BL_CLAIM_DELETED } bl_claim; /* nobody's; that of a job; of who deletes it */

typedef struct bl_program {
    bl_resident resident; /* first */
    atomic_int refs;
    uint32_t owner;
    uint64_t purges; /* of its owner, when it was asked for */
    bl_server *server;
    bl_arena *arena; /* of all below */
    char name[BL_NAME_SIZE];
    bl_worker *worker;
    unsigned generation; /* of the device when the state was made: another one means that it is lost */
    atomic_bool lost;    /* so is it when a step failed that had begun to write it in place */
    bl_serial serial;
    bl_program_doc doc;
    bl_program_entry_state *entries; /* as doc.entries */
    int nstates;                     /* those of the document, then all hidden ones */
    bl_state *states;
    size_t charged;            /* of the shelf's held bytes */
    bool unpooled;             /* its memory goes back to the device, and is not kept for the next request */
    char **away;               /* worker's thread: of each state, its copy on the host while it is not on the device; else NULL */
    atomic_ullong steps;       /* taken since it was put */
    atomic_ullong replaced;    /* how often its state was put since */
    atomic_bool durable;       /* it outlives the server */
    uint64_t saved;            /* saver's thread: steps + replaced when it was written down; UINT64_MAX: never */
    struct bl_program *from;   /* that it was made of, whose document it has; or NULL */
    bl_variants *variants;     /* it is compiled for values of inputs (variants.h), and has no entry of its own; else NULL */
    struct bl_program *family; /* of a variant: the program that has it, and whose request holds both; else NULL */
    struct bl_sequence *sequences;              /* of numbered runs; worker's thread */
    _Atomic(struct bl_model_version *) *joined; /* of each entry, what joins its runs (models/joined.h): as soon as it was needed;
                                                   NULL: none are */
    atomic_int claim;                           /* a bl_claim: whose it is, with whom nobody else may interfere */
    atomic_bool left;                           /* by a job that has ended, from whose last checkpoint it comes back */
} bl_program;

bl_program *bl_program_create(bl_server *server, uint32_t owner); /* NULL if out of memory */
void bl_program_retain(bl_program *program);
void bl_program_release(bl_program *program);               /* accepts NULL */
void bl_program_release_any(void *program);                 /* for bl_request_defer */
void bl_program_count(bl_program *program, uint64_t steps); /* it has taken them */
/* What a plan remembers besides the document's states: it outlives every run, so no named dimension is in it. */
bl_wire_type bl_hidden_type(const bl_plan_tensor *hidden);
/* BL_ECONFLICT where its state was lost: the device was reopened since, or a step failed half-way. */
BL_NODISCARD bl_status bl_program_check(const bl_program *program, bl_err *err);
bool bl_program_is_lost(const bl_program *program);
/* After a run of it, whose |state|, one of its own or of who trains it, is |buffer| now.  Worker's thread. */
void bl_program_take_back(bl_program *program, bl_state *state, bl_buffer *buffer);
/* Of who would replace or remove the one of this name, whose claim that is: BL_ECONFLICT where a job trains it, BL_EBUSY where it
 * is being deleted. */
BL_NODISCARD bl_status bl_program_check_claim(int claim, const char *name, bl_err *err);
/* BL_ECONFLICT where a job trains it, or is being taken up, BL_ENOTFOUND where it is being deleted, and a run of the entry would
 * change its state. */
BL_NODISCARD bl_status bl_program_check_free(const bl_program *program, const bl_plan_info *entry, bl_err *err);

/* ---- weights.c */
/* Its state is there; where the host does not see it, it may wait on the host from now on, until it is used.  Any thread. */
void bl_program_settle(bl_program *program);
void bl_program_unsettle(bl_program *program); /* before its state is freed; what waits on the host is */
/* Before any use of program->states: they are on the device until the next call for another program.  BL_ENODEVMEM where there is
 * no room even without all others.  Worker's thread. */
BL_NODISCARD bl_status bl_program_wake(bl_program *program, bl_err *err);

/* ---- */
/* The program in the request's path, retained until the request ends.  |read|: also one that another owner shares. */
BL_NODISCARD bl_status bl_program_find(bl_request *rq, bool read, bl_program **out);
/* All of its state becomes what |rq|'s body has, between two runs.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_program_put_state(bl_request *rq, bl_program *program);
/* Fill the reply with what the program takes, gives and remembers. */
void bl_program_describe(bl_program *program, bl_text *out);

#endif
