/* SPDX-License-Identifier: MIT */
/* Operators that interpolate a picture at data-dependent coordinates: GridSample, RoiAlign, DeformConv; and Col2Im. */
#include "proto/onnx/import.h"
#include "proto/onnx/window.h"

#include <string.h>

enum { MOST_AXES = 3, MOST_SAMPLES = 64 };

typedef struct sampler {
    bl_onnx_call *c;
    char mode;    /* n, l, c: nearest, linear, cubic */
    char padding; /* z, b, r: zeros, border, reflection */
    bool corners; /* -1 and 1 are the centres of the first and last pixels; else their outer edges */
} sampler;

/* ---- coordinates and weights along one axis */

static bl_onnx_value *float_extent(bl_onnx_call *c, const bl_node *extent, bl_dtype dtype)
{
    return bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(bl_onnx_size_value(c, extent)), D(dtype)));
}

static bl_onnx_value *hold_inside(bl_onnx_call *c, bl_onnx_value *place, bl_onnx_value *extent)
{
    return bl_onnx_make(c, "minimum(maximum($0, 0), sub($1, 1))", ARGS(V(place), V(extent)));
}

/* Reflects |place| at both ends of the picture until it is inside. */
static bl_onnx_value *reflect(const sampler *s, bl_onnx_value *place, bl_onnx_value *extent)
{
    bl_onnx_call *c = s->c;
    double low = s->corners ? 0 : -0.5;
    bl_onnx_value *range = bl_onnx_make(c, s->corners ? "maximum(sub($0, 1), 1)" : "mul($0, 1)", ARGS(V(extent)));
    bl_onnx_value *high = bl_onnx_make(c, "add($0, $1)", ARGS(V(range), R(low)));
    bl_onnx_value *far = bl_onnx_make(c, "abs(sub($0, $1))", ARGS(V(place), R(low)));
    bl_onnx_value *times = bl_onnx_make(c, "floor(div($0, $1))", ARGS(V(far), V(range)));
    bl_onnx_value *rest = bl_onnx_make(c, "sub($0, mul($1, $2))", ARGS(V(far), V(times), V(range)));
    bl_onnx_value *even = bl_onnx_make(c, "equal(mod($0, 2), 0)", ARGS(V(times)));
    bl_onnx_value *turned = bl_onnx_make(c, "where($0, add($1, $2), sub($3, $1))", ARGS(V(even), V(rest), R(low), V(high)));

    return bl_onnx_make(c, "where(logical_or(less($0, $1), greater($0, $2)), $3, $0)",
                        ARGS(V(place), R(low), V(high), V(turned)));
}

static bl_onnx_value *bring_inside(const sampler *s, bl_onnx_value *place, bl_onnx_value *extent)
{
    if (s->padding == 'b')
        return hold_inside(s->c, place, extent);
    return s->padding == 'r' ? reflect(s, place, extent) : place;
}

/* The kernel of cubic convolution (Keys, 1981) with a = -0.75, at distances up to 2. */
static bl_onnx_value *cubic_weight(bl_onnx_call *c, bl_onnx_value *far)
{
    bl_onnx_value *near = bl_onnx_make(c, "add(mul(mul(sub(mul($0, 1.25), 2.25), $0), $0), 1)", ARGS(V(far)));
    bl_onnx_value *outer = bl_onnx_make(c, "sub(mul(add(mul(sub(mul($0, -0.75), -3.75), $0), -6), $0), -3)", ARGS(V(far)));

    return bl_onnx_make(c, "where(less_equal($0, 1), $1, $2)", ARGS(V(far), V(near), V(outer)));
}

/* The pixels around each place [rows, places], as int32, and their weights, both [rows, places, taps].  Returns the number of
 * taps. */
static int find_taps(const sampler *s, bl_onnx_value *place, const bl_node *size, bl_onnx_value **tap, bl_onnx_value **weight)
{
    bl_onnx_call *c = s->c;
    bl_dtype dtype = bl_onnx_type(place);
    bl_onnx_value *extent = float_extent(c, size, dtype), *far;
    int n = s->mode == 'n' ? 1 : s->mode == 'l' ? 2 : 4;

    if (s->mode == 'n')
        place = bl_onnx_make(c, "round($0)", ARGS(V(place)));
    if (s->mode != 'c') /* PyTorch applies the padding mode to each tap in cubic mode, and to the coordinate in the other
                         * modes */
        place = bring_inside(s, place, extent);
    place = bl_onnx_make(c, "unsqueeze($0, axis=-1)", ARGS(V(place)));
    *tap = bl_onnx_make(c, "add(floor($0), arange(start=$1, stop=$2, dtype=$3))",
                        ARGS(V(place), I(n == 4 ? -1 : 0), I(n == 4 ? 3 : n), D(dtype)));
    far = bl_onnx_make(c, "abs(sub($0, $1))", ARGS(V(*tap), V(place)));
    *weight = n == 4   ? cubic_weight(c, far)
              : n == 2 ? bl_onnx_make(c, "sub(1, $0)", ARGS(V(far)))
                       : bl_onnx_make(c, "ones_like($0)", ARGS(V(far)));
    if (s->padding == 'z')
        *weight = bl_onnx_make(c, "where(logical_and(greater_equal($0, 0), less($0, $1)), $2, 0)",
                               ARGS(V(*tap), V(extent), V(*weight)));
    else
        *tap = bring_inside(s, *tap, extent);
    *tap = bl_onnx_make(c, "cast($0, dtype=int32)", ARGS(V(hold_inside(c, *tap, extent))));
    return n;
}

/* ---- sampling along all axes */

/* Gathers |x| [N, C, ...] at the pixel coordinates |place| [rows, places] of each axis, from the pictures |batch| [rows].  The
 * result has the surrounding pixels times their weights, [C, rows, places, taps]. */
static bl_onnx_value *read_taps(const sampler *s, bl_onnx_value *x, bl_onnx_value *batch, bl_onnx_value **place)
{
    static const int64_t perm[3] = {1, 0, 2};
    bl_onnx_call *c = s->c;
    bl_ir *ir = c->import->ir;
    int axes = bl_onnx_rank(x) - 2, all = 1;
    bl_onnx_value *at = NULL, *weight = NULL;
    const bl_node *dim[2 + MOST_AXES], *flat[4];

    if (c->import->failed)
        return NULL;
    const bl_node *rows = place[0]->type->dim[0], *places = place[0]->type->dim[1];
    for (int i = 0; i < axes; i++) {
        bl_onnx_value *tap, *own;
        int n = find_taps(s, place[i], x->type->dim[2 + i], &tap, &own);
        dim[0] = rows;
        dim[1] = places;
        for (int k = 0; k < axes; k++)
            dim[2 + k] = bl_index(ir, k == i ? n : 1);
        tap = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(tap), ZS(2 + axes, dim)));
        own = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(own), ZS(2 + axes, dim)));
        bl_onnx_value *extent = bl_onnx_make(c, "cast($0, dtype=int32)", ARGS(V(bl_onnx_size_value(c, x->type->dim[2 + i]))));
        at = at == NULL ? tap : bl_onnx_make(c, "add(mul($0, $1), $2)", ARGS(V(at), V(extent), V(tap)));
        weight = weight == NULL ? own : bl_onnx_make(c, "mul($0, $1)", ARGS(V(weight), V(own)));
        all *= n;
    }
    flat[0] = rows;
    flat[1] = bl_mul(ir, places, bl_index(ir, all));
    at = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(at), ZS(2, flat)));
    x = bl_onnx_make(c, "permute(flatten($0, start_axis=2), axes=$1)", ARGS(V(x), IS(3, perm)));
    x = bl_onnx_make(c, "index($0, unsqueeze($1, axis=-1), $2, axis=1)", ARGS(V(x), V(batch), V(at)));
    flat[0] = x != NULL ? x->type->dim[0] : rows;
    flat[1] = rows;
    flat[2] = places;
    flat[3] = bl_index(ir, all);
    x = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(x), ZS(4, flat)));
    weight = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(weight), ZS(3, flat + 1)));
    return bl_onnx_make(c, "mul($0, $1)", ARGS(V(x), V(weight)));
}

/* Samples one picture for each row, in order: [rows, C, places]. */
static bl_onnx_value *sample(const sampler *s, bl_onnx_value *x, bl_onnx_value **place)
{
    bl_onnx_value *batch = bl_onnx_make(s->c, "arange(stop=$0, dtype=int32)", ARGS(ZS(-1, &x->type->dim[0])));
    bl_onnx_value *taps = read_taps(s, x, batch, place);

    return bl_onnx_make(s->c, "transpose(sum($0, axis=[-1], dtype=$1), axis0=0, axis1=1)", ARGS(V(taps), D(bl_onnx_type(taps))));
}

/* The dtype of coordinates: a float of at least 32 bits. */
static bl_dtype place_type(const bl_onnx_value *x)
{
    return bl_onnx_type(x) == BL_F64 ? BL_F64 : BL_F32;
}

static bl_onnx_value *ops_sample_cast_to(bl_onnx_call *c, bl_onnx_value *x, bl_dtype dtype)
{
    return x == NULL || bl_onnx_type(x) == dtype ? x : bl_onnx_make(c, "cast($0, dtype=$1)", ARGS(V(x), D(dtype)));
}

bl_onnx_value *bl_onnx_write_grid_sample(bl_onnx_call *c)
{
    static const char *const modes[] = {"nearest", "linear", "bilinear", "cubic", "bicubic"};
    static const char mode_letter[] = "nllcc";
    const char *mode = bl_onnx_text(c, "mode", "linear"), *padding = bl_onnx_text(c, "padding_mode", "zeros");
    sampler s = {.c = c, .padding = *padding, .corners = bl_onnx_int(c, "align_corners", 0) != 0};
    bl_onnx_value *x = bl_onnx_in(c, 0), *grid = bl_onnx_in(c, 1), *place[MOST_AXES];
    int axes = bl_onnx_rank(x) - 2;
    const bl_node *flat[2], *dim[2 + MOST_AXES];

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        s.mode = strcmp(mode, modes[i]) == 0 ? mode_letter[i] : s.mode;
    if (s.mode == 0 || strchr("zbr", s.padding) == NULL)
        return bl_onnx_fail(c, "mode \"%.40s\" with padding_mode \"%.40s\" is not supported", bl_onnx_clean(c->import, mode),
                            bl_onnx_clean(c->import, padding));
    if (axes < 1 || axes > MOST_AXES || bl_onnx_rank(grid) != axes + 2 || !bl_is_int(grid->type->dim[axes + 1], axes))
        return bl_onnx_fail(c, "needs data [N, C, ...] with 1 to %d more axes, and a grid [N, ..., %d]", MOST_AXES, axes);
    bl_dtype dtype = place_type(x), result = bl_onnx_type(x);
    flat[0] = grid->type->dim[0];
    flat[1] = bl_shape_count(c->import->ir, axes, grid->type->dim + 1);
    for (int i = 0; i < axes; i++) {
        bl_onnx_value *g = bl_onnx_make(c, "reshape(slice(b, start=$0, stop=$1, axis=[-1]), shape=$2)",
                                        ARGS(I(axes - 1 - i), I(axes - i), ZS(2, flat)));
        bl_onnx_value *extent = float_extent(c, x->type->dim[2 + i], dtype);
        place[i] = bl_onnx_make(c, s.corners ? "mul(div(add($0, 1), 2), sub($1, 1))" : "div(sub(mul(add($0, 1), $1), 1), 2)",
                                ARGS(V(ops_sample_cast_to(c, g, dtype)), V(extent)));
    }
    dim[0] = flat[0];
    dim[1] = x->type->dim[1];
    memcpy(dim + 2, grid->type->dim + 1, (size_t)axes * sizeof dim[0]);
    x = ops_sample_cast_to(c, x, dtype);
    if (c->import->failed)
        return NULL;
    return ops_sample_cast_to(c, bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(sample(&s, x, place)), ZS(2 + axes, dim))),
                              result);
}

/* ---- RoiAlign */

/* One axis of the boxes: the coordinates of the samples of each bin. */
typedef struct roi_axis {
    int64_t bins, samples;           /* |samples|: largest number of samples per bin */
    bl_onnx_value *place, *inside;   /* coordinates [boxes, bins, samples]; |inside|: whether a sample is in the picture */
    bl_onnx_value *counts, *divisor; /* |counts|: whether a sample is used, NULL: all are; |divisor|: number of used samples
                                      * [boxes, 1, 1] */
} roi_axis;

static void place_bins(bl_onnx_call *c, int column, const bl_node *size, bool half, int64_t ratio, roi_axis *a)
{
    bl_dtype dtype = place_type(c->in[0]);
    double scale = bl_onnx_float(c, "spatial_scale", 1);
    bl_onnx_value *edge[2], *extent, *bin, *at;

    for (int i = 0; i < 2; i++) {
        edge[i] = bl_onnx_make(c, "unsqueeze(slice(b, start=$0, stop=$1, axis=[1]), axis=-1)",
                               ARGS(I(column + 2 * i), I(column + 2 * i + 1)));
        edge[i] =
            bl_onnx_make(c, "sub(mul($0, $1), $2)", ARGS(V(ops_sample_cast_to(c, edge[i], dtype)), R(scale), R(half ? 0.5 : 0)));
    }
    extent = bl_onnx_make(c, half ? "sub($0, $1)" : "maximum(sub($0, $1), 1)", ARGS(V(edge[1]), V(edge[0])));
    bin = bl_onnx_make(c, "div($0, $1)", ARGS(V(extent), R((double)a->bins)));
    a->samples = ratio > 0 ? ratio : (size->hi + a->bins) / a->bins; /* enough for a box as large as the picture plus one pixel */
    at = bl_onnx_make(c, "arange(stop=$0, dtype=$1)", ARGS(I(a->samples), D(dtype)));
    if (ratio > 0) {
        a->divisor = bl_onnx_known_real(c->import, dtype, (double)ratio);
    } else {
        a->divisor = bl_onnx_make(c, "clamp(ceil($0), min=1, max=$1)", ARGS(V(bin), I(a->samples)));
        a->counts = bl_onnx_make(c, "less($0, ceil($1))", ARGS(V(at), V(bin)));
    }
    at = bl_onnx_make(c, "div(add($0, 0.5), $1)", ARGS(V(at), V(a->divisor)));
    at = bl_onnx_make(c, "add(unsqueeze(arange(stop=$0, dtype=$1), axis=-1), $2)", ARGS(I(a->bins), D(dtype), V(at)));
    a->place = bl_onnx_make(c, "add($0, mul($1, $2))", ARGS(V(edge[0]), V(at), V(bin)));
    a->inside = bl_onnx_make(c, "logical_and(greater_equal($0, -1), less_equal($0, $1))",
                             ARGS(V(a->place), V(float_extent(c, size, dtype))));
}

/* Reshapes |v| [boxes or 1, bins or 1, samples] of one axis to [boxes, places]; the places are the bins of both axes, then the
 * samples of both. */
static bl_onnx_value *spread_bins(bl_onnx_call *c, bl_onnx_value *v, bool rows, const bl_node *const *all)
{
    static const int64_t down[4] = {2, 4, 2, 4}, across[4] = {1, 3, 1, 3};
    const int64_t *axis = rows ? down : across;
    const bl_node *flat[2] = {all[0], bl_shape_count(c->import->ir, 4, all + 1)};

    v = bl_onnx_make(c, "unsqueeze(unsqueeze($0, axis=$1), axis=$2)", ARGS(V(v), I(axis[0]), I(axis[1])));
    return bl_onnx_make(c, "reshape(expand($0, shape=$1), shape=$2)", ARGS(V(v), ZS(5, all), ZS(2, flat)));
}

bl_onnx_value *bl_onnx_write_roi_align(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *rois = bl_onnx_in(c, 1), *place[2], *inside, *taken = NULL, *y;
    bool largest = strcmp(bl_onnx_text(c, "mode", "avg"), "max") == 0;
    bool half = strcmp(bl_onnx_text(c, "coordinate_transformation_mode", c->opset < 16 ? "output_half_pixel" : "half_pixel"),
                       "half_pixel") == 0;
    int64_t ratio = bl_onnx_int(c, "sampling_ratio", 0);
    roi_axis axis[2] = {{.bins = bl_onnx_int(c, "output_height", 1)}, {.bins = bl_onnx_int(c, "output_width", 1)}};
    sampler s = {.c = c, .mode = 'l', .padding = 'b'};
    bl_ir *ir = c->import->ir;

    if (bl_onnx_rank(x) != 4 || bl_onnx_rank(rois) != 2 || bl_onnx_rank(bl_onnx_in(c, 2)) != 1 || axis[0].bins < 1 ||
        axis[1].bins < 1 || ratio < 0 || ratio > MOST_SAMPLES)
        return bl_onnx_fail(c, "needs data [N, C, H, W], boxes [n, 4], a picture for each, and a sampling_ratio from 0 to %d",
                            MOST_SAMPLES);
    for (int i = 0; i < 2; i++)
        place_bins(c, 1 - i, x->type->dim[2 + i], half, ratio, &axis[i]);
    const bl_node *all[5] = {rois->type->dim[0], bl_index(ir, axis[0].bins), bl_index(ir, axis[1].bins),
                             bl_index(ir, axis[0].samples), bl_index(ir, axis[1].samples)};
    for (int i = 0; i < 2; i++)
        place[i] = spread_bins(c, axis[i].place, i == 0, all);
    inside = bl_onnx_make(c, "logical_and($0, $1)",
                          ARGS(V(spread_bins(c, axis[0].inside, true, all)), V(spread_bins(c, axis[1].inside, false, all))));
    if (ratio == 0)
        taken = bl_onnx_make(c, "logical_and($0, $1)",
                             ARGS(V(spread_bins(c, axis[0].counts, true, all)), V(spread_bins(c, axis[1].counts, false, all))));
    x = ops_sample_cast_to(c, x, place_type(x));
    y = bl_onnx_make(c, "where(unsqueeze($0, axis=-1), $1, 0)", ARGS(V(inside), V(read_taps(&s, x, c->in[2], place))));
    if (y == NULL)
        return NULL;
    if (taken != NULL)
        y = bl_onnx_make(c, "where(unsqueeze($0, axis=-1), $1, $2)",
                         ARGS(V(taken), V(y), R(largest ? bl_scalar_lowest(bl_onnx_type(y)).f : 0)));
    if (y == NULL)
        return NULL;
    const bl_node *bins[5] = {y->type->dim[0], all[0], all[1], all[2], bl_index(ir, axis[0].samples * axis[1].samples * 4)};
    y = bl_onnx_make(c, "transpose(reshape($0, shape=$1), axis0=0, axis1=1)", ARGS(V(y), ZS(5, bins)));
    if (largest) {
        y = bl_onnx_make(c, "max($0, axis=[-1])", ARGS(V(y)));
        if (taken != NULL) /* the maximum of a box without samples */
            y = bl_onnx_make(c, "where(less_equal($0, $1), 0, $0)", ARGS(V(y), R(bl_scalar_lowest(bl_onnx_type(y)).f)));
    } else {
        y = bl_onnx_make(c, "sum($0, axis=[-1])", ARGS(V(y)));
        bl_onnx_value *count = bl_onnx_make(c, "mul($0, $1)", ARGS(V(axis[0].divisor), V(axis[1].divisor)));
        if (ratio == 0)
            count = bl_onnx_make(c, "unsqueeze($0, axis=-1)", ARGS(V(count)));
        y = bl_onnx_make(c, "div($0, $1)", ARGS(V(y), V(count)));
    }
    return ops_sample_cast_to(c, y, bl_onnx_type(c->in[0]));
}

/* ---- DeformConv */

/* The coordinates that the window's cells read along one axis, before the offsets: [1, kernel..., out...]. */
static bl_onnx_value *window_places(bl_onnx_call *c, const bl_onnx_window *w, int axis, const bl_node *const *out, bl_dtype dtype)
{
    bl_ir *ir = c->import->ir;
    const bl_node *cell[1 + 2 * MOST_AXES], *step[1 + 2 * MOST_AXES];

    for (int i = 0; i < 1 + 2 * w->n; i++) {
        cell[i] = bl_index(ir, i == 1 + axis ? w->kernel[axis] : 1);
        step[i] = i == 1 + w->n + axis ? out[axis] : bl_index(ir, 1);
    }
    bl_onnx_value *in =
        bl_onnx_make(c, "reshape(sub(mul(arange(stop=$0, dtype=$1), $2), $3), shape=$4)",
                     ARGS(I(w->kernel[axis]), D(dtype), I(w->dilation[axis]), I(w->pads[2 * axis]), ZS(1 + 2 * w->n, cell)));
    return bl_onnx_make(c, "add($0, reshape(mul(arange(stop=$1, dtype=$2), $3), shape=$4))",
                        ARGS(V(in), ZS(-1, &out[axis]), D(dtype), I(w->stride[axis]), ZS(1 + 2 * w->n, step)));
}

bl_onnx_value *bl_onnx_write_deform_conv(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *weight = bl_onnx_in(c, 1), *offset = bl_onnx_in(c, 2), *place[MOST_AXES], *y;
    int64_t parts = bl_onnx_int(c, "offset_group", 1), groups = bl_onnx_int(c, "group", 1), kernel[BL_MAX_DIMS], cells = 1;
    int n = bl_onnx_rank(x) - 2;
    const bl_node *dim[2 + 2 * MOST_AXES];
    bl_ir *ir = c->import->ir;
    bl_onnx_window w;

    if (n < 1 || n > MOST_AXES || bl_onnx_rank(weight) != n + 2 || bl_onnx_rank(offset) != n + 2 || parts < 1 || groups < 1 ||
        !bl_is_const(x->type->dim[1]))
        return bl_onnx_fail(c, "needs data, weight and offsets of 3 to %d dimensions, and a fixed number of channels",
                            MOST_AXES + 2);
    for (int i = 0; i < n; i++) {
        kernel[i] = weight->type->dim[2 + i]->hi;
        cells *= kernel[i];
    }
    if (!bl_onnx_take_window(c, x, n, kernel, &w))
        return NULL;
    bl_dtype dtype = place_type(x);
    const bl_node *batch = x->type->dim[0], *rows = bl_mul(ir, batch, bl_index(ir, parts)), *const *out = offset->type->dim + 2;
    const bl_node *steps = bl_shape_count(ir, n, out), *flat[2] = {rows, bl_mul(ir, bl_index(ir, cells), steps)};
    dim[0] = rows;
    for (int i = 0; i < n; i++) {
        dim[1 + i] = bl_index(ir, kernel[i]);
        dim[2 + n + i] = out[i];
    }
    dim[1 + n] = bl_index(ir, n);
    offset = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(ops_sample_cast_to(c, offset, dtype)), ZS(2 + 2 * n, dim)));
    for (int i = 0; i < n; i++) {
        int64_t axis = 1 + n;
        place[i] = bl_onnx_make(c, "squeeze(slice($0, start=$1, stop=$2, axis=$3), axis=$3)",
                                ARGS(V(offset), I(i), I(i + 1), IS(1, &axis)));
        place[i] = bl_onnx_make(c, "reshape(add($0, $1), shape=$2)",
                                ARGS(V(window_places(c, &w, i, out, dtype)), V(place[i]), ZS(2, flat)));
    }
    memcpy(dim + 2, x->type->dim + 2, (size_t)n * sizeof dim[0]);
    dim[1] = bl_index(ir, x->type->dim[1]->hi / parts);
    x = bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(ops_sample_cast_to(c, x, dtype)), ZS(2 + n, dim)));
    if (c->import->failed)
        return NULL;
    y = sample(&(sampler){.c = c, .mode = 'l', .padding = 'z'}, x, place); /* [batch * parts, channels / parts, cells * steps] */
    if (bl_onnx_in(c, 4) != NULL) {
        const bl_node *each[3] = {rows, bl_index(ir, 1), flat[1]};
        y = bl_onnx_make(c, "mul($0, reshape(e, shape=$1))", ARGS(V(y), ZS(3, each)));
    }
    const bl_node *columns[4] = {batch, bl_index(ir, groups), bl_index(ir, weight->type->dim[1]->hi * cells), steps};
    const bl_node *matrix[3] = {columns[1], bl_index(ir, weight->type->dim[0]->hi / groups), columns[2]};
    y = bl_onnx_make(c, "matmul(reshape($0, shape=$1), reshape($2, shape=$3))",
                     ARGS(V(ops_sample_cast_to(c, weight, dtype)), ZS(3, matrix), V(y), ZS(4, columns)));
    dim[0] = batch;
    dim[1] = weight->type->dim[0];
    memcpy(dim + 2, out, (size_t)n * sizeof dim[0]);
    y = ops_sample_cast_to(c, bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(2 + n, dim))), bl_onnx_type(c->in[0]));
    for (int i = 0; i < n; i++)
        dim[1 + i] = bl_index(ir, 1);
    dim[0] = weight->type->dim[0];
    return bl_onnx_in(c, 3) == NULL ? y : bl_onnx_make(c, "add($0, reshape(d, shape=$1))", ARGS(V(y), ZS(1 + n, dim)));
}

/* ---- Col2Im */

/* Sums windows into a picture: a transposed convolution in which each channel is one cell of the window. */
bl_onnx_value *bl_onnx_write_col2im(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);
    const int64_t *image, *block;
    int n = bl_onnx_in_ints(c, 1, &image), nblock = bl_onnx_in_ints(c, 2, &block);
    int64_t cells = 1, more[BL_MAX_DIMS];
    const bl_node *dim[2 + BL_MAX_DIMS], *cell[2 + BL_MAX_DIMS];
    bl_ir *ir = c->import->ir;
    bl_onnx_window w;

    if (n < 1 || n > BL_MAX_DIMS - 2 || nblock != n || bl_onnx_rank(x) != 3)
        return bl_onnx_fail(c, "needs windows [N, C * cells, steps], and as many sizes of the image as of the block");
    if (!bl_onnx_take_window(c, x, n, block, &w))
        return NULL;
    for (int i = 0; i < n; i++) {
        int64_t room = image[i] + w.pads[2 * i] + w.pads[2 * i + 1] - (w.dilation[i] * (block[i] - 1) + 1);
        if (room < 0)
            return bl_onnx_fail(c, "the block is larger than the padded image");
        more[i] = room % w.stride[i];
        dim[2 + i] = bl_index(ir, room / w.stride[i] + 1);
        cell[2 + i] = bl_index(ir, block[i]);
        cells *= block[i];
    }
    bl_dtype dtype = place_type(x);
    const bl_node *channels = bl_idiv(ir, x->type->dim[1], bl_index(ir, cells));
    dim[0] = bl_mul(ir, x->type->dim[0], channels);
    dim[1] = cell[0] = bl_index(ir, cells);
    cell[1] = bl_index(ir, 1);
    bl_onnx_value *weight = bl_onnx_make(c, "reshape(eye(n=$0, dtype=$1), shape=$2)", ARGS(I(cells), D(dtype), ZS(2 + n, cell)));
    bl_onnx_value *y =
        bl_onnx_make(c, "conv_transpose(reshape($0, shape=$1), $2, stride=$3, padding=$4, output_padding=$5, dilation=$6)",
                     ARGS(V(ops_sample_cast_to(c, x, dtype)), ZS(2 + n, dim), V(weight), IS(n, w.stride), IS(2 * n, w.pads),
                          IS(n, more), IS(n, w.dilation)));
    dim[0] = x->type->dim[0];
    dim[1] = channels;
    for (int i = 0; i < n; i++)
        dim[2 + i] = bl_index(ir, image[i]);
    return ops_sample_cast_to(c, bl_onnx_make(c, "reshape($0, shape=$1)", ARGS(V(y), ZS(2 + n, dim))), bl_onnx_type(x));
}
