/* SPDX-License-Identifier: MIT */
/* Making a program from its document.  The compiler makes the plans of the program and of its initialisers, and the worker of
 * the device makes its state.  The request moves through several queues.  Used by PUT of a program and by the loading of a
 * model. */
#ifndef BL_SERVER_PROGRAMS_PROGRAM_MAKE_H
#define BL_SERVER_PROGRAMS_PROGRAM_MAKE_H

#include "server/run/exec.h"

typedef struct bl_program_make bl_program_make;
struct bl_program_make {
    bl_exec *x;                    /* its inputs are the values of the document's state */
    bl_program *program;           /* one reference, held until the request ends */
    bl_plan **made;                /* for each state with an initialiser: the plan of the initialiser; else NULL */
    const bl_plan_tensor **hidden; /* for each hidden state (one that no document names): its plan tensor */
    /* Called on the device's thread when the program is complete.  Retain the program to keep it. */
    bl_status (*installed)(bl_program_make *make, bl_err *err);
    void *arg; /* argument of |installed| */
};

/* Create the object in the request's memory, with an empty program.  Sets rq->data to its x. */
BL_NODISCARD bl_status bl_program_make_create(bl_request *rq, bl_program_make **out);
/* Decode program->doc from the request's body. */
BL_NODISCARD bl_status bl_program_make_decode(bl_program_make *make);
/* Call when program->doc is decoded and the values of its state are still in the body: copies the values to the device and
 * submits the request to its next queue.  |worker| NULL: the device that the document names.  After BL_OK the caller must not
 * touch the request. */
BL_NODISCARD bl_status bl_program_make_begin(bl_program_make *make, bl_worker *worker);

#endif
