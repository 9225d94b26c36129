/* SPDX-License-Identifier: MIT */
#include "engine/front/frame.h"

#include "engine/grad/grad.h"

bool bl_frame_take_padding(bl_call *c, bl_frame *f)
{
    int64_t each[2 * BL_FRAME_AXES];
    bool pairs = bl_attr(c, "padding")->count == 2 * f->n;

    if (!bl_call_each(c, "padding", 0, pairs ? 2 * f->n : f->n, each))
        return false;
    for (int i = 0; i < f->n; i++) {
        f->before[i] = each[pairs ? 2 * i : i];
        f->after[i] = each[pairs ? 2 * i + 1 : i];
    }
    return true;
}

int64_t bl_frame_span(const bl_frame *f, int i)
{
    return f->dilation[i] * (f->size[i] - 1) + 1; /* all below 2^31 */
}

const bl_node *bl_frame_pad(bl_call *c, const bl_node *x, const bl_frame *f, const bl_node *value)
{
    const bl_node *before[BL_MAX_DIMS], *after[BL_MAX_DIMS], *start[BL_MAX_DIMS], *size[BL_MAX_DIMS];

    if (x->op == BL_OP_POISON)
        return x;
    for (int i = 0; i < x->ndim; i++) {
        int at = i - (x->ndim - f->n);
        int64_t b = at < 0 ? 0 : f->before[at], a = at < 0 ? 0 : f->after[at];
        before[i] = bl_index(c->ir, b > 0 ? b : 0);
        after[i] = bl_index(c->ir, a > 0 ? a : 0);
        start[i] = bl_index(c->ir, b < 0 ? -b : 0);
        size[i] = bl_add(c->ir, x->dim[i], bl_index(c->ir, a + b));
    }
    return bl_crop(c->ir, bl_call_pad(c, x, before, after, value), start, size);
}

const bl_node *bl_frame_slide(bl_call *c, const bl_node *x, const bl_frame *f)
{
    int first = x->ndim - f->n;

    if (x->op == BL_OP_POISON)
        return x;
    if (x->ndim + f->n > BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "needs a tensor of %d dimensions; the limit is %d", x->ndim + f->n, BL_MAX_DIMS);
    for (int i = 0; i < f->n; i++) {
        if (bl_frame_span(f, i) > x->dim[first + i]->lo)
            return bl_call_fail(c, "a window of %lld (dilation %lld) is larger than the padded input: %s", (long long)f->size[i],
                                (long long)f->dilation[i], bl_call_shape(c, x));
    }
    for (int i = 0; i < f->n; i++)
        x = bl_window(c->ir, x, first + i, f->size[i], f->stride[i], f->dilation[i]);
    return x;
}
