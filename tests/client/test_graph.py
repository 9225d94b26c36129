# SPDX-License-Identifier: MIT
"""Construction of graphs by the Python client, without a server."""
import json
import math
import pathlib
import unittest

import beamline
from beamline import ops

OPS = json.loads((pathlib.Path(__file__).resolve().parents[2] / "proto" / "ops.json").read_text())["ops"]


def nodes(build):
    """Returns the nodes that a function of a graph and an input makes."""
    g = beamline.Graph()
    build(g, g.input("x"))
    return g.document()["nodes"]


class GraphTest(unittest.TestCase):
    def test_operators(self):
        cases = [
            (lambda x: x + 1, "add", ["x", 1]), (lambda x: 1 - x, "sub", [1, "x"]), (lambda x: x * 2.5, "mul", ["x", 2.5]),
            (lambda x: 1 / x, "div", [1, "x"]), (lambda x: x // 3, "floor_div", ["x", 3]), (lambda x: x % 3, "mod", ["x", 3]),
            (lambda x: x @ x, "matmul", ["x", "x"]), (lambda x: -x, "neg", ["x"]), (lambda x: abs(x), "abs", ["x"]),
            (lambda x: x == 1, "equal", ["x", 1]), (lambda x: x != 1, "not_equal", ["x", 1]), (lambda x: x < 1, "less", ["x", 1]),
            (lambda x: 1 < x, "greater", ["x", 1]), (lambda x: x >= 1, "greater_equal", ["x", 1]), (lambda x: x & 1, "bitwise_and", ["x", 1]),
            (lambda x: ~x, "bitwise_not", ["x"]), (lambda x: 1 << x, "left_shift", [1, "x"]), (lambda x: x ** 2, "square", ["x"]),
            (lambda x: x ** 0.5, "sqrt", ["x"]), (lambda x: x * math.inf, "mul", ["x", "Infinity"]), (lambda x: x + True, "add", ["x", 1]),
        ]
        for build, op, operands in cases:
            with self.subTest(op, operands=operands):
                self.assertEqual(nodes(lambda g, x: build(x)), [{"id": op, "op": op, "in": operands}])

    def test_indexing(self):
        end = 1 << 40
        cases = [
            (lambda x: x[0], [("slice", {"start": [0], "stop": [1], "axis": [0]}), ("squeeze", {"axis": [0]})]),
            (lambda x: x[-1], [("slice", {"start": [-1], "stop": [end], "axis": [0]}), ("squeeze", {"axis": [0]})]),
            (lambda x: x[:, 1:3], [("slice", {"start": [1], "stop": [3], "axis": [1]})]),
            (lambda x: x[..., ::2], [("slice", {"start": [0], "stop": [end], "step": [2], "axis": [-1]})]),
            (lambda x: x[1, ..., 2], [("slice", {"start": [1, 2], "stop": [2, 3], "axis": [0, -1]}), ("squeeze", {"axis": [0, -1]})]),
            (lambda x: x[:], []),
            (lambda x: x[x], [("take", None)]),
        ]
        for build, expected in cases:
            with self.subTest(expected):
                self.assertEqual([(node["op"], node.get("attrs")) for node in nodes(lambda g, x: build(x))], expected)

    def test_a_node_is_no_list(self):
        """A node with subscripts must not be iterable: Python's iteration would never end."""
        g = beamline.Graph()
        x, at = g.input("x", [4], "float32"), g.input("at", [2], "int32")
        for wrong in (lambda: g.index_put(x, 1.0, at), lambda: list(x), lambda: g.cat(x)):
            with self.assertRaisesRegex(TypeError, "no list"):
                wrong()

    def test_defaults_are_not_sent(self):
        self.assertEqual(nodes(lambda g, x: x.softmax(axis=-1)), [{"id": "softmax", "op": "softmax", "in": ["x"]}])
        self.assertEqual(nodes(lambda g, x: x.sum(axis=[0, 1], keepdim=True))[0]["attrs"], {"axis": [0, 1], "keepdim": True})
        self.assertNotIn("attrs", nodes(lambda g, x: x.sum().adam([x], betas=(0.9, 0.999)))[1])
        self.assertEqual(nodes(lambda g, x: x.sum().sgd([x], lr=x))[1], {"id": ["sgd"], "op": "sgd", "in": ["sum", "x"], "attrs": {"lr": "x"}})

    def test_bodies(self):
        g = beamline.Graph()
        xs, w = g.input("xs"), g.input("w")
        (last,), (ys, zs) = g.scan(lambda h, x, w: ([h * w + x], [h, x.sum()]), [0.0], [xs], [w], reverse=True)
        total, = g.cond(last > 0, lambda a: [a], lambda a: [-a], [ys])
        scan, greater, cond = g.document()["nodes"]
        body = {"inputs": ["x", "x2", "x3"], "nodes": [{"id": "mul", "op": "mul", "in": ["x", "x3"]}, {"id": "add", "op": "add", "in": ["mul", "x2"]},
                                                      {"id": "sum", "op": "sum", "in": ["x2"]}], "outputs": ["add", "x", "sum"]}
        self.assertEqual(scan, {"id": ["scan", "scan.1", "scan.2"], "op": "scan", "in": [0.0, "xs", "w"],
                                "attrs": {"body": body, "sequences": 1, "reverse": True}})
        self.assertEqual(cond["in"], [greater["id"], "scan.1"])
        self.assertEqual(cond["attrs"]["then"], {"inputs": ["x"], "nodes": [], "outputs": ["x"]})
        self.assertEqual(cond["attrs"]["otherwise"]["outputs"], ["neg"])
        with self.assertRaisesRegex(ValueError, "another graph"):
            g.scan(lambda h: ([h + xs], []), [0.0], length=2)
        with self.assertRaisesRegex(ValueError, "2 carries of 1"):
            g.scan(lambda h: ([h, h], []), [0.0], length=2)

    def test_optional_operands(self):
        self.assertEqual(nodes(lambda g, x: x.linear(x))[0]["in"], ["x", "x"])
        self.assertEqual(nodes(lambda g, x: x.dropout(0.25, key=x))[0], {"id": "dropout", "op": "dropout", "in": ["x", "x"], "attrs": {"p": 0.25}})
        self.assertRaises(TypeError, nodes, lambda g, x: x.layer_norm(None, x))

    def test_names(self):
        g = beamline.Graph()
        x = g.input("x")
        y = x + 1
        g.output(x + 2, y=y, same=y, given=x)
        self.assertEqual([node["id"] for node in g.document()["nodes"]], ["y", "add2", "same", "given"])
        self.assertEqual(g.document()["outputs"], ["add2", "y", "same", "given"])
        for wrong in (lambda: g.input("x"), lambda: g.neg(x, name="y"), lambda: g.grad(y, [x], name=["a", "b"]), lambda: g.state("w"),
                      lambda: beamline.Graph().neg(x)):
            self.assertRaises(ValueError, wrong)
        self.assertRaises(TypeError, g.add, x, [1, 2])
        self.assertRaises(TypeError, bool, x == 1)

    def test_several_results(self):
        g = beamline.Graph()
        a, b = g.input("a"), g.input("b")
        da, db = g.grad((a * b).sum(), [a, b])
        g.grad(da, [a], cotangent=b, name=["again"])
        first, second = g.document()["nodes"][2:]
        self.assertEqual(first, {"id": ["grad", "grad.1"], "op": "grad", "in": ["sum", "a", "b"]})
        self.assertEqual(second, {"id": ["again"], "op": "grad", "in": ["grad", "a", "b"], "attrs": {"cotangent": True}})
        self.assertEqual((da.id, db.id), ("grad", "grad.1"))

    def test_program(self):
        p = beamline.Program(w=[0.0])
        p.state("b", beamline.Init("zeros", shape=(1,)))
        g = p.entry()
        x = g.input("x", [4])
        w1, b1 = (x * g.state("w") + g.state("b")).square().mean().sgd([g.state("w"), g.state("b")], lr=0.1, name="opt")
        g.update({"w": w1, "b": b1})
        document = p.document()
        self.assertEqual(document["updates"], {"w": "opt", "b": "opt.1"})
        self.assertEqual(document["inputs"], {"x": {"dtype": "float32", "shape": [4]}})
        self.assertRaises(ValueError, p.entry)
        p.entry("test").output(g.dim("n", 1, 4) and p.entries["test"].state("w"))
        self.assertEqual(sorted(p.document()), ["dims", "entries"])
        p.entry("bad").input("y")
        self.assertRaises(ValueError, p.document)


class OpsTest(unittest.TestCase):
    def test_every_op_is_a_method(self):
        """Calls each op with all parameters; the request must equal the table's row."""
        sample = {"int": 3, "float": 0.25, "bool": True, "ints": [1, 2], "floats": [0.1, 0.2], "number": 7, "size": 5, "sizes": [5, 6],
                  "bound": 9, "pairs": [[0, 1]], "dtype": "int16", "rate": 0.125, "text": "ij->ji"}
        for op in OPS:
            if op["name"] in ("scan", "cond"):  # these take functions: see test_bodies
                continue
            g = beamline.Graph()
            names = iter("abcdefg")
            values = {param["name"]: [g.input(next(names)), g.input(next(names))] if param.get("many") else g.input(next(names))
                      for param in op["inputs"]}
            for param in op["attrs"]:
                choices = param.get("choices")
                values[param["name"]] = choices[-1] if choices else sample[param["type"]]
            if op["name"] == "grad":
                values["cotangent"] = g.input("dy")
            if op["many_results"] and not any(param.get("many") for param in op["inputs"]):
                values["results"] = 2
            with self.subTest(op["name"]):
                getattr(g, op["name"])(**values)
                node = g.document()["nodes"][0]
                self.assertEqual(node["op"], op["name"])
                self.assertEqual(node["in"], sorted(node["in"]))
                self.assertEqual(len(node["in"]), len(g.inputs))
                defaults = ops.DEFAULTS.get(op["name"], {})
                if op["name"] == "grad":
                    self.assertEqual(node["attrs"], {"cotangent": True})
                    continue
                sent = {param["name"] for param in op["attrs"] if values[param["name"]] != defaults.get(param["name"])}
                self.assertEqual(set(node.get("attrs", {})), sent)

    def test_methods_of_tensors_are_those_of_graphs(self):
        for name in vars(ops.NodeOps):
            if not name.startswith("_"):
                self.assertTrue(callable(getattr(ops.GraphOps, name)), name)
                self.assertTrue(getattr(ops.GraphOps, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
