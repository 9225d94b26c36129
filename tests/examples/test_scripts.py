# SPDX-License-Identifier: MIT
"""Example scripts in tinygrad's style: a few steps of each against a server."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from served import ROOT, SERVER, ServedCase, node_lacks


class ScriptTest(ServedCase):
    options = ("--log-level", "error")

    def run_script(self, name, **settings):
        """Returns the output of a script; skips the test if its data is missing."""
        done = subprocess.run([sys.executable, ROOT / "examples" / name], capture_output=True, text=True, timeout=600,
                              env={**os.environ, "BEAMLINE_URL": self.server.url, "BEAMLINE_SEED": "0", **settings})
        if done.returncode != 0 and done.stderr.startswith("skipped:"):
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_job(self):
        if shutil.which("curl") is None:
            self.skipTest("needs curl")
        done = subprocess.run(["sh", ROOT / "examples" / "job.sh", "--url", self.server.url], capture_output=True, text=True, timeout=600, env={**os.environ, "STEPS": "4000"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"state":"done"', done.stdout)
        last = done.stdout.rstrip().splitlines()[-1].split(",")
        self.assertEqual("4000", last[0])
        self.assertLess(float(last[2]), 0.01)
        numbers = [float(text.strip('"[]')) for text in last[3:]]
        self.assertEqual([0, 1, 1, 0], [round(number) for number in numbers], done.stdout)

    def test_mnist_in_javascript(self):
        lacks = node_lacks()
        if lacks:
            self.skipTest(lacks)
        done = subprocess.run(["node", ROOT / "examples" / "mnist.mjs", "200"], capture_output=True, text=True, timeout=600, check=False,
                              env={"BEAMLINE_DATA": str(ROOT.parent / "shared" / "data"), **os.environ, "BEAMLINE_URL": self.server.url})
        if done.stderr.startswith("skipped:"):
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [float(each) for each in re.findall(r"loss ([\d.]+)", done.stdout)]
        self.assertEqual(20, len(losses))
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertGreater(float(re.search(r"test accuracy ([\d.]+) %", done.stdout)[1]), 85)
        written, guessed = (re.search(f"{word}: ([\\d ]+)", done.stdout)[1].split() for word in ("written", "guessed"))
        self.assertGreaterEqual(sum(a == b for a, b in zip(written, guessed)), 7)

    def test_keys(self):
        if shutil.which("curl") is None or shutil.which("jq") is None:
            self.skipTest("needs curl and jq")
        done = subprocess.run(["sh", ROOT / "examples" / "keys.sh", SERVER], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ("without a key: [401,", "bob asks for alice's w: [404,", "and what is it: [10,20,30]", "bob may not change it: [404,"):
            self.assertIn(line, done.stdout)
        self.assertRegex(done.stdout, r"bob in a hurry: \d+ times 429")
        self.assertRegex(done.stdout, r"bob +2\d ")

    def test_onnx_run(self):
        out, _ = self.run_script("onnx_run.py")
        self.assertIn("x: float32 ['rows', 2], run with [1, 2]\n", out)
        self.assertIn("y: float32 [1, 3], largest: [1] 6, [0] 5, [2] 0\n", out)

    def test_beautiful_mnist(self):
        out, _ = self.run_script("beautiful_mnist.py", STEPS="4", BS="16", TEST="64")
        self.assertRegex(out, r"^test accuracy [\d.]+%\n$")

    def test_shakespeare(self):
        out, progress = self.run_script("shakespeare.py", STEPS="40", LAYERS="1", WIDTH="32", BLOCK="16", LETTERS="5")
        self.assertEqual(len(out), 6)
        losses = [float(each) for each in re.findall(r"loss: ([\d.]+)", progress)]
        self.assertLess(losses[-1], losses[0] - 0.5)

    def test_mnist_vae(self):
        out, progress = self.run_script("mnist_vae.py", STEPS="41", BS="8", HIDDEN="24", BEAMLINE_DEVICE="interp:0")
        losses = [float(each) for each in re.findall(r"loss: ([\d.]+)", progress)]
        self.assertLess(losses[-1], losses[0] - 100)
        self.assertEqual((len(out.splitlines()[0]), len(out.splitlines())), (5 * 28 + 4, 15))
        self.assertRegex(out, r"\ntest loss [\d.]+ nats\n$")

    def test_names_lstm(self):
        out, progress = self.run_script("names_lstm.py", STEPS="41", BS="8", LENGTH="6", HIDDEN="24", BEAMLINE_DEVICE="interp:0")
        losses = [float(each) for each in re.findall(r"loss: ([\d.]+)", progress)]
        self.assertLess(losses[-1], losses[0] - 0.2)
        self.assertLessEqual(len(out.split()), 10)
        self.assertTrue(all(word.isalpha() and len(word) <= 6 for word in out.split()), out)

    def test_fashion_mixer(self):
        out, progress = self.run_script("fashion_mixer.py", STEPS="21", BS="16", WIDTH="16", LAYERS="1", TEST="64", BEAMLINE_DEVICE="interp:0")
        losses = [float(each) for each in re.findall(r"loss: ([\d.]+)", progress)]
        self.assertLess(losses[-1], losses[0])
        self.assertRegex(out, r"^test accuracy [\d.]+%\n$")

    def test_stories(self):
        """The words of this model; one program serves all positions."""
        out, err = self.run_script("stories.py", TOKENS="24", BEAMLINE_DEVICE="interp:0")
        self.assertEqual(out, " Once upon a time, there was a little girl named Lily. She loved to play outs\n")
        self.assertIn("23 tokens, 1 program\n", err)

    def test_fashion(self):
        out, _ = self.run_script("fashion.py", EPOCHS="1")
        self.assertGreater(float(re.search(r"test accuracy ([\d.]+)%", out).group(1)), 75)

    def test_remember(self):
        done = subprocess.run([sys.executable, ROOT / "examples" / "remember.py", "--url", self.server.url, "--length", "6", "--steps", "400"],
                              capture_output=True, text=True, timeout=600, check=True)
        errors = [float(each) for each in re.findall(r"squared error ([\d.]+)", done.stdout)]
        self.assertEqual(len(errors), 4)
        self.assertLess(errors[-1], 1 / 12)  # half of the error of a network without memory

    def test_help(self):
        """--help of each example describes the example, and --url sets the address of the server."""
        for path in sorted((ROOT / "examples").iterdir()):
            if path.suffix not in (".py", ".sh") or path.name in ("curve.py", "local.py", "mnist_data.py", "training.py"):
                continue  # these four are modules of the other examples
            with self.subTest(example=path.name):
                done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
                self.assertEqual(0, done.returncode, done.stderr)
                if path.name not in ("keys.sh", "traces.py"):  # keys.sh starts a server, traces.py waits for one
                    self.assertIn("--url", done.stdout)

    def test_progress_is_a_line_where_it_is_piped(self):
        program = "import local; from beamline.helpers import trange\nfor i in trange(50): pass"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT / "examples")
        self.assertEqual(1, done.stderr.count("50/50"), done.stderr)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)

    def test_no_data(self):
        """Without the data, an example says where to get the data."""
        for name in ("beautiful_mnist", "fashion", "fashion_mixer", "host_classifier", "host_story", "mnist_vae", "names_lstm", "shakespeare", "stories"):
            with self.subTest(example=name), tempfile.TemporaryDirectory() as nowhere:
                done = subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py"], capture_output=True, text=True, timeout=600,
                                      env={**os.environ, "BEAMLINE_URL": self.server.url, "BEAMLINE_DATA": "", "XDG_CACHE_HOME": nowhere})
                self.assertEqual(1, done.returncode)
                self.assertRegex(done.stderr, r"^skipped: .*BEAMLINE_DATA.* from https://\S+")


if __name__ == "__main__":
    unittest.main()
