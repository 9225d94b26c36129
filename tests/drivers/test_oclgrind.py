#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run our kernels on Oclgrind, which simulates an OpenCL GPU and detects errors.

Oclgrind executes each work-item step by step.  It reports data races within and between work-groups, accesses out of bounds,
reads of uninitialised memory, and barriers that only some work-items reach.  The kernels are the entries of
simulated/small.json, with each form of kernel for devices with work-groups, with the heuristic's moves and with random moves
(tests/search/check_moves.c).

    tests/drivers/test_oclgrind.py COUNT [FIRST [FOLDER]]   # COUNT random move lists, of the documents of another folder
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
SMALL = pathlib.Path(__file__).resolve().parent / "simulated"
PAIRS = 45  # pairs of a nest and a move list
WANTED = ("split_group", "fold", "stage_local", "partial_global")  # moves that must be among them, since only devices with work-groups have them

# Work-items that write to one address, also between groups; read past the end; read uninitialised memory; and wait at a
# divergent barrier.
WRONG = {
    "race": ("o[get_global_id(0) / 2] = get_global_id(0);", "data race"),
    "race in local memory": ("__local int l[1]; l[0] = get_local_id(0); barrier(CLK_LOCAL_MEM_FENCE); o[get_global_id(0)] = l[0];", "data race"),
    "bounds": ("o[get_global_id(0) + 5] = 1;", "Invalid write"),
    "unwritten": ("__local int l[4]; o[get_global_id(0)] = l[get_local_id(0)] > 3 ? 1 : 2;", "uninitialized"),
    "barrier": ("if (get_local_id(0) == 0) barrier(CLK_LOCAL_MEM_FENCE); o[get_global_id(0)] = 1;", "divergence"),
    "nothing": ("__local int l[4]; l[get_local_id(0)] = 1; barrier(CLK_LOCAL_MEM_FENCE); o[get_global_id(0)] = l[3 - get_local_id(0)];", None),
}


def find_library():
    """Finds a library where Debian's packages were unpacked or installed."""
    for root in (BUILD / "unpacked" / "liboclgrind-21.10", pathlib.Path("/")):
        for version in sorted((root / LIBRARIES / "oclgrind").glob("*")):
            if list((root / LIBRARIES).glob("liboclgrind-*.so")):
                return root / LIBRARIES, version
    return None, None


class Oclgrind(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        libraries, headers = find_library()
        driver = BUILD / "unpacked" / "oclgrind" / "usr"
        if libraries is None or not (driver / "lib/oclgrind/liboclgrind-rt-icd.so").exists():
            raise unittest.SkipTest("Oclgrind is not here: `. tools/deps.sh && unpack` puts it into build/unpacked")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.kernel = pathlib.Path(folder.name), driver / "bin/oclgrind-kernel"
        (cls.folder / "oclgrind.icd").write_text(f"{driver}/lib/oclgrind/liboclgrind-rt-icd.so\n")
        cls.env = {**os.environ, "OCL_ICD_VENDORS": str(cls.folder / "oclgrind.icd"), "LD_LIBRARY_PATH": str(libraries), "OCLGRIND_PCH_DIR": str(headers),
                   "BEAMLINE_CACHE": str(cls.folder), "BEAMLINE_STATE": "none", "OCLGRIND_LOG": str(cls.folder / "log"),
                   # optimised code has a wrong vector of bools, and has instructions that Oclgrind lacks
                   "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable", "OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1",
                   "OCLGRIND_COMPUTE_UNITS": "16"}  # affects only the heuristic
        done = subprocess.run([str(cls.kernel), "--version"], env=cls.env, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise unittest.SkipTest(f"Oclgrind does not start: {done.stderr.strip()}")

    def run_on(self, *words, cwd=ROOT, **env):
        """Returns (status, output, reports of Oclgrind)."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        done = subprocess.run([str(word) for word in words], env={**self.env, **env}, cwd=cwd, capture_output=True, text=True, timeout=1200)
        return done.returncode, done.stdout + done.stderr, log.read_text() if log.exists() else ""

    def test_what_is_wrong_is_told(self):
        for name, (text, told) in WRONG.items():
            with self.subTest(name):
                (self.folder / "k.cl").write_text("__kernel void k(__global int *o) {%s}" % text)
                (self.folder / "k.sim").write_text("k.cl\nk\n8 1 1\n4 1 1\n\n<size=32 fill=0 int>\n")
                status, printed, log = self.run_on(self.kernel, "k.sim", cwd=self.folder)
                self.assertIn(status, (0, 1), printed)
                self.assertEqual(told is not None, log != "", printed + log)
                self.assertIn((told or "").lower(), log.lower())

    def test_it_is_a_gpu(self):
        status, printed, _ = self.run_on(BUILD / "beamline", "devices", "--backends", "opencl")
        self.assertEqual((0, 1), (status, len(re.findall(r"^opencl:0 +Oclgrind", printed, re.M))), printed)

    def test_each_form(self):
        status, printed, log = self.run_on(BUILD / "try", "opencl:0", SMALL / "small.json", "3")
        self.assertEqual("", log[:3000])
        entries = re.findall(r"^entry (\S+): status (\S+).* worst (\S+)", printed, re.M)
        self.assertGreater(len(entries), 10, printed)
        self.assertEqual([], [entry for entry in entries if entry[1] != "OK" or float(entry[2]) > 1], printed)
        for form in (r"split\(\S+ group,", r"stage\(\S+ values,"):  # otherwise the device was taken for a device without work-groups
            self.assertRegex(printed, rf"kernel .*\b{form}")

    def moves(self, count=PAIRS, first=0, folder=SMALL):
        # Its detection of uninitialised values crashes at a vector that is written as two vectors, as in register
        # transpositions.
        status, printed, log = self.run_on(BUILD / "check_moves", "opencl", count, first, folder, OCLGRIND_UNINITIALIZED="")
        self.assertEqual(("", 0), (log[:3000], status), printed)
        return printed

    def test_random_moves(self):
        printed = self.moves()
        for move in WANTED:
            self.assertRegex(printed, rf" {move}=[1-9]")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        unittest.main()
    Oclgrind.setUpClass()
    print(Oclgrind().moves(*sys.argv[1:]), end="")
