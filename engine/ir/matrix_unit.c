/* SPDX-License-Identifier: MIT */
#include "engine/ir/matrix_unit.h"

#include "engine/base/map.h"
#include "engine/ir/affine.h"

#include <stdio.h>
#include <string.h>

enum {
    ROW_BYTES = 16, /* required alignment in bytes of a fragment's rows, or their length if that is smaller */
    SPLIT = 128     /* the top bit of the byte |layouts| */
};

static const char split_mark[] = "x3"; /* suffix of the dtype into which the operands are split */

int64_t bl_matrix_pack(bl_matrix matrix)
{
    uint8_t layouts = (uint8_t)(matrix.layouts | (matrix.split ? SPLIT : 0));
    const uint8_t bytes[8] = {matrix.m, matrix.n, matrix.k, matrix.scope, matrix.group, layouts, matrix.from, matrix.to};
    uint64_t number = 0;

    for (int i = 0; i < 8; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return (int64_t)number;
}

bl_matrix bl_matrix_unpack(int64_t number)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)number >> (8 * i));
    return (bl_matrix){.m = bytes[0],
                       .n = bytes[1],
                       .k = bytes[2],
                       .scope = bytes[3],
                       .group = bytes[4],
                       .layouts = bytes[5] & (SPLIT - 1),
                       .from = bytes[6],
                       .to = bytes[7],
                       .split = bytes[5] >= SPLIT};
}

void bl_matrix_print(bl_matrix x, bl_text *out)
{
    bl_text_printf(out, "%ux%ux%u %u,%u,%u %s%s %s", x.m, x.n, x.k, x.scope, x.group, x.layouts, bl_dtype_name((bl_dtype)x.from),
                   x.split ? split_mark : "", bl_dtype_name((bl_dtype)x.to));
}

int bl_matrix_parse(const char *text, bl_matrix *out)
{
    unsigned number[6];
    char from[16], to[16];
    size_t len = 0, mark = sizeof split_mark - 1;
    bool split = false;
    int used = 0;

    if (sscanf(text, "%ux%ux%u %u,%u,%u %15[a-z0-9] %15[a-z0-9]%n", &number[0], &number[1], &number[2], &number[3], &number[4],
               &number[5], from, to, &used) != 8)
        return 0;
    for (int i = 0; i < 6; i++) {
        if (number[i] > (i == 5 ? SPLIT - 1 : UINT8_MAX))
            return 0;
    }
    len = strlen(from);
    split = len > mark && strcmp(from + len - mark, split_mark) == 0;
    len -= split ? mark : 0;
    *out = (bl_matrix){.m = (uint8_t)number[0],
                       .n = (uint8_t)number[1],
                       .k = (uint8_t)number[2],
                       .scope = (uint8_t)number[3],
                       .group = (uint8_t)number[4],
                       .layouts = (uint8_t)number[5],
                       .from = (uint8_t)bl_dtype_from_name(from, len),
                       .to = (uint8_t)bl_dtype_from_name(to, strlen(to)),
                       .split = split};
    return used;
}

static bool sums_exactly(bl_dtype from, bl_dtype to)
{
    return to == BL_F32 ? from == BL_F16 || from == BL_BF16 || from == BL_F32 : to == BL_I32 && (from == BL_I8 || from == BL_U8);
}

bool bl_matrix_is_valid(bl_matrix x)
{
    if (x.m < 1 || x.n < 2 || x.k < 2 || x.m > BL_MATRIX_MOST || x.n > BL_MATRIX_MOST || x.k > BL_MATRIX_MOST || x.scope < 1)
        return false;
    if (x.m * x.n > BL_MATRIX_MOST_CELLS || x.m * x.k > BL_MATRIX_MOST_CELLS || x.k * x.n > BL_MATRIX_MOST_CELLS)
        return false;
    if (x.split && (x.from != BL_BF16 || x.to != BL_F32))
        return false;
    return x.group >= 1 && x.k % x.group == 0 && x.m * x.n % x.scope == 0 && x.layouts >> BL_MATRIX_LAYOUTS == 0 &&
           sums_exactly((bl_dtype)x.from, (bl_dtype)x.to);
}

bl_matrix bl_matrix_unsplit(bl_matrix matrix)
{
    matrix.split = false;
    return matrix;
}

bl_dtype bl_matrix_takes(bl_matrix matrix)
{
    return matrix.split ? BL_F32 : (bl_dtype)matrix.from;
}

void bl_matrix_cells(bl_matrix matrix, bl_matrix_layout layout, int64_t *rows, int64_t *columns)
{
    *rows = bl_matrix_is_a(layout) ? matrix.m : matrix.k;
    *columns = bl_matrix_is_a(layout) ? matrix.k : matrix.n;
}

int64_t bl_matrix_cell(bl_matrix matrix, bl_matrix_layout layout, int64_t stride, int64_t row, int64_t column)
{
    switch (layout) {
    case BL_MATRIX_A_ROWS:
    case BL_MATRIX_B_ROWS:
        return row * stride + column;
    case BL_MATRIX_A_COLUMNS:
    case BL_MATRIX_B_COLUMNS:
        return column * stride + row;
    case BL_MATRIX_B_GROUPS:
    case BL_MATRIX_LAYOUTS:
        break;
    }
    return row / matrix.group * stride + column * matrix.group + row % matrix.group;
}

/* ---- nodes */

const bl_node *bl_matrix_node(bl_ir *ir, bl_matrix matrix, const bl_node *sum, const bl_node *rows, const bl_node *columns)
{
    const bl_node *src[3] = {sum, rows, columns};
    bl_node proto = {.op = BL_OP_MATRIX, .dtype = sum->dtype, .lanes = 1, .arg = bl_matrix_pack(matrix), .nsrc = 3, .src = src};
    return bl_node_make(ir, &proto);
}

const bl_node *bl_matrix_element(bl_ir *ir, const bl_node *matrix, const bl_node *index)
{
    const bl_node *src[2] = {matrix, index};
    bl_node proto = {.op = BL_OP_LOAD, .dtype = matrix->dtype, .lanes = index->lanes, .nsrc = 2, .src = src};
    return bl_node_make(ir, &proto);
}

static const bl_node *at_zero(bl_ir *ir, const bl_node *index, const bl_node *across, const bl_node *depth)
{
    bl_ptrmap map;

    bl_ptrmap_init(&map, bl_ir_arena(ir));
    bl_ptrmap_put(&map, across, bl_index(ir, 0));
    bl_ptrmap_put(&map, depth, bl_index(ir, 0));
    return bl_substitute(ir, index, &map);
}

/* The strides of |index| along two ranges. |groups|: depth occurs as its quotient and remainder by |group|; |depth| is then the
 * stride of the quotient, and the stride of the remainder must be 1. */
typedef struct strides {
    int64_t across, depth;
    bool groups;
} strides;

/* Is |term| the quotient (IDIV) or remainder (MOD) of |range| by |group|? */
static bool matrix_unit_is_part(const bl_node *term, bl_op op, const bl_node *range, int64_t group)
{
    return term->op == op && term->src[0] == range && bl_is_int(term->src[1], group);
}

static bool find_strides(bl_ir *ir, bl_matrix matrix, const bl_node *index, const bl_node *across, const bl_node *depth,
                         strides *s)
{
    int64_t remainder = 0;
    bl_affine sum;

    *s = (strides){0};
    if (!bl_affine_of(&sum, index))
        return false;
    for (int i = 0; i < sum.count; i++) {
        const bl_node *term = sum.at[i].node;
        int64_t by = sum.at[i].coefficient;
        if (term == across)
            s->across += by;
        else if (term == depth)
            s->depth += by;
        else if (matrix.group > 1 && matrix_unit_is_part(term, BL_OP_MOD, depth, matrix.group))
            remainder += by;
        else if (matrix.group > 1 && matrix_unit_is_part(term, BL_OP_IDIV, depth, matrix.group)) {
            s->groups = true;
            s->depth += by;
        } else if (bl_reaches(ir, 1, &term, 2, (const bl_node *[]){across, depth}))
            return false;
    }
    if (matrix.group > 1 && matrix.group == matrix.k && s->depth == 1 &&
        s->across == matrix.group) { /* a single group: the quotient is always 0 */
        s->groups = true;
        s->depth = matrix.n * matrix.group;
        remainder = 1;
    }
    return s->groups ? remainder == 1 && s->across == matrix.group : remainder == 0;
}

/* Are the starts of all rows multiples of |least| elements? */
static bool starts_even(const bl_node *first, int64_t stride, int64_t least)
{
    bl_affine sum;
    return bl_affine_of(&sum, first) && bl_affine_is_multiple(&sum, NULL, least) && stride % least == 0;
}

const bl_node *bl_matrix_operand(bl_ir *ir, bl_matrix matrix, const bl_node *load, bool is_a, const bl_node *across,
                                 const bl_node *depth)
{
    int64_t extent = is_a ? matrix.m : matrix.n, bytes = (int64_t)bl_dtype_bytes((bl_dtype)load->dtype), least = 0, stride = 0;
    bl_node proto = {.op = BL_OP_FRAGMENT_LOAD, .dtype = load->dtype, .lanes = 1, .arg = bl_matrix_pack(matrix), .nsrc = 3};
    const bl_node *src[3] = {load->src[0], NULL, NULL};
    bl_matrix_layout layout = BL_MATRIX_LAYOUTS;
    strides s;

    matrix.group = is_a ? 1 : matrix.group; /* only rows of b are interleaved */
    if (load->nsrc != 2 || (load->src[0]->op != BL_OP_BUFFER && load->src[0]->op != BL_OP_STAGE) ||
        !find_strides(ir, matrix, load->src[1], across, depth, &s))
        return NULL;
    if (s.groups)
        layout = BL_MATRIX_B_GROUPS;
    else if (s.depth == 1)
        layout = is_a ? BL_MATRIX_A_ROWS : BL_MATRIX_B_COLUMNS;
    else if (s.across == 1)
        layout = is_a ? BL_MATRIX_A_COLUMNS : BL_MATRIX_B_ROWS;
    if (layout == BL_MATRIX_LAYOUTS || (matrix.layouts >> layout & 1) == 0)
        return NULL;
    stride = s.groups || s.depth != 1 ? s.depth : s.across;
    least = s.groups ? extent * matrix.group : s.depth == 1 ? matrix.k : extent;
    least = least * bytes > ROW_BYTES ? ROW_BYTES / bytes : least;
    src[1] = at_zero(ir, load->src[1], across, depth);
    src[2] = bl_index(ir, extent == 1 ? matrix.k : stride);
    if ((extent > 1 && stride < 1) || !starts_even(src[1], extent > 1 ? stride : 0, least))
        return NULL;
    proto.sub = (uint8_t)layout;
    proto.src = src;
    return bl_node_make(ir, &proto);
}

/* |node| without its cast from |from| to |to|, if that is a load of |from|; else NULL. */
static const bl_node *loaded(const bl_node *node, bl_dtype from, bl_dtype to)
{
    if (from != to && (node->op != BL_OP_CAST || node->dtype != to))
        return NULL;
    node = from == to ? node : node->src[0];
    return node->op == BL_OP_LOAD && node->dtype == from && node->lanes == 1 ? node : NULL;
}

bool bl_matrix_product(const bl_node *summand, bl_matrix matrix, const bl_node *loads[2])
{
    if (summand->op != BL_OP_MUL || summand->dtype != matrix.to)
        return false;
    for (int i = 0; i < 2; i++) {
        loads[i] = loaded(summand->src[i], bl_matrix_takes(matrix), (bl_dtype)matrix.to);
        if (loads[i] == NULL)
            return false;
    }
    return true;
}
