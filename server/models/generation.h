/* SPDX-License-Identifier: MIT */
/* Internal interfaces of text generation: completion.c has the client's request; generation.c begins, reports and ends a text;
 * text_step.c chooses the texts of a run, and the next tokens; text_run.c runs the program; draft.c proposes tokens;
 * text_memory.c keeps the state of texts between runs; text_answer.c turns the generated tokens into characters.
 *
 * A text is a request in the queue of its device, for one run after the other (continuous batching).  The request that is
 * dispatched takes along the queued requests of the same model that feed the same number of tokens.  Each of them is one row
 * of the run, and goes back into the queue after it. */
#ifndef BL_SERVER_MODELS_GENERATION_H
#define BL_SERVER_MODELS_GENERATION_H

#include "server/models/completion.h"
#include "server/models/draft.h"
#include "server/models/pages.h"
#include "server/models/sequences.h"
#include "server/models/text_answer.h"
#include "server/store/eviction.h"
enum {
    BL_MOST_UNREAD = 256 * 1024 /* bytes of unread events after which a text pauses until its client reads */
};

/* One past of all rows, in device memory or in host memory. */
typedef struct bl_text_part {
    bl_buffer *buffer;
    char *away;   /* the copy in host memory; NULL: the past is on the device */
    size_t bytes; /* bytes of a row */
} bl_text_part;

/* The pasts of the texts of a run: one row for each text, and possibly free rows.  There is one part for each past of the
 * model.  Reference-counted by the texts that have a row.  Worker's thread, except for the release. */
typedef struct bl_text_memory {
    bl_evictable evictable; /* first member; registered after the first run if the buffers are not host-visible */
    atomic_int refs;
    bl_worker *worker;
    int64_t rows;
    bool *taken; /* rows in use, while deal_rows assigns rows */
    bool busy;   /* a run uses the memory */
    int count;
    bl_text_part parts[];
} bl_text_memory;

/* Where the state of a text is: the device, and the state of the model between runs, such as the KV cache.  Released at the
 * end of the last run. */
typedef struct bl_text_state {
    bl_worker *worker;
    bl_model_instance *instance;
    unsigned device_generation;
    bl_sequence *sequence;  /* NULL: the text has pages */
    bl_text_memory *memory; /* the memory in which the text has |row|; NULL: no state yet */
    int64_t row;
    bl_text_pages pages; /* page table, with a paged KV cache */
} bl_text_state;

/* The arguments of a run that the text leads; allocated once for all runs. */
typedef struct bl_text_args {
    int64_t *vars;
    bl_device_tensor **inputs;
    bl_buffer **buffers, **outputs;
    bl_buffer **states; /* the states of the program, with a paged KV cache */
} bl_text_args;

/* The rows of a text in the current run, and the texts that share the run.  The rows have consecutive tokens of the text: those
 * of a run without a draft are one row. */
typedef struct bl_text_batch {
    bl_request *rq;      /* the request of the text */
    int64_t row, rows;   /* the first of them, and their number */
    bl_generation *next; /* the next text of the run */
} bl_text_batch;

struct bl_generation {
    bl_completion *completion; /* the owner of the text */
    int index;                 /* index among the texts of the completion */
    bl_model_version *version; /* of the completion, like |text| and |options| */
    const bl_text_model *text;
    const bl_text_options *options;
    size_t charged; /* bytes of the server's memory budget, without those of |answer| */

    /* used by the request in the queue or in a run */
    bl_tokens tokens;   /* tokens of the prompt, then the generated tokens */
    size_t prompt, fed; /* tokens of the prompt; tokens that have been run */
    size_t reused;      /* tokens of the prompt that came from the prefix cache */
    bool begun;         /* the progress of the prompt was reported */
    bl_text_state state;
    bl_text_batch batch;
    bl_text_args args;
    bl_draft draft;
    bl_sampling sampling; /* with the seed of this text */
    bl_sampler *sampler;  /* NULL: the model chooses the tokens */
    char *bytes;          /* the logits of the last token, in the dtype of the output */
    float *logits;
    bl_text_answer answer;
    int64_t compute_ns, prompt_ns, queue_ns; /* queue_ns: the time before all of its runs, known at its end */

    /* under the completion's lock */
    bool rests;      /* |own| is in no queue until the client has read */
    bl_request *own; /* the request in the queue; NULL: it has ended */
};

/* ---- generation.c */
/* Create a text of |c|, with a copy of |prompt|. */
BL_NODISCARD bl_status bl_generation_create(bl_completion *c, const bl_tokens *prompt, int shift, bl_generation **out,
                                            bl_err *err);
/* Reserve the memory of its runs, while the request |in| arrives. */
BL_NODISCARD bl_status bl_generation_prepare(bl_generation *g, bl_infer *in);
/* Queue the first run. */
BL_NODISCARD bl_status bl_generation_submit(bl_generation *g, bl_request *rq);
/* Stop the text at its next run, or at once. */
void bl_generation_cancel(bl_generation *g, const char *why);
void bl_generation_destroy(bl_generation *g); /* accepts NULL */
/* g->logits has the |count| logits that predict token |place| of the prompt: record the probability of this token. */
void bl_generation_score(bl_generation *g, size_t place, size_t count);
/* g->logits has the logits of the next token: sample it. */
BL_NODISCARD bl_status bl_generation_choose(bl_generation *g, size_t count, int32_t *id, bl_err *err);
/* Report that a piece of the prompt has been processed. */
void bl_generation_tell_progress(bl_generation *g);
/* End the text because its length limit is reached. */
BL_NODISCARD bl_status bl_generation_close(bl_generation *g, bl_err *err);
/* Append the generated token |id|. */
BL_NODISCARD bl_status bl_generation_take(bl_generation *g, int32_t id, bl_err *err);
/* The logits of every token of the prompt are wanted, but the program gives only the logits of the last token of a run. */
static inline bool bl_generation_steps_singly(const bl_generation *g)
{
    return g->options->echo && g->options->logprobs >= 0 && g->text->remembers && !g->text->gives_all;
}
/* does the client have more than BL_MOST_UNREAD bytes to read?  Under the lock */
bool bl_generation_is_unread(bl_generation *g);

/* ---- text_step.c */
/* The work of the request of a text: one run, for this text and others. */
bl_step bl_text_work(bl_request *rq);

/* ---- text_memory.c */
/* Create a memory without buffers. */
BL_NODISCARD bl_status bl_text_memory_create(bl_worker *worker, const bl_text_model *text, int64_t rows, bl_text_memory **out,
                                             bl_err *err);
void bl_text_memory_release(bl_text_memory *memory); /* accepts NULL */
/* Gather the pasts of |first| and of all texts beside it, |rows| in number, into the first rows of one memory.  *out is
 * retained, and |at| of each text is its row.  The memory stays on the device until bl_text_memory_let_go; this also holds on
 * failure if *out is set.  Nothing is copied if the rows already have this layout. */
BL_NODISCARD bl_status bl_text_memory_gather(bl_generation *first, int64_t rows, bl_text_memory **out, bl_err *err);
/* The run that used the memory is over.  If texts have rows of it, the memory may be evicted to the host from now on.  Accepts
 * NULL. */
void bl_text_memory_let_go(bl_text_memory *memory);
/* A run gave |outputs| for |count| tokens of each text: append them to the pasts with places. */
BL_NODISCARD bl_status bl_text_memory_append(bl_text_memory *memory, const bl_generation *first, size_t count,
                                             bl_buffer *const *outputs, bl_err *err);
/* The text moves to row |at| of |memory|. */
void bl_text_memory_move(bl_text_state *state, bl_text_memory *memory, int64_t at);
/* Move the text into a memory of its own, so that it keeps no rows of others alive. */
BL_NODISCARD bl_status bl_text_memory_part(bl_generation *g, bl_err *err);

#endif
