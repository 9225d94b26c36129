/* A linear kernel translated for the interpreter. Up to 64 groups run in lockstep: an instruction runs for all of them before
 * the next instruction, which spreads the cost of its dispatch. The work-items of a group run one after the other, each up to
 * the next barrier; a kernel that lacks a barrier therefore reads stale data. Thread: the code is immutable; scratch memory
 * belongs to one run at a time. */
#ifndef BL_INTERP_KERNEL_H
#define BL_INTERP_KERNEL_H

#include "engine/lower/linear.h"

typedef struct bl_interp_code bl_interp_code;

/* The memory bound to a buffer parameter. */
typedef struct bl_interp_memory {
    unsigned char *data;
    size_t bytes;
} bl_interp_memory;

typedef struct bl_interp_launch {
    const bl_interp_memory *buffers; /* one for each buffer of the kernel */
    const int32_t *scalars;          /* one for each scalar of the kernel */
    uint32_t groups[3];              /* their product must fit 64 bits */
    void *scratch;                   /* bl_interp_scratch(code) bytes, aligned to 16 bytes */
} bl_interp_launch;

/* Check the kernel (bl_linear_check) and translate it. The code lives in |arena| and does not refer to |linear| afterwards. */
BL_NODISCARD bl_status bl_interp_compile(bl_arena *arena, const bl_linear *linear, bl_interp_code **out, bl_err *err);
/* Bytes of scratch memory that a run needs. */
size_t bl_interp_scratch(const bl_interp_code *code);
/* Run a launch. BL_EDEVICE if a work-item accesses an element outside a buffer; the access itself is not made. */
BL_NODISCARD bl_status bl_interp_run(const bl_interp_code *code, const bl_interp_launch *launch, bl_err *err);

#endif
