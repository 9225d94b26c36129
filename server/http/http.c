/* SPDX-License-Identifier: MIT */
#include "server/http/http.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/access/access.h"
#include "server/data/blobs.h"
#include "server/http/coding.h"
#include "server/http/head.h"
#include "server/http/listener.h"
#include "server/http/offload.h"
#include "server/http/poller.h"
#include "server/http/routes.h"
#include "server/http/stream.h"
#include "server/http/watch.h"
#include "server/ops/server.h"
#include "server/run/upload.h"

#include <limits.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTION_BYTES = 128 * 1024, /* also the limit of a head; bodies arrive in pieces of about this size */
    STREAM_BYTES = 16 * 1024,      /* bytes of a stream that libmicrohttpd reads at a time */
    JOINED_BYTES = 4 * 1024,       /* pieces of an answer up to this size are appended to the first buffer, which saves a system
                                    * call */
    DRAIN_BYTES = 64 * 1024 * 1024 /* the server reads a refused body up to this size to its end: few clients read the answer
                                    * before they have sent the body */
};

/* ---- sending */

static void http_add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value != NULL)
        (void)MHD_add_response_header(response, name, value); /* if memory is short, the answer is sent without the header */
}

/* libmicrohttpd sends headers and one buffer in one system call, but not headers and several buffers. */
static void join_pieces(bl_request *rq)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < rq->reply.npieces; i++)
        bytes += rq->reply.pieces[i].bytes;
    if (rq->reply.npieces == 0 || bytes > JOINED_BYTES)
        return;
    if (bl_text_reserve(&rq->reply.out, bytes) == NULL) {
        rq->reply.out.failed = false; /* rq->reply.out is complete, and the pieces are unchanged */
        return;
    }
    for (unsigned i = 0; i < rq->reply.npieces; i++)
        bl_text_append(&rq->reply.out, rq->reply.pieces[i].data, rq->reply.pieces[i].bytes);
    rq->reply.npieces = 0;
}

static struct MHD_Response *make_response(bl_request *rq)
{
    struct MHD_IoVec *parts = NULL;
    join_pieces(rq);
    if (rq->reply.kind == BL_REPLY_FILE)
        return MHD_create_response_from_fd64(rq->reply.file_bytes, rq->reply.file);
    if (rq->reply.kind == BL_REPLY_STREAM)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BYTES, bl_stream_content, rq->reply.stream, NULL);
    if (rq->reply.npieces == 0)
        return MHD_create_response_from_buffer(
            rq->reply.out.len, rq->reply.out.data != NULL ? rq->reply.out.data : (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    parts = bl_arena_array(rq->arena, rq->reply.npieces + 1, sizeof *parts);
    if (parts == NULL)
        return NULL;
    parts[0] = (struct MHD_IoVec){rq->reply.out.data, rq->reply.out.len};
    for (unsigned i = 0; i < rq->reply.npieces; i++)
        parts[i + 1] = (struct MHD_IoVec){rq->reply.pieces[i].data, rq->reply.pieces[i].bytes};
    return MHD_create_response_from_iovec(parts, rq->reply.npieces + 1, NULL, NULL);
}

/* Send the answer of the request.  MHD_NO closes the connection. */
static enum MHD_Result send_reply(bl_request *rq, bool close)
{
    static const char *const codings[] = {[BL_REPLY_GZIP] = "gzip", [BL_REPLY_DEFLATE] = "deflate"};
    struct MHD_Response *response = NULL;
    enum MHD_Result sent = MHD_NO;
    char length[24];
    if (rq->err.status == BL_OK && (rq->reply.out.failed || rq->reply.status == 0))
        (void)bl_fail(&rq->err, rq->reply.out.failed ? BL_ENOMEM : BL_EBUG,
                      rq->reply.out.failed ? "the answer" : "there is no answer");
    if (rq->err.status != BL_OK)
        bl_request_reply_problem(rq);
    if (rq->head.route != NULL && (rq->head.route->flags & BL_ROUTE_CODES) != 0 && rq->reply.coding == BL_REPLY_UNDECIDED)
        bl_reply_code(rq);
    if (rq->reply.kind == BL_REPLY_STREAM)
        bl_watch_attach(rq->conn.peer, rq); /* from now on the watcher can cancel the stream when the client is gone */
    snprintf(length, sizeof length, "%zu", rq->reply.envelope);
    response = make_response(rq);
    if (response == NULL)
        return MHD_NO;
    http_add_header(response, "content-type", rq->reply.content_type);
    http_add_header(response, "x-request-id", rq->id);
    http_add_header(response, "content-encoding", codings[rq->reply.coding]);
    http_add_header(response, "inference-header-content-length", rq->reply.envelope > 0 ? length : NULL);
    http_add_header(response, "allow", rq->reply.allow);
    http_add_header(response, "location", rq->reply.location);
    for (const bl_header *header = rq->reply.headers; header != NULL && header->name != NULL; header++)
        http_add_header(response, header->name, header->value);
    if (rq->reply.status == 503 || rq->reply.status == 429) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", rq->reply.retry_after > 0 ? rq->reply.retry_after : 1);
        http_add_header(response, "retry-after", seconds);
    }
    http_add_header(response, "www-authenticate", rq->reply.status == 401 ? "Bearer realm=\"beamline\"" : NULL);
    http_add_header(response, "cache-control", rq->reply.stream != NULL ? "no-store" : NULL);
    if (close || atomic_load(&rq->server->life.draining))
        http_add_header(response, "connection", "close");
    sent = MHD_queue_response(rq->conn.mhd, (unsigned)rq->reply.status, response);
    MHD_destroy_response(response);
    bl_request_step(rq, BL_REQUEST_ON_SEND);
    bl_peer_enter(rq->conn.peer, BL_PHASE_SEND);
    rq->reply.sent_ns = bl_clock_ns();
    return sent;
}

/* ---- beginning of a request */

static void choose_id(bl_request *rq, const char *given)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:";
    size_t len = given != NULL ? strlen(given) : 0;
    if (len > 0 && len < sizeof rq->id && strspn(given, letters) == len)
        memcpy(rq->id, given, len + 1);
    else
        snprintf(rq->id, sizeof rq->id, "%016llx", (unsigned long long)bl_poller_draw(rq->conn.poller));
}

/* Count the request before reading |draining|.  The shutdown sets |draining| before it reads the count, so the shutdown waits
 * for every accepted request. */
static bl_status accept_work(bl_request *rq)
{
    bl_server *server = rq->server;
    if ((rq->head.route->flags & BL_ROUTE_OPEN) != 0)
        return BL_OK;
    atomic_fetch_add(&server->life.accepted, 1);
    rq->conn.accepted = !atomic_load(&server->life.draining);
    if (rq->conn.accepted)
        return BL_OK;
    atomic_fetch_sub(&server->life.accepted, 1);
    return bl_fail(&rq->err, BL_EBUSY, "the server is shutting down");
}

/* Take the trace context of the client.  A request with several traceparent headers, or with a tracestate but no traceparent,
 * starts a new trace. */
static void take_trace(bl_request *rq, const bl_head *head)
{
    bl_request_trace *trace = &rq->trace;
    trace->has_parent = head->traces == 1 && bl_trace_parse(head->trace, &trace->parent);
    if (trace->has_parent && head->states == 1 && strlen(head->state) < sizeof trace->state)
        memcpy(trace->state, head->state, strlen(head->state) + 1);
}

/* Check the key before the route.  Without a valid key the answer does not depend on the path, so the answer does not reveal
 * which paths exist. */
static bl_status check_key(bl_request *rq, const bl_head *head)
{
    bl_err denied = {0};
    bl_status known = bl_access_identify(rq, head, &denied), found = bl_route_find(rq);
    if (known != BL_OK && (rq->head.route == NULL || rq->head.route->scope != BL_SCOPE_NONE)) {
        rq->err = denied;
        rq->reply.allow = NULL;
        return known;
    }
    return found == BL_OK ? bl_access_admit(rq) : found;
}

static bl_status http_check_head(bl_request *rq, const bl_head *head, bool *fatal)
{
    bl_coding coding = BL_CODING_NONE;
    BL_TRY(bl_head_check_framing(rq, head, fatal));
    BL_TRY(bl_head_check_site(rq, head));
    BL_TRY(check_key(rq, head));
    BL_TRY(accept_work(rq));
    BL_TRY(bl_head_check_body(rq, head, &coding));
    if (!rq->head.has_body)
        return BL_OK;
    if (rq->head.media == BL_MEDIA_OCTETS && (rq->head.route->flags & BL_ROUTE_UPLOAD) != 0)
        BL_TRY(bl_upload_begin(rq, coding != BL_CODING_NONE));
    if (rq->head.media == BL_MEDIA_OCTETS && (rq->head.route->flags & BL_ROUTE_BLOB) != 0)
        BL_TRY(bl_blobs_begin(rq, coding != BL_CODING_NONE));
    return bl_body_begin(rq, coding);
}

static bl_peer *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* Answer 503 without allocating a request, because there is no memory for a request. */
static enum MHD_Result http_refuse(struct MHD_Connection *connection)
{
    static const char problem[] = "{\"type\":\"urn:beamline:error:enomem\",\"title\":\"out of host memory\",\"status\":503,"
                                  "\"detail\":\"there is no memory for one more request\"}";
    enum MHD_Result sent = MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof problem - 1, (void *)(uintptr_t)problem, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    http_add_header(response, "content-type", "application/problem+json");
    http_add_header(response, "retry-after", "1");
    sent = MHD_queue_response(connection, 503, response);
    MHD_destroy_response(response);
    return sent;
}

static bool is_probe(const bl_request *rq)
{
    return rq->head.route != NULL && (rq->head.route->flags & BL_ROUTE_PROBE) != 0;
}

static enum MHD_Result take_head(bl_poller *poller, struct MHD_Connection *connection, const char *method, void **context)
{
    bl_server *server = bl_poller_server(poller);
    bl_request *rq = bl_request_create(server);
    bl_head head;
    bool fatal = false, taken = false, crowded = false;
    *context = rq;
    if (rq == NULL)
        return http_refuse(connection);
    rq->conn.poller = poller;
    rq->conn.mhd = connection;
    rq->conn.peer = peer_of(connection);
    bl_peer_enter(rq->conn.peer, BL_PHASE_BODY);
    rq->head.uri = rq->conn.peer != NULL ? bl_peer_get_uri(rq->conn.peer) : NULL;
    rq->head.method = method;
    bl_request_step(rq, BL_REQUEST_ON_HEAD);
    bl_head_read(rq, &head);
    choose_id(rq, head.id);
    take_trace(rq, &head);
    if (rq->head.uri == NULL) {
        rq->head.uri = "";
        (void)bl_fail(&rq->err, BL_ENOMEM, "out of host memory for the address");
        return send_reply(rq, true);
    }
    taken = http_check_head(rq, &head, &fatal) == BL_OK;
    if (rq->owner != 0)
        bl_peer_know(rq->conn.peer);
    crowded = rq->owner == 0 && !is_probe(rq) && bl_listener_is_crowded(server->http.listener);
    if (crowded && rq->err.status == BL_OK)
        (void)bl_fail(&rq->err, BL_EBUSY, "the server has as many connections from clients without a key as it allows");
    bl_exporter_begin(server->exporter, &rq->trace, rq->head.route == NULL || (rq->head.route->flags & BL_ROUTE_OPEN) != 0);
    if (taken && !crowded)
        return MHD_YES;
    /* A client that is sending a body reads no answer before it has sent the whole body, and closing the connection would
     * discard the answer.  So the server reads and drops the body.  The server closes the connection instead if the announced
     * body is longer than DRAIN_BYTES or if the client sent Expect. */
    if (fatal || crowded || head.expect != NULL || rq->head.content_length > DRAIN_BYTES)
        return send_reply(rq, true);
    bl_request_step(rq, BL_REQUEST_ON_REFUSE);
    rq->body.droppable = DRAIN_BYTES;
    return MHD_YES;
}

/* Drop bytes of a body after a failure, because no answer can be sent in the middle of a body.  A body over the limit ends the
 * connection. */
static enum MHD_Result drop_bytes(bl_request *rq, size_t *size)
{
    uint64_t bytes = *size, max_body = rq->server->settings.max_body;
    *size = 0;
    if (rq->state != BL_REQUEST_DISCARD) {
        bl_request_step(rq, BL_REQUEST_ON_REFUSE);
        rq->body.droppable = max_body > DRAIN_BYTES ? max_body : DRAIN_BYTES;
    }
    if (bytes > rq->body.droppable)
        return MHD_NO;
    rq->body.droppable -= bytes;
    return MHD_YES;
}

static enum MHD_Result take_body(bl_request *rq, const char *data, size_t *size, const bool *moved)
{
    if (rq->state == BL_REQUEST_BODY && rq->err.status == BL_OK && bl_body_feed(rq, data, size, moved) == BL_OK)
        return MHD_YES;
    return drop_bytes(rq, size);
}

/* Continue a request whose body has ended or whose work is over. */
static enum MHD_Result http_go_on(bl_request *rq, const bool *moved)
{
    bl_peer_enter(rq->conn.peer, BL_PHASE_WORK);
    bl_offload_proceed(rq, moved);
    return *moved ? MHD_YES : send_reply(rq, false);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **context)
{
    bl_request *rq = *context;
    bool moved = false;
    (void)url;
    (void)version;
    if (rq == NULL)
        return take_head(arg, connection, method, context);
    rq->conn.moved = &moved;
    bl_peer_count(rq->conn.peer, *size);
    enum MHD_Result result = *size > 0 ? take_body(rq, data, size, &moved) : http_go_on(rq, &moved);
    if (!moved) /* otherwise another thread owns the request */
        rq->conn.moved = NULL;
    return result;
}

/* ---- other callbacks of the daemon */

/* Store the URI as sent, because on_request gets a decoded URI that ends at the first NUL.  This callback creates no request:
 * libmicrohttpd does not report the end of a request that never reaches on_request. */
static void *on_uri(void *arg, const char *uri, struct MHD_Connection *connection)
{
    bl_peer *peer = peer_of(connection);
    (void)arg;
    if (peer != NULL)
        bl_peer_keep_uri(peer, uri);
    return NULL;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code)
{
    (void)arg;
    (void)code;
    bl_peer_enter(peer_of(connection), BL_PHASE_IDLE);
    if (*context != NULL)
        bl_request_end(*context);
    *context = NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode code)
{
    bl_poller *poller = arg;
    bl_server *server = bl_poller_server(poller);
    const union MHD_ConnectionInfo *info = NULL;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = info != NULL ? bl_watch_open(server->http.watch, info->connect_fd) : NULL;
        bl_metrics_add(&server->metrics, BL_COUNT_CONNECTIONS, 1);
    } else {
        bl_watch_close(*context);
        *context = NULL;
        bl_metrics_add(&server->metrics, BL_COUNT_CONNECTIONS, -1);
        bl_poller_ended(poller);
    }
}

static void on_log(void *arg, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void on_log(void *arg, const char *format, va_list args)
{
    char line[300];
    (void)arg;
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    bl_log(BL_LOG_DEBUG, "http: %s", line);
}

/* ---- start and stop */

/* The listener limits the number of connections and leaves further connections in the kernel's queue.  libmicrohttpd would
 * close connections over its own limit, so that limit is set too high to be reached. */
struct MHD_Daemon *bl_http_create_daemon(bl_poller *poller)
{
    const bl_server *server = bl_poller_server(poller);
    const bl_settings *set = &server->settings;
    uint64_t most = set->connections + 1;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_CERT_CALLBACK, 0, bl_tls_callback()},
                                   {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)bl_tls_priorities()},
                                   {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem *more = server->http.tls.now != NULL ? tls : &tls[2];
    flags |= server->http.tls.now != NULL ? MHD_USE_TLS : 0U;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, poller, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
                            most < UINT_MAX ? (unsigned)most : UINT_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)set->idle,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, poller,
                            MHD_OPTION_URI_LOG_CALLBACK, on_uri, NULL, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

static unsigned count_threads(const bl_settings *set)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return set->threads > 0 ? (unsigned)set->threads : cores > 2 ? (unsigned)cores : 2;
}

bl_status bl_http_start(bl_server *server, bl_err *err)
{
    const bl_settings *set = &server->settings;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    char port[16];
    bl_status st = BL_OK;
    snprintf(port, sizeof port, "%llu", (unsigned long long)set->port);
    if (!set->insecure && !bl_host_is_loopback(set->host, strlen(set->host)) && !bl_access_has_keys(server->access))
        return bl_fail(
            err, BL_EINVAL,
            "--host %s is reachable from other machines and there are no keys: make one with `beamline keys create`, or "
            "add --insecure to let anyone in",
            set->host);
    BL_TRY(bl_tls_load(&server->http.tls, set, err));
    if (server->http.tls.now == NULL && !bl_host_is_loopback(set->host, strlen(set->host)))
        bl_log(BL_LOG_WARN, "keys and data go over the network without encryption; --tls-cert and --tls-key encrypt them");
    if (getaddrinfo(set->host, port, &hints, &found) != 0 || found == NULL)
        return bl_fail(err, BL_EINVAL, "--host %s is not an address", set->host);
    st = bl_listener_create(server, found, &server->http.listener, &server->http.port, err);
    freeaddrinfo(found);
    if (st == BL_OK)
        st = bl_pollers_create(server, count_threads(set), &server->http.pollers, err);
    if (st == BL_OK)
        st = bl_listener_start(server->http.listener, err);
    return st;
}

void bl_http_stop(bl_server *server)
{
    bl_pollers_destroy(server->http.pollers);
    server->http.pollers = NULL;
    bl_listener_destroy(server->http.listener);
    server->http.listener = NULL;
    bl_tls_fini(&server->http.tls);
}
