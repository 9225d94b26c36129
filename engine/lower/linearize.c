/* SPDX-License-Identifier: MIT */
/* Linearization: loops, accumulators and instruction order. A value is emitted in the innermost loop that it depends on.
 * Placing it there hoists loop invariants; there is no separate hoisting pass. Independent reductions of one scope over the
 * same ranges share a loop (loop fusion). Stores over the same LOOP ranges also share a loop; a value that two loops need is
 * computed in each. Needs: no TILE or VECTOR. Leaves: a linear kernel. Recursion is as deep as the expression, which the
 * scheduler limits. */
#include "engine/ir/affine.h"
#include "engine/ir/axis_number.h"
#include "engine/ir/eval.h"
#include "engine/ir/matrix_unit.h"
#include "engine/ir/verify.h"
#include "engine/lower/emit.h"

#include <string.h>

enum { FOLD_AT_ONCE = 64 }; /* groups with fewer work-items fold their partial results in a single loop */

bl_dtype emit_dtype(const build *b, const bl_node *node)
{
    return node->dtype == BL_INDEX ? b->index : (bl_dtype)node->dtype;
}

static void link_value(scope *at, value *v)
{
    if (at->last == NULL)
        at->first = v;
    else
        at->last->next = v;
    at->last = v;
}

value *emit_inst(build *b, scope *at, bl_op op, bl_dtype dtype, int lanes, uint32_t nargs, value *const *args)
{
    value *v = bl_arena_alloc(b->arena, sizeof *v);
    if (v == NULL) { /* the arena is sticky: bl_lower reports it */
        b->failed = true;
        return &b->none;
    }
    v->inst = (bl_inst){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .lanes = (uint8_t)lanes, .nargs = nargs};
    for (uint32_t i = 0; i < nargs; i++)
        v->args[i] = args[i];
    link_value(at, v);
    b->ninst++;
    return v;
}

static scope *open_scope(build *b, scope *parent, uint64_t bit)
{
    scope *s = bl_arena_alloc(b->arena, sizeof *s);
    if (s == NULL)
        return parent;
    s->parent = parent;
    s->bit = bit;
    bl_ptrmap_init(&s->values, b->arena);
    return s;
}

scope *emit_open_turns(build *b, scope *at, value *turns, uint64_t bit)
{
    scope *inner = open_scope(b, at, bit);
    value *loop = bl_arena_alloc(b->arena, sizeof *loop);

    if (loop == NULL || inner == at)
        return at;
    loop->args[0] = turns;
    loop->inst = (bl_inst){.op = BL_OP_LOOP, .dtype = (uint8_t)b->index, .lanes = 1, .nargs = 1};
    loop->loop = inner;
    inner->loop = loop;
    return inner;
}

scope *emit_open_loops(build *b, scope *at, int n, const bl_node *const *ranges)
{
    for (int i = 0; i < n; i++) {
        scope *inner = emit_open_turns(b, at, emit_node(b, at, ranges[i]->src[0]), bl_free_bit(&b->free, ranges[i]));
        if (inner == at)
            return at;
        inner->range = ranges[i];
        bl_ptrmap_put(&inner->values, ranges[i], inner->loop);
        at = inner;
    }
    return at;
}

void emit_close_loops(build *b, scope *inner, const scope *outer)
{
    for (; inner != outer; inner = inner->parent) {
        if (inner->nshared > 0)
            emit_end_turn(b, inner);
        link_value(inner->parent, inner->loop);
        b->ninst += 2;
    }
}

/* Insert into |list|, which is sorted by number. */
void emit_insert_range(const bl_node **list, int n, const bl_node *range, bool largest_first)
{
    int at = n;
    for (; at > 0 && (largest_first ? bl_axis_precedes(list[at - 1], range) : bl_axis_precedes(range, list[at - 1])); at--)
        list[at] = list[at - 1];
    list[at] = range;
}

value *emit_const(build *b, scope *at, bl_dtype dtype, int64_t bits)
{
    value *v = emit_inst(b, at, BL_OP_CONST, dtype, 1, 0, NULL);
    v->inst.arg = bits;
    return v;
}

value *emit_alu(build *b, scope *at, bl_op op, bl_dtype dtype, value *x, value *y)
{
    return emit_inst(b, at, op, dtype, x->inst.lanes > y->inst.lanes ? x->inst.lanes : y->inst.lanes, 2, ARGS(x, y));
}

/* ---- ids: RANGEs that are no loops */

/* The position of a work-item along |range|. A GROUP range over outputs uses the local dimension of the reduction whose
 * work-items share these outputs. */
static value *emit_local_id(build *b, const bl_node *range)
{
    value *v = emit_inst(b, b->root, BL_OP_LOCAL_ID, b->index, 1, 0, NULL);
    bool own = false;

    for (int i = 0; i < b->nlocal; i++)
        own = own || b->local_range[i] == range;
    for (int i = 0; i < b->nlocal; i++) {
        if (own ? b->local_range[i] == range : b->local_range[i]->sub == BL_AXIS_GROUP)
            v->inst.arg = i;
    }
    return v;
}

/* The position of the group along |range|. Ranges that share a grid dimension are the digits of its id, the last range varying
 * fastest. */
static value *emit_group_id(build *b, const bl_node *range)
{
    int at = 0, dim = 0;
    value *id = NULL;
    const bl_node *below = NULL;

    while (b->global[at] != range)
        at++;
    dim = at < BL_GRID_DIMS - 1 ? at : BL_GRID_DIMS - 1;
    id = emit_inst(b, b->root, BL_OP_GROUP_ID, b->index, 1, 0, NULL);
    id->inst.arg = dim;
    if (b->nglobal <= BL_GRID_DIMS || at < BL_GRID_DIMS - 1)
        return id;
    for (int i = BL_GRID_DIMS - 1; i < at; i++)
        below = below == NULL ? b->global[i]->src[0] : bl_mul(b->ir, below, b->global[i]->src[0]);
    if (below != NULL)
        id = emit_alu(b, b->root, BL_OP_IDIV, b->index, id, emit_node(b, b->root, below));
    if (at + 1 < b->nglobal)
        id = emit_alu(b, b->root, BL_OP_MOD, b->index, id, emit_node(b, b->root, range->src[0]));
    return id;
}

/* ---- reductions */

static bool share_loop(const build *b, const bl_node *a, const bl_node *x)
{
    if (x->op != BL_OP_REDUCE || bl_ptrmap_get(&b->level, a) != bl_ptrmap_get(&b->level, x))
        return false;
    if (a->nsrc - (uint32_t)a->arg != x->nsrc - (uint32_t)x->arg)
        return false;
    for (uint32_t i = 0; i < a->nsrc - (uint32_t)a->arg; i++) {
        if (a->src[(uint32_t)a->arg + i] != x->src[(uint32_t)x->arg + i])
            return false;
    }
    return true;
}

uint64_t emit_loops_of(build *b, const bl_node *node)
{
    return bl_free_get(&b->free, node) & b->loops;
}

/* The value that |node| takes in the current iteration: what its REDUCE, which runs in the same loop, has folded so far. */
static value *emit_running(build *b, scope *at, const bl_node *node)
{
    const bl_node *reduce = node->src[0];
    value *acc = bl_ptrmap_get(&b->goes_on, reduce);

    if (acc == NULL) {
        (void)bl_ir_fail(b->ir, BL_EBUG, "a running fold is outside of its loop");
        return emit_const(b, at, emit_dtype(b, node), 0);
    }
    if (node->arg == 0)
        return acc; /* the accumulator is set at the end of the iteration */
    return emit_alu(b, at, (bl_op)reduce->sub, emit_dtype(b, reduce), acc, emit_node(b, at, reduce->src[0]));
}

static value *emit_acc(build *b, scope *at, const bl_node *reduce)
{
    bl_dtype dtype = emit_dtype(b, reduce);
    value *start = emit_const(b, at, dtype, (int64_t)bl_fold_identity((bl_op)reduce->sub, dtype).u);
    return emit_inst(b, at, BL_OP_ACC, dtype, reduce->lanes, 1, &start);
}

/* Local memory for one value per work-item. All folds of one dtype and size share it, since each fold ends with a barrier. */
static value *fold_buffer(build *b, bl_dtype dtype, int64_t elements)
{
    value *buffer = b->fold_buffer[dtype];

    if (buffer != NULL && buffer->inst.arg == elements)
        return buffer;
    /* OpenCL does not allow local memory to be declared in a loop */
    buffer = emit_inst(b, b->root, BL_OP_BUFFER, dtype, 1, 0, NULL);
    buffer->inst.sub = BL_LOCAL;
    buffer->inst.arg = elements;
    b->local_bytes += (uint32_t)bl_local_bytes(dtype, false, elements);
    b->fold_buffer[dtype] = buffer;
    return buffer;
}

/* Fold |count| values of |buffer|: number |first| and then every |step|-th. */
static value *fold_values(build *b, scope *at, const bl_node *reduce, value *buffer, value *first, value *count, value *step)
{
    bl_dtype dtype = emit_dtype(b, reduce), index = b->index;
    int lanes = reduce->lanes;
    scope *inner = open_scope(b, at, 0);
    value *total = emit_acc(b, at, reduce), *loop = emit_inst(b, at, BL_OP_LOOP, index, 1, 1, &count), *from = loop, *load = NULL;

    b->ninst++;
    loop->loop = inner;
    if (step != NULL)
        from = emit_alu(b, inner, BL_OP_MUL, index, loop, step);
    from = emit_alu(b, inner, BL_OP_ADD, index, first, from);
    from = emit_alu(b, inner, BL_OP_MUL, index, from, emit_const(b, inner, index, lanes));
    load = emit_inst(b, inner, BL_OP_LOAD, dtype, lanes, 2, ARGS(buffer, from));
    load = emit_alu(b, inner, (bl_op)reduce->sub, dtype, total, load);
    emit_inst(b, inner, BL_OP_SET, dtype, lanes, 2, ARGS(total, load));
    return total;
}

/* How many strided partial sums the group makes first: about the square root of |items|, a power of two. 1: fold all at once,
 * since two more barriers cost as much as the loads they save in a small group. */
static int64_t fold_step(int64_t items)
{
    int64_t step = 1;

    if (items < FOLD_AT_ONCE || (items & (items - 1)) != 0)
        return 1;
    while (step * step < items)
        step *= 2;
    return step;
}

/* Reduce across the work-items of a group: each writes its partial result to local memory, all wait at a barrier, and each
 * folds all results in order. In a larger group each first folds every 16th result, for instance, and then 16 of those: 32
 * loads instead of 256, in loops short enough for a driver to unroll. */
static value *fold_group(build *b, scope *at, const bl_node *reduce, value *acc, const bl_node *group)
{
    bl_dtype dtype = emit_dtype(b, reduce), index = b->index;
    value *buffer = NULL, *id = emit_node(b, at, group), *row = emit_const(b, at, index, 0), *mine = NULL, *count = NULL;
    value *lanes = emit_const(b, at, index, reduce->lanes);
    int64_t items = 1, members = group->src[0]->arg, step = fold_step(members); /* extents of a group are constant */

    for (int i = 0; i < b->nlocal; i++)
        items *= b->local[i];
    buffer = fold_buffer(b, dtype, items * reduce->lanes);
    /* a row of |group|'s work-items for each position along the other dimensions */
    for (int i = 0; i < b->nlocal; i++) {
        if (b->local_range[i] == group)
            continue;
        row = emit_alu(b, at, BL_OP_MUL, index, row, emit_node(b, at, b->local_range[i]->src[0]));
        row = emit_alu(b, at, BL_OP_ADD, index, row, emit_node(b, at, b->local_range[i]));
    }
    count = emit_node(b, at, group->src[0]);
    row = emit_alu(b, at, BL_OP_MUL, index, row, count);
    mine = emit_alu(b, at, BL_OP_MUL, index, emit_alu(b, at, BL_OP_ADD, index, row, id), lanes);
    emit_inst(b, at, BL_OP_STORE, dtype, reduce->lanes, 3, ARGS(buffer, mine, acc));
    emit_inst(b, at, BL_OP_BARRIER, index, 1, 0, NULL);
    if (step > 1) {
        value *first = emit_alu(b, at, BL_OP_AND, index, id, emit_const(b, at, index, step - 1));
        first = emit_alu(b, at, BL_OP_ADD, index, row, first);
        acc = fold_values(b, at, reduce, buffer, first, emit_const(b, at, index, members / step), emit_const(b, at, index, step));
        emit_inst(b, at, BL_OP_BARRIER, index, 1, 0, NULL);
        emit_inst(b, at, BL_OP_STORE, dtype, reduce->lanes, 3, ARGS(buffer, mine, acc));
        emit_inst(b, at, BL_OP_BARRIER, index, 1, 0, NULL);
        count = emit_const(b, at, index, step);
    }
    acc = fold_values(b, at, reduce, buffer, row, count, NULL);
    emit_inst(b, at, BL_OP_BARRIER, index, 1, 0, NULL);
    return acc;
}

/* Add the reductions that values of this loop follow (RUNNING) and that are not among its |n| members: they are repeated in
 * this loop. This happens if a loop over outputs lies between the reduction and its followers. Returns the new number of
 * members. */
static int add_followed(build *b, scope *at, int nranges, const bl_node *const *ranges, int n, const bl_node **members,
                        value **accs)
{
    for (size_t i = 0; i < b->wanted.count; i++) {
        const bl_node *node = b->wanted.at[i];
        bool here = false, member = false;
        for (int k = 0; node->op == BL_OP_RUNNING && k < nranges; k++)
            here = here || ranges[k] == node->src[1];
        for (int k = 0; here && k < n; k++)
            member = member || members[k] == node->src[0];
        if (!here || member)
            continue;
        members[n] = node->src[0];
        accs[n++] = emit_acc(b, at, node->src[0]);
    }
    for (int i = 0; i < n; i++)
        bl_ptrmap_put(&b->goes_on, members[i], accs[i]);
    return n;
}

/* Emit all wanted reductions of this scope that share the loop of |first|. */
static void emit_reductions(build *b, scope *at, const bl_node *first)
{
    scope *inner = NULL;
    const bl_node *ranges[BL_MAX_DIMS * 2], *group = NULL;
    const bl_node **members = bl_arena_array(b->arena, b->wanted.count, sizeof *members);
    value **accs = bl_arena_array(b->arena, b->wanted.count, sizeof *accs);
    value **sums = bl_arena_array(b->arena, b->wanted.count, sizeof *sums);
    int n = 0, all = 0, nranges = 0;
    uint64_t scope_set = emit_loops_of(b, first);

    for (size_t i = 0; members != NULL && accs != NULL && sums != NULL && i < b->wanted.count; i++) {
        const bl_node *node = b->wanted.at[i];
        if (!share_loop(b, first, node) || emit_loops_of(b, node) != scope_set || bl_ptrmap_has(&at->values, node))
            continue;
        members[n] = node;
        accs[n++] = emit_acc(b, at, node);
    }
    for (uint32_t i = (uint32_t)first->arg; i < first->nsrc && nranges < BL_MAX_DIMS * 2; i++) {
        if (first->src[i]->sub == BL_AXIS_GROUP)
            group = first->src[i];
        else
            emit_insert_range(ranges, nranges++, first->src[i], false);
    }
    all = n > 0 ? add_followed(b, at, nranges, ranges, n, members, accs) : 0;
    inner = emit_open_loops(b, at, nranges, ranges);
    for (scope *s = inner; s != at; s = s->parent)
        s->level = bl_ptrmap_number(&b->level, first);
    emit_accumulate(b, inner, all, members, accs, sums);
    emit_close_loops(b, inner, at);
    for (int i = 0; i < n; i++)
        bl_ptrmap_put(&at->values, members[i], group == NULL ? accs[i] : fold_group(b, at, members[i], accs[i], group));
}

/* ---- matrix units */

static const bl_node *linearize_depth_of(const bl_node *sum)
{
    for (uint32_t i = (uint32_t)sum->arg; i < sum->nsrc; i++) {
        if (sum->src[i]->sub == BL_AXIS_MATRIX)
            return sum->src[i];
    }
    return NULL; /* the verifier rejects such a node */
}

/* Emit |acc| += the product of the two loads in |term|. */
static void add_product(build *b, scope *inner, const bl_node *matrix, const bl_node *term, value *acc)
{
    bl_matrix shape = bl_matrix_unpack(matrix->arg);
    const bl_node *loads[2] = {term, term}, *columns = matrix->src[2], *depth = linearize_depth_of(matrix->src[0]), *x = NULL,
                  *y = NULL;
    int b_at = 0;
    value *add = NULL;

    if (depth != NULL && bl_matrix_product(term, shape, loads)) {
        b_at = (bl_free_get(&b->free, loads[0]) & bl_free_bit(&b->free, columns)) != 0 ? 0 : 1;
        x = bl_matrix_operand(b->ir, shape, loads[1 - b_at], true, matrix->src[1], depth);
        y = bl_matrix_operand(b->ir, shape, loads[b_at], false, columns, depth);
    }
    if (x == NULL || y == NULL) {
        (void)bl_ir_fail(b->ir, BL_EBUG, "an operand of a matrix unit has none of the unit's layouts");
        return;
    }
    add = emit_inst(b, inner, BL_OP_MATRIX_ADD, (bl_dtype)matrix->dtype, 1, 3,
                    ARGS(acc, emit_node(b, inner, x), emit_node(b, inner, y)));
    add->inst.arg = matrix->arg;
}

/* As accumulate does: all tiles take their first product before any takes its second. */
static void linearize_add_products(build *b, scope *inner, int n, const bl_node *const *members, value *const *accs)
{
    int64_t most = 0;

    for (int i = 0; i < n; i++)
        most = members[i]->src[0]->arg > most ? members[i]->src[0]->arg : most;
    for (int64_t k = 0; k < most; k++) {
        for (int i = 0; i < n; i++) {
            if (k < members[i]->src[0]->arg)
                add_product(b, inner, members[i], members[i]->src[0]->src[k], accs[i]);
        }
    }
}

/* Number of tiles in a group: one per scope of the unit. */
static int64_t linearize_count_tiles(const build *b, bl_matrix shape)
{
    int64_t tiles = 1;
    for (int i = shape.scope > 1; i < b->nlocal; i++)
        tiles *= b->local[i];
    return tiles;
}

/* The offset of the current scope's tile among the tiles of the group. */
static value *tile_start(build *b, bl_matrix shape)
{
    value *at = NULL;

    if (linearize_count_tiles(b, shape) == 1)
        return emit_const(b, b->root, b->index, 0);
    for (int i = b->nlocal - 1; i >= (shape.scope > 1); i--) {
        value *id = emit_node(b, b->root, b->local_range[i]);
        if (at == NULL)
            at = id;
        else
            at = emit_alu(b, b->root, BL_OP_ADD, b->index,
                          emit_alu(b, b->root, BL_OP_MUL, b->index, at, emit_node(b, b->root, b->local_range[i]->src[0])), id);
    }
    return emit_alu(b, b->root, BL_OP_MUL, b->index, at, emit_const(b, b->root, b->index, shape.m * shape.n));
}

/* Store the fragments to local memory, from which their elements are read. */
static void leave_tiles(build *b, scope *at, int n, const bl_node *const *members, value *const *accs)
{
    bl_matrix shape = bl_matrix_unpack(members[0]->arg);
    bl_dtype dtype = (bl_dtype)members[0]->dtype;
    value *start = tile_start(b, shape);

    /* some work-items may still read the tiles of the last iteration */
    if (shape.scope > 1 && at != b->root)
        emit_inst(b, at, BL_OP_BARRIER, b->index, 1, 0, NULL);
    for (int i = 0; i < n; i++) {
        /* OpenCL does not allow local memory to be declared in a loop */
        value *buffer = emit_inst(b, b->root, BL_OP_BUFFER, dtype, 1, 0, NULL);
        buffer->inst.sub = BL_LOCAL;
        buffer->inst.arg = linearize_count_tiles(b, shape) * shape.m * shape.n;
        b->local_bytes += (uint32_t)bl_local_bytes(dtype, false, buffer->inst.arg);
        emit_inst(b, at, BL_OP_FRAGMENT_STORE, dtype, 1, 3, ARGS(buffer, start, accs[i]))->inst.arg = members[i]->arg;
        bl_ptrmap_put(&at->values, members[i], buffer);
    }
    if (shape.scope > 1)
        emit_inst(b, at, BL_OP_BARRIER, b->index, 1, 0, NULL);
}

/* Emit all wanted tiles of this scope that share the loops of |first|. */
static void emit_matrices(build *b, scope *at, const bl_node *first)
{
    const bl_node *ranges[BL_MAX_DIMS * 2], *sum = first->src[0];
    const bl_node **members = bl_arena_array(b->arena, b->wanted.count, sizeof *members);
    value **accs = bl_arena_array(b->arena, b->wanted.count, sizeof *accs);
    uint64_t scope_set = emit_loops_of(b, first);
    scope *inner = NULL;
    int n = 0, nranges = 0;

    for (size_t i = 0; members != NULL && accs != NULL && i < b->wanted.count; i++) {
        const bl_node *node = b->wanted.at[i];
        if (node->op != BL_OP_MATRIX || node->arg != first->arg || !share_loop(b, sum, node->src[0]) ||
            emit_loops_of(b, node) != scope_set || bl_ptrmap_has(&at->values, node))
            continue;
        members[n] = node;
        accs[n] = emit_inst(b, at, BL_OP_FRAGMENT, (bl_dtype)node->dtype, 1, 0, NULL);
        accs[n++]->inst.arg = node->arg;
    }
    for (uint32_t i = (uint32_t)sum->arg; i < sum->nsrc && nranges < BL_MAX_DIMS * 2; i++) {
        if (sum->src[i]->sub != BL_AXIS_MATRIX)
            emit_insert_range(ranges, nranges++, sum->src[i], false);
    }
    inner = emit_open_loops(b, at, nranges, ranges);
    linearize_add_products(b, inner, n, members, accs);
    emit_close_loops(b, inner, at);
    if (n > 0)
        leave_tiles(b, at, n, members, accs);
}

/* Load an element of a tile. */
static value *emit_element(build *b, scope *at, const bl_node *load)
{
    bl_matrix shape = bl_matrix_unpack(load->src[0]->arg);
    value *buffer = emit_node(b, at, load->src[0]), *index = emit_node(b, at, load->src[1]), *v = NULL;

    if (linearize_count_tiles(b, shape) > 1) {
        index = emit_alu(b, at, BL_OP_ADD, b->index, tile_start(b, shape), index);
        index->inst.sub = 1;
    }
    v = emit_inst(b, at, BL_OP_LOAD, (bl_dtype)load->dtype, load->lanes, 2, ARGS(buffer, index));
    v->inst.sub = emit_known_facts(load);
    return v;
}

/* ---- plain nodes */

static value *emit_var(build *b, const bl_node *node)
{
    value *v = emit_inst(b, b->root, BL_OP_VAR, BL_I32, 1, 0, NULL);
    while (v->inst.arg < b->nvars && b->vars[v->inst.arg] != (int)node->arg)
        v->inst.arg++;
    if (v->inst.arg == b->nvars && b->nvars == BL_LINEAR_MAX_SCALARS)
        (void)bl_ir_fail(b->ir, BL_ELIMIT,
                         "a kernel depends on more than %d named dimensions and steps of scans; put \"contiguous\" between parts "
                         "of the graph so that each depends on fewer",
                         BL_LINEAR_MAX_SCALARS);
    else if (v->inst.arg == b->nvars)
        b->vars[b->nvars++] = (int)node->arg;
    return b->index == BL_I32 ? v : emit_inst(b, b->root, BL_OP_CAST, b->index, 1, 1, &v);
}

/* Is |index| a multiple of |lanes| in every iteration? */
static bool is_aligned(const bl_node *index, int lanes)
{
    bl_affine sum;
    return bl_affine_of(&sum, index) && bl_affine_is_multiple(&sum, NULL, lanes) && index->lanes == 1;
}

/* Facts for the renderers: see bl_inst.sub. */
uint8_t emit_known_facts(const bl_node *node)
{
    if (node->op == BL_OP_ADD || node->op == BL_OP_SUB || node->op == BL_OP_MUL || node->op == BL_OP_NEG)
        return node->dtype == BL_INDEX;
    if (node->op == BL_OP_IDIV || node->op == BL_OP_MOD)
        return node->src[0]->lo >= 0 && node->src[1]->lo > 0;
    if (node->op == BL_OP_SHL || node->op == BL_OP_SHR)
        return node->src[1]->lo >= 0 && node->src[1]->hi < (int64_t)bl_dtype_bytes((bl_dtype)node->dtype) * 8;
    if ((node->op == BL_OP_LOAD || node->op == BL_OP_STORE) && node->lanes > 1)
        return is_aligned(node->src[1], node->lanes);
    return 0;
}

/* |memory| is the destination of a STORE if that is not its BUFFER, else NULL. */
value *emit_plain(build *b, scope *at, const bl_node *node, value *memory)
{
    value *args[BL_MAX_LANES] = {memory}, *v = NULL;
    for (uint32_t i = memory != NULL; i < node->nsrc; i++)
        args[i] = emit_node(b, at, node->src[i]);
    if (node->op == BL_OP_CAST && args[0]->inst.dtype == emit_dtype(b, node) && args[0]->inst.lanes == node->lanes)
        return args[0];
    v = emit_inst(b, at, (bl_op)node->op, emit_dtype(b, node), node->lanes, node->nsrc, args);
    v->inst.arg = node->arg;
    v->inst.sub = (uint8_t)(node->sub | emit_known_facts(node));
    return v;
}

value *emit_node(build *b, scope *at, const bl_node *node)
{
    uint64_t set = emit_loops_of(b, node);
    value *v = NULL;

    while (at->parent != NULL && (set & at->bit) == 0)
        at = at->parent;
    v = bl_ptrmap_get(&at->values, node);
    if (v != NULL)
        return v;
    if (b->failed) /* the maps cannot grow, so shared nodes would be emitted once for each path to them */
        return &b->none;
    if (node->op == BL_OP_REDUCE || node->op == BL_OP_MATRIX) {
        (node->op == BL_OP_REDUCE ? emit_reductions : emit_matrices)(b, at, node);
        v = bl_ptrmap_get(&at->values, node);
        return v == NULL ? emit_const(b, at, b->index, 0) : v; /* only if the arena is out of memory */
    }
    if (node->op == BL_OP_CONST)
        v = emit_const(b, at, emit_dtype(b, node), node->arg);
    else if (node->op == BL_OP_VAR)
        v = emit_var(b, node);
    /* a loop's counter is in the values of its scope */
    else if (node->op == BL_OP_RANGE)
        v = node->sub == BL_AXIS_GLOBAL ? emit_group_id(b, node) : emit_local_id(b, node);
    else if (node->op == BL_OP_LOAD && node->src[0]->op == BL_OP_MATRIX)
        v = emit_element(b, at, node);
    else if (node->op == BL_OP_STAGE)
        v = emit_stage(b, at, node);
    else if (node->op == BL_OP_RUNNING)
        v = emit_running(b, at, node);
    else if (emit_is_fused(node))
        v = emit_fused(b, at, node);
    else
        v = emit_plain(b, at, node, NULL);
    bl_ptrmap_put(&at->values, node, v);
    return v;
}

/* ---- the whole */

/* Emit the STOREs of |sink| that depend on exactly the loops in |set|, in one loop nest. */
static void emit_stores(build *b, const bl_node *sink, uint64_t set)
{
    const bl_node *ranges[BL_MAX_RANGES], **stores = bl_arena_array(b->arena, sink->nsrc, sizeof *stores);
    scope *inner = NULL;
    int nranges = 0, nstores = 0;

    for (uint32_t i = 0; stores != NULL && i < sink->nsrc; i++) {
        if (emit_loops_of(b, sink->src[i]) == set)
            stores[nstores++] = sink->src[i];
    }
    b->wanted = bl_reach(b->ir, nstores, stores, false);
    for (int i = 0; i < b->free.nranges; i++) {
        if (set >> i & 1)
            emit_insert_range(ranges, nranges++, b->free.range[i], false);
    }
    inner = emit_open_loops(b, b->root, nranges, ranges);
    for (int i = 0; i < nstores; i++)
        (void)emit_plain(b, inner, stores[i], NULL);
    emit_close_loops(b, inner, b->root);
}

/* The number of reductions that |node| depends on. A RUNNING depends on the values that its reduction folds, not on the result.
 * All reductions that run together over one RANGE have one level, so they share its loop. */
static uint64_t level_of(build *b, const bl_ptrmap *together, const bl_node *node)
{
    uint64_t level = 0;

    if (node->op == BL_OP_RUNNING)
        return bl_ptrmap_number(&b->level, node->src[0]->src[0]);
    for (uint32_t k = 0; k < node->nsrc; k++) {
        uint64_t from = bl_ptrmap_number(&b->level, node->src[k]);
        level = from > level ? from : level;
    }
    if (node->op == BL_OP_REDUCE && node->nsrc == node->arg + 1 && bl_ptrmap_has(together, node->src[node->arg]))
        return TOGETHER;
    return level + (node->op == BL_OP_REDUCE);
}

/* Classify the ranges as loops, groups and work-items; choose the width of indices; find the level of each node. */
static void linearize_survey(build *b, const bl_node *sink)
{
    bl_nodes below = bl_reach(b->ir, 1, &sink, false);
    bl_ptrmap together; /* RANGEs over which reductions run together (RUNNING) */
    bl_ptrmap folded;   /* ranges of work-items that share a reduction */

    b->index = BL_I32;
    bl_ptrmap_init(&together, b->arena);
    bl_ptrmap_init(&folded, b->arena);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op == BL_OP_RUNNING)
            bl_ptrmap_add(&together, node->src[1]);
        for (uint32_t k = (uint32_t)node->arg; node->op == BL_OP_REDUCE && k < node->nsrc; k++) {
            if (node->src[k]->sub == BL_AXIS_GROUP)
                bl_ptrmap_add(&folded, node->src[k]);
        }
    }
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        uint64_t level = level_of(b, &together, node);
        if (node->dtype == BL_INDEX && node->op != BL_OP_CAST && (node->lo < INT32_MIN || node->hi > INT32_MAX))
            b->index = BL_I64;
        if (level > 0)
            bl_ptrmap_put_number(&b->level, node, level);
        if (node->op != BL_OP_RANGE)
            continue;
        /* the range with the largest number is the fastest dimension */
        if (node->sub == BL_AXIS_GLOBAL)
            emit_insert_range(b->global, b->nglobal++, node, true);
        else if (node->sub == BL_AXIS_LOCAL || (node->sub == BL_AXIS_GROUP && bl_ptrmap_has(&folded, node)))
            emit_insert_range(b->local_range, b->nlocal++, node, true);
        else if (node->sub != BL_AXIS_MATRIX && node->sub != BL_AXIS_GROUP)
            b->loops |= bl_free_bit(&b->free, node);
        if (b->nlocal > 2)
            b->nlocal = 3;
    }
    for (int i = 0; i < b->nlocal; i++)
        b->local[i] = (uint32_t)b->local_range[i]->hi + 1;
    for (int i = 0; i < b->nglobal; i++) {
        int dim = i < BL_GRID_DIMS ? i : BL_GRID_DIMS - 1;
        b->grid[dim] = bl_mul(b->ir, b->grid[dim], b->global[i]->src[0]);
    }
}

static void flatten(value *first, uint32_t *n, bl_inst *inst, value **all)
{
    for (value *v = first; v != NULL; v = v->next) {
        v->number = *n;
        all[*n] = v;
        inst[(*n)++] = v->inst;
        if (v->loop == NULL)
            continue;
        flatten(v->loop->first, n, inst, all);
        all[*n] = NULL;
        inst[(*n)++] = (bl_inst){.op = BL_OP_END, .dtype = v->inst.dtype, .lanes = 1};
    }
}

static bl_status linearize_finish(build *b, const bl_node *sink, bl_linear *linear, bl_err *err)
{
    bl_nodes below = bl_reach(b->ir, 1, &sink, false);
    value **all = bl_arena_array(b->arena, b->ninst, sizeof *all);
    bl_dtype *dtypes = bl_arena_array(b->arena, linear->nbuffers, sizeof *dtypes);

    linear->inst = bl_arena_array(b->arena, b->ninst, sizeof *linear->inst);
    BL_TRY(bl_arena_status(b->arena, err));
    flatten(b->root->first, &linear->ninst, linear->inst, all);
    for (uint32_t i = 0; i < linear->ninst; i++) {
        uint32_t *args = NULL;
        if (all[i] == NULL || linear->inst[i].nargs == 0)
            continue;
        args = bl_arena_array(b->arena, linear->inst[i].nargs, sizeof *args);
        for (uint32_t k = 0; args != NULL && k < linear->inst[i].nargs; k++)
            args[k] = all[i]->args[k]->number;
        linear->inst[i].args = args;
    }
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_BUFFER && below.at[i]->sub == 0)
            dtypes[below.at[i]->arg] = (bl_dtype)below.at[i]->dtype;
    }
    for (uint32_t i = 0; i < sink->nsrc; i++)
        linear->writes |= UINT32_C(1) << sink->src[i]->src[0]->arg;
    linear->buffer_dtype = dtypes;
    linear->nscalars = (uint32_t)b->nvars;
    memcpy(linear->local, b->local, sizeof linear->local);
    linear->local_bytes = b->local_bytes;
    return bl_arena_status(b->arena, err);
}

bl_status bl_lower(bl_ir *ir, const bl_node *sink, const char *name, uint32_t nbuffers, int spec, bl_lowered **out, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(ir);
    const bl_node *one = bl_index(ir, 1);
    build b = {.ir = ir, .arena = arena, .local = {1, 1, 1}, .grid = {one, one, one}};
    bl_lowered *made = bl_arena_alloc(arena, sizeof *made);
    bl_linear *linear = bl_arena_alloc(arena, sizeof *linear);

    *out = NULL;
    BL_TRY(bl_arena_status(arena, err));
    sink = bl_lower_widen(ir, bl_lower_turn(ir, bl_lower_trim(ir, bl_lower_expand(ir, bl_lower_trim_stages(ir, sink)))));
    BL_TRY(bl_ir_status(ir, err));
    if (spec > 0)
        BL_TRY(bl_ir_verify(ir, 1, &sink, BL_STAGE_KERNEL, "expand", spec, err));
    bl_free_init(&b.free, ir);
    bl_ptrmap_init(&b.level, arena);
    bl_ptrmap_init(&b.goes_on, arena);
    b.vars = bl_arena_array(arena, BL_LINEAR_MAX_SCALARS, sizeof *b.vars);
    b.root = open_scope(&b, NULL, 0);
    BL_TRY(bl_arena_status(arena, err));
    linearize_survey(&b, sink);
    bl_free_get(&b.free, sink);
    if (b.free.failed) {
        BL_TRY(bl_arena_status(arena, err));
        return bl_fail(err, BL_ELIMIT, "a kernel has more than %d loops", BL_MAX_RANGES);
    }
    if (!bl_stage_memory_plan(ir, sink, &b.free, true, &b.stages)) {
        BL_TRY(bl_arena_status(arena, err));
        return bl_fail(err, BL_ELIMIT, "a kernel has more than %d stages", BL_MAX_STAGES);
    }
    for (uint32_t i = 0; i < sink->nsrc; i++) {
        uint64_t set = emit_loops_of(&b, sink->src[i]);
        bool seen = false;
        for (uint32_t k = 0; k < i; k++)
            seen = seen || emit_loops_of(&b, sink->src[k]) == set;
        if (!seen)
            emit_stores(&b, sink, set);
    }
    BL_TRY(bl_ir_status(ir, err));
    linear->name = name;
    linear->nbuffers = nbuffers;
    BL_TRY(linearize_finish(&b, sink, linear, err));
    if (spec > 0)
        BL_TRY(bl_linear_check(arena, linear, err));
    *made = (bl_lowered){.linear = linear, .nvars = b.nvars, .vars = b.vars, .sink = sink};
    memcpy(made->grid, b.grid, sizeof made->grid);
    *out = made;
    return bl_ir_status(ir, err);
}
