# SPDX-License-Identifier: MIT
"""CODEMAP.md: its request works, its compiler output equals the server's output, and the named files and functions exist."""
import json
import pathlib
import re
import unittest

from pages import DeskTest, blocks, missing
from served import ROOT

PAGE = "CODEMAP.md"
FOLDERS = ("engine", "proto", "server", "opencl", "vulkan", "clients", "tests", "tools", "packaging", "examples", "bench", "docs")


class CodemapTest(DeskTest):
    def test_its_commands(self):
        wrong = self.desk.shell(PAGE, without=("ninja -C build try",))  # needs a build folder; its output is compared below
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
    """Files and functions named by the pages about the sources."""

    pages = {PAGE: (60, 60), "docs/engine.md": (60, 30), "docs/engine_measurements.md": (20, 1), "docs/numerics.md": (5, 5), "docs/backend.md": (10, 4)}  # least numbers of named files and functions
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    kernels = re.compile(r"[a-z]+_[\d_a-z]*\d")

    def named(self, page, *patterns):
        text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
        return sorted({name for pattern in patterns for name in re.findall(pattern, text)})

    def test_files(self):
        there = [f"/{path.relative_to(ROOT)}" for path in self.files]
        for page, (least, _) in self.pages.items():
            named = self.named(page, r"`([\w/]+\.(?:c|h|def|py|json|md|yaml))`")
            self.assertGreater(len(named), least, page)
            for name in named:
                with self.subTest(page=page, file=name):
                    self.assertTrue(name == "config.json" or any(path.endswith(f"/{name}") for path in there))

    def test_glossary(self):
        """The file that the glossary names for a term contains the term."""
        rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^`|]+)` \|$", (ROOT / PAGE).read_text().partition("## Glossary")[2].partition("\n## ")[0], re.M)
        self.assertGreater(len(rows), 40)
        for words, file in rows:
            word = re.split(r"[(,]", words)[0].strip().lower()
            with self.subTest(word=word, file=file):
                self.assertIn(word, (ROOT / file).read_text().lower())

    def test_a_back_end(self):
        """docs/backend.md has each field of a device and each function of the back end's table."""
        page, header = (ROOT / "docs" / "backend.md").read_text(), (ROOT / "engine" / "device" / "device.h").read_text()
        bodies = {name: re.sub(r"/\*.*?\*/", "", body, flags=re.S) for body, name in re.findall(r"typedef struct \w+ \{([^}]*)\} (\w+);", header)}
        fields = re.findall(r"(\w+)(?:\[\w+\])?;", bodies["bl_device_info"])
        functions = re.findall(r"\(\*(\w+)\)", bodies["bl_device_ops"])
        self.assertGreater(min(len(fields), len(functions)), 15)
        for name in fields + functions:
            with self.subTest(name=name):
                self.assertTrue(f"`{name}`" in page, "the page does not name it")

    def test_functions(self):
        text = "\n".join(path.read_text(errors="replace") for path in self.files if path.suffix in (".c", ".h", ".def"))
        words = {*re.findall(r"\w+", text), *(path.stem for path in self.files), "mma_a_rows_local"}  # the last name is made by a macro
        for page, (_, least) in self.pages.items():
            named = [name for name in self.named(page, r"`([a-z]\w*_\w+)`", r"`(bl_\w+)`") if not self.kernels.fullmatch(name)]
            self.assertGreater(len(named), least, page)
            for name in named:
                with self.subTest(page=page, function=name):
                    self.assertTrue(name in words, "no source has that word")


if __name__ == "__main__":
    unittest.main()
