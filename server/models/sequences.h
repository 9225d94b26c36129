/* SPDX-License-Identifier: MIT */
/* Sequences: requests whose model keeps state from one request to the next.  Each sequence has its own buffers for the state
 * that the model updates.  A sequence begins with the state of the program, and stays on one device. */
#ifndef BL_SERVER_MODELS_SEQUENCES_H
#define BL_SERVER_MODELS_SEQUENCES_H

#include "server/models/models_internal.h"

typedef struct bl_sequence bl_sequence;

/* The sequence of the request, retained until the request ends, with its instance.  Begins a sequence if the request says so.
 * HTTP thread. */
BL_NODISCARD bl_status bl_sequence_get(bl_infer *in, bl_sequence **out);
/* Create a private sequence without a name, charged with |bytes| more than its states.  The caller releases it.  HTTP
 * thread. */
BL_NODISCARD bl_status bl_sequence_create(bl_infer *in, size_t bytes, bl_sequence **out);
void bl_sequence_release(void *sequence);
/* The state buffers of the next step, in the order of its plan.  The step exchanges the buffers that it updates in this array.
 * bl_sequence_keep takes them back after the step, whether or not it succeeded.  Worker's thread. */
BL_NODISCARD bl_status bl_sequence_lend(bl_sequence *sequence, bl_buffer ***states, bl_err *err);
void bl_sequence_keep(bl_sequence *sequence);
/* Run |in|.  Worker's thread. */
bl_step bl_sequence_work(bl_request *rq);
/* the requests of a sequence run one after the other, in order of arrival */
bl_serial *bl_sequence_serial(bl_sequence *sequence);
bl_model_instance *bl_sequence_instance(const bl_sequence *sequence);
/* End sequences whose idle time is over. */
void bl_sequences_expire(bl_model_version *version, int64_t now_ns);
void bl_sequences_fini(bl_model_version *version); /* no request uses the version any more */

#endif
