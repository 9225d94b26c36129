# SPDX-License-Identifier: MIT
"""CODEMAP.md: its request can be pasted, what it shows of the compiler is what the server says, and what it names is there."""
import json
import pathlib
import re
import unittest

from pages import Desk, blocks
from served import ROOT, SERVER

PAGE = "CODEMAP.md"
FOLDERS = ("engine", "proto", "server", "opencl", "vulkan", "clients", "tests", "tools", "packaging", "examples", "bench", "docs")


def parts(block):
    """The lines of a block, in groups that follow each other without a gap: a remark behind ; is none of it, nor are lines left out."""
    lines = [re.sub(r"\s+; .*", "", line).rstrip() for line in block.splitlines()]
    return [group.strip("\n") for group in re.split(r"^\.\.\.$", "\n".join(lines), flags=re.M)]


def missing(block, text):
    """The first line of the block that the text lacks, in the block's order; None where it has all."""
    given = [line.rstrip() for line in text.splitlines()]
    at = 0
    for line in "\n".join(parts(block)).splitlines():
        if line not in given[at:]:
            return line
        at += given[at:].index(line) + 1
    return None


class CodemapTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        cls.desk = Desk()
        cls.addClassCleanup(cls.desk.close)

    def test_its_commands(self):
        wrong = self.desk.shell(PAGE, without=("ninja -C build try",))  # which wants a build folder, and prints what is compared below
        self.assertEqual([], wrong, "\n\n".join(wrong))

    def test_what_the_compiler_makes_of_it(self):
        if not self.desk.device.startswith("opencl:"):
            self.skipTest("there is no OpenCL device")
        if not {"avx", "avx2"} & set(pathlib.Path("/proc/cpuinfo").read_text().split()):
            self.skipTest("this processor has no lanes for 8 floats, as that of the page")
        line, request = next(each for each in blocks(PAGE, "sh") if "/api/v1/run" in each[1])
        document = json.loads(re.search(r"-d '(.*)'", request, re.S)[1])
        said = self.desk.client.call("POST", "/api/v1/run", {**document, "debug": 5})["stats"]["debug"]
        shown = blocks(PAGE, "") + blocks(PAGE, "c")
        self.assertGreaterEqual(len(shown), 6)
        for line, block in shown:
            with self.subTest(line=line):
                self.assertIsNone(missing(block, said), f"{PAGE}:{line}: this line is not so, or not there, in:\n{said}")


class NamesTest(unittest.TestCase):
    """Files and functions that the page names."""

    page = re.sub(r"^```.*?^```$", "", (ROOT / PAGE).read_text(), flags=re.M | re.S)
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]

    def test_files(self):
        named = set(re.findall(r"`([\w/]+\.(?:c|h|def|py|json|md|yaml))`", self.page))
        self.assertGreater(len(named), 60)
        there = [f"/{path.relative_to(ROOT)}" for path in self.files]
        for name in sorted(named - {"config.json"}):
            with self.subTest(file=name):
                self.assertTrue(any(path.endswith(f"/{name}") for path in there))

    def test_functions(self):
        named = set(re.findall(r"`([a-z]\w*_\w+)`", self.page)) | set(re.findall(r"`(bl_\w+)`", self.page))
        self.assertGreater(len(named), 60)
        text = "\n".join(path.read_text(errors="replace") for path in self.files if path.suffix in (".c", ".h", ".def"))
        words = set(re.findall(r"\w+", text))
        for name in sorted(named - {"r_2_10"}):
            with self.subTest(function=name):
                self.assertTrue(name in words, "no source has that word")


if __name__ == "__main__":
    unittest.main()
