/* SPDX-License-Identifier: MIT */
#include "server/http/progress.h"

#include "engine/base/clock.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* A live client sends its head within a few round trips, TLS included.  A connection without progress for STILL_NS is dead or
 * has nothing to send. */
enum { FRESH_NS = 250000000, STILL_NS = 2000000000 };

void bl_progress_enter(bl_progress *p, bl_phase phase)
{
    int64_t now = bl_clock_ns();
    atomic_store(&p->bytes, 0);
    atomic_store(&p->since_ns, now);
    atomic_store(&p->moved_ns, now);
    atomic_store(&p->phase, (int)phase);
}

void bl_progress_begin(bl_progress *p)
{
    bl_progress_enter(p, BL_PHASE_HEAD);
    atomic_store(&p->known, false);
    p->window_ns = 0;
    p->window_bytes = 0;
}

void bl_progress_count(bl_progress *p, size_t bytes)
{
    atomic_fetch_add(&p->bytes, bytes);
    atomic_store(&p->moved_ns, bl_clock_ns());
}

/* Read the number of bytes that the client has acknowledged since the connection began.  False if every sent byte is
 * acknowledged: the answer then does not wait for the client. */
static bool read_acknowledged(int fd, uint64_t *bytes)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int waiting = 0;
    if (ioctl(fd, SIOCOUTQ, &waiting) != 0 || waiting == 0)
        return false;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    *bytes = info.tcpi_bytes_acked;
    return true;
}

static void begin_window(bl_progress *p, uint64_t bytes, int64_t now)
{
    p->window_ns = now;
    p->window_bytes = bytes;
}

/* Did fewer bytes move in a window than the minimum rate requires? */
static bool is_below_rate(bl_progress *p, uint64_t bytes, const bl_settings *set, int64_t now)
{
    double seconds = (double)(now - p->window_ns) * 1e-9, moved = (double)(bytes - p->window_bytes);
    if (p->window_ns < atomic_load(&p->since_ns) || bytes < p->window_bytes) { /* the window began in another phase */
        begin_window(p, bytes, now);
        return false;
    }
    if (seconds < set->rate_window)
        return false;
    begin_window(p, bytes, now);
    return moved < seconds * (double)set->least_rate;
}

bool bl_progress_is_late(bl_progress *p, int fd, bool held, const bl_settings *set, int64_t now)
{
    double spent = (double)(now - atomic_load(&p->since_ns)) * 1e-9;
    uint64_t bytes = atomic_load(&p->bytes);
    switch ((bl_phase)atomic_load(&p->phase)) {
    case BL_PHASE_HEAD:
        return spent > set->head_timeout;
    case BL_PHASE_IDLE: /* single bytes do not end this phase, because libmicrohttpd counts --idle-timeout from the last byte */
        return spent > set->idle + set->head_timeout;
    case BL_PHASE_BODY:
        if (!held)
            return is_below_rate(p, bytes, set, now);
        begin_window(p, bytes, now);
        return false;
    case BL_PHASE_WORK:
        return false;
    case BL_PHASE_SEND:
        if (!read_acknowledged(fd, &bytes)) {
            begin_window(p, 0, now);
            p->window_ns = 0;
            return false;
        }
        if (bytes != p->window_bytes)
            atomic_store(&p->moved_ns, now);
        return is_below_rate(p, bytes, set, now);
    }
    return false;
}

bl_tenure bl_progress_get_tenure(const bl_progress *p, bool keyed, int64_t now)
{
    bl_phase phase = (bl_phase)atomic_load(&p->phase);
    bool known = atomic_load(&p->known), still = now - atomic_load(&p->moved_ns) > STILL_NS;
    switch (phase) {
    case BL_PHASE_HEAD:
        return still ? BL_TENURE_NONE : now - atomic_load(&p->since_ns) > FRESH_NS ? BL_TENURE_FRESH : BL_TENURE_FULL;
    case BL_PHASE_IDLE:
        return !still ? BL_TENURE_FULL : known ? BL_TENURE_IDLE : BL_TENURE_NONE;
    case BL_PHASE_BODY:
    case BL_PHASE_SEND:
        return !known && (keyed || still) ? BL_TENURE_STRANGER : BL_TENURE_FULL;
    case BL_PHASE_WORK:
        return BL_TENURE_FULL;
    }
    return BL_TENURE_FULL;
}
