/* SPDX-License-Identifier: MIT */
/* Helper kernels: plain nests that fill a copy in global memory before the nest runs, or that sum the partial results of the nest
 * (partial.c). */
#include "engine/opt/staging.h"

bool helper_begin(staging *s, bl_dtype dtype)
{
    bl_ir *ir = s->tune->ir;

    if (s->n == 0 || s->n > BL_MAX_DIMS || s->tune->npacked == BL_MAX_HELPERS)
        return false;
    s->helper = (bl_packed){.param = s->tune->nparams, .dtype = dtype, .count = bl_index(ir, 1)};
    for (int i = 0; i < s->n; i++) {
        s->helper.count = bl_mul(ir, s->helper.count, s->dim[i].extent);
        bl_ptrmap_put(&s->fill, s->dim[i].range, bl_range(ir, bl_loop_pack(BL_LEVEL_OUTPUTS, i), BL_AXIS_LOOP, s->dim[i].extent));
    }
    return true;
}

bool helper_renumber(bl_tune *tune, const bl_nodes *below, bl_ptrmap *to, bl_packed *packed)
{
    for (size_t i = 0; i < below->count; i++) {
        const bl_node *node = below->at[i];
        if (node->op != BL_OP_BUFFER || bl_ptrmap_has(to, node))
            continue;
        if (packed->nfrom == (int)(sizeof packed->from / sizeof packed->from[0]))
            return false;
        bl_ptrmap_put(to, node, bl_param(tune->ir, packed->nfrom + 1, (bl_dtype)node->dtype, false));
        packed->from[packed->nfrom++] = (int)node->arg;
    }
    return true;
}

bool helper_take_params(staging *s, int n, const bl_node *const *value)
{
    bl_nodes below = bl_reach(s->tune->ir, n, value, false);
    return helper_renumber(s->tune, &below, &s->fill, &s->helper);
}

const bl_node *helper_store(const staging *s, const bl_node *index, const bl_node *value)
{
    bl_ir *ir = s->tune->ir;
    return bl_store(ir, bl_param(ir, 0, (bl_dtype)value->dtype, false), index, value, NULL);
}

bool helper_end(staging *s, int n, const bl_node *const *stores)
{
    s->helper.sink = bl_sink(s->tune->ir, n, stores);
    return bl_ir_status(s->tune->ir, NULL) == BL_OK;
}

bool helper_fill(staging *s, int n, const bl_node *const *value, const bl_node *const *index)
{
    bl_ir *ir = s->tune->ir;
    const bl_node *stores[PACK_HALVES];

    if (!helper_take_params(s, n, value))
        return false;
    for (int i = 0; i < n; i++)
        stores[i] = helper_store(s, bl_substitute(ir, index[i], &s->fill), bl_substitute(ir, value[i], &s->fill));
    return helper_end(s, n, stores);
}

const bl_node *helper_read(const staging *s, const bl_node *index)
{
    bl_tune *tune = s->tune;
    const bl_node *load = bl_load(tune->ir, bl_param(tune->ir, tune->nparams, s->helper.dtype, false), index, NULL);

    tune->packed[tune->npacked++] = s->helper;
    tune->nparams++;
    return load;
}

static bl_tuned_kernel kernel_of(const bl_packed *packed, const int *slot)
{
    bl_tuned_kernel kernel = {.helper = packed,
                              .prefix = packed->behind ? "sum_" : "pack_",
                              .sink = packed->sink,
                              .nparams = packed->nfrom + 1,
                              .slot = {slot[packed->param]}};
    for (int i = 0; i < packed->nfrom; i++)
        kernel.slot[1 + i] = slot[packed->from[i]];
    return kernel;
}

int bl_tune_list_kernels(const bl_tune *tune, const int *slot, bl_tuned_kernel *out)
{
    int n = 0;

    for (int i = 0; i < tune->npacked; i++)
        if (!tune->packed[i].behind)
            out[n++] = kernel_of(&tune->packed[i], slot);
    out[n++] = (bl_tuned_kernel){.prefix = "", .sink = tune->sink, .nparams = tune->nparams};
    for (int i = 0; i < tune->npacked; i++)
        if (tune->packed[i].behind)
            out[n++] = kernel_of(&tune->packed[i], slot);
    return n;
}
