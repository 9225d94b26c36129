# SPDX-License-Identifier: MIT
"""Virtual environments for what tests need from PyPI, made once and kept in the build folder."""

import hashlib
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def environment(requirements):
    """The folder of one with all that the file says; None where pip cannot get that."""
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
