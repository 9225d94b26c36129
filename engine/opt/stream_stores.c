/* SPDX-License-Identifier: MIT */
/* Non-temporal stores.  A plain store reads the cache line first, and the lines of a long result evict lines that will still be
 * read.  With non-temporal stores, a*b+c of 64M floats moves a quarter less memory. */
#include "engine/ir/rewrite.h"
#include "engine/opt/facts.h"

static bool stream_stores_reads(const bl_nodes *below, const bl_node *buffer)
{
    for (size_t i = 0; i < below->count; i++) {
        if (below->at[i]->op == BL_OP_LOAD && below->at[i]->src[0] == buffer)
            return true;
    }
    return false;
}

bool hint_stream(bl_tune *tune, int number)
{
    bl_nodes below = bl_reach(tune->ir, 1, &tune->sink, false);
    const bl_node *sink = tune->sink, **stores = bl_arena_array(bl_ir_arena(tune->ir), sink->nsrc, sizeof *stores);
    bl_node streaming;

    if (stores == NULL || sink->src[number]->arg == BL_STORE_STREAMS || stream_stores_reads(&below, sink->src[number]->src[0]))
        return false;
    for (uint32_t i = 0; i < sink->nsrc; i++)
        stores[i] = sink->src[i];
    streaming = *sink->src[number];
    streaming.arg = BL_STORE_STREAMS;
    stores[number] = bl_node_make(tune->ir, &streaming);
    tune_survey(tune, bl_node_with(tune->ir, sink, stores));
    return true;
}

/* Are the lanes not contiguous?  Non-temporal stores write partial cache lines one by one. */
static bool stream_stores_is_scattered(bl_tune *tune, const bl_node *store)
{
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        int64_t stride = 0;
        if (range->sub == BL_AXIS_VECTOR && bl_depends(tune, store->src[1], range) &&
            (!bl_access_stride(tune, store, range, &stride) || stride != 1))
            return true;
    }
    return false;
}

/* Does a loop have a named extent?  The extent is known at run time only, and may be small. */
static bool stream_stores_is_named(const bl_tune *tune, uint64_t ranges)
{
    for (int i = 0; i < tune->free.nranges; i++) {
        if ((ranges >> i & 1) != 0 && !bl_is_fixed(tune->free.range[i]))
            return true;
    }
    return false;
}

/* Use non-temporal stores for results that are larger than the last cache. */
void stream_results(bl_tune *tune, const bl_target *target)
{
    for (uint32_t i = 0; target->last_cache_bytes > 0 && i < tune->sink->nsrc; i++) {
        const bl_node *store = tune->sink->src[i];
        uint64_t ranges = bl_free_get(&tune->free, store);
        int64_t elements = bl_free_size(&tune->free, ranges);
        bool large = elements / (int64_t)target->last_cache_bytes >= 1 ||
                     elements * (int64_t)bl_dtype_bytes((bl_dtype)store->dtype) > (int64_t)target->last_cache_bytes;
        if (large && !stream_stores_is_named(tune, ranges) && !stream_stores_is_scattered(tune, store))
            (void)bl_tune_apply_at(tune, BL_HINT_STREAM, (int)i, 0);
    }
}
