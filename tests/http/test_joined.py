# SPDX-License-Identifier: MIT
"""Dynamic batching: concurrent runs of one program are joined to one run; each has its own answer, deadline, error and cost."""

import concurrent.futures
import json
import random
import socket
import struct
import threading
import time
import unittest

from fixture import SAFETENSORS, SLOW_STEPS, head, ServerTest, read_safetensors, safetensors
from test_keys import KeyedCase

P = "/api/v1/programs"
LONG_US = 90000000  # longer than any test waits: an earlier answer was joined


def net(most=16, rows="rows", **members):
    """Returns a network of two layers and a softmax; `learn` changes the weights."""
    inputs = {"x": {"dtype": "float32", "shape": [rows, 6]}}
    return {"dims": {rows: [1, most]}, "device": "interp:0",
            "state": {"w": {"op": "normal", "attrs": {"shape": [6, 5], "seed": 1}}, "v": {"op": "normal", "attrs": {"shape": [5, 3], "seed": 2}}},
            "entries": {
                "ask": {"inputs": inputs, "nodes": [{"id": "h", "op": "matmul", "in": ["x", "w"]}, {"id": "t", "op": "tanh", "in": ["h"]},
                                                    {"id": "z", "op": "matmul", "in": ["t", "v"]}, {"id": "y", "op": "softmax", "in": ["z"], "attrs": {"axis": 1}},
                                                    {"id": "best", "op": "argmax", "in": ["z"], "attrs": {"axis": 1}}], "outputs": ["y", "best"]},
                "learn": {"inputs": {}, "nodes": [{"id": "w1", "op": "mul", "in": ["w", 0.5]}], "updates": {"w": "w1"}, "outputs": []}},
            **members}


def slow(most, width=160, **members):
    """Returns 2 x, computed through products that take the interpreter some time per row."""
    nodes = [node("h0", "matmul", "x", "u")] + [node(f"h{i + 1}", "matmul", f"h{i}", "w") for i in range(6)]
    nodes += [node("s", "sum", "h6", axis=1, keepdim=True), node("z", "mul", "s", 0), node("d", "mul", "x", 2), node("y", "add", "d", "z")]
    return {"inputs": {"x": {"dtype": "float32", "shape": ["rows", 1]}}, "dims": {"rows": [1, most]}, "nodes": nodes, "outputs": ["y"], "device": "interp:0",
            "state": {"u": {"op": "normal", "attrs": {"shape": [1, width], "seed": 1}}, "w": {"dtype": "float32", "shape": [width, width]}}, **members}


def entry(nodes, output="y", shape=(4,), dims=None, **members):
    """Returns a program with one input [rows, *shape]."""
    return {"inputs": {"x": {"dtype": "float32", "shape": ["rows", *shape]}}, "dims": {"rows": [1, 8], **(dims or {})}, "nodes": nodes, "outputs": [output],
            "device": "interp:0", **members}


def node(id, op, *sources, **attrs):
    return {"id": id, "op": op, "in": list(sources), **({"attrs": attrs} if attrs else {})}


# Programs that can be batched and programs that cannot, by what the graph computes.
APART = {
    "elementwise": entry([node("y", "mul", "x", 2)]),
    "sum of a row": entry([node("y", "sum", "x", axis=1)]),
    "softmax of a row": entry([node("y", "softmax", "x", axis=1)]),
    "normalised by its mean": entry([node("m", "mean", "x", axis=1, keepdim=True), node("y", "sub", "x", "m")]),
    "product with weights": entry([node("y", "matmul", "x", "w")], state={"w": [[1, 2], [3, 4], [5, 6], [7, 8]]}),
    "rows merged with what is behind": entry([node("r", "reshape", "x", shape=[-1, 5]), node("h", "matmul", "r", "w"), node("y", "reshape", "h", shape=[-1, 3, 2])], shape=(3, 5),
                                             state={"w": [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]}),
    "rows moved and moved back": entry([node("t", "permute", "x", axes=[1, 0]), node("n", "neg", "t"), node("y", "permute", "n", axes=[1, 0])]),
    "products of a row with itself": entry([node("t", "permute", "x", axes=[0, 2, 1]), node("y", "matmul", "x", "t")], shape=(3, 4)),
    "convolution": entry([node("c", "conv2d", "x", "k", padding=1), node("p", "max_pool2d", "c", kernel_size=2), node("y", "flatten", "p", start_axis=1)], shape=(2, 6, 6),
                         state={"k": {"op": "normal", "attrs": {"shape": [3, 2, 3, 3], "seed": 1}}}),
    "looked up": {**entry([node("y", "take", "w", "x", axis=0)], state={"w": [[1, 2], [3, 4], [5, 6]]}), "inputs": {"x": {"dtype": "int32", "shape": ["rows", 3]}}},
    "a loop over the steps of a row": entry([node("t", "permute", "x", axes=[1, 0]), node("z", "mul", "x", 0), node("c0", "sum", "z", axis=1),
                                             node(["last", "all"], "scan", "c0", "t", carries=1, sequences=1, body={
                                                 "inputs": ["c", "s"], "nodes": [node("m", "mul", "c", 0.5), node("n", "add", "m", "s")], "outputs": ["n", "n"]}),
                                             node("y", "permute", "all", axes=[1, 0])]),
    "padded and cut behind": entry([node("p", "pad", "x", padding=[[0, 0], [1, 1]]), node("y", "flip", "p", axis=1)]),
}
TOGETHER = {
    "sum of all": entry([node("s", "sum", "x"), node("y", "add", "x", "s")]),
    "normalised by the batch": entry([node("m", "mean", "x", axis=0, keepdim=True), node("y", "sub", "x", "m")]),
    "softmax over rows": entry([node("y", "softmax", "x", axis=0)]),
    "running sum": entry([node("y", "cumsum", "x", axis=0)]),
    "upside down": entry([node("y", "flip", "x", axis=0)]),
    "numbered": entry([node("i", "arange", stop="rows"), node("f", "cast", "i", dtype="float32"), node("r", "reshape", "f", shape=[-1, 1]), node("y", "add", "x", "r")]),
    "counted": entry([node("n", "full", shape=[], value="rows"), node("y", "mul", "x", "n")]),
    "products of rows": entry([node("t", "permute", "x", axes=[1, 0]), node("y", "matmul", "x", "t")]),
    "sorted": entry([node(["y", "at"], "sort", "x", axis=0)]),
    "dropped out": entry([node("y", "dropout", "x", p=0.5)]),
    "one output less": entry([node("z", "mul", "x", 2), node("y", "sum", "x")]),
}


class Unanswered:
    """A request whose client disconnects."""

    def __init__(self, port, path, document, *lines):
        body = json.dumps(document).encode()
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.sendall(head("POST", path, "Content-Type: application/json", f"Content-Length: {len(body)}", *lines) + body)
        self.gone = False

    def leave(self):
        self.sock.close()
        self.gone = True

    def done(self):
        return self.gone


class Crowd:
    """Requests that wait in a server; the server has each before the next is sent."""

    def __init__(self, active):
        self.active = active  # returns the number of active requests, including the query itself
        self.pool, self.parked = concurrent.futures.ThreadPoolExecutor(32), []

    def settle(self):
        """Waits until exactly the unanswered requests are active, since an answered request may stay active for a moment."""
        while self.active() != 1 + sum(not one.done() for one in self.parked):
            time.sleep(0.002)

    def add(self, one):
        self.parked.append(one)
        self.settle()
        return one

    def begin(self, function, *args, **kwargs):
        """Starts a request.  Returns a future of the answer."""
        self.settle()
        return self.add(self.pool.submit(function, *args, **kwargs))


class WhichAre(ServerTest):
    ARGS = ("--backends", "interp", "--tune=off")

    def test_proven_or_not(self):
        for programs, along in ((APART, "rows"), (TOGETHER, None)):
            for name, document in programs.items():
                with self.subTest(name):
                    answer = self.call("PUT", P + "/one", document)
                    self.assertIn(answer.status, (200, 201), answer.body[:500])
                    self.assertEqual(along, answer.json["entries"]["main"].get("batch"))

    def test_who_says_so_is_left_alone(self):
        document = APART["elementwise"]
        for said, along in ((False, None), (True, "rows"), ({}, "rows"), ({"max_rows": 1}, None), ({"max_rows": 4, "delay_us": 5, "preferred_rows": [2], "max_waiting": 9}, "rows")):
            answer = self.call("PUT", P + "/said", {**document, "batching": said})
            self.assertEqual(along, answer.json["entries"]["main"].get("batch"), said)
        for wrong in ({"max_rows": 0}, {"delay_us": -1}, {"rows": 2}, {"preferred_rows": 2}, {"preferred_rows": [1] * 17}, 3, "yes"):
            self.refused((400, 422), self.call("PUT", P + "/said", {**document, "batching": wrong}))


class Joined(ServerTest):
    """Runs that wait for a batch without limit, so that answered runs were batched."""

    ARGS = ("--backends", "opencl,vulkan,interp", "--tune=off", "--interpret-first=off")

    def setUp(self):
        self.ok(self.call("PUT", P + "/four", net(batching={"delay_us": LONG_US, "preferred_rows": [4]})), 201)
        self.ok(self.call("PUT", P + "/alone", net(batching=False)), 201)
        self.crowd = Crowd(lambda: self.server.metric("requests_active"))
        self.pool = self.crowd.pool

    def tearDown(self):
        for name in ("four", "alone"):
            self.ok(self.call("DELETE", f"{P}/{name}"), 204)
        self.pool.shutdown()
        super().tearDown()

    def rows(self, count, seed):
        draw = random.Random(seed)
        return [[draw.uniform(-2, 2) for _ in range(6)] for _ in range(count)]

    def ask(self, name, x, **members):
        return self.call("POST", f"{P}/{name}/run", {"entry": "ask", "inputs": {"x": x}, **members})

    def begin(self, *args, **kwargs):
        return self.crowd.begin(self.ask, *args, **kwargs)

    def since(self, before=None):
        now = tuple(int(self.server.metric(f"program_{name}_total")) for name in ("joint_runs", "runs_joined"))
        return now if before is None else tuple(a - b for a, b in zip(now, before))

    def test_one_run_and_the_same_answers(self):
        for turn in range(3):
            before, asked = self.since(), [self.rows(1, 10 * turn + i) for i in range(4)]
            answers = list(self.pool.map(lambda x: self.ask("four", x), asked))
            self.assertEqual((1, 4), self.since(before))
            for x, answer in zip(asked, answers):
                alone = self.ok(self.ask("alone", x)).json
                self.assertEqual(alone["outputs"], self.ok(answer).json["outputs"])
                self.assertEqual(set(alone["stats"]), set(answer.json["stats"]))
        self.assertEqual(12, self.ok(self.call("GET", P + "/four")).json["steps"])  # equal to the number of requested steps

    def test_of_several_rows_and_in_every_form(self):
        """Runs of 2 + 1 + 1 rows; one request is a file and wants a file."""
        asked = [self.rows(2, 1), self.rows(1, 2), self.rows(1, 3)]
        futures = [self.begin("four", x) for x in asked[:2]]
        raw = struct.pack("<6f", *asked[2][0])
        body = safetensors({"x": ("F32", [1, 6], raw)}, {"request": json.dumps({"entry": "ask"})})
        answer = self.ok(self.call("POST", P + "/four/run", body, {"content-type": SAFETENSORS, "accept": SAFETENSORS}))
        for x, future in zip(asked, futures):
            self.assertEqual(self.ok(self.ask("alone", x)).json["outputs"], self.ok(future.result()).json["outputs"])
        wanted = self.ok(self.call("POST", P + "/alone/run", body, {"content-type": SAFETENSORS, "accept": SAFETENSORS}))
        tensors = read_safetensors(answer.body)[0]
        self.assertEqual([1, 3], tensors["y"][1])
        self.assertEqual(read_safetensors(wanted.body)[0], tensors)

    def test_a_bad_one_fails_alone(self):
        before, good = self.since(), self.rows(4, 5)
        futures = [self.begin("four", [x]) for x in good[:2]]
        for bad in ([[1, 2, 3]], [[1, 2, 3, 4, 5, "six"]], [[1e400] * 6], [], [good[0]] * 17):
            self.refused((400, 422), self.ask("four", bad))
        futures += [self.begin("four", [x]) for x in good[2:]]
        for x, future in zip(good, futures):
            self.assertEqual(self.ok(self.ask("alone", [x])).json["outputs"], self.ok(future.result()).json["outputs"])
        self.assertEqual((1, 4), self.since(before))

    def test_who_leaves_or_is_too_late_hurts_nobody(self):
        before, good = self.since(), self.rows(4, 6)
        cancelled = self.server.metric("cancelled_total")
        gone = self.crowd.add(Unanswered(self.server.port, P + "/four/run", {"entry": "ask", "inputs": {"x": self.rows(1, 7)}}))
        self.refused(504, self.ask("four", self.rows(1, 8), timeout_ms=200))
        gone.leave()
        self.assertEqual(cancelled + 1, self.server.settled("cancelled_total", cancelled + 1, 60))
        for x, future in zip(good, [self.begin("four", [x]) for x in good]):
            self.assertEqual(self.ok(self.ask("alone", [x])).json["outputs"], self.ok(future.result()).json["outputs"])
        self.assertEqual((1, 4), self.since(before))

    def test_what_is_left_alone(self):
        """Requests that are not batched, although they would otherwise wait for a batch."""
        x, before = self.rows(1, 9), self.since()
        self.ok(self.call("PUT", "/api/v1/tensors/held", x), 201)
        wanted = self.ok(self.ask("alone", x)).json["outputs"]
        for members in ({"seq": 1}, {"priority": 1}, {"debug": 1}, {"steps": 2}, {"collect": {"every": 1, "outputs": ["best"]}}):
            self.assertEqual(wanted, self.ok(self.ask("four", x, **members)).json["outputs"], members)
        self.assertEqual(wanted, self.ok(self.ask("four", {"tensor": "held"})).json["outputs"])
        searched = self.ok(self.ask("four", x, beam=1)).json["outputs"]  # a searched plan may add in another order, and so may later plans
        self.assertEqual(wanted["best"], searched["best"])
        for a, b in zip(wanted["y"]["data"], searched["y"]["data"], strict=True):
            self.assertAlmostEqual(a, b, 6)
        self.assertEqual(["k"], list(self.ok(self.ask("four", x, keep={"k": "y"})).json["kept"]))
        self.assertIn("ops", self.ok(self.ask("four", x, dry_run=True)).body.decode())
        self.assertEqual([], list(self.ok(self.call("POST", P + "/four/run", {"entry": "learn", "inputs": {}})).json["outputs"]))
        self.ok(self.ask("four", self.rows(16, 9)))  # the largest number of rows
        self.assertEqual((0, 0), self.since(before))

    def test_state_is_that_of_a_whole_run(self):
        """Answers use all updates of completed runs, and none of a running run."""
        x = self.rows(1, 10)
        before = self.ok(self.ask("alone", x)).json["outputs"]
        for name in ("four", "alone"):
            self.ok(self.call("POST", f"{P}/{name}/run", {"entry": "learn", "inputs": {}, "steps": 3}))
        after = self.ok(self.ask("alone", x)).json["outputs"]
        self.assertNotEqual(before["y"], after["y"])
        for answer in self.pool.map(lambda _: self.ask("four", x), range(4)):
            self.assertEqual(after, self.ok(answer).json["outputs"])

    def test_deleted_and_replaced_meanwhile(self):
        """Waiting requests use the program at the time of the request, not its replacement."""
        x = self.rows(1, 11)
        wanted = self.ok(self.ask("alone", x)).json["outputs"]
        self.ok(self.call("PUT", P + "/short", net(batching={"delay_us": 3000000, "max_rows": 4})), 201)
        futures = [self.begin("short", x) for _ in range(3)]
        self.ok(self.call("PUT", P + "/short", net(state={"w": {"dtype": "float32", "shape": [6, 5]}, "v": {"dtype": "float32", "shape": [5, 3]}}, batching={"max_rows": 4})))
        self.assertNotEqual(wanted, self.ok(self.ask("short", x)).json["outputs"])
        for future in futures:
            self.assertEqual(wanted, self.ok(future.result()).json["outputs"])
        futures = [self.begin("four", x)]
        self.ok(self.call("DELETE", P + "/short"), 204)
        self.assertEqual(404, self.ask("short", x).status)
        futures += [self.begin("four", x) for _ in range(3)]
        for future in futures:
            self.assertEqual(wanted, self.ok(future.result()).json["outputs"])

    def test_full(self):
        self.ok(self.call("PUT", P + "/two", net(batching={"delay_us": LONG_US, "max_waiting": 2})), 201)
        waiting = [self.crowd.add(Unanswered(self.server.port, P + "/two/run", {"entry": "ask", "inputs": {"x": self.rows(1, i)}})) for i in range(2)]
        self.assertIn("queue of program", self.refused(503, self.ask("two", self.rows(1, 3)))["detail"])
        for one in waiting:
            one.leave()
        self.crowd.settle()
        self.ok(self.call("DELETE", P + "/two"), 204)

    def test_at_the_same_time_without_a_delay(self):
        """Whichever requests are joined, each answer equals the answer alone, bit for bit, on every device."""
        for device in self.call("GET", "/api/v1/devices").json["devices"]:
            with self.subTest(device["id"]):
                self.at_the_same_time(device["id"])

    def at_the_same_time(self, device):
        self.ok(self.call("PUT", P + "/alone", net(batching=False, device=device)))
        self.ok(self.call("PUT", P + "/now", net(device=device)), 201)
        asked = [self.rows(1 + i % 3, 100 + i) for i in range(96)]
        wanted = [self.ok(self.ask("alone", x)).json["outputs"] for x in asked]
        before = self.since()
        for _ in range(10):
            for x, answer, right in zip(asked, self.pool.map(lambda x: self.ask("now", x), asked), wanted):
                self.assertEqual(right, self.ok(answer).json["outputs"])
            if self.since(before)[1] > self.since(before)[0] > 0:
                break
        runs, joined = self.since(before)
        self.assertGreater(joined, runs)
        self.ok(self.call("DELETE", P + "/now"), 204)


class Limits(ServerTest):
    """A program for which the output of one row just fits."""

    ARGS = ("--backends", "interp", "--tune=off", "--max-tensor", "5000")

    def test_what_is_too_much_together_runs_in_parts(self):
        """A batch over the memory limit is split, so that no request fails because of the others."""
        self.ok(self.call("PUT", P + "/wide", entry([node("y", "expand", "x", shape=[-1, 1000])], shape=(1,), batching={"delay_us": 500000, "preferred_rows": [4]})), 201)
        before = self.server.metric("program_joint_runs_total"), self.server.metric("program_runs_joined_total")

        def ask(i):
            return self.call("POST", P + "/wide/run", {"inputs": {"x": [[float(i)]]}})
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for i, answer in enumerate(pool.map(ask, range(4))):
                self.assertEqual([float(i)] * 1000, self.ok(answer).json["outputs"]["y"]["data"])
        self.assertEqual(4, self.server.metric("program_joint_runs_total") - before[0])  # finally one row each
        self.assertEqual(4, self.server.metric("program_runs_joined_total") - before[1])
        self.assertEqual(422, self.call("POST", P + "/wide/run", {"inputs": {"x": [[1.0], [2.0]]}}).status)  # one request alone exceeds the limit


class Keys(KeyedCase):
    KEYS = {"alice": ("infer,run",), "bob": ("infer,run",), "carol": ("infer,run", "--queue", "2"), "root": ("admin,metrics",)}
    ARGS = ("--backends", "interp", "--tune=off")

    def setUp(self):
        self.crowd = Crowd(lambda: self.metric("requests_active"))
        self.addCleanup(self.crowd.pool.shutdown)

    def metric(self, name):
        text = self.call("root", "GET", "/metrics").body.decode()
        return sum(float(line.split()[1]) for line in text.splitlines() if line.startswith("beamline_" + name + " "))

    def share(self, name, document):
        self.assertIn(self.call("alice", "PUT", f"{P}/{name}", document).status, (200, 201))
        for to in ("bob", "carol"):
            self.assertIn(self.call("alice", "POST", "/api/v1/shares", {"program": name, "to": to}).status, (200, 201))

    def path(self, key, name):
        return f"{P}/{'' if key == 'alice' else 'alice:'}{name}/run"

    def begin(self, key, name, body):
        """Starts a request.  Returns (future of the time of sending and the answer, time at which the server had the
        request)."""
        def one():
            sent = time.monotonic()
            return sent, self.call(key, "POST", self.path(key, name), body)
        return self.crowd.begin(one), time.monotonic()

    def seconds(self):
        return {row["key"]: row["device_seconds"] for row in self.call("root", "GET", "/api/v1/usage").json["usage"]}

    def test_of_two_keys_one_run(self):
        self.share("four", net(batching={"delay_us": LONG_US, "preferred_rows": [4]}))
        self.ok(self.call("alice", "PUT", P + "/alone", net(batching=False)), 201)
        asked = [("alice" if i % 2 == 0 else "bob", [[float(i)] * 6]) for i in range(4)]
        before = self.metric("program_joint_runs_total"), self.seconds()
        futures = [self.begin(key, "four", {"entry": "ask", "inputs": {"x": x}})[0] for key, x in asked]
        for (_, x), future in zip(asked, futures):
            wanted = self.ok(self.call("alice", "POST", P + "/alone/run", {"entry": "ask", "inputs": {"x": x}})).json["outputs"]
            self.assertEqual(wanted, self.ok(future.result()[1]).json["outputs"])
        self.assertEqual(1, self.metric("program_joint_runs_total") - before[0])
        self.refused(403, self.call("bob", "POST", P + "/alice:four/run", {"entry": "learn", "inputs": {}}), "shared for reading")
        end = time.monotonic() + 20
        while self.seconds().get("bob", 0) <= before[1].get("bob", 0) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertGreater(self.seconds()["bob"], before[1].get("bob", 0))  # the run is charged to bob, although alice's request started it

    def test_each_pays_for_its_rows(self):
        """A request with seven of eight rows pays seven eighths of the time."""
        self.share("eight", slow(8, batching={"delay_us": LONG_US, "preferred_rows": [8]}))
        for _ in range(2):  # the first run takes longer
            before = self.seconds()
            one = self.begin("alice", "eight", {"inputs": {"x": [[1.0]]}})[0]
            seven = self.begin("bob", "eight", {"inputs": {"x": [[2.0]] * 7}})[0]
            self.assertEqual([2.0], self.ok(one.result()[1]).json["outputs"]["y"]["data"])
            self.assertEqual([4.0] * 7, self.ok(seven.result()[1]).json["outputs"]["y"]["data"])
            end, spent = time.monotonic() + 20, {"alice": 0, "bob": 0}
            while not min(spent.values()) > 0 and time.monotonic() < end:
                time.sleep(0.05)
                spent = {key: self.seconds().get(key, 0) - before.get(key, 0) for key in ("alice", "bob")}
        self.assertAlmostEqual(7, spent["bob"] / spent["alice"], delta=0.5)

    def begins(self, futures):
        """Returns bounds of the start of each run, (not before, not after), by the clock of this process."""
        out = []
        for future, had in futures:
            sent, answer = future.result()
            queue = self.ok(answer).json["stats"]["queue_ms"] / 1000
            out.append((sent + queue, had + queue))
        return out

    def test_order_is_kept_and_keys_take_turns(self):
        """While another run of the program is active: runs of one key start in order, and a key with many waiting runs does not
        delay a key with one."""
        ask = slow(2)
        self.share("slow", {"dims": ask["dims"], "device": "interp:0", "state": {**ask["state"], "n": [0.0]}, "entries": {
            "ask": {name: ask[name] for name in ("inputs", "nodes", "outputs")},
            "hold": {"inputs": {}, "nodes": [node("m", "add", "n", 1)], "updates": {"n": "m"}, "outputs": ["m"]}}})
        body = {"entry": "ask", "inputs": {"x": [[1.0]]}}
        self.ok(self.call("alice", "POST", self.path("alice", "slow"), body))
        for _ in range(5):  # on a busy machine the start times are inexact
            hold = self.crowd.add(Unanswered(self.server.port, self.path("alice", "slow"), {"entry": "hold", "inputs": {}, "steps": SLOW_STEPS},
                                             "Authorization: Bearer " + self.key["alice"]))
            futures = [self.begin("alice", "slow", body) for _ in range(13)]
            last = self.begin("bob", "slow", body)
            hold.leave()
            begins, (_, single) = self.begins(futures), self.begins([last])[0]
            for i, (early, _) in enumerate(begins):
                for _, late in begins[i + 1:]:
                    self.assertLessEqual(early, late)
            if single < begins[-1][0]:
                break
        self.assertLess(single, begins[-1][0])

    def test_quota_of_the_queue(self):
        self.share("waits", net(batching={"delay_us": LONG_US, "preferred_rows": [4]}))
        body = {"entry": "ask", "inputs": {"x": [[1.0] * 6]}}
        futures = [self.begin(key, "waits", body)[0] for key in ("carol", "carol", "bob")]
        self.refused(429, self.call("carol", "POST", self.path("carol", "waits"), body), "the key has its quota of 2 requests")
        futures.append(self.begin("bob", "waits", body)[0])
        for future in futures:
            self.ok(future.result()[1])


if __name__ == "__main__":
    unittest.main()
