/* A linear kernel translated for running.
 * Groups run side by side, up to 64 of them: an instruction is done for all before the next one, so that its dispatch is paid
 * once. The work-items of a group run one after the other, each from one barrier to the next: what a kernel reads without the
 * barrier that it needs is not there yet.  Thread: the code is immutable; scratch belongs to one run at a time. */
#ifndef BL_INTERP_KERNEL_H
#define BL_INTERP_KERNEL_H

#include "engine/lower/linear.h"

typedef struct bl_interp_code bl_interp_code;

/* What a buffer parameter is bound to. */
typedef struct bl_interp_memory {
    unsigned char *data;
    size_t bytes;
} bl_interp_memory;

typedef struct bl_interp_launch {
    const bl_interp_memory *buffers; /* nbuffers of the kernel */
    const int32_t *scalars;          /* nscalars */
    uint32_t groups[3];              /* their product fits 64 bits */
    void *scratch;                   /* bl_interp_scratch bytes, 16-byte aligned */
} bl_interp_launch;

/* The kernel is checked first (bl_linear_check); the code lives in |arena| and has all that it needs of it. */
BL_NODISCARD bl_status bl_interp_compile(bl_arena *arena, const bl_linear *linear, bl_interp_code **out, bl_err *err);
/* Bytes of memory that a run needs beside the buffers. */
size_t bl_interp_scratch(const bl_interp_code *code);
/* BL_EDEVICE where a work-item reads or writes outside a buffer (which it then does not). */
BL_NODISCARD bl_status bl_interp_run(const bl_interp_code *code, const bl_interp_launch *launch, bl_err *err);

#endif
