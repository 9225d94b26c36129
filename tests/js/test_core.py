# SPDX-License-Identifier: MIT
"""The modules of the JavaScript client without a server, and its calls with a server."""
import unittest

from node import CLIENT, LACKS, NodeCase, run_node


@unittest.skipIf(LACKS, LACKS)
class UnitTest(unittest.TestCase):
    def test_units(self):
        run_node("units.mjs")

    def test_faults(self):
        run_node("faults.mjs")


class CallsTest(NodeCase):
    def test_calls(self):
        self.run_script("calls.mjs")

    def test_graphs(self):
        self.run_script("graphs.mjs")

    def test_the_page_can_load_the_client_without_the_ops(self):
        """client.js and the modules that it imports do not contain the ops, so that a page need not load the graph builder."""
        reached, waiting = set(), ["client.js"]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += [line.split('"./')[1].split('"')[0] for line in (CLIENT / name).read_text().splitlines()
                            if line.startswith("import ") and '"./' in line]
        self.assertNotIn("ops.js", reached)
        self.assertIn("connection.js", reached)


if __name__ == "__main__":
    unittest.main()
