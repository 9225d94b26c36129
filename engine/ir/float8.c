/* SPDX-License-Identifier: MIT */
/* Lowering of float8, which no device supports. Values are computed as float32 and rounded after each op, like 16-bit floats,
 * and stored as uint8. The conversions consist of primitives, so later stages and devices need no support for float8. Formats:
 * Micikevicius et al., "FP8 formats for deep learning", arXiv:2209.05433; E4M3 has no infinity. */
#include "engine/ir/float8.h"

#include "engine/base/map.h"
#include "engine/ir/private.h"
#include "engine/ir/scan.h"

#include <string.h>

static bool is_float8(const bl_node *node)
{
    return bl_dtype_is_float8((bl_dtype)node->dtype);
}

typedef struct format {
    int mantissa, bias;
    uint32_t highest; /* bits of the largest finite value */
    uint32_t beyond;  /* the code of an overflow: infinity, or NaN in a format without infinity */
} format;

static format float8_format_of(bl_dtype dtype)
{
    return dtype == BL_F8E4M3 ? (format){3, 7, 0x7e, 0x7f} : (format){2, 15, 0x7b, 0x7c};
}

static const bl_node *float8_word(bl_ir *ir, const bl_node *like, uint32_t value)
{
    return bl_full_like(ir, like, value);
}

/* Decode |code| (uint8) to float32. */
static const bl_node *float8_decode(bl_ir *ir, bl_dtype dtype, const bl_node *code)
{
    const bl_node *bits = bl_cast(ir, BL_U32, code);
    if (dtype == BL_F8E5M2) { /* E5M2 is the upper half of a float16 */
        const bl_node *half = bl_cast(ir, BL_U16, bl_alu2(ir, BL_OP_SHL, bits, float8_word(ir, bits, 8)));
        return bl_cast(ir, BL_F32, bl_bitcast(ir, BL_F16, half));
    }
    const bl_node *size = bl_and(ir, bits, float8_word(ir, bits, 0x7f));
    const bl_node *sign = bl_alu2(ir, BL_OP_SHL, bl_and(ir, bits, float8_word(ir, bits, 0x80)), float8_word(ir, bits, 24));
    const bl_node *small = bl_cast(ir, BL_F32, size); /* a subnormal: counts in units of 2^-9 */
    small = bl_bitcast(ir, BL_U32, bl_mul(ir, small, bl_full_like(ir, small, 0x1p-9)));
    const bl_node *normal =
        bl_add(ir, bl_alu2(ir, BL_OP_SHL, size, float8_word(ir, bits, 20)), float8_word(ir, bits, (127 - 7) << 23));
    const bl_node *value = bl_where(ir, bl_less(ir, size, float8_word(ir, bits, 8)), small, normal);
    value = bl_where(ir, bl_alu2(ir, BL_OP_CMPEQ, size, float8_word(ir, bits, 0x7f)), float8_word(ir, bits, 0x7fc00000), value);
    return bl_bitcast(ir, BL_F32, bl_alu2(ir, BL_OP_OR, sign, value));
}

/* Encode |x| (float32) as the nearest code, uint8; ties go to the even code. */
static const bl_node *encode(bl_ir *ir, bl_dtype dtype, const bl_node *x)
{
    format f = float8_format_of(dtype);
    int drop = 23 - f.mantissa;
    uint32_t rebias = (uint32_t)(127 - f.bias) << 23;
    const bl_node *bits = bl_bitcast(ir, BL_U32, x);
    const bl_node *size = bl_and(ir, bits, float8_word(ir, bits, 0x7fffffff));
    const bl_node *odd =
        bl_and(ir, bl_alu2(ir, BL_OP_SHR, size, float8_word(ir, bits, (uint32_t)drop)), float8_word(ir, bits, 1));
    const bl_node *normal =
        bl_add(ir, bl_sub(ir, size, float8_word(ir, bits, rebias)), float8_word(ir, bits, (1u << (drop - 1)) - 1));
    normal = bl_alu2(ir, BL_OP_SHR, bl_add(ir, normal, odd), float8_word(ir, bits, (uint32_t)drop));
    /* Below the smallest normal number, adding 2^k rounds to the last place of the format. */
    uint32_t lift = (uint32_t)(127 + 1 - f.bias - f.mantissa + 23) << 23;
    const bl_node *lifted = bl_add(ir, bl_bitcast(ir, BL_F32, size), bl_bitcast(ir, BL_F32, float8_word(ir, bits, lift)));
    const bl_node *tiny = bl_sub(ir, bl_bitcast(ir, BL_U32, lifted), float8_word(ir, bits, lift));
    const bl_node *code = bl_where(ir, bl_less(ir, size, float8_word(ir, bits, rebias + (1u << 23))), tiny, normal);
    code = bl_where(ir, bl_less(ir, float8_word(ir, bits, f.highest), code), float8_word(ir, bits, f.beyond), code);
    code = bl_where(ir, bl_less(ir, float8_word(ir, bits, 0x7f800000), size), float8_word(ir, bits, 0x7f), code); /* NaN */
    const bl_node *sign = bl_and(ir, bl_alu2(ir, BL_OP_SHR, bits, float8_word(ir, bits, 24)), float8_word(ir, bits, 0x80));
    return bl_cast(ir, BL_U8, bl_alu2(ir, BL_OP_OR, code, sign));
}

typedef struct lowering {
    bl_ir *ir;
    bl_ptrmap codes; /* float32 node that stands for a float8 value -> its code, a uint8 node */
} lowering;

static const bl_node *from_code(lowering *w, bl_dtype dtype, const bl_node *code)
{
    const bl_node *value = float8_decode(w->ir, dtype, code);
    bl_ptrmap_put(&w->codes, value, code);
    return value;
}

static const bl_node *to_code(const lowering *w, bl_dtype dtype, const bl_node *value)
{
    const bl_node *code = bl_ptrmap_get(&w->codes, value);
    return code != NULL ? code : encode(w->ir, dtype, value);
}

static const bl_node *float8_convert(lowering *w, const bl_node *node, const bl_node *x)
{
    bl_dtype to = (bl_dtype)node->dtype, from = (bl_dtype)node->src[0]->dtype;
    bool bits = node->op == BL_OP_BITCAST;

    if (bits && is_float8(node->src[0]))
        x = to_code(w, from, x);
    if (is_float8(node))
        return from_code(w, to, bits ? bl_bitcast(w->ir, BL_U8, x) : encode(w->ir, to, bl_cast(w->ir, BL_F32, x)));
    return bits ? bl_bitcast(w->ir, to, x) : bl_cast(w->ir, to, x);
}

/* Is the result of the op exact, since it equals an operand up to its sign? */
static bool float8_is_exact(bl_op op)
{
    return op == BL_OP_NEG || op == BL_OP_TRUNC || op == BL_OP_MAX || op == BL_OP_MIN || op == BL_OP_WHERE;
}

static const bl_node *lower_scan(lowering *w, const bl_node *node, const bl_node *const *from)
{
    bl_scan scan = *bl_scan_get(w->ir, node);
    int nroots = scan.ncarries + scan.nys;
    const bl_node **root = bl_arena_array(bl_ir_arena(w->ir), (size_t)nroots + 1, sizeof *root);
    const bl_node **src = bl_arena_array(bl_ir_arena(w->ir), (size_t)node->nsrc + 1, sizeof *src);

    if (root == NULL || src == NULL)
        return bl_poison(w->ir);
    for (uint32_t i = 0; i < node->nsrc; i++)
        src[i] = is_float8(node->src[i]) ? to_code(w, (bl_dtype)node->src[i]->dtype, from[i]) : from[i];
    memcpy(root, scan.root, (size_t)nroots * sizeof *root);
    scan.root = root;
    bl_lower_float8(w->ir, nroots, root);
    return bl_scan_make(w->ir, &scan, src);
}

static const bl_node *lower_leaf(const lowering *w, const bl_node *node)
{
    return node->op == BL_OP_INPUT ? bl_input(w->ir, (int)node->arg, BL_U8, node->ndim, node->dim)
                                   : bl_bound(w->ir, (int)node->arg, BL_U8, node->ndim, node->dim);
}

static const bl_node *lower_node(lowering *w, const bl_node *node, const bl_node *const *src)
{
    bl_node proto = *node;
    const bl_node *made = NULL;

    if (node->op == BL_OP_INPUT || node->op == BL_OP_BOUND)
        return from_code(w, (bl_dtype)node->dtype, lower_leaf(w, node));
    if (node->op == BL_OP_SCAN)
        return lower_scan(w, node, src);
    if (node->op == BL_OP_RESULT) {
        made = bl_scan_result(w->ir, src[0], (int)node->arg);
        return is_float8(node) ? from_code(w, (bl_dtype)node->dtype, made) : made;
    }
    if (node->op == BL_OP_CONST)
        return bl_const(w->ir, BL_F32, bl_const_value(node));
    if (node->op == BL_OP_CAST || node->op == BL_OP_BITCAST)
        return float8_convert(w, node, src[0]);
    if (bl_op_get_class((bl_op)node->op) == BL_CLASS_ALU) {
        made = bl_alu(w->ir, (bl_op)node->op, src);
        return is_float8(node) && !float8_is_exact((bl_op)node->op)
                   ? from_code(w, (bl_dtype)node->dtype, encode(w->ir, (bl_dtype)node->dtype, made))
                   : made;
    }
    proto.dtype = is_float8(node) ? BL_F32 : node->dtype;
    proto.src = src;
    return bl_node_make(w->ir, &proto);
}

static const bl_node *lower_changed(void *arg, const bl_node *node, const bl_node *const *src)
{
    lowering *w = arg;
    bool changed = is_float8(node) || node->op == BL_OP_SCAN || !bl_has_sources(node, src);
    return changed && bl_ir_status(w->ir, NULL) == BL_OK ? lower_node(w, node, src) : node;
}

/* Does the graph have float8? A SCAN counts, since its body may have float8 where the surrounding graph has none. */
static bool any_float8(bl_nodes nodes)
{
    bool any = false;
    for (size_t i = 0; i < nodes.count; i++)
        any = any || is_float8(nodes.at[i]) || nodes.at[i]->op == BL_OP_SCAN;
    return any;
}

void bl_lower_float8(bl_ir *ir, int nroots, const bl_node **roots)
{
    lowering w = {.ir = ir};
    const bl_node **made = bl_arena_array(bl_ir_arena(ir), (size_t)nroots + 1, sizeof *made);

    if (made == NULL || !any_float8(bl_reach(ir, nroots, roots, false)))
        return;
    bl_ptrmap_init(&w.codes, bl_ir_arena(ir));
    memcpy(made, roots, (size_t)nroots * sizeof *made);
    bl_rewrite_tracked(ir, nroots, made, 0, NULL, lower_changed, &w);
    for (int i = 0; i < nroots; i++)
        roots[i] = is_float8(roots[i]) ? to_code(&w, (bl_dtype)roots[i]->dtype, made[i]) : made[i];
}
