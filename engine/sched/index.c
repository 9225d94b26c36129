/* SPDX-License-Identifier: MIT */
/* Movement ops as arithmetic on indices: the element of a tensor as an expression of loop variables. Recursion is as deep as
 * the longest chain of nodes without a buffer, which sched_mark_first limits. */
#include "engine/ir/eval.h"
#include "engine/ir/gate.h"
#include "engine/ir/shape.h"
#include "engine/sched/sched_internal.h"

enum {
    TOO_MANY_PATTERNS = 5, /* index tuples at which one node may be recomputed inside one store */
    SUM_OF_SUMS = 32,      /* inner sums per outer sum up to which both are merged: a window of 5 by 5 */
    READS_OF_SUM = 8       /* reads of each inner sum up to which both are merged: strides and edges */
};

typedef struct memo_entry {
    const bl_node *gate;
    const bl_node *value;
    struct memo_entry *next;
    const bl_node *index[];
} memo_entry;

int sched_position(const sched *s, const bl_node *node)
{
    return (int)bl_ptrmap_number(&s->position, node) - 1;
}

int sched_origin(const sched *s, const bl_node *node)
{
    return (int)bl_ptrmap_number(&s->origin, node) - 1;
}

const bl_node *sched_flat_index(bl_ir *ir, int ndim, const bl_node *const *dim, const bl_node *const *index)
{
    const bl_node *flat = bl_index(ir, 0);
    for (int i = 0; i < ndim; i++)
        flat = bl_add(ir, bl_mul(ir, flat, dim[i]), index[i]);
    return flat;
}

static const bl_node *index_both(bl_ir *ir, const bl_node *gate, const bl_node *also)
{
    return gate == NULL ? also : bl_and(ir, gate, also);
}

/* 0 <= x < extent, as a bool. */
static const bl_node *inside(bl_ir *ir, const bl_node *x, const bl_node *extent)
{
    return bl_and(ir, bl_not(ir, bl_less(ir, x, bl_index(ir, 0))), bl_less(ir, x, extent));
}

static const bl_node *index_zero_of(bl_ir *ir, const bl_node *node)
{
    return bl_const_int(ir, (bl_dtype)node->dtype, 0);
}

/* Row-major digits of |flat| under the extents dim[0..n). */
static void digits(bl_ir *ir, const bl_node *flat, int n, const bl_node *const *dim, const bl_node **out)
{
    for (int i = n - 1; i > 0; i--) {
        out[i] = bl_mod(ir, flat, dim[i]);
        flat = bl_idiv(ir, flat, dim[i]);
    }
    if (n > 0)
        out[0] = flat;
}

/* Extents are matched from the left into the smallest groups of equal products, so that an axis that a reshape does not
 * change keeps its index. */
static void reshape_index(bl_ir *ir, const bl_node *node, const bl_node *const *index, const bl_node **out)
{
    const bl_node *src = node->src[0];
    int i = 0, j = 0;

    while (i < src->ndim || j < node->ndim) {
        int i0 = i, j0 = j;
        const bl_node *a = i < src->ndim ? src->dim[i++] : bl_index(ir, 1);
        const bl_node *b = j < node->ndim ? node->dim[j++] : bl_index(ir, 1);
        while (a != b && (i < src->ndim || j < node->ndim)) {
            if ((a->hi < b->hi && i < src->ndim) || j == node->ndim)
                a = bl_mul(ir, a, src->dim[i++]);
            else
                b = bl_mul(ir, b, node->dim[j++]);
        }
        digits(ir, sched_flat_index(ir, j - j0, node->dim + j0, index + j0), i - i0, src->dim + i0, out + i0);
    }
}

static const bl_node *element_pad(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    bl_ir *ir = s->ir;
    const bl_node *src = node->src[0], *element = NULL, *load = NULL;
    const bl_node *valid = NULL;
    const bl_node *at[BL_MAX_DIMS];

    for (int i = 0; i < node->ndim; i++) {
        at[i] = bl_sub(ir, index[i], node->src[1 + i]);
        if (src->dim[i] != node->dim[i])
            valid = index_both(ir, valid, inside(ir, at[i], src->dim[i]));
        if (bl_is_int(src->dim[i], 1))
            at[i] = bl_index(ir, 0); /* the only index inside: its reads need no gate */
    }
    if (valid == NULL)
        return sched_element(s, src, at, gate);
    if (bl_is_int(valid, 0))
        return index_zero_of(ir, node);
    element = sched_element(s, src, at, index_both(ir, gate, valid));
    load = element;
    while (load->op == BL_OP_CAST)
        load = load->src[0];
    if (load->op == BL_OP_LOAD && load->nsrc > 2 && bl_and(ir, load->src[2], valid) == load->src[2])
        return element; /* a load gives 0 outside its gate, and that is 0 in any dtype */
    return bl_where(ir, valid, element, index_zero_of(ir, node));
}

static const bl_node *element_gather(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    bl_ir *ir = s->ir;
    const bl_node *src = node->src[0];
    const bl_node *at[BL_MAX_DIMS];
    const bl_node *given = sched_element(s, node->src[1], index, gate);
    /* The bounds are checked before the index becomes an INDEX, which a device may hold in 32 bits. */
    bl_dtype wide = bl_dtype_bytes((bl_dtype)given->dtype) < 4 || given->dtype == BL_I32 ? BL_I32 : BL_I64;
    const bl_node *number = bl_cast(ir, wide, given);
    const bl_node *low = bl_not(ir, bl_less(ir, number, bl_const_int(ir, wide, 0)));
    const bl_node *valid = bl_and(ir, low, bl_less(ir, number, bl_cast(ir, wide, src->dim[node->arg])));
    const bl_node *chosen = bl_cast(ir, BL_INDEX, number);

    for (int i = 0; i < node->ndim; i++)
        at[i] = i == (int)node->arg ? chosen : index[i];
    return bl_where(ir, valid, sched_element(s, src, at, index_both(ir, gate, valid)), index_zero_of(ir, node));
}

static bool index_is_zero(const bl_node *node)
{
    if (!bl_is_const(node))
        return false;
    return bl_dtype_is_float((bl_dtype)node->dtype) ? bl_const_value(node).f == 0 : bl_const_value(node).u == 0;
}

static void note_origin(sched *s, const bl_node *made, const bl_node *node)
{
    bl_ptrmap_put_number(&s->origin, made, (uint64_t)sched_position(s, node) + 1);
}

/* The value that a movement reads, if the movement is read at many indices: its buffer is no larger, as that of a picture is
 * no larger than the buffer of the picture's windows. */
static const bl_node *moved(const sched *s, const bl_node *node)
{
    while (bl_op_get_class((bl_op)node->op) == BL_CLASS_MOVE) {
        const bl_node *src = node->src[0];
        int position = sched_position(s, src);
        int64_t here = 0, below = 0;
        if (position < 0 || s->realised[position] != INLINE || s->weight[position] == 0 ||
            !bl_shape_max_count(node->ndim, node->dim, &here) || !bl_shape_max_count(src->ndim, src->dim, &below) || below > here)
            break;
        node = src;
    }
    return node;
}

/* Is |node|, which the store computes, one operation on positions and constants? It costs no more than a load of its result. */
static bool is_of_positions(const sched *s, const bl_node *node)
{
    bl_nodes below = bl_reach(s->ir, 1, &node, false);

    for (size_t i = 0; i < below.count; i++) {
        if (bl_op_get_class((bl_op)below.at[i]->op) == BL_CLASS_LEAF && below.at[i]->op != BL_OP_IOTA &&
            !bl_is_const(below.at[i]))
            return false;
    }
    return true;
}

/* If the store in progress computes |node| at too many indices, give a buffer to the node, or to the value that the node moves.
 */
static void limit_patterns(sched *s, const bl_node *node, int position, int patterns)
{
    const bl_node *computed = node;
    int at = 0;

    if (patterns <= TOO_MANY_PATTERNS || s->realised[position] != INLINE)
        return;
    while (bl_op_get_class((bl_op)computed->op) == BL_CLASS_MOVE && s->realised[sched_position(s, computed)] == INLINE)
        computed = computed->src[0];
    at = sched_position(s, computed);
    if (s->realised[at] != INLINE || s->weight[at] == 0 || computed->dtype == BL_INDEX) /* it only moves a value, or is a size */
        return;
    if (s->weight[at] == 1 && is_of_positions(s, computed))
        return;
    at = sched_position(s, moved(s, node));
    s->realised[at] = BUFFERED;
    s->builds.often[s->builds.noften++] = at;
}

/* One more than the depth of the deepest reduction on which |index| or |gate| depends. Loads below are made under |gate|. */
static int reduce_level(sched *s, int n, const bl_node *const *index, const bl_node *gate)
{
    const bl_node *all[BL_MAX_DIMS + 1];
    bl_nodes below;
    int level = BL_LEVEL_SUMS;

    for (int i = 0; i < n; i++)
        all[i] = index[i];
    all[n] = gate;
    below = bl_reach(s->ir, gate == NULL ? n : n + 1, all, false);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_RANGE && bl_loop_level(below.at[i]) >= level)
            level = bl_loop_level(below.at[i]) + 1;
    }
    return level;
}

/* Merge a sum of sums into one sum, also if the inner sum is under a condition (a padded edge). The inner sum must be used
 * only here, both must have about as many elements, and the outer must read each inner sum about once: then the gradients of
 * a convolution's windows are never written. The gradient of two gathers in sequence does not qualify: each outer element
 * reads all inner elements. */
static const bl_node *sum_of_sums(sched *s, const bl_node *node, const bl_node *value, const bl_node **gate)
{
    const bl_node *inner = value;
    int from = 0;
    int64_t outer_count = 0, inner_count = 0, reads = 0;

    *gate = NULL;
    if (value->op == BL_OP_WHERE && index_is_zero(value->src[2])) {
        *gate = value->src[0];
        inner = value->src[1];
    }
    from = sched_origin(s, inner);
    if (node->sub != BL_OP_ADD || inner->op != BL_OP_REDUCE || inner->sub != BL_OP_ADD || inner->arg != 1 || from < 0)
        return NULL;
    if (s->nusers[from] != 1 || !bl_shape_max_count(node->ndim, node->dim, &outer_count) ||
        !bl_shape_max_count(s->order.at[from]->ndim, s->order.at[from]->dim, &inner_count))
        return NULL;
    if (!bl_shape_max_count(node->src[0]->ndim, node->src[0]->dim, &reads) || reads / READS_OF_SUM > inner_count)
        return NULL;
    return outer_count >= inner_count / SUM_OF_SUMS ? inner : NULL;
}

static const bl_node *index_fold(sched *s, const bl_node *node, const bl_node *value, int n, const bl_node **ranges)
{
    bl_ir *ir = s->ir;
    const bl_node *all[BL_MAX_DIMS * 4], *gate = NULL, *inner = sum_of_sums(s, node, value, &gate);

    if (inner == NULL || n + (int)inner->nsrc > BL_MAX_DIMS * 4)
        return bl_reduce_over(ir, (bl_op)node->sub, 1, &value, n, ranges);
    for (int i = 0; i < n; i++)
        all[i] = ranges[i];
    for (uint32_t i = 1; i < inner->nsrc; i++)
        all[n++] = inner->src[i];
    value = inner->src[0];
    if (gate != NULL)
        value = bl_where(ir, gate, value, bl_const_int(ir, (bl_dtype)value->dtype, 0));
    return bl_reduce_over(ir, BL_OP_ADD, 1, &value, n, all);
}

static const bl_node *element_reduce(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    bl_ir *ir = s->ir;
    const bl_node *src = node->src[0];
    const bl_node *at[BL_MAX_DIMS], *ranges[BL_MAX_DIMS], *value = NULL;
    int nranges = 0, level = reduce_level(s, node->ndim, index, gate);

    if (sched_breaks_stage(s, node, index)) {
        if (!sched_cut_after(s, node))
            s->realised[sched_position(s, node)] = BUFFERED;
        s->rebuild = true;
        return bl_const_int(ir, (bl_dtype)node->dtype, 0);
    }
    for (int i = 0; i < node->ndim; i++) {
        bool folded = (node->arg >> i & 1) != 0;
        at[i] = folded ? bl_index(ir, 0) : index[i];
        if (!folded || bl_is_int(src->dim[i], 1))
            continue;
        if (bl_is_int(src->dim[i], 0))
            return bl_const(ir, (bl_dtype)node->dtype, bl_fold_identity((bl_op)node->sub, (bl_dtype)node->dtype));
        at[i] = bl_range(ir, bl_loop_pack(level, nranges), BL_AXIS_REDUCE, src->dim[i]);
        ranges[nranges++] = at[i];
    }
    value = sched_element(s, src, at, gate);
    if (node->sub == BL_OP_ADD)
        value = sched_close_holes(s, value, &nranges, ranges);
    if (nranges == 0)
        return value;
    value = index_fold(s, node, value, nranges, ranges);
    note_origin(s, value, node);
    return value;
}

static const bl_node *element_move(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    bl_ir *ir = s->ir;
    const bl_node *src = node->src[0];
    const bl_node *at[BL_MAX_DIMS];
    int lead = node->ndim - src->ndim;
    int axis = 0;
    int64_t stride = 0, dilation = 0;

    switch (node->op) {
    case BL_OP_RESHAPE:
        reshape_index(ir, node, index, at);
        break;
    case BL_OP_PERMUTE:
        for (int i = 0; i < node->ndim; i++)
            at[bl_perm_get(node->arg, i)] = index[i];
        break;
    case BL_OP_EXPAND:
        for (int i = 0; i < src->ndim; i++)
            at[i] = src->dim[i] == node->dim[i + lead] ? index[i + lead] : bl_index(ir, 0);
        break;
    case BL_OP_SHRINK:
        for (int i = 0; i < node->ndim; i++)
            at[i] = bl_add(ir, index[i], node->src[1 + i]);
        break;
    case BL_OP_FLIP:
        for (int i = 0; i < node->ndim; i++)
            at[i] = (node->arg >> i & 1) == 0 ? index[i] : bl_sub(ir, bl_sub(ir, node->dim[i], bl_index(ir, 1)), index[i]);
        break;
    case BL_OP_WINDOW:
        bl_window_get(node->arg, &axis, &stride, &dilation);
        for (int i = 0; i < src->ndim; i++)
            at[i] = index[i];
        at[axis] =
            bl_add(ir, bl_mul(ir, index[axis], bl_index(ir, stride)), bl_mul(ir, index[node->ndim - 1], bl_index(ir, dilation)));
        break;
    default:
        return bl_ir_fail(ir, BL_EBUG, "%s is not a movement op of one source", bl_op_name((bl_op)node->op));
    }
    return sched_element(s, src, at, gate);
}

static bool is_load(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_LOAD;
}

/* A LOAD on which the index depends stays as it is: it has another gate, or none. */
const bl_node *sched_given(bl_ir *ir, const bl_node *index, const bl_node *gate)
{
    bl_nodes outside = gate == NULL ? (bl_nodes){0} : bl_reach_until(ir, 1, &index, is_load, NULL);
    bl_ptrmap map;

    bl_ptrmap_init(&map, bl_ir_arena(ir));
    for (size_t i = 0; i < outside.count; i++) {
        if (outside.at[i]->op == BL_OP_LOAD)
            bl_ptrmap_put(&map, outside.at[i], outside.at[i]);
    }
    for (size_t i = outside.count; i-- > 0;) {
        const bl_node *node = outside.at[i];
        if ((node->op != BL_OP_MOD && node->op != BL_OP_IDIV) || node->dtype != BL_INDEX ||
            !bl_gate_implies(ir, gate, inside(ir, node->src[0], node->src[1])))
            continue;
        bl_ptrmap_put(&map, node, node->op == BL_OP_MOD ? node->src[0] : bl_index(ir, 0));
        return sched_given(ir, bl_substitute(ir, index, &map), gate);
    }
    return index;
}

const bl_node *sched_offset(const sched *s, const bl_node *node)
{
    for (int i = 0; s->offset != NULL && i < s->nroots; i++) {
        if (s->roots[i] == node)
            return s->offset[i];
    }
    return NULL;
}

static const bl_node *element_load(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    const bl_node *flat = NULL, *given[BL_MAX_DIMS], *needed = NULL, *bounded = bl_index(s->ir, 0), *load = NULL;
    const bl_node *offset = node->op == BL_OP_INPUT ? NULL : sched_offset(s, node);
    bool known = true; /* |needed| and the bounds of |given| prove that the element is inside */

    for (int i = 0; i < node->ndim; i++) {
        const bl_node *in_range = NULL;
        given[i] = sched_given(s->ir, index[i], gate);
        if (given[i]->lo >= 0 && given[i]->hi < node->dim[i]->lo) {
            bounded = bl_add(s->ir, bounded, given[i]);
            continue;
        }
        in_range = inside(s->ir, given[i], node->dim[i]);
        known = known && gate != NULL && bl_gate_implies(s->ir, gate, in_range);
        needed = index_both(s->ir, needed, in_range);
    }
    flat = sched_given(s->ir, sched_flat_index(s->ir, node->ndim, node->dim, known ? given : index), gate);
    if (known)
        gate = needed;
    load = bl_load(s->ir, sched_buffer(s, node), offset == NULL ? flat : bl_add(s->ir, offset, flat), gate);
    if (known)
        bl_ptrmap_put(&s->bounded, load, bounded);
    return load;
}

const bl_node *sched_fresh(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    bl_ir *ir = s->ir;
    const bl_node *src[3], *made = NULL;

    if (node->op == BL_OP_INPUT)
        return element_load(s, node, index, gate);
    if (node->op == BL_OP_CONST || node->op == BL_OP_VAR)
        return node;
    if (node->op == BL_OP_IOTA)
        return bl_cast(ir, (bl_dtype)node->dtype, index[0]);
    if (node->op == BL_OP_PAD)
        return element_pad(s, node, index, gate);
    if (node->op == BL_OP_GATHER)
        return element_gather(s, node, index, gate);
    if (node->op == BL_OP_REDUCE)
        return element_reduce(s, node, index, gate);
    if (node->op == BL_OP_DETACH || node->op == BL_OP_CONTIGUOUS)
        return sched_element(s, node->src[0], index, gate);
    if (bl_op_get_class((bl_op)node->op) == BL_CLASS_MOVE)
        return element_move(s, node, index, gate);
    for (uint32_t i = 0; i < node->nsrc; i++)
        src[i] = sched_element(s, node->src[i], index, gate);
    if (node->op == BL_OP_CAST)
        made = bl_cast(ir, (bl_dtype)node->dtype, src[0]);
    else if (node->op == BL_OP_BITCAST)
        made = bl_bitcast(ir, (bl_dtype)node->dtype, src[0]);
    else
        made = bl_alu(ir, (bl_op)node->op, src);
    note_origin(s, made, node);
    return made;
}

static memo_entry *find_memo(memo_entry *head, const bl_node *node, const bl_node *const *index, const bl_node *gate,
                             int *patterns)
{
    for (memo_entry *entry = head; entry != NULL; entry = entry->next, ++*patterns) {
        bool same = entry->gate == gate;
        for (int i = 0; same && i < node->ndim; i++)
            same = entry->index[i] == index[i];
        if (same)
            return entry;
    }
    return NULL;
}

/* If the arena's limit is exceeded, the graph is too large; else the host is out of memory. */
static const bl_node *index_out_of_memory(sched *s)
{
    bl_err err = {0};
    bl_status st = bl_arena_status(bl_ir_arena(s->ir), &err);
    return bl_ir_fail(s->ir, st == BL_OK ? BL_ENOMEM : st, "%s", st == BL_OK ? "out of host memory" : err.text);
}

const bl_node *sched_element(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    int patterns = 1;
    int position = sched_position(s, node);
    memo_entry *entry = find_memo(bl_ptrmap_get(&s->memo, node), node, index, gate, &patterns);

    if (entry != NULL)
        return entry->value;
    entry = bl_arena_alloc(bl_ir_arena(s->ir), sizeof *entry + (size_t)node->ndim * sizeof entry->index[0]);
    if (entry == NULL || position < 0)
        return index_out_of_memory(s);
    for (int i = 0; i < node->ndim; i++)
        entry->index[i] = index[i];
    entry->gate = gate;
    limit_patterns(s, node, position, patterns);
    if (s->realised[position] == BUFFERED) {
        entry->value = element_load(s, node, index, gate);
    } else if (s->realised[position] == STAGED) {
        entry->value = sched_staged_element(s, node, index, gate);
    } else {
        entry->value = sched_fresh(s, node, index, gate);
    }
    entry->next = bl_ptrmap_get(&s->memo, node);
    bl_ptrmap_put(&s->memo, node, entry);
    return entry->value;
}
