/* SPDX-License-Identifier: MIT */
#include "server/http/routes.h"

#include "server/http/handlers.h"

#include <assert.h>
#include <string.h>

static const bl_route routes[] = {
#define BL_ROUTE(method_, pattern_, handler_, takes_, queries_, scope_, flags_, doc_)                                            \
    {.method = method_,                                                                                                          \
     .pattern = pattern_,                                                                                                        \
     .handler = handler_,                                                                                                        \
     .takes = takes_,                                                                                                            \
     .scope = scope_,                                                                                                            \
     .queries = queries_,                                                                                                        \
     .flags = flags_,                                                                                                            \
     .doc = doc_},
#include "server/http/routes.def"
#undef BL_ROUTE
};
enum { ROUTE_COUNT = sizeof routes / sizeof routes[0], MAX_SEGMENTS = 8 };

static const bl_metric_route labels[] = {
    [BL_METRIC_NO_ROUTE] = {"other", "none"},
    [BL_METRIC_OWN_WORK] = {"server", "jobs"},
#define BL_ROUTE(method_, pattern_, handler_, takes_, queries_, scope_, flags_, doc_) {method_, pattern_},
#include "server/http/routes.def"
#undef BL_ROUTE
};
static_assert(sizeof labels / sizeof labels[0] <= BL_METRIC_ROUTES, "as many series as there are routes");

int bl_route_index(const bl_route *route)
{
    return route != NULL ? BL_METRIC_FIRST_ROUTE + (int)(route - routes) : BL_METRIC_NO_ROUTE;
}

const bl_metric_route *bl_route_labels(int *count)
{
    *count = (int)(sizeof labels / sizeof labels[0]);
    return labels;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Percent-decode |len| bytes into the arena.  |plus|: + is a space, as in a query. */
static bl_status routes_decode(bl_request *rq, const char *text, size_t len, bool plus, const char **out)
{
    char *to = bl_arena_alloc(rq->arena, len + 1);
    size_t n = 0;
    if (to == NULL)
        return bl_arena_status(rq->arena, &rq->err);
    for (size_t i = 0; i < len; i++) {
        int value = (unsigned char)text[i];
        if (text[i] == '%') {
            int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return bl_fail(&rq->err, BL_EINVAL, "the address has a %% without two hexadecimal digits");
            value = 16 * high + low;
            i += 2;
        } else if (plus && text[i] == '+') {
            value = ' ';
        }
        if (value < 0x20 || value == 0x7f)
            return bl_fail(&rq->err, BL_EINVAL, "the address has a control character");
        to[n++] = (char)value;
    }
    to[n] = '\0';
    *out = to;
    return BL_OK;
}

/* Is |name| one of the comma-separated |list|? */
static bool routes_in_list(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; *at != '\0';) {
        size_t n = strcspn(at, ",");
        if (n == len && memcmp(at, name, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static bl_status parse_query(bl_request *rq, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "&"), split = 0;
        const char *name = NULL, *value = "";
        while (split < len && text[split] != '=')
            split++;
        BL_TRY(routes_decode(rq, text, split, true, &name));
        if (split < len)
            BL_TRY(routes_decode(rq, text + split + 1, len - split - 1, true, &value));
        if (!routes_in_list(rq->head.route->queries, name) || *name == '\0')
            return bl_fail(&rq->err, BL_EINVAL, "unknown query parameter \"%.64s\"", name);
        if (bl_request_query(rq, name) != NULL || rq->head.nquery == BL_MAX_QUERIES)
            return bl_fail(&rq->err, BL_EINVAL, "query parameter \"%s\" is given twice", name);
        rq->head.query[rq->head.nquery++] = (bl_query){name, value};
        text += len + (text[len] == '&');
    }
    return BL_OK;
}

/* Does |pattern| match the decoded segments?  Fills |param|. */
static bool routes_match(const char *pattern, int count, const char *const *segment, const char **param)
{
    int nparams = 0, i = 0;
    for (; i < count && *pattern == '/'; i++) {
        size_t len = strcspn(++pattern, "/");
        if (*pattern == '{') {
            if (*segment[i] == '\0' || nparams == BL_MAX_PARAMS)
                return false;
            param[nparams++] = segment[i];
        } else if (strlen(segment[i]) != len || memcmp(pattern, segment[i], len) != 0) {
            return false;
        }
        pattern += len;
    }
    return i == count && *pattern == '\0';
}

static bl_status nothing_there(bl_request *rq, size_t len)
{
    return bl_fail(&rq->err, BL_ENOTFOUND, "there is nothing at \"%.*s\"; GET /openapi.json lists the addresses",
                   (int)(len < 160 ? len : 160), rq->head.uri);
}

static bl_status routes_split_path(bl_request *rq, size_t len, const char **segment, int *count)
{
    const char *at = rq->head.uri, *end = rq->head.uri + len;
    *count = 0;
    while (at < end) {
        size_t n = strcspn(++at, "/?");
        if (*count == MAX_SEGMENTS)
            return nothing_there(rq, len);
        BL_TRY(routes_decode(rq, at, n, false, &segment[(*count)++]));
        at += n;
    }
    return BL_OK;
}

/* Does a pattern without parameters match the segments?  Then patterns with parameters do not apply (OpenAPI, "Path Templating
 * Matching"): /api/v1/tensors/delete is not a tensor. */
static bool is_concrete(int count, const char *const *segment)
{
    const char *none[BL_MAX_PARAMS];
    for (size_t i = 0; i < ROUTE_COUNT; i++)
        if (strchr(routes[i].pattern, '{') == NULL && routes_match(routes[i].pattern, count, segment, none))
            return true;
    return false;
}

bl_status bl_route_find(bl_request *rq)
{
    bool concrete = false;
    const char *segment[MAX_SEGMENTS], *allow = NULL;
    const char *method = strcmp(rq->head.method, "HEAD") == 0 ? "GET" : rq->head.method;
    size_t len = strcspn(rq->head.uri, "?");
    int count = 0;
    if (rq->head.uri[0] != '/')
        return bl_fail(&rq->err, BL_EINVAL, "the address is not a path");
    BL_TRY(routes_split_path(rq, len, segment, &count));
    concrete = is_concrete(count, segment);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if ((concrete && strchr(routes[i].pattern, '{') != NULL) ||
            !routes_match(routes[i].pattern, count, segment, rq->head.param))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            rq->head.route = &routes[i];
            return rq->head.uri[len] == '?' ? parse_query(rq, rq->head.uri + len + 1) : BL_OK;
        }
        allow = bl_arena_printf(rq->arena, "%s%s%s%s", allow ? allow : "", allow ? ", " : "", routes[i].method,
                                strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "");
    }
    if (allow == NULL)
        return nothing_there(rq, len);
    rq->reply.allow = allow;
    return bl_fail(&rq->err, BL_EMETHOD, "this address allows only %s", allow);
}
