/* SPDX-License-Identifier: MIT */
/* Block-quantised matrices as planes. A matrix [rows, columns] of a type of quant.def is stored as several tensors of plain
 * dtypes, its planes, so that no op has to unpack blocks of mixed fields. Thread: any; all data is constant.
 *
 * A plane interleaves the 16 rows of a group, so that a vector holds the same place of 16 rows; the last group is filled up with
 * zeros. A chunk is 32 columns. A word has the bits of four columns, a byte for each: the bits of column 4 * i + j of a chunk are
 * in byte j of word i * bits / 8, from bit i * bits % 8 on.
 *
 * Planes, in the order in which ops take them (bl_quant_planes lists the planes of a type), with groups = rows / 16 rounded up:
 *   codes     int32 [groups, columns / 32, codes, 16]: words with |codes| bits of each column
 *   high      int32 [groups, columns / 32, high, 16]: the same with the upper bits of the codes
 *   scale     float16 (mxfp4: bfloat16) [groups, columns / block, 16]
 *   scales    sub-scales: uint8 or int8 [groups, columns / sub, 16]; a sub-block is 16 or 32 columns
 *   minimum   float16 [groups, columns / block, 16]
 *   minimums  factors of the minimum: uint8 [groups, columns / sub, 16] */
#ifndef BL_FRONT_QUANT_H
#define BL_FRONT_QUANT_H

#include "engine/ir/dtype.h"

enum { BL_QUANT_ROWS = 16, BL_QUANT_CHUNK = 32, BL_QUANT_PLANES = 6 };

typedef enum bl_quant_id {
#define BL_QUANT(id, name, ggml, block, bytes, codes, high, scales, zero, minimum, values) BL_QUANT_##id,
#include "engine/front/quant.def"
#undef BL_QUANT
    BL_QUANT_TYPES
} bl_quant_id;

typedef enum bl_quant_scales {
    BL_QUANT_SCALES_NONE,
    BL_QUANT_SCALES_U8_32,
    BL_QUANT_SCALES_I8_32,
    BL_QUANT_SCALES_I8_16,
    BL_QUANT_SCALES_NIBBLES_16
} bl_quant_scales;

typedef enum bl_quant_minimum { BL_QUANT_MINIMUM_NONE, BL_QUANT_MINIMUM_ADDED, BL_QUANT_MINIMUM_TAKEN } bl_quant_minimum;

typedef struct bl_quant_type {
    bl_quant_id id;
    const char *name;
    int ggml;         /* number of the type in ggml */
    int block, bytes; /* elements and bytes of a block in ggml */
    int codes, high;  /* bits per element */
    bl_quant_scales scales;
    int zero;
    bl_quant_minimum minimum;
    const int8_t *values; /* 16 values, or NULL */
} bl_quant_type;

typedef struct bl_quant_plane {
    const char *suffix; /* "codes", "high", ... */
    bl_dtype dtype;
    int ndim;
    int64_t dim[4]; /* the extents given above */
    size_t bytes;
} bl_quant_plane;

/* Find a type by its name in quant.def, or by its number in ggml; NULL if there is none. */
const bl_quant_type *bl_quant_get(const char *name);
const bl_quant_type *bl_quant_find(int ggml);

/* Number of elements per sub-scale; per block if there are no sub-scales. */
int bl_quant_sub(const bl_quant_type *type);
/* Number of groups of rows, the last of which may be filled up. */
static inline int64_t bl_quant_groups(int64_t rows)
{
    return rows / BL_QUANT_ROWS + (rows % BL_QUANT_ROWS > 0);
}
/* Describe the planes of a matrix. Returns their number, or 0 if |columns| is no multiple of a block or a plane is too
 * large. */
int bl_quant_planes(const bl_quant_type *type, int64_t rows, int64_t columns, bl_quant_plane plane[BL_QUANT_PLANES]);

#endif
