# SPDX-License-Identifier: MIT
"""More weights and tensors than device memory: the least recently used are evicted to host memory.

On Vulkan the eviction uses staging memory, where the host cannot access device memory.
"""

import os
import struct
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from fixture import OCTETS, PROGRAM, SLOW_STEPS, Server, ServerTest
from training_jobs import J, wait

N = 1 << 20  # elements of a program's weights: 4 MiB
VULKAN = {"BEAMLINE_VULKAN_STAGING": "1"}


def has_vulkan():
    out = subprocess.run([PROGRAM, "devices", "--backends", "vulkan"], capture_output=True, text=True, env={**os.environ, **VULKAN, "BEAMLINE_STATE": "none"}).stdout
    return "vulkan:0" in out


def program(value):
    """Returns a program with weights that start as `value`, an entry that reads a sum of some weights, and an entry that adds
    to all."""
    return {"state": {"w": {"op": "full", "attrs": {"shape": [N], "value": value}}}, "entries": {
        "look": {"inputs": {"x": {"dtype": "float32", "shape": [2]}},
                 "nodes": [{"id": "a", "op": "slice", "in": ["w"], "attrs": {"start": [0], "stop": [2]}}, {"id": "y", "op": "mul", "in": ["a", "x"]}], "outputs": ["y"]},
        "step": {"inputs": {}, "nodes": [{"id": "v", "op": "add", "in": ["w", 1]}, {"id": "b", "op": "slice", "in": ["v"], "attrs": {"start": [0], "stop": [1]}}],
                 "updates": {"w": "v"}, "outputs": ["b"]}}}


def content(value):
    """Returns 4 MiB with the number `value`, and the number 7 at the end."""
    return struct.pack("<f", value) * (N - 1) + struct.pack("<f", 7)


FLAGS = ("--backends", "vulkan", "--device-memory", "24M", "--pool", "8M", "--tune=off")


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Residents(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(*FLAGS, env=VULKAN)

    def put(self, name, value):
        return self.call("PUT", "/api/v1/programs/" + name, program(value))

    def look(self, name):
        answer = self.ok(self.call("POST", f"/api/v1/programs/{name}/run", {"entry": "look", "inputs": {"x": [1, 10]}}))
        return answer.json["outputs"]["y"]["data"]

    def test_weights_take_turns(self):
        """Ten programs of 4 MiB with a limit of 24 MiB: each answers correctly in any order of use, and no step is lost."""
        for i in range(10):
            self.assertIn(self.put(f"p{i}", i).status, (200, 201), i)
        self.assertGreaterEqual(self.server.metric("weights_moved_out_total"), 5)
        for turn in range(3):
            for i in (0, 9, 4, 5, 1, 8, 2, 7, 3, 6):
                self.assertEqual([i + turn, 10 * (i + turn)], self.look(f"p{i}"), (turn, i))
                self.assertEqual([i + turn + 1], self.ok(self.call("POST", f"/api/v1/programs/p{i}/run", {"entry": "step"})).json["outputs"]["b"]["data"])
        self.assertGreaterEqual(self.server.metric("weights_moved_in_total"), 10)
        state = self.ok(self.call("GET", "/api/v1/programs/p0/state", headers={"accept": "application/x-safetensors"})).body
        self.assertEqual(struct.pack("<f", 3.0) * N, state[-4 * N:])
        for i in range(10):
            self.ok(self.call("DELETE", f"/api/v1/programs/p{i}"), 204)
        self.assertEqual(0, self.server.settled("held_bytes", 0))  # the last run releases its memory after its answer

    def test_what_is_used_often_stays(self):
        for i in range(8):
            self.assertIn(self.put(f"q{i}", i).status, (200, 201))
            self.look("q0")
        before = self.server.metric("weights_moved_in_total")
        for _ in range(5):
            self.look("q0")
        self.assertEqual(before, self.server.metric("weights_moved_in_total"))
        for i in range(8):
            self.ok(self.call("DELETE", f"/api/v1/programs/q{i}"), 204)

    def test_a_job_and_what_evaluates_it(self):
        """The trained weights return to the device for each step, while weights of the evaluating program alone stay where they
        are."""
        self.assertIn(self.put("trained", 1).status, (200, 201))
        part = {"start": [0], "stop": [1]}
        judge = {"inputs": {}, "state": {"w": {"dtype": "float32", "shape": [N]}, "k": {"op": "full", "attrs": {"shape": [N], "value": 3}}}, "outputs": ["y"], "nodes": [
            {"id": "a", "op": "slice", "in": ["w"], "attrs": part}, {"id": "b", "op": "slice", "in": ["k"], "attrs": part}, {"id": "y", "op": "mul", "in": ["a", "b"]}]}
        self.ok(self.call("PUT", "/api/v1/programs/judge", judge), 201)
        job = self.ok(self.call("POST", J, {"program": "trained", "entry": "step", "steps": 60, "inputs": {},
                                            "evaluate": {"program": "judge", "every": 2, "outputs": ["y"]}}), 202).json["job"]
        self.ok(self.call("DELETE", "/api/v1/programs/judge"), 204)
        before = self.server.metric("weights_moved_out_total")
        for i in range(8):
            self.assertIn(self.put(f"s{i}", i).status, (200, 201))
            self.assertEqual([i, 10 * i], self.look(f"s{i}"))
        self.assertEqual("done", wait(self.server, job)["state"])
        self.assertGreater(self.server.metric("weights_moved_out_total"), before)
        rows = self.ok(self.call("GET", f"{J}/{job}/history")).json["rows"]
        self.assertEqual([[step, 3 * (1 + step)] for step in range(2, 61, 2)], [[row[0], row[2]] for row in rows])
        self.assertEqual([61, 610], self.look("trained"))
        for name in ("trained", *(f"s{i}" for i in range(8))):
            self.ok(self.call("DELETE", f"/api/v1/programs/{name}"), 204)
        self.assertEqual(0, self.server.settled("held_bytes", 0))

    def test_uploads_make_room_too(self):
        """Uploads run on another thread than the device's."""
        for i in range(5):
            self.assertIn(self.put(f"r{i}", i).status, (200, 201))
        for i in range(3):
            self.ok(self.call("PUT", f"/api/v1/tensors/t{i}?dtype=float32&shape={N}", struct.pack("<f", i) * N, OCTETS), 201)
        for i in range(5):
            self.assertEqual([i, 10 * i], self.look(f"r{i}"))
        for i in range(3):
            self.assertEqual(struct.pack("<f", i) * N, self.ok(self.call("GET", f"/api/v1/tensors/t{i}", headers={"accept": "application/octet-stream"})).body)
            self.ok(self.call("DELETE", f"/api/v1/tensors/t{i}"), 204)
        for i in range(5):
            self.ok(self.call("DELETE", f"/api/v1/programs/r{i}"), 204)

    def test_who_asks_too_much_is_told_and_nobody_else(self):
        for i in range(6):
            self.assertIn(self.put(f"s{i}", i).status, (200, 201))
        big = {"state": {"w": {"op": "full", "attrs": {"shape": [8 * N], "value": 1}}}, "inputs": {}, "nodes": [{"id": "v", "op": "add", "in": ["w", 1]}], "updates": {"w": "v"},
               "outputs": []}
        answer = self.call("PUT", "/api/v1/programs/big", big)
        self.refused(507, answer)
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(self.call, "PUT", "/api/v1/programs/big", big) for _ in range(3)] + [pool.submit(self.look, f"s{i}") for i in range(6)]
            self.assertEqual([507] * 3, [one.result().status for one in asked[:3]])
            self.assertEqual([[i, 10 * i] for i in range(6)], [one.result() for one in asked[3:]])
        for i in range(6):
            self.ok(self.call("DELETE", f"/api/v1/programs/s{i}"), 204)


class TensorsTest(ServerTest):
    """Helpers for tests with tensors of 4 MiB."""

    def put(self, name, value, more=""):
        return self.ok(self.call("PUT", f"/api/v1/tensors/{name}?dtype=float32&shape={N}{more}", content(value), OCTETS), 201)

    def get(self, name):
        return self.ok(self.call("GET", "/api/v1/tensors/" + name, headers={"accept": "application/octet-stream"})).body

    def delete(self, *names):
        for name in names:
            self.ok(self.call("DELETE", "/api/v1/tensors/" + name), 204)

    @staticmethod
    def adding(*names):
        """Returns the sums of all first and of all last elements."""
        nodes, total = [], "x0"
        for i in range(1, len(names)):
            nodes.append({"id": f"s{i}", "op": "add", "in": [total, f"x{i}"]})
            total = f"s{i}"
        nodes += [{"id": "a", "op": "slice", "in": [total], "attrs": {"start": [0], "stop": [1]}},
                  {"id": "b", "op": "slice", "in": [total], "attrs": {"start": [N - 1], "stop": [N]}}]
        return {"inputs": {f"x{i}": {"tensor": name} for i, name in enumerate(names)}, "nodes": nodes, "outputs": ["a", "b"]}

    def ends(self, *names):
        outputs = self.ok(self.call("POST", "/api/v1/run", self.adding(*names))).json["outputs"]
        return outputs["a"]["data"] + outputs["b"]["data"]

    def listed(self, name):
        return next(one for one in self.ok(self.call("GET", "/api/v1/tensors")).json["tensors"] if one["name"] == name)

    def moved(self):
        """Returns the bytes evicted to the host, which all reports must agree on."""
        one = self.ok(self.call("GET", "/api/v1/devices")).json["devices"][0]["memory_moved"]
        self.assertEqual([one, one], [self.ok(self.call("GET", "/api/v1/now")).json["devices"][0]["memory_moved"], self.server.metric('device_moved_bytes{device="vulkan:0"}')])
        return one


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Tensors(TensorsTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(*FLAGS, env=VULKAN)

    def tearDown(self):
        self.assertEqual(0, self.server.settled("held_bytes", 0))  # the last run releases its memory after its answer
        self.assertEqual(0, self.server.settled('device_moved_bytes{device="vulkan:0"}', 0))
        super().tearDown()

    def test_tensors_take_turns(self):
        """Ten tensors of 4 MiB with a limit of 24 MiB: read while evicted, used alone and in pairs in any order, and deleted
        while evicted."""
        for i in range(10):
            self.put(f"t{i}", i)
        out = self.server.metric("tensors_moved_out_total")
        self.assertGreaterEqual(out, 4)
        self.assertGreaterEqual(self.moved(), 4 * 4 * N)
        listed = self.ok(self.call("GET", "/api/v1/tensors")).json["tensors"]
        self.assertEqual({"t0", "t1", "t2", "t3"}, {"t0", "t1", "t2", "t3"} & {one["name"] for one in listed if one.get("moved")})
        shown = subprocess.run([PROGRAM, "top", f"http://127.0.0.1:{self.server.port}", "--times", "1"], capture_output=True, text=True, timeout=60).stdout
        self.assertRegex(shown, r"vulkan:0: [\d.]+% busy, \d+ in the queue, [\d.]+ MB of [\d.]+ [MG]B, [\d.]+ MB more wait on the host")
        before = self.server.metric("tensors_moved_in_total")
        for i in range(10):
            self.assertEqual(content(i), self.get(f"t{i}"), i)
        self.assertEqual(before, self.server.metric("tensors_moved_in_total"))  # a read of an evicted tensor needs no device
        for turn in range(3):
            for i in (0, 9, 4, 5, 1, 8, 2, 7, 3, 6):
                self.assertEqual([i, 7], self.ends(f"t{i}"), (turn, i))
                self.assertEqual([i + (i + turn) % 10, 14], self.ends(f"t{i}", f"t{(i + turn) % 10}"), (turn, i))
        self.assertGreaterEqual(self.server.metric("tensors_moved_in_total") - before, 10)
        self.delete(*(f"t{i}" for i in range(10)))

    def test_one_order_for_all(self):
        """Programs and tensors share one eviction order: a program in use stays, and older tensors are evicted; and vice
        versa."""
        self.assertIn(self.call("PUT", "/api/v1/programs/p", program(3)).status, (200, 201))
        look = lambda: self.ok(self.call("POST", "/api/v1/programs/p/run", {"entry": "look", "inputs": {"x": [1, 10]}})).json["outputs"]["y"]["data"]
        back = self.server.metric("weights_moved_in_total"), self.server.metric("weights_moved_out_total")
        for i in range(10):
            self.put(f"t{i}", i)
            self.assertEqual([3, 30], look())
        self.assertEqual(back, (self.server.metric("weights_moved_in_total"), self.server.metric("weights_moved_out_total")))
        out = self.server.metric("tensors_moved_out_total")
        for _ in range(3):
            for i in (7, 8, 9, 6, 5, 4):
                self.assertEqual([i, 7], self.ends(f"t{i}"))
        self.assertGreater(self.server.metric("weights_moved_out_total"), back[1])
        self.assertGreater(self.server.metric("tensors_moved_out_total"), out)
        self.assertEqual([3, 30], look())
        self.delete(*(f"t{i}" for i in range(10)))
        self.ok(self.call("DELETE", "/api/v1/programs/p"), 204)

    def test_who_asks_too_much_is_told_and_nobody_else(self):
        """A run that needs nine tensors at once is refused, while runs with one or two tensors succeed."""
        for i in range(9):
            self.put(f"t{i}", i)
        much = self.adding(*(f"t{i}" for i in range(9)))
        with ThreadPoolExecutor(6) as pool:
            asked = [pool.submit(self.call, "POST", "/api/v1/run", much) for _ in range(4)]
            few = [pool.submit(self.ends, f"t{i % 9}") for i in range(36)]
            self.assertEqual([507] * 4, [one.result().status for one in asked])
            self.assertEqual([[i % 9, 7] for i in range(36)], [one.result() for one in few])
        self.delete(*(f"t{i}" for i in range(9)))

    def test_many_at_once(self):
        """Clients that concurrently upload, use, read and delete their own tensors, and use those of others."""
        for i in range(6):
            self.put(f"all{i}", i)

        def client(n):
            for turn in range(6):
                self.put(f"c{n}", 100 + n + turn)
                self.assertEqual([100 + n + turn, 7], self.ends(f"c{n}"))
                self.assertEqual([(n + turn) % 6, 7], self.ends(f"all{(n + turn) % 6}"))
                self.assertEqual(content(100 + n + turn), self.get(f"c{n}"))
                if turn % 2:
                    self.delete(f"c{n}")
        with ThreadPoolExecutor(3) as pool:
            for one in [pool.submit(client, n) for n in range(3)]:
                one.result()
        self.delete(*(f"all{i}" for i in range(6)))

    def test_by_reference(self):
        """Two programs share a tensor, which is evicted after both and returns with either."""
        self.put("w", 5)
        shared = {"state": {"w": {"tensor": "w", "share": True}}, "inputs": {"x": {"dtype": "float32", "shape": [2]}},
                  "nodes": [{"id": "a", "op": "slice", "in": ["w"], "attrs": {"start": [N - 2], "stop": [N]}}, {"id": "y", "op": "mul", "in": ["a", "x"]}], "outputs": ["y"]}
        for name in ("one", "two"):
            self.assertIn(self.call("PUT", "/api/v1/programs/" + name, shared).status, (200, 201))
        run = lambda name: self.ok(self.call("POST", f"/api/v1/programs/{name}/run", {"inputs": {"x": [1, 10]}})).json["outputs"]["y"]["data"]
        for turn in range(3):
            for i in range(7):
                self.put(f"t{i}", i)
                self.ends(f"t{i}")
            if turn < 2:
                self.assertTrue(self.listed("w").get("moved"))
                self.assertEqual([5, 70], run(("one", "two")[turn]))
        self.delete("w")  # both programs still refer to the tensor
        self.assertEqual([[5, 70]] * 2, [run(name) for name in ("one", "two")])
        for name in ("one", "two"):
            self.ok(self.call("DELETE", "/api/v1/programs/" + name), 204)
        self.delete(*(f"t{i}" for i in range(7)))

    def test_a_job_trains_on_what_waits(self):
        """The data of a queued job are evicted meanwhile, and the job ends with the result of a job alone."""
        self.put("data", 2)
        spec = {"state": {"s": [0.0]}, "inputs": {"x": {"dtype": "float32", "shape": [N]}},
                "nodes": [{"id": "a", "op": "slice", "in": ["x"], "attrs": {"start": [0], "stop": [1]}}, {"id": "v", "op": "add", "in": ["s", "a"]}], "updates": {"s": "v"}, "outputs": []}
        jobs = []
        self.put("zeros", 0)
        for name, tensor, steps in (("first", "zeros", SLOW_STEPS), ("second", "data", 2000)):
            self.assertIn(self.call("PUT", "/api/v1/programs/" + name, spec).status, (200, 201))
            jobs.append(self.ok(self.call("POST", "/api/v1/jobs", {"program": name, "inputs": {"x": {"tensor": tensor}}, "steps": steps}), 202).json["job"])
        wait(self.server, jobs[0], ("running",))
        for i in range(7):
            self.put(f"t{i}", i)
            self.assertEqual([i, 7], self.ends(f"t{i}"))
        self.assertTrue(self.listed("data").get("moved"))
        before = self.server.metric("tensors_moved_in_total")
        self.ok(self.call("DELETE", "/api/v1/jobs/" + jobs[0]), 202)
        self.assertEqual("done", wait(self.server, jobs[1])["state"])
        self.assertEqual([4000.0], self.ok(self.call("GET", "/api/v1/programs/second/state")).json["state"]["s"]["data"])
        self.assertGreater(self.server.metric("tensors_moved_in_total"), before)
        for job, name in zip(jobs, ("first", "second")):
            wait(self.server, job)
            self.ok(self.call("DELETE", f"/api/v1/jobs/{job}?remove=true"), 204)
            self.ok(self.call("DELETE", "/api/v1/programs/" + name), 204)
        self.delete("data", "zeros", *(f"t{i}" for i in range(7)))


@unittest.skipUnless(has_vulkan(), "needs a Vulkan device")
class Durable(TensorsTest):
    @classmethod
    def setUpClass(cls):
        pass  # each test starts its servers

    @classmethod
    def tearDownClass(cls):
        pass  # and stops them

    def tearDown(self):
        pass

    def test_restart_while_they_wait(self):
        """More durable tensors than device memory, before and after a restart."""
        with tempfile.TemporaryDirectory() as state:
            type(self).server = Server(*FLAGS, "--state", state, env=VULKAN)
            for i in range(8):
                self.put(f"d{i}", i, "&durable=true")
            self.assertGreaterEqual(self.moved(), 8 * N)
            self.assertEqual(0, self.server.stop())
            type(self).server = Server(*FLAGS, "--state", state, env=VULKAN)
            self.assertGreaterEqual(self.moved(), 8 * N)
            for i in (0, 7, 3, 4, 1, 6, 2, 5):
                self.assertEqual(content(i), self.get(f"d{i}"))
                self.assertEqual([i, 7], self.ends(f"d{i}"))
            self.delete(*(f"d{i}" for i in range(8)))
            self.assertEqual(0, self.server.settled('device_moved_bytes{device="vulkan:0"}', 0))
            self.assertEqual(0, self.server.stop())


if __name__ == "__main__":
    unittest.main()
