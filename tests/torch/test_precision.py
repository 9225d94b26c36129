# SPDX-License-Identifier: MIT
"""float32_matmul_precision: "high" computes float32 products on bfloat16 units in three parts, nearly as exactly as torch.

Without the setting, and on devices without such a unit, nothing changes.
"""

import unittest

import torch
import torch.nn.functional as F

from service import ServiceTest

# Error bound of a sum, relative to the sum of the magnitudes of its products: see tests/plan/test_precision.c
MOST_ERROR = 1.25e-5
FIELD = "float32_matmul_precision"


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, W, B = normal(1, 128, 96), normal(2, 96, 80), normal(3, 80)
P, K = normal(4, 2, 32, 18, 18), normal(5, 32, 32, 3, 3)
CASES = {
    "matmul": ([X, W], {}, torch.matmul),
    "linear": ([X, W.T.contiguous(), B], {}, F.linear),
    "conv2d": ([P, K], {"padding": 1}, lambda p, k: F.conv2d(p, k, padding=1)),
}


class Precision(ServiceTest):
    args = ("--matrix-units", "2", "--backends", "opencl")

    def compute(self, op, **members):
        operands, attrs, _ = CASES[op]
        tensors = {f"x{i}": each for i, each in enumerate(operands)}
        document = {"nodes": [{"id": "y", "op": op, "in": list(tensors), "attrs": attrs}], "outputs": ["y"], "debug": 3, **members}
        outputs, answer = self.service.exchange("POST", "run", document, tensors)
        return outputs["y"], answer["stats"]

    def has_unit(self):
        """Whether the device splits this product at "high"."""
        return "bfloat16x3" in self.compute("matmul", **{FIELD: "high"})[1]["debug"]

    def test_beside_torch(self):
        for op, (operands, _, reference) in CASES.items():
            exact = reference(*(each.double() for each in operands))
            sizes = reference(*(each.double().abs() for each in operands))
            plain, _ = self.compute(op)
            high, stats = self.compute(op, **{FIELD: "high"})
            with self.subTest(op=op, moves=stats["debug"]):
                self.assertLessEqual(((high.double() - exact).abs() / sizes).max().item(), MOST_ERROR)
                if self.has_unit():
                    self.assertIn("bfloat16x3", stats["debug"])
                    off = (high.double() - exact).norm() / exact.norm()
                    self.assertTrue(1e-6 < off < 6e-6, off)
                else:
                    self.assertTrue(torch.equal(plain, high))

    def test_plans_of_their_own(self):
        plain, stats = self.compute("linear")
        self.assertNotIn("bfloat16x3", stats["debug"])
        highest, stats = self.compute("linear", **{FIELD: "highest"})
        self.assertEqual("cached", stats["plan"])
        self.assertTrue(torch.equal(plain, highest))
        high, _ = self.compute("linear", **{FIELD: "high"})
        _, stats = self.compute("linear", **{FIELD: "high"})
        self.assertEqual("cached", stats["plan"])
        self.assertEqual(self.has_unit(), not torch.equal(plain, high))

    def test_what_is_not_finite(self):
        x, w = X.clone(), W.clone()
        x[0, 5], x[1, 5], x[2, 5], x[3, 7] = float("inf"), -float("inf"), float("nan"), 3.4e38
        w[5, 0], w[5, 1], w[5, 2], w[7] = float("inf"), 0, 1, 0.5
        document = {"nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}], "outputs": ["y"], FIELD: "high"}
        got, want = self.service.exchange("POST", "run", document, {"x": x, "w": w})[0]["y"], x @ w
        self.assertTrue(torch.equal(got.isnan(), want.isnan()))
        self.assertTrue(torch.equal(got[want.isinf()], want[want.isinf()]))
        self.assertTrue(torch.allclose(got[want.isfinite()], want[want.isfinite()], rtol=2e-5, atol=1e-3))

    def test_programs(self):
        """A program keeps the precision of its PUT, whoever runs it."""
        results = {}
        for name, members in (("plain", {}), ("high", {FIELD: "high"})):
            document = {"inputs": {"x": {"dtype": "float32", "shape": [128, 96]}, "w": {"dtype": "float32", "shape": [96, 80]}},
                        "nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}], "outputs": ["y"], **members}
            self.service.put_program(name, document, {})
            for debug in (0, 3):
                outputs, answer = self.service.exchange("POST", f"programs/{name}/run", {"debug": debug}, {"x": X, "w": W})
                results[name, debug] = outputs["y"]
                if debug:
                    self.assertEqual(name == "high" and self.has_unit(), "bfloat16x3" in answer["stats"]["debug"])
        for name in ("plain", "high"):
            self.assertTrue(torch.equal(results[name, 0], results[name, 3]))
        self.assertEqual(self.has_unit(), not torch.equal(results["plain", 0], results["high", 0]))


class PrecisionOfTheServer(ServiceTest):
    args = (*Precision.args, "--float32-matmul-precision", "high")

    def test_default(self):
        """The server's setting applies to requests without one."""
        results = {}
        for word in (None, "high", "highest"):
            document = {"nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}], "outputs": ["y"], **({FIELD: word} if word else {})}
            results[word] = self.service.exchange("POST", "run", document, {"x": X, "w": W})
        self.assertEqual("cached", results["high"][1]["stats"]["plan"])
        self.assertEqual("compiled", results["highest"][1]["stats"]["plan"])
        self.assertTrue(torch.equal(results[None][0]["y"], results["high"][0]["y"]))


if __name__ == "__main__":
    unittest.main()
