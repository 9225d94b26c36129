/* SPDX-License-Identifier: MIT */
/* Sequences: requests that belong together, whose model remembers state from one to the next.  Each has buffers of its own for
 * the state that the model updates, begins with the program's, and stays on one device. */
#ifndef BL_SERVER_MODELS_SEQUENCES_H
#define BL_SERVER_MODELS_SEQUENCES_H

#include "server/models/models_internal.h"

typedef struct bl_sequence bl_sequence;

/* The sequence of the request, retained until the request ends, with the instance that it is on; begun where the request says so.
 * HTTP thread. */
BL_NODISCARD bl_status bl_sequence_get(bl_infer *in, bl_sequence **out);
/* One that belongs to nobody else and has no name, and that is charged |bytes| more than its states have; the caller releases it.
 * HTTP thread. */
BL_NODISCARD bl_status bl_sequence_create(bl_infer *in, size_t bytes, bl_sequence **out);
void bl_sequence_release(void *sequence);
/* The states of the next step, as many as its plan has and in its order; those that the step updates are exchanged there, and
 * kept afterwards however it went.  Worker's thread. */
BL_NODISCARD bl_status bl_sequence_lend(bl_sequence *sequence, bl_buffer ***states, bl_err *err);
void bl_sequence_keep(bl_sequence *sequence);
/* Run |in|, whose turn it is: worker's thread. */
bl_step bl_sequence_work(bl_request *rq);
bl_serial *bl_sequence_serial(bl_sequence *sequence); /* requests take turns in the order in which they came */
bl_model_instance *bl_sequence_instance(const bl_sequence *sequence);
/* Forget those that nobody continued in time. */
void bl_sequences_expire(bl_model_version *version, int64_t now_ns);
void bl_sequences_fini(bl_model_version *version); /* nobody asks the version any more */

#endif
