/* SPDX-License-Identifier: MIT */
#include "server/ops/server.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/http/listener.h"
#include "server/http/poller.h"
#include "server/http/watch.h"
#include "server/jobs/jobs.h"

#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

enum {
    LAST_WAIT_MS = 10000,
    /* a connection that has had no request for this time may be closed; a shorter time would cut off a request that is on
     * its way */
    QUIET_MS = 200,
    LOOK_MS = 5, /* time between two checks during the shutdown */
    /* time without a step of the ticker after which the server counts as stuck: the ticker's tasks take every lock, so some
     * lock is never released */
    STUCK_MS = 5000
};

/* ---- systemd (sd_notify(3), sd_watchdog_enabled(3)); without systemd these functions do nothing */

static void life_tell_ready(const bl_server *server)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=serving on %s:%u", server->settings.host, server->http.port);
}

static void reload(bl_server *server)
{
    int64_t now = bl_clock_ns();
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)now / 1000);
    (void)bl_server_reload(server);
    life_tell_ready(server);
}

static void tell_stopping(const bl_server *server)
{
    double most = server->settings.drain_delay + server->settings.grace + 1e-3 * LAST_WAIT_MS;
    (void)sd_notifyf(0, "STOPPING=1\nSTATUS=answering what was accepted\nEXTEND_TIMEOUT_USEC=%.0f", most * 1e6);
}

/* The interval of the watchdog's keep-alive messages, or a negative number if systemd asks for none. */
static int64_t watchdog_ns(void)
{
    uint64_t microseconds = 0;
    return sd_watchdog_enabled(0, &microseconds) > 0 ? (int64_t)microseconds * 1000 / 2 : -1;
}

static void feed_watchdog(bl_server *server)
{
    if (bl_clock_ms(bl_ticker_moved(server->ticker), bl_clock_ns()) < STUCK_MS)
        (void)sd_notify(0, "WATCHDOG=1");
    else
        bl_log(BL_LOG_ERROR, "the ticker has not moved for %d ms", STUCK_MS);
}

/* ---- signals */

/* Wait for a signal.  Returns 0 after |ns| nanoseconds; a negative |ns| waits without limit. */
static int wait_signal(sigset_t *signals, int64_t ns)
{
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    int number = 0;
    if (ns >= 0)
        number = sigtimedwait(signals, NULL, &time);
    else
        (void)sigwait(signals, &number);
    return number > 0 ? number : 0;
}

/* Wait LOOK_MS during the shutdown.  A second signal ends the process at once. */
static void wait_moment(sigset_t *signals)
{
    int number = wait_signal(signals, INT64_C(1000000) * LOOK_MS);
    if (number == SIGTERM || number == SIGINT) {
        bl_log(BL_LOG_WARN, "second signal: ending at once");
        _exit(130);
    }
}

/* ---- shutdown */

static bool is_past(int64_t begin, double seconds)
{
    return bl_clock_ms(begin, bl_clock_ns()) >= seconds * 1e3;
}

/* Wait until no connection is open, or until no open connection has had a request for QUIET_MS.  False if requests remain. */
static bool wait_until_idle(bl_server *server, double ms, sigset_t *signals)
{
    int64_t begin = bl_clock_ns(), now = begin, asked = begin;
    while (bl_pollers_open(server->http.pollers) > 0 && bl_clock_ms(asked, now) < QUIET_MS && bl_clock_ms(begin, now) < ms) {
        wait_moment(signals);
        now = bl_clock_ns();
        if (bl_metrics_get(&server->metrics, BL_COUNT_ACTIVE) > 0)
            asked = now;
    }
    return bl_metrics_get(&server->metrics, BL_COUNT_ACTIVE) == 0;
}

/* Shut down in steps: report not ready, refuse new work, answer accepted requests, then cancel the requests that take too
 * long.  The port stays open until the accepted requests are answered, so that a client gets 503 and not a refused
 * connection. */
static void drain(bl_server *server, sigset_t *signals)
{
    const bl_settings *set = &server->settings;
    int64_t begin = bl_clock_ns();
    atomic_store(&server->life.leaving, true);
    tell_stopping(server);
    while (!is_past(begin, set->drain_delay))
        wait_moment(signals);
    begin = bl_clock_ns();
    atomic_store(&server->life.draining, true);
    bl_jobs_drain(server->jobs, set->grace);
    bl_log(BL_LOG_INFO, "draining: %lld requests to answer", atomic_load(&server->life.accepted));
    while (atomic_load(&server->life.accepted) > 0 && !is_past(begin, set->grace))
        wait_moment(signals);
    bl_listener_stop(server->http.listener);
    if (wait_until_idle(server, set->grace * 1e3 - bl_clock_ms(begin, bl_clock_ns()), signals))
        return;
    bl_log(BL_LOG_WARN, "cancelling the requests that did not end within %g s", set->grace);
    atomic_store(&server->life.ends, true);
    bl_watch_cancel_all(server->http.watch);
    bl_children_stop(server->children);
    bl_children_stop(server->search.children);
    /* libmicrohttpd aborts if a suspended connection remains, so every running request must reach its next launch first. */
    while (!wait_until_idle(server, LAST_WAIT_MS, signals) && bl_watch_waiting(server->http.watch) > 0)
        bl_log(BL_LOG_WARN, "still waiting for a device");
}

void bl_life_run(bl_server *server, sigset_t *signals)
{
    int64_t interval = watchdog_ns();
    int number = 0;
    life_tell_ready(server);
    while (number != SIGTERM && number != SIGINT) {
        if (interval >= 0)
            feed_watchdog(server);
        number = wait_signal(signals, interval);
        if (number == SIGHUP)
            reload(server);
    }
    drain(server, signals);
}
