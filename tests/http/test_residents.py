# SPDX-License-Identifier: MIT
"""More weights than the device has memory for: those used longest ago wait on the host.  On Vulkan through staging memory, where
the host does not see what lies on the device."""

import os
import struct
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

from fixture import OCTETS, PROGRAM, Server, ServerTest

N = 1 << 20  # elements of a program's weights: 4 MiB
VULKAN = {"BEAMLINE_VULKAN_STAGING": "1"}


def has_vulkan():
    out = subprocess.run([PROGRAM, "devices", "--backends", "vulkan"], capture_output=True, text=True, env={**os.environ, **VULKAN, "BEAMLINE_STATE": "none"}).stdout
    return "vulkan:0" in out


def program(value):
    """Weights that start as `value`, one entry that reads a sum of some and one that adds to all."""
    return {"state": {"w": {"op": "full", "attrs": {"shape": [N], "value": value}}}, "entries": {
        "look": {"inputs": {"x": {"dtype": "float32", "shape": [2]}},
                 "nodes": [{"id": "a", "op": "slice", "in": ["w"], "attrs": {"start": [0], "stop": [2]}}, {"id": "y", "op": "mul", "in": ["a", "x"]}], "outputs": ["y"]},
        "step": {"inputs": {}, "nodes": [{"id": "v", "op": "add", "in": ["w", 1]}, {"id": "b", "op": "slice", "in": ["v"], "attrs": {"start": [0], "stop": [1]}}],
                 "updates": {"w": "v"}, "outputs": ["b"]}}}


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Residents(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--backends", "vulkan", "--device-memory", "24M", "--pool", "8M", "--tune=off", env=VULKAN)

    def put(self, name, value):
        return self.call("PUT", "/api/v1/programs/" + name, program(value))

    def look(self, name):
        answer = self.ok(self.call("POST", f"/api/v1/programs/{name}/run", {"entry": "look", "inputs": {"x": [1, 10]}}))
        return answer.json["outputs"]["y"]["data"]

    def test_weights_take_turns(self):
        """Ten programs of 4 MiB on 24 MiB: each answers right, whoever was used between, and their steps are not lost."""
        for i in range(10):
            self.assertIn(self.put(f"p{i}", i).status, (200, 201), i)
        self.assertGreaterEqual(self.server.metric("weights_moved_out_total"), 5)
        for turn in range(3):
            for i in (0, 9, 4, 5, 1, 8, 2, 7, 3, 6):
                self.assertEqual([i + turn, 10 * (i + turn)], self.look(f"p{i}"), (turn, i))
                self.assertEqual([i + turn + 1], self.ok(self.call("POST", f"/api/v1/programs/p{i}/run", {"entry": "step"})).json["outputs"]["b"]["data"])
        self.assertGreaterEqual(self.server.metric("weights_moved_in_total"), 10)
        state = self.ok(self.call("GET", "/api/v1/programs/p0/state", headers={"accept": "application/x-safetensors"})).body
        self.assertEqual(struct.pack("<f", 3.0) * N, state[-4 * N:])
        for i in range(10):
            self.ok(self.call("DELETE", f"/api/v1/programs/p{i}"), 204)
        self.assertEqual(0, self.server.settled("held_bytes", 0))  # the last run lets go after its answer

    def test_what_is_used_often_stays(self):
        for i in range(8):
            self.assertIn(self.put(f"q{i}", i).status, (200, 201))
            self.look("q0")
        before = self.server.metric("weights_moved_in_total")
        for _ in range(5):
            self.look("q0")
        self.assertEqual(before, self.server.metric("weights_moved_in_total"))
        for i in range(8):
            self.ok(self.call("DELETE", f"/api/v1/programs/q{i}"), 204)

    def test_uploads_make_room_too(self):
        """A tensor is put by a thread that is not the device's."""
        for i in range(5):
            self.assertIn(self.put(f"r{i}", i).status, (200, 201))
        for i in range(3):
            self.ok(self.call("PUT", f"/api/v1/tensors/t{i}?dtype=float32&shape={N}", struct.pack("<f", i) * N, OCTETS), 201)
        for i in range(5):
            self.assertEqual([i, 10 * i], self.look(f"r{i}"))
        for i in range(3):
            self.assertEqual(struct.pack("<f", i) * N, self.ok(self.call("GET", f"/api/v1/tensors/t{i}", headers={"accept": "application/octet-stream"})).body)
            self.ok(self.call("DELETE", f"/api/v1/tensors/t{i}"), 204)
        for i in range(5):
            self.ok(self.call("DELETE", f"/api/v1/programs/r{i}"), 204)

    def test_who_asks_too_much_is_told_and_nobody_else(self):
        for i in range(6):
            self.assertIn(self.put(f"s{i}", i).status, (200, 201))
        big = {"state": {"w": {"op": "full", "attrs": {"shape": [8 * N], "value": 1}}}, "inputs": {}, "nodes": [{"id": "v", "op": "add", "in": ["w", 1]}], "updates": {"w": "v"},
               "outputs": []}
        answer = self.call("PUT", "/api/v1/programs/big", big)
        self.refused(507, answer)
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(self.call, "PUT", "/api/v1/programs/big", big) for _ in range(3)] + [pool.submit(self.look, f"s{i}") for i in range(6)]
            self.assertEqual([507] * 3, [one.result().status for one in asked[:3]])
            self.assertEqual([[i, 10 * i] for i in range(6)], [one.result() for one in asked[3:]])
        for i in range(6):
            self.ok(self.call("DELETE", f"/api/v1/programs/s{i}"), 204)


if __name__ == "__main__":
    unittest.main()
