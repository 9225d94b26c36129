# SPDX-License-Identifier: MIT
"""Properties of combined ops: second derivatives, gradients of intermediates, exact integers, literals, named dimensions,
safetensors."""

import json
import unittest

import numpy as np
import torch
import torch.nn.functional as F

from service import DTYPES, FLOATS, DeviceTest, ServiceTest, decode, encode, fixture, on_each_device

BIG = [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62 + 3, 0, -1, 9007199254740993]


def normal(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


# op -> (torch's function, attributes, factor of the bound); each is applied to positive numbers, [3, 4] or the given shape
SECOND = {
    "exp": (torch.exp, {}, 1), "sin": (torch.sin, {}, 1), "cos": (torch.cos, {}, 1), "sigmoid": (torch.sigmoid, {}, 1),
    "tanh": (torch.tanh, {}, 4), "gelu": (F.gelu, {}, 4), "silu": (F.silu, {}, 1), "softplus": (F.softplus, {}, 1),
    "square": (torch.square, {}, 1), "sqrt": (torch.sqrt, {}, 4), "rsqrt": (torch.rsqrt, {}, 10), "log": (torch.log, {}, 4),
    "reciprocal": (torch.reciprocal, {}, 10), "erf": (torch.erf, {}, 4), "softmax": (lambda a: torch.softmax(a, -1) ** 2, {}, 4),
    "log_softmax": (lambda a: torch.log_softmax(a, -1) ** 2, {}, 4), "logsumexp": (lambda a: torch.logsumexp(a, (0, 1)) ** 2, {}, 4),
    "prod": (lambda a: a.prod(1) ** 2, {"axis": 1}, 10), "std": (lambda a: a.std(1) ** 2, {"axis": 1}, 10),
    "layer_norm": (lambda a: F.layer_norm(a, (4,)) ** 2, {}, 10), "mean": (lambda a: a.mean(0) ** 2, {"axis": 0}, 1),
    "max": (lambda a: a.amax(1) ** 2, {"axis": 1}, 1), "cat": (lambda a: torch.cat([a, a]) ** 2, {}, 1),
    "slice": (lambda a: a[1:, ::2] ** 2, {"start": [1, 0], "step": [1, 2]}, 1),
}
SQUARED = ("softmax", "log_softmax", "logsumexp", "prod", "std", "layer_norm", "mean", "max", "cat", "slice")


@on_each_device
class Derivatives(DeviceTest):
    def test_second_order(self):
        """d/dx of the squares of the first derivative."""
        x = normal(1, 3, 4).abs() + 0.3
        nodes, outputs, wanted = [], [], {}
        for op, (fn, attrs, _) in SECOND.items():
            nodes.append({"id": f"{op}.y", "op": op, "in": ["x", "x"] if op == "cat" else ["x"], "attrs": attrs})
            nodes.append({"id": f"{op}.z", "op": "square" if op in SQUARED else "contiguous", "in": [f"{op}.y"]})
            nodes += [{"id": f"{op}.s", "op": "sum", "in": [f"{op}.z"]}, {"id": [f"{op}.g"], "op": "grad", "in": [f"{op}.s", "x"]},
                      {"id": f"{op}.gg", "op": "square", "in": [f"{op}.g"]}, {"id": f"{op}.q", "op": "sum", "in": [f"{op}.gg"]},
                      {"id": [f"{op}.h"], "op": "grad", "in": [f"{op}.q", "x"]}]
            outputs.append(f"{op}.h")
            a = x.double().requires_grad_()
            g, = torch.autograd.grad(fn(a).sum(), a, create_graph=True)
            wanted[op], = torch.autograd.grad((g * g).sum(), a)
        got = self.run_graph(nodes, outputs, {"x": x})
        for op, (_, _, loose) in SECOND.items():
            with self.subTest(op=op):
                self.close(f"{op}, second order", got[f"{op}.h"], wanted[op].float(), 1e-4 * loose, 3e-5 * loose)

    def test_second_order_of_products(self):
        """The product of a small network's Hessian with a vector."""
        x, w, k = normal(2, 2, 3, 6, 6), normal(3, 4, 3, 3, 3) / 3, normal(4, 5, 64) / 8
        v = normal(5, 4, 3, 3, 3)
        nodes = [{"id": "c", "op": "conv2d", "in": ["x", "w"]}, {"id": "t", "op": "tanh", "in": ["c"]},
                 {"id": "f", "op": "flatten", "in": ["t"], "attrs": {"start_axis": 1}}, {"id": "l", "op": "linear", "in": ["f", "k"]},
                 {"id": "e", "op": "cross_entropy", "in": ["l", "i"]}, {"id": ["g"], "op": "grad", "in": ["e", "w"]},
                 {"id": ["h"], "op": "grad", "in": ["g", "w", "v"], "attrs": {"cotangent": True}}]
        i = torch.tensor([1, 4])
        got = self.run_graph(nodes, ["e", "g", "h"], {"x": x, "w": w, "k": k, "v": v, "i": i})
        a = w.clone().requires_grad_()
        e = F.cross_entropy(F.linear(torch.tanh(F.conv2d(x, a)).flatten(1), k), i)
        g, = torch.autograd.grad(e, a, create_graph=True)
        h, = torch.autograd.grad(g, a, v)
        for name, want in {"e": e, "g": g, "h": h}.items():
            self.close(name, got[name], want, 1e-3, 2e-5)

    def test_third_order(self):
        x = normal(6, 5)
        nodes, last = [{"id": "y", "op": "sin", "in": ["x"]}], "y"
        for order in range(3):
            nodes += [{"id": f"s{order}", "op": "sum", "in": [last]}, {"id": [f"d{order}"], "op": "grad", "in": [f"s{order}", "x"]}]
            last = f"d{order}"
        got = self.run_graph(nodes, ["d0", "d1", "d2"], {"x": x})
        for name, want in {"d0": x.cos(), "d1": -x.sin(), "d2": -x.cos()}.items():
            self.close(name, got[name], want)

    def test_gradients_of_intermediates_and_aliases(self):
        x = normal(7, 4)
        a = x.clone().requires_grad_()
        h, h2, v = a.exp(), a.exp(), a.reshape(4)
        want = torch.autograd.grad((h * h2 * v * a).sum(), [h, h2, v, a])
        nodes = [{"id": "h", "op": "exp", "in": ["x"]}, {"id": "h2", "op": "exp", "in": ["x"]},
                 {"id": "v", "op": "reshape", "in": ["x"], "attrs": {"shape": [4]}}, {"id": "p", "op": "mul", "in": ["h", "h2"]},
                 {"id": "q", "op": "mul", "in": ["p", "v"]}, {"id": "r", "op": "mul", "in": ["q", "x"]}, {"id": "s", "op": "sum", "in": ["r"]},
                 {"id": ["a", "b", "c", "d"], "op": "grad", "in": ["s", "h", "h2", "v", "x"]}, {"id": ["z"], "op": "grad", "in": ["s", "s"]}]
        got = self.run_graph(nodes, list("abcdz"), {"x": x})
        for name, value in zip("abcdz", (*want, torch.tensor(1.0))):
            self.close(name, got[name], value)

    def test_detach_stops_and_the_rest_flows(self):
        nodes = [{"id": "d", "op": "detach", "in": ["x"]}, {"id": "y", "op": "mul", "in": ["d", "x"]}, {"id": "s", "op": "sum", "in": ["y"]},
                 {"id": ["g", "n"], "op": "grad", "in": ["s", "x", "unused"]}]
        x = normal(8, 3, 3)
        got = self.run_graph(nodes, ["g", "n"], {"x": x, "unused": normal(9, 2)})
        self.close("g", got["g"], x)
        self.close("n", got["n"], torch.zeros(2))


@on_each_device
class Values(DeviceTest):
    def test_int64_is_exact(self):
        a, b = torch.tensor(BIG), torch.tensor([1, -1, -1, 1, 2**61, 2**53 + 1, 2**62, 3])
        table = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
                 "equal": torch.eq, "less": torch.lt, "greater_equal": torch.ge, "bitwise_and": torch.bitwise_and,
                 "bitwise_xor": torch.bitwise_xor, "bitwise_or": torch.bitwise_or}
        single = {"neg": torch.neg, "sum": torch.sum, "prod": torch.prod, "max": torch.amax, "min": torch.amin, "argmax": torch.argmax,
                  "argmin": torch.argmin, "bitwise_not": torch.bitwise_not, "flip": lambda v: v.flip(0), "square": torch.square,
                  "relu": torch.relu, "sign": torch.sign}
        nodes = [{"id": op, "op": op, "in": ["a", "b"]} for op in table] + [{"id": op, "op": op, "in": ["a"]} for op in single]
        nodes += [{"id": "mm", "op": "matmul", "in": ["m", "m"]}, {"id": "take", "op": "take", "in": ["a", "i"]},
                  {"id": "literal", "op": "add", "in": ["a", 2**62 + 1]}, {"id": "sum0", "op": "sum", "in": ["m"], "attrs": {"axis": 0}}]
        m, i = torch.tensor(BIG[:4]).reshape(2, 2), torch.tensor([3, -1])
        got = self.run_graph(nodes, [*table, *single, "mm", "take", "literal", "sum0"], {"a": a, "b": b, "m": m, "i": i})
        wanted = {**{op: fn(a, b) for op, fn in table.items()}, **{op: fn(a) for op, fn in single.items()}, "mm": m @ m, "take": a[i],
                  "literal": a + (2**62 + 1), "sum0": m.sum(0)}
        for name, want in wanted.items():
            with self.subTest(op=name):
                self.close(name, got[name], want)

    def test_int64_is_exact_in_json(self):
        nodes = [{"id": "y", "op": "add", "in": ["a", 1]}, {"id": "z", "op": "contiguous", "in": ["a"]}]
        document = {"device": self.device, "inputs": {"a": {"dtype": "int64", "shape": [len(BIG)], "data": BIG}}, "nodes": nodes, "outputs": ["y", "z"]}
        outputs = json.loads(self.service.send("POST", "run", json.dumps(document).encode())[1])["outputs"]
        self.assertEqual(BIG, outputs["z"]["data"])
        self.assertEqual((torch.tensor(BIG) + 1).tolist(), outputs["y"]["data"])

    def test_uint64_beyond_int64(self):
        a, b = np.array([2**64 - 1, 2**63, 2**63 + 5, 7], np.uint64), np.array([2, 2**63, 2**63 - 1, 2**64 - 7], np.uint64)
        table = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_div": np.floor_divide, "mod": np.mod,
                 "maximum": np.maximum, "minimum": np.minimum, "less": np.less, "greater": np.greater}
        nodes = [{"id": op, "op": op, "in": ["a", "b"]} for op in table] + [{"id": "max", "op": "max", "in": ["a"]}, {"id": "sum", "op": "sum", "in": ["a"]}]
        got = self.run_graph(nodes, [*table, "max", "sum"], {"a": a, "b": b})
        for name, want in {**{op: fn(a, b) for op, fn in table.items()}, "max": a.max(), "sum": a.sum()}.items():
            with self.subTest(op=name):
                self.close(name, got[name], want)

    def test_literals(self):
        nodes = [{"id": "a", "op": "mul", "in": ["u", 2]}, {"id": "b", "op": "mul", "in": ["u", 2.5]}, {"id": "c", "op": "add", "in": [1, 2]},
                 {"id": "d", "op": "div", "in": ["i", 2]}, {"id": "e", "op": "add", "in": ["i", "NaN"]}, {"id": "g", "op": "where", "in": [1, "u", 7]},
                 {"id": "h", "op": "maximum", "in": ["x", "-Infinity"]}]
        u, i, x = torch.arange(6, dtype=torch.uint8), torch.arange(6, dtype=torch.int32), normal(10, 3)
        got = self.run_graph(nodes, list("abcdegh"), {"u": u, "i": i, "x": x})
        for name, want in {"a": u * 2, "b": u * 2.5, "c": torch.tensor(3.0), "d": i / 2, "e": i + float("nan"), "g": u, "h": x}.items():
            self.close(name, got[name], want)

    def test_equal_outputs_have_places_of_their_own(self):
        """Equal outputs are interned to one node, but each has its own buffer."""
        names = [f"z{i}" for i in range(20)]
        nodes = [{"id": "y", "op": "square", "in": ["x"]}, *({"id": name, "op": "detach", "in": ["y"]} for name in names)]
        x = normal(11, 17)
        got = self.run_graph(nodes, ["y", *names], {"x": x})
        for name in ("y", *names):
            self.close(name, got[name], x * x)

    def test_every_dtype_through_safetensors(self):
        """The bits of every dtype survive a run and storage as a retained tensor."""
        rng = np.random.default_rng(0)
        values = {}
        for name, (code, bits, _) in DTYPES.items():
            size = np.dtype(bits).itemsize
            raw = bytes(rng.integers(0, 2, 15, dtype=np.uint8)) if name == "bool" else rng.bytes(15 * size)
            if name in FLOATS:  # arithmetic may change the payload of a NaN; the test of retained tensors below covers payloads
                raw = encode(torch.from_numpy(rng.normal(size=15) * 100).to(DTYPES[name][2]))[2]
            values[name] = decode(code, [3, 5], raw)
        nodes = [{"id": f"{name}.y", "op": "transpose", "in": [name]} for name in values]
        nodes += [{"id": f"{name}.z", "op": "contiguous", "in": [name]} for name in values]
        got = self.run_graph(nodes, [node["id"] for node in nodes], values)
        for name, value in values.items():
            with self.subTest(dtype=name):
                turned = value.T.copy() if isinstance(value, np.ndarray) else value.T.contiguous()
                self.assertEqual(encode(turned), encode(got[f"{name}.y"]))
                self.assertEqual(encode(value), encode(got[f"{name}.z"]))


class Held(ServiceTest):
    def test_any_bits_in_any_dtype(self):
        rng = np.random.default_rng(1)
        for name, (code, bits, _) in DTYPES.items():
            with self.subTest(dtype=name):
                raw = bytes(rng.integers(0, 2, 15, dtype=np.uint8)) if name == "bool" else rng.bytes(15 * np.dtype(bits).itemsize)
                self.service.send("PUT", f"tensors/t_{name}?dtype={name}&shape=3,5", raw, "application/octet-stream")
                _, body = self.service.send("GET", f"tensors/t_{name}", accept=fixture.SAFETENSORS)
                self.assertEqual((code, [3, 5], raw), next(iter(fixture.read_safetensors(body)[0].values())))


# (op, shapes of the inputs with named dimensions, attributes, torch's function); b is 5, then 3, with one plan
NAMED = (
    ("relu", [["b", 12]], {}, torch.relu),
    ("reshape", [["b", 12]], {"shape": [-1, 3, 4]}, lambda a: a.reshape(-1, 3, 4)),
    ("reshape", [["b", 12]], {"shape": ["b", 3, 4]}, lambda a: a.reshape(-1, 3, 4)),
    ("reshape", [["b", 12]], {"shape": [-1, 3]}, lambda a: a.reshape(-1, 3)),
    ("flatten", [["b", 3, 4]], {"start_axis": 1}, lambda a: a.flatten(1)),
    ("flatten", [["b", 12]], {}, torch.flatten),
    ("linear", [["b", 12], [3, 12], [3]], {}, F.linear),
    ("mean", [["b", 12]], {}, torch.mean),
    ("sum", [["b", 12]], {"axis": 0}, lambda a: a.sum(0)),
    ("prod", [["b", 4]], {"axis": 0}, lambda a: a.prod(0)),
    ("max", [["b", 4]], {"axis": 0}, lambda a: a.amax(0)),
    ("softmax", [["b", 12]], {"axis": 0}, lambda a: torch.softmax(a, 0)),
    ("std", [["b", 12]], {"axis": 0}, lambda a: a.std(0)),
    ("layer_norm", [["b", 12], [12], [12]], {}, lambda a, w, b: F.layer_norm(a, (12,), w, b)),
    ("conv2d", [["b", 2, 6, 6], [3, 2, 3, 3], [3]], {"stride": 2, "padding": 1}, lambda a, w, b: F.conv2d(a, w, b, 2, 1)),
    ("conv2d", [[1, 2, "b", 6], [3, 2, 2, 3]], {"stride": [2, 1], "padding": 1}, lambda a, w: F.conv2d(a, w, stride=[2, 1], padding=1)),
    ("max_pool2d", [["b", 2, 6, 6]], {"kernel_size": 2}, lambda a: F.max_pool2d(a, 2)),
    ("matmul", [[3, "b"], ["b", 4]], {}, torch.matmul),
    ("matmul", [["b", 3], [3, 4]], {}, torch.matmul),
    ("matmul", [["b", 40], [40, 64]], {}, torch.matmul),
    ("matmul", [["b", 2, 9], ["b", 9, 20]], {}, torch.matmul),
    ("exp", [["b"]], {}, torch.exp),
    ("logsumexp", [["b"]], {}, lambda a: torch.logsumexp(a, 0)),
    ("cumsum", [["b"]], {"axis": 0}, lambda a: torch.cumsum(a, 0)),
    ("cat", [["b", 4], [2, 4]], {}, lambda *a: torch.cat(a)),
    ("slice", [["b", 4]], {"start": [1], "stop": ["b"]}, lambda a: a[1:]),
    ("slice", [["b", 4]], {"step": 2}, lambda a: a[::2]),
    ("pad", [["b", 4]], {"padding": [[1, 2], [0, 0]], "value": 1}, lambda a: F.pad(a, (0, 0, 1, 2), value=1)),
    ("flip", [["b", 4]], {"axis": 0}, lambda a: a.flip(0)),
    ("argmax", [["b", 12]], {"axis": 0}, lambda a: torch.argmax(a, 0)),
    ("argmax", [["b", 12]], {"axis": 1}, lambda a: torch.argmax(a, 1)),
)


@on_each_device
class NamedDimensions(DeviceTest):
    def graph(self, size):
        shapes, tensors, nodes, outputs, wanted = {}, {}, [], [], {}
        for i, (op, given, attrs, fn) in enumerate(NAMED):
            names = [f"c{i}.x{j}" for j in range(len(given))]
            values = [normal(100 * i + j, *(size if n == "b" else n for n in shape)) for j, shape in enumerate(given)]
            shapes.update(zip(names, given))
            tensors.update(zip(names, values))
            nodes.append({"id": f"c{i}.y", "op": op, "in": names, "attrs": attrs})
            outputs.append(f"c{i}.y")
            values = [value.requires_grad_() for value in values]
            y = fn(*values)
            wanted[f"c{i}.y"] = (op, y)
            if y.requires_grad:
                grads = [f"c{i}.g{j}" for j in range(len(given))]
                nodes += [{"id": f"c{i}.q", "op": "square", "in": [f"c{i}.y"]}, {"id": f"c{i}.s", "op": "sum", "in": [f"c{i}.q"]},
                          {"id": grads, "op": "grad", "in": [f"c{i}.s", *names]}]
                outputs += grads
                wanted.update((name, (f"gradient of {op}", g)) for name, g in zip(grads, torch.autograd.grad((y * y).sum(), values)))
        return {"shapes": shapes, "dims": {"b": [2, 64]}, "nodes": nodes, "outputs": outputs}, tensors, wanted

    def test_one_plan_for_many_sizes(self):
        for n, size in enumerate((5, 3, 33, 2, 64)):
            document, tensors, wanted = self.graph(size)
            got, answer = self.service.exchange("POST", "run", {**document, "device": self.device}, tensors)
            self.assertEqual("cached" if n else "compiled", answer["stats"]["plan"])
            for name, (what, value) in wanted.items():
                with self.subTest(op=what, size=size):
                    self.close(f"{what} ({name})", got[name], value, 1e-4, 1e-4)

    def test_many_places(self):
        """More work-groups than a device launches, and longer loops than a driver allows; and a single row, with the same
        plan."""
        nodes = [{"id": "y", "op": "tanh", "in": ["x"]}, {"id": "s", "op": "sum", "in": ["x"]}, {"id": "m", "op": "max", "in": ["y"]},
                 {"id": "p", "op": "linear", "in": ["z", "w"]}]
        inputs = {"x": {"dtype": "float32", "shape": ["n"]}, "z": {"dtype": "float32", "shape": ["n", 3]}, "w": {"dtype": "float32", "shape": [8, 3]}}
        self.service.put_program("many", {"dims": {"n": [1, 300_000]}, "inputs": inputs, "nodes": nodes, "outputs": ["y", "s", "m", "p"],
                                          "device": self.device}, {})
        for n in (1, 7, 100_003):  # the least, less than a block, and more than 65,535
            x, z, w = normal(1, n), normal(2, n, 3), normal(3, 8, 3)
            got = self.service.step("many", {"x": x, "z": z, "w": w})
            for name, want, bound in (("y", x.tanh(), 1e-6), ("s", x.double().sum().float(), 1e-2), ("m", x.tanh().max(), 1e-6), ("p", F.linear(z, w), 1e-5)):
                self.close(f"{name} of {n}", got[name], want, bound, bound)

    def test_long_runs(self):
        """Padding to blocks or to powers of two works for every size, also in a size formula."""
        nodes = [{"id": "c", "op": "cumsum", "in": ["x"]}, {"id": "l", "op": "logcumsumexp", "in": ["x"]},
                 {"id": ["m", "mi"], "op": "cummax", "in": ["x"]}, {"id": ["v", "i"], "op": "topk", "in": ["x"], "attrs": {"k": "(n + 1) // 2"}},
                 {"id": "p", "op": "pad", "in": ["x"], "attrs": {"padding": [["(n + 63) // 64 * 64 - n", 0]]}},
                 {"id": "h", "op": "slice", "in": ["x"], "attrs": {"start": ["n // 3"], "stop": ["n"]}}]
        self.service.put_program("runs", {"dims": {"n": [1, 9000]}, "inputs": {"x": {"dtype": "float32", "shape": ["n"]}}, "nodes": nodes,
                                          "outputs": ["c", "l", "m", "v", "p", "h"], "device": self.device}, {})
        for n in (1, 63, 64, 65, 4097):
            x = normal(n, n)
            got = self.service.step("runs", {"x": x})
            wanted = {"c": torch.cumsum(x.double(), 0).float(), "l": torch.logcumsumexp(x, 0), "m": torch.cummax(x, 0).values,
                      "v": torch.topk(x, (n + 1) // 2).values, "p": F.pad(x, (-n % 64, 0)), "h": x[n // 3:]}
            for name, want in wanted.items():
                self.close(f"{name} of {n}", got[name], want, 1e-4, 1e-4)


if __name__ == "__main__":
    unittest.main()
