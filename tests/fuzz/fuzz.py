#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw random graphs, run each on several levels, and shrink graphs whose results differ.

    tests/fuzz/fuzz.py [--count N] [--seed S] [--devices interp,opencl,vulkan] [--resume]
    tests/fuzz/fuzz.py --kind rows|states [--count N] [--seed S] [--devices ...]    programs of rows.py and states.py
    tests/fuzz/fuzz.py --replay FILE    a document of an earlier run
    tests/fuzz/fuzz.py --long           10,000 graphs on the interpreter's levels, 1,000 on each driver, resumed after a stop;
                                       then as many programs of each other kind

Graph number i of a run has the seed S + i and is always the same.  levels.py has the levels, graphs.py draws the graphs.  A run
writes shrunk documents whose results differ to build/fuzz/.  After a fix, the document moves to tests/fuzz/found/; the sample
of ./check runs these documents first.  A stored document keeps its meaning when the generator changes, but a seed does not.  A
resumed run requires the same server and the same generator.  For one graph in four the driver levels also run without moves.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import levels as L  # noqa: E402
import rows  # noqa: E402
import states  # noqa: E402
from documents import Document, ids_of  # noqa: E402
from graphs import draw  # noqa: E402
from shrink import shrink  # noqa: E402

LONG = (("interp", 10000), ("opencl", 1000), ("vulkan", 1000))
KINDS = {"rows": rows.campaign, "states": states.campaign}
WORKERS = min(os.cpu_count() or 2, 4)
REPORTED = 40  # largest number of shrunk reports; a run with more stops


def levels_of(devices):
    names = ["noopt", "interp"] if "interp" in devices else []
    return names + [level for driver in devices if driver != "interp" for level in (driver, f"{driver}-noopt")]


def levels_for(seed, names):
    return [name for name in names if not name.endswith("-noopt") or seed % 4 == 0]


class Totals:
    """The totals of a run, stored as JSON if the run can be resumed."""

    def __init__(self):
        self.graphs = self.refused = self.excused = self.lacking = self.nodes = 0
        self.seconds, self.differences, self.refusals, self.unexpected = 0.0, [], {}, []

    def add(self, document, verdict):
        self.graphs += 1
        self.nodes += len(document.nodes)
        self.excused += verdict.excused
        self.lacking += len(verdict.lacking)
        if verdict.refused:
            self.refused += 1
            self.refusals[verdict.refused[:120]] = self.refusals.get(verdict.refused[:120], 0) + 1

    def __str__(self):
        return (f"{self.graphs} graphs, {self.nodes} nodes, {self.refused} refused, {self.excused} excused by noise, "
                f"{self.lacking} not for a driver, {len(self.differences)} differences, {self.seconds:.0f} s")


class Fuzzer:
    def __init__(self, devices, folder=ROOT / "build" / "fuzz", out=print):
        self.levels = L.Levels(levels_of(devices))
        self.folder, self.out, self.lock = folder, out, threading.Lock()

    def stop(self):
        return self.levels.stop()

    def judge(self, document, names):
        return L.judge(self.levels, document, [name for name in names if name in self.levels.names])

    def shrunk(self, document, level, kind):
        def differs(candidate):
            found = L.judge(self.levels, candidate, [level]).differences
            return found[0] if found and found[0].kind == kind else None

        def values(candidate):
            every = Document(candidate.inputs, candidate.nodes, [name for node in candidate.nodes for name in ids_of(node)], candidate.dims)
            return self.levels.run(L.REFERENCE, every).outputs or {}
        return shrink(document, differs, values)

    def report(self, seed, document, problem, small=True):
        """Shrinks and writes a difference.  Returns the file."""
        self.out(f"seed {seed}: {problem}\n  shrinking ...")
        found = problem
        if small:
            document, found = self.shrunk(document, problem.level, problem.kind)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"seed-{seed}-{problem.level}.json"
        path.write_text(document.text())
        self.out(f"{document.text()}seed {seed}: {found or problem}\n  tests/fuzz/fuzz.py --replay {path}")
        return path

    def one(self, seed, names):
        document = draw(seed)
        return seed, document, self.judge(document, levels_for(seed, names) if isinstance(seed, int) else names)

    def run(self, seeds, names, totals, each=lambda totals: None, small=True):
        """Judges the graphs of all seeds in order; calls |each| after each graph."""
        start, before = time.monotonic(), totals.seconds
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            waiting, seeds = [], iter(seeds)
            while True:
                while len(waiting) < 4 * WORKERS and (seed := next(seeds, None)) is not None:
                    waiting.append(pool.submit(self.one, seed, names))
                if not waiting or len(totals.differences) >= REPORTED:
                    break
                seed, document, verdict = waiting.pop(0).result()
                totals.add(document, verdict)
                totals.unexpected += [f"seed {seed}: {verdict.unexpected}"] if verdict.unexpected else []
                totals.seconds = before + time.monotonic() - start
                for problem in verdict.differences[:1]:
                    totals.differences.append({"seed": seed, "text": str(problem), "file": str(self.report(seed, document, problem, small))})
                each(totals)
        return totals


def show(text, end="\n"):
    print(text, end=end, flush=True)


def what_is_tested():
    """Returns an identifier of the server and these tests; a run with another identifier is not resumed."""
    files = [pathlib.Path(L.fixture.PROGRAM), ROOT / "proto" / "ops.json", *sorted(HERE.glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def campaign(devices, count, first, state=None, out=show):
    """Runs one campaign; |state| is the file to resume from.  Returns the totals."""
    totals, fuzzer = Totals(), Fuzzer(devices, out=out)
    done, tested = json.loads(state.read_text()) if state and state.exists() else {}, what_is_tested()
    if (done.get("first"), done.get("devices"), done.get("tested")) == (first, devices, tested):
        totals.__dict__.update(done["totals"])
        out(f"resumed: {totals}")
    names, last = fuzzer.levels.names, [time.monotonic()]

    def each(totals):
        now = time.monotonic()
        if now - last[0] >= 10 or totals.graphs == count:
            last[0] = now
            out(f"{totals.graphs} of {count}: {totals}")
            if state:
                state.parent.mkdir(parents=True, exist_ok=True)
                temporary = state.with_suffix(".new")
                temporary.write_text(json.dumps({"first": first, "devices": devices, "tested": tested, "totals": totals.__dict__}))
                temporary.replace(state)
    try:
        fuzzer.run(range(first + totals.graphs, first + count), names, totals, each)
    finally:
        ended = fuzzer.stop()
    if ended:
        totals.differences.append({"seed": None, "text": f"a server ended with {ended}", "file": ""})
    out(f"{','.join(names)}: {totals}")
    for text in totals.unexpected[:5]:
        out(f"  {text}")
    for text, times in sorted(totals.refusals.items(), key=lambda item: -item[1])[:5]:
        out(f"  refused {times} times: {text}")
    return totals


def run_long(folder=ROOT / "build" / "fuzz", out=show):
    """Runs all campaigns of --long.  Returns the number of differences."""
    found = 0
    for device, count in LONG:
        out(f"{device}: {count} graphs")
        totals = campaign([device], count, 0, folder / f"long-{device}.json", out)
        found += len(totals.differences)
    for name, kind in KINDS.items():
        for device, count in LONG:
            out(f"{name}, {device}: {count} programs")
            found += failures(kind([f"{device}:0"], range(count), out))
    return found


def failures(totals):
    return len(totals.found) + len(totals.ended)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", default="interp")
    parser.add_argument("--resume", nargs="?", const="", metavar="FILE", help="keep the state in a file (default: below build/fuzz) and go on from it")
    parser.add_argument("--replay", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--kind", choices=sorted(KINDS))
    words = parser.parse_args()
    devices = words.devices.split(",")
    if words.long:
        return 1 if run_long() else 0
    if words.kind:
        totals = KINDS[words.kind]([f"{device}:0" for device in devices], range(words.seed, words.seed + words.count), show)
        return 1 if failures(totals) else 0
    if words.replay:
        fuzzer = Fuzzer(["interp", "opencl", "vulkan"])
        verdict = fuzzer.judge(Document.read(words.replay.read_text()), fuzzer.levels.names)
        print("\n".join(map(str, verdict.differences)) or f"no difference{': refused: ' + verdict.refused if verdict.refused else ''}")
        fuzzer.stop()
        return 1 if verdict.differences else 0
    state = None
    if words.resume is not None:
        state = pathlib.Path(words.resume) if words.resume else ROOT / "build" / "fuzz" / f"{'-'.join(devices)}-{words.seed}.json"
    return 1 if campaign(devices, words.count, words.seed, state).differences else 0


if __name__ == "__main__":
    sys.exit(main())
