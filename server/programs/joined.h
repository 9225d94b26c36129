/* SPDX-License-Identifier: MIT */
/* Dynamic batching of program runs: runs of one entry that several clients ask for at the same time become one run
 * (server/batch).  An entry has a batcher if the compiler proved that its rows are independent and it updates no state.  The
 * first run of the entry creates the batcher, which ends with the program. */
#ifndef BL_SERVER_PROGRAMS_JOINED_H
#define BL_SERVER_PROGRAMS_JOINED_H

#include "server/run/exec.h"

typedef struct bl_joined bl_joined;

/* The named dimension along which runs of the entry are joined; NULL: runs are not joined. */
const char *bl_joined_along(const bl_program *program, int entry);
/* Can |run|, whose options are known, share a run with others?  The run must be one step with inputs of its own, and its
 * results must be sent. */
bool bl_joined_takes(bl_exec *x, const bl_program_run *run);
/* Run alone if the device is free, else queue the run in the batcher.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_joined_go(bl_exec *x, const bl_program_run *run);
/* Destroy the batchers of a program. */
void bl_joined_fini(bl_program *program);

#endif
