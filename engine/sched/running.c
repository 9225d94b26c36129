/* SPDX-License-Identifier: MIT */
/* Flash attention for devices with work-groups: online softmax.
 *
 * The stages of a nest (stage_values.c) are rows of scores, which fit the cache of a CPU core. A work-group of a GPU has some
 * ten thousand bytes of local memory for all its rows, so it reads a few keys at a time, and rescales its sums to the largest
 * score so far. With M the maximum over all iterations, m the maximum before an iteration and m' the maximum after it,
 *
 *     sum of exp(s - M) x  =  over the iterations:  sum' = sum * exp(m - m') + exp(s - m') x
 *
 * This pass takes the stages of a nest out again and writes scores as expressions of the loop over keys. Each sum that
 * depends on the maximum of that loop becomes a running sum (RUNNING and RESCALED; engine/ir/ops.def). A factor or divisor
 * that is the same in all iterations, such as the sum of the exps, is taken out of the sum. If several such terms are added,
 * each term has a sum of its own: the gradient of the queries, sum of k e (d / L + D), is two sums, and D is a third one in
 * the same loop.
 *
 * Special case: a device whose groups are one work-item keeps the stages, and so an exact softmax in phases. 24 whole rows of
 * scores fit in a core's cache, each phase is a register tile with vectors, and no barrier is needed: 4 heads of 512 x 64 took
 * 1.7 ms in phases on PoCL and 29.6 ms in the online form.
 *
 * A nest without such a form, or with a form for which a group lacks memory (engine/opt/score.c), uses buffers instead. */
#include "engine/ir/affine.h"
#include "engine/sched/sched_internal.h"

#include <float.h>

enum { MOST_TERMS = 4 };

/* A term of the value of a sum: gain * rest, where only |rest| differs between iterations of the loop. NULL is 1. */
typedef struct term {
    const bl_node *gain, *rest;
    const bl_node *peak; /* the maximum that |rest| follows, or NULL */
} term;

typedef struct run {
    bl_ir *ir;
    bl_free free;
    const bl_node *range; /* of the loop */
    bool failed;          /* some sum has no running form */
} run;

/* ---- without stages */

/* Map each loop of |stage| to the part of the index of |load| that counts in the steps of that loop. False if the index has
 * no such parts. */
static bool match_loops(bl_ir *ir, const bl_node *stage, const bl_node *load, bl_ptrmap *to)
{
    const bl_node *part[BL_MAX_TERMS];
    bl_affine own, read;
    bool affine = bl_affine_of(&own, stage->src[0]->src[1]) && bl_affine_of(&read, load->src[1]);

    if (!affine || own.count < 1 || own.constant != 0 || (int64_t)stage->nsrc != stage->arg + own.count)
        return false;
    if (own.count == 1 && own.at[0].node->op == BL_OP_RANGE && own.at[0].coefficient == 1) {
        bl_ptrmap_put(to, own.at[0].node, load->src[1]);
        return true;
    }
    if (read.constant != 0)
        return false;
    for (int i = 0; i < own.count; i++)
        part[i] = bl_index(ir, 0);
    for (int k = 0; k < read.count; k++) {
        int64_t by = read.at[k].coefficient, step = 0;
        int best = -1;
        for (int i = 0; i < own.count; i++) {
            if (by >= own.at[i].coefficient && (best < 0 || own.at[i].coefficient > step)) {
                best = i;
                step = own.at[i].coefficient;
            }
        }
        if (best < 0 || by % step != 0)
            return false;
        part[best] = bl_add(ir, part[best], bl_mul(ir, read.at[k].node, bl_index(ir, by / step)));
    }
    for (int i = 0; i < own.count; i++) {
        const bl_node *range = own.at[i].node;
        if (range->op != BL_OP_RANGE || part[i]->lo < 0 || part[i]->hi > range->hi)
            return false; /* the part would reach into the steps of another range */
        bl_ptrmap_put(to, range, part[i]);
    }
    return true;
}

/* The value that |load| reads from a stage; NULL if its form is not simple. */
static const bl_node *staged_value(bl_ir *ir, const bl_node *load)
{
    const bl_node *stage = load->src[0];
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(ir));
    if (stage->arg != 1 || load->nsrc > 2 || !match_loops(ir, stage, load, &to))
        return NULL;
    return bl_substitute(ir, stage->src[0]->src[2], &to);
}

typedef struct unstaging {
    bl_ir *ir;
    bool failed; /* some load of a stage has no simple form */
} unstaging;

static const bl_node *read_through_stage(void *arg, const bl_node *node, const bl_node *const *src)
{
    unstaging *u = arg;
    const bl_node *made = bl_node_over(u->ir, node, src), *value = made;

    if (made->op == BL_OP_LOAD && made->src[0]->op == BL_OP_STAGE && !u->failed) {
        value = staged_value(u->ir, made);
        u->failed = value == NULL;
    }
    return u->failed ? node : value;
}

/* |sink| with each load of a stage replaced by the value that the stage holds there; NULL if a load has no simple form. */
static const bl_node *without_stages(bl_ir *ir, const bl_node *sink)
{
    unstaging u = {.ir = ir};
    sink = bl_rewrite(ir, sink, read_through_stage, &u);
    return u.failed ? NULL : sink;
}

/* ---- sums that follow a maximum */

static bool differs(run *r, const bl_node *node)
{
    return (bl_free_get(&r->free, node) & bl_free_bit(&r->free, r->range)) != 0;
}

static bool running_folds_over(const bl_node *node, const void *range)
{
    return node->op == BL_OP_REDUCE && node->arg == 1 && node->nsrc == 2 && node->src[1] == range;
}

/* Does |node| contain a reduction over the whole loop? */
static bool has_fold(run *r, const bl_node *node)
{
    return bl_find(r->ir, 1, &node, running_folds_over, r->range) != NULL;
}

/* |x| op |y|, where NULL is 1. */
static const bl_node *running_product(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    return x == NULL ? y : y == NULL ? x : bl_mul(ir, x, y);
}

static const bl_node *running_quotient(bl_ir *ir, const bl_node *x, const bl_node *y)
{
    return bl_div(ir, x == NULL ? bl_const_float(ir, (bl_dtype)y->dtype, 1) : x, y);
}

/* The maximum of the loop so far, starting at the lowest finite number: a row without a visible key has the score -inf, and
 * -inf - -inf must not be computed. */
static const bl_node *peak_at(run *r, const bl_node *peak, bool inclusive)
{
    bl_dtype dtype = (bl_dtype)peak->dtype;
    double lowest = dtype == BL_F64 ? -DBL_MAX : dtype == BL_F16 ? -65504.0 : dtype == BL_BF16 ? -0x1.fep127 : -(double)FLT_MAX;
    return bl_alu2(r->ir, BL_OP_MAX, bl_running(r->ir, peak, r->range, inclusive), bl_const_float(r->ir, dtype, lowest));
}

static int running_split(run *r, const bl_node *x, term *out);

static int split_product(run *r, const bl_node *x, term *out)
{
    term a[MOST_TERMS], b[MOST_TERMS];
    int na = running_split(r, x->src[0], a), nb = running_split(r, x->src[1], b), n = 0;

    if (na < 0 || nb < 0 || na * nb > MOST_TERMS)
        return -1;
    for (int i = 0; i < na; i++) {
        for (int k = 0; k < nb; k++) {
            if (a[i].peak != NULL && b[k].peak != NULL)
                return -1; /* a square of exps changes twice as fast with the maximum */
            out[n++] = (term){running_product(r->ir, a[i].gain, b[k].gain), running_product(r->ir, a[i].rest, b[k].rest),
                              a[i].peak != NULL ? a[i].peak : b[k].peak};
        }
    }
    return n;
}

static int split_sum(run *r, const bl_node *x, term *out)
{
    term b[MOST_TERMS];
    int n = running_split(r, x->src[0], out), nb = running_split(r, x->src[1], b);

    if (n < 0 || nb < 0 || n + nb > MOST_TERMS)
        return -1;
    for (int k = 0; k < nb; k++) {
        const bl_node **sign = b[k].gain != NULL ? &b[k].gain : &b[k].rest;
        if (x->op == BL_OP_SUB)
            *sign = bl_alu1(r->ir, BL_OP_NEG, *sign);
        out[n++] = b[k];
    }
    return n;
}

static int split_quotient(run *r, const bl_node *x, term *out)
{
    int n = running_split(r, x->src[0], out);

    if (differs(r, x->src[1]) && has_fold(r, x->src[1]))
        return -1;
    for (int i = 0; i < n; i++) {
        const bl_node **side = differs(r, x->src[1]) ? &out[i].rest : &out[i].gain;
        *side = running_quotient(r->ir, *side, x->src[1]);
    }
    return n;
}

/* where(c, a, b) is where(c, a, 0) + where(c, 0, b). */
static int split_choice(run *r, const bl_node *x, term *out)
{
    const bl_node *zero = bl_const_int(r->ir, (bl_dtype)x->dtype, 0), *one = bl_const_float(r->ir, (bl_dtype)x->dtype, 1);
    int n = 0;

    for (int side = 1; side <= 2; side++) {
        term part[MOST_TERMS];
        int np = x->src[side] == zero ? 0 : running_split(r, x->src[side], part);
        if (np < 0 || n + np > MOST_TERMS || has_fold(r, x->src[0]) || !bl_dtype_is_float((bl_dtype)x->dtype))
            return -1;
        for (int i = 0; i < np; i++) {
            const bl_node *rest = part[i].rest == NULL ? one : part[i].rest;
            part[i].rest = bl_where(r->ir, x->src[0], side == 1 ? rest : zero, side == 1 ? zero : rest);
            out[n++] = part[i];
        }
    }
    return n;
}

/* exp(score - maximum). */
static int split_exp(run *r, const bl_node *x, term *out)
{
    const bl_node *difference = x->src[0], *score = NULL, *peak = NULL;

    if (difference->op != BL_OP_SUB)
        return -1;
    score = difference->src[0];
    peak = difference->src[1];
    if (!running_folds_over(peak, r->range) || peak->sub != BL_OP_MAX || has_fold(r, score) ||
        !bl_dtype_is_float((bl_dtype)x->dtype))
        return -1;
    out[0] = (term){.rest = bl_alu1(r->ir, BL_OP_EXP, bl_sub(r->ir, score, peak_at(r, peak, true))), .peak = peak};
    return 1;
}

static int split_cast(run *r, const bl_node *x, term *out)
{
    int n = running_split(r, x->src[0], out);

    if (!bl_dtype_is_float((bl_dtype)x->dtype) || !bl_dtype_is_float((bl_dtype)x->src[0]->dtype))
        return -1;
    for (int i = 0; i < n; i++) {
        out[i].gain = out[i].gain == NULL ? NULL : bl_cast(r->ir, (bl_dtype)x->dtype, out[i].gain);
        out[i].rest = out[i].rest == NULL ? NULL : bl_cast(r->ir, (bl_dtype)x->dtype, out[i].rest);
    }
    return n;
}

/* |x| as a sum of at most MOST_TERMS terms. Returns their number, or -1 if that is not possible. Recursion is as deep as the
 * expression. */
static int running_split(run *r, const bl_node *x, term *out)
{
    if (!differs(r, x)) {
        out[0] = (term){.gain = x};
        return 1;
    }
    if (!has_fold(r, x)) {
        out[0] = (term){.rest = x};
        return 1;
    }
    switch ((int)x->op) {
    case BL_OP_MUL:
        return split_product(r, x, out);
    case BL_OP_ADD:
    case BL_OP_SUB:
        return split_sum(r, x, out);
    case BL_OP_DIV:
        return split_quotient(r, x, out);
    case BL_OP_WHERE:
        return split_choice(r, x, out);
    case BL_OP_EXP:
        return split_exp(r, x, out);
    case BL_OP_CAST:
        return split_cast(r, x, out);
    case BL_OP_NEG: {
        int n = running_split(r, x->src[0], out);
        for (int i = 0; i < n; i++) {
            const bl_node **sign = out[i].gain != NULL ? &out[i].gain : &out[i].rest;
            *sign = bl_alu1(r->ir, BL_OP_NEG, *sign);
        }
        return n;
    }
    default:
        return -1;
    }
}

/* |sum|, whose value contains reductions over the loop of |sum|, as sums that run together with these; NULL if that is not
 * possible. */
static const bl_node *running_sum(run *r, const bl_node *sum)
{
    bl_ir *ir = r->ir;
    bl_dtype dtype = (bl_dtype)sum->dtype;
    const bl_node *total = NULL;
    term terms[MOST_TERMS];
    int n = sum->sub == BL_OP_ADD ? running_split(r, sum->src[0], terms) : -1;

    for (int i = 0; i < n; i++) {
        const bl_node *value = terms[i].rest == NULL ? bl_const_float(ir, dtype, 1) : terms[i].rest, *factor = NULL;
        if (terms[i].peak != NULL) {
            factor = bl_alu1(ir, BL_OP_EXP, bl_sub(ir, peak_at(r, terms[i].peak, false), peak_at(r, terms[i].peak, true)));
            value = bl_rescaled(ir, value, bl_cast(ir, dtype, factor));
        }
        value = running_product(ir, terms[i].gain, bl_reduce_over(ir, BL_OP_ADD, 1, &value, 1, &r->range));
        total = total == NULL ? value : bl_add(ir, total, value);
    }
    return total;
}

/* ---- which nests */

/* Does the value of |reduce| contain a reduction that depends on the loops of |reduce|? */
static bool running_has_nested(bl_free *free, bl_ir *ir, const bl_node *reduce)
{
    bl_nodes below = bl_reach(ir, 1, reduce->src, false);
    uint64_t bound = bl_free_bound(free, reduce);

    for (size_t i = below.count; i-- > 0;) {
        if (below.at[i]->op == BL_OP_REDUCE && (bl_free_get(free, below.at[i]) & bound) != 0)
            return true;
    }
    return false;
}

/* Do both reductions fold over the same loops? */
static bool alike(const bl_node *a, const bl_node *b)
{
    bool same = a->arg == b->arg && a->nsrc == b->nsrc;
    for (uint32_t i = (uint32_t)a->arg; same && i < a->nsrc; i++)
        same = a->src[i] == b->src[i];
    return same;
}

/* The loop, over keys or over queries, that contains other reductions: the longest loop of a fixed length among the loops of
 * such a sum. (A loop over heads that share keys is a shorter one.) NULL if there are several such sums over different loops,
 * or none. */
static const bl_node *outer_loop(bl_ir *ir, const bl_node *sink)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    const bl_node *first = NULL, *range = NULL;
    bl_free free;

    bl_free_init(&free, ir);
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        if (node->op != BL_OP_REDUCE || !running_has_nested(&free, ir, node))
            continue;
        if (node->arg != 1 || (first != NULL && !alike(first, node)))
            return NULL; /* also if a nested reduction has others nested in it */
        first = node;
    }
    for (uint32_t i = 1; first != NULL && i < first->nsrc; i++) {
        if (range == NULL || first->src[i]->hi > range->hi)
            range = first->src[i];
    }
    return free.failed || range == NULL || !bl_is_const(range->src[0]) ? NULL : range;
}

/* Does a reduction over |range| and other loops depend on a reduction that ends with |range|? They cannot run together. */
static bool has_late_fold(bl_ir *ir, const bl_node *sink, const bl_node *range)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);

    for (size_t i = 0; i < below.count; i++) {
        if (bl_binds(below.at[i], range) && !running_folds_over(below.at[i], range) &&
            bl_is_bound(ir, below.at[i]->src[0], range))
            return true;
    }
    return false;
}

/* May a group own all columns: the output loops on which the reductions nested in |range| do not depend? */
static bool has_few_columns(bl_ir *ir, const bl_node *sink, const bl_node *range, int64_t most)
{
    bl_nodes below = bl_reach(ir, 1, &sink, false);
    uint64_t outputs = 0, columns = 0;
    int64_t n = 1;
    bl_free free;

    bl_free_init(&free, ir);
    for (uint32_t i = 0; i < sink->nsrc; i++)
        outputs |= bl_free_get(&free, sink->src[i]);
    for (size_t i = 0; i < below.count; i++) {
        if (below.at[i]->op == BL_OP_REDUCE && (bl_free_get(&free, below.at[i]) & bl_free_bit(&free, range)) != 0)
            columns |= outputs & ~bl_free_get(&free, below.at[i]);
    }
    for (int i = 0; i < free.nranges; i++) {
        if ((columns >> i & 1) == 0)
            continue;
        if (!bl_is_const(free.range[i]->src[0]) || free.range[i]->src[0]->arg > most / n)
            return false;
        n *= free.range[i]->src[0]->arg;
    }
    return !free.failed;
}

/* Is |buffer| a maximum that another nest stored? */
static bool is_stored_peak(const sched *s, const bl_node *buffer)
{
    const stored *st = sched_stored(s, buffer);
    const bl_node *node = NULL;

    if (st == NULL)
        return false;
    for (node = st->node; node->op == BL_OP_RESHAPE || node->op == BL_OP_DETACH;)
        node = node->src[0];
    return node->op == BL_OP_REDUCE && node->sub == BL_OP_MAX;
}

/* Does the nest follow a maximum, or take exps of values that contain a stored maximum, as the gradients of an attention do?
 * Other values that expand and are reduced again are better in memory, since each iteration would compute them again: the
 * inner layer of a feed-forward block, or the gradient of a max pooling in the gradient of a convolution. */
static bool has_peak(const sched *s, const bl_node *sink)
{
    bl_nodes below = bl_reach(s->ir, 1, &sink, false); /* sources first */
    bl_ptrmap peaks;                                   /* values that contain a stored maximum, with no reduction between */

    bl_ptrmap_init(&peaks, bl_ir_arena(s->ir));
    for (size_t i = 0; i < below.count; i++) {
        const bl_node *node = below.at[i];
        bool peak = is_stored_peak(s, node);
        if (node->op == BL_OP_RUNNING)
            return true;
        for (uint32_t k = 0; k < node->nsrc && !peak; k++)
            peak = node->op != BL_OP_REDUCE && bl_ptrmap_has(&peaks, node->src[k]);
        if (peak && node->op == BL_OP_EXP)
            return true;
        if (peak)
            bl_ptrmap_add(&peaks, node);
    }
    return false;
}

static const bl_node *follow_peak(void *arg, const bl_node *node, const bl_node *const *src)
{
    run *r = arg;
    const bl_node *made = bl_node_over(r->ir, node, src), *sum = made;

    if (!r->failed && running_folds_over(made, r->range) && has_fold(r, made->src[0])) {
        sum = running_sum(r, made);
        r->failed = sum == NULL;
    }
    return r->failed ? node : sum;
}

const bl_node *sched_run(sched *s, const bl_node *sink)
{
    bl_ir *ir = s->ir;
    run r = {.ir = ir};

    sink = without_stages(ir, sink);
    r.range = sink == NULL ? NULL : outer_loop(ir, sink);
    if (r.range == NULL || has_late_fold(ir, sink, r.range) || !has_few_columns(ir, sink, r.range, s->options->group_columns))
        return NULL;
    bl_free_init(&r.free, ir);
    sink = bl_rewrite(ir, sink, follow_peak, &r);
    return !r.failed && !r.free.failed && has_peak(s, sink) && bl_ir_status(ir, NULL) == BL_OK ? sink : NULL;
}
