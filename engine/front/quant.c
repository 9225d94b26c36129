/* SPDX-License-Identifier: MIT */
/* Block-quantised matrices: their types, their planes, and the ops that read them. The lanes of a kernel are 16 rows of the
 * matrix, which are interleaved in each plane. A product with activations rounded to int8 is one sum over chunks of 32 columns;
 * the value of a chunk has integer dot products of four bytes each (DOT4), written out. */
#include "engine/front/quant.h"

#include "engine/base/size.h"
#include "engine/front/build.h"

#include <string.h>

static const int8_t bl_quant_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t bl_quant_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static const bl_quant_type types[BL_QUANT_TYPES] = {
#define BL_QUANT(id, name, ggml, block, bytes, codes, high, scales, zero, minimum, values)                                       \
    [BL_QUANT_##                                                                                                                 \
        id] = {BL_QUANT_##id, name, ggml, block, bytes, codes, high, BL_QUANT_SCALES_##scales, zero, BL_QUANT_MINIMUM_##minimum, \
               values},
#include "engine/front/quant.def"
#undef BL_QUANT
};

const bl_quant_type *bl_quant_get(const char *name)
{
    for (int i = 0; i < BL_QUANT_TYPES; i++) {
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    }
    return NULL;
}

const bl_quant_type *bl_quant_find(int ggml)
{
    for (int i = 0; i < BL_QUANT_TYPES; i++) {
        if (types[i].ggml == ggml)
            return &types[i];
    }
    return NULL;
}

int bl_quant_sub(const bl_quant_type *type)
{
    switch (type->scales) {
    case BL_QUANT_SCALES_NONE:
        break;
    case BL_QUANT_SCALES_U8_32:
    case BL_QUANT_SCALES_I8_32:
        return 32;
    case BL_QUANT_SCALES_I8_16:
    case BL_QUANT_SCALES_NIBBLES_16:
        return 16;
    }
    return type->block;
}

int bl_quant_planes(const bl_quant_type *type, int64_t rows, int64_t columns, bl_quant_plane plane[BL_QUANT_PLANES])
{
    int n = 0;
    int64_t groups = bl_quant_groups(rows), chunks = columns / BL_QUANT_CHUNK, blocks = columns / type->block;
    int64_t subs = columns / bl_quant_sub(type);

    if (rows < 0 || columns < 0 || columns % type->block != 0)
        return 0;
    plane[n++] = (bl_quant_plane){"codes", BL_I32, 4, {groups, chunks, type->codes, BL_QUANT_ROWS}, 0};
    if (type->high > 0)
        plane[n++] = (bl_quant_plane){"high", BL_I32, 4, {groups, chunks, type->high, BL_QUANT_ROWS}, 0};
    plane[n++] =
        (bl_quant_plane){"scale", type->id == BL_QUANT_MXFP4 ? BL_BF16 : BL_F16, 3, {groups, blocks, BL_QUANT_ROWS, 1}, 0};
    if (type->scales != BL_QUANT_SCALES_NONE) {
        bool whole = type->scales == BL_QUANT_SCALES_I8_16 || type->scales == BL_QUANT_SCALES_I8_32;
        plane[n++] = (bl_quant_plane){"scales", whole ? BL_I8 : BL_U8, 3, {groups, subs, BL_QUANT_ROWS, 1}, 0};
    }
    if (type->minimum != BL_QUANT_MINIMUM_NONE)
        plane[n++] = (bl_quant_plane){"minimum", BL_F16, 3, {groups, blocks, BL_QUANT_ROWS, 1}, 0};
    if (type->scales == BL_QUANT_SCALES_U8_32 && type->minimum == BL_QUANT_MINIMUM_TAKEN)
        plane[n++] = (bl_quant_plane){"minimums", BL_U8, 3, {groups, subs, BL_QUANT_ROWS, 1}, 0};
    for (int i = 0; i < n; i++) {
        plane[i].bytes = bl_dtype_bytes(plane[i].dtype);
        for (int d = 0; d < plane[i].ndim; d++) {
            if (!bl_size_mul(plane[i].bytes, (size_t)plane[i].dim[d], &plane[i].bytes))
                return 0;
        }
    }
    return n;
}

/* ---- the planes of a node */

enum { CODES, HIGH, SCALE, SCALES, MINIMUM, MINIMUMS };

/* A quantised matrix [lead.., rows, columns] given as planes. */
typedef struct matrix {
    bl_call *c;
    const bl_quant_type *type;
    const bl_node *plane[BL_QUANT_PLANES]; /* indexed by the enum above; NULL if the type lacks the plane */
    int nlead;                             /* number of axes before the columns; the last of them is the groups of rows */
    const bl_node *lead[BL_MAX_DIMS];
    int64_t rows, columns;
    int lanes; /* rows of a group: BL_QUANT_ROWS, or 1 after rows were taken */
    int nloops;
    int64_t loop[2]; /* blocks, and chunks of a block if there are several */
} matrix;

static int slot_of_suffix(const char *suffix)
{
    static const char *const names[BL_QUANT_PLANES] = {"codes", "high", "scale", "scales", "minimum", "minimums"};
    int at = 0;
    while (strcmp(names[at], suffix) != 0)
        at++;
    return at;
}

/* Does |x| have the dtype of |plane|, and its extents after the leading axes? */
static bool quant_fits(const matrix *m, const bl_node *x, const bl_quant_plane *plane)
{
    bool fits = x->dtype == plane->dtype && x->ndim == m->nlead + plane->ndim - 1;

    for (int d = 0; fits && d < x->ndim; d++)
        fits = d < m->nlead ? x->dim[d] == m->lead[d] : bl_is_int(x->dim[d], plane->dim[1 + d - m->nlead]);
    return fits;
}

static const bl_node *fail_plane(const matrix *m, const bl_node *x, const bl_quant_plane *plane)
{
    const bl_node *dim[BL_MAX_DIMS];
    int ndim = m->nlead + plane->ndim - 1;

    for (int d = 0; d < ndim && d < BL_MAX_DIMS; d++)
        dim[d] = d < m->nlead ? m->lead[d] : bl_index(m->c->ir, plane->dim[1 + d - m->nlead]);
    return bl_call_fail(m->c, "plane %s of format %s must be %s%s, not %s", plane->suffix, m->type->name,
                        bl_dtype_name(plane->dtype), bl_shape_text(m->c->ir, ndim, dim, NULL), bl_node_text(m->c->ir, x));
}

/* The attribute "rows". */
static bool take_rows(bl_call *c, matrix *m)
{
    const bl_value *rows = bl_attr(c, "rows");
    const bl_node *groups = m->lead[m->nlead - 1];

    if (!bl_is_const(groups)) {
        bl_call_fail(c, "codes must have a fixed number of groups of rows, not %s", bl_call_shape(c, c->rest[0]));
        return false;
    }
    m->rows = groups->lo * BL_QUANT_ROWS;
    if (rows->given && (rows->whole < 1 || bl_quant_groups(rows->whole) != groups->lo)) {
        bl_call_fail(c, "rows is %lld, but the planes have %lld groups of %d rows", (long long)rows->whole, (long long)groups->lo,
                     BL_QUANT_ROWS);
        return false;
    }
    m->rows = rows->given ? rows->whole : m->rows;
    return true;
}

/* Read the planes, the last inputs of a node. False after a failure. */
static bool take_matrix(bl_call *c, matrix *m)
{
    const bl_quant_type *type = bl_quant_get(bl_attr(c, "format")->text);
    bl_quant_plane plane[BL_QUANT_PLANES];
    const bl_node *codes = c->nrest > 0 ? c->rest[0] : NULL;

    *m = (matrix){.c = c, .type = type, .lanes = BL_QUANT_ROWS};
    int wanted = bl_quant_planes(type, 0, 0, plane);
    if (c->nrest != wanted) {
        bl_call_fail(c, "format %s has %d planes, got %d", type->name, wanted, c->nrest);
        return false;
    }
    if (codes->ndim < 4 || !bl_is_const(codes->dim[codes->ndim - 3])) {
        bl_call_fail(c, "codes must have shape [.., rows / %d, columns / %d, %d, %d] with a fixed number of columns, not %s",
                     BL_QUANT_ROWS, BL_QUANT_CHUNK, type->codes, BL_QUANT_ROWS, bl_call_shape(c, codes));
        return false;
    }
    m->nlead = codes->ndim - 3;
    memcpy(m->lead, codes->dim, (size_t)m->nlead * sizeof *m->lead);
    int64_t chunks = bl_const_value(codes->dim[codes->ndim - 3]).i;
    if (chunks < 1 || chunks > INT32_MAX || chunks * BL_QUANT_CHUNK % type->block != 0) {
        bl_call_fail(c, "%lld chunks of %d codes are not a whole number of blocks of %d", (long long)chunks, BL_QUANT_CHUNK,
                     type->block);
        return false;
    }
    m->columns = chunks * BL_QUANT_CHUNK;
    bl_quant_planes(type, 1, m->columns, plane);
    for (int i = 0; i < wanted; i++) {
        if (!quant_fits(m, c->rest[i], &plane[i])) {
            fail_plane(m, c->rest[i], &plane[i]);
            return false;
        }
        m->plane[slot_of_suffix(plane[i].suffix)] = c->rest[i];
    }
    m->loop[m->nloops++] = m->columns / type->block;
    if (type->block > BL_QUANT_CHUNK)
        m->loop[m->nloops++] = type->block / BL_QUANT_CHUNK;
    return take_rows(c, m);
}

/* A plane as [lead.., loops.., |each|, lanes], with extent 1 for loops from |per| on; without the axis |each| if that is 0. */
static const bl_node *unfold(const matrix *m, int plane, int per, int each)
{
    bl_ir *ir = m->c->ir;
    const bl_node *dim[BL_MAX_DIMS + 4];
    int ndim = 0;

    for (int i = 0; i < m->nlead; i++)
        dim[ndim++] = m->lead[i];
    for (int i = 0; i < m->nloops; i++)
        dim[ndim++] = bl_index(ir, i < per ? m->loop[i] : 1);
    if (each > 0)
        dim[ndim++] = bl_index(ir, each);
    dim[ndim++] = bl_index(ir, m->lanes);
    return bl_call_reshape(m->c, m->plane[plane], ndim, dim);
}

/* Element |at| of the axis before the last one, which is dropped. */
static const bl_node *quant_pick(const matrix *m, const bl_node *x, int at)
{
    bl_ir *ir = m->c->ir;

    if (x->op == BL_OP_POISON)
        return x;
    x = bl_shrink_axis(ir, x, x->ndim - 2, bl_index(ir, at), bl_index(ir, 1));
    return x->op == BL_OP_POISON ? x : bl_drop_axes(ir, x, 1u << (x->ndim - 2));
}

/* Broadcast both and apply |op|. */
static const bl_node *quant_both(const matrix *m, bl_op op, const bl_node *x, const bl_node *y)
{
    const bl_node *in[2] = {x, y};
    return bl_call_broadcast(m->c, 2, in) ? bl_alu2(m->c->ir, op, in[0], in[1]) : in[0];
}

static const bl_node *quant_with(const matrix *m, bl_op op, const bl_node *x, int64_t constant)
{
    return x->op == BL_OP_POISON ? x : quant_both(m, op, x, bl_const_int(m->c->ir, (bl_dtype)x->dtype, constant));
}

static const bl_node *quant_cast(const matrix *m, bl_dtype dtype, const bl_node *x)
{
    return x->op == BL_OP_POISON ? x : bl_cast(m->c->ir, dtype, x);
}

/* ---- elements of a matrix as an expression */

/* |bits| bits of each element of a plane of words: int32 [lead.., loops.., 8, 4, lanes]. Element 4 * i + j of a chunk is in byte
 * j of word i * bits / 8, from bit i * bits % 8 on. */
static const bl_node *quant_elements(const matrix *m, int plane, int bits)
{
    bl_ir *ir = m->c->ir;
    const bl_node *x = unfold(m, plane, m->nloops, bits), *dim[BL_MAX_DIMS + 4];
    int ndim = 0;

    if (x->op == BL_OP_POISON || x->ndim + 2 > BL_MAX_DIMS)
        return x->op == BL_OP_POISON ? x : bl_call_fail_as(m->c, BL_ELIMIT, "the planes have too many dimensions");
    for (; ndim < x->ndim - 1; ndim++)
        dim[ndim] = x->dim[ndim];
    dim[ndim++] = bl_index(ir, 1);
    dim[ndim++] = bl_index(ir, 1);
    dim[ndim++] = bl_index(ir, m->lanes);
    x = bl_call_reshape(m->c, x, ndim, dim);
    dim[ndim - 3] = bl_index(ir, 8 / bits);
    dim[ndim - 2] = bl_index(ir, 4);
    x = bl_call_expand(m->c, x, ndim, dim);
    dim[ndim - 4] = bl_index(ir, 8);
    dim[ndim - 3] = dim[ndim - 2];
    dim[ndim - 2] = dim[ndim - 1];
    x = bl_call_reshape(m->c, x, ndim - 1, dim);
    if (x->op == BL_OP_POISON)
        return x;
    const bl_node *from = quant_with(m, BL_OP_MUL, bl_iota_like(ir, x, x->ndim - 2, BL_I32), 8);
    const bl_node *bit = quant_with(m, BL_OP_MUL, bl_iota_like(ir, x, x->ndim - 3, BL_I32), bits);
    from = bits < 8 ? bl_add(ir, from, quant_with(m, BL_OP_AND, bit, 7)) : from;
    return quant_with(m, BL_OP_AND, quant_both(m, BL_OP_SHR, x, from), (1 << bits) - 1);
}

/* values[code]: each quarter of the table is one word of four bytes. */
static const bl_node *quant_look_up(const matrix *m, const bl_node *code)
{
    bl_ir *ir = m->c->ir;
    const bl_node *word = NULL;

    if (code->op == BL_OP_POISON)
        return code;
    code = bl_cast(ir, BL_U32, code);
    for (int quarter = 3; quarter >= 0; quarter--) {
        uint32_t bytes = 0;
        for (int i = 3; i >= 0; i--)
            bytes = bytes << 8 | (uint8_t)(m->type->values[4 * quarter + i] + 128);
        const bl_node *here = bl_full_like(ir, code, bytes);
        const bl_node *is = bl_less(ir, code, bl_full_like(ir, code, 4 * (quarter + 1)));
        word = word == NULL ? here : bl_where(ir, is, here, word);
    }
    const bl_node *at = bl_mul(ir, bl_alu2(ir, BL_OP_AND, code, bl_full_like(ir, code, 3)), bl_full_like(ir, code, 8));
    const bl_node *byte = bl_alu2(ir, BL_OP_AND, bl_alu2(ir, BL_OP_SHR, word, at), bl_full_like(ir, code, 255));
    return quant_with(m, BL_OP_SUB, bl_cast(ir, BL_I32, byte), 128);
}

/* The integer codes with the type's zero subtracted, [lead.., loops.., 8, 4, lanes]. */
static const bl_node *take_codes(const matrix *m)
{
    const bl_quant_type *type = m->type;
    const bl_node *x = quant_elements(m, CODES, type->codes);

    if (type->high > 0)
        x = quant_both(m, BL_OP_OR, x, quant_with(m, BL_OP_SHL, quant_elements(m, HIGH, type->high), type->codes));
    if (type->values != NULL)
        return quant_look_up(m, x);
    return type->zero == 0 ? x : quant_with(m, BL_OP_SUB, x, type->zero);
}

/* Sub-blocks of a chunk; 1 if a sub-block is larger. */
static int subs_of_chunk(const bl_quant_type *type)
{
    return bl_quant_sub(type) < BL_QUANT_CHUNK ? BL_QUANT_CHUNK / bl_quant_sub(type) : 1;
}

/* Numbers for each sub-block as int32 [lead.., loops.., several, lanes]: |several| of them for a chunk. */
static const bl_node *sub_numbers(const matrix *m, int plane, int several)
{
    return quant_cast(m, BL_I32, unfold(m, plane, m->nloops, several));
}

/* The sub-scales and the factors of the minimum; NULL if the type has none. */
static void quant_sub_scales(const matrix *m, const bl_node **scales, const bl_node **minimums)
{
    const bl_quant_type *type = m->type;
    int several = subs_of_chunk(type);

    *scales = type->scales == BL_QUANT_SCALES_NONE ? NULL : sub_numbers(m, SCALES, several);
    *minimums = m->plane[MINIMUMS] != NULL ? sub_numbers(m, MINIMUMS, several) : NULL;
    if (type->scales == BL_QUANT_SCALES_NIBBLES_16) {
        *minimums = quant_with(m, BL_OP_SHR, *scales, 4);
        *scales = quant_with(m, BL_OP_AND, *scales, 15);
    }
}

/* The block's number of |plane|, float32 [lead.., loops.., lanes]. */
static const bl_node *block_number(const matrix *m, int plane)
{
    return quant_cast(m, BL_F32, unfold(m, plane, 1, 0));
}

/* The block's number of |plane|, times the sub-scales if there are any, as it broadcasts to [lead.., loops.., 8, 4, lanes]. */
static const bl_node *scale_of_elements(const matrix *m, int plane, const bl_node *sub)
{
    bl_ir *ir = m->c->ir;
    const bl_node *x = quant_cast(m, BL_F32, unfold(m, plane, 1, 1)), *dim[BL_MAX_DIMS + 4];

    if (sub != NULL)
        x = quant_both(m, BL_OP_MUL, x, quant_cast(m, BL_F32, sub));
    if (x->op == BL_OP_POISON || x->ndim == BL_MAX_DIMS)
        return x;
    int ndim = x->ndim + 1, several = (int)bl_const_value(x->dim[x->ndim - 2]).i;
    memcpy(dim, x->dim, (size_t)x->ndim * sizeof *dim);
    dim[ndim - 2] = bl_index(ir, 1);
    dim[ndim - 1] = bl_index(ir, m->lanes);
    if (several == 1)
        return bl_call_reshape(m->c, x, ndim, dim);
    dim[ndim - 3] = bl_index(ir, 2);
    x = bl_call_reshape(m->c, x, ndim, dim);
    dim[ndim - 2] = bl_index(ir, 4);
    x = bl_call_expand(m->c, x, ndim, dim);
    dim[ndim - 3] = bl_index(ir, 8);
    dim[ndim - 2] = bl_index(ir, 1);
    return bl_call_reshape(m->c, x, ndim, dim);
}

/* The elements, float32 [lead.., loops.., 8, 4, lanes]. Products of a scale, a sub-scale and a code are exact, so fusing the last
 * addition gives the same rounding. */
static const bl_node *quant_weights(const matrix *m)
{
    const bl_quant_type *type = m->type;
    const bl_node *scales, *minimums;

    quant_sub_scales(m, &scales, &minimums);
    const bl_node *x = quant_both(m, BL_OP_MUL, quant_cast(m, BL_F32, take_codes(m)), scale_of_elements(m, SCALE, scales));
    if (type->minimum == BL_QUANT_MINIMUM_NONE)
        return x;
    bl_op op = type->minimum == BL_QUANT_MINIMUM_TAKEN ? BL_OP_SUB : BL_OP_ADD;
    return quant_both(m, op, x, scale_of_elements(m, MINIMUM, minimums));
}

/* ---- activations rounded to int8 */

/* x in chunks of 32 elements of one scale. Words hold four int8; sums are those of half a chunk. */
typedef struct rounded {
    const bl_node *words; /* int32 [.., chunks, 8] */
    const bl_node *sums;  /* int32 [.., chunks, 2] */
    const bl_node *scale; /* float32 [.., chunks] */
} rounded;

/* Reshape x [.., columns] to [.., extents]. */
static const bl_node *split_columns(const matrix *m, const bl_node *x, int n, const int64_t *extent)
{
    const bl_node *dim[BL_MAX_DIMS + 4];
    int ndim = x->ndim - 1;

    if (x->op == BL_OP_POISON)
        return x;
    memcpy(dim, x->dim, (size_t)ndim * sizeof *dim);
    for (int i = 0; i < n; i++)
        dim[ndim++] = bl_index(m->c->ir, extent[i]);
    return bl_call_reshape(m->c, x, ndim, dim);
}

static const bl_node *quant_dot4(const matrix *m, const bl_node *codes, const bl_node *x, const bl_node *sum)
{
    const bl_node *in[3] = {codes, x, sum};
    return bl_call_broadcast(m->c, 3, in) ? bl_alu(m->c->ir, BL_OP_DOT4, in) : in[0];
}

/* Round each chunk to multiples of a 127th of its largest magnitude, as ggml's Q8_0 does. After the addition of 1.5 * 2^23 the
 * low bits of a float are those of the nearest integer. */
static rounded round_activations(const matrix *m, const bl_node *x)
{
    bl_ir *ir = m->c->ir;
    int64_t chunks = m->columns / BL_QUANT_CHUNK;
    rounded r = {0};

    x = split_columns(m, x, 3, (int64_t[]){chunks, 8, 4});
    const bl_node *largest = quant_both(m, BL_OP_MAX, x, x->op == BL_OP_POISON ? x : bl_alu1(ir, BL_OP_NEG, x));
    if (largest->op == BL_OP_POISON)
        return (rounded){largest, largest, largest};
    uint32_t axes = 3u << (x->ndim - 2);
    largest = bl_reduce(ir, BL_OP_MAX, largest, axes);
    const bl_node *zero = bl_full_like(ir, largest, 0);
    const bl_node *per =
        bl_where(ir, bl_less(ir, zero, largest), bl_alu2(ir, BL_OP_DIV, bl_full_like(ir, largest, 127), largest), zero);
    const bl_node *scaled = quant_both(m, BL_OP_MUL, x, per);
    const bl_node *code = bl_bitcast(ir, BL_I32, bl_add(ir, scaled, bl_full_like(ir, scaled, 12582912)));
    if (code->op == BL_OP_POISON)
        return (rounded){code, code, code};
    for (int i = 0; i < 4; i++) {
        const bl_node *byte =
            bl_drop_axes(ir, bl_shrink_axis(ir, code, code->ndim - 1, bl_index(ir, i), bl_index(ir, 1)), 1u << (code->ndim - 1));
        byte = i < 3 ? quant_with(m, BL_OP_AND, byte, 255) : byte;
        byte = i > 0 ? quant_with(m, BL_OP_SHL, byte, 8 * i) : byte;
        r.words = i == 0 ? byte : quant_both(m, BL_OP_OR, r.words, byte);
    }
    r.words = bl_contiguous(ir, r.words);
    r.scale = bl_contiguous(ir, bl_drop_axes(ir, bl_mul(ir, largest, bl_full_like(ir, largest, 1.0 / 127)), axes));
    const bl_node *halves = r.sums = split_columns(m, r.words, 2, (int64_t[]){2, 4});
    for (int i = 0; i < 4 && halves->op != BL_OP_POISON; i++) {
        const bl_node *word = bl_drop_axes(ir, bl_shrink_axis(ir, halves, halves->ndim - 1, bl_index(ir, i), bl_index(ir, 1)),
                                           1u << (halves->ndim - 1));
        r.sums = quant_dot4(m, bl_const_int(ir, BL_I32, 0x01010101), word, i == 0 ? bl_const_int(ir, BL_I32, 0) : r.sums);
    }
    return r;
}

/* x [.., chunks, each..] as [.., 1, loops.., each.., 1]; the first 1 is for the groups of rows, the last for the lanes. */
static const bl_node *fold_columns(const matrix *m, const bl_node *x, int neach, const int64_t *each)
{
    bl_ir *ir = m->c->ir;
    const bl_node *dim[BL_MAX_DIMS + 6];
    int ndim = 0;

    if (x->op == BL_OP_POISON)
        return x;
    for (int i = 0; i < x->ndim - neach - 1; i++)
        dim[ndim++] = x->dim[i];
    dim[ndim++] = bl_index(ir, 1);
    for (int i = 0; i < m->nloops; i++)
        dim[ndim++] = bl_index(ir, m->loop[i]);
    for (int i = 0; i < neach; i++)
        dim[ndim++] = bl_index(ir, each[i]);
    dim[ndim++] = bl_index(ir, 1);
    return bl_call_reshape(m->c, x, ndim, dim);
}

/* Four codes of each row, word |i| of a chunk: a byte of an int32 each. */
static const bl_node *code_word(const matrix *m, int i)
{
    const bl_quant_type *type = m->type;
    int from = i * type->codes, high = i * type->high;
    const bl_node *word = quant_pick(m, unfold(m, CODES, m->nloops, type->codes), from / 8);

    if (type->codes == 8)
        return word;
    word = from % 8 > 0 ? quant_with(m, BL_OP_SHR, word, from % 8) : word;
    word = quant_with(m, BL_OP_AND, word, 0x01010101 * ((1 << type->codes) - 1));
    if (type->high == 0)
        return word;
    const bl_node *upper = quant_pick(m, unfold(m, HIGH, m->nloops, type->high), high / 8);
    int up = type->codes - high % 8;
    upper = up == 0 ? upper : quant_with(m, up > 0 ? BL_OP_SHL : BL_OP_SHR, upper, up > 0 ? up : -up);
    upper = quant_with(m, BL_OP_AND, upper, 0x01010101 * (((1 << type->high) - 1) << type->codes));
    return quant_both(m, BL_OP_OR, word, upper);
}

static const bl_node *sum_of(const matrix *m, const bl_node *sum, const bl_node *x)
{
    return sum == NULL ? x : quant_both(m, BL_OP_ADD, sum, x);
}

/* The product of a chunk of x and a chunk of each row, float32 [.., loops.., lanes], without the scale of x. */
static const bl_node *chunk_product(const matrix *m, const rounded *x)
{
    bl_ir *ir = m->c->ir;
    const bl_quant_type *type = m->type;
    const bl_node *scales, *minimums, *sum = NULL, *taken = NULL;
    int several = subs_of_chunk(type);
    const bl_node *words = fold_columns(m, x->words, 1, (int64_t[]){8}), *sums = fold_columns(m, x->sums, 1, (int64_t[]){2});

    quant_sub_scales(m, &scales, &minimums);
    int s = 0;
    do {
        const bl_node *half = quant_pick(m, sums, s);
        half = several == 1 ? quant_both(m, BL_OP_ADD, half, quant_pick(m, sums, 1)) : half;
        const bl_node *dot = type->zero != 0 ? quant_with(m, BL_OP_MUL, half, -type->zero) : bl_const_int(ir, BL_I32, 0);
        for (int i = s * 4; i < (several == 1 ? 8 : s * 4 + 4); i++)
            dot = quant_dot4(m, code_word(m, i), quant_pick(m, words, i), dot);
        sum = sum_of(m, sum, scales != NULL ? quant_both(m, BL_OP_MUL, dot, quant_pick(m, scales, s)) : dot);
        if (type->minimum != BL_QUANT_MINIMUM_NONE)
            taken = sum_of(m, taken, minimums != NULL ? quant_both(m, BL_OP_MUL, half, quant_pick(m, minimums, s)) : half);
    } while (++s < several);
    sum = quant_both(m, BL_OP_MUL, block_number(m, SCALE), quant_cast(m, BL_F32, sum));
    if (taken == NULL)
        return sum;
    taken = quant_both(m, BL_OP_MUL, block_number(m, MINIMUM), quant_cast(m, BL_F32, taken));
    return quant_both(m, type->minimum == BL_QUANT_MINIMUM_TAKEN ? BL_OP_SUB : BL_OP_ADD, sum, taken);
}

/* ---- ops */

/* The rows of the result, without those that fill the last group: y [.., groups, 16] as [.., rows]. */
static const bl_node *join_rows(const matrix *m, const bl_node *y)
{
    bl_ir *ir = m->c->ir;
    const bl_node *dim[BL_MAX_DIMS];

    if (y->op == BL_OP_POISON)
        return y;
    memcpy(dim, y->dim, (size_t)(y->ndim - 2) * sizeof *dim);
    dim[y->ndim - 2] = bl_index(ir, bl_quant_groups(m->rows) * BL_QUANT_ROWS);
    y = bl_call_reshape(m->c, y, y->ndim - 1, dim);
    if (y->op == BL_OP_POISON || bl_is_int(y->dim[y->ndim - 1], m->rows))
        return y;
    y = bl_contiguous(ir, y); /* loops over whole groups: rows without the last ones are no lanes */
    return y->op == BL_OP_POISON ? y : bl_shrink_axis(ir, y, y->ndim - 1, bl_index(ir, 0), bl_index(ir, m->rows));
}

/* The sum of |x| over the loops and |more| axes after them. */
static const bl_node *sum_columns(const matrix *m, const bl_node *x, int more)
{
    if (x->op == BL_OP_POISON)
        return x;
    uint32_t axes = ((1u << (m->nloops + more)) - 1) << (x->ndim - 1 - more - m->nloops);
    return join_rows(m, bl_drop_axes(m->c->ir, bl_reduce(m->c->ir, BL_OP_ADD, x, axes), axes));
}

/* x in float32 times the elements of the matrix. */
static const bl_node *multiply_floats(const matrix *m, const bl_node *x)
{
    const bl_node *chunks = split_columns(m, x, 3, (int64_t[]){m->columns / BL_QUANT_CHUNK, 8, 4});
    chunks = fold_columns(m, chunks, 2, (int64_t[]){8, 4});
    return sum_columns(m, quant_both(m, BL_OP_MUL, chunks, quant_weights(m)), 2);
}

static const bl_node *multiply_rounded(const matrix *m, const bl_node *x)
{
    rounded r = round_activations(m, x);
    return sum_columns(m, quant_both(m, BL_OP_MUL, fold_columns(m, r.scale, 0, NULL), chunk_product(m, &r)), 0);
}

const bl_node *expand_block_linear(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]);
    matrix m;

    if (!take_matrix(c, &m))
        return x;
    if (x->ndim == 0 || !bl_is_int(x->dim[x->ndim - 1], m.columns))
        return bl_call_fail(c, "x must have shape [.., %lld], as the planes have %lld columns, not %s", (long long)m.columns,
                            (long long)m.columns, bl_call_shape(c, x));
    if (m.nlead > 1 && x->ndim < 2)
        return bl_call_fail(c, "x must have at least two dimensions where planes have leading ones, not %s", bl_call_shape(c, x));
    if (m.nlead > 1) { /* an axis for the rows of x */
        m.lead[m.nlead] = m.lead[m.nlead - 1];
        m.lead[m.nlead++ - 1] = bl_index(ir, 1);
    }
    const bl_node *y = multiply_floats(&m, x);
    if (strcmp(bl_attr(c, "activations")->text, "int8") == 0 && m.type->values == NULL && y->op != BL_OP_POISON) {
        const bl_node *value = multiply_rounded(&m, x);
        y = value->op == BL_OP_POISON ? value : bl_alias(ir, value, y, 0);
    }
    return y->op == BL_OP_POISON ? bl_call_failed(c) : bl_cast(ir, (bl_dtype)c->in[0]->dtype, y);
}

/* A plane [groups, .., 16] as [rows, ..]. */
static const bl_node *rows_of_plane(const matrix *m, const bl_node *plane)
{
    bl_ir *ir = m->c->ir;
    const bl_node *dim[BL_MAX_DIMS];
    int perm[BL_MAX_DIMS] = {0, plane->ndim - 1};

    for (int i = 2; i < plane->ndim; i++)
        perm[i] = i - 1;
    plane = bl_permute(ir, plane, perm);
    if (plane->op == BL_OP_POISON)
        return plane;
    dim[0] = bl_index(ir, bl_quant_groups(m->rows) * BL_QUANT_ROWS);
    memcpy(dim + 1, plane->dim + 2, (size_t)(plane->ndim - 2) * sizeof *dim);
    plane = bl_call_reshape(m->c, plane, plane->ndim - 1, dim);
    return plane->op == BL_OP_POISON ? plane : bl_shrink_axis(ir, plane, 0, bl_index(ir, 0), bl_index(ir, m->rows));
}

const bl_node *expand_block_take(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *index = c->in[0], *dim[BL_MAX_DIMS + 1], *wrapped = NULL;
    matrix m;

    if (!take_matrix(c, &m))
        return index;
    if (m.nlead != 1)
        return bl_call_fail(c, "takes rows of one matrix, codes [rows / %d, columns / %d, %d, %d], not %s", BL_QUANT_ROWS,
                            BL_QUANT_CHUNK, m.type->codes, BL_QUANT_ROWS, bl_call_shape(c, c->rest[0]));
    if (index->ndim + 1 > BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "index has too many dimensions: %s", bl_call_shape(c, index));
    for (int i = 0; i < BL_QUANT_PLANES; i++) {
        if (m.plane[i] == NULL)
            continue;
        m.plane[i] = rows_of_plane(&m, m.plane[i]);
        if (wrapped == NULL && m.plane[i]->op != BL_OP_POISON)
            wrapped = bl_call_index(c, index, m.plane[i], 0);
        if (m.plane[i]->op != BL_OP_POISON)
            m.plane[i] = bl_call_take(c, m.plane[i], wrapped, 0);
        if (m.plane[i]->op == BL_OP_POISON)
            return m.plane[i];
    }
    m.nlead = index->ndim;
    memcpy(m.lead, index->dim, (size_t)index->ndim * sizeof *dim);
    m.lanes = 1;
    const bl_node *x = quant_weights(&m);
    memcpy(dim, index->dim, (size_t)index->ndim * sizeof *dim);
    dim[index->ndim] = bl_index(ir, m.columns);
    return x->op == BL_OP_POISON ? x : bl_call_reshape(c, x, index->ndim + 1, dim);
}
