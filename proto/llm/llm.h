/* SPDX-License-Identifier: MIT */
/* Language models: a GGUF file (or the parts of a split one), or the files of a Hugging Face folder, become a program with all
 * that a text model needs.
 *
 * archs.def has the architectures.  What the tensors tell is not in a row: biases, norms of queries and keys, norms behind
 * attention and feed-forward, fused products, a tied head, experts.  A tensor, a key that may change what the model computes, or
 * an architecture that is not known here is refused by name, never ignored.
 *
 * The program has one entry, "main".  A model that writes texts has its keys and values in pages (server/models/pages.h), and
 * gives the logits float32[rows, vocabulary] of the last token of each text.  A model that |embeds| takes whole texts, input_ids
 * and attention_mask int32[rows, n], and gives "embedding": float32[rows, width], or [rows, n, width] without pooling.  Values of
 * states are views into the files' bytes, which must outlive the loading of the program.  Thread: any, one arena each. */
#ifndef BL_PROTO_LLM_H
#define BL_PROTO_LLM_H

#include "proto/decode.h"
#include "proto/tokenizer.h"

enum { BL_LLM_ENDS = 16, BL_LLM_CONTEXT = 4096 /* tokens of a text, where the options do not say it */ };

/* A file by its name without folders. */
typedef struct bl_llm_file {
    const char *name;
    bl_span data;
} bl_llm_file;

typedef struct bl_llm_options {
    bl_wire_limits limits; /* max_inputs does not count states here: a large model has many */
    int64_t context;       /* tokens of a text at the most; 0: what the model was trained for, up to BL_LLM_CONTEXT */
    int64_t rows, chunk;   /* texts of a run, and tokens of one of them, at the most; 0: a usual number */
    size_t max_bytes;      /* host memory of the import, its result not counted; 0: 1 GiB */
    double max_seconds;    /* 0: no limit */
    const char *pooling;   /* "none", "mean", "cls" or "last": the model gives vectors of texts; NULL: as its files say */
} bl_llm_options;

/* How the model's makers sample from it; NAN and -1: they do not say. */
typedef struct bl_llm_sampling {
    double temperature, top_p, min_p, repeat_penalty;
    int64_t top_k;
} bl_llm_sampling;

typedef struct bl_llm_model {
    bl_program_doc program;
    bl_tokenizer *tokenizer; /* the caller destroys it */
    const char *architecture, *name,
        *quantisation;         /* |name| NULL: the files have none; |quantisation|: the type of most weights */
    const char *chat_template; /* Jinja; NULL: there is none */
    int32_t bos;               /* -1: there is none */
    int nends;
    int32_t ends[BL_LLM_ENDS];                                              /* tokens that end a text */
    int64_t trained_context, context, vocabulary, width, parameters, bytes; /* |bytes|: of all tensors in the files */
    bool embeds;                                                            /* it gives vectors of texts and writes none */
    bl_llm_sampling sampling;
} bl_llm_model;

/* Is there what an import takes among files with these names?  A GGUF file, or config.json and a .safetensors. */
bool bl_llm_is_model(const bl_llm_file *files, int nfiles);
/* |out| lives in |arena|, but for its tokenizer; after a failure there is none. */
BL_NODISCARD bl_status bl_llm_import(bl_arena *arena, const bl_llm_file *files, int nfiles, const bl_llm_options *options,
                                     bl_llm_model *out, bl_err *err);

#endif
