# SPDX-License-Identifier: MIT
"""The client of Triton from PyPI: its calls with threads and with asyncio, in a separate virtual environment."""

import subprocess
import unittest

import test_infer
from environment import HERE, environment
from repository import ModelsTest


class Triton(ModelsTest):
    @classmethod
    def fill(cls, repository):
        test_infer.Infer.fill(repository)

    def test_its_client(self):
        folder = environment("requirements.txt")
        if folder is None:
            self.skipTest("pip cannot get tritonclient")
        done = subprocess.run([folder / "bin" / "python", HERE / "triton_calls.py", f"127.0.0.1:{self.server.port}"], capture_output=True, text=True,
                              check=False, timeout=120)
        self.assertEqual((0, "done"), (done.returncode, "".join(done.stdout.splitlines()[-1:])), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
