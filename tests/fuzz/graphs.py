# SPDX-License-Identifier: MIT
"""Random graphs.  draw(seed) gives a Document, the same for the same seed and list of ops.

A value carries its shape, dtype, a bound of its magnitude and whether it is exact: computed without a rounding, so that a jump (floor, a
comparison, a cast to integers) may follow it.  Elementwise ops, reductions and ops along an axis come from proto/ops.json by the form of
their signatures, so that new ones join by themselves; those of other forms have a function here."""
import base64
import json
import math
import pathlib
import random

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OPS = {op["name"]: op for op in json.loads((ROOT / "proto" / "ops.json").read_text())["ops"]}

FLOATS = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
BITS = dict(zip(INTS, (8, 16, 32, 64) * 2))
ORDER = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # bits of a significand
SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64)  # about the widths of vectors
MOST = 3000     # elements of a value
MOST_DIMS = 5
TAME = 8.0      # magnitude of what goes into functions that grow


class Named(int):
    """The size of a dimension with a name."""

    def __new__(cls, size, name):
        self = super().__new__(cls, size)
        self.name = name
        return self


def wire(size):
    return size.name if isinstance(size, Named) else int(size)


def count(shape):
    return math.prod(shape)


def bits_of(array):
    """bfloat16, as its 16 bits, of float32: to the nearest, ties to even."""
    flat = np.array(array, np.float32).reshape(-1)
    word = flat.view(np.uint32).astype(np.uint64)
    rounded = ((word + 0x7fff + (word >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(flat), np.uint16(0x7fc0), rounded).astype(np.uint16).reshape(np.shape(array))


def floats_of(bits):
    return (bits.reshape(-1).astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


class Tensor:
    """An input: its values as float64, int64 (uint64) or bool, and what they are on the wire."""

    def __init__(self, dtype, array, shape=None):
        self.dtype = dtype
        self.shape = list(array.shape) if shape is None else shape  # may have names
        if dtype == "bfloat16":
            self.array = floats_of(bits_of(np.asarray(array)))
        else:
            self.array = np.asarray(array).astype(np.bool_ if dtype == "bool" else dtype)

    def encoded(self):
        raw = (bits_of(self.array) if self.dtype == "bfloat16" else self.array).tobytes()
        return {"dtype": self.dtype, "shape": list(self.array.shape), "base64": base64.b64encode(raw).decode()}

    def readable(self):
        def word(x):
            if self.dtype in FLOATS:
                x = float(x)
                return x if math.isfinite(x) else "NaN" if x != x else "Infinity" if x > 0 else "-Infinity"
            return bool(x) if self.dtype == "bool" else int(x)
        return {"dtype": self.dtype, "shape": list(self.array.shape), "data": [word(x) for x in self.array.reshape(-1)]}


class Document:
    """A request, with its inputs as tensors."""

    def __init__(self, inputs, nodes, outputs, dims=None):
        self.inputs, self.nodes, self.outputs, self.dims = inputs, nodes, outputs, dims or {}

    def members(self, encode):
        named = {name: [wire(n) for n in t.shape] for name, t in self.inputs.items() if any(isinstance(n, Named) for n in t.shape)}
        found = {"inputs": {name: encode(t) for name, t in self.inputs.items()}, "nodes": self.nodes, "outputs": self.outputs}
        if named:
            found.update(shapes=named, dims={name: limits for name, limits in self.dims.items()})
        return found

    def request(self):
        return self.members(Tensor.encoded)

    def text(self):
        """As a person reads it, and as it is kept."""
        members = self.members(Tensor.readable)
        lines = [f' "{name}": {json.dumps(value)}' for name, value in members.items() if name not in ("inputs", "nodes")]
        inputs = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in members["inputs"].items())
        nodes = ",\n".join(f"  {json.dumps(node)}" for node in self.nodes)
        return "{\n" + ",\n".join([f' "inputs": {{\n{inputs}}}', f' "nodes": [\n{nodes}]', *lines]) + "\n}\n"

    @classmethod
    def read(cls, text):
        """What text() wrote."""
        members, inputs = json.loads(text), {}
        for name, value in members["inputs"].items():
            data = [float(x) if value["dtype"] in FLOATS else x for x in value["data"]]
            kind = {"bfloat16": np.float32, "bool": np.bool_}.get(value["dtype"], value["dtype"])
            array = np.array(data, kind).reshape(value["shape"])
            names = members.get("shapes", {}).get(name, value["shape"])
            inputs[name] = Tensor(value["dtype"], array, [Named(n, name) if isinstance(name, str) else n for n, name in zip(value["shape"], names)])
        return cls(inputs, members["nodes"], members["outputs"], members.get("dims"))


def ids_of(node):
    return [node["id"]] if isinstance(node["id"], str) else list(node["id"])


def concrete(document, sizes=None):
    """The names of dimensions replaced by their sizes."""
    sizes = sizes or {n.name: int(n) for t in document.inputs.values() for n in t.shape if isinstance(n, Named)}

    def without(x):
        if isinstance(x, list):
            return [without(y) for y in x]
        return sizes.get(x, x) if isinstance(x, str) else x
    nodes = [{**node, "attrs": {k: without(v) for k, v in node["attrs"].items()}} if "attrs" in node else node for node in document.nodes]
    inputs = {name: Tensor(t.dtype, t.array) for name, t in document.inputs.items()}
    return Document(inputs, nodes, document.outputs)


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
    """This op has nothing to work on here: draw another."""


def promote(a, b):
    """The dtype of an operation on both, or Impossible where that is not worth knowing."""
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


# ---- what ops.json says by the form of a signature

EASY = {"float", "bool", "number", "string"}
# Ops that look elementwise and are not (most have a function below), or are about something else.
OTHERS = {"matmul", "linear", "lstm_cell", "gru_cell", "threefry", "instance_norm", "group_norm", "batch_norm", "newton_schulz", "where",
          "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
          "cross_entropy", "nll_loss", "one_cycle_lr", "isclose", "bernoulli", "dropout", "attention", "outer", "dot", "trace"}


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
    """One input and one axis that every element keeps its place on."""
    return [op for name, op in OPS.items() if len(op["inputs"]) == 1 and simple_inputs(op, ("T", "Float")) and not op["many_results"]
            and name not in ("rfft", "irfft") and {"axis"} <= {a["name"] for a in op["attrs"]} <= {"axis", "dtype", "descending"}
            and all(a["type"] != "ints" and "default" in a for a in op["attrs"])]


ELEMENTWISE, REDUCTIONS, ALONG = elementwise_ops(), reductions(), along_axis()

JUMPS = {"floor", "ceil", "trunc", "round", "sign", "mod", "fmod", "floor_div", "trunc_div", "frac", "copysign", "heaviside"}
KEEP_EXACT = {"add", "sub", "mul", "neg", "abs", "sign", "square", "floor", "ceil", "trunc", "round", "maximum", "minimum", "clamp", "relu",
              "relu6", "hardtanh", "floor_div", "trunc_div", "mod", "fmod", "copysign", "sum", "max", "min", "cumsum", "cummax", "cummin", "sort",
              "argmax", "argmin", "argsort", "all", "any", "count_nonzero"}
BOOLEAN = {"add", "mul", "maximum", "minimum", "equal", "not_equal", "less"}  # ops of numbers that bool has too
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"}
UNIT = {"asin", "acos", "atanh", "erfinv"}
GROWING = {"exp", "exp2", "expm1", "sinh", "cosh", "tan", "square", "pow", "prod", "cumprod"}
BOUNDED = {"tanh": 1, "sigmoid": 1, "sin": 1, "cos": 1, "erf": 1, "softmax": 1, "softmin": 1, "atan": 2, "hardsigmoid": 1, "softsign": 1, "relu6": 6,
           "sign": 1, "hardtanh": 1, "asin": 2, "acos": 4, "atan2": 4, "log1p": 3, "log": 3, "log2": 4, "log10": 2, "rsqrt": 2, "reciprocal": 2,
           "atanh": 2, "isnan": 1}


class Drawing:
    """A graph that grows."""

    def __init__(self, seed):
        self.random = random.Random(f"graph {seed}")
        self.numbers = np.random.default_rng(abs(hash_of(seed)))
        self.inputs, self.nodes, self.values, self.used, self.dims = {}, [], [], set(), {}
        self.named = self.random.random() < 0.15
        kind = self.random.random()
        # Most graphs are of one float dtype with a few strays.
        self.float = "float32" if kind < 0.7 else self.random.choice(FLOATS[1:])
        self.pure = self.random.random() < 0.5  # few integers: more of it has a gradient
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
        """A new input.  Exact floats are quarters; others are made of all their bits."""
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
            if self.chance(0.15):  # all bits
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
        """A node; a value for each result (shape, dtype, exact, size), or the only one."""
        place = len(self.nodes)
        names = [f"n{place}"] if len(results) == 1 else [f"n{place}_{i}" for i in range(len(results))]
        node = {"id": names[0] if len(names) == 1 else names, "op": op, "in": [x.name if isinstance(x, Value) else x for x in operands]}
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
        """An op whose one result has the shape of its operand."""
        return self.add(op, [x], [(x.shape, kind or x.dtype, x.exact if exact is None else exact, x.size if size is None else size)], **attrs)

    def pick(self, accept=lambda v: True, fresh=0.12, **made):
        """A value: the later ones more often, sometimes a new input of what |made| says."""
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
        """x, or something like it that is not large."""
        if x.dtype == "bool" or x.size <= most:
            return x
        if not x.floating:
            return self.same("clamp", x, most, min=0 if x.dtype in UNSIGNED else -int(most), max=int(most))
        way = self.random.choice(("tanh", "clamp", "sin", "clamp"))
        if x.exact or way == "clamp":
            return self.same("clamp", x, most, min=-math.floor(most), max=math.floor(most))
        return self.same(way, x, 1.0)

    def positive(self, x):
        x = self.same("abs", self.tame(x), x.size)
        return self.add("add", [x, 0.5], [(x.shape, x.dtype, x.exact, x.size + 1)])

    def unit(self, x):
        x = self.same("tanh", x, 1.0, exact=False)
        return self.add("mul", [x, 0.875], [(x.shape, x.dtype, False, 0.9)])

    def steady(self, x):
        """x, unless it is inexact: then mostly something else, since a jump follows."""
        if x.exact or not x.floating or self.chance(0.06):
            return x
        return self.pick(lambda v: v.exact and v.floating and v.size <= 64, shape=x.shape, dtype=x.dtype, exact=True)

    def mate(self, x, accept=lambda v: True):
        """An operand that broadcasts with x: another value, or a new input with some axes of size 1 or left out."""
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
        exact = x.exact and (x.size <= 16 or x.dtype in FLOATS and dtype not in ("float16", "bfloat16") or dtype not in FLOATS)
        return self.same("cast", x, max(size, 1.0), dtype, exact, dtype=dtype)

    def axis(self, x, accept=lambda n: True):
        axes = [i for i, n in enumerate(x.shape) if accept(n)]
        if not axes:
            raise Impossible
        return self.random.choice(axes)

    def sign(self, axis, ndim):
        """The axis, counted from one end or the other."""
        return axis - ndim if self.chance(0.3) else axis


def hash_of(seed):
    """A whole number of a seed, the same in every process."""
    return random.Random(f"numbers {seed}").getrandbits(60)


def broadcast(a, b):
    """The shape of both together, or None.  A name meets itself or a 1."""
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


# ---- the draws: each adds an op (and what it needs) or says Impossible

def elementwise(d):
    op = d.random.choice(ELEMENTWISE)
    name, kinds = op["name"], [i["type"] for i in op["inputs"]]
    operands = []
    accept = {"T": lambda v: True, "Float": lambda v: v.floating or v.size <= 64, "Bool": lambda v: v.dtype == "bool" or d.chance(0.1),
              "Bits": lambda v: not v.floating and not any(x.floating for x in operands),
              "Int": lambda v: v.dtype in INTS and not any(x.floating for x in operands)}
    first = {"Bool": "bool", "Int": "int32", "Bits": "int32"}.get(kinds[0])
    x = d.pick(lambda v: accept[kinds[0]](v) and (v.floating or kinds[0] != "T" or d.chance(0.6)), dtype=first or d.dtype())
    jumps = name in JUMPS or op["results"][0] == "Bool"
    x = d.steady(x) if jumps else x
    operands, loud = [x], GROWING | POSITIVE | UNIT
    for kind in kinds[1:]:
        other = d.mate(operands[0], lambda v: accept[kind](v) and (v.dtype == operands[0].dtype or d.chance(0.1)))
        if jumps and not (other.exact or not other.floating or d.chance(0.06)):
            other = next((v for v in d.values if v.exact and v.floating and v.shape == other.shape), operands[0])
        operands.append(other)
    if name in loud or op["results"][0] == "Float" and name not in ("tanh", "sigmoid", "sin", "cos", "erf"):
        operands = [d.tame(v, 3.0 if name in GROWING else TAME) for v in operands]
    operands = [d.tame(v, 64.0) for v in operands] if any(v.floating for v in operands) else operands
    # Where a function has no value there is only NaN; sometimes that is wanted.
    if not d.chance(0.06):
        if name in POSITIVE or name == "pow":
            operands[0] = d.positive(operands[0])
        if name in UNIT:
            operands[0] = d.unit(operands[0])
        if name == "acosh":
            y = d.positive(operands[0])
            operands[0] = d.add("add", [y, 1.0], [(y.shape, y.dtype, y.exact, y.size + 1)])
        if name in ("div", "floor_div", "trunc_div", "mod", "fmod") and operands[1].floating:
            operands[1] = d.positive(operands[1])
    if op["inputs"][0]["type"] == "T" and all(v.dtype == "bool" for v in operands) and name not in BOOLEAN:
        raise Impossible
    shape, dtype = operands[0].shape, operands[0].dtype
    for v in operands[1:]:
        shape = broadcast(shape, v.shape)
        if shape is None:
            raise Impossible
        dtype = promote(dtype, v.dtype)
    sizes = [v.size for v in operands]
    size = BOUNDED.get(name, {"add": sum(sizes), "sub": sum(sizes), "mul": math.prod(sizes), "square": sizes[0] ** 2, "exp": 21, "exp2": 9, "expm1": 21,
                              "sinh": 11, "cosh": 11, "tan": 30, "pow": 50, "div": 2 * sizes[0]}.get(name, max(sizes) + 1))
    result = op["results"][0]
    dtype = "bool" if result == "Bool" else (dtype if dtype in FLOATS else "float32") if result == "Float" else dtype
    exact = all(v.exact for v in operands) and (name in KEEP_EXACT or result in ("Bool", "Bits", "Int") or dtype in INTS)
    exact = exact and (dtype not in FLOATS or size * (256 if name in ("mul", "square") else 16) <= 2 ** ORDER[dtype])
    if dtype == "bool":
        size = 1.0
    attrs = {}
    for attr in op["attrs"]:
        if attr["type"] == "string" and d.chance(0.5):
            attrs[attr["name"]] = d.random.choice(attr["choices"])
        elif attr["type"] == "bool" and d.chance(0.3):
            attrs[attr["name"]] = d.chance(0.5)
        elif attr["type"] == "float" and d.chance(0.3):
            attrs[attr["name"]] = d.random.choice((0.25, 0.5, 1, 2))
    if name in ("clamp", "hardtanh"):
        low = 0 if dtype in UNSIGNED + ("bool",) else -d.random.choice((0, 1, 2))
        attrs = {"min": low, "max": 1 if dtype == "bool" else d.random.choice((1, 2, 3))}
        size = 3.0
    if len(operands) == 2 and d.chance(0.1) and kinds[1] == "T" and dtype != "bool" and name not in ("floor_div", "trunc_div", "mod", "fmod"):
        operands[1], shape = d.random.choice((0, 1, 2, 3)), operands[0].shape
        dtype = "bool" if result == "Bool" else operands[0].dtype
        if operands[0].dtype == "bool":
            raise Impossible
        size = size + 3 * max(sizes)
    d.add(name, operands, [(shape, dtype, exact, size)], **attrs)


def where(d):
    x = d.pick()
    y = d.mate(x, lambda v: v.dtype == x.dtype)
    shape = broadcast(x.shape, y.shape)
    c = d.mate(Value("", shape, "bool", True, 1), lambda v: v.dtype == "bool")
    shape = broadcast(shape, c.shape)
    if not c.name or shape is None:
        raise Impossible
    d.add("where", [c, x, y], [(shape, x.dtype, x.exact and y.exact and c.exact, max(x.size, y.size))])


def cast(d):
    x = d.pick()
    d.cast(x, d.random.choice(FLOATS + ("float32",) + INTS[:4] + ("bool",)) if not d.pure else d.random.choice(FLOATS))


def bitcast(d):
    x = d.pick(lambda v: v.dtype in INTS + ("float32",) and v.exact)
    same_width = {"float32": ("int32", "uint32"), **{f"int{n}": (f"uint{n}",) for n in (8, 16, 32, 64)}, **{f"uint{n}": (f"int{n}",) for n in (8, 16, 32, 64)}}
    dtype = d.random.choice(same_width[x.dtype])
    d.same("bitcast", x, 2.0 ** BITS.get(dtype, 30), dtype, dtype=dtype)


def plain(d):
    d.same(d.random.choice(("contiguous", "detach", "contiguous")), d.pick())


def reduce(d):
    op = d.random.choice(REDUCTIONS)
    name, kind = op["name"], op["inputs"][0]["type"]
    x = d.pick(lambda v: kind == "T" or (v.dtype == "bool") == (kind == "Bool") or kind == "Float" and v.floating)
    if name in ("argmax", "argmin", "all", "any", "count_nonzero"):
        x = d.steady(x)
    if x.floating:
        x = d.tame(x, 1.5 if name == "prod" else 32.0)
    attrs, axes = {}, list(range(x.ndim))
    single = next(a for a in op["attrs"] if a["name"] == "axis")["type"] == "int"
    if x.ndim and not d.chance(0.2):
        axes = sorted(d.random.sample(axes, 1 if single else d.random.randint(1, x.ndim)))
        attrs["axis"] = d.sign(axes[0], x.ndim) if len(axes) == 1 and (single or d.chance(0.5)) else [d.sign(i, x.ndim) for i in axes]
    keep = d.chance(0.35)
    if keep:
        attrs["keepdim"] = True
    over = count(x.shape[i] for i in axes)
    if over == 0 and name in ("max", "min", "argmax", "argmin", "logsumexp"):
        raise Impossible
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
    result = op["results"][0]
    dtype = {"Bool": "bool", "Int64": "int64", "Float": as_float(x)}.get(result, x.dtype)
    if name in ("sum", "prod") and dtype not in FLOATS:
        dtype = "int64" if x.dtype not in UNSIGNED else None
        if dtype is None:
            raise Impossible
    if name in ("var", "std") and over < 2:
        attrs["correction"] = 0
    size = {"sum": x.size * max(over, 1), "prod": 1.5 ** min(over, 40), "logsumexp": x.size + 8, "var": x.size ** 2}.get(name, x.size)
    exact = x.exact and name in KEEP_EXACT | {"prod"} and (dtype not in FLOATS or name != "prod" and size * 64 <= 2 ** ORDER[dtype])
    if name == "argmax" or name == "argmin":
        size = max(over, 1)
    d.add(name, [x], [(shape, dtype, exact, size)], **attrs)


def along(d):
    op = d.random.choice(ALONG)
    name = op["name"]
    x = d.pick(lambda v: v.ndim >= 1 and (op["inputs"][0]["type"] == "T" and v.dtype != "bool" or v.floating), ndim=2)
    if len(op["results"]) == 2 or name == "argsort":
        x = d.steady(x)
    x = d.tame(x, 1.2 if name == "cumprod" else TAME) if x.floating else x
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n <= 33 if "sort" in name or "cum" in name or "fft" in name else True)
    attrs = {} if axis == x.ndim - 1 and d.chance(0.2) and next(a for a in op["attrs"] if a["name"] == "axis")["default"] == -1 else {
        "axis": d.sign(axis, x.ndim)}
    if any(a["name"] == "descending" for a in op["attrs"]) and d.chance(0.5):
        attrs["descending"] = True
    n = max(int(x.shape[axis]), 1)
    dtype = "int64" if name == "argsort" else x.dtype
    if name in ("cumsum", "cumprod") and not x.floating:
        dtype = "int64"
        if x.dtype in UNSIGNED:
            raise Impossible
    size = BOUNDED.get(name, {"cumsum": x.size * n, "cumprod": 1.2 ** n, "logcumsumexp": x.size + 5, "log_softmax": 2 * x.size + 5, "argsort": n}.get(name, x.size))
    exact = x.exact and (name in KEEP_EXACT or not x.floating) and (dtype not in FLOATS or size * 16 <= 2 ** ORDER[dtype])
    results = [(x.shape, dtype, exact, size)]
    if len(op["results"]) == 2:
        results.append((x.shape, "int64", x.exact, n) if op["results"][1] == "Int64" else (x.shape, dtype, False, x.size * n))
        if op["results"][1] != "Int64":  # a transform
            results[0] = results[1]
    d.add(name, [x], results, **attrs)


def topk(d):
    x = d.steady(d.pick(lambda v: v.ndim >= 1 and v.dtype != "bool", ndim=2))
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n <= 33)
    k = d.random.randint(0 if d.chance(0.05) else min(1, x.shape[axis]), x.shape[axis])
    shape = [k if i == axis else n for i, n in enumerate(x.shape)]
    d.add("topk", [x], [(shape, x.dtype, x.exact, x.size), (shape, "int64", x.exact, 33)], k=k, axis=d.sign(axis, x.ndim), largest=d.chance(0.5))


def rfft(d):
    x = d.tame(d.pick_float(lambda v: v.ndim >= 1, ndim=2))
    axis = d.axis(x, lambda n: not isinstance(n, Named) and 1 <= n <= 33)
    shape = [n // 2 + 1 if i == axis else n for i, n in enumerate(x.shape)]
    result = (shape, x.dtype, False, x.size * x.shape[axis])
    re, im = d.add("rfft", [x], [result, result], axis=axis)
    if d.chance(0.5):
        n = x.shape[axis]
        d.add("irfft", [re, im], [(x.shape, x.dtype, False, x.size)], axis=axis, n=int(n))


def normalise(d):
    name = d.random.choice(("layer_norm", "rms_norm", "layer_norm", "batch_norm", "group_norm", "instance_norm", "normalize"))
    x = d.tame(d.pick_float(lambda v: v.ndim >= (2 if name != "layer_norm" and name != "rms_norm" else 1), ndim=3))
    channels = [x.shape[1]] if x.ndim > 1 else []
    weight = lambda shape: d.input(shape, x.dtype)  # noqa: E731
    result = [(x.shape, x.dtype, False, 6.0 + 4 * math.sqrt(max(count(x.shape), 1)) / 8)]
    if name == "normalize":
        d.add(name, [x], result, axis=d.axis(x), **({"p": d.random.choice((1, 2, 3))} if d.chance(0.3) else {}))
    elif name in ("layer_norm", "rms_norm"):
        k = d.random.choice((1, 1, 2))
        axes = [-1] if k == 1 or x.ndim < 2 else [-2, -1]
        shape = x.shape[-len(axes):]
        more = [weight(shape) for _ in range(d.random.randint(0, 2 if name == "layer_norm" else 1))] if count(shape) <= 200 else []
        d.add(name, [x, *more], result, axis=axes if len(axes) > 1 or d.chance(0.5) else -1)
    elif name == "batch_norm":
        mean, var = weight(channels), d.positive(weight(channels))
        more = [weight(channels) for _ in range(d.random.choice((0, 2)))]
        d.add(name, [x, mean, var, *more], result)
    else:
        if isinstance(x.shape[1], Named) or x.ndim < 3 or count(x.shape) == 0:
            raise Impossible
        groups = {"groups": d.random.choice([g for g in (1, 2, 3, 4, 5, 7, 8) if x.shape[1] % g == 0])} if name == "group_norm" else {}
        d.add(name, [x, *[weight(channels) for _ in range(d.random.choice((0, 2)))]], result, **groups)


def loss(d):
    name = d.random.choice(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss", "kl_div"))
    x = d.tame(d.pick_float(lambda v: v.ndim >= 1, ndim=2))
    reduction = d.random.choice(("mean", "sum", "none"))
    if name in ("cross_entropy", "nll_loss"):
        if x.ndim < 2 or isinstance(x.shape[1], Named) or x.shape[1] == 0:
            raise Impossible
        shape = (x.shape[0],) + x.shape[2:]
        target = whole_numbers(d, shape, 0, x.shape[1])
    else:
        shape = x.shape
        target = d.input(shape, x.dtype) if len(d.inputs) < 8 else d.pick_float(lambda v: v.shape == x.shape and v.dtype == x.dtype, shape=shape, dtype=x.dtype)
        if name != "mse_loss" and name != "l1_loss":
            target = d.unit(d.positive(target))
    if reduction == "mean" and count(shape) == 0:
        raise Impossible
    d.add(name, [x, target], [(shape if reduction == "none" else (), x.dtype, False, 100.0)], reduction=reduction)


def whole_numbers(d, shape, low, high, dtype=None):
    """An input of integers from low to high - 1."""
    dtype = dtype or d.random.choice(("int64", "int32", "int64", "int16"))
    return d.input(shape, dtype, array=d.numbers.integers(low, max(high, low + 1), [int(n) for n in shape]))


def matmul(d):
    x = d.tame(d.pick(lambda v: v.ndim >= 1 and (v.floating or v.dtype in ("int32", "int64")), ndim=2, dtype=d.float))
    k, n = x.shape[-1], d.size()
    kind = d.random.random()
    if kind < 0.5 or x.ndim == 1:
        found = [v for v in d.values if v.dtype == x.dtype and v.ndim >= 2 and wire(v.shape[-2]) == wire(k) and v.size <= 64]
        if not found and isinstance(k, Named) and x.ndim < 2:
            raise Impossible
        y = d.random.choice(found) if found and d.chance(0.6) else d.input([k] if d.chance(0.1) else [k, n], x.dtype)
        if y.ndim == 1:
            shape = x.shape[:-1]
        elif x.ndim == 1:
            shape = y.shape[:-2] + y.shape[-1:]
        else:
            batch = broadcast(x.shape[:-2], y.shape[:-2])
            if batch is None:
                raise Impossible
            shape = batch + (x.shape[-2], y.shape[-1])
        exact = x.exact and y.exact and (x.size * y.size * max(k, 1) * 256 <= 2 ** ORDER.get(x.dtype, 60))
        d.add("matmul", [x, y], [(shape, x.dtype, exact, x.size * y.size * max(k, 1))])
    elif not x.floating:
        raise Impossible
    elif kind < 0.8:
        w = d.input([n, k], x.dtype)
        more = [d.input([n], x.dtype)] if d.chance(0.6) else []
        d.add("linear", [x, w, *more], [(x.shape[:-1] + (n,), x.dtype, False, x.size * 4 * max(k, 1) + 4)])
    elif x.ndim == 2:
        y = d.input([k, n], x.dtype)
        equation, shape = d.random.choice((("ij,jk->ik", (x.shape[0], n)), ("ij,jk->ki", (n, x.shape[0])), ("ij,jk->k", (n,)), ("ij,jk->", ())))
        d.add("einsum", [x, y], [(shape, x.dtype, False, x.size * 4 * max(k, 1) * (x.shape[0] + n))], equation=equation)
    elif x.ndim == 3 and count(x.shape) > 0:
        k2 = d.input(x.shape, x.dtype) if d.chance(0.5) else x
        d.add("attention", [x, k2, x], [(x.shape, x.dtype, False, x.size)], **({"causal": True} if d.chance(0.5) else {}))
    else:
        raise Impossible


def cell(d):
    x = d.tame(d.pick_float(lambda v: v.ndim == 2 and v.shape[1] <= 33, ndim=2), 4.0)
    n, many, dtype = d.random.choice((1, 3, 5, 8)), d.chance(0.5), x.dtype
    parts = 4 if many else 3
    h = d.input([x.shape[0], n], dtype)
    more = [d.input([x.shape[0], n], dtype)] if many else []
    more += [d.input([parts * n, x.shape[1]], dtype), d.input([parts * n, n], dtype)]
    more += [d.input([parts * n], dtype) for _ in range(2)] if d.chance(0.5) else []
    d.add("lstm_cell" if many else "gru_cell", [x, h, *more], [((x.shape[0], n), dtype, False, 5.0)] * (2 if many else 1))


def window(d):
    name = d.random.choice(("conv2d", "conv2d", "max_pool2d", "avg_pool2d"))
    x = d.tame(d.pick_float(lambda v: v.ndim == 4 and not v.named and min(v.shape) > 0 and count(v.shape) <= 1500,
                            shape=(d.random.choice((1, 2)), d.random.choice((1, 2, 3, 4, 6)), d.random.choice((4, 5, 7, 8)), d.random.choice((3, 5, 8)))))
    if x.ndim != 4:
        raise Impossible
    kernel = [d.random.choice((1, 2, 3)), d.random.choice((1, 2, 3))]
    stride, dilation = [d.random.choice((1, 1, 2)) for _ in kernel], [1 if name == "avg_pool2d" else d.random.choice((1, 1, 2)) for _ in kernel]
    padding = [d.random.choice((0, 0, 1)) if name == "conv2d" else d.random.randint(0, k // 2) for k in kernel]
    rest = [(n + 2 * p - l * (k - 1) - 1) // s + 1 for n, p, l, k, s in zip(x.shape[2:], padding, dilation, kernel, stride)]
    if min(rest) < 1:
        raise Impossible
    attrs = {"stride": stride, "padding": padding}
    if name != "avg_pool2d":
        attrs["dilation"] = dilation
    if name != "conv2d":
        if name == "avg_pool2d" and d.chance(0.3):
            attrs["count_include_pad"] = False
        d.add(name, [x], [((*x.shape[:2], *rest), x.dtype, x.exact and name == "max_pool2d", x.size)], kernel_size=kernel, **attrs)
        return
    groups = d.random.choice([g for g in (1, 1, 2, 3) if x.shape[1] % g == 0])
    out = groups * d.random.choice((1, 2, 3))
    w = d.input([out, x.shape[1] // groups, *kernel], x.dtype)
    bias = [d.input([out], x.dtype)] if d.chance(0.5) else []
    d.add(name, [x, w, *bias], [((x.shape[0], out, *rest), x.dtype, False, x.size * 4 * count(w.shape[1:]) + 4)], groups=groups, **attrs)


# ---- movement

def reshape(d):
    x = d.pick(lambda v: v.ndim <= 4)
    shape = list(x.shape)
    for _ in range(d.random.randint(1, 3)):
        i = d.random.randrange(len(shape)) if shape else 0
        if shape and i + 1 < len(shape) and d.chance(0.5) and not any(isinstance(n, Named) for n in shape[i:i + 2]):
            shape[i:i + 2] = [shape[i] * shape[i + 1]]
        elif len(shape) < MOST_DIMS and (not shape or d.chance(0.3)):
            shape.insert(i, 1)
        elif shape and shape[i] > 1 and not isinstance(shape[i], Named) and len(shape) < MOST_DIMS:
            divisor = d.random.choice([k for k in range(1, shape[i] + 1) if shape[i] % k == 0])
            shape[i:i + 1] = [divisor, shape[i] // divisor]
    given = [wire(n) for n in shape]
    if given and count(x.shape) and d.chance(0.2):
        given[d.random.randrange(len(given))] = -1
    d.add("reshape", [x], [(shape, x.dtype, x.exact, x.size)], shape=given)


def permute(d):
    x = d.pick(lambda v: v.ndim >= 2, ndim=3)
    if d.chance(0.4):
        i, j = d.random.sample(range(x.ndim), 2)
        axes = list(range(x.ndim))
        axes[i], axes[j] = j, i
        op, attrs = "transpose", {"axis0": d.sign(i, x.ndim), "axis1": d.sign(j, x.ndim)}
    else:
        axes = d.random.sample(range(x.ndim), x.ndim)
        op, attrs = "permute", {"axes": axes}
    d.add(op, [x], [([x.shape[i] for i in axes], x.dtype, x.exact, x.size)], **attrs)


def expand(d):
    x = d.pick(lambda v: v.ndim <= 3 and count(v.shape) <= 300)
    shape = [d.random.choice((2, 3, 5, 8)) if n == 1 and not isinstance(n, Named) else n for n in x.shape]
    if d.chance(0.4):
        shape.insert(0, d.random.choice((1, 2, 3, d.name if d.named else 4)))
    d.add("expand", [x], [(shape, x.dtype, x.exact, x.size)], shape=[wire(n) for n in shape])


def pad(d):
    x = d.pick(lambda v: v.ndim >= 1 and not v.named, ndim=2)
    padding = [[0, 0] if d.chance(0.4) else [d.random.choice((0, 0, 1, 2, 3)), d.random.choice((0, 0, 1, 2))] for _ in x.shape]
    attrs = {} if d.chance(0.5) else {"value": 1 if x.dtype == "bool" else d.random.choice((0, 1, 2, 3))}
    d.add("pad", [x], [([n + a + b for n, (a, b) in zip(x.shape, padding)], x.dtype, x.exact, max(x.size, 3.0))], padding=padding, **attrs)


def shrink(d):
    x = d.pick(lambda v: v.ndim >= 1 and not v.named, ndim=2)
    ranges = []
    for n in x.shape:
        a = d.random.randint(0, n // 2)
        ranges.append([a, d.random.randint(a if d.chance(0.03) else min(a + 1, n), n)])
    d.add("shrink", [x], [([b - a for a, b in ranges], x.dtype, x.exact, x.size)], ranges=ranges)


def slice_(d):
    x = d.pick(lambda v: v.ndim >= 1, ndim=2)
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n > 0)
    n = x.shape[axis]
    start, stop, step = d.random.randint(-n, n - 1), d.random.randint(-n, n + 1), d.random.choice((1, 1, 2, 3))
    if d.chance(0.9):
        start, stop = d.random.randint(0, (n - 1) // 2), d.random.randint(n // 2 + 1, n)
    size = len(range(*slice(start, stop, step).indices(n)))
    shape = [size if i == axis else m for i, m in enumerate(x.shape)]
    d.add("slice", [x], [(shape, x.dtype, x.exact, x.size)], start=[start], stop=[stop], step=[step], axis=[d.sign(axis, x.ndim)])


def flip(d):
    x = d.pick(lambda v: v.ndim >= 1, ndim=2)
    axes = d.random.sample(range(x.ndim), d.random.randint(1, x.ndim))
    d.same("flip", x, **({"axis": axes} if d.chance(0.8) else {}))


def squeeze(d):
    if d.chance(0.5):
        x = d.pick(lambda v: v.ndim < MOST_DIMS)
        axis = d.random.randint(0, x.ndim)
        d.add("unsqueeze", [x], [(x.shape[:axis] + (1,) + x.shape[axis:], x.dtype, x.exact, x.size)], axis=axis - x.ndim - 1 if d.chance(0.3) else axis)
        return
    x = d.pick(lambda v: any(n == 1 and not isinstance(n, Named) for n in v.shape), fresh=0)
    axis = d.axis(x, lambda n: n == 1 and not isinstance(n, Named))
    d.add("squeeze", [x], [(x.shape[:axis] + x.shape[axis + 1:], x.dtype, x.exact, x.size)], axis=axis)


def flatten(d):
    x = d.pick(lambda v: v.ndim >= 2 and not v.named, ndim=3)
    a = d.random.randrange(x.ndim - 1)
    b = d.random.randrange(a + 1, x.ndim)
    d.add("flatten", [x], [(x.shape[:a] + (count(x.shape[a:b + 1]),) + x.shape[b + 1:], x.dtype, x.exact, x.size)], start_axis=a, end_axis=b)


def join(d):
    x = d.pick(lambda v: v.ndim < MOST_DIMS)
    stack = d.chance(0.4) or x.ndim == 0
    axis = d.random.randint(0, x.ndim) if stack else d.axis(x, lambda n: not isinstance(n, Named))
    rest = lambda v: v.shape if stack else v.shape[:axis] + v.shape[axis + 1:]  # noqa: E731
    like = [v for v in d.values if v.ndim == x.ndim and rest(v) == rest(x) and v.dtype == x.dtype and [wire(n) for n in rest(v)] == [wire(n) for n in rest(x)]
            and (stack or not isinstance(v.shape[axis], Named))]
    parts = [x] + [d.random.choice(like) for _ in range(d.random.randint(1, 3))]
    if stack:
        shape = x.shape[:axis] + (len(parts),) + x.shape[axis:]
    else:
        shape = x.shape[:axis] + (sum(v.shape[axis] for v in parts),) + x.shape[axis + 1:]
    d.add("stack" if stack else "cat", parts, [(shape, x.dtype, all(v.exact for v in parts), max(v.size for v in parts))], axis=axis)


def triangle(d):
    x = d.pick(lambda v: v.ndim >= 2, ndim=2)
    d.same(d.random.choice(("tril", "triu")), x, **({"diagonal": d.random.choice((-2, -1, 0, 1))} if d.chance(0.6) else {}))


# ---- by index

def take(d):
    x = d.pick(lambda v: v.ndim >= 1, ndim=2)
    axis = d.axis(x, lambda n: not isinstance(n, Named) and n > 0)
    n = x.shape[axis]
    low, high = (-n - 2, n + 2) if d.chance(0.4) else (0, n)
    kind = d.random.random()
    if kind < 0.4:
        shape = [max(1, int(m) - d.random.randint(0, 1)) if i != axis and not isinstance(m, Named) and m > 0 else m for i, m in enumerate(x.shape)]
        shape[axis] = d.random.choice((1, 2, 5, 8))
        i = whole_numbers(d, shape, low, high)
        d.add("gather", [x, i], [(shape, x.dtype, x.exact, x.size)], axis=d.sign(axis, x.ndim))
    elif kind < 0.7:
        found = [v for v in d.values if v.dtype in ("int32", "int64") and v.ndim <= 2 and count(v.shape) <= 40 and v.exact]
        i = d.random.choice(found) if found and d.chance(0.5) else whole_numbers(d, d.random.choice(((), (3,), (2, 5), (7,))), low, high)
        d.add("take", [x, i], [(x.shape[:axis] + i.shape + x.shape[axis + 1:], x.dtype, x.exact, x.size)], axis=d.sign(axis, x.ndim))
    elif axis + 1 < x.ndim and not isinstance(x.shape[axis + 1], Named):
        i = whole_numbers(d, (d.random.choice((1, 3, 7)),), low, high)
        j = whole_numbers(d, (1,) if d.chance(0.3) else i.shape, 0, x.shape[axis + 1] + 1)
        d.add("index", [x, i, j], [(x.shape[:axis] + i.shape + x.shape[axis + 2:], x.dtype, x.exact, x.size)], axis=axis)
    else:
        raise Impossible


def scatter(d):
    x = d.pick(lambda v: v.ndim >= 1 and not v.named and count(v.shape) <= 600 and v.dtype != "bool", ndim=2)
    axis = d.axis(x)
    n = x.shape[axis]
    low, high = (-n - 1, n + 2) if d.chance(0.3) else (0, n)
    shape = list(x.shape)
    shape[axis] = d.random.choice((1, 2, 5))
    if count(shape) == 0:
        raise Impossible
    kind = d.random.random()
    if kind < 0.35:
        source, i = d.input(shape, x.dtype, x.exact), whole_numbers(d, shape, low, high)
        how = d.random.choice(("none", "none", "add", "multiply"))
        d.add("scatter", [x, i, source], [(x.shape, x.dtype, x.exact and (how == "none" or not x.floating), x.size * 4 ** 5 if how == "multiply" else x.size + 20)],
              axis=axis, reduce=how)
    elif kind < 0.7:
        source, i = d.input(shape, x.dtype, x.exact), whole_numbers(d, shape, low, high)
        how = d.random.choice(("sum", "prod", "mean", "amax", "amin") if x.floating else ("sum", "amax", "amin"))
        d.add("scatter_reduce", [x, i, source], [(x.shape, x.dtype, x.exact and how[0] == "a", x.size * (4 ** 5 if how == "prod" else 1) + 20)],
              axis=axis, reduce=how, include_self=d.chance(0.7))
    else:
        i = whole_numbers(d, (d.random.choice((1, 3, 6)),), low, high)
        value = d.input(x.shape[:axis] + i.shape + x.shape[axis + 1:], x.dtype, x.exact)
        more = d.chance(0.5)
        d.add("index_put", [x, value, i], [(x.shape, x.dtype, x.exact and not more, x.size + 24)], axis=axis, accumulate=more)


def choose(d):
    if d.chance(0.4):
        i = d.pick(lambda v: v.dtype in INTS and v.ndim <= 3 and count(v.shape) <= 200 and v.exact, shape=(5,), dtype="int64")
        n = d.random.choice((1, 3, 8))
        dtype = d.random.choice(("int64", d.float, "bool"))
        d.add("one_hot", [i], [(i.shape + (n,), dtype, True, 1.0)], num_classes=n, dtype=dtype)
        return
    mask = d.pick(lambda v: v.dtype == "bool" and 1 <= v.ndim <= 3 and not v.named and 0 < count(v.shape) <= 200, shape=(d.random.choice((5, 17)),), dtype="bool")
    size = d.random.choice((1, 3, 8, 16))
    if d.chance(0.5):
        d.add("nonzero", [mask], [((size, mask.ndim), "int64", mask.exact, 64.0), ((), "int64", mask.exact, 200.0)], size=size)
    else:
        x = d.pick(lambda v: v.shape == mask.shape, shape=mask.shape)
        d.add("masked_select", [x, mask], [((size,), x.dtype, x.exact and mask.exact, x.size), ((), "int64", mask.exact, 200.0)], size=size)


# ---- out of nothing

def create(d):
    dtype, kind = d.random.choice((d.float, "int32", "int64")), d.random.random()
    if kind < 0.3:
        n = d.random.choice(SIZES)
        step = d.random.choice((1, 2, -1, 0.5)) if dtype in FLOATS else d.random.choice((1, 2, -1))
        start = d.random.choice((0, 1, -3))
        d.add("arange", [], [((n,), dtype, True, 130.0)], start=start, stop=start + step * n, step=step, dtype=dtype)
    elif kind < 0.5:
        shape = d.shape()
        d.add("full", [], [(shape, dtype, True, 3.0)], shape=[wire(n) for n in shape], value=d.random.choice((0, 1, 2, 3)), dtype=dtype)
    elif kind < 0.7:
        n, m = d.random.choice(SIZES), d.random.choice(SIZES)
        d.add("eye", [], [((n, m), dtype, True, 1.0)], n=n, m=m, dtype=dtype)
    else:
        d.same(d.random.choice(("zeros_like", "ones_like")), d.pick(), 1.0, exact=True)


def chance_(d):
    """Random numbers, of a key that is given."""
    key = d.input((), "int64", array=np.array(d.random.randrange(1000)))
    shape, seed, kind = d.shape(), {"seed": d.random.randrange(100)}, d.random.random()
    sizes = [wire(n) for n in shape]
    if kind < 0.35:
        d.add("uniform", [key], [(shape, d.float, False, 1.0)], shape=sizes, dtype=d.float, **seed)
    elif kind < 0.5:
        d.add("normal", [key], [(shape, d.float, False, 5.0)], shape=sizes, dtype=d.float, **seed)
    elif kind < 0.75:
        d.add("randint", [key], [(shape, "int64", True, 10.0)], shape=sizes, low=d.random.choice((0, -5)), high=d.random.choice((1, 6, 10)), **seed)
    elif kind < 0.85:
        n = d.random.choice(SIZES)
        d.add("randperm", [key], [((n,), "int64", True, 64.0)], n=n, **seed)
    else:
        x = d.pick_float()
        d.add("dropout", [x, key], [(x.shape, x.dtype, False, 2 * x.size)], p=0.5, **seed)


DRAWS = {elementwise: 34, where: 4, cast: 5, bitcast: 1, plain: 1, reduce: 9, along: 6, topk: 1.5, rfft: 1, normalise: 4, loss: 2.5, matmul: 7,
         cell: 0.7, window: 4, reshape: 5, permute: 4, expand: 2.5, pad: 3, shrink: 3, slice_: 3, flip: 2, squeeze: 2, flatten: 1, join: 4,
         triangle: 1.5, take: 3.5, scatter: 2, choose: 1.5, create: 2, chance_: 2}


# ---- whole graphs

def gradient(d):
    """The gradient of a number made of some floats with respect to others."""
    floats = [v for v in d.values if v.floating and not v.given]
    sources = [v for v in d.values if v.floating and v.given and v.name in d.used] or floats
    if not floats or not sources:
        return []
    def scalar(v):
        v = d.cast(v, d.float)
        return d.add("mean" if count(v.shape) else "sum", [v], [((), v.dtype, False, v.size)])
    total = None
    for v in d.random.sample(floats, min(len(floats), d.random.choice((1, 1, 2, 3)))):
        v = scalar(v)
        total = v if total is None else d.add("add", [total, v], [((), v.dtype, False, v.size)])
    wanted = d.random.sample(sources, min(len(sources), d.random.choice((1, 2, 3))))
    if d.chance(0.3):
        wanted.append(d.random.choice(floats))
    wanted = list({v.name: v for v in wanted}.values())
    results = [(v.shape, v.dtype, False, 10.0) for v in wanted]
    found = d.add("grad", [total, *wanted], results)
    found = found if isinstance(found, list) else [found]
    if d.chance(0.12):
        y = d.add("square", [found[0]], [(found[0].shape, found[0].dtype, False, 100.0)])
        y = d.add("sum", [y], [((), y.dtype, False, 100.0)])
        found.append(d.add("grad", [y, wanted[0]], [(wanted[0].shape, wanted[0].dtype, False, 10.0)]))
    return found


def draw(seed):
    d = Drawing(seed)
    wanted = d.random.choice((5, 6, 8, 8, 10, 12, 15, 20, 25, 30, 40))
    for _ in range(d.random.randint(1, 3)):
        d.input()
    tries = 0
    while len(d.nodes) < wanted and tries < 8 * wanted:
        tries += 1
        try:
            d.random.choices(list(DRAWS), list(DRAWS.values()))[0](d)
        except Impossible:
            pass
    found = []
    if d.wants_grad:
        try:
            found = gradient(d)
        except Impossible:
            pass
    made = [v for v in d.values if not v.given]
    ends = [v for v in made if v.name not in d.used]
    more = [v for v in made if v.name in d.used]
    outputs = ends + d.random.sample(more, min(len(more), d.random.choice((0, 0, 1, 2, 4))))
    outputs = list(dict.fromkeys(v.name for v in outputs + found))
    nodes, needed = [], set(outputs)
    for node in reversed(d.nodes):  # what an op that was given up left behind goes
        if needed & set(ids_of(node)):
            nodes.insert(0, node)
            needed |= {x for x in node["in"] if isinstance(x, str)}
    inputs = {name: t for name, t in d.inputs.items() if name in needed}
    if not outputs:
        return draw(f"{seed}+")
    document = Document(inputs, nodes, outputs, d.dims)
    named = any(isinstance(n, Named) for t in inputs.values() for n in t.shape)
    return document if named or not d.dims else concrete(document, {d.name.name: int(d.name)})
