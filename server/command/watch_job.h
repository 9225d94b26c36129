/* SPDX-License-Identifier: MIT */
/* A job that is watched until it has ended, or Ctrl-C detaches. */
#ifndef BL_SERVER_COMMAND_WATCH_JOB_H
#define BL_SERVER_COMMAND_WATCH_JOB_H

#include "server/command/command.h"

/* |metric| is the one that is drawn, NULL: one that is called loss, else the first.  A job that failed or was cancelled is a
 * failure. */
BL_NODISCARD bl_status bl_job_watch(bl_call *call, const char *id, const char *metric, bl_err *err);

/* ---- jobs_list.c */
/* The number of the one job of this key whose number begins with |given|; what is no such beginning stays as it is. */
BL_NODISCARD bl_status bl_job_find(bl_call *call, const char *given, bl_text *out, bl_err *err);

#endif
