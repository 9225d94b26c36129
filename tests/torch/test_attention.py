# SPDX-License-Identifier: MIT
"""Attention in sizes for which the scores are computed in stages (flash attention), in any form, with its gradients, against
torch.

The reference is in float64.  No [L, L] matrix may ever be in device memory.
"""

import unittest

import torch

from service import DeviceTest, on_each_device

INF = float("inf")
DTYPES = {"float32": (torch.float32, 2e-5), "float16": (torch.float16, 6e-3), "bfloat16": (torch.bfloat16, 5e-2),
          "float64": (torch.float64, 1e-12)}

# name -> (shape of q, of k and v, attributes of the op, dtype)
SHAPES = {
    "plain": ([2, 3, 64, 16], None, {}, "float32"),
    "long": ([1, 2, 300, 64], None, {}, "float32"),
    "odd": ([2, 257, 5], None, {}, "float32"),
    "wide": ([2, 33, 80], None, {}, "float32"),
    "one": ([2, 1, 64], None, {}, "float32"),
    "seven": ([2, 7, 3], None, {}, "float32"),
    "causal": ([2, 2, 96, 16], None, {"causal": True}, "float32"),
    "causal odd": ([2, 2, 71, 9], None, {"causal": True}, "float32"),
    "across": ([2, 40, 16], [2, 130, 16], {}, "float32"),
    "few heads": ([2, 6, 64, 16], [2, 2, 64, 16], {"grouped": True}, "float32"),
    "scaled": ([2, 64, 16], None, {"scale": 0.5}, "float32"),
    "half": ([2, 64, 16], None, {}, "float16"),
    "brain": ([2, 100, 16], None, {"causal": True}, "bfloat16"),
    "double": ([2, 64, 16], None, {}, "float64"),
}


def attend(q, k, v, mask=None, causal=False, scale=None, grouped=False):
    if grouped:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        s = torch.where(mask, s, torch.full_like(s, -INF)) if mask.dtype == torch.bool else s + mask
    if causal:
        s = torch.where(torch.ones(s.shape[-2:]).tril().bool(), s, torch.full_like(s, -INF))
    return torch.softmax(s, -1) @ v


def by_hand(scale):
    return [{"id": "kt", "op": "transpose", "in": ["k"]}, {"id": "s", "op": "matmul", "in": ["q", "kt"]},
            {"id": "t", "op": "mul", "in": ["s", scale]}, {"id": "m", "op": "max", "in": ["t"], "attrs": {"axis": -1, "keepdim": True}},
            {"id": "d", "op": "sub", "in": ["t", "m"]}, {"id": "e", "op": "exp", "in": ["d"]},
            {"id": "z", "op": "sum", "in": ["e"], "attrs": {"axis": -1, "keepdim": True}}, {"id": "p", "op": "div", "in": ["e", "z"]},
            {"id": "y", "op": "matmul", "in": ["p", "v"]}]


def draw(shape, kv, dtype, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape if name in "qw" else kv or shape, generator=generator, dtype=torch.float64).to(dtype)
            for name in "qkvw"}


@on_each_device
class Attention(DeviceTest):
    """Attention, forward and backward."""

    def check(self, name, nodes, tensors, want, loose):
        """|nodes| compute y from q, k, v; the cotangent is w."""
        graph = nodes + [{"id": ["dq", "dk", "dv"], "op": "grad", "in": ["y", "q", "k", "v", "w"], "attrs": {"cotangent": True}}]
        leaves = [tensors[x].double().requires_grad_() for x in "qkv"]
        expected = want(*leaves)
        gradients = torch.autograd.grad(expected, leaves, tensors["w"].double())
        given = {x: t for x, t in tensors.items() if x != "w"}
        alone, _ = self.service.exchange("POST", "run", {"nodes": nodes, "outputs": ["y"], "device": self.device}, given)
        both, _ = self.service.exchange("POST", "run", {"nodes": graph, "outputs": ["y", "dq", "dk", "dv"], "device": self.device}, tensors)
        for key, got, right in [("y alone", alone["y"], expected), ("y", both["y"], expected),
                                *((x, both[x], g) for x, g in zip(("dq", "dk", "dv"), gradients))]:
            largest = max(1.0, float(right.nan_to_num().abs().max()))
            self.close(f"{name} {key}", got.double(), right.detach(), loose, loose * largest)

    def test_shapes(self):
        for name, (shape, kv, attrs, dtype) in SHAPES.items():
            with self.subTest(name):
                kind, loose = DTYPES[dtype]
                self.check(name, [{"id": "y", "op": "attention", "in": ["q", "k", "v"], "attrs": attrs}], draw(shape, kv, kind),
                           lambda q, k, v, attrs=attrs: attend(q, k, v, **attrs), loose)

    def test_masks(self):
        generator = torch.Generator().manual_seed(5)
        look = torch.rand(64, 64, generator=generator) < 0.7
        look |= torch.eye(64, dtype=torch.bool)
        add = torch.randn(64, 64, generator=generator)
        add[3, 10:20] = -INF
        for name, mask in (("bool", look), ("added", add)):
            with self.subTest(name):
                tensors = draw([2, 3, 64, 16], None, torch.float32)
                self.check(name, [{"id": "y", "op": "attention", "in": ["q", "k", "v", "m"]}], {**tensors, "m": mask},
                           lambda q, k, v, mask=mask: attend(q, k, v, mask if mask.dtype == torch.bool else mask.double()), 2e-5)

    def test_rows_without_anything_to_look_at(self):
        mask = torch.ones(64, 64, dtype=torch.bool)
        mask[5] = False
        tensors = {**draw([2, 3, 64, 16], None, torch.float32), "m": mask}
        y = self.run_graph([{"id": "y", "op": "attention", "in": ["q", "k", "v", "m"]}], ["y"], {x: t for x, t in tensors.items() if x != "w"})
        want = attend(*(tensors[x].double() for x in "qkv"), mask)
        self.assertTrue(want[0, 0, 5].isnan().all())
        self.close("nothing to look at", y["y"].double(), want, 2e-5, 2e-5)

    def test_infinite_and_huge_scores(self):
        tensors = draw([2, 64, 16], None, torch.float32)
        tensors["q"][0, 7] *= 1e4
        tensors["k"][1, 9, 0] = INF
        y = self.run_graph([{"id": "y", "op": "attention", "in": ["q", "k", "v"]}], ["y"], {x: tensors[x] for x in "qkv"})
        self.close("huge", y["y"].double(), attend(*(tensors[x].double() for x in "qkv")), 1e-4, 1e-4)

    def test_by_hand(self):
        self.check("by hand", by_hand(0.25), draw([2, 3, 64, 16], None, torch.float32), attend, 2e-5)

    def test_a_named_length(self):
        self.service.put_program("named", {
            "dims": {"n": [1, 80]}, "inputs": {x: {"dtype": "float32", "shape": ["n", 16]} for x in "qkv"},
            "nodes": [{"id": "y", "op": "attention", "in": ["q", "k", "v"]}], "outputs": ["y"], "device": self.device}, {})
        for n in (1, 7, 65):
            tensors = {x: t for x, t in draw([n, 16], None, torch.float32).items() if x != "w"}
            got = self.service.step("named", tensors)
            self.close(f"{n} rows", got["y"].double(), attend(*(tensors[x].double() for x in "qkv")), 2e-5, 2e-5)

    def test_dropout_is_the_same_in_the_gradient(self):
        """Dropped scores have no gradient: with the identity as v, y is the dropped probabilities, and dv has the same
        pattern."""
        n = 64
        tensors = draw([2, n, n], None, torch.float32)
        tensors["v"] = torch.eye(n).expand(2, n, n).contiguous()
        tensors["w"] = torch.eye(n).expand(2, n, n).contiguous()
        nodes = [{"id": "kt", "op": "transpose", "in": ["k"]}, {"id": "s", "op": "matmul", "in": ["q", "kt"]}, {"id": "p", "op": "softmax", "in": ["s"]},
                 {"id": "d", "op": "dropout", "in": ["p"], "attrs": {"p": 0.25, "seed": 3}}, {"id": "y", "op": "matmul", "in": ["d", "v"]},
                 {"id": "dv", "op": "grad", "in": ["y", "v", "w"], "attrs": {"cotangent": True}}]
        got = self.run_graph(nodes, ["y", "dv"], tensors)
        self.close("pattern", got["dv"], got["y"].transpose(1, 2), 1e-5, 1e-6)
        dropped = (got["y"] == 0).float().mean()
        self.assertTrue(0.2 < float(dropped) < 0.3, dropped)


class AttentionMemory(DeviceTest):
    """No scores are in device memory, for work-groups of one and of several work-items."""

    device = "opencl:0"

    def peak(self, device, heads, length, size, gradient):
        nodes = [{"id": "y", "op": "attention", "in": ["q", "k", "v"]}]
        grad = [{"id": ["dq", "dk", "dv"], "op": "grad", "in": ["y", "q", "k", "v", "w"], "attrs": {"cotangent": True}}] if gradient else []
        tensors = {x: torch.zeros(1, heads, length, size) for x in ("qkvw" if gradient else "qkv")}
        document = {"nodes": nodes + grad, "outputs": ["y", "dq", "dk", "dv"] if gradient else ["y"], "device": device}
        _, answer = self.service.exchange("POST", "run", document, tensors)
        return answer["stats"]

    def test_peak(self):
        length, heads, size = 2048, 2, 64
        for gradient in (False, True):
            stats = self.peak("opencl:0", heads, length, size, gradient)
            self.assertLess(stats["peak_bytes"], heads * length * length * 4 / 4, stats)

    def test_growth(self):
        """Four times the length needs four times the memory: a few numbers per row."""
        for gradient in (False, True):
            short, long = (self.peak("vulkan:0", 1, length, 8, gradient) for length in (1024, 4096))
            self.assertLessEqual(long["peak_bytes"], 4 * short["peak_bytes"], (short, long))
            self.assertLess(long["peak_bytes"], 4096 * 64, long)
            self.assertEqual(long["kernels"], 2 if gradient else 1, long)


if __name__ == "__main__":
    unittest.main()
