/* SPDX-License-Identifier: MIT */
/* `beamline bench`: several clients send requests to a hosted model in a loop.  Each client has its own thread and
 * connection. */
#include "server/command/question.h"

#include "engine/base/clock.h"
#include "proto/encode.h"
#include "server/command/events.h"
#include "server/command/terminal.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_SECONDS = 5, USUAL_TOKENS = 64 };

typedef struct samples {
    double *values; /* durations in seconds; owned */
    size_t count, cap;
} samples;

/* Data that all clients share; constant. */
typedef struct plan {
    const bl_call *call;
    bl_ask_request request;
    bool writes;
    int64_t until_ns;
} plan;

typedef struct client {
    const plan *plan;
    pthread_t thread;
    bl_ask ask;
    samples whole, first; /* |whole|: seconds of each request; |first|: seconds until its first token */
    double tokens;
    int64_t begun_ns, first_ns; /* times of the current request; |first_ns| is 0 before the first token */
    char broken[300];           /* the error message of a stream */
    bl_err err;                 /* the error that ended the client */
} client;

static void keep_sample(samples *s, double value)
{
    if (s->count == s->cap) {
        size_t cap = 2 * s->cap + 1024;
        double *longer = realloc(s->values, cap * sizeof *longer);
        if (longer == NULL)
            return;
        s->values = longer;
        s->cap = cap;
    }
    s->values[s->count++] = value;
}

/* ---- a client */

/* Take a chunk of a streamed text: record the time of the first chunk, and the token count of the last chunk. */
static bool on_chunk(void *arg, const char *name, const char *id, const char *data, size_t len)
{
    client *c = arg;
    cJSON *event = cJSON_ParseWithLength(data, len);
    const cJSON *choice = cJSON_GetArrayItem(bl_answer_at(event, "choices"), 0);
    const char *message = bl_answer_text(bl_answer_at(event, "error"), "message");
    (void)name;
    (void)id;
    if (choice != NULL && c->first_ns == 0)
        c->first_ns = bl_clock_ns();
    if (*message != '\0')
        (void)snprintf(c->broken, sizeof c->broken, "%s", message);
    c->tokens += bl_answer_number(bl_answer_at(event, "usage"), "completion_tokens", 0);
    cJSON_Delete(event);
    return true;
}

static bl_status ask_once(client *c)
{
    bl_events events = {.event = on_chunk, .arg = c};
    bl_ask_request request = c->plan->request;
    if (c->plan->writes) {
        request.take = bl_events_take;
        request.arg = &events;
    }
    c->first_ns = 0;
    c->begun_ns = bl_clock_ns();
    bl_status st = bl_ask_send(&c->ask, &request, &c->err);
    bl_events_fini(&events);
    if (st == BL_OK && c->broken[0] != '\0')
        st = bl_fail(&c->err, BL_EINVAL, "the server reports: %s", c->broken);
    if (st != BL_OK)
        return st;
    keep_sample(&c->whole, (double)(bl_clock_ns() - c->begun_ns) * 1e-9);
    if (c->first_ns != 0)
        keep_sample(&c->first, (double)(c->first_ns - c->begun_ns) * 1e-9);
    return BL_OK;
}

static void *run_client(void *arg)
{
    client *c = arg;
    while (bl_clock_ns() < c->plan->until_ns && ask_once(c) == BL_OK)
        continue;
    return NULL;
}

/* ---- figures */

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Percentile of sorted values, by the nearest rank. */
static double percentile(const samples *s, double share)
{
    size_t rank = (size_t)ceil(share * (double)s->count);
    return s->count == 0 ? 0 : s->values[rank > 0 ? rank - 1 : 0];
}

static void join_samples(samples *all, samples *one)
{
    for (size_t i = 0; i < one->count; i++)
        keep_sample(all, one->values[i]);
    free(one->values);
    *one = (samples){0};
}

typedef struct figures {
    samples whole, first;
    double tokens, seconds;
    int clients;
    bool writes;
} figures;

static void put_percentiles(const samples *s, bool json, const char *name, bl_text *out)
{
    static const double shares[] = {0.5, 0.95, 0.99};
    if (json)
        bl_text_printf(out, ",\"%s_ms\":{", name);
    else
        bl_text_printf(out, "%-20s", name);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        double value = percentile(s, shares[i]);
        if (json) {
            bl_text_printf(out, "%s\"p%.0f\":%.6g", i > 0 ? "," : "", 100 * shares[i], 1e3 * value);
        } else {
            bl_text_printf(out, "%sp%.0f ", i > 0 ? "   " : "", 100 * shares[i]);
            bl_text_put_time(out, value);
        }
    }
    bl_text_puts(out, json ? "}" : "\n");
}

static bl_status print_figures(const figures *f, bool json, bl_err *err)
{
    bl_text out = {0};
    double rate = (double)f->whole.count / f->seconds;
    if (json) {
        bl_text_printf(&out, "{\"clients\":%d,\"seconds\":%.6g,\"requests\":%zu,\"requests_per_second\":%.6g", f->clients,
                       f->seconds, f->whole.count, rate);
        put_percentiles(&f->whole, true, "latency", &out);
        if (f->writes) {
            bl_text_printf(&out, ",\"tokens\":%.0f,\"tokens_per_second\":%.6g", f->tokens, f->tokens / f->seconds);
            put_percentiles(&f->first, true, "first_token", &out);
        }
        bl_text_puts(&out, "}\n");
    } else {
        bl_text_printf(&out, "%-20s%.4g/s  (%zu in %.2f s by %d client%s)\n", "requests", rate, f->whole.count, f->seconds,
                       f->clients, f->clients > 1 ? "s" : "");
        put_percentiles(&f->whole, false, "latency", &out);
        if (f->writes) {
            bl_text_printf(&out, "%-20s%.4g/s  (%.0f)\n", "tokens", f->tokens / f->seconds, f->tokens);
            put_percentiles(&f->first, false, "first token", &out);
        }
    }
    bool whole = bl_terminal_print(&out);
    bl_text_fini(&out);
    return whole ? BL_OK : bl_fail(err, BL_ESTORAGE, "standard output cannot be written");
}

/* ---- the command */

static void make_prompt(bl_question *question)
{
    const bl_call *call = question->call;
    const char *prompt = bl_call_text(call, "prompt");
    bl_text_puts(&question->path, "/v1/completions");
    bl_text_puts(&question->body, "{\"model\": ");
    bl_encode_string(&question->body, call->operands[0]);
    bl_text_puts(&question->body, ", \"prompt\": ");
    bl_encode_string(&question->body, prompt != NULL ? prompt : "Once upon a time");
    bl_text_printf(&question->body,
                   ", \"max_tokens\": %.0f, \"temperature\": 0, \"stream\": true, \"stream_options\": {\"include_usage\": true}}",
                   bl_call_number(call, "max-tokens", USUAL_TOKENS));
}

static bl_status start_client(client *c, const plan *shared, bl_err *err)
{
    c->plan = shared;
    BL_TRY(bl_ask_open(&c->ask, bl_call_text(shared->call, "url"), bl_call_text(shared->call, "key-file"), err));
    return pthread_create(&c->thread, NULL, run_client, c) == 0 ? BL_OK
                                                                : bl_fail(err, BL_ENOMEM, "out of host memory for a thread");
}

/* Run all clients until the time is up; the first failure of a client is the failure of the command. */
static bl_status run_clients(bl_call *call, plan *shared, figures *f, bl_err *err)
{
    client *clients = calloc((size_t)f->clients, sizeof *clients);
    bl_status st = clients != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the clients");
    int64_t begun = bl_clock_ns();
    int started = 0;
    shared->until_ns = begun + (int64_t)(bl_call_number(call, "seconds", USUAL_SECONDS) * 1e9);
    while (st == BL_OK && started < f->clients) {
        st = start_client(&clients[started], shared, err);
        started += st == BL_OK;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(clients[i].thread, NULL);
        f->tokens += clients[i].tokens;
        join_samples(&f->whole, &clients[i].whole);
        join_samples(&f->first, &clients[i].first);
        call->ask.silent = call->ask.silent || clients[i].ask.silent;
        if (clients[i].err.status != BL_OK && st == BL_OK)
            st = bl_fail(err, clients[i].err.status, "%s", clients[i].err.text);
    }
    f->seconds = (double)(bl_clock_ns() - begun) * 1e-9;
    for (int i = 0; clients != NULL && i < f->clients; i++)
        if (clients[i].ask.url != NULL)
            bl_ask_close(&clients[i].ask);
    free(clients);
    return st;
}

bl_status bl_command_bench(bl_call *call, bl_err *err)
{
    static bl_question question;
    bl_status st = bl_question_open(&question, call, err);
    if (st == BL_OK && question.writes)
        make_prompt(&question);
    else if (st == BL_OK)
        st = bl_question_fill(&question, true, false, err);
    plan shared = {.call = call,
                   .writes = question.writes,
                   .request = {.path = bl_text_get(&question.path),
                               .body = {bl_text_get(&question.body), question.body.len},
                               .media = question.media,
                               .header = question.length.len > 0 ? question.length.data : NULL}};
    figures f = {.clients = (int)bl_call_number(call, "clients", 1), .writes = question.writes};
    if (st == BL_OK)
        st = run_clients(call, &shared, &f, err);
    if (st == BL_OK) {
        qsort(f.whole.values, f.whole.count, sizeof(double), compare_values);
        qsort(f.first.values, f.first.count, sizeof(double), compare_values);
        st = print_figures(&f, bl_call_has(call, "json"), err);
    }
    free(f.whole.values);
    free(f.first.values);
    bl_question_fini(&question);
    return st;
}
