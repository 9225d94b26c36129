/* A linear kernel: a list of instructions, which the renderers print and the interpreter runs. Opcodes are those of nodes
 * (engine/ir/ops.def). A value has the number of the instruction that computes it. */
#ifndef BL_LOWER_LINEAR_H
#define BL_LOWER_LINEAR_H

#include "engine/base/text.h"
#include "engine/ir/node.h"

typedef enum bl_buffer_place {
    BL_PARAM,
    BL_LOCAL,       /* local memory of the group; elements have the type in which they are computed */
    BL_LOCAL_NARROW /* local memory in which float16 and bfloat16 take 16 bits, as in a parameter */
} bl_buffer_place;

typedef struct bl_inst {
    /* bl_op: CONST, VAR, BUFFER, GROUP_ID, LOCAL_ID, ALU ops, LOAD, STORE, LANE, EXTRACT, STACK, FOLD, LOOP, END, ACC, SET,
     * BARRIER */
    uint8_t op;
    uint8_t dtype; /* dtype of the value; INDEX was lowered to I32 or I64 */
    uint8_t lanes;
    /* FOLD: the op. BUFFER: a bl_buffer_place. IDIV, MOD: 1 if the first operand is not negative and the second positive. ADD,
     * SUB, MUL, NEG: 1 if it cannot overflow. SHL, SHR: 1 if the amount is below the width. Vector LOAD, STORE: 1 if the index
     * is a multiple of the lanes. FRAGMENT_LOAD: a bl_matrix_layout */
    uint8_t sub;
    uint32_t nargs;
    const uint32_t *args; /* numbers of the instructions that compute the operands; in the arena */
    /* CONST: bits of the bl_scalar. VAR: number of the scalar parameter. BUFFER: number of the parameter. GROUP_ID, LOCAL_ID:
     * the dimension. STORE: BL_STORE_STREAMS or 0. EXTRACT: the lane. BUFFER of local memory: number of elements. FRAGMENT,
     * FRAGMENT_LOAD, MATRIX_ADD, FRAGMENT_STORE: the shape (bl_matrix_pack) */
    int64_t arg;
} bl_inst;

/* Rules of the list. Operands precede their users and stand in an enclosing loop. LOOP and END nest. A vector LOAD (lanes > 1)
 * has a scalar index and reads consecutive elements, or has a vector index and gathers; STORE likewise. A gate is a bool with
 * as many lanes as the value, or one lane. Operands of an ALU op have as many lanes as the result, or one lane, which is
 * broadcast. Every loop around a BARRIER has the same number of iterations for all work-items of a group: its bound is made of
 * constants, VARs, GROUP_IDs and counters of such loops only.
 * Fragments are the operands of matrix units (engine/ir/matrix_unit.h); only four instructions use them. A FRAGMENT is an
 * accumulator, set to zero whenever the instruction runs. MATRIX_ADD adds the product of two FRAGMENT_LOADs, an a and a b.
 * FRAGMENT_STORE writes the rows, n elements each, to local memory. The |scope| work-items of the unit execute each of them
 * together (with a scope over 1 they are the whole first dimension of the group), so operands and loop bounds must be the same
 * for all of them. */
typedef struct bl_linear {
    const char *name; /* [a-z0-9_] */
    bl_inst *inst;
    uint32_t ninst;
    uint32_t nbuffers;
    const bl_dtype *buffer_dtype; /* nbuffers entries */
    uint32_t writes;              /* bit i: the kernel stores to buffer i */
    uint32_t nscalars;            /* number of VARs, which are int32 parameters */
    uint32_t local[3];
    uint32_t local_bytes;
} bl_linear;

enum {
    BL_LINEAR_MAX_INST = 1 << 20,
    BL_LINEAR_MAX_BUFFERS = 32,    /* number of bits of |writes| */
    BL_LINEAR_MAX_SCALARS = 32,    /* as many as a device takes (BL_MAX_SCALARS) */
    BL_LINEAR_MAX_DEPTH = 32,      /* depth of loops */
    BL_LINEAR_MAX_LOCAL = 1 << 16, /* work-items of a group */
    BL_LINEAR_MAX_NAME = 127
};

/* Print a kernel as text: a header line, then one instruction per line.
 *   linear r_4_8 buffers=float32,float32 writes=2 scalars=0 local=1,1,1 localbytes=0
 *   0 group_id int32 arg=0
 *   1 buffer float32 arg=0
 *   2 load float32x16 %1 %0
 *   3 const float32 2.5
 *   4 mul float32x16 %2 %3
 *   5 fold float32 %4 sub=add
 *   6 buffer float32 arg=1
 *   7 store %6 %0 %5
 * Fields: number; op; dtype, with its lanes if there are several; operands; sub= (FOLD: the op; BUFFER: "local" or "narrow", if
 * so); arg= (VAR, BUFFER, GROUP_ID, LOCAL_ID, EXTRACT; STORE if it is not 0). CONST has its value instead: a decimal number, or
 * 0x and the bits of the bl_scalar if a decimal number would lose precision (the payload of a NaN). SET, END, BARRIER, MATRIX_ADD
 * and FRAGMENT_STORE have no dtype; STORE has one only with several lanes. Instructions on fragments end with shape= in the form
 * of bl_matrix_print; FRAGMENT_LOAD has layout= before it. */
void bl_linear_print(const bl_linear *linear, bl_text *out);
/* A copy of |linear| in |arena|; NULL without memory. */
bl_linear *bl_linear_copy(bl_arena *arena, const bl_linear *linear);
/* Split the scalar index |index| into an instruction, *base, and a constant, which is returned. If it is not a sum with a
 * constant: itself and 0. */
int64_t bl_linear_split(const bl_linear *linear, uint32_t index, uint32_t *base);
/* Check everything that running a kernel relies on. Operands precede their users and are in scope; loops nest; dtypes and lanes
 * agree. CONST, VAR, BUFFER, GROUP_ID, LOCAL_ID and LOOP have one lane. VAR, the ids, LANE, LOOP and the indices of LOAD and
 * STORE are int32 or int64. |writes| is exactly the set of parameters that are stored to. Local buffers take at most
 * |local_bytes| together. Loops around a BARRIER are uniform over the group. |arena| is for scratch. A violation is BL_EBUG and
 * names the instruction. */
BL_NODISCARD bl_status bl_linear_check(bl_arena *arena, const bl_linear *linear, bl_err *err);

#endif
