/* SPDX-License-Identifier: MIT */
#include "server/http/poller.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "server/ops/server.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    CLOSELY = 3,   /* multiple of --spin: requests that arrive within this time follow closely, wake-up included */
    MOST_VAIN = 6, /* limit of unsuccessful spins in a row: from then on one of 2^6 waits begins with a spin */
    DRAWN = 32     /* random numbers fetched at a time: getrandom delivers 256 bytes without interruption */
};

typedef struct given {
    int fd;
    socklen_t size;
    struct sockaddr_storage address;
} given;

struct bl_poller {
    bl_server *server;
    bl_pollers *all;
    struct MHD_Daemon *daemon;
    int epoll;                    /* descriptor of the daemon: readable when the daemon has work */
    int wake;                     /* an eventfd */
    given *given;                 /* a ring of connections that wait to be added, with room for the limit of open connections */
    atomic_ullong ngiven, nbegun; /* totals */
    atomic_llong connections;     /* connections that were given and have not ended */
    atomic_uint resuming;         /* number of threads inside bl_poller_resume */
    atomic_bool called, sleeps;   /* called: the daemon must run; sleeps: a caller must write |wake| */
    atomic_bool stop;
    atomic_llong woken_ns; /* time at which the poller's thread last woke */
    bool started;
    /* members of the poller's thread */
    bool closely;        /* requests follow one another closely */
    unsigned vain, rest; /* vain: unsuccessful spins in a row; rest: number of next waits that begin without a spin */
    uint64_t over;       /* connections that ended */
    uint64_t random[DRAWN];
    unsigned drawn; /* random numbers left */
    pthread_t thread;
};

struct bl_pollers {
    bl_poller *pollers;
    unsigned n;
    unsigned next;          /* round-robin position, used by the giving thread */
    unsigned most_open;     /* limit of open connections */
    unsigned most_spinning; /* limit of pollers that spin at a time: half of the cores */
};

bl_server *bl_poller_server(const bl_poller *poller)
{
    return poller->server;
}

uint64_t bl_poller_draw(bl_poller *poller)
{
    if (poller->drawn == 0 && getrandom(poller->random, sizeof poller->random, 0) == (ssize_t)sizeof poller->random)
        poller->drawn = DRAWN;
    return poller->drawn > 0 ? poller->random[--poller->drawn] : (uint64_t)bl_clock_ns();
}

/* ---- from other threads */

/* |called| and |sleeps| are sequentially consistent.  So either the poller reads |called| before it sleeps, or this thread
 * reads that the poller sleeps and wakes it. */
void bl_poller_call(bl_poller *poller)
{
    uint64_t one = 1;
    atomic_store(&poller->called, true);
    if (atomic_load(&poller->sleeps) && write(poller->wake, &one, sizeof one) < 0)
        bl_log(BL_LOG_DEBUG, "eventfd: %s", strerror(errno)); /* cannot fail: the count never reaches 2^64 */
}

/* The daemon (0.9.75) reads its list of resumed connections before it empties the pipe that signals them.  The daemon finds a
 * connection that is resumed in between only in its next run, so this function makes the daemon run again.  After
 * MHD_resume_connection the connection may already be answered and closed; |resuming| keeps the poller alive until this call
 * returns. */
void bl_poller_resume(bl_poller *poller, struct MHD_Connection *connection)
{
    atomic_fetch_add(&poller->resuming, 1);
    MHD_resume_connection(connection);
    bl_poller_call(poller);
    atomic_fetch_sub(&poller->resuming, 1);
}

void bl_poller_ended(bl_poller *poller)
{
    poller->over++;
    atomic_fetch_sub(&poller->connections, 1);
    bl_listener_ended(poller->server->http.listener);
}

long long bl_pollers_open(const bl_pollers *pollers)
{
    long long open = 0;
    for (unsigned i = 0; i < pollers->n; i++)
        open += atomic_load(&pollers->pollers[i].connections);
    return open;
}

/* Choose the poller with the fewest connections, in turn among equals. */
static bl_poller *poller_choose(bl_pollers *pollers)
{
    bl_poller *best = NULL;
    pollers->next++;
    for (unsigned i = 0; i < pollers->n; i++) {
        bl_poller *poller = &pollers->pollers[(pollers->next + i) % pollers->n];
        if (best == NULL || atomic_load(&poller->connections) < atomic_load(&best->connections))
            best = poller;
    }
    return best;
}

void bl_pollers_give(bl_pollers *pollers, int fd, const struct sockaddr_storage *address, socklen_t size)
{
    bl_poller *poller = poller_choose(pollers);
    unsigned long long at = atomic_load(&poller->ngiven);
    atomic_fetch_add(&poller->connections, 1);
    poller->given[at % pollers->most_open] = (given){fd, size, *address};
    atomic_store(&poller->ngiven, at + 1);
    bl_poller_call(poller);
}

/* ---- the thread */

/* Take the connection that was given first.  False if there is none. */
static bool take_given(bl_poller *poller, given *out)
{
    unsigned long long at = atomic_load(&poller->nbegun);
    if (at == atomic_load(&poller->ngiven))
        return false;
    *out = poller->given[at % poller->all->most_open];
    atomic_store(&poller->nbegun, at + 1);
    return true;
}

/* Connections must be added on the thread of their daemon; on another thread libmicrohttpd corrupts its lists. */
static void begin_given(bl_poller *poller)
{
    given one;
    while (take_given(poller, &one)) {
        uint64_t over = poller->over;
        if (MHD_add_connection(poller->daemon, one.fd, (const struct sockaddr *)&one.address, one.size) != MHD_YES &&
            poller->over == over) /* libmicrohttpd closed the connection before the start callback and omits the end callback */
            bl_poller_ended(poller);
    }
}

static int64_t get_spin(const bl_poller *poller)
{
    return (int64_t)poller->server->settings.spin * 1000;
}

/* Milliseconds until the daemon must close an idle connection, as for poll(2). */
static int get_timeout(const bl_poller *poller)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    if (MHD_get_timeout(poller->daemon, &ms) != MHD_YES)
        return -1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Do requests follow one another closely on this poller, and on no more pollers than may spin at a time? */
static bool is_close(const bl_poller *poller, int64_t now)
{
    const bl_pollers *all = poller->all;
    int64_t since = now - get_spin(poller) * CLOSELY;
    unsigned busy = 0;
    for (unsigned i = 0; poller->closely && i < all->n; i++)
        busy += atomic_load_explicit(&all->pollers[i].woken_ns, memory_order_relaxed) > since;
    return poller->closely && busy <= all->most_spinning;
}

/* Spin until there is work, for at most --spin and only while no accepted request needs the cores. */
static bool poller_spin(bl_poller *poller, int64_t begin)
{
    struct pollfd daemon = {.fd = poller->epoll, .events = POLLIN};
    int64_t end = begin + get_spin(poller);
    while (atomic_load(&poller->server->life.accepted) == 0) {
        if (atomic_load(&poller->called) || poll(&daemon, 1, 0) != 0) {
            poller->vain = 0;
            return true;
        }
        if (bl_clock_ns() >= end) { /* a client slower than --spin usually stays slower, and may itself need the core */
            poller->vain += poller->vain < MOST_VAIN;
            poller->rest = 1U << poller->vain;
            return false;
        }
    }
    return false;
}

static bool may_spin(bl_poller *poller, int64_t now)
{
    bool rests = poller->rest > 0;
    poller->rest -= rests;
    return !rests && is_close(poller, now);
}

static void sleep_until_called(bl_poller *poller, int timeout)
{
    struct pollfd fds[2] = {{.fd = poller->epoll, .events = POLLIN}, {.fd = poller->wake, .events = POLLIN}};
    uint64_t count = 0;
    atomic_store(&poller->sleeps, true);
    if (!atomic_load(&poller->called) && poll(fds, 2, timeout) > 0 && fds[1].revents != 0 &&
        read(poller->wake, &count, sizeof count) < 0)
        bl_log(BL_LOG_DEBUG, "eventfd: %s", strerror(errno));
    atomic_store(&poller->sleeps, false);
}

static void wait_for_work(bl_poller *poller)
{
    int64_t begin = bl_clock_ns(), now = begin;
    int timeout = get_timeout(poller);
    if (timeout == 0)
        return;
    if (!may_spin(poller, begin) || !poller_spin(poller, begin))
        sleep_until_called(poller, timeout);
    now = bl_clock_ns();
    poller->closely = now - begin < get_spin(poller) * CLOSELY;
    atomic_store_explicit(&poller->woken_ns, now, memory_order_relaxed);
}

static void *poller_run_thread(void *arg)
{
    bl_poller *poller = arg;
    while (!atomic_load(&poller->stop)) {
        wait_for_work(poller);
        atomic_store(&poller->called, false); /* cleared before the daemon runs, so that a call during the run is kept */
        begin_given(poller);
        (void)MHD_run(poller->daemon);
    }
    return NULL;
}

/* ---- lifetime */

static bl_status poller_start(bl_poller *poller, bl_err *err)
{
    const union MHD_DaemonInfo *info = NULL;
    poller->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    poller->given = calloc(poller->all->most_open, sizeof *poller->given);
    poller->daemon = bl_http_create_daemon(poller);
    if (poller->daemon != NULL)
        info = MHD_get_daemon_info(poller->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (poller->wake < 0 || poller->given == NULL || info == NULL)
        return bl_fail(err, BL_ENOMEM, "an HTTP daemon cannot be started");
    poller->epoll = info->epoll_fd;
    poller->started = pthread_create(&poller->thread, NULL, poller_run_thread, poller) == 0;
    if (!poller->started)
        return bl_fail(err, BL_ENOMEM, "out of host memory for an HTTP thread");
    (void)pthread_setname_np(poller->thread, "http"); /* shown by top -H */
    return BL_OK;
}

bl_status bl_pollers_create(bl_server *server, unsigned n, bl_pollers **out, bl_err *err)
{
    bl_pollers *pollers = calloc(1, sizeof *pollers);
    *out = pollers;
    if (pollers != NULL)
        pollers->pollers = calloc(n, sizeof *pollers->pollers);
    if (pollers == NULL || pollers->pollers == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for %u HTTP threads", n);
    pollers->most_open = (unsigned)server->settings.connections;
    pollers->most_spinning = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) / 2;
    for (; pollers->n < n; pollers->n++)
        pollers->pollers[pollers->n] = (bl_poller){.server = server, .all = pollers, .wake = -1};
    for (unsigned i = 0; i < n; i++)
        BL_TRY(poller_start(&pollers->pollers[i], err));
    return BL_OK;
}

static void poller_join(bl_poller *poller)
{
    if (!poller->started)
        return;
    atomic_store(&poller->stop, true);
    bl_poller_call(poller);
    pthread_join(poller->thread, NULL);
}

static void poller_stop(bl_poller *poller)
{
    given one;
    poller_join(poller);
    while (atomic_load(&poller->resuming) > 0) /* no thread begins another resume: no request is left */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    while (take_given(poller, &one))
        close(one.fd);
    if (poller->daemon != NULL)
        MHD_stop_daemon(poller->daemon);
    if (poller->wake >= 0)
        close(poller->wake);
    free(poller->given);
}

void bl_pollers_destroy(bl_pollers *pollers)
{
    if (pollers == NULL)
        return;
    for (unsigned i = 0; i < pollers->n; i++)
        poller_stop(&pollers->pollers[i]);
    free(pollers->pollers);
    free(pollers);
}
