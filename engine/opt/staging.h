/* Staging: a value that a nest reads is kept in a copy that is nearer to the nest. Every kind of the move |stage| (moves.def)
 * makes such a copy. Each copy has
 *
 *   a footprint  the dimensions of the copy: the axes of the nest along which the value differs
 *   a layout     the index of an element in the copy, as the nest reads it: an expression of the axes
 *   a filler     what stores the elements: a helper kernel before the nest, if the copy is in global memory, or the work-items of
 *                the group, if it is in local memory. The filler has indices of its own in place of the axes of the nest
 *
 *           file     copy of     footprint                     layout                     memory  filler
 *   panels  pack.c   an operand  all axes                      order of the nest's loops  global  helper
 *   halo    edges.c  an operand  all axes, joined to windows   order of the operand       global  helper
 *   local   share.c  an operand  axes inside a group           rows, padding, vectors     local   group, in the operand's order
 *   values  score.c  a value     axes inside a group           rows                       local   group
 *
 * Used by the files of engine/opt. */
#ifndef BL_OPT_STAGING_H
#define BL_OPT_STAGING_H

#include "engine/opt/opt_internal.h"

/* A dimension of a copy. */
typedef struct stage_dim {
    const bl_node *range;  /* the axis of the nest */
    const bl_node *index;  /* the index at which the nest reads: the axis, or with a halo a sum of axes */
    const bl_node *extent; /* INDEX */
    int64_t stride;        /* of the operand; only where a layout or a filler goes by strides */
    bool reduced;          /* an axis of a reduction */
} stage_dim;

typedef struct staging {
    bl_tune *tune;
    int n;
    stage_dim dim[BL_MAX_AXES]; /* outermost first */
    bl_ptrmap fill;             /* from an axis of the nest to the index that the filler has in place of it */
    int nloops;                 /* of a filler in the nest */
    const bl_node *loop[BL_MAX_AXES];
    bl_packed helper; /* of a copy in global memory */
} staging;

/* ---- the footprint */
void staging_init(staging *s, bl_tune *tune);
/* Is |dim| outside |other| in the layout? */
typedef bool staging_order(const stage_dim *dim, const stage_dim *other);
/* Add a dimension, as the innermost if |is_outside| is NULL. */
void staging_add(staging *s, stage_dim dim, staging_order *is_outside);
/* Add a dimension for each axis of the nest in |axes|, a set of tune->free, in the order of the loops. */
void staging_footprint(staging *s, uint64_t axes, staging_order *is_outside);

/* ---- the layout */
/* |index| extended by an inner dimension: index * extent + at. */
const bl_node *staging_inner(bl_ir *ir, const bl_node *index, const bl_node *extent, const bl_node *at);
/* The index along a dimension: of the nest, or of the filler (|fills|). */
const bl_node *staging_at(const staging *s, int dim, bool fills);
/* The index of an element in a copy without padding. */
const bl_node *staging_row_major(const staging *s, bool fills);

/* ---- the filler in the nest: local memory */
/* The number of a work-item among those along |axes|, a set of tune->free, and how many they are. */
const bl_node *staging_work_item(bl_tune *tune, uint64_t axes, int64_t *count);
/* The STAGE of |kind| in which the loops of |s| store |value| at |index| of |memory|, where |gate| is true (NULL: always). All
 * are in terms of the filler. */
const bl_node *staging_fill(const staging *s, unsigned kind, const bl_node *memory, const bl_node *index, const bl_node *value,
                            const bl_node *gate);

/* ---- the filler before the nest: global memory (helper.c) */
/* Begin a helper that fills a copy of |dtype| in loops over the dimensions. False if there can be no helper. */
bool helper_begin(staging *s, bl_dtype dtype);
/* Number those parameters among |below| that |to| lacks as the helper's parameters, from 1 on. False if there are too many. */
bool helper_renumber(bl_tune *tune, const bl_nodes *below, bl_ptrmap *to, bl_packed *packed);
/* The same for the parameters that |n| |values| read. */
bool helper_take_params(staging *s, int n, const bl_node *const *value);
/* A store into the copy, both in terms of the helper. */
const bl_node *helper_store(const staging *s, const bl_node *index, const bl_node *value);
/* Make the helper of |n| stores. */
bool helper_end(staging *s, int n, const bl_node *const *stores);
/* The helper that stores each value[i] at index[i], both as the nest has them; there are at most PACK_HALVES. */
bool helper_fill(staging *s, int n, const bl_node *const *value, const bl_node *const *index);
/* Make the copy a parameter of the nest. Returns the LOAD of its element |index|. */
const bl_node *helper_read(const staging *s, const bl_node *index);

#endif
