/* SPDX-License-Identifier: MIT */
/* What clients keep here by name: tensors, in their owner's namespace or in that of a lease, and programs.  What belongs to
 * another owner is not there, unless it is shared: then its name is OWNER:NAME, and it can be read.  Thread: any.
 * One lock, held for look-ups only; nothing is freed under it. */
#ifndef BL_SERVER_SHELF_H
#define BL_SERVER_SHELF_H

#include "server/held.h"

typedef struct bl_program bl_program;

BL_NODISCARD bl_status bl_shelf_create(bl_server *server, bl_shelf **out, bl_err *err);
void bl_shelf_destroy(bl_shelf *shelf);

/* |lease| NULL is the namespace of the owner itself.  Every use of a lease renews it; an unknown one is BL_ENOTFOUND. */
/* Retains.  For |rq|'s owner: BL_ECONFLICT where all that it has was purged since the request came. */
BL_NODISCARD bl_status bl_shelf_put(bl_shelf *shelf, const bl_request *rq, const char *lease, const char *name, bl_held *held,
                                    bl_err *err);
/* The lease's own names first, then the owner's, then what others share, of which *foreign (or NULL) tells.  *out is retained. */
BL_NODISCARD bl_status bl_shelf_get(bl_shelf *shelf, uint32_t owner, const char *lease, const char *name, bl_held **out,
                                    bool *foreign, bl_err *err);
BL_NODISCARD bl_status bl_shelf_delete(bl_shelf *shelf, uint32_t owner, const char *lease, const char *name, bl_err *err);
/* Call |each| for every tensor of one namespace, under the lock. */
BL_NODISCARD bl_status bl_shelf_list(bl_shelf *shelf, uint32_t owner, const char *lease,
                                     void (*each)(void *arg, const char *name, const bl_held *held), void *arg, bl_err *err);

enum { BL_LEASE_SIZE = 33 };
BL_NODISCARD bl_status bl_lease_create(bl_shelf *shelf, uint32_t owner, double ttl, char id[BL_LEASE_SIZE], bl_err *err);
/* |ttl| 0 keeps the one it has; *ttl_now is what it has then. */
BL_NODISCARD bl_status bl_lease_renew(bl_shelf *shelf, uint32_t owner, const char *id, double ttl, double *ttl_now, bl_err *err);
BL_NODISCARD bl_status bl_lease_end(bl_shelf *shelf, uint32_t owner, const char *id, bl_err *err);
/* End all leases that nobody renewed. */
void bl_shelf_expire(bl_shelf *shelf, int64_t now_ns);

/* Takes a reference.  |fresh|: BL_EPRECONDITION where the name is taken; else the one that is there goes.  BL_ECONFLICT where
 * that is claimed (program->claim), which then stays, and where all of the owner was purged since (program->purges). */
BL_NODISCARD bl_status bl_shelf_put_program(bl_shelf *shelf, uint32_t owner, const char *name, bl_program *program, bool fresh,
                                            bl_err *err);
BL_NODISCARD bl_status bl_shelf_get_program(bl_shelf *shelf, uint32_t owner, const char *name, bl_program **out,
                                            bl_err *err); /* retained */
/* The same; also where another owner shares it, which program->owner then tells. */
BL_NODISCARD bl_status bl_shelf_read_program(bl_shelf *shelf, uint32_t owner, const char *name, bl_program **out, bl_err *err);
/* BL_ECONFLICT where there is one that is claimed; so that cannot be deleted. */
BL_NODISCARD bl_status bl_shelf_check_program(bl_shelf *shelf, uint32_t owner, const char *name, bl_err *err);
BL_NODISCARD bl_status bl_shelf_delete_program(bl_shelf *shelf, uint32_t owner, const char *name, bl_err *err);
void bl_shelf_list_programs(bl_shelf *shelf, uint32_t owner, void (*each)(void *arg, const char *name, bl_program *program),
                            void *arg);

/* Everybody's; program->owner says whose. */
void bl_shelf_all_programs(bl_shelf *shelf, void (*each)(void *arg, const char *name, bl_program *program), void *arg);

/* Account |bytes| of held memory to |owner|, of which |all| count in the sum of all owners: none where another owner was charged
 * for them as a part of more.  BL_ENODEVMEM over the limit of the server, BL_EQUOTA, where |bound|, over that of the key. */
BL_NODISCARD bl_status bl_shelf_charge_of(bl_shelf *shelf, uint32_t owner, size_t bytes, size_t all, bool bound, bl_err *err);
void bl_shelf_refund_of(bl_shelf *shelf, uint32_t owner, size_t bytes, size_t all);
static inline bl_status bl_shelf_charge(bl_shelf *shelf, uint32_t payer, size_t bytes, bool bound, bl_err *err)
{
    return bl_shelf_charge_of(shelf, payer, bytes, bytes, bound, err);
}
static inline void bl_shelf_refund(bl_shelf *shelf, uint32_t payer, size_t bytes)
{
    bl_shelf_refund_of(shelf, payer, bytes, bytes);
}
/* Bytes of |owner|'s tensors and programs on one device, without those of leases; NULL: all that is accounted to |owner|. */
size_t bl_shelf_held_on(bl_shelf *shelf, uint32_t owner, const bl_worker *worker);

/* All that |owner| holds goes: leases, tensors, programs.  How many tensors and programs those were. */
size_t bl_shelf_purge(bl_shelf *shelf, uint32_t owner);

/* Is there such a tensor (|kind| "tensor") or program? */
bool bl_shelf_has(bl_shelf *shelf, uint32_t owner, const char *kind, const char *name);
/* What |full|, "alice:net", is called by the key that shares it with |reader|, and whose it is; NULL: nothing is shared so. */
const char *bl_shelf_shared(bl_shelf *shelf, uint32_t reader, const char *kind, const char *full, uint32_t *owner);
struct bl_grants *bl_shelf_grants(bl_shelf *shelf); /* what is shared; as long as the shelf */

#endif
