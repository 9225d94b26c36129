/* Runs of a program that several clients ask for at the same time, as one.  It is the batcher of models (batch.c) that joins
 * them: each entry whose rows are proven to be independent, and that updates nothing, has what a version of a model has, made
 * when its first run comes and gone with the program. */
#ifndef BL_SERVER_MODELS_JOINED_H
#define BL_SERVER_MODELS_JOINED_H

#include "server/run/exec.h"

/* The named dimension along which runs of an entry are joined; NULL: they are not. */
const char *bl_joined_along(const bl_program *program, int entry);
/* Is |run|, for which all is chosen, one that can be joined with others?  One step with inputs of its own, whose results are
 * sent. */
bool bl_joined_takes(bl_exec *x, const bl_program_run *run);
/* On to the device, by itself or with others.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_joined_go(bl_exec *x, const bl_program_run *run);
/* The program ends. */
void bl_joined_fini(bl_program *program);

#endif
