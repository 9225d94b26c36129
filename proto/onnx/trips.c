/* SPDX-License-Identifier: MIT */
/* The number of steps of a loop whose condition compares a value that grows by a constant per step, as "i + 1 < n"; exporters
 * write loops over sequences this way.  The import computes the condition (engine/ir/elements.h) with a VAR as the step number,
 * and solves the comparison for the VAR. */
#include "engine/ir/affine.h"
#include "proto/onnx/import.h"

/* More steps than any plan has, and small enough for exact arithmetic. */
enum { ENDLESS = 1 << 24 };

/* A plan launches at most MOST_LAUNCHES kernels (engine/plan/launches.c).  LSTMs of several exporters needed one kernel for about
 * 12 nodes of a step; ROOM allows for devices that need more.  A fixed length counts like a named one, since the search for
 * ranges widens the sizes that it finds. */
enum { MOST_LAUNCHES = 1 << 16, NODES_OF_KERNEL = 12, ROOM = 2 };

typedef struct trips {
    bl_onnx_importer *m;
    bl_onnx_graph *body; /* its inputs are the step number, then the carries */
    const bl_node *step; /* VAR */
} trips;

/* The only element of |value| in the body, or NULL. */
static const bl_node *trips_element_of(const trips *t, bl_onnx_value *value)
{
    const bl_onnx_known *known = value != NULL ? value->known : NULL;

    if (value != NULL && known == NULL && value->graph == t->body)
        known = bl_onnx_compute(t->m, t->body, value->type);
    else if (known == NULL)
        known = bl_onnx_know(t->m, value);
    return known != NULL && known->count == 1 && known->size != NULL ? known->size[0] : NULL;
}

/* What a step adds to a one-element integer carry; NULL if that is not constant. */
static const bl_node *growth(const trips *t, int carry, bl_onnx_value *next)
{
    bl_ir *ir = t->m->ir;
    const bl_node *now = bl_var(ir, t->m->nvars + 1, 0, ENDLESS), *then;

    t->body->given[1 + carry] = now;
    then = trips_element_of(t, next);
    t->body->given[1 + carry] = NULL;
    then = then != NULL ? bl_sub(ir, then, now) : NULL;
    return then != NULL && bl_is_const(then) ? then : NULL;
}

static const bl_node *trips_least(bl_ir *ir, const bl_node *a, const bl_node *b)
{
    if (a == NULL || b == NULL || a == b)
        return a != NULL && b != NULL ? a : NULL;
    return !bl_may_be_negative(ir, bl_sub(ir, b, a)) ? a : !bl_may_be_negative(ir, bl_sub(ir, a, b)) ? b : NULL;
}

/* The number of steps, from 0 on, for which |above| > 0 holds. */
static const bl_node *while_positive(const trips *t, const bl_node *above)
{
    bl_ir *ir = t->m->ir;
    const bl_node *rest = NULL;
    bl_affine sum;
    int64_t by = bl_affine_of(&sum, above) ? -bl_affine_along(&sum, t->step) : 0;

    if (by <= 0)
        return NULL;
    rest = bl_add(ir, above, bl_mul(ir, t->step, bl_index(ir, by)));
    rest = bl_add(ir, rest, bl_index(ir, by - 1));
    return bl_may_be_negative(ir, rest) ? NULL : bl_idiv(ir, rest, bl_index(ir, by));
}

/* The number of steps, from 0 on, for which |condition| (or its opposite) holds; NULL if unknown. */
static const bl_node *while_true(const trips *t, const bl_node *condition, bool opposite)
{
    bl_ir *ir = t->m->ir;
    const bl_node *x = condition->nsrc > 0 ? condition->src[0] : NULL, *y = condition->nsrc > 1 ? condition->src[1] : NULL;

    if (bl_is_const(condition))
        return bl_index(ir, (bl_const_value(condition).u != 0) != opposite ? ENDLESS : 0);
    if (condition->op == BL_OP_NOT)
        return while_true(t, x, !opposite);
    if (condition->op == (opposite ? BL_OP_OR : BL_OP_AND))
        return trips_least(ir, while_true(t, x, opposite), while_true(t, y, opposite));
    if (condition->op != BL_OP_CMPLT || x->dtype != BL_INDEX || y->dtype != BL_INDEX)
        return NULL;
    return while_positive(t, opposite ? bl_add(ir, bl_sub(ir, x, y), bl_index(ir, 1)) : bl_sub(ir, y, x));
}

bool bl_onnx_add_steps(bl_onnx_call *c, const bl_node *length, const bl_onnx_graph *body)
{
    bl_onnx_importer *m = c->import;
    int64_t each = ROOM * (body->wire.nnodes / NODES_OF_KERNEL + 1);

    m->launches += length->hi > MOST_LAUNCHES ? MOST_LAUNCHES + 1 : length->hi * each;
    if (m->launches > MOST_LAUNCHES)
        bl_onnx_fail_as(c, BL_ELIMIT, "it has %s%lld steps of about %lld kernels; the limit of all loops together is %d",
                        bl_is_const(length) ? "" : "up to ", (long long)length->hi, (long long)each, MOST_LAUNCHES);
    return m->launches <= MOST_LAUNCHES;
}

const bl_node *bl_onnx_count_trips(bl_onnx_call *c, bl_onnx_graph *body, int ncarries, bl_onnx_value *const *next,
                                   bl_onnx_value *goes_on)
{
    bl_ir *ir = c->import->ir;
    trips t = {.m = c->import, .body = body, .step = bl_var(ir, c->import->nvars, 0, ENDLESS)};
    const bl_node **carry = bl_arena_array(c->import->scratch, (size_t)ncarries + 1, sizeof *carry), *condition, *more;

    body->given = bl_arena_array(c->import->scratch, (size_t)ncarries + 1, sizeof *body->given);
    if (carry == NULL || body->given == NULL)
        return NULL;
    for (int i = 0; i < ncarries; i++) {
        const bl_onnx_known *start = bl_dtype_is_float(bl_onnx_type(c->in[2 + i])) ? NULL : bl_onnx_know(c->import, c->in[2 + i]);
        const bl_node *by = start != NULL && start->count == 1 && start->dtype != BL_BOOL ? growth(&t, i, next[i]) : NULL;
        carry[i] = by != NULL ? bl_add(ir, start->size[0], bl_mul(ir, by, t.step)) : NULL;
    }
    body->given[0] = t.step;
    for (int i = 0; i < ncarries; i++)
        body->given[1 + i] = carry[i];
    condition = trips_element_of(&t, goes_on);
    body->given = NULL;
    more = condition != NULL ? while_true(&t, condition, false) : NULL;
    return more != NULL ? bl_add(ir, more, bl_index(ir, 1)) : NULL;
}
