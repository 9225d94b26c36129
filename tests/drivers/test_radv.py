#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile our kernels for AMD GPUs without a GPU, with Mesa's RADV, and check the compiler's statistics.

RADV makes a device of the family RADV_FORCE_FAMILY and compiles for it (Mesa 26 needs an emulated kernel driver instead).
Under the layer of idle_layer.c nothing is executed.

    tests/drivers/test_radv.py FAMILY DOCUMENT   # the status of its entries, and the driver's statistics of each kernel
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
DRIVERS = [pathlib.Path(folder) / "vulkan" / "icd.d" for folder in ("/etc", "/usr/local/share", "/usr/share")]
FAMILIES = {"vega10": "VEGA10", "navi21": "NAVI21"}  # 64 lanes, without and with a choice of 32
SAMPLE = ["attention", "cnn_adam", "layer_norm", "matrix_units", "mlp_sgd", "products", "softmax"]  # of tests/cases

Kernels = collections.namedtuple("Kernels", "entries statistics")


def find_driver():
    found = [path for folder in DRIVERS for path in sorted(folder.glob("radeon_icd*.json"))]
    return os.environ.get("BEAMLINE_TEST_RADV") or (found[0] if found else None)


class Radv(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = find_driver()
        if cls.driver is None:
            raise unittest.SkipTest("Mesa's Vulkan driver for AMD (RADV) is not installed")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        layer = {"name": "VK_LAYER_BEAMLINE_idle", "type": "GLOBAL", "library_path": str(BUILD / "idle_layer.so"), "api_version": "1.2.0",
                 "implementation_version": "1", "description": "nothing runs"}
        (cls.folder / "idle.json").write_text(json.dumps({"file_format_version": "1.1.0", "layer": layer}))
        said = cls.run_on("navi21", "beamline", "devices", "--backends", "vulkan")
        if "RADV" not in said.stdout:
            raise unittest.SkipTest(f"this RADV makes no device without hardware: {(said.stderr.strip().splitlines() or ['no word'])[-1]}")

    @classmethod
    def run_on(cls, family, program, *words, **more):
        env = {**os.environ, "RADV_FORCE_FAMILY": family, "VK_ICD_FILENAMES": str(cls.driver), "VK_DRIVER_FILES": str(cls.driver),
               "VK_LAYER_PATH": str(cls.folder), "VK_INSTANCE_LAYERS": "VK_LAYER_BEAMLINE_idle", "NODEVICE_SELECT": "1", "MESA_SHADER_CACHE_DISABLE": "1",
               "BEAMLINE_CACHE": str(cls.folder), "BEAMLINE_STATE": "none", "IDLE_STATISTICS": str(cls.folder / "statistics"), **more}
        return subprocess.run([str(BUILD / program), *words], env=env, capture_output=True, text=True, timeout=600)

    def compile(self, family, path):
        """Returns the statuses of a document's entries, and the driver's statistics of each kernel."""
        told = self.folder / "statistics"
        told.unlink(missing_ok=True)
        done = self.run_on(family, "try", "vulkan:0", str(path), "fast", "compile")
        entries = re.findall(r"^entry (\S+): status (.*?) kernels (\d+)", done.stdout, re.M)
        self.assertTrue(entries, f"{path.name}, status {done.returncode}: {done.stderr}")
        return Kernels(entries, [json.loads(line) for line in told.read_text().splitlines()])

    def check(self, family, path):
        kernels = self.compile(family, path)
        for name, status, count in kernels.entries:
            self.assertTrue(status.startswith("OK") and int(count) > 0, f"{family}, {path.name}, {name}: {status}")
        self.assertTrue(kernels.statistics, path.name)
        return kernels.statistics

    def test_devices_are_described(self):
        for family, name in FAMILIES.items():
            with self.subTest(family):
                listed = self.run_on(family, "beamline", "devices", "--backends", "vulkan").stdout
                self.assertRegex(listed, rf"(?m)^vulkan:0 .*RADV {name}.*Mesa")
                self.assertNotIn("interp", listed)

    def test_the_cases_compile(self):
        for name in SAMPLE:
            with self.subTest(name):
                for told in self.check("navi21", ROOT / "tests" / "cases" / f"{name}.json"):
                    self.assertEqual((told["Spilled VGPRs"], told["Scratch size"]), (0, 0), told)

    def test_large_kernels_stay_in_registers(self):
        """Large shapes, for which the heuristic chooses tiles, shared operands, split-K and online softmax.  Register spills
        would cost more than these gain."""
        for family in FAMILIES:
            with self.subTest(family):
                for told in self.check(family, ROOT / "tests" / "drivers" / "large.json"):
                    self.assertEqual((told["Spilled VGPRs"], told["Scratch size"]), (0, 0), told)
                    self.assertLessEqual(told["LDS size"], 32 << 10, told)  # two groups fit into the 64 KB of a compute unit

    def test_integer_dot_products(self):
        """A product with int8 activations uses the instruction of the devices that multiply signed by unsigned bytes."""
        planes = {"x": ("float32", [1, 512]), "codes": ("int32", [4, 16, 8, 16]), "scale": ("float16", [4, 16, 16])}
        graph = {"inputs": {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in planes.items()}, "outputs": ["y"],
                 "nodes": [{"id": "y", "op": "block_linear", "in": list(planes), "attrs": {"format": "q8_0", "activations": "int8"}}]}
        path = self.folder / "dot.json"
        path.write_text(json.dumps(graph))
        for family, has in (("navi21", False), ("gfx1100", True)):
            with self.subTest(family):
                done = self.run_on(family, "try", "vulkan:0", str(path), "fast", "compile", RADV_DEBUG="shaders")
                self.assertIn("status OK", done.stdout, done.stderr[-2000:])
                self.assertEqual("v_dot4_i32_iu8" in done.stdout + done.stderr, has)


def show(family, path):
    Radv.setUpClass()
    kernels = Radv("check").compile(family, pathlib.Path(path))
    for entry in kernels.entries:
        print("entry %s: %s, %s kernels" % entry)
    for told in kernels.statistics:
        print(json.dumps(told))
    Radv.doClassCleanups()


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].endswith(".json"):
        show(*sys.argv[1:])
    else:
        unittest.main()
