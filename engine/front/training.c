/* SPDX-License-Identifier: MIT */
/* Training options of a job: mixed precision, loss scaling, gradient accumulation. The program stays the same; its graph is
 * built differently. */
#include "engine/front/training.h"

#include "engine/grad/grad.h"

#include <math.h>
#include <string.h>

/* ---- products in a short dtype, as PyTorch's autocast has it (docs.pytorch.org, "Autocast Op Reference") */

/* Ops that are faster in a narrow dtype at little cost in precision: they accumulate in float32. */
static const char *const short_ops[] = {"matmul",    "linear",   "conv", "conv2d", "conv_transpose", "einsum", "attention",
                                        "lstm_cell", "gru_cell", "dot",  "bmm",    "addmm",          "outer",  NULL};
/* Ops that need the range of float32, or add up many numbers. The loss is one of them. */
static const char *const wide_ops[] = {"softmax",
                                       "log_softmax",
                                       "softmin",
                                       "logsumexp",
                                       "cross_entropy",
                                       "nll_loss",
                                       "sparse_categorical_crossentropy",
                                       "mse_loss",
                                       "l1_loss",
                                       "smooth_l1_loss",
                                       "huber_loss",
                                       "binary_cross_entropy",
                                       "binary_cross_entropy_with_logits",
                                       "layer_norm",
                                       "rms_norm",
                                       "batch_norm",
                                       "group_norm",
                                       "instance_norm",
                                       "normalize",
                                       "sum",
                                       "mean",
                                       "prod",
                                       "cumsum",
                                       "var",
                                       "std",
                                       "norm",
                                       "exp",
                                       "log",
                                       "log2",
                                       "log10",
                                       "log1p",
                                       "expm1",
                                       "pow",
                                       "reciprocal",
                                       "rsqrt",
                                       "softplus",
                                       NULL};

static bool is_one_of(const char *const *names, const char *name)
{
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

void bl_training_cast(const bl_build *b, const bl_wire_node *node, const bl_node **operand)
{
    const bl_training *t = &b->options->training;
    const bl_wire_op *op = bl_wire_op_find(node->op);
    bool differentiates = op != NULL && strstr(op->signature, ": Wrt") != NULL;
    bl_dtype from = BL_F32, to = t->compute;
    int n = differentiates && node->nrefs > 0 ? 1 : node->nrefs; /* parameters keep their dtype */

    if (!t->mixed)
        return;
    if (differentiates || is_one_of(wide_ops, node->op)) {
        from = t->compute;
        to = BL_F32;
    } else if (!is_one_of(short_ops, node->op)) {
        return;
    }
    for (int i = 0; i < n; i++)
        if (operand[i] != NULL && operand[i]->dtype == from)
            operand[i] = bl_cast(b->ir, to, operand[i]);
}

/* ---- gradients */

static const bl_node *hide_scalar(bl_call *c, const char *what, const bl_node ***update)
{
    const char *name = bl_arena_printf(bl_ir_arena(c->ir), "%s.%s", c->node->ids[0], what);
    return bl_build_hide(c, name, BL_F32, NULL, update);
}

static const bl_node *training_number(bl_call *c, double value)
{
    return bl_const_float(c->ir, BL_F32, value);
}

static const bl_node *is_finite(bl_call *c, const bl_node *x)
{
    return bl_and(c->ir, bl_less(c->ir, x, bl_full_like(c->ir, x, INFINITY)),
                  bl_less(c->ir, bl_full_like(c->ir, x, -INFINITY), x));
}

/* Are all elements of all gradients finite? */
static const bl_node *all_finite(bl_call *c, int n, const bl_node *const *g)
{
    const bl_node *bad = NULL;

    for (int i = 0; i < n; i++) {
        const bl_node *one = bl_where(c->ir, is_finite(c, g[i]), bl_cast(c->ir, BL_F32, bl_full_like(c->ir, g[i], 0)),
                                      bl_cast(c->ir, BL_F32, bl_full_like(c->ir, g[i], 1)));
        uint32_t all = (1u << one->ndim) - 1;
        const bl_node *sum = bl_drop_axes(c->ir, bl_reduce(c->ir, BL_OP_MAX, one, all), all);
        bad = bad == NULL ? sum : bl_alu2(c->ir, BL_OP_MAX, bad, sum);
    }
    return bl_contiguous(c->ir, bl_less(c->ir, bad, training_number(c, 0.5)));
}

/* As PyTorch's GradScaler: the scale is halved after a step with a non-finite gradient, and doubled after GROW_AFTER steps
 * without one. */
enum { FIRST_SCALE = 65536, GROW_AFTER = 2000 };

typedef struct scaling {
    const bl_node *scale, *good;
    const bl_node **scale_update, **good_update;
} scaling;

static void begin_scaling(bl_call *c, const bl_training *t, scaling *s)
{
    *s = (scaling){.scale = training_number(c, t->scale)};
    if (!t->dynamic)
        return;
    s->scale = hide_scalar(c, "scale", &s->scale_update); /* a hidden state starts as 0, which stands for the first scale */
    s->good = hide_scalar(c, "good", &s->good_update);
    s->scale = bl_where(c->ir, bl_less(c->ir, training_number(c, 0), s->scale), s->scale, training_number(c, FIRST_SCALE));
}

static void end_scaling(bl_call *c, const scaling *s, const bl_node *finite)
{
    bl_ir *ir = c->ir;
    const bl_node *good = bl_add_real(ir, s->good, 1), *grows = bl_less(ir, training_number(c, GROW_AFTER - 0.5), good);
    const bl_node *up = bl_where(ir, grows, bl_mul(ir, s->scale, training_number(c, 2)), s->scale);

    *s->scale_update = bl_where(ir, finite, up, bl_mul(ir, s->scale, training_number(c, 0.5)));
    *s->good_update = bl_where(ir, bl_and(ir, finite, bl_not(ir, grows)), good, training_number(c, 0));
}

static void scale_back(bl_call *c, const bl_node *scale, int n, const bl_node **g)
{
    const bl_node *inverse = bl_div(c->ir, training_number(c, 1), scale);

    for (int i = 0; i < n; i++) {
        const bl_node *wide = bl_widen(c->ir, g[i]);
        const bl_node *factor = bl_spread(c->ir, bl_cast(c->ir, (bl_dtype)wide->dtype, inverse), wide);
        g[i] = bl_cast(c->ir, (bl_dtype)g[i]->dtype, bl_mul(c->ir, wide, factor));
    }
}

/* The mean over passes, accumulated in "w1.sum.w"; complete after the last pass, which resets it. */
static void training_gather(bl_call *c, const bl_training *t, int n, const bl_node **g)
{
    for (int i = 0; i < n; i++) {
        const bl_node **update = NULL;
        const char *name = bl_arena_printf(bl_ir_arena(c->ir), "%s.sum.%s", c->node->ids[0],
                                           bl_build_ref_name(c->build, &c->node->refs[c->first_rest + i]));
        const bl_node *sum = bl_build_hide(c, name, (bl_dtype)g[i]->dtype, g[i], &update);
        g[i] = bl_add(c->ir, sum, bl_mul(c->ir, g[i], bl_full_like(c->ir, g[i], 1.0 / t->passes)));
        *update = t->gathers ? g[i] : bl_full_like(c->ir, g[i], 0);
    }
}

bool bl_training_gradients(bl_call *c, const bl_node **g, const bl_node **applies)
{
    const bl_training *t = &c->build->options->training;
    const bl_node *loss = c->in[0], *seed = NULL;
    bool scaled = t->dynamic || t->scale > 0;
    scaling s = {0};

    *applies = NULL;
    if (scaled) {
        begin_scaling(c, t, &s);
        seed = bl_spread(c->ir, bl_cast(c->ir, (bl_dtype)loss->dtype, s.scale), loss);
    }
    bl_grad(c->ir, loss, seed, c->nrest, c->rest, g);
    if (scaled)
        scale_back(c, s.scale, c->nrest, g);
    if (t->passes > 1)
        training_gather(c, t, c->nrest, g);
    if (t->dynamic && !t->gathers) {
        *applies = all_finite(c, c->nrest, g);
        end_scaling(c, &s, *applies);
    }
    return bl_ir_status(c->ir, NULL) == BL_OK;
}

const bl_node *bl_training_choose(bl_call *c, const bl_node *applies, const bl_node *fresh, const bl_node *old)
{
    if (c->build->options->training.gathers)
        return old;
    return applies == NULL ? fresh : bl_where(c->ir, bl_spread(c->ir, applies, fresh), fresh, old);
}

/* ---- what follows from parameters that a pass does not change */

static bool needs_any(const bl_wire_node *node, const bool *marked)
{
    for (int i = 0; i < node->nrefs; i++)
        if (node->refs[i].kind == BL_REF_NODE && marked[node->refs[i].index])
            return true;
    return false;
}

bool bl_training_keeps(const bl_build *b, const bl_wire_ref *ref)
{
    const bl_wire_graph *wire = b->wire;
    bool *marked = NULL;

    if (!b->options->training.gathers || ref->kind != BL_REF_NODE)
        return false;
    marked = bl_arena_array(bl_ir_arena(b->ir), (size_t)wire->nnodes + 1, sizeof *marked);
    for (int i = 0; marked != NULL && i < wire->nnodes; i++) { /* sources precede their users */
        const bl_wire_op *op = bl_wire_op_find(wire->nodes[i].op);
        bool optimiser = op != NULL && strstr(op->signature, "loss: ") == op->signature;
        marked[i] = optimiser || needs_any(&wire->nodes[i], marked);
    }
    return marked != NULL && marked[ref->index];
}
