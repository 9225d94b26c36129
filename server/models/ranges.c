/* SPDX-License-Identifier: MIT */
/* The ranges of the named dimensions of an ONNX model: chosen by the import, and narrowed if a device cannot run the largest
 * sizes. */
#include "server/models/models_internal.h"

#include "engine/base/log.h"

#include <string.h>

bl_status bl_model_keep_ranges(bl_model_version *version, const bl_onnx_model *model, bl_err *err)
{
    bl_text list = {0};
    if (version->onnx.ranges != NULL)
        return BL_OK;
    version->onnx.ranges = bl_arena_array(version->arena, (size_t)model->nranges + 1, sizeof *version->onnx.ranges);
    for (int i = 0; version->onnx.ranges != NULL && i < model->nranges; i++) {
        bl_onnx_range *range = &version->onnx.ranges[version->onnx.nranges++];
        *range = model->ranges[i];
        range->var.name = bl_arena_strdup(version->arena, range->var.name);
        range->same = range->same != NULL ? bl_arena_strdup(version->arena, range->same) : NULL;
        bl_text_printf(&list, "%s\"%s\" ", i > 0 ? ", " : "", range->var.name);
        if (range->same != NULL)
            bl_text_printf(&list, "is \"%s\"", range->same);
        else
            bl_wire_var_print(&list, &range->var);
    }
    if (version->onnx.nranges > 0)
        bl_log(BL_LOG_INFO, "model %s: sizes of dimensions: %s (\"dims\" in config.json changes them)%s", version->name,
               bl_text_get(&list), model->attempts > 1 ? "; the model cannot be imported with the default ranges" : "");
    bl_text_fini(&list);
    return bl_arena_status(version->arena, err);
}

/* ---- narrowing */

enum { MOST_NARROWED = 8 }; /* each attempt is an import and a compilation */

static bool is_said(const bl_model_version *version, int at)
{
    if (at == 0 && version->config.max_batch_size > 0)
        return true;
    for (int i = 0; i < version->config.ndims; i++)
        if (strcmp(version->config.dims[i].var.name, version->onnx.ranges[at].var.name) == 0)
            return true;
    return false;
}

static bool can_shrink(const bl_model_version *version, int at)
{
    const bl_onnx_range *range = &version->onnx.ranges[at];
    return range->same == NULL && range->var.hi > range->var.lo && !is_said(version, at);
}

/* Prefer the first dimension: in most models it is the batch, which a client can split.  Otherwise the dimension with the
 * widest range. */
static int choose_range(const bl_model_version *version)
{
    int widest = -1;
    for (int i = 0; i < version->onnx.nranges; i++) {
        const bl_wire_var *var = &version->onnx.ranges[i].var;
        if (!can_shrink(version, i))
            continue;
        if (i == 0)
            return i;
        if (widest < 0 || var->hi - var->lo > version->onnx.ranges[widest].var.hi - version->onnx.ranges[widest].var.lo)
            widest = i;
    }
    return widest;
}

bool bl_model_narrow_ranges(bl_model_version *version, const bl_err *why)
{
    bool limit = why->status == BL_EUNSUPPORTED && version->origin.form == BL_MODEL_ONNX && version->ninstances == 0;
    int at = limit && version->onnx.narrowed++ < MOST_NARROWED ? choose_range(version) : -1;
    bl_wire_var *var = at >= 0 ? &version->onnx.ranges[at].var : NULL;
    if (var == NULL)
        return false;
    int64_t too_much = var->hi;
    var->hi /= at == 0 ? 4 : 2;
    if (var->hi < var->lo || !bl_wire_var_round(var))
        var->hi = var->lo;
    bl_log(BL_LOG_INFO, "model %s: a dimension \"%s\" up to %lld needs too much memory on the device; trying %lld: %s",
           version->name, var->name, (long long)too_much, (long long)var->hi, why->text);
    return true;
}
