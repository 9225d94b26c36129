/* SPDX-License-Identifier: MIT */
/* Gradients as a node, and optimisers, with PyTorch's formulas. */
#include "engine/front/build.h"
#include "engine/front/training.h"
#include "engine/grad/grad.h"

#include <math.h>

/* Check that y can be differentiated. False after a failure. */
static bool check_loss(bl_call *c, const bl_node *y)
{
    if (!bl_dtype_is_float((bl_dtype)y->dtype)) {
        bl_call_fail(c, "only a float can be differentiated, not %s", bl_node_text(c->ir, y));
        return false;
    }
    return true;
}

static bool check_single(bl_call *c, const bl_node *y, const char *hint)
{
    if (bl_is_int(bl_shape_count(c->ir, y->ndim, y->dim), 1))
        return true;
    bl_call_fail(c, "y must have one element, not shape %s%s", bl_call_shape(c, y), hint);
    return false;
}

const bl_node *expand_grad(bl_call *c)
{
    const bl_node *y = c->in[0];
    bool seeded = bl_attr(c, "cotangent")->flag;
    const bl_node *seed = NULL;
    int n = c->nrest - (seeded ? 1 : 0);

    if (n < 1)
        return bl_call_fail(c, "needs y and at least one x%s", seeded ? ", and the cotangent last" : "");
    if (!check_loss(c, y) || !bl_call_results(c, n))
        return y;
    if (seeded) {
        seed = c->rest[n];
        if (!bl_shape_equal(seed, y))
            return bl_call_fail(c, "the cotangent must have y's shape %s, not %s", bl_call_shape(c, y), bl_call_shape(c, seed));
        seed = bl_cast(c->ir, (bl_dtype)y->dtype, seed);
    } else if (!check_single(c, y, "; or give a cotangent")) {
        return y;
    }
    bl_grad(c->ir, y, seed, n, c->rest, c->result);
    return c->result[0];
}

/* State shared by all optimisers, for one parameter at a time. */
typedef struct optimiser {
    bl_call *c;
    const bl_node **gradient;
    const bl_node *applies; /* is the step applied? NULL: always */
    const bl_node *x;       /* the current parameter */
    const char *name;       /* its name */
} optimiser;

/* Clip gradients to -value .. value, and their joint norm to |norm|: torch.nn.utils.clip_grad_value_ and clip_grad_norm_, whose
 * 1e-6 keeps the division defined. */
static void optimisers_clip(bl_call *c, int n, const bl_node **g, double value, double norm)
{
    bl_ir *ir = c->ir;
    const bl_node *sum = NULL;
    bl_dtype wide = BL_F32;

    for (int i = 0; i < n; i++)
        wide = g[i]->dtype == BL_F64 ? BL_F64 : wide;
    for (int i = 0; i < n && value > 0; i++) {
        const bl_node *low = bl_full_like(ir, g[i], -value), *high = bl_full_like(ir, g[i], value);
        g[i] = bl_alu2(ir, BL_OP_MIN, bl_alu2(ir, BL_OP_MAX, g[i], low), high);
    }
    if (norm <= 0)
        return;
    for (int i = 0; i < n; i++) {
        const bl_node *x = bl_widen(ir, g[i]);
        uint32_t all = (1u << x->ndim) - 1;
        const bl_node *part = bl_cast(ir, wide, bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, bl_mul(ir, x, x), all), all));
        sum = sum == NULL ? part : bl_add(ir, sum, part);
    }
    const bl_node *scale = bl_add_real(ir, bl_alu1(ir, BL_OP_SQRT, sum), 1e-6);
    scale = bl_contiguous(ir, bl_alu2(ir, BL_OP_MIN, bl_div(ir, bl_full_like(ir, sum, norm), scale), bl_full_like(ir, sum, 1)));
    for (int i = 0; i < n; i++)
        g[i] = bl_mul(ir, g[i], bl_spread(ir, bl_cast(ir, (bl_dtype)g[i]->dtype, scale), g[i]));
}

static bool take_clips(bl_call *c, int n, const bl_node **g)
{
    const bl_value *value = bl_attr(c, "clip_value"), *norm = bl_attr(c, "clip_norm");
    if ((value->given && !(value->real > 0)) || (norm->given && !(norm->real > 0))) {
        bl_call_fail(c, "clip_value and clip_norm must be above 0");
        return false;
    }
    optimisers_clip(c, n, g, value->given ? value->real : 0, norm->given ? norm->real : 0);
    return true;
}

/* The gradients of the loss with respect to all parameters, clipped if asked for. */
static bool optimisers_begin(optimiser *o, bl_call *c)
{
    *o = (optimiser){.c = c};
    if (!check_loss(c, c->in[0]) || !check_single(c, c->in[0], "") || !bl_call_results(c, c->nrest))
        return false;
    o->gradient = bl_arena_array(bl_ir_arena(c->ir), (size_t)c->nrest, sizeof *o->gradient);
    if (o->gradient == NULL || c->nrest < 1) {
        bl_call_fail(c, "needs a loss and at least one parameter");
        return false;
    }
    if (!bl_training_gradients(c, o->gradient, &o->applies))
        return false;
    return take_clips(c, c->nrest, o->gradient);
}

static void turn_to(optimiser *o, int i)
{
    o->x = o->c->rest[i];
    o->name = bl_build_ref_name(o->c->build, &o->c->node->refs[o->c->first_rest + i]);
}

/* The hidden state |what| of the current parameter, named "w1.m.w". */
static const bl_node *optimisers_remember(optimiser *o, const char *what, const bl_node ***update)
{
    const char *name = bl_arena_printf(bl_ir_arena(o->c->ir), "%s.%s.%s", o->c->node->ids[0], what, o->name);
    return bl_build_hide(o->c, name, (bl_dtype)o->x->dtype, o->x, update);
}

/* The number of this step, from 1, as float32; counted in "w1.step". */
static const bl_node *count_step(bl_call *c, const bl_node *applies)
{
    const bl_node **update;
    const char *name = bl_arena_printf(bl_ir_arena(c->ir), "%s.step", c->node->ids[0]);
    const bl_node *before = bl_build_hide(c, name, BL_F32, NULL, &update), *step = bl_add_real(c->ir, before, 1);
    *update = bl_training_choose(c, applies, step, before);
    return step;
}

const bl_node *expand_clip_grad_norm(bl_call *c)
{
    double norm = bl_attr(c, "max_norm")->real;
    if (!bl_call_results(c, c->nrest))
        return c->rest[0];
    if (!(norm > 0))
        return bl_call_fail(c, "max_norm must be above 0");
    for (int i = 0; i < c->nrest; i++)
        c->result[i] = c->rest[i];
    optimisers_clip(c, c->nrest, c->result, 0, norm);
    return c->result[0];
}

/* ---- optimisers whose step is a formula: "_NAME" (x, gradient, rate, step, remembered...) gives the new x and what is
 * remembered then, with the attributes that both have in common. */

enum { MAX_REMEMBERED = 2 };

typedef struct stepper {
    const char *formula;
    const char *remembered[MAX_REMEMBERED]; /* names of the hidden states of each parameter */
    int nremembered;
    bool uncounted; /* the step number is not used */
} stepper;

/* Copy the attributes of |c| that the op |name| has too. */
static int common_attrs(bl_call *c, const char *name, bl_wire_attr *out)
{
    bl_sig sig;
    int n = 0;

    if (!bl_sig_parse(bl_wire_op_find(name)->signature, &sig))
        return 0;
    for (int i = 0; i < c->sig.nattrs; i++) {
        for (int k = 0; k < sig.nattrs && c->attr[i].given; k++) {
            if (!bl_span_eq(sig.attr[k].name, c->sig.attr[i].name))
                continue;
            out[n] = *c->attr[i].from;
            out[n++].name = bl_arena_strndup(bl_ir_arena(c->ir), sig.attr[k].name.data, sig.attr[k].name.len);
        }
    }
    return n;
}

static const bl_node *optimisers_step_all(bl_call *c, const stepper *s)
{
    bl_ir *ir = c->ir;
    bl_wire_attr attrs[BL_SIG_MAX];
    bl_wire_ref refs[4 + MAX_REMEMBERED];
    optimiser o;

    if (!optimisers_begin(&o, c))
        return c->in[0];
    for (int i = 0; i < 4 + MAX_REMEMBERED; i++)
        refs[i] = (bl_wire_ref){.kind = BL_REF_NODE};
    const bl_node *step = s->uncounted ? bl_const_float(ir, BL_F32, 1) : count_step(c, o.applies);
    bl_wire_node node = {.nids = 1 + s->nremembered,
                         .ids = c->node->ids,
                         .op = s->formula,
                         .nrefs = 4 + s->nremembered,
                         .refs = refs,
                         .nattrs = common_attrs(c, s->formula, attrs),
                         .attrs = attrs};
    for (int i = 0; i < c->nrest; i++) {
        const bl_node **update[MAX_REMEMBERED], *result[1 + MAX_REMEMBERED], *before[MAX_REMEMBERED];
        turn_to(&o, i);
        bl_dtype dtype = (bl_dtype)o.x->dtype, wide = dtype == BL_F64 ? BL_F64 : BL_F32;
        const bl_node *operand[4 + MAX_REMEMBERED] = {bl_cast(ir, wide, o.x), bl_cast(ir, wide, o.gradient[i]),
                                                      bl_call_rate(c, bl_attr(c, "lr"), wide), bl_cast(ir, wide, step)};
        for (int k = 0; k < s->nremembered; k++) {
            before[k] = optimisers_remember(&o, s->remembered[k], &update[k]);
            operand[4 + k] = bl_cast(ir, wide, before[k]);
        }
        if (!bl_build_call(c->build, c, &node, operand, result))
            return NULL;
        for (int k = 0; k < s->nremembered; k++)
            *update[k] = bl_training_choose(c, o.applies, bl_cast(ir, dtype, result[1 + k]), before[k]);
        c->result[i] = bl_training_choose(c, o.applies, bl_cast(ir, dtype, result[0]), o.x);
    }
    return c->result[0];
}

const bl_node *expand_sgd(bl_call *c)
{
    bool momentum = bl_attr(c, "momentum")->real > 0, dampening = bl_attr(c, "dampening")->real != 0;

    if (bl_attr(c, "nesterov")->flag && (!momentum || dampening))
        return bl_call_fail(c, "nesterov needs a momentum and no dampening");
    if (bl_attr(c, "momentum")->real == 0)
        return optimisers_step_all(c, &(stepper){.formula = "_sgd", .uncounted = true});
    return optimisers_step_all(c, &(stepper){"_sgd_momentum", {"buf"}, 1, !dampening});
}

/* Kingma and Ba, arXiv:1412.6980; AdamW: Loshchilov and Hutter, arXiv:1711.05101. */
static const bl_node *adam(bl_call *c, const char *formula)
{
    const bl_value *betas = bl_attr(c, "betas");
    if (betas->count != 2 || !(betas->reals[0] >= 0 && betas->reals[0] < 1 && betas->reals[1] >= 0 && betas->reals[1] < 1))
        return bl_call_fail(c, "betas must be two numbers from 0 to below 1");
    return optimisers_step_all(c, &(stepper){formula, {"m", "v"}, 2, false});
}

const bl_node *expand_adam(bl_call *c)
{
    return adam(c, "_adam");
}

const bl_node *expand_adamw(bl_call *c)
{
    return adam(c, "_adamw");
}

const bl_node *expand_adagrad(bl_call *c)
{
    return optimisers_step_all(c, &(stepper){"_adagrad", {"sum"}, 1, false});
}

const bl_node *expand_rmsprop(bl_call *c)
{
    bool momentum = bl_attr(c, "momentum")->real != 0;
    return optimisers_step_all(c, momentum ? &(stepper){"_rmsprop_momentum", {"v", "buf"}, 2, false}
                                           : &(stepper){"_rmsprop", {"v"}, 1, false});
}

const bl_node *expand_lamb(bl_call *c)
{
    return optimisers_step_all(c, &(stepper){"_lamb", {"m", "v"}, 2, false});
}

const bl_node *expand_lars(bl_call *c)
{
    return optimisers_step_all(c, &(stepper){"_lars", {"buf"}, 1, false});
}

const bl_node *expand_muon(bl_call *c)
{
    return optimisers_step_all(c, &(stepper){"_muon", {"buf"}, 1, false});
}
