# SPDX-License-Identifier: MIT
"""Two users with keys, and breaking connections: the transcript must equal that of every client."""
import subprocess
import tempfile
import unittest

from cutting import Cutter
from node import HERE, LACKS, run_node
from served import SERVER, Server


@unittest.skipIf(LACKS, LACKS)
@unittest.skipUnless(SERVER.exists(), f"{SERVER} is not built")
class ScenarioTest(unittest.TestCase):
    def test_transcript(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        made = subprocess.run([SERVER, "keys", "create", "root", "--scopes", "admin", "--state", folder.name], capture_output=True, text=True, check=True)
        server = Server("--state", folder.name, "--backends", "interp", "--log-level", "error")
        self.addCleanup(lambda: self.assertEqual(0, server.stop()))
        # Bytes to and from the server for each connection: breaks within heads, reports and pieces of the upload.
        wire = Cutter(server.port, (None, 40), (None, 1500), (None, 1200), (None, 700), (None, 900), (None, 4000))
        self.addCleanup(wire.close)
        said = run_node("scenario.mjs", BEAMLINE_URL=wire.url, DIRECT_URL=server.url, ADMIN_KEY=made.stdout.strip())
        self.assertEqual((HERE / "scenario.txt").read_text(), said)
        self.assertGreater(wire.opened, 6)

    def test_an_upload_goes_on_where_it_broke_off(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = Server("--state", folder.name, "--backends", "interp", "--log-level", "error")
        self.addCleanup(lambda: self.assertEqual(0, server.stop()))
        wire = Cutter(server.port, *[(300000, None)] * 3)  # whichever connection node uses for the bytes
        self.addCleanup(wire.close)
        *progress, last = run_node("upload.mjs", BEAMLINE_URL=wire.url, BEAMLINE_KEY="").split("\n")[:-1]
        self.assertEqual("the same bytes", last)
        received = [int(line) for line in progress]
        self.assertEqual((0, 1 << 20), (received[0], received[-1]))
        self.assertTrue(any(200000 < each < 300000 for each in received), received)


if __name__ == "__main__":
    unittest.main()
