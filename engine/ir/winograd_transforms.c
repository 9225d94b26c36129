/* SPDX-License-Identifier: MIT */
#include "engine/ir/winograd_transforms.h"

enum { WEIGHT = 3, MOST = 6, MOST_PARTS = MOST * MOST };

/* The transform matrices of F(m x m, 3 x 3): interpolation points 0, 1, -1 and infinity, and for m = 4 also 2 and -2. */
typedef struct transforms {
    double in[MOST][MOST];       /* B^T: transforms an input tile */
    double weight[MOST][WEIGHT]; /* G: transforms the weight */
    double out[MOST - 2][MOST];  /* A^T: transforms products back */
} transforms;

static const transforms small = {
    .in = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
    .weight = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
    .out = {{1, 1, 1, 0}, {0, 1, -1, -1}},
};
static const transforms large = {
    .in = {{4, 0, -5, 0, 1, 0},
           {0, -4, -4, 1, 1, 0},
           {0, 4, -4, -1, 1, 0},
           {0, -2, -1, 2, 1, 0},
           {0, 2, -1, -2, 1, 0},
           {0, 4, 0, -5, 0, 1}},
    .weight = {{1.0 / 4, 0, 0},
               {-1.0 / 6, -1.0 / 6, -1.0 / 6},
               {-1.0 / 6, 1.0 / 6, -1.0 / 6},
               {1.0 / 24, 1.0 / 12, 1.0 / 6},
               {1.0 / 24, -1.0 / 12, 1.0 / 6},
               {0, 0, 1}},
    .out = {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}},
};

int64_t bl_correlation_pack(bl_correlation c)
{
    return (int64_t)c.tile << 8 | c.before[0] << 6 | c.after[0] << 4 | c.before[1] << 2 | c.after[1];
}

bl_correlation bl_correlation_unpack(int64_t arg)
{
    return (bl_correlation){.tile = (int)(arg >> 8),
                            .before = {(int)(arg >> 6 & 3), (int)(arg >> 2 & 3)},
                            .after = {(int)(arg >> 4 & 3), (int)(arg & 3)}};
}

bl_correlation bl_correlation_turned(bl_correlation c)
{
    return (bl_correlation){.tile = c.tile,
                            .before = {WEIGHT - 1 - c.before[0], WEIGHT - 1 - c.before[1]},
                            .after = {WEIGHT - 1 - c.after[0], WEIGHT - 1 - c.after[1]}};
}

/* ---- small matrices of tensors */

/* A matrix of constants, read by rows or, if |turned|, by columns. */
typedef struct factors {
    const double *at;
    int rows, columns, step; /* |step|: elements of the table from one row to the next */
    bool turned;
} factors;

static double factor(const factors *f, int row, int column)
{
    return f->turned ? f->at[column * f->step + row] : f->at[row * f->step + column];
}

/* The sum of n parts, |stride| apart, each times its factor of the row. */
static const bl_node *winograd_transforms_combine(bl_ir *ir, const factors *f, int row, const bl_node *const *part, int stride)
{
    const bl_node *sum = NULL;

    for (int i = 0; i < f->columns; i++) {
        double by = factor(f, row, i);
        const bl_node *x = part[i * stride];
        if (by == 0)
            continue;
        if (by != 1 && (by != -1 || sum == NULL))
            x = bl_mul(ir, x, bl_full_like(ir, x, by));
        sum = sum == NULL ? x : by == -1 ? bl_sub(ir, sum, x) : bl_add(ir, sum, x);
    }
    return sum;
}

/* f part f^T: from columns x columns parts to rows x rows parts. */
static void winograd_transforms_transform(bl_ir *ir, const factors *f, const bl_node *const *part, const bl_node **out)
{
    const bl_node *half[MOST_PARTS];

    for (int p = 0; p < f->rows; p++) {
        for (int j = 0; j < f->columns; j++)
            half[p * f->columns + j] = winograd_transforms_combine(ir, f, p, part + j, f->columns);
    }
    for (int p = 0; p < f->rows; p++) {
        for (int q = 0; q < f->rows; q++)
            out[p * f->rows + q] = winograd_transforms_combine(ir, f, q, half + (size_t)(p * f->columns), 1);
    }
}

/* Select a part by the position along |axis|; each part has extent 1 there. No load of a part depends on the axis, so the
 * scheduler can unroll the axis (engine/opt/select.c). */
static const bl_node *winograd_transforms_choose(bl_ir *ir, int axis, int first, int n, const bl_node *const *part,
                                                 const bl_node *iota)
{
    if (n == 1)
        return bl_expand(ir, part[0], iota->ndim, iota->dim);
    const bl_node *low = winograd_transforms_choose(ir, axis, first, n / 2, part, iota);
    const bl_node *high = winograd_transforms_choose(ir, axis, first + n / 2, n - n / 2, part + n / 2, iota);
    return bl_where(ir, bl_less(ir, iota, bl_full_like(ir, iota, first + n / 2)), low, high);
}

static const bl_node *winograd_transforms_join(bl_ir *ir, int axis, int n, const bl_node *const *part)
{
    const bl_node *dim[BL_MAX_DIMS];
    const bl_node *one[BL_MAX_DIMS];

    for (int i = 0; i < n; i++) {
        if (part[i]->op == BL_OP_POISON)
            return part[i];
    }
    for (int i = 0; i < part[0]->ndim; i++) {
        dim[i] = i == axis ? bl_index(ir, n) : part[0]->dim[i];
        one[i] = bl_index(ir, i == axis ? n : 1);
    }
    const bl_node *iota = bl_reshape(ir, bl_iota(ir, BL_I32, bl_index(ir, n)), part[0]->ndim, one);
    iota = bl_expand(ir, iota, part[0]->ndim, dim);
    return iota->op == BL_OP_POISON ? iota : winograd_transforms_choose(ir, axis, 0, n, part, iota);
}

/* ---- tiles */

typedef struct winograd {
    bl_ir *ir;
    const transforms *t;
    int tile, places;                                         /* m, and (m + 2)^2 */
    int64_t pictures, ins, outs, height, width, down, across; /* N, C, O, the size of the result, and the number of tiles */
    int before[2];
} winograd;

static int64_t extent(const bl_node *x, int axis)
{
    return bl_const_value(x->dim[axis]).i;
}

static winograd winograd_transforms_start(bl_ir *ir, const bl_node *x, int64_t outs, bl_correlation c)
{
    int64_t height = extent(x, 2) + c.before[0] + c.after[0] - (WEIGHT - 1);
    int64_t width = extent(x, 3) + c.before[1] + c.after[1] - (WEIGHT - 1);
    int tile = c.tile == 4 ? 4 : 2;

    return (winograd){.ir = ir,
                      .t = tile == 4 ? &large : &small,
                      .tile = tile,
                      .places = (tile + 2) * (tile + 2),
                      .pictures = extent(x, 0),
                      .ins = extent(x, 1),
                      .outs = outs,
                      .height = height,
                      .width = width,
                      .down = (height + tile - 1) / tile,
                      .across = (width + tile - 1) / tile,
                      .before = {c.before[0], c.before[1]}};
}

static const bl_node *reshape(bl_ir *ir, const bl_node *x, int n, const int64_t *size)
{
    const bl_node *dim[BL_MAX_DIMS];

    for (int i = 0; i < n; i++)
        dim[i] = bl_index(ir, size[i]);
    return bl_reshape(ir, x, n, dim);
}

/* Cut x [N, C, H, W], with zero padding, into tiles of |size| by |size| elements, m apart: size^2 tensors [1, N, down, across,
 * C]. */
static void winograd_transforms_cut(const winograd *g, const bl_node *x, const int *before, int size, const bl_node **part)
{
    static const int channels_last[] = {0, 2, 3, 1, 4, 5};
    bl_ir *ir = g->ir;
    const bl_node *zeros[2][4], *from[6], *one[6];
    int64_t channels = extent(x, 1);

    for (int i = 0; i < 4; i++) {
        int64_t wanted = i < 2 ? 0 : (i == 2 ? g->down : g->across) * g->tile + size - g->tile;
        zeros[0][i] = bl_index(ir, i < 2 ? 0 : before[i - 2]);
        zeros[1][i] = bl_index(ir, i < 2 ? 0 : wanted - before[i - 2] - extent(x, i));
    }
    x = bl_pad(ir, x, zeros[0], zeros[1]);
    x = bl_window(ir, bl_window(ir, x, 2, size, g->tile, 1), 3, size, g->tile, 1);
    x = bl_permute(ir, x, channels_last);
    for (int i = 0; i < size * size; i++) {
        for (int k = 0; k < 6; k++) {
            from[k] = bl_index(ir, k == 4 ? i / size : k == 5 ? i % size : 0);
            one[k] = k > 3 || x->op == BL_OP_POISON ? bl_index(ir, 1) : x->dim[k];
        }
        part[i] = reshape(ir, bl_shrink(ir, x, from, one), 5, (const int64_t[]){1, g->pictures, g->down, g->across, channels});
    }
}

/* Transformed parts as the rows of a matrix product: [places, tiles, channels]. They get a buffer, since each element is read
 * many times. */
static const bl_node *rows(const winograd *g, const bl_node *const *part, int64_t channels)
{
    const bl_node *x = bl_contiguous(g->ir, winograd_transforms_join(g->ir, 0, g->places, part));
    return reshape(g->ir, x, 3, (const int64_t[]){g->places, g->pictures * g->down * g->across, channels});
}

static const bl_node *transformed_input(const winograd *g, const bl_node *x)
{
    const bl_node *part[MOST_PARTS], *out[MOST_PARTS];
    int size = g->tile + 2;
    const factors f = {.at = &g->t->in[0][0], .rows = size, .columns = size, .step = MOST};

    winograd_transforms_cut(g, x, g->before, size, part);
    winograd_transforms_transform(g->ir, &f, part, out);
    return rows(g, out, g->ins);
}

/* Transform w [O, C, 3, 3] to [places, C, O]. */
static const bl_node *transformed_weight(const winograd *g, const bl_node *w)
{
    static const int outs_last[] = {2, 3, 1, 0};
    bl_ir *ir = g->ir;
    const bl_node *part[WEIGHT * WEIGHT], *out[MOST_PARTS];
    const factors f = {.at = &g->t->weight[0][0], .rows = g->tile + 2, .columns = WEIGHT, .step = WEIGHT};

    w = reshape(ir, bl_permute(ir, w, outs_last), 3, (const int64_t[]){(int64_t)WEIGHT * WEIGHT, g->ins, g->outs});
    for (int i = 0; i < WEIGHT * WEIGHT; i++) {
        const bl_node *from[3] = {bl_index(ir, i), bl_index(ir, 0), bl_index(ir, 0)};
        const bl_node *size[3] = {bl_index(ir, 1), bl_index(ir, g->ins), bl_index(ir, g->outs)};
        part[i] = bl_shrink(ir, w, from, size);
    }
    winograd_transforms_transform(ir, &f, part, out);
    return bl_contiguous(ir, winograd_transforms_join(ir, 0, g->places, out));
}

/* The product of a [P, M, K] and b [P, K, N]. */
static const bl_node *winograd_transforms_product(bl_ir *ir, const bl_node *a, const bl_node *b)
{
    static const int turn[] = {0, 2, 1};

    if (a->op == BL_OP_POISON || b->op == BL_OP_POISON)
        return a->op == BL_OP_POISON ? a : b;
    const bl_node *dim[4] = {a->dim[0], a->dim[1], b->dim[2], a->dim[2]};
    b = bl_permute(ir, b, turn);
    a = bl_reshape(ir, a, 4, (const bl_node *const[]){dim[0], dim[1], bl_index(ir, 1), dim[3]});
    b = bl_reshape(ir, b, 4, (const bl_node *const[]){dim[0], bl_index(ir, 1), dim[2], dim[3]});
    a = bl_reduce(ir, BL_OP_ADD, bl_mul(ir, bl_expand(ir, a, 4, dim), bl_expand(ir, b, 4, dim)), 1u << 3);
    return bl_contiguous(ir, bl_reshape(ir, a, 3, dim));
}

/* Part |i| of x [parts, ..], with its other axes reshaped to |size|. */
static const bl_node *winograd_transforms_part_of(bl_ir *ir, const bl_node *x, int i, int n, const int64_t *size)
{
    const bl_node *from[BL_MAX_DIMS], *dim[BL_MAX_DIMS];

    for (int k = 0; k < x->ndim; k++) {
        from[k] = bl_index(ir, k == 0 ? i : 0);
        dim[k] = k == 0 ? bl_index(ir, 1) : x->dim[k];
    }
    return x->op == BL_OP_POISON ? x : reshape(ir, bl_shrink(ir, x, from, dim), n, size);
}

/* Join n * n parts along the axes |down| and |across|, where each part has extent 1. */
static const bl_node *join_square(bl_ir *ir, int down, int across, int n, const bl_node *const *part)
{
    const bl_node *row[MOST];

    for (int i = 0; i < n; i++)
        row[i] = winograd_transforms_join(ir, across, n, part + (size_t)(i * n));
    return winograd_transforms_join(ir, down, n, row);
}

/* Transform products [places, tiles, O] back to [N, O, H, W]. */
static const bl_node *transformed_back(const winograd *g, const bl_node *m)
{
    static const int rows_apart[] = {0, 3, 1, 4, 2, 5};
    bl_ir *ir = g->ir;
    const bl_node *part[MOST_PARTS], *out[MOST_PARTS];
    const factors f = {.at = &g->t->out[0][0], .rows = g->tile, .columns = g->tile + 2, .step = MOST};

    for (int i = 0; i < g->places; i++)
        part[i] = winograd_transforms_part_of(ir, m, i, 6, (const int64_t[]){g->pictures, g->down, g->across, g->outs, 1, 1});
    winograd_transforms_transform(ir, &f, part, out);
    for (int i = 0; i < g->tile * g->tile; i++)
        out[i] = bl_permute(ir, out[i], rows_apart); /* [N, O, down, 1, across, 1] */
    const bl_node *y = join_square(ir, 3, 5, g->tile, out);
    int64_t height = g->down * g->tile, width = g->across * g->tile;
    bool cropped = height != g->height || width != g->width;
    if (cropped) /* whole tiles, so that the axes inside a tile can be unrolled */
        y = bl_contiguous(ir, y);
    y = reshape(ir, y, 4, (const int64_t[]){g->pictures, g->outs, height, width});
    if (!cropped || y->op == BL_OP_POISON)
        return y;
    const bl_node *from[4] = {bl_index(ir, 0), bl_index(ir, 0), bl_index(ir, 0), bl_index(ir, 0)};
    const bl_node *size[4] = {y->dim[0], y->dim[1], bl_index(ir, g->height), bl_index(ir, g->width)};
    return bl_shrink(ir, y, from, size);
}

/* ---- the node that gradients go to */

static const bl_node *correlate(const winograd *g, const bl_node *x, const bl_node *w, bl_correlation c)
{
    const bl_node *dim[4] = {x->dim[0], w->dim[0], bl_index(g->ir, g->height), bl_index(g->ir, g->width)};
    const bl_node *src[2] = {x, w};

    return bl_node_make(g->ir, &(bl_node){.op = BL_OP_CORRELATE,
                                          .dtype = x->dtype,
                                          .lanes = 1,
                                          .nsrc = 2,
                                          .src = src,
                                          .ndim = 4,
                                          .dim = dim,
                                          .arg = bl_correlation_pack(c)});
}

const bl_node *bl_winograd(bl_ir *ir, const bl_node *x, const bl_node *w, bl_correlation c)
{
    if (x->op == BL_OP_POISON || w->op == BL_OP_POISON)
        return x->op == BL_OP_POISON ? x : w;
    winograd g = winograd_transforms_start(ir, x, extent(w, 0), c);
    const bl_node *y = transformed_back(&g, winograd_transforms_product(ir, transformed_input(&g, x), transformed_weight(&g, w)));
    return bl_alias(ir, y, correlate(&g, x, w, c), 0);
}

const bl_node *bl_winograd_turned(bl_ir *ir, const bl_node *w)
{
    static const int exchanged[] = {1, 0, 2, 3};
    return bl_flip(ir, bl_permute(ir, w, exchanged), 1u << 2 | 1u << 3);
}

/* The gradient with respect to the weight, as windows, a product and a sum. */
static const bl_node *correlate_weight(bl_ir *ir, const bl_node *x, const bl_node *g, bl_correlation c)
{
    static const int windows_first[] = {1, 4, 5, 0, 2, 3}, outs_first[] = {1, 0, 2, 3};
    const bl_node *zeros[2][4], *dim[7], *last[7];

    for (int i = 0; i < 4; i++) {
        zeros[0][i] = bl_index(ir, i < 2 ? 0 : c.before[i - 2]);
        zeros[1][i] = bl_index(ir, i < 2 ? 0 : c.after[i - 2]);
    }
    x = bl_pad(ir, x, zeros[0], zeros[1]);
    x = bl_window(ir, bl_window(ir, x, 2, WEIGHT, 1, 1), 3, WEIGHT, 1, 1);
    if (x->op == BL_OP_POISON || g->op == BL_OP_POISON)
        return x->op == BL_OP_POISON ? x : g;
    x = bl_permute(ir, x, windows_first); /* [C, 3, 3, N, H', W'] */
    g = bl_permute(ir, g, outs_first);    /* [O, N, H', W'] */
    dim[0] = g->dim[0];
    for (int i = 0; i < 6; i++)
        dim[i + 1] = x->dim[i];
    for (int i = 0; i < 7; i++)
        last[i] = i > 0 && i < 4 ? bl_index(ir, 1) : dim[i];
    x = bl_expand(ir, x, 7, dim);
    g = bl_expand(ir, bl_reshape(ir, g, 7, last), 7, dim);
    return bl_reshape(ir, bl_reduce(ir, BL_OP_ADD, bl_mul(ir, x, g), 0x70), 4, dim);
}

const bl_node *bl_winograd_weight(bl_ir *ir, const bl_node *x, const bl_node *g, bl_correlation c)
{
    static const int outs_first[] = {3, 2, 0, 1}, none[2] = {0, 0}, turn[] = {0, 2, 1};
    const bl_node *part[MOST_PARTS], *out[MOST_PARTS];

    if (x->op == BL_OP_POISON || g->op == BL_OP_POISON)
        return x->op == BL_OP_POISON ? x : g;
    winograd win = winograd_transforms_start(ir, x, extent(g, 1), c);
    const factors spread = {.at = &win.t->out[0][0], .rows = win.tile + 2, .columns = win.tile, .step = MOST, .turned = true};
    const factors gather = {.at = &win.t->weight[0][0], .rows = WEIGHT, .columns = win.tile + 2, .step = WEIGHT, .turned = true};

    winograd_transforms_cut(&win, g, none, win.tile, part);
    winograd_transforms_transform(ir, &spread, part, out);
    const bl_node *m = rows(&win, out, win.outs), *v = transformed_input(&win, x);
    const bl_node *u =
        winograd_transforms_product(ir, v->op == BL_OP_POISON ? v : bl_permute(ir, v, turn), m); /* [places, C, O] */
    for (int i = 0; i < win.places; i++)
        part[i] = winograd_transforms_part_of(ir, u, i, 4, (const int64_t[]){1, 1, win.ins, win.outs});
    winograd_transforms_transform(ir, &gather, part, out);
    for (int i = 0; i < WEIGHT * WEIGHT; i++)
        out[i] = bl_permute(ir, out[i], outs_first); /* [O, C, 1, 1] */
    return bl_alias(ir, join_square(ir, 2, 3, WEIGHT, out), correlate_weight(ir, x, g, c), 0);
}
