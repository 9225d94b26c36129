/* SPDX-License-Identifier: MIT */
/* Who may do what, and how much of it: keys with their scopes and quotas, and what each has used.
 *
 * Keys are rows of the store, of which the server has a copy: bl_access_reload takes what a command or an administrator changed.
 * As long as there never was a key, everybody is owner 0 and may do all.  Thread: any; one lock inside, held for no call. */
#ifndef BL_SERVER_ACCESS_ACCESS_H
#define BL_SERVER_ACCESS_ACCESS_H

#include "server/access/keys.h"
#include "server/head.h"
#include "server/settings.h"

typedef struct bl_access bl_access;

BL_NODISCARD bl_status bl_access_create(bl_server *server, bl_access **out, bl_err *err); /* after the store is open */
void bl_access_destroy(bl_access *access);                                                /* before it is closed; accepts NULL */
/* Take the keys as the store has them now: a row of the table in reload.c. */
BL_NODISCARD bl_status bl_access_reload(bl_server *server, const bl_settings *fresh, bl_err *err);
/* Revoke the key |name| in memory, whatever the store says, until the key gets a new secret.  False: there is no such key. */
bool bl_access_revoke(bl_access *access, const char *name, int64_t now);
bool bl_access_has_keys(bl_access *access); /* or had: then nobody comes in without one */

/* Find the key that a request came with, and fill rq->owner and rq->scopes: BL_EAUTH where it needs one and has none. */
BL_NODISCARD bl_status bl_access_identify(bl_request *rq, const bl_head *head, bl_err *err);
/* Once the route is known: BL_EFORBIDDEN where the key is not good for it, BL_EQUOTA where it asks too often. */
BL_NODISCARD bl_status bl_access_admit(bl_request *rq);

/* Check the key of |rq| again, for answers that take long.  BL_EAUTH if the key was revoked, has expired or has another secret,
 * BL_EFORBIDDEN if its scopes no longer cover the route. */
BL_NODISCARD bl_status bl_access_check_still(const bl_request *rq, bl_err *err);

/* How often all that |owner| has was purged.  What was begun before, as rq->purges says, must leave nothing afterwards. */
uint64_t bl_access_purges(bl_access *access, uint32_t owner);
/* BL_ECONFLICT where that was so since it was |purges| times. */
BL_NODISCARD bl_status bl_access_check_owner(bl_access *access, uint32_t owner, uint64_t purges, bl_err *err);
void bl_access_purge(bl_access *access, uint32_t owner); /* once more, before the purge */

/* BL_EQUOTA where |rq| is bound by quotas, and its owner has had its device time of today. */
BL_NODISCARD bl_status bl_access_check_time(bl_request *rq);
bool bl_access_has_time(bl_access *access, uint32_t owner);
/* Why nothing is done for |owner| now, though it was asked for before: its key was revoked, or has expired.  NULL: it is good. */
const char *bl_access_why_not(bl_access *access, uint32_t owner);
/* BL_EFORBIDDEN where a search of that width, or a report of that level, is the scope admin's: --key-beam, --key-debug. */
BL_NODISCARD bl_status bl_access_check_search(bl_request *rq, int beam, int debug);
int bl_access_debug_level(const bl_request *rq); /* the highest that bl_access_check_search lets it have */
/* Requests that the owner may have in one queue; SIZE_MAX: no quota. */
size_t bl_access_queue_quota(bl_access *access, uint32_t owner);
/* Bytes that the owner may hold; SIZE_MAX: no quota. */
size_t bl_access_memory_quota(bl_access *access, uint32_t owner);
/* Charge |owner| for |bytes| that are about to be written, and that replace |replaces| bytes: BL_EQUOTA if the growth exceeds the
 * quota, BL_ESTORAGE if the disk has no room (--min-free). */
BL_NODISCARD bl_status bl_access_take_disk(bl_access *access, uint32_t owner, uint64_t bytes, uint64_t replaces, bl_err *err);
/* Add |bytes|, which may be negative, without regard to the quota: for files found at the start, and for deletions. */
void bl_access_count_disk(bl_access *access, uint32_t owner, int64_t bytes);
uint64_t bl_access_disk_bytes(bl_access *access, uint32_t owner);
/* The owner had |device| (an index of server->workers, or -1 for the machine itself: searches) for so long. */
void bl_access_charge(bl_access *access, uint32_t owner, int device, int64_t ns);
/* An answer was sent. */
void bl_access_count(bl_access *access, uint32_t owner, uint64_t bytes_in, uint64_t bytes_out);

/* The name of a key, "" for nobody; and back: false where there is none of that name. */
void bl_access_name(bl_access *access, uint32_t owner, char *out, size_t size);
bool bl_access_find(bl_access *access, const char *name, uint32_t *owner);

/* Whether |rq| is told what the key |owner| is called, and what it runs: --show-names. */
bool bl_access_tells_names(const bl_request *rq, uint32_t owner);
/* The key that |rq| came with, and what it has used of each quota of quotas.def up to now. */
void bl_access_look_at_own(const bl_request *rq, bl_key_row *row, double used[BL_QUOTA_COUNT]);

#endif
