/* SPDX-License-Identifier: MIT */
/* Which values get a buffer (materialization and fusion). First by the graph alone: roots, CONTIGUOUS, and cuts of
 * expressions that are too deep or read too many buffers. Then by the expressions of the stores: reductions and costly values
 * that would be computed more often than they have elements, and values that would be computed with too little parallelism. */
#include "engine/ir/shape.h"
#include "engine/sched/sched_internal.h"

#include <string.h>

enum {
    MOST_DEPTH = 1000,       /* nodes on one path of an expression: limits the recursion of index.c and of the linearizer */
    SMALL_NEST = 4096,       /* iterations that one work-item may as well run alone */
    SMALL_SERIAL = 16384,    /* iterations up to which few parallel rows, or repeated iterations, cost little */
    COSTLY = 8,              /* ops per element from which a value that is used repeatedly is worth a buffer */
    SPARE_SUMS = 1 << 17,    /* iterations of a sum, some 80 us, next to which another launch costs little */
    LARGE_PRODUCT = 1 << 20, /* iterations, some 20 us, next to which another launch costs little */
    REUSED = 8,              /* uses of each element that count as repeated use */
    COSTLY_MANY = 6, /* ops per element from which a CPU gives a value with MANY_USES a buffer, as a weighted RMS norm: ... */
    MANY_USES = 64,  /* ... 128 x 1536 x 576 took 9.9 ms if each tile computed the norm, and 2.7 ms if the tiles read the norm */
    MOST_WEIGHT = 1 << 20
};

int sched_own_weight(const bl_node *node)
{
    if (bl_op_get_class((bl_op)node->op) == BL_CLASS_REDUCE)
        return COSTLY_TWICE;
    if (bl_op_get_class((bl_op)node->op) != BL_CLASS_ALU)
        return 0;
    switch ((int)node->op) {
    case BL_OP_SIN: /* 131,072 sines of float32 take 206 us on two cores, exponentials 62 us, and absolute values 13 us */
        return COSTLY_TWICE;
    case BL_OP_EXP:
    case BL_OP_LOG:
        return 8;
    case BL_OP_SQRT:
    case BL_OP_IDIV:
    case BL_OP_MOD:
        return 4;
    case BL_OP_DIV:
        return 2;
    default:
        return 1;
    }
}

int64_t sched_elements(const bl_node *node)
{
    int64_t count = 0;
    return bl_shape_max_count(node->ndim, node->dim, &count) ? count : INT64_MAX;
}

/* The buffers below each node while no other node has a buffer: small sorted sets. A set that exceeds |most| is given up. */
typedef struct leafset {
    int count;
    const bl_node *leaf[BL_MAX_DIMS * 4];
} leafset;

static bool add_leaf(leafset *set, const bl_node *leaf, int most)
{
    for (int i = 0; i < set->count; i++) {
        if (set->leaf[i] == leaf)
            return true;
    }
    if (set->count >= most)
        return false;
    set->leaf[set->count++] = leaf;
    return true;
}

static bool is_inline(const sched *s, const bl_node *node, int position)
{
    return position >= 0 && node->op != BL_OP_INPUT && (s->realised[position] == INLINE || s->realised[position] == STAGED);
}

/* Find the buffers that |node| reads. Returns the source that reads most of them, or -1 if all fit. */
static int gather_leaves(const sched *s, leafset *sets, const bl_node *node, int position, int most)
{
    leafset *set = &sets[position];
    bool fits = true;
    int largest = -1;

    set->count = 0;
    for (uint32_t i = 0; i < node->nsrc; i++) {
        int from = sched_position(s, node->src[i]);
        if (from < 0)
            continue;
        if (!is_inline(s, node->src[i], from)) {
            fits = add_leaf(set, node->src[i], most) && fits;
            continue;
        }
        for (int k = 0; k < sets[from].count; k++)
            fits = add_leaf(set, sets[from].leaf[k], most) && fits;
        if (largest < 0 || sets[from].count > sets[largest].count)
            largest = from;
    }
    return fits ? -1 : largest;
}

enum {
    SMALLER = 4, /* a value further down is preferred if it has at most 1 / SMALLER of the elements ... */
    SEVERAL = 3  /* ... and reads this many buffers */
};

/* The position of the value that gets a buffer if the value at |top| reads too many buffers: |top|, or of the values below it
 * that read several buffers and have far fewer elements the one that reads most. Example: the products of a matmul have an
 * element for each multiplication; the sums of the matmul before, which are below them, have one for each result. |below|:
 * scratch. */
static int choose_small(const sched *s, const leafset *sets, int top, bool *below)
{
    int64_t most = sched_elements(s->order.at[top]) / SMALLER;
    int best = top;

    memset(below, 0, (size_t)(top + 1) * sizeof *below);
    below[top] = true;
    for (int at = top; at >= 0; at--) {
        const bl_node *node = s->order.at[at];
        if (!below[at])
            continue;
        if (at < top && sets[at].count >= SEVERAL && sched_elements(node) <= most &&
            (best == top || sets[at].count > sets[best].count))
            best = at;
        for (uint32_t i = 0; i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]);
            if (is_inline(s, node->src[i], from))
                below[from] = true;
        }
    }
    return best;
}

/* The value at |from| has a buffer now. Recount what the values read that are computed from it, at positions before |to|. */
static void gather_again(const sched *s, leafset *sets, int from, int to, int most, bool *above)
{
    above[from] = true;
    for (int at = from + 1; at < to; at++) {
        const bl_node *node = s->order.at[at];
        above[at] = false;
        for (uint32_t i = 0; i < node->nsrc && !above[at]; i++) {
            int source = sched_position(s, node->src[i]);
            above[at] = source >= from && above[source];
        }
        if (above[at])
            (void)gather_leaves(s, sets, node, at, most);
    }
}

/* Keep the buffers that one expression reads within what a kernel may bind: if the sources of a node together read too many,
 * one source gets a buffer. |above| is scratch, a flag for each position. Returns how many values got a buffer. */
static int limit_leaves(sched *s, leafset *sets, bool *above, const bl_node *node, int position)
{
    int most = (int)s->options->max_params - 4;
    int marked = 0;

    if (most > BL_MAX_DIMS * 4)
        most = BL_MAX_DIMS * 4;
    for (;;) {
        int largest = gather_leaves(s, sets, node, position, most);
        if (largest < 0)
            return marked;
        largest = choose_small(s, sets, largest, above);
        s->realised[largest] = BUFFERED;
        s->round_marked[largest] = s->round;
        gather_again(s, sets, largest, position, most, above);
        marked++;
    }
}

static void mark_roots(sched *s, int nroots, const bl_node *const *roots)
{
    for (int i = 0; i < nroots; i++) {
        int position = sched_position(s, roots[i]);
        s->realised[position] = BUFFERED;
        s->nusers[position]++;
    }
}

/* a loop is not part of an expression: its sources are read from buffers, and its results are in buffers */
static void mark_loops(sched *s)
{
    for (size_t at = 0; at < s->order.count; at++) {
        const bl_node *node = s->order.at[at];
        if (sched_is_loop(node))
            s->realised[at] = BUFFERED;
        for (uint32_t i = 0; node->op == BL_OP_SCAN && i < node->nsrc; i++) {
            if (node->src[i]->op != BL_OP_INPUT)
                s->realised[sched_position(s, node->src[i])] = BUFFERED;
        }
    }
}

void sched_weigh(sched *s, int first, int last)
{
    for (int at = first; at <= last; at++) {
        const bl_node *node = s->order.at[at];
        int64_t weight = sched_own_weight(node);
        for (uint32_t i = 0; i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]);
            if (from >= 0 && s->realised[from] != BUFFERED && s->realised[from] != STAGED)
                weight += s->weight[from];
        }
        s->weight[at] = (int)(weight > MOST_WEIGHT ? MOST_WEIGHT : weight);
    }
}

static void count_users(sched *s)
{
    for (int at = 0; at < (int)s->order.count; at++) {
        const bl_node *node = s->order.at[at];
        for (uint32_t i = 0; i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]);
            if (from < 0)
                continue;
            s->nusers[from]++;
            s->user[from] = node;
        }
    }
}

static int realise_depth_of(const sched *s, const int *depth, const bl_node *node)
{
    int deepest = 0;
    for (uint32_t i = 0; i < node->nsrc; i++) {
        int from = sched_position(s, node->src[i]);
        if (from >= 0 && s->realised[from] == INLINE && depth[from] + 1 > deepest)
            deepest = depth[from] + 1;
    }
    return deepest;
}

/* The path is too deep: the nearest reduction down the deepest path gets a buffer, or the node itself if there is none. */
static void cut_depth(sched *s, int *depth, int position)
{
    const bl_node *node = s->order.at[position];

    for (int steps = 0; steps < MOST_DEPTH / 2; steps++) {
        int next = -1;
        for (uint32_t i = 0; i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]);
            if (from >= 0 && s->realised[from] == INLINE && (next < 0 || depth[from] > depth[next]))
                next = from;
        }
        if (next < 0)
            break;
        node = s->order.at[next];
        if (node->op != BL_OP_REDUCE)
            continue;
        s->realised[next] = BUFFERED;
        for (int at = next; at <= position; at++)
            depth[at] = realise_depth_of(s, depth, s->order.at[at]);
        return;
    }
    s->realised[position] = BUFFERED;
}

static bool realise_mark(sched *s, int position)
{
    if (s->realised[position] == BUFFERED)
        return false;
    s->realised[position] = BUFFERED;
    s->round_marked[position] = s->round;
    return true;
}

enum { MOST_IN_CONE = 16 }; /* nodes of a relu or a gelu; a longer chain is hardly one step of a layer */

static bool is_elementwise_of(const bl_node *user, const bl_node *node)
{
    return bl_op_get_class((bl_op)user->op) == BL_CLASS_ALU && sched_elements(user) == sched_elements(node);
}

/* The one elementwise value in which all uses of |node| end. Several paths may lead there through values that feed nothing
 * else, as the two comparisons of a relu do. NULL if there is none. The last user of the value is behind all others. */
static const bl_node *joined(const sched *s, const bl_node *node)
{
    const bl_node *cone[MOST_IN_CONE], *end = s->user[sched_position(s, node)];
    int n = 0, uses = 0;

    if (end == NULL || !is_elementwise_of(end, node))
        return NULL;
    cone[n++] = end;
    for (int i = 0; i < n; i++) {
        for (uint32_t k = 0; k < cone[i]->nsrc; k++) {
            const bl_node *src = cone[i]->src[k];
            int at = sched_position(s, src), inside = 0;
            uses += src == node;
            if (src == node || at < sched_position(s, node) || !is_elementwise_of(src, node))
                continue;
            for (int j = 0; j < n; j++)
                inside += cone[j] == src;
            if (inside == 0 && n == MOST_IN_CONE)
                return NULL;
            if (inside == 0)
                cone[n++] = src;
        }
    }
    for (int i = 1; i < n; i++) { /* all users of the value are in the cone */
        int inside = 0;
        for (int j = 0; j < n; j++) {
            for (uint32_t k = 0; k < cone[j]->nsrc; k++)
                inside += cone[j]->src[k] == cone[i];
        }
        if (inside != s->nusers[sched_position(s, cone[i])])
            return NULL;
    }
    return uses == s->nusers[sched_position(s, node)] ? end : NULL;
}

/* Give the buffer to the last value of the same size instead of the reduction: after the elementwise ops that only the
 * reduction feeds (bias, relu), and after the crop that removes the padding from the gradient of a convolution. */
bool sched_cut_after(sched *s, const bl_node *reduce)
{
    const bl_node *at = reduce;

    for (;;) {
        int position = sched_position(s, at);
        const bl_node *user = s->nusers[position] == 1 ? s->user[position] : joined(s, at);
        if (user == NULL)
            break;
        if (bl_op_get_class((bl_op)user->op) != BL_CLASS_ALU && user->op != BL_OP_RESHAPE && user->op != BL_OP_DETACH &&
            user->op != BL_OP_SHRINK)
            break;
        if (sched_elements(user) > sched_elements(at) ||
            bl_dtype_bytes((bl_dtype)user->dtype) > bl_dtype_bytes((bl_dtype)reduce->dtype))
            break;
        if (s->round_marked[sched_position(s, user)] == s->round)
            return false; /* already decided for another store that contains it */
        if (s->realised[sched_position(s, user)] != INLINE) {
            at = reduce; /* the store of that value has the trouble itself */
            break;
        }
        at = user;
    }
    return realise_mark(s, sched_position(s, at));
}

/* Is it a matmul or a convolution of some size: a summed product with one or both factors repeated? */
static const bl_node *summed_product(const bl_node *reduce)
{
    const bl_node *node = reduce->src[0];
    if (reduce->op != BL_OP_REDUCE || reduce->sub != BL_OP_ADD || sched_elements(node) <= SMALL_NEST)
        return NULL;
    while (node->op == BL_OP_RESHAPE || node->op == BL_OP_PERMUTE)
        node = node->src[0];
    return node->op == BL_OP_MUL ? node : NULL;
}

/* Reductions that feed a factor of a matmul through ops without a buffer get buffers at once. The rules below would find the
 * same, but only after building expressions that each contain all layers before. */
static void cut_factors(sched *s)
{
    const bl_node **stack = bl_arena_array(bl_ir_arena(s->ir), s->order.count + 1, sizeof *stack);
    bool *seen = bl_arena_array(bl_ir_arena(s->ir), s->order.count + 1, sizeof *seen);

    for (size_t at = 0; stack != NULL && seen != NULL && at < s->order.count; at++) {
        const bl_node *product = s->order.at[at]->op == BL_OP_REDUCE ? summed_product(s->order.at[at]) : NULL;
        size_t depth = 0;
        for (uint32_t i = 0; product != NULL && i < 2; i++)
            stack[depth++] = product->src[i];
        while (depth > 0) {
            const bl_node *node = stack[--depth];
            int position = sched_position(s, node);
            if (position < 0 || seen[position])
                continue;
            seen[position] = true;
            if (node->op == BL_OP_REDUCE) {
                (void)sched_cut_after(s, node);
                continue;
            }
            for (uint32_t i = 0; i < node->nsrc && depth < s->order.count; i++)
                stack[depth++] = node->src[i];
        }
    }
}

void sched_mark_first(sched *s, int nroots, const bl_node *const *roots)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    int *depth = bl_arena_array(arena, s->order.count, sizeof *depth);
    leafset *sets = bl_arena_array(arena, s->order.count, sizeof *sets);
    bool *above = bl_arena_array(arena, s->order.count, sizeof *above);

    if (depth == NULL || sets == NULL || above == NULL)
        return;
    mark_roots(s, nroots, roots);
    mark_loops(s);
    count_users(s);
    cut_factors(s);
    for (int at = 0; at < (int)s->order.count; at++) {
        const bl_node *node = s->order.at[at];
        depth[at] = realise_depth_of(s, depth, node);
        (void)limit_leaves(s, sets, above, node, at);
        if (node->op == BL_OP_CONTIGUOUS)
            s->realised[at] = BUFFERED;
        else if (depth[at] >= MOST_DEPTH && sched_own_weight(node) > 0)
            cut_depth(s, depth, at);
    }
    sched_weigh(s, 0, (int)s->order.count - 1);
    for (int at = 0; at < (int)s->order.count; at++) {
        const bl_node *node = s->order.at[at];
        if (s->realised[at] == BUFFERED && s->weight[at] == 0 && node->op != BL_OP_CONTIGUOUS && !sched_is_loop(node))
            s->realised[at] = COPIED;
    }
}

static const bl_node *origin_of(const sched *s, const bl_node *node)
{
    int position = sched_origin(s, node);
    return position < 0 ? NULL : s->order.at[position];
}

/* What the analysis of a store knows. */
typedef struct view {
    sched *s;
    const stored *st;
    bl_free free;
    uint64_t *around; /* by position in |st->below|: the loops around the computation of the value */
    uint64_t outputs; /* RANGEs of the store */
    uint64_t stages;  /* RANGEs of its stages */
    uint64_t chain;   /* the smallest set of output loops for which a reduction is computed; all other loops are inside */
    bool tiled;       /* some reduction reads its operands repeatedly, as a matmul does */
    int products;     /* the number of large products (is_large_product) that have no buffer yet */
} view;

/* The loops in which the stages of a store are filled. */
static uint64_t stage_outputs(view *v)
{
    uint64_t set = 0;
    for (int i = 0; i < v->st->nranges; i++)
        set |= (v->st->prefix >> bl_loop_slot(v->st->range[i]) & 1) != 0 ? bl_free_bit(&v->free, v->st->range[i]) : 0;
    return set;
}

/* Is it a reduction for each element that is not a tiled product? Next to a tiled product it would take registers of the
 * tile, often lane by lane. */
static bool is_side_sum(view *v, const bl_node *reduce)
{
    return bl_free_get(&v->free, reduce) == v->outputs && bl_free_work(&v->free, reduce) > SMALL_NEST &&
           !bl_reads_over_and_over(&v->free, reduce, REUSED, true);
}

/* The level of the innermost loop in |set|; 0: all are loops of the store. */
static int64_t innermost(const bl_free *free, uint64_t set)
{
    int64_t level = 0;
    for (int i = 0; i < free->nranges; i++) {
        if ((set >> i & 1) != 0 && bl_loop_level(free->range[i]) > level)
            level = bl_loop_level(free->range[i]);
    }
    return level;
}

/* The loops around the computation of a value that depends on the loops |set|, and whose users are in the loops |around|: |set|,
 * and the loops of |around| that are not inside the innermost loop of |set|. */
static uint64_t realise_stands_in(const bl_free *free, uint64_t around, uint64_t set)
{
    int64_t level = innermost(free, set);
    uint64_t in = set;
    for (int i = 0; i < free->nranges && level > 0; i++)
        in |= (around >> i & 1) != 0 && bl_loop_level(free->range[i]) <= level ? UINT64_C(1) << i : 0;
    return in;
}

/* Fill |v->around|.  A reduction within another one runs for each iteration of the outer reduction's loops, also of loops that it
 * does not depend on. */
static void find_loops(view *v)
{
    const bl_nodes *below = &v->st->below;
    bl_ptrmap at;

    bl_ptrmap_init(&at, bl_ir_arena(v->s->ir));
    v->around = bl_arena_array(bl_ir_arena(v->s->ir), below->count + 1, sizeof *v->around);
    for (size_t i = 0; v->around != NULL && i < below->count; i++)
        bl_ptrmap_put_number(&at, below->at[i], i + 1);
    for (size_t i = v->around == NULL ? 0 : below->count; i-- > 0;) { /* users first */
        const bl_node *node = below->at[i];
        uint64_t inside = v->around[i] = realise_stands_in(&v->free, v->around[i], bl_free_get(&v->free, node));
        if (node->op == BL_OP_REDUCE || node->op == BL_OP_STAGE)
            inside |= bl_free_bound(&v->free, node);
        for (uint32_t k = 0; k < node->nsrc; k++) {
            uint64_t src = bl_ptrmap_number(&at, node->src[k]);
            if (src > 0)
                v->around[src - 1] |= inside;
        }
    }
}

/* Is the reduction repeated by loops around it? A reduction within others runs in all loops around them: in a chain of small
 * products each level multiplies the work. */
static bool is_repeated(view *v, size_t at)
{
    uint64_t bound = bl_free_bound(&v->free, v->st->below.at[at]);
    return bl_free_size(&v->free, v->around[at] | bound) > SMALL_SERIAL || innermost(&v->free, bound) >= BL_LEVEL_STAGES;
}

/* Does the product fill the registers of a tile alone? On a CPU, two such products in one nest, as of a gate and of the gated
 * value, get half a tile each: 64 x 1536 x 576 twice took 3.6 ms in one nest, and 1.6 ms in two. Work-groups of a GPU have
 * registers for both, and read the shared operand once. */
static bool is_large_product(view *v, const bl_node *reduce)
{
    return v->s->options->group_columns == 0 && v->stages == 0 && bl_free_get(&v->free, reduce) == v->outputs &&
           bl_free_work(&v->free, reduce) > LARGE_PRODUCT && bl_reads_over_and_over(&v->free, reduce, REUSED, false);
}

/* Must this reduction have a buffer? */
static bool must_cut(view *v, size_t at, const bl_node *tensor)
{
    const bl_node *reduce = v->st->below.at[at];
    uint64_t free = bl_free_get(&v->free, reduce);
    uint64_t hoisted = free & v->outputs;
    int64_t work = bl_free_work(&v->free, reduce), around = bl_free_size(&v->free, v->outputs);

    if ((free & v->stages) != 0)
        return false;    /* the reductions of a stage were checked when the stage was built */
    if (free != hoisted) /* inside the loop of another reduction: there is no parallelism, and no tile is possible */
        return work > SMALL_NEST || is_repeated(v, at);
    if (bl_free_size(&v->free, free) > sched_elements(tensor) && work > SMALL_NEST)
        return true;
    if (v->stages != 0 && free == stage_outputs(v))
        return false;
    if (v->products > 1 && is_large_product(v, reduce)) {
        v->products--;
        return true;
    }
    if (v->tiled)
        return free != v->outputs || is_side_sum(v, reduce);
    if (free == v->outputs)
        return false;
    if (bl_free_size(&v->free, free) < 2 * (int64_t)v->s->options->units && (work > SMALL_SERIAL || around > SMALL_SERIAL))
        return true;
    if ((hoisted & v->chain) != hoisted && (hoisted & v->chain) != v->chain)
        return true; /* it is neither within nor around the hoisted reductions: no order of loops serves both */
    v->chain &= hoisted;
    return false;
}

/* A strided gradient that has a few sums more than are needed gets a buffer for all its sums, so that each phase of the stride is
 * a loop without gates: 144 channels of 47 x 47, windows of 3 x 3, took 755 us in one nest, and 94 us in two. */
static int cut_reductions(view *v, stored *st)
{
    int marked = 0;
    bool spare = false;

    st->cut_sums = true;
    if (st->value != NULL) /* else it is a loop */
        find_loops(v);
    if (v->around == NULL)
        return 0;
    for (size_t i = 0; i < v->st->below.count; i++) {
        const bl_node *node = v->st->below.at[i];
        const bl_node *tensor = node->op == BL_OP_REDUCE ? origin_of(v->s, node) : NULL;
        if (tensor == NULL || tensor == st->node)
            continue;
        spare = bl_free_work(&v->free, node) > SPARE_SUMS && sched_has_spare_sums(v->s->ir, node, tensor);
        if (!must_cut(v, i, tensor) && !spare)
            continue;
        st->cut_sums = false;
        marked += spare ? realise_mark(v->s, sched_position(v->s, tensor)) : sched_cut_after(v->s, tensor);
    }
    return marked;
}

static int count_loads(sched *s, const bl_node *node)
{
    bl_nodes below = bl_reach(s->ir, 1, &node, false);
    int n = 0;
    for (size_t i = 0; i < below.count; i++)
        n += below.at[i]->op == BL_OP_LOAD;
    return n;
}

/* Does |node| combine values of fewer loops each, as the product of a matmul does? It has more elements than each of its
 * operands, and costs one op once these have buffers. */
static bool realise_is_outer(view *v, const bl_node *node)
{
    uint64_t free = bl_free_get(&v->free, node);
    for (uint32_t i = 0; i < node->nsrc; i++) {
        if (bl_free_get(&v->free, node->src[i]) == free)
            return false;
    }
    return node->nsrc > 1;
}

/* A costly value inside a reduction that does not depend on all loops of the reduction is computed repeatedly: the topmost
 * such values get buffers. */
static int cut_costly(view *v, const bl_node *reduce)
{
    sched *s = v->s;
    int64_t all = bl_free_work(&v->free, reduce);
    uint64_t bound = bl_free_bound(&v->free, reduce);
    bl_nodes below = bl_reach(s->ir, (int)reduce->arg, reduce->src, false);
    bl_ptrmap covered;
    int marked = 0;

    bl_ptrmap_init(&covered, bl_ir_arena(s->ir));
    for (size_t i = below.count; i-- > 0;) {
        const bl_node *node = below.at[i];
        const bl_node *tensor = origin_of(s, node);
        bool cover = bl_ptrmap_has(&covered, node);
        /* a value outside the loop is computed once, before the loop */
        if (!cover && tensor != NULL && tensor->op != BL_OP_REDUCE && (bl_free_get(&v->free, node) & bound) != 0 &&
            !realise_is_outer(v, node)) {
            int cost = s->weight[sched_position(s, tensor)] + 2 * (count_loads(s, node) - 1);
            cost = sched_is_join(s, tensor)
                       ? COSTLY
                       : cost; /* each part would be written by a kernel of its own, with the padding around it */
            bool many = s->options->group_columns == 0 && all / MANY_USES >= sched_elements(tensor);
            cover = cost >= (many ? COSTLY_MANY : COSTLY) && all / REUSED >= sched_elements(tensor);
            if (cover && !sched_is_unpacked(tensor)) /* the parts of an unpacked value get no buffer either */
                marked += realise_mark(s, sched_position(s, tensor));
        }
        for (uint32_t k = 0; cover && k < node->nsrc; k++)
            bl_ptrmap_add(&covered, node->src[k]);
    }
    return marked;
}

/* Does |reduce| read an operand once, element for element, as the sum of a norm's gradient over all but the channels does? The
 * memory then bounds it, whatever else it reuses: it needs no registers for a tile, and sums beside it may read the same. */
static bool streams(view *v, const bl_node *reduce)
{
    bl_nodes below = bl_reach(v->s->ir, (int)reduce->arg, reduce->src, false);
    uint64_t all = bl_free_get(&v->free, reduce) | bl_free_bound(&v->free, reduce);

    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_LOAD && bl_free_get(&v->free, below.at[i]) == all &&
            bl_free_places(&v->free, below.at[i]) >= bl_free_work(&v->free, reduce))
            return true;
    }
    return false;
}

static void realise_look_at(view *v, sched *s, stored *st)
{
    *v = (view){.s = s, .st = st};
    st->product = st->tiled = false;
    if (st->value == NULL)
        return; /* a loop computes nothing here */
    bl_free_init(&v->free, s->ir);
    for (int i = 0; i < st->nranges; i++)
        v->outputs |= bl_free_bit(&v->free, st->range[i]);
    v->chain = v->outputs;
    bl_free_get(&v->free, st->value);
    for (size_t i = 0; i < st->below.count; i++) {
        const bl_node *node = st->below.at[i];
        if (node->op == BL_OP_STAGE)
            v->stages |= bl_free_bound(&v->free, node);
        if (node->op != BL_OP_REDUCE || bl_free_get(&v->free, node) != v->outputs)
            continue;
        bool tiled = bl_reads_over_and_over(&v->free, node, REUSED, true);
        v->tiled = v->tiled || tiled;
        st->tiled = st->tiled || (tiled && !streams(v, node));
        st->product = st->product || bl_reads_over_and_over(&v->free, node, REUSED, false);
        v->products += is_large_product(v, node);
        st->sums = st->sums || is_side_sum(v, node);
    }
}

enum { NO_STORE = -1, SEVERAL_STORES = -2 }; /* in place of the position of the only store that computes a value */

static int either(int store, int also)
{
    if (store == NO_STORE || store == also)
        return also;
    return also == NO_STORE ? store : SEVERAL_STORES;
}

/* Does the value at |at|, or a value that only moves it, have several users? */
static bool has_users(const sched *s, int at)
{
    while (s->nusers[at] == 1 && s->user[at] != NULL && bl_op_get_class((bl_op)s->user[at]->op) == BL_CLASS_MOVE)
        at = sched_position(s, s->user[at]);
    return s->nusers[at] >= 2;
}

/* Give buffers to costly values that several stores compute. Users come first: once a value has a buffer, only one store
 * computes its sources. */
static int cut_twice(sched *s)
{
    int *store = bl_arena_array(bl_ir_arena(s->ir), s->order.count, sizeof *store); /* by position */
    int marked = 0;

    for (size_t at = 0; store != NULL && at < s->order.count; at++)
        store[at] = NO_STORE;
    for (int at = store == NULL ? 0 : (int)s->order.count; at-- > 0;) {
        const bl_node *node = s->order.at[at];
        if (s->realised[at] == INLINE && store[at] == SEVERAL_STORES && s->weight[at] >= COSTLY_TWICE && has_users(s, at) &&
            bl_op_get_class((bl_op)node->op) == BL_CLASS_ALU && sched_elements(node) > 1)
            marked += realise_mark(s, at);
        for (uint32_t i = 0; i < node->nsrc; i++) {
            int from = sched_position(s, node->src[i]);
            if (from >= 0 && (s->realised[at] == BUFFERED || s->realised[at] == COPIED))
                store[from] = either(store[from], at);
            if (from >= 0 && s->realised[at] != BUFFERED)
                store[from] = either(store[from], store[at]);
        }
    }
    return marked;
}

static bool binds_too_much(const sched *s, const stored *st)
{
    uint32_t buffers = 1; /* its own */
    if (st->value == NULL)
        return false;
    for (size_t i = 0; i < st->below.count; i++)
        buffers += st->below.at[i]->op == BL_OP_BUFFER && st->below.at[i]->sub == 0;
    return buffers > s->options->max_params;
}

/* The new buffers are additional leaves of other expressions, so check again how many buffers each expression reads. */
static int limit_again(sched *s)
{
    leafset *sets = NULL;
    bool *above = NULL;
    int marked = 0;
    bool over = false;

    for (int i = 0; i < s->nstored && !over; i++)
        over = binds_too_much(s, &s->stored[i]);
    if (over) {
        sets = bl_arena_array(bl_ir_arena(s->ir), s->order.count, sizeof *sets);
        above = bl_arena_array(bl_ir_arena(s->ir), s->order.count, sizeof *above);
    }
    for (int at = 0; sets != NULL && above != NULL && at < (int)s->order.count; at++)
        marked += limit_leaves(s, sets, above, s->order.at[at], at);
    return marked;
}

/* Five rules in this order, since each rule sees clearly only what the rule before has left: reductions, costly operands of
 * reductions, costly values computed twice, concatenations, expressions that read too many buffers. */
int sched_mark_more(sched *s)
{
    int marked = 0, reductions = 0;

    sched_weigh(s, 0, (int)s->order.count - 1);
    s->round++;
    for (int i = 0; i < s->nstored; i++) {
        view v;
        if (s->stored[i].cut_sums)
            continue;
        realise_look_at(&v, s, &s->stored[i]);
        reductions += cut_reductions(&v, &s->stored[i]);
    }
    for (int i = 0; reductions == 0 && i < s->nstored; i++) {
        stored *st = &s->stored[i];
        int costly = 0;
        view v;
        if (st->cut_costs)
            continue;
        realise_look_at(&v, s, st);
        for (size_t k = 0; k < st->below.count; k++) {
            if (st->below.at[k]->op == BL_OP_REDUCE)
                costly += cut_costly(&v, st->below.at[k]);
        }
        st->cut_costs = costly == 0;
        marked += costly;
    }
    marked += reductions;
    if (marked == 0)
        marked = cut_twice(s);
    if (marked == 0)
        marked = sched_mark_joins(s);
    return marked > 0 ? marked : limit_again(s);
}

int sched_mark_shared(sched *s, int ngroups)
{
    int marked = 0;
    int *group = bl_arena_array(bl_ir_arena(s->ir), s->order.count, sizeof *group);

    s->round++;
    if (group == NULL || ngroups < 2)
        return 0;
    for (int i = 0; i < s->nstored; i++) {
        stored *st = &s->stored[i];
        view v;
        realise_look_at(&v, s, st);
        for (size_t k = 0; k < st->below.count; k++) {
            const bl_node *node = st->below.at[k];
            const bl_node *tensor = node->op == BL_OP_REDUCE ? origin_of(s, node) : NULL;
            int at = tensor == NULL ? -1 : sched_position(s, tensor);
            if (at < 0 || s->realised[at] == BUFFERED || (bl_free_get(&v.free, node) & v.stages) != 0)
                continue; /* each user of a stage computes it */
            if (group[at] != 0 && group[at] != st->group + 1)
                marked += sched_cut_after(s, tensor);
            group[at] = st->group + 1;
        }
    }
    return marked;
}
