# SPDX-License-Identifier: MIT
"""Tables for test_op_shapes.py: methods of Tensor and the equivalent functions of PyTorch, with shapes and dtypes.

A row of UNARY, BINARY and REDUCTIONS has a name, Tensor's function, and PyTorch's function if it has another name; the test
runs each row on every shape of its table.  A row of CASES has a name, the shapes of its inputs, Tensor's function, PyTorch's
function if it differs, and options:
  low, high: range of the numbers
  values: input values instead of shapes
  grad: False compares values alone
"""
import math

import numpy
import torch
import torch.nn.functional as F
from beamline import Tensor, dtypes

SHAPES = [(), (1,), (5,), (3, 4), (2, 1, 3), (2, 3, 1, 4), (0,), (2, 0, 3)]
PAIRS = [((), ()), ((3,), ()), ((), (2, 3)), ((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((5, 1), (1, 4)), ((0, 3), (3,)), ((1,), (0,)), ((2, 3, 4), (2,
    3, 4))]
AXES = [((), None), ((), 0), ((4,), None), ((4,), 0), ((3, 4), None), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), (0, 2)), ((2, 3, 4), 1), ((2, 3, 4),
    (-1, 0, 1)),
        ((1, 1), None), ((2, 0), 0), ((0, 3), 1)]
EMPTY_AXES = [((0,), None), ((2, 0), 1), ((2, 0, 3), None), ((0, 3), 0)]  # reductions without elements


def both(method, *arguments, **options):
    """A method of Tensor and of PyTorch's tensors, with the same arguments."""
    return lambda x: getattr(x, method)(*arguments, **options)


ABOVE_ZERO, INSIDE, ABOVE_ONE = {"low": 0.2, "high": 3.0}, {"low": -0.9, "high": 0.9}, {"low": 1.1, "high": 3.0}
# name -> (Tensor's function, PyTorch's function or None for the same, options)
UNARY = {
    **{name: (both(name), None, {}) for name in (
        "neg", "abs", "square", "exp", "exp2", "sin", "cos", "tanh", "sinh", "cosh", "asinh", "atan", "sigmoid", "relu", "erf", "isnan", "isinf",
        "isfinite", "sign", "floor", "ceil", "trunc", "round", "logical_not", "contiguous", "detach", "float", "double", "half", "int", "long",
          "short", "bool")},
    **{name: (both(name), None, ABOVE_ZERO) for name in ("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal")},
    **{name: (both(name), None, INSIDE) for name in ("asin", "acos", "atanh", "tan")}, "acosh": (both("acosh"), None, ABOVE_ONE),
    "relu6": (lambda x: (x * 4).relu6(), lambda x: F.relu6(x * 4), {}), "silu": (both("silu"), F.silu, {}), "swish": (both("swish"), F.silu, {}),
    "hardsigmoid": (lambda x: (x * 3).hardsigmoid(), lambda x: F.hardsigmoid(x * 3), {}), "elu": (both("elu", 1.3), lambda x: F.elu(x, 1.3), {}),
    "hardswish": (lambda x: (x * 3).hardswish(), lambda x: F.hardswish(x * 3), {}), "hardtanh": (both("hardtanh", -0.5, 1.2),
        lambda x: F.hardtanh(x, -0.5, 1.2), {}),
    "leaky_relu": (both("leaky_relu", 0.2), lambda x: F.leaky_relu(x, 0.2), {}), "celu": (both("celu", 0.7), lambda x: F.celu(x, 0.7), {}),
    "selu": (both("selu"), F.selu, {}), "gelu": (both("gelu", "none"), F.gelu, {}), "quick_gelu": (both("quick_gelu"),
        lambda x: x * torch.sigmoid(1.702 * x), {}),
    "mish": (both("mish"), F.mish, {}), "softplus": (both("softplus", 1.5), lambda x: F.softplus(x, 1.5), {}), "softsign": (both("softsign"),
        F.softsign, {}),
    "logsigmoid": (both("logsigmoid"), F.logsigmoid, {}), "clamp": (both("clamp", -0.7, 0.9), None, {}), "clamp low": (both("clamp", 0.1), None, {}),
    "clamp high": (lambda x: x.clamp(max_=0.1), lambda x: x.clamp(max=0.1), {}), "clip": (both("clip", -1, 1), None, {}),
    "add number": (lambda x: x + 1.5, None, {}), "number minus": (lambda x: 2 - x, None, {}), "times number": (lambda x: x * -3, None, {}),
    "by number": (lambda x: x / 3, None, {}), "number by": (lambda x: 3 / x, None, ABOVE_ZERO), "floor by": (lambda x: x // 0.7, None,
        {"grad": False}),
    "modulo": (lambda x: x % 0.7, None, {}), "to the 2": (lambda x: x ** 2, None, {}), "to the 3": (lambda x: x ** 3, None, {}),
        "to the 0": (lambda x: x ** 0, None, {}),
    "to the -1": (lambda x: x ** -1, None, ABOVE_ZERO), "to the 0.5": (lambda x: x ** 0.5, None, ABOVE_ZERO), "to the -1.7": (lambda x: x ** -1.7,
        None, ABOVE_ZERO),
    "2 to the": (lambda x: 2 ** x, None, {}), "0.5 to the": (lambda x: 0.5 ** x, None, {}), "where number": (lambda x: (x > 0).where(x, 0.5),
        lambda x: torch.where(x > 0, x, 0.5 * torch.ones_like(x)), {}),
    "masked_fill": (lambda x: x.masked_fill(x > 0.3, -2.0), None, {}), "less": (lambda x: x < 0.2, None, {}), "equal": (lambda x: x == x, None, {}),
    "flatten": (both("flatten"), None, {}), "reshape flat": (both("reshape", (-1,)), lambda x: x.reshape(-1), {}), "unsqueeze": (both("unsqueeze",
        0), None, {}),
    "unsqueeze last": (both("unsqueeze", -1), None, {}), "squeeze": (both("squeeze"), None, {}), "zeros_like": (both("zeros_like"),
        torch.zeros_like, {}),
    "ones_like": (both("ones_like"), torch.ones_like, {}), "full_like": (both("full_like", 2.5), lambda x: torch.full_like(x, 2.5), {}),
    "roll": (both("roll", 2), None, {}), "expand": (lambda x: x.expand((2, *x.shape)), None, {}),
        "repeat": (lambda x: x.repeat((2,) * (x.ndim + 1)), None, {}),
    "ellipsis": (lambda x: x[...], None, {}), "new axis": (lambda x: x[None], None, {}), "new last axis": (lambda x: x[..., None], None, {}),
    "softmax": (both("softmax", -1), None, {}), "log_softmax": (both("log_softmax", -1), None, {}),
        "logsumexp of exp": (lambda x: (x * 1).exp().log(), None, {}),
}
BINARY = {
    "add": (lambda x, y: x + y, None, {}), "sub": (lambda x, y: x - y, None, {}), "mul": (lambda x, y: x * y, None, {}), "div": (lambda x,
        y: x / y, None, ABOVE_ZERO),
    "floor_div": (lambda x, y: x // y, None, {**ABOVE_ZERO, "grad": False}), "mod": (lambda x, y: x % y, None, {**ABOVE_ZERO, "grad": False}),
    "trunc_div": (lambda x, y: x.div(y, rounding_mode="trunc"), None, {**ABOVE_ZERO, "grad": False}),
    "fmod": (lambda x, y: x.fmod(y), None, {**ABOVE_ZERO, "grad": False}), "pow": (lambda x, y: x ** y, None, ABOVE_ZERO),
    "maximum": (lambda x, y: x.maximum(y), None, {}), "minimum": (lambda x, y: x.minimum(y), None, {}), "copysign": (lambda x, y: x.copysign(y),
        None, {}),
    "logaddexp": (lambda x, y: x.logaddexp(y), None, {}), "lerp": (lambda x, y: x.lerp(y, 0.3), None, {}), "equal": (lambda x, y: x == y, None, {}),
    "not equal": (lambda x, y: x != y, None, {}), "less": (lambda x, y: x < y, None, {}), "greater equal": (lambda x, y: x >= y, None, {}),
    "where": (lambda x, y: (x > y).where(x, y), lambda x, y: torch.where(x > y, x, y), {}), "isclose": (lambda x, y: x.isclose(y, 0.5, 0.5), None,
        {}),
    "sub reversed": (lambda x, y: x.sub(y, reverse=True), lambda x, y: y - x, {}), "clamp by": (lambda x, y: x.clamp(y - 1, y), lambda x,
        y: torch.minimum(torch.maximum(x, y - 1), y), {}),
}


def every_axis(x):
    return tuple(range(x.ndim))


def amax(x, axis, keepdim):
    return x.amax(every_axis(x) if axis is None else axis, keepdim) if x.ndim else x


def amin(x, axis, keepdim):
    return x.amin(every_axis(x) if axis is None else axis, keepdim) if x.ndim else x


def product(x, axis, keepdim):
    axes = every_axis(x) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for each in sorted((each % max(1, x.ndim) for each in axes), reverse=True):
        x = x.prod(each, keepdim)
    return x


def over(name):
    """A reduction of PyTorch over several axes."""
    return lambda x, axis, keepdim: getattr(torch, name)(x, every_axis(x) if axis is None else axis, keepdim)


# name -> (PyTorch's function of (x, axis, keepdim), whether it has a value without elements)
REDUCTIONS = {
    "sum": (over("sum"), True), "mean": (over("mean"), True), "max": (amax, False), "min": (amin, False), "prod": (product, True),
    "logsumexp": (over("logsumexp"), True), "var": (lambda x, axis, keepdim: torch.var(x, every_axis(x) if axis is None else axis, False, keepdim),
        False),
    "std": (lambda x, axis, keepdim: torch.std(x, every_axis(x) if axis is None else axis, False, keepdim), False),
}
INDEX = numpy.array([[0, 2, 1, 0], [1, 1, 2, 2]], "int64")
TARGETS = numpy.array([1, 0, 3], "int64")


def mine_or_torch(array, x):
    """An index array for Tensor or for PyTorch."""
    return torch.tensor(array) if isinstance(x, torch.Tensor) else Tensor(array.astype("int32"))


def pooled(name, *arguments, **options):
    """A pooling function of PyTorch."""
    return lambda x: getattr(F, name)(x, *arguments, **options)


# name, shapes of the inputs, Tensor's function, PyTorch's function or None for the same, options
CASES = [
    # ---- shapes
    *((f"pad {padding} {shape}", [shape], lambda x, p=padding: x.pad(p, value=1.5), lambda x, p=padding: F.pad(x, p, value=1.5), {})
      for shape, padding in (((4,), (1, 2)), ((3, 4), (0, 1)), ((3, 4), (1, -2, 0, 3)), ((2, 3, 4), (1, 1, 2, 0, 0, 3)), ((0, 3), (1, 0, 2, 0)))),
    *((f"pad {mode} {padding} {shape}", [shape], lambda x, p=padding, m=mode: x.pad(p, mode=m), lambda x, p=padding, m=mode: F.pad(x, p, mode=m), {})
      for mode in ("reflect", "replicate", "circular") for shape, padding in (((2, 3, 5), (1, 2)), ((2, 3, 5), (3, 0)), ((1, 2, 4, 5), (1, 2, 3,
        0)))),
    *((f"permute {order}", [(2, 3, 4)], lambda x, o=order: x.permute(o), None, {}) for order in ((0, 1, 2), (2, 1, 0), (-1, 0, 1), (1, 2, 0))),
    ("permute of a number", [()], lambda x: x.permute(()), None, {}),
    *((f"transpose {a} {b}", [(2, 3, 4)], lambda x, a=a, b=b: x.transpose(a, b), None, {}) for a, b in ((0, 1), (-1, 0), (1, 1), (-2, 2))),
    *((f"reshape {shape}", [(2, 3, 4)], lambda x, s=shape: x.reshape(s), None, {}) for shape in ((24,), (4, 6), (-1, 8), (2, -1, 1), (1, 24, 1),
        (3, 2, 2, 2))),
    ("view none", [(2, 0, 3)], lambda x: x.reshape(0, 5), None, {}), ("flatten 1", [(2, 3, 4)], lambda x: x.flatten(1), None, {}),
    ("flatten 0 1", [(2, 3, 4)], lambda x: x.flatten(0, 1), None, {}), ("flatten -2", [(2, 3, 4)], lambda x: x.flatten(-2), None, {}),
    ("unflatten", [(2, 12)], lambda x: x.unflatten(1, (3, 4)), None, {}), ("unflatten -1", [(2, 12)], lambda x: x.unflatten(-1, (3, -1)), None, {}),
    *((f"flip {axes}", [(2, 3, 4)], lambda x, a=axes: x.flip(a), None, {}) for axes in ((0,), (0, 2), (-1,), (0, 1, 2))),
    *((f"squeeze {axis}", [(1, 3, 1, 2)], lambda x, a=axis: x.squeeze(a), None, {}) for axis in (0, 1, 2, -2)),
    *((f"unsqueeze {axis}", [(3, 2)], lambda x, a=axis: x.unsqueeze(a), None, {}) for axis in (0, 1, 2, -1, -3)),
    ("expand new", [(3, 1)], lambda x: x.expand(2, 3, 4), None, {}), ("expand -1", [(3, 1)], lambda x: x.expand(-1, 4), None, {}),
    ("expand a number", [()], lambda x: x.expand(2, 3), None, {}), ("expand to none", [(1, 3)], lambda x: x.expand(0, 3), None, {}),
    *((f"repeat {times}", [(2, 3)], lambda x, t=times: x.repeat(t), None, {}) for times in ((2, 1), (1, 3), (2, 2, 2), (0, 1), (1, 1))),
    *((f"repeat_interleave {times} {axis}", [(2, 3)], lambda x, t=times, a=axis: x.repeat_interleave(t, a), None, {}) for times, axis in ((2, 0),
        (3, 1), (2, None), (1, -1))),
    *((f"roll {by} {axes}", [(3, 4)], lambda x, s=by, a=axes: x.roll(s, a), None, {}) for by, axes in ((1, 0), (-1, 1), ((1, 2), (0, 1)), (9, 0),
        (0, 1), (5, None))),
    *((f"tril {k} {shape}", [shape], lambda x, k=k: x.tril(k), None, {}) for k in (0, 1, -2, 5) for shape in ((4, 4), (2, 3, 5), (5, 2))),
    *((f"triu {k} {shape}", [shape], lambda x, k=k: x.triu(k), None, {}) for k in (0, 1, -2, 5) for shape in ((4, 4), (2, 3, 5), (5, 2))),
    ("diag", [(4,)], lambda x: x.diag(), None, {}), *((f"diagonal {k}", [(3, 5)], lambda x, k=k: x.diagonal(k), None, {}) for k in (0, 1, -1, 4)),
    ("diagonal axes", [(2, 3, 4)], lambda x: x.diagonal(0, 2, 1), None, {}), *((f"unfold {axis} {size} {step}", [(6, 7)], lambda x, a=axis, s=size,
        t=step: x.unfold(a, s, t), None, {})
                                                                           for axis, size, step in ((0, 2, 1), (1, 3, 2), (-1, 7, 1), (0, 1, 3))),
    *((f"split {sizes} {axis}", [(5, 6)], lambda x, s=sizes, a=axis: x.split(s, a)[-1], None, {}) for sizes, axis in ((2, 0), (4, 1), ([1, 4], 0),
        ([2, 0, 4], 1), (9, 0))),
    *((f"chunk {count} {axis}", [(5, 6)], lambda x, c=count, a=axis: x.chunk(c, a)[0], None, {}) for count, axis in ((2, 0), (4, 1), (7, 0), (1, 1))),
    ("cat", [(2, 3), (2, 1), (2, 0)], lambda x, *rest: x.cat(*rest, dim=1), lambda *all_: torch.cat(all_, 1), {}),
    ("cat -1", [(1, 2, 3), (1, 2, 2)], lambda x, y: x.cat(y, dim=-1), lambda x, y: torch.cat([x, y], -1), {}),
    ("cat of itself", [(2, 3)], lambda x: x.cat(x, x), lambda x: torch.cat([x, x, x]), {}),
    *((f"stack {axis}", [(2, 3), (2, 3)], lambda x, y, a=axis: x.stack(y, dim=a), lambda x, y, a=axis: torch.stack([x, y], a), {}) for axis in (0,
        1, 2, -1, -3)),
    ("stack of numbers", [(), ()], lambda x, y: x.stack(y), lambda x, y: torch.stack([x, y]), {}),
    ("meshgrid", [(3,), (2,)], lambda x, y: x.meshgrid(y)[0] * x.meshgrid(y)[1], lambda x, y: torch.meshgrid(x, y,
        indexing="ij")[0] * torch.meshgrid(x, y, indexing="ij")[1], {}),
    ("rearrange", [(2, 6, 4)], lambda x: x.rearrange("a (b c) d -> (a c) d b", b=2), lambda x: x.reshape(2, 2, 3, 4).permute(0, 2, 3, 1).reshape(6,
        4, 2), {}),
    # ---- indexing
    *((f"index {index!r}", [(4, 5, 3)], lambda x, i=index: x[i], None, {}) for index in (
        0, -1, (1, 2), (slice(1, 3),), (slice(None), 2), (slice(None, None, 2), slice(1, None, 3)), (Ellipsis, -1), (None, 0), (slice(-3, -1),),
          (0, 1, 2),
        (slice(2, 2),), (slice(10, 20),), (slice(None, -10),), (slice(1, 100),), [2, 0, 0], ([1, 2], [0, 4]), ([1, 2], slice(None), [0, 2]),
          (slice(1, 3), [0, 2, 1]),
        ([[0, 1], [2, 3]],), (None, [1, 0]), (Ellipsis, None, [1, 1]), (0, [1, 3]), ([0, 3], 1), ([-1, -4],))),
    *((f"backwards {index!r}", [(4, 5)], lambda x, i=index: x[i], lambda x, f=flipped: f(x), {}) for index, flipped in (
        (slice(None, None, -1), lambda x: x.flip(0)), ((slice(None), slice(3, 0, -2)), lambda x: x[:, [3, 1]]), ((slice(2, None, -1), slice(None,
          None, 2)), lambda x: x[[2, 1, 0]][:, ::2]))),
    *((f"gather {axis}", [(3, 4)], lambda x, a=axis: x.gather(a, mine_or_torch(INDEX, x)), None, {}) for axis in (0, 1)),
    *((f"scatter {axis} {reduce}", [(3, 4), (2, 4)], lambda x, y, a=axis, r=reduce: x.scatter(a, mine_or_torch(INDEX if r else numpy.array([[0, 2,
        1, 3], [1, 3, 2, 0]])[:, :4] % (3 if a == 0 else 4), x), y, r),
       lambda x, y, a=axis, r=reduce: (x.scatter(a, torch.tensor(INDEX), y, reduce=r) if r else
                                       x.scatter(a, torch.tensor(numpy.array([[0, 2, 1, 3], [1, 3, 2, 0]]) % (3 if a == 0 else 4)), y)),
                                         {"grad": reduce is None and axis == 1})
      for axis in (0, 1) for reduce in (None, "add", "multiply")),
    *((f"scatter_reduce {axis} {reduce} {itself}", [(3, 4), (2, 4)], lambda x, y, a=axis, r=reduce, s=itself: x.scatter_reduce(a,
        mine_or_torch(INDEX, x), y, r, include_self=s), None,
       {"grad": reduce in ("sum", "mean")}) for axis in (0, 1) for reduce in ("sum", "prod", "mean", "amax", "amin") for itself in (True, False)),
    ("masked_select", [(3, 4)], lambda x: x.masked_select(x > 0), None, {}), ("nonzero", [(3, 4)], lambda x: (x > 0).nonzero(), None,
        {"grad": False}),
    ("one_hot", [], lambda: Tensor([[0, 2], [1, 4]]).one_hot(6), lambda: F.one_hot(torch.tensor([[0, 2], [1, 4]]), 6), {"grad": False}),
    # ---- sorting
    *((f"{name} {axis} {shape}", [shape], lambda x, n=name, a=axis: getattr(x, n)(a), None, {}) for name in ("cumsum", "cumprod", "logcumsumexp")
      for shape, axis in (((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), -2), ((), 0), ((2, 0), 1), ((0, 2), 1))),
    *((f"{name} {axis} {shape}", [shape], lambda x, n=name, a=axis: getattr(x, n)(a)[part], None, {"grad": part == 0}) for name in ("cummax",
        "cummin")
      for shape, axis in (((5,), 0), ((3, 4), 0), ((2, 3, 4), -1)) for part in (0,)),
    *((f"sort {axis} {down} {part}", [(4, 5)], lambda x, a=axis, d=down, p=part: x.sort(a, d)[p], None, {"grad": part == 0}) for axis in (0, 1,
        -1) for down in (False, True) for part in (0, 1)),
    *((f"topk {k} {axis} {largest} {part}", [(4, 5)], lambda x, k=k, a=axis, b=largest, p=part: x.topk(k, a, b)[p], None, {"grad": part == 0})
      for k in (1, 4) for axis in (0, -1) for largest in (True, False) for part in (0, 1)),
    ("argsort", [(3, 7)], lambda x: x.argsort(), None, {"grad": False}), *((f"{name} {axis} {keep}", [(3, 4)], lambda x, n=name, a=axis,
        k=keep: getattr(x, n)(a, keepdim=k), None, {"grad": False})
                                                                            for name in ("argmax", "argmin") for axis, keep in ((0, False), (1,
                                                                              True), (-1, False))),
    ("argmax of all", [(3, 4)], lambda x: x.argmax(), None, {"grad": False}),
    # ---- products
    *((f"matmul {a} {b}", [a, b], lambda x, y: x @ y, None, {}) for a, b in (
        ((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
          ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5)),
        ((2, 3, 4), (4,)), ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((1, 1), (1, 1)), ((3, 4), (4, 0)), ((33, 17), (17, 9)))),
    *((f"einsum {formula}", list(shapes), lambda *xs, f=formula: Tensor.einsum(f, *xs), lambda *xs, f=formula: torch.einsum(f, *xs),
        {}) for formula, *shapes in (
        ("ij->ji", (2, 3)), ("ii->i", (3, 3)), ("ii->", (3, 3)), ("ij->", (2, 3)), ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)),
          ("i,j->ij", (2,), (3,)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("ij,ij->i", (2, 3), (2, 3)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("...a,...b->...ab",
          (2, 3), (2, 4)), ("ba", (2, 3)), ("abc,cd->abd", (2, 3, 4), (4, 5)))),
    ("linear", [(2, 3, 4), (4, 5), (5,)], lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b, {}), ("linear by vector", [(2, 4), (4,)],
        lambda x, w: x.linear(w), lambda x, w: x * w, {}),
    ("dot", [(4,), (4,)], lambda x, y: x.dot(y), None, {}),
    *((f"attention {causal}", [(2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8)], lambda q, k, v, c=causal: q.scaled_dot_product_attention(k, v, is_causal=c),
       lambda q, k, v, c=causal: torch.softmax((q @ k.transpose(-1, -2)) / math.sqrt(8) + (torch.full((4, 5), -math.inf).triu(1) if c else 0),
         -1) @ v, {}) for causal in (False, True)),
    # ---- convolutions
    *((f"conv {x} {w} {options}", [x, w] + [(w[0],)] * bias, lambda x, w, *b, o=options: x.conv2d(w, *b, **o), lambda x, w, *b,
        o=options: {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.ndim](x, w, *b, **o), {})
      for x, w, bias, options in (
        ((1, 1, 5, 5), (1, 1, 3, 3), True, {}), ((2, 3, 6, 7), (4, 3, 1, 1), False, {}), ((2, 3, 6, 7), (4, 3, 3, 2), True, {"stride": 2}), ((2, 3,
          6, 7), (4, 3, 3, 3), True, {"padding": 1}),
        ((2, 3, 6, 7), (4, 3, 3, 3), False, {"stride": (2, 1), "padding": (1, 2)}), ((2, 3, 8, 9), (4, 3, 2, 3), False, {"dilation": 2}), ((2, 3,
          8, 9), (4, 3, 2, 3), False, {"dilation": (1, 3)}),
        ((2, 4, 5, 5), (6, 2, 3, 3), True, {"groups": 2}), ((2, 4, 5, 5), (4, 1, 3, 3), True, {"groups": 4, "padding": 1}), ((2, 4, 5, 5), (8, 1,
          2, 2), False, {"groups": 4, "stride": 2}),
        ((1, 2, 4, 4), (3, 2, 4, 4), True, {}), ((1, 2, 9), (3, 2, 3), True, {}), ((2, 4, 9), (4, 2, 3), False, {"groups": 2, "stride": 2,
          "padding": 1}), ((1, 2, 4, 5, 4), (3, 2, 2, 3, 1), True, {"padding": 1}),
        ((2, 2, 3, 3), (2, 2, 3, 3), False, {"padding": 2, "stride": 3}), ((0, 2, 4, 4), (3, 2, 2, 2), False, {}))),
    *((f"transposed {x} {w} {options}", [x, w], lambda x, w, o=options: x.conv_transpose2d(w, **o), lambda x, w, o=options: {3: F.conv_transpose1d,
        4: F.conv_transpose2d, 5: F.conv_transpose3d}[x.ndim](x, w, **o), {})
      for x, w, options in (
        ((2, 3, 4, 4), (3, 2, 3, 3), {}), ((2, 3, 4, 5), (3, 2, 3, 2), {"stride": 2}), ((2, 3, 4, 4), (3, 2, 3, 3), {"padding": 1}), ((2, 3, 4, 4),
          (3, 2, 3, 3), {"stride": 3, "padding": 1, "output_padding": 2}),
        ((2, 4, 3, 3), (4, 2, 3, 3), {"groups": 2}), ((2, 3, 4, 4), (3, 2, 2, 2), {"dilation": 2}), ((2, 3, 5), (3, 2, 3), {"stride": 2,
          "output_padding": 1}), ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), {"stride": 2}))),
    # ---- pooling
    *((f"max_pool {shape} {options}", [shape], lambda x, o=options: x.max_pool2d(**o), lambda x, o=options, n=len(shape): {3: F.max_pool1d,
        4: F.max_pool2d, 5: F.max_pool3d}[n](x, **o), {}) for shape, options in (
        ((2, 3, 6, 7), {"kernel_size": (2, 2)}), ((2, 3, 6, 7), {"kernel_size": (3, 2), "stride": 1}), ((2, 3, 6, 7), {"kernel_size": (3, 3),
          "stride": 2, "padding": 1}),
        ((2, 3, 6, 7), {"kernel_size": (2, 2), "dilation": 2}), ((2, 3, 6, 7), {"kernel_size": (4, 4), "stride": 3, "ceil_mode": True}), ((2, 3,
          7), {"kernel_size": (3,), "stride": 2}),
        ((1, 2, 4, 4, 5), {"kernel_size": (2, 2, 2)}), ((1, 1, 5, 5), {"kernel_size": (5, 5)}), ((2, 3, 7, 7), {"kernel_size": (3, 3), "stride": 2,
          "padding": 1, "ceil_mode": True}))),
    *((f"avg_pool {shape} {options}", [shape], lambda x, o=options: x.avg_pool2d(**o), lambda x, o=options, n=len(shape): {3: F.avg_pool1d,
        4: F.avg_pool2d, 5: F.avg_pool3d}[n](x, **o), {}) for shape, options in (
        ((2, 3, 6, 7), {"kernel_size": (2, 2)}), ((2, 3, 6, 7), {"kernel_size": (3, 2), "stride": 1}), ((2, 3, 6, 7), {"kernel_size": (3, 3),
          "stride": 2, "padding": 1}),
        ((2, 3, 6, 7), {"kernel_size": (3, 3), "stride": 2, "padding": 1, "count_include_pad": False}), ((2, 3, 6, 7), {"kernel_size": (4, 4),
          "stride": 3, "ceil_mode": True}),
        ((2, 3, 7), {"kernel_size": (3,), "stride": 2}), ((1, 2, 4, 4, 5), {"kernel_size": (2, 2, 2)}), ((2, 3, 7, 7), {"kernel_size": (3, 3),
          "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}))),
    ("max_pool places", [(2, 3, 6, 6)], lambda x: x.max_pool2d(return_indices=True)[1], lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
        {"grad": False}),
    ("max_unpool", [(2, 3, 6, 6)], lambda x: (lambda v, i: v.max_unpool2d(i))(*x.max_pool2d(return_indices=True)),
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), {}),
    *((f"interpolate {mode} {shape} {size} {corners}", [shape], lambda x, s=size, m=mode, c=corners: x.interpolate(s,
        "linear" if "linear" in m else m, **({"align_corners": c} if "linear" in m else {})),
       lambda x, s=size, m=mode, c=corners: F.interpolate(x, s, mode=m, **({"align_corners": c} if "linear" in m else {})), {})
      for mode, shape in (("linear", (1, 2, 5)), ("bilinear", (1, 2, 4, 5)), ("nearest", (1, 2, 4, 5)), ("nearest-exact", (1, 2, 4, 5)),
        ("trilinear", (1, 1, 3, 4, 2)))
      for size in ([(3,), (9,), (5,)] if len(shape) == 3 else [(2, 7), (8, 3), (4, 5), (1, 1)] if len(shape) == 4 else [(2, 5,
        4)]) for corners in ((False, True) if "linear" in mode else (False,))),
    # ---- norms and losses
    *((f"layernorm {axes}", [(2, 3, 4)], lambda x, a=axes: x.layernorm(a), lambda x, a=axes: F.layer_norm(x, x.shape[a[0]:] if isinstance(a,
        tuple) else x.shape[-1:]), {}) for axes in (-1, (-2, -1), (0, 1, 2))),
    *((f"normalize {p} {axis}", [(3, 4)], lambda x, p=p, a=axis: x.normalize(p, a), lambda x, p=p, a=axis: F.normalize(x, p, a), {}) for p in (1,
        2, 3) for axis in (0, 1)),
    *((f"cross_entropy {reduction} {smoothing}", [(3, 5)], lambda x, r=reduction, s=smoothing: x.cross_entropy(mine_or_torch(TARGETS, x), r, s),
       lambda x, r=reduction, s=smoothing: F.cross_entropy(x, torch.tensor(TARGETS), reduction=r, label_smoothing=s), {}) for reduction in ("mean",
         "sum", "none") for smoothing in (0.0, 0.3)),
    *((f"nll_loss {reduction}", [(3, 5)], lambda x, r=reduction: x.log_softmax().nll_loss(mine_or_torch(TARGETS, x), reduction=r), lambda x,
        r=reduction: F.nll_loss(x.log_softmax(-1), torch.tensor(TARGETS), reduction=r), {})
      for reduction in ("mean", "sum", "none")),
    *((f"binary_crossentropy {reduction}", [(3, 4), (3, 4)], lambda x, y, r=reduction: x.sigmoid().binary_crossentropy(y.sigmoid(), r), lambda x,
        y, r=reduction: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction=r),
       {"grad": False}) for reduction in ("mean", "sum", "none")),
    *((f"binary_crossentropy_logits {reduction}", [(3, 4), (3, 4)], lambda x, y, r=reduction: x.binary_crossentropy_logits(y.sigmoid().detach(), r),
       lambda x, y, r=reduction: F.binary_cross_entropy_with_logits(x, y.sigmoid().detach(), reduction=r), {}) for reduction in ("mean", "sum",
         "none")),
    *((f"softmax {axis} {shape}", [shape], lambda x, a=axis: x.softmax(a), None, {}) for shape, axis in (((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1),
        ((2, 0), 0), ((2, 0), 1), ((0, 3), 1))),
    *((f"log_softmax {axis} {shape}", [shape], lambda x, a=axis: x.log_softmax(a), None, {}) for shape, axis in (((3, 4), 0), ((2, 3, 4), 1), ((2,
        0), 1), ((0, 3), 1))),
    ("var by 1", [(3, 4)], lambda x: x.var(1), None, {}), ("std by 1", [(3, 4)], lambda x: x.std(0), None, {}), ("var of one", [(3, 1)],
        lambda x: x.var(1), None, {"grad": False}),
    ("var_mean", [(3, 4)], lambda x: x.var_mean(1)[0] + x.var_mean(1)[1], lambda x: torch.var_mean(x, 1)[0] + torch.var_mean(x, 1)[1], {}),
    ("std_mean", [(3, 4)], lambda x: x.std_mean()[0] + x.std_mean()[1], lambda x: torch.std_mean(x)[0] + torch.std_mean(x)[1], {}),
    ("all", [(3, 4)], lambda x: (x > -1).all(1), None, {}), ("any", [(3, 4)], lambda x: (x > 1).any(0), None, {}), ("all of nothing", [(2, 0)],
        lambda x: x.all(1), None, {}), ("any of nothing", [(0,)], lambda x: x.any(), None, {}),
]
DTYPES = [getattr(dtypes, name) for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")]
# Operations whose result dtype and values are compared for every pair of dtypes
MIXED = {"add": lambda x, y: x + y, "mul": lambda x, y: x * y, "maximum": lambda x, y: x.maximum(y), "less": lambda x, y: x < y, "equal": lambda x,
    y: x == y}
