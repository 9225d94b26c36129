/* SPDX-License-Identifier: MIT */
/* An inference request, from its body to its answer.  The request runs alone, or waits in the batcher of its model for a joint
 * run (server/batch).  One thread at a time owns the object, like its request; while it waits, the lock of the batcher guards
 * it. */
#ifndef BL_SERVER_MODELS_MODEL_INFER_H
#define BL_SERVER_MODELS_MODEL_INFER_H

#include "server/models/models_internal.h"

typedef struct bl_sequence bl_sequence;

/* Fill the reply with the results, one for each requested output.  Or store the results, fill in->wire for another run, and
 * set in->more. */
typedef bl_status (*bl_infer_write)(bl_infer *in, const bl_infer_result *results);

typedef enum bl_infer_state {
    BL_INFER_OPEN,
    BL_INFER_MORE, /* set by |write|: in->wire has the inputs of another run of the request */
    BL_INFER_ANSWERED
} bl_infer_state;

/* What the outputs come from. */
typedef enum bl_infer_source {
    BL_INFER_SHARED, /* a batch, which counts its own run */
    BL_INFER_ALONE,  /* a run of the request alone, which is counted with the answer */
    BL_INFER_CACHED  /* the response cache */
} bl_infer_source;

struct bl_infer {
    bl_batch_item item; /* first member: bl_batch_item * converts */
    bl_request *rq;     /* item.rq */
    bl_infer_write write;
    void *extra; /* data of |write| */
    bl_model_version *version;
    bl_model_instance *instance; /* the instance of a run without a batch, or NULL */
    bl_infer_request wire;
    bl_texts strange; /* strings that the model does not know; their indices follow the indices of the model's strings */
    int nasked;
    int *asked; /* the requested outputs, in the order of the answer */
    bl_infer_output *wants;
    int64_t output_ns;
    bl_infer_state state;
    bl_infer_source source;
    bool readable;   /* classes are JSON objects in place of strings of the protocol */
    bl_sequence *of; /* the sequence of the request, or NULL */
    /* the variant that runs in place of the instance's program, if the program has variants; else NULL */
    const struct bl_variant *variant;
    bool claimed; /* |instance| is claimed for the run of this request */
};

/* Create the inference for the model in the request's path, without inputs, and defer its cleanup.  *out NULL: the body takes
 * long to read, so the handler is called again on an offload thread. */
BL_NODISCARD bl_status bl_infer_create(bl_request *rq, bl_infer_write write, bl_infer **out);
/* Set rq->reply.listed to the number of elements of |got| that the answer prints as JSON. */
void bl_infer_weigh(bl_infer *in);
/* Cleanup for bl_request_defer, whether or not the request succeeded; runs before the members are released. */
void bl_infer_end(void *in);
/* Set the deadline and the priority from in->wire and the configuration.  BL_EQUOTA: the owner has used its share. */
BL_NODISCARD bl_status bl_infer_choose_turn(bl_infer *in);
/* in->wire is filled: submit the run, or answer from the response cache. */
BL_NODISCARD bl_status bl_infer_go(bl_infer *in);
/* Like bl_infer_go, but in->wire has the inputs of the program already, without strings. */
BL_NODISCARD bl_status bl_infer_go_filled(bl_infer *in);
/* Write the answer from the outputs in |got|.  A failure is in rq->err.  For rq->then. */
BL_NODISCARD bl_status bl_infer_reply(bl_request *rq);
/* Create the execution of a run on the instance, without its inputs, with the best plan that exists for |vars|. */
BL_NODISCARD bl_status bl_infer_prepare(bl_request *rq, const bl_model_version *version, bl_model_instance *instance,
                                        int64_t *vars, bl_exec **out);

/* Bind the size of a named dimension from |tensor|.  All its occurrences must agree, and the size must be in its range. */
BL_NODISCARD bl_status bl_infer_bind_var(const bl_infer *in, const bl_model_tensor *tensor, int var, int64_t size);

/* ---- picture_input.c */
/* Decode the picture |input| into the pixels |value|. */
BL_NODISCARD bl_status bl_infer_take_picture(const bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input,
                                             bl_tensor_value *value);

/* ---- strings.c */
/* Replace the strings of |input| by their indices in |value|. */
BL_NODISCARD bl_status bl_infer_take_strings(bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input,
                                             bl_tensor_value *value);
/* Replace the indices in out->data by the strings in out->items. */
BL_NODISCARD bl_status bl_infer_give_strings(const bl_infer *in, bl_infer_result *out);

/* ---- classify.c */
/* For a body that is not a JSON document: choose the form of the answer from the query `classes` and from Accept. */
BL_NODISCARD bl_status bl_infer_choose_answer(bl_infer *in);
/* Fill |out| with the |classes| largest elements of |part|. */
BL_NODISCARD bl_status bl_infer_classify(const bl_infer *in, const bl_model_tensor *tensor, const bl_part *part, uint64_t classes,
                                         bl_infer_result *out);

/* ---- version.c */
/* Is an instance lost with its device, or is the placement wrong? */
bool bl_model_version_lacks_any(const bl_model_version *version);
bool bl_model_version_is_on(const bl_model_version *version, const bl_worker *worker);
/* A run of |rows| with |plan| took |ns| on the device.  No lock is held. */
void bl_instance_learn(bl_model_version *version, bl_model_instance *instance, int64_t rows, const bl_plan *plan, int64_t ns);
/* The instance for a run without a batch. */
static inline bl_model_instance *bl_instance_choose(bl_model_version *version)
{
    return (bl_model_instance *)bl_batch_choose(&version->batcher);
}

/* ---- place.c */
/* Does the placement differ from the one that the configuration and the available devices give now?  Any thread. */
bool bl_model_version_is_misplaced(const bl_model_version *version);

#endif
