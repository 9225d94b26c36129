/* SPDX-License-Identifier: MIT */
/* Ops that create tensors. */
#include "engine/front/build.h"
#include "engine/ir/shape.h"

#include <math.h>
#include <stdlib.h>

const bl_node *expand_full(bl_call *c)
{
    const bl_value *shape = bl_attr(c, "shape"), *given = bl_attr(c, "value");
    bl_dtype dtype = bl_attr(c, "dtype")->dtype;
    bool is_text = given->from->kind == BL_ATTR_STRING;
    const bl_node *value =
        is_text ? bl_cast(c->ir, dtype, bl_cast(c->ir, BL_I64, given->size)) : bl_call_literal(c, dtype, &given->number);

    return bl_call_full(c, value, shape->count, shape->sizes);
}

const bl_node *expand_full_like(bl_call *c)
{
    const bl_value *dtype = bl_attr(c, "dtype");
    const bl_node *x = c->in[0];
    return bl_spread(c->ir, bl_call_literal(c, dtype->given ? dtype->dtype : (bl_dtype)x->dtype, &bl_attr(c, "value")->number),
                     x);
}

/* The numbers in a text, as uint64 [n]. */
const bl_node *expand__words(bl_call *c)
{
    bl_ir *ir = c->ir;
    const char *text = bl_attr(c, "text")->text;
    int64_t count = 1;

    for (const char *at = text; *at != '\0'; at++)
        count += *at == ' ';
    const bl_node *place = bl_iota(ir, BL_U32, bl_index(ir, count)), *words = NULL;
    for (int64_t i = 0; i < count; i++) {
        char *end = NULL;
        const bl_node *word = bl_spread(ir, bl_const(ir, BL_U64, (bl_scalar){.u = strtoull(text, &end, 0)}), place);
        const bl_node *here = bl_alu2(ir, BL_OP_CMPEQ, place, bl_full_like(ir, place, (double)i));
        words = words == NULL ? word : bl_where(ir, here, word, words);
        text = end;
    }
    return bl_contiguous(ir, words);
}

/* start + step * (0, 1, ...) */
static const bl_node *create_count_up(bl_call *c, const bl_node *count, bl_dtype dtype, const bl_node *start, const bl_node *step)
{
    bl_ir *ir = c->ir;
    const bl_node *iota = bl_iota(ir, dtype, count);
    return bl_add(ir, bl_mul(ir, iota, bl_spread(ir, step, iota)), bl_spread(ir, start, iota));
}

static bool take_whole_step(const bl_wire_number *number, int64_t *step)
{
    *step = (int64_t)(number->negative ? 0 - number->magnitude : number->magnitude);
    return number->whole && number->magnitude <= INT64_MAX;
}

static const bl_node *whole_range(bl_call *c, const bl_node *start, const bl_node *stop, int64_t step, bl_dtype dtype)
{
    bl_ir *ir = c->ir;
    int64_t size = step < 0 ? -step : step;

    if (step == 0)
        return bl_call_fail(c, "step may not be 0");
    const bl_node *length = step > 0 ? bl_sub(ir, stop, start) : bl_sub(ir, start, stop);
    if (length->hi <= 0)
        length = bl_index(ir, 0);
    if (length->op == BL_OP_POISON || bl_may_be_negative(ir, length) || length->hi > INT64_MAX - size)
        return bl_call_fail(c, "step %lld does not lead from start to stop for every size of the dimensions", (long long)step);
    const bl_node *count = bl_idiv(ir, bl_add(ir, length, bl_index(ir, size - 1)), bl_index(ir, size));
    /* counted in int64, so that a step that the dtype cannot hold wraps as the sum does */
    const bl_node *values = create_count_up(c, count, BL_I64, bl_cast(ir, BL_I64, start), bl_const_int(ir, BL_I64, step));
    return bl_cast(ir, dtype, values);
}

static const bl_node *real_range(bl_call *c, double start, double stop, double step, bl_dtype dtype)
{
    bl_ir *ir = c->ir;
    double count = ceil((stop - start) / step);

    if (!(fabs(count) < 9007199254740992.0)) /* 2^53: exact in a double. NaN is rejected too. */
        return bl_call_fail(c, "the range from %g to %g in steps of %g has too many elements", start, stop, step);
    if (!bl_dtype_is_float(dtype))
        return bl_call_fail(c, "a range with fractions must have a float dtype, not %s", bl_dtype_name(dtype));
    const bl_node *extent = bl_index(ir, count > 0 ? (int64_t)count : 0);
    bl_dtype wide = dtype == BL_F64 ? BL_F64 : BL_F32;
    return bl_cast(ir, dtype, create_count_up(c, extent, wide, bl_const_float(ir, wide, start), bl_const_float(ir, wide, step)));
}

const bl_node *expand_arange(bl_call *c)
{
    const bl_value *start = bl_attr(c, "start");
    const bl_value *stop = bl_attr(c, "stop");
    const bl_wire_number *step = &bl_attr(c, "step")->number;
    const bl_value *dtype = bl_attr(c, "dtype");
    int64_t whole_step;

    if (dtype->given && dtype->dtype == BL_BOOL)
        return bl_call_fail(c, "is not defined for bool");
    if (start->size != NULL && stop->size != NULL && take_whole_step(step, &whole_step))
        return whole_range(c, start->size, stop->size, whole_step, dtype->given ? dtype->dtype : BL_I64);
    if ((start->size != NULL && !bl_is_const(start->size)) || (stop->size != NULL && !bl_is_const(stop->size)))
        return bl_call_fail(c, "a range of a named dimension needs whole numbers");
    return real_range(c, start->real, stop->real, step->value, dtype->given ? dtype->dtype : BL_F32);
}
