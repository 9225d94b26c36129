/* SPDX-License-Identifier: MIT */
/* Runs that happen once, however often they are asked for: a run request may carry a number, "seq", one more than that of the
 * last such run of the program for the same key; the same number again gets the same answer and applies nothing. */
#ifndef BL_SERVER_SEQUENCE_H
#define BL_SERVER_SEQUENCE_H

#include "server/exec.h"

typedef struct bl_sequence bl_sequence;

/* x->work becomes one that sees to it, around bl_exec_run. */
BL_NODISCARD bl_status bl_sequence_begin(bl_exec *x, uint64_t seq);
void bl_sequences_free(bl_server *server, bl_sequence *first); /* a program's, with their answers */

#endif
