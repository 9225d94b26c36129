#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The speed golden: each kernel row of bench/run.py from two builds in turns, on one machine.

    bench/turns.py OLD NEW [--rows REGEX] [--repeat 9] [--seconds 0.1] [--least 0.97] [--device opencl:0]

OLD and NEW are build folders or commits; a commit is built in build/commits/.  Each has a server of its own, and one of them works at a time: a pair is a
slice of seconds of the old and one of the new, and the order changes from pair to pair.  The ratio of a pair is the new rate divided by the old one, by the
device's own times of all kernels: more than 1 is faster.  The ratio of a row is the median over its pairs.  A row below --least is measured again
with as many pairs, and all pairs count.  The exit status is 1 where a row stays below --least.
"""
import argparse
import contextlib
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from run import Server  # noqa: E402  (and the path to the client)
import beamline  # noqa: E402
import texts  # noqa: E402
from works import WORKS  # noqa: E402

ROWS = {name: work for name, work in WORKS.items() if work.by == "kernels"}


class Row:
    """One work on both servers, and the seconds that its slices took."""

    def __init__(self, work, clients, options):
        self.work, self.options = work, options
        self.leases = [client.lease(3600) for client in clients]
        prepared = [work.prepare(lease, options.device) for lease in self.leases]
        self.sides = [measure for measure, _ in prepared]
        self.same_moves = prepared[0][1]["moves"] == prepared[1][1]["moves"]
        self.pairs = []  # (old, new)

    def measure(self):
        for side in self.sides:
            side(self.options.seconds / 4)
        for _ in range(self.options.repeat):
            turn = (0, 1) if len(self.pairs) % 2 == 0 else (1, 0)
            took = {side: statistics.median(self.sides[side](self.options.seconds)[1]) for side in turn}
            self.pairs.append((took[0], took[1]))

    def rate(self, side):
        return self.work.amount / statistics.median(pair[side] for pair in self.pairs)

    def end(self):
        for lease in self.leases:
            lease.end()


def ratio(pairs):
    """The median of the ratios of (old seconds, new seconds): over 1, new is faster."""
    return statistics.median(old / new for old, new in pairs)


def spread(pairs):
    """The quartiles of these ratios."""
    ratios = sorted(old / new for old, new in pairs)
    return ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]


def compare(name, clients, options):
    """The ratio of one row, which is printed."""
    row = Row(ROWS[name], clients, options)
    try:
        row.measure()
        if ratio(row.pairs) < options.least:
            row.measure()
    finally:
        row.end()
    found, (low, high) = ratio(row.pairs), spread(row.pairs)
    print(f"{name:<28} {row.rate(0):>9.1f} {row.rate(1):>9.1f} {row.work.unit:<8} {found:>6.3f} ({low:.3f} to {high:.3f})"
          f"{'' if row.same_moves else '  other moves'}{'  <' if found < options.least else ''}", flush=True)
    return found


@contextlib.contextmanager
def serving(build):
    server = Server(None, 0, build / "beamline")
    try:
        client = beamline.Client(server.url)
        client.wait_ready()
        yield client
    finally:
        server.stop()


def conclude(ratios, least):
    """The exit status; the geometric mean is printed, and the rows below |least|."""
    slower = [name for name, found in ratios.items() if found < least]
    print(f"geometric mean of {len(ratios)} rows: {statistics.geometric_mean(ratios.values()):.3f}; the least is {min(ratios.values()):.3f}")
    if slower:
        print(f"below {least}: {', '.join(slower)}")
    return 1 if slower else 0


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a build folder, or a commit")
    parser.add_argument("new")
    parser.add_argument("--rows", metavar="REGEX", default="", help="rows whose name matches (default: all kernel rows)")
    parser.add_argument("--repeat", type=int, default=9, help="pairs of a row")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a slice")
    parser.add_argument("--least", type=float, default=0.97, help="the ratio that each row must have")
    parser.add_argument("--device", default="opencl:0")
    options = parser.parse_args(words)
    options.names = [name for name in ROWS if re.search(options.rows, name)]
    if not options.names:
        parser.error(f"--rows {options.rows}: no kernel row matches; there are {', '.join(ROWS)}")
    if options.repeat < 1:
        parser.error(f"--repeat is {options.repeat}; it must be at least 1")
    return options


def main(words):
    options = parse(words)
    builds = [texts.build_of(name, "beamline") for name in (options.old, options.new)]
    print(f"{'':<28} {'old':>9} {'new':>9} {'':<8} {'ratio':>6}")
    with serving(builds[0]) as old, serving(builds[1]) as new:
        ratios = {name: compare(name, (old, new), options) for name in options.names}
    return conclude(ratios, options.least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
