/* SPDX-License-Identifier: MIT */
/* `beamline train`: puts a program, submits a job that trains it, and watches the job. */
#include "server/command/watch_job.h"

#include "engine/base/file.h"
#include "proto/encode.h"
#include "server/command/arrays.h"
#include "server/command/document.h"
#include "server/command/terminal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_REPORTS = 500 };

typedef struct training {
    bl_call *call;
    char name[128]; /* name of the program */
    const char *entry;
    cJSON *program;    /* the program's document, or the server's description of the program; owned */
    bl_text job, body; /* |job|: the job's document; |body|: the body of the request */
    bl_arrays *arrays;
} training;

/* Make the name "my_net" from "models/my-net.json". */
static void name_program(training *t, const char *path)
{
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    size_t len = strcspn(base, "."), n = 0;
    if (!isalpha((unsigned char)base[0]) && base[0] != '_')
        t->name[n++] = '_';
    for (size_t i = 0; i < len && n + 1 < sizeof t->name; i++)
        t->name[n++] = (char)(isalnum((unsigned char)base[i]) ? base[i] : '_');
    t->name[n] = '\0';
}

/* ---- the program */

static bl_status train_put_program(training *t, const char *path, bl_err *err)
{
    bl_text document = {0}, address = {0};
    bl_ask_request request = {.method = "PUT"};
    bl_status st = bl_document_read(path, &document, err);
    if (st == BL_OK) {
        if (bl_call_has(t->call, "device"))
            bl_document_set_string(&document, "device", bl_call_text(t->call, "device"));
        bl_ask_path(&address, "/api/v1/programs/", t->name, "");
        request.path = bl_text_get(&address);
        request.body = (bl_span){bl_text_get(&document), document.len};
        t->program = cJSON_Parse(bl_text_get(&document));
        st = bl_ask_send(&t->call->ask, &request, err);
    }
    bl_text_fini(&document);
    bl_text_fini(&address);
    return st;
}

static bl_status train_find_program(training *t, bl_err *err)
{
    bl_text address = {0};
    bl_ask_request request = {.seconds = BL_ASK_SECONDS};
    bl_ask_path(&address, "/api/v1/programs/", t->name, "");
    request.path = bl_text_get(&address);
    bl_status st = bl_ask_send(&t->call->ask, &request, err);
    if (st == BL_OK)
        st = bl_ask_document(&t->call->ask, &t->program, err);
    else if (t->call->ask.status == 404)
        (void)snprintf(err->text, sizeof err->text, "there is no file \"%.200s\", and the server has no program of that name",
                       t->call->operands[0]);
    bl_text_fini(&address);
    return st;
}

/* ---- the job */

/* The outputs of the entry; *loss becomes the output called loss, if there is one. */
static const cJSON *train_find_outputs(const training *t, const cJSON **loss)
{
    const char *entry = t->entry != NULL ? t->entry : "main";
    const cJSON *outputs = bl_answer_at(bl_answer_at(bl_answer_at(t->program, "entries"), entry), "outputs");
    if (outputs == NULL)
        outputs = bl_answer_at(t->program, "outputs");
    for (const cJSON *item = bl_answer_first(outputs); item != NULL; item = item->next) {
        const char *name = cJSON_GetStringValue(item);
        if (name != NULL && strcmp(name, "loss") == 0)
            *loss = item;
    }
    return outputs;
}

static void train_put_name(bl_text *out, const char *name, size_t len)
{
    bl_text_puts(out, out->len > 1 ? "," : "");
    bl_encode_span(out, (bl_span){name, len});
}

/* Append --outputs ("loss,accuracy"), or the output called loss, or all outputs, as a JSON list. */
static void list_outputs(const training *t, bl_text *out)
{
    const char *given = bl_call_text(t->call, "outputs");
    const cJSON *loss = NULL, *outputs = train_find_outputs(t, &loss);
    bl_text_puts(out, "[");
    for (const char *p = given; p != NULL; p = *p == ',' ? p + 1 : NULL) {
        size_t len = strcspn(p, ",");
        train_put_name(out, p, len);
        p += len;
    }
    if (given == NULL && loss != NULL)
        train_put_name(out, "loss", 4);
    if (given == NULL && loss == NULL)
        for (const cJSON *item = bl_answer_first(outputs); item != NULL; item = item->next)
            if (cJSON_IsString(item))
                train_put_name(out, item->valuestring, strlen(item->valuestring));
    bl_text_puts(out, "]");
}

static void set_number(bl_text *document, const char *in, const char *name, double value)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%.0f", value);
    bl_document_set(document, in, name, text);
}

static bl_status make_job(training *t, bl_err *err)
{
    const char *file = bl_call_text(t->call, "job"), *given = NULL;
    cJSON *job = NULL;
    int at = 0;
    if (file != NULL)
        BL_TRY(bl_document_read(file, &t->job, err));
    else
        bl_text_puts(&t->job, "{}");
    bl_document_set_string(&t->job, "program", t->name);
    if (t->entry != NULL)
        bl_document_set_string(&t->job, "entry", t->entry);
    if (bl_call_has(t->call, "steps"))
        set_number(&t->job, NULL, "steps", bl_call_number(t->call, "steps", 0));
    while ((given = bl_call_next(t->call, "data", &at)) != NULL)
        BL_TRY(bl_arrays_take(t->arrays, given, &t->job, "inputs", err));
    job = cJSON_Parse(bl_text_get(&t->job));
    double steps = bl_answer_number(job, "steps", 0);
    bool collects = bl_answer_at(job, "collect") != NULL;
    cJSON_Delete(job);
    if (steps < 1)
        return bl_call_misuse(t->call, err, "--steps N is missing");
    if (!collects || bl_call_has(t->call, "outputs")) {
        bl_text outputs = {0};
        list_outputs(t, &outputs);
        bl_document_set(&t->job, "collect", "outputs", bl_text_get(&outputs));
        bl_text_fini(&outputs);
    }
    if (!collects || bl_call_has(t->call, "every"))
        set_number(&t->job, "collect", "every", bl_call_number(t->call, "every", fmax(1, floor(steps / USUAL_REPORTS))));
    return bl_text_status(&t->job, err);
}

/* ---- result */

static bl_status train_write_text(void *arg, int fd, bl_err *err)
{
    const bl_text *text = arg;
    return bl_write_all(fd, text->data, text->len) ? BL_OK : bl_fail(err, BL_ESTORAGE, "the disk is full or failed");
}

/* Save the last checkpoint: the state after the last step. */
static bl_status save_state(training *t, const char *id, const char *path, bl_err *err)
{
    bl_text address = {0};
    bl_ask_request request = {0};
    bl_err wrong = {0};
    bl_ask_path(&address, "/api/v1/jobs/", id, "/checkpoints/last");
    request.path = bl_text_get(&address);
    bl_status st = bl_ask_send(&t->call->ask, &request, err);
    if (st == BL_OK && bl_file_replace(path, train_write_text, &t->call->ask.body, &wrong) != BL_OK)
        st = bl_fail(err, BL_ESTORAGE, "%.200s cannot be written: %.200s", path, wrong.text);
    bl_text_fini(&address);
    return st;
}

static bl_status train_submit(training *t, bl_err *err)
{
    bl_ask_request request = {.path = "/api/v1/jobs"};
    bool told = false, watches = bl_call_has(t->call, "watch");
    const char *to = bl_call_text(t->call, "out");
    cJSON *answer = NULL;
    char id[200] = "";
    BL_TRY(bl_arrays_body(t->arrays, &t->job, &t->body, &request.media, err));
    request.body = (bl_span){t->body.data, t->body.len};
    BL_TRY(bl_call_ask(t->call, &request, &told, err));
    BL_TRY(bl_ask_document(&t->call->ask, &answer, err));
    (void)snprintf(id, sizeof id, "%s", bl_answer_text(answer, "job"));
    cJSON_Delete(answer);
    if (id[0] == '\0' || id[strspn(id, "0123456789abcdef")] != '\0')
        return bl_fail(err, BL_EINVAL, "the server's answer does not name a job");
    if (!watches) {
        if (!told) {
            printf("%s\n", id);
            (void)fprintf(stderr, "beamline watch %s: see how it goes; beamline cancel %s: end it\n", id, id);
        }
        return BL_OK;
    }
    BL_TRY(bl_job_watch(t->call, id, bl_call_text(t->call, "metric"), err));
    return to != NULL && !t->call->ask.stopped ? save_state(t, id, to, err) : BL_OK;
}

bl_status bl_command_train(bl_call *call, bl_err *err)
{
    static bl_arrays arrays;
    const char *what = call->operands[0];
    bool is_file = strcmp(what, "-") == 0 || access(what, F_OK) == 0;
    training t = {.call = call, .entry = bl_call_text(call, "entry"), .arrays = &arrays};
    if (bl_call_has(call, "out") && !bl_call_has(call, "watch"))
        return bl_call_misuse(call, err, "--out needs --watch, because it writes the state at the end of the job");
    if (bl_call_has(call, "name") || !is_file)
        (void)snprintf(t.name, sizeof t.name, "%s", bl_call_has(call, "name") ? bl_call_text(call, "name") : what);
    else
        name_program(&t, what);
    bl_status st = bl_call_connect(call, err);
    if (st == BL_OK)
        st = is_file ? train_put_program(&t, what, err) : train_find_program(&t, err);
    if (st == BL_OK)
        st = make_job(&t, err);
    if (st == BL_OK)
        st = train_submit(&t, err);
    cJSON_Delete(t.program);
    bl_arrays_fini(t.arrays);
    bl_text_fini(&t.job);
    bl_text_fini(&t.body);
    return st;
}
