/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Calls left until the one that fails; 0 is disarmed.  Process-wide on purpose: a fault strikes whichever call comes n-th. */
static atomic_long countdown[BL_FAULT_KINDS];

void bl_fault_arm(bl_fault_kind kind, long nth)
{
    atomic_store(&countdown[kind], nth > 0 ? nth : 0);
}

bool bl_fault_hit(bl_fault_kind kind)
{
    long left = atomic_load_explicit(&countdown[kind], memory_order_relaxed);

    while (left > 0) {
        if (atomic_compare_exchange_weak(&countdown[kind], &left, left - 1))
            return left == 1;
    }
    return false;
}

/* Before main, so that a whole run of the server can be made to fail at its n-th call. */
static void __attribute__((constructor)) arm_from_environment(void)
{
    const char *spec = getenv("BEAMLINE_FAULT");

    if (spec == NULL)
        return;
    if (strncmp(spec, "alloc:", 6) == 0)
        bl_fault_arm(BL_FAULT_ALLOC, strtol(spec + 6, NULL, 10));
    else if (strncmp(spec, "device:", 7) == 0)
        bl_fault_arm(BL_FAULT_DEVICE, strtol(spec + 7, NULL, 10));
    else if (strncmp(spec, "child:", 6) == 0)
        bl_fault_arm(BL_FAULT_CHILD, strtol(spec + 6, NULL, 10));
}

void *bl_calloc(unsigned long count, unsigned long size)
{
    return bl_fault_hit(BL_FAULT_ALLOC) ? NULL : calloc(count, size);
}

void *bl_realloc(void *old, unsigned long size)
{
    /* realloc(p, 0) may free p and give NULL, which a caller would take for a failure and free again. */
    return bl_fault_hit(BL_FAULT_ALLOC) ? NULL : realloc(old, size > 0 ? size : 1);
}
