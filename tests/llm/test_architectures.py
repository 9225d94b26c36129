# SPDX-License-Identifier: MIT
"""Tiny random models of every architecture: Hugging Face folders against transformers, GGUF files against llama.cpp.

The test is skipped unless $BEAMLINE_TRANSFORMERS is a Python with transformers.  If $BEAMLINE_LLAMA_CPP is the source of
llama.cpp and that Python has llama_cpp, the models are also converted and compared.  The models are made once in
$BEAMLINE_TINY_MODELS, or in a temporary folder.
"""
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import numpy as np

import architectures
import asking
from served import Server

PYTHON, SOURCE = os.environ.get("BEAMLINE_TRANSFORMERS"), os.environ.get("BEAMLINE_LLAMA_CPP")
MOST = {"hub": 1e-9, "gguf": 1e-6, "foreign/hub": 1e-6, "foreign/gguf": 1e-6}  # llama.cpp's GELU is a table of float16


@unittest.skipUnless(PYTHON, "$BEAMLINE_TRANSFORMERS names no Python with transformers")
class Architectures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        own = tempfile.TemporaryDirectory()
        cls.addClassCleanup(own.cleanup)
        cls.folder = pathlib.Path(os.environ.get("BEAMLINE_TINY_MODELS", own.name))
        if not (cls.folder / "hub").exists():
            words = [PYTHON, architectures.__file__, str(cls.folder), *([SOURCE] if SOURCE else [])]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def serve(self, folder):
        """Returns a server with the models of a folder, and the expected results of each."""
        server = Server("--models", str(folder))
        self.addCleanup(server.stop)
        while "error" in asking.call(f"{server.url}/v2/health/ready"):
            time.sleep(0.1)
        expected = {path.parent.name: np.load(path).astype(np.float64) for path in sorted(folder.glob("*/expected.npy"))}
        reasons = {row["name"]: row.get("reason") for row in asking.call(f"{server.url}/v2/repository/index", {})}
        self.assertEqual({}, {name: reasons[name] for name in expected if reasons[name] != ""})
        return server, expected

    def compare(self, kind):
        server, expected = self.serve(self.folder / kind)
        for name, logits in expected.items():
            for n in architectures.LENGTHS:
                with self.subTest(name, n=n):
                    self.assertLess(asking.error(asking.logits(server.url, name, architectures.TOKENS[:n], architectures.VOCABULARY), logits[n - 1]), MOST[kind])
        return len(expected)

    def compare_vectors(self, kind):
        server, expected = self.serve(self.folder / "encoders" / kind)
        texts = [architectures.TOKENS[:n] for n in architectures.LENGTHS]
        for name, wanted in expected.items():
            for asked in ([0], [1], [2], [0, 1, 2]):
                with self.subTest(name, asked=asked):
                    got = asking.vectors(server.url, name, [texts[i] for i in asked])
                    self.assertLess(((got - wanted[asked]) ** 2).sum() / (wanted[asked] ** 2).sum(), MOST[kind])
        return len(expected)

    def test_folders(self):
        self.assertEqual(self.compare("hub"), len(architectures.MODELS))

    @unittest.skipUnless(SOURCE, "$BEAMLINE_LLAMA_CPP names no source of llama.cpp")
    def test_files(self):
        self.assertGreaterEqual(self.compare("gguf"), 35)

    @unittest.skipUnless(SOURCE, "$BEAMLINE_LLAMA_CPP names no source of llama.cpp")
    def test_what_transformers_lacks(self):
        for kind in ("foreign/hub", "foreign/gguf"):
            self.assertEqual(self.compare(kind), len(architectures.FOREIGN))

    def test_vectors_of_folders(self):
        self.assertEqual(self.compare_vectors("hub"), len(architectures.ENCODERS))

    @unittest.skipUnless(SOURCE, "$BEAMLINE_LLAMA_CPP names no source of llama.cpp")
    def test_vectors_of_files(self):
        self.assertEqual(self.compare_vectors("gguf"), len(architectures.ENCODERS))


if __name__ == "__main__":
    unittest.main()
