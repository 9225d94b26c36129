/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Calls left until a call fails; 0 means disarmed. The counters belong to the process, since a fault hits the n-th call of any
 * thread. */
static atomic_long countdown[BL_FAULT_KINDS];
static long again[BL_FAULT_KINDS]; /* calls from one fault to the next; set before main */

void bl_fault_arm(bl_fault_kind kind, long nth)
{
    atomic_store(&countdown[kind], nth > 0 ? nth : 0);
}

bool bl_fault_hit(bl_fault_kind kind)
{
    long left = atomic_load_explicit(&countdown[kind], memory_order_relaxed);

    while (left > 0) {
        if (atomic_compare_exchange_weak(&countdown[kind], &left, left > 1 ? left - 1 : again[kind]))
            return left == 1;
    }
    return false;
}

/* Runs before main, so that a test can make the n-th call of a whole server run fail. */
static void __attribute__((constructor)) arm_from_environment(void)
{
    static const char *const names[] = {[BL_FAULT_ALLOC] = "alloc",
                                        [BL_FAULT_DEVICE] = "device",
                                        [BL_FAULT_LAUNCH] = "launch",
                                        [BL_FAULT_CHILD] = "child",
                                        [BL_FAULT_PAGE] = "page"};
    const char *spec = getenv("BEAMLINE_FAULT");
    size_t len = spec != NULL ? strcspn(spec, ":") : 0;

    for (int kind = 0; spec != NULL && spec[len] == ':' && kind < BL_FAULT_KINDS; kind++) {
        char *end = NULL;
        if (strlen(names[kind]) != len || memcmp(names[kind], spec, len) != 0)
            continue;
        bl_fault_arm((bl_fault_kind)kind, strtol(spec + len + 1, &end, 10));
        again[kind] = *end == '+' ? strtol(end + 1, NULL, 10) : 0;
    }
}

void *bl_calloc(unsigned long count, unsigned long size)
{
    return bl_fault_hit(BL_FAULT_ALLOC) ? NULL : calloc(count, size);
}

void *bl_realloc(void *old, unsigned long size)
{
    /* realloc(p, 0) may free p and return NULL. A caller would take that for a failure and free p again. */
    return bl_fault_hit(BL_FAULT_ALLOC) ? NULL : realloc(old, size > 0 ? size : 1);
}
