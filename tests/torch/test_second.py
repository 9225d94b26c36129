# SPDX-License-Identifier: MIT
"""Second gradients against torch in float64, for every op with second gradients in ops.json.

The cases of test_ops are differentiated twice along directions that are drawn from their names.
"""

import sys
import unittest
import zlib

import numpy as np
import torch

from cases import CASES, ELSEWHERE
from service import DeviceTest, on_each_device
from test_ops import OPS

LARGEST = 2000  # limit of a case's elements
EACH = 4  # cases per op
THIRD = 3  # drivers test every third op
BATCH = 6  # cases per request: lavapipe takes seconds for a kernel with float64 sines
LOOSE = 1e-8  # relative to the tensor's largest element: approximations lose a few digits per derivative

# Ops whose second gradients are tested in other files.
ELSEWHERE_TOO = {"svd": "test_linalg.py", "scan": "test_control.py", "cond": "test_control.py"}


class Twice:
    """A case and torch's results."""

    def __init__(self, one):
        self.case, self.values = one, one.values("float64")
        self.rng = np.random.default_rng(zlib.crc32(one.name.encode()) + 2)
        ready = [v.clone().requires_grad_() if self.is_float(v) else v for v in self.values]
        self.places = [i for i, v in enumerate(self.values) if self.is_float(v)]
        y = one.torch_op(*ready)
        self.cotangent = self.draw(y)
        targets = [ready[i] for i in self.places]
        first = torch.autograd.grad(y, targets, self.cotangent, create_graph=True, allow_unused=True)
        self.along = {i: self.draw(self.values[i]) for i in self.places}
        total = sum((g * self.along[i]).sum() for i, g in zip(self.places, first) if g is not None)
        second = torch.autograd.grad(total, targets, allow_unused=True) if torch.is_tensor(total) and total.requires_grad else [None] * len(targets)
        self.want = {i: torch.zeros_like(self.values[i]) if g is None else g for i, g in zip(self.places, second)}

    @staticmethod
    def is_float(value):
        return torch.is_tensor(value) and value.is_floating_point()

    def draw(self, like):
        return torch.from_numpy(np.asarray(self.rng.normal(size=tuple(like.shape))))

    def graph(self, place):
        """Returns (nodes, outputs, tensors)."""
        one = self.case
        names = [value if isinstance(value, (int, float)) else f"{place}x{i}" for i, value in enumerate(self.values)]
        tensors = {name: value for name, value in zip(names, self.values) if isinstance(name, str)}
        targets = [names[i] for i in self.places]
        tensors[place + "ct"] = self.cotangent
        nodes = [{"id": one.ids(place), "op": one.op, "in": names, "attrs": one.attrs},
                 {"id": [f"{place}g{i}" for i in self.places], "op": "grad", "in": [place + "y", *targets, place + "ct"], "attrs": {"cotangent": True}}]
        total = 0
        for i in self.places:
            tensors[f"{place}v{i}"] = self.along[i]
            nodes += [{"id": f"{place}p{i}", "op": "mul", "in": [f"{place}g{i}", f"{place}v{i}"]}, {"id": f"{place}s{i}", "op": "sum", "in": [f"{place}p{i}"]},
                      {"id": f"{place}t{i}", "op": "add", "in": [f"{place}s{i}", total]}]
            total = f"{place}t{i}"
        outputs = [f"{place}h{i}" for i in self.places]
        nodes.append({"id": outputs, "op": "grad", "in": [total, *targets]})
        return nodes, outputs, tensors


def smooth_cases(each):
    """Returns {op: cases} of ops with a second gradient."""
    found = {}
    for one in CASES:
        if not one.grad or "float64" not in one.dtypes or not OPS[one.op]["second_gradient"] or "special" in one.name or len(found.get(one.op, [])) == each:
            continue
        values = one.values("float64")
        if 0 < sum(v.numel() for v in values if torch.is_tensor(v)) <= LARGEST and any(Twice.is_float(v) for v in values):
            found.setdefault(one.op, []).append(one)
    return found


class EverySmoothOp(unittest.TestCase):
    def test_each_has_a_case(self):
        smooth = {name for name, op in OPS.items() if op["second_gradient"]}
        self.assertEqual(set(), smooth - set(smooth_cases(EACH)) - set(ELSEWHERE) - set(ELSEWHERE_TOO))


@on_each_device
class Second(DeviceTest):
    def test_double_backward(self):
        table = smooth_cases(EACH)
        wanted = [Twice(one) for cases in table.values() for one in cases] if self.device.startswith("interp") else \
            [Twice(cases[0]) for cases in list(table.values())[::THIRD]]
        self.assertTrue(wanted)
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start:start + BATCH]
            parts = [one.graph(f"c{i}.") for i, one in enumerate(batch)]
            found = self.run_graph([node for part in parts for node in part[0]], [each for part in parts for each in part[1]],
                                   {name: value for part in parts for name, value in part[2].items()})
            for i, one in enumerate(batch):
                for place, want in one.want.items():
                    with self.subTest(case=one.case.name, to=place):
                        most = max(1.0, float(want.abs().max())) if want.numel() else 1
                        self.close(f"{one.case.op} {one.case.attrs}", found[f"c{i}.h{place}"], want, LOOSE, LOOSE * most)


if __name__ == "__main__":
    sys.exit(unittest.main())
