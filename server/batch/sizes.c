/* SPDX-License-Identifier: MIT */
#include "server/batch/sizes.h"

#include <math.h>
#include <stddef.h>

enum {
    FIRST_RUNS = 3, /* of a kind, that count for nothing: a driver compiles at the first, and values are kept from the next on */
    ENOUGH_SAMPLES = 2,  /* to compare by */
    MOST_VAIN = 4,       /* choices of a size on end that came to another, as where each request has more rows: no more of it */
    LOOK_AGAIN = 32,     /* choices, of which one may be another than the best: kernels get faster, and machines less busy */
    ORDER_NS = 250000000 /* of runs of a size, after which a plan for it is worth the time of making it */
};
static const double WORTH_IT = 0.95; /* of a row's time: what a smaller run must take at the most */
static const double FORGET = 0.25;   /* weight of a new sample in a mean */
static const double LOOKS = 0.02;    /* of all time, that looking again may cost */

int bl_size_of(int64_t rows)
{
    int i = 0;
    while (i < BL_SIZES - 1 && rows >> (i + 1) > 0)
        i++;
    return i;
}

bool bl_size_is_exact(int64_t rows)
{
    return rows > 0 && rows == (int64_t)1 << bl_size_of(rows);
}

/* ---- what is known */

void bl_sizes_learn(bl_sizes *sizes, int64_t rows, bool exact, int64_t ns)
{
    bl_size *size = &sizes->at[bl_size_of(rows)];
    bl_size_cost *cost = exact ? &size->exact : &size->any;
    double row_ns = (double)ns / (double)rows;
    cost->vain = 0;
    cost->mean_ns = cost->runs < ENOUGH_SAMPLES ? row_ns : cost->mean_ns + FORGET * (row_ns - cost->mean_ns);
    if (cost->runs++ >= FIRST_RUNS)
        cost->row_ns[(cost->runs - FIRST_RUNS - 1) % BL_SIZE_SAMPLES] = row_ns;
    if (!exact && bl_size_is_exact(rows))
        size->spent_ns += ns;
    sizes->total_ns += (double)ns;
}

static bool sizes_is_known(const bl_size_cost *cost)
{
    return cost->runs >= FIRST_RUNS + ENOUGH_SAMPLES;
}

/* The least of the last samples: what else a machine does can only add to it. */
static double row_ns(const bl_size_cost *cost)
{
    double least = cost->row_ns[0];
    for (uint64_t i = 1; i < BL_SIZE_SAMPLES && i < cost->runs - FIRST_RUNS; i++)
        least = cost->row_ns[i] < least ? cost->row_ns[i] : least;
    return least;
}

/* ---- choosing */

/* The run that |rows| would be. */
static bl_size_cost *sizes_cost_of(bl_sizes *sizes, int64_t rows)
{
    bl_size *size = &sizes->at[bl_size_of(rows)];
    return size->present && bl_size_is_exact(rows) ? &size->exact : &size->any;
}

static bool sizes_is_wanted(const bl_size_cost *cost)
{
    return !sizes_is_known(cost) && cost->vain < MOST_VAIN;
}

/* What nobody knows yet: all that wait, then the smallest; 0: all is known that can be. */
static int64_t find_unknown(bl_sizes *sizes, int64_t waiting)
{
    if (sizes_is_wanted(sizes_cost_of(sizes, waiting)))
        return waiting;
    for (int64_t rows = 1; rows < waiting; rows *= 2)
        if (sizes_is_wanted(sizes_cost_of(sizes, rows)))
            return rows;
    return 0;
}

static bool is_usable(const bl_size_cost *cost)
{
    return sizes_is_known(cost) && cost->vain < MOST_VAIN;
}

/* What a row takes where |rows| are asked for; where that comes to fewer, in the next smaller runs; 0: nobody knows. */
static double asked_row_ns(bl_sizes *sizes, int64_t rows)
{
    const bl_size_cost *cost = sizes_cost_of(sizes, rows);
    for (int i = bl_size_of(rows) - 1; i >= 0 && !is_usable(cost); i--)
        cost = &sizes->at[i].any;
    return sizes_is_known(cost) ? row_ns(cost) : 0;
}

static int64_t find_best(bl_sizes *sizes, int64_t waiting)
{
    double all = asked_row_ns(sizes, waiting), least = all * WORTH_IT;
    int64_t best = waiting;
    for (int64_t rows = 1; rows < waiting; rows *= 2) {
        const bl_size_cost *cost = sizes_cost_of(sizes, rows);
        double takes = is_usable(cost) ? row_ns(cost) : INFINITY;
        if (takes < least || (takes <= least && best < waiting)) { /* of two that take the same, the larger */
            best = rows;
            least = takes;
        }
    }
    return best;
}

/* The one that was not chosen for longest, if it may cost what it did when it was; 0: none. */
static int64_t find_forgotten(bl_sizes *sizes, int64_t waiting, int64_t best)
{
    double least = asked_row_ns(sizes, best), lost = 0;
    const bl_size_cost *cost = NULL;
    int64_t oldest = waiting;
    for (int64_t rows = 1; rows < waiting; rows *= 2)
        if (sizes_cost_of(sizes, rows)->turn < sizes_cost_of(sizes, oldest)->turn)
            oldest = rows;
    cost = sizes_cost_of(sizes, oldest);
    lost = is_usable(cost) ? (row_ns(cost) - least) * (double)oldest : least * (double)best;
    lost = lost > 0 ? lost : 0;
    if (oldest == best || sizes->lost_ns + lost > LOOKS * sizes->total_ns)
        return 0;
    sizes->lost_ns += lost;
    return oldest;
}

int64_t bl_sizes_best(bl_sizes *sizes, int64_t waiting)
{
    int64_t unknown = waiting > 1 ? find_unknown(sizes, waiting) : waiting;
    return unknown > 0 || waiting < 1 ? unknown : find_best(sizes, waiting);
}

int64_t bl_sizes_choose(bl_sizes *sizes, int64_t waiting)
{
    int64_t rows = bl_sizes_best(sizes, waiting);
    if (waiting <= 1)
        return rows;
    if (++sizes->turn % LOOK_AGAIN == 0 && find_unknown(sizes, waiting) == 0) {
        int64_t forgotten = find_forgotten(sizes, waiting, rows);
        rows = forgotten > 0 ? forgotten : rows;
    }
    sizes_cost_of(sizes, rows)->turn = sizes->turn;
    sizes_cost_of(sizes, rows)->vain++; /* until it ran */
    return rows;
}

static const bl_size_cost *last_of(const bl_size *size)
{
    const bl_size_cost *cost = size->exact.runs >= ENOUGH_SAMPLES ? &size->exact : &size->any;
    return cost->runs >= ENOUGH_SAMPLES ? cost : NULL;
}

double bl_sizes_expect(const bl_sizes *sizes, int64_t rows)
{
    const bl_size_cost *found = NULL;
    for (int i = bl_size_of(rows); i >= 0 && found == NULL; i--)
        found = last_of(&sizes->at[i]);
    for (int i = bl_size_of(rows) + 1; i < BL_SIZES && found == NULL; i++)
        found = last_of(&sizes->at[i]);
    return found != NULL ? found->mean_ns * (double)rows : 0;
}

/* ---- plans */

bool bl_sizes_order(bl_sizes *sizes, int64_t rows)
{
    bl_size *size = &sizes->at[bl_size_of(rows)];
    if (!bl_size_is_exact(rows) || size->ordered || size->spent_ns < ORDER_NS)
        return false;
    size->ordered = true;
    return true;
}

void bl_sizes_answer(bl_sizes *sizes, int64_t rows, bool present)
{
    bl_size *size = &sizes->at[bl_size_of(rows)];
    size->present = present;
    size->ordered = present;
    size->spent_ns = 0;
}
