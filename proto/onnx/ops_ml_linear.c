/* SPDX-License-Identifier: MIT */
/* LinearClassifier and LinearRegressor. */
#include "proto/onnx/ml.h"

#include <string.h>

/* [rows, n]: x times |n| rows of coefficients, plus the intercepts. */
static bl_onnx_value *linear_scores(bl_onnx_call *c, int64_t n)
{
    const double *coefficient, *intercept;
    int64_t count = bl_ml_numbers(c, "coefficients", &coefficient), shape[2] = {n, 0};
    int64_t nintercepts = bl_ml_numbers(c, "intercepts", &intercept);
    bl_onnx_value *x = bl_ml_rows(c), *weight;
    bl_dtype dtype = bl_onnx_type(x);

    if (c->import->failed)
        return NULL;
    if (n < 1 || count < 1 || count % n != 0)
        return bl_onnx_fail(c, "coefficients has %lld items; they must be %lld rows", (long long)count, (long long)n);
    if (nintercepts > 1 && nintercepts != n)
        return bl_onnx_fail(c, "intercepts has %lld items; it must have %lld", (long long)nintercepts, (long long)n);
    shape[1] = count / n;
    weight = bl_ml_store_numbers(c, "coefficients", dtype, 2, shape, coefficient);
    if (nintercepts == 0)
        return bl_onnx_make(c, "linear($0, $1)", ARGS(V(x), V(weight)));
    return bl_onnx_make(c, "add(linear($0, $1), $2)",
                        ARGS(V(x), V(weight), V(bl_ml_store_numbers(c, "intercepts", dtype, 1, &nintercepts, intercept))));
}

bl_onnx_value *bl_onnx_write_linear_regressor(bl_onnx_call *c)
{
    return bl_onnx_make(
        c, "cast($0, dtype=float32)",
        ARGS(V(bl_ml_transform(c, linear_scores(c, bl_onnx_int(c, "targets", 1)), bl_onnx_text(c, "post_transform", "NONE")))));
}

/* The number of rows of coefficients: the number of intercepts, or of classes; one row suffices for two classes. */
static int64_t count_rows(bl_onnx_call *c, const bl_ml_labels *labels)
{
    const double *ignored;
    int64_t intercepts = bl_ml_numbers(c, "intercepts", &ignored), count = bl_ml_numbers(c, "coefficients", &ignored);
    const bl_onnx_value *x = bl_onnx_in(c, 0);
    int rank = bl_onnx_rank(x);

    if (intercepts > 0)
        return intercepts;
    if (rank > 0 && bl_is_const(x->type->dim[rank - 1]) && x->type->dim[rank - 1]->hi > 0)
        return count / x->type->dim[rank - 1]->hi;
    return labels->count > 0 ? labels->count : 1;
}

bl_onnx_value *bl_onnx_write_linear_classifier(bl_onnx_call *c)
{
    bl_ml_labels labels = bl_ml_read_labels(c);
    const char *transform = bl_onnx_text(c, "post_transform", "NONE");
    int64_t n = count_rows(c, &labels);
    bl_onnx_value *scores = linear_scores(c, n), *y, *at;

    if (scores == NULL)
        return NULL;
    if (n == 1) {
        at = bl_onnx_make(c, "cast(greater(squeeze($0, axis=1), 0), dtype=int64)", ARGS(V(scores)));
        y = labels.count == 2 ? bl_ml_two_columns(c, scores, false, transform) : bl_ml_transform(c, scores, transform);
        c->out[0] = labels.count == 2 ? bl_ml_label(c, &labels, at) : at;
    } else {
        if (labels.count > 0 && labels.count < n)
            return bl_onnx_fail(c, "%lld labels for %lld classes", (long long)labels.count, (long long)n);
        c->out[0] = bl_ml_label(c, &labels, bl_onnx_make(c, "argmax($0, axis=1)", ARGS(V(scores))));
        y = bl_ml_transform(c, scores, transform);
    }
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(y)));
    return c->out[0];
}
