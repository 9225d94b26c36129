/* The shape of a matrix unit: what one of its instructions multiplies and how the operands may lie in memory.  A shape is a
 * number too (bl_matrix_pack): the amount of a move, the |arg| of nodes and instructions. */
#ifndef BL_IR_MATRIX_H
#define BL_IR_MATRIX_H

#include "engine/base/text.h"
#include "engine/ir/node.h"

/* How an operand's fragment may lie.  a has m rows of k elements, b has k rows of n. */
typedef enum bl_matrix_layout {
    BL_MATRIX_A_ROWS,    /* the k elements of a row of a side by side */
    BL_MATRIX_A_COLUMNS, /* the m elements of a column of a */
    BL_MATRIX_B_ROWS,    /* the n elements of a row of b */
    BL_MATRIX_B_COLUMNS, /* the k elements of a column of b */
    BL_MATRIX_B_GROUPS,  /* |group| rows of b interleaved: b[i][j] at i / group * stride + j * group + i % group */
    BL_MATRIX_LAYOUTS
} bl_matrix_layout;

enum {
    BL_MATRIX_MOST = 64,        /* of m, n and k */
    BL_MATRIX_MOST_CELLS = 1024 /* of a fragment: m * n, m * k, k * n */
};

/* c (m by n, of |to|) += a (m by k, of |from|) * b (k by n, of |from|), done by |scope| work-items together: the consecutive ones
 * of a group's first dimension, which has no others. */
typedef struct bl_matrix {
    uint8_t m, n, k;
    uint8_t scope;
    uint8_t group;    /* rows of b that B_GROUPS interleaves; divides k */
    uint8_t layouts;  /* bit set of bl_matrix_layout */
    uint8_t from, to; /* bl_dtype */
    bool split;       /* of a move: a and b are float32, each taken as the sum of two bfloat16, high and low, and their product as
                         high * high + high * low + low * high ("bfloat16x3"): three instructions of the unit for one */
} bl_matrix;

int64_t bl_matrix_pack(bl_matrix matrix);
bl_matrix bl_matrix_unpack(int64_t number);
/* Is it one that lowering can express: sizes in bounds, a product of such dtypes that is summed in the other, each work-item with
 * as many cells of c as every other? */
bool bl_matrix_is_valid(bl_matrix matrix);
/* "8x8x8 8,1,15 float16 float32": m, n and k, then scope, group and layouts; "bfloat16x3" where operands are split. */
void bl_matrix_print(bl_matrix matrix, bl_text *out);
/* Read that back; how long the text is, or 0 where it is none. */
int bl_matrix_parse(const char *text, bl_matrix *out);
/* The same unit, for operands of its own dtype; and what of |matrix| asks of operands before they are split. */
bl_matrix bl_matrix_unsplit(bl_matrix matrix);
bl_dtype bl_matrix_takes(bl_matrix matrix);
/* Does the layout lie a's way?  Else b's. */
static inline bool bl_matrix_is_a(bl_matrix_layout layout)
{
    return layout == BL_MATRIX_A_ROWS || layout == BL_MATRIX_A_COLUMNS;
}
/* Rows and columns of an operand's fragment. */
void bl_matrix_cells(bl_matrix matrix, bl_matrix_layout layout, int64_t *rows, int64_t *columns);
/* Where cell (row, column) of an operand's fragment is, in elements from its first. */
int64_t bl_matrix_cell(bl_matrix matrix, bl_matrix_layout layout, int64_t stride, int64_t row, int64_t column);

/* ---- nodes.  A MATRIX is a product's tile of c in memory that its work-items share: src[0] is the sum, a REDUCE over products
 * of LOADs; src[1] and src[2] are the RANGEs of the tile's rows and columns, which it binds, and of the REDUCE's ranges the one
 * of kind MATRIX is the tile's depth.  It stands where a LOAD has its buffer; cell (i, j) is element i * n + j. */
const bl_node *bl_matrix_node(bl_ir *ir, bl_matrix matrix, const bl_node *sum, const bl_node *rows, const bl_node *columns);
/* The element at |index| of a MATRIX node. */
const bl_node *bl_matrix_element(bl_ir *ir, const bl_node *matrix, const bl_node *index);
/* The FRAGMENT_LOAD of one operand: |load| is over |rows| or |columns| (whichever it depends on) and |depth|.  It reads a
 * parameter, or what a STAGE has of one, narrow.  NULL where it lies in none of the matrix's layouts, is gated, or may start at
 * an address that units refuse: any fragment's rows must start at multiples of 16 bytes, or of their own length if that is less
 * (VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986). */
const bl_node *bl_matrix_operand(bl_ir *ir, bl_matrix matrix, const bl_node *load, bool is_a, const bl_node *across,
                                 const bl_node *depth);
/* The two loads of a summand that is their product, of what the matrix takes, casts to the sum's dtype around them; false if it
 * is anything else. */
bool bl_matrix_product(const bl_node *summand, bl_matrix matrix, const bl_node *loads[2]);

#endif
