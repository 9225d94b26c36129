#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure the throughput and the latency of a server with many clients: a table, and the same figures as JSON.

    bench/serving.py [--rounds 5] [--seconds 2] [--only echo,batching,texts,training,shares] [--device ID] [--data FOLDER] [--out FILE]

The script starts build/beamline; wrk (Debian's package) sends the requests over loopback on kept connections.  The compared
configurations alternate within a round.  A figure is the median over the rounds, with the minimum and the maximum.  The JSON
also has the load of the machine.  wrk shares the cores with the server.

  echo      a hosted model that copies one number, with binary requests and replies: 1 and 64 connections
  batching  pictures/s of SqueezeNet (FOLDER/squeezenet, default $BEAMLINE_DATA), and rows/s of a network of three layers, with
            32 clients: dynamic batching up to 8 rows (32 for the network), and the same model with max_batch_size 1
  texts     tokens/s of a small llama (FOLDER/stories260K) for 8 clients: continuous batching, and one text per run
  training  the 99th percentile of the network's answers, alone and beside a job that trains a convolutional network; the aim is
            at most twice the sum of the percentile alone and one training step
  shares    the device time of two API keys, one with ten times the connections of the other
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PROGRAM = ROOT / "build" / "beamline"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}
CROWD, CLIENTS, MANY, FEW = 64, 32, 40, 4
WRITERS, TOKENS = 8, 64
WIDTH = 1024
sys.path[:0] = [str(HERE), str(ROOT / "clients" / "python"), str(ROOT / "examples")]
import beamline  # noqa: E402
import host_story  # noqa: E402
from works import cnn_program  # noqa: E402

ECHO = {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 1]}}, "dims": {"batch": [1, 64]},
        "nodes": [{"id": "y", "op": "contiguous", "in": ["x"]}], "outputs": ["y"]}


def layers(most):
    """A network of three layers.  Each run reads its 8 MB of weights once, for any number of rows."""
    shapes = {"a": [784, WIDTH], "b": [WIDTH, WIDTH], "c": [WIDTH, 10]}
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 784]}}, "dims": {"batch": [1, most]},
            "state": {name: {"op": "normal", "attrs": {"shape": shape, "std": 0.03, "seed": i + 1}} for i, (name, shape) in enumerate(shapes.items())},
            "nodes": [{"id": "xa", "op": "matmul", "in": ["x", "a"]}, {"id": "h", "op": "relu", "in": ["xa"]},
                      {"id": "hb", "op": "matmul", "in": ["h", "b"]}, {"id": "g", "op": "relu", "in": ["hb"]},
                      {"id": "y", "op": "matmul", "in": ["g", "c"]}], "outputs": ["y"]}


# ---- the server

def put_model(folder, name, document, **config):
    """Adds a model to the folder: a program document, or the path of an ONNX model."""
    place = folder / name / "1"
    place.mkdir(parents=True)
    if isinstance(document, pathlib.Path):
        (place / "model.onnx").write_bytes(document.read_bytes())
    else:
        (place / "model.json").write_text(json.dumps(document))
    if config:
        (folder / name / "config.json").write_text(json.dumps(config))


class Server:
    def __init__(self, *args):
        command = [PROGRAM, "serve", "--port", "0", "--log-level", "error", "--tune=off", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = "http://" + re.search(r"listening on (\S+)", self.process.stdout.readline()).group(1)

    def call(self, method, path, body=None, key=None, kind="application/json"):
        """Returns the bytes of a reply; sends a dict as JSON."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"content-type": kind, **({"x-api-key": key} if key else {})}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers, method=method)) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def wait_ready(self):
        while True:
            with contextlib.suppress(RuntimeError):
                self.call("GET", "/v2/health/ready")
                return
            time.sleep(0.1)


@contextlib.contextmanager
def running(options, *args):
    server = Server(*(["--device", options.device] if options.device else []), *args)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


# ---- wrk

def script(body, count, headers):
    """Returns wrk's script for a request: a text, then |count| floats with the value 1."""
    lines = [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    return "\n".join(['wrk.method = "POST"', *lines, f'wrk.body = [==[{body}]==] .. string.rep("\\0\\0\\128\\63", {count})'])


def inference(name, shape):
    """Returns a script that sends ones as binary data and requests binary results."""
    count = 1
    for size in shape:
        count *= size
    text = json.dumps({"inputs": [{"name": name, "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": 4 * count}}],
                       "parameters": {"binary_data_output": True}})
    return script(text, count, {"content-type": "application/octet-stream", "inference-header-content-length": len(text)})


def wrk(url, text, connections, seconds):
    """Returns the requests per second, and the 50th and 99th percentile of the latency in seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(text)
        file.flush()
        out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s", "--latency", "-s", file.name, url], check=True,
                             capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(out)
    p50, p99 = (float(value) * UNITS[unit] for value, unit in re.findall(r"(?:50|99)%\s+([\d.]+)(us|ms|s|m)", out))
    return {"rate": float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), "p50": p50, "p99": p99}


def infer(server, model, text, connections, options):
    return wrk(f"{server.url}/v2/models/{model}/infer", text, connections, options.seconds)


# ---- figures

class Table:
    def __init__(self):
        self.rows = []

    def add(self, title, values, unit, aim=None, digits=0, most=False):
        """Adds a line with the median of |values|.  |aim| is the minimum, or with |most| the maximum."""
        middle = statistics.median(values)
        good = aim is None or (middle <= aim if most else middle >= aim)
        self.rows.append({"title": title, "median": middle, "low": min(values), "high": max(values), "unit": unit, "aim": aim, "met": good})
        word = "" if aim is None else f"  (to be {'under' if most else 'over'} {aim:,.{digits}f}{'' if good else ', missed'})"
        print(f"{title:52} {middle:>10,.{digits}f} {unit:6} {min(values):>10,.{digits}f} to {max(values):,.{digits}f}{word}", flush=True)


def rounds(what, options):
    for i in range(options.rounds):
        print(f"{what}: round {i + 1} of {options.rounds}", end="\r", file=sys.stderr, flush=True)
        yield i
    print(" " * 40, end="\r", file=sys.stderr)


def serve_echo(table, options):
    text, alone, crowd, nothing = inference("x", [1, 1]), [], [], []
    with tempfile.TemporaryDirectory() as folder:
        put_model(pathlib.Path(folder), "echo", ECHO)
        with running(options, "--state", "none", "--models", folder) as server:
            server.wait_ready()
            infer(server, "echo", text, CROWD, options)
            for _ in rounds("echo", options):
                alone.append(infer(server, "echo", text, 1, options))
                crowd.append(infer(server, "echo", text, CROWD, options))
                nothing.append(wrk(server.url + "/v2/health/live", "", CROWD, options.seconds))
    table.add("a model that copies, 1 connection: p50", [1e6 * one["p50"] for one in alone], "us", 80, most=True)
    table.add("  p99", [1e6 * one["p99"] for one in alone], "us")
    table.add(f"  {CROWD} connections", [one["rate"] for one in crowd], "/s", 25000)
    table.add("  p99", [1e3 * one["p99"] for one in crowd], "ms", digits=2)
    table.add(f"GET /v2/health/live, {CROWD} connections", [one["rate"] for one in nothing], "/s")


def count_runs(server):
    """Returns the rows and the runs of the model "joined" so far."""
    row = json.loads(server.call("GET", "/v2/models/joined/stats"))["model_stats"][0]
    return row["inference_count"], row["execution_count"]


def compare_batches(table, title, make, text, most, options):
    joined, single, together = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        put_model(pathlib.Path(folder), "joined", make(most), max_batch_size=most)
        put_model(pathlib.Path(folder), "single", make(1), max_batch_size=1)
        with running(options, "--state", "none", "--models", folder) as server:
            server.wait_ready()
            for model in ("joined", "single"):
                infer(server, model, text, CLIENTS, options)
            for _ in rounds(title, options):
                before = count_runs(server)
                joined.append(infer(server, "joined", text, CLIENTS, options)["rate"])
                after = count_runs(server)
                together.append((after[0] - before[0]) / (after[1] - before[1]))
                single.append(infer(server, "single", text, CLIENTS, options)["rate"])
    table.add(f"{title}, {CLIENTS} clients, batches of up to {most}", joined, "/s", digits=1)
    table.add("  rows of a run", together, "", digits=1)
    table.add("  one by one", single, "/s", digits=1)
    table.add("  gain", [a / b for a, b in zip(joined, single)], "times", 2, digits=2)


def serve_batches(table, options):
    squeezenet = pathlib.Path(options.data) / "squeezenet" / "squeezenet_v1.0.onnx" if options.data else None
    if squeezenet is None or not squeezenet.is_file():
        print("SqueezeNet is not here: --data says where")
    else:
        compare_batches(table, "SqueezeNet", lambda most: squeezenet, inference("data", [1, 3, 227, 227]), 8, options)
    compare_batches(table, "net of three layers", layers, inference("x", [1, 784]), CLIENTS, options)


def read_metric(server, name):
    return float(re.search(rf"^beamline_{name} (\S+)$", server.call("GET", "/metrics").decode(), re.M)[1])


def write_texts(server, model, options):
    """Returns the tokens per second, and the tokens per run."""
    body = json.dumps({"text_input": "Once upon a time", "max_tokens": TOKENS, "ignore_eos": True})
    tokens, runs = read_metric(server, "generated_tokens_total"), read_metric(server, "text_runs_total")
    rate = wrk(f"{server.url}/v2/models/{model}/generate", script(body, 0, {"content-type": "application/json"}), WRITERS, options.seconds)["rate"]
    return TOKENS * rate, (read_metric(server, "generated_tokens_total") - tokens) / (read_metric(server, "text_runs_total") - runs)


def serve_texts(table, options):
    data = pathlib.Path(options.data) / "stories260K" if options.data else None
    if data is None or not data.is_dir():
        print("stories260K is not here: --data says where")
        return
    joined, single, together = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        host_story.write(pathlib.Path(folder), data, "joined", WRITERS)
        host_story.write(pathlib.Path(folder), data, "single", 1)
        with running(options, "--state", "none", "--models", folder) as server:
            server.wait_ready()
            for model in ("joined", "single"):
                write_texts(server, model, options)
            for _ in rounds("texts", options):
                rate, rows = write_texts(server, "joined", options)
                joined.append(rate)
                together.append(rows)
                single.append(write_texts(server, "single", options)[0])
    table.add(f"llama of 260,000 weights, {WRITERS} clients, rows of a run", joined, "tok/s")
    table.add("  tokens of a run", together, "", digits=1)
    table.add("  a run for each", single, "tok/s")
    table.add("  gain", [a / b for a, b in zip(joined, single)], "times", digits=2)


def count_steps(server):
    return read_metric(server, "program_steps_total")


@contextlib.contextmanager
def training(server, cnn):
    """Runs a training job until the block ends."""
    begin = count_steps(server)
    job = json.loads(server.call("POST", "/api/v1/jobs", {"program": "cnn", "inputs": cnn, "steps": 1000000000}))["job"]
    while count_steps(server) == begin:
        time.sleep(0.02)
    try:
        yield
    finally:
        server.call("DELETE", f"/api/v1/jobs/{job}")
        while json.loads(server.call("GET", f"/api/v1/jobs/{job}"))["state"] in ("queued", "running"):
            time.sleep(0.02)


def time_step(server, seconds):
    """Returns the seconds of a training step without other requests."""
    begin, before = time.monotonic(), count_steps(server)
    time.sleep(seconds)
    return (time.monotonic() - begin) / (count_steps(server) - before)


def serve_beside(table, options):
    text, steps, alone, beside = inference("x", [1, 784]), [], [], []
    cnn = {"x": [[[[(i * k) % 7 / 7 for k in range(28)] for i in range(28)]]] * 64, "y": [i % 10 for i in range(64)]}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as state:
        put_model(pathlib.Path(folder), "net", layers(CLIENTS))
        with running(options, "--state", state, "--models", folder) as server:
            server.wait_ready()
            beamline.Client(server.url).put_program("cnn", cnn_program())
            for _ in rounds("beside training", options):
                alone.append(infer(server, "net", text, 1, options))
                with training(server, cnn):
                    steps.append(time_step(server, options.seconds))
                    beside.append(infer(server, "net", text, 1, options))
    done = [b["p99"] / (step + a["p99"]) for step, a, b in zip(steps, alone, beside)]
    table.add("a step of training", [1e3 * step for step in steps], "ms", digits=2)
    table.add("an answer alone: p99", [1e3 * one["p99"] for one in alone], "ms", digits=2)
    table.add("  beside training: p50", [1e3 * one["p50"] for one in beside], "ms", digits=2)
    table.add("  p99", [1e3 * one["p99"] for one in beside], "ms", digits=2)
    table.add("  p99, of a step and p99 alone", done, "times", 2, digits=2, most=True)


def product():
    return {"inputs": {"a": {"tensor": "a"}}, "nodes": [{"id": "y", "op": "matmul", "in": ["a", "a"]}, {"id": "s", "op": "sum", "in": ["y"]}], "outputs": ["s"]}


def device_seconds(server, key):
    return {row["key"]: row["device_seconds"] for row in json.loads(server.call("GET", "/api/v1/usage", key=key))["usage"]}


def serve_shares(table, options):
    ratios, used = [], []
    with tempfile.TemporaryDirectory() as state:
        keys = {name: subprocess.run([PROGRAM, "keys", "create", name, "--scopes", scope, "--state", state], check=True, capture_output=True, text=True).stdout.strip()
                for name, scope in (("many", "run"), ("few", "run"), ("root", "admin"))}
        with running(options, "--state", state) as server:
            for name in ("many", "few"):
                server.call("PUT", "/api/v1/tensors/a?dtype=float32&shape=512,512", bytes(4 << 18), keys[name], "application/octet-stream")
                server.call("POST", "/api/v1/run", product(), keys[name])
            for _ in rounds("shares", options):
                loads = [threading.Thread(target=wrk, args=(server.url + "/api/v1/run", script(json.dumps(product()), 0, {
                    "content-type": "application/json", "x-api-key": keys[name]}), connections, options.seconds + 2)) for name, connections in (("many", MANY), ("few", FEW))]
                for load in loads:
                    load.start()
                time.sleep(0.7)
                before, begin = device_seconds(server, keys["root"]), time.monotonic()
                time.sleep(options.seconds)
                after, took = device_seconds(server, keys["root"]), time.monotonic() - begin
                for load in loads:
                    load.join()
                spent = {name: after[name] - before.get(name, 0) for name in ("many", "few")}
                ratios.append(spent["many"] / spent["few"])
                used.append(sum(spent.values()) / took)
    table.add(f"device time of {MANY} connections by that of {FEW}", ratios, "times", 1.1, digits=3, most=True)
    table.add("  of the device's time, both", used, "", digits=3)


PARTS = {"echo": serve_echo, "batching": serve_batches, "texts": serve_texts, "training": serve_beside, "shares": serve_shares}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--device", help="of the server; by default its first")
    parser.add_argument("--data", default=os.environ.get("BEAMLINE_DATA"))
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    chosen = options.only.split(",")
    if shutil.which("wrk") is None or not set(chosen) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}" if shutil.which("wrk") else "wrk is not installed")
    table, load = Table(), os.getloadavg()
    for name in chosen:
        PARTS[name](table, options)
    if options.out:
        options.out.write_text(json.dumps({"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "threads": os.cpu_count(),
                                           "load": [load, os.getloadavg()], "rows": table.rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
