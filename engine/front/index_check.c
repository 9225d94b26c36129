/* SPDX-License-Identifier: MIT */
/* Checks of indices, if the graph asks for checks (bl_wire_graph.check_indices).  A check is a scalar that every step computes:
 * the first index out of range, as position * 2^32 + value - INT32_MIN, or INT64_MAX if every index is in range.  One number
 * holds position and value, so that one minimum finds both, and no second kernel reads the value. */
#include "engine/front/build.h"
#include "engine/ir/scan.h"
#include "engine/ir/shape.h"

static const bl_node *index_check_whole(bl_ir *ir, int64_t value, const bl_node *like)
{
    return bl_spread(ir, bl_const_int(ir, BL_I64, value), like);
}

/* |index| as int64.  A uint64 above INT64_MAX becomes INT64_MAX, which is out of range for every extent. */
static const bl_node *as_int64(bl_ir *ir, const bl_node *index)
{
    if (index->dtype == BL_U64)
        index = bl_alu2(ir, BL_OP_MIN, index, bl_spread(ir, bl_const_int(ir, BL_U64, INT64_MAX), index));
    return bl_cast(ir, BL_I64, index);
}

static const bl_node *is_outside(bl_ir *ir, const bl_node *index, const bl_index_bound *bound)
{
    const bl_node *extent = bl_spread(ir, bl_cast(ir, BL_I64, bound->extent), index), *zero = index_check_whole(ir, 0, index);
    const bl_node *low = bound->wraps ? bl_sub(ir, zero, extent) : zero;
    const bl_node *outside = bl_not(ir, bl_and(ir, bl_not(ir, bl_less(ir, index, low)), bl_less(ir, index, extent)));

    if (bound->ignores)
        outside = bl_and(ir, outside, bl_not(ir, bl_alu2(ir, BL_OP_CMPEQ, index, index_check_whole(ir, bound->ignored, index))));
    return outside;
}

/* The check of the vector |index|, int64. */
static const bl_node *first_outside(bl_ir *ir, const bl_node *index, const bl_index_bound *bound)
{
    const bl_node *low = bl_alu2(ir, BL_OP_MAX, index, index_check_whole(ir, INT32_MIN, index));
    const bl_node *value =
        bl_sub(ir, bl_alu2(ir, BL_OP_MIN, low, index_check_whole(ir, INT32_MAX, index)), index_check_whole(ir, INT32_MIN, index));
    const bl_node *place = bl_iota_like(ir, index, 0, BL_I64);
    if (index->dim[0]->hi > BL_INDEX_CHECK_LAST)
        place = bl_alu2(ir, BL_OP_MIN, place, index_check_whole(ir, BL_INDEX_CHECK_LAST, index));
    const bl_node *both = bl_add(ir, bl_mul(ir, place, index_check_whole(ir, BL_INDEX_CHECK_PLACE, index)), value);
    const bl_node *found = bl_where(ir, is_outside(ir, index, bound), both, index_check_whole(ir, INT64_MAX, index));

    return bl_drop_axes(ir, bl_reduce(ir, BL_OP_MIN, found, 1), 1);
}

/* Is every number of |dtype| a legal index? */
static bool always_fits(bl_dtype dtype, const bl_index_bound *bound)
{
    return dtype != BL_U64 && bl_scalar_lowest(dtype).i >= (bound->wraps ? -bound->extent->lo : 0) &&
           bl_scalar_highest(dtype).i < bound->extent->lo;
}

static void add_check(bl_build *b, const bl_index_check *check)
{
    bl_index_check *made = bl_arena_alloc(bl_ir_arena(b->ir), sizeof *made);

    if (made == NULL)
        return; /* the arena records the failure */
    *made = *check;
    made->next = NULL;
    *b->last_check = made;
    b->last_check = &made->next;
}

bool bl_call_checks_indices(const bl_call *c)
{
    return bl_build_outermost(c->build)->wire->check_indices;
}

void bl_call_check_index(bl_call *c, const bl_node *index, const bl_index_bound *bound)
{
    bl_ir *ir = c->ir;
    const bl_call *asked = c;

    if (!bl_call_checks_indices(c) || index->op == BL_OP_POISON || always_fits((bl_dtype)index->dtype, bound))
        return;
    while (asked->caller != NULL)
        asked = asked->caller;
    const bl_node *count = bl_shape_count(ir, index->ndim, index->dim);
    const char *op = bl_arena_strdup(bl_ir_arena(ir), asked->op); /* the plan outlives the wire graph */
    const char *id = bl_arena_strdup(bl_ir_arena(ir), asked->node->ids[0]);
    const bl_node *first = first_outside(ir, bl_reshape(ir, as_int64(ir, index), 1, &count), bound);
    add_check(c->build,
              &(bl_index_check){.op = op, .node = id, .bound = *bound, .ndim = index->ndim, .dim = index->dim, .first = first});
}

const bl_node *bl_call_index(bl_call *c, const bl_node *index, const bl_node *x, int axis)
{
    const bl_node *extent = x->dim[axis];

    if (c->caller == NULL && bl_call_checks_indices(c)) { /* indices that a formula computes are in range by construction */
        const char *before = bl_arena_printf(bl_ir_arena(c->ir), "axis %d of x has size", axis);
        bl_call_check_index(c, index,
                            &(bl_index_bound){.extent = extent, .what = "index", .before = before, .after = "", .wraps = true});
    }
    return bl_wrap_index(c->ir, index, extent);
}

void bl_checks_of_branch(bl_call *c, const bl_node *is, const bl_index_check *checks)
{
    for (; checks != NULL; checks = checks->next) {
        bl_index_check check = *checks;
        check.first =
            bl_where(c->ir, bl_spread(c->ir, is, check.first), check.first, index_check_whole(c->ir, INT64_MAX, check.first));
        add_check(c->build, &check);
    }
}

int bl_checks_count(const bl_index_check *checks)
{
    int n = 0;
    for (; checks != NULL; checks = checks->next)
        n++;
    return n;
}

void bl_checks_of_scan(bl_call *c, const bl_node *scan, int result, const bl_index_check *checks)
{
    for (; checks != NULL; checks = checks->next) {
        bl_index_check check = *checks;
        check.first = bl_scan_result(c->ir, scan, result++);
        add_check(c->build, &check);
    }
}
