/* SPDX-License-Identifier: MIT */
/* The moves: refusals, and equal results.  Random lists of legal moves are applied to the nests of small graphs; each list runs
 * on the interpreter, which detects accesses out of bounds, and is compared with the nest without moves. */
#include "engine/ir/stage.h"
#include "tests/opt/bench.h"
#include "tests/opt/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 60, MOST_MOVES = 5, MOST_COPIES = 128 };

/* clang-format off */
static const struct {
    const char *name, *document;
} graphs[] = {
    {"chain", "{'inputs': {'x': {'dtype': 'float32', 'shape': [9, 35]}}, 'nodes': [{'id': 'a', 'op': 'mul', 'in': ['x', 2]}, {'id': 'y', 'op': 'sin', 'in': ['a']}], 'outputs': ['y']}"},
    {"transpose", "{'inputs': {'x': {'dtype': 'float32', 'shape': [17, 12]}, 'b': {'dtype': 'float32', 'shape': [17]}}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['x']}, {'id': 'y', 'op': 'add', 'in': ['t', 'b']}], 'outputs': ['y']}"},
    {"pad", "{'inputs': {'x': {'dtype': 'float32', 'shape': [7, 11]}}, 'nodes': [{'id': 'f', 'op': 'flip', 'in': ['x']}, {'id': 'y', 'op': 'pad', 'in': ['f'], 'attrs': {'padding': [[1, 2], [3, 2]]}}], 'outputs': ['y']}"},
    {"cat", "{'inputs': {'x': {'dtype': 'int32', 'shape': [5, 6]}, 'y': {'dtype': 'int32', 'shape': [7, 6]}}, 'nodes': [{'id': 'z', 'op': 'cat', 'in': ['x', 'y']}], 'outputs': ['z']}"},
    {"gather", "{'inputs': {'x': {'dtype': 'float32', 'shape': [10, 12]}, 'i': {'dtype': 'int64', 'shape': [10, 16]}}, 'nodes': [{'id': 'y', 'op': 'gather', 'in': ['x', 'i'], 'attrs': {'axis': 1}}], 'outputs': ['y']}"},
    {"sum", "{'inputs': {'x': {'dtype': 'float32', 'shape': [6, 40]}}, 'nodes': [{'id': 'y', 'op': 'sum', 'in': ['x'], 'attrs': {'axis': 1}}], 'outputs': ['y']}"},
    {"max_all", "{'inputs': {'x': {'dtype': 'float32', 'shape': [12, 18]}}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['x']}, {'id': 'y', 'op': 'max', 'in': ['t']}], 'outputs': ['y']}"},
    {"columns", "{'inputs': {'x': {'dtype': 'float32', 'shape': [33, 10]}}, 'nodes': [{'id': 'y', 'op': 'mean', 'in': ['x'], 'attrs': {'axis': 0}}], 'outputs': ['y']}"},
    {"argmax", "{'inputs': {'x': {'dtype': 'float32', 'shape': [5, 24]}}, 'nodes': [{'id': 'y', 'op': 'argmax', 'in': ['x'], 'attrs': {'axis': 1}}], 'outputs': ['y']}"},
    {"softmax", "{'inputs': {'x': {'dtype': 'float32', 'shape': [6, 24]}}, 'nodes': [{'id': 'y', 'op': 'softmax', 'in': ['x']}], 'outputs': ['y']}"},
    {"layer_norm", "{'inputs': {'x': {'dtype': 'float32', 'shape': [5, 18]}, 'w': {'dtype': 'float32', 'shape': [18]}, 'b': {'dtype': 'float32', 'shape': [18]}}, 'nodes': [{'id': 'y', 'op': 'layer_norm', 'in': ['x', 'w', 'b']}], 'outputs': ['y']}"},
    {"matmul", "{'inputs': {'x': {'dtype': 'float32', 'shape': [13, 20]}, 'y': {'dtype': 'float32', 'shape': [20, 18]}, 'b': {'dtype': 'float32', 'shape': [18]}}, 'nodes': [{'id': 'm', 'op': 'matmul', 'in': ['x', 'y']}, {'id': 's', 'op': 'add', 'in': ['m', 'b']}, {'id': 'z', 'op': 'relu', 'in': ['s']}], 'outputs': ['z']}"},
    {"conv", "{'inputs': {'x': {'dtype': 'float32', 'shape': [2, 3, 7, 8]}, 'w': {'dtype': 'float32', 'shape': [4, 3, 3, 3]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}"},
    {"conv_grad", "{'inputs': {'x': {'dtype': 'float32', 'shape': [2, 3, 7, 8]}, 'w': {'dtype': 'float32', 'shape': [4, 3, 3, 3]}, 'g': {'dtype': 'float32', 'shape': [2, 4, 5, 6]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, {'id': 'dx', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['dx']}"},
    {"two_outputs", "{'inputs': {'x': {'dtype': 'float32', 'shape': [8, 24]}}, 'nodes': [{'id': 'm', 'op': 'mean', 'in': ['x'], 'attrs': {'axis': 1}}, {'id': 'v', 'op': 'var', 'in': ['x'], 'attrs': {'axis': 1}}], 'outputs': ['m', 'v']}"},
    {"float16", "{'inputs': {'x': {'dtype': 'float16', 'shape': [6, 20]}}, 'nodes': [{'id': 's', 'op': 'sum', 'in': ['x'], 'attrs': {'axis': 1}}, {'id': 'y', 'op': 'sub', 'in': ['x', 1]}], 'outputs': ['s', 'y']}"},
    {"bool", "{'inputs': {'x': {'dtype': 'float32', 'shape': [6, 20]}}, 'nodes': [{'id': 'c', 'op': 'greater', 'in': ['x', 0.5]}, {'id': 'a', 'op': 'any', 'in': ['c'], 'attrs': {'axis': 0}}, {'id': 'n', 'op': 'logical_not', 'in': ['c']}], 'outputs': ['a', 'n']}"},
    {"named", "{'dims': {'n': [1, 9]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n', 20]}, 'y': {'dtype': 'float32', 'shape': [20, 16]}}, 'nodes': [{'id': 'z', 'op': 'matmul', 'in': ['x', 'y']}], 'outputs': ['z']}"},
    {"attention", "{'inputs': {'q': {'dtype': 'float32', 'shape': [2, 33, 8]}, 'k': {'dtype': 'float32', 'shape': [2, 64, 8]}, 'v': {'dtype': 'float32', 'shape': [2, 64, 18]}}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v']}], 'outputs': ['y']}"},
    {"attention_causal", "{'inputs': {'q': {'dtype': 'float32', 'shape': [2, 37, 9]}, 'k': {'dtype': 'float32', 'shape': [2, 37, 9]}, 'v': {'dtype': 'float32', 'shape': [2, 37, 16]}}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v'], 'attrs': {'causal': true}}], 'outputs': ['y']}"},
    {"attention_gradient", "{'inputs': {'q': {'dtype': 'float32', 'shape': [2, 48, 8]}, 'k': {'dtype': 'float32', 'shape': [2, 48, 8]}, 'v': {'dtype': 'float32', 'shape': [2, 48, 8]}, 'w': {'dtype': 'float32', 'shape': [2, 48, 8]}}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v']}, {'id': 'z', 'op': 'mul', 'in': ['y', 'w']}, {'id': 's', 'op': 'sum', 'in': ['z']}, {'id': ['dq', 'dk', 'dv'], 'op': 'grad', 'in': ['s', 'q', 'k', 'v']}], 'outputs': ['y', 'dq', 'dk', 'dv']}"},
    {"product16", "{'inputs': {'x': {'dtype': 'float16', 'shape': [37, 32]}, 'y': {'dtype': 'float16', 'shape': [32, 24]}, 'b': {'dtype': 'float16', 'shape': [24]}}, 'nodes': [{'id': 'm', 'op': 'matmul', 'in': ['x', 'y']}, {'id': 's', 'op': 'add', 'in': ['m', 'b']}, {'id': 'z', 'op': 'relu', 'in': ['s']}], 'outputs': ['z', 'm']}"},
    {"transposed16", "{'inputs': {'x': {'dtype': 'float16', 'shape': [3, 64, 16]}, 'y': {'dtype': 'float16', 'shape': [3, 32, 64]}}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['x']}, {'id': 'u', 'op': 'transpose', 'in': ['y']}, {'id': 'z', 'op': 'matmul', 'in': ['t', 'u']}], 'outputs': ['z']}"},
    {"product_b16", "{'inputs': {'x': {'dtype': 'bfloat16', 'shape': [32, 64]}, 'y': {'dtype': 'bfloat16', 'shape': [64, 48]}}, 'nodes': [{'id': 'z', 'op': 'matmul', 'in': ['x', 'y']}], 'outputs': ['z']}"},
    {"odd_b16", "{'inputs': {'x': {'dtype': 'bfloat16', 'shape': [19, 64]}, 'y': {'dtype': 'bfloat16', 'shape': [64, 35]}}, 'nodes': [{'id': 'z', 'op': 'matmul', 'in': ['x', 'y']}], 'outputs': ['z']}"},
    {"conv16", "{'inputs': {'x': {'dtype': 'float16', 'shape': [2, 8, 6, 8]}, 'w': {'dtype': 'float16', 'shape': [16, 8, 3, 3]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}"},
    {"bytes", "{'inputs': {'x': {'dtype': 'int8', 'shape': [16, 64]}, 'y': {'dtype': 'int8', 'shape': [64, 32]}}, 'nodes': [{'id': 'xi', 'op': 'cast', 'in': ['x'], 'attrs': {'dtype': 'int32'}}, {'id': 'yi', 'op': 'cast', 'in': ['y'], 'attrs': {'dtype': 'int32'}}, {'id': 'z', 'op': 'matmul', 'in': ['xi', 'yi']}], 'outputs': ['z']}"},
    {"named16", "{'dims': {'n': [1, 9]}, 'inputs': {'x': {'dtype': 'float16', 'shape': ['n', 16, 32]}, 'y': {'dtype': 'float16', 'shape': [32, 16]}}, 'nodes': [{'id': 'z', 'op': 'matmul', 'in': ['x', 'y']}], 'outputs': ['z']}"},
    {"split", "{'inputs': {'x': {'dtype': 'float32', 'shape': [37, 64]}, 'y': {'dtype': 'float32', 'shape': [64, 24]}, 'b': {'dtype': 'float32', 'shape': [24]}}, 'nodes': [{'id': 'm', 'op': 'matmul', 'in': ['x', 'y']}, {'id': 's', 'op': 'add', 'in': ['m', 'b']}, {'id': 'z', 'op': 'relu', 'in': ['s']}], 'outputs': ['z', 'm']}"},
    {"split_transposed", "{'inputs': {'x': {'dtype': 'float32', 'shape': [3, 64, 16]}, 'y': {'dtype': 'float32', 'shape': [3, 32, 64]}}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['x']}, {'id': 'u', 'op': 'transpose', 'in': ['y']}, {'id': 'z', 'op': 'matmul', 'in': ['t', 'u']}], 'outputs': ['z']}"},
    {"split_conv", "{'inputs': {'x': {'dtype': 'float32', 'shape': [2, 32, 6, 8]}, 'w': {'dtype': 'float32', 'shape': [16, 32, 3, 3]}}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}"},
    {"sent", "{'inputs': {'x': {'dtype': 'float32', 'shape': [17, 6]}, 's': {'dtype': 'float32', 'shape': [40, 6]}, 'i': {'dtype': 'int64', 'shape': [40]}}, 'nodes': [{'id': 'y', 'op': 'index_put', 'in': ['x', 's', 'i'], 'attrs': {'accumulate': true}}], 'outputs': ['y']}"},
    {"sent_each", "{'dims': {'n': [1, 9]}, 'inputs': {'x': {'dtype': 'int32', 'shape': [17, 'n']}, 's': {'dtype': 'int32', 'shape': [40, 'n']}, 'i': {'dtype': 'int32', 'shape': [40, 'n']}}, 'nodes': [{'id': 'y', 'op': 'scatter_reduce', 'in': ['x', 'i', 's'], 'attrs': {'reduce': 'mean'}}], 'outputs': ['y']}"},
    {"scores", "{'inputs': {'q': {'dtype': 'float32', 'shape': [2, 33, 8]}, 'k': {'dtype': 'float32', 'shape': [2, 64, 8]}, 'v': {'dtype': 'float32', 'shape': [2, 64, 18]}}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v']}], 'outputs': ['y']}"},
    {"scores_causal", "{'inputs': {'q': {'dtype': 'float32', 'shape': [2, 37, 9]}, 'k': {'dtype': 'float32', 'shape': [2, 37, 9]}, 'v': {'dtype': 'float32', 'shape': [2, 37, 16]}}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v'], 'attrs': {'causal': true}}], 'outputs': ['y']}"},
    {"products", "{'inputs': {'x': {'dtype': 'float32', 'shape': [8, 7, 2]}, 'a': {'dtype': 'float32', 'shape': [2, 40]}, 'b': {'dtype': 'float32', 'shape': [40, 24]}, 'c': {'dtype': 'float32', 'shape': [24, 9]}}, 'nodes': [{'id': 'm', 'op': 'matmul', 'in': ['x', 'a']}, {'id': 'n', 'op': 'matmul', 'in': ['m', 'b']}, {'id': 'z', 'op': 'matmul', 'in': ['n', 'c']}], 'outputs': ['z']}"},
    {"scores_gradient", "{'inputs': {'q': {'dtype': 'float32', 'shape': [2, 48, 8]}, 'k': {'dtype': 'float32', 'shape': [2, 48, 8]}, 'v': {'dtype': 'float32', 'shape': [2, 48, 8]}, 'w': {'dtype': 'float32', 'shape': [2, 48, 8]}}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v']}, {'id': 'z', 'op': 'mul', 'in': ['y', 'w']}, {'id': 's', 'op': 'sum', 'in': ['z']}, {'id': ['dq', 'dk', 'dv'], 'op': 'grad', 'in': ['s', 'q', 'k', 'v']}], 'outputs': ['y', 'dq', 'dk', 'dv']}"},
    {"softmax of columns", "{'inputs': {'x': {'dtype': 'float32', 'shape': [24, 6]}}, 'nodes': [{'id': 'y', 'op': 'softmax', 'in': ['x'], 'attrs': {'axis': 0}}], 'outputs': ['y']}"},
    {"windows two apart", "{'inputs': {'x': {'dtype': 'float32', 'shape': [3, 9, 32]}, 'w': {'dtype': 'float32', 'shape': [3, 1, 3, 3]}}, 'nodes': [{'id': 'u', 'op': 'unsqueeze', 'in': ['x'], 'attrs': {'axis': 0}}, {'id': 'y', 'op': 'conv2d', 'in': ['u', 'w'], 'attrs': {'padding': 1, 'stride': 2, 'groups': 3}}], 'outputs': ['y']}"},
};
/* clang-format on */
enum { NGRAPHS = sizeof graphs / sizeof graphs[0] };

/* A move on an axis, operand or store of this number. */
typedef struct numbered {
    bl_move_kind kind;
    int at;
    int64_t size;
} numbered;

static bool apply(bl_tune *tune, numbered move)
{
    return bl_tune_apply_at(tune, move.kind, move.at, move.size);
}

static int64_t copies(const bl_tune *tune)
{
    int64_t n = 1;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub == BL_AXIS_TILE || range->sub == BL_AXIS_VECTOR)
            n *= bl_extent_of(range);
    }
    return n;
}

/* Work-items of a group, with a limit for the device, since the moves do not check it. */
static int64_t items(const bl_tune *tune)
{
    int64_t n = 1;
    for (int i = 0; i < tune->naxes; i++) {
        const bl_node *range = tune->axis[i].range;
        if (range->sub == BL_AXIS_LOCAL || (range->sub == BL_AXIS_GROUP && !tune->axis[i].output))
            n *= bl_extent_of(range);
    }
    return n;
}

/* An upper bound of the local memory for tiles of matrix units. */
static int64_t tile_bytes(const bl_tune *tune)
{
    for (int i = 0; i < tune->nmoves; i++) {
        bl_matrix unit = bl_matrix_unpack(tune->moves[i].size);
        if (tune->moves[i].kind == BL_UNIT_MATRIX)
            return copies(tune) * items(tune) / unit.scope * unit.m * unit.n * 4;
    }
    return 0;
}

static int used_units[NUNITS];

/* Occasionally applies the move to matrix units first, since later moves are restricted by it. */
static void random_unit(bl_tune *tune, const bl_device_info *info, int used[BL_MOVE_KINDS])
{
    static uint64_t seed = 5; /* separate, so that other graphs keep their random moves */

    int parts = tune->nmoves;

    for (int tries = (int)(bench_random(&seed) % 6); tries > 0 && tune->nmoves == parts; tries--) {
        int unit = (int)(bench_random(&seed) % NUNITS), axis = (int)(bench_random(&seed) % 4);
        const bl_node *before = tune->sink;
        if (units[unit].scope > info->max_local)
            continue;
        if (bl_tune_apply_at(tune, BL_UNIT_MATRIX, axis, bl_matrix_pack(units[unit]))) {
            used[BL_UNIT_MATRIX]++;
            used_units[unit]++;
        } else {
            assert_ptr_equal(before, tune->sink);
        }
    }
}

/* Occasionally applies split-K first, if the nest allows it. */
static void random_parts(bl_tune *tune, int used[BL_MOVE_KINDS])
{
    static uint64_t seed = 11; /* separate, as in random_unit */

    for (int tries = (int)(bench_random(&seed) % 8); tries > 0 && tune->nmoves == 0; tries--) {
        const bl_node *before = tune->sink;
        if (bl_tune_apply_at(tune, BL_PARTIAL_GLOBAL, (int)(bench_random(&seed) % 5), 2 + (int64_t)(bench_random(&seed) % 3)))
            used[BL_PARTIAL_GLOBAL]++;
        else
            assert_ptr_equal(before, tune->sink);
    }
}

/* Occasionally applies the first moves of an online reduction in blocks, which random moves would not reach. */
static void random_blocks(bl_tune *tune, int used[BL_MOVE_KINDS])
{
    static uint64_t seed = 7; /* separate, as in random_unit */

    if (tune->nmoves > 0 || bench_random(&seed) % 3 != 0)
        return;
    for (int i = (int)(bench_random(&seed) % 2); i >= 0; i--)
        (void)bl_tune_apply_at(tune, BL_SPLIT_LOOP, 2 * i, 2 + (int64_t)(bench_random(&seed) % 7));
    for (int axis = 0; tune->nmoves > 0 && axis < tune->naxes; axis++) {
        const bl_node *before = tune->sink;
        if (bl_tune_apply_at(tune, BL_PARTIAL_LOCAL, axis, 2 + (int64_t)(bench_random(&seed) % 8))) {
            used[BL_PARTIAL_LOCAL]++;
            return;
        }
        assert_ptr_equal(before, tune->sink);
    }
}

/* Occasionally applies scatter inversion first, with the columns inside a group or outside. */
static void random_sent(bl_tune *tune, int used[BL_MOVE_KINDS])
{
    static uint64_t seed = 13; /* separate, as in random_unit */

    if (tune->nmoves > 0 || !bl_tune_has_sent(tune) || bench_random(&seed) % 3 == 0)
        return;
    if (bench_random(&seed) % 2 == 0)
        (void)bl_tune_apply_at(tune, BL_SPLIT_LOOP, 1, 2 + (int64_t)(bench_random(&seed) % 5));
    for (int axis = 0; axis < tune->naxes; axis++) {
        const bl_node *before = tune->sink;
        if (bl_tune_apply_at(tune, BL_PARTIAL_SCATTER, axis, 2 + (int64_t)(bench_random(&seed) % 16))) {
            used[BL_PARTIAL_SCATTER]++;
            return;
        }
        assert_ptr_equal(before, tune->sink);
    }
}

/* Occasionally leaves out the products with padding, and copies the operand with the border of some axes only. */
static void random_edges(bl_tune *tune, int used[BL_MOVE_KINDS])
{
    static uint64_t seed = 17; /* separate, as in random_unit */
    int operand = (int)(bench_random(&seed) % 4);

    if (bench_random(&seed) % 2 == 0)
        return;
    used[BL_HINT_TRIM] += bl_tune_apply_at(tune, BL_HINT_TRIM, operand, 0);
    if (bench_random(&seed) % 2 == 0)
        used[BL_STAGE_HALO] += bl_tune_apply_at(tune, BL_STAGE_HALO, operand, ~(int64_t)(bench_random(&seed) % 64));
}

/* Occasionally applies shared-memory copies last, for the existing work-items. */
static void random_share(bl_tune *tune, int used[BL_MOVE_KINDS])
{
    static uint64_t seed = 9; /* separate, as in random_unit */

    for (int tries = (int)(bench_random(&seed) % 4); tries > 0; tries--) {
        bl_share how = {.twice = bench_random(&seed) % 2 == 0,
                        .swizzle = bench_random(&seed) % 4 == 0,
                        .loops = (int)(bench_random(&seed) % 3),
                        .pad = (int)(bench_random(&seed) % 2 * (bench_random(&seed) % 6)),
                        .narrow = bench_random(&seed) % 3 == 0};
        const bl_node *before = tune->sink;
        if (bl_tune_apply_at(tune, BL_STAGE_LOCAL, (int)(bench_random(&seed) % 3), bl_share_pack(how)))
            used[BL_STAGE_LOCAL]++;
        else
            assert_ptr_equal(before, tune->sink);
    }
}

/* Occasionally applies shared scores to nests that have scores, after the required work-items. */
static void random_scores(bl_tune *tune, const bl_device_info *info, int used[BL_MOVE_KINDS])
{
    static uint64_t seed = 11; /* separate, as in random_unit */

    for (int tries = (int)(bench_random(&seed) % 6); tries > 0; tries--) {
        numbered move = {BL_SPLIT_GROUP, (int)(bench_random(&seed) % 4), 2 + (int64_t)(bench_random(&seed) % 8)};
        if (items(tune) * move.size <= (int64_t)info->max_local && apply(tune, move))
            used[BL_SPLIT_GROUP]++;
    }
    for (int axis = 0, n = tune->naxes; axis < n && bench_random(&seed) % 8 != 0; axis++) {
        numbered move = {BL_STAGE_VALUES, axis, 1 + (int64_t)(bench_random(&seed) % 5)};
        const bl_node *before = tune->sink;
        if (!apply(tune, move)) {
            assert_ptr_equal(before, tune->sink);
            continue;
        }
        used[BL_STAGE_VALUES]++;
        return;
    }
}

static void random_moves(bl_tune *tune, const bl_device_info *info, bool scores, uint64_t *seed, int used[BL_MOVE_KINDS])
{
    static const int64_t amounts[] = {2, 3, 4, 5, 7, 8, 16};
    static const bl_move_kind kinds[] = {BL_SPLIT_UNROLL, BL_SPLIT_VECTOR,  BL_SPLIT_LOOP, BL_SPLIT_BLOCK,
                                         BL_SPLIT_GROUP,  BL_ORDER_FASTEST, BL_STAGE_HALO, BL_HINT_STREAM,
                                         BL_STAGE_PANELS, BL_STAGE_LOCAL,   BL_HINT_TRIM};
    int n = 1 + (int)(bench_random(seed) % MOST_MOVES);
    int64_t most_items = info->max_local;

    random_parts(tune, used);
    random_unit(tune, info, used);
    random_blocks(tune, used);
    random_sent(tune, used);
    random_edges(tune, used);
    if (scores)
        random_scores(tune, info, used);
    n += tune->nmoves;
    for (int tries = 0; tries < 20 && tune->nmoves < n; tries++) {
        numbered move = {.kind = kinds[bench_random(seed) % (sizeof kinds / sizeof kinds[0])], /* the others come before */
                         .at = (int)(bench_random(seed) % 12) - 1,
                         .size = amounts[bench_random(seed) % (sizeof amounts / sizeof amounts[0])]};
        const bl_node *before = tune->sink;
        if (tile_bytes(tune) * move.size > (int64_t)info->local_bytes)
            continue;
        if ((move.kind == BL_SPLIT_UNROLL || move.kind == BL_SPLIT_VECTOR) && copies(tune) * move.size > MOST_COPIES)
            continue;
        if (move.kind == BL_SPLIT_GROUP && items(tune) * move.size > most_items)
            continue;
        if (!apply(tune, move)) {
            assert_ptr_equal(before, tune->sink);
            continue;
        }
        used[move.kind]++;
    }
    random_share(tune, used);
}

/* Whether the graph is scheduled for a device with work-groups. */
static bool is_for_groups(const char *name)
{
    return strncmp(name, "scores", 6) == 0;
}

static void run_nest(bench *b, uint64_t *seed, int used[BL_MOVE_KINDS])
{
    bl_ir *ir = b->graph->graph->ir;

    bench_open(b);
    for (int round = 0; round <= ROUNDS; round++) {
        bl_tune tune;
        bl_text moves = {0};
        bl_err err = {0};
        bl_status st = BL_OK;
        bl_tune_init(&tune, ir, b->split ? bl_sink_relax(ir, b->nest->sink) : b->nest->sink, b->nest->nparams);
        tune.local_bytes = b->dev->info.local_bytes;
        if (round > 0)
            random_moves(&tune, &b->dev->info, is_for_groups(b->name), seed, used);
        bl_tune_print(&tune, &moves);
        st = bench_run(b, &tune, &err);
        if (st != BL_OK)
            fail_msg("%s %s with \"%s\": %s: %s", b->name, b->nest->name, moves.data == NULL ? "" : moves.data,
                     bl_status_name(st), err.text);
        bench_compare(b, moves.data == NULL ? "" : moves.data);
        bl_text_fini(&moves);
    }
    bench_close(b);
}

static const char *graph_of(const char *name)
{
    for (int i = 0; i < NGRAPHS; i++) {
        if (strcmp(graphs[i].name, name) == 0)
            return graphs[i].document;
    }
    return NULL;
}

/* Applies tiles of a unit of several work-items, and then shared-memory copies of its operands; counts the legal copies. */
static void draw_copies(bl_tune *tune, const bl_device_info *info, uint64_t *seed, int *copies_made, int *twice)
{
    static const bl_move_kind kinds[] = {BL_SPLIT_UNROLL, BL_SPLIT_GROUP, BL_SPLIT_LOOP};

    for (int tries = 0; tries < 40 && tune->nmoves == 0; tries++) {
        const bl_matrix *unit = &units[bench_random(seed) % NUNITS];
        int axis = (int)(bench_random(seed) % 4);
        if (unit->scope > 1 && unit->scope <= info->max_local)
            (void)bl_tune_apply_at(tune, BL_UNIT_MATRIX, axis, bl_matrix_pack(*unit));
    }
    for (int tries = (int)(bench_random(seed) % 12); tries > 0; tries--) {
        numbered move = {kinds[bench_random(seed) % 3], (int)(bench_random(seed) % 10), 2 + (int64_t)(bench_random(seed) % 3)};
        if ((move.kind == BL_SPLIT_GROUP && items(tune) * move.size > info->max_local) ||
            (move.kind == BL_SPLIT_UNROLL && copies(tune) * move.size > MOST_COPIES) ||
            tile_bytes(tune) * move.size > (int64_t)info->local_bytes / 2)
            continue;
        (void)apply(tune, move);
    }
    tune->local_bytes = (int64_t)info->local_bytes / 2;
    for (int operand = 0; operand < 3; operand++) {
        bl_share how = {.twice = bench_random(seed) % 2 == 0,
                        .loops = (int)(bench_random(seed) % 3),
                        .pad = 8 * (int)(bench_random(seed) % 3),
                        .narrow = true};
        const bl_node *before = tune->sink;
        if (!bl_tune_apply_at(tune, BL_STAGE_LOCAL, operand, bl_share_pack(how))) {
            assert_ptr_equal(before, tune->sink);
            continue;
        }
        ++*copies_made;
        *twice += how.twice;
        operand--; /* the copied operand is no longer counted, so the next operand has its number */
    }
}

/* The operands of matrix units come from shared-memory copies. */
static void test_unit_copies(void **state)
{
    static const char *const names[] = {"product16", "transposed16", "product_b16",     "odd_b16",
                                        "conv16",    "named16",      "split_transposed"};
    bl_device *dev = bench_interp();
    uint64_t seed = 21;
    int made = 0, twice = 0;

    (void)state;
    for (size_t g = 0; g < sizeof names / sizeof names[0]; g++) {
        test_graph graph;
        test_graph_open(graph_of(names[g]), &graph);
        bl_schedule *schedule = test_graph_schedule(&graph, 2);
        bench b = {.name = names[g],
                   .dev = dev,
                   .graph = &graph,
                   .schedule = schedule,
                   .nest = &schedule->nests[0],
                   .split = strncmp(names[g], "split", 5) == 0,
                   .vars = {7}};
        bench_open(&b);
        for (int round = 0; round <= 40; round++) {
            bl_tune tune;
            bl_text moves = {0};
            bl_err err = {0};
            bl_tune_init(&tune, graph.graph->ir, b.split ? bl_sink_relax(graph.graph->ir, b.nest->sink) : b.nest->sink,
                         b.nest->nparams);
            if (round > 0)
                draw_copies(&tune, &dev->info, &seed, &made, &twice);
            bl_tune_print(&tune, &moves);
            if (bench_run(&b, &tune, &err) != BL_OK)
                fail_msg("%s with \"%s\": %s", b.name, bl_text_get(&moves), err.text);
            bench_compare(&b, bl_text_get(&moves));
            bl_text_fini(&moves);
        }
        bench_close(&b);
        test_graph_close(&graph);
    }
    bl_device_destroy(dev);
    if (made < 100 || twice < 30)
        fail_msg("only %d copies were made, %d of them twice", made, twice);
    print_message("%d copies, %d twice\n", made, twice);
}

static int used_moves[BL_MOVE_KINDS];

static void test_random(void **state)
{
    int which = (int)(intptr_t)*state;
    uint64_t seed = 1000 + (uint64_t)which;
    test_graph graph;
    bl_device *dev = bench_interp();
    bl_schedule *schedule = NULL;

    test_graph_open(graphs[which].document, &graph);
    schedule = is_for_groups(graphs[which].name) ? test_graph_schedule_groups(&graph, 2) : test_graph_schedule(&graph, 2);
    for (int i = 0; i < schedule->nnests; i++) {
        bench b = {.name = graphs[which].name,
                   .dev = dev,
                   .graph = &graph,
                   .schedule = schedule,
                   .nest = &schedule->nests[i],
                   .split = strncmp(graphs[which].name, "split", 5) == 0,
                   .vars = {7}};
        run_nest(&b, &seed, used_moves);
    }
    test_graph_close(&graph);
    bl_device_destroy(dev);
}

static void test_all_kinds_used(void **state)
{
    (void)state;
    for (int kind = 0; kind < BL_MOVE_KINDS; kind++) {
        if (used_moves[kind] < 20)
            fail_msg("only %d random moves of kind %d were legal", used_moves[kind], kind);
    }
    for (int unit = 0; unit < NUNITS; unit++) {
        if (used_units[unit] < 3)
            fail_msg("matrix unit %d was used %d times", unit, used_units[unit]);
    }
}

/* ---- refusals; axes of the matmul nest: 0 rows 13, 1 columns 18, 2 the reduction over 20 */

static const struct {
    numbered first, move;
    bool legal;
    const char *why;
} legality[] = {
    {{0}, {BL_SPLIT_UNROLL, 0, 4}, true, "the last tile overlaps"},
    {{0}, {BL_SPLIT_UNROLL, 2, 3}, true, "the rest is folded in a loop of its own"},
    {{0}, {BL_SPLIT_UNROLL, 0, 13}, true, "the whole axis"},
    {{0}, {BL_SPLIT_UNROLL, 0, 14}, false, "more than the axis has"},
    {{0}, {BL_SPLIT_UNROLL, 0, 1}, false, "nothing to split"},
    {{0}, {BL_SPLIT_UNROLL, 0, 0}, false, "no amount"},
    {{0}, {BL_SPLIT_UNROLL, 0, -4}, false, "a negative amount"},
    {{0}, {BL_SPLIT_UNROLL, -1, 2}, false, "no such axis"},
    {{0}, {BL_SPLIT_UNROLL, 3, 2}, false, "no such axis"},
    {{0}, {BL_SPLIT_VECTOR, 1, 16}, true, "lanes"},
    {{0}, {BL_SPLIT_VECTOR, 1, 3}, false, "no target has three lanes"},
    {{0}, {BL_SPLIT_VECTOR, 2, 32}, false, "too many lanes"},
    {{BL_SPLIT_VECTOR, 1, 4}, {BL_SPLIT_VECTOR, 0, 4}, false, "a value has the lanes of one axis"},
    {{BL_SPLIT_VECTOR, 1, 8}, {BL_SPLIT_UNROLL, 2, 7}, false, "lanes are not split"},
    {{0}, {BL_SPLIT_LOOP, 0, 4}, true, "a loop inside"},
    {{0}, {BL_SPLIT_LOOP, 2, 4}, true, "a loop of some turns within another"},
    {{0}, {BL_SPLIT_LOOP, 2, 3}, true, "the rest is folded in a loop of its own"},
    {{0}, {BL_SPLIT_GROUP, 1, 8}, true, "work-items"},
    {{0}, {BL_SPLIT_GROUP, 2, 4}, true, "a shared reduction"},
    {{0}, {BL_SPLIT_GROUP, 2, 3}, false, "the rest would be nobody's"},
    {{0}, {BL_SPLIT_GROUP, 2, 0}, false, "no amount"},
    {{BL_SPLIT_GROUP, 2, 4}, {BL_SPLIT_GROUP, 2, 5}, false, "it is shared already"},
    {{0}, {BL_PARTIAL_GLOBAL, 2, 4}, true, "partial sums of five"},
    {{0}, {BL_PARTIAL_GLOBAL, 2, 3}, false, "parts of one length"},
    {{0}, {BL_PARTIAL_GLOBAL, 2, 20}, false, "nothing would be left to sum"},
    {{0}, {BL_PARTIAL_GLOBAL, 2, 1}, false, "one part is none"},
    {{0}, {BL_PARTIAL_GLOBAL, 2, 0}, false, "no amount"},
    {{0}, {BL_PARTIAL_GLOBAL, 2, -4}, false, "a negative amount"},
    {{0}, {BL_PARTIAL_GLOBAL, 1, 3}, false, "of reductions only"},
    {{0}, {BL_PARTIAL_GLOBAL, 7, 4}, false, "no such axis"},
    {{BL_PARTIAL_GLOBAL, 2, 2}, {BL_PARTIAL_GLOBAL, 3, 5}, false, "once"},
    {{BL_PARTIAL_GLOBAL, 2, 4}, {BL_SPLIT_GROUP, 2, 4}, true, "the parts are an axis as others are"},
    {{BL_PARTIAL_GLOBAL, 2, 4}, {BL_SPLIT_GROUP, 3, 5}, true, "a part is a sum as others are"},
    {{BL_PARTIAL_GLOBAL, 2, 4}, {BL_STAGE_PANELS, 0, 0}, true, "of the partial sums"},
    {{BL_STAGE_PANELS, 0, 1}, {BL_PARTIAL_GLOBAL, 2, 4}, true, "a panel is an operand"},
    {{BL_SPLIT_UNROLL, 0, 2}, {BL_PARTIAL_GLOBAL, 2, 4}, false, "axes are whole before"},
    {{0}, {BL_ORDER_FASTEST, 0, 0}, true, "rows fastest"},
    {{0}, {BL_ORDER_FASTEST, 1, 0}, false, "it is the fastest already"},
    {{0}, {BL_ORDER_FASTEST, 2, 0}, false, "no grid axis"},
    {{0}, {BL_HINT_STREAM, 0, 0}, true, "a store"},
    {{0}, {BL_HINT_STREAM, 1, 0}, false, "no such store"},
    {{0}, {BL_HINT_STREAM, -1, 0}, false, "no such store"},
    {{BL_HINT_STREAM, 0, 1}, {BL_HINT_STREAM, 0, 0}, false, "it does already"},
    {{0}, {BL_STAGE_PANELS, 0, 0}, true, "an operand"},
    {{0}, {BL_STAGE_PANELS, 9, 0}, false, "no such operand"},
    {{0}, {BL_STAGE_PANELS, -1, 0}, false, "no such operand"},
    {{0}, {BL_STAGE_LOCAL, 0, 0}, false, "no work-items to share it"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 0, 4}, true, "the reduction within one copy"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 0, 5}, false, "two copies, and no loop for them to take turns in"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 0, 1}, true, "two copies of a row, one a turn"},
    {{BL_SPLIT_GROUP, 0, 8}, {BL_STAGE_LOCAL, 0, 1}, false, "one element, the same for all"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 0, 8}, false, "it has one loop, not two"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 0, -4}, false, "a negative amount"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 0, 1 << 16 | 4}, false, "no floats of 16 bits"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 0, 1 << 17 | 4}, false, "more than there is to say"},
    {{BL_SPLIT_GROUP, 1, 8}, {BL_STAGE_LOCAL, 9, 4}, false, "no such operand"},
    {{BL_SPLIT_GROUP, 2, 4}, {BL_STAGE_LOCAL, 0, 4}, false, "a reduction that is shared itself"},
    {{0}, {BL_STAGE_HALO, 0, 0}, false, "no edges"},
    {{0}, {BL_STAGE_HALO, -1, 0}, false, "no such operand"},
    {{0}, {BL_HINT_TRIM, 0, 0}, false, "no edges"},
    {{0}, {BL_HINT_TRIM, -1, 0}, false, "no such operand"},
    {{BL_SPLIT_LOOP, 0, 4}, {BL_PARTIAL_LOCAL, 3, 2}, true, "two blocks, and four rows whose sums wait"},
    {{BL_SPLIT_LOOP, 0, 4}, {BL_PARTIAL_LOCAL, 3, 3}, false, "the rest would be a third block, shorter"},
    {{BL_SPLIT_LOOP, 0, 4}, {BL_PARTIAL_LOCAL, 3, 20}, false, "one block"},
    {{BL_SPLIT_LOOP, 0, 4}, {BL_PARTIAL_LOCAL, 2, 6}, false, "of reductions only"},
    {{0}, {BL_PARTIAL_LOCAL, 2, 2}, false, "no loop whose sums would wait"},
    {{BL_SPLIT_VECTOR, 1, 4}, {BL_PARTIAL_LOCAL, 3, 2}, false, "lanes come later"},
    {{0}, {BL_MOVE_KINDS, 0, 2}, false, "no such move"},
};

static void test_legality(void **state)
{
    test_graph graph;
    bl_schedule *schedule = NULL;
    int wrong = 0;

    (void)state;
    test_graph_open(graph_of("matmul"), &graph);
    schedule = test_graph_schedule(&graph, 2);
    assert_int_equal(schedule->nnests, 1);
    for (size_t i = 0; i < sizeof legality / sizeof legality[0]; i++) {
        bl_tune tune;
        const bl_node *before = NULL;
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        assert_int_equal(tune.naxes, 3);
        if (legality[i].first.size > 0 && !apply(&tune, legality[i].first))
            fail_msg("row %zu: the first move is refused", i);
        before = tune.sink;
        if (apply(&tune, legality[i].move) != legality[i].legal) {
            print_error("move %d of axis %d by %lld is %s: %s\n", legality[i].move.kind, legality[i].move.at,
                        (long long)legality[i].move.size, legality[i].legal ? "refused" : "taken", legality[i].why);
            wrong++;
        } else if (!legality[i].legal && tune.sink != before) {
            print_error("row %zu changed the nest that it refused\n", i);
            wrong++;
        }
    }
    test_graph_close(&graph);
    assert_int_equal(wrong, 0);
}

/* Rows of scores, of their exp and of the probabilities share one memory if every element is written once.  A row of a product
 * does not share memory with a row from which all its elements are computed. */
static void test_memory_of_stages(void **state)
{
    static const struct {
        const char *graph;
        int64_t block; /* number of rows */
        numbered move; /* applied after the block move */
        bool in_place;
        int stages, memories;
        const char *why;
    } rows[] = {
        {"attention", 4, {0}, true, 5, 2, "scores, exp, probabilities; the row's maximum, then its sum"},
        {"attention", 4, {0}, false, 5, 3, "probabilities follow the scores, but exp cannot be where they are read"},
        {"attention", 4, {BL_SPLIT_UNROLL, 6, 5}, true, 5, 3, "the last tile is computed twice"},
        {"products", 0, {0}, true, 2, 2, "the second product reads all of the first one's row for each element"},
    };
    test_graph graph;
    bl_schedule *schedule = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_tune tune;
        bl_stage_memory plan;
        test_graph_open(graph_of(rows[i].graph), &graph);
        schedule = test_graph_schedule(&graph, 2);
        assert_int_equal(schedule->nnests, 1);
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        if (rows[i].block > 0)
            assert_true(bl_tune_apply_at(&tune, BL_SPLIT_BLOCK, 1, rows[i].block));
        if (rows[i].move.size > 0)
            assert_true(apply(&tune, rows[i].move));
        assert_true(bl_stage_memory_plan(tune.ir, tune.sink, &tune.free, rows[i].in_place, &plan));
        if (plan.nstages != rows[i].stages || plan.nmemories != rows[i].memories)
            fail_msg("row %zu: %d stages in %d memories, not %d in %d: %s", i, plan.nstages, plan.nmemories, rows[i].stages,
                     rows[i].memories, rows[i].why);
        test_graph_close(&graph);
    }
}

/* A copy of a stage per iteration would be useless, and work-items do not share a stage. */
static void test_moves_around_stages(void **state)
{
    static const struct {
        numbered move;
        int64_t local_bytes;
        bool legal;
    } rows[] = {
        {{BL_SPLIT_BLOCK, 1, 4}, 32768, true},   {{BL_SPLIT_BLOCK, 1, 4}, 256, false},    {{BL_SPLIT_BLOCK, 2, 4}, 32768, false},
        {{BL_SPLIT_UNROLL, 1, 4}, 32768, false}, {{BL_SPLIT_VECTOR, 1, 4}, 32768, false}, {{BL_SPLIT_GROUP, 1, 4}, 32768, false},
        {{BL_SPLIT_GROUP, 3, 4}, 32768, false},  {{BL_SPLIT_LOOP, 1, 4}, 32768, true},    {{BL_SPLIT_VECTOR, 2, 4}, 32768, true}};
    test_graph graph;
    bl_schedule *schedule = NULL;

    (void)state;
    test_graph_open(graph_of("attention"), &graph);
    schedule = test_graph_schedule(&graph, 2);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bl_tune tune;
        const bl_node *before = NULL;
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        tune.local_bytes = rows[i].local_bytes;
        before = tune.sink;
        if (apply(&tune, rows[i].move) != rows[i].legal)
            fail_msg("row %zu is %s", i, rows[i].legal ? "refused" : "taken");
        if (!rows[i].legal)
            assert_ptr_equal(before, tune.sink);
    }
    test_graph_close(&graph);
}

/* More local axes than dimensions of a work-group. */
static void test_four_local_axes(void **state)
{
    test_graph graph;
    bl_tune tune;
    bl_schedule *schedule = NULL;
    bench b = {.name = "conv", .dev = bench_interp()};
    bl_err err = {0};
    int taken = 0, axes = 0;

    (void)state;
    test_graph_open(graph_of("conv"), &graph);
    schedule = test_graph_schedule(&graph, 2);
    b.graph = &graph;
    b.schedule = schedule;
    b.nest = &schedule->nests[0];
    bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
    for (int axis = 0; axis < 8; axis++)
        taken += axis < tune.naxes && bl_tune_apply_at(&tune, BL_SPLIT_GROUP, axis, 2);
    for (int i = 0; i < tune.naxes; i++)
        axes += tune.axis[i].range->sub == BL_AXIS_LOCAL;
    if (taken < 3 || axes != 3)
        fail_msg("%d moves were taken, and %d axes are work-items", taken, axes);
    bench_open(&b);
    assert_int_equal(bench_run(&b, &tune, &err), BL_OK);
    bench_close(&b);
    test_graph_close(&graph);
    bl_device_destroy(b.dev);
}

/* Opens the first nest of the graph |name| on the interpreter. */
static void open_first(bench *b, test_graph *graph, const char *name)
{
    const bl_schedule *schedule;

    *b = (bench){.name = name, .dev = bench_interp(), .graph = graph};
    test_graph_open(graph_of(name), graph);
    schedule = test_graph_schedule(graph, 2);
    b->schedule = schedule;
    b->nest = &schedule->nests[0];
    bench_open(b);
}

static void close_first(bench *b, test_graph *graph)
{
    bench_close(b);
    test_graph_close(graph);
    bl_device_destroy(b->dev);
}

/* Moves after a reduction in blocks, with equal results.  The axes are then 0 and 1 of the rows, 2 and 3 of the columns, 4 the
 * blocks, 5 and 6 the stage's columns and rows, 7 a block. */
static void test_blocks(void **state)
{
    static const struct {
        numbered move;
        bool legal;
        const char *why;
    } rows[] = {
        {{BL_SPLIT_VECTOR, 5, 4}, false, "four do not divide six columns, and what is added twice is wrong"},
        {{BL_SPLIT_VECTOR, 5, 2}, true, "lanes"},
        {{BL_SPLIT_UNROLL, 6, 3}, false, "nor three four rows"},
        {{BL_SPLIT_UNROLL, 6, 2}, true, "rows in registers"},
        {{BL_SPLIT_VECTOR, 4, 2}, false, "blocks go one after the other"},
        {{BL_SPLIT_UNROLL, 4, 2}, true, "... two of them in a turn"},
        {{BL_SPLIT_UNROLL, 7, 5}, true, "a block, unrolled"},
        {{BL_STAGE_PANELS, 0, 0}, true, "a panel"},
        {{BL_SPLIT_LOOP, 0, 2}, true, "more rows in turn"},
        {{BL_SPLIT_BLOCK, 0, 2}, true, "... or at once"},
        {{BL_SPLIT_GROUP, 7, 5}, false, "work-items do not share local memory that each fills"},
        {{BL_SPLIT_GROUP, 0, 2}, false, "as before"},
        {{BL_UNIT_MATRIX, 0, 0}, false, "a unit's tile is not where the sum is"},
        {{BL_PARTIAL_LOCAL, 7, 5}, false, "once"},
    };
    test_graph graph;
    bench b = {0};

    (void)state;
    open_first(&b, &graph, "matmul");
    for (int i = -1; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        bl_tune tune;
        bl_err err = {0};
        bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
        if (i >= 0) {
            assert_true(bl_tune_apply_at(&tune, BL_SPLIT_LOOP, 0, 4));
            assert_true(bl_tune_apply_at(&tune, BL_SPLIT_LOOP, 2, 6));
            assert_true(bl_tune_apply_at(&tune, BL_PARTIAL_LOCAL, 4, 4));
            assert_int_equal(tune.naxes, 8);
            if (apply(&tune, rows[i].move) != rows[i].legal)
                fail_msg("row %d is %s: %s", i, rows[i].legal ? "refused" : "taken", rows[i].why);
        }
        assert_int_equal(bench_run(&b, &tune, &err), BL_OK);
        bench_compare(&b, i < 0 ? "" : rows[i].why);
    }
    close_first(&b, &graph);
}

/* An axis whose outer part was removed by a whole split: the rest is split again, and the parts stay distinct. */
static void test_parts(void **state)
{
    static const numbered moves[] = {
        {BL_SPLIT_LOOP, 0, 2}, {BL_SPLIT_LOOP, 0, 7}, {BL_SPLIT_LOOP, 0, 2}, {BL_SPLIT_UNROLL, 1, 2}};
    test_graph graph;
    bench b = {0};

    (void)state;
    open_first(&b, &graph, "matmul");
    for (int n = 0; n <= 4; n++) {
        bl_tune tune;
        bl_err err = {0};
        bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
        for (int i = 0; i < n; i++)
            assert_true(apply(&tune, moves[i]));
        for (int i = 0; i + 1 < tune.naxes; i++)
            assert_true(tune.axis[i].range->arg < tune.axis[i + 1].range->arg);
        assert_int_equal(bench_run(&b, &tune, &err), BL_OK);
        bench_compare(&b, "parts");
    }
    close_first(&b, &graph);
}

/* Unrolled until each work-item has a single iteration, with equal results. */
static void test_limited_turns(void **state)
{
    static const int64_t most[] = {100, 24, 9, 5};
    test_graph graph;
    bench b = {0};

    (void)state;
    open_first(&b, &graph, "softmax of columns");
    for (int i = -1; i < (int)(sizeof most / sizeof most[0]); i++) {
        bl_tune tune;
        bl_err err = {0};
        bl_tune_init(&tune, graph.graph->ir, b.nest->sink, b.nest->nparams);
        if (i >= 0 && !bl_tune_limit_turns(&tune, most[i]))
            fail_msg("%lld turns cannot be had", (long long)most[i]);
        if (i >= 0)
            assert_int_equal(tune.nmoves > 0, most[i] < 3 * 24);
        assert_int_equal(bench_run(&b, &tune, &err), BL_OK);
        bench_compare(&b, "limited");
    }
    close_first(&b, &graph);
}

int main(void)
{
    static struct CMUnitTest tests[NGRAPHS + 9];
    int n = 0;

    for (int i = 0; i < NGRAPHS; i++)
        tests[n++] = (struct CMUnitTest){.name = graphs[i].name, .test_func = test_random, .initial_state = (void *)(intptr_t)i};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_all_kinds_used);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_unit_copies);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_legality);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_memory_of_stages);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_moves_around_stages);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_four_local_axes);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_blocks);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_parts);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_limited_turns);
    return cmocka_run_group_tests_name("moves", tests, NULL, NULL);
}
