# SPDX-License-Identifier: MIT
"""topk without a sort: exactly the first elements of a stable sort."""

import sys
import unittest

import numpy as np
import torch

from service import DTYPES, FLOATS, DeviceTest, on_each_device

INF, NAN = float("inf"), float("nan")
# shape, axis, k: below and above the number that is selected one by one, and over more than one run of a sort
SHAPES = (((40,), 0, 1), ((200,), 0, 6), ((200,), -1, 7), ((40,), 0, 40), ((40,), 0, 0), ((3, 600), 1, 7), ((300, 2, 3), 0, 9), ((2, 2050, 2), 1, 64))


def values(dtype, shape):
    """Many equal values, both zeros, the ends of the dtype, and NaN."""
    _, bits, kind = DTYPES[dtype]
    rng = np.random.default_rng(len(shape) + shape[0])
    if dtype == "bool":
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool))
    if dtype in FLOATS:
        least = torch.finfo(kind).tiny
        some = torch.tensor([NAN, INF, -INF, -0.0, 0.0, 1.5, -1.5, torch.finfo(kind).max, torch.finfo(kind).min, least, -least]).double()
        drawn = torch.from_numpy(rng.normal(size=shape).round(1))
        return torch.where(torch.from_numpy(rng.random(shape) < 0.3), some[torch.from_numpy(rng.integers(0, len(some), shape))], drawn).to(kind)
    low, high = np.iinfo(bits).min, min(np.iinfo(bits).max, 2**63 - 1)
    drawn = rng.choice(np.array([low, low + 1, 0, 1, 2, 3, 7, high - 1, high], np.int64), shape)
    return drawn.astype(bits) if kind is None else torch.from_numpy(drawn).to(kind)


def places(x, axis, k, largest):
    """The indices of the first k, by torch's stable sort of numbers that represent x exactly."""
    x = torch.from_numpy(x.astype(np.int64)) if isinstance(x, np.ndarray) else x
    x = x.double() if x.is_floating_point() else x.long()
    return torch.sort(x, dim=axis, descending=largest, stable=True)[1].narrow(axis, 0, k)


def at(x, where, axis):
    return np.take_along_axis(x, where.numpy(), axis) if isinstance(x, np.ndarray) else x.gather(axis, where)


@on_each_device
class Few(DeviceTest):
    def check(self, name, x, axis, k, largest, got, where):
        want = places(x, axis, k, largest)
        self.close(f"places {name}", where, want)
        self.close(f"values {name}", got, at(x, want, axis), 0, 0)

    def test_every_dtype(self):
        for dtype in DTYPES:
            nodes, tensors, cases = [], {}, []
            for i, (shape, axis, k) in enumerate(SHAPES if dtype in ("float32", "int32") else SHAPES[1::4]):
                tensors[f"x{i}"] = values(dtype, shape)
                for largest in (True, False):
                    cases.append((f"{i}{largest}", tensors[f"x{i}"], axis, k, largest))
                    nodes.append({"id": [f"v{i}{largest}", f"i{i}{largest}"], "op": "topk", "in": [f"x{i}"], "attrs": {"k": k, "axis": axis, "largest": largest}})
            found = self.run_graph(nodes, [name for node in nodes for name in node["id"]], tensors)
            for name, x, axis, k, largest in cases:
                with self.subTest(dtype=dtype, shape=list(x.shape), axis=axis, k=k, largest=largest):
                    self.check(dtype, x, axis, k, largest, found["v" + name], found["i" + name])

    def test_named(self):
        """An axis of any length, down to k elements; and k as a named dimension."""
        nodes = [{"id": ["v", "i"], "op": "topk", "in": ["x"], "attrs": {"k": 9}},
                 {"id": ["w", "j"], "op": "topk", "in": ["x"], "attrs": {"k": "m", "largest": False}}]
        self.service.put_program("few", {"dims": {"n": [9, 3000], "m": [1, 9]}, "nodes": nodes, "outputs": ["v", "i", "w", "j", "z"], "device": self.device,
                                         "inputs": {"x": {"dtype": "float32", "shape": [2, "n"]}, "z": {"dtype": "float32", "shape": ["m"]}}}, {})
        for n, m in ((9, 9), (9, 1), (10, 4), (64, 9), (2999, 5)):
            x = values("float32", (2, n))
            found = self.service.step("few", {"x": x, "z": torch.zeros(m)})
            self.check(f"of {n}", x, 1, 9, True, found["v"], found["i"])
            self.check(f"{m} of {n}", x, 1, m, False, found["w"], found["j"])

    def test_drawn(self):
        """With one seed, the first few drawn elements are the first of the sorted complete draw."""
        weights = torch.rand(3, 300, generator=torch.Generator().manual_seed(1))
        few, every = (self.run_graph([{"id": "d", "op": "multinomial", "in": ["w"], "attrs": {"num_samples": n, "seed": 5}}], ["d"], {"w": weights})["d"]
                      for n in (4, 300))
        self.assertEqual([sorted(row) for row in every.tolist()], 3 * [list(range(300))])
        self.close("multinomial", few, every[:, :4])

    def test_without_a_sort(self):
        """One kernel finds the first elements of many rows; a sort of this length takes four kernels and materializes the
        sorted rows."""
        document = {"nodes": [{"id": ["v", "i"], "op": "topk", "in": ["x"], "attrs": {"k": 5}}], "outputs": ["v", "i"], "device": self.device, "debug": 1}
        _, answer = self.service.exchange("POST", "run", document, {"x": values("float32", (64, 1000))})
        self.assertLessEqual(answer["stats"]["kernels"], 2, answer["stats"])


if __name__ == "__main__":
    sys.exit(unittest.main())
