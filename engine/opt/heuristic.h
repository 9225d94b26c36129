/* The choice of moves that needs no search: good forms by rule, from what the device says of itself (engine/device/device.h).
 * docs/engine.md says which form is chosen when, and why. */
#ifndef BL_OPT_HEURISTIC_H
#define BL_OPT_HEURISTIC_H

#include "engine/ir/matrix.h"
#include "engine/opt/move.h"

/* When a product goes to matrix units without a search: never, where they are sure to win, or wherever it can. */
typedef enum bl_matrix_use { BL_MATRIX_NEVER, BL_MATRIX_SURE, BL_MATRIX_ALWAYS } bl_matrix_use;

/* A shape that products of the nest may go to.  |rate|: how many multiply-adds the unit does in the time in which vectors do one
 * of float32, at their best; 0: unknown. */
typedef struct bl_target_unit {
    bl_matrix shape;
    uint8_t rate;
} bl_target_unit;

/* What the choice depends on: a copy of a few fields of the device's own description. */
typedef struct bl_target {
    bool groups; /* real work-groups (GPU, lavapipe); else a group is one work-item (a CPU under OpenCL) */
    bool cpu;
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
    uint32_t max_turns; /* of all loops of a work-item; 0: no limit */
    bool converts_half; /* float16 is made float32 by an instruction */
    bl_matrix_use use;
    int nmatrix;
    bl_target_unit matrix[16]; /* units of the device: of those of one dtype the best first; then those for operands to split */
    bl_precision precision;    /* high where there are such */
    uint32_t fragments;        /* that a work-item's unit has registers for; 0: as many as its own registers hold */
} bl_target;

/* Its units of bfloat16, if it has any, may do products of float32 in three parts. */
void bl_target_split(bl_target *target);
/* Apply what fits |tune| best. */
void bl_heuristic(bl_tune *tune, const bl_target *target);

/* What one value of a nest may take in local memory for each of its rows (bl_sched_options.stage_bytes).  No matter how much
 * where groups have work-items: they take a few columns of it at a time. */
int64_t bl_stage_bytes(const bl_target *target);
/* Outputs of one row that the work-items of a group can have (bl_sched_options.group_columns); 0 where it is one work-item. */
int64_t bl_group_columns(const bl_target *target);

#endif
