/* SPDX-License-Identifier: MIT */
/* Keys with their scopes and quotas, and the usage of each key.
 *
 * Keys are rows of the store, and the server has a copy of them; bl_access_reload takes over the changes of a command or an
 * administrator.  As long as no key was ever created, every request belongs to owner 0 and may use every route.  Thread:
 * any; one internal lock, which is held across no call. */
#ifndef BL_SERVER_ACCESS_H
#define BL_SERVER_ACCESS_H

#include "server/access/keys.h"
#include "server/http/head.h"
#include "server/ops/settings.h"

typedef struct bl_access bl_access;

BL_NODISCARD bl_status bl_access_create(bl_server *server, bl_access **out, bl_err *err); /* call after the store is open */
void bl_access_destroy(bl_access *access);                                                /* call before the store is closed;
                                                                                           * accepts NULL */
/* Load the keys from the store. The function is a row of the table in reload.c. */
BL_NODISCARD bl_status bl_access_reload(bl_server *server, const bl_settings *fresh, bl_err *err);
/* Revoke the key |name| in memory until the key gets a new secret, even if the store lacks the revocation.  False: there is
 * no such key. */
bool bl_access_revoke(bl_access *access, const char *name, int64_t now);
/* true also if all keys are revoked: then only requests with a valid key are admitted */
bool bl_access_has_keys(bl_access *access);

/* Find the key of a request, and fill rq->owner and rq->scopes.  BL_EAUTH if the request needs a key and has no valid one. */
BL_NODISCARD bl_status bl_access_identify(bl_request *rq, const bl_head *head, bl_err *err);
/* Call once the route is known: BL_EFORBIDDEN if the key's scopes do not cover the route, BL_EQUOTA if the key exceeds its
 * request rate. */
BL_NODISCARD bl_status bl_access_admit(bl_request *rq);

/* Check the key of |rq| again, for answers that take long.  BL_EAUTH if the key was revoked, has expired or has another
 * secret, BL_EFORBIDDEN if the key's scopes no longer cover the route. */
BL_NODISCARD bl_status bl_access_check_still(const bl_request *rq, bl_err *err);

/* The number of purges of |owner|.  A request that began before a purge (rq->purges) must leave no objects afterwards. */
uint64_t bl_access_purges(bl_access *access, uint32_t owner);
/* BL_ECONFLICT if |owner| was purged since the count was |purges|. */
BL_NODISCARD bl_status bl_access_check_owner(bl_access *access, uint32_t owner, uint64_t purges, bl_err *err);
void bl_access_purge(bl_access *access, uint32_t owner); /* count one more purge, before the purge begins */

/* BL_EQUOTA if quotas bind |rq| and its owner has used its device time of today. */
BL_NODISCARD bl_status bl_access_check_time(bl_request *rq);
bool bl_access_has_time(bl_access *access, uint32_t owner);
/* The reason why work of |owner| must not run now: its key was revoked or has expired.  NULL: the key is valid. */
const char *bl_access_why_not(bl_access *access, uint32_t owner);
/* BL_EFORBIDDEN if a search of this width, or this debug level, needs the scope admin: --key-beam, --key-debug. */
BL_NODISCARD bl_status bl_access_check_search(bl_request *rq, int beam, int debug);
int bl_access_debug_level(const bl_request *rq); /* the highest level that bl_access_check_search allows */
/* The number of requests that the owner may have in one queue; SIZE_MAX: no quota. */
size_t bl_access_queue_quota(bl_access *access, uint32_t owner);
/* The bytes that the owner may hold; SIZE_MAX: no quota. */
size_t bl_access_memory_quota(bl_access *access, uint32_t owner);
/* Charge |owner| for |bytes| that are about to be written and that replace |replaces| bytes. BL_EQUOTA if the growth exceeds
 * the quota, BL_ESTORAGE if the disk has no room (--min-free). */
BL_NODISCARD bl_status bl_access_take_disk(bl_access *access, uint32_t owner, uint64_t bytes, uint64_t replaces, bl_err *err);
/* Add |bytes|, which may be negative, without a check of the quota: for files found at the start, and for deletions. */
void bl_access_count_disk(bl_access *access, uint32_t owner, int64_t bytes);
uint64_t bl_access_disk_bytes(bl_access *access, uint32_t owner);
/* Charge the owner |ns| nanoseconds of |device|, an index of server->workers; -1: time of the machine itself, for searches. */
void bl_access_charge(bl_access *access, uint32_t owner, int device, int64_t ns);
/* Count an answer that was sent. */
void bl_access_count(bl_access *access, uint32_t owner, uint64_t bytes_in, uint64_t bytes_out);

/* bl_access_name: the name of a key, "" for owner 0. bl_access_find: the owner of a name, false if there is no such key. */
void bl_access_name(bl_access *access, uint32_t owner, char *out, size_t size);
bool bl_access_find(bl_access *access, const char *name, uint32_t *owner);

/* May |rq| see the name and the work of the key |owner|?  See --show-names. */
bool bl_access_tells_names(const bl_request *rq, uint32_t owner);
/* Get the row of the request's key, and its present usage of each quota of quotas.def. */
void bl_access_look_at_own(const bl_request *rq, bl_key_row *row, double used[BL_QUOTA_COUNT]);

#endif
