/* SPDX-License-Identifier: MIT */
#include "engine/ir/private.h"

/* The compiler builds loop nests, so an error here is a bug of the compiler, never of a request. */
#define BUG(ir, ...) bl_ir_fail((ir), BL_EBUG, __VA_ARGS__)

static const bl_node *first_poison(int n, const bl_node *const *nodes)
{
    for (int i = 0; i < n; i++) {
        if (bl_is_poison(nodes[i]))
            return nodes[i];
    }
    return NULL;
}

static const bl_node *build_loop_make(bl_ir *ir, bl_op op, bl_dtype dtype, int lanes, unsigned sub, int64_t arg, size_t nsrc,
                                      const bl_node *const *src)
{
    bl_node proto = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .lanes = (uint8_t)lanes, .sub = (uint8_t)sub, .arg = arg};

    proto.nsrc = (uint32_t)nsrc;
    proto.src = src;
    return bl_node_make(ir, &proto);
}

const bl_node *bl_param(bl_ir *ir, int number, bl_dtype dtype, bool local)
{
    return build_loop_make(ir, BL_OP_BUFFER, dtype, 1, local ? 1 : 0, number, 0, NULL);
}

const bl_node *bl_local(bl_ir *ir, int number, bl_dtype dtype, int64_t elements)
{
    if (number < 0 || elements < 0 || elements > INT32_MAX)
        return bl_ir_fail(ir, BL_ELIMIT, "local memory of %lld elements", (long long)elements);
    return build_loop_make(ir, BL_OP_BUFFER, dtype, 1, 1, number | elements << BL_LOCAL_ELEMENTS, 0, NULL);
}

const bl_node *bl_range(bl_ir *ir, int number, bl_axis_kind kind, const bl_node *extent)
{
    if (bl_is_poison(extent))
        return extent;
    if (extent->dtype != BL_INDEX || extent->lanes != 1)
        return BUG(ir, "range: the extent is not an index");
    return build_loop_make(ir, BL_OP_RANGE, BL_INDEX, 1, kind, number, 1, &extent);
}

const bl_node *bl_range_like(bl_ir *ir, const bl_node *range, bl_axis_kind kind, const bl_node *extent)
{
    return bl_range(ir, (int)range->arg, kind, extent);
}

/* Check the |n| operands of an access and the gate behind them, which may be NULL. Returns POISON for a bad access, else
 * NULL. */
static const bl_node *build_loop_check_access(bl_ir *ir, const char *what, uint32_t n, const bl_node *const *src)
{
    const bl_node *bad = first_poison(src[n] != NULL ? (int)n + 1 : (int)n, src), *index = src[1], *gate = src[n];

    if (bad != NULL)
        return bad;
    if (src[0]->op != BL_OP_BUFFER && src[0]->op != BL_OP_STAGE)
        return BUG(ir, "%s: %s is not a buffer", what, bl_op_name((bl_op)src[0]->op));
    if (!bl_dtype_is_int((bl_dtype)index->dtype))
        return BUG(ir, "%s: the index is %s", what, bl_dtype_name((bl_dtype)index->dtype));
    if (gate != NULL && (gate->dtype != BL_BOOL || (gate->lanes != 1 && gate->lanes != index->lanes)))
        return BUG(ir, "%s: the gate is %s in %d lanes, the index in %d", what, bl_dtype_name((bl_dtype)gate->dtype), gate->lanes,
                   index->lanes);
    return NULL;
}

const bl_node *bl_load(bl_ir *ir, const bl_node *buffer, const bl_node *index, const bl_node *gate)
{
    const bl_node *src[3] = {buffer, index, gate != NULL && bl_is_int(gate, 1) ? NULL : gate};
    const bl_node *bad = build_loop_check_access(ir, "load", 2, src);

    if (bad != NULL)
        return bad;
    if (gate != NULL && bl_is_int(gate, 0))
        return bl_const_int(ir, (bl_dtype)buffer->dtype, 0);
    return build_loop_make(ir, BL_OP_LOAD, (bl_dtype)buffer->dtype, index->lanes, 0, 0, src[2] != NULL ? 3 : 2, src);
}

const bl_node *bl_store(bl_ir *ir, const bl_node *buffer, const bl_node *index, const bl_node *value, const bl_node *gate)
{
    const bl_node *src[4] = {buffer, index, value, gate != NULL && bl_is_int(gate, 1) ? NULL : gate};
    const bl_node *bad = build_loop_check_access(ir, "store", 3, src);
    int lanes = index->lanes > value->lanes ? index->lanes : value->lanes;

    if (bad != NULL)
        return bad;
    if (value->dtype != buffer->dtype)
        return BUG(ir, "store: %s into a buffer of %s", bl_dtype_name((bl_dtype)value->dtype),
                   bl_dtype_name((bl_dtype)buffer->dtype));
    return build_loop_make(ir, BL_OP_STORE, (bl_dtype)buffer->dtype, lanes, 0, 0, src[3] != NULL ? 4 : 3, src);
}

const bl_node *bl_reduce_over(bl_ir *ir, bl_op fold, int nvalues, const bl_node *const *values, int nranges,
                              const bl_node *const *ranges)
{
    const bl_node *small[64];
    const bl_node **src = small;
    const bl_node *sum = first_poison(nvalues, values);
    size_t nsrc = (size_t)nvalues + (size_t)nranges;
    uint8_t lanes = 1;

    sum = sum != NULL ? sum : first_poison(nranges, ranges);
    if (sum != NULL)
        return sum;
    if (nvalues < 1 || !bl_op_folds(fold))
        return BUG(ir, "reduce: %d values folded by %s", nvalues, bl_op_name(fold));
    if (nranges == 0) {
        sum = values[0];
        for (int i = 1; i < nvalues; i++)
            sum = bl_alu2(ir, fold, sum, values[i]);
        return sum;
    }
    if (nsrc > sizeof small / sizeof small[0]) {
        src = bl_arena_array(ir->arena, nsrc, sizeof *src);
        if (src == NULL)
            return bl_ir_fail(ir, BL_ENOMEM, "reduce: out of host memory");
    }
    for (int i = 0; i < nvalues; i++) {
        if (values[i]->dtype != values[0]->dtype)
            return BUG(ir, "reduce: dtypes differ");
        lanes = values[i]->lanes > lanes ? values[i]->lanes : lanes;
        src[i] = values[i];
    }
    for (int i = 0; i < nranges; i++) {
        if (ranges[i]->op != BL_OP_RANGE)
            return BUG(ir, "reduce: %s is not a range", bl_op_name((bl_op)ranges[i]->op));
        src[nvalues + i] = ranges[i];
    }
    return build_loop_make(ir, BL_OP_REDUCE, (bl_dtype)values[0]->dtype, lanes, fold, nvalues, nsrc, src);
}

const bl_node *bl_stage_over(bl_ir *ir, unsigned kind, int nstores, const bl_node *const *stores, int nranges,
                             const bl_node *const *ranges)
{
    size_t n = (size_t)nstores + (size_t)nranges;
    const bl_node **src = bl_arena_array(ir->arena, n, sizeof *src), *bad = first_poison(nstores, stores);

    bad = bad != NULL ? bad : first_poison(nranges, ranges);
    if (bad != NULL)
        return bad;
    if (src == NULL)
        return bl_ir_fail(ir, BL_ENOMEM, "stage: out of host memory");
    for (int i = 0; i < nstores; i++) {
        if (stores[i]->op != BL_OP_STORE || stores[i]->src[0] != stores[0]->src[0] || stores[i]->src[0]->sub != 1)
            return BUG(ir, "stage: stores to one local buffer fill it");
        src[i] = stores[i];
    }
    for (int i = 0; i < nranges; i++) {
        if (ranges[i]->op != BL_OP_RANGE)
            return BUG(ir, "stage: %s is not a range", bl_op_name((bl_op)ranges[i]->op));
        src[nstores + i] = ranges[i];
    }
    return build_loop_make(ir, BL_OP_STAGE, (bl_dtype)stores[0]->dtype, 1, kind, nstores, n, src);
}

const bl_node *bl_running(bl_ir *ir, const bl_node *reduce, const bl_node *range, bool inclusive)
{
    const bl_node *src[2] = {reduce, range}, *bad = first_poison(2, src);

    if (bad != NULL)
        return bad;
    if (reduce->op != BL_OP_REDUCE || reduce->arg != 1 || reduce->nsrc != 2 || reduce->src[1] != range)
        return BUG(ir, "running: the operand is not a fold of one value over one range");
    return build_loop_make(ir, BL_OP_RUNNING, (bl_dtype)reduce->dtype, reduce->lanes, 0, inclusive, 2, src);
}

const bl_node *bl_rescaled(bl_ir *ir, const bl_node *value, const bl_node *factor)
{
    const bl_node *src[2] = {value, factor}, *bad = first_poison(2, src);

    if (bad != NULL)
        return bad;
    if (value->dtype != factor->dtype || !bl_dtype_is_float((bl_dtype)value->dtype))
        return BUG(ir, "rescaled: %s by %s", bl_dtype_name((bl_dtype)value->dtype), bl_dtype_name((bl_dtype)factor->dtype));
    return build_loop_make(ir, BL_OP_RESCALED, (bl_dtype)value->dtype,
                           value->lanes > factor->lanes ? value->lanes : factor->lanes, 0, 0, 2, src);
}

bool bl_binds_ranges(const bl_node *node)
{
    return node->op == BL_OP_STAGE || (node->op == BL_OP_REDUCE && node->ndim == 0);
}

bool bl_binds(const bl_node *node, const bl_node *range)
{
    for (uint32_t i = (uint32_t)node->arg; bl_binds_ranges(node) && i < node->nsrc; i++) {
        if (node->src[i] == range)
            return true;
    }
    return false;
}

const bl_node *bl_lane(bl_ir *ir, int64_t number, int lanes)
{
    if (lanes < 2 || lanes > BL_MAX_LANES)
        return BUG(ir, "lane: %d lanes", lanes);
    return build_loop_make(ir, BL_OP_LANE, BL_INDEX, lanes, 0, number, 0, NULL);
}

const bl_node *bl_extract(bl_ir *ir, const bl_node *vector, int lane)
{
    if (bl_is_poison(vector))
        return vector;
    if (lane < 0 || lane >= vector->lanes || vector->lanes < 2)
        return BUG(ir, "extract: lane %d of %d", lane, vector->lanes);
    return build_loop_make(ir, BL_OP_EXTRACT, (bl_dtype)vector->dtype, 1, 0, lane, 1, &vector);
}

const bl_node *bl_stack(bl_ir *ir, int lanes, const bl_node *const *scalars)
{
    const bl_node *bad = NULL;

    if (lanes < 2 || lanes > BL_MAX_LANES)
        return BUG(ir, "stack: %d lanes", lanes);
    bad = first_poison(lanes, scalars);
    if (bad != NULL)
        return bad;
    for (int i = 0; i < lanes; i++) {
        if (scalars[i]->dtype != scalars[0]->dtype || scalars[i]->lanes != 1)
            return BUG(ir, "stack: takes scalars of one dtype");
    }
    return build_loop_make(ir, BL_OP_STACK, (bl_dtype)scalars[0]->dtype, lanes, 0, 0, (size_t)lanes, scalars);
}

const bl_node *bl_fold(bl_ir *ir, bl_op fold, const bl_node *vector)
{
    if (bl_is_poison(vector))
        return vector;
    if (!bl_op_folds(fold))
        return BUG(ir, "fold: cannot fold by %s", bl_op_name(fold));
    if (vector->lanes == 1)
        return vector;
    return build_loop_make(ir, BL_OP_FOLD, (bl_dtype)vector->dtype, 1, fold, 0, 1, &vector);
}

const bl_node *bl_sink(bl_ir *ir, int n, const bl_node *const *stores)
{
    const bl_node *bad = first_poison(n, stores);

    if (bad != NULL)
        return bad;
    for (int i = 0; i < n; i++) {
        if (stores[i]->op != BL_OP_STORE)
            return BUG(ir, "sink: %s is not a store", bl_op_name((bl_op)stores[i]->op));
    }
    return build_loop_make(ir, BL_OP_SINK, BL_BOOL, 1, 0, 0, (size_t)n, stores);
}

/* Is |node| a float32 sum of products of float32 loads? */
static bool sums_products(const bl_node *node, const void *none)
{
    (void)none;
    bool any = false;

    if (node->op != BL_OP_REDUCE || node->sub != BL_OP_ADD || node->dtype != BL_F32)
        return false;
    for (int64_t i = 0; i < node->arg; i++) {
        const bl_node *value = node->src[i];
        any = any || (value->op == BL_OP_MUL && value->src[0]->op == BL_OP_LOAD && value->src[1]->op == BL_OP_LOAD);
    }
    return any;
}

const bl_node *bl_sink_relax(bl_ir *ir, const bl_node *sink)
{
    bl_node relaxed = *sink;

    relaxed.sub = BL_PRECISION_HIGH;
    return bl_find(ir, 1, &sink, sums_products, NULL) != NULL ? bl_node_make(ir, &relaxed) : sink;
}
