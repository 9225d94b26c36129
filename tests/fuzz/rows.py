# SPDX-License-Identifier: MIT
"""Random programs over a named number of rows, which check the compiler's proof of row independence.

For values whose rows are independent by the compiler's proof (engine/ir/row_axis.c), each row of a run with many rows must
equal, bit for bit, the result of a run with this row alone.  A graph grows by any op of the list.  The server says whether a
node is valid, and its shapes for three and for five rows.  Every value is the output of one entry of a program.  Rows have
different magnitudes, and some contain NaN, so that a dependence between rows is visible.
"""
import http.client
import json
import random

import numpy as np

from documents import FLOATS, Tensor
from drawing import ALONG, ELEMENTWISE, INTS, OPS, REDUCTIONS, hash_of
from levels import CODES, fixture, floats_of

ROWS, FEW, MANY = "rows", 3, 5
NODES = (3, 5, 8, 12, 16)
MOST_ELEMENTS, MOST_DIMS = 2000, 5
SHOWN = 250  # a campaign prints its progress after this number of graphs


class Value:
    """|few| and |many|: the shapes for the smaller and for the larger number of rows."""

    def __init__(self, name, dtype, few, many):
        self.name, self.dtype, self.few, self.many = name, dtype, tuple(few), tuple(many)

    @property
    def ndim(self):
        return len(self.few)

    def wire(self, axis):
        """Returns an extent as an attribute."""
        few, many = self.few[axis], self.many[axis]
        times = (many - few) // (MANY - FEW)
        return few if few == many else f"{times} * {ROWS} + {few - FEW * times}"

    def has_rows(self, axis):
        return self.few[axis] != self.many[axis]


class Caller:
    """A kept connection."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)

    def close(self):
        self.connection.close()

    def call(self, method, path, document=None):
        body, kind = (None, {}) if document is None else (json.dumps(document), {"content-type": "application/json"})
        self.connection.request(method, path, body, {**kind, "accept": fixture.SAFETENSORS})
        reply = self.connection.getresponse()
        return reply.status, reply.read()


def tensors_of(body):
    found = {}
    for name, (code, shape, raw) in fixture.read_safetensors(body)[0].items():
        dtype, kind = CODES[code]
        array = np.frombuffer(raw, kind).reshape(shape)
        found[name] = dtype, floats_of(array) if dtype == "bfloat16" else array
    return found


class Growing:
    """A growing program.  Inputs have the rows as their first axis; weights are shared by all rows."""

    def __init__(self, seed, caller):
        self.random = random.Random(f"rows {seed}")
        self.numbers = np.random.default_rng(hash_of(f"rows {seed}"))
        self.caller, self.inputs, self.weights, self.nodes, self.values = caller, {}, {}, [], []
        self.float = self.random.choice(("float32",) * 8 + FLOATS)
        self.most = self.random.choice((MANY, MANY, 16, 300))  # number of rows for which the kernels are compiled

    def chance(self, p):
        return self.random.random() < p

    # ---- leaves

    def numbers_of(self, dtype, shape, most=6):
        if dtype in FLOATS:
            array = self.numbers.normal(size=shape)
            return np.round(4 * array) / 4 if self.chance(0.5) else array
        return self.numbers.integers(0, 2 if dtype == "bool" else most, shape)

    def input(self, shape=None, dtype=None):
        """Adds an input with the largest number of rows; |shape| is the shape of a row."""
        shape = [self.random.choice((1, 2, 3, 4, 6)) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3)))] if shape is None else list(shape)
        dtype = dtype or self.random.choice((self.float, self.float, self.float, "int32", "int64", "uint8", "bool"))
        array = np.asarray(self.numbers_of(dtype, [MANY, *shape], 4)).astype(np.float64)
        for row in range(MANY if dtype in FLOATS else 0):
            kind = self.random.random()
            array[row] = array[row] * self.random.choice((1, 1, 1000, 1e-3)) if kind < 0.8 else self.random.choice((np.nan, np.inf, -np.inf, 0))
        name = f"x{len(self.inputs)}"
        self.inputs[name] = Tensor(dtype, array, [ROWS, *shape])
        return self.keep(Value(name, dtype, [FEW, *shape], [MANY, *shape]))

    def weight(self, shape, dtype=None, most=6):
        dtype = dtype or self.float
        name = f"w{len(self.weights)}"
        self.weights[name] = Tensor(dtype, np.asarray(self.numbers_of(dtype, list(shape), most)))
        return self.keep(Value(name, dtype, shape, shape))

    def keep(self, value):
        self.values.append(value)
        return value

    # ---- nodes

    def request(self, nodes, outputs, rows):
        inputs = {name: Tensor(t.dtype, t.array[:rows]).encoded() for name, t in self.inputs.items()}
        inputs.update((name, t.encoded()) for name, t in self.weights.items())
        return {"inputs": inputs, "shapes": {name: t.shape for name, t in self.inputs.items()}, "dims": {ROWS: [1, self.most]}, "nodes": nodes, "outputs": outputs,
                "device": "interp:0"}

    def add(self, op, operands, many=1, **attrs):
        """Adds a node and returns its value, if the server accepts the node."""
        ids = [f"n{len(self.nodes)}_{i}" for i in range(many)]
        lists = OPS[op]["many_results"] or len(OPS[op]["results"]) > 1 or many > 1
        node = {"id": ids if lists else ids[0], "op": op, "in": [x.name if isinstance(x, Value) else x for x in operands]}
        if attrs:
            node["attrs"] = attrs
        found = []
        for rows in (FEW, MANY):
            status, body = self.caller.call("POST", "/api/v1/run", self.request([*self.nodes, node], ids, rows))
            if status != 200:
                if status >= 500:
                    raise RuntimeError(f"{status} {body[:300]!r} of {json.dumps(self.request([*self.nodes, node], ids, rows))}")
                return None
            found.append(tensors_of(body))
        if any(array.size > MOST_ELEMENTS or array.ndim > MOST_DIMS or dtype.startswith("float8") for dtype, array in found[1].values()):
            return None
        self.nodes.append(node)
        made = [self.keep(Value(name, found[0][name][0], found[0][name][1].shape, found[1][name][1].shape)) for name in ids]
        return made[0]

    # ---- choices

    def pick(self, accept=lambda v: True):
        found = [v for v in self.values if accept(v)]
        return found[int(len(found) * (1 - self.random.random() ** 2))] if found else self.input()

    def pick_float(self, accept=lambda v: True):
        return self.pick(lambda v: v.dtype in FLOATS and accept(v))

    def mate(self, x):
        """Returns a value that broadcasts with x."""
        if self.chance(0.2):
            return self.random.choice((0, 1, 2, 0.5)) if x.dtype in FLOATS else self.random.choice((0, 1, 2))
        found = [v for v in self.values if v.dtype == x.dtype and all(a == b or 1 in (a, b) for a, b in zip(v.few[::-1], x.few[::-1]))]
        return self.random.choice(found or [x])

    def axis(self, x):
        if x.ndim == 0:
            return 0
        axis = self.random.randrange(x.ndim)
        axis = self.random.randrange(x.ndim) if x.has_rows(axis) and self.chance(0.7) else axis
        return axis - x.ndim if self.chance(0.2) else axis


# ---- functions that add one node

def elementwise(g):
    op = g.random.choice(ELEMENTWISE + [OPS[name] for name in ("where", "isclose", "masked_fill", "cast", "bitcast", "clamp", "threefry")])
    x = g.pick()
    operands, attrs = [x], {}
    if op["name"] in ("where", "masked_fill"):
        y = g.mate(x)
        operands = [g.pick(lambda v: v.dtype == "bool"), x, y] if op["name"] == "where" else [x, g.pick(lambda v: v.dtype == "bool"), y]
    elif op["name"] in ("cast", "bitcast"):
        attrs["dtype"] = g.random.choice(FLOATS + INTS + ("bool", "uint8", "uint16", "uint32"))
    else:
        operands += [g.mate(x) for _ in op["inputs"][1:]]
    if op["name"] == "clamp":
        attrs = {"min": -1, "max": 1}
    g.add(op["name"], operands, **attrs)


def axes_of(g, x, single):
    axes = [i for i in range(x.ndim) if not x.has_rows(i) or g.chance(0.1)]
    axes = g.random.sample(axes, g.random.randint(1, 1 if single else len(axes))) if axes else []
    return {"axis": axes[0] if single else axes} if axes and not g.chance(0.05) else {}


def reduce(g):
    op = g.random.choice(REDUCTIONS + [OPS["var_mean"], OPS["std_mean"]])
    x = g.pick()
    single = next(a for a in op["attrs"] if a["name"] == "axis")["type"] == "int"
    g.add(op["name"], [x], len(op["results"]), keepdim=g.chance(0.4), **axes_of(g, x, single))


def along(g):
    op = g.random.choice(ALONG + [OPS["topk"], OPS["normalize"], OPS["layer_norm"], OPS["rms_norm"]])
    x = g.pick(lambda v: v.ndim > 0)
    axis = g.axis(x)
    g.add(op["name"], [x], len(op["results"]), axis=[axis] if op["name"].endswith("ize") else axis,
          **({"k": g.random.randint(1, max(1, x.few[axis]))} if op["name"] == "topk" else {}))


def product(g):
    x = g.pick(lambda v: v.ndim > 0)
    kind = g.random.random()
    if kind < 0.4:
        g.add("matmul", [x, g.weight([x.few[-1], g.random.choice((1, 3, 8))], x.dtype) if g.chance(0.6) else g.pick(lambda v: v.dtype == x.dtype)])
    elif kind < 0.6:
        g.add("linear", [x, g.weight([4, x.few[-1]], x.dtype)])
    elif kind < 0.8:
        y = g.add("transpose", [x], axis0=-2, axis1=-1)
        if y is not None:
            g.add("matmul", [x, y] if g.chance(0.5) else [y, x])
    elif kind < 0.9:
        y = g.mate(x)
        letters = "abcde"[:x.ndim]
        rest = "".join(c for i, c in enumerate(letters) if i == 0 or g.chance(0.5))
        if isinstance(y, Value) and y.few == x.few:
            g.add("einsum", [x, y], equation=f"{letters},{letters}->{''.join(g.random.sample(rest, len(rest))) if g.chance(0.3) else rest}")
    else:
        y = g.pick_float(lambda v: v.ndim == 3)
        g.add("attention", [y, y, y], causal=g.chance(0.5))


def window(g):
    x = g.pick_float(lambda v: v.ndim in (3, 4))
    name = g.random.choice(("conv2d", "conv", "max_pool", "avg_pool", "max_pool_indices", "conv_transpose", "interpolate", "group_norm", "instance_norm", "batch_norm"))
    if x.ndim < 3:
        x = g.input([2, 4, 5], g.float)
    dims, channels = x.ndim - 2, x.few[1]
    kernel = [g.random.choice((1, 2, 3)) for _ in range(dims)]
    sizes = {"stride": [g.random.choice((1, 2)) for _ in kernel], "padding": [g.random.choice((0, 1)) for _ in kernel]}
    if "conv" in name:
        g.add(name, [x, g.weight([3, channels, *kernel] if name != "conv_transpose" else [channels, 3, *kernel], x.dtype)], **sizes)
    elif "pool" in name:
        g.add(name, [x], len(OPS[name]["results"]), kernel_size=kernel, dims=dims, **sizes)
    elif name == "interpolate":
        g.add(name, [x], size=[g.random.choice((2, 3, 7)) for _ in kernel])
    elif name == "batch_norm":
        g.add(name, [x, g.weight([channels], x.dtype), g.weight([channels], x.dtype)])
    else:
        g.add(name, [x], **({"groups": g.random.choice((1, 2))} if name == "group_norm" else {}))


def divisors(n):
    return [k for k in range(1, n + 1) if n % k == 0]


def reshape(g):
    """Merges and splits axes, including the axis of rows."""
    x = g.pick()
    few, many = list(x.few), list(x.many)
    if g.chance(0.25):  # the sizes in another order by a reshape instead of a permutation
        order = g.random.sample(range(x.ndim), x.ndim)
        few, many = [few[i] for i in order], [many[i] for i in order]
    for _ in range(g.random.randint(1, 3)):
        i = g.random.randrange(len(few)) if few else 0
        kind = g.random.random()
        if kind < 0.4 and i + 1 < len(few):
            few[i:i + 2], many[i:i + 2] = [few[i] * few[i + 1]], [many[i] * many[i + 1]]
        elif kind < 0.6 or not few:
            few.insert(i, 1)
            many.insert(i, 1)
        elif few[i] > 1:
            k = g.random.choice([k for k in divisors(few[i]) if many[i] % k == 0])
            at = g.random.choice(((0, 1), (1, 0)))
            for sizes in (few, many):
                parts = [k, sizes[i] // k]
                sizes[i:i + 1] = [parts[at[0]], parts[at[1]]]
    made = Value("", x.dtype, few, many)
    shape = [made.wire(i) for i in range(made.ndim)]
    if shape and g.chance(0.3):
        shape[g.random.randrange(len(shape))] = -1
    g.add("reshape", [x], shape=shape)


def move(g):
    x = g.pick(lambda v: v.ndim > 0)
    axis, kind = g.axis(x), g.random.choice(("permute", "permute", "transpose", "flip", "roll", "repeat", "repeat_interleave", "unfold", "diagonal", "squeeze", "unsqueeze",
                                             "flatten", "unflatten", "tril", "triu", "contiguous", "detach", "expand", "expand", "diag"))
    n = x.few[axis] if x.ndim else 1
    attrs = {"permute": {"axes": g.random.sample(range(x.ndim), x.ndim)}, "transpose": {"axis0": g.axis(x), "axis1": axis}, "flip": {"axis": [axis]},
             "roll": {"shift": [g.random.choice((-1, 1, 2))], "axis": [axis]}, "repeat": {"repeats": [g.random.choice((1, 1, 2)) for _ in x.few]},
             "repeat_interleave": {"repeats": 2, "axis": axis}, "unfold": {"axis": axis, "size": g.random.choice((1, 2, 3)), "step": g.random.choice((1, 2))},
             "diagonal": {"axis0": g.axis(x), "axis1": axis}, "squeeze": {"axis": [axis]}, "unsqueeze": {"axis": axis}, "flatten": {"start_axis": g.random.choice((0, 1))},
             "unflatten": {"axis": axis, "sizes": [g.random.choice(divisors(max(n, 1))), -1]},
             "expand": {"shape": [*g.random.choice(((), (), (2,), (ROWS,))), *(x.wire(i) if x.many[i] > 1 else g.random.choice((1, 3, ROWS)) for i in range(x.ndim))]}}
    g.add(kind, [x], **attrs.get(kind, {}))


def cut(g):
    """A slice along any axis, possibly out of range."""
    x = g.pick(lambda v: v.ndim > 0)
    axis = g.axis(x) % x.ndim
    n, kind = x.few[axis], g.random.random()
    if kind < 0.35:
        padding = [[g.random.choice((0, 1, 2)), g.random.choice((0, 1))] if i == axis else [0, 0] for i in range(x.ndim)]
        mode = {"mode": g.random.choice(("reflect", "replicate"))} if g.chance(0.2) else {"value": g.random.choice((0, 1))}
        g.add("pad", [x], padding=padding, **mode)
    elif kind < 0.6:
        start = g.random.randint(0, max(n - 1, 0)) if not x.has_rows(axis) else g.random.choice((0, 0, 1))
        stop = g.random.randint(start, n) if not x.has_rows(axis) else x.wire(axis) if g.chance(0.5) else g.random.choice((1, FEW))
        g.add("slice", [x], start=[g.random.choice((start, start, ROWS))], stop=[stop], step=[g.random.choice((1, 1, 2, -1))], axis=[axis])
    elif kind < 0.7:
        g.add("slice", [x], step=[-1], axis=[axis])
    elif kind < 0.8 and n > 1:
        at = g.random.randint(1, n - 1)
        g.add("split", [x], 2, sizes=[at, n - at], axis=axis)
    elif kind < 0.9:
        g.add("pad_to", [x], shape=[n + 1 if i == axis else -1 for i in range(x.ndim)])
    else:
        g.add("shrink", [x], ranges=[[g.random.choice((0, 0, 1)), x.wire(i)] for i in range(x.ndim)])


def join(g):
    x = g.pick()
    parts = [x] + [g.random.choice([v for v in g.values if v.dtype == x.dtype and v.ndim == x.ndim]) for _ in range(g.random.choice((1, 2)))]
    if g.chance(0.5):
        parts = [x, x, x][:len(parts)]
    g.add(g.random.choice(("cat", "cat", "stack")), parts, axis=g.axis(x))


def look_up(g):
    x = g.pick(lambda v: v.ndim > 0)
    if g.chance(0.4):
        x = g.weight([6, 3])
    axis = g.axis(x)
    i = g.pick(lambda v: v.dtype in ("int32", "int64", "uint8") and (v.ndim == x.ndim or g.chance(0.3)))
    if g.chance(0.4):
        shape = [*x.few[1:]]
        dtype = g.random.choice(("int64", "uint8", "uint8", "int32"))  # in signed dtypes, -1 is the last index
        i = g.input(shape, dtype) if x.ndim and x.has_rows(0) else g.weight(x.few, dtype)
        axis = g.random.choice((axis, 0))
    kind = g.random.random()
    if kind < 0.35:
        g.add("gather", [x, i], axis=axis)
    elif kind < 0.55:
        g.add("take", [x, i], axis=axis)
    elif kind < 0.65:
        g.add("index", [x, i], axis=axis)
    elif kind < 0.75:
        g.add("one_hot", [i], num_classes=g.random.choice((2, 4)), dtype=g.random.choice(("int64", g.float)))
    elif kind < 0.9:
        y = g.pick(lambda v: v.dtype == x.dtype and v.few == i.few)
        how = g.random.choice(("none", "add", "multiply"))
        g.add("scatter", [x, i, y], axis=axis, reduce=how)
    elif kind < 0.95:
        g.add("scatter_reduce", [x, i, g.pick(lambda v: v.dtype == x.dtype and v.few == i.few)], axis=axis, reduce=g.random.choice(("sum", "amax", "mean")))
    else:
        g.add("index_put", [x, g.pick(lambda v: v.dtype == x.dtype), i], axis=axis, accumulate=g.chance(0.5))


def choose(g):
    mask = g.pick(lambda v: v.dtype == "bool")
    if g.chance(0.5):
        g.add("nonzero", [mask], 2, size=3)
    else:
        g.add("masked_select", [g.pick(lambda v: v.few == mask.few), mask], 2, size=3)


def create(g):
    kind = g.random.random()
    shape = [g.random.choice((ROWS, ROWS, 2, 3, 1)) for _ in range(g.random.choice((1, 2)))]
    if kind < 0.3:
        g.add("full", [], shape=shape, value=g.random.choice((0, 1, 2, ROWS)), dtype=g.float)
    elif kind < 0.5:
        g.add("arange", [], stop=g.random.choice((ROWS, 3, 4)), dtype=g.random.choice(("int64", g.float)))
    elif kind < 0.6:
        g.add("eye", [], n=g.random.choice((ROWS, 3)), m=g.random.choice((ROWS, 4)), dtype=g.float)
    elif kind < 0.75:
        g.add(g.random.choice(("uniform", "normal")), [g.weight([], "int64")], shape=shape, dtype=g.float, seed=1)
    elif kind < 0.85:
        g.add("dropout", [g.pick_float(), g.weight([], "int64")], p=0.5, seed=1)
    else:
        g.add(g.random.choice(("zeros_like", "ones_like", "rand_like")), [g.pick()], **({}))


def matrices(g):
    x = g.pick_float(lambda v: v.ndim >= 2 and v.few[-1] == v.few[-2])
    if x.ndim < 3:
        x = g.input([3, 3], "float32")
    op = g.random.choice(("qr", "cholesky", "inverse", "det", "svd", "fft", "rfft"))
    g.add(op, [x], len(OPS[op]["results"]))


def gradient(g):
    y = g.pick_float()
    y = g.add("sum", [y]) if y.ndim else y
    wrt = [v for v in g.values if v.name[0] in "xw" and v.dtype in FLOATS]
    if y is not None and wrt:
        g.add("grad", [y, g.random.choice(wrt)])


def body(g, given):
    """Draws a body: one or two ops of the parameters."""
    nodes, names = [], list(given)
    for i in range(g.random.choice((1, 2, 3))):
        op = g.random.choice(("add", "mul", "maximum", "tanh", "sub", "cumsum", "sum", "flip", "matmul", "softmax", "minimum", "neg"))
        attrs = {"axis": g.random.choice((0, 1, -1))} if op in ("cumsum", "flip", "softmax", "sum") else {}
        if op == "sum":
            attrs["keepdim"] = True
        two = len(OPS[op]["inputs"]) == 2
        nodes.append({"id": f"b{i}", "op": op, "in": [g.random.choice(names) for _ in range(1 + two)], **({"attrs": attrs} if attrs else {})})
        names.append(f"b{i}")
    return nodes, names[len(given):]


def loop(g):
    x, s = g.pick(), g.pick(lambda v: v.ndim > 0)
    more = g.pick(lambda v: v.few == x.few)
    if not s.has_rows(0) or g.chance(0.1):
        nodes, made = body(g, ("c", "s", "m"))
        g.add("scan", [x, s, more], 2, sequences=1, reverse=g.chance(0.3),
              body={"inputs": ["c", "s", "m"], "nodes": nodes, "outputs": [made[-1], g.random.choice(made)]})
    else:
        nodes, made = body(g, ("c", "m"))
        g.add("scan", [x, more], 2, length=3, body={"inputs": ["c", "m"], "nodes": nodes, "outputs": [made[-1], g.random.choice([*made, "c"])]})


def branch(g):
    x = g.pick()
    p = g.pick(lambda v: v.dtype == "bool" and v.ndim == 0)
    if p.ndim:
        p = g.weight([], "bool")
    then, otherwise = body(g, ("a",)), body(g, ("a",))
    g.add("cond", [p, x], then={"inputs": ["a"], "nodes": then[0], "outputs": then[1][-1:]}, otherwise={"inputs": ["a"], "nodes": otherwise[0], "outputs": otherwise[1][-1:]})


DRAWS = {elementwise: 14, reduce: 6, along: 5, product: 6, window: 4, reshape: 12, move: 12, cut: 7, join: 4, look_up: 9, choose: 1, create: 3, matrices: 1, gradient: 3,
         loop: 4, branch: 1}


def draw(seed, caller):
    g = Growing(seed, caller)
    for _ in range(g.random.choice((1, 1, 2))):
        g.input()
    wanted = g.random.choice(NODES)
    for _ in range(4 * wanted):
        if len(g.nodes) >= wanted:
            break
        g.random.choices(list(DRAWS), list(DRAWS.values()))[0](g)
    return g


# ---- all rows together, and each row alone

def needed_by(g, output):
    nodes, wanted = [], {output}
    for node in reversed(g.nodes):
        ids = [node["id"]] if isinstance(node["id"], str) else node["id"]
        if wanted & set(ids):
            nodes.insert(0, node)
            wanted |= {x for x in node["in"] if isinstance(x, str)}
    return nodes, wanted


def program(g, outputs, device):
    """Makes a program with an entry for each output."""
    entries = {}
    for output in outputs:
        nodes, wanted = needed_by(g, output)
        inputs = {name: {"dtype": t.dtype, "shape": t.shape} for name, t in g.inputs.items() if name in wanted}
        if inputs and nodes:
            entries[output] = {"inputs": inputs, "nodes": nodes, "outputs": [output]}
    return {"device": device, "dims": {ROWS: [1, g.most]}, "state": {name: t.encoded() for name, t in g.weights.items()}, "entries": entries}


def run(caller, g, name, entry, rows):
    inputs = {x: Tensor(g.inputs[x].dtype, g.inputs[x].array[rows]).encoded() for x in entry["inputs"]}
    status, body = caller.call("POST", "/api/v1/programs/rows/run", {"entry": name, "inputs": inputs})
    if status != 200:
        raise RuntimeError(f"{status} {body[:500]!r}")
    return {output: array for output, (_, array) in tensors_of(body).items()}


def same(a, b):
    return a.shape == b.shape and (a.tobytes() == b.tobytes() or a.dtype.kind == "f" and np.array_equal(np.isnan(a), np.isnan(b))
                                   and np.where(np.isnan(a), 0, a).tobytes() == np.where(np.isnan(b), 0, b).tobytes())


def differing(caller, g, device):
    """Returns, as text, the rows that are independent by the proof and differ; and the numbers of outputs with a proof and of
    candidates."""
    candidates = [v.name for v in g.values if v.ndim and v.few[0] == FEW and v.many[0] == MANY and v.name not in g.inputs]
    document = program(g, candidates, device)
    if not document["entries"]:
        return [], 0, 0
    caller.call("DELETE", "/api/v1/programs/rows")
    status, body = caller.call("PUT", "/api/v1/programs/rows", document)
    if status not in (200, 201):
        if status == 422 and device != "interp:0":
            return [], 0, 0
        raise RuntimeError(f"{status} {body[:500]!r} of {json.dumps(document)}")
    apart = [name for name, entry in json.loads(body)["entries"].items() if entry.get("batch") == ROWS]
    found = []
    for name in apart:
        entry = document["entries"][name]
        parts = ([0], [1], [2, 3], [4]) if g.chance(0.5) else ([4, 0], [1, 3, 2])
        whole = run(caller, g, name, entry, list(range(MANY)))[name]
        for rows in parts:
            if not same(run(caller, g, name, entry, rows)[name], whole[rows]):
                found.append(f"{name} on {device}: rows {rows} are others alone: {json.dumps(program(g, [name], device))}")
                break
    return found, len(apart), len(candidates)


def servers_of(devices, *arguments):
    """Returns a server for each list of arguments, and the devices of this machine."""
    backends = ",".join(sorted({"interp", *(device.split(":")[0] for device in devices)}))
    servers = [fixture.Server("--log-level", "error", "--backends", backends, "--tune=off", *more) for more in arguments]
    there = {device["id"] for device in json.loads(servers[0].call("GET", "/api/v1/devices").body)["devices"]}
    return servers, [device for device in devices if device in there]


class Totals:
    def __init__(self):
        self.graphs = self.apart = self.possible = 0
        self.ops, self.found, self.ended = set(), [], []

    def __str__(self):
        return f"{self.graphs} graphs of {len(self.ops)} ops, {self.apart} of {self.possible} outputs apart, {len(self.found)} differences"


def campaign(devices, seeds, out=print):
    """Runs the programs of all seeds on all devices."""
    (server,), devices = servers_of(devices, ())
    caller, totals = Caller(server), Totals()
    try:
        for seed in seeds if devices else ():
            g = draw(seed, caller)
            totals.graphs += 1
            totals.ops |= {node["op"] for node in g.nodes}
            for device in devices:
                found, apart, possible = differing(caller, g, device)
                totals.apart, totals.possible, totals.found = totals.apart + apart, totals.possible + possible, totals.found + [f"seed {seed}: {text}" for text in found]
                for text in found:
                    out(f"seed {seed}: {text}")
            if totals.graphs % SHOWN == 0:
                out(f"{','.join(devices)}: {totals}")
    finally:
        caller.close()
        totals.ended = [status for status in [server.stop()] if status]
    out(f"{','.join(devices) or 'no device'}: {totals}")
    return totals
