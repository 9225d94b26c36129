# SPDX-License-Identifier: MIT
"""Promotion of a program's current state to a version of a hosted model."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from fixture import PROGRAM, SLOW_STEPS, Server, ServerTest
from training_jobs import J, wait

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
        self.assertEqual({first["steps"]}, {self.infer(1) for _ in range(20)})  # later training does not change the version
        end = time.monotonic() + 30
        while self.call("GET", f"{J}/{job}").json["step"] <= first["steps"]:  # a slice of the job takes long on a busy machine
            self.assertLess(time.monotonic(), end, "the job makes no step")
            time.sleep(0.01)
        second = self.ok(self.promote("live", version=2)).json
        self.assertGreater(second["steps"], first["steps"])
        self.assertEqual((first["steps"], second["steps"]), (self.infer(1), self.infer(2)))
        third = self.ok(self.promote("live")).json  # replaces the first version
        self.assertEqual((third["steps"], second["steps"]), (self.infer(1), self.infer(2)))
        self.call("DELETE", f"{J}/{job}")
        wait(self.server, job)
        self.ok(self.call("DELETE", f"{P}/live"), 204)
        self.assertEqual(third["steps"], self.infer(1))  # nothing else uses the replaced version

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
        self.assertIn('no entry "none"; its entries are: up, test', self.promote("bad", entry="none").json["detail"])
        for status, members in ((422, {"entry": "none"}), (422, {"version": 0}), (400, {"version": "1"}), (422, {"model": "../x"}), (400, {"more": 1})):
            with self.subTest(members=members):
                self.refused(status, self.promote("bad", model="not", **{k: v for k, v in members.items() if k != "model"}) if "model" not in members
                             else self.promote("bad", **members))
        self.refused(400, self.call("POST", f"{P}/bad/promote", {"version": 1}))
        self.refused(404, self.promote("none"))
        self.assertEqual(404, self.call("GET", f"{M}/not").status)


class Kept(unittest.TestCase):
    """Versions promoted from programs are restored after a kill of the server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.args, self.key = folder.name, [], None
        self.state = os.path.join(folder.name, "state")

    def start(self):
        self.server = Server("--backends", "interp", "--state", self.state, *self.args)
        self.addCleanup(self.server.stop)
        end = time.monotonic() + 60
        while self.server.call("GET", "/v2/health/ready").status != 200:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def again(self):
        self.server.process.kill()
        self.server.process.wait()
        self.start()

    def call(self, method, path, body=None, status=200):
        answer = self.server.call(method, path, body, {"x-api-key": self.key} if self.key else None)
        self.assertEqual(status, answer.status, (method, path, answer.body))
        return answer

    def promote(self, steps, version, model="m", program="p"):
        """Promotes a program after some steps; the program stays."""
        done = self.call("GET", f"{P}/{program}").json["steps"]
        self.call("POST", f"{P}/{program}/run", {"entry": "up", "steps": steps - done})
        answer = self.call("POST", f"{P}/{program}/promote", {"model": model, "version": version, "entry": "test"})
        self.assertEqual(steps, answer.json["steps"])

    def infer(self, version, model="m"):
        asked = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}
        data = self.call("POST", f"{M}/{model}/versions/{version}/infer", asked).json["outputs"][0]["data"]
        self.assertEqual(2 * data[0], data[1])
        return data[0]

    def gone(self, version, model="m"):
        self.call("GET", f"{M}/{model}/versions/{version}", status=404)

    def files(self):
        return len(os.listdir(os.path.join(self.state, "versions")))

    def test_t24_killed(self):
        self.start()
        self.call("PUT", P + "/p", grows(), 201)
        for steps, version in ((3, 1), (5, 2), (7, 1)):  # the last promotion replaces the first version
            self.promote(steps, version)
        shown = self.call("GET", f"{M}/m/config").json
        for _ in range(2):
            self.again()
            self.call("GET", P + "/p", status=404)  # the program was not durable
            self.assertEqual((7, 5, 2), (self.infer(1), self.infer(2), self.files()))
            self.assertEqual(shown, self.call("GET", f"{M}/m/config").json)
            self.assertEqual(["1", "2"], self.call("GET", f"{M}/m").json["versions"])
        self.call("PUT", P + "/p", grows(), 201)
        self.promote(1, 2)
        self.again()
        self.assertEqual((7, 1, 2), (self.infer(1), self.infer(2), self.files()))
        self.call("POST", "/v2/repository/models/m/unload")
        self.assertEqual(0, self.files())
        self.again()
        self.gone(1)
        self.assertEqual(0, self.server.metric("held_bytes"))

    def test_half_of_one_is_none(self):
        self.start()
        self.call("PUT", P + "/p", grows(), 201)
        with open(os.path.join(self.state, "versions"), "w"):
            pass  # a file at the path of the folder
        self.call("POST", P + "/p/promote", {"model": "m", "version": 1, "entry": "test"}, 507)
        self.gone(1)
        os.unlink(os.path.join(self.state, "versions"))
        self.promote(2, 1)
        name, = os.listdir(os.path.join(self.state, "versions"))
        self.promote(3, 2)
        with open(os.path.join(self.state, "versions", name), "r+b") as file:
            file.truncate(100)
        self.again()
        self.gone(1)
        self.assertEqual(3, self.infer(2))
        self.assertIn("version 1 of model m cannot be restored", self.server.log_text())
        self.assertEqual(2, self.files())

    def test_beside_the_folder(self):
        """A version that was promoted over a version of the models folder stays until the folder is loaded again."""
        place = pathlib.Path(self.folder, "models", "m", "1")
        place.mkdir(parents=True)
        entry = grows()["entries"]["test"]
        place.joinpath("model.json").write_text(json.dumps({**entry, "state": {"n": [100, 100]}}))
        self.args = ["--models", str(place.parent.parent), "--model-poll", "0"]
        self.start()
        self.assertEqual(100, self.infer(1))
        self.call("PUT", P + "/p", grows(), 201)
        self.promote(2, 1)
        self.promote(4, 7)
        for _ in range(2):
            self.assertEqual((2, 4), (self.infer(1), self.infer(7)))
            self.again()
        self.call("POST", "/v2/repository/models/m/load")
        for _ in range(2):
            self.assertEqual((100, 0), (self.infer(1), self.files()))
            self.gone(7)
            self.again()

    def test_each_key_has_its_own(self):
        keys = {}
        for name, scopes in (("root", "admin"), ("alice", "run,infer"), ("bob", "run,infer")):
            words = [PROGRAM, "keys", "create", name, "--scopes", scopes, "--state", self.state]
            keys[name] = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]
        self.start()
        for steps, self.key in ((2, keys["alice"]), (5, keys["bob"])):
            self.call("PUT", P + "/p", grows(), 201)
            self.promote(steps, 1)
        self.again()
        for steps, self.key in ((2, keys["alice"]), (5, keys["bob"])):
            self.assertEqual(steps, self.infer(1))
        self.key = keys["root"]
        self.call("DELETE", "/api/v1/keys/alice?purge=true", status=204)
        keys["alice"] = self.call("POST", "/api/v1/keys/alice/rotate").json["key"]
        for _ in range(2):
            self.key = keys["alice"]
            self.gone(1)
            self.key = keys["bob"]
            self.assertEqual((5, 1), (self.infer(1), self.files()))
            self.again()


if __name__ == "__main__":
    unittest.main()
