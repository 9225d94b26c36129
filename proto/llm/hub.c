/* SPDX-License-Identifier: MIT */
#include "proto/llm/importer.h"

bl_status bl_hub_open(bl_llm_source *source, const bl_llm_file *files, int nfiles, const bl_wire_limits *limits, bl_err *err)
{
    (void)source, (void)files, (void)nfiles, (void)limits;
    return bl_fail(err, BL_EUNSUPPORTED, "folders");
}

bl_status bl_hub_describe(bl_arena *arena, const bl_llm_file *files, int nfiles, bl_llm_model *out, bl_err *err)
{
    (void)arena, (void)files, (void)nfiles, (void)out;
    return bl_fail(err, BL_EUNSUPPORTED, "folders");
}
