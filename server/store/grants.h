/* SPDX-License-Identifier: MIT */
/* Grants: shares by which a key may read tensors, programs, models and jobs of another key.  Shares are in memory and, if
 * the server has a folder, in the store, so that a share of an object that outlives the server outlives the server too.  A
 * share is stored with the name of its reader, whether or not a key has this name. So a share tells its owner nothing about
 * other keys, and a key that is created later can read at once.
 *
 * Thread: any.  An internal lock guards look-ups.  Code that gives or takes a share, or that removes a shared object, calls
 * bl_grants_hold and bl_grants_let_go around the change, so that a share never applies to a later object of the same name.
 * The store is written between the two calls, so the caller may hold no other lock. */
#ifndef BL_SERVER_STORE_GRANTS_H
#define BL_SERVER_STORE_GRANTS_H

#include "server/ops/server.h"

typedef struct bl_grants bl_grants;

enum { BL_SHARE_KINDS = 4 };
extern const char *const bl_share_kinds[BL_SHARE_KINDS]; /* "tensor", "program", "model", "job" */

/* One share; |reader| is the name of a key, or "*" for every key; |kind| is one of bl_share_kinds. */
typedef struct bl_grant {
    uint32_t owner;
    const char *kind, *name, *reader;
} bl_grant;

BL_NODISCARD bl_status bl_grants_create(bl_server *server, bl_grants **out, bl_err *err);
void bl_grants_destroy(bl_grants *grants); /* accepts NULL */
/* Load the shares of the store, after the rows of restored tensors, programs and jobs are known. Shares of objects that are
 * not restored are deleted. */
BL_NODISCARD bl_status bl_grants_load(bl_grants *grants, bl_err *err);

void bl_grants_hold(bl_grants *grants);
void bl_grants_let_go(bl_grants *grants);
/* Call all of these functions while the grants are held.  bl_grants_give and bl_grants_drop change the store first; if the
 * store fails, nothing has changed.  bl_grants_take changes memory first, and sets *is_owed if the store cannot be changed
 * yet (bl_storage_owe). */
BL_NODISCARD bl_status bl_grants_give(bl_grants *grants, const bl_grant *what, bl_err *err); /* idempotent */
/* BL_ENOTFOUND if there is no such share */
BL_NODISCARD bl_status bl_grants_take(bl_grants *grants, const bl_grant *what, bool *is_owed, bl_err *err);
/* Remove the shares of one object with all readers. */
BL_NODISCARD bl_status bl_grants_drop(bl_grants *grants, uint32_t owner, const char *kind, const char *name, bl_err *err);
/* Remove all shares that |key| gave or got. */
BL_NODISCARD bl_status bl_grants_purge(bl_grants *grants, uint32_t key, bl_err *err);

/* May the key |reader| read |what|?  |what|'s member reader is ignored.  Shares with all keys count. */
bool bl_grants_has(bl_grants *grants, uint32_t reader, const bl_grant *what);
/* Call |each|, under the lock, for all shares that |key| gave or got, including shares with all keys. */
void bl_grants_each(bl_grants *grants, uint32_t key, void (*each)(void *arg, const bl_grant *grant), void *arg);

#endif
