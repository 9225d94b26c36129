/* SPDX-License-Identifier: MIT */
/* A client's request for generated texts, from its options to its answer: one or several texts for one or several prompts.
 *
 * Each text (generation.h) is a request of the server itself in the queue of its device.  The client's request streams the
 * texts as they grow, or is parked until all of them are over.  bl_text_form holds the encoding of the answer, one for each
 * API. */
#ifndef BL_SERVER_MODELS_COMPLETION_H
#define BL_SERVER_MODELS_COMPLETION_H

#include "server/http/stream.h"
#include "server/models/text_model.h"

enum { BL_MOST_TEXTS = 128 /* texts of one request */ };

typedef struct bl_generation bl_generation;
typedef struct bl_completion bl_completion;

/* Each function appends to |out|.  A function may be NULL if the API reports nothing there. */
typedef struct bl_text_form {
    void (*document)(bl_completion *c, bl_text *out); /* the whole answer, if it is not streamed */
    /* Stream events, under the completion's lock. */
    void (*begin)(bl_completion *c, bl_text *out);
    void (*event)(bl_generation *g, bl_span text, bl_text *out); /* |text| was generated; g->finish set: the text is over */
    void (*progress)(bl_generation *g, size_t processed, bl_text *out); /* |processed| tokens of the prompt have been run */
    void (*end)(bl_completion *c, bl_text *out);                        /* all texts are over */
    void (*fail)(const bl_err *err, bl_text *out);                      /* sent in place of |end| */
} bl_text_form;

typedef enum bl_completion_phase {
    BL_COMPLETION_RUNS,   /* texts are generated; the client's request streams them, is not parked yet, or has left */
    BL_COMPLETION_PARKED, /* texts are generated; the client's request is parked until the last text is over */
    BL_COMPLETION_OVER    /* all texts are over */
} bl_completion_phase;

struct bl_completion {
    atomic_int refs; /* references of the client's request and of each text that is being generated */
    bl_arena *arena; /* for the options and prompts */
    bl_models *models;
    bl_model_version *version; /* retained */
    const bl_text_model *text;
    const bl_text_form *form;
    bl_text_options options;
    const char *id;  /* the client's, or generated; NULL: none */
    int64_t created; /* seconds since 1970 */
    int ntexts;
    bl_generation **texts;

    bl_request *rq; /* the client's request; valid only during its handler, its answer and its stream */
    bl_infer *in;   /* the inference of |rq| */
    bl_stream *stream;
    bool streams, listed; /* |listed|: the prompts were a list, so the answer is a list too */
    pthread_mutex_t lock; /* guards the members below, and |stream|, once a text has begun */
    bl_text out;          /* stream events, of which |sent| bytes are sent */
    size_t sent;
    int64_t told_ns; /* the time of the last event */
    int left;        /* texts that are not over */
    bl_completion_phase phase;
    bl_err err; /* the error of the first text that failed */
    int retry_after;
    int64_t time_ns[2];  /* sums over all texts: time in queues, time in runs */
    bl_completion *next; /* list of streamed completions (bl_models.streamed), under the lock of the list */
};

/* Create a completion for the client's request of |in|, with neutral options and without a prompt.  It lives as long as the
 * request. */
BL_NODISCARD bl_status bl_completion_create(bl_infer *in, const bl_text_form *form, bl_completion **out);
/* Add a text for |prompt|, whose ids are copied.  |shift| is added to the seed. */
BL_NODISCARD bl_status bl_completion_add(bl_completion *c, const bl_tokens *prompt, int shift);
/* All prompts are added: begin.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_completion_begin(bl_completion *c);
/* Send a keep-alive ping to streaming clients that have received no event for a while.  Looker thread. */
void bl_completions_ping(bl_models *models);

/* ---- for generation.c */
/* A text is over; |own| has its error. */
void bl_completion_end_text(bl_generation *g, bl_request *own);
/* There is something to read.  Under the lock. */
void bl_completion_wake(bl_completion *c);
void bl_completion_release(void *c);

#endif
