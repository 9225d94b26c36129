/* SPDX-License-Identifier: MIT */
/* Text models: a version with a tokenizer beside its program.  The program takes tokens, and where the first of them stands, and
 * gives logits, or the next token.  What it remembers of those before, such as keys and values, are outputs that it is given as
 * inputs with the next, or state that it updates, and each text that is being written has its own.  A program without either is
 * given all tokens each time.  Where its inputs and outputs begin with the same dimension, several texts are rows of one run. */
#ifndef BL_SERVER_MODELS_TEXT_MODEL_H
#define BL_SERVER_MODELS_TEXT_MODEL_H

#include "proto/tokenizer.h"
#include "server/models/model_infer.h"
#include "server/models/sampler.h"

enum { BL_TEXT_ENDS = 16, BL_TEXT_STOPS = 16 };

/* What a text remembers, zeros at first: the output of one run is the input of the next; or the input has a place for each token,
 * and those of the run's tokens are what the output has. */
typedef struct bl_text_past {
    int input, output;
    size_t bytes;        /* of one text */
    int64_t places;      /* 0: all is made anew in each run */
    size_t times, inner; /* all places stand there so often, and one has so many bytes there */
} bl_text_past;

/* What the files of a language model say besides its program: the version's arena.  Zeroed: nothing is known. */
typedef struct bl_text_about {
    const char *chat_template;         /* Jinja; NULL: the model has none */
    const char *bos_token, *eos_token; /* texts of the tokens; NULL: the model has none */
    const char *architecture, *quantisation;
    const char *file; /* that the weights come from */
    int64_t trained_context, parameters, bytes, width;
    bl_sampling sampling; /* where requests of /v1 do not say it; used where |samples| */
    bool samples;
} bl_text_about;

struct bl_text_model {
    bl_text_about about;
    bl_tokenizer *tokenizer;
    int tokens, position; /* inputs; position -1: there is none */
    int var;              /* the named dimension of |tokens|; -1: one at a time */
    int rows;             /* that of texts that share a run; -1: each has its own */
    int npasts;
    bl_text_past *pasts; /* the version's arena */
    size_t past_bytes;   /* of all */
    bool grows;          /* all of them have places: what is there stays there */
    bool remembers;      /* these, or state, or pages */
    int slots, table;    /* inputs of a program with keys and values in pages (pages.h); -1: it has none */
    int pages;           /* the named dimension of |table| */
    int64_t pool;        /* pages of a state; 0: it has none */
    int64_t chunk;       /* tokens of a run at the most */
    int64_t context;     /* tokens of a text at the most */
    int output;
    bool chooses;   /* the output is the next token */
    bool gives_all; /* the logits of every token of a run, and not only of the last */
    int nends;
    int32_t ends[BL_TEXT_ENDS]; /* tokens after which there is nothing */
};

/* ---- text_model.c */
/* The version becomes a text model with the tokenizer in |file|. */
BL_NODISCARD bl_status bl_text_model_read(bl_model_version *version, bl_span file, bl_err *err);
/* Is the first dimension of its tokens one of rows, each with a text of its own?  Else it is that of the tokens. */
bool bl_text_model_has_rows(const bl_model_version *version, const bl_wire_graph *graph);
/* Does it keep keys and values in pages (pages.h)? */
bool bl_text_model_has_pages(const bl_model_version *version, const bl_wire_graph *graph);
/* Its inputs and outputs are known: which of them are what. */
BL_NODISCARD bl_status bl_text_model_describe(bl_model_version *version, bl_err *err);
void bl_text_model_fini(bl_model_version *version);

/* ---- text_options.c */
/* Whose members a document has: those of Triton's back end for vLLM, or those of OpenAI's API, llama.cpp's server and vLLM. */
typedef enum bl_text_api { BL_TEXT_API_V2 = 1, BL_TEXT_API_V1 = 2 } bl_text_api;

/* What a request says of the texts that it wants.  What is pointed to is the arena's. */
typedef struct bl_text_options {
    int64_t max_tokens; /* -1: as many as fit */
    int64_t min_tokens;
    bl_sampling sampling;
    bool goes_on; /* past the tokens that end a text */
    bool stream, echo;
    bool cache_prompt;  /* pages with tokens that the prompt begins with are used; else the whole prompt is computed */
    int n;              /* texts for each prompt */
    int logprobs;       /* likeliest tokens that are told in each place; 0: the written one alone; -1: nothing is */
    bool post_sampling; /* their probabilities are what the sampler left */
    bool include_usage, timings, progress, verbose, return_tokens;
    int nfields; /* of the answer, by the paths of llama.cpp; 0: all */
    const char **fields;
    int nstops;
    bl_span stops[BL_TEXT_STOPS];
} bl_text_options;

typedef struct bl_text_reading {
    bl_arena *arena; /* of what the options point to */
    const bl_text_model *text;
    bl_text_api api;
    bl_text_options *out;
    bl_infer_request *wire; /* gets id, priority and timeout; or NULL */
    const char *prompt;     /* of /v2; its document's */
    bl_err *err;
} bl_text_reading;
/* The neutral values of an API. */
void bl_text_options_init(bl_text_options *options, bl_text_api api);
/* The members of |object| that the API has.  What it does not have is a mistake in /v2; in /v1 it is ignored, unless its name is
 * near a known one. */
BL_NODISCARD bl_status bl_text_options_read(bl_text_reading *reading, const bl_json *object);
/* After the last of them: seeds are drawn, and what needs the vocabulary is made. */
BL_NODISCARD bl_status bl_text_options_finish(bl_text_reading *reading);

#endif
