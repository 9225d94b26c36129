# SPDX-License-Identifier: MIT
"""GET /api/v1/trace: device and compiler spans as Chrome trace events on properly nested tracks, as Perfetto requires."""

import pathlib
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from fixture import Server, graph  # noqa: E402
from test_keys import KeyedCase  # noqa: E402

T = "/api/v1/trace"
SLOW = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": [1000]}}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}],
        "updates": {"n": "m"}, "outputs": ["m"]}


class Timeline(KeyedCase):
    ARGS = ("--backends", "interp", "--slice", "0.02")
    KEYS = {"root": ("admin,run",), "alice": ("run,train",), "bob": ("run",), "meter": ("metrics",)}

    def events(self, who, query=""):
        document = self.ok(self.call(who, "GET", T + query)).json
        self.is_trace(document)
        names = {event["tid"]: event["args"]["name"] for event in document["traceEvents"] if event["name"] == "thread_name"}
        return names, [event for event in document["traceEvents"] if event["ph"] == "X"]

    def is_trace(self, document):
        """Checks the rules of Chrome's Trace Event Format for complete events and metadata."""
        self.assertIn(document["displayTimeUnit"], ("ms", "ns"))
        processes, threads, spans = set(), set(), []
        for event in document["traceEvents"]:
            self.assertTrue(type(event["pid"]) is int and type(event["tid"]) is int, event)
            self.assertIsInstance(event["args"], dict)
            if event["ph"] == "M":
                self.assertTrue(event["args"]["name"], event)
                named, key = {"process_name": (processes, event["pid"]), "thread_name": (threads, (event["pid"], event["tid"]))}[event["name"]]
                self.assertNotIn(key, named, "named twice")
                named.add(key)
            else:
                self.assertEqual("X", event["ph"])
                self.assertTrue(event["name"] and event["cat"], event)
                self.assertTrue(type(event["ts"]) in (int, float) and event["ts"] >= 0 and type(event["dur"]) in (int, float) and event["dur"] >= 0, event)
                spans.append(event)
        self.assertLessEqual({(event["pid"], event["tid"]) for event in spans}, threads)
        self.assertEqual({pid for pid, _ in threads} | {1}, processes)
        self.nests(spans)
        whole = document["otherData"]
        self.assertLessEqual(0, whole["from_us"])
        self.assertGreaterEqual(whole["now_us"], max((event["ts"] + event["dur"] for event in spans), default=0))

    def nests(self, spans):
        """Checks that each event of a track ends before the next begins."""
        for track in {event["tid"] for event in spans}:
            rows = sorted((event["ts"], event["ts"] + event["dur"]) for event in spans if event["tid"] == track)
            overlaps = [(one, other) for one, other in zip(rows, rows[1:]) if one[1] > other[0] + 0.002]
            self.assertEqual([], overlaps)

    def work(self):
        for who in ("alice", "bob"):
            self.call(who, "PUT", "/api/v1/programs/p", SLOW)
        with ThreadPoolExecutor(6) as pool:
            runs = [pool.submit(self.call, who, "POST", "/api/v1/programs/p/run", {"steps": 1000000000, "timeout_ms": 700}) for who in ("alice", "bob") for _ in range(3)]
            for i in range(20):
                self.ok(self.call("bob", "POST", "/api/v1/run", graph(nodes=[{"id": "y", "op": "mul", "in": ["x", i % 7 + 2]}], outputs=["y"])))
            self.assertEqual([504] * 6, [run.result().status for run in runs])

    def test_turns_and_waits(self):
        self.work()
        names, spans = self.events("alice")
        device = [event for event in spans if names[event["tid"]] == "interp:0"]
        self.assertLessEqual({"alice", "bob"}, {event["args"]["key"] for event in device})
        self.assertIn("run of p", {event["name"] for event in device})
        self.assertTrue(any(names[event["tid"]] == "compiler" for event in spans))
        busy = sum(event["dur"] for event in device)
        length = max(event["ts"] + event["dur"] for event in device) - min(event["ts"] for event in device)
        self.assertTrue(0.5 < busy / length <= 1.001, busy / length)
        waits = [event for event in spans if event["cat"] == "queue"]
        self.assertEqual({"alice"}, {event["args"]["key"] for event in waits}, "of others no waits are told")
        self.assertEqual([], [event for event in self.events("meter")[1] if event["cat"] == "queue"])

    def test_seconds(self):
        self.work()
        self.assertTrue(self.events("bob", "?seconds=3600")[1])
        whole = self.ok(self.call("bob", "GET", T + "?seconds=1")).json["otherData"]
        self.assertTrue(0 < whole["now_us"] - whole["from_us"] < 1.2e6, whole)
        for seconds in ("0", "-1", "1e9", "3601", "x", ""):
            self.refused(400, self.call("bob", "GET", T + "?seconds=" + seconds))
        self.refused(401, self.server.call("GET", T))


class Hidden(Timeline):
    ARGS = (*Timeline.ARGS, "--show-names=off")

    def test_turns_and_waits(self):
        self.work()
        _, spans = self.events("alice")
        self.assertEqual({("busy", "others")}, {(event["name"], event["args"]["key"]) for event in spans if event["args"]["key"] != "alice"})
        self.assertNotIn(b"bob", self.call("alice", "GET", T).body)
        self.assertIn("bob", {event["args"]["key"] for event in self.events("root")[1]})


class Short(unittest.TestCase):
    def test_thousands_of_short_runs(self):
        """Only the last spans are kept, including those of HTTP threads, and the tracks are still nested."""
        server = Server("--backends", "opencl,interp")
        self.addCleanup(server.stop)
        with ThreadPoolExecutor(4) as pool:
            self.assertEqual({200}, {answer.status for answer in pool.map(lambda _: server.call("POST", "/api/v1/run", graph()), range(1500))})
        document = server.call("GET", T + "?seconds=3600").json
        spans = [event for event in document["traceEvents"] if event["ph"] == "X" and event["cat"] not in ("queue", "compiler", "search")]
        self.assertEqual(1024, len(spans))
        Timeline.nests(self, spans)
        device = max({event["cat"] for event in spans}, key=lambda cat: sum(event["cat"] == cat for event in spans))
        first = min(event["ts"] + event["dur"] for event in spans if event["cat"] == device)
        self.assertAlmostEqual(first, document["otherData"]["from_us"], 2, "what is before the first turn that is kept is unknown")


if __name__ == "__main__":
    unittest.main()
