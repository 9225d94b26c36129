# SPDX-License-Identifier: MIT
"""Pages whose blocks can be pasted, one after the other: each is run, and prints what the page says."""
import re
import shutil
import unittest

from pages import Desk
from served import ROOT, SERVER


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not SERVER.exists():
            raise unittest.SkipTest(f"{SERVER} is not built")
        missing = [name for name in ("curl", "jq") if shutil.which(name) is None]
        if missing:
            raise unittest.SkipTest(f"the pages' commands need {' and '.join(missing)}")

    def setUp(self):
        self.desk = Desk()
        self.addCleanup(self.desk.close)

    def check(self, wrong):
        self.assertEqual([], wrong, "\n\n".join(wrong))

    def test_api(self):
        self.check(self.desk.shell("docs/api.md"))


class ApiTest(unittest.TestCase):
    """docs/api.md leaves out no address and no status."""

    page = (ROOT / "docs" / "api.md").read_text()

    def test_addresses(self):
        for method, pattern in re.findall(r'^BL_ROUTE\("(\w+)", "(/api/v1/[^"]*)"', (ROOT / "server" / "routes.def").read_text(), re.M):
            shown = re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), pattern.removeprefix("/api/v1"))
            with self.subTest(address=f"{method} {shown}"):
                row = next((line for line in self.page.splitlines() if line.startswith("|") and f"`{shown}`" in line), "")
                self.assertIn(method, row)

    def test_statuses(self):
        for status in sorted(set(re.findall(r"^BL_STATUS\(\w+, (\d+)", (ROOT / "engine" / "base" / "status.def").read_text(), re.M))):
            with self.subTest(status=status):
                self.assertTrue(status == "200" or f"\n| {status} |" in self.page)


if __name__ == "__main__":
    unittest.main()
