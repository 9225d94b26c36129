/* SPDX-License-Identifier: MIT */
/* Runs that happen once, however often they are asked for: a run request may carry a number, "seq", one more than that of the
 * last such run of the program for the same key; the same number again gets the same answer and applies nothing. */
#ifndef BL_SERVER_SEQUENCE_H
#define BL_SERVER_SEQUENCE_H

#include "server/exec.h"

typedef struct bl_sequence bl_sequence;

/* x->work becomes one that sees to it, around bl_exec_run. */
BL_NODISCARD bl_status bl_sequence_begin(bl_exec *x, uint64_t seq);
void bl_sequences_free(bl_sequence *first); /* a program's, with their answers */

/* The last numbered run of a key, as it is written down. */
typedef struct bl_sequence_row {
    uint32_t owner; /* whose runs these are */
    uint64_t last;
    int status;
    const char *content_type;
    bl_span answer; /* data NULL: there was no memory for it */
} bl_sequence_row;

/* A copy, which shares the answers.  Worker's thread, between two runs of the program; what is done with the copy needs neither.
 */
BL_NODISCARD bl_status bl_sequences_copy(const bl_sequence *first, bl_sequence **out, bl_err *err);
const bl_sequence *bl_sequence_read(const bl_sequence *at, bl_sequence_row *out); /* and the next one, or NULL */
/* One more, before anybody can run the program. */
BL_NODISCARD bl_status bl_sequence_add(bl_program *program, const bl_sequence_row *row, bl_err *err);

#endif
