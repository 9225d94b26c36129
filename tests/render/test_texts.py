# SPDX-License-Identifier: MIT
"""tools/texts.py reports a changed, a missing and a new text, and prints the differences."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import texts  # noqa: E402

CHOICE = ["--only", "^matmul$", "--device", "h100|avx2"]


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if texts.is_by_clang(ROOT / "build"):
            raise unittest.SkipTest("the golden is that of gcc, and build/ is by clang")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.golden = pathlib.Path(folder.name) / "golden"
        self.folder = pathlib.Path(folder.name) / "written"

    def call(self, *words):
        """Returns (exit status, output) of the tool with a separate golden."""
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            status = texts.main([*CHOICE, "--golden", str(self.golden), *words])
        return status, out.getvalue()

    def test_a_new_golden_is_equal(self):
        self.assertEqual(self.call("--renew"), (0, ""))
        self.assertEqual(sorted(path.name for path in self.golden.iterdir()), ["avx2.txt", "h100.txt"])
        self.assertEqual(self.call(), (0, ""))

    def test_differences_are_told(self):
        self.call("--renew")
        path = self.golden / "h100.txt"
        name, *hashes = path.read_text().split()
        for line, said in ((f"{name} {'0' * 8} {' '.join(hashes[1:])}", f"as:h100 {name}: kernel 0 of {len(hashes)}\n"),
                           (f"{name} {' '.join(hashes)} {'0' * 8}", f"as:h100 {name}: {len(hashes)} kernels; the golden has {len(hashes) + 1}\n"),
                           (f"{name} EUNSUPPORTED", f"as:h100 {name}: kernel 0 of 1\n" if len(hashes) == 1 else "the golden has 1\n"),
                           (f"matmul.gone {' '.join(hashes)}", "as:h100 matmul.gone: the golden has it, and no document does\n"),
                           ("", f"as:h100 {name}: the golden does not have it\n")):
            with self.subTest(line):
                path.write_text(line + "\n" if line else "")
                status, told = self.call()
                self.assertEqual(status, 1)
                self.assertIn(said, told)

    def test_only_what_was_chosen_is_renewed(self):
        self.call("--renew")
        path = self.golden / "h100.txt"
        path.write_text(path.read_text() + "zeros.other 01234567\n")
        self.call("--renew")
        self.assertIn("zeros.other 01234567\n", path.read_text())
        self.assertEqual(self.call(), (0, ""))

    def test_texts_are_written(self):
        self.call("--write", str(self.folder))
        written = sorted(self.folder.glob("as:h100/matmul.*.0"))
        self.assertTrue(written)
        for path in written:
            self.assertRegex(path.read_text(), r"^// \w+: .*\n[^/]*__kernel")

    def test_a_build_does_not_differ_from_itself(self):
        status, told = self.call("--diff", str(ROOT / "build"))
        self.assertEqual(status, 0)
        self.assertRegex(told, r"^0 of [1-9]\d* kernels differ\n$")

    def test_a_diff_shows_text_and_moves(self):
        old = {"as:h100": {"a.main": [("k", "split(0, vector, 4)", "one\ntwo\n")], "a.same": [("k", "split(0, unroll, 2)", "x\n")]}}
        new = {"as:h100": {"a.main": [("k", "split(0, vector, 8)", "one\n2\n")], "a.same": [("k", "split(0, unroll, 4)", "x\n")]}}
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            self.assertFalse(texts.print_diff(old, new))
        self.assertEqual(out.getvalue().splitlines(), [
            "--- old/as:h100/a.main.0", "+++ new/as:h100/a.main.0", "@@ -1,3 +1,3 @@", "-// k: split(0, vector, 4)", "+// k: split(0, vector, 8)", " one", "-two", "+2",
            "1 of 2 kernels differ"])


if __name__ == "__main__":
    unittest.main()
