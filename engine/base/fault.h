/* Fault points for tests: the n-th allocation or device call fails, the n-th launch finds no memory in the driver (where that
 * takes many at once, the n-th submission), the n-th request to a child process kills it, or the n-th freed page of texts is
 * filled with NaN, on purpose.
 * Compiled in always (one relaxed load when off), armed by tests or by BEAMLINE_FAULT=alloc:N | device:N | launch:N | child:N |
 * page:N,
 * where N+M is the N-th and then every M-th after one. */
#ifndef BL_BASE_FAULT_H
#define BL_BASE_FAULT_H

#include <stdbool.h>

typedef enum bl_fault_kind {
    BL_FAULT_ALLOC,
    BL_FAULT_DEVICE,
    BL_FAULT_LAUNCH,
    BL_FAULT_CHILD,
    BL_FAULT_PAGE,
    BL_FAULT_KINDS
} bl_fault_kind;

/* Fail the |nth| call from now (1 is the next one), once; 0 disarms.  Thread: any. */
void bl_fault_arm(bl_fault_kind kind, long nth);
/* True if this call must fail. */
bool bl_fault_hit(bl_fault_kind kind);

/* malloc, calloc and realloc that pass a fault point. */
void *bl_calloc(unsigned long count, unsigned long size) __attribute__((malloc));
void *bl_realloc(void *old, unsigned long size);

#endif
