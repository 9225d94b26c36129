/* Fault injection for tests. A fault point makes one of these fail on purpose: the n-th allocation, the n-th device call, the
 * n-th launch (the driver finds no memory; where the driver takes many launches at once, the n-th submission), or the n-th
 * request to a child process (the child is killed). BL_FAULT_PAGE fills the n-th freed page of the key-value cache with NaN.
 * Fault points are always compiled in; a disarmed point costs one relaxed load. Tests arm a point by bl_fault_arm or by
 * BEAMLINE_FAULT=alloc:N | device:N | launch:N | child:N | page:N. N+M means the N-th call and then every M-th call. */
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

/* Make the |nth| call from now fail, once; 1 is the next call, 0 disarms. Thread: any. */
void bl_fault_arm(bl_fault_kind kind, long nth);
/* True if this call must fail. */
bool bl_fault_hit(bl_fault_kind kind);

/* malloc, calloc and realloc with the fault point BL_FAULT_ALLOC. */
void *bl_calloc(unsigned long count, unsigned long size) __attribute__((malloc));
void *bl_realloc(void *old, unsigned long size);

#endif
