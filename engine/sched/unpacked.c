/* SPDX-License-Identifier: MIT */
/* Recognises values that unpack the codes of quantised weights, which get no buffers (realise.c). */
#include "engine/sched/sched_internal.h"

enum {
    MOST_UNPACKED = 16,  /* bytes of float32 for each byte of 2-bit codes */
    MOST_UNPACKING = 128 /* nodes that unpack codes; block_linear has up to 60 */
};

/* The bytes of an input that an operand of an unpacking op reads: all of them, or those of the part that a SHRINK or a GATHER
 * leaves. */
static int64_t bytes_read(const bl_node *operand)
{
    int64_t least = sched_elements(operand);
    const bl_node *node = operand;

    for (; bl_op_get_class((bl_op)node->op) == BL_CLASS_MOVE || node->op == BL_OP_GATHER; node = node->src[0])
        least = sched_elements(node->src[0]) < least ? sched_elements(node->src[0]) : least;
    return node->op == BL_OP_INPUT ? least * (int64_t)bl_dtype_bytes((bl_dtype)node->dtype) : 0;
}

bool sched_is_unpacked(const bl_node *tensor)
{
    const bl_node *seen[MOST_UNPACKING] = {tensor};
    int64_t bytes = 0, own = 0;
    bool bits = false;
    int n = 1;

    for (int i = 0; i < n; i++) {
        const bl_node *node = seen[i];
        bl_op_class class = bl_op_get_class((bl_op)node->op);
        if (sched_elements(node) > INT32_MAX)
            return false;
        if (class == BL_CLASS_ALU ? sched_own_weight(node) > 1
                                  : class != BL_CLASS_MOVE && node->op != BL_OP_INPUT && node->op != BL_OP_GATHER &&
                                        node->op != BL_OP_CONST && node->op != BL_OP_IOTA)
            return false;
        bits = bits || node->op == BL_OP_AND || node->op == BL_OP_SHR;
        for (uint32_t k = 0; k < node->nsrc; k++) {
            int at = 0;
            while (at < n && seen[at] != node->src[k])
                at++;
            if (node->src[k]->dtype == BL_INDEX || at < n)
                continue;
            if (n == MOST_UNPACKING)
                return false;
            bytes += class == BL_CLASS_ALU ? bytes_read(node->src[k]) : 0;
            seen[n++] = node->src[k];
        }
    }
    own = sched_elements(tensor) * (int64_t)bl_dtype_bytes((bl_dtype)tensor->dtype);
    return bits && 2 * own >= bytes && own <= MOST_UNPACKED * bytes;
}
