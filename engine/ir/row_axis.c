/* SPDX-License-Identifier: MIT */
/* The analysis assigns each node the axis of its rows, in topological order. For r rows the extent of that axis is r * n: row i
 * has the positions from i * n on, so a row axis that was merged with later axes still separates the rows. A node without a row
 * axis is the same for all rows; none of its extents may depend on the number of rows. */
#include "engine/ir/row_axis.h"

#include "engine/base/map.h"
#include "engine/ir/scan.h"
#include "engine/ir/shape.h"

enum { MIXED = -2, NONE = -1 }; /* rows are combined; there is no row axis */

typedef struct walk {
    bl_ir *ir;
    int var, ninputs;
    const int *bound; /* in a body: the axis of each BOUND; NULL outside a body */
    bl_ptrmap axes;   /* node -> its axis; for a SCAN, the axes of its results */
} walk;

/* ---- extents */

static bool has_var(const walk *w, const bl_node *extent)
{
    if (extent->op == BL_OP_VAR)
        return extent->arg == w->var;
    for (uint32_t i = 0; i < extent->nsrc; i++)
        if (has_var(w, extent->src[i]))
            return true;
    return false;
}

/* Is |extent| the number of rows times an expression without it? */
static bool is_rows(const walk *w, const bl_node *extent)
{
    if (extent->op == BL_OP_VAR)
        return extent->arg == w->var;
    if (extent->op != BL_OP_MUL)
        return false;
    return (is_rows(w, extent->src[0]) && !has_var(w, extent->src[1])) ||
           (is_rows(w, extent->src[1]) && !has_var(w, extent->src[0]));
}

/* The only axis of |node| whose extent depends on the number of rows; NONE if there is none, MIXED if the shape is not
 * possible. */
static int axis_of_shape(const walk *w, const bl_node *node)
{
    int axis = NONE;
    for (int i = 0; i < node->ndim; i++) {
        if (!has_var(w, node->dim[i]))
            continue;
        if (axis != NONE || !is_rows(w, node->dim[i]))
            return MIXED;
        axis = i;
    }
    return axis;
}

/* ---- nodes; the walk ends at the first that is MIXED, so no source is */

static int axis_of(const walk *w, const bl_node *node)
{
    const int *axis = bl_ptrmap_get(&w->axes, node);
    return axis != NULL ? *axis : MIXED;
}

/* The common row axis of all sources that have one. */
static int common_axis(const walk *w, const bl_node *node)
{
    int axis = NONE;
    for (uint32_t i = 0; i < node->nsrc; i++) {
        int one = axis_of(w, node->src[i]);
        if (axis != NONE && one != NONE && one != axis)
            return MIXED;
        axis = one != NONE ? one : axis;
    }
    return axis;
}

/* A reshape keeps the row axis if the number of elements before it does not change; the elements after it then match too. */
static int through_reshape(const walk *w, const bl_node *node)
{
    const bl_node *from = node->src[0];
    int axis = axis_of(w, from), to = axis_of_shape(w, node);
    if (axis == NONE || to < 0)
        return to;
    return bl_shape_count(w->ir, axis, from->dim) == bl_shape_count(w->ir, to, node->dim) ? to : MIXED;
}

/* Broadcasting a value without rows gives it a row axis. */
static int through_expand(const walk *w, const bl_node *node)
{
    const bl_node *from = node->src[0];
    int axis = axis_of(w, from), to = axis + node->ndim - from->ndim;
    if (axis == NONE)
        return axis_of_shape(w, node);
    return from->dim[axis] == node->dim[to] ? to : MIXED;
}

static int through_permute(const walk *w, const bl_node *node)
{
    int axis = axis_of(w, node->src[0]);
    for (int i = 0; axis >= 0 && i < node->ndim; i++)
        if (bl_perm_get(node->arg, i) == axis)
            return i;
    return axis;
}

/* A PAD or SHRINK must not shift or cut the row axis. */
static int through_box(const walk *w, const bl_node *node)
{
    int axis = axis_of(w, node->src[0]);
    if (axis == NONE)
        return NONE;
    return bl_is_int(node->src[1 + axis], 0) && node->dim[axis] == node->src[0]->dim[axis] ? axis : MIXED;
}

static int through_window(const walk *w, const bl_node *node)
{
    int axis = axis_of(w, node->src[0]), along = 0;
    int64_t stride = 0, dilation = 0;
    bl_window_get(node->arg, &along, &stride, &dilation);
    return axis == along ? MIXED : axis;
}

static int through_axes(const walk *w, const bl_node *node)
{
    int axis = axis_of(w, node->src[0]);
    return axis >= 0 && (node->arg >> axis & 1) != 0 ? MIXED : axis;
}

/* Each row looks up in a table that all rows share, or in itself. */
static int through_gather(const walk *w, const bl_node *node)
{
    int from = axis_of(w, node->src[0]), index = axis_of(w, node->src[1]);
    return from == NONE || (index == from && node->arg != from) ? index : MIXED;
}

/* ---- loops */

static bool row_axis_walk_all(walk *w, int nroots, const bl_node *const *roots);

/* The axis of source |which| inside the body: a slice of a sequence lacks the first axis. */
static int axis_of_bound(const walk *w, const bl_node *node, const bl_scan *scan, int which)
{
    int axis = axis_of(w, node->src[which]);
    if (axis == NONE || !bl_scan_is_sequence(scan, which))
        return axis;
    return axis > 0 ? axis - 1 : MIXED;
}

/* The axes of the results. A carry must keep its initial row axis in every step; a stacked output has one more axis in
 * front. */
static const int *through_scan(const walk *w, const bl_node *node)
{
    const bl_scan *scan = bl_scan_get(w->ir, node);
    bl_arena *arena = bl_ir_arena(w->ir);
    int n = bl_scan_sources(scan), results = bl_scan_results(scan), nroots = scan->ncarries + scan->nys;
    int *bound = bl_arena_array(arena, (size_t)n + 1, sizeof *bound),
        *out = bl_arena_array(arena, (size_t)results + 1, sizeof *out);
    walk body = {.ir = w->ir, .var = w->var, .bound = bound};
    if (bound == NULL || out == NULL || has_var(w, scan->length))
        return NULL;
    for (int i = 0; i < n; i++) {
        bound[i] = axis_of_bound(w, node, scan, i);
        if (bound[i] == MIXED)
            return NULL;
    }
    if (!row_axis_walk_all(&body, nroots, scan->root))
        return NULL;
    for (int i = 0; i < nroots; i++) {
        int axis = axis_of(&body, scan->root[i]);
        if (i < scan->ncarries && axis != bound[i])
            return NULL;
        out[i] = i >= scan->ncarries && axis >= 0 ? axis + 1 : axis;
    }
    for (int i = 0; i < scan->ncarries; i++)
        out[nroots + i] = bound[i] >= 0 ? bound[i] + 1 : bound[i];
    for (int i = bl_scan_first_odd(scan); i < results; i++)
        out[i] = bound[i - bl_scan_first_odd(scan)];
    return out;
}

static int axis_of_result(const walk *w, const bl_node *node)
{
    const int *axes = bl_ptrmap_get(&w->axes, node->src[0]);
    return axes != NULL ? axes[node->arg] : MIXED;
}

/* ---- all of them */

static int axis_of_tensor(const walk *w, const bl_node *node)
{
    switch ((int)node->op) {
    case BL_OP_CONST:
    case BL_OP_IOTA: /* an IOTA along the rows would number them: then its shape has a row axis, and give_axis fails */
        return NONE;
    case BL_OP_VAR:
        return node->arg == w->var ? MIXED : NONE;
    case BL_OP_INPUT:
        return node->arg < w->ninputs ? 0 : NONE;
    case BL_OP_BOUND:
        return w->bound != NULL ? w->bound[node->arg] : MIXED;
    case BL_OP_RESHAPE:
        return through_reshape(w, node);
    case BL_OP_PERMUTE:
        return through_permute(w, node);
    case BL_OP_EXPAND:
        return through_expand(w, node);
    case BL_OP_PAD:
    case BL_OP_SHRINK:
        return through_box(w, node);
    case BL_OP_FLIP:
    case BL_OP_REDUCE:
        return through_axes(w, node);
    case BL_OP_WINDOW:
        return through_window(w, node);
    case BL_OP_GATHER:
        return through_gather(w, node);
    case BL_OP_DETACH:
    case BL_OP_CONTIGUOUS:
        return axis_of(w, node->src[0]);
    case BL_OP_RESULT:
        return axis_of_result(w, node);
    default:
        return bl_op_get_class((bl_op)node->op) == BL_CLASS_ALU ? common_axis(w, node) : MIXED;
    }
}

/* The axis from the op must equal the axis from the shape. */
static bool give_axis(walk *w, const bl_node *node)
{
    int *axis = bl_arena_alloc(bl_ir_arena(w->ir), sizeof *axis);
    if (axis == NULL)
        return false;
    *axis = axis_of_tensor(w, node);
    if (*axis == MIXED || *axis != axis_of_shape(w, node))
        return false;
    bl_ptrmap_put(&w->axes, node, axis);
    return true;
}

static bool row_axis_walk_all(walk *w, int nroots, const bl_node *const *roots)
{
    bl_nodes nodes = bl_reach(w->ir, nroots, roots, false);
    bl_ptrmap_init(&w->axes, bl_ir_arena(w->ir));
    for (size_t i = 0; i < nodes.count; i++) {
        const bl_node *node = nodes.at[i];
        const int *results = NULL;
        if (node->op != BL_OP_SCAN) {
            if (!give_axis(w, node))
                return false;
            continue;
        }
        results = through_scan(w, node);
        if (results == NULL)
            return false;
        bl_ptrmap_put(&w->axes, node, results);
    }
    return nodes.count > 0;
}

bool bl_rows_are_apart(bl_ir *ir, int var, int ninputs, int noutputs, const bl_node *const *outputs)
{
    walk w = {.ir = ir, .var = var, .ninputs = ninputs};
    if (noutputs == 0 || !row_axis_walk_all(&w, noutputs, outputs))
        return false;
    for (int i = 0; i < noutputs; i++)
        if (axis_of(&w, outputs[i]) != 0 || outputs[i]->dim[0]->op != BL_OP_VAR)
            return false;
    return true;
}
