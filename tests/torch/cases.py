# SPDX-License-Identifier: MIT
"""The table of cases: an op of the wire, its operands, and the equivalent in torch.

The values of a case are drawn from its name, so that a new case changes no other.  `test_ops.py` runs the cases.
"""

import zlib

import numpy as np
import torch
import torch.nn.functional as F

from service import DTYPES, FLOATS, SIGNED, UNSIGNED

BOOL = ("bool",)
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS
ANY = NUMBERS + BOOL
F32 = ("float32",)
EXACT = ("float32", "float64")  # dtypes for cases whose values rounding to half would move across a discontinuity
INF, NAN = float("inf"), float("nan")
SPECIAL = (0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, 0.5, -3.0, 3.0, 20.0, -20.0, 90.0, -90.0, 1e-5, -1e-3, 0.3, 5.0, 8.0, -8.0, 0.62, 0.63)
TINY_SPECIAL = tuple(v for v in SPECIAL if abs(v) != INF)

CASES = []
# Ops that do not fit into a case, and the test file with their tests (a test searches the file for the name).
ELSEWHERE = {
    **dict.fromkeys(("keccak", "sha3_224", "sha3_256", "shake_128", "hash"), "test_hashes.py"),
    "grad": "test_ops.py", "svd": "test_linalg.py", "scan": "test_linalg.py", "cond": "test_linalg.py", "sgd": "test_training.py", "adam": "test_training.py", "adamw": "test_training.py",
    **dict.fromkeys(("adagrad", "rmsprop", "lamb", "lars", "muon", "clip_grad_norm", "step_lr", "polynomial_lr", "cosine_lr", "warmup_lr",
                     "one_cycle_lr"), "test_training.py"),
    **dict.fromkeys(("dropout", "uniform", "normal", "randint", "randperm", "rand_like", "randn_like", "kaiming_uniform", "kaiming_normal",
                     "glorot_uniform", "scaled_uniform", "bernoulli", "multinomial", "random_bits", "threefry", "step", "batch_index"), "test_random.py"),
    **dict.fromkeys(("block_linear", "block_take"), "../llm/test_quant.py"),
}


# ---- operands: functions of (generator, dtype under test) -> value

def typed(array, dtype):
    """Converts a NumPy array to the dtype: to torch, or to NumPy for dtypes that torch lacks."""
    _, bits, kind = DTYPES[dtype]
    if kind is None:
        return array.astype(np.int64).astype(bits)
    return torch.from_numpy(np.array(array)).to(kind)


def x(*shape, scale=1.0):
    """Normal numbers; small integers for integer dtypes."""
    def draw(rng, dtype):
        if dtype in FLOATS:
            return typed(scale * rng.normal(size=shape), dtype)
        return typed(rng.integers(0 if dtype in UNSIGNED + BOOL else -9, 2 if dtype in BOOL else 10, shape), dtype)
    return draw


def positive(*shape, least=0.05):
    def draw(rng, dtype):
        return typed(least + np.abs(rng.normal(size=shape)) if dtype in FLOATS else rng.integers(1, 10, shape), dtype)
    return draw


def distinct(*shape):
    """Distinct numbers in any float dtype (up to 256 elements)."""
    def draw(rng, dtype):
        count = int(np.prod(shape))
        return typed((rng.permutation(count).reshape(shape) - count // 2) / 16 if dtype in FLOATS else rng.integers(0, 10, shape), dtype)
    return draw


def given(values):
    """The given values in the dtype under test."""
    return lambda rng, dtype: typed(np.array(values), dtype)


def fixed(values, dtype):
    """The given values in a fixed dtype."""
    return lambda rng, _: typed(np.array(values), dtype)


def whole(shape, low, high, dtype="int64"):
    """Integers from low to high - 1: indices, classes."""
    return lambda rng, _: typed(rng.integers(low, high, shape), dtype)


class Case:
    """`dtypes` are the dtypes of the case; `grad`: compare gradients too; `loose` widens the bounds: about the number of
    consecutive roundings, or the size of a sum.  `pick` is (index, count) for ops with several results."""

    def __init__(self, op, draws, torch_op, attrs, dtypes, grad, loose, name, pick):
        self.op, self.draws, self.torch_op, self.attrs = op, draws, torch_op, attrs
        self.dtypes, self.grad, self.loose, self.name, self.pick = dtypes, grad, loose, name, pick

    def ids(self, place):
        """ids of the node; the compared result is y"""
        which, count = self.pick
        return [f"{place}y" if i == which else f"{place}r{i}" for i in range(count)]

    def values(self, dtype):
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [draw(rng, dtype) if callable(draw) else draw for draw in self.draws]


COUNTS = {}


def case(op, draws, torch_op, attrs=None, dtypes=FLOATS, grad=True, loose=1, note="", pick=(0, 1)):
    COUNTS[op] = COUNTS.get(op, 0) + 1
    CASES.append(Case(op, draws, torch_op, attrs or {}, dtypes, grad, loose, f"{op} {note or COUNTS[op]}", pick))


# ---- elementwise

# Angles from 1e3 to 3e38 (at 1534787973 a driver's sin was -1), without angles whose cosine is near 0, in pairs of both signs.
FAR = [1534787973.0] + [float(v) for v in np.geomspace(1e3, 3e38, 48).astype(np.float32) if abs(np.cos(np.float64(v))) > 0.2]
FAR = FAR + [-v for v in FAR]
ODD = ((17, 33), (1,), (3, 1), (0, 3), ())


def add_binary():
    table = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}
    for op, fn in table.items():
        case(op, [x(17, 33), x(17, 33)], fn, dtypes=NUMBERS)
        case(op, [x(3, 4), x(4)], fn, dtypes=NUMBERS)
        case(op, [x(17, 1), x(1, 33)], fn, dtypes=NUMBERS)
        case(op, [x(3, 1, 5), x()], fn, dtypes=NUMBERS)
        case(op, [x(0, 3), x(3)], fn, dtypes=NUMBERS)
        case(op, [given(SPECIAL), given(SPECIAL[::-1])], fn, note="special", grad=op not in ("maximum", "minimum"))
        case(op, [fixed(range(6), "int32"), fixed(range(1, 7), "uint8")], fn, dtypes=F32, note="int32, uint8")
        case(op, [fixed(range(6), "int8"), fixed(range(1, 7), "uint8")], fn, dtypes=F32, note="int8, uint8")
        case(op, [fixed(range(-3, 3), "int8"), x(6)], fn, note="int8, float")
        case(op, [fixed([0.5, 1, -2], "float16"), fixed([1, 3, 0.25], "bfloat16")], fn, dtypes=F32, grad=False, note="float16, bfloat16")
    case("maximum", [given([1.0, 2, 3]), given([1.0, 2, 4])], torch.maximum, note="ties")
    case("minimum", [given([1.0, 2, 3]), given([1.0, 2, 4])], torch.minimum, note="ties")
    case("add", [x(7), 2], torch.add, dtypes=NUMBERS, note="literal")
    case("mul", [x(7), 2.5], torch.mul, note="literal")
    case("mul", [fixed(range(6), "uint8"), 2.5], torch.mul, dtypes=F32, note="fraction makes float32")
    case("div", [x(17, 33), positive(17, 33, least=0.3)], torch.div, dtypes=NUMBERS, loose=2)
    case("div", [x(3, 1), positive(4, least=0.3)], torch.div, loose=2)
    case("div", [given(SPECIAL), given(SPECIAL[::-1])], torch.div, grad=False, note="special")
    floor_div = lambda a, b: torch.div(a, b, rounding_mode="floor")  # noqa: E731
    tops, bottoms = [-7, -7, 7, 7, 6, 0], [2, -2, 2, -2, 3, 5]
    for op, fn in {"floor_div": floor_div, "mod": torch.remainder}.items():
        case(op, [given(tops), given(bottoms)], fn, dtypes=SIGNED + FLOATS, grad=op == "mod")
        case(op, [positive(17, 33), positive(17, 33)], fn, dtypes=INTS)
        case(op, [x(17, 33, scale=10), positive(17, 33, least=0.5)], fn, dtypes=EXACT, grad=False, loose=4)
        case(op, [given([-127, 127, -1, 100]), given([3, -7, 127, -128])], fn, dtypes=SIGNED, note="wide")


def add_unary():
    floats = {"sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "exp": torch.exp, "log": torch.log,
              "sin": torch.sin, "cos": torch.cos, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "erf": torch.erf, "gelu": F.gelu,
              "silu": F.silu, "softplus": F.softplus, "leaky_relu": F.leaky_relu}
    numbers = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "square": torch.square, "relu": torch.relu, "floor": torch.floor,
               "ceil": torch.ceil, "trunc": torch.trunc}
    rough = ("floor", "ceil", "trunc", "sign")
    for op, fn in {**floats, **numbers}.items():
        value = positive if op in ("sqrt", "rsqrt", "log", "reciprocal") else lambda *shape: x(*shape, scale=2)
        loose = 4 if op in floats else 1
        for shape in ODD:
            case(op, [value(*shape)], fn, dtypes=NUMBERS if op in numbers else FLOATS, loose=loose)
        # At infinite values gelu's factors are inf * 0 here and a limit in torch; the derivatives of the others are NaN.
        finite = op in ("gelu", "silu")
        smooth = op in ("relu", "abs", "sign", "sigmoid", "tanh", "erf", "softplus", "leaky_relu", "square", "gelu", "silu", "neg")
        case(op, [given(TINY_SPECIAL if finite else SPECIAL)], fn, grad=smooth, loose=loose, note="special")
        if op in floats:
            case(op, [fixed(range(1, 7), "int32")], lambda a, fn=fn: fn(a.float()), dtypes=F32, loose=loose, note="int32 makes float32")
    for op in rough:
        case(op, [given([-2.5, -2, -1.5, -0.5, 0.5, 1.5, 2.5, 1e6, -3e4])], numbers[op], note="halves")
    case("sin", [given([100.0, -1000, 12345, 3.1415927, 1.5707964])], torch.sin, dtypes=EXACT, loose=4, note="large angles")
    case("cos", [given([100.0, -1000, 12345, 3.1415927, 1.5707964])], torch.cos, dtypes=EXACT, loose=4, note="large angles")
    for op in ("sin", "cos"):
        case(op, [given(FAR)], floats[op], dtypes=("bfloat16", "float32", "float64"), loose=4, note="larger angles")
    case("exp", [given([-104, -103, -88, -87.4, 88.7, 89, 1e-8])], torch.exp, dtypes=EXACT, loose=4, grad=False, note="edges")
    case("log", [given([1.2e-38, 1.0000001, 0.99999994, 3e38])], torch.log, dtypes=F32, loose=2, grad=False, note="edges")
    case("log", [given([1e-45, 1e-38])], torch.log, dtypes=F32, loose=2, grad=False, note="denormal")
    case("gelu", [x(17, 33, scale=3)], lambda a: F.gelu(a, approximate="tanh"), {"approximate": "tanh"}, loose=6)
    case("leaky_relu", [x(33)], lambda a: F.leaky_relu(a, 0.2), {"negative_slope": 0.2})
    case("softplus", [x(50, scale=5)], lambda a: F.softplus(a, beta=2, threshold=5), {"beta": 2, "threshold": 5}, loose=4)
    case("clamp", [x(17, 33)], lambda a: torch.clamp(a, -0.5, 0.75), {"min": -0.5, "max": 0.75})
    case("clamp", [given([-1, 0, 0.5, 1, 2])], lambda a: torch.clamp(a, 0, 1), {"min": 0, "max": 1}, note="edges")
    case("clamp", [x(33)], lambda a: torch.clamp(a, min=1), {"min": 1}, dtypes=NUMBERS)
    case("clamp", [x(33)], lambda a: torch.clamp(a, max=5), {"max": 5}, dtypes=NUMBERS)
    case("clamp", [fixed([-7, 7, 0], "int32")], lambda a: torch.clamp(a, min=0.5), {"min": 0.5}, dtypes=F32, note="fraction makes float32")
    case("isnan", [given(SPECIAL)], torch.isnan, grad=False)
    case("isnan", [x(3)], torch.isnan, dtypes=INTS)
    for op, fn in {"detach": torch.clone, "contiguous": torch.clone}.items():
        case(op, [x(17, 33)], (lambda a: a.detach() * 1) if op == "detach" else fn, dtypes=FLOATS)
        case(op, [x(17, 33)], lambda a: a, dtypes=INTS + BOOL)


def add_logic():
    compare = {"equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
               "greater_equal": torch.ge}
    for op, fn in compare.items():
        case(op, [given(SPECIAL), given(SPECIAL[::-1])], fn, note="special")
        case(op, [x(17, 33), x(33)], fn, dtypes=ANY)
        case(op, [given(SPECIAL), 0.5], fn, note="literal")
    bits = [True, True, False, False], [True, False, True, False]
    for op, fn in {"logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor}.items():
        case(op, [fixed(bits[0], "bool"), fixed(bits[1], "bool")], fn, dtypes=F32)
        case(op, [x(17, 33), x(33)], fn, dtypes=INTS + BOOL)
        case(op, [fixed([0, 1, -2, 3, 0, 5], "int32"), given([0.0, NAN, 0, 1, INF, -0.0])], fn, note="special")
    case("logical_not", [given([0.0, -0.0, NAN, 1, -INF])], torch.logical_not)
    case("logical_not", [x(17, 33)], torch.logical_not, dtypes=INTS + BOOL)
    for op, fn in {"bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor}.items():
        case(op, [x(17, 33), x(33)], fn, dtypes=INTS + BOOL)
        case(op, [fixed([-7, 12345, -1], "int32"), fixed([255, -2, 77], "int32")], fn, dtypes=F32)
    case("bitwise_not", [x(17, 33)], torch.bitwise_not, dtypes=INTS + BOOL)
    case("bitwise_not", [fixed([-7, 12345, -1], "int32")], torch.bitwise_not, dtypes=F32)
    for op, fn in {"left_shift": torch.bitwise_left_shift, "right_shift": torch.bitwise_right_shift}.items():
        case(op, [given([-7, -1, 7, 100, 6, 0]), given(range(6))], fn, dtypes=SIGNED)
        case(op, [given([7, 1, 70, 100, 6, 0]), given(range(6))], fn, dtypes=UNSIGNED)
        case(op, [fixed([-7, 12345, -1], "int32"), fixed([0, 3, 20], "int32")], fn, dtypes=F32)
    case("where", [fixed(bits[0], "bool"), x(4), x(4)], torch.where, dtypes=ANY)
    case("where", [fixed(bits[0], "bool"), x(3, 4), x(3, 1)], torch.where, dtypes=ANY)
    case("where", [whole((17, 1), 0, 2), x(33), 7], lambda c, a, b: torch.where(c.bool(), a, torch.tensor(b).to(a.dtype)), dtypes=NUMBERS)


def add_casts():
    for dtype, (_, _, kind) in DTYPES.items():
        if kind is not None:
            case("cast", [x(17, 33, scale=5)], lambda a, kind=kind: a.to(kind), {"dtype": dtype}, dtypes=SIGNED + FLOATS + BOOL
                 if dtype != "uint8" else SIGNED + BOOL, grad=dtype in FLOATS, note=f"to {dtype}")
            case("cast", [positive(33)], lambda a, kind=kind: a.to(kind), {"dtype": dtype}, dtypes=UNSIGNED, note=f"unsigned to {dtype}")
    case("cast", [given([-2.5, -0.5, 0.5, 2.99, 3e4])], lambda a: a.to(torch.int32), {"dtype": "int32"}, note="towards zero")
    case("cast", [given([NAN, INF, 0.0, -0.0, 0.1])], lambda a: a.to(torch.bool), {"dtype": "bool"}, note="special to bool")
    case("cast", [fixed([65504, 65519.9, 65520, 1e-8, 6e-8, 1 + 2**-11, 1 + 3 * 2**-11, NAN, -INF], "float32")], torch.Tensor.half,
         {"dtype": "float16"}, dtypes=F32, grad=False, note="float16 rounds to even")
    case("cast", [fixed([3.4e38, 1 + 2**-8, 1 + 3 * 2**-8, 1e-40, NAN, -INF], "float32")], torch.Tensor.bfloat16,
         {"dtype": "bfloat16"}, dtypes=F32, grad=False, note="bfloat16 rounds to even")
    case("cast", [fixed([2**53 + 1, 2**63 - 1, -2**63, 2**24 + 1], "int64")], torch.Tensor.float, {"dtype": "float32"}, dtypes=F32,
         note="large to float32")
    case("cast", [fixed([300, -1, -129, 70000], "int32")], lambda a: a.to(torch.int8), {"dtype": "int8"}, dtypes=F32, note="wraps to int8")
    pairs = {"float32": "int32", "float64": "int64", "float16": "int16", "int8": "uint8"}
    for a, b in pairs.items():
        case("bitcast", [x(17, 33)], lambda v, b=b: v.detach().view(DTYPES[b][2]), {"dtype": b}, dtypes=(a,), grad=False, note=f"{a} to {b}")
    for a, b, shape in (("float32", "uint8", (3, 5)), ("uint8", "float32", (3, 8)), ("int16", "int64", (2, 4)), ("float64", "int32", (3,)),
                        ("int64", "int8", (2, 3)), ("uint8", "int64", (2, 8)), ("int16", "float64", (4, 4)), ("int8", "bfloat16", (6,))):
        case("bitcast", [x(*shape)], lambda v, b=b: v.detach().view(DTYPES[b][2]), {"dtype": b}, dtypes=(a,), grad=False, note=f"{a} {shape} to {b}")
    case("bitcast", [fixed([1065353216, -1, 0, 2**31 - 1], "int32")], lambda v: v.view(torch.float32), {"dtype": "float32"}, dtypes=F32,
         note="int32 to float32")


# ---- reductions and losses

def product(a, axes, keep):
    for axis in sorted((i % a.dim() for i in axes), reverse=True):
        a = torch.prod(a, axis, keepdim=keep)
    return a


def add_reductions():
    table = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin, "std": torch.std, "var": torch.var,
             "logsumexp": torch.logsumexp, "prod": product}
    axes = ([1], [0, 2], [0, 1, 2], [-1])
    for op, fn in table.items():
        dtypes = NUMBERS if op in ("sum", "max", "min", "prod") else FLOATS
        value = (lambda *shape: distinct(*shape)) if op in ("max", "min") else x
        loose = 12 if op in ("std", "var") else 4
        for axis in axes:
            for keep in (False, True):
                def apply(a, fn=fn, axis=axis, keep=keep, op=op):
                    return product(a, axis, keep) if op == "prod" else fn(a, dim=tuple(axis), keepdim=keep)
                case(op, [value(2, 3, 4)], apply, {"axis": axis, "keepdim": keep}, dtypes=dtypes, loose=loose)
        every = {"prod": torch.prod, "logsumexp": lambda a: torch.logsumexp(a, (0, 1, 2))}.get(op, lambda a, fn=fn: fn(a, dim=(0, 1, 2)))
        case(op, [value(2, 3, 4)], every, dtypes=dtypes, loose=loose)
        for shape in ((1, 1), (17, 3), (3, 33), (1, 257)) if op in ("max", "min") else ((1, 1), (17, 33), (3, 1025)):
            if op == "prod":
                wide = given(1 + 0.001 * np.arange(int(np.prod(shape))).reshape(shape) % 0.01)
                case(op, [wide], lambda a: torch.prod(a, 1), {"axis": 1}, dtypes=EXACT, loose=100, note=f"{shape}")
            elif not (op in ("std", "var") and shape == (1, 1)):
                case(op, [x(*shape)], lambda a, fn=fn: fn(a, dim=1), {"axis": 1}, dtypes=EXACT, loose=20, note=f"{shape}")
                case(op, [x(*shape)], lambda a, fn=fn: fn(a, dim=0), {"axis": 0}, dtypes=EXACT, loose=20, note=f"{shape} axis 0",
                     **({} if shape[0] > 1 or op not in ("std", "var") else {"grad": False}))
    for op in ("sum", "mean", "prod"):
        fn = getattr(torch, op)
        case(op, [x(0, 3)], lambda a, fn=fn: fn(a), note="nothing")
        case(op, [x(0, 3)], lambda a, fn=fn: fn(a, 0), {"axis": 0}, note="nothing, axis 0")
        case(op, [x(0, 3)], lambda a, fn=fn: fn(a, 1), {"axis": 1}, note="nothing, axis 1")
        case(op, [x()], lambda a, fn=fn: fn(a), note="scalar")
    case("sum", [x(4, 5)], lambda a: a.sum(1), {"axis": 1}, dtypes=NUMBERS + BOOL, note="axis as a number")
    case("prod", [given([[2, 0.0, 3, 4], [0, 5, 0, 1], [1, 2, 3, 0.5]])], lambda a: a.prod(1), {"axis": 1}, note="zeros")
    case("prod", [given([True, True])], torch.prod, dtypes=BOOL)
    for op, fn in {"max": torch.amax, "min": torch.amin}.items():
        case(op, [given([[1, 3, 3], [2, 2, 2]])], lambda a, fn=fn: fn(a, 1), {"axis": 1}, note="ties")
        case(op, [given([[1, NAN, 3], [INF, 0, -INF]])], lambda a, fn=fn: fn(a, 1), {"axis": 1}, grad=False, note="special")
        case(op, [x(3, 4)], lambda a, fn=fn: fn(a, (0, 1)), dtypes=BOOL, note="bool")
    case("any", [x(3, 4)], torch.any, dtypes=BOOL)
    case("any", [fixed([[0, 0], [0, 2]], "int32")], lambda a: a.bool().any(1), {"axis": 1}, dtypes=F32)
    case("any", [given([[0, NAN], [0, -0.0]])], lambda a: a.bool().any(1), {"axis": 1})
    case("all", [fixed([[3, 0], [1, 2]], "int32")], lambda a: a.bool().all(1), {"axis": 1}, dtypes=F32)
    case("all", [x(3, 4)], lambda a: a.all(0, keepdim=True), {"axis": 0, "keepdim": True}, dtypes=BOOL)
    case("all", [x(0, 3)], lambda a: a.bool().all(0), {"axis": 0}, note="nothing")
    for op in ("argmax", "argmin"):
        fn = getattr(torch, op)
        case(op, [distinct(2, 3, 4)], lambda a, fn=fn: fn(a), dtypes=FLOATS)
        case(op, [distinct(2, 3, 4)], lambda a, fn=fn: fn(a, 1), {"axis": 1})
        case(op, [distinct(3, 33)], lambda a, fn=fn: fn(a, -1, keepdim=True), {"axis": -1, "keepdim": True})
        case(op, [given([3, 1, 7, 0, 5])], lambda a, fn=fn: fn(a), dtypes=INTS)
        case(op, [given([1, 3, 3, 0, 0])], lambda a, fn=fn: fn(a), note="ties")
        case(op, [given([1, NAN, 3, NAN])], lambda a, fn=fn: fn(a), note="NaN")
        case(op, [given([-INF, -INF])], lambda a, fn=fn: fn(a), note="infinities")
    case("std", [x(2, 3, 4)], lambda a: torch.std(a, 1, unbiased=False), {"axis": 1, "correction": 0}, loose=12)
    case("var", [x(2, 3, 4)], lambda a: torch.var(a, 1, unbiased=False), {"axis": 1, "correction": 0}, loose=12)
    case("var", [given([[10000.0, 10001, 10002, 10004]])], lambda a: torch.var(a, 1), {"axis": 1}, dtypes=EXACT, loose=4, note="far from zero")
    for op in ("softmax", "log_softmax"):
        fn = getattr(torch, op)
        case(op, [x(4, 7, scale=5)], lambda a, fn=fn: fn(a, -1), loose=6)
        case(op, [x(4, 7, 2, scale=5)], lambda a, fn=fn: fn(a, 1), {"axis": 1}, loose=6)
        case(op, [x(17, 33)], lambda a, fn=fn: fn(a, 0), {"axis": 0}, loose=6)
        case(op, [x(3, 1025)], lambda a, fn=fn: fn(a, -1), dtypes=EXACT, loose=20)
        case(op, [x(3, 1)], lambda a, fn=fn: fn(a, -1), loose=6)
        case(op, [x(0, 3)], lambda a, fn=fn: fn(a, -1), note="nothing")
        case(op, [given([[1000.0, 1001, -1000], [-INF, 0, 1]])], lambda a, fn=fn: fn(a, -1), loose=6, dtypes=EXACT, note="large")
    case("logsumexp", [given([[-INF, -INF], [INF, 1], [1000, 1001]])], lambda a: torch.logsumexp(a, 1), {"axis": 1}, grad=False, note="special")


def add_zeros():
    case("prod", [given([[0.0, 2, 3, 0.5], [0, 0, 2, 3], [1, 2, 3, 4], [0, 0, 0, 1]])], lambda a: torch.prod(a, 1), {"axis": 1}, dtypes=EXACT, note="zeros in rows")


def add_losses():
    for word in ("mean", "sum", "none"):
        attrs = {"reduction": word}
        for op, fn in {"cross_entropy": F.cross_entropy, "nll_loss": F.nll_loss}.items():
            case(op, [x(6, 5), whole((6,), 0, 5)], lambda a, t, fn=fn, word=word: fn(a, t, reduction=word), attrs, loose=10)
            case(op, [x(2, 5, 3), whole((2, 3), 0, 5)], lambda a, t, fn=fn, word=word: fn(a, t, reduction=word), attrs, loose=10)
            case(op, [x(6, 5), fixed([2, 0, 4, 2, 1, 3], "int64")], lambda a, t, fn=fn, word=word: fn(a, t, reduction=word, ignore_index=2),
                 {**attrs, "ignore_index": 2}, loose=10)
        case("mse_loss", [x(17, 33), x(17, 33)], lambda a, b, word=word: F.mse_loss(a, b, reduction=word), attrs, loose=10)
    case("cross_entropy", [x(5), whole((), 0, 5)], F.cross_entropy, loose=6)
    case("cross_entropy", [x(33, 17, scale=20), whole((33,), 0, 17, "int32")], lambda a, t: F.cross_entropy(a, t.long()), loose=20, note="int32")
    case("cross_entropy", [x(1, 1), whole((1,), 0, 1, "uint8")], lambda a, t: F.cross_entropy(a, t.long()), note="uint8")
    norm = F.layer_norm
    case("layer_norm", [x(2, 3, 4), x(4), x(4)], lambda a, w, b: norm(a, (4,), w, b), loose=12)
    case("layer_norm", [x(2, 3, 4)], lambda a: norm(a, (4,)), loose=12)
    case("layer_norm", [x(2, 3, 4), x(4)], lambda a, w: norm(a, (4,), w), loose=12)
    case("layer_norm", [x(2, 3, 4), x(3, 4), x(3, 4)], lambda a, w, b: norm(a, (3, 4), w, b), {"axis": [1, 2]}, loose=12)
    case("layer_norm", [x(17, 33), x(33), x(33)], lambda a, w, b: norm(a, (33,), w, b, 0.1), {"eps": 0.1}, loose=20)


# ---- products

def add_products():
    shapes = (((17, 33), (33, 3)), ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
              ((5, 1, 2, 3), (4, 3, 2)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)), ((1, 1), (1, 1)), ((33, 1), (1, 17)), ((0, 3), (3, 4)),
              ((2, 0), (0, 3)), ((0, 2, 3), (3, 4)))
    for a, b in shapes:
        case("matmul", [x(*a), x(*b)], torch.matmul, dtypes=NUMBERS, loose=10, note=f"{list(a)} @ {list(b)}")
    case("matmul", [x(65, 130), x(130, 67)], torch.matmul, dtypes=EXACT, loose=40, note="larger than a tile")
    case("matmul", [x(64, 64), x(64, 64)], torch.matmul, dtypes=EXACT, loose=40, note="one tile")
    case("matmul", [x(2, 3), whole((3, 2), 0, 6)], lambda a, b: a @ b.to(a.dtype), loose=10, note="float @ int64")
    case("linear", [x(2, 5, 3), x(4, 3), x(4)], F.linear, loose=10)
    case("linear", [x(17, 33), x(3, 33)], F.linear, loose=10)
    case("linear", [x(3), x(4, 3), x(4)], F.linear, loose=10)
    case("linear", [x(0, 3), x(4, 3), x(4)], F.linear, loose=10, note="nothing")
    for stride in (1, 2, [2, 1], 3):
        for padding in (0, [2, 1]):
            for dilation in (1, [1, 2]):
                for groups in (1, 2):
                    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
                    case("conv2d", [x(2, 4, 9, 8), x(6, 4 // groups, 3, 2), x(6)],
                         lambda a, w, b, attrs=attrs: F.conv2d(a, w, b, **attrs), attrs, loose=20,
                         dtypes=FLOATS if stride == 2 else EXACT)
    case("conv2d", [x(2, 3, 5, 5), x(2, 3, 1, 1)], F.conv2d, loose=10, note="1 by 1")
    case("conv2d", [x(1, 3, 5, 5), x(3, 1, 3, 3)], lambda a, w: F.conv2d(a, w, groups=3), {"groups": 3}, loose=10, note="depthwise")
    case("conv2d", [x(1, 1, 17, 33), x(1, 1, 3, 3)], lambda a, w: F.conv2d(a, w, padding=1), {"padding": 1}, loose=10, note="odd")
    case("conv2d", [x(2, 3, 3, 3), x(4, 3, 3, 3)], F.conv2d, loose=20, note="one window")
    case("conv2d", [x(0, 3, 5, 5), x(2, 3, 3, 3)], F.conv2d, note="nothing")
    for shape, outs, padding in (((1, 1, 3, 3), 1, 0), ((1, 3, 6, 6), 4, 0), ((3, 5, 7, 9), 3, 0), ((1, 4, 5, 5), 7, 1), ((3, 3, 5, 5), 5, [2, 0]),
                                 ((2, 19, 11, 14), 17, 1), ((1, 32, 12, 12), 33, 1)):
        attrs = {"padding": padding, "form": "winograd"}
        case("conv2d", [x(*shape), x(outs, shape[1], 3, 3), x(outs)], lambda a, w, b, padding=padding: F.conv2d(a, w, b, padding=padding), attrs,
             loose=200, note=f"transforms of {list(shape)}")
    pools = ((2, None, 0, 1), (3, None, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2), ([2, 3], [2, 3], 0, 1), (3, 1, 1, 1), ([3, 2], 2, [1, 0], 1))
    for size, stride, padding, dilation in pools:
        attrs = {"kernel_size": size, "padding": padding, **({} if stride is None else {"stride": stride})}
        case("max_pool2d", [distinct(1, 2, 9, 10)], lambda a, p=(size, stride, padding, dilation): F.max_pool2d(a, *p),
             {**attrs, "dilation": dilation}, loose=4)
        if dilation == 1:
            case("avg_pool2d", [x(2, 3, 9, 10)], lambda a, p=(size, stride, padding): F.avg_pool2d(a, *p), attrs, loose=4)
            case("avg_pool2d", [x(2, 3, 9, 10)], lambda a, p=(size, stride, padding): F.avg_pool2d(a, *p, count_include_pad=False),
                 {**attrs, "count_include_pad": False}, loose=4)
    case("max_pool2d", [given(np.arange(32).reshape(2, 4, 4) % 11)], lambda a: F.max_pool2d(a.float(), 2).to(a.dtype), {"kernel_size": 2},
         dtypes=INTS)


# ---- indices, shapes, creation

def add_indexing():
    case("gather", [x(4, 5), whole((3, 5), 0, 4)], lambda a, i: torch.gather(a, 0, i), dtypes=ANY)
    case("gather", [x(4, 5), whole((4, 7), 0, 5)], lambda a, i: torch.gather(a, 1, i), {"axis": 1})
    case("gather", [x(17, 33), whole((3, 7), 0, 33)], lambda a, i: torch.gather(a, 1, i), {"axis": -1})
    case("take", [x(4, 5), fixed([1, 3, -1, 0, 1], "int64")], lambda a, i: a[i], dtypes=ANY)
    case("take", [x(4, 5), fixed([[1, 3], [-5, 0]], "int64")], lambda a, i: a[:, i], {"axis": 1})
    case("take", [x(4, 5), fixed(2, "int64")], lambda a, i: a[i])
    case("take", [x(4, 5), fixed([2, 1], "uint8")], lambda a, i: a[i.long()], note="uint8")
    case("take", [x(200), fixed([-1, -100], "int8")], lambda a, i: a[i.long()], note="int8")
    case("take", [x(4, 5), 2], lambda a, i: a[i], note="literal")
    case("take", [x(4, 5), fixed([], "int64")], lambda a, i: a[i], note="nothing")
    case("take", [x(3, 2), fixed([2, -4, 2**40, 3, -3], "int64")],
         lambda a, i: torch.stack([a[2], 0 * a[0], 0 * a[0], 0 * a[0], a[0]]), note="out of range reads 0")
    case("one_hot", [fixed([0, 2, 1], "int64")], lambda a: F.one_hot(a, 4), {"num_classes": 4}, dtypes=F32)
    case("one_hot", [fixed([[0, 2], [-1, 2**32]], "int64")], lambda a: torch.stack([(a == i) for i in range(3)], -1).float(),
         {"num_classes": 3, "dtype": "float32"}, dtypes=F32)
    for diagonal in (-1, 0, 2):
        case("tril", [x(2, 4, 5)], lambda a, d=diagonal: torch.tril(a, d), {"diagonal": diagonal}, dtypes=ANY)
        case("triu", [x(2, 4, 5)], lambda a, d=diagonal: torch.triu(a, d), {"diagonal": diagonal}, dtypes=ANY)


def add_movement():
    def move(op, shape, fn, attrs=None, **more):
        case(op, [x(*shape)], fn, attrs, dtypes=ANY, **more)

    t = (2, 3, 4)
    move("reshape", t, lambda a: a.reshape(6, 4), {"shape": [6, 4]})
    move("reshape", t, lambda a: a.reshape(3, -1), {"shape": [3, -1]})
    move("reshape", (1,), lambda a: a.reshape(()), {"shape": []})
    move("reshape", (0, 3), lambda a: a.reshape(3, 0), {"shape": [3, 0]})
    move("permute", t, lambda a: a.permute(2, 0, 1), {"axes": [2, 0, 1]})
    move("permute", t, lambda a: a.permute(2, 0, 1), {"axes": [-1, 0, 1]})
    move("transpose", t, lambda a: a.transpose(-1, -2))
    move("transpose", (17, 1, 33), lambda a: a.transpose(0, 2), {"axis0": 0, "axis1": 2})
    move("expand", (3, 1), lambda a: a.expand(2, 3, 4), {"shape": [2, -1, 4]})
    move("expand", (), lambda a: a.expand(2, 3), {"shape": [2, 3]})
    move("expand", (1, 3), lambda a: a.expand(0, 3), {"shape": [0, 3]})
    move("pad", (2, 3), lambda a: F.pad(a, (2, 0, 0, 1)), {"padding": [[0, 1], [2, 0]]})
    case("pad", [x(2, 3)], lambda a: F.pad(a, (2, 0, 0, 1), value=-1.5), {"padding": [0, 1, 2, 0], "value": -1.5})
    case("pad", [x(2)], lambda a: F.pad(a, (1, 1), value=-INF), {"padding": [1, 1], "value": "-Infinity"})
    move("pad", (0, 2), lambda a: F.pad(a, (0, 1, 1, 2), value=1), {"padding": [[1, 2], [0, 1]], "value": 1}, note="nothing")
    move("shrink", t, lambda a: a[0:1, 1:3, 0:4], {"ranges": [[0, 1], [1, 3], [0, 4]]})
    move("shrink", (17, 33), lambda a: a[3:3, 1:32], {"ranges": [[3, 3], [1, 32]]})
    move("slice", t, lambda a: a[1:], {"start": [1]})
    move("slice", t, lambda a: a[:, -2:, :-1], {"start": [0, -2, 0], "stop": [9, 9, -1]})
    move("slice", (10,), lambda a: a[1:9:3], {"start": 1, "stop": 9, "step": 3})
    move("slice", (2, 10), lambda a: a[:, ::4], {"step": [4], "axis": [1]})
    move("slice", (4,), lambda a: a[3:1], {"start": 3, "stop": 1})
    move("slice", (9, 7), lambda a: a[1:8:2, ::3], {"start": [1, 0], "stop": [8, 100], "step": [2, 3]})
    move("flip", t, lambda a: a.flip(0, 2), {"axis": [0, 2]})
    move("flip", (17, 33), lambda a: a.flip(0, 1))
    move("squeeze", (1, 3, 1), torch.squeeze)
    move("squeeze", (1, 3, 1), lambda a: a.squeeze(0), {"axis": 0})
    move("squeeze", (1, 3, 1), lambda a: a.squeeze(1), {"axis": 1})
    move("unsqueeze", t, lambda a: a.unsqueeze(-1), {"axis": -1})
    move("unsqueeze", t, lambda a: a.unsqueeze(1), {"axis": 1})
    move("flatten", t, lambda a: a.flatten())
    move("flatten", t, lambda a: a.flatten(1), {"start_axis": 1})
    move("flatten", t, lambda a: a.flatten(0, 1), {"end_axis": 1})
    case("cat", [x(2, 3), x(4, 3), x(1, 3)], lambda *a: torch.cat(a), dtypes=ANY)
    case("cat", [x(17, 33), x(17, 1)], lambda *a: torch.cat(a, -1), {"axis": -1}, dtypes=ANY)
    case("cat", [x(0, 3), x(2, 3)], lambda *a: torch.cat(a), dtypes=ANY)
    case("cat", [x(2), whole((3,), 0, 5)], lambda a, b: torch.cat([a, b.to(a.dtype)]), note="float, int64")
    case("cat", [given([-0.0, NAN]), given([-INF])], lambda *a: torch.cat(a), note="special")
    case("cat", [x(2, 3)], lambda a: torch.cat([a]), note="one")
    case("stack", [x(2, 3), x(2, 3)], lambda *a: torch.stack(a), dtypes=ANY)
    case("stack", [x(2, 3), x(2, 3), x(2, 3)], lambda *a: torch.stack(a, -1), {"axis": -1}, dtypes=ANY)


def add_creation():
    def make(op, fn, attrs, **more):
        case(op, [], fn, attrs, dtypes=F32, **more)

    make("arange", lambda: torch.arange(5), {"stop": 5})
    make("arange", lambda: torch.arange(2, 11, 3), {"start": 2, "stop": 11, "step": 3})
    make("arange", lambda: torch.arange(5, -4, -2), {"start": 5, "stop": -4, "step": -2})
    make("arange", lambda: torch.arange(0, 1, 0.1), {"stop": 1, "step": 0.1})
    for dtype, (_, _, kind) in DTYPES.items():
        if kind not in (None, torch.bool):
            make("arange", lambda kind=kind: torch.arange(4, dtype=kind), {"stop": 4, "dtype": dtype})
            make("full", lambda kind=kind: torch.full((2, 3), 7, dtype=kind), {"shape": [2, 3], "value": 7, "dtype": dtype})
            make("zeros", lambda kind=kind: torch.zeros(3, 1, dtype=kind), {"shape": [3, 1], "dtype": dtype})
            make("ones", lambda kind=kind: torch.ones(2, 2, dtype=kind), {"shape": [2, 2], "dtype": dtype})
            make("eye", lambda kind=kind: torch.eye(3, 4, dtype=kind) if kind is not torch.bfloat16 else torch.eye(3, 4).to(kind),
                 {"n": 3, "m": 4, "dtype": dtype})
    make("full", lambda: torch.full((2, 3), 1.5), {"shape": [2, 3], "value": 1.5})
    make("full", lambda: torch.tensor(2**62 + 1), {"shape": [], "value": 2**62 + 1, "dtype": "int64"})
    make("full", lambda: torch.full((3,), NAN), {"shape": 3, "value": "NaN"})
    make("zeros", lambda: torch.zeros(0, 3), {"shape": [0, 3]})
    make("eye", lambda: torch.eye(33), {"n": 33})
    case("zeros_like", [x(17, 33)], torch.zeros_like, dtypes=ANY, grad=False)
    case("ones_like", [x(17, 33)], torch.ones_like, dtypes=ANY, grad=False)
    case("ones_like", [x(3)], lambda a: torch.ones_like(a, dtype=torch.int32), {"dtype": "int32"}, grad=False)
    case("zeros_like", [x(3)], lambda a: torch.zeros_like(a, dtype=torch.int32), {"dtype": "int32"}, grad=False)


for add in (add_binary, add_unary, add_logic, add_casts, add_reductions, add_zeros, add_losses, add_products, add_indexing, add_movement, add_creation):
    add()
