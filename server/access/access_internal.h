/* SPDX-License-Identifier: MIT */
/* Declarations shared by the files of this folder. */
#ifndef BL_SERVER_ACCESS_INTERNAL_H
#define BL_SERVER_ACCESS_INTERNAL_H

#include "server/access/access.h"
#include "server/access/keys.h"
#include "server/ops/server.h"

enum { DAY_SECONDS = 86400, KEY_BUCKETS = 1024 };

/* Resource usage of one owner. */
typedef struct usage {
    uint64_t requests, bytes_in, bytes_out;
    int64_t device_ns;
} usage;

/* An owner: a key, or, with id 0, the owner of requests without a key.  An owner is created once and freed only at the end,
 * so pointers to it stay valid. */
typedef struct owner {
    struct owner *next, *next_in_bucket;
    bl_key_row row;
    int64_t day;   /* the day of |today|, in days since 1970 */
    usage today;   /* usage of today: the usage in the store at the start, plus the usage since then */
    usage unsaved; /* the part of |today| that is not in the store yet */
    usage saving;  /* under bl_access.saving: the part of |today| that is being written, for |saving_day| */
    int64_t saving_day;
    uint64_t disk;    /* bytes that the owner has in the folder of --state */
    unsigned secrets; /* number of secrets since the server's start */
    uint64_t purges;  /* number of purges since the server's start */
    double tokens;    /* token bucket of the request rate; below 0: not initialised */
    int64_t filled_ns;
    int64_t device_ns[BL_MAX_DEVICES]; /* device time since the server's start */
    /* the part of device_ns and of running turns that earlier samples counted (samples.c) */
    int64_t sampled_ns[BL_MAX_DEVICES];
    float busy[BL_MAX_DEVICES]; /* share of each device in the last second */
    /* |arrivals|: requests since the server's start; |sampled|: the value at the last sample */
    uint64_t arrivals, sampled;
    double rate; /* requests per second during the last second */
} owner;

typedef struct samples samples;

struct bl_access {
    bl_server *server;
    pthread_mutex_t saving; /* one thread at a time writes usage to the store; taken before |lock| */
    pthread_mutex_t lock;   /* guards all members below */
    owner nobody, *owners;
    owner *bucket[KEY_BUCKETS]; /* hash table of keys by the first bits of the hash */
    size_t count;
    samples *samples; /* samples of the devices; has its own lock */
    int64_t version;  /* version of the store at the last check */
    bl_tick *look;    /* the tick that saves usage and looks for changes of the store; or NULL */
};

/* The owner with this id; NULL if there is none. Under the lock. */
owner *owner_by_id(bl_access *access, uint32_t id);
owner *owner_by_name(bl_access *access, const char *name);

/* ---- samples.c */
samples *samples_create(void); /* NULL if out of memory */
void samples_destroy(samples *s);

/* ---- usage.c */
int64_t usage_day(void);
/* The usage of today, which restarts from zero at midnight. Under the lock. */
usage *usage_today(owner *o);
/* Write the unsaved usage to the store. */
void usage_save(bl_access *access);
/* Load the usage of today from the store. */
BL_NODISCARD bl_status usage_load(bl_access *access, bl_err *err);

#endif
