/* SPDX-License-Identifier: MIT */
/* Periodic work: one thread calls the function of each of its tasks once a period.  A function delays the other tasks of its
 * ticker while it runs.  So the server has two shared tickers: |ticker| for functions that only take locks and take
 * microseconds, and |disk_ticker| for functions that may wait for a disk.  Work that can take seconds (a search, a
 * compilation) has its own ticker.  Thread: any. */
#ifndef BL_SERVER_OPS_TICKER_H
#define BL_SERVER_OPS_TICKER_H

#include "engine/base/status.h"

#include <stdint.h>

typedef struct bl_ticker bl_ticker;
typedef struct bl_tick bl_tick; /* a periodic task */

BL_NODISCARD bl_status bl_ticker_create(bl_ticker **out, bl_err *err);
/* Waits for the function that runs, and frees all tasks.  Accepts NULL. */
void bl_ticker_destroy(bl_ticker *ticker);
/* Time of bl_clock_ns at which the thread last began or ended a function: an old time shows a function that does not return. */
int64_t bl_ticker_moved(const bl_ticker *ticker);

/* Call run(arg) once every |period_ns|, at fixed times, for the first time after one period.  A call that is late by more
 * than a period is left out.  |out| may be NULL: the task then lives as long as the ticker. */
BL_NODISCARD bl_status bl_ticker_add(bl_ticker *ticker, int64_t period_ns, void (*run)(void *arg), void *arg, bl_tick **out,
                                     bl_err *err);
/* Call the function as soon as the thread is free, and then at the usual times.  The function itself may call bl_tick_wake. */
void bl_tick_wake(bl_tick *task);
/* Call the function at |ns| of bl_clock_ns, if that time is before the next call. */
void bl_tick_wake_at(bl_tick *task, int64_t ns);
/* End a task. When bl_tick_remove returns, the function does not run and is not called again.  The function itself must not
 * call bl_tick_remove.  Accepts NULL. */
void bl_tick_remove(bl_tick *task);

#endif
