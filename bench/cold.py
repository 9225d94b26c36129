#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure the time to the first answer of a cold server and of a warm server.

    bench/cold.py [--rounds 3] [--only first,eager,search] [--device opencl:0] [--out FILE]

A cold start runs build/beamline with an empty cache folder (compiled kernels, search database) and an empty cache folder of
PoCL, so that the server compiles each kernel.  A warm start runs build/beamline again with the folders of the cold start.  Each
server answers one tiny graph before the clock starts, so that the driver is loaded.

  first     beautiful_mnist, 64 pictures, Adam: from PUT of the program to the loss of the first step
  eager     three residual blocks, 8 pictures, no program: from the pictures to the first loss (bench/small_resnet.py)
  search    product of 1,024 cubed with "beam": 2: from the request to the result; also the ratio of the heuristic's kernel time
            to the searched kernel time, measured alternately
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "clients" / "python")]
import beamline  # noqa: E402
import works  # noqa: E402

SIZE, TURNS = 1024, 20


class Server:
    """Runs build/beamline with its caches in |folder|; the server has answered one graph on entry."""

    def __init__(self, folder, device):
        self.device = device
        environment = {**os.environ, "BEAMLINE_CACHE": f"{folder}/beamline", "POCL_CACHE_DIR": f"{folder}/pocl"}
        command = [ROOT / "build" / "beamline", "serve", "--tune=off", "--state", "none", "--port", "0", "--log-level", "warn"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.url = "http://" + self.process.stdout.readline().split("listening on ")[1].split()[0]
        self.client = beamline.Client(self.url)

    def __enter__(self):
        self.client.wait_ready()
        self.client.call("POST", "/api/v1/run", {"device": self.device, "inputs": {"x": [1.0, 2.0]}, "nodes": [{"id": "y", "op": "neg", "in": ["x"]}], "outputs": ["y"]})
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def first(server):
    inputs = works.fill(server.client, server.device, {"x": [64, 1, 28, 28], "y": [64]}, {"y": 10})
    return {"seconds": seconds_of(lambda: server.client.put_program("first", works.mnist_program(64), device=server.device).run(inputs, steps=1))}


def eager(server):
    environment = {**os.environ, "BEAMLINE_URL": server.url}
    return {"seconds": float(subprocess.run([sys.executable, HERE / "small_resnet.py"], env=environment, check=True, capture_output=True, text=True).stdout.split()[1])}


def product(server, beam):
    """Returns the seconds until the result of the product, and the seconds of its kernels, including the packing of panels."""
    document = {"device": server.device, "beam": beam, "debug": 2, "inputs": {name: {"tensor": name} for name in "ab"}, "nodes": [{"id": "y", "op": "matmul", "in": ["a", "b"]}],
                "outputs": [], "keep": {"y": "y"}}
    begin = time.perf_counter()
    answer = server.client.call("POST", "/api/v1/run", document)
    return time.perf_counter() - begin, works.kernel_seconds(answer["stats"]["debug"])


def search(server):
    works.fill(server.client, server.device, {"a": [SIZE, SIZE], "b": [SIZE, SIZE]})
    taken, _ = product(server, 2)
    turns = [(product(server, 0)[1], product(server, 2)[1]) for _ in range(TURNS)]
    return {"seconds": taken, "heuristic_by_search": statistics.median(heuristic / searched for heuristic, searched in turns)}


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="first,eager,search")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--out", metavar="FILE", help="all figures as JSON")
    options = parser.parse_args()
    report = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "load": os.getloadavg()[0]}
    for name in options.only.split(","):
        rounds = report[name] = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                figures = {}
                for start in ("cold", "warm"):
                    with Server(folder, options.device) as server:
                        figures[start] = {"first": first, "eager": eager, "search": search}[name](server)
                rounds.append(figures)
        for start in ("cold", "warm"):
            for key in rounds[0][start]:
                print(f"{name}, {start}: {key} {spread([figures[start][key] for figures in rounds])}", flush=True)
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
