#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure whole ONNX networks on a server, through HTTP with binary bodies, beside onnxruntime.

    bench/networks.py --onnxruntime PYTHON [--torch PYTHON] [--only resnet18,minilm_1x64] [--rounds 7] [--seconds 0.5] [--quick]
                      [--cache FOLDER] [--device opencl:0] [--out bench/out] [--update] [--docs]

PyTorch exports the networks once into FOLDER, with random weights; bench/sizes.py lists them, bench/onnx_networks.py makes them.
Networks of pictures and texts run with batches of 1 and 8; minilm, BERT's encoder of MiniLM-L6's sizes, with texts of several
lengths.  Batch and length are named dimensions of the files, and one hosted model serves all of them.  onnxruntime runs the same
file in its own process with a thread for each core, without HTTP.  The sides take turns as in bench/run.py; a ratio is the
median of the ratios within a round.  All outputs are compared with onnxruntime's; the exit status is 1 if one is wrong.

--torch: a Python with torch, torchvision and onnxscript, for files that are missing in FOLDER.  --onnxruntime: a Python with
onnxruntime and numpy; without it, only our rates are measured.
"""
import argparse
import array
import contextlib
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import report
from run import Server  # (and the path to the client)
import beamline  # noqa: E402
import peers  # noqa: E402
import sizes  # noqa: E402
from beamline.models import HEADER  # noqa: E402
from beamline.values import Array  # noqa: E402
from serving import put_model  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# name of a row: (network, batch, length)
ROWS = {**{f"{name}_b{batch}": (name, batch, sizes.ONNX_LENGTH) for name in sizes.ONNX if name != "minilm" for batch in (1, 8)},
        **{f"minilm_{batch}x{length}": ("minilm", batch, length) for batch, length in sizes.MINILM}}


def export(names, options):
    """Exports the networks that the cache lacks.  Returns the names of those that are there then."""
    options.cache.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not (options.cache / f"{name}.onnx").is_file()]
    if missing and options.torch is None:
        print(f"not in {options.cache}: {', '.join(missing)}; --torch PYTHON exports them")
    elif missing:
        print(f"exporting {', '.join(missing)}", file=sys.stderr, flush=True)
        subprocess.run([options.torch, HERE / "onnx_networks.py", options.cache, *missing], check=True, stdout=subprocess.DEVNULL)
    return [name for name in names if (options.cache / f"{name}.onnx").is_file()]


def draw(name, batch, length):
    """The inputs of a network by name."""
    rng, found = random.Random(1), {}
    for given, (shape, below) in sizes.ONNX[name].items():
        shape = [{"batch": batch, "length": length}.get(size, size) for size in shape]
        count = math.prod(shape)
        if given == "attention_mask":
            found[given] = Array("int64", shape, array.array("q", [1] * count).tobytes())
        elif below:
            found[given] = Array("int64", shape, array.array("q", [rng.randrange(below) for _ in range(count)]).tobytes())
        else:
            found[given] = Array("float32", shape, array.array("f", [rng.random() for _ in range(count)]).tobytes())
    return found


@contextlib.contextmanager
def hosting(name, options):
    """A server that hosts the network; its client."""
    with tempfile.TemporaryDirectory() as folder:
        put_model(pathlib.Path(folder), name, options.cache / f"{name}.onnx")
        server = Server(None, 0, words=("--models", folder, "--device", options.device))
        try:
            client = beamline.Client(server.url, use_numpy=False)
            client.wait_ready(600)
            yield client
        finally:
            server.stop()


def ours(client, name, inputs):
    """A function that returns the times of requests with |inputs| for some seconds."""
    model = client.model(name)
    chunks = []
    document = {"inputs": [model.encode(given, value, chunks) for given, value in inputs.items()], "parameters": {"binary_data_output": True}}
    text = json.dumps(document).encode()
    body, headers = b"".join([text, *chunks]), {"Content-Type": "application/octet-stream", HEADER: str(len(text))}

    def measure(seconds):
        times, start = [], time.perf_counter()
        while len(times) < 2 or time.perf_counter() - start < seconds:
            begin = time.perf_counter()
            client.request("POST", model.path("/infer"), body, headers)
            times.append(time.perf_counter() - begin)
        return times, times
    return measure


def compare(row_name, client, worker, options):
    """Measures a row."""
    name, batch, length = ROWS[row_name]
    inputs = draw(name, batch, length)
    row = {"name": row_name, "group": "minilm" if name == "minilm" else "networks", "title": f"MiniLM-L6, {batch} × {length}" if name == "minilm" else f"{name}, batch {batch}",
           "unit": "samples/s", "goal": 1.1 if name == "minilm" else 0.9, "by": "wall", "date": peers.now(), "peer": "onnxruntime"}
    measure = ours(client, name, inputs)
    peers.settle(client, measure)
    with tempfile.TemporaryDirectory(prefix="beamline-onnx-") as folder:
        if worker:
            outputs = client.model(name).infer(inputs)
            for given, value in [*inputs.items(), *((f"out{i}", value) for i, value in enumerate(outputs.values()))]:
                (pathlib.Path(folder) / f"{given}.bin").write_bytes(value.data)
            facts = worker.ask(do="prepare", file=str(options.cache / f"{name}.onnx"), folder=folder, seconds=options.seconds,
                               inputs={given: [value.dtype, value.shape] for given, value in inputs.items()})
            results = worker.ask(do="check")["results"]
            row.update(peer_version=f"onnxruntime {facts['version']}", results=results, wrong=any(result["apart"] > 0 for result in results))
        walls, _, theirs = peers.take_turns(measure, [worker] if worker else [], options)
    return {**row, **peers.rates(batch, walls, theirs)}


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="a Python that has onnxruntime and numpy")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has torch, torchvision and onnxscript, to export missing networks")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "beamline" / "onnx_networks", help="folder of the exported networks")
    report.add_options(parser, ROWS, 0.5, 7)
    options = report.parse_rows(parser, words, ROWS)
    if options.onnxruntime is None:
        print("onnxruntime is not given (--onnxruntime PYTHON): the rows have our side only")
    elif peers.module_version(options.onnxruntime, "onnxruntime") is None:
        parser.error(f"--onnxruntime {options.onnxruntime}: it has no onnxruntime")
    return options


def main(words):
    options = parse(words)
    found = report.begin("networks.json", options)
    worker = peers.Peer("onnxruntime", options.onnxruntime, "onnx_worker.py") if options.onnxruntime else None
    rows = []
    report.print_heads(found)
    try:
        for name in export(list(dict.fromkeys(ROWS[row][0] for row in options.rows)), options):
            with hosting(name, options) as client:
                for row_name in (row for row in options.rows if ROWS[row][0] == name):
                    rows.append(compare(row_name, client, worker, options))
                    report.print_row(rows[-1])
                    report.put(found, ROWS, rows[-1])
    finally:
        if worker:
            worker.close()
    report.print_mean(rows)
    return report.finish(found, "networks.json", options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
