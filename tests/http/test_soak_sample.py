# SPDX-License-Identifier: MIT
"""A sample of tests/soak.py on the interpreter: correct answers, and a server that returns to its initial state."""

import unittest

import soak


class Sample(unittest.TestCase):
    def test_t28_mixed_requests(self):
        self.assertEqual([], soak.soak(4000, args=("--backends", "interp"), quiet=True, warm=0.5))


if __name__ == "__main__":
    unittest.main()
