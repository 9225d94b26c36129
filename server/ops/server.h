/* SPDX-License-Identifier: MIT */
/* The state of a running server: settings, devices with their workers, caches, and the HTTP layer.  main creates the state
 * before it starts any thread and destroys it after all threads have ended. In between the fields are constant unless their
 * comments say otherwise. */
#ifndef BL_SERVER_OPS_SERVER_H
#define BL_SERVER_OPS_SERVER_H

#include "engine/plan/plan.h"
#include "server/http/tls.h"
#include "server/ops/settings.h"
#include "server/ops/ticker.h"
#include "server/run/queue.h"
#include "server/telemetry/exporter.h"

#include <pthread.h>
#include <signal.h>

struct MHD_Daemon;
typedef struct bl_registry bl_registry;
typedef struct bl_jobs bl_jobs;
typedef struct bl_listener bl_listener;
typedef struct bl_watch bl_watch;
typedef struct bl_models bl_models;
typedef struct bl_batching bl_batching;
typedef struct bl_storage bl_storage;
typedef struct bl_access bl_access;
typedef struct bl_blobs bl_blobs;
typedef struct bl_saver bl_saver;
typedef struct bl_upkeep bl_upkeep;

#define BL_VERSION "0.1.0"

enum { BL_MAX_DEVICES = 16 };

/* One device, its queue with the one thread that uses the device, and its memory. */
typedef struct bl_worker {
    bl_server *server;
    bl_device *dev;
    bl_queue *queue;
    bl_pool *pool;
    struct bl_evictables *evictables;
    int64_t reopen_ns;          /* worker's thread: time of the last attempt to reopen the device */
    atomic_bool drained;        /* no new work is placed on the device; changed under server->drain.lock */
    atomic_size_t tensors;      /* number of tensors on the device, including the tensors of leases */
    atomic_llong busy_ns;       /* time of bl_clock_ns at which the device last finished work */
    atomic_llong turn_ns;       /* moving average of the duration of a turn; the worker's thread writes it */
    bl_peaks measured;          /* written once, before peaks_measured is set */
    atomic_bool peaks_measured; /* |measured| is valid */
} bl_worker;

/* How the process began. */
typedef struct bl_server_start {
    int argc; /* arguments of main, from which the settings were read */
    char *const *argv;
    int64_t ns;              /* start time of the process on bl_clock_ns */
    char device_notes[4096]; /* the devices that were not opened, and the reasons */
} bl_server_start;

/* Devices taken out of service (drain.h). */
typedef struct bl_server_drain {
    pthread_mutex_t lock; /* one worker is drained at a time, so that one device stays in service */
    /* number of drains and resumes: code that placed an object compares the number, and checks its device again after a
     * change */
    atomic_uint count;
} bl_server_drain;

/* The search for faster kernels. */
typedef struct bl_server_search {
    /* queue of compilations with a search: searches take long, so other compilations do not wait behind them */
    bl_queue *queue;
    bl_children *children; /* child processes that compile and time the candidates of searches at low priority; or NULL */
    bl_tuner tuner;
    pthread_mutex_t trial_lock;       /* held while candidates are timed, so that one search at a time measures */
    bl_device *trial_device;          /* device on which searches time candidates; under trial_lock */
    struct bl_background *background; /* NULL if the setting is off */
    struct bl_promoter *promoter;     /* NULL if the setting is off */
} bl_server_search;

/* Connections and the threads that serve them. */
typedef struct bl_server_http {
    bl_listener *listener;
    struct bl_pollers *pollers; /* the threads that answer requests */
    bl_watch *watch;
    bl_tls tls;
    uint16_t port;
} bl_server_http;

/* Progress of the shutdown (life.c). */
typedef struct bl_server_life {
    atomic_bool leaving;   /* /v2/health/ready answers 503 */
    atomic_bool draining;  /* the server accepts no new work */
    atomic_bool ends;      /* running work must stop */
    atomic_llong accepted; /* number of accepted requests for work that have not ended */
} bl_server_life;

/* Memory of ended requests, which the next requests use. */
typedef struct bl_server_spare {
    pthread_mutex_t lock;
    bl_request *requests; /* under the lock, like |count| */
    uint64_t count;
    atomic_ullong large; /* size of their large buffers (http/request.c) */
} bl_server_spare;

struct bl_server {
    bl_settings settings;
    bl_server_start start;
    bl_wire_limits limits; /* derived from the settings */
    bl_precision precision;
    bl_metrics metrics;
    bl_budget memory; /* budget of host memory */
    bl_worker workers[BL_MAX_DEVICES];
    uint32_t nworkers, default_worker;
    bl_server_drain drain;
    bl_queue *compiler;
    bl_queue *offload; /* queue of large bodies and answers (offload.h) */
    /* child processes that compile kernels for waiting requests; NULL: the server compiles kernels itself */
    bl_children *children;
    bl_plans *plans;
    bl_server_search search;
    bl_registry *registry;
    bl_batching *batching; /* the clock of the batchers of models and programs */
    bl_models *models;
    bl_jobs *jobs;
    bl_storage *storage;
    bl_access *access;
    bl_blobs *blobs;
    bl_saver *saver;
    bl_server_http http;
    bl_ticker *ticker, *disk_ticker; /* ticker.h says which work each ticker does */
    bl_upkeep *upkeep;
    bl_exporter *exporter; /* NULL: no tracing */
    bl_server_life life;
    bl_server_spare spare;
};

/* Run until SIGTERM or SIGINT; returns the exit status of the process. */
int bl_server_main(int argc, char *const *argv);

/* Is the answer of /v2/health/ready positive? */
bool bl_server_is_ready(bl_server *server);

void bl_server_limits(bl_server *server);                                   /* compute server->limits from the settings */
BL_NODISCARD bl_status bl_server_precision(bl_server *server, bl_err *err); /* compute server->precision from the setting */

/* ---- life.c */
/* Handle signals and notify systemd until a signal ends the server and the accepted requests are answered.  Thread: main. */
void bl_life_run(bl_server *server, sigset_t *signals);

/* ---- upkeep.c */
/* Start the periodic work that belongs to the whole server: deadlines, slow clients, samples of the devices, and the size of
 * the cache folder. */
BL_NODISCARD bl_status bl_upkeep_create(bl_server *server, bl_upkeep **out, bl_err *err);
void bl_upkeep_destroy(bl_upkeep *upkeep); /* accepts NULL */

/* ---- reload.c */
/* Apply the log settings: at the start, and again by SIGHUP. */
BL_NODISCARD bl_status bl_reload_log(bl_server *server, const bl_settings *fresh, bl_err *err);
/* Read the settings again; each row of the table in reload.c applies its own settings.  A setting that cannot change keeps its
 * value and is logged.  False if any setting could not be applied.  Thread: main. */
bool bl_server_reload(bl_server *server);

/* ---- workers.c */
/* Open the devices that the settings ask for and start a worker for each. */
BL_NODISCARD bl_status bl_workers_start(bl_server *server, bl_err *err);
void bl_workers_stop(bl_server *server);  /* joins the threads */
void bl_workers_close(bl_server *server); /* destroys pools and devices; no object may refer to their memory any more */
/* Reopen lost devices that have no work. A device with work is reopened by its work. */
void bl_workers_mend(bl_server *server);
/* The peak rates of the device; zeros until the rates are measured. */
const bl_peaks *bl_worker_peaks(const bl_worker *worker);
/* All back ends of this build. */
const bl_backend *const *bl_workers_backends(int *count);
/* ---- children.c */
BL_NODISCARD bl_status bl_children_start(bl_server *server, bl_err *err); /* a child process starts when there is work for it */
void bl_children_end(bl_server *server);
/* The internal command that runs a child process; |argv| may hold its niceness relative to the server. */
_Noreturn void bl_child_main(int argc, char *const *argv);

/* ---- tuning.c */
/* Open the kernel database and set up the timing of candidates.  Call before anything is compiled. */
BL_NODISCARD bl_status bl_tuning_start(bl_server *server, bl_err *err);
void bl_tuning_stop(bl_server *server);

/* Open the device of |dev| a second time, independent of |dev|; the caller's thread uses it. */
BL_NODISCARD bl_status bl_device_open_again(const bl_device *dev, bl_device **out, bl_err *err);
/* Choose the device for new work that asks for the device |id|; NULL or "": any device.  If the device is drained, a client
 * gets BL_EBUSY, and the server's |own| work goes to another device. */
BL_NODISCARD bl_status bl_worker_place(bl_server *server, const char *id, bool own, bl_worker **out, bl_err *err);
/* Find a device by id.  NULL or "" is the default device, or the first device that is not drained. */
BL_NODISCARD bl_status bl_worker_find(bl_server *server, const char *id, bl_worker **out, bl_err *err);

#endif
