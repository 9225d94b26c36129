/* SPDX-License-Identifier: MIT */
/* Training jobs: many steps of a program that run without a client.  After a restart of the server a job continues from its
 * last checkpoint.  The steps run in slices on the thread of the job's device, as internal requests, so that other requests can
 * run between two slices.  Thread: any, unless stated otherwise. */
#ifndef BL_SERVER_JOBS_H
#define BL_SERVER_JOBS_H

#include "server/programs/programs.h"

typedef struct bl_jobs bl_jobs;

/* Load the jobs of the store and restore the jobs that had not ended.  Call after all parts of the server except HTTP have
 * started. */
BL_NODISCARD bl_status bl_jobs_create(bl_server *server, bl_jobs **out, bl_err *err);
/* Shut the jobs down: event streams end, no job begins another step, and checkpoints are written.  The call returns afterwards.
 * If a device takes longer than |seconds|, its job must stop within a step.  Accepts NULL.  A second call does nothing. */
void bl_jobs_drain(bl_jobs *jobs, double seconds);
void bl_jobs_destroy(bl_jobs *jobs); /* call after the end of the workers' threads; accepts NULL */

/* BL_ECONFLICT if a job trains the program |name|, is about to train it, or is being restored with it.  Then no other request
 * may replace, remove or change the program. */
BL_NODISCARD bl_status bl_jobs_guard(bl_jobs *jobs, uint32_t owner, const char *name, bl_err *err);

/* BL_ECONFLICT only if a job that trains the program |name| is being restored. */
BL_NODISCARD bl_status bl_jobs_guard_restoring(bl_jobs *jobs, uint32_t owner, const char *name, bl_err *err);

/* The number of jobs on |worker| that have not ended.  Accepts NULL. */
size_t bl_jobs_count_on(bl_jobs *jobs, const bl_worker *worker);

/* The estimated seconds until the jobs on |worker| have ended, at their present rates.  0: there are no such jobs.  Below 0:
 * the rate of a job is not known yet.  Accepts NULL. */
double bl_jobs_seconds_left(bl_jobs *jobs, const bl_worker *worker);

bool bl_jobs_has(bl_jobs *jobs, uint32_t owner, const char *id);

/* Cancel the jobs of a key that is purged.  The jobs leave no program.  They count as cancelled even if the server is killed
 * before they end.  |then| is called on the HTTP thread afterwards.  After BL_OK the caller must not touch the request. */
BL_NODISCARD bl_status bl_jobs_purge(bl_request *rq, uint32_t owner, bl_status (*then)(bl_request *rq));

#endif
