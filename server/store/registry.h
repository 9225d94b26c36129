/* SPDX-License-Identifier: MIT */
/* The registry of named objects of clients: tensors, in the namespace of their owner or of a lease, and programs.  A look-up
 * does not find objects of another owner unless they are shared; a shared object is read-only and has the name OWNER:NAME.
 * Thread: any.  One lock is held for look-ups only; no object is freed under the lock. */
#ifndef BL_SERVER_STORE_REGISTRY_H
#define BL_SERVER_STORE_REGISTRY_H

#include "server/store/device_tensor.h"

typedef struct bl_program bl_program;

BL_NODISCARD bl_status bl_registry_create(bl_server *server, bl_registry **out, bl_err *err);
void bl_registry_destroy(bl_registry *registry);

/* |lease| NULL: the owner's own namespace.  Every use of a lease renews the lease; an unknown lease is BL_ENOTFOUND. */
/* Retains |held|.  BL_ECONFLICT if |rq|'s owner was purged since the request arrived. */
BL_NODISCARD bl_status bl_registry_put(bl_registry *registry, const bl_request *rq, const char *lease, const char *name,
                                       bl_device_tensor *held, bl_err *err);
/* Searches the lease's names first, then the owner's names, then the names of shared tensors. *foreign (may be NULL) tells
 * whether the tensor is shared.  *out is retained. */
BL_NODISCARD bl_status bl_registry_get(bl_registry *registry, uint32_t owner, const char *lease, const char *name,
                                       bl_device_tensor **out, bool *foreign, bl_err *err);
BL_NODISCARD bl_status bl_registry_delete(bl_registry *registry, uint32_t owner, const char *lease, const char *name,
                                          bl_err *err);
/* Call |each|, under the lock, for every tensor of one namespace. */
BL_NODISCARD bl_status bl_registry_list(bl_registry *registry, uint32_t owner, const char *lease,
                                        void (*each)(void *arg, const char *name, const bl_device_tensor *held), void *arg,
                                        bl_err *err);

enum { BL_LEASE_SIZE = 33 };
BL_NODISCARD bl_status bl_lease_create(bl_registry *registry, uint32_t owner, double ttl, char id[BL_LEASE_SIZE], bl_err *err);
/* |ttl| in seconds; 0 keeps the present value.  *ttl_now becomes the value that applies. */
BL_NODISCARD bl_status bl_lease_renew(bl_registry *registry, uint32_t owner, const char *id, double ttl, double *ttl_now,
                                      bl_err *err);
BL_NODISCARD bl_status bl_lease_end(bl_registry *registry, uint32_t owner, const char *id, bl_err *err);
/* End all leases whose time has passed. */
void bl_registry_expire(bl_registry *registry, int64_t now_ns);

/* Put a program; takes a reference.  |fresh|: BL_EPRECONDITION if the name is taken; otherwise the present program is
 * replaced. BL_ECONFLICT if the present program is claimed (program->claim) and therefore stays, or if the owner was purged
 * since (program->purges). */
BL_NODISCARD bl_status bl_registry_put_program(bl_registry *registry, uint32_t owner, const char *name, bl_program *program,
                                               bool fresh, bl_err *err);
BL_NODISCARD bl_status bl_registry_get_program(bl_registry *registry, uint32_t owner, const char *name, bl_program **out,
                                               bl_err *err); /* *out is retained */
/* bl_registry_get_program that also finds a program that another owner shares; program->owner is the owner of the program. */
BL_NODISCARD bl_status bl_registry_read_program(bl_registry *registry, uint32_t owner, const char *name, bl_program **out,
                                                bl_err *err);
/* BL_ECONFLICT if a program of this name exists and is claimed, so that it cannot be deleted. */
BL_NODISCARD bl_status bl_registry_check_program(bl_registry *registry, uint32_t owner, const char *name, bl_err *err);
BL_NODISCARD bl_status bl_registry_delete_program(bl_registry *registry, uint32_t owner, const char *name, bl_err *err);
void bl_registry_list_programs(bl_registry *registry, uint32_t owner,
                               void (*each)(void *arg, const char *name, bl_program *program), void *arg);

/* The programs of all owners; program->owner is the owner. */
void bl_registry_all_programs(bl_registry *registry, void (*each)(void *arg, const char *name, bl_program *program), void *arg);

/* Charge |bytes| of held memory to |owner|.  |all| bytes count in the sum over all owners: 0 if the bytes are a part of
 * bytes that another owner was charged for.  BL_ENODEVMEM over the server's limit; if |bound|, BL_EQUOTA over the key's
 * limit. */
BL_NODISCARD bl_status bl_registry_charge_of(bl_registry *registry, uint32_t owner, size_t bytes, size_t all, bool bound,
                                             bl_err *err);
void bl_registry_refund_of(bl_registry *registry, uint32_t owner, size_t bytes, size_t all);
static inline bl_status bl_registry_charge(bl_registry *registry, uint32_t payer, size_t bytes, bool bound, bl_err *err)
{
    return bl_registry_charge_of(registry, payer, bytes, bytes, bound, err);
}
static inline void bl_registry_refund(bl_registry *registry, uint32_t payer, size_t bytes)
{
    bl_registry_refund_of(registry, payer, bytes, bytes);
}
/* Bytes of |owner|'s tensors and programs on one device, without the bytes of leases. |worker| NULL: all bytes charged to
 * |owner|. */
size_t bl_registry_held_on(bl_registry *registry, uint32_t owner, const bl_worker *worker);

/* Delete all objects of |owner|: leases, tensors, programs.  Returns the number of tensors and programs. */
size_t bl_registry_purge(bl_registry *registry, uint32_t owner);

/* Does the tensor (|kind| "tensor") or program exist? */
bool bl_registry_has(bl_registry *registry, uint32_t owner, const char *kind, const char *name);
/* The name that the owner uses for the shared name |full|, such as "alice:net", and the owner of the object in *owner. NULL
 * if no object is shared with |reader| under this name. */
const char *bl_registry_shared(bl_registry *registry, uint32_t reader, const char *kind, const char *full, uint32_t *owner);
struct bl_grants *bl_registry_grants(bl_registry *registry); /* the shares; they live as long as the registry */

#endif
