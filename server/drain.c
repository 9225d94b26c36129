/* SPDX-License-Identifier: MIT */
/* One device is taken out of service while the others go on: nothing new is placed on it, what is under way there ends, and
 * hosted models and jobs move to others.  And `beamline devices drain` and `resume`, which ask a running server for that. */
#include "server/drain.h"

#include "engine/base/log.h"
#include "server/handlers.h"
#include "server/jobs/jobs.h"
#include "server/models/models.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how it stands */

static void count_program(void *arg, const char *name, bl_program *program)
{
    bl_drain_left *left = arg;
    (void)name;
    left->programs += program->worker == left->worker;
}

void bl_drain_look(bl_worker *worker, bl_drain_left *left)
{
    bl_server *server = worker->server;
    *left = (bl_drain_left){.worker = worker,
                            .requests = bl_queue_length(worker->queue),
                            .models = bl_models_count_on(server->models, worker),
                            .jobs = bl_jobs_count_on(server->jobs, worker)};
    bl_shelf_all_programs(server->shelf, count_program, left);
}

const char *bl_drain_state(const bl_drain_left *left)
{
    if (atomic_load(&left->worker->dev->lost))
        return "lost";
    if (!atomic_load(&left->worker->drained))
        return "ready";
    return left->requests + left->models + left->jobs + left->programs > 0 ? "draining" : "drained";
}

/* ---- the routes */

/* Does any other take new work?  Under drain_lock. */
static bool is_last(bl_server *server, const bl_worker *worker)
{
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *other = &server->workers[i];
        if (other != worker && !atomic_load(&other->drained) && !atomic_load(&other->dev->lost))
            return false;
    }
    return true;
}

static bl_status change(bl_request *rq, bl_worker *worker, bool drained)
{
    bl_server *server = rq->server;
    bool last = false, changed = false;
    pthread_mutex_lock(&server->drain_lock);
    last = drained && is_last(server, worker);
    if (!last)
        changed = atomic_exchange(&worker->drained, drained) != drained;
    atomic_fetch_add(&server->drains, changed);
    pthread_mutex_unlock(&server->drain_lock);
    if (last)
        return bl_fail(&rq->err, BL_ECONFLICT, "%s is the last device that takes new work: resume another first",
                       worker->dev->info.id);
    if (changed) {
        bl_log(BL_LOG_WARN, drained ? "%s is drained: it takes no new work" : "%s takes new work again", worker->dev->info.id);
        bl_models_replace(server->models);
    }
    return BL_OK;
}

static bl_status handle(bl_request *rq, bool drained)
{
    bl_server *server = rq->server;
    for (uint32_t i = 0; i < server->nworkers; i++) {
        bl_worker *worker = &server->workers[i];
        if (strcmp(worker->dev->info.id, rq->param[0]) != 0)
            continue;
        BL_TRY(change(rq, worker, drained));
        bl_device_describe(rq, worker);
        bl_request_reply_json(rq, 200);
        return BL_OK;
    }
    return bl_fail(&rq->err, BL_ENOTFOUND, "there is no device \"%.64s\"; GET /api/v1/devices lists them", rq->param[0]);
}

bl_status bl_handle_device_drain(bl_request *rq)
{
    return handle(rq, true);
}

bl_status bl_handle_device_resume(bl_request *rq)
{
    return handle(rq, false);
}

/* ---- the command */

enum { ANSWER_SECONDS = 30 };

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    bl_text *body = arg;
    bl_text_append(body, data, size * n);
    return body->failed ? 0 : size * n;
}

static bl_status post(CURL *curl, const char *url, const char *id, const char *what, bl_text *body, bl_err *err)
{
    struct curl_slist *headers = NULL;
    const char *key = getenv("BEAMLINE_KEY");
    bl_text address = {0}, header = {0};
    long status = 0;
    CURLcode code = CURLE_OK;
    bl_text_printf(&address, "%s/api/v1/devices/%s/%s", url, id, what);
    if (key != NULL && *key != '\0') {
        bl_text_printf(&header, "Authorization: Bearer %s", key);
        headers = curl_slist_append(NULL, bl_text_get(&header));
    }
    curl_easy_setopt(curl, CURLOPT_URL, bl_text_get(&address));
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)ANSWER_SECONDS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    if (getenv("SSL_CERT_FILE") != NULL)
        curl_easy_setopt(curl, CURLOPT_CAINFO, getenv("SSL_CERT_FILE"));
    code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    bl_text_fini(&address);
    bl_text_fini(&header);
    if (code != CURLE_OK)
        return bl_fail(err, BL_EINVAL, "no answer: %s", curl_easy_strerror(code));
    return status == 200 ? BL_OK : bl_fail(err, BL_EINVAL, "the server says %ld: %.300s", status, bl_text_get(body));
}

int bl_drain_main(int argc, char *const *argv)
{
    const char *url = argc > 2 ? argv[2] : getenv("BEAMLINE_URL");
    CURL *curl = NULL;
    bl_text body = {0};
    bl_err err = {0};
    if (argc < 2 || argc > 3 || argv[1][0] == '-') {
        fprintf(stderr, "beamline: devices drain ID [URL] | resume ID [URL]; the key is in $BEAMLINE_KEY\n");
        return EXIT_FAILURE;
    }
    url = url != NULL && *url != '\0' ? url : "http://127.0.0.1:8470";
    curl = curl_easy_init();
    if (curl == NULL)
        (void)bl_fail(&err, BL_ENOMEM, "devices");
    else if (post(curl, url, argv[1], argv[0], &body, &err) == BL_OK)
        printf("%s\n", bl_text_get(&body));
    if (err.status != BL_OK)
        fprintf(stderr, "beamline: %s\n", err.text);
    curl_easy_cleanup(curl);
    bl_text_fini(&body);
    return err.status == BL_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
