/* SPDX-License-Identifier: MIT */
/* How a model is served: NAME/config.json, with the member names of Triton's ModelConfig. */
#ifndef BL_SERVER_MODELS_CONFIG_H
#define BL_SERVER_MODELS_CONFIG_H

#include "proto/json.h"
#include "proto/onnx/onnx.h"

typedef enum bl_model_policy { BL_POLICY_LATEST, BL_POLICY_ALL, BL_POLICY_SPECIFIC } bl_model_policy;

/* What the file says of an input or output. */
typedef struct bl_config_tensor {
    const char *name;
    int datatype; /* of the protocol */
    int ndim;     /* -1: not said */
    int64_t dim[16];
    const char *labels; /* of an output: a file beside config.json, a line for each class; or NULL */
} bl_config_tensor;

typedef struct bl_config_warmup_input {
    const char *name;
    int datatype;
    int ndim;
    int64_t dim[16];
    bool random; /* else zeros */
} bl_config_warmup_input;

typedef struct bl_config_warmup {
    const char *name;
    int64_t batch_size, count;
    int ninputs;
    bl_config_warmup_input *inputs;
} bl_config_warmup;

enum { BL_MOST_INSTANCES = 16 }; /* as many as devices */

typedef enum bl_config_kind { BL_INSTANCE_AUTO, BL_INSTANCE_CPU, BL_INSTANCE_GPU } bl_config_kind;

typedef struct bl_config_instance {
    const char *device; /* NULL: the best one of the kind */
    bl_config_kind kind;
    int ngpus; /* 0: all */
    int64_t gpus[BL_MOST_INSTANCES];
} bl_config_instance;

enum { BL_MOST_PREFERRED = 16, BL_MOST_SPECIFIC = 64, BL_MOST_PRIORITIES = 16, BL_MOST_CONTEXT = 1 << 24 };

typedef struct bl_model_config {
    bl_model_policy policy;
    uint64_t latest;
    int nspecific;
    uint64_t specific[BL_MOST_SPECIFIC];
    int64_t max_batch_size; /* -1: not said; 0: requests are never joined */
    int ndims;              /* of an ONNX model: ranges of named dimensions */
    bl_onnx_range *dims;
    int ninputs, noutputs;
    bl_config_tensor *inputs, *outputs;
    const char *entry; /* of the program; NULL: the only one, or "main" */
    /* parameters of a text model; NULL: as is usual (text_model.h) */
    const char *tokens, *position, *logits, *end;
    const char *text; /* the input that clients give it as texts (text_input.h), or NULL: it writes them, or has no tokenizer */
    const char *mask, *types;
    const char *pooling;        /* "none", "mean", "cls" or "last": a language model gives vectors of texts */
    const char *chat_template;  /* in place of the one that the model's files have */
    const char *defaults;       /* of /v1: a JSON object of the members of a request */
    const char *aliases, *tags; /* of /v1: other names of the model, and words about it, with commas between them */
    const char *reasoning;      /* "off": a model that can think before it answers does not */
    const char *picture;        /* the input that takes the pixels of an encoded picture */
    int64_t context;            /* 0: not said */
    int64_t chunk;              /* tokens of a prompt in one run, where the program is made of a model's files; 0: not said */
    bool shares_prefix;         /* keys share the pages of texts that begin alike; else each has its own */

    /* dynamic_batching */
    bool batching; /* it is there */
    int64_t delay_us;
    int npreferred;
    int64_t preferred[BL_MOST_PREFERRED];
    int64_t priority_levels, default_priority;
    int64_t timeout_us; /* of a request in the queue, unless it says so itself; 0: none */
    bool may_override;
    int64_t max_queue; /* 0: as the device's queue */

    bool sequences;
    int64_t idle_us; /* after which a sequence that nobody continues is forgotten */
    bool cached;
    int ninstances; /* 0: not said */
    bl_config_instance instances[BL_MOST_INSTANCES];
    int nwarmups;
    bl_config_warmup *warmups;
} bl_model_config;

/* Read |text| (NULL: nothing is said) into the arena. */
BL_NODISCARD bl_status bl_model_config_read(bl_arena *arena, const char *name, bl_span text, bl_model_config *out, bl_err *err);
/* Does the policy want |version|, the |rank|-th from the newest (0: the newest)? */
bool bl_model_config_wants(const bl_model_config *config, uint64_t version, uint64_t rank);
/* "TYPE_FP32"; TYPE_STRING is BYTES. */
void bl_model_config_put_type(bl_text *out, int datatype);

#endif
