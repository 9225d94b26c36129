/* SPDX-License-Identifier: MIT */
/* `beamline watch`: shows the reports of a job as a curve that is redrawn in place, or, without a terminal, as one line per
 * report.  After a broken connection the event stream resumes after the last step that was received. */
#include "server/command/watch_job.h"

#include "engine/base/clock.h"
#include "server/command/curve.h"
#include "server/command/events.h"
#include "server/command/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CURVE_ROWS = 16, OTHER_ROWS = 5 /* lines above and below the curve, and an empty line */, MOST_TRIES = 8 };
static const int64_t draw_ns = 100 * 1000000; /* time between two redraws */

typedef struct watched {
    bl_call *call;
    const char *id;
    char metric[200];  /* "" until the metric is chosen */
    char problem[300]; /* the server's error that ended the stream */
    bl_curve curve;
    cJSON *job, *report; /* the last job document and the last report received; owned, may be NULL */
    double step;         /* step of the last report */
    int64_t drawn_ns;
    int drawn_rows; /* number of lines of the curve on the screen */
    int interrupts;
    bool terminal, unicode, json, broken;
} watched;

/* ---- the job */

static bool is_final(const cJSON *job)
{
    static const char *const states[] = {"done", "failed", "cancelled"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(bl_answer_text(job, "state"), states[i]) == 0)
            return true;
    return false;
}

/* Read a number or a list of one number; NaN for anything else. */
static double watch_job_read_number(const cJSON *item)
{
    while (cJSON_IsArray(item) && cJSON_GetArraySize(item) == 1)
        item = item->child;
    if (cJSON_IsObject(item)) /* the report has a tensor with a dtype */
        return watch_job_read_number(bl_answer_at(item, "data"));
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* Choose the metric "loss" if there is one, else the first metric, else the first evaluation. The names of evaluations in a
 * history begin with "evaluate.". */
static void choose_metric(watched *w, const char *name, bool last)
{
    if (w->metric[0] == '\0' && (last || strcmp(name, "loss") == 0))
        (void)snprintf(w->metric, sizeof w->metric, "%s", name);
}

static void choose_of(watched *w, const cJSON *metrics, const char *before)
{
    char name[200];
    for (int pass = 0; pass < 2; pass++)
        for (const cJSON *item = bl_answer_first(metrics); item != NULL; item = item->next) {
            (void)snprintf(name, sizeof name, "%s%s", before, item->string);
            choose_metric(w, name, pass == 1);
        }
}

static double watch_job_find_metric(const watched *w, const cJSON *report)
{
    const cJSON *item = bl_answer_at(bl_answer_at(report, "metrics"), w->metric);
    static const char before[] = "evaluate.";
    if (item == NULL && strncmp(w->metric, before, sizeof before - 1) == 0)
        item = bl_answer_at(bl_answer_at(report, "evaluation"), w->metric + sizeof before - 1);
    return watch_job_read_number(item);
}

/* ---- drawing */

static void put_numbers(const cJSON *metrics, const char *before, bl_text *out)
{
    for (const cJSON *item = bl_answer_first(metrics); item != NULL; item = item->next) {
        double value = watch_job_read_number(item);
        if (out->len > 0)
            bl_text_puts(out, "  ");
        bl_text_puts(out, before);
        bl_text_put_safe(out, item->string);
        bl_text_puts(out, " ");
        if (cJSON_IsString(item)) /* a number that JSON cannot express: "NaN", "Infinity" */
            bl_text_put_safe(out, item->valuestring);
        else if (isnan(value))
            bl_text_puts(out, "..."); /* a list of several numbers */
        else
            bl_text_printf(out, "%.6g", value);
    }
}

static void watch_job_put_name(const watched *w, bl_text *out)
{
    bl_text_puts(out, "job ");
    bl_text_put_safe(out, w->id);
    bl_text_puts(out, " of ");
    bl_text_put_safe(out, bl_answer_text(w->job, "program"));
}

/* Append "running, step 1,200 of 5,000, 5,200 steps/s, 3 s left". */
static void watch_job_put_state(const watched *w, bl_text *out)
{
    const char *reason = bl_answer_text(w->job, "reason");
    double rate = bl_answer_number(w->job, "rate", 0), step = bl_answer_number(w->job, "step", 0);
    if (w->report != NULL)
        rate = bl_answer_number(w->report, "rate", rate);
    bl_text_put_safe(out, bl_answer_text(w->job, "state"));
    bl_text_puts(out, ", step ");
    bl_text_put_count(out, w->step > step ? w->step : step);
    bl_text_puts(out, " of ");
    bl_text_put_count(out, bl_answer_number(w->job, "steps", 0));
    if (rate > 0) {
        bl_text_puts(out, ", ");
        bl_text_put_count(out, rate);
        bl_text_puts(out, " steps/s");
    }
    if (rate > 0 && !is_final(w->job)) {
        bl_text_puts(out, ", ");
        bl_text_put_seconds(out, (bl_answer_number(w->job, "steps", 0) - fmax(step, w->step)) / rate);
        bl_text_puts(out, " left");
    }
    if (*reason != '\0') {
        bl_text_puts(out, "; ");
        bl_text_put_safe(out, reason);
    }
    if (w->broken)
        bl_text_puts(out, "; the connection broke");
}

static void draw_picture(watched *w)
{
    int columns = 0, rows = 0, height = 0;
    bl_text out = {0}, line = {0};
    bl_terminal_size(&columns, &rows);
    height = rows - OTHER_ROWS < MOST_CURVE_ROWS ? rows - OTHER_ROWS : MOST_CURVE_ROWS;
    height = height < 3 ? 3 : height;
    if (w->drawn_rows > 0) {
        bl_text_printf(&out, "\033[%dA\r\033[J", w->drawn_rows);
    } else { /* print the full id above the curve, so that it can be copied */
        watch_job_put_name(w, &out);
        bl_text_puts(&out, "\n");
    }
    watch_job_put_state(w, &line);
    bl_text_put_line(&out, bl_text_get(&line), line.len, columns);
    bl_text_clear(&line);
    bl_curve_draw(&w->curve, columns, height, w->unicode, &out);
    put_numbers(bl_answer_at(w->report, "metrics"), "", &line);
    put_numbers(bl_answer_at(w->report, "evaluation"), "evaluate.", &line);
    bl_text_put_line(&out, bl_text_get(&line), line.len, columns);
    w->drawn_rows = height + 2;
    w->drawn_ns = bl_clock_ns();
    (void)bl_terminal_print(&out);
    bl_text_fini(&out);
    bl_text_fini(&line);
}

static void print_report(const watched *w)
{
    bl_text out = {0}, numbers = {0};
    put_numbers(bl_answer_at(w->report, "metrics"), "", &numbers);
    put_numbers(bl_answer_at(w->report, "evaluation"), "evaluate.", &numbers);
    bl_text_printf(&out, "step %.0f  %s\n", w->step, bl_text_get(&numbers));
    (void)bl_terminal_print(&out);
    bl_text_fini(&numbers);
    bl_text_fini(&out);
}

static void print_state(const watched *w)
{
    bl_text out = {0};
    watch_job_put_name(w, &out);
    bl_text_puts(&out, ": ");
    watch_job_put_state(w, &out);
    bl_text_puts(&out, "\n");
    (void)bl_terminal_print(&out);
    bl_text_fini(&out);
}

/* ---- events */

static void take_report(watched *w, cJSON *report)
{
    double step = bl_answer_number(report, "step", 0);
    cJSON_Delete(w->report);
    w->report = report;
    choose_of(w, bl_answer_at(report, "metrics"), "");
    choose_of(w, bl_answer_at(report, "evaluation"), "evaluate.");
    bl_curve_add(&w->curve, step, watch_job_find_metric(w, report));
    w->step = step;
    if (!w->terminal && !w->json)
        print_report(w);
}

static void watch_job_take_state(watched *w, cJSON *job)
{
    bool changed = strcmp(bl_answer_text(job, "state"), bl_answer_text(w->job, "state")) != 0;
    cJSON_Delete(w->job);
    w->job = job;
    if (changed && !w->terminal && !w->json)
        print_state(w);
}

static bool watch_job_on_event(void *arg, const char *name, const char *id, const char *data, size_t len)
{
    watched *w = arg;
    cJSON *document = cJSON_ParseWithLength(data, len);
    (void)id;
    if (w->json)
        (void)bl_call_print_json(data);
    w->broken = false;
    if (document == NULL)
        return true;
    if (strcmp(name, "state") == 0) {
        watch_job_take_state(w, document);
    } else if (strcmp(name, "error") == 0) { /* the key is no longer valid */
        (void)snprintf(w->problem, sizeof w->problem, "%s", bl_answer_text(document, "detail"));
        cJSON_Delete(document);
        return false;
    } else {
        take_report(w, document);
    }
    if (w->terminal && bl_clock_ns() - w->drawn_ns > draw_ns)
        draw_picture(w);
    fflush(stdout);
    return true;
}

/* ---- requests */

static bl_status ask_job(watched *w, const char *end, bl_err *err)
{
    bl_text path = {0};
    bl_ask_request request = {.seconds = BL_ASK_SECONDS, .interrupts = w->interrupts};
    bl_ask_path(&path, "/api/v1/jobs/", w->id, end);
    request.path = bl_text_get(&path);
    bl_status st = bl_ask_send(&w->call->ask, &request, err);
    bl_text_fini(&path);
    return st;
}

/* Get the reports so far: columns "step", "time" and each metric. */
static bl_status take_history(watched *w, bl_err *err)
{
    const cJSON *columns = NULL;
    cJSON *history = NULL;
    int step = -1, metric = -1, at = 0;
    BL_TRY(ask_job(w, "/history?points=1000", err));
    if (w->call->ask.stopped)
        return BL_OK;
    BL_TRY(bl_ask_document(&w->call->ask, &history, err));
    columns = bl_answer_at(history, "columns");
    for (int pass = 0; pass < 2; pass++)
        for (const cJSON *name = bl_answer_first(columns); name != NULL; name = name->next) {
            const char *text = cJSON_GetStringValue(name);
            if (text != NULL && strcmp(text, "step") != 0 && strcmp(text, "time") != 0 && strcmp(text, "rate") != 0)
                choose_metric(w, text, pass == 1);
        }
    for (const cJSON *name = bl_answer_first(columns); name != NULL; name = name->next) {
        const char *text = cJSON_GetStringValue(name);
        step = text != NULL && strcmp(text, "step") == 0 ? at : step;
        metric = text != NULL && strcmp(text, w->metric) == 0 ? at : metric;
        at++;
    }
    for (const cJSON *row = bl_answer_first(bl_answer_at(history, "rows")); row != NULL; row = row->next) {
        w->step = watch_job_read_number(cJSON_GetArrayItem(row, step));
        bl_curve_add(&w->curve, w->step, watch_job_read_number(cJSON_GetArrayItem(row, metric)));
    }
    cJSON_Delete(history);
    return BL_OK;
}

/* Receive the events after the last step, until the stream ends. */
static bl_status stream_events(watched *w, bl_err *err)
{
    char header[64];
    bl_text path = {0};
    bl_events events = {.event = watch_job_on_event, .arg = w};
    bl_ask_request request = {.take = bl_events_take, .arg = &events, .interrupts = w->interrupts};
    bl_ask_path(&path, "/api/v1/jobs/", w->id, "/events");
    request.path = bl_text_get(&path);
    if (w->step > 0) {
        (void)snprintf(header, sizeof header, "Last-Event-ID: %.0f", w->step);
        request.header = header;
    }
    bl_status st = bl_ask_send(&w->call->ask, &request, err);
    bl_events_fini(&events);
    bl_text_fini(&path);
    return st;
}

/* Follow the job until it has ended, until Ctrl-C, or until too many tries have failed.  If no history was drawn, the
 * reports of an ended job that the server still has are printed too. */
static bl_status follow_job(watched *w, bl_err *err)
{
    double wait = 0.5;
    for (int tries = 0; !is_final(w->job) || (tries == 0 && !w->terminal);) {
        double step = w->step;
        bl_err failure = {0};
        bl_status st = stream_events(w, &failure);
        if (w->problem[0] != '\0')
            return bl_fail(err, BL_EINVAL, "the server ended the stream: %s", w->problem);
        if (w->call->ask.stopped || is_final(w->job))
            return BL_OK;
        if (st != BL_OK && !w->call->ask.silent && w->call->ask.status != 503) {
            *err = failure;
            return st;
        }
        if (w->step > step) {
            tries = 0;
            wait = 0.5;
        }
        if (++tries > MOST_TRIES)
            return bl_fail(err, BL_EBUSY, "%s; the job continues: beamline watch %s", failure.text, w->id);
        w->broken = true;
        if (w->terminal)
            draw_picture(w);
        if (!bl_terminal_sleep(w->interrupts, wait)) {
            w->call->ask.stopped = true;
            return BL_OK;
        }
        wait = fmin(2 * wait, 8);
    }
    return BL_OK;
}

static bl_status look_at_job(watched *w, bl_err *err)
{
    cJSON *job = NULL;
    BL_TRY(ask_job(w, "", err));
    if (w->call->ask.stopped)
        return BL_OK;
    BL_TRY(bl_ask_document(&w->call->ask, &job, err));
    watch_job_take_state(w, job);
    if (w->terminal) {
        BL_TRY(take_history(w, err));
        draw_picture(w);
    }
    if (!w->call->ask.stopped)
        BL_TRY(follow_job(w, err));
    if (w->terminal)
        draw_picture(w);
    return BL_OK;
}

static bl_status watch_job(watched *w, bl_err *err)
{
    BL_TRY(look_at_job(w, err));
    if (is_final(w->job))
        return strcmp(bl_answer_text(w->job, "state"), "done") == 0
                   ? BL_OK
                   : bl_fail(err, BL_EINVAL, "the job %.40s: %.300s", bl_answer_text(w->job, "state"),
                             bl_answer_text(w->job, "reason"));
    (void)fprintf(stderr, "%sdetached; the job goes on.  beamline watch %s: look again; beamline cancel %s: end it\n",
                  w->terminal ? "" : "\n", w->id, w->id);
    return BL_OK;
}

bl_status bl_job_watch(bl_call *call, const char *id, const char *metric, bl_err *err)
{
    static watched w; /* static because it is large; there is one per process */
    w.call = call;
    w.id = id;
    w.json = bl_call_has(call, "json");
    w.terminal = isatty(STDOUT_FILENO) && !w.json;
    w.unicode = bl_terminal_has_unicode();
    w.interrupts = bl_terminal_catch_interrupts(true);
    (void)snprintf(w.metric, sizeof w.metric, "%s", metric != NULL ? metric : "");
    bl_status st = watch_job(&w, err);
    cJSON_Delete(w.job);
    cJSON_Delete(w.report);
    close(w.interrupts);
    return st;
}

bl_status bl_command_watch(bl_call *call, bl_err *err)
{
    bl_text id = {0};
    BL_TRY(bl_call_connect(call, err));
    bl_status st = bl_job_find(call, call->operands[0], &id, err);
    if (st == BL_OK)
        st = bl_job_watch(call, bl_text_get(&id), bl_call_text(call, "metric"), err);
    bl_text_fini(&id);
    return st;
}
