/* SPDX-License-Identifier: MIT */
/* Block-quantised matrices as planes. A matrix [rows, columns] of a type of quant.def is stored as several tensors of plain
 * dtypes, its planes, so that no op has to unpack blocks of mixed fields. Thread: any; all data is constant.
 *
 * Planes, in the order in which ops take them (bl_quant_planes lists the planes of a type). A lane is one of 16 consecutive
 * elements; the bits of element e are in byte e % 16.
 *   codes     uint8 [rows, columns / unit, 16]; a unit is 16 * 8 / codes elements, and its element e starts at bit
 *             codes * (e / 16) of byte e % 16. Codes of 8 bits are int8 [rows, columns / 32, 32].
 *   high      the upper bits of the codes: uint8 [rows, columns / span, 16]; a span is 16 * 8 / high elements, laid out as a
 *             unit. If a block is smaller than a span: uint32 [rows, columns / 32], bit e for element e
 *   scale     float16 (mxfp4: bfloat16) [rows, columns / block]
 *   scales    sub-scales: uint8 or int8 [rows, columns / sub], a sub-block is 16 or 32 elements
 *   minimum   float16 [rows, columns / block]
 *   minimums  factors of the minimum: uint8 [rows, columns / sub] */
#ifndef BL_FRONT_QUANT_H
#define BL_FRONT_QUANT_H

#include "engine/ir/dtype.h"

enum { BL_QUANT_LANES = 16, BL_QUANT_PLANES = 6 };

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
    int64_t dim[3]; /* rows, then the extents given above */
    size_t bytes;
} bl_quant_plane;

/* Find a type by its name in quant.def, or by its number in ggml; NULL if there is none. */
const bl_quant_type *bl_quant_get(const char *name);
const bl_quant_type *bl_quant_find(int ggml);

/* Number of elements per sub-scale; per block if there are no sub-scales. */
int bl_quant_sub(const bl_quant_type *type);
/* Number of elements that share the bytes of a row of the plane "codes". */
int bl_quant_unit(const bl_quant_type *type);
/* Number of elements that share the bytes of a row of the plane "high"; 32 if the row is a word; 0 without that plane. */
int bl_quant_span(const bl_quant_type *type);
/* Describe the planes of a matrix. Returns their number, or 0 if |columns| is no multiple of a block or a plane is too
 * large. */
int bl_quant_planes(const bl_quant_type *type, int64_t rows, int64_t columns, bl_quant_plane plane[BL_QUANT_PLANES]);

#endif
