/* SPDX-License-Identifier: MIT */
/* Resize and Upsample, one axis at a time.  For an axis with fixed extents, the import computes the source elements and weights
 * of each output element, and the device reads tables, or none for linear by a whole factor.  If an extent is a named dimension,
 * the program computes the same indices and weights, with rounding only in the weights.  Nearest with an integer scale copies
 * elements. */
#include "proto/onnx/import.h"

#include <math.h>
#include <string.h>

enum { MOST_TAPS = 256 };

typedef struct resizer {
    bl_onnx_call *c;
    char mode;                   /* n, l, c: nearest, linear, cubic */
    const char *place, *nearest; /* coordinate_transformation_mode, nearest_mode */
    double a, beyond;            /* |a| is the cubic coefficient; |beyond| is the value outside the input
                                  * (tf_crop_and_resize) */
    bool exclude, antialias;
} resizer;

/* One axis: from |in| elements to |out|, |scale| times as many, of the region from |low| to |high|. */
typedef struct axis_plan {
    int64_t in, out;
    double scale, low, high;
} axis_plan;

/* The input coordinate of output element |y|. */
static double ops_resize_place_of(const resizer *r, const axis_plan *p, double y)
{
    double out = p->scale * (double)p->in, in = (double)p->in;

    if (strcmp(r->place, "align_corners") == 0)
        return out == 1 ? 0 : y * (in - 1) / (out - 1);
    if (strcmp(r->place, "asymmetric") == 0)
        return y / p->scale;
    if (strcmp(r->place, "tf_crop_and_resize") == 0)
        return p->low * (in - 1) + (out == 1 ? (p->high - p->low) * (in - 1) / 2 : y * (p->high - p->low) * (in - 1) / (out - 1));
    if (strcmp(r->place, "pytorch_half_pixel") == 0 && out == 1)
        return -0.5;
    if (strcmp(r->place, "half_pixel_symmetric") == 0)
        return in / 2 * (1 - (double)p->out / out) + (y + 0.5) / p->scale - 0.5;
    if (strcmp(r->place, "tf_half_pixel_for_nn") == 0)
        return (y + 0.5) / p->scale;
    return (y + 0.5) / p->scale - 0.5;
}

static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The weights of a coordinate |ratio| (above 0, up to 1) after element 0.  Returns their number; |*first| is the element of the
 * first weight. */
static int ops_resize_weigh(const resizer *r, double ratio, double scale, int *first, double *weight)
{
    double shrink = r->antialias && scale < 1 ? scale : 1, sum = 0, reach = r->mode == 'c' ? 2 : 1;
    int n;

    if (r->mode == 'n') {
        bool up = ratio == 1 || (strcmp(r->nearest, "ceil") == 0) ||
                  (strcmp(r->nearest, "round_prefer_ceil") == 0 && ratio >= 0.5) ||
                  (strcmp(r->nearest, "round_prefer_floor") == 0 && ratio > 0.5);
        *first = up;
        weight[0] = 1;
        return 1;
    }
    *first = (int)floor(-reach / shrink) + 1;
    n = 2 - 2 * *first;
    for (int i = 0; i < n && i < MOST_TAPS; i++) {
        double x = shrink * (*first + i - ratio);
        weight[i] = r->mode == 'c' ? cubic(x, r->a) : fabs(x) < 1 ? 1 - fabs(x) : 0;
        sum += weight[i];
    }
    for (int i = 0; i < n && i < MOST_TAPS && r->antialias; i++)
        weight[i] /= sum;
    return n;
}

/* The table of one axis: |taps| rows of indices and weights, and the value of output elements outside the input. */
typedef struct table {
    int taps;
    bl_onnx_known *index[MOST_TAPS], *weight[MOST_TAPS], *beyond;
    bool has_beyond;
} table;

static bool ops_resize_fill(const resizer *r, const axis_plan *p, bl_dtype dtype, table *t)
{
    bl_onnx_importer *m = r->c->import;
    double weight[MOST_TAPS], sum;
    int first;

    t->taps = ops_resize_weigh(r, 0.5, p->scale, &first, weight);
    if (t->taps > MOST_TAPS)
        return bl_onnx_fail_as(r->c, BL_ELIMIT, "%d elements for each one", t->taps) != NULL;
    t->beyond = bl_onnx_new_known(m, dtype, 1, &p->out);
    for (int k = 0; k < t->taps; k++) {
        t->index[k] = bl_onnx_new_known(m, BL_I64, 1, &p->out);
        t->weight[k] = bl_onnx_new_known(m, dtype, 1, &p->out);
        if (t->index[k] == NULL || t->weight[k] == NULL || t->beyond == NULL)
            return bl_onnx_fail_as(r->c, BL_ELIMIT, "an axis of %lld elements", (long long)p->out) != NULL;
    }
    for (int y = 0; y < (int)p->out; y++) {
        double x = ops_resize_place_of(r, p, y), whole = floor(x), ratio = x == whole ? 1 : x - whole;
        int64_t base = (int64_t)whole - (x == whole);
        bool outside = strcmp(r->place, "tf_crop_and_resize") == 0 && (x < 0 || x > (double)(p->in - 1));
        ops_resize_weigh(r, ratio, p->scale, &first, weight);
        sum = 0;
        for (int k = 0; k < t->taps; k++) {
            int64_t at = base + first + k;
            weight[k] = r->exclude && (at < 0 || at >= p->in) ? 0 : weight[k];
            sum += weight[k];
            t->index[k]->size[y] = bl_index(m->ir, at < 0 ? 0 : at >= p->in ? p->in - 1 : at);
        }
        for (int k = 0; k < t->taps; k++)
            t->weight[k]->real[y] = outside ? 0 : r->exclude && sum != 0 ? weight[k] / sum : weight[k];
        t->beyond->real[y] = outside ? r->beyond : 0;
        t->has_beyond = t->has_beyond || outside;
    }
    return true;
}

/* A vector along |axis| of a tensor of |rank|. */
static bl_onnx_value *along(bl_onnx_call *c, const bl_onnx_known *v, int axis, int rank)
{
    int64_t dim[BL_MAX_DIMS];

    for (int i = 0; i < rank; i++)
        dim[i] = i == axis ? v->count : 1;
    return bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(bl_onnx_known_value(c->import, v)), IS(rank, dim)));
}

static bl_onnx_value *resize_axis(const resizer *r, bl_onnx_value *x, int axis, const axis_plan *p)
{
    bl_onnx_call *c = r->c;
    int rank = bl_onnx_rank(x);
    bl_dtype dtype = bl_dtype_is_float(bl_onnx_type(x)) ? bl_onnx_type(x) : BL_F32;
    bl_onnx_value *sum = NULL;
    table *t = bl_arena_alloc(c->import->scratch, sizeof *t);

    if (t == NULL || !ops_resize_fill(r, p, dtype, t))
        return NULL;
    for (int k = 0; k < t->taps; k++) {
        bl_onnx_value *part =
            bl_onnx_make(c, "take($0, $1, axis=$2)", ARGS(V(x), V(bl_onnx_known_value(c->import, t->index[k])), I(axis)));
        if (r->mode == 'n' && !t->has_beyond)
            return part;
        part = bl_onnx_make(c, "mul($0, $1)", ARGS(V(part), V(along(c, t->weight[k], axis, rank))));
        sum = sum == NULL ? part : bl_onnx_make(c, "add($0, $1)", ARGS(V(sum), V(part)));
    }
    return t->has_beyond ? bl_onnx_make(c, "add($0, $1)", ARGS(V(sum), V(along(c, t->beyond, axis, rank)))) : sum;
}

/* Does the interpolate op compute this axis? It has no tables for a whole number of elements for each one. */
static bool resizes_by_factor(const resizer *r, const bl_onnx_value *x, const axis_plan *p)
{
    bool middles = strcmp(r->place, "half_pixel") == 0 || strcmp(r->place, "pytorch_half_pixel") == 0;

    return r->mode == 'l' && middles && !r->exclude && bl_dtype_is_float(bl_onnx_type(x)) && p->out > p->in && p->in > 0 &&
           p->out % p->in == 0 && p->scale * (double)p->in == (double)p->out;
}

static bl_onnx_value *resize_by_factor(const resizer *r, bl_onnx_value *x, int axis, int64_t out)
{
    const bl_node *size[BL_MAX_DIMS];
    int rank = bl_onnx_rank(x);

    for (int i = axis; i < rank; i++)
        size[i - axis] = i == axis ? bl_index(r->c->import->ir, out) : x->type->dim[i];
    return bl_onnx_make(r->c, "interpolate($0, size=$1, mode=linear)", ARGS(V(x), ZS(rank - axis, size)));
}

/* ---- an axis with a named dimension in its extents */

/* Output element y has the input coordinate (of * y + less) / under. */
typedef struct places {
    const bl_node *of, *less, *under;
} places;

static const bl_node *ops_resize_times(bl_ir *ir, int64_t factor, const bl_node *x)
{
    return bl_mul(ir, bl_index(ir, factor), x);
}

/* Finds the coordinates for |up| / |down| times as many elements: the scale, or the extents themselves. */
static bool ops_resize_find_places(const resizer *r, const bl_node *in, const bl_node *up, const bl_node *down, bool sizes,
                                   places *p)
{
    bl_ir *ir = r->c->import->ir;
    const bl_node *zero = bl_index(ir, 0), *one = bl_index(ir, 1);
    bool whole = sizes || bl_is_int(down, 1);

    if (strcmp(r->place, "asymmetric") == 0)
        *p = (places){down, zero, up};
    else if (strcmp(r->place, "tf_half_pixel_for_nn") == 0)
        *p = (places){ops_resize_times(ir, 2, down), down, ops_resize_times(ir, 2, up)};
    else if (strstr(r->place, "half_pixel") != NULL && (whole || strcmp(r->place, "half_pixel_symmetric") != 0))
        *p = (places){ops_resize_times(ir, 2, down), bl_sub(ir, down, up), ops_resize_times(ir, 2, up)};
    else if (strcmp(r->place, "align_corners") == 0 && sizes)
        *p = (places){bl_sub(ir, down, one), zero, bl_sub(ir, up, one)};
    else if (strcmp(r->place, "align_corners") == 0)
        *p = (places){bl_mul(ir, bl_sub(ir, in, one), down), zero, bl_sub(ir, bl_mul(ir, in, up), down)};
    else
        return false;
    return true;
}

/* An expression of named dimensions as an int64 scalar of the program. */
static bl_onnx_value *size_value(bl_onnx_call *c, const bl_node *size)
{
    return bl_onnx_make(c, "full(shape=[], value=$0, dtype=int64)", ARGS(ZS(-1, &size)));
}

/* The elements at the indices |at| (a vector) of |axis|, clamped to the ends. */
static bl_onnx_value *take_clipped(bl_onnx_call *c, bl_onnx_value *x, bl_onnx_value *at, const bl_node *in, int axis)
{
    return bl_onnx_make(c, "take($0, minimum(maximum($1, 0), sub($2, 1)), axis=$3)",
                        ARGS(V(x), V(at), V(size_value(c, in)), I(axis)));
}

static bl_onnx_value *stretch_nearest(const resizer *r, bl_onnx_value *x, int axis, const bl_node *in, bl_onnx_value *at,
                                      bl_onnx_value *under)
{
    bool rounds = strncmp(r->nearest, "round", 5) == 0; /* adds one half, or slightly less if halves round down */
    bool ceils = strcmp(r->nearest, "ceil") == 0, stays = ceils || strcmp(r->nearest, "round_prefer_floor") == 0;
    bl_onnx_value *place = bl_onnx_make(r->c, "floor_div(add(mul($0, $1), sub(mul($2, $3), $4)), mul($2, $1))",
                                        ARGS(V(at), I(1 + rounds), V(under), I(rounds || ceils), I(stays)));

    return take_clipped(r->c, x, place, in, axis);
}

/* The weight of tap |k|, counted from the tap before the coordinate; |t| is the fraction of the coordinate between its two
 * neighbours. */
static bl_onnx_value *weight_at(const resizer *r, int k, bl_onnx_value *t)
{
    if (r->mode == 'l')
        return k == 0 ? bl_onnx_make(r->c, "sub(1, $0)", ARGS(V(t))) : t;
    bl_onnx_value *x = bl_onnx_make(r->c, k < 1 ? "add($0, $1)" : "sub($1, $0)", ARGS(V(t), I(k < 0 ? -k : k)));
    if (k == 0 || k == 1)
        return bl_onnx_make(r->c, "add(mul(mul(sub(mul($0, $1), $2), $0), $0), 1)", ARGS(V(x), R(r->a + 2), R(r->a + 3)));
    return bl_onnx_make(r->c, "sub(mul(add(mul(sub(mul($0, $1), $2), $0), $3), $0), $4)",
                        ARGS(V(x), R(r->a), R(5 * r->a), R(8 * r->a), R(4 * r->a)));
}

static bl_onnx_value *stretch_weighted(const resizer *r, bl_onnx_value *x, int axis, const bl_node *in, bl_onnx_value *at,
                                       bl_onnx_value *under)
{
    bl_onnx_call *c = r->c;
    int rank = bl_onnx_rank(x), first = r->mode == 'c' ? -1 : 0, last = r->mode == 'c' ? 2 : 1;
    bl_dtype dtype = bl_dtype_is_float(bl_onnx_type(x)) ? bl_onnx_type(x) : BL_F32;
    const bl_node *dim[BL_MAX_DIMS], *one = bl_index(c->import->ir, 1);
    bl_onnx_value *base = bl_onnx_make(c, "floor_div($0, $1)", ARGS(V(at), V(under)));
    bl_onnx_value *t = bl_onnx_make(c, "div(cast(mod($0, $1), dtype=$2), cast($1, dtype=$2))", ARGS(V(at), V(under), D(dtype)));
    bl_onnx_value *sum = NULL, *weights = NULL;

    for (int i = 0; i < rank && at != NULL; i++)
        dim[i] = i == axis ? at->type->dim[0] : one;
    for (int k = first; k <= last && !c->import->failed; k++) {
        bl_onnx_value *from = bl_onnx_make(c, "add($0, $1)", ARGS(V(base), I(k)));
        bl_onnx_value *weight = weight_at(r, k, t), *part;
        if (r->exclude)
            weight = bl_onnx_make(c, "where(logical_and(greater_equal($0, 0), less($0, $1)), $2, 0)",
                                  ARGS(V(from), V(size_value(c, in)), V(weight)));
        part = bl_onnx_make(c, "mul($0, reshape($1, shape=$2))",
                            ARGS(V(take_clipped(c, x, from, in, axis)), V(weight), ZS(rank, dim)));
        sum = sum == NULL ? part : bl_onnx_make(c, "add($0, $1)", ARGS(V(sum), V(part)));
        weights = weights == NULL ? weight : bl_onnx_make(c, "add($0, $1)", ARGS(V(weights), V(weight)));
    }
    return r->exclude ? bl_onnx_make(c, "div($0, reshape($1, shape=$2))", ARGS(V(sum), V(weights), ZS(rank, dim))) : sum;
}

/* Resizes an axis of |in| elements to |out|, up / down times as many. */
static bl_onnx_value *stretch_axis(const resizer *r, bl_onnx_value *x, int axis, const bl_node *out, const bl_node *up,
                                   const bl_node *down, bool sizes)
{
    bl_onnx_call *c = r->c;
    const bl_node *in = x->type->dim[axis];
    places p;

    if (out->lo < 1)
        return bl_onnx_fail(c, "axis %d would have %lld elements; it must have at least 1", axis, (long long)out->lo);
    if ((r->antialias && bl_may_be_negative(c->import->ir, bl_sub(c->import->ir, out, in))) ||
        !ops_resize_find_places(r, in, up, down, sizes, &p))
        return bl_onnx_fail(c, "axis %d has no fixed size: there can be no antialias where it may shrink, and no %s", axis,
                            r->place);
    bl_onnx_value *at = bl_onnx_make(c, "add(mul(arange(stop=$0), $1), $2)",
                                     ARGS(ZS(-1, &out), V(size_value(c, p.of)), V(size_value(c, p.less))));
    bl_onnx_value *under = size_value(c, p.under);
    if (p.under->lo < 1) /* |under| is 0 for a single output element, which reads the first element */
        under = bl_onnx_make(c, "maximum($0, 1)", ARGS(V(under)));
    if (strcmp(r->place, "pytorch_half_pixel") == 0 && out->lo == 1)
        at = bl_onnx_make(c, "where(equal($0, 1), $1, $2)", ARGS(V(size_value(c, out)), I(-1), V(at)));
    if (c->import->failed)
        return NULL;
    return r->mode == 'n' ? stretch_nearest(r, x, axis, in, at, under) : stretch_weighted(r, x, axis, in, at, under);
}

/* Whether nearest with an integer scale copies each element. */
static bool copies(const resizer *r, const bl_node *up, const bl_node *down)
{
    bool floors = strcmp(r->place, "asymmetric") == 0 && strcmp(r->nearest, "floor") == 0;
    bool middles =
        strstr(r->place, "half_pixel") != NULL && strncmp(r->place, "tf", 2) != 0 && strncmp(r->nearest, "round", 5) == 0;

    return r->mode == 'n' && bl_is_int(down, 1) && bl_is_const(up) && (floors || middles);
}

static bl_onnx_value *stretch(const resizer *r, bl_onnx_value *x, int axis, const double *scale, const bl_node *size)
{
    bl_ir *ir = r->c->import->ir;
    const bl_node *in = x->type->dim[axis], *up = size, *down = in, *out = size;
    int64_t den = 1;

    if (scale != NULL && !bl_fraction_get(ir, bl_const(ir, BL_F64, (bl_scalar){.f = *scale}), &up, &den))
        return bl_onnx_fail(r->c, "axis %d has no fixed size, and a scale of %g is not a quotient of small numbers", axis,
                            *scale);
    if (scale != NULL) {
        down = bl_index(ir, den);
        out = bl_idiv(ir, bl_mul(ir, in, up), down);
    } else if (bl_mul(ir, bl_idiv(ir, out, in), in) == out && bl_is_const(bl_idiv(ir, out, in))) { /* an integer scale */
        up = bl_idiv(ir, out, in);
        down = bl_index(ir, 1);
    }
    if (copies(r, up, down))
        return bl_onnx_make(r->c, "repeat_interleave($0, repeats=$1, axis=$2)", ARGS(V(x), I(up->lo), I(axis)));
    return stretch_axis(r, x, axis, out, up, down, down == in);
}

/* ---- all axes */

/* Computes the sizes from one scale for all axes. */
static void keep_aspect(const char *policy, int n, const axis_plan *from, axis_plan *plan)
{
    bool larger = strcmp(policy, "not_smaller") == 0;
    double scale = from[0].scale;

    for (int i = 1; i < n; i++)
        scale = (larger ? from[i].scale > scale : from[i].scale < scale) ? from[i].scale : scale;
    for (int i = 0; i < n; i++) {
        plan[i].scale = scale;
        plan[i].out = (int64_t)(scale * (double)plan[i].in + 0.5);
    }
}

typedef struct wanted {
    int n; /* number of axes */
    int axis[BL_MAX_DIMS];
    const double *scales; /* either |scales| or |sizes| */
    const bl_node *const *sizes;
    const double *roi;
} wanted;

static bl_onnx_value *resize(const resizer *r, const wanted *w, const char *policy)
{
    bl_onnx_value *x = bl_onnx_in(r->c, 0);
    axis_plan plan[BL_MAX_DIMS];
    bool named[BL_MAX_DIMS] = {false}, aspect = w->sizes != NULL && strcmp(policy, "stretch") != 0;

    for (int i = 0; i < w->n; i++) {
        const bl_node *extent = x->type->dim[w->axis[i]];
        if (w->scales != NULL && !(w->scales[i] > 0 && w->scales[i] <= 1 << 20))
            return bl_onnx_fail(r->c, "a scale of %g", w->scales[i]);
        named[i] = !bl_is_const(extent) || (w->sizes != NULL && !bl_is_const(w->sizes[i]));
        plan[i] = (axis_plan){.in = extent->hi, .low = 0, .high = 1};
        plan[i].scale = w->scales != NULL ? w->scales[i] : (double)w->sizes[i]->hi / (double)extent->hi;
        plan[i].out = w->sizes != NULL ? w->sizes[i]->hi : (int64_t)floor(plan[i].scale * (double)plan[i].in);
        if (named[i] && aspect && w->sizes[i] != extent)
            return bl_onnx_fail(r->c, "axis %d has no fixed size: keep_aspect_ratio_policy %s needs one", w->axis[i], policy);
        if (w->roi != NULL) {
            plan[i].low = w->roi[i];
            plan[i].high = w->roi[w->n + i];
        }
    }
    if (aspect && w->n > 0)
        keep_aspect(policy, w->n, plan, plan);
    for (int i = 0; i < w->n && x != NULL; i++) {
        bool crops = w->roi != NULL && (plan[i].low != 0 || plan[i].high != 1);
        bool keeps = w->scales != NULL ? w->scales[i] == 1 : w->sizes[i] == x->type->dim[w->axis[i]];
        if (named[i])
            x = keeps && !crops
                    ? x
                    : stretch(r, x, w->axis[i], w->scales != NULL ? &w->scales[i] : NULL, w->sizes != NULL ? w->sizes[i] : NULL);
        else if (plan[i].out < 0 || plan[i].out > BL_ONNX_MAX_KNOWN)
            return bl_onnx_fail_as(r->c, BL_ELIMIT, "an axis of %lld elements", (long long)plan[i].out);
        else if (!crops && resizes_by_factor(r, x, &plan[i]))
            x = resize_by_factor(r, x, w->axis[i], plan[i].out);
        else if (plan[i].scale != 1 || plan[i].out != plan[i].in || crops)
            x = resize_axis(r, x, w->axis[i], &plan[i]);
    }
    bl_dtype dtype = bl_onnx_type(bl_onnx_in(r->c, 0));
    if (x == NULL || bl_onnx_type(x) == dtype)
        return x;
    return bl_onnx_make(r->c, "cast(round($0), dtype=$1)", ARGS(V(x), D(dtype)));
}

static bool take_mode(resizer *r, const char *mode)
{
    r->mode = mode[0] == 'b' ? 'l' : mode[0]; /* "bilinear" in the first version */
    if (r->mode == 'n' || r->mode == 'l' || r->mode == 'c')
        return true;
    return bl_onnx_fail(r->c, "mode must be nearest, linear or cubic") != NULL;
}

bl_onnx_value *bl_onnx_write_upsample(bl_onnx_call *c)
{
    resizer r = {.c = c, .place = "asymmetric", .nearest = "floor"};
    int rank = bl_onnx_rank(bl_onnx_in(c, 0)), n;
    double own[BL_MAX_DIMS];
    const double *scales = own;
    const float *given;
    wanted w = {.n = rank};

    if (c->opset < 9) {
        n = bl_onnx_floats(c, "scales", &given);
        for (int i = 0; i < n && i < BL_MAX_DIMS; i++)
            own[i] = (double)given[i];
    } else {
        n = bl_onnx_in_reals(c, 1, &scales);
    }
    if (n != rank || !take_mode(&r, bl_onnx_text(c, "mode", "nearest")))
        return bl_onnx_fail(c, "needs a scale for each axis");
    for (int i = 0; i < rank; i++)
        w.axis[i] = i;
    w.scales = scales;
    return resize(&r, &w, "stretch");
}

bl_onnx_value *bl_onnx_write_resize(bl_onnx_call *c)
{
    resizer r = {.c = c};
    const int64_t *axes;
    int rank = bl_onnx_rank(bl_onnx_in(c, 0)), naxes = bl_onnx_ints(c, "axes", &axes), n;
    wanted w = {.n = naxes >= 0 ? naxes : rank};

    if (bl_onnx_in(c, 0) == NULL || w.n > rank || c->import->failed)
        return bl_onnx_fail(c, "needs data");
    r.place = bl_onnx_text(c, "coordinate_transformation_mode", c->opset < 11 ? "asymmetric" : "half_pixel");
    r.nearest = bl_onnx_text(c, "nearest_mode", c->opset < 11 ? "floor" : "round_prefer_floor");
    r.a = bl_onnx_float(c, "cubic_coeff_a", -0.75);
    r.beyond = bl_onnx_float(c, "extrapolation_value", 0);
    r.exclude = bl_onnx_int(c, "exclude_outside", 0) != 0;
    r.antialias = bl_onnx_int(c, "antialias", 0) != 0;
    for (int i = 0; i < w.n; i++)
        w.axis[i] = bl_onnx_axis(c, naxes >= 0 ? axes[i] : i, rank);
    if (strcmp(r.place, "tf_crop_and_resize") == 0 && bl_onnx_in_reals(c, 1, &w.roi) != 2 * w.n)
        return bl_onnx_fail(c, "needs the start and end of its part, for each axis");
    int scales = c->opset < 11 ? 1 : 2;
    n = bl_onnx_in(c, 3) != NULL ? bl_onnx_in_sizes(c, 3, &w.sizes) : bl_onnx_in_reals(c, scales, &w.scales);
    if (n != w.n || !take_mode(&r, bl_onnx_text(c, "mode", "nearest")))
        return bl_onnx_fail(c, "needs a size or a scale for each axis");
    return resize(&r, &w, bl_onnx_text(c, "keep_aspect_ratio_policy", "stretch"));
}
