/* SPDX-License-Identifier: MIT */
/* Making a program of its document: its plans and those of its initialisers by the compiler, its state by its device's worker.
 * For whoever has a request that may go from queue to queue: PUT of a program, the loading of a model. */
#ifndef BL_SERVER_PROGRAM_MAKE_H
#define BL_SERVER_PROGRAM_MAKE_H

#include "server/exec.h"

typedef struct bl_program_make bl_program_make;
struct bl_program_make {
    bl_exec *x;                    /* whose inputs are the values of the document's state */
    bl_program *program;           /* one reference, for as long as the request */
    bl_plan **made;                /* of the states that an initialiser makes; else NULL */
    const bl_plan_tensor **hidden; /* of the program's states, those that no document names */
    /* On the device's thread, when the program is whole: who wants to keep it retains it. */
    bl_status (*installed)(bl_program_make *make, bl_err *err);
    void *arg; /* the caller's */
};

/* In the request's memory, with an empty program; rq->data is its x. */
BL_NODISCARD bl_status bl_program_make_create(bl_request *rq, bl_program_make **out);
/* program->doc from the request's body. */
BL_NODISCARD bl_status bl_program_make_decode(bl_program_make *make);
/* When program->doc is decoded, with the values of its state still where they were found: copy these to the device, and go on to
 * the next queue.  |worker| NULL: as the document says.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_program_make_begin(bl_program_make *make, bl_worker *worker);

#endif
