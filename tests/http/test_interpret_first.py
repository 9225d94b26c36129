# SPDX-License-Identifier: MIT
"""A small graph without compiled kernels is interpreted at once; the compiled kernels replace the interpreter between two
runs."""

import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from fixture import Server, counter

RUN = "/api/v1/run"
SMALL = 20
STEP = pathlib.Path(__file__).resolve().parents[2] / "bench" / "small_resnet.py"
MOST_COMPILED = 40  # files of compiled kernels after the step: 24, or 86 if the interpreter may take only 0.1 s per run
SECONDS = 5  # limit for all steps: the interpreter takes 0.1 s, a driver's compiler 0.25 s for each


def graph(i, **members):
    """Returns a graph with a unique kernel and a rounded result."""
    return {"inputs": {"x": [1.5, 2.25, 3.125]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", i + 2]}, {"id": "z", "op": "exp", "in": ["y"]}], "outputs": ["y", "z"], **members}


def drawn(op, attrs, then=None):
    """Returns a graph that applies |then| to random numbers in one kernel."""
    nodes = [{"id": "r", "op": op, "attrs": {"shape": [3, 40], **attrs}}, *([{"id": "y", "op": then, "in": ["r"]}] if then else [])]
    return {"inputs": {}, "nodes": nodes, "outputs": [nodes[-1]["id"]], "seed": 3}


DRAWS = [drawn("uniform", {}), drawn("uniform", {"low": -0.3, "high": 1.7}), drawn("normal", {}), drawn("normal", {"mean": 0.1, "std": 3}),
         drawn("uniform", {"dtype": "float16"}), drawn("normal", {"dtype": "bfloat16"}), drawn("randint", {"high": 1000}), drawn("normal", {"dtype": "float64"}),
         *(drawn("normal", {}, op) for op in ("exp", "sin", "tanh", "gelu", "softmax", "std", "cumsum", "sigmoid")),
         *(drawn("uniform", {"low": 1e-3, "high": 90}, op) for op in ("log", "exp", "cos", "sqrt", "reciprocal", "mean"))]


# Results of exp from 0 over denormals to infinity, and ties of the rounded exponent. 1,024 of them are whole vectors.
EXPONENTS = [-1e30, -104.5, -103.98, -103.9, 89.5, 88.7228, 88.73, 0, 1e-30, *(k * math.log(2) / 2 for k in range(-300, 257)),
             *(-104 + i * 193 / 457 for i in range(458))]
EXPONENTIALS = {"inputs": {"x": EXPONENTS}, "nodes": [{"id": "y", "op": "exp", "in": ["x"]}, {"id": "z", "op": "sigmoid", "in": ["x"]}], "outputs": ["y", "z"]}


PROGRAM = {"inputs": {"x": {"dtype": "float32", "shape": [3]}}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 7.5]}], "outputs": ["y"]}
INPUT = {"inputs": {"x": [1, 2, 3]}}


class InterpretFirst(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.env = {"BEAMLINE_CACHE": folder.name, "POCL_CACHE_DIR": os.path.join(folder.name, "pocl")}
        os.mkdir(self.env["POCL_CACHE_DIR"])

    def serve(self, *args, **env):
        server = Server("--backends", "opencl,interp", "--tune=off", *args, env={**self.env, **env})
        self.addCleanup(server.stop)
        if not any(device["id"] == "opencl:0" for device in server.call("GET", "/api/v1/devices").json["devices"]):
            self.skipTest("no OpenCL device")
        return server

    def run_it(self, server, document, path=RUN):
        """Returns (outputs, stats)."""
        answer = server.call("POST", path, document, timeout=120)
        self.assertEqual(200, answer.status, answer.body)
        return {name: value["data"] for name, value in answer.json["outputs"].items()}, answer.json["stats"]

    def until_compiled(self, server, document, path=RUN):
        """Returns the outputs of the first run with compiled kernels only."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            outputs, stats = self.run_it(server, document, path)
            if stats["interpreted"] == 0:
                return outputs
            time.sleep(0.05)
        self.fail("still interpreted after a minute\n" + server.log_text()[-2000:])

    def check(self, i, outputs):
        self.assertEqual([1.5 * (i + 2), 2.25 * (i + 2), 3.125 * (i + 2)], outputs["y"])

    def test_at_once(self):
        server = self.serve()
        begin = time.monotonic()
        for i in range(SMALL):
            outputs, stats = self.run_it(server, graph(i))
            self.check(i, outputs)
            self.assertEqual((1, "compiled"), (stats["interpreted"], stats["plan"]))
        self.assertLess(time.monotonic() - begin, SECONDS)
        self.assertEqual(SMALL, server.metric("runs_interpreted_total"))
        self.assertEqual(0, server.metric("plans_promoted_total"))  # a graph that runs once is not compiled

    def test_takeover(self):
        server = self.serve()
        first = [self.run_it(server, graph(i))[0] for i in range(4)]
        for i in range(4):
            later = self.until_compiled(server, graph(i))
            self.check(i, later)
            self.assertEqual(first[i], later)
            self.assertEqual(later, self.run_it(server, graph(i))[0])
        self.assertEqual(4, server.metric("plans_promoted_total"))

    def test_compiled_where_asked(self):
        server = self.serve()
        self.assertEqual(0, self.run_it(server, graph(0, debug=4))[1]["interpreted"])
        off = self.serve("--interpret-first=off")
        self.assertEqual(0, self.run_it(off, graph(1))[1]["interpreted"])

    def test_random_numbers_have_the_bits_of_compiled_kernels(self):
        server = self.serve()
        first = [self.run_it(server, document) for document in DRAWS]
        # compilation takes most of the time; only exp, log and sin of float64 use the driver's functions
        self.assertEqual([document for document in DRAWS if "float64" in str(document)],
                         [document for document, (_, stats) in zip(DRAWS, first) if not stats["interpreted"]])
        for document, (outputs, _) in zip(DRAWS, first):
            self.assertEqual(outputs, self.until_compiled(server, document), document)

    def test_exponentials_have_the_bits_of_compiled_kernels(self):
        server = self.serve()
        outputs, stats = self.run_it(server, EXPONENTIALS)
        self.assertEqual((1, 1024), (stats["interpreted"], len(EXPONENTS)))
        self.assertEqual(outputs, self.until_compiled(server, EXPONENTIALS))
        for x, y in zip(EXPONENTS, outputs["y"]):
            if -87 < x < 88:
                self.assertLess(abs(y / math.exp(x) - 1), 4e-7 + abs(x) * 1e-7, x)

    def test_new_random_operations_wait_for_no_compiler(self):
        server = self.serve()
        for i in range(SMALL):
            _, stats = self.run_it(server, {**drawn(("uniform", "normal")[i % 2], {"shape": [4, 5 + i]}, ("exp", "log", "relu", "sum", "softmax")[i % 5])})
            self.assertEqual(stats["kernels"], stats["interpreted"])
        self.assertEqual(SMALL, server.metric("runs_interpreted_total"))
        self.assertEqual(0, server.metric("plans_promoted_total"))

    def test_most_kernels_of_a_first_training_step_wait_for_no_compiler(self):
        losses = []
        for args in ((), ("--interpret-first=off",)):
            server = self.serve(*args)
            step = subprocess.run([sys.executable, STEP], env={**os.environ, "BEAMLINE_URL": f"http://127.0.0.1:{server.port}"}, capture_output=True, text=True, timeout=300)
            self.assertEqual(0, step.returncode, step.stderr)
            losses.append(step.stdout.split()[0])
            compiled = len(list(pathlib.Path(self.env["BEAMLINE_CACHE"]).rglob("*.clbin")))
            if not args:
                self.assertLess(compiled, MOST_COMPILED)
        self.assertGreater(compiled, MOST_COMPILED)
        self.assertEqual(losses[0], losses[1])  # bit-identical

    def test_programs(self):
        """A program without state is interpreted, but only for few steps; a program that changes its state is never
        interpreted."""
        server = self.serve()
        self.assertIn(server.call("PUT", "/api/v1/programs/p", PROGRAM).status, (200, 201))
        self.assertEqual(1, self.run_it(server, INPUT, "/api/v1/programs/p/run")[1]["interpreted"])
        outputs, stats = self.run_it(server, {**INPUT, "steps": 3}, "/api/v1/programs/p/run")
        self.assertEqual(([7.5, 15.0, 22.5], 0), (outputs["y"], stats["interpreted"]))
        self.assertEqual(0, self.run_it(server, INPUT, "/api/v1/programs/p/run")[1]["interpreted"])
        self.assertIn(server.call("PUT", "/api/v1/programs/c", counter()).status, (200, 201))
        self.assertEqual(0, self.run_it(server, {}, "/api/v1/programs/c/run")[1]["interpreted"])

    def test_a_compiler_that_dies_leaves_the_interpreter(self):
        server = self.serve(BEAMLINE_FAULT="child:1+1")
        for _ in range(3):
            self.check(0, self.run_it(server, graph(0))[0])
        lines = server.wait_log(lambda lines: any("keeps running in the interpreter" in line for line in lines), 60)
        self.assertTrue(any("crashes on kernel" in line for line in lines if "keeps running in the interpreter" in line), lines[-5:])
        outputs, stats = self.run_it(server, graph(0))
        self.check(0, outputs)
        self.assertEqual(1, stats["interpreted"])

    def test_a_server_that_ends_meanwhile(self):
        server = self.serve()
        for i in range(SMALL):
            for _ in range(2):
                self.run_it(server, graph(i))
        time.sleep(0.3)
        self.assertEqual(0, server.stop(), server.log_text()[-2000:])

    def test_a_plan_that_is_dropped_meanwhile(self):
        server = self.serve("--max-plans", "2")
        for turn in range(3):
            for i in range(6):
                for _ in range(2):
                    self.check(i, self.run_it(server, graph(i))[0])
        self.check(0, self.until_compiled(server, graph(0)))


if __name__ == "__main__":
    unittest.main()
