/* SPDX-License-Identifier: MIT */
/* Between the files of texts that are being written: generation.c begins, tells and ends them, text_step.c runs the program, and
 * text_memory.c keeps what they remember.
 *
 * A text is a request in its device's queue, for one run after the other.  The one whose turn it is takes along those of the same
 * model that wait there and give the program as many tokens: each is a row of the run, comes before it and goes after it. */
#ifndef BL_SERVER_MODELS_GENERATION_H
#define BL_SERVER_MODELS_GENERATION_H

#include "server/models/sequence.h"
#include "server/models/text.h"
#include "server/residents.h"
#include "server/stream.h"

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
    bl_resident resident; /* first; once a run is over that had it, where the host does not see it */
    atomic_int refs;
    bl_worker *worker;
    int64_t rows;
    bool *taken; /* while rows are dealt out */
    bool busy;   /* a run has it */
    int count;
    bl_text_part parts[];
} bl_text_memory;

typedef struct bl_generation bl_generation;
struct bl_generation {
    atomic_int refs;
    bl_models *models;
    bl_model_version *version; /* retained */
    const bl_text_model *text;
    bl_text_options options;
    char *id;     /* of the client's; or NULL */
    bl_infer *in; /* of one answer; NULL: the client's request may be gone */

    /* its runs; of the request that is in the queue, or at work */
    bl_worker *worker;
    bl_model_instance *instance;
    bl_sequence *sequence;
    unsigned device_generation;
    bl_text_memory *memory; /* in which it has |row|; NULL: it remembers nothing yet */
    int64_t row;
    bl_tokens tokens;   /* the prompt's, and those that were made */
    size_t prompt, fed; /* tokens */
    bool silent;        /* no text was there yet */
    char *bytes;        /* the logits of the last token as they come */
    float *logits;
    bl_sampler *sampler;          /* NULL: the model chooses the tokens */
    bl_text pending;              /* bytes that are not told yet: half a character, or what may become a stop */
    const char *finish;           /* why it is over; NULL: it is not */
    int64_t compute_ns, queue_ns; /* queue_ns: before all of its runs, known when it is over */

    /* the run at hand */
    bl_request *rq;
    int64_t at;            /* the row that it is there */
    bl_generation *beside; /* the next of its texts */
    int64_t *vars;         /* of a run that it leads, as those below; calloc'd once for all of them */
    bl_held **inputs;
    bl_buffer **buffers, **outputs;

    /* what the client is told */
    pthread_mutex_t lock; /* of what follows */
    bl_text out;          /* the text, or events, of which |sent| bytes are sent */
    size_t sent;
    bool streams, over, failed;
    bool rests;        /* |own| is in no queue, until the client has read */
    bl_request *own;   /* in the queue; NULL: not any more */
    bl_stream *stream; /* NULL: the client is gone, or not there yet */
};

/* ---- generation.c */
/* The model wrote |id|. */
BL_NODISCARD bl_status bl_generation_take(bl_generation *g, int32_t id, bl_err *err);

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
