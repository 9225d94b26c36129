/* SPDX-License-Identifier: MIT */
/* A request for an inference, from its body to its answer.
 * It runs by itself, or waits with others of its model for a run that they share (batch.c).  It belongs to one thread at a time,
 * as its request does; while it waits, the lock of the batcher guards it. */
#ifndef BL_SERVER_MODELS_MODEL_INFER_H
#define BL_SERVER_MODELS_MODEL_INFER_H

#include "server/models/models_internal.h"

typedef struct bl_batch bl_batch;
typedef struct bl_sequence bl_sequence;

/* Fill the reply with the results, one for each output that was asked for; or keep what is needed of them, fill in->wire for
 * another run, and set in->more. */
typedef bl_status (*bl_infer_write)(bl_infer *in, const bl_infer_result *results);

struct bl_infer {
    bl_request *rq;
    bl_infer_write write;
    void *extra; /* |write|'s */
    bl_model_version *version;
    bl_model_instance *instance; /* that has it by itself, or NULL */
    bl_infer_request wire;
    bl_tensor_value *values; /* of the version's inputs, in their order */
    int64_t *vars;           /* of the named dimensions */
    bl_texts strange;        /* strings that the model does not know: their numbers go on from the model's */
    int64_t rows;            /* of the batch; 0 where the model has none */
    int nasked;
    int *asked; /* which outputs, in the order of the answer */
    bl_infer_output *wants;
    bl_part *got;                          /* of the version's outputs, in their order */
    int64_t begin_ns, input_ns, output_ns; /* when its body was there; from then to where the device, or a batch, has it */
    int64_t queue_ns, compute_ns;
    bool answered, again;             /* |again|: with what somebody else was given */
    bool more;                        /* |write| set it: in->wire has the inputs of another run of the request */
    bool counts;                      /* the run was the request's alone, and is counted with its answer */
    bool readable;                    /* classes are JSON objects, and not texts of the protocol */
    bl_sequence *of;                  /* that it is part of, or NULL */
    const struct bl_variant *variant; /* that runs in place of the instance's program, where that has variants; else NULL */
    bool claimed;                     /* |instance|, which runs nothing else of the model */

    /* waiting for a batch */
    bl_infer *next;
    const void **source; /* of each input: the numbers as the device has them */
    int64_t priority;    /* 1 first */
    int64_t turn;        /* rows that its owner had when it came: of the same priority, who had fewer goes first */
    bool gone;           /* its client; under the batcher's lock */
    bl_batch *batch;     /* that it is part of, or was; NULL: none, or it waits yet */

    bl_exec *run;                       /* of a program's run, that it is; else NULL */
    bl_status (*reply)(bl_request *rq); /* rq->then of one that ran with others */
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
/* The numbers of each input as the device has them, into in->source: those that came as bytes stay where they are. */
BL_NODISCARD bl_status bl_infer_read_sources(bl_infer *in);

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

/* What they ask for: "model" or "program". */
static inline const char *bl_infer_what(const bl_infer *in)
{
    return in->version->host != NULL ? "program" : "model";
}

/* ---- batch.c */
/* Put it with the others that wait; runs begin as soon as an instance is free.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_batch_join(bl_infer *in);
/* An instance became free, or the time of somebody who waits has come.  No lock is held. */
void bl_batch_kick(bl_model_version *version);
/* Take |instance| for a run by itself, where nobody waits for it; false where it must wait too. */
bool bl_batch_claim(bl_model_version *version, int64_t rows, bl_model_instance **instance);
/* The run is over. */
void bl_batch_unclaim(bl_model_version *version, bl_model_instance *instance);
/* The request of |in| ends: its part of the batch's memory goes. */
void bl_batch_leave(bl_batch *batch);
/* Does an instance have a run, or wait for its device? */
bool bl_batch_is_running(bl_model_version *version);
/* When the next one must be looked at, of those that wait: those that are too late are finished.  0: nobody waits. */
int64_t bl_batch_look(bl_model_version *version, int64_t now_ns);

/* ---- choose_instance.c */
bool bl_instance_is_lost(const bl_model_instance *instance);    /* with its device */
bool bl_model_version_is_lost(const bl_model_version *version); /* all of it is */
/* Is it, or a part of it, where its configuration and the devices that take new work would not put it now?  Any thread. */
bool bl_model_version_is_misplaced(const bl_model_version *version);
/* Was any of it lost with its device, or is one where it should not be? */
bool bl_model_version_lacks_any(const bl_model_version *version);
bool bl_model_version_is_on(const bl_model_version *version, const bl_worker *worker);
/* A run of |rows| with |plan| took so long there: who knows what sizes cost chooses among them, and among instances.  No lock is
 * held. */
void bl_instance_learn(bl_model_version *version, bl_model_instance *instance, int64_t rows, const bl_plan *plan, int64_t ns);
/* Under the batcher's lock: for a run of |rows|, or the first of them, the instance that is done first; it is running then, with
 * at most |most| rows, behind |skip| others that are done sooner elsewhere (0, unless |behind|).  NULL: wait until one is free.
 */
bl_model_instance *bl_instance_take(bl_model_version *version, int64_t rows, bool behind, int64_t *most, int64_t *skip);
/* For a run by itself. */
bl_model_instance *bl_instance_choose(bl_model_version *version);

#endif
