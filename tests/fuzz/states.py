# SPDX-License-Identifier: MIT
"""Random programs with in-place updates of states (engine/sched/region.c) and joined writes (engine/sched/concat.c).

Each program has several runs of several steps.  The reference is a server without moves, on which each value of the graph has
its own buffer and each update a new buffer.  All numbers are integers, so results must be bit-identical.
"""
import json
import random

import numpy as np

from documents import Tensor
from drawing import hash_of
from rows import Caller, servers_of, tensors_of

SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 17)
DTYPES = ("float32",) * 6 + ("int32", "int64", "uint8", "float16")
PLACES = ("int32", "int64", "int8", "uint8", "uint32", "int16")
PATH, RUNS, SHOWN = "/api/v1/programs/states", (1, 2, 1, 5), 500  # steps of each run
LEAST = {"uint8": 0, "uint32": 0, "bool": 0}


class Value:
    def __init__(self, name, dtype, shape):
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)

    @property
    def ndim(self):
        return len(self.shape)


class Program:
    """A program: states, inputs, and nodes between them."""

    def __init__(self, seed):
        self.random = random.Random(f"states {seed}")
        self.numbers = np.random.default_rng(hash_of(f"states {seed}"))
        self.states, self.inputs, self.limits, self.nodes, self.values, self.updates, self.dims, self.masks = {}, {}, {}, [], [], {}, {}, []
        self.plain = self.chance(0.65)  # mostly updates that the compiler performs in place
        dtype = self.random.choice(DTYPES)
        shape = [self.random.choice(SIZES) for _ in range(self.random.choice((1, 2, 2, 2, 3)))]
        if self.chance(0.04):
            shape = [self.random.choice((130, 160)), 128]  # too large to share a loop nest with unrelated values
        for i in range(self.random.choice((1, 1, 2, 2, 3, 4))):
            kind = self.random.random()
            kind = 0.7 + 0.3 * kind if self.plain and i else kind  # its loops differ from the others', so that it is stored separately
            one = shape if kind < 0.7 else shape[:1] if kind < 0.8 else shape[::-1] if kind < 0.9 else [self.random.choice(SIZES)]
            self.state(dtype if self.chance(0.85) else self.random.choice(DTYPES), one)
        if self.chance(0.3):
            self.state("int32", [1])
        if self.chance(0.2):
            self.dims["n"] = [1, max(1, min(shape))]

    def chance(self, p):
        return self.random.random() < p

    # ---- leaves

    def state(self, dtype, shape):
        name = f"s{len(self.states)}"
        self.states[name] = Tensor(dtype, self.numbers.integers(0, 10, shape))
        return self.keep(name, dtype, shape)

    def input(self, dtype, shape, low=0, high=100):
        """Adds an input with new numbers in each run."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = dtype, list(shape)
        self.limits[name] = max(low, LEAST.get(dtype, low)), high
        return self.keep(name, dtype, shape)

    def keep(self, name, dtype, shape):
        value = Value(name, dtype, shape)
        self.values.append(value)
        return value

    def add(self, op, operands, dtype, shape, /, **attrs):
        name = f"n{len(self.nodes)}"
        self.nodes.append({"id": name, "op": op, "in": [x.name if isinstance(x, Value) else x for x in operands], **({"attrs": attrs} if attrs else {})})
        return self.keep(name, dtype, shape)

    def tame(self, x):
        return x if x.dtype == "bool" else self.add("clamp", [x], x.dtype, x.shape, min=LEAST.get(x.dtype, -99), max=99)

    def pick(self, accept):
        found = [v for v in self.values if accept(v)]
        return self.random.choice(found) if found else None

    def reshape(self, x, shape):
        return x if x.shape == tuple(shape) else self.add("reshape", [x], x.dtype, shape, shape=list(shape))

    def slice(self, x, axis, start, stop, step=1):
        size = len(range(start, stop, step))
        return self.add("slice", [x], x.dtype, [size if i == axis else n for i, n in enumerate(x.shape)], start=[start], stop=[stop], step=[step], axis=[axis])

    # ---- equivalent forms of a value

    def view(self, x):
        """Returns x in another form, possibly slightly changed."""
        kind = self.random.random()
        if kind < (0.9 if self.plain else 0.55) or x.ndim == 0:
            return x
        axis = self.random.randrange(x.ndim)
        if kind < 0.62:
            return self.add("contiguous", [x], x.dtype, x.shape)
        if kind < 0.7:
            return self.reshape(self.reshape(x, [int(np.prod(x.shape))]), x.shape)
        if kind < 0.78:
            y = self.add("flip", [x], x.dtype, x.shape, axis=[axis])
            return self.add("flip", [y], x.dtype, x.shape, axis=[axis])
        if kind < 0.84:
            y = self.add("transpose", [x], x.dtype, [*x.shape[:-2], *x.shape[:-3:-1]]) if x.ndim > 1 else x
            return self.add("transpose", [y], x.dtype, x.shape) if x.ndim > 1 else x
        if kind < 0.9:
            padding = [[1, 2] if i == axis else [0, 0] for i in range(x.ndim)]
            y = self.add("pad", [x], x.dtype, [n + 3 if i == axis else n for i, n in enumerate(x.shape)], padding=padding)
            return self.slice(y, axis, 1, 1 + x.shape[axis])
        if kind < 0.93:  # a part of x, surrounded by zeros
            a = self.random.randrange(x.shape[axis])
            padding = [[a, 0] if i == axis else [0, 0] for i in range(x.ndim)]
            return self.add("pad", [self.slice(x, axis, a, x.shape[axis])], x.dtype, x.shape, padding=padding)
        if kind < 0.96:
            return self.add("roll", [x], x.dtype, x.shape, shift=[1], axis=[axis])
        return self.add("add", [x, 0], x.dtype, x.shape) if x.dtype != "bool" else x

    # ---- positions

    def place(self, n, shape=(1,)):
        """Returns an integer near the range of an axis of n."""
        kind = self.random.random()
        if kind < 0.25:
            return self.random.randint(-1, n)
        if kind < 0.35 and self.dims:
            return self.add("full", [], "int32", shape, shape=list(shape), value="n", dtype="int32")
        dtype = self.random.choice(PLACES)
        found = self.pick(lambda v: v.dtype == "int32" and v.shape == (1,) and v.name in self.states)
        x = found if found is not None and self.chance(0.5) else self.input(dtype, [1], -2, n + 2)
        if self.chance(0.3):
            x = self.add(self.random.choice(("add", "sub")), [x, self.random.randint(0, 3)], x.dtype, x.shape)
        return x

    def along(self, n, at, ndim):
        """Returns a mask along one axis."""
        p = self.place(n)
        dtype = p.dtype if isinstance(p, Value) else "int32"
        i = self.add("arange", [], dtype, [n], stop=n, dtype=dtype)
        odd = 0.3 if self.plain else 1
        if self.chance(0.15 * odd):
            i = self.add("flip", [i], dtype, [n])
        if self.chance(0.1 * odd):
            i = self.add(self.random.choice(("mod", "floor_div", "mul")), [i, 2], dtype, [n])
        if self.chance(0.15 * odd):
            i = self.add("add", [i, self.random.randint(1, 3)], dtype, [n])
        op = "equal" if self.plain and self.chance(0.6) or not isinstance(p, Value) and self.chance(0.3) else self.random.choice(("equal", "less", "greater", "less_equal", "greater_equal", "not_equal"))
        mask = self.add(op, [i, p] if self.chance(0.8) or not isinstance(p, Value) else [p, i], "bool", [n])
        return self.reshape(mask, [n if k == at else 1 for k in range(ndim)])

    def mask(self, shape):
        """Returns a mask, possibly the mask of another state that changes at the same positions."""
        found = [mask for one, mask in self.masks if one == shape]
        if found and self.chance(0.5):
            return self.random.choice(found)
        self.masks.append((shape, self.new_mask(shape)))
        return self.masks[-1][1]

    def new_mask(self, shape):
        n = len(shape)
        axes = self.random.sample(range(n), self.random.choice((1, 1, 1, min(2, n), 1 if self.plain else n)) if n else 0)
        mask = None
        for axis in axes:
            one = self.along(shape[axis], axis, n)
            if self.chance(0.1 if self.plain else 0.3):
                two = self.along(shape[axis], axis, n)
                one = self.add(self.random.choice(("logical_and", "logical_and", "logical_or", "logical_xor")), [one, two], "bool", one.shape)
            if mask is not None:
                both = [max(a, b) for a, b in zip(mask.shape, one.shape)]
                one = self.add(self.random.choice(("logical_and", "logical_and", "logical_or")), [mask, one], "bool", both)
            mask = one
        if mask is None:
            return self.input("bool", shape, 0, 2)
        if self.chance(0.15):
            mask = self.add("logical_not", [mask], "bool", mask.shape)
        if self.chance(0.05):
            other = self.input("bool", shape, 0, 2)
            mask = self.add("logical_and", [mask, other], "bool", shape)
        return mask

    # ---- new values

    def fresh(self, dtype, shape):
        """Returns new numbers with the shape, or with a shape that broadcasts to it."""
        kind = self.random.random()
        if kind < (0.85 if self.plain else 0.35):
            return self.input(dtype, [1 if self.chance(0.3) else n for n in shape])
        if kind < 0.4:
            return self.random.randint(0, 9)
        if dtype == "float32" and len(shape) == 2 and self.chance(0.2):
            return self.product(self.input(dtype, [shape[0], self.random.choice((3, 16))], 0, 10), shape[1])
        same = self.pick(lambda v: v.dtype == dtype and v.shape == tuple(shape))
        if same is None:
            return self.input(dtype, shape)
        if kind < 0.6 or not shape:
            return same
        axis = self.random.randrange(len(shape))
        if kind < 0.7:
            return self.tame(self.add("add", [same, self.random.randint(1, 5)], dtype, shape))
        if kind < 0.75:
            return self.add("roll", [same], dtype, shape, shift=[self.random.choice((-1, 1, 2))], axis=[axis])
        if kind < 0.8:
            return self.add("flip", [same], dtype, shape, axis=[axis])
        if kind < 0.88:
            total = self.add(self.random.choice(("sum", "max")), [same], dtype, [1 if i == axis else n for i, n in enumerate(shape)], axis=axis, keepdim=True,
                             **{})
            if self.nodes[-1]["op"] == "sum" and dtype not in ("float32", "float16", "int64"):
                self.nodes[-1]["attrs"]["dtype"] = dtype
            return self.tame(total)
        if kind < 0.92:
            other = self.pick(lambda v: v.dtype == dtype and v.shape == tuple(shape))
            return self.tame(self.add(self.random.choice(("add", "maximum")), [same, other], dtype, shape))
        if kind < 0.95:
            return self.tame(self.add("cumsum", [same], dtype if dtype.startswith("f") else "int64", shape, axis=axis)) if dtype.startswith(
                "f") or dtype == "int64" else same
        index = self.input("int64", [shape[axis]], 0, shape[axis])
        return self.add("take", [same, index], dtype, shape, axis=axis)

    def product(self, x, columns):
        y = self.input(x.dtype, [x.shape[1], columns], 0, 4)
        return self.tame(self.add("matmul", [x, y], x.dtype, [x.shape[0], columns]))

    def loop(self, x):
        """Returns the result of a loop that begins with x."""
        seq = self.input(x.dtype, [self.random.choice((1, 2, 3)), *x.shape])
        more = self.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
        name = f"n{len(self.nodes)}"
        nodes = [{"id": "a", "op": "maximum", "in": ["c", "q"]}, {"id": "b", "op": "minimum", "in": ["a", "m"]}, {"id": "d", "op": "flip", "in": ["b"], "attrs": {"axis": [0]}}]
        self.nodes.append({"id": [name, name + "y"], "op": "scan", "in": [x.name, seq.name, more.name],
                           "attrs": {"sequences": 1, "body": {"inputs": ["c", "q", "m"], "nodes": nodes, "outputs": [self.random.choice("abd"), "b"]}}})
        self.keep(name + "y", x.dtype, [seq.shape[0], *x.shape])
        return self.keep(name, x.dtype, x.shape)

    # ---- updates

    def chosen(self, s):
        base = self.view(s)
        mask, new = self.mask(s.shape), self.fresh(s.dtype, s.shape)
        if isinstance(new, Value) and self.chance(0.3):
            return self.add("where", [self.add("logical_not", [mask], "bool", mask.shape), base, new], s.dtype, s.shape)
        return self.add("where", [mask, new, base], s.dtype, s.shape)

    def assigned(self, s):
        """Updates a slice of the state by a cat with the surrounding parts."""
        if s.ndim == 0:
            return self.chosen(s)
        axis = self.random.randrange(s.ndim)
        n = s.shape[axis]
        a = self.random.randint(0, n - 1)
        b = self.random.randint(a + 1, n)
        off = self.random.choice((0, 0, 0, 0, 1))
        parts = [self.slice(s, axis, 0, a)] if a > 0 else []
        new = self.fresh(s.dtype, [b - a if i == axis else m for i, m in enumerate(s.shape)])
        if not isinstance(new, Value) or new.shape[axis] != b - a or any(x != y for i, (x, y) in enumerate(zip(new.shape, s.shape)) if i != axis):
            new = self.input(s.dtype, [b - a if i == axis else m for i, m in enumerate(s.shape)])
        parts.append(new)
        if b < n:
            parts.append(self.slice(s, axis, b - off, n - off) if b - off >= 0 else self.slice(s, axis, b, n))
        if self.chance(0.1):
            self.random.shuffle(parts)
        return self.add("cat", parts, s.dtype, s.shape, axis=axis)

    def elsewhere(self, s):
        """Updates a part of a value that is not the state."""
        size = int(np.prod(s.shape))
        found = [v for v in self.values if v.dtype == s.dtype and int(np.prod(v.shape)) == size]
        flat = self.add("contiguous", [self.tame(self.add("add", [self.reshape(self.random.choice(found), [size]), 1], s.dtype, [size]))], s.dtype, [size])
        return self.add("where", [self.mask(s.shape), self.fresh(s.dtype, s.shape), self.reshape(flat, s.shape)], s.dtype, s.shape)

    def put(self, s):
        if s.ndim == 0:
            return self.chosen(s)
        axis, many = self.random.randrange(s.ndim), self.random.choice((1, 2, 3))
        shape = [many if i == axis else n for i, n in enumerate(s.shape)]
        value = self.input(s.dtype, shape)
        if self.chance(0.5):
            index = self.input("int64", [many], -1, s.shape[axis] + 1)
            return self.add("index_put", [s, value, index], s.dtype, s.shape, axis=axis)
        return self.add("scatter", [s, self.input("int64", shape, -1, s.shape[axis] + 1), value], s.dtype, s.shape, axis=axis)

    def padded(self, s):
        """Writes numbers padded to the state's size where a mask padded in the same way is true."""
        if s.ndim == 0:
            return self.chosen(s)
        part = [self.random.randint(1, n) for n in s.shape]
        before = [self.random.randint(0, n - m) for n, m in zip(s.shape, part)]
        padding = [[b, n - m - b] for n, m, b in zip(s.shape, part, before)]
        new = self.add("pad", [self.input(s.dtype, part)], s.dtype, s.shape, padding=padding)
        ones = self.add("full", [], "bool", part, shape=part, value=True, dtype="bool") if self.chance(0.5) else self.input("bool", part, 0, 2)
        mask = self.add("pad", [ones], "bool", s.shape, padding=padding)
        return self.add("where", [mask, new, self.view(s)], s.dtype, s.shape)

    def updated(self, s):
        for _ in range(self.random.choice((1, 1, 1, 2) if self.plain else (1, 1, 1, 2, 3))):
            way = self.random.choices((self.chosen, self.assigned, self.put, self.padded, self.elsewhere), (20, 8, 2, 3, 2))[0]
            s = way(s)
        return s

    def before_and_after(self, name):
        """Adds outputs of a state before and after its update."""
        both = [v for v in self.values if v.name in (name, self.updates[name]) and v.ndim > 0 and v.dtype != "bool"]
        found = []
        for x in self.random.sample(both, len(both)):
            axis = self.random.randrange(x.ndim)
            x = self.tame(self.add("mul", [x, 2], x.dtype, x.shape)) if self.chance(0.5) else x
            found.append(self.add("max", [x], x.dtype, [n for i, n in enumerate(x.shape) if i != axis], axis=axis).name)
        return found

    def watched(self):
        """Returns some value for an output."""
        ends = {*self.states, *self.updates.values()} if self.chance(0.7) else {v.name for v in self.values}
        x = self.pick(lambda v: v.dtype != "bool" and v.ndim > 0 and v.name in ends)
        kind, axis = self.random.random(), self.random.randrange(x.ndim)
        if kind < 0.25:
            return x if x.name not in (*self.states, *self.inputs) else self.add("contiguous", [x], x.dtype, x.shape)
        if kind < 0.5:
            return self.add("max", [x], x.dtype, [n for i, n in enumerate(x.shape) if i != axis], axis=axis)
        if kind < 0.65:
            return self.add("flip", [x], x.dtype, x.shape, axis=[axis])
        if kind < 0.75 and x.ndim > 1:
            return self.add("transpose", [x], x.dtype, [*x.shape[:-2], *x.shape[:-3:-1]])
        if kind < 0.85:
            return self.slice(x, axis, 0, x.shape[axis], 2)
        if kind < 0.93 and x.ndim == 2 and x.dtype == "float32":
            return self.product(x, self.random.choice((2, 16, 64)))
        y = self.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
        return self.tame(self.add("add", [x, y], x.dtype, x.shape))

    def document(self, device, apart=False):
        nodes = self.nodes
        if apart:
            nodes = []
            for node in self.nodes:
                ids = [node["id"]] if isinstance(node["id"], str) else node["id"]
                raw = [f"{name}.raw" for name in ids]
                nodes.append({**node, "id": raw if len(raw) > 1 else raw[0]})
                nodes += [{"id": name, "op": "contiguous", "in": [other]} for name, other in zip(ids, raw)]
        dims = {"dims": self.dims} if self.uses_dims() else {}
        inputs = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in self.inputs.items()}
        if dims:
            inputs["xn"] = {"dtype": "int32", "shape": ["n"]}
        return {"device": device, "state": {name: t.encoded() for name, t in self.states.items()}, "inputs": inputs, "nodes": nodes, "outputs": self.outputs,
                "updates": self.updates, **dims}

    def uses_dims(self):
        return any(node.get("attrs", {}).get("value") == "n" for node in self.nodes)

    def numbers_of(self, turn):
        """Returns the inputs of a run."""
        numbers = np.random.default_rng(turn + 1000)
        found = {}
        for name, (dtype, shape) in self.inputs.items():
            low, high = self.limits[name]
            found[name] = Tensor(dtype, numbers.integers(low, high, shape)).encoded()
        if self.uses_dims():
            found["xn"] = Tensor("int32", np.zeros(numbers.integers(self.dims["n"][0], self.dims["n"][1] + 1))).encoded()
        return found


def draw(seed):
    """Draws a program; equal for equal seeds."""
    p = Program(seed)
    for state in [v for v in p.values if v.name in p.states]:
        if state.ndim and p.chance(0.05 if p.plain else 0.15):
            p.loop(state)
        if p.chance(0.88):
            new = p.updated(state)
            if new.name not in p.states:
                p.updates[state.name] = new.name
        elif p.chance(0.5):
            other = p.pick(lambda v: v.dtype == state.dtype and v.shape == state.shape and v.name != state.name)
            if other is not None:
                p.updates[state.name] = other.name
    if p.chance(0.15) and p.updates:  # also the update of another state
        for name in p.states:
            other = p.pick(lambda v: v.name in p.updates.values() and v.dtype == p.states[name].dtype and v.shape == tuple(p.states[name].array.shape))
            if other is not None and p.chance(0.3):
                p.updates[name] = other.name
    p.outputs = list(dict.fromkeys(p.watched().name for _ in range(p.random.choice((0, 0, 1, 2) if p.plain else (0, 1, 1, 2, 3)))))
    if p.updates and p.chance(0.3):
        p.outputs = list(dict.fromkeys(p.outputs + p.before_and_after(p.random.choice(list(p.updates)))))
    if not p.updates:
        return draw(f"{seed}+")
    needed = set(p.outputs) | set(p.updates.values())
    kept = []
    for node in reversed(p.nodes):
        if needed & set([node["id"]] if isinstance(node["id"], str) else node["id"]):
            kept.insert(0, node)
            needed |= {x for x in node["in"] if isinstance(x, str)}
    p.nodes = kept
    p.inputs = {name: x for name, x in p.inputs.items() if name in needed}
    return p


def play(caller, p, document):
    """Returns all outputs and states run by run, or the refusal."""
    caller.call("DELETE", PATH)
    status, body = caller.call("PUT", PATH, document)
    if status not in (200, 201):
        return status, body[:400]
    seen = []
    for turn, steps in enumerate(RUNS):
        collect = {"collect": {"every": 1, "outputs": p.outputs}} if steps > 2 and p.outputs else {}
        status, body = caller.call("POST", PATH + "/run", {"inputs": p.numbers_of(turn), "steps": steps, **collect})
        if status != 200:
            return status, body[:400]
        seen.append(tensors_of(body))
        status, body = caller.call("GET", PATH + "/state")
        seen.append(tensors_of(body))
    return 200, seen


def difference(want, got):
    if want[0] != 200 or got[0] != 200:
        return None if want[0] == got[0] else f"{got[0]} {got[1]!r}, not {want[0]}"
    for turn, (a, b) in enumerate(zip(want[1], got[1])):
        for name in a:
            if not np.array_equal(a[name][1].astype(np.float64), b[name][1].astype(np.float64), equal_nan=True):
                where = np.argwhere(a[name][1] != b[name][1])
                return f"{'state' if turn % 2 else 'output'} {name} after run {turn // 2}: {len(where)} of {a[name][1].size} differ, the first at {where[0].tolist()}"
    return None


class Totals:
    def __init__(self):
        self.programs, self.refused, self.found, self.ended = 0, {}, [], []

    def __str__(self):
        return f"{self.programs} programs, {sum(self.refused.values())} refused, {len(self.found)} differences"


def judge(callers, p, devices):
    """Returns the difference to the reference, and the reason of a refusal."""
    plain, moves = callers
    want = play(plain, p, p.document("interp:0", apart=True))
    texts = {device: difference(want, play(moves, p, p.document(device))) for device in devices}
    if "interp:0" in devices:
        texts["without moves"] = difference(want, play(plain, p, p.document("interp:0")))
    return [f"{where}: {text}" for where, text in texts.items() if text], "" if want[0] == 200 else str(want[1])


def campaign(devices, seeds, out=print):
    """Runs the programs of all seeds on all devices."""
    servers, devices = servers_of(devices, ("--noopt",), ())
    callers, totals = [Caller(server) for server in servers], Totals()
    try:
        for seed in seeds if devices else ():
            p = draw(seed)
            found, refused = judge(callers, p, devices)
            totals.programs += 1
            if refused:
                totals.refused[refused] = totals.refused.get(refused, 0) + 1
            for text in found:
                totals.found.append(f"seed {seed}: {text}")
                out(f"seed {seed}: {text}\n{json.dumps(p.document('interp:0'))}")
            if totals.programs % SHOWN == 0:
                out(f"{','.join(devices)}: {totals}")
    finally:
        for caller in callers:
            caller.close()
        totals.ended = [status for status in [server.stop() for server in servers] if status]
    out(f"{','.join(devices) or 'no device'}: {totals}")
    for text, times in sorted(totals.refused.items(), key=lambda item: -item[1])[:5]:
        out(f"  refused {times} times: {text}")
    return totals
