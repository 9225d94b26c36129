# SPDX-License-Identifier: MIT
"""Tiny random models of every architecture: Hugging Face folders beside transformers, and GGUF files of them beside llama.cpp.

Skipped unless $BEAMLINE_TRANSFORMERS is a Python with transformers.  Where $BEAMLINE_LLAMA_CPP is the source of llama.cpp, and that Python has llama_cpp,
the models are converted and compared too.  The models lie in $BEAMLINE_TINY_MODELS, where they are made once, or in a folder of the test's own.
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
MOST = {"hub": 1e-9, "gguf": 1e-6}  # llama.cpp's GELU is a table of float16
LENGTHS = (1, 7, len(architectures.TOKENS))


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

    def compare(self, kind):
        server = Server("--models", str(self.folder / kind))
        self.addCleanup(server.stop)
        while "error" in asking.call(f"{server.url}/v2/health/ready"):
            time.sleep(0.1)
        reasons = {row["name"]: row.get("reason") for row in asking.call(f"{server.url}/v2/repository/index", {})}
        expected = {path.parent.name: np.load(path).astype(np.float64) for path in sorted((self.folder / kind).glob("*/expected.npy"))}
        for name, logits in expected.items():
            for n in LENGTHS:
                with self.subTest(name, n=n):
                    self.assertEqual(reasons[name], "")
                    self.assertLess(asking.error(asking.logits(server.url, name, architectures.TOKENS[:n], architectures.VOCABULARY), logits[n - 1]), MOST[kind])
        return len(expected)

    def test_folders(self):
        self.assertEqual(self.compare("hub"), len(architectures.MODELS))

    @unittest.skipUnless(SOURCE, "$BEAMLINE_LLAMA_CPP names no source of llama.cpp")
    def test_files(self):
        self.assertGreaterEqual(self.compare("gguf"), 35)


if __name__ == "__main__":
    unittest.main()
