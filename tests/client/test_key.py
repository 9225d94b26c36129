# SPDX-License-Identifier: MIT
"""Clients with a valid key, without a key, and with an invalid key."""
import os
import subprocess
import sys
import tempfile
import unittest

import beamline
from served import ROOT, SERVER, Server


class Key(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        made = subprocess.run([SERVER, "keys", "create", "me", "--scopes", "run", "--state", folder.name], capture_output=True, text=True, check=True)
        self.key = made.stdout.strip()
        self.server = Server("--state", folder.name)
        self.addCleanup(lambda: self.assertEqual(0, self.server.stop()))

    def test_argument(self):
        with beamline.Client(self.server.url, key=self.key) as client:
            client.put("x", [1, 2, 3])
            self.assertEqual([1, 2, 3], client.get("x").tolist())
        for wrong in ("", "bl_wrong"):
            with beamline.Client(self.server.url, key=wrong) as client, self.assertRaises(beamline.Forbidden) as refused:
                client.get("x")
            self.assertEqual(401, refused.exception.status)

    def test_environment_and_tensors(self):
        program = "import beamline as bl; print((bl.Tensor([1.0, 2.0]) * 3).sum().item())"
        env = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "BEAMLINE_URL": self.server.url, "BEAMLINE_KEY": self.key}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
        self.assertEqual((0, "9.0\n"), (done.returncode, done.stdout), done.stderr)


if __name__ == "__main__":
    unittest.main()
