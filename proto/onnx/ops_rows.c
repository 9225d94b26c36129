/* SPDX-License-Identifier: MIT */
/* Operators with a data-dependent result size: NonZero, Compress, Unique, NonMaxSuppression.  If the input is known at import, so
 * is the result; otherwise the result has the largest possible length and a count (row_counts.c). */
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

/* ---- NonZero and Compress */

static bl_onnx_value *known_non_zero(bl_onnx_call *c, const bl_onnx_known *x)
{
    int count = 0, at = 0;

    for (int i = 0; i < x->count; i++) {
        if (x->size != NULL && !bl_is_const(x->size[i]))
            return bl_onnx_fail(c, "input 0 contains a named dimension");
        count += x->real != NULL ? x->real[i] != 0 : !bl_is_int(x->size[i], 0);
    }
    bl_onnx_known *out = bl_onnx_new_known(c->import, BL_I64, 2, (const int64_t[]){x->ndim, count});
    for (int i = 0; out != NULL && i < x->count; i++) {
        int64_t rest = i;
        if (x->real != NULL ? x->real[i] == 0 : bl_is_int(x->size[i], 0))
            continue;
        for (int d = x->ndim - 1; d >= 0; d--) {
            out->size[d * count + at] = bl_index(c->import->ir, rest % x->dim[d]);
            rest /= x->dim[d];
        }
        at++;
    }
    return out != NULL ? bl_onnx_known_value(c->import, out) : bl_onnx_fail_as(c, BL_ELIMIT, "too many elements");
}

/* The indices at which |x| is not zero, in order: [size, rank], with |*count| valid rows. */
static bl_onnx_value *places_of(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value **count)
{
    bl_onnx_value *out[2] = {NULL, NULL};
    const bl_node *size = x != NULL ? bl_shape_count(c->import->ir, bl_onnx_rank(x), x->type->dim) : NULL;

    if (size != NULL && bl_onnx_make_many(c, "nonzero($0, size=$1)", ARGS(V(x), ZS(-1, &size)), 2, out))
        *count = out[1];
    return out[0];
}

bl_onnx_value *bl_onnx_write_non_zero(bl_onnx_call *c)
{
    const bl_onnx_known *known = bl_onnx_know(c->import, bl_onnx_in(c, 0));
    bl_onnx_value *count = NULL, *at;

    if (known != NULL)
        return known_non_zero(c, known);
    at = places_of(c, bl_onnx_in(c, 0), &count);
    return at == NULL ? bl_onnx_fail(c, "needs data") : bl_onnx_count(bl_onnx_make(c, "transpose($0)", ARGS(V(at))), count, 1);
}

/* The rows for which the condition holds. */
bl_onnx_value *bl_onnx_write_compress(bl_onnx_call *c)
{
    bool flat = bl_onnx_attr(c, "axis") == NULL;
    bl_onnx_value *x = bl_onnx_in(c, 0), *condition = bl_onnx_in(c, 1), *at, *count = NULL;
    int axis = flat ? 0 : bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(x));

    if (bl_onnx_rank(condition) != 1 || x == NULL)
        return bl_onnx_fail(c, "needs data and a condition of one dimension");
    if (flat)
        x = bl_onnx_make(c, "flatten(a)", NULL);
    if (bl_onnx_know(c->import, condition) != NULL) {
        const int64_t *is;
        int n = bl_onnx_in_ints(c, 1, &is), taken = 0;
        int64_t *places = bl_arena_array(c->import->scratch, (size_t)(n < 0 ? 0 : n) + 1, sizeof *places);
        for (int i = 0; i < n && places != NULL; i++) {
            if (is[i] != 0)
                places[taken++] = i;
        }
        return bl_onnx_make(c, "take($0, $1, axis=$2)", ARGS(V(x), V(bl_onnx_known_ints(c->import, taken, places)), I(axis)));
    }
    at = places_of(c, condition, &count);
    return bl_onnx_count(bl_onnx_make(c, "take($0, squeeze($1, axis=-1), axis=$2)", ARGS(V(x), V(at), I(axis))), count, axis);
}

/* ---- Unique */

enum { MOST_COLUMNS = 64 }; /* largest number of columns of a compared slice: each needs a sort */

typedef struct unique {
    bl_onnx_call *c;
    bl_onnx_value *rows;          /* [n, columns] */
    bl_onnx_value *order, *group; /* [n]: row i of the sorted order is order[i], in group group[i]; a group has equal rows */
    bl_onnx_value *first, *count; /* [n]: index in sorted order of each group's first row; number of groups */
} unique;

/* Sorts rows lexicographically: by the last column first, since the sort is stable. */
static bl_onnx_value *sort_rows(bl_onnx_call *c, bl_onnx_value *rows)
{
    bl_onnx_value *order = NULL;

    for (int64_t i = rows->type->dim[1]->hi - 1; i >= 0; i--) {
        bl_onnx_value *column =
            bl_onnx_make(c, "squeeze(slice($0, start=$1, stop=$2, axis=[1]), axis=1)", ARGS(V(rows), I(i), I(i + 1)));
        if (order == NULL)
            order = bl_onnx_make(c, "argsort($0)", ARGS(V(column)));
        else
            order = bl_onnx_make(c, "take($0, argsort(take($1, $0)))", ARGS(V(order), V(column)));
    }
    return order;
}

static void group_rows(unique *u)
{
    bl_onnx_call *c = u->c;
    bl_onnx_value *sorted, *fresh;

    u->order = sort_rows(c, u->rows);
    sorted = bl_onnx_make(c, "take($0, $1)", ARGS(V(u->rows), V(u->order)));
    fresh = bl_onnx_make(c, "any(not_equal($0, roll($0, shift=1, axis=0)), axis=[1])", ARGS(V(sorted)));
    fresh = bl_onnx_make(c, "logical_or($0, equal(arange(stop=$1), 0))", ARGS(V(fresh), ZS(-1, &u->rows->type->dim[0])));
    u->group = bl_onnx_make(c, "sub(cumsum(cast($0, dtype=int64), axis=0), 1)", ARGS(V(fresh)));
    u->first = bl_onnx_make(c, "squeeze($0, axis=-1)", ARGS(V(places_of(c, fresh, &u->count))));
}

/* Orders the groups by their first rows instead of by value.  |at| [n] is the first row of each group; the result [n] is the
 * group at each new position. */
static bl_onnx_value *order_groups(const unique *u, bl_onnx_value *at)
{
    const bl_node *n = u->rows->type->dim[0];
    bl_onnx_value *last = bl_onnx_size_value(u->c, n);

    return bl_onnx_make(u->c, "argsort(where(less(arange(stop=$0), $1), $2, $3))", ARGS(ZS(-1, &n), V(u->count), V(at), V(last)));
}

bl_onnx_value *bl_onnx_write_unique(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *y, *at, *sizes, *inverse, *by;
    bool flat = bl_onnx_attr(c, "axis") == NULL, sorted = bl_onnx_int(c, "sorted", 1) != 0;
    int axis = flat ? 0 : bl_onnx_axis(c, bl_onnx_int(c, "axis", 0), bl_onnx_rank(x));
    int64_t front[BL_MAX_DIMS], back[BL_MAX_DIMS];
    unique u = {.c = c};

    if (x == NULL || c->import->failed)
        return bl_onnx_fail(c, "needs data");
    int rank = bl_onnx_rank(x);
    for (int i = 0; i < rank; i++) { /* moves the axis to the front, and back */
        front[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
        back[front[i]] = i;
    }
    x = flat ? bl_onnx_make(c, "flatten(a)", NULL) : bl_onnx_make(c, "permute(a, axes=$0)", ARGS(IS(rank, front)));
    u.rows = bl_onnx_rank(x) == 1 ? bl_onnx_make(c, "unsqueeze($0, axis=-1)", ARGS(V(x)))
                                  : bl_onnx_make(c, "flatten($0, start_axis=1)", ARGS(V(x)));
    if (u.rows == NULL || !bl_is_const(u.rows->type->dim[1]) || u.rows->type->dim[1]->hi > MOST_COLUMNS)
        return bl_onnx_fail(c, "compares slices of at most %d elements, of fixed sizes", MOST_COLUMNS);
    group_rows(&u);
    const bl_node *n = u.rows->type->dim[0];
    at = bl_onnx_make(c, "take($0, $1)", ARGS(V(u.order), V(u.first)));
    sizes = bl_onnx_make(c, "scatter_reduce(zeros(shape=$0, dtype=int64), $1, ones_like($1), axis=0, reduce=sum)",
                         ARGS(ZS(1, &n), V(u.group)));
    inverse = bl_onnx_make(c, "scatter(zeros(shape=$0, dtype=int64), $1, $2, axis=0)", ARGS(ZS(1, &n), V(u.order), V(u.group)));
    if (!sorted) {
        by = order_groups(&u, at);
        at = bl_onnx_make(c, "take($0, $1)", ARGS(V(at), V(by)));
        sizes = bl_onnx_make(c, "take($0, $1)", ARGS(V(sizes), V(by)));
        inverse = bl_onnx_make(c, "take(argsort($0), $1)", ARGS(V(by), V(inverse)));
    }
    y = bl_onnx_make(c, "take($0, $1)", ARGS(V(x), V(at)));
    if (!flat)
        y = bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(y), IS(rank, back)));
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_count(at, u.count, 0);
    if (bl_onnx_wants(c, 2))
        c->out[2] = inverse;
    if (bl_onnx_wants(c, 3))
        c->out[3] = bl_onnx_count(sizes, u.count, 0);
    return bl_onnx_count(y, u.count, axis);
}

/* ---- NonMaxSuppression */

/* Corners and area of each box: low y, low x, high y, high x, area, each shaped as |boxes| without its last axis. */
enum { LOW_Y, LOW_X, HIGH_Y, HIGH_X, AREA, BOX_PARTS };

static bool take_corners(bl_onnx_call *c, bl_onnx_value *boxes, bool centers, bl_onnx_value **part)
{
    bl_onnx_value *in[4];

    for (int i = 0; i < 4; i++)
        in[i] = bl_onnx_make(c, "squeeze(slice($0, start=$1, stop=$2, axis=[-1]), axis=-1)", ARGS(V(boxes), I(i), I(i + 1)));
    for (int i = 0; i < 2; i++) { /* center format is x, y, width, height; corner format is y, x, y, x */
        int x = centers ? LOW_X - i : LOW_Y + i;
        if (centers) {
            part[x] = bl_onnx_make(c, "sub($0, div($1, 2))", ARGS(V(in[i]), V(in[2 + i])));
            part[x + 2] = bl_onnx_make(c, "add($0, div($1, 2))", ARGS(V(in[i]), V(in[2 + i])));
        } else {
            part[x] = bl_onnx_make(c, "minimum($0, $1)", ARGS(V(in[i]), V(in[2 + i])));
            part[x + 2] = bl_onnx_make(c, "maximum($0, $1)", ARGS(V(in[i]), V(in[2 + i])));
        }
    }
    part[AREA] =
        bl_onnx_make(c, "mul(sub($0, $1), sub($2, $3))", ARGS(V(part[HIGH_Y]), V(part[LOW_Y]), V(part[HIGH_X]), V(part[LOW_X])));
    return !c->import->failed;
}

/* Which of all boxes (parts [batch, 1, boxes]) overlap one box per class (parts [batch, classes, 1]) by more than |most|, the
 * intersection over union. */
static bl_onnx_value *overlaps(bl_onnx_call *c, bl_onnx_value **all, bl_onnx_value **one, bl_onnx_value *most)
{
    bl_onnx_value *side[2], *shared, *joint;

    for (int i = 0; i < 2; i++)
        side[i] = bl_onnx_make(c, "maximum(sub(minimum($0, $1), maximum($2, $3)), 0)",
                               ARGS(V(all[HIGH_Y + i]), V(one[HIGH_Y + i]), V(all[LOW_Y + i]), V(one[LOW_Y + i])));
    shared = bl_onnx_make(c, "mul($0, $1)", ARGS(V(side[0]), V(side[1])));
    joint = bl_onnx_make(c, "sub(add($0, $1), $2)", ARGS(V(all[AREA]), V(one[AREA]), V(shared)));
    joint = bl_onnx_make(c, "where(greater($0, 0), div($1, $0), 0)", ARGS(V(joint), V(shared)));
    bl_onnx_value *real = bl_onnx_make(c, "logical_and(greater($0, 0), greater($1, 0))", ARGS(V(all[AREA]), V(one[AREA])));
    return bl_onnx_make(c, "logical_and(logical_and($0, greater($1, 0)), greater($2, $3))",
                        ARGS(V(real), V(shared), V(joint), V(most)));
}

/* Selects for each class the best remaining box, its number and score, and removes the boxes that it overlaps.  Operands: scores,
 * parts of the boxes, the threshold. */
static void write_selection(bl_onnx_call *c, bl_onnx_value **in, bl_onnx_value **out)
{
    bl_onnx_value *best = bl_onnx_make(c, "argmax($0, axis=-1, keepdim=true)", ARGS(V(in[0]))), *one[BOX_PARTS], *all[BOX_PARTS];
    bl_onnx_value *gone;

    for (int i = 0; i < BOX_PARTS; i++) {
        one[i] = bl_onnx_make(c, "gather(expand(unsqueeze($0, axis=1), shape=$1), $2, axis=-1)",
                              ARGS(V(in[1 + i]), ZS(3, in[0]->type->dim), V(best)));
        all[i] = bl_onnx_make(c, "unsqueeze($0, axis=1)", ARGS(V(in[1 + i])));
    }
    gone = overlaps(c, all, one, in[1 + BOX_PARTS]);
    gone = bl_onnx_make(c, "logical_or($0, equal(arange(stop=$1), $2))", ARGS(V(gone), ZS(-1, &in[0]->type->dim[2]), V(best)));
    bl_onnx_value *nothing = bl_onnx_known_real(c->import, bl_onnx_type(in[0]), -INFINITY);
    out[0] = bl_onnx_make(c, "where($0, $1, $2)", ARGS(V(gone), V(nothing), V(in[0])));
    out[1] = bl_onnx_make(c, "squeeze($0, axis=-1)", ARGS(V(best)));
    out[2] = bl_onnx_make(c, "max($0, axis=[-1])", ARGS(V(in[0])));
}

/* Input |i| as a scalar of |dtype|; |preset| if it is omitted. */
static bl_onnx_value *scalar_in(bl_onnx_call *c, int i, bl_dtype dtype, double preset)
{
    if (bl_onnx_in(c, i) == NULL)
        return bl_onnx_known_real(c->import, dtype, preset);
    return bl_onnx_make(c, "cast(reshape($0, shape=[]), dtype=$1)", ARGS(V(c->in[i]), D(dtype)));
}

/* Runs one selection for each box that a class may keep, for all batches and classes at once: numbers and scores [steps, batch,
 * classes]; the score is -infinity if no box remains. */
static bool select_boxes(bl_onnx_call *c, bl_onnx_value *scores, bl_onnx_value **part, bl_onnx_value *most, const bl_node *steps,
                         bl_onnx_value **out)
{
    bl_onnx_value *operand[2 + BOX_PARTS] = {scores}, *in[2 + BOX_PARTS] = {NULL}, *made[3], *result[3];
    bl_onnx_call inner = *c;
    int n = 2 + BOX_PARTS;

    for (int i = 0; i < BOX_PARTS; i++)
        operand[1 + i] = bl_onnx_make(c, "contiguous($0)", ARGS(V(part[i])));
    operand[n - 1] = most;
    inner.graph = bl_onnx_open_graph(c->import, c->graph);
    if (inner.graph == NULL || c->import->failed)
        return false;
    for (int i = 0; i < n; i++)
        in[i] = bl_onnx_body_input(c->import, inner.graph, NULL, bl_onnx_type(operand[i]), bl_onnx_rank(operand[i]),
                                   operand[i]->type->dim);
    write_selection(&inner, in, made);
    bl_onnx_body_outputs(c->import, inner.graph, 3, made);
    if (c->import->failed || !bl_onnx_make_many(c, "scan($0..., $1..., body=$2, carries=1, length=$3)",
                                                ARGS(VS(n, operand), VS(inner.graph->ncaptured, inner.graph->captured),
                                                     G(&inner.graph->wire), ZS(-1, &steps)),
                                                3, result))
        return false;
    out[0] = result[1];
    out[1] = result[2];
    return true;
}

/* Inputs: boxes [batch, boxes, 4], scores [batch, classes, boxes], largest number of boxes per class, two thresholds. */
bl_onnx_value *bl_onnx_write_non_max_suppression(bl_onnx_call *c)
{
    bl_onnx_value *boxes = bl_onnx_in(c, 0), *scores = bl_onnx_in(c, 1), *part[BOX_PARTS], *selected[2], *count = NULL, *at,
                  *kept;
    const bl_onnx_known *most = bl_onnx_know(c->import, bl_onnx_in(c, 2));
    static const int64_t perm[3] = {1, 2, 0};

    if (bl_onnx_rank(boxes) != 3 || bl_onnx_rank(scores) != 3)
        return bl_onnx_fail(c, "needs boxes [batch, boxes, 4] and scores [batch, classes, boxes]");
    const bl_node *steps = boxes->type->dim[1];
    bool few = most != NULL && most->count == 1 && most->size != NULL && bl_is_const(most->size[0]);
    if (few && most->size[0]->hi < steps->hi)
        steps = bl_index(c->import->ir, most->size[0]->hi > 0 ? most->size[0]->hi : 0);
    if (bl_onnx_in(c, 2) == NULL || steps->hi == 0) /* the node requests no boxes */
        return bl_onnx_known_value(c->import, bl_onnx_new_known(c->import, BL_I64, 2, (const int64_t[]){0, 3}));
    bl_dtype dtype = bl_onnx_type(scores);
    bl_onnx_value *nothing = bl_onnx_known_real(c->import, dtype, -INFINITY);
    if (bl_onnx_in(c, 4) != NULL)
        scores = bl_onnx_make(c, "where(greater($0, $1), $0, $2)", ARGS(V(scores), V(scalar_in(c, 4, dtype, 0)), V(nothing)));
    if (!take_corners(c, boxes, bl_onnx_int(c, "center_point_box", 0) != 0, part) ||
        !select_boxes(c, scores, part, scalar_in(c, 3, dtype, 0), steps, selected))
        return NULL;
    for (int i = 0; i < 2; i++)
        selected[i] = bl_onnx_make(c, "permute($0, axes=$1)", ARGS(V(selected[i]), IS(3, perm)));
    kept = bl_onnx_make(c, "greater($0, $1)", ARGS(V(selected[1]), V(nothing)));
    if (!few) /* the number of boxes is an input with unknown elements */
        kept = bl_onnx_make(c, "logical_and($0, less(arange(stop=$1), $2))",
                            ARGS(V(kept), ZS(-1, &steps), V(scalar_in(c, 2, BL_I64, 0))));
    at = places_of(c, kept, &count); /* batch, class, step */
    bl_onnx_value *flat = bl_onnx_make(c, "flatten($0)", ARGS(V(selected[0])));
    bl_onnx_value *place =
        bl_onnx_make(c, "mul(slice($0, stop=1, axis=[1]), $1)", ARGS(V(at), V(bl_onnx_size_value(c, scores->type->dim[1]))));
    place = bl_onnx_make(c, "add(mul(add($0, slice($1, start=1, stop=2, axis=[1])), $2), slice($1, start=2, axis=[1]))",
                         ARGS(V(place), V(at), V(bl_onnx_size_value(c, steps))));
    at = bl_onnx_make(c, "cat(slice($0, stop=2, axis=[1]), take($1, $2), axis=1)", ARGS(V(at), V(flat), V(place)));
    return bl_onnx_count(at, count, 0);
}
