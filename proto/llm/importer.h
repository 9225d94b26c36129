/* SPDX-License-Identifier: MIT */
/* Inside of the import of a language model.
 *
 * A source is one view of a GGUF file or of a Hugging Face folder: tensors by GGUF's names ("blk.0.attn_q.weight"), and keys by
 * GGUF's names without the architecture ("attention.head_count").  spec.c reads the keys, graph.c and the files beside it write
 * the nodes.  Failures are sticky: the first one is in *graph->err, and everything after it gives NULL. */
#ifndef BL_PROTO_LLM_IMPORTER_H
#define BL_PROTO_LLM_IMPORTER_H

#include "proto/gguf/gguf.h"
#include "proto/llm/llm.h"
#include "proto/write/write.h"

/* ---- architectures (spec.c, archs.def) */
typedef enum bl_llm_rope { BL_ROPE_NONE, BL_ROPE_PAIRS, BL_ROPE_HALVES, BL_ROPE_PERMUTED } bl_llm_rope;
typedef enum bl_llm_act { BL_ACT_SILU, BL_ACT_GELU, BL_ACT_GELU_TANH, BL_ACT_RELU2, BL_ACT_SWIGLU_CLAMPED } bl_llm_act;

enum {
    BL_LLM_PARALLEL = 1,         /* attention and feed-forward take the same input, and both are added to it */
    BL_LLM_EMBED_SQRT = 2,       /* embeddings times the root of the width */
    BL_LLM_HUB_PLUS_ONE = 4,     /* norm weights of a Hugging Face folder lack 1, which GGUF has added */
    BL_LLM_LATE_NORM = 8,        /* "post_attention_norm" is the norm in front of the feed-forward */
    BL_LLM_BARE_NORM = 16,       /* norms have no weights */
    BL_LLM_QK_AFTER = 32,        /* norms of queries and keys stand behind the rotation */
    BL_LLM_HUB_GROUPED = 64,     /* the fused product of a Hugging Face folder has q, k and v by groups */
    BL_LLM_WINDOW_ROPE = 128,    /* only blocks with a window rotate, where there are any */
    BL_LLM_SKIP_ROPE = 256,      /* every fourth block does not rotate */
    BL_LLM_EXPERTS_NORM = 512,   /* weights of the chosen experts sum to 1 */
    BL_LLM_LOGIT_DIVIDED = 1024, /* "logit_scale" divides */
    BL_LLM_ENCODER = 2048,       /* each token sees all of its text, and the model gives vectors of texts */
    BL_LLM_NEEDS_SCALES = 8192,  /* embedding_scale, residual_scale and logit_scale are there */
    BL_LLM_WINDOWED = 4096       /* "attention.sliding_window" counts */
};

typedef struct bl_llm_arch {
    const char *name; /* general.architecture */
    const char *hub;  /* model_type of config.json, several with blanks between them */
    bl_llm_rope rope;
    bl_llm_act act;
    int window_period; /* of so many blocks the last one sees everything, the others a window; 0: all are alike */
    unsigned flags;
} bl_llm_arch;
/* Is |word| one of those in |words|, with blanks between them? */
bool bl_llm_has_word(const char *words, bl_span word);
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
    int nparts;                /* stacked along the last dimension; usually 1 */
    const bl_span *parts;
    bl_span scales;  /* MXFP4 of a folder: a byte for each block, whose 32 codes in |parts| stand in pairs of neighbours */
    bool transposed; /* a matrix whose contiguous dimension is that of its outputs */
    bool used;
    int nvalues; /* states: one, or the planes of a quantised matrix; 0 before they are made */
    bl_llm_value *value[BL_LLM_PLANES];
} bl_llm_tensor;

typedef struct bl_llm_key {
    const char *name;
    int count; /* of numbers; -1: a text */
    const double *number;
    const char *text;
} bl_llm_key;

typedef struct bl_llm_source {
    bl_arena *arena;
    bl_span arch;
    const bl_llm_arch *row;
    const bl_gguf *gguf; /* NULL: a Hugging Face folder */
    int ntensors, tensor_cap;
    bl_llm_tensor *tensors; /* by name */
    int nkeys, key_cap;
    bl_llm_key *keys; /* of a folder */
    int nasked, asked_cap;
    const char **asked; /* names of keys of a GGUF file that were asked for */
} bl_llm_source;

BL_NODISCARD bl_status bl_llm_source_open(bl_arena *arena, const bl_llm_file *files, int nfiles, const bl_wire_limits *limits,
                                          bl_llm_source *out, bl_err *err);
/* The tensor, which counts as used; NULL: there is none. */
bl_llm_tensor *bl_llm_find_tensor(bl_llm_source *source, const char *name);
/* The key has a value: the number, or element |at| of several, where there are fewer the last one. */
bool bl_llm_number(bl_llm_source *source, const char *key, int at, double *out);
bool bl_llm_text(bl_llm_source *source, const char *key, bl_span *out);
/* The first tensor or key that nobody asked for; NULL: there is none. */
BL_NODISCARD bl_status bl_llm_check_used(const bl_llm_source *source, bl_err *err);
const bl_llm_file *bl_llm_find_file(const bl_llm_file *files, int nfiles, const char *name); /* NULL: there is none */
/* Add to |source| (hub.c). */
BL_NODISCARD bl_status bl_hub_open(bl_llm_source *source, const bl_llm_file *files, int nfiles, const bl_wire_limits *limits,
                                   bl_err *err);
/* The pooling of a folder of sentence-transformers, a bl_llm_pooling; *out stays as it is where modules.json is missing or has
 * none (modules.c). */
BL_NODISCARD bl_status bl_hub_read_modules(bl_arena *arena, const bl_llm_file *files, int nfiles, double *out, bl_err *err);
/* The tokenizer, the chat template, tokens and sampling (llm_metadata.c). */
BL_NODISCARD bl_status bl_llm_describe(bl_llm_source *source, const bl_llm_file *files, int nfiles, bl_llm_model *out,
                                       bl_err *err);
void bl_llm_add_end(bl_llm_model *out, int64_t id); /* once; one that is no token is left out */

/* ---- what is computed (spec.c) */
/* What the vector of a text is made of: llama.cpp's numbers. */
typedef enum bl_llm_pooling { BL_POOLING_NONE, BL_POOLING_MEAN, BL_POOLING_CLS, BL_POOLING_LAST, BL_POOLINGS } bl_llm_pooling;
typedef struct bl_llm_spec {
    const bl_llm_arch *arch;
    bl_llm_rope rope;
    bl_llm_act act;
    int64_t layers, width, vocabulary, trained_context, context, rows, chunk;
    int64_t heads, groups, key_size, value_size;
    bl_dtype kv_dtype; /* of keys and values */
    int64_t pool;      /* pages of them, for all texts */
    bool rms;
    double eps;
    int64_t rope_size;                 /* elements of a head that rotate */
    double rope_base, rope_local_base; /* the second one: of blocks with a window */
    int64_t window;                    /* 0: none */
    int window_period;
    double attention_scale, embedding_scale, residual_scale, logit_scale;
    double temperature_scale, temperature_length; /* queries grow with the logarithm of their place; 0: they do not */
    double score_cap, logit_cap;                  /* 0: none */
    bool parallel, causal;
    bool embeds; /* the model gives vectors of whole texts (|pooling|), and has no cache of keys and values */
    bl_llm_pooling pooling;
    int64_t experts, experts_used;
    bool experts_norm;
    double experts_scale;
    bool experts_sigmoid;
} bl_llm_spec;
BL_NODISCARD bl_status bl_llm_read_spec(bl_llm_source *source, const bl_llm_options *options, bl_llm_spec *out, bl_err *err);
/* The angle of each rotating pair per position, and what cosines and sines are multiplied with. */
BL_NODISCARD bl_status bl_llm_rope_angles(bl_llm_source *source, const bl_llm_spec *spec, double base, bool scaled, float *angles,
                                          double *factor, bl_err *err);
/* Does block |layer| see a window only? */
static inline bool bl_llm_has_window(const bl_llm_spec *spec, int64_t layer)
{
    return spec->window > 0 && (spec->window_period == 0 || layer % spec->window_period < spec->window_period - 1);
}

/* ---- the graph that is written (graph.c) */
enum { BL_LLM_PAGE = 32 }; /* tokens of a page: server/models/pages.h */
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
    bl_llm_value *tokens, *place, *each, *position;            /* |place|: of each token in its text, [rows, n] */
    bl_llm_value *there;                                       /* of whole texts: 1 for a token, 0 behind the text, [rows, n] */
    bl_llm_value *cosines[BL_LLM_ROPES], *sines[BL_LLM_ROPES]; /* of blocks without and with a window */
    bl_llm_value *growth;                                      /* of queries, by their places (temperature_scale) */
    bl_llm_value *slots, *table, *places;                      /* [rows * n], [rows, pages], [pages, 32] */
    bl_llm_value *seen[BL_LLM_MASKS];                          /* places that a token sees, in blocks without and with a window */
    bl_llm_value *written;                                     /* places that have something of the text */
    bl_err *err;
    bool failed;
} bl_llm_graph;

void *bl_llm_stop(bl_llm_graph *g, bl_status status, const char *fmt, ...) BL_PRINTF(3, 4);
bl_llm_value *bl_llm_make(bl_llm_graph *g, const char *recipe, const bl_write_arg *args);
/* "blk.3.attn_q": a name of block |layer|. */
const char *bl_llm_block(bl_llm_graph *g, int64_t layer, const char *what);
bl_llm_value *bl_llm_input(bl_llm_graph *g, const char *name, const bl_wire_type *type); /* before any state */
bl_llm_value *bl_llm_add_state(bl_llm_graph *g, const char *name, const bl_tensor_value *content);
/* ---- weights (llm_weights.c) */
/* A tensor of the source, "NAME.weight" or whatever |part| is, as a state; NULL where there is none, which is no failure. */
bl_llm_value *bl_llm_state(bl_llm_graph *g, const char *name, const char *part);
bl_llm_value *bl_llm_constant(bl_llm_graph *g, const char *name, int ndim, const int64_t *dim, const float *values);
/* x [.., columns] times the matrix |name|, plus its bias where it has one; a matrix that is missing is a failure. */
bl_llm_value *bl_llm_linear(bl_llm_graph *g, bl_llm_value *x, const char *name);
bool bl_llm_has(bl_llm_graph *g, const char *name);        /* NAME.weight is there */
int64_t bl_llm_columns(bl_llm_graph *g, const char *name); /* elements that the matrix NAME takes; 0: there is none */
/* x [rows, n, used or 1, columns] times those of the matrices |name| [experts, .., columns] that |chosen| [rows, n, used]
 * numbers. */
bl_llm_value *bl_llm_linear_chosen(bl_llm_graph *g, bl_llm_value *x, const char *name, bl_llm_value *chosen);
/* x normalised by |name|, or x itself where there is no such norm. */
bl_llm_value *bl_llm_norm(bl_llm_graph *g, bl_llm_value *x, const char *name);
bl_llm_value *bl_llm_scale(bl_llm_graph *g, bl_llm_value *x, double factor);
bl_llm_value *bl_llm_cap(bl_llm_graph *g, bl_llm_value *x, double cap); /* cap * tanh(x / cap); 0: x */
/* The state |name| becomes |value|. */
void bl_llm_update(bl_llm_graph *g, const char *name, bl_llm_value *value);
void bl_llm_output(bl_llm_graph *g, const char *name, bl_llm_value *value);
int64_t bl_llm_size(const bl_llm_value *x, int axis); /* from the end where negative; -1: it has a name */

/* Rows of the table NAME, float32; NULL where there is none. */
bl_llm_value *bl_llm_embed(bl_llm_graph *g, const char *name, bl_llm_value *ids);

/* ---- whole texts (encoder.c), of a model that embeds */
void bl_llm_prepare_texts(bl_llm_graph *g, bool windows); /* inputs and masks */
/* The attention of q [rows, n, heads, size] to k and v [rows, n, groups, size]: [rows, n, heads * size]. */
bl_llm_value *bl_llm_attend_texts(bl_llm_graph *g, bl_llm_value *q, bl_llm_value *k, bl_llm_value *v, int64_t layer);
/* The vectors [rows, width] of texts, of length 1; [rows, n, width] without pooling, as they are. */
bl_llm_value *bl_llm_pool(bl_llm_graph *g, bl_llm_value *x);

void bl_llm_prepare_attention(bl_llm_graph *g);                                  /* attention.c: inputs, masks and angles */
bl_llm_value *bl_llm_attention(bl_llm_graph *g, bl_llm_value *x, int64_t layer); /* attention.c */
bl_llm_value *bl_llm_feed(bl_llm_graph *g, bl_llm_value *x, int64_t layer);      /* feed.c */
bl_llm_value *bl_llm_activate(bl_llm_graph *g, bl_llm_value *x);                 /* feed.c */

#endif
