# SPDX-License-Identifier: MIT
"""Long launches run in slices: a run can be cancelled between two slices, and the results equal those of one launch."""

import time
import unittest

from fixture import Server


def sums(rows, columns, function, first=0):
    """Returns for each row the sum of a function of its distances from all columns, for |rows| rows from |first| on."""
    bend = [{"id": f"p{i + 1}", "op": op, "in": [f"p{i}" if i else "d", other]} for i, (op, other) in enumerate(6 * [("mul", "d"), ("add", 0.5)])]
    bend = [{"id": "p12", "op": "sin", "in": ["d"]}] if function == "sin" else bend
    return {"inputs": {}, "nodes": [{"id": "i", "op": "arange", "attrs": {"start": first, "stop": first + rows, "dtype": "float32"}},
                                    {"id": "k", "op": "arange", "attrs": {"stop": columns, "dtype": "float32"}},
                                    {"id": "n", "op": "mul", "in": ["i", 1 / 65536]}, {"id": "a", "op": "reshape", "in": ["n"], "attrs": {"shape": [rows, 1]}},
                                    {"id": "b", "op": "reshape", "in": ["k"], "attrs": {"shape": [1, columns]}},
                                    {"id": "d", "op": "sub", "in": ["a", "b"]}, *bend, {"id": "y", "op": "sum", "in": ["p12"], "attrs": {"axis": 1}}],
            "outputs": ["y"]}


def step(rows, columns):
    """Returns a program that adds the sums to a state, which must not change before the end."""
    document = sums(rows, columns, "sin")
    return {**document, "state": {"w": {"dtype": "float32", "shape": [rows]}}, "nodes": [*document["nodes"], {"id": "v", "op": "add", "in": ["w", "y"]}],
            "updates": {"w": "v"}, "outputs": []}


class Slices(unittest.TestCase):
    def serve(self, backend):
        try:
            server = Server("--backends", backend, "--tune=off")
        except RuntimeError as error:
            self.skipTest(f"no {backend}: {error}")
        self.addCleanup(server.stop)
        if not server.call("GET", "/api/v1/devices").json["devices"]:
            self.skipTest(f"no {backend}")
        return server

    def run_it(self, server, document, **members):
        return server.call("POST", "/api/v1/run", {**document, **members})

    def test_slices_are_the_whole(self):
        for backend, rows, columns in (("opencl", 20_000, 20_000), ("vulkan", 20_000, 20_000), ("interp", 8000, 1000)):
            with self.subTest(backend=backend):
                server = self.serve(backend)
                whole = self.run_it(server, sums(rows, columns, "bend"))
                self.assertEqual(200, whole.status, whole.body)
                got = whole.json["outputs"]["y"]["data"]
                for first in (0, 1000, rows // 2, rows - 16):
                    part = self.run_it(server, sums(16, columns, "bend", first)).json["outputs"]["y"]["data"]
                    self.assertEqual(part, got[first:first + 16], "to the bit")

    def test_t11_a_long_launch_is_cut(self):
        """The launch would take many seconds."""
        for backend, rows, columns in (("opencl", 20_000, 1_000_000), ("vulkan", 20_000, 1_000_000), ("interp", 20_000, 100_000)):
            with self.subTest(backend=backend):
                server = self.serve(backend)
                self.assertEqual(504, self.run_it(server, sums(rows, columns, "sin"), timeout_ms=4000).status)  # compiles the plan too
                begin = time.monotonic()
                self.assertEqual(504, self.run_it(server, sums(rows, columns, "sin"), timeout_ms=300).status)
                self.assertLess(time.monotonic() - begin, 2.5)

    def test_t11_what_is_cut_off_changes_nothing(self):
        server = self.serve("interp")
        self.assertEqual(201, server.call("PUT", "/api/v1/programs/p", step(8000, 40_000)).status)
        self.assertEqual(504, server.call("POST", "/api/v1/programs/p/run", {"timeout_ms": 300}).status)
        self.assertEqual({0.0}, set(server.call("GET", "/api/v1/programs/p/state").json["state"]["w"]["data"]))
        self.assertEqual(200, server.call("POST", "/api/v1/programs/p/run", {}).status)
        self.assertEqual(server.call("POST", "/api/v1/run", sums(8000, 40_000, "sin")).json["outputs"]["y"]["data"],
                         server.call("GET", "/api/v1/programs/p/state").json["state"]["w"]["data"])


if __name__ == "__main__":
    unittest.main()
