/* SPDX-License-Identifier: MIT */
/* Programs whose weights lie in a device's memory, where the host does not see them: when that is full, those that were used
 * longest ago move to host memory, and come back when they are used.  So only who asks for more than there is at all is told so.
 * A running step keeps its own program; what else is in flight is waited for by the copy. */
#ifndef BL_SERVER_RESIDENTS_H
#define BL_SERVER_RESIDENTS_H

#include "server/programs.h"

typedef struct bl_residents bl_residents;

/* Of |worker|, whose pool is there: from now on it makes room where it has none. */
BL_NODISCARD bl_status bl_residents_create(bl_worker *worker, bl_residents **out, bl_err *err);
void bl_residents_destroy(bl_residents *residents); /* accepts NULL */
/* The thread that calls is the worker's, and begins another piece of work: nothing is in use. */
void bl_residents_begin(bl_residents *residents);

/* The program's state is there, and will be until it ends.  Any thread. */
void bl_residents_add(bl_program *program);
void bl_residents_remove(bl_program *program); /* where it was added; its copies are freed */
/* Before any use of program->states: they are on the device until the next call for another program.  BL_ENODEVMEM where there is
 * no room even without all others.  Worker's thread. */
BL_NODISCARD bl_status bl_program_wake(bl_program *program, bl_err *err);

#endif
