/* SPDX-License-Identifier: MIT */
#include "server/batch/sizes.h"

#include <math.h>
#include <stddef.h>

enum {
    /* the first runs of a kind are not measured: the driver compiles in the first run, and values are kept from the next
     * run on */
    FIRST_RUNS = 3,
    ENOUGH_SAMPLES = 2, /* the number of samples that a comparison needs */
    /* after so many consecutive choices of a size that ended in another size, the size is not chosen again; requests with
     * more rows cause such choices */
    MOST_VAIN = 4,
    /* one of so many choices may be another size than the best, since kernels get faster and machines get less busy */
    LOOK_AGAIN = 32,
    ORDER_NS = 250000000 /* the time in runs of one size after which an exact plan is worth its compile time */
};
static const double WORTH_IT = 0.95; /* a smaller run may take at most this part of the time per row of the larger run */
static const double FORGET = 0.25;   /* the weight of a new sample in a moving average */
static const double LOOKS = 0.02;    /* repeated trials of other sizes may take this part of the time of all runs */

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

/* ---- measurements */

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

/* The minimum of the last samples, since other work on the machine can only add to a measured time. */
static double row_ns(const bl_size_cost *cost)
{
    double least = cost->row_ns[0];
    for (uint64_t i = 1; i < BL_SIZE_SAMPLES && i < cost->runs - FIRST_RUNS; i++)
        least = cost->row_ns[i] < least ? cost->row_ns[i] : least;
    return least;
}

/* ---- the choice */

/* The cost entry of a run of |rows|. */
static bl_size_cost *sizes_cost_of(bl_sizes *sizes, int64_t rows)
{
    bl_size *size = &sizes->at[bl_size_of(rows)];
    return size->present && bl_size_is_exact(rows) ? &size->exact : &size->any;
}

static bool sizes_is_wanted(const bl_size_cost *cost)
{
    return !sizes_is_known(cost) && cost->vain < MOST_VAIN;
}

/* The candidates of a choice: |least|, the sizes between, and |waiting|. */
typedef struct sizes_range {
    int64_t least, waiting;
    const bl_rows_worth *worth;
} sizes_range;

/* The candidate after |rows|, below |waiting|; else |waiting|. */
static int64_t sizes_next(const sizes_range *range, int64_t rows)
{
    int64_t next = (int64_t)2 << bl_size_of(rows);
    return next < range->waiting ? next : range->waiting;
}

static double sizes_gain(const sizes_range *range, int64_t rows)
{
    return range->worth != NULL ? range->worth[rows].gain : (double)rows;
}

/* The time of a run of |rows|, by the cost of its rows. */
static double sizes_time(const sizes_range *range, const bl_size_cost *cost, int64_t rows)
{
    return row_ns(cost) * (double)rows + (range->worth != NULL ? range->worth[rows].before_ns : 0);
}

/* A number of rows whose cost is not measured yet: |waiting| itself, then the smallest size.  0: every cost that can be
 * measured is known. */
static int64_t find_unknown(bl_sizes *sizes, const sizes_range *range)
{
    if (sizes_is_wanted(sizes_cost_of(sizes, range->waiting)))
        return range->waiting;
    for (int64_t rows = range->least; rows < range->waiting; rows = sizes_next(range, rows))
        if (sizes_is_wanted(sizes_cost_of(sizes, rows)))
            return rows;
    return 0;
}

static bool is_usable(const bl_size_cost *cost)
{
    return sizes_is_known(cost) && cost->vain < MOST_VAIN;
}

/* The time per use of a run of |rows|.  If no such run is usable, by the cost of the next smaller usable size.  0: unknown. */
static double sizes_asked_ns(bl_sizes *sizes, const sizes_range *range, int64_t rows)
{
    const bl_size_cost *cost = sizes_cost_of(sizes, rows);
    for (int i = bl_size_of(rows) - 1; i >= 0 && !is_usable(cost); i--)
        cost = &sizes->at[i].any;
    return sizes_is_known(cost) ? sizes_time(range, cost, rows) / sizes_gain(range, rows) : 0;
}

static int64_t find_best(bl_sizes *sizes, const sizes_range *range)
{
    double all = sizes_asked_ns(sizes, range, range->waiting), least = all * WORTH_IT;
    int64_t best = range->waiting;
    for (int64_t rows = range->least; rows < range->waiting; rows = sizes_next(range, rows)) {
        const bl_size_cost *cost = sizes_cost_of(sizes, rows);
        double takes = is_usable(cost) ? sizes_time(range, cost, rows) / sizes_gain(range, rows) : INFINITY;
        /* of two runs with equal cost per use, the larger run */
        if (takes < least || (takes <= least && best < range->waiting)) {
            best = rows;
            least = takes;
        }
    }
    return best;
}

/* The size whose last choice is the longest ago, if the budget LOOKS allows its last measured extra cost.  0: none. */
static int64_t find_forgotten(bl_sizes *sizes, const sizes_range *range, int64_t best)
{
    double least = sizes_asked_ns(sizes, range, best), lost = 0;
    const bl_size_cost *cost = NULL;
    int64_t oldest = range->waiting;
    for (int64_t rows = range->least; rows < range->waiting; rows = sizes_next(range, rows))
        if (sizes_cost_of(sizes, rows)->turn < sizes_cost_of(sizes, oldest)->turn)
            oldest = rows;
    cost = sizes_cost_of(sizes, oldest);
    lost =
        is_usable(cost) ? sizes_time(range, cost, oldest) - least * sizes_gain(range, oldest) : least * sizes_gain(range, best);
    lost = lost > 0 ? lost : 0;
    if (oldest == best || sizes->lost_ns + lost > LOOKS * sizes->total_ns)
        return 0;
    sizes->lost_ns += lost;
    return oldest;
}

static int64_t sizes_best_of(bl_sizes *sizes, const sizes_range *range)
{
    int64_t unknown = range->waiting > 1 ? find_unknown(sizes, range) : range->waiting;
    return unknown > 0 || range->waiting < 1 ? unknown : find_best(sizes, range);
}

int64_t bl_sizes_best(bl_sizes *sizes, int64_t waiting)
{
    return sizes_best_of(sizes, &(sizes_range){1, waiting, NULL});
}

int64_t bl_sizes_choose(bl_sizes *sizes, int64_t least, int64_t waiting, const bl_rows_worth *worth)
{
    const sizes_range range = {least, waiting, worth};
    int64_t rows = sizes_best_of(sizes, &range);
    if (waiting <= 1)
        return rows;
    if (++sizes->turn % LOOK_AGAIN == 0 && find_unknown(sizes, &range) == 0) {
        int64_t forgotten = find_forgotten(sizes, &range, rows);
        rows = forgotten > 0 ? forgotten : rows;
    }
    sizes_cost_of(sizes, rows)->turn = sizes->turn;
    sizes_cost_of(sizes, rows)->vain++; /* bl_sizes_learn resets the count when the size runs */
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
