/* SPDX-License-Identifier: MIT */
/* Loops (SCAN). The body becomes a schedule of its own. Its nests are compiled once and run once per step: they read a slice
 * of each sequence and write a slice of each stacked result, at an index that a VAR holds, and refer to carries by CARRY
 * places. The schedule of the body is spliced into the schedule of the graph around it. */
#include "engine/ir/scan.h"

#include "engine/ir/shape.h"
#include "engine/sched/sched_internal.h"

/* A body while it is inserted into the schedule around it. */
typedef struct splice {
    sched *s;
    const bl_node *node; /* the SCAN */
    const bl_scan *scan;
    const bl_node *step; /* VAR: the current step */
    int nroots;
    const bl_node **root;
    const bl_node **offset;
    int *root_place; /* in |s| */
    bl_carry *carries;
    const bl_schedule *body;
    int *place; /* of each place of the body in |s| */
} splice;

void sched_build_loop_store(sched *s, stored *st)
{
    const bl_node **reads = bl_arena_array(bl_ir_arena(s->ir), (size_t)st->node->nsrc + 1, sizeof *reads);

    for (uint32_t i = 0; reads != NULL && i < st->node->nsrc; i++) {
        reads[i] = bl_load(s->ir, sched_buffer(s, st->node->src[i]), bl_index(s->ir, 0), NULL);
    }
    if (reads != NULL)
        st->below = bl_reach(s->ir, (int)st->node->nsrc, reads, false);
}

/* Source |which| as the kernels of the body see it: an input, or the current step's slice of an input. */
static const bl_node *as_input(const splice *p, int which)
{
    bl_ir *ir = p->s->ir;
    const bl_node *src = p->node->src[which], *whole = NULL, *start[BL_MAX_DIMS], *size[BL_MAX_DIMS];

    if (!bl_scan_is_sequence(p->scan, which))
        return bl_input(ir, which, (bl_dtype)src->dtype, src->ndim, src->dim);
    for (int i = 0; i < src->ndim; i++) {
        start[i] = i == 0 ? p->step : bl_index(ir, 0);
        size[i] = i == 0 ? bl_index(ir, p->scan->length->hi) : src->dim[i]; /* no launch reads beyond the length of the run */
    }
    whole = bl_input(ir, which, (bl_dtype)src->dtype, src->ndim, size);
    size[0] = bl_index(ir, 1);
    return bl_reshape(ir, bl_shrink(ir, whole, start, size), src->ndim - 1, src->dim + 1);
}

static void add_root(splice *p, const bl_node *root, bool stacked, int place)
{
    p->root[p->nroots] = root;
    if (stacked)
        p->offset[p->nroots] = bl_mul(p->s->ir, p->step, bl_shape_count(p->s->ir, root->ndim, root->dim));
    p->root_place[p->nroots++] = place;
}

/* The place of result |which|, or -1 if the result is unused. */
static int result_place(const splice *p, int which)
{
    const bl_node *result = bl_scan_result(p->s->ir, p->node, which);
    return sched_position(p->s, result) < 0 ? -1 : sched_place(p->s, result);
}

static int add_place(splice *p, bl_place_kind kind, const bl_node *like)
{
    bl_place place = {.kind = kind, .dtype = (bl_dtype)like->dtype, .count = bl_shape_count(p->s->ir, like->ndim, like->dim)};
    return sched_add_place(p->s, place) ? p->s->out->nplaces - 1 : 0;
}

/* The two places of carry |i|: the place of its result, which the last step writes, and another one; or the places of its two
 * results. */
static void scan_schedule_take_turns(splice *p, int i, bl_carry *carry)
{
    const bl_node *length = p->scan->length;
    int last = bl_is_const(length) ? (int)((length->hi - 1) % 2) : 0, result[2] = {-1, -1};

    result[last] = result_place(p, i);
    if (!bl_is_const(length))
        result[1] = result_place(p, bl_scan_first_odd(p->scan) + i);
    for (int k = 0; k < 2; k++) {
        if (result[k] < 0 && (k == last || length->hi > 1))
            result[k] = add_place(p, BL_PLACE_TEMP, p->node->src[i]);
    }
    carry->place[0] = result[0];
    carry->place[1] = result[1] >= 0 ? result[1] : result[0];
}

/* The values that the body computes: every next carry, and the used outputs and histories of carries. */
static void scan_schedule_take_roots(splice *p)
{
    const bl_scan *scan = p->scan;
    int nroots = scan->ncarries + scan->nys;

    for (int i = 0; i < scan->ncarries; i++) {
        const bl_node *like = p->node->src[i];
        bl_carry *carry = &p->carries[i];
        *carry = (bl_carry){.init = sched_place(p->s, like)};
        carry->in = add_place(p, BL_PLACE_CARRY, like);
        carry->out = add_place(p, BL_PLACE_CARRY, like);
        scan_schedule_take_turns(p, i, carry);
        add_root(p, scan->root[i], false, carry->out);
    }
    for (int i = scan->ncarries; i < bl_scan_first_odd(scan); i++) {
        int place = result_place(p, i);
        if (place >= 0)
            add_root(p, i < nroots ? scan->root[i] : bl_scan_bound(p->s->ir, scan, p->node->src, i - nroots), true, place);
    }
}

static void bind_roots(splice *p)
{
    bl_ptrmap to;

    bl_ptrmap_init(&to, bl_ir_arena(p->s->ir));
    for (int i = 0; i < (int)p->node->nsrc; i++)
        bl_ptrmap_put(&to, bl_scan_bound(p->s->ir, p->scan, p->node->src, i), as_input(p, i));
    for (int i = 0; i < p->nroots; i++)
        p->root[i] = bl_substitute(p->s->ir, p->root[i], &to);
}

static void map_places(splice *p)
{
    for (int i = 0; i < p->body->nplaces; i++) {
        const bl_place *place = &p->body->places[i];
        int which = place->index;
        if (place->kind == BL_PLACE_INPUT)
            p->place[i] = which < p->scan->ncarries ? p->carries[which].in : sched_place(p->s, p->node->src[which]);
        else if (place->kind == BL_PLACE_ROOT)
            p->place[i] = p->root_place[which];
        else
            p->place[i] = sched_add_place(p->s, *place) ? p->s->out->nplaces - 1 : 0;
    }
}

static bool copy_nest(splice *p, const bl_nest *nest)
{
    bl_nest copy = *nest;
    int *param = bl_arena_array(bl_ir_arena(p->s->ir), (size_t)nest->nparams + 1, sizeof *param);

    for (int i = 0; param != NULL && i < nest->nparams; i++)
        param[i] = p->place[nest->param[i]];
    copy.param = param;
    return param != NULL && sched_add_nest(p->s, &copy);
}

/* A loop inside the body. */
static bool copy_loop(splice *p, const bl_loop *loop, int first)
{
    bl_loop copy = *loop;
    bl_carry *carries = bl_arena_array(bl_ir_arena(p->s->ir), (size_t)loop->ncarries + 1, sizeof *carries);

    for (int i = 0; carries != NULL && i < loop->ncarries; i++) {
        const bl_carry *c = &loop->carries[i];
        carries[i] =
            (bl_carry){p->place[c->in], p->place[c->out], p->place[c->init], {p->place[c->place[0]], p->place[c->place[1]]}};
    }
    copy.carries = carries;
    copy.first += first;
    copy.end += first;
    return carries != NULL && sched_add_loop(p->s, copy);
}

static void splice_in(splice *p)
{
    const bl_schedule *body = p->body;
    int first = p->s->out->nnests;
    bl_loop loop = {.first = first,
                    .end = first + body->nnests,
                    .steps = p->scan->length,
                    .reverse = p->scan->reverse,
                    .var = (int)p->step->arg,
                    .ncarries = p->scan->ncarries,
                    .carries = p->carries};
    bool ok = body->nnests == 0 || sched_add_loop(p->s, loop);

    for (int i = 0; ok && i < body->nloops; i++)
        ok = copy_loop(p, &body->loops[i], first);
    for (int i = 0; ok && i < body->nnests; i++)
        ok = copy_nest(p, &body->nests[i]);
}

bl_status sched_add_scan(sched *s, const bl_node *node, bl_err *err)
{
    bl_arena *arena = bl_ir_arena(s->ir);
    splice p = {.s = s, .node = node, .scan = bl_scan_get(s->ir, node)};
    size_t most = (size_t)bl_scan_results(p.scan) + 1;
    bl_schedule *body = NULL;

    p.step = bl_var(s->ir, s->options->first_var + s->depth, 0, p.scan->length->hi - 1);
    p.root = bl_arena_array(arena, most, sizeof *p.root);
    p.offset = bl_arena_array(arena, most, sizeof *p.offset);
    p.root_place = bl_arena_array(arena, most, sizeof *p.root_place);
    p.carries = bl_arena_array(arena, most, sizeof *p.carries);
    BL_TRY(bl_arena_status(arena, err));
    scan_schedule_take_roots(&p);
    bind_roots(&p);
    BL_TRY(bl_ir_status(s->ir, err));
    BL_TRY(sched_make(s->ir, p.nroots, p.root, p.offset, s->depth + 1, s->options, &body, err));
    p.body = body;
    p.place = bl_arena_array(arena, (size_t)body->nplaces + 1, sizeof *p.place);
    BL_TRY(bl_arena_status(arena, err));
    map_places(&p);
    splice_in(&p);
    return bl_ir_status(s->ir, err);
}
