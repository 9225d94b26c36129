/* Shapes of matrix units (tensor cores, AMX, cooperative matrices): what one instruction multiplies, and the memory layouts of
 * its operands. bl_matrix_pack turns a shape into one number: the amount of a move, and the |arg| of nodes and instructions. */
#ifndef BL_IR_MATRIX_UNIT_H
#define BL_IR_MATRIX_UNIT_H

#include "engine/base/text.h"
#include "engine/ir/node.h"

/* Memory layout of an operand's fragment. a has m rows of k elements, b has k rows of n elements. */
typedef enum bl_matrix_layout {
    BL_MATRIX_A_ROWS,    /* a in row-major order: the k elements of a row are contiguous */
    BL_MATRIX_A_COLUMNS, /* a in column-major order: the m elements of a column are contiguous */
    BL_MATRIX_B_ROWS,    /* b in row-major order: the n elements of a row are contiguous */
    BL_MATRIX_B_COLUMNS, /* b in column-major order: the k elements of a column are contiguous */
    BL_MATRIX_B_GROUPS,  /* |group| rows of b interleaved: b[i][j] is element i / group * stride + j * group + i % group */
    BL_MATRIX_LAYOUTS
} bl_matrix_layout;

enum {
    BL_MATRIX_MOST = 64,        /* largest m, n and k */
    BL_MATRIX_MOST_CELLS = 1024 /* largest number of elements of a fragment: m * n, m * k, k * n */
};

/* One instruction of the unit: c (m by n, of |to|) += a (m by k, of |from|) * b (k by n, of |from|). |scope| work-items execute
 * it together: consecutive work-items of the group's first dimension, the group's only dimension. */
typedef struct bl_matrix {
    uint8_t m, n, k;
    uint8_t scope;
    uint8_t group;    /* number of rows of b that B_GROUPS interleaves; divides k */
    uint8_t layouts;  /* bit set of bl_matrix_layout */
    uint8_t from, to; /* bl_dtype */
    /* for moves: a and b are float32. Each is split into the sum of two bfloat16, high and low, and the product is computed as
     * high * high + high * low + low * high ("bfloat16x3"): three instructions in place of one */
    bool split;
} bl_matrix;

int64_t bl_matrix_pack(bl_matrix matrix);
bl_matrix bl_matrix_unpack(int64_t number);
/* Can lowering express this shape? The sizes must be in bounds, a product of |from| must be summed in |to|, and each work-item
 * must hold the same number of elements of c. */
bool bl_matrix_is_valid(bl_matrix matrix);
/* Print as "8x8x8 8,1,15 float16 float32": m, n and k, then scope, group and layouts. "bfloat16x3" stands for |from| if the
 * operands are split. */
void bl_matrix_print(bl_matrix matrix, bl_text *out);
/* Parse the text of bl_matrix_print. Returns the length of the text, or 0 if it is malformed. */
int bl_matrix_parse(const char *text, bl_matrix *out);
/* The same unit without |split|; and the dtype of the operands before they are split. */
bl_matrix bl_matrix_unsplit(bl_matrix matrix);
bl_dtype bl_matrix_takes(bl_matrix matrix);
/* Is |layout| a layout of a, rather than of b? */
static inline bool bl_matrix_is_a(bl_matrix_layout layout)
{
    return layout == BL_MATRIX_A_ROWS || layout == BL_MATRIX_A_COLUMNS;
}
/* Number of rows and columns of an operand's fragment. */
void bl_matrix_cells(bl_matrix matrix, bl_matrix_layout layout, int64_t *rows, int64_t *columns);
/* Offset of element (row, column) of an operand's fragment, in elements from its first element. */
int64_t bl_matrix_cell(bl_matrix matrix, bl_matrix_layout layout, int64_t stride, int64_t row, int64_t column);

/* ---- nodes.  A MATRIX is a tile of c, in memory that the work-items of the unit share. src[0] is the sum, a REDUCE over
 * products of LOADs. src[1] and src[2] are the RANGEs of the tile's rows and columns; the MATRIX binds them. The range of kind
 * MATRIX of the REDUCE is the tile's depth. A MATRIX replaces the buffer of a LOAD; element (i, j) has index i * n + j. */
const bl_node *bl_matrix_node(bl_ir *ir, bl_matrix matrix, const bl_node *sum, const bl_node *rows, const bl_node *columns);
/* The element at |index| of a MATRIX node. */
const bl_node *bl_matrix_element(bl_ir *ir, const bl_node *matrix, const bl_node *index);
/* The FRAGMENT_LOAD of one operand. |load| varies along |depth| and along |rows| or |columns| (|across|). It reads a parameter,
 * or a narrow STAGE of one. NULL if no layout of the matrix fits, if the load is gated, or if the start may be misaligned: each
 * row of a fragment must start at a multiple of 16 bytes, or of the row's length if that is smaller
 * (VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986). */
const bl_node *bl_matrix_operand(bl_ir *ir, bl_matrix matrix, const bl_node *load, bool is_a, const bl_node *across,
                                 const bl_node *depth);
/* Store the two loads of |summand|, a product of two loads of the dtype that the matrix takes, each perhaps with a cast to the
 * sum's dtype. False if it has another form. */
bool bl_matrix_product(const bl_node *summand, bl_matrix matrix, const bl_node *loads[2]);

#endif
