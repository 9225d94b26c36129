/* SPDX-License-Identifier: MIT */
#include "server/ops/server.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/batch/batcher.h"
#include "server/data/blobs.h"
#include "server/data/durable.h"
#include "server/data/saver.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "server/http/offload.h"
#include "server/http/watch.h"
#include "server/jobs/jobs.h"
#include "server/models/models.h"
#include "server/ops/background.h"
#include "server/ops/drain.h"
#include "server/ops/promote.h"
#include "server/store/grants.h"
#include "server/store/registry.h"
#include "server/store/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MMAP_BYTES = 256 * 1024 };

/* Set a fixed mmap threshold. By default glibc raises the threshold when it frees a mapped block, and then allocates blocks
 * of that size from its heaps. The driver's programs, which are created and freed with plans, then fragment the heap: with
 * PoCL resident memory grew by 20% in 100,000 requests.  A threshold that is set explicitly stays fixed. */
static void tame_malloc(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_BYTES); /* the threshold is above the size that a request keeps for the next request */
#endif
}

bl_status bl_server_precision(bl_server *server, bl_err *err)
{
    if (bl_precision_from_name(server->settings.precision, &server->precision))
        return BL_OK;
    return bl_fail(err, BL_EINVAL, "--float32-matmul-precision must be highest or high, not \"%s\"", server->settings.precision);
}

/* Read a number from a control group file; SIZE_MAX if the file is missing or says "max". */
static size_t read_limit(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned long long value = 0;
    bool found = file != NULL && fscanf(file, "%llu", &value) == 1;
    if (file != NULL)
        fclose(file);
    return found ? (size_t)value : SIZE_MAX;
}

/* The memory of the machine or of the container: control groups of version 2 and 1 (kernel.org,
 * Documentation/admin-guide/cgroup-v2.rst). */
static size_t machine_bytes(void)
{
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        size_t limit = read_limit(limits[i]);
        bytes = limit < bytes ? limit : bytes;
    }
    return bytes;
}

void bl_server_limits(bl_server *server)
{
    const bl_settings *set = &server->settings;
    server->limits = (bl_wire_limits){.max_nodes = set->max_nodes,
                                      .max_inputs = set->max_inputs,
                                      .max_dims = set->max_dims,
                                      .max_tensor_bytes = set->max_tensor};
    server->memory.limit = set->max_memory > 0 ? set->max_memory : machine_bytes() / 4 * 3;
}

static bl_status start_tracing(bl_server *server, bl_err *err)
{
    const bl_settings *set = &server->settings;
    bl_exporter_options options = {.url = set->otlp,
                                   .service = set->service_name,
                                   .version = BL_VERSION,
                                   .share = set->trace_share,
                                   .metrics = &server->metrics};
    return set->otlp[0] != '\0' ? bl_exporter_create(&options, &server->exporter, err) : BL_OK;
}

/* A search uses a device exclusively, so its time is charged as device time. */
static void charge_search(void *arg, uint32_t owner, int64_t took)
{
    const bl_server *server = arg;
    bl_access_charge(server->access, owner, -1, took);
}

/* Check that a folder can be read. A missing folder is a warning, since it may appear later; with --check it is an error. */
static bl_status look_for_folder(const bl_server *server, const char *flag, const char *folder, bl_err *err)
{
    int fd = folder[0] != '\0' ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0)
        close(fd);
    else if (folder[0] != '\0' && server->settings.check)
        return bl_fail(err, BL_EINVAL, "the folder of %s, \"%s\", cannot be read: %s", flag, folder, strerror(errno));
    else if (folder[0] != '\0')
        bl_log(BL_LOG_WARN, "the folder of %s, \"%s\", cannot be read: %s", flag, folder, strerror(errno));
    return BL_OK;
}

static bl_status server_start(bl_server *server, bl_err *err)
{
    const bl_settings *set = &server->settings;
    bl_queue_hooks search = {.charge = charge_search, .arg = server};
    bl_server_limits(server);
    BL_TRY(look_for_folder(server, "--models", set->models, err));
    BL_TRY(look_for_folder(server, "--data-folder", set->data_folder, err));
    pthread_mutex_init(&server->spare.lock, NULL);
    pthread_mutex_init(&server->drain.lock, NULL);
    server->plans = bl_plans_create(set->max_plans, set->max_plan_memory);
    if (server->plans == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the plan cache");
    BL_TRY(bl_storage_open(set->check ? "none" : set->state, &server->storage, err));
    BL_TRY(start_tracing(server, err));
    BL_TRY(bl_ticker_create(&server->ticker, err));
    BL_TRY(bl_ticker_create(&server->disk_ticker, err));
    BL_TRY(bl_access_create(server, &server->access, err));
    BL_TRY(bl_blobs_create(server, &server->blobs, err));
    BL_TRY(bl_registry_create(server, &server->registry, err));
    BL_TRY(bl_workers_start(server, err));
    BL_TRY(bl_drain_load(server, err));
    BL_TRY(bl_children_start(server, err));
    BL_TRY(bl_tuning_start(server, err));
    /* one thread: the search times one kernel at a time */
    BL_TRY(bl_queue_create("the search", set->max_queue, 1, &search, &server->search.queue, err));
    BL_TRY(bl_queue_create("the compiler", set->max_queue, (unsigned)set->compile_threads, NULL, &server->compiler, err));
    BL_TRY(bl_offload_create(server, err));
    BL_TRY(bl_watch_create(server, &server->http.watch, err));
    BL_TRY(bl_upkeep_create(server, &server->upkeep, err));
    BL_TRY(bl_background_create(server, &server->search.background, err));
    BL_TRY(bl_promoter_create(server, &server->search.promoter, err));
    BL_TRY(bl_batching_create(server, &server->batching, err));
    BL_TRY(bl_durable_load(server, err));
    BL_TRY(bl_saver_create(server, err));
    BL_TRY(bl_grants_load(bl_registry_grants(server->registry), err));
    BL_TRY(bl_models_create(server, &server->models, err));
    BL_TRY(bl_jobs_create(server, &server->jobs, err));
    return set->check ? BL_OK : bl_http_start(server, err);
}

/* Print the result of `serve --check` after all models were loaded. */
static int report_check(bl_server *server)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    bl_text text = {0};
    while (!bl_models_ready(server->models))
        nanosleep(&pause, NULL);
    size_t failures = bl_models_print_failures(server->models, &text);
    if (text.len > 0)
        fwrite(text.data, 1, text.len, stderr);
    bl_text_fini(&text);
    printf("%u devices, %zu versions of models loaded, %zu not\n", server->nworkers, bl_models_count(server->models), failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Stop the parts of the server in the order of their dependencies. */
static void server_stop(bl_server *server)
{
    bl_jobs_drain(server->jobs, server->settings.grace);
    bl_http_stop(server);
    bl_upkeep_destroy(server->upkeep);
    bl_watch_destroy(server->http.watch);
    bl_models_stop(server->models);
    bl_batching_stop(server->batching);
    bl_saver_drain(server->saver);
    bl_children_stop(server->children); /* no request waits for a compilation any more */
    bl_children_stop(server->search.children);
    bl_queue_destroy(server->offload);
    /* the background thread reads the length of the compile queue, so it ends before the queue */
    bl_background_destroy(server->search.background);
    bl_queue_destroy(server->compiler);
    bl_promoter_destroy(server->search.promoter);
    bl_queue_destroy(server->search.queue);
    bl_saver_destroy(server->saver);
    bl_workers_stop(server);
    bl_models_destroy(server->models);
    bl_batching_destroy(server->batching);
    bl_jobs_destroy(server->jobs);
    bl_registry_destroy(server->registry);
    if (server->plans != NULL)
        bl_plans_destroy(server->plans);
    bl_tuning_stop(server);
    bl_children_end(server);
    bl_workers_close(server);
    bl_exporter_destroy(server->exporter);
    bl_requests_fini(server);
    bl_blobs_destroy(server->blobs);
    bl_access_destroy(server->access);
    bl_ticker_destroy(server->ticker);
    bl_ticker_destroy(server->disk_ticker);
    bl_storage_close(server->storage);
    bl_settings_fini(&server->settings);
}

int bl_server_main(int argc, char *const *argv)
{
    static bl_server server; /* static because it is large; there is one per process */
    bl_err err = {0};
    sigset_t signals;
    int status = EXIT_FAILURE;

    tame_malloc();
    /* The signals are blocked before any thread starts: all threads inherit the mask, and only sigwait gets the signals. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    server.start.argc = argc;
    server.start.argv = argv;
    server.start.ns = bl_clock_ns();
    if (bl_settings_load(&server.settings, argc, argv, &err) != BL_OK ||
        bl_reload_log(&server, &server.settings, &err) != BL_OK || bl_server_precision(&server, &err) != BL_OK) {
        fprintf(stderr, "beamline: %s\n", err.text);
        bl_settings_fini(&server.settings);
        return EXIT_FAILURE;
    }
    if (server_start(&server, &err) != BL_OK) {
        fprintf(stderr, "beamline: %s\n", err.text);
    } else if (server.settings.check) {
        status = report_check(&server);
    } else {
        printf("listening on %s:%u\n", server.settings.host, server.http.port);
        fflush(stdout);
        bl_life_run(&server, &signals);
        status = EXIT_SUCCESS;
    }
    server_stop(&server);
    bl_log(BL_LOG_INFO, "ended");
    return status;
}
