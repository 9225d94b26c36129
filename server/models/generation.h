/* SPDX-License-Identifier: MIT */
/* Between the files of texts that are being written: completion.c has the client's request, generation.c begins, tells and ends a
 * text, text_step.c runs the program, and text_memory.c keeps what texts remember.
 *
 * A text is a request in its device's queue, for one run after the other.  The one whose turn it is takes along those of the same
 * model that wait there and give the program as many tokens: each is a row of the run, comes before it and goes after it. */
#ifndef BL_SERVER_MODELS_GENERATION_H
#define BL_SERVER_MODELS_GENERATION_H

#include "server/models/completion.h"
#include "server/models/pages.h"
#include "server/models/sequences.h"
#include "server/store/eviction.h"
enum {
    BL_MOST_UNREAD = 256 * 1024 /* events that wait for their client; then the text does */
};

/* A past of all rows: in one of the two places. */
typedef struct bl_text_part {
    bl_buffer *buffer;
    char *away;   /* its copy on the host */
    size_t bytes; /* of a row */
} bl_text_part;

/* What the texts of a run remember, a row for each, and perhaps rows that nobody has: as many parts as the model has pasts.
 * Counted by texts that have a row.  Worker's thread, but for the release. */
typedef struct bl_text_memory {
    bl_evictable evictable; /* first; once a run is over that had it, where the host does not see it */
    atomic_int refs;
    bl_worker *worker;
    int64_t rows;
    bool *taken; /* while rows are dealt out */
    bool busy;   /* a run has it */
    int count;
    bl_text_part parts[];
} bl_text_memory;

/* A token of the answer. */
typedef struct bl_text_token {
    int32_t id;
    bool first;       /* nothing but marks was in front of it */
    bool known;       /* |chance| is known; not that of the first token of a prompt */
    float chance;     /* the logarithm of its probability; its probability where the options say post_sampling */
    size_t at;        /* of its bytes among those of the text */
    size_t top, ntop; /* the likeliest in its place, of g->top */
} bl_text_token;

struct bl_generation {
    bl_completion *completion; /* which owns it */
    int index;                 /* among its texts */
    bl_models *models;
    bl_model_version *version; /* the completion's, as |text| and |options| */
    const bl_text_model *text;
    const bl_text_options *options;
    bl_sampling sampling; /* with its own seed */

    /* its runs; of the request that is in the queue, or at work */
    bl_worker *worker;
    bl_model_instance *instance;
    bl_sequence *sequence;
    unsigned device_generation;
    bl_text_memory *memory; /* in which it has |row|; NULL: it remembers nothing yet */
    int64_t row;
    bl_text_pages pages; /* where keys and values are in pages */
    bl_buffer **states;  /* of a run that it leads: the program's */
    bl_tokens tokens;    /* the prompt's, and those that were made */
    size_t prompt, fed;  /* tokens */
    size_t reused;       /* tokens of the prompt that need not be run again */
    bool silent;         /* no text was there yet */
    bool new_line;       /* the text has one */
    bool begun;          /* the progress of its prompt was told */
    char *bytes;         /* the logits of the last token as they come */
    float *logits;
    bl_sampler *sampler;                     /* NULL: the model chooses the tokens */
    bl_text pending;                         /* bytes that are not told yet: half a character, or what may become a stop */
    size_t taken;                            /* bytes before those */
    size_t echoed;                           /* bytes of the prompt, where the text begins with it: no stop is looked for there */
    const char *finish;                      /* why it is over; NULL: it is not */
    const char *stopped_by;                  /* the stop that ended it; NULL: none */
    int64_t compute_ns, prompt_ns, queue_ns; /* queue_ns: before all of its runs, known when it is over */

    /* what is told of its tokens */
    bl_text_token *said;
    size_t nsaid, said_cap, ntold;
    bl_token_chance *top;
    size_t ntop, charged; /* |charged|: bytes of the server's memory, for these and for its runs */

    /* the run at hand */
    bl_request *rq;
    int64_t at;            /* the row that it is there */
    bl_generation *beside; /* the next of its texts */
    int64_t *vars;         /* of a run that it leads, as those below; calloc'd once for all of them */
    bl_device_tensor **inputs;
    bl_buffer **buffers, **outputs;

    /* under the completion's lock */
    bl_text written; /* characters, where they are not told as events */
    bool rests;      /* |own| is in no queue, until the client has read */
    bl_request *own; /* in the queue; NULL: not any more */
};

/* ---- generation.c */
/* A text of |c|, with a copy of |prompt|. */
BL_NODISCARD bl_status bl_generation_create(bl_completion *c, const bl_tokens *prompt, int shift, bl_generation **out,
                                            bl_err *err);
/* The memory that its runs need, for a request on its way in. */
BL_NODISCARD bl_status bl_generation_prepare(bl_generation *g, bl_infer *in);
/* Its first run waits from now on. */
BL_NODISCARD bl_status bl_generation_submit(bl_generation *g, bl_request *rq);
/* Stop at the next run, or at once. */
void bl_generation_cancel(bl_generation *g, const char *why);
void bl_generation_destroy(bl_generation *g); /* accepts NULL */
/* In g->logits are the |count| logits in the place of the prompt's token |place|: note what they say of it. */
BL_NODISCARD bl_status bl_generation_score(bl_generation *g, size_t place, size_t count, bl_err *err);
/* In g->logits are those of the token that is to be written: choose it. */
BL_NODISCARD bl_status bl_generation_choose(bl_generation *g, size_t count, int32_t *id, bl_err *err);
/* A piece of the prompt is through. */
void bl_generation_tell_progress(bl_generation *g);
/* Nothing is written any more. */
BL_NODISCARD bl_status bl_generation_close(bl_generation *g, bl_err *err);
/* The model wrote |id|. */
BL_NODISCARD bl_status bl_generation_take(bl_generation *g, int32_t id, bl_err *err);
/* It is a prompt of which the logits of every token are wanted, and the program gives those of the last. */
static inline bool bl_generation_steps_singly(const bl_generation *g)
{
    return g->options->echo && g->options->logprobs >= 0 && g->text->remembers && !g->text->gives_all;
}
bool bl_generation_is_unread(bl_generation *g); /* the client has much to read; under the lock */

/* ---- text_step.c */
/* The work of a text's request: one run, for it and others. */
bl_step bl_text_work(bl_request *rq);

/* ---- text_memory.c */
/* Without buffers. */
BL_NODISCARD bl_status bl_text_memory_create(bl_worker *worker, const bl_text_model *text, int64_t rows, bl_text_memory **out,
                                             bl_err *err);
void bl_text_memory_release(bl_text_memory *memory); /* accepts NULL */
/* What |first| and all beside it, |rows| in number, remember, as the first rows of one: *out is retained, and each |at| says
 * which.  It is on the device until the caller lets go of it, also where this fails and there is one.  Nothing is copied where
 * they are so already. */
BL_NODISCARD bl_status bl_text_memory_gather(bl_generation *first, int64_t rows, bl_text_memory **out, bl_err *err);
/* The run is over that had it; if texts have rows of it, it may wait on the host from now on.  Accepts NULL. */
void bl_text_memory_let_go(bl_text_memory *memory);
/* A run gave |outputs| for |count| tokens of each: what has places gets them there. */
BL_NODISCARD bl_status bl_text_memory_append(bl_text_memory *memory, const bl_generation *first, size_t count,
                                             bl_buffer *const *outputs, bl_err *err);
/* The text has row |at| of |memory|, and no other. */
void bl_text_memory_move(bl_generation *g, bl_text_memory *memory, int64_t at);
/* So that it holds no rows of others. */
BL_NODISCARD bl_status bl_text_memory_part(bl_generation *g, bl_err *err);

#endif
