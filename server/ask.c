/* SPDX-License-Identifier: MIT */
#include "server/ask.h"

#include <curl/curl.h>
#include <stdlib.h>

enum { ANSWER_SECONDS = 30 };

const char *bl_ask_url(const char *given)
{
    const char *url = given != NULL ? given : getenv("BEAMLINE_URL");
    return url != NULL && *url != '\0' ? url : "http://127.0.0.1:8470";
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    bl_text *body = arg;
    bl_text_append(body, data, size * n);
    return body->failed ? 0 : size * n;
}

/* libcurl copies the texts it is given. */
static bl_status add_key(bl_ask *ask, const char *key, bl_err *err)
{
    bl_text header = {0};
    bl_text_printf(&header, "Authorization: Bearer %s", key);
    if (!header.failed)
        ask->headers = curl_slist_append(NULL, header.data);
    bl_text_fini(&header);
    return ask->headers != NULL ? BL_OK : bl_fail(err, BL_ENOMEM, "the key");
}

bl_status bl_ask_open(bl_ask *ask, const char *url, const char *path, bool post, bl_err *err)
{
    const char *key = getenv("BEAMLINE_KEY"), *certificates = getenv("SSL_CERT_FILE");
    bl_text address = {0};
    *ask = (bl_ask){.curl = curl_easy_init()};
    if (ask->curl == NULL)
        return bl_fail(err, BL_ENOMEM, "libcurl");
    bl_text_printf(&address, "%s%s", url, path);
    curl_easy_setopt(ask->curl, CURLOPT_URL, bl_text_get(&address));
    bl_text_fini(&address);
    if (key != NULL && *key != '\0')
        BL_TRY(add_key(ask, key, err));
    curl_easy_setopt(ask->curl, CURLOPT_HTTPHEADER, ask->headers);
    curl_easy_setopt(ask->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(ask->curl, CURLOPT_TIMEOUT, (long)ANSWER_SECONDS);
    curl_easy_setopt(ask->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(ask->curl, CURLOPT_WRITEDATA, &ask->body);
    if (post)
        curl_easy_setopt(ask->curl, CURLOPT_POSTFIELDS, "");
    if (certificates != NULL)
        curl_easy_setopt(ask->curl, CURLOPT_CAINFO, certificates);
    return BL_OK;
}

bl_status bl_ask_send(bl_ask *ask, bl_err *err)
{
    CURLcode code = CURLE_OK;
    long status = 0;
    bl_text_clear(&ask->body);
    code = curl_easy_perform(ask->curl);
    if (code != CURLE_OK)
        return bl_fail(err, BL_EINVAL, "no answer: %s", curl_easy_strerror(code));
    curl_easy_getinfo(ask->curl, CURLINFO_RESPONSE_CODE, &status);
    return status == 200 ? BL_OK : bl_fail(err, BL_EINVAL, "the server says %ld: %.300s", status, bl_text_get(&ask->body));
}

void bl_ask_close(bl_ask *ask)
{
    curl_slist_free_all(ask->headers);
    curl_easy_cleanup(ask->curl);
    bl_text_fini(&ask->body);
    *ask = (bl_ask){0};
}
