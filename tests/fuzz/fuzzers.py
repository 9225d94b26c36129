#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run libFuzzer on every parser: tests/fuzz/fuzz_*.c with their corpora.

    tests/fuzz/fuzzers.py [--seconds N] [NAME...]    N seconds each (default 600); findings go to build-fuzz/found/NAME/

The corpus tests/fuzz/corpus/NAME has inputs that once reached new code, and inputs that once crashed.  `--keep` adds the new
inputs of a run, minimised.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build-fuzz"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
LONGEST = 4096  # limit of an input in bytes


def names():
    return sorted(path.stem[len("fuzz_"):] for path in CORPUS.parent.glob("fuzz_*.c"))


def build():
    """Builds the fuzzers.  Returns an error message or None."""
    if not (BUILD / "build.ninja").exists():
        done = subprocess.run(["meson", "setup", BUILD, "-Dfuzz=true", "-Dtests=false", "-Db_lundef=false"], cwd=ROOT, env={**os.environ, "CC": "clang"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return done.stdout
    done = subprocess.run(["ninja", "-C", BUILD, *("fuzz_" + name for name in names())], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode != 0 else ""


def run(name, found, *limits):
    """Returns (status, runs, output)."""
    found.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([BUILD / ("fuzz_" + name), *limits, f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1",
                           f"-artifact_prefix={found}/crash-", found, CORPUS / name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env={**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1"})
    runs = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    return done.returncode, int(runs.group(1)) if runs else 0, done.stdout


def keep(name):
    subprocess.run([BUILD / ("fuzz_" + name), "-merge=1", f"-max_len={LONGEST}", CORPUS / name, BUILD / "found" / name], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    problem = build()
    if problem:
        print(problem)
        return 1
    failed = 0
    for name in options.names or names():
        print(f"{name} ...", end=" ", flush=True)
        status, runs, output = run(name, BUILD / "found" / name, f"-max_total_time={options.seconds}")
        print(f"{runs} runs" if status == 0 else "FAILED", flush=True)
        if status != 0:
            failed += 1
            print(output[-4000:])
        elif options.keep:
            keep(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
