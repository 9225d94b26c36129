/* SPDX-License-Identifier: MIT */
/* Unpacks the fields of ggml's quantised blocks and packs them as planes. */
#include "proto/llm/repack.h"

#include "engine/base/status.h"

#include <string.h>

enum { MOST_BLOCK = 256 };

/* Byte offsets of the fields in a block of ggml-common.h; -1: no such field. */
typedef struct fields {
    int scale, minimum, sub, high, codes;
} fields;

static const fields layout[BL_QUANT_TYPES] = {
    [BL_QUANT_Q8_0] = {0, -1, -1, -1, 2},     [BL_QUANT_Q4_0] = {0, -1, -1, -1, 2},   [BL_QUANT_Q4_1] = {0, 2, -1, -1, 4},
    [BL_QUANT_Q5_0] = {0, -1, -1, 2, 6},      [BL_QUANT_Q5_1] = {0, 2, -1, 4, 8},     [BL_QUANT_Q2_K] = {80, 82, 0, -1, 16},
    [BL_QUANT_Q3_K] = {108, -1, 96, 0, 32},   [BL_QUANT_Q4_K] = {0, 2, 4, -1, 16},    [BL_QUANT_Q5_K] = {0, 2, 4, 16, 48},
    [BL_QUANT_Q6_K] = {208, -1, 192, 128, 0}, [BL_QUANT_IQ4_NL] = {0, -1, -1, -1, 2}, [BL_QUANT_IQ4_XS] = {0, -1, 2, -1, 8},
    [BL_QUANT_MXFP4] = {0, -1, -1, -1, 1},
};

/* ---- unpacking the codes of a block of 256 elements, one byte per code */

/* Q4_K and Q5_K: 32 bytes have 64 codes, first those of the low nibbles, then those of the high nibbles.  |high|: bit g of 32
 * bytes is the fifth bit of the g-th run of 32 codes. */
static void spread_halves(const uint8_t *codes, const uint8_t *high, uint8_t *out)
{
    for (int g = 0; g < 8; g++) {
        for (int i = 0; i < 32; i++) {
            uint8_t code = (uint8_t)(codes[g / 2 * 32 + i] >> (g % 2 * 4) & 15);
            out[g * 32 + i] = (uint8_t)(high == NULL ? code : code | (high[i] >> g & 1) << 4);
        }
    }
}

/* Q2_K and Q3_K: 32 bytes have 128 codes, those of the lowest two bits first.  |high|: bit k of 32 bytes is the third bit of
 * the k-th run of 32 codes. */
static void spread_quarters(const uint8_t *codes, const uint8_t *high, uint8_t *out)
{
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 32; i++) {
            uint8_t code = (uint8_t)(codes[k / 4 * 32 + i] >> (k % 4 * 2) & 3);
            out[k * 32 + i] = (uint8_t)(high == NULL ? code : code | (high[i] >> k & 1) << 2);
        }
    }
}

/* Q6_K: 64 bytes have the lower four bits of 128 codes, first the low nibbles, then the high nibbles.  |high|: 32 bytes have
 * the upper two bits of 128 codes, the lowest two bits first. */
static void spread_six(const uint8_t *codes, const uint8_t *high, uint8_t *out)
{
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 32; i++) {
            int low = codes[k / 4 * 64 + k % 2 * 32 + i] >> (k % 4 / 2 * 4) & 15;
            out[k * 32 + i] = (uint8_t)(low | (high[k / 4 * 32 + i] >> (k % 4 * 2) & 3) << 4);
        }
    }
}

/* Packs |bits| bits of each of |block| codes, from bit |from| on, in the layout of the planes: 16 lanes, one byte each. */
static void pack_bits(const uint8_t *code, int block, int from, int bits, uint8_t *out)
{
    int count = 8 / bits;
    for (int at = 0; at < block; at += BL_QUANT_LANES * count, out += BL_QUANT_LANES) {
        memset(out, 0, BL_QUANT_LANES);
        for (int k = 0; k < count; k++) {
            for (int j = 0; j < BL_QUANT_LANES; j++)
                out[j] = (uint8_t)(out[j] | (code[at + k * BL_QUANT_LANES + j] >> from & ((1 << bits) - 1)) << (k * bits));
        }
    }
}

/* ---- unpacking the sub-scales of a block */

static void spread_six_bit_pairs(const uint8_t *s, uint8_t *scales, uint8_t *minimums)
{
    for (int i = 0; i < 4; i++) {
        scales[i] = s[i] & 63;
        scales[i + 4] = (uint8_t)((s[i + 8] & 15) | (s[i] >> 2 & 48));
        minimums[i] = s[i + 4] & 63;
        minimums[i + 4] = (uint8_t)(s[i + 8] >> 4 | (s[i + 4] >> 2 & 48));
    }
}

static void spread_three_k(const uint8_t *s, uint8_t *scales)
{
    for (int i = 0; i < 16; i++)
        scales[i] = (uint8_t)(((s[i % 8] >> (i / 8 * 4) & 15) | (s[8 + i % 4] >> (i / 4 * 2) & 3) << 4) - 32);
}

static void spread_four_xs(const uint8_t *s, uint8_t *scales)
{
    for (int i = 0; i < 8; i++)
        scales[i] = (uint8_t)(((s[2 + i / 2] >> (i % 2 * 4) & 15) | (s[i / 4] >> (i % 4 * 2) & 3) << 4) - 32);
}

static void fill_scales(const bl_quant_type *type, const uint8_t *s, uint8_t *scales, uint8_t *minimums)
{
    switch (type->scales) {
    case BL_QUANT_SCALES_NONE:
        return;
    case BL_QUANT_SCALES_U8_32:
        spread_six_bit_pairs(s, scales, minimums);
        return;
    case BL_QUANT_SCALES_I8_32:
        spread_four_xs(s, scales);
        return;
    case BL_QUANT_SCALES_I8_16:
        if (type->id == BL_QUANT_Q3_K)
            spread_three_k(s, scales);
        else
            memcpy(scales, s, 16);
        return;
    case BL_QUANT_SCALES_NIBBLES_16:
        memcpy(scales, s, 16);
        return;
    }
}

/* ---- a block */

/* Destinations of the fields of one block; NULL: skip the field. */
typedef struct places {
    uint8_t *codes, *high, *scale, *scales, *minimum, *minimums;
} places;

/* 2^(|e| - 127) / 2 as bfloat16; for |e| below 2 a subnormal number. */
static uint16_t repack_power_of_two(uint8_t e)
{
    return (uint16_t)(e < 2 ? 0x20 << e : (e - 1) << 7);
}

static void fill_codes(const bl_quant_type *type, const fields *at, const uint8_t *block, const places *to)
{
    uint8_t code[MOST_BLOCK];
    const uint8_t *high = at->high < 0 ? NULL : block + at->high;

    if (to->codes == NULL && to->high == NULL)
        return;
    if (type->block == 32) { /* ggml's layout is that of the planes */
        if (to->codes != NULL)
            memcpy(to->codes, block + at->codes, (size_t)type->codes * 4);
        if (to->high != NULL)
            memcpy(to->high, high, 4);
        return;
    }
    if (type->id == BL_QUANT_IQ4_XS) {
        memcpy(to->codes, block + at->codes, 128);
        return;
    }
    if (type->codes == 2)
        spread_quarters(block + at->codes, high, code);
    else if (type->high == 2)
        spread_six(block + at->codes, high, code);
    else
        spread_halves(block + at->codes, high, code);
    if (to->codes != NULL)
        pack_bits(code, type->block, 0, type->codes, to->codes);
    if (to->high != NULL)
        pack_bits(code, type->block, type->codes, type->high, to->high);
}

static void fill_block(const bl_quant_type *type, const uint8_t *block, const places *to)
{
    const fields *at = &layout[type->id];
    uint8_t unwanted[16];

    if (to->scale != NULL && type->id == BL_QUANT_MXFP4) {
        uint16_t scale = repack_power_of_two(block[0]);
        memcpy(to->scale, &scale, 2);
    } else if (to->scale != NULL) {
        memcpy(to->scale, block + at->scale, 2);
    }
    if (to->minimum != NULL)
        memcpy(to->minimum, block + at->minimum, 2);
    fill_codes(type, at, block, to);
    if (to->scales != NULL || to->minimums != NULL)
        fill_scales(type, block + at->sub, to->scales != NULL ? to->scales : unwanted,
                    to->minimums != NULL ? to->minimums : unwanted);
}

/* Finds the plane with the suffix, and its bytes per block. */
static uint8_t *find_plane(const bl_quant_plane *plane, int n, void *const *planes, const char *suffix, size_t *bytes)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(plane[i].suffix, suffix) == 0) {
            *bytes = plane[i].bytes;
            return planes[i];
        }
    }
    *bytes = 0;
    return NULL;
}

void bl_quant_fill(const bl_quant_type *type, int64_t first, int64_t last, int64_t columns, const void *blocks,
                   void *const *planes)
{
    static const char *const suffix[BL_QUANT_PLANES] = {"codes", "high", "scale", "scales", "minimum", "minimums"};
    bl_quant_plane plane[BL_QUANT_PLANES];
    uint8_t *base[BL_QUANT_PLANES];
    size_t step[BL_QUANT_PLANES];
    int n = bl_quant_planes(type, 1, type->block, plane);
    int64_t per_row = columns / type->block;

    for (int i = 0; i < BL_QUANT_PLANES; i++)
        base[i] = find_plane(plane, n, planes, suffix[i], &step[i]);
    for (int64_t b = first * per_row; b < last * per_row; b++) {
        uint8_t *to[BL_QUANT_PLANES];
        for (int i = 0; i < BL_QUANT_PLANES; i++)
            to[i] = base[i] != NULL ? base[i] + (size_t)b * step[i] : NULL;
        fill_block(type, (const uint8_t *)blocks + (size_t)b * (size_t)type->bytes,
                   &(places){to[0], to[1], to[2], to[3], to[4], to[5]});
    }
}
