/* SPDX-License-Identifier: MIT */
/* The configuration of a model: NAME/config.json, with the member names of Triton's ModelConfig. */
#ifndef BL_SERVER_MODELS_CONFIG_H
#define BL_SERVER_MODELS_CONFIG_H

#include "proto/decode.h"
#include "proto/json.h"
#include "proto/onnx/onnx.h"

typedef enum bl_model_policy { BL_POLICY_LATEST, BL_POLICY_ALL, BL_POLICY_SPECIFIC } bl_model_policy;

/* The description of an input or output in the file. */
typedef struct bl_config_tensor {
    const char *name;
    int datatype; /* datatype of the protocol */
    int ndim;     /* -1: not set */
    int64_t dim[16];
    const char *labels; /* of an output: a file beside config.json with a line for each class; or NULL */
} bl_config_tensor;

typedef struct bl_config_warmup_input {
    const char *name;
    int datatype;
    int ndim;
    int64_t dim[16];
    bool random; /* random values; else zeros */
} bl_config_warmup_input;

typedef struct bl_config_warmup {
    const char *name;
    int64_t batch_size, count;
    int ninputs;
    bl_config_warmup_input *inputs;
} bl_config_warmup;

enum { BL_MOST_INSTANCES = 16 }; /* like BL_MAX_DEVICES */

typedef enum bl_config_kind { BL_INSTANCE_AUTO, BL_INSTANCE_CPU, BL_INSTANCE_GPU } bl_config_kind;

typedef struct bl_config_instance {
    const char *device; /* NULL: the best device of the kind */
    bl_config_kind kind;
    int ngpus; /* 0: all GPUs */
    int64_t gpus[BL_MOST_INSTANCES];
} bl_config_instance;

enum { BL_MOST_SPECIFIC = 64, BL_MOST_PRIORITIES = 16, BL_MOST_CONTEXT = 1 << 24, BL_MOST_DRAFT = 255 };

/* version_policy: which versions of a model are loaded. */
typedef struct bl_config_versions {
    bl_model_policy policy;
    uint64_t latest;
    int nspecific;
    uint64_t specific[BL_MOST_SPECIFIC];
} bl_config_versions;

/* dynamic_batching: how requests wait for a run that they share. */
typedef struct bl_config_batching {
    bool present;         /* the configuration has the member; else |how| is that of the program */
    bl_wire_batching how; /* |max_waiting| 0: the limit of the device's queue */
    int64_t priority_levels, default_priority;
    int64_t timeout_us; /* of a request in the queue, unless the request sets it; 0: none */
    bool may_override;
} bl_config_batching;

/* sequence_batching. */
typedef struct bl_config_sequences {
    bool present;
    int64_t idle_us; /* idle time after which a sequence ends */
} bl_config_sequences;

/* Parameters of a program that generates text.  NULL: the default of text_model.h. */
typedef struct bl_config_generation {
    const char *tokens, *position, *logits, *end;
    int64_t context; /* 0: not set */
    /* tokens of a prompt in one run, if the program is made of a language model's files; 0: not set */
    int64_t chunk;
    bool shares_prefix; /* all keys share one prefix cache; else each key has its own */
} bl_config_generation;

#define BL_DRAFT_NGRAM "ngram"
/* Parameters of speculative decoding (draft.h). */
typedef struct bl_config_draft {
    const char *name;    /* BL_DRAFT_NGRAM, or a model in the folder of models; NULL: no speculative decoding */
    int64_t least, most; /* tokens of a proposal */
    float p_min;         /* of a draft model: the least probability of a proposed token */
} bl_config_draft;

/* Parameters of a model whose strings the server tokenizes (text_input.h). */
typedef struct bl_config_words {
    /* the string input that clients see in place of tokens; NULL: the model generates text, or has no tokenizer */
    const char *text;
    const char *mask, *types;
    const char *pooling; /* "none", "mean", "cls" or "last": the language model computes embeddings */
} bl_config_words;

/* Parameters for /v1.  NULL: not set. */
typedef struct bl_config_openai {
    const char *chat_template;  /* replaces the template of the model's files */
    const char *defaults;       /* a JSON object with the default members of a request */
    const char *aliases, *tags; /* other names of the model, and its tags, separated by commas */
    const char *reasoning;      /* "off": a reasoning model answers without reasoning */
} bl_config_openai;

typedef struct bl_model_config {
    bl_config_versions versions;
    int64_t max_batch_size; /* -1: not set; 0: requests are never batched */
    int ndims;              /* of an ONNX model: the ranges of named dimensions */
    bl_onnx_range *dims;
    int ninputs, noutputs;
    bl_config_tensor *inputs, *outputs;
    const char *entry;   /* the entry of the program; NULL: the only one, or "main" */
    bool exact;          /* a language model multiplies quantised weights by float32 activations; else by int8 */
    const char *picture; /* the input that takes the pixels of an encoded picture; or NULL */
    bl_config_generation generation;
    bl_config_draft draft;
    bl_config_words words;
    bl_config_openai openai;
    bl_config_batching batching;
    bl_config_sequences sequences;
    bool cached;
    int ninstances; /* 0: not set */
    bl_config_instance instances[BL_MOST_INSTANCES];
    int nwarmups;
    bl_config_warmup *warmups;
} bl_model_config;

/* Read |text| (NULL: all defaults) into the arena. */
BL_NODISCARD bl_status bl_model_config_read(bl_arena *arena, const char *name, bl_span text, bl_model_config *out, bl_err *err);
/* Does the policy load |version|, the |rank|-th from the newest (0: the newest)? */
bool bl_config_versions_want(const bl_config_versions *versions, uint64_t version, uint64_t rank);
/* Print a datatype, such as "TYPE_FP32"; BYTES is "TYPE_STRING". */
void bl_model_config_put_type(bl_text *out, int datatype);

#endif
