/* Split-K: the number of parts in which a sum is computed, each with partial sums of its own. Every split of a sum, by the
 * scheduler (split_reduction.c) and by the heuristics (engine/opt), takes its number of parts from bl_parts_choose. */
#ifndef BL_SCHED_PARTS_H
#define BL_SCHED_PARTS_H

#include <stdint.h>

/* On a GPU: at most so many parts, of at least so many elements. */
enum { BL_PARTS_MOST = 64, BL_PARTS_SHORTEST = 64 };

typedef struct bl_parting {
    int64_t extent;   /* of the axis. All parts have the same length, so their number divides it */
    int64_t most;     /* largest number of parts */
    int64_t shortest; /* smallest length of a part */
    int64_t multiple; /* the length of a part is a multiple of this; 0: any length */
    int64_t enough;   /* with at least so many parts, more are not considered; 0: no such limit */
    /* The cost of the sum in that many parts, 1 for a whole sum; INFINITY if that is impossible. NULL: more parts are better. */
    double (*cost)(void *arg, int64_t parts);
    void *arg;
    /* The fraction of the cost that a further split must save. With a positive gain, a
     * few parts, which leave the helper little to add up, win over a slightly cheaper choice of many parts. */
    double gain;
} bl_parting;

/* The cheapest number of parts, among equals the smallest. 1 if the sum should stay whole. */
int64_t bl_parts_choose(const bl_parting *how);

#endif
