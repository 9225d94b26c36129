/* SPDX-License-Identifier: MIT */
#include "engine/ir/verify.h"

#include "engine/ir/matrix_unit.h"
#include "engine/ir/private.h"
#include "engine/ir/scan.h"
#include "engine/ir/shape.h"
#include "engine/ir/stage.h"
#include "engine/ir/winograd_transforms.h"

#include <string.h>

/* Each check returns NULL, or what is wrong with the node. */

static bool is_scalar_int(const bl_node *node)
{
    return node->ndim == 0 && bl_dtype_is_int((bl_dtype)node->dtype);
}

/* The allowed number of sources of a node. */
static void count_sources(const bl_node *node, uint32_t *fewest, uint32_t *most)
{
    int exact = bl_op_sources((bl_op)node->op);

    *fewest = exact >= 0 ? (uint32_t)exact : 1;
    if (node->op == BL_OP_PAD || node->op == BL_OP_SHRINK)
        *fewest = (uint32_t)node->ndim + 1;
    else if (node->op == BL_OP_LOAD || node->op == BL_OP_STORE)
        *fewest = node->op == BL_OP_LOAD ? 2 : 3;
    else if (node->op == BL_OP_STACK)
        *fewest = node->lanes;
    *most = *fewest;
    if (node->op == BL_OP_LOAD || node->op == BL_OP_STORE)
        *most = *fewest + 1; /* a gate */
    else if (node->op == BL_OP_PARTIALS)
        *most = 2 * BL_MAX_PARTIALS;
    else if (node->op == BL_OP_SINK || node->op == BL_OP_SCAN || bl_binds_ranges(node))
        *most = UINT32_MAX;
}

/* Is it a node that a LOAD reads or a STORE writes? */
static bool is_memory(const bl_node *node)
{
    return node->op == BL_OP_BUFFER || node->op == BL_OP_STAGE || node->op == BL_OP_MATRIX;
}

static const char *check_frame(const bl_node *node)
{
    uint32_t fewest = 0, most = 0;

    if (node->op >= BL_OP_COUNT || node->dtype >= BL_DTYPE_COUNT)
        return "no such op or dtype";
    if (node->op == BL_OP_POISON)
        return "poison";
    if (node->lanes < 1 || node->lanes > BL_MAX_LANES || (node->lanes > 1 && node->ndim > 0))
        return "lanes";
    if (node->ndim > BL_MAX_DIMS)
        return "too many dimensions";
    count_sources(node, &fewest, &most);
    if (node->nsrc < fewest || node->nsrc > most)
        return "number of sources";
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (node->src[i]->id >= node->id)
            return "a source is younger than its user";
        if (bl_is_poison(node->src[i]))
            return "a source is poison";
        if (node->src[i]->op == BL_OP_SINK ||
            (node->src[i]->op == BL_OP_STORE && node->op != BL_OP_SINK && node->op != BL_OP_STAGE))
            return "a source has no value";
        if (node->src[i]->op == BL_OP_RESCALED && (node->op != BL_OP_REDUCE || node->sub != BL_OP_ADD))
            return "only a sum rescales";
        if (is_memory(node->src[i]) && (i != 0 || (node->op != BL_OP_LOAD && node->op != BL_OP_STORE)))
            return "a buffer is no value";
    }
    for (int i = 0; i < node->ndim; i++) {
        const bl_node *dim = node->dim[i];
        if (dim->id >= node->id)
            return "an extent is younger than its user";
        if (dim->dtype != BL_INDEX || dim->ndim != 0 || dim->hi < 0 || dim->lanes != 1 || !bl_extent_is_simple(dim))
            return "an extent is no size";
    }
    return NULL;
}

static const char *check_alu(const bl_node *node)
{
    bl_dtype from[3] = {BL_BOOL, BL_BOOL, BL_BOOL};
    const char *wrong = NULL;

    for (uint32_t i = 0; i < node->nsrc; i++)
        from[i] = (bl_dtype)node->src[i]->dtype;
    wrong = bl_alu_wrong((bl_op)node->op, (bl_dtype)node->dtype, from);
    if (wrong != NULL)
        return wrong;
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (!bl_shape_equal(node, node->src[i]))
            return "shapes differ";
        if (node->src[i]->lanes != 1 && node->src[i]->lanes != node->lanes)
            return "lanes differ";
    }
    return bl_node_lanes(node, node->src) == node->lanes ? NULL : "lanes of the result";
}

static const char *check_leaf(const bl_node *node)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    bl_scalar value = {.i = node->arg};

    switch (node->op) {
    case BL_OP_CONST:
        if (node->ndim != 0 || node->lanes != 1)
            return "a constant is a scalar";
        return bl_scalar_fit(dtype, value).i == value.i || (bl_dtype_is_float(dtype) && value.f != value.f)
                   ? NULL
                   : "a value that the dtype cannot hold";
    case BL_OP_VAR:
        return is_scalar_int(node) && node->lanes == 1 && node->lo <= node->hi && node->arg >= 0 ? NULL : "no named dimension";
    case BL_OP_IOTA:
        return node->ndim == 1 && dtype != BL_BOOL ? NULL : "shape or dtype";
    default:
        return node->arg >= 0 ? NULL : "a negative slot"; /* INPUT */
    }
}

static const char *check_permute(const bl_node *node)
{
    uint32_t seen = 0;

    if (node->src[0]->ndim != node->ndim)
        return "dimensions";
    for (int i = 0; i < node->ndim; i++)
        seen |= 1U << bl_perm_get(node->arg, i);
    return seen + 1 == 1U << node->ndim ? NULL : "no permutation";
}

static const char *check_move(bl_ir *ir, const bl_node *node)
{
    const bl_node *x = node->src[0];

    if (x->dtype != node->dtype || x->lanes != 1)
        return "dtype";
    for (uint32_t i = 1; i < node->nsrc; i++) {
        if (node->src[i]->dtype != BL_INDEX || node->src[i]->ndim != 0 || bl_may_be_negative(ir, node->src[i]))
            return "an amount is no size";
    }
    switch (node->op) {
    case BL_OP_PERMUTE:
        return check_permute(node);
    case BL_OP_EXPAND:
        return x->ndim <= node->ndim ? NULL : "dimensions";
    case BL_OP_FLIP:
        return bl_shape_equal(node, x) && (uint64_t)node->arg >> node->ndim == 0 ? NULL : "shape or axes";
    case BL_OP_WINDOW:
        return x->ndim + 1 == node->ndim ? NULL : "dimensions";
    case BL_OP_RESHAPE:
        return NULL;
    default:
        return x->ndim == node->ndim ? NULL : "dimensions"; /* PAD, SHRINK */
    }
}

static const char *check_reduce(const bl_node *node)
{
    const bl_node *x = node->src[0];

    if (!bl_op_folds((bl_op)node->sub) || x->dtype != node->dtype)
        return "fold or dtype";
    if (node->ndim > 0) {
        if (x->ndim != node->ndim || node->arg <= 0 || node->arg >> node->ndim != 0)
            return "axes";
        for (int i = 0; i < node->ndim; i++) {
            if ((node->arg >> i & 1) != 0 ? !bl_is_int(node->dim[i], 1) : node->dim[i] != x->dim[i])
                return "shape";
        }
        return NULL;
    }
    if (node->arg < 1 || node->arg >= node->nsrc)
        return "number of values";
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (i < node->arg ? node->src[i]->dtype != node->dtype || node->src[i]->ndim != 0 : node->src[i]->op != BL_OP_RANGE)
            return i < node->arg ? "dtypes differ" : "folds over what is no range";
    }
    return NULL;
}

static const char *check_correlate(const bl_node *node)
{
    const bl_node *x = node->src[0], *w = node->src[1];
    bl_correlation c = bl_correlation_unpack(node->arg);

    if (w->dtype != node->dtype || x->ndim != 4 || w->ndim != 4 || node->ndim != 4 || x->dim[1] != w->dim[1])
        return "weight";
    if (node->dim[0] != x->dim[0] || node->dim[1] != w->dim[0])
        return "channels";
    for (int i = 0; i < 2; i++) {
        int64_t extent = x->dim[2 + i]->lo + c.before[i] + c.after[i] - 2;
        if (!bl_is_int(w->dim[2 + i], 3) || !bl_is_int(node->dim[2 + i], extent))
            return "shape";
    }
    return c.tile == 2 || c.tile == 4 ? NULL : "tile";
}

static const char *check_unwindow(const bl_node *node)
{
    const bl_node *x = node->src[0];
    int axis = 0;
    int64_t stride = 0, dilation = 0;

    bl_window_get(node->arg, &axis, &stride, &dilation);
    if (x->ndim != node->ndim + 1 || axis >= node->ndim || !bl_is_const(x->dim[node->ndim]))
        return "dimensions";
    for (int i = 0; i < node->ndim; i++) {
        if (i != axis && x->dim[i] != node->dim[i])
            return "shape";
    }
    return NULL;
}

static const char *check_partials(const bl_node *node)
{
    if (node->nsrc % 2 != 0)
        return "an x without its partial derivative";
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (node->src[i]->dtype != node->dtype || !bl_shape_equal(node, node->src[i]))
            return "dtype or shape";
    }
    return NULL;
}

static const char *check_tensor(const bl_node *node)
{
    const bl_node *x = node->src[0];

    if (x->dtype != node->dtype || x->lanes != 1)
        return "dtype";
    if (node->op == BL_OP_CORRELATE)
        return check_correlate(node);
    if (node->op == BL_OP_UNWINDOW)
        return check_unwindow(node);
    if (node->op == BL_OP_PARTIALS)
        return check_partials(node);
    if (node->op != BL_OP_GATHER)
        return bl_shape_equal(node, x) ? NULL : "shape";
    if (!bl_dtype_is_int((bl_dtype)node->src[1]->dtype) || node->arg < 0 || node->arg >= node->ndim || x->ndim != node->ndim)
        return "axis or index";
    return bl_shape_equal(node, node->src[1]) ? NULL : "shape";
}

static bool same_type(const bl_node *a, const bl_node *b)
{
    return a->dtype == b->dtype && bl_shape_equal(a, b);
}

static const char *check_scan(const bl_ir *ir, const bl_node *node)
{
    const bl_scan *scan = NULL;

    if (node->arg < 0 || node->arg >= ir->nscans)
        return "no such body";
    scan = bl_scan_get(ir, node);
    if (node->nsrc != (uint32_t)bl_scan_sources(scan) || scan->length->lo < 0 || bl_is_int(scan->length, 0))
        return "number of sources or steps";
    for (int i = 0; i < scan->ncarries; i++) {
        if (!same_type(scan->root[i], node->src[i]))
            return "a carry changes its dtype or shape";
    }
    for (int i = scan->ncarries; i < scan->ncarries + scan->nsequences; i++) {
        if (node->src[i]->ndim < 1 || node->src[i]->dim[0] != scan->length)
            return "a sequence is not as long as there are steps";
    }
    return NULL;
}

static const char *check_result(bl_ir *ir, const bl_node *node)
{
    const bl_node *scan = node->src[0];
    if (scan->op != BL_OP_SCAN || node->arg < 0 || node->arg >= bl_scan_results(bl_scan_get(ir, scan)))
        return "no result of a scan";
    return bl_scan_result(ir, scan, (int)node->arg) == node ? NULL : "not the dtype and shape of the result";
}

static const char *check_access(const bl_node *node)
{
    uint32_t gate = node->op == BL_OP_LOAD ? 2 : 3;
    uint32_t lanes = node->lanes;

    if (node->src[0]->op != BL_OP_BUFFER && (!is_memory(node->src[0]) || node->op == BL_OP_STORE))
        return "no buffer";
    if (node->src[0]->dtype != node->dtype)
        return "no buffer of the dtype";
    if (!is_scalar_int(node->src[1]) || (node->src[1]->lanes != 1 && node->src[1]->lanes != lanes))
        return "index";
    if (node->src[0]->op == BL_OP_STAGE && node->nsrc <= gate && node->src[1]->hi >= bl_stage_elements(node->src[0]))
        return "reads behind what its stage holds";
    if (node->op == BL_OP_STORE) {
        const bl_node *value = node->src[2];
        if (value->dtype != node->dtype || value->ndim != 0 || (value->lanes != 1 && value->lanes != lanes))
            return "value";
    }
    if (node->nsrc > gate) {
        const bl_node *x = node->src[gate];
        if (x->dtype != BL_BOOL || x->ndim != 0 || (x->lanes != 1 && x->lanes != lanes))
            return "gate";
    }
    return NULL;
}

static const char *check_matrix(const bl_node *node)
{
    bl_matrix matrix = bl_matrix_unpack(node->arg);
    const bl_node *sum = node->src[0], *rows = node->src[1], *columns = node->src[2], *loads[2];
    int64_t depth = 0;

    if (!bl_matrix_is_valid(matrix) || matrix.split || node->dtype != matrix.to || node->lanes != 1)
        return "no shape of a matrix unit, or not its dtype";
    if (rows->op != BL_OP_RANGE || rows->hi != matrix.m - 1 || columns->op != BL_OP_RANGE || columns->hi != matrix.n - 1)
        return "rows or columns";
    if (sum->op != BL_OP_REDUCE || sum->sub != BL_OP_ADD)
        return "no sum";
    for (uint32_t i = 0; i < sum->nsrc; i++) {
        if (i < sum->arg && !bl_matrix_product(sum->src[i], matrix, loads))
            return "no sum of products";
        if (i >= sum->arg && sum->src[i]->sub == BL_AXIS_MATRIX)
            depth += sum->src[i]->hi + 1;
    }
    return depth == matrix.k ? NULL : "depth";
}

/* Check a STAGE: stores to one local buffer, then the ranges they run over. */
static const char *check_filled(const bl_node *node)
{
    if (node->arg < 1 || node->arg > node->nsrc || node->lanes != 1)
        return "number of stores, or lanes";
    if (BL_STAGE_FOLDS(node) ? !bl_op_folds((bl_op)node->sub)
                             : (node->sub & ~(BL_STAGE_SHARED | BL_STAGE_DOUBLE | BL_STAGE_NARROW)) != 0 ||
                                   (node->sub != BL_STAGE_FILLS && (node->sub & BL_STAGE_SHARED) == 0))
        return "fold, or kind of stage";
    for (uint32_t i = 0; i < node->nsrc; i++) {
        const bl_node *src = node->src[i];
        if (i >= node->arg && src->op != BL_OP_RANGE)
            return "is filled over what is no range";
        if (i < node->arg &&
            (src->op != BL_OP_STORE || src->src[0] != node->src[0]->src[0] || src->src[0]->sub != 1 || src->dtype != node->dtype))
            return "takes stores to one local buffer";
    }
    return NULL;
}

/* Check a RUNNING: the reduction must be over exactly one RANGE. */
static const char *check_running(const bl_node *node)
{
    const bl_node *fold = node->src[0];

    if (fold->op != BL_OP_REDUCE || fold->arg != 1 || fold->nsrc != 2 || fold->src[1] != node->src[1])
        return "no fold of one value over that range";
    return fold->dtype == node->dtype && fold->lanes == node->lanes && (node->arg | 1) == 1 ? NULL : "dtype, lanes or kind";
}

static const char *check_loop(const bl_node *node)
{
    if (node->ndim != 0)
        return "a loop nest has no tensors";
    switch (node->op) {
    case BL_OP_RANGE:
        return is_scalar_int(node->src[0]) && node->src[0]->dtype == node->dtype && node->lanes == 1 &&
                       node->src[0]->lanes == 1 && node->sub <= BL_AXIS_MATRIX
                   ? NULL
                   : "extent or kind";
    case BL_OP_LOAD:
    case BL_OP_STORE:
        return check_access(node);
    case BL_OP_LANE:
        return is_scalar_int(node) && node->lanes > 1 ? NULL : "lanes or dtype";
    case BL_OP_EXTRACT:
        return node->src[0]->dtype == node->dtype && node->lanes == 1 && node->arg >= 0 && node->arg < node->src[0]->lanes
                   ? NULL
                   : "lane or dtype";
    case BL_OP_STACK:
        for (uint32_t i = 0; i < node->nsrc; i++) {
            if (node->src[i]->dtype != node->dtype || node->src[i]->lanes != 1 || node->src[i]->ndim != 0)
                return "takes scalars of one dtype";
        }
        return node->lanes > 1 ? NULL : "lanes";
    case BL_OP_FOLD:
        return bl_op_folds((bl_op)node->sub) && node->src[0]->dtype == node->dtype && node->src[0]->lanes > 1 && node->lanes == 1
                   ? NULL
                   : "fold, dtype or lanes";
    case BL_OP_MATRIX:
        return check_matrix(node);
    case BL_OP_FRAGMENT_LOAD:
        return "made by lowering only";
    case BL_OP_SINK:
        for (uint32_t i = 0; i < node->nsrc; i++) {
            if (node->src[i]->op != BL_OP_STORE)
                return "takes stores";
        }
        return node->sub <= BL_PRECISION_HIGH ? NULL : "precision";
    case BL_OP_STAGE:
        return check_filled(node);
    case BL_OP_RUNNING:
        return check_running(node);
    case BL_OP_RESCALED:
        return node->src[0]->dtype == node->dtype && node->src[1]->dtype == node->dtype ? NULL : "dtypes";
    default:
        return node->lanes == 1 && node->sub <= 1 && node->arg >= 0 ? NULL : "buffer"; /* BUFFER */
    }
}

static const char *check_class(bl_ir *ir, const bl_node *node)
{
    switch (bl_op_get_class((bl_op)node->op)) {
    case BL_CLASS_LEAF:
        return check_leaf(node);
    case BL_CLASS_ALU:
        return check_alu(node);
    case BL_CLASS_MOVE:
        return check_move(ir, node);
    case BL_CLASS_REDUCE:
        return check_reduce(node);
    case BL_CLASS_TENSOR:
        return check_tensor(node);
    case BL_CLASS_LOOP:
        return check_loop(node);
    case BL_CLASS_INST:
        break;
    }
    return "only a linear kernel has this";
}

/* Build the node again from its sources, to compare shapes. NULL if no builder infers its shape. */
static const bl_node *build_again(bl_ir *ir, const bl_node *node)
{
    const bl_node *x = node->nsrc > 0 ? node->src[0] : NULL;
    const bl_node *after[BL_MAX_DIMS];
    int perm[BL_MAX_DIMS];
    int axis = 0;
    int64_t stride = 0;
    int64_t dilation = 0;

    switch (node->op) {
    case BL_OP_RESHAPE:
        return bl_reshape(ir, x, node->ndim, node->dim);
    case BL_OP_EXPAND:
        return bl_expand(ir, x, node->ndim, node->dim);
    case BL_OP_SHRINK:
        return bl_shrink(ir, x, node->src + 1, node->dim);
    case BL_OP_GATHER:
        return bl_gather(ir, x, node->src[1], (int)node->arg);
    case BL_OP_PERMUTE:
        for (int i = 0; i < node->ndim; i++)
            perm[i] = bl_perm_get(node->arg, i);
        return bl_permute(ir, x, perm);
    case BL_OP_PAD:
        for (int i = 0; i < node->ndim; i++)
            after[i] = bl_sub(ir, node->dim[i], bl_add(ir, node->src[i + 1], x->dim[i]));
        return bl_pad(ir, x, node->src + 1, after);
    case BL_OP_WINDOW:
        bl_window_get(node->arg, &axis, &stride, &dilation);
        if (!bl_is_const(node->dim[node->ndim - 1]))
            return bl_poison(ir);
        return bl_window(ir, x, axis, node->dim[node->ndim - 1]->arg, stride, dilation);
    default:
        return NULL;
    }
}

static const char *check_inferred(bl_ir *ir, const bl_node *node)
{
    bl_node again = *node;
    bl_err before = ir->err; /* an error of a builder must not become the status of the ir */
    const bl_node *built = build_again(ir, node);

    ir->err = before;
    if (built != NULL && (bl_is_poison(built) || !bl_shape_equal(built, node) || built->dtype != node->dtype))
        return "the shape is not what its builder infers";
    bl_node_set_bounds(&again);
    return again.lo == node->lo && again.hi == node->hi ? NULL : "bounds";
}

static const char *check_stage(const bl_node *node, bl_stage stage)
{
    bl_op_class cls = bl_op_get_class((bl_op)node->op);

    if (stage == BL_STAGE_TENSOR)
        return cls == BL_CLASS_LOOP || node->lanes > 1 || (node->op == BL_OP_REDUCE && node->ndim == 0)
                   ? "a loop nest in a tensor graph"
                   : NULL;
    return cls == BL_CLASS_MOVE || cls == BL_CLASS_TENSOR || node->op == BL_OP_INPUT || node->ndim > 0 ? "a tensor in a loop nest"
                                                                                                       : NULL;
}

/* Check a leaf of a body: a BOUND must have the type that its scan gives it. */
static const char *check_bound(const bl_ir *ir, const bl_node *node, const bl_node *scan)
{
    const bl_scan *body = scan == NULL ? NULL : bl_scan_get(ir, scan);
    const bl_node *from = NULL;
    bool slice = false;

    if (node->op == BL_OP_INPUT)
        return scan == NULL ? NULL : "an input in the body of a scan";
    if (node->op != BL_OP_BOUND)
        return NULL;
    if (scan == NULL || node->arg < 0 || node->arg >= scan->nsrc)
        return "a parameter of no scan";
    from = scan->src[node->arg];
    slice = node->arg >= body->ncarries && node->arg < body->ncarries + body->nsequences;
    if (from->dtype != node->dtype || from->ndim != node->ndim + slice)
        return "not the dtype and rank of what it is given";
    for (int i = 0; i < node->ndim; i++) {
        if (from->dim[i + slice] != node->dim[i])
            return "not the shape of what it is given";
    }
    return NULL;
}

/* Verify |roots|, which are the roots of the body of |scan| if that is not NULL. */
static bl_status verify(bl_ir *ir, int nroots, const bl_node *const *roots, const bl_node *scan, bl_stage stage, const char *pass,
                        int level, bl_err *err)
{
    bl_nodes nodes;

    BL_TRY(bl_ir_status(ir, err));
    nodes = bl_reach(ir, nroots, roots, true);
    BL_TRY(bl_ir_status(ir, err));
    for (size_t i = 0; i < nodes.count; i++) {
        const bl_node *node = nodes.at[i];
        const char *wrong = check_frame(node);

        if (wrong == NULL)
            wrong = node->op == BL_OP_SCAN     ? check_scan(ir, node)
                    : node->op == BL_OP_RESULT ? check_result(ir, node)
                                               : check_class(ir, node);
        if (wrong == NULL && level >= 2)
            wrong = check_inferred(ir, node);
        wrong = wrong != NULL ? wrong : check_stage(node, stage);
        wrong = wrong != NULL ? wrong : check_bound(ir, node, scan);
        if (wrong != NULL)
            return bl_fail(err, BL_EBUG, "after %s: node %u, %s %s: %s", pass, (unsigned)node->id, bl_op_name((bl_op)node->op),
                           node->dtype < BL_DTYPE_COUNT ? bl_node_text(ir, node) : "?", wrong);
        if (node->op == BL_OP_SCAN) {
            const bl_scan *body = bl_scan_get(ir, node);
            BL_TRY(verify(ir, body->ncarries + body->nys, body->root, node, stage, pass, level, err));
        }
    }
    return bl_ir_status(ir, err);
}

bl_status bl_ir_verify(bl_ir *ir, int nroots, const bl_node *const *roots, bl_stage stage, const char *pass, int level,
                       bl_err *err)
{
    return verify(ir, nroots, roots, NULL, stage, pass, level, err);
}
