/* SPDX-License-Identifier: MIT */
/* Linear algebra of small matrices, column after column: each step is a tensor of its own, so that a matrix of n columns is a few
 * times n kernels.  Golub and Van Loan, "Matrix computations": Householder's QR (5.2), outer product Cholesky (4.2), column
 * oriented substitution (3.1).  solve, inverse and det go by QR, which needs no exchange of rows. */
#include "engine/front/build.h"

enum { MOST_COLUMNS = 64 };

/* A matrix [.., rows, columns] of fixed sizes. */
typedef struct matrix {
    bl_ir *ir;
    const bl_node *x;
    int row, column; /* its axes */
    int64_t rows, columns;
} matrix;

static bool take_matrix(bl_call *c, const bl_node *x, bool square, matrix *m)
{
    *m = (matrix){.ir = c->ir, .x = bl_widen(c->ir, x), .row = x->ndim - 2, .column = x->ndim - 1};
    if (x->ndim < 2 || x->ndim >= BL_MAX_DIMS || !bl_is_const(x->dim[m->row]) || !bl_is_const(x->dim[m->column])) {
        bl_call_fail(c, "needs matrices [..., n, n] of a fixed size, not %s", bl_call_shape(c, x));
        return false;
    }
    m->rows = x->dim[m->row]->lo;
    m->columns = x->dim[m->column]->lo;
    if (square && m->rows != m->columns) {
        bl_call_fail(c, "needs square matrices, not %s", bl_call_shape(c, x));
        return false;
    }
    if (m->rows > MOST_COLUMNS || m->columns > MOST_COLUMNS) {
        bl_call_fail_as(c, BL_ELIMIT, "takes matrices of at most %d rows and columns, not %s", MOST_COLUMNS, bl_call_shape(c, x));
        return false;
    }
    return true;
}

static const bl_node *part(bl_ir *ir, const bl_node *x, int axis, int64_t at)
{
    return bl_shrink_axis(ir, x, axis, bl_index(ir, at), bl_index(ir, 1));
}

/* Where the place along |axis| is |at| (or over it). */
static const bl_node *is_at(bl_ir *ir, const bl_node *like, int axis, int64_t at)
{
    const bl_node *place = bl_iota_like(ir, like, axis, BL_I32);
    return bl_alu2(ir, BL_OP_CMPEQ, place, bl_full_like(ir, place, (double)at));
}

static const bl_node *is_after(bl_ir *ir, const bl_node *like, int axis, int64_t at)
{
    const bl_node *place = bl_iota_like(ir, like, axis, BL_I32);
    return bl_less(ir, bl_full_like(ir, place, (double)at), place);
}

static const bl_node *zero_like(bl_ir *ir, const bl_node *x)
{
    return bl_full_like(ir, x, 0);
}

/* Products by broadcasting: [.., n, 1] and [.., 1, m] of one rank. */
static const bl_node *times(bl_call *c, const bl_node *x, const bl_node *y)
{
    const bl_node *both[2] = {x, y};
    return bl_call_broadcast(c, 2, both) ? bl_mul(c->ir, both[0], both[1]) : both[0];
}

static const bl_node *minus(bl_call *c, const bl_node *x, const bl_node *y)
{
    return bl_sub(c->ir, x, bl_spread(c->ir, y, x));
}

static const bl_node *turn(bl_ir *ir, const bl_node *x)
{
    int perm[BL_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        perm[i] = i < x->ndim - 2 ? i : 2 * x->ndim - 3 - i;
    return bl_permute(ir, x, perm);
}

static const bl_node *identity_like(bl_ir *ir, const bl_node *square)
{
    const bl_node *i = bl_iota_like(ir, square, square->ndim - 2, BL_I32),
                  *k = bl_iota_like(ir, square, square->ndim - 1, BL_I32);
    return bl_cast(ir, (bl_dtype)square->dtype, bl_alu2(ir, BL_OP_CMPEQ, i, k));
}

/* A mirror that takes column |j| to zeros below the diagonal: x - scale * v (v^T x).  |flips|: -1, or 1 where nothing is to do.
 */
typedef struct mirror {
    const bl_node *v, *scale, *flips; /* [.., rows, 1], [.., 1, 1] */
} mirror;

static mirror find_mirror(const matrix *m, const bl_node *r, int64_t j)
{
    bl_ir *ir = m->ir;
    const bl_node *x = part(ir, r, m->column, j), *alpha = part(ir, x, m->row, j);
    const bl_node *below = bl_where(ir, is_after(ir, x, m->row, j), x, zero_like(ir, x));
    const bl_node *sigma = bl_reduce(ir, BL_OP_ADD, bl_mul(ir, below, below), 1u << m->row);
    const bl_node *square = bl_add(ir, bl_mul(ir, alpha, alpha), sigma), *one = bl_full_like(ir, sigma, 1);
    const bl_node *none = bl_alu2(ir, BL_OP_CMPEQ, square, zero_like(ir, square));
    const bl_node *norm = bl_alu1(ir, BL_OP_SQRT, bl_where(ir, none, one, square));
    const bl_node *negative = bl_less(ir, alpha, zero_like(ir, alpha));
    const bl_node *first = bl_add(ir, alpha, bl_where(ir, negative, bl_alu1(ir, BL_OP_NEG, norm), norm));
    const bl_node *length = bl_where(ir, none, one, bl_add(ir, bl_mul(ir, first, first), sigma));
    mirror h;

    h.v = bl_contiguous(ir, bl_where(ir, is_at(ir, x, m->row, j), bl_spread(ir, first, x), below));
    h.scale = bl_contiguous(ir, bl_where(ir, none, zero_like(ir, sigma), bl_div(ir, bl_full_like(ir, sigma, 2), length)));
    h.flips = bl_where(ir, none, one, bl_full_like(ir, sigma, -1));
    return h;
}

/* x [.., rows, k] in the mirror. */
static const bl_node *reflect(bl_call *c, const mirror *h, const bl_node *x)
{
    bl_ir *ir = c->ir;
    if (x->op == BL_OP_POISON)
        return x;
    uint32_t rows = 1u << (x->ndim - 2);
    const bl_node *along = bl_contiguous(ir, bl_reduce(ir, BL_OP_ADD, times(c, h->v, x), rows));
    return bl_contiguous(ir, minus(c, x, times(c, times(c, h->scale, h->v), along)));
}

/* R, and Q^T times |also|; the determinant of Q where |flips| is wanted. */
static const bl_node *triangulate(bl_call *c, const matrix *m, const bl_node **also, const bl_node **flips)
{
    const bl_node *r = m->x;
    int64_t steps = m->rows - 1 < m->columns ? m->rows - 1 : m->columns;

    for (int64_t j = 0; j < steps; j++) {
        mirror h = find_mirror(m, r, j);
        r = reflect(c, &h, r);
        if (also != NULL)
            *also = reflect(c, &h, *also);
        if (flips != NULL)
            *flips = *flips == NULL ? h.flips : bl_mul(c->ir, *flips, h.flips);
    }
    return r;
}

/* x of a x = b, a triangular: each row in turn, taken off the others. */
static const bl_node *substitute(bl_call *c, const bl_node *a, const bl_node *b, int64_t n, bool upper)
{
    bl_ir *ir = c->ir;
    int row = b->ndim - 2, column = b->ndim - 1;

    for (int64_t k = 0; k < n; k++) {
        int64_t j = upper ? n - 1 - k : k;
        const bl_node *both[2] = {part(ir, b, row, j), part(ir, part(ir, a, row, j), column, j)};
        if (!bl_call_broadcast(c, 2, both))
            return both[0];
        const bl_node *x = bl_div(ir, both[0], both[1]), *place = bl_iota_like(ir, b, row, BL_I32);
        const bl_node *here = bl_full_like(ir, place, (double)j);
        const bl_node *left = upper ? bl_less(ir, place, here) : bl_less(ir, here, place);
        const bl_node *taken = bl_where(ir, left, minus(c, b, times(c, part(ir, a, column, j), x)), b);
        b = bl_contiguous(ir, bl_where(ir, is_at(ir, b, row, j), bl_spread(ir, x, b), taken));
    }
    return b;
}

static const bl_node *as_given(bl_call *c, const bl_node *x)
{
    return bl_cast(c->ir, (bl_dtype)c->in[0]->dtype, x);
}

const bl_node *expand_qr(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *dim[BL_MAX_DIMS];
    matrix m;

    if (!take_matrix(c, c->in[0], false, &m))
        return c->in[0];
    int64_t small = m.rows < m.columns ? m.rows : m.columns;
    for (int i = 0; i < m.x->ndim; i++)
        dim[i] = i == m.column ? m.x->dim[m.row] : m.x->dim[i];
    const bl_node *q = identity_like(ir, bl_call_full(c, bl_const_float(ir, (bl_dtype)m.x->dtype, 0), m.x->ndim, dim));
    const bl_node *r = triangulate(c, &m, &q, NULL); /* q is Q^T now */
    q = bl_shrink_axis(ir, turn(ir, q), m.column, bl_index(ir, 0), bl_index(ir, small));
    r = bl_shrink_axis(ir, r, m.row, bl_index(ir, 0), bl_index(ir, small));
    const bl_node *i = bl_iota_like(ir, r, m.row, BL_I32), *k = bl_iota_like(ir, r, m.column, BL_I32);
    c->result[0] = as_given(c, q);
    c->result[1] = as_given(c, bl_where(ir, bl_less(ir, k, i), zero_like(ir, r), r));
    return c->result[0];
}

const bl_node *expand_cholesky(bl_call *c)
{
    bl_ir *ir = c->ir;
    matrix m;

    if (!take_matrix(c, c->in[0], true, &m))
        return c->in[0];
    const bl_node *a = m.x, *result = zero_like(ir, a);
    for (int64_t j = 0; j < m.columns; j++) {
        const bl_node *x = part(ir, a, m.column, j), *root = bl_alu1(ir, BL_OP_SQRT, part(ir, x, m.row, j));
        const bl_node *above =
            bl_less(ir, bl_iota_like(ir, x, m.row, BL_I32), bl_full_like(ir, bl_iota_like(ir, x, m.row, BL_I32), (double)j));
        const bl_node *l = bl_contiguous(ir, bl_where(ir, above, zero_like(ir, x), bl_div(ir, x, bl_spread(ir, root, x))));
        result = bl_where(ir, is_at(ir, result, m.column, j), bl_spread(ir, l, result), result);
        a = bl_contiguous(ir, bl_sub(ir, a, times(c, l, turn(ir, l))));
    }
    return as_given(c, result);
}

/* b [.., n, k], or [n] for a vector: |*column| then, and the result loses the axis again. */
static bool take_right(bl_call *c, const matrix *m, const bl_node **b, bool *column)
{
    *b = bl_cast(c->ir, (bl_dtype)m->x->dtype, c->in[1]);
    *column = (*b)->ndim == 1;
    if (*column)
        *b = bl_add_axis(c->ir, *b, 1);
    if ((*b)->ndim >= 2 && (*b)->dim[(*b)->ndim - 2] == m->x->dim[m->row]) {
        while ((*b)->ndim < m->x->ndim)
            *b = bl_add_axis(c->ir, *b, 0);
        if ((*b)->ndim == m->x->ndim)
            return true;
    }
    bl_call_fail(c, "shapes do not fit: a %s, b %s", bl_call_shape(c, c->in[0]), bl_call_shape(c, c->in[1]));
    return false;
}

/* b in the batches that both have. */
static bool spread_right(bl_call *c, const matrix *m, const bl_node **b)
{
    const bl_node *frame[2] = {part(c->ir, *b, m->column, 0), part(c->ir, m->x, m->column, 0)};
    const bl_node *dim[BL_MAX_DIMS];
    if (!bl_call_broadcast(c, 2, frame))
        return false;
    for (int i = 0; i < m->x->ndim; i++)
        dim[i] = i == m->column ? (*b)->dim[i] : frame[0]->dim[i];
    *b = bl_call_expand(c, *b, m->x->ndim, dim);
    return (*b)->op != BL_OP_POISON;
}

const bl_node *expand_triangular_solve(bl_call *c)
{
    matrix m;
    const bl_node *b = NULL;
    bool column = false;

    if (!take_matrix(c, c->in[0], true, &m) || !take_right(c, &m, &b, &column) || !spread_right(c, &m, &b))
        return c->in[0];
    const bl_node *x = substitute(c, m.x, b, m.rows, bl_attr(c, "upper")->flag);
    return as_given(c, column ? bl_drop_axes(c->ir, x, 1u << m.column) : x);
}

const bl_node *expand_solve(bl_call *c)
{
    matrix m;
    const bl_node *b = NULL;
    bool column = false;

    if (!take_matrix(c, c->in[0], true, &m) || !take_right(c, &m, &b, &column) || !spread_right(c, &m, &b))
        return c->in[0];
    const bl_node *r = triangulate(c, &m, &b, NULL);
    const bl_node *x = substitute(c, r, b, m.rows, true);
    return as_given(c, column ? bl_drop_axes(c->ir, x, 1u << m.column) : x);
}

const bl_node *expand_inverse(bl_call *c)
{
    matrix m;
    if (!take_matrix(c, c->in[0], true, &m))
        return c->in[0];
    const bl_node *b = identity_like(c->ir, m.x);
    const bl_node *r = triangulate(c, &m, &b, NULL);
    return as_given(c, substitute(c, r, b, m.rows, true));
}

const bl_node *expand_det(bl_call *c)
{
    bl_ir *ir = c->ir;
    const bl_node *flips = NULL;
    matrix m;

    if (!take_matrix(c, c->in[0], true, &m))
        return c->in[0];
    const bl_node *r = triangulate(c, &m, NULL, &flips);
    const bl_node *same = bl_alu2(ir, BL_OP_CMPEQ, bl_iota_like(ir, r, m.row, BL_I32), bl_iota_like(ir, r, m.column, BL_I32));
    const bl_node *diagonal = bl_reduce(ir, BL_OP_ADD, bl_where(ir, same, r, zero_like(ir, r)), 1u << m.column);
    const bl_node *product = bl_reduce(ir, BL_OP_MUL, diagonal, 1u << m.row);
    if (flips != NULL)
        product = bl_mul(ir, product, flips);
    return as_given(c, bl_drop_axes(ir, product, 3u << m.row));
}
