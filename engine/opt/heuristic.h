/* The heuristic: a choice of moves without a search, by rules over the device's description (engine/device/device.h).
 * docs/engine.md states the rules and their reasons. */
#ifndef BL_OPT_HEURISTIC_H
#define BL_OPT_HEURISTIC_H

#include "engine/ir/matrix_unit.h"
#include "engine/opt/move.h"

/* When to use matrix units without a search: never, where they are sure to be faster, or wherever they apply. */
typedef enum bl_matrix_use { BL_MATRIX_NEVER, BL_MATRIX_SURE, BL_MATRIX_ALWAYS } bl_matrix_use;

/* A matrix unit that products of the nest may use. |rate|: multiply-adds in the time of one float32 multiply-add of the vector
 * units, both at their peak; 0: unknown. */
typedef struct bl_target_unit {
    bl_matrix shape;
    uint8_t rate;
} bl_target_unit;

/* How a device runs a work-group: one work-item only (a CPU by OpenCL); several that run at once (a GPU); or several that one
 * core runs in turn, to which barriers are dear and local memory is no nearer than a cache (lavapipe). */
typedef enum bl_group_kind { BL_GROUP_OF_ONE, BL_GROUP_PARALLEL, BL_GROUP_SERIAL } bl_group_kind;

/* The target: a copy of those fields of the device's description on which the choice depends. */
typedef struct bl_target {
    bl_group_kind groups;
    uint32_t units;
    uint32_t vector_bits; /* 0: scalars */
    uint32_t max_lanes;   /* 0: no limit */
    uint32_t registers;
    uint32_t cache_bytes;
    uint32_t last_cache_bytes; /* 0: unknown */
    uint32_t subgroup;
    uint32_t max_local;
    uint32_t local_bytes;
    uint32_t max_params;
    uint32_t max_turns; /* most loop iterations of a work-item in all; 0: no limit */
    bool converts_half; /* float16 is converted to float32 by one instruction */
    bool masks;         /* a gate for each lane of a vector costs nothing */
    bl_matrix_use use;
    int nmatrix;
    /* the device's units, among those of one dtype the best first; then the units for split operands */
    bl_target_unit matrix[16];
    bl_precision precision; /* HIGH if there are units for split operands */
    /* number of fragments for which a work-item's unit has registers; 0: they use the work-item's own registers */
    uint32_t fragments;
} bl_target;

/* Let the target's bfloat16 units, if any, compute products of float32 in three parts. */
void bl_target_split(bl_target *target);
/* Choose and apply moves to |tune|. */
void bl_heuristic(bl_tune *tune, const bl_target *target);

/* Bytes of local memory that one value of a nest may take per row (bl_sched_options.stage_bytes). Large if groups have several
 * work-items: these stage a few columns at a time. */
int64_t bl_stage_bytes(const bl_target *target);
/* Outputs of one row that the work-items of a group may compute (bl_sched_options.group_columns); 0 if a group is one
 * work-item. */
int64_t bl_group_columns(const bl_target *target);

#endif
