/* SPDX-License-Identifier: MIT */
#include "server/telemetry/exporter.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    QUEUE = 1024,       /* limit of waiting traces of 1.5 KiB each: one second at a thousand requests a second */
    BATCH = 128,        /* traces in one post, about 300 KiB of JSON */
    WAIT_MS = 1000,     /* maximum time that a trace waits for a batch to fill */
    CONNECT_MS = 2000,  /* maximum time to connect */
    ANSWER_MS = 10000,  /* maximum time for an answer: the default of OTLP's own exporters */
    FIRST_RETRY = 1000, /* milliseconds; doubles after each failure up to LAST_RETRY */
    LAST_RETRY = 30000,
    LAST_MS = 2000 /* maximum time to send the remaining traces at the end */
};

typedef enum outcome { SENT, LATER, REFUSED } outcome;

struct bl_exporter {
    bl_exporter_options options;
    char *url;
    char instance[33]; /* random id of this process */
    atomic_ullong seed;
    uint64_t limit; /* a trace is sampled if the last 56 bits of its id are below |limit| */
    CURL *curl;     /* the members from here to |lock| belong to the exporter's thread */
    struct curl_slist *headers;
    bl_text body;
    bool failing;
    int64_t retry_ns, next_ns; /* pause after the next failure; end of the present pause */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* guards the members below; not held during a transfer */
    pthread_cond_t some;
    bl_request_trace *ring; /* the thread reads |count| traces from |head| on without the lock, because only the thread moves
                             * |head| */
    size_t head, count;
    atomic_bool ends;
    int64_t end_ns; /* deadline of the shutdown; set before |ends| */
};

/* ---- sampling */

/* splitmix64 of Sebastiano Vigna.  Ids must be distinct, but they need not be unpredictable. */
static uint64_t exporter_draw(bl_exporter *exporter)
{
    uint64_t z = atomic_fetch_add_explicit(&exporter->seed, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return z != 0 ? z : 1; /* an id of zeros is invalid */
}

/* Is the trace sampled?  The last 7 bytes of the trace id decide, so that all services agree (TraceIdRatioBased of
 * OpenTelemetry). */
static bool is_drawn(const bl_exporter *exporter, const unsigned char *trace)
{
    uint64_t value = 0;
    for (int i = 9; i < 16; i++)
        value = value << 8 | trace[i];
    return value < exporter->limit;
}

void bl_exporter_begin(bl_exporter *exporter, bl_request_trace *trace, bool quiet)
{
    uint64_t id[3];
    if (exporter == NULL || (trace->has_parent ? !trace->parent.sampled : quiet))
        return;
    for (int i = 0; i < 3; i++)
        id[i] = exporter_draw(exporter);
    memcpy(trace->own.trace, trace->has_parent ? trace->parent.trace : (const void *)id, sizeof trace->own.trace);
    memcpy(trace->own.span, &id[2], sizeof trace->own.span);
    trace->traced = trace->own.sampled = trace->has_parent || is_drawn(exporter, trace->own.trace);
}

/* ---- the queue */

static long long span_count(const bl_request_trace *trace)
{
    return 1 + (long long)trace->nstays;
}

void bl_exporter_take(bl_exporter *exporter, const bl_request_trace *trace)
{
    bool taken = false;
    pthread_mutex_lock(&exporter->lock);
    taken = exporter->count < QUEUE;
    if (taken) {
        exporter->ring[(exporter->head + exporter->count) % QUEUE] = *trace;
        exporter->count++;
        if (exporter->count == BATCH)
            pthread_cond_signal(&exporter->some);
    }
    pthread_mutex_unlock(&exporter->lock);
    if (!taken)
        bl_metrics_add(exporter->options.metrics, BL_COUNT_SPANS_DROPPED, span_count(trace));
}

/* Remove the first |count| traces, which were sent or given up.  Thread: the exporter's. */
static void drop_first(bl_exporter *exporter, size_t count, int metric)
{
    long long spans = 0;
    for (size_t i = 0; i < count; i++)
        spans += span_count(&exporter->ring[(exporter->head + i) % QUEUE]);
    bl_metrics_add(exporter->options.metrics, metric, spans);
    pthread_mutex_lock(&exporter->lock);
    exporter->head = (exporter->head + count) % QUEUE;
    exporter->count -= count;
    pthread_mutex_unlock(&exporter->lock);
}

/* ---- sending, on the thread */

static size_t ignore(char *data, size_t size, size_t count, void *arg)
{
    (void)data;
    (void)arg;
    return size * count;
}

static int exporter_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const bl_exporter *exporter = arg;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return atomic_load(&exporter->ends) && bl_clock_ns() > exporter->end_ns;
}

static void exporter_tell(bl_exporter *exporter, outcome what, const char *why, long status)
{
    if (what == SENT && exporter->failing)
        bl_log(BL_LOG_INFO, "traces are sent to %s again", exporter->url);
    else if (what != SENT && !exporter->failing && status != 0)
        bl_log(BL_LOG_WARN, "traces cannot be sent to %s: status %ld", exporter->url, status);
    else if (what != SENT && !exporter->failing)
        bl_log(BL_LOG_WARN, "traces cannot be sent to %s: %s", exporter->url, why);
    exporter->failing = what != SENT;
}

static int64_t epoch_offset(void)
{
    return bl_clock_wall_ns() - bl_clock_ns();
}

static outcome post(bl_exporter *exporter, size_t count)
{
    CURLcode code = CURLE_OUT_OF_MEMORY;
    outcome what = LATER;
    long status = 0;
    bl_text_clear(&exporter->body);
    bl_otlp_encode(&exporter->body, &exporter->options, exporter->instance, exporter->ring, QUEUE, exporter->head, count,
                   epoch_offset());
    if (!exporter->body.failed) {
        curl_easy_setopt(exporter->curl, CURLOPT_POSTFIELDS, exporter->body.data);
        curl_easy_setopt(exporter->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)exporter->body.len);
        code = curl_easy_perform(exporter->curl);
        curl_easy_getinfo(exporter->curl, CURLINFO_RESPONSE_CODE, &status);
    }
    exporter->body.failed = false;
    if (code == CURLE_OK && status / 100 == 2)
        what = SENT;
    else if (code == CURLE_OK && status != 429 && status != 502 && status != 503 && status != 504)
        what = REFUSED; /* by OTLP all codes except these four are final */
    exporter_tell(exporter, what, curl_easy_strerror(code), status);
    return what;
}

/* Send one batch.  False if the exporter must retry the collector later. */
static bool send_batch(bl_exporter *exporter, size_t count)
{
    curl_off_t asked = 0;
    outcome what = post(exporter, count);
    if (what != LATER) {
        drop_first(exporter, count, what == SENT ? BL_COUNT_SPANS : BL_COUNT_SPANS_DROPPED);
        exporter->retry_ns = INT64_C(1000000) * FIRST_RETRY;
        return true;
    }
    curl_easy_getinfo(exporter->curl, CURLINFO_RETRY_AFTER, &asked);
    asked = asked > LAST_RETRY / 1000 ? LAST_RETRY / 1000 : asked;
    exporter->next_ns = bl_clock_ns() + (asked > 0 ? (int64_t)asked * 1000000000 : exporter->retry_ns);
    exporter->retry_ns *= 2;
    if (exporter->retry_ns > INT64_C(1000000) * LAST_RETRY)
        exporter->retry_ns = INT64_C(1000000) * LAST_RETRY;
    return false;
}

/* Wait until a batch is full, WAIT_MS have passed, or the exporter ends.  Returns the number of traces to send. */
static size_t exporter_wait_for_some(bl_exporter *exporter)
{
    struct timespec until = bl_clock_after(CLOCK_MONOTONIC, INT64_C(1000000) * WAIT_MS);
    size_t count = 0;
    int late = 0;
    pthread_mutex_lock(&exporter->lock);
    while (!atomic_load(&exporter->ends) && exporter->count < BATCH && late == 0)
        late = pthread_cond_timedwait(&exporter->some, &exporter->lock, &until);
    if (!atomic_load(&exporter->ends) && bl_clock_ns() < exporter->next_ns) { /* wait for the end of the pause; new traces do
                                                                               * not shorten it */
        pthread_cond_timedwait(&exporter->some, &exporter->lock, &until);
        count = 0;
    } else {
        count = exporter->count < BATCH ? exporter->count : BATCH;
    }
    pthread_mutex_unlock(&exporter->lock);
    return count;
}

static void *exporter_run_thread(void *arg)
{
    bl_exporter *exporter = arg;
    while (!atomic_load(&exporter->ends)) {
        size_t count = exporter_wait_for_some(exporter);
        if (count > 0 && !atomic_load(&exporter->ends))
            (void)send_batch(exporter, count);
    }
    while (exporter->count > 0 && bl_clock_ns() < exporter->end_ns) /* no thread adds traces any more */
        if (!send_batch(exporter, exporter->count < BATCH ? exporter->count : BATCH))
            break;
    drop_first(exporter, exporter->count, BL_COUNT_SPANS_DROPPED);
    return NULL;
}

/* ---- lifetime */

/* Build the URL of the posts. */
static bl_status make_url(const char *url, char **out, bl_err *err)
{
    static const char path[] = "/v1/traces";
    size_t len = strlen(url);
    CURLU *parsed = curl_url();
    char *scheme = NULL;
    bool fits = parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(parsed);
    if (!fits)
        return bl_fail(err, BL_EINVAL, "--otlp %s is not an address; write it as http://127.0.0.1:4318", url);
    while (len > 0 && url[len - 1] == '/')
        len--;
    *out = malloc(len + sizeof path);
    if (*out == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the exporter of traces");
    memcpy(*out, url, len);
    (*out)[len] = '\0';
    if (len < sizeof path - 1 || strcmp(*out + len - (sizeof path - 1), path) != 0)
        memcpy(*out + len, path, sizeof path);
    return BL_OK;
}

static void set_up_curl(bl_exporter *exporter)
{
    CURL *curl = exporter->curl;
    curl_easy_setopt(curl, CURLOPT_URL, exporter->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, exporter->headers);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L); /* only the main thread handles signals */
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ANSWER_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, exporter_on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exporter);
}

static bl_status exporter_start(bl_exporter *exporter, const bl_exporter_options *options, bl_err *err)
{
    uint64_t id[2];
    pthread_mutex_init(&exporter->lock, NULL);
    bl_clock_cond_init(&exporter->some);
    exporter->options = *options;
    exporter->options.service = strdup(options->service);
    exporter->limit = (uint64_t)(options->share * 0x1p56);
    exporter->retry_ns = INT64_C(1000000) * FIRST_RETRY;
    exporter->ring = calloc(QUEUE, sizeof *exporter->ring);
    exporter->curl = curl_easy_init();
    exporter->headers = curl_slist_append(NULL, "content-type: application/json");
    if (getrandom(&exporter->seed, sizeof exporter->seed, 0) < 0)
        atomic_store(&exporter->seed, (unsigned long long)bl_clock_ns());
    id[0] = exporter_draw(exporter);
    id[1] = exporter_draw(exporter);
    bl_trace_hex((const unsigned char *)id, sizeof id, exporter->instance);
    BL_TRY(make_url(options->url, &exporter->url, err));
    if (exporter->options.service == NULL || exporter->ring == NULL || exporter->curl == NULL || exporter->headers == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the exporter of traces");
    set_up_curl(exporter);
    exporter->started = pthread_create(&exporter->thread, NULL, exporter_run_thread, exporter) == 0;
    return exporter->started ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the exporter's thread");
}

bl_status bl_exporter_create(const bl_exporter_options *options, bl_exporter **out, bl_err *err)
{
    bl_exporter *exporter = calloc(1, sizeof *exporter);
    bl_status st = BL_OK;
    *out = NULL;
    if (exporter == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the exporter of traces");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    st = exporter_start(exporter, options, err);
    if (st == BL_OK)
        *out = exporter;
    else
        bl_exporter_destroy(exporter);
    return st;
}

void bl_exporter_destroy(bl_exporter *exporter)
{
    if (exporter == NULL)
        return;
    if (exporter->started) {
        pthread_mutex_lock(&exporter->lock);
        exporter->end_ns = bl_clock_ns() + INT64_C(1000000) * LAST_MS;
        atomic_store(&exporter->ends, true);
        pthread_cond_signal(&exporter->some);
        pthread_mutex_unlock(&exporter->lock);
        pthread_join(exporter->thread, NULL);
    }
    curl_easy_cleanup(exporter->curl);
    curl_slist_free_all(exporter->headers);
    curl_global_cleanup();
    bl_text_fini(&exporter->body);
    pthread_cond_destroy(&exporter->some);
    pthread_mutex_destroy(&exporter->lock);
    free(exporter->ring);
    free(exporter->url);
    free((char *)(uintptr_t)exporter->options.service);
    free(exporter);
}
