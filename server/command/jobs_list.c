/* SPDX-License-Identifier: MIT */
/* `beamline jobs` and `beamline cancel`. */
#include "server/command/watch_job.h"

#include "server/command/terminal.h"

#include <stdio.h>
#include <string.h>

enum { SHORT_ID = 8 /* number of digits of a job's id that are shown */, WHOLE_ID = 32 };

/* ---- ids of jobs */

bl_status bl_job_find(bl_call *call, const char *given, bl_text *out, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/jobs", .seconds = BL_ASK_SECONDS};
    size_t len = strlen(given);
    cJSON *answer = NULL;
    int found = 0;
    bl_text_puts(out, given);
    if (len >= WHOLE_ID || given[strspn(given, "0123456789abcdef")] != '\0')
        return bl_text_status(out, err);
    BL_TRY(bl_ask_send(&call->ask, &request, err));
    BL_TRY(bl_ask_document(&call->ask, &answer, err));
    for (const cJSON *job = bl_answer_first(bl_answer_at(answer, "jobs")); job != NULL; job = job->next) {
        const char *id = bl_answer_text(job, "job");
        if (strncmp(id, given, len) != 0)
            continue;
        found++;
        bl_text_clear(out);
        bl_text_puts(out, id);
    }
    cJSON_Delete(answer);
    return found <= 1 ? bl_text_status(out, err)
                      : bl_fail(err, BL_EINVAL, "%d jobs have numbers that begin with %s; give more digits", found, given);
}

/* ---- the list */

static void add_seconds(bl_table *table, double seconds)
{
    bl_text text = {0};
    if (seconds >= 0)
        bl_text_put_seconds(&text, seconds);
    bl_table_add(table, bl_text_get(&text));
    bl_text_fini(&text);
}

/* Add the last value of the metric called loss; without such a metric, of the first metric. */
static void add_metric(bl_table *table, const cJSON *job)
{
    const cJSON *metrics = bl_answer_at(job, "metrics"), *item = bl_answer_at(metrics, "loss");
    if (item == NULL && metrics != NULL)
        item = metrics->child;
    if (cJSON_IsNumber(item))
        bl_table_addf(table, "%.60s %.5g", item->string, item->valuedouble);
    else
        bl_table_add(table, "");
}

static bl_status print_jobs(const cJSON *answer, bl_err *err)
{
    bl_table table = {.heads = {"job", "program", "state", ">step", ">of", ">steps/s", ">left", "metric"}};
    for (const cJSON *job = bl_answer_first(bl_answer_at(answer, "jobs")); job != NULL; job = job->next) {
        double rate = bl_answer_number(job, "rate", 0);
        bl_table_addf(&table, "%.*s", SHORT_ID, bl_answer_text(job, "job"));
        bl_table_add(&table, bl_answer_text(job, "program"));
        bl_table_add(&table, bl_answer_text(job, "state"));
        bl_table_addf(&table, "%.0f", bl_answer_number(job, "step", 0));
        bl_table_addf(&table, "%.0f", bl_answer_number(job, "steps", 0));
        if (rate > 0)
            bl_table_addf(&table, "%.4g", rate);
        else
            bl_table_add(&table, "");
        add_seconds(&table, bl_answer_number(job, "seconds_left", -1));
        add_metric(&table, job);
    }
    return bl_table_end(&table, err);
}

bl_status bl_command_jobs(bl_call *call, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/jobs", .seconds = BL_ASK_SECONDS};
    cJSON *answer = NULL;
    bool told = false;
    BL_TRY(bl_call_ask(call, &request, &told, err));
    if (told)
        return BL_OK;
    BL_TRY(bl_ask_document(&call->ask, &answer, err));
    if (bl_call_has(call, "quiet"))
        for (const cJSON *job = bl_answer_first(bl_answer_at(answer, "jobs")); job != NULL; job = job->next)
            (void)bl_terminal_print_line(bl_answer_text(job, "job"));
    bl_status st = bl_call_has(call, "quiet") ? BL_OK : print_jobs(answer, err);
    cJSON_Delete(answer);
    return st;
}

/* ---- cancel */

bl_status bl_command_cancel(bl_call *call, bl_err *err)
{
    bl_text id = {0}, path = {0}, out = {0};
    bl_ask_request request = {.method = "DELETE", .seconds = BL_ASK_SECONDS};
    cJSON *answer = NULL;
    bool told = false;
    bl_status st = bl_call_connect(call, err);
    if (st == BL_OK)
        st = bl_job_find(call, call->operands[0], &id, err);
    bl_ask_path(&path, "/api/v1/jobs/", bl_text_get(&id), bl_call_has(call, "remove") ? "?remove=true" : "");
    request.path = bl_text_get(&path);
    if (st == BL_OK)
        st = bl_call_ask(call, &request, &told, err);
    if (st == BL_OK && !told && call->ask.status != 204)
        st = bl_ask_document(&call->ask, &answer, err);
    if (st == BL_OK && !told) {
        bl_text_put_safe(&out, bl_text_get(&id));
        bl_text_puts(&out, answer != NULL ? " " : " is removed\n");
    }
    if (answer != NULL) {
        bl_text_put_safe(&out, bl_answer_text(answer, "state"));
        bl_text_printf(&out, " at step %.0f\n", bl_answer_number(answer, "step", 0));
    }
    (void)bl_terminal_print(&out);
    cJSON_Delete(answer);
    bl_text_fini(&id);
    bl_text_fini(&path);
    bl_text_fini(&out);
    return st;
}
