/* SPDX-License-Identifier: MIT */
/* Values that are computed in stages: the nest that reads such a value computes it in local memory, for a few iterations of
 * its outer loops at a time, instead of another nest computing all of it into a buffer. The scores of an attention are an
 * example: [L, L] numbers made of [L, d] operands and reduced to [L, d] again. A nest that reads the scores of its own row,
 * at the canonical loops of its store, can compute that row just before, by a STAGE. A softmax then runs in phases over rows
 * that stay in a core's cache, and nothing of size L * L is ever in memory: flash attention without online softmax. running.c
 * makes the online form. */
#include "engine/base/size.h"
#include "engine/ir/shape.h"
#include "engine/sched/sched_internal.h"

#include <string.h>

enum {
    MOST_STAGES = 1000,   /* in a graph: the levels of their RANGEs end before BL_LEVEL_HELD */
    SMALL_SERIAL = 16384, /* elements up to which few parallel rows do not matter */
    SMALL_PART = 8,       /* a source may be a bias, or statistics of rows, which does not count */
    MOST_AGAIN = 1 << 19, /* bytes of inputs that every iteration of the outer loops reads: a part of a core's cache */
    COSTLY_AGAIN = 8 /* ops per element, such as an exp, from which a value that two phases compute gets a stage of its own */
};

static void unstage(sched *s, int position)
{
    s->realised[position] = s->costly_again[position] ? INLINE : BUFFERED;
}

static bool ask_again_of(sched *s, int position)
{
    if (s->realised[position] != STAGED)
        return false;
    unstage(s, position);
    s->unstageable[position] = false;
    return true;
}

/* Does |node| use one of the values at |from|, as part of an expression or of a stage? */
static bool uses_one_of(const sched *s, const bl_node *node, const bool *from)
{
    bool uses = false;

    for (uint32_t i = 0; i < node->nsrc && !uses; i++) {
        int at = sched_position(s, node->src[i]);
        uses = at >= 0 && from[at];
    }
    return uses;
}

/* |position| gets a buffer. Its users in stages were assumed to read the sources of |position|, which are smaller, and its
 * sources in stages were assumed to be folded with it: ask of both again whether they are to be stages, and so on for each of
 * these, since they have buffers now. */
static void ask_again(sched *s, int position)
{
    bool *near = bl_arena_array(bl_ir_arena(s->ir), 3 * s->order.count, sizeof *near);
    bool *above = near, *below = near + s->order.count, *buffered = below + s->order.count;
    bool more = near != NULL;

    if (near != NULL)
        buffered[position] = true;
    while (more) {
        more = false;
        for (size_t at = 0; at < s->order.count; at++) {
            bool inside = s->realised[at] == INLINE || s->realised[at] == STAGED;
            above[at] = buffered[at] || (inside && uses_one_of(s, s->order.at[at], above));
            if (above[at] && ask_again_of(s, (int)at))
                more = buffered[at] = true;
        }
        memset(below, 0, s->order.count * sizeof *below);
        for (size_t at = s->order.count; at-- > 0;) {
            const bl_node *node = s->order.at[at];
            bool inside = below[at] && (s->realised[at] == INLINE || s->realised[at] == STAGED);
            for (uint32_t i = 0; i < node->nsrc && (inside || buffered[at]); i++) {
                int from = sched_position(s, node->src[i]);
                if (from >= 0)
                    below[from] = true;
            }
            if (below[at] && ask_again_of(s, (int)at))
                more = buffered[at] = true;
        }
    }
}

/* A stage cannot serve the request for |node|: the node gets a buffer, if it would have had one, and the stores are built
 * again. */
static const bl_node *misfit(sched *s, const bl_node *node)
{
    int position = sched_position(s, node);
    ask_again(s, position);
    unstage(s, position);
    s->unstageable[position] = true;
    s->rebuild = true;
    return bl_const_int(s->ir, (bl_dtype)node->dtype, 0);
}

/* Is axis |i| of |node| indexed by a loop of the store over its whole extent? */
static bool stage_values_is_outer(const sched *s, const bl_node *node, const bl_node *const *index, int i)
{
    int position = sched_position(s, node);
    uint64_t around = s->costly_again[position] ? s->phases_share[position] : 0;

    if (index[i]->op != BL_OP_RANGE || bl_loop_level(index[i]) != BL_LEVEL_OUTPUTS || index[i]->src[0] != node->dim[i] ||
        (around != 0 && (around >> bl_loop_slot(index[i]) & 1) == 0))
        return false;
    for (int k = 0; k < i; k++) {
        if (index[k] == index[i])
            return false;
    }
    return true;
}

/* Are there too few iterations of the outer loops to keep the cores busy, for a value that is not small? */
static bool is_serial(const sched *s, const bl_node *node, int64_t outer)
{
    return outer < 2 * (int64_t)s->options->units && sched_elements(node) > SMALL_SERIAL;
}

/* The loops of a stage of |node|: one for each axis that no loop of the store indexes, 0 for an extent of 1. False if there
 * is no such axis, or no outer axis, or more elements than a nest may keep. */
static bool stage_values_take_axes(sched *s, const bl_node *node, const bl_node *const *index, staging *stage, const bl_node **at)
{
    int level = BL_LEVEL_STAGES + BL_LEVELS_OF_STAGE * s->stage_number[sched_position(s, node)];
    int64_t bytes = (int64_t)bl_dtype_local_bytes((bl_dtype)node->dtype), outer = 1;

    for (int i = 0; i < node->ndim; i++) {
        at[i] = index[i];
        if (stage_values_is_outer(s, node, index, i)) {
            stage->prefix |= UINT64_C(1) << bl_loop_slot(index[i]);
            if (!bl_i64_mul(outer, node->dim[i]->hi, &outer))
                return false;
            continue;
        }
        at[i] = bl_index(s->ir, 0);
        if (bl_is_int(node->dim[i], 1))
            continue;
        if (!bl_is_const(node->dim[i]) || !bl_i64_mul(bytes, node->dim[i]->arg, &bytes))
            return false;
        at[i] = bl_range(s->ir, bl_loop_pack(level, stage->nranges), BL_AXIS_LOOP, node->dim[i]);
        stage->range[stage->nranges++] = at[i];
    }
    return stage->nranges > 0 && !is_serial(s, node, outer) && stage->prefix != 0 && bytes <= s->options->stage_bytes;
}

/* The position of |at| in the stage's memory: row-major over the axes that the stage has loops for. */
static const bl_node *memory_index(sched *s, const bl_node *node, const bl_node *const *at, const bl_node *const *own)
{
    const bl_node *flat = bl_index(s->ir, 0);
    for (int i = 0; i < node->ndim; i++) {
        if (own[i]->op == BL_OP_RANGE && bl_loop_level(own[i]) != BL_LEVEL_OUTPUTS)
            flat = bl_add(s->ir, bl_mul(s->ir, flat, node->dim[i]), at[i]);
    }
    return flat;
}

static bool is_given_in_phase(const bl_node *node, const void *none)
{
    (void)none;
    return bl_op_get_class((bl_op)node->op) != BL_CLASS_ALU || node->dtype == BL_INDEX;
}

/* The number of ops that compute |node|, a scalar of a kernel, from loaded, reduced and staged values. */
static int phase_cost(sched *s, const bl_node *node)
{
    bl_nodes phase = bl_reach_until(s->ir, 1, &node, is_given_in_phase, NULL);
    int cost = 0;

    for (size_t i = 0; i < phase.count; i++)
        cost += is_given_in_phase(phase.at[i], NULL) ? 0 : sched_own_weight(phase.at[i]);
    return cost;
}

/* Does the value cost little work on loaded values? A value that was a phase next to its product need not be one in another
 * nest, which reads the product from a buffer (the activation of a feed-forward block, for the gradient of the weight behind
 * it). */
static bool is_cheap(sched *s, const bl_node *value)
{
    return bl_find_op(s->ir, value, BL_OP_REDUCE) == NULL && bl_find_op(s->ir, value, BL_OP_STAGE) == NULL &&
           phase_cost(s, value) < COSTLY_AGAIN;
}

/* Bytes of the inputs that |value| reads again in each iteration of the outer loops, because no index depends on them: the
 * weights of a feed-forward block, which a product of all rows would read once. */
static int64_t bytes_again(sched *s, const bl_node *value, uint64_t prefix)
{
    bl_nodes below = bl_reach(s->ir, 1, &value, false);
    int64_t total = 0;

    for (size_t i = 0; i < below.count; i++) {
        const bl_node *load = below.at[i];
        int64_t bytes = (int64_t)bl_dtype_bytes((bl_dtype)load->dtype);
        bool outer = load->op != BL_OP_LOAD || load->src[0]->op != BL_OP_BUFFER || load->src[0]->sub != 0 ||
                     sched_stored(s, load->src[0]) != NULL;
        bl_nodes index = outer ? (bl_nodes){0} : bl_reach(s->ir, 1, &load->src[1], false);
        for (size_t k = 0; k < index.count && !outer; k++) {
            const bl_node *range = index.at[k];
            if (range->op != BL_OP_RANGE)
                outer = range->op == BL_OP_LOAD; /* the index is looked up in a table */
            else if (bl_loop_level(range) == BL_LEVEL_OUTPUTS && (prefix >> bl_loop_slot(range) & 1) != 0)
                outer = true;
            else if (!bl_i64_mul(bytes, range->hi + 1, &bytes))
                return INT64_MAX;
        }
        if (!outer && !bl_i64_add(total, bytes, &total))
            return INT64_MAX;
    }
    return total;
}

const bl_node *sched_staged_element(sched *s, const bl_node *node, const bl_node *const *index, const bl_node *gate)
{
    bl_ir *ir = s->ir;
    const bl_node *at[BL_MAX_DIMS], *value = NULL, *store = NULL, *filled = NULL;
    staging stage = {.node = node, .outer = s->staging};
    uint64_t prefix = s->prefix;

    if (gate != NULL || !stage_values_take_axes(s, node, index, &stage, at) || (s->prefix != 0 && s->prefix != stage.prefix))
        return misfit(s, node);
    s->prefix = stage.prefix;
    s->staging = &stage;
    value = sched_fresh(s, node, at, NULL);
    s->staging = stage.outer;
    if (bytes_again(s, value, stage.prefix) > MOST_AGAIN)
        return misfit(s, node);
    if (is_cheap(s, value)) {
        s->prefix = prefix;
        return sched_fresh(s, node, index, gate);
    }
    store = bl_store(ir, bl_param(ir, sched_position(s, node), (bl_dtype)node->dtype, true), memory_index(s, node, at, at), value,
                     NULL);
    filled = bl_stage_over(ir, BL_STAGE_FILLS, 1, &store, stage.nranges, stage.range);
    return bl_load(ir, filled, memory_index(s, node, index, at), NULL);
}

bool sched_breaks_stage(sched *s, const bl_node *reduce, const bl_node *const *index)
{
    const staging *stage = s->staging;

    return stage != NULL && reduce->ndim > 0 && sched_elements(reduce) <= sched_elements(stage->node) / 2 &&
           bl_reaches(s->ir, reduce->ndim, index, stage->nranges, stage->range);
}

/* ---- which values */

static bool may_be_staged(const sched *s, int position)
{
    const bl_node *node = s->order.at[position];
    return !s->is_root[position] && !s->unstageable[position] && s->nstaged < MOST_STAGES && node->ndim > 0 &&
           node->op != BL_OP_CONTIGUOUS && node->op != BL_OP_INPUT && !sched_is_loop(node) && !bl_ptrmap_has(&s->halves, node);
}

static void stage_it(sched *s, int position)
{
    s->realised[position] = STAGED;
    s->unstageable[position] = true; /* only once: a rule that gives it a buffer again is final */
    s->stage_number[position] = s->nstaged++;
}

/* Elements of all values that are read to compute what |st| stores; a value that |expands| counts as its own sources. */
static int64_t count_reads(const sched *s, const stored *st, const bool *expands, const int64_t *reads)
{
    int64_t total = 0;

    for (size_t i = 0; i < st->below.count; i++) {
        const bl_node *buffer = st->below.at[i];
        const stored *from = NULL;
        int64_t n = 0;
        if (buffer->op != BL_OP_BUFFER || buffer->sub != 0)
            continue;
        from = sched_stored(s, buffer);
        if (from == NULL)
            n = s->input_count[buffer->arg];
        else
            n = expands[from - s->stored] ? reads[from - s->stored] : sched_elements(from->node);
        if (!bl_i64_add(total, n, &total))
            return INT64_MAX;
    }
    return total;
}

/* Is the value that |st| stores a product, or made of a value that |expands|? Any other value is cheap to have in memory:
 * random numbers, a mask. */
static bool has_product(const sched *s, const stored *st, const bool *expands)
{
    bool product = st->product;

    for (size_t i = 0; i < st->below.count && !product; i++) {
        const stored *from = sched_stored(s, st->below.at[i]);
        product = from != NULL && expands[from - s->stored];
    }
    return product;
}

/* Does a product reduce the value of |st| to something smaller, directly or through values that are |kept| in stages too? */
static bool is_folded(const sched *s, const stored *st, const bool *kept)
{
    for (int i = 0; i < s->nstored; i++) {
        const stored *other = &s->stored[i];
        bool folds = other->product && sched_elements(other->node) < sched_elements(st->node);
        bool serves = other != st && (kept[i] || folds);
        for (size_t k = 0; serves && k < other->below.count; k++) {
            if (other->below.at[k] == st->buffer)
                return true;
        }
    }
    return false;
}

/* The loops of |st| around |node|, a bit for each slot. */
static uint64_t loops_around(bl_free *free, const stored *st, const bl_node *node)
{
    uint64_t around = 0, set = bl_free_get(free, node);

    for (int k = 0; k < st->nranges; k++)
        around |= (set & bl_free_bit(free, st->range[k])) != 0 ? UINT64_C(1) << bl_loop_slot(st->range[k]) : 0;
    return around;
}

/* The places where stores compute a costly value: by position, the first of them, and its store. */
typedef struct places {
    const bl_node *node;
    const stored *store;
} places;

/* Does the nest of |st| run in phases? It does if it has stages. Without stages it does if it has a reduction and the device's
 * groups are single work-items. A softmax is an example: the first phase sums the exp of a row, the second one divides by the
 * sum, and both would compute the exp. */
static bool has_phases(const sched *s, const stored *st)
{
    bool reduces = st->prefix != 0;

    if (st->value == NULL || (st->prefix == 0 && (s->options->group_columns > 0 || st->product || st->noted)))
        return false;
    for (size_t k = 0; k < st->below.count && !reduces; k++)
        reduces = st->below.at[k]->op == BL_OP_REDUCE;
    return reduces;
}

/* Is the value costly enough to be a phase of its own? In a nest without stages it is not if it draws random numbers, which are
 * made of values of several shapes that no stage serves. */
static bool is_worth_phase(sched *s, const stored *st, const bl_node *node)
{
    int cost = phase_cost(s, node);
    return cost >= COSTLY_AGAIN && (st->prefix != 0 || cost < COSTLY_TWICE);
}

/* Find the values that phases of the nest of |st| compute at several places, or that phases of other stores compute too. */
static void note_costly(sched *s, stored *st, places *first)
{
    bl_free free;
    uint64_t outputs = 0, innermost = st->nranges == 0 ? 0 : UINT64_C(1) << bl_loop_slot(st->range[st->nranges - 1]);
    bool phases = has_phases(s, st);

    st->noted = true;
    if (!phases)
        return;
    bl_free_init(&free, s->ir);
    for (int k = 0; k < st->nranges; k++)
        outputs |= bl_free_bit(&free, st->range[k]);
    for (size_t k = 0; k < st->below.count; k++) {
        const bl_node *node = st->below.at[k];
        int at = sched_origin(s, node);
        places *other = at < 0 ? NULL : &first[at];
        bool again = false;
        if (at < 0 || s->realised[at] != INLINE || node->op == BL_OP_REDUCE || s->weight[at] < COSTLY_AGAIN ||
            (st->prefix != 0 && (bl_free_get(&free, node) & ~outputs) == 0))
            continue;
        again = other->node != NULL && (other->store == st || (other->store->prefix != 0 && st->prefix != 0));
        if (st->prefix == 0)
            s->phases_share[at] = loops_around(&free, st, node) & (again ? s->phases_share[at] : UINT64_MAX);
        if (again && (other->node == node || !is_worth_phase(s, st, node)))
            continue;
        if (!again || !is_worth_phase(s, other->store, other->node))
            *other = (places){node, st};
        else if (st->prefix != 0 || (s->phases_share[at] & innermost) == 0)
            s->costly_again[at] = true;
    }
}

/* Costly values that several phases of nests compute (the exp of a softmax, for the sum and for the quotient)
 * become stages: the topmost of them. */
static void stage_costly(sched *s)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    places *first = bl_arena_array(arena, s->order.count, sizeof *first);
    bool *covered = bl_arena_array(arena, s->order.count, sizeof *covered);

    for (int i = 0; first != NULL && i < s->nstored; i++)
        note_costly(s, &s->stored[i], first);
    for (size_t at = first == NULL || covered == NULL ? 0 : s->order.count; at-- > 0;) {
        const bl_node *node = s->order.at[at];
        bool mine = s->costly_again[at] && s->realised[at] == INLINE && !covered[at];
        if (mine && may_be_staged(s, (int)at))
            stage_it(s, (int)at);
        for (uint32_t i = 0; (mine || (covered[at] && s->realised[at] == INLINE)) && i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]);
            if (from >= 0)
                covered[from] = true;
        }
    }
}

static int count_stages(const stored *st)
{
    int n = 0;
    for (size_t i = 0; i < st->below.count; i++)
        n += st->below.at[i]->op == BL_OP_STAGE;
    return n;
}

int sched_unstage(sched *s, const bl_node *sink)
{
    bl_nodes below = bl_reach(s->ir, 1, &sink, false);
    int marked = 0;

    for (size_t i = 0; i < below.count; i++) {
        int position = 0;
        if (below.at[i]->op != BL_OP_STAGE)
            continue;
        position = (int)below.at[i]->src[0]->src[0]->arg; /* its buffer has the number of its position */
        marked += s->realised[position] == STAGED;
        unstage(s, position);
    }
    return marked;
}

/* A nest that has more stages than local memory is divided for gets buffers instead. */
static int limit_stages(sched *s)
{
    int marked = 0;
    for (int i = 0; i < s->nstored; i++) {
        const stored *st = &s->stored[i];
        bool over = count_stages(st) > BL_STAGES_OF_NEST;
        for (size_t k = 0; over && k < st->below.count; k++) {
            if (st->below.at[k]->op != BL_OP_STAGE)
                continue;
            s->realised[st->below.at[k]->src[0]->src[0]->arg] = BUFFERED; /* its buffer has the number of its position */
            marked++;
        }
    }
    return marked;
}

int sched_stage(sched *s)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    int64_t *reads = bl_arena_array(arena, (size_t)s->nstored + 1, sizeof *reads);
    bool *expands = bl_arena_array(arena, (size_t)s->nstored + 1, sizeof *expands);
    bool *kept = bl_arena_array(arena, (size_t)s->nstored + 1, sizeof *kept);
    int before = s->nstaged, over = limit_stages(s);

    if (over > 0)
        return over;
    if (reads == NULL || expands == NULL || kept == NULL || s->options->stage_bytes == 0)
        return 0;
    stage_costly(s);
    for (int i = 0; i < s->nstored; i++) { /* sources first; a candidate is larger than all its sources */
        const stored *st = &s->stored[i];
        if (st->value == NULL || st->offset != NULL || !may_be_staged(s, sched_position(s, st->node)))
            continue;
        reads[i] = count_reads(s, st, expands, reads);
        expands[i] = sched_elements(st->node) >= reads[i] - reads[i] / SMALL_PART && has_product(s, st, expands);
    }
    for (int i = s->nstored; i-- > 0;) { /* users first */
        kept[i] = expands[i] && is_folded(s, &s->stored[i], kept);
        if (kept[i])
            stage_it(s, sched_position(s, s->stored[i].node));
    }
    return s->nstaged - before;
}

/* The stage of the graph to which a RANGE belongs, or -1. */
static int stage_of(const bl_node *node)
{
    int level = node->op == BL_OP_RANGE ? bl_loop_level(node) - BL_LEVEL_STAGES : -1;
    return level >= 0 ? level / BL_LEVELS_OF_STAGE : -1;
}

/* The number of stages of the graph before |stage| that have a RANGE among |below|. */
static int stages_before(const bl_nodes *below, int stage)
{
    int n = 0;
    for (size_t i = 0; i < below->count; i++) {
        int other = stage_of(below->at[i]);
        bool first = other >= 0 && other < stage;
        for (size_t k = 0; k < i && first; k++)
            first = stage_of(below->at[k]) != other;
        n += first;
    }
    return n;
}

const bl_node *sched_number_stages(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    int buffers = 0;
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i], *own = NULL;
        int stage = stage_of(node);
        if (stage >= 0) {
            int level = bl_loop_level(node) - (stage - stages_before(&below, stage)) * BL_LEVELS_OF_STAGE;
            own = bl_range(ir, bl_loop_pack(level, bl_loop_slot(node)), (bl_axis_kind)node->sub, node->src[0]);
        } else if (node->op == BL_OP_BUFFER && node->sub == 1)
            own = bl_param(ir, buffers++, (bl_dtype)node->dtype, true);
        if (own != NULL)
            bl_ptrmap_put(&to, node, own);
    }
    return bl_substitute(ir, sink, &to);
}
