# SPDX-License-Identifier: MIT
"""Lines of the pages have at most 120 columns, so that diffs are small; tables, code and link targets are exempt."""
import re
import unittest

from served import ROOT

COLUMNS = 120
PAGES = ["README.md", "CODEMAP.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "ops.md")]  # ops.md is generated with one line per row


def long_lines(text):
    """Returns the numbers of the lines that are too long."""
    text = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    prose = [re.sub(r"\]\([^)]*\)|`[^`]*`", "", line) for line in text.splitlines()]
    return [number for number, line in enumerate(prose, 1) if len(line) > COLUMNS and not line.lstrip().startswith(("|", "<", "!["))]


class LinesTest(unittest.TestCase):
    def test_pages(self):
        for page in PAGES:
            with self.subTest(page=page):
                self.assertEqual([], long_lines((ROOT / page).read_text()), f"{page}: lines of more than {COLUMNS} columns; wrap them")

    def test_what_counts(self):
        wide = "word " * 30
        self.assertEqual([1], long_lines(wide))
        self.assertEqual([3], long_lines(f"```\n```\n{wide}"))
        self.assertEqual([], long_lines(f"```sh\n{wide}\n```\n| {wide} |\n[here]({'x' * 200})"))


if __name__ == "__main__":
    unittest.main()
