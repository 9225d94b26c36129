# SPDX-License-Identifier: MIT
"""bench/sweep.py: the draw, the statistics, and sweeps of small shapes without PyTorch and beside a stand-in for it."""
import contextlib
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from served import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import peers
import shapes
import sweep
from shape_sides import CHAINS_OURS

BUILD = ROOT / "build"
STAND_IN = pathlib.Path(__file__).resolve().parent / "stand_in"


class Draw(unittest.TestCase):
    def test_a_seed_gives_the_same_shapes(self):
        first = shapes.draw(7, 200)
        self.assertEqual(first, shapes.draw(7, 200))
        self.assertNotEqual(first, shapes.draw(8, 200))
        self.assertEqual(first, json.loads(json.dumps(first)))  # a resumed sweep draws what the file has

    def test_all_families_occur(self):
        for count in (len(shapes.FAMILIES), 60, 600):
            with self.subTest(count):
                drawn = shapes.draw(3, count)
                self.assertEqual({shape["family"] for shape in drawn}, set(shapes.FAMILIES))
                self.assertEqual(len({shape["name"] for shape in drawn}), len(drawn))
        self.assertEqual(len(shapes.draw(3, 600)), 600)
        self.assertEqual({shape["family"] for shape in shapes.draw(3, 10, ["conv", "matmul"])}, {"conv", "matmul"})

    def test_apportion(self):
        self.assertEqual(sum(shapes.apportion(600, list(shapes.FAMILIES)).values()), 600)
        self.assertEqual(sum(shapes.apportion(3, list(shapes.FAMILIES)).values()), 3)
        self.assertEqual(shapes.apportion(25, ["conv", "matmul"]), {"conv": 13, "matmul": 12})

    def test_limits(self):
        for shape in (shape for seed in range(4) for shape in shapes.draw(seed, 500)):
            family, p = shapes.FAMILIES[shape["family"]], shape["params"]
            amount, unit = family.amount(p)
            with self.subTest(shape["name"]):
                self.assertTrue(amount > 0 and (unit == "GB/s" or amount <= shapes.MOST_GFLOP))
                self.assertLessEqual(family.held(p), shapes.MOST_BYTES)
                self.assertTrue(all(size >= 1 for given in family.inputs(p).values() for size in given.shape))
                self.assertTrue(shapes.is_sound(p))
                if "ins" in p:
                    self.assertTrue(1 <= max(p["out"]) <= shapes.MOST_EXTENT and max(p["k"]) <= 7 and p["ins"] % p["groups"] == p["outs"] % p["groups"] == 0)

    def test_the_range_of_the_draw(self):
        """Shapes that a sweep must have, over some seeds."""
        drawn = [shape for seed in range(5) for shape in shapes.draw(seed, 600)]
        convs = [shape["params"] for shape in drawn if "ins" in shape["params"]]
        for name, values in (("batch", {1, 64}), ("stride", {1, 2}), ("dilation", {1, 2, 6}), ("extent", {1, 7, 112}), ("ins", {3, 2048})):
            self.assertLessEqual(values, {p[name] for p in convs}, name)
        self.assertLessEqual({1, 2, 3, 4, 5, 6, 7}, {size for p in convs for size in p["k"]})
        self.assertEqual({shape["params"]["of"] for shape in drawn if shape["family"] == "grouped"}, {"y", "x", "w"})
        attentions = [shape["params"] for shape in drawn if shape["family"] == "attention"]
        self.assertTrue(any(p["causal"] for p in attentions) and any(p["kv_heads"] < p["heads"] for p in attentions))
        self.assertTrue(any(p["queries"] == 1 for p in attentions))
        for family, kinds in (("norm", {"layer", "rms", "group", "batch", "inference"}), ("gather", {"embedding", "rows", "labels", "embedding_grad"}),
                              ("pool", {"max", "avg", "max_grad", "avg_grad"}), ("reduce", {"sum", "mean", "max", "squares", "var"}),
                              ("chain", set(shapes.CHAINS))):
            self.assertEqual({shape["params"]["kind"] for shape in drawn if shape["family"] == family}, kinds, family)
        self.assertEqual(set(shapes.CHAINS), set(CHAINS_OURS))


class Amounts(unittest.TestCase):
    def test_work(self):
        conv = {"batch": 2, "ins": 8, "outs": 16, "extent": 5, "out": [5, 3], "k": [3, 1], "stride": 1, "padding": [1, 0], "dilation": 1, "groups": 4}
        self.assertEqual(shapes.FAMILIES["conv"].amount(conv), (2e-9 * 2 * 16 * 15 * 2 * 3, "GFLOP/s"))
        self.assertEqual(shapes.FAMILIES["conv_w"].result(conv), [16, 2, 3, 1])
        product = {"m": 3, "n": 4, "k": 5, "form": "tn", "then": "none"}
        self.assertEqual({name: given.shape for name, given in shapes.FAMILIES["matmul"].inputs(product).items()}, {"a": [5, 3], "b": [5, 4]})
        self.assertEqual(shapes.FAMILIES["softmax"].amount({"shape": [10, 100], "axis": 1, "log": False}), (1e-9 * 8000, "GB/s"))
        name = shapes.shape_name("conv", conv)
        self.assertEqual(name, "conv batch=2 ins=8 outs=16 extent=5 k=3x1 padding=1x0 groups=4")

    def test_a_batch_is_halved(self):
        p = {"shape": [64, 8, 4, 4], "kind": "batch"}
        self.assertEqual(shapes.with_batch(p, 32)["shape"], [32, 8, 4, 4])
        self.assertEqual(shapes.batch_of({"m": 9, "k": 5, "form": "tn"}), 5)
        self.assertFalse(shapes.is_sound({"shape": [1, 8, 2, 2], "kind": "batch"}))

    def test_a_transpose_moves_elements(self):
        for shape, axes, sound in (([4, 1, 7, 1], [0, 1, 3, 2], False), ([4, 2, 7, 1], [0, 2, 1, 3], True), ([1, 5], [1, 0], False)):
            self.assertEqual(shapes.is_sound({"shape": shape, "axes": axes}), sound, shape)


def row(family, ratio, **more):
    return {"name": f"{family} {ratio}", "family": family, "source": "test", "unit": "GB/s", "beamline": ratio, "peer_rate": 1.0, "ratio": ratio,
            "moves": {"kernel": f"moves of {ratio}"}, **more}


class Statistics(unittest.TestCase):
    def test_percentile(self):
        self.assertEqual(sweep.percentile([3, 1, 2], 0.5), 2)
        self.assertEqual(sweep.percentile([1, 2], 0.05), 1.05)
        self.assertEqual(sweep.percentile([5], 0.05), 5)
        self.assertAlmostEqual(sweep.percentile(range(101), 0.05), 5)

    def test_summary(self):
        rows = [row("conv", 0.4), row("conv", 2.0), row("matmul", 1.0), row("matmul", 9.0, wrong=True), {"name": "x", "family": "norm", "error": "no"}]
        found = sweep.summary(rows)
        self.assertEqual(list(found), ["conv", "matmul", "all"])
        self.assertEqual((found["all"]["shapes"], found["all"]["median"], found["all"]["least"]), (3, 1.0, 0.4))
        self.assertEqual((found["all"]["below_1"], found["all"]["below_half"]), (1, 1))
        self.assertAlmostEqual(found["conv"]["p5"], 0.48)
        self.assertEqual(sweep.summary([]), {})

    def conclude(self, rows, count):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            return sweep.conclude(rows, count), out.getvalue()

    def test_the_worst_rows(self):
        status, out = self.conclude([row("conv", value) for value in (3.0, 0.5, 1.0)], 2)
        self.assertEqual(status, 0)
        self.assertLess(out.index("conv 0.5"), out.index("moves of 0.5"))
        self.assertLess(out.index("moves of 0.5"), out.index("conv 1.0"))
        self.assertNotIn("conv 3.0", out)

    def test_a_wrong_or_failed_shape_fails_the_sweep(self):
        for bad, said in ((row("conv", 1.0, wrong=True, results=[{"apart": 0.25, "worst": 9.0}]), "wrong: 0.25 of the elements differ (by 9 times the bound)"),
                          ({"name": "conv a", "family": "conv", "error": "refused"}, "failed conv a: refused")):
            with self.subTest(said):
                status, out = self.conclude([row("conv", 2.0), bad], 1)
                self.assertEqual(status, 1)
                self.assertIn("1 shapes are wrong or failed", out)
                self.assertIn(said, out)

    def test_words(self):
        with unittest.mock.patch.object(peers, "torch_python", lambda: None), contextlib.redirect_stdout(io.StringIO()):
            options = sweep.parse(["--families", "conv,matmul"])
            self.assertEqual(options.families, ["conv", "conv_x", "conv_w", "matmul"])
            self.assertNotEqual(options.seed, sweep.parse([]).seed)
        for words, said in ((["--families", "convs"], "--families convs: there is no such family; there are conv, "), (["--shapes", "0"], "--shapes is 0; it must be at least 1"),
                            (["--torch", "/bin/false"], "--torch /bin/false: PyTorch is not there; it must be 2.9 or newer")):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as out:
                self.assertRaises(SystemExit, sweep.parse, words)
                self.assertIn(said, out.getvalue())
        self.assertEqual([peers.is_new(version) for version in ("1.13.0a0", "2.9.1+cu128", "2.10.0")], [False, True, True])


class SmallSweep(unittest.TestCase):
    """Sweeps of few shapes; a program beside this file stands in for a Python with PyTorch."""

    @classmethod
    def setUpClass(cls):
        listed = subprocess.run([BUILD / "beamline", "devices", "--state", "none"], capture_output=True, text=True).stdout
        if "opencl:0" not in listed:
            raise unittest.SkipTest("there is no OpenCL device")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = pathlib.Path(self.folder) / "sweep.json"

    def call(self, *words, **env):
        done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'bench')!r})\nimport shapes, sweep, peers\n"
                               "peers.torch_python = lambda: None\nshapes.MOST_GFLOP, shapes.MOST_BYTES = 1e-3, 1 << 16\nsys.exit(sweep.main(sys.argv[1:]))",
                               "--seconds", "0.01", "--repeat", "1", *map(str, words)], capture_output=True, text=True, timeout=300, env={**os.environ, **env})
        return done.returncode, done.stdout, done.stderr

    def stand_in(self):
        """A Python that imports tests/bench/stand_in/torch."""
        python = pathlib.Path(self.folder) / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={STAND_IN} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return python

    def test_without_torch(self):
        status, out, said = self.call("--shapes", len(shapes.FAMILIES), "--seed", 5, "--out", self.out)
        self.assertEqual(status, 0, out + said)
        self.assertIn("PyTorch 2.9 or newer is not installed (--torch PYTHON): the rows have our side only\n", out)
        self.assertIn(f"seed 5, {len(shapes.FAMILIES)} shapes, opencl:0, PyTorch None\n", out)
        report = json.loads(self.out.read_text())
        self.assertEqual({row["family"] for row in report["rows"]}, set(shapes.FAMILIES))
        self.assertTrue(all(row["beamline"] > 0 and row["moves"] and "ratio" not in row for row in report["rows"]), report)
        self.assertEqual((report["seed"], report["torch"], report["summary"]), (5, None, {}))

    def test_beside_a_stand_in(self):
        words = ["--torch", self.stand_in(), "--shapes", 4, "--seed", 2, "--families", "softmax,transpose", "--out", self.out]
        status, out, said = self.call(*words, "--compile", "--worst", 2)
        self.assertEqual(status, 0, out + said)
        report = json.loads(self.out.read_text())
        for row in report["rows"]:
            self.assertEqual(set(row["peer_all"]), {"passive", "active", "compile passive", "compile active"})
            self.assertFalse(row["wrong"])
            self.assertTrue(math.isclose(row["ratio"], row["beamline"] / row["peer_rate"]), row)  # of a single round
        self.assertRegex(out, r"\nall +4 ")
        self.assertIn("\nthe 2 lowest ratios", out)

        # A resumed sweep measures the missing shapes alone, with the seed and families of the file.
        kept = report["rows"][:3]
        self.out.write_text(json.dumps({**report, "rows": kept}))
        status, out, said = self.call("--torch", self.stand_in(), "--resume", self.out)
        self.assertEqual(status, 0, out + said)
        self.assertEqual(out.count(" of 4 "), 1)
        self.assertIn("\n   4 of 4 ", out)
        again = json.loads(self.out.read_text())
        self.assertEqual([row["name"] for row in again["rows"]], [row["name"] for row in report["rows"]])
        self.assertEqual(again["rows"][:3], kept)

        self.out.write_text(json.dumps({**report, "rows": [{**kept[0], "name": "another"}]}))
        status, _, said = self.call("--resume", self.out)
        self.assertEqual(status, 1)
        self.assertIn("another version of bench/shapes.py drew its shapes", said)

    def test_wrong_values(self):
        for how, told in (("wrong", r"wrong: [\d.e-]+ of the elements differ \(by "), ("fails", r"failed softmax .*Refused: passive: RuntimeError: softmax fails")):
            with self.subTest(how):
                status, out, said = self.call("--torch", self.stand_in(), "--shapes", 1, "--seed", 2, "--families", "softmax", BEAMLINE_STAND_IN=how)
                self.assertEqual(status, 1, out + said)
                self.assertRegex(out, told)
                self.assertIn("\n1 shapes are wrong or failed:\n", out)


if __name__ == "__main__":
    unittest.main()
