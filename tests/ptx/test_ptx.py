#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile the kernels for an NVIDIA GPU without a GPU, and check their instructions.

The kernels are rendered for a description of the GPU (build/try as:h100) and compiled by clang: NVIDIA's driver is based on
clang's front end for OpenCL C and back end for PTX.  NVIDIA's own assembler then assembles the PTX, if available.

BEAMLINE_PTXAS names the assembler, or it is in PATH (pip install nvidia-cuda-nvcc-cu12 has it in nvidia/cuda_nvcc/bin).  The
assembler needs the language's builtin functions: BEAMLINE_LIBCLC names nvptx64--nvidiacl.bc, by default Debian's from
build/unpacked.  As a script with --keep DIR [PATTERN], the test stores texts, PTX and cubins in DIR, and prints a line per
kernel.
"""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import graphs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import texts  # noqa: E402

TRY = ROOT / "build" / "try"
CLANG = shutil.which("clang-14") or shutil.which("clang")
PTXAS = os.environ.get("BEAMLINE_PTXAS") or shutil.which("ptxas")
LIBCLC = pathlib.Path(os.environ.get("BEAMLINE_LIBCLC") or TRY.parent / "unpacked" / "libclc-14" / "usr" / "lib" / "clc" / "nvptx64--nvidiacl.bc")
ARCHITECTURES = ("sm_80", "sm_90")
GROUP_BYTES = 48 << 10  # shared memory of a work-group
REGISTERS = 65536       # registers of a multiprocessor
# Without libclc, builtin functions remain calls.  NVIDIA's OpenCL has the keyword asm.
CLANG_WORDS = ["-x", "cl", "-cl-std=CL1.2", "-cl-no-stdinc", "-Xclang", "-finclude-default-header", "-Xclang", "-cl-ext=+cl_khr_fp64", "-fgnu-keywords",
               "-ffp-contract=on", "-target", "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang", "-target-feature",
               "-Xclang", "+ptx71", "-O3", "-Werror", "-Wno-unused-command-line-argument", "-Wno-linker-warnings", "-S", "-"]
if LIBCLC.exists():
    CLANG_WORDS[:0] = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(LIBCLC)]


def render(name, graph, folder):
    """Returns [(kernel, moves, text)] of a graph."""
    path = pathlib.Path(folder) / f"{name}.json"
    path.write_text(json.dumps({"entries": {name: graph}}))
    kernels = texts.rendered(TRY.parent, "as:h100", path)[name]
    if isinstance(kernels, str):
        raise AssertionError(f"{name}: {kernels}")
    return kernels


def compile_text(text, out):
    """Returns the PTX, or clang's error."""
    done = subprocess.run([CLANG, *CLANG_WORDS, "-o", out], input=text, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(done.stderr[:2000])
    return out.read_text()


def assemble(ptx, out, architecture):
    """Returns ptxas's statistics: {registers, stack, spills, bytes of shared memory}."""
    done = subprocess.run([PTXAS, "-v", "-O3", "-arch", architecture, ptx, "-o", out], capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    if done.returncode != 0:
        raise AssertionError(said[:2000])

    def number(pattern):
        found = [int(x) for x in re.findall(pattern, said)]
        return max(found, default=0)

    return {"registers": number(r"Used (\d+) registers"), "stack": number(r"(\d+) bytes stack frame"), "spills": number(r"(\d+) bytes spill"),
            "bytes": number(r"(\d+) bytes smem")}


def clang_works():
    """Whether clang supports OpenCL C, its header and PTX."""
    if CLANG is None or not TRY.exists():
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            return "ret" in compile_text("__kernel void k(__global float *x) { x[0] = fma(x[1], x[2], x[3]); }", pathlib.Path(folder) / "k.ptx")
        except (AssertionError, OSError):
            return False


def all_kernels(folder, only=""):
    """Returns name -> (kernel, moves, text, PTX, path) of the kernels of all graphs."""
    def one(item):
        name, graph = item
        made = []
        for number, (kernel, moves, text) in enumerate(render(name, graph, folder)):
            path = pathlib.Path(folder) / f"{name}.{number}"
            path.with_suffix(f".{number}.cl").write_text(text)
            out = pathlib.Path(f"{path}.ptx")
            try:
                made.append((f"{name}.{number}", (kernel, moves, text, compile_text(text, out), out)))
            except AssertionError as refused:
                raise AssertionError(f"{name} {kernel} ({moves}): {refused}") from None
        return made

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        chosen = [item for item in graphs.all_graphs().items() if re.search(only, item[0])]
        return {name: made for some in pool.map(one, chosen) for name, made in some}


@functools.lru_cache(maxsize=None)
def compiled():
    folder = tempfile.TemporaryDirectory()
    return folder, all_kernels(folder.name)  # the folder lives as long as the result


def accesses(ptx, space):
    """Returns the distinct widths of an instruction's accesses in bytes."""
    bits = re.findall(rf"(?:ld|st)\.{space}(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)", ptx)
    return {int(lanes or 1) * int(size) // 8 for lanes, size in bits}


@unittest.skipUnless(clang_works(), "no clang that compiles OpenCL C for NVPTX, or no build/try")
class Kernels(unittest.TestCase):
    def test_all_are_compiled(self):
        """All kernels compile without warnings; only the builtin functions, which clang mangles, remain undefined."""
        _, kernels = compiled()
        self.assertGreater(len(kernels), 100)
        for name, (kernel, moves, _, ptx, _) in kernels.items():
            with self.subTest(kernel=name, moves=moves):
                self.assertIn(f".entry {kernel}(", ptx)
                own = [f for f in re.findall(r"^\.extern \.func .*?\b(\w+)\s*\(?$", ptx, re.M) if not f.startswith("_Z")]
                self.assertEqual(own, [])

    def test_whole_accesses(self):
        """Memory-bound kernels use whole vectors: each work-item accesses 16 bytes at a time, or 8 bytes of 16-bit elements,
        since PTX vectors have at most four elements."""
        _, kernels = compiled()
        for name, width in (("f32_512", 16), ("f32_4096", 16), ("muladd", 16), ("softmax", 16), ("layer_norm", 16), ("bias_rows", 16), ("sum_columns", 16),
                            ("gelu_bf16", 8), ("relu_half", 8), ("softmax_bf16", 8)):
            with self.subTest(kernel=name):
                _, moves, _, ptx, _ = kernels[name + ".0"]
                self.assertGreaterEqual(min(accesses(ptx, "global")), width, moves)
        for name in ("f32_512.0", "f32_1024.0", "f32_4096.0"):
            with self.subTest(kernel=name):
                loads = re.findall(r"ld\.shared(?:\.v\d)?\.", kernels[name][3])
                self.assertEqual(set(loads), {"ld.shared.v4."})

    @unittest.skipUnless(LIBCLC.exists(), "no libclc, without which builtins stay calls: `. tools/deps.sh && unpack` puts it into build/unpacked")
    def test_matrix_units(self):
        """16-bit matrix units: fragments by ldmatrix from shared memory, which is filled by copies of 8 bytes, without
        conversions in the loop."""
        _, kernels = compiled()
        for name in ("bf16_4096.0", "f16_4096.0", "bf16_linear_4096.0", "f16_linear_4096.0"):
            with self.subTest(kernel=name):
                loop = "mma.sync".join(kernels[name][3].split("bar.sync", 1)[1].split("mma.sync")[:-1])  # from after the first copies to the last product
                self.assertTrue(re.search(r"ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.shared\.b16", loop))
                others = re.findall(r"cvt\.\w*\.?f\d\d\S*|ld\.shared\S*|ld\.global\S*|call\S*", loop)
                self.assertEqual(set(others), {"ld.global.nc.v4.u16"})
        for name, words in (("bf16_4096.0", "m16n8k16.row.col.f32.bf16.bf16.f32"), ("f16_4096.0", "m16n8k16.row.col.f32.f16.f16.f32"),
                            ("i8_4096.0", "m16n8k32.row.col.s32.s8.s8.s32")):
            with self.subTest(kernel=name):
                self.assertIn("mma.sync.aligned." + words, kernels[name][3])

    @unittest.skipUnless(PTXAS and LIBCLC.exists(), "no ptxas, or no libclc for it: see BEAMLINE_PTXAS")
    def test_assembled(self):
        """NVIDIA's assembler reports no spills, no stack except for calls, and few enough registers for the work-group."""
        _, kernels = compiled()

        def one(item):
            (name, (_, _, text, ptx, path)), architecture = item
            return name, architecture, text, ptx, assemble(path, f"{path}.{architecture}", architecture)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, architecture, text, ptx, used in pool.map(one, [(k, a) for k in kernels.items() for a in ARCHITECTURES]):
                with self.subTest(kernel=name, architecture=architecture, **used):
                    items = eval("*".join(re.search(r"reqd_work_group_size\((\d+), (\d+), (\d+)\)", text).groups()))
                    self.assertEqual(used["spills"], 0)
                    self.assertLessEqual(used["registers"] * items, REGISTERS)
                    self.assertLessEqual(used["bytes"], GROUP_BYTES)


def show(folder, only):
    """Prints a line per kernel: registers, shared memory, moves."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for name, (_, moves, _, _, path) in all_kernels(folder, only).items():
        used = assemble(path, f"{path}.sm_90", "sm_90") if PTXAS else {}
        print(f"{name:28} " + " ".join(f"{what} {value}" for what, value in used.items()) + f" | {moves}")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--keep":
        show(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
    else:
        unittest.main()
