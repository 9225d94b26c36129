/* SPDX-License-Identifier: MIT */
/* Training jobs: many steps of a program that go on without a client, and after a restart of the server from where they were
 * written down last.  A job's steps run on its device's worker thread in slices, as requests of the server's own, so that others
 * get their turn between two.  Thread: any, but for what says otherwise. */
#ifndef BL_SERVER_JOBS_JOBS_H
#define BL_SERVER_JOBS_JOBS_H

#include "server/programs.h"

typedef struct bl_jobs bl_jobs;

/* Takes up the jobs that storage has, those that had not ended included; when all but HTTP has started. */
BL_NODISCARD bl_status bl_jobs_create(bl_server *server, bl_jobs **out, bl_err *err);
/* The server ends: streams of events end, no job begins a step any more, and those that have begun are written down.  Returns
 * when all that is done; a device that does not come to an end within |seconds| is asked to stop in the midst of a step.  Accepts
 * NULL; a second call does nothing. */
void bl_jobs_drain(bl_jobs *jobs, double seconds);
void bl_jobs_destroy(bl_jobs *jobs); /* after the workers' threads; accepts NULL */

/* BL_ECONFLICT where a job trains the program |name|, or is about to, which nobody else may then replace, remove or change; also
 * while one that was stopped by the last end of the server is being taken up. */
BL_NODISCARD bl_status bl_jobs_guard(bl_jobs *jobs, uint32_t owner, const char *name, bl_err *err);

/* The same, but only for one that is being taken up. */
BL_NODISCARD bl_status bl_jobs_guard_restoring(bl_jobs *jobs, uint32_t owner, const char *name, bl_err *err);

/* How many that have not ended are on |worker|.  Accepts NULL. */
size_t bl_jobs_count_on(bl_jobs *jobs, const bl_worker *worker);

/* Seconds after which the jobs on |worker| have ended, at the rate at which each makes steps now; 0: there is none, below 0: one
 * of them has made too few steps to say.  Accepts NULL. */
double bl_jobs_seconds_left(bl_jobs *jobs, const bl_worker *worker);

bool bl_jobs_has(bl_jobs *jobs, uint32_t owner, const char *id);

/* The jobs of a key that is purged end as cancelled, also where the server is killed before they do, and leave no program; then
 * |then| on the HTTP thread.  After BL_OK leave the request alone. */
BL_NODISCARD bl_status bl_jobs_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq));

#endif
