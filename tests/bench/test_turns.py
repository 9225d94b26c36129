# SPDX-License-Identifier: MIT
"""bench/turns.py: its statistics, and a build beside itself."""
import contextlib
import io
import re
import subprocess
import sys
import unittest

from served import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import turns

BUILD = ROOT / "build"
ROW = "matmul_128x128x784"


class Clock:
    """A work whose slices take these seconds, one after the other, on either side."""

    unit, amount = "things/s", 6.0

    def __init__(self, old, new):
        self.seconds, self.asked = [iter(old), iter(new)], []
        self.sides = iter((0, 1))

    def prepare(self, client, device):
        side = next(self.sides)

        def measure(seconds):
            if seconds < 1:  # a warming slice
                return [0], [0]
            self.asked.append(side)
            return [], [next(self.seconds[side])]
        return measure, {"moves": {"k": f"moves of {device}"}}


class Client:
    def lease(self, seconds):
        return self

    def end(self):
        pass


class Statistics(unittest.TestCase):
    def compare(self, old, new, *words):
        """(ratio, sides in the order of their slices, what was printed)"""
        options = turns.parse(["a", "b", "--seconds", "1", *words])
        work = turns.ROWS["clock"] = Clock(old, new)
        self.addCleanup(turns.ROWS.pop, "clock", None)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found = turns.compare("clock", (Client(), Client()), options)
        return found, work.asked, out.getvalue()

    def test_a_ratio_is_the_median_of_the_pairs(self):
        found, asked, said = self.compare([2, 4, 3], [1, 4, 2], "--repeat", "3")
        self.assertEqual(found, 1.5)
        self.assertEqual(asked, [0, 1, 1, 0, 0, 1])
        self.assertRegex(said, r"^clock +2\.0 +3\.0 things/s +1\.500 \(1\.000 to 2\.000\)\n$")

    def test_a_slow_row_is_measured_again(self):
        found, asked, _ = self.compare([1, 1], [2, 1], "--repeat", "1")
        self.assertEqual((found, len(asked)), (0.75, 4))
        found, asked, said = self.compare([1, 1], [1, 2], "--repeat", "1")
        self.assertEqual((found, len(asked)), (1, 2))
        self.assertNotIn("<", said)

    def test_a_row_that_stays_slow_is_marked(self):
        found, _, said = self.compare([1, 1], [2, 2], "--repeat", "1")
        self.assertEqual(found, 0.5)
        self.assertTrue(said.endswith("<\n"), said)

    def test_the_exit_status(self):
        for ratios, least, status, said in (({"a": 2.0, "b": 0.5}, 0.4, 0, "geometric mean of 2 rows: 1.000; the least is 0.500\n"),
                                            ({"a": 2.0, "b": 0.5}, 0.97, 1, "geometric mean of 2 rows: 1.000; the least is 0.500\nbelow 0.97: b\n")):
            with self.subTest(least), contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(turns.conclude(ratios, least), status)
                self.assertEqual(out.getvalue(), said)

    def test_words(self):
        self.assertGreater(len(turns.parse(["a", "b"]).names), 50)
        self.assertTrue(all(name.startswith("depthwise") for name in turns.parse(["a", "b", "--rows", "^depthwise"]).names))
        for words, said in ((["--rows", "nothing"], "--rows nothing: no kernel row matches; there are matmul_"), (["--repeat", "0"], "--repeat is 0; it must be at least 1")):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as out:
                self.assertRaises(SystemExit, turns.parse, ["a", "b", *words])
                self.assertIn(said, out.getvalue())


class BesideItself(unittest.TestCase):
    def call(self, *words):
        done = subprocess.run([sys.executable, ROOT / "bench" / "turns.py", *words], capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, done.stderr

    @classmethod
    def setUpClass(cls):
        listed = subprocess.run([BUILD / "beamline", "devices", "--state", "none"], capture_output=True, text=True).stdout
        if "opencl:0" not in listed:
            raise unittest.SkipTest("there is no OpenCL device")

    def test_a_build_beside_itself(self):
        for least, status in (("0.01", 0), ("100", 1)):
            with self.subTest(least):
                found, out, said = self.call(BUILD, BUILD, "--rows", f"^{ROW}$", "--repeat", "2", "--seconds", "0.02", "--least", least)
                self.assertEqual(found, status, said + out)
                row = re.search(rf"^{ROW} +([\d.]+) +([\d.]+) GFLOP/s +([\d.]+) \(([\d.]+) to ([\d.]+)\)(.*)$", out, re.M)
                self.assertTrue(row, out)
                old, new, ratio, low, high = map(float, row.groups()[:5])
                self.assertTrue(old > 0 and new > 0 and low <= ratio <= high, out)
                self.assertEqual(row[6], "  <" if status else "")  # and no other moves
                self.assertRegex(out, r"geometric mean of 1 rows: [\d.]+; the least is [\d.]+\n")

    def test_what_is_no_build(self):
        status, _, said = self.call(BUILD, "no-such-thing")
        self.assertEqual(status, 1)
        self.assertIn("no-such-thing is neither a build folder nor a commit", said)


if __name__ == "__main__":
    unittest.main()
