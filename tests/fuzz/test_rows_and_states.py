# SPDX-License-Identifier: MIT
"""A sample of the random programs of rows.py and states.py."""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import rows  # noqa: E402
import states  # noqa: E402

DRIVERS = ("opencl:0", "vulkan:0")


class Sample(unittest.TestCase):
    def sample(self, kind, devices, seeds):
        said = []
        totals = kind.campaign(devices, seeds, said.append)
        self.assertEqual(([], []), (totals.found, totals.ended), "\n".join(said))
        return totals

    def test_rows(self):
        totals = self.sample(rows, ["interp:0"], range(50))
        self.assertGreater(totals.apart, 100)  # fewer would mean that the generator or the proof does not know the ops
        self.assertLess(totals.apart, totals.possible - 20)
        self.assertGreater(len(totals.ops), 80)

    def test_rows_on_drivers(self):
        self.sample(rows, DRIVERS, range(80, 82))

    def test_states(self):
        totals = self.sample(states, ["interp:0"], range(150))
        self.assertEqual({}, totals.refused)
        self.assertEqual(150, totals.programs)

    def test_states_on_drivers(self):
        self.sample(states, DRIVERS, range(200, 204))


if __name__ == "__main__":
    unittest.main()
