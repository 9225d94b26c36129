# SPDX-License-Identifier: MIT
"""A device is drained during requests: its contents move to the other device, no request fails, and the device is resumed."""

import concurrent.futures
import contextlib
import os
import subprocess
import tempfile
import threading
import time
import unittest

from repository import PROGRAM, V2, ModelsTest, Server, document, numbers  # imported first, since it adds the folder of the next module to the path
from fixture import SAFETENSORS, counter, graph
import test_devices  # noqa: E402
import test_keys
from training_jobs import J, noisy, noisy_inputs, wait

TWO = test_devices.Several.TWO
D, P = "/api/v1/devices", "/api/v1/programs"
TALLY = {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "state": {"n": [0, 0]}, "nodes": [{"id": "m", "op": "add", "in": ["n", "x"]}], "updates": {"n": "m"}, "outputs": ["m"]}


class Drain(ModelsTest):
    @classmethod
    def fill(cls, repository):
        for name, more in (("joined", {}), ("single", {"max_batch_size": 0})):
            repository.put(name, 1, test_devices.product(), **TWO, **more)
        repository.put("only", 1, test_devices.product(), **test_devices.groups("interp:0"))
        repository.put("plain", 1, test_devices.product())
        repository.put("tally", 1, TALLY, **TWO)
        cls.state = tempfile.TemporaryDirectory()

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), "--backends", "interp", "--tune=off", "--state", cls.state.name, env={"BEAMLINE_INTERP_DEVICES": "2"})

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.state.cleanup()

    def tearDown(self):
        for device in ("interp:0", "interp:1"):
            self.ok(self.call("POST", f"{D}/{device}/resume"))
        self.come_to("interp:0", "ready")
        super().tearDown()

    def device(self, name):
        return next(device for device in self.ok(self.call("GET", D)).json["devices"] if device["id"] == name)

    def come_to(self, device, state, **left):
        end = time.monotonic() + 120
        while True:
            now = self.device(device)
            if now["state"] == state and left.items() <= now["left"].items():
                return now
            self.assertLess(time.monotonic(), end, (now, self.server.log_text()[-3000:]))
            time.sleep(0.02)

    def devices_of(self, model):
        row = self.ok(self.call("GET", f"{V2}{model}/stats")).json["model_stats"][0]
        return {one["device"]: one["state"] for one in row["instance_stats"]}

    def comes_to(self, model, devices):
        end = time.monotonic() + 120
        while self.devices_of(model) != devices:
            self.assertLess(time.monotonic(), end, (model, self.devices_of(model), self.server.log_text()[-3000:]))
            time.sleep(0.02)

    def test_models_while_they_are_asked(self):
        asked = ["joined", "single", "only", "plain", "grown"]
        self.ok(self.call("PUT", f"{P}/p", test_devices.grows()), 201)
        self.ok(self.call("POST", f"{P}/p/run", {"entry": "up", "steps": 2}))
        self.ok(self.call("POST", f"{P}/p/promote", {"model": "grown", "version": 1, "entry": "test"}))
        self.ok(self.call("DELETE", f"{P}/p"), 204)
        over, statuses = threading.Event(), []

        def ask(i):
            while not over.is_set():
                answer = self.infer(asked[i % len(asked)], document(numbers("x", [1, 2], [i, i + 1])))
                statuses.append(answer.status)
                if answer.status != 200 or answer.json["outputs"][0]["data"] != [2 * i, 2 * (i + 1)]:
                    return answer
            return None
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            clients = [pool.submit(ask, i) for i in range(5)]
            try:
                drained = self.ok(self.call("POST", f"{D}/interp:0/drain")).json
                self.assertIn(drained["state"], ("draining", "drained"))
                for model in asked:
                    self.comes_to(model, {"interp:1": "READY"})
                self.come_to("interp:0", "drained", requests=0, models=0)
                self.assertEqual(1, self.server.metric('device_drained{device="interp:0"}'))
                several = len(statuses) + 20
                while len(statuses) < several and not any(client.done() for client in clients):
                    time.sleep(0.01)
                self.assertEqual(0, self.device("interp:0")["queue"])
                self.ok(self.call("POST", f"{D}/interp:0/resume"))
                for model in ("joined", "single"):
                    self.comes_to(model, {"interp:0": "READY", "interp:1": "READY"})
                for model in ("only", "plain", "grown"):
                    self.comes_to(model, {"interp:0": "READY"})
            finally:
                over.set()
            failed = [client.result() for client in clients]
        self.assertEqual([None] * 5, failed, [answer.body[:300] for answer in failed if answer])
        self.assertEqual({200}, set(statuses))
        self.ok(self.unload("grown"))

    def test_a_sequence_ends_where_it_is(self):
        def step(i, **flags):
            return self.ok(self.infer("tally", document(numbers("x", [2], [1, 10]), parameters={"sequence_id": i, **flags}))).json["outputs"][0]["data"]
        self.comes_to("tally", {"interp:0": "READY", "interp:1": "READY"})  # state after another test
        for i in (1, 2, 3, 4):
            self.assertEqual([1, 10], step(i, sequence_start=True))
        self.ok(self.call("POST", f"{D}/interp:0/drain"))
        self.comes_to("only", {"interp:1": "READY"})  # the poller has seen the folder
        for i in (1, 2, 3, 4):
            self.assertEqual([2, 20], step(i))
        self.assertEqual({"interp:0": "DRAINED", "interp:1": "READY"}, self.devices_of("tally"))
        for i in (1, 2, 3, 4):
            self.assertEqual([3, 30], step(i, sequence_end=True))
        self.comes_to("tally", {"interp:1": "READY"})
        self.assertEqual([1, 10], step(1, sequence_start=True, sequence_end=True))

    def test_a_job(self):
        """A job continues on the other device with the same bytes, since both are interpreters."""
        members = {"entry": "train", "inputs": noisy_inputs(), "steps": 2000, "collect": {"every": 100, "outputs": ["loss"]}}
        states = {}
        for name in ("whole", "moved"):
            self.assertIn(self.call("PUT", f"{P}/{name}", noisy()).status, (200, 201))
            job = self.ok(self.call("POST", J, {"program": name, **members}), 202).json["job"]
            if name == "moved":
                end = time.monotonic() + 60
                while self.call("GET", f"{J}/{job}").json["step"] == 0:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.005)
                self.ok(self.call("POST", f"{D}/interp:0/drain"))
            done = wait(self.server, job, seconds=120)
            self.assertEqual("done", done["state"], done)
            self.assertEqual({"whole": ("interp:0", 0), "moved": ("interp:1", 1)}[name], (done["device"], done["restarts"]), done)
            states[name] = self.ok(self.call("GET", f"{P}/{name}/state", headers={"accept": SAFETENSORS})).body
        self.assertEqual(states["whole"], states["moved"])
        for name in states:
            self.ok(self.call("DELETE", f"{P}/{name}"), 204)

    def test_what_is_new_goes_elsewhere(self):
        self.ok(self.call("PUT", "/api/v1/tensors/held?dtype=float32&shape=2", bytes(8), {"content-type": "application/octet-stream"}), 201)
        self.ok(self.call("PUT", f"{P}/here", counter()), 201)
        self.ok(self.call("POST", f"{D}/interp:0/drain"))
        self.assertEqual("interp:1", self.ok(self.call("POST", "/api/v1/run", graph())).json["stats"]["device"])
        held = self.ok(self.call("POST", "/api/v1/run", {"inputs": {"x": {"tensor": "held"}}, "nodes": [{"id": "y", "op": "add", "in": ["x", 1]}], "outputs": ["y"]})).json
        self.assertEqual(("interp:1", [1, 1]), (held["stats"]["device"], held["outputs"]["y"]["data"]))
        self.assertEqual("interp:1", self.ok(self.call("PUT", f"{P}/new", counter()), 201).json["device"])
        self.ok(self.call("POST", f"{P}/here/run", {"steps": 3}))  # a program stays with its state
        for method, path, body in (("POST", "/api/v1/run", graph(device="interp:0")), ("PUT", f"{P}/more", {**counter(), "device": "interp:0"}),
                                   ("PUT", "/api/v1/tensors/more?device=interp:0", {"dtype": "float32", "shape": [1], "data": [1]})):
            answer = self.call(method, path, body)
            self.assertEqual((503, "1"), (answer.status, answer.headers.get("retry-after")), answer.body)
            self.assertIn("interp:0 is drained and takes no new work", answer.json["detail"])
        self.come_to("interp:0", "draining", programs=1, tensors=1)
        for name in ("here", "new"):
            self.ok(self.call("DELETE", f"{P}/{name}"), 204)
        lease = self.ok(self.call("POST", "/api/v1/leases", {"ttl": 600}), 201).json["lease"]
        self.ok(self.call("POST", f"{D}/interp:0/resume"))
        self.ok(self.call("PUT", f"/api/v1/tensors/mine?device=interp:0&lease={lease}", {"dtype": "float32", "shape": [1], "data": [1]}), 201)
        self.ok(self.call("POST", f"{D}/interp:0/drain"))
        self.come_to("interp:0", "draining", programs=0, tensors=2)
        self.ok(self.call("DELETE", f"/api/v1/leases/{lease}"), 204)
        self.come_to("interp:0", "draining", tensors=1)
        self.ok(self.call("DELETE", "/api/v1/tensors/held"), 204)
        self.come_to("interp:0", "drained", tensors=0)

    def test_the_last_one_stays(self):
        self.ok(self.call("POST", f"{D}/interp:1/drain"))
        answer = self.call("POST", f"{D}/interp:0/drain")
        self.assertEqual((409, "interp:0 is the last device that takes new work: resume another first"), (answer.status, answer.json["detail"]))
        self.ok(self.call("POST", f"{D}/interp:1/drain"))  # draining twice is no error
        self.assertEqual(["ready", "drained"], [self.come_to("interp:0", "ready")["state"], self.come_to("interp:1", "drained")["state"]])
        self.assertEqual(404, self.call("POST", f"{D}/interp:2/drain").status)

    def test_the_command(self):
        def run(*words):
            return subprocess.run([PROGRAM, "devices", *words], capture_output=True, text=True, check=False, env={**os.environ, "BEAMLINE_URL": f"http://127.0.0.1:{self.server.port}"})
        done = run("drain", "interp:1")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('"id":"interp:1"', done.stdout)
        self.come_to("interp:1", "drained")
        refused = run("drain", "interp:0")
        self.assertEqual((1, ""), (refused.returncode, refused.stdout))
        self.assertIn("the last device", refused.stderr)
        self.assertEqual(0, run("resume", "interp:1", f"http://127.0.0.1:{self.server.port}").returncode)
        self.assertEqual("ready", self.device("interp:1")["state"])
        self.assertEqual(2, run("drain").returncode)


class Restarts(unittest.TestCase):
    """A drained device stays drained after a restart."""

    def setUp(self):
        self.state = tempfile.TemporaryDirectory()
        self.addCleanup(self.state.cleanup)

    @contextlib.contextmanager
    def started(self, devices):
        server = Server("--backends", "interp", "--tune=off", "--state", self.state.name, env={"BEAMLINE_INTERP_DEVICES": str(devices)})
        try:
            yield server
        finally:
            self.assertEqual(0, server.stop())

    @staticmethod
    def states(server):
        return [device["state"] for device in server.call("GET", D).json["devices"]]

    @staticmethod
    def places(server):
        """Returns the devices of a graph, a program and a tensor; the latter existed before."""
        return [server.call("POST", "/api/v1/run", graph()).json["stats"]["device"], server.call("GET", f"{P}/p").json["device"],
                server.call("GET", "/api/v1/tensors").json["tensors"][0]["device"]]

    def test_still_drained(self):
        with self.started(2) as server:
            self.assertEqual(201, server.call("PUT", "/api/v1/tensors/t?durable=true", [1, 2]).status)
            self.assertEqual(201, server.call("PUT", f"{P}/p?durable=true", counter()).status)
            self.assertEqual(["interp:0"] * 3, self.places(server))
            self.assertEqual(200, server.call("POST", f"{D}/interp:0/drain").status)
            self.assertEqual("draining", self.states(server)[0])
        with self.started(2) as server:
            self.assertEqual(["drained", "ready"], self.states(server))
            self.assertEqual(["interp:1"] * 3, self.places(server))
            self.assertEqual([1, 2], server.call("GET", "/api/v1/tensors/t").json["data"])
            self.assertEqual(503, server.call("POST", "/api/v1/run", graph(device="interp:0")).status)
            self.assertIn("interp:0 is still drained", server.log_text())
            self.assertEqual(200, server.call("POST", f"{D}/interp:0/resume").status)
        with self.started(2) as server:
            self.assertEqual(["ready", "ready"], self.states(server))
            self.assertEqual(["interp:0"] * 3, self.places(server))

    def test_there_is_no_other(self):
        """Without another device, the drained device is used; it is drained again when another device exists."""
        with self.started(2) as server:
            self.assertEqual(200, server.call("POST", f"{D}/interp:0/drain").status)
        with self.started(1) as server:
            self.assertEqual(["ready"], self.states(server))
            self.assertIn("interp:0 was drained, but takes work again", server.log_text())
            self.assertEqual(200, server.call("POST", "/api/v1/run", graph()).status)
        with self.started(3) as server:
            self.assertEqual(["drained", "ready", "ready"], self.states(server))
        with self.started(1) as server:
            self.assertEqual(200, server.call("POST", f"{D}/interp:0/resume").status)  # also for the next start
        with self.started(2) as server:
            self.assertEqual(["ready", "ready"], self.states(server))


class Rights(test_keys.KeyedCase):
    KEYS = {"root": ("admin",), "alice": ("run,train,infer,metrics",)}
    ARGS = ("--backends", "interp", "--tune=off")

    def test_who_may(self):
        for what in ("drain", "resume"):
            self.refused(403, self.call("alice", "POST", f"{D}/interp:0/{what}"))
        self.refused(409, self.call("root", "POST", f"{D}/interp:0/drain"), "the last device")
        self.assertNotIn("left", self.call("alice", "GET", D).json["devices"][0])
        self.assertIn("left", self.call("root", "GET", D).json["devices"][0])


if __name__ == "__main__":
    unittest.main()
