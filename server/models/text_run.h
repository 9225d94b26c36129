/* SPDX-License-Identifier: MIT */
/* One run of the program of a text model, with rows of one text or of several texts.  The rows of a text have consecutive pieces
 * of its tokens, from the first token that was not run.  Worker's thread, except for bl_text_args. */
#ifndef BL_SERVER_MODELS_TEXT_RUN_H
#define BL_SERVER_MODELS_TEXT_RUN_H

#include "server/models/generation.h"

typedef struct bl_text_run {
    bl_generation *lead;  /* the first text; its arguments are used */
    bl_generation **last; /* the end of the list of texts (batch.next) */
    int64_t texts, rows;
    size_t count; /* tokens of each row */
    int64_t took_ns;
    bl_plan *plan;                 /* retained */
    bl_text_memory *before, *next; /* retained; |next| is NULL if the pasts are updated in place */
} bl_text_run;

/* Allocate the arguments of the runs of |version| on |instance|.  |vars| are those of a run of the largest size. */
BL_NODISCARD bl_status bl_text_args_init(bl_text_args *args, const bl_model_version *version, const bl_model_instance *instance,
                                         bl_err *err);
void bl_text_args_fini(bl_text_args *args);

/* The index of the first token of the next run. */
static inline size_t bl_text_run_first(const bl_generation *g)
{
    return g->text->remembers ? g->fed : 0;
}
/* Add |g| with one row. */
void bl_text_run_join(bl_text_run *run, bl_generation *g);
/* Fail if the device of |g| was reopened since the text began. */
BL_NODISCARD bl_status bl_text_run_check(const bl_generation *g, bl_err *err);
/* Are runs of this size measured?  Only decoding runs are, since the time of a prompt depends on its length. */
bool bl_text_run_is_measured(const bl_text_run *run);
/* Run.  The first row of each text becomes a part of the text (g->fed).  Call bl_text_run_end in every case. */
BL_NODISCARD bl_status bl_text_run_do(bl_text_run *run, bl_err *err);
/* Read the |*count| logits of row |row| of |g| into g->logits: those of the token |back| places before the last token.  If the
 * model chooses tokens, |*id| is the chosen token. */
BL_NODISCARD bl_status bl_text_run_read(const bl_text_run *run, bl_generation *g, size_t row, size_t back, size_t *count,
                                        int32_t *id, bl_err *err);
/* Release what only the run needed, whether or not it succeeded. */
void bl_text_run_end(bl_text_run *run);

#endif
