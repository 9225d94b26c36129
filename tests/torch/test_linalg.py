# SPDX-License-Identifier: MIT
"""The singular value decomposition: its defining properties, since signs are free, and gradients of sign-independent
functions."""

import itertools
import sys
import unittest

import torch

from service import ServiceTest, DeviceTest, on_each_device

SHAPES = ((3, 3), (2, 2), (1, 1), (5, 3), (3, 5), (1, 4), (4, 1), (2, 4, 4), (8, 8), (0, 3), (3, 0), (2, 0, 3), (0, 3, 3))
BOUND = {torch.float32: 1e-5, torch.float64: 1e-13}


def ranked(shape, rank, dtype):
    """A matrix of which |rank| rows and columns are independent."""
    return torch.randn(*shape[:-1], rank, dtype=dtype) @ torch.randn(*shape[:-2], rank, shape[-1], dtype=dtype)


def identity_like(x):
    return torch.eye(x.shape[-1], dtype=x.dtype).expand(x.shape)


@on_each_device
class Decomposition(DeviceTest):
    def decompose(self, x, full):
        nodes = [{"id": ["u", "s", "v"], "op": "svd", "in": ["x"], "attrs": {"full_matrices": full}}]
        found = self.run_graph(nodes, ["u", "s", "v"], {"x": x})
        return found["u"], found["s"], found["v"]

    def check(self, x, full):
        u, s, v = self.decompose(x, full)
        want = torch.linalg.svd(x, full_matrices=full)
        short, bound = min(x.shape[-2:]), BOUND[x.dtype] * max(1, float(x.abs().max()) if x.numel() else 1)
        self.assertEqual([each.shape for each in want], [u.shape, s.shape, v.shape])
        self.close("values", s, want[1], bound, bound)
        self.close("u s v", (u[..., :short] * s.unsqueeze(-2)) @ v[..., :short, :], x, bound, bound)
        self.close("u^T u", u.mT @ u, identity_like(u.mT @ u), bound, bound)
        self.close("v v^T", v @ v.mT, identity_like(v @ v.mT), bound, bound)

    def dtypes(self):
        return torch.float32, torch.float64

    def test_shapes(self):
        shapes = SHAPES if self.device.startswith("interp") else SHAPES[::3]
        for number, (shape, dtype, full) in enumerate(itertools.product(shapes, self.dtypes(), (True, False))):
            torch.manual_seed(number)
            with self.subTest(shape=shape, dtype=dtype, full=full):
                self.check(torch.randn(*shape, dtype=dtype), full)

    def test_low_rank(self):
        for number, (shape, rank) in enumerate((((6, 6), 3), ((7, 4), 1), ((4, 7), 2), ((5, 5), 0))):
            torch.manual_seed(number)
            with self.subTest(shape=shape, rank=rank):
                self.check(ranked(shape, rank, torch.float32), True)

    def test_far_scales(self):
        torch.manual_seed(1)
        x = torch.randn(4, 4)
        for scale in (1e-25, 1e25):  # squares of these overflow or underflow in float32
            u, s, v = self.decompose(x * scale, False)
            self.close("u s v", (u * s) @ v / scale, x, 1e-5, 1e-5)

    def test_equal_values(self):
        self.check(torch.eye(4), True)
        self.check(torch.ones(4, 3), True)


@on_each_device
class Large(DeviceTest):
    """Hundreds of columns: a loop of many steps, and its gradient."""

    def test_cholesky_and_solve(self):
        torch.manual_seed(5)
        x, b = torch.randn(150, 150), torch.randn(150, 2)
        a = (x @ x.T / 150 + torch.eye(150)).requires_grad_()
        want, y = torch.linalg.cholesky(a), torch.linalg.solve(a, b)
        (y.square().sum() + want.sum()).backward()
        nodes = [{"id": "l", "op": "cholesky", "in": ["a"]}, {"id": "y", "op": "solve", "in": ["a", "b"]}, {"id": "q", "op": "square", "in": ["y"]},
                 {"id": "s", "op": "sum", "in": ["q"]}, {"id": "t", "op": "sum", "in": ["l"]}, {"id": "loss", "op": "add", "in": ["s", "t"]},
                 {"id": ["g"], "op": "grad", "in": ["loss", "a"]}]
        found = self.run_graph(nodes, ["l", "y", "g"], {"a": a, "b": b})
        self.close("l", found["l"], want, 1e-4, 1e-5)
        self.close("y", found["y"], y, 1e-3, 1e-5)
        # the op reads only the lower triangle, torch's gradient treats the matrix as symmetric
        self.close("g + g^T", found["g"] + found["g"].T, a.grad + a.grad.T, 2e-3, 2e-3)


class Gradients(ServiceTest):
    def loss(self, x, w, full):
        """A loss in torch and as nodes: functions of u s^3 v, of s, and of u diag u^T, which do not depend on signs."""
        short = min(x.shape[-2:])
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        value = (((u * s.pow(3).unsqueeze(-2)) @ v) * w["w2"]).sum() + (s * w["w1"]).sum() + ((u * w["w1"]) @ u.mT).square().sum()
        nodes = [{"id": ["u", "s", "v"], "op": "svd", "in": ["x"], "attrs": {"full_matrices": full}},
                 {"id": "uk", "op": "slice", "in": ["u"], "attrs": {"stop": [short], "axis": [-1]}},
                 {"id": "vk", "op": "slice", "in": ["v"], "attrs": {"stop": [short], "axis": [-2]}},
                 {"id": "cube", "op": "pow", "in": ["s", 3]}, {"id": "row", "op": "unsqueeze", "in": ["cube"], "attrs": {"axis": -2}},
                 {"id": "us", "op": "mul", "in": ["uk", "row"]}, {"id": "y", "op": "matmul", "in": ["us", "vk"]},
                 {"id": "yw", "op": "mul", "in": ["y", "w2"]}, {"id": "first", "op": "sum", "in": ["yw"]},
                 {"id": "sw", "op": "mul", "in": ["s", "w1"]}, {"id": "second", "op": "sum", "in": ["sw"]},
                 {"id": "uw", "op": "mul", "in": ["uk", "w1"]}, {"id": "ut", "op": "transpose", "in": ["uk"]},
                 {"id": "uu", "op": "matmul", "in": ["uw", "ut"]}, {"id": "square", "op": "square", "in": ["uu"]},
                 {"id": "third", "op": "sum", "in": ["square"]}, {"id": "two", "op": "add", "in": ["first", "second"]},
                 {"id": "loss", "op": "add", "in": ["two", "third"]}, {"id": "g", "op": "grad", "in": ["loss", "x"]},
                 {"id": "gw", "op": "mul", "in": ["g", "w2"]}, {"id": "along", "op": "sum", "in": ["gw"]},
                 {"id": "h", "op": "grad", "in": ["along", "x"]}]
        return value, nodes

    def test_first_and_second(self):
        for number, (shape, full) in enumerate(itertools.product(((3, 3), (5, 3), (3, 5), (2, 4, 3), (1, 1)), (False, True))):
            torch.manual_seed(number)
            x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
            w = {"w1": torch.randn(min(shape[-2:]), dtype=torch.float64), "w2": torch.randn(*shape, dtype=torch.float64)}
            value, nodes = self.loss(x, w, full)
            g, = torch.autograd.grad(value, x, create_graph=True)
            h, = torch.autograd.grad((g * w["w2"]).sum(), x)
            found = self.service.run(nodes, ["loss", "g", "h"], {"x": x, **w}, "interp:0")
            with self.subTest(shape=shape, full=full):
                self.close("loss", found["loss"], value, 1e-12, 1e-12)
                self.close("gradient", found["g"], g, 1e-10, 1e-10)
                self.close("second gradient", found["h"], h, 1e-9, 1e-9)

    def test_in_a_body(self):
        body = {"inputs": ["a"], "nodes": [{"id": ["u", "s", "v"], "op": "svd", "in": ["a"]}, {"id": "y", "op": "sum", "in": ["s"]}], "outputs": ["y"]}
        nodes = [{"id": "y", "op": "scan", "in": ["x"], "attrs": {"body": body, "carries": 0, "sequences": 1}},
                 {"id": "p", "op": "full", "attrs": {"shape": [], "value": True, "dtype": "bool"}},
                 {"id": "z", "op": "cond", "in": ["p", "x"], "attrs": {"then": body, "otherwise": body}}, {"id": "all", "op": "sum", "in": ["y"]},
                 {"id": "g", "op": "grad", "in": ["all", "x"]}, {"id": "h", "op": "grad", "in": ["z", "x"]}]
        torch.manual_seed(5)
        x = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
        g, = torch.autograd.grad(torch.linalg.svd(x)[1].sum(), x)
        found = self.service.run(nodes, ["g", "h"], {"x": x}, "interp:0")
        self.close("scan", found["g"], g, 1e-10, 1e-10)
        self.close("cond", found["h"], g, 1e-10, 1e-10)

    def test_equal_values_have_a_finite_gradient(self):
        nodes = [{"id": ["u", "s", "v"], "op": "svd", "in": ["x"]}, {"id": "sum", "op": "sum", "in": ["s"]},
                 {"id": "g", "op": "grad", "in": ["sum", "x"]}]
        x = 2 * torch.eye(3)
        self.close("u v^T", self.service.run(nodes, ["g"], {"x": x}, "interp:0")["g"], torch.eye(3), 1e-6, 1e-6)


if __name__ == "__main__":
    sys.exit(unittest.main())
