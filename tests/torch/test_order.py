# SPDX-License-Identifier: MIT
"""Sorts of one run and of several runs: exactly the stable order, with equal values, zeros, the ends of a dtype and NaN."""

import sys
import unittest

import torch

from service import DTYPES, DeviceTest, on_each_device
from test_few import at, places, values

# shape, axis, number of taken elements: one run, then several, the last of which is incomplete or has no run to merge with
SHAPES = (((128,), 0, 128), ((40, 257), 1, 257), ((2, 1100), 1, 1100), ((1500, 2), 0, 1500), ((1, 3000), 1, 3000), ((2, 1500), 1, 100), ((1, 2200), 1, 700))


@on_each_device
class Order(DeviceTest):
    def test_every_dtype(self):
        for dtype in DTYPES:
            nodes, tensors, cases = [], {}, []
            for i, (shape, axis, k) in enumerate(SHAPES if dtype in ("float32", "int64") else SHAPES[2 + len(dtype) % 3::4]):
                x = tensors[f"x{i}"] = values(dtype, shape)
                for last in (True, False):
                    name = f"{i}{last}"
                    cases.append((name, x, axis, k, last))
                    op = {"op": "sort", "attrs": {"axis": axis, "descending": last}}
                    if k < shape[axis]:
                        op = {"op": "topk", "attrs": {"k": k, "axis": axis, "largest": last}}
                    nodes.append({"id": [f"v{name}", f"i{name}"], "in": [f"x{i}"], **op})
            found = self.run_graph(nodes, [name for node in nodes for name in node["id"]], tensors)
            for name, x, axis, k, last in cases:
                with self.subTest(dtype=dtype, case=name):
                    want = places(x, axis, k, last)
                    self.close("places", found[f"i{name}"], want)
                    self.close("values", found[f"v{name}"], at(x, want, axis), 0, 0)

    def test_named(self):
        """Any number of elements: with full, partial and empty runs."""
        self.service.put_program("order", {"dims": {"n": [1, 900]}, "nodes": [{"id": ["v", "i"], "op": "sort", "in": ["x"]}], "outputs": ["v", "i"],
                                           "device": self.device, "inputs": {"x": {"dtype": "float32", "shape": [30, "n"]}}}, {})
        for n in (1, 255, 256, 257, 700, 899, 900):
            x = values("float32", (30, n))
            with self.subTest(n=n):
                self.close("places", self.service.step("order", {"x": x})["i"], places(x, 1, n, False))

    def test_merges_in_registers(self):
        """A merge produces 16 elements at a time in registers; there is one merge per doubling from a run of 256 to the
        length."""
        document = {"nodes": [{"id": ["v", "i"], "op": "sort", "in": ["x"]}], "outputs": ["v", "i"], "device": self.device, "debug": 3}
        _, answer = self.service.exchange("POST", "run", document, {"x": torch.randn(64, 1000)})
        moves = [line for line in answer["stats"]["debug"].splitlines() if line.startswith("kernel e_64_")]
        if self.device != "interp:0":
            self.assertEqual(2, sum(", unroll, 16)" in line for line in moves), moves)
        self.assertLessEqual(answer["stats"]["kernels"], 6, moves)


if __name__ == "__main__":
    sys.exit(unittest.main())
