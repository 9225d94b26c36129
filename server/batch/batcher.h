/* SPDX-License-Identifier: MIT */
/* Dynamic batching: requests that wait at the same time for the same graph become one run.
 *
 * A batcher belongs to a user: a version of a hosted model, or an entry of a program.  The user fills the members of the
 * batcher and the functions in bl_batch_user.  The batcher keeps the queue of items and the slots.  An item is the part of one
 * request.  A slot is a device that can run the graph.  A run begins when a slot is free, so no request waits for others while
 * a device is idle. The run takes as many of the waiting rows as sizes.h expects to be cheapest per row, at most the limit of
 * the user.  A delay can be configured, so that more requests can arrive first.  Items run in the order of their priority, then
 * of their arrival, and are answered in this order.
 *
 * Lock order: a request's peer, the lock of the user, bl_batching.lock, a batcher's lock.  No thread waits under a batcher's
 * lock. */
#ifndef BL_SERVER_BATCH_BATCHER_H
#define BL_SERVER_BATCH_BATCHER_H

#include "server/batch/sizes.h"
#include "server/http/request.h"
#include "server/run/exec.h"

#include <pthread.h>

enum { BL_BATCH_SLOTS = 16 };

/* One program on one device.  A slot has at most one run of the batcher at a time. */
typedef struct bl_batch_slot {
    bl_program *program;                 /* retained by the user */
    const bl_wire_graph *graph;          /* the graph of the entry that runs */
    const bl_program_entry_state *entry; /* NULL, like |plan|, if the program has variants (variants.h) */
    bl_plan *plan;                       /* owned by the program; bl_plan_current gives the best plan that exists */
    atomic_int busy;                     /* requests that run on the slot without a batch */

    /* worker's thread */
    int64_t crowd, crowded_ns; /* the memory of the device was too small for more than |crowd| rows; the time of that failure */

    /* under the batcher's lock */
    bool running;                /* the slot is claimed: it runs, or waits in the queue of its device */
    bl_sizes sizes;              /* the cost of runs by their number of rows */
    int64_t learned_ns, free_ns; /* the time of the last measurement; the time at which the current run should be over */
    uint64_t executions, inferences, infer_ns;
} bl_batch_slot;

typedef struct bl_batcher bl_batcher;
typedef struct bl_batch_item bl_batch_item;
typedef struct bl_batch bl_batch; /* one joint run */

/* The part of a request that waits in a batcher.  It is the first member of the user's own structure, so that the functions of
 * the user get their structure from the item.  One thread at a time owns the item.  While the item waits, the lock of the
 * batcher guards it. */
struct bl_batch_item {
    bl_batcher *batcher;
    bl_request *rq;
    bl_tensor_value *values; /* the inputs of the graph, in order */
    const void **source;     /* the bytes of each input in the layout of the device; NULL: not read yet */
    int64_t *vars;           /* the values of the named dimensions */
    int64_t rows;            /* the number of rows in the batch; 0: the graph has no batch dimension */
    bl_part *got;            /* for each output: the rows of the result that belong to the item */
    int64_t begin_ns;        /* the time at which the body was complete */
    int64_t input_ns;        /* the time from |begin_ns| until the inputs were read */
    int64_t queue_ns, compute_ns;

    bl_batch_item *next;
    int64_t priority; /* priority 1 runs first */
    int64_t turn;     /* start tag of fair queueing among items of one priority, in rows */
    bool gone;        /* the client closed its connection; under the batcher's lock */
    bl_batch *batch;  /* the run that has the item, or had it; NULL: none */
};

/* The functions of a user.  |owner| is bl_batcher.owner. */
typedef struct bl_batch_user {
    const char *what; /* the kind of the user in error texts: "model" */
    void (*retain)(void *owner);
    void (*release)(void *owner);
    /* Make the execution of a joint run on |slot|, without its inputs.  *out may be set on failure. */
    bl_status (*prepare)(void *owner, bl_request *rq, bl_batch_slot *slot, int64_t *vars, bl_exec **out);
    /* A joint run is over, and no item has its answer yet: count the run. */
    void (*count)(void *owner, int64_t rows, int64_t input_ns, int64_t compute_ns);
    void (*give)(bl_batch_item *item); /* item->got is filled; NULL: no function */
    /* A run of |rows| with |plan| took |ns| on the device: call bl_batch_learn. */
    void (*learn)(void *owner, bl_batch_slot *slot, int64_t rows, const bl_plan *plan, int64_t ns);
} bl_batch_user;

struct bl_batcher {
    const bl_batch_user *user;
    void *owner;
    bl_server *server;
    const char *name; /* the name in error texts */
    bl_rank rank;
    bl_purpose purpose;      /* the purpose of joint runs */
    bl_serial *serial;       /* joint runs run one after the other in this order; or NULL */
    bl_wire_batching how;    /* delay, preferred sizes, length of the queue; not |off| and |max_rows| */
    int ninputs, nvars, var; /* |var|: the named dimension of batches, or -1 */
    /* rows of a joint run; 0: requests are not joined, and the first dimension has no special meaning */
    int64_t max_rows;
    bool apart; /* rows of different owners may share a run */
    int nslots;
    bl_batch_slot *slots[BL_BATCH_SLOTS];

    pthread_mutex_t lock;
    int64_t learned_ns;   /* the time of the last measurement */
    bl_batch_item *first; /* the queue, in the order of runs */
    size_t count;
    int64_t rows;
    int64_t turn; /* the start tag of the last item that a run took */

    bl_batcher *next_due; /* under bl_batching.lock, like |due_ns| */
    /* the time at which the clock calls bl_batch_look; the clock retains the owner until then; 0: no call is planned */
    int64_t due_ns;
};

void bl_batcher_init(bl_batcher *b, const bl_batch_user *user, void *owner, bl_server *server);
void bl_batcher_fini(bl_batcher *b);

/* The named dimension along which requests are joined.  The dimension starts at 1 or less, is the first dimension of all
 * inputs and outputs, and occurs nowhere else.  -1: there is none. */
int bl_batch_find_var(const bl_wire_graph *graph, const bl_plan_info *info);
/* The maximum number of rows of a joint run, from the document of a program, at most |most|.  0: runs are not joined. */
int64_t bl_batch_usual_rows(const bl_wire_batching *said, const bl_plan_info *info, int64_t most);

/* Queue the item.  Runs begin as soon as a slot is free.  |then| becomes rq->then.  After BL_OK the caller must not touch the
 * request. */
BL_NODISCARD bl_status bl_batch_join(bl_batch_item *item, bl_status (*then)(bl_request *rq));
/* Fill item->source, the bytes of each input in the layout of the device.  Inputs that arrived as bytes are not copied. */
BL_NODISCARD bl_status bl_batch_read_sources(bl_batch_item *item);
/* Begin runs while items are due and a slot is free.  No lock is held. */
void bl_batch_kick(bl_batcher *b);
/* Claim a slot for a run of one item without a batch.  False: other items wait, so this item must wait too. */
bool bl_batch_claim(bl_batcher *b, int64_t rows, bl_batch_slot **slot);
void bl_batch_unclaim(bl_batcher *b, bl_batch_slot *slot);
/* The request of an item of |batch| ends: release its share of the results.  Accepts NULL. */
void bl_batch_leave(bl_batch *batch);
bool bl_batch_is_running(bl_batcher *b); /* is any slot claimed? */
/* Finish the items whose deadline has passed, and begin what is due.  Returns the next time at which to look; 0: never. */
int64_t bl_batch_look(bl_batcher *b, int64_t now_ns);
/* Create the execution of |graph| of |program|, whose state it only reads.  |plan|: moves in.  *out may be set on failure. */
BL_NODISCARD bl_status bl_batch_exec(bl_request *rq, bl_program *program, const bl_program_entry_state *entry,
                                     const bl_wire_graph *graph, bl_plan *plan, int64_t *vars, bl_exec **out);

/* ---- batch_slots.c */
bool bl_batch_slot_is_lost(const bl_batch_slot *slot); /* its device was lost */
bool bl_batcher_is_lost(const bl_batcher *b);          /* all slots are lost */
/* A run of |rows| took |ns| on the slot, |exact|: with a plan for exactly this number.  |orders|: such plans are possible.
 * Returns whether a plan for |rows| should be made.  No lock is held. */
bool bl_batch_learn(bl_batcher *b, bl_batch_slot *slot, int64_t rows, bool exact, bool orders, int64_t ns);
/* Under the batcher's lock: claim the slot that would finish |rows| first; the run has at most *most of the rows.  |behind|:
 * the run may leave out the first *skip rows, if a busy slot would finish these sooner.  NULL: wait until a slot is free. */
bl_batch_slot *bl_batch_take(bl_batcher *b, int64_t rows, bool behind, int64_t *most, int64_t *skip);
/* The slot for a run without a batch, of a user that does not join requests. */
bl_batch_slot *bl_batch_choose(bl_batcher *b);

/* ---- batch_clock.c: the deadlines and delays of all batchers */
BL_NODISCARD bl_status bl_batching_create(bl_server *server, bl_batching **out, bl_err *err);
/* Wait until no joint run is left.  The queues still work.  Accepts NULL. */
void bl_batching_stop(bl_batching *batching);
void bl_batching_destroy(bl_batching *batching);         /* accepts NULL */
void bl_batching_count(bl_batching *batching, int runs); /* joint runs that began, or, below 0, ended */
/* Call bl_batch_look at |when_ns|.  No lock is held. */
void bl_batching_watch(bl_batcher *b, int64_t when_ns);

#endif
