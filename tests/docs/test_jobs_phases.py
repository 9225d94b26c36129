# SPDX-License-Identifier: MIT
"""docs/jobs.md: the tables of phases have exactly the transitions of server/jobs/job_phase.c."""
import re
import unittest

from served import ROOT


def words(name):
    return name.split("_", 1)[1].lower().replace("_", " ")


def code():
    rows = re.findall(r"^    \{(\w+), (\w+), (\w+)\},", (ROOT / "server/jobs/job_phase.c").read_text(), re.M)
    return sorted((first.startswith("WRITE"), words(first), words(event), words(then)) for first, event, then in rows)


def page():
    found, writes = [], None
    for line in (ROOT / "docs/jobs.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[-1] == "next phase (event)":
            writes = "writes" in cells[0]
        elif not line.startswith("|"):
            writes = None
        elif writes is not None:
            found += [(writes, cells[0], event, then) for then, event in re.findall(r"([a-z ]+?) \(`([a-z ]+)`\)", cells[-1])]
    return sorted((writes, first, event, then.strip()) for writes, first, event, then in found)


class Phases(unittest.TestCase):
    def test_every_transition(self):
        self.assertEqual(code(), page())
        self.assertEqual(27, len(code()))


if __name__ == "__main__":
    unittest.main()
