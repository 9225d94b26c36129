/* SPDX-License-Identifier: MIT */
#include "server/http/listener.h"

#include "engine/base/log.h"
#include "server/http/poller.h"
#include "server/http/watch.h"
#include "server/ops/server.h"

#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    HANDSHAKE_NS = 2000000, /* time for a client that got SYN-ACK to finish the handshake; a local network takes less */
    RETRY_MS = 100 /* retry interval after a lack of descriptors or memory: the daemon reports the end of a connection just
                    * before the daemon closes it */
};

struct bl_listener {
    bl_server *server;
    int socket;          /* -1: closed */
    int wake;            /* an eventfd */
    atomic_bool waiting; /* the thread waits, and bl_listener_ended writes |wake| */
    atomic_bool stop;
    bool started;
    pthread_t thread;
};

static void listener_nudge(bl_listener *listener)
{
    uint64_t one = 1;
    ssize_t written = write(listener->wake, &one, sizeof one); /* cannot fail: the count never reaches 2^64 */
    (void)written;
}

void bl_listener_ended(bl_listener *listener)
{
    if (atomic_load(&listener->waiting))
        listener_nudge(listener);
}

/* ---- accepting */

static bool listener_is_full(const bl_listener *listener)
{
    return bl_pollers_open(listener->server->http.pollers) >= (long long)listener->server->settings.connections;
}

enum { RESERVED_SHARE = 16 };

/* The number of open connections, minus the closing connections and minus the unreserved places. */
static long long count_over(const bl_listener *listener)
{
    const bl_settings *set = &listener->server->settings;
    uint64_t most = set->connections / RESERVED_SHARE, reserved = set->reserved < most ? set->reserved : most;
    return bl_pollers_open(listener->server->http.pollers) - (long long)bl_watch_closing(listener->server->http.watch) -
           (long long)(set->connections - reserved);
}

bool bl_listener_is_crowded(const bl_listener *listener)
{
    return count_over(listener) > 0;
}

/* Close connections that wait for their client, until at most |most| reserved places are in use. */
static void listener_make_room(const bl_listener *listener, long long most)
{
    while (count_over(listener) > most && bl_watch_evict(listener->server->http.watch))
        ;
}

/* Accept all pending connections for which there is room.  False if descriptors or memory ran out. */
static bool accept_all(bl_listener *listener)
{
    while (!listener_is_full(listener)) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        int fd = accept4(listener->socket, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR)) /* the error concerns one connection, which is already gone */
            continue;
        if (fd < 0)
            return errno == EAGAIN;
        bl_pollers_give(listener->server->http.pollers, fd, &address, size);
        listener_make_room(listener, 0);
    }
    return true;
}

static bool listener_is_wanted(const bl_listener *listener)
{
    struct pollfd waits = {.fd = listener->socket, .events = POLLIN};
    return poll(&waits, 1, 0) > 0;
}

/* Wait until a client connects and there is room for the connection. */
static void wait_for_one(bl_listener *listener, bool room)
{
    struct pollfd fds[2] = {{.fd = listener->wake, .events = POLLIN}, {.events = POLLIN}};
    uint64_t count = 0;
    atomic_store(&listener->waiting, true);
    if (listener_is_full(listener)) { /* checked after |waiting| is set, so that the thread misses no end of a connection */
        room = false;
        if (listener_is_wanted(listener))
            listener_make_room(listener, -1);
    }
    fds[1].fd = room ? listener->socket : -1;
    if (poll(fds, 2, room && !bl_listener_is_crowded(listener) ? -1 : RETRY_MS) > 0 && fds[0].revents != 0 &&
        read(listener->wake, &count, sizeof count) < 0)
        bl_log(BL_LOG_DEBUG, "eventfd: %s", strerror(errno));
    atomic_store(&listener->waiting, false);
    listener_make_room(listener, 0);
}

static void *listener_run_thread(void *arg)
{
    bl_listener *listener = arg;
    bool room = true;
    while (!atomic_load(&listener->stop)) {
        wait_for_one(listener, room);
        room = accept_all(listener);
    }
    return NULL;
}

/* ---- lifetime */

static bl_status open_port(bl_listener *listener, const struct addrinfo *address, uint16_t *port)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    int on = 1;
    listener->socket = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->socket < 0)
        return BL_EINVAL;
    (void)setsockopt(listener->socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart can bind the port at once */
    if (address->ai_family == AF_INET6)
        (void)setsockopt(listener->socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(listener->socket, address->ai_addr, address->ai_addrlen) != 0 || listen(listener->socket, BACKLOG) != 0 ||
        getsockname(listener->socket, (struct sockaddr *)&bound, &size) != 0)
        return BL_EINVAL;
    *port = ntohs(bound.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((const struct sockaddr_in *)&bound)->sin_port);
    return BL_OK;
}

bl_status bl_listener_create(bl_server *server, const struct addrinfo *address, bl_listener **out, uint16_t *port, bl_err *err)
{
    const bl_settings *set = &server->settings;
    bl_listener *listener = calloc(1, sizeof *listener);
    *out = NULL;
    if (listener == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the listener");
    listener->server = server;
    listener->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (open_port(listener, address, port) != BL_OK || listener->wake < 0) {
        (void)bl_fail(err, BL_EINVAL, "cannot listen on %s port %llu: %s", set->host, (unsigned long long)set->port,
                      strerror(errno));
        bl_listener_destroy(listener);
        return err->status;
    }
    *out = listener;
    return BL_OK;
}

bl_status bl_listener_start(bl_listener *listener, bl_err *err)
{
    if (pthread_create(&listener->thread, NULL, listener_run_thread, listener) != 0)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the listener's thread");
    listener->started = true;
    return BL_OK;
}

static void listener_join(bl_listener *listener)
{
    if (!listener->started)
        return;
    atomic_store(&listener->stop, true);
    listener_nudge(listener);
    pthread_join(listener->thread, NULL);
    listener->started = false;
}

/* Drop new SYN segments by a socket filter, so that only handshakes that have begun can finish (socket(7), SO_ATTACH_FILTER;
 * byte 13 of a TCP header holds the flags).  Clients that connect later are refused once the port is closed.  Without the
 * filter, a client that connects between the last accept and the close gets a reset. */
static void refuse_more(const bl_listener *listener)
{
    enum { FLAGS = 13, SYN = 0x02, ACK = 0x10 };
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN | ACK),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),
                                 BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    struct timespec moment = {.tv_nsec = HANDSHAKE_NS};
    if (setsockopt(listener->socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0)
        nanosleep(&moment, NULL);
}

void bl_listener_stop(bl_listener *listener)
{
    listener_join(listener);
    refuse_more(listener);
    (void)accept_all(listener);
    close(listener->socket);
    listener->socket = -1;
}

void bl_listener_destroy(bl_listener *listener)
{
    if (listener == NULL)
        return;
    listener_join(listener);
    if (listener->socket >= 0)
        close(listener->socket);
    if (listener->wake >= 0)
        close(listener->wake);
    free(listener);
}
