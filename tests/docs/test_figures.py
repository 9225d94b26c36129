# SPDX-License-Identifier: MIT
"""The figures of README are rows of docs/performance.md."""
import sys
import unittest

from served import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import report


class FiguresTest(unittest.TestCase):
    def test_readme(self):
        text = (ROOT / "README.md").read_text()
        shown = text.partition(report.BEGIN)[2].partition(report.END)[0].strip()
        self.assertEqual(report.readme_table((ROOT / "docs" / "performance.md").read_text()), shown, "python3 bench/report.py writes it anew")


if __name__ == "__main__":
    unittest.main()
