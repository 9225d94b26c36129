/* SPDX-License-Identifier: MIT */
/* The number of kernels of graphs.  The table fails if fusion becomes worse, and also if it improves, so that the improvement
 * is recorded. */
#include "engine/ir/free.h"
#include "tests/plan/graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define F32(...) "{'dtype': 'float32', 'shape': [" #__VA_ARGS__ "]}"
#define I64(...) "{'dtype': 'int64', 'shape': [" #__VA_ARGS__ "]}"

typedef struct row {
    const char *name;
    int kernels, helpers;
    const char *document; /* or, if it begins with a letter, the name of a file in tests/cases */
} row;

/* clang-format off */
static const row rows[] = {
    {"elementwise chain", 1, 0, "{'inputs': {'x': " F32(1000, 1000) "}, 'nodes': [{'id': 'a', 'op': 'mul', 'in': ['x', 2]}, {'id': 'b', 'op': 'exp', 'in': ['a']}, {'id': 'c', 'op': 'tanh', 'in': ['b']}, {'id': 'd', 'op': 'add', 'in': ['c', 'x']}, {'id': 'e', 'op': 'relu', 'in': ['d']}, {'id': 'f', 'op': 'sub', 'in': ['e', 'b']}], 'outputs': ['f']}"},
    {"a chain and what is in it", 1, 0, "{'inputs': {'x': " F32(100, 100) "}, 'nodes': [{'id': 'a', 'op': 'mul', 'in': ['x', 2]}, {'id': 'b', 'op': 'exp', 'in': ['a']}, {'id': 'c', 'op': 'add', 'in': ['b', 'a']}], 'outputs': ['a', 'b', 'c']}"},
    {"movement copies nothing", 1, 0, "{'inputs': {'x': " F32(12, 30) "}, 'nodes': [{'id': 'a', 'op': 'transpose', 'in': ['x']}, {'id': 'b', 'op': 'reshape', 'in': ['a'], 'attrs': {'shape': [36, 10]}}, {'id': 'c', 'op': 'flip', 'in': ['b']}, {'id': 'd', 'op': 'pad', 'in': ['c'], 'attrs': {'padding': [[1, 1], [2, 0]]}}, {'id': 'e', 'op': 'add', 'in': ['d', 1]}], 'outputs': ['e']}"},
    {"cat", 1, 0, "{'inputs': {'x': " F32(12, 30) ", 'y': " F32(5, 30) "}, 'nodes': [{'id': 'a', 'op': 'exp', 'in': ['x']}, {'id': 'c', 'op': 'cat', 'in': ['a', 'y']}], 'outputs': ['c']}"},
    {"softmax", 1, 0, "softmax"},
    {"softmax of many rows", 1, 0, "{'inputs': {'x': " F32(65536, 1024) "}, 'nodes': [{'id': 'y', 'op': 'softmax', 'in': ['x']}], 'outputs': ['y']}"},
    {"log_softmax", 1, 0, "{'inputs': {'x': " F32(37, 53) "}, 'nodes': [{'id': 'y', 'op': 'log_softmax', 'in': ['x']}], 'outputs': ['y']}"},
    {"layer_norm", 1, 0, "layer_norm"},
    {"mean and variance", 1, 0, "{'inputs': {'x': " F32(64, 512) "}, 'nodes': [{'id': 'm', 'op': 'mean', 'in': ['x'], 'attrs': {'axis': 1}}, {'id': 'v', 'op': 'var', 'in': ['x'], 'attrs': {'axis': 1}}], 'outputs': ['m', 'v']}"},
    {"sums of columns beside those of as many rows, which would keep the lanes of the rows", 2, 0, "{'inputs': {'x': " F32(256, 256) ", 'y': " F32(256, 256) "}, 'nodes': [{'id': 'r', 'op': 'sum', 'in': ['x'], 'attrs': {'axis': 1}}, {'id': 'c', 'op': 'sum', 'in': ['y'], 'attrs': {'axis': 0}}], 'outputs': ['r', 'c']}"},
    {"argmax", 1, 0, "{'inputs': {'x': " F32(64, 512) "}, 'nodes': [{'id': 'm', 'op': 'argmax', 'in': ['x'], 'attrs': {'axis': 1}}], 'outputs': ['m']}"},
    {"cross_entropy", 1, 0, "{'inputs': {'x': " F32(64, 10) ", 't': " I64(64) "}, 'nodes': [{'id': 'l', 'op': 'cross_entropy', 'in': ['x', 't'], 'attrs': {'reduction': 'none'}}], 'outputs': ['l']}"},
    {"docs/api.md: run", 1, 0, "{'inputs': {'x': " F32(2, 3) "}, 'nodes': [{'id': 'y', 'op': 'mul', 'in': ['x', 2]}, {'id': 's', 'op': 'sum', 'in': ['y'], 'attrs': {'axis': 1}}], 'outputs': ['s']}"},
    {"docs/api.md: grad", 1, 0, "{'inputs': {'a': " F32(3) ", 'b': " F32(3) "}, 'nodes': [{'id': 'ab', 'op': 'mul', 'in': ['a', 'b']}, {'id': 'c', 'op': 'add', 'in': ['ab', 'a']}, {'id': 'd', 'op': 'sum', 'in': ['c']}, {'id': ['da', 'db'], 'op': 'grad', 'in': ['d', 'a', 'b']}], 'outputs': ['c', 'da', 'db']}"},
    {"matmul, bias, relu", 1, 0, "matmul"},
    {"a product and, for each element, a small sum: a kernel of its own", 2, 0, "{'inputs': {'x': " F32(256, 256) ", 'y': " F32(256, 256) ", 'z': " F32(256, 256, 8) "}, 'nodes': [{'id': 'm', 'op': 'matmul', 'in': ['x', 'y']}, {'id': 's', 'op': 'sum', 'in': ['z'], 'attrs': {'axis': 2}}, {'id': 'd', 'op': 'div', 'in': ['m', 's']}], 'outputs': ['d']}"},
    {"which a product as small shares", 1, 0, "{'inputs': {'x': " F32(32, 32) ", 'y': " F32(32, 32) ", 'z': " F32(32, 32, 2) "}, 'nodes': [{'id': 'm', 'op': 'matmul', 'in': ['x', 'y']}, {'id': 's', 'op': 'sum', 'in': ['z'], 'attrs': {'axis': 2}}, {'id': 'd', 'op': 'div', 'in': ['m', 's']}], 'outputs': ['d']}"},
    {"matmul of a transpose and a chain", 1, 0, "{'inputs': {'x': " F32(64, 48) ", 'y': " F32(64, 32) "}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['x']}, {'id': 'm', 'op': 'matmul', 'in': ['t', 'y']}, {'id': 'z', 'op': 'tanh', 'in': ['m']}], 'outputs': ['z']}"},
    {"conv2d, bias, relu", 1, 0, "{'inputs': {'x': " F32(8, 3, 28, 28) ", 'w': " F32(16, 3, 3, 3) ", 'b': " F32(16) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w', 'b'], 'attrs': {'padding': 1}}, {'id': 'y', 'op': 'relu', 'in': ['c']}], 'outputs': ['y']}"},
    {"conv2d by transforms, bias, relu: of the input, of the weight, products, back", 4, 0, "{'inputs': {'x': " F32(8, 128, 28, 28) ", 'w': " F32(128, 128, 3, 3) ", 'b': " F32(128) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w', 'b'], 'attrs': {'padding': 1, 'form': 'winograd'}}, {'id': 'y', 'op': 'relu', 'in': ['c']}], 'outputs': ['y']}"},
    {"rows left over: a result is cut out of whole tiles", 5, 0, "{'inputs': {'x': " F32(1, 128, 14, 14) ", 'w': " F32(128, 128, 3, 3) ", 'b': " F32(128) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w', 'b'], 'attrs': {'padding': 1, 'form': 'winograd'}}, {'id': 'y', 'op': 'relu', 'in': ['c']}], 'outputs': ['y']}"},
    {"with both gradients", 10, 0, "{'inputs': {'x': " F32(8, 128, 28, 28) ", 'w': " F32(128, 128, 3, 3) ", 'b': " F32(128) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w', 'b'], 'attrs': {'padding': 1, 'form': 'winograd'}}, {'id': 'y', 'op': 'relu', 'in': ['c']}, {'id': 's', 'op': 'sum', 'in': ['y']}, {'id': ['dx', 'dw'], 'op': 'grad', 'in': ['s', 'x', 'w']}], 'outputs': ['y', 'dx', 'dw']}"},
    {"a gradient whose cotangent is costly: that gets a buffer, and not its products with the weight", 2, 0, "{'inputs': {'x': " F32(8, 64, 1, 1) ", 'w': " F32(64, 64, 3, 3) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1}}, {'id': 'y', 'op': 'gelu', 'in': ['c']}, {'id': 'l', 'op': 'sum', 'in': ['y']}, {'id': ['g'], 'op': 'grad', 'in': ['l', 'x']}], 'outputs': ['g']}"},
    {"... nor does what the padding cuts off", 2, 0, "{'inputs': {'x': " F32(8, 64, 4, 4) ", 'w': " F32(64, 64, 3, 3) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1}}, {'id': 'y', 'op': 'gelu', 'in': ['c']}, {'id': 'l', 'op': 'sum', 'in': ['y']}, {'id': ['g'], 'op': 'grad', 'in': ['l', 'x']}], 'outputs': ['g']}"},
    {"a gradient of windows that lie beside each other: no sum over their places is left", 1, 0, "{'inputs': {'x': " F32(4, 3, 32, 32) ", 'w': " F32(64, 3, 8, 8) ", 'g': " F32(4, 64, 4, 4) "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'stride': 8}}, {'id': 'dx', 'op': 'grad', 'in': ['c', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['dx']}"},
    {"max_pool2d", 1, 0, "{'inputs': {'x': " F32(8, 3, 28, 28) "}, 'nodes': [{'id': 'c', 'op': 'max_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 2}}], 'outputs': ['c']}"},
    {"embedding", 1, 0, "{'inputs': {'x': " F32(1000, 64) ", 'i': " I64(8, 16) ", 'p': " F32(16, 64) "}, 'nodes': [{'id': 'e', 'op': 'take', 'in': ['x', 'i']}, {'id': 'y', 'op': 'add', 'in': ['e', 'p']}], 'outputs': ['y']}"},
    {"big sum", 1, 1, "{'inputs': {'x': " F32(1024, 4096) "}, 'nodes': [{'id': 's', 'op': 'sum', 'in': ['x']}], 'outputs': ['s']}"},
    {"big mean square", 1, 1, "{'inputs': {'x': " F32(1024, 4096) ", 'y': " F32(1024, 4096) "}, 'nodes': [{'id': 'd', 'op': 'sub', 'in': ['x', 'y']}, {'id': 'q', 'op': 'square', 'in': ['d']}, {'id': 's', 'op': 'mean', 'in': ['q']}], 'outputs': ['s']}"},
    {"adam of one tensor, and its step count", 2, 0, "{'inputs': {'x': " F32(64, 32) "}, 'state': {'w': " F32(64, 32) "}, 'nodes': [{'id': 'l', 'op': 'mul', 'in': ['x', 'w']}, {'id': 'loss', 'op': 'sum', 'in': ['l']}, {'id': ['w1'], 'op': 'adam', 'in': ['loss', 'w']}], 'updates': {'w': 'w1'}, 'outputs': []}"},
    {"attention", 1, 0, "{'inputs': {'q': " F32(2, 64, 32) ", 'k': " F32(2, 64, 32) ", 'v': " F32(2, 64, 32) "}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['k']}, {'id': 's', 'op': 'matmul', 'in': ['q', 't']}, {'id': 'p', 'op': 'softmax', 'in': ['s']}, {'id': 'y', 'op': 'matmul', 'in': ['p', 'v']}], 'outputs': ['y']}"},
    {"the op, causal, with fewer heads of keys", 1, 0, "{'inputs': {'q': " F32(2, 4, 64, 16) ", 'k': " F32(2, 2, 64, 16) ", 'v': " F32(2, 2, 64, 16) "}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v'], 'attrs': {'causal': true, 'grouped': true}}], 'outputs': ['y']}"},
    {"with a mask for all heads", 1, 0, "{'inputs': {'q': " F32(2, 4, 64, 16) ", 'k': " F32(2, 4, 64, 16) ", 'v': " F32(2, 4, 64, 16) ", 'm': {'dtype': 'bool', 'shape': [64, 64]}}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v', 'm']}], 'outputs': ['y']}"},
    {"with dropout of the probabilities", 1, 0, "{'inputs': {'q': " F32(2, 64, 16) ", 'k': " F32(2, 64, 16) ", 'v': " F32(2, 64, 16) ", 'key': " I64() "}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['k']}, {'id': 's', 'op': 'matmul', 'in': ['q', 't']}, {'id': 'p', 'op': 'softmax', 'in': ['s']}, {'id': 'd', 'op': 'dropout', 'in': ['p', 'key'], 'attrs': {'p': 0.1}}, {'id': 'y', 'op': 'matmul', 'in': ['d', 'v']}], 'outputs': ['y']}"},
    {"attention and its gradient", 2, 0, "{'inputs': {'q': " F32(2, 128, 32) ", 'k': " F32(2, 128, 32) ", 'v': " F32(2, 128, 32) ", 'w': " F32(2, 128, 32) "}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v']}, {'id': 'z', 'op': 'mul', 'in': ['y', 'w']}, {'id': 's', 'op': 'sum', 'in': ['z']}, {'id': ['dq', 'dk', 'dv'], 'op': 'grad', 'in': ['s', 'q', 'k', 'v']}], 'outputs': ['y', 'dq', 'dk', 'dv']}"},
    {"random numbers, and their state", 2, 0, "{'nodes': [{'id': 'u', 'op': 'uniform', 'attrs': {'shape': [1000]}}], 'outputs': ['u']}"},
    {"sines that values of two shapes are multiplied by: they are computed once", 3, 0, "{'inputs': {'a': " F32(64, 32) ", 'q': " F32(64, 9, 32) ", 'k': " F32(64, 3, 32) "}, 'nodes': [{'id': 's', 'op': 'sin', 'in': ['a']}, {'id': 't', 'op': 'reshape', 'in': ['s'], 'attrs': {'shape': [64, 1, 32]}}, {'id': 'x', 'op': 'mul', 'in': ['q', 't']}, {'id': 'y', 'op': 'mul', 'in': ['k', 't']}], 'outputs': ['x', 'y']}"},
    {"... where exponentials are not worth a buffer", 2, 0, "{'inputs': {'a': " F32(64, 32) ", 'q': " F32(64, 9, 32) ", 'k': " F32(64, 3, 32) "}, 'nodes': [{'id': 's', 'op': 'exp', 'in': ['a']}, {'id': 't', 'op': 'reshape', 'in': ['s'], 'attrs': {'shape': [64, 1, 32]}}, {'id': 'x', 'op': 'mul', 'in': ['q', 't']}, {'id': 'y', 'op': 'mul', 'in': ['k', 't']}], 'outputs': ['x', 'y']}"},
    {"a factor that a product computes for each of many tiles gets a buffer", 2, 0, "{'inputs': {'x': " F32(64, 576) ", 'r': " F32(64, 1) ", 'n': " F32(576) ", 'w': " F32(576, 64) "}, 'nodes': [{'id': 'a', 'op': 'mul', 'in': ['x', 'r']}, {'id': 'b', 'op': 'mul', 'in': ['a', 'n']}, {'id': 'y', 'op': 'matmul', 'in': ['b', 'w']}], 'outputs': ['y']}"},
    {"... where they are few, none", 1, 0, "{'inputs': {'x': " F32(64, 576) ", 'r': " F32(64, 1) ", 'n': " F32(576) ", 'w': " F32(576, 48) "}, 'nodes': [{'id': 'a', 'op': 'mul', 'in': ['x', 'r']}, {'id': 'b', 'op': 'mul', 'in': ['a', 'n']}, {'id': 'y', 'op': 'matmul', 'in': ['b', 'w']}], 'outputs': ['y']}"},
    {"a sum and a difference", 1, 0, "{'inputs': {'a': " F32(64, 64) ", 'b': " F32(64, 64) "}, 'nodes': [{'id': 's', 'op': 'add', 'in': ['a', 'b']}, {'id': 'd', 'op': 'sub', 'in': ['a', 'b']}], 'outputs': ['s', 'd']}"},
    {"std", 1, 0, "{'inputs': {'x': " F32(64, 512) "}, 'nodes': [{'id': 'm', 'op': 'std', 'in': ['x'], 'attrs': {'axis': 1}}], 'outputs': ['m']}"},
    {"group_norm", 2, 0, "{'inputs': {'x': " F32(4, 8, 16, 16) ", 'w': " F32(8) ", 'b': " F32(8) "}, 'nodes': [{'id': 'y', 'op': 'group_norm', 'in': ['x', 'w', 'b'], 'attrs': {'groups': 2}}], 'outputs': ['y']}"},
    {"... and its gradients: the sums of a channel share a nest, since both read each element of the gradient once", 3, 0, "{'inputs': {'x': " F32(8, 256, 28, 28) ", 'w': " F32(256) ", 'b': " F32(256) ", 'g': " F32(8, 256, 28, 28) "}, 'nodes': [{'id': 'y', 'op': 'group_norm', 'in': ['x', 'w', 'b'], 'attrs': {'groups': 32}}, {'id': ['dx', 'dw', 'db'], 'op': 'grad', 'in': ['y', 'x', 'w', 'b', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['y', 'dx', 'dw', 'db']}"},
    {"cumsum of 4096: not all sums of blocks again for each block", 3, 0, "{'inputs': {'x': " F32(4096) "}, 'nodes': [{'id': 'y', 'op': 'cumsum', 'in': ['x']}], 'outputs': ['y']}"},
    {"sort of 64: not all ranks again for each element", 2, 0, "{'inputs': {'x': " F32(64) "}, 'nodes': [{'id': ['y', 'i'], 'op': 'sort', 'in': ['x']}], 'outputs': ['y', 'i']}"},
    {"sort of 4096", 7, 0, "{'inputs': {'x': " F32(4096) "}, 'nodes': [{'id': ['y', 'i'], 'op': 'sort', 'in': ['x']}], 'outputs': ['y', 'i']}"},
    {"scatter", 1, 0, "{'inputs': {'x': " F32(1000) ", 'i': " I64(500) ", 's': " F32(500) "}, 'nodes': [{'id': 'y', 'op': 'scatter', 'in': ['x', 'i', 's']}], 'outputs': ['y']}"},
    {"einsum of three", 2, 0, "{'inputs': {'x': " F32(32, 48) ", 'y': " F32(48, 64) ", 'z': " F32(64, 16) "}, 'nodes': [{'id': 'e', 'op': 'einsum', 'in': ['x', 'y', 'z'], 'attrs': {'equation': 'ij,jk,kl->il'}}], 'outputs': ['e']}"},
    {"fft of 1024: the roots, once, and its two steps", 3, 0, "{'inputs': {'x': " F32(1024) "}, 'nodes': [{'id': ['r', 'i'], 'op': 'fft', 'in': ['x']}], 'outputs': ['r', 'i']}"},
    {"rows drawn by a permutation, and its state", 3, 0, "{'inputs': {'x': " F32(1000, 784) "}, 'nodes': [{'id': 'p', 'op': 'randperm', 'attrs': {'n': 1000}}, {'id': 'i', 'op': 'slice', 'in': ['p'], 'attrs': {'stop': 128}}, {'id': 'c', 'op': 'contiguous', 'in': ['i']}, {'id': 'b', 'op': 'take', 'in': ['x', 'c']}, {'id': 'y', 'op': 'mul', 'in': ['b', 0.5]}], 'outputs': ['y']}"},
    {"scan: a recurrence, its start and stacked outputs", 1, 0, "{'inputs': {'h': {'dtype': 'float32', 'shape': [3, 20]}, 'xs': {'dtype': 'float32', 'shape': [7, 3, 20]}, 'w': {'dtype': 'float32', 'shape': [20, 20]}}, 'nodes': [{'id': ['last', 'ys'], 'op': 'scan', 'in': ['h', 'xs', 'w'], 'attrs': {'body': {'inputs': ['h', 'x', 'w'], 'nodes': [{'id': 'm', 'op': 'matmul', 'in': ['h', 'w']}, {'id': 's', 'op': 'add', 'in': ['x', 'm']}, {'id': 'n', 'op': 'tanh', 'in': ['s']}, {'id': 'y', 'op': 'mul', 'in': ['n', 'n']}], 'outputs': ['n', 'y']}, 'sequences': 1}}], 'outputs': ['last', 'ys']}"},
    {"scan: the cell of an LSTM, a step", 2, 0, "{'inputs': {'x': {'dtype': 'float32', 'shape': [5, 4, 6]}, 'z': {'dtype': 'float32', 'shape': [4, 9]}, 'wi': {'dtype': 'float32', 'shape': [36, 6]}, 'wh': {'dtype': 'float32', 'shape': [36, 9]}}, 'nodes': [{'id': ['h', 'c', 'ys'], 'op': 'scan', 'in': ['z', 'z', 'x', 'wi', 'wh'], 'attrs': {'body': {'inputs': ['h', 'c', 'x', 'wi', 'wh'], 'nodes': [{'id': ['h1', 'c1'], 'op': 'lstm_cell', 'in': ['x', 'h', 'c', 'wi', 'wh']}], 'outputs': ['h1', 'c1', 'h1']}, 'carries': 2, 'sequences': 1}}], 'outputs': ['h', 'c', 'ys']}"},
    {"rows drawn by a permutation with a key, which is no state", 2, 0, "{'inputs': {'x': " F32(1000, 784) ", 'k': " I64() "}, 'nodes': [{'id': 'p', 'op': 'randperm', 'in': ['k'], 'attrs': {'n': 1000}}, {'id': 'i', 'op': 'slice', 'in': ['p'], 'attrs': {'stop': 128}}, {'id': 'c', 'op': 'contiguous', 'in': ['i']}, {'id': 'b', 'op': 'take', 'in': ['x', 'c']}, {'id': 'y', 'op': 'mul', 'in': ['b', 0.5]}], 'outputs': ['y']}"},
    {"cross entropy of labels that are looked up, and its gradient", 4, 0, "{'inputs': {'h': " F32(128, 64) ", 'w': " F32(10, 64) ", 'y': {'dtype': 'uint8', 'shape': [60000]}, 'i': " I64(128) "}, 'nodes': [{'id': 'x', 'op': 'linear', 'in': ['h', 'w']}, {'id': 't', 'op': 'take', 'in': ['y', 'i']}, {'id': 'l', 'op': 'cross_entropy', 'in': ['x', 't']}, {'id': 'g', 'op': 'grad', 'in': ['l', 'w']}], 'outputs': ['l', 'g']}"},
    {"the gradient of one take after another", 2, 0, "{'inputs': {'x': " F32(1000, 64) ", 'i': " I64(500) ", 'j': " I64(256) ", 'g': " F32(256, 64) "}, 'nodes': [{'id': 'a', 'op': 'take', 'in': ['x', 'i']}, {'id': 'b', 'op': 'take', 'in': ['a', 'j']}, {'id': 'p', 'op': 'mul', 'in': ['b', 'g']}, {'id': 'l', 'op': 'sum', 'in': ['p']}, {'id': 'd', 'op': 'grad', 'in': ['l', 'x']}], 'outputs': ['d']}"},
    {"a pooling between convolutions is none of the second one's phases: it reads more than it is", 3, 0, "{'inputs': {'x': " F32(2, 3, 67, 67) ", 'u': " F32(96, 3, 7, 7) ", 'v': " F32(16, 96, 1, 1) "}, 'nodes': [{'id': 'a', 'op': 'conv2d', 'in': ['x', 'u'], 'attrs': {'stride': 2}}, {'id': 'm', 'op': 'max_pool2d', 'in': ['a'], 'attrs': {'kernel_size': 3, 'stride': 2}}, {'id': 'y', 'op': 'conv2d', 'in': ['m', 'v']}], 'outputs': ['y']}"},
    {"cat of inputs before a product: a value of its own", 2, 0, "{'inputs': {'x': " F32(64, 100) ", 'z': " F32(64, 200) ", 'w': " F32(300, 128) "}, 'nodes': [{'id': 'c', 'op': 'cat', 'in': ['x', 'z'], 'attrs': {'axis': 1}}, {'id': 'y', 'op': 'matmul', 'in': ['c', 'w']}], 'outputs': ['y']}"},
    {"MLP, one SGD step", 9, 0, "mlp_sgd"},
    {"CNN, one Adam step", 19, 0, "cnn_adam"},
};
/* clang-format on */

static char *read_case(const char *name)
{
    char path[128];
    char *text = calloc(1, 1 << 16);
    FILE *file = NULL;
    snprintf(path, sizeof path, "tests/cases/%s.json", name);
    file = fopen(path, "rb");
    if (file == NULL || fread(text, 1, (1 << 16) - 1, file) == 0)
        fail_msg("cannot read %s; the test runs in the root of the sources", path);
    fclose(file);
    return text;
}

/* Schedules |text| and counts its kernels; if the count differs from the table, prints the nests to stderr and returns
 * false. */
static bool has_kernels(const char *name, const char *text, bool groups, int want_kernels, int want_helpers)
{
    int kernels = 0, helpers = 0;
    test_graph g;
    bl_schedule *schedule = NULL;

    test_graph_open(text, &g);
    schedule = groups ? test_graph_schedule_groups(&g, 2) : test_graph_schedule(&g, 2);
    for (int k = 0; k < schedule->nnests; k++) {
        kernels += !schedule->nests[k].helper;
        helpers += schedule->nests[k].helper;
    }
    if (kernels != want_kernels || helpers != want_helpers) {
        print_error("%s: %d kernels and %d helpers, the table says %d and %d%s\n", name, kernels, helpers, want_kernels,
                    want_helpers, kernels + helpers < want_kernels + want_helpers ? ": better; correct the table" : "");
        for (int k = 0; k < schedule->nnests; k++)
            print_error("    %s%s\n", schedule->nests[k].name, schedule->nests[k].helper ? " (helper)" : "");
    }
    test_graph_close(&g);
    return kernels == want_kernels && helpers == want_helpers;
}

static void test_kernels(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        char *text = r->document[0] == '{' ? NULL : read_case(r->document);
        wrong += !has_kernels(r->name, text == NULL ? r->document : text, false, r->kernels, r->helpers);
        free(text);
    }
    assert_int_equal(wrong, 0);
}

#define ATTEND(n, d, attrs)                                                                                                      \
    "{'inputs': {'q': " F32(2, n, d) ", 'k': " F32(2, n, d) ", 'v': " F32(2, n, d) ", 'w': " F32(                                \
        2, n, d) "}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v'], 'attrs': {" attrs "}}, "                    \
                 "{'id': ['dq', 'dk', 'dv'], 'op': 'grad', 'in': ['y', 'q', 'k', 'v', 'w'], 'attrs': {'cotangent': true}}], "

/* For devices with work-groups: graphs that are one kernel, and graphs that do not qualify or are too wide for a work-group. */
static const row group_rows[] = {
    {"attention", 1, 0, ATTEND(128, 32, "") "'outputs': ['y']}"},
    {"attention, causal", 1, 0, ATTEND(97, 9, "'causal': true") "'outputs': ['y']}"},
    {"attention and its gradient", 2, 0, ATTEND(128, 32, "") "'outputs': ['y', 'dq', 'dk', 'dv']}"},
    {"with heads that share keys, and its gradient", 2, 0,
     "{'inputs': {'q': " F32(1, 6, 64, 16) ", 'k': " F32(1, 2, 64, 16) ", 'v': " F32(1, 2, 64, 16) ", 'w': " F32(
         1, 6, 64, 16) "}, 'nodes': [{'id': 'y', 'op': 'attention', 'in': ['q', 'k', 'v'], 'attrs': {'grouped': true}}, {'id': "
                       "['dq', 'dk', 'dv'], 'op': 'grad', 'in': ['y', 'q', 'k', 'v', 'w'], 'attrs': {'cotangent': true}}], "
                       "'outputs': ['y', 'dq', 'dk', 'dv']}"},
    {"with dropout of the probabilities", 1, 0,
     "{'inputs': {'q': " F32(2, 64, 16) ", 'k': " F32(2, 64, 16) ", 'v': " F32(
         2, 64,
         16) ", 'key': " I64() "}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['k']}, {'id': 's', 'op': 'matmul', 'in': "
                               "['q', 't']}, {'id': 'p', 'op': 'softmax', 'in': ['s']}, {'id': 'd', 'op': 'dropout', 'in': ['p', "
                               "'key'], 'attrs': {'p': 0.1}}, {'id': 'y', 'op': 'matmul', 'in': ['d', 'v']}], 'outputs': ['y']}"},
    {"heads wider than a group", 3, 0, ATTEND(600, 300, "") "'outputs': ['y']}"},
    {"exps of exps, which follow no maximum", 3, 0,
     "{'inputs': {'q': " F32(2, 64, 16) ", 'k': " F32(2, 64, 16) ", 'v': " F32(
         2, 64, 16) "}, 'nodes': [{'id': 't', 'op': 'transpose', 'in': ['k']}, {'id': 's', 'op': 'matmul', 'in': ['q', 't']}, "
                    "{'id': 'p', 'op': 'softmax', 'in': ['s']}, {'id': 'e', 'op': 'exp', 'in': ['p']}, {'id': 'y', 'op': "
                    "'matmul', 'in': ['e', 'v']}], 'outputs': ['y']}"},
    {"a feed-forward block", 2, 0,
     "{'inputs': {'x': " F32(4096, 32) ", 'u': " F32(32, 128) ", 'v': " F32(
         128, 32) "}, 'nodes': [{'id': 'h', 'op': 'matmul', 'in': ['x', 'u']}, {'id': 'g', 'op': 'gelu', 'in': ['h']}, {'id': "
                  "'y', 'op': 'matmul', 'in': ['g', 'v']}], 'outputs': ['y']}"},
    {"a max pooling, whose gradient reads a maximum, between convolutions", 8, 0,
     "{'inputs': {'x': " F32(64, 1, 28, 28) ", 'u': " F32(32, 1, 3, 3) ", 'b': " F32(32) ", 'v': " F32(
         64, 32, 3,
         3) ", 'g': " F32(64, 64, 5,
                          5) "}, 'nodes': [{'id': 'a', 'op': 'conv2d', 'in': ['x', 'u', 'b']}, {'id': 'r', 'op': 'relu', 'in': "
                             "['a']}, {'id': 'm', 'op': 'max_pool2d', 'in': ['r'], 'attrs': {'kernel_size': 2}}, {'id': 'c', "
                             "'op': "
                             "'conv2d', 'in': ['m', 'v']}, {'id': 'y', 'op': 'max_pool2d', 'in': ['c'], 'attrs': {'kernel_size': "
                             "2}}, {'id': ['du', 'db'], 'op': 'grad', 'in': ['y', 'u', 'b', 'g'], 'attrs': "
                             "{'cotangent': true}}], 'outputs': ['du', 'db']}"},
};

static void test_groups(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof group_rows / sizeof group_rows[0]; i++)
        wrong += !has_kernels(group_rows[i].name, group_rows[i].document, true, group_rows[i].kernels, group_rows[i].helpers);
    assert_int_equal(wrong, 0);
}

/* An optimiser step over all parameters of the CNN is fused into the kernels of their gradients: at most two more kernels. */
static void test_optimisers(void **state)
{
    static const char before[] = "{\"id\": [\"w1n\"", updates[] = "\"updates\":";
    static const struct {
        const char *op, *attrs;
    } steps[] = {{"sgd", "'lr': 0.1"},
                 {"sgd", "'lr': 0.1, 'momentum': 0.9, 'nesterov': true, 'weight_decay': 0.01"},
                 {"adam", ""},
                 {"adamw", "'weight_decay': 0.01"}};
    char *text = read_case("cnn_adam"), *end = strstr(text, before);
    char document[1 << 13];
    int wrong = 0;

    (void)state;
    assert_non_null(end);
    *end = '\0';
    end = strstr(end + 1, updates);
    assert_non_null(end);
    snprintf(document, sizeof document,
             "%s{'id': ['g1', 'g2', 'g3', 'g4', 'g5', 'g6'], 'op': 'grad', 'in': ['loss', 'w1', 'b1', 'w2', "
             "'b2', 'w3', 'b3']}], 'outputs': ['loss', 'g1', 'g2', 'g3', 'g4', 'g5', 'g6']}",
             text);
    wrong += !has_kernels("CNN, gradients alone", document, false, 19, 0);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        snprintf(document, sizeof document,
                 "%s{'id': ['w1n', 'b1n', 'w2n', 'b2n', 'w3n', 'b3n'], 'op': '%s', 'in': ['loss', 'w1', 'b1', "
                 "'w2', 'b2', 'w3', 'b3'], 'attrs': {%s}}], %s",
                 text, steps[i].op, steps[i].attrs, end);
        wrong += !has_kernels(steps[i].op, document, false, 19, 0);
    }
    free(text);
    assert_int_equal(wrong, 0);
}

/* The result of a relu is materialized, not its operand: later products, forward and backward, do not repeat the comparison. */
static void test_relu(void **state)
{
    static const char document[] = "{'inputs': {'x': " F32(4, 1, 12, 12) ", 'u': " F32(8, 1, 3, 3) ", 'v': " F32(
        8, 8, 3, 3) "}, 'nodes': ["
                    "{'id': 'a', 'op': 'conv2d', 'in': ['x', 'u']}, {'id': 'r', 'op': 'relu', 'in': ['a']}, {'id': 'b', 'op': "
                    "'conv2d', 'in': "
                    "['r', 'v']}, {'id': 's', 'op': 'relu', 'in': ['b']}, {'id': 'q', 'op': 'square', 'in': ['s']}, {'id': 'l', "
                    "'op': 'sum', "
                    "'in': ['q']}, {'id': ['du', 'dv'], 'op': 'grad', 'in': ['l', 'u', 'v']}], 'outputs': ['du', 'dv']}";
    test_graph g;
    const bl_schedule *schedule = NULL;
    int products = 0;

    (void)state;
    test_graph_open(document, &g);
    schedule = test_graph_schedule(&g, 2);
    for (int i = 0; i < schedule->nnests; i++) {
        bl_nodes below = bl_reach(g.graph->ir, 1, &schedule->nests[i].sink, false);
        for (size_t k = 0; k < below.count; k++) {
            const bl_node *reduce = below.at[k];
            if (reduce->op != BL_OP_REDUCE || reduce->src[0]->op != BL_OP_MUL)
                continue;
            bl_nodes inside = bl_reach(g.graph->ir, 1, reduce->src, false);
            products++;
            for (size_t m = 0; m < inside.count; m++) {
                if (inside.at[m]->op == BL_OP_CMPLT && inside.at[m]->src[0]->dtype == BL_F32)
                    fail_msg("%s compares inside its sum", schedule->nests[i].name);
            }
        }
    }
    test_graph_close(&g);
    assert_in_range(products, 4, 6);
}

/* Does a nest of |document| keep a value in local memory? */
static bool has_stage(const char *document)
{
    test_graph g;
    const bl_schedule *schedule = NULL;
    bool staged = false;

    test_graph_open(document, &g);
    schedule = test_graph_schedule(&g, 2);
    for (int n = 0; n < schedule->nnests; n++) {
        bl_nodes below = bl_reach(g.graph->ir, 1, &schedule->nests[n].sink, false);
        for (size_t k = 0; k < below.count; k++)
            staged = staged || below.at[k]->op == BL_OP_STAGE;
    }
    test_graph_close(&g);
    return staged;
}

/* The activation between two layers is a phase of the nest that computes the first product.  The gradient of the second weight
 * reads that product from a buffer and recomputes the activation in place: no nest has a stage. */
static void test_cheap_is_no_stage(void **state)
{
    static const char document[] =
        "{'inputs': {'x': " F32(512, 128) ", 'g': " F32(512, 128) ", 'w1': " F32(512, 128) ", 'b1': " F32(512) ", 'w2': " F32(
            128, 512) "}, 'nodes': ["
                      "{'id': 'h', 'op': 'linear', 'in': ['x', 'w1', 'b1']}, {'id': 'a', 'op': 'gelu', 'in': ['h']}, "
                      "{'id': 'o', 'op': 'linear', 'in': ['a', 'w2']}, {'id': 'q', 'op': 'mul', 'in': ['o', 'g']}, "
                      "{'id': 'l', 'op': 'sum', 'in': ['q']}, {'id': ['d1', 'd2'], 'op': 'grad', 'in': ['l', 'w1', 'w2']}], "
                      "'outputs': ['d1', 'd2']}";

    (void)state;
    assert_false(has_stage(document));
}

/* The weights of a large feed-forward block would be read again for each row of its hidden values, so the hidden values are
 * materialized, and products of all rows read the weights once.  A small block keeps its hidden values in local memory. */
static void test_large_is_no_stage(void **state)
{
    static const struct {
        const char *document;
        bool staged;
    } cases[] = {{"{'inputs': {'x': " F32(16384, 64) ", 'w1': " F32(256, 64) ", 'w2': " F32(
                      64, 256) "}, 'nodes': ["
                               "{'id': 'h', 'op': 'linear', 'in': ['x', 'w1']}, {'id': 'a', 'op': 'silu', 'in': ['h']}, "
                               "{'id': 'o', 'op': 'linear', 'in': ['a', 'w2']}], 'outputs': ['o']}",
                  true},
                 {"{'inputs': {'x': " F32(16384, 512) ", 'w1': " F32(2048, 512) ", 'w2': " F32(
                      512, 2048) "}, 'nodes': ["
                                 "{'id': 'h', 'op': 'linear', 'in': ['x', 'w1']}, {'id': 'a', 'op': 'silu', 'in': ['h']}, "
                                 "{'id': 'o', 'op': 'linear', 'in': ['a', 'w2']}], 'outputs': ['o']}",
                  false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (has_stage(cases[i].document) != cases[i].staged)
            fail_msg("case %zu: the hidden values are %s local memory", i, cases[i].staged ? "not in" : "in");
    }
}

/* The blocks of a MobileNet: a depthwise convolution reuses its operand by windows only, so no stage holds its result for the
 * product that reads it. The second document has a product before a larger product, which folds nothing. */
static void test_windows_are_no_stage(void **state)
{
    static const char *const documents[] = {
        "{'inputs': {'x': " F32(1, 40, 14, 14) ", 'u': " F32(240, 40, 1, 1) ", 'v': " F32(240, 1, 5, 5) ", 'w': " F32(
            40, 240, 1, 1) "}, 'nodes': ["
                           "{'id': 'a', 'op': 'conv2d', 'in': ['x', 'u']}, {'id': 'b', 'op': 'hardswish', 'in': ['a']}, "
                           "{'id': 'c', 'op': 'conv2d', 'in': ['b', 'v'], 'attrs': {'padding': 2, 'groups': 240}}, "
                           "{'id': 'd', 'op': 'hardswish', 'in': ['c']}, "
                           "{'id': 'e', 'op': 'conv2d', 'in': ['d', 'w']}], 'outputs': ['e']}",
        "{'inputs': {'x': " F32(1, 16, 56, 56) ", 't': " F32(16, 16, 1, 1) ", 'u': " F32(72, 16, 1, 1) ", 'v': " F32(
            72, 1, 3,
            3) ", 'w': " F32(24, 72, 1,
                             1) "}, 'nodes': ["
                                "{'id': 'a', 'op': 'conv2d', 'in': ['x', 't']}, {'id': 'b', 'op': 'conv2d', 'in': ['a', 'u']}, "
                                "{'id': 'c', 'op': 'relu', 'in': ['b']}, "
                                "{'id': 'd', 'op': 'conv2d', 'in': ['c', 'v'], 'attrs': {'padding': 1, 'stride': 2, 'groups': "
                                "72}}, "
                                "{'id': 'e', 'op': 'relu', 'in': ['d']}, {'id': 'f', 'op': 'conv2d', 'in': ['e', 'w']}], "
                                "'outputs': ['f']}"};

    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        if (has_stage(documents[i]))
            fail_msg("document %zu keeps a value in local memory", i);
    }
}

#define FIRE_BY(form, more, outputs)                                                                                             \
    "{'inputs': {'x': " F32(4, 16, 10, 10) ", 'u': " F32(32, 16, 1, 1) ", 'v': " F32(24, 16, 3, 3) ", 'w': " F32(                \
        8, 56, 1,                                                                                                                \
        1) "}, 'nodes': [{'id': 'p', 'op': 'conv2d', 'in': ['x', 'u']}, {'id': 'a', 'op': 'relu', 'in': ['p']}, "                \
           "{'id': 'q', 'op': 'conv2d', 'in': ['x', 'v'], 'attrs': {'padding': 1, 'form': '" form "'}}, "                        \
           "{'id': 'b', 'op': 'relu', 'in': ['q']}, {'id': 'c', 'op': 'cat', 'in': ['a', 'b'], 'attrs': {'axis': 1}}" more       \
           "], 'outputs': [" outputs "]}"

#define FIRE(more, outputs) FIRE_BY("direct", more, outputs)

/* The parameter that nest |k| writes first. */
static int written(const bl_schedule *schedule, int k)
{
    return schedule->nests[k].param[schedule->nests[k].sink->src[0]->src[0]->arg];
}

/* Do two nests write to one parameter? */
static bool writes_in_place(const bl_schedule *schedule)
{
    for (int i = 0; i < schedule->nnests; i++) {
        for (int k = 0; k < i; k++) {
            if (written(schedule, k) == written(schedule, i))
                return true;
        }
    }
    return false;
}

/* The parts of a concatenation are stored directly at their positions; a part with another reader is copied. */
static void test_parts_in_place(void **state)
{
    static const struct {
        const char *document;
        int nests;
        bool in_place;
    } cases[] = {
        {FIRE("", "'c'"), 2, true},
        {FIRE(", {'id': 'y', 'op': 'conv2d', 'in': ['c', 'w']}", "'y'"), 3, true},
        {FIRE(", {'id': 'm', 'op': 'max_pool2d', 'in': ['c'], 'attrs': {'kernel_size': 3, 'stride': 2}}", "'m'"), 3, true},
        {FIRE_BY("winograd",
                 ", {'id': 'm', 'op': 'max_pool2d', 'in': ['c'], 'attrs': {'kernel_size': 3, 'stride': 2, 'padding': 1}}", "'m'"),
         7, true},
        {FIRE("", "'c', 'a'"), 3, false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_graph g;
        const bl_schedule *schedule = NULL;
        test_graph_open(cases[i].document, &g);
        schedule = test_graph_schedule(&g, 2);
        if (schedule->nnests != cases[i].nests || writes_in_place(schedule) != cases[i].in_place)
            fail_msg("case %zu: %d nests, in place: %d", i, schedule->nnests, writes_in_place(schedule));
        test_graph_close(&g);
    }
}

/* A costly part of a large concatenation has a nest of its own, since the nest of the concatenation would compute the part for
 * the elements of the other parts too. */
static void test_costly_part(void **state)
{
    static const char *const documents[] = {
        "{'inputs': {'x': " F32(64, 400) ", 'y': " F32(
            32,
            400) "}, 'nodes': [{'id': 's', 'op': 'sin', 'in': ['y']}, {'id': 'c', 'op': 'cat', 'in': ['x', 's']}], 'outputs': "
                 "['c']}",
        "{'inputs': {'x': " F32(64, 40) ", 'y': " F32(
            32, 40) "}, 'nodes': [{'id': 's', 'op': 'sin', 'in': ['y']}, {'id': 'c', 'op': 'cat', 'in': ['x', 's']}], 'outputs': "
                    "['c']}",
        "{'inputs': {'x': " F32(64, 400) ", 'y': " F32(
            32, 400) "}, 'nodes': [{'id': 's', 'op': 'sin', 'in': ['y']}, {'id': 'c', 'op': 'cat', 'in': ['x', 's']}, "
                     "{'id': 'r', 'op': 'relu', 'in': ['c']}], 'outputs': ['r']}"};
    static const int nests[] = {2, 1, 2};

    (void)state;
    for (int i = 0; i < 3; i++) {
        test_graph g;
        test_graph_open(documents[i], &g);
        assert_int_equal(test_graph_schedule(&g, 2)->nnests, nests[i]);
        test_graph_close(&g);
    }
}

/* A block of a DenseNet: products read concatenations of all results before. Stages for the smaller concatenations assume that
 * the pooled picture is computed in a stage too; it gets a buffer since the last product reads windows, and then
 * nothing is gained by stages. */
static void test_dense_block(void **state)
{
    enum { LAYERS = 4, FIRST = 64, MORE = 32 };
    bl_text inputs = {0}, text = {0}, parts = {0};

    (void)state;
    bl_text_puts(&inputs, "{'inputs': {'x': " F32(8, 3, 112, 112) ", 'w': " F32(64, 3, 7, 7));
    bl_text_puts(&text, "}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'stride': 2, 'padding': 3}}, "
                        "{'id': 'r', 'op': 'relu', 'in': ['c']}, {'id': 'f', 'op': 'max_pool2d', 'in': ['r'], 'attrs': "
                        "{'kernel_size': 3, 'stride': 2, 'padding': 1}}");
    bl_text_puts(&parts, "'f'");
    for (int i = 0; i <= LAYERS; i++) {
        int channels = FIRST + i * MORE;
        if (i > 0)
            bl_text_printf(&text, ", {'id': 'c%d', 'op': 'cat', 'in': [%s], 'attrs': {'axis': 1}}", i, parts.data);
        bl_text_printf(&text,
                       ", {'id': 'r%d', 'op': 'relu', 'in': ['%s%.*d']}, {'id': 'p%d', 'op': 'conv2d', 'in': ['r%d', 'v%d']}", i,
                       i > 0 ? "c" : "f", i > 0, i, i, i, i);
        bl_text_printf(&inputs, ", 'v%d': {'dtype': 'float32', 'shape': [128, %d, 1, 1]}", i, channels);
        if (i == LAYERS)
            break;
        bl_text_printf(&text, ", {'id': 'y%d', 'op': 'relu', 'in': ['p%d']}, ", i, i);
        bl_text_printf(&text, "{'id': 'a%d', 'op': 'conv2d', 'in': ['y%d', 'w%d'], 'attrs': {'padding': 1}}", i, i, i);
        bl_text_printf(&inputs, ", 'w%d': " F32(32, 128, 3, 3), i);
        bl_text_printf(&parts, ", 'a%d'", i);
    }
    bl_text_printf(&text, ", {'id': 'm', 'op': 'avg_pool2d', 'in': ['p%d'], 'attrs': {'kernel_size': 2}}], 'outputs': ['m']}",
                   LAYERS);
    bl_text_puts(&inputs, text.data);
    assert_int_equal(BL_OK, bl_text_status(&inputs, NULL));
    if (has_stage(inputs.data))
        fail_msg("the block keeps a value in local memory");
    bl_text_fini(&inputs);
    bl_text_fini(&text);
    bl_text_fini(&parts);
}

/* A recurrent network: the gradient of the weight that each of 24 steps uses is a sum of 24 products. Neither a product of one
 * element of a batch, a row and a column nor a sum of such products is in memory. */
static void test_many_products(void **state)
{
    enum { STEPS = 24, BATCH = 16, WIDTH = 64 };
    bl_text text = {0};
    test_graph g;
    const bl_schedule *schedule = NULL;

    (void)state;
    bl_text_printf(
        &text,
        "{'inputs': {'x': {'dtype': 'float32', 'shape': [%d, %d, %d]}, 'h0': " F32(16, 64) ", 'w': " F32(64, 64) "}, 'nodes': [",
        STEPS, BATCH, WIDTH);
    for (int i = 0; i < STEPS; i++)
        bl_text_printf(&text,
                       "{'id': 'x%d', 'op': 'slice', 'in': ['x'], 'attrs': {'start': %d, 'stop': %d}}, "
                       "{'id': 'y%d', 'op': 'reshape', 'in': ['x%d'], 'attrs': {'shape': [%d, %d]}}, "
                       "{'id': 'p%d', 'op': 'matmul', 'in': ['h%d', 'w']}, {'id': 's%d', 'op': 'add', 'in': ['p%d', 'y%d']}, "
                       "{'id': 'h%d', 'op': 'tanh', 'in': ['s%d']}, ",
                       i, i, i + 1, i, i, BATCH, WIDTH, i, i, i, i, i, i + 1, i);
    bl_text_printf(
        &text, "{'id': 'l', 'op': 'sum', 'in': ['h%d']}, {'id': 'g', 'op': 'grad', 'in': ['l', 'w']}], 'outputs': ['g']}", STEPS);
    assert_int_equal(BL_OK, bl_text_status(&text, NULL));
    test_graph_open(text.data, &g);
    schedule = test_graph_schedule(&g, 2);
    for (int i = 0; i < schedule->nplaces; i++) {
        if (schedule->places[i].count != NULL && schedule->places[i].count->hi >= (int64_t)BATCH * WIDTH * WIDTH)
            fail_msg("place %d has %lld elements", i, (long long)schedule->places[i].count->hi);
    }
    test_graph_close(&g);
    bl_text_fini(&text);
}

/* Running totals of products, each of them summed: a total that another total reads is not taken apart again. */
static void test_running_totals(void **state)
{
    enum { STEPS = 24, KERNELS = 3 };
    bl_text text = {0};
    test_graph g;
    int nests = 0;

    (void)state;
    bl_text_puts(
        &text, "{'inputs': {'a': " F32(64, 64) ", 'b': " F32(64, 64) "}, 'nodes': [{'id': 's0', 'op': 'mul', 'in': ['a', 'b']}");
    for (int i = 1; i <= STEPS; i++)
        bl_text_printf(&text,
                       ", {'id': 'q%d', 'op': 'mul', 'in': ['a', %d]}, {'id': 'p%d', 'op': 'mul', 'in': ['q%d', 'b']}, "
                       "{'id': 's%d', 'op': 'add', 'in': ['s%d', 'p%d']}, "
                       "{'id': 'y%d', 'op': 'sum', 'in': ['s%d'], 'attrs': {'axis': 0}}",
                       i, i + 1, i, i, i, i - 1, i, i, i);
    bl_text_puts(&text, "], 'outputs': [");
    for (int i = 1; i <= STEPS; i++)
        bl_text_printf(&text, "%s'y%d'", i > 1 ? ", " : "", i);
    bl_text_puts(&text, "]}");
    assert_int_equal(BL_OK, bl_text_status(&text, NULL));
    test_graph_open(text.data, &g);
    nests = test_graph_schedule(&g, 2)->nnests;
    if (nests > KERNELS)
        fail_msg("%d kernels", nests);
    test_graph_close(&g);
    bl_text_fini(&text);
}

/* A part of a long sum reads runs of the outermost axis that has enough parts, not pieces of each row. Without such an axis, the
 * axis with the most parts is split. */
static void test_parts_of_sums(void **state)
{
    static const struct {
        const char *name, *document;
    } sums[] = {
        {"r_16_4_64_4096",
         "{'inputs': {'x': " F32(4, 1024, 4096) "}, 'nodes': [{'id': 'y', 'op': 'sum', 'in': ['x']}], 'outputs': ['y']}"},
        {"r_64_64_4_64",
         "{'inputs': {'x': " F32(4096, 4, 64) "}, 'nodes': [{'id': 'y', 'op': 'max', 'in': ['x']}], 'outputs': ['y']}"},
        {"r_64_4_128_64",
         "{'inputs': {'x': " F32(4, 128, 4096) "}, 'nodes': [{'id': 'y', 'op': 'sum', 'in': ['x']}], 'outputs': ['y']}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        test_graph g;
        test_graph_open(sums[i].document, &g);
        assert_string_equal(test_graph_schedule(&g, 2)->nests[0].name, sums[i].name);
        test_graph_close(&g);
    }
}

/* Each row of a layer norm is divided by its deviation once: its elements are multiplied by the reciprocal, also in gradients. */
static void test_norms_divide_once(void **state)
{
    test_graph g;
    const bl_schedule *schedule = NULL;
    int divisions = 0;

    (void)state;
    test_graph_open("{'inputs': {'x': " F32(64, 512) ", 'g': " F32(
                        64, 512) "}, 'nodes': [{'id': 'y', 'op': 'layer_norm', 'in': ['x']}, {'id': 'd', 'op': 'grad', 'in': "
                                 "['y', 'x', 'g'], 'attrs': {'cotangent': true}}], 'outputs': ['y', 'd']}",
                    &g);
    schedule = test_graph_schedule(&g, 2);
    for (int k = 0; k < schedule->nnests; k++) {
        bl_nodes below = bl_reach(g.graph->ir, 1, &schedule->nests[k].sink, false);
        bl_free loops;

        bl_free_init(&loops, g.graph->ir);
        for (size_t i = 0; i < below.count; i++) {
            if (below.at[i]->op != BL_OP_DIV)
                continue;
            assert_true(bl_free_size(&loops, bl_free_get(&loops, below.at[i])) <= 64);
            divisions++;
        }
    }
    assert_true(divisions > 0);
    test_graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels),
                                       cmocka_unit_test(test_parts_of_sums),
                                       cmocka_unit_test(test_norms_divide_once),
                                       cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_optimisers),
                                       cmocka_unit_test(test_relu),
                                       cmocka_unit_test(test_cheap_is_no_stage),
                                       cmocka_unit_test(test_large_is_no_stage),
                                       cmocka_unit_test(test_windows_are_no_stage),
                                       cmocka_unit_test(test_parts_in_place),
                                       cmocka_unit_test(test_costly_part),
                                       cmocka_unit_test(test_dense_block),
                                       cmocka_unit_test(test_many_products),
                                       cmocka_unit_test(test_running_totals)};
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
