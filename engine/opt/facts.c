/* SPDX-License-Identifier: MIT */
#include "engine/opt/facts.h"

enum {
    OVER_AND_OVER = 2,   /* with a tile, a product of two rows by a matrix took 0.25 to 0.7 of the time */
    REUSE_TO_PACK = 16,  /* reads per element from which packing pays */
    REUSE_OF_STREWN = 8, /* the same if each lane has a cache line: the gradient of 32 maps of 7 x 7, 4 x 4 with stride 3 and
                            dilation 2, took 285 us without a panel, with one 75 */
    CACHE_LINE = 64      /* bytes */
};

int facts_contiguity(facts *f, const bl_node *node, const bl_node *range)
{
    int64_t stride = 0;
    bool gate = node->op == BL_OP_LOAD && node->nsrc > 2 && bl_depends(f->tune, node->src[2], range);
    if (!bl_access_stride(f->tune, node, range, &stride) || (gate && stride == 0))
        return -1; /* with stride 1 and a gate along the axis, most vectors are wholly inside */
    return stride == 0 || stride == 1 ? (int)stride : -1;
}

bool facts_all_contiguous(facts *f, const bl_node *range)
{
    bool any = false;
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        if ((node->op != BL_OP_LOAD && node->op != BL_OP_STORE) || !bl_depends(f->tune, node, range))
            continue;
        if (facts_contiguity(f, node, range) < 0)
            return false;
        any = true;
    }
    return any;
}

int facts_outer_part(const bl_tune *tune, const bl_node *range)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (bl_axis_same(tune->axis[i].range, range))
            return i;
    }
    return -1;
}

int facts_inner_part(const bl_tune *tune, const bl_node *range)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *part = tune->axis[i].range;
        if (bl_axis_origin(part) == bl_axis_origin(range) && bl_axis_unpack(part).part > bl_axis_unpack(range).part + 1)
            return i; /* + 1 is bl_axis_rest */
    }
    return -1;
}

int facts_axis_of(const bl_tune *tune, const bl_node *range)
{
    for (int i = 0; i < tune->naxes; i++) {
        if (tune->axis[i].range == range)
            return i;
    }
    return -1;
}

size_t facts_widest(const facts *f, const bl_node *range)
{
    size_t bytes = 1;
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        size_t own = bl_dtype_bytes((bl_dtype)node->dtype);
        if (node->dtype == BL_INDEX || node->op == BL_OP_SINK || !bl_depends(f->tune, node, range))
            continue;
        if (node->dtype == BL_F16 || node->dtype == BL_BF16 || node->dtype == BL_BOOL)
            own = 4; /* computed as 4 bytes */
        bytes = own > bytes ? own : bytes;
    }
    return bytes;
}

static void add_access(facts *f, const bl_node *node, const bl_node *reduce, uint64_t loops)
{
    if (f->naccesses < MOST_ACCESSES)
        f->access[f->naccesses++] = (access){node, reduce, loops};
}

static bool is_stage(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_STAGE;
}

bl_nodes tune_reach_phase(bl_ir *ir, int n, const bl_node *const *roots)
{
    return bl_reach_until(ir, n, roots, is_stage, NULL);
}

/* The loads of a reduction's values, without those of reductions inside it. */
static void accesses_below(facts *f, const bl_node *reduce)
{
    uint64_t loops = bl_free_get(&f->tune->free, reduce) | bl_free_bound(&f->tune->free, reduce);
    bl_nodes inside = tune_reach_phase(f->tune->ir, (int)reduce->arg, reduce->src);
    for (size_t i = 0; i < inside.count; i++) {
        if (inside.at[i]->op == BL_OP_LOAD)
            add_access(f, inside.at[i], reduce, loops);
    }
}

void facts_init(facts *f, bl_tune *tune)
{
    uint64_t all = 0, most = 0;

    *f = (facts){.tune = tune};
    f->below = bl_reach(tune->ir, 1, &tune->sink, false);
    (void)bl_free_get(&tune->free, tune->sink);
    for (int i = 0; i < tune->naxes; i++) {
        uint64_t bit = bl_free_bit(&tune->free, tune->axis[i].range);
        all |= bit;
        if (tune->axis[i].output)
            f->outputs |= bit;
    }
    f->total = bl_free_size(&tune->free, all);
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        if (node->op == BL_OP_REDUCE)
            accesses_below(f, node);
        else if (node->op == BL_OP_STORE || node->op == BL_OP_LOAD)
            add_access(f, node, NULL, bl_free_get(&tune->free, node));
    }
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        uint64_t work = 0;
        if (node->op != BL_OP_REDUCE || bl_free_get(&tune->free, node) != f->outputs ||
            !bl_reads_over_and_over(&tune->free, node, OVER_AND_OVER, true))
            continue;
        work = (uint64_t)bl_free_work(&tune->free, node);
        if (work > most) {
            most = work;
            f->main = node;
        }
    }
}

/* The axes of |free| that a tile may have: not those around the stages. */
static uint64_t tiled_set(facts *f, uint64_t free)
{
    for (int i = 0; i < f->tune->naxes; i++) {
        if (tune_holds_stage(f->tune, f->tune->axis[i].range))
            free &= ~bl_free_bit(&f->tune->free, f->tune->axis[i].range);
    }
    return free;
}

void facts_focus(facts *f, bl_tune *tune, const bl_node *focus)
{
    facts all;

    facts_init(&all, tune);
    *f = all;
    f->focus = focus;
    f->main = NULL;
    f->naccesses = 0;
    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        if (node->op != BL_OP_REDUCE || bl_axis_origin(node->src[node->arg]) != bl_axis_origin(focus))
            continue;
        accesses_below(f, node);
        f->main = node;
    }
    for (size_t i = 0; f->main != NULL && i < f->below.count; i++) {
        const bl_node *store = f->below.at[i];
        if (store->op == BL_OP_STORE && bl_free_get(&tune->free, store) == bl_free_get(&tune->free, f->main))
            add_access(f, store, NULL, bl_free_get(&tune->free, store));
    }
    f->outputs = f->main == NULL ? 0 : tiled_set(f, bl_free_get(&tune->free, f->main));
}

void facts_again(facts *f, const facts *before)
{
    bl_tune *tune = before->tune;
    if (before->focus != NULL)
        facts_focus(f, tune, before->focus);
    else
        facts_init(f, tune);
}

void facts_undo(facts *f, const facts *before, const tune_mark *start)
{
    tune_undo(before->tune, start);
    facts_again(f, before);
}

bool facts_split(bl_tune *tune, const bl_target *target, int axis, const bl_parting *how)
{
    int64_t parts = (uint32_t)tune->nparams < target->max_params ? bl_parts_choose(how) : 1;
    return parts > 1 && bl_tune_apply_at(tune, BL_PARTIAL_GLOBAL, axis, parts);
}

bool facts_read_by_several(bl_tune *tune, const bl_node *load, const bl_node *except)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub == BL_AXIS_LOCAL && range != except && !bl_depends(tune, load, range))
            return true;
    }
    return false;
}

int64_t facts_part_of(const bl_node *range, int64_t most)
{
    int64_t extent = bl_extent_of(range);
    if (extent <= most)
        return extent;
    for (int64_t part = most; bl_is_fixed(range) && part > most / 2; part--) {
        if (extent % part == 0)
            return part;
    }
    return most;
}

int64_t facts_groups(const bl_tune *tune, const bl_node *a, const bl_node *b)
{
    int64_t groups = 1;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub == BL_AXIS_GLOBAL && range != a && range != b && groups < INT32_MAX)
            groups *= bl_extent_of(range);
    }
    return groups;
}

double facts_panel_elements(const bl_tune *tune)
{
    double elements = 0;

    for (int i = 0; i < tune->npacked; i++)
        elements += (double)(bl_is_const(tune->packed[i].count) ? tune->packed[i].count->arg : 0);
    return elements;
}

bool facts_may_tile(const facts *f, const bl_axis *axis)
{
    if (f->focus != NULL)
        return (f->outputs & bl_free_bit(&f->tune->free, axis->range)) != 0;
    return axis->output && axis->outer;
}

double facts_arithmetic(facts *f, const bl_node *range, int lanes)
{
    bl_tune *tune = f->tune;
    double operations = 0;

    for (size_t i = 0; i < f->below.count; i++) {
        const bl_node *node = f->below.at[i];
        uint64_t around = 0; /* the loops around the innermost one that it depends on */
        if (node->op == BL_OP_REDUCE)
            return 0;
        if (bl_op_get_class((bl_op)node->op) != BL_CLASS_ALU || node->dtype == BL_INDEX || node->dtype == BL_BOOL)
            continue;
        for (int k = tune->naxes - 1; k >= 0; k--) {
            if (around != 0 || bl_depends(tune, node, tune->axis[k].range))
                around |= bl_free_bit(&tune->free, tune->axis[k].range);
        }
        operations += (double)bl_free_size(&tune->free, around) / (range != NULL && bl_depends(tune, node, range) ? lanes : 1);
    }
    return operations;
}

bool facts_is_strewn(const facts *f, const bl_node *node, const bl_node *range)
{
    int64_t stride = 0, bytes = (int64_t)bl_dtype_bytes((bl_dtype)node->src[0]->dtype);
    return !bl_access_stride(f->tune, node, range, &stride) || (stride < 0 ? -stride : stride) * bytes > CACHE_LINE / 2;
}

bool facts_can_pack(facts *f, const access *a, const bl_node *reduce, const bl_node *lanes, const bl_target *target)
{
    bl_tune *tune = f->tune;
    bool strewn = lanes != NULL && !target->groups && facts_is_strewn(f, a->node, lanes);
    uint64_t set = bl_free_get(&tune->free, a->node);

    if (a->reduce != reduce || reduce == NULL || a->node->op != BL_OP_LOAD || a->node->src[0]->op != BL_OP_BUFFER)
        return false;
    if (!target->groups && bl_dtype_is_int((bl_dtype)a->node->dtype) && bl_dtype_is_float((bl_dtype)reduce->dtype))
        return false; /* a panel of codes would be a second copy of a quantised weight */
    if ((uint32_t)tune->nparams + 1 > target->max_params || tune->npacked == BL_MAX_HELPERS)
        return false;
    for (int i = 0; i < tune->naxes; i++) {
        if ((set & bl_free_bit(&tune->free, tune->axis[i].range)) != 0 && !bl_is_fixed(tune->axis[i].range))
            return false;
    }
    return bl_free_size(&tune->free, a->loops) / (strewn ? REUSE_OF_STREWN : REUSE_TO_PACK) >= bl_free_size(&tune->free, set);
}
