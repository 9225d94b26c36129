# SPDX-License-Identifier: MIT
"""GET /api/v1/jobs/ID/history?points=N: few rows without the loss of spikes; and GET /api/v1/jobs/ID/document."""

import math
import tempfile
import unittest

from fixture import Server
from test_keys import KeyedCase
from training_jobs import J, POINTS, line, noisy, noisy_inputs, wait

STEPS = 20_000
# Two functions of the step: a wave with a spike of one step, and the step's square root, which grows monotonically.
WAVE = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": []}},
        "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}, {"id": "a", "op": "mul", "in": ["m", 0.001]}, {"id": "s", "op": "sin", "in": ["a"]},
                  {"id": "hit", "op": "equal", "in": ["m", 12345]}, {"id": "wave", "op": "where", "in": ["hit", 100.0, "s"]},
                  {"id": "root", "op": "sqrt", "in": ["m"]}],
        "updates": {"n": "m"}, "outputs": ["wave", "root"]}


class Curves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--backends", "interp", "--tune=off")
        cls.addClassCleanup(cls.server.stop)
        cls.job = cls.submit("wave", WAVE, steps=STEPS, inputs={}, collect={"every": 1, "outputs": ["wave", "root"]})
        cls.all = cls.history("")["rows"]

    @classmethod
    def call(cls, *request):
        return cls.server.call(*request)

    @classmethod
    def submit(cls, name, program, **members):
        cls.call("PUT", f"/api/v1/programs/{name}", program)
        answer = cls.call("POST", J, {"program": name, **members})
        if answer.status != 202:
            raise AssertionError(answer.body)
        wait(cls, answer.json["job"])
        return answer.json["job"]

    @classmethod
    def history(cls, query, job=None):
        return cls.call("GET", f"{J}/{job or cls.job}/history?{query}").json

    @staticmethod
    def assertEqual(one, other):  # wait() calls this method on the class
        if one != other:
            raise AssertionError((one, other))

    def looks_like(self, rows, points, columns=2):
        steps = [row[0] for row in rows]
        whole = {row[0]: row for row in self.all}
        self.assertTrue(all(row == whole[row[0]] for row in rows))
        self.assertTrue(steps == sorted(set(steps)))
        self.assertTrue(len(rows) <= 2 * columns * points + 2)
        self.assertEqual([self.all[0], self.all[-1]], [rows[0], rows[-1]])
        width = math.ceil(STEPS / points) + 1
        for at in (2, 3):
            for first in range(0, len(self.all), width):
                part = [row[at] for row in self.all[first:first + width]]
                there = [row[at] for row in rows if self.all[first][0] - width <= row[0] <= self.all[min(first + 2 * width, len(self.all)) - 1][0]]
                self.assertTrue(min(there) <= min(part) and max(there) >= max(part))

    def test_the_extremes_stay(self):
        for points in (1, 2, 7, 100, 500):
            with self.subTest(points=points):
                document = self.history(f"points={points}")
                self.assertEqual(["step", "time", "wave", "root"], document["columns"])
                self.looks_like(document["rows"], points)
                self.assertTrue(any(row[2] == 100 for row in document["rows"]))

    def test_many_points_are_all(self):
        self.assertEqual(self.all, self.history("points=100000")["rows"])

    def test_from_and_csv(self):
        rows = self.history("points=10&from=15001")["rows"]
        self.assertEqual([15001, STEPS], [rows[0][0], rows[-1][0]])
        lines = self.call("GET", f"{J}/{self.job}/history?points=10&from=15001&format=csv").body.decode().splitlines()
        self.assertEqual(["step,time,wave,root", len(rows)], [lines[0], len(lines) - 1])
        self.assertEqual([], self.history(f"points=10&from={STEPS + 1}")["rows"])

    def test_what_is_no_number(self):
        """Lists, non-finite numbers, and columns without measurements."""
        program = {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": []}}, "nodes": [
            {"id": "m", "op": "add", "in": ["n", 1]}, {"id": "z", "op": "mul", "in": ["n", 0.0]}, {"id": "bad", "op": "div", "in": ["z", "z"]},
            {"id": "two", "op": "stack", "in": ["m", "n"]}], "updates": {"n": "m"}, "outputs": ["bad", "two", "m"]}
        job = self.submit("odd", program, steps=50, inputs={}, collect={"every": 1, "outputs": ["bad", "two", "m"]})
        rows = self.history("points=5", job)["rows"]
        self.assertEqual([1, 50], [rows[0][0], rows[-1][0]])
        self.assertEqual("NaN", rows[0][2])
        self.assertTrue(len(rows) < 20)

    def test_hostile(self):
        for points in ("-1", "0", "1e9", "100001", "x", "", "99999999999999999999"):
            with self.subTest(points=points):
                self.assertEqual(400, self.call("GET", f"{J}/{self.job}/history?points={points}").status)


class Documents(unittest.TestCase):
    def submit(self, server, name="p", **members):
        call = server.call
        self.assertEqual(201, call("PUT", f"/api/v1/programs/{name}", noisy()).status)
        answer = call("POST", J, {"program": name, "entry": "train", "inputs": noisy_inputs(), "steps": 5, "priority": 3, "collect": {"every": 1, "outputs": ["loss"]},
                                  "evaluate": {"entry": "test", "inputs": noisy_inputs(), "every": 2, "outputs": ["loss"]},
                                  "early_stop": {"metric": "loss", "patience": 9}, **members})
        self.assertEqual(202, answer.status, answer.body)
        self.call = call
        wait(self, answer.json["job"])
        return answer.json["job"]

    def check(self, document):
        self.assertEqual(("p", "train", 5, 3), tuple(document[name] for name in ("program", "entry", "steps", "priority")))
        self.assertEqual({"every": 1, "outputs": ["loss"]}, document["collect"])
        self.assertEqual(("test", 2, ["loss"]), tuple(document["evaluate"][name] for name in ("entry", "every", "outputs")))
        self.assertEqual(("loss", 9), (document["early_stop"]["metric"], document["early_stop"]["patience"]))
        types = {"x": {"dtype": "float32", "shape": [8, 24]}, "t": {"dtype": "float32", "shape": [8, 1]}}
        self.assertEqual({**types, **{"evaluate." + name: one for name, one in types.items()}}, document["inputs"])

    def test_while_the_server_runs_and_after_a_restart(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server("--backends", "interp", "--state", folder)
            job = self.submit(server)
            first = server.call("GET", f"{J}/{job}/document")
            self.assertEqual(200, first.status)
            self.check(first.json)
            server.stop()
            server = Server("--backends", "interp", "--state", folder)
            self.addCleanup(server.stop)
            self.assertEqual(first.json, server.call("GET", f"{J}/{job}/document").json)
            self.assertEqual(404, server.call("GET", f"{J}/none/document").status)

    def test_nothing_on_the_disk(self):
        server = Server("--backends", "interp", "--state", "none")
        self.addCleanup(server.stop)
        self.check(server.call("GET", f"{J}/{self.submit(server)}/document").json)


class Owners(KeyedCase):
    KEYS = {"root": ("admin",), "alice": ("train",), "bob": ("train",)}

    def test_of_others(self):
        self.ok(self.call("alice", "PUT", "/api/v1/programs/line", line()), 201)
        job = self.ok(self.call("alice", "POST", J, {"program": "line", "inputs": POINTS, "steps": 9, "collect": {"every": 1, "outputs": ["loss"]}}), 202).json["job"]
        for rest in ("document", "history?points=3"):
            self.ok(self.call("alice", "GET", f"{J}/{job}/{rest}"))
            self.refused(404, self.call("bob", "GET", f"{J}/{job}/{rest}"))


if __name__ == "__main__":
    unittest.main()
