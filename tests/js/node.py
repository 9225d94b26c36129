# SPDX-License-Identifier: MIT
"""Scripts of the JavaScript client's tests, run by node."""
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
    """What a script of this folder prints, given |text|; AssertionError, with all that it said, where it fails."""
    done = subprocess.run(["node", HERE / script, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=seconds, check=False,
                          env={**os.environ, **{name: str(value) for name, value in environment.items()}})
    if done.returncode != 0:
        raise AssertionError(f"{script} ended with {done.returncode}:\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


def npm_folder(manifest):
    """A folder with the packages of a package.json, made once and kept in the build folder; None where npm cannot get them."""
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
        """run_node, with the address of the server for the client."""
        return run_node(script, *arguments, BEAMLINE_URL=self.server.url, BEAMLINE_KEY="", **options)
