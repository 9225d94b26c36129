# SPDX-License-Identifier: MIT
"""Fail each allocation of a request once, and each device call once.

Each failure gives a matching answer.  The server survives, loses no data, and serves the next request.
"""

import contextlib
import gzip
import json
import mmap
import os
import pathlib
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest

from fixture import JSON, OCTETS, SAFETENSORS, Server, counter, graph, read_safetensors, safetensors, sanitizers
from training_jobs import J, places, wait

HERE = pathlib.Path(__file__).resolve().parent
RUN, PROGRAMS, TENSORS = "/api/v1/run", "/api/v1/programs", "/api/v1/tensors"
GZIP = {**JSON, "content-encoding": "gzip"}
MOST = 3000  # limit of allocations per request


def novel(nth, **members):
    """Returns a new graph, with a gradient and several kernels, that is not in the plan cache."""
    nodes = [{"id": "a", "op": "mul", "in": ["x", nth + 0.25]}, {"id": "r", "op": "reshape", "in": ["a"], "attrs": {"shape": [2, 1]}},
             {"id": "q", "op": "permute", "in": ["r"], "attrs": {"axes": [1, 0]}}, {"id": "m", "op": "matmul", "in": ["r", "q"]},
             {"id": "s", "op": "softmax", "in": ["m"], "attrs": {"axis": 1}}, {"id": "l", "op": "mean", "in": ["s"]},
             {"id": ["d"], "op": "grad", "in": ["l", "x"]}]
    return {"inputs": {"x": [1, 2]}, "nodes": nodes, "outputs": ["l", "d"], **members}


def trained(nth):
    """Returns a program with an initialiser, random numbers and an optimiser."""
    nodes = [{"id": "p", "op": "mul", "in": ["w", nth + 0.25]}, {"id": "q", "op": "dropout", "in": ["p"], "attrs": {"p": 0.5}},
             {"id": "l", "op": "mean", "in": ["q"]}, {"id": ["v"], "op": "adam", "in": ["l", "w"], "attrs": {"lr": 0.1}}]
    return {"inputs": {}, "state": {"w": {"op": "uniform", "attrs": {"shape": [4], "seed": nth}}, "b": [1, 2]}, "nodes": nodes,
            "updates": {"w": "v"}, "outputs": ["l"]}


def file_of(document):
    return safetensors({"x": ("F32", [2], struct.pack("<2f", 1, 2))}, {"request": json.dumps({k: v for k, v in document.items() if k != "inputs"})})


# name: (method, path, body or a function of n, headers, status)
ASKED = {
    "cached run": ("POST", RUN, graph(), {}, 200),
    "new graph": ("POST", RUN, novel, {}, 200),
    "new graph, all told": ("POST", RUN, lambda n: novel(n, debug=5), {}, 200),
    "kept": ("POST", RUN, lambda n: graph(inputs={"x": {"tensor": "held"}}, keep={"other": "y", f"k{n % 3}": "y"}), {}, 200),
    "file": ("POST", RUN, file_of(graph()), {"content-type": SAFETENSORS, "accept": SAFETENSORS}, 200),
    "gzip": ("POST", RUN, gzip.compress(json.dumps(graph()).encode()), GZIP, 200),
    "named dimension": ("POST", RUN, lambda n: {"inputs": {"x": [1, 2]}, "shapes": {"x": ["n"]}, "dims": {"n": [1, n + 4]},
                                                "nodes": [{"id": "s", "op": "sum", "in": ["x"]}], "outputs": ["s"]}, {}, 200),
    "wrong graph": ("POST", RUN, graph(outputs=["z"]), {}, 422),
    "malformed": ("POST", RUN, b'{"nodes": [1, {"a": ', JSON, 400),
    "unknown": ("GET", "/nothing/" + "x" * 3000, None, {}, 404),
    "tensor of bytes": ("PUT", TENSORS + "/t?dtype=float32&shape=2", bytes(8), OCTETS, 201),
    "tensor of text": ("PUT", TENSORS + "/t", {"dtype": "float32", "shape": [2], "data": [1, 2]}, {}, 201),
    "tensor in gzip": ("PUT", TENSORS + "/t?dtype=float32&shape=2", gzip.compress(bytes(8)), {**OCTETS, "content-encoding": "gzip"}, 201),
    "tensor as file": ("GET", TENSORS + "/held", None, {"accept": SAFETENSORS}, 200),
    "tensor as text": ("GET", TENSORS + "/held", None, {}, 200),
    "tensors": ("GET", TENSORS, None, {}, 200),
    "program": ("PUT", PROGRAMS + "/new", trained, {}, (200, 201)),
    "step": ("POST", PROGRAMS + "/count/run", {"steps": 3, "collect": {"every": 1, "outputs": ["m"]}}, {}, 200),
    "step with others": ("POST", PROGRAMS + "/rows/run", {"inputs": {"x": [[1, 2]]}}, {}, 200),
    "state": ("GET", PROGRAMS + "/count/state", None, {}, 200),
    "state as file": ("GET", PROGRAMS + "/count/state", None, {"accept": SAFETENSORS}, 200),
    "new state": ("PUT", PROGRAMS + "/other/state", {"state": {"n": 5}}, {}, 204),
    "programs": ("GET", PROGRAMS, None, {}, 200),
    "one program": ("GET", PROGRAMS + "/count", None, {}, 200),
    "lease": ("POST", "/api/v1/leases", {"ttl": 1}, {}, 201),
    "many deleted": ("POST", TENSORS + "/delete", {"names": ["a", "b"]}, {}, 200),
    "history": ("GET", "/api/v1/jobs/JOB/history", None, {}, 200),
    "devices": ("GET", "/api/v1/devices", None, {}, 200),
    "metrics": ("GET", "/metrics", None, {}, 200),
}


class Failing(unittest.TestCase):
    """A server with the preloaded failing allocator; a shared file selects the failing call."""

    @classmethod
    def setUpClass(cls):
        if sanitizers():
            raise unittest.SkipTest("a sanitizer has an allocator of its own")
        cls.folder = tempfile.TemporaryDirectory()
        library, shared = os.path.join(cls.folder.name, "failing.so"), os.path.join(cls.folder.name, "shared")
        pathlib.Path(shared).write_bytes(bytes(16))
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, HERE / "failing_malloc.c"], check=True)
        with open(shared, "r+b") as file:
            cls.shared = mmap.mmap(file.fileno(), 16)
        cls.env = {"LD_PRELOAD": library, "FAILING_MALLOC": shared}

    @classmethod
    def tearDownClass(cls):
        cls.shared.close()
        cls.folder.cleanup()

    @classmethod
    def start(cls, *args, **env):
        return Server("--backends", "interp", "--log-level", "error", *args, env={**cls.env, **env})

    def arm(self, nth):
        """Makes the n-th allocation from now fail.  Returns the number of failures so far."""
        self.shared[0:8] = nth.to_bytes(8, "little")
        return int.from_bytes(self.shared[8:16], "little")


class EveryAllocation(Failing):
    """All allocations of each kind of request."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.start("--max-plans", "8")
        for path, body in (("/held", [1, 2]), ("/other", [1, 2]), ("/k0", [1]), ("/k1", [1]), ("/k2", [1])):
            assert cls.server.call("PUT", TENSORS + path, body).status == 201
        wide = counter(state={"n": {"dtype": "float32", "shape": [1000]}})
        rows = {"inputs": {"x": {"dtype": "float32", "shape": ["rows", 2]}}, "dims": {"rows": [1, 8]}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 2]}], "outputs": ["y"],
                "batching": {"delay_us": 1}}
        for name, document in (("rows", rows), ("count", counter()), ("other", counter()), ("told", wide), ("new", trained(0))):
            assert cls.server.call("PUT", f"{PROGRAMS}/{name}", document).status == 201
        told = {"program": "told", "inputs": {}, "steps": 150, "collect": {"every": 1, "outputs": ["m"]}}  # exceeds the memory that a request keeps for the next request
        cls.job = cls.server.call("POST", J, told).json["job"]
        assert wait(cls.server, cls.job)["state"] == "done"

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        super().tearDownClass()
        if status != 0:
            raise AssertionError(f"the server ended with {status}:\n" + cls.server.log_text()[-3000:])

    def count(self):
        state = self.server.call("GET", PROGRAMS + "/count/state").json["state"]["n"]["data"][0]
        self.assertEqual(state, self.server.call("GET", PROGRAMS + "/count").json["steps"])
        return state

    def fail_each(self, method, path, body, headers, status):
        """Fails each allocation in turn until the request succeeds.  Returns the number of failures."""
        wanted = status if isinstance(status, tuple) else (status,)
        for nth in range(1, MOST):
            asked = body(nth) if callable(body) else body
            steps = self.count() if path.endswith("/count/run") else 0
            if path.endswith("/history"):  # the memory of such a long answer is freed, so the next request starts without any
                self.assertEqual(200, self.server.call(method, path.replace("JOB", self.job)).status)
            before = self.arm(nth)
            answer = self.server.call(method, path.replace("JOB", self.job), asked, headers)
            struck = self.arm(0) > before
            if not struck:
                self.assertIn(answer.status, wanted, answer.body[:500])
                return nth - 1
            if answer.status not in wanted:
                self.assertIn(answer.status, (503, 507), (nth, answer.body[:500]))
                self.assertEqual("application/problem+json", answer.type)
                self.assertEqual(answer.status, answer.json["status"])
                if path.endswith("/count/run"):  # the answer has the applied steps
                    self.assertEqual(steps + answer.json.get("step", 0), self.count())
        self.fail("it never went through")

    def test_t26_each_request(self):
        failed = {}
        for name, asked in ASKED.items():
            with self.subTest(name):
                failed[name] = self.fail_each(*asked)
                self.assertEqual([2, 4], self.server.call("POST", RUN, graph()).json["outputs"]["y"]["data"])
        self.assertEqual([1, 2], self.server.call("GET", TENSORS + "/held").json["data"])
        self.assertGreater(failed["new graph"], 100, failed)
        self.assertGreater(failed["program"], failed["new graph"] // 2, failed)

    def test_t26_a_job(self):
        """A job with an evaluating program: an accepted job ends, and a refused job leaves nothing."""
        programs = {"trains": counter(), "watches": {"inputs": {}, "state": {"n": {"dtype": "float32", "shape": []}, "by": 10.0}, "outputs": ["v"],
                                                     "nodes": [{"id": "v", "op": "mul", "in": ["n", "by"]}]}}
        for name, program in programs.items():
            self.assertEqual(201, self.server.call("PUT", f"{PROGRAMS}/{name}", program).status)
        held = self.server.metric("held_bytes")
        asked = {"program": "trains", "inputs": {}, "steps": 4, "evaluate": {"program": "watches", "every": 2, "outputs": ["v"]}}
        refused, struck, nth = 0, True, 0
        while struck:
            nth += 1
            self.assertLess(nth, MOST)
            start = self.server.call("GET", f"{PROGRAMS}/trains/state").json["state"]["n"]["data"][0]
            before = self.arm(nth)
            answer = self.server.call("POST", J, asked)
            struck = self.arm(0) > before
            if answer.status != 202:
                self.assertTrue(struck)
                self.assertIn(answer.status, (503, 507), (nth, answer.body[:500]))
                refused += 1
                continue
            job = f"{J}/{answer.json['job']}"
            ended = wait(self.server, answer.json["job"])
            self.assertIn(ended["state"], ("done", "failed") if struck else ("done",), ended)
            rows = self.server.call("GET", f"{job}/history").json["rows"]
            self.assertEqual([[2, 10 * start + 20], [4, 10 * start + 40]][:len(rows)], [[row[0], row[2]] for row in rows])
            self.assertTrue(len(rows) == 2 or ended["state"] == "failed", ended)
            self.assertEqual(204, self.server.call("DELETE", f"{job}?remove=true").status)
        self.assertGreater(refused, 20)
        self.assertEqual(held, self.server.settled("held_bytes", held))
        for name in programs:
            self.assertEqual(204, self.server.call("DELETE", f"{PROGRAMS}/{name}").status)

    def test_t26_nothing_is_left_behind(self):
        """A request that failed midway keeps neither device memory nor a tensor."""
        def look():
            self.assertEqual(0, self.server.settled("leases", 0))  # leases of other tests expire
            held = {name: self.server.metric(name) for name in ("tensors", "programs", "held_bytes", "requests_active")}
            return {**held, "live": self.server.metric('device_bytes{device="interp:0"}') - self.server.metric('device_pool_bytes{device="interp:0"}')}

        asked = ("new graph", "kept", "file", "tensor of bytes", "program", "step", "new state")
        for name in asked:
            self.fail_each(*ASKED[name])
        before = look()
        for name in asked:
            self.fail_each(*ASKED[name])
        end = time.monotonic() + 10
        while (after := look()) != before and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(before, after)


class EveryAllocationOfJobs(Failing):
    """All allocations of requests about jobs on disk."""

    def setUp(self):
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        self.state = state.name
        self.server = None

    def tearDown(self):
        self.arm(0)
        if self.server is not None:
            self.assertEqual(0, self.server.stop())

    def up(self):
        self.server = self.start(BEAMLINE_STATE=self.state)

    def submit(self):
        return self.server.call("POST", J, {"program": "p", "inputs": {}, "steps": 3})

    def leave(self):
        """Waits until the only job has released its program."""
        for job in self.server.call("GET", J).json["jobs"]:
            wait(self.server, job["job"])
            self.assertEqual(204, self.server.call("DELETE", f"{J}/{job['job']}?remove=true").status)
        self.assertIn(self.server.call("PUT", f"{PROGRAMS}/p", counter()).status, (200, 201))
        left = self.submit().json["job"]
        self.assertEqual("done", wait(self.server, left)["state"])
        return left

    def rows(self, sql):
        with contextlib.closing(sqlite3.connect(f"file:{self.state}/beamline.db?mode=ro", uri=True)) as store:
            return store.execute(sql).fetchall()

    def test_t26_a_job_that_is_refused(self):
        """The earlier job has released the program of the new job."""
        self.up()
        left, refused = self.leave(), 0
        for nth in range(1, MOST):
            before = self.arm(nth)
            answer = self.submit()
            struck = self.arm(0) > before
            if answer.status == 202 and not struck:
                break
            if answer.status == 202:  # the failure hit another thread, or came after the answer
                left = self.leave()
                continue
            refused += 1
            self.assertIn(answer.status, (503, 507), answer.body[:500])
            self.assertEqual([(left,)], self.rows("SELECT job FROM job_programs"))
            self.assertEqual([left], os.listdir(os.path.join(self.state, "jobs")))
            self.assertEqual([left], [job["job"] for job in self.server.call("GET", J).json["jobs"]])
        self.assertGreater(refused, 10)
        self.assertEqual("done", wait(self.server, answer.json["job"])["state"])

    def test_t26_while_it_goes_on(self):
        """Whatever fails while the job runs, the job ends."""
        self.up()
        self.assertEqual(201, self.server.call("PUT", f"{PROGRAMS}/p", counter()).status)
        document = {"program": "p", "inputs": {}, "steps": 3000, "checkpoint": {"every": 500}, "collect": {"every": 100, "outputs": ["m"]}}
        ends = set()
        for nth in range(1, 60):
            job = self.server.call("POST", J, document).json["job"]
            self.arm(nth)
            end = time.monotonic() + 30
            while (state := self.server.call("GET", f"{J}/{job}").json.get("state")) not in ("done", "failed"):  # None: the query itself failed
                self.assertLess(time.monotonic(), end, (nth, state))
            self.arm(0)
            ends.add(state)
        self.assertIn("done", ends)

    def test_t26_at_the_start(self):
        """A server without memory for its jobs does not start; it must not treat their files as orphans."""
        self.up()
        self.assertEqual(201, self.server.call("PUT", f"{PROGRAMS}/p", counter()).status)
        for _ in range(25):
            self.assertEqual("done", wait(self.server, self.submit().json["job"])["state"])
        self.assertEqual(0, self.server.stop())
        files = sorted(path for path in pathlib.Path(self.state, "jobs").rglob("*"))
        self.arm(1 << 40)
        self.up()
        total = (1 << 40) - int.from_bytes(self.shared[0:8], "little")
        self.assertEqual(0, self.server.stop())
        failed = 0
        for nth in range(max(total - 900, 1), total, 31):
            self.arm(nth)
            try:
                self.up()
                self.arm(0)
                self.assertEqual(0, self.server.stop())
            except RuntimeError as failure:
                self.assertIn("beamline: ", str(failure))
                failed += 1
            self.server = None
            self.assertEqual(files, sorted(path for path in pathlib.Path(self.state, "jobs").rglob("*")), nth)
        self.assertGreater(failed, 5)
        self.arm(0)
        self.up()
        self.assertEqual(25, len(self.server.call("GET", J).json["jobs"]))
        self.assertEqual([3 * 25], self.server.call("GET", f"{PROGRAMS}/p/state").json["state"]["n"]["data"])


class EveryCallOfADevice(unittest.TestCase):
    """Fails the n-th device call since the start.  If the device is lost, the server opens it again."""

    def try_all(self, server, asked):
        """Sends the requests until all succeed.  Returns the statuses of the failures."""
        bad = []
        for _ in range(8):
            answers = [server.call(method, path, body) for method, path, body in asked]
            for answer in answers:
                if answer.status >= 300:
                    self.assertEqual("application/problem+json", answer.type)
                    self.assertIn(answer.status, (404, 409, 500, 503, 507), answer.body)
                    self.assertTrue(answer.status != 500 or answer.json["title"] == "the device failed", answer.body)
                    bad.append(answer.status)
            if all(answer.status < 300 for answer in answers):
                self.assertEqual([2, 4], answers[-1].json["outputs"]["y"]["data"])
                return bad
        self.fail(f"it never came back: {bad}")

    def fail_each(self, backend, most, stride):
        asked = [("PUT", PROGRAMS + "/p", trained(1)), ("POST", PROGRAMS + "/p/run", {"steps": 70}), ("GET", PROGRAMS + "/p/state", None),
                 ("PUT", TENSORS + "/t", [1, 2]), ("POST", RUN, novel(1, keep={"k": "d"})), ("POST", RUN, graph(inputs={"x": {"tensor": "t"}}))]
        struck = lost = 0
        for nth in range(1, most, stride):
            with self.subTest(backend=backend, nth=nth):
                try:
                    server = Server("--backends", backend, "--pool", "0", env={"BEAMLINE_FAULT": f"device:{nth}"})
                except RuntimeError as failure:
                    self.assertIn("beamline: ", str(failure))
                    continue
                try:
                    if server.call("GET", "/api/v1/devices").json["devices"][0]["id"] != f"{backend}:0":
                        self.skipTest(f"there is no {backend} device")
                    struck += len(self.try_all(server, asked)) > 0
                    lost += server.metric("device_lost_total") > 0
                    for path in (PROGRAMS + "/p", TENSORS + "/t", TENSORS + "/k"):
                        self.assertEqual(204, server.call("DELETE", path).status)
                    self.assertEqual(0, server.settled("held_bytes", 0))
                finally:
                    self.assertEqual(0, server.stop(), server.log_text()[-2000:])
        self.assertGreater(struck, 3)
        self.assertGreater(lost, 0)

    def test_t14_interp(self):
        self.fail_each("interp", 60, 1)

    def test_t14_opencl(self):
        self.fail_each("opencl", 100, 7)

    def test_t14_vulkan(self):
        self.fail_each("vulkan", 100, 9)


class RefusedLaunches(unittest.TestCase):
    """The n-th launch since the start fails for lack of driver memory; with whole-step submission, the n-th submission
    fails."""

    def run_places(self, server):
        """Runs steps until one is refused.  Returns the number of successful steps."""
        for done in range(0, 9, 3):
            answer = server.call("POST", PROGRAMS + "/p/run", {"steps": 3})
            if answer.status != 200:
                self.assertEqual(507, answer.status, answer.body)
                return done + answer.json["step"]
        return 9

    def judge(self, server, done):
        """Returns the condition of the program after some steps: "whole", or "lost", which lasts until the next PUT."""
        state = server.call("GET", PROGRAMS + "/p/state")
        if state.status == 200:
            self.assertEqual([done], state.json["state"]["n"]["data"])
            self.assertEqual([*range(1, done + 1)] + [0] * (64 - done), state.json["state"]["s"]["data"])
            return "whole"
        asked = (("GET", "/p/state", None), ("POST", "/p/run", {}), ("PUT", "/p/state", {"state": {"n": 0}}))
        for answer in [server.call(method, PROGRAMS + path, body) for method, path, body in asked]:
            self.assertEqual(409, answer.status, answer.body)
            self.assertIn("put the program again", answer.json["detail"])
        self.assertTrue(server.call("GET", PROGRAMS + "/p").json["lost"])
        self.assertEqual(200, server.call("PUT", PROGRAMS + "/p", places()).status)
        return "lost"

    def others(self, server, steps):
        """Checks that nothing else was lost."""
        self.assertEqual(0, server.metric("device_lost_total"))
        self.assertEqual([1, 2], server.call("GET", TENSORS + "/t").json["data"])
        self.assertEqual([steps], server.call("GET", PROGRAMS + "/other/state").json["state"]["n"]["data"])
        self.assertEqual(200, server.call("POST", PROGRAMS + "/other/run", {}).status)
        self.assertEqual(200, server.call("POST", PROGRAMS + "/p/run", {}).status)

    def refuse_each(self, backend, numbers):
        """Refuses each launch in turn.  Returns all outcomes."""
        found = set()
        for nth in numbers:
            with self.subTest(backend=backend, nth=nth):
                server = Server("--backends", backend, "--tune=off", env={"BEAMLINE_FAULT": f"launch:{nth}"})
                try:
                    if server.call("GET", "/api/v1/devices").json["devices"][0]["id"] != f"{backend}:0":
                        self.skipTest(f"there is no {backend} device")
                    for method, path, body in (("PUT", TENSORS + "/t", [1, 2]), ("PUT", PROGRAMS + "/other", counter()), ("POST", PROGRAMS + "/other/run", {}),
                                               ("PUT", PROGRAMS + "/p", places())):
                        status = server.call(method, path, body).status
                        self.assertIn(status if status != 507 else server.call(method, path, body).status, (200, 201))
                    done = self.run_places(server)
                    outcome = self.judge(server, done)
                    found.add(outcome if done < 9 else "untouched")
                    self.others(server, 1)
                finally:
                    self.assertEqual(0, server.stop(), server.log_text()[-2000:])
        return found

    def test_t14_refused_on_interp(self):
        self.assertEqual({"untouched", "whole", "lost"}, self.refuse_each("interp", range(1, 12)))

    def test_t14_refused_on_opencl(self):
        self.assertLessEqual({"whole", "lost"}, self.refuse_each("opencl", range(8, 18)))

    def test_t14_refused_on_vulkan(self):
        self.assertEqual({"untouched", "whole"}, self.refuse_each("vulkan", range(1, 10)))


if __name__ == "__main__":
    unittest.main()
