/* SPDX-License-Identifier: MIT */
/* Control flow. Bodies are graphs in attributes; a body sees only the values that are passed to it. */
#include "engine/front/build.h"
#include "engine/ir/scan.h"

static bool check_body(bl_call *c, const bl_wire_graph *body, const char *name, int inputs, int results)
{
    if (body->ninputs != inputs)
        bl_call_fail(c, "%s has %d input%s, but the node passes %d", name, body->ninputs, body->ninputs == 1 ? "" : "s", inputs);
    else if (body->noutputs != results)
        bl_call_fail(c, "%s has %d output%s, but the node has %d id%s", name, body->noutputs, body->noutputs == 1 ? "" : "s",
                     results, results == 1 ? "" : "s");
    else
        return true;
    return false;
}

static bool control_same_type(const bl_node *a, const bl_node *b)
{
    return a->dtype == b->dtype && bl_shape_equal(a, b);
}

/* ---- scan */

/* The number of steps: the common length of the sequences, or |length| if given. POISON after a failure. */
static const bl_node *control_count_steps(bl_call *c, int ncarries, int nsequences)
{
    const bl_value *given = bl_attr(c, "length");
    const bl_node *steps = given->given ? given->size : NULL;

    if (steps != NULL && steps->lo < 0)
        return bl_call_fail(c, "length is %s; it must be 0 or more for every size", bl_size_text(c->ir, steps));
    for (int i = ncarries; i < ncarries + nsequences; i++) {
        const bl_node *x = c->rest[i];
        if (x->ndim == 0)
            return bl_call_fail(c, "input %d is a sequence and has shape []; it needs a first axis", i);
        if (steps != NULL && x->dim[0] != steps)
            return bl_call_fail(c, "input %d has shape %s, but the number of steps is %s", i, bl_call_shape(c, x),
                                bl_size_text(c->ir, steps));
        steps = x->dim[0];
    }
    return steps != NULL ? steps : bl_call_fail(c, "has no sequences; the attribute \"length\" is missing");
}

/* A scan of zero steps: the results are the initial carries and empty outputs. */
static const bl_node *without_steps(bl_call *c, int ncarries, const bl_node *const *root)
{
    for (int i = 0; i < c->nresults; i++) {
        const bl_node *dim[BL_MAX_DIMS + 1];
        if (i < ncarries) {
            c->result[i] = c->rest[i];
            continue;
        }
        dim[0] = bl_index(c->ir, 0);
        for (int k = 0; k < root[i]->ndim; k++)
            dim[k + 1] = root[i]->dim[k];
        c->result[i] = bl_call_full(c, bl_const_int(c->ir, (bl_dtype)root[i]->dtype, 0), root[i]->ndim + 1, dim);
    }
    return c->result[0];
}

/* The roots of a body, followed by its index checks, which a scan stacks like outputs. NULL without memory. */
static const bl_node **with_checks(bl_call *c, const bl_node *const *root, const bl_index_check *checks)
{
    size_t n = (size_t)c->nresults;
    const bl_node **all = bl_arena_array(bl_ir_arena(c->ir), n + (size_t)bl_checks_count(checks) + 1, sizeof *all);

    if (all == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        all[i] = root[i];
    for (; checks != NULL; checks = checks->next)
        all[n++] = checks->first;
    return all;
}

const bl_node *expand_scan(bl_call *c)
{
    int64_t ncarries = bl_attr(c, "carries")->whole, nsequences = bl_attr(c, "sequences")->whole;
    const bl_wire_graph *body = bl_attr(c, "body")->graph;
    bl_arena *arena = bl_ir_arena(c->ir);
    const bl_node **bound = bl_arena_array(arena, (size_t)c->nrest + 1, sizeof *bound);
    const bl_node **root = bl_arena_array(arena, (size_t)c->nresults + 1, sizeof *root), *scan = NULL;
    const bl_index_check *checks = NULL;
    const bl_node *steps = NULL;

    if (ncarries < 0 || nsequences < 0 || ncarries > c->nrest || nsequences > c->nrest - ncarries)
        return bl_call_fail(c, "%lld carries and %lld sequences do not fit %d input%s", (long long)ncarries,
                            (long long)nsequences, c->nrest, c->nrest == 1 ? "" : "s");
    steps = control_count_steps(c, (int)ncarries, (int)nsequences);
    if (bound == NULL || root == NULL || steps->op == BL_OP_POISON || !check_body(c, body, "the body", c->nrest, c->nresults))
        return NULL;
    if (c->nresults < ncarries)
        return bl_call_fail(c, "the body has %d output%s for %lld carries", c->nresults, c->nresults == 1 ? "" : "s",
                            (long long)ncarries);
    for (int i = 0; i < c->nrest; i++) {
        const bl_node *x = c->rest[i];
        int slice = i >= ncarries && i < ncarries + nsequences;
        bound[i] = bl_bound(c->ir, i, (bl_dtype)x->dtype, x->ndim - slice, x->dim + slice);
    }
    if (!bl_build_body(c, body, bound, root, &checks))
        return NULL;
    root = with_checks(c, root, checks);
    if (root == NULL)
        return NULL;
    for (int i = 0; i < ncarries; i++) {
        if (!control_same_type(root[i], c->rest[i]))
            return bl_call_fail(c, "carry %d starts as %s, but the body returns %s", i, bl_node_text(c->ir, c->rest[i]),
                                bl_node_text(c->ir, root[i]));
    }
    if (bl_is_int(steps, 0))
        return without_steps(c, (int)ncarries, root);
    scan = bl_scan_make(c->ir,
                        &(bl_scan){.ncarries = (int)ncarries,
                                   .nsequences = (int)nsequences,
                                   .nconstants = c->nrest - (int)(ncarries + nsequences),
                                   .nys = c->nresults + bl_checks_count(checks) - (int)ncarries,
                                   .length = steps,
                                   .reverse = bl_attr(c, "reverse")->flag,
                                   .root = root},
                        c->rest);
    for (int i = 0; i < c->nresults; i++)
        c->result[i] = i < ncarries ? bl_scan_last(c->ir, scan, i) : bl_scan_result(c->ir, scan, i);
    bl_checks_of_scan(c, scan, c->nresults, checks);
    return c->result[0];
}

/* ---- cond */

/* Returns x, as used in the branch that is taken where |is| is true. The gradient of x is zero where |is| is false, so that a
 * NaN from the other branch (at a pole, for instance) does not reach x. */
static const bl_node *guard(bl_call *c, const bl_node *is, const bl_node *x)
{
    if (!bl_dtype_is_float((bl_dtype)x->dtype))
        return x;
    return bl_where(c->ir, bl_spread(c->ir, is, x), x, bl_detach(c->ir, x));
}

static bool build_branch(bl_call *c, const char *name, const bl_node *is, const bl_node **output)
{
    const bl_wire_graph *body = bl_attr(c, name)->graph;
    const bl_node **input = bl_arena_array(bl_ir_arena(c->ir), (size_t)c->nrest + 1, sizeof *input);
    const bl_index_check *checks = NULL;

    if (input == NULL || !check_body(c, body, name, c->nrest, c->nresults))
        return false;
    for (int i = 0; i < c->nrest; i++)
        input[i] = guard(c, is, c->rest[i]);
    if (!bl_build_body(c, body, input, output, &checks))
        return false;
    bl_checks_of_branch(c, is, checks);
    return true;
}

/* Both branches are computed and one result is selected, since a recorded plan always launches the same kernels. */
const bl_node *expand_cond(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *is = c->in[0];
    bl_arena *arena = bl_ir_arena(ir);
    const bl_node **yes = bl_arena_array(arena, (size_t)c->nresults + 1, sizeof *yes);
    const bl_node **no = bl_arena_array(arena, (size_t)c->nresults + 1, sizeof *no);

    if (!bl_is_int(bl_shape_count(ir, is->ndim, is->dim), 1))
        return bl_call_fail(c, "the condition must have one element, not shape %s", bl_call_shape(c, is));
    is = bl_reshape(ir, is, 0, NULL);
    if (yes == NULL || no == NULL || !build_branch(c, "then", is, yes) || !build_branch(c, "otherwise", bl_not(ir, is), no))
        return NULL;
    for (int i = 0; i < c->nresults; i++) {
        if (!control_same_type(yes[i], no[i]))
            return bl_call_fail(c, "result %d is %s in \"then\" and %s in \"otherwise\"", i, bl_node_text(ir, yes[i]),
                                bl_node_text(ir, no[i]));
        c->result[i] = bl_where(ir, bl_spread(ir, is, yes[i]), yes[i], no[i]);
    }
    return c->result[0];
}
