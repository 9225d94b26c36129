# SPDX-License-Identifier: MIT
"""Models and the memory of devices: weights that take turns there."""

import os
import subprocess
import unittest

from repository import PROGRAM, ModelsTest, Server, document, numbers

VULKAN = {"BEAMLINE_VULKAN_STAGING": "1"}
N = 1 << 20  # elements of a model's weights: 4 MiB


def has_vulkan():
    out = subprocess.run([PROGRAM, "devices", "--backends", "vulkan"], capture_output=True, text=True, env={**os.environ, **VULKAN, "BEAMLINE_STATE": "none"}).stdout
    return "vulkan:0" in out


def heavy(value):
    """Its first two weights times x."""
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 2]}}, "dims": {"batch": [1, 8]}, "state": {"w": {"op": "full", "attrs": {"shape": [N], "value": value}}},
            "nodes": [{"id": "a", "op": "slice", "in": ["w"], "attrs": {"start": [0], "stop": [2]}}, {"id": "y", "op": "mul", "in": ["x", "a"]}], "outputs": ["y"]}


def adding(value):
    """The sum of what a sequence gave, times weights."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "state": {"w": {"op": "full", "attrs": {"shape": [N], "value": value}}, "s": [0, 0]},
            "nodes": [{"id": "a", "op": "slice", "in": ["w"], "attrs": {"start": [0], "stop": [2]}}, {"id": "p", "op": "mul", "in": ["x", "a"]},
                      {"id": "t", "op": "add", "in": ["s", "p"]}], "updates": {"s": "t"}, "outputs": ["t"]}


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Residents(ModelsTest):
    """More weights than there is memory: where the host does not see what lies on the device, they wait there for their turn."""

    @classmethod
    def fill(cls, repository):
        for i in range(6):
            repository.put(f"m{i}", 1, heavy(i + 1))
            repository.put(f"s{i}", 1, adding(i + 1))

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), "--backends", "vulkan", "--device-memory", "24M", "--pool", "8M", "--tune=off", env=VULKAN)

    def test_weights_take_turns(self):
        moved = self.server.metric("weights_moved_in_total")
        for turn in range(3):
            for i in (0, 5, 2, 3, 1, 4):
                answer = self.ok(self.infer(f"m{i}", document(numbers("x", [1, 2], [1, 10])))).json
                self.assertEqual([i + 1, 10 * (i + 1)], answer["outputs"][0]["data"], (turn, i))
                flags = {"sequence_id": 7, **({} if turn else {"sequence_start": True})}
                answer = self.ok(self.infer(f"s{i}", document(numbers("x", [2], [1, 10]), parameters=flags))).json
                self.assertEqual([(turn + 1) * (i + 1), 10 * (turn + 1) * (i + 1)], answer["outputs"][0]["data"], (turn, i))
        self.assertGreaterEqual(self.server.metric("weights_moved_in_total") - moved, 12)


if __name__ == "__main__":
    unittest.main()
