/* SPDX-License-Identifier: MIT */
/* TfIdfVectorizer: counts the n-grams of a pool in each row of numbers. */
#include "proto/onnx/import.h"

#include <string.h>

enum { MOST_REACH = 1 << 16 };

typedef struct ngrams {
    bl_onnx_call *c;
    bl_onnx_value *x; /* [rows, length + padding], int64: each row is padded with a number that occurs in no n-gram */
    const int64_t *pool, *starts, *columns;
    int npool, nstarts, ncolumns;
    int64_t shortest, longest, skips;
} ngrams;

/* Element |i| of each window of |reach| elements: [rows, windows]. */
static bl_onnx_value *window_element(const ngrams *g, int64_t i, int64_t reach)
{
    bl_ir *ir = g->c->import->ir;
    const bl_node *first[1] = {bl_index(ir, i)}, *end[1] = {bl_sub(ir, g->x->type->dim[1], bl_index(ir, reach - 1 - i))};

    return bl_onnx_make(g->c, "slice($0, start=$1, stop=$2, axis=[1])", ARGS(V(g->x), ZS(1, first), ZS(1, end)));
}

/* Counts in each row the occurrences of the |count| n-grams at |at| in the pool, each of |n| numbers, with |skip| elements
 * between neighbours: [rows, count]. */
static bl_onnx_value *count_ngrams(const ngrams *g, int64_t n, const int64_t *at, int count, int64_t skip)
{
    bl_onnx_call *c = g->c;
    int64_t reach = (n - 1) * (skip + 1) + 1, *column = bl_arena_array(c->import->scratch, (size_t)count, sizeof *column);
    bl_onnx_value *all = NULL;

    if (column == NULL)
        return bl_onnx_fail_as(c, BL_ENOMEM, "out of host memory for n-grams");
    for (int64_t k = 0; k < n; k++) {
        for (int j = 0; j < count; j++)
            column[j] = at[j * n + k];
        bl_onnx_value *same =
            bl_onnx_make(c, "equal(unsqueeze($0, axis=-1), $1)",
                         ARGS(V(window_element(g, k * (skip + 1), reach)), V(bl_onnx_known_ints(c->import, count, column))));
        all = all == NULL ? same : bl_onnx_make(c, "logical_and($0, $1)", ARGS(V(all), V(same)));
    }
    return bl_onnx_make(c, "sum(cast($0, dtype=float32), axis=[1])", ARGS(V(all)));
}

/* The counts of all n-grams in the order of the pool, and a final column of zeros: [rows, ngrams + 1]. */
static bl_onnx_value *count_pool(const ngrams *g)
{
    bl_onnx_call *c = g->c;
    bl_onnx_value **part = bl_arena_array(c->import->scratch, (size_t)g->nstarts + 1, sizeof(bl_onnx_value *));
    int nparts = 0;

    for (int64_t n = 1; part != NULL && n <= g->nstarts; n++) {
        int64_t from = g->starts[n - 1], to = n < g->nstarts ? g->starts[n] : g->npool;
        if (from < 0 || to < from || to > g->npool || (to - from) % n != 0)
            return bl_onnx_fail(c, "ngram_counts does not give whole n-grams of %lld numbers", (long long)n);
        int count = (int)((to - from) / n);
        const bl_node *dim[2] = {g->x->type->dim[0], bl_index(c->import->ir, count)};
        bl_onnx_value *sum = NULL;
        for (int64_t skip = 0; count > 0 && n >= g->shortest && n <= g->longest && skip <= (n > 1 ? g->skips : 0); skip++) {
            bl_onnx_value *more = count_ngrams(g, n, g->pool + from, count, skip);
            sum = sum == NULL ? more : bl_onnx_make(c, "add($0, $1)", ARGS(V(sum), V(more)));
        }
        if (count > 0)
            part[nparts++] = sum != NULL ? sum : bl_onnx_make(c, "zeros(shape=$0)", ARGS(ZS(2, dim)));
    }
    const bl_node *last[2] = {g->x->type->dim[0], bl_index(c->import->ir, 1)};
    if (part != NULL)
        part[nparts++] = bl_onnx_make(c, "zeros(shape=$0)", ARGS(ZS(2, last)));
    return part == NULL || c->import->failed ? NULL : bl_onnx_make(c, "cat($0..., axis=1)", ARGS(VS(nparts, part)));
}

/* The index in the pool of each result column's n-gram. */
static bl_onnx_value *order_columns(const ngrams *g)
{
    int64_t width = 0, *place;

    for (int i = 0; i < g->ncolumns; i++)
        width = g->columns[i] >= width ? g->columns[i] + 1 : width;
    place = width <= BL_ONNX_MAX_KNOWN ? bl_arena_array(g->c->import->scratch, (size_t)width, sizeof *place) : NULL;
    if (place == NULL)
        return bl_onnx_fail_as(g->c, BL_ELIMIT, "more than %d columns", BL_ONNX_MAX_KNOWN);
    for (int64_t i = 0; i < width; i++)
        place[i] = g->ncolumns; /* the final column of zeros */
    for (int i = 0; i < g->ncolumns; i++) {
        if (g->columns[i] < 0 || place[g->columns[i]] != g->ncolumns)
            return bl_onnx_fail(g->c, "ngram_indexes has %lld twice or below 0", (long long)g->columns[i]);
        place[g->columns[i]] = i;
    }
    return bl_onnx_known_ints(g->c->import, (int)width, place);
}

/* The weights of all n-grams, and a final one: [ngrams + 1]. */
static bl_onnx_value *take_weights(const ngrams *g)
{
    const float *given;
    int n = bl_onnx_floats(g->c, "weights", &given);
    bl_onnx_known *all = bl_onnx_new_known(g->c->import, BL_F32, 1, (const int64_t[]){g->ncolumns + 1});

    if (all == NULL || (n >= 0 && n != g->ncolumns))
        return bl_onnx_fail(g->c, "weights has %d numbers, but ngram_indexes has %d", n, g->ncolumns);
    for (int i = 0; i <= g->ncolumns; i++)
        all->real[i] = n >= 0 && i < n ? (double)given[i] : 1;
    return bl_onnx_known_value(g->c->import, all);
}

bl_onnx_value *bl_onnx_write_tf_idf_vectorizer(bl_onnx_call *c)
{
    const char *mode = bl_onnx_text(c, "mode", "TF");
    bl_onnx_value *x = bl_onnx_in(c, 0), *y;
    bool one = bl_onnx_rank(x) == 1;
    ngrams g = {.c = c,
                .shortest = bl_onnx_int(c, "min_gram_length", 1),
                .longest = bl_onnx_int(c, "max_gram_length", 1),
                .skips = bl_onnx_int(c, "max_skip_count", 0)};

    g.npool = bl_onnx_ints(c, "pool_int64s", &g.pool);
    g.nstarts = bl_onnx_ints(c, "ngram_counts", &g.starts);
    g.ncolumns = bl_onnx_ints(c, "ngram_indexes", &g.columns);
    if (g.npool < 0 || g.nstarts < 1 || g.ncolumns < 1 || g.nstarts > BL_ONNX_MAX_KNOWN || g.skips < 0 ||
        g.skips > BL_ONNX_MAX_KNOWN || bl_onnx_rank(x) < 1 || bl_onnx_rank(x) > 2)
        return bl_onnx_fail(c, "needs numbers [length] or [rows, length], pool_int64s, ngram_counts and ngram_indexes");
    /* a row may be shorter than an n-gram: the windows of the longest n-gram then end in the padding */
    int64_t least = 0, reach = (g.longest > 1 ? g.longest - 1 : 0) * (g.skips + 1), pads[4] = {0, 0, 0, reach};
    for (int i = 0; i < g.npool; i++)
        least = g.pool[i] < least ? g.pool[i] : least;
    if (g.longest > MOST_REACH || reach > MOST_REACH || least == INT64_MIN)
        return bl_onnx_fail_as(c, BL_ELIMIT, "n-grams that reach over more than %d elements", MOST_REACH);
    g.x = bl_onnx_make(c, one ? "unsqueeze(cast(a, dtype=int64), axis=0)" : "cast(a, dtype=int64)", NULL);
    g.x = bl_onnx_make(c, "pad($0, padding=$1, value=$2)", ARGS(V(g.x), IS(4, pads), I(least - 1)));
    if (g.x == NULL)
        return NULL;
    y = count_pool(&g);
    if (y != NULL && !bl_is_int(y->type->dim[1], g.ncolumns + 1))
        return bl_onnx_fail(c, "ngram_indexes has %d numbers, and the pool another number of n-grams", g.ncolumns);
    if (strcmp(mode, "IDF") == 0)
        y = bl_onnx_make(c, "where(greater($0, 0), $1, 0)", ARGS(V(y), V(take_weights(&g))));
    else if (strcmp(mode, "TFIDF") == 0)
        y = bl_onnx_make(c, "mul($0, $1)", ARGS(V(y), V(take_weights(&g))));
    else if (strcmp(mode, "TF") != 0)
        return bl_onnx_fail(c, "mode \"%.40s\" is not supported; it must be TF, IDF or TFIDF", bl_onnx_clean(c->import, mode));
    y = bl_onnx_make(c, "take($0, $1, axis=1)", ARGS(V(y), V(order_columns(&g))));
    return one ? bl_onnx_make(c, "squeeze($0, axis=0)", ARGS(V(y))) : y;
}
