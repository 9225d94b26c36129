/* SPDX-License-Identifier: MIT */
/* Programs that outlive the server: document and state of each in one file in the folder of --state, written before the answer to
 * its PUT, when the server ends, and every so often where steps were taken since.  What happened after the last of these is lost
 * with a sudden end; a job (server/jobs/) loses less.
 *
 * One thread does all of it, from a queue of its own.  Thread: any, but for what says otherwise. */
#ifndef BL_SERVER_DATA_SAVER_H
#define BL_SERVER_DATA_SAVER_H

#include "server/programs.h"

typedef struct bl_saver bl_saver;

/* Takes up the programs that storage has: when workers and the compiler run, and before anyone asks. */
BL_NODISCARD bl_status bl_saver_create(bl_server *server, bl_err *err); /* server->saver */
void bl_saver_drain(bl_saver *saver); /* write what changed; nothing runs any more.  Accepts NULL */
void bl_saver_destroy(bl_saver *saver);
void bl_saver_tick(bl_saver *saver); /* every few seconds */

/* Put |program| on the shelf and write it down, where it is durable; where it is not, what was written under its name goes.
 * Both or neither: where the disk refuses, the name stands for what it did.  |fresh| is bl_shelf_put_program's; *replaced: there
 * was one.  Then |then| on the HTTP thread, with rq->data as it was; |program| lives as long as the request.  After BL_OK leave
 * the request alone. */
BL_NODISCARD bl_status bl_saver_put(bl_request *rq, bl_program *program, bool fresh, bool *replaced,
                                    bl_status (*then)(bl_request *rq));
/* Take it off the shelf, and what was written of it away, likewise. */
BL_NODISCARD bl_status bl_saver_delete(bl_request *rq, bl_program *program, bl_status (*then)(bl_request *rq));

/* Write |program|, which is durable, down if it has changed. */
BL_NODISCARD bl_status bl_saver_save(bl_request *rq, bl_program *program, bl_status (*then)(bl_request *rq));

/* |work| on the saver's thread, which may wait for disks and devices; after BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_saver_submit(bl_request *rq, bl_work work);

/* What was written of |owner|'s programs goes, whether they are there or not. */
BL_NODISCARD bl_status bl_saver_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq));

#endif
