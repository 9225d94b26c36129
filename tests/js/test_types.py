# SPDX-License-Identifier: MIT
"""The TypeScript declarations: they compile, accept valid code, reject invalid code, and declare everything that the modules
export."""
import subprocess
import unittest

from node import CLIENT, HERE, LACKS, npm_folder, run_node

FOLDER = HERE / "typescript"


@unittest.skipIf(LACKS, LACKS)
class TypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.packages = npm_folder(FOLDER / "package.json")
        if cls.packages is None:
            raise unittest.SkipTest("npm cannot get typescript")

    def test_strict(self):
        done = subprocess.run(["node", self.packages / "node_modules" / "typescript" / "bin" / "tsc", "-p", FOLDER], capture_output=True, text=True, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stdout))

    def test_all_is_declared(self):
        self.assertEqual("", run_node("typescript/surface.mjs", self.packages, CLIENT))


if __name__ == "__main__":
    unittest.main()
