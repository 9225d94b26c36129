/* SPDX-License-Identifier: MIT */
/* Idempotent runs: a run request may carry a sequence number, "seq", one more than that of the last such run of the program by
 * the same key.  A repeated number gets the stored answer and applies nothing. */
#ifndef BL_SERVER_PROGRAMS_IDEMPOTENT_H
#define BL_SERVER_PROGRAMS_IDEMPOTENT_H

#include "server/run/exec.h"

typedef struct bl_sequence bl_sequence;

/* Replace x->work by a function that checks the number and calls bl_exec_run. */
BL_NODISCARD bl_status bl_sequence_begin(bl_exec *x, uint64_t seq);
void bl_sequences_free(bl_sequence *first); /* frees the records of a program, with their answers */

/* The last numbered run of a key, as it is saved. */
typedef struct bl_sequence_row {
    uint32_t owner; /* the key of the runs */
    uint64_t last;
    int status;
    const char *content_type;
    bl_span answer; /* data NULL: there was no memory to store the answer */
} bl_sequence_row;

/* Copy the records; the copy shares the answers.  Thread: the worker's, between two runs of the program.  The copy may be used
 * on any thread. */
BL_NODISCARD bl_status bl_sequences_copy(const bl_sequence *first, bl_sequence **out, bl_err *err);
const bl_sequence *bl_sequence_read(const bl_sequence *at, bl_sequence_row *out); /* reads |at|; returns the next record, or
                                                                                   * NULL */
/* Add a saved record.  Call before the program can run. */
BL_NODISCARD bl_status bl_sequence_add(bl_program *program, const bl_sequence_row *row, bl_err *err);

#endif
