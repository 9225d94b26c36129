/* SPDX-License-Identifier: MIT */
/* Stages: local memory that is filled before it is read, by one work-item for itself or by all work-items of a group
 * (shared-memory tiles). */
#include "engine/ir/eval.h"
#include "engine/ir/rewrite.h"
#include "engine/lower/emit.h"

/* The local buffer of |stage|, which other stages may share. */
static value *stage_memory(build *b, const bl_node *stage)
{
    const bl_stage_memory *plan = &b->stages;
    int64_t elements = 0;
    value *buffer = NULL;
    int memory = 0;

    for (int i = 0; i < plan->nstages; i++)
        memory = plan->stage[i] == stage ? plan->memory[i] : memory;
    if (b->memory[memory] != NULL)
        return b->memory[memory];
    for (int i = 0; i < plan->nstages; i++) {
        if (plan->memory[i] == memory && bl_stage_elements(plan->stage[i]) > elements)
            elements = bl_stage_elements(plan->stage[i]);
    }
    buffer = emit_inst(b, b->root, BL_OP_BUFFER, (bl_dtype)stage->dtype, 1, 0, NULL);
    buffer->inst.sub = BL_STAGE_NARROWS(stage) ? BL_LOCAL_NARROW : BL_LOCAL;
    buffer->inst.arg = elements;
    b->local_bytes += (uint32_t)bl_local_bytes((bl_dtype)stage->dtype, BL_STAGE_NARROWS(stage), elements);
    b->memory[memory] = buffer;
    return buffer;
}

/* ---- stages that a group fills together (BL_STAGE_SHARED)
 *
 * One buffer, in a loop:        Double buffering (BL_STAGE_DOUBLE); an iteration reads one of two buffers:
 *   loop                          load the first iteration's elements; store them; barrier
 *     load, store                 loop
 *     barrier                       load the next iteration's elements
 *     ... readers                   ... readers of this iteration's elements
 *     barrier                       store the loaded elements; barrier
 *   end                           end
 *
 * With two buffers, loads of global memory are in flight while an iteration computes, and one barrier per iteration suffices: a
 * buffer is written again only after the barrier that ends the iteration that read it. */

/* |node| with the loop of |at| at iteration |turn|. */
static const bl_node *stages_at_turn(build *b, const scope *at, const bl_node *node, const bl_node *turn)
{
    return bl_replace(b->ir, node, at->range, turn);
}

/* The |store| for the next iteration of |at|'s loop. The last iteration loads its own elements again, into the buffer that is
 * not read any more, which avoids a condition. The buffer depends on the parity of the iteration only. */
static const bl_node *for_next_turn(build *b, const scope *at, const bl_node *store)
{
    const bl_node *next = bl_add(b->ir, at->range, bl_index(b->ir, 1));
    const bl_node *there = bl_alu2(b->ir, BL_OP_MIN, next, bl_index(b->ir, at->range->hi));
    bl_node made = *store;
    const bl_node *src[4] = {store->src[0], stages_at_turn(b, at, store->src[1], bl_mod(b->ir, next, bl_index(b->ir, 2))),
                             stages_at_turn(b, at, store->src[2], there), store->nsrc > 3 ? store->src[3] : NULL};
    made.src = src;
    return bl_node_make(b->ir, &made);
}

/* The iteration whose elements a STAGE loads or stores. */
typedef enum turn { THIS_TURN, FIRST_TURN, NEXT_TURN } turn;

/* Emit the values that the |n| stages store, or, with |store|, the stores. All values are loaded before the first is stored. */
static void stages_fill(build *b, scope *at, int n, const bl_node *const *stages, turn which, bool store)
{
    scope *to = which == FIRST_TURN ? at->parent : at;

    for (int i = 0; i < n; i++) {
        bool twice = (stages[i]->sub & BL_STAGE_DOUBLE) != 0;
        for (int64_t k = 0; twice == (which != THIS_TURN) && k < stages[i]->arg; k++) {
            const bl_node *node = stages[i]->src[k];
            node = which == FIRST_TURN  ? stages_at_turn(b, at, node, bl_index(b->ir, 0))
                   : which == NEXT_TURN ? for_next_turn(b, at, node)
                                        : node;
            if (store)
                (void)emit_plain(b, to, node, stage_memory(b, stages[i]));
            else
                (void)emit_node(b, to, node->src[2]);
        }
    }
}

void emit_end_turn(build *b, scope *at)
{
    bool twice = false;

    for (int i = 0; i < at->nshared; i++)
        twice = twice || (at->shared[i]->sub & BL_STAGE_DOUBLE) != 0;
    stages_fill(b, at, at->nshared, at->shared, NEXT_TURN, true);
    emit_inst(b, at, BL_OP_BARRIER, b->index, 1, 0, NULL);
    if (!twice)
        return;
    /* Directly before the loop: an earlier loop may use the same memory. */
    stages_fill(b, at, at->nshared, at->shared, FIRST_TURN, false);
    stages_fill(b, at, at->nshared, at->shared, FIRST_TURN, true);
    emit_inst(b, at->parent, BL_OP_BARRIER, b->index, 1, 0, NULL);
}

/* Does |stage| belong in the loop of |at|: does it depend on that loop, and on no loops but those around it? */
static bool stages_stands_in(build *b, const scope *at, const bl_node *stage)
{
    uint64_t loops = emit_loops_of(b, stage), around = at->bit;

    for (const scope *s = at->parent; s != NULL; s = s->parent)
        around |= s->bit;
    return (loops & ~around) == 0 && (at->parent == NULL || (loops & at->bit) != 0);
}

/* Does |stage| depend on the result of the reduction whose loop is |at|? Then it is filled in a later loop over the same range.
 * (Reductions that run together do not depend on each other's results.) */
static bool stages_waits_for(build *b, const scope *at, const bl_node *stage)
{
    return at->level > 0 && at->level < TOGETHER && bl_ptrmap_number(&b->level, stage) >= at->level;
}

/* Fill the stages of |list| at the start of an iteration: first those that depend on no other stage in the list, then those
 * that read these, and so on, with a barrier after each step. |list| is in topological order. */
static void fill_in_steps(build *b, scope *at, int n, const bl_node *const *list)
{
    for (int first = 0, end = 0; first < n; first = end) {
        for (end = first + 1; end < n && !bl_reaches(b->ir, (int)list[end]->nsrc, list[end]->src, end - first, list + first);)
            end++;
        stages_fill(b, at, end - first, list + first, THIS_TURN, false);
        stages_fill(b, at, end - first, list + first, THIS_TURN, true);
        emit_inst(b, at, BL_OP_BARRIER, b->index, 1, 0, NULL);
    }
}

/* Fill all wanted stages of this scope together, so that they share barriers. */
static value *emit_shared(build *b, scope *at, const bl_node *stage)
{
    const bl_node **list = bl_arena_array(b->arena, b->wanted.count, sizeof *list);
    const bl_node **once = bl_arena_array(b->arena, b->wanted.count, sizeof *once);
    int n = 0, nonce = 0;

    for (size_t i = 0; list != NULL && once != NULL && i < b->wanted.count; i++) {
        const bl_node *node = b->wanted.at[i];
        if (node->op != BL_OP_STAGE || (node->sub & BL_STAGE_SHARED) == 0 || !stages_stands_in(b, at, node) ||
            stages_waits_for(b, at, node))
            continue;
        list[n++] = node;
        if ((node->sub & BL_STAGE_DOUBLE) == 0)
            once[nonce++] = node;
        bl_ptrmap_put(&at->values, node, stage_memory(b, node));
    }
    if (stages_waits_for(b, at, stage)) {
        (void)bl_ir_fail(b->ir, BL_EBUG, "a stage waits for the loop that contains it");
        return stage_memory(b, stage);
    }
    if (nonce < n && at->range == NULL) {
        (void)bl_ir_fail(b->ir, BL_EBUG, "a double-buffered stage is in no loop");
        return stage_memory(b, stage);
    }
    if (nonce < n)
        stages_fill(b, at, n, list, NEXT_TURN, false);
    fill_in_steps(b, at, nonce, once);
    at->shared = list;
    at->nshared = n;
    return stage_memory(b, stage);
}

/* ---- stages that one work-item fills */

/* Set every element that |stage| folds into to the identity of the fold. */
static void emit_identities(build *b, scope *at, const bl_node *stage, value *buffer)
{
    int64_t elements = bl_stage_elements(stage);
    bl_dtype dtype = (bl_dtype)stage->dtype;
    int lanes = stage->src[0]->lanes > 1 && elements % stage->src[0]->lanes == 0 ? stage->src[0]->lanes : 1;
    value *identity = emit_const(b, at, dtype, (int64_t)bl_fold_identity((bl_op)stage->sub, dtype).u);
    scope *inner = emit_open_turns(b, at, emit_const(b, at, b->index, elements / lanes), 0);
    value *index = inner->loop;

    if (inner == at)
        return;
    if (lanes > 1)
        index = emit_alu(b, inner, BL_OP_MUL, b->index, index, emit_const(b, at, b->index, lanes));
    emit_inst(b, inner, BL_OP_STORE, dtype, lanes, 3, ARGS(buffer, index, identity))->inst.sub = lanes > 1;
    emit_close_loops(b, inner, at);
}

static const bl_node *stages_gate_of(const bl_node *store)
{
    return store->nsrc > 3 ? store->src[3] : NULL;
}

/* Open a block that runs only if |gate| is true: a loop of one iteration or none. For hoisting, the block belongs to |at|'s own
 * loop, and operands are computed inside the block. */
static scope *emit_open_gate(build *b, scope *at, const bl_node *gate)
{
    value *holds = emit_node(b, at, gate);
    scope *inner = emit_open_turns(b, at, emit_inst(b, at, BL_OP_CAST, b->index, 1, 1, &holds), at->bit);

    if (inner != at && at->range != NULL)
        bl_ptrmap_put(&inner->values, at->range, at->loop);
    return inner;
}

/* Fold the value of |store| into its element, if |gate| is true or NULL. */
static void emit_folded(build *b, scope *inner, const bl_node *stage, const bl_node *store, const bl_node *gate, value *buffer)
{
    bl_dtype dtype = (bl_dtype)store->dtype;
    value *index = emit_node(b, inner, store->src[1]), *x = emit_node(b, inner, store->src[2]), *v = NULL;
    value *holds = gate == NULL ? NULL : emit_node(b, inner, gate);

    v = emit_inst(b, inner, BL_OP_LOAD, dtype, store->lanes, 2, ARGS(buffer, index));
    v->inst.sub = emit_known_facts(store);
    v = emit_alu(b, inner, (bl_op)stage->sub, dtype, v, x);
    v = emit_inst(b, inner, BL_OP_STORE, dtype, store->lanes, gate == NULL ? 3 : 4, ARGS(buffer, index, v, holds));
    v->inst.sub = emit_known_facts(store);
}

/* Emit the stores that |stage| folds, in loops over the |n| |ranges|. Loops that no gate depends on go inside the gate. */
static void emit_folds(build *b, scope *at, const bl_node *stage, int n, const bl_node *const *ranges, value *buffer)
{
    uint64_t asked = 0;
    int outside = n;
    scope *around = NULL;

    for (int64_t i = 0; i < stage->arg; i++)
        asked |= stages_gate_of(stage->src[i]) != NULL ? emit_loops_of(b, stages_gate_of(stage->src[i])) : 0;
    while (outside > 0 && asked != 0 && (asked & bl_free_bit(&b->free, ranges[outside - 1])) == 0)
        outside--;
    around = emit_open_loops(b, at, outside, ranges);
    for (int64_t i = 0, next = 0; i < stage->arg; i = next) {
        const bl_node *gate = stages_gate_of(stage->src[i]);
        scope *gated = gate != NULL && outside < n ? emit_open_gate(b, around, gate) : around;
        scope *inner = emit_open_loops(b, gated, n - outside, ranges + outside);
        for (next = i; next < stage->arg && stages_gate_of(stage->src[next]) == gate; next++)
            emit_folded(b, inner, stage, stage->src[next], outside < n ? NULL : gate, buffer);
        emit_close_loops(b, inner, around);
    }
    emit_close_loops(b, around, at);
}

/* Fill local memory in loops of its own, before the first use. A group of one work-item needs no barrier. */
value *emit_stage(build *b, scope *at, const bl_node *stage)
{
    const bl_node *ranges[BL_MAX_DIMS * 2];
    value *buffer = NULL;
    scope *inner = NULL;
    int nranges = 0;

    if ((stage->sub & BL_STAGE_SHARED) != 0)
        return emit_shared(b, at, stage);
    buffer = stage_memory(b, stage);
    for (uint32_t i = (uint32_t)stage->arg; i < stage->nsrc && nranges < BL_MAX_DIMS * 2; i++)
        emit_insert_range(ranges, nranges++, stage->src[i], false);
    if (BL_STAGE_FOLDS(stage)) {
        emit_identities(b, at, stage, buffer);
        emit_folds(b, at, stage, nranges, ranges, buffer);
        return buffer;
    }
    inner = emit_open_loops(b, at, nranges, ranges);
    for (int64_t i = 0; i < stage->arg; i++)
        (void)emit_plain(b, inner, stage->src[i], buffer);
    emit_close_loops(b, inner, at);
    return buffer;
}
