# SPDX-License-Identifier: MIT
"""Plans for a single size: compiled for slow and for warmed-up sizes; the answers do not change."""

import time
import unittest

from repository import ModelsTest, document, numbers

WIDTH = 512


def slow(most=8):
    """Returns a model whose run takes about ten milliseconds."""
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, "state": {"w": {"op": "normal", "attrs": {"shape": [WIDTH, WIDTH], "seed": 1}}},
            "dims": {"batch": [1, most]},
            "nodes": [{"id": "sx", "op": "sum", "in": ["x"]}, {"id": "zx", "op": "mul", "in": ["sx", 0]}, {"id": "wx", "op": "add", "in": ["w", "zx"]},
                      {"id": "w2", "op": "matmul", "in": ["wx", "w"]}, {"id": "w3", "op": "matmul", "in": ["w2", "w2"]}, {"id": "s", "op": "sum", "in": ["w3"]},
                      {"id": "z", "op": "mul", "in": ["s", 0]}, {"id": "xz", "op": "mul", "in": ["x", 2]}, {"id": "y", "op": "add", "in": ["xz", "z"]}],
            "outputs": ["y"]}


def adder():
    """Returns a model with state, so that each run belongs to one sequence."""
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, "dims": {"batch": [1, 8]}, "state": {"n": {"dtype": "float32", "shape": []}},
            "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}, {"id": "y", "op": "mul", "in": ["x", "m"]}], "updates": {"n": "m"}, "outputs": ["y"]}


def warmed(*sizes):
    return [{"name": f"of {size}", "batch_size": size, "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "random_data": True}}} for size in sizes]


class Sizes(ModelsTest):
    ARGS = ("--tune=off",)

    @classmethod
    def fill(cls, repository):
        repository.put("slow", 1, slow())
        repository.put("warm", 1, slow(16), model_warmup=warmed(4, 3))
        repository.put("adder", 1, adder(), model_warmup=warmed(2))

    def has_plan(self, model, rows):
        return f"model {model} has a plan for runs of {rows} rows" in self.server.log_text()

    def ask(self, model, rows):
        values = list(range(4 * rows))
        answer = self.ok(self.infer(model, document(numbers("x", [rows, 4], values))))
        self.assertEqual([2 * value for value in values], answer.json["outputs"][0]["data"])

    def steps(self):
        """Returns the steps of the most used plan."""
        return max(plan["steps"] for plan in self.ok(self.call("GET", "/api/v1/kernels")).json["service"])

    def test_a_size_that_takes_time(self):
        plans, end = self.server.metric("plans"), time.monotonic() + 120
        for _ in range(20):
            self.ask("slow", 3)  # 3 is no preferred size, so the plan for all sizes is the most used, on any machine
        while not self.has_plan("slow", 1) and time.monotonic() < end:
            self.ask("slow", 1)
        self.assertTrue(self.has_plan("slow", 1))
        self.assertFalse(self.has_plan("slow", 2))
        before = self.steps()
        for rows in [1] * 8:
            self.ask("slow", rows)
        self.assertEqual(before, self.steps())
        for rows in (2, 3, 8, 1):
            self.ask("slow", rows)
        self.assertEqual(before + 3, self.steps())
        self.assertEqual(plans + 1, self.server.metric("plans"))
        self.ok(self.unload("slow"))
        self.assertLess(self.server.settled("plans", plans - 1), plans)  # both plans are released

    def test_warm_up(self):
        """A warmed-up size gets a plan if it is a power of two."""
        self.assertTrue(self.has_plan("warm", 4))
        self.assertFalse(self.has_plan("warm", 3))
        for rows in (4, 3, 1, 16):
            self.ask("warm", rows)

    def test_not_for_what_remembers(self):
        self.assertFalse(self.has_plan("adder", 2))


if __name__ == "__main__":
    unittest.main()
