/* SPDX-License-Identifier: MIT */
#include "server/http/head.h"

#include "server/http/routes.h"
#include "server/ops/server.h"

#include <ctype.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void head_note(const char **value, int *count, const char *text)
{
    if ((*count)++ == 0)
        *value = text;
}

static enum MHD_Result head_on_header(void *arg, enum MHD_ValueKind kind, const char *key, size_t key_size, const char *value,
                                      size_t value_size)
{
    void **args = arg;
    bl_head *head = args[0];
    bl_request *rq = args[1];
    int once = 0;
    (void)kind;
    if (value == NULL)
        value = "";
    /* The name of "Content-Length : 5" ends in a space.  Some parsers would read a length from this header and others would
     * ignore the header, which allows request smuggling. */
    if (memchr(value, '\0', value_size) != NULL || strlen(key) != key_size || strpbrk(key, " \t") != NULL)
        head->dirty = true;
    switch (tolower((unsigned char)key[0])) {
    case 'h':
        if (strcasecmp(key, "host") == 0)
            head_note(&head->host, &head->hosts, value);
        break;
    case 'c':
        if (strcasecmp(key, "content-length") == 0)
            head_note(&head->length, &head->lengths, value);
        else if (strcasecmp(key, "content-type") == 0)
            head_note(&head->type, &head->types, value);
        else if (strcasecmp(key, "content-encoding") == 0)
            head_note(&head->coding, &head->codings, value);
        else if (strcasecmp(key, "content-range") == 0)
            rq->head.content_range = value;
        break;
    case 't':
        if (strcasecmp(key, "transfer-encoding") == 0)
            head_note(&head->transfer, &head->transfers, value);
        else if (strcasecmp(key, "traceparent") == 0)
            head_note(&head->trace, &head->traces, value);
        else if (strcasecmp(key, "tracestate") == 0)
            head_note(&head->state, &head->states, value);
        break;
    case 'o':
        if (strcasecmp(key, "origin") == 0)
            head_note(&head->origin, &head->origins, value);
        break;
    case 'e':
        if (strcasecmp(key, "expect") == 0)
            head->expect = value;
        break;
    case 'x':
        if (strcasecmp(key, "x-request-id") == 0)
            head_note(&head->id, &once, value);
        else if (strcasecmp(key, "x-api-key") == 0)
            head_note(&head->key, &head->keys, value);
        break;
    case 'a':
        if (strcasecmp(key, "accept") == 0)
            rq->head.accept = value;
        else if (strcasecmp(key, "authorization") == 0)
            head_note(&head->authorization, &head->authorizations, value);
        else if (strcasecmp(key, "accept-encoding") == 0)
            rq->head.accept_coding = value;
        break;
    case 'i':
        if (strcasecmp(key, "if-none-match") == 0)
            rq->head.if_none_match = value;
        else if (strcasecmp(key, "inference-header-content-length") == 0)
            head_note(&rq->head.infer_header, &rq->head.infer_headers, value);
        break;
    default:
        break;
    }
    return MHD_YES;
}

void bl_head_read(bl_request *rq, bl_head *head)
{
    void *args[2] = {head, rq};
    *head = (bl_head){0};
    MHD_get_connection_values_n(rq->conn.mhd, MHD_HEADER_KIND, head_on_header, args);
}

/* Read a Content-Length.  libmicrohttpd has checked that the text has only digits. */
static uint64_t head_read_length(const char *text)
{
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return UINT64_MAX;
    return value;
}

bl_status bl_head_check_framing(bl_request *rq, const bl_head *head, bool *fatal)
{
    *fatal = true;
    if (head->dirty)
        return bl_fail(&rq->err, BL_EINVAL, "a header has a NUL or a space where HTTP allows none");
    if (head->lengths > 1)
        return bl_fail(&rq->err, BL_EINVAL, "the header Content-Length is given twice");
    if (head->lengths > 0 && head->transfers > 0)
        return bl_fail(&rq->err, BL_EINVAL, "Content-Length and Transfer-Encoding are both given; they exclude each other");
    if (head->transfers > 1)
        return bl_fail(&rq->err, BL_EINVAL, "the header Transfer-Encoding is given twice");
    if (head->transfers == 1 && strcasecmp(head->transfer, "chunked") != 0)
        return bl_fail(&rq->err, BL_ECODING, "the only supported Transfer-Encoding is chunked");
    if (head->hosts != 1)
        return bl_fail(&rq->err, BL_EINVAL, head->hosts == 0 ? "the header Host is missing" : "the header Host is given twice");
    if (head->types > 1 || head->codings > 1 || head->origins > 1)
        return bl_fail(&rq->err, BL_EINVAL, "a header that may be given once is given twice");
    *fatal = false;
    rq->head.content_length = head->lengths > 0 ? head_read_length(head->length) : 0;
    rq->head.has_body = rq->head.content_length > 0 || head->transfers > 0;
    return BL_OK;
}

bool bl_host_is_loopback(const char *host, size_t len)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "::1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && strncasecmp(host, names[i], len) == 0)
            return true;
    return len > 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= len;
}

static bool host_in_list(const char *list, const char *host, size_t len)
{
    for (const char *at = list; *at != '\0';) {
        size_t n = strcspn(at, ",");
        while (n > 0 && *at == ' ') {
            at++;
            n--;
        }
        if (n == len && strncasecmp(at, host, len) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* The length of a Host value without the port. */
static size_t host_length(const char *host)
{
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    return bracket != NULL ? (size_t)(bracket - host) + 1 : strcspn(host, ":");
}

/* Refuse requests from web pages in a browser on this machine, even if the host name of the page resolves to this machine (DNS
 * rebinding). */
bl_status bl_head_check_site(bl_request *rq, const bl_head *head)
{
    const bl_settings *settings = &rq->server->settings;
    size_t len = host_length(head->host);
    const char *port = head->host + len;
    bool port_ok = *port == '\0' || (*port == ':' && strspn(port + 1, "0123456789") == strlen(port + 1));
    if (len == 0 || !port_ok ||
        (!bl_host_is_loopback(head->host, len) && !host_in_list(settings->host, head->host, len) &&
         !host_in_list(settings->allow_host, head->host, len)))
        return bl_fail(&rq->err, BL_EHOST, "the Host \"%.100s\" is not a name of this server; --allow-host adds names",
                       head->host);
    if (head->origin != NULL) {
        const char *at = head->origin;
        at += strncasecmp(at, "http://", 7) == 0 ? 7 : strncasecmp(at, "https://", 8) == 0 ? 8 : 0;
        if (at == head->origin || strcasecmp(at, head->host) != 0)
            return bl_fail(&rq->err, BL_EFORBIDDEN, "pages of another origin, \"%.100s\", may not use this server", head->origin);
    }
    return BL_OK;
}

enum { MEDIA = 6 };

static const struct {
    const char *name;
    bl_media media;
} media_names[MEDIA] = {{"application/json", BL_MEDIA_JSON},
                        {"application/x-safetensors", BL_MEDIA_SAFETENSORS},
                        {"application/octet-stream", BL_MEDIA_OCTETS},
                        {"application/x-onnx", BL_MEDIA_ONNX},
                        {"image/jpeg", BL_MEDIA_PICTURE},
                        {"image/png", BL_MEDIA_PICTURE}};

static bl_media media_of(const char *type)
{
    size_t len = strcspn(type, "; \t");
    for (size_t i = 0; i < MEDIA; i++)
        if (strlen(media_names[i].name) == len && strncasecmp(type, media_names[i].name, len) == 0)
            return media_names[i].media;
    return BL_MEDIA_NONE;
}

static bl_status refuse_media(bl_request *rq, const char *type)
{
    char list[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < MEDIA; i++)
        if ((rq->head.route->takes & media_names[i].media) != 0)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? " or " : "", media_names[i].name);
    if (type == NULL)
        return bl_fail(&rq->err, BL_EMEDIA, "the content type must be %s, but the request has none", list);
    return bl_fail(&rq->err, BL_EMEDIA, "the content type must be %s, not \"%.60s\"", list, type);
}

static bl_status take_coding(bl_request *rq, const char *coding, bl_coding *out)
{
    *out = BL_CODING_NONE;
    if (coding == NULL || strcasecmp(coding, "identity") == 0)
        return BL_OK;
    if (strcasecmp(coding, "gzip") == 0 || strcasecmp(coding, "x-gzip") == 0)
        *out = BL_CODING_GZIP;
    else if (strcasecmp(coding, "deflate") == 0)
        *out = BL_CODING_DEFLATE;
    else
        return bl_fail(&rq->err, BL_EMEDIA, "content-encoding must be gzip or deflate, not \"%.60s\"", coding);
    return BL_OK;
}

bl_status bl_head_check_body(bl_request *rq, const bl_head *head, bl_coding *coding)
{
    uint64_t limit = rq->server->settings.max_body;
    *coding = BL_CODING_NONE;
    if (!rq->head.has_body)
        return BL_OK;
    if (rq->head.content_length > limit)
        return bl_fail(&rq->err, BL_ETOOBIG, "the body has more than %llu bytes", (unsigned long long)limit);
    if (rq->head.route->takes == 0)
        return bl_fail(&rq->err, BL_EMEDIA, "this request takes no body");
    rq->head.media = head->type != NULL ? media_of(head->type) : BL_MEDIA_NONE;
    if ((rq->head.route->flags & BL_ROUTE_ANYTYPE) == 0 && (rq->head.media & rq->head.route->takes) == 0)
        return refuse_media(rq, head->type);
    return take_coding(rq, head->coding, coding);
}
