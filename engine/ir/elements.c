/* SPDX-License-Identifier: MIT */
#include "engine/ir/elements.h"

#include "engine/base/map.h"
#include "engine/base/size.h"
#include "engine/ir/eval.h"

#include <string.h>

/* The extents and elements of a node. */
typedef struct value {
    const bl_node *node;
    int64_t dim[BL_MAX_DIMS];
    int64_t count;
    const bl_node *const *at; /* NULL: unknown */
} value;

typedef struct evaluator {
    bl_ir *ir;
    bl_arena *arena;
    bl_ptrmap values; /* node -> value */
    int64_t most;
    bl_elements_input input;
    void *arg;
    bool *missing; /* set if an input has unknown elements */
} evaluator;

static const value *elements_value_of(const evaluator *e, const bl_node *node)
{
    return bl_ptrmap_get(&e->values, node);
}

static bool elements_set_shape(const evaluator *e, value *v)
{
    v->count = 1;
    for (int d = 0; d < v->node->ndim; d++) {
        if (!bl_is_const(v->node->dim[d]))
            return false;
        v->dim[d] = v->node->dim[d]->lo;
        if (v->dim[d] < 0 || !bl_i64_mul(v->count, v->dim[d], &v->count) || v->count > e->most)
            return false;
    }
    return true;
}

static void split_place(const value *v, int64_t place, int64_t *index)
{
    for (int d = v->node->ndim - 1; d >= 0; d--) {
        index[d] = place % v->dim[d];
        place /= v->dim[d];
    }
}

static int64_t join_place(const value *v, const int64_t *index)
{
    int64_t place = 0;

    for (int d = 0; d < v->node->ndim; d++)
        place = place * v->dim[d] + index[d];
    return place;
}

static const bl_node *elements_zero_of(const evaluator *e, const bl_node *node)
{
    return bl_element_const(e->ir, (bl_dtype)node->dtype, (bl_scalar){.u = 0});
}

static int64_t amount(const bl_node *index)
{
    return bl_is_const(index) ? index->lo : -1;
}

/* Map |index|, an element of a movement op's result, to its position in |x|. -1: the element is padding, zero. -2: unknown. */
static int64_t moved_from(const value *v, const value *x, const int64_t *index)
{
    int64_t from[BL_MAX_DIMS] = {0}, stride = 0, dilation = 0;
    const bl_node *node = v->node;
    int axis = 0, added = node->ndim - x->node->ndim;

    switch ((int)node->op) {
    case BL_OP_RESHAPE:
        return join_place(v, index);
    case BL_OP_PERMUTE:
        for (int d = 0; d < node->ndim; d++)
            from[bl_perm_get(node->arg, d)] = index[d];
        break;
    case BL_OP_EXPAND:
        for (int d = 0; d < x->node->ndim; d++)
            from[d] = x->dim[d] == 1 ? 0 : index[added + d];
        break;
    case BL_OP_PAD:
    case BL_OP_SHRINK:
        for (int d = 0; d < node->ndim; d++) {
            int64_t by = amount(node->src[1 + d]);
            if (by < 0)
                return -2;
            from[d] = node->op == BL_OP_PAD ? index[d] - by : index[d] + by;
            if (from[d] < 0 || from[d] >= x->dim[d])
                return -1;
        }
        break;
    case BL_OP_FLIP:
        for (int d = 0; d < node->ndim; d++)
            from[d] = node->arg >> d & 1 ? x->dim[d] - 1 - index[d] : index[d];
        break;
    case BL_OP_WINDOW:
        bl_window_get(node->arg, &axis, &stride, &dilation);
        memcpy(from, index, (size_t)x->node->ndim * sizeof *from);
        from[axis] = index[axis] * stride + index[node->ndim - 1] * dilation;
        break;
    default:
        return -2;
    }
    return join_place(x, from);
}

static bool move(const evaluator *e, const value *v, const bl_node **out)
{
    const value *x = elements_value_of(e, v->node->src[0]);
    int64_t index[BL_MAX_DIMS];

    for (int64_t i = 0; i < v->count; i++) {
        split_place(v, i, index);
        int64_t from = moved_from(v, x, index);
        if (from < -1 || from >= x->count)
            return false;
        out[i] = from < 0 ? elements_zero_of(e, v->node) : x->at[from];
    }
    return true;
}

static bool elements_alu(const evaluator *e, const value *v, const bl_node **out)
{
    const bl_node *node = v->node, *operand[3] = {NULL};
    bl_dtype from = (bl_dtype)node->src[node->op == BL_OP_WHERE]->dtype;

    for (int64_t i = 0; i < v->count; i++) {
        for (uint32_t k = 0; k < node->nsrc; k++)
            operand[k] = elements_value_of(e, node->src[k])->at[i];
        out[i] = bl_element_alu(e->ir, (bl_op)node->op, (bl_dtype)node->dtype, from, operand);
        if (out[i] == NULL)
            return false;
    }
    return true;
}

static bool elements_reduce(const evaluator *e, const value *v, const bl_node **out)
{
    const value *x = elements_value_of(e, v->node->src[0]);
    bl_dtype dtype = (bl_dtype)v->node->dtype;
    int64_t index[BL_MAX_DIMS];

    for (int64_t i = 0; i < v->count; i++)
        out[i] = NULL;
    for (int64_t i = 0; i < x->count; i++) {
        split_place(x, i, index);
        for (int d = 0; d < v->node->ndim; d++)
            index[d] = v->node->arg >> d & 1 ? 0 : index[d];
        const bl_node **sum = &out[join_place(v, index)], *pair[2] = {*sum, x->at[i]};
        *sum = *sum == NULL ? x->at[i] : bl_element_alu(e->ir, (bl_op)v->node->sub, dtype, dtype, pair);
        if (*sum == NULL)
            return false;
    }
    for (int64_t i = 0; i < v->count; i++) {
        if (out[i] == NULL) /* a reduction over no elements */
            out[i] = bl_element_const(e->ir, dtype, bl_fold_identity((bl_op)v->node->sub, dtype));
    }
    return true;
}

static bool elements_gather(const evaluator *e, const value *v, const bl_node **out)
{
    const value *x = elements_value_of(e, v->node->src[0]), *which = elements_value_of(e, v->node->src[1]);
    int axis = (int)v->node->arg;
    int64_t index[BL_MAX_DIMS];

    for (int64_t i = 0; i < v->count; i++) {
        if (!bl_is_const(which->at[i]))
            return false;
        split_place(v, i, index);
        index[axis] = bl_const_value(which->at[i]).i;
        out[i] = index[axis] < 0 || index[axis] >= x->dim[axis] ? elements_zero_of(e, v->node) : x->at[join_place(x, index)];
    }
    return true;
}

static bool leaf(const evaluator *e, value *v, const bl_node **out)
{
    const bl_node *node = v->node;
    bl_dtype dtype = (bl_dtype)node->dtype;

    switch ((int)node->op) {
    case BL_OP_INPUT:
        v->at = e->input(e->arg, node);
        *e->missing = v->at == NULL;
        return v->at != NULL;
    case BL_OP_VAR:
        out[0] = node;
        return true;
    case BL_OP_CONST:
    case BL_OP_IOTA:
        for (int64_t i = 0; i < v->count; i++) {
            bl_scalar each = node->op == BL_OP_CONST ? bl_const_value(node) : bl_scalar_cast(dtype, BL_I64, (bl_scalar){.i = i});
            out[i] = bl_element_const(e->ir, dtype, each);
            if (out[i] == NULL)
                return false;
        }
        return true;
    default:
        return false;
    }
}

static bool sources_known(const evaluator *e, const value *v)
{
    uint32_t n = v->node->op == BL_OP_ALIAS || v->node->op == BL_OP_PAD || v->node->op == BL_OP_SHRINK ? 1 : v->node->nsrc;

    for (uint32_t i = 0; i < n; i++) {
        if (elements_value_of(e, v->node->src[i])->at == NULL)
            return false;
    }
    return true;
}

static bool elements_evaluate(const evaluator *e, value *v)
{
    const bl_node **out;

    if (!elements_set_shape(e, v) || !sources_known(e, v))
        return false;
    if (v->node->op == BL_OP_DETACH || v->node->op == BL_OP_CONTIGUOUS || v->node->op == BL_OP_ALIAS) {
        v->at = elements_value_of(e, v->node->src[0])->at;
        return true;
    }
    out = bl_arena_array(e->arena, (size_t)v->count, sizeof(const bl_node *));
    v->at = out;
    if (out == NULL)
        return false;
    switch (bl_op_get_class((bl_op)v->node->op)) {
    case BL_CLASS_LEAF:
        return leaf(e, v, out);
    case BL_CLASS_ALU:
        return elements_alu(e, v, out);
    case BL_CLASS_MOVE:
        return move(e, v, out);
    case BL_CLASS_REDUCE:
        return elements_reduce(e, v, out);
    case BL_CLASS_TENSOR:
        return v->node->op == BL_OP_GATHER && elements_gather(e, v, out);
    case BL_CLASS_LOOP:
    case BL_CLASS_INST:
        break;
    }
    return false;
}

const bl_node *const *bl_elements(bl_ir *ir, const bl_node *root, int64_t most, bl_elements_input input, void *arg,
                                  bl_arena *arena)
{
    bool missing = false;
    evaluator e = {.ir = ir, .arena = arena, .most = most, .input = input, .arg = arg, .missing = &missing};
    bl_nodes nodes = bl_reach(ir, 1, &root, false);

    bl_ptrmap_init(&e.values, arena);
    for (size_t i = 0; i < nodes.count; i++) {
        value *v = bl_arena_alloc(arena, sizeof *v);
        if (v == NULL)
            return NULL;
        v->node = nodes.at[i];
        if (!elements_evaluate(&e, v))
            v->at = NULL; /* the root may not need it: for instance, it may belong to a derivative */
        if (missing)
            return NULL;
        bl_ptrmap_put(&e.values, nodes.at[i], v);
    }
    return nodes.count > 0 && bl_arena_status(arena, NULL) == BL_OK ? elements_value_of(&e, root)->at : NULL;
}
