/* SPDX-License-Identifier: MIT */
/* Who may read what of whom: shares of tensors, programs, models and jobs, in memory and, where there is a folder, in the store,
 * so that those of what outlives the server outlive it too.  A share is stored with the name of its reader, whether or not a key
 * has this name: a share tells its owner nothing about other keys, and a key that is made later can read at once.
 *
 * Thread: any.  A lock inside for look-ups.  Whoever gives or takes, or takes away what is shared, is between bl_grants_hold and
 * bl_grants_let_go, so that a share never comes to stand for a later thing of the same name; the store is written there, so no
 * other lock may be held. */
#ifndef BL_SERVER_GRANTS_H
#define BL_SERVER_GRANTS_H

#include "server/server.h"

typedef struct bl_grants bl_grants;

enum { BL_SHARE_KINDS = 4 };
extern const char *const bl_share_kinds[BL_SHARE_KINDS]; /* tensor, program, model, job */

/* One share; |reader| is a key's name or "*", every key; |kind| one of these. */
typedef struct bl_grant {
    uint32_t owner;
    const char *kind, *name, *reader;
} bl_grant;

BL_NODISCARD bl_status bl_grants_create(bl_server *server, bl_grants **out, bl_err *err);
void bl_grants_destroy(bl_grants *grants); /* accepts NULL */
/* Those of the store, when what comes back of tensors, programs and jobs has rows: what does not come back is shared no more. */
BL_NODISCARD bl_status bl_grants_load(bl_grants *grants, bl_err *err);

void bl_grants_hold(bl_grants *grants);
void bl_grants_let_go(bl_grants *grants);
/* Call all of these while the grants are held.  bl_grants_give and bl_grants_drop change the store first; if the store fails,
 * nothing has changed.  bl_grants_take changes memory first, and sets *is_owed if the store cannot be changed yet
 * (bl_storage_owe). */
BL_NODISCARD bl_status bl_grants_give(bl_grants *grants, const bl_grant *what, bl_err *err); /* a second call changes nothing */
BL_NODISCARD bl_status bl_grants_take(bl_grants *grants, const bl_grant *what, bool *is_owed, bl_err *err); /* BL_ENOTFOUND */
/* With whomever it is shared. */
BL_NODISCARD bl_status bl_grants_drop(bl_grants *grants, uint32_t owner, const char *kind, const char *name, bl_err *err);
/* All that |key| gave or got. */
BL_NODISCARD bl_status bl_grants_purge(bl_grants *grants, uint32_t key, bl_err *err);

/* May the key |reader| read |what|, of which |reader| is not looked at?  Also where it is shared with all. */
bool bl_grants_has(bl_grants *grants, uint32_t reader, const bl_grant *what);
/* Call |each|, under the lock, for what |key| gave and got, what all got included. */
void bl_grants_each(bl_grants *grants, uint32_t key, void (*each)(void *arg, const bl_grant *grant), void *arg);

#endif
