# SPDX-License-Identifier: MIT
"""A program's live state becomes a version of a hosted model."""

import unittest

from fixture import SLOW_STEPS, ServerTest, counter
from training import J, wait

P, M = "/api/v1/programs", "/v2/models"


def grows():
    return {"state": {"n": [0, 0]}, "entries": {
        "up": {"inputs": {}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]},
        "test": {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "nodes": [{"id": "y", "op": "mul", "in": ["n", "x"]}], "outputs": ["y"]}}}


class Promote(ServerTest):
    def promote(self, name, **members):
        return self.call("POST", f"{P}/{name}/promote", {"model": "m", "version": 1, "entry": "test", **members})

    def infer(self, version, model="m"):
        answer = self.ok(self.call("POST", f"{M}/{model}/versions/{version}/infer",
                                   {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}))
        data = answer.json["outputs"][0]["data"]
        self.assertEqual(2 * data[0], data[1])
        return data[0]

    def test_while_it_trains(self):
        self.assertEqual(201, self.call("PUT", f"{P}/live", grows()).status)
        job = self.ok(self.call("POST", J, {"program": "live", "entry": "up", "inputs": {}, "steps": SLOW_STEPS}), 202).json["job"]
        self.addCleanup(self.call, "DELETE", f"{J}/{job}")
        wait(self.server, job, ("running",))
        first = self.ok(self.promote("live")).json
        self.assertEqual(("m", "1"), (first["model"], first["version"]))
        self.assertEqual({first["steps"]}, {self.infer(1) for _ in range(20)})  # what trains on leaves it as it is
        second = self.ok(self.promote("live", version=2)).json
        self.assertGreater(second["steps"], first["steps"])
        self.assertEqual((first["steps"], second["steps"]), (self.infer(1), self.infer(2)))
        third = self.ok(self.promote("live")).json  # in place of the first
        self.assertEqual((third["steps"], second["steps"]), (self.infer(1), self.infer(2)))
        self.call("DELETE", f"{J}/{job}")
        wait(self.server, job)
        self.ok(self.call("DELETE", f"{P}/live"), 204)
        self.assertEqual(third["steps"], self.infer(1))  # nobody else has it any more

    def test_memory_comes_back(self):
        self.assertEqual(201, self.call("PUT", f"{P}/once", grows()).status)
        before = self.server.metric("held_bytes")
        for _ in range(5):
            self.ok(self.promote("once", model="gone"))
        self.assertEqual(before + 8, self.server.settled("held_bytes", before + 8))
        self.assertEqual(0, self.infer(1, "gone"))
        self.ok(self.call("POST", "/v2/repository/models/gone/unload"))
        self.assertEqual(before, self.server.settled("held_bytes", before))

    def test_what_is_refused(self):
        self.assertEqual(201, self.call("PUT", f"{P}/bad", grows()).status)
        for status, members in ((422, {"entry": "none"}), (422, {"version": 0}), (400, {"version": "1"}), (422, {"model": "../x"}), (400, {"more": 1})):
            with self.subTest(members=members):
                self.refused(status, self.promote("bad", model="not", **{k: v for k, v in members.items() if k != "model"}) if "model" not in members
                             else self.promote("bad", **members))
        self.refused(400, self.call("POST", f"{P}/bad/promote", {"version": 1}))
        self.refused(404, self.promote("none"))
        self.assertEqual(404, self.call("GET", f"{M}/not").status)


if __name__ == "__main__":
    unittest.main()
