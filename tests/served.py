# SPDX-License-Identifier: MIT
"""Runs a server for a class of Python tests."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import beamline

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLDEST_NODE = 18  # the major version of node in clients/js/package.json
SERVER = pathlib.Path(os.environ.get("BEAMLINE", ROOT / "build" / "beamline"))


class Server:
    """Runs build/beamline on a free port.  ``stop`` returns its exit status."""

    def __init__(self, *options):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([SERVER, "serve", "--port", "0", *options], stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env={"BEAMLINE_STATE": "none", **os.environ})
        words = re.search(r"listening on (\S+):(\d+)", self.process.stdout.readline())
        if words is None:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the server did not start:\n{self.text()}")
        self.port = int(words.group(2))
        self.url = f"http://127.0.0.1:{self.port}"

    def text(self):
        """Returns its log."""
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return status


class ServedCase(unittest.TestCase):
    """Tests that share a server; ``client`` is a client of it."""

    options = ()

    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        cls.server = Server(*cls.options)
        cls.client = beamline.Client(cls.server.url)
        cls.client.wait_ready()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        status = cls.server.stop()
        if status != 0:
            raise AssertionError(f"the server ended with status {status}")


def node_lacks():
    """Returns the reason why node scripts cannot run here, or None."""
    program = shutil.which("node")
    if program is None:
        return f"no node >= {OLDEST_NODE}"
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    major = re.match(r"v(\d+)", version)
    return None if major and int(major.group(1)) >= OLDEST_NODE else f"no node >= {OLDEST_NODE}: {program} is {version}"
