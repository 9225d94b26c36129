/* SPDX-License-Identifier: MIT */
#include "engine/opt/nest_cost.h"

#include <math.h>

/* Loads in multiply-adds; one from near takes as long as a multiply-add. */
#define FAR_LOAD    8.0  /* of a work-item from global memory */
#define BESIDE_LOAD 0.25 /* what a load costs even where a multiply-add hides it */

/* Lanes, in vector instructions. */
#define GATHERED       1.5
#define STREWN         1.9
#define ARITHMETIC     0.25 /* operations run beside loads and stores */
#define UNPACKED       0.5
#define PACKED         6.0 /* 0.8 ns, where an element of the product takes 0.14 */
#define COPIED         2.0 /* 0.1 ns on two cores */
#define FOLDED         0.5
#define FOLDED_PRODUCT 0.75
#define FOLD           1.01 /* factors: at equal costs, lanes go along an output */
#define FOLD_PRODUCT   1.15

/* Split-K: the latency that the sums of one part add to the helper that adds them up, and one element that is written to memory
 * and read back, at four per clock. */
#define PART      8192.0
#define PART_PASS 64.0

static double nest_cost_factor(double x)
{
    return x > 0 ? x : 1;
}

double nest_tile_cost(const nest_tile *tile)
{
    double issue = (tile->beside > 1 ? tile->beside : 1) + BESIDE_LOAD * tile->beside;

    if (tile->registers > tile->of_registers || tile->bytes > tile->of_bytes)
        return INFINITY;
    return nest_cost_factor(tile->work) * nest_cost_factor(tile->waste) *
           (issue + FAR_LOAD * tile->far + tile->near[0] + tile->near[1] + tile->latency) * nest_cost_factor(tile->idle) /
           nest_cost_factor(tile->busy);
}

double nest_lanes_cost(const nest_lanes *lanes)
{
    double factor = lanes->along == NEST_LANES_APART ? 1 : lanes->along == NEST_LANES_FOLD ? FOLD : FOLD_PRODUCT;
    double fold = lanes->along == NEST_LANES_FOLD_PRODUCT ? FOLDED_PRODUCT : FOLDED;

    return factor * (lanes->vectors + GATHERED * lanes->gathered + STREWN * lanes->strewn + ARITHMETIC * lanes->arithmetic +
                     UNPACKED * lanes->unpacked + PACKED * lanes->packed) +
           COPIED * lanes->copied + fold * lanes->folded;
}

double nest_waste(int64_t m, int64_t by_m, int64_t n, int64_t by_n)
{
    return (double)((m + by_m - 1) / by_m * by_m) / (double)m * (double)((n + by_n - 1) / by_n * by_n) / (double)n;
}

double nest_waves(double groups, uint32_t units)
{
    return ceil(groups / units);
}

double nest_parts_cost(uint32_t units, int64_t results, int64_t parts)
{
    return parts == 1 ? 0 : NEST_LAUNCH + (double)parts * (PART + PART_PASS * (double)results / units);
}
