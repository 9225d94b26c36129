# SPDX-License-Identifier: MIT
"""The MNIST example: its data, its batches, and training against a server."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import beamline
import curve
import mnist_cnn
import mnist_data
import training
from served import ROOT, SERVER, Server, ServedCase


def accuracy(output):
    """Returns the per cent in the last line of an example's output."""
    return float(re.fullmatch(r"test accuracy ([\d.]+)%", output.strip().splitlines()[-1]).group(1))


def run(*words, **env):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, env={**os.environ, **env})
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class DataTest(unittest.TestCase):
    def test_mnist_is_what_it_should_be(self):
        if mnist_data.find_folder() is None:
            self.skipTest("MNIST is not on this machine")
        digits = mnist_data.load()
        self.assertEqual((digits.train_count, digits.test_count), (60000, 10000))
        self.assertEqual(list(digits.train_labels[:8]), [5, 0, 4, 1, 9, 2, 1, 3])
        self.assertEqual(len(digits.test_images), 10000 * 784)

    def test_a_damaged_file_is_not_used(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "t10k-labels-idx1-ubyte")
            for data in (b"", b"\x1f\x8b", b"\x1f\x8b" + bytes(100), bytes(10008)):
                path.write_bytes(data)
                self.assertIsNone(mnist_data.unpack(data, path.name))

    def test_the_digits_of_scikit_learn(self):
        digits = mnist_data.load_small()
        if digits is None:
            self.skipTest("python3-sklearn is not installed")
        self.assertEqual((digits.train_count, digits.test_count), (1500, 297))
        self.assertEqual((len(digits.train_images), len(digits.test_images)), (1500 * 784, 297 * 784))
        self.assertEqual(max(digits.train_images), 255)

    def test_enlarge(self):
        image = mnist_data.enlarge([[16] + [0] * 7] + [[0] * 8] * 7)
        self.assertEqual(len(image), 784)
        self.assertEqual([i for i, value in enumerate(image) if value == 255], [28 * y + x for y in (2, 3, 4) for x in (2, 3, 4)])


class CurveTest(unittest.TestCase):
    def test_it_is_a_picture(self):
        text = curve.draw("a < b", [5, 10], [2.0, 0.1], [0.1, 0.99], 0.9831)
        self.assertTrue(xml.etree.ElementTree.fromstring(text).tag.endswith("svg"))
        self.assertIn("98.31%", text)


class BatchTest(ServedCase):
    options = ("--backends", "interp", "--log-level", "error")

    def test_no_sample_is_missed_and_none_comes_twice(self):
        for count, size in ((10, 4), (7, 7), (9, 2), (8, 5)):
            p = beamline.Program(step=beamline.array(0, "int64"))
            g = p.entry()
            index = training.draw_batch(g, g.state("step"), count, size)
            g.update({"step": g.state("step") + 1}).output(index=index)
            program = self.client.put_program("batches", p)
            epochs = 6
            steps = -(-epochs * count // size)
            drawn = [number for row in program.run(steps=steps, collect=["index"]).collected["index"].tolist() for number in row]
            parts = [drawn[count * i:count * (i + 1)] for i in range(epochs)]
            with self.subTest(count=count, size=size):
                for part in parts:
                    self.assertEqual(sorted(part), list(range(count)))
                self.assertGreater(len({tuple(part) for part in parts}), 1)
        self.assertRaises(ValueError, training.draw_batch, beamline.Graph(), None, 5, 8)


class TrainingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        cls.server = Server("--log-level", "error")
        cls.devices = [device["id"] for device in beamline.Client(cls.server.url).devices()]

    @classmethod
    def tearDownClass(cls):
        if cls.server.stop() != 0:
            raise AssertionError("the server did not end well")

    def train(self, name, least, *options):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder, "curve.svg")
            output = run(sys.executable, ROOT / "examples" / name, "--url", self.server.url, "--curve", picture, *options)
            self.assertGreaterEqual(accuracy(output), least, output)
            self.assertTrue(xml.etree.ElementTree.parse(picture).getroot().tag.endswith("svg"))

    def test_cnn_on_opencl(self):
        if "opencl:0" not in self.devices:
            self.skipTest("there is no OpenCL device")
        if mnist_data.find_folder() is None:
            self.skipTest("MNIST is not on this machine")
        self.train("mnist_cnn.py", 98, "--device", "opencl:0")

    def test_cnn_on_vulkan(self):
        if "vulkan:0" not in self.devices:
            self.skipTest("there is no Vulkan device")
        # The complete training takes minutes on a CPU: the test runs the first steps, with the accuracy that they reach on
        # OpenCL.
        self.train("mnist_cnn.py", 85, "--device", "vulkan:0", "--steps", "100")

    def test_mlp(self):
        # scikit-learn's digits have 297 test images, on which a good network has 92% accuracy, with an error of 2%.
        self.train("mnist_mlp.py", 88 if mnist_data.find_folder() is None else 93)

    def test_guess(self):
        digits = mnist_data.load()
        client = beamline.Client(self.server.url)
        data, tests = training.upload(client, digits, None)
        p = training.make_program(mnist_cnn.model, mnist_cnn.PARAMETERS, digits, 64, mnist_cnn.optimise)
        program = client.put_program("guess", p)
        program.run(data, entry="train", steps=150)
        right = 0
        for index in range(20):
            guess = program.run({"images": tests["images"], "index": [index]}, entry="guess")
            right += int(guess["digit"].item()) == digits.test_labels[index]
            self.assertTrue(0.1 <= guess["confidence"].item() <= 1)
        self.assertGreaterEqual(right, 15)
        client.close()

    def test_the_shell_script(self):
        if shutil.which("jq") is None or shutil.which("curl") is None:
            self.skipTest("needs curl and jq")
        folder = mnist_data.find_folder()
        if folder is None:
            self.skipTest("MNIST is not on this machine")
        output = run("sh", ROOT / "examples" / "mnist_cnn.sh", "--url", self.server.url, STEPS="100", BEAMLINE_DATA=str(folder))
        self.assertGreaterEqual(accuracy(output), 85, output)


if __name__ == "__main__":
    unittest.main()
