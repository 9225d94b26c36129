# SPDX-License-Identifier: MIT
"""Growth of a random graph, and the ops of proto/ops.json by the form of their signatures.

A value has a shape, a dtype, a bound of its magnitude, and a flag: exact values are computed without rounding, so that a
discontinuous op (floor, a comparison, a cast to integers) may use them.  Elementwise ops, reductions and ops along an axis come
from proto/ops.json, so that new ops join automatically; ops of other forms have a function in draws.py.
"""
import json
import math
import pathlib
import random

import numpy as np

from documents import FLOATS, Named, Tensor, count

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OPS = {op["name"]: op for op in json.loads((ROOT / "proto" / "ops.json").read_text())["ops"]}

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
BITS = dict(zip(INTS, (8, 16, 32, 64) * 2))
SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64)  # around the widths of vectors
MOST = 3000     # largest number of elements of a value
MOST_DIMS = 5
TAME = 8.0      # largest magnitude of operands of fast-growing functions


class Value:
    def __init__(self, name, shape, dtype, exact, size, given=False):
        self.name, self.shape, self.dtype, self.exact, self.size, self.given = name, tuple(shape), dtype, exact, size, given

    @property
    def floating(self):
        return self.dtype in FLOATS

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def named(self):
        return any(isinstance(n, Named) for n in self.shape)


class Impossible(Exception):
    """The op has no suitable operand: draw another op."""


def promote(a, b):
    """Returns the result dtype of an operation on both, or raises Impossible for combinations that are not worth testing."""
    if a == b:
        return a
    if a in FLOATS and b in FLOATS:
        return "float64" if "float64" in (a, b) else "float32"
    for x, y in ((a, b), (b, a)):
        if x in FLOATS or y == "bool":
            return x
    if "uint64" in (a, b) and (a in SIGNED or b in SIGNED):
        raise Impossible
    return str(np.promote_types(a, b))


# ---- ops of ops.json by the form of their signatures

EASY = {"float", "bool", "number", "string"}
# Ops with an elementwise signature that are not elementwise (most have a function below), or that are not suitable.
OTHERS = {"allclose", "sparse_categorical_crossentropy", "matmul", "linear", "lstm_cell", "gru_cell", "threefry", "instance_norm",
          "group_norm", "batch_norm", "newton_schulz", "where",
          "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
          "cross_entropy", "nll_loss", "one_cycle_lr", "isclose", "bernoulli", "dropout", "attention", "outer", "dot", "trace", "qr", "cholesky",
          "triangular_solve", "solve", "inverse", "det"}


def simple_inputs(op, kinds):
    return op["inputs"] and all(i["type"] in kinds and not i.get("many") and "default" not in i for i in op["inputs"])


def elementwise_ops():
    return [op for name, op in OPS.items() if name not in OTHERS and not op["many_results"] and len(op["results"]) == 1
            and len(op["inputs"]) <= 3 and simple_inputs(op, ("T", "Float", "Bool", "Bits", "Int")) and op["results"][0] != "Int64"
            and all(a["type"] in EASY and "default" in a for a in op["attrs"])]


def reductions():
    return [op for name, op in OPS.items() if len(op["inputs"]) == 1 and not op["many_results"] and len(op["results"]) == 1
            and simple_inputs(op, ("T", "Float", "Bool")) and {"axis", "keepdim"} <= {a["name"] for a in op["attrs"]}
            and all("default" in a for a in op["attrs"])]


def along_axis():
    """Ops with one input and one axis that keep the position of every element."""
    return [op for name, op in OPS.items() if len(op["inputs"]) == 1 and simple_inputs(op, ("T", "Float")) and not op["many_results"]
            and name not in ("rfft", "irfft") and {"axis"} <= {a["name"] for a in op["attrs"]} <= {"axis", "dtype", "descending"}
            and all(a["type"] != "ints" and "default" in a for a in op["attrs"])]


ELEMENTWISE, REDUCTIONS, ALONG = elementwise_ops(), reductions(), along_axis()

JUMPS = {"floor", "ceil", "trunc", "round", "sign", "mod", "fmod", "floor_div", "trunc_div", "frac", "copysign", "heaviside"}
KEEP_EXACT = {"add", "sub", "mul", "neg", "abs", "sign", "square", "floor", "ceil", "trunc", "round", "maximum", "minimum", "clamp", "relu",
              "relu6", "hardtanh", "floor_div", "trunc_div", "mod", "fmod", "copysign", "sum", "max", "min", "cumsum", "cummax", "cummin", "sort",
              "argmax", "argmin", "argsort", "all", "any", "count_nonzero"}
BOOLEAN = {"add", "mul", "maximum", "minimum", "equal", "not_equal", "less"}  # numeric ops that also accept bool
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"}
UNIT = {"asin", "acos", "atanh", "erfinv"}
GROWING = {"exp", "exp2", "expm1", "sinh", "cosh", "tan", "square", "pow", "prod", "cumprod"}
BOUNDED = {"tanh": 1, "sigmoid": 1, "sin": 1, "cos": 1, "erf": 1, "softmax": 1, "softmin": 1, "atan": 2, "hardsigmoid": 1, "softsign": 1, "relu6": 6,
           "sign": 1, "hardtanh": 1, "asin": 2, "acos": 4, "atan2": 4, "log1p": 3, "log": 3, "log2": 4, "log10": 2, "rsqrt": 2, "reciprocal": 2,
           "atanh": 2, "isnan": 1}


class Drawing:
    """A growing random graph."""

    def __init__(self, seed, named=None):
        self.random = random.Random(f"graph {seed}")
        self.numbers = np.random.default_rng(abs(hash_of(seed)))
        self.inputs, self.nodes, self.values, self.used, self.dims = {}, [], [], set(), {}
        self.named = self.random.random() < 0.15 if named is None else named
        self.depth = named is not None  # nesting depth of bodies
        kind = self.random.random()
        # Most graphs have a single float dtype, with few values of other dtypes.
        self.float = "float32" if kind < 0.7 else self.random.choice(FLOATS[1:])
        self.pure = self.random.random() < 0.5  # few integers, so that more of the graph has a gradient
        self.wants_grad = self.random.random() < 0.35
        if self.named:
            name = "dim0"
            high = self.random.choice((8, 40, 100))
            self.dims[name] = [self.random.choice((1, 1, 2)), high]
            self.name = Named(min(max(2, self.random.choice(SIZES)), high), name)

    # ---- values

    def chance(self, p):
        return self.random.random() < p

    def size(self):
        return 0 if self.chance(0.012) else self.random.choice(SIZES)

    def shape(self, ndim=None, most=MOST):
        while True:
            n = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)) if ndim is None else ndim
            shape = [self.size() for _ in range(n)]
            if self.named and n and self.chance(0.6):
                shape[self.random.randrange(n)] = self.name
            if count(shape) <= most:
                return tuple(shape)

    def dtype(self):
        if self.pure or self.chance(0.6):
            return self.float if self.chance(0.9) else self.random.choice(FLOATS)
        return self.random.choice(INTS + ("bool", "bool", "int32", "int64"))

    def input(self, shape=None, dtype=None, exact=None, array=None):
        """Adds an input.  Exact floats are multiples of a quarter; others use all bits of the significand."""
        shape = self.shape() if shape is None else tuple(shape)
        dtype = dtype or self.dtype()
        exact = self.chance(0.5) if exact is None else exact
        sizes, size = [int(n) for n in shape], 4.0
        if array is not None:
            exact, size = True, float(np.abs(array).max(initial=1))
        elif dtype in FLOATS:
            array = self.numbers.integers(-12, 13, sizes) / 4.0 if exact else np.clip(self.numbers.normal(size=sizes), -3.5, 3.5)
            if self.chance(0.04) and array.size:
                array = np.array(array)
                array.reshape(-1)[self.numbers.integers(array.size)] = self.random.choice((np.inf, -np.inf, np.nan, -0.0))
        elif dtype == "bool":
            array, exact, size = self.numbers.integers(0, 2, sizes), True, 1.0
        else:
            low, high = (0, 10) if dtype in UNSIGNED else (-9, 10)
            if self.chance(0.15):  # all bits of the significand
                info = np.iinfo(dtype)
                array, size = self.numbers.integers(info.min, info.max, sizes, dtype, endpoint=True), 2.0 ** BITS[dtype]
            else:
                array, size = self.numbers.integers(low, high, sizes), 10.0
            exact = True
        name = f"x{len(self.inputs)}"
        self.inputs[name] = Tensor(dtype, np.asarray(array), list(shape))
        value = Value(name, shape, dtype, exact, size, True)
        self.values.append(value)
        return value

    def add(self, op, operands, results, **attrs):
        """Adds a node.  Returns a value for each result (shape, dtype, exact, size), or the single value."""
        place = len(self.nodes)
        one = len(results) == 1 and not OPS[op]["many_results"]
        names = [f"n{place}"] if one else [f"n{place}_{i}" for i in range(len(results))]
        node = {"id": names[0] if one else names, "op": op, "in": [x.name if isinstance(x, Value) else x for x in operands]}
        if attrs:
            node["attrs"] = attrs
        self.nodes.append(node)
        self.used.update(x.name for x in operands if isinstance(x, Value))
        values = [Value(name, *result) for name, result in zip(names, results)]
        if any(count(v.shape) > 4 * MOST or v.ndim > MOST_DIMS + 1 for v in values):
            self.nodes.pop()
            raise Impossible
        self.values += values
        return values[0] if len(values) == 1 else values

    def same(self, op, x, size=None, kind=None, exact=None, **attrs):
        """Adds an op whose single result has the shape of its operand."""
        return self.add(op, [x], [(x.shape, kind or x.dtype, x.exact if exact is None else exact, x.size if size is None else size)], **attrs)

    def pick(self, accept=lambda v: True, fresh=0.12, **made):
        """Picks a value: later values more often, sometimes a new input with the properties of |made|."""
        found = [v for v in self.values if accept(v)]
        if found and (not self.chance(fresh) or len(self.inputs) >= 6):
            place = int(len(found) * (1 - self.random.random() ** 2))
            return found[min(place, len(found) - 1)]
        for _ in range(20):
            shape = made["shape"] if "shape" in made else self.shape(made.get("ndim"))
            value = Value("", shape, made.get("dtype") or self.dtype(), True, 0)
            if accept(value):
                return self.input(shape, value.dtype, made.get("exact"))
        raise Impossible

    def pick_float(self, accept=lambda v: True, **made):
        return self.pick(lambda v: v.floating and accept(v), **{"dtype": self.float, **made})

    def tame(self, x, most=TAME):
        """Returns x, or a value of bounded magnitude derived from x."""
        if x.dtype == "bool" or x.size <= most:
            return x
        if not x.floating:
            return self.same("clamp", x, most, min=0 if x.dtype in UNSIGNED else -int(most), max=int(most))
        way = self.random.choice(("tanh", "clamp", "sin", "clamp"))
        if x.exact or way == "clamp":
            return self.same("clamp", x, most, min=-math.floor(most), max=math.floor(most))
        return self.same(way, x, 1.0)

    def positive(self, x):
        x = self.tame(x if x.floating else self.cast(x, "float32"))
        x = self.same("abs", x)
        return self.add("add", [x, 0.5], [(x.shape, x.dtype, x.exact, x.size + 1)])

    def unit(self, x):
        x = self.same("tanh", x if x.floating else self.cast(x, "float32"), 1.0, exact=False)
        return self.add("mul", [x, 0.875], [(x.shape, x.dtype, False, 0.9)])

    def steady(self, x):
        """Returns x if exact, else mostly another value, since a discontinuous op follows."""
        if x.exact or not x.floating or self.chance(0.06):
            return x
        return self.pick(lambda v: v.exact and v.floating and v.size <= 64, shape=x.shape, dtype=x.dtype, exact=True)

    def mate(self, x, accept=lambda v: True):
        """Returns an operand that broadcasts with x: another value, or a new input in which some axes are 1 or omitted."""
        def fits(v):
            return accept(v) and count(broadcast(v.shape, x.shape) or (MOST + 1,)) <= MOST and (v.shape or x.shape or v is not x)
        if self.chance(0.75):
            found = [v for v in self.values if fits(v)]
            if found:
                return found[min(int(len(found) * (1 - self.random.random() ** 2)), len(found) - 1)]
        shape = [1 if self.chance(0.3) else n for n in x.shape[self.random.randrange(x.ndim + 1) if self.chance(0.4) else 0:]]
        value = Value("", shape, x.dtype, True, 0)
        if len(self.inputs) < 8 and accept(value):
            return self.input(shape, x.dtype)
        if accept(x):
            return x
        raise Impossible

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        if dtype in INTS + ("bool",) and x.floating:
            x = self.steady(x)
        if dtype in FLOATS and not x.floating:
            x = self.tame(x, 64.0)
        if x.dtype == dtype:
            return x
        size = x.size if dtype in FLOATS or x.floating else min(x.size, 2.0 ** BITS.get(dtype, 0))
        if dtype in UNSIGNED and (x.dtype in SIGNED or x.floating and x.dtype != dtype):  # -1 would become the largest number
            size = 2.0 ** BITS[dtype]
        exact = x.exact and (x.size <= 16 or x.dtype in FLOATS and dtype not in ("float16", "bfloat16") or dtype not in FLOATS)
        return self.same("cast", x, max(size, 1.0), dtype, exact, dtype=dtype)

    def axis(self, x, accept=lambda n: True):
        axes = [i for i, n in enumerate(x.shape) if accept(n)]
        if not axes:
            raise Impossible
        return self.random.choice(axes)

    def sign(self, axis, ndim):
        """Returns the axis, counted from either end."""
        return axis - ndim if self.chance(0.3) else axis


def hash_of(seed):
    """Hashes a seed to an integer, equal in every process."""
    return random.Random(f"numbers {seed}").getrandbits(60)


def broadcast(a, b):
    """Returns the common broadcast shape, or None.  A name broadcasts with itself and with 1."""
    shape = []
    a, b = (1,) * (len(b) - len(a)) + tuple(a), (1,) * (len(a) - len(b)) + tuple(b)
    for m, n in zip(a, b):
        if isinstance(m, Named) != isinstance(n, Named):
            other, name = (n, m) if isinstance(m, Named) else (m, n)
            if other != 1:
                return None
            shape.append(name)
        elif m == n or n == 1:
            shape.append(m)
        elif m == 1:
            shape.append(n)
        else:
            return None
    return tuple(shape)


def as_float(x):
    return x.dtype if x.floating else "float32"
