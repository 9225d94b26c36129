# SPDX-License-Identifier: MIT
"""Runs the scripts of the JavaScript client's tests with node."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from served import ROOT, ServedCase, node_lacks

HERE = pathlib.Path(__file__).resolve().parent
CLIENT = ROOT / "clients" / "js"


LACKS = node_lacks()


def run_node(script, *arguments, text="", seconds=300, **environment):
    """Returns the output of a script of this folder for the input |text|; an AssertionError has the output of a failed
    script."""
    done = subprocess.run(["node", HERE / script, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=seconds, check=False,
                          env={**os.environ, **{name: str(value) for name, value in environment.items()}})
    if done.returncode != 0:
        raise AssertionError(f"{script} ended with {done.returncode}:\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


def npm_folder(manifest):
    """Returns a folder with the packages of a package.json, made once in the build folder; None if npm cannot get them."""
    folder = ROOT / "build" / f"npm-{hashlib.sha256(manifest.read_bytes()).hexdigest()[:12]}"
    if (folder / "whole").exists():
        return folder
    if shutil.which("npm") is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(manifest, folder / "package.json")
    done = subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "1"], cwd=folder,
                          capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        return None
    (folder / "whole").touch()
    return folder


@unittest.skipIf(LACKS, LACKS)
class NodeCase(ServedCase):
    """Tests with a server and node."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.options = ("--backends", "interp", "--log-level", "error", "--state", folder.name)
        super().setUpClass()

    def run_script(self, script, *arguments, **options):
        """Calls run_node with the server's address."""
        return run_node(script, *arguments, BEAMLINE_URL=self.server.url, BEAMLINE_KEY="", **options)
