/* SPDX-License-Identifier: MIT */
/* Trim the loops over stages to the elements that count. The scores of a causal attention are -inf above the diagonal, the
 * exponentials there are 0, and the sums over the keys do not change by them. So these sums end at the last key that a row of
 * the block sees, and no stage is filled beyond that key: blocks above the diagonal are not computed. As for padding, a NaN or
 * an infinity in the other factor of a zero does not count. Needs: RANGEs of any kind. Keeps: values. Leaves: LOOP and REDUCE
 * ranges, the extents of which may depend on other RANGEs. */
#include "engine/base/map.h"
#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/lower/lower.h"

#include <math.h>

enum {
    MOST_FOLDINGS = 128, /* REDUCEs and STAGEs of a nest */
    MOST_STEP = 256 /* elements to which the ends of all loops are rounded: the most that an iteration of one of them handles */
};

/* A value is |neutral| unless 0 < sign * at + end. |at| is the position in a row of a stage, in RANGEs that a REDUCE or a STAGE
 * binds; |end| is the same in all iterations of these. |sign| is 0 for a constant. */
typedef struct cut {
    const bl_node *neutral; /* NULL: not known to be constant anywhere */
    int sign;
    const bl_node *end, *at;
} cut;

typedef struct folding {
    const bl_node *node; /* a REDUCE, or a STAGE of one store that fills */
    cut cut;             /* of the value that is folded or stored */
    int64_t row;         /* of a STAGE: elements from row to row, 0 for a single row */
    bool trims;
    const bl_node *range; /* the loop that is trimmed ... */
    int64_t step, first;  /* ... its elements per iteration, and the element of its first iteration */
} folding;

typedef struct trimming_stages {
    bl_ir *ir;
    int n;
    folding at[MOST_FOLDINGS]; /* in topological order, sources first */
    int64_t step;              /* a multiple of the steps of all loops that are trimmed */
} trimming_stages;

static folding *folding_of(trimming_stages *t, const bl_node *node)
{
    for (int i = 0; i < t->n; i++) {
        if (t->at[i].node == node)
            return &t->at[i];
    }
    return NULL;
}

static bool binds_any(bl_ir *ir, const bl_node *node, const bl_node *value)
{
    return bl_reaches(ir, 1, &value, (int)(node->nsrc - node->arg), node->src + node->arg);
}

static bool is_copied(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_RANGE && (node->sub == BL_AXIS_TILE || node->sub == BL_AXIS_VECTOR || node->sub == BL_AXIS_LOCAL);
}

/* ---- where values are neutral */

/* Split |open| = sign * position + end for the elements of |stage|. |end| is the largest of all rows that the stage holds. */
static bool split_open(bl_ir *ir, folding *f, const bl_affine *open, cut *out)
{
    const bl_node *stage = f->node;
    bl_affine index, at, end;

    if (!bl_affine_of(&index, stage->src[0]->src[1]) || index.constant != 0)
        return false;
    for (int sign = -1; sign <= 1; sign += 2) {
        int64_t row = 0;
        bl_affine_init(&at, 0);
        bl_affine_init(&end, open->constant);
        for (int i = 0; i < open->count; i++) {
            const bl_node *range = open->at[i].node;
            int64_t by = open->at[i].coefficient;
            if (!bl_binds(stage, range)) {
                bl_affine_add(&end, range, by);
            } else if (bl_affine_along(&index, range) == sign * by) {
                bl_affine_add(&at, range, sign * by);
            } else {
                bl_affine_add_constant(&end, by > 0 ? by * range->hi : 0);
            }
        }
        for (int i = 0; i < index.count; i++) {
            int64_t by = index.at[i].coefficient;
            if (bl_affine_along(&at, index.at[i].node) == 0 && (row == 0 || by < row))
                row = by;
        }
        if (at.count == 0)
            continue;
        f->row = row;
        *out = (cut){.sign = sign, .end = bl_affine_build(ir, &end), .at = bl_affine_build(ir, &at)};
        return !binds_any(ir, stage, out->end) && bl_find(ir, 1, &out->end, is_copied, NULL) == NULL;
    }
    return false;
}

/* |value| = where(condition, a, b) with a constant side, in a stage. */
static cut cut_of_choice(bl_ir *ir, folding *f, const bl_node *value)
{
    bool closed = bl_is_const(value->src[1]); /* where the condition holds, the value is a constant */
    bl_clauses all = {0};
    cut found = {0};

    if (f->node->op != BL_OP_STAGE || closed == bl_is_const(value->src[2]) || !bl_clauses_add(&all, value->src[0]) ||
        (closed && all.count > 1))
        return found;
    for (int i = 0; i < all.count && found.neutral == NULL; i++) {
        const bl_node *clause = all.at[i];
        bl_affine open;
        if (clause->op != BL_OP_CMPLT || clause->src[0]->dtype != BL_INDEX)
            continue;
        bl_affine_difference(&open, clause->src[closed ? 0 : 1], clause->src[closed ? 1 : 0]);
        bl_affine_add_constant(&open, closed ? 1 : 0); /* not 0 < y - x: 0 < x - y + 1 */
        if (!open.failed && split_open(ir, f, &open, &found))
            found.neutral = value->src[closed ? 1 : 2];
    }
    return found.neutral == NULL ? (cut){0} : found;
}

/* The part of the index of |load| that is the position in a row of |stage|; NULL if it has no simple form. */
static const bl_node *position_of(bl_ir *ir, const folding *stage, const bl_node *load)
{
    bl_affine index, at;

    if (load->nsrc > 2 || !bl_affine_of(&index, load->src[1]) || index.constant < 0)
        return NULL;
    bl_affine_init(&at, stage->row > 0 ? index.constant % stage->row : index.constant);
    for (int i = 0; i < index.count; i++) {
        int64_t by = index.at[i].coefficient;
        if (stage->row == 0 || (by < stage->row && by > -stage->row))
            bl_affine_add(&at, index.at[i].node, by);
        else if (by % stage->row != 0)
            return NULL;
    }
    return bl_affine_build(ir, &at);
}

/* Are all terms of |at| RANGEs that |f| binds, which a stage stores in the same steps? */
static bool is_along(const folding *f, const bl_node *at)
{
    bool stage = f->node->op == BL_OP_STAGE;
    bl_affine sum, index;

    if (!bl_affine_of(&sum, at) || sum.count == 0 || (stage && !bl_affine_of(&index, f->node->src[0]->src[1])) ||
        (stage && (sum.constant != 0 || index.constant != 0)))
        return false;
    for (int i = 0; i < sum.count; i++) {
        const bl_node *range = sum.at[i].node;
        if (!bl_binds(f->node, range) || (stage && bl_affine_along(&index, range) != sum.at[i].coefficient))
            return false;
    }
    return true;
}

/* The stride between the rows of a stage, in elements. |at|: the positions in a row. */
static int64_t row_step(const folding *f, const bl_node *at)
{
    bl_affine sum, index;
    int64_t row = 0;

    if (f->node->op != BL_OP_STAGE || !bl_affine_of(&sum, at) || !bl_affine_of(&index, f->node->src[0]->src[1]))
        return 0;
    for (int i = 0; i < index.count; i++) {
        int64_t by = index.at[i].coefficient;
        if (bl_affine_along(&sum, index.at[i].node) == 0 && (row == 0 || by < row))
            row = by;
    }
    return row;
}

static cut cut_of_load(trimming_stages *t, folding *f, const bl_node *load)
{
    const folding *stage = load->src[0]->op == BL_OP_STAGE ? folding_of(t, load->src[0]) : NULL;
    const bl_node *at = stage == NULL || stage->cut.neutral == NULL ? NULL : position_of(t->ir, stage, load);
    cut found = {0};

    if (at == NULL || !is_along(f, at) || binds_any(t->ir, f->node, stage->cut.end))
        return found;
    f->row = row_step(f, at);
    found = stage->cut;
    found.at = at;
    return found;
}

static bool is_zero(const bl_node *value)
{
    return bl_is_const(value) && value->arg == 0;
}

static bool is_lowest(const bl_node *value)
{
    return bl_is_const(value) && bl_dtype_is_float((bl_dtype)value->dtype) && bl_const_value(value).f == -INFINITY;
}

/* The value of |node| where its operands are |part|: the known constants, NULL for an unknown number. NULL: unknown. */
static const bl_node *neutral_of(bl_ir *ir, const bl_node *node, const bl_node *const *part)
{
    bool all = true;

    for (uint32_t i = 0; i < node->nsrc; i++)
        all = all && part[i] != NULL;
    if (all) {
        const bl_node *made = bl_node_over(ir, node, part);
        return bl_is_const(made) ? made : NULL;
    }
    if (node->op == BL_OP_MUL)
        return part[0] != NULL && is_zero(part[0]) ? part[0] : part[1] != NULL && is_zero(part[1]) ? part[1] : NULL;
    if (node->op == BL_OP_DIV)
        return part[0] != NULL && is_zero(part[0]) ? part[0] : NULL;
    if (node->op == BL_OP_SUB)
        return part[0] != NULL && is_lowest(part[0]) ? part[0] : NULL;
    if (node->op == BL_OP_ADD)
        return part[0] != NULL && is_lowest(part[0]) ? part[0] : part[1] != NULL && is_lowest(part[1]) ? part[1] : NULL;
    if (node->op == BL_OP_WHERE)
        return part[1] == part[2] ? part[1] : NULL;
    return NULL;
}

/* The cut of a scalar op from those of its operands. */
static cut cut_of_op(bl_ir *ir, const bl_node *node, const cut *const *of)
{
    const bl_node *part[3] = {0};
    cut found = {0};

    if (node->nsrc > 3)
        return found;
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (of[i] == NULL || of[i]->neutral == NULL)
            continue;
        if (of[i]->sign != 0 && found.sign != 0 &&
            (of[i]->sign != found.sign || of[i]->end != found.end || of[i]->at != found.at))
            continue; /* another cut: an unknown number beyond the first */
        if (of[i]->sign != 0)
            found = *of[i];
        part[i] = of[i]->neutral;
    }
    found.neutral = found.sign == 0 ? NULL : neutral_of(ir, node, part);
    return found.neutral == NULL ? (cut){0} : found;
}

static bool is_stage_node(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_STAGE;
}

/* The cut of the value that |f| folds or stores. */
static cut find_cut(trimming_stages *t, folding *f)
{
    const bl_node *value = f->node->op == BL_OP_STAGE ? f->node->src[0]->src[2] : f->node->src[0];
    bl_nodes phase = bl_reach_until(t->ir, 1, &value, is_stage_node, NULL);
    cut *cuts = bl_arena_array(bl_ir_arena(t->ir), phase.count + 1, sizeof *cuts);
    bl_ptrmap of;

    bl_ptrmap_init(&of, bl_ir_arena(t->ir));
    for (size_t i = 0; cuts != NULL && i < phase.count; i++) {
        const bl_node *node = phase.at[i];
        const cut *parts[3] = {0};
        if (bl_is_const(node) && node->dtype != BL_INDEX)
            cuts[i] = (cut){.neutral = node};
        else if (node->op == BL_OP_LOAD)
            cuts[i] = cut_of_load(t, f, node);
        else if (bl_op_get_class((bl_op)node->op) == BL_CLASS_ALU && node->dtype != BL_INDEX && node->nsrc <= 3) {
            for (uint32_t k = 0; k < node->nsrc; k++)
                parts[k] = bl_ptrmap_get(&of, node->src[k]);
            cuts[i] = cut_of_op(t->ir, node, parts);
            if (cuts[i].neutral == NULL && node->op == BL_OP_WHERE)
                cuts[i] = cut_of_choice(t->ir, f, node);
        }
        bl_ptrmap_put(&of, node, &cuts[i]);
    }
    return phase.count == 0 || cuts == NULL ? (cut){0} : cuts[phase.count - 1]; /* the value has the highest id */
}

/* ---- which loops */

/* The loop of |f| that steps over most elements at a time. False if it has none, or if its steps are of no use. */
static bool find_loop(trimming_stages *t, folding *f)
{
    int64_t inner = 0, whole = 0;
    bl_affine at;

    if (f->cut.sign == 0 || !bl_affine_of(&at, f->cut.at))
        return false;
    for (int i = 0; i < at.count; i++) {
        const bl_node *range = at.at[i].node;
        if (at.at[i].coefficient > f->step && (range->sub == BL_AXIS_LOOP || range->sub == BL_AXIS_REDUCE)) {
            f->range = range;
            f->step = at.at[i].coefficient;
        }
    }
    f->first = at.constant;
    for (int i = 0; i < at.count; i++)
        inner += at.at[i].node == f->range ? 0 : at.at[i].coefficient * at.at[i].node->hi;
    if (f->range == NULL || inner >= f->step || f->first % f->step != 0 || f->step > MOST_STEP)
        return false;
    for (whole = t->step; whole % f->step != 0;)
        whole += t->step;
    t->step = whole;
    return true;
}

/* Does the fold not change by what |f| folds outside? A stage keeps values that are not read. */
static bool is_neutral(const folding *f)
{
    if (f->cut.neutral == NULL)
        return false;
    if (f->node->op == BL_OP_STAGE)
        return true;
    return f->node->sub == BL_OP_ADD ? is_zero(f->cut.neutral) : f->node->sub == BL_OP_MAX && is_lowest(f->cut.neutral);
}

static bool is_that_load(const bl_node *node, const void *load)
{
    return node == load;
}

/* Is |load|, which reads |stage|, in a loop, and are all such loops trimmed where the stage is? */
static bool load_is_within(trimming_stages *t, const folding *stage, const bl_node *load)
{
    const bl_node *at = position_of(t->ir, stage, load);
    bool within = false;

    for (int i = 0; i < t->n && at != NULL; i++) {
        const folding *f = &t->at[i];
        if (!binds_any(t->ir, f->node, at) || bl_find(t->ir, (int)f->node->arg, f->node->src, is_that_load, load) == NULL)
            continue;
        within = f->trims && f->cut.at == at && f->cut.end == stage->cut.end && f->cut.sign == stage->cut.sign;
        if (!within)
            return false;
    }
    return within;
}

/* Does every load of |stage| stay within the elements that the trimmed stage fills? */
static bool is_read_within(trimming_stages *t, const bl_nodes *below, const folding *stage)
{
    bool within = true;

    for (size_t i = 0; i < below->count && within; i++) {
        const bl_node *load = below->at[i];
        within = load->op != BL_OP_LOAD || load->src[0] != stage->node || load_is_within(t, stage, load);
    }
    return within;
}

/* Find all loops that may be trimmed. */
static void survey_foldings(trimming_stages *t, const bl_nodes *below)
{
    for (size_t i = 0; i < below->count && t->n < MOST_FOLDINGS; i++) {
        const bl_node *node = below->at[i];
        folding *f = &t->at[t->n];
        if (node->op != BL_OP_REDUCE && node->op != BL_OP_STAGE)
            continue;
        *f = (folding){.node = node};
        t->n++;
        if (node->arg == 1 && (node->op == BL_OP_REDUCE || (node->sub == BL_STAGE_FILLS && node->src[0]->nsrc == 3)))
            f->cut = find_cut(t, f);
        f->trims = is_neutral(f) && find_loop(t, f);
    }
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < t->n; i++) {
            folding *f = &t->at[i];
            if (f->trims && f->node->op == BL_OP_STAGE && !is_read_within(t, below, f)) {
                f->trims = false;
                again = true;
            }
        }
    }
}

/* ---- new ends */

/* |f| with its loop trimmed; |made| is its node over rewritten sources. A loop that starts late runs backwards, so that the
 * bounds of its index are those of the whole loop. */
static const bl_node *trim_folding(trimming_stages *t, const folding *f, const bl_node *made)
{
    bl_ir *ir = t->ir;
    const bl_node *step = bl_index(ir, f->step), *whole = bl_index(ir, t->step), *extent = f->range->src[0], *left = NULL;
    const bl_node *own = NULL, *index = NULL, *value = NULL, *ranges[BL_MAX_DIMS * 2];
    int n = 0;

    if (f->cut.sign < 0) { /* position < end */
        left = bl_mul(ir, bl_idiv(ir, bl_add(ir, f->cut.end, bl_index(ir, t->step - 1)), whole), whole);
        left = bl_idiv(ir, bl_add(ir, left, bl_index(ir, f->step - 1 - f->first)), step);
    } else { /* position >= 1 - end */
        left = bl_mul(ir, bl_idiv(ir, bl_sub(ir, bl_index(ir, 1), f->cut.end), whole), whole);
        left = bl_sub(ir, extent, bl_idiv(ir, bl_sub(ir, left, bl_index(ir, f->first)), step));
    }
    own = bl_range_like(ir, f->range, (bl_axis_kind)f->range->sub, bl_alu2(ir, BL_OP_MIN, extent, left));
    if (own == f->range || made->nsrc - made->arg > BL_MAX_DIMS * 2)
        return made;
    index = f->cut.sign < 0 ? own : bl_sub(ir, bl_sub(ir, extent, bl_index(ir, 1)), own);
    for (uint32_t i = (uint32_t)made->arg; i < made->nsrc; i++)
        ranges[n++] = made->src[i] == f->range ? own : made->src[i];
    value = bl_lower_move_range(ir, made->src[0], f->range, index);
    return made->op == BL_OP_STAGE ? bl_stage_over(ir, made->sub, 1, &value, n, ranges)
                                   : bl_reduce_over(ir, (bl_op)made->sub, 1, &value, n, ranges);
}

static const bl_node *trim_staged(void *arg, const bl_node *node, const bl_node *const *src)
{
    trimming_stages *t = arg;
    const bl_node *made = bl_node_with(t->ir, node, src);
    const folding *f = node->op == BL_OP_REDUCE || node->op == BL_OP_STAGE ? folding_of(t, node) : NULL;

    return f != NULL && f->trims ? trim_folding(t, f, made) : made;
}

const bl_node *bl_lower_trim_stages(bl_ir *ir, const bl_node *sink)
{
    trimming_stages *t = NULL;
    bl_nodes below = {0};

    if (bl_find_op(ir, sink, BL_OP_STAGE) == NULL)
        return sink;
    t = bl_arena_alloc(bl_ir_arena(ir), sizeof *t);
    below = bl_reach(ir, 1, &sink, false);
    if (t == NULL)
        return sink;
    *t = (trimming_stages){.ir = ir, .step = 1};
    survey_foldings(t, &below);
    return t->step <= MOST_STEP ? bl_rewrite(ir, sink, trim_staged, t) : sink;
}
