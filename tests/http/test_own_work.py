# SPDX-License-Identifier: MIT
"""Work of the server itself for a key, which the quotas of the key do not limit."""

import threading
import time
import unittest

from fixture import SLOW_STEPS, counter
from test_keys import Keys, KeyedCase
from training_jobs import J

P = "/api/v1/programs"
GONE = "the key has had its device time of today"


def grows():
    """Returns a program for training and inference."""
    return {"state": {"n": [0, 0]}, "entries": {
        "up": {"inputs": {}, "nodes": [{"id": "m", "op": "add", "in": ["n", 1]}], "updates": {"n": "m"}, "outputs": ["m"]},
        "test": {"inputs": {"x": {"dtype": "float32", "shape": [2]}}, "nodes": [{"id": "y", "op": "mul", "in": ["n", "x"]}], "outputs": ["y"]}}}


class Restarts(unittest.TestCase):
    """Quotas that are lowered, or used up, before the server starts again."""

    def setUp(self):
        self.keys = Keys()
        self.addCleanup(self.keys.folder.cleanup)
        self.key = self.keys.make("a", "run,train,infer")
        self.server = None
        self.start()
        self.addCleanup(lambda: self.server.stop())

    def start(self, *options):
        self.server = self.keys.server("--backends", "interp", *options)

    def again(self, *quotas, options=()):
        self.assertEqual(0, self.server.stop(), self.server.last[-3000:])
        if quotas:
            self.keys.run("keys", "set", "a", *quotas)
        self.start(*options)

    def call(self, method, path, body=None):
        return self.server.call(method, path, body, {"x-api-key": self.key})

    def ok(self, answer, status=200):
        self.assertEqual(status, answer.status, answer.body[:1000])
        return answer

    def submit(self, name, steps):
        self.ok(self.call("PUT", f"{P}/{name}", grows()), 201)
        return self.ok(self.call("POST", J, {"program": name, "entry": "up", "inputs": {}, "steps": steps}), 202).json["job"]

    def until(self, job, found, seconds=60):
        """Waits until |found| is true for the job."""
        end = time.monotonic() + seconds
        while not found(now := self.call("GET", f"{J}/{job}").json):
            self.assertLess(time.monotonic(), end, now)
            time.sleep(0.02)
        return now

    def state(self, name):
        return self.ok(self.call("GET", f"{P}/{name}/state")).json["state"]["n"]["data"]

    def test_t23_what_was_there_comes_back(self):
        left = self.submit("left", 7)
        self.until(left, lambda job: job["state"] == "done")
        self.ok(self.call("PUT", f"{P}/durable?durable=true", grows()), 201)
        self.ok(self.call("POST", f"{P}/left/promote", {"model": "m", "version": 1, "entry": "test"}))
        goes = self.submit("goes", SLOW_STEPS)
        self.until(goes, lambda job: job["step"] > 100)
        for spent in (("--device-seconds", "0", "--memory", "1", "--queue", "1"), ()):
            self.again(*spent)
            job = self.until(goes, lambda job: job["reason"] == GONE or job["state"] == "failed")
            self.assertEqual(("queued", GONE), (job["state"], job["reason"]))
            self.assertEqual(([7, 7], [0, 0]), (self.state("left"), self.state("durable")))
            self.ok(self.call("GET", "/v2/models/m/versions/1/ready"))
            self.assertEqual(429, self.call("POST", f"{P}/left/run", {"entry": "up", "inputs": {}}).status)  # a request of the client, which the quota limits
        self.again("--device-seconds", "none")
        self.until(goes, lambda now: now["step"] > job["step"])
        self.ok(self.call("DELETE", f"{J}/{goes}"), 202)
        ended = self.until(goes, lambda job: job["state"] == "cancelled")
        self.assertEqual([ended["step"]] * 2, self.state("goes"))

    def test_t23_more_jobs_than_places(self):
        jobs = [self.submit(f"p{i}", SLOW_STEPS) for i in range(5)]
        for quotas, options in ((("--queue", "1"), ()), (("--queue", "none"), ("--max-queue", "1"))):
            self.again(*quotas, options=options)
            for job in jobs:
                now = self.until(job, lambda job: job["reason"] != "is being taken up again" and (job["restarts"] > 0 or job["state"] == "failed"))
                self.assertIn(now["state"], ("queued", "running"), now)
        for job in jobs:
            self.ok(self.call("DELETE", f"{J}/{job}"), 202)
            self.until(job, lambda job: job["state"] == "cancelled")


class Writer(KeyedCase):
    KEYS = {"root": ("admin",), "one": ("run,train",)}
    ARGS = ("--backends", "interp")

    def wait(self, job, states, seconds=60):
        end = time.monotonic() + seconds
        while (now := self.call("one", "GET", f"{J}/{job}").json)["state"] not in states:
            self.assertLess(time.monotonic(), end, now)
            time.sleep(0.02)
        return now

    def submit(self, name, **members):
        self.ok(self.call("one", "PUT", f"{P}/{name}", counter()), 201)
        return self.ok(self.call("one", "POST", J, {"program": name, "inputs": {}, **members}), 202).json["job"]

    def test_t23_it_is_written_whoever_reads(self):
        """The job's writer stores reports, although reads of histories use all of the key's places in the writer's queue."""
        told = self.submit("told", steps=30000, collect={"every": 1, "outputs": ["m"]})
        self.wait(told, ("done",))
        jobs = [self.submit(f"p{i}", steps=SLOW_STEPS, checkpoint={"seconds": 0.05}) for i in range(2)]
        self.ok(self.call("root", "PUT", "/api/v1/keys/one", {"quotas": {"queue": 1}}))
        stop, statuses = threading.Event(), []

        def read():
            while not stop.is_set():
                statuses.append(self.call("one", "GET", f"{J}/{told}/history").status)
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for job in jobs:
                self.wait(job, ("running",))
                while statuses.count(200) < 2 or 429 not in statuses:
                    time.sleep(0.02)
                statuses.clear()
                self.ok(self.call("one", "DELETE", f"{J}/{job}"), 202)
                self.assertEqual("cancelled", self.wait(job, ("cancelled", "failed", "done"))["state"])
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertLessEqual(set(statuses), {200, 429})


class Limits(KeyedCase):
    KEYS = {"a": ("train",), "b": ("train",)}
    ARGS = ("--backends", "interp", "--max-jobs", "2")

    def submit(self, name, program, steps):
        self.assertIn(self.call(name, "PUT", f"{P}/{program}", counter()).status, (200, 201))
        return self.call(name, "POST", J, {"program": program, "inputs": {}, "steps": steps})

    def done(self, name, program):
        job, end = self.ok(self.submit(name, program, 1), 202).json["job"], time.monotonic() + 60
        while self.call(name, "GET", f"{J}/{job}").json["state"] != "done":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        return job

    def listed(self, name):
        return [job["job"] for job in self.call(name, "GET", J).json["jobs"]]

    def test_t23_jobs_are_each_keys(self):
        kept = [self.done("b", f"p{i}") for i in range(2)]
        mine = [self.done("a", f"p{i}") for i in range(4)]
        self.assertEqual((mine[2:], kept), (self.listed("a"), self.listed("b")))
        for i in range(2):
            self.ok(self.submit("a", f"q{i}", SLOW_STEPS), 202)
        self.refused(507, self.submit("a", "q2", 1), "2 jobs that have not ended")
        self.ok(self.call("b", "GET", f"{J}/{kept[0]}/history"))
        self.assertEqual(kept[1:] + [self.done("b", "p2")], self.listed("b"))


if __name__ == "__main__":
    unittest.main()
