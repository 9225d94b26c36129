#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Load ONNX files into a server, run them at three sizes of each named dimension, and compare with onnxruntime.

    tests/onnx/files.py [--device ID] [--size NAME=N,N,N]... [--value INPUT=NUMBER]... FILE...

The output has a row for each file: the error of a failed load, or the seconds of the load and the largest difference, relative
to the largest number of the output.  Without --size the script chooses three sizes of a dimension's range.  Without --value an
input has random numbers, an integer input zeros and ones, and a mask ones.  Files with external data are not supported, since
the server receives single files.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "clients" / "python")]

import packages  # noqa: E402

packages.install()
packages.install(packages.RUNTIME)

import hosting  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402

import served  # noqa: E402

RUNS = 3
LARGEST_BATCH, LARGEST = 3, 256  # limits of the chosen sizes, where the range allows them


class Wrong(Exception):
    """A file or its answer has an unexpected property."""


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def three_sizes(limits, batch):
    """Returns the least size, the largest size within the limit, and a size between."""
    least, most, step = (*limits, 1)[:3]
    most = max(least, min(most, LARGEST_BATCH if batch else max(LARGEST, least + 2 * step)))
    count = (most - least) // step
    return [least, least + step * (count // 2), least + step * count]


def choose_sizes(entry, given):
    """Returns the sizes of all named dimensions for each run."""
    first = {each["shape"][0] for each in entry["inputs"].values() if each["shape"]}
    every = {name: given.get(name) or three_sizes(limits, name in first) for name, limits in entry.get("dims", {}).items()}
    return [{name: sizes[i % len(sizes)] for name, sizes in every.items()} for i in range(RUNS if every else 1)]


def make_array(name, kind, sizes, given, random):
    """Makes a value for an input with the shape and dtype of |kind|."""
    shape = [sizes.get(each, each) for each in kind["shape"]]
    dtype = np.dtype(hosting.NARROW.get(kind["dtype"], kind["dtype"]))
    if name in given:
        return np.full(shape, given[name], dtype)
    if dtype.kind == "b" or (dtype.kind in "iu" and "mask" in name):
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return random.integers(0, 2, shape).astype(dtype)
    return (random.standard_normal(shape) * 0.5).astype(dtype)


def difference(got, wanted):
    """The difference relative to the largest number; for integers, the share of differing elements."""
    wanted = np.asarray(wanted)
    if got.shape != wanted.shape:
        raise Wrong(f"has shape {list(got.shape)}, and onnxruntime's {list(wanted.shape)}")
    if wanted.size == 0:
        return 0.0
    if wanted.dtype.kind in "biu":
        return float(np.mean(got != wanted))
    a, b = got.astype(float), wanted.astype(float)
    finite = np.isfinite(b)
    if not np.array_equal(np.where(finite, 0, a), np.where(finite, 0, b), equal_nan=True):
        raise Wrong("has other infinities or NaN than onnxruntime's")
    return float(np.abs(a - b)[finite].max(initial=0) / (np.abs(b[finite]).max(initial=0) or 1))


def run_session(session, arrays, sizes):
    try:
        return session.run(None, dict(zip((each.name for each in session.get_inputs()), arrays, strict=True)))
    except Exception as problem:  # onnxruntime has an exception class per error code, without a common base
        raise Wrong(f"onnxruntime cannot run it at {sizes}: {problem}") from None


def compare(host, path, sizes=None, values=None):
    """Returns the largest difference, and the seconds until the program was loaded.  Raises hosting.Refused or Wrong."""
    session, random, worst, start = session_of(path), np.random.default_rng(1), 0.0, time.monotonic()
    program = host.put(pathlib.Path(path).read_bytes())
    seconds, entry = time.monotonic() - start, program["entries"]["main"]
    for each in choose_sizes(entry, sizes or {}):
        arrays = [make_array(name, kind, each, values or {}, random) for name, kind in entry["inputs"].items()]
        wanted = run_session(session, arrays, each)
        for name, got, other in zip(entry["outputs"], host.run(program, arrays), wanted, strict=True):
            try:
                worst = max(worst, difference(got, other))
            except Wrong as wrong:
                raise Wrong(f"{each}: output {name} {wrong}") from None
    return worst, seconds


def row(host, path, arguments):
    try:
        worst, seconds = compare(host, path, arguments.size, arguments.value)
        return f"{path.name}: {seconds:.1f} s, difference {worst:.1e}"
    except hosting.Refused as refused:
        return f"{path.name}: refused: {refused}"
    except Wrong as wrong:
        return f"{path.name}: {wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N,N,N")
    parser.add_argument("--value", action="append", default=[], metavar="INPUT=NUMBER")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.size = {name: [int(n) for n in numbers.split(",")] for name, _, numbers in (each.rpartition("=") for each in arguments.size)}
    arguments.value = {name: float(number) for name, _, number in (each.rpartition("=") for each in arguments.value)}
    server = served.Server("--log-level", "error", *(["--device", arguments.device] if arguments.device != "auto" else []))
    try:
        for path in arguments.files:
            host = hosting.Host(server.port)
            print(row(host, path, arguments), flush=True)
            host.close()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
