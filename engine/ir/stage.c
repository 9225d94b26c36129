/* SPDX-License-Identifier: MIT */
#include "engine/ir/stage.h"

_Static_assert((int)BL_OP_ADD < (int)BL_STAGE_NARROW && (int)BL_OP_MUL < (int)BL_STAGE_NARROW &&
                   (int)BL_OP_MAX < (int)BL_STAGE_NARROW && (int)BL_OP_MIN < (int)BL_STAGE_NARROW,
               "a fold's op and a kind of stage are told apart by size");

int64_t bl_stage_elements(const bl_node *stage)
{
    int64_t n = stage->src[0]->src[0]->arg >> BL_LOCAL_ELEMENTS;
    for (int64_t i = 0; i < stage->arg; i++) {
        const bl_node *store = stage->src[i];
        int64_t end = store->src[1]->hi + (store->src[1]->lanes > 1 ? 1 : store->lanes);
        n = end > n ? end : n;
    }
    return n;
}

int64_t bl_stage_memory_bytes(const bl_stage_memory *plan)
{
    int64_t most[BL_MAX_STAGES] = {0}, total = 0;

    for (int i = 0; i < plan->nstages; i++) {
        int64_t bytes =
            bl_local_bytes((bl_dtype)plan->stage[i]->dtype, BL_STAGE_NARROWS(plan->stage[i]), bl_stage_elements(plan->stage[i]));
        if (bytes <= most[plan->memory[i]])
            continue;
        total += bytes - most[plan->memory[i]];
        most[plan->memory[i]] = bytes;
    }
    return total;
}

/* Facts about one nest, indexed by the position of a node in |below|. */
typedef struct nest {
    bl_ir *ir;
    bl_free *free;
    bl_nodes below;
    bl_ptrmap position; /* node -> position in below, plus 1 */
    bool *mark;
} nest;

static size_t stage_position_of(const nest *n, const bl_node *node)
{
    return (size_t)bl_ptrmap_number(&n->position, node) - 1;
}

/* Is |node|, which |stage| depends on, a loop that ends before any loop of the stage begins: does it depend on no loops but
 * those around the stage? */
static bool is_done_before(nest *n, const bl_node *node, const bl_node *stage)
{
    return bl_binds_ranges(node) && (bl_free_get(n->free, node) & ~bl_free_get(n->free, stage)) == 0;
}

/* Mark all nodes that |stage| depends on. */
static void mark_below(nest *n, const bl_node *stage)
{
    for (size_t i = 0; i < n->below.count; i++)
        n->mark[i] = false;
    n->mark[stage_position_of(n, stage)] = true;
    for (size_t i = n->below.count; i-- > 0;) {
        const bl_node *node = n->below.at[i];
        for (uint32_t k = 0; n->mark[i] && k < node->nsrc; k++)
            n->mark[stage_position_of(n, node->src[k])] = true;
    }
}

/* May two stores of the stage write the same element? Stores of an unrolled loop do, if the last copy overlaps the copy
 * before. */
static bool stores_overlap(nest *n, const bl_node *stage)
{
    for (int64_t i = 0; i < stage->arg; i++) {
        for (int64_t k = 0; k < i; k++) {
            const bl_node *a = stage->src[i], *b = stage->src[k], *apart = NULL;
            int64_t lanes = a->lanes > b->lanes ? a->lanes : b->lanes;
            if (a->src[1]->lanes > 1 || b->src[1]->lanes > 1)
                return true; /* a scatter: the lanes have arbitrary indices */
            apart = bl_sub(n->ir, a->src[1], b->src[1]);
            if (!bl_is_const(apart) || (apart->lo < lanes && apart->lo > -lanes))
                return true;
        }
    }
    return false;
}

static bool stage_is_in(const bl_node *node, const void *set)
{
    return bl_ptrmap_has(set, node);
}

/* Does |store| of |stage| load elements of |other| that it does not overwrite, inside the loops of the stage? Nodes in |before|
 * have been computed earlier. */
static bool reads_elsewhere(nest *n, const bl_node *stage, const bl_node *store, const bl_node *other, const bl_ptrmap *before)
{
    bl_nodes during = bl_reach_until(n->ir, 1, &store->src[2], stage_is_in, before);
    uint64_t around = bl_free_get(n->free, stage);

    for (size_t i = 0; i < during.count; i++) {
        const bl_node *node = during.at[i];
        if (node->op == BL_OP_LOAD && node->src[0] == other && node->src[1] != store->src[1] && !bl_ptrmap_has(before, node) &&
            (bl_free_get(n->free, node) & ~around) != 0)
            return true;
    }
    return false;
}

static bool stage_is_range(const bl_node *node, const void *none)
{
    (void)none;
    return node->op == BL_OP_RANGE;
}

/* In-place update: does each store of |stage| load from |other| only the element that it overwrites, and write each element
 * once? */
static bool is_in_place(nest *n, const bl_node *stage, const bl_node *other, const bl_ptrmap *before)
{
    if (BL_STAGE_FOLDS(stage) || stores_overlap(n, stage)) /* a stage that folds starts with every element at the identity */
        return false;
    for (int64_t i = 0; i < stage->arg; i++) {
        const bl_node *store = stage->src[i];
        bl_nodes index = bl_reach_until(n->ir, 1, &store->src[1], stage_is_range, NULL); /* a loop's end may be a minimum */
        for (size_t k = 0; k < index.count; k++) {
            if (index.at[k]->op == BL_OP_MIN)
                return false; /* the last iteration overlaps the iteration before */
        }
        if (reads_elsewhere(n, stage, store, other, before))
            return false;
    }
    return true;
}

/* May |stage| share memory with |other|: is |other| dead when |stage| is filled, except for reads by |stage| itself if
 * |in_place|? */
static bool may_follow(nest *n, const bl_node *sink, const bl_node *other, const bl_node *stage, bool in_place)
{
    bool *live = n->mark;
    bl_ptrmap before;

    if (((other->sub | stage->sub) & BL_STAGE_SHARED) != 0)
        return false; /* some work-items may still read the one while others fill the other */
    if (other->dtype != stage->dtype || bl_free_get(n->free, other) != bl_free_get(n->free, stage))
        return false;
    bl_ptrmap_init(&before, bl_ir_arena(n->ir));
    mark_below(n, stage);
    for (size_t i = 0; i < n->below.count; i++) {
        if (n->mark[i] && n->below.at[i] != stage && is_done_before(n, n->below.at[i], stage))
            bl_ptrmap_add(&before, n->below.at[i]);
    }
    if (!bl_ptrmap_has(&before, other))
        return false; /* |other| might be filled later */
    for (size_t i = 0; i < n->below.count; i++)
        live[i] = false;
    live[stage_position_of(n, sink)] = true;
    for (size_t i = n->below.count; i-- > 0;) {
        const bl_node *node = n->below.at[i];
        if (!live[i] || (bl_ptrmap_has(&before, node) && node != other))
            continue;
        if (node == stage && in_place && is_in_place(n, stage, other, &before)) {
            live[i] = false;
            continue;
        }
        for (uint32_t k = 0; k < node->nsrc; k++)
            live[stage_position_of(n, node->src[k])] = true;
    }
    return !live[stage_position_of(n, other)];
}

bool bl_stage_memory_plan(bl_ir *ir, const bl_node *sink, bl_free *free, bool in_place, bl_stage_memory *plan)
{
    nest n = {.ir = ir, .free = free, .below = bl_reach(ir, 1, &sink, false)};

    *plan = (bl_stage_memory){0};
    bl_ptrmap_init(&n.position, bl_ir_arena(ir));
    n.mark = bl_arena_array(bl_ir_arena(ir), n.below.count, sizeof *n.mark);
    for (size_t i = 0; n.mark != NULL && i < n.below.count; i++)
        bl_ptrmap_put_number(&n.position, n.below.at[i], i + 1);
    for (size_t i = 0; n.mark != NULL && i < n.below.count; i++) {
        const bl_node *stage = n.below.at[i];
        int memory = 0;
        if (stage->op != BL_OP_STAGE)
            continue;
        if (plan->nstages == BL_MAX_STAGES)
            return false;
        for (; memory < plan->nmemories; memory++) {
            bool fits = true;
            for (int k = 0; k < plan->nstages && fits; k++)
                fits = plan->memory[k] != memory || may_follow(&n, sink, plan->stage[k], stage, in_place);
            if (fits)
                break;
        }
        if (memory == plan->nmemories)
            plan->nmemories++;
        plan->stage[plan->nstages] = stage;
        plan->memory[plan->nstages++] = memory;
    }
    return n.mark != NULL && bl_arena_status(bl_ir_arena(ir), NULL) == BL_OK;
}
