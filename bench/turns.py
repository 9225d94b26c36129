#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The performance golden: compare each kernel row of bench/run.py between two builds on one machine.

    bench/turns.py OLD NEW [--rows REGEX] [--sittings 3] [--repeat 3] [--seconds 0.1] [--least 0.97] [--device opencl:0]

OLD and NEW are build folders or commits; a commit is built in build/commits/.  Each build runs its own server, and only one
server works at a time.  A pair is one time slice of the old server and one of the new server; the order alternates between
pairs.  The ratio of a pair is the new rate divided by the old rate, from the device times of all kernels; more than 1 is
faster.  The addresses of a process's buffers change the rate of a small kernel by a tenth as long as the process lives, so each
sitting starts both servers again.  The ratio of a row is the median over the pairs of all sittings.  Rows below --least are
measured in the same number of further sittings, and all pairs count.  The exit status is 1 if a row remains below --least.
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
    """The measurements of a work: pairs (old, new) of the device seconds per repetition."""

    def __init__(self, work):
        self.work, self.pairs, self.same_moves = work, [], True

    def measure(self, clients, options):
        """Adds further pairs; |clients| has one client per build."""
        leases = [client.lease(3600) for client in clients]
        try:
            prepared = [self.work.prepare(lease, options.device) for lease in leases]
            self.same_moves = self.same_moves and prepared[0][1]["moves"] == prepared[1][1]["moves"]
            sides = [measure for measure, _ in prepared]
            for side in sides:
                side(options.seconds / 4)
            for _ in range(options.repeat):
                turn = (0, 1) if len(self.pairs) % 2 == 0 else (1, 0)
                took = {side: statistics.median(sides[side](options.seconds)[1]) for side in turn}
                self.pairs.append((took[0], took[1]))
        finally:
            for lease in leases:
                lease.end()

    def rate(self, side):
        return self.work.amount / statistics.median(pair[side] for pair in self.pairs)

    def text(self, name, least):
        found, (low, high) = ratio(self.pairs), spread(self.pairs)
        return (f"{name:<28} {self.rate(0):>9.1f} {self.rate(1):>9.1f} {self.work.unit:<8} {found:>6.3f} ({low:.3f} to {high:.3f})"
                f"{'' if self.same_moves else '  other moves'}{'  <' if found < least else ''}")


def ratio(pairs):
    """The median of the ratios of pairs (old seconds, new seconds); more than 1: new is faster."""
    return statistics.median(old / new for old, new in pairs)


def spread(pairs):
    """The quartiles of the ratios of |pairs|."""
    ratios = sorted(old / new for old, new in pairs)
    return ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]


@contextlib.contextmanager
def serving(build):
    server = Server(None, 0, build / "beamline")
    try:
        client = beamline.Client(server.url)
        client.wait_ready()
        yield client
    finally:
        server.stop()


def measure(rows, builds, options):
    """Measures all rows in all sittings."""
    for number in range(options.sittings):
        print(f"sitting {number + 1} of {options.sittings}: {len(rows)} rows", file=sys.stderr, flush=True)
        with serving(builds[0]) as old, serving(builds[1]) as new:
            for row in rows:
                row.measure((old, new), options)


def conclude(rows, least):
    """Prints the rows, their geometric mean and the rows below |least|.  Returns the exit status."""
    ratios = {name: ratio(row.pairs) for name, row in rows.items()}
    print(f"{'':<28} {'old':>9} {'new':>9} {'':<8} {'ratio':>6}")
    print("\n".join(row.text(name, least) for name, row in rows.items()))
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
    parser.add_argument("--sittings", type=int, default=3, help="how often both servers are started")
    parser.add_argument("--repeat", type=int, default=3, help="pairs of a row in a sitting")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a slice")
    parser.add_argument("--least", type=float, default=0.97, help="the ratio that each row must have")
    parser.add_argument("--device", default="opencl:0")
    options = parser.parse_args(words)
    options.names = [name for name in ROWS if re.search(options.rows, name)]
    if not options.names:
        parser.error(f"--rows {options.rows}: no kernel row matches; there are {', '.join(ROWS)}")
    for name in ("sittings", "repeat"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; it must be at least 1")
    return options


def main(words):
    options = parse(words)
    builds = [texts.build_of(name, "beamline") for name in (options.old, options.new)]
    rows = {name: Row(ROWS[name]) for name in options.names}
    measure(list(rows.values()), builds, options)
    slow = [row for row in rows.values() if ratio(row.pairs) < options.least]
    if slow:
        measure(slow, builds, options)
    return conclude(rows, options.least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
