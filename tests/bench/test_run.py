# SPDX-License-Identifier: MIT
"""bench/run.py: turns, ratios, the forms of PyTorch, the networks of the training rows, and rows without and beside PyTorch."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

from served import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import peers
import report
import training_networks
from beamline import Device, nn
from served import ServedCase
from works import WORKS, OurSide, network_step

BUILD = ROOT / "build"


class Worker:
    """A peer whose slices take the given seconds."""

    def __init__(self, label, seconds=(), error=None, compiled=False):
        self.label, self.seconds, self.error, self.compiled, self.orders = label, iter(seconds), error, compiled, []

    def ask(self, **order):
        self.orders.append(order)
        return {"error": self.error} if self.error else {"version": "1"}

    def slice(self, seconds):
        return [next(self.seconds)]


class Turns(unittest.TestCase):
    def test_a_ratio_is_the_median_within_the_rounds(self):
        took = iter([1.0, 2.0, 4.0])
        walls, computes, theirs = peers.take_turns(lambda seconds: ([seconds, next(took), 9], [seconds]), [Worker("a", [4, 4, 4]), Worker("b", [3, 8, 4])],
                                                   types.SimpleNamespace(rounds=3, seconds=0.5))
        self.assertEqual((walls, computes, theirs), ([1, 2, 4], [0.5] * 3, {"a": [4, 4, 4], "b": [3, 8, 4]}))
        found = peers.rates(12, walls, theirs)
        self.assertEqual((found["beamline"], found["peer_rate"], found["peer_all"]), (6, 3, {"a": 3, "b": 3}))
        self.assertEqual((found["peer_best"], found["ratio"], found["ratio_low"], found["ratio_high"]), ("a", 2, 1, 4))
        self.assertEqual(peers.rates(12, walls, {}), {"beamline": 6})

    def test_a_form_that_torch_compile_refuses_is_left_out(self):
        workers = [Worker("passive"), Worker("compile passive", error="InvalidCxxCompiler: no compiler", compiled=True)]
        ready, facts, left_out = peers.prepare(workers, name="x", seconds=1)
        self.assertEqual((ready, facts, left_out), (workers[:1], [{"version": "1"}], {"compile passive": "InvalidCxxCompiler: no compiler"}))
        self.assertEqual([worker.orders for worker in workers], [[{"do": "prepare", "name": "x", "seconds": 1, "compile": compiled}] for compiled in (False, True)])
        with self.assertRaisesRegex(peers.Refused, "^passive: no memory$"):
            peers.prepare([Worker("passive", error="no memory")], name="x", seconds=1)

    def test_a_stopped_process(self):
        done = peers.Stopped("cat", ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(done.process.communicate)
        self.addCleanup(done.process.kill)

        def state():
            return pathlib.Path(f"/proc/{done.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        with done.awake():
            done.process.stdin.write("a\n")
            done.process.stdin.flush()
            self.assertEqual(done.process.stdout.readline(), "a\n")
            self.assertNotEqual(state(), "T")
        while state() != "T":  # a signal takes its time
            time.sleep(0.001)
        self.assertFalse(done.has_ended())


class Networks(ServedCase):
    WEIGHTS = {"resnet18_64": 11689512, "resnet50": 25557032, "mobilenet": 3504872}  # as in torchvision

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Device.connect(cls.server.url)

    def test_weights(self):
        for name, count in self.WEIGHTS.items():
            with self.subTest(name):
                side = OurSide()
                training_networks.NETWORKS[name].make(side)
                self.assertEqual(sum(weight.numel() for weight in nn.state.get_parameters(side.layers) if weight.requires_grad is not False), count)

    def test_a_step_lowers_the_loss(self):
        small = training_networks.NETWORKS["lstm"]._replace(make=lambda s: training_networks.lstm(s, 16, 8, 2), x=[3], y=[3], classes=16, vocabulary=16)
        with tempfile.TemporaryDirectory() as folder:
            step = network_step(small, 2, pathlib.Path(folder))
            losses = [step().item() for _ in range(3)]
            self.assertEqual(len(list(pathlib.Path(folder).iterdir())), 2 + 1 + 2 * 4 + 2)
        self.assertTrue(math.log(16) + 0.5 > losses[0] > losses[1] > losses[2], losses)

    def test_losses_of_one_network(self):
        self.assertTrue(training_networks.is_same([7, 6.001, 5.01], [7, 6, 5]))
        for other in ([7.01, 6, 5], [7, 6.03, 5], [7, 6, 5.05], [7, math.nan, 5]):
            self.assertFalse(training_networks.is_same(other, [7, 6, 5]), other)

    def test_rows(self):
        for name, (network, batch) in training_networks.ROWS.items():
            self.assertTrue(WORKS[name].title.startswith(training_networks.NETWORKS[network].title) and f" b {batch}," in WORKS[name].title, name)


class Rows(unittest.TestCase):
    def call(self, *words, row):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'bench')!r})\nimport run, peers\npeers.torch_python = lambda: None\n"
                                   "sys.exit(run.main())", "--quick", "--only", row, "--out", out, *words], capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout, json.loads((pathlib.Path(out) / "bench.json").read_text())

    def setUp(self):
        if "opencl:0" not in subprocess.run([BUILD / "beamline", "devices", "--state", "none"], capture_output=True, text=True).stdout:
            self.skipTest("there is no OpenCL device")

    def test_without_torch(self):
        out, found = self.call(row="attention_256")
        self.assertIn("PyTorch 2.9 or newer is not installed (--torch PYTHON): the rows have our side only\n", out)
        self.assertEqual([row["title"] for row in found["rows"]], ["4×8×256×64", "4×8×256×64, with gradients"])
        self.assertTrue(all(row["beamline"] > 0 and "ratio" not in row for row in found["rows"]))
        self.assertEqual(report.groups(found), {})

    def test_beside_torch(self):
        python = os.environ.get("BEAMLINE_TORCH")
        if python is None:
            self.skipTest("BEAMLINE_TORCH does not name a Python with PyTorch 2.9")
        _, found = self.call("--torch", python, "--no-compile", row="lstm_8")
        row, = found["rows"]
        self.assertEqual((set(row["peer_all"]), row["wrong"], len(row["losses"])), ({"passive", "active"}, False, training_networks.FIRST_STEPS))
        self.assertTrue(row["ratio_low"] <= row["ratio"] <= row["ratio_high"])


if __name__ == "__main__":
    unittest.main()
