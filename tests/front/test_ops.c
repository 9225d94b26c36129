/* SPDX-License-Identifier: MIT */
/* Every wire op on small values: what PyTorch and NumPy give, and the contract's rules for literals and dtypes. */
#include "engine/front/build.h"
#include "tests/front/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* clang-format off */
static const struct {
    const char *node, *inputs, *want;
} rows[] = {
    {"'op': 'add', 'in': ['x', 'y']", "{'x': [[1, 2, 3], [4, 5, 6]], 'y': [10, 20, 30]}", "float32[2, 3] 11 22 33 14 25 36"},
    {"'op': 'add', 'in': ['x', 'y']", "{'x': {'dtype': 'uint8', 'shape': [2], 'data': [250, 7]}, 'y': {'dtype': 'int8', 'shape': [2], 'data': [-1, 100]}}", "int16[2] 249 107"},
    {"'op': 'add', 'in': ['x', 1]", "{'x': {'dtype': 'bool', 'shape': [2], 'data': [true, false]}}", "bool[2] 1 1"},
    {"'op': 'add', 'in': ['x', 0.5]", "{'x': {'dtype': 'int32', 'shape': [2], 'data': [1, 2]}}", "float32[2] 1.5 2.5"},
    {"'op': 'sub', 'in': ['x', 1]", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[2, 3] 0 1 2 3 4 5"},
    {"'op': 'mul', 'in': ['x', 2]", "{'x': {'dtype': 'uint8', 'shape': [2], 'data': [200, 3]}}", "uint8[2] 144 6"},
    {"'op': 'div', 'in': ['x', 2]", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [1, 2, 3]}}", "float32[3] 0.5 1 1.5"},
    {"'op': 'div', 'in': ['x', 0]", "{'x': [1, -1, 0]}", "float32[3] Infinity -Infinity NaN"},
    {"'op': 'floor_div', 'in': ['x', 'y']", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [-7, 7, 7]}, 'y': {'dtype': 'int32', 'shape': [3], 'data': [2, -2, 0]}}", "int32[3] -4 -4 0"},
    {"'op': 'floor_div', 'in': ['x', 2]", "{'x': [-7, 7]}", "float32[2] -4 3"},
    {"'op': 'mod', 'in': ['x', 'y']", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [-7, 7, 7]}, 'y': {'dtype': 'int32', 'shape': [3], 'data': [3, -3, 0]}}", "int32[3] 2 -2 0"},
    {"'op': 'mod', 'in': ['x', 2]", "{'x': [-7, 7.5]}", "float32[2] 1 1.5"},
    {"'op': 'neg', 'in': ['x']", "{'x': [0, 1, -2]}", "float32[3] -0.0 -1 2"},
    {"'op': 'abs', 'in': ['x']", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [-3, 0, 3]}}", "int32[3] 3 0 3"},
    {"'op': 'sign', 'in': ['x']", "{'x': [-3, 0, 2.5, 'NaN']}", "float32[4] -1 0 1 0"},
    {"'op': 'square', 'in': ['x']", "{'x': [-3, 2]}", "float32[2] 9 4"},
    {"'op': 'sqrt', 'in': ['x']", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [4, 9, -1]}}", "float32[3] 2 3 NaN"},
    {"'op': 'rsqrt', 'in': ['x']", "{'x': [4, 0.25]}", "float32[2] 0.5 2"},
    {"'op': 'reciprocal', 'in': ['x']", "{'x': [4, 0]}", "float32[2] 0.25 Infinity"},
    {"'op': 'exp', 'in': ['x']", "{'x': [0, 1, '-Infinity']}", "float32[3] 1 2.7182817 0"},
    {"'op': 'log', 'in': ['x']", "{'x': [1, 0, 2]}", "float32[3] 0 -Infinity 0.6931472"},
    {"'op': 'sin', 'in': ['x']", "{'x': [0, 1]}", "float32[2] 0 0.84147096"},
    {"'op': 'cos', 'in': ['x']", "{'x': [0, 1, 1.5707964]}", "float32[3] 1 0.5403023 5.9604645e-08"},
    {"'op': 'floor', 'in': ['x']", "{'x': [-1.5, 1.5, -2]}", "float32[3] -2 1 -2"},
    {"'op': 'ceil', 'in': ['x']", "{'x': [-1.5, 1.5, 2]}", "float32[3] -1 2 2"},
    {"'op': 'trunc', 'in': ['x']", "{'x': [-1.5, 1.5]}", "float32[2] -1 1"},
    {"'op': 'maximum', 'in': ['x', 'y']", "{'x': [1, 'NaN', 3], 'y': [2, 0, 'NaN']}", "float32[3] 2 NaN NaN"},
    {"'op': 'minimum', 'in': ['x', 2]", "{'x': [1, 'NaN', 3]}", "float32[3] 1 NaN 2"},
    {"'op': 'maximum', 'in': ['x', 'x']", "{'x': {'dtype': 'bool', 'shape': [2], 'data': [true, false]}}", "bool[2] 1 0"},
    {"'op': 'clamp', 'in': ['x'], 'attrs': {'min': 0, 'max': 1}", "{'x': [-1, 0.5, 9, 'NaN']}", "float32[4] 0 0.5 1 NaN"},
    {"'op': 'clamp', 'in': ['x'], 'attrs': {'max': 2.5}", "{'x': {'dtype': 'int32', 'shape': [2], 'data': [-5, 5]}}", "float32[2] -5 2.5"},
    {"'op': 'relu', 'in': ['x']", "{'x': [-1, 0, 2, 'NaN', '-Infinity']}", "float32[5] 0 0 2 NaN 0"},
    {"'op': 'leaky_relu', 'in': ['x'], 'attrs': {'negative_slope': 0.1}", "{'x': [-2, 2]}", "float32[2] -0.2 2"},
    {"'op': 'sigmoid', 'in': ['x']", "{'x': [0, 90, -90, 1, '-Infinity']}", "float32[5] 0.5 1 8.19401e-40 0.7310586 0"},
    {"'op': 'tanh', 'in': ['x']", "{'x': [0, 0.0001, 0.5, -20, 'Infinity', 'NaN']}", "float32[6] 0 9.999998e-05 0.46211717 -1 1 NaN"},
    {"'op': 'tanh', 'in': ['x']", "{'x': {'dtype': 'float64', 'shape': [3], 'data': [1e-09, 0.5, -3]}}", "float64[3] 1e-09 0.46211715726000974 -0.9950547536867306"},
    {"'op': 'erf', 'in': ['x']", "{'x': [0, 0.0001, 0.5, -1, 9]}", "float32[5] 0 0.0001128379 0.5204999 -0.8427007 1"},
    {"'op': 'erf', 'in': ['x']", "{'x': {'dtype': 'float64', 'shape': [3], 'data': [0.5, -1.5, 7]}}", "float64[3] 0.5204998778130465 -0.9661051464753108 1"},
    {"'op': 'gelu', 'in': ['x']", "{'x': [-1, 0, 1, 3]}", "float32[4] -0.15865529 0 0.8413447 2.9959507"},
    {"'op': 'gelu', 'in': ['x'], 'attrs': {'approximate': 'tanh'}", "{'x': [-1, 0, 1, 3]}", "float32[4] -0.15880796 0 0.841192 2.9963627"},
    {"'op': 'silu', 'in': ['x']", "{'x': [-1, 0, 1]}", "float32[3] -0.26894143 0 0.7310586"},
    {"'op': 'softplus', 'in': ['x']", "{'x': [-20, 0, 1, 30, 100]}", "float32[5] 2.0611537e-09 0.6931472 1.3132617 30 100"},
    {"'op': 'sigmoid', 'in': ['x']", "{'x': {'dtype': 'float16', 'shape': [2], 'data': [1, -2]}}", "float16[2] 0.731 0.1192"},
    {"'op': 'equal', 'in': ['x', 'y']", "{'x': [1, 'NaN', 2], 'y': [1, 'NaN', 3]}", "bool[3] 1 0 0"},
    {"'op': 'not_equal', 'in': ['x', 'y']", "{'x': [1, 'NaN', 2], 'y': [1, 'NaN', 3]}", "bool[3] 0 1 1"},
    {"'op': 'less', 'in': ['x', 2]", "{'x': [1, 'NaN', 3]}", "bool[3] 1 0 0"},
    {"'op': 'less_equal', 'in': ['x', 2]", "{'x': [2, 'NaN', 3]}", "bool[3] 1 0 0"},
    {"'op': 'greater', 'in': ['x', 2]", "{'x': [1, 'NaN', 3]}", "bool[3] 0 0 1"},
    {"'op': 'greater_equal', 'in': ['x', 2]", "{'x': [2, 'NaN', 1]}", "bool[3] 1 0 0"},
    {"'op': 'isnan', 'in': ['x']", "{'x': [1, 'NaN', 'Infinity']}", "bool[3] 0 1 0"},
    {"'op': 'logical_and', 'in': ['x', 'y']", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [0, 1, 2]}, 'y': [1, 0, 'NaN']}", "bool[3] 0 0 1"},
    {"'op': 'logical_or', 'in': ['x', 'y']", "{'x': {'dtype': 'int32', 'shape': [2], 'data': [0, 1]}, 'y': [0, 0]}", "bool[2] 0 1"},
    {"'op': 'logical_xor', 'in': ['x', 'y']", "{'x': {'dtype': 'int32', 'shape': [2], 'data': [1, 1]}, 'y': [0, 5]}", "bool[2] 1 0"},
    {"'op': 'logical_not', 'in': ['x']", "{'x': [0, 3]}", "bool[2] 1 0"},
    {"'op': 'bitwise_and', 'in': ['x', 10]", "{'x': {'dtype': 'int32', 'shape': [2], 'data': [12, -1]}}", "int32[2] 8 10"},
    {"'op': 'bitwise_or', 'in': ['x', 3]", "{'x': {'dtype': 'int32', 'shape': [2], 'data': [12, 0]}}", "int32[2] 15 3"},
    {"'op': 'bitwise_xor', 'in': ['x', 1]", "{'x': {'dtype': 'bool', 'shape': [2], 'data': [true, false]}}", "bool[2] 0 1"},
    {"'op': 'bitwise_not', 'in': ['x']", "{'x': {'dtype': 'uint8', 'shape': [2], 'data': [0, 250]}}", "uint8[2] 255 5"},
    {"'op': 'left_shift', 'in': ['x', 31]", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [1, 3, 1]}}", "int32[3] -2147483648 -2147483648 -2147483648"},
    {"'op': 'right_shift', 'in': ['x', 1]", "{'x': {'dtype': 'int32', 'shape': [2], 'data': [-5, 5]}}", "int32[2] -3 2"},
    {"'op': 'where', 'in': ['c', 'x', 7]", "{'c': {'dtype': 'int32', 'shape': [2], 'data': [1, 0]}, 'x': [1, 2]}", "float32[2] 1 7"},
    {"'op': 'cast', 'in': ['x'], 'attrs': {'dtype': 'uint8'}", "{'x': [1.9, -1.9, 300, 'NaN']}", "uint8[4] 1 0 255 0"},
    {"'op': 'bitcast', 'in': ['x'], 'attrs': {'dtype': 'uint32'}", "{'x': [1]}", "uint32[1] 1065353216"},
    {"'op': 'detach', 'in': ['x']", "{'x': [1]}", "float32[1] 1"},
    {"'op': 'contiguous', 'in': ['x']", "{'x': [1]}", "float32[1] 1"},
    {"'op': 'sum', 'in': ['x'], 'attrs': {'axis': 1}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[2] 6 15"},
    {"'op': 'sum', 'in': ['x']", "{'x': {'dtype': 'uint8', 'shape': [3], 'data': [200, 100, 1]}}", "int64[] 301"},
    {"'op': 'sum', 'in': ['x']", "{'x': {'dtype': 'float16', 'shape': [4], 'data': [2048, 1, 1, 1]}}", "float16[] 2052"},
    {"'op': 'sum', 'in': ['x'], 'attrs': {'axis': [0, 1], 'keepdim': true}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[1, 1] 21"},
    {"'op': 'sum', 'in': ['x']", "{'x': {'dtype': 'float32', 'shape': [0], 'data': []}}", "float32[] 0"},
    {"'op': 'prod', 'in': ['x']", "{'x': {'dtype': 'int32', 'shape': [3], 'data': [2, 3, 4]}}", "int64[] 24"},
    {"'op': 'mean', 'in': ['x'], 'attrs': {'axis': -1}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[2] 2 5"},
    {"'op': 'max', 'in': ['x'], 'attrs': {'axis': 0}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[3] 4 5 6"},
    {"'op': 'max', 'in': ['x']", "{'x': [1, 'NaN']}", "float32[] NaN"},
    {"'op': 'min', 'in': ['x']", "{'x': {'dtype': 'bool', 'shape': [2], 'data': [true, false]}}", "bool[] 0"},
    {"'op': 'argmax', 'in': ['x'], 'attrs': {'axis': 1}", "{'x': [[1, 3, 3], [0, 'NaN', 9]]}", "int64[2] 1 1"},
    {"'op': 'argmax', 'in': ['x']", "{'x': [[1, 2, 3], [4, 5, 6]]}", "int64[] 5"},
    {"'op': 'argmin', 'in': ['x'], 'attrs': {'axis': 1, 'keepdim': true}", "{'x': [[5, 2, 2]]}", "int64[1, 1] 1"},
    {"'op': 'all', 'in': ['x']", "{'x': [1, 0]}", "bool[] 0"},
    {"'op': 'any', 'in': ['x']", "{'x': [1, 0]}", "bool[] 1"},
    {"'op': 'var', 'in': ['x']", "{'x': [1, 2, 4]}", "float32[] 2.3333335"},
    {"'op': 'std', 'in': ['x'], 'attrs': {'correction': 0}", "{'x': [1, 2, 4]}", "float32[] 1.2472192"},
    {"'op': 'softmax', 'in': ['x']", "{'x': [[1000, 1001], [0, 0]]}", "float32[2, 2] 0.26894143 0.7310586 0.5 0.5"},
    {"'op': 'log_softmax', 'in': ['x'], 'attrs': {'axis': 1}", "{'x': [[1, 2, 3]]}", "float32[1, 3] -2.407606 -1.4076059 -0.40760595"},
    {"'op': 'logsumexp', 'in': ['x'], 'attrs': {'axis': 1}", "{'x': [[1000, 1000], ['-Infinity', '-Infinity']]}", "float32[2] 1000.6932 -Infinity"},
    {"'op': 'cross_entropy', 'in': ['x', 't']", "{'x': [[1, 2, 3], [3, 2, 1]], 't': {'dtype': 'int64', 'shape': [2], 'data': [2, 1]}}", "float32[] 0.9076059"},
    {"'op': 'cross_entropy', 'in': ['x', 't'], 'attrs': {'ignore_index': -100}", "{'x': [[1, 2, 3], [3, 2, 1]], 't': {'dtype': 'int64', 'shape': [2], 'data': [2, -100]}}", "float32[] 0.40760595"},
    {"'op': 'nll_loss', 'in': ['x', 't'], 'attrs': {'reduction': 'none'}", "{'x': [[-1, -2], [-3, -4]], 't': {'dtype': 'int32', 'shape': [2], 'data': [1, 0]}}", "float32[2] 2 3"},
    {"'op': 'mse_loss', 'in': ['x', 'y']", "{'x': [1, 2], 'y': [3, 2]}", "float32[] 2"},
    {"'op': 'layer_norm', 'in': ['x', 'w', 'b'], 'attrs': {'eps': 0}", "{'x': [[1, 2, 3]], 'w': [1, 2, 3], 'b': [0, 0, 1]}", "float32[1, 3] -1.2247448 0 4.6742344"},
    {"'op': 'dropout', 'in': ['x'], 'attrs': {'p': 0}", "{'x': [1, 2]}", "float32[2] 1 2"},
    {"'op': 'dropout', 'in': ['x'], 'attrs': {'p': 1}", "{'x': [1, 2]}", "float32[2] 0 0"},
    {"'op': 'matmul', 'in': ['x', 'y']", "{'x': [[1, 2, 3], [4, 5, 6]], 'y': [[1, 0], [0, 1], [1, 1]]}", "float32[2, 2] 4 5 10 11"},
    {"'op': 'matmul', 'in': ['x', 'y']", "{'x': [1, 2, 3], 'y': [4, 5, 6]}", "float32[] 32"},
    {"'op': 'matmul', 'in': ['x', 'y']", "{'x': [[[1, 2]], [[3, 4]]], 'y': [5, 6]}", "float32[2, 1] 17 39"},
    {"'op': 'matmul', 'in': ['x', 'y']", "{'x': {'dtype': 'float16', 'shape': [1, 3], 'data': [2048, 1, 1]}, 'y': {'dtype': 'float16', 'shape': [3, 1], 'data': [1, 1, 1]}}", "float16[1, 1] 2050"},
    {"'op': 'linear', 'in': ['x', 'w', 'b']", "{'x': [1, 2], 'w': [[1, 2], [3, 4], [5, 6]], 'b': [1, 1, 1]}", "float32[3] 6 12 18"},
    {"'op': 'conv2d', 'in': ['x', 'w', 'b']", "{'x': {'dtype': 'float32', 'shape': [1, 1, 3, 3], 'data': [0, 1, 2, 3, 4, 5, 6, 7, 8]}, 'w': {'dtype': 'float32', 'shape': [2, 1, 2, 2], 'data': [1, 0, 0, 1, 0, 1, 1, 0]}, 'b': [0, 100]}", "float32[1, 2, 2, 2] 4 6 10 12 104 106 110 112"},
    {"'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'stride': 2, 'padding': 1, 'groups': 2, 'dilation': [2, 1]}", "{'x': {'dtype': 'float32', 'shape': [1, 2, 3, 3], 'data': [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}, 'w': {'dtype': 'float32', 'shape': [2, 1, 2, 2], 'data': [1, 1, 1, 1, 1, 1, 1, 1]}}", "float32[1, 2, 2, 2] 3 9 3 9 12 27 12 27"},
    {"'op': 'max_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 2}", "{'x': {'dtype': 'float32', 'shape': [1, 1, 4, 5], 'data': [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]}}", "float32[1, 1, 2, 2] 6 8 16 18"},
    {"'op': 'max_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 3, 'stride': 2, 'padding': 1}", "{'x': {'dtype': 'int32', 'shape': [1, 1, 3, 3], 'data': [-9, -8, -7, -6, -5, -4, -3, -2, -1]}}", "int32[1, 1, 2, 2] -5 -4 -2 -1"},
    {"'op': 'avg_pool2d', 'in': ['x'], 'attrs': {'kernel_size': [2, 2]}", "{'x': {'dtype': 'float32', 'shape': [1, 1, 2, 4], 'data': [0, 1, 2, 3, 4, 5, 6, 7]}}", "float32[1, 1, 1, 2] 2.5 4.5"},
    {"'op': 'avg_pool2d', 'in': ['x'], 'attrs': {'kernel_size': 2, 'padding': 1, 'count_include_pad': false}", "{'x': {'dtype': 'float32', 'shape': [1, 2, 2], 'data': [1, 2, 3, 4]}}", "float32[1, 2, 2] 1 2 3 4"},
    {"'op': 'gather', 'in': ['x', 'i'], 'attrs': {'axis': 1}", "{'x': [[1, 2, 3], [4, 5, 6]], 'i': {'dtype': 'int64', 'shape': [2, 2], 'data': [0, -1, 3, 1]}}", "float32[2, 2] 1 3 0 5"},
    {"'op': 'take', 'in': ['x', 'i']", "{'x': [[1, 2, 3], [4, 5, 6]], 'i': {'dtype': 'int64', 'shape': [3], 'data': [1, -1, 2]}}", "float32[3, 3] 4 5 6 4 5 6 0 0 0"},
    {"'op': 'take', 'in': ['x', 'i'], 'attrs': {'axis': 1}", "{'x': [[1, 2, 3], [4, 5, 6]], 'i': {'dtype': 'uint8', 'shape': [1, 2], 'data': [2, 0]}}", "float32[2, 1, 2] 3 1 6 4"},
    {"'op': 'one_hot', 'in': ['i'], 'attrs': {'num_classes': 3}", "{'i': {'dtype': 'int32', 'shape': [3], 'data': [1, 0, 5]}}", "int64[3, 3] 0 1 0 1 0 0 0 0 0"},
    {"'op': 'tril', 'in': ['x']", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[2, 3] 1 0 0 4 5 0"},
    {"'op': 'triu', 'in': ['x'], 'attrs': {'diagonal': 1}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[2, 3] 0 2 3 0 0 6"},
    {"'op': 'reshape', 'in': ['x'], 'attrs': {'shape': [3, -1]}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[3, 2] 1 2 3 4 5 6"},
    {"'op': 'permute', 'in': ['x'], 'attrs': {'axes': [1, 0]}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[3, 2] 1 4 2 5 3 6"},
    {"'op': 'transpose', 'in': ['x']", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[3, 2] 1 4 2 5 3 6"},
    {"'op': 'expand', 'in': ['x'], 'attrs': {'shape': [2, -1, 2]}", "{'x': [[1], [2]]}", "float32[2, 2, 2] 1 1 2 2 1 1 2 2"},
    {"'op': 'pad', 'in': ['x'], 'attrs': {'padding': [[0, 1], [1, 0]], 'value': 9}", "{'x': [[1, 2]]}", "float32[2, 3] 9 1 2 9 9 9"},
    {"'op': 'shrink', 'in': ['x'], 'attrs': {'ranges': [[1, 2], [0, 2]]}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[1, 2] 4 5"},
    {"'op': 'slice', 'in': ['x'], 'attrs': {'start': 1, 'stop': -1, 'step': 2}", "{'x': [0, 1, 2, 3, 4, 5, 6]}", "float32[3] 1 3 5"},
    {"'op': 'slice', 'in': ['x'], 'attrs': {'start': [-2], 'axis': [1]}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[2, 2] 2 3 5 6"},
    {"'op': 'flip', 'in': ['x'], 'attrs': {'axis': 1}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "float32[2, 3] 3 2 1 6 5 4"},
    {"'op': 'squeeze', 'in': ['x']", "{'x': [[[1], [2]]]}", "float32[2] 1 2"},
    {"'op': 'unsqueeze', 'in': ['x'], 'attrs': {'axis': -1}", "{'x': [1, 2]}", "float32[2, 1] 1 2"},
    {"'op': 'flatten', 'in': ['x'], 'attrs': {'start_axis': 1}", "{'x': [[[1, 2]], [[3, 4]]]}", "float32[2, 2] 1 2 3 4"},
    {"'op': 'cat', 'in': ['x', 'y']", "{'x': [-0.0, 'NaN'], 'y': ['Infinity']}", "float32[3] -0.0 NaN Infinity"},
    {"'op': 'cat', 'in': ['x', 'y', 'x'], 'attrs': {'axis': 1}", "{'x': [[1, 2, 3], [4, 5, 6]], 'y': [[7], [8]]}", "float32[2, 7] 1 2 3 7 1 2 3 4 5 6 8 4 5 6"},
    {"'op': 'stack', 'in': ['x', 'y'], 'attrs': {'axis': 1}", "{'x': [1, 2], 'y': [3, 4]}", "float32[2, 2] 1 3 2 4"},
    {"'op': 'arange', 'in': [], 'attrs': {'stop': 4}", "{}", "int64[4] 0 1 2 3"},
    {"'op': 'arange', 'in': [], 'attrs': {'start': 5, 'stop': -2, 'step': -3, 'dtype': 'int8'}", "{}", "int8[3] 5 2 -1"},
    {"'op': 'arange', 'in': [], 'attrs': {'stop': 1, 'step': 0.25}", "{}", "float32[4] 0 0.25 0.5 0.75"},
    {"'op': 'full', 'in': [], 'attrs': {'shape': [2], 'value': 9007199254740993, 'dtype': 'int64'}", "{}", "int64[2] 9007199254740993 9007199254740993"},
    {"'op': 'zeros', 'in': [], 'attrs': {'shape': [2, 1]}", "{}", "float32[2, 1] 0 0"},
    {"'op': 'ones', 'in': [], 'attrs': {'shape': [], 'dtype': 'bool'}", "{}", "bool[] 1"},
    {"'op': 'zeros_like', 'in': ['x'], 'attrs': {'dtype': 'uint8'}", "{'x': [[1, 2, 3], [4, 5, 6]]}", "uint8[2, 3] 0 0 0 0 0 0"},
    {"'op': 'ones_like', 'in': ['x']", "{'x': [5, 6]}", "float32[2] 1 1"},
    {"'op': 'eye', 'in': [], 'attrs': {'n': 2, 'm': 3}", "{}", "float32[2, 3] 1 0 0 0 1 0"},
};
/* clang-format on */

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = {.program = true};
        char document[2048];
        snprintf(document, sizeof document, "{'inputs': %s, 'nodes': [{'id': 'out', %s}], 'outputs': ['out']}", rows[i].inputs,
                 rows[i].node);
        if (bench_run(&b, document) != BL_OK)
            fail_msg("%s: %s", rows[i].node, b.err.text);
        if (!bench_same(b.text.data, rows[i].want, 2e-6))
            fail_msg("%s of %s: got %s, want %s", rows[i].node, rows[i].inputs, b.text.data, rows[i].want);
        bench_fini(&b);
    }
}

/* In too little memory every op ends with a status that says so. */
static void test_little_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char document[2048];
        snprintf(document, sizeof document,
                 "{'inputs': %s, 'nodes': [{'id': 'out', %s}, {'id': 'r', 'op': 'sum', 'in': ['out']},"
                 " {'id': 's', 'op': 'cast', 'in': ['r'], 'attrs': {'dtype': 'float32'}}, {'id': 'z', 'op': 'zeros', 'attrs':"
                 " {'shape': [2]}}, {'id': ['g'], 'op': 'grad', 'in': ['s', %s]}], 'outputs': ['g']}",
                 rows[i].inputs, rows[i].node, strncmp(rows[i].inputs, "{'x': [", 7) == 0 ? "'x'" : "'z'");
        size_t bytes = 1024;
        while (bench_build(document, bytes, 0) != BL_OK)
            bytes += bytes / 64 + 48;
        assert_true(bytes > 1024);
    }
}

/* Ops whose values other tests look at: random ones, and those of several results. */
static const char *const elsewhere[] = {
    "uniform",        "normal", "randint", "randperm", "rand_like", "kaiming_uniform", "kaiming_normal", "glorot_uniform",
    "scaled_uniform", "grad",   "sgd",     "adam",     "adamw"};

static void test_every_op_has_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < bl_wire_ops_count; i++) {
        char wanted[64];
        bool found = false;
        snprintf(wanted, sizeof wanted, "'op': '%s'", bl_wire_ops[i].name);
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            found = found || strstr(rows[k].node, wanted) != NULL;
        for (size_t k = 0; k < sizeof elsewhere / sizeof elsewhere[0]; k++)
            found = found || strcmp(elsewhere[k], bl_wire_ops[i].name) == 0;
        if (!found)
            fail_msg("no row for op \"%s\"", bl_wire_ops[i].name);
    }
}

/* An op may name a dimension where it takes a size; one graph serves every size of it. */
static void test_named_dimensions(void **state)
{
    static const struct {
        const char *node, *want;
    } named[] = {
        {"'op': 'reshape', 'in': ['x'], 'attrs': {'shape': ['b', 1, -1]}", "float32[3, 1, 2] 1 2 3 4 5 6"},
        {"'op': 'flatten', 'in': ['x']", "float32[6] 1 2 3 4 5 6"},
        {"'op': 'mean', 'in': ['x'], 'attrs': {'axis': 0}", "float32[2] 3 4"},
        {"'op': 'slice', 'in': ['x'], 'attrs': {'start': [0], 'stop': ['b'], 'step': [2]}", "float32[2, 2] 1 2 5 6"},
        {"'op': 'take', 'in': ['x', -1]", "float32[2] 5 6"},
        {"'op': 'argmax', 'in': ['x'], 'attrs': {'axis': 0}", "int64[2] 2 2"},
        {"'op': 'arange', 'attrs': {'stop': 'b'}", "int64[3] 0 1 2"},
        {"'op': 'ones', 'attrs': {'shape': ['b', 1]}", "float32[3, 1] 1 1 1"},
        {"'op': 'expand', 'in': [5], 'attrs': {'shape': ['b']}", "float32[3] 5 5 5"},
        {"'op': 'cat', 'in': ['x', 'x'], 'attrs': {'axis': 1}", "float32[3, 4] 1 2 1 2 3 4 3 4 5 6 5 6"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        bench b = {0};
        char document[1024];
        snprintf(document, sizeof document,
                 "{'inputs': {'x': [[1, 2], [3, 4], [5, 6]]}, 'shapes': {'x': ['b', 2]}, 'dims': {'b': [1, 100]},"
                 " 'nodes': [{'id': 'out', %s}], 'outputs': ['out']}",
                 named[i].node);
        if (bench_run(&b, document) != BL_OK)
            fail_msg("%s: %s", named[i].node, b.err.text);
        if (!bench_same(b.text.data, named[i].want, 1e-6))
            fail_msg("%s: got %s, want %s", named[i].node, b.text.data, named[i].want);
        bench_fini(&b);
    }
}

/* The contract's own examples. */
static void test_contract(void **state)
{
    bench b = {0};

    (void)state;
    assert_int_equal(BL_OK, bench_run(&b, "{'inputs': {'x': [[1, 2, 3], [4, 5, 6]]}, 'nodes': ["
                                          "{'id': 'y', 'op': 'mul', 'in': ['x', 2]},"
                                          "{'id': 's', 'op': 'sum', 'in': ['y'], 'attrs': {'axis': 1}}], 'outputs': ['s']}"));
    assert_string_equal("float32[2] 12 30", b.text.data);
    assert_int_equal(BL_OK,
                     bench_run(&b, "{'inputs': {'a': [1, 2, 3], 'b': [4, 5, 6]}, 'nodes': ["
                                   "{'id': 'ab', 'op': 'mul', 'in': ['a', 'b']}, {'id': 'c', 'op': 'add', 'in': ['ab', 'a']},"
                                   "{'id': 'd', 'op': 'sum', 'in': ['c']},"
                                   "{'id': ['da', 'db'], 'op': 'grad', 'in': ['d', 'a', 'b']}], 'outputs': ['c', 'da', 'db']}"));
    assert_string_equal("float32[3] 5 12 21; float32[3] 5 6 7; float32[3] 1 2 3", b.text.data);
    bench_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),           cmocka_unit_test(test_little_memory), cmocka_unit_test(test_every_op_has_a_row),
        cmocka_unit_test(test_named_dimensions), cmocka_unit_test(test_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
