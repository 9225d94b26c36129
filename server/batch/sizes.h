/* SPDX-License-Identifier: MIT */
/* The cost model of dynamic batching: the measured time of runs by their number of rows, and the choice of the number of rows
 * with the least time per row, or per expected token of a text.  Each slot of a batcher has one bl_sizes.  The lock of
 * the batcher guards it.  A zeroed structure is ready for use.
 *
 * A size is 2^i rows.  A run uses the general plan of the model, for any number of rows, or a plan that was compiled for
 * exactly its size.  In an exact plan the number of rows is a constant, so the compiler can optimise more.  Exact plans are
 * made for sizes on which the device spends much time. */
#ifndef BL_SERVER_BATCH_SIZES_H
#define BL_SERVER_BATCH_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum { BL_SIZES = 17, BL_SIZE_SAMPLES = 16 };

/* The measured cost of the runs of one kind. */
typedef struct bl_size_cost {
    uint64_t runs;
    double row_ns[BL_SIZE_SAMPLES]; /* the time per row of each of the last runs */
    double mean_ns;                 /* a moving average of the time per row */
    uint64_t turn;                  /* bl_sizes.turn at the last choice of this kind */
    uint64_t vain;                  /* how often this kind was chosen since its last run */
} bl_size_cost;

typedef struct bl_size {
    bl_size_cost any;      /* runs of 2^i to 2^(i+1) - 1 rows with the general plan */
    bl_size_cost exact;    /* runs of 2^i rows with the exact plan */
    int64_t spent_ns;      /* the time of runs of exactly 2^i rows with the general plan */
    bool ordered, present; /* ordered: an exact plan is being made or exists; present: the exact plan exists */
} bl_size;

typedef struct bl_sizes {
    bl_size at[BL_SIZES];
    uint64_t turn;            /* the number of choices so far */
    double total_ns, lost_ns; /* the time of all runs; the part of it that repeated trials of other sizes have cost */
} bl_sizes;

/* The value of a run with a number of rows. */
typedef struct bl_rows_worth {
    double gain;      /* the use of its rows */
    double before_ns; /* the time of the work that the rows need before the run */
} bl_rows_worth;

/* The index of the largest size that is at most |rows|. */
int bl_size_of(int64_t rows);
bool bl_size_is_exact(int64_t rows); /* is |rows| a size itself? */
/* Record that a run of |rows| took |ns| on the device.  |exact|: the run used the exact plan of its size. */
void bl_sizes_learn(bl_sizes *sizes, int64_t rows, bool exact, int64_t ns);
/* How many rows should run now, from |least| to |waiting|.  worth[r] tells the value of a run of r rows; NULL: all rows have the
 * same use.  The choice has the least time per use.  The call counts as a choice, and may choose another size to measure it
 * again. */
int64_t bl_sizes_choose(bl_sizes *sizes, int64_t least, int64_t waiting, const bl_rows_worth *worth);
/* Like bl_sizes_choose for 1 to |waiting| rows of the same use, but the call does not count as a choice and never repeats a
 * measurement. */
int64_t bl_sizes_best(bl_sizes *sizes, int64_t waiting);
/* The expected time of a run of |rows|.  A size without measurements takes the cost of the nearest smaller measured size, then
 * of the nearest larger size.  0: no size has been measured. */
double bl_sizes_expect(const bl_sizes *sizes, int64_t rows);
/* Should an exact plan for |rows| be made?  Returns true once, and again only after bl_sizes_answer reports a failure. */
bool bl_sizes_order(bl_sizes *sizes, int64_t rows);
/* The exact plan for |rows| exists (|present|), or could not be made now. */
void bl_sizes_answer(bl_sizes *sizes, int64_t rows, bool present);

#endif
