/* SPDX-License-Identifier: MIT */
/* The groups of a launch are divided into regions, at most one for each thread. A region has a ticket, a 64-bit counter: the
 * number of the launch in the upper half, and the next free group in the lower half. A thread adds a number of groups to the
 * ticket and then runs these groups; the submitting thread does the same. A thread begins with its own region, so that its core
 * still has in its cache what the same groups read or wrote before; then it takes what the others have left. The launch ends
 * when all groups are done. A thread that has taken no groups does not delay the end, for example a thread that is still
 * asleep. A launch of one group runs on the submitting thread. */
#include "opencl/cl_team.h"

#include "engine/base/clock.h"
#include "engine/base/fault.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPINS = 2000,   /* looks at a word before a thread sleeps or yields: some 50 us, as long as a launch of a small kernel */
    SHARES = 4,     /* shares of a launch for each thread: the others take what a late thread has left */
    REGIONS = 8,    /* most regions of a launch: at its end, each thread looks at all of them */
    MOST_APART = 8, /* most threads of a team that stay_apart moves: it needs a system call for each */
    SLOTS = 64,     /* launches that a thread may be late before its slot has another launch */
    LOCAL_ALIGNMENT = 128, /* of ulong16, the widest vector */
    NUMBER = 32,           /* the ticket has the number of the launch from this bit on */
    PIECE = 1 << 30        /* most groups of a ticket, which counts them in its lower 32 bits; a larger launch runs in pieces */
};

/* A launch that has been announced. */
typedef struct slot {
    atomic_uint number;
    _Atomic uint32_t groups;
    _Atomic uint32_t share; /* groups that a thread takes at once */
    _Atomic uint64_t first; /* the group of the launch that is number 0 of the ticket */
    const bl_cl_call *_Atomic call;
} slot;

/* Consecutive groups of a launch. Each ticket has a cache line of its own. */
typedef struct region {
    _Alignas(64) atomic_uint_fast64_t ticket;
} region;

typedef struct member {
    bl_cl_team *team;
    pthread_t thread;
    void *memory; /* local memory */
    size_t bytes;
} member;

struct bl_cl_team {
    region regions[REGIONS];
    _Alignas(64) atomic_uint done;      /* groups of the current launch that are done */
    _Alignas(64) atomic_uint announced; /* the number of the last launch; sleeping threads wait for the next one */
    atomic_uint sleepers;
    atomic_bool ends;
    slot slots[SLOTS];
    int cpu;           /* of the submitter, which the other threads stay off; -1: not known */
    uint32_t nthreads; /* the submitter included */
    uint32_t nregions; /* nthreads, or REGIONS if that is less: then several threads have one own region */
    uint32_t nstarted;
    member members[]; /* the first is the submitter */
};

static void pause_thread(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Run the groups [first, last), which are not none. */
static void run_groups(const bl_cl_call *call, void *memory, uint64_t first, uint64_t last)
{
    uint32_t gx = call->groups[0], gy = call->groups[1];
    uint32_t x = (uint32_t)(first % gx), y = (uint32_t)(first / gx % gy), z = (uint32_t)(first / gx / gy);

    for (uint64_t i = first; i < last; i++) {
        call->function(call->buffers, call->scalars, memory, (int32_t)x, (int32_t)y, (int32_t)z);
        if (++x < gx)
            continue;
        x = 0;
        if (++y < gy)
            continue;
        y = 0;
        z++;
    }
}

/* The first group after region |which| of a launch of |groups| groups. */
static uint32_t region_end(const bl_cl_team *team, uint32_t groups, uint32_t which)
{
    return (uint32_t)((uint64_t)groups * (which + 1) / team->nregions);
}

/* Take a share of the announced launch from a region and run it. False if the region has none. */
static bool run_share(bl_cl_team *team, const member *m, uint32_t which)
{
    atomic_uint_fast64_t *next = &team->regions[which].ticket;
    uint64_t ticket = atomic_load(next);
    const slot *s = &team->slots[(ticket >> NUMBER) % SLOTS];
    uint32_t share = atomic_load(&s->share), end = region_end(team, atomic_load(&s->groups), which), first, last;

    if (atomic_load(&s->number) != ticket >> NUMBER || (uint32_t)ticket >= end)
        return false;
    ticket = atomic_fetch_add(next, share); /* of that launch, or of a later one */
    s = &team->slots[(ticket >> NUMBER) % SLOTS];
    end = region_end(team, atomic_load(&s->groups), which);
    const bl_cl_call *call = atomic_load(&s->call);
    uint64_t base = atomic_load(&s->first);
    first = (uint32_t)ticket;
    /* a launch with an open share keeps its slot */
    if (atomic_load(&s->number) != ticket >> NUMBER || first >= end)
        return false;
    last = end - first < share ? end : first + share;
    run_groups(call, m->memory, base + first, base + last);
    atomic_fetch_add(&team->done, last - first);
    return true;
}

/* Run shares of the announced launch until none is left. The thread begins with its own region, and continues with the next ones:
 * |empty| of them have had no share since the last one that it ran. */
static void run_shares(bl_cl_team *team, const member *m)
{
    uint32_t own = (uint32_t)(m - team->members) % team->nregions, empty = 0;

    while (empty < team->nregions)
        empty = run_share(team, m, (own + empty) % team->nregions) ? 0 : empty + 1;
}

/* ---- the other threads */

/* Wait for a launch after number |seen|. */
static void await_launch(bl_cl_team *team, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&team->announced) != seen)
            return;
        pause_thread();
    }
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(&team->announced) == seen && !atomic_load(&team->ends))
        (void)syscall(SYS_futex, &team->announced, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&team->sleepers, 1);
}

static void *run_member(void *arg)
{
    member *m = arg;
    bl_cl_team *team = m->team;

    while (!atomic_load(&team->ends)) {
        unsigned seen = atomic_load(&team->announced);
        run_shares(team, m);
        await_launch(team, seen);
    }
    return NULL;
}

/* ---- the submitter */

/* Keep the other threads off the submitter's CPU. Otherwise the system may wake a thread on that CPU, where both take turns until
 * the load is balanced, some milliseconds later: kernels of 29 us took 54. In a large team one thread matters little, and the
 * system calls would cost more. */
static void stay_apart(bl_cl_team *team)
{
    int cpu = sched_getcpu();
    cpu_set_t others;

    if (team->nthreads > MOST_APART || cpu < 0 || cpu == team->cpu || sched_getaffinity(0, sizeof others, &others) != 0)
        return;
    CPU_CLR((size_t)cpu, &others);
    for (uint32_t i = 1; i < team->nthreads && CPU_COUNT(&others) > 0; i++)
        (void)pthread_setaffinity_np(team->members[i].thread, sizeof others, &others);
    team->cpu = cpu;
}

static void wake_all(bl_cl_team *team)
{
    if (atomic_load(&team->sleepers) > 0)
        (void)syscall(SYS_futex, &team->announced, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Run |groups| groups of the call, from group |first| on. */
static void run_together(bl_cl_team *team, const bl_cl_call *call, uint64_t first, uint32_t groups)
{
    unsigned number = atomic_load(&team->announced) + 1;
    slot *s = &team->slots[number % SLOTS];

    stay_apart(team);
    atomic_store(&team->done, 0);
    atomic_store(&s->groups, 0); /* a late thread that still reads the slot finds nothing to take */
    atomic_store(&s->number, number);
    atomic_store(&s->call, call);
    atomic_store(&s->first, first);
    atomic_store(&s->share, groups / (team->nthreads * SHARES) + 1);
    atomic_store(&s->groups, groups);
    for (uint32_t i = 0; i < team->nregions; i++)
        atomic_store(&team->regions[i].ticket, (uint64_t)number << NUMBER | (i == 0 ? 0 : region_end(team, groups, i - 1)));
    atomic_store(&team->announced, number);
    wake_all(team);
    run_shares(team, &team->members[0]);
    for (int i = 0; atomic_load(&team->done) < groups; i++) {
        if (i < SPINS)
            pause_thread();
        else
            (void)sched_yield();
    }
}

/* Give each thread |bytes| of local memory. No launch is announced. */
static bl_status grow_memory(bl_cl_team *team, size_t bytes, bl_err *err)
{
    bytes = (bytes + LOCAL_ALIGNMENT - 1) / LOCAL_ALIGNMENT * LOCAL_ALIGNMENT;
    for (uint32_t i = 0; i < team->nthreads; i++) {
        member *m = &team->members[i];
        if (m->bytes >= bytes)
            continue;
        free(m->memory);
        m->bytes = 0;
        m->memory = bl_fault_hit(BL_FAULT_ALLOC) ? NULL : aligned_alloc(LOCAL_ALIGNMENT, bytes);
        if (m->memory == NULL)
            return bl_fail(err, BL_ENOMEM, "out of host memory for %zu bytes of local memory", bytes);
        m->bytes = bytes;
    }
    return BL_OK;
}

bl_status bl_cl_team_run(bl_cl_team *team, bool alone, uint32_t n, const bl_cl_call *calls, uint64_t *nanoseconds, bl_err *err)
{
    int64_t begin;

    for (uint32_t i = 0; i < n; i++)
        BL_TRY(grow_memory(team, calls[i].local_bytes, err));
    begin = nanoseconds != NULL ? bl_clock_ns() : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t groups = (uint64_t)calls[i].groups[0] * calls[i].groups[1] * calls[i].groups[2];

        if (groups > 0 && (alone || groups == 1 || team->nthreads == 1))
            run_groups(&calls[i], team->members[0].memory, 0, groups);
        else {
            for (uint64_t first = 0; first < groups; first += PIECE)
                run_together(team, &calls[i], first, groups - first < PIECE ? (uint32_t)(groups - first) : PIECE);
        }
        if (nanoseconds != NULL) {
            int64_t end = bl_clock_ns();
            nanoseconds[i] = groups == 0 ? 0 : (uint64_t)(end - begin); /* not the time of reading the clock */
            begin = end;
        }
    }
    return BL_OK;
}

bl_status bl_cl_team_create(uint32_t threads, bl_cl_team **out, bl_err *err)
{
    bl_cl_team *team =
        bl_fault_hit(BL_FAULT_ALLOC) ? NULL : aligned_alloc(64, (sizeof *team + threads * sizeof(member) + 63) / 64 * 64);

    if (team == NULL)
        return bl_fail(err, BL_ENOMEM, "out of host memory for the threads of a device");
    memset(team, 0, sizeof *team + threads * sizeof(member));
    team->cpu = -1;
    team->nthreads = threads;
    team->nregions = threads < REGIONS ? threads : REGIONS;
    for (uint32_t i = 1; i < threads; i++) {
        team->members[i].team = team;
        if (pthread_create(&team->members[i].thread, NULL, run_member, &team->members[i]) != 0) {
            bl_cl_team_destroy(team);
            return bl_fail(err, BL_ENOMEM, "the system refuses a thread for a device");
        }
        team->nstarted++;
    }
    *out = team;
    return BL_OK;
}

void bl_cl_team_destroy(bl_cl_team *team)
{
    if (team == NULL)
        return;
    atomic_store(&team->ends, true);
    atomic_fetch_add(&team->announced, 1);
    (void)syscall(SYS_futex, &team->announced, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    for (uint32_t i = 1; i <= team->nstarted; i++)
        (void)pthread_join(team->members[i].thread, NULL);
    for (uint32_t i = 0; i < team->nthreads; i++)
        free(team->members[i].memory);
    free(team);
}
