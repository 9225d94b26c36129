/* SPDX-License-Identifier: MIT */
#include "server/command/ask.h"

#include "server/command/terminal.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_SECONDS = 10, MOST_KEY = 4096 };

/* A request that is running. */
typedef struct transfer {
    bl_ask *ask;
    const bl_ask_request *request;
    int64_t sent;
    char problem[CURL_ERROR_SIZE];
} transfer;

/* ---- address and key */

static bl_status set_url(bl_ask *ask, const char *given, bl_err *err)
{
    const char *url = given != NULL ? given : getenv("BEAMLINE_URL");
    bl_text out = {0};
    if (url == NULL || *url == '\0')
        url = "http://127.0.0.1:8470";
    bl_text_printf(&out, "%s%s", strstr(url, "://") == NULL ? "http://" : "", url);
    while (out.len > 0 && bl_text_last(&out) == '/')
        out.data[--out.len] = '\0';
    ask->url = bl_text_take(&out);
    return ask->url != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the address");
}

static bl_status set_key(bl_ask *ask, const char *file, bl_err *err)
{
    char text[MOST_KEY + 1] = "", *key = text;
    const char *given = getenv("BEAMLINE_KEY");
    if (file != NULL) {
        FILE *from = fopen(file, "re");
        if (from == NULL)
            return bl_fail(err, BL_ENOTFOUND, "the key file %.200s cannot be opened: %s", file, strerror(errno));
        text[fread(text, 1, MOST_KEY, from)] = '\0';
        fclose(from);
    } else if (given != NULL) {
        (void)snprintf(text, sizeof text, "%s", given);
    }
    key += strspn(key, " \t\r\n");
    for (size_t len = strlen(key); len > 0 && isspace((unsigned char)key[len - 1]); len--)
        key[len - 1] = '\0';
    if (*key == '\0')
        return file == NULL ? BL_OK : bl_fail(err, BL_EINVAL, "the key file %.200s is empty", file);
    for (const char *p = key; *p != '\0'; p++)
        if (!isgraph((unsigned char)*p))
            return bl_fail(err, BL_EINVAL, "the key has a character that is not allowed; %s must hold only the key",
                           file != NULL ? "the file" : "$BEAMLINE_KEY");
    ask->key = strdup(key);
    return ask->key != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "out of host memory for the key");
}

bl_status bl_ask_open(bl_ask *ask, const char *url, const char *key_file, bl_err *err)
{
    *ask = (bl_ask){.curl = curl_easy_init()};
    if (ask->curl == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for libcurl");
    BL_TRY(set_url(ask, url, err));
    return set_key(ask, key_file, err);
}

void bl_ask_close(bl_ask *ask)
{
    curl_easy_cleanup(ask->curl);
    free(ask->url);
    free(ask->key);
    bl_text_fini(&ask->body);
    *ask = (bl_ask){0};
}

void bl_ask_path(bl_text *out, const char *begin, const char *name, const char *end)
{
    static const char digits[] = "0123456789ABCDEF";
    bl_text_puts(out, begin);
    for (const char *p = name; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (isalnum(c) || strchr("-._~:", c) != NULL)
            bl_text_putc(out, *p);
        else
            bl_text_printf(out, "%%%c%c", digits[c >> 4], digits[c & 15]);
    }
    bl_text_puts(out, end);
}

/* ---- a request */

static size_t ask_on_body(char *data, size_t size, size_t n, void *arg)
{
    transfer *t = arg;
    long status = 0;
    curl_easy_getinfo(t->ask->curl, CURLINFO_RESPONSE_CODE, &status);
    if (t->request->take != NULL && status / 100 == 2)
        return t->request->take(t->request->arg, data, size * n) ? size * n : 0;
    bl_text_append(&t->ask->body, data, size * n);
    return t->ask->body.failed ? 0 : size * n;
}

static size_t on_read(char *data, size_t size, size_t n, void *arg)
{
    transfer *t = arg;
    int64_t left = t->request->bytes - t->sent;
    size_t most = size * n < (size_t)left ? size * n : (size_t)left;
    ssize_t got = most > 0 ? pread(t->request->fd, data, most, (off_t)(t->request->from + t->sent)) : 0;
    if (got < 0 || (got == 0 && most > 0)) /* the file became shorter during the request */
        return CURL_READFUNC_ABORT;
    t->sent += got;
    if (t->request->sent != NULL)
        t->request->sent(t->request->arg, t->sent);
    return (size_t)got;
}

static int ask_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    transfer *t = arg;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    t->ask->stopped = t->ask->stopped || bl_terminal_is_interrupted(t->request->interrupts);
    return t->ask->stopped;
}

static bool ask_add_header(struct curl_slist **list, const char *name, const char *value)
{
    bl_text line = {0};
    struct curl_slist *longer = NULL;
    bl_text_printf(&line, "%s%s", name, value);
    if (!line.failed)
        longer = curl_slist_append(*list, line.data);
    bl_text_fini(&line);
    *list = longer != NULL ? longer : *list;
    return longer != NULL;
}

static bool add_headers(const bl_ask *ask, const bl_ask_request *request, struct curl_slist **list)
{
    bool sends = request->body.data != NULL || request->bytes > 0;
    return (ask->key == NULL || ask_add_header(list, "Authorization: Bearer ", ask->key)) &&
           (!sends || ask_add_header(list, "Content-Type: ", request->media != NULL ? request->media : "application/json")) &&
           (request->accept == NULL || ask_add_header(list, "Accept: ", request->accept)) &&
           (request->header == NULL || ask_add_header(list, request->header, "")) && ask_add_header(list, "Expect:", "");
}

static void set_body(CURL *curl, const bl_ask_request *request, transfer *t)
{
    if (request->bytes > 0) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->bytes);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, t);
    } else if (request->body.data != NULL || (request->method != NULL && request->method[0] == 'P')) {
        /* a request with a body, or a PUT or POST without one */
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.data != NULL ? request->body.data : "");
    }
    if (request->method != NULL && strcmp(request->method, "HEAD") == 0) {
        curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (request->method != NULL) {
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    }
}

static bl_status set_request(bl_ask *ask, const bl_ask_request *request, struct curl_slist **headers, transfer *t, bl_err *err)
{
    CURL *curl = ask->curl;
    const char *certificates = getenv("SSL_CERT_FILE");
    bl_text address = {0};
    curl_easy_reset(curl); /* the reset keeps the connection */
    bl_text_printf(&address, "%s%s", ask->url, request->path);
    bool whole = !address.failed && curl_easy_setopt(curl, CURLOPT_URL, address.data) == CURLE_OK;
    bl_text_fini(&address);
    if (!whole || !add_headers(ask, request, headers))
        return bl_fail(err, BL_ENOMEM, "out of host memory for a request");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, *headers);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, request->seconds);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, t->problem);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ask_on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    if (request->interrupts > 0) {
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, ask_on_progress);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
    }
    if (certificates != NULL)
        curl_easy_setopt(curl, CURLOPT_CAINFO, certificates);
    set_body(curl, request, t);
    return BL_OK;
}

/* ---- an answer */

const char *bl_ask_header(const bl_ask *ask, const char *name)
{
    struct curl_header *header = NULL;
    return curl_easy_header(ask->curl, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : NULL;
}

const cJSON *bl_answer_at(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const cJSON *bl_answer_first(const cJSON *list)
{
    return list != NULL ? list->child : NULL;
}

const char *bl_answer_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(bl_answer_at(object, name));
    return text != NULL ? text : "";
}

double bl_answer_number(const cJSON *object, const char *name, double usual)
{
    const cJSON *item = bl_answer_at(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : usual;
}

bl_status bl_ask_document(const bl_ask *ask, cJSON **out, bl_err *err)
{
    *out = cJSON_ParseWithLength(bl_text_get(&ask->body), ask->body.len);
    return *out != NULL ? BL_OK : bl_fail(err, BL_EINVAL, "the server's answer is not JSON: %.100s", bl_text_get(&ask->body));
}

/* Fail with the text of a problem document, of {"error": "text"} or of OpenAI's {"error": {"message"}}. */
static bl_status explain_refusal(const bl_ask *ask, bl_err *err)
{
    cJSON *body = cJSON_ParseWithLength(bl_text_get(&ask->body), ask->body.len);
    const char *title = bl_answer_text(body, "title"), *detail = bl_answer_text(body, "detail");
    const char *node = bl_answer_text(body, "node");
    double step = bl_answer_number(body, "step", -1);
    bl_text text = {0};
    if (*detail == '\0')
        detail = bl_answer_text(body, "error");
    if (*detail == '\0')
        detail = bl_answer_text(bl_answer_at(body, "error"), "message");
    if (body == NULL)
        detail = bl_text_get(&ask->body);
    bl_text_printf(&text, "the server answers with status %ld", ask->status);
    if (*title != '\0')
        bl_text_printf(&text, ", %.60s", title);
    if (*detail != '\0')
        bl_text_printf(&text, ": %.400s", detail);
    if (step >= 0)
        bl_text_printf(&text, " (after %.0f steps)", step);
    bl_status st = bl_fail(err, ask->status == 404 ? BL_ENOTFOUND : BL_EINVAL, "%s", bl_text_get(&text));
    if (*node != '\0')
        bl_err_blame(err, node);
    bl_text_fini(&text);
    cJSON_Delete(body);
    return st;
}

static bl_status explain_silence(const transfer *t, CURLcode code, bl_err *err)
{
    const char *words = t->problem[0] != '\0' ? t->problem : curl_easy_strerror(code);
    return bl_fail(err, BL_EBUSY, "no answer from %.200s: %.200s; set --url or $BEAMLINE_URL to the address of a server",
                   t->ask->url, words);
}

bl_status bl_ask_send(bl_ask *ask, const bl_ask_request *request, bl_err *err)
{
    struct curl_slist *headers = NULL;
    transfer t = {.ask = ask, .request = request};
    bl_text_clear(&ask->body);
    ask->status = 0;
    ask->stopped = ask->silent = false;
    bl_status st = set_request(ask, request, &headers, &t, err);
    if (st == BL_OK) {
        CURLcode code = curl_easy_perform(ask->curl);
        curl_easy_getinfo(ask->curl, CURLINFO_RESPONSE_CODE, &ask->status);
        /* a server that refuses a body may close the connection before it has read the body, so the answer counts in spite
         * of the failure */
        ask->silent = !ask->stopped && (ask->status == 0 || (code != CURLE_OK && ask->status / 100 == 2));
        if (ask->silent)
            st = explain_silence(&t, code, err);
        else if (!ask->stopped && ask->status / 100 != 2)
            st = explain_refusal(ask, err);
    }
    curl_slist_free_all(headers);
    return st;
}
