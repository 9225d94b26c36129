/* SPDX-License-Identifier: MIT */
/* Invalid graphs: the status, the named node and the message.  Also builds that run out of memory at any point. */
#include "engine/front/sig.h"
#include "tests/front/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define INPUTS                                                                                                                   \
    "{'a': [[1, 2, 3], [4, 5, 6]], 'b': {'dtype': 'float32', 'shape': [4, 5], 'base64': "                                        \
    "'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='},"           \
    " 's': 1, 'i': {'dtype': 'int32', 'shape': [2], 'data': [0, 1]}, 'u': {'dtype': 'uint8', 'shape': [1], 'data': [1]},"        \
    " 'image': [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]], 'filter': [[[[1, 2], [3, 4]]]], 'flag': [true],"                           \
    " 'none': {'dtype': 'float32', 'shape': [0, 3], 'data': []}, 'deep': [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}"

static const struct {
    const char *node;
    bl_status status;
    const char *text; /* part of the message */
} rows[] = {
    {"'op': 'matmul', 'in': ['a', 'b']", BL_EGRAPH, "matmul: inner dimensions differ: [2, 3] @ [4, 5]"},
    {"'op': 'add', 'in': ['a', 'b']", BL_EGRAPH, "add: shapes do not broadcast: [2, 3] and [4, 5]"},
    {"'op': 'matmull', 'in': ['a', 'b']", BL_EGRAPH, "there is no op \"matmull\""},
    {"'op': 'sum', 'in': ['a'], 'attrs': {'axes': 1}", BL_EGRAPH, "sum: unknown attribute \"axes\"; the op takes axis, keepdim"},
    {"'op': 'sum', 'in': ['a'], 'attrs': {'axis': '1'}", BL_EINVAL, "sum: attribute \"axis\" must be a whole number"},
    {"'op': 'sum', 'in': ['a'], 'attrs': {'axis': 1.5}", BL_EGRAPH,
     "attribute \"axis\" must be a whole number of 64 bits, not 1.5"},
    {"'op': 'sum', 'in': ['a'], 'attrs': {'axis': 2}", BL_EGRAPH, "axis 2 is out of range for a tensor of 2 dimensions"},
    {"'op': 'sum', 'in': ['a'], 'attrs': {'axis': [0, -2]}", BL_EGRAPH, "axis 0 is given twice"},
    {"'op': 'sum', 'in': ['a'], 'attrs': {'keepdim': 1}", BL_EINVAL, "attribute \"keepdim\" must be true or false"},
    {"'op': 'sum', 'in': ['a', 'a']", BL_EGRAPH, "sum: takes 1 input, got 2"},
    {"'op': 'conv2d', 'in': ['a']", BL_EGRAPH, "conv2d: takes up to 3 inputs, got 1"},
    {"'op': 'cat', 'in': []", BL_EGRAPH, "cat: takes at least 1 input, got 0"},
    {"'op': 'reshape', 'in': ['a']", BL_EGRAPH, "reshape: attribute \"shape\" is missing"},
    {"'op': 'mul', 'in': ['u', 300]", BL_EGRAPH, "mul: 300 does not fit uint8"},
    {"'op': 'mul', 'in': ['u', -1]", BL_EGRAPH, "mul: -1 does not fit uint8"},
    {"'op': 'add', 'in': ['flag', 2]", BL_EGRAPH, "add: 2 does not fit bool"},
    {"'op': 'full', 'attrs': {'shape': [1], 'value': 0.5, 'dtype': 'int8'}", BL_EGRAPH, "full: 0.5 is not a value of int8"},
    {"'op': 'full', 'attrs': {'shape': [1], 'value': 70000, 'dtype': 'float16'}", BL_EGRAPH, "70000 does not fit float16"},
    {"'op': 'take', 'in': ['a', 'a']", BL_EGRAPH, "take: index must be integers, not float32"},
    {"'op': 'bitwise_and', 'in': ['a', 'a']", BL_EGRAPH, "bitwise_and: x must be integers or bool, not float32"},
    {"'op': 'neg', 'in': ['flag']", BL_EGRAPH, "neg: is not defined for bool"},
    {"'op': 'gelu', 'in': ['a'], 'attrs': {'approximate': 'fast'}", BL_EGRAPH, "must be one of none|tanh, not \"fast\""},
    {"'op': 'cast', 'in': ['a'], 'attrs': {'dtype': 'float31'}", BL_EGRAPH, "attribute \"dtype\": no dtype is named \"float31\""},
    {"'op': 'cast', 'in': ['a'], 'attrs': {'dtype': 3}", BL_EINVAL, "must be the name of a dtype"},
    {"'op': 'bitcast', 'in': ['s'], 'attrs': {'dtype': 'int8'}", BL_EGRAPH, "float32 and int8 have different sizes"},
    {"'op': 'bitcast', 'in': ['a'], 'attrs': {'dtype': 'float64'}", BL_EGRAPH, "is not a multiple of 2"},
    {"'op': 'bitcast', 'in': ['a'], 'attrs': {'dtype': 'bool'}", BL_EGRAPH, "bool cannot be reinterpreted as float32"},
    {"'op': 'reshape', 'in': ['a'], 'attrs': {'shape': [4, 2]}", BL_EGRAPH,
     "[2, 3] and [4, 2] have different numbers of elements"},
    {"'op': 'reshape', 'in': ['a'], 'attrs': {'shape': [-1, -1]}", BL_EGRAPH, "only one size may be -1"},
    {"'op': 'reshape', 'in': ['a'], 'attrs': {'shape': ['batch']}", BL_EGRAPH, "no dimension is named \"batch\""},
    {"'op': 'zeros', 'attrs': {'shape': [-1]}", BL_EGRAPH, "a size may not be negative: [-1]"},
    {"'op': 'zeros', 'attrs': {'shape': [4294967296, 4294967296]}", BL_ELIMIT, "is too large"},
    {"'op': 'zeros', 'attrs': {'shape': [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", BL_ELIMIT, "17 dimensions; the limit is 16"},
    {"'op': 'unsqueeze', 'in': ['deep'], 'attrs': {'axis': 0}", BL_ELIMIT, "17 dimensions; the limit is 16"},
    {"'op': 'expand', 'in': ['a'], 'attrs': {'shape': [3, 3]}", BL_EGRAPH, "expand: [2, 3] cannot become [3, 3]"},
    {"'op': 'permute', 'in': ['a'], 'attrs': {'axes': [0]}", BL_EGRAPH, "1 axes given for a tensor of shape [2, 3]"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[1, 1]]}", BL_EGRAPH, "1 pairs given for a tensor of shape [2, 3]"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[-1, -2], [0, 0]]}", BL_EGRAPH,
     "pad: no elements of axis 0 of [2, 3] are left"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[-9223372036854775808, 0], [0, 0]]}", BL_EGRAPH,
     "may not be so negative at axis 0"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[-9223372036854775807, -9223372036854775807], [0, 0]]}", BL_ELIMIT,
     "does not fit in 64 bits"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[9223372036854775807, 9223372036854775807], [0, 0]]}", BL_ELIMIT,
     "does not fit in 64 bits"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[2, 0], [0, 0]], 'mode': 'reflect'}", BL_EGRAPH,
     "pad: axis 0 of [2, 3] is too short for mode reflect"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[0, 0], [0, 4]], 'mode': 'circular'}", BL_EGRAPH,
     "axis 1 of [2, 3] is too short for mode circular"},
    {"'op': 'pad', 'in': ['none'], 'attrs': {'padding': [[0, 1], [0, 0]], 'mode': 'replicate'}", BL_EGRAPH,
     "axis 0 of [0, 3] is too short for mode replicate"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[1, 1], [0, 0]], 'mode': 'replicate', 'value': 1}", BL_EGRAPH,
     "mode replicate takes no value"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[1, 1], [0, 0]], 'mode': 'mirror'}", BL_EGRAPH,
     "must be one of constant|reflect|replicate|circular"},
    {"'op': 'slice', 'in': ['a'], 'attrs': {'step': [-9223372036854775808]}", BL_EGRAPH,
     "a step must have a magnitude between 1"},
    {"'op': 'roll', 'in': ['a'], 'attrs': {'shift': [1, 2]}", BL_EGRAPH,
     "roll: must have one shift for each axis: 2 shifts for 1 axes"},
    {"'op': 'roll', 'in': ['a'], 'attrs': {'shift': 1, 'axis': 2}", BL_EGRAPH, "axis 2 is out of range"},
    {"'op': 'repeat', 'in': ['a'], 'attrs': {'repeats': [2]}", BL_EGRAPH,
     "repeat: needs a number for each axis of [2, 3], not 1"},
    {"'op': 'repeat', 'in': ['a'], 'attrs': {'repeats': [2, -1]}", BL_EGRAPH, "a size may not be negative"},
    {"'op': 'repeat', 'in': ['a'], 'attrs': {'repeats': [4294967296, 4294967296]}", BL_ELIMIT, "is too large"},
    {"'op': 'repeat_interleave', 'in': ['a'], 'attrs': {'repeats': -2}", BL_EGRAPH, "a size may not be negative"},
    {"'op': 'unfold', 'in': ['a'], 'attrs': {'axis': 1, 'size': 4, 'step': 1}", BL_EGRAPH,
     "size 4 must be between 1 and the size of axis 1 of [2, 3]"},
    {"'op': 'unfold', 'in': ['a'], 'attrs': {'axis': 1, 'size': 1, 'step': 0}", BL_EGRAPH, "and step 0 above 0"},
    {"'op': 'unfold', 'in': ['deep'], 'attrs': {'axis': 1, 'size': 1, 'step': 1}", BL_ELIMIT, "17 dimensions; the limit is 16"},
    {"'op': 'diagonal', 'in': ['a'], 'attrs': {'axis1': -2}", BL_EGRAPH, "diagonal: axis 0 is given twice"},
    {"'op': 'diagonal', 'in': ['i']", BL_EGRAPH, "axis 1 is out of range"},
    {"'op': 'diag', 'in': ['s']", BL_EGRAPH, "diag: needs one or two dimensions, not []"},
    {"'op': 'diag', 'in': ['a'], 'attrs': {'offset': 9223372036854775807}", BL_EGRAPH,
     "offset 9223372036854775807 is out of range"},
    {"'op': 'pad', 'in': ['a'], 'attrs': {'padding': [[1, 1, 1]]}", BL_EGRAPH, "must have two numbers for each axis"},
    {"'op': 'shrink', 'in': ['a'], 'attrs': {'ranges': [[0, 3], [0, 0]]}", BL_EGRAPH, "axis 0 is not inside shape [2, 3]"},
    {"'op': 'slice', 'in': ['a'], 'attrs': {'step': [0]}", BL_EGRAPH, "a step must have a magnitude between 1"},
    {"'op': 'cat', 'in': ['a', 'b']", BL_EGRAPH, "shapes differ outside of axis 0: [2, 3] and [4, 5]"},
    {"'op': 'stack', 'in': ['a', 'b']", BL_EGRAPH, "stack: shapes differ: [2, 3] and [4, 5]"},
    {"'op': 'max', 'in': ['none'], 'attrs': {'axis': 0}", BL_EGRAPH, "max: the reduction has no elements: shape [0, 3], axis 0"},
    {"'op': 'linear', 'in': ['a', 'b']", BL_EGRAPH, "linear: inner dimensions differ: [2, 3] @ [4, 5] transposed"},
    {"'op': 'linear', 'in': ['a', 'a', 'i', 'i']", BL_EGRAPH, "linear: takes up to 3 inputs, got 4"},
    {"'op': 'linear', 'in': ['a', 'a', 's']", BL_EGRAPH, "linear: bias must have shape [2], not []"},
    {"'op': 'conv2d', 'in': ['a', 'filter']", BL_EGRAPH, "conv2d: needs x [N, C, H, W]"},
    {"'op': 'conv2d', 'in': ['image', 'filter'], 'attrs': {'groups': 2}", BL_EGRAPH, "conv2d: channels do not fit"},
    {"'op': 'conv2d', 'in': ['image', 'filter'], 'attrs': {'stride': 0}", BL_EGRAPH, "\"stride\" must be between 1"},
    {"'op': 'conv2d', 'in': ['image', 'filter'], 'attrs': {'dilation': 3}", BL_EGRAPH, "is larger than the padded input"},
    {"'op': 'max_pool2d', 'in': ['image'], 'attrs': {'kernel_size': 4}", BL_EGRAPH, "is larger than the padded input"},
    {"'op': 'conv', 'in': ['a', 'a']", BL_EGRAPH, "conv: needs x [N, C, ...] and weight [O, C / groups, ...], not [2, 3] and"},
    {"'op': 'conv', 'in': ['image', 'filter'], 'attrs': {'padding': [1, 1, 1]}", BL_EGRAPH,
     "\"padding\" must be one number or 2"},
    {"'op': 'conv', 'in': ['image', 'filter'], 'attrs': {'padding': [0, 0, 0, -1]}", BL_EGRAPH, "must be between 0 and"},
    {"'op': 'conv', 'in': ['image', 'filter'], 'attrs': {'groups': 0}", BL_EGRAPH, "conv: channels do not fit"},
    {"'op': 'conv', 'in': ['image', 'filter', 'i']", BL_EGRAPH, "conv: bias must have shape [1], not [2]"},
    {"'op': 'conv', 'in': ['deep', 'deep']", BL_ELIMIT, "conv: moves over at most 6 axes, not 14"},
    {"'op': 'conv_transpose', 'in': ['image', 'a']", BL_EGRAPH, "weight [C, O / groups, ...], not [1, 1, 3, 3] and [2, 3]"},
    {"'op': 'conv_transpose', 'in': ['image', 'filter'], 'attrs': {'groups': 2}", BL_EGRAPH,
     "conv_transpose: channels do not fit"},
    {"'op': 'conv_transpose', 'in': ['image', 'filter'], 'attrs': {'stride': 2, 'output_padding': 2}", BL_EGRAPH,
     "output_padding 2 must be less than stride 2 or dilation 1"},
    {"'op': 'conv_transpose', 'in': ['image', 'filter'], 'attrs': {'padding': 2}", BL_EGRAPH,
     "axis 2 of the result would be empty"},
    {"'op': 'conv_transpose', 'in': ['image', 'filter'], 'attrs': {'stride': 2147483647, 'dilation': 2147483647}", BL_ELIMIT,
     "is too large"},
    {"'op': 'max_pool', 'in': ['a'], 'attrs': {'kernel_size': [1, 1, 1]}", BL_EGRAPH, "moves over 3 axes of [2, 3]"},
    {"'op': 'max_pool', 'in': ['a'], 'attrs': {'kernel_size': 1, 'dims': 0}", BL_EGRAPH, "moves over 0 axes of [2, 3]"},
    {"'op': 'max_pool', 'in': ['flag'], 'attrs': {'kernel_size': [1]}", BL_EGRAPH, "max_pool: is not defined for bool"},
    {"'op': 'max_pool', 'in': ['none'], 'attrs': {'kernel_size': 1}", BL_EGRAPH,
     "max_pool: the reduction has no elements: shape [0, 3], axis 0"},
    {"'op': 'max_pool', 'in': ['a'], 'attrs': {'kernel_size': 2, 'padding': 2}", BL_EGRAPH,
     "padding 2 is more than half of kernel_size 2"},
    {"'op': 'max_pool', 'in': ['deep'], 'attrs': {'kernel_size': 1}", BL_ELIMIT, "18 dimensions; the limit is 16"},
    {"'op': 'avg_pool', 'in': ['a'], 'attrs': {'kernel_size': 3, 'stride': 1, 'ceil_mode': true}", BL_EGRAPH,
     "is larger than the padded input"},
    {"'op': 'max_unpool', 'in': ['a', 'i'], 'attrs': {'kernel_size': 2}", BL_EGRAPH, "must be of one shape: [2, 3] and [2]"},
    {"'op': 'max_unpool', 'in': ['s', 0], 'attrs': {'kernel_size': 2}", BL_EGRAPH, "moves over 2 axes of []"},
    {"'op': 'max_unpool', 'in': ['i', 'i'], 'attrs': {'kernel_size': [2], 'output_size': [1, 1]}", BL_EGRAPH,
     "output_size must have 1 numbers, not 2"},
    {"'op': 'max_unpool', 'in': ['i', 'i'], 'attrs': {'kernel_size': [2], 'output_size': -1}", BL_EGRAPH,
     "may not be negative: [-1]"},
    {"'op': 'max_unpool', 'in': ['i', 'i'], 'attrs': {'kernel_size': [2], 'output_size': 9223372036854775807}", BL_ELIMIT,
     "is too large"},
    {"'op': 'interpolate', 'in': ['a'], 'attrs': {'size': [1, 2, 3]}", BL_EGRAPH, "cannot go from [2, 3] to 3 axes by nearest"},
    {"'op': 'interpolate', 'in': ['a'], 'attrs': {'size': 4, 'mode': 'bilinear'}", BL_EGRAPH, "to 1 axes by bilinear"},
    {"'op': 'interpolate', 'in': ['a'], 'attrs': {'size': 4, 'mode': 'cubic'}", BL_EGRAPH,
     "must be one of nearest|nearest-exact|linear"},
    {"'op': 'interpolate', 'in': ['a'], 'attrs': {'size': 4, 'align_corners': true}", BL_EGRAPH,
     "mode nearest has no align_corners"},
    {"'op': 'interpolate', 'in': ['a'], 'attrs': {'size': 0}", BL_EGRAPH, "sizes must be from 1 to 1073741824: [2, 3] to [0]"},
    {"'op': 'interpolate', 'in': ['none'], 'attrs': {'size': [2, 2]}", BL_EGRAPH, "sizes must be from 1 to"},
    {"'op': 'interpolate', 'in': ['a'], 'attrs': {'size': 9223372036854775807}", BL_EGRAPH, "sizes must be from 1 to"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a b'}", BL_EGRAPH, "formula cannot be read at"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a b c -> c b a'}", BL_EGRAPH, "formula names 3 axes of [2, 3]"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a b -> a'}", BL_EGRAPH, "formula leaves out a name"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a b -> a b c'}", BL_EGRAPH, "formula has a name on the right only"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a b -> a a b'}", BL_EGRAPH, "formula has a name twice"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a b -> b a...'}", BL_EGRAPH, "formula has ... on one side"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a (b c) -> a b c'}", BL_EGRAPH,
     "formula needs sizes (name=3): two are missing"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a (b=2 c) -> a b c'}", BL_EGRAPH, "axis 1 of [2, 3] does not split"},
    {"'op': 'rearrange', 'in': ['none'], 'attrs': {'formula': '(a=0 c) b -> a b c'}", BL_EGRAPH,
     "axis 0 of [0, 3] does not split"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a=3 b -> a b=2'}", BL_EGRAPH, "axis 0 of [2, 3] does not split"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a=2 b -> a=3 b'}", BL_EGRAPH, "formula gives a name two sizes"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a=x b -> a b'}", BL_EGRAPH, "formula lacks a size"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a=99999999999999999999 b -> a b'}", BL_EGRAPH,
     "formula has too large a size"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': '(a b -> a b'}", BL_EGRAPH, "formula cannot be read"},
    {"'op': 'rearrange', 'in': ['a'], 'attrs': {'formula': 'a b -> 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 a b'}", BL_EGRAPH,
     "formula has more than 16 axes"},
    {"'op': 'rearrange', 'in': ['s'], 'attrs': {'formula': '2 -> 1'}", BL_EGRAPH, "formula cannot be read"},
    {"'op': 'linspace', 'attrs': {'start': 0, 'stop': 1, 'steps': -1}", BL_EGRAPH, "a size may not be negative"},
    {"'op': 'linspace', 'attrs': {'start': 0, 'stop': 1, 'steps': 2, 'dtype': 'int32'}", BL_EGRAPH,
     "must have a float dtype, not int32"},
    {"'op': 'cross_entropy', 'in': ['a', 'u']", BL_EGRAPH, "cross_entropy: shapes do not fit: x [2, 3], target [1]"},
    {"'op': 'layer_norm', 'in': ['a', 'b']", BL_EGRAPH, "layer_norm: "},
    {"'op': 'dropout', 'in': ['a'], 'attrs': {'p': 2}", BL_EGRAPH, "dropout: p must be between 0 and 1, not 2"},
    {"'op': 'arange', 'attrs': {'stop': 5, 'step': 0}", BL_EGRAPH, "arange: step may not be 0"},
    {"'op': 'arange', 'attrs': {'stop': 1e300, 'step': 0.1}", BL_EGRAPH, "arange: the range"},
    {"'op': 'randint', 'attrs': {'shape': 3, 'high': 0}", BL_EGRAPH, "randint: high must be above low"},
    {"'op': 'batch_index', 'attrs': {'n': 4, 'batch': 5}", BL_EGRAPH, "batch must be between 1 and n"},
    {"'op': 'step', 'attrs': {'dtype': 'float32'}", BL_EGRAPH, "step: counts in integers"},
    {"'op': 'randperm', 'attrs': {'n': 2147483648}", BL_EGRAPH, "randperm: n must be between 0"},
    {"'op': 'uniform', 'attrs': {'shape': 3, 'seed': -1}", BL_EGRAPH, "uniform: seed must be between 0"},
    {"'op': 'uniform', 'in': ['i'], 'attrs': {'shape': 3}", BL_EGRAPH, "uniform: key must be a scalar, not of shape [2]"},
    {"'op': 'uniform', 'attrs': {'shape': 3, 'dtype': 'int8'}", BL_EGRAPH, "uniform: draws floats, not int8"},
    {"'op': 'grad', 'in': ['a', 'a']", BL_EGRAPH, "grad: y must have one element, not shape [2, 3]"},
    {"'op': 'grad', 'in': ['s', 'i']", BL_EGRAPH, "grad: xs must be floats, not int32"},
    {"'op': 'grad', 'in': ['s', 2]", BL_EGRAPH, "grad: xs cannot be a literal"},
    {"'op': 'grad', 'in': ['s', 'a', 'a']", BL_EGRAPH, "grad: gives 2 results, but has 1 id"},
    {"'op': 'sgd', 'in': ['s', 'a']", BL_EGRAPH, "sgd: attribute \"lr\" is missing"},
    {"'op': 'sgd', 'in': ['s', 'a'], 'attrs': {'lr': 'rate'}", BL_EGRAPH, "is named \"rate\""},
    {"'op': 'sgd', 'in': ['s', 'a'], 'attrs': {'lr': 'a'}", BL_EGRAPH, "\"a\" must be a float32 scalar, not float32[2, 3]"},
    {"'op': 'sgd', 'in': ['s', 'a'], 'attrs': {'lr': 1, 'nesterov': true}", BL_EGRAPH, "sgd: nesterov needs a momentum"},
    {"'op': 'adam', 'in': ['s', 'a'], 'attrs': {'betas': [0.9]}", BL_EGRAPH, "adam: betas must be two numbers"},
    {"'op': 'adam', 'in': ['s', 'a']", BL_EGRAPH, "adam: keeps state; only a program has state"},
};

static void test_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = {0};
        char document[2048];
        snprintf(document, sizeof document, "{'inputs': " INPUTS ", 'nodes': [{'id': 'out', %s}], 'outputs': ['out']}",
                 rows[i].node);
        bl_status got = bench_run(&b, document);
        if (got != rows[i].status || strstr(b.err.text, rows[i].text) == NULL)
            fail_msg("%s: got %s \"%s\", want %s \"%s\"", rows[i].node, bl_status_name(got), b.err.text,
                     bl_status_name(rows[i].status), rows[i].text);
        assert_string_equal("out", b.err.node);
        bench_fini(&b);
    }
}

/* Dimensions with different names are unequal, even if their sizes could be equal. */
static void test_named_dimensions(void **state)
{
    bench b = {0};

    (void)state;
    assert_int_equal(BL_EGRAPH,
                     bench_run(&b, "{'inputs': {'x': [[1], [2]], 'y': [[1], [2]]}, 'shapes': {'x': ['n', 1], 'y': ['m', 1]},"
                                   " 'nodes': [{'id': 'z', 'op': 'add', 'in': ['x', 'y']}], 'outputs': ['z']}"));
    assert_string_equal("add: shapes do not broadcast: [n, 1] and [m, 1]", b.err.text);
    bench_fini(&b);
}

static void test_signatures(void **state)
{
    static const char *const bad[] = {"",         "x: T",         "x:T -> T", "x: Q -> T",          "x: T y: T -> T",
                                      "x: T -> ", "x: T, -> T T", ": T -> T", "x: T= , y: T -> T T"};
    bl_sig sig;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (bl_sig_parse(bad[i], &sig))
            fail_msg("\"%s\" was taken for a signature", bad[i]);
    }
    assert_true(bl_sig_parse("x: Float, ws: Wrt..., axis: ints=[1, 2], how: a|b=b -> T...", &sig));
    assert_int_equal(2, sig.ninputs);
    assert_int_equal(2, sig.nattrs);
    assert_true(sig.input[1].many && !sig.input[0].many && sig.many_results);
    assert_true(bl_span_is(sig.attr[0].preset, "[1, 2]") && sig.attr[1].kind == BL_SIG_CHOICE);
}

/* Graphs with ops of most kinds. */
static const char *const whole[] = {
    "{'inputs': {'x': [[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]], 'w': [[[[1, 2], [3, 4]]]], 't': {'dtype': 'int64', 'shape': [1],"
    " 'data': [1]}}, 'nodes': [{'id': 'c', 'op': 'conv2d', 'in': ['x', 'w'], 'attrs': {'padding': 1, 'stride': 2}},"
    "{'id': 'r', 'op': 'relu', 'in': ['c']}, {'id': 'd', 'op': 'dropout', 'in': ['r']},"
    "{'id': 'm', 'op': 'max_pool2d', 'in': ['d'], 'attrs': {'kernel_size': 2, 'stride': 1}},"
    "{'id': 'f', 'op': 'flatten', 'in': ['r'], 'attrs': {'start_axis': 1}}, {'id': 'g', 'op': 'gelu', 'in': ['f']},"
    "{'id': 'l', 'op': 'cross_entropy', 'in': ['g', 't']}, {'id': 'mm', 'op': 'mean', 'in': ['m']},"
    "{'id': 'loss', 'op': 'add', 'in': ['l', 'mm']}, {'id': ['w1'], 'op': 'adam', 'in': ['loss', 'w']},"
    "{'id': ['dr', 'dx'], 'op': 'grad', 'in': ['loss', 'r', 'x']}], 'outputs': ['loss', 'w1', 'dr', 'dx']}",
    "{'inputs': {'x': [[1, 2], [3, 4]], 'i': {'dtype': 'int64', 'shape': [2], 'data': [1, 0]}}, 'nodes': ["
    "{'id': 'p', 'op': 'randperm', 'attrs': {'n': 2}}, {'id': 'q', 'op': 'take', 'in': ['x', 'p']},"
    "{'id': 'k', 'op': 'cat', 'in': ['q', 'x', 'q']}, {'id': 's', 'op': 'slice', 'in': ['k'], 'attrs': {'step': [2]}},"
    "{'id': 'n', 'op': 'layer_norm', 'in': ['s']}, {'id': 'mm', 'op': 'matmul', 'in': ['n', 'x']},"
    "{'id': 'pr', 'op': 'prod', 'in': ['mm']}, {'id': 'sm', 'op': 'softmax', 'in': ['mm']},"
    "{'id': ['dx'], 'op': 'grad', 'in': ['pr', 'x']}, {'id': 'am', 'op': 'argmax', 'in': ['sm']},"
    "{'id': 'sd', 'op': 'std', 'in': ['mm']}, {'id': 'nn', 'op': 'normal', 'attrs': {'shape': [2]}}],"
    " 'outputs': ['dx', 'am', 'sd', 'nn']}",
};

/* Whichever limit is reached first, the build returns a status. */
static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        int failures = 0;
        size_t bytes = 256;
        while (bench_build(whole[i], bytes, 0) != BL_OK) {
            bytes += bytes / 64 + 64;
            failures++;
        }
        assert_true(failures > 50); /* the failures covered the whole build */
        long nth = 1;
        while (bench_build(whole[i], 0, nth) != BL_OK)
            nth++;
        assert_true(nth > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_named_dimensions),
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
