/* SPDX-License-Identifier: MIT */
/* Operators of ai.onnx.ml that scale, clean and join features, and helpers of all operators of this domain. */
#include "proto/onnx/ml.h"

#include <math.h>
#include <string.h>

#define KIND(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

/* ---- attributes of any length */

static const Onnx__AttributeProto *ops_ml_list_attr(bl_onnx_call *c, const char *name, Onnx__AttributeProto__AttributeType kind,
                                                    const char *word)
{
    const Onnx__AttributeProto *a = bl_onnx_attr(c, name);

    if (a != NULL && a->has_type && a->type != kind && a->type != KIND(UNDEFINED))
        return bl_onnx_fail(c, "attribute \"%s\" must be a list of %s", name, word);
    return a;
}

const Onnx__AttributeProto *bl_ml_ints(bl_onnx_call *c, const char *name)
{
    return ops_ml_list_attr(c, name, KIND(INTS), "whole numbers");
}

const Onnx__AttributeProto *bl_ml_strings(bl_onnx_call *c, const char *name)
{
    return ops_ml_list_attr(c, name, KIND(STRINGS), "strings");
}

static int64_t tensor_numbers(bl_onnx_call *c, const Onnx__TensorProto *tensor, const double **out)
{
    bl_onnx_importer *m = c->import;
    bl_tensor_value content;
    double *number;

    if (bl_onnx_tensor(m, tensor, &content, m->err) != BL_OK) {
        m->failed = true;
        return -1;
    }
    number = bl_arena_array(m->scratch, content.count + 1, sizeof *number);
    for (size_t i = 0; number != NULL && i < content.count; i++) {
        bl_scalar value = bl_scalar_read(content.dtype, content.span.data + i * bl_dtype_bytes(content.dtype));
        number[i] = bl_scalar_cast(BL_F64, content.dtype, value).f;
    }
    *out = number;
    return number != NULL ? (int64_t)content.count : -1;
}

int64_t bl_ml_numbers(bl_onnx_call *c, const char *name, const double **out)
{
    const char *as_tensor = bl_arena_printf(c->import->scratch, "%s_as_tensor", name);
    const Onnx__AttributeProto *a = bl_onnx_attr(c, name), *t = as_tensor != NULL ? bl_onnx_attr(c, as_tensor) : NULL;
    double *number;

    *out = NULL;
    t = a != NULL && a->t != NULL ? a : t;
    if (t != NULL && t->t != NULL)
        return tensor_numbers(c, t->t, out);
    a = ops_ml_list_attr(c, name, KIND(FLOATS), "numbers");
    number = a != NULL ? bl_arena_array(c->import->scratch, a->n_floats + 1, sizeof *number) : NULL;
    for (size_t i = 0; number != NULL && i < a->n_floats; i++)
        number[i] = (double)a->floats[i];
    *out = number;
    return c->import->failed || (a != NULL && number == NULL) ? -1 : a != NULL ? (int64_t)a->n_floats : 0;
}

/* ---- constants */

bl_onnx_value *bl_ml_store(bl_onnx_call *c, const char *name, bl_dtype dtype, int ndim, const int64_t *dim, char **to)
{
    bl_onnx_importer *m = c->import;
    bl_tensor_value content = {.kind = BL_VALUE_BYTES, .dtype = dtype, .ndim = ndim};

    *to = NULL;
    for (int i = 0; i < ndim; i++)
        content.dim[i] = dim[i];
    if (m->failed ||
        bl_tensor_measure(name, dtype, ndim, content.dim, &m->options->limits, &content.count, &content.bytes, m->err) != BL_OK) {
        m->failed = true;
        return NULL;
    }
    *to = bl_arena_alloc(m->arena, content.bytes);
    if (*to == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %zu bytes of \"%s\"", content.bytes, name);
    content.span = (bl_span){*to, content.bytes};
    return bl_onnx_state_value(m, bl_arena_printf(m->arena, "%.90s.%s", c->label, name), &content);
}

bl_onnx_value *bl_ml_store_numbers(bl_onnx_call *c, const char *name, bl_dtype dtype, int ndim, const int64_t *dim,
                                   const double *number)
{
    char *to;
    bl_onnx_value *value = bl_ml_store(c, name, dtype, ndim, dim, &to);
    int64_t count = 1;

    for (int i = 0; i < ndim; i++)
        count *= dim[i];
    for (int64_t i = 0; value != NULL && i < count; i++) {
        double x = bl_dtype_is_float(dtype) ? number[i] : 0;
        bl_scalar_write(dtype, bl_dtype_is_float(dtype) ? (bl_scalar){.f = x} : (bl_scalar){.i = (int64_t)number[i]},
                        to + (size_t)i * bl_dtype_bytes(dtype));
    }
    return value;
}

bl_onnx_value *bl_ml_store_ints(bl_onnx_call *c, const char *name, int64_t count, const int32_t *whole)
{
    char *to;
    bl_onnx_value *value = bl_ml_store(c, name, BL_I32, 1, &count, &to);

    if (value != NULL)
        memcpy(to, whole, (size_t)count * sizeof *whole);
    return value;
}

/* ---- inputs and scores */

static bl_onnx_value *ops_ml_as_float(bl_onnx_call *c, bl_onnx_value *x)
{
    return x == NULL || bl_onnx_type(x) == BL_F64 ? x : bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(x)));
}

bl_onnx_value *bl_ml_rows(bl_onnx_call *c)
{
    bl_onnx_value *x = ops_ml_as_float(c, bl_onnx_in(c, 0));

    if (bl_onnx_rank(x) == 1)
        return bl_onnx_make(c, "unsqueeze($0, axis=0)", ARGS(V(x)));
    if (bl_onnx_rank(x) != 2)
        return bl_onnx_fail(c, "its input has %d dimensions; it must have rows and features", bl_onnx_rank(x));
    return x;
}

bl_onnx_value *bl_ml_column(bl_onnx_call *c, bl_onnx_value *x, int64_t at)
{
    return bl_onnx_make(c, "slice($0, start=$1, stop=$2, axis=[1])", ARGS(V(x), I(at), I(at + 1)));
}

/* sqrt(2) * erfinv, by S. Winitzki's approximation, which the standard's tests of the operators use. */
static bl_onnx_value *probit(bl_onnx_call *c, bl_onnx_value *x)
{
    bl_onnx_value *log = bl_onnx_make(c, "log(mul(sub(2, mul($0, 2)), mul($0, 2)))", ARGS(V(x)));
    bl_onnx_value *v = bl_onnx_make(c, "add(mul($0, 0.5), $1)", ARGS(V(log), R(2 / (3.14159 * 0.147))));
    bl_onnx_value *root = bl_onnx_make(c, "sqrt(sub(sqrt(sub(square($0), div($1, 0.147))), $0))", ARGS(V(v), V(log)));

    return bl_onnx_make(c, "mul(where(less($0, 0.5), -1.41421356, 1.41421356), $1)", ARGS(V(x), V(root)));
}

bl_onnx_value *bl_ml_transform(bl_onnx_call *c, bl_onnx_value *scores, const char *transform)
{
    bool one = bl_onnx_rank(scores) == 2 && bl_is_int(scores->type->dim[1], 1);

    if (scores == NULL || strcmp(transform, "NONE") == 0)
        return scores;
    if (strcmp(transform, "PROBIT") == 0)
        return probit(c, scores);
    if (one)
        return scores;
    if (strcmp(transform, "LOGISTIC") == 0)
        return bl_onnx_make(c, "sigmoid($0)", ARGS(V(scores)));
    if (strcmp(transform, "SOFTMAX") == 0)
        return bl_onnx_make(c, "softmax($0, axis=1)", ARGS(V(scores)));
    if (strcmp(transform, "SOFTMAX_ZERO") == 0) { /* zeros stay zero; 1e-7 is onnxruntime's threshold */
        bl_onnx_value *most = bl_onnx_make(c, "max($0, axis=1, keepdim=true)", ARGS(V(scores)));
        bl_onnx_value *y =
            bl_onnx_make(c, "where(greater(abs($0), 1e-7), exp(sub($0, $1)), mul($0, exp(neg($1))))", ARGS(V(scores), V(most)));
        bl_onnx_value *sum = bl_onnx_make(c, "sum($0, axis=1, keepdim=true)", ARGS(V(y)));
        return bl_onnx_make(c, "where(equal($1, 0), 0.5, div($0, where(equal($1, 0), 1, $1)))", ARGS(V(y), V(sum)));
    }
    return bl_onnx_fail(c, "post_transform is \"%.40s\"; it must be NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT",
                        bl_onnx_clean(c->import, transform));
}

bl_onnx_value *bl_ml_two_columns(bl_onnx_call *c, bl_onnx_value *score, bool opposite, const char *transform)
{
    bool logistic = strcmp(transform, "LOGISTIC") == 0;
    bl_onnx_value *both =
        bl_onnx_make(c, opposite || logistic ? "cat(neg($0), $0, axis=1)" : "cat(sub(1, $0), $0, axis=1)", ARGS(V(score)));

    return logistic || strcmp(transform, "PROBIT") == 0 ? bl_ml_transform(c, both, transform) : both;
}

bl_ml_labels bl_ml_read_labels(bl_onnx_call *c)
{
    bl_ml_labels labels = {.strings = bl_ml_strings(c, "classlabels_strings"), .ints = bl_ml_ints(c, "classlabels_ints")};

    if (labels.ints == NULL)
        labels.ints = bl_ml_ints(c, "classlabels_int64s");
    if (labels.strings != NULL && labels.strings->n_strings == 0)
        labels.strings = NULL;
    labels.count = labels.strings != NULL ? (int64_t)labels.strings->n_strings
                   : labels.ints != NULL  ? (int64_t)labels.ints->n_ints
                                          : 0;
    return labels;
}

/* int64 [count]. */
bl_onnx_value *bl_ml_texts(bl_onnx_call *c, const Onnx__AttributeProto *strings)
{
    int64_t *number = bl_arena_array(c->import->scratch, strings->n_strings + 1, sizeof *number);

    if (number == NULL || strings->n_strings > BL_ONNX_MAX_KNOWN)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%zu strings; the limit is %d", strings->n_strings, BL_ONNX_MAX_KNOWN);
    for (size_t i = 0; i < strings->n_strings; i++)
        number[i] = bl_onnx_text_number(c->import, (bl_span){(const char *)strings->strings[i].data, strings->strings[i].len});
    bl_onnx_value *texts = bl_onnx_known_ints(c->import, (int)strings->n_strings, number);
    if (texts != NULL)
        texts->texts = true;
    return texts;
}

bl_onnx_value *bl_ml_label(bl_onnx_call *c, const bl_ml_labels *labels, bl_onnx_value *at)
{
    bl_onnx_value *table, *label;

    if (labels->count == 0)
        return at;
    if (labels->count > BL_ONNX_MAX_KNOWN)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%lld classes; the limit is %d", (long long)labels->count, BL_ONNX_MAX_KNOWN);
    table = labels->strings != NULL ? bl_ml_texts(c, labels->strings)
                                    : bl_onnx_known_ints(c->import, (int)labels->count, labels->ints->ints);
    label = bl_onnx_make(c, "take($0, $1, axis=0)", ARGS(V(table), V(at)));
    if (label != NULL)
        label->texts = labels->strings != NULL;
    return label;
}

/* ---- features */

/* One number for each feature, or one number for all features. */
static bl_onnx_value *for_features(bl_onnx_call *c, const char *name, bl_dtype dtype, double preset)
{
    const double *number;
    int64_t n = bl_ml_numbers(c, name, &number), one = 1;

    if (n < 0)
        return NULL;
    return bl_ml_store_numbers(c, name, dtype, 1, n == 0 ? &one : &n, n == 0 ? &preset : number);
}

bl_onnx_value *bl_onnx_write_scaler(bl_onnx_call *c)
{
    bl_onnx_value *x = ops_ml_as_float(c, bl_onnx_in(c, 0));
    bl_dtype dtype = bl_onnx_type(x);

    return bl_onnx_make(c, "cast(mul(sub($0, $1), $2), dtype=float32)",
                        ARGS(V(x), V(for_features(c, "offset", dtype, 0)), V(for_features(c, "scale", dtype, 1))));
}

bl_onnx_value *bl_onnx_write_normalizer(bl_onnx_call *c)
{
    static const char *const recipes[][2] = {{"MAX", "max($0, axis=-1, keepdim=true)"},
                                             {"L1", "sum(abs($0), axis=-1, keepdim=true)"},
                                             {"L2", "sqrt(sum(square($0), axis=-1, keepdim=true))"}};
    const char *norm = bl_onnx_text(c, "norm", "MAX");
    bl_onnx_value *x = ops_ml_as_float(c, bl_onnx_in(c, 0)), *by;

    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        if (strcmp(norm, recipes[i][0]) != 0)
            continue;
        by = bl_onnx_make(c, recipes[i][1], ARGS(V(x)));
        return bl_onnx_make(c, "cast(div($0, where(equal($1, 0), 1, $1)), dtype=float32)", ARGS(V(x), V(by)));
    }
    return bl_onnx_fail(c, "norm is \"%.40s\"; it must be MAX, L1 or L2", bl_onnx_clean(c->import, norm));
}

bl_onnx_value *bl_onnx_write_imputer(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0), *with, *missing;
    const Onnx__AttributeProto *ints = bl_ml_ints(c, "imputed_value_int64s");
    double replaced = bl_onnx_float(c, "replaced_value_float", 0);

    if (x == NULL || c->import->failed)
        return NULL;
    if (!bl_dtype_is_float(bl_onnx_type(x))) {
        if (ints == NULL || ints->n_ints == 0)
            return bl_onnx_fail(c, "attribute \"imputed_value_int64s\" is missing");
        with = bl_onnx_known_ints(c->import, (int)ints->n_ints, ints->ints);
        return bl_onnx_make(c, "where(equal($0, $1), cast($2, dtype=$3), $0)",
                            ARGS(V(x), I(bl_onnx_int(c, "replaced_value_int64", 0)), V(with), D(bl_onnx_type(x))));
    }
    with = for_features(c, "imputed_value_floats", bl_onnx_type(x), 0);
    missing =
        isnan(replaced) ? bl_onnx_make(c, "isnan($0)", ARGS(V(x))) : bl_onnx_make(c, "equal($0, $1)", ARGS(V(x), R(replaced)));
    return bl_onnx_make(c, "where($0, $1, $2)", ARGS(V(missing), V(with), V(x)));
}

/* Concatenates all inputs, each cut or padded with zeros to its inputdimensions. */
bl_onnx_value *bl_onnx_write_feature_vectorizer(bl_onnx_call *c)
{
    const int64_t *size;
    int n = bl_onnx_ints(c, "inputdimensions", &size);
    bl_onnx_value **part = bl_arena_array(c->import->scratch, (size_t)c->nin + 1, sizeof *part);

    if (part == NULL || c->nin < 1 || (n >= 0 && n < c->nin))
        return bl_onnx_fail(c, "inputdimensions has %d items, but the node has %d inputs", n, c->nin);
    for (int i = 0; i < c->nin && !c->import->failed; i++) {
        int64_t shape[2] = {-1, n >= 0 ? size[i] : -1};
        part[i] = bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(c->in[i])));
        if (bl_onnx_rank(part[i]) == 1)
            part[i] = bl_onnx_make(c, "unsqueeze($0, axis=0)", ARGS(V(part[i])));
        else if (bl_onnx_rank(part[i]) > 2)
            part[i] = bl_onnx_make(c, "flatten($0, start_axis=1)", ARGS(V(part[i])));
        if (part[i] == NULL || n < 0 || bl_is_int(part[i]->type->dim[1], size[i]))
            continue;
        bool less = bl_is_const(part[i]->type->dim[1]) && part[i]->type->dim[1]->hi < size[i];
        part[i] = bl_onnx_make(c, less ? "pad_to($0, shape=$1)" : "shrink_to($0, shape=$1)", ARGS(V(part[i]), IS(2, shape)));
    }
    return bl_onnx_make(c, "cat($0..., axis=1)", ARGS(VS(c->nin, part)));
}

bl_onnx_value *bl_onnx_write_array_feature_extractor(bl_onnx_call *c)
{
    bl_onnx_value *x = bl_onnx_in(c, 0);

    return bl_onnx_make(
        c, bl_onnx_rank(x) == 1 ? "unsqueeze(take(a, flatten(b), axis=0), axis=0)" : "take(a, flatten(b), axis=-1)", NULL);
}
