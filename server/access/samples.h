/* SPDX-License-Identifier: MIT */
/* How busy each device was, and with whose work: a sample a second for ten minutes, and a sample a minute for a day.
 *
 * The memory is bounded: a ring of a device has BL_SAMPLE_SECONDS + BL_SAMPLE_MINUTES samples of a fixed size, whatever the
 * number of keys.  A device is busy while its queue's thread works for somebody; searches in idle time (background.h) do not
 * count.  Thread: any, but for bl_samples_take. */
#ifndef BL_SERVER_ACCESS_SAMPLES_H
#define BL_SERVER_ACCESS_SAMPLES_H

#include "server/access/keys.h"
#include "server/request.h"

typedef struct bl_access bl_access;

enum {
    BL_SAMPLE_SECONDS = 600,
    BL_SAMPLE_MINUTES = 1440,
    BL_SAMPLE_KEYS = 8 /* of one sample; a chart of more is not readable */
};

typedef struct bl_key_share {
    uint32_t owner;
    float busy; /* 0 to 1; 0: the entry is not used */
} bl_key_share;

typedef struct bl_sample {
    float busy;      /* the mean, of all keys together */
    uint32_t queue;  /* the greatest */
    uint64_t memory; /* the greatest */
    bl_key_share key[BL_SAMPLE_KEYS];
} bl_sample;

/* The figures of one key on one device. */
typedef struct bl_key_part {
    uint32_t owner;
    char name[BL_KEY_NAME];
    int64_t device_ns; /* since the start */
    double busy;       /* in the last second */
} bl_key_part;

/* Take a sample of each device.  Called once a second by the keeper's thread. */
void bl_samples_take(bl_access *access);
/* The last |most| samples of a device, or fewer, the oldest first; gives their number.  *until: when the last one was taken, in
 * seconds since 1970, or 0. */
size_t bl_samples_copy(bl_access *access, int device, bool minutes, size_t most, bl_sample *out, double *until);
/* Copies of the figures of every key for one device, nobody's first; |rq| owns them. */
BL_NODISCARD bl_status bl_samples_list_parts(bl_request *rq, int device, bl_key_part **out, size_t *count);

#endif
