/* SPDX-License-Identifier: MIT */
/* A client's request for texts of a model, from its options to its answer: one text, or several of one or more prompts.
 *
 * Each text (generation.h) is a request of the server's own in its device's queue.  The client's request streams what there is
 * of them, or is parked until all of them are over.  How the texts are told is a bl_text_form: the machinery is one, the
 * encodings are those of the addresses. */
#ifndef BL_SERVER_MODELS_COMPLETION_H
#define BL_SERVER_MODELS_COMPLETION_H

#include "server/http/stream.h"
#include "server/models/text_model.h"

enum { BL_MOST_TEXTS = 128 /* of one request */ };

typedef struct bl_generation bl_generation;
typedef struct bl_completion bl_completion;

/* Each function appends to |out|, and may be NULL where nothing is told. */
typedef struct bl_text_form {
    void (*document)(bl_completion *c, bl_text *out); /* all of the answer, not streamed */
    /* Events, under the completion's lock. */
    void (*begin)(bl_completion *c, bl_text *out);
    void (*event)(bl_generation *g, bl_span text, bl_text *out); /* |text| was written; and the end, where g->finish is set */
    void (*progress)(bl_generation *g, size_t processed, bl_text *out); /* so many tokens of the prompt are through */
    void (*end)(bl_completion *c, bl_text *out);                        /* all texts are over */
    void (*fail)(const bl_err *err, bl_text *out);                      /* in the place of |end| */
} bl_text_form;

struct bl_completion {
    atomic_int refs; /* of the client's request, and of each text that is being written */
    bl_arena *arena; /* of the options and prompts */
    bl_models *models;
    bl_model_version *version; /* retained */
    const bl_text_model *text;
    const bl_text_form *form;
    bl_text_options options;
    const char *id;  /* of the client's, or made; NULL: none */
    int64_t created; /* seconds since 1970 */
    int ntexts;
    bl_generation **texts;

    bl_request *rq; /* the client's; only while its handler, its answer or its stream is at work */
    bl_infer *in;   /* of that */
    bl_stream *stream;
    bool streams, listed; /* |listed|: the prompts were a list, and so is the answer */
    pthread_mutex_t lock; /* of what follows, and of |stream|, once a text has begun */
    bl_text out;          /* events, of which |sent| bytes are sent */
    size_t sent;
    int64_t told_ns; /* when the last event was told */
    int left;        /* texts that are not over */
    bool parked;     /* the client's request is, and waits for the last of them */
    bool over;
    bl_err err; /* of the first that failed */
    int retry_after;
    int64_t time_ns[2];  /* of all texts: in queues, and in runs */
    bl_completion *next; /* of those that are streamed (bl_models.streamed), under that list's lock */
};

/* A completion for the client's request of |in|: its options are neutral, and it has no prompt.  It lives as long as the request.
 */
BL_NODISCARD bl_status bl_completion_create(bl_infer *in, const bl_text_form *form, bl_completion **out);
/* A text for |prompt|, whose ids the completion copies; |shift| is added to the seed. */
BL_NODISCARD bl_status bl_completion_add(bl_completion *c, const bl_tokens *prompt, int shift);
/* All prompts are there: write.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_completion_begin(bl_completion *c);
/* Tell clients that hear nothing that there is nothing yet.  The looker's thread. */
void bl_completions_ping(bl_models *models);

/* ---- for generation.c */
/* A text is over: |own| says how it went. */
void bl_completion_end_text(bl_generation *g, bl_request *own);
/* Under the lock: there is something to read. */
void bl_completion_wake(bl_completion *c);
void bl_completion_release(void *c);

#endif
