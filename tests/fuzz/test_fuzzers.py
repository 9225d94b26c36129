# SPDX-License-Identifier: MIT
"""A sample of the fuzzers: every corpus again, and a few seconds of new inputs."""
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fuzzers

SECONDS = 3


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
                status, runs, output = fuzzers.run(name, SECONDS)
                self.assertEqual(0, status, output[-3000:])
                self.assertGreater(runs, 100)


if __name__ == "__main__":
    unittest.main()
