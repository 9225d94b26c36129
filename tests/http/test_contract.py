# SPDX-License-Identifier: MIT
"""The curl lines of README.md and docs/api.md, unchanged through bash, except for the port if 8470 is in use."""

import array
import json
import os
import socket
import subprocess
import tempfile
import unittest

from fixture import Server, read_safetensors

RUN = """curl -s localhost:8470/api/v1/run -H 'content-type: application/json' -d '{
  "inputs":  {"x": [[1, 2, 3], [4, 5, 6]]},
  "nodes":   [{"id": "y", "op": "mul", "in": ["x", 2]},
              {"id": "s", "op": "sum", "in": ["y"], "attrs": {"axis": 1}}],
  "outputs": ["s"]}'"""

GRAD = """curl -s localhost:8470/api/v1/run -H 'content-type: application/json' -d '{
  "inputs":  {"a": [1, 2, 3], "b": [4, 5, 6]},
  "nodes":   [{"id": "ab", "op": "mul", "in": ["a", "b"]},
              {"id": "c",  "op": "add", "in": ["ab", "a"]},
              {"id": "d",  "op": "sum", "in": ["c"]},
              {"id": ["da", "db"], "op": "grad", "in": ["d", "a", "b"]}],
  "outputs": ["c", "da", "db"]}'"""

TENSORS = [
    """curl -s -X PUT 'localhost:8470/api/v1/tensors/w?dtype=float32&shape=784,128' \\
     -H 'content-type: application/octet-stream' --data-binary @w.bin      # raw little-endian""",
    "curl -s localhost:8470/api/v1/tensors                                       # list: shape, dtype, bytes, device",
    "curl -s localhost:8470/api/v1/tensors/w -H 'accept: application/x-safetensors' -o w.safetensors",
    "curl -s -X DELETE localhost:8470/api/v1/tensors/w"]

LINE = [
    """curl -s -X PUT localhost:8470/api/v1/programs/line -H 'content-type: application/json' -d '{
  "inputs":  {"x": {"dtype": "float32", "shape": [4]}, "t": {"dtype": "float32", "shape": [4]}},
  "state":   {"w": [0], "b": [0]},
  "nodes":   [{"id": "wx", "op": "mul", "in": ["x", "w"]},
              {"id": "p",  "op": "add", "in": ["wx", "b"]},
              {"id": "e",  "op": "sub", "in": ["p", "t"]},
              {"id": "e2", "op": "mul", "in": ["e", "e"]},
              {"id": "loss", "op": "mean", "in": ["e2"]},
              {"id": ["w1", "b1"], "op": "sgd", "in": ["loss", "w", "b"], "attrs": {"lr": 0.1}}],
  "updates": {"w": "w1", "b": "b1"},
  "outputs": ["loss"]}'""",
    """curl -s localhost:8470/api/v1/programs/line/run -H 'content-type: application/json' -d '{
  "inputs": {"x": [0, 1, 2, 3], "t": [1, 3, 5, 7]}, "steps": 500}'          # loss near 0""",
    "curl -s localhost:8470/api/v1/programs/line/state                            # w near 2, b near 1"]


def is_free(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(port=8470 if is_free(8470) else 0)
        cls.dir = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()
        assert cls.server.stop() == 0

    def sh(self, line):
        line = line.replace("localhost:8470", f"localhost:{self.server.port}")
        run = subprocess.run(["bash", "-c", line], capture_output=True, cwd=self.dir.name, timeout=120)
        self.assertEqual((0, b""), (run.returncode, run.stderr))
        return run.stdout

    def test_run_compiled_then_cached(self):
        first, second = json.loads(self.sh(RUN)), json.loads(self.sh(RUN))
        for answer in first, second:
            self.assertEqual({"s": {"dtype": "float32", "shape": [2], "data": [12, 30]}}, answer["outputs"])
            self.assertEqual(1, answer["stats"]["kernels"])
        self.assertEqual(("compiled", "cached"), (first["stats"]["plan"], second["stats"]["plan"]))

    def test_a_draw_is_one_kernel(self):
        """No client keeps the random state of a run, so the run does not compute its update."""
        graph = {"nodes": [{"id": "y", "op": "normal", "attrs": {"shape": [100]}}], "outputs": ["y"]}
        self.assertEqual(1, self.server.call("POST", "/api/v1/run", graph).json["stats"]["kernels"])

    def test_grad(self):
        outputs = json.loads(self.sh(GRAD))["outputs"]
        self.assertEqual([[5, 12, 21], [5, 6, 7], [1, 2, 3]], [outputs[n]["data"] for n in ("c", "da", "db")])

    def test_tensors(self):
        data = array.array("f", (i * 0.5 for i in range(784 * 128))).tobytes()
        with open(os.path.join(self.dir.name, "w.bin"), "wb") as file:
            file.write(data)
        self.sh(TENSORS[0])
        listed = json.loads(self.sh(TENSORS[1]))["tensors"]
        self.assertEqual([("w", "float32", [784, 128], len(data))], [(t["name"], t["dtype"], t["shape"], t["bytes"]) for t in listed])
        self.sh(TENSORS[2])
        with open(os.path.join(self.dir.name, "w.safetensors"), "rb") as file:
            self.assertEqual({"w": ("F32", [784, 128], data)}, read_safetensors(file.read())[0])
        self.assertEqual(b"", self.sh(TENSORS[3]))
        self.assertEqual([], json.loads(self.sh(TENSORS[1]))["tensors"])

    def test_program(self):
        self.sh(LINE[0])
        self.assertAlmostEqual(0, json.loads(self.sh(LINE[1]))["outputs"]["loss"]["data"][0], places=3)
        state = json.loads(self.sh(LINE[2]))["state"]
        self.assertAlmostEqual(2, state["w"]["data"][0], places=2)
        self.assertAlmostEqual(1, state["b"]["data"][0], places=2)


if __name__ == "__main__":
    unittest.main()
