/* SPDX-License-Identifier: MIT */
#include "engine/opt/staging.h"

void staging_init(staging *s, bl_tune *tune)
{
    *s = (staging){.tune = tune};
    bl_ptrmap_init(&s->fill, bl_ir_arena(tune->ir));
}

void staging_add(staging *s, stage_dim dim, staging_order *is_outside)
{
    int at = s->n++;
    for (; at > 0 && is_outside != NULL && is_outside(&dim, &s->dim[at - 1]); at--)
        s->dim[at] = s->dim[at - 1];
    s->dim[at] = dim;
}

void staging_footprint(staging *s, uint64_t axes, staging_order *is_outside)
{
    for (int i = 0; i < s->tune->naxes; i++) {
        const bl_axis *axis = &s->tune->axis[i];
        stage_dim dim = {.range = axis->range, .index = axis->range, .extent = axis->range->src[0], .reduced = !axis->output};
        if ((axes & bl_free_bit(&s->tune->free, axis->range)) != 0)
            staging_add(s, dim, is_outside);
    }
}

const bl_node *staging_inner(bl_ir *ir, const bl_node *index, const bl_node *extent, const bl_node *at)
{
    return bl_add(ir, bl_mul(ir, index, extent), at);
}

const bl_node *staging_at(const staging *s, int dim, bool fills)
{
    const bl_node *own = fills ? bl_ptrmap_get(&s->fill, s->dim[dim].range) : NULL;
    return own == NULL ? s->dim[dim].index : own;
}

const bl_node *staging_row_major(const staging *s, bool fills)
{
    bl_ir *ir = s->tune->ir;
    const bl_node *index = bl_index(ir, 0);

    for (int i = 0; i < s->n; i++)
        index = staging_inner(ir, index, s->dim[i].extent, staging_at(s, i, fills));
    return index;
}

const bl_node *staging_work_item(bl_tune *tune, uint64_t axes, int64_t *count)
{
    const bl_node *number = bl_index(tune->ir, 0);

    *count = 1;
    for (int i = 0; i < tune->naxes; i++) { /* the largest number is the fastest dimension of the group (linearize.c) */
        const bl_node *range = tune->axis[i].range;
        if (range->sub != BL_AXIS_LOCAL || (axes & bl_free_bit(&tune->free, range)) == 0)
            continue;
        number = staging_inner(tune->ir, number, range->src[0], range);
        *count *= bl_extent_of(range);
    }
    return number;
}

const bl_node *staging_fill(const staging *s, unsigned kind, const bl_node *memory, const bl_node *index, const bl_node *value,
                            const bl_node *gate)
{
    bl_ir *ir = s->tune->ir;
    const bl_node *store = NULL;

    if (gate != NULL && value->op == BL_OP_LOAD) /* there may be no element to load either */
        value = bl_load(ir, value->src[0], value->src[1], value->nsrc > 2 ? bl_and(ir, value->src[2], gate) : gate);
    store = bl_store(ir, memory, index, value, gate);
    return bl_stage_over(ir, kind, 1, &store, s->nloops, s->loop);
}
