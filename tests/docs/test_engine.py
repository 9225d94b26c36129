# SPDX-License-Identifier: MIT
"""docs/engine.md: the compiler output on the page equals the output of a server for the page's graph."""
import base64
import json
import math
import re
import subprocess
import tempfile
import unittest

from pages import DeskTest, missing
from served import ROOT, SERVER

PAGE = "docs/engine.md"
KERNELS = "docs/engine_kernels.md"
TRY = SERVER.parent / "try"


def node(ids, op, operands, **attrs):
    return {"id": ids, "op": op, "in": operands, "attrs": attrs}


def floats(*shape):
    return {"dtype": "float32", "shape": list(shape)}


GRADIENT = {"inputs": {"a": floats(3), "b": floats(3)}, "outputs": ["c", "da", "db"], "nodes": [
    node("ab", "mul", ["a", "b"]), node("c", "add", ["ab", "a"]), node("d", "sum", ["c"]), node(["da", "db"], "grad", ["d", "a", "b"])]}
MOVED = {"inputs": {"x": floats(4, 6)}, "outputs": ["p"], "nodes": [
    node("t", "transpose", ["x"]), node("r", "reshape", ["t"], shape=[3, 8]), node("f", "flip", ["r"], axis=1), node("p", "pad", ["f"], padding=[[0, 0], [1, 0]])]}
SOFTMAX = {"inputs": {"x": floats(4, 10)}, "outputs": ["y"], "nodes": [node("y", "softmax", ["x"], axis=1)]}
ROWS = {"inputs": {"x": floats(1000, 16)}, "outputs": ["sum", "max"], "nodes": [node("sum", "sum", ["x"], axis=1), node("max", "max", ["x"], axis=1)]}
PLACE = {"inputs": {"x": floats(6), "place": {"dtype": "int32", "shape": []}}, "state": {"s": floats(12, 6)}, "outputs": ["total"], "updates": {"s": "new"}, "nodes": [
    node("i", "arange", [], stop=12, dtype="int32"), node("column", "reshape", ["i"], shape=[12, 1]), node("here", "equal", ["column", "place"]),
    node("new", "where", ["here", "x", "s"]), node("total", "sum", ["x"])]}
SCAN = {"inputs": {"s": floats(2), "x": floats(3, 2)}, "outputs": ["last", "all"], "nodes": [
    node(["last", "all"], "scan", ["s", "x"], sequences=1, body={"inputs": ["c", "e"], "nodes": [node("n", "add", ["c", "e"])], "outputs": ["n", "n"]})]}
ATTENTION = {"inputs": {"q": floats(32, 16), "k": floats(128, 16), "v": floats(128, 16)}, "outputs": ["y"], "nodes": [
    node("kt", "transpose", ["k"]), node("s", "matmul", ["q", "kt"]), node("p", "softmax", ["s"], axis=1), node("y", "matmul", ["p", "v"])]}
SENT = {"inputs": {"w": floats(10000, 128), "g": floats(512, 128), "i": {"dtype": "int32", "shape": [512]}}, "outputs": ["d"], "nodes": [
    node("e", "take", ["w", "i"]), node("m", "mul", ["e", "g"]), node("l", "sum", ["m"]), node("d", "grad", ["l", "w"])]}
PRODUCT = {"inputs": {"a": floats(256, 256), "b": floats(256, 256), "c": floats(256)}, "outputs": ["y"], "nodes": [
    node("ab", "matmul", ["a", "b"]), node("z", "add", ["ab", "c"]), node("y", "relu", ["z"])]}
PADDED = {"inputs": {"x": floats(8, 32, 28, 28), "w": floats(32, 32, 3, 3)}, "outputs": ["y"], "nodes": [node("y", "conv2d", ["x", "w"], padding=1, form="direct")]}
WINOGRAD = {"inputs": {"x": floats(8, 128, 28, 28), "w": floats(128, 128, 3, 3), "b": floats(128)}, "outputs": ["y"], "nodes": [
    node("c", "conv2d", ["x", "w", "b"], padding=1), node("y", "relu", ["c"])]}


LONG = {"inputs": {"a": floats(512, 16384), "b": floats(16384, 512)}, "outputs": ["y"], "nodes": [node("y", "matmul", ["a", "b"])]}
CHANNELS = {"inputs": {"x": floats(32, 56, 56, 64)}, "outputs": ["y"], "nodes": [node("y", "permute", ["x"], axes=[0, 3, 1, 2])]}
HEADS = {"inputs": {"q": floats(8, 1024, 64), "k": floats(8, 1024, 64), "v": floats(8, 1024, 64)}, "outputs": ["y"], "nodes": [node("y", "attention", ["q", "k", "v"])]}


def section(title, page=PAGE):
    return re.search(rf"^## {title}\n.*?(?=^## |\Z)", (ROOT / page).read_text(), re.M | re.S)[0]


def block(title):
    """Returns the first text block of a section."""
    return re.search(r"^```\n(.*?)^```$", section(title), re.M | re.S)[1]


class SizeTest(unittest.TestCase):
    """The page has a limited length, and measurements are on a separate page."""

    def test_size(self):
        lines = (ROOT / PAGE).read_text().splitlines()
        self.assertLessEqual(len(lines), 500)
        for number, line in enumerate(lines, 1):
            with self.subTest(line=number):
                self.assertLessEqual(len(line), 120)

    def test_words_of_the_field(self):
        """A reader who searches for the usual name of a technique finds its section."""
        text = " ".join((ROOT / PAGE).read_text().lower().split())
        for word in ("hash-consing", "ssa", "affine", "im2col", "fusion", "tiling", "register blocking", "vectorisation", "packing", "blis", "k-blocking", "split-k", "shared-memory",
                     "double buffering", "coalescing", "bank conflicts", "flash attention", "online softmax", "winograd", "tensor core", "scatter", "checkpointing", "in-place update", "cost model",
                     "non-temporal", "loop-invariant code motion", "kv cache"):
            with self.subTest(word=word):
                self.assertIn(word, text)


@unittest.skipUnless(TRY.exists(), f"{TRY} is not built")
class DescribedTest(unittest.TestCase):
    """Move lists and kernels for described devices, which any machine can compile."""

    shown = (("Register blocking", "as:avx2", PRODUCT), ("K-blocking", "as:avx2", LONG), ("Transposition in registers", "as:amx", CHANNELS),
             ("Shared-memory tiling with double buffering", "as:h100", PRODUCT), ("Flash attention", "as:h100", HEADS), ("Scatter inversion", "as:avx2", SENT))

    @staticmethod
    def unnumbered(text):
        """Returns the text without the numbers of its variables, which change with every instruction, and without remarks."""
        return re.sub(r"\b([vil])\d+\b", r"\1", re.sub(r"\s+// .*", "", text))

    @staticmethod
    def compiled(device, document, level, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(document, file)
            file.flush()
            return subprocess.run([TRY, device, file.name, str(level), "compile", *options], capture_output=True, text=True, timeout=300, check=True).stdout

    def test_text_of_wide_vectors(self):
        text = self.compiled("as:amx", ROWS, 5)
        self.assertIsNone(missing(block("Fusion: which stores share a nest"), text), f"{PAGE}, fusion: this line is not so, or not there, in:\n{text}")

    def test_moves(self):
        for title, document in (("How moves are chosen", PRODUCT), ("How moves are chosen", PADDED), ("Scatter inversion", SENT)):
            moves = re.findall(r"^kernel r_\w+: (.*)$", self.compiled("as:amx", document, 3), re.M)[-1]
            with self.subTest(title=title, moves=moves):
                self.assertIn(f"`{moves}`", " ".join(section(title).split()))

    def test_moves_of_transforms(self):
        kernels = dict(re.findall(r"^kernel ([er]_\w+): (.*)$", self.compiled("as:amx", WINOGRAD, 3, "winograd"), re.M))
        rows = [(name, " ".join(moves.split())) for name, moves in re.findall(r"^(\w+) +(.*(?:\n .*)*)", block("Winograd's transforms"), re.M)]
        self.assertEqual(4, len(rows))
        self.assertEqual(dict(rows), kernels)

    def test_kernels(self):
        self.assertEqual([title for title, _, _ in self.shown], re.findall(r"^## (.*)$", (ROOT / KERNELS).read_text(), re.M))
        for title, device, document in self.shown:
            with self.subTest(title=title):
                text = self.compiled(device, document, 4)
                told = section(title, KERNELS)
                self.assertIn("`" + re.findall(r"^kernel [er]_\w+: (.*)$", text, re.M)[-1] + "`", " ".join(told.split()))
                kernel = re.search(r"^```c\n(.*?)^```$", told, re.M | re.S)[1]
                self.assertIsNone(missing(self.unnumbered(kernel), self.unnumbered(text)), f"{KERNELS}, {title}: this line is not in:\n{text}")


class EngineTest(DeskTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not cls.desk.device.startswith("opencl:"):
            raise unittest.SkipTest("there is no OpenCL device")

    def said(self, document, level=5):
        """Returns the server's compiler output for a program."""
        call = self.desk.client.call
        call("PUT", "/api/v1/programs/shown", document)
        given = {name: {**value, "base64": base64.b64encode(bytes(4 * math.prod(value["shape"]))).decode()} for name, value in document["inputs"].items()}
        return call("POST", "/api/v1/programs/shown/run", {"inputs": given, "debug": level})["stats"]["debug"]

    def test_texts(self):
        for title, document in (("Nodes and interning", GRADIENT), ("Movement ops are index arithmetic", MOVED), ("Canonical loops", SOFTMAX),
                                 ("State and in-place updates", PLACE), (r"Loops \(scan\)", SCAN), ("Attention: stages", ATTENTION)):
            with self.subTest(section=title):
                text = self.said(document)
                self.assertIsNone(missing(block(title), text), f"{PAGE}, {title}: this line is not so, or not there, in:\n{text}")


if __name__ == "__main__":
    unittest.main()
