/* SPDX-License-Identifier: MIT */
/* Resources of searches: the kernel database, and the timing of candidates outside of the worker threads. */
#include "engine/base/clock.h"
#include "engine/base/folder.h"
#include "server/ops/server.h"

#include <stdlib.h>
#include <string.h>

/* The path of the database (--kernel-db); NULL: no database. */
static char *tuning_find_file(const bl_settings *settings)
{
    bl_text path = {0};
    char *folder = NULL;

    if (strcmp(settings->kernel_db, "none") == 0)
        return NULL;
    if (settings->kernel_db[0] != '\0') {
        bl_text_puts(&path, settings->kernel_db);
        return bl_text_take(&path);
    }
    folder = bl_cache_folder("");
    if (folder == NULL)
        return NULL;
    bl_text_printf(&path, "%s/kernels.db", folder);
    free(folder);
    return bl_text_take(&path);
}

/* Time candidates in this process, on a second opening of the device: the workers own the server's devices. */
static bl_status time_here(bl_server *server, bl_device *dev, bl_trials *trials, bl_err *err)
{
    if (server->search.trial_device != NULL && strcmp(server->search.trial_device->info.id, dev->info.id) != 0) {
        bl_device_destroy(server->search.trial_device);
        server->search.trial_device = NULL;
    }
    if (server->search.trial_device == NULL)
        BL_TRY(bl_device_open_again(dev, &server->search.trial_device, err));
    return bl_trials_run(server->search.trial_device, trials, err);
}

/* Lock the trials. Fail if the request is cancelled or its deadline passes. */
static bl_status tuning_take_turn(bl_server *server, const bl_halt *halt, bl_err *err)
{
    struct timespec until;

    do {
        BL_TRY(bl_halt_check(halt, err));
        until = bl_clock_after(CLOCK_REALTIME, BL_HALT_LOOK_NS);
    } while (pthread_mutex_timedlock(&server->search.trial_lock, &until) != 0);
    return BL_OK;
}

/* Time candidates on a search's thread: in a child process, or in this process if there is no child or if kernels have no
 * text to send.  Only one search times candidates at a time, since two searches would disturb each other. */
static bl_status time_trials(void *arg, bl_device *dev, bl_trials *trials, bl_err *err)
{
    bl_server *server = arg;
    bl_err failure = {0};
    bl_status st = BL_EDEVICE;

    BL_TRY(tuning_take_turn(server, &trials->halt, err));
    if (server->search.children != NULL && dev->info.dialect != BL_DIALECT_LINEAR)
        st = bl_children_time(server->search.children, dev, trials, &failure);
    if (st == BL_EDEVICE) {
        failure = (bl_err){0};
        st = time_here(server, dev, trials, &failure);
    }
    pthread_mutex_unlock(&server->search.trial_lock);
    return st == BL_OK ? BL_OK : bl_fail(err, st, "%s", failure.text);
}

bl_status bl_tuning_start(bl_server *server, bl_err *err)
{
    char *file = tuning_find_file(&server->settings);
    bl_status st = bl_kernels_open(file, &server->search.tuner.kernels, err);

    free(file);
    pthread_mutex_init(&server->search.trial_lock, NULL);
    server->search.tuner.time = time_trials;
    server->search.tuner.time_arg = server;
    server->search.tuner.seconds = server->settings.beam_seconds;
    return st;
}

void bl_tuning_stop(bl_server *server)
{
    bl_kernels_close(server->search.tuner.kernels);
    bl_device_destroy(server->search.trial_device);
}
