# SPDX-License-Identifier: MIT
"""In-place updates of a part of a state, in models and programs: other readers of the state are not affected."""

import random
import unittest

from repository import ModelsTest, Repository, Server, document, numbers

ROWS, COLS = 9, 4


def cache():
    """Returns a model that writes a row of the cache and returns the sums of its rows."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [1, COLS]}, "p": {"dtype": "int32", "shape": [1]}}, "state": {"s": {"op": "full", "attrs": {"shape": [ROWS, COLS], "value": 1}}},
            "nodes": [{"id": "i", "op": "arange", "attrs": {"stop": ROWS, "dtype": "int32"}}, {"id": "e", "op": "equal", "in": ["i", "p"]},
                      {"id": "m", "op": "reshape", "in": ["e"], "attrs": {"shape": [ROWS, 1]}}, {"id": "n", "op": "where", "in": ["m", "x", "s"]},
                      {"id": "y", "op": "sum", "in": ["n"], "attrs": {"axis": 1}}], "updates": {"s": "n"}, "outputs": ["y"]}


class Regions(ModelsTest):
    DEVICES = ("opencl:0", "interp:0")

    @classmethod
    def fill(cls, repository):
        for device in cls.DEVICES:
            repository.put(f"cache.{device[:6]}", 1, cache(), instance_group=[{"device": device}])

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), "--backends", "opencl,interp", "--tune=off")

    def test_sequences(self):
        """Each sequence begins with the model's state and keeps its own writes, whatever runs between; out-of-range positions
        write nothing."""
        draw = random.Random(3)
        for device in self.DEVICES:
            sums = {}
            for turn in range(60):
                who, place, value = draw.randrange(4), draw.randrange(-2, ROWS + 2), draw.randrange(100)
                start = who not in sums or draw.random() < 0.1
                sums[who] = [COLS] * ROWS if start else sums[who]
                if 0 <= place < ROWS:
                    sums[who][place] = COLS * value
                inputs = [numbers("x", [1, COLS], [value] * COLS), numbers("p", [1], [place], "INT32")]
                flags = {"sequence_id": who + 1, **({"sequence_start": True} if start else {})}
                answer = self.ok(self.infer(f"cache.{device[:6]}", document(*inputs, parameters=flags))).json
                self.assertEqual(sums[who], answer["outputs"][0]["data"], (device, turn))

    def test_what_was_promoted_stays(self):
        for device in self.DEVICES:
            self.assertIn(self.call("PUT", "/api/v1/programs/live", {**cache(), "device": device}).status, (200, 201))
            sums = [COLS] * ROWS
            for version in range(1, 4):
                self.ok(self.call("POST", "/api/v1/programs/live/run", {"inputs": {"x": [[version] * COLS], "p": [version]}, "steps": version}))
                sums[version] = COLS * version
                self.ok(self.call("POST", "/api/v1/programs/live/promote", {"model": f"frozen{device[:6]}", "version": version}))
                self.ok(self.call("POST", "/api/v1/programs/live/run", {"inputs": {"x": [[100 + version] * COLS], "p": [version]}}))
                state = self.ok(self.call("GET", "/api/v1/programs/live/state")).json["state"]["s"]["data"]
                self.assertEqual(100 + version, state[version * COLS] if isinstance(state[0], (int, float)) else state[version][0])
                inputs = [numbers("x", [1, COLS], [0] * COLS), numbers("p", [1], [-1], "INT32")]
                answer = self.ok(self.infer(f"frozen{device[:6]}", document(*inputs, parameters={"sequence_id": version, "sequence_start": True}))).json
                self.assertEqual(sums, answer["outputs"][0]["data"], (device, version))
                sums[version] = COLS * (100 + version)


def cache_and_more():
    """The same, with further launches after the write."""
    more = [{"id": "c", "op": "reshape", "in": ["y"], "attrs": {"shape": [ROWS, 1]}}, {"id": "k", "op": "arange", "attrs": {"stop": 32768, "dtype": "float32"}},
            {"id": "a", "op": "mul", "in": ["c", "k"]}, {"id": "z", "op": "sum", "in": ["a"]}]
    return {**cache(), "nodes": cache()["nodes"] + more, "outputs": ["y", "z"]}


class RefusedLaunches(unittest.TestCase):
    """The n-th launch fails for lack of memory: the sequence whose step had begun is lost until it restarts; other sequences
    continue."""

    def setUp(self):
        self.repository = Repository()
        self.addCleanup(self.repository.remove)

    def step(self, server, who, place, start):
        inputs = [numbers("x", [1, COLS], [place] * COLS), numbers("p", [1], [place], "INT32")]
        flags = {"sequence_id": who, **({"sequence_start": True} if start else {})}
        return server.call("POST", "/v2/models/cache/infer", document(*inputs, parameters=flags))

    def refuse(self, server):
        """Returns the results of the one affected sequence."""
        outcome, sums = "untouched", {1: [COLS] * ROWS, 2: [COLS] * ROWS}
        for place in range(5):
            for who in sums:
                answer = self.step(server, who, place, place == 0)
                if answer.status != 200:
                    self.assertEqual((503, "untouched"), (answer.status, outcome), answer.body)
                    outcome, answer = "whole", self.step(server, who, place, place == 0)
                if answer.status != 200:
                    self.assertEqual(400, answer.status, answer.body)
                    self.assertIn("start the sequence again", answer.json["error"])
                    self.assertEqual(400, self.step(server, who, place, False).status)
                    outcome, sums[who], answer = "lost", [COLS] * ROWS, self.step(server, who, place, True)
                sums[who][place] = COLS * place
                self.assertEqual(sums[who], answer.json["outputs"][0]["data"])
        self.assertEqual(0, server.metric("device_lost_total"))
        return outcome

    def refuse_each(self, device, numbers):
        found = set()
        self.repository.put("cache", 1, cache_and_more(), instance_group=[{"device": device}])
        for nth in numbers:
            server = Server("--models", str(self.repository.path), "--backends", "opencl,interp", "--tune=off", env={"BEAMLINE_FAULT": f"launch:{nth}"})
            try:
                ModelsTest.wait_ready(server)
                with self.subTest(device=device, nth=nth):
                    found.add(self.refuse(server))
            finally:
                self.assertEqual(0, server.stop())
        return found

    def test_t14_refused_on_interp(self):
        self.assertEqual({"whole", "lost"}, self.refuse_each("interp:0", range(8, 16)))

    def test_t14_refused_on_opencl(self):
        self.assertLessEqual({"whole", "lost"}, self.refuse_each("opencl:0", range(10, 19)))


if __name__ == "__main__":
    unittest.main()
