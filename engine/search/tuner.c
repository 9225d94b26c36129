/* SPDX-License-Identifier: MIT */
#include "engine/search/tuner.h"

#include "engine/base/log.h"

#include <string.h>

bl_status bl_tuner_search(const bl_tuner *tuner, const bl_search_nest *nest, const bl_tuner_request *request,
                          bl_kernel_record *record, bl_err *err)
{
    bl_search_options options = {.width = request->width,
                                 .seconds = tuner->seconds,
                                 .halt = request->halt,
                                 .spec = request->spec,
                                 .time = tuner->time,
                                 .time_arg = tuner->time_arg,
                                 .progress = request->progress,
                                 .progress_arg = request->progress_arg};
    bl_search_report report;

    BL_TRY(bl_search_run(nest, &options, &report, err));
    *record = (bl_kernel_record){.nmoves = report.nmoves,
                                 .width = request->width,
                                 .tried = report.tried,
                                 .heuristic_ns = report.heuristic_ns,
                                 .best_ns = report.best_ns};
    memcpy(record->moves, report.moves, sizeof record->moves);
    bl_log(BL_LOG_INFO, "%s: kernel %s searched: %d candidates in %.1f s, %.3f us by the heuristic, %.3f us by the best",
           nest->dev->info.id, nest->name, report.tried, report.seconds, (double)report.heuristic_ns / 1e3,
           (double)report.best_ns / 1e3);
    if (tuner->kernels != NULL)
        bl_kernels_store(tuner->kernels, &nest->dev->info, nest->ir, nest->sink, nest->name, record);
    return BL_OK;
}

bl_tuned bl_tuner_find(const bl_tuner *tuner, const bl_search_nest *nest, const bl_tuner_request *request,
                       bl_kernel_record *record)
{
    bl_kernel_record found;
    bl_err err = {0};
    bool known = tuner->kernels != NULL && bl_kernels_find(tuner->kernels, &nest->dev->info, nest->ir, nest->sink, record);

    if (!known)
        *record = (bl_kernel_record){0};
    if (request->width <= record->width || tuner->time == NULL)
        return known ? BL_TUNED_KNOWN : request->width > 0 ? BL_TUNED_FAILED : BL_TUNED_NOT;
    if (bl_tuner_search(tuner, nest, request, &found, &err) == BL_OK) {
        *record = found;
        return BL_TUNED_SEARCHED;
    }
    bl_log(err.status == BL_ECANCELLED || err.status == BL_ETIMEOUT ? BL_LOG_INFO : BL_LOG_WARN,
           "%s: kernel %s was not searched: %s", nest->dev->info.id, nest->name, err.text);
    return BL_TUNED_FAILED;
}
