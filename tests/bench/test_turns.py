# SPDX-License-Identifier: MIT
"""bench/turns.py: its statistics, and a comparison of a build with itself."""
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
    """A work whose slices take the given seconds, one after the other, on either side."""

    unit, amount = "things/s", 6.0

    def __init__(self, old, new, moves=("same", "same")):
        self.seconds, self.asked, self.moves = [iter(old), iter(new)], [], moves

    def prepare(self, side, device):
        def measure(seconds):
            if seconds < 1:  # a warm-up slice
                return [0], [0]
            self.asked.append(side)
            return [], [next(self.seconds[side])]
        return measure, {"moves": {device: self.moves[side]}}


class Client(int):
    """The client of a side."""

    def lease(self, seconds):
        return self

    def end(self):
        pass


class Statistics(unittest.TestCase):
    def measure(self, clock, *words):
        """Returns a row with two pairs."""
        row, options = turns.Row(clock), turns.parse(["a", "b", "--seconds", "1", *words])
        for _ in range(2):
            row.measure((Client(0), Client(1)), options)
        return row

    def test_a_ratio_is_the_median_of_the_pairs(self):
        clock = Clock([2, 4, 3, 3], [1, 4, 1, 3])
        row = self.measure(clock, "--repeat", "2")
        self.assertEqual(row.pairs, [(2, 1), (4, 4), (3, 1), (3, 3)])
        self.assertEqual(clock.asked, [0, 1, 1, 0, 0, 1, 1, 0])
        self.assertEqual((turns.ratio(row.pairs), turns.spread(row.pairs)), (1.5, (1, 2)))
        self.assertRegex(row.text("clock", 1.5), r"^clock +2\.0 +3\.0 things/s +1\.500 \(1\.000 to 2\.000\)$")
        self.assertTrue(row.text("clock", 1.6).endswith("(1.000 to 2.000)  <"))

    def test_other_moves_are_marked(self):
        row = self.measure(Clock([1, 1], [1, 1], ("split(0, unroll, 2)", "split(0, unroll, 4)")), "--repeat", "1")
        self.assertTrue(row.text("clock", 0.9).endswith("(1.000 to 1.000)  other moves"))

    def test_the_exit_status(self):
        rows = {"a": self.measure(Clock([2, 2], [1, 1]), "--repeat", "1"), "b": self.measure(Clock([1, 1], [2, 2]), "--repeat", "1")}
        for least, status, said in ((0.4, 0, "geometric mean of 2 rows: 1.000; the least is 0.500\n"),
                                    (0.97, 1, "geometric mean of 2 rows: 1.000; the least is 0.500\nbelow 0.97: b\n")):
            with self.subTest(least), contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(turns.conclude(rows, least), status)
                self.assertTrue(out.getvalue().endswith(said), out.getvalue())

    def test_words(self):
        self.assertGreater(len(turns.parse(["a", "b"]).names), 50)
        self.assertTrue(all(name.startswith("depthwise") for name in turns.parse(["a", "b", "--rows", "^depthwise"]).names))
        for words, said in ((["--rows", "nothing"], "--rows nothing: no kernel row matches; there are matmul_"), (["--repeat", "0"], "--repeat is 0; it must be at least 1"),
                            (["--sittings", "-1"], "--sittings is -1; it must be at least 1")):
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
                found, out, said = self.call(BUILD, BUILD, "--rows", f"^{ROW}$", "--sittings", "2", "--repeat", "1", "--seconds", "0.02", "--least", least)
                self.assertEqual(found, status, said + out)
                row = re.search(rf"^{ROW} +([\d.]+) +([\d.]+) GFLOP/s +([\d.]+) \(([\d.]+) to ([\d.]+)\)(.*)$", out, re.M)
                self.assertTrue(row, out)
                old, new, ratio, low, high = map(float, row.groups()[:5])
                self.assertTrue(old > 0 and new > 0 and low <= ratio <= high, out)
                self.assertEqual(row[6], "  <" if status else "")  # the moves are the same
                self.assertEqual(said.count("sitting 1 of 2: 1 rows\n"), 1 + status)  # a slow row is measured again
                self.assertRegex(out, r"geometric mean of 1 rows: [\d.]+; the least is [\d.]+\n")

    def test_what_is_no_build(self):
        status, _, said = self.call(BUILD, "no-such-thing")
        self.assertEqual(status, 1)
        self.assertIn("no-such-thing is neither a build folder nor a commit", said)


if __name__ == "__main__":
    unittest.main()
