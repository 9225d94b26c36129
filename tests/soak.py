#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Soak test: mixed valid and invalid requests from several clients; afterwards memory, files and gauges must be as before.

    tests/soak.py [--requests 100000 | --minutes 30] [--backends opencl,interp] [--asan BUILD | --tsan BUILD | --program FILE]

Every client is a process with a kept connection, and separate connections for requests that break their connection.  The
expected answers are known, so an answer that belongs to another client is detected too.  The test fails at an unexpected
answer, if resident memory grows by more than 8 MiB + 2% after the first fifth, and if a file, tensor, lease, program, job or
device byte remains.  Clients use one of two keys.  tests/soak_kept.py has the clients for jobs, blobs, models that are loaded
meanwhile, and changing keys.  With --asan BUILD the program is a build with ASan and UBSan, and leaks are checked at the end of
the server.  With --tsan BUILD it is a build with ThreadSanitizer with the interpreter, since drivers are not instrumented; any
reported race fails the test.
"""

import argparse
import base64
import gzip
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "http")]

import fixture  # noqa: E402
import soak_kept  # noqa: E402
from fixture import JSON, OCTETS, SAFETENSORS, SLOW_STEPS, Server, counter, graph, head, read_safetensors, safetensors  # noqa: E402

RUN, PROGRAMS, TENSORS, LEASES = "/api/v1/run", "/api/v1/programs", "/api/v1/tensors", "/api/v1/leases"
PLANS, STRUCTURES = 48, 160  # fewer plans than structures, so that plans are evicted
MAX_BODY = 1 << 20
SCRATCH = 1 << 20  # limit of the plans' scratch memory on the device
ARGS = ("--max-plans", str(PLANS), "--max-body", "1M", "--max-tensor", "16M", "--max-lease", "60", "--log-level", "error", "--model-poll", "0.2",
        "--running-jobs", "3", "--response-cache", "1M")
KEYS = ("even", "odd")
SCOPES = "infer,run,train,metrics"


class Wrong(Exception):
    """An unexpected answer."""


class Keyed(Server):
    """A server with a state folder, a models folder, and a key for each half of the clients; direct requests use the
    administrator's key."""

    def __init__(self, clients, *args, env=None):
        self.folder, self.secrets = tempfile.TemporaryDirectory(), {}
        self.state, self.models = self.folder.name + "/state", self.folder.name + "/models"
        for name, scopes in (*((name, SCOPES) for name in KEYS), ("root", SCOPES + ",admin")):
            words = [fixture.PROGRAM, "keys", "create", name, "--scopes", scopes, "--state", self.state]
            self.secrets[name] = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, **(env or {})}).stdout.strip()
        soak_kept.fill(self.models, clients)
        super().__init__("--state", self.state, "--models", self.models, *args, env=env)

    def call(self, method, path, body=None, headers=None, timeout=60):
        return super().call(method, path, body, {"authorization": "Bearer " + self.secrets["root"], **(headers or {})}, timeout)

    def stop(self, wait=60):
        status = super().stop(wait)
        self.folder.cleanup()
        return status


class Client:
    """A client: a kept connection, its own random generator, and a counter of requests."""

    def __init__(self, server, number, seed):
        self.host, self.port, self.number = "127.0.0.1", server.port, number
        self.random = random.Random(seed * 1000 + number)
        self.connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        self.asked, self.pid, self.models, self.root = 0, server.process.pid, server.models, server.secrets["root"]
        self.key, self.other_key = KEYS[number % 2], KEYS[1 - number % 2]
        self.secret, self.other_secret = server.secrets[self.key], server.secrets[self.other_key]

    def call(self, method, path, body=None, headers=None, expect=(200,)):
        """Returns the body of an answer with one of the expected statuses; parses JSON."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("content-type", "application/json")
        headers.setdefault("authorization", "Bearer " + self.secret)
        self.asked += 1
        for again in (True, False):
            try:
                self.connection.request(method, path, body, headers)
                reply = self.connection.getresponse()
                data = reply.read()
                break
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self.connection.close()  # a framing error closes the connection
                if not again:
                    raise
        kind = reply.headers.get("content-type", "")
        if reply.status not in expect or (reply.status >= 400 and kind not in ("application/problem+json", "application/json")):
            raise Wrong(f"{method} {path} {str(body)[:300]}: {reply.status} {kind} {data[:500]!r}, not {expect}")
        return json.loads(data) if "json" in kind and data else data

    def same(self, want, got, what):
        if want != got:
            raise Wrong(f"{what}: {got}, not {want}")

    def run(self, document, want, **members):
        """Runs a graph and checks the results."""
        answer = self.call("POST", RUN, {**document, **members})
        for name, data in want.items():
            self.same(data, answer["outputs"][name]["data"], f"{name} of {json.dumps(document)[:300]}")
        return answer

    def own(self, name):
        return f"{name}{self.number}"

    def socket(self):
        self.asked += 1
        return socket.create_connection((self.host, self.port), timeout=60)

    def head(self, method, path, *lines):
        return head(method, path, "Authorization: Bearer " + self.secret, *lines)

    def leave(self, method, path, *lines, body=b""):
        """Sends a request on a separate connection and disconnects before the answer is complete."""
        with self.socket() as sock:
            sock.sendall(self.head(method, path, *lines) + body)
            sock.settimeout(0.05)
            try:
                sock.recv(100)
            except (TimeoutError, ConnectionResetError):
                pass

    def post(self, path, document):
        """Sends a request on a separate connection.  Returns the connection."""
        body = json.dumps(document).encode()
        sock = self.socket()
        sock.sendall(self.head("POST", path, "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
        return sock


def rows(*given):
    """Converts (id, op, in, attrs) rows to nodes."""
    return [{"id": i, "op": op, "in": ins, **({"attrs": attrs[0]} if attrs else {})} for i, op, ins, *attrs in given]


# ---- requests; each function is one request of a client

def cached(c):
    """Graphs that are soon in the plan cache, with random numbers."""
    a, b = c.random.randrange(1000), c.random.randrange(1000)
    kind = c.random.randrange(4)
    if kind == 0:
        c.run(graph(inputs={"x": [a, b]}), {"y": [2 * a, 2 * b]})
    elif kind == 1:
        c.run({"inputs": {"x": [[a, b, 1], [b, a, 2]]}, "nodes": rows(("y", "add", ["x", 1]), ("s", "sum", ["y"], {"axis": 1})), "outputs": ["s"]},
              {"s": [a + b + 4, a + b + 5]})
    elif kind == 2:
        c.run({"inputs": {"x": [[a, b], [1, 2]], "y": [[1, 2], [3, 4]]}, "nodes": rows(("p", "matmul", ["x", "y"])), "outputs": ["p"]},
              {"p": [a + 3 * b, 2 * a + 4 * b, 7, 10]})
    else:  # several reductions over the same rows
        answer = c.call("POST", RUN, {"inputs": {"x": [[a, a, a, a]] * 8}, "nodes": rows(("y", "softmax", ["x"], {"axis": 1})), "outputs": ["y"]})
        c.same([0.25] * 32, answer["outputs"]["y"]["data"], "softmax")


def gradient(c):
    a = [c.random.randrange(100) for _ in range(3)]
    b = [c.random.randrange(100) for _ in range(3)]
    nodes = rows(("ab", "mul", ["a", "b"]), ("c", "add", ["ab", "a"]), ("d", "sum", ["c"]), (["da", "db"], "grad", ["d", "a", "b"]))
    c.run({"inputs": {"a": a, "b": b}, "nodes": nodes, "outputs": ["c", "da", "db"]},
          {"c": [x * y + x for x, y in zip(a, b)], "da": [y + 1 for y in b], "db": a})


def structure(c, number=None):
    """Returns one of more graphs than the plan cache holds: each digit of the number in base 3 is a node."""
    number, x = c.random.randrange(STRUCTURES) if number is None else number, c.random.randrange(100)
    nodes, last, value, left = [], "x", x, number + 3
    while left > 0:
        op, operand = (("add", 5), ("sub", 3), ("neg", None))[left % 3]
        nodes += rows((f"n{len(nodes)}", op, [last] if operand is None else [last, operand]))
        last, left = nodes[-1]["id"], left // 3
        value = {"add": value + 5, "sub": value - 3, "neg": -value}[op]
    if number % 2:  # an intermediate result, which needs scratch memory
        size = number % 7 + 2
        nodes += rows(("row", "reshape", [last], {"shape": [1, size]}), ("square", "matmul", ["column", "row"]), ("column", "permute", ["row"], {"axes": [1, 0]}),
                      ("m", "max", ["square"]), ("e", "sub", ["square", "m"]), ("s", "sum", ["e"]))
        c.run({"inputs": {"x": [x] * size}, "nodes": nodes, "outputs": ["s"]}, {"s": [0]})
    else:
        c.run({"inputs": {"x": [x] * 4}, "nodes": nodes, "outputs": [last]}, {last: [value] * 4})


def named_dimension(c):
    n = c.random.randrange(1, 50)
    c.run({"inputs": {"x": list(range(n))}, "shapes": {"x": ["n"]}, "dims": {"n": [1, 64]}, "nodes": rows(("s", "sum", ["x"])), "outputs": ["s"]},
          {"s": [n * (n - 1) // 2]})


def program(c):
    """Puts, runs, reads, replaces and deletes a program of the client."""
    path = f"{PROGRAMS}/{c.own('p')}"
    steps = c.random.randrange(1, 40)
    c.call("PUT", path, counter(), expect=(201,))
    answer = c.call("POST", path + "/run", {"steps": steps, "collect": {"every": 2, "outputs": ["m"]}})
    c.same([steps], answer["outputs"]["m"]["data"], "steps")
    c.same(list(range(2, steps + 1, 2)), answer["collected"]["m"]["data"], "collected")
    c.call("PUT", path + "/state", {"state": {"n": 7}}, expect=(204,))
    c.same([8], c.call("POST", path + "/run", {})["outputs"]["m"]["data"], "step")
    state = read_safetensors(c.call("GET", path + "/state", headers={"accept": SAFETENSORS}))[0]
    c.same(struct.pack("<f", 8), state["n"][2], "state")
    c.call("DELETE", path, expect=(204,))
    c.call("POST", path + "/run", {}, expect=(404,))


def training(c):
    """A program with an optimiser, an initialiser and random numbers."""
    path = f"{PROGRAMS}/{c.own('t')}"
    nodes = rows(("p", "matmul", ["x", "w"]), ("q", "dropout", ["p"], {"p": 0.25}), ("l", "mean", ["q"]), (["w1"], "adam", ["l", "w"], {"lr": 0.01}))
    document = {"inputs": {"x": {"dtype": "float32", "shape": [4, 8]}}, "nodes": nodes, "updates": {"w": "w1"}, "outputs": ["l"],
                "state": {"w": {"op": "kaiming_uniform", "attrs": {"shape": [8, 4], "seed": c.random.randrange(4)}}}}
    c.call("PUT", path, document, expect=(201,))
    c.call("POST", path + "/run", {"inputs": {"x": [[1] * 8] * 4}, "steps": c.random.randrange(1, 10)})
    names = set(c.call("GET", path + "/state")["state"])
    c.same({"w", "w1.m.w", "w1.v.w", "w1.step", "rng"}, names, "state")
    c.call("DELETE", path, expect=(204,))


def tensor(c):
    """Puts a tensor as bytes, gzip, deflate or JSON, gets it in each form, and deletes it."""
    n = c.random.randrange(0, 3000)
    data = [c.random.randrange(1000) for _ in range(n)]
    raw, path = struct.pack(f"<{n}i", *data), f"{TENSORS}/{c.own('t')}"
    kind = c.random.randrange(5)
    if kind < 3:
        body = (raw, gzip.compress(raw), zlib.compress(raw))[kind]
        coding = ({}, {"content-encoding": "gzip"}, {"content-encoding": "deflate"})[kind]
        c.call("PUT", f"{path}?dtype=int32&shape={n}", body, {**OCTETS, **coding}, expect=(201,))
    elif kind == 3:
        c.call("PUT", path, {"dtype": "int32", "shape": [n], "data": data}, expect=(201,))
    else:
        c.call("PUT", path, {"dtype": "int32", "shape": [n], "base64": base64.b64encode(raw).decode()}, expect=(201,))
    form = c.random.randrange(3)
    if form == 0:
        c.same(data, c.call("GET", path)["data"], "tensor")
    elif form == 1:
        c.same(raw, c.call("GET", path, headers={"accept": "application/octet-stream"}), "bytes")
    else:
        c.same(raw, next(iter(read_safetensors(c.call("GET", path, headers={"accept": SAFETENSORS}))[0].values()))[2], "file")
    if c.random.randrange(2):
        c.call("DELETE", path, expect=(204,))
    else:
        c.same(1, c.call("POST", TENSORS + "/delete", {"names": [c.own("t"), "none"]})["deleted"], "deleted")


def kept(c):
    """Retained results under a lease that ends or expires; their names are then free."""
    a, ends = c.random.randrange(1000), c.random.randrange(3) > 0
    lease = c.call("POST", LEASES, {"ttl": 60 if ends else 10}, expect=(201,))["lease"]
    c.run(graph(inputs={"x": [a, a]}, outputs=[]), {}, keep={"k": "y", "l": "y"} if a % 2 else {"k": "y"}, lease=lease)
    c.run(graph(inputs={"x": {"tensor": "k"}}), {"y": [4 * a] * 2}, keep={"k": "y"}, lease=lease)  # replaces its own input
    c.same([4 * a] * 2, c.call("GET", f"{TENSORS}/k?lease={lease}")["data"], "kept")
    if ends:
        c.call("PUT", f"{LEASES}/{lease}", {"ttl": 20})
        c.call("DELETE", f"{LEASES}/{lease}", expect=(204,))
        c.call("GET", f"{TENSORS}/k?lease={lease}", expect=(404,))


def shared(c):
    """One program and one tensor that all clients put, run and delete concurrently."""
    path, name = PROGRAMS + "/shared", TENSORS + "/shared"
    for _ in range(4):
        kind = c.random.randrange(7)
        if kind == 0:
            c.call("PUT", path, counter(), expect=(200, 201, 503))
        elif kind == 1:
            c.call("POST", path + "/run", {"steps": 3}, expect=(200, 404))
        elif kind == 2:
            c.call(c.random.choice(["DELETE", "GET"]), path, expect=(200, 204, 404, 503))
        elif kind == 3:
            c.call("GET", path + "/state", expect=(200, 404))
        elif kind == 4:
            c.call("PUT", name + "?dtype=float32&shape=2", bytes(8), OCTETS, expect=(201,))
        elif kind == 5:
            c.call("POST", RUN, graph(inputs={"x": {"tensor": "shared"}}, keep={"shared": "y"}), expect=(200, 404))
        else:
            c.call(c.random.choice(["DELETE", "GET"]), name, expect=(200, 204, 404))


def files(c):
    """safetensors in both directions."""
    a = c.random.randrange(1000)
    document = {k: v for k, v in graph().items() if k != "inputs"}
    file = safetensors({"x": ("F32", [2], struct.pack("<2f", a, 1))}, {"request": json.dumps(document)})
    answer = c.call("POST", RUN, file, {"content-type": SAFETENSORS, "accept": SAFETENSORS})
    c.same(struct.pack("<2f", 2 * a, 2), read_safetensors(answer)[0]["y"][2], "file")
    broken = bytearray(file)
    broken[c.random.randrange(len(file) - 8)] ^= 1 << c.random.randrange(8)  # the file may still be valid
    c.call("POST", RUN, bytes(broken), {"content-type": SAFETENSORS}, expect=(200, 400, 404, 422))
    c.call("POST", RUN, file[:c.random.randrange(len(file))], {"content-type": SAFETENSORS}, expect=(400, 422))


def coded(c):
    """gzip bodies: complete, truncated, not gzip, and a decompression bomb."""
    gz = {**JSON, "content-encoding": "gzip"}
    body = gzip.compress(json.dumps(graph(inputs={"x": [c.number, 1]})).encode())
    c.same([2 * c.number, 2], c.call("POST", RUN, body, gz)["outputs"]["y"]["data"], "gzip")
    c.call("POST", RUN, body[:c.random.randrange(len(body))], gz, expect=(400,))
    c.call("POST", RUN, json.dumps(graph()), gz, expect=(400,))
    if c.random.randrange(4) == 0:
        c.call("POST", RUN, gzip.compress(bytes(4 * MAX_BODY), 1), gz, expect=(413,))


MALFORMED = ['{"nodes":', "", "[1,", '{"a":1}', "null", "[" * 1000, '{"inputs":{"x":[01]}}', '{"x":"\\ud800"}', '{"nodes":[],"nodes":[]}', "\0",
             '{"inputs":{"x":[NaN]},"nodes":[],"outputs":["x"]}', json.dumps(graph())[:-1], json.dumps(graph()) + "x"]


def malformed(c):
    for _ in range(4):
        c.call("POST", RUN, c.random.choice(MALFORMED), JSON, expect=(400, 422))
    text = bytearray(json.dumps(graph()).encode())
    text[c.random.randrange(len(text))] = c.random.randrange(256)
    c.call("POST", RUN, bytes(text), JSON, expect=(200, 400, 404, 422))


IMPOSSIBLE = [
    graph(nodes=rows(("y", "none", ["x"]))), graph(nodes=rows(("y", "add", ["x", "z"]))), graph(outputs=["z"]), graph(outputs=3),
    graph(nodes=rows(("y", "neg", ["y"]))), graph(nodes=rows(("y", "matmul", ["x", "x"], {"axis": 1}))), graph(nodes="y"), graph(steps=3),
    graph(inputs={"x": [[1], [1, 2]]}), graph(inputs={"x": ["a"]}), graph(inputs={"x": {"dtype": "float33", "shape": [1], "data": [1]}}),
    graph(inputs={"x": {"dtype": "float32", "shape": [2**40, 2**40]}}), graph(nodes=rows(("y", "reshape", ["x"], {"shape": [7]}))),
    graph(nodes=rows(("y", "zeros", [], {"shape": [2**40]}))), graph(nodes=rows(("y", "expand", ["x"], {"shape": [2**30, 2]}))),
    graph(nodes=rows(("y", "sum", ["x"], {"axis": 5}))), graph(nodes=rows(("s", "sum", ["x"]), ("y", "grad", ["x", "x"]))), graph(device="cuda:0"),
    graph(keep={"a b": "y"}), graph(lease="none"), graph(inputs={"x": {"tensor": "none"}}), graph(timeout_ms=-1), graph(seed="x"),
    graph(nodes=rows(("y", "cast", ["x"], {"dtype": "int3"}))), graph(nodes=rows(("w", "adam", ["x", "x"]), ("y", "neg", ["w"])))]


def impossible(c):
    """JSON documents that are no valid graphs; programs too."""
    for _ in range(4):
        c.call("POST", RUN, c.random.choice(IMPOSSIBLE), expect=(400, 404, 422))
    bad = {k: v for k, v in c.random.choice(IMPOSSIBLE).items() if k != "inputs"}
    c.call("PUT", f"{PROGRAMS}/{c.own('bad')}", {**bad, "inputs": {"x": {"dtype": "float32", "shape": [2]}}, "updates": {"x": "y"}},
           expect=(400, 404, 422))


def elsewhere(c):
    """Unsupported addresses, methods, types and sizes, and small supported pages."""
    c.call("GET", c.random.choice(["/nothing", "/api/v2/run", "/api/v1/tensors/none", "/api/v1/programs/%00", "/api/v1/leases/x/y", "//", "/%2e%2e"]),
           expect=(400, 404))
    c.call(c.random.choice(["DELETE", "PATCH", "GET"]), RUN, expect=(405,))
    c.call("POST", RUN, "x=1", {"content-type": "text/plain"}, expect=(415,))
    c.call("GET", "/v2", headers={"host": "example.org"}, expect=(421,))
    c.call("GET", "/v2", headers={"origin": "https://example.org"}, expect=(403,))
    c.call("PUT", f"{TENSORS}/o?dtype=float32&shape=3", bytes(11), OCTETS, expect=(400, 422))
    c.call("GET", c.random.choice(["/", "/openapi.json", "/metrics", "/v2/health/live", "/v2/health/ready", "/api/v1/devices", TENSORS, PROGRAMS]))


def oversize(c):
    """Bodies over the limit: by a declared length, by their actual length, and in chunks."""
    kind, line = c.random.randrange(3), b" " * 65536
    lengths = ("Content-Length: 99999999999", f"Content-Length: {MAX_BODY + c.random.randrange(1, 1000)}", "Transfer-Encoding: chunked")
    parts = ([b"{"], [line] * 17, [b"10000\r\n" + line + b"\r\n"] * 17 + [b"0\r\n\r\n"])
    got = b""
    with c.socket() as sock:
        try:
            sock.sendall(c.head("POST", RUN, "Content-Type: application/json", lengths[kind]))
            for part in parts[kind]:
                sock.sendall(part)
        except (ConnectionResetError, BrokenPipeError):
            pass  # answered and closed meanwhile
        try:
            got = sock.recv(100)
        except ConnectionResetError:
            pass
    if got and b" 413 " not in got or not got and kind == 0:
        raise Wrong(f"oversize {kind}: {got!r}")


def aborted(c):
    """Clients that disconnect: in a head, a body or an upload, while their request waits or runs, and during the answer."""
    kind = c.random.randrange(6)
    if kind == 0:
        sock = c.socket()
        sock.sendall(c.head("POST", RUN, "Content-Type: application/json", "Content-Length: 1000")[:c.random.randrange(1, 120)])
    elif kind == 1:
        sock = c.socket()
        sock.sendall(c.head("POST", RUN, "Content-Type: application/json", "Content-Length: 1000") + b'{"inputs":{"x":[1,2')
    elif kind == 2:
        sock = c.socket()
        sock.sendall(c.head("PUT", f"{TENSORS}/{c.own('u')}?dtype=uint8&shape=500000", "Content-Type: application/octet-stream",
                          "Content-Length: 500000") + bytes(c.random.randrange(200000)))
    elif kind == 3:
        sock = c.post(RUN, {"inputs": {"x": [1]}, "nodes": rows(("y", "expand", ["x"], {"shape": [200000]})), "outputs": ["y"]})
        if c.random.randrange(2):
            sock.recv(100)
    else:
        path = f"{PROGRAMS}/{c.own('long')}"
        c.call("PUT", path, counter(), expect=(200, 201))
        sock = c.post(path + "/run", {"steps": SLOW_STEPS})
        time.sleep(c.random.choice([0, 0.002, 0.01]))
        if kind == 5:
            sock.shutdown(socket.SHUT_WR)
            sock.recv(1000)
    if c.random.randrange(2):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset instead of a close
    sock.close()
    if kind >= 4:
        c.call("DELETE", path, expect=(204,))


def late(c):
    """A run that exceeds its time limit reports its number of steps, and executed exactly these."""
    path = f"{PROGRAMS}/{c.own('late')}"
    c.call("PUT", path, counter(), expect=(200, 201))
    problem = c.call("POST", path + "/run", {"steps": SLOW_STEPS, "timeout_ms": c.random.randrange(1, 20)}, expect=(504,))
    c.same([problem.get("step", 0)], c.call("GET", path + "/state")["state"]["n"]["data"], "steps of a late run")
    c.call("DELETE", path, expect=(204,))


MIX = [(cached, 60), (gradient, 12), (structure, 6), (named_dimension, 4), (program, 4), (training, 1), (tensor, 12), (kept, 5), (shared, 6),
       (files, 5), (coded, 3), (malformed, 4), (impossible, 4), (elsewhere, 2), (oversize, 1), (aborted, 3), (late, 1), *soak_kept.MIX]


def work(server, number, seed, quota, ends, progress, failures):
    """The complete run of a client in its own process.  The first client begins with every structure, since a driver may keep
    memory for each compiled source."""
    client = Client(server, number, seed)
    functions, weights = zip(*MIX)
    function = structure
    try:
        for i in range(STRUCTURES if number == 0 else 0):
            structure(client, i)
        while client.asked < quota and time.monotonic() < ends and failures.empty():
            function = client.random.choices(functions, weights)[0]
            function(client)
            progress[number] = client.asked
    except BaseException:  # any exception is passed to the parent process
        failures.put(f"client {number}, {function.__name__}, request {client.asked}:\n{traceback.format_exc()}")
    client.connection.close()


# ---- the state of the server

def gauges(server):
    """Returns {name: sum over the devices} of the metrics."""
    found = {}
    for line in server.call("GET", "/metrics").body.decode().splitlines():
        match = re.fullmatch(r"beamline_(\w+)(?:\{device=.*\})? (\S+)", line)
        if match:
            found[match[1]] = found.get(match[1], 0) + float(match[2])
    return found


def sample(server, requests):
    found = gauges(server)
    return {"requests": requests, "rss": server.rss(), "files": len(os.listdir(f"/proc/{server.process.pid}/fd")),
            "held": found["held_bytes"], "device": found["device_bytes"], "live": found["device_bytes"] - found["device_pool_bytes"], "plans": found["plans"]}


def show(s, start):
    print(f"{time.monotonic() - start:7.1f} s  {s['requests']:>8} requests  RSS {s['rss'] / 2**20:8.2f} MiB  {s['files']:>4} files"
          f"  device {s['device'] / 2**20:8.3f} MiB, {s['live'] / 2**20:8.3f} without the pool  {s['plans']:>4.0f} plans", flush=True)


def drive(server, requests, seconds, clients, seed, report):
    """Runs the clients until |requests| requests or for |seconds|.  Returns the errors.  Calls |report| with the number of
    requests so far."""
    context, ends = multiprocessing.get_context("fork"), time.monotonic() + seconds
    progress, failures = context.Array("l", clients), context.SimpleQueue()
    workers = [context.Process(target=work, args=(server, i, seed, requests // clients, ends, progress, failures), daemon=True) for i in range(clients)]
    problems = []
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.05)
        report(sum(progress))
    for worker in workers:
        worker.join()
        if worker.exitcode != 0:
            problems.append(f"a client ended with {worker.exitcode}")
    while not failures.empty():
        problems.append(failures.get())
    return problems, sum(progress)


EMPTY = {"tensors": 0, "leases": 0, "programs": 0, "jobs": 0, "streams": 0, "connections": 1, "requests_active": 1, "queue_length": 0}


def settle(server):
    """Deletes everything shared and waits until leases have expired.  Returns the remaining objects."""
    for key in KEYS:
        for path in (PROGRAMS + "/shared", TENSORS + "/shared"):
            server.call("DELETE", path, headers={"authorization": "Bearer " + server.secrets[key]})
        server.call("POST", "/v2/repository/models/reloaded/unload", {}, headers={"authorization": "Bearer " + server.secrets[key]})
    server.call("POST", "/v2/repository/models/reloaded/load", {})
    left, end = {}, time.monotonic() + 40  # a lease that no client ends expires
    while time.monotonic() < end:
        found = gauges(server)
        left = {name: found[name] for name, count in EMPTY.items() if found[name] != count}
        left.update(dict.fromkeys(soak_kept.kept_files(server.state), "on the disk"))
        if not left:
            return []
        time.sleep(0.05)
    return [f"left behind: {left}"]


def compare(first, last, extra):
    """Returns the problems of two idle states of the server: nothing may have grown between them."""
    problems, bound = [], extra + first["rss"] // 50
    print(f"RSS {first['rss'] / 2**20:.2f} MiB after {first['requests']} requests, {last['rss'] / 2**20:.2f} MiB after {last['requests']}"
          f" (bound {(first['rss'] + bound) / 2**20:.2f})", flush=True)
    if last["rss"] > first["rss"] + bound:
        problems.append(f"RSS grew by {last['rss'] - first['rss']} bytes, over the bound of {bound}")
    if last["files"] > first["files"] + 2:  # a connection may just have been closed
        problems.append(f"{last['files']} files are open, {first['files']} were before")
    if last["held"] > first["held"]:
        problems.append(f"{last['held']:.0f} bytes are held, {first['held']:.0f} were before")
    if last["live"] > first["live"] + SCRATCH:
        problems.append(f"{last['live']:.0f} bytes of the device are in use, {first['live']:.0f} were before")
    return problems


def soak(requests, clients=4, seed=1, args=(), env=None, extra=8 << 20, quiet=False, warm=0.2, seconds=float("inf")):
    """Starts a server, sends requests, records the state, sends more requests, compares the state, and stops the server.
    Returns a list of problems.  |warm| is the part before the first state."""
    server = Keyed(clients, *ARGS, *args, env=env)
    start, looks, problems = time.monotonic(), [], []
    while server.call("GET", "/v2/health/ready").status != 200 and time.monotonic() < start + soak_kept.PATIENCE:  # models are being loaded
        time.sleep(0.05)
    step, done, shown = max(min(requests, 100000) // 20, 1), 0, 0

    def report(now):
        nonlocal shown
        if not quiet and done + now >= shown + step:
            shown = done + now
            show(sample(server, shown), start)

    try:
        for part in (warm, 1 - warm):
            problems, asked = drive(server, int(requests * part), seconds * part, clients, seed + done, report)
            problems = problems or settle(server)
            done += asked
            looks.append(sample(server, done))
            show(looks[-1], start)
            if problems:
                break
        else:
            problems += compare(*looks, extra)
    except (OSError, http.client.HTTPException):
        problems.append("the server does not answer:\n" + traceback.format_exc())
    status = server.stop()
    if status != 0 or re.search("runtime error:|WARNING: ThreadSanitizer", server.log_text()):
        problems.append(f"the server ended with {status}:\n{server.log_text()[-6000:]}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=None, help="default 100000, or no bound with --minutes")
    parser.add_argument("--minutes", type=float, help="until then at most")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backends", default="opencl,interp", help="as the server's own setting")
    parser.add_argument("--program", help="the server; default $BEAMLINE or build/beamline")
    parser.add_argument("--asan", metavar="BUILD", help="folder of a build with -Db_sanitize=address,undefined")
    parser.add_argument("--tsan", metavar="BUILD", help="folder of a build with -Db_sanitize=thread")
    parser.add_argument("--bound", type=float, help="MiB by which resident memory may grow, beside 2%%; default 8, with --asan or --tsan 64")
    options = parser.parse_args()
    env, bound = {}, options.bound if options.bound is not None else 64 if options.asan or options.tsan else 8  # ASan keeps freed memory for a while
    if options.asan:
        env = {"LSAN_OPTIONS": f"suppressions={ROOT}/tests/lsan.supp:print_suppressions=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
        options.program = os.path.join(options.asan, "beamline")
    if options.tsan:
        env, options.program, options.backends = {"TSAN_OPTIONS": "halt_on_error=0 second_deadlock_stack=1"}, os.path.join(options.tsan, "beamline"), "interp"
    if options.program:
        fixture.PROGRAM = options.program
    requests = options.requests or (10**9 if options.minutes else 100000)
    warm = 0.5 if options.tsan else 0.2  # its shadow memory of first-used pages takes 15,000 requests to level off
    problems = soak(requests, options.clients, options.seed, ("--backends", options.backends), env, int(bound * 2**20), warm=warm,
                    seconds=60 * options.minutes if options.minutes else float("inf"))
    print("\n".join(problems) or "steady")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
