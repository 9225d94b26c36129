/* SPDX-License-Identifier: MIT */
/* Chooses the moves of a loop nest: a search result, or the choice of the heuristic. */
#include "engine/base/clock.h"
#include "engine/plan/plan_internal.h"

#include <stdio.h>
#include <string.h>

static void choose_moves_tell(bl_plan *plan, const bl_search_nest *nest, bl_tuned how, const bl_kernel_record *record)
{
    static const char *const words[] = {[BL_TUNED_KNOWN] = "known", [BL_TUNED_SEARCHED] = "searched"};
    if (how != BL_TUNED_NOT && how != BL_TUNED_FAILED)
        bl_text_printf(&plan->debug, "%s %s: %d candidates, %.3f us by the heuristic, %.3f us by the best\n", words[how],
                       nest->name, record->tried, (double)record->heuristic_ns / 1e3, (double)record->best_ns / 1e3);
}

/* Report a search result from the database as if the search had just run. */
static void report_known(const bl_plan_options *options, const bl_search_nest *nest, const bl_kernel_record *record)
{
    bl_search_report report = {.name = nest->name,
                               .tried = record->tried,
                               .heuristic_ns = record->heuristic_ns,
                               .best_ns = record->best_ns,
                               .nmoves = record->nmoves};
    memcpy(report.moves, record->moves, sizeof report.moves);
    options->progress(options->progress_arg, &report);
}

/* Apply the moves of |record|. False if a move is not legal: an imported row may hold such a move. */
static bool apply_known(bl_tune *tune, const bl_kernel_record *record)
{
    for (int i = 0; i < record->nmoves; i++) {
        if (!bl_tune_apply(tune, record->moves[i]))
            return false;
    }
    return true;
}

/* Apply known moves, or the moves that a search finds. False if there are none. */
static bool tune_by_search(bl_tune *tune, const bl_search_nest *nest, const bl_plan_options *options, bl_plan *plan)
{
    bl_tuner_request request = {.width = options->only == NULL || strcmp(options->only, nest->name) == 0 ? options->beam : 0,
                                .halt = options->halt,
                                .spec = options->spec,
                                .progress = options->progress,
                                .progress_arg = options->progress_arg};
    bl_kernel_record record;
    int64_t start = bl_clock_thread_ns();
    bl_tuned how = bl_tuner_find(options->tuner, nest, &request, &record);

    /* a search does not count against the time limit of the compiler */
    if (how == BL_TUNED_SEARCHED || how == BL_TUNED_FAILED)
        bl_ir_add_time(nest->ir, bl_clock_ms(start, bl_clock_thread_ns()) / 1e3);
    if (how == BL_TUNED_KNOWN && options->beam > 0 && options->progress != NULL)
        report_known(options, nest, &record);
    if (options->debug >= 1)
        choose_moves_tell(plan, nest, how, &record);
    if (how == BL_TUNED_NOT || record.width == 0)
        return false;
    if (apply_known(tune, &record))
        return true;
    bl_tune_init(tune, nest->ir, nest->sink, nest->nparams);
    return false;
}

/* Apply the moves that |fixed| has for the nest. False if it has none, or if a move is not legal. */
static bool tune_as_fixed(bl_tune *tune, const bl_search_nest *nest, const char *fixed)
{
    char key[20];
    bl_move moves[BL_MAX_MOVES];
    int n = 0;
    bool good = false;

    (void)snprintf(key, sizeof key, "%016llx ", (unsigned long long)nest->key);
    for (const char *line = fixed; *line != '\0' && !good; line += *line == '\n') {
        size_t len = strcspn(line, "\n");
        char *text = len >= strlen(key) && memcmp(line, key, strlen(key)) == 0
                         ? bl_arena_strndup(bl_ir_arena(nest->ir), line + strlen(key), len - strlen(key))
                         : NULL;
        good = text != NULL && bl_moves_parse(text, moves, &n);
        line += len;
    }
    for (int i = 0; i < n && good; i++)
        good = bl_tune_apply(tune, moves[i]);
    if (!good)
        bl_tune_init(tune, nest->ir, nest->sink, nest->nparams);
    return good;
}

static void note_moves(bl_plan *plan, const bl_search_nest *nest, const bl_tune *tune)
{
    bl_text_printf(&plan->moves, "%016llx ", (unsigned long long)nest->key);
    bl_tune_print(tune, &plan->moves);
    bl_text_putc(&plan->moves, '\n');
}

bl_status plan_tune(bl_tune *tune, const bl_search_nest *nest, const bl_plan_options *options, bl_plan *plan, bool helper,
                    bl_err *err)
{
    const bl_device_info *info = &nest->dev->info;

    bl_tune_init(tune, nest->ir, nest->sink, nest->nparams);
    if (!helper && options->fixed != NULL && tune_as_fixed(tune, nest, options->fixed))
        ;
    else if (!options->noopt &&
             (helper || options->fixed != NULL || options->tuner == NULL || !tune_by_search(tune, nest, options, plan)))
        bl_heuristic(tune, nest->target);
    if (!bl_search_fit(tune, info))
        return bl_fail(err, BL_EUNSUPPORTED, "kernel %s: %s ends loops after %u iterations, and the loops here need more",
                       nest->name, info->id, (unsigned)info->max_turns);
    if (!helper)
        note_moves(plan, nest, tune);
    return BL_OK;
}

const char *bl_plan_get_moves(const bl_plan *plan)
{
    return bl_text_get(&plan->moves);
}

bool bl_plan_same_moves(const bl_plan *plan, const bl_plan *other)
{
    bool same = plan->nsteps == other->nsteps;
    for (int i = 0; same && i < plan->nsteps; i++)
        same = strcmp(plan->steps[i].moves, other->steps[i].moves) == 0;
    return same;
}
