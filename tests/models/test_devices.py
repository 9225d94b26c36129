# SPDX-License-Identifier: MIT
"""Models and devices: eviction of weights, and instances on several devices of which one may be lost."""

import base64
import concurrent.futures
import json
import os
import subprocess
import tempfile
import time
import unittest

from repository import PROGRAM, ModelsTest, Repository, Server, document, numbers

VULKAN = {"BEAMLINE_VULKAN_STAGING": "1"}
N = 1 << 20  # elements of a model's weights, 4 MiB


def has_vulkan():
    out = subprocess.run([PROGRAM, "devices", "--backends", "vulkan"], capture_output=True, text=True, env={**os.environ, **VULKAN, "BEAMLINE_STATE": "none"}).stdout
    return "vulkan:0" in out


def heavy(value):
    """Returns the first two weights times x."""
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 2]}}, "dims": {"batch": [1, 8]}, "state": {"w": {"op": "full", "attrs": {"shape": [N], "value": value}}},
            "nodes": [{"id": "a", "op": "slice", "in": ["w"], "attrs": {"start": [0], "stop": [2]}}, {"id": "y", "op": "mul", "in": ["x", "a"]}], "outputs": ["y"]}


def adding(value):
    """Returns the sum of a sequence's inputs, times weights."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "state": {"w": {"op": "full", "attrs": {"shape": [N], "value": value}}, "s": [0, 0]},
            "nodes": [{"id": "a", "op": "slice", "in": ["w"], "attrs": {"start": [0], "stop": [2]}}, {"id": "p", "op": "mul", "in": ["x", "a"]},
                      {"id": "t", "op": "add", "in": ["s", "p"]}], "updates": {"s": "t"}, "outputs": ["t"]}


def remembering():
    """Returns the sum of a sequence's inputs, as a million elements."""
    return {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "state": {"s": {"op": "full", "attrs": {"shape": [N], "value": 0}}},
            "nodes": [{"id": "d", "op": "sum", "in": ["x"]}, {"id": "t", "op": "add", "in": ["s", "d"]},
                      {"id": "a", "op": "slice", "in": ["t"], "attrs": {"start": [N - 2], "stop": [N]}}], "updates": {"s": "t"}, "outputs": ["a"]}


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Residents(ModelsTest):
    """More weights than device memory, on a device whose memory the host cannot access: weights are evicted to host memory."""

    @classmethod
    def fill(cls, repository):
        for i in range(6):
            repository.put(f"m{i}", 1, heavy(i + 1))
            repository.put(f"s{i}", 1, adding(i + 1))
        repository.put("long", 1, remembering())

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), "--backends", "vulkan", "--device-memory", "24M", "--pool", "8M", "--tune=off", env=VULKAN)

    def test_weights_take_turns(self):
        moved = self.server.metric("weights_moved_in_total")
        for turn in range(3):
            for i in (0, 5, 2, 3, 1, 4):
                answer = self.ok(self.infer(f"m{i}", document(numbers("x", [1, 2], [1, 10])))).json
                self.assertEqual([i + 1, 10 * (i + 1)], answer["outputs"][0]["data"], (turn, i))
                flags = {"sequence_id": 7, **({} if turn else {"sequence_start": True})}
                answer = self.ok(self.infer(f"s{i}", document(numbers("x", [2], [1, 10]), parameters=flags))).json
                self.assertEqual([(turn + 1) * (i + 1), 10 * (turn + 1) * (i + 1)], answer["outputs"][0]["data"], (turn, i))
        self.assertGreaterEqual(self.server.metric("weights_moved_in_total") - moved, 12)

    def test_sequences_take_turns(self):
        """Ten sequences of 4 MiB each with a limit of 24 MiB; one sequence restarts while its state is evicted, and each
        ends."""
        def step(i, **flags):
            answer = self.infer("long", document(numbers("x", [2], [i, 1]), parameters={"sequence_id": i + 1, **flags}))
            return self.ok(answer).json["outputs"][0]["data"]
        moved = self.server.metric("sequences_moved_in_total")
        for turn in range(3):
            for i in range(10):
                self.assertEqual([(turn + 1) * (i + 1)] * 2, step(i, **({} if turn else {"sequence_start": True})), (turn, i))
        self.assertGreaterEqual(self.server.metric("sequences_moved_in_total") - moved, 10)
        self.assertEqual([1, 1], step(0, sequence_start=True))
        self.assertEqual([2, 2], step(0))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual([[4 * (i + 1)] * 2 for i in range(1, 10)], list(pool.map(lambda i: step(i, sequence_end=True), range(1, 10))))
        self.assertEqual([3, 3], step(0, sequence_end=True))


WIDTH = 96


def product(most=4, **more):
    """Returns a product that takes the interpreter some milliseconds for any batch."""
    return {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 2]}}, "dims": {"batch": [1, most]},
            "state": {"w": {"op": "normal", "attrs": {"shape": [WIDTH, WIDTH], "seed": 1}}},
            "nodes": [{"id": "sx", "op": "sum", "in": ["x"]}, {"id": "zx", "op": "mul", "in": ["sx", 0]}, {"id": "wx", "op": "add", "in": ["w", "zx"]},
                      {"id": "w2", "op": "matmul", "in": ["wx", "w"]}, {"id": "s", "op": "sum", "in": ["w2"]}, {"id": "z", "op": "mul", "in": ["s", 0]},
                      {"id": "xx", "op": "mul", "in": ["x", 2]}, {"id": "y", "op": "add", "in": ["xx", "z"]}], "outputs": ["y"], **more}


def groups(*devices):
    return {"instance_group": [{"device": device} for device in devices]}


class Several(ModelsTest):
    """Instances on several devices: two interpreters, and a faster driver."""

    TWO = groups("interp:0", "interp:1")

    @classmethod
    def fill(cls, repository):
        repository.put("joined", 1, product(), **cls.TWO)
        repository.put("single", 1, product(), max_batch_size=0, **cls.TWO)
        repository.put("uneven", 1, product(), **groups("interp:0", "opencl:0"))
        repository.put("cpu", 1, product(), instance_group=[{"kind": "KIND_CPU"}])

    @classmethod
    def start(cls):
        return Server("--models", str(cls.repository.path), "--backends", "opencl,interp", "--tune=off", env={"BEAMLINE_INTERP_DEVICES": "2"})

    def instances(self, model):
        """Returns the inferences of each instance and of all, once the answered requests are counted."""
        end = time.monotonic() + 30
        while True:
            row = self.ok(self.call("GET", f"/v2/models/{model}/stats")).json["model_stats"][0]
            counts = [(one["inference_count"], one["execution_count"]) for one in row["instance_stats"]]
            if (row["inference_count"], row["execution_count"]) == tuple(map(sum, zip(*counts))) or time.monotonic() > end:
                return {one["device"]: one for one in row["instance_stats"]}, row

    def many(self, model, count, clients=8):
        def one(i):
            answer = self.infer(model, document(numbers("x", [1, 2], [i, i + 1])))
            self.assertEqual([2 * i, 2 * (i + 1)], self.ok(answer).json["outputs"][0]["data"])
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            list(pool.map(one, range(count)))

    def parts(self, model, count, clients, wanted):
        """Returns each device's share of |count| inferences once |wanted| is true, since measurements on a busy machine may
        mislead for a while."""
        end = time.monotonic() + 90
        while True:
            before = self.instances(model)[0]
            self.many(model, count, clients)
            after, row = self.instances(model)
            got = {device: (after[device]["inference_count"] - before[device]["inference_count"]) / count for device in after}
            if wanted(got) or time.monotonic() > end:
                self.assertTrue(wanted(got), (got, row["instance_stats"]))
                return after, row

    def test_equal_devices_get_equal_parts(self):
        for model in ("joined", "single"):
            each, row = self.parts(model, 120, 24, lambda got: min(got.values()) > 0.25)
            self.assertEqual({"interp:0", "interp:1"}, set(each))
            self.assertEqual(row["inference_count"], sum(one["inference_count"] for one in each.values()), model)
            self.assertEqual(row["execution_count"], sum(one["execution_count"] for one in each.values()), model)
            for one in each.values():
                self.assertEqual("READY", one["state"])
            self.assertEqual(["interp:0", "interp:1"], [use["id"] for use in row["memory_usage"]])
            for use in row["memory_usage"]:
                self.assertGreaterEqual(use["byte_size"], 4 * WIDTH * WIDTH)

    def test_who_is_done_first_is_asked(self):
        """With one request at a time, the slow device is tried only occasionally."""
        self.parts("uneven", 100, 1, lambda got: got["opencl:0"] > 0.8)

    def test_who_is_slow_takes_its_part_of_a_load(self):
        """Under load each device gets requests in proportion to its measured speed."""
        self.parts("uneven", 200, 24, lambda got: 0 < got["interp:0"] < got["opencl:0"])

    def test_groups_that_can_be(self):
        config = self.ok(self.call("GET", "/v2/models/joined/config")).json
        self.assertEqual(["interp:0", "interp:1"], [group["device"] for group in config["instance_group"]])
        config = self.ok(self.call("GET", "/v2/models/cpu/config")).json
        self.assertEqual(["opencl:0"], [group["device"] for group in config["instance_group"]])

    def test_groups_that_cannot_be(self):
        for group, word in (([{"count": 2}], "name several devices"), ([{"kind": "KIND_MODEL"}], "KIND_AUTO, KIND_CPU and KIND_GPU"),
                            ([{"kind": "KIND_CPU", "gpus": [0]}], "KIND_CPU takes no"), ([{"kind": "KIND_GPU", "gpus": [97]}], "gpus has 97"),
                            ([{"gpus": [97]}], "gpus has 97"), ([{"kind": "KIND_GPU", "device": "interp:0"}], "not a device of the kind"),
                            ([{"device": "interp:0", "gpus": [0]}], "exclude each other"), ([{"device": "interp:1"}, {"device": "interp:1"}], "interp:1 is given twice"),
                            ([{}, {"device": "opencl:0"}], "opencl:0 is given twice"), ([{}, {}], "the best one is given twice"),
                            ([{"gpus": ["0"]}], "gpus"), ([{"count": 0}], "count"), ([{"kind": 1}], "kind"), ([{"device": "interp:7"}], "interp:7"),
                            ([{"device": f"interp:{i}"} for i in range(17)], "over 16")):
            self.repository.put("bad", 1, product(), instance_group=group)
            self.refused(501 if "count" in group[0] and group[0]["count"] > 1 or group[0].get("kind") == "KIND_MODEL" else 400, self.load("bad"), word)


class Lost(ModelsTest):
    """A device is lost during requests: other devices continue, no request fails, and the device comes back."""

    @classmethod
    def setUpClass(cls):
        cls.repository = Repository()
        for name, more in (("joined", {}), ("single", {"max_batch_size": 0})):
            cls.repository.put(name, 1, product(), **Several.TWO, **more)
        cls.repository.put("only", 1, product(), **groups("interp:0"))

    @classmethod
    def tearDownClass(cls):
        cls.repository.remove()

    def tearDown(self):
        pass  # each server was stopped

    def lose(self, nth, models):
        """Fails the |nth| call of a device during requests."""
        type(self).server = Server("--models", str(self.repository.path), "--backends", "interp", "--tune=off",
                             env={"BEAMLINE_INTERP_DEVICES": "2", "BEAMLINE_FAULT": f"device:{nth}"})
        try:
            self.wait_ready()

            def one(i):
                answer = self.infer(models[i % len(models)], document(numbers("x", [1, 2], [i, i + 1])))
                if answer.status == 200:
                    self.assertEqual([2 * i, 2 * (i + 1)], answer.json["outputs"][0]["data"])
                return answer
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                answers = list(pool.map(one, range(240)))
            lost = self.server.metric("device_lost_total")
            for model in models:
                self.comes_back(model)
            return lost, answers
        finally:
            self.assertEqual(0, self.server.stop(), self.server.log_text()[-3000:])

    def comes_back(self, model):
        end = time.monotonic() + 60
        states = None
        while states != {"READY"} and time.monotonic() < end:
            rows = self.ok(self.call("GET", f"/v2/models/{model}/stats")).json["model_stats"]
            states = {one["state"] for one in rows[0]["instance_stats"]}
            time.sleep(0.05)
        self.assertEqual({"READY"}, states, self.server.log_text()[-3000:])
        self.assertEqual([2, 4], self.ok(self.infer(model, document(numbers("x", [1, 2], [1, 2])))).json["outputs"][0]["data"])

    def test_t14_the_others_go_on(self):
        lost = 0
        for nth in range(150, 156):
            with self.subTest(nth=nth):
                gone, answers = self.lose(nth, ["joined", "single"])
                lost += gone
                if gone:
                    self.assertEqual({200}, {answer.status for answer in answers}, [answer.body for answer in answers if answer.status != 200])
        self.assertGreater(lost, 0)

    def test_t14_the_only_one_comes_back(self):
        lost = 0
        for nth in range(150, 156):
            with self.subTest(nth=nth):
                gone, answers = self.lose(nth, ["only"])
                lost += gone
                for answer in answers:
                    if answer.status != 200:
                        self.assertIn(answer.status, (500, 503), answer.body)
        self.assertGreater(lost, 0)


def grows():
    return {"state": {"n": [0, 0]}, "entries": {
        "up": {"inputs": {}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]},
        "test": {"inputs": {"x": {"dtype": "float32", "shape": [1, 2]}}, "nodes": [{"id": "y", "op": "mul", "in": ["n", "x"]}], "outputs": ["y"]}}}


class Mended(ModelsTest):
    """Models that are not in the models folder return with their device: promoted versions, and models from a request."""

    @classmethod
    def setUpClass(cls):
        pass  # each test starts its servers

    @classmethod
    def tearDownClass(cls):
        pass

    def tearDown(self):
        pass

    def begin(self, state, **env):
        type(self).server = Server("--backends", "interp", "--tune=off", "--state", state, env=env)

    def fill(self):
        """Makes the model `grown`, version 1 promoted after three steps and version 2 after four, and `sent`, which doubles."""
        files = {"config": json.dumps({"max_batch_size": 0}), "file:1/model.json": base64.b64encode(json.dumps(product()).encode()).decode()}
        self.ok(self.load("sent", **files))
        self.ok(self.call("PUT", "/api/v1/programs/p", grows()), 201)
        for version, steps in ((1, 3), (2, 1)):
            self.ok(self.call("POST", "/api/v1/programs/p/run", {"entry": "up", "steps": steps}))
            self.ok(self.call("POST", "/api/v1/programs/p/promote", {"model": "grown", "version": version, "entry": "test"}))

    def ask(self, model, factor):
        answer = self.infer(model, document(numbers("x", [1, 2], [1, 2])))
        if answer.status == 200:
            self.assertEqual([factor, 2 * factor], answer.json["outputs"][0]["data"], model)
        else:
            self.assertIn(answer.status, (500, 503), answer.body)
        return answer.status

    ALL = (("sent", 2), ("grown/versions/1", 3), ("grown/versions/2", 4))

    def all_answer(self):
        end = time.monotonic() + 60
        while (found := {model: self.ask(model, factor) for model, factor in self.ALL}) != {model: 200 for model, _ in self.ALL} and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual({model: 200 for model, _ in self.ALL}, found, self.server.log_text()[-3000:])

    def lose(self, state, nth):
        """Fails the |nth| call of the device during requests.  Returns whether the device was lost."""
        self.begin(state, BEAMLINE_FAULT=f"device:{nth}")
        self.fill()
        held = self.server.metric("held_bytes")
        for i in range(200):
            if self.ask(*self.ALL[i % 3]) != 200:
                break
        lost = self.server.metric("device_lost_total") > 0
        self.all_answer()
        if lost:
            self.ok(self.call("DELETE", "/api/v1/programs/p"), 204)
            self.assertEqual(held - 8, self.server.settled("held_bytes", held - 8))  # each model exists once
            self.assertEqual(2, len(os.listdir(os.path.join(state, "versions"))))
        return lost

    def after(self, state):
        """Stored models return after the next start, and disappear after an unload."""
        self.server.process.kill()
        self.server.process.wait()
        self.server.stop()
        self.begin(state)
        self.wait_ready()
        for version, factor in self.ALL:
            self.assertEqual(200, self.ask(version, factor))
        self.ok(self.unload("grown"))
        self.ok(self.unload("sent"))
        for part in ("versions", "models"):
            self.assertEqual([], os.listdir(os.path.join(state, part)))
        self.assertEqual(0, self.server.settled("held_bytes", 0))

    def test_t14_what_is_in_no_folder(self):
        lost = 0
        for nth in range(150, 156):
            with self.subTest(nth=nth), tempfile.TemporaryDirectory() as state:
                try:
                    if self.lose(state, nth):
                        lost += 1
                        self.after(state)
                finally:
                    self.assertEqual(0, self.server.stop(), self.server.log_text()[-3000:])
        self.assertGreater(lost, 0)

    def test_what_was_unloaded_stays_away(self):
        """A model that was unloaded while the device was lost does not return with the device."""
        lost = 0
        for nth in range(150, 156):
            with self.subTest(nth=nth), tempfile.TemporaryDirectory() as state:
                self.begin(state, BEAMLINE_FAULT=f"device:{nth}")
                try:
                    self.fill()
                    for i in range(200):
                        self.ask(*self.ALL[i % 3])
                        if self.server.metric("device_lost_total") > 0:
                            lost += 1
                            break
                    self.ok(self.unload("sent"))
                    self.ok(self.unload("grown"))
                    self.assertEqual(8, self.server.settled("held_bytes", 8))  # the program
                    for _ in range(20):
                        self.assertEqual({404}, {self.infer(model, document(numbers("x", [1, 2], [1, 2]))).status for model, _ in self.ALL})
                finally:
                    self.assertEqual(0, self.server.stop(), self.server.log_text()[-3000:])
        self.assertGreater(lost, 0)


if __name__ == "__main__":
    unittest.main()
