# SPDX-License-Identifier: MIT
"""The onnx package, pinned, in the build folder: its cases and its evaluator are what tests compare with."""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PINNED = ("onnx==1.23.2", "onnxruntime==1.32.0", "flatbuffers==25.12.19", "packaging==26.3", "ml_dtypes==0.6.0", "numpy==2.4.6", "protobuf==7.36.2", "typing_extensions==4.16.0")
FOLDER = ROOT / "build" / "onnx-packages"


def install():
    """Make ``import onnx`` work in this process, or skip.  Installed once for a list of versions."""
    mark = FOLDER / "pinned"
    if not mark.exists() or mark.read_text() != " ".join(PINNED):
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--no-deps", "--upgrade",
                               "--target", str(FOLDER), *PINNED], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest("pip cannot get the onnx package")
        mark.write_text(" ".join(PINNED))
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
