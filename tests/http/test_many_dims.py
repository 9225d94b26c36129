# SPDX-License-Identifier: MIT
"""Kernels that depend on many named dimensions, up to and over the limit of a kernel, on every back end."""

import unittest

from fixture import ServerTest


def sums(n, axes=1):
    """Returns n inputs, each with |axes| named dimensions, and the sum of all their elements."""
    dims = [[f"d{i}_{k}" for k in range(axes)] for i in range(n)]
    nodes, last = [], "s0"
    for i in range(n):
        nodes.append({"id": f"s{i}", "op": "sum", "in": [f"x{i}"]})
        if i > 0:
            nodes.append({"id": f"a{i}", "op": "add", "in": [last, f"s{i}"]})
            last = f"a{i}"
    return {"inputs": {f"x{i}": {"dtype": "float32", "shape": dims[i]} for i in range(n)}, "dims": {name: [1, 3] for shape in dims for name in shape},
            "nodes": nodes, "outputs": [last]}


class ManyDims(ServerTest):
    ARGS = ("--backends", "interp,opencl,vulkan")

    def test_more_dimensions_than_a_function_takes(self):
        """Eight is the most that a kernel with calls of functions passes on (OpenCL); 9 and 20 need a separate kernel."""
        ids = [device["id"] for device in self.ok(self.call("GET", "/api/v1/devices")).json["devices"]]
        for device in ids:
            for n in (8, 9, 20):
                with self.subTest(device=device, n=n):
                    name = f"sums{n}_{device.partition(':')[0]}"
                    self.assertEqual(201, self.call("PUT", f"/api/v1/programs/{name}", {**sums(n), "device": device}, timeout=120).status)
                    inputs = {f"x{i}": [1.0] * (i % 3 + 1) for i in range(n)}
                    answer = self.ok(self.call("POST", f"/api/v1/programs/{name}/run", {"inputs": inputs}, timeout=120))
                    self.assertEqual([sum(i % 3 + 1 for i in range(n))], list(answer.json["outputs"].values())[0]["data"])

    def test_more_than_a_kernel_takes(self):
        problem = self.refused(422, self.call("PUT", "/api/v1/programs/many", {**sums(5, axes=8), "device": "interp:0"}, timeout=120))
        self.assertIn("more than 32 named dimensions", problem["detail"])
        self.assertIn("contiguous", problem["detail"])


    def test_multiples(self):
        """Sizes in steps of 32: parts that are equal only for these sizes, on every back end."""
        nodes = [{"id": "a", "op": "reshape", "in": ["x"], "attrs": {"shape": ["n", "(h + 31) // 32 * 2", 16]}},
                 {"id": "b", "op": "sum", "in": ["a"], "attrs": {"axis": 2}}, {"id": "c", "op": "slice", "in": ["x"], "attrs": {"axis": 1, "stop": "h // 16"}},
                 {"id": "y", "op": "add", "in": ["b", "c"]}]
        program = {"inputs": {"x": {"dtype": "float32", "shape": ["n", "h"]}}, "dims": {"n": 2, "h": [1, 100, 32]}, "nodes": nodes, "outputs": ["y"]}
        for device in [device["id"] for device in self.ok(self.call("GET", "/api/v1/devices")).json["devices"]]:
            with self.subTest(device=device):
                answer = self.call("PUT", "/api/v1/programs/multiples", {**program, "device": device}, timeout=120)
                self.assertEqual({"n": [2, 2], "h": [32, 96, 32]}, self.ok(answer, 201 if device == "interp:0" else 200).json["entries"]["main"]["dims"])
                for h in (32, 64, 96):
                    rows = [[float(i % 7 + k) for i in range(h)] for k in range(2)]
                    answer = self.ok(self.call("POST", "/api/v1/programs/multiples/run", {"inputs": {"x": rows}}, timeout=120))
                    wanted = [sum(row[16 * i:16 * i + 16]) + row[i] for row in rows for i in range(h // 16)]
                    self.assertEqual(([2, h // 16], wanted), (answer.json["outputs"]["y"]["shape"], answer.json["outputs"]["y"]["data"]))
                problem = self.refused(422, self.call("POST", "/api/v1/programs/multiples/run", {"inputs": {"x": [[1.0] * 48] * 2}}))
                self.assertIn("is 48, outside its range 32 to 96 in steps of 32", problem["detail"])
        problem = self.refused(422, self.call("PUT", "/api/v1/programs/wrong", {**program, "nodes": [{"id": "y", "op": "add", "in": ["x", "c"]}, nodes[2]]}))
        self.assertIn("[2, h] and [2, h/16]", problem["detail"])


class LimitOfTime(ServerTest):
    ARGS = ("--backends", "interp", "--max-seconds", "1")

    def test_a_run_is_judged_at_its_own_sizes(self):
        """The limits apply to the sizes of the run: at its largest sizes the program would exceed them."""
        program = {"inputs": {"x": {"dtype": "float32", "shape": ["n", 256]}, "w": {"dtype": "float32", "shape": [256, 256]}}, "dims": {"n": [1, 16384]},
                   "nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}], "outputs": ["y"]}
        w = {"dtype": "float32", "shape": [256, 256], "base64": "AAAA" * (256 * 256 * 4 // 3) + "AA=="}
        self.assertEqual(201, self.call("PUT", "/api/v1/programs/product", program).status)
        self.ok(self.call("POST", "/api/v1/programs/product/run", {"inputs": {"x": [[1.0] * 256] * 4, "w": w}}, timeout=120))
        many = {"dtype": "float32", "shape": [16384, 256], "base64": "AAAA" * (16384 * 256 * 4 // 3) + "AA=="}
        problem = self.refused(422, self.call("POST", "/api/v1/programs/product/run", {"inputs": {"x": many, "w": w}}, timeout=120))
        self.assertIn("is estimated to take", problem["detail"])


if __name__ == "__main__":
    unittest.main()
