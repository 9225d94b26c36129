# SPDX-License-Identifier: MIT
"""bench/networks.py: its rows and inputs, a hosted network without a peer and, where the packages are, beside onnxruntime."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from served import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import networks
import report
import sizes


class Rows(unittest.TestCase):
    def test_rows(self):
        self.assertEqual(len({name for name, _, _ in networks.ROWS.values()}), 20)
        self.assertEqual([row for row in networks.ROWS if row.startswith("minilm")], ["minilm_1x16", "minilm_1x64", "minilm_1x256", "minilm_8x64", "minilm_32x32", "minilm_32x128"])
        self.assertEqual(networks.ROWS["resnet18_b8"], ("resnet18", 8, sizes.ONNX_LENGTH))

    def test_inputs(self):
        found = networks.draw("minilm", 2, 3)
        self.assertEqual({name: (value.dtype, value.shape) for name, value in found.items()}, {name: ("int64", (2, 3)) for name in ("input_ids", "attention_mask", "token_type_ids")})
        self.assertEqual(bytes(found["attention_mask"].data), bytes([1, *[0] * 7]) * 6)
        self.assertEqual(networks.draw("unet", 1, 3)["x"].shape, (1, 3, 128, 128))
        self.assertEqual(bytes(networks.draw("minilm", 2, 3)["input_ids"].data), bytes(found["input_ids"].data))

    def test_words(self):
        for words, said in ((["--only", "resnet"], "--only resnet: there is no such row; there are convnext_tiny_b1, "),
                            (["--onnxruntime", "/bin/false"], "--onnxruntime /bin/false: it has no onnxruntime")):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as out:
                self.assertRaises(SystemExit, networks.parse, words)
                self.assertIn(said, out.getvalue())

    def test_a_missing_network(self):
        with tempfile.TemporaryDirectory() as cache, contextlib.redirect_stdout(io.StringIO()) as out:
            options = networks.parse(["--cache", cache, "--only", "unet,resnet18"])
            self.assertEqual(options.rows, ["resnet18_b1", "resnet18_b8", "unet_b1", "unet_b8"])
            (options.cache / "unet.onnx").touch()
            self.assertEqual(networks.export(["resnet18", "unet"], options), ["unet"])
        self.assertIn(f"not in {cache}: resnet18; --torch PYTHON exports them\n", out.getvalue())
        self.assertIn("onnxruntime is not given (--onnxruntime PYTHON): the rows have our side only\n", out.getvalue())


class Tables(unittest.TestCase):
    def test_a_table_has_a_column_for_each_batch(self):
        rows = [{"title": f"net, batch {batch}", "unit": "samples/s", "peer": "onnxruntime", "goal": 0.9, "beamline": 10.0 * batch, "ratio": ratio} for batch, ratio in ((1, 0.5), (8, 2.0))]
        self.assertEqual(report.cross_table(rows), ["| samples/s; times onnxruntime's rate | batch 1 | batch 8 |", "| --- | --- | --- |", "| net | 10.0; **0.50** | 80.0; **2.00** |",
                                                    "", "Below 0.9, the goal: net, batch 1 (0.50) of 2; the geometric mean is 1.00."])

    def test_what_is_wrong(self):
        row = {"title": "net", "unit": "samples/s", "goal": 1, "beamline": 1.0, "wrong": True, "results": [{"apart": 0.5, "worst": 7.0}]}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            report.print_row(row)
        self.assertIn("  wrong: 0.5 of the elements differ (by 7 times the bound)  samples/s\n", out.getvalue())


class Hosted(unittest.TestCase):
    """A network of few layers that PyTorch exports; the real ones take seconds each."""

    def setUp(self):
        self.python = os.environ.get("BEAMLINE_ONNXRUNTIME")
        if self.python is None:
            self.skipTest("BEAMLINE_ONNXRUNTIME does not name a Python with onnxruntime, torch and onnxscript")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def call(self, *words):
        done = subprocess.run([sys.executable, ROOT / "bench" / "networks.py", "--quick", "--out", self.folder, "--cache", self.folder, "--only", "super_resolution_b1", *words],
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((pathlib.Path(self.folder) / "networks.json").read_text())["rows"]

    def test_beside_onnxruntime(self):
        row, = self.call("--onnxruntime", self.python, "--torch", self.python)
        self.assertEqual((row["wrong"], row["peer_best"]), (False, "onnxruntime"))
        self.assertTrue(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] and row["results"][0]["worst"] <= 1)
        row, = self.call()  # from the cache
        self.assertTrue(row["beamline"] > 0 and "ratio" not in row)


if __name__ == "__main__":
    unittest.main()
