# SPDX-License-Identifier: MIT
"""Programs that jobs train in tests, and functions that wait for jobs."""

import json
import time

J = "/api/v1/jobs"


def line(rate=0.01):
    """Returns a line through points, fitted by Adam."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [4]}, "t": {"dtype": "float32", "shape": [4]}}, "state": {"w": [0], "b": [0]},
            "nodes": [{"id": "wx", "op": "mul", "in": ["x", "w"]}, {"id": "p", "op": "add", "in": ["wx", "b"]},
                      {"id": "e", "op": "sub", "in": ["p", "t"]}, {"id": "e2", "op": "mul", "in": ["e", "e"]},
                      {"id": "loss", "op": "mean", "in": ["e2"]},
                      {"id": ["w1", "b1"], "op": "adam", "in": ["loss", "w", "b"], "attrs": {"lr": rate}}],
            "updates": {"w": "w1", "b": "b1"}, "outputs": ["loss"]}


def places(count=64):
    """Returns a program that writes the next position in place in each step, followed by further launches for the sum."""
    return {"inputs": {}, "state": {"s": {"op": "full", "attrs": {"shape": [count], "value": 0}}, "n": {"dtype": "int32", "shape": []}},
            "nodes": [{"id": "i", "op": "arange", "attrs": {"stop": count, "dtype": "int32"}}, {"id": "here", "op": "equal", "in": ["i", "n"]},
                      {"id": "n1", "op": "add", "in": ["n", 1]}, {"id": "v", "op": "cast", "in": ["n1"], "attrs": {"dtype": "float32"}},
                      {"id": "s1", "op": "where", "in": ["here", "v", "s"]}, {"id": "column", "op": "reshape", "in": ["s1"], "attrs": {"shape": [count, 1]}},
                      {"id": "row", "op": "arange", "attrs": {"stop": 8192, "dtype": "float32"}}, {"id": "all", "op": "mul", "in": ["column", "row"]},
                      {"id": "y", "op": "sum", "in": ["all"]}],
            "updates": {"s": "s1", "n": "n1"}, "outputs": ["y"]}


POINTS = {"x": [0, 1, 2, 3], "t": [1, 3, 5, 7]}


def noisy(size=24):
    """Returns two layers with dropout, so that every step draws random numbers; the entry "test" has no dropout."""
    x = {"x": {"dtype": "float32", "shape": [8, size]}, "t": {"dtype": "float32", "shape": [8, 1]}}
    start = {"op": "normal", "attrs": {"shape": [size, size], "std": 0.2, "seed": 1}}

    def nodes(drop):
        hidden = [{"id": "h", "op": "matmul", "in": ["x", "a"]}, {"id": "r", "op": "relu", "in": ["h"]}]
        if drop:
            hidden.append({"id": "d", "op": "dropout", "in": ["r"], "attrs": {"p": 0.5}})
        return [*hidden, {"id": "y", "op": "matmul", "in": ["d" if drop else "r", "b"]}, {"id": "e", "op": "sub", "in": ["y", "t"]},
                {"id": "q", "op": "mul", "in": ["e", "e"]}, {"id": "loss", "op": "mean", "in": ["q"]}]
    step = {"id": ["a1", "b1"], "op": "adamw", "in": ["loss", "a", "b"], "attrs": {"lr": 0.01}}
    return {"state": {"a": start, "b": {"op": "normal", "attrs": {"shape": [size, 1], "std": 0.2, "seed": 2}}},
            "entries": {"train": {"inputs": x, "nodes": [*nodes(True), step], "updates": {"a": "a1", "b": "b1"}, "outputs": ["loss"]},
                        "test": {"inputs": x, "nodes": nodes(False), "outputs": ["loss", "y"]}}}


def judge(size=24, scale=1.0):
    """Returns the test entry of noisy() as a separate program, also with dropout, with its own factor, and with a counter that
    each run would change."""
    entries = noisy(size)["entries"]
    more = [{"id": "scaled", "op": "mul", "in": ["loss", "scale"]}, {"id": "runs", "op": "add", "in": ["count", 1]}]

    def entry(nodes):
        return {"inputs": entries["test"]["inputs"], "nodes": [*nodes, *more], "updates": {"count": "runs"}, "outputs": ["loss", "scaled", "runs"]}
    return {"state": {"scale": scale, "b": {"dtype": "float32", "shape": [size, 1]}, "count": 0, "a": {"dtype": "float32", "shape": [size, size]}},
            "entries": {"test": entry(entries["test"]["nodes"]), "drop": entry(entries["train"]["nodes"][:-1])}}


def noisy_inputs(size=24):
    return {"x": [[(i * 7 + k * 3) % 11 / 11 for k in range(size)] for i in range(8)], "t": [[i / 8] for i in range(8)]}


def wait(server, job, states=("done", "failed", "cancelled"), seconds=60):
    """Waits until the job is in one of the states."""
    end = time.monotonic() + seconds
    while True:
        answer = server.call("GET", f"{J}/{job}").json
        if answer["state"] in states:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"still {answer} after {seconds} s")
        time.sleep(0.02)


def events(body):
    """Returns [(name, id, document)] of a stream."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields:
            found.append((fields.get("event", "message"), fields.get("id"), json.loads(fields["data"])))
    return found
