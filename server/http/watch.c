/* SPDX-License-Identifier: MIT */
#include "server/http/watch.h"

#include "engine/base/clock.h"
#include "server/access/access.h"
#include "server/ops/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POLL_MS = 20, MAX_EVENTS = 64, KEEP_URI = 1024, REPEAT_MS = 500 };

/* The slot of an open connection.  A slot lives as long as the watcher, so that a late epoll event finds its slot.  The
 * |serial| of the slot then differs from the serial in the event. */
struct bl_peer {
    bl_watch *watch;
    pthread_mutex_t lock;
    uint32_t serial; /* number of connections that had this slot */
    int fd;          /* -1: free */
    bool gone;       /* the client closed its side */
    bool listed;     /* in the watcher's list |gone| */
    bool shut;       /* shut_peer was called, and the connection has not ended yet */
    bl_progress progress;
    bl_request *rq; /* the attached request (bl_watch_attach), or NULL */
    uint32_t next_free;
    char *uri; /* owned by the HTTP thread of the connection */
    size_t uri_cap;
};

/* A connection whose client has gone.  libmicrohttpd may still consider the connection open. */
typedef struct gone_peer {
    uint64_t packed;
    int64_t shutdown_ns; /* when shutdown was last called */
} gone_peer;

struct bl_watch {
    bl_server *server;
    int epoll;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint closing;  /* number of peers that are shut */
    pthread_mutex_t lock; /* guards the free list; taken before a peer's lock */
    uint32_t free_head, count;
    bl_peer *peers;
    gone_peer *gone; /* used by the watcher's thread only */
    uint32_t ngone;
};

/* Slot and serial of a peer in one number, for epoll. */
static uint64_t pack(const bl_peer *peer)
{
    return (uint64_t)peer->serial << 32 | (uint64_t)(peer - peer->watch->peers);
}

/* Finish |rq| after its removal from its queue.  The caller must hold no lock. */
static void watch_give_up(bl_request *rq, const char *why)
{
    (void)bl_fail(&rq->err, BL_ECANCELLED, "%s", why);
    bl_request_finish(rq);
}

/* Under the peer's lock: cancel the request of the peer.  The lock is needed because the slot may belong to another connection
 * after the unlock.  Returns the request that the caller must pass to watch_give_up after the unlock, or NULL. */
static bl_request *cancel_locked(bl_peer *peer)
{
    bl_request *rq = peer->rq;
    if (rq == NULL)
        return NULL;
    bl_metrics_add(&peer->watch->server->metrics, BL_COUNT_CANCELLED, 1);
    return bl_request_withdraw(rq) ? rq : NULL;
}

/* libmicrohttpd 0.9.75 misses an end of the connection that arrives together with data, and would keep the connection until its
 * timeout.  A shutdown of the finished side makes epoll report the end again.  The watcher repeats the call, because the new
 * report may also coincide with another event.  False once the connection has ended. */
static bool watch_repeat_shutdown(bl_watch *watch, gone_peer *gone, int64_t now)
{
    bl_peer *peer = &watch->peers[(uint32_t)gone->packed];
    bool open = false;
    pthread_mutex_lock(&peer->lock);
    open = peer->fd >= 0 && pack(peer) == gone->packed;
    if (open && peer->rq == NULL && bl_clock_ms(gone->shutdown_ns, now) >= REPEAT_MS) {
        (void)shutdown(peer->fd, SHUT_RD);
        gone->shutdown_ns = now;
    }
    pthread_mutex_unlock(&peer->lock);
    return open;
}

static void watch_repeat_shutdowns(bl_watch *watch, int64_t now)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < watch->ngone; i++)
        if (watch_repeat_shutdown(watch, &watch->gone[i], now))
            watch->gone[left++] = watch->gone[i];
    watch->ngone = left;
}

/* Under the peer's lock: shut the connection down.  epoll reports the shutdown to libmicrohttpd, and libmicrohttpd ends the
 * connection. */
static void shut_peer(bl_peer *peer)
{
    peer->shut = true;
    atomic_fetch_add(&peer->watch->closing, 1);
    (void)shutdown(peer->fd, SHUT_RDWR);
}

void bl_watch_close_late(bl_watch *watch)
{
    const bl_settings *set = &watch->server->settings;
    int64_t now = bl_clock_ns();
    for (uint32_t i = 0; i < watch->count; i++) {
        bl_peer *peer = &watch->peers[i];
        bool late = false;
        pthread_mutex_lock(&peer->lock);
        late = peer->fd >= 0 && !peer->shut && bl_progress_is_late(&peer->progress, peer->fd, peer->rq != NULL, set, now);
        if (late)
            shut_peer(peer);
        pthread_mutex_unlock(&peer->lock);
        if (late)
            bl_metrics_add(&watch->server->metrics, BL_COUNT_TOO_SLOW, 1);
    }
}

static void watch_on_event(bl_watch *watch, const struct epoll_event *event)
{
    bl_peer *peer = &watch->peers[(uint32_t)event->data.u64];
    bl_request *taken = NULL;
    bool mine = false, fresh = false;
    bool certain = (event->events & (EPOLLHUP | EPOLLERR)) != 0;
    if (watch->ngone == watch->count) /* the list contains ended connections: after their removal the list has room, because at
                                       * most |count| connections are open */
        watch_repeat_shutdowns(watch, bl_clock_ns());
    pthread_mutex_lock(&peer->lock);
    mine = peer->fd >= 0 && pack(peer) == event->data.u64;
    if (mine && (certain || watch->server->settings.half_close)) {
        peer->gone = true;
        taken = cancel_locked(peer);
    }
    fresh = mine && !peer->listed && watch->ngone < watch->count;
    peer->listed = peer->listed || fresh;
    pthread_mutex_unlock(&peer->lock);
    if (fresh)
        watch->gone[watch->ngone++] = (gone_peer){event->data.u64, bl_clock_ns()};
    if (taken != NULL)
        watch_give_up(taken, "the client went away");
}

static void *watch_run_thread(void *arg)
{
    bl_watch *watch = arg;
    struct epoll_event events[MAX_EVENTS];
    while (!atomic_load(&watch->stop)) {
        int n = epoll_wait(watch->epoll, events, MAX_EVENTS, POLL_MS);
        for (int i = 0; i < n; i++)
            watch_on_event(watch, &events[i]);
        if (watch->ngone > 0)
            watch_repeat_shutdowns(watch, bl_clock_ns());
    }
    return NULL;
}

bl_status bl_watch_create(bl_server *server, bl_watch **out, bl_err *err)
{
    bl_watch *watch = calloc(1, sizeof *watch);
    *out = NULL;
    if (watch == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the watcher of streams");
    watch->server = server;
    watch->count = (uint32_t)server->settings.connections + 64; /* a closed connection keeps its slot for a moment */
    watch->peers = calloc(watch->count, sizeof *watch->peers);
    watch->gone = calloc(watch->count, sizeof *watch->gone);
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    pthread_mutex_init(&watch->lock, NULL);
    for (uint32_t i = 0; watch->peers != NULL && i < watch->count; i++) {
        watch->peers[i] = (bl_peer){.watch = watch, .fd = -1, .next_free = i + 1};
        pthread_mutex_init(&watch->peers[i].lock, NULL);
    }
    if (watch->peers == NULL || watch->gone == NULL || watch->epoll < 0 ||
        pthread_create(&watch->thread, NULL, watch_run_thread, watch) != 0) {
        if (watch->epoll >= 0)
            close(watch->epoll);
        free(watch->peers);
        free(watch->gone);
        free(watch);
        return bl_fail(err, BL_ENOMEM, "out of host memory for the watcher's thread");
    }
    *out = watch;
    return BL_OK;
}

void bl_watch_destroy(bl_watch *watch)
{
    if (watch == NULL)
        return;
    atomic_store(&watch->stop, true);
    pthread_join(watch->thread, NULL);
    close(watch->epoll);
    for (uint32_t i = 0; i < watch->count; i++) {
        pthread_mutex_destroy(&watch->peers[i].lock);
        free(watch->peers[i].uri);
    }
    pthread_mutex_destroy(&watch->lock);
    free(watch->peers);
    free(watch->gone);
    free(watch);
}

bl_peer *bl_watch_open(bl_watch *watch, int fd)
{
    bl_peer *peer = NULL;
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET};
    pthread_mutex_lock(&watch->lock);
    if (watch->free_head < watch->count) {
        peer = &watch->peers[watch->free_head];
        watch->free_head = peer->next_free;
    }
    pthread_mutex_unlock(&watch->lock);
    if (peer == NULL)
        return NULL;
    pthread_mutex_lock(&peer->lock);
    peer->serial++;
    peer->fd = fd;
    peer->gone = peer->listed = peer->shut = false;
    bl_progress_begin(&peer->progress);
    peer->rq = NULL;
    event.data.u64 = pack(peer);
    pthread_mutex_unlock(&peer->lock);
    (void)epoll_ctl(watch->epoll, EPOLL_CTL_ADD, fd, &event); /* a failure only delays the detection of the end */
    return peer;
}

void bl_watch_close(bl_peer *peer)
{
    bl_watch *watch = NULL;
    if (peer == NULL)
        return;
    watch = peer->watch;
    if (peer->uri_cap > KEEP_URI) {
        free(peer->uri);
        peer->uri = NULL;
        peer->uri_cap = 0;
    }
    pthread_mutex_lock(&peer->lock);
    (void)epoll_ctl(watch->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
    atomic_fetch_sub(&watch->closing, peer->shut);
    peer->shut = false;
    peer->fd = -1;
    peer->rq = NULL;
    pthread_mutex_unlock(&peer->lock);
    pthread_mutex_lock(&watch->lock);
    peer->next_free = watch->free_head;
    watch->free_head = (uint32_t)(peer - watch->peers);
    pthread_mutex_unlock(&watch->lock);
}

void bl_peer_enter(bl_peer *peer, bl_phase phase)
{
    if (peer != NULL)
        bl_progress_enter(&peer->progress, phase);
}

void bl_peer_count(bl_peer *peer, size_t bytes)
{
    if (peer != NULL)
        bl_progress_count(&peer->progress, bytes);
}

void bl_peer_know(bl_peer *peer)
{
    if (peer != NULL)
        atomic_store(&peer->progress.known, true);
}

uint32_t bl_watch_closing(const bl_watch *watch)
{
    return atomic_load(&watch->closing);
}

/* Is |a| evicted before |b|?  The lower tenure is evicted first; among equal tenures, the connection whose phase began
 * first. */
static bool goes_first(const bl_peer *a, bl_tenure tenure, const bl_peer *b, bl_tenure other)
{
    return b == NULL || tenure < other ||
           (tenure == other && atomic_load(&a->progress.since_ns) < atomic_load(&b->progress.since_ns));
}

/* Find the connection to evict first; *lowest becomes its tenure.  NULL if no connection can be evicted. */
static bl_peer *find_to_evict(bl_watch *watch, bool keyed, int64_t now, bl_tenure *lowest)
{
    bl_peer *first = NULL;
    *lowest = BL_TENURE_FULL;
    for (uint32_t i = 0; i < watch->count; i++) {
        bl_peer *peer = &watch->peers[i];
        bl_tenure tenure = BL_TENURE_FULL;
        pthread_mutex_lock(&peer->lock);
        if (peer->fd >= 0 && !peer->shut && (peer->rq == NULL || atomic_load(&peer->progress.phase) == BL_PHASE_SEND))
            tenure = bl_progress_get_tenure(&peer->progress, keyed, now);
        pthread_mutex_unlock(&peer->lock);
        if (tenure == BL_TENURE_FULL || !goes_first(peer, tenure, first, *lowest))
            continue;
        first = peer;
        *lowest = tenure;
    }
    return first;
}

bool bl_watch_evict(bl_watch *watch)
{
    enum { TRIES = 8 };
    bool keyed = bl_access_has_keys(watch->server->access), evicted = false;
    for (int i = 0; i < TRIES && !evicted; i++) {
        int64_t now = bl_clock_ns();
        bl_tenure lowest = BL_TENURE_FULL;
        bl_peer *first = find_to_evict(watch, keyed, now, &lowest);
        if (first == NULL)
            return false;
        pthread_mutex_lock(&first->lock); /* the slot may have changed meanwhile: then the search runs again */
        evicted = first->fd >= 0 && !first->shut && bl_progress_get_tenure(&first->progress, keyed, now) == lowest;
        if (evicted)
            shut_peer(first);
        pthread_mutex_unlock(&first->lock);
    }
    bl_metrics_add(&watch->server->metrics, BL_COUNT_EVICTED, evicted);
    return evicted;
}

void bl_peer_keep_uri(bl_peer *peer, const char *uri)
{
    if (atomic_load(&peer->progress.phase) == BL_PHASE_IDLE)
        bl_progress_enter(&peer->progress, BL_PHASE_HEAD);
    size_t size = strlen(uri) + 1;
    if (size > peer->uri_cap) {
        size_t cap = size < KEEP_URI ? KEEP_URI : size;
        char *grown = realloc(peer->uri, cap);
        if (grown == NULL) {
            free(peer->uri);
            peer->uri = NULL;
            peer->uri_cap = 0;
            return;
        }
        peer->uri = grown;
        peer->uri_cap = cap;
    }
    memcpy(peer->uri, uri, size);
}

const char *bl_peer_get_uri(const bl_peer *peer)
{
    return peer->uri;
}

void bl_watch_attach(bl_peer *peer, bl_request *rq)
{
    if (peer == NULL)
        return;
    pthread_mutex_lock(&peer->lock);
    peer->rq = rq;
    if (peer->gone)
        atomic_store(&rq->cancel, true); /* the queue reads |cancel| before the work runs */
    pthread_mutex_unlock(&peer->lock);
}

void bl_watch_detach(bl_peer *peer)
{
    if (peer == NULL)
        return;
    pthread_mutex_lock(&peer->lock);
    peer->rq = NULL;
    pthread_mutex_unlock(&peer->lock);
}

void bl_watch_cancel_all(bl_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        bl_peer *peer = &watch->peers[i];
        bl_request *taken = NULL;
        pthread_mutex_lock(&peer->lock);
        taken = cancel_locked(peer);
        pthread_mutex_unlock(&peer->lock);
        if (taken != NULL)
            watch_give_up(taken, "the server is shutting down");
    }
}

size_t bl_watch_waiting(bl_watch *watch)
{
    size_t count = 0;
    for (uint32_t i = 0; i < watch->count; i++) {
        pthread_mutex_lock(&watch->peers[i].lock);
        count += watch->peers[i].rq != NULL;
        pthread_mutex_unlock(&watch->peers[i].lock);
    }
    return count;
}
