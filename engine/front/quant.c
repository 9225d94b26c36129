/* SPDX-License-Identifier: MIT */
/* Block-quantised matrices: their types, their planes, and the ops that read them. A product is one sum over (block, span,
 * unit, lane); the parts of a unit, which share bytes, are added inside the sum. An inner loop then loads 16 bytes of codes,
 * with contiguous lanes in the codes and in x, and no index has a remainder. */
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

int bl_quant_unit(const bl_quant_type *type)
{
    return type->codes == 8 ? 32 : BL_QUANT_LANES * 8 / type->codes;
}

int bl_quant_span(const bl_quant_type *type)
{
    int span = type->high == 0 ? 0 : BL_QUANT_LANES * 8 / type->high;
    return span <= type->block ? span : 32;
}

/* Elements that share a byte position in a unit: 16, or 32 if a code is a byte. */
static int quant_lanes_of(const bl_quant_type *type)
{
    return type->codes == 8 ? 32 : BL_QUANT_LANES;
}

static bool quant_has_word(const bl_quant_type *type)
{
    return type->high > 0 && BL_QUANT_LANES * 8 / type->high > type->block;
}

int bl_quant_planes(const bl_quant_type *type, int64_t rows, int64_t columns, bl_quant_plane plane[BL_QUANT_PLANES])
{
    int n = 0;
    int64_t units = columns / bl_quant_unit(type), blocks = columns / type->block, subs = columns / bl_quant_sub(type);

    if (rows < 0 || columns < 0 || columns % type->block != 0)
        return 0;
    plane[n++] = (bl_quant_plane){"codes", type->codes == 8 ? BL_I8 : BL_U8, 3, {rows, units, quant_lanes_of(type)}, 0};
    if (quant_has_word(type))
        plane[n++] = (bl_quant_plane){"high", BL_U32, 2, {rows, columns / 32}, 0};
    else if (type->high > 0)
        plane[n++] = (bl_quant_plane){"high", BL_U8, 3, {rows, columns / bl_quant_span(type), BL_QUANT_LANES}, 0};
    plane[n++] = (bl_quant_plane){"scale", type->id == BL_QUANT_MXFP4 ? BL_BF16 : BL_F16, 2, {rows, blocks}, 0};
    if (type->scales != BL_QUANT_SCALES_NONE) {
        bool whole = type->scales == BL_QUANT_SCALES_I8_16 || type->scales == BL_QUANT_SCALES_I8_32;
        plane[n++] = (bl_quant_plane){"scales", whole ? BL_I8 : BL_U8, 2, {rows, subs}, 0};
    }
    if (type->minimum != BL_QUANT_MINIMUM_NONE)
        plane[n++] = (bl_quant_plane){"minimum", BL_F16, 2, {rows, blocks}, 0};
    if (type->scales == BL_QUANT_SCALES_U8_32 && type->minimum == BL_QUANT_MINIMUM_TAKEN)
        plane[n++] = (bl_quant_plane){"minimums", BL_U8, 2, {rows, subs}, 0};
    for (int i = 0; i < n; i++) {
        plane[i].bytes = bl_dtype_bytes(plane[i].dtype);
        for (int d = 0; d < plane[i].ndim; d++) {
            if (!bl_size_mul(plane[i].bytes, (size_t)plane[i].dim[d], &plane[i].bytes))
                return 0;
        }
    }
    return n;
}

/* ---- elements of a matrix as an expression */

enum { CODES, HIGH, SCALE, SCALES, MINIMUM, MINIMUMS };

/* A quantised matrix [lead.., rows, columns] given as planes. */
typedef struct matrix {
    bl_call *c;
    const bl_quant_type *type;
    const bl_node *plane[BL_QUANT_PLANES]; /* indexed by the enum above; NULL if the type lacks the plane */
    int nlead;                             /* number of axes before the columns; the last of them is the rows */
    const bl_node *lead[BL_MAX_DIMS];
    int64_t columns;
    int nloops; /* loops: blocks, spans in a block, units in a span; the last two only if there are several */
    int64_t loop[3];
    int spans, units; /* which loop that is, or -1 */
    int parts, lanes; /* number of parts and lanes of a unit */
    bool apart;       /* parts are an axis before the lanes */
} matrix;

static int slot_of_suffix(const char *suffix)
{
    static const char *const names[BL_QUANT_PLANES] = {"codes", "high", "scale", "scales", "minimum", "minimums"};
    int at = 0;
    while (strcmp(names[at], suffix) != 0)
        at++;
    return at;
}

static void quant_lay_out(matrix *m)
{
    const bl_quant_type *type = m->type;
    int unit = bl_quant_unit(type);
    int span = quant_has_word(type) || type->high == 0 ? unit : bl_quant_span(type);
    int whole = span > unit || type->high > 0 ? span : type->block; /* without spans, all units of a block are in one span */

    m->lanes = quant_lanes_of(type);
    m->parts = unit / m->lanes;
    m->spans = m->units = -1;
    m->loop[m->nloops++] = m->columns / type->block;
    if (type->block > whole) {
        m->spans = m->nloops;
        m->loop[m->nloops++] = type->block / whole;
    }
    if (whole > unit) {
        m->units = m->nloops;
        m->loop[m->nloops++] = whole / unit;
    }
}

/* Read the planes, the last inputs of a node. False after a failure. */
static bool take_matrix(bl_call *c, matrix *m)
{
    const bl_quant_type *type = bl_quant_get(bl_attr(c, "format")->text);
    bl_quant_plane plane[BL_QUANT_PLANES];
    const bl_node *codes = c->nrest > 0 ? c->rest[0] : NULL;

    *m = (matrix){.c = c, .type = type};
    int wanted = bl_quant_planes(type, 0, 0, plane);
    if (c->nrest != wanted) {
        bl_call_fail(c, "format %s has %d planes, got %d", type->name, wanted, c->nrest);
        return false;
    }
    if (codes->ndim < 3 || !bl_is_const(codes->dim[codes->ndim - 2])) {
        bl_call_fail(c, "codes must have shape [.., rows, units, %d] with a fixed number of units, not %s", quant_lanes_of(type),
                     bl_call_shape(c, codes));
        return false;
    }
    m->nlead = codes->ndim - 2;
    memcpy(m->lead, codes->dim, (size_t)m->nlead * sizeof *m->lead);
    int64_t units = bl_const_value(codes->dim[codes->ndim - 2]).i;
    if (units < 1 || units > INT32_MAX || units * bl_quant_unit(type) % type->block != 0) {
        bl_call_fail(c, "%lld units of %d codes are not a whole number of blocks of %d", (long long)units, bl_quant_unit(type),
                     type->block);
        return false;
    }
    m->columns = units * bl_quant_unit(type);
    bl_quant_planes(type, 1, m->columns, plane);
    for (int i = 0; i < wanted; i++) {
        const bl_node *x = c->rest[i];
        bool fits = x->dtype == plane[i].dtype && x->ndim == m->nlead + plane[i].ndim - 1;
        for (int d = 0; fits && d < x->ndim; d++)
            fits = d < m->nlead ? x->dim[d] == m->lead[d] : bl_is_int(x->dim[d], plane[i].dim[1 + d - m->nlead]);
        if (!fits) {
            const bl_node *dim[BL_MAX_DIMS];
            int ndim = m->nlead + plane[i].ndim - 1;
            for (int d = 0; d < ndim && d < BL_MAX_DIMS; d++)
                dim[d] = d < m->nlead ? m->lead[d] : bl_index(c->ir, plane[i].dim[1 + d - m->nlead]);
            bl_call_fail(c, "plane %s of format %s must be %s%s, not %s", plane[i].suffix, type->name,
                         bl_dtype_name(plane[i].dtype), bl_shape_text(c->ir, ndim, dim, NULL), bl_node_text(c->ir, x));
            return false;
        }
        m->plane[slot_of_suffix(plane[i].suffix)] = x;
    }
    quant_lay_out(m);
    return true;
}

/* A plane as [lead.., loops.., lanes], with extent 1 for loops from |per| on; if parts are an axis, [lead.., loops.., parts,
 * lanes]. |parts| and |lanes| are the plane's own extents. */
static const bl_node *unfold(matrix *m, int plane, int per, int parts, int lanes)
{
    bl_ir *ir = m->c->ir;
    const bl_node *dim[BL_MAX_DIMS + 8];
    int ndim = 0;

    for (int i = 0; i < m->nlead; i++)
        dim[ndim++] = m->lead[i];
    for (int i = 0; i < m->nloops; i++)
        dim[ndim++] = bl_index(ir, i < per ? m->loop[i] : 1);
    if (m->apart || parts > 1)
        dim[ndim++] = bl_index(ir, parts);
    dim[ndim++] = bl_index(ir, lanes);
    return bl_call_reshape(m->c, m->plane[plane], ndim, dim);
}

/* The same of a plane whose bytes hold several values, as 32-bit integers: the load widens each byte, once for all its values. */
static const bl_node *unfold_wide(matrix *m, int plane, int per, int parts, int lanes)
{
    const bl_node *x = unfold(m, plane, per, parts, lanes);
    return x->op != BL_OP_POISON && x->dtype == BL_U8 ? bl_cast(m->c->ir, BL_I32, x) : x;
}

/* Broadcast both and apply |op|. */
static const bl_node *quant_both(matrix *m, bl_op op, const bl_node *x, const bl_node *y)
{
    const bl_node *in[2] = {x, y};
    return bl_call_broadcast(m->c, 2, in) ? bl_alu2(m->c->ir, op, in[0], in[1]) : in[0];
}

/* |bits| bits of x, starting at bit |step| * (|offset| + index along |axis|); axis -1: no index. */
static const bl_node *bits_at(matrix *m, const bl_node *x, int bits, int step, int offset, int axis, int64_t extent)
{
    bl_ir *ir = m->c->ir;
    bl_dtype dtype = (bl_dtype)x->dtype;

    if (x->op == BL_OP_POISON)
        return x;
    const bl_node *shift = bl_const_int(ir, dtype, (int64_t)step * offset);
    if (axis >= 0) {
        const bl_node *dim[BL_MAX_DIMS];
        for (int i = 0; i < x->ndim; i++)
            dim[i] = bl_index(ir, i == axis ? extent : 1);
        const bl_node *along = bl_call_expand(m->c, bl_const_int(ir, dtype, step), x->ndim, dim);
        along = bl_mul(ir, along, bl_iota_like(ir, along, axis, dtype));
        shift = quant_both(m, BL_OP_ADD, along, shift);
    }
    if (axis >= 0 || step * offset > 0)
        x = quant_both(m, BL_OP_SHR, x, shift);
    return quant_both(m, BL_OP_AND, x, bl_const_int(ir, dtype, (1 << bits) - 1));
}

/* The bits of the plane "high" for part |part| of each unit. */
static const bl_node *high_bits(matrix *m, int part)
{
    const bl_quant_type *type = m->type;
    int offset = m->apart ? 0 : part;

    if (quant_has_word(type)) { /* bit e for element e */
        const bl_node *word = unfold(m, HIGH, m->nloops, 1, 1);
        int last = word->ndim - 1;
        if (!m->apart)
            return bits_at(m, word, type->high, type->high, m->lanes * part, last, m->lanes);
        const bl_node *halves = bits_at(m, word, 32 - m->lanes, m->lanes, 0, last - 1, m->parts);
        return bits_at(m, halves, type->high, type->high, 0, last, m->lanes);
    }
    const bl_node *x = unfold_wide(m, HIGH, m->units, 1, m->lanes);
    int axis = m->nlead + m->units;
    if (m->apart) { /* as if each part were a unit of one part */
        x = bits_at(m, x, 8, type->high * m->parts, 0, axis, m->loop[m->units]);
        return bits_at(m, x, type->high, type->high, 0, x->ndim - 2, m->parts);
    }
    if (offset > 0)
        x = bits_at(m, x, 8, type->high, offset, -1, 1);
    return bits_at(m, x, type->high, type->high * m->parts, 0, axis, m->loop[m->units]);
}

/* values[code]: each quarter of the table is one word of four bytes. */
static const bl_node *quant_look_up(matrix *m, const bl_node *code)
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
    return quant_both(m, BL_OP_SUB, bl_cast(ir, BL_I32, byte), bl_const_int(ir, BL_I32, 128));
}

/* The integer codes of part |part| of each unit, or of all parts, with the type's zero subtracted. */
static const bl_node *take_codes(matrix *m, int part)
{
    bl_ir *ir = m->c->ir;
    const bl_quant_type *type = m->type;
    const bl_node *x = unfold_wide(m, CODES, m->nloops, 1, m->lanes);

    if (m->parts > 1)
        x = bits_at(m, x, type->codes, type->codes, m->apart ? 0 : part, m->apart ? x->ndim - 2 : -1, m->parts);
    if (type->high > 0) {
        const bl_node *high = high_bits(m, part);
        if (x->op == BL_OP_POISON || high->op == BL_OP_POISON)
            return bl_call_failed(m->c);
        high = quant_both(m, BL_OP_SHL, bl_cast(ir, BL_I32, high), bl_const_int(ir, BL_I32, type->codes));
        x = quant_both(m, BL_OP_OR, x, high);
    }
    if (x->op == BL_OP_POISON)
        return x;
    if (type->values != NULL)
        return quant_look_up(m, x);
    if (type->zero == 0)
        return x;
    return quant_both(m, BL_OP_SUB, x, bl_const_int(ir, BL_I32, type->zero));
}

/* A number of the plane for each sub-block, for the sub-blocks of part |part|. */
static const bl_node *sub_scale(matrix *m, int plane, int part)
{
    bl_ir *ir = m->c->ir;
    int unit = bl_quant_unit(m->type), several = unit / bl_quant_sub(m->type);

    if (several <= 1)
        return unfold(m, plane, m->nloops, 1, 1);
    const bl_node *x = unfold(m, plane, m->nloops, several, 1);
    if (m->apart || x->op == BL_OP_POISON)
        return x;
    x = bl_shrink_axis(ir, x, x->ndim - 2, bl_index(ir, part), bl_index(ir, 1));
    return x->op == BL_OP_POISON ? x : bl_drop_axes(ir, x, 1u << (x->ndim - 2));
}

static const bl_node *quant_as_float(matrix *m, const bl_node *x)
{
    return x->op == BL_OP_POISON ? x : bl_cast(m->c->ir, BL_F32, x);
}

/* The block's number of |plane| times the sub-scales. */
static const bl_node *scale_by(matrix *m, int plane, const bl_node *sub)
{
    const bl_node *x = quant_as_float(m, unfold(m, plane, 1, 1, 1));
    return sub == NULL ? x : quant_both(m, BL_OP_MUL, x, quant_as_float(m, sub));
}

/* The elements of part |part| of each unit, float32 [lead.., loops.., lanes]; or of all parts, [lead.., loops.., parts, lanes].
 * Products of a scale, a sub-scale and a code are exact, so fusing the last addition gives the same rounding. */
static const bl_node *quant_take_part(matrix *m, int part)
{
    bl_ir *ir = m->c->ir;
    const bl_quant_type *type = m->type;
    const bl_node *scales = type->scales == BL_QUANT_SCALES_NONE ? NULL : sub_scale(m, SCALES, part);
    const bl_node *minimums = NULL;

    if (scales != NULL && type->scales == BL_QUANT_SCALES_NIBBLES_16) {
        minimums = bits_at(m, scales, 4, 4, 1, -1, 1);
        scales = bits_at(m, scales, 4, 4, 0, -1, 1);
    }
    const bl_node *x = quant_both(m, BL_OP_MUL, quant_as_float(m, take_codes(m, part)), scale_by(m, SCALE, scales));
    if (type->minimum == BL_QUANT_MINIMUM_NONE || x->op == BL_OP_POISON)
        return x;
    if (type->minimum == BL_QUANT_MINIMUM_TAKEN && minimums == NULL)
        minimums = sub_scale(m, MINIMUMS, part);
    const bl_node *minimum = scale_by(m, MINIMUM, minimums);
    if (minimum->op == BL_OP_POISON)
        return minimum;
    return quant_both(m, BL_OP_ADD, x, type->minimum == BL_QUANT_MINIMUM_TAKEN ? bl_alu1(ir, BL_OP_NEG, minimum) : minimum);
}

/* ---- ops */

/* x [.., columns] as [.., 1, loops.., parts, lanes]; the 1 is for the rows. */
static const bl_node *fold_columns(matrix *m, const bl_node *x)
{
    bl_ir *ir = m->c->ir;
    const bl_node *dim[BL_MAX_DIMS + 8];
    int ndim = 0;

    for (int i = 0; i < x->ndim - 1; i++)
        dim[ndim++] = x->dim[i];
    dim[ndim++] = bl_index(ir, 1);
    for (int i = 0; i < m->nloops; i++)
        dim[ndim++] = bl_index(ir, m->loop[i]);
    dim[ndim++] = bl_index(ir, m->parts);
    dim[ndim++] = bl_index(ir, m->lanes);
    return bl_call_reshape(m->c, x, ndim, dim);
}

const bl_node *expand_block_linear(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *x = bl_widen(ir, c->in[0]), *sum = NULL;
    matrix m;

    if (!take_matrix(c, &m))
        return x;
    if (x->ndim == 0 || !bl_is_int(x->dim[x->ndim - 1], m.columns))
        return bl_call_fail(c, "x must have shape [.., %lld], as the planes have %lld columns, not %s", (long long)m.columns,
                            (long long)m.columns, bl_call_shape(c, x));
    if (m.nlead > 1 && x->ndim < 2)
        return bl_call_fail(c, "x must have at least two dimensions where planes have leading ones, not %s", bl_call_shape(c, x));
    const bl_node *folded = fold_columns(&m, x);
    for (int part = 0; part < m.parts; part++) {
        const bl_node *w = quant_take_part(&m, part);
        if (w->op == BL_OP_POISON || folded->op == BL_OP_POISON || (sum != NULL && sum->op == BL_OP_POISON))
            return bl_call_failed(c);
        if (m.nlead > 1)
            w = bl_add_axis(ir, w, m.nlead - 1);
        const bl_node *some = bl_shrink_axis(ir, folded, folded->ndim - 2, bl_index(ir, part), bl_index(ir, 1));
        if (some->op == BL_OP_POISON || w->op == BL_OP_POISON)
            return bl_call_failed(c);
        some = bl_drop_axes(ir, some, 1u << (some->ndim - 2));
        const bl_node *product = quant_both(&m, BL_OP_MUL, some, w);
        if (product->op == BL_OP_POISON)
            return product;
        sum = sum == NULL ? product : bl_add(ir, sum, product);
    }
    if (sum->op == BL_OP_POISON)
        return sum;
    uint32_t axes = ((1u << (m.nloops + 1)) - 1) << (sum->ndim - m.nloops - 1);
    return bl_cast(ir, (bl_dtype)c->in[0]->dtype, bl_drop_axes(ir, bl_reduce(ir, BL_OP_ADD, sum, axes), axes));
}

const bl_node *expand_block_take(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *index = c->in[0], *dim[BL_MAX_DIMS + 1];
    matrix m;

    if (!take_matrix(c, &m))
        return index;
    if (m.nlead != 1)
        return bl_call_fail(c, "takes rows of one matrix, codes [rows, units, %d], not %s", m.lanes,
                            bl_call_shape(c, c->rest[0]));
    if (index->ndim + 1 > BL_MAX_DIMS)
        return bl_call_fail_as(c, BL_ELIMIT, "index has too many dimensions: %s", bl_call_shape(c, index));
    const bl_node *wrapped = bl_call_index(c, index, c->rest[0], 0);
    for (int i = 0; i < BL_QUANT_PLANES; i++) {
        if (m.plane[i] != NULL)
            m.plane[i] = bl_call_take(c, m.plane[i], wrapped, 0);
        if (m.plane[i] != NULL && m.plane[i]->op == BL_OP_POISON)
            return m.plane[i];
    }
    m.nlead = index->ndim;
    memcpy(m.lead, index->dim, (size_t)index->ndim * sizeof *m.lead);
    m.apart = true;
    const bl_node *x = quant_take_part(&m, 0);
    memcpy(dim, index->dim, (size_t)index->ndim * sizeof *dim);
    dim[index->ndim] = bl_index(ir, m.columns);
    return x->op == BL_OP_POISON ? x : bl_call_reshape(c, x, index->ndim + 1, dim);
}
