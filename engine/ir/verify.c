/* SPDX-License-Identifier: MIT */
#include "engine/ir/verify.h"

#include "engine/ir/matrix_unit.h"
#include "engine/ir/private.h"
#include "engine/ir/scan.h"
#include "engine/ir/shape.h"
#include "engine/ir/stage.h"
#include "engine/ir/winograd_transforms.h"

/* ---- facts: what a row may demand of a node */

static bool verify_same_type(const bl_node *a, const bl_node *b)
{
    return a->dtype == b->dtype && bl_shape_equal(a, b);
}

static bool like_sources(const bl_node *node)
{
    bool all = true;
    for (uint32_t i = 0; i < node->nsrc; i++)
        all = all && node->src[i]->dtype == node->dtype;
    return all;
}

static bool of_scalars(const bl_node *node)
{
    bool all = true;
    for (uint32_t i = 0; i < node->nsrc; i++)
        all = all && node->src[i]->ndim == 0 && node->src[i]->lanes == 1;
    return all;
}

/* Are all sources but the first sizes: INDEX scalars that are not negative? */
static bool has_sizes(bl_ir *ir, const bl_node *node)
{
    bool all = true;
    for (uint32_t i = 1; i < node->nsrc; i++)
        all = all && node->src[i]->dtype == BL_INDEX && node->src[i]->ndim == 0 && !bl_may_be_negative(ir, node->src[i]);
    return all;
}

/* X(fact, does it hold for |node|, whose first source is |x|?, what to say if not) */
#define FACTS(X)                                                                                                                 \
    X(SCALAR, node->ndim == 0, "a tensor where a scalar is needed")                                                              \
    X(ONE_LANE, node->lanes == 1, "lanes: the result has several")                                                               \
    X(VECTOR, node->lanes > 1, "lanes: the result has only one")                                                                 \
    X(INTEGER, bl_dtype_is_int((bl_dtype)node->dtype), "dtype: no integer")                                                      \
    X(NO_BOOL, node->dtype != BL_BOOL, "dtype: bool")                                                                            \
    X(BOUNDED, node->lo <= node->hi, "bounds: no value between them")                                                            \
    X(NUMBERED, node->arg >= 0, "a negative number in arg")                                                                      \
    X(FOLDS, bl_op_folds((bl_op)node->sub), "no op that folds in sub")                                                           \
    X(ONE_AXIS, node->ndim == 1, "number of dimensions: not one")                                                                \
    X(LIKE_SOURCE, node->dtype == x->dtype, "dtype: not that of the source")                                                     \
    X(LIKE_SOURCES, like_sources(node), "dtypes differ")                                                                         \
    X(SAME_SHAPE, bl_shape_equal(node, x), "shape: not that of the source")                                                      \
    X(SAME_RANK, node->ndim == x->ndim, "number of dimensions: not that of the source")                                          \
    X(MORE_AXES, node->ndim >= x->ndim, "number of dimensions: less than the source has")                                        \
    X(ONE_AXIS_MORE, node->ndim == x->ndim + 1, "number of dimensions: not one more than the source has")                        \
    X(ONE_AXIS_LESS, node->ndim + 1 == x->ndim, "number of dimensions: not one less than the source has")                        \
    X(OF_ONE_LANE, x->lanes == 1, "lanes: the source has several")                                                               \
    X(OF_VECTOR, x->lanes > 1, "lanes: the source has only one")                                                                 \
    X(OF_SCALARS, of_scalars(node), "takes scalars")                                                                             \
    X(ARG_LANE, node->arg >= 0 && node->arg < x->lanes, "no such lane")                                                          \
    X(ARG_AXIS, node->arg >= 0 && node->arg < node->ndim, "no such axis")                                                        \
    X(ARG_AXES, (uint64_t)node->arg >> node->ndim == 0, "no such axes")                                                          \
    X(LOWERED, false, "made by lowering only")                                                                                   \
    X(SIZES, has_sizes(ir, node), "an amount is no size")                                                                        \
    X(PER_AXIS, node->nsrc == node->ndim + 1u, "number of sources: one, and one for each axis")                                  \
    X(PER_LANE, node->nsrc == node->lanes, "number of sources: one for each lane")

enum {
#define X(fact, holds, wrong) fact##_BIT,
    FACTS(X)
#undef X
};

enum {
#define X(fact, holds, wrong) fact = 1 << fact##_BIT,
    FACTS(X)
#undef X
};

/* Each check returns NULL, or a text that says what is wrong with the node. */
static const char *check_facts(bl_ir *ir, const bl_node *node, unsigned demanded)
{
    const bl_node *x = node->nsrc > 0 ? node->src[0] : node;

#define X(fact, holds, wrong)                                                                                                    \
    if ((demanded & fact) != 0 && !(holds))                                                                                      \
        return wrong;
    FACTS(X)
#undef X
    return NULL;
}

/* ---- checks of single ops, for what no fact says */

static const char *verify_check_const(const bl_node *node)
{
    bl_dtype dtype = (bl_dtype)node->dtype;
    bl_scalar value = {.i = node->arg};

    return bl_scalar_fit(dtype, value).i == value.i || (bl_dtype_is_float(dtype) && value.f != value.f)
               ? NULL
               : "a value that the dtype cannot hold";
}

static const char *verify_check_alu(const bl_node *node)
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

static const char *check_permute(const bl_node *node)
{
    uint32_t seen = 0;

    for (int i = 0; i < node->ndim; i++)
        seen |= 1U << bl_perm_get(node->arg, i);
    return seen + 1 == 1U << node->ndim ? NULL : "no permutation";
}

static const char *check_reduce(const bl_node *node)
{
    const bl_node *x = node->src[0];

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

static const char *check_gather(const bl_node *node)
{
    if (!bl_dtype_is_int((bl_dtype)node->src[1]->dtype))
        return "index";
    return bl_shape_equal(node, node->src[1]) ? NULL : "shape: not that of the index";
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
    if (axis >= node->ndim || !bl_is_const(x->dim[node->ndim]))
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
        if (!verify_same_type(node, node->src[i]))
            return "dtype or shape";
    }
    return NULL;
}

static const char *check_scan(bl_ir *ir, const bl_node *node)
{
    const bl_scan *scan = NULL;

    if (node->arg < 0 || node->arg >= ir->nscans)
        return "no such body";
    scan = bl_scan_get(ir, node);
    if (node->nsrc != (uint32_t)bl_scan_sources(scan) || scan->length->lo < 0 || bl_is_int(scan->length, 0))
        return "number of sources or steps";
    for (int i = 0; i < scan->ncarries; i++) {
        if (!verify_same_type(scan->root[i], node->src[i]))
            return "a carry changes its dtype or shape";
    }
    for (int i = scan->ncarries; i < scan->ncarries + scan->nsequences; i++) {
        if (node->src[i]->ndim < 1 || node->src[i]->dim[0] != scan->length)
            return "a sequence is not as long as there are steps";
    }
    return NULL;
}

static const char *verify_check_result(bl_ir *ir, const bl_node *node)
{
    const bl_node *scan = node->src[0];
    if (scan->op != BL_OP_SCAN || node->arg < 0 || node->arg >= bl_scan_results(bl_scan_get(ir, scan)))
        return "no result of a scan";
    return bl_scan_result(ir, scan, (int)node->arg) == node ? NULL : "not the dtype and shape of the result";
}

/* Is it a node that a LOAD reads or a STORE writes? */
static bool is_memory(const bl_node *node)
{
    return node->op == BL_OP_BUFFER || node->op == BL_OP_STAGE || node->op == BL_OP_MATRIX;
}

/* Does |x|, an operand of an access with |lanes| lanes, have one lane or as many? */
static bool is_operand_of(const bl_node *x, uint32_t lanes)
{
    return x->ndim == 0 && (x->lanes == 1 || x->lanes == lanes);
}

static const char *verify_check_access(const bl_node *node)
{
    const bl_node *memory = node->src[0], *index = node->src[1], *value = node->op == BL_OP_STORE ? node->src[2] : NULL;
    uint32_t number = value == NULL ? 2 : 3;
    const bl_node *gate = node->nsrc > number ? node->src[number] : NULL;

    if (memory->op != BL_OP_BUFFER && (!is_memory(memory) || value != NULL))
        return "no buffer";
    if (memory->dtype != node->dtype)
        return "no buffer of the dtype";
    if (!bl_dtype_is_int((bl_dtype)index->dtype) || !is_operand_of(index, node->lanes))
        return "index";
    if (memory->op == BL_OP_STAGE && gate == NULL && index->hi >= bl_stage_elements(memory))
        return "reads behind what its stage holds";
    if (value != NULL && (value->dtype != node->dtype || !is_operand_of(value, node->lanes)))
        return "value";
    return gate == NULL || (gate->dtype == BL_BOOL && is_operand_of(gate, node->lanes)) ? NULL : "gate";
}

static const char *check_matrix(const bl_node *node)
{
    bl_matrix matrix = bl_matrix_unpack(node->arg);
    const bl_node *sum = node->src[0], *rows = node->src[1], *columns = node->src[2], *loads[2];
    int64_t depth = 0;

    if (!bl_matrix_is_valid(matrix) || matrix.split || node->dtype != matrix.to)
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

/* Stores to one local buffer, then the ranges over which they run. */
static const char *check_filled(const bl_node *node)
{
    if (node->arg < 1 || node->arg > node->nsrc)
        return "number of stores";
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

static const char *check_sink(const bl_node *node)
{
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (node->src[i]->op != BL_OP_STORE)
            return "takes stores";
    }
    return NULL;
}

/* The reduction must be over exactly one RANGE. */
static const char *check_running(const bl_node *node)
{
    const bl_node *fold = node->src[0];

    if (fold->op != BL_OP_REDUCE || fold->arg != 1 || fold->nsrc != 2 || fold->src[1] != node->src[1])
        return "no fold of one value over that range";
    return fold->lanes == node->lanes && (node->arg | 1) == 1 ? NULL : "lanes or kind";
}

/* ---- the rows */

#define MANY UINT32_MAX

/* The row of an op that ops.def does not describe in full. |fewest| and |most|: the number of its sources if that varies. */
typedef struct op_rule {
    uint32_t fewest, most;
    unsigned facts;
    unsigned most_sub;                        /* the greatest value of |sub|; 0: not checked */
    const char *(*also)(const bl_node *node); /* checks what no fact says, or NULL */
} op_rule;

enum { MOVES = LIKE_SOURCE | OF_ONE_LANE };

static const op_rule rules[BL_OP_COUNT] = {
    [BL_OP_CONST] = {.facts = SCALAR | ONE_LANE, .also = verify_check_const},
    [BL_OP_INPUT] = {.facts = NUMBERED},
    [BL_OP_VAR] = {.facts = SCALAR | ONE_LANE | INTEGER | NUMBERED | BOUNDED},
    [BL_OP_BOUND] = {.facts = NUMBERED},
    [BL_OP_IOTA] = {.facts = ONE_AXIS | NO_BOOL},
    [BL_OP_RESHAPE] = {.facts = MOVES},
    [BL_OP_PERMUTE] = {.facts = MOVES | SAME_RANK, .also = check_permute},
    [BL_OP_EXPAND] = {.facts = MOVES | MORE_AXES},
    [BL_OP_PAD] = {.fewest = 1, .most = MANY, .facts = PER_AXIS | MOVES | SAME_RANK | SIZES},
    [BL_OP_SHRINK] = {.fewest = 1, .most = MANY, .facts = PER_AXIS | MOVES | SAME_RANK | SIZES},
    [BL_OP_FLIP] = {.facts = MOVES | SAME_SHAPE | ARG_AXES},
    [BL_OP_WINDOW] = {.facts = MOVES | ONE_AXIS_MORE},
    [BL_OP_REDUCE] = {.fewest = 1, .most = MANY, .facts = FOLDS | LIKE_SOURCE, .also = check_reduce},
    [BL_OP_GATHER] = {.facts = MOVES | SAME_RANK | ARG_AXIS, .also = check_gather},
    [BL_OP_DETACH] = {.facts = MOVES | SAME_SHAPE},
    [BL_OP_ALIAS] = {.facts = MOVES | SAME_SHAPE},
    [BL_OP_CONTIGUOUS] = {.facts = MOVES | SAME_SHAPE},
    [BL_OP_SCAN] = {.fewest = 1, .most = MANY},
    [BL_OP_CORRELATE] = {.facts = MOVES, .also = check_correlate},
    [BL_OP_UNWINDOW] = {.facts = MOVES | ONE_AXIS_LESS, .also = check_unwindow},
    [BL_OP_PARTIALS] = {.fewest = 1, .most = 2 * BL_MAX_PARTIALS, .facts = MOVES, .also = check_partials},
    [BL_OP_BUFFER] = {.facts = SCALAR | ONE_LANE | NUMBERED, .most_sub = 1},
    [BL_OP_RANGE] = {.facts = SCALAR | ONE_LANE | INTEGER | LIKE_SOURCE | OF_SCALARS, .most_sub = BL_AXIS_MATRIX},
    [BL_OP_LOAD] = {.fewest = 2, .most = 3, .facts = SCALAR, .also = verify_check_access},
    [BL_OP_STORE] = {.fewest = 3, .most = 4, .facts = SCALAR, .also = verify_check_access},
    [BL_OP_STAGE] = {.fewest = 1, .most = MANY, .facts = SCALAR | ONE_LANE, .also = check_filled},
    [BL_OP_LANE] = {.facts = SCALAR | INTEGER | VECTOR},
    [BL_OP_EXTRACT] = {.facts = SCALAR | LIKE_SOURCE | ONE_LANE | ARG_LANE},
    [BL_OP_STACK] = {.fewest = 1, .most = MANY, .facts = SCALAR | LIKE_SOURCES | OF_SCALARS | VECTOR | PER_LANE},
    [BL_OP_FOLD] = {.facts = SCALAR | FOLDS | LIKE_SOURCE | OF_VECTOR | ONE_LANE},
    [BL_OP_SINK] = {.fewest = 1, .most = MANY, .facts = SCALAR, .most_sub = BL_PRECISION_HIGH, .also = check_sink},
    [BL_OP_MATRIX] = {.facts = SCALAR | ONE_LANE, .also = check_matrix},
    [BL_OP_FRAGMENT_LOAD] = {.facts = LOWERED},
    [BL_OP_RUNNING] = {.facts = SCALAR | LIKE_SOURCE, .also = check_running},
    [BL_OP_RESCALED] = {.facts = SCALAR | LIKE_SOURCES},
};

static bool has_right_count(const bl_node *node)
{
    const op_rule *rule = &rules[node->op];
    int count = bl_op_sources((bl_op)node->op);
    return count >= 0 ? node->nsrc == (uint32_t)count : node->nsrc >= rule->fewest && node->nsrc <= rule->most;
}

static const char *verify_check_source(const bl_node *node, uint32_t i)
{
    const bl_node *src = node->src[i];

    if (src->id >= node->id)
        return "a source is younger than its user";
    if (bl_is_poison(src))
        return "a source is poison";
    if (src->op == BL_OP_SINK || (src->op == BL_OP_STORE && node->op != BL_OP_SINK && node->op != BL_OP_STAGE))
        return "a source has no value";
    if (src->op == BL_OP_RESCALED && (node->op != BL_OP_REDUCE || node->sub != BL_OP_ADD))
        return "only a sum rescales";
    if (is_memory(src) && (i != 0 || (node->op != BL_OP_LOAD && node->op != BL_OP_STORE)))
        return "a buffer is no value";
    return NULL;
}

/* Check what every node must have: the right number of sources, and sources and extents that are older than the node. */
static const char *check_frame(const bl_node *node)
{
    const char *wrong = NULL;

    if (node->op >= BL_OP_COUNT || node->dtype >= BL_DTYPE_COUNT)
        return "no such op or dtype";
    if (node->op == BL_OP_POISON)
        return "poison";
    if (node->lanes < 1 || node->lanes > BL_MAX_LANES || (node->lanes > 1 && node->ndim > 0))
        return "lanes";
    if (node->ndim > BL_MAX_DIMS)
        return "too many dimensions";
    if (!has_right_count(node))
        return "number of sources";
    for (uint32_t i = 0; i < node->nsrc && wrong == NULL; i++)
        wrong = verify_check_source(node, i);
    for (int i = 0; i < node->ndim && wrong == NULL; i++) {
        const bl_node *dim = node->dim[i];
        if (dim->id >= node->id)
            wrong = "an extent is younger than its user";
        else if (dim->dtype != BL_INDEX || dim->ndim != 0 || dim->hi < 0 || dim->lanes != 1 || !bl_extent_is_simple(dim))
            wrong = "an extent is no size";
    }
    return wrong;
}

static const char *check_row(bl_ir *ir, const bl_node *node)
{
    const op_rule *rule = &rules[node->op];
    bl_op_class cls = bl_op_get_class((bl_op)node->op);
    const char *wrong = check_facts(ir, node, rule->facts);

    if (wrong != NULL)
        return wrong;
    if (cls == BL_CLASS_INST)
        return "only a linear kernel has this";
    if (rule->most_sub > 0 && node->sub > rule->most_sub)
        return "no such kind in sub";
    if (node->op == BL_OP_SCAN)
        return check_scan(ir, node);
    if (node->op == BL_OP_RESULT)
        return verify_check_result(ir, node);
    return cls == BL_CLASS_ALU ? verify_check_alu(node) : rule->also != NULL ? rule->also(node) : NULL;
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
            wrong = check_row(ir, node);
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
