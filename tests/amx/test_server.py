# SPDX-License-Identifier: MIT
"""The server with AMX, emulated if the processor has none: products against torch, and against a server without tiles."""

import os
import pathlib
import platform
import re
import struct
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
from service import Service, fixture  # noqa: E402

LIBRARY = pathlib.Path(fixture.PROGRAM).parent / "libemulated_amx.so"
NAMES = 1024  # AMX_NAMES of emulate.h: bytes of names before the numbers
HIGH = {"float32_matmul_precision": "high"}
TILES = {torch.bfloat16: "16x16x32 1,2,17 bfloat16 ", torch.float32: "16x16x32 1,2,17 bfloat16x3 ", torch.int8: "16x16x64 1,4,17 int8 ",
         torch.uint8: "16x16x64 1,4,17 uint8 "}


def normal(seed, *shape, dtype=torch.bfloat16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def whole(seed, *shape, dtype=torch.int8):
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return torch.randint(low, high + 1, shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def cast(name, to):
    return {"id": name + "c", "op": "cast", "in": [name], "attrs": {"dtype": to}}


MATMUL = [{"id": "y", "op": "matmul", "in": ["x", "w"]}]
AS_FLOATS = [cast("x", "float32"), cast("w", "float32"), {"id": "y", "op": "matmul", "in": ["xc", "wc"]}]
AS_INTS = [cast("x", "int32"), cast("w", "int32"), {"id": "y", "op": "matmul", "in": ["xc", "wc"]}]
LINEAR = [{"id": "m", "op": "linear", "in": ["x", "w", "b"]}, {"id": "y", "op": "relu", "in": ["m"]}]
TURNED = [{"id": "t", "op": "transpose", "in": ["x"]}, {"id": "y", "op": "matmul", "in": ["t", "w"]}]
CONV = [{"id": "m", "op": "conv2d", "in": ["x", "w", "b"], "attrs": {"padding": 1}}, {"id": "y", "op": "relu", "in": ["m"]}]


def linear(x, w, b):
    return F.relu(F.linear(x, w, b))


def conv(x, w, b):
    return F.relu(F.conv2d(x, w, b, padding=1))


# name -> (tensors, nodes, reference)
CASES = {
    "bfloat16": ({"x": normal(1, 96, 128), "w": normal(2, 128, 64)}, MATMUL, torch.matmul),
    "bfloat16, kept in float32": ({"x": normal(3, 64, 96), "w": normal(4, 96, 96)}, AS_FLOATS, torch.matmul),
    "odd": ({"x": normal(5, 101, 160), "w": normal(6, 83, 160), "b": normal(7, 83)}, LINEAR, linear),
    "batched": ({"x": normal(8, 3, 64, 64), "w": normal(9, 3, 64, 48)}, MATMUL, torch.matmul),
    "turned": ({"x": normal(10, 96, 80), "w": normal(11, 96, 40)}, TURNED, lambda x, w: x.T @ w),
    "int8": ({"x": whole(12, 70, 192), "w": whole(13, 192, 64)}, AS_INTS, torch.matmul),
    "uint8": ({"x": whole(14, 64, 128, dtype=torch.uint8), "w": whole(15, 128, 90, dtype=torch.uint8)}, AS_INTS, torch.matmul),
    "convolution": ({"x": normal(16, 2, 32, 12, 16), "w": normal(17, 32, 32, 3, 3), "b": normal(18, 32)}, CONV, conv),
    "float32": ({"x": normal(19, 80, 96, dtype=torch.float32), "w": normal(20, 96, 72, dtype=torch.float32)}, MATMUL, torch.matmul),
    "float32, convolution": ({"x": normal(21, 1, 32, 16, 18, dtype=torch.float32), "w": normal(22, 48, 32, 3, 3, dtype=torch.float32),
                              "b": normal(23, 48, dtype=torch.float32)}, CONV, conv),
}


def products_of(debug):
    """The move lists of a plan's kernels, without helper kernels."""
    return [line for line in debug.splitlines() if line.startswith("kernel ") and " pack_" not in line and "_pack_" not in line]


class OnTiles(unittest.TestCase):
    """Each test asks two servers: one uses tiles, the other only vectors."""

    @classmethod
    def setUpClass(cls):
        if platform.machine() != "x86_64":
            raise unittest.SkipTest("AMX is of x86-64 processors")
        cls.file = tempfile.NamedTemporaryFile()
        env = {"LD_PRELOAD": str(LIBRARY), "AMX_COUNTS": cls.file.name}
        cls.tiles = Service("--backends", "opencl", "--tune=off", "--interpret-first=off", env=env)
        cls.vectors = Service("--backends", "opencl", "--tune=off", "--interpret-first=off", "--matrix-units", "0")
        cls.emulated = os.path.getsize(cls.file.name) > 0  # otherwise the processor has AMX, and nothing is counted

    @classmethod
    def tearDownClass(cls):
        for service in (cls.tiles, cls.vectors):
            status = service.stop()
            if status != 0:
                raise AssertionError(f"the server ended with {status}:\n" + service.server.log_text()[-3000:])

    def counts(self):
        if not self.emulated:
            self.skipTest("the processor has AMX: nothing is counted")
        with open(self.file.name, "rb") as file:
            page = file.read()
        names = page[:NAMES].rstrip(b"\0").decode().split()
        return dict(zip(names, struct.unpack_from(f"<{len(names)}Q", page, NAMES)))

    def counted(self, work):
        """Returns (result of |work|, counters of its instructions)."""
        before = self.counts()
        result = work()
        after = self.counts()
        took = {name: after[name] - before[name] for name in after}
        self.assertEqual((took["configured"], 0, 0), (took["released"], took["configured_again"], after["live"]))
        return result, took

    def near(self, name, got, exact, sizes, kind):
        """Checks the error against the bounds of float32 sums and of a result in |kind|."""
        if not kind.is_floating_point:
            self.assertTrue(torch.equal(got.long(), exact.long()), name)
            return
        relative = 2 ** -8 if got.dtype is torch.bfloat16 else 0
        of_sizes = 1.25e-5 if kind is torch.float32 else 1e-6
        off = (got.double() - exact).abs() - relative * exact.abs() - of_sizes * sizes
        self.assertLessEqual(off.max().item(), 1e-6, name)

    def test_started(self):
        """The probe executed the instruction once and released its tiles."""
        before = self.counts()
        self.assertGreaterEqual(before["configured"], 1)
        self.assertEqual((before["configured"], 0, 0), (before["released"], before["configured_again"], before["live"]))

    def test_products(self):
        for name, (tensors, nodes, reference) in CASES.items():
            kind = tensors["x"].dtype
            wide = [each.double() for each in tensors.values()]
            exact, sizes = reference(*wide), reference(*(each.abs() for each in wide))
            members = HIGH if kind is torch.float32 else {}
            document = {"nodes": nodes, "outputs": ["y"], "debug": 3, **members}
            with self.subTest(name):
                outputs, answer = self.tiles.exchange("POST", "run", document, tensors)
                debug = answer["stats"]["debug"]
                self.assertTrue(any("matrix" in line and TILES[kind] in line for line in products_of(debug)), debug)
                self.near(name, outputs["y"], exact, sizes, kind)
                plain, answer = self.vectors.exchange("POST", "run", document, tensors)
                self.assertNotIn("matrix", answer["stats"]["debug"])
                self.near(name, plain["y"], exact, sizes, kind)

    def test_counts(self):
        """Work-groups of 2 by 2 tiles: as many loads as products, whole cache lines, one tile configuration per group."""
        rows, columns, depth = 128, 192, 256
        tensors = {"x": normal(30, rows, depth), "w": normal(31, depth, columns)}

        def run():
            return self.tiles.exchange("POST", "run", {"nodes": MATMUL, "outputs": ["y"]}, tensors)[1]["stats"]
        run()  # warm-up: the processes that compile kernels also probe the instruction
        stats, took = self.counted(run)
        groups, products = rows * columns // 32 ** 2, rows * columns * depth // (16 * 16 * 32)
        self.assertEqual((groups, products, products), (took["configured"], took["multiplied_bf16"], took["loaded"]), stats)
        self.assertEqual((took["rows"], 4 * groups), (took["lines"], took["stored"]))

    @unittest.skipUnless("avx512f" in pathlib.Path("/proc/cpuinfo").read_text(), "processors with AMX have AVX-512: without, panels are stored by fewer lanes")
    def test_panels(self):
        """Interleaved rows are written as words: no vector element is written separately."""
        for kind, nodes in (("bfloat16", MATMUL), ("int8", AS_INTS)):
            x, w = (normal(32, 64, 128), normal(33, 128, 64)) if kind == "bfloat16" else (whole(32, 64, 128), whole(33, 128, 64))
            _, answer = self.tiles.exchange("POST", "run", {"nodes": nodes, "outputs": ["y"], "debug": 4}, {"x": x, "w": w})
            text = re.search(r"^void pack_.*?^}", answer["stats"]["debug"], re.M | re.S)[0]
            self.assertIn("store_uint16(", text)
            self.assertNotRegex(text, r"\)\.s0\] =")

    def test_gradients(self):
        """Both products of a linear layer's gradients."""
        x, w, v = normal(40, 96, 64), normal(41, 64, 128), normal(42, 96, 128)
        nodes = MATMUL + [{"id": ["dx", "dw"], "op": "grad", "in": ["y", "x", "w", "v"], "attrs": {"cotangent": True}}]
        document = {"nodes": nodes, "outputs": ["dx", "dw"], "debug": 3}
        outputs, answer = self.tiles.exchange("POST", "run", document, {"x": x, "w": w, "v": v})
        self.assertEqual(2, sum(TILES[torch.bfloat16] in line for line in products_of(answer["stats"]["debug"])), answer)
        x, w, v = x.double(), w.double(), v.double()
        self.near("dx", outputs["dx"], v @ w.T, v.abs() @ w.abs().T, torch.bfloat16)
        self.near("dw", outputs["dw"], x.T @ v, x.abs().T @ v.abs(), torch.bfloat16)

    def test_training(self):
        """Training steps of a program that updates its weight, with float32 split in three parts: equal to steps without tiles
        within the error bounds."""
        x, w = normal(50, 64, 96, dtype=torch.float32), normal(51, 96, 64, dtype=torch.float32) / 10
        document = {"inputs": {"x": {"dtype": "float32", "shape": [64, 96]}},
                    "nodes": [{"id": "y", "op": "matmul", "in": ["x", "w"]}, {"id": "q", "op": "mul", "in": ["y", "y"]},
                              {"id": "loss", "op": "mean", "in": ["q"]}, {"id": "g", "op": "grad", "in": ["loss", "w"]},
                              {"id": "s", "op": "mul", "in": ["g", 0.5]}, {"id": "next", "op": "sub", "in": ["w", "s"]}],
                    "outputs": ["loss"], "updates": {"w": "next"}, **HIGH}
        losses = {}
        for service in (self.tiles, self.vectors):
            service.put_program("training", document, {"w": w})
            losses[service] = [service.step("training", {"x": x})["loss"].item() for _ in range(5)]
        for tiles, vectors in zip(losses[self.tiles], losses[self.vectors]):
            self.assertAlmostEqual(tiles, vectors, delta=1e-4 * vectors)
        self.assertLess(losses[self.tiles][-1], losses[self.tiles][0])

    def test_kept_weight(self):
        """The server keeps an unchanged weight packed: the later products need fewer instructions and give the same bits."""
        w, x = normal(60, 128, 64), normal(61, 64, 128)
        document = {"inputs": {"x": {"dtype": "bfloat16", "shape": [64, 128]}},
                    "nodes": MATMUL, "outputs": ["y"]}
        self.tiles.put_program("kept", document, {"w": w})
        results, times = [], []
        for i in range(4):
            outputs, answer = self.tiles.exchange("POST", "programs/kept/run", {"debug": 2}, {"x": x + i})
            results.append(outputs["y"])
            times.append(float(re.search(r" h pack_\S+ +([0-9.]+) us", answer["stats"]["debug"])[1]))
            self.near(f"run {i}", results[-1], (x + i).double() @ w.double(), (x + i).abs().double() @ w.abs().double(), torch.bfloat16)
        self.assertTrue(times[0] > 0 and times[-1] == 0, times)


if __name__ == "__main__":
    unittest.main()
