/* SPDX-License-Identifier: MIT */
/* Which convolutions use Winograd transforms, and with which tiles; and agreement of the transforms with their gradients'
 * CORRELATE. */
#include "engine/front/winograd.h"
#include "engine/ir/winograd_transforms.h"
#include "tests/interp/graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = BL_WINOGRAD_NEVER, S = BL_WINOGRAD_SURE, A = BL_WINOGRAD_ALWAYS };

static const struct {
    const char *name;
    bl_dtype dtype;
    int64_t batch, ins, height, width, outs;
    int kernel, stride, dilation, groups, before, after, lanes, use, tile;
} rows[] = {
    {"wide, large tiles", BL_F32, 8, 128, 28, 28, 128, 3, 1, 1, 1, 1, 1, 16, S, 4},
    {"64 channels, large picture", BL_F32, 8, 64, 56, 56, 64, 3, 1, 1, 1, 1, 1, 16, S, 4},
    {"small picture, many channels", BL_F32, 64, 512, 4, 4, 512, 3, 1, 1, 1, 1, 1, 16, S, 4},
    {"6 by 6 from 8 by 8: small tiles", BL_F32, 64, 256, 8, 8, 256, 3, 1, 1, 1, 0, 0, 16, S, 2},
    {"few channels", BL_F32, 32, 16, 32, 32, 16, 3, 1, 1, 1, 1, 1, 16, S, 0},
    {"of a picture's three", BL_F32, 8, 3, 64, 64, 64, 3, 1, 1, 1, 1, 1, 16, S, 0},
    {"small pictures", BL_F32, 64, 32, 10, 10, 64, 3, 1, 1, 1, 0, 0, 16, S, 4},
    {"close, by large tiles, which lose a digit", BL_F32, 64, 32, 10, 10, 32, 3, 1, 1, 1, 0, 0, 16, S, 0},
    {"close, by small tiles", BL_F32, 64, 64, 8, 8, 64, 3, 1, 1, 1, 0, 0, 16, S, 2},
    {"lanes a page apart", BL_F32, 16, 64, 32, 32, 64, 3, 1, 1, 1, 1, 1, 16, S, 0},
    {"lanes no page apart", BL_F32, 16, 64, 30, 34, 64, 3, 1, 1, 1, 1, 1, 16, S, 4},
    {"one picture: the weight costs more than it saves", BL_F32, 1, 256, 14, 14, 256, 3, 1, 1, 1, 1, 1, 16, S, 0},
    {"the same, asked for", BL_F32, 1, 256, 14, 14, 256, 3, 1, 1, 1, 1, 1, 16, A, 2},
    {"narrow vectors: products cost more", BL_F32, 64, 32, 10, 10, 64, 3, 1, 1, 1, 0, 0, 4, S, 4},
    {"no lanes that we know of", BL_F32, 8, 128, 28, 28, 128, 3, 1, 1, 1, 1, 1, 0, S, 0},
    {"the same, asked for", BL_F32, 8, 128, 28, 28, 128, 3, 1, 1, 1, 1, 1, 0, A, 4},
    {"forbidden", BL_F32, 8, 128, 28, 28, 128, 3, 1, 1, 1, 1, 1, 16, N, 0},
    {"float16", BL_F16, 8, 128, 28, 28, 128, 3, 1, 1, 1, 1, 1, 16, A, 0},
    {"float64", BL_F64, 8, 128, 28, 28, 128, 3, 1, 1, 1, 1, 1, 16, A, 0},
    {"5 by 5", BL_F32, 8, 128, 28, 28, 128, 5, 1, 1, 1, 1, 1, 16, A, 0},
    {"stride 2", BL_F32, 8, 128, 28, 28, 128, 3, 2, 1, 1, 1, 1, 16, A, 0},
    {"dilation 2", BL_F32, 8, 128, 28, 28, 128, 3, 1, 2, 1, 1, 1, 16, A, 0},
    {"groups", BL_F32, 8, 128, 28, 28, 128, 3, 1, 1, 2, 1, 1, 16, A, 0},
    {"cropped", BL_F32, 8, 128, 28, 28, 128, 3, 1, 1, 1, -1, 0, 16, A, 0},
    {"more zeros than a window", BL_F32, 8, 128, 28, 28, 128, 3, 1, 1, 1, 3, 0, 16, A, 0},
    {"no picture", BL_F32, 0, 128, 28, 28, 128, 3, 1, 1, 1, 1, 1, 16, A, 0},
    {"one window", BL_F32, 1, 1, 3, 3, 1, 3, 1, 1, 1, 0, 0, 16, A, 2},
};

static const bl_node *input(bl_ir *ir, int slot, bl_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const bl_node *dim[4] = {bl_index(ir, a), bl_index(ir, b), bl_index(ir, c), bl_index(ir, d)};
    return bl_input(ir, slot, dtype, 4, dim);
}

static void test_choice(void **state)
{
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_ir *ir = bl_ir_create(0);
        const bl_front_options options = {.lanes = rows[i].lanes};
        const bl_node *x = input(ir, 0, rows[i].dtype, rows[i].batch, rows[i].ins, rows[i].height, rows[i].width);
        const bl_node *w = input(ir, 1, rows[i].dtype, rows[i].outs, rows[i].ins, rows[i].kernel, rows[i].kernel);
        bl_frame f = {.n = 2};
        for (int k = 0; k < 2; k++) {
            f.size[k] = rows[i].kernel;
            f.stride[k] = rows[i].stride;
            f.dilation[k] = rows[i].dilation;
            f.before[k] = rows[i].before;
            f.after[k] = rows[i].after;
        }
        int tile = bl_winograd_tile(&options, x, w, &f, rows[i].groups, (bl_winograd_use)rows[i].use);
        if (tile != rows[i].tile) {
            print_error("%s: tiles of %d, the table says %d\n", rows[i].name, tile, rows[i].tile);
            wrong++;
        }
        bl_ir_destroy(ir);
    }
    assert_int_equal(wrong, 0);
}

/* 36 positions, 8 x 7 x 7 tiles, 128 channels of 4 bytes: 7,225,344 bytes. */
static void test_memory(void **state)
{
    static const struct {
        uint64_t most;
        int tile;
    } limits[] = {{0, 4}, {7225344, 4}, {7225343, 0}, {1, 0}};
    const bl_frame f = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        bl_ir *ir = bl_ir_create(0);
        const bl_front_options options = {.lanes = 16, .max_buffer = limits[i].most};
        const bl_node *x = input(ir, 0, BL_F32, 8, 128, 28, 28), *w = input(ir, 1, BL_F32, 64, 128, 3, 3);
        assert_int_equal(bl_winograd_tile(&options, x, w, &f, 1, BL_WINOGRAD_ALWAYS), limits[i].tile);
        bl_ir_destroy(ir);
    }
}

/* In float64 both methods agree to about 1e-13. */
static void test_against_definition(void **state)
{
    static const struct {
        bl_correlation how;
        int64_t batch, ins, height, width, outs;
    } cases[] = {
        {{2, {0, 0}, {0, 0}}, 1, 1, 3, 3, 1},  {{4, {0, 0}, {0, 0}}, 1, 2, 3, 3, 3}, {{2, {1, 1}, {1, 1}}, 2, 3, 5, 7, 2},
        {{4, {1, 1}, {1, 1}}, 2, 3, 9, 11, 2}, {{4, {2, 0}, {1, 2}}, 1, 5, 8, 6, 4}, {{2, {0, 2}, {2, 1}}, 3, 2, 4, 6, 5},
        {{4, {0, 0}, {0, 0}}, 1, 17, 6, 6, 9}, {{4, {2, 2}, {2, 2}}, 1, 1, 1, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bl_ir *ir = bl_ir_create(0);
        const bl_node *x = input(ir, 0, BL_F64, cases[i].batch, cases[i].ins, cases[i].height, cases[i].width);
        const bl_node *w = input(ir, 1, BL_F64, cases[i].outs, cases[i].ins, 3, 3);
        const bl_node *y = bl_winograd(ir, x, w, cases[i].how);
        assert_int_equal(y->op, BL_OP_ALIAS);
        const bl_node *g = bl_alu1(ir, BL_OP_SIN, y->src[1]), *turned = bl_winograd_turned(ir, w);
        bl_correlation back = bl_correlation_turned(cases[i].how);
        const bl_node *dw = bl_winograd_weight(ir, x, g, cases[i].how), *dx = bl_winograd(ir, g, turned, back);
        const bl_node *roots[] = {y->src[0], y->src[1], dx->src[0], dx->src[1], dw->src[0], dw->src[1]};
        int64_t sizes[2] = {cases[i].batch * cases[i].ins * cases[i].height * cases[i].width, cases[i].outs * cases[i].ins * 9};
        double *data[2];
        void *out[6] = {NULL};
        bl_err err = {0};
        for (int k = 0; k < 2; k++) {
            data[k] = calloc((size_t)sizes[k], sizeof *data[k]);
            assert_non_null(data[k]);
            for (int64_t j = 0; j < sizes[k]; j++)
                data[k][j] = sin((double)(j * (k + 3)) + 0.7);
        }
        if (bl_interp_graph(ir, 6, roots, (const void *const[]){data[0], data[1]}, NULL, out, &err) != BL_OK)
            fail_msg("case %zu: %s", i, err.text);
        for (int k = 0; k < 6; k += 2) {
            int64_t count = 1;
            for (int d = 0; d < 4; d++)
                count *= roots[k]->dim[d]->lo;
            for (int64_t j = 0; j < count; j++) {
                double a = ((double *)out[k])[j], b = ((double *)out[k + 1])[j];
                if (!(fabs(a - b) <= 1e-11 * (1 + fabs(b))))
                    fail_msg("case %zu, root %d, element %lld: %.15g, by definition %.15g", i, k, (long long)j, a, b);
            }
        }
        for (int k = 0; k < 6; k++)
            free(out[k]);
        free(data[0]);
        free(data[1]);
        bl_ir_destroy(ir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_against_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
