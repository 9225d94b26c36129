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

/* Types with blocks of 32: 16 bytes have the low nibbles of 16 codes, then the high nibbles of 16 more, and bit e of the word
 * |high| is the fifth bit of code e.  A Q8_0 code is stored with 128 added. */
static void spread_small(const bl_quant_type *type, const uint8_t *codes, const uint8_t *high, uint8_t *out)
{
    for (int e = 0; e < 32; e++) {
        uint8_t code = (uint8_t)(type->codes == 8 ? codes[e] ^ 128 : codes[e % 16] >> (e / 16 * 4) & 15);
        out[e] = (uint8_t)(high == NULL ? code : code | (high[e / 8] >> e % 8 & 1) << 4);
    }
}

/* IQ4_XS: chunks of 32 codes as in a block of 32. */
static void spread_chunks(const uint8_t *codes, uint8_t *out)
{
    for (int e = 0; e < 256; e++)
        out[e] = codes[e / 32 * 16 + e % 16] >> (e % 32 / 16 * 4) & 15;
}

/* Packs |bits| bits of each of |block| codes, from bit |from| on, into the words of one row of the plane; |out| is the first word
 * of the row. */
static void pack_words(const uint8_t *code, int block, int from, int bits, uint32_t *out)
{
    for (int chunk = 0; chunk < block; chunk += BL_QUANT_CHUNK, out += bits * BL_QUANT_ROWS) {
        for (int word = 0; word < bits; word++) {
            uint32_t packed = 0;
            for (int i = word * 8 / bits; i < (word + 1) * 8 / bits; i++) {
                for (int j = 0; j < 4; j++)
                    packed |= (uint32_t)(code[chunk + 4 * i + j] >> from & ((1 << bits) - 1)) << (8 * j + i * bits % 8);
            }
            out[word * BL_QUANT_ROWS] = packed;
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

/* The fields of a block. */
typedef struct block_fields {
    uint8_t code[MOST_BLOCK], scales[16], minimums[16];
    uint16_t scale, minimum;
} block_fields;

/* 2^(|e| - 127) / 2 as bfloat16; for |e| below 2 a subnormal number. */
static uint16_t repack_power_of_two(uint8_t e)
{
    return (uint16_t)(e < 2 ? 0x20 << e : (e - 1) << 7);
}

static void spread_codes(const bl_quant_type *type, const fields *at, const uint8_t *block, uint8_t *code)
{
    const uint8_t *codes = block + at->codes, *high = at->high < 0 ? NULL : block + at->high;

    if (type->block == 32)
        spread_small(type, codes, high, code);
    else if (type->id == BL_QUANT_IQ4_XS)
        spread_chunks(codes, code);
    else if (type->codes == 2)
        spread_quarters(codes, high, code);
    else if (type->high == 2)
        spread_six(codes, high, code);
    else
        spread_halves(codes, high, code);
}

static void read_block(const bl_quant_type *type, const uint8_t *block, bool codes, bool subs, block_fields *out)
{
    const fields *at = &layout[type->id];

    if (type->id == BL_QUANT_MXFP4)
        out->scale = repack_power_of_two(block[0]);
    else
        memcpy(&out->scale, block + at->scale, 2);
    if (at->minimum >= 0)
        memcpy(&out->minimum, block + at->minimum, 2);
    if (codes)
        spread_codes(type, at, block, out->code);
    if (subs)
        fill_scales(type, block + at->sub, out->scales, out->minimums);
}

/* ---- planes */

enum { CODES, HIGH, SCALE, SCALES, MINIMUM, MINIMUMS };

/* The planes by the enum above, and where row |lane| of a group has its first number of block |b| of the group's row. */
typedef struct destination {
    char *plane[BL_QUANT_PLANES];
    int64_t block; /* number of the block among those of all groups */
    int lane;
} destination;

/* The first of |count| numbers of |bytes| bytes that the block has in a row of the plane. */
static void *place_in(const destination *to, int plane, int64_t count, size_t bytes)
{
    return to->plane[plane] + ((size_t)(to->block * count) * BL_QUANT_ROWS + (size_t)to->lane) * bytes;
}

static void put_bytes(const destination *to, int plane, const uint8_t *from, int count)
{
    uint8_t *out = place_in(to, plane, count, 1);
    for (int i = 0; i < count; i++)
        out[i * BL_QUANT_ROWS] = from[i];
}

static void put_block(const bl_quant_type *type, const block_fields *block, const destination *to)
{
    const int chunks = type->block / BL_QUANT_CHUNK, subs = type->block / bl_quant_sub(type);

    if (to->plane[CODES] != NULL)
        pack_words(block->code, type->block, 0, type->codes, place_in(to, CODES, (int64_t)chunks * type->codes, 4));
    if (to->plane[HIGH] != NULL)
        pack_words(block->code, type->block, type->codes, type->high, place_in(to, HIGH, (int64_t)chunks * type->high, 4));
    if (to->plane[SCALE] != NULL)
        memcpy(place_in(to, SCALE, 1, 2), &block->scale, 2);
    if (to->plane[MINIMUM] != NULL)
        memcpy(place_in(to, MINIMUM, 1, 2), &block->minimum, 2);
    if (to->plane[SCALES] != NULL)
        put_bytes(to, SCALES, block->scales, subs);
    if (to->plane[MINIMUMS] != NULL)
        put_bytes(to, MINIMUMS, block->minimums, subs);
}

/* Sort the planes of the type by the enum. */
static void sort_planes(const bl_quant_type *type, void *const *planes, destination *to)
{
    static const char *const suffix[BL_QUANT_PLANES] = {"codes", "high", "scale", "scales", "minimum", "minimums"};
    bl_quant_plane plane[BL_QUANT_PLANES];
    int n = bl_quant_planes(type, 1, type->block, plane);

    for (int i = 0; i < n; i++) {
        for (int k = 0; k < BL_QUANT_PLANES; k++)
            to->plane[k] = strcmp(plane[i].suffix, suffix[k]) == 0 ? planes[i] : to->plane[k];
    }
}

void bl_quant_fill(const bl_quant_type *type, int64_t rows, int64_t columns, const void *blocks, void *const *planes)
{
    destination to = {{NULL}, 0, 0};
    int64_t per_row = columns / type->block;

    sort_planes(type, planes, &to);
    bool codes = to.plane[CODES] != NULL || to.plane[HIGH] != NULL, subs = to.plane[SCALES] != NULL || to.plane[MINIMUMS] != NULL;
    for (int64_t group = 0; group < bl_quant_groups(rows); group++) {
        for (int64_t b = 0; b < per_row; b++) {
            to.block = group * per_row + b;
            for (to.lane = 0; to.lane < BL_QUANT_ROWS; to.lane++) {
                int64_t row = group * BL_QUANT_ROWS + to.lane;
                block_fields block = {{0}, {0}, {0}, 0, 0};
                if (row < rows)
                    read_block(type, (const uint8_t *)blocks + (size_t)(row * per_row + b) * (size_t)type->bytes, codes, subs,
                               &block);
                put_block(type, &block, &to);
            }
        }
    }
}
