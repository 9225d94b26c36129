# SPDX-License-Identifier: MIT
"""docs/robustness.md names the tests of each requirement: all named tests exist, no test is missing, and gaps are stated."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "robustness.md"
TESTS = range(1, 31)


def rows():
    """Returns {number: (requirement, its tests, the uncovered part)}."""
    found = {}
    for line in PAGE.read_text().splitlines():
        if match := re.fullmatch(r"\| T(\d+) \| (.+) \| (.+) \| (.+) \|", line):
            number = int(match[1])
            if number in found:
                raise AssertionError(f"T{number} has two rows")
            found[number] = match[2], set(re.findall(r"`([^`]+)`", match[3])), match[4]
    return found


def defined():
    """Returns {name: its files} of all Python tests."""
    found = {}
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        for name in re.findall(r"^    def (test_\w+)\(self", path.read_text(), re.M):
            found.setdefault(name, set()).add(path)
    return found


def numbers(name):
    """Returns the numbers in a test's name: test_t3_t9_malformed has 3 and 9."""
    return [int(number) for number in re.findall(r"t(\d+)_", re.match(r"test_((?:t\d+_)*)", name)[1])]


class Table(unittest.TestCase):
    def test_each_has_a_row_and_a_test(self):
        table = rows()
        self.assertEqual(list(TESTS), sorted(table))
        for number, (_, tests, _) in table.items():
            with self.subTest(number):
                self.assertTrue(any(number in numbers(name) for name in tests if name.startswith("test_")), tests)

    def test_what_it_names_is_there(self):
        there = defined()
        for number, (_, tests, _) in rows().items():
            for name in tests:
                with self.subTest(number=number, name=name):
                    if name.startswith("tests/"):
                        self.assertTrue((ROOT / name).is_file())
                    else:
                        self.assertIn(name, there)
                        self.assertIn(number, numbers(name))

    def test_every_test_with_a_number_stands_in_its_row(self):
        table = rows()
        for name, files in defined().items():
            for number in numbers(name):
                with self.subTest(name=name, files=sorted(path.name for path in files)):
                    self.assertIn(name, table[number][1])

    def test_what_would_be_noticed(self):
        self.assertEqual([[3, 9], [16], [], []], [numbers(name) for name in ("test_t3_t9_malformed", "test_t16_names", "test_names", "test_two_t3_x")])


if __name__ == "__main__":
    unittest.main()
