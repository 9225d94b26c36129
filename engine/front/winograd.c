/* SPDX-License-Identifier: MIT */
/* Decides whether a convolution is computed by Winograd's transforms (engine/ir/winograd_transforms.h), by the cost of its
 * products and its transforms in vector instructions. */
#include "engine/front/winograd.h"

enum {
    WEIGHT = 3,
    PAGE = 4096 /* lines this many bytes apart map to one set of a first-level cache: lanes at that stride evict each other */
};

static const double IN_COST = 2.5, /* per element of a tile; measured, like all costs here */
    OUT_COST = 4,                  /* per result */
    WEIGHT_COST = 5,               /* per element of the weight, its panel included */
    CONFLICT = 2.5,                /* factor where lanes evict each other */
    WORTH = 1.1,                   /* the direct form must cost this many times as much ... */
    WORTH_DIGITS = 1.2;            /* ... or this many, if large tiles would lose a digit of precision */

static bool winograd_fits(const bl_node *x, const bl_node *w, const bl_frame *f, int64_t groups)
{
    if (f->n != 2 || groups != 1 || x->dtype != BL_F32 || w->dtype != BL_F32)
        return false;
    for (int i = 0; i < 2; i++) {
        if (f->size[i] != WEIGHT || f->stride[i] != 1 || f->dilation[i] != 1)
            return false;
    }
    for (int i = 0; i < 4; i++) {
        if (!bl_is_const(x->dim[i]) || x->dim[i]->lo < 1 || w->dim[i]->lo < 1)
            return false;
    }
    for (int i = 0; i < 2; i++) { /* the padding of the gradient is 2 less the padding, and must not be negative */
        if (f->before[i] < 0 || f->after[i] < 0 || f->before[i] >= WEIGHT || f->after[i] >= WEIGHT ||
            x->dim[2 + i]->lo + f->before[i] + f->after[i] < WEIGHT)
            return false;
    }
    return true;
}

static double winograd_of(const bl_node *extent)
{
    return (double)extent->lo;
}

static double pixels(const bl_node *x, const bl_frame *f, int i)
{
    return winograd_of(x->dim[2 + i]) + (double)(f->before[i] + f->after[i] - (WEIGHT - 1));
}

static double winograd_whole_tiles(double extent, int tile)
{
    return (double)(((int64_t)extent + tile - 1) / tile);
}

/* The cost factor of lanes that are |elements| apart. */
static double winograd_apart(double elements)
{
    return (int64_t)(elements * sizeof(float)) % PAGE == 0 ? CONFLICT : 1;
}

static double direct_cost(const bl_node *x, const bl_node *w, const bl_frame *f, double lanes)
{
    return WEIGHT * WEIGHT * winograd_of(x->dim[0]) * pixels(x, f, 0) * pixels(x, f, 1) * winograd_of(x->dim[1]) *
           winograd_of(w->dim[0]) / lanes;
}

/* The number of tiles of all pictures. */
static double winograd_count_tiles(const bl_node *x, const bl_frame *f, int tile)
{
    return winograd_of(x->dim[0]) * winograd_whole_tiles(pixels(x, f, 0), tile) * winograd_whole_tiles(pixels(x, f, 1), tile);
}

static double winograd_cost_of(const bl_node *x, const bl_node *w, const bl_frame *f, double lanes, int tile)
{
    double places = (tile + 2) * (tile + 2), ins = winograd_of(x->dim[1]), outs = winograd_of(w->dim[0]);
    double height = pixels(x, f, 0), width = pixels(x, f, 1);
    double tiles = winograd_count_tiles(x, f, tile);
    double in = IN_COST * winograd_apart(winograd_of(x->dim[2]) * winograd_of(x->dim[3])),
           out = OUT_COST * winograd_apart(height * width);

    return tiles * (places * ins * outs / lanes + places * in * ins + tile * tile * out * outs) +
           places * WEIGHT_COST * ins * outs;
}

/* Does the larger side of the products fit in memory? */
static bool winograd_has_room(const bl_front_options *options, const bl_node *x, const bl_node *w, const bl_frame *f, int tile)
{
    double places = (tile + 2) * (tile + 2),
           channels = winograd_of(x->dim[1]) > winograd_of(w->dim[0]) ? winograd_of(x->dim[1]) : winograd_of(w->dim[0]);

    return options->max_buffer == 0 ||
           places * winograd_count_tiles(x, f, tile) * channels * sizeof(float) <= (double)options->max_buffer;
}

int bl_winograd_tile(const bl_front_options *options, const bl_node *x, const bl_node *w, const bl_frame *f, int64_t groups,
                     bl_winograd_use use)
{
    if (use == BL_WINOGRAD_NEVER || !winograd_fits(x, w, f, groups))
        return 0;
    double lanes = options->lanes > 1 ? options->lanes : 1;
    double small = winograd_cost_of(x, w, f, lanes, 2), large = winograd_cost_of(x, w, f, lanes, 4);
    double least = small < large ? small * WORTH : large * WORTH_DIGITS;
    if (use == BL_WINOGRAD_SURE && (options->lanes == 0 || direct_cost(x, w, f, lanes) < least))
        return 0;
    int tile = small < large ? 2 : 4;
    return winograd_has_room(options, x, w, f, tile) ? tile : 0;
}
