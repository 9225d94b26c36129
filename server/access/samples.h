/* SPDX-License-Identifier: MIT */
/* The load of each device, and the shares of the keys: one sample a second for ten minutes, and one a minute for a day.
 * Memory is bounded: a device has two rings with BL_SAMPLE_SECONDS + BL_SAMPLE_MINUTES samples of a fixed size, whatever the
 * number of keys.  A device is busy while the thread of its queue works on a request; searches in idle time (background.h)
 * do not count.  Thread: any, except bl_samples_take. */
#ifndef BL_SERVER_ACCESS_SAMPLES_H
#define BL_SERVER_ACCESS_SAMPLES_H

#include "server/access/keys.h"
#include "server/http/request.h"

typedef struct bl_access bl_access;

enum {
    BL_SAMPLE_SECONDS = 600,
    BL_SAMPLE_MINUTES = 1440,
    BL_SAMPLE_KEYS = 8 /* number of keys in one sample: a chart with more keys is not readable */
};

typedef struct bl_key_share {
    uint32_t owner;
    float busy; /* share of the time, 0 to 1; 0: the entry is not used */
} bl_key_share;

typedef struct bl_sample {
    float busy;      /* mean share of the time, all keys together */
    uint32_t queue;  /* largest length of the queue */
    uint64_t memory; /* largest number of bytes in use */
    bl_key_share key[BL_SAMPLE_KEYS];
} bl_sample;

/* The figures of one key on one device. */
typedef struct bl_key_part {
    uint32_t owner;
    char name[BL_KEY_NAME];
    int64_t device_ns; /* device time since the server's start */
    double busy;       /* share of the last second */
} bl_key_part;

/* Take a sample of each device.  Called once a second by the ticker. */
void bl_samples_take(bl_access *access);
/* Copy the last |most| samples of a device, or fewer, oldest first; returns their number.  *until: time of the last sample, in
 * seconds since 1970, or 0. */
size_t bl_samples_copy(bl_access *access, int device, bool minutes, size_t most, bl_sample *out, double *until);
/* Copies of the figures of every key for one device, owner 0 first; allocated in |rq|. */
BL_NODISCARD bl_status bl_samples_list_parts(bl_request *rq, int device, bl_key_part **out, size_t *count);

#endif
