/* SPDX-License-Identifier: MIT */
/* The whole of a running server: settings, devices with their workers, caches, and the HTTP daemon in front.
 * Made by main before any thread starts and ended after all of them; the fields are constant in between unless they say
 * otherwise. */
#ifndef BL_SERVER_SERVER_H
#define BL_SERVER_SERVER_H

#include "engine/plan/plan.h"
#include "server/queue.h"
#include "server/settings.h"
#include "server/telemetry/exporter.h"
#include "server/tls.h"

#include <pthread.h>
#include <signal.h>

struct MHD_Daemon;
typedef struct bl_shelf bl_shelf;
typedef struct bl_jobs bl_jobs;
typedef struct bl_keeper bl_keeper;
typedef struct bl_listener bl_listener;
typedef struct bl_watch bl_watch;
typedef struct bl_models bl_models;
typedef struct bl_storage bl_storage;
typedef struct bl_access bl_access;
typedef struct bl_blobs bl_blobs;
typedef struct bl_saver bl_saver;

#define BL_VERSION "0.1.0"

enum { BL_MAX_DEVICES = 16 };

/* One device, its queue with the one thread that talks to it, and its memory. */
typedef struct bl_worker {
    bl_server *server;
    bl_device *dev;
    bl_queue *queue;
    bl_pool *pool;
    struct bl_residents *residents;
    int64_t reopen_ns;          /* worker's thread: when it was last tried */
    atomic_bool drained;        /* nothing new is placed there; under drain_lock where it changes */
    atomic_size_t tensors;      /* that are held there, leases' too */
    atomic_llong busy_ns;       /* when it last ended some work, by bl_clock_ns */
    atomic_llong turn_ns;       /* what a turn there takes, a moving mean; worker's thread writes it */
    bl_peaks measured;          /* filled once, before ... */
    atomic_bool peaks_measured; /* ... this says so */
} bl_worker;

struct bl_server {
    bl_settings settings;
    int argc; /* what they were read from: main's */
    char *const *argv;
    int64_t start_ns;      /* of bl_clock_ns: when the process began */
    bl_wire_limits limits; /* as the settings say */
    bl_precision precision;
    bl_metrics metrics;
    bl_budget memory; /* of the host */
    bl_worker workers[BL_MAX_DEVICES];
    uint32_t nworkers, default_worker;
    pthread_mutex_t drain_lock; /* one worker is drained at a time, so that one is left */
    atomic_uint drains;         /* how often one was, or was resumed: who placed something looks whether it is elsewhere now */
    bl_queue *compiler;
    bl_queue *offload;     /* large bodies and answers (offload.h) */
    bl_queue *searcher;    /* compilations that search: they take long, and others need not wait behind them */
    bl_children *children; /* that compile what a request waits for; NULL: the server does it itself */
    bl_children *triers;   /* that compile and time what searches try, when nobody else has work for the machine; or NULL */
    bl_plans *plans;
    bl_tuner tuner;
    pthread_mutex_t trial_lock;       /* held while trials run: one search at a time measures */
    bl_device *trial_device;          /* under trial_lock */
    struct bl_background *background; /* NULL: off */
    struct bl_promoter *promoter;     /* NULL: off */
    bl_shelf *shelf;
    bl_models *models;
    bl_jobs *jobs;
    bl_storage *storage;
    bl_access *access;
    bl_blobs *blobs;
    _Atomic(bl_saver *) saver;
    bl_watch *watch;
    bl_keeper *keeper;
    bl_exporter *exporter; /* NULL: nothing is traced */
    bl_tls tls;
    struct bl_pollers *pollers; /* that answer */
    bl_listener *listener;
    char device_notes[4096]; /* which devices were left out, and why */
    uint16_t port;
    atomic_bool leaving;   /* /v2/health/ready says 503 */
    atomic_bool ends;      /* whatever is still at work is to stop */
    atomic_bool draining;  /* and nothing new is taken */
    atomic_llong accepted; /* requests for work that were taken and have not ended yet */
    pthread_mutex_t free_lock;
    bl_request *free_requests; /* under free_lock */
    uint64_t free_count;       /* under free_lock */
};

/* Runs until SIGTERM or SIGINT; gives the exit status of the process. */
int bl_server_main(int argc, char *const *argv);

/* What /v2/health/ready says. */
bool bl_server_is_ready(bl_server *server);

void bl_server_limits(bl_server *server);                                   /* those that follow from the settings */
BL_NODISCARD bl_status bl_server_precision(bl_server *server, bl_err *err); /* the setting's word */

/* ---- life.c */
/* After the start: obey signals, and tell systemd, until one says to end and what was accepted is answered.  Main thread. */
void bl_life_run(bl_server *server, sigset_t *signals);

/* ---- reload.c */
/* What the settings say of the log: at the start, and again by SIGHUP. */
BL_NODISCARD bl_status bl_reload_log(bl_server *server, const bl_settings *fresh, bl_err *err);
/* Read the settings again and have each row of the table in reload.c take what is its own; what cannot be taken is told in the
 * log and stays as it was.  False where anything did.  Main thread. */
bool bl_server_reload(bl_server *server);

/* ---- workers.c */
/* Open the devices that the settings ask for and start a worker for each. */
BL_NODISCARD bl_status bl_workers_start(bl_server *server, bl_err *err);
void bl_workers_stop(bl_server *server);  /* joins the threads */
void bl_workers_close(bl_server *server); /* pools and devices; nothing refers to their memory any more */
/* Have devices that were lost opened again, where nobody gives them work. */
void bl_workers_mend(bl_server *server);
/* What the device can do at most: zeros until it was measured. */
const bl_peaks *bl_worker_peaks(const bl_worker *worker);
/* Every back end that there is. */
const bl_backend *const *bl_workers_backends(int *count);
/* ---- children.c */
BL_NODISCARD bl_status bl_children_start(bl_server *server, bl_err *err); /* none runs before there is work for it */
void bl_children_end(bl_server *server);
/* The command that starts one, which is for nobody else: |argv| may hold how much nicer than the server it is. */
_Noreturn void bl_child_main(int argc, char *const *argv);

/* ---- tuning.c */
/* The kernel database, and what times candidates; before anything is compiled. */
BL_NODISCARD bl_status bl_tuning_start(bl_server *server, bl_err *err);
void bl_tuning_stop(bl_server *server);

/* The same device, independent of |dev|: with a thread of its own, which is the caller's. */
BL_NODISCARD bl_status bl_device_open_again(const bl_device *dev, bl_device **out, bl_err *err);
/* Where new work goes that asks for the device |id|; NULL or "": for none.  One that is drained is BL_EBUSY for a client, and the
 * server's |own| work goes elsewhere. */
BL_NODISCARD bl_status bl_worker_place(bl_server *server, const char *id, bool own, bl_worker **out, bl_err *err);
/* By id; NULL or "" is the default one, or where that is drained the first that is not. */
BL_NODISCARD bl_status bl_worker_find(bl_server *server, const char *id, bl_worker **out, bl_err *err);

#endif
