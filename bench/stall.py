#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure how long small requests wait while the server reads a large body or prints a large answer.

    bench/stall.py [--server build/beamline] [--rate 800] [CASE...]

A separate process sends small runs on 8 connections, --rate per second in all, independent of the answers.  A wait is counted
from the time at which the request was due.  A row has the median, the 99th percentile and the maximum of the waits during the
case in milliseconds, and the duration of the case.

  idle       no large request
  names      3.5 kB of gzip that expand to 400,000 equal names
  numbers    0.2 MB of gzip that expand to 100 million numbers
  answer     60 million numbers printed as JSON
  tokenizer  a text of 6 MB for a model with the tokenizer of GPT-2 (tokenizers/gpt2 of $BEAMLINE_DATA, with encoder.json and
             vocab.bpe; omitted if missing)
"""
import argparse
import gzip
import http.client
import json
import multiprocessing
import os
import pathlib
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
JSON = {"content-type": "application/json"}
CASES = ("idle", "names", "numbers", "answer", "tokenizer")
CONNECTIONS, WARM, LONGEST = 8, 1.0, 60.0
SMALL = json.dumps({"inputs": {"x": [1, 2, 3, 4]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"]}).encode()


def load(port, rate, pipe):
    """Sends requests until a message arrives on the pipe; then sends [(due, wait)] back."""
    head = f"POST /api/v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(SMALL)}\r\n\r\n".encode()
    selector, waits, idle = selectors.DefaultSelector(), [], []
    for _ in range(CONNECTIONS):
        link = socket.create_connection(("127.0.0.1", port))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(link, selectors.EVENT_READ, [0.0])
        idle.append(selector.get_key(link))
    due = time.monotonic()
    while not pipe.poll():
        now = time.monotonic()
        while idle and due <= now:
            key = idle.pop(0)
            key.data[0] = due
            key.fileobj.sendall(head + SMALL)
            due += 1 / rate
        for key, _ in selector.select(max(0.0, due - time.monotonic()) if idle else 0.1):
            if not key.fileobj.recv(65536):
                raise ConnectionResetError("the server closed a connection")
            waits.append((key.data[0], time.monotonic() - key.data[0]))
            idle.append(key)
    pipe.send(waits)


def ask(port, method, path, body=None, headers=None):
    """Returns the status of one exchange; reads and discards the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST)
    connection.request(method, path, body, headers or {})
    with connection.getresponse() as reply:
        while reply.read(1 << 20):
            pass
        status = reply.status
    connection.close()
    return status


def run_idle(port):
    time.sleep(3)
    return 200


def send(port, method, path, make, headers=None):
    """Returns a function that sends a body once; |make| makes the body before the case begins."""
    body = make()
    return lambda: ask(port, method, path, body, headers)


def make_names():
    return gzip.compress(b'{"inputs":{' + b",".join([b'"a":1'] * 400_000) + b'},"nodes":[],"outputs":[]}')


def make_numbers():
    return gzip.compress(b'{"dtype":"float32","shape":[100000000],"data":[' + b"0," * (100_000_000 - 1) + b"1]}", 9)


def make_text():
    words = "".join(f"The {i} quick brown foxes jump over {i * 7} lazy dogs, don't they? " for i in range(100_000))[:6_000_000]
    return json.dumps({"text_input": words}).encode()


def hold_numbers(port):
    made = {"inputs": {}, "nodes": [{"id": "y", "op": "uniform", "attrs": {"shape": [60_000_000]}}], "outputs": [], "keep": {"y": "y"}}
    if ask(port, "POST", "/api/v1/run", json.dumps(made), JSON) != 200:
        sys.exit("the tensor of 60 million numbers cannot be made")


def prepare(port, name):
    """Returns (function that runs the case, valid statuses)."""
    zipped = {**JSON, "content-encoding": "gzip"}
    if name == "idle":
        return lambda: run_idle(port), (200,)
    if name == "names":
        return send(port, "POST", "/api/v1/run", make_names, zipped), (400,)
    if name == "numbers":
        return send(port, "PUT", "/api/v1/tensors/n", make_numbers, zipped), (200, 201)
    if name == "tokenizer":
        return send(port, "POST", "/v2/models/words/generate", make_text, JSON), (200, 400)
    hold_numbers(port)
    return lambda: ask(port, "GET", "/api/v1/tensors/y"), (200,)


def measure(port, rate, work):
    """Returns ([wait in seconds], duration of the work, its status)."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=load, args=(port, rate, theirs))
    process.start()
    time.sleep(WARM)
    begin = time.monotonic()
    status = work()
    end = time.monotonic()
    ours.send(None)
    waits = ours.recv()
    process.join()
    return sorted(wait for due, wait in waits if begin <= due <= end), end - begin, status


def put_model(folder, tokenizer):
    """Adds a model that sums the tokens of a text."""
    version = folder / "words" / "1"
    version.mkdir(parents=True)
    (version / "model.json").write_text(json.dumps({
        "inputs": {"ids": {"dtype": "int32", "shape": ["rows", "n"]}}, "dims": {"rows": [1, 4], "n": [1, 4_000_000]},
        "nodes": [{"id": "y", "op": "sum", "in": ["ids"], "attrs": {"axis": 1}}], "outputs": ["y"]}))
    merges = [line for line in (tokenizer / "vocab.bpe").read_text().splitlines() if line and not line.startswith("#")]
    pieces = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (version / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": pieces, "post_processor": None, "decoder": pieces,
        "model": {"type": "BPE", "vocab": json.loads((tokenizer / "encoder.json").read_text()), "merges": merges}}))
    (folder / "words" / "config.json").write_text(json.dumps({"parameters": {"text": {"string_value": "text_input"}, "tokens": {"string_value": "ids"}}}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=str(ROOT / "build" / "beamline"))
    parser.add_argument("--rate", type=float, default=800)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = pathlib.Path(os.environ.get("BEAMLINE_DATA", ROOT.parent / "shared" / "data")) / "tokenizers" / "gpt2"
        if tokenizer.is_dir():
            put_model(pathlib.Path(folder), tokenizer)
        process = subprocess.Popen([options.server, "serve", "--port", "0", "--state", "none", "--models", folder, "--log-level", "error"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            while ask(port, "GET", "/v2/health/ready") != 200 or ask(port, "POST", "/api/v1/run", SMALL, JSON) != 200:
                time.sleep(0.1)
            for name in options.cases or CASES:
                if name == "tokenizer" and not tokenizer.is_dir():
                    print("tokenizer  left out: there is no", tokenizer)
                    continue
                work, right = prepare(port, name)
                waits, took, status = measure(port, options.rate, work)
                if status not in right:
                    sys.exit(f"{name}: the server answered {status}")
                print(f"{name:10s} median {statistics.median(waits) * 1e3:6.2f}  p99 {waits[int(len(waits) * 0.99)] * 1e3:6.2f}  longest {waits[-1] * 1e3:6.2f} ms  "
                      f"({len(waits)} requests in {took:.2f} s)", flush=True)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


if __name__ == "__main__":
    main()
