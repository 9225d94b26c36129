/* SPDX-License-Identifier: MIT */
#include "proto/onnx/import.h"

#include <string.h>

const bl_onnx_op bl_onnx_ops[] = {
#define BL_ONNX(domain_, name_, since_, recipe_, doc_)                                                                           \
    {.domain = domain_, .name = name_, .since = since_, .recipe = recipe_, .doc = doc_},
#define BL_ONNX_CALL(domain_, name_, since_, id_, doc_)                                                                          \
    {.domain = domain_, .name = name_, .since = since_, .write = bl_onnx_write_##id_, .doc = doc_},
#include "proto/onnx/ops.def"
#undef BL_ONNX
#undef BL_ONNX_CALL
};
const size_t bl_onnx_ops_count = sizeof bl_onnx_ops / sizeof bl_onnx_ops[0];

const bl_onnx_op *bl_onnx_op_find(const char *domain, const char *name, int64_t opset)
{
    const bl_onnx_op *best = NULL;

    for (size_t i = 0; i < bl_onnx_ops_count; i++) {
        const bl_onnx_op *op = &bl_onnx_ops[i];
        if (op->since <= opset && (best == NULL || op->since > best->since) && strcmp(op->name, name) == 0 &&
            strcmp(op->domain, domain) == 0)
            best = op;
    }
    return best;
}

int bl_onnx_axis(bl_onnx_call *c, int64_t axis, int rank)
{
    if (axis >= -rank && axis < rank)
        return (int)(axis < 0 ? axis + rank : axis);
    bl_onnx_fail(c, "axis %lld is out of range for a tensor of %d dimensions", (long long)axis, rank);
    return 0;
}
