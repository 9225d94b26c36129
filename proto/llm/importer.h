/* SPDX-License-Identifier: MIT */
/* Private declarations of the importer of language models.
 *
 * A source is one view of a GGUF file or of a Hugging Face folder.  It has tensors by GGUF's names ("blk.0.attn_q.weight") and
 * keys by GGUF's names without the architecture ("attention.head_count").  spec.c reads the keys; llm_graph.c,
 * block_attention.c, feed.c, encoder.c and llm_weights.c write the nodes.  Failures are sticky: *graph->err has the first one,
 * and every later call returns NULL.  Thread: any, one at a time per graph. */
#ifndef BL_PROTO_LLM_IMPORTER_H
#define BL_PROTO_LLM_IMPORTER_H

#include "proto/gguf/gguf.h"
#include "proto/llm/llm.h"
#include "proto/write/write.h"

/* ---- architectures (spec.c, archs.def) */
typedef enum bl_llm_rope { BL_ROPE_NONE, BL_ROPE_PAIRS, BL_ROPE_HALVES, BL_ROPE_PERMUTED } bl_llm_rope;
typedef enum bl_llm_act { BL_ACT_SILU, BL_ACT_GELU, BL_ACT_GELU_TANH, BL_ACT_RELU2, BL_ACT_SWIGLU_CLAMPED } bl_llm_act;

enum {
    BL_LLM_PARALLEL = 1,         /* attention and feed-forward read the same input; both are added to it */
    BL_LLM_EMBED_SQRT = 2,       /* multiply embeddings by the square root of the width */
    BL_LLM_HUB_PLUS_ONE = 4,     /* add 1 to norm weights of a Hugging Face folder; GGUF's converter adds it */
    BL_LLM_LATE_NORM = 8,        /* "post_attention_norm" is the norm before the feed-forward network */
    BL_LLM_BARE_NORM = 16,       /* norms without weights */
    BL_LLM_QK_AFTER = 32,        /* normalise queries and keys after the rotation, not before it */
    BL_LLM_HUB_GROUPED = 64,     /* a Hugging Face folder interleaves q, k and v of the fused projection by groups */
    BL_LLM_WINDOW_ROPE = 128,    /* if the model has sliding-window blocks, only these rotate */
    BL_LLM_SKIP_ROPE = 256,      /* blocks 3, 7, 11, ... do not rotate */
    BL_LLM_EXPERTS_NORM = 512,   /* scale the weights of the chosen experts to the sum 1 */
    BL_LLM_LOGIT_DIVIDED = 1024, /* divide the logits by "logit_scale" instead of multiplying */
    BL_LLM_ENCODER = 2048,       /* bidirectional attention; the model returns embeddings of texts */
    BL_LLM_NEEDS_SCALES = 8192,  /* embedding_scale, residual_scale and logit_scale are required */
    BL_LLM_WINDOWED = 4096       /* apply "attention.sliding_window" of a GGUF file */
};

typedef struct bl_llm_arch {
    const char *name; /* general.architecture */
    const char *hub;  /* one or more model_type of config.json, separated by blanks */
    bl_llm_rope rope;
    bl_llm_act act;
    int window_period; /* the last block of a period has full attention, the others a sliding window; 0: blocks are alike */
    unsigned flags;
} bl_llm_arch;
/* Whether |word| is one of the blank-separated |words|. */
bool bl_llm_has_word(const char *words, bl_span word);
/* Finds an architecture by GGUF's name, or by model_type if |hub|; NULL: unsupported. */
const bl_llm_arch *bl_llm_arch_find(bl_span name, bool hub);

/* ---- sources (llm_source.c, hub.c) */
typedef struct bl_llm_value {
    const bl_node *type;
    bl_wire_ref ref;
} bl_llm_value;

enum { BL_LLM_PLANES = 6 };
typedef struct bl_llm_tensor {
    const char *name;
    const bl_ggml_type *type;
    int ndim;
    int64_t dim[BL_GGUF_DIMS]; /* dim[0] is contiguous */
    int nparts;                /* number of parts that are stacked along the last dimension; usually 1 */
    const bl_span *parts;
    bl_span scales;  /* MXFP4 of a folder: one byte per block; each byte of |parts| has the codes of two adjacent elements */
    bool transposed; /* the contiguous dimension of the matrix is its outputs */
    bool used;
    int nvalues; /* states of the tensor: one, or the planes of a quantised matrix; 0 before make_states */
    bl_llm_value *value[BL_LLM_PLANES];
} bl_llm_tensor;

typedef struct bl_llm_key {
    const char *name;
    int count; /* number of elements in |number|; -1: the key has a text */
    const double *number;
    const char *text;
} bl_llm_key;

typedef struct bl_llm_source {
    bl_arena *arena;
    bl_span arch;
    const bl_llm_arch *row;
    const bl_gguf *gguf; /* NULL: a Hugging Face folder */
    int ntensors, tensor_cap;
    bl_llm_tensor *tensors; /* sorted by name */
    int nkeys, key_cap;
    bl_llm_key *keys; /* keys of a folder; a GGUF file has its own */
    int nasked, asked_cap;
    const char **asked; /* full names of the keys of a GGUF file that were read, for bl_llm_check_used */
} bl_llm_source;

BL_NODISCARD bl_status bl_llm_source_open(bl_arena *arena, const bl_llm_file *files, int nfiles, const bl_wire_limits *limits,
                                          bl_llm_source *out, bl_err *err);
/* Returns the tensor and marks it as used; NULL: missing. */
bl_llm_tensor *bl_llm_find_tensor(bl_llm_source *source, const char *name);
/* Reads a number: element |at| of the key, or the last element if the key has fewer.  False if the key is missing. */
bool bl_llm_number(bl_llm_source *source, const char *key, int at, double *out);
bool bl_llm_text(bl_llm_source *source, const char *key, bl_span *out);
/* Fails with BL_EUNSUPPORTED and the name of the first tensor or key that the importer did not read. */
BL_NODISCARD bl_status bl_llm_check_used(const bl_llm_source *source, bl_err *err);
const bl_llm_file *bl_llm_find_file(const bl_llm_file *files, int nfiles, const char *name); /* NULL: missing */
/* Reads the tensors and keys of a Hugging Face folder into |source| (hub.c). */
BL_NODISCARD bl_status bl_hub_open(bl_llm_source *source, const bl_llm_file *files, int nfiles, const bl_wire_limits *limits,
                                   bl_err *err);
/* Reads the pooling of a folder of sentence-transformers as a bl_llm_pooling (modules.c).  *out is unchanged if modules.json is
 * missing or names no pooling module. */
BL_NODISCARD bl_status bl_hub_read_modules(bl_arena *arena, const bl_llm_file *files, int nfiles, double *out, bl_err *err);
/* Reads the tokenizer, the chat template, the end tokens and the sampling parameters (llm_metadata.c). */
BL_NODISCARD bl_status bl_llm_describe(bl_llm_source *source, const bl_llm_file *files, int nfiles, bl_llm_model *out,
                                       bl_err *err);
void bl_llm_add_end(bl_llm_model *out, int64_t id); /* ignores a duplicate and an invalid id */

/* ---- hyperparameters (spec.c) */
/* How the token vectors become the embedding of a text; the numbers are llama.cpp's. */
typedef enum bl_llm_pooling { BL_POOLING_NONE, BL_POOLING_MEAN, BL_POOLING_CLS, BL_POOLING_LAST, BL_POOLINGS } bl_llm_pooling;
typedef struct bl_llm_spec {
    const bl_llm_arch *arch;
    bl_llm_rope rope;
    bl_llm_act act;
    int64_t layers, width, vocabulary, trained_context, context, rows, chunk;
    int64_t heads, groups, key_size, value_size;
    bl_dtype kv_dtype; /* dtype of the KV cache */
    int64_t pool;      /* pages of the KV cache, shared by all texts */
    bool rms;
    double eps;
    int64_t rope_size;                 /* number of elements of a head that rotate */
    double rope_base, rope_local_base; /* rope_local_base: base of sliding-window blocks */
    int64_t window;                    /* length of the sliding window in tokens; 0: none */
    int window_period;
    double attention_scale, embedding_scale, residual_scale, logit_scale;
    double temperature_scale, temperature_length; /* scale queries by the logarithm of their position; 0: no scaling */
    double score_cap, logit_cap;                  /* cap of scores and logits (bl_llm_cap); 0: none */
    bool parallel, causal;
    bool embeds; /* the model returns embeddings of whole texts (|pooling|) and has no KV cache */
    bl_llm_pooling pooling;
    int64_t experts, experts_used;
    bool experts_norm;
    double experts_scale;
    bool experts_sigmoid;
} bl_llm_spec;
BL_NODISCARD bl_status bl_llm_read_spec(bl_llm_source *source, const bl_llm_options *options, bl_llm_spec *out, bl_err *err);
/* Computes the rotary angle per position of each of the rope_size / 2 pairs, and the factor of the cosines and sines. */
BL_NODISCARD bl_status bl_llm_rope_angles(bl_llm_source *source, const bl_llm_spec *spec, double base, bool scaled, float *angles,
                                          double *factor, bl_err *err);
/* Whether block |layer| has sliding-window attention. */
static inline bool bl_llm_has_window(const bl_llm_spec *spec, int64_t layer)
{
    return spec->window > 0 && (spec->window_period == 0 || layer % spec->window_period < spec->window_period - 1);
}

/* ---- the graph under construction (llm_graph.c) */
enum { BL_LLM_PAGE = 32 }; /* tokens of a page of the KV cache: server/models/pages.h */
enum { BL_LLM_ROPES = 2, BL_LLM_MASKS = 2 };
enum { BL_LLM_ROWS, BL_LLM_N, BL_LLM_PAGES, BL_LLM_VARS }; /* named dimensions */
typedef struct bl_llm_graph {
    bl_llm_source *source;
    const bl_llm_options *options;
    bl_llm_spec spec;
    bl_llm_model *model;
    bl_arena *arena, *scratch;
    bl_typer *typer;
    bl_wire_graph *wire;
    bl_write w;
    int node_cap, input_cap, state_cap, value_cap, output_cap, update_cap;
    bl_wire_tensor *inputs;
    bl_llm_value *tokens, *place, *each, *position; /* |place|: position of each token in its text, [rows, n] */
    bl_llm_value *there;                            /* attention mask of whole texts: 1 for a token, 0 for padding, [rows, n] */
    bl_llm_value *cosines[BL_LLM_ROPES], *sines[BL_LLM_ROPES]; /* of blocks without and with a sliding window */
    bl_llm_value *growth;                                      /* scale of queries by position (temperature_scale) */
    bl_llm_value *slots, *table, *places;                      /* [rows * n], [rows, pages], [pages, 32] */
    bl_llm_value *seen[BL_LLM_MASKS];                          /* attention masks of blocks without and with a sliding window */
    bl_llm_value *written;                                     /* mask of the positions that the text has already written */
    bl_err *err;
    bool failed;
} bl_llm_graph;

/* Records a failure of the graph, unless there is one; returns NULL. */
void *bl_llm_stop(bl_llm_graph *g, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
/* Writes the nodes of |recipe| (bl_write_one). */
bl_llm_value *bl_llm_make(bl_llm_graph *g, const char *recipe, const bl_write_arg *args);
/* Makes the name "blk.LAYER.WHAT" of a part of block |layer|. */
const char *bl_llm_block(bl_llm_graph *g, int64_t layer, const char *what);
bl_llm_value *bl_llm_input(bl_llm_graph *g, const char *name, const bl_wire_type *type); /* add all inputs before any state */
/* Adds a state with the initial value |content|. */
bl_llm_value *bl_llm_add_state(bl_llm_graph *g, const char *name, const bl_tensor_value *content);
/* ---- weights (llm_weights.c) */
/* Makes the tensor "NAME.PART" of the source a state; NULL without a failure if the source has no such tensor. */
bl_llm_value *bl_llm_state(bl_llm_graph *g, const char *name, const char *part);
bl_llm_value *bl_llm_constant(bl_llm_graph *g, const char *name, int ndim, const int64_t *dim, const float *values);
/* Multiplies x [.., columns] by the matrix |name| and adds its bias, if any.  Fails if the matrix is missing. */
bl_llm_value *bl_llm_linear(bl_llm_graph *g, bl_llm_value *x, const char *name);
bool bl_llm_has(bl_llm_graph *g, const char *name);        /* whether NAME.weight exists; marks it as used */
int64_t bl_llm_columns(bl_llm_graph *g, const char *name); /* input size of the matrix NAME; 0: missing */
/* Multiplies x [rows, n, used or 1, columns] by the matrices of the chosen experts.  |name|: matrices [experts, .., columns];
 * |chosen|: indices of experts [rows, n, used]. */
bl_llm_value *bl_llm_linear_chosen(bl_llm_graph *g, bl_llm_value *x, const char *name, bl_llm_value *chosen);
/* Normalises x with the norm |name|; returns x if the source has no such norm. */
bl_llm_value *bl_llm_norm(bl_llm_graph *g, bl_llm_value *x, const char *name);
bl_llm_value *bl_llm_scale(bl_llm_graph *g, bl_llm_value *x, double factor);
bl_llm_value *bl_llm_cap(bl_llm_graph *g, bl_llm_value *x, double cap); /* cap * tanh(x / cap); 0: x */
/* Makes |value| the new value of the state |name| after each run. */
void bl_llm_update(bl_llm_graph *g, const char *name, bl_llm_value *value);
void bl_llm_output(bl_llm_graph *g, const char *name, bl_llm_value *value);
int64_t bl_llm_size(const bl_llm_value *x, int axis); /* a negative axis counts from the end; -1: a named dimension */

/* Looks up rows of the embedding table NAME as float32; NULL if the source has no such table. */
bl_llm_value *bl_llm_embed(bl_llm_graph *g, const char *name, bl_llm_value *ids);

/* ---- whole texts of an embedding model (encoder.c) */
void bl_llm_prepare_texts(bl_llm_graph *g, bool windows); /* writes inputs and masks */
/* Attention of q [rows, n, heads, size] to k and v [rows, n, groups, size]; the result is [rows, n, heads * size]. */
bl_llm_value *bl_llm_attend_texts(bl_llm_graph *g, bl_llm_value *q, bl_llm_value *k, bl_llm_value *v, int64_t layer);
/* The embeddings [rows, width] of the texts, scaled to length 1.  Without pooling: x [rows, n, width] unchanged. */
bl_llm_value *bl_llm_pool(bl_llm_graph *g, bl_llm_value *x);

void bl_llm_prepare_attention(bl_llm_graph *g); /* block_attention.c: inputs, masks and rotary angles */
bl_llm_value *bl_llm_attention(bl_llm_graph *g, bl_llm_value *x, int64_t layer); /* block_attention.c */
bl_llm_value *bl_llm_feed(bl_llm_graph *g, bl_llm_value *x, int64_t layer);      /* feed.c */
bl_llm_value *bl_llm_activate(bl_llm_graph *g, bl_llm_value *x);                 /* feed.c */

#endif
