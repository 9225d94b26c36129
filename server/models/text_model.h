/* SPDX-License-Identifier: MIT */
/* Text models: a version with a tokenizer beside its program.  The program takes tokens and the position of the first of them,
 * and gives logits or the next token.
 *
 * The state of a text, such as its KV cache, is either an output that becomes an input of the next run, or program state that
 * a run updates; each text has its own.  A program without state is given all tokens in each run.  If the inputs and outputs
 * begin with the same dimension, several texts are rows of one run. */
#ifndef BL_SERVER_MODELS_TEXT_MODEL_H
#define BL_SERVER_MODELS_TEXT_MODEL_H

#include "proto/tokenizer.h"
#include "server/models/model_infer.h"
#include "server/models/sampler.h"

enum { BL_TEXT_ENDS = 16, BL_TEXT_STOPS = 16 };

/* A past: state of a text, zeros at first.  The output of one run is the input of the next run.  Or the input has a place for
 * each token, and the output has the places of the tokens of the run. */
typedef struct bl_text_past {
    int input, output;
    size_t bytes;        /* bytes of one text */
    int64_t places;      /* 0: each run computes the whole past */
    size_t times, inner; /* memory layout: |times| blocks of all places, with |inner| bytes for each place */
} bl_text_past;

/* What the files of a language model say besides the program.  In the arena of the version.  Zeroed: nothing is known. */
typedef struct bl_text_about {
    const char *chat_template;         /* Jinja; NULL: the model has none */
    const char *bos_token, *eos_token; /* the text of each token; NULL: the model has none */
    const char *architecture, *quantisation;
    const char *file; /* the file of the weights */
    int64_t trained_context, parameters, bytes, width;
    bl_sampling sampling; /* the defaults of /v1 requests; used if |samples| */
    bool samples;
} bl_text_about;

struct bl_text_model {
    bl_text_about about;
    bl_tokenizer *tokenizer;
    int tokens, position; /* input indices; position -1: no such input */
    int var;              /* the named dimension of |tokens|; -1: one token in each run */
    int rows;             /* the named dimension of texts that share a run; -1: each text has its own run */
    int npasts;
    bl_text_past *pasts; /* in the arena of the version */
    size_t past_bytes;   /* bytes of all pasts */
    bool grows;          /* all pasts have places, so a run appends to them in place */
    bool remembers;      /* the model has pasts, state or pages */
    int slots, table;    /* inputs of a program with a paged KV cache (pages.h); -1: none */
    int pages;           /* the named dimension of |table| */
    int64_t pool;        /* number of pages of a state; 0: no paged KV cache */
    int64_t chunk;       /* maximum number of tokens of a run */
    int64_t context;     /* maximum number of tokens of a text */
    int output;
    bool chooses;   /* the output is the next token, and not logits */
    bool gives_all; /* the output has the logits of every token of a run, and not only of the last */
    int nends;
    int32_t ends[BL_TEXT_ENDS]; /* end-of-text tokens */
};

/* ---- text_model.c */
/* Make the version a text model, with the tokenizer in |file|. */
BL_NODISCARD bl_status bl_text_model_read(bl_model_version *version, bl_span file, bl_err *err);
/* Is the first dimension of the tokens a dimension of rows, with one text in each row?  Otherwise it is the dimension of
 * tokens. */
bool bl_text_model_has_rows(const bl_model_version *version, const bl_wire_graph *graph);
/* Does the model have a paged KV cache (pages.h)? */
bool bl_text_model_has_pages(const bl_model_version *version, const bl_wire_graph *graph);
/* The inputs and outputs are known: find the role of each. */
BL_NODISCARD bl_status bl_text_model_describe(bl_model_version *version, bl_err *err);
/* Can |draft| propose tokens for |version|? */
BL_NODISCARD bl_status bl_text_model_check_draft(const bl_model_version *version, const bl_model_version *draft, bl_err *err);
void bl_text_model_fini(bl_model_version *version);

/* ---- text_options.c */
/* Whose members a document has: those of Triton's back end for vLLM, or those of OpenAI's API, llama.cpp's server and vLLM. */
typedef enum bl_text_api { BL_TEXT_API_V2 = 1, BL_TEXT_API_V1 = 2 } bl_text_api;

/* The options of a request for text.  Pointers point into the arena. */
typedef struct bl_text_options {
    int64_t max_tokens; /* -1: up to the context length */
    int64_t min_tokens;
    bl_sampling sampling;
    bool goes_on; /* continue past end-of-text tokens */
    bool stream, echo;
    bool cache_prompt; /* use the prefix cache; else the whole prompt is computed */
    int n;             /* texts for each prompt */
    int logprobs;      /* likeliest tokens to report in each place; 0: only the chosen token; -1: no probabilities */
    /* speculative decoding (draft.h): tokens of a proposal, and the least probability of each; -1: as the model says */
    int64_t draft_max, draft_min;
    float draft_p_min;
    bool post_sampling; /* report the probabilities that the samplers left */
    bool include_usage, timings, progress, verbose, return_tokens;
    int nfields; /* fields of the answer, by the paths of llama.cpp; 0: all */
    const char **fields;
    int nstops;
    bl_span stops[BL_TEXT_STOPS];
} bl_text_options;

typedef struct bl_text_reading {
    bl_arena *arena; /* for the values that the options point to */
    const bl_text_model *text;
    bl_text_api api;
    bl_text_options *out;
    bl_infer_request *wire; /* receives id, priority and timeout; or NULL */
    const char *prompt;     /* the prompt of /v2, in its document */
    bl_err *err;
} bl_text_reading;
/* Set the neutral values of an API. */
void bl_text_options_init(bl_text_options *options, bl_text_api api);
/* Read the members of |object| that the API knows.  An unknown member is an error in /v2.  In /v1 an unknown member is
 * ignored, unless its name is similar to a known one. */
BL_NODISCARD bl_status bl_text_options_read(bl_text_reading *reading, const bl_json *object);
/* Call after all members are read: draws seeds, and builds what needs the vocabulary. */
BL_NODISCARD bl_status bl_text_options_finish(bl_text_reading *reading);

#endif
