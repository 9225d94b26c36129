#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure random shapes of real networks beside PyTorch, and print the distribution of the ratios.

    bench/sweep.py --torch PYTHON [--shapes 600] [--seed N] [--families conv,matmul] [--repeat 3] [--seconds 0.1] [--compile]
                   [--device opencl:0] [--url URL] [--worst 20] [--out FILE] [--resume FILE]

bench/shapes.py draws the shapes.  Equal seeds give equal shapes; without --seed, a seed is drawn and printed.  The ratio of a
shape is our rate divided by PyTorch's rate, so more than 1 means that the server is faster.  The sides take turns as in
bench/run.py: --repeat rounds, in which each side runs for --seconds.  Our rate is by the device times of the kernels; PyTorch
runs eagerly in two processes (OMP_WAIT_POLICY passive and active), with --compile also through torch.compile in two further
processes, and the fastest of them counts.  All results are compared with PyTorch's results for the same inputs.

--out writes JSON after each shape.  --resume FILE continues the sweep that wrote FILE, with its seed, shapes and families.
Without --torch, a default Python with PyTorch 2.9 is used if there is one; otherwise only our rates are measured.  The exit
status is 1 if a result is wrong or a shape fails.
"""
import argparse
import json
import math
import os
import pathlib
import secrets
import statistics
import sys
import tempfile
import time

from run import Server, figures  # (and the path to the client)
import beamline  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import shapes  # noqa: E402
from works import shape_work  # noqa: E402

SLOW_SECONDS = 20  # of all rounds of a shape: a slow shape has fewer rounds, at least one


# ---- one shape

def write_tensors(lease, names, folder):
    for name in names:
        (folder / f"{name}.bin").write_bytes(lease.get(name).data)


def check(shape, worker):
    """Compares our results with PyTorch's.  Returns the members of the row."""
    results = worker.ask(do="check")["results"]
    allowed = shapes.FAMILIES[shape["family"]].apart
    return {"results": results, "wrong": any(result["apart"] > allowed for result in results)}


def measure(shape, client, workers, options):
    """The row of a shape."""
    work = shape_work(shape)
    lease = client.lease(3600)
    row = {key: shape[key] for key in ("name", "family", "source", "params")}
    try:
        with tempfile.TemporaryDirectory(prefix="beamline-sweep-") as folder:
            begin = time.perf_counter()
            ours, facts = work.prepare(lease, options.device)
            row["prepare_s"] = time.perf_counter() - begin
            if workers:
                kept = [tensor["name"] for tensor in lease.tensors()]
                write_tensors(lease, [name for name in kept if name.startswith("result")] + list(shapes.FAMILIES[shape["family"]].inputs(shape["params"])),
                              pathlib.Path(folder))
            begin = time.perf_counter()
            ours(options.seconds / 4)
            workers, _, left_out = peers.prepare(workers, name=None, shape=shape, folder=str(folder), seconds=options.seconds / 4)
            round_seconds = time.perf_counter() - begin
            row.update(unit=work.unit, amount=work.amount, kernels=facts["kernels"], moves=facts["moves"], left_out=left_out, **(check(shape, workers[0]) if workers else {}))
        rounds = max(1, min(options.repeat, int(SLOW_SECONDS / round_seconds)))
        row.update(rounds=rounds, **figures(work, *peers.take_turns(ours, workers, argparse.Namespace(rounds=rounds, seconds=options.seconds))))
    finally:
        lease.end()
    return row


# ---- statistics

def percentile(values, share):
    """The value below which |share| of |values| is, with linear interpolation between neighbours."""
    values = sorted(values)
    place = share * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def summary(rows):
    """{family: its figures}, and those of all rows under "all", of the rows that have a ratio and right results."""
    groups = {}
    for row in rows:
        if "ratio" in row and not row.get("wrong"):
            groups.setdefault(row["family"], []).append(row["ratio"])
    groups = {name: groups[name] for name in shapes.FAMILIES if name in groups}
    if groups:
        groups["all"] = [ratio for ratios in groups.values() for ratio in ratios]
    return {name: {"shapes": len(ratios), "median": statistics.median(ratios), "p5": percentile(ratios, 0.05), "least": min(ratios),
                   "below_1": sum(ratio < 1 for ratio in ratios), "below_half": sum(ratio < 0.5 for ratio in ratios)} for name, ratios in groups.items()}


def worst(rows, count):
    return sorted((row for row in rows if "ratio" in row), key=lambda row: row["ratio"])[:count]


# ---- printing

def row_text(row):
    if "error" in row:
        return f"{'failed':>7} {row['name']}: {row['error']}"
    rates = f"{row['beamline']:>9.2f}" + (f" {row['peer_rate']:>9.2f}" if "ratio" in row else "")
    ratio = f"{row['ratio']:>7.2f}" if "ratio" in row else ""
    wrong = "  wrong: " + ", ".join(map(report.result_text, (result for result in row["results"] if result["apart"]))) if row.get("wrong") else ""
    return f"{ratio} {rates} {row['unit']:<8} {row['name']} ({row['source']}){wrong}"


def conclude(rows, count):
    """Prints the distribution, the |count| worst rows with their moves, and the rows that failed.  Returns the exit status."""
    print(f"\n{'ours / theirs':<16} {'shapes':>6} {'median':>7} {'5 %':>7} {'least':>7} {'below 1':>8} {'below 0.5':>10}")
    for name, found in summary(rows).items():
        print(f"{name:<16} {found['shapes']:>6} {found['median']:>7.2f} {found['p5']:>7.2f} {found['least']:>7.2f} {found['below_1']:>8} {found['below_half']:>10}")
    found = worst(rows, count)
    if found:
        print(f"\nthe {len(found)} lowest ratios: ratio, our rate, PyTorch's rate")
    for row in found:
        print(row_text(row))
        for kernel, moves in row["moves"].items():
            print(f"{'':>8}{kernel}: {moves}")
    bad = [row for row in rows if "error" in row or row.get("wrong")]
    if bad:
        print(f"\n{len(bad)} shapes are wrong or failed:")
        print("\n".join(row_text(row) for row in bad))
    return 1 if bad else 0


# ---- the sweep

class Sweep:
    """The rows of a sweep, in the order of the draw, and its JSON file."""

    def __init__(self, options):
        self.options, self.rows = options, {}
        if options.resume:
            self.read(pathlib.Path(options.resume))
        self.shapes = shapes.draw(options.seed, options.shapes, options.families)
        if set(self.rows) - {shape["name"] for shape in self.shapes}:
            raise SystemExit(f"{options.resume}: another version of bench/shapes.py drew its shapes")

    def read(self, path):
        """Takes seed, shapes, families, device and rows of an interrupted sweep.  A shape that failed is measured again."""
        written = json.loads(path.read_text())
        for name in ("seed", "shapes", "families", "device"):
            setattr(self.options, name, written[name])
        self.rows = {row["name"]: row for row in written["rows"] if "error" not in row}

    def write(self):
        if self.options.out is None:
            return
        rows = [self.rows[shape["name"]] for shape in self.shapes if shape["name"] in self.rows]
        options = self.options
        written = {"machine": peers.machine(), "device": options.device, "torch": options.version, "seed": options.seed, "shapes": options.shapes,
                  "families": options.families, "repeat": options.repeat, "seconds": options.seconds, "compile": options.compile,
                  "summary": summary(rows), "rows": rows}
        part = pathlib.Path(f"{options.out}.part")
        part.write_text(json.dumps(written, indent=1) + "\n")
        os.replace(part, options.out)

    def run(self):
        options, server, theirs = self.options, None, peers.Workers(self.options.torch, self.options.compile)
        left = [shape for shape in self.shapes if shape["name"] not in self.rows]
        try:
            for number, shape in enumerate(left, len(self.shapes) - len(left) + 1):
                if server is None or server.process is not None and server.process.poll() is not None:
                    server = Server(options.url, 0)
                    client = beamline.Client(server.url, use_numpy=False)
                    client.wait_ready()
                try:
                    row = measure(shape, client, theirs.keep("torch"), options)
                except (beamline.BeamlineError, OSError, RuntimeError, peers.Refused) as error:
                    row = {**shape, "error": f"{type(error).__name__}: {error}"}
                self.rows[shape["name"]] = row
                print(f"{number:>4} of {len(self.shapes)} {row_text(row)}", flush=True)
                self.write()
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            theirs.close()
            if server is not None:
                server.stop()
        return conclude(list(self.rows.values()), options.worst)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch 2.9 or newer")
    parser.add_argument("--compile", action="store_true", help="torch.compile too: up to two minutes more for each shape")
    parser.add_argument("--shapes", type=int, default=600)
    parser.add_argument("--seed", type=int, help="of the draw (default: a new one)")
    parser.add_argument("--families", help=f"names, or their first words, separated by commas, of {', '.join(shapes.FAMILIES)} (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds of a shape")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a slice of one side")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--url", help="of a server that runs; by default build/beamline is started")
    parser.add_argument("--worst", type=int, default=20, help="how many rows with the lowest ratios are printed")
    parser.add_argument("--out", metavar="FILE", help="JSON")
    parser.add_argument("--resume", metavar="FILE", help="continues the sweep that wrote FILE")
    options = parser.parse_args(words)
    for name in ("shapes", "repeat"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; it must be at least 1")
    for word in options.families.split(",") if options.families else []:
        if not any(is_named(name, word) for name in shapes.FAMILIES):
            parser.error(f"--families {word}: there is no such family; there are {', '.join(shapes.FAMILIES)}")
    if options.families:
        options.families = [name for name in shapes.FAMILIES if any(is_named(name, word) for word in options.families.split(","))]
    if options.seed is None:
        options.seed = secrets.randbelow(1 << 32)
    options.out = options.out or options.resume
    peers.find_torch(parser, options)
    return options


def is_named(name, word):
    return name == word or name.startswith(word + "_")


def main(words):
    options = parse(words)
    sweep = Sweep(options)
    print(f"seed {options.seed}, {len(sweep.shapes)} shapes, {options.device}, PyTorch {options.version}", flush=True)
    return sweep.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
