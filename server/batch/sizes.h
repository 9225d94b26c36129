/* SPDX-License-Identifier: MIT */
/* How many rows a run of a model should have: what runs of each size were measured to take, and which of those that could begin
 * now takes least for a row.  One instance's; its batcher's lock guards it.  Zeroed is ready.
 *
 * A size is 2^i rows.  A run has either the model's own plan, for any number of rows, or one that was made for exactly its size:
 * there the number is a constant, from which the compiler knows more.  Such plans are made for sizes that take time. */
#ifndef BL_SERVER_BATCH_SIZES_H
#define BL_SERVER_BATCH_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum { BL_SIZES = 17, BL_SIZE_SAMPLES = 16 };

/* Of runs of one kind. */
typedef struct bl_size_cost {
    uint64_t runs;
    double row_ns[BL_SIZE_SAMPLES]; /* of a row, in the last of them */
    double mean_ns;                 /* likewise, lately */
    uint64_t turn;                  /* when it was last chosen */
    uint64_t vain;                  /* choices of it since it last ran */
} bl_size_cost;

typedef struct bl_size {
    bl_size_cost any;      /* 2^i rows and more, but less than twice as many, with the plan for any number */
    bl_size_cost exact;    /* 2^i rows with the plan for them */
    int64_t spent_ns;      /* in runs of 2^i rows without it */
    bool ordered, present; /* that plan: it is being made, or was refused; it is there */
} bl_size;

typedef struct bl_sizes {
    bl_size at[BL_SIZES];
    uint64_t turn;            /* choices so far */
    double total_ns, lost_ns; /* of all runs; of that, what looking again cost */
} bl_sizes;

/* The size of |rows|: the largest that is no more. */
int bl_size_of(int64_t rows);
bool bl_size_is_exact(int64_t rows); /* it is a size itself */
/* A run of |rows| took |ns| on the device; |exact|: with the plan for its size. */
void bl_sizes_learn(bl_sizes *sizes, int64_t rows, bool exact, int64_t ns);
/* Of |waiting| rows, how many should run now. */
int64_t bl_sizes_choose(bl_sizes *sizes, int64_t waiting);
/* The same, but for looks at other sizes, and without counting as a choice. */
int64_t bl_sizes_best(bl_sizes *sizes, int64_t waiting);
/* What a run of |rows| takes, by the size that is nearest where nobody knows; 0 where nothing is known. */
double bl_sizes_expect(const bl_sizes *sizes, int64_t rows);
/* Is a plan for exactly |rows| worth making?  Says so once, until it is refused. */
bool bl_sizes_order(bl_sizes *sizes, int64_t rows);
/* It is there; or it could not be made now. */
void bl_sizes_answer(bl_sizes *sizes, int64_t rows, bool present);

#endif
