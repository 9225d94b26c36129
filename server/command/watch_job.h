/* SPDX-License-Identifier: MIT */
/* Watching a job until it has ended, or until Ctrl-C detaches. */
#ifndef BL_SERVER_COMMAND_WATCH_JOB_H
#define BL_SERVER_COMMAND_WATCH_JOB_H

#include "server/command/command.h"

/* Watch the job |id|. |metric| is the metric to draw; NULL: the metric called loss, else the first metric.  Fails if the job
 * failed or was cancelled. */
BL_NODISCARD bl_status bl_job_watch(bl_call *call, const char *id, const char *metric, bl_err *err);

/* ---- jobs_list.c */
/* Find the id of the only job of this key whose id begins with |given|.  A text that cannot be the beginning of an id is
 * copied unchanged. */
BL_NODISCARD bl_status bl_job_find(bl_call *call, const char *given, bl_text *out, bl_err *err);

#endif
