/* SPDX-License-Identifier: MIT */
/* Imports a language model from a GGUF file, from all parts of a split GGUF file, or from the files of a Hugging Face
 * folder.  The result is a program, its tokenizer and its chat template.
 *
 * archs.def lists the architectures.  The presence of tensors, not a row, selects biases, norms of queries and keys, norms
 * after attention and feed-forward, fused projections, a tied head and experts.  An unknown architecture, an unknown tensor
 * and an unknown key that may change the model's results are BL_EUNSUPPORTED; the error has the name.
 *
 * The program has one entry, "main".  The program of a text model has a paged KV cache (server/models/pages.h) and outputs
 * "logits", float32[rows, vocabulary], of the last token of each text.  The program of an embedding model (|embeds|) has the
 * inputs input_ids and attention_mask, int32[rows, n], and outputs "embedding": float32[rows, width], or [rows, n, width]
 * without pooling.  Values of states refer to the files' bytes, so the files must outlive the loading of the program.
 * Thread: any, with one arena per import. */
#ifndef BL_PROTO_LLM_H
#define BL_PROTO_LLM_H

#include "proto/decode.h"
#include "proto/tokenizer.h"

enum { BL_LLM_ENDS = 16, BL_LLM_CONTEXT = 4096 /* default of the largest context in tokens */ };

/* A file; |name| is relative to the folder of the model, such as "1_Pooling/config.json". */
typedef struct bl_llm_file {
    const char *name;
    bl_span data;
} bl_llm_file;

typedef struct bl_llm_options {
    bl_wire_limits limits; /* max_inputs does not limit states, since a large model has many */
    int64_t context;       /* largest context in tokens; 0: the trained context, at most BL_LLM_CONTEXT */
    int64_t rows, chunk;   /* largest number of texts of a run, and of tokens per text of a run; 0: 32, 256 */
    size_t max_bytes;      /* limit of the import's host memory, without its result; 0: 1 GiB */
    double max_seconds;    /* time limit of the import; 0: none */
    bool exact;            /* products with quantised weights take float32 activations instead of int8 */
    const char *pooling;   /* "none", "mean", "cls" or "last" make an embedding model; NULL: the files decide */
} bl_llm_options;

/* The sampling parameters that the files recommend; NAN and -1: not given. */
typedef struct bl_llm_sampling {
    double temperature, top_p, min_p, repeat_penalty;
    int64_t top_k;
} bl_llm_sampling;

typedef struct bl_llm_model {
    bl_program_doc program;
    bl_tokenizer *tokenizer; /* owned by the caller */
    const char *architecture, *name,
        *quantisation;         /* |name|: NULL if the files have none; |quantisation|: the type of most weights */
    const char *chat_template; /* Jinja source; NULL: none */
    int32_t bos;               /* token at the beginning of a text; -1: none */
    int nends;
    int32_t ends[BL_LLM_ENDS];                                              /* tokens that end the model's output */
    int64_t trained_context, context, vocabulary, width, parameters, bytes; /* |bytes|: size of all tensors in the files */
    bool embeds;                                                            /* an embedding model, which generates no text */
    bl_llm_sampling sampling;
} bl_llm_model;

/* Whether the names are those of a model: a GGUF file, or config.json and a .safetensors file. */
bool bl_llm_is_model(const bl_llm_file *files, int nfiles);
/* |out| lives in |arena|, except for its tokenizer, which the caller destroys, also after a failure (NULL is possible).
 * BL_EINVAL: malformed files.  BL_EUNSUPPORTED: unknown architecture, tensor, key or type.  BL_ELIMIT: above a limit. */
BL_NODISCARD bl_status bl_llm_import(bl_arena *arena, const bl_llm_file *files, int nfiles, const bl_llm_options *options,
                                     bl_llm_model *out, bl_err *err);

#endif
