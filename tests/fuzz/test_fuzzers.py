# SPDX-License-Identifier: MIT
"""A sample of the fuzzers: every corpus, and some thousand new inputs with fixed seeds."""
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fuzzers

RUNS, SECONDS = 20000, 20  # limits per fuzzer


class Fuzzers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("clang") is None:
            raise unittest.SkipTest("clang is not installed")
        problem = fuzzers.build()
        if problem:
            raise AssertionError("the fuzzers do not build:\n" + problem[-4000:])

    def test_t29_each(self):
        self.assertGreaterEqual(len(fuzzers.names()), 6)
        for name in fuzzers.names():
            with self.subTest(name=name):
                self.assertGreater(len(list((fuzzers.CORPUS / name).iterdir())), 0, "no corpus")
                with tempfile.TemporaryDirectory() as folder:
                    status, runs, output = fuzzers.run(name, pathlib.Path(folder), "-seed=1", f"-runs={RUNS}", f"-max_total_time={SECONDS}")
                self.assertEqual(0, status, output[-6000:])
                self.assertGreater(runs, 100)


if __name__ == "__main__":
    unittest.main()
