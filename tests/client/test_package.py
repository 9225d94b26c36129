# SPDX-License-Identifier: MIT
"""The client as a package: installable alone and without NumPy, typed, and quick to import."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from beamline.values import numpy
from served import ROOT, ServedCase

PACKAGE = ROOT / "clients" / "python"
PROGRAM = """
import pathlib, sys, beamline
from beamline import *
assert beamline.values.numpy is None and str(pathlib.Path(beamline.__file__)).startswith(sys.argv[1]), beamline.__file__
assert (pathlib.Path(beamline.__file__).parent / "py.typed").exists()
x = Tensor([[1.0, 2], [3, 4]], requires_grad=True)
(x @ x).sum().backward()
w = nn.Linear(2, 3)(x).relu()
f = TinyJit(lambda a, n: (a[:n] * 2).sum())
print(x.grad.tolist(), w.shape, [f(Tensor.arange(5), Variable("n", 1, 5).bind(i)).item() for i in (1, 2, 3, 5)],
      list(Tensor([1.5], dtype=dtypes.bfloat16).tolist()), Tensor([1, 2]).data().tolist())
try:
    x.numpy()
except ImportError as error:
    print(error)
g = Graph()
g.output(y=g.input("x") * 2)
print(Client(sys.argv[2]).run(g, {"x": [1, 2]})["y"].tolist())
"""
PRINTED = """[[7.0, 11.0], [9.0, 13.0]] (2, 3) [0, 2, 6, 20] [1.5] [1, 2]
Tensor.numpy() needs NumPy; tolist() and data() do not
[2.0, 4.0]
"""


class PackageTest(ServedCase):
    options = ("--backends", "interp", "--log-level", "error")

    def run_program(self, python, where, **env):
        done = subprocess.run([python, "-c", PROGRAM, str(where), self.server.url], capture_output=True, text=True, cwd=where,
                              env={"BEAMLINE_URL": self.server.url, **env}, check=False)
        self.assertEqual((done.stdout, done.returncode), (PRINTED, 0), done.stderr)

    def test_without_numpy(self):
        """Runs in a Python in which NumPy cannot be imported."""
        with tempfile.TemporaryDirectory() as folder:
            if numpy is not None:
                pathlib.Path(folder, "numpy.py").write_text("raise ImportError('there is none')\n")
            shutil.copytree(PACKAGE / "beamline", pathlib.Path(folder, "beamline"), ignore=shutil.ignore_patterns("__pycache__"))
            self.run_program(sys.executable, pathlib.Path(folder), PYTHONPATH=folder)

    def test_pip_installs_it(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([sys.executable, "-m", "venv", folder + "/venv"], capture_output=True, text=True, check=False)
            if made.returncode != 0:
                self.skipTest("Python makes no virtual environments here")
            shutil.copytree(PACKAGE, pathlib.Path(folder, "package"), ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            done = subprocess.run([folder + "/venv/bin/pip", "install", "--disable-pip-version-check", "--retries", "1", folder + "/package"],
                                  capture_output=True, text=True, cwd=folder, check=False)
            if done.returncode != 0 and any(word in done.stderr for word in ("No matching distribution", "Temporary failure", "Retrying")):
                self.skipTest("pip cannot get setuptools, with which it builds packages")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.run_program(folder + "/venv/bin/python", pathlib.Path(folder, "venv"))

    def test_types(self):
        """A typed user program passes mypy --strict."""
        mypy = shutil.which("mypy")
        if mypy is None:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder, "wrong.py")
            wrong.write_text("from beamline import Tensor\nx: int = Tensor([1.0]).exp() + 1\n")
            for program, status in ((ROOT / "tests" / "client" / "typed" / "program.py", 0), (wrong, 1)):
                done = subprocess.run([mypy, "--strict", "--follow-imports=silent", "--cache-dir", folder + "/cache", program],
                                      env={**os.environ, "MYPYPATH": str(PACKAGE)}, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, status, done.stdout)

    def test_the_typed_program_runs(self):
        done = subprocess.run([sys.executable, ROOT / "tests" / "client" / "typed" / "program.py"], capture_output=True, text=True, check=False,
                              env={"BEAMLINE_URL": self.server.url, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_latencies_are_printed(self):
        done = subprocess.run([sys.executable, ROOT / "bench" / "latency.py", "--url", self.server.url, "--rounds", "1", "--times", "2"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\(a \+ b\)\.realize\(\), 16 x 16 +[\d.]+ ms.*to be under 0\.5")
        self.assertRegex(done.stdout, r"TinyJit of a \+ b +[\d.]+ ms.*to be under 0\.25")


if __name__ == "__main__":
    unittest.main()
