/* SPDX-License-Identifier: MIT */
/* A request for an inference, from its body to its answer.
 * It runs by itself, or waits with others of its model for a run that they share (server/batch).  It belongs to one thread at a
 * time, as its request does; while it waits, the lock of the batcher guards it. */
#ifndef BL_SERVER_MODELS_MODEL_INFER_H
#define BL_SERVER_MODELS_MODEL_INFER_H

#include "server/models/models_internal.h"

typedef struct bl_sequence bl_sequence;

/* Fill the reply with the results, one for each output that was asked for; or keep what is needed of them, fill in->wire for
 * another run, and set in->more. */
typedef bl_status (*bl_infer_write)(bl_infer *in, const bl_infer_result *results);

struct bl_infer {
    bl_batch_item item; /* first member: bl_batch_item * converts */
    bl_request *rq;     /* item.rq */
    bl_infer_write write;
    void *extra; /* |write|'s */
    bl_model_version *version;
    bl_model_instance *instance; /* that has it by itself, or NULL */
    bl_infer_request wire;
    bl_texts strange; /* strings that the model does not know: their numbers go on from the model's */
    int nasked;
    int *asked; /* which outputs, in the order of the answer */
    bl_infer_output *wants;
    int64_t output_ns;
    bool answered;
    bool again;                       /* the answer comes from the cache of answers */
    bool more;                        /* |write| set it: in->wire has the inputs of another run of the request */
    bool counts;                      /* the run was the request's alone, and is counted with its answer */
    bool readable;                    /* classes are JSON objects, and not texts of the protocol */
    bl_sequence *of;                  /* that it is part of, or NULL */
    const struct bl_variant *variant; /* that runs in place of the instance's program, where that has variants; else NULL */
    bool claimed;                     /* |instance| is claimed for the run of this request */
};

/* A request for the model in its path, still without inputs, and with all that ends with it.
 * *out is NULL where the handler is called again on an offload thread, since the body takes long to read. */
BL_NODISCARD bl_status bl_infer_create(bl_request *rq, bl_infer_write write, bl_infer **out);
/* rq->reply.listed becomes how many elements of |got| the answer prints as JSON. */
void bl_infer_weigh(bl_infer *in);
/* However it ended; for bl_request_defer, before anything that it has is given back. */
void bl_infer_end(void *in);
/* When it is too late, and who goes first, as in->wire and the model say.  BL_EQUOTA where its owner has had its part. */
BL_NODISCARD bl_status bl_infer_choose_turn(bl_infer *in);
/* in->wire is filled: on to a device, or the answer at once. */
BL_NODISCARD bl_status bl_infer_go(bl_infer *in);
/* The same where in->wire has the inputs of the program already, and no texts. */
BL_NODISCARD bl_status bl_infer_go_filled(bl_infer *in);
/* Write the answer from the outputs in |got|; a failure is in rq->err.  For rq->then. */
BL_NODISCARD bl_status bl_infer_reply(bl_request *rq);
/* What a run on the instance needs but its inputs, with the best plan that there is for |vars|. */
BL_NODISCARD bl_status bl_infer_prepare(bl_request *rq, const bl_model_version *version, bl_model_instance *instance,
                                        int64_t *vars, bl_exec **out);

/* The size of a named dimension, as |tensor| has it: the same wherever it stands, and within its range. */
BL_NODISCARD bl_status bl_infer_bind_var(const bl_infer *in, const bl_model_tensor *tensor, int var, int64_t size);

/* ---- picture_input.c */
/* |value| becomes the pixels of the encoded picture that |input| is. */
BL_NODISCARD bl_status bl_infer_take_picture(const bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input,
                                             bl_tensor_value *value);

/* ---- strings.c */
/* |value| becomes the numbers of the texts that |input| has. */
BL_NODISCARD bl_status bl_infer_take_strings(bl_infer *in, const bl_model_tensor *tensor, const bl_infer_input *input,
                                             bl_tensor_value *value);
/* The numbers in out->data become the texts in out->items. */
BL_NODISCARD bl_status bl_infer_give_strings(const bl_infer *in, bl_infer_result *out);

/* ---- classify.c */
/* For a body without an envelope: what the answer is, by the query `classes` and by Accept. */
BL_NODISCARD bl_status bl_infer_choose_answer(bl_infer *in);
/* |out| becomes the |classes| largest elements of |part|. */
BL_NODISCARD bl_status bl_infer_classify(const bl_infer *in, const bl_model_tensor *tensor, const bl_part *part, uint64_t classes,
                                         bl_infer_result *out);

/* ---- version.c */
/* Was any of it lost with its device, or is one where it should not be? */
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
/* Is it, or a part of it, where its configuration and the devices that take new work would not put it now?  Any thread. */
bool bl_model_version_is_misplaced(const bl_model_version *version);

#endif
