/* SPDX-License-Identifier: MIT */
#include "tests/opt/bench.h"

#include "engine/ir/shape.h"
#include "engine/ir/verify.h"
#include "engine/lower/lower.h"
#include "tests/device/run_kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* For a sum over 288 products of up to 1.6: with split float32, a product is off by at most 3 * 2^-18; without one of the two
 * low halves, by 2^-9. */
#define SPLIT_TOLERANCE 3e-4

uint64_t bench_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

bl_device *bench_interp(void)
{
    bl_device *dev = NULL;
    uint32_t count = 0;
    bl_text why = {0};
    bl_err err = {0};
    if (bl_backend_interp.open(1, &dev, &count, &why, &err) != BL_OK || count != 1)
        fail_msg("no interpreter: %s", err.text);
    bl_text_fini(&why);
    return dev;
}

void bench_open(bench *b)
{
    uint64_t seed = 42;
    for (int i = 0; i < b->nest->nparams; i++) {
        const bl_place *place = &b->schedule->places[b->nest->param[i]];
        const bl_node *input = place->kind == BL_PLACE_INPUT ? b->graph->graph->inputs[place->index] : NULL;
        const bl_node *count = input == NULL ? place->count : bl_shape_count(b->graph->graph->ir, input->ndim, input->dim);
        size_t bytes = bl_dtype_bytes(place->dtype);
        double least = input == NULL ? 1 : -1.25; /* a parameter that another nest wrote may be a sum of exps, which is a
                                                   * divisor */
        b->count[i] = bl_extent_eval(count, b->vars);
        b->dtype[i] = place->dtype;
        b->given[i] = calloc((size_t)b->count[i] + 1, bytes);
        for (int64_t k = 0; k < b->count[i]; k++) {
            bl_scalar value = {.u = bench_random(&seed) % 11};
            if (bl_dtype_is_float(place->dtype))
                value.f = (double)value.u / 4 + least + (b->split ? (double)(bench_random(&seed) % 4096) / 65536 : 0);
            bl_scalar_write(place->dtype, bl_scalar_fit(place->dtype, value), (char *)b->given[i] + (size_t)k * bytes);
        }
        if (bl_buffer_alloc(b->dev, (size_t)b->count[i] * bytes, &b->buffers[i], NULL) != BL_OK)
            fail_msg("no buffer");
    }
}

void bench_close(bench *b)
{
    for (int i = 0; i < BENCH_PARAMS; i++) {
        bl_buffer_release(b->buffers[i]);
        free(b->given[i]);
        free(b->wanted[i]);
    }
}

/* Lowers one nest and runs it over |buffers|. */
static bl_status run_sink(bench *b, const bl_node *sink, int nparams, bl_buffer *const *buffers, bl_err *err)
{
    bl_lowered *lowered = NULL;
    uint32_t groups[3] = {1, 1, 1};
    int32_t scalars[BENCH_VARS] = {0};

    BL_TRY(bl_ir_verify(b->graph->graph->ir, 1, &sink, BL_STAGE_KERNEL, "moves", 2, err));
    BL_TRY(bl_lower(b->graph->graph->ir, sink, "nest", (uint32_t)nparams, 2, &lowered, err));
    for (int i = 0; i < lowered->nvars; i++)
        scalars[i] = (int32_t)b->vars[lowered->vars[i]];
    for (int i = 0; i < 3; i++)
        groups[i] = (uint32_t)bl_extent_eval(lowered->grid[i], b->vars);
    return test_run_kernel(b->dev, lowered->linear, groups, buffers, scalars, err);
}

/* Runs the helpers before the nest or, with |behind|, those after it. */
static bl_status run_helpers(bench *b, const bl_tune *tune, bool behind, bl_buffer *const *buffers, bl_err *err)
{
    bl_status st = BL_OK;

    for (int i = 0; st == BL_OK && i < tune->npacked; i++) {
        const bl_packed *p = &tune->packed[i];
        bl_buffer *own[BENCH_PARAMS] = {buffers[p->param]};
        bl_tune plain;
        if (p->behind != behind)
            continue;
        for (int k = 0; k < p->nfrom; k++)
            own[1 + k] = buffers[p->from[k]];
        bl_tune_init(&plain, b->graph->graph->ir, p->sink, p->nfrom + 1);
        st = run_sink(b, plain.sink, p->nfrom + 1, own, err);
    }
    return st;
}

bl_status bench_run(bench *b, const bl_tune *tune, bl_err *err)
{
    bl_buffer *buffers[BENCH_PARAMS] = {0}, *panels[BL_MAX_HELPERS] = {0};
    bl_status st = BL_OK;

    for (int i = 0; i < b->nest->nparams; i++) {
        buffers[i] = b->buffers[i];
        st = st != BL_OK ? st
                         : bl_buffer_write(buffers[i], 0, b->given[i], (size_t)b->count[i] * bl_dtype_bytes(b->dtype[i]), err);
    }
    for (int i = 0; st == BL_OK && i < tune->npacked; i++) {
        const bl_packed *p = &tune->packed[i];
        st = bl_buffer_alloc(b->dev, (size_t)bl_extent_eval(p->count, b->vars) * bl_dtype_bytes(p->dtype), &panels[i], err);
        buffers[p->param] = panels[i];
    }
    if (st == BL_OK)
        st = run_helpers(b, tune, false, buffers, err);
    if (st == BL_OK)
        st = run_sink(b, tune->sink, tune->nparams, buffers, err);
    if (st == BL_OK)
        st = run_helpers(b, tune, true, buffers, err);
    for (int i = 0; i < BL_MAX_HELPERS; i++)
        bl_buffer_release(panels[i]);
    return st;
}

static double number(bl_dtype dtype, const void *data, int64_t i)
{
    return bl_scalar_cast(BL_F64, dtype, bl_scalar_read(dtype, (const char *)data + (size_t)i * bl_dtype_bytes(dtype))).f;
}

/* Fails the test if all numbers are NaN, since any result of moves would then be accepted. */
static void require_numbers(const bench *b, int param, const void *data)
{
    for (int64_t k = 0; k < b->count[param]; k++) {
        if (isnan(number(b->dtype[param], data, k)))
            fail_msg("%s %s: parameter %d element %lld is NaN without moves", b->name, b->nest->name, param, (long long)k);
    }
}

void bench_compare(bench *b, const char *moves)
{
    for (int i = 0; i < b->nest->nparams; i++) {
        size_t bytes = (size_t)b->count[i] * bl_dtype_bytes(b->dtype[i]);
        double tolerance = !bl_dtype_is_float(b->dtype[i]) ? 0 : b->dtype[i] == BL_F16 ? 4e-3 : b->split ? SPLIT_TOLERANCE : 1e-5;
        void *got = NULL;
        if ((b->nest->writes >> i & 1) == 0)
            continue;
        got = calloc(1, bytes + 1);
        if (bl_buffer_read(b->buffers[i], 0, got, bytes, NULL) != BL_OK)
            fail_msg("cannot read");
        if (b->wanted[i] == NULL) {
            require_numbers(b, i, got);
            b->wanted[i] = got;
            continue;
        }
        for (int64_t k = 0; k < b->count[i]; k++) {
            double x = number(b->dtype[i], got, k), want = number(b->dtype[i], b->wanted[i], k);
            if (!(fabs(x - want) <= tolerance * (1 + fabs(want))) && !(isnan(x) && isnan(want)) && x != want)
                fail_msg("%s %s with \"%s\": parameter %d element %lld is %.9g, not %.9g", b->name, b->nest->name, moves, i,
                         (long long)k, x, want);
        }
        free(got);
    }
}

void bench_row(bench *b, const char *moves, const char *refused)
{
    bl_move list[BL_MAX_MOVES];
    bl_err err = {0};
    int n = 0;

    b->nest = &b->schedule->nests[b->schedule->nnests - 1];
    assert_true(bl_moves_parse(moves, list, &n));
    bench_open(b);
    for (int with = 0; with <= 1; with++) {
        bl_tune tune;
        bl_tune_init(&tune, b->graph->graph->ir, b->nest->sink, b->nest->nparams);
        for (int i = 0; with == 1 && i < n; i++) {
            const bl_node *before = tune.sink;
            bool wanted = refused == NULL || i < n - 1;
            if (bl_tune_apply(&tune, list[i]) != wanted)
                fail_msg("%s on %s: move %d of \"%s\" is %s", b->name, b->dev->info.id, i, moves, wanted ? "refused" : refused);
            if (!wanted)
                assert_ptr_equal(tune.sink, before);
        }
        if (bench_run(b, &tune, &err) != BL_OK)
            fail_msg("%s on %s with \"%s\": %s", b->name, b->dev->info.id, with == 1 ? moves : "", err.text);
        bench_compare(b, with == 1 ? moves : "");
    }
    bench_close(b);
}
