# SPDX-License-Identifier: MIT
"""Virtual environments with packages from PyPI for tests, made once in the build folder."""

import hashlib
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def environment(requirements):
    """Returns the folder of an environment with the packages of a requirements file; None if pip cannot get them."""
    wanted = HERE / requirements
    folder = HERE.parent.parent / "build" / (wanted.stem + "-" + hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()[:12])
    if (folder / "whole").exists():
        return folder
    if subprocess.run([sys.executable, "-m", "venv", "--clear", folder], capture_output=True, check=False).returncode != 0:
        return None
    done = subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--retries", "1", "--no-deps", "-r", wanted],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    (folder / "whole").touch()
    return folder
