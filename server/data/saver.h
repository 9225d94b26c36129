/* SPDX-License-Identifier: MIT */
/* Durable programs: document and state of each program are one file in the folder of --state.
 *
 * The file is written before the answer to the PUT, when the server ends, and periodically after steps were run.  A crash
 * loses the steps since the last write; a job (server/jobs/) loses fewer steps.  One thread with its own queue does all
 * writes.  Thread: any, unless stated otherwise. */
#ifndef BL_SERVER_DATA_SAVER_H
#define BL_SERVER_DATA_SAVER_H

#include "server/programs/programs.h"

typedef struct bl_saver bl_saver;

/* Restore the programs of the store.  Call when the workers and the compiler run, before requests are accepted. */
BL_NODISCARD bl_status bl_saver_create(bl_server *server, bl_err *err); /* sets server->saver */
void bl_saver_drain(bl_saver *saver); /* write all changed programs; no program may run any more.  Accepts NULL */
void bl_saver_destroy(bl_saver *saver);

/* Register |program| under its name, and store it if it is durable. If it is not durable, delete the stored program of this
 * name.  The call does both steps or neither: if the disk refuses, the name denotes the same program as before.  |fresh| is
 * the parameter of bl_registry_put_program. *replaced: there was a program of this name.  Then |then| runs on the HTTP
 * thread, with the previous rq->data; |program| lives as long as the request.  After BL_OK the caller must not touch the
 * request. */
BL_NODISCARD bl_status bl_saver_put(bl_request *rq, bl_program *program, bool fresh, bool *replaced,
                                    bl_status (*then)(bl_request *rq));
/* Delete the stored program, and remove it from the registry, in the same way as bl_saver_put. */
BL_NODISCARD bl_status bl_saver_delete(bl_request *rq, bl_program *program, bl_status (*then)(bl_request *rq));

/* Store |program|, which is durable, if it has changed. */
BL_NODISCARD bl_status bl_saver_save(bl_request *rq, bl_program *program, bl_status (*then)(bl_request *rq));

/* Run |work| on the saver's thread, which may wait for disks and devices.  After BL_OK the caller must not touch the
 * request. */
BL_NODISCARD bl_status bl_saver_submit(bl_request *rq, bl_work work);

/* Delete all stored programs of |owner|, whether the registry has them or not. */
BL_NODISCARD bl_status bl_saver_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq));

#endif
