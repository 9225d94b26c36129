# SPDX-License-Identifier: MIT
"""Rules for special cases, by name: the behaviour of torch or NumPy, or the exceptions in docs/numerics.md.

A row is (op, operands, attributes, the results as torch or NumPy values).  A Python number is a literal.
"""

import sys
import unittest

import torch

from service import DTYPES, DeviceTest, Refused, dtype_of, on_each_device

INF, NAN = float("inf"), float("nan")
i64, i32, i8, u8 = (lambda *v, kind=kind: torch.tensor(v, dtype=kind) for kind in (torch.int64, torch.int32, torch.int8, torch.uint8))
GRID = torch.arange(12.0).reshape(3, 4)
LOWEST = {name: torch.iinfo(getattr(torch, name)).min for name in ("int8", "int16", "int32", "int64")}


def f(*values):
    return torch.tensor(values, dtype=torch.float32)


def half(*values):
    return torch.tensor(values).half()


def backwards(array, *slices):
    return torch.from_numpy(array.numpy()[slices].copy())


RULES = {
    "a step below 0 goes backwards, as in NumPy": [
        ("slice", [GRID], {"step": [-1]}, [backwards(GRID, slice(None, None, -1))]),
        ("slice", [GRID], {"start": [-1, 3], "stop": [0, 0], "step": [-1, -2]}, [backwards(GRID, slice(-1, 0, -1), slice(3, 0, -2))]),
        ("slice", [GRID], {"start": [5], "stop": [-100], "step": [-2], "axis": [1]}, [backwards(GRID, slice(None), slice(5, -100, -2))]),
        ("slice", [GRID], {"start": [0], "stop": [2], "step": [-1]}, [backwards(GRID, slice(0, 2, -1))]),
        ("slice", [torch.zeros(0, 2)], {"step": [-3]}, [torch.zeros(0, 2)]),
    ],
    "several index tensors broadcast together": [
        ("index", [GRID, i64(0, 2, -1), i64(1, -4, 3)], {}, [GRID[[0, 2, -1], [1, -4, 3]]]),
        ("index", [GRID, i64(0, 2).reshape(2, 1), i64(1, 3)], {}, [GRID[[[0], [2]], [1, 3]]]),
        ("index", [torch.arange(24).reshape(2, 3, 4), i64(1), i32(2, 0)], {"axis": 1}, [torch.arange(24).reshape(2, 3, 4)[:, [1], [2, 0]]]),
    ],
    "an index out of range reads 0": [
        ("take", [f(1, 2, 3.0), i64(3, -4, 2**40, -2**63, 2**63 - 1, -1)], {}, [f(0, 0, 0, 0, 0, 3.0)]),
        ("take", [f(1, 2, 3.0), i8(3, -4, 127, -128)], {}, [f(0, 0, 0, 0.0)]),
        ("take", [f(NAN, INF, 3), i64(7)], {}, [f(0.0)]),
        ("gather", [GRID, i64(0, 9, -5, 3).reshape(1, 4)], {}, [f(0, 0, 0, 0).reshape(1, 4) * 1.0]),
        ("gather", [GRID, i64(0, 9, -5, 3).reshape(1, 4)], {"axis": 1}, [f(0, 0, 0, 3.0).reshape(1, 4)]),
        ("index", [GRID, i64(0, 3, 1), i64(0, 0, 4)], {}, [f(0, 0, 0.0)]),
        ("one_hot", [i64(1, 5, -1)], {"num_classes": 2}, [torch.tensor([[0, 1], [0, 0], [0, 0]])]),
        ("take", [torch.zeros(0), i64(0, -1)], {}, [f(0, 0.0)]),
    ],
    "an index out of range writes nothing, and the last write stays": [
        ("scatter", [f(1, 2, 3.0), i64(3, -4, 1, 1), f(5, 6, 7, 8.0)], {}, [f(1, 8, 3.0)]),
        ("scatter", [f(1, 2, 3.0), i64(9, 0, 0, -1), f(5, 6, 7, 8.0)], {"reduce": "add"}, [f(14, 2, 11.0)]),
        ("scatter_reduce", [f(1, 2, 3.0), i64(2**40, 0), f(5, 6.0)], {"reduce": "amax"}, [f(6, 2, 3.0)]),
        ("scatter_reduce", [f(1, 2, 3.0), i64(3, 0), f(5, 6.0)], {"reduce": "mean", "include_self": False}, [f(6, 2, 3.0)]),
        ("index_put", [f(1, 2, 3.0), 9, i64(-4, 3, 1)], {}, [f(1, 9, 3.0)]),
        ("index_put", [GRID, 1, i64(0, 3), i64(1, 1)], {"accumulate": True}, [torch.cat([GRID[:1] + f(0, 1, 0, 0), GRID[1:]])]),
    ],
    "what a mask chooses, with room for more or less": [
        ("masked_select", [f(1, 2, 3, 4.0), f(1, 0, 1, 1.0)], {"size": 2, "fill": -1}, [f(1, 3.0), torch.tensor(3)]),
        ("masked_select", [f(1, 2, 3, 4.0), f(1, 0, 1, 1.0)], {"size": 5, "fill": -1}, [f(1, 3, 4, -1, -1.0), torch.tensor(3)]),
        ("masked_select", [f(1, 2.0), f(0, 0.0)], {"size": 0}, [torch.zeros(0), torch.tensor(0)]),
        ("masked_select", [torch.zeros(0), torch.zeros(0)], {"size": 2}, [f(0, 0.0), torch.tensor(0)]),
        ("nonzero", [f(0, NAN, -0.0, 2).reshape(2, 2)], {"size": 3, "fill": 9}, [torch.tensor([[0, 1], [1, 1], [9, 9]]), torch.tensor(2)]),
        ("nonzero", [torch.tensor(5.0)], {"size": 1}, [torch.zeros(1, 0, dtype=torch.int64), torch.tensor(1)]),
    ],
    "sums of integers have 64 bits, and those of halves are exact until the end": [
        ("sum", [torch.full((300,), 255, dtype=torch.uint8)], {}, [torch.tensor(76500)]),
        ("sum", [torch.full((3,), 2**31 - 1, dtype=torch.int32)], {}, [torch.tensor(3 * (2**31 - 1))]),
        ("sum", [torch.tensor([True, True])], {}, [torch.tensor(2)]),
        ("prod", [torch.full((3,), 100, dtype=torch.int8)], {}, [torch.tensor(1000000)]),
        ("cumsum", [torch.full((3,), 100, dtype=torch.int8)], {}, [torch.tensor([100, 200, 300])]),
        ("sum", [torch.full((3,), 100, dtype=torch.int8)], {"dtype": "int8"}, [torch.tensor(44, dtype=torch.int8)]),
        ("mean", [i64(1, 2)], {}, [torch.tensor(1.5)]),
        ("sum", [torch.ones(4096).half()], {}, [torch.tensor(4096.0).half()]),
        ("sum", [torch.ones(4096).bfloat16()], {}, [torch.tensor(4096.0).bfloat16()]),
        ("matmul", [torch.ones(1, 4096).half(), torch.ones(4096, 1).half()], {}, [torch.tensor([[4096.0]]).half()]),
        ("mean", [torch.full((3,), 60000.0).half()], {}, [torch.tensor(60000.0).half()]),
    ],
    "of no elements": [
        ("sum", [torch.zeros(0)], {}, [torch.tensor(0.0)]), ("prod", [torch.zeros(0)], {}, [torch.tensor(1.0)]),
        ("mean", [torch.zeros(0)], {}, [torch.tensor(NAN)]), ("std", [torch.zeros(0)], {}, [torch.tensor(NAN)]),
        ("var", [torch.zeros(1)], {}, [torch.tensor(NAN)]), ("all", [torch.zeros(0)], {}, [torch.tensor(True)]),
        ("any", [torch.zeros(0)], {}, [torch.tensor(False)]), ("sum", [torch.zeros(0, 3)], {"axis": 0}, [torch.zeros(3)]),
        ("max", [torch.zeros(0, 3)], {"axis": 1}, [torch.zeros(0)]), ("matmul", [torch.zeros(2, 0), torch.zeros(0, 3)], {}, [torch.zeros(2, 3)]),
        ("softmax", [torch.zeros(2, 0)], {}, [torch.zeros(2, 0)]), ("cumsum", [torch.zeros(0)], {}, [torch.zeros(0)]),
        ("sort", [torch.zeros(0)], {}, [torch.zeros(0), torch.zeros(0).long()]), ("cat", [torch.zeros(0), f(1.0)], {}, [f(1.0)]),
        ("topk", [f(3, 1.0)], {"k": 0}, [torch.zeros(0), torch.zeros(0).long()]), ("argsort", [torch.zeros(2, 0)], {}, [torch.zeros(2, 0).long()]),
    ],
    "scalars have an axis of one element where one is asked for": [
        ("sum", [torch.tensor(3.0)], {}, [torch.tensor(3.0)]), ("softmax", [torch.tensor(3.0)], {}, [torch.tensor(1.0)]),
        ("cumsum", [torch.tensor(3.0)], {}, [torch.tensor(3.0)]), ("sort", [torch.tensor(3.0)], {}, [torch.tensor(3.0), torch.tensor(0)]),
        ("flatten", [torch.tensor(3.0)], {}, [f(3.0)]), ("argmax", [torch.tensor(3.0)], {}, [torch.tensor(0)]),
        ("logsumexp", [torch.tensor(3.0)], {}, [torch.tensor(3.0)]),
    ],
    "integers wrap": [
        *[("abs", [torch.tensor([low], dtype=getattr(torch, name))], {}, [torch.tensor([low], dtype=getattr(torch, name))]) for name, low in LOWEST.items()],
        *[("neg", [torch.tensor([low], dtype=getattr(torch, name))], {}, [torch.tensor([low], dtype=getattr(torch, name))]) for name, low in LOWEST.items()],
        *[("sub", [torch.tensor([low], dtype=getattr(torch, name)), 1], {}, [torch.tensor([low], dtype=getattr(torch, name)) - 1])
          for name, low in LOWEST.items()],
        ("mul", [i32(2**31 - 1), i32(2)], {}, [i32(-2)]), ("add", [u8(250), u8(10)], {}, [u8(4)]), ("pow", [i8(2), i8(7)], {}, [i8(-128)]),
        ("floor_div", [i32(-2**31), i32(-1)], {}, [i32(-2**31)]), ("mod", [i32(-2**31), i32(-1)], {}, [i32(0)]),
    ],
    "floats overflow to infinity": [
        ("exp", [f(89.0, -104)], {}, [f(INF, 0)]), ("mul", [f(3e38), f(10.0)], {}, [f(INF)]), ("add", [half(65504.0), half(65504.0)], {}, [half(INF)]),
        ("sinh", [f(89.4, -89.4)], {}, [torch.sinh(f(89.4, -89.4))]), ("cosh", [f(89.4)], {}, [torch.cosh(f(89.4))]),
        ("logsumexp", [f(1000.0, 1000)], {}, [torch.logsumexp(f(1000.0, 1000), 0)]), ("softplus", [f(1000.0, -1000)], {}, [f(1000.0, 0)]),
        ("sigmoid", [f(1000.0, -1000)], {}, [f(1.0, 0)]), ("log1p", [f(3e38)], {}, [torch.log1p(f(3e38))]),
        ("logaddexp", [f(1000.0, -INF, INF), f(1000.0, -INF, -INF)], {}, [torch.logaddexp(f(1000.0, -INF, INF), f(1000.0, -INF, -INF))]),
    ],
    "NaN stays, and is the largest in order": [
        ("max", [f(1, NAN, 3.0)], {}, [torch.tensor(NAN)]), ("min", [f(1, NAN, 3.0)], {}, [torch.tensor(NAN)]),
        ("argmax", [f(1, NAN, 3.0)], {}, [torch.tensor(1)]), ("argmin", [f(1, NAN, 3.0)], {}, [torch.tensor(1)]),
        ("sort", [f(NAN, -INF, 1, INF)], {}, [f(-INF, 1, INF, NAN), i64(1, 2, 3, 0)]), ("maximum", [f(NAN, 1), f(1, NAN)], {}, [f(NAN, NAN)]),
        ("clamp", [f(NAN, -INF, INF)], {"min": 0, "max": 1}, [f(NAN, 0, 1)]), ("relu", [f(NAN, -INF)], {}, [f(NAN, 0)]),
        ("sum", [f(INF, -INF)], {}, [torch.tensor(NAN)]), ("cumsum", [f(1, NAN, 1)], {}, [f(1, NAN, NAN)]),
        ("topk", [f(1, NAN, 3.0)], {"k": 2}, [f(NAN, 3), i64(1, 2)]), ("equal", [f(NAN), f(NAN)], {}, [torch.tensor([False])]),
        ("softmax", [f(INF, 0)], {}, [f(NAN, NAN)]), ("softmax", [f(-INF, 0)], {}, [f(0.0, 1)]), ("sign", [f(NAN, -0.0)], {}, [torch.sign(f(NAN, -0.0))]),
    ],
    "powers of and to 0": [
        ("pow", [f(0.0, -0.0, 0, 0, INF, NAN, 1), f(0, 0, 2, -1, 0, 0, NAN)], {}, [torch.pow(f(0.0, -0.0, 0, 0, INF, NAN, 1), f(0, 0, 2, -1, 0, 0, NAN))]),
        ("pow", [f(-2.0, -8, -0.0, -0.0), f(3, 1 / 3, 3, -3)], {}, [torch.pow(f(-2.0, -8, -0.0, -0.0), f(3, 1 / 3, 3, -3))]),
        ("pow", [i64(0, 0, 5, 1, -1, 2), i64(0, 3, 0, -2, -3, -1)], {}, [i64(1, 0, 1, 1, -1, 0)]),
    ],
    "a half is rounded to even": [
        ("round", [f(0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0, 0.49999997)], {}, [torch.round(f(0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0, 0.49999997))]),
        ("round", [i64(3, -3)], {}, [i64(3, -3)]),
        ("cast", [f(1.5, -1.5, 2.5)], {"dtype": "int32"}, [i32(1, -1, 2)]),
    ],
    "division by floor and towards 0": [
        ("floor_div", [i64(-7, 7, -7, 7, 5), i64(2, -2, -2, 2, 0)], {}, [i64(-4, -4, 3, 3, 0)]),
        ("trunc_div", [i64(-7, 7, -7, 7, 5), i64(2, -2, -2, 2, 0)], {}, [i64(-3, -3, 3, 3, 0)]),
        ("mod", [i64(-7, 7, -7, 7, 5), i64(2, -2, -2, 2, 0)], {}, [i64(1, -1, -1, 1, 0)]),
        ("fmod", [i64(-7, 7, -7, 7, 5), i64(2, -2, -2, 2, 0)], {}, [i64(-1, 1, -1, 1, 5)]),
        ("mod", [f(-7.0, 7, -0.5), f(2.0, -2, 2)], {}, [torch.remainder(f(-7.0, 7, -0.5), f(2.0, -2, 2))]),
        ("fmod", [f(-7.0, 7, INF, 3), f(2.0, -2, 2, INF)], {}, [torch.fmod(f(-7.0, 7, INF, 3), f(2.0, -2, 2, INF))]),
        ("floor_div", [f(-7.0, 1, -1), f(2.0, 0, 0)], {}, [f(-4.0, INF, -INF)]),
    ],
    "a shift by the width or more, or by less than 0, leaves nothing but the sign": [
        ("left_shift", [i32(1, 1, 1, -1), i32(31, 32, -1, 40)], {}, [i32(-2**31, 0, 0, 0)]),
        ("right_shift", [i32(-8, -8, -8, 8), i32(1, 32, -1, -1)], {}, [i32(-4, -1, -1, 0)]),
        ("right_shift", [u8(200, 200), u8(1, 8)], {}, [u8(100, 0)]),
        ("left_shift", [torch.tensor([1], dtype=torch.int64), i64(63)], {}, [i64(-2**63)]),
    ],
    "a float becomes an integer by truncation, saturating": [
        ("cast", [f(NAN, INF, -INF, 3e9, -1.9)], {"dtype": "int32"}, [i32(0, 2**31 - 1, -2**31, 2**31 - 1, -1)]),
        ("cast", [f(NAN, 300, -5, 2.9)], {"dtype": "uint8"}, [u8(0, 255, 0, 2)]),
        ("cast", [f(NAN, 1e30)], {"dtype": "int64"}, [i64(0, 2**63 - 1)]),
    ],
    "a whole literal takes the tensor's dtype, a fraction makes float32": [
        ("add", [u8(3), 2], {}, [u8(5)]), ("add", [i8(3), 2.0], {}, [f(5)]), ("mul", [i64(3), 0.5], {}, [f(1.5)]), ("add", [half(1.0), 1], {}, [half(2.0)]),
        ("add", [half(1.0), 0.5], {}, [half(1.5)]), ("add", [torch.tensor([1.0]).double(), 0.1], {}, [torch.tensor([1.0]).double() + 0.1]),
        ("div", [i64(3), 2], {}, [f(1.5)]), ("mul", [torch.tensor([True]), 0.5], {}, [f(0.5)]),
    ],
}

REFUSED = (
    ("max", [torch.zeros(0)], {}), ("argmax", [torch.zeros(0)], {}), ("logsumexp", [torch.zeros(0)], {}), ("add", [torch.tensor([True]), 2], {}),
    ("mul", [u8(1), 300], {}), ("mul", [u8(1), -1], {}), ("slice", [GRID], {"step": [0]}), ("gather", [GRID, torch.zeros(3, 4)], {}),
    ("reshape", [GRID], {"shape": [5, -1]}), ("split", [GRID], {"sizes": [1, 1]}), ("split", [GRID], {"sizes": 0}), ("chunk", [GRID], {"chunks": 0}),
    ("topk", [f(1.0)], {"k": 2}), ("pad_to", [GRID], {"shape": [2, 4]}), ("shrink_to", [GRID], {"shape": [3, 5]}), ("meshgrid", [GRID], {}),
    ("split", [GRID], {"sizes": [2**62, 2**62]}), ("bitcast", [f(1.0)], {"dtype": "int64"}), ("left_shift", [f(1.0), 1], {}), ("neg", [torch.tensor([True])], {}),
)

# op, x, torch's d(sum)/dx
GRADIENTS = (
    ("max", f(1, 3, 3, 2), {}, f(0, 0.5, 0.5, 0)), ("min", f(1, 1, 1, 2), {}, f(1, 1, 1, 0) / 3), ("relu", f(-1, 0, 1.0), {}, f(0, 0, 1.0)),
    ("abs", f(-1, 0, 1.0), {}, f(-1, 0, 1.0)), ("clamp", f(-1, 0, 0.5, 1, 2), {"min": 0, "max": 1}, f(0, 1, 1, 1, 0.0)), ("prod", f(2, 0, 3.0), {}, f(0, 6, 0.0)),
    ("prod", f(0, 0, 3.0), {}, f(0, 0, 0.0)), ("square", f(0, 2.0), {}, f(0, 4.0)), ("round", f(0.5, 1.2), {}, f(0, 0.0)), ("sigmoid", f(100.0, -100), {}, f(0, 0.0)),
    ("softplus", f(-100.0, 100), {}, f(0, 1.0)), ("tanh", f(100.0, -100), {}, f(0, 0.0)), ("sort", f(2, 1.0), {}, f(1, 1.0)), ("floor", f(1.5), {}, f(0.0)),
    ("logsigmoid", f(-100.0, 100), {}, f(1, 0.0)), ("max_pool", f(1, 1, 2, 0).reshape(1, 4), {"kernel_size": [2]}, f(0.5, 0.5, 1, 0).reshape(1, 4)),
)


def nodes_of(number, op, operands, attrs, results):
    """Returns (node, tensors) of a row with unique names."""
    names = [each if isinstance(each, (int, float)) else f"r{number}.x{i}" for i, each in enumerate(operands)]
    tensors = {name: each for name, each in zip(names, operands) if isinstance(name, str)}
    return {"id": [f"r{number}.y{i}" for i in range(results)], "op": op, "in": names, "attrs": attrs}, tensors


@on_each_device
class Edges(DeviceTest):
    def test_rules(self):
        rows = [(rule, row) for rule, table in RULES.items() for row in table]
        nodes, tensors = [], {}
        for number, (_, (op, operands, attrs, want)) in enumerate(rows):
            node, more = nodes_of(number, op, operands, attrs, len(want))
            nodes.append(node)
            tensors.update(more)
        found = self.run_graph(nodes, [each for node in nodes for each in node["id"]], tensors)
        for number, (rule, (op, _, attrs, want)) in enumerate(rows):
            for i, each in enumerate(want):
                with self.subTest(rule=rule, op=op, attrs=attrs, row=number, result=i):
                    self.close(op, found[f"r{number}.y{i}"], each, 3e-5 if op == "pow" else 4e-6, 1e-30)

    def test_promotion(self):
        """Every pair of dtypes is promoted as in torch; an unsigned dtype that torch lacks and a signed dtype give a signed
        dtype of twice the width."""
        known = [name for name, (_, _, kind) in DTYPES.items() if kind is not None]
        nodes, tensors = [], {name: torch.ones(1).to(DTYPES[name][2]) for name in known}
        nodes = [{"id": f"{a}/{b}", "op": "maximum", "in": [a, b]} for a in known for b in known]
        found = self.run_graph(nodes, [node["id"] for node in nodes], tensors)
        for a in known:
            for b in known:
                want = torch.promote_types(DTYPES[a][2], DTYPES[b][2])
                self.assertEqual(str(want).replace("torch.", ""), dtype_of(found[f"{a}/{b}"]), f"{a} and {b}")

    def test_what_cannot_be(self):
        for op, operands, attrs in REFUSED:
            with self.subTest(op=op, attrs=attrs), self.assertRaisesRegex(Refused, f"^422: {op}: "):
                node, tensors = nodes_of(0, op, operands, attrs, 2 if op in ("topk", "split", "chunk") else 1)
                self.run_graph([node], node["id"], tensors)

    def test_gradients(self):
        nodes, tensors = [], {}
        for number, (op, x, attrs, _) in enumerate(GRADIENTS):
            node, more = nodes_of(number, op, [x], attrs, 2 if op == "sort" else 1)
            tensors.update(more)
            nodes += [node, {"id": f"s{number}", "op": "sum", "in": [node["id"][0]]}, {"id": f"g{number}", "op": "grad", "in": [f"s{number}", f"r{number}.x0"]}]
        found = self.run_graph(nodes, [f"g{number}" for number in range(len(GRADIENTS))], tensors)
        for number, (op, x, attrs, want) in enumerate(GRADIENTS):
            with self.subTest(op=op, x=x, attrs=attrs):
                self.close(op, found[f"g{number}"], want, 1e-6, 1e-7)


if __name__ == "__main__":
    sys.exit(unittest.main())
