/* SPDX-License-Identifier: MIT */
/* `beamline tune`: search the kernels of a program document in advance. */
#include "server/command/command.h"

#include "engine/base/log.h"
#include "server/ops/server.h"
#include "server/run/exec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_BEAM = 2, MOST_REPORTS = 512 };

/* The results of each kernel. */
typedef struct tuning {
    bl_server *server;
    bl_worker *worker;
    int beam, n;
    bl_precision precision;
    bool live; /* output is a terminal: progress lines are overwritten */
    bl_search_report report[MOST_REPORTS];
    char name[MOST_REPORTS][64];
} tuning;

static void tune_on_progress(void *arg, const bl_search_report *report)
{
    tuning *t = arg;
    int at = 0;

    while (at < t->n && strcmp(t->name[at], report->name) != 0)
        at++;
    if (at == MOST_REPORTS)
        return;
    if (at == t->n)
        snprintf(t->name[t->n++], sizeof t->name[0], "%s", report->name);
    t->report[at] = *report;
    t->report[at].name = t->name[at];
    printf("%s%-32s %4d candidates %6.1f s %12.1f us -> %.1f us%s", t->live ? "\r" : "", report->name, report->tried,
           report->seconds, (double)report->heuristic_ns / 1e3, (double)report->best_ns / 1e3, t->live ? "\033[K" : "\n");
    fflush(stdout);
}

static bl_status tune_infer(void *ctx, const bl_wire_graph *wire, bl_wire_type *type, bl_err *err)
{
    const tuning *t = ctx;
    return bl_exec_infer(wire, t->server->settings.max_compile, type, err);
}

static char *tune_read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t cap = 0;
    ssize_t got = -1;

    if (file == NULL)
        return NULL;
    got = getdelim(&text, &cap, '\0', file);
    fclose(file);
    *len = got < 0 ? 0 : (size_t)got;
    return text;
}

static bl_status tune_entry(tuning *t, bl_arena *arena, const bl_program_entry *entry, bl_err *err)
{
    const bl_settings *set = &t->server->settings;
    bl_plan_options options = {.matrix = (bl_matrix_use)set->matrix,
                               .precision = t->precision,
                               .max_compile_bytes = set->max_compile,
                               .max_compile_seconds = set->max_compile_seconds,
                               .program = true,
                               .tuner = &t->server->search.tuner,
                               .beam = t->beam,
                               .progress = tune_on_progress,
                               .progress_arg = t,
                               .children = t->server->children};
    bl_wire_key key;
    bl_plan *plan = NULL;
    bool hit = false;

    BL_TRY(bl_wire_make_key(arena, &entry->graph, "tune", &key, err));
    BL_TRY(bl_plans_get(t->server->plans, &key, &entry->graph, t->worker->dev, &options, &plan, &hit, err));
    bl_plan_release(plan);
    return BL_OK;
}

static bl_status tune_document(tuning *t, bl_arena *arena, bl_span text, bl_err *err)
{
    bl_decode_env env = {.arena = arena, .limits = t->server->limits, .ctx = t, .infer = tune_infer};
    bl_json_limits limits = {.depth = (int)t->server->settings.max_depth};
    bl_program_doc program = {0};
    bl_json_doc doc = {0};
    bl_status st = bl_json_parse(&doc, arena, text, &limits, err);

    if (st == BL_OK) {
        bl_json root = bl_json_root(&doc);
        st = bl_decode_program(&env, &root, &program, err);
    }
    if (st == BL_OK)
        st = bl_worker_find(t->server, program.options.device != NULL ? program.options.device : t->server->settings.device,
                            &t->worker, err);
    t->precision = program.options.precision >= 0 ? (bl_precision)program.options.precision : t->server->precision;
    for (int i = 0; st == BL_OK && i < program.nentries; i++)
        st = tune_entry(t, arena, &program.entries[i], err);
    bl_json_fini(&doc);
    return st;
}

static void print_table(const tuning *t)
{
    printf("%s%-32s %12s %12s %7s  %s\n", t->live ? "\r\033[K" : "", "kernel", "before us", "after us", "gain", "moves");
    for (int i = 0; i < t->n; i++) {
        const bl_search_report *report = &t->report[i];
        bl_text moves = {0};
        bl_moves_print(report->nmoves, report->moves, &moves);
        printf(
            "%-32s %12.1f %12.1f %6.1f%%  %s\n", report->name, (double)report->heuristic_ns / 1e3, (double)report->best_ns / 1e3,
            report->best_ns == 0 ? 0.0 : ((double)report->heuristic_ns / (double)report->best_ns - 1) * 100, bl_text_get(&moves));
        bl_text_fini(&moves);
    }
}

static bl_status tune_start(bl_server *server, int argc, char *const *argv, bl_err *err)
{
    BL_TRY(bl_settings_load(&server->settings, argc, argv, err));
    bl_log_configure(BL_LOG_WARN, server->settings.log_json); /* progress is printed in place of log lines */
    bl_server_limits(server);
    BL_TRY(bl_server_precision(server, err));
    server->plans = bl_plans_create(server->settings.max_plans, server->settings.max_plan_memory);
    if (server->plans == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the plan cache");
    BL_TRY(bl_workers_start(server, err));
    BL_TRY(bl_children_start(server, err));
    return bl_tuning_start(server, err);
}

bl_status bl_command_tune(bl_call *call, bl_err *err)
{
    static bl_server server;
    static tuning t;
    bl_arena *arena = bl_arena_create(0);
    size_t len = 0;
    char *text = tune_read_file(call->operands[0], &len);
    bl_status st = BL_OK;

    t.server = &server;
    signal(SIGPIPE, SIG_IGN);
    t.live = isatty(STDOUT_FILENO) != 0;
    if (text == NULL)
        st = bl_fail(err, BL_ENOTFOUND, "%s cannot be opened", call->operands[0]);
    else if (arena == NULL)
        st = bl_fail(err, BL_ENOMEM, "out of host memory");
    if (st == BL_OK)
        st = tune_start(&server, call->nsettings, call->settings, err);
    t.beam = server.settings.beam > 0 ? (int)server.settings.beam : USUAL_BEAM;
    if (st == BL_OK)
        st = tune_document(&t, arena, (bl_span){text, len}, err);
    if (st == BL_OK)
        print_table(&t);
    bl_workers_stop(&server);
    if (server.plans != NULL)
        bl_plans_destroy(server.plans);
    bl_tuning_stop(&server);
    bl_children_end(&server);
    bl_workers_close(&server);
    bl_settings_fini(&server.settings);
    bl_arena_destroy(arena);
    free(text);
    return st;
}
