/* SPDX-License-Identifier: MIT */
/* What the files of this folder share. */
#ifndef BL_SERVER_ACCESS_INTERNAL_H
#define BL_SERVER_ACCESS_INTERNAL_H

#include "server/access/access.h"
#include "server/access/keys.h"
#include "server/server.h"

enum { DAY_SECONDS = 86400, KEY_BUCKETS = 1024 };

/* What somebody has used. */
typedef struct usage {
    uint64_t requests, bytes_in, bytes_out;
    int64_t device_ns;
} usage;

/* An owner: a key, or, with id 0, nobody.  Made once and never freed before the end, so that a pointer to it stays good. */
typedef struct owner {
    struct owner *next, *next_in_bucket;
    bl_key_row row;
    int64_t day;   /* since 1970, of |today| */
    usage today;   /* all of it, as far as the store knew at the start, and since */
    usage unsaved; /* of that, what the store does not have yet */
    usage saving;  /* under bl_access.saving: the part that is being written, of |saving_day| */
    int64_t saving_day;
    uint64_t disk;    /* bytes of the owner in the folder of --state */
    unsigned secrets; /* number of secrets since the start */
    uint64_t purges;  /* since the start */
    double tokens;    /* requests that may come at once; below 0: not begun */
    int64_t filled_ns;
    int64_t device_ns[BL_MAX_DEVICES];  /* since the start */
    int64_t sampled_ns[BL_MAX_DEVICES]; /* of that, and of what is under way, what samples had (samples.c) */
    float busy[BL_MAX_DEVICES];         /* share of each device in the last second */
    uint64_t arrivals, sampled;         /* requests that came, since the start; at the last sample */
    double rate;                        /* of them, in the last second */
} owner;

typedef struct samples samples;

struct bl_access {
    bl_server *server;
    pthread_mutex_t saving; /* one thread at a time writes usage to the store; taken before |lock| */
    pthread_mutex_t lock;   /* of all below */
    owner nobody, *owners;
    owner *bucket[KEY_BUCKETS]; /* by the first bits of the hash */
    size_t count;
    samples *samples; /* has a lock of its own */
    bool ends;
    int64_t version; /* of the store, at the last look */
    pthread_cond_t ending;
    pthread_t thread;
    bool started;
};

/* Under the lock.  NULL: there is none. */
owner *owner_by_id(bl_access *access, uint32_t id);
owner *owner_by_name(bl_access *access, const char *name);

/* ---- samples.c */
samples *samples_create(void); /* NULL: out of memory */
void samples_destroy(samples *s);

/* ---- usage.c */
int64_t usage_day(void);
/* Under the lock: |o|'s figures of today; at midnight they begin anew. */
usage *usage_today(owner *o);
/* Bring what was used since to the store. */
void usage_save(bl_access *access);
/* What the store knows of today. */
BL_NODISCARD bl_status usage_load(bl_access *access, bl_err *err);

#endif
