/* A kernel as a list of instructions: what the renderers print and the interpreter runs.
 * An instruction's op is a node's op (engine/ir/ops.def); values are numbered by the instruction that makes them. */
#ifndef BL_LOWER_LINEAR_H
#define BL_LOWER_LINEAR_H

#include "engine/base/text.h"
#include "engine/ir/node.h"

typedef enum bl_buffer_place {
    BL_PARAM,
    BL_LOCAL,       /* memory of the group, where values are of the types that they are computed in */
    BL_LOCAL_NARROW /* where float16 and bfloat16 take 16 bits, as in a parameter */
} bl_buffer_place;

typedef struct bl_inst {
    uint8_t op;    /* bl_op: CONST, VAR, BUFFER, GROUP_ID, LOCAL_ID, ALU ops, LOAD, STORE, LANE, EXTRACT, STACK, FOLD, LOOP, END,
                      ACC, SET,    BARRIER */
    uint8_t dtype; /* of the value; INDEX was lowered to I32 or I64 */
    uint8_t lanes;
    uint8_t
        sub; /* FOLD: the op.  BUFFER: a bl_buffer_place.  IDIV, MOD: 1 where the first operand is not negative and the
                second positive.  ADD, SUB, MUL, NEG: 1 where it does not overflow.  SHL, SHR: 1 where the amount is below the
                width.  Vector LOAD, STORE: 1 where the index is a multiple of the lanes.  FRAGMENT_LOAD: a bl_matrix_layout */
    uint32_t nargs;
    const uint32_t *args; /* numbers of the instructions that give the operands; arena */
    int64_t arg; /* CONST: bits of the bl_scalar.  VAR: which scalar parameter.  BUFFER: which.  GROUP_ID, LOCAL_ID: which
                    dimension.  STORE: BL_STORE_STREAMS or 0.  EXTRACT: which lane.  BUFFER of local memory: elements.  FRAGMENT,
                    FRAGMENT_LOAD, MATRIX_ADD, FRAGMENT_STORE: the shape (bl_matrix_pack) */
} bl_inst;

/* Rules of the list: operands stand before their users and in an enclosing loop; LOOP and END nest; a vector LOAD (lanes > 1) has
 * a scalar index and reads consecutive elements from there, or a vector index and gathers; STORE likewise; a gate is a bool with
 * as many lanes as the value or one; operands of an ALU op have as many lanes as the result, or one, which is then repeated;
 * loops around a BARRIER end for all work-items of a group at the same turn: their ends are made of constants, VARs, GROUP_IDs
 * and such loops' counters alone.
 *
 * Fragments are what a matrix unit multiplies (engine/ir/matrix.h); only these four instructions name them.  A FRAGMENT is an
 * accumulator, zeros whenever it is come by; MATRIX_ADD adds the product of two FRAGMENT_LOADs, an a and a b, to it;
 * FRAGMENT_STORE writes its rows, n elements each, to local memory.  The |scope| work-items of the unit, which are all of the
 * group's first dimension where the scope is over 1, do each of them together: operands and loops around are the same for all. */
typedef struct bl_linear {
    const char *name; /* [a-z0-9_] */
    bl_inst *inst;
    uint32_t ninst;
    uint32_t nbuffers;
    const bl_dtype *buffer_dtype; /* nbuffers */
    uint32_t writes;              /* bit i: buffer i is stored to */
    uint32_t nscalars;            /* VARs: int32 parameters */
    uint32_t local[3];
    uint32_t local_bytes;
} bl_linear;

enum {
    BL_LINEAR_MAX_INST = 1 << 20,
    BL_LINEAR_MAX_BUFFERS = 32,    /* bits of |writes| */
    BL_LINEAR_MAX_SCALARS = 32,    /* as many as a device takes (BL_MAX_SCALARS) */
    BL_LINEAR_MAX_DEPTH = 32,      /* of loops */
    BL_LINEAR_MAX_LOCAL = 1 << 16, /* work-items of a group */
    BL_LINEAR_MAX_NAME = 127
};

/* The text of a kernel: a header line, then one instruction a line.
 *   linear r_4_8 buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0
 *   0 group_id int32 arg=0
 *   1 buffer float32 arg=0
 *   2 load float32x16 %1 %0
 *   3 const float32 2.5
 *   4 mul float32x16 %2 %3
 *   5 fold float32 %4 sub=add
 *   6 buffer float32 arg=1
 *   7 store %6 %0 %5
 * The fields: number, op, dtype with its lanes where they are not 1, operands, sub= (FOLD: the op; BUFFER: "local" or "narrow"
 * where it is), arg= (VAR, BUFFER, GROUP_ID, LOCAL_ID, EXTRACT; STORE where it is not 0).  CONST has its value instead: a
 * decimal, or 0x and the bits of the bl_scalar where a decimal would lose some (the payload of a NaN). SET, END, BARRIER,
 * MATRIX_ADD and FRAGMENT_STORE have no dtype field, STORE only where it has several lanes.  Instructions of fragments end with
 * shape= and the shape as bl_matrix_print has it, FRAGMENT_LOAD with layout= before it. */
void bl_linear_print(const bl_linear *linear, bl_text *out);
/* A copy in |arena|; NULL without memory. */
bl_linear *bl_linear_copy(bl_arena *arena, const bl_linear *linear);
/* A scalar index as |*base|, an instruction, and the number returned: itself and 0 where it is no sum with one. */
int64_t bl_linear_split(const bl_linear *linear, uint32_t index, uint32_t *base);
/* Check everything that running a kernel relies on: operands are made before and in scope, loops nest, dtypes and lanes agree.
 * CONST, VAR, BUFFER, GROUP_ID, LOCAL_ID and LOOP have one lane; VAR, the ids, LANE, LOOP and the indices of LOAD and STORE are
 * int32 or int64; |writes| is exactly the set of parameters that a STORE names; local buffers take at most |local_bytes|
 * together; a BARRIER stands in loops only that end for all work-items alike.  |arena| is for scratch.  A violation is BL_EBUG
 * and names the instruction. */
BL_NODISCARD bl_status bl_linear_check(bl_arena *arena, const bl_linear *linear, bl_err *err);

#endif
