/* SPDX-License-Identifier: MIT */
/* SVMClassifier and SVMRegressor.  The classifier follows libsvm: each pair of classes has a decision function and votes.  The
 * class probabilities follow from the probabilities of the pairs (Wu, Lin and Weng, 2004). */
#include "proto/onnx/ml.h"

#include <string.h>

enum {
    LEAST_STEPS = 100,
    MOST_CLASSES = 64,
    MOST_PRODUCTS = 8
}; /* the numbers of iterations are libsvm's; the graph has the operations of each class unrolled in an iteration of the
    * probabilities */

typedef struct machine {
    bl_onnx_call *c;
    bl_onnx_value *x;
    bl_dtype dtype;
    int64_t nvectors, nclasses, npairs;
    int64_t ncoefficients, nrho;
    const double *coefficient, *rho;
} machine;

/* x to the power |degree|; small whole degrees use products, which keep the sign exactly and are accurate to the last bits. */
static bl_onnx_value *power(bl_onnx_call *c, bl_onnx_value *x, double degree)
{
    bl_onnx_value *y = x;

    if (!(degree >= 1 && degree <= MOST_PRODUCTS && degree == (int)degree))
        return bl_onnx_make(c, "pow($0, $1)", ARGS(V(x), R(degree)));
    for (int i = 1; i < (int)degree; i++)
        y = bl_onnx_make(c, "mul($0, $1)", ARGS(V(y), V(x)));
    return y;
}

/* [rows, vectors] */
static bl_onnx_value *kernel_of_vectors(machine *s)
{
    bl_onnx_call *c = s->c;
    const char *kind = bl_onnx_text(c, "kernel_type", "LINEAR");
    const double *vector, *param;
    int64_t n = bl_ml_numbers(c, "support_vectors", &vector), nparams = bl_ml_numbers(c, "kernel_params", &param), shape[2];
    double gamma = nparams > 0 ? param[0] : 0, coef0 = nparams > 1 ? param[1] : 0, degree = nparams > 2 ? param[2] : 0;
    bl_onnx_value *vectors, *dot;

    if (c->import->failed)
        return NULL;
    if (n < 1 || n % s->nvectors != 0)
        return bl_onnx_fail(c, "support_vectors has %lld numbers; they must be %lld vectors", (long long)n,
                            (long long)s->nvectors);
    shape[0] = s->nvectors;
    shape[1] = n / s->nvectors;
    vectors = bl_ml_store_numbers(c, "vectors", s->dtype, 2, shape, vector);
    if (strcmp(kind, "RBF") == 0)
        return bl_onnx_make(c, "exp(mul(sum(square(sub(unsqueeze($0, axis=1), $1)), axis=2), $2))",
                            ARGS(V(s->x), V(vectors), R(-gamma)));
    dot = bl_onnx_make(c, "linear($0, $1)", ARGS(V(s->x), V(vectors)));
    if (strcmp(kind, "LINEAR") == 0)
        return dot;
    dot = bl_onnx_make(c, "add(mul($0, $1), $2)", ARGS(V(dot), R(gamma), R(coef0)));
    if (strcmp(kind, "POLY") == 0)
        return power(c, dot, degree);
    if (strcmp(kind, "SIGMOID") == 0)
        return bl_onnx_make(c, "tanh($0)", ARGS(V(dot)));
    return bl_onnx_fail(c, "kernel_type is \"%.40s\"; it must be LINEAR, POLY, RBF or SIGMOID", bl_onnx_clean(c->import, kind));
}

static bool begin_machine(bl_onnx_call *c, machine *s)
{
    *s = (machine){.c = c, .x = bl_ml_rows(c)};
    s->dtype = bl_onnx_type(s->x);
    s->ncoefficients = bl_ml_numbers(c, "coefficients", &s->coefficient);
    s->nrho = bl_ml_numbers(c, "rho", &s->rho);
    if (!c->import->failed && (s->ncoefficients < 1 || s->nrho < 1))
        bl_onnx_fail(c, "needs coefficients and rho");
    return !c->import->failed;
}

/* [rows, n]: |x| times |n| rows of coefficients. */
static bl_onnx_value *ops_ml_svm_weigh(machine *s, bl_onnx_value *x, int64_t n, int64_t width, const double *weight)
{
    return bl_onnx_make(
        s->c, "linear($0, $1)",
        ARGS(V(x), V(bl_ml_store_numbers(s->c, "coefficients", s->dtype, 2, (const int64_t[]){n, width}, weight))));
}

bl_onnx_value *bl_onnx_write_svm_regressor(bl_onnx_call *c)
{
    const char *sign = "where(greater($0, 0), 1, -1)";
    bl_onnx_value *y;
    machine s;

    if (!begin_machine(c, &s))
        return NULL;
    s.nvectors = bl_onnx_int(c, "n_supports", 0);
    if (s.nvectors > 0 && s.ncoefficients != s.nvectors)
        return bl_onnx_fail(c, "coefficients has %lld items; it must have %lld", (long long)s.ncoefficients,
                            (long long)s.nvectors);
    y = s.nvectors > 0 ? kernel_of_vectors(&s) : s.x;
    y = bl_onnx_make(c, "add($0, $1)", ARGS(V(ops_ml_svm_weigh(&s, y, 1, s.ncoefficients, s.coefficient)), R(s.rho[0])));
    if (bl_onnx_int(c, "one_class", 0) != 0)
        y = bl_onnx_make(c, sign, ARGS(V(y)));
    else
        y = bl_ml_transform(c, y, bl_onnx_text(c, "post_transform", "NONE"));
    return bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(y)));
}

/* ---- pairs of classes */

/* The coefficients of each pair, [pairs, vectors]: the vectors of class i have the coefficients of row j - 1, the vectors of
 * class j those of row i. */
static double *pair_weights(machine *s, const int64_t *first)
{
    double *weight = bl_arena_array(s->c->import->scratch, (size_t)(s->npairs * s->nvectors), sizeof *weight);
    int64_t pair = 0;

    for (int64_t i = 0; weight != NULL && i < s->nclasses; i++) {
        for (int64_t j = i + 1; j < s->nclasses; j++, pair++) {
            double *row = weight + pair * s->nvectors;
            for (int64_t v = first[i]; v < first[i + 1]; v++)
                row[v] = s->coefficient[(j - 1) * s->nvectors + v];
            for (int64_t v = first[j]; v < first[j + 1]; v++)
                row[v] = s->coefficient[i * s->nvectors + v];
        }
    }
    return weight;
}

/* [rows, classes]: the number of pairs that each class wins. */
static bl_onnx_value *count_votes(machine *s, bl_onnx_value *decision)
{
    bl_onnx_call *c = s->c;
    double *gain = bl_arena_array(c->import->scratch, (size_t)(s->npairs * s->nclasses), sizeof *gain);
    double *all = bl_arena_array(c->import->scratch, (size_t)s->nclasses, sizeof *all);
    int64_t pair = 0;

    if (gain == NULL || all == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld pairs of classes", (long long)s->npairs);
    for (int64_t i = 0; i < s->nclasses; i++) {
        for (int64_t j = i + 1; j < s->nclasses; j++, pair++) {
            gain[pair * s->nclasses + i] = 1;
            gain[pair * s->nclasses + j] = -1;
            all[j] += 1; /* the initial votes assume that class j wins every pair */
        }
    }
    return bl_onnx_make(c, "add(matmul(cast(greater($0, 0), dtype=float32), $1), $2)",
                        ARGS(V(decision),
                             V(bl_ml_store_numbers(c, "votes", BL_F32, 2, (const int64_t[]){s->npairs, s->nclasses}, gain)),
                             V(bl_ml_store_numbers(c, "losses", BL_F32, 1, &s->nclasses, all))));
}

/* ---- probabilities */

/* [rows, classes, classes]: the probability of class i given i or j; 0 for i = j. */
static bl_onnx_value *pair_probabilities(machine *s, bl_onnx_value *decision, const double *a, const double *b)
{
    bl_onnx_call *c = s->c;
    int64_t n = s->nclasses, pair = 0;
    int64_t *at = bl_arena_array(c->import->scratch, (size_t)(n * n), sizeof *at);
    bl_onnx_value *p;

    if (decision == NULL)
        return NULL;
    if (at == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld pairs of classes", (long long)s->npairs);
    for (int64_t i = 0; i < n; i++) {
        at[i * n + i] = 2 * s->npairs;
        for (int64_t j = i + 1; j < n; j++, pair++) {
            at[i * n + j] = pair;
            at[j * n + i] = s->npairs + pair;
        }
    }
    p = bl_onnx_make(c, "clamp(sub(1, sigmoid(add(mul($0, $1), $2))), min=1e-7, max=0.9999999)",
                     ARGS(V(decision), V(bl_ml_store_numbers(c, "slopes", BL_F32, 1, &s->npairs, a)),
                          V(bl_ml_store_numbers(c, "offsets", BL_F32, 1, &s->npairs, b))));
    p = bl_onnx_make(c, "cat($0, sub(1, $0), mul($1, 0), axis=1)", ARGS(V(p), V(bl_ml_column(c, p, 0))));
    return bl_onnx_make(
        c, "reshape(take($0, $1, axis=1), shape=$2)",
        ARGS(V(p), V(bl_onnx_known_ints(c->import, (int)(n * n), at)),
             ZS(3, ((const bl_node *[]){decision->type->dim[0], bl_index(c->import->ir, n), bl_index(c->import->ir, n)}))));
}

/* One iteration from the probabilities |p|; rows that have converged stay unchanged. */
static bl_onnx_value *step_probabilities(machine *s, bl_onnx_call *c, bl_onnx_value *q, bl_onnx_value *old)
{
    bl_onnx_value *p = old, *qp, *pqp, *error;

    qp = bl_onnx_make(c, "sum(mul($0, unsqueeze($1, axis=1)), axis=2)", ARGS(V(q), V(p)));
    pqp = bl_onnx_make(c, "sum(mul($0, $1), axis=1, keepdim=true)", ARGS(V(p), V(qp)));
    error = bl_onnx_make(c, "max(abs(sub($0, $1)), axis=1, keepdim=true)", ARGS(V(qp), V(pqp)));
    for (int64_t t = 0; t < s->nclasses && !c->import->failed; t++) {
        bl_onnx_value *row =
            bl_onnx_make(c, "squeeze(slice($0, start=$1, stop=$2, axis=[1]), axis=1)", ARGS(V(q), I(t), I(t + 1)));
        bl_onnx_value *own = bl_ml_column(c, row, t), *at = bl_ml_column(c, qp, t);
        bl_onnx_value *diff = bl_onnx_make(c, "div(sub($0, $1), $2)", ARGS(V(pqp), V(at), V(own)));
        bl_onnx_value *scale = bl_onnx_make(c, "add($0, 1)", ARGS(V(diff)));
        pqp = bl_onnx_make(c, "div(add($0, mul($1, add(mul($1, $2), mul(2, $3)))), square($4))",
                           ARGS(V(pqp), V(diff), V(own), V(at), V(scale)));
        p = bl_onnx_make(c, "div(where(equal(arange(stop=$0), $1), add($2, $3), $2), $4)",
                         ARGS(I(s->nclasses), I(t), V(p), V(diff), V(scale)));
        qp = bl_onnx_make(c, "div(add($0, mul($1, $2)), $3)", ARGS(V(qp), V(diff), V(row), V(scale)));
    }
    return bl_onnx_make(c, "where(less($0, $1), $2, $3)", ARGS(V(error), R(0.005 / (double)s->nclasses), V(old), V(p)));
}

static bl_onnx_value *class_probabilities(machine *s, bl_onnx_value *r)
{
    bl_onnx_call *c = s->c, inner = *c;
    bl_ir *ir = c->import->ir;
    const bl_node *shape[2] = {s->x->type->dim[0], bl_index(ir, s->nclasses)};
    bl_onnx_value *own = bl_onnx_make(c, "unsqueeze(sum(square($0), axis=1), axis=1)", ARGS(V(r)));
    bl_onnx_value *same = bl_onnx_make(c, "equal(unsqueeze(arange(stop=$0), axis=1), arange(stop=$0))", ARGS(I(s->nclasses)));
    bl_onnx_value *q = bl_onnx_make(c, "where($0, $1, neg(mul($2, transpose($2))))", ARGS(V(same), V(own), V(r)));
    bl_onnx_value *p = bl_onnx_make(c, "full(shape=$0, value=$1)", ARGS(ZS(2, shape), R(1 / (double)s->nclasses)));

    inner.graph = bl_onnx_open_graph(c->import, c->graph);
    if (inner.graph == NULL || c->import->failed)
        return NULL;
    bl_onnx_value *next = bl_onnx_body_input(c->import, inner.graph, NULL, BL_F32, 2, shape);
    next = step_probabilities(s, &inner, q, next);
    bl_onnx_body_outputs(c->import, inner.graph, 1, &next);
    if (c->import->failed)
        return NULL;
    return bl_onnx_make(c, "scan($0, $1..., body=$2, carries=1, length=$3)",
                        ARGS(V(p), VS(inner.graph->ncaptured, inner.graph->captured), G(&inner.graph->wire), I(LEAST_STEPS)));
}

/* ---- the classifier */

/* The coefficients belong to the classes themselves, without support vectors. */
static bl_onnx_value *write_without_vectors(machine *s, const bl_ml_labels *labels)
{
    bl_onnx_call *c = s->c;
    bl_onnx_value *scores;

    if (s->ncoefficients % s->nclasses != 0)
        return bl_onnx_fail(c, "coefficients has %lld items; they must be %lld rows", (long long)s->ncoefficients,
                            (long long)s->nclasses);
    scores = bl_onnx_make(
        c, "add($0, $1)",
        ARGS(V(ops_ml_svm_weigh(s, s->x, s->nclasses, s->ncoefficients / s->nclasses, s->coefficient)), R(s->rho[0])));
    c->out[0] = s->nclasses == 1 ? bl_onnx_make(c, "cast(greater(squeeze($0, axis=1), 0), dtype=int64)", ARGS(V(scores)))
                                 : bl_ml_label(c, labels, bl_onnx_make(c, "argmax($0, axis=1)", ARGS(V(scores))));
    return bl_ml_transform(c, scores, bl_onnx_text(c, "post_transform", "NONE"));
}

static bl_onnx_value *write_with_vectors(machine *s, const bl_ml_labels *labels, const int64_t *first)
{
    bl_onnx_call *c = s->c;
    const char *transform = bl_onnx_text(c, "post_transform", "NONE");
    const double *a, *b;
    int64_t na = bl_ml_numbers(c, "prob_a", &a), nb = bl_ml_numbers(c, "prob_b", &b);
    double *weight;
    bl_onnx_value *decision, *votes;

    if (s->ncoefficients != (s->nclasses - 1) * s->nvectors || s->nrho != s->npairs)
        return bl_onnx_fail(c, "%lld coefficients and %lld numbers of rho do not fit %lld classes and %lld vectors",
                            (long long)s->ncoefficients, (long long)s->nrho, (long long)s->nclasses, (long long)s->nvectors);
    weight = pair_weights(s, first);
    if (weight == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for %lld pairs of classes", (long long)s->npairs);
    decision = bl_onnx_make(c, "cast(add($0, $1), dtype=float32)",
                            ARGS(V(ops_ml_svm_weigh(s, kernel_of_vectors(s), s->npairs, s->nvectors, weight)),
                                 V(bl_ml_store_numbers(c, "rho", s->dtype, 1, &s->npairs, s->rho))));
    votes = count_votes(s, decision);
    c->out[0] = bl_ml_label(c, labels, bl_onnx_make(c, "argmax($0, axis=1)", ARGS(V(votes))));
    if (na <= 0)
        return s->npairs == 1 ? bl_ml_two_columns(c, decision, true, transform) : bl_ml_transform(c, decision, transform);
    if (na != s->npairs || nb != s->npairs)
        return bl_onnx_fail(c, "prob_a has %lld items, prob_b %lld; they must have %lld", (long long)na, (long long)nb,
                            (long long)s->npairs);
    if (s->nclasses > MOST_CLASSES)
        return bl_onnx_fail_as(c, BL_ELIMIT, "probabilities of %lld classes; the limit is %d", (long long)s->nclasses,
                               MOST_CLASSES);
    return bl_ml_transform(c, class_probabilities(s, pair_probabilities(s, decision, a, b)), transform);
}

bl_onnx_value *bl_onnx_write_svm_classifier(bl_onnx_call *c)
{
    bl_ml_labels labels = bl_ml_read_labels(c);
    const Onnx__AttributeProto *per_class = bl_ml_ints(c, "vectors_per_class");
    bl_onnx_value *scores;
    machine s;

    if (!begin_machine(c, &s))
        return NULL;
    int64_t n = per_class != NULL ? (int64_t)per_class->n_ints : 0, *first;
    s.nclasses = n > 0 ? n : labels.count > 0 ? labels.count : 1;
    s.npairs = s.nclasses * (s.nclasses - 1) / 2;
    first = bl_arena_array(c->import->scratch, (size_t)s.nclasses + 1, sizeof *first);
    if (first == NULL || s.nclasses > BL_ONNX_MAX_KNOWN)
        return bl_onnx_fail_as(c, BL_ELIMIT, "%lld classes; the limit is %d", (long long)s.nclasses, BL_ONNX_MAX_KNOWN);
    for (int64_t i = 0; i < n; i++) {
        if (per_class->ints[i] < 0 || per_class->ints[i] > s.ncoefficients)
            return bl_onnx_fail(c, "vectors_per_class has %lld", (long long)per_class->ints[i]);
        first[i + 1] = first[i] + per_class->ints[i];
    }
    s.nvectors = n > 0 ? first[n] : 0;
    if (labels.count > 0 && labels.count < s.nclasses)
        return bl_onnx_fail(c, "%lld labels for %lld classes", (long long)labels.count, (long long)s.nclasses);
    if (s.nvectors > 0 && s.npairs < 1)
        return bl_onnx_fail(c, "the vectors belong to one class; there must be at least two classes");
    scores = s.nvectors > 0 ? write_with_vectors(&s, &labels, first) : write_without_vectors(&s, &labels);
    if (bl_onnx_wants(c, 1))
        c->out[1] = bl_onnx_make(c, "cast($0, dtype=float32)", ARGS(V(scores)));
    return c->out[0];
}
