/* The cost model of the schedule templates. A template fills in the numbers of its nest for some sizes of tiles, lanes or parts;
 * only nest_cost.c weighs them. Costs are times of one multiply-add, of a vector, a work-item or a matrix unit, and a template
 * compares costs of one kind. lower/cost.h counts the instructions and the traffic of a finished kernel instead. */
#ifndef BL_OPT_NEST_COST_H
#define BL_OPT_NEST_COST_H

#include <stdint.h>

/* A sum in tiles. A field that is 0 does not count: such a factor is 1, and such a limit holds. */
typedef struct nest_tile {
    double work;  /* multiply-adds that one core executes; 0 where all sizes have the same */
    double waste; /* factor: multiply-adds executed per multiply-add of the result, since tiles overlap (nest_waste) */
    /* loads per multiply-add: */
    double beside;  /* from a first-level cache, in the same cycle as a multiply-add: the larger number takes the time */
    double near[2]; /* of each operand, from local memory or a cache, or of a fragment: an instruction */
    double far;     /* from global memory */
    double latency; /* time per multiply-add that a tile with few sums waits for its own sums */
    double idle;    /* factor: lanes of a subgroup without work-item, sums in a row, or spilled registers */
    double busy;    /* fraction of the time in which a core has a work-item that is ready */
    int64_t registers, of_registers; /* that the tile needs, and that the device has */
    int64_t bytes, of_bytes;         /* of local memory or cache */
} nest_tile;
double nest_tile_cost(const nest_tile *tile); /* INFINITY if the tile does not fit */

/* A nest with lanes along one axis: numbers of vector instructions or elements in the whole nest. */
typedef struct nest_lanes {
    double vectors;          /* loads and stores of contiguous lanes, or of one element for all lanes */
    double gathered, strewn; /* loads and stores lane by lane: several lanes in a cache line, or one or two */
    double arithmetic;       /* operations of a nest without sums, on vectors or elements */
    double unpacked;         /* operations that unpack the codes of a quantised weight */
    double packed;           /* elements of panels that are gathered, one at a time */
    double copied;           /* elements of panels that are transposed, or copied with their edges */
    double folded;           /* elements of the vectors whose lanes are folded at the end */
    enum { NEST_LANES_APART, NEST_LANES_FOLD, NEST_LANES_FOLD_PRODUCT } along; /* an output, a sum, or the main sum of products */
} nest_lanes;
double nest_lanes_cost(const nest_lanes *lanes);

/* The multiply-adds executed per multiply-add of the result, if axes of |m| and |n| are covered by parts of |by_m| and |by_n|. */
double nest_waste(int64_t m, int64_t by_m, int64_t n, int64_t by_n);
/* How many groups one of |units| cores runs one after the other. */
double nest_waves(double groups, uint32_t units);

/* Launches and split-K on a GPU, in multiply-adds of one multiprocessor, which does 128 per clock. */
#define NEST_LAUNCH  524288.0 /* a further launch, about 4,000 clocks */
#define NEST_ELEMENT 64.0     /* an element that a group sums */
/* What it takes to add up partial sums. 0 for one part. */
double nest_parts_cost(uint32_t units, int64_t results, int64_t parts);

#endif
