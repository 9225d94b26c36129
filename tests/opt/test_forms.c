/* SPDX-License-Identifier: MIT */
/* Which moves the heuristic chooses, on two cores with vectors of 16 floats: the table that fails when a form changes, so that a
 * better one is measured and kept. */
#include "engine/opt/heuristic.h"
#include "tests/plan/graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define F32(...)          "{'dtype': 'float32', 'shape': [" #__VA_ARGS__ "]}"
#define TYPED(dtype, ...) "{'dtype': '" #dtype "', 'shape': [" #__VA_ARGS__ "]}"

typedef struct row {
    const char *name;
    int axes; /* of the first nest, after loops that are one were merged */
    const char *moves;
    const char *document;
} row;

/* clang-format off */
static const row rows[] = {
    {"loops that every index uses together are one", 1, "vector 0 16, chunk 0 101", "{'inputs': {'x': " F32(100, 30, 7) "}, 'nodes': [{'id': 'y', 'op': 'exp', 'in': ['x']}], 'outputs': ['y']}"},
    {"... but for one of a named extent, which would have no lanes", 2, "vector 1 16, chunk 1 64, chunk 0 9", "{'dims': {'n': [1, 9]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n', 1024]}}, 'nodes': [{'id': 'y', 'op': 'exp', 'in': ['x']}], 'outputs': ['y']}"},
    {"which alone has no lanes either, and as many places to a group", 1, "chunk 0 12500", "{'dims': {'n': [1, 100000]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n']}}, 'nodes': [{'id': 'y', 'op': 'exp', 'in': ['x']}], 'outputs': ['y']}"},
    {"a sum over a named extent: lanes, and a rest", 1, "vector 0 16, vector 1 8", "{'dims': {'n': [1, 100000]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n']}}, 'nodes': [{'id': 'y', 'op': 'sum', 'in': ['x']}], 'outputs': ['y']}"},
    {"products for named rows: no more of them at once than cost little where there is one alone", 3, "vector 1 16, tile 1 4, tile 0 4, tile 5 4", "{'dims': {'n': [1, 100000]}, 'inputs': {'x': {'dtype': 'float32', 'shape': ['n', 256]}, 'w': " F32(256, 256) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"rows of pictures, gathered: lanes are as wide as what differs along them", 2, "vector 1 16, tile 0 8, chunk 2 49", "{'inputs': {'x': " TYPED(uint8, 60000, 28, 28) ", 'i': " TYPED(int64, 128) "}, 'nodes': [{'id': 't', 'op': 'take', 'in': ['x', 'i'], 'attrs': {'axis': 0}}, {'id': 'y', 'op': 'div', 'in': ['t', 255]}], 'outputs': ['y']}"},
    {"a guard on one of two loops keeps them apart", 2, "vector 1 16, chunk 1 2, chunk 0 100", "{'inputs': {'x': " F32(100, 30) "}, 'nodes': [{'id': 'p', 'op': 'pad', 'in': ['x'], 'attrs': {'padding': [[0, 0], [1, 1]]}}], 'outputs': ['p']}"},
    {"a guard on the outer loop is one on the whole", 1, "vector 0 16, chunk 0 192", "{'inputs': {'x': " F32(100, 30) "}, 'nodes': [{'id': 'p', 'op': 'pad', 'in': ['x'], 'attrs': {'padding': [[1, 1], [0, 0]]}}], 'outputs': ['p']}"},
    {"a transpose keeps its loops, and is turned in registers", 2, "vector 1 16, tile 0 8, chunk 2 4, chunk 0 6", "{'inputs': {'x': " F32(64, 48) "}, 'nodes': [{'id': 'y', 'op': 'transpose', 'in': ['x']}], 'outputs': ['y']}"},
    {"a reduction over two axes is one loop", 2, "vector 1 16, chunk 0 8", "{'inputs': {'x': " F32(64, 28, 28) "}, 'nodes': [{'id': 'y', 'op': 'sum', 'in': ['x'], 'attrs': {'axis': [1, 2]}}], 'outputs': ['y']}"},
    {"rows by rows, few of them: partial sums in lanes, no panels", 3, "tile 0 8, tile 2 3, vector 4 16", "{'inputs': {'x': " F32(128, 784) ", 'w': " F32(128, 784) "}, 'nodes': [{'id': 'y', 'op': 'linear', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"rows by rows, many: a panel", 3, "vector 1 16, tile 1 4, tile 0 6, pack 0 0, tile 5 4", "{'inputs': {'x': " F32(1024, 1024) ", 'w': " F32(1024, 1024) "}, 'nodes': [{'id': 'y', 'op': 'linear', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"fewer columns than lanes: the sum has them, and the columns are a panel", 3, "tile 0 5, tile 2 5, vector 4 16, pack 0 0", "{'inputs': {'x': " F32(512, 576) ", 'w': " F32(576, 10) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"the rest of a sum has lanes of its own", 3, "tile 0 8, tile 2 3, vector 4 16, vector 5 4, vector 6 2", "{'inputs': {'x': " F32(128, 790) ", 'w': " F32(128, 790) "}, 'nodes': [{'id': 'y', 'op': 'linear', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"sums over pictures of two sizes: each is one loop and has lanes", 4, "vector 3 16, vector 2 16", "{'inputs': {'x': " F32(3, 2, 24, 24) ", 'y': " F32(3, 2, 20, 20) "}, 'nodes': [{'id': 's', 'op': 'sum', 'in': ['x'], 'attrs': {'axis': [0, 2, 3]}}, {'id': 't', 'op': 'sum', 'in': ['y'], 'attrs': {'axis': [0, 2, 3]}}], 'outputs': ['s', 't']}"},
    {"a window slides along the tile's rows, whose pixels would take the registers of sums: another loop is unrolled", 7, "vector 1 16, tile 1 2, tile 4 10, pack 0 0, tile 7 5", "{'inputs': {'x': " F32(64, 32, 24, 24) ", 'w': " F32(32, 32, 5, 5) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... and is itself where they fit", 7, "vector 1 16, tile 1 4, tile 0 4, pack 0 0, tile 8 3", "{'inputs': {'x': " F32(64, 32, 10, 10) ", 'w': " F32(64, 32, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... nor are there more than 20 sums beside such a window: rows are fewer", 7, "vector 1 16, tile 1 4, tile 5 3, pack 0 0, tile 9 3", "{'inputs': {'x': " F32(8, 48, 29, 29) ", 'w': " F32(192, 48, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'form': 'direct'}}], 'outputs': ['y']}"},
    {"a gradient of windows: its loops end where the windows do, and nothing is written out with edges", 7, "vector 1 16, tile 1 2, tile 0 8, pack 0 0, tile 8 4", "{'inputs': {'x': " F32(64, 32, 24, 24) ", 'w': " F32(32, 32, 5, 5) ", 'g': " F32(64, 32, 20, 20) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, {'id': 'dx', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['dx']}"},
    {"... of many pictures, which are pages apart: no more than eight of them", 7, "vector 1 16, tile 1 2, tile 0 8, pack 0 0, tile 8 4", "{'inputs': {'x': " F32(512, 32, 24, 24) ", 'w': " F32(32, 32, 5, 5) ", 'g': " F32(512, 32, 20, 20) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, {'id': 'd', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
    {"a weight's gradient whose panel is more than the last cache keeps: in parts, one after the other", 7, "split 4 16, vector 0 16, tile 0 2, tile 2 8, pack 0 0, tile 9 4, first 2 0, first 3 0, first 3 0", "{'inputs': {'x': " F32(512, 32, 24, 24) ", 'w': " F32(32, 32, 5, 5) ", 'g': " F32(512, 32, 20, 20) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, {'id': 'd', 'op': 'grad', 'in': ['y', 'w', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
    {"... is at once where the cache keeps it", 7, "vector 0 16, tile 0 2, tile 2 8, pack 1 0, tile 8 4", "{'inputs': {'x': " F32(64, 32, 24, 24) ", 'w': " F32(32, 32, 5, 5) ", 'g': " F32(64, 32, 20, 20) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, {'id': 'd', 'op': 'grad', 'in': ['y', 'w', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
    {"... or no number of parts is good", 7, "vector 0 16, tile 0 2, tile 2 8, pack 1 0, tile 8 4", "{'inputs': {'x': " F32(509, 32, 24, 24) ", 'w': " F32(32, 32, 5, 5) ", 'g': " F32(509, 32, 20, 20) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, {'id': 'd', 'op': 'grad', 'in': ['y', 'w', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
    {"channels in four groups: rows and lanes of one group", 8, "edges 1 -1, vector 4 16, tile 4 2, tile 2 8, tile 9 3", "{'inputs': {'x': " F32(8, 64, 28, 28) ", 'w': " F32(128, 16, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'groups': 4}}], 'outputs': ['y']}"},
    {"of windows two apart: pixels of a kind are a loop, which has the places that they have shares from", 9, "vector 1 16, tile 1 4, tile 0 4, pack 0 0, tile 10 4", "{'inputs': {'x': " F32(8, 64, 56, 56) ", 'w': " F32(128, 64, 3, 3) ", 'g': " F32(8, 128, 28, 28) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'stride': 2, 'padding': 1}}, {'id': 'dx', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['dx']}"},
    {"of windows beside each other: a product, whose lanes go along their places", 7, "vector 5 16, tile 4 14, pack 1 0, tile 6 4", "{'inputs': {'x': " F32(8, 3, 224, 224) ", 'w': " F32(192, 3, 16, 16) ", 'g': " F32(8, 192, 14, 14) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'stride': 16}}, {'id': 'dx', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['dx']}"},
    {"few pictures: rows are pixels, with edges along them alone", 7, "edges 1 -5, vector 1 16, tile 1 2, tile 4 12, pack 0 0, tile 8 4", "{'inputs': {'x': " F32(2, 32, 24, 24) ", 'w': " F32(32, 32, 5, 5) ", 'g': " F32(2, 32, 20, 20) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}, {'id': 'dx', 'op': 'grad', 'in': ['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['dx']}"},
    {"an axis that only chooses is unrolled: nothing is asked of it", 2, "tile 0 3, vector 1 16, chunk 1 256", "{'inputs': {'x': " F32(64, 64) ", 'y': " F32(64, 64) "}, 'nodes': [{'id': 'a', 'op': 'add', 'in': ['x', 'y']}, {'id': 'b', 'op': 'sub', 'in': ['x', 'y']}, {'id': 'i', 'op': 'arange', 'attrs': {'stop': 3, 'dtype': 'int32'}}, {'id': 'j', 'op': 'reshape', 'in': ['i'], 'attrs': {'shape': [3, 1, 1]}}, {'id': 'p', 'op': 'less', 'in': ['j', 1]}, {'id': 'c', 'op': 'where', 'in': ['p', 'a', 'b']}], 'outputs': ['c']}"},
    {"a draw asks much of its number, and is no choice", 1, "vector 0 8, chunk 0 8", "{'inputs': {'k': {'dtype': 'int64', 'shape': []}}, 'nodes': [{'id': 'p', 'op': 'randperm', 'in': ['k'], 'attrs': {'n': 64, 'seed': 1}}], 'outputs': ['p']}"},
    {"the turns of a small window are copies, for all reductions over it", 4, "vector 1 8, tile 4 2, tile 3 2, chunk 1 2, chunk 0 128", "{'inputs': {'x': " F32(64, 32, 20, 20) "}, 'nodes': [{'id': 'm', 'op': 'max_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 2}}, {'id': 'a', 'op': 'avg_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 2}}], 'outputs': ['m', 'a']}"},
    {"of a large one they are not", 4, "vector 3 4, chunk 1 5, chunk 0 160", "{'inputs': {'x': " F32(64, 32, 20, 20) "}, 'nodes': [{'id': 'm', 'op': 'max_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 4}}], 'outputs': ['m']}"},
    {"windows of three that are two apart: lanes are picked out of two vectors", 5, "vector 2 16, tile 5 3, tile 4 3, chunk 2 4, chunk 1 11", "{'inputs': {'x': " F32(8, 96, 111, 111) "}, 'nodes': [{'id': 'm', 'op': 'max_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 3, 'stride': 2}}], 'outputs': ['m']}"},
    {"... that are four apart: they would be loaded one by one", 5, "tile 4 3, tile 3 3, chunk 2 28, chunk 1 28, chunk 0 2", "{'inputs': {'x': " F32(8, 96, 111, 111) "}, 'nodes': [{'id': 'm', 'op': 'max_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 3, 'stride': 4}}], 'outputs': ['m']}"},
    {"so are the 36 places of a transform: here of a weight", 3, "tile 0 36, vector 2 16", "{'inputs': {'x': " F32(8, 128, 28, 28) ", 'w': " F32(128, 128, 3, 3) ", 'b': " F32(128) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w', 'b'], 'attrs': {'padding': 1, 'form': 'winograd'}}, {'id': 'y', 'op': 'relu', 'in': ['c']}], 'outputs': ['y']}"},
    {"more than the last cache holds goes past it", 1, "vector 0 16, chunk 0 1024, stream 0 0", "{'inputs': {'x': " F32(16777216) "}, 'nodes': [{'id': 'y', 'op': 'mul', 'in': ['x', 2]}], 'outputs': ['y']}"},
    {"... but not where lanes are stored apart", 7, "vector 1 16, tile 1 3, tile 5 8, pack 1 0", "{'inputs': {'x': " F32(8, 3, 227, 227) ", 'w': " F32(96, 3, 7, 7) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'stride': 2}}], 'outputs': ['c']}"},
    {"what it holds does not", 1, "vector 0 16, chunk 0 1024", "{'inputs': {'x': " F32(4194304) "}, 'nodes': [{'id': 'y', 'op': 'mul', 'in': ['x', 2]}], 'outputs': ['y']}"},
    {"a long sum: in blocks, for 43 tiles of rows and two of columns at a time", 3, "chunk 0 258, chunk 2 128, kblock 4 256, vector 5 16, tile 5 4, tile 8 6, pack 0 0, tile 10 4, vector 3 16", "{'inputs': {'x': " F32(512, 4096) ", 'w': " F32(4096, 512) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... whose panel stays in half the cache", 3, "vector 1 16, tile 1 4, tile 0 6, pack 1 0, tile 5 4", "{'inputs': {'x': " F32(512, 2048) ", 'w': " F32(2048, 512) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... of windows is left alone", 7, "vector 1 16, tile 1 4, tile 0 4, pack 1 0, tile 9 3", "{'inputs': {'x': " F32(16, 512, 10, 10) ", 'w': " F32(128, 512, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... that no block divides", 3, "vector 1 16, tile 1 4, tile 0 6, pack 0 0", "{'inputs': {'x': " F32(512, 4099) ", 'w': " F32(4099, 512) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... for too few rows", 3, "vector 1 16, tile 1 4, tile 0 4, pack 1 0, tile 5 4", "{'inputs': {'x': " F32(16, 4096) ", 'w': " F32(4096, 512) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"two rows are a product, too", 3, "tile 0 2, tile 1 5, vector 3 16, chunk 1 2", "{'inputs': {'x': " F32(2, 784) ", 'w': " F32(512, 784) "}, 'nodes': [{'id': 'y', 'op': 'linear', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... and four columns", 3, "tile 0 6, tile 2 4, vector 3 16, pack 1 0", "{'inputs': {'x': " F32(1024, 1024) ", 'w': " F32(1024, 4) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"... one row is none", 2, "vector 1 16, chunk 0 16", "{'inputs': {'x': " F32(1, 784) ", 'w': " F32(512, 784) "}, 'nodes': [{'id': 'y', 'op': 'linear', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"a depthwise convolution: lanes are channels, rows of results whole", 6, "vector 1 16, pack 0 0, edges 0 -1, tile 4 7, tile 6 5", "{'inputs': {'x': " F32(8, 240, 14, 14) ", 'w': " F32(240, 1, 5, 5) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 2, 'stride': 2, 'groups': 240}}], 'outputs': ['y']}"},
    {"... of channels that are no whole vectors: lanes are pixels", 6, "edges 1 -1, vector 3 16, tile 3 2, tile 2 14, tile 6 3, tile 7 3, chunk 2 2", "{'inputs': {'x': " F32(8, 100, 28, 28) ", 'w': " F32(100, 1, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'groups': 100}}], 'outputs': ['y']}"},
    {"... a weight's gradient, whose windows lie apart: lanes are channels", 6, "vector 0 16, pack 0 0, edges 0 -1, tile 3 3, tile 2 3, tile 6 7", "{'inputs': {'x': " F32(8, 240, 14, 14) ", 'w': " F32(240, 1, 3, 3) ", 'g': " F32(8, 240, 7, 7) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'stride': 2, 'groups': 240}}, {'id': ['d'], 'op': 'grad', 'in': ['y', 'w', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
    {"... of long rows, which are read whole: lanes are pixels", 5, "edges 0 -1, tile 1 3, tile 2 3, vector 4 16", "{'inputs': {'x': " F32(1, 32, 112, 112) ", 'w': " F32(32, 1, 3, 3) ", 'g': " F32(1, 32, 112, 112) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'groups': 32}}, {'id': ['d'], 'op': 'grad', 'in': ['y', 'w', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['d']}"},
    {"groups of four channels", 8, "edges 1 -1, vector 4 16, tile 4 4, tile 2 4, tile 8 3", "{'inputs': {'x': " F32(8, 128, 56, 56) ", 'w': " F32(128, 4, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'groups': 32}}], 'outputs': ['y']}"},
    {"rows by columns: lanes along the columns", 3, "vector 1 16, tile 1 4, tile 0 6, tile 5 4", "{'inputs': {'x': " F32(256, 256) ", 'w': " F32(256, 256) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"},
    {"rows that are added where they were sent: each group has the sums of some places, and looks at all keys", 3, "chunk 1 128, send 0 1024, vector 4 16, vector 2 16", "{'inputs': {'s': " F32(1, 500, 128) ", 'i': " TYPED(int32, 1, 500, 1) "}, 'nodes': [{'id': 'a', 'op': 'arange', 'in': [], 'attrs': {'stop': 10000, 'dtype': 'int32'}}, {'id': 'p', 'op': 'reshape', 'in': ['a'], 'attrs': {'shape': [10000, 1, 1]}}, {'id': 'e', 'op': 'equal', 'in': ['p', 'i']}, {'id': 'w', 'op': 'where', 'in': ['e', 's', 0]}, {'id': 'y', 'op': 'sum', 'in': ['w'], 'attrs': {'axis': 1}}], 'outputs': ['y']}"},
    {"... of 100 columns: two groups, of whole vectors", 3, "chunk 1 64, send 0 2048, vector 5 16, vector 3 16", "{'inputs': {'s': " F32(1, 500, 100) ", 'i': " TYPED(int32, 1, 500, 1) "}, 'nodes': [{'id': 'a', 'op': 'arange', 'in': [], 'attrs': {'stop': 10000, 'dtype': 'int32'}}, {'id': 'p', 'op': 'reshape', 'in': ['a'], 'attrs': {'shape': [10000, 1, 1]}}, {'id': 'e', 'op': 'equal', 'in': ['p', 'i']}, {'id': 'w', 'op': 'where', 'in': ['e', 's', 0]}, {'id': 'y', 'op': 'sum', 'in': ['w'], 'attrs': {'axis': 1}}], 'outputs': ['y']}"},
    {"single elements: each core looks at all keys once", 2, "send 0 50000, vector 1 16", "{'inputs': {'x': " F32(100000) ", 's': " F32(10000) ", 'i': " TYPED(int32, 10000) "}, 'nodes': [{'id': 'y', 'op': 'scatter', 'in': ['x', 'i', 's'], 'attrs': {'reduce': 'add'}}], 'outputs': ['y']}"},
    {"... or, where keys are far more than places, at half of them", 2, "split 1 2, send 0 1000, vector 0 16", "{'inputs': {'x': " F32(1000) ", 's': " F32(100000) ", 'i': " TYPED(int32, 100000) "}, 'nodes': [{'id': 'y', 'op': 'scatter', 'in': ['x', 'i', 's'], 'attrs': {'reduce': 'add'}}], 'outputs': ['y']}"},
    {"... each column by keys of its own: groups of columns, which share none", 3, "chunk 1 16, send 0 1000, vector 2 16", "{'inputs': {'x': " F32(1000, 64) ", 's': " F32(2000, 64) ", 'i': " TYPED(int32, 2000, 64) "}, 'nodes': [{'id': 'y', 'op': 'scatter', 'in': ['x', 'i', 's'], 'attrs': {'reduce': 'add'}}], 'outputs': ['y']}"},
    {"few places are looked through with lanes", 2, "tile 0 5, vector 2 16", "{'inputs': {'x': " F32(60) ", 's': " F32(10000) ", 'i': " TYPED(int32, 10000) "}, 'nodes': [{'id': 'y', 'op': 'scatter', 'in': ['x', 'i', 's'], 'attrs': {'reduce': 'add'}}], 'outputs': ['y']}"},
};
/* clang-format on */

static void test_forms(void **state)
{
    static const bl_target target = {.cpu = true,
                                     .units = 2,
                                     .vector_bits = 512,
                                     .registers = 32,
                                     .cache_bytes = 1 << 20,
                                     .last_cache_bytes = 1 << 25,
                                     .subgroup = 1,
                                     .max_local = 1,
                                     .local_bytes = 1 << 20,
                                     .max_params = 32};
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        test_graph graph;
        bl_schedule *schedule = NULL;
        bl_tune tune;
        bl_text text = {0};
        int axes = 0;

        test_graph_open(r->document, &graph);
        schedule = test_graph_schedule(&graph, target.units);
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        axes = tune.naxes;
        bl_heuristic(&tune, &target);
        bl_tune_print(&tune, &text);
        if (axes != r->axes || strcmp(bl_text_get(&text), r->moves) != 0) {
            print_error("%s: %d axes, \"%s\"; the table says %d, \"%s\"\n", r->name, axes, bl_text_get(&text), r->axes, r->moves);
            wrong++;
        }
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
    assert_int_equal(wrong, 0);
}

/* A padded picture under windows two apart is written out once, not once for each place of a window. */
static void test_edges_apart(void **state)
{
    test_graph graph;
    bl_schedule *schedule = NULL;
    bl_tune tune;

    (void)state;
    test_graph_open("{'inputs': {'x': " F32(8, 64, 56, 56) ", 'w': " F32(
                        128, 64, 3, 3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', "
                                       "'in': ['x', 'w'], 'attrs': {'stride': 2, 'padding': 1}}], 'outputs': ['y']}",
                    &graph);
    schedule = test_graph_schedule(&graph, 2);
    bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
    assert_true(bl_tune_apply(&tune, (bl_move){BL_MOVE_EDGES, 0, 0}) || bl_tune_apply(&tune, (bl_move){BL_MOVE_EDGES, 1, 0}));
    assert_true(bl_is_int(tune.packed[0].count, (int64_t)8 * 64 * 57 * 57));
    test_graph_close(&graph);
}

#define PRODUCT(dtype, m, n, k)                                                                                                  \
    "{'inputs': {'x': " TYPED(dtype, m, k) ", 'w': " TYPED(                                                                      \
        dtype, k, n) "}, 'nodes': [{'id': 'y', 'op': 'matmul', 'in': ['x', 'w']}], 'outputs': ['y']}"

static const bl_matrix warp = {16, 16, 16, 32, 1, 15, BL_F16, BL_F32, false},
                       tiles = {16, 16, 32, 1, 2, 17, BL_BF16, BL_F32, false}, dot = {1, 16, 2, 1, 2, 17, BL_BF16, BL_F32, false};

typedef struct unit_form {
    const char *name, *document, *moves;
    const bl_matrix *unit;
    bool cpu, groups;
    bl_matrix_use use;
    bl_precision precision;
    uint8_t rate;
} unit_form;

static const unit_form unit_forms[] = {
    {"a GPU", PRODUCT(float16, 256, 256, 256),
     "matrix 0 16x16x16 32,1,15 float16 float32, tile 0 2, local 0 2, tile 4 2, local 4 2, tile 11 2, share 0 67585, share 1 "
     "67585",
     &warp, false, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"a GPU, and fewer tiles than it has multiprocessors", PRODUCT(float16, 128, 128, 8192),
     "split 2 4, matrix 0 16x16x16 32,1,15 float16 float32, tile 0 2, local 0 2, tile 4 2, local 4 2, tile 12 2, share 0 67585, "
     "share 1 67585",
     &warp, false, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"not float32", PRODUCT(float32, 256, 256, 256), "", &warp, false, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"never", PRODUCT(float16, 256, 256, 256), "", &warp, false, true, BL_MATRIX_NEVER, BL_PRECISION_HIGHEST, 16},
    {"half of the tiles would be computed twice", PRODUCT(float16, 9, 256, 256), "", &warp, false, true, BL_MATRIX_ALWAYS,
     BL_PRECISION_HIGHEST, 16},
    {"a CPU that plays a GPU", PRODUCT(float16, 256, 256, 256), "", &warp, true, true, BL_MATRIX_SURE, BL_PRECISION_HIGHEST, 16},
    {"... asked to", PRODUCT(float16, 256, 256, 256), "matrix 0 16x16x16 32,1,15 float16 float32, tile 0 2, tile 3 2", &warp,
     true, true, BL_MATRIX_ALWAYS, BL_PRECISION_HIGHEST, 16},
    {"tiles: four of them, and two of each operand", PRODUCT(bfloat16, 256, 256, 256),
     "matrix 0 16x16x32 1,2,17 bfloat16 float32, tile 0 2, tile 3 2, tile 8 4", &tiles, true, false, BL_MATRIX_SURE,
     BL_PRECISION_HIGHEST, 16},
    {"vectors: as for float32", PRODUCT(bfloat16, 256, 256, 256),
     "matrix 0 1x16x2 1,2,17 bfloat16 float32, tile 0 6, tile 2 4, tile 7 4", &dot, true, false, BL_MATRIX_SURE,
     BL_PRECISION_HIGHEST, 16},
    {"a convolution's picture is not turned for them, but lies as their columns",
     "{'inputs': {'x': " TYPED(bfloat16, 8, 64, 32, 32) ", 'w': " TYPED(
         bfloat16, 64, 64, 3,
         3) "}, 'nodes': [{'id': 'y', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1}}], 'outputs': ['y']}",
     "matrix 1 1x16x2 1,2,17 bfloat16 float32, tile 1 8, tile 4 2, tile 8 4", &dot, true, false, BL_MATRIX_SURE,
     BL_PRECISION_HIGHEST, 2},
    {"float32, allowed to be split, on a unit of sixteen times the rate", PRODUCT(float32, 256, 256, 256),
     "matrix 0 16x16x32 1,2,17 bfloat16x3 float32, tile 0 2, tile 3 2", &tiles, true, false, BL_MATRIX_SURE, BL_PRECISION_HIGH,
     16},
    {"... not allowed", PRODUCT(float32, 256, 256, 256), "", &tiles, true, false, BL_MATRIX_ALWAYS, BL_PRECISION_HIGHEST, 16},
    {"... of twice the rate", PRODUCT(float32, 256, 256, 256), "", &dot, true, false, BL_MATRIX_SURE, BL_PRECISION_HIGH, 2},
    {"... of an unknown one", PRODUCT(float32, 256, 256, 256), "", &tiles, true, false, BL_MATRIX_SURE, BL_PRECISION_HIGH, 0},
    {"... asked to", PRODUCT(float32, 256, 256, 256), "matrix 0 1x16x2 1,2,17 bfloat16x3 float32, tile 0 6, tile 2 4", &dot, true,
     false, BL_MATRIX_ALWAYS, BL_PRECISION_HIGH, 2},
    {"... of float16, which has no halves", PRODUCT(float32, 256, 256, 256), "", &warp, false, true, BL_MATRIX_ALWAYS,
     BL_PRECISION_HIGH, 16},
    {"what is bfloat16 itself is not split", PRODUCT(bfloat16, 256, 256, 256),
     "matrix 0 16x16x32 1,2,17 bfloat16 float32, tile 0 2, tile 3 2, tile 8 4", &tiles, true, false, BL_MATRIX_SURE,
     BL_PRECISION_HIGH, 16},
};

/* A product on matrix units: of a CPU, of a GPU, of a CPU that plays one; and which are left alone. */
static void test_units(void **state)
{
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof unit_forms / sizeof unit_forms[0]; i++) {
        const unit_form *form = &unit_forms[i];
        bl_target target = {.groups = form->groups,
                            .cpu = form->cpu,
                            .units = 16,
                            .vector_bits = form->groups ? 0 : 512,
                            .registers = form->groups ? 128 : 32,
                            .cache_bytes = 1 << 20,
                            .subgroup = form->groups ? 32 : 1,
                            .max_local = 1024,
                            .local_bytes = 48 << 10,
                            .max_params = 32,
                            .use = form->use,
                            .nmatrix = 1,
                            .matrix = {{*form->unit, form->rate}},
                            .fragments = form->unit->k == 32 ? 8 : 0};
        test_graph graph;
        bl_schedule *schedule = NULL;
        const bl_node *sink = NULL;
        bl_tune tune;
        bl_text text = {0};
        bl_move moves[BL_MAX_MOVES];
        int n = 0;

        test_graph_open(form->document, &graph);
        schedule = test_graph_schedule(&graph, target.units);
        sink = schedule->nests[0].sink;
        if (form->precision == BL_PRECISION_HIGH)
            bl_target_split(&target);
        if (target.precision == BL_PRECISION_HIGH)
            sink = bl_sink_relax(graph.graph->ir, sink);
        bl_tune_init(&tune, graph.graph->ir, sink, schedule->nests[0].nparams);
        bl_heuristic(&tune, &target);
        bl_tune_print(&tune, &text);
        if (form->moves[0] == '\0' ? strstr(bl_text_get(&text), "matrix") != NULL
                                   : strcmp(bl_text_get(&text), form->moves) != 0) {
            print_error("%s: \"%s\"; the table says \"%s\"\n", form->name, bl_text_get(&text), form->moves);
            wrong++;
        }
        assert_true(bl_moves_parse(bl_text_get(&text), moves, &n)); /* what is printed is read back */
        assert_int_equal(n, tune.nmoves);
        for (int k = 0; k < n; k++)
            assert_true(moves[k].kind == tune.moves[k].kind && moves[k].axis == tune.moves[k].axis &&
                        moves[k].amount == tune.moves[k].amount);
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
    assert_int_equal(wrong, 0);
}

/* A grid that is too large for the device: work-items take several iterations. */
static void test_few_groups(void **state)
{
    static const struct {
        const char *document, *moves;
        uint32_t most[3];
    } grids[] = {
        {"{'inputs': {'x': " F32(1000, 96) "}, 'nodes': [{'id': 'y', 'op': 'exp', 'in': ['x']}], 'outputs': ['y']}",
         "chunk 0 96",
         {1000, 1, 1}},
        {"{'inputs': {'x': " F32(997, 96) "}, 'nodes': [{'id': 'y', 'op': 'exp', 'in': ['x']}], 'outputs': ['y']}",
         "chunk 0 96",
         {1000, 1, 1}},
        {"{'inputs': {'x': " F32(64, 48) "}, 'nodes': [{'id': 'y', 'op': 'transpose', 'in': ['x']}], 'outputs': ['y']}",
         "",
         {64, 64, 1}},
        {"{'inputs': {'x': " F32(64, 48) "}, 'nodes': [{'id': 'y', 'op': 'transpose', 'in': ['x']}], 'outputs': ['y']}",
         "chunk 1 4, chunk 0 2",
         {16, 24, 1}},
        /* a prime: no share of it is without a rest, and not all can be tried */
        {"{'inputs': {'x': " F32(
             1) "}, 'nodes': [{'id': 'y', 'op': 'expand', 'in': ['x'], 'attrs': {'shape': [2305843009213693951]}}], "
                "'outputs': ['y']}",
         "chunk 0 35184908967937",
         {65535, 1, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        test_graph graph;
        bl_schedule *schedule = NULL;
        bl_tune tune;
        bl_text text = {0};

        test_graph_open(grids[i].document, &graph);
        schedule = test_graph_schedule(&graph, 2);
        bl_tune_init(&tune, graph.graph->ir, schedule->nests[0].sink, schedule->nests[0].nparams);
        assert_true(bl_tune_limit_groups(&tune, grids[i].most));
        bl_tune_print(&tune, &text);
        assert_string_equal(grids[i].moves, bl_text_get(&text));
        bl_text_fini(&text);
        test_graph_close(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_edges_apart),
                                       cmocka_unit_test(test_units), cmocka_unit_test(test_few_groups)};
    return cmocka_run_group_tests_name("forms", tests, NULL, NULL);
}
