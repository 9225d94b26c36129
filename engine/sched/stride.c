/* SPDX-License-Identifier: MIT */
/* Sums in which only every n-th iteration contributes: in the gradient of windows with a stride, element c gets a
 * contribution from position k of a window only if c - k is a multiple of the stride, and the sum over k tests that in each
 * iteration. This pass replaces the loop by a loop over the contributing iterations, k = stride * j + c mod stride, which
 * needs no gate. If the windows do not overlap, no loop remains. The elements of one phase, c mod stride, sum the same k; if the
 * stride divides the number of elements, a phase is a loop of the nest. */
#include "engine/ir/affine.h"
#include "engine/ir/gate.h"
#include "engine/ir/rewrite.h"
#include "engine/sched/sched_internal.h"

/* Iteration k of |range| contributes if k is |factor| * f modulo |step|. */
typedef struct hole {
    const bl_node *range, *f;
    int64_t step, factor;
} hole;

/* The x from 0 to s - 1 with a * x = 1 modulo s; 0 if there is none. */
static int64_t inverse(int64_t a, int64_t s)
{
    int64_t r = s, next = a % s < 0 ? a % s + s : a % s, x = 0, step = 1;

    while (next != 0) {
        int64_t quotient = r / next, r2 = r - quotient * next, x2 = x - quotient * step;
        r = next;
        next = r2;
        x = step;
        step = x2;
    }
    return r != 1 ? 0 : x < 0 ? x + s : x;
}

/* Is |clause| (f - a * range) mod s < 1, where f does not depend on |ranges|? */
static bool find_hole(bl_ir *ir, const bl_node *clause, const bl_node *range, int n, const bl_node *const *ranges, hole *out)
{
    const bl_node *by = NULL;
    int64_t a = 0;
    bl_affine sum;

    if (clause->op != BL_OP_CMPLT || clause->src[0]->op != BL_OP_MOD || clause->src[0]->dtype != BL_INDEX ||
        !bl_is_int(clause->src[1], 1))
        return false;
    by = clause->src[0]->src[1];
    if (!bl_is_const(by) || by->arg < 2 || by->arg > INT32_MAX)
        return false;
    a = bl_affine_of(&sum, clause->src[0]->src[0]) ? bl_affine_along(&sum, range) : 0;
    if (a == 0)
        return false;
    out->range = range;
    out->step = by->arg;
    out->factor = a == 1 ? 1 : inverse(-a, by->arg);
    out->f = bl_sub(ir, clause->src[0]->src[0], bl_mul(ir, range, bl_index(ir, a)));
    out->f = a == 1 ? bl_sub(ir, bl_index(ir, 0), out->f) : out->f;
    return out->factor != 0 && !bl_reaches(ir, 1, &out->f, n, ranges);
}

/* The condition under which |value| is not zero; NULL if it is not known. */
static const bl_node *stride_gate_of(const bl_node *value)
{
    while (value->op == BL_OP_CAST)
        value = value->src[0];
    if (value->op == BL_OP_LOAD)
        return value->nsrc > 2 ? value->src[2] : NULL;
    return bl_is_gated(value) ? value->src[0] : NULL;
}

static const bl_node *load_under(bl_ir *ir, const bl_node *const *src, const bl_node *own, const bl_node *gate)
{
    gate = own == NULL ? gate : gate == NULL ? own : bl_and(ir, own, gate);
    return bl_load(ir, src[0], sched_given(ir, src[1], gate), gate);
}

/* Is |load| inside its buffer for every |range|? Its gate ensures that, except for the part of its index that the bounds of
 * loops keep inside. */
static bool is_guarded(sched *s, const bl_node *load, const bl_node *range)
{
    const bl_node *bounded = bl_ptrmap_get(&s->bounded, load);
    return bounded != NULL && range != NULL && !bl_reaches(s->ir, 1, &bounded, 1, &range);
}

typedef struct filling {
    sched *s;
    const bl_ptrmap *map;
    const bl_node *range, *gate; /* |gate| NULL: none */
    bl_ptrmap depend;            /* the nodes that depend on |range| */
} filling;

static const bl_node *fill_hole(void *arg, const bl_node *node, const bl_node *const *src)
{
    filling *f = arg;
    sched *s = f->s;
    const bl_node *made = bl_ptrmap_get(f->map, node);
    bool depends = node == f->range, guarded = f->range == NULL || is_guarded(s, node, f->range);

    if (f->range != NULL && bl_binds(node, f->range))
        return node;
    for (uint32_t k = 0; k < node->nsrc && !depends; k++)
        depends = bl_ptrmap_has(&f->depend, node->src[k]);
    if (depends)
        bl_ptrmap_add(&f->depend, node);
    if (made != NULL)
        return made;
    if (bl_has_sources(node, src))
        return node;
    if (node->op == BL_OP_LOAD) {
        made = load_under(s->ir, src, node->nsrc > 2 ? src[2] : NULL, depends && !guarded ? f->gate : NULL);
        if (guarded && bl_ptrmap_has(&s->bounded, node))
            bl_ptrmap_put(&s->bounded, made, bl_ptrmap_get(&s->bounded, node));
    } else {
        made = bl_node_rebuild(s->ir, node, src, node->dim);
    }
    if (bl_ptrmap_has(&s->origin, node) && !bl_ptrmap_has(&s->origin, made))
        bl_ptrmap_put(&s->origin, made, bl_ptrmap_get(&s->origin, node));
    return made;
}

/* |value| with the keys of |map| replaced, except inside nodes that bind |range| again. Loads get |gate| too if the bounds of
 * |range| kept them inside their buffers. New nodes take over the origin of the nodes that they replace. */
static const bl_node *stride_replace(sched *s, const bl_node *value, const bl_ptrmap *map, const bl_node *range,
                                     const bl_node *gate)
{
    filling f = {.s = s, .map = map, .range = range, .gate = gate};
    bl_ptrmap_init(&f.depend, bl_ir_arena(s->ir));
    return bl_rewrite(s->ir, value, fill_hole, &f);
}

/* A loop variable c with f = c + rest or f = rest - c, which no node in |value| binds; NULL if there is none. */
static const bl_node *coordinate_of(bl_ir *ir, const bl_node *f, const bl_node *value, int64_t *sign)
{
    bl_affine sum;

    for (int i = 0; bl_affine_of(&sum, f) && i < sum.count; i++) {
        const bl_node *term = sum.at[i].node;
        *sign = sum.at[i].coefficient;
        if (term->op == BL_OP_RANGE && (*sign == 1 || *sign == -1) && !bl_is_bound(ir, value, term))
            return term;
    }
    return NULL;
}

/* f as step * q + r, with placeholders for q and r until everything is simplified: otherwise the normal form of an index
 * would merge q and r into f before equal terms of r cancel. */
typedef struct parts {
    const bl_node *q, *r;           /* of f */
    const bl_node *held_q, *held_r; /* RANGEs; q is held_q + lowest */
    int64_t lowest;
} parts;

static parts hold_parts(bl_ir *ir, const hole *h)
{
    parts p = {.q = bl_idiv(ir, h->f, bl_index(ir, h->step)), .r = bl_mod(ir, h->f, bl_index(ir, h->step))};

    p.lowest = p.q->lo;
    p.held_q = bl_range(ir, bl_loop_pack(BL_LEVEL_HELD, 0), BL_AXIS_LOOP, bl_index(ir, p.q->hi - p.lowest + 1));
    p.held_r = bl_range(ir, bl_loop_pack(BL_LEVEL_HELD, 1), BL_AXIS_LOOP, bl_index(ir, h->step));
    return p;
}

static bool bounds_are_small(const bl_node *f)
{
    return f->lo > -INT32_MAX && f->hi < INT32_MAX;
}

/* |value| over the contributing iterations of h->range: a loop over |*turns|, or a single iteration if that is NULL. */
static const bl_node *close_hole(sched *s, const bl_node *value, const hole *h, const bl_node **turns)
{
    bl_ir *ir = s->ir;
    const bl_node *step = bl_index(ir, h->step), *extent = h->range->src[0], *gate = NULL, *k = NULL;
    const bl_node *count = bl_idiv(ir, bl_add(ir, extent, bl_index(ir, h->step - 1)), step);
    parts p = hold_parts(ir, h);
    int64_t sign = 0;
    const bl_node *c = coordinate_of(ir, h->f, value, &sign);
    const bl_node *r = c == NULL ? p.r : p.held_r;
    bl_ptrmap map, back;

    *turns = bl_is_int(count, 1) ? NULL : bl_range_like(ir, h->range, BL_AXIS_REDUCE, count);
    k = h->factor == 1 ? r : bl_mod(ir, bl_mul(ir, r, bl_index(ir, h->factor)), step);
    k = *turns == NULL ? k : bl_add(ir, k, bl_mul(ir, *turns, step));
    gate = bl_less(ir, k, extent);
    bl_ptrmap_init(&map, bl_ir_arena(ir));
    bl_ptrmap_put(&map, h->range, k);
    if (c != NULL) {
        const bl_node *rest = sign > 0 ? bl_sub(ir, h->f, c) : bl_add(ir, h->f, c);
        const bl_node *q = bl_add(ir, p.held_q, bl_index(ir, p.lowest));
        const bl_node *to = bl_sub(ir, bl_add(ir, bl_mul(ir, q, step), r), rest);
        bl_ptrmap_put(&map, c, bl_mul(ir, to, bl_index(ir, sign)));
    }
    value = stride_replace(s, value, &map, h->range, bl_is_int(gate, 1) ? NULL : gate);
    value = bl_where(ir, gate, value, bl_const_int(ir, (bl_dtype)value->dtype, 0));
    if (c == NULL)
        return value;
    bl_ptrmap_init(&back, bl_ir_arena(ir));
    bl_ptrmap_put(&back, p.held_q, bl_sub(ir, p.q, bl_index(ir, p.lowest)));
    bl_ptrmap_put(&back, p.held_r, p.r);
    return stride_replace(s, value, &back, NULL, NULL);
}

const bl_node *sched_close_holes(sched *s, const bl_node *value, int *n, const bl_node **ranges)
{
    for (int i = 0; i < *n; i++) {
        const bl_node *gate = stride_gate_of(value), *turns = NULL;
        bl_clauses all = {0};
        hole h;
        bool found = false;
        if (gate == NULL || !bl_clauses_add(&all, gate))
            return value;
        for (int k = 0; k < all.count && !found; k++)
            found = find_hole(s->ir, all.at[k], ranges[i], *n, ranges, &h) && bounds_are_small(h.f);
        if (!found || bl_find_op(s->ir, value, BL_OP_STAGE) != NULL)
            continue;
        value = close_hole(s, value, &h, &turns);
        ranges[i] = turns;
        if (turns != NULL)
            continue;
        for (int k = i + 1; k < *n; k++)
            ranges[k - 1] = ranges[k];
        --*n;
        i--;
    }
    return value;
}

/* Is |extent| no multiple of |step|, and is the next multiple an extent of |tensor|? */
static bool is_rounded_up(const bl_node *tensor, int64_t extent, int64_t step)
{
    for (int i = 0; extent % step != 0 && i < tensor->ndim; i++) {
        if (bl_is_int(tensor->dim[i], (extent / step + 1) * step))
            return true;
    }
    return false;
}

/* Does |reduce| sum products? Other sums, as of a max pooling, gain less from phases without gates than a copy costs. */
static bool sums_products(const bl_node *reduce)
{
    const bl_node *value = reduce->src[0];

    while (value->op == BL_OP_CAST || value->op == BL_OP_WHERE)
        value = value->src[value->op == BL_OP_WHERE ? 1 : 0];
    return value->op == BL_OP_MUL;
}

bool sched_has_spare_sums(bl_ir *ir, const bl_node *reduce, const bl_node *tensor)
{
    bl_nodes below = bl_reach(ir, 1, &reduce, false);

    for (size_t i = 0; i < below.count && sums_products(reduce); i++) {
        const bl_node *node = below.at[i];
        bl_affine sum;
        if (node->op != BL_OP_MOD || node->dtype != BL_INDEX || !bl_is_const(node->src[1]) || node->src[1]->arg < 2 ||
            !bl_affine_of(&sum, node->src[0]))
            continue;
        for (int k = 0; k < sum.count; k++) {
            const bl_node *term = sum.at[k].node; /* a loop, or its quotient by the distance of the sums */
            if (term->hi < INT32_MAX && is_rounded_up(tensor, term->hi + 1, node->src[1]->arg))
                return true;
        }
    }
    return false;
}
